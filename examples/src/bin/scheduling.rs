//! When an instance runs: priorities, delays, times, sleeps, paused queues, and a task that runs
//! every night.
//!
//! ```sh
//! cargo run -p outlast-examples --bin scheduling
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

struct Call {
    heard: Arc<Mutex<Vec<String>>>,
}

impl Job for Call {
    const NAME: &'static str = "call";
    const QUEUE: &'static str = "calls";
    type Args = String;
    type Output = ();

    async fn perform(&self, who: String, _cx: &Context) -> Result<(), JobError> {
        self.heard
            .lock()
            .expect("the lock is not poisoned")
            .push(who);
        Ok(())
    }
}

/// Runs every night, and stops after a few nights in this example.
struct Nightly;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Night {
    Sleep { done: u32 },
    Work { done: u32 },
}

impl Machine for Nightly {
    const NAME: &'static str = "nightly";
    type State = Night;
    type Output = u32;

    async fn step(&self, night: Night, cx: &Context) -> StepResult<Self> {
        Ok(match night {
            Night::Sleep { done: 3 } => Outcome::done(3),
            Night::Sleep { done } => sleep(until_the_next(cx)).then(Night::Work { done }),
            Night::Work { done } => {
                let caller = format!("night {done}");
                // Started once, however often this step runs.
                let call = New::<Call>(caller).key(cx.idempotency_key());
                cx.client().insert(call.scope(Scope::FOREVER)).await?;
                Outcome::next(Night::Sleep { done: done + 1 })
            }
        })
    }
}

/// The time until the next night; the nights of this example are short.
fn until_the_next(_cx: &Context) -> Duration {
    Duration::from_millis(50)
}

#[tokio::main]
async fn main() -> Result<()> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let engine = outlast_examples::engine()
        .await?
        .machine(Call {
            heard: heard.clone(),
        })
        .machine(Nightly)
        .queue("default", 10)
        .queue("calls", 1)
        .start()
        .await?;
    let patience = Duration::from_secs(10);
    let call = |who: &str| New::<Call>(who.to_owned());

    // While the queue is paused, calls accumulate in it.
    let note = || Note::by("scheduling").because("calls gather");
    engine.pause("calls", note()).await?;
    let later = SystemTime::now() + Duration::from_millis(400);
    let calls = [
        call("second"),
        // Lower is more urgent.
        call("first").priority(-10),
        // Equal priorities run in the order in which they became due.
        call("third"),
        call("fourth").delay(Duration::from_millis(200)),
        call("fifth").at(later),
    ];
    let calls = engine.insert_many(calls).await?;
    engine.resume("calls", note()).await?;
    let started = Instant::now();
    for call in calls {
        engine.wait(call, patience).await?;
    }
    let order = heard.lock().expect("the lock is not poisoned").split_off(0);
    println!("{order:?} after {:?}", started.elapsed());
    ensure!(order == ["first", "second", "third", "fourth", "fifth"]);

    // A recurring task is one instance, and its key keeps it unique.
    let nightly = engine
        .insert(New::<Nightly>(Night::Sleep { done: 0 }).key("the one"))
        .await?;
    let nights = engine.wait(nightly, patience).await?;
    ensure!(nights == 3);
    let id = nightly.id().context("another instance holds the key")?;
    println!("instance {id} worked on {nights} nights");

    engine.shutdown().await;
    Ok(())
}
