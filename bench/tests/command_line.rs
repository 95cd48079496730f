//! Tests of the program by its command line.

use serde_json::Value;
use std::process::{Command, Output};
use tokio_postgres::{Config, NoTls};

fn bench(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlast-bench"))
        .args(line.split_whitespace())
        // Developers set this variable. Errors must not show a backtrace even then.
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the program can be started")
}

#[test]
fn every_line_of_json_has_the_documented_fields() {
    let output = bench("drain -n 200 --runs 1 --store sqlite --json");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect();
    let names: Vec<&str> = lines.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["floor drain", "drain"]);
    for line in &lines {
        assert!(
            line["value"].as_f64().is_some_and(|value| value > 0.0),
            "{line}"
        );
        assert_eq!(line["unit"], "steps/s");
        assert_eq!(line["store"], "sqlite");
        assert_eq!(line["n"], 200);
        assert!(
            line["settings"]
                .as_str()
                .is_some_and(|it| it.contains("synchronous full"))
        );
        assert_eq!(line["versions"]["outlast"], env!("CARGO_PKG_VERSION"));
        assert!(line["versions"]["sqlite"].is_string(), "{line}");
        for part in ["engine", "database", "others"] {
            assert!(line["cpu"][part].is_number(), "{line}");
        }
    }
}

/// Checks that the program fails with its own message.
fn assert_refused(line: &str, because: &str) {
    let output = bench(line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{line}");
    assert!(errors.starts_with("error: "), "{line}: {errors}");
    assert!(errors.contains(because), "{line}: {errors}");
    assert!(
        !errors.contains("panicked") && !errors.contains("backtrace"),
        "{errors}"
    );
    assert!(output.stdout.is_empty(), "{line}");
}

#[test]
fn invalid_arguments_end_with_an_error_message() {
    assert_refused("drain -n 0 --store sqlite", "1 or more");
    assert_refused("nothing", "possible values");
    assert_refused("drain --store sqlite --url postgres://localhost", "--url");
    assert_refused("drain --store sqlite --peers dbos", "--peers");
    assert_refused("drain --peers nobody", "no peer \"nobody\"");
    assert_refused("drain --peers ..", "no peer \"..\"");
    assert_refused("drain --url nonsense", "--url cannot be read");
    assert_refused(
        "drain --url postgres://me@127.0.0.1:1/db",
        "the PostgreSQL server cannot be reached",
    );
}

#[tokio::test]
async fn a_role_that_may_not_create_databases_gets_an_error_message() {
    let url = outlast_testbed::shared::url();
    let config: Config = url.parse().expect("the URL is valid");
    let (client, connection) = config.connect(NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    let role = format!("outlast_bench_poor_{}", std::process::id());
    let make = format!("create role {role} login password 'poor'");
    client
        .batch_execute(&make)
        .await
        .expect("the role is created");

    let server = url.rsplit_once('@').expect("the URL names a role").1;
    let url = format!("postgres://{role}:poor@{server}");
    let refused = tokio::task::spawn_blocking(move || {
        assert_refused(&format!("drain -n 1 --url {url}"), "allowed to make");
    });
    let refused = refused.await;

    let drop = format!("drop role {role}");
    client
        .batch_execute(&drop)
        .await
        .expect("the role is dropped");
    refused.expect("the program refused it");
}
