//! Cancel and terminate of whole trees, from the root down, regardless of policies (I13).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    CancelAnswer, Claim, ClosePolicy, Family, InstanceId, Join, NewInstance, Status,
    TerminateAnswer, Until, Verb, WorkerId,
};

/// A tree of instances.
///
/// The instances of a generation have equally many children. All but the last generation wait for
/// their children.
struct Tree {
    worker: WorkerId,
    /// The generations, from the root down.
    generations: Vec<Vec<InstanceId>>,
    /// The claims of the last generation.
    leaves: Vec<Claim>,
}

impl Tree {
    async fn grow(subject: &Subject, widths: &[usize], child: fn() -> NewInstance) -> Tree {
        let (worker, root) = subject.running(task()).await;
        let mut generations = vec![vec![root.id]];
        let mut leaves = vec![root];
        for width in widths {
            for claim in &leaves {
                let children = (0..*width).map(|_| child()).collect();
                subject.commit(claim, fan_out(children)).await;
            }
            leaves = subject.claim(worker, 1_000).await;
            generations.push(ids_of(&leaves));
        }
        Tree {
            worker,
            generations,
            leaves,
        }
    }

    fn root(&self) -> InstanceId {
        self.generations[0][0]
    }

    fn all(&self) -> Vec<InstanceId> {
        self.generations.concat()
    }
}

async fn cancel_tree(subject: &Subject, root: InstanceId) -> CancelAnswer {
    let cancelled = subject.store.cancel(vec![root], Extent::Tree, note()).await;
    cancelled.unwrap().answers[0]
}

async fn terminate_tree(subject: &Subject, root: InstanceId) -> TerminateAnswer {
    let terminated = subject.store.terminate(vec![root], Extent::Tree, note());
    terminated.await.unwrap().answers[0]
}

async fn family(subject: &Subject, root: InstanceId) -> Family {
    let family = subject.store.family(root).await.unwrap();
    family.expect("the instance is stored")
}

fn terminated_with_parent() -> NewInstance {
    task().on_parent_close(ClosePolicy::Terminate)
}

pub async fn a_terminated_tree_ends(subject: &Subject) {
    let tree = Tree::grow(subject, &[2, 2, 1], task).await;
    let answer = terminate_tree(subject, tree.root()).await;
    assert_eq!(
        answer,
        TerminateAnswer::Terminated(Status::AwaitingChildren)
    );
    // One child at a time, so that every cascade is interrupted and continued.
    let mut ended = Vec::new();
    loop {
        let cascaded = subject.cascade(1).await;
        ended.extend(cascaded.ended);
        if !cascaded.more {
            break;
        }
    }
    ended.sort();
    assert_eq!(ended, tree.generations[1..].concat());
    for id in tree.all() {
        let row = subject.get(id).await;
        assert_eq!(row.status, Status::Cancelled);
        let error = row.last_error.unwrap();
        assert_eq!(error, "terminated by ada: a rule asks for it");
        let record = &subject.operations_on(id).await[0];
        assert_eq!(record.cause, row.parent.map(|parent| parent.id));
        assert_eq!((record.verb, record.by.as_str()), (Verb::Terminate, "ada"));
    }
    assert_eq!(subject.claim_ids(tree.worker, 99).await, []);
    for leaf in &tree.leaves {
        let answer = subject.try_commit(leaf, done()).await;
        assert_eq!(answer, outlast_core::Answer::Lost);
    }
}

pub async fn a_tree_is_cancelled_from_the_root_down(subject: &Subject) {
    let tree = Tree::grow(subject, &[2, 2], task).await;
    let answer = cancel_tree(subject, tree.root()).await;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    let cascaded = subject.cascade(10).await;
    assert_eq!(cascaded.requested, tree.generations[1]);
    assert!(cascaded.more && cascaded.running.is_empty());
    subject.cascade_all().await;
    for id in tree.all() {
        let row = subject.get(id).await;
        let expected = match tree.generations[2].contains(&id) {
            true => Status::Executing,
            false => Status::Runnable,
        };
        assert_eq!(row.status, expected);
        let cancel = row.cancel.unwrap();
        assert_eq!(cancel.reason, "cancelled by ada: a rule asks for it");
        assert!(!cancel.answered);
    }
    let woken = subject.claim(tree.worker, 99).await;
    assert_eq!(woken.len(), 3);
    assert!(woken.iter().all(Claim::is_to_answer_cancel));
}

pub async fn a_cancel_or_terminate_of_one_instance_does_not_reach_its_children(subject: &Subject) {
    let tree = Tree::grow(subject, &[1, 1], task).await;
    subject.cancel(tree.generations[1][0]).await;
    subject.assert_no_cascade_is_left().await;
    subject.terminate(tree.root()).await;
    subject.assert_no_cascade_is_left().await;
    let leaf = tree.generations[2][0];
    assert_eq!(subject.status(leaf).await, Status::Executing);
    assert_eq!(subject.get(leaf).await.cancel, None);
}

pub async fn a_cancel_or_terminate_of_a_tree_goes_past_an_ended_or_cancelled_root(
    subject: &Subject,
) {
    let tree = Tree::grow(subject, &[1], task).await;
    subject.terminate(tree.root()).await;
    let answer = cancel_tree(subject, tree.root()).await;
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Cancelled));
    assert_eq!(subject.cascade(10).await.requested, tree.generations[1]);
    let answer = terminate_tree(subject, tree.root()).await;
    assert_eq!(answer, TerminateAnswer::AlreadyEnded(Status::Cancelled));
    assert_eq!(subject.cascade(10).await.ended, tree.generations[1]);

    let tree = Tree::grow(subject, &[1], task).await;
    subject.cancel(tree.root()).await;
    let answer = cancel_tree(subject, tree.root()).await;
    assert_eq!(answer, CancelAnswer::AlreadyRequested(Status::Runnable));
    assert_eq!(subject.cascade(10).await.requested, tree.generations[1]);
    subject.assert_no_cascade_is_left().await;
}

pub async fn a_tree_of_one_instance_leaves_no_cascade(subject: &Subject) {
    let ids = subject.insert_all(tasks(2)).await;
    let cancelled = subject.store.cancel(ids.clone(), Extent::Tree, note());
    assert!(!cancelled.await.unwrap().cascades);
    let terminated = subject.store.terminate(ids, Extent::Tree, note());
    assert!(!terminated.await.unwrap().cascades);
    cancel_tree(subject, InstanceId(987_654_321)).await;
    subject.assert_no_cascade_is_left().await;
}

pub async fn a_tree_listed_twice_is_cancelled_once(subject: &Subject) {
    let tree = Tree::grow(subject, &[1], task).await;
    let twice = vec![tree.root(), tree.root()];
    let cancelled = subject.store.cancel(twice, Extent::Tree, note()).await;
    assert!(cancelled.unwrap().cascades);
    let cascaded = subject.cascade(10).await;
    assert_eq!((cascaded.requested.len(), cascaded.more), (1, false));
}

pub async fn descendants_of_an_ended_child_are_terminated_with_the_tree(subject: &Subject) {
    let tree = Tree::grow(subject, &[1, 1], task).await;
    subject.terminate(tree.generations[1][0]).await;
    subject.assert_no_cascade_is_left().await;
    terminate_tree(subject, tree.root()).await;
    let cascaded = subject.cascade(10).await;
    assert_eq!((cascaded.ended.len(), cascaded.more), (0, true));
    assert_eq!(subject.cascade(10).await.ended, tree.generations[2]);
}

/// Policies propagate down a tree: each end leaves a cascade.
pub async fn close_policies_propagate_down_the_tree(subject: &Subject) {
    let tree = Tree::grow(subject, &[2, 1, 1], terminated_with_parent).await;
    subject.terminate(tree.root()).await;
    for generation in &tree.generations[1..] {
        let mut ended = Vec::new();
        while ended.len() < generation.len() {
            ended.extend(subject.cascade(10).await.ended);
        }
        ended.sort();
        assert_eq!(&ended, generation);
    }
    subject.assert_no_cascade_is_left().await;
    let leaf = subject.get(tree.generations[3][0]).await;
    let parent = leaf.parent.unwrap().id;
    let why = format!("terminated by parent: parent {parent} ended as cancelled");
    assert_eq!(leaf.last_error, Some(why));
}

/// A terminated tree with policies gets two cascades. The second finds nothing to do.
pub async fn a_close_policy_and_a_tree_terminate_end_each_instance_once(subject: &Subject) {
    let tree = Tree::grow(subject, &[2, 2], terminated_with_parent).await;
    terminate_tree(subject, tree.root()).await;
    subject.cascade_all().await;
    for id in tree.all() {
        assert_eq!(subject.status(id).await, Status::Cancelled);
        assert_eq!(subject.operations_on(id).await.len(), 1);
    }
    subject.assert_no_cascade_is_left().await;
}

/// I13: a compensation is not cancelled together with the instance that it compensates.
pub async fn children_started_by_the_answer_to_a_cancel_are_not_in_the_cascade(subject: &Subject) {
    let tree = Tree::grow(subject, &[2], task).await;
    cancel_tree(subject, tree.root()).await;
    let claim = subject.claim_the(tree.worker, tree.root()).await;
    subject.commit(&claim, fan_out(tasks(2))).await;
    subject.cascade_all().await;
    let compensations = subject.claim(tree.worker, 9).await;
    assert_eq!(
        ids_of(&compensations),
        subject.child_ids(tree.root(), 2).await
    );
    assert!(compensations.iter().all(|claim| claim.cancel.is_none()));
    for id in &tree.generations[1] {
        assert!(subject.get(*id).await.cancel.is_some());
    }
    subject.finish_all(&compensations).await;
    let claim = subject.claim_the(tree.worker, tree.root()).await;
    assert_eq!(claim.children.len(), 2);
}

/// I13: no instance of a cancelled tree starts while the cascade runs.
pub async fn a_child_started_while_a_cascade_runs_is_cancelled_too(subject: &Subject) {
    let tree = Tree::grow(subject, &[2], task).await;
    cancel_tree(subject, tree.root()).await;
    // The cascade cancels the higher id first. The other child fans out before its turn, and after
    // the root was cancelled.
    let cascaded = subject.cascade(1).await;
    assert_eq!(cascaded.requested, [tree.generations[1][1]]);
    let first = fan_out(tasks(1));
    subject.commit(&tree.leaves[0], first).await;
    let status = subject.commit(&tree.leaves[1], fan_out(tasks(1))).await;
    assert_eq!(
        status,
        Status::Runnable,
        "a cancelled parent starts no children"
    );
    assert_eq!(subject.child_ids(tree.generations[1][1], 1).await, []);
    subject.cascade_all().await;
    let spawned = subject.child_ids(tree.generations[1][0], 1).await;
    assert_eq!(spawned.len(), 1);
    assert!(subject.get(spawned[0]).await.cancel.is_some());
}

pub async fn held_children_end_when_their_tree_is_cancelled(subject: &Subject) {
    let (worker, root, claims) = subject.joining(tasks(4), window(1)).await;
    let ids = subject.child_ids(root, 1).await;
    cancel_tree(subject, root).await;
    let cascaded = subject.cascade(10).await;
    assert_eq!(cascaded.requested, [ids[0]]);
    assert_eq!(cascaded.ended, ids[1..]);
    assert_eq!(cascaded.running, [claims[0].id]);
    assert_eq!(subject.claim_ids(worker, 9).await, [root]);
}

pub async fn children_of_a_terminated_parent_do_not_count_in_its_join(subject: &Subject) {
    let tree = Tree::grow(subject, &[1, 2], task).await;
    let middle = tree.generations[1][0];
    terminate_tree(subject, middle).await;
    subject.cascade_all().await;
    let row = subject.get(middle).await;
    assert_eq!((row.status, counts(&row)), (Status::Cancelled, (2, 0)));
    // The root's join counted the terminated child once.
    let claim = subject.claim_the(tree.worker, tree.root()).await;
    assert_eq!(claim.children[0].status, Status::Cancelled);
}

pub async fn a_cascade_does_not_terminate_a_retried_child_again(subject: &Subject) {
    let tree = Tree::grow(subject, &[1], terminated_with_parent).await;
    subject.terminate(tree.root()).await;
    subject.cascade_all().await;
    let child = tree.generations[1][0];
    subject.store.retry(vec![child], note()).await.unwrap();
    subject.assert_no_cascade_is_left().await;
    assert_eq!(subject.status(child).await, Status::Runnable);
}

pub async fn a_family_is_counted_by_status(subject: &Subject) {
    let tree = Tree::grow(subject, &[2, 3], task).await;
    subject.commit(&tree.leaves[0], done()).await;
    subject.commit(&tree.leaves[1], stop()).await;
    let counted = family(subject, tree.root()).await;
    let expected = [
        (Status::Executing, 4),
        (Status::AwaitingChildren, 3),
        (Status::Done, 1),
        (Status::Failed, 1),
    ];
    assert_eq!(
        (counted.members.as_slice(), counted.complete),
        (&expected[..], true)
    );
    assert_eq!(counted.live(), 7);
    let branch = family(subject, tree.generations[1][1]).await;
    assert_eq!(
        branch.members,
        [(Status::Executing, 3), (Status::AwaitingChildren, 1)]
    );
    terminate_tree(subject, tree.root()).await;
    subject.cascade_all().await;
    assert_eq!(family(subject, tree.root()).await.live(), 0);
}

pub async fn an_unknown_instance_has_no_family(subject: &Subject) {
    let unknown = subject.store.family(InstanceId(987_654_321)).await;
    assert_eq!(unknown.unwrap(), None);
    let id = subject.insert(task()).await;
    let alone = family(subject, id).await;
    assert_eq!(
        (alone.members, alone.complete),
        (vec![(Status::Runnable, 1)], true)
    );
}

/// Children of every round count, and so do abandoned children.
pub async fn a_family_has_members_of_every_round(subject: &Subject) {
    let (worker, parent, claims) = subject.joining(tasks(2), until(Until::Quorum(1))).await;
    subject.commit(&claims[0], done()).await;
    let claim = subject.claim_the(worker, parent).await;
    let again = fan_out_with(tasks(1), Join::default());
    subject.commit(&claim, again).await;
    let members = family(subject, parent).await.members;
    let expected = [
        (Status::Runnable, 1),
        (Status::Executing, 1),
        (Status::AwaitingChildren, 1),
        (Status::Done, 1),
    ];
    assert_eq!(members, expected);
}
