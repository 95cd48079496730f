//! Sleeping: the status of an instance that waits only for time, not for a signal.
//!
//! Answers, lists and counts all report it.

use crate::Subject;
use crate::suite::queries::lists::list;
use crate::vocabulary::*;
use outlast_core::{
    CancelAnswer, Claim, ClosePolicy, Count, Deadline, DeleteAnswer, Filter, InstanceId, Join,
    OVERDUE_AFTER, RetryAnswer, Scope, Status, StepCount, StepCountRequest, TerminateAnswer,
    WorkerId, limits,
};

/// Claims a new task of the default queue.
async fn next(subject: &Subject, worker: WorkerId) -> Claim {
    let id = subject.insert(task().priority(-1)).await;
    subject.claim_the(worker, id).await
}

/// Makes a new task that sleeps for ten seconds.
async fn asleep(subject: &Subject, worker: WorkerId) -> InstanceId {
    let claim = next(subject, worker).await;
    subject.commit(&claim, wait_at_most(&[], seconds(10))).await;
    claim.id
}

fn of(statuses: &[Status]) -> Filter {
    Filter {
        statuses: statuses.to_vec(),
        ..Filter::default()
    }
}

/// Returns the listed ids, and asserts that the count agrees.
async fn found(subject: &Subject, filter: Filter) -> Vec<InstanceId> {
    let ids = list(subject, filter.clone()).await;
    let count = subject.store.count(filter.clone()).await.unwrap();
    assert_eq!(count, Count::Exactly(ids.len() as u64), "{filter:?}");
    ids
}

async fn count_by_step(subject: &Subject) -> Vec<StepCount> {
    let request = StepCountRequest {
        after: None,
        limit: limits::STEP_COUNT_MAX,
    };
    subject.store.count_by_step(request).await.unwrap().groups
}

pub async fn only_a_wait_without_signals_and_children_is_a_sleep(subject: &Subject) {
    let worker = subject.worker().await;
    let waits = [
        (wait_at_most(&[], seconds(10)), Status::Sleeping),
        (park(for_time(10)), Status::Sleeping),
        (wait_at_most(&["a"], seconds(10)), Status::AwaitingSignal),
        (wait_for(&["a"]), Status::AwaitingSignal),
        (park(for_signals(&["a"])), Status::AwaitingSignal),
        (
            fan_out_with(
                tasks(1),
                Join {
                    deadline: Some(seconds(10)),
                    ..Join::default()
                },
            ),
            Status::AwaitingChildren,
        ),
    ];
    for (wait, status) in waits {
        let claim = next(subject, worker).await;
        assert_eq!(subject.commit(&claim, wait.clone()).await, status);
        assert_eq!(subject.status(claim.id).await, status, "{wait:?}");
    }
}

pub async fn a_sleeping_instance_is_runnable_when_its_deadline_has_come(subject: &Subject) {
    let worker = subject.worker().await;
    let id = asleep(subject, worker).await;
    assert_eq!(found(subject, of(&[Status::Sleeping])).await, [id]);
    subject.pass(seconds(10));
    subject.store.fire(100).await.unwrap();
    assert_eq!(subject.status(id).await, Status::Runnable);
    let none: [InstanceId; 0] = [];
    assert_eq!(found(subject, of(&[Status::Sleeping])).await, none);
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, again(seconds(0))).await;
    assert_eq!(found(subject, of(&[Status::Sleeping])).await, none);
}

pub async fn a_signal_does_not_wake_a_sleeping_instance(subject: &Subject) {
    let worker = subject.worker().await;
    let id = asleep(subject, worker).await;
    let (_, woke) = subject.arrives(signal(id, "a")).await;
    assert!(!woke);
    assert_eq!(subject.status(id).await, Status::Sleeping);
    assert_eq!(subject.inbox(id).await, ["a"]);
}

pub async fn lists_and_counts_distinguish_sleeping_from_awaiting_a_signal(subject: &Subject) {
    let worker = subject.worker().await;
    let machine = asleep(subject, worker).await;
    let claim = next(subject, worker).await;
    subject.commit(&claim, park(for_time(10))).await;
    let workflow = claim.id;
    let claim = next(subject, worker).await;
    let wait = wait_at_most(&["a"], seconds(10));
    subject.commit(&claim, wait).await;
    let waiting = claim.id;
    let ready = subject.insert(task()).await;
    use Status::{AwaitingSignal, Runnable, Sleeping};
    let filters: [(&[Status], Vec<InstanceId>); 7] = [
        (&[Sleeping], vec![workflow, machine]),
        (&[AwaitingSignal], vec![waiting]),
        (
            &[Sleeping, AwaitingSignal],
            vec![waiting, workflow, machine],
        ),
        (&[Sleeping, Runnable], vec![ready, workflow, machine]),
        (&[AwaitingSignal, Runnable], vec![ready, waiting]),
        (&[Runnable], vec![ready]),
        (&[], vec![ready, waiting, workflow, machine]),
    ];
    for (statuses, expected) in filters {
        assert_eq!(found(subject, of(statuses)).await, expected, "{statuses:?}");
    }
    let page = subject.store.list(Default::default()).await.unwrap();
    let statuses: Vec<Status> = page.instances.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [Runnable, AwaitingSignal, Sleeping, Sleeping]);
}

pub async fn a_sleep_is_found_by_its_deadline_and_by_its_parent(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let children = subject.claim(worker, 2).await;
    let sleep = wait_at_most(&[], seconds(10));
    subject.commit(&children[0], sleep).await;
    let wait = wait_at_most(&["a"], seconds(10));
    subject.commit(&children[1], wait).await;
    let (sleeping, waiting) = (children[0].id, children[1].id);
    let deadline = Some(Deadline::Before(subject.now() + seconds(60)));
    let due = |statuses: &[Status]| Filter {
        deadline,
        ..of(statuses)
    };
    assert_eq!(found(subject, due(&[])).await, [waiting, sleeping]);
    assert_eq!(found(subject, due(&[Status::Sleeping])).await, [sleeping]);
    let awaiting = [Status::AwaitingSignal];
    assert_eq!(found(subject, due(&awaiting)).await, [waiting]);
    let child = |statuses: &[Status]| Filter {
        parent: Some(parent.id),
        ..of(statuses)
    };
    assert_eq!(found(subject, child(&[Status::Sleeping])).await, [sleeping]);
    assert_eq!(found(subject, child(&awaiting)).await, [waiting]);
    let endless = Filter {
        deadline: Some(Deadline::None),
        ..of(&[Status::Sleeping])
    };
    let none: [InstanceId; 0] = [];
    assert_eq!(found(subject, endless).await, none);
}

pub async fn step_counts_include_sleeping_and_overdue_instances(subject: &Subject) {
    let worker = subject.worker().await;
    let start = subject.now();
    asleep(subject, worker).await;
    asleep(subject, worker).await;
    let claim = next(subject, worker).await;
    subject.commit(&claim, wait_for(&["a"])).await;
    let step_count = |status, instances, overdue| StepCount {
        machine: "task".into(),
        version: 1,
        step: "waited".into(),
        status,
        instances,
        without_deadline: u64::from(status == Status::AwaitingSignal),
        overdue,
        retrying: 0,
        blocked: 0,
        oldest_updated_at: start,
    };
    let waiting = step_count(Status::AwaitingSignal, 1, 0);
    let expected = [waiting.clone(), step_count(Status::Sleeping, 2, 0)];
    assert_eq!(count_by_step(subject).await, expected);
    subject.pass(seconds(11) + OVERDUE_AFTER);
    let expected = [waiting, step_count(Status::Sleeping, 2, 2)];
    assert_eq!(count_by_step(subject).await, expected);
}

pub async fn a_parent_sees_that_its_child_sleeps(subject: &Subject) {
    let join = Join {
        deadline: Some(seconds(5)),
        ..Join::default()
    };
    let (worker, parent, claims) = subject.joining(tasks(2), join).await;
    let sleep = wait_at_most(&[], seconds(10));
    subject.commit(&claims[0], sleep).await;
    subject.commit(&claims[1], wait_for(&["a"])).await;
    let statuses = [Status::Sleeping, Status::AwaitingSignal];
    assert_eq!(subject.child_statuses(parent, 1).await, statuses);
    let all = subject.store.children(parent, None, None).await.unwrap();
    let all: Vec<Status> = all.iter().map(|child| child.status).collect();
    assert_eq!(all, statuses);
    let rounds = subject.store.rounds(parent).await.unwrap();
    let counted = [(Status::AwaitingSignal, 1), (Status::Sleeping, 1)];
    assert_eq!(rounds[0].children, counted);
    let family = subject.store.family(parent).await.unwrap().unwrap();
    let counted = [
        (Status::AwaitingSignal, 1),
        (Status::Sleeping, 1),
        (Status::AwaitingChildren, 1),
    ];
    assert_eq!(family.members, counted);
    subject.pass(seconds(5));
    subject.store.fire(100).await.unwrap();
    let claim = subject.claim_the(worker, parent).await;
    let seen: Vec<Status> = claim.children.iter().map(|child| child.status).collect();
    assert_eq!(seen, statuses);
}

pub async fn answers_and_records_of_operators_show_that_an_instance_slept(subject: &Subject) {
    let worker = subject.worker().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(asleep(subject, worker).await);
    }
    let cancelled = subject.cancel(ids[0]).await;
    assert_eq!(cancelled, CancelAnswer::Requested(Status::Sleeping));
    assert_eq!(subject.status(ids[0]).await, Status::Runnable);
    let again = subject.cancel(ids[0]).await;
    assert_eq!(again, CancelAnswer::AlreadyRequested(Status::Runnable));
    let retried = subject.store.retry(vec![ids[1]], note()).await.unwrap();
    let refused = RetryAnswer::NotEndedBadly(Status::Sleeping);
    assert_eq!(retried.answers, [refused]);
    let deleted = subject.store.delete(vec![ids[1]], note()).await.unwrap();
    assert_eq!(deleted, [DeleteAnswer::NotEnded(Status::Sleeping)]);
    let ended = subject.terminate(ids[1]).await;
    assert_eq!(ended, TerminateAnswer::Terminated(Status::Sleeping));
    for id in ids {
        let records = subject.operations_on(id).await;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].status_before, Some(Status::Sleeping));
    }
}

/// The second cancel finds the row as the first has left it.
pub async fn the_first_of_two_cancels_in_a_batch_wakes_a_sleeping_instance(subject: &Subject) {
    let worker = subject.worker().await;
    let id = asleep(subject, worker).await;
    let cancelled = subject
        .store
        .cancel(vec![id, id], outlast_core::Extent::One, note())
        .await;
    let expected = [
        CancelAnswer::Requested(Status::Sleeping),
        CancelAnswer::AlreadyRequested(Status::Runnable),
    ];
    assert_eq!(cancelled.unwrap().answers, expected);
}

pub async fn a_cascade_records_that_a_child_slept(subject: &Subject) {
    let (worker, parent) = subject
        .flowing(vec![
            task().on_parent_close(ClosePolicy::RequestCancel),
            task().on_parent_close(ClosePolicy::Terminate),
        ])
        .await;
    for claim in subject.claim(worker, 2).await {
        let sleep = wait_at_most(&[], seconds(10));
        subject.commit(&claim, sleep).await;
    }
    subject.commit(&parent, done()).await;
    subject.cascade_all().await;
    let records = subject.store.close_actions(parent.id, None).await.unwrap();
    let before: Vec<_> = records.iter().map(|it| it.status_before).collect();
    assert_eq!(before, [Some(Status::Sleeping); 2]);
}

pub async fn a_scope_with_awaiting_signal_holds_the_key_during_a_sleep(subject: &Subject) {
    let worker = subject.worker().await;
    let scope = [Status::Runnable, Status::Executing, Status::AwaitingSignal];
    let scope = Scope::of(scope).unwrap();
    let row = task().correlation("order-1", scope);
    let id = subject.insert(row).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_at_most(&[], seconds(10))).await;
    let row = subject.store.find("task", "order-1").await.unwrap();
    let row = row.expect("the key finds its holder");
    assert_eq!((row.status, row.holds_key), (Status::Sleeping, true));
    assert_eq!(row.correlation_scope, Some(scope));
}
