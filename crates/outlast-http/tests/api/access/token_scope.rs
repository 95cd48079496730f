//! Tokens with a scope: instances outside it seem not to exist.

use crate::support::{ApiClient, eventually, on_both_stores, running};
use outlast_core::{Inspect, Store};
use outlast_http::{Role, Settings, Token};
use serde_json::{Value, json};

on_both_stores![
    instances_outside_the_token_scope_cannot_be_read_or_changed,
    lists_and_counts_contain_only_instances_in_the_token_scope,
    a_scoped_token_inserts_only_within_its_scope,
    the_holder_of_a_key_outside_the_token_scope_is_not_revealed,
    a_scoped_token_sees_only_its_queues_and_workers,
    the_overview_counts_only_instances_in_the_token_scope,
];

struct Tenants {
    everything: ApiClient,
    /// Its scope is machine `a` in any queue.
    of_machine: ApiClient,
    /// Its scope is queue `qa` with any machine.
    of_queue: ApiClient,
    /// Its scope is machines `a` and `c` in queues `qa` and `qc`.
    of_both: ApiClient,
}

fn tenants<S: Store + Inspect + Clone>(store: S) -> Tenants {
    let make = |name: &str| Token::generate(name, Role::Admin).unwrap();
    let (all, machine, queue, both) = (make("all"), make("machine"), make("queue"), make("both"));
    let settings = Settings::new()
        .token(all.1)
        .token(machine.1.machines(["a"]))
        .token(queue.1.queues(["qa"]))
        .token(both.1.machines(["a", "c"]).queues(["qa", "qc"]))
        .metrics(|| "figures 1\n".into());
    let api = ApiClient::with(store, settings);
    Tenants {
        everything: api.token(&all.0),
        of_machine: api.token(&machine.0),
        of_queue: api.token(&queue.0),
        of_both: api.token(&both.0),
    }
}

async fn instances_outside_the_token_scope_cannot_be_read_or_changed<S: Store + Inspect + Clone>(
    store: S,
) {
    let tenants = tenants(store);
    let foreign = tenants.everything.insert("b", "qb").await;
    let path = format!("/v1/instances/{foreign}");
    tenants
        .everything
        .post(
            &format!("{path}/signals"),
            json!({"name": "x", "payload": "secret"}),
        )
        .await
        .ok();
    for api in [&tenants.of_machine, &tenants.of_queue, &tenants.of_both] {
        for look in [
            "",
            "/signals",
            "/wait?timeout_ms=1",
            "/children",
            "/tree",
            "/family",
            "/close_actions",
            "/operations",
            "/history",
            "/calls",
            "/runs",
            "/export",
            "/views",
            "/views/x?wait_after=0&timeout_ms=1",
            "/queries",
            "/updates/u",
        ] {
            let answer = api.get(&format!("{path}{look}")).await;
            assert_eq!(answer.code(), "not_found", "{look}");
            // The answer is the same as for an instance that does not exist.
            let missing = api.get(&format!("/v1/instances/999999{look}")).await;
            assert_eq!(
                answer.text.replace(&foreign, "N"),
                missing.text.replace("999999", "N")
            );
        }
        for touch in ["/retry", "/repair", "/cancel", "/terminate", "/queries/x"] {
            assert_eq!(
                api.post(&format!("{path}{touch}"), json!({})).await.code(),
                "not_found"
            );
        }
        for touch in ["/cancel", "/terminate"] {
            let tree = json!({"tree": true});
            assert_eq!(
                api.post(&format!("{path}{touch}"), tree).await.code(),
                "not_found"
            );
        }
        assert_eq!(api.delete(&path).await.code(), "not_found");
        let signal = json!({"name": "x"});
        assert_eq!(
            api.post(&format!("{path}/signals"), signal).await.code(),
            "no_target"
        );
        assert_eq!(
            api.post(&format!("{path}/updates/x"), json!(1))
                .await
                .code(),
            "no_target"
        );
        for verb in ["cancel", "terminate", "retry", "delete", "repair"] {
            let bulk = api
                .post(&format!("/v1/bulk/{verb}"), json!({"filter": {}}))
                .await
                .ok();
            assert_eq!(bulk["matched"], 0);
            let bulk = api
                .post(
                    &format!("/v1/bulk/{verb}"),
                    json!({"filter": {"machine": "b"}, "dry_run": true}),
                )
                .await
                .ok();
            assert_eq!(bulk["count"], 0);
        }
        assert_eq!(api.get("/metrics").await.code(), "forbidden");
    }
    let untouched = tenants.everything.get(&path).await.ok();
    assert_eq!(
        (&untouched["status"], &untouched["revision"]),
        (&json!("runnable"), &json!(0))
    );
    assert_eq!(untouched["cancel"], Value::Null);
}

async fn lists_and_counts_contain_only_instances_in_the_token_scope<S: Store + Inspect + Clone>(
    store: S,
) {
    let tenants = tenants(store);
    for (machine, queue) in [
        ("a", "qa"),
        ("a", "qb"),
        ("b", "qa"),
        ("b", "qb"),
        ("c", "qc"),
        ("c", "qb"),
        ("a", "qa"),
    ] {
        tenants.everything.insert(machine, queue).await;
    }
    for (api, query, expected) in [
        (&tenants.everything, "", 7),
        (&tenants.of_machine, "", 3),
        (&tenants.of_machine, "queue=qa", 2),
        (&tenants.of_machine, "machine=b", 0),
        (&tenants.of_queue, "", 3),
        (&tenants.of_queue, "machine=b", 1),
        (&tenants.of_queue, "queue=qb", 0),
        (&tenants.of_both, "", 3),
        (&tenants.of_both, "machine=c", 1),
        (&tenants.of_both, "machine=b", 0),
    ] {
        let counted = api.get(&format!("/v1/instances/count?{query}")).await.ok();
        assert_eq!(counted["count"], expected, "{query}");
        let (mut seen, mut cursor) = (0, String::new());
        loop {
            let page = api
                .get(&format!("/v1/instances?{query}&limit=2{cursor}"))
                .await
                .ok();
            seen += page["instances"].as_array().unwrap().len();
            let Some(next) = page["next"].as_str() else {
                break;
            };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, expected, "{query}");
    }
    let dry = tenants
        .of_both
        .post("/v1/bulk/terminate", json!({"filter": {}, "dry_run": true}))
        .await
        .ok();
    assert_eq!(dry["count"], 3);
    let done = tenants
        .of_both
        .post("/v1/bulk/terminate", json!({"filter": {}}))
        .await
        .ok();
    assert_eq!(done["changed"], 3);
    assert_eq!(
        tenants
            .everything
            .get("/v1/instances/count?status=runnable")
            .await
            .ok()["count"],
        4
    );
}

async fn a_scoped_token_inserts_only_within_its_scope<S: Store + Inspect + Clone>(store: S) {
    let tenants = tenants(store);
    let new = |machine: &str, queue: &str| json!({"machine": machine, "queue": queue, "step": "s", "version": 1});
    for (api, machine, queue, allowed) in [
        (&tenants.of_machine, "a", "any", true),
        (&tenants.of_machine, "b", "any", false),
        (&tenants.of_queue, "any", "qa", true),
        (&tenants.of_queue, "any", "qb", false),
        (&tenants.of_both, "a", "qc", true),
        (&tenants.of_both, "a", "qb", false),
        (&tenants.of_both, "b", "qa", false),
    ] {
        let answer = api.post("/v1/instances", new(machine, queue)).await;
        assert_eq!(
            answer.status == 201,
            allowed,
            "{machine} {queue}: {answer:?}"
        );
        if !allowed {
            assert_eq!(answer.code(), "forbidden");
        }
        let batch = api
            .post(
                "/v1/instances/batch",
                json!({"instances": [new(machine, queue)]}),
            )
            .await
            .ok();
        assert_eq!(batch["instances"][0]["error"].is_null(), allowed);
    }
    // The default queue is outside the scope.
    let unnamed = tenants
        .of_queue
        .post("/v1/instances", json!({"machine": "a", "step": "s"}))
        .await;
    assert_eq!(unnamed.code(), "forbidden");
}

async fn the_holder_of_a_key_outside_the_token_scope_is_not_revealed<S: Store + Inspect + Clone>(
    store: S,
) {
    let tenants = tenants(store);
    let new = |queue: &str| json!({"machine": "a", "queue": queue, "step": "s", "key": "order"});
    let held = tenants
        .everything
        .post("/v1/instances", new("qb"))
        .await
        .ok();
    let answer = tenants.of_queue.post("/v1/instances", new("qa")).await;
    assert_eq!(answer.code(), "conflict");
    assert_eq!(
        answer.json()["detail"],
        "another instance holds the key \"order\""
    );
    let batch = tenants
        .of_queue
        .post("/v1/instances/batch", json!({"instances": [new("qa")]}))
        .await
        .ok();
    assert_eq!(batch["instances"][0]["error"]["code"], "conflict");
    assert_eq!(
        tenants
            .of_queue
            .get("/v1/machines/a/keys/order")
            .await
            .code(),
        "not_found"
    );
    let signal = tenants
        .of_queue
        .post("/v1/machines/a/keys/order/signals", json!({"name": "x"}))
        .await;
    assert_eq!(signal.code(), "no_target");
    let updating = "/v1/machines/a/keys/order/updates/x?timeout_ms=0";
    let update = tenants.of_queue.post(updating, json!({})).await;
    assert_eq!(update.code(), "no_target");
    let update = tenants.of_machine.post(updating, json!({})).await;
    assert_eq!(update.status, 202);
    assert_eq!(update.json()["instance"], held["id"]);
    assert_eq!(
        tenants
            .of_machine
            .get("/v1/machines/a/keys/order")
            .await
            .ok()["id"],
        held["id"]
    );
    let sent = tenants
        .of_machine
        .post("/v1/machines/a/keys/order/signals", json!({"name": "x"}))
        .await
        .ok();
    assert_eq!(sent["instance"], held["id"]);
}

async fn a_scoped_token_sees_only_its_queues_and_workers<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone()).await;
    let tenants = tenants(store);
    for (machine, queue) in [("a", "qa"), ("b", "qa"), ("b", "qb")] {
        tenants.everything.insert(machine, queue).await;
    }
    let names = |body: &Value| -> Vec<String> {
        body["queues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|queue| queue["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = tenants.everything.get("/v1/queues").await.ok();
    // The queues of the engine are shown even when they are empty.
    assert_eq!(names(&all), ["default", "other", "qa", "qb"]);
    let some = tenants.of_queue.get("/v1/queues").await.ok();
    assert_eq!(names(&some), ["qa"]);
    assert_eq!(some["queues"][0]["eligible"]["count"], 2);
    let mine = tenants.of_machine.get("/v1/queues").await.ok();
    assert_eq!(names(&mine), ["qa"]);
    assert_eq!(mine["queues"][0]["eligible"]["count"], 1);

    // A pause needs the whole queue in the scope, because it stops every machine in the queue.
    for (api, queue, allowed) in [
        (&tenants.of_queue, "qa", true),
        (&tenants.of_queue, "qb", false),
        (&tenants.of_machine, "qa", false),
        (&tenants.of_both, "qa", false),
    ] {
        for verb in ["pause", "resume"] {
            let answer = api
                .post(&format!("/v1/queues/{queue}/{verb}"), json!({}))
                .await;
            assert_eq!(answer.status == 200, allowed, "{verb} {queue}");
        }
    }
    // The engine serves no queue and no machine of these scopes.
    assert_eq!(
        tenants.everything.get("/v1/workers").await.ok()["workers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for api in [&tenants.of_queue, &tenants.of_machine, &tenants.of_both] {
        assert_eq!(api.get("/v1/workers").await.ok()["workers"], json!([]));
    }
    engine.shutdown().await.unwrap();
}

async fn the_overview_counts_only_instances_in_the_token_scope<S: Store + Inspect + Clone>(
    store: S,
) {
    let tenants = tenants(store);
    for (machine, queue) in [("a", "qa"), ("b", "qa"), ("b", "qb"), ("c", "qc")] {
        tenants.everything.insert(machine, queue).await;
    }
    for (api, expected) in [
        (&tenants.everything, 4),
        (&tenants.of_machine, 1),
        (&tenants.of_queue, 2),
        (&tenants.of_both, 2),
    ] {
        eventually("all are counted", async || {
            api.get("/v1/overview").await.ok()["counts"]["runnable"] == expected
        })
        .await;
    }
    let queues = |body: Value| -> Vec<String> {
        let attention = body["attention"].as_array().unwrap().clone();
        attention
            .iter()
            .filter(|item| item["kind"] == "unserved_queue")
            .map(|item| item["filter"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        queues(tenants.everything.get("/v1/overview").await.ok()).len(),
        3
    );
    assert_eq!(
        queues(tenants.of_queue.get("/v1/overview").await.ok()),
        ["queue=qa&status=runnable"]
    );
    assert_eq!(
        queues(tenants.of_machine.get("/v1/overview").await.ok()).len(),
        0
    );
    let machines = |body: Value| -> Vec<Value> {
        body["machines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].clone())
            .collect()
    };
    assert_eq!(
        machines(tenants.of_machine.get("/v1/machines").await.ok()),
        ["a"]
    );
    assert_eq!(
        machines(tenants.of_queue.get("/v1/machines").await.ok()).len(),
        0
    );
    assert_eq!(
        tenants.of_machine.get("/v1/machines/b").await.code(),
        "not_found"
    );
}
