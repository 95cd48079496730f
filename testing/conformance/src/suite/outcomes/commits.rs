//! Outcomes: the changes that each makes to its row, and the fence that guards all of them.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Answer, Claim, ClaimRef, Instance, Outcome, ReleaseAnswer, Revision, Status};

/// Makes a claim of an instance that has waited, failed once and holds signals.
///
/// Every column that an outcome may change then has a value.
async fn retried_claim(subject: &Subject) -> Claim {
    let (worker, id) = subject.parked(&["go"]).await;
    subject.arrives(signal(id, "go")).await;
    subject.arrives(signal(id, "other").dedup_key("o1")).await;
    let claim = subject.claim_the(worker, id).await;
    let failed = Outcome::Retry {
        state: json(r#"{"tried":1}"#),
        delay: seconds(0),
        error: Some("first try".into()),
    };
    subject.commit(&claim, failed).await;
    subject.claim_the(worker, id).await
}

/// Commits `outcome` for a retried claim half a minute later. Returns the row before and after.
async fn before_and_after(subject: &Subject, outcome: Outcome) -> (Instance, Instance) {
    let claim = retried_claim(subject).await;
    let before = subject.get(claim.id).await;
    assert_eq!((before.attempt, before.awaits.is_some()), (1, true));
    subject.pass(seconds(30));
    subject.commit(&claim, outcome).await;
    let after = subject.get(claim.id).await;
    assert_eq!(after.revision, before.revision.next());
    assert_eq!(after.updated_at, subject.now());
    assert_eq!((after.crashes, after.inserted_at), (0, before.inserted_at));
    (before, after)
}

pub async fn a_next_that_keeps_its_claim_stays_executing(subject: &Subject) {
    let (before, after) = before_and_after(subject, keep("b")).await;
    assert_eq!(
        (after.status, after.step.as_str()),
        (Status::Executing, "b")
    );
    assert_eq!(after.state.as_str(), r#"{"at":"next"}"#);
    assert_eq!(after.locked_by, before.locked_by);
    assert_eq!((after.attempt, after.awaits), (0, None));
    assert_eq!(after.eligible_at, before.eligible_at);
    assert_eq!((after.last_error, after.finished_at), (None, None));
    assert_eq!(subject.inbox(after.id).await, ["other"]);
}

pub async fn a_kept_claim_commits_again_at_the_answered_revision(subject: &Subject) {
    let (_, mut claim) = subject.running(task()).await;
    for step in ["b", "c", "d"] {
        let answer = subject.try_commit(&claim, keep(step)).await;
        let revision = claim.revision.next();
        assert_eq!(answer, subject.committed(revision, Status::Executing));
        claim.revision = revision;
    }
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
    assert_eq!(subject.get(claim.id).await.step, "d");
}

pub async fn a_next_through_the_queue_is_runnable_at_once(subject: &Subject) {
    let (_, after) = before_and_after(subject, requeue("b")).await;
    assert_eq!((after.status, after.step.as_str()), (Status::Runnable, "b"));
    assert_eq!(after.state.as_str(), r#"{"at":"next"}"#);
    assert_eq!(
        (after.attempt, after.locked_by, after.awaits),
        (0, None, None)
    );
    assert_eq!(after.eligible_at, subject.now());
    assert_eq!((after.last_error, after.finished_at), (None, None));
    assert_eq!(subject.inbox(after.id).await, ["other"]);
}

pub async fn retry_runs_the_same_step_later_with_one_more_attempt(subject: &Subject) {
    let (before, after) = before_and_after(subject, again(seconds(9))).await;
    assert_eq!(
        (after.status, &after.step),
        (Status::Runnable, &before.step)
    );
    assert_eq!(after.state.as_str(), r#"{"at":"retry"}"#);
    assert_eq!((after.attempt, after.locked_by), (2, None));
    assert_eq!(after.eligible_at, subject.now() + seconds(9));
    assert_eq!(after.awaits, before.awaits);
    assert_eq!(after.last_error.as_deref(), Some("first try"));
    assert_eq!(subject.inbox(after.id).await, ["go", "other"]);
}

pub async fn a_retry_records_its_error(subject: &Subject) {
    let outcome = Outcome::Retry {
        state: json("{}"),
        delay: seconds(0),
        error: Some("second\u{0} try".into()),
    };
    let (_, after) = before_and_after(subject, outcome).await;
    assert_eq!(after.last_error.as_deref(), Some("second\u{fffd} try"));
    assert_eq!(after.eligible_at, subject.now());
}

pub async fn wait_parks_and_keeps_the_inbox(subject: &Subject) {
    let outcome = wait_at_most(&["b", "a"], seconds(5));
    let (before, after) = before_and_after(subject, outcome).await;
    assert_eq!(after.status, Status::AwaitingSignal);
    assert_eq!(after.step, "waited");
    assert_eq!(after.state.as_str(), r#"{"at":"wait"}"#);
    assert_eq!((after.attempt, after.locked_by), (before.attempt, None));
    assert_eq!(after.eligible_at, subject.now());
    assert_eq!(after.awaits, Some(vec!["b".into(), "a".into()]));
    assert_eq!(after.await_deadline, Some(subject.now() + seconds(5)));
    assert_eq!((after.last_error, after.finished_at), (None, None));
    assert_eq!(subject.inbox(after.id).await, ["go", "other"]);
}

pub async fn fan_out_parks_on_its_children(subject: &Subject) {
    let outcome = fan_out(tasks(2));
    let (_, after) = before_and_after(subject, outcome).await;
    assert_eq!(after.status, Status::AwaitingChildren);
    assert_eq!(after.step, "joined");
    assert_eq!(after.state.as_str(), r#"{"at":"fan"}"#);
    assert_eq!(
        (after.attempt, after.locked_by, after.awaits),
        (0, None, None)
    );
    assert_eq!(after.eligible_at, subject.now());
    assert_eq!((after.round, after.children_pending), (1, 2));
    assert_eq!((after.last_error, after.finished_at), (None, None));
    assert_eq!(subject.inbox(after.id).await, ["other"]);
}

/// Asserts which columns an end clears, and that it keeps the others.
async fn assert_ended(subject: &Subject, before: &Instance, after: &Instance) {
    assert_eq!((&after.step, &after.state), (&before.step, &before.state));
    assert_eq!(after.attempt, before.attempt);
    assert_eq!(after.eligible_at, before.eligible_at);
    assert_eq!((after.locked_by, &after.awaits), (None, &None));
    assert_eq!(after.await_deadline, None);
    assert_eq!(after.finished_at, Some(subject.now()));
    assert_eq!(subject.inbox(after.id).await, [""; 0]);
}

pub async fn done_ends_the_instance_with_the_result(subject: &Subject) {
    let (before, after) = before_and_after(subject, done()).await;
    assert_eq!((after.status, &after.last_error), (Status::Done, &None));
    let result = after.result.as_ref().map(|json| json.as_str());
    assert_eq!(result, Some(r#"{"well":true}"#));
    assert_ended(subject, &before, &after).await;
}

pub async fn fail_ends_the_instance_with_the_reason(subject: &Subject) {
    let (before, after) = before_and_after(subject, stop()).await;
    assert_eq!((after.status, &after.result), (Status::Failed, &None));
    assert_eq!(after.last_error.as_deref(), Some("out of paper"));
    assert_ended(subject, &before, &after).await;
}

/// The result of a failed instance is its error value.
pub async fn fail_ends_the_instance_with_the_error_value(subject: &Subject) {
    let (before, after) = before_and_after(subject, fail_with(r#"{"paper":0}"#)).await;
    let value = Some(json(r#"{"paper":0}"#));
    assert_eq!((after.status, &after.result), (Status::Failed, &value));
    assert_eq!(after.last_error.as_deref(), Some("out of paper"));
    assert_ended(subject, &before, &after).await;
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, fail_with("null")).await;
    let row = subject.get(claim.id).await;
    assert_eq!(row.result, Some(json("null")), "null is a value");
}

pub async fn cancel_ends_the_instance_with_the_reason(subject: &Subject) {
    let (before, after) = before_and_after(subject, cancel()).await;
    assert_eq!((after.status, &after.result), (Status::Cancelled, &None));
    assert_eq!(after.last_error.as_deref(), Some("no longer wanted"));
    assert_ended(subject, &before, &after).await;
}

/// I3 and defect 13 (docs/protocol.md).
pub async fn an_outcome_sent_again_is_lost(subject: &Subject) {
    let outcomes = [
        requeue("b"),
        keep("b"),
        again(seconds(1)),
        wait_for(&["x"]),
        fan_out(vec![]),
        done(),
        stop(),
        cancel(),
    ];
    for outcome in outcomes {
        let (_, claim) = subject.running(task().priority(-1)).await;
        subject.commit(&claim, outcome.clone()).await;
        let row = subject.get(claim.id).await;
        let answer = subject.try_commit(&claim, outcome).await;
        assert_eq!(answer, Answer::Lost);
        subject.assert_unchanged(&row).await;
        subject
            .store
            .terminate(vec![claim.id], Extent::One, note())
            .await
            .unwrap();
    }
}

/// An outcome is written only to a row that executes.
///
/// A database that crashed can lose a claim and use its revision for another change.
pub async fn an_outcome_for_a_row_that_does_not_execute_is_lost(subject: &Subject) {
    let (worker, waiting) = subject.parked(&["go"]).await;
    let (_, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let mut ended = subject.claim_one(worker).await;
    subject
        .store
        .terminate(vec![ended.id], Extent::One, note())
        .await
        .unwrap();
    ended.revision = ended.revision.next();
    let mut parked = ended.clone();
    parked.id = waiting;
    parked.revision = subject.get(waiting).await.revision;
    for claim in [&ended, &parked] {
        let before = subject.get(claim.id).await;
        for outcome in [
            done(),
            keep("b"),
            requeue("b"),
            again(seconds(0)),
            fan_out(tasks(1)),
        ] {
            assert_eq!(subject.try_commit(claim, outcome).await, Answer::Lost);
        }
        assert_eq!(
            subject.release(claim, seconds(1)).await,
            ReleaseAnswer::Lost
        );
        subject.assert_unchanged(&before).await;
    }
    assert_eq!(subject.get(parent.id).await.children_pending, 1);
}

/// I3.
pub async fn an_outcome_for_another_revision_is_lost(subject: &Subject) {
    let (_, mut claim) = subject.running(task()).await;
    let row = subject.get(claim.id).await;
    let revision = claim.revision;
    for wrong in [
        Revision(0),
        revision.next(),
        Revision(-1),
        Revision(i64::MAX),
    ] {
        claim.revision = wrong;
        assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    }
    subject.assert_unchanged(&row).await;
    claim.revision = revision;
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
}

pub async fn an_outcome_for_a_missing_instance_is_lost(subject: &Subject) {
    let (_, mut claim) = subject.running(task()).await;
    claim.id = outlast_core::InstanceId(987_654_321);
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
}

/// I3.
pub async fn a_claim_named_twice_in_a_batch_commits_once(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let twice = vec![commit_of(&claim, requeue("b")), commit_of(&claim, done())];
    let answers = subject.commit_all(twice).await.answers;
    let first = subject.committed(claim.revision.next(), Status::Runnable);
    assert_eq!(answers, [first, Answer::Lost]);
    assert_eq!(subject.status(claim.id).await, Status::Runnable);
}

pub async fn a_batch_may_mix_every_outcome(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(9)).await;
    let claims = subject.claim(worker, 9).await;
    let outcomes = [
        (keep("b"), Status::Executing),
        (done(), Status::Done),
        (wait_for(&["x"]), Status::AwaitingSignal),
        (requeue("b"), Status::Runnable),
        (fan_out(tasks(2)), Status::AwaitingChildren),
        (stop(), Status::Failed),
        (fan_out(vec![]), Status::Runnable),
        (cancel(), Status::Cancelled),
        (again(seconds(5)), Status::Runnable),
    ];
    let commits = claims.iter().zip(&outcomes);
    let commits = commits.map(|(claim, (outcome, _))| commit_of(claim, outcome.clone()));
    let answers = subject.commit_all(commits.collect()).await.answers;
    for ((claim, answer), (_, status)) in claims.iter().zip(answers).zip(outcomes) {
        let revision = claim.revision.next();
        assert_eq!(answer, subject.committed(revision, status));
        assert_eq!(subject.status(claim.id).await, status);
    }
}

/// Defect 12 (docs/protocol.md).
pub async fn one_bad_outcome_does_not_fail_the_rest_of_its_batch(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(5)).await;
    let claims = subject.claim(worker, 5).await;
    let bad_child = task().queue("no\u{0}queue");
    let outcomes = [
        done(),
        requeue("b\u{0}"),
        done(),
        fan_out(vec![task(), bad_child]),
        done(),
    ];
    let commits = claims.iter().zip(outcomes);
    let commits = commits.map(|(claim, outcome)| commit_of(claim, outcome));
    let answers = subject.commit_all(commits.collect()).await.answers;
    for (position, answer) in answers.iter().enumerate() {
        let rejected = matches!(answer, Answer::Rejected(_));
        assert_eq!(rejected, position % 2 == 1, "{position}: {answer:?}");
    }
    assert_eq!(subject.status(claims[4].id).await, Status::Done);
    assert_eq!(
        subject.claim_ids(worker, 10).await,
        [],
        "no child was started"
    );
}

pub async fn a_rejected_outcome_leaves_the_claim_held(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let row = subject.get(claim.id).await;
    let answer = subject.try_commit(&claim, wait_for(&[])).await;
    assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    subject.assert_unchanged(&row).await;
    assert_eq!(subject.commit(&claim, stop()).await, Status::Failed);
}

/// Defect 18 (docs/protocol.md).
pub async fn more_than_ten_thousand_outcomes_go_in_one_batch(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(12_000)).await;
    let mut claims = subject.claim(worker, 10_000).await;
    claims.extend(subject.claim(worker, 2_000).await);
    assert_eq!(claims.len(), 12_000);
    subject.finish_all(&claims).await;
    assert_eq!(subject.status(claims[0].id).await, Status::Done);
    assert_eq!(subject.status(claims[11_999].id).await, Status::Done);
}

pub async fn an_ended_instance_takes_no_further_outcome(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, done()).await;
    let row = subject.get(claim.id).await;
    let mut later = claim.clone();
    later.revision = row.revision.next();
    for claim in [&claim, &later] {
        assert_eq!(subject.try_commit(claim, stop()).await, Answer::Lost);
    }
    subject.assert_unchanged(&row).await;
}

pub async fn a_commit_hints_at_queues_with_claimable_rows(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    let claim = subject.claim_the(worker, id).await;
    let children = vec![
        task().queue("mail"),
        later(task().queue("slow"), seconds(9)),
    ];
    let commits = vec![commit_of(&claim, fan_out(children))];
    let woken = subject.commit_all(commits).await.woken;
    assert!(
        woken.contains("mail") && !woken.contains("slow"),
        "{woken:?}"
    );

    let child = subject.ask(worker, "mail", 1).await.claims.remove(0);
    subject
        .store
        .terminate(vec![], Extent::One, note())
        .await
        .unwrap();
    let retried = vec![commit_of(&child, again(seconds(0)))];
    assert!(subject.commit_all(retried).await.woken.contains("mail"));
}

pub async fn release_puts_a_claim_back_untouched(subject: &Subject) {
    let claim = retried_claim(subject).await;
    let before = subject.get(claim.id).await;
    subject.pass(seconds(30));
    assert_eq!(
        subject.release(&claim, seconds(0)).await,
        ReleaseAnswer::Released
    );
    let after = subject.get(claim.id).await;
    let expected = Instance {
        status: Status::Runnable,
        revision: before.revision.next(),
        locked_by: None,
        updated_at: subject.now(),
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(subject.inbox(claim.id).await, ["go", "other"]);
}

/// Defect 15 (docs/protocol.md).
pub async fn a_released_instance_is_claimable_after_its_pause(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.release(&claim, seconds(7)).await;
    let claimed = subject.ask(worker, QUEUE, 1).await;
    assert_eq!(claimed.claims, []);
    assert_eq!(claimed.next_due_in, Some(seconds(7)));
    subject.pass(seconds(7));
    assert_eq!(subject.claim_one(worker).await.attempt, 0);
}

/// I3.
pub async fn a_release_of_a_lost_claim_changes_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let wrong = ClaimRef {
        revision: claim.revision.next(),
        ..claim.reference()
    };
    let pause = seconds(0);
    let releases = [claim.reference(), claim.reference(), wrong];
    let releases = releases.map(|claim| outlast_core::Release { claim, pause });
    let released = subject.store.release(releases.into()).await.unwrap();
    use ReleaseAnswer::{Lost, Released};
    assert_eq!(released.answers, [Released, Lost, Lost]);
    let row = subject.get(claim.id).await;
    assert_eq!(row.revision, claim.revision.next());
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
}

pub async fn states_and_results_are_stored_verbatim(subject: &Subject) {
    let texts = [
        "null",
        "-0.0",
        "1e400",
        "18446744073709551615",
        r#"{"b":1,"a":{"b":null}}"#,
        r#"[ 1 , "\ud83d\ude00" ]"#,
        r#""ünïcödé \\u0000""#,
    ];
    let worker = subject.worker().await;
    for text in texts {
        let row = outlast_core::NewInstance::new("task", "start", json(text));
        let id = subject.insert(row).await;
        let claim = subject.claim_the(worker, id).await;
        assert_eq!(claim.state.as_str(), text);
        let outcome = Outcome::Done { result: json(text) };
        subject.commit(&claim, outcome).await;
        assert_eq!(subject.get(id).await.result, Some(json(text)));
        let (_, claim) = subject.running(task()).await;
        subject.commit(&claim, fail_with(text)).await;
        assert_eq!(subject.get(claim.id).await.result, Some(json(text)));
    }
}
