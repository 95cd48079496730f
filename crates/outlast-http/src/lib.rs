//! The HTTP API and the dashboard of Outlast, as an axum [`Router`](axum::Router) to mount anywhere.
//!
//! ```
//! use axum::Router;
//! use outlast::prelude::*;
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
//! Without tokens the router must know where each connection comes from. With a plain `axum::serve(listener, app)` it does
//! not, and refuses every request: an unknown peer is never taken for this machine.
//!
//! The routes, their shapes and their errors are in `docs/http.md`; the same for programs is at `/v1/openapi.json`,
//! which is made from the code. The dashboard is at `/ui/`, below whatever prefix the router has.
//!
//! [`serve`] runs a router by itself, with every timeout bounded and a graceful stop; mounted in an application, those
//! are the application's.

mod api;
mod attention;
mod auth;
mod barrier;
mod charts;
mod connections;
mod cursor;
mod dashboard;
mod extract;
mod guard;
mod limits;
mod openapi;
mod problem;
mod query;
mod read_budget;
mod routes;
mod scoped_queries;
mod serve;
mod settings;
mod shape;
mod signature;
mod step_counter;
mod time;
mod workflow_body;
mod write_timeout;

pub use auth::{BadToken, Role, Token};
pub use guard::{NotGuarded, check_address};
pub use limits::Limits;
pub use problem::Code;
pub use routes::router;
pub use serve::{ServeLimits, serve};
pub use settings::Settings;
pub use signature::{BadSecret, WebhookRoute, WebhookSecret};
