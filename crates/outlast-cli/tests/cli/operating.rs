//! Retrying, cancelling, deleting, collecting.

use crate::support::{LONG, Site, on_both_databases};
use outlast::{InstanceId, Status, Target};
use serde_json::json;

on_both_databases!(
    one_that_is_named_is_done_without_asking,
    many_are_done_only_when_somebody_says_yes,
    ids_from_stdin_are_taken,
    a_filter_only_meets_what_it_can_be_done_to,
    what_cannot_be_done_is_said_with_its_code,
    what_ended_long_ago_is_collected,
    operations_are_recorded_with_who_and_why,
);

fn insert(site: &Site, many: usize) -> Vec<String> {
    (0..many)
        .map(|_| site.run(["insert", "a", "start"]).succeeds().line())
        .collect()
}

async fn one_that_is_named_is_done_without_asking(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "clerk", "fail"]).succeeds().line();
    let target = Target::Id(InstanceId(id.parse().unwrap()));
    engine.wait_ended(target.clone(), LONG).await.unwrap();
    engine.stop().await;
    assert_eq!(site.run(["retry", &id]).succeeds().line(), "1 retried");
    assert_eq!(site.run(["cancel", &id]).succeeds().line(), "1 cancelled");
    assert_eq!(site.run(["delete", &id]).succeeds().line(), "1 deleted");
    site.run(["get", &id]).ends_with(3);
}

async fn many_are_done_only_when_somebody_says_yes(site: &Site) {
    let ids = insert(site, 3);
    let refused = site.run(["cancel", "--machine", "a"]).ends_with(4);
    assert!(
        refused.err().contains("cancel 3 instances?"),
        "{}",
        refused.err()
    );
    assert!(refused.err().contains("--yes"), "{}", refused.err());
    site.run(["cancel", &ids[0], &ids[1]]).ends_with(4);
    assert_eq!(
        site.run(["count", "--status", "cancelled"])
            .succeeds()
            .line(),
        "0"
    );
    assert_eq!(
        site.run(["cancel", "--machine", "a", "--dry-run"])
            .succeeds()
            .line(),
        "3"
    );
    let done = site
        .run(["cancel", "--machine", "a", "--yes", "-o", "json"])
        .succeeds();
    assert_eq!(
        done.json(),
        json!({"changed": 3, "refused": 0, "not_found": 0})
    );
    let again = site.run(["cancel", "--machine", "a", "--yes"]).succeeds();
    assert_eq!(
        (again.line().as_str(), again.err().as_str()),
        ("0 cancelled", "nothing fits\n")
    );
}

async fn ids_from_stdin_are_taken(site: &Site) {
    insert(site, 3);
    let ids = site.run(["list", "-o", "ids"]).succeeds().out();
    site.run_with(["cancel", "-"], &ids).ends_with(4);
    let done = site
        .run_with(["cancel", "-", "--yes", "-o", "ids"], &ids)
        .succeeds();
    assert_eq!(done.out(), ids);
    site.run_with(["cancel", "-", "--yes"], "one two\n")
        .ends_with(2);
}

async fn a_filter_only_meets_what_it_can_be_done_to(site: &Site) {
    let ids = insert(site, 4);
    site.run(["cancel", &ids[0]]).succeeds();
    // What has not ended is spared.
    assert_eq!(
        site.run(["delete", "--all", "--yes"]).succeeds().line(),
        "1 deleted"
    );
    assert_eq!(site.run(["count"]).succeeds().line(), "3");
    site.run(["delete", "--status", "runnable", "--yes"])
        .ends_with(2);
    site.run(["cancel", &ids[1]]).succeeds();
    // To retry means the failed, unless the cancelled are asked for.
    assert_eq!(
        site.run(["retry", "--all", "--yes"]).succeeds().line(),
        "0 retried"
    );
    let asked = site
        .run(["retry", "--status", "cancelled", "--yes"])
        .succeeds();
    assert_eq!(asked.line(), "1 retried");
}

async fn what_cannot_be_done_is_said_with_its_code(site: &Site) {
    let id = insert(site, 1).remove(0);
    let refused = site.run(["retry", &id]).ends_with(4);
    assert!(refused.err().contains("is runnable"), "{}", refused.err());
    let refused = site.run(["delete", &id]).ends_with(4);
    assert!(
        refused.err().contains("cancel it first"),
        "{}",
        refused.err()
    );
    site.run(["cancel", "4711"]).ends_with(3);
    site.run(["cancel"]).ends_with(2);
    site.run(["cancel", &id, "--machine", "a"]).ends_with(2);
}

async fn what_ended_long_ago_is_collected(site: &Site) {
    let ids = insert(site, 3);
    site.run(["cancel", &ids[0], &ids[1], "--yes"]).succeeds();
    site.run(["collect", "--older-than", "0s"]).ends_with(4);
    assert_eq!(
        site.run(["collect", "--older-than", "30d", "--yes"])
            .succeeds()
            .line(),
        "0 removed"
    );
    let one = site
        .run([
            "collect",
            "--older-than",
            "0s",
            "--yes",
            "-n",
            "1",
            "-o",
            "ids",
        ])
        .succeeds();
    assert_eq!(one.line(), ids[0]);
    let rest = site
        .run(["collect", "--older-than", "0s", "--yes", "-o", "json"])
        .succeeds();
    assert_eq!(rest.json(), json!({"removed": 1}));
    assert_eq!(site.run(["count"]).succeeds().line(), "1");
}

async fn operations_are_recorded_with_who_and_why(site: &Site) {
    let id = insert(site, 1).remove(0);
    site.run(["cancel", &id, "--reason", "not wanted", "--by", "grace"])
        .succeeds();
    site.run(["retry", &id]).succeeds();
    let seen = site.run(["get", &id, "-o", "json"]).succeeds().json();
    let operations = seen["operations"].as_array().unwrap();
    let of = |operation: &serde_json::Value| {
        (
            operation["verb"].clone(),
            operation["by"].clone(),
            operation["reason"].clone(),
        )
    };
    assert_eq!(
        of(&operations[0]),
        (json!("retry"), json!("ada"), json!(null))
    );
    assert_eq!(
        of(&operations[1]),
        (json!("cancel"), json!("grace"), json!("not wanted"))
    );
    assert_eq!(seen["instance"]["status"], json!(Status::Runnable.as_str()));
}
