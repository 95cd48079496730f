//! `explain`: one sentence about what an instance waits for, or how it ended.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::machine::wait_for_named;
use outlast::prelude::*;
use outlast::store::{
    ChildRange, ClaimRequest, Commit, Flowing, Inspect, JoinSet, JoinSets, Json, Liveness,
    MachineOffer, MachineVersion, NewInstance, NewWorker, Park, RepairAnswer, RepairNeed, Store,
    Verb,
};
use outlast::{Client, Handle, InstanceId, Note, Status};
use std::sync::Arc;
use tokio::sync::Notify;

on_both_stores!(
    explain_names_the_signals_and_the_deadline_of_a_parked_instance,
    explain_counts_the_children_of_a_join,
    explain_says_why_no_worker_runs_a_due_instance,
    explain_names_the_instance_that_holds_the_partition_key,
    explain_shows_the_time_and_the_error_of_a_retry,
    explain_names_the_worker_of_a_running_instance,
    explain_says_that_the_claim_of_a_dead_worker_waits_for_the_reaper,
    explain_says_how_an_instance_has_ended,
    explain_says_that_an_instance_needs_a_repair_and_how,
);

#[derive(Clone, Default)]
struct Clerk {
    here: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[steps]
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
        match task {
            Task::Park => wait_for_named(["paid", "refused"])
                .timeout(HOUR)
                .then(Task::End),
            Task::Sleep => sleep(HOUR).then(Task::End),
            Task::Hold => {
                self.here.notify_one();
                self.go_on.notified().await;
                done(())
            }
            Task::Fail => fail("broken"),
            Task::RetryLater => retry(HOUR, "not yet"),
            Task::FanOut => {
                fan_out([Task::End, Task::Park, Task::Fail].map(Clerk::with)).then(Task::End)
            }
            Task::End => done(()),
        }
    }
}

async fn running(store: impl Store + Inspect, clerk: Clerk) -> Engine {
    let builder = Engine::builder(store).register(clerk).name("desk-1");
    builder.queue("default", 10).start().await.unwrap()
}

async fn explained(clerk: &Handle<Clerk>) -> String {
    clerk.explain().await.unwrap()
}

#[track_caller]
fn assert_reads(text: &str, begins: &str, ends: &str) {
    assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
}

async fn explain_names_the_signals_and_the_deadline_of_a_parked_instance<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Clerk::default()).await;
    let parked = insert(engine.client(), Clerk::with(Task::Park)).await;
    let asleep = insert(engine.client(), Clerk::with(Task::Sleep)).await;
    parked.settled().timeout(LONG).await.unwrap();
    asleep.settled().timeout(LONG).await.unwrap();
    let text = explained(&parked).await;
    assert_reads(
        &text,
        "waits for signal paid or refused until ",
        " UTC (in 59 min)",
    );
    let text = explained(&asleep).await;
    assert_reads(&text, "sleeps until ", " UTC (in 59 min)");
}

async fn explain_counts_the_children_of_a_join<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let parent = insert(engine.client(), Clerk::with(Task::FanOut)).await;
    eventually("one of three children is left", async || {
        explained(&parent).await == "waits for 1 of 3 children, 1 has failed"
    })
    .await;
}

async fn explain_says_why_no_worker_runs_a_due_instance<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let handle = insert(&client, Clerk::with(Task::Park)).await;
    assert_eq!(
        explained(&handle).await,
        "is due in queue default, and no live worker serves that queue"
    );
    let worker = NewWorker {
        name: "other".into(),
        host: "host".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: vec![MachineOffer {
            name: "mailer".into(),
            version: 1,
            queue: "default".into(),
            steps: vec!["send".into()],
        }],
        lease: HOUR,
    };
    store.register(worker).await.unwrap();
    assert_eq!(
        explained(&handle).await,
        "is due in queue default, and no live worker there has machine clerk version 1"
    );
    let admin = client.admin();
    admin.pause("default", Note::by("ada")).await.unwrap();
    assert_eq!(
        explained(&handle).await,
        "waits in queue default, which is paused"
    );
    let later = Clerk::with(Task::Park).delay(HOUR);
    let later = insert(&client, later).await;
    let text = explained(&later).await;
    let no_worker = "; no live worker of queue default has machine clerk version 1";
    assert_reads(
        &text,
        "runs step park at ",
        &format!(" UTC (in 59 min){no_worker}"),
    );
}

async fn explain_names_the_instance_that_holds_the_partition_key<S: Store + Inspect + Clone>(
    store: S,
) {
    let clerk = Clerk::default();
    let engine = running(store, clerk.clone()).await;
    let keyed = |task| Clerk::with(task).partition_key("ada");
    let first = insert(engine.client(), keyed(Task::Hold)).await;
    clerk.here.notified().await;
    let second = insert(engine.client(), keyed(Task::End)).await;
    let third = insert(engine.client(), keyed(Task::End)).await;
    for behind in [&second, &third] {
        assert_eq!(
            explained(behind).await,
            format!(
                "waits behind instance {}, which has the same partition key and runs",
                first.id()
            )
        );
    }
    clerk.go_on.notify_one();
    third.output().timeout(LONG).await.unwrap();
}

async fn explain_shows_the_time_and_the_error_of_a_retry<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let handle = insert(engine.client(), Clerk::with(Task::RetryLater)).await;
    eventually("the first attempt is over", async || {
        let text = explained(&handle).await;
        text == "retries step retry_later in 59 min (attempt 2): last error not yet"
    })
    .await;
}

/// Makes an instance that nothing would wake: it waits for a child that it has not started.
async fn lost(store: &impl Store) -> InstanceId {
    let worker = NewWorker {
        name: "loser".into(),
        host: "here".into(),
        version: "1".into(),
        queues: vec!["lost".into()],
        machines: Vec::new(),
        lease: LONG,
    };
    let worker = store.register(worker).await.unwrap();
    let row = NewInstance::new("lost", "run", Json::null()).queue("lost");
    store.insert(vec![row], None).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "lost".into(),
        machines: [MachineVersion::new("lost", 1)].into(),
        max: 1,
    };
    let claim = store.claim(request).await.unwrap().claims.remove(0);
    let set = JoinSet {
        ranges: vec![ChildRange::whole(1)],
        children: Vec::new(),
        count: 1,
    };
    let park = Park {
        join_sets: Some(JoinSets::one(set)),
        ..Park::default()
    };
    let waits = outlast::store::Outcome::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Park(park),
    };
    let commits = vec![Commit::of(&claim, waits)];
    store.commit(commits.into()).await.unwrap();
    store.deregister(worker).await.unwrap();
    claim.id
}

async fn explain_says_that_an_instance_needs_a_repair_and_how<S: Store + Inspect + Clone>(
    store: S,
) {
    let id = lost(&store).await;
    let client = Client::new(store);
    let admin = client.admin();
    let get = async || client.find(id).await.unwrap().unwrap();
    assert_eq!(
        admin.explain(&get().await).await.unwrap(),
        format!(
            "needs a repair: an awaited child has ended without waking it, and nothing would wake it; run `outlast repair {id}`"
        )
    );
    let liveness = admin.liveness(&get().await).await.unwrap();
    assert_eq!(liveness, Liveness::RepairNeeded);
    let note = || Note::by("ada");
    let repaired = RepairAnswer::Repaired(RepairNeed::ChildrenFinished);
    assert_eq!(admin.repair(id, note()).await.unwrap(), repaired);
    let not_needed = RepairAnswer::NotNeeded(Status::Runnable);
    assert_eq!(admin.repair(id, note()).await.unwrap(), not_needed);
    let liveness = admin.liveness(&get().await).await.unwrap();
    assert_eq!(liveness, Liveness::Queued);
    let missing = admin.repair(InstanceId(999_999), note()).await.unwrap();
    assert_eq!(missing, RepairAnswer::NotFound);
    let operations = admin.operations(Some(id)).await.unwrap();
    let [operation] = &operations[..] else {
        panic!("one repair is recorded: {operations:?}");
    };
    assert_eq!((operation.verb, &operation.by[..]), (Verb::Repair, "ada"));
}

async fn explain_names_the_worker_of_a_running_instance<S: Store + Inspect + Clone>(store: S) {
    let clerk = Clerk::default();
    let engine = running(store, clerk.clone()).await;
    let handle = insert(engine.client(), Clerk::with(Task::Hold)).await;
    clerk.here.notified().await;
    let text = explained(&handle).await;
    assert_reads(&text, "runs step hold on worker desk-1 (since ", " s)");
    assert!(text.contains("; lease ends in "), "{text}");
    clerk.go_on.notify_one();
    handle.output().timeout(LONG).await.unwrap();
}

async fn explain_says_that_the_claim_of_a_dead_worker_waits_for_the_reaper<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store.clone());
    let handle = insert(&client, Clerk::with(Task::Park)).await;
    let worker = NewWorker {
        name: "desk-2".into(),
        host: "host".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: Vec::new(),
        lease: HOUR,
    };
    let worker = store.register(worker).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("clerk", 1)].into(),
        max: 1,
    };
    assert_eq!(store.claim(request).await.unwrap().claims.len(), 1);
    // A worker that holds a claim is kept, with an expired lease.
    store.deregister(worker).await.unwrap();
    let text = explained(&handle).await;
    assert_reads(
        &text,
        "runs step park on worker desk-2, whose lease ended ",
        " ago; the reaper gives it back",
    );
}

async fn explain_says_how_an_instance_has_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let done = insert(engine.client(), Clerk::with(Task::End)).await;
    let failed = insert(engine.client(), Clerk::with(Task::Fail)).await;
    done.ended().timeout(LONG).await.unwrap();
    failed.ended().timeout(LONG).await.unwrap();
    assert_reads(&explained(&done).await, "done ", " ago");
    let text = explained(&failed).await;
    assert_reads(&text, "failed ", " ago at step fail: broken");
}
