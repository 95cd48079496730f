//! The HTTP API and the dashboard of Outlast, as an axum [`Router`](axum::Router).
//!
//! ```
//! use axum::Router;
//! use outlast::{Client, Sqlite};
//! use outlast_http::{Role, Settings, Token};
//! use std::net::SocketAddr;
//! use tokio::net::TcpListener;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Sqlite::in_memory()?);
//!
//! // Closed by default: without a token only connections from this machine are answered.
//! let (secret, token) = Token::generate("deploy script", Role::Operate)?;
//! println!("keep this: {secret}");
//! let settings = Settings::new().token(token);
//!
//! let app = Router::new().nest("/admin/outlast", outlast_http::router(client, settings));
//! let listener = TcpListener::bind("127.0.0.1:3000").await?;
//! // The router learns here where a connection comes from.
//! let app = app.into_make_service_with_connect_info::<SocketAddr>();
//! axum::serve(listener, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without tokens the router accepts only connections from this machine, so it must know the
//! address of each peer. A plain `axum::serve(listener, app)` does not provide it, and every
//! request is refused.
//!
//! `docs/http.md` describes the routes, their bodies and their errors. `/v1/openapi.json` has the
//! same for programs and is generated from the code. The dashboard is at `/ui/`, below the prefix
//! of the router.
//!
//! [`serve`] runs a router on its own listener, with a bound on every timeout and a graceful
//! shutdown. An application that mounts the router sets these itself.

mod access;
mod api;
mod bodies;
mod dashboard;
mod limits;
mod openapi;
mod overview;
mod problem;
mod read_budget;
mod requests;
mod routes;
mod server;
mod settings;

pub use access::guard::{NotGuarded, check_address};
pub use access::signature::{BadSecret, WebhookRoute, WebhookSecret};
pub use access::tokens::{BadToken, Role, Token};
pub use limits::Limits;
pub use problem::Code;
pub use routes::router;
pub use server::serve::{ServeLimits, serve};
pub use settings::Settings;
