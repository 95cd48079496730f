//! Outcomes of workflows that advance, and start children without waiting for them.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Barrier, ChildRange, Claim, ClosePolicy, Count, DroppedChild, Flowing, Instance,
    InstanceId, JoinSet, Joined, NewInstance, Outcome, Proceed, Status, Until,
};

/// The barrier of a workflow that has waited for no children.
const WITHOUT_CHILDREN: Barrier = Barrier {
    until: Until::All,
    window: None,
    rest: ClosePolicy::Abandon,
    started: 0,
    failed: 0,
    first_failure: None,
    joined: None,
};

pub async fn a_workflow_that_goes_on_keeps_its_step_and_state(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let answer = subject.try_commit(&claim, flow_on()).await;
    let revision = claim.revision.next();
    assert_eq!(answer, subject.committed(revision, Status::Executing));
    let expected = Instance {
        revision,
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    assert_eq!(subject.commit(&kept(&claim), done()).await, Status::Done);
}

pub async fn a_workflow_that_goes_through_the_queue_gives_up_its_claim(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, requeue("run")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let commits = vec![commit_of(&claim, flow_requeue())];
    assert!(subject.commit_all(commits).await.woken.contains(QUEUE));
    let expected = Instance {
        status: Status::Runnable,
        revision: claim.revision.next(),
        locked_by: None,
        eligible_at: subject.now(),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    let again = subject.claim_the(worker, claim.id).await;
    assert_eq!((&again.step, &again.state), (&claim.step, &claim.state));
    assert_eq!(again.entered, claim.entered, "the visit is the same");
}

pub async fn a_workflow_outcome_resets_attempts_crashes_and_the_last_error(subject: &Subject) {
    for then in [flow_on(), flow_requeue(), park(for_time(9))] {
        let (worker, claim) = subject.running(task()).await;
        let outcome = Outcome::Retry {
            state: json("1"),
            delay: seconds(0),
            error: Some("not yet".into()),
        };
        subject.commit(&claim, outcome).await;
        subject.claim_the(worker, claim.id).await;
        subject.pass(LEASE);
        subject.reap().await;
        let worker = subject.worker().await;
        let claim = subject.claim_the(worker, claim.id).await;
        assert_eq!((claim.attempt, claim.crashes), (2, 1));
        subject.commit(&claim, then).await;
        let row = subject.get(claim.id).await;
        assert_eq!((row.attempt, row.crashes, row.last_error), (0, 0, None));
        subject.terminate(claim.id).await;
    }
}

/// I7.
pub async fn a_workflow_outcome_consumes_only_the_received_signals(subject: &Subject) {
    for then in [
        flow_on(),
        flow_requeue(),
        start(tasks(1)),
        park(for_time(9)),
    ] {
        let (worker, id) = subject.parked(&["a"]).await;
        subject.arrives(signal(id, "a").dedup_key("k")).await;
        subject.arrives(signal(id, "b")).await;
        let claim = subject.claim_the(worker, id).await;
        subject.arrives(signal(id, "a")).await;
        subject.commit(&claim, then).await;
        assert_eq!(subject.inbox(id).await, ["b", "a"]);
        assert_eq!(
            subject.signals(id).await.len(),
            3,
            "the tombstone keeps the dedup key"
        );
        assert_eq!(subject.get(id).await.awaits, None);
        let claims = subject.claim(worker, 9).await;
        subject.finish_all(&claims).await;
        subject.terminate(id).await;
    }
}

pub async fn a_workflow_outcome_starts_its_children_as_a_round_of_their_own(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let children = vec![
        task().on_parent_close(ClosePolicy::Terminate),
        task().queue("mail"),
        later(task(), seconds(9)),
    ];
    subject.pass(seconds(1));
    let before = subject.get(claim.id).await;
    let committed = subject.commit_all(vec![commit_of(&claim, start(children))]);
    let committed = committed.await;
    let revision = claim.revision.next();
    assert_eq!(
        committed.answers,
        [subject.committed(revision, Status::Executing)]
    );
    let queues: Vec<&str> = committed.woken.iter().map(String::as_str).collect();
    assert_eq!(queues, [QUEUE, "mail"]);
    let expected = Instance {
        revision,
        round: 1,
        joining: Some(Vec::new()),
        barrier: Some(WITHOUT_CHILDREN),
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    let children = subject.children(claim.id, 1).await;
    let places: Vec<_> = children.iter().map(|it| (it.round, it.position)).collect();
    assert_eq!(places, [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(children[0].on_parent_close, ClosePolicy::Terminate);
    assert_eq!(children[0].run, 1);
    let child = subject.claim_the(worker, children[0].id).await;
    assert_eq!(
        child.parent.map(|it| (it.id, it.round)),
        Some((claim.id, 1))
    );
    assert!(!child.windowed);
}

pub async fn a_workflow_outcome_without_children_begins_no_round(subject: &Subject) {
    let (_, mut claim) = subject.flowing(tasks(2)).await;
    subject.commit(&claim, flow_on()).await;
    assert_eq!(subject.get(claim.id).await.round, 1);
    claim = kept(&claim);
    subject.commit(&claim, start(tasks(3))).await;
    claim = kept(&claim);
    let requeued = flow(tasks(1), Flowing::Proceed(Proceed::Requeue));
    assert_eq!(subject.commit(&claim, requeued).await, Status::Runnable);
    assert_eq!(subject.get(claim.id).await.round, 3);
    let rounds = subject.store.rounds(claim.id).await.unwrap();
    let rounds: Vec<i32> = rounds.iter().map(|it| it.round).collect();
    assert_eq!(rounds, [1, 2, 3]);
    assert_eq!(subject.child_ids(claim.id, 2).await.len(), 3);
}

pub async fn a_workflow_without_children_has_no_rounds_to_wait_for(subject: &Subject) {
    for then in [flow_on(), flow_requeue(), park(for_time(1)), renew()] {
        let (_, claim) = subject.running(task()).await;
        subject.commit(&claim, then).await;
        let row = subject.get(claim.id).await;
        assert_eq!((row.round, row.joining, row.barrier), (0, None, None));
        subject.terminate(claim.id).await;
    }
}

pub async fn finished_children_that_are_not_awaited_do_not_wake_the_workflow(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(4)).await;
    let children = subject.claim(worker, 9).await;
    let before = subject.get(claim.id).await;
    subject.commit(&children[0], done()).await;
    subject.commit(&children[1], stop()).await;
    subject.assert_unchanged(&before).await;
    subject.commit(&claim, park(for_signals(&["go"]))).await;
    let before = subject.get(claim.id).await;
    assert_eq!(before.status, Status::AwaitingSignal);
    subject.pass(seconds(1));
    subject.commit(&children[2], stop()).await;
    subject.terminate(children[3].id).await;
    subject.assert_unchanged(&before).await;
    subject.assert_sound().await;
}

/// The workflow no longer waits for the rounds of an earlier wait.
pub async fn a_workflow_that_goes_on_no_longer_waits_for_its_rounds(subject: &Subject) {
    let until = for_anything(for_ends(&[1], &[], 2));
    for (then, status) in [
        (flow_on(), Status::Executing),
        (flow_requeue(), Status::Runnable),
        (park(for_signals(&["x"])), Status::AwaitingSignal),
    ] {
        let (worker, id, children) = subject.awaiting(tasks(2), until.clone()).await;
        subject.arrives(signal(id, "go")).await;
        let row = subject.get(id).await;
        let sets = Some(vec![joining(&[1], 2)]);
        assert_eq!(row.joining, sets, "the join sets stay after the wake");
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, then).await;
        let after = subject.get(id).await;
        assert_eq!((after.status, &after.joining), (status, &Some(Vec::new())));
        assert_eq!(after.barrier, row.barrier);
        assert_eq!(after.children_pending, row.children_pending);
        subject.finish_all(&children).await;
        subject.assert_unchanged(&after).await;
        subject.terminate(id).await;
    }
}

pub async fn dropped_children_are_reported_to_their_workflow(subject: &Subject) {
    let holder = subject
        .insert(later(task(), seconds(900)).correlation_key("k"))
        .await;
    let keyed = || task().correlation_key("k");
    let (worker, claim) = subject.flowing(vec![task(), keyed()]).await;
    let dropped = DroppedChild {
        position: 1,
        machine: "task".into(),
        key: "k".into(),
        holder: Some(holder),
    };
    let row = subject.get(claim.id).await;
    assert_eq!((row.round, &row.dropped), (1, &vec![dropped.clone()]));
    assert_eq!(subject.child_ids(claim.id, 1).await.len(), 1);
    // An outcome without children keeps the dropped child, and the next claim reports it.
    subject.commit(&claim, flow_requeue()).await;
    let claims = subject.claim(worker, 9).await;
    let claim = claims.iter().find(|it| it.id == claim.id).unwrap();
    assert_eq!(claim.dropped, [dropped]);
    subject.commit(claim, start(vec![keyed()])).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.round, row.dropped[0].position), (2, 0));
    assert_eq!(subject.child_ids(claim.id, 2).await, []);
    subject.commit(&kept(claim), start(tasks(1))).await;
    assert_eq!(subject.get(claim.id).await.dropped, []);
}

/// A workflow loads the children that it waits for itself.
pub async fn a_workflow_is_claimed_without_its_children(subject: &Subject) {
    let until = for_ends(&[1], &[], 2);
    let (worker, id, children) = subject.awaiting(tasks(2), until).await;
    subject.finish_all(&children).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.round, claim.joined), (1, Some(Joined::All)));
    assert_eq!(claim.children, []);
    assert_eq!(
        subject.children(id, 1).await.len(),
        2,
        "a query returns the children"
    );
    let (worker, claim) = subject.flowing(tasks(1)).await;
    subject.commit(&claim, flow_requeue()).await;
    let claims = subject.claim(worker, 9).await;
    assert!(claims.iter().all(|claim| claim.children.is_empty()));
}

pub async fn a_window_of_a_workflow_lets_the_next_child_start(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let outcome = Outcome::Flow {
        children: tasks(4),
        window: Some(2),
        then: Flowing::Proceed(Proceed::KeepClaim),
    };
    subject.commit(&claim, outcome).await;
    let ids = subject.child_ids(claim.id, 1).await;
    let children = subject.claim(worker, 9).await;
    assert_eq!(ids_of(&children), ids[..2]);
    assert!(children.iter().all(|child| child.windowed));
    assert_eq!(subject.get(claim.id).await.barrier, Some(WITHOUT_CHILDREN));
    subject.commit(&children[0], stop()).await;
    let third = subject.claim_the(worker, ids[2]).await;
    subject.finish_all(&[children[1].clone(), third]).await;
    subject.claim_the(worker, ids[3]).await;
    subject.assert_sound().await;
    // A later round has a separate window, and the older one continues.
    let outcome = Outcome::Flow {
        children: tasks(2),
        window: Some(1),
        then: Flowing::Park(for_ends(&[2], &[], 2)),
    };
    subject.commit(&kept(&claim), outcome).await;
    let barrier = subject.get(claim.id).await.barrier.unwrap();
    assert_eq!(barrier.window, Some(1));
    let second = subject.child_ids(claim.id, 2).await;
    assert_eq!(subject.claim_ids(worker, 9).await, second[..1]);
}

pub async fn the_end_of_a_workflow_cascades_to_children_of_all_rounds(subject: &Subject) {
    let strict = |policy| vec![task().on_parent_close(policy)];
    let (_, claim) = subject.flowing(strict(ClosePolicy::Terminate)).await;
    subject
        .commit(&claim, start(strict(ClosePolicy::RequestCancel)))
        .await;
    let claim = kept(&claim);
    subject
        .commit(&claim, start(strict(ClosePolicy::Abandon)))
        .await;
    let commits = vec![commit_of(&kept(&claim), done())];
    assert!(subject.commit_all(commits).await.cascades);
    subject.cascade_all().await;
    let statuses = async |round| subject.child_statuses(claim.id, round).await;
    assert_eq!(statuses(1).await, [Status::Cancelled]);
    let cancelled = subject.child_ids(claim.id, 2).await[0];
    assert!(subject.cancel_reason(cancelled).await.is_some());
    let abandoned = subject.child_ids(claim.id, 3).await[0];
    assert_eq!(subject.cancel_reason(abandoned).await, None);
}

/// I3.
pub async fn a_lost_workflow_outcome_starts_no_children(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, flow_on()).await;
    let before = subject.get(claim.id).await;
    let until = for_ends(&[1], &[], 2);
    for outcome in [start(tasks(2)), start_and_park(tasks(2), until)] {
        let answer = subject.try_commit(&claim, outcome).await;
        assert_eq!(answer, Answer::Lost);
    }
    subject.assert_unchanged(&before).await;
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));
}

pub async fn a_workflow_outcome_that_cannot_be_stored_is_rejected(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    let no_places = Outcome::Flow {
        children: tasks(1),
        window: Some(0),
        then: Flowing::Proceed(Proceed::KeepClaim),
    };
    let bad_child: NewInstance = task().correlation_key("");
    let names = vec!["x"; outlast_core::limits::AWAITED_NAMES_MAX + 1];
    let some = InstanceId(7);
    let backwards = ChildRange {
        round: 1,
        first: 1,
        last: 0,
    };
    let bad = [
        no_places,
        start(vec![task(), bad_child]),
        park(Default::default()),
        park(for_signals(&[""])),
        park(for_signals(&["a\u{0}"])),
        park(for_signals(&names)),
        park(for_time(u64::MAX)),
        park(for_ends(&[], &[], 1)),
        park(for_ends(&[1], &[], 0)),
        park(for_ends(&[0], &[], 1)),
        park(for_ends(&[2, 1], &[], 1)),
        park(for_ends(&[1, 1], &[], 1)),
        park(for_ends(&[1], &[some, some], 1)),
        park(for_join_sets(Vec::new())),
        park(for_join_sets(vec![part(&[1], &[], 1), part(&[], &[], 1)])),
        park(for_join_sets(vec![
            part(&[1], &[], 1);
            outlast_core::limits::JOIN_SETS_MAX + 1
        ])),
        park(for_join_sets(vec![starting(1, -1..=0)])),
        park(for_join_sets(vec![JoinSet {
            ranges: vec![backwards],
            ..part(&[1], &[], 1)
        }])),
    ];
    for outcome in bad {
        let answer = subject.try_commit(&claim, outcome.clone()).await;
        assert!(matches!(answer, Answer::Rejected(_)), "{outcome:?}");
    }
    subject.assert_unchanged(&before).await;
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1));
    subject.commit(&claim, done()).await;
}

/// A machine's fan-out joins as usual, even if the instance had workflow outcomes before.
pub async fn a_fan_out_after_a_workflow_outcome_joins_its_own_round(subject: &Subject) {
    let (worker, claim) = subject.flowing(tasks(1)).await;
    let older = subject.claim_one(worker).await;
    subject.commit(&claim, fan_out(tasks(2))).await;
    let row = subject.get(claim.id).await;
    assert_eq!((row.round, &row.joining), (2, &None));
    subject.commit(&older, stop()).await;
    assert_eq!(counts(&subject.get(claim.id).await), (2, 0));
    let children = subject.claim(worker, 9).await;
    subject.finish_all(&children).await;
    let joined = subject.claim_the(worker, claim.id).await;
    assert_eq!(joined.children.len(), 2);
}

/// I8, I9.
pub async fn a_workflow_holds_its_keys_as_a_machine_does(subject: &Subject) {
    let scope = outlast_core::Scope::of([Status::Runnable, Status::Executing]).unwrap();
    let keyed = || task().partition_key("p").correlation("k", scope);
    let (worker, claim) = subject.running(keyed()).await;
    let next = subject.insert(task().partition_key("p")).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    subject.commit(&claim, flow_on()).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    assert!(subject.get(claim.id).await.holds_key);
    subject
        .commit(&kept(&claim), park(for_signals(&["go"])))
        .await;
    assert!(
        !subject.get(claim.id).await.holds_key,
        "the status left the scope"
    );
    let other: Claim = subject.claim_the(worker, next).await;
    subject.arrives(signal(claim.id, "go")).await;
    assert_eq!(subject.claim_ids(worker, 9).await, [], "its key is busy");
    subject.commit(&other, done()).await;
    subject.claim_the(worker, claim.id).await;
    subject.assert_sound().await;
}
