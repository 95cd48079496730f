//! Runs every scenario for a short time. Checks that each fault really happens and that no
//! invariant is violated. `scripts/torture.sh` has the long runs.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use serde_json::Value;
use std::process::Command;

/// Runs a scenario for a few seconds and returns its report.
///
/// Prints the reason and returns `None` when the machine lacks a program that the scenario needs.
fn torture(scenario: &str, options: &[&str]) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_outlast-torture"))
        .args([scenario, "--json", "--rate", "25"])
        .args(options)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && stderr.contains("needed") {
        eprintln!("skipped: {stderr}");
        return None;
    }
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{stderr}\n{report}",
        output.status
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    let instances = report["figures"]["instances"].as_u64();
    assert!(instances > Some(50), "hardly anything ran: {report}");
    Some(report)
}

#[track_caller]
fn happened(report: &Value, what: &str) {
    let figure = match report["figures"].get(what) {
        Some(figure) => figure.as_u64(),
        None => report["faults"][what].as_u64(),
    };
    assert!(figure > Some(0), "no {what}: {report}");
}

const FEW_SECONDS: [&str; 2] = ["--minutes", "0.06"];
const SQLITE: [&str; 4] = ["--minutes", "0.06", "--store", "sqlite"];

#[test]
fn workers_that_are_killed_lose_nothing() {
    for options in [&FEW_SECONDS[..], &SQLITE] {
        let Some(report) = torture("kill", options) else {
            continue;
        };
        happened(&report, "kills");
        happened(&report, "recoveries");
        happened(&report, "workflows");
        happened(&report, "joins");
        happened(&report, "timeouts");
    }
}

#[test]
fn families_keep_the_invariants_while_workers_are_killed() {
    for store in ["postgres", "sqlite"] {
        let options = ["--minutes", "0.03", "--store", store];
        let Some(report) = torture("families", &options) else {
            continue;
        };
        happened(&report, "early_joins");
        happened(&report, "join_deadlines");
        happened(&report, "windows");
        happened(&report, "cancels");
        happened(&report, "never_started");
    }
}

#[test]
fn workflows_outlive_their_workers() {
    for store in ["postgres", "sqlite"] {
        let options = ["--minutes", "0.03", "--store", store];
        let Some(report) = torture("flows", &options) else {
            continue;
        };
        happened(&report, "kills");
        happened(&report, "workflows");
        happened(&report, "continued_as_new");
        happened(&report, "flow_results");
        happened(&report, "activities");
        happened(&report, "groups");
        happened(&report, "selections");
        happened(&report, "told");
        happened(&report, "versions");
        happened(&report, "flow_timers");
        happened(&report, "flow_signals");
        happened(&report, "updates_sent_again");
        happened(&report, "updates_replied");
        happened(&report, "updates_rejected");
        happened(&report, "updates_handled");
        happened(&report, "handled");
        happened(&report, "flows_cancelled");
    }
}

#[test]
fn workers_that_are_frozen_past_their_lease_write_nothing_late() {
    for options in [&FEW_SECONDS[..], &SQLITE] {
        let Some(report) = torture("freeze", options) else {
            continue;
        };
        happened(&report, "freezes");
        happened(&report, "workflows");
    }
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    let Some(report) = torture("postgres", &FEW_SECONDS) else {
        return;
    };
    let crashes = report["faults"].as_object().unwrap();
    assert!(!crashes.is_empty(), "{report}");
}

#[test]
fn connections_that_are_cut_at_a_commit_lose_nothing() {
    let Some(report) = torture("cut", &FEW_SECONDS) else {
        return;
    };
    let extra = report["extra"].as_array().unwrap();
    let cuts = extra
        .iter()
        .find(|pair| pair[0] == "cuts at COMMIT")
        .unwrap();
    assert_ne!(cuts[1], "0", "{report}");
    happened(&report, "workflows");
}

#[test]
fn a_promoted_synchronous_standby_has_every_acknowledged_write() {
    let Some(report) = torture("failover", &["--minutes", "0.03"]) else {
        return;
    };
    happened(&report, "promotions");
}

#[test]
fn a_promoted_asynchronous_standby_keeps_the_other_invariants() {
    let Some(report) = torture("failover-async", &["--minutes", "0.03"]) else {
        return;
    };
    happened(&report, "promotions");
}

#[test]
fn a_leader_that_is_killed_under_patroni_loses_nothing() {
    let Some(report) = torture("patroni", &["--minutes", "0.03"]) else {
        return;
    };
    happened(&report, "promotions");
}

#[test]
fn nothing_is_lost_through_a_pooler() {
    let Some(report) = torture("pooler", &FEW_SECONDS) else {
        return;
    };
    happened(&report, "kills");
}

#[test]
fn an_sqlite_file_stays_sound_when_its_processes_are_killed() {
    let Some(report) = torture("sqlite", &FEW_SECONDS) else {
        return;
    };
    happened(&report, "the only process killed, file sound");
    happened(&report, "workflows");
    happened(&report, "one of two processes killed, file sound");
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    for options in [&FEW_SECONDS[..], &SQLITE] {
        let Some(report) = torture("disk", options) else {
            continue;
        };
        happened(&report, "disk filled up");
        happened(&report, "workflows");
    }
}

#[test]
fn clocks_that_are_an_hour_wrong_wake_nothing_early() {
    let Some(report) = torture("clock", &FEW_SECONDS) else {
        return;
    };
    happened(&report, "workflows");
    happened(&report, "timeouts");
}

#[test]
fn poisonous_instances_fail_and_all_others_succeed() {
    let Some(report) = torture("poison", &["--minutes", "0.03"]) else {
        return;
    };
    let doses = report["faults"].as_object().unwrap();
    assert!(
        doses.keys().any(|kind| kind.starts_with("doses")),
        "{report}"
    );
}

#[test]
fn a_wrong_command_line_is_rejected_with_a_reason() {
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_outlast-torture");
        let output = Command::new(program).args(arguments).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, stderr) = run(&["kil"]);
    assert!(code == Some(2) && stderr.contains("'kill'"), "{stderr}");
    let (code, stderr) = run(&["kill", "--minutes", "0"]);
    assert!(
        code == Some(2) && stderr.contains("between 0.01 and"),
        "{stderr}"
    );
    let (code, stderr) = run(&["clock", "--store", "sqlite"]);
    assert!(
        code == Some(2) && stderr.contains("run this on PostgreSQL"),
        "{stderr}"
    );
}
