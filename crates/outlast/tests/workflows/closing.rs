//! What becomes of children when their workflow ends before they do.

use crate::support::*;
use outlast::prelude::*;
use outlast::testing::Harness;
use outlast::{EventKind, Verb};

on_both_stores!(
    children_are_treated_by_their_policies_when_their_workflow_is_done,
    children_are_treated_by_their_policies_when_their_workflow_fails,
    children_are_treated_by_their_policies_when_their_workflow_is_cancelled,
    children_are_treated_by_their_policies_when_their_workflow_is_terminated,
    policies_work_inside_a_group,
    a_policy_is_recorded_with_the_call_and_what_came_of_it_on_the_parent,
    who_has_ended_is_left_alone,
    a_child_that_is_asked_to_end_may_clean_up,
);

const POLICIES: [ClosePolicy; 3] = [
    ClosePolicy::Abandon,
    ClosePolicy::RequestCancel,
    ClosePolicy::Terminate,
];

/// Starts one child with each policy, and ends as it is told.
fn leaves(ends: &'static str) -> Script {
    script(move |flow, _| async move {
        for policy in POLICIES {
            let kid = flow.child::<Kid>(Say::Wait);
            kid.on_parent_close(policy).start().await?;
        }
        flow.signal::<Halt>().await?;
        match ends {
            "well" => Ok(()),
            _ => Err(flow.fail("badly")),
        }
    })
}

async fn parked(ground: &Ground, ends: &'static str) -> (Harness, Scripted) {
    let mut harness = ground.runs(leaves(ends)).await;
    let id = ran(&mut harness, ()).await;
    assert_eq!(statuses(&harness, id).await, [Status::AwaitingSignal; 3]);
    (harness, id)
}

async fn treated(mut harness: Harness, id: Scripted, ended: Status) {
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
    // The one that was left alone goes on by itself.
    let left = children(&harness, id).await[0].id;
    go(&harness, left, 1).await;
    harness.run().await;
    assert_eq!(get(&harness, left).await.status, Status::Done);
}

async fn children_are_treated_by_their_policies_when_their_workflow_is_done(ground: Ground) {
    let (harness, id) = parked(&ground, "well").await;
    harness.signal(id, Halt(0)).await.unwrap();
    treated(harness, id, Status::Done).await;
}

async fn children_are_treated_by_their_policies_when_their_workflow_fails(ground: Ground) {
    let (harness, id) = parked(&ground, "badly").await;
    harness.signal(id, Halt(0)).await.unwrap();
    treated(harness, id, Status::Failed).await;
}

async fn children_are_treated_by_their_policies_when_their_workflow_is_cancelled(ground: Ground) {
    let (harness, id) = parked(&ground, "well").await;
    harness.cancel(id, Note::by("ada")).await.unwrap();
    treated(harness, id, Status::Cancelled).await;
}

async fn children_are_treated_by_their_policies_when_their_workflow_is_terminated(ground: Ground) {
    let (harness, id) = parked(&ground, "well").await;
    harness.terminate(id, Note::by("ada")).await.unwrap();
    treated(harness, id, Status::Cancelled).await;
}

async fn policies_work_inside_a_group(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = POLICIES.map(|policy| flow.child::<Kid>(Say::Wait).on_parent_close(policy));
        let machine = flow.machine(New::<Turnstile>(Turn::Wait(1)));
        let machine = machine.on_parent_close(ClosePolicy::Terminate);
        let broken = flow.child::<Kid>(Say::WaitThenFail("broken".into()));
        flow.all((kids, flow.all((machine,)), broken)).await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
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

async fn a_policy_is_recorded_with_the_call_and_what_came_of_it_on_the_parent(ground: Ground) {
    let (mut harness, id) = parked(&ground, "well").await;
    let events = history(&harness, id, 1).await;
    let scheduled = events
        .iter()
        .filter(|it| it.kind == EventKind::ChildScheduled);
    let policies: Vec<_> = scheduled
        .map(|it| data(it)["on_parent_close"].clone())
        .collect();
    assert_eq!(policies, ["abandon", "request_cancel", "terminate"]);
    harness.signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    let kids = children(&harness, id).await;
    let closures = harness.closures(id.get(), None).await.unwrap();
    let mut closures: Vec<_> = closures.iter().map(|it| (it.instance, it.verb)).collect();
    closures.sort_by_key(|(instance, _)| *instance);
    let expected = [
        (Some(kids[1].id), Verb::Cancel),
        (Some(kids[2].id), Verb::Terminate),
    ];
    assert_eq!(closures, expected);
}

async fn who_has_ended_is_left_alone(ground: Ground) {
    let (mut harness, id) = parked(&ground, "well").await;
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
    }
    harness.run().await;
    harness.signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 3]);
    assert!(harness.closures(id.get(), None).await.unwrap().is_empty());
}

async fn a_child_that_is_asked_to_end_may_clean_up(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = flow.child::<Kid>(Say::Stubborn(7));
        kid.on_parent_close(ClosePolicy::RequestCancel)
            .start()
            .await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let kid = &children(&harness, id).await[0];
    assert_eq!(kid.status, Status::Done);
    assert_eq!(kid.result.as_ref().unwrap().as_str(), "7");
}
