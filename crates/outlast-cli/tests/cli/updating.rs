//! `outlast update`: sends an update, and waits for the reply.

use crate::support::{Ran, Site, on_both_databases};
use serde_json::json;

on_both_databases!(
    an_update_prints_the_reply,
    an_update_that_is_sent_again_has_the_same_reply,
    each_update_without_a_value_has_its_exit_code,
    an_update_without_an_engine_is_pending_and_is_waited_on,
    an_update_is_marked_in_the_inbox,
);

fn shelf(site: &Site) -> String {
    let started = site.run(["insert", "shelf", "run", "--key", "s:1"]);
    started.succeeds().line()
}

async fn an_update_prints_the_reply(site: &Site) {
    let engine = site.engine().await;
    let id = shelf(site);
    let take = |target: &str| site.run(["update", target, "take_books", "-p", "books:=3"]);
    assert_eq!(take(&id).succeeds().line(), "3");
    assert_eq!(take("shelf/s:1").succeeds().line(), "6");
    let mut command = site.command(["update", &id, "take_books", "--state", r#"{"books": 1}"#]);
    command.args(["--id", "u-1", "-o", "json"]);
    let told = Ran::of(command).succeeds().json();
    let replied_at = told["replied_at"].clone();
    assert!(replied_at.is_string(), "{told}");
    let expected = json!({
        "update": "u-1", "instance": id, "name": "take_books", "state": "replied",
        "kind": "done", "reply": 7, "reason": null, "replied_at": replied_at,
    });
    assert_eq!(told, expected);
    let mut command = site.command(["update", &id, "take_books", "-p", "books:=1"]);
    command.args(["-o", "ids"]);
    assert_eq!(Ran::of(command).succeeds().line(), id);
    engine.stop().await;
}

async fn an_update_that_is_sent_again_has_the_same_reply(site: &Site) {
    let engine = site.engine().await;
    let id = shelf(site);
    let take = |given: [&str; 2], books: &str| {
        let mut command = site.command(["update", &id, "take_books", "-p", books]);
        command.args(given);
        Ran::of(command)
    };
    let odd = ["--id-hex", "00ff"];
    assert_eq!(take(["--id", "u-1"], "books:=3").succeeds().line(), "3");
    assert_eq!(take(odd, "books:=2").succeeds().line(), "5");
    site.run(["signal", &id, "paid", "-p", "amount:=1"])
        .succeeds();
    site.run(["watch", &id]).succeeds();
    assert_eq!(take(["--id", "u-1"], "books:=4").succeeds().line(), "3");
    assert_eq!(take(odd, "books:=4").succeeds().line(), "5");
    let late = take(["--id", "u-2"], "books:=4").ends_with(4).err();
    assert!(late.contains("has finished (done)"), "{late}");
    engine.stop().await;
}

async fn each_update_without_a_value_has_its_exit_code(site: &Site) {
    let engine = site.engine().await;
    let id = shelf(site);
    for (target, books, code, words) in [
        (id.as_str(), "books:=0", 4, "was rejected: no book is given"),
        (&id, "books=x", 4, "was rejected: its payload does not fit"),
        (&id, "books:=11", 1, "take_books failed: the shelf is full"),
        (&id, "books", 2, "key=value"),
        ("shelf/s:2", "books:=1", 3, "s:2"),
        ("999999", "books:=1", 3, "does not exist"),
    ] {
        let ran = site.run(["update", target, "take_books", "-p", books]);
        let told = ran.ends_with(code).err();
        assert!(told.contains(words), "{words}: {told}");
    }
    let mut command = site.command(["update", &id, "take_books", "-p", "books:=0"]);
    command.args(["-o", "json"]);
    let told = Ran::of(command).ends_with(4).json();
    assert_eq!(
        (&told["kind"], &told["reason"]),
        (&json!("rejected"), &json!("no book is given"))
    );
    site.run(["signal", &id, "other", "--dedup", "evt-1"])
        .succeeds();
    let taken = site.run(["update", &id, "take_books", "--id", "evt-1"]);
    let told = taken.ends_with(4).err();
    assert!(told.contains("choose another id"), "{told}");
    engine.stop().await;
}

async fn an_update_without_an_engine_is_pending_and_is_waited_on(site: &Site) {
    let id = shelf(site);
    let take = |wait: &str| {
        let mut command = site.command(["update", &id, "take_books", "-p", "books:=3"]);
        command.args(["--id", "u-1", "--wait", wait]);
        Ran::of(command)
    };
    let told = take("20ms").ends_with(1).err();
    let wait_on = format!("outlast update {id} take_books --id u-1");
    assert!(told.contains(&wait_on), "{told}");
    let engine = site.engine().await;
    let mut command = site.command(["update", &id, "take_books", "--id", "u-1"]);
    command.args(["--wait", "30s"]);
    assert_eq!(Ran::of(command).succeeds().line(), "3");
    engine.stop().await;
    // An instance that ends first gives no reply.
    let other = site.run(["insert", "shelf", "run"]).succeeds().line();
    let send = || site.run(["update", &other, "x", "--id", "u-1", "--wait", "0s"]);
    send().ends_with(1);
    site.run(["terminate", &other, "--yes"]).succeeds();
    let told = send().ends_with(4).err();
    assert!(told.contains("ended first"), "{told}");
}

async fn an_update_is_marked_in_the_inbox(site: &Site) {
    let id = shelf(site);
    site.run(["signal", &id, "paid"]).succeeds();
    site.run(["update", &id, "take_books", "--id", "u-1", "--wait", "0s"])
        .ends_with(1);
    let shown = site.run(["get", &id]).succeeds().out();
    assert!(shown.contains("take_books (update)"), "{shown}");
    assert!(!shown.contains("paid (update)"), "{shown}");
    let mut command = site.command(["get", &id]);
    command.args(["-o", "json"]);
    let shown = Ran::of(command).succeeds().json();
    assert_eq!(shown["signals"][0]["wants_reply"], false);
    assert_eq!(shown["signals"][1]["wants_reply"], true);
}
