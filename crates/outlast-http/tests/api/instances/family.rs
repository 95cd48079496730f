//! Parents and children.

use crate::support::{ApiClient, on_both_stores, running};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    a_family_is_shown_with_its_counts,
    children_are_listed_by_status_round_and_page
];

async fn parent_of_three(api: &ApiClient) -> (String, Vec<String>) {
    let new = json!({"machine": "parcel", "step": "begin", "state": {"items": 3}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{id}/wait?until=settled"))
        .await
        .ok();
    let children = api.get(&format!("/v1/instances/{id}/children")).await.ok();
    let ids = children["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap().to_owned());
    let ids: Vec<_> = ids.collect();
    for child in &ids {
        api.get(&format!("/v1/instances/{child}/wait?until=settled"))
            .await
            .ok();
    }
    (id, ids)
}

async fn a_family_is_shown_with_its_counts<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let (id, children) = parent_of_three(&api).await;
    let paid = json!({"name": "paid", "payload": {"amount": 1}});
    api.post(
        &format!("/v1/instances/{}/signals", children[0]),
        paid.clone(),
    )
    .await
    .ok();
    api.get(&format!("/v1/instances/{}/wait", children[0]))
        .await
        .ok();

    let tree = api.get(&format!("/v1/instances/{id}/tree")).await.ok();
    assert_eq!(tree["truncated"], false);
    let round = &tree["root"]["rounds"][0];
    assert_eq!(round["round"], 1);
    assert_eq!(round["counts"], json!({"done": 1, "awaiting_signal": 2}));
    assert_eq!(round["exact"], true);
    let shown: Vec<Value> = round["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["instance"]["id"].clone())
        .collect();
    let eldest_first: Vec<_> = children.iter().rev().map(|id| json!(id)).collect();
    assert_eq!(shown, eldest_first);

    let only_root = api
        .get(&format!("/v1/instances/{id}/tree?depth=0"))
        .await
        .ok();
    assert_eq!(only_root["truncated"], true);
    assert_eq!(only_root["root"]["rounds"], json!([]));
    engine.shutdown().await.unwrap();
}

async fn children_are_listed_by_status_round_and_page<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let (id, children) = parent_of_three(&api).await;
    let list = async |query: &str| {
        let page = api
            .get(&format!("/v1/instances/{id}/children?{query}"))
            .await
            .ok();
        let ids = page["children"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned());
        (
            ids.collect::<Vec<_>>(),
            page["next"].as_str().map(str::to_owned),
        )
    };
    assert_eq!(list("round=1").await.0, children);
    assert_eq!(list("round=2").await.0.len(), 0);
    assert_eq!(list("status=awaiting_signal").await.0, children);
    assert_eq!(list("status=done,failed").await.0.len(), 0);
    let (first, next) = list("limit=2").await;
    assert_eq!(first, children[..2]);
    let (rest, end) = list(&format!("limit=2&cursor={}", next.unwrap())).await;
    assert_eq!((rest.as_slice(), end), (&children[2..], None));
    engine.shutdown().await.unwrap();
}
