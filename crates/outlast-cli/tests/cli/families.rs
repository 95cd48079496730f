//! Trees, joins, and the end of whole families.

use crate::support::{Running, Site, on_both_databases};
use outlast::Status;
use serde_json::json;
use std::collections::BTreeSet;

on_both_databases!(
    a_tree_shows_close_policies_positions_windows_and_joins,
    a_quorum_shows_how_many_are_done_and_needed,
    a_join_shows_its_cause_and_the_close_action_on_the_rest,
    a_family_is_counted_before_it_is_ended,
    a_family_is_terminated_without_an_engine,
    a_cancelled_family_ends,
    an_ended_parent_cannot_be_deleted_before_its_cascade_is_done,
    tree_commands_without_a_valid_root_are_refused,
);

async fn crew(site: &Site, engine: &Running, joins: &str) -> String {
    let joins = format!("joins={joins}");
    let id = site
        .run(["insert", "clerk", "crew", "-p", &joins])
        .succeeds()
        .line();
    engine.until(&id, |it| it.round == 1).await;
    id
}

/// Starts a clan, and returns its id once each crew has two children that wait for a signal and
/// one held child.
async fn clan(site: &Site, engine: &Running) -> String {
    let id = site.run(["insert", "clerk", "clan"]).succeeds().line();
    engine.until(&id, |it| it.round == 1).await;
    let crews = site.run(["list", "--parent", &id, "-o", "ids"]);
    for crew in crews.succeeds().out().lines() {
        engine.until(crew, |it| it.round == 1).await;
        let children = site.run(["list", "--parent", crew, "-o", "ids"]);
        for child in children.succeeds().out().lines() {
            engine
                .until(child, |it| {
                    it.held == Some(true) || it.status == Status::AwaitingSignal
                })
                .await;
        }
    }
    id
}

fn live(site: &Site) -> String {
    let live = "runnable,executing,awaiting_signal,sleeping,awaiting_children";
    site.run(["count", "--status", live]).succeeds().line()
}

async fn a_tree_shows_close_policies_positions_windows_and_joins(site: &Site) {
    let engine = site.engine().await;
    let id = clan(site, &engine).await;
    let tree = site.run(["tree", &id]).succeeds().out();
    let lines: Vec<_> = tree.lines().collect();
    assert!(
        lines[2].ends_with("│  waits for all: 0 of 2 finished"),
        "{tree}"
    );
    assert!(
        lines[3].starts_with("├─ 0: ") && lines[3].contains("clerk/1 awaiting_children at joined"),
        "{tree}"
    );
    assert!(
        lines[5].ends_with("│  waits for all: 0 of 3 finished; window of 2"),
        "{tree}"
    );
    assert!(
        lines[6].starts_with("│  ├─ 0: ")
            && lines[6].ends_with("awaiting_signal at answer (cancelled with its parent)"),
        "{tree}"
    );
    assert!(
        lines[8].starts_with("│  └─ 2: ")
            && lines[8].ends_with("runnable at park (held, cancelled with its parent)"),
        "{tree}"
    );
    let tree = site.run(["tree", &id, "-o", "json"]).succeeds().json();
    let crew = &tree["children"][1];
    assert_eq!(crew["instance"]["position"], json!(1));
    assert_eq!(crew["instance"]["on_parent_close"], json!("abandon"));
    let barrier = json!({
        "until": "all", "needs": null, "window": 2, "rest": "abandon", "started": 3, "pending": 3,
        "failed": 0, "first_failure": null, "joined": null, "deadline": null,
    });
    assert_eq!(crew["instance"]["barrier"], barrier);
    let held: Vec<_> = (0..3)
        .map(|position| crew["children"][position]["instance"]["held"].clone())
        .collect();
    assert_eq!(held, [json!(false), json!(false), json!(true)]);
    engine.stop().await;
}

async fn a_quorum_shows_how_many_are_done_and_needed(site: &Site) {
    let engine = site.engine().await;
    let id = crew(site, &engine, "quorum").await;
    engine.until(&id, |it| it.children_pending == 2).await;
    let tree = site.run(["tree", &id]).succeeds().out();
    assert!(
        tree.contains("waits for any 2 done: 1 of 4 done, 1 failed; until "),
        "{tree}"
    );
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let barrier = &seen["instance"]["barrier"];
    assert_eq!(
        (&barrier["until"], &barrier["needs"], &barrier["pending"]),
        (&json!("quorum"), &json!(2), &json!(2))
    );
    assert!(barrier["deadline"].is_string(), "{barrier}");
    engine.stop().await;
}

async fn a_join_shows_its_cause_and_the_close_action_on_the_rest(site: &Site) {
    let engine = site.engine().await;
    let id = crew(site, &engine, "fail_fast").await;
    engine.until(&id, |it| it.status == Status::Done).await;
    let children = site.run(["list", "--parent", &id, "-o", "ids"]);
    let children = children.succeeds().out();
    let (failed, parked) = children.trim().split_once('\n').unwrap();
    engine.until(parked, |it| it.status.is_terminal()).await;
    let shown = site.run(["get", &id]).succeeds().out();
    assert!(
        shown.contains(&format!(
            "joined by the failure of {failed}: 1 of 2 finished, 1 failed; the rest is terminated"
        )),
        "{shown}"
    );
    assert!(shown.contains("terminated when "), "{shown}");
    let reason = format!("the join of parent {id} was decided: failure");
    assert!(shown.contains(&reason), "{shown}");
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let action = &seen["close_actions"][0];
    assert_eq!(
        (&action["verb"], &action["instance"], &action["cause"]),
        (&json!("terminate"), &json!(parked), &json!(id))
    );
    assert_eq!(seen["close_actions"].as_array().unwrap().len(), 1);
    engine.stop().await;
}

async fn a_family_is_counted_before_it_is_ended(site: &Site) {
    let engine = site.engine().await;
    let id = clan(site, &engine).await;
    engine.stop().await;
    let refused = site.run(["cancel", &id, "--tree"]).ends_with(4);
    let question = format!("cancel the family of instance {id}, 9 live of 9?");
    assert!(refused.err().contains(&question), "{}", refused.err());
    let dry = site
        .run(["terminate", &id, "--tree", "--dry-run"])
        .succeeds();
    assert_eq!(dry.line(), "9");
    assert_eq!(
        dry.err(),
        "2 runnable, 4 awaiting_signal, 3 awaiting_children\n"
    );
    let dry = site.run(["cancel", &id, "--tree", "--dry-run", "-o", "json"]);
    assert_eq!(
        dry.succeeds().json(),
        json!({
            "members": {"runnable": 2, "awaiting_signal": 4, "awaiting_children": 3},
            "live": 9,
            "complete": true,
        })
    );
    assert_eq!(live(site), "9");
}

async fn a_family_is_terminated_without_an_engine(site: &Site) {
    let engine = site.engine().await;
    let id = clan(site, &engine).await;
    engine.stop().await;
    let stranger = site.run(["insert", "clerk", "park"]).succeeds().line();
    let ended = site.run(["terminate", &id, "--tree", "--yes", "--reason", "moved out"]);
    assert_eq!(
        ended.succeeds().line(),
        format!("terminated: the family of instance {id}, 9 live of 9")
    );
    assert_eq!(live(site), "1");
    site.run(["get", &stranger, "-o", "json"]).succeeds();
    let crews = site.run(["list", "--parent", &id, "-o", "json"]);
    for crew in crews.succeeds().json_lines() {
        assert_eq!(crew["last_error"], json!("terminated by ada: moved out"));
        let crew = crew["id"].as_str().unwrap();
        let seen = site.run(["get", crew, "-o", "json"]).succeeds().json();
        let close_actions = seen["close_actions"].as_array().unwrap();
        let ended: BTreeSet<_> = close_actions
            .iter()
            .map(|action| action["instance"].as_str().unwrap())
            .collect();
        assert_eq!(ended.len(), 3, "{seen}");
    }
    let again = site.run(["terminate", &id, "--tree", "--yes"]).ends_with(4);
    let words = format!("no live instances in the family of instance {id}");
    assert!(again.err().contains(&words), "{}", again.err());
}

async fn a_cancelled_family_ends(site: &Site) {
    let engine = site.engine().await;
    let ids = [clan(site, &engine).await, clan(site, &engine).await];
    let asked = site.run_with(
        ["cancel", "-", "--tree", "--yes", "-o", "json"],
        &ids.join(" "),
    );
    assert_eq!(
        asked.succeeds().json(),
        json!({"families": 2, "live": {"count": 18, "exact": true}, "complete": true, "not_found": 0})
    );
    let all = site.run(["list", "--all", "-o", "ids"]).succeeds().out();
    for id in all.lines() {
        let ended = engine.until(id, |it| it.status.is_terminal()).await;
        assert_eq!(ended.status, Status::Cancelled);
    }
    assert_eq!(live(site), "0");
    engine.stop().await;
}

async fn an_ended_parent_cannot_be_deleted_before_its_cascade_is_done(site: &Site) {
    let engine = site.engine().await;
    let id = crew(site, &engine, "window").await;
    engine.stop().await;
    site.run(["terminate", &id]).succeeds();
    assert_eq!(live(site), "3");
    let early = site.run(["delete", &id]).ends_with(4);
    assert!(
        early
            .err()
            .contains("children that are still being cancelled"),
        "{}",
        early.err()
    );
    // The root has ended. Terminating its tree still ends the live children.
    let rest = site.run(["terminate", &id, "--tree", "--yes"]).succeeds();
    assert!(rest.line().ends_with(", 3 live of 4"), "{}", rest.line());
    assert_eq!(live(site), "0");
    site.run(["delete", &id]).succeeds();
}

async fn tree_commands_without_a_valid_root_are_refused(site: &Site) {
    let missing = site.run(["cancel", "4711", "--tree", "--yes"]).ends_with(3);
    assert!(
        missing.err().contains("instance 4711 does not exist"),
        "{}",
        missing.err()
    );
    site.run(["cancel", "4711", "--tree", "--dry-run"])
        .ends_with(3);
    let filtered = site
        .run(["terminate", "--machine", "clerk", "--tree", "--yes"])
        .ends_with(2);
    assert!(
        filtered.err().contains("outlast terminate - --tree"),
        "{}",
        filtered.err()
    );
    site.run(["terminate", "--tree"]).ends_with(2);
    site.run(["retry", "1", "--tree"]).ends_with(2);
}
