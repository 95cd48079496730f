//! Checks the OpenAPI document: its routes are those of the router, and answers match its schemas.

use crate::support::{ApiClient, eventually, running};
use axum::body::Body;
use axum::http::Method;
use outlast::Sqlite;
use outlast_http::{Settings, WebhookRoute, WebhookSecret};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the schema of a response with this status.
fn schema(document: &Value, path: &str, method: &str, status: u16) -> Option<Value> {
    let responses = &document["paths"][path][method]["responses"];
    let response = responses
        .get(status.to_string())
        .or_else(|| responses.get("default"))?;
    let content = response["content"].as_object()?.values().next()?;
    let mut schema = content["schema"].clone();
    schema["components"] = document["components"].clone();
    Some(schema)
}

fn check(document: &Value, path: &str, method: &str, status: u16, body: &Value) {
    let schema = schema(document, path, method, status)
        .unwrap_or_else(|| panic!("{method} {path} has no schema for {status}"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<_> = validator
        .iter_errors(body)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(
        wrong.is_empty(),
        "{method} {path} {status}: {wrong:?}\n{body}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_the_document_says() {
    let store = Sqlite::in_memory().unwrap();
    let engine = running(store).await;
    let secret = WebhookSecret::generate().unwrap().1;
    let webhook = WebhookRoute::to_key("checkout", "/order", "paid", secret.clone());
    let settings = Settings::new()
        .webhook("shop", webhook)
        .metrics(String::new);
    let api = ApiClient::of(engine.client().clone(), settings);
    let document = api.get("/v1/openapi.json").await.ok();

    let parcel = json!({"machine": "parcel", "step": "begin", "state": {"items": 2}, "key": "parcel:1", "partition_key": "p"});
    let parent = api.post("/v1/instances", parcel).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{parent}/wait?until=settled"))
        .await
        .ok();
    let order =
        json!({"machine": "checkout", "step": "start", "state": {"number": 1}, "key": "order:1"});
    let waits = api.post("/v1/instances", order).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{waits}/wait?until=settled"))
        .await
        .ok();
    let failed = api
        .post(
            "/v1/instances",
            json!({"machine": "fails", "step": "perform"}),
        )
        .await
        .ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&format!("/v1/instances/{failed}/wait")).await.ok();
    let closed = closed_team(&api).await;
    let errand = crate::instances::flows::errand(&api, &["wait"], 0).await;
    let shelf = json!({"machine": "shelf", "step": "run"});
    let shelf = api.post("/v1/instances", shelf).await.ok()["id"].clone();
    let shelf = shelf.as_str().unwrap().to_owned();
    let ended = api.insert("m", "nobody").await;
    api.post(
        &format!("/v1/instances/{ended}/terminate"),
        json!({"reason": "test"}),
    )
    .await
    .ok();
    let asked = api.insert("m", "nobody").await;
    eventually("the overview and the transitions are counted", async || {
        let overview = api.get("/v1/overview").await.ok();
        let machines = api.get("/v1/machines/checkout").await.ok();
        !overview["attention"].as_array().unwrap().is_empty()
            && !machines["machines"][0]["transitions"]
                .as_array()
                .unwrap()
                .is_empty()
    })
    .await;

    let signed_body = r#"{"order":"order:1"}"#;
    let at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let questions: Vec<(&str, &str, String, Value)> = vec![
        (
            "get",
            "/v1/instances",
            "/v1/instances?full=true".into(),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances",
            "/v1/instances".into(),
            json!({"machine": "m", "step": "s", "key": "k"}),
        ),
        (
            "post",
            "/v1/instances",
            "/v1/instances".into(),
            json!({"machine": "m", "step": "s", "key": "k"}),
        ),
        (
            "post",
            "/v1/instances",
            "/v1/instances".into(),
            json!({"machine": ""}),
        ),
        (
            "post",
            "/v1/instances/batch",
            "/v1/instances/batch".into(),
            json!({"instances": [{"machine": "m", "step": "s"}, {"machine": "", "step": ""}]}),
        ),
        (
            "get",
            "/v1/instances/count",
            "/v1/instances/count".into(),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}",
            format!("/v1/instances/{waits}"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}",
            format!("/v1/instances/{failed}"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}",
            format!("/v1/instances/{parent}"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}",
            "/v1/instances/99999".into(),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}",
            format!("/v1/instances/{errand}"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/history",
            format!("/v1/instances/{errand}/history?limit=200"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/history",
            format!("/v1/instances/{waits}/history"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/calls",
            format!("/v1/instances/{errand}/calls"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/runs",
            format!("/v1/instances/{errand}/runs"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/export",
            format!("/v1/instances/{errand}/export"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/views",
            format!("/v1/instances/{errand}/views"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/views/{name}",
            format!("/v1/instances/{errand}/views/progress"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/queries",
            format!("/v1/instances/{errand}/queries"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/queries/{name}",
            format!("/v1/instances/{errand}/queries/doings"),
            json!({"about": null}),
        ),
        (
            "get",
            "/v1/instances/{id}/wait",
            format!("/v1/instances/{waits}/wait?timeout_ms=1"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/children",
            format!("/v1/instances/{parent}/children"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/tree",
            format!("/v1/instances/{parent}/tree"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/operations",
            format!("/v1/instances/{ended}/operations"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/signals",
            format!("/v1/instances/{parent}/signals"),
            json!({"name": "n", "payload": [1], "dedup_key": "d"}),
        ),
        (
            "post",
            "/v1/instances/{id}/signals",
            format!("/v1/instances/{parent}/signals"),
            json!({"name": "n", "payload": [1], "dedup_key": "d"}),
        ),
        (
            "get",
            "/v1/instances/{id}/signals",
            format!("/v1/instances/{parent}/signals"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/updates/{update}",
            format!("/v1/instances/{shelf}/updates/take_books?id=u"),
            json!({"books": 1}),
        ),
        (
            "post",
            "/v1/instances/{id}/updates/{update}",
            format!("/v1/instances/{shelf}/updates/take_books"),
            json!({"books": 0}),
        ),
        (
            "post",
            "/v1/instances/{id}/updates/{update}",
            format!("/v1/instances/{parent}/updates/unknown?timeout_ms=0"),
            json!({}),
        ),
        (
            "get",
            "/v1/instances/{id}/updates/{update}",
            format!("/v1/instances/{shelf}/updates/u?timeout_ms=1"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/history",
            format!("/v1/instances/{shelf}/history"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/retry",
            format!("/v1/instances/{failed}/retry"),
            json!({"reason": "again"}),
        ),
        (
            "post",
            "/v1/instances/{id}/retry",
            format!("/v1/instances/{waits}/retry"),
            json!({}),
        ),
        (
            "post",
            "/v1/instances/{id}/repair",
            format!("/v1/instances/{waits}/repair"),
            json!({"reason": "test"}),
        ),
        (
            "get",
            "/v1/machines/{machine}/keys/{key}",
            "/v1/machines/checkout/keys/order:1".into(),
            Value::Null,
        ),
        (
            "post",
            "/v1/machines/{machine}/keys/{key}/signals",
            "/v1/machines/checkout/keys/order:1/signals".into(),
            json!({"name": "other"}),
        ),
        (
            "post",
            "/v1/machines/{machine}/keys/{key}/updates/{update}",
            "/v1/machines/checkout/keys/order:1/updates/x?timeout_ms=0".into(),
            json!({}),
        ),
        (
            "post",
            "/v1/webhooks/{name}",
            "/v1/webhooks/shop".into(),
            json!(signed_body),
        ),
        (
            "get",
            "/v1/instances/{id}/family",
            format!("/v1/instances/{parent}/family"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/cancel",
            format!("/v1/instances/{asked}/cancel"),
            json!({"reason": "test"}),
        ),
        (
            "get",
            "/v1/instances/{id}",
            format!("/v1/instances/{asked}"),
            Value::Null,
        ),
        (
            "post",
            "/v1/instances/{id}/terminate",
            format!("/v1/instances/{parent}/terminate"),
            json!({"tree": true}),
        ),
        (
            "get",
            "/v1/instances/{id}/close_actions",
            format!("/v1/instances/{closed}/close_actions"),
            Value::Null,
        ),
        (
            "get",
            "/v1/instances/{id}/tree",
            format!("/v1/instances/{closed}/tree"),
            Value::Null,
        ),
        (
            "delete",
            "/v1/instances/{id}",
            format!("/v1/instances/{ended}"),
            Value::Null,
        ),
        (
            "post",
            "/v1/bulk/{verb}",
            "/v1/bulk/cancel".into(),
            json!({"filter": {}, "dry_run": true}),
        ),
        (
            "post",
            "/v1/bulk/{verb}",
            "/v1/bulk/retry".into(),
            json!({"filter": {"status": ["failed"]}}),
        ),
        ("get", "/v1/queues", "/v1/queues".into(), Value::Null),
        (
            "post",
            "/v1/queues/{queue}/pause",
            "/v1/queues/q/pause".into(),
            json!({"force": true}),
        ),
        (
            "post",
            "/v1/queues/{queue}/resume",
            "/v1/queues/q/resume".into(),
            json!({}),
        ),
        ("get", "/v1/workers", "/v1/workers".into(), Value::Null),
        ("get", "/v1/machines", "/v1/machines".into(), Value::Null),
        (
            "get",
            "/v1/machines/{machine}",
            "/v1/machines/checkout".into(),
            Value::Null,
        ),
        (
            "get",
            "/v1/machines/{machine}/keys/{key}/wait",
            "/v1/machines/checkout/keys/order:1/wait?timeout_ms=1".into(),
            Value::Null,
        ),
        (
            "post",
            "/v1/machines/{machine}/keys/{key}/cancel",
            "/v1/machines/checkout/keys/order:1/cancel".into(),
            json!({"tree": true}),
        ),
        (
            "post",
            "/v1/machines/{machine}/keys/{key}/terminate",
            "/v1/machines/checkout/keys/order:1/terminate".into(),
            json!({"tree": true}),
        ),
        ("get", "/v1/overview", "/v1/overview".into(), Value::Null),
        ("get", "/healthz", "/healthz".into(), Value::Null),
        ("get", "/readyz", "/readyz".into(), Value::Null),
        (
            "get",
            "/v1/openapi.json",
            "/v1/openapi.json".into(),
            Value::Null,
        ),
    ];
    let mut answered = BTreeSet::new();
    for (method, path, address, body) in questions {
        let text = body
            .as_str()
            .map_or_else(|| body.to_string(), str::to_owned);
        let mut request = api.request(
            method.to_uppercase().parse().unwrap(),
            &address,
            if body.is_null() {
                Body::empty()
            } else {
                Body::from(text)
            },
        );
        let headers = request.headers_mut();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("webhook-id", "m".parse().unwrap());
        headers.insert("webhook-timestamp", at.to_string().parse().unwrap());
        headers.insert(
            "webhook-signature",
            secret
                .sign("m", at, signed_body.as_bytes())
                .parse()
                .unwrap(),
        );
        let answer = api.send(request).await;
        check(
            &document,
            path,
            method,
            answer.status.as_u16(),
            &answer.json(),
        );
        if answer.status.is_success() {
            answered.insert((method.to_owned(), path.to_owned()));
        }
    }
    engine.shutdown().await.unwrap();

    // Every route has answered. The two routes without JSON have tests of their own.
    let mut documented = routes(&document);
    for elsewhere in [("get", "/v1/events"), ("get", "/metrics")] {
        assert!(documented.remove(&(elsewhere.0.to_owned(), elsewhere.1.to_owned())));
    }
    assert_eq!(answered, documented);
}

/// Starts a team, and returns its id once the end of the team has a close action on a child.
async fn closed_team(api: &ApiClient) -> String {
    let plan = json!({"children": ["done", "wait"], "quorum": 1, "window": 5, "deadline_ms": 60_000, "on_close": "terminate"});
    let team = json!({"machine": "team", "step": "begin", "state": plan});
    let id = api.post("/v1/instances", team).await.ok()["id"].clone();
    let id = id.as_str().unwrap().to_owned();
    let close_actions = format!("/v1/instances/{id}/close_actions");
    eventually("the child has a close action", async || {
        !api.get(&close_actions).await.ok()["close_actions"]
            .as_array()
            .unwrap()
            .is_empty()
    })
    .await;
    id
}

fn routes(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .keys()
                .map(|method| (method.clone(), path.clone()))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_router_serves_the_documented_routes_and_no_other_methods() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let document = api.get("/v1/openapi.json").await.ok();
    let documented = routes(&document);
    let paths: BTreeSet<_> = documented.iter().map(|(_, path)| path.clone()).collect();
    for path in &paths {
        let address = path
            .replace("{id}", "1")
            .replace("{machine}", "m")
            .replace("{key}", "k");
        let address = address
            .replace("{queue}", "q")
            .replace("{name}", "n")
            .replace("{update}", "u")
            .replace("{verb}", "retry");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let is_documented = documented.contains(&(method.to_lowercase(), path.clone()));
            // A stream never ends by itself.
            if is_documented && path == "/v1/events" {
                continue;
            }
            let request = api.request(method.parse::<Method>().unwrap(), &address, Body::empty());
            let answer = api.send(request).await;
            assert_eq!(
                answer.status != 405,
                is_documented,
                "{method} {address}: {answer:?}"
            );
            if answer.status == 404 {
                assert!(!answer.text.contains("no route "), "{address} has no route");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_http_guide_lists_every_route_and_no_other() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let document = api.get("/v1/openapi.json").await.ok();
    let page = include_str!("../../../../../docs/http.md");
    let written: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter_map(|route| route.split_once(' '))
        .map(|(method, path)| (method.to_lowercase(), path.to_owned()))
        .collect();
    assert_eq!(written, routes(&document));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_query_parameter_is_accepted() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let id = api.insert("m", "default").await;
    let document = api.get("/v1/openapi.json").await.ok();
    let mut asked = 0;
    for (method, path) in routes(&document) {
        if path == "/v1/events" {
            continue;
        }
        let operation = &document["paths"][&path][&method];
        let empty = Vec::new();
        for parameter in operation["parameters"].as_array().unwrap_or(&empty) {
            if parameter["in"] != "query" {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            let mut address = format!("{}?{name}=1", path.replace("{id}", &id));
            // No wait of this test is met.
            if name != "timeout_ms" && parameters(operation, "query").any(|it| it == "timeout_ms") {
                address += "&timeout_ms=1";
            }
            let answer = api
                .send(api.request(
                    method.to_uppercase().parse().unwrap(),
                    &address,
                    Body::empty(),
                ))
                .await;
            assert!(
                !answer.text.contains("unknown parameter"),
                "{address}: {answer:?}"
            );
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
}

/// Client generators and OpenAPI validators require these fields.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_and_every_response_is_described() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let document = api.get("/v1/openapi.json").await.ok();
    let mut ids = BTreeSet::new();
    for (method, path) in routes(&document) {
        let operation = &document["paths"][&path][&method];
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let id = text(&operation["operationId"]);
        assert!(!id.is_empty(), "{method} {path} has no operationId");
        assert!(ids.insert(id.clone()), "two operations are called {id}");
        assert!(!text(&operation["summary"]).is_empty(), "{id}: no summary");
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{id}");

        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')));
        for (status, response) in responses {
            let described = text(&response["description"]);
            assert!(!described.is_empty(), "{id}: {status} has no description");
            let content = response["content"].as_object().unwrap();
            assert_eq!(content.len(), 1, "{id}: {status}");
        }
        let declared: BTreeSet<_> = parameters(operation, "path").collect();
        let in_path = path.split(['{', '}']).skip(1).step_by(2);
        assert_eq!(declared, in_path.map(str::to_owned).collect(), "{id}");
    }
    assert!(ids.len() > 30, "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_schema_is_described_and_referenced_and_no_other_is_referenced() {
    let api = ApiClient::new(Sqlite::in_memory().unwrap());
    let document = api.get("/v1/openapi.json").await.ok();
    let mut referred = BTreeSet::new();
    references(&document, &mut referred);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let stored: BTreeSet<_> = schemas
        .keys()
        .map(|name| format!("#/components/schemas/{name}"))
        .collect();
    assert_eq!(referred, stored);
    for (name, schema) in schemas {
        // A schema without a description is a Rust type that is in the document by mistake.
        let described = schema["description"].as_str().unwrap_or_default();
        assert!(!described.is_empty(), "{name} has no description");
    }
}

/// Of two types that share a name, the document would contain only one.
#[test]
fn no_two_types_share_a_schema_name() {
    let mut names = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split("#[schema(as = ").skip(1) {
                let name = rest.split(')').next().unwrap().to_owned();
                assert!(names.insert(name.clone()), "two types are called {name}");
            }
        }
    }
    assert!(names.len() > 40, "only {} names", names.len());
}

fn parameters<'a>(operation: &'a Value, place: &'a str) -> impl Iterator<Item = String> + 'a {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.filter(move |parameter| parameter["in"] == place)
        .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            into.extend(reference.map(str::to_owned));
            members.values().for_each(|value| references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
