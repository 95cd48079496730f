//! Windows: no more children of a fan-out run at a time than there are places.
//!
//! Each finished child gives its place to the next.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CancelAnswer, Claim, ClosePolicy, Instance, InstanceId, Join, Joined, Outcome, ReapRequest,
    Status, TerminateAnswer, Until, WorkerId,
};

/// Makes a worker, a parent with children in a window, and the claims of the running children.
async fn parent_with_window(
    subject: &Subject,
    children: usize,
    places: u32,
) -> (WorkerId, InstanceId, Vec<Claim>) {
    let (worker, parent, claims) = subject.joining(tasks(children), window(places)).await;
    assert_eq!(claims.len(), places as usize);
    (worker, parent, claims)
}

/// Returns the positions of the held children of the first round.
async fn held(subject: &Subject, parent: InstanceId) -> Vec<i32> {
    let children = subject.children(parent, 1).await.into_iter();
    let held = children.filter(|child| child.held);
    held.map(|child| child.position).collect()
}

pub async fn no_more_children_run_at_a_time_than_the_window_allows(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 5, 2).await;
    let ids = subject.child_ids(parent, 1).await;
    assert_eq!(ids_of(&claims), ids[..2]);
    assert!(claims.iter().all(|claim| claim.windowed));
    assert_eq!(held(subject, parent).await, [2, 3, 4]);
    let row = subject.get(ids[2]).await;
    assert_eq!((row.status, row.held), (Status::Runnable, Some(true)));
    assert_eq!(subject.get(ids[1]).await.held, Some(false));
    let claimed = subject.ask(worker, QUEUE, 5).await;
    assert_eq!(ids_of(&claimed.claims), []);
    assert_eq!(claimed.next_due_in, None);
    assert_eq!(counts(&subject.get(parent).await), (5, 0));
    subject.assert_sound().await;
}

pub async fn without_a_window_all_children_start(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(3), Join::default()).await;
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| !claim.windowed));
    let children = subject.children(parent, 1).await;
    assert!(children.iter().all(|child| !child.held));
    assert_eq!(subject.get(children[0].id).await.held, None);
}

pub async fn a_window_larger_than_the_round_holds_no_child(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(3), window(10)).await;
    assert_eq!(claims.len(), 3);
    assert_eq!(held(subject, parent).await, [0; 0]);
}

pub async fn every_end_of_a_child_passes_its_place_to_the_next_child(subject: &Subject) {
    let (worker, parent, mut claims) = parent_with_window(subject, 6, 1).await;
    let ids = subject.child_ids(parent, 1).await;
    for (n, end) in [done(), stop(), cancel()].into_iter().enumerate() {
        subject.pass(seconds(1));
        let claim = claims.remove(0);
        let commit = vec![commit_of(&claim, end)];
        assert!(subject.commit_all(commit).await.woken.contains(QUEUE));
        assert_eq!(subject.get(ids[n + 1]).await.updated_at, subject.now());
        claims = subject.claim(worker, 6).await;
        assert_eq!(ids_of(&claims), [ids[n + 1]]);
    }
    let terminated = subject.store.terminate(vec![ids[3]], Extent::One, note());
    assert!(terminated.await.unwrap().woken.contains(QUEUE));
    assert_eq!(subject.claim_ids(worker, 6).await, [ids[4]]);
    subject.pass(LEASE);
    let request = ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(request).await.unwrap();
    assert_eq!(reaped.failed, [ids[4]]);
    assert!(reaped.woken.contains(QUEUE));
    let worker = subject.worker().await;
    let last = subject.claim_the(worker, ids[5]).await;
    subject.assert_sound().await;
    subject.commit(&last, done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!((claim.joined, claim.children.len()), (Some(Joined::All), 6));
}

pub async fn a_child_that_has_not_ended_keeps_its_place(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 3, 1).await;
    let outcomes: [Outcome; 3] = [requeue("b"), again(seconds(0)), wait_for(&["go"])];
    let mut claim = claims[0].clone();
    for outcome in outcomes {
        assert!(claim.windowed);
        let waits = matches!(outcome, Outcome::Wait { .. });
        subject.commit(&claim, outcome).await;
        assert_eq!(held(subject, parent).await, [1, 2]);
        if waits {
            subject.arrives(signal(claim.id, "go")).await;
        }
        claim = subject.claim_the(worker, claim.id).await;
    }
    subject.cancel(claim.id).await;
    assert_eq!(
        held(subject, parent).await,
        [1, 2],
        "the child has not ended yet"
    );
}

pub async fn as_many_held_children_start_as_others_have_ended(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 7, 3).await;
    subject.finish_all(&claims[..2]).await;
    assert_eq!(held(subject, parent).await, [5, 6]);
    let next = subject.claim(worker, 7).await;
    assert_eq!(next.len(), 2);
    let ids = vec![claims[2].id, next[0].id, next[1].id];
    let terminated = subject.store.terminate(ids, Extent::One, note()).await;
    terminated.unwrap();
    assert_eq!(held(subject, parent).await, [0; 0]);
    assert_eq!(subject.claim(worker, 7).await.len(), 2);
}

/// The child has not run, so there is nothing for its machine to decide.
pub async fn a_cancel_of_a_held_child_ends_it(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 3, 1).await;
    let ids = subject.child_ids(parent, 1).await;
    subject.arrives(signal(ids[1], "hello")).await;
    let before = subject.get(ids[1]).await;
    subject.pass(seconds(1));
    assert_eq!(subject.cancel(ids[1]).await, CancelAnswer::NeverStarted);
    let expected = Instance {
        status: Status::Cancelled,
        revision: before.revision.next(),
        last_error: Some("cancelled by ada: a rule asks for it".into()),
        held: Some(false),
        updated_at: subject.now(),
        finished_at: Some(subject.now()),
        ..before
    };
    assert_eq!(subject.get(ids[1]).await, expected);
    assert_eq!(subject.signals(ids[1]).await, []);
    assert_eq!(
        held(subject, parent).await,
        [2],
        "a held child has no place to pass on"
    );
    assert_eq!(subject.claim_ids(worker, 3).await, []);
    assert_eq!(counts(&subject.get(parent).await), (2, 1));
    let record = &subject.operations_on(ids[1]).await[0];
    assert_eq!(record.verb, outlast_core::Verb::Cancel);
    assert_eq!(record.status_before, Some(Status::Runnable));
    let again = subject.cancel(ids[1]).await;
    assert_eq!(again, CancelAnswer::AlreadyEnded(Status::Cancelled));
    subject.commit(&claims[0], done()).await;
    assert_eq!(subject.claim_ids(worker, 3).await, [ids[2]]);
}

pub async fn a_terminated_held_child_passes_no_place_on(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 4, 1).await;
    let ids = subject.child_ids(parent, 1).await;
    let answer = subject.terminate(ids[1]).await;
    assert_eq!(answer, TerminateAnswer::Terminated(Status::Runnable));
    assert_eq!(subject.get(ids[1]).await.held, Some(false));
    assert_eq!(held(subject, parent).await, [2, 3]);
    // One verb ends the running child and the next one. The place goes to the remaining child.
    let both = vec![ids[2], claims[0].id];
    let terminated = subject.store.terminate(both, Extent::One, note()).await;
    terminated.unwrap();
    assert_eq!(held(subject, parent).await, [0; 0]);
    assert_eq!(subject.claim_ids(worker, 4).await, [ids[3]]);
    assert_eq!(counts(&subject.get(parent).await), (1, 3));
    subject.assert_sound().await;
}

pub async fn a_join_counts_a_child_that_ended_while_it_was_held(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 2, 1).await;
    subject.commit(&claims[0], keep("b")).await;
    let ids = subject.child_ids(parent, 1).await;
    subject.cancel(ids[1]).await;
    let mut claim = claims[0].clone();
    claim.revision = claim.revision.next();
    subject.commit(&claim, done()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::All));
    assert_eq!(claim.first_failure, Some(ids[1]));
}

pub async fn a_dropped_child_takes_no_place(subject: &Subject) {
    subject
        .insert(later(task(), seconds(900)).correlation_key("k"))
        .await;
    let keyed = || task().correlation_key("k");
    let children = vec![keyed(), task(), keyed(), task(), task()];
    let (_, parent, claims) = subject.joining(children, window(2)).await;
    assert_eq!(claims.len(), 2);
    assert_eq!(held(subject, parent).await, [4]);
    let row = subject.get(parent).await;
    assert_eq!((counts(&row), row.dropped.len()), ((3, 0), 2));
}

pub async fn a_window_goes_on_after_the_parent_was_woken(subject: &Subject) {
    let join = Join {
        until: Until::FailFast,
        ..window(1)
    };
    let (worker, parent, claims) = subject.joining(tasks(4), join).await;
    let ids = subject.child_ids(parent, 1).await;
    // The row that has been eligible for longer comes first.
    subject.pass(seconds(1));
    subject.commit(&claims[0], stop()).await;
    let woken = subject.claim(worker, 9).await;
    assert_eq!(ids_of(&woken), [ids[1], parent]);
    subject.commit(&woken[0], done()).await;
    assert_eq!(held(subject, parent).await, [3]);
    subject.commit(&woken[1], done()).await;
    let next = subject.claim_the(worker, ids[2]).await;
    subject.commit(&next, done()).await;
    subject.claim_the(worker, ids[3]).await;
    subject.assert_no_cascade_is_left().await;
}

pub async fn each_round_has_its_own_window(subject: &Subject) {
    let join = Join {
        until: Until::FailFast,
        ..window(1)
    };
    let (worker, parent, claims) = subject.joining(tasks(3), join).await;
    let first = subject.child_ids(parent, 1).await;
    subject.pass(seconds(1));
    subject.commit(&claims[0], stop()).await;
    let woken = subject.claim(worker, 9).await;
    let round_two = fan_out_with(tasks(3), window(2));
    subject.commit(&woken[1], round_two).await;
    let second = subject.child_ids(parent, 2).await;
    assert_eq!(subject.claim_ids(worker, 9).await, second[..2]);
    // A finished child of the first round gives its place to a child of the first round.
    subject.commit(&woken[0], done()).await;
    assert_eq!(subject.claim_ids(worker, 9).await, [first[2]]);
    subject.terminate(second[0]).await;
    assert_eq!(subject.claim_ids(worker, 9).await, [second[2]]);
}

/// I8: a held child is not in the line of its partition key yet.
pub async fn a_held_child_does_not_block_its_partition_key(subject: &Subject) {
    let urgent = || task().partition_key("p").priority(-9);
    let (worker, parent, claims) = subject.joining(vec![task(), urgent()], window(1)).await;
    let other = subject.insert(task().partition_key("p")).await;
    let running = subject.claim_the(worker, other).await;
    subject.commit(&claims[0], done()).await;
    assert_eq!(held(subject, parent).await, [0; 0]);
    assert_eq!(subject.claim_ids(worker, 9).await, [], "its key is busy");
    let later = subject.insert(task().partition_key("p")).await;
    subject.commit(&running, done()).await;
    let child = subject.child_ids(parent, 1).await[1];
    let child = subject.claim_the(worker, child).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    subject.commit(&child, done()).await;
    let ids = subject.claim_ids(worker, 9).await;
    assert!(ids.contains(&later) && ids.contains(&parent), "{ids:?}");
    subject.assert_sound().await;
}

pub async fn siblings_with_one_partition_key_need_a_place_and_their_turn(subject: &Subject) {
    let children = (0..4).map(|_| task().partition_key("p")).collect();
    let (worker, parent, claims) = subject.joining(children, window(2)).await;
    let ids = subject.child_ids(parent, 1).await;
    assert_eq!(
        ids_of(&claims),
        ids[..1],
        "the second child has a place and not its turn"
    );
    let mut claim = claims[0].clone();
    for id in &ids[1..] {
        subject.commit(&claim, done()).await;
        claim = subject.claim_the(worker, *id).await;
        subject.assert_sound().await;
    }
    subject.commit(&claim, done()).await;
    subject.claim_the(worker, parent).await;
}

pub async fn a_delayed_child_with_a_place_still_waits_for_its_start(subject: &Subject) {
    let children = vec![task(), later(task(), seconds(30))];
    let (worker, parent, claims) = subject.joining(children, window(1)).await;
    let due = subject.now() + seconds(30);
    let ids = subject.child_ids(parent, 1).await;
    assert_eq!(subject.ask(worker, QUEUE, 1).await.next_due_in, None);
    subject.pass(seconds(10));
    subject.commit(&claims[0], done()).await;
    let row = subject.get(ids[1]).await;
    assert_eq!((row.held, row.eligible_at), (Some(false), due));
    let claimed = subject.ask(worker, QUEUE, 1).await;
    assert_eq!(claimed.next_due_in, Some(seconds(20)));
    subject.pass(seconds(20));
    subject.claim_the(worker, ids[1]).await;
}

pub async fn a_signal_to_a_held_child_waits_in_its_inbox(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 2, 1).await;
    let ids = subject.child_ids(parent, 1).await;
    let delivered = subject.deliver_for(worker, vec![signal(ids[1], "a")]).await;
    assert_eq!(delivered.claims, []);
    subject.commit(&claims[0], done()).await;
    let claim = subject.claim_the(worker, ids[1]).await;
    assert_eq!(names_of(&claim.inbox), ["a"]);
}

pub async fn a_decided_join_ends_its_held_children(subject: &Subject) {
    for (rest, last) in [
        (ClosePolicy::RequestCancel, Status::Runnable),
        (ClosePolicy::Terminate, Status::Cancelled),
    ] {
        let join = Join {
            until: Until::Quorum(1),
            rest,
            ..window(2)
        };
        let (_, parent, claims) = subject.joining(tasks(5), join).await;
        subject.store.pause(QUEUE, note()).await.unwrap();
        subject.commit(&claims[0], done()).await;
        subject.cascade_all().await;
        let mut expected = [Status::Cancelled; 5];
        expected[0] = Status::Done;
        // The second child was running: it has a cancel, or was terminated.
        if rest == ClosePolicy::RequestCancel {
            expected[1] = Status::Executing;
        }
        // The third child had got the place of the first.
        expected[2] = last;
        assert_eq!(subject.child_statuses(parent, 1).await, expected);
        subject.store.resume(QUEUE, note()).await.unwrap();
        let family = subject.child_ids(parent, 1).await.into_iter();
        let family = family.chain([parent]).collect();
        let ended = subject.store.terminate(family, Extent::One, note());
        ended.await.unwrap();
    }
}

pub async fn a_retried_child_runs_beside_the_window(subject: &Subject) {
    let (worker, parent, claims) = parent_with_window(subject, 4, 1).await;
    let ids = subject.child_ids(parent, 1).await;
    subject.commit(&claims[0], stop()).await;
    let second = subject.claim_the(worker, ids[1]).await;
    subject.store.retry(vec![ids[0]], note()).await.unwrap();
    let first = subject.claim_the(worker, ids[0]).await;
    assert!(first.windowed);
    assert_eq!(held(subject, parent).await, [2, 3]);
    subject.finish_all(&[first, second]).await;
    assert_eq!(held(subject, parent).await, [0; 0]);
}

pub async fn a_held_child_that_was_cancelled_gets_a_place_when_it_is_retried(subject: &Subject) {
    let (worker, parent, _) = parent_with_window(subject, 3, 1).await;
    let unlucky = subject.child_ids(parent, 1).await[1];
    subject.cancel(unlucky).await;
    subject.store.retry(vec![unlucky], note()).await.unwrap();
    assert_eq!(counts(&subject.get(parent).await), (3, 0));
    assert!(subject.claim_the(worker, unlucky).await.windowed);
    assert_eq!(held(subject, parent).await, [2]);
}
