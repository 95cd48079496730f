//! The commands `insert` and `signal`.

use crate::support::{LONG, Site, on_both_databases};
use outlast::store::Target;
use outlast::{InstanceId, Status};
use serde_json::json;

on_both_databases!(
    an_instance_is_inserted_with_every_given_option,
    a_state_comes_from_stdin_and_keeps_big_numbers,
    an_insert_with_an_occupied_key_returns_its_holder,
    a_signal_finishes_an_instance,
    a_repeated_signal_is_a_duplicate_and_a_missing_target_is_not_found,
    a_key_of_any_bytes_is_given_and_shown_in_hexadecimal,
);

async fn a_key_of_any_bytes_is_given_and_shown_in_hexadecimal(site: &Site) {
    let insert = [
        "insert",
        "checkout",
        "start",
        "--key-hex",
        "00FF",
        "--partition-key-hex",
        "0a",
    ];
    let id = site.run(insert).succeeds().line();
    assert!(site.run(insert).succeeds().err().contains("holds the key"));
    let text = ["insert", "checkout", "start", "--key", r"\x00ff"];
    let other = site.run(text).succeeds().line();
    assert_ne!(id, other);

    let seen = site.run(["get", r"checkout\x00ff", "-o", "json"]);
    let seen = seen.succeeds().json();
    let it = &seen["instance"];
    assert_eq!((&it["id"], &it["key"]), (&json!(id), &json!(r"\x00ff")));
    assert_eq!(
        (&it["key_hex"], &it["partition_key_hex"]),
        (&json!("00ff"), &json!("0a"))
    );
    let seen = site.run(["get", r"checkout/\x00ff", "-o", "json"]);
    assert_eq!(seen.succeeds().json()["instance"]["id"], json!(other));
    let shown = site.run(["get", &id]).succeeds();
    assert!(
        shown.out().contains(r"key            \x00ff"),
        "{}",
        shown.out()
    );

    for filter in [["--key-hex", r"\x00ff"], ["--partition-key-hex", "0A"]] {
        let listed = site.run(["list", filter[0], filter[1], "-o", "ids"]);
        assert_eq!(listed.succeeds().line(), id);
    }
    let signal = ["signal", r"checkout\x00ff", "go", "--dedup-hex", "ff"];
    assert_eq!(site.run(signal).succeeds().line(), "delivered");
    assert_eq!(site.run(signal).succeeds().line(), "duplicate");

    let refused = site.run(["insert", "checkout", "start", "--key", "a\nb"]);
    assert!(
        refused.err().contains("in hexadecimal"),
        "{}",
        refused.err()
    );
    let refused = site.run(["insert", "checkout", "start", "--key-hex", "0"]);
    assert!(refused.err().contains("two digits"), "{}", refused.err());
}

async fn an_instance_is_inserted_with_every_given_option(site: &Site) {
    let ran = site
        .run([
            "insert",
            "checkout",
            "start",
            "-p",
            "order=42",
            "-p",
            "amount:=100",
            "--key",
            "order:42",
            "--queue",
            "mail",
            "--priority",
            "-3",
            "--delay",
            "1h",
            "--partition-key",
            "ada",
            "--machine-version",
            "2",
            "--timeout",
            "2h",
            "--run-timeout",
            "90m",
        ])
        .succeeds();
    let id = ran.line();
    let message = format!("inserted instance {id}; it runs step start at ");
    assert!(ran.err().starts_with(&message), "{}", ran.err());
    let seen = site
        .run(["get", "checkout/order:42", "-o", "json"])
        .succeeds()
        .json();
    let it = &seen["instance"];
    assert_eq!(it["id"], json!(id));
    assert_eq!(it["state"], json!({"order": "42", "amount": 100}));
    assert_eq!(
        (&it["queue"], &it["priority"]),
        (&json!("mail"), &json!(-3))
    );
    assert_eq!(
        (&it["version"], &it["partition_key"]),
        (&json!(2), &json!("ada"))
    );
    let waiting = it["waiting"].as_str().unwrap();
    assert!(waiting.starts_with("runs step start at "), "{waiting}");
    assert!(waiting.contains("; it fails as timed out at "), "{waiting}");
    assert!(it["timeout_at"].as_str() > it["run_timeout_at"].as_str());
    let facts = site.run(["get", "checkout/order:42"]).succeeds().out();
    assert!(facts.contains("run times out"), "{facts}");
    let none = site.run(["insert", "checkout", "start", "--timeout", "0s"]);
    assert!(none.ends_with(2).err().contains("timeout is zero"));
}

async fn a_state_comes_from_stdin_and_keeps_big_numbers(site: &Site) {
    let state = r#"{"big": 123456789012345678901234567890, "price": 1.10}"#;
    let ran = site
        .run_with(["insert", "checkout", "start", "--state", "-"], state)
        .succeeds();
    let stored = site.run(["get", &ran.line(), "--state"]).succeeds();
    assert_eq!(stored.line(), state);
}

async fn an_insert_with_an_occupied_key_returns_its_holder(site: &Site) {
    let insert = [
        "insert", "checkout", "start", "--key", "order:42", "-o", "json",
    ];
    let first = site.run(insert).succeeds().json();
    let second = site.run(insert).succeeds();
    assert_eq!(second.json(), json!({"id": first["id"], "created": false}));
    assert!(second.err().contains("holds the key"), "{}", second.err());
    assert_eq!(site.run(["count"]).succeeds().line(), "1");
}

async fn a_signal_finishes_an_instance(site: &Site) {
    let engine = site.engine().await;
    let id = site
        .run(["insert", "clerk", "park", "-p", "number:=7", "--key", "k"])
        .succeeds()
        .line();
    let id = InstanceId(id.parse().unwrap());
    let parked = engine
        .admin()
        .wait_settled(Target::Id(id), LONG)
        .await
        .unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    let seen = site.run(["get", &id.to_string()]).succeeds().out();
    assert!(
        seen.starts_with(&format!("instance {id} waits for signal paid until ")),
        "{seen}"
    );
    let sent = site
        .run(["signal", "clerk/k", "paid", "-p", "amount:=100"])
        .succeeds();
    assert_eq!(sent.line(), "delivered");
    engine
        .admin()
        .wait_ended(Target::Id(id), LONG)
        .await
        .unwrap();
    assert_eq!(
        site.run(["get", &id.to_string(), "--result"])
            .succeeds()
            .line(),
        "7"
    );
    // An ended instance accepts no signal.
    site.run(["signal", &id.to_string(), "paid"]).ends_with(4);
    engine.stop().await;
}

async fn a_repeated_signal_is_a_duplicate_and_a_missing_target_is_not_found(site: &Site) {
    let id = site.run(["insert", "checkout", "start"]).succeeds().line();
    let send = ["signal", &id, "paid", "--dedup", "evt-7", "-o", "json"];
    assert_eq!(
        site.run(send).succeeds().json()["delivery"],
        json!("delivered")
    );
    assert_eq!(
        site.run(send).succeeds().json()["delivery"],
        json!("duplicate")
    );
    let missing = site.run(["signal", "4711", "paid"]).ends_with(3);
    assert!(
        missing.err().contains("instance 4711 does not exist"),
        "{}",
        missing.err()
    );
    assert_eq!(missing.out(), "");
    site.run(["signal", "checkout/nobody", "paid"]).ends_with(3);
}
