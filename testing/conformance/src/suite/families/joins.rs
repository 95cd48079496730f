//! Decisions of a join before the last child: a failure, a quorum, a deadline (I6).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Answer, Claim, ClosePolicy, InstanceId, Join, Joined, Outcome, Status, Until};
use std::time::Duration;

fn within(deadline: Duration) -> Join {
    Join {
        deadline: Some(deadline),
        ..Join::default()
    }
}

/// Commits these outcomes of these claims in one batch.
async fn commit_together(subject: &Subject, outcomes: Vec<(&Claim, Outcome)>) {
    let commits = outcomes.into_iter();
    let commits = commits.map(|(claim, outcome)| commit_of(claim, outcome));
    for answer in subject.commit_all(commits.collect()).await.answers {
        assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
    }
}

async fn first_failure(subject: &Subject, parent: InstanceId) -> Option<InstanceId> {
    let barrier = subject.get(parent).await.barrier;
    barrier.expect("the parent has fanned out").first_failure
}

pub async fn a_join_waits_for_all_children_by_default(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), Join::default()).await;
    let row = subject.get(parent).await;
    let barrier = row.barrier.unwrap();
    assert_eq!((barrier.until, barrier.window), (Until::All, None));
    assert_eq!((barrier.started, barrier.rest), (3, ClosePolicy::Abandon));
    subject.commit(&claims[1], stop()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject
        .finish_all(&[claims[0].clone(), claims[2].clone()])
        .await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::All));
    assert_eq!(claim.first_failure, Some(claims[1].id));
}

pub async fn a_step_sees_its_children_in_the_order_of_its_fan_out(subject: &Subject) {
    let children = vec![
        task().priority(3),
        task().on_parent_close(ClosePolicy::Terminate),
        task()
            .priority(-3)
            .on_parent_close(ClosePolicy::RequestCancel),
    ];
    let (worker, parent, claims) = subject.joining(children, Join::default()).await;
    for claim in &claims {
        subject.pass(seconds(1));
        subject.commit(claim, done()).await;
    }
    let claim = subject.claim_the(worker, parent).await;
    let positions = claim.children.iter().map(|child| child.position);
    assert_eq!(positions.collect::<Vec<_>>(), [0, 1, 2]);
    let policies = claim.children.iter().map(|child| child.on_parent_close);
    use ClosePolicy::{Abandon, RequestCancel, Terminate};
    assert_eq!(
        policies.collect::<Vec<_>>(),
        [Abandon, Terminate, RequestCancel]
    );
    for child in &claim.children {
        let row = subject.get(child.id).await;
        assert_eq!(child.finished_at, row.finished_at);
        assert_eq!(row.position, Some(child.position));
        assert!(!child.held);
    }
}

pub async fn the_first_failure_wakes_a_fail_fast_parent_at_once(subject: &Subject) {
    for end in [stop(), cancel()] {
        let (worker, parent, claims) = subject.joining(tasks(3), until(Until::FailFast)).await;
        subject.commit(&claims[0], done()).await;
        assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
        subject.pass(seconds(1));
        subject.commit(&claims[2], end).await;
        let row = subject.get(parent).await;
        assert_eq!(
            (row.status, row.eligible_at),
            (Status::Runnable, subject.now())
        );
        let claim = subject.claim_the(worker, parent).await;
        assert_eq!(claim.joined, Some(Joined::Failure));
        assert_eq!(claim.first_failure, Some(claims[2].id));
        assert_eq!(
            claim.children[1].status,
            Status::Executing,
            "the child goes on"
        );
        subject.commit(&claims[1], done()).await;
        subject.commit(&claim, done()).await;
    }
}

pub async fn a_fail_fast_join_without_a_failure_waits_for_all_children(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(2), until(Until::FailFast)).await;
    subject.commit(&claims[0], done()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject.commit(&claims[1], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(
        (claim.joined, claim.first_failure),
        (Some(Joined::All), None)
    );
}

pub async fn a_reached_quorum_wakes_the_parent_at_once(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(4), until(Until::Quorum(2))).await;
    subject.commit(&claims[3], done()).await;
    subject.commit(&claims[0], stop()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject.commit(&claims[1], done()).await;
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (1, 1));
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Quorum));
    let statuses = claim.children.iter().map(|child| child.status);
    use Status::{Done, Executing, Failed};
    assert_eq!(
        statuses.collect::<Vec<_>>(),
        [Failed, Done, Executing, Done]
    );
}

pub async fn the_first_success_reaches_a_quorum_of_one(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(1))).await;
    subject.commit(&claims[0], stop()).await;
    subject.commit(&claims[1], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Quorum));
}

pub async fn a_quorum_that_can_no_longer_be_reached_wakes_the_parent_at_once(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(2))).await;
    subject.commit(&claims[0], stop()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject.terminate(claims[1].id).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Impossible));
    assert_eq!(claim.first_failure, Some(claims[0].id));
    assert_eq!(claim.children[2].status, Status::Executing);
}

pub async fn a_parent_does_not_wait_for_a_quorum_above_the_started_children(subject: &Subject) {
    subject
        .insert(later(task(), seconds(900)).correlation_key("k"))
        .await;
    let (worker, claim) = subject.running(task()).await;
    let children = vec![task(), task().correlation_key("k")];
    let outcome = fan_out_with(children, until(Until::Quorum(2)));
    let committed = subject.commit_all(vec![commit_of(&claim, outcome)]).await;
    assert!(committed.woken.contains(QUEUE) && !committed.cascades);
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
    assert_eq!(
        (joined(&row), counts(&row)),
        (Some(Joined::Impossible), (1, 0))
    );
    let claims = subject.claim(worker, 5).await;
    assert_eq!(claims.len(), 2, "the started child can be claimed too");
}

pub async fn a_join_without_children_is_decided_at_once(subject: &Subject) {
    let joins = [
        (Until::All, Joined::All),
        (Until::FailFast, Joined::All),
        (Until::Quorum(1), Joined::Impossible),
    ];
    for (condition, reason) in joins {
        let (worker, claim) = subject.running(task()).await;
        let join = Join {
            rest: ClosePolicy::Terminate,
            window: Some(1),
            deadline: Some(seconds(5)),
            ..until(condition)
        };
        let status = subject.commit(&claim, fan_out_with(vec![], join)).await;
        assert_eq!(status, Status::Runnable);
        let claim = subject.claim_the(worker, claim.id).await;
        assert_eq!(claim.joined, Some(reason));
        subject.commit(&claim, done()).await;
    }
    subject.assert_no_cascade_is_left().await;
}

pub async fn a_child_that_ends_after_the_parent_was_woken_changes_nothing(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(3), until(Until::FailFast)).await;
    subject.commit(&claims[1], stop()).await;
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (2, 1));
    subject.pass(seconds(1));
    subject.commit(&claims[0], stop()).await;
    subject.terminate(claims[2].id).await;
    subject.assert_unchanged(&row).await;
}

/// Defect 5 (docs/protocol.md).
pub async fn children_that_end_in_one_batch_are_counted_together(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(4), until(Until::FailFast)).await;
    let ends = vec![
        (&claims[3], stop()),
        (&claims[1], done()),
        (&claims[2], stop()),
    ];
    commit_together(subject, ends).await;
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (1, 2));
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Failure));
    assert_eq!(claim.first_failure, Some(claims[2].id), "by position");
}

/// A quorum and a failure in one batch: the join is decided after both are counted.
pub async fn a_join_is_decided_after_the_whole_batch_is_counted(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(2))).await;
    let ends = vec![
        (&claims[2], stop()),
        (&claims[0], done()),
        (&claims[1], done()),
    ];
    commit_together(subject, ends).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Quorum));
    assert_eq!(counts(&subject.get(parent).await), (0, 1));
}

pub async fn the_failure_committed_first_is_the_first_failure(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(4), Join::default()).await;
    subject.commit(&claims[2], stop()).await;
    assert_eq!(first_failure(subject, parent).await, Some(claims[2].id));
    subject.commit(&claims[0], stop()).await;
    subject.terminate(claims[1].id).await;
    assert_eq!(first_failure(subject, parent).await, Some(claims[2].id));
    assert_eq!(counts(&subject.get(parent).await), (1, 3));
}

/// The first failure stays the same when the step runs again.
pub async fn the_reason_of_a_join_stays_until_the_next_fan_out(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(2), until(Until::FailFast)).await;
    subject.commit(&claims[1], stop()).await;
    for _ in 0..2 {
        let claim = subject.claim_the(worker, parent).await;
        assert_eq!(claim.joined, Some(Joined::Failure));
        assert_eq!(claim.first_failure, Some(claims[1].id));
        subject.commit(&claim, again(seconds(0))).await;
    }
    let claim = subject.claim_the(worker, parent).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let row = subject.get(parent).await;
    assert_eq!((joined(&row), counts(&row)), (None, (1, 0)));
    assert_eq!(first_failure(subject, parent).await, None);
    // The child of an earlier round no longer affects the parent.
    subject.commit(&claims[0], stop()).await;
    assert_eq!(counts(&subject.get(parent).await), (1, 0));
}

pub async fn a_child_that_crashed_too_often_counts_as_a_failure(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(2), until(Until::FailFast)).await;
    subject.pass(LEASE);
    let request = outlast_core::ReapRequest {
        max: 1,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(request).await.unwrap();
    assert_eq!(reaped.failed, [claims[0].id]);
    assert!(reaped.woken.contains(QUEUE) && !reaped.cascades);
    let row = subject.get(parent).await;
    assert_eq!(
        (row.status, joined(&row)),
        (Status::Runnable, Some(Joined::Failure))
    );
    assert_eq!(first_failure(subject, parent).await, Some(claims[0].id));
}

/// I6: the parent waits again for a child that an operator retries.
pub async fn a_join_waits_again_for_a_failed_child_that_is_retried(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(2))).await;
    subject.commit(&claims[0], stop()).await;
    let retry = |id| subject.store.retry(vec![id], note());
    retry(claims[0].id).await.unwrap();
    let row = subject.get(parent).await;
    assert_eq!(
        (counts(&row), row.status),
        ((3, 0), Status::AwaitingChildren)
    );
    assert_eq!(first_failure(subject, parent).await, None);
    let again = subject.claim_the(worker, claims[0].id).await;
    subject.commit(&again, done()).await;
    subject.commit(&claims[1], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(
        (claim.joined, claim.first_failure),
        (Some(Joined::Quorum), None)
    );
    subject.assert_sound().await;
}

pub async fn a_retry_of_the_first_failure_makes_the_next_failure_the_first(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(4), Join::default()).await;
    for n in [2, 1, 0] {
        subject.commit(&claims[n], stop()).await;
        subject.pass(seconds(1));
    }
    // A retry of another failed child does not change the first failure.
    subject
        .store
        .retry(vec![claims[0].id], note())
        .await
        .unwrap();
    assert_eq!(first_failure(subject, parent).await, Some(claims[2].id));
    subject
        .store
        .retry(vec![claims[2].id], note())
        .await
        .unwrap();
    assert_eq!(first_failure(subject, parent).await, Some(claims[1].id));
    assert_eq!(counts(&subject.get(parent).await), (3, 1));
    subject
        .store
        .retry(vec![claims[1].id], note())
        .await
        .unwrap();
    assert_eq!(first_failure(subject, parent).await, None);
    subject.assert_sound().await;
}

pub async fn joins_with_invalid_bounds_are_rejected(subject: &Subject) {
    let joins = [
        until(Until::Quorum(0)),
        window(0),
        within(Duration::MAX),
        within(outlast_core::limits::DELAY_MAX + seconds(1)),
    ];
    let (_, claim) = subject.running(task()).await;
    let row = subject.get(claim.id).await;
    for join in joins {
        let answer = subject.try_commit(&claim, fan_out_with(tasks(1), join));
        let answer = answer.await;
        assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
        subject.assert_unchanged(&row).await;
    }
}
