//! An engine on SQLite with two small machines, and the API and dashboard beside it.
//!
//! `cargo run -p outlast-http --example serve [-- 127.0.0.1:7001 [file.db]]`

use outlast::prelude::*;
use outlast_http::{ServeLimits, Settings};
use tokio::net::TcpListener;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Start { number: u64 },
    Ship { number: u64 },
}

#[derive(Serialize, Deserialize)]
struct PaymentConfirmed {
    amount: u64,
}

impl Signal for PaymentConfirmed {
    const NAME: &'static str = "payment_confirmed";
}

struct Checkout;

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Order::Start { number } => wait_for([PaymentConfirmed::NAME])
                .timeout(Duration::from_secs(120))
                .then(Order::Ship { number }),
            Order::Ship { number } => match cx.received::<PaymentConfirmed>()? {
                Some(paid) => Outcome::done(format!("order {number}, paid {}", paid.amount)),
                None => Outcome::fail("payment never came"),
            },
        })
    }
}

/// Fails now and then, and is tried again.
struct Mail;

impl Job for Mail {
    const NAME: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 4;
    type Args = u64;
    type Output = String;

    async fn perform(&self, number: u64, cx: &Context) -> Result<String, JobError> {
        if (number + u64::from(cx.attempt())).is_multiple_of(3) {
            return Err(JobError::retry("the mail server is busy"));
        }
        Ok(format!("mail {number} is sent"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7001".into());
    let store = match arguments.next() {
        Some(file) => Sqlite::open(file)?,
        None => Sqlite::in_memory()?,
    };
    let engine = Engine::builder(store)
        .machine(Checkout)
        .machine(Mail)
        .queue("default", 10)
        .start()
        .await?;
    let client = engine.client().clone();

    let settings = Settings::new();
    let listener = TcpListener::bind(&address).await?;
    outlast_http::check_address(listener.local_addr()?, &settings)?;
    eprintln!("http://{}/", listener.local_addr()?);
    let router = outlast_http::router(client.clone(), settings);

    let busy = tokio::spawn(async move {
        for number in 1.. {
            let order = New::<Checkout>(Order::Start { number }).key(format!("order:{number}"));
            client.insert(order).await?;
            client.insert(New::<Mail>(number)).await?;
            if number % 2 == 0 {
                let paid = PaymentConfirmed {
                    amount: number * 10,
                };
                client
                    .signal(Checkout::key(format!("order:{number}")), paid)
                    .await?;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok::<(), outlast::Error>(())
    });

    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    outlast_http::serve(listener, router, ServeLimits::default(), stop).await?;
    busy.abort();
    engine.shutdown().await;
    Ok(())
}
