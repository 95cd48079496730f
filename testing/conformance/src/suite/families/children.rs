//! Children: spawn, park, join, rounds (I6).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, DroppedChild, InstanceId, NewInstance, Parent, Status, WorkerId,
};

/// Makes a parent that has fanned out, and the claims of its children.
async fn family(subject: &Subject, children: usize) -> (WorkerId, InstanceId, Vec<Claim>) {
    let (worker, claim) = subject.running(task()).await;
    let status = subject.commit(&claim, fan_out(tasks(children))).await;
    assert_eq!(status, Status::AwaitingChildren);
    let claims = subject.claim(worker, children + 1).await;
    assert_eq!(claims.len(), children);
    (worker, claim.id, claims)
}

pub async fn a_fan_out_starts_its_children_and_parks_in_one_commit(subject: &Subject) {
    let (_, parent, claims) = family(subject, 3).await;
    let row = subject.get(parent).await;
    assert_eq!((row.round, row.children_pending), (1, 3));
    for (n, claim) in claims.iter().enumerate() {
        let by = Parent {
            id: parent,
            round: 1,
        };
        assert_eq!(claim.parent, Some(by));
        assert_eq!(claim.state.as_str(), n.to_string());
        assert_eq!(claim.version, 1);
    }
    assert!(claims.is_sorted_by_key(|claim| claim.id));
}

pub async fn a_child_is_stored_as_the_fan_out_describes_it(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let child = NewInstance::new("other", "weigh", json("[1]"))
        .version(4)
        .queue("scales")
        .priority(-3)
        .partition_key("p")
        .correlation_key("c");
    let child = later(child, seconds(5));
    subject.commit(&claim, fan_out(vec![child])).await;
    let id = subject.store.find("other", "c").await.unwrap().unwrap().id;
    let row = subject.get(id).await;
    assert_eq!((row.machine.as_str(), row.version), ("other", 4));
    assert_eq!((row.step.as_str(), row.state.as_str()), ("weigh", "[1]"));
    assert_eq!((row.queue.as_str(), row.priority), ("scales", -3));
    assert_eq!(row.partition_key.as_deref(), Some("p"));
    assert_eq!(row.eligible_at, subject.now() + seconds(5));
    assert_eq!(row.status, Status::Runnable);
    assert_eq!(subject.claim_ids(worker, 1).await, []);
}

pub async fn the_parent_runs_on_when_the_last_child_has_ended(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 3).await;
    for (n, claim) in claims.iter().enumerate() {
        assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
        assert_eq!(subject.claim_ids(worker, 1).await, []);
        subject.pass(seconds(1));
        subject.commit(claim, done()).await;
        let pending = subject.get(parent).await.children_pending;
        assert_eq!(pending, 2 - n as i32);
    }
    let row = subject.get(parent).await;
    assert_eq!(
        (row.status, row.step.as_str()),
        (Status::Runnable, "joined")
    );
    assert_eq!(row.eligible_at, subject.now());
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.children.len(), 3);
    assert!(claim.children.iter().all(|it| it.status == Status::Done));
    assert_eq!(claim.children[0].result, Some(json(r#"{"well":true}"#)));
}

pub async fn the_join_sees_failed_and_cancelled_children_too(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 4).await;
    subject.commit(&claims[0], stop()).await;
    subject.commit(&claims[1], cancel()).await;
    subject
        .store
        .terminate(vec![claims[2].id], Extent::One, note())
        .await
        .unwrap();
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    subject.commit(&claims[3], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    let statuses: Vec<Status> = claim.children.iter().map(|it| it.status).collect();
    use Status::{Cancelled, Done, Failed};
    assert_eq!(statuses, [Failed, Cancelled, Cancelled, Done]);
    let errors = claim.children.iter().map(|it| it.last_error.as_deref());
    let expected = [
        Some("out of paper"),
        Some("no longer wanted"),
        Some("terminated by ada: a rule asks for it"),
        None,
    ];
    assert_eq!(errors.collect::<Vec<_>>(), expected);
}

/// A batch with all kinds of ends: each child has its own result.
pub async fn the_join_sees_the_error_values_of_failed_children(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 4).await;
    let value = r#"{"paper":0}"#;
    let outcomes = [fail_with(value), done(), stop(), cancel()];
    let commits = claims.iter().zip(outcomes);
    let commits = commits.map(|(claim, outcome)| commit_of(claim, outcome));
    subject.commit_all(commits.collect()).await;
    let claim = subject.claim_the(worker, parent).await;
    let results = claim.children.iter().map(|it| it.result.clone());
    let expected = [
        Some(json(value)),
        Some(json(r#"{"well":true}"#)),
        None,
        None,
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    assert_eq!(
        claim.children[0].last_error.as_deref(),
        Some("out of paper")
    );
    let listed = subject.store.children(parent, None, None).await.unwrap();
    assert_eq!(listed.rows, claim.children);
}

pub async fn a_fan_out_without_children_does_not_park(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let status = subject.commit(&claim, fan_out(vec![])).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.step.as_str(), claim.round), ("joined", 1));
    assert_eq!(claim.children, []);
}

/// Defect 6 (docs/protocol.md): dropped children vanished silently.
pub async fn children_with_an_occupied_key_are_dropped_and_reported(subject: &Subject) {
    let holder = subject
        .insert(task().correlation_key("k").priority(9))
        .await;
    let (worker, claim) = subject.running(task()).await;
    let children = vec![
        task(),
        task().correlation_key("k"),
        task().correlation_key("fresh"),
        task().correlation_key("fresh"),
    ];
    subject.commit(&claim, fan_out(children)).await;
    assert_eq!(subject.get(claim.id).await.children_pending, 2);

    let claims = subject.claim(worker, 2).await;
    subject.finish_all(&claims).await;
    let joined = subject.claim_the(worker, claim.id).await;
    assert_eq!(joined.children.len(), 2);
    let dropped = |position, key: &str, holder| DroppedChild {
        position,
        machine: "task".into(),
        key: key.into(),
        holder: Some(holder),
    };
    let expected = [dropped(1, "k", holder), dropped(3, "fresh", claims[1].id)];
    assert_eq!(joined.dropped, expected);
    assert_eq!(subject.get(claim.id).await.dropped, expected);
}

/// Children start before any other outcome of their batch is written, whatever its order.
pub async fn a_key_released_by_the_same_batch_is_still_occupied_for_children(subject: &Subject) {
    let worker = subject.worker().await;
    let holder = subject.insert(task().correlation_key("k")).await;
    let parent = subject.insert(task()).await;
    let claims = subject.claim(worker, 2).await;
    let spawn = fan_out(vec![task().correlation_key("k"), task()]);
    let batch = vec![commit_of(&claims[0], done()), commit_of(&claims[1], spawn)];
    subject.store.commit(batch.into()).await.unwrap();
    assert_eq!(subject.status(holder).await, Status::Done);
    let row = subject.get(parent).await;
    assert_eq!(row.children_pending, 1);
    assert_eq!(row.dropped[0].holder, Some(holder));
}

pub async fn when_all_children_are_dropped_the_parent_runs_on(subject: &Subject) {
    let holder = subject
        .insert(task().correlation_key("k").priority(9))
        .await;
    let (worker, claim) = subject.running(task()).await;
    let children = vec![task().correlation_key("k"); 2];
    let status = subject.commit(&claim, fan_out(children)).await;
    assert_eq!(status, Status::Runnable);
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.dropped.len(), claim.children.len()), (2, 0));
    assert_eq!(claim.dropped[1].holder, Some(holder));
}

/// Defect 6 (docs/protocol.md): a late child was counted in the next round.
pub async fn a_second_round_sees_only_its_own_children(subject: &Subject) {
    let (worker, parent, first) = family(subject, 2).await;
    subject.finish_all(&first).await;
    let claim = subject.claim_the(worker, parent).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let row = subject.get(parent).await;
    assert_eq!((row.round, row.children_pending), (2, 1));

    let second = subject.claim(worker, 10).await;
    subject.finish_all(&second).await;
    let claim = subject.claim_the(worker, parent).await;
    let seen: Vec<InstanceId> = claim.children.iter().map(|it| it.id).collect();
    assert_eq!(seen, ids_of(&second));
    assert_eq!(claim.round, 2);
    let all = subject.store.children(parent, None, None).await.unwrap();
    assert_eq!(all.len(), 3);
}

/// Dropped children are reported to one join only.
pub async fn a_second_round_does_not_report_the_dropped_children_of_the_first(subject: &Subject) {
    subject
        .insert(task().correlation_key("k").priority(9))
        .await;
    let (worker, claim) = subject.running(task()).await;
    let children = vec![task().correlation_key("k")];
    subject.commit(&claim, fan_out(children)).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!(claim.dropped.len(), 1);
    subject.commit(&claim, fan_out(vec![])).await;
    assert_eq!(subject.claim_the(worker, claim.id).await.dropped, []);
}

/// I6 and defect 6 (docs/protocol.md).
pub async fn the_late_end_of_a_child_of_an_older_round_does_not_count(subject: &Subject) {
    let (worker, parent, first) = family(subject, 1).await;
    subject.commit(&first[0], stop()).await;
    let claim = subject.claim_the(worker, parent).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let second = subject.claim_one(worker).await;

    subject
        .store
        .retry(vec![first[0].id], note())
        .await
        .unwrap();
    assert_eq!(subject.get(parent).await.children_pending, 1);
    let retried = subject.claim_the(worker, first[0].id).await;
    subject.commit(&retried, done()).await;
    let row = subject.get(parent).await;
    assert_eq!(
        (row.status, row.children_pending),
        (Status::AwaitingChildren, 1)
    );
    subject.commit(&second, done()).await;
    assert_eq!(subject.status(parent).await, Status::Runnable);
}

/// I6: while the parent still waits for the round, it waits for the retried child too.
pub async fn a_parent_waits_again_for_a_child_that_is_retried_in_time(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 2).await;
    subject.commit(&claims[0], stop()).await;
    subject
        .store
        .retry(vec![claims[0].id], note())
        .await
        .unwrap();
    assert_eq!(subject.get(parent).await.children_pending, 2);
    subject.commit(&claims[1], done()).await;
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    let again = subject.claim_the(worker, claims[0].id).await;
    subject.commit(&again, done()).await;
    assert_eq!(subject.status(parent).await, Status::Runnable);
}

pub async fn a_child_retried_after_the_join_does_not_count(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 1).await;
    subject.commit(&claims[0], stop()).await;
    subject
        .store
        .retry(vec![claims[0].id], note())
        .await
        .unwrap();
    let row = subject.get(parent).await;
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 0));
    let joined = subject.claim_the(worker, parent).await;
    let child = subject.claim_the(worker, claims[0].id).await;
    subject.commit(&child, done()).await;
    assert_eq!(subject.get(parent).await.children_pending, 0);
    subject.commit(&joined, done()).await;
}

/// Defect 5 (docs/protocol.md): siblings of one statement were counted once.
pub async fn siblings_that_end_in_one_batch_all_count(subject: &Subject) {
    let (_, parent, claims) = family(subject, 50).await;
    subject.finish_all(&claims[..49]).await;
    assert_eq!(subject.get(parent).await.children_pending, 1);
    subject.finish_all(&claims[49..]).await;
    assert_eq!(subject.status(parent).await, Status::Runnable);
    subject.assert_sound().await;
}

/// Defect 5 (docs/protocol.md): batches may have children of several parents.
pub async fn children_of_several_parents_end_in_one_batch(subject: &Subject) {
    let worker = subject.worker().await;
    let parents = subject.insert_all(tasks(3)).await;
    let claims = subject.claim(worker, 3).await;
    let commits = claims.iter().zip([2, 3, 4]);
    let commits = commits.map(|(claim, n)| commit_of(claim, fan_out(tasks(n))));
    subject.commit_all(commits.collect()).await;
    let children = subject.claim(worker, 10).await;
    assert_eq!(children.len(), 9);
    let (last, others) = children.split_last().unwrap();
    subject.finish_all(others).await;
    for (parent, pending) in parents.into_iter().zip([0, 0, 1]) {
        let row = subject.get(parent).await;
        assert_eq!(row.children_pending, pending);
        assert_eq!(row.status == Status::Runnable, pending == 0);
    }
    subject.commit(last, done()).await;
    assert_eq!(subject.claim(worker, 10).await.len(), 3);
}

pub async fn joins_nest_three_levels_deep(subject: &Subject) {
    let (worker, top) = subject.running(task()).await;
    let mut line = vec![top];
    for _ in 0..3 {
        let parent = line.last().unwrap();
        subject.commit(parent, fan_out(tasks(1))).await;
        line.push(subject.claim_one(worker).await);
    }
    let mut bottom = line.pop().unwrap();
    while let Some(parent) = line.pop() {
        assert_eq!(subject.status(parent.id).await, Status::AwaitingChildren);
        subject.commit(&bottom, done()).await;
        bottom = subject.claim_the(worker, parent.id).await;
        assert_eq!(bottom.children.len(), 1);
    }
    subject.commit(&bottom, done()).await;
    subject.assert_sound().await;
}

/// Defect 7 (docs/protocol.md): one transaction locks children and parents in one order.
pub async fn one_commit_handles_several_levels_of_a_family(subject: &Subject) {
    let (worker, top, children) = family(subject, 2).await;
    subject.commit(&children[0], fan_out(tasks(1))).await;
    let grandchild = subject.claim_one(worker).await;
    let bystander = subject.insert(task()).await;
    let bystander = subject.claim_the(worker, bystander).await;
    let batch = vec![
        commit_of(&bystander, fan_out(tasks(1))),
        commit_of(&children[1], stop()),
        commit_of(&grandchild, done()),
    ];
    let answers = subject.commit_all(batch).await.answers;
    assert!(
        answers
            .iter()
            .all(|it| matches!(it, Answer::Committed { .. }))
    );
    assert_eq!(subject.get(top).await.children_pending, 1);
    assert_eq!(subject.status(children[0].id).await, Status::Runnable);
    let middle = subject.claim(worker, 10).await;
    let middle = middle.iter().find(|it| it.id == children[0].id).unwrap();
    subject.commit(middle, done()).await;
    assert_eq!(subject.status(top).await, Status::Runnable);
    subject.assert_sound().await;
}

/// Defect 18 (docs/protocol.md).
pub async fn ten_thousand_children_are_spawned_and_joined(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 9_999).await;
    let (last, others) = claims.split_last().unwrap();
    subject.finish_all(others).await;
    assert_eq!(subject.get(parent).await.children_pending, 1);
    subject.commit(last, stop()).await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.children.len(), 9_999);
    assert_eq!(claim.children[9_998].status, Status::Failed);
}

/// The specification has no cascade, in either direction (docs/specification.md).
pub async fn ending_a_parent_does_not_touch_its_children(subject: &Subject) {
    let (_, parent, claims) = family(subject, 2).await;
    let child = subject.get(claims[0].id).await;
    subject
        .store
        .terminate(vec![parent], Extent::One, note())
        .await
        .unwrap();
    subject.assert_unchanged(&child).await;
    subject.commit(&claims[0], done()).await;
    let row = subject.get(parent).await;
    assert_eq!((row.status, row.children_pending), (Status::Cancelled, 2));
    subject.assert_sound().await;
}

/// A lost outcome of a child does not count for its parent (I3).
pub async fn an_ended_child_is_counted_once(subject: &Subject) {
    let (_, parent, claims) = family(subject, 2).await;
    subject.commit(&claims[0], done()).await;
    for outcome in [done(), stop(), cancel()] {
        let answer = subject.try_commit(&claims[0], outcome).await;
        assert_eq!(answer, Answer::Lost);
    }
    subject
        .store
        .terminate(vec![claims[0].id], Extent::One, note())
        .await
        .unwrap();
    assert_eq!(subject.get(parent).await.children_pending, 1);
}

/// I3.
pub async fn a_lost_fan_out_starts_no_children(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.release(&claim, seconds(100)).await;
    let answer = subject.try_commit(&claim, fan_out(tasks(5))).await;
    assert_eq!(answer, Answer::Lost);
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    let children = subject.store.children(claim.id, None, None).await;
    assert_eq!(children.unwrap(), []);
}

pub async fn a_joined_step_that_is_retried_sees_the_same_children(subject: &Subject) {
    let (worker, parent, claims) = family(subject, 2).await;
    subject.finish_all(&claims).await;
    let first = subject.claim_the(worker, parent).await;
    subject.commit(&first, again(seconds(0))).await;
    let second = subject.claim_the(worker, parent).await;
    assert_eq!(second.children, first.children);
}
