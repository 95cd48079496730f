//! Histories: events are read back in order. Only outcomes that were written have added events.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, CollectRequest, Commit, DeleteAnswer, Event, EventKind, HistoryPosition,
    HistoryRequest, InstanceId, NewEvent, Outcome, ReapRequest, RunSummary, Status, Timestamp,
    limits,
};

/// Returns the positions of events, in the order in which they are read.
fn positions(history: &[Event]) -> Vec<i32> {
    history.iter().map(|event| event.seq).collect()
}

pub async fn events_are_numbered_from_one_over_all_commits_of_a_run(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    assert_eq!((claim.run, claim.events), (1, 0));
    let mut claim = claim;
    for (n, total) in [(2, 2), (0, 2), (3, 5)] {
        let added = events(n);
        subject.commit_events(&claim, flow_on(), added).await;
        claim = kept(&claim);
        let row = subject.get(claim.id).await;
        assert_eq!((row.run, row.events), (1, total));
    }
    let history = subject.history(claim.id, 1).await;
    assert_eq!(positions(&history), [1, 2, 3, 4, 5]);
    assert!(history.iter().all(|event| event.run == 1));
    let names = subject.event_names(claim.id, 1).await;
    assert_eq!(names, ["e0", "e1", "e0", "e1", "e2"]);
}

pub async fn a_commit_with_a_wrong_history_position_still_appends_its_events(subject: &Subject) {
    let (_, mut claim) = subject.running(task()).await;
    let position = |run, events| Some(HistoryPosition { run, events });
    for expected in [
        position(1, 0),
        position(1, 7),
        position(2, 2),
        None,
        position(1, 4),
    ] {
        let commit = Commit {
            position: expected,
            ..commit_with(&claim, flow_on(), events(1))
        };
        let committed = subject.store.commit(vec![commit].into()).await.unwrap();
        let revision = claim.revision.next();
        let written = subject.committed(revision, Status::Executing);
        assert_eq!(committed.answers, [written], "{expected:?}");
        claim = kept(&claim);
    }
    assert_eq!(
        positions(&subject.history(claim.id, 1).await),
        [1, 2, 3, 4, 5]
    );
}

pub async fn every_outcome_can_have_events(subject: &Subject) {
    let outcomes: [(Outcome, Status); 14] = [
        (keep("b"), Status::Executing),
        (requeue("b"), Status::Runnable),
        (again(seconds(9)), Status::Runnable),
        (wait_for(&["x"]), Status::AwaitingSignal),
        (fan_out(tasks(1)), Status::AwaitingChildren),
        (fan_out(Vec::new()), Status::Runnable),
        (flow_on(), Status::Executing),
        (flow_requeue(), Status::Runnable),
        (park(for_time(9)), Status::Sleeping),
        (
            start_and_park(tasks(1), for_ends(&[1], &[], 1)),
            Status::AwaitingChildren,
        ),
        (renew(), Status::Runnable),
        (done(), Status::Done),
        (stop(), Status::Failed),
        (cancel(), Status::Cancelled),
    ];
    for (outcome, status) in outcomes {
        let worker = subject.worker().await;
        let id = subject.insert(task().priority(-9)).await;
        let claim = subject.claim_the(worker, id).await;
        let run = i32::from(outcome != renew());
        let led_to = subject.commit_events(&claim, outcome, events(2)).await;
        assert_eq!(led_to, status);
        assert_eq!(subject.event_names(id, 1).await, ["e0", "e1"], "{status}");
        assert_eq!(subject.get(id).await.events, 2 * run);
        subject.terminate(id).await;
        for child in subject.child_ids(id, 1).await {
            subject.terminate(child).await;
        }
    }
}

pub async fn an_event_is_read_back_as_it_was_written(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let mut given: Vec<NewEvent> = EventKind::ALL.iter().map(|it| event(*it, "n")).collect();
    given[0].name = String::new();
    given[1].name = "Zürich '; drop table events; -- 🦀".into();
    given[2].name = "x".repeat(limits::NAME_BYTES_MAX);
    given[3].call = None;
    given[4].call = Some(i32::MAX);
    given[5].data = json("null");
    given[6].data = json(r#"{"b": 1.0, "a": [1e3, "ü\u00e9\"", {"deep": [[]]}]}"#);
    subject
        .commit_events(&claim, flow_on(), given.clone())
        .await;
    let history = subject.history(claim.id, 1).await;
    let expected: Vec<Event> = (1..)
        .zip(given)
        .map(|(seq, event)| Event {
            run: 1,
            seq,
            at: subject.now(),
            kind: event.kind,
            call: event.call,
            name: event.name,
            data: event.data,
        })
        .collect();
    assert_eq!(history, expected);
}

pub async fn an_event_has_its_own_time_or_that_of_the_commit(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let ago = subject.now() + seconds(1);
    subject.pass(seconds(5));
    let mut given = events(3);
    given[1].at = Some(ago);
    let answer = subject.try_commit_events(&claim, flow_on(), given).await;
    let revision = claim.revision.next();
    let written = subject.committed(revision, Status::Executing);
    assert_eq!(answer, written, "the answer has the time of the commit");
    let moments = subject.history(claim.id, 1).await.into_iter();
    let moments: Vec<Timestamp> = moments.map(|event| event.at).collect();
    assert_eq!(moments, [subject.now(), ago, subject.now()]);
}

/// I3.
pub async fn a_lost_outcome_writes_no_event(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let first = subject.commit_events(&claim, flow_on(), events(1)).await;
    assert_eq!(first, Status::Executing);
    for outcome in [flow_on(), keep("b"), done(), renew(), park(for_time(1))] {
        let again = subject.try_commit_events(&claim, outcome, events(2)).await;
        assert_eq!(again, Answer::Lost);
    }
    // The fence decides, whether the expected history position is right or missing.
    let now = HistoryPosition { run: 1, events: 1 };
    for position in [Some(now), None] {
        let commit = Commit {
            position,
            ..commit_with(&claim, flow_on(), events(2))
        };
        assert_eq!(
            subject.commit_all(vec![commit]).await.answers,
            [Answer::Lost]
        );
    }
    let current = kept(&claim);
    let twice = [events(1), events(2)].map(|it| commit_with(&current, flow_on(), it));
    let answers = subject.commit_all(twice.into()).await.answers;
    assert_eq!(answers[1], Answer::Lost);
    assert_eq!(subject.event_names(claim.id, 1).await, ["e0", "e0"]);
    subject.terminate(claim.id).await;
    let current = kept(&current);
    let late = subject.try_commit_events(&current, done(), events(1)).await;
    assert_eq!(late, Answer::Lost);
    assert_eq!(subject.get(claim.id).await.events, 2);
    assert_eq!(subject.history(claim.id, 1).await.len(), 2);
}

pub async fn a_bad_event_rejects_only_its_own_outcome(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(3)).await;
    let claims = subject.claim(worker, 3).await;
    let before = subject.get(claims[1].id).await;
    let good = event(EventKind::TimerFired, "t");
    let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    let named = |name: &str| event(EventKind::TimerFired, name);
    let of_call = |call| NewEvent {
        call: Some(call),
        ..good.clone()
    };
    let at = NewEvent {
        at: Some(Timestamp(i64::MAX)),
        ..good.clone()
    };
    let bad = [named("a\0b"), named(&long), of_call(0), of_call(-1), at];
    for (n, bad) in bad.into_iter().enumerate() {
        let both = vec![good.clone(), bad];
        let commits = vec![
            commit_with(&at_revision(&claims[0], n), flow_on(), events(1)),
            commit_with(&claims[1], flow_on(), both),
            commit_with(&at_revision(&claims[2], n), keep("b"), events(1)),
        ];
        let answers = subject.commit_all(commits).await.answers;
        let Answer::Rejected(invalid) = &answers[1] else {
            panic!("{:?}", answers[1]);
        };
        assert!(invalid.to_string().contains("event 1"), "{invalid}");
        assert!(matches!(answers[0], Answer::Committed { .. }));
        assert!(matches!(answers[2], Answer::Committed { .. }));
    }
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.history(claims[1].id, 1).await, []);
    assert_eq!(subject.get(claims[0].id).await.events, 5);
    assert_eq!(subject.get(claims[2].id).await.events, 5);
}

/// Returns the claim after this many outcomes that kept it.
fn at_revision(claim: &Claim, outcomes: usize) -> Claim {
    (0..outcomes).fold(claim.clone(), |claim, _| kept(&claim))
}

pub async fn an_outcome_with_too_many_events_is_rejected(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let small = |_| NewEvent {
        data: json("0"),
        ..event(EventKind::StepCompleted, "")
    };
    let many: Vec<NewEvent> = (0..=limits::EVENTS_MAX).map(small).collect();
    let answer = subject
        .try_commit_events(&claim, flow_on(), many.clone())
        .await;
    assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    assert_eq!(subject.get(claim.id).await.events, 0);
    let some = many.into_iter().take(12_345).collect();
    subject.commit_events(&claim, flow_on(), some).await;
    assert_eq!(subject.get(claim.id).await.events, 12_345);
    assert_eq!(subject.runs(claim.id).await[0].events, 12_345);
}

pub async fn a_history_is_read_page_by_page(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit_events(&claim, flow_on(), events(7)).await;
    let page = async |after, max| {
        let (id, run) = (claim.id, 1);
        let request = HistoryRequest {
            id,
            run,
            after,
            max,
        };
        positions(&subject.store.history(request).await.unwrap())
    };
    assert_eq!(page(0, 3).await, [1, 2, 3]);
    assert_eq!(page(3, 3).await, [4, 5, 6]);
    assert_eq!(page(6, 3).await, [7]);
    assert_eq!(page(7, 3).await, [0; 0]);
    assert_eq!(page(i32::MAX, 3).await, [0; 0]);
    assert_eq!(page(-5, 2).await, [1, 2]);
    assert_eq!(page(0, 0).await, [0; 0]);
    let request = HistoryRequest {
        id: claim.id,
        run: 1,
        after: 0,
        max: limits::HISTORY_PAGE_MAX + 1,
    };
    let refused = subject.store.history(request).await.unwrap_err();
    assert_eq!(refused.kind(), outlast_core::ErrorKind::Invalid);
}

pub async fn the_history_of_an_unknown_instance_or_run_is_empty(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    assert_eq!(subject.runs(claim.id).await, [], "no event is written yet");
    subject.commit_events(&claim, flow_on(), events(1)).await;
    for run in [0, 2, -1] {
        assert_eq!(subject.history(claim.id, run).await, []);
    }
    let unknown = InstanceId(claim.id.0 + 1_000_000);
    assert_eq!(subject.history(unknown, 1).await, []);
    assert_eq!(subject.runs(unknown).await, []);
}

pub async fn runs_are_summed_up_by_their_first_and_last_events(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let begun = subject.now();
    let started = vec![event(EventKind::RunStarted, "")];
    subject.commit_events(&claim, flow_on(), started).await;
    subject.pass(seconds(3));
    let renewed = vec![
        event(EventKind::TimerFired, "t"),
        event(EventKind::ContinuedAsNew, ""),
    ];
    subject.commit_events(&kept(&claim), renew(), renewed).await;
    let first = RunSummary {
        run: 1,
        events: 3,
        started_at: begun,
        last_at: subject.now(),
        last: EventKind::ContinuedAsNew,
    };
    assert_eq!(
        subject.runs(claim.id).await[..],
        *std::slice::from_ref(&first)
    );
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.run, claim.events), (2, 0));
    let mut ended = vec![event(EventKind::RunCompleted, "")];
    ended[0].at = Some(begun);
    subject.commit_events(&claim, done(), ended).await;
    let second = RunSummary {
        run: 2,
        events: 1,
        started_at: begun,
        last_at: begun,
        last: EventKind::RunCompleted,
    };
    assert_eq!(subject.runs(claim.id).await, [first, second]);
}

pub async fn every_claim_has_the_run_and_length_of_its_history(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject
        .commit_events(&claim, park(for_signals(&["go"])), events(3))
        .await;
    let delivered = subject
        .deliver_for(worker, vec![signal(claim.id, "go")])
        .await;
    let taken = &delivered.claims[0];
    assert_eq!((taken.run, taken.events), (1, 3));
    subject.release(taken, seconds(0)).await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.run, claim.events), (1, 3));
    let inserted = subject.store.insert(tasks(1), Some(worker)).await.unwrap();
    let id = inserted.rows[0].new_id().unwrap();
    let row = subject.get(id).await;
    assert_eq!((row.run, row.events, row.joining), (1, 0, None));
}

pub async fn releases_and_crashes_leave_the_history_unchanged(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject
        .commit_events(&claim, flow_requeue(), events(2))
        .await;
    let history = subject.history(claim.id, 1).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.release(&claim, seconds(0)).await;
    subject.claim_the(worker, claim.id).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.events, claim.crashes), (2, 1));
    assert_eq!(subject.history(claim.id, 1).await, history);
    subject.pass(LEASE);
    let request = ReapRequest {
        max: 10,
        crashes_max: 0,
    };
    subject.store.reap(request).await.unwrap();
    assert_eq!(subject.status(claim.id).await, Status::Failed);
    assert_eq!(subject.history(claim.id, 1).await, history);
}

pub async fn a_workflow_ends_with_its_error_value(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    let children = start_and_park(tasks(2), for_ends(&[1], &[], 2));
    subject.commit(&parent, children).await;
    let claims = subject.claim(worker, 2).await;
    let ends = [fail_with(r#"{"paper":0}"#), stop()];
    for (claim, end) in claims.iter().zip(ends) {
        subject.commit_events(claim, end, events(1)).await;
        assert_eq!(positions(&subject.history(claim.id, 1).await), [1]);
    }
    let children = subject.store.children(parent.id, Some(1), None).await;
    let children = children.unwrap();
    let results: Vec<_> = children.iter().map(|it| it.result.clone()).collect();
    assert_eq!(results, [Some(json(r#"{"paper":0}"#)), None]);
    assert!(children.iter().all(|it| it.status == Status::Failed));
}

pub async fn an_operators_retry_goes_on_with_the_history(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit_events(&claim, renew(), events(1)).await;
    let claim = subject.claim_the(worker, claim.id).await;
    subject.commit_events(&claim, stop(), events(2)).await;
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    let claim = subject.claim_the(worker, claim.id).await;
    assert_eq!((claim.run, claim.events), (2, 2));
    subject.commit_events(&claim, done(), events(1)).await;
    let history = subject.history(claim.id, 2).await;
    assert_eq!(positions(&history), [1, 2, 3]);
}

/// Removing an instance removes the events of every run.
pub async fn a_history_is_removed_with_its_instance_and_not_before(subject: &Subject) {
    let worker = subject.worker().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = subject.insert(task()).await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit_events(&claim, renew(), events(2)).await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit_events(&claim, done(), events(3)).await;
        subject.pass(seconds(1));
        ids.push(id);
    }
    let lengths = async |id| {
        let runs = subject.runs(id).await.into_iter();
        runs.map(|run| run.events).collect::<Vec<i32>>()
    };
    assert_eq!(lengths(ids[0]).await, [2, 3], "the end keeps the histories");
    let request = CollectRequest {
        retention: seconds(0),
        max: 1,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, [ids[0]]);
    let deleted = subject.store.delete(vec![ids[1]], note()).await.unwrap();
    assert_eq!(deleted, [DeleteAnswer::Deleted]);
    for id in &ids[..2] {
        assert_eq!(lengths(*id).await, [0; 0]);
        assert_eq!(subject.history(*id, 1).await, []);
        assert_eq!(subject.history(*id, 2).await, []);
    }
    assert_eq!(lengths(ids[2]).await, [2, 3]);
    let history = subject.history(ids[2], 2).await;
    assert_eq!(positions(&history), [1, 2, 3]);
}

pub async fn histories_of_one_batch_are_kept_apart(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(4)).await;
    let claims = subject.claim(worker, 4).await;
    let outcomes = [flow_on(), done(), renew(), keep("b")];
    let commits = claims.iter().zip(outcomes).enumerate();
    let commits = commits.map(|(n, (claim, outcome))| commit_with(claim, outcome, events(n)));
    subject.commit_all(commits.collect()).await;
    for (n, claim) in claims.iter().enumerate() {
        let history = subject.history(claim.id, 1).await;
        assert_eq!(history.len(), n);
    }
}

/// Makes the event that a machine with a history adds with each outcome.
fn transition(step: &str) -> Vec<NewEvent> {
    vec![NewEvent {
        call: None,
        ..event(EventKind::Transitioned, step)
    }]
}

/// The history goes on through kept, released and new claims.
pub async fn a_machine_has_one_history_through_waits_joins_and_crashes(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let id = claim.id;
    let record = async |claim: &Claim, outcome, step: &str| {
        subject
            .commit_events(claim, outcome, transition(step))
            .await
    };
    record(&claim, keep("b"), "a").await;
    record(&kept(&claim), requeue("c"), "b").await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.run, claim.events), (1, 2));
    record(&claim, again(seconds(0)), "c").await;
    let claim = subject.claim_the(worker, id).await;
    let parked = record(&claim, wait_for(&["go"]), "c").await;
    assert_eq!(parked, Status::AwaitingSignal);
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    let claim = &delivered.claims[0];
    assert_eq!((claim.attempt, claim.events), (1, 4));
    let joins = record(claim, fan_out(tasks(1)), "d").await;
    assert_eq!(joins, Status::AwaitingChildren);
    let children = subject.claim(worker, 10).await;
    subject.finish_all(&children).await;
    subject.claim_the(worker, id).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.crashes, claim.events), (1, 5));
    record(&claim, done(), "e").await;
    assert_eq!(
        subject.event_names(id, 1).await,
        ["a", "b", "c", "c", "d", "e"]
    );
    let history = subject.history(id, 1).await;
    assert_eq!(positions(&history), [1, 2, 3, 4, 5, 6]);
    let runs = subject.runs(id).await;
    assert_eq!(runs[0].last, EventKind::Transitioned);
}

/// The event records the decided outcome. The next event shows that it led elsewhere.
pub async fn an_outcome_with_a_pending_cancel_is_recorded_once(subject: &Subject) {
    let outcomes = [wait_for(&["x"]), fan_out(tasks(2)), again(seconds(9))];
    for outcome in outcomes {
        let (worker, claim) = subject.running(task()).await;
        subject.cancel(claim.id).await;
        let status = subject
            .commit_events(&claim, outcome, transition("a"))
            .await;
        assert_eq!(status, Status::Runnable);
        assert_eq!(subject.event_names(claim.id, 1).await, ["a"]);
        let claim = subject.claim_the(worker, claim.id).await;
        assert!(claim.is_to_answer_cancel());
        assert_eq!(claim.events, 1);
        let status = subject
            .commit_events(&claim, cancel(), transition("b"))
            .await;
        assert_eq!(status, Status::Cancelled);
        assert_eq!(subject.event_names(claim.id, 1).await, ["a", "b"]);
    }
}

pub async fn one_commit_may_mix_instances_with_and_without_a_history(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(8)).await;
    let claims = subject.claim(worker, 8).await;
    let outcomes = [keep("b"), requeue("b"), wait_for(&["x"]), done()];
    let commits = claims.iter().zip(outcomes.iter().cycle()).enumerate();
    let commits = commits.map(|(n, (claim, outcome))| {
        let events = if n < 4 { transition("a") } else { Vec::new() };
        commit_with(claim, outcome.clone(), events)
    });
    let mut commits: Vec<_> = commits.collect();
    // One of the claims is lost.
    commits[1].claim.revision = commits[1].claim.revision.next();
    let answers = subject.commit_all(commits).await.answers;
    for (n, (claim, answer)) in claims.iter().zip(answers).enumerate() {
        let is_lost = answer == Answer::Lost;
        assert_eq!(is_lost, n == 1, "{answer:?}");
        let written = i32::from(n < 4 && n != 1);
        assert_eq!(subject.get(claim.id).await.events, written);
        assert_eq!(subject.history(claim.id, 1).await.len(), written as usize);
    }
}
