//! Repair: the reconciler wakes a workflow that no event would wake.

use crate::support::*;
use outlast::{InstanceId, Status};
use outlast_core::{Note, RepairScope};

on_both_stores!(
    the_reconciler_finds_nothing_where_nothing_is_wrong,
    the_reconciler_wakes_a_workflow_whose_children_have_all_ended,
    the_reconciler_leaves_a_workflow_with_living_children_alone,
);

fn waits_for_two() -> Script {
    script(|flow, _| async move {
        let kid = || flow.run(Kid::with(Say::Wait));
        flow.all((kid(), kid())).await
    })
}

async fn repaired(ground: &Ground) -> Vec<InstanceId> {
    let page = RepairScope::Page {
        after: None,
        max: 1_000,
    };
    let needing = ground.store.needing_repair(page).await.unwrap().found;
    let ids: Vec<InstanceId> = needing.into_iter().map(|(id, _)| id).collect();
    ground
        .store
        .repair(ids.clone(), Note::by("reconciler"))
        .await
        .unwrap();
    ids
}

async fn the_reconciler_finds_nothing_where_nothing_is_wrong(ground: Ground) {
    let mut harness = ground.runs(waits_for_two()).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(repaired(&ground).await, []);
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
        harness.run().await;
        assert_eq!(repaired(&ground).await, []);
    }
    assert_eq!(output(&get(&harness, id).await), json!([1, 1]));
}

/// Gives the row of a workflow wrong counts of its children.
async fn miscount(ground: &Ground, id: Scripted) {
    let sql = format!(
        "update instances set children_pending = 5, joining_left = '{}' where id = {}",
        ground.list_of_one(5),
        id.get()
    );
    ground.tamper(&sql).await;
}

async fn the_reconciler_wakes_a_workflow_whose_children_have_all_ended(ground: Ground) {
    let mut harness = ground.runs(waits_for_two()).await;
    let id = begin_and_run(&mut harness, ()).await;
    miscount(&ground, id).await;
    for kid in children(&harness, id).await {
        go(&harness, kid.id, 1).await;
    }
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 2]);
    harness.expect(id).await.awaits_children();
    assert_eq!(repaired(&ground).await, [id.get()]);
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 1]));
}

async fn the_reconciler_leaves_a_workflow_with_living_children_alone(ground: Ground) {
    let mut harness = ground.runs(waits_for_two()).await;
    let id = begin_and_run(&mut harness, ()).await;
    miscount(&ground, id).await;
    let kid = children(&harness, id).await[0].id;
    go(&harness, kid, 1).await;
    harness.run().await;
    assert_eq!(repaired(&ground).await, []);
    harness.expect(id).await.awaits_children();
}
