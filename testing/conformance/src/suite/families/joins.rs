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
    barrier.expect("it has fanned out").first_failure
}

pub async fn everybody_is_waited_for_unless_said_otherwise(subject: &Subject) {
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

pub async fn a_step_sees_its_children_in_the_order_it_asked_for(subject: &Subject) {
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

pub async fn the_first_failure_wakes_at_once(subject: &Subject) {
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
        assert_eq!(claim.children[1].status, Status::Executing, "it goes on");
        subject.commit(&claims[1], done()).await;
        subject.commit(&claim, done()).await;
    }
}

pub async fn without_a_failure_everybody_is_waited_for(subject: &Subject) {
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

pub async fn enough_successes_wake_at_once(subject: &Subject) {
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

pub async fn any_success_wakes_one_that_waits_for_any(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(1))).await;
    subject.commit(&claims[0], stop()).await;
    subject.commit(&claims[1], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Quorum));
}

pub async fn a_quorum_that_can_no_longer_be_reached_wakes_at_once(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(3), until(Until::Quorum(2))).await;
    subject.commit(&claims[0], stop()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject.terminate(claims[1].id).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Impossible));
    assert_eq!(claim.first_failure, Some(claims[0].id));
    assert_eq!(claim.children[2].status, Status::Executing);
}

pub async fn a_quorum_of_more_than_were_started_is_not_waited_for(subject: &Subject) {
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
    assert_eq!(claims.len(), 2, "the child that was started runs as well");
}

pub async fn a_join_of_nobody_is_decided_at_once(subject: &Subject) {
    let joins = [
        (Until::All, Joined::All),
        (Until::FailFast, Joined::All),
        (Until::Quorum(1), Joined::Impossible),
    ];
    for (how, why) in joins {
        let (worker, claim) = subject.running(task()).await;
        let join = Join {
            rest: ClosePolicy::Terminate,
            window: Some(1),
            deadline: Some(seconds(5)),
            ..until(how)
        };
        let status = subject.commit(&claim, fan_out_with(vec![], join)).await;
        assert_eq!(status, Status::Runnable);
        let claim = subject.claim_the(worker, claim.id).await;
        assert_eq!(claim.joined, Some(why));
        subject.commit(&claim, done()).await;
    }
    subject.assert_nobody_to_tell().await;
}

pub async fn what_ends_after_the_parent_was_woken_changes_nothing(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(3), until(Until::FailFast)).await;
    subject.commit(&claims[1], stop()).await;
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (2, 1));
    subject.pass(seconds(1));
    subject.commit(&claims[0], stop()).await;
    subject.terminate(claims[2].id).await;
    subject.assert_unchanged(&row).await;
}

/// Defect 5 (docs/protocol.md): children that finish together are counted together.
pub async fn what_ends_in_one_batch_is_counted_in_one_go(subject: &Subject) {
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
pub async fn a_batch_decides_when_all_of_it_is_counted(subject: &Subject) {
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

pub async fn the_failure_that_was_committed_first_is_the_first(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(4), Join::default()).await;
    subject.commit(&claims[2], stop()).await;
    assert_eq!(first_failure(subject, parent).await, Some(claims[2].id));
    subject.commit(&claims[0], stop()).await;
    subject.terminate(claims[1].id).await;
    assert_eq!(first_failure(subject, parent).await, Some(claims[2].id));
    assert_eq!(counts(&subject.get(parent).await), (1, 3));
}

/// The first failure never changes on a re-run.
pub async fn why_it_was_woken_stays_until_the_next_fan_out(subject: &Subject) {
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

pub async fn a_child_that_crashed_too_often_is_a_failure(subject: &Subject) {
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
pub async fn a_failed_child_that_is_retried_is_waited_for_again(subject: &Subject) {
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

pub async fn a_retry_of_the_first_failure_makes_the_next_one_the_first(subject: &Subject) {
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

pub async fn joins_that_nothing_could_decide_are_rejected(subject: &Subject) {
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
