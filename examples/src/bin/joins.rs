//! The joins of a fan-out: fail fast, a quorum, the first success, a deadline. And a window, in
//! which only some children run at a time.
//!
//! ```sh
//! cargo run -p outlast-examples --bin joins
//! ```
//!
//! The default join, which waits for every child, is in `fan_out.rs`.

use anyhow::{Result, ensure};
use outlast::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Purchase;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Order {
    Reserve,
    Reserved,
    Approve,
    Approved,
    Quote,
    Quoted,
    Collect,
    Collected,
    Notify,
    Notified,
}

impl Machine for Purchase {
    const NAME: &'static str = "purchase";
    type State = Order;
    type Output = String;

    async fn step(&self, order: Order, cx: &Context) -> StepResult<Self> {
        Ok(match order {
            // All parts or none: the first failure cancels the other reservations.
            Order::Reserve => fan_out([ask("frame", Says::No), ask("wheels", Says::Nothing)])
                .fail_fast()
                .cancel_rest()
                .then(Order::Reserved),
            Order::Reserved => match (cx.joined(), cx.first_failure()) {
                (Some(Joined::Failure), Some(part)) => {
                    let reason = part.last_error.as_deref().unwrap_or("no reason given");
                    Outcome::done(format!("nothing reserved: {reason}"))
                }
                _ => Outcome::done("everything reserved".to_owned()),
            },

            // Two of three must agree. Continues early when two can no longer agree.
            Order::Approve => {
                let bosses = [("ada", Says::Yes), ("bob", Says::No), ("eve", Says::Yes)];
                fan_out(bosses.map(|(name, says)| ask(name, says)))
                    .quorum(2)
                    .cancel_rest()
                    .then(Order::Approved)
            }
            Order::Approved => match cx.joined() {
                Some(Joined::Quorum) => Outcome::done("approved".to_owned()),
                _ => Outcome::fail("not approved"),
            },

            // The first answer wins. The others are terminated.
            Order::Quote => fan_out([ask("slow", Says::Nothing), ask("quick", Says::Yes)])
                .any()
                .terminate_rest()
                .then(Order::Quoted),
            Order::Quoted => {
                let mut offers = cx.children::<Ask>()?.into_iter();
                match offers.find_map(|offer| offer.output) {
                    Some(offer) => Outcome::done(offer),
                    None => Outcome::fail("nobody offers anything"),
                }
            }

            // The answers that arrive in time, in the order of the fan-out.
            Order::Collect => fan_out([ask("north", Says::Yes), ask("south", Says::Nothing)])
                .deadline(Duration::from_millis(500))
                .cancel_rest()
                .then(Order::Collected),
            Order::Collected => {
                let answers = cx.children::<Ask>()?.into_iter();
                let answers: Vec<_> = answers
                    .map(|answer| answer.output.unwrap_or_else(|| "no answer".to_owned()))
                    .collect();
                Outcome::done(answers.join(", "))
            }

            // A thousand children, at most five at a time.
            Order::Notify => fan_out((0..1_000).map(|_| New::<Mail>(())))
                .window(5)
                .then(Order::Notified),
            Order::Notified => Outcome::done(format!("{} notified", cx.round().len())),
        })
    }
}

fn ask(whom: &str, says: Says) -> New<Ask> {
    New((whom.to_owned(), says))
}

struct Ask;

#[derive(Serialize, Deserialize)]
enum Says {
    Yes,
    No,
    /// Until it is cancelled.
    Nothing,
}

impl Job for Ask {
    const NAME: &'static str = "ask";
    type Args = (String, Says);
    type Output = String;

    async fn perform(&self, (whom, says): Self::Args, cx: &Context) -> Result<String, JobError> {
        match says {
            Says::Yes => Ok(format!("{whom} says yes")),
            Says::No => Err(JobError::fatal(format!("{whom} says no"))),
            Says::Nothing => {
                cx.cancelled().await;
                Err(JobError::cancel("nobody waits for the answer any more"))
            }
        }
    }
}

struct Mail;

static AT_A_TIME: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

impl Job for Mail {
    const NAME: &'static str = "mail";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), _cx: &Context) -> Result<(), JobError> {
        MOST.fetch_max(
            AT_A_TIME.fetch_add(1, Ordering::SeqCst) + 1,
            Ordering::SeqCst,
        );
        tokio::task::yield_now().await;
        AT_A_TIME.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Purchase)
        .machine(Ask)
        .machine(Mail)
        .queue("default", 50)
        .start()
        .await?;

    for (order, expected) in [
        (Order::Reserve, "nothing reserved: frame says no"),
        (Order::Approve, "approved"),
        (Order::Quote, "quick says yes"),
        (Order::Collect, "north says yes, no answer"),
        (Order::Notify, "1000 notified"),
    ] {
        let id = engine.insert(New::<Purchase>(order)).await?;
        let outcome = engine.wait(id, Duration::from_secs(60)).await?;
        println!("{outcome}");
        ensure!(outcome == expected, "{outcome:?} and not {expected:?}");
        // Children that the join did not wait for end as well.
        let Some(id) = id.id() else { continue };
        for child in engine.children(id.get()).await? {
            engine.wait_ended(child.id, Duration::from_secs(10)).await?;
        }
    }
    ensure!(MOST.load(Ordering::SeqCst) <= 5);

    engine.shutdown().await;
    Ok(())
}
