//! Overview, machines and workers.

use crate::support::{ApiClient, MACHINES, eventually, on_both_stores, running};
use outlast::Engine;
use outlast_core::{Inspect, MachineOffer, NewWorker, Store};
use serde_json::{Value, json};
use std::time::Duration;

on_both_stores![
    the_overview_counts_instances_and_lists_what_needs_attention,
    a_machine_is_shown_with_its_steps_counts_and_transitions,
    a_worker_is_shown_with_its_queues_and_machines,
    a_worker_that_died_needs_attention,
];

fn kinds(overview: &Value) -> Vec<&str> {
    overview["attention"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect()
}

async fn the_overview_counts_instances_and_lists_what_needs_attention<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine: Engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new = json!({"machine": "checkout", "step": "start", "state": {"number": 1}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{id}/wait?until=settled"))
        .await
        .ok();
    api.insert("m", "nobody serves this").await;
    api.post("/v1/queues/stopped/pause", json!({"force": true}))
        .await
        .ok();
    api.insert("m", "stopped").await;

    eventually("the overview is complete", async || {
        let overview = api.get("/v1/overview").await.ok();
        overview["counts"]["runnable"] == 2
            && overview["counts"]["awaiting_signal"] == 1
            && kinds(&overview).len() == 4
    })
    .await;
    let overview = api.get("/v1/overview").await.ok();
    assert_eq!(
        kinds(&overview),
        [
            "unserved_queue",
            "unserved_machine",
            "paused_queue",
            "no_deadline"
        ]
    );
    assert_eq!(overview["complete"], true);
    assert_eq!(overview["series"]["minutes"].as_array().unwrap().len(), 60);
    // The filter of each item matches as many instances as the item counts.
    for item in overview["attention"].as_array().unwrap() {
        let filter = item["filter"].as_str().unwrap();
        let listed = api.get(&format!("/v1/instances/count?{filter}")).await.ok();
        assert_eq!(listed["count"], item["count"], "{item}");
        assert!(item["sentence"].as_str().unwrap().ends_with('.'), "{item}");
    }
    eventually("runs are counted", async || {
        let overview = api.get("/v1/overview").await.ok();
        let runs = overview["series"]["runs"].as_array().unwrap();
        runs.iter().map(|n| n.as_u64().unwrap()).sum::<u64>() >= 1
    })
    .await;
    engine.shutdown().await.unwrap();
}

async fn a_machine_is_shown_with_its_steps_counts_and_transitions<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    for number in 0..3 {
        let new = json!({"machine": "checkout", "step": "start", "state": {"number": number}});
        let id = api.post("/v1/instances", new).await.ok()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        api.get(&format!("/v1/instances/{id}/wait?until=settled"))
            .await
            .ok();
    }
    eventually("steps and transitions are counted", async || {
        let body = api.get("/v1/machines/checkout").await.ok();
        let machine = &body["machines"][0];
        machine["steps"][1]["counts"]["awaiting_signal"] == 3
            && machine["transitions"][0]["count"] == 3
    })
    .await;
    let body = api.get("/v1/machines/checkout").await.ok();
    let machine = &body["machines"][0];
    assert_eq!(
        (&machine["name"], &machine["version"]),
        (&json!("checkout"), &json!(1))
    );
    assert_eq!(
        (&machine["queue"], &machine["workers"]),
        (&json!("default"), &json!(1))
    );
    let steps: Vec<_> = machine["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (&step["name"], &step["declared"]))
        .collect();
    assert_eq!(
        steps,
        [
            (&json!("start"), &json!(true)),
            (&json!("ship"), &json!(true))
        ]
    );
    assert_eq!(machine["steps"][0]["runs"], 3);
    let transition = &machine["transitions"][0];
    assert_eq!(
        (
            &transition["from"],
            &transition["to"],
            &transition["outcome"]
        ),
        (&json!("start"), &json!("ship"), &json!("wait"))
    );
    let all = api.get("/v1/machines").await.ok();
    assert_eq!(all["machines"].as_array().unwrap().len(), MACHINES);
    engine.shutdown().await.unwrap();
}

async fn a_worker_is_shown_with_its_queues_and_machines<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let workers = api.get("/v1/workers").await.ok();
    let worker = &workers["workers"][0];
    assert_eq!(worker["alive"], true);
    assert_eq!(worker["queues"], json!(["default", "other"]));
    let machines: Vec<_> = worker["machines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|machine| &machine["name"])
        .collect();
    assert_eq!(machines.len(), MACHINES);
    assert_eq!(worker["executing"], json!({"count": 0, "exact": true}));
    engine.shutdown().await.unwrap();
    assert_eq!(api.get("/v1/workers").await.ok()["workers"], json!([]));
}

async fn a_worker_that_died_needs_attention<S: Store + Inspect + Clone>(store: S) {
    let worker = NewWorker {
        name: "gone".into(),
        host: "h".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: vec![MachineOffer {
            name: "m".into(),
            version: 1,
            queue: "default".into(),
            steps: vec!["s".into()],
        }],
        lease: Duration::from_millis(100),
    };
    store.register(worker).await.unwrap();
    let api = ApiClient::new(store);
    eventually("the lease of the worker has expired", async || {
        let overview = api.get("/v1/overview").await.ok();
        kinds(&overview) == ["expired_leases"] && overview["attention"][0]["count"] == 1
    })
    .await;
    let workers = api.get("/v1/workers").await.ok();
    assert_eq!(
        (
            &workers["workers"][0]["name"],
            &workers["workers"][0]["alive"]
        ),
        (&json!("gone"), &json!(false))
    );
}
