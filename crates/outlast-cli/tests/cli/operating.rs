//! The commands `retry`, `repair`, `terminate`, `delete` and `collect`.

use crate::support::{LONG, Ran, Site, on_both_databases};
use outlast::store::Target;
use outlast::{InstanceId, Status};
use serde_json::json;

on_both_databases!(
    a_command_on_one_named_instance_does_not_ask,
    a_command_on_many_instances_needs_a_confirmation,
    a_command_reads_ids_from_stdin,
    repair_wakes_only_an_instance_that_nothing_would_wake,
    a_filter_selects_only_instances_that_the_command_applies_to,
    a_refused_command_gives_its_reason_and_exit_code,
    collect_deletes_instances_that_ended_before_the_given_age,
    collect_counts_the_instances_before_it_asks,
    children_stay_as_long_as_their_parent_lives,
    delete_selects_instances_by_the_time_of_their_end,
    operations_are_recorded_with_who_and_why,
);

fn insert(site: &Site, many: usize) -> Vec<String> {
    (0..many)
        .map(|_| site.run(["insert", "a", "start"]).succeeds().line())
        .collect()
}

async fn a_command_on_one_named_instance_does_not_ask(site: &Site) {
    let engine = site.engine().await;
    let id = site.run(["insert", "clerk", "fail"]).succeeds().line();
    let target = Target::Id(InstanceId(id.parse().unwrap()));
    engine
        .admin()
        .wait_ended(target.clone(), LONG)
        .await
        .unwrap();
    engine.stop().await;
    assert_eq!(site.run(["retry", &id]).succeeds().line(), "1 retried");
    assert_eq!(
        site.run(["terminate", &id]).succeeds().line(),
        "1 terminated"
    );
    assert_eq!(site.run(["delete", &id]).succeeds().line(), "1 deleted");
    site.run(["get", &id]).ends_with(3);
}

async fn repair_wakes_only_an_instance_that_nothing_would_wake(site: &Site) {
    let (id, sound) = (site.lost().await.to_string(), insert(site, 1).remove(0));
    let shown = site.run(["get", &id]).succeeds().out();
    assert!(
        shown.contains(&format!("run `outlast repair {id}`")),
        "{shown}"
    );
    assert!(shown.contains("repair_needed"), "{shown}");
    let json = &site.run(["get", &id, "-o", "json"]).json_lines()[0];
    assert_eq!(json["instance"]["liveness"], "repair_needed");
    let found = site.run(["doctor", "-o", "ids"]).out();
    assert!(found.lines().any(|it| it == "repairs"), "{found}");
    let repaired = site.run(["repair", &id, "--by", "ada"]).succeeds();
    assert_eq!(repaired.line(), "1 repaired");
    let why = "an awaited child has ended without waking it";
    assert!(repaired.err().contains(why), "{}", repaired.err());
    let again = site
        .run(["repair", "--all", "--yes", "-o", "json"])
        .succeeds();
    let expected = json!({"changed": 0, "not_needed": 2, "refused": 0, "not_found": 0});
    assert_eq!(again.json_lines(), [expected]);
    assert_eq!(
        site.run(["repair", &sound]).succeeds().line(),
        "0 repaired, 1 without need"
    );
    site.run(["repair", "999999"]).ends_with(3);
    site.run(["repair", "--status", "done", "--yes"])
        .ends_with(2);
}

async fn a_command_on_many_instances_needs_a_confirmation(site: &Site) {
    let ids = insert(site, 3);
    let refused = site.run(["terminate", "--machine", "a"]).ends_with(4);
    assert!(
        refused.err().contains("terminate 3 instances?"),
        "{}",
        refused.err()
    );
    assert!(refused.err().contains("--yes"), "{}", refused.err());
    site.run(["terminate", &ids[0], &ids[1]]).ends_with(4);
    assert_eq!(
        site.run(["count", "--status", "cancelled"])
            .succeeds()
            .line(),
        "0"
    );
    assert_eq!(
        site.run(["terminate", "--machine", "a", "--dry-run"])
            .succeeds()
            .line(),
        "3"
    );
    let done = site
        .run(["terminate", "--machine", "a", "--yes", "-o", "json"])
        .succeeds();
    assert_eq!(
        done.json(),
        json!({"changed": 3, "refused": 0, "not_found": 0})
    );
    let again = site
        .run(["terminate", "--machine", "a", "--yes"])
        .succeeds();
    assert_eq!(
        (again.line().as_str(), again.err().as_str()),
        ("0 terminated", "no instances match\n")
    );
}

async fn a_command_reads_ids_from_stdin(site: &Site) {
    insert(site, 3);
    let ids = site.run(["list", "-o", "ids"]).succeeds().out();
    site.run_with(["terminate", "-"], &ids).ends_with(4);
    let done = site
        .run_with(["terminate", "-", "--yes", "-o", "ids"], &ids)
        .succeeds();
    assert_eq!(done.out(), ids);
    site.run_with(["terminate", "-", "--yes"], "one two\n")
        .ends_with(2);
}

async fn a_filter_selects_only_instances_that_the_command_applies_to(site: &Site) {
    let ids = insert(site, 4);
    site.run(["terminate", &ids[0]]).succeeds();
    // Delete skips instances that have not ended.
    assert_eq!(
        site.run(["delete", "--all", "--yes"]).succeeds().line(),
        "1 deleted"
    );
    assert_eq!(site.run(["count"]).succeeds().line(), "3");
    site.run(["delete", "--status", "runnable", "--yes"])
        .ends_with(2);
    site.run(["terminate", &ids[1]]).succeeds();
    // Retry selects failed instances. Cancelled instances need an explicit status.
    assert_eq!(
        site.run(["retry", "--all", "--yes"]).succeeds().line(),
        "0 retried"
    );
    let asked = site
        .run(["retry", "--status", "cancelled", "--yes"])
        .succeeds();
    assert_eq!(asked.line(), "1 retried");
}

async fn a_refused_command_gives_its_reason_and_exit_code(site: &Site) {
    let id = insert(site, 1).remove(0);
    let refused = site.run(["retry", &id]).ends_with(4);
    assert!(refused.err().contains("is runnable"), "{}", refused.err());
    let refused = site.run(["delete", &id]).ends_with(4);
    assert!(
        refused.err().contains("cancel or terminate it first"),
        "{}",
        refused.err()
    );
    site.run(["terminate", "4711"]).ends_with(3);
    site.run(["terminate"]).ends_with(2);
    site.run(["terminate", &id, "--machine", "a"]).ends_with(2);
}

async fn collect_deletes_instances_that_ended_before_the_given_age(site: &Site) {
    let ids = insert(site, 3);
    site.run(["terminate", &ids[0], &ids[1], "--yes"])
        .succeeds();
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

async fn collect_counts_the_instances_before_it_asks(site: &Site) {
    let ids = insert(site, 3);
    site.run(["terminate", &ids[0], &ids[1], "--yes"])
        .succeeds();
    let refused = site.run(["collect", "--older-than", "0s"]).ends_with(4);
    let question = "delete 2 instances that finished more than 0 ms ago, except children of live parents? stdin is not";
    assert!(refused.err().contains(question), "{}", refused.err());
    let part = site.run(["collect", "--older-than", "0s", "-n", "1"]);
    let part = part.ends_with(4).err();
    assert!(part.contains("delete 1 of 2 instances"), "{part}");
    let dry = site
        .run(["collect", "--older-than", "0s", "--dry-run"])
        .succeeds();
    assert_eq!((dry.line().as_str(), dry.err().as_str()), ("2", ""));
    let dry = site.run([
        "collect",
        "--older-than",
        "0s",
        "--dry-run",
        "-n",
        "1",
        "-o",
        "json",
    ]);
    assert_eq!(dry.succeeds().json(), json!({"count": 1, "exact": true}));
    // Without matching instances the command asks nothing.
    for answered in [vec![], vec!["--yes"]] {
        let mut command = site.command(["collect", "--older-than", "30d"]);
        command.args(answered);
        let none = Ran::of(command).succeeds();
        assert_eq!(none.line(), "0 deleted");
        assert_eq!(none.err(), "no instances match\n");
    }
    site.run(["collect", "--older-than", "99999w"]).ends_with(2);
    assert_eq!(site.run(["count"]).succeeds().line(), "3");
}

async fn children_stay_as_long_as_their_parent_lives(site: &Site) {
    let engine = site.engine().await;
    let parent = site.run(["insert", "clerk", "fan_out"]).succeeds().line();
    let root = Target::Id(InstanceId(parent.parse().unwrap()));
    engine.admin().wait_settled(root, LONG).await.unwrap();
    let children = site.run(["list", "--parent", &parent, "-o", "ids"]);
    for child in children.succeeds().out().lines() {
        let child = Target::Id(InstanceId(child.parse().unwrap()));
        engine.admin().wait_settled(child, LONG).await.unwrap();
    }
    engine.stop().await;
    let collect = || {
        site.run(["collect", "--older-than", "0s", "--yes"])
            .succeeds()
    };
    let dry = site.run(["collect", "--older-than", "0s", "--dry-run"]);
    assert_eq!(dry.succeeds().line(), "2");
    assert_eq!(collect().line(), "0 deleted");
    site.run(["terminate", &parent]).succeeds();
    assert_eq!(collect().line(), "3 deleted");
    assert_eq!(site.run(["count"]).succeeds().line(), "1");
}

async fn delete_selects_instances_by_the_time_of_their_end(site: &Site) {
    let ids = insert(site, 2);
    site.run(["terminate", &ids[0]]).succeeds();
    let counted = |filter: [&str; 2]| {
        let counted = site.run(["count", filter[0], filter[1]]);
        counted.succeeds().line()
    };
    assert_eq!(counted(["--ended-since", "1h"]), "1");
    assert_eq!(counted(["--ended-until", "1h"]), "0");
    assert_eq!(counted(["--ended-since", "2026-01-01T00:00:00Z"]), "1");
    let none = site.run(["delete", "--ended-until", "1h", "--yes"]);
    assert_eq!(none.succeeds().line(), "0 deleted");
    let one = site.run(["delete", "--ended-since", "1h", "--yes", "-o", "ids"]);
    assert_eq!(one.succeeds().line(), ids[0]);
    site.run(["count", "--ended-since", "lately"]).ends_with(2);
}

async fn operations_are_recorded_with_who_and_why(site: &Site) {
    let id = insert(site, 1).remove(0);
    site.run(["terminate", &id, "--reason", "not wanted", "--by", "grace"])
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
        (json!("terminate"), json!("grace"), json!("not wanted"))
    );
    assert_eq!(seen["instance"]["status"], json!(Status::Runnable.as_str()));
}
