//! The HTTP API inside an application, and webhooks of a payment provider that become signals.
//!
//! The provider signs its messages (Standard Webhooks). A message wakes the order whose key is in
//! its body, once, however often it is sent. The rest of the API needs a token.
//!
//! ```sh
//! cargo run -p outlast-examples --bin webhooks
//! ```

use anyhow::{Result, ensure};
use axum::Router;
use outlast::prelude::*;
use outlast_examples::send;
use outlast_http::{Role, Settings, Token, WebhookRoute, WebhookSecret};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

struct Checkout;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

/// The part of the provider's message that this program reads.
#[derive(Serialize, Deserialize)]
struct PaymentConfirmed {
    data: Payment,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    order: String,
    amount: u64,
}

impl Signal for PaymentConfirmed {
    const NAME: &'static str = "payment_confirmed";
}

impl Machine for Checkout {
    const NAME: &'static str = "paid_checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Start { number } => {
                wait_for([PaymentConfirmed::NAME]).then(Order::Ship { number })
            }
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => Outcome::done(format!("order {number}, {} paid", paid.data.amount)),
                None => Outcome::fail("nothing was received"),
            },
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Checkout)
        .queue("default", 10)
        .start()
        .await?;

    // The provider has the secret, and this program has it from its own configuration.
    let (_text, secret) = WebhookSecret::generate()?;
    let (operator, token) = Token::generate("ada's laptop", Role::Operate)?;
    let payments = WebhookRoute::to_key(
        Checkout::NAME,
        "/data/order",
        PaymentConfirmed::NAME,
        secret.clone(),
    );
    let settings = Settings::new()
        .token(token)
        .webhook("payments", payments)
        .allow_host("127.0.0.1");
    let app = Router::new().nest(
        "/admin/outlast",
        outlast_http::router(engine.client().clone(), settings),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });

    let order = engine
        .insert(New::<Checkout>(Order::Start { number: 42 }).key("order:42"))
        .await?;

    // Sent twice: a provider repeats a message if the response is late.
    let body = r#"{"type": "payment.confirmed", "data": {"order": "order:42", "amount": 100}}"#;
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let signature = secret.sign("msg_1", at, body.as_bytes());
    for expected in ["delivered", "duplicate"] {
        let headers = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", &at.to_string()),
            ("webhook-signature", &signature),
        ];
        let path = "/admin/outlast/v1/webhooks/payments";
        let (status, answer) = send(address, "POST", path, &headers, body).await?;
        println!("{status} {answer}");
        // The second message may arrive after the order has finished and released its key.
        ensure!(status == 200 && answer.contains(expected) || answer.contains("no_target"));
    }
    let shipped = engine.wait(order, Duration::from_secs(10)).await?;
    ensure!(shipped == "order 42, 100 paid");

    // Every other request needs a token.
    let path = "/admin/outlast/v1/queues";
    let (status, _) = send(address, "GET", path, &[], "").await?;
    ensure!(status == 401);
    let bearer = format!("Bearer {operator}");
    let headers = [("authorization", bearer.as_str())];
    let (status, queues) = send(address, "GET", path, &headers, "").await?;
    println!("{status} {queues}");
    ensure!(status == 200);

    engine.shutdown().await;
    Ok(())
}
