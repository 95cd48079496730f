//! Sleeping instances: how they are shown, listed, counted and ended.

use crate::support::{ApiClient, eventually, on_both_stores};
use outlast_core::{
    ClaimRequest, Commit, Inspect, InstanceId, Join, Json, MachineVersion, NewInstance, NewWorker,
    Outcome, Store, WorkerId,
};
use outlast_http::{Role, Settings, Token};
use serde_json::{Value, json};
use std::time::Duration;

on_both_stores![
    a_sleeping_instance_is_shown_listed_and_counted_as_sleeping,
    the_overview_and_the_machine_count_sleeping_instances,
    sleeping_children_are_shown_as_sleeping,
    operations_on_a_sleeping_instance_name_its_status,
    the_scope_of_a_key_cannot_contain_sleeping,
];

async fn a_worker<S: Store>(store: &S) -> WorkerId {
    let worker = NewWorker {
        name: "w".into(),
        host: "h".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: Vec::new(),
        lease: Duration::from_secs(600),
    };
    store.register(worker).await.unwrap()
}

/// Claims one eligible instance per outcome, and commits the outcomes in the order of the claims.
async fn commit<S: Store>(store: &S, worker: WorkerId, outcomes: Vec<Outcome>) -> Vec<InstanceId> {
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("m", 1)].into(),
        max: outcomes.len(),
    };
    let claims = store.claim(request).await.unwrap().claims;
    assert_eq!(claims.len(), outcomes.len());
    let ids = claims.iter().map(|claim| claim.id).collect();
    let commits = claims.iter().zip(outcomes);
    let commits: Vec<Commit> = commits.map(|(claim, it)| Commit::of(claim, it)).collect();
    store.commit(commits.into()).await.unwrap();
    ids
}

fn wait(names: &[&str]) -> Outcome {
    Outcome::Wait {
        names: names.iter().map(|it| (*it).to_owned()).collect(),
        step: "waited".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(3_600)),
    }
}

/// Returns the ids of a sleeping instance and of one that awaits a signal.
async fn one_of_each<S: Store>(store: &S) -> (String, String) {
    let rows = (0..2).map(|_| NewInstance::new("m", "s", Json::null()));
    store.insert(rows.collect(), None).await.unwrap();
    let worker = a_worker(store).await;
    let ids = commit(store, worker, vec![wait(&[]), wait(&["paid"])]).await;
    (ids[0].to_string(), ids[1].to_string())
}

async fn a_sleeping_instance_is_shown_listed_and_counted_as_sleeping<S: Store + Inspect + Clone>(
    store: S,
) {
    let (sleeping, waiting) = one_of_each(&store).await;
    let api = ApiClient::new(store);
    let shown = api.get(&format!("/v1/instances/{sleeping}")).await.ok();
    assert_eq!(shown["status"], "sleeping");
    let sentence = shown["waiting"].as_str().unwrap();
    assert!(sentence.starts_with("sleeps until"), "{sentence}");
    let shown = api.get(&format!("/v1/instances/{waiting}")).await.ok();
    assert_eq!(shown["status"], "awaiting_signal");
    for (filter, expected) in [
        ("status=sleeping", vec![&sleeping]),
        ("status=awaiting_signal", vec![&waiting]),
        ("status=awaiting_signal,sleeping", vec![&waiting, &sleeping]),
        ("status=sleeping&status=done", vec![&sleeping]),
        ("status=runnable", vec![]),
        ("deadline=none", vec![]),
        ("", vec![&waiting, &sleeping]),
    ] {
        let page = api.get(&format!("/v1/instances?{filter}")).await.ok();
        let listed: Vec<&Value> = page["instances"].as_array().unwrap().iter().collect();
        let ids: Vec<&str> = listed.iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{filter}");
        for it in listed {
            let status = match it["id"] == json!(sleeping) {
                true => "sleeping",
                false => "awaiting_signal",
            };
            assert_eq!(it["status"], status);
        }
        let count = api.get(&format!("/v1/instances/count?{filter}")).await.ok();
        assert_eq!(count["count"], expected.len(), "{filter}");
    }
    let settled = format!("/v1/instances/{sleeping}/wait?until=settled");
    let settled = api.get(&settled).await.ok();
    assert_eq!(settled["instance"]["status"], "sleeping");
    let document = api.get("/v1/openapi.json").await.ok();
    let words = &document["components"]["schemas"]["Status"]["enum"];
    assert_eq!(
        words,
        &json!([
            "runnable",
            "executing",
            "awaiting_signal",
            "sleeping",
            "awaiting_children",
            "done",
            "failed",
            "cancelled"
        ])
    );
}

async fn the_overview_and_the_machine_count_sleeping_instances<S: Store + Inspect + Clone>(
    store: S,
) {
    one_of_each(&store).await;
    let (all, everything) = Token::generate("all", Role::Read).unwrap();
    let (some, of_queue) = Token::generate("some", Role::Read).unwrap();
    let settings = Settings::new()
        .token(everything)
        .token(of_queue.queues(["default"]));
    let api = ApiClient::with(store, settings);
    // Without a scope the counts come from the step counter, with one from filters.
    for secret in [&all, &some] {
        let api = api.token(secret);
        eventually("both are counted", async || {
            let counts = api.get("/v1/overview").await.ok()["counts"].clone();
            counts["sleeping"] == 1 && counts["awaiting_signal"] == 1
        })
        .await;
    }
    let shown = api.token(&all).get("/v1/machines/m").await.ok();
    let steps = shown["machines"][0]["steps"].as_array().unwrap();
    let step = steps.iter().find(|it| it["name"] == "waited").unwrap();
    let counts = &step["counts"];
    assert_eq!(
        (&counts["sleeping"], &counts["awaiting_signal"]),
        (&json!(1), &json!(1))
    );
}

async fn sleeping_children_are_shown_as_sleeping<S: Store + Inspect + Clone>(store: S) {
    let parent = vec![NewInstance::new("m", "s", Json::null())];
    store.insert(parent, None).await.unwrap();
    let worker = a_worker(&store).await;
    let children = (0..2).map(|_| NewInstance::new("m", "s", Json::null()));
    let fan_out = Outcome::FanOut {
        children: children.collect(),
        join: Join::default(),
        step: "joined".into(),
        state: Json::null(),
    };
    let parent = commit(&store, worker, vec![fan_out]).await[0];
    commit(&store, worker, vec![wait(&[]), wait(&["paid"])]).await;
    let api = ApiClient::new(store);
    let path = format!("/v1/instances/{parent}");
    let children = api.get(&format!("{path}/children")).await.ok();
    let statuses = children["children"].as_array().unwrap().iter();
    let statuses: Vec<&Value> = statuses.map(|it| &it["status"]).collect();
    assert_eq!(statuses, ["awaiting_signal", "sleeping"], "newest first");
    let family = api.get(&format!("{path}/family")).await.ok();
    let text = family.to_string();
    assert!(text.contains("\"sleeping\":1"), "{text}");
    let listed = format!("/v1/instances?parent={parent}&status=sleeping");
    let listed = api.get(&listed).await.ok();
    assert_eq!(listed["instances"].as_array().unwrap().len(), 1);
}

async fn operations_on_a_sleeping_instance_name_its_status<S: Store + Inspect + Clone>(store: S) {
    let (sleeping, waiting) = one_of_each(&store).await;
    let api = ApiClient::new(store);
    let path = format!("/v1/instances/{sleeping}");
    let refused = api.post(&format!("{path}/retry"), json!({})).await;
    assert!(refused.text.contains("sleeping"), "{}", refused.text);
    let filter = json!({"filter": {"status": ["sleeping"]}, "dry_run": true});
    let counted = api.post("/v1/bulk/terminate", filter).await.ok();
    assert_eq!(counted["count"], 1);
    let answer = api.post(&format!("{path}/cancel"), json!({})).await.ok();
    assert_eq!(answer["status_before"], "sleeping");
    let record = api.get(&format!("{path}/operations")).await.ok();
    assert_eq!(record["operations"][0]["status_before"], "sleeping");
    let untouched = api.get(&format!("/v1/instances/{waiting}")).await.ok();
    assert_eq!(untouched["status"], "awaiting_signal");
}

async fn the_scope_of_a_key_cannot_contain_sleeping<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let new =
        |unique_in: Value| json!({"machine": "m", "step": "s", "key": "k", "unique_in": unique_in});
    let refused = api
        .post("/v1/instances", new(json!(["runnable", "sleeping"])))
        .await;
    assert_eq!(refused.code(), "invalid_request");
    assert!(refused.text.contains("awaiting_signal"), "{}", refused.text);
    let stored = new(json!(["runnable", "executing", "awaiting_signal"]));
    api.post("/v1/instances", stored).await.ok();
}
