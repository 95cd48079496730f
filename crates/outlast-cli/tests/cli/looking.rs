//! The commands `list`, `count`, `get`, `watch`, `tree`, `queues` and `workers`.

use crate::support::{LONG, Ran, Site, on_both_databases};
use outlast::store::Target;
use outlast::{InstanceId, Status};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

on_both_databases!(
    filters_narrow_lists_and_counts,
    sleeping_instances_are_shown_listed_and_counted_as_sleeping,
    a_list_continues_where_it_ended,
    a_closed_pipe_is_no_failure,
    get_shows_the_error_value_of_a_failed_instance_not_as_its_result,
    watch_prints_the_changes_of_an_instance,
    watch_of_a_failed_instance_exits_with_1,
    a_tree_shows_the_family,
    queues_are_paused_and_resumed,
    workers_are_listed,
);

async fn filters_narrow_lists_and_counts(site: &Site) {
    let mut ids = Vec::new();
    for (machine, queue) in [("a", "mail"), ("a", "default"), ("b", "mail")] {
        ids.push(
            site.run(["insert", machine, "start", "--queue", queue])
                .succeeds()
                .line(),
        );
    }
    site.run(["terminate", &ids[0]]).succeeds();
    let listed = |ran: Ran| {
        ran.succeeds()
            .out()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        listed(site.run(["list", "-o", "ids"])),
        [&*ids[2], &ids[1], &ids[0]]
    );
    assert_eq!(
        listed(site.run(["list", "-o", "ids", "--machine", "a"])),
        [&*ids[1], &ids[0]]
    );
    assert_eq!(
        listed(site.run([
            "list",
            "-o",
            "ids",
            "--queue",
            "mail",
            "--status",
            "runnable,failed"
        ])),
        [&*ids[2]]
    );
    assert_eq!(
        listed(site.run(["list", "-o", "ids", "--error", "terminated by ada"])),
        [&*ids[0]]
    );
    assert_eq!(site.run(["count", "--since", "1h"]).succeeds().line(), "3");
    let none = site
        .run(["count", "--until", "1h", "-o", "json"])
        .succeeds();
    assert_eq!(none.json(), json!({"count": 0, "exact": true}));
    // The table has headings, and no colours because stdout is not a terminal.
    let table = site.run(["list"]).succeeds().out();
    assert!(table.starts_with("ID "), "{table}");
    assert_eq!(table.lines().count(), 4);
    assert!(!table.contains('\u{1b}'));
}

async fn sleeping_instances_are_shown_listed_and_counted_as_sleeping(site: &Site) {
    let engine = site.engine().await;
    let asleep = site.run(["insert", "clerk", "doze"]).succeeds().line();
    let waits = site.run(["insert", "clerk", "park", "-p", "number:=1"]);
    let waits = waits.succeeds().line();
    engine
        .until(&asleep, |it| it.status == Status::Sleeping)
        .await;
    engine
        .until(&waits, |it| it.status == Status::AwaitingSignal)
        .await;
    for (status, expected) in [
        ("sleeping", vec![&asleep]),
        ("awaiting_signal", vec![&waits]),
        ("sleeping,awaiting_signal", vec![&waits, &asleep]),
        ("runnable", vec![]),
    ] {
        let listed = site.run(["list", "-o", "ids", "--status", status]);
        let listed = listed.succeeds().out();
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{status}");
        let count = site.run(["count", "--status", status]).succeeds().line();
        assert_eq!(count, expected.len().to_string(), "{status}");
    }
    let shown = site.run(["get", &asleep]).succeeds().out();
    assert!(shown.contains("status    sleeping"), "{shown}");
    assert!(shown.contains("sleeps until"), "{shown}");
    let shown = site.run(["get", &asleep, "-o", "json"]).succeeds().json();
    assert_eq!(shown["instance"]["status"], "sleeping");
    let table = site.run(["list"]).succeeds().out();
    assert!(table.contains("sleeping"), "{table}");
    let refused = site.run([
        "insert",
        "clerk",
        "doze",
        "--key",
        "k",
        "--unique-in",
        "runnable,sleeping",
    ]);
    assert!(
        refused.err().contains("awaiting_signal"),
        "{}",
        refused.err()
    );
    let cancelled = site.run(["cancel", &asleep]);
    cancelled.succeeds();
    let ended = engine.until(&asleep, |it| it.status.is_terminal()).await;
    assert_eq!(ended.status, Status::Cancelled);
    let shown = site.run(["get", &asleep]).succeeds().out();
    assert!(
        shown.contains("sleeping"),
        "the operation shows the status before: {shown}"
    );
    engine.stop().await;
}

async fn a_list_continues_where_it_ended(site: &Site) {
    for _ in 0..5 {
        site.run(["insert", "a", "start"]).succeeds();
    }
    let first = site.run(["list", "-n", "2", "-o", "ids"]).succeeds();
    let last = first.out().lines().last().unwrap().to_owned();
    assert!(
        first.err().contains(&format!("--before {last}")),
        "{}",
        first.err()
    );
    let rest = site
        .run(["list", "--all", "--before", &last, "-o", "ids"])
        .succeeds();
    assert_eq!(rest.out().lines().count(), 3);
    assert_eq!(rest.err(), "");
}

async fn a_closed_pipe_is_no_failure(site: &Site) {
    site.run(["insert", "a", "start"]).succeeds();
    let mut command = site.command(["list", "-o", "json"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closes the reading end of the pipe.
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

async fn get_shows_the_error_value_of_a_failed_instance_not_as_its_result(site: &Site) {
    let engine = site.engine().await;
    let ended = async |step, state| {
        let insert = site.run(["insert", "clerk", step, "--state", state]);
        let id = insert.succeeds().line();
        engine.until(&id, |it| it.status.is_terminal()).await;
        id
    };
    let state = r#"{"left":2}"#;
    let declined = ended("decline", state).await;
    let failed = ended("fail", "null").await;
    let done = ended("kept", "null").await;
    let get = |id: &str| site.run(["get", id]).succeeds().out();

    let seen = get(&declined);
    assert!(seen.contains("\nerror   only 2 left\n"), "{seen}");
    assert!(seen.contains("\nerror value  {\"left\":2}\n"), "{seen}");
    assert!(!seen.contains("\nresult "), "{seen}");
    let value = site.run(["get", &declined, "--error-value"]).succeeds();
    assert_eq!(value.line(), state);
    let refused = site.run(["get", &declined, "--result"]).ends_with(4);
    assert!(refused.err().contains("--error-value"), "{}", refused.err());

    let seen = get(&failed);
    assert!(seen.contains("\nerror   out of stock\n"), "{seen}");
    assert!(!seen.contains("error value"), "{seen}");
    let refused = site.run(["get", &failed, "--error-value"]).ends_with(4);
    assert!(refused.err().contains("only a text"), "{}", refused.err());

    let seen = get(&done);
    assert!(seen.contains("\nresult  1\n"), "{seen}");
    let refused = site.run(["get", &done, "--error-value"]).ends_with(4);
    assert!(refused.err().contains("it is done"), "{}", refused.err());
    engine.stop().await;
}

async fn watch_prints_the_changes_of_an_instance(site: &Site) {
    let engine = site.engine().await;
    let id = site
        .run(["insert", "clerk", "park", "-p", "number:=7"])
        .succeeds()
        .line();
    engine
        .admin()
        .wait_settled(Target::Id(InstanceId(id.parse().unwrap())), LONG)
        .await
        .unwrap();
    let mut command = site.command(["watch", &id]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(
        first.contains("awaiting_signal  waits for signal paid"),
        "{first}"
    );
    site.run(["signal", &id, "paid"]).succeeds();
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.contains("  done  done "), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    engine.stop().await;
}

async fn watch_of_a_failed_instance_exits_with_1(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "clerk", "fail"]).succeeds().line();
    let watched = site.run(["watch", &id, "-o", "json"]).ends_with(1);
    let last = watched.json_lines().pop().unwrap();
    assert_eq!(last["status"], json!("failed"));
    assert_eq!(last["last_error"], json!("out of stock"));
    engine.stop().await;
    // Without an engine this instance never changes.
    let id = site.run(["insert", "clerk", "fail"]).succeeds().line();
    let watched = site.run(["watch", &id, "--timeout", "1ms"]).ends_with(1);
    assert!(watched.err().contains("timed out"), "{}", watched.err());
    site.run(["watch", "4711"]).ends_with(3);
}

async fn a_tree_shows_the_family(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "clerk", "fan_out"]).succeeds().line();
    let root = Target::Id(InstanceId(id.parse().unwrap()));
    engine.admin().wait_settled(root, LONG).await.unwrap();
    let children = site
        .run(["list", "--parent", &id, "-o", "ids"])
        .succeeds()
        .out();
    for child in children.lines() {
        let child = Target::Id(InstanceId(child.parse().unwrap()));
        engine.admin().wait_settled(child, LONG).await.unwrap();
    }
    let tree = site.run(["tree", &id]).succeeds().out();
    assert!(
        tree.contains("waits for 1 of 3 children, 1 has failed"),
        "{tree}"
    );
    assert!(
        tree.contains("round 1: 1 awaiting_signal, 1 done, 1 failed"),
        "{tree}"
    );
    assert_eq!(
        tree.matches("├─").count() + tree.matches("└─").count(),
        3,
        "{tree}"
    );
    let folded = site
        .run(["tree", &id, "--children", "1", "-o", "json"])
        .succeeds()
        .json();
    assert_eq!(folded["children"].as_array().unwrap().len(), 1);
    assert_eq!(folded["more"], json!(2));
    let shallow = site
        .run(["tree", &id, "--depth", "0", "-o", "ids"])
        .succeeds();
    assert_eq!(shallow.line(), id);
    engine.stop().await;
}

async fn queues_are_paused_and_resumed(site: &Site) {
    site.run(["insert", "a", "start", "--queue", "mail"])
        .succeeds();
    let paused = site
        .run([
            "queues", "pause", "mail", "--reason", "a flood", "-o", "json",
        ])
        .succeeds();
    assert_eq!(paused.json(), json!({"queue": "mail", "changed": true}));
    let queue = site.run(["queues", "-o", "json"]).succeeds().json();
    assert_eq!(
        (&queue["name"], &queue["paused"]),
        (&json!("mail"), &json!(true))
    );
    assert_eq!(queue["eligible"], json!({"count": 1, "exact": true}));
    let waiting = site.run(["list", "-o", "ids"]).succeeds().line();
    let seen = site.run(["get", &waiting]).succeeds().out();
    assert!(
        seen.contains("waits in queue mail, which is paused"),
        "{seen}"
    );
    let mistyped = site.run(["queues", "pause", "mial"]).ends_with(3);
    assert!(
        mistyped.err().contains("Similar names: mail"),
        "{}",
        mistyped.err()
    );
    site.run(["queues", "resume", "mial"]).ends_with(3);
    site.run(["queues", "resume", "mail"]).succeeds();
    let again = site.run(["queues", "resume", "mail"]).succeeds();
    assert!(again.err().contains("already"), "{}", again.err());
    let table = site.run(["queues"]).succeeds().out();
    assert!(
        table.contains("mail") && !table.contains("paused"),
        "{table}"
    );
}

async fn workers_are_listed(site: &Site) {
    assert!(
        site.run(["workers"])
            .succeeds()
            .err()
            .contains("no workers are registered")
    );
    let engine = site.engine().await;
    let worker = site.run(["workers", "-o", "json"]).succeeds().json();
    assert_eq!(
        (&worker["name"], &worker["alive"]),
        (&json!("desk"), &json!(true))
    );
    assert_eq!(worker["machines"][0]["name"], json!("clerk"));
    let table = site.run(["workers"]).succeeds().out();
    assert!(
        table.contains("clerk/1") && table.contains("expires in"),
        "{table}"
    );
    engine.stop().await;
}
