//! Queries: the code of a workflow answers where it is.

use super::flows::errand;
use crate::flow_machines::{Approved, Doings};
use crate::support::{ApiClient, on_both_stores, running};
use outlast::engine::Roles;
use outlast::prelude::*;
use outlast_core::{Inspect, Store};
use outlast_http::Settings;
use serde_json::json;

on_both_stores![
    a_server_with_the_code_answers_queries,
    a_server_without_the_code_says_where_to_ask,
    each_failure_of_a_query_has_its_code,
    a_history_that_does_not_fit_the_code_is_a_conflict,
];

async fn a_server_with_the_code_answers_queries<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store).await;
    let api = ApiClient::of(engine.client().clone(), Settings::new());
    let id = errand(&api, &["done"], 0).await;
    let path = format!("/v1/instances/{id}/queries");
    let listed = api.get(&path).await.ok();
    assert_eq!(listed, json!({"queries": ["doings"]}));
    let before = api.get(&format!("/v1/instances/{id}")).await.ok();
    let all = api.post(&format!("{path}/doings"), json!({})).await.ok();
    assert_eq!(all, json!(["begun", "packed 2"]));
    let about = json!({"about": "packed"});
    let some = api.post(&format!("{path}/doings"), about).await.ok();
    assert_eq!(some, json!(["packed 2"]));
    let after = api.get(&format!("/v1/instances/{id}")).await.ok();
    for field in ["revision", "events", "updated_at", "status"] {
        assert_eq!(before[field], after[field]);
    }
    engine.shutdown().await.unwrap();
}

async fn a_server_without_the_code_says_where_to_ask<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["done"], 0).await;
    let path = format!("/v1/instances/{id}/queries");
    let asked = api.post(&format!("{path}/doings"), json!({})).await;
    for refused in [asked, api.get(&path).await] {
        assert_eq!(refused.status, 501);
        assert_eq!(refused.code(), "no_code");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("fulfil/1 is not here; ask"), "{detail}");
    }
    engine.shutdown().await.unwrap();
}

async fn each_failure_of_a_query_has_its_code<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store).await;
    let api = ApiClient::of(engine.client().clone(), Settings::new());
    let id = errand(&api, &["done"], 0).await;
    let machine = api.insert("checkout", "default").await;
    let path = format!("/v1/instances/{id}/queries/doings");
    let no_body = axum::body::Body::empty();
    let absent = api.post_text(&path, no_body).await;
    for (answer, status, code) in [
        (api.post(&path, json!(7)).await, 400, "invalid_json"),
        (absent, 400, "invalid_json"),
        (api.post_text(&path, "{").await, 400, "invalid_json"),
        (
            api.post(&path, json!({"about": "unicorns"})).await,
            422,
            "request_failed",
        ),
        (
            api.post(&format!("/v1/instances/{id}/queries/other"), json!({}))
                .await,
            404,
            "no_handler",
        ),
        (
            api.get(&format!("/v1/instances/{machine}/queries")).await,
            404,
            "no_handler",
        ),
        (
            api.post("/v1/instances/99999/queries/doings", json!({}))
                .await,
            404,
            "not_found",
        ),
        (
            api.post("/v1/instances/x/queries/doings", json!({})).await,
            400,
            "invalid_request",
        ),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.code(), code, "{answer:?}");
    }
    let failed = api.post(&path, json!({"about": "unicorns"})).await;
    let detail = failed.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("a shop sells no unicorns"), "{detail}");
    engine.shutdown().await.unwrap();
}

#[workflow(name = "shape")]
async fn old_shape(flow: Flow) -> FlowResult<()> {
    flow.on_query(|_: Doings| Ok(vec!["before".into()]))?;
    flow.step("old", async || Ok::<_, String>(())).await?;
    flow.signal::<Approved>().await?;
    Ok(())
}

#[workflow(name = "shape")]
async fn new_shape(flow: Flow) -> FlowResult<()> {
    flow.on_query(|_: Doings| Ok(vec!["after".into()]))?;
    flow.step("new", async || Ok::<_, String>(())).await?;
    flow.signal::<Approved>().await?;
    Ok(())
}

async fn a_history_that_does_not_fit_the_code_is_a_conflict<S: Store + Inspect + Clone>(store: S) {
    let worker = Engine::builder(store.clone()).register(old_shape);
    let worker = worker.start().await.unwrap();
    let started = worker.start(old_shape::with()).await.unwrap();
    started.settled().await.unwrap();
    let web = Engine::builder(store).register(new_shape).roles(Roles::WEB);
    let web = web.start().await.unwrap();
    let path = format!("/v1/instances/{}/queries/doings", started.id());
    let fits = ApiClient::of(worker.client().clone(), Settings::new());
    assert_eq!(fits.post(&path, json!({})).await.ok(), json!(["before"]));
    let differs = ApiClient::of(web.client().clone(), Settings::new());
    let refused = differs.post(&path, json!({})).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.code(), "blocked");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    for side in ["step_completed \"old\" of call 1", "call 1: step \"new\""] {
        assert!(detail.contains(side), "{detail}");
    }
    web.shutdown().await.unwrap();
    worker.shutdown().await.unwrap();
}
