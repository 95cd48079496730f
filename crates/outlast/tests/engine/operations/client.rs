//! Clients: inserts, waits, reads and acts of operators, with and without an engine.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::Through;
use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{
    CancelAnswer, Count, DeleteAnswer, ErrorKind, Filter, Inspect, Json, ListRequest, NewInstance,
    RetryAnswer, Scope, Store, Target, TerminateAnswer, Verb, limits,
};
use outlast::{
    Client, Handle, Id, InstanceId, Job, JobError, LookupError, Note, Outcome, SignalError, Sqlite,
    Status, WaitError,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

on_both_stores!(
    a_hundred_thousand_instances_are_inserted_in_one_call,
    an_insert_of_no_instances_returns_no_answers,
    an_invalid_instance_refuses_its_whole_batch_and_is_named,
    an_instance_whose_state_cannot_be_stored_is_refused,
    a_signal_that_cannot_be_stored_is_refused_with_its_name,
    start_many_answers_in_the_callers_order_with_the_holders_of_taken_keys,
    a_signal_says_where_it_went_and_whether_it_is_new,
    a_signal_to_an_ended_instance_is_an_error_that_says_what_to_do,
    a_signal_to_a_key_that_nobody_holds_is_an_error_that_says_what_to_do,
    signal_or_start_starts_an_instance_with_the_signal_or_signals_the_holder,
    signal_or_start_starts_another_instance_after_the_end_of_the_holder,
    signal_or_start_without_a_key_is_refused,
    a_handle_reads_the_key_the_status_and_the_state_of_its_instance,
    a_handle_of_a_state_of_another_shape_says_what_does_not_fit,
    a_handle_acts_on_its_instance,
    a_wait_for_an_instance_in_a_queue_that_nobody_serves_says_so,
    a_wait_for_an_instance_that_no_worker_knows_says_so,
    missing_queue_knows_the_queues_of_registered_machines,
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

#[steps]
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

#[derive(Signal, Serialize, Deserialize)]
struct Go;

#[derive(Signal, Serialize, Deserialize)]
struct Hey(String);

impl Machine for Servant {
    const NAME: &'static str = "servant";
    type State = Task;
    type Output = u32;

    async fn step(&self, task: Task, cx: &Context) -> StepResult<Self> {
        match task {
            Task::Answer(number) => done(number),
            Task::Say(_) => done(0),
            Task::Fail => fail("broken"),
            Task::FailUntilMended if self.mended.load(Ordering::SeqCst) => done(cx.attempt()),
            Task::FailUntilMended if cx.attempt() == 0 => retry(Duration::ZERO, "broken once"),
            Task::FailUntilMended => fail("broken twice"),
            Task::Cancel => Ok(Outcome::cancelled("not wanted")),
            Task::Park => wait_for::<Go>().then(Task::Answer(7)),
            Task::Hold => {
                self.here.notify_one();
                self.go_on.notified().await;
                done(u32::from(cx.is_cancelled()))
            }
            Task::Spawn => {
                fan_out([Task::Answer(1), Task::Park].map(Servant::with)).then(Task::Answer(2))
            }
        }
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
    let many = (0..MANY).map(|number| Servant::with(Task::Answer(number)));
    let started = client.start_many(many).await.unwrap();
    assert_eq!(started.len(), MANY as usize);
    assert!(started.iter().all(Handle::is_new));
    // The ids are in the order of the insert, and the last state has the last id.
    assert!(started.is_sorted_by_key(|started| started.id().get()));
    let last = started.last().unwrap().instance().await.unwrap();
    assert_eq!(last.state.as_str(), "99999");
    let all = client.count(Filter::default()).await.unwrap();
    assert!(matches!(all, Count::Exactly(n) | Count::AtLeast(n) if n == u64::from(MANY)));
}

async fn an_insert_of_no_instances_returns_no_answers<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let nothing = client.start_many::<Servant>([]).await.unwrap();
    assert!(nothing.is_empty());
}

async fn an_invalid_instance_refuses_its_whole_batch_and_is_named<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let task = || Servant::with(Task::Park);
    let tasks = [task(), task(), task().key(""), task()];
    let refusal = client.start_many(tasks).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    assert!(refusal.to_string().contains("instance 2"), "{refusal}");
    let stored = client.count(Filter::default()).await.unwrap();
    assert_eq!(stored, Count::Exactly(0));
}

async fn an_instance_whose_state_cannot_be_stored_is_refused<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let refusal = client
        .start(Servant::with(Task::Say("\0".to_owned())))
        .await;
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    assert!(refusal.to_string().contains("\\u0000"), "{refusal}");
}

async fn a_signal_that_cannot_be_stored_is_refused_with_its_name<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let handle = insert(&client, Servant::with(Task::Park)).await;
    let refusal = handle.signal(Hey("\0".to_owned())).await.unwrap_err();
    let SignalError::Store(refusal) = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    assert!(refusal.to_string().contains("signal hey"), "{refusal}");
    let admin = client.admin();
    let signals = admin.signals(handle.id().get(), None).await.unwrap();
    assert!(signals.is_empty());
}

async fn start_many_answers_in_the_callers_order_with_the_holders_of_taken_keys<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let client = engine.client();
    let holder = insert(client, Servant::with(Task::Park).key("task:1")).await;
    let tasks = [
        Servant::with(Task::Answer(1)),
        Servant::with(Task::Answer(2)).key("task:1"),
        Servant::with(Task::Answer(3)).key("task:3"),
    ];
    let started = client.start_many(tasks).await.unwrap();
    let new: Vec<_> = started.iter().map(Handle::is_new).collect();
    assert_eq!(new, [true, false, true]);
    let keys: Vec<_> = started.iter().map(Handle::key).collect();
    assert_eq!(keys, [None, Some("task:1"), Some("task:3")]);
    assert_eq!(started[1].id(), holder.id());
    assert_eq!(started[0].output().timeout(LONG).await.unwrap(), 1);
    assert_eq!(started[2].output().timeout(LONG).await.unwrap(), 3);
    holder.signal(Go).await.unwrap();
    assert_eq!(started[1].output().timeout(LONG).await.unwrap(), 7);
}

async fn a_signal_says_where_it_went_and_whether_it_is_new<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let task = insert(&client, Servant::with(Task::Park).key("task:1")).await;
    let sent = task.signal(Go).dedup("click-1").await.unwrap();
    assert!(sent.is_new);
    assert_eq!(sent.instance, task.id().get());
    // By its key, with the same dedup key and with another.
    let again = client.signal(Servant::key("task:1"), Go).dedup("click-1");
    let again = again.await.unwrap();
    assert!(!again.is_new);
    assert_eq!(again.instance, task.id().get());
    let other = client.signal(Servant::key("task:1"), Go).dedup("click-2");
    assert!(other.await.unwrap().is_new);
    let inbox = client.admin().signals(task.id().get(), None).await.unwrap();
    assert_eq!(inbox.len(), 2);
}

/// Checks that the signal was not delivered, and that the error says what to do.
#[track_caller]
fn assert_undelivered<T: Debug>(answer: Result<T, SignalError>) {
    let error = answer.unwrap_err();
    assert!(
        matches!(&error, SignalError::NoTarget { signal } if signal == "go"),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "signal go was not delivered: the instance has ended, or no live instance holds the key; \
         signal_or_start starts one"
    );
}

async fn a_signal_to_an_ended_instance_is_an_error_that_says_what_to_do<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    for task in [Task::Answer(7), Task::Fail, Task::Cancel] {
        let task = insert(engine.client(), Servant::with(task)).await;
        task.ended().timeout(LONG).await.unwrap();
        assert_undelivered(task.signal(Go).await);
        assert_undelivered(task.signal(Go).dedup("click-1").await);
    }
    assert_undelivered(engine.client().signal(InstanceId(4711), Go).await);
}

async fn a_signal_to_a_key_that_nobody_holds_is_an_error_that_says_what_to_do<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let client = engine.client();
    assert_undelivered(client.signal(Servant::key("task:1"), Go).await);
    // An ended instance no longer holds its key.
    let task = insert(client, Servant::with(Task::Answer(7)).key("task:1")).await;
    task.output().timeout(LONG).await.unwrap();
    assert_undelivered(client.signal(Servant::key("task:1"), Go).await);
    // The same key of another machine is another key.
    insert(client, Servant::with(Task::Park).key("task:1")).await;
    assert_undelivered(client.signal(Stranger::key("task:1"), Go).await);
    client.signal(Servant::key("task:1"), Go).await.unwrap();
}

async fn signal_or_start_starts_an_instance_with_the_signal_or_signals_the_holder<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store.clone());
    let task = || Servant::with(Task::Park).key("task:1");
    let first = client.signal_or_start(task(), Go).dedup("click-1");
    let first = first.await.unwrap();
    assert!(first.is_new(), "it was started");
    assert_eq!(first.key(), Some("task:1"));
    let second = client.signal_or_start(task(), Go).dedup("click-2");
    let second = second.await.unwrap();
    assert!(!second.is_new(), "it was signalled");
    assert_eq!((second.id(), second.key()), (first.id(), Some("task:1")));
    let again = client.signal_or_start(task(), Go).dedup("click-1");
    let again = again.await.unwrap();
    assert_eq!((again.id(), again.is_new()), (first.id(), false));
    let inbox = client
        .admin()
        .signals(first.id().get(), None)
        .await
        .unwrap();
    let dedup_keys: Vec<_> = inbox.iter().map(|it| it.dedup_key.as_deref()).collect();
    assert_eq!(dedup_keys, [Some("click-1"), Some("click-2")]);
    // The signal is in the inbox, so that the first wait ends at once.
    let engine = running(store, Servant::default()).await;
    assert_eq!(first.output().timeout(LONG).await.unwrap(), 7);
    engine.shutdown().await.unwrap();
}

async fn signal_or_start_starts_another_instance_after_the_end_of_the_holder<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = || Servant::with(Task::Park).key("task:1");
    let first = engine.client().signal_or_start(task(), Go).await.unwrap();
    assert_eq!(first.output().timeout(LONG).await.unwrap(), 7);
    let second = engine.client().signal_or_start(task(), Go).await.unwrap();
    assert!(second.is_new());
    assert_ne!(second.id(), first.id());
    assert_eq!(second.output().timeout(LONG).await.unwrap(), 7);
}

async fn signal_or_start_without_a_key_is_refused<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let refusal = client.signal_or_start(Servant::with(Task::Park), Go).await;
    let SignalError::Store(refusal) = refusal.unwrap_err() else {
        panic!("the store refuses it");
    };
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    assert!(refusal.to_string().contains("key"), "{refusal}");
    let stored = client.count(Filter::default()).await.unwrap();
    assert_eq!(stored, Count::Exactly(0));
}

async fn a_handle_reads_the_key_the_status_and_the_state_of_its_instance<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let started = engine.start(Servant::with(Task::Park).key("task:1"));
    let started = started.await.unwrap();
    assert!(started.is_new());
    started.settled().timeout(LONG).await.unwrap();
    let by_text = engine.handle::<Servant>("task:1").await.unwrap();
    let by_key = engine.handle(Servant::key("task:1")).await.unwrap();
    let by_id = engine.client().handle(started.id()).await.unwrap();
    for handle in [&started, &by_text, &by_key, &by_id] {
        assert_eq!((handle.id(), handle.key()), (started.id(), Some("task:1")));
        assert_eq!(handle.status().await.unwrap(), Status::AwaitingSignal);
        assert!(matches!(handle.state().await.unwrap(), Task::Answer(7)));
        let explained = handle.explain().await.unwrap();
        assert_eq!(explained, "waits for signal go, without a deadline");
    }
    assert!(![by_text, by_key, by_id].iter().any(Handle::is_new));
    let plain = insert(engine.client(), Servant::with(Task::Park)).await;
    assert_eq!(plain.key(), None);
    // The instance may be removed while there are handles of it.
    let admin = engine.client().admin();
    plain.terminate(operator()).await.unwrap();
    admin.delete(&plain, operator()).await.unwrap();
    let missing = [
        plain.status().await.err().unwrap(),
        plain.state().await.err().unwrap(),
        plain.instance().await.err().unwrap(),
        plain.explain().await.err().unwrap(),
    ];
    for error in missing {
        let LookupError::NotFound { target } = error else {
            panic!("{error:?}");
        };
        assert_eq!(target, Target::from(&plain));
    }
}

async fn a_handle_of_a_state_of_another_shape_says_what_does_not_fit<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store);
    let unknown = NewInstance::new(Servant::NAME, "unheard_of", Json::null());
    let inserted = client.admin().insert_rows(vec![unknown]).await.unwrap();
    let id = inserted[0].new_id().unwrap();
    let servant = client.handle::<Servant>(id).await.unwrap();
    let error = servant.state().await.err().unwrap();
    assert!(
        matches!(error, LookupError::Undecodable { id: found, .. } if found == id),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(
        message.starts_with(&format!("instance {id}: ")) && message.contains("unheard_of"),
        "{message}"
    );
}

async fn a_handle_acts_on_its_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let cancelled = insert(engine.client(), Servant::with(Task::Park)).await;
    cancelled.settled().timeout(LONG).await.unwrap();
    let answer = cancelled.cancel(operator()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingSignal));
    let ended = cancelled.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let parent = insert(engine.client(), Servant::with(Task::Spawn)).await;
    parent.settled().timeout(LONG).await.unwrap();
    let children = parent.children().await.unwrap();
    let steps: Vec<_> = children.iter().map(|child| child.position).collect();
    assert_eq!(steps, [0, 1]);
    assert!(parent.history().await.unwrap().is_empty());
    let answer = parent.terminate(operator()).await.unwrap();
    assert_eq!(
        answer,
        TerminateAnswer::Terminated(Status::AwaitingChildren)
    );
}

async fn a_wait_for_an_instance_in_a_queue_that_nobody_serves_says_so<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert(
        engine.client(),
        Servant::with(Task::Answer(7)).queue("attic"),
    )
    .await;
    let error = task.output().timeout(Duration::from_millis(50)).await;
    let error = error.unwrap_err();
    let expected = "is due in queue attic, and no live worker serves that queue";
    assert_eq!(
        error.to_string(),
        format!(
            "instance {} was still runnable at step answer when the time was up: it {expected}",
            task.id()
        )
    );
    let WaitError::TimedOut { instance, why } = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (instance.id, instance.status),
        (task.id().get(), Status::Runnable)
    );
    assert_eq!(why.as_deref(), Some(expected));
}

async fn a_wait_for_an_instance_that_no_worker_knows_says_so<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let stranger = insert(engine.client(), Stranger::with(Task::Park)).await;
    let error = stranger.output().timeout(Duration::from_millis(50)).await;
    let WaitError::TimedOut { why, .. } = error.unwrap_err() else {
        panic!("it cannot end");
    };
    let expected =
        "is due in queue default, and no live worker there has machine stranger version 1";
    assert_eq!(why.as_deref(), Some(expected));
}

async fn missing_queue_knows_the_queues_of_registered_machines<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store.clone());
    let unknown = client.admin().missing_queue("kitchen").await.unwrap();
    assert_eq!(unknown, Some(vec!["default".to_owned()]));
    let builder = Engine::builder(store.clone()).register(Cook);
    let engine = builder.only_named_queues().queue("mail", 1);
    let engine = engine.start().await.unwrap();
    // Nobody serves it, but it is no typing error.
    let known = client.admin().missing_queue("kitchen").await.unwrap();
    assert_eq!(known, None);
    let near = client.admin().missing_queue("kitchn").await.unwrap();
    assert_eq!(near.unwrap(), ["kitchen", "mail", "default"]);
    engine.shutdown().await.unwrap();
    let engine = Engine::builder(store).register(Cook).start().await.unwrap();
    let dish = insert(engine.client(), Cook::with(())).await;
    assert_eq!(dish.output().timeout(LONG).await.unwrap(), "soup");
    engine.shutdown().await.unwrap();
}

/// A job with a queue of its own.
struct Cook;

impl Job for Cook {
    const NAME: &'static str = "cook";
    const QUEUE: &'static str = "kitchen";
    type Args = ();
    type Output = String;

    async fn perform(&self, (): (), _cx: &Context) -> Result<String, JobError> {
        Ok("soup".to_owned())
    }
}

async fn wait_returns_the_output_by_id_by_key_and_by_the_answer_of_insert<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let parked = Servant::with(Task::Park)
        .key("task:1")
        .scope(Scope::FOREVER);
    let started = engine.start(parked).await.unwrap();
    started.signal(Go).await.unwrap();
    assert_eq!(started.output().timeout(LONG).await.unwrap(), 7);
    let by_id = engine.handle(started.id()).await.unwrap();
    assert_eq!(by_id.output().timeout(LONG).await.unwrap(), 7);
    let by_key = engine.handle(Servant::key("task:1")).await.unwrap();
    assert_eq!(by_key.output().timeout(LONG).await.unwrap(), 7);
    let plain = InstanceId::from(started.id());
    let by_plain_id = engine.handle::<Servant>(plain).await.unwrap();
    assert_eq!(by_plain_id.output().timeout(LONG).await.unwrap(), 7);
}

async fn wait_for_a_failed_instance_is_an_error_with_the_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert(engine.client(), Servant::with(Task::Fail)).await;
    let error = task.output().timeout(LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("instance {} is failed: broken", task.id())
    );
    let WaitError::Ended {
        id,
        status,
        reason,
        value,
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!((id, status), (task.id().get(), Status::Failed));
    assert_eq!(reason.as_deref(), Some("broken"));
    assert_eq!(value, None, "it failed with a text");
}

async fn wait_for_a_cancelled_instance_is_an_error_with_the_reason<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert(engine.client(), Servant::with(Task::Cancel)).await;
    let error = task.output().timeout(LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("instance {} is cancelled: not wanted", task.id())
    );
}

async fn a_wait_that_times_out_is_an_error_with_the_current_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let task = insert(engine.client(), Servant::with(Task::Park)).await;
    task.settled().timeout(LONG).await.unwrap();
    let (begun, at_most) = (Instant::now(), Duration::from_millis(80));
    let error = task.output().timeout(at_most).await.unwrap_err();
    assert!(begun.elapsed() >= at_most);
    assert!(
        error
            .to_string()
            .contains("still awaiting_signal at step answer"),
        "{error}"
    );
    let WaitError::TimedOut { instance, why } = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (instance.id, instance.status),
        (task.id().get(), Status::AwaitingSignal)
    );
    assert_eq!(
        why.as_deref(),
        Some("waits for signal go, without a deadline")
    );
    // The instance goes on, and another wait finds its end.
    task.signal(Go).await.unwrap();
    assert_eq!(task.output().timeout(LONG).await.unwrap(), 7);
}

async fn wait_for_a_missing_instance_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let id = Id::<Servant>::of(InstanceId(4711));
    let by_id = client.handle(id).await.unwrap_err();
    assert_eq!(
        by_id.to_string(),
        "there is no instance 4711: it was never started, or was removed after it ended"
    );
    let by_key = client.handle(Servant::key("task:1")).await.unwrap_err();
    assert_eq!(
        by_key.to_string(),
        r#"no stored instance of servant holds or held the key "task:1"; start one with .key("task:1")"#
    );
    for (error, expected) in [
        (by_id, Target::from(id)),
        (by_key, Servant::key("task:1").into()),
    ] {
        let LookupError::NotFound { target } = error else {
            panic!("{error:?}");
        };
        assert_eq!(target, expected);
    }
    let admin = client.admin();
    let by_id = admin.wait_ended(id, LONG).await.unwrap_err();
    let by_key = admin.wait_ended(Servant::key("task:1"), LONG).await;
    for error in [by_id, by_key.unwrap_err()] {
        assert!(matches!(error, WaitError::NotFound), "{error:?}");
    }
    // A handle of an instance that was removed meanwhile.
    let removed = insert(&client, Servant::with(Task::Park)).await;
    removed.terminate(operator()).await.unwrap();
    admin.delete(&removed, operator()).await.unwrap();
    let error = removed.output().timeout(LONG).await.unwrap_err();
    assert!(matches!(error, WaitError::NotFound), "{error:?}");
}

async fn wait_by_a_released_key_finds_its_latest_holder<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    for number in [7, 8] {
        let handle = insert(
            engine.client(),
            Servant::with(Task::Answer(number)).key("task:1"),
        )
        .await;
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), number);
        let by_key = engine.handle(Servant::key("task:1")).await.unwrap();
        assert_eq!(by_key.output().timeout(LONG).await.unwrap(), number);
    }
    // A wait finds the holder of the key once, and keeps to it.
    let parked = insert(engine.client(), Servant::with(Task::Park).key("task:1")).await;
    parked.settled().timeout(LONG).await.unwrap();
    let by_key = engine.handle(Servant::key("task:1")).await.unwrap();
    let waiting = tokio::spawn(async move { by_key.output().timeout(LONG).await });
    parked.signal(Go).await.unwrap();
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
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    done.output().timeout(LONG).await.unwrap();
    let held = insert(engine.client(), Servant::with(Task::Hold)).await;
    servant.here.notified().await;
    for id in [done.id().get(), held.id().get()] {
        let error = engine.handle::<Stranger>(id).await.unwrap_err();
        let expected = format!("instance {id} is of machine servant, not of stranger");
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, LookupError::OtherMachine { .. }));
    }
    servant.go_on.notify_one();
}

async fn a_key_finds_its_last_holder_after_the_end<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let key = || Servant::key("task:1");
    assert!(engine.client().find(key()).await.unwrap().is_none());
    let handle = insert(
        engine.client(),
        Servant::with(Task::Answer(7)).key("task:1"),
    )
    .await;
    handle.output().timeout(LONG).await.unwrap();
    let found = engine.client().find(key()).await.unwrap().unwrap();
    assert_eq!((found.id, found.status), (handle.id().get(), Status::Done));
    let admin = engine.client().admin();
    let ended = admin.wait_ended(key(), LONG).await.unwrap();
    assert_eq!(ended.id, handle.id().get());
    let answer = admin.cancel(key(), operator()).await.unwrap();
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Done));
    let answer = admin.terminate(key(), operator()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::AlreadyEnded(Status::Done));
}

async fn operators_act_by_key<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let key = || Servant::key("task:1");
    let admin = engine.client().admin();
    let missing = admin.cancel(key(), operator()).await.unwrap();
    assert_eq!(missing, CancelAnswer::NotFound);
    let missing = admin.terminate_tree(key(), operator()).await.unwrap();
    assert_eq!(missing, TerminateAnswer::NotFound);
    let parked = insert(engine.client(), Servant::with(Task::Park).key("task:1")).await;
    parked.settled().timeout(LONG).await.unwrap();
    let requested = admin.cancel(key(), operator()).await.unwrap();
    assert_eq!(requested, CancelAnswer::Requested(Status::AwaitingSignal));
    let ended = parked.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let retried = admin.retry(key(), operator()).await.unwrap();
    assert_eq!(retried, RetryAnswer::Retried);
    // The instance goes on at the step after the wait.
    assert_eq!(parked.output().timeout(LONG).await.unwrap(), 7);
    let next = insert(engine.client(), Servant::with(Task::Park).key("task:1")).await;
    next.settled().timeout(LONG).await.unwrap();
    let ended = admin.terminate(key(), operator()).await.unwrap();
    assert_eq!(ended, TerminateAnswer::Terminated(Status::AwaitingSignal));
    let deleted = admin.delete(key(), operator()).await.unwrap();
    assert_eq!(deleted, DeleteAnswer::Deleted);
    let found = engine.client().find(key()).await.unwrap().unwrap();
    assert_eq!(
        found.id,
        parked.id().get(),
        "the key finds the latest holder that is stored"
    );
}

async fn missing_queue_names_similar_queues_for_an_unknown_one<S: Store + Inspect + Clone>(
    store: S,
) {
    let client = Client::new(store.clone());
    assert_eq!(client.admin().missing_queue("default").await.unwrap(), None);
    let builder = Engine::builder(store).register(Servant::default());
    let builder = builder.queue("default", 1).queue("mail", 1);
    let engine = builder.start().await.unwrap();
    insert(
        engine.client(),
        Servant::with(Task::Answer(1)).queue("later"),
    )
    .await;
    for known in ["default", "mail", "later"] {
        assert_eq!(client.admin().missing_queue(known).await.unwrap(), None);
    }
    let near = client.admin().missing_queue("mial").await.unwrap().unwrap();
    assert_eq!(near.first().map(String::as_str), Some("mail"));
    assert!(
        client.admin().pause("mial", operator()).await.unwrap(),
        "a queue can be paused in advance"
    );
    assert_eq!(client.admin().missing_queue("mial").await.unwrap(), None);
}

async fn wait_for_an_output_of_another_shape_is_an_error<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let task = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    let mistaken = engine.handle::<Impostor>(task.id().get()).await.unwrap();
    let error = mistaken.output().timeout(LONG).await.unwrap_err();
    assert!(
        matches!(error, WaitError::Result { id, .. } if id == task.id().get()),
        "{error:?}"
    );
    assert!(error.to_string().contains("does not decode"), "{error}");
}

async fn wait_settled_ends_at_a_park<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let signal = insert(engine.client(), Servant::with(Task::Park)).await;
    let children = insert(engine.client(), Servant::with(Task::Spawn)).await;
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    let settled = async |task: &Handle<Servant>| {
        let settled = task.settled().timeout(LONG).await.unwrap();
        settled.status
    };
    assert_eq!(settled(&signal).await, Status::AwaitingSignal);
    assert_eq!(settled(&children).await, Status::AwaitingChildren);
    assert_eq!(settled(&done).await, Status::Done);
}

async fn many_clients_can_wait_for_one_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let handle = insert(engine.client(), Servant::with(Task::Park)).await;
    let mut waits = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = engine.client().clone();
        let id = handle.id();
        waits.spawn(async move {
            let handle = client.handle(id).await.unwrap();
            handle.output().timeout(LONG).await.unwrap()
        });
    }
    handle.signal(Go).await.unwrap();
    assert!(waits.join_all().await.into_iter().all(|output| output == 7));
}

/// Waits in a client for an instance that an engine runs on another store of the same database.
async fn wait_without_an_engine(there: impl Store + Inspect, here: impl Store + Inspect) {
    let engine = running(there, Servant::default()).await;
    let client = Client::new(here);
    let handle = insert(&client, Servant::with(Task::Park).key("task:1")).await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    client.signal(Servant::key("task:1"), Go).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 7);
    engine.shutdown().await.unwrap();
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
    let new = Servant::with(Task::Answer(7)).key("task:1").priority(-3);
    let handle = insert(&client, new.partition_key("ada").queue("later")).await;
    let found = handle.instance().await.unwrap();
    assert_eq!((found.machine.as_str(), found.version), ("servant", 1));
    assert_eq!((found.step.as_str(), found.state.as_str()), ("answer", "7"));
    assert_eq!((found.queue.as_str(), found.priority), ("later", -3));
    assert_eq!(found.partition_key.as_deref(), Some("ada"));
    assert_eq!(found.correlation_key.as_deref(), Some("task:1"));
    assert_eq!((found.status, found.attempt), (Status::Runnable, 0));
    let by_id = client.find(&handle).await.unwrap();
    assert_eq!(by_id.as_ref(), Some(&found));
    let by_key = client.find(Servant::key("task:1")).await.unwrap();
    assert_eq!(by_key, Some(found));
    assert!(client.find(Servant::key("task:2")).await.unwrap().is_none());
    assert!(client.find(InstanceId(4711)).await.unwrap().is_none());
}

async fn list_and_count_apply_their_filter<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let parked = insert(engine.client(), Servant::with(Task::Park).key("task:1")).await;
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    let failed = insert(engine.client(), Servant::with(Task::Fail)).await;
    let elsewhere = insert(
        engine.client(),
        Servant::with(Task::Park).queue("elsewhere"),
    )
    .await;
    for handle in [&parked, &done, &failed] {
        handle.settled().timeout(LONG).await.unwrap();
    }
    let all = Filter::default;
    let cases = [
        (all(), vec![&elsewhere, &failed, &done, &parked]),
        (
            Filter {
                statuses: vec![Status::Failed, Status::Done],
                ..all()
            },
            vec![&failed, &done],
        ),
        (
            Filter {
                queue: Some("elsewhere".to_owned()),
                ..all()
            },
            vec![&elsewhere],
        ),
        (
            Filter {
                machine: Some("servant".to_owned()),
                step: Some("answer".to_owned()),
                ..all()
            },
            vec![&done, &parked],
        ),
        (
            Filter {
                correlation_key: Some("task:1".to_owned()),
                ..all()
            },
            vec![&parked],
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
        let expected: Vec<_> = expected.into_iter().map(InstanceId::from).collect();
        let request = ListRequest {
            filter: filter.clone(),
            limit: 100,
            ..ListRequest::default()
        };
        let page = engine.client().admin().list(request).await.unwrap();
        let found: Vec<_> = page.instances.iter().map(|instance| instance.id).collect();
        assert_eq!(found, expected, "{filter:?}");
        let count = engine.client().count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(expected.len() as u64));
    }
}

async fn list_returns_pages_without_gaps_or_duplicates<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let tasks = (0..25).map(|number| Servant::with(Task::Answer(number)));
    let started = client.start_many(tasks).await.unwrap();
    let (mut seen, mut sizes, mut before) = (Vec::new(), Vec::new(), None);
    loop {
        let request = ListRequest {
            before,
            limit: 10,
            ..ListRequest::default()
        };
        let page = client.admin().list(request).await.unwrap();
        sizes.push(page.instances.len());
        seen.extend(page.instances.into_iter().map(|instance| instance.id));
        before = page.next;
        if before.is_none() {
            break;
        }
        // Instances inserted meanwhile are newer than the next page.
        insert(&client, Servant::with(Task::Park)).await;
    }
    let mut expected: Vec<_> = started.iter().map(InstanceId::from).collect();
    expected.reverse();
    assert_eq!(seen, expected);
    assert_eq!(sizes, [10, 10, 5]);
}

async fn count_counts_the_instances_of_a_queue<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let tasks = (0..30).map(|number| {
        let queue = if number % 3 == 0 { "a" } else { "b" };
        Servant::with(Task::Answer(number)).queue(queue)
    });
    client.start_many(tasks).await.unwrap();
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
    let refusal = Client::new(store).admin().list(request).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
}

async fn retry_runs_a_failed_instance_again_at_its_step<S: Store + Inspect + Clone>(store: S) {
    let servant = Servant::default();
    let engine = running(store, servant.clone()).await;
    let handle = insert(engine.client(), Servant::with(Task::FailUntilMended)).await;
    let failed = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(failed.last_error.as_deref(), Some("broken twice"));
    servant.mended.store(true, Ordering::SeqCst);
    let admin = engine.client().admin();
    let answer = admin.retry(&handle, operator()).await.unwrap();
    assert_eq!(answer, RetryAnswer::Retried);
    // The attempts start again at 0.
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 0);
}

async fn a_retry_of_a_done_parked_or_missing_instance_is_answered<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    let parked = insert(engine.client(), Servant::with(Task::Park)).await;
    done.output().timeout(LONG).await.unwrap();
    parked.settled().timeout(LONG).await.unwrap();
    let ids = vec![done.id().get(), parked.id().get(), InstanceId(4711)];
    let admin = engine.client().admin();
    let answers = admin.retry_all(ids, operator()).await.unwrap();
    let expected = [
        RetryAnswer::NotEndedBadly(Status::Done),
        RetryAnswer::NotEndedBadly(Status::AwaitingSignal),
        RetryAnswer::NotFound,
    ];
    assert_eq!(answers, expected);
}

async fn pause_holds_a_queue_back_and_resume_lets_it_go<S: Store + Inspect + Clone>(store: S) {
    let builder = Engine::builder(store).register(Servant::default());
    let builder = builder.queue("default", 1).queue("other", 1);
    let builder = builder.poll_interval(HOUR);
    let engine = builder.start().await.unwrap();
    let admin = engine.client().admin();
    assert!(admin.pause("default", operator()).await.unwrap());
    assert!(
        !admin.pause("default", operator()).await.unwrap(),
        "the queue is paused already"
    );
    let held = insert(engine.client(), Servant::with(Task::Answer(1))).await;
    let other = insert(
        engine.client(),
        Servant::with(Task::Answer(2)).queue("other"),
    )
    .await;
    assert_eq!(other.output().timeout(LONG).await.unwrap(), 2);
    let untouched = held.instance().await.unwrap();
    assert_eq!(
        (untouched.status, untouched.revision.0),
        (Status::Runnable, 0)
    );
    let queues = admin.queues().await.unwrap();
    assert!(
        queues
            .iter()
            .any(|queue| queue.name == "default" && queue.paused)
    );
    assert!(admin.resume("default", operator()).await.unwrap());
    assert_eq!(held.output().timeout(LONG).await.unwrap(), 1);
    assert!(!admin.resume("default", operator()).await.unwrap());
}

async fn delete_removes_ended_instances_only<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    let parked = insert(engine.client(), Servant::with(Task::Park)).await;
    done.output().timeout(LONG).await.unwrap();
    parked.settled().timeout(LONG).await.unwrap();
    let client = engine.client();
    let delete = async |task| client.admin().delete(task, operator()).await.unwrap();
    assert_eq!(delete(&done).await, DeleteAnswer::Deleted);
    assert_eq!(delete(&done).await, DeleteAnswer::NotFound);
    assert!(client.find(&done).await.unwrap().is_none());
    let expected = DeleteAnswer::NotEnded(Status::AwaitingSignal);
    assert_eq!(delete(&parked).await, expected);
    assert!(client.find(&parked).await.unwrap().is_some());
}

async fn delete_spares_a_child_whose_parent_lives<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let parent = insert(engine.client(), Servant::with(Task::Spawn)).await;
    parent.settled().timeout(LONG).await.unwrap();
    let children = parent.children().await.unwrap();
    let (done, parked) = (children[0].id, children[1].id);
    let admin = engine.client().admin();
    admin.wait_ended(done, LONG).await.unwrap();
    let delete = async || admin.delete(done, operator()).await.unwrap();
    assert_eq!(delete().await, DeleteAnswer::ParentLives(parent.id().get()));
    engine.client().signal(parked, Go).await.unwrap();
    assert_eq!(parent.output().timeout(LONG).await.unwrap(), 2);
    assert_eq!(delete().await, DeleteAnswer::Deleted);
}

async fn terminate_ends_a_parked_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Servant::default()).await;
    let handle = insert(engine.client(), Servant::with(Task::Park)).await;
    handle.settled().timeout(LONG).await.unwrap();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.ended().timeout(LONG).await.unwrap() }
    });
    let answer = handle.terminate(operator()).await.unwrap();
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
    let handle = insert(engine.client(), Servant::with(Task::Hold)).await;
    servant.here.notified().await;
    let answer = handle.terminate(operator()).await.unwrap();
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Executing));
    servant.go_on.notify_one();
    // The shutdown waits for the step and for its commit.
    engine.shutdown().await.unwrap();
    let ended = handle.instance().await.unwrap();
    assert_eq!((ended.status, ended.result), (Status::Cancelled, None));
}

async fn terminate_all_answers_for_ended_and_missing_instances<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Servant::default()).await;
    let done = insert(engine.client(), Servant::with(Task::Answer(7))).await;
    done.output().timeout(LONG).await.unwrap();
    let ids = vec![done.id().get(), InstanceId(4711)];
    let admin = engine.client().admin();
    let answers = admin.terminate_all(ids, operator()).await.unwrap();
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
    let handle = insert(&client, Servant::with(Task::Park)).await;
    handle.terminate(operator()).await.unwrap();
    client
        .admin()
        .retry(&handle, Note::by("bob"))
        .await
        .unwrap();
    client.admin().pause("default", operator()).await.unwrap();
    let operations = client
        .admin()
        .operations(Some(handle.id().get()))
        .await
        .unwrap();
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
    let all = client.admin().operations(None).await.unwrap();
    assert_eq!((all.len(), all[0].verb), (3, Verb::Pause));
}

async fn a_client_reads_queues_and_workers<S: Store + Inspect + Clone>(store: S) {
    let servant = Servant::default();
    let store = Through::new(store);
    let builder = Engine::builder(store.clone()).register(servant.clone());
    let builder = builder.queue("default", 1).queue("other", 1).name("butler");
    let engine = builder.start().await.unwrap();
    store.first_claims(2).await;
    insert(engine.client(), Servant::with(Task::Hold)).await;
    servant.here.notified().await;
    insert(engine.client(), Servant::with(Task::Hold)).await;
    let later = Servant::with(Task::Hold).delay(HOUR);
    insert(engine.client(), later).await;
    // A claim that raced the insert waits for the slot, and is given back after a while.
    eventually("one executes, one waits and one is delayed", async || {
        let queues = engine.client().admin().queues().await.unwrap();
        let queue = queues.iter().find(|queue| queue.name == "default").unwrap();
        let one = Count::Exactly(1);
        (queue.executing, queue.eligible, queue.delayed) == (one, one, one)
    })
    .await;
    let workers = engine.client().admin().workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(
        (workers[0].name.as_str(), &workers[0].queues[..]),
        ("butler", &["default".to_owned(), "other".to_owned()][..])
    );
    servant.go_on.notify_one();
    eventually("the second instance runs", async || {
        engine.client().admin().queues().await.unwrap()[0].eligible == Count::Exactly(0)
    })
    .await;
    servant.go_on.notify_one();
    engine.shutdown().await.unwrap();
    assert!(engine.client().admin().workers().await.unwrap().is_empty());
}
