//! Workflows: their open waits, histories and runs.

use crate::support::{self, Running, Site, on_both_databases};
use outlast::Status;
use outlast::testing::Replay;
use outlast::workflow::ExportedRun;
use serde_json::{Value, json};

on_both_databases!(
    get_shows_the_run_and_the_open_waits,
    a_blocked_workflow_shows_history_and_code_and_is_listed_by_its_error,
    a_window_shows_running_and_held_children,
    a_history_is_printed_as_a_timeline_and_as_json_lines,
    a_timeline_ends_with_the_policies_that_were_applied,
    children_are_listed_call_by_call,
    a_run_is_exported_to_stdout_or_a_file,
    a_tree_marks_workflows_with_their_run,
    a_request_for_a_missing_history_is_refused,
    transitions_are_printed_as_a_table_and_as_json_lines,
    published_values_are_printed_as_a_table_as_json_lines_and_alone,
);

/// Starts an errand that waits for its payment and for a clerk. Returns both ids.
async fn errand(site: &Site, engine: &Running, again: u64) -> (String, String) {
    let state = again.to_string();
    let id = site.run(["insert", "errand", "run", "--state", &state, "--key", "e:1"]);
    let id = id.succeeds().line();
    let clerk = waits(site, engine, &id, 1).await;
    (id, clerk)
}

/// Waits until a run of an errand waits for its payment, and returns the id of its clerk.
async fn waits(site: &Site, engine: &Running, id: &str, run: i32) -> String {
    engine
        .until(id, |it| {
            it.run == run && it.awaits.as_deref() == Some(&["paid".to_owned()])
        })
        .await;
    let clerks = site.run(["list", "--parent", id, "-n", "1", "-o", "ids"]);
    let clerk = clerks.succeeds().line();
    engine
        .until(&clerk, |it| it.status == Status::AwaitingSignal)
        .await;
    clerk
}

fn pay(site: &Site, id: &str, clerk: &str) {
    for target in [id, clerk] {
        site.run(["signal", target, "paid", "-p", "amount:=5"])
            .succeeds();
    }
}

async fn get_shows_the_run_and_the_open_waits(site: &Site) {
    let engine = site.engine().await;
    let (id, clerk) = errand(site, &engine, 0).await;
    let seen = site.run(["get", &id]).succeeds().out();
    let first = seen.lines().next().unwrap();
    let begins = format!("instance {id} waits for signal paid (call ");
    assert!(
        first.starts_with(&begins) && first.contains(&format!("clerk {clerk} (call ")),
        "{seen}"
    );
    let line = |begins: &str| {
        let mut lines = seen.lines();
        let found = lines.find(|line| line.starts_with(begins));
        found
            .unwrap_or_else(|| panic!("{begins}: {seen}"))
            .to_owned()
    };
    assert!(line("run ").contains("1, 1"), "{seen}");
    assert!(line("WAITS FOR").contains("TARGET"), "{seen}");
    assert!(line("signal ").contains("select "), "{seen}");
    let target = format!("{clerk}, awaiting_signal");
    assert!(line("child ").contains(&target), "{seen}");
    assert!(line("timer ").contains("in 59 min"), "{seen}");
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    assert_eq!(seen["instance"]["run"], 1);
    assert_eq!(seen["runs"][0]["events"], seen["instance"]["events"]);
    let flow = &seen["flow"];
    assert_eq!(
        (&flow["open"], &flow["complete"], &flow["blocked"]),
        (&json!(3), &json!(true), &Value::Null)
    );
    assert_eq!(flow["groups"][0]["members"], "mixed");
    assert!(flow["groups"][0]["deadline"].is_string());
    assert!(line("select ").contains("3 of 3"), "{seen}");
    // The workflow has handled one failure.
    assert_eq!(flow["handled_count"], 1);
    assert_eq!(flow["handled"][0]["reason"], "out of stock");
    // The clerk shows the call that started it.
    let of_clerk = site.run(["get", &clerk]).succeeds().out();
    assert!(of_clerk.contains("of run 1"), "{of_clerk}");
    // A machine has no flow and no runs.
    let seen = site.run(["get", &clerk, "-o", "json"]).succeeds().json();
    let child = flow["waits"].as_array().unwrap().iter();
    let child = child.clone().find(|it| it["kind"] == "child").unwrap();
    assert_eq!(seen["origin"]["call"], child["call"]);
    assert!(seen.get("flow").is_none() && seen["runs"] == json!([]));
    engine.stop().await;
}

async fn a_blocked_workflow_shows_history_and_code_and_is_listed_by_its_error(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "stuck", "run"]).succeeds().line();
    // Another failed instance, whose error does not begin with `blocked:`.
    let other = site.run(["insert", "clerk", "fail"]).succeeds().line();
    engine.until(&other, |it| it.status.is_terminal()).await;
    engine
        .until(&id, |it| {
            let error = it.last_error.as_deref().unwrap_or_default();
            it.status == Status::Runnable && error.starts_with("blocked: ")
        })
        .await;
    let seen = site.run(["get", &id]).succeeds().out();
    let begins = format!("instance {id} is blocked: its history has ");
    assert!(seen.starts_with(&begins), "{seen}");
    let line = |begins: &str| {
        let found = seen.lines().find(|line| line.starts_with(begins));
        found.unwrap_or_else(|| panic!("{begins}: {seen}"))
    };
    assert!(
        line("the history has ").contains("only calls of its flow"),
        "{seen}"
    );
    assert!(
        line("the code has ").contains("after call 1: step \"begin\""),
        "{seen}"
    );
    let json = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let blocked = &json["flow"]["blocked"];
    assert_eq!(blocked["expected"], "only calls of its flow");
    let found = blocked["found"].as_str().unwrap();
    assert!(found.contains("flow.step("), "{found}");
    let listed = site.run(["list", "--error", "blocked:", "-o", "ids"]);
    assert_eq!(listed.succeeds().line(), id);
    engine.stop().await;
}

async fn a_window_shows_running_and_held_children(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "crowd", "run"]).succeeds().line();
    engine
        .until(&id, |it| it.status == Status::AwaitingChildren)
        .await;
    let clerks = site.run(["list", "--parent", &id, "-o", "ids"]);
    let clerks = clerks.succeeds().out();
    assert_eq!(clerks.lines().count(), 3, "{clerks}");
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let group = &seen["flow"]["groups"][0];
    assert_eq!(group["window"], json!({"running": 2, "held": 1}));
    let seen = site.run(["get", &id]).succeeds().out();
    assert!(seen.contains("2 run, 1 held"), "{seen}");
    engine.stop().await;
}

async fn a_history_is_printed_as_a_timeline_and_as_json_lines(site: &Site) {
    let engine = site.engine().await;
    let (id, clerk) = errand(site, &engine, 1).await;
    pay(site, &id, &clerk);
    waits(site, &engine, &id, 2).await;
    let table = site.run(["history", &id, "--run", "1"]).succeeds().out();
    let lines: Vec<_> = table.lines().collect();
    let begins = format!("instance {id} errand/1, run 1 of 2, ");
    assert!(lines[0].starts_with(&begins), "{table}");
    assert!(lines[2].starts_with("SEQ "), "{table}");
    for word in [
        "run_started",
        "step_completed",
        "child_failed",
        "out of stock",
        "failure_handled",
        "signal_consumed",
        "continued_as_new",
        "request_cancel when its parent finishes",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let events = site.run(["history", "errand/e:1", "--run", "1", "-o", "json"]);
    let events = events.succeeds().json_lines();
    let seqs: Vec<_> = events
        .iter()
        .map(|it| it["seq"].as_i64().unwrap())
        .collect();
    let expected: Vec<_> = (1..=events.len() as i64).collect();
    assert_eq!(seqs, expected);
    let first = &events[0];
    assert_eq!(
        (&first["kind"], &first["call"]),
        (&json!("run_started"), &Value::Null)
    );
    // A page ends with the option that continues it.
    let page = site.run(["history", &id, "--run", "1", "-n", "2", "-o", "json"]);
    let page = page.succeeds();
    assert_eq!(page.json_lines(), events[..2]);
    assert!(page.err().contains("--after 2"), "{}", page.err());
    let rest = [
        "history", &id, "--run", "1", "--after", "2", "--all", "-o", "json",
    ];
    assert_eq!(site.run(rest).succeeds().json_lines(), events[2..]);
    // Both runs are listed.
    let seen = site.run(["get", &id]).succeeds().out();
    assert!(seen.contains("continued_as_new"), "{seen}");
    engine.stop().await;
}

async fn a_timeline_ends_with_the_policies_that_were_applied(site: &Site) {
    let engine = site.engine().await;
    let (id, clerk) = errand(site, &engine, 0).await;
    site.run(["terminate", &id, "-y"]).succeeds();
    engine
        .until(&clerk, |it| it.cancel.is_some() || it.status.is_terminal())
        .await;
    let table = site.run(["history", &id]).succeeds().out();
    let last = table.lines().last().unwrap();
    let applied = format!(
        "instance {clerk} asked to cancel when awaiting_signal; parent {id} ended as cancelled"
    );
    assert!(
        last.contains("policy_applied") && last.contains("clerk") && last.contains(&applied),
        "{table}"
    );
    let events = site.run(["history", &id, "-o", "json"]);
    let events = events.succeeds().json_lines();
    let last = events.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["policy"], &last["child"]),
        (
            &json!("policy_applied"),
            &json!("request_cancel"),
            &json!(clerk)
        )
    );
    assert_eq!(last["seq"], events.len());
    let seen = site.run(["get", &clerk, "-o", "json"]).succeeds().json();
    assert_eq!(seen["origin"]["call"], last["call"]);
    let exported = site.run(["export", &id]).succeeds().out();
    let exported = ExportedRun::parse(&exported).unwrap();
    assert_eq!(exported.policies[0].child.to_string(), clerk);
    assert_eq!(exported.events.len() + 1, events.len());
    engine.stop().await;
}

async fn children_are_listed_call_by_call(site: &Site) {
    let engine = site.engine().await;
    let (id, clerk) = errand(site, &engine, 0).await;
    let table = site.run(["history", &id, "--calls"]).succeeds().out();
    for word in [
        "CALL",
        "clerk/1",
        "awaiting_signal",
        "request_cancel",
        "out of stock",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let calls = site.run(["history", &id, "--calls", "-o", "json"]);
    let calls = calls.succeeds().json_lines();
    let last = calls.last().unwrap();
    assert_eq!(
        (&last["child"], &last["recorded"]),
        (&json!(clerk), &json!(false))
    );
    let first = site.run(["history", &id, "--calls", "-n", "1", "-o", "json"]);
    let first = first.succeeds();
    assert_eq!(first.json_lines(), calls[..1]);
    assert!(first.err().contains("--after "), "{}", first.err());
    engine.stop().await;
}

async fn a_run_is_exported_to_stdout_or_a_file(site: &Site) {
    let engine = site.engine().await;
    let (id, _) = errand(site, &engine, 0).await;
    let printed = site.run(["export", &id]).succeeds().out();
    let history = ExportedRun::parse(&printed).unwrap();
    assert_eq!((history.run, &*history.workflow), (1, "errand"));
    let exported = site.run(["export", &id, "--run", "1", "--to", "run.json"]);
    assert_eq!(exported.succeeds().out(), "");
    let written = std::fs::read_to_string(site.folder.path().join("run.json")).unwrap();
    assert_eq!(written, printed);
    // A test can replay the code against the exported run.
    Replay::of(support::errand).check(&written).unwrap();
    let other = written.replace("\"think\"", "\"ponder\"");
    let difference = Replay::of(support::errand).check(&other);
    let difference = difference.unwrap_err().to_string();
    assert!(
        difference.contains("call 1: step \"think\""),
        "{difference}"
    );
    engine.stop().await;
}

async fn a_tree_marks_workflows_with_their_run(site: &Site) {
    let engine = site.engine().await;
    let (id, clerk) = errand(site, &engine, 0).await;
    let tree = site.run(["tree", &id]).succeeds().out();
    let begins = format!("{id} errand/1 run 1 awaiting_");
    assert!(tree.starts_with(&begins), "{tree}");
    let child = format!("{clerk} clerk/1 awaiting_signal at answer (cancelled with its parent)");
    assert!(tree.contains(&child), "{tree}");
    engine.stop().await;
}

async fn a_request_for_a_missing_history_is_refused(site: &Site) {
    let id = site.run(["insert", "a", "start"]).succeeds().line();
    for command in ["history", "export"] {
        let refused = site.run([command, &id]).ends_with(4);
        assert!(
            refused.err().contains("the machine records none"),
            "{}",
            refused.err()
        );
        site.run([command, "99999"]).ends_with(3);
        site.run([command, &id, "--run", "0"]).ends_with(2);
        site.run([command, &id, "--run", "x"]).ends_with(2);
    }
    let engine = site.engine().await;
    let (id, _) = errand(site, &engine, 0).await;
    let refused = site.run(["history", &id, "--run", "2"]).ends_with(4);
    assert!(refused.err().contains("no run 2 yet"), "{}", refused.err());
    engine.stop().await;
}

async fn transitions_are_printed_as_a_table_and_as_json_lines(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "ledger", "book", "--state", r#"{"number":7}"#]);
    let id = id.succeeds().line();
    engine
        .until(&id, |it| it.status == Status::AwaitingSignal)
        .await;
    site.run(["signal", &id, "paid", "-p", "amount:=5"])
        .succeeds();
    engine.until(&id, |it| it.status == Status::Done).await;
    let table = site.run(["history", &id]).succeeds().out();
    let lines: Vec<_> = table.lines().collect();
    let begins = format!("instance {id} ledger/1, 3 transitions, began ");
    assert!(lines[0].starts_with(&begins), "{table}");
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(2), ["SEQ", "AFTER", "STEP", "OUTCOME", "TO"]);
    assert_eq!(words(3)[3..6], ["book", "retry", "book"]);
    assert_eq!(words(4)[3..6], ["book", "wait", "balance"]);
    assert_eq!(words(5)[3..5], ["balance", "done"]);
    for expected in [
        "the book is taken",
        r#"started with {"number":7}"#,
        r#"attempt 2; waits for paid; state {"number":7,"booked":true}"#,
        "woken by paid",
    ] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    let events = site.run(["history", &id, "-o", "json"]).succeeds();
    let events = events.json_lines();
    assert_eq!(events.len(), 3);
    let wait = &events[1];
    assert_eq!(
        (&wait["kind"], &wait["name"], &wait["transition"]["to"]),
        (&json!("transitioned"), &json!("book"), &json!("balance"))
    );
    assert_eq!(
        wait["transition"]["state"],
        json!({"number": 7, "booked": true})
    );
    // A machine with a history is not a workflow and cannot be exported.
    let seen = site.run(["get", &id]).succeeds().out();
    assert!(seen.contains("3 transitions"), "{seen}");
    let refused = site.run(["export", &id]).ends_with(4);
    assert!(
        refused.err().contains("is not a workflow"),
        "{}",
        refused.err()
    );
    engine.stop().await;
}

async fn published_values_are_printed_as_a_table_as_json_lines_and_alone(site: &Site) {
    let engine = site.engine().await;
    let (id, _) = errand(site, &engine, 0).await;
    engine.stop().await;
    let table = site.run(["views", &id]).succeeds().out();
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("VIEW "), "{table}");
    assert!(lines[1].starts_with("answer "), "{table}");
    assert!(lines[1].contains(r#"{"number":7,"of":"clerk"}"#), "{table}");
    let views = site.run(["views", "errand/e:1", "-o", "json"]).succeeds();
    let views = views.json_lines();
    assert_eq!(views.len(), 1);
    assert_eq!(
        (&views[0]["name"], &views[0]["data"]["number"]),
        (&json!("answer"), &json!(7))
    );
    let alone = site.run(["views", &id, "answer"]).succeeds().line();
    assert_eq!(alone, r#"{"number":7,"of":"clerk"}"#);
    let missing = site.run(["views", &id, "other"]).ends_with(3);
    assert!(
        missing.err().contains("has published nothing as \"other\""),
        "{}",
        missing.err()
    );
    let machine = site.run(["insert", "a", "start"]).succeeds().line();
    let none = site.run(["views", &machine]).succeeds();
    assert!(
        none.err().contains("has published nothing"),
        "{}",
        none.err()
    );
    site.run(["views", "99999"]).ends_with(3);
}
