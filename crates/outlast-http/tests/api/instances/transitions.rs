//! Machines with a recorded history: their transitions, and the states between them.

use crate::support::{ApiClient, eventually, on_both_stores};
use crate::tracked::Tracked;
use outlast::Engine;
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    the_transitions_of_a_machine_are_its_history,
    a_machine_with_a_history_is_not_shown_as_a_workflow,
];

async fn running(store: impl Store + Inspect) -> Engine {
    let builder = Engine::builder(store).register(Tracked);
    builder.queue("default", 10).start().await.unwrap()
}

/// Starts a parcel, and returns its id once the parcel waits for `cleared`.
async fn parcel(api: &ApiClient) -> String {
    let new = json!({"machine": "tracked", "step": "pack", "state": {"note": "fragile"}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    eventually("the parcel waits", async || {
        let it = api.get(&format!("/v1/instances/{id}")).await.ok();
        it["status"] == "awaiting_signal"
    })
    .await;
    id
}

async fn the_transitions_of_a_machine_are_its_history<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = parcel(&api).await;
    let signal = json!({"name": "cleared", "payload": {}});
    let path = format!("/v1/instances/{id}");
    api.post(&format!("{path}/signals"), signal).await.ok();
    let ended = api.get(&format!("{path}/wait")).await.ok();
    assert_eq!(ended["instance"]["status"], "done", "{ended}");
    let history = api.get(&format!("{path}/history")).await;
    // The state is stored unchanged.
    assert!(
        history
            .text
            .contains(r#"{"note":"fragile","grams":9007199254740993}"#)
    );
    let history = history.ok();
    assert_eq!(
        (&history["run"], &history["next"]),
        (&json!(1), &Value::Null)
    );
    let events = history["events"].as_array().unwrap();
    let steps: Vec<_> = events
        .iter()
        .map(|event| {
            assert_eq!(
                (&event["kind"], &event["call"]),
                (&json!("transitioned"), &Value::Null)
            );
            let it = &event["transition"];
            json!([
                event["name"],
                it["outcome"],
                it["to"],
                it["attempt"],
                it["woken_by"]
            ])
        })
        .collect();
    let expected = json!([
        ["pack", "next", "weigh", 0, null],
        ["weigh", "retry", "weigh", 0, null],
        ["weigh", "wait", "ship", 1, null],
        ["ship", "done", null, 1, "signal"],
    ]);
    assert_eq!(json!(steps), expected);
    let states: Vec<_> = events.iter().map(|it| &it["transition"]["state"]).collect();
    assert_eq!(states[0], &json!({"note": "fragile", "grams": 0}));
    assert_eq!(states[3], &Value::Null);
    assert_eq!(events[0]["transition"]["began"], json!({"note": "fragile"}));
    assert_eq!(events[1]["reason"], "<b>the scales are taken</b>");
    let wait = &events[2];
    assert_eq!(wait["transition"]["awaits"], json!(["cleared"]));
    assert!(wait["deadline"].is_string());
    assert_eq!(events[3]["transition"]["signals"], json!(["cleared"]));
    // The history is read page by page, like that of a workflow.
    let page = api
        .get(&format!("{path}/history?after=1&limit=2"))
        .await
        .ok();
    assert_eq!(page["events"], json!(events[1..3]));
    assert_eq!(page["next"], 3);
    let runs = api.get(&format!("{path}/runs")).await.ok();
    let run = &runs["runs"][0];
    assert_eq!(
        (&run["run"], &run["events"], &run["last"]),
        (&json!(1), &json!(4), &json!("transitioned"))
    );
    engine.shutdown().await.unwrap();
}

async fn a_machine_with_a_history_is_not_shown_as_a_workflow<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = parcel(&api).await;
    let it = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!((&it["run"], &it["events"]), (&json!(1), &json!(3)));
    assert!(it.get("flow").is_none(), "{it}");
    let sentence = it["waiting"].as_str().unwrap();
    assert!(
        sentence.starts_with("waits for signal cleared until "),
        "{sentence}"
    );
    let export = api.get(&format!("/v1/instances/{id}/export")).await;
    assert_eq!(export.code(), "no_history");
    assert!(
        export
            .text
            .contains("only workflow histories can be exported"),
        "{}",
        export.text
    );
    let other = api.get(&format!("/v1/instances/{id}/history?run=2")).await;
    assert_eq!(other.code(), "no_history");
    engine.shutdown().await.unwrap();
}
