//! Timeouts of instances and of runs: an instance that takes too long fails, in any status.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, ClosePolicy, CollectRequest, Delivery, EventKind, Inserted, Instance, InstanceId,
    Invalid, Join, NewInstance, Scope, Start, Status, TimedOut, limits,
};
use std::time::Duration;

/// A task that may take ten seconds in all.
fn hurried() -> NewInstance {
    task().timeout(seconds(10))
}

async fn time_out(subject: &Subject) -> TimedOut {
    subject.store.time_out(100).await.unwrap()
}

/// Lets ten seconds pass and returns the row of `id`, which must have timed out.
async fn timed_out(subject: &Subject, id: InstanceId) -> Instance {
    subject.pass(seconds(10));
    assert_eq!(time_out(subject).await.ended, [id]);
    subject.get(id).await
}

/// I10.
pub async fn an_instance_never_times_out_early(subject: &Subject) {
    let id = subject.insert(hurried()).await;
    let moment = subject.now() + seconds(10);
    assert_eq!(subject.get(id).await.timeout_at, Some(moment));
    subject.pass(seconds(10) - Duration::from_micros(1));
    let early = TimedOut {
        next_timeout_in: Some(Duration::from_micros(1)),
        ..TimedOut::default()
    };
    assert_eq!(time_out(subject).await, early);
    subject.pass(Duration::from_micros(1));
    let ended = TimedOut {
        ended: vec![id],
        ..TimedOut::default()
    };
    assert_eq!(time_out(subject).await, ended);
    assert_eq!(time_out(subject).await, TimedOut::default());
}

pub async fn a_runnable_instance_fails_when_it_times_out(subject: &Subject) {
    let id = subject.insert(hurried()).await;
    let before = subject.get(id).await;
    let row = timed_out(subject, id).await;
    let expected = Instance {
        status: Status::Failed,
        revision: before.revision.next(),
        last_error: Some("timed out after 10 s".into()),
        updated_at: subject.now(),
        finished_at: Some(subject.now()),
        ..before
    };
    assert_eq!(row, expected);
    assert_eq!(row.times_out_at(), None, "it has ended");
    let worker = subject.worker().await;
    assert_eq!(subject.claim_ids(worker, 10).await, []);
}

pub async fn a_waiting_instance_fails_when_it_times_out(subject: &Subject) {
    let waits = [
        (wait_for(&["paid"]), Status::AwaitingSignal),
        (wait_at_most(&[], seconds(30)), Status::Sleeping),
        (again(seconds(30)), Status::Runnable),
    ];
    for (wait, status) in waits {
        let (_, claim) = subject.running(hurried()).await;
        assert_eq!(subject.commit(&claim, wait).await, status);
        let before = subject.get(claim.id).await;
        let row = timed_out(subject, claim.id).await;
        assert_eq!(row.status, Status::Failed);
        assert_eq!(row.revision, before.revision.next());
        assert_eq!((row.awaits, row.await_deadline), (None, None));
        assert_eq!(row.last_error.as_deref(), Some("timed out after 10 s"));
    }
    subject.pass(seconds(30));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.woken_instances, [], "no deadline is left");
}

/// I3.
pub async fn the_outcome_of_a_timed_out_step_is_lost(subject: &Subject) {
    let (worker, claim) = subject.running(hurried()).await;
    subject.pass(seconds(10));
    let ended = TimedOut {
        ended: vec![claim.id],
        running: vec![claim.id],
        ..TimedOut::default()
    };
    assert_eq!(time_out(subject).await, ended);
    let row = subject.get(claim.id).await;
    assert_eq!((row.status, row.locked_by), (Status::Failed, None));
    assert_eq!(subject.claims_of(worker).await, []);
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    subject.assert_unchanged(&row).await;
}

pub async fn an_outcome_before_the_time_out_counts(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.pass(seconds(20));
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
    assert_eq!(time_out(subject).await, TimedOut::default());
}

pub async fn a_timeout_asks_no_machine_with_a_pending_cancel(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.cancel(claim.id).await;
    let row = timed_out(subject, claim.id).await;
    assert_eq!(row.status, Status::Failed);
    assert!(row.cancel.is_some_and(|cancel| !cancel.answered));
}

pub async fn a_timeout_is_counted_from_the_first_moment_an_instance_may_run(subject: &Subject) {
    let now = subject.now();
    let starts = [
        (Start::Now, now),
        (Start::After(seconds(30)), now + seconds(30)),
        (Start::At(now + seconds(30)), now + seconds(30)),
        (Start::At(now - seconds(30)), now),
    ];
    for (start, from) in starts {
        // With a key and without: two statements insert.
        let plain = hurried().run_timeout(seconds(5)).start(start);
        let keyed = plain.clone().correlation_key(format!("{start:?}"));
        for row in [plain, keyed] {
            let row = subject.get(subject.insert(row).await).await;
            assert_eq!(row.timeout_at, Some(from + seconds(10)), "{start:?}");
            assert_eq!(row.run_timeout_at, Some(from + seconds(5)), "{start:?}");
            assert_eq!(row.times_out_at(), Some(from + seconds(5)));
        }
    }
}

pub async fn each_instance_of_a_batch_has_its_own_timeouts(subject: &Subject) {
    let rows = vec![task(), hurried(), task().run_timeout(seconds(20))];
    let ids = subject.insert_all(rows).await;
    let now = subject.now();
    let mut moments = Vec::new();
    for id in &ids {
        let row = subject.get(*id).await;
        moments.push((row.timeout_at, row.run_timeout_at));
    }
    let expected = [
        (None, None),
        (Some(now + seconds(10)), None),
        (None, Some(now + seconds(20))),
    ];
    assert_eq!(moments, expected);
    subject.pass(limits::DELAY_MAX);
    assert_eq!(time_out(subject).await.ended, ids[1..]);
    assert_eq!(subject.status(ids[0]).await, Status::Runnable);
}

pub async fn an_instance_claimed_at_its_insert_times_out_too(subject: &Subject) {
    let worker = subject.worker().await;
    let inserts = subject.store.insert(vec![hurried()], Some(worker)).await;
    let inserted = inserts.unwrap().rows.remove(0);
    assert!(matches!(
        inserted,
        Inserted::New {
            claimed: Some(FIRST_CLAIM),
            ..
        }
    ));
    let id = inserted.new_id().unwrap();
    assert_eq!(timed_out(subject, id).await.status, Status::Failed);
}

pub async fn no_more_instances_time_out_than_requested(subject: &Subject) {
    let row = |n| task().timeout(seconds(n));
    let ids = subject.insert_all(vec![row(30), row(10), row(20)]).await;
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.next_timeout_in, Some(seconds(10)));
    subject.pass(seconds(25));
    let first = subject.store.time_out(1).await.unwrap();
    assert_eq!(first.ended, [ids[1]], "the earliest goes first");
    assert_eq!(first.next_timeout_in, Some(seconds(0)), "another is due");
    let second = time_out(subject).await;
    assert_eq!(second.ended, [ids[2]]);
    assert_eq!(second.next_timeout_in, Some(seconds(5)));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(
        (fired.next_due_in, fired.next_timeout_in),
        (None, Some(seconds(5)))
    );
}

pub async fn the_earlier_timeout_is_the_reason(subject: &Subject) {
    let cases = [
        (20, 10, "timed out after 10 s in run 1"),
        (10, 20, "timed out after 10 s"),
        (10, 10, "timed out after 10 s"),
    ];
    for (whole, run, reason) in cases {
        let row = task().timeout(seconds(whole)).run_timeout(seconds(run));
        let id = subject.insert(row).await;
        let row = timed_out(subject, id).await;
        assert_eq!(row.last_error.as_deref(), Some(reason));
    }
}

pub async fn continue_as_new_restarts_the_timeout_of_the_run_only(subject: &Subject) {
    let row = task().timeout(seconds(25)).run_timeout(seconds(10));
    let (worker, claim) = subject.running(row).await;
    let inserted = subject.get(claim.id).await;
    subject.pass(seconds(9));
    subject.commit(&claim, renew()).await;
    let row = subject.get(claim.id).await;
    assert_eq!(row.run_timeout_at, Some(subject.now() + seconds(10)));
    assert_eq!(row.timeout_at, inserted.timeout_at);
    subject.pass(seconds(9));
    assert_eq!(time_out(subject).await.ended, []);
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, renew()).await;
    subject.pass(seconds(7));
    assert_eq!(time_out(subject).await.ended, [claim.id]);
    let error = subject.get(claim.id).await.last_error;
    assert_eq!(error.as_deref(), Some("timed out after 25 s"));
}

pub async fn a_later_run_times_out_by_its_own_timeout(subject: &Subject) {
    let (_, claim) = subject.running(task().run_timeout(seconds(10))).await;
    subject.commit(&claim, renew()).await;
    let row = timed_out(subject, claim.id).await;
    let reason = "timed out after 10 s in run 2";
    assert_eq!(row.last_error.as_deref(), Some(reason));
    assert_eq!(row.run, 2);
}

pub async fn other_outcomes_leave_the_timeouts_alone(subject: &Subject) {
    let row = hurried().run_timeout(seconds(10));
    let (worker, claim) = subject.running(row).await;
    let inserted = subject.get(claim.id).await;
    subject.pass(seconds(1));
    subject.commit(&claim, again(seconds(0))).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, requeue("next")).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.release(&claim, seconds(0)).await;
    subject.cancel(claim.id).await;
    let row = subject.get(claim.id).await;
    assert_eq!(row.timeout_at, inserted.timeout_at);
    assert_eq!(row.run_timeout_at, inserted.run_timeout_at);
}

pub async fn a_retry_counts_both_timeouts_anew(subject: &Subject) {
    let row = task().timeout(seconds(10)).run_timeout(seconds(20));
    let id = subject.insert(row).await;
    timed_out(subject, id).await;
    subject.pass(seconds(5));
    subject.store.retry(vec![id], note()).await.unwrap();
    let row = subject.get(id).await;
    assert_eq!(row.timeout_at, Some(subject.now() + seconds(10)));
    assert_eq!(row.run_timeout_at, Some(subject.now() + seconds(20)));
    assert_eq!(time_out(subject).await.ended, []);
    let row = timed_out(subject, id).await;
    assert_eq!(row.last_error.as_deref(), Some("timed out after 10 s"));
}

pub async fn a_timeout_empties_the_inbox_and_refuses_later_signals(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    let known = signal(claim.id, "paid").dedup_key("d");
    subject.arrives(known.clone()).await;
    subject.arrives(signal(claim.id, "paid")).await;
    timed_out(subject, claim.id).await;
    assert_eq!(subject.inbox(claim.id).await, Vec::<String>::new());
    let answer = subject.deliver(signal(claim.id, "paid")).await;
    assert_eq!(answer, Delivery::NoTarget);
    let again = subject.deliver(known).await;
    let instance = claim.id;
    assert_eq!(again, Delivery::Duplicate { instance });
}

/// I9.
pub async fn a_timeout_releases_the_correlation_key(subject: &Subject) {
    let id = subject.insert(hurried().correlation_key("k")).await;
    assert!(!timed_out(subject, id).await.holds_key);
    assert!(
        subject
            .try_insert(task().correlation_key("k"))
            .await
            .new_id()
            .is_some()
    );
    let kept = hurried().correlation("kept", Scope::FOREVER);
    let id = subject.insert(kept).await;
    assert!(timed_out(subject, id).await.holds_key);
}

/// I8.
pub async fn a_timeout_lets_the_next_of_a_partition_key_through(subject: &Subject) {
    let worker = subject.worker().await;
    let first = subject.insert(hurried().partition_key("p")).await;
    let second = subject.insert(task().partition_key("p")).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [first]);
    assert_eq!(subject.claim_ids(worker, 10).await, [], "the key is busy");
    timed_out(subject, first).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [second]);
}

/// I6.
pub async fn a_timed_out_child_is_counted_once(subject: &Subject) {
    let children = vec![hurried(), task()];
    let (_, parent, claims) = subject.joining(children, Join::default()).await;
    subject.pass(seconds(10));
    let ended = time_out(subject).await;
    assert_eq!(
        (&ended.ended[..], &ended.running[..]),
        (&[claims[0].id][..], &[claims[0].id][..])
    );
    assert_eq!(counts(&subject.get(parent).await), (1, 1));
    assert_eq!(time_out(subject).await.ended, []);
    assert_eq!(subject.try_commit(&claims[0], stop()).await, Answer::Lost);
    assert_eq!(counts(&subject.get(parent).await), (1, 1));
    subject.commit(&claims[1], done()).await;
    let row = subject.get(parent).await;
    assert_eq!((row.status, counts(&row)), (Status::Runnable, (0, 1)));
    assert_eq!(row.barrier.unwrap().first_failure, Some(claims[0].id));
    subject.assert_sound().await;
}

pub async fn the_last_timed_out_child_wakes_its_parent(subject: &Subject) {
    let children = vec![hurried(), hurried()];
    let (worker, parent, claims) = subject.joining(children, Join::default()).await;
    subject.pass(seconds(10));
    let ended = time_out(subject).await;
    assert_eq!(ended.ended, ids_of(&claims));
    assert!(ended.woken.contains(QUEUE));
    let claim = subject.claim_the(worker, parent).await;
    let errors = claim.children.iter().map(|it| it.last_error.as_deref());
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [Some("timed out after 10 s"); 2]
    );
}

pub async fn children_count_their_timeouts_from_their_start(subject: &Subject) {
    // Alike, and with a key: two statements start children.
    let alike = vec![hurried().run_timeout(seconds(5))];
    let keyed = vec![
        task(),
        hurried().run_timeout(seconds(5)).correlation_key("k"),
    ];
    for children in [alike, keyed] {
        subject.pass(seconds(1));
        let (_, _, claims) = subject.joining(children, Join::default()).await;
        let child = subject.get(claims.last().unwrap().id).await;
        assert_eq!(child.timeout_at, Some(subject.now() + seconds(10)));
        assert_eq!(child.run_timeout_at, Some(subject.now() + seconds(5)));
    }
}

pub async fn a_child_that_waits_for_a_place_times_out_too(subject: &Subject) {
    let children = vec![task(), hurried(), task()];
    let (worker, parent, claims) = subject.joining(children, window(1)).await;
    let ids = subject.child_ids(parent, 1).await;
    assert_eq!(ids_of(&claims), ids[..1]);
    let row = timed_out(subject, ids[1]).await;
    assert_eq!((row.status, row.held), (Status::Failed, Some(false)));
    assert_eq!(
        subject.claim_ids(worker, 10).await,
        [],
        "it had no place to pass on"
    );
    subject.commit(&claims[0], done()).await;
    assert_eq!(subject.claim_ids(worker, 10).await, ids[2..]);
}

pub async fn a_timed_out_child_passes_its_place_on(subject: &Subject) {
    let children = vec![hurried(), task()];
    let (worker, parent, _) = subject.joining(children, window(1)).await;
    let ids = subject.child_ids(parent, 1).await;
    timed_out(subject, ids[0]).await;
    assert_eq!(subject.claim_ids(worker, 10).await, ids[1..]);
}

/// I13.
pub async fn a_timed_out_parent_closes_its_children(subject: &Subject) {
    let children = ClosePolicy::ALL.map(|policy| task().on_parent_close(policy));
    let (worker, claim) = subject.running(hurried()).await;
    subject.commit(&claim, fan_out(children.to_vec())).await;
    let claims = subject.claim(worker, 10).await;
    subject.pass(seconds(10));
    let ended = time_out(subject).await;
    assert_eq!((ended.ended, ended.cascades), (vec![claim.id], true));
    let cascaded = subject.cascade(10).await;
    assert_eq!(cascaded.requested, [claims[1].id]);
    assert_eq!(cascaded.ended, [claims[2].id]);
    let reason = subject.get(claims[2].id).await.last_error.unwrap();
    assert!(reason.ends_with("ended as failed"), "{reason}");
    assert_eq!(subject.status(claims[0].id).await, Status::Executing);
    subject.assert_no_cascade_is_left().await;
}

/// I6.
pub async fn a_parent_that_times_out_with_its_child_is_not_woken(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.commit(&claim, fan_out(vec![hurried()])).await;
    let child = subject.child_ids(claim.id, 1).await[0];
    subject.pass(seconds(10));
    assert_eq!(time_out(subject).await.ended, [claim.id, child]);
    assert_eq!(subject.status(claim.id).await, Status::Failed);
    subject.assert_sound().await;
}

/// I14.
pub async fn a_timeout_is_the_last_event_of_a_history_that_has_begun(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.commit_events(&claim, flow_on(), events(2)).await;
    let row = timed_out(subject, claim.id).await;
    assert_eq!(row.events, 3);
    let last = subject.history(claim.id, 1).await.pop().unwrap();
    assert_eq!((last.seq, last.kind), (3, EventKind::TimedOut));
    assert_eq!(
        (last.at, last.call, last.name.as_str()),
        (subject.now(), None, "")
    );
    assert_eq!(last.data.as_str(), r#"{"reason":"timed out after 10 s"}"#);
    // Without a history there is nothing to close.
    let (_, claim) = subject.running(hurried()).await;
    assert_eq!(timed_out(subject, claim.id).await.events, 0);
    assert_eq!(subject.history(claim.id, 1).await, []);
}

pub async fn an_ended_instance_does_not_time_out(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.commit(&claim, done()).await;
    let terminated = subject.insert(hurried()).await;
    subject.terminate(terminated).await;
    let before = subject.get(claim.id).await;
    assert!(before.timeout_at.is_some(), "it is kept for people to read");
    subject.pass(seconds(20));
    assert_eq!(time_out(subject).await, TimedOut::default());
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.status(terminated).await, Status::Cancelled);
}

/// I1.
pub async fn a_timed_out_instance_is_collected_like_any_other(subject: &Subject) {
    let (_, claim) = subject.running(hurried()).await;
    subject.commit_events(&claim, flow_on(), events(1)).await;
    timed_out(subject, claim.id).await;
    subject.pass(seconds(5));
    let request = CollectRequest {
        retention: seconds(5),
        max: 10,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, [claim.id]);
    assert_eq!(time_out(subject).await, TimedOut::default());
    assert_eq!(subject.history(claim.id, 1).await, []);
}

pub async fn a_bad_timeout_is_refused(subject: &Subject) {
    let now = subject.now();
    let late = Start::At(limits::MOMENT_MAX);
    let cases = [
        (task().timeout(Duration::ZERO), "timeout is zero"),
        (task().run_timeout(Duration::ZERO), "run timeout is zero"),
        (task().timeout(limits::DELAY_MAX * 2), "ten years"),
        (hurried().start(late), "end of the timeout"),
    ];
    for (row, why) in cases {
        let refused: Invalid = row.check().unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        let error = subject.store.insert(vec![row], None).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let longest = task().timeout(limits::DELAY_MAX);
    let id = subject.insert(longest).await;
    let row = subject.get(id).await;
    assert_eq!(row.timeout_at, Some(now + limits::DELAY_MAX));
}
