//! Starts, signals and sometimes cancels sample instances forever, at a gentle pace.
//!
//! It keeps no state. It finds the instances to signal in the database, so it continues after a
//! restart.

use super::machines::{
    Approval, Approved, Checkout, Fulfilment, Mail, Order, Payment, PaymentConfirmed, PickedUp,
    Purchase, Rejected, Request, fulfil, happens, send_invoice,
};
use outlast::store::{Count, Filter, Instance};
use outlast::{Client, Durable, Machine, Note, Result, Signal, SignalError, Status};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One round starts about one instance and wakes about one.
const PAUSE: Duration = Duration::from_millis(1500);
/// The bound on live instances. If no engine runs them, no more are started.
const LIVE_MAX: u64 = 300;
/// How long instances wait before some are signalled; the others reach their deadlines.
const PATIENCE: Duration = Duration::from_secs(5);

const ARTICLES: [&str; 8] = [
    "lamp", "chair", "table", "mirror", "clock", "shelf", "rug", "vase",
];
const PEOPLE: [&str; 5] = ["ada", "grace", "edsger", "barbara", "donald"];

/// Feeds until it is cancelled. It logs an error and tries again: the database may be busy.
pub(super) async fn feed(client: Client, stop: CancellationToken) {
    loop {
        if let Err(error) = feed_once(&client).await {
            tracing::warn!(%error, "could not start sample instances; trying again");
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// One round.
pub(super) async fn feed_once(client: &Client) -> Result<()> {
    if is_enough(client).await? {
        return Ok(());
    }
    start_one(client).await?;
    for it in waiting::<Checkout>(client, Status::AwaitingSignal).await? {
        if happens(25) {
            pay(client, &it).await?;
        }
    }
    for it in waiting::<Approval>(client, Status::AwaitingSignal).await? {
        if happens(10) {
            decide(client, &it).await?;
        } else if happens(3) {
            cancel(client, &it, "submitted twice").await?;
        }
    }
    for it in waiting::<fulfil>(client, Status::AwaitingSignal).await? {
        let awaits = it.awaits.as_deref().unwrap_or_default();
        if awaits.iter().any(|name| name == PickedUp::NAME) && happens(30) {
            let courier = one_of(&PEOPLE);
            send(client, &it, PickedUp { courier }).await?;
        }
    }
    for it in waiting::<Order>(client, Status::AwaitingChildren).await? {
        if happens(3) {
            cancel(client, &it, "the customer changed their mind").await?;
        }
    }
    Ok(())
}

async fn is_enough(client: &Client) -> Result<bool> {
    let live = Filter {
        statuses: Status::ALL
            .into_iter()
            .filter(|status| !status.is_terminal())
            .collect(),
        ..Filter::default()
    };
    Ok(match client.count(live).await? {
        Count::Exactly(number) => number >= LIVE_MAX,
        Count::AtLeast(_) => true,
    })
}

/// Numbers continue to rise from one run of the demonstration to the next.
async fn start_one(client: &Client) -> Result<()> {
    let number = client.admin().now().await?.0.unsigned_abs() / 100_000 % 100_000_000;
    let amount = fastrand::u64(1..40) * 10;
    match fastrand::u32(0..12) {
        0..4 => {
            let start = Payment::Start {
                order: number,
                amount,
            };
            let new = Checkout::with(start).key(format!("order:{number}"));
            client.start(new).await?;
        }
        4..6 => {
            let articles = (0..fastrand::usize(2..12))
                .map(|_| one_of(&ARTICLES))
                .collect();
            let new = Order::with(Fulfilment::Pack {
                order: number,
                articles,
            });
            client.start(new.key(format!("order:{number}"))).await?;
        }
        6..8 => {
            let articles = (0..fastrand::usize(2..6)).map(|_| one_of(&ARTICLES));
            let purchase = Purchase {
                order: number,
                articles: articles.collect(),
                deliveries: fastrand::u32(1..3),
            };
            let new = fulfil::with(purchase).key(format!("purchase:{number}"));
            client.start(new).await?;
        }
        8..11 => {
            let to = format!("{}@example.org", one_of(&PEOPLE));
            let invoice = number;
            client
                .start(send_invoice::with(Mail { to, invoice }))
                .await?;
        }
        _ => {
            let ask = Request::Ask {
                expense: number,
                amount,
            };
            let new = Approval::with(ask).key(format!("expense:{number}"));
            client.start(new).await?;
        }
    }
    Ok(())
}

/// Returns instances of a machine that have waited for a while, for a signal or for children.
async fn waiting<D: Durable>(client: &Client, status: Status) -> Result<Vec<Instance>> {
    let now = client.admin().now().await?;
    let page = client.list().of::<D>().status(status).limit(20).values();
    let mut waiting = page.await?.instances;
    waiting.retain(|it| now.since(it.updated_at) >= PATIENCE);
    Ok(waiting)
}

async fn pay(client: &Client, checkout: &Instance) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct CheckoutAmount {
        amount: u64,
    }
    let Ok(CheckoutAmount { amount }) = checkout.state.decode() else {
        return Ok(());
    };
    // Some customers pay too much.
    let amount = if happens(5) { amount + 1 } else { amount };
    send(client, checkout, PaymentConfirmed { amount }).await
}

async fn decide(client: &Client, approval: &Instance) -> Result<()> {
    let by = one_of(&PEOPLE);
    match happens(70) {
        true => send(client, approval, Approved { by }).await,
        false => send(client, approval, Rejected { by }).await,
    }
}

/// Asks the instance to end; its machine decides how.
async fn cancel(client: &Client, it: &Instance, why: &str) -> Result<()> {
    let note = Note::by(one_of(&PEOPLE)).because(why);
    client.admin().cancel(it.id, note).await?;
    Ok(())
}

/// The instance may have finished meanwhile, which is no error.
async fn send(client: &Client, to: &Instance, signal: impl Signal) -> Result<()> {
    match client.signal(to.id, signal).await {
        Ok(_) | Err(SignalError::NoTarget { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn one_of(words: &[&str]) -> String {
    words[fastrand::usize(..words.len())].to_owned()
}

#[cfg(test)]
#[path = "feeder_tests.rs"]
mod tests;
