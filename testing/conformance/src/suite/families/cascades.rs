//! Cascades: cancels and terminates of children whose parent has finished or goes on without them.
//!
//! A cascade is stored, and runs in small batches.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CascadeRequest, Cascaded, Claim, ClosePolicy, CollectRequest, DeleteAnswer, ErrorKind,
    InstanceId, Join, NewInstance, Operation, Outcome, ReapRequest, Status, Until, Verb, WorkerId,
    limits,
};

/// One child of each policy: abandon, request_cancel, terminate.
fn one_of_each() -> Vec<NewInstance> {
    let policies = ClosePolicy::ALL.into_iter();
    policies.map(|it| task().on_parent_close(it)).collect()
}

fn terminated_with_parent(n: usize) -> Vec<NewInstance> {
    let terminate = |row: NewInstance| row.on_parent_close(ClosePolicy::Terminate);
    tasks(n).into_iter().map(terminate).collect()
}

/// Makes a worker, a running parent with live children, and their claims.
///
/// The parent's join was decided without its children.
async fn woken_early(
    subject: &Subject,
    children: Vec<NewInstance>,
) -> (WorkerId, Claim, Vec<Claim>) {
    let (worker, parent) = subject.running(task().priority(-1)).await;
    let too_many = until(Until::Quorum(u32::MAX));
    let status = subject.commit(&parent, fan_out_with(children, too_many));
    assert_eq!(status.await, Status::Runnable);
    let parent = subject.claim_the(worker, parent.id).await;
    let claims = subject.claim(worker, 1_000).await;
    (worker, parent, claims)
}

/// Returns the operations that `parent` caused: the child and the verb of each.
async fn close_actions(subject: &Subject, parent: InstanceId) -> Vec<(InstanceId, Verb)> {
    let records = subject.store.close_actions(parent, None).await.unwrap();
    let action = |it: &Operation| (it.instance.expect("a child"), it.verb);
    let mut actions: Vec<_> = records.iter().map(action).collect();
    actions.sort_by_key(|(id, _)| *id);
    actions
}

pub async fn a_cascade_follows_the_close_policy_of_each_child(subject: &Subject) {
    let ends: [(Outcome, Status); 3] = [
        (done(), Status::Done),
        (stop(), Status::Failed),
        (cancel(), Status::Cancelled),
    ];
    for (end, status) in ends {
        let (_, parent, claims) = woken_early(subject, one_of_each()).await;
        subject.pass(seconds(1));
        let committed = subject.commit_all(vec![commit_of(&parent, end)]).await;
        assert!(committed.cascades);
        let before = subject.child_statuses(parent.id, 1).await;
        assert_eq!(before, [Status::Executing; 3], "the cascade comes later");
        let cascaded = subject.cascade(10).await;
        let ids = ids_of(&claims);
        assert_eq!(cascaded.requested, [ids[1]]);
        assert_eq!(cascaded.ended, [ids[2]]);
        assert_eq!(cascaded.running, ids[1..]);
        assert!(!cascaded.more);
        let after = subject.child_statuses(parent.id, 1).await;
        use Status::{Cancelled, Executing};
        assert_eq!(after, [Executing, Executing, Cancelled]);
        let why = format!("by parent: parent {} ended as {status}", parent.id);
        let reason = subject.cancel_reason(ids[1]).await;
        assert_eq!(reason, Some(format!("cancelled {why}")));
        let error = subject.get(ids[2]).await.last_error;
        assert_eq!(error, Some(format!("terminated {why}")));
        assert_eq!(subject.get(ids[0]).await.cancel, None);
        subject.finish_all(&claims[..2]).await;
        subject.assert_no_cascade_is_left().await;
    }
}

pub async fn a_terminated_parent_cascades_to_its_children(subject: &Subject) {
    let (_, parent, claims) = subject.joining(one_of_each(), Join::default()).await;
    let ended = subject.store.terminate(vec![parent], Extent::One, note());
    assert!(ended.await.unwrap().cascades);
    let cascaded = subject.cascade(10).await;
    assert_eq!(cascaded.requested, [claims[1].id]);
    assert_eq!(cascaded.ended, [claims[2].id]);
    let row = subject.get(parent).await;
    assert_eq!(counts(&row), (3, 0), "the parent no longer waits for them");
}

pub async fn a_parent_that_crashed_too_often_cascades_to_its_children(subject: &Subject) {
    let (_, parent, claims) = woken_early(subject, terminated_with_parent(1)).await;
    let id = claims[0].id;
    subject.commit(&claims[0], wait_for(&["a"])).await;
    subject.pass(LEASE);
    let request = ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(request).await.unwrap();
    assert_eq!(reaped.failed, [parent.id]);
    assert!(reaped.cascades);
    let cascaded = subject.cascade(10).await;
    assert_eq!((cascaded.ended, cascaded.running), (vec![id], vec![]));
    let error = subject.get(id).await.last_error.unwrap();
    assert!(error.ends_with("ended as failed"), "{error}");
}

pub async fn an_end_without_live_children_under_a_policy_leaves_no_cascade(subject: &Subject) {
    // No child has a policy.
    let (_, parent, claims) = woken_early(subject, tasks(2)).await;
    let end = |claim: &Claim| vec![commit_of(claim, done())];
    assert!(!subject.commit_all(end(&parent)).await.cascades);
    subject.finish_all(&claims).await;
    // Every child with a policy has finished, before or in the same batch.
    let (_, parent, claims) = woken_early(subject, terminated_with_parent(2)).await;
    subject.commit(&claims[0], done()).await;
    let both = [&parent, &claims[1]].map(|claim| commit_of(claim, done()));
    let committed = subject.commit_all(both.into()).await;
    assert!(!committed.cascades);
    subject.assert_no_cascade_is_left().await;
}

pub async fn a_parent_that_goes_on_leaves_no_cascade(subject: &Subject) {
    for outcome in [requeue("b"), again(seconds(0)), wait_for(&["x"])] {
        let (_, parent, claims) = woken_early(subject, terminated_with_parent(1)).await;
        let commit = vec![commit_of(&parent, outcome)];
        assert!(!subject.commit_all(commit).await.cascades);
        subject.assert_no_cascade_is_left().await;
        let both = vec![parent.id, claims[0].id];
        let ended = subject.store.terminate(both, Extent::One, note());
        assert!(
            !ended.await.unwrap().cascades,
            "parent and child end together"
        );
    }
}

pub async fn a_cascade_reaches_the_children_of_all_rounds(subject: &Subject) {
    let (worker, parent, first) = woken_early(subject, terminated_with_parent(2)).await;
    let again = fan_out_with(terminated_with_parent(2), until(Until::Quorum(9)));
    subject.commit(&parent, again).await;
    let parent = subject.claim_the(worker, parent.id).await;
    let second = subject.claim_ids(worker, 9).await;
    subject.commit(&parent, done()).await;
    let cascaded = subject.cascade(3).await;
    // The latest round comes first, and in it the highest id.
    assert_eq!(cascaded.ended, [first[1].id, second[0], second[1]]);
    assert!(cascaded.more);
    assert_eq!(subject.cascade(3).await.ended, [first[0].id]);
}

pub async fn a_cascade_skips_children_that_ended_or_were_cancelled_before(subject: &Subject) {
    let children = vec![
        task().on_parent_close(ClosePolicy::Terminate),
        task().on_parent_close(ClosePolicy::RequestCancel),
        task().on_parent_close(ClosePolicy::RequestCancel),
    ];
    let (_, parent, claims) = woken_early(subject, children).await;
    subject.cancel(claims[1].id).await;
    subject.commit(&parent, done()).await;
    subject.commit(&claims[0], done()).await;
    let (ended, cancelled) = (
        subject.get(claims[0].id).await,
        subject.get(claims[1].id).await,
    );
    subject.pass(seconds(1));
    let cascaded = subject.cascade(10).await;
    assert_eq!(cascaded.requested, [claims[2].id]);
    assert_eq!(
        (cascaded.ended, cascaded.running),
        (vec![], vec![claims[2].id])
    );
    subject.assert_unchanged(&ended).await;
    subject.assert_unchanged(&cancelled).await;
    assert_eq!(
        close_actions(subject, parent.id).await,
        [(claims[2].id, Verb::Cancel)]
    );
}

pub async fn a_cascade_hints_at_the_queues_of_woken_children(subject: &Subject) {
    let (_, parent, claims) = woken_early(
        subject,
        vec![task().on_parent_close(ClosePolicy::RequestCancel)],
    )
    .await;
    subject.commit(&claims[0], wait_for(&["x"])).await;
    subject.commit(&parent, done()).await;
    let cascaded = subject.cascade(10).await;
    assert_eq!(
        (cascaded.requested, cascaded.running),
        (vec![claims[0].id], vec![])
    );
    assert!(cascaded.woken.contains(QUEUE));
    assert_eq!(subject.status(claims[0].id).await, Status::Runnable);
}

/// A cascade that a crash interrupts continues where it stopped: each call is atomic.
pub async fn a_cascade_continues_where_it_stopped(subject: &Subject) {
    let (_, parent, claims) = woken_early(subject, terminated_with_parent(7)).await;
    let ids = ids_of(&claims);
    subject.commit(&parent, done()).await;
    assert_eq!(
        subject.cascade(0).await,
        Cascaded {
            more: true,
            ..Cascaded::default()
        }
    );
    for batch in [&ids[4..7], &ids[1..4], &ids[..1]] {
        // Each call acts on at most three children, the latest first.
        let cascaded = subject.cascade(3).await;
        assert_eq!(cascaded.ended, batch);
        assert_eq!(cascaded.more, batch.len() == 3);
    }
    subject.assert_no_cascade_is_left().await;
}

/// Only the next call shows that a full batch was the last one.
pub async fn a_full_batch_may_be_the_last_of_a_cascade(subject: &Subject) {
    let (_, parent, _) = woken_early(subject, terminated_with_parent(2)).await;
    subject.commit(&parent, done()).await;
    let cascaded = subject.cascade(2).await;
    assert_eq!((cascaded.ended.len(), cascaded.more), (2, true));
    subject.assert_no_cascade_is_left().await;
}

pub async fn cascades_run_in_the_order_in_which_they_were_stored(subject: &Subject) {
    let (_, first, of_first) = woken_early(subject, terminated_with_parent(1)).await;
    let (_, second, of_second) = woken_early(subject, terminated_with_parent(1)).await;
    let (_, third, of_third) = woken_early(subject, terminated_with_parent(1)).await;
    subject.commit(&second, done()).await;
    // Cascades of one verb run by id.
    let both = [&third, &first].map(|claim| commit_of(claim, done()));
    subject.commit_all(both.into()).await;
    for claims in [of_second, of_first, of_third] {
        assert_eq!(subject.cascade(9).await.ended, ids_of(&claims));
    }
    subject.assert_no_cascade_is_left().await;
}

pub async fn each_close_action_is_recorded_with_the_parent(subject: &Subject) {
    let (_, parent, claims) = woken_early(subject, one_of_each()).await;
    subject.commit(&claims[2], wait_for(&["x"])).await;
    subject.commit(&parent, done()).await;
    subject.pass(seconds(3));
    subject.cascade_all().await;
    let ids = ids_of(&claims);
    let expected = [(ids[1], Verb::Cancel), (ids[2], Verb::Terminate)];
    assert_eq!(close_actions(subject, parent.id).await, expected);
    let record = &subject.operations_on(ids[2]).await[0];
    assert_eq!(record.cause, Some(parent.id));
    assert_eq!(record.by, "parent");
    let why = format!("parent {} ended as done", parent.id);
    assert_eq!(record.reason, Some(why));
    assert_eq!(record.status_before, Some(Status::AwaitingSignal));
    assert_eq!(record.at, subject.now());
    assert_eq!(subject.operations_on(parent.id).await, []);
}

pub async fn close_actions_on_many_children_come_in_pages(subject: &Subject) {
    let many = limits::PAGE_MAX + 50;
    let (_, parent) = subject.running(task().priority(-1)).await;
    let join = Join {
        rest: ClosePolicy::Terminate,
        ..until(Until::Quorum(u32::MAX))
    };
    subject
        .commit(&parent, fan_out_with(tasks(many), join))
        .await;
    let mut calls = 0;
    while subject.cascade(400).await.more {
        calls += 1;
    }
    assert_eq!(calls, many / 400);
    let store = &subject.store;
    let page = store.close_actions(parent.id, None).await.unwrap();
    assert_eq!(page.len(), limits::PAGE_MAX);
    assert!(page.is_sorted_by(|a, b| a.id < b.id));
    let after = page.last().map(|record| record.id);
    let rest = store.close_actions(parent.id, after).await.unwrap();
    assert_eq!(rest.len(), 50);
    assert!(rest.iter().all(|record| Some(record.id) > after));
    let children = page.iter().chain(&rest).filter_map(|it| it.instance);
    let children: std::collections::BTreeSet<_> = children.collect();
    assert_eq!(children.len(), many, "each child once");
}

/// I6, I8, I9: a child that a cascade terminates ends like any other.
pub async fn a_child_terminated_by_a_cascade_releases_its_keys_and_inbox(subject: &Subject) {
    let child = task()
        .on_parent_close(ClosePolicy::Terminate)
        .partition_key("p")
        .correlation_key("k");
    let (worker, parent, claims) = woken_early(subject, vec![child]).await;
    let behind = subject.insert(task().partition_key("p")).await;
    let child = &claims[0];
    subject.arrives(signal(child.id, "a")).await;
    subject.commit(&parent, done()).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    assert_eq!(subject.cascade(10).await.ended, [child.id]);
    assert_eq!(
        subject.try_commit(child, done()).await,
        outlast_core::Answer::Lost
    );
    assert_eq!(subject.claim_ids(worker, 9).await, [behind]);
    assert!(!subject.get(child.id).await.holds_key);
    assert_eq!(subject.signals(child.id).await, []);
    subject.assert_sound().await;
}

/// A parent must not be collected while it has a cascade to run.
pub async fn a_parent_is_kept_until_its_cascade_is_done(subject: &Subject) {
    let (_, parent, claims) = woken_early(subject, terminated_with_parent(2)).await;
    subject.commit(&parent, done()).await;
    subject.pass(seconds(10));
    let collect = || {
        subject.store.collect(CollectRequest {
            retention: seconds(1),
            max: 100,
        })
    };
    let delete = || subject.store.delete(vec![parent.id], note());
    assert_eq!(collect().await.unwrap().removed, []);
    assert_eq!(delete().await.unwrap(), [DeleteAnswer::Cascading]);
    subject.cascade(1).await;
    assert_eq!(delete().await.unwrap(), [DeleteAnswer::Cascading]);
    subject.cascade_all().await;
    assert_eq!(delete().await.unwrap(), [DeleteAnswer::Deleted]);
    subject.pass(seconds(10));
    assert_eq!(collect().await.unwrap().removed, ids_of(&claims));
}

pub async fn a_child_with_a_cascade_is_kept_while_its_parent_lives(subject: &Subject) {
    let (_, root, children) = woken_early(subject, vec![task()]).await;
    let middle = fan_out_with(terminated_with_parent(1), until(Until::Quorum(9)));
    subject.commit(&children[0], middle).await;
    subject.terminate(children[0].id).await;
    let delete = || subject.store.delete(vec![children[0].id], note());
    assert_eq!(
        delete().await.unwrap(),
        [DeleteAnswer::ParentLives(root.id)]
    );
    subject.commit(&root, done()).await;
    assert_eq!(delete().await.unwrap(), [DeleteAnswer::Cascading]);
    subject.cascade_all().await;
    assert_eq!(delete().await.unwrap(), [DeleteAnswer::Deleted]);
}

pub async fn cascade_requests_beyond_their_bound_are_refused(subject: &Subject) {
    subject.assert_no_cascade_is_left().await;
    let request = CascadeRequest {
        max: limits::BATCH_MAX + 1,
    };
    let refused = subject.store.cascade(request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}
