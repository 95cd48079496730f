//! What an instance waits for, as people are told it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::prelude::*;
use outlast_core::{ClaimRequest, Inspect, MachineVersion, NewWorker, Store};
use std::sync::Arc;
use tokio::sync::Notify;

on_both_stores!(
    a_park_names_its_signal_and_its_deadline,
    a_join_counts_its_children,
    what_is_due_says_why_nobody_runs_it,
    a_line_behind_a_partition_key_names_who_is_in_front,
    a_retry_says_when_and_why,
    what_runs_names_its_worker,
    what_nobody_runs_any_more_waits_for_the_reaper,
    what_has_ended_says_how,
);

#[derive(Clone, Default)]
struct Clerk {
    here: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Task {
    Park,
    Sleep,
    Hold,
    Fail,
    RetryLater,
    FanOut,
    End,
}

impl Machine for Clerk {
    const NAME: &'static str = "clerk";
    type State = Task;
    type Output = ();

    async fn step(&self, task: Task, _cx: &Context) -> StepResult<Self> {
        let hour = Duration::from_secs(3600);
        Ok(match task {
            Task::Park => wait_for(["paid", "refused"]).timeout(hour).then(Task::End),
            Task::Sleep => sleep(hour).then(Task::End),
            Task::Hold => {
                self.here.notify_one();
                self.go_on.notified().await;
                Outcome::done(())
            }
            Task::Fail => Outcome::fail("broken"),
            Task::RetryLater => Outcome::retry(hour, "not yet"),
            Task::FanOut => {
                fan_out([New::<Clerk>(Task::End), New(Task::Park), New(Task::Fail)]).then(Task::End)
            }
            Task::End => Outcome::done(()),
        })
    }
}

async fn running(store: impl Store + Inspect, clerk: Clerk) -> Engine {
    let builder = Engine::builder(store).machine(clerk).name("desk-1");
    builder.queue("default", 10).start().await.unwrap()
}

async fn explained(client: &Client, id: Id<Clerk>) -> String {
    let instance = client.get(id).await.unwrap().unwrap();
    client.explain(&instance).await.unwrap()
}

#[track_caller]
fn assert_reads(said: &str, begins: &str, ends: &str) {
    assert!(said.starts_with(begins) && said.ends_with(ends), "{said}");
}

async fn a_park_names_its_signal_and_its_deadline<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let parked = insert::<Clerk>(&engine, New(Task::Park)).await;
    let asleep = insert::<Clerk>(&engine, New(Task::Sleep)).await;
    engine.wait_settled(parked, LONG).await.unwrap();
    engine.wait_settled(asleep, LONG).await.unwrap();
    let said = explained(&engine, parked).await;
    assert_reads(
        &said,
        "waits for signal paid or refused until ",
        " UTC (in 59 min)",
    );
    let said = explained(&engine, asleep).await;
    assert_reads(&said, "sleeps until ", " UTC (in 59 min)");
}

async fn a_join_counts_its_children<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let parent = insert::<Clerk>(&engine, New(Task::FanOut)).await;
    eventually("one of three children is left", async || {
        explained(&engine, parent).await == "waits for 1 of 3 children, 1 has failed"
    })
    .await;
}

async fn what_is_due_says_why_nobody_runs_it<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let id = insert::<Clerk>(&client, New(Task::Park)).await;
    assert_eq!(
        explained(&client, id).await,
        "is due in queue default, and no live worker serves that queue"
    );
    let worker = NewWorker {
        name: "other".into(),
        host: "host".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: vec![outlast_core::MachineOffer {
            name: "mailer".into(),
            version: 1,
            queue: "default".into(),
            steps: vec!["send".into()],
        }],
        lease: Duration::from_secs(3600),
    };
    store.register(worker).await.unwrap();
    assert_eq!(
        explained(&client, id).await,
        "is due in queue default, and no live worker there has machine clerk version 1"
    );
    client.pause("default", Note::by("ada")).await.unwrap();
    assert_eq!(
        explained(&client, id).await,
        "waits in queue default, which is paused"
    );
    let later = New::<Clerk>(Task::Park).delay(Duration::from_secs(3600));
    let later = insert(&client, later).await;
    let said = explained(&client, later).await;
    let nobody = "; no live worker of queue default has machine clerk version 1";
    assert_reads(
        &said,
        "runs step park at ",
        &format!(" UTC (in 59 min){nobody}"),
    );
}

async fn a_line_behind_a_partition_key_names_who_is_in_front<S: Store + Inspect + Clone>(store: S) {
    let clerk = Clerk::default();
    let engine = running(store, clerk.clone()).await;
    let keyed = |task| New::<Clerk>(task).partition_key("ada");
    let first = insert(&engine, keyed(Task::Hold)).await;
    clerk.here.notified().await;
    let second = insert(&engine, keyed(Task::End)).await;
    let third = insert(&engine, keyed(Task::End)).await;
    for behind in [second, third] {
        assert_eq!(
            explained(&engine, behind).await,
            format!("waits behind instance {first}, which has the same partition key and runs")
        );
    }
    clerk.go_on.notify_one();
    engine.wait(third, LONG).await.unwrap();
}

async fn a_retry_says_when_and_why<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let id = insert::<Clerk>(&engine, New(Task::RetryLater)).await;
    eventually("it is tried again later", async || {
        let said = explained(&engine, id).await;
        said == "retries step retry_later in 59 min (attempt 2): last error not yet"
    })
    .await;
}

async fn what_runs_names_its_worker<S: Store + Inspect + Clone>(store: S) {
    let clerk = Clerk::default();
    let engine = running(store, clerk.clone()).await;
    let id = insert::<Clerk>(&engine, New(Task::Hold)).await;
    clerk.here.notified().await;
    let said = explained(&engine, id).await;
    assert_reads(&said, "runs step hold on worker desk-1 (since ", " s)");
    assert!(said.contains("; lease ends in "), "{said}");
    clerk.go_on.notify_one();
    engine.wait(id, LONG).await.unwrap();
}

async fn what_nobody_runs_any_more_waits_for_the_reaper<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let id = insert::<Clerk>(&client, New(Task::Park)).await;
    let worker = NewWorker {
        name: "desk-2".into(),
        host: "host".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: Vec::new(),
        lease: Duration::from_secs(3600),
    };
    let worker = store.register(worker).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("clerk", 1)].into(),
        max: 1,
    };
    assert_eq!(store.claim(request).await.unwrap().claims.len(), 1);
    // It holds a claim, so it stays, with a lease that is over.
    store.deregister(worker).await.unwrap();
    let said = explained(&client, id).await;
    assert_reads(
        &said,
        "runs step park on worker desk-2, whose lease ended ",
        " ago; the reaper gives it back",
    );
}

async fn what_has_ended_says_how<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let done = insert::<Clerk>(&engine, New(Task::End)).await;
    let failed = insert::<Clerk>(&engine, New(Task::Fail)).await;
    engine.wait_ended(done, LONG).await.unwrap();
    engine.wait_ended(failed, LONG).await.unwrap();
    assert_reads(&explained(&engine, done).await, "done ", " ago");
    let said = explained(&engine, failed).await;
    assert_reads(&said, "failed ", " ago at step fail: broken");
}
