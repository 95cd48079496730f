//! The operators' verbs: terminate, retry, delete, pause, resume. Each records an operation.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, DeleteAnswer, Instance, InstanceId, Note, Operation, OperationId, ReapRequest,
    RetryAnswer, Status, TerminateAnswer, Verb, WorkerId,
};

async fn terminate_one(subject: &Subject, id: InstanceId) -> TerminateAnswer {
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap()
        .answers[0]
}

async fn retry_one(subject: &Subject, id: InstanceId) -> RetryAnswer {
    subject.store.retry(vec![id], note()).await.unwrap().answers[0]
}

async fn delete_one(subject: &Subject, id: InstanceId) -> DeleteAnswer {
    subject.store.delete(vec![id], note()).await.unwrap()[0]
}

async fn operations(subject: &Subject, id: InstanceId) -> Vec<Operation> {
    let mut operations = subject.store.operations(Some(id)).await.unwrap();
    // The store chooses the ids.
    operations.iter_mut().for_each(|it| it.id = OperationId(0));
    operations
}

/// Makes one instance in each status, in the order of an instance's life.
async fn one_of_each(subject: &Subject) -> (WorkerId, Vec<InstanceId>) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(Status::ALL.len())).await;
    let claims: Vec<Claim> = subject.claim(worker, ids.len()).await;
    let outcomes = [
        Some(again(seconds(1_000))),
        None,
        Some(wait_at_most(&["x"], seconds(9))),
        Some(wait_at_most(&[], seconds(9))),
        Some(fan_out(vec![task().queue("elsewhere")])),
        Some(done()),
        Some(stop()),
        Some(cancel()),
    ];
    for (claim, outcome) in claims.iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            subject.commit(claim, outcome).await;
        }
    }
    for (id, status) in ids.iter().zip(Status::ALL) {
        assert_eq!(subject.status(*id).await, status);
    }
    (worker, ids)
}

pub async fn terminate_ends_live_instances_only(subject: &Subject) {
    let (_, ids) = one_of_each(subject).await;
    subject.pass(seconds(1));
    for (id, status) in ids.into_iter().zip(Status::ALL) {
        let before = subject.get(id).await;
        let answer = terminate_one(subject, id).await;
        if status.is_terminal() {
            assert_eq!(answer, TerminateAnswer::AlreadyEnded(status));
            subject.assert_unchanged(&before).await;
            assert_eq!(operations(subject, id).await, []);
            continue;
        }
        assert_eq!(answer, TerminateAnswer::Terminated(status));
        let expected = Instance {
            status: Status::Cancelled,
            revision: before.revision.next(),
            last_error: Some("terminated by ada: a rule asks for it".into()),
            locked_by: None,
            awaits: None,
            await_deadline: None,
            updated_at: subject.now(),
            finished_at: Some(subject.now()),
            ..before
        };
        assert_eq!(subject.get(id).await, expected);
    }
}

/// I3: the fence drops the outcome of a step that is still running.
pub async fn the_outcome_of_a_terminated_step_is_lost(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    terminate_one(subject, claim.id).await;
    let row = subject.get(claim.id).await;
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    subject.assert_unchanged(&row).await;
}

pub async fn terminating_a_child_empties_its_inbox_and_wakes_its_parent(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(1))).await;
    let child = subject.claim_one(worker).await;
    subject.arrives(signal(child.id, "a")).await;
    let cancelled = subject
        .store
        .terminate(vec![child.id], Extent::One, note())
        .await
        .unwrap();
    assert!(cancelled.woken.contains(QUEUE));
    assert_eq!(subject.signals(child.id).await, []);
    assert_eq!(subject.status(parent.id).await, Status::Runnable);
}

pub async fn a_repeated_terminate_is_recorded_once(subject: &Subject) {
    let id = subject.insert(task()).await;
    subject.pass(seconds(3));
    let expected = TerminateAnswer::Terminated(Status::Runnable);
    assert_eq!(terminate_one(subject, id).await, expected);
    subject.pass(seconds(3));
    let expected = TerminateAnswer::AlreadyEnded(Status::Cancelled);
    assert_eq!(terminate_one(subject, id).await, expected);
    let record = Operation {
        id: OperationId(0),
        cause: None,
        verb: Verb::Terminate,
        instance: Some(id),
        queue: None,
        by: "ada".into(),
        reason: Some("a rule asks for it".into()),
        status_before: Some(Status::Runnable),
        at: subject.now() - seconds(3),
    };
    assert_eq!(operations(subject, id).await, [record]);
}

pub async fn a_batch_of_terminates_answers_in_the_callers_order(subject: &Subject) {
    let ids = subject.insert_all(tasks(2)).await;
    let missing = InstanceId(987_654_321);
    let batch = vec![ids[1], missing, ids[0], ids[1]];
    let answers = subject
        .store
        .terminate(batch, Extent::One, note())
        .await
        .unwrap()
        .answers;
    let expected = [
        TerminateAnswer::Terminated(Status::Runnable),
        TerminateAnswer::NotFound,
        TerminateAnswer::Terminated(Status::Runnable),
        TerminateAnswer::AlreadyEnded(Status::Cancelled),
    ];
    assert_eq!(answers, expected);
    assert_eq!(operations(subject, ids[1]).await.len(), 1);
}

/// A parent terminated in the same verb no longer waits, so its children count for no join.
pub async fn parent_and_children_are_terminated_in_one_verb(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let children = subject.claim_ids(worker, 2).await;
    let all = vec![children[1], parent.id, children[0]];
    subject
        .store
        .terminate(all.clone(), Extent::One, note())
        .await
        .unwrap();
    for id in all {
        assert_eq!(subject.status(id).await, Status::Cancelled);
    }
    assert_eq!(subject.get(parent.id).await.children_pending, 2);
}

/// Defect 5 (docs/protocol.md).
pub async fn siblings_terminated_in_one_verb_all_count(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(20))).await;
    let children = subject.claim_ids(worker, 20).await;
    subject
        .store
        .terminate(children, Extent::One, note())
        .await
        .unwrap();
    let joined = subject.claim_the(worker, parent.id).await;
    assert_eq!(joined.children.len(), 20);
}

pub async fn retry_restarts_failed_and_cancelled_instances_only(subject: &Subject) {
    let (_, ids) = one_of_each(subject).await;
    subject.pass(seconds(1));
    for (id, status) in ids.into_iter().zip(Status::ALL) {
        let before = subject.get(id).await;
        let answer = retry_one(subject, id).await;
        if !matches!(status, Status::Failed | Status::Cancelled) {
            assert_eq!(answer, RetryAnswer::NotEndedBadly(status));
            subject.assert_unchanged(&before).await;
            continue;
        }
        assert_eq!(answer, RetryAnswer::Retried);
        let expected = Instance {
            status: Status::Runnable,
            revision: before.revision.next(),
            eligible_at: subject.now(),
            updated_at: subject.now(),
            finished_at: None,
            ..before.clone()
        };
        assert_eq!(subject.get(id).await, expected);
        assert!(before.last_error.is_some(), "the error is kept");
        let record = &operations(subject, id).await[0];
        assert_eq!(record.verb, Verb::Retry);
        assert_eq!(record.status_before, Some(status));
    }
}

pub async fn retry_resets_the_attempts(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, again(seconds(0))).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit(&claim, stop()).await;
    assert_eq!(subject.get(claim.id).await.attempt, 1);
    let retried = subject.store.retry(vec![claim.id], note()).await.unwrap();
    assert!(retried.woken.contains(QUEUE));
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.attempt, claim.crashes), (0, 0));
    assert_eq!((claim.step.as_str(), claim.awaits.len()), ("start", 0));
}

/// The error value belongs to the end that the retry undoes, and to no later end.
pub async fn retry_clears_the_error_value(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let id = claim.id;
    let retried = async |failed: &Claim, event_count: usize| {
        let value = fail_with(r#"{"paper":0}"#);
        subject
            .commit_events(failed, value, events(event_count))
            .await;
        assert!(subject.get(id).await.result.is_some());
        assert_eq!(retry_one(subject, id).await, RetryAnswer::Retried);
        let row = subject.get(id).await;
        assert_eq!((row.status, row.result), (Status::Runnable, None));
        subject.claim_the(worker, id).await
    };
    let claim = retried(&claim, 0).await;
    subject.commit(&claim, stop()).await;
    assert_eq!(subject.get(id).await.result, None, "after a failure");
    retry_one(subject, id).await;
    let claim = subject.claim_the(worker, id).await;

    let claim = retried(&claim, 1).await;
    subject.commit_events(&claim, stop(), events(1)).await;
    assert_eq!(subject.get(id).await.result, None, "in a workflow");
    retry_one(subject, id).await;
    let claim = subject.claim_the(worker, id).await;

    retried(&claim, 0).await;
    terminate_one(subject, id).await;
    assert_eq!(subject.get(id).await.result, None, "after a terminate");
    retry_one(subject, id).await;
    let claim = subject.claim_the(worker, id).await;

    retried(&claim, 0).await;
    subject.pass(LEASE);
    let request = ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    let reaped = subject.store.reap(request).await.unwrap();
    assert_eq!(reaped.failed, [id]);
    assert_eq!(subject.get(id).await.result, None, "after a crash");
}

pub async fn a_second_retry_changes_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, stop()).await;
    let batch = vec![claim.id, InstanceId(987_654_321), claim.id];
    let answers = subject.store.retry(batch, note()).await.unwrap().answers;
    let refused = RetryAnswer::NotEndedBadly(Status::Runnable);
    let expected = [RetryAnswer::Retried, RetryAnswer::NotFound, refused];
    assert_eq!(answers, expected);
    assert_eq!(operations(subject, claim.id).await.len(), 1);
}

/// I3: an outcome from before the end must not be written after a retry.
pub async fn a_claim_from_before_the_end_is_lost_after_a_retry(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    terminate_one(subject, claim.id).await;
    retry_one(subject, claim.id).await;
    assert_eq!(subject.try_commit(&claim, done()).await, Answer::Lost);
    assert_eq!(subject.status(claim.id).await, Status::Runnable);
}

pub async fn delete_removes_ended_instances_only(subject: &Subject) {
    let (_, ids) = one_of_each(subject).await;
    for (id, status) in ids.into_iter().zip(Status::ALL) {
        let answer = delete_one(subject, id).await;
        let stored = subject.store.get(id).await.unwrap().is_some();
        if status.is_terminal() {
            assert_eq!((answer, stored), (DeleteAnswer::Deleted, false));
            assert_eq!(delete_one(subject, id).await, DeleteAnswer::NotFound);
        } else {
            assert_eq!((answer, stored), (DeleteAnswer::NotEnded(status), true));
        }
    }
}

pub async fn a_delete_removes_signals_and_records_but_is_itself_recorded(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "a").dedup_key("k")).await;
    terminate_one(subject, claim.id).await;
    subject.pass(seconds(5));
    delete_one(subject, claim.id).await;
    assert_eq!(subject.signals(claim.id).await, []);
    let record = Operation {
        id: OperationId(0),
        cause: None,
        verb: Verb::Delete,
        instance: Some(claim.id),
        queue: None,
        by: "ada".into(),
        reason: Some("a rule asks for it".into()),
        status_before: Some(Status::Cancelled),
        at: subject.now(),
    };
    assert_eq!(operations(subject, claim.id).await, [record]);
}

/// Defect 6 (docs/protocol.md).
pub async fn a_child_of_a_living_parent_is_not_deleted(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let children = subject.claim(worker, 2).await;
    subject.commit(&children[0], done()).await;
    let refused = DeleteAnswer::ParentLives(parent.id);
    assert_eq!(delete_one(subject, children[0].id).await, refused);
    terminate_one(subject, parent.id).await;
    assert_eq!(
        delete_one(subject, children[0].id).await,
        DeleteAnswer::Deleted
    );
}

pub async fn a_deleted_id_is_not_given_again(subject: &Subject) {
    let id = subject.insert(task()).await;
    terminate_one(subject, id).await;
    delete_one(subject, id).await;
    assert!(subject.insert(task()).await > id);
}

pub async fn pause_and_resume_say_whether_they_changed_anything(subject: &Subject) {
    let store = &subject.store;
    assert!(!store.resume("mail", note()).await.unwrap());
    assert!(store.pause("mail", note()).await.unwrap());
    assert!(!store.pause("mail", note()).await.unwrap());
    subject.pass(seconds(1));
    assert!(store.resume("mail", note()).await.unwrap());
    let records = store.operations(None).await.unwrap();
    let verbs: Vec<Verb> = records.iter().map(|record| record.verb).collect();
    assert_eq!(verbs, [Verb::Resume, Verb::Pause], "newest first");
    assert_eq!(records[0].queue.as_deref(), Some("mail"));
    assert_eq!(
        (records[0].instance, records[0].status_before),
        (None, None)
    );
}

pub async fn a_running_step_goes_on_in_a_paused_queue(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.store.pause(QUEUE, note()).await.unwrap();
    let kept = subject.try_commit(&claim, keep("b")).await;
    let revision = claim.revision.next();
    let status = Status::Executing;
    assert_eq!(kept, subject.committed(revision, status));
    let mut claim = claim;
    claim.revision = revision;
    assert_eq!(subject.commit(&claim, done()).await, Status::Done);
}

pub async fn pausing_one_queue_does_not_pause_another(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    subject.store.pause("mail", note()).await.unwrap();
    assert_eq!(subject.claim_ids(worker, 1).await, [id]);
}

pub async fn a_note_without_a_reason_is_accepted(subject: &Subject) {
    let id = subject.insert(task()).await;
    let note = Note::by("grace");
    subject
        .store
        .terminate(vec![id], Extent::One, note)
        .await
        .unwrap();
    let row = subject.get(id).await;
    assert_eq!(row.last_error.as_deref(), Some("terminated by grace"));
    let record = &operations(subject, id).await[0];
    assert_eq!((record.by.as_str(), &record.reason), ("grace", &None));
}
