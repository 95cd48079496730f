//! Parks that need all: a group of children, signals and a deadline wakes the workflow once.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, CancelAnswer, Claim, Delivery, Due, Instance, InstanceId, Joined, Park, RepairAnswer,
    RepairNeed, Scope, SignalOrInsert, Status, TerminateAnswer, WorkerId,
};

/// A member of the group that a park waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Member {
    Children,
    Signal,
    Moment,
}

use Member::{Children, Moment, Signal};

const ORDERS: [[Member; 3]; 6] = [
    [Children, Signal, Moment],
    [Children, Moment, Signal],
    [Signal, Children, Moment],
    [Signal, Moment, Children],
    [Moment, Children, Signal],
    [Moment, Signal, Children],
];

fn all_of(park: Park) -> Park {
    Park {
        needs_all: true,
        ..park
    }
}

/// Waits for all of these: a signal `go`, ten seconds, and the children that the outcome starts.
fn for_all(children: i32) -> Park {
    all_of(for_anything(for_ends(&[1], &[], children)))
}

/// Makes a worker and a new workflow that parks like this and starts no children.
async fn parked(subject: &Subject, until: Park) -> (WorkerId, InstanceId) {
    let (worker, claim) = subject.running(task()).await;
    let status = subject.commit(&claim, park(all_of(until))).await;
    assert_eq!(status, Status::AwaitingSignal);
    (worker, claim.id)
}

async fn fired(subject: &Subject) -> Vec<InstanceId> {
    subject.store.fire(100).await.unwrap().woken_instances
}

/// Lets a member of the group come, and returns whether it woke the workflow.
async fn member_comes(
    subject: &Subject,
    id: InstanceId,
    children: &[Claim],
    member: Member,
) -> bool {
    match member {
        Children => {
            let commits = children.iter().map(|child| commit_of(child, done()));
            let committed = subject.commit_all(commits.collect()).await;
            committed.woken.contains(QUEUE)
        }
        Signal => subject.arrives(signal(id, "go")).await.1,
        Moment => {
            subject.pass(seconds(10));
            fired(subject).await.contains(&id)
        }
    }
}

/// Returns what a row lacks: children, names, and a deadline.
fn missing(row: &Instance) -> (bool, usize, bool) {
    let children = row.status == Status::AwaitingChildren;
    let names = row.awaits.as_ref().map_or(0, Vec::len);
    (children, names, row.await_deadline.is_some())
}

pub async fn a_park_that_needs_all_says_what_is_missing(subject: &Subject) {
    let (_, id, _) = subject.awaiting(tasks(2), for_all(2)).await;
    let row = subject.get(id).await;
    assert!(row.needs_all);
    assert_eq!(row.awaits, Some(vec!["go".into()]));
    assert_eq!(row.await_deadline, Some(subject.now() + seconds(10)));
    assert_eq!((row.children_pending, joined(&row)), (2, None));
    let until = for_anything(for_ends(&[1], &[], 1));
    let (_, other, _) = subject.awaiting(tasks(1), until).await;
    assert!(!subject.get(other).await.needs_all);
    subject.assert_sound().await;
}

/// The defect: each member wakes the workflow, and its code is replayed only to wait again.
pub async fn a_group_does_not_wake_its_workflow_before_it_is_complete(subject: &Subject) {
    for order in ORDERS {
        let (worker, id, children) = subject.awaiting(tasks(2), for_all(2)).await;
        let revision = subject.get(id).await.revision;
        for (nth, member) in order.iter().enumerate() {
            subject.pass(seconds(1));
            let woke = member_comes(subject, id, &children, *member).await;
            let row = subject.get(id).await;
            let left = &order[nth + 1..];
            assert_eq!(woke, left.is_empty(), "{order:?} {member:?}");
            assert_eq!(row.revision, revision, "{order:?} {member:?}");
            if left.is_empty() {
                assert_eq!(row.status, Status::Runnable, "{order:?}");
                assert_eq!(row.eligible_at, subject.now(), "{order:?}");
                assert_eq!((row.needs_all, row.await_deadline), (false, None));
                continue;
            }
            let names = usize::from(left.contains(&Signal));
            let lacks = (left.contains(&Children), names, left.contains(&Moment));
            assert_eq!(missing(&row), lacks, "{order:?} {member:?}");
            assert!(row.needs_all && row.status.is_parked());
            assert_eq!(row.updated_at, subject.now(), "{order:?} {member:?}");
            assert_eq!(
                subject.claim_ids(worker, 9).await,
                [],
                "{order:?} {member:?}"
            );
            subject.assert_sound().await;
        }
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(claim.joined, Some(Joined::All), "{order:?}");
        assert_eq!(names_of(&claim.inbox), ["go"], "{order:?}");
        subject.commit(&claim, done()).await;
    }
}

pub async fn a_group_of_a_signal_and_a_deadline_wakes_once(subject: &Subject) {
    let until = || Park {
        deadline: for_time(10).deadline,
        ..for_signals(&["go"])
    };
    for order in [[Signal, Moment], [Moment, Signal]] {
        let (worker, id) = parked(subject, until()).await;
        assert!(!member_comes(subject, id, &[], order[0]).await, "{order:?}");
        assert!(member_comes(subject, id, &[], order[1]).await, "{order:?}");
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(names_of(&claim.inbox), ["go"]);
        assert_eq!((claim.joined, claim.attempt), (None, 0));
        subject.commit(&claim, done()).await;
    }
}

pub async fn finished_children_of_a_group_are_counted_one_by_one(subject: &Subject) {
    let (worker, id, children) = subject.awaiting(tasks(3), for_all(3)).await;
    member_comes(subject, id, &[], Signal).await;
    for (ended, expected) in [(1, 2), (0, 1)] {
        subject.commit(&children[ended], done()).await;
        let row = subject.get(id).await;
        assert_eq!(
            (row.status, counts(&row)),
            (Status::AwaitingChildren, (expected, 0))
        );
    }
    subject.commit(&children[2], done()).await;
    let row = subject.get(id).await;
    assert_eq!((row.status, counts(&row)), (Status::Sleeping, (0, 0)));
    assert_eq!(joined(&row), Some(Joined::All));
    assert_eq!(row.status, Status::Sleeping);
    subject.pass(seconds(10));
    assert_eq!(fired(subject).await, [id]);
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(
        claim.joined,
        Some(Joined::All),
        "the deadline did not decide the join"
    );
}

/// The timers see the deadline until it has passed.
pub async fn a_deadline_that_passes_before_its_group_is_complete_is_cleared(subject: &Subject) {
    let (_, id, children) = subject.awaiting(tasks(1), for_all(1)).await;
    subject.pass(seconds(4));
    let answer = subject.store.fire(9).await.unwrap();
    assert_eq!(answer.next_due_in, Some(seconds(6)));
    subject.pass(seconds(6));
    let answer = subject.store.fire(9).await.unwrap();
    assert_eq!(
        (answer.woken_instances, answer.next_due_in),
        (Vec::new(), None)
    );
    assert!(answer.woken.is_empty() && !answer.cascades);
    let row = subject.get(id).await;
    assert_eq!(missing(&row), (true, 1, false));
    assert_eq!(joined(&row), None);
    // A passed deadline is written once.
    subject.pass(seconds(5));
    fired(subject).await;
    subject.assert_unchanged(&row).await;
    member_comes(subject, id, &children, Children).await;
    assert!(member_comes(subject, id, &[], Signal).await);
}

pub async fn a_passed_deadline_counts_even_if_it_was_not_fired(subject: &Subject) {
    let (worker, id, children) = subject.awaiting(tasks(1), for_all(1)).await;
    member_comes(subject, id, &[], Signal).await;
    subject.pass(seconds(10));
    assert!(member_comes(subject, id, &children, Children).await);
    assert_eq!(fired(subject).await, []);
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, done()).await;
    let (_, id, children) = subject.awaiting(tasks(1), for_all(1)).await;
    subject.pass(seconds(10));
    assert!(!member_comes(subject, id, &children, Children).await);
    assert!(member_comes(subject, id, &[], Signal).await);
    assert_eq!(fired(subject).await, []);
    assert_eq!(subject.status(id).await, Status::Runnable);
}

pub async fn only_the_signal_that_completes_its_group_wakes(subject: &Subject) {
    let (worker, id) = parked(subject, for_signals(&["go", "halt", "turn"])).await;
    let (_, woke) = subject.arrives(signal(id, "turn")).await;
    assert!(!woke);
    let row = subject.get(id).await;
    assert_eq!(row.awaits, Some(vec!["go".into(), "halt".into()]));
    let batch = ["go", "other", "go", "halt", "go", "halt"];
    let batch = batch.map(|name| signal(id, name)).to_vec();
    let delivered = subject.store.deliver(batch, None).await.unwrap();
    let woke = delivered.answers.iter().map(|answer| match answer {
        Delivery::Delivered { woke, .. } => *woke,
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => {
            panic!("not delivered: {answer:?}")
        }
    });
    let woke: Vec<bool> = woke.collect();
    assert_eq!(woke, [false, false, false, true, false, false]);
    assert!(delivered.woken.contains(QUEUE));
    assert_eq!(subject.get(id).await.awaits, Some(Vec::new()));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.inbox.len(), 7);
    assert_eq!(names_of(claim.awaited()), [""; 0]);
}

pub async fn a_second_signal_of_the_same_name_does_not_complete_a_group(subject: &Subject) {
    let (_, id) = parked(subject, for_signals(&["go", "halt"])).await;
    let keyed = || signal(id, "go").dedup_key("once");
    subject.arrives(keyed()).await;
    let row = subject.get(id).await;
    subject.pass(seconds(1));
    let again = subject.deliver(keyed()).await;
    assert_eq!(again, Delivery::Duplicate { instance: id });
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(!woke);
    subject.assert_unchanged(&row).await;
    let (_, woke) = subject.arrives(signal(id, "halt")).await;
    assert!(woke);
}

pub async fn a_delivery_claims_only_workflows_whose_group_is_complete(subject: &Subject) {
    let (worker, id) = parked(subject, for_signals(&["go", "halt"])).await;
    let before = subject.get(id).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    assert_eq!(delivered.claims, []);
    assert!(delivered.woken.is_empty());
    let row = subject.get(id).await;
    assert_eq!((row.status, row.locked_by), (Status::AwaitingSignal, None));
    assert_eq!(row.revision, before.revision);
    let delivered = subject.deliver_for(worker, vec![signal(id, "halt")]).await;
    assert_eq!(ids_of(&delivered.claims), [id]);
    assert_eq!(names_of(&delivered.claims[0].inbox), ["go", "halt"]);
    subject.commit(&delivered.claims[0], done()).await;
    let until = Park {
        deadline: for_time(10).deadline,
        ..for_signals(&["go"])
    };
    let (worker, id) = parked(subject, until).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    assert_eq!(delivered.claims, []);
    subject.pass(seconds(10));
    assert_eq!(fired(subject).await, [id]);
}

pub async fn a_signal_or_insert_removes_its_name_from_the_awaited_signals(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("k")).await;
    let outcome = start_and_park(tasks(1), for_all(1));
    subject.commit(&claim, outcome).await;
    let request = SignalOrInsert {
        row: task().correlation_key("k"),
        name: "go".into(),
        payload: json("1"),
        dedup_key: None,
    };
    let answer = subject.store.signal_or_insert(request).await.unwrap();
    assert_eq!(answer.inserted, None);
    assert!(answer.woken.is_empty());
    let row = subject.get(claim.id).await;
    assert_eq!(missing(&row), (true, 0, true));
}

pub async fn a_failed_child_wakes_an_incomplete_group(subject: &Subject) {
    for before in [&[][..], &[Signal], &[Moment], &[Signal, Moment]] {
        let (worker, id, children) = subject.awaiting(tasks(2), for_all(2)).await;
        for member in before {
            member_comes(subject, id, &[], *member).await;
        }
        subject.commit(&children[1], stop()).await;
        let row = subject.get(id).await;
        assert_eq!((row.status, row.needs_all), (Status::Runnable, false));
        assert_eq!(row.await_deadline, None, "{before:?}");
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(claim.joined, Some(Joined::Failure), "{before:?}");
        assert_eq!(claim.first_failure, Some(children[1].id), "{before:?}");
        subject.commit(&claim, done()).await;
        subject.commit(&children[0], done()).await;
    }
}

/// I2: nothing is missed between the check and the park.
pub async fn a_group_does_not_wait_for_members_that_came_before_the_park(subject: &Subject) {
    let past = || Some(Due::At(subject.now() - seconds(1)));
    let (worker, claim) = subject.flowing(tasks(2)).await;
    let children = subject.claim(worker, 9).await;
    let ids = ids_of(&children);
    subject.arrives(signal(claim.id, "go")).await;
    subject.commit(&children[0], done()).await;
    subject.pass(seconds(5));
    let until = all_of(Park {
        deadline: past(),
        ..for_anything(for_ends(&[1], &ids, 2))
    });
    let status = subject.commit(&claim, park(until.clone())).await;
    assert_eq!(status, Status::AwaitingChildren);
    let row = subject.get(claim.id).await;
    assert_eq!((missing(&row), row.children_pending), ((true, 0, false), 1));
    assert!(member_comes(subject, claim.id, &children[1..], Children).await);
    // The whole group is there.
    let claim = subject.claim_the(worker, claim.id).await;
    let kept = Claim {
        awaits: Vec::new(),
        ..claim.clone()
    };
    let status = subject.commit(&kept, park(until.clone())).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!((row.needs_all, joined(&row)), (false, Some(Joined::All)));
    // Only one name is missing.
    let claim = subject.claim_the(worker, claim.id).await;
    let until = Park {
        names: vec!["halt".into(), "go".into()],
        ..until
    };
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::AwaitingSignal);
    let row = subject.get(claim.id).await;
    assert_eq!(row.awaits, Some(vec!["halt".into()]));
    assert_eq!((row.needs_all, row.await_deadline), (true, None));
}

pub async fn a_group_with_a_failed_child_does_not_park(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(2)).await;
    let children = subject.claim(worker, 9).await;
    subject.commit(&children[0], stop()).await;
    let until = all_of(for_anything(for_ends(&[1], &ids_of(&children), 2)));
    let status = subject.commit(&claim, park(until)).await;
    assert_eq!(status, Status::Runnable);
    let row = subject.get(claim.id).await;
    assert_eq!(
        (row.needs_all, joined(&row)),
        (false, Some(Joined::Failure))
    );
}

pub async fn a_group_counts_the_last_child_that_finishes_in_its_batch(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(1)).await;
    let children = subject.claim(worker, 9).await;
    let until = all_of(for_anything(for_ends(&[1], &ids_of(&children), 1)));
    let batch = vec![
        commit_of(&claim, park(until)),
        commit_of(&children[0], done()),
    ];
    subject.commit_all(batch).await;
    let row = subject.get(claim.id).await;
    assert_eq!(missing(&row), (false, 1, true));
    assert_eq!((row.needs_all, joined(&row)), (true, Some(Joined::All)));
}

pub async fn a_cancel_wakes_an_incomplete_group(subject: &Subject) {
    for order in ORDERS {
        for came in 0..order.len() {
            let (worker, id, children) = subject.awaiting(tasks(1), for_all(1)).await;
            for member in &order[..came] {
                member_comes(subject, id, &children, *member).await;
            }
            let before = subject.get(id).await.status;
            let answer = subject.cancel(id).await;
            assert_eq!(answer, CancelAnswer::Requested(before), "{order:?} {came}");
            let row = subject.get(id).await;
            assert_eq!((row.status, row.needs_all), (Status::Runnable, false));
            for member in &order[came..] {
                member_comes(subject, id, &children, *member).await;
            }
            let claim = subject.claim_the(worker, id).await;
            assert!(claim.is_to_answer_cancel());
            subject.commit(&claim, cancel()).await;
        }
    }
}

pub async fn a_workflow_that_needs_all_can_be_terminated_and_retried(subject: &Subject) {
    let (worker, id, children) = subject.awaiting(tasks(1), for_all(1)).await;
    member_comes(subject, id, &children, Children).await;
    let answer = subject.terminate(id).await;
    assert_eq!(answer, TerminateAnswer::Terminated(Status::AwaitingSignal));
    let row = subject.get(id).await;
    assert_eq!((row.needs_all, row.await_deadline), (false, None));
    subject.store.retry(vec![id], note()).await.unwrap();
    let claim = subject.claim_the(worker, id).await;
    subject
        .commit(&claim, park(for_signals(&["go", "halt"])))
        .await;
    assert!(!subject.get(id).await.needs_all);
    let (_, woke) = subject.arrives(signal(id, "go")).await;
    assert!(woke, "this park waits for the first of its signals");
}

/// `needs_all` applies to one park only. The next park of any kind is independent of it.
pub async fn the_wait_after_a_group_is_woken_by_the_first_signal(subject: &Subject) {
    for outcome in [
        park(for_anything(for_ends(&[1], &[], 1))),
        park(for_signals(&["go", "halt"])),
        wait_for(&["go", "halt"]),
    ] {
        let (worker, id, children) = subject.awaiting(tasks(2), for_all(2)).await;
        subject.commit(&children[0], stop()).await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, outcome).await;
        let row = subject.get(id).await;
        assert!(row.status.is_parked() && !row.needs_all);
        let (_, woke) = subject.arrives(signal(id, "go")).await;
        assert!(woke);
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, done()).await;
        subject.commit(&children[1], done()).await;
    }
}

/// I9: a workflow whose children have finished changes its status.
pub async fn the_end_of_the_last_child_releases_a_key_whose_scope_is_left(subject: &Subject) {
    for (statuses, holds) in [
        (vec![Status::AwaitingChildren], false),
        (vec![Status::AwaitingChildren, Status::AwaitingSignal], true),
    ] {
        let always = [Status::Runnable, Status::Executing];
        let scope = Scope::of(always.into_iter().chain(statuses)).unwrap();
        let (worker, claim) = subject.running(task().correlation("k", scope)).await;
        let outcome = start_and_park(tasks(1), for_all(1));
        subject.commit(&claim, outcome).await;
        let children = subject.claim(worker, 9).await;
        assert!(subject.get(claim.id).await.holds_key);
        member_comes(subject, claim.id, &children, Children).await;
        let row = subject.get(claim.id).await;
        assert_eq!((row.status, row.holds_key), (Status::AwaitingSignal, holds));
        subject.terminate(claim.id).await;
    }
}

pub async fn groups_that_cannot_be_counted_are_rejected(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let sets = vec![starting(1, 0..=0), starting(1, 1..=1)];
    for outcome in [
        start_and_park(tasks(2), all_of(for_join_sets(sets))),
        park(all_of(for_signals(&["go", "go"]))),
        park(all_of(Park::default())),
    ] {
        let answer = subject.try_commit(&claim, outcome).await;
        assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    }
    subject
        .commit(&claim, park(all_of(for_signals(&["go"]))))
        .await;
}

/// The woken workflow checks for itself what is missing.
pub async fn a_repair_wakes_a_group_whose_finished_child_was_not_counted(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(1)).await;
    let children = subject.claim(worker, 9).await;
    subject.commit(&children[0], done()).await;
    // The result of a lost count: the workflow waits for a child that has finished.
    let until = all_of(for_anything(for_ends(&[1], &[], 1)));
    subject.commit(&claim, park(until)).await;
    let need = RepairNeed::ChildrenFinished;
    assert_eq!(subject.needing_repair().await, [(claim.id, need)]);
    let answer = subject.repair(claim.id).await;
    assert_eq!(answer, RepairAnswer::Repaired(need));
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.needs_all), (Status::Runnable, false));
    assert_eq!(row.await_deadline, None);
}
