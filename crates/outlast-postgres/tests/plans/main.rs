//! At a million rows no statement reads more than it needs, whatever the statistics say.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod cases;
#[path = "../support/header.rs"]
mod header;
mod plan;
mod prepared;
mod situation;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod through_the_store;

use outlast_core::{NewEvent, Outcome, Store};
use outlast_postgres::Postgres;
use prepared::Prepared;
use situation::World;

/// One test for all statements, because they share one table. It checks three situations.
///
/// In each, 10,000 rows wait behind a busy key: first before any claim met them, then set aside.
#[tokio::test]
async fn every_statement_keeps_its_plan_at_a_million_rows_whatever_the_statistics_say() {
    let schema = support::unique_schema();
    let store = connect(&schema).await;
    let mut admin = table::connect().await;
    table::freeze_statistics(&admin, &schema).await;

    let kept = Prepared::new(&schema).await;
    let world = World::learn(store, schema.clone(), &kept).await;
    kept.busy_while(table::fill(&admin, &schema)).await;
    let late = Prepared::new(&schema).await;
    world
        .check("made for empty tables and kept", &[&kept, &late], &admin)
        .await;

    table::analyze(&admin, &schema).await;
    let kept = Prepared::new(&schema).await;
    kept.plan_all().await;
    table::line_up_anew(&admin, &schema).await;
    kept.busy_while(table::drain(&admin, &schema)).await;
    let late = Prepared::new(&schema).await;
    world
        .check("made before a drain", &[&kept, &late], &admin)
        .await;

    table::line_up_anew(&admin, &schema).await;
    table::vacuum(&admin, &schema).await;
    let fresh = Prepared::new(&schema).await;
    world.check("fresh", &[&fresh], &admin).await;
    world.check_growth(&fresh).await;

    drop((kept, late, fresh));
    admin = through_the_store::assert_reads_no_whole_table(world.store, &schema, admin).await;
    drop(admin);
    support::drop_schema(&schema).await;
}

/// In the first hour of an installation, connections prepare statements on empty tables and keep
/// the plans.
#[tokio::test]
async fn for_empty_tables_no_statement_plans_to_read_an_index_from_end_to_end() {
    let schema = support::unique_schema();
    let store = connect(&schema).await;
    // Workers and cascades are few, and the next deadline and timeout are the first of their index.
    let whole = [
        "cascade/take",
        "fire/next_due",
        "reap/workers",
        "time_out/next",
    ];
    for analyzed in [false, true] {
        if analyzed {
            table::analyze(&table::connect().await, &schema).await;
        }
        for (name, plan) in Prepared::new(&schema).await.plan_all().await {
            let reads_whole = plan.lookups().iter().any(|l| l.ends_with(plan::WHOLE));
            assert_eq!(reads_whole, whole.contains(&name), "{name}:\n{plan}");
            assert!(plan.scanned_tables().is_empty(), "{name}:\n{plan}");
        }
    }
    store.close().await;
    support::drop_schema(&schema).await;
}

/// A commit that runs ahead changes no indexed column, so PostgreSQL writes to no index.
#[tokio::test]
async fn a_commit_that_keeps_its_claim_is_a_hot_update() {
    assert_hot_updates(through_the_store::next, false).await;
}

/// The same holds for a step of a workflow, even if it starts children.
#[tokio::test]
async fn a_workflow_step_that_keeps_its_claim_is_a_hot_update() {
    assert_hot_updates(through_the_store::flow, false).await;
}

/// Nor does a signal that is noted on the row of a running step.
#[tokio::test]
async fn a_signal_to_a_running_step_is_a_hot_update() {
    assert_hot_updates(through_the_store::next, true).await;
}

async fn assert_hot_updates(step: impl Fn(usize) -> (Outcome, Vec<NewEvent>), with_signals: bool) {
    let schema = support::unique_schema();
    let store = connect(&schema).await;
    let updates = through_the_store::run_ahead(&store, 5, 200, step, with_signals).await;
    store.close().await;

    let counters = table::Counters::after_updates(&table::connect().await, &schema, updates).await;
    // A full page sends the new version of a row to another page, and that update is not HOT. At
    // most one in twenty does so, even while an old snapshot keeps the old versions alive.
    assert!(
        counters.hot_updates * 10 >= counters.updates * 9,
        "only {} of {} updates were HOT",
        counters.hot_updates,
        counters.updates
    );
    support::drop_schema(&schema).await;
}

async fn connect(schema: &str) -> Postgres {
    let options = Postgres::options(&support::url()).unwrap();
    options.schema(schema).connect().await.unwrap()
}
