//! Inputs of runs, and builds whose input type no longer fits a stored input.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind, Instance};
use outlast::testing::Harness;
use outlast::workflow::BLOCKED;
use outlast::{Durable, Note, Status, Workflow};

on_both_stores!(
    an_input_that_no_longer_decodes_blocks_and_shows_both_sides,
    a_retried_run_blocks_when_its_input_no_longer_decodes,
    a_new_instance_whose_input_does_not_decode_fails_with_the_reason,
    a_history_with_a_missing_event_blocks,
    a_version_change_with_an_invalid_name_blocks,
);

/// A later build of the workflow of the test. Its input needs a field that older inputs lack.
struct Later;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
}

impl Durable for Later {
    const NAME: &'static str = Script::NAME;
    type Input = Order;
    type Output = u64;
}

impl Workflow for Later {
    async fn run(&self, flow: Flow, order: Order) -> FlowResult<u64> {
        flow.signal::<Go>().await?;
        Ok(order.number)
    }
}

/// A workflow that waits, with a child that is terminated when the workflow ends.
fn waits() -> Script {
    script(|flow, _| async move {
        let kid = Kid::with(Say::Wait).on_parent_close(ClosePolicy::Terminate);
        flow.spawn(kid).await?;
        flow.signal::<Go>().await?;
        Ok(7)
    })
}

#[track_caller]
fn blocked(row: &Instance) -> &str {
    let error = row.last_error.as_deref().unwrap_or_default();
    assert_eq!(row.status, Status::Runnable, "{error}");
    assert!(error.starts_with(BLOCKED), "{error}");
    error
}

async fn later(ground: &Ground) -> Harness {
    ground.worker().register(Later).build().await.unwrap()
}

async fn an_input_that_no_longer_decodes_blocks_and_shows_both_sides(ground: Ground) {
    let mut old = ground.runs(waits()).await;
    let id = begin_and_run(&mut old, json!({"customer": 1})).await;
    let before = history_words(&old, id).await.len();
    go(&old, id.get(), 1).await;
    let mut new = later(&ground).await;
    for _ in 0..2 {
        new.run().await;
        let row = get(&new, id).await;
        let error = blocked(&row);
        assert!(error.contains("began with its input"), "{error}");
        assert!(error.contains("missing field `number`"), "{error}");
        new.advance(HOUR).await;
    }
    let history = history(&new, id, 1).await;
    assert_eq!(history.len(), before + 1, "the block is recorded once");
    only_event(&history, EventKind::ReplayBlocked);
    let kids = new.client().admin().children_of(id, 1).await.unwrap();
    assert!(!kids[0].status.is_terminal(), "the child lives");
    old.run_all().await;
    assert_eq!(output(&get(&old, id).await), json!(7));
}

async fn a_retried_run_blocks_when_its_input_no_longer_decodes(ground: Ground) {
    let code = script(|flow, _| async move { flow.fail::<()>("not today") });
    let mut old = ground.runs(code).await;
    let id = begin_and_run(&mut old, json!({"customer": 1})).await;
    reason(&get(&old, id).await);
    let mut new = later(&ground).await;
    new.client()
        .admin()
        .retry(id, Note::by("somebody"))
        .await
        .unwrap();
    new.run().await;
    blocked(&get(&new, id).await);
}

async fn a_new_instance_whose_input_does_not_decode_fails_with_the_reason(ground: Ground) {
    let mut new = later(&ground).await;
    let id = begin_and_run(&mut new, json!({"customer": 1})).await;
    let reason = reason(&get(&new, id).await);
    assert!(reason.contains("its input does not decode"), "{reason}");
    assert!(reason.contains("missing field `number`"), "{reason}");
}

async fn a_history_with_a_missing_event_blocks(ground: Ground) {
    let mut harness = ground.runs(waits()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let events = history_words(&harness, id).await.len();
    let delete = format!("delete from events where instance_id = {id} and seq = {events}");
    ground.tamper(&delete).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    let row = get(&harness, id).await;
    let error = blocked(&row);
    assert!(error.contains(&format!("{events} events")), "{error}");
    let left = format!("only {} of them", events - 1);
    assert!(error.contains(&left), "{error}");
}

async fn a_version_change_with_an_invalid_name_blocks(ground: Ground) {
    for (name, expected) in [
        ("x".repeat(201), "201 bytes"),
        (String::new(), "is empty"),
        ("a\nb".into(), "control character"),
    ] {
        let log = Log::default();
        let noted = log.clone();
        let code = script(move |flow, _| {
            let (log, name) = (noted.clone(), name.clone());
            async move {
                log.step(&flow, "one", 1).await?;
                let form = flow.version(&name, 0, 1);
                log.step(&flow, "two", 2).await?;
                Ok(form)
            }
        });
        let mut harness = ground.runs(code).await;
        let id = begin_and_run(&mut harness, ()).await;
        let row = get(&harness, id).await;
        let error = blocked(&row);
        assert!(error.contains("call 1: step \"one\""), "{error}");
        assert!(error.contains(expected), "{error}");
        harness.advance(HOUR).await;
        harness.run().await;
        assert_eq!(log.entries(), ["one"], "the step before the change is kept");
    }
}
