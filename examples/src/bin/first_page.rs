//! The first page of the documentation: a machine, a job and a workflow in one program.
//!
//! The front page of the crate shows this file from the imports to the first output.
//!
//! ```sh
//! cargo run -p outlast-examples --bin first_page
//! ```

use outlast::prelude::*;

#[steps] // the enum is the machine: a variant is a step, its fields are the state of that step
enum Order {
    Reserve { number: u64 },
    Charge { number: u64 },
    Ship { number: u64 },
}

struct Purchase {
    bank: Bank, // what the steps need
}

impl Machine for Purchase {
    const NAME: &'static str = "purchase";
    type State = Order;
    type Output = String;

    async fn step(&self, order: Order, cx: &Context) -> StepResult<Self> {
        match order {
            Order::Reserve { number } => wait_for::<Paid>()
                .timeout(DAY)
                .then(Order::Charge { number }),
            Order::Charge { number } => {
                self.bank.charge(number, cx.idempotency_key()).await?;
                next(Order::Ship { number })
            }
            Order::Ship { number } => done(format!("order {number} is on its way")),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid {
    amount: u64,
}

#[job(attempts = 5, queue = "mail")] // retried until it succeeds
async fn send_mail(mail: Mail, smtp: Data<Smtp>, cx: &Context) -> Result<MessageId, MailError> {
    smtp.send(mail, cx.idempotency_key()).await
}

#[job]
async fn print_label(number: u64) -> std::io::Result<String> {
    Ok(format!("label {number}"))
}

#[workflow] // each call is recorded; after a crash the function continues where it was
async fn fulfil(flow: Flow, order: NewOrder, warehouse: Data<Warehouse>) -> FlowResult<Receipt> {
    let hold = flow
        .step("reserve", async || warehouse.reserve(&order).await)
        .await?;
    let (label, mails) = flow
        .all((
            flow.run(print_label::with(order.number)),
            order
                .mails
                .into_iter()
                .map(|mail| flow.run(send_mail::with(mail)))
                .collect::<Vec<_>>(),
        ))
        .await?;
    let Some(paid) = flow.signal::<Paid>().timeout(DAY).await? else {
        return flow.fail("payment never came");
    };
    Ok(Receipt {
        hold,
        label,
        mails,
        paid: paid.amount,
    })
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Purchase {
            bank: Bank::connect()?,
        })
        .register(fulfil)
        .register(send_mail)
        .register(print_label)
        .provide(Smtp::connect()?)
        .provide(Warehouse::connect()?)
        .start()
        .await?;

    let order = engine
        .start(Purchase::with(Order::Reserve { number: 42 }).key("order:42"))
        .await?;
    order.signal(Paid { amount: 100 }).dedup("evt-7").await?;
    println!("{}", order.output().timeout(MINUTE).await?);

    let mails = vec![Mail {
        to: "ada@example.org".into(),
    }];
    let order = engine
        .start(fulfil::with(NewOrder { number: 7, mails }))
        .await?;
    order.signal(Paid { amount: 90 }).await?;
    let receipt = order.output().timeout(MINUTE).await?;
    println!("{receipt:?}");
    assert_eq!(receipt.hold, "hold 7");
    assert_eq!(receipt.label, "label 7");
    assert_eq!(receipt.mails.len(), 1);
    assert_eq!(receipt.paid, 90);
    engine.shutdown().await
}

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct MessageId(String);

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{to} is no address")]
struct MailError {
    to: String,
}

#[derive(Serialize, Deserialize)]
struct NewOrder {
    number: u64,
    mails: Vec<Mail>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    hold: String,
    label: String,
    mails: Vec<MessageId>,
    paid: u64,
}

/// A fake of what the machine calls.
struct Bank;

impl Bank {
    fn connect() -> std::io::Result<Bank> {
        Ok(Bank)
    }

    async fn charge(&self, number: u64, key: String) -> std::io::Result<()> {
        println!("charge order {number} under {key}");
        Ok(())
    }
}

/// A fake of what the job calls.
struct Smtp;

impl Smtp {
    fn connect() -> std::io::Result<Smtp> {
        Ok(Smtp)
    }

    async fn send(&self, mail: Mail, key: String) -> Result<MessageId, MailError> {
        match mail.to.contains('@') {
            true => Ok(MessageId(key)),
            false => Err(MailError { to: mail.to }),
        }
    }
}

/// A fake of what the workflow calls.
struct Warehouse;

impl Warehouse {
    fn connect() -> std::io::Result<Warehouse> {
        Ok(Warehouse)
    }

    async fn reserve(&self, order: &NewOrder) -> std::io::Result<String> {
        Ok(format!("hold {}", order.number))
    }
}
