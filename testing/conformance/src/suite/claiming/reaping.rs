//! Reaping: claims of dead workers return to their queues.
//!
//! Late outcomes of those workers change nothing (docs/protocol.md, defect 3).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Answer, Instance, ReapRequest, Reaped, ReleaseAnswer, Status, gave_up};

async fn reap_at_most(subject: &Subject, max: usize) -> Reaped {
    let request = ReapRequest {
        max,
        crashes_max: 5,
    };
    subject.store.reap(request).await.unwrap()
}

async fn reap_with_bound(subject: &Subject, crashes_max: i32) -> Reaped {
    let request = ReapRequest {
        max: 100,
        crashes_max,
    };
    subject.store.reap(request).await.unwrap()
}

pub async fn the_claim_of_a_dead_worker_returns_to_its_queue(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    subject.pass(LEASE);
    let reaped = subject.reap().await;
    assert_eq!(reaped.returned, [claim.id]);
    assert_eq!((reaped.failed, reaped.removed), (vec![], vec![worker]));
    assert!(reaped.woken.contains(QUEUE) && !reaped.more);
    let expected = Instance {
        status: Status::Runnable,
        revision: before.revision.next(),
        attempt: 1,
        crashes: 1,
        locked_by: None,
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(subject.get(claim.id).await, expected);
    assert_eq!(subject.store.workers().await.unwrap(), []);
}

pub async fn a_live_worker_keeps_its_claims(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let before = subject.get(claim.id).await;
    subject.pass(LEASE - seconds(1));
    assert_eq!(subject.reap().await, Reaped::default());
    subject.store.heartbeat(worker, LEASE).await.unwrap();
    subject.pass(LEASE - seconds(1));
    assert_eq!(subject.reap().await, Reaped::default());
    subject.assert_unchanged(&before).await;
}

/// I3 and defect 3 (docs/protocol.md).
pub async fn a_late_commit_after_reap_changes_nothing(subject: &Subject) {
    let outcomes = [
        keep("b"),
        requeue("b"),
        again(seconds(0)),
        wait_for(&["x"]),
        fan_out(tasks(3)),
        done(),
        stop(),
        cancel(),
    ];
    for outcome in outcomes {
        let (_, claim) = subject.running(task().priority(-1)).await;
        subject.pass(LEASE);
        subject.reap().await;
        let row = subject.get(claim.id).await;
        assert_eq!(subject.try_commit(&claim, outcome).await, Answer::Lost);
        assert_eq!(
            subject.release(&claim, seconds(0)).await,
            ReleaseAnswer::Lost
        );
        subject.assert_unchanged(&row).await;
        subject
            .store
            .terminate(vec![claim.id], Extent::One, note())
            .await
            .unwrap();
    }
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(
        count,
        outlast_core::Count::Exactly(8),
        "no child was started"
    );
}

/// I3 and defect 3 (docs/protocol.md): the same worker has claimed the row again.
pub async fn a_late_commit_after_the_same_worker_claimed_again_changes_nothing(subject: &Subject) {
    let (worker, stale) = subject.running(task()).await;
    subject.release(&stale, seconds(0)).await;
    let fresh = subject.claim_the(worker, stale.id).await;
    let row = subject.get(stale.id).await;
    assert_eq!(subject.try_commit(&stale, done()).await, Answer::Lost);
    subject.assert_unchanged(&row).await;
    assert_eq!(subject.commit(&fresh, done()).await, Status::Done);
}

/// I3, I7 and defect 3 (docs/protocol.md).
pub async fn a_late_commit_after_reap_consumes_no_signal(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    subject.arrives(signal(id, "a").dedup_key("once")).await;
    let stale = subject.claim_the(worker, id).await;
    subject.pass(LEASE);
    subject.reap().await;
    for outcome in [requeue("b"), done()] {
        assert_eq!(subject.try_commit(&stale, outcome).await, Answer::Lost);
    }
    assert_eq!(subject.inbox(id).await, ["a"]);
    let heir = subject.worker().await;
    let claim = subject.claim_the(heir, id).await;
    assert_eq!(names_of(claim.awaited()), ["a"]);
}

/// I6 and defect 3 (docs/protocol.md): a late outcome released a join while the child still ran.
pub async fn a_late_commit_after_reap_does_not_count_in_the_join(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(1))).await;
    let zombie = subject.claim_one(worker).await;
    subject.pass(LEASE);
    subject.reap().await;
    let heir = subject.worker().await;
    let child = subject.claim_the(heir, zombie.id).await;
    assert_eq!(subject.try_commit(&zombie, done()).await, Answer::Lost);
    assert_eq!(subject.status(parent.id).await, Status::AwaitingChildren);
    subject.commit(&child, done()).await;
    assert_eq!(subject.status(parent.id).await, Status::Runnable);
}

/// Defect 14 (docs/protocol.md).
pub async fn a_step_that_keeps_killing_its_worker_fails_past_the_bound(subject: &Subject) {
    let id = subject.insert(task()).await;
    for crash in 1..=3 {
        let worker = subject.worker().await;
        let claim = subject.claim_the(worker, id).await;
        assert_eq!((claim.attempt, claim.crashes), (crash - 1, crash - 1));
        subject.pass(LEASE);
        let reaped = reap_with_bound(subject, 2).await;
        let given_up = crash == 3;
        assert_eq!(reaped.failed.contains(&id), given_up);
        assert_eq!(reaped.returned.contains(&id), !given_up);
    }
    let row = subject.get(id).await;
    assert_eq!(
        (row.status, row.crashes, row.attempt),
        (Status::Failed, 3, 3)
    );
    assert_eq!(row.last_error, Some(gave_up(3, "start")));
    assert_eq!(row.finished_at, Some(subject.now()));
    assert_eq!(row.locked_by, None);
}

/// Defect 14 (docs/protocol.md): a crash of a busy worker does not show which step caused it.
pub async fn crashes_of_a_worker_with_several_claims_fail_none_of_its_instances(subject: &Subject) {
    let ids = subject.insert_all(tasks(3)).await;
    for crash in 1..=6 {
        let worker = subject.worker().await;
        assert_eq!(subject.claim(worker, 3).await.len(), 3);
        subject.pass(LEASE);
        let reaped = reap_with_bound(subject, 2).await;
        assert_eq!((reaped.returned, reaped.failed), (ids.clone(), vec![]));
        assert_eq!(subject.get(ids[0]).await.crashes, crash);
    }
}

/// Defect 14 (docs/protocol.md): fresh claims of its worker do not hide the quarantined instance.
pub async fn the_only_quarantined_instance_of_a_worker_is_blamed_for_the_crash(subject: &Subject) {
    let first = subject.insert_all(tasks(2)).await;
    for _ in 0..3 {
        let worker = subject.worker().await;
        subject.claim(worker, 2).await;
        subject.pass(LEASE);
        reap_with_bound(subject, 1).await;
    }
    let survivor = subject.worker_with(seconds(1_000)).await;
    let claims = subject.claim(survivor, 2).await;
    let (quarantined, healthy) = (&claims[0], &claims[1]);
    subject.commit(healthy, done()).await;
    subject.release(quarantined, seconds(0)).await;
    for crash in 4..=5 {
        let fresh = subject.insert(task()).await;
        let worker = subject.worker().await;
        assert_eq!(ids_of(&subject.claim(worker, 2).await), [first[0], fresh]);
        subject.pass(LEASE);
        let reaped = reap_with_bound(subject, 1).await;
        assert_eq!(reaped.failed.contains(&first[0]), crash == 5, "{crash}");
        assert!(reaped.returned.contains(&fresh));
        subject
            .store
            .terminate(vec![fresh], Extent::One, note())
            .await
            .unwrap();
    }
}

/// Defect 14 (docs/protocol.md): a failed child finishes like any other.
pub async fn a_child_failed_by_the_reaper_wakes_its_parent_and_loses_its_inbox(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(1))).await;
    let child = subject.claim_one(worker).await;
    subject.arrives(signal(child.id, "a")).await;
    subject.pass(LEASE);
    let reaped = reap_with_bound(subject, 0).await;
    assert_eq!(reaped.failed, [child.id]);
    assert_eq!(subject.status(parent.id).await, Status::Runnable);
    assert!(reaped.woken.contains(QUEUE));
    assert_eq!(subject.signals(child.id).await, []);
}

pub async fn an_operator_can_retry_an_instance_that_crashed_too_often(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(LEASE);
    reap_with_bound(subject, 0).await;
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (0, 0));
}

/// Defect 14 (docs/protocol.md): only crashes in a row count.
pub async fn a_commit_resets_the_crash_count(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (1, 1));
    subject.commit(&claim, again(seconds(0))).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (2, 0));
}

/// Defect 14 (docs/protocol.md).
pub async fn a_release_does_not_reset_the_crash_count(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.release(&claim, seconds(0)).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (1, 1));
}

/// The repeated step receives the same signals.
pub async fn awaited_signals_are_kept_through_a_crash(subject: &Subject) {
    let (worker, id) = subject.parked(&["a", "b"]).await;
    subject.arrives(signal(id, "b")).await;
    let first = subject.claim_the(worker, id).await;
    subject.pass(LEASE);
    subject.reap().await;
    let heir = subject.worker().await;
    let second = subject.claim_the(heir, id).await;
    assert_eq!(second.awaits, first.awaits);
    assert_eq!(second.inbox, first.inbox);
    assert_eq!(second.step, first.step);
}

pub async fn a_reap_returns_no_more_claims_than_requested(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(5)).await;
    subject.claim(worker, 5).await;
    subject.pass(LEASE);
    let first = reap_at_most(subject, 2).await;
    assert_eq!(first.returned, ids[..2]);
    assert!(first.more);
    assert_eq!(first.removed, [], "the worker still holds three");
    let second = reap_at_most(subject, 10).await;
    assert_eq!(second.returned, ids[2..]);
    assert_eq!((second.removed, second.more), (vec![worker], false));
}

pub async fn several_dead_workers_are_reaped_at_once(subject: &Subject) {
    let (one, two) = (subject.worker().await, subject.worker().await);
    let idle = subject.worker().await;
    let ids = subject.insert_all(tasks(4)).await;
    subject.claim(two, 2).await;
    subject.claim(one, 2).await;
    let alive = subject.worker_with(seconds(1_000)).await;
    subject.pass(LEASE);
    let reaped = subject.reap().await;
    assert_eq!(reaped.returned, ids, "in the order of ids");
    assert_eq!(reaped.removed, [one, two, idle]);
    let left = subject.store.workers().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, alive);
}

pub async fn a_second_reap_finds_nothing(subject: &Subject) {
    subject.running(task()).await;
    subject.pass(LEASE);
    subject.reap().await;
    assert_eq!(subject.reap().await, Reaped::default());
}

/// I2.
pub async fn no_instance_executes_for_ever_under_an_expired_lease(subject: &Subject) {
    let ids = subject.insert_all(tasks(30)).await;
    for _ in 0..3 {
        let worker = subject.worker().await;
        subject.claim(worker, 10).await;
    }
    subject.pass(LEASE);
    subject.reap().await;
    let heir = subject.worker().await;
    let claims = subject.claim(heir, 100).await;
    assert_eq!(ids_of(&claims), ids);
    subject.finish_all(&claims).await;
}
