//! The commands `cancel` and `terminate`.

use crate::support::{Running, Site, on_both_databases};
use outlast::Status;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Less than the ten seconds from the start of an engine to its first heartbeat, which would find
/// the cancel without a hint.
const BEFORE_FIRST_HEARTBEAT: Duration = Duration::from_secs(5);

on_both_databases!(
    a_cancel_asks_and_the_machine_decides,
    without_an_engine_a_cancel_waits_and_a_terminate_ends,
    a_running_step_sees_its_cancel,
    a_child_that_never_started_is_cancelled_at_once,
    watch_shows_the_cancel,
    a_filter_cancels_many_instances,
);

fn insert(site: &Site, step: &str) -> String {
    site.run(["insert", "clerk", step]).succeeds().line()
}

async fn careful(site: &Site, engine: &Running) -> String {
    let id = insert(site, "careful");
    engine
        .until(&id, |it| it.status == Status::AwaitingSignal)
        .await;
    id
}

async fn a_cancel_asks_and_the_machine_decides(site: &Site) {
    let engine = site.engine().await;
    let id = careful(site, &engine).await;
    let asked = site.run(["cancel", &id, "--reason", "ordered twice"]);
    assert_eq!(asked.succeeds().line(), "1 asked to cancel");
    let answered = engine
        .until(&id, |it| {
            it.step == "undone" && it.status == Status::AwaitingSignal
        })
        .await;
    assert!(answered.cancel.unwrap().answered);
    let again = site.run(["cancel", &id]).succeeds();
    assert_eq!(again.line(), "0 asked to cancel, 1 already requested");
    let seen = site.run(["get", &id]).succeeds().out();
    assert!(
        seen.contains("ago, answered: cancelled by ada: ordered twice"),
        "{seen}"
    );
    site.run(["signal", &id, "undo"]).succeeds();
    let ended = engine.until(&id, |it| it.status.is_terminal()).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(
        ended.last_error.as_deref(),
        Some("cancelled by ada: ordered twice, undone")
    );
    for verb in ["cancel", "terminate"] {
        let late = site.run([verb, &id]).ends_with(4);
        assert!(
            late.err().contains("is already cancelled"),
            "{}",
            late.err()
        );
    }
    engine.stop().await;
}

async fn without_an_engine_a_cancel_waits_and_a_terminate_ends(site: &Site) {
    let id = insert(site, "park");
    let asked = site.run(["cancel", &id, "-o", "ids"]).succeeds();
    assert_eq!(
        (asked.line(), asked.err().as_str()),
        (id.clone(), "1 asked to cancel\n")
    );
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let instance = &seen["instance"];
    assert_eq!(instance["status"], json!("runnable"));
    assert_eq!(instance["cancel"]["reason"], json!("cancelled by ada"));
    assert_eq!(instance["cancel"]["answered"], json!(false));
    assert_eq!(seen["operations"][0]["verb"], json!("cancel"));
    let shown = site.run(["get", &id]).succeeds().out();
    assert!(
        shown.contains("not answered yet: cancelled by ada"),
        "{shown}"
    );
    let again = site.run(["cancel", &id, "-o", "json"]).succeeds().json();
    assert_eq!(
        again,
        json!({"changed": 0, "never_started": 0, "already_requested": 1, "refused": 0, "not_found": 0})
    );
    let ended = site.run(["terminate", &id, "--reason", "enough"]);
    assert_eq!(ended.succeeds().line(), "1 terminated");
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    assert_eq!(
        (
            &seen["instance"]["status"],
            &seen["instance"]["last_error"],
            &seen["operations"][0]["verb"]
        ),
        (
            &json!("cancelled"),
            &json!("terminated by ada: enough"),
            &json!("terminate")
        )
    );
    // A retry revokes the cancel.
    site.run(["retry", &id]).succeeds();
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    assert_eq!(seen["instance"]["cancel"], json!(null));
}

async fn a_running_step_sees_its_cancel(site: &Site) {
    let engine = site.engine().await;
    let id = insert(site, "run");
    engine.until(&id, |it| it.status == Status::Executing).await;
    let begun = Instant::now();
    site.run(["cancel", &id]).succeeds();
    let ended = engine.until(&id, |it| it.status.is_terminal()).await;
    assert_eq!(ended.last_error.as_deref(), Some("cancelled by ada"));
    if site.has_hints() {
        assert!(begun.elapsed() < BEFORE_FIRST_HEARTBEAT);
    }
    engine.stop().await;
}

async fn a_child_that_never_started_is_cancelled_at_once(site: &Site) {
    let engine = site.engine().await;
    let crew = site
        .run(["insert", "clerk", "crew", "-p", "joins=window"])
        .succeeds()
        .line();
    engine
        .until(&crew, |it| it.status == Status::AwaitingChildren)
        .await;
    let children = site.run(["list", "--parent", &crew, "-o", "ids"]);
    let children = children.succeeds().out();
    // The newest child is the last in order, and the window holds it.
    let held = children.lines().next().unwrap();
    let shown = site.run(["get", held]).succeeds().out();
    assert!(
        shown.contains("waits for a slot in the window")
            && shown.contains("round 1, position 2")
            && shown.contains("cancelled with its parent"),
        "{shown}"
    );
    let cancelled = site.run(["cancel", held]).succeeds();
    assert_eq!(cancelled.line(), "0 asked to cancel, 1 never started");
    let seen = site.run(["get", held, "-o", "json"]).succeeds().json();
    assert_eq!(seen["instance"]["status"], json!("cancelled"));
    assert_eq!(seen["instance"]["last_error"], json!("cancelled by ada"));
    engine.stop().await;
}

async fn watch_shows_the_cancel(site: &Site) {
    let engine = site.engine().await;
    let id = careful(site, &engine).await;
    let mut command = site.command(["watch", &id]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("waits for signal paid"), "{first}");
    site.run(["cancel", &id, "--reason", "ordered twice"])
        .succeeds();
    let answered = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("waits for signal undo"))
        .unwrap();
    assert!(
        answered.contains("decided about the cancel (cancelled by ada: ordered twice)"),
        "{answered}"
    );
    site.run(["signal", &id, "undo"]).succeeds();
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.contains("  cancelled  cancelled "), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    engine.stop().await;
}

async fn a_filter_cancels_many_instances(site: &Site) {
    let ids = [insert(site, "park"), insert(site, "park")];
    site.run(["terminate", &insert(site, "park")]).succeeds();
    let refused = site.run(["cancel", "--machine", "clerk"]).ends_with(4);
    assert!(
        refused.err().contains("cancel 2 instances?"),
        "{}",
        refused.err()
    );
    site.run(["cancel", "--status", "done", "--yes"])
        .ends_with(2);
    let dry = site.run(["cancel", "--all", "--dry-run"]).succeeds();
    assert_eq!(dry.line(), "2");
    site.run(["cancel", &ids[0]]).succeeds();
    let all = site.run(["cancel", "--all", "--yes"]).succeeds();
    assert_eq!(all.line(), "1 asked to cancel, 1 already requested");
    let again = site.run_with(["cancel", "-", "--yes"], &ids.join("\n"));
    assert_eq!(
        again.succeeds().line(),
        "0 asked to cancel, 2 already requested"
    );
    site.run(["cancel", "4711"]).ends_with(3);
}
