//! Finished children that a workflow waits for: counted across rounds.
//!
//! Enough finished children or one failed child wake the workflow. It may wake early, but never
//! too late.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Barrier, Claim, ClosePolicy, CollectRequest, Instance, InstanceId, Joined, Note,
    ReapRequest, RepairAnswer, RepairNeed, Status, Until, WorkerId,
};

/// The barrier of a park that waits for `count` children.
fn barrier_of(count: i32) -> Barrier {
    Barrier {
        until: Until::FailFast,
        window: None,
        rest: ClosePolicy::Abandon,
        started: count,
        failed: 0,
        first_failure: None,
        joined: None,
    }
}

/// Makes a worker, the claim of a workflow with two rounds of two children, and the claims of the
/// children.
async fn two_rounds(subject: &Subject) -> (WorkerId, Claim, Vec<Claim>) {
    let (worker, claim) = subject.flowing(tasks(2)).await;
    subject.commit(&claim, start(tasks(2))).await;
    let children = subject.claim(worker, 9).await;
    assert_eq!(children.len(), 4);
    (worker, kept(&claim), children)
}

async fn finish(subject: &Subject, claim: &Claim) {
    subject.commit(claim, done()).await;
}

pub async fn a_park_for_children_stores_the_awaited_rounds_and_count(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let outcome = start_and_park(tasks(3), for_ends(&[1], &[], 2));
    let status = subject.commit(&claim, outcome).await;
    assert_eq!(status, Status::AwaitingChildren);
    let expected = Instance {
        status: Status::AwaitingChildren,
        revision: claim.revision.next(),
        locked_by: None,
        eligible_at: subject.now(),
        round: 1,
        joining: Some(vec![joining(&[1], 2)]),
        children_pending: 2,
        barrier: Some(barrier_of(2)),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    subject.assert_sound().await;
}

/// I6.
pub async fn the_awaited_number_of_finished_children_wakes_the_workflow(subject: &Subject) {
    let until = for_ends(&[1], &[], 2);
    let (worker, id, children) = subject.awaiting(tasks(3), until).await;
    finish(subject, &children[1]).await;
    let row = subject.get(id).await;
    assert_eq!(
        (row.status, counts(&row)),
        (Status::AwaitingChildren, (1, 0))
    );
    subject.pass(seconds(1));
    let commits = vec![commit_of(&children[0], done())];
    assert!(subject.commit_all(commits).await.woken.contains(QUEUE));
    let woken = subject.get(id).await;
    assert_eq!((woken.status, counts(&woken)), (Status::Runnable, (0, 0)));
    assert_eq!(joined(&woken), Some(Joined::All));
    assert_eq!(woken.eligible_at, subject.now());
    finish(subject, &children[2]).await;
    subject.assert_unchanged(&woken).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.joined, Some(Joined::All));
}

pub async fn one_failed_child_wakes_the_workflow(subject: &Subject) {
    for end in [stop(), cancel()] {
        let until = for_ends(&[1], &[], 3);
        let (worker, id, children) = subject.awaiting(tasks(3), until).await;
        finish(subject, &children[0]).await;
        subject.commit(&children[2], end).await;
        let row = subject.get(id).await;
        assert_eq!((row.status, counts(&row)), (Status::Runnable, (1, 1)));
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(claim.joined, Some(Joined::Failure));
        assert_eq!(claim.first_failure, Some(children[2].id));
        subject.assert_no_cascade_is_left().await;
        subject.commit(&claim, done()).await;
        subject.terminate(children[1].id).await;
    }
}

pub async fn terminated_and_crashed_children_are_counted(subject: &Subject) {
    let until = || for_ends(&[1], &[], 2);
    let (_, id, children) = subject.awaiting(tasks(2), until()).await;
    subject.terminate(children[0].id).await;
    let row = subject.get(id).await;
    assert_eq!(
        (joined(&row), counts(&row)),
        (Some(Joined::Failure), (1, 1))
    );
    subject.terminate(id).await;
    let (_, id, children) = subject.awaiting(tasks(2), until()).await;
    subject.pass(LEASE);
    let request = ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(request).await.unwrap();
    assert!(reaped.failed.contains(&children[0].id));
    let row = subject.get(id).await;
    assert_eq!(
        (joined(&row), counts(&row)),
        (Some(Joined::Failure), (0, 2))
    );
    let first = row.barrier.unwrap().first_failure;
    assert_eq!(first, Some(children[0].id));
}

pub async fn finished_children_of_several_rounds_are_counted_together(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let awaited = [children[0].id, children[3].id];
    let until = for_ends(&[1, 2, 3], &awaited, 3);
    let outcome = start_and_park(tasks(1), until);
    subject.commit(&claim, outcome).await;
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.joining, row.children_pending),
        (Some(vec![joining(&[1, 2, 3], 3)]), 3)
    );
    let third = subject.claim_one(worker).await;
    finish(subject, &children[3]).await;
    finish(subject, &third).await;
    assert_eq!(subject.get(claim.id).await.children_pending, 1);
    finish(subject, &children[0]).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.round, claim.joined), (3, Some(Joined::All)));
}

pub async fn children_of_rounds_that_are_not_awaited_are_not_counted(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let until = for_ends(&[1], &[children[0].id, children[1].id], 2);
    subject.commit(&claim, park(until)).await;
    let before = subject.get(claim.id).await;
    assert_eq!((before.round, before.children_pending), (2, 2));
    subject.pass(seconds(1));
    subject.commit(&children[2], stop()).await;
    subject.terminate(children[3].id).await;
    subject.assert_unchanged(&before).await;
    subject.assert_sound().await;
    subject.finish_all(&children[..2]).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(
        (claim.joined, claim.first_failure),
        (Some(Joined::All), None)
    );
}

/// The workflow wakes early, never too late. It checks and waits again.
pub async fn a_sibling_that_is_not_awaited_may_wake_the_workflow_early(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let until = || park(for_ends(&[1], &[children[0].id], 1));
    subject.commit(&claim, until()).await;
    finish(subject, &children[1]).await;
    let again = subject.claim_the(worker, claim.id).await;
    assert_eq!(again.joined, Some(Joined::All));
    let status = subject.commit(&again, until()).await;
    assert_eq!(status, Status::AwaitingChildren);
    let row = subject.get(claim.id).await;
    assert_eq!((counts(&row), row.barrier), ((1, 0), Some(barrier_of(1))));
    finish(subject, &children[0]).await;
    subject.claim_the(worker, claim.id).await;
}

/// I2: no finished child is missed between the check and the park.
pub async fn a_park_does_not_wait_for_children_that_finished_before_it(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let all: Vec<InstanceId> = ids_of(&children);
    subject.finish_all(&children[..2]).await;
    let until = for_ends(&[1, 2], &all[..3], 3);
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::AwaitingChildren);
    let row = subject.get(claim.id).await;
    assert_eq!((counts(&row), row.barrier), ((1, 0), Some(barrier_of(3))));
    finish(subject, &children[2]).await;
    for count in 1..=3 {
        let claim = subject.claim_the(worker, claim.id).await;
        let until = for_anything(for_ends(&[1, 2], &all[..3], count));
        let committed = subject.commit_all(vec![commit_of(&claim, park(until))]);
        let committed = committed.await;
        assert!(committed.woken.contains(QUEUE));
        let row = subject.get(claim.id).await;
        assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
        assert_eq!((counts(&row), joined(&row)), ((0, 0), Some(Joined::All)));
        assert_eq!(row.joining, Some(vec![joining(&[1, 2], 0)]));
    }
}

pub async fn a_child_that_failed_before_the_park_wakes_the_workflow_at_once(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let all: Vec<InstanceId> = ids_of(&children);
    subject.commit(&children[0], stop()).await;
    subject.terminate(all[1]).await;
    finish(subject, &children[2]).await;
    let until = for_ends(&[1, 2], &all, 4);
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    let expected = Barrier {
        failed: 2,
        joined: Some(Joined::Failure),
        ..barrier_of(4)
    };
    assert_eq!((row.children_pending, row.barrier), (1, Some(expected)));
    // The park ignores a failed child that it does not name.
    let claim = subject.claim_the(worker, claim.id).await;
    let until = for_ends(&[1, 2], &all[2..], 2);
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::AwaitingChildren);
    assert_eq!(counts(&subject.get(claim.id).await), (1, 0));
}

/// The failure is reported although enough children finished, and the count stops at zero.
pub async fn a_failed_child_is_reported_even_if_enough_children_are_done(subject: &Subject) {
    let (_, claim, children) = two_rounds(subject).await;
    subject.finish_all(&children[..2]).await;
    subject.commit(&children[2], stop()).await;
    let until = for_ends(&[1, 2], &ids_of(&children), 1);
    subject.commit(&claim, park(until)).await;
    let row = subject.get(claim.id).await;
    assert_eq!(
        (counts(&row), joined(&row)),
        ((0, 1), Some(Joined::Failure))
    );
}

pub async fn a_collected_child_wakes_the_workflow_at_once(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(2)).await;
    let children = subject.claim(worker, 9).await;
    finish(subject, &children[0]).await;
    subject.pass(seconds(1));
    // The children of a finished parent may be collected. Then an operator retries the parent.
    subject.commit(&claim, stop()).await;
    let request = CollectRequest {
        retention: seconds(0),
        max: 1,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, [children[0].id]);
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    let claim = subject.claim_the(worker, claim.id).await;
    let until = for_ends(&[1], &ids_of(&children), 2);
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (counts(&row), joined(&row)),
        ((2, 0), Some(Joined::Failure))
    );
}

pub async fn a_dropped_child_wakes_the_workflow_at_once(subject: &Subject) {
    subject
        .insert(later(task(), seconds(900)).correlation_key("k"))
        .await;
    let children = || vec![task(), task().correlation_key("k")];
    let (worker, claim) = subject.running(task()).await;
    let outcome = start_and_park(children(), for_ends(&[1], &[], 2));
    assert_eq!(subject.commit(&claim, outcome).await, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (counts(&row), joined(&row)),
        ((2, 0), Some(Joined::Failure))
    );
    assert_eq!((row.round, row.dropped.len()), (1, 1));
    // A dropped child that is not awaited does not wake the workflow.
    let first = subject.claim(worker, 9).await;
    let (child, flow) = match first[0].id == claim.id {
        true => (&first[1], &first[0]),
        false => (&first[0], &first[1]),
    };
    assert_eq!(flow.dropped.len(), 1);
    let outcome = start_and_park(children(), for_ends(&[1], &[child.id], 1));
    let status = subject.commit(flow, outcome).await;
    assert_eq!(status, Status::AwaitingChildren);
    let row = subject.get(claim.id).await;
    assert_eq!((row.round, row.dropped.len()), (2, 1));
    finish(subject, child).await;
    // A child that an earlier commit dropped does not wake the workflow.
    let claims = subject.claim(worker, 9).await;
    let (child, flow) = match claims[0].id == claim.id {
        true => (&claims[1], &claims[0]),
        false => (&claims[0], &claims[1]),
    };
    let outcome = park(for_ends(&[2], &[child.id], 1));
    let status = subject.commit(flow, outcome).await;
    assert_eq!(status, Status::AwaitingChildren);
}

/// Defect 5 (docs/protocol.md), across rounds too: more children finish than are awaited.
pub async fn siblings_that_end_in_one_batch_are_counted_together(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let all: Vec<InstanceId> = ids_of(&children);
    subject
        .commit(&claim, park(for_ends(&[1, 2], &all, 2)))
        .await;
    subject.finish_all(&children[1..]).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, counts(&row)), (Status::Runnable, (0, 0)));
    assert_eq!(joined(&row), Some(Joined::All));
    subject.claim_the(worker, claim.id).await;
    assert_eq!(
        subject.claim_ids(worker, 9).await,
        [],
        "the workflow is woken once"
    );
    // A failure of any awaited round is reported.
    let (_, claim, children) = two_rounds(subject).await;
    let until = for_ends(&[1, 2], &ids_of(&children), 2);
    subject.commit(&claim, park(until)).await;
    let outcomes = [done(), done(), stop(), stop()];
    let commits = children.iter().zip(outcomes).rev();
    let commits = commits.map(|(claim, outcome)| commit_of(claim, outcome));
    subject.commit_all(commits.collect()).await;
    let row = subject.get(claim.id).await;
    assert_eq!(
        (counts(&row), joined(&row)),
        ((0, 2), Some(Joined::Failure))
    );
    let first = row.barrier.unwrap().first_failure;
    assert_eq!(first, Some(children[2].id));
}

/// Children of other rounds finish in the same batch.
pub async fn a_batch_counts_children_of_the_awaited_rounds_only(subject: &Subject) {
    let (_, claim, children) = two_rounds(subject).await;
    let until = for_ends(&[2], &ids_of(&children[2..]), 2);
    subject.commit(&claim, park(until)).await;
    let outcomes = [stop(), stop(), done()];
    let commits = children.iter().zip(outcomes);
    let commits = commits.map(|(claim, outcome)| commit_of(claim, outcome));
    subject.commit_all(commits.collect()).await;
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.status, counts(&row)),
        (Status::AwaitingChildren, (1, 0))
    );
    assert_eq!(row.barrier.unwrap().first_failure, None);
}

/// The park does not see the child that finishes in its batch. The child is counted afterwards.
pub async fn a_park_counts_a_child_that_finishes_in_its_batch_once(subject: &Subject) {
    for park_first in [true, false] {
        let (_, claim, children) = two_rounds(subject).await;
        let until = for_ends(&[1], &ids_of(&children[..2]), 2);
        let mut commits = vec![
            commit_of(&claim, park(until)),
            commit_of(&children[0], done()),
        ];
        if !park_first {
            commits.reverse();
        }
        let answers = subject.commit_all(commits).await.answers;
        let parked = subject.committed(claim.revision.next(), Status::AwaitingChildren);
        assert!(answers.contains(&parked), "{answers:?}");
        let row = subject.get(claim.id).await;
        assert_eq!(
            (row.status, counts(&row)),
            (Status::AwaitingChildren, (1, 0))
        );
        // This batch of three has a failure of the child that is still pending.
        let commits = vec![
            commit_of(&children[1], stop()),
            commit_of(&children[2], done()),
            commit_of(&children[3], done()),
        ];
        subject.commit_all(commits).await;
        let row = subject.get(claim.id).await;
        assert_eq!(
            (counts(&row), joined(&row)),
            ((0, 1), Some(Joined::Failure))
        );
        subject.terminate(claim.id).await;
    }
}

pub async fn a_park_whose_children_all_finish_in_its_batch_is_woken(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    let until = for_ends(&[1], &ids_of(&children[..2]), 2);
    let mut commits: Vec<_> = children.iter().map(|it| commit_of(it, done())).collect();
    commits.push(commit_of(&claim, park(until)));
    let answers = subject.commit_all(commits).await.answers;
    let parked = subject.committed(claim.revision.next(), Status::AwaitingChildren);
    assert_eq!(answers[4], parked, "the ends that follow wake the workflow");
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, counts(&row)), (Status::Runnable, (0, 0)));
    let woken = subject.claim_the(worker, claim.id).await;
    assert_eq!(woken.joined, Some(Joined::All));
}

pub async fn a_park_that_finds_a_signal_still_counts_finished_children(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    subject.arrives(signal(claim.id, "go")).await;
    finish(subject, &children[0]).await;
    let until = |count| for_anything(for_ends(&[1], &ids_of(&children[..2]), count));
    let status = subject.commit(&claim, park(until(2))).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!((counts(&row), row.barrier), ((1, 0), Some(barrier_of(2))));
    let sets = Some(vec![joining(&[1], 1)]);
    assert_eq!((row.await_deadline, row.joining), (None, sets));
    // A child that finishes now is not counted: the workflow is runnable.
    finish(subject, &children[1]).await;
    assert_eq!(subject.get(claim.id).await.children_pending, 1);
    let claim = subject.claim_the(worker, claim.id).await;
    let unconsumed = outlast_core::Commit {
        received: Vec::new(),
        ..commit_of(&claim, park(until(2)))
    };
    subject.commit_all(vec![unconsumed]).await;
    let row = subject.get(claim.id).await;
    assert_eq!((counts(&row), joined(&row)), ((0, 0), Some(Joined::All)));
}

pub async fn a_workflow_that_waits_again_counts_anew(subject: &Subject) {
    let until = for_ends(&[1], &[], 4);
    let (worker, id, children) = subject.awaiting(tasks(4), until).await;
    finish(subject, &children[0]).await;
    subject.commit(&children[1], stop()).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.joined, Some(Joined::Failure));
    let left = ids_of(&children[2..]);
    subject.commit(&claim, park(for_ends(&[1], &left, 2))).await;
    let row = subject.get(id).await;
    assert_eq!((counts(&row), row.barrier), ((2, 0), Some(barrier_of(2))));
    subject.finish_all(&children[2..]).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(
        (claim.joined, claim.first_failure),
        (Some(Joined::All), None)
    );
}

/// The fan-out of a machine would wait for the child again.
pub async fn a_retried_child_does_not_change_the_count_of_its_workflow(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    subject.commit(&children[0], stop()).await;
    let until = for_ends(&[1], &[children[1].id], 1);
    subject.commit(&claim, park(until)).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(1));
    let retried = subject.store.retry(vec![children[0].id], note()).await;
    retried.unwrap();
    subject.assert_unchanged(&before).await;
    subject.assert_sound().await;
    // Its second end counts, because the workflow waits for its round.
    let child = subject.claim_the(worker, children[0].id).await;
    finish(subject, &child).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, counts(&row)), (Status::Runnable, (0, 0)));
    subject.terminate(claim.id).await;
    // The same holds for a child of the latest round.
    let (worker, id, children) = subject.awaiting(tasks(2), for_ends(&[1], &[], 2)).await;
    subject.commit(&children[0], stop()).await;
    let claim = subject.claim_the(worker, id).await;
    let until = for_ends(&[1], &[children[1].id], 1);
    subject.commit(&claim, park(until)).await;
    let before = subject.get(id).await;
    let retried = subject.store.retry(vec![children[0].id], note()).await;
    retried.unwrap();
    subject.assert_unchanged(&before).await;
}

pub async fn a_child_that_is_retried_before_the_park_is_awaited(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(1)).await;
    let child = subject.claim_one(worker).await;
    subject.commit(&child, stop()).await;
    subject.store.retry(vec![child.id], note()).await.unwrap();
    let until = for_ends(&[1], &[child.id], 1);
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::AwaitingChildren);
    let child = subject.claim_the(worker, child.id).await;
    finish(subject, &child).await;
    subject.claim_the(worker, claim.id).await;
}

pub async fn a_workflow_waits_for_all_children_in_a_window(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = outlast_core::Outcome::Flow {
        children: tasks(4),
        window: Some(1),
        then: outlast_core::Flowing::Park(for_ends(&[1], &[], 4)),
    };
    subject.commit(&claim, outcome).await;
    let barrier = subject.get(claim.id).await.barrier;
    let expected = Barrier {
        window: Some(1),
        ..barrier_of(4)
    };
    assert_eq!(barrier, Some(expected));
    for left in (0..4).rev() {
        let child = subject.claim_one(worker).await;
        assert!(child.windowed);
        finish(subject, &child).await;
        assert_eq!(subject.get(claim.id).await.children_pending, left);
    }
    let claim = subject.claim_the(worker, claim.id).await;
    // A park that starts no children has no window.
    let ids = subject.child_ids(claim.id, 1).await;
    subject.commit(&claim, park(for_ends(&[1], &ids, 4))).await;
    let barrier = subject.get(claim.id).await.barrier.unwrap();
    assert_eq!((barrier.window, barrier.joined), (None, Some(Joined::All)));
}

/// A search for repairs normally finds nothing. This workflow waits for more children than it has.
pub async fn a_repair_wakes_a_workflow_without_live_awaited_children(subject: &Subject) {
    let (worker, claim, children) = two_rounds(subject).await;
    subject.finish_all(&children[..2]).await;
    let status = subject
        .commit(&claim, park(for_anything(for_ends(&[1], &[], 3))))
        .await;
    assert_eq!(status, Status::AwaitingChildren);
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let need = RepairNeed::ChildrenFinished;
    assert_eq!(subject.needing_repair().await, [(claim.id, need)]);
    let note = Note::by("reconciler");
    let repaired = subject.store.repair(vec![claim.id], note).await.unwrap();
    assert_eq!(repaired.answers, [RepairAnswer::Repaired(need)]);
    assert!(repaired.woken.contains(QUEUE));
    let expected = Instance {
        status: Status::Runnable,
        barrier: Some(Barrier {
            joined: Some(Joined::All),
            ..barrier_of(3)
        }),
        await_deadline: None,
        eligible_at: subject.now(),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(expected.children_pending, 3, "the count is left unchanged");
    assert_eq!(subject.get(claim.id).await, expected);
    subject.assert_sound().await;
    subject.claim_the(worker, claim.id).await;
}

/// The count of a workflow may differ from the number of live children.
pub async fn a_search_for_repairs_leaves_the_counts_of_workflows_alone(subject: &Subject) {
    let (_, claim, children) = two_rounds(subject).await;
    subject.commit(&children[0], stop()).await;
    let until = for_ends(&[1, 2], &ids_of(&children[1..]), 1);
    subject.commit(&claim, park(until)).await;
    let before = subject.get(claim.id).await;
    assert_eq!(counts(&before), (1, 0));
    subject.pass(seconds(1));
    subject.assert_sound().await;
    subject.assert_unchanged(&before).await;
    // The latest round has no live child, but an awaited round has.
    let (_, other, others) = two_rounds(subject).await;
    let until = for_ends(&[1], &ids_of(&others[..2]), 2);
    subject.commit(&other, park(until)).await;
    subject.finish_all(&others[2..]).await;
    let before = subject.get(other.id).await;
    subject.assert_sound().await;
    subject.assert_unchanged(&before).await;
}

pub async fn children_are_not_collected_or_deleted_while_their_workflow_lives(subject: &Subject) {
    let until = for_ends(&[1], &[], 2);
    let (_, id, children) = subject.awaiting(tasks(2), until).await;
    finish(subject, &children[0]).await;
    subject.pass(seconds(9));
    let request = CollectRequest {
        retention: seconds(0),
        max: 10,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, []);
    let deleted = subject.store.delete(vec![children[0].id], note()).await;
    let lives = outlast_core::DeleteAnswer::ParentLives(id);
    assert_eq!(deleted.unwrap(), [lives]);
}

/// I3.
pub async fn a_child_outcome_that_is_sent_again_counts_once(subject: &Subject) {
    let until = for_ends(&[1], &[], 3);
    let (_, id, children) = subject.awaiting(tasks(3), until).await;
    finish(subject, &children[0]).await;
    let again = subject.try_commit(&children[0], done()).await;
    assert_eq!(again, Answer::Lost);
    subject.terminate(children[0].id).await;
    assert_eq!(subject.get(id).await.children_pending, 2);
}
