//! The joins of a fan-out: fail fast, a quorum, the first success, a deadline. And a window, in
//! which only some children run at a time.
//!
//! ```sh
//! cargo run -p outlast-examples --bin joins
//! ```
//!
//! The default join, which waits for every child, is in `fan_out.rs`.

use outlast::prelude::*;
use outlast::store::Joined;
use outlast::{JobError, New};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Purchase;

#[steps]
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
        match order {
            // All parts or none: the first failure cancels the other reservations.
            Order::Reserve => fan_out([ask("frame", Says::No), ask("wheels", Says::Nothing)])
                .fail_fast()
                .cancel_rest()
                .then(Order::Reserved),
            Order::Reserved => match (cx.joined(), cx.first_failure()) {
                (Some(Joined::Failure), Some(part)) => {
                    let reason = part.last_error.as_deref().unwrap_or("no reason given");
                    done(format!("nothing reserved: {reason}"))
                }
                _ => done("everything reserved".to_owned()),
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
                Some(Joined::Quorum) => done("approved".to_owned()),
                _ => fail("not approved"),
            },

            // The first answer wins. The others are terminated.
            Order::Quote => fan_out([ask("slow", Says::Nothing), ask("quick", Says::Yes)])
                .any()
                .terminate_rest()
                .then(Order::Quoted),
            Order::Quoted => {
                let mut offers = cx.children::<question>()?.into_iter();
                match offers.find_map(|offer| offer.output) {
                    Some(offer) => done(offer),
                    None => fail("nobody offers anything"),
                }
            }

            // The answers that arrive in time, in the order of the fan-out.
            Order::Collect => fan_out([ask("north", Says::Yes), ask("south", Says::Nothing)])
                .deadline(Duration::from_millis(500))
                .cancel_rest()
                .then(Order::Collected),
            Order::Collected => {
                let answers = cx.children::<question>()?.into_iter();
                let answers: Vec<_> = answers
                    .map(|answer| answer.output.unwrap_or_else(|| "no answer".to_owned()))
                    .collect();
                done(answers.join(", "))
            }

            // A thousand children, at most five at a time.
            Order::Notify => fan_out((0..1_000).map(|_| mail::with()))
                .window(5)
                .then(Order::Notified),
            Order::Notified => done(format!("{} notified", cx.round().len())),
        }
    }
}

fn ask(whom: &str, says: Says) -> New<question> {
    question::with((whom.to_owned(), says))
}

#[derive(Serialize, Deserialize)]
enum Says {
    Yes,
    No,
    /// Until it is cancelled.
    Nothing,
}

#[job(name = "ask")]
async fn question((whom, says): (String, Says), cx: &Context) -> Result<String, JobError> {
    match says {
        Says::Yes => Ok(format!("{whom} says yes")),
        Says::No => Err(JobError::fatal(format!("{whom} says no"))),
        Says::Nothing => {
            cx.cancelled().await;
            Err(JobError::cancel("nobody waits for the answer any more"))
        }
    }
}

#[job]
async fn mail(post_office: Data<Arc<PostOffice>>) -> std::io::Result<()> {
    let sending = post_office.sending.fetch_add(1, Ordering::SeqCst) + 1;
    post_office.most.fetch_max(sending, Ordering::SeqCst);
    tokio::task::yield_now().await;
    post_office.sending.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

/// Counts the mails that are sent at a time.
#[derive(Default)]
struct PostOffice {
    sending: AtomicUsize,
    most: AtomicUsize,
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let post_office = Arc::new(PostOffice::default());
    let engine = outlast_examples::engine()
        .await?
        .register(Purchase)
        .register(question)
        .register(mail)
        .provide(post_office.clone())
        .start()
        .await?;

    for (order, expected) in [
        (Order::Reserve, "nothing reserved: frame says no"),
        (Order::Approve, "approved"),
        (Order::Quote, "quick says yes"),
        (Order::Collect, "north says yes, no answer"),
        (Order::Notify, "1000 notified"),
    ] {
        let purchase = engine.start(Purchase::with(order)).await?;
        let outcome = purchase.output().timeout(MINUTE).await?;
        println!("{outcome}");
        assert_eq!(outcome, expected);
        // Children that the join did not wait for end as well.
        for child in purchase.children().await? {
            let admin = engine.client().admin();
            admin.wait_ended(child.id, MINUTE).await?;
        }
    }
    assert!(post_office.most.load(Ordering::SeqCst) <= 5);

    engine.shutdown().await
}
