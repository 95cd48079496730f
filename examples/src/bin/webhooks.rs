//! The HTTP API inside an application, and webhooks of a payment provider that become signals.
//!
//! The provider signs its messages (Standard Webhooks). A message wakes the order whose key is in
//! its body, once, however often it is sent. The rest of the API needs a token.
//!
//! ```sh
//! cargo run -p outlast-examples --bin webhooks
//! ```

use anyhow::Result;
use axum::Router;
use outlast::prelude::*;
use outlast_examples::send;
use outlast_http::{Role, Settings, Token, WebhookRoute, WebhookSecret};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

struct Checkout;

#[steps]
enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

/// The part of the provider's message that this program reads.
#[derive(Signal, Serialize, Deserialize)]
struct PaymentConfirmed {
    data: Payment,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    order: String,
    amount: u64,
}

impl Machine for Checkout {
    const NAME: &'static str = "paid_checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { number } => wait_for::<PaymentConfirmed>().then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => done(format!("order {number}, {} paid", paid.data.amount)),
                None => fail("nothing was received"),
            },
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Checkout)
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

    let order = Checkout::with(Order::Start { number: 42 }).key("order:42");
    let order = engine.start(order).await?;

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
        assert!(status == 200 && answer.contains(expected) || answer.contains("no_target"));
    }
    let shipped = order.output().timeout(MINUTE).await?;
    assert_eq!(shipped, "order 42, 100 paid");

    // Every other request needs a token.
    let path = "/admin/outlast/v1/queues";
    let (status, _) = send(address, "GET", path, &[], "").await?;
    assert_eq!(status, 401);
    let bearer = format!("Bearer {operator}");
    let headers = [("authorization", bearer.as_str())];
    let (status, queues) = send(address, "GET", path, &headers, "").await?;
    println!("{status} {queues}");
    assert_eq!(status, 200);

    engine.shutdown().await?;
    Ok(())
}
