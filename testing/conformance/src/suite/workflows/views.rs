//! Views: values that are written with an outcome, read at any time, and removed with the instance.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, CollectRequest, Commit, DeleteAnswer, InstanceId, NewView, Outcome, Status,
    View, limits,
};

fn view(name: &str, data: &str) -> NewView {
    NewView {
        name: name.into(),
        data: json(data),
    }
}

/// A commit with an event, as every commit of a workflow's first run has one before it publishes.
fn publishing(claim: &Claim, outcome: Outcome, views: Vec<NewView>) -> Commit {
    Commit {
        views,
        ..commit_with(claim, outcome, events(1))
    }
}

impl Subject {
    async fn views(&self, id: InstanceId) -> Vec<View> {
        self.store.views(id, None).await.unwrap()
    }

    /// Returns the views of an instance as `name=data`.
    async fn published(&self, id: InstanceId) -> Vec<String> {
        let views = self.views(id).await.into_iter();
        let line = |view: View| format!("{}={}", view.name, view.data.as_str());
        views.map(line).collect()
    }

    async fn publish(&self, claim: &Claim, outcome: Outcome, views: Vec<NewView>) -> Answer {
        let commits = vec![publishing(claim, outcome, views)];
        self.commit_all(commits).await.answers.remove(0)
    }
}

pub async fn a_view_is_read_back_with_the_revision_and_time_of_its_outcome(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let given = [
        view("progress", r#"{"b": 1.0, "a": [1e3, "ü\u00e9\""]}"#),
        view("Zürich '; drop table views; --", "null"),
        view(&"x".repeat(limits::NAME_BYTES_MAX), "[[]]"),
    ];
    let answer = subject.publish(&claim, flow_on(), given.to_vec()).await;
    let revision = claim.revision.next();
    assert_eq!(answer, subject.committed(revision, Status::Executing));
    let progress = given[0].data.clone();
    let mut expected = given.map(|view| View {
        name: view.name,
        revision,
        at: subject.now(),
        data: view.data,
    });
    expected.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(subject.views(claim.id).await, expected);
    let one = subject.store.views(claim.id, Some("progress")).await;
    assert_eq!(one.unwrap()[0].data, progress);
    let none = subject.store.views(claim.id, Some("other")).await;
    assert_eq!(none.unwrap(), []);
}

pub async fn an_unchanged_view_keeps_its_revision_and_time(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let first = vec![view("a", "1"), view("b", "1")];
    subject.publish(&claim, flow_on(), first).await;
    subject.pass(seconds(1));
    let claim = kept(&claim);
    let second = vec![view("a", "1"), view("b", "2")];
    subject.publish(&claim, flow_on(), second).await;
    let views = subject.views(claim.id).await;
    let revisions: Vec<_> = views.iter().map(|view| view.revision).collect();
    assert_eq!(revisions, [claim.revision, claim.revision.next()]);
    assert!(views[0].at < views[1].at);
    assert_eq!(subject.published(claim.id).await, ["a=1", "b=2"]);
}

pub async fn every_outcome_of_a_workflow_can_publish(subject: &Subject) {
    let outcomes = [
        flow_on(),
        flow_requeue(),
        again(seconds(9)),
        park(for_signals(&["x"])),
        park(for_time(9)),
        start_and_park(tasks(1), for_ends(&[1], &[], 1)),
        start(tasks(1)),
        renew(),
        done(),
        stop(),
        cancel(),
    ];
    for outcome in outcomes {
        let worker = subject.worker().await;
        let id = subject.insert(task().priority(-9)).await;
        let claim = subject.claim_the(worker, id).await;
        let answer = subject
            .publish(&claim, outcome.clone(), vec![view("a", "1")])
            .await;
        assert!(matches!(answer, Answer::Committed { .. }), "{outcome:?}");
        assert_eq!(subject.published(id).await, ["a=1"], "{outcome:?}");
        subject.terminate(id).await;
        for child in subject.child_ids(id, 1).await {
            subject.terminate(child).await;
        }
        assert_eq!(subject.published(id).await, ["a=1"], "{outcome:?}");
    }
}

pub async fn a_lost_outcome_publishes_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject
        .publish(&claim, flow_on(), vec![view("a", "1")])
        .await;
    for outcome in [flow_on(), done(), renew(), park(for_time(1))] {
        let again = subject.publish(&claim, outcome, vec![view("a", "2")]).await;
        assert_eq!(again, Answer::Lost);
        assert_eq!(subject.published(claim.id).await, ["a=1"]);
    }
    // Beside the claim that holds.
    let held = publishing(&kept(&claim), flow_on(), vec![view("b", "1")]);
    let lost = publishing(&claim, flow_on(), vec![view("b", "2")]);
    subject.commit_all(vec![held, lost]).await;
    assert_eq!(subject.published(claim.id).await, ["a=1", "b=1"]);
}

pub async fn an_outcome_that_yields_to_a_cancel_publishes_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.cancel(claim.id).await;
    let parks = park(for_time(1));
    let answer = subject.publish(&claim, parks, vec![view("a", "1")]).await;
    assert!(matches!(answer, Answer::Cancel(_)), "{answer:?}");
    assert_eq!(subject.views(claim.id).await, []);
}

pub async fn a_view_that_cannot_be_stored_rejects_only_its_own_outcome(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(2)).await;
    let claims = subject.claim(worker, 2).await;
    let before = subject.get(claims[1].id).await;
    let large = format!("\"{}\"", "x".repeat(limits::VIEW_BYTES_MAX));
    let many = (0..=limits::VIEWS_MAX).map(|n| view(&format!("v{n}"), "1"));
    let bad = [
        vec![view("a\0b", "1")],
        vec![view("", "1")],
        vec![view(&"x".repeat(limits::NAME_BYTES_MAX + 1), "1")],
        vec![view("a", &large)],
        vec![view("a", "1"), view("a", "2")],
        many.collect(),
    ];
    let mut good = claims[0].clone();
    for bad in bad {
        let commits = vec![
            publishing(&good, flow_on(), vec![view("a", "1")]),
            publishing(&claims[1], flow_on(), bad),
        ];
        let answers = subject.commit_all(commits).await.answers;
        assert!(matches!(answers[0], Answer::Committed { .. }));
        assert!(matches!(answers[1], Answer::Rejected(_)), "{answers:?}");
        good = kept(&good);
    }
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.views(claims[1].id).await, []);
    // Views go with the history of their instance, so there must be one.
    let bare = Commit {
        views: vec![view("a", "1")],
        ..Commit::of(&claims[1], done())
    };
    let answers = subject.commit_all(vec![bare]).await.answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
}

pub async fn views_stay_through_new_runs_crashes_and_the_end(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let id = claim.id;
    subject.publish(&claim, renew(), vec![view("a", "1")]).await;
    let claim = subject.claim_the(worker, id).await;
    subject
        .publish(&claim, flow_on(), vec![view("b", "2")])
        .await;
    subject.pass(LEASE);
    subject.reap().await;
    assert_eq!(subject.published(id).await, ["a=1", "b=2"]);
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, id).await;
    subject.publish(&claim, done(), vec![view("a", "3")]).await;
    assert_eq!(subject.published(id).await, ["a=3", "b=2"]);
}

pub async fn views_are_removed_with_their_instance_and_not_before(subject: &Subject) {
    let worker = subject.worker().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = subject.insert(task()).await;
        let claim = subject.claim_the(worker, id).await;
        subject.publish(&claim, done(), vec![view("a", "1")]).await;
        subject.pass(seconds(1));
        ids.push(id);
    }
    let request = CollectRequest {
        retention: seconds(0),
        max: 1,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, [ids[0]]);
    let deleted = subject.store.delete(vec![ids[1]], note()).await.unwrap();
    assert_eq!(deleted, [DeleteAnswer::Deleted]);
    assert_eq!(subject.views(ids[0]).await, []);
    assert_eq!(subject.views(ids[1]).await, []);
    assert_eq!(subject.published(ids[2]).await, ["a=1"]);
}

pub async fn views_of_one_batch_are_kept_apart(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(4)).await;
    let claims = subject.claim(worker, 4).await;
    let outcomes = [flow_on(), done(), renew(), park(for_time(1))];
    let commits = claims.iter().zip(outcomes).enumerate();
    let commits = commits.map(|(n, (claim, outcome))| {
        let views = (0..n).map(|it| view(&format!("v{it}"), &n.to_string()));
        publishing(claim, outcome, views.collect())
    });
    subject.commit_all(commits.collect()).await;
    for (n, claim) in claims.iter().enumerate() {
        let expected: Vec<_> = (0..n).map(|it| format!("v{it}={n}")).collect();
        assert_eq!(subject.published(claim.id).await, expected);
    }
}
