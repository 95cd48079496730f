//! Starts and signals sample instances for ever, at a gentle pace.
//!
//! It remembers nothing: whom to signal it asks the database, so that it goes on where it was after a restart.

use super::machines::{
    Approval, Approved, Checkout, Fulfilment, Invoice, Mail, Order, Payment, PaymentConfirmed,
    Rejected, Request, happens,
};
use outlast::{Client, Error, Filter, Instance, ListRequest, Machine, New, Signal, Status};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One round starts about one instance and wakes about one.
const PAUSE: Duration = Duration::from_millis(1500);
/// So many live instances are enough to look at: while nobody runs them, no more are started.
const LIVE_MAX: u64 = 300;
/// After this long some who wait are signalled; the others run into their deadlines.
const PATIENCE: Duration = Duration::from_secs(5);

const ARTICLES: [&str; 8] = [
    "lamp", "chair", "table", "mirror", "clock", "shelf", "rug", "vase",
];
const PEOPLE: [&str; 5] = ["ada", "grace", "edsger", "barbara", "donald"];

/// Feeds until it is told to stop. What goes wrong is told and tried again: the database may be busy.
pub(super) async fn feed(client: Client, stop: CancellationToken) {
    loop {
        if let Err(error) = feed_once(&client).await {
            tracing::warn!(%error, "the demonstration could not be fed; trying again");
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// One round.
pub(super) async fn feed_once(client: &Client) -> Result<(), Error> {
    if is_enough(client).await? {
        return Ok(());
    }
    start_one(client).await?;
    for it in waiting::<Checkout>(client).await? {
        if happens(25) {
            pay(client, &it).await?;
        }
    }
    for it in waiting::<Approval>(client).await? {
        if happens(10) {
            decide(client, &it).await?;
        }
    }
    Ok(())
}

async fn is_enough(client: &Client) -> Result<bool, Error> {
    let live = Filter {
        statuses: Status::ALL
            .into_iter()
            .filter(|status| !status.is_terminal())
            .collect(),
        ..Filter::default()
    };
    Ok(match client.count(live).await? {
        outlast::Count::Exactly(number) => number >= LIVE_MAX,
        outlast::Count::AtLeast(_) => true,
    })
}

/// Numbers go up from one run of the demonstration to the next.
async fn start_one(client: &Client) -> Result<(), Error> {
    let number = client.now().await?.0.unsigned_abs() / 100_000 % 100_000_000;
    let amount = fastrand::u64(1..40) * 10;
    match fastrand::u32(0..10) {
        0..4 => {
            let start = Payment::Start {
                order: number,
                amount,
            };
            let new = New::<Checkout>(start).key(format!("order:{number}"));
            client.insert(new).await?;
        }
        4..6 => {
            let articles = (0..fastrand::usize(2..7))
                .map(|_| one_of(&ARTICLES))
                .collect();
            let new = New::<Order>(Fulfilment::Pack {
                order: number,
                articles,
            });
            client.insert(new.key(format!("order:{number}"))).await?;
        }
        6..9 => {
            let to = format!("{}@example.org", one_of(&PEOPLE));
            client
                .insert(New::<Invoice>(Mail {
                    to,
                    invoice: number,
                }))
                .await?;
        }
        _ => {
            let ask = Request::Ask {
                expense: number,
                amount,
            };
            let new = New::<Approval>(ask).key(format!("expense:{number}"));
            client.insert(new).await?;
        }
    }
    Ok(())
}

/// Those of a machine that have waited for a signal for a while.
async fn waiting<M: Machine>(client: &Client) -> Result<Vec<Instance>, Error> {
    let request = ListRequest {
        filter: Filter {
            machine: Some(M::NAME.to_owned()),
            statuses: vec![Status::AwaitingSignal],
            ..Filter::default()
        },
        before: None,
        limit: 20,
    };
    let now = client.now().await?;
    let mut waiting = client.list(request).await?.instances;
    waiting.retain(|it| now.since(it.updated_at) >= PATIENCE);
    Ok(waiting)
}

async fn pay(client: &Client, checkout: &Instance) -> Result<(), Error> {
    #[derive(serde::Deserialize)]
    struct Asked {
        amount: u64,
    }
    let Ok(Asked { amount }) = checkout.state.decode() else {
        return Ok(());
    };
    // Now and then somebody pays too much.
    let amount = if happens(5) { amount + 1 } else { amount };
    send(client, checkout, PaymentConfirmed { amount }).await
}

async fn decide(client: &Client, approval: &Instance) -> Result<(), Error> {
    let by = one_of(&PEOPLE);
    match happens(70) {
        true => send(client, approval, Approved { by }).await,
        false => send(client, approval, Rejected { by }).await,
    }
}

/// It may have ended meanwhile, which is fine.
async fn send(client: &Client, to: &Instance, signal: impl Signal) -> Result<(), Error> {
    client.signal(to.id, signal).await.map(|_| ())
}

fn one_of(words: &[&str]) -> String {
    words[fastrand::usize(..words.len())].to_owned()
}

#[cfg(test)]
#[path = "feeder_tests.rs"]
mod tests;
