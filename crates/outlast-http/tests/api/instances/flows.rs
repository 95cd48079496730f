//! Workflows: their open waits, histories and runs.

use crate::support::{ApiClient, eventually, on_both_stores, running};
use outlast::workflow::ExportedRun;
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};

on_both_stores![
    a_workflow_shows_its_run_and_its_open_waits,
    a_group_with_a_window_shows_running_and_held_children,
    a_wait_for_many_children_shows_the_number_of_open_calls,
    a_history_is_read_page_by_page,
    earlier_runs_are_listed_and_exported,
    a_blocked_workflow_shows_the_expected_and_the_found_call,
    blocked_workflows_need_attention_and_can_be_listed,
    a_timeline_ends_with_the_policies_that_were_applied,
    children_are_listed_call_by_call,
    a_request_for_a_missing_history_is_refused,
    a_machine_without_a_history_says_so,
];

/// Starts an errand, and returns its id once it waits for its approval.
pub(crate) async fn errand(api: &ApiClient, checks: &[&str], repeats: u32) -> String {
    let errand = json!({"note": "<b>fragile</b>", "parcels_ms": [1, 1], "checks": checks, "repeats": repeats});
    let new = json!({"machine": "fulfil", "step": "run", "state": errand, "key": "errand:1"});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    waits_for_approval(api, &id, 1, checks).await;
    id
}

async fn waits_for_approval(api: &ApiClient, id: &str, run: i32, checks: &[&str]) {
    let open = 2 + checks.iter().filter(|&&what| what == "wait").count();
    eventually("it waits for its approval", async || {
        let it = api.get(&format!("/v1/instances/{id}")).await.ok();
        let waits = it["flow"]["waits"].as_array().cloned().unwrap_or_default();
        let has_signal = waits.iter().any(|wait| wait["kind"] == "signal");
        it["run"] == run && has_signal && waits.len() == open && it["status"] != "executing"
    })
    .await;
}

async fn approve(api: &ApiClient, id: &str) {
    let signal = json!({"name": "approved", "payload": {"by": "Ada"}});
    api.post(&format!("/v1/instances/{id}/signals"), signal)
        .await
        .ok();
}

async fn a_workflow_shows_its_run_and_its_open_waits<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["wait", "done"], 0).await;
    let it = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!(it["run"], 1);
    assert!(it["events"].as_i64().unwrap() > 10, "{it}");
    let flow = &it["flow"];
    assert_eq!(
        (&flow["open"], &flow["complete"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(flow["blocked"], Value::Null);
    // The workflow has handled one failure, which is listed.
    assert_eq!(flow["handled_count"], 1);
    let survived = &flow["handled"][0];
    assert_eq!(
        (&survived["name"], &survived["reason"]),
        (&json!("insure"), &json!("too fragile to be insured"))
    );
    let group = &flow["groups"][0];
    assert_eq!(group["members"], "mixed");
    assert_eq!(group["window"], Value::Null);
    assert!(group["deadline"].is_string(), "{group}");
    assert_eq!(
        (&group["kind"], &group["size"], &group["open"]),
        (&json!("select"), &json!(4), &json!(3))
    );
    let wait = |kind: &str| {
        let waits = flow["waits"].as_array().unwrap();
        let found = waits.iter().find(|wait| wait["kind"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {flow}")).clone()
    };
    let signal = wait("signal");
    assert_eq!(
        (&signal["name"], &signal["target"], &signal["awaited"]),
        (&json!("approved"), &Value::Null, &json!(true))
    );
    let path = signal["group"]["path"].as_array().unwrap();
    assert_eq!(
        (path.len(), &path[0], &signal["group"]["index"]),
        (2, &group["call"], &json!(0))
    );
    assert!(wait("timer")["deadline"].is_string());
    let child = wait("child");
    assert_eq!(
        (&child["name"], &child["policy"], &child["target"]["status"]),
        (
            &json!("piece"),
            &json!("request_cancel"),
            &json!("awaiting_signal")
        )
    );
    let target = child["target"]["id"].as_str().unwrap();
    let piece = api.get(&format!("/v1/instances/{target}")).await.ok();
    assert_eq!(piece["parent"]["id"], json!(id));
    assert_eq!((&piece["run"], &piece["events"]), (&json!(1), &json!(0)));
    assert!(piece.get("flow").is_none(), "{piece}");
    let sentence = it["waiting"].as_str().unwrap();
    assert!(
        sentence.starts_with("waits for signal approved (call ")
            && sentence.contains(&format!("child piece {target} (call "))
            && sentence.contains(" until "),
        "{sentence}"
    );
    // A list contains the run and leaves out the open waits.
    let list = api.get("/v1/instances?machine=fulfil").await.ok();
    let listed = &list["instances"][0];
    assert_eq!(listed["events"], it["events"]);
    assert!(listed.get("flow").is_none());
    engine.shutdown().await.unwrap();
}

async fn a_group_with_a_window_shows_running_and_held_children<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new = json!({"machine": "crowd", "step": "run", "state": 3});
    let id = api.post("/v1/instances", new).await.ok()["id"].clone();
    let path = format!("/v1/instances/{}", id.as_str().unwrap());
    let mut it = Value::Null;
    eventually("two of three wait for a signal", async || {
        it = api.get(&path).await.ok();
        let waits = it["flow"]["waits"].as_array().cloned().unwrap_or_default();
        let parked = |wait: &&Value| wait["target"]["status"] == "awaiting_signal";
        waits.iter().filter(parked).count() == 2
    })
    .await;
    let group = &it["flow"]["groups"][0];
    assert_eq!(group["window"], json!({"running": 2, "held": 1}));
    assert_eq!(
        (&group["size"], &group["open"], &group["members"]),
        (&json!(3), &json!(3), &json!("children"))
    );
    let waits = it["flow"]["waits"].as_array().unwrap();
    let held: Vec<_> = waits.iter().map(|wait| &wait["held"]).collect();
    assert_eq!(held, [&json!(false), &json!(false), &json!(true)]);
    engine.shutdown().await.unwrap();
}

async fn a_wait_for_many_children_shows_the_number_of_open_calls<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let mut checks = vec!["wait"; 250];
    checks.push("done");
    let new = json!({"machine": "fulfil", "step": "run", "state": {"checks": checks}});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut it = Value::Null;
    // One child has ended and 250 wait for a signal. The workflow waits for its own signal, too,
    // until a timeout: 252 open calls.
    eventually("all but one are open", async || {
        it = api.get(&format!("/v1/instances/{id}")).await.ok();
        let parked = it["status"] == "awaiting_children";
        parked && it["flow"]["groups"][0]["open"] == 252
    })
    .await;
    let flow = &it["flow"];
    assert_eq!(flow["groups"][0]["size"], 253);
    assert_eq!(flow["complete"], false);
    assert_eq!(flow["waits"].as_array().unwrap().len(), 200);
    let sentence = it["waiting"].as_str().unwrap();
    assert!(
        sentence.starts_with("waits for 251 open calls of a group until "),
        "{sentence}"
    );
    engine.shutdown().await.unwrap();
}

async fn a_history_is_read_page_by_page<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["wait"], 0).await;
    let path = format!("/v1/instances/{id}/history");
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let page = api
            .get(&format!("{path}?limit=3&run=1&after={after}"))
            .await
            .ok();
        assert_eq!(page["run"], 1);
        let found = page["events"].as_array().unwrap();
        assert!(found.len() <= 3);
        events.extend(found.clone());
        match page["next"].as_i64() {
            Some(next) => after = next,
            None => break,
        }
    }
    let it = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!(json!(events.len()), it["events"]);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1, "{event}");
    }
    let whole = api.get(&format!("{path}?limit=200")).await.ok();
    assert_eq!(whole["events"], json!(events));
    let behind = api.get(&format!("{path}?after=9999")).await.ok();
    assert_eq!(
        (&behind["events"], &behind["next"]),
        (&json!([]), &Value::Null)
    );

    let of = |kind: &str| {
        let found = events.iter().find(|event| event["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).clone()
    };
    assert_eq!(of("step_completed")["data"]["result"], "<b>fragile</b>");
    let failed = of("activity_failed");
    assert_eq!(failed["reason"], "too fragile to be insured");
    let child = failed["child"].as_str().unwrap();
    let child = api.get(&format!("/v1/instances/{child}")).await.ok();
    assert_eq!(child["machine"], "insure");
    assert!(of("failure_handled")["reason"].is_string());
    let scheduled = of("child_scheduled");
    assert_eq!(
        (
            &scheduled["name"],
            &scheduled["policy"],
            &scheduled["group"]["size"]
        ),
        (&json!("label"), &json!("abandon"), &json!(3))
    );
    assert!(of("timer_scheduled")["deadline"].is_string());
    engine.shutdown().await.unwrap();
}

async fn earlier_runs_are_listed_and_exported<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &[], 1).await;
    approve(&api, &id).await;
    waits_for_approval(&api, &id, 2, &[]).await;
    let runs = api.get(&format!("/v1/instances/{id}/runs")).await.ok();
    assert_eq!(runs["present"], 2);
    let of = |run: usize| &runs["runs"][run - 1];
    assert_eq!(
        (&of(1)["run"], &of(1)["last"]),
        (&json!(1), &json!("continued_as_new"))
    );
    assert_eq!(of(2)["run"], 2);
    let first = api
        .get(&format!("/v1/instances/{id}/history?run=1&limit=200"))
        .await
        .ok();
    assert_eq!(
        json!(first["events"].as_array().unwrap().len()),
        of(1)["events"]
    );
    for (query, run, repeats) in [("?run=1", 1, 1), ("", 2, 0)] {
        let exported = api.get(&format!("/v1/instances/{id}/export{query}")).await;
        let history = ExportedRun::parse(&exported.text).unwrap();
        assert_eq!((history.run, &*history.workflow), (run, "fulfil"));
        assert_eq!(exported.json()["input"]["repeats"], repeats);
        assert_eq!(history.events[0].seq, 1);
    }
    approve(&api, &id).await;
    let ended = api.get(&format!("/v1/instances/{id}/wait")).await.ok();
    assert_eq!(ended["instance"]["status"], "done", "{ended}");
    let it = api.get(&format!("/v1/instances/{id}")).await.ok();
    assert_eq!(it["flow"]["waits"], json!([]));
    engine.shutdown().await.unwrap();
}

async fn a_blocked_workflow_shows_the_expected_and_the_found_call<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new = json!({"machine": "stuck", "step": "run", "state": null});
    let id = api.post("/v1/instances", new).await.ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut it = Value::Null;
    eventually("it is blocked", async || {
        it = api.get(&format!("/v1/instances/{id}")).await.ok();
        it["flow"]["blocked"].is_object() && it["status"] == "runnable"
    })
    .await;
    let blocked = &it["flow"]["blocked"];
    assert!(
        blocked["found"].as_str().unwrap().contains("flow.step"),
        "{blocked}"
    );
    let sentence = it["waiting"].as_str().unwrap();
    assert!(
        sentence.starts_with("is blocked: its history has "),
        "{sentence}"
    );
    let history = api.get(&format!("/v1/instances/{id}/history")).await.ok();
    let last = history["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "replay_blocked");
    assert_eq!(
        (&last["expected"], &last["found"]),
        (&blocked["expected"], &blocked["found"])
    );
    engine.shutdown().await.unwrap();
}

async fn blocked_workflows_need_attention_and_can_be_listed<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let new = json!({"machine": "stuck", "step": "run", "state": null});
    let id = api.post("/v1/instances", new).await.ok()["id"].clone();
    // This instance is not a workflow, so it is not counted.
    let other = api.insert("m", "nobody").await;
    let mut item = Value::Null;
    eventually("the blocked workflow needs attention", async || {
        let overview = api.get("/v1/overview").await.ok();
        let items = overview["attention"].as_array().cloned().unwrap();
        let found = items.into_iter().find(|item| item["kind"] == "blocked");
        item = found.unwrap_or_default();
        item.is_object()
    })
    .await;
    assert_eq!(
        (&item["count"], &item["exact"], &item["severity"]),
        (&json!(1), &json!(true), &json!("error"))
    );
    let filter = item["filter"].as_str().unwrap();
    let found = api.get(&format!("/v1/instances?{filter}")).await.ok();
    let found: Vec<_> = found["instances"].as_array().unwrap().clone();
    assert_eq!(found.len(), 1, "{found:?}, not {other}");
    assert_eq!(found[0]["id"], id);
    let error = found[0]["last_error"].as_str().unwrap();
    assert!(error.starts_with("blocked: "), "{error}");
    engine.shutdown().await.unwrap();
}

async fn a_timeline_ends_with_the_policies_that_were_applied<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["wait", "wait", "done"], 0).await;
    let terminate = format!("/v1/instances/{id}/terminate");
    api.post(&terminate, json!({})).await.ok();
    let path = format!("/v1/instances/{id}/history");
    let mut events = Vec::new();
    eventually("both close policies are applied", async || {
        let page = api.get(&format!("{path}?limit=200")).await.ok();
        events = page["events"].as_array().unwrap().clone();
        let applied = events.iter().filter(|it| it["kind"] == "policy_applied");
        applied.count() == 2
    })
    .await;
    let (history, applied) = events.split_at(events.len() - 2);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1, "{event}");
    }
    for entry in applied {
        assert_eq!(
            (&entry["kind"], &entry["policy"], &entry["name"]),
            (
                &json!("policy_applied"),
                &json!("request_cancel"),
                &json!("piece")
            )
        );
        assert_eq!(entry["reason"], format!("parent {id} ended as cancelled"));
        assert_eq!(entry["data"]["status_before"], "awaiting_signal");
        // The entry has the same call as the child's own origin.
        let child = entry["child"].as_str().unwrap();
        let child = api.get(&format!("/v1/instances/{child}")).await.ok();
        let origin = &child["origin"];
        assert_eq!(
            (&origin["call"], &origin["run"]),
            (&entry["call"], &json!(1))
        );
        let scheduled = &history[origin["seq"].as_u64().unwrap() as usize - 1];
        assert_eq!(scheduled["call"], entry["call"]);
        assert_eq!(scheduled["kind"], "child_scheduled");
        let reason = child["cancel"]["reason"].as_str().unwrap();
        assert!(
            reason.ends_with(&format!("parent {id} ended as cancelled")),
            "{reason}"
        );
    }
    // Reading page by page gives the same events.
    let (mut pages, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = api.get(&format!("{path}?limit=3&after={after}")).await.ok();
        pages.extend(page["events"].as_array().unwrap().clone());
        after = page["next"].clone();
    }
    assert_eq!(pages, events);
    let exported = api.get(&format!("/v1/instances/{id}/export")).await;
    assert_eq!(
        ExportedRun::parse(&exported.text).unwrap().policies.len(),
        2
    );
    assert_eq!(exported.json()["policies"][0]["kind"], "policy_applied");
    engine.shutdown().await.unwrap();
}

async fn children_are_listed_call_by_call<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &["wait"], 0).await;
    let path = format!("/v1/instances/{id}/calls");
    eventually("the last child waits as well", async || {
        api.get(&path).await.ok()["calls"][4]["status"] == "awaiting_signal"
    })
    .await;
    let page = api.get(&path).await.ok();
    assert_eq!((&page["run"], &page["next"]), (&json!(1), &Value::Null));
    let calls = page["calls"].as_array().unwrap();
    let summary = |call: &Value| {
        let words = ["machine", "status"].map(|it| call[it].as_str().unwrap().to_owned());
        (words, call["recorded"].as_bool().unwrap())
    };
    let expected = [
        ("insure", "failed", true),
        ("label", "done", true),
        ("pack", "done", true),
        ("pack", "done", true),
        ("piece", "awaiting_signal", false),
    ];
    let expected = expected.map(|(machine, status, is_recorded)| {
        ([machine.to_owned(), status.to_owned()], is_recorded)
    });
    assert_eq!(calls.iter().map(summary).collect::<Vec<_>>(), expected);
    assert_eq!(calls[0]["reason"], "too fragile to be insured");
    assert_eq!(calls[4]["policy"], "request_cancel");
    let first = api.get(&format!("{path}?limit=2")).await.ok();
    let rest = format!("{path}?limit=3&after={}", first["next"]);
    let rest = api.get(&rest).await.ok();
    let both = [&first["calls"], &rest["calls"]];
    let both: Vec<_> = both.iter().flat_map(|it| it.as_array().unwrap()).collect();
    assert_eq!(json!(both), page["calls"]);
    assert_eq!(rest["next"], Value::Null);
    engine.shutdown().await.unwrap();
}

async fn a_request_for_a_missing_history_is_refused<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let api = ApiClient::new(store);
    let id = errand(&api, &[], 0).await;
    for (query, code) in [
        ("history?run=x", "invalid_request"),
        ("history?run=0", "invalid_request"),
        ("history?run=-1", "invalid_request"),
        ("history?run=99999999999", "invalid_request"),
        ("history?after=-1", "invalid_request"),
        ("history?after=x", "invalid_request"),
        ("history?limit=0", "invalid_request"),
        ("history?limit=201", "invalid_request"),
        ("history?cursor=1", "invalid_request"),
        ("history?run=2", "no_history"),
        ("calls?run=0", "invalid_request"),
        ("calls?after=-1", "invalid_request"),
        ("calls?limit=201", "invalid_request"),
        ("calls?run=2", "no_history"),
        ("export?run=0", "invalid_request"),
        ("export?run=2", "no_history"),
        ("export?after=1", "invalid_request"),
    ] {
        let answer = api.get(&format!("/v1/instances/{id}/{query}")).await;
        assert_eq!(answer.code(), code, "{query}: {}", answer.text);
    }
    for path in ["history", "calls", "runs", "export"] {
        let missing = api.get(&format!("/v1/instances/99999/{path}")).await;
        assert_eq!(missing.code(), "not_found", "{path}");
        let nonsense = api.get(&format!("/v1/instances/x/{path}")).await;
        assert_eq!(nonsense.code(), "invalid_request", "{path}");
    }
    engine.shutdown().await.unwrap();
}

async fn a_machine_without_a_history_says_so<S: Store + Inspect + Clone>(store: S) {
    let api = ApiClient::new(store);
    let id = api.insert("m", "nobody").await;
    for path in ["history", "history?run=1", "calls", "export"] {
        let answer = api.get(&format!("/v1/instances/{id}/{path}")).await;
        assert_eq!(answer.code(), "no_history", "{path}");
        let sentence = "the machine records none";
        assert!(answer.text.contains(sentence), "{}", answer.text);
    }
    let runs = api.get(&format!("/v1/instances/{id}/runs")).await.ok();
    assert_eq!(runs, json!({"runs": [], "present": 1}));
}
