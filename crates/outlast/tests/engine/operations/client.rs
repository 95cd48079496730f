//! Clients: inserts, waits, reads and acts of operators, with and without an engine.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::{
    CancelAnswer, Count, DeleteAnswer, Filter, ListRequest, RetryAnswer, Sqlite, TerminateAnswer,
    limits,
};
use outlast_core::{Inspect, Store, Verb};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

on_both_stores!(
    a_hundred_thousand_instances_are_inserted_in_one_call,
    an_insert_of_no_instances_returns_no_answers,
    an_invalid_instance_refuses_its_whole_batch_and_is_named,
    an_instance_whose_state_cannot_be_stored_is_refused,
    a_signal_that_cannot_be_stored_is_refused_with_its_name,
    wait_returns_the_output_by_id_by_key_and_by_the_answer_of_insert,
    wait_for_a_failed_instance_is_an_error_with_the_reason,
    wait_for_a_cancelled_instance_is_an_error_with_the_reason,
    a_wait_that_times_out_is_an_error_with_the_current_instance,
    wait_for_a_missing_instance_is_an_error,
    wait_by_a_released_key_finds_its_latest_holder,
    wait_for_an_id_of_another_machine_is_an_error,
    a_key_finds_its_last_holder_after_the_end,
    operators_act_by_key,
    missing_queue_names_similar_queues_for_an_unknown_one,
    wait_for_an_output_of_another_shape_is_an_error,
    wait_settled_ends_at_a_park,
    many_clients_can_wait_for_one_instance,
    get_finds_an_instance_by_id_and_by_key,
    list_and_count_apply_their_filter,
    list_returns_pages_without_gaps_or_duplicates,
    count_counts_the_instances_of_a_queue,
    a_page_larger_than_the_limit_is_refused,
    retry_runs_a_failed_instance_again_at_its_step,
    a_retry_of_a_done_parked_or_missing_instance_is_answered,
    pause_holds_a_queue_back_and_resume_lets_it_go,
    delete_removes_ended_instances_only,
    delete_spares_a_child_whose_parent_lives,
    terminate_ends_a_parked_instance,
    terminate_ends_a_running_instance_and_its_outcome_is_dropped,
    terminate_all_answers_for_ended_and_missing_instances,
    the_acts_of_operators_are_stored_with_name_and_reason,
    a_client_reads_queues_and_workers,
);

/// Does what its state says.
#[derive(Clone, Default)]
struct Servant {
    mended: Arc<AtomicBool>,
    here: Arc<tokio::sync::Notify>,
    go_on: Arc<tokio::sync::Notify>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Task {
    Answer(u32),
    Say(String),
    Fail,
    FailUntilMended,
    Cancel,
    Park,
    Hold,
    Spawn,
}

#[derive(Serialize, Deserialize)]
struct Go;

impl Signal for Go {
    const NAME: &'static str = "go";
}

#[derive(Serialize, Deserialize)]
struct Hey(String);

impl Signal for Hey {
    const NAME: &'static str = "hey";
}

impl Machine for Servant {
    const NAME: &'static str = "servant";
    type State = Task;
    type Output = u32;

    async fn step(&self, task: Task, cx: &Context) -> StepResult<Self> {
        Ok(match task {
            Task::Answer(number) => Outcome::done(number),
            Task::Say(_) => Outcome::done(0),
            Task::Fail => Outcome::fail("broken"),
            Task::FailUntilMended if self.mended.load(Ordering::SeqCst) => {
                Outcome::done(cx.attempt())
            }
            Task::FailUntilMended if cx.attempt() == 0 => {
                Outcome::retry(Duration::ZERO, "broken once")
            }
            Task::FailUntilMended => Outcome::fail("broken twice"),
            Task::Cancel => Outcome::cancelled("not wanted"),
            Task::Park => wait_for([Go::NAME]).then(Task::Answer(7)),
            Task::Hold => {
                self.here.notify_one();
                self.go_on.notified().await;
                Outcome::done(u32::from(cx.is_cancelled()))
            }
            Task::Spawn => {
                fan_out([New::<Servant>(Task::Answer(1)), New(Task::Park)]).then(Task::Answer(2))
            }
        })
    }
}

/// Declares another output for the same instances.
struct Impostor;

impl Machine for Impostor {
    const NAME: &'static str = Servant::NAME;
    type State = Task;
    type Output = String;

    async fn step(&self, _: Task, _cx: &Context) -> StepResult<Self> {
        unreachable!("this machine is never registered")
    }
}

fn operator() -> Note {
    Note::by("ada").because("testing")
}

async fn a_hundred_thousand_instances_are_inserted_in_one_call<S: Store + Inspect + Clone>(
    store: S,
) {
    const MANY: u32 = 100_000;
    let client = Client::new(store);
    let many = (0..MANY).map(|number| New::<Servant>(Task::Answer(number)));
    let inserted = client.insert_many(many).await.unwrap();
    assert_eq!(inserted.len(), MANY as usize);
    assert!(inserted.iter().all(Inserted::is_new));
    // The ids are in the order of the insert, and the last state has the last id.
    assert!(inserted.is_sorted_by_key(|inserted| inserted.id().unwrap().get()));
    let last = inserted.last().unwrap().id().unwrap();
    let last = client.get(last).await.unwrap().unwrap();
    assert_eq!(last.state.as_str(), "99999");
    let all = client.count(Filter::default()).await.unwrap();
    assert!(matches!(all, Count::Exactly(n) | Count::AtLeast(n) if n == u64::from(MANY)));
}

async fn an_insert_of_no_instances_returns_no_answers<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let nothing = client.insert_many::<Servant>([]).await.unwrap();
    assert!(nothing.is_empty());
}

async fn an_invalid_instance_refuses_its_whole_batch_and_is_named<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let task = || New::<Servant>(Task::Park);
    let tasks = [task(), task(), task().key(""), task()];
    let refusal = client.insert_many(tasks).await.unwrap_err();
    assert_eq!(refusal.kind(), outlast::ErrorKind::Invalid);
    assert!(refusal.to_string().contains("instance 2"), "{refusal}");
    let stored = client.count(Filter::default()).await.unwrap();
    assert_eq!(stored, Count::Exactly(0));
}

async fn an_instance_whose_state_cannot_be_stored_is_refused<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let refusal = client
        .insert(New::<Servant>(Task::Say("\0".to_owned())))
        .await;
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.kind(), outlast::ErrorKind::Invalid);
    assert!(refusal.to_string().contains("\\u0000"), "{refusal}");
}

async fn a_signal_that_cannot_be_stored_is_refused_with_its_name<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let id = insert::<Servant>(&client, New(Task::Park)).await;
    let refusal = client.signal(id, Hey("\0".to_owned())).await.unwrap_err();
    assert_eq!(refusal.kind(), outlast::ErrorKind::Invalid);
    assert!(refusal.to_string().contains("signal hey"), "{refusal}");
    assert!(client.signals(id.get(), None).await.unwrap().is_empty());
}

async fn wait_returns_the_output_by_id_by_key_and_by_the_answer_of_insert<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let parked = New::<Servant>(Task::Park)
        .key("task:1")
        .scope(Scope::FOREVER);
    let inserted = engine.insert(parked).await.unwrap();
    let id = inserted.id().unwrap();
    engine.signal(id, Go).await.unwrap();
    assert_eq!(engine.wait(inserted, LONG).await.unwrap(), 7);
    assert_eq!(engine.wait(id, LONG).await.unwrap(), 7);
    assert_eq!(engine.wait(Servant::key("task:1"), LONG).await.unwrap(), 7);
    let plain = Id::<Servant>::of(id.get());
    assert_eq!(engine.wait(plain, LONG).await.unwrap(), 7);
}

async fn wait_for_a_failed_instance_is_an_error_with_the_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert::<Servant>(&engine, New(Task::Fail)).await;
    let error = engine.wait(task, LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("instance {task} is failed: broken")
    );
    let WaitError::Ended { id, status, reason } = error else {
        panic!("{error:?}");
    };
    assert_eq!((id, status), (task.get(), Status::Failed));
    assert_eq!(reason.as_deref(), Some("broken"));
}

async fn wait_for_a_cancelled_instance_is_an_error_with_the_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert::<Servant>(&engine, New(Task::Cancel)).await;
    let error = engine.wait(task, LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("instance {task} is cancelled: not wanted")
    );
}

async fn a_wait_that_times_out_is_an_error_with_the_current_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert::<Servant>(&engine, New(Task::Park)).await;
    engine.wait_settled(task, LONG).await.unwrap();
    let (begun, at_most) = (Instant::now(), Duration::from_millis(80));
    let error = engine.wait(task, at_most).await.unwrap_err();
    assert!(begun.elapsed() >= at_most);
    assert!(
        error
            .to_string()
            .contains("still awaiting_signal at step answer"),
        "{error}"
    );
    let WaitError::TimedOut(instance) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (instance.id, instance.status),
        (task.get(), Status::AwaitingSignal)
    );
    // The instance goes on, and another wait finds its end.
    engine.signal(task, Go).await.unwrap();
    assert_eq!(engine.wait(task, LONG).await.unwrap(), 7);
}

async fn wait_for_a_missing_instance_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let missing = Id::<Servant>::of(InstanceId(4711));
    let by_id = client.wait(missing, LONG).await.unwrap_err();
    let by_key = client.wait(Servant::key("task:1"), LONG).await.unwrap_err();
    let unknown = Inserted::<Servant>::Duplicate { holder: None };
    let by_insert = client.wait(unknown, LONG).await.unwrap_err();
    for error in [by_id, by_key, by_insert] {
        assert!(matches!(error, WaitError::NotFound), "{error:?}");
    }
}

async fn wait_by_a_released_key_finds_its_latest_holder<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    for number in [7, 8] {
        let id = insert(&engine, New::<Servant>(Task::Answer(number)).key("task:1")).await;
        assert_eq!(engine.wait(id, LONG).await.unwrap(), number);
        let by_key = engine.wait(Servant::key("task:1"), LONG).await.unwrap();
        assert_eq!(by_key, number);
    }
    // A wait finds the holder of the key once, and keeps to it.
    let parked = insert(&engine, New::<Servant>(Task::Park).key("task:1")).await;
    engine.wait_settled(parked, LONG).await.unwrap();
    let waiting = {
        let engine = engine.client().clone();
        tokio::spawn(async move { engine.wait(Servant::key("task:1"), LONG).await })
    };
    engine.signal(parked, Go).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
}

/// Another machine with the same type of output.
struct Stranger;

impl Machine for Stranger {
    const NAME: &'static str = "stranger";
    type State = Task;
    type Output = u32;

    async fn step(&self, _: Task, _cx: &Context) -> StepResult<Self> {
        unreachable!("this machine is never registered")
    }
}

async fn wait_for_an_id_of_another_machine_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let servant = Servant::default();
    let engine = running(store, servant.clone()).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    engine.wait(done, LONG).await.unwrap();
    let held = insert::<Servant>(&engine, New(Task::Hold)).await;
    servant.here.notified().await;
    for id in [done, held] {
        let mistaken = Id::<Stranger>::of(id.get());
        let error = engine.wait(mistaken, LONG).await.unwrap_err();
        let expected = format!("instance {id} is of machine servant, not of stranger");
        assert_eq!(error.to_string(), expected);
    }
    servant.go_on.notify_one();
}

async fn a_key_finds_its_last_holder_after_the_end<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let key = || Servant::key("task:1");
    assert!(engine.get(key()).await.unwrap().is_none());
    let id = insert(&engine, New::<Servant>(Task::Answer(7)).key("task:1")).await;
    engine.wait(id, LONG).await.unwrap();
    let found = engine.get(key()).await.unwrap().unwrap();
    assert_eq!((found.id, found.status), (id.get(), Status::Done));
    let ended = engine.wait_ended(key(), LONG).await.unwrap();
    assert_eq!(ended.id, id.get());
    let answer = engine.cancel(key(), operator()).await.unwrap();
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Done));
    let answer = engine.terminate(key(), operator()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::AlreadyEnded(Status::Done));
}

async fn operators_act_by_key<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let key = || Servant::key("task:1");
    let missing = engine.cancel(key(), operator()).await.unwrap();
    assert_eq!(missing, CancelAnswer::NotFound);
    let missing = engine.terminate_tree(key(), operator()).await.unwrap();
    assert_eq!(missing, TerminateAnswer::NotFound);
    let parked = insert(&engine, New::<Servant>(Task::Park).key("task:1")).await;
    engine.wait_settled(parked, LONG).await.unwrap();
    let requested = engine.cancel(key(), operator()).await.unwrap();
    assert_eq!(requested, CancelAnswer::Requested(Status::AwaitingSignal));
    let ended = engine.wait_ended(parked, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let retried = engine.retry(key(), operator()).await.unwrap();
    assert_eq!(retried, RetryAnswer::Retried);
    // The instance goes on at the step after the wait.
    assert_eq!(engine.wait(parked, LONG).await.unwrap(), 7);
    let next = insert(&engine, New::<Servant>(Task::Park).key("task:1")).await;
    engine.wait_settled(next, LONG).await.unwrap();
    let ended = engine.terminate(key(), operator()).await.unwrap();
    assert_eq!(ended, TerminateAnswer::Terminated(Status::AwaitingSignal));
    let deleted = engine.delete(key(), operator()).await.unwrap();
    assert_eq!(deleted, DeleteAnswer::Deleted);
    let found = engine.get(key()).await.unwrap().unwrap();
    assert_eq!(
        found.id,
        parked.get(),
        "the key finds the latest holder that is stored"
    );
}

async fn missing_queue_names_similar_queues_for_an_unknown_one<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store.clone());
    assert_eq!(client.missing_queue("default").await.unwrap(), None);
    let builder = Engine::builder(store).machine(Servant::default());
    let builder = builder.queue("default", 1).queue("mail", 1);
    let engine = builder.start().await.unwrap();
    insert(&engine, New::<Servant>(Task::Answer(1)).queue("later")).await;
    for known in ["default", "mail", "later"] {
        assert_eq!(client.missing_queue(known).await.unwrap(), None);
    }
    let near = client.missing_queue("mial").await.unwrap().unwrap();
    assert_eq!(near.first().map(String::as_str), Some("mail"));
    assert!(
        client.pause("mial", operator()).await.unwrap(),
        "a queue can be paused in advance"
    );
    assert_eq!(client.missing_queue("mial").await.unwrap(), None);
}

async fn wait_for_an_output_of_another_shape_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let task = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    let mistaken = Id::<Impostor>::of(task.get());
    let error = engine.wait(mistaken, LONG).await.unwrap_err();
    assert!(
        matches!(error, WaitError::Result { id, .. } if id == task.get()),
        "{error:?}"
    );
    assert!(error.to_string().contains("does not decode"), "{error}");
}

async fn wait_settled_ends_at_a_park<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let signal = insert::<Servant>(&engine, New(Task::Park)).await;
    let children = insert::<Servant>(&engine, New(Task::Spawn)).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    let settled = async |id| engine.wait_settled(id, LONG).await.unwrap().status;
    assert_eq!(settled(signal).await, Status::AwaitingSignal);
    assert_eq!(settled(children).await, Status::AwaitingChildren);
    assert_eq!(settled(done).await, Status::Done);
}

async fn many_clients_can_wait_for_one_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let id = insert::<Servant>(&engine, New(Task::Park)).await;
    let mut waits = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = engine.client().clone();
        waits.spawn(async move { client.wait(id, LONG).await.unwrap() });
    }
    engine.signal(id, Go).await.unwrap();
    assert!(waits.join_all().await.into_iter().all(|output| output == 7));
}

/// Waits in a client for an instance that an engine runs on another store of the same database.
async fn wait_without_an_engine(there: impl Store + Inspect, here: impl Store + Inspect) {
    let engine = running(there, Servant::default()).await;
    let client = Client::new(here);
    let id = insert(&client, New::<Servant>(Task::Park).key("task:1")).await;
    let parked = client.wait_settled(id, LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    client.signal(Servant::key("task:1"), Go).await.unwrap();
    assert_eq!(client.wait(id, LONG).await.unwrap(), 7);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_an_engine_waits_on_another_handle_of_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let (there, here) = (Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap());
    wait_without_an_engine(there.clone(), here.clone()).await;
    here.close().await;
    there.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_an_engine_waits_on_another_connection_of_postgresql() {
    support::on_postgres(async |there| {
        let here = support::postgres(there.schema()).await;
        wait_without_an_engine(there, here.clone()).await;
        here.close().await;
    })
    .await;
}

async fn get_finds_an_instance_by_id_and_by_key<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let new = New::<Servant>(Task::Answer(7)).key("task:1").priority(-3);
    let id = insert(&client, new.partition_key("ada").queue("later")).await;
    let found = client.get(id).await.unwrap().unwrap();
    assert_eq!((found.machine.as_str(), found.version), ("servant", 1));
    assert_eq!((found.step.as_str(), found.state.as_str()), ("answer", "7"));
    assert_eq!((found.queue.as_str(), found.priority), ("later", -3));
    assert_eq!(found.partition_key.as_deref(), Some("ada"));
    assert_eq!(found.correlation_key.as_deref(), Some("task:1"));
    assert_eq!((found.status, found.attempt), (Status::Runnable, 0));
    let by_key = client.get(Servant::key("task:1")).await.unwrap();
    assert_eq!(by_key, Some(found));
    assert!(client.get(Servant::key("task:2")).await.unwrap().is_none());
    assert!(client.get(InstanceId(4711)).await.unwrap().is_none());
}

async fn list_and_count_apply_their_filter<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let parked = insert(&engine, New::<Servant>(Task::Park).key("task:1")).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    let failed = insert::<Servant>(&engine, New(Task::Fail)).await;
    let elsewhere = insert(&engine, New::<Servant>(Task::Park).queue("elsewhere")).await;
    for id in [parked, done, failed] {
        engine.wait_settled(id, LONG).await.unwrap();
    }
    let all = Filter::default;
    let cases = [
        (all(), vec![elsewhere, failed, done, parked]),
        (
            Filter {
                statuses: vec![Status::Failed, Status::Done],
                ..all()
            },
            vec![failed, done],
        ),
        (
            Filter {
                queue: Some("elsewhere".to_owned()),
                ..all()
            },
            vec![elsewhere],
        ),
        (
            Filter {
                machine: Some("servant".to_owned()),
                step: Some("answer".to_owned()),
                ..all()
            },
            vec![done, parked],
        ),
        (
            Filter {
                correlation_key: Some("task:1".to_owned()),
                ..all()
            },
            vec![parked],
        ),
        (
            Filter {
                version: Some(2),
                ..all()
            },
            vec![],
        ),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(Id::get).collect();
        let request = ListRequest {
            filter: filter.clone(),
            limit: 100,
            ..ListRequest::default()
        };
        let page = engine.list(request).await.unwrap();
        let found: Vec<_> = page.instances.iter().map(|instance| instance.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        let count = engine.count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(expected.len() as u64));
    }
}

async fn list_returns_pages_without_gaps_or_duplicates<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let tasks = (0..25).map(|number| New::<Servant>(Task::Answer(number)));
    let inserted = client.insert_many(tasks).await.unwrap();
    let (mut seen, mut sizes, mut before) = (Vec::new(), Vec::new(), None);
    loop {
        let request = ListRequest {
            before,
            limit: 10,
            ..ListRequest::default()
        };
        let page = client.list(request).await.unwrap();
        sizes.push(page.instances.len());
        seen.extend(page.instances.into_iter().map(|instance| instance.id));
        before = page.next;
        if before.is_none() {
            break;
        }
        // Instances inserted meanwhile are newer than the next page.
        insert::<Servant>(&client, New(Task::Park)).await;
    }
    let mut expected: Vec<_> = inserted.iter().map(|it| it.id().unwrap().get()).collect();
    expected.reverse();
    assert_eq!(seen, expected);
    assert_eq!(sizes, [10, 10, 5]);
}

async fn count_counts_the_instances_of_a_queue<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let tasks = (0..30).map(|number| {
        let queue = if number % 3 == 0 { "a" } else { "b" };
        New::<Servant>(Task::Answer(number)).queue(queue)
    });
    client.insert_many(tasks).await.unwrap();
    let count = async |queue: Option<&str>| {
        let filter = Filter {
            queue: queue.map(str::to_owned),
            ..Filter::default()
        };
        client.count(filter).await.unwrap()
    };
    assert_eq!(count(None).await, Count::Exactly(30));
    assert_eq!(count(Some("a")).await, Count::Exactly(10));
    assert_eq!(count(Some("c")).await, Count::Exactly(0));
}

async fn a_page_larger_than_the_limit_is_refused<S: Store + Inspect + Clone>(store: S) {
    let request = ListRequest {
        limit: limits::PAGE_MAX + 1,
        ..ListRequest::default()
    };
    let refusal = Client::new(store).list(request).await.unwrap_err();
    assert_eq!(refusal.kind(), outlast::ErrorKind::Invalid);
}

async fn retry_runs_a_failed_instance_again_at_its_step<S: Store + Inspect + Clone>(store: S) {
    let servant = Servant::default();
    let engine = running(store, servant.clone()).await;
    let id = insert::<Servant>(&engine, New(Task::FailUntilMended)).await;
    let failed = engine.wait_ended(id, LONG).await.unwrap();
    assert_eq!(failed.last_error.as_deref(), Some("broken twice"));
    servant.mended.store(true, Ordering::SeqCst);
    let answer = engine.retry(id, operator()).await.unwrap();
    assert_eq!(answer, RetryAnswer::Retried);
    // The attempts start again at 0.
    assert_eq!(engine.wait(id, LONG).await.unwrap(), 0);
}

async fn a_retry_of_a_done_parked_or_missing_instance_is_answered<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    let parked = insert::<Servant>(&engine, New(Task::Park)).await;
    engine.wait(done, LONG).await.unwrap();
    engine.wait_settled(parked, LONG).await.unwrap();
    let ids = vec![done.get(), parked.get(), InstanceId(4711)];
    let answers = engine.retry_all(ids, operator()).await.unwrap();
    let expected = [
        RetryAnswer::NotEndedBadly(Status::Done),
        RetryAnswer::NotEndedBadly(Status::AwaitingSignal),
        RetryAnswer::NotFound,
    ];
    assert_eq!(answers, expected);
}

async fn pause_holds_a_queue_back_and_resume_lets_it_go<S: Store + Inspect + Clone>(store: S) {
    let builder = Engine::builder(store).machine(Servant::default());
    let builder = builder.queue("default", 1).queue("other", 1);
    let builder = builder.poll_interval(Duration::from_secs(3600));
    let engine = builder.start().await.unwrap();
    assert!(engine.pause("default", operator()).await.unwrap());
    assert!(
        !engine.pause("default", operator()).await.unwrap(),
        "the queue is paused already"
    );
    let held = insert::<Servant>(&engine, New(Task::Answer(1))).await;
    let other = insert(&engine, New::<Servant>(Task::Answer(2)).queue("other")).await;
    assert_eq!(engine.wait(other, LONG).await.unwrap(), 2);
    let untouched = engine.get(held).await.unwrap().unwrap();
    assert_eq!(
        (untouched.status, untouched.revision.0),
        (Status::Runnable, 0)
    );
    let queues = engine.queues().await.unwrap();
    assert!(
        queues
            .iter()
            .any(|queue| queue.name == "default" && queue.paused)
    );
    assert!(engine.resume("default", operator()).await.unwrap());
    assert_eq!(engine.wait(held, LONG).await.unwrap(), 1);
    assert!(!engine.resume("default", operator()).await.unwrap());
}

async fn delete_removes_ended_instances_only<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    let parked = insert::<Servant>(&engine, New(Task::Park)).await;
    engine.wait(done, LONG).await.unwrap();
    engine.wait_settled(parked, LONG).await.unwrap();
    let delete = async |id| engine.delete(id, operator()).await.unwrap();
    assert_eq!(delete(done).await, DeleteAnswer::Deleted);
    assert_eq!(delete(done).await, DeleteAnswer::NotFound);
    assert!(engine.get(done).await.unwrap().is_none());
    let expected = DeleteAnswer::NotEnded(Status::AwaitingSignal);
    assert_eq!(delete(parked).await, expected);
    assert!(engine.get(parked).await.unwrap().is_some());
}

async fn delete_spares_a_child_whose_parent_lives<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let parent = insert::<Servant>(&engine, New(Task::Spawn)).await;
    engine.wait_settled(parent, LONG).await.unwrap();
    let children = engine.children(parent.get()).await.unwrap();
    let (done, parked) = (children[0].id, children[1].id);
    engine.wait_ended(done, LONG).await.unwrap();
    let delete = async || engine.delete(done, operator()).await.unwrap();
    assert_eq!(delete().await, DeleteAnswer::ParentLives(parent.get()));
    engine.signal(parked, Go).await.unwrap();
    assert_eq!(engine.wait(parent, LONG).await.unwrap(), 2);
    assert_eq!(delete().await, DeleteAnswer::Deleted);
}

async fn terminate_ends_a_parked_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let id = insert::<Servant>(&engine, New(Task::Park)).await;
    engine.wait_settled(id, LONG).await.unwrap();
    let waiting = tokio::spawn({
        let client = engine.client().clone();
        async move { client.wait_ended(id, LONG).await.unwrap() }
    });
    let answer = engine.terminate(id, operator()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::AwaitingSignal));
    let ended = waiting.await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(
        ended.last_error.as_deref(),
        Some("terminated by ada: testing")
    );
}

async fn terminate_ends_a_running_instance_and_its_outcome_is_dropped<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let servant = Servant::default();
    let engine = running(store, servant.clone()).await;
    let id = insert::<Servant>(&engine, New(Task::Hold)).await;
    servant.here.notified().await;
    let answer = engine.terminate(id, operator()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Executing));
    servant.go_on.notify_one();
    // The shutdown waits for the step and for its commit.
    assert!(engine.shutdown().await.in_time);
    let ended = engine.get(id).await.unwrap().unwrap();
    assert_eq!((ended.status, ended.result), (Status::Cancelled, None));
}

async fn terminate_all_answers_for_ended_and_missing_instances<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let done = insert::<Servant>(&engine, New(Task::Answer(7))).await;
    engine.wait(done, LONG).await.unwrap();
    let ids = vec![done.get(), InstanceId(4711)];
    let answers = engine.terminate_all(ids, operator()).await.unwrap();
    let expected = [
        TerminateAnswer::AlreadyEnded(Status::Done),
        TerminateAnswer::NotFound,
    ];
    assert_eq!(answers, expected);
}

async fn the_acts_of_operators_are_stored_with_name_and_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let id = insert::<Servant>(&client, New(Task::Park)).await;
    client.terminate(id, operator()).await.unwrap();
    client.retry(id, Note::by("bob")).await.unwrap();
    client.pause("default", operator()).await.unwrap();
    let operations = client.operations(Some(id.get())).await.unwrap();
    let operations: Vec<_> = operations
        .iter()
        .map(|it| {
            (
                it.verb,
                it.by.as_str(),
                it.reason.as_deref(),
                it.status_before,
            )
        })
        .collect();
    let expected = [
        (Verb::Retry, "bob", None, Some(Status::Cancelled)),
        (
            Verb::Terminate,
            "ada",
            Some("testing"),
            Some(Status::Runnable),
        ),
    ];
    assert_eq!(operations, expected);
    let all = client.operations(None).await.unwrap();
    assert_eq!((all.len(), all[0].verb), (3, Verb::Pause));
}

async fn a_client_reads_queues_and_workers<S: Store + Inspect + Clone>(store: S) {
    let servant = Servant::default();
    let store = Through::new(store);
    let builder = Engine::builder(store.clone()).machine(servant.clone());
    let builder = builder.queue("default", 1).queue("other", 1).name("butler");
    let engine = builder.start().await.unwrap();
    store.first_claims(2).await;
    insert::<Servant>(&engine, New(Task::Hold)).await;
    servant.here.notified().await;
    insert::<Servant>(&engine, New(Task::Hold)).await;
    let later = New::<Servant>(Task::Hold).delay(Duration::from_secs(3600));
    insert(&engine, later).await;
    // A claim that raced the insert waits for the slot, and is given back after a while.
    eventually("one executes, one waits and one is delayed", async || {
        let queues = engine.queues().await.unwrap();
        let queue = queues.iter().find(|queue| queue.name == "default").unwrap();
        let one = Count::Exactly(1);
        (queue.executing, queue.eligible, queue.delayed) == (one, one, one)
    })
    .await;
    let workers = engine.workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(
        (workers[0].name.as_str(), &workers[0].queues[..]),
        ("butler", &["default".to_owned(), "other".to_owned()][..])
    );
    servant.go_on.notify_one();
    eventually("the second instance runs", async || {
        engine.queues().await.unwrap()[0].eligible == Count::Exactly(0)
    })
    .await;
    servant.go_on.notify_one();
    engine.shutdown().await;
    assert!(engine.workers().await.unwrap().is_empty());
}
