//! Concurrent verbs on several threads: the rules hold in every order.

use crate::vocabulary::*;
use crate::{Database, Subject};
use futures_util::future::join_all;
use outlast_core::{
    Answer, CancelAnswer, Claim, ClaimRequest, Delivery, Inserted, InstanceId, Joined, NewInstance,
    Outcome, Park, SignalOrInsert, SignalledOrInserted, Status, TerminateAnswer, WorkerId,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

type Store = Arc<dyn Database>;

/// Runs all of `tasks` concurrently, each on its own task.
async fn at_once<T, F>(tasks: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let handles: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let finished = join_all(handles).await.into_iter();
    finished.map(|it| it.expect("no task panics")).collect()
}

async fn claim(store: Store, worker: WorkerId, max: usize) -> Vec<Claim> {
    let request = ClaimRequest {
        worker,
        queue: QUEUE.into(),
        machines: machines(),
        max,
    };
    store.claim(request).await.unwrap().claims
}

/// Claims until no row is left.
async fn drain(store: Store, worker: WorkerId, max: usize) -> Vec<InstanceId> {
    let mut taken = Vec::new();
    loop {
        let claims = claim(store.clone(), worker, max).await;
        if claims.is_empty() {
            return taken;
        }
        taken.extend(ids_of(&claims));
    }
}

async fn end(store: Store, claim: Claim) -> Answer {
    let commits = vec![commit_of(&claim, done())];
    store
        .commit(commits.into())
        .await
        .unwrap()
        .answers
        .remove(0)
}

/// I3.
pub async fn concurrent_claims_never_take_the_same_row(subject: &Subject) {
    let ids = subject.insert_all(tasks(400)).await;
    let workers = join_all((0..8).map(|_| subject.worker())).await;
    let store = &subject.store;
    let drains = workers.into_iter().map(|w| drain(store.clone(), w, 7));
    let mut taken: Vec<InstanceId> = at_once(drains).await.concat();
    // A claim may skip rows that a concurrent claim has locked. A last claim takes the remaining
    // rows.
    let last = subject.worker().await;
    taken.extend(drain(store.clone(), last, 100).await);
    taken.sort();
    assert_eq!(taken, ids, "each row exactly once");
}

/// I8 and defect 8 (docs/protocol.md).
pub async fn concurrent_claims_take_one_row_of_a_partition_key(subject: &Subject) {
    let keyed = |n: usize| task().partition_key(format!("p{}", n % 3));
    let ids = subject.insert_all((0..60).map(keyed).collect()).await;
    let workers = join_all((0..6).map(|_| subject.worker())).await;
    let mut ended = BTreeSet::new();
    while ended.len() < ids.len() {
        let claims = workers.iter();
        let claims = claims.map(|worker| claim(subject.store.clone(), *worker, 5));
        let claims = at_once(claims).await.concat();
        let keys: BTreeSet<_> = claims.iter().map(|it| &it.partition_key).collect();
        assert_eq!(keys.len(), claims.len(), "one row of a key at a time");
        ended.extend(ids_of(&claims));
        let ends = claims.into_iter().map(|it| end(subject.store.clone(), it));
        at_once(ends).await;
    }
    subject.assert_sound().await;
}

/// I6.
pub async fn siblings_that_end_concurrently_wake_their_parent_once(subject: &Subject) {
    for _ in 0..5 {
        let (worker, parent) = subject.running(task()).await;
        subject.commit(&parent, fan_out(tasks(16))).await;
        let claims = subject.claim(worker, 16).await;
        let ends = claims.into_iter().map(|it| end(subject.store.clone(), it));
        for answer in at_once(ends).await {
            assert!(matches!(answer, Answer::Committed { .. }));
        }
        let joined = subject.claim_the(worker, parent.id).await;
        assert_eq!(joined.children.len(), 16);
        assert_eq!(
            subject.claim_ids(worker, 1).await,
            [],
            "the parent is woken once"
        );
        subject.commit(&joined, done()).await;
    }
}

/// Defect 7 (docs/protocol.md): children of the same parents, in batches of opposite order.
pub async fn concurrent_batches_of_siblings_in_opposite_order_all_commit(subject: &Subject) {
    let worker = subject.worker().await;
    let parents = subject.insert_all(tasks(6)).await;
    let claims = subject.claim(worker, 6).await;
    let fan_outs = claims.iter().map(|it| commit_of(it, fan_out(tasks(8))));
    subject.commit_all(fan_outs.collect()).await;
    let children = subject.claim(worker, 48).await;
    let batches = (0..8).map(|nth| {
        let mut batch: Vec<_> = children.iter().skip(nth).step_by(8).collect();
        if nth % 2 == 1 {
            batch.reverse();
        }
        let commits = batch.into_iter().map(|it| commit_of(it, done()));
        let (commits, store): (Vec<_>, _) = (commits.collect(), subject.store.clone());
        async move { store.commit(commits.into()).await.unwrap().answers }
    });
    for answer in at_once(batches).await.concat() {
        assert!(matches!(answer, Answer::Committed { .. }));
    }
    for parent in parents {
        assert_eq!(subject.status(parent).await, Status::Runnable);
    }
}

/// I9 and defect 7 (docs/protocol.md).
pub async fn concurrent_inserts_of_keys_in_opposite_order_leave_one_holder_per_key(
    subject: &Subject,
) {
    let keys = || (0..50).map(|n| task().correlation_key(format!("k{n}")));
    let batches = (0..6).map(|n| {
        let rows: Vec<NewInstance> = match n % 2 {
            0 => keys().collect(),
            _ => keys().rev().collect(),
        };
        let store = subject.store.clone();
        async move { store.insert(rows, None).await.unwrap().rows }
    });
    let rows = at_once(batches).await.concat();
    let new = rows.iter().filter_map(Inserted::new_id).count();
    assert_eq!((rows.len(), new), (300, 50));
    for n in 0..50 {
        let key = format!("k{n}");
        let holder = subject.store.find("task", &key).await.unwrap();
        assert!(holder.is_some(), "{key}");
    }
}

/// I2 and defect 2 (docs/protocol.md): the specification's form lost half of these wake-ups.
pub async fn a_signal_that_races_a_park_is_never_lost(subject: &Subject) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for _ in 0..100 {
        let id = subject.insert(task()).await;
        let claim = subject.claim_the(worker, id).await;
        let (parking, sending) = (subject.store.clone(), subject.store.clone());
        let commits = vec![commit_of(&claim, wait_for(&["go"]))];
        let park = tokio::spawn(async move { parking.commit(commits.into()).await.unwrap() });
        let signals = vec![signal(id, "go")];
        let send = tokio::spawn(async move { sending.deliver(signals, None).await.unwrap() });
        let delivered = send.await.unwrap().answers[0];
        park.await.unwrap();
        assert!(matches!(delivered, Delivery::Delivered { .. }));
        assert_eq!(subject.status(id).await, Status::Runnable, "lost");
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(claim.awaited()), ["go"]);
        subject.commit(&claim, done()).await;
    }
}

/// I7 and defect 10 (docs/protocol.md): the signal is dropped with the instance, or refused.
pub async fn a_signal_that_races_an_end_is_dropped_with_it_or_refused(subject: &Subject) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for _ in 0..50 {
        let id = subject.insert(task()).await;
        let claim = subject.claim_the(worker, id).await;
        let ending = tokio::spawn(end(subject.store.clone(), claim));
        let store = subject.store.clone();
        let signals = vec![signal(id, "late")];
        let sending = tokio::spawn(async move { store.deliver(signals, None).await.unwrap() });
        let answer = sending.await.unwrap().answers[0];
        ending.await.unwrap();
        let sent = matches!(answer, Delivery::Delivered { .. });
        assert!(sent || answer == Delivery::NoTarget, "{answer:?}");
        assert_eq!(subject.signals(id).await, [], "no signal is orphaned");
    }
}

/// I7.
pub async fn concurrent_sends_with_one_dedup_key_deliver_one_signal(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let sends = (0..12).map(|_| {
        let store = subject.store.clone();
        let signals = vec![signal(id, "go").dedup_key("evt-7")];
        async move { store.deliver(signals, None).await.unwrap().answers[0] }
    });
    let answers = at_once(sends).await;
    let arrived = |it: &&Delivery| matches!(it, Delivery::Delivered { .. });
    assert_eq!(answers.iter().filter(arrived).count(), 1);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.inbox.len(), 1);
}

/// Sends `go` to the holder of `key`, or starts an instance with it.
async fn go_or_start(store: Store, key: &str) -> SignalledOrInserted {
    let request = SignalOrInsert {
        row: task().correlation_key(key),
        name: "go".into(),
        payload: json("1"),
        dedup_key: None,
    };
    store.signal_or_insert(request).await.unwrap()
}

/// Returns the instance whose inbox received the signal.
fn reached(answer: &SignalledOrInserted) -> InstanceId {
    match answer.delivery {
        Delivery::Delivered { instance, .. } => instance,
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => {
            panic!("not delivered: {answer:?}")
        }
    }
}

/// I7, I9.
pub async fn concurrent_signals_to_a_free_key_start_one_instance_and_all_arrive(subject: &Subject) {
    for n in 0..10 {
        let key = format!("k{n}");
        let sends = (0..8).map(|_| {
            let (store, key) = (subject.store.clone(), key.clone());
            async move { go_or_start(store, &key).await }
        });
        let answers = at_once(sends).await;
        let started: Vec<InstanceId> = answers.iter().filter_map(|it| it.inserted).collect();
        assert_eq!(started.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|it| reached(it) == started[0]));
        assert_eq!(subject.inbox(started[0]).await, ["go"; 8]);
    }
}

/// I7: the signal is sent again while its target finishes and the next holder is inserted. It
/// reaches neither.
pub async fn a_signal_sent_again_while_its_key_changes_holder_is_a_duplicate(subject: &Subject) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for n in 0..40 {
        let key = format!("k{n}");
        let old = subject.insert(task().correlation_key(key.clone())).await;
        let paid = signal_to_key(&key, "paid").dedup_key("evt-7");
        subject.arrives(paid.clone()).await;
        let claim = subject.claim_the(worker, old).await;
        let ending = tokio::spawn(end(subject.store.clone(), claim));
        let (store, row) = (subject.store.clone(), task().correlation_key(key.clone()));
        let inserting = tokio::spawn(async move {
            loop {
                let inserts = store.insert(vec![row.clone()], None).await.unwrap();
                if let Some(id) = inserts.rows[0].new_id() {
                    return id;
                }
            }
        });
        let sends = (0..4).map(|_| {
            let (store, paid) = (subject.store.clone(), paid.clone());
            async move { store.deliver(vec![paid], None).await.unwrap().answers[0] }
        });
        let answers = at_once(sends).await;
        assert_eq!(answers, [Delivery::Duplicate { instance: old }; 4]);
        assert!(matches!(ending.await.unwrap(), Answer::Committed { .. }));
        let next = inserting.await.unwrap();
        assert_eq!(subject.inbox(next).await, [""; 0]);
        let claim = subject.claim_the(worker, next).await;
        subject.commit(&claim, done()).await;
    }
}

/// I7, I9: each signal came before the end and was dropped with it, or reached the next holder.
///
/// One of the signals started that holder.
pub async fn a_signal_or_insert_that_races_an_end_reaches_the_old_or_a_new_holder(
    subject: &Subject,
) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for n in 0..40 {
        let key = format!("k{n}");
        let old = subject.insert(task().correlation_key(key.clone())).await;
        let claim = subject.claim_the(worker, old).await;
        let ending = tokio::spawn(end(subject.store.clone(), claim));
        let sends = (0..3).map(|_| {
            let (store, key) = (subject.store.clone(), key.clone());
            async move { go_or_start(store, &key).await }
        });
        let answers = at_once(sends).await;
        assert!(matches!(ending.await.unwrap(), Answer::Committed { .. }));
        assert_eq!(subject.signals(old).await, [], "no signal is orphaned");
        let holder = subject.store.find("task", &key).await.unwrap();
        let holder = holder.into_iter().filter(|row| row.holds_key);
        let holder: Vec<InstanceId> = holder.map(|row| row.id).collect();
        let started: Vec<InstanceId> = answers.iter().filter_map(|it| it.inserted).collect();
        assert_eq!(started, holder, "{answers:?}");
        let late = answers.iter().filter(|it| reached(it) != old).count();
        assert_eq!(late > 0, !started.is_empty(), "{answers:?}");
        for new in started {
            let claim = subject.claim_the(worker, new).await;
            assert_eq!(claim.inbox.len(), late);
            subject.commit(&claim, done()).await;
        }
    }
}

/// I7, I9.
pub async fn a_signal_or_insert_that_races_an_insert_reaches_the_one_holder(subject: &Subject) {
    for n in 0..50 {
        let key = format!("k{n}");
        let (store, row) = (subject.store.clone(), task().correlation_key(key.clone()));
        let inserting = tokio::spawn(async move { store.insert(vec![row], None).await.unwrap() });
        let store = subject.store.clone();
        let sending = tokio::spawn(async move { go_or_start(store, &key).await });
        let (answer, inserts) = (sending.await.unwrap(), inserting.await.unwrap());
        let holder = match (answer.inserted, inserts.rows[0].clone()) {
            (None, Inserted::New { id, .. }) => id,
            (Some(id), Inserted::Duplicate { holder }) => {
                assert_eq!(holder, Some(id));
                id
            }
            both => panic!("not one holder: {both:?}"),
        };
        assert_eq!(reached(&answer), holder);
        assert_eq!(subject.inbox(holder).await, ["go"]);
    }
}

/// I2 and defect 2 (docs/protocol.md).
pub async fn a_signal_or_insert_that_races_a_park_is_never_lost(subject: &Subject) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for n in 0..50 {
        let key = format!("k{n}");
        let id = subject.insert(task().correlation_key(key.clone())).await;
        let claim = subject.claim_the(worker, id).await;
        let parking = subject.store.clone();
        let commits = vec![commit_of(&claim, wait_for(&["go"]))];
        let park = tokio::spawn(async move { parking.commit(commits.into()).await.unwrap() });
        let store = subject.store.clone();
        let sending = tokio::spawn(async move { go_or_start(store, &key).await });
        let answer = sending.await.unwrap();
        park.await.unwrap();
        assert_eq!((answer.inserted, reached(&answer)), (None, id));
        assert_eq!(subject.status(id).await, Status::Runnable, "lost");
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(claim.awaited()), ["go"]);
        subject.commit(&claim, done()).await;
    }
}

/// I3: either the outcome or the terminate finishes the instance, never both.
pub async fn an_outcome_that_races_a_terminate_wins_or_is_lost(subject: &Subject) {
    let worker = subject.worker_with(seconds(1_000)).await;
    for _ in 0..50 {
        let id = subject.insert(task()).await;
        let claim = subject.claim_the(worker, id).await;
        let ending = tokio::spawn(end(subject.store.clone(), claim));
        let store = subject.store.clone();
        let terminating = tokio::spawn(async move {
            let terminated = store.terminate(vec![id], Extent::One, note()).await;
            terminated.unwrap().answers[0]
        });
        let (ended, terminated) = (ending.await.unwrap(), terminating.await.unwrap());
        let (lost, status) = (ended == Answer::Lost, subject.status(id).await);
        let expected = if lost {
            (
                TerminateAnswer::Terminated(Status::Executing),
                Status::Cancelled,
            )
        } else {
            (TerminateAnswer::AlreadyEnded(Status::Done), Status::Done)
        };
        assert_eq!((terminated, status), expected);
    }
}

/// I3: a client sends an outcome again after a broken connection, for example.
pub async fn an_outcome_sent_several_times_concurrently_is_committed_once(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let claims = subject.claim(worker, 2).await;
    let sends = (0..8).map(|_| end(subject.store.clone(), claims[0].clone()));
    let answers = at_once(sends).await;
    let lost = answers.iter().filter(|it| **it == Answer::Lost).count();
    assert_eq!(lost, 7);
    assert_eq!(subject.get(parent.id).await.children_pending, 1);
}

/// Defect 7 (docs/protocol.md): reapers, timers and heartbeats at once.
pub async fn concurrent_reapers_return_each_claim_once(subject: &Subject) {
    let ids = subject.insert_all(tasks(100)).await;
    for _ in 0..4 {
        let worker = subject.worker().await;
        subject.claim(worker, 25).await;
    }
    subject.pass(LEASE);
    let reapers = (0..4).map(|_| {
        let store = subject.store.clone();
        async move {
            let request = outlast_core::ReapRequest {
                max: 10,
                crashes_max: 5,
            };
            let mut returned = Vec::new();
            for _ in 0..12 {
                returned.extend(store.reap(request).await.unwrap().returned);
                store.fire(10).await.unwrap();
            }
            returned
        }
    });
    let mut returned = at_once(reapers).await.concat();
    // Reapers skip rows that another reaper has locked.
    returned.extend(subject.reap().await.returned);
    returned.sort();
    assert_eq!(returned, ids);
    for id in ids {
        assert_eq!(subject.get(id).await.crashes, 1);
    }
}

async fn commit_with_event(store: Store, claim: Claim, outcome: Outcome) -> Answer {
    let commits = vec![commit_with(&claim, outcome, events(1))];
    store
        .commit(commits.into())
        .await
        .unwrap()
        .answers
        .remove(0)
}

/// I2 and defect 2 (docs/protocol.md): the park sees the finished child, or the child finds it
/// parked.
pub async fn the_end_of_a_child_that_races_its_parents_park_is_never_lost(subject: &Subject) {
    for outcome in [done(), stop()].iter().cycle().take(80) {
        let (worker, claim) = subject.flowing(tasks(2)).await;
        let children = subject.claim(worker, 2).await;
        let until = for_ends(&[1], &ids_of(&children), 2);
        subject.commit(&children[0], done()).await;
        let store = &subject.store;
        let parking = commit_with_event(store.clone(), claim.clone(), park(until));
        let ending = commit_with_event(store.clone(), children[1].clone(), outcome.clone());
        let (parking, ending) = (tokio::spawn(parking), tokio::spawn(ending));
        let (parked, ended) = (parking.await.unwrap(), ending.await.unwrap());
        assert!(matches!(parked, Answer::Committed { .. }), "{parked:?}");
        assert!(matches!(ended, Answer::Committed { .. }), "{ended:?}");
        let row = subject.get(claim.id).await;
        assert_eq!(row.status, Status::Runnable, "lost");
        let bad = i32::from(*outcome == stop());
        assert_eq!(counts(&row), (0, bad));
        let expected = match bad {
            0 => Joined::All,
            _ => Joined::Failure,
        };
        assert_eq!(joined(&row), Some(expected));
        let claim = subject.claim_the(worker, claim.id).await;
        assert_eq!(
            subject.claim_ids(worker, 9).await,
            [],
            "the workflow is woken once"
        );
        subject.commit(&claim, done()).await;
    }
}

/// I2 and defect 2 (docs/protocol.md).
pub async fn a_signal_that_races_a_park_for_children_is_never_lost(subject: &Subject) {
    for _ in 0..80 {
        let (worker, claim) = subject.flowing(tasks(1)).await;
        let child = subject.claim_one(worker).await;
        let until = for_anything(for_ends(&[1], &[child.id], 1));
        let parking = tokio::spawn(commit_with_event(
            subject.store.clone(),
            claim.clone(),
            park(until),
        ));
        let store = subject.store.clone();
        let signals = vec![signal(claim.id, "go")];
        let sending = tokio::spawn(async move { store.deliver(signals, None).await.unwrap() });
        let delivered = sending.await.unwrap().answers[0];
        parking.await.unwrap();
        assert!(matches!(delivered, Delivery::Delivered { .. }));
        let row = subject.get(claim.id).await;
        assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
        let claim = subject.claim_the(worker, claim.id).await;
        assert_eq!(
            (names_of(claim.awaited()), claim.joined),
            (vec!["go"], None)
        );
        subject.finish_all(&[claim, child]).await;
    }
}

/// I13: the park is answered with the cancel, or the cancel wakes the instance.
pub async fn a_cancel_that_races_a_park_is_never_lost(subject: &Subject) {
    for _ in 0..80 {
        let (worker, claim) = subject.flowing(tasks(1)).await;
        let child = subject.claim_one(worker).await;
        let until = for_anything(for_ends(&[1], &[child.id], 1));
        let parking = tokio::spawn(commit_with_event(
            subject.store.clone(),
            claim.clone(),
            park(until),
        ));
        let (store, id) = (subject.store.clone(), claim.id);
        let cancelling = tokio::spawn(async move {
            let cancelled = store.cancel(vec![id], Extent::One, note()).await;
            cancelled.unwrap().answers[0]
        });
        let (parked, answer) = (parking.await.unwrap(), cancelling.await.unwrap());
        let row = subject.get(claim.id).await;
        let claim = match parked {
            Answer::Cancel(cancel) => {
                assert_eq!(answer, CancelAnswer::Requested(Status::Executing));
                assert_eq!(row.cancel, Some(cancel));
                assert_eq!((row.revision, row.events), (claim.revision, 0));
                claim
            }
            Answer::Committed { .. } => {
                assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
                assert_eq!((row.status, row.events), (Status::Runnable, 1));
                let claim = subject.claim_the(worker, claim.id).await;
                assert!(claim.is_to_answer_cancel());
                claim
            }
            answer @ (Answer::Lost | Answer::Rejected(_)) => panic!("{answer:?}"),
        };
        assert_eq!(subject.history(id, 1).await.len(), row.events as usize);
        subject.finish_all(&[claim, child]).await;
    }
}

/// I6.
pub async fn siblings_of_several_rounds_that_end_concurrently_wake_a_workflow_once(
    subject: &Subject,
) {
    for _ in 0..5 {
        let (worker, claim) = subject.flowing(tasks(6)).await;
        subject.commit(&claim, start(tasks(6))).await;
        let children = subject.claim(worker, 12).await;
        let until = for_ends(&[1, 2, 3], &ids_of(&children), 16);
        let outcome = start_and_park(tasks(4), until);
        subject.commit(&kept(&claim), outcome).await;
        let newest = subject.claim(worker, 12).await;
        let all = children.into_iter().chain(newest);
        let ends = all.map(|it| end(subject.store.clone(), it));
        for answer in at_once(ends).await {
            assert!(matches!(answer, Answer::Committed { .. }));
        }
        let row = subject.get(claim.id).await;
        assert_eq!((joined(&row), counts(&row)), (Some(Joined::All), (0, 0)));
        let woken = subject.claim_the(worker, claim.id).await;
        assert_eq!(
            subject.claim_ids(worker, 1).await,
            [],
            "the workflow is woken once"
        );
        subject.commit(&woken, done()).await;
    }
}

/// A signal, a finished child and a deadline at once: exactly one of them wakes the workflow.
pub async fn a_signal_a_child_and_a_deadline_at_once_wake_a_workflow_once(subject: &Subject) {
    for _ in 0..40 {
        let until = Park {
            deadline: for_time(0).deadline,
            ..for_anything(for_ends(&[1], &[], 1))
        };
        let (worker, id, children) = subject.awaiting(tasks(1), until).await;
        let before = subject.get(id).await;
        let ending = tokio::spawn(end(subject.store.clone(), children[0].clone()));
        let (sending, firing) = (subject.store.clone(), subject.store.clone());
        let signals = vec![signal(id, "go")];
        let sending = tokio::spawn(async move { sending.deliver(signals, None).await.unwrap() });
        let firing = tokio::spawn(async move { firing.fire(10).await.unwrap() });
        let answer = sending.await.unwrap().answers[0];
        let by_signal = matches!(answer, Delivery::Delivered { woke: true, .. });
        let by_time = firing.await.unwrap().woken_instances.contains(&id);
        ending.await.unwrap();
        let row = subject.get(id).await;
        assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
        assert_eq!(row.revision, before.revision);
        let expected = match (by_signal, by_time) {
            (true, false) => None,
            (false, true) => Some(Joined::Deadline),
            (false, false) => Some(Joined::All),
            (true, true) => panic!("the workflow was woken twice"),
        };
        assert_eq!(joined(&row), expected);
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(subject.claim_ids(worker, 1).await, []);
        subject.commit(&claim, done()).await;
    }
}
