//! When an instance runs: priorities, delays, times, sleeps, paused queues, and a task that runs
//! every night.
//!
//! ```sh
//! cargo run -p outlast-examples --bin scheduling
//! ```

use outlast::Note;
use outlast::prelude::*;
use outlast::store::Scope;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

#[derive(Default)]
struct Telephone {
    heard: Mutex<Vec<String>>,
}

impl Telephone {
    fn heard(&self) -> MutexGuard<'_, Vec<String>> {
        self.heard.lock().expect("the lock is not poisoned")
    }
}

#[job(queue = "calls")]
async fn call(who: String, telephone: Data<Arc<Telephone>>) -> std::io::Result<()> {
    telephone.heard().push(who);
    Ok(())
}

/// Runs every night, and stops after a few nights in this example.
struct Nightly;

#[steps]
enum Night {
    Sleep { done: u32 },
    Work { done: u32 },
}

impl Machine for Nightly {
    const NAME: &'static str = "nightly";
    type State = Night;
    type Output = u32;

    async fn step(&self, night: Night, cx: &Context) -> StepResult<Self> {
        match night {
            Night::Sleep { done: 3 } => done(3),
            Night::Sleep { done } => sleep(until_the_next(cx)).then(Night::Work { done }),
            Night::Work { done } => {
                // Started once, however often this step runs.
                let work = call::with(format!("night {done}")).key(cx.idempotency_key());
                cx.client().start(work.scope(Scope::FOREVER)).await?;
                next(Night::Sleep { done: done + 1 })
            }
        }
    }
}

/// The time until the next night; the nights of this example are short.
fn until_the_next(_cx: &Context) -> Duration {
    Duration::from_millis(50)
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let telephone = Arc::new(Telephone::default());
    let engine = outlast_examples::engine()
        .await?
        .register(call)
        .register(Nightly)
        .provide(telephone.clone())
        .queue("calls", 1)
        .start()
        .await?;
    let admin = engine.client().admin();

    // While the queue is paused, calls accumulate in it.
    let note = || Note::by("scheduling").because("calls gather");
    admin.pause("calls", note()).await?;
    let later = SystemTime::now() + Duration::from_millis(400);
    let calls = [
        call::with("second".into()),
        // Lower is more urgent.
        call::with("first".into()).priority(-10),
        // Equal priorities run in the order in which they became due.
        call::with("third".into()),
        call::with("fourth".into()).delay(Duration::from_millis(200)),
        call::with("fifth".into()).at(later),
    ];
    let calls = engine.client().start_many(calls).await?;
    admin.resume("calls", note()).await?;
    let started = Instant::now();
    for waiting in calls {
        waiting.output().timeout(MINUTE).await?;
    }
    let order = telephone.heard().split_off(0);
    println!("{order:?} after {:?}", started.elapsed());
    assert_eq!(order, ["first", "second", "third", "fourth", "fifth"]);

    // A recurring task is one instance, and its key keeps it unique.
    let nightly = Nightly::with(Night::Sleep { done: 0 }).key("the one");
    let nightly = engine.start(nightly).await?;
    let nights = nightly.output().timeout(MINUTE).await?;
    assert_eq!(nights, 3);
    println!("instance {} worked on {nights} nights", nightly.id());

    engine.shutdown().await
}
