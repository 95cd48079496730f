//! An engine on SQLite with two small machines, and the API and dashboard beside it.
//!
//! `cargo run -p outlast-http --example serve [-- 127.0.0.1:7001 [file.db]]`

use outlast::JobError;
use outlast::prelude::*;
use outlast_http::{ServeLimits, Settings};
use tokio::net::TcpListener;

#[steps]
enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
struct PaymentConfirmed {
    amount: u64,
}

struct Checkout;

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start { number } => wait_for::<PaymentConfirmed>()
                .timeout(2 * MINUTE)
                .then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => done(format!("order {number}, paid {}", paid.amount)),
                None => fail("payment never came"),
            },
        }
    }
}

/// Fails now and then, and is tried again.
#[job(attempts = 4)]
async fn mail(number: u64, cx: &Context) -> Result<String, JobError> {
    if (number + u64::from(cx.attempt())).is_multiple_of(3) {
        return Err(JobError::retry("the mail server is busy"));
    }
    Ok(format!("mail {number} is sent"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7001".into());
    let engine = match arguments.next() {
        Some(file) => Engine::sqlite(file)?,
        None => Engine::sqlite_in_memory()?,
    };
    let engine = engine.register(Checkout).register(mail).start().await?;
    let client = engine.client().clone();

    let settings = Settings::new();
    let listener = TcpListener::bind(&address).await?;
    outlast_http::check_address(listener.local_addr()?, &settings)?;
    eprintln!("http://{}/", listener.local_addr()?);
    let router = outlast_http::router(client.clone(), settings);

    let busy = tokio::spawn(async move {
        for number in 1.. {
            let order = Checkout::with(Order::Start { number }).key(format!("order:{number}"));
            let order = client.start(order).await?;
            client.start(mail::with(number)).await?;
            if number % 2 == 0 {
                let amount = number * 10;
                order.signal(PaymentConfirmed { amount }).await?;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok::<_, outlast::Error>(())
    });

    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    outlast_http::serve(listener, router, ServeLimits::default(), stop).await?;
    busy.abort();
    engine.shutdown().await?;
    Ok(())
}
