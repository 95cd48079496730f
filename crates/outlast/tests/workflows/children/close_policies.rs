//! Close policies: what happens to children whose workflow ends before they do.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind, Verb};
use outlast::testing::Harness;
use outlast::workflow::{ExportedRun, PolicyApplied, TimelineEntry};
use outlast::{Note, Status};

on_both_stores!(
    close_policies_apply_when_the_workflow_is_done,
    close_policies_apply_when_the_workflow_fails,
    close_policies_apply_when_the_workflow_is_cancelled,
    close_policies_apply_when_the_workflow_is_terminated,
    close_policies_apply_to_the_children_of_a_group,
    the_call_records_the_close_policy_and_the_parent_the_close_action,
    a_timeline_ends_with_the_applied_close_policies,
    a_timeline_is_the_same_page_by_page,
    an_applied_close_policy_names_the_run_that_started_the_child,
    the_error_of_a_child_names_the_end_of_its_parent_that_ended_it,
    a_terminate_of_a_tree_is_not_recorded_as_a_close_policy,
    a_retried_workflow_keeps_the_applied_policies_of_each_run,
    close_policies_leave_ended_children_alone,
    a_child_cancelled_by_its_close_policy_may_clean_up,
);

const POLICIES: [ClosePolicy; 3] = [
    ClosePolicy::Abandon,
    ClosePolicy::RequestCancel,
    ClosePolicy::Terminate,
];

/// A workflow that starts one child with each policy, waits for [`Halt`], and ends as `ends` says.
fn leaves(ends: &'static str) -> Script {
    script(move |flow, _| async move {
        for policy in POLICIES {
            flow.spawn(Kid::with(Say::Wait).on_parent_close(policy))
                .await?;
        }
        flow.signal::<Halt>().await?;
        match ends {
            "done" => Ok(()),
            _ => flow.fail("failed"),
        }
    })
}

async fn parked(ground: &Ground, ends: &'static str) -> (Harness, Scripted) {
    let mut harness = ground.runs(leaves(ends)).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal; 3]);
    (harness, id)
}

async fn check_close_policies(mut harness: Harness, id: Scripted, ended: Status) {
    harness.run().await;
    assert_eq!(get(&harness, id).await.status, ended);
    let expected = [Status::AwaitingSignal, Status::Cancelled, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    let errors = children(&harness, id).await;
    let errors: Vec<_> = errors.iter().map(|it| it.last_error.clone()).collect();
    let asked = errors[1].as_deref().unwrap();
    let ended_by = errors[2].as_deref().unwrap();
    assert!(!asked.contains("terminated"), "{asked}");
    assert!(ended_by.starts_with("terminated by parent"), "{ended_by}");
    // The abandoned child goes on by itself.
    let left = children(&harness, id).await[0].id;
    go(&harness, left, 1).await;
    harness.run().await;
    assert_eq!(get(&harness, left).await.status, Status::Done);
}

async fn close_policies_apply_when_the_workflow_is_done(ground: Ground) {
    let (harness, id) = parked(&ground, "done").await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    check_close_policies(harness, id, Status::Done).await;
}

async fn close_policies_apply_when_the_workflow_fails(ground: Ground) {
    let (harness, id) = parked(&ground, "failed").await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    check_close_policies(harness, id, Status::Failed).await;
}

async fn close_policies_apply_when_the_workflow_is_cancelled(ground: Ground) {
    let (harness, id) = parked(&ground, "done").await;
    harness.client().admin().cancel(id, ada()).await.unwrap();
    check_close_policies(harness, id, Status::Cancelled).await;
}

async fn close_policies_apply_when_the_workflow_is_terminated(ground: Ground) {
    let (harness, id) = parked(&ground, "done").await;
    harness.client().admin().terminate(id, ada()).await.unwrap();
    check_close_policies(harness, id, Status::Cancelled).await;
}

async fn close_policies_apply_to_the_children_of_a_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = POLICIES.map(|policy| flow.run(Kid::with(Say::Wait).on_parent_close(policy)));
        let machine = Turnstile::with(Turn::Wait(1)).on_parent_close(ClosePolicy::Terminate);
        let machine = flow.run(machine);
        let broken = flow.run(Kid::with(Say::WaitThenFail("broken".into())));
        flow.all((kids, flow.all((machine,)), broken)).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[4].id, 1).await;
    harness.run().await;
    assert_eq!(reason(&get(&harness, id).await), "kid failed: broken");
    let cancelled = Status::Cancelled;
    let expected = [
        Status::AwaitingSignal,
        cancelled,
        cancelled,
        cancelled,
        Status::Failed,
    ];
    assert_eq!(statuses(&harness, id).await, expected);
}

async fn the_call_records_the_close_policy_and_the_parent_the_close_action(ground: Ground) {
    let (mut harness, id) = parked(&ground, "done").await;
    let events = history(&harness, id, 1).await;
    let scheduled = events
        .iter()
        .filter(|it| it.kind == EventKind::ChildScheduled);
    let policies: Vec<_> = scheduled
        .map(|it| data(it)["on_parent_close"].clone())
        .collect();
    assert_eq!(policies, ["abandon", "request_cancel", "terminate"]);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let kids = children(&harness, id).await;
    let close_actions = harness
        .client()
        .admin()
        .close_actions(id.get(), None)
        .await
        .unwrap();
    let mut close_actions: Vec<_> = close_actions
        .iter()
        .map(|it| (it.instance, it.verb))
        .collect();
    close_actions.sort_by_key(|(instance, _)| *instance);
    let expected = [
        (Some(kids[1].id), Verb::Cancel),
        (Some(kids[2].id), Verb::Terminate),
    ];
    assert_eq!(close_actions, expected);
}

/// Returns the whole timeline of a run.
async fn timeline(harness: &Harness, id: Scripted, run: i32) -> Vec<TimelineEntry> {
    let row = get(harness, id).await;
    harness
        .client()
        .admin()
        .timeline(&row, run, 0, 1_000)
        .await
        .unwrap()
        .rows
}

async fn policies(harness: &Harness, id: Scripted, run: i32) -> Vec<PolicyApplied> {
    let entries = timeline(harness, id, run).await.into_iter();
    let policies = entries.filter_map(|entry| match entry {
        TimelineEntry::Event(_) => None,
        TimelineEntry::PolicyApplied(policy) => Some(policy),
    });
    policies.collect()
}

async fn a_timeline_ends_with_the_applied_close_policies(ground: Ground) {
    let (mut harness, id) = parked(&ground, "done").await;
    assert_eq!(policies(&harness, id, 1).await, []);
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let kids = children(&harness, id).await;
    let events = history(&harness, id, 1).await;
    let mut applied = policies(&harness, id, 1).await;
    let places: Vec<i32> = applied.iter().map(|it| it.seq).collect();
    let last = events.last().unwrap();
    assert_eq!(places, [last.seq + 1, last.seq + 2]);
    assert!(applied.iter().all(|it| it.at >= last.at));
    applied.sort_by_key(|it| it.child);
    let calls = [2, 3].map(|call| {
        let scheduled = events.iter().find(|it| it.call == Some(call));
        (call, scheduled.unwrap().seq)
    });
    for (index, (it, (call, seq))) in applied.iter().zip(calls).enumerate() {
        assert_eq!(it.child, kids[index + 1].id);
        assert_eq!(it.policy, POLICIES[index + 1]);
        assert_eq!(it.status_before, Some(Status::AwaitingSignal));
        assert_eq!(it.reason, format!("parent {} ended as done", id.get()));
        assert_eq!(it.call_in(1), Some(call));
        let origin = it.origin.as_ref().unwrap();
        assert_eq!(
            (origin.seq, &*origin.name, origin.kind),
            (seq, "kid", "child")
        );
    }
}

async fn a_timeline_is_the_same_page_by_page(ground: Ground) {
    let (mut harness, id) = parked(&ground, "failed").await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let row = get(&harness, id).await;
    let whole = timeline(&harness, id, 1).await;
    let kinds: Vec<_> = whole.iter().rev().map(TimelineEntry::kind).collect();
    assert_eq!(
        kinds[..3],
        ["policy_applied", "policy_applied", "run_failed"]
    );
    for size in [1, 2, 3, 7] {
        let mut pages = Vec::new();
        loop {
            let after = pages.last().map_or(0, TimelineEntry::seq);
            let page = harness
                .client()
                .admin()
                .timeline(&row, 1, after, size)
                .await
                .unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= size);
            pages.extend(page);
        }
        assert_eq!(pages, whole, "in pages of {size}");
    }
    // The exported document lists the policies apart from the events that a replay compares.
    let exported = harness
        .client()
        .admin()
        .export(id, None)
        .await
        .unwrap()
        .unwrap();
    let document = serde_json::to_string(&exported).unwrap();
    let read = ExportedRun::parse(&document).unwrap();
    assert_eq!(read.events.len(), whole.len() - 2);
    let exported: Vec<_> = read.policies.iter().map(|it| (it.seq, it.child)).collect();
    let applied = policies(&harness, id, 1).await;
    let expected: Vec<_> = applied.iter().map(|it| (it.seq, it.child)).collect();
    assert_eq!(exported, expected);
    assert!(read.policies.iter().all(|it| it.kind == "policy_applied"));
    let calls: Vec<_> = read.policies.iter().map(|it| (it.run, it.call)).collect();
    assert!(calls.contains(&(Some(1), Some(2))) && calls.contains(&(Some(1), Some(3))));
}

async fn an_applied_close_policy_names_the_run_that_started_the_child(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let kid = Kid::with(Say::Wait).on_parent_close(ClosePolicy::Terminate);
        flow.spawn(kid).await?;
        match input.as_u64().unwrap() {
            0 => Ok(()),
            left => flow.continue_as_new(left - 1),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    assert_eq!(policies(&harness, id, 1).await, []);
    let applied = policies(&harness, id, 2).await;
    let mut of: Vec<_> = applied.iter().map(|it| it.call_in(2)).collect();
    of.sort();
    assert_eq!(of, [None, Some(1)]);
    let earlier = applied.iter().find(|it| it.call_in(2).is_none()).unwrap();
    let origin = earlier.origin.as_ref().unwrap();
    assert_eq!((origin.run, origin.call), (1, 1));
    assert_eq!(earlier.child, children(&harness, id).await[0].id);
}

async fn the_error_of_a_child_names_the_end_of_its_parent_that_ended_it(ground: Ground) {
    let (mut harness, id) = parked(&ground, "failed").await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let end = format!("by parent: parent {} ended as failed", id.get());
    let (cancelled, terminated) = (format!("cancelled {end}"), format!("terminated {end}"));
    let kids = children(&harness, id).await;
    let kid = get(&harness, kids[1].id).await;
    assert_eq!(kid.cancel.as_ref().unwrap().reason, cancelled);
    assert_eq!(kid.last_error.as_ref(), Some(&cancelled));
    let events = history(&harness, kids[1].id, 1).await;
    let recorded = data(only_event(&events, EventKind::CancelRequested))["reason"].clone();
    assert_eq!(recorded, cancelled);
    let kid = get(&harness, kids[2].id).await;
    assert_eq!(kid.last_error, Some(terminated));
}

async fn a_terminate_of_a_tree_is_not_recorded_as_a_close_policy(ground: Ground) {
    let (mut harness, id) = parked(&ground, "done").await;
    // The note has the words of a close policy, but its author is ada.
    let end = format!("parent {} ended as cancelled", id.get());
    let note = Note::by("ada").because(&end);
    harness
        .client()
        .admin()
        .terminate_tree(id, note)
        .await
        .unwrap();
    harness.run().await;
    // The end of the workflow applies its policies too, and they may come first. The error of each
    // child says which of the two has ended it.
    let mut by_policy = Vec::new();
    for kid in children(&harness, id).await {
        let row = get(&harness, kid.id).await;
        assert_eq!(row.status, Status::Cancelled);
        let asked = row.cancel.map(|it| it.reason).unwrap_or_default();
        let ended = row.last_error.unwrap();
        if asked.starts_with("cancelled by parent") || ended.starts_with("terminated by parent") {
            by_policy.push(kid.id);
        } else {
            assert_eq!(ended, format!("terminated by ada: {end}"));
        }
    }
    let left_alone = children(&harness, id).await[0].id;
    assert!(!by_policy.contains(&left_alone), "its policy is to abandon");
    let applied = policies(&harness, id, 1).await;
    let mut applied: Vec<_> = applied.iter().map(|it| it.child).collect();
    applied.sort_unstable();
    assert_eq!(applied, by_policy);
}

async fn a_retried_workflow_keeps_the_applied_policies_of_each_run(ground: Ground) {
    let (mut harness, id) = parked(&ground, "failed").await;
    for _ in 0..2 {
        harness.client().signal(id, Halt(0)).await.unwrap();
        harness.run().await;
        harness.advance(Duration::from_secs(1)).await;
        harness.client().admin().retry(id, ada()).await.unwrap();
        harness.run().await;
    }
    let row = get(&harness, id).await;
    assert_eq!((row.run, row.status), (3, Status::AwaitingSignal));
    for run in [1, 2] {
        let applied = policies(&harness, id, run).await;
        let mut calls: Vec<_> = applied.iter().map(|it| it.call_in(run)).collect();
        calls.sort();
        assert_eq!(calls, [Some(2), Some(3)], "run {run}");
    }
    assert_eq!(policies(&harness, id, 3).await, []);
}

async fn close_policies_leave_ended_children_alone(ground: Ground) {
    let (mut harness, id) = parked(&ground, "done").await;
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
    }
    harness.run().await;
    harness.client().signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 3]);
    assert!(
        harness
            .client()
            .admin()
            .close_actions(id.get(), None)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a_child_cancelled_by_its_close_policy_may_clean_up(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = Kid::with(Say::Stubborn(7)).on_parent_close(ClosePolicy::RequestCancel);
        flow.spawn(kid).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let kid = &children(&harness, id).await[0];
    assert_eq!(kid.status, Status::Done);
    assert_eq!(kid.result.as_ref().unwrap().as_str(), "7");
}
