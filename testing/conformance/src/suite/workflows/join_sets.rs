//! Several join sets at a time: a group beside a single child, the members of a select.
//!
//! Each join set is counted separately.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    ChildRange, Claim, InstanceId, JoinProgress, JoinSet, Joined, RepairAnswer, RepairNeed, Status,
    WorkerId,
};

/// Makes a worker and a workflow that waits for a group of three or a single child.
///
/// Also returns the claims of the children.
async fn a_group_and_a_lone_child(subject: &Subject) -> (WorkerId, InstanceId, Vec<Claim>) {
    let sets = vec![starting(1, 0..=2), starting(1, 3..=3)];
    subject.awaiting(tasks(4), for_join_sets(sets)).await
}

/// A join set of some of these started children, in the order of their positions.
fn of(children: &[Claim], awaited: &[usize]) -> JoinSet {
    let mut ranges: Vec<ChildRange> = Vec::new();
    for &n in awaited {
        let parent = children[n].parent;
        let elder = children[..n].iter().filter(|it| it.parent == parent);
        let (round, position) = (parent.unwrap().round, elder.count() as i32);
        match ranges.iter_mut().find(|range| range.round == round) {
            Some(range) => range.last = position,
            None => ranges.push(ChildRange {
                round,
                first: position,
                last: position,
            }),
        }
    }
    JoinSet {
        ranges,
        children: awaited.iter().map(|&n| children[n].id).collect(),
        count: awaited.len() as i32,
    }
}

pub async fn a_park_stores_every_join_set_that_it_waits_for(subject: &Subject) {
    let (_, id, _) = a_group_and_a_lone_child(subject).await;
    let row = subject.get(id).await;
    let expected = [
        JoinProgress {
            ranges: starting(1, 0..=2).ranges,
            left: 3,
        },
        JoinProgress {
            ranges: starting(1, 3..=3).ranges,
            left: 1,
        },
    ];
    assert_eq!(row.joining.as_deref(), Some(&expected[..]));
    let barrier = row.barrier.unwrap();
    assert_eq!((row.children_pending, barrier.started), (1, 1));
    subject.assert_sound().await;
}

/// The defect: with one count for all join sets, any child of the group wakes the workflow.
pub async fn children_of_one_join_set_do_not_count_in_another(subject: &Subject) {
    let (_, id, children) = a_group_and_a_lone_child(subject).await;
    for (ended, expected) in [(0, [2, 1]), (2, [1, 1])] {
        subject.commit(&children[ended], done()).await;
        let row = subject.get(id).await;
        assert_eq!(
            (row.status, left(&row)),
            (Status::AwaitingChildren, expected.to_vec())
        );
        assert_eq!((counts(&row), joined(&row)), ((1, 0), None));
    }
    subject.assert_sound().await;
}

/// I6.
pub async fn a_complete_join_set_wakes_the_workflow(subject: &Subject) {
    let (worker, id, children) = a_group_and_a_lone_child(subject).await;
    subject.commit(&children[3], done()).await;
    let row = subject.get(id).await;
    assert_eq!((row.status, left(&row)), (Status::Runnable, vec![3, 0]));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.joined, Some(Joined::All));
    // Children that finish afterwards are not counted.
    subject.commit(&children[0], done()).await;
    assert_eq!(left(&subject.get(id).await), [3, 0]);
    let (worker, id, children) = a_group_and_a_lone_child(subject).await;
    subject.commit(&children[1], done()).await;
    subject
        .finish_all(&[children[0].clone(), children[2].clone()])
        .await;
    let row = subject.get(id).await;
    assert_eq!((row.status, left(&row)), (Status::Runnable, vec![0, 1]));
    subject.claim_the(worker, id).await;
}

/// Defect 5 (docs/protocol.md), across join sets too.
pub async fn siblings_that_end_in_one_batch_count_in_their_own_join_sets(subject: &Subject) {
    let sets = vec![starting(1, 0..=2), starting(1, 3..=5)];
    let (_, id, children) = subject.awaiting(tasks(6), for_join_sets(sets)).await;
    let ended = [1, 4, 3].map(|n: usize| children[n].clone());
    subject.finish_all(&ended).await;
    let row = subject.get(id).await;
    assert_eq!(
        (row.status, left(&row)),
        (Status::AwaitingChildren, vec![2, 1])
    );
    let rest = [0, 2, 5].map(|n: usize| children[n].clone());
    subject.finish_all(&rest).await;
    let row = subject.get(id).await;
    assert_eq!((row.status, left(&row)), (Status::Runnable, vec![0, 0]));
}

pub async fn a_failed_child_of_any_join_set_wakes_the_workflow(subject: &Subject) {
    for bad in [1, 3] {
        let (worker, id, children) = a_group_and_a_lone_child(subject).await;
        subject.commit(&children[bad], stop()).await;
        let row = subject.get(id).await;
        assert_eq!(counts(&row).1, 1);
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(claim.joined, Some(Joined::Failure));
        assert_eq!(claim.first_failure, Some(children[bad].id));
        subject.commit(&claim, done()).await;
        for child in children.iter().filter(|it| it.id != children[bad].id) {
            subject.commit(child, done()).await;
        }
    }
}

/// A failed child of several join sets is still one failure.
pub async fn a_child_of_several_join_sets_is_counted_in_each(subject: &Subject) {
    let both = || vec![starting(1, 0..=1), starting(1, 1..=3)];
    let (worker, id, children) = subject.awaiting(tasks(4), for_join_sets(both())).await;
    subject.commit(&children[1], done()).await;
    let row = subject.get(id).await;
    assert_eq!(left(&row), [1, 2]);
    subject.commit(&children[0], done()).await;
    subject.claim_the(worker, id).await;
    let (_, id, children) = subject.awaiting(tasks(4), for_join_sets(both())).await;
    subject.commit(&children[1], stop()).await;
    let row = subject.get(id).await;
    assert_eq!((left(&row), counts(&row)), (vec![1, 2], (1, 1)));
}

/// These children are siblings in the same round, at other positions.
pub async fn children_outside_the_ranges_of_a_join_set_are_not_counted(subject: &Subject) {
    let sets = vec![starting(1, 1..=2), starting(1, 4..=5)];
    let (_, id, children) = subject.awaiting(tasks(7), for_join_sets(sets)).await;
    let before = subject.get(id).await;
    subject.pass(seconds(1));
    subject.commit(&children[0], done()).await;
    subject.commit(&children[3], stop()).await;
    subject.terminate(children[6].id).await;
    subject.assert_unchanged(&before).await;
    subject.assert_sound().await;
}

/// I2: no finished child is missed between the check and the park, in any join set.
pub async fn a_child_that_finished_before_the_park_counts_in_its_join_sets(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(3)).await;
    subject.commit(&claim, start(tasks(3))).await;
    let claim = kept(&claim);
    let children = subject.claim(worker, 9).await;
    let sets = || vec![of(&children, &[0, 1, 3]), of(&children, &[1, 4, 5])];
    subject.commit(&children[1], done()).await;
    subject.commit(&children[4], done()).await;
    let status = subject.commit(&claim, park(for_join_sets(sets()))).await;
    assert_eq!(status, Status::AwaitingChildren);
    let row = subject.get(claim.id).await;
    assert_eq!((left(&row), row.children_pending), (vec![2, 1], 1));
    assert_eq!(row.barrier.unwrap().started, 3);
    subject.commit(&children[5], done()).await;
    let claim = subject.claim_the(worker, claim.id).await;
    // A complete join set prevents the park.
    let status = subject.commit(&claim, park(for_join_sets(sets()))).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!((left(&row), joined(&row)), (vec![2, 0], Some(Joined::All)));
    // So does a failed child of any join set.
    subject.commit(&children[0], stop()).await;
    let claim = subject.claim_the(worker, claim.id).await;
    let first = vec![of(&children, &[3]), of(&children, &[0, 3])];
    let status = subject.commit(&claim, park(for_join_sets(first))).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (left(&row), counts(&row), joined(&row)),
        (vec![1, 1], (1, 1), Some(Joined::Failure))
    );
}

pub async fn a_child_that_failed_before_the_park_is_one_failure_for_all_join_sets(
    subject: &Subject,
) {
    let (worker, claim) = subject.flowing(tasks(3)).await;
    let children = subject.claim(worker, 9).await;
    subject.commit(&children[1], stop()).await;
    let sets = vec![of(&children, &[0, 1]), of(&children, &[1, 2])];
    subject.commit(&claim, park(for_join_sets(sets))).await;
    let row = subject.get(claim.id).await;
    assert_eq!((left(&row), counts(&row)), (vec![1, 1], (1, 1)));
    assert_eq!(joined(&row), Some(Joined::Failure));
}

/// A single child on either side of a group makes two ranges of one round.
pub async fn a_join_set_may_lie_on_both_sides_of_another(subject: &Subject) {
    let sides = JoinSet {
        ranges: [starting(1, 0..=0), starting(1, 4..=4)]
            .into_iter()
            .flat_map(|part| part.ranges)
            .collect(),
        count: 1,
        ..starting(1, 0..=0)
    };
    let until = || for_join_sets(vec![starting(1, 1..=3), sides.clone()]);
    for side in [0, 4] {
        let (worker, id, children) = subject.awaiting(tasks(5), until()).await;
        subject.finish_all(&children[1..3]).await;
        let row = subject.get(id).await;
        assert_eq!(
            (row.status, left(&row)),
            (Status::AwaitingChildren, vec![1, 1])
        );
        subject.commit(&children[side], done()).await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, done()).await;
        subject.commit(&children[3], done()).await;
        subject.commit(&children[4 - side], done()).await;
    }
}

/// The workflow wakes even if another join set waits for children of earlier rounds.
pub async fn a_dropped_child_of_any_join_set_wakes_the_workflow(subject: &Subject) {
    let elsewhere = later(task(), seconds(900)).correlation_key("k");
    subject.insert(elsewhere).await;
    let (worker, claim) = subject.flowing(tasks(2)).await;
    let children = subject.claim(worker, 9).await;
    let started = vec![task(), task().correlation_key("k")];
    let sets = vec![of(&children, &[0, 1]), starting(2, 0..=1)];
    let outcome = start_and_park(started, for_join_sets(sets));
    assert_eq!(subject.commit(&claim, outcome).await, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!((left(&row), counts(&row)), (vec![2, 2], (2, 0)));
    assert_eq!(joined(&row), Some(Joined::Failure));
}

/// The park does not see the finished children of its batch.
///
/// They are counted after it, each in its join set.
pub async fn a_park_counts_children_that_finish_in_its_batch_once_per_join_set(subject: &Subject) {
    for park_first in [true, false] {
        let (worker, claim) = subject.flowing(tasks(5)).await;
        let children = subject.claim(worker, 9).await;
        let sets = vec![of(&children, &[0, 1]), of(&children, &[2, 3, 4])];
        let mut commits = vec![commit_of(&claim, park(for_join_sets(sets)))];
        let ended = [0, 2, 3].map(|n: usize| commit_of(&children[n], done()));
        commits.extend(ended);
        if !park_first {
            commits.reverse();
        }
        subject.commit_all(commits).await;
        let row = subject.get(claim.id).await;
        assert_eq!(
            (row.status, left(&row), counts(&row)),
            (Status::AwaitingChildren, vec![1, 1], (1, 0))
        );
        subject.commit(&children[4], done()).await;
        let claim = subject.claim_the(worker, claim.id).await;
        subject.commit(&claim, done()).await;
        subject.commit(&children[1], done()).await;
    }
}

pub async fn the_largest_allowed_number_of_join_sets_is_counted(subject: &Subject) {
    let many = outlast_core::limits::JOIN_SETS_MAX as i32;
    let sets = (0..many).map(|n| starting(1, 2 * n..=2 * n + 1));
    let until = for_join_sets(sets.collect());
    let (_, id, children) = subject.awaiting(tasks(2 * many as usize), until).await;
    let firsts: Vec<Claim> = children.iter().step_by(2).cloned().collect();
    subject.finish_all(&firsts).await;
    let row = subject.get(id).await;
    assert_eq!(
        (row.status, left(&row)),
        (Status::AwaitingChildren, vec![1; many as usize])
    );
    subject.commit(children.last().unwrap(), done()).await;
    assert_eq!(subject.status(id).await, Status::Runnable);
}

pub async fn a_repair_wakes_a_workflow_whose_join_set_has_no_live_child(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(3)).await;
    let children = subject.claim(worker, 9).await;
    subject.commit(&children[2], done()).await;
    // The result of a lost count: the workflow waits for a child that has finished.
    let unseen = JoinSet {
        children: Vec::new(),
        ..of(&children, &[2])
    };
    let sets = vec![of(&children, &[0, 1]), unseen];
    subject.commit(&claim, park(for_join_sets(sets))).await;
    let need = RepairNeed::ChildrenFinished;
    assert_eq!(subject.needing_repair().await, [(claim.id, need)]);
    let answer = subject.repair(claim.id).await;
    assert_eq!(answer, RepairAnswer::Repaired(need));
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, left(&row)), (Status::Runnable, vec![2, 1]));
    assert_eq!(joined(&row), Some(Joined::All));
}
