//! Refused commands: their messages and exit codes.

use crate::support::{Ran, Site, bare};

fn run<const N: usize>(arguments: [&str; N]) -> Ran {
    let mut command = bare();
    command.args(arguments);
    Ran::of(command)
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let unnamed = run(["list"]).ends_with(2);
    assert!(
        unnamed.err().contains("OUTLAST_DATABASE"),
        "{}",
        unnamed.err()
    );
    run(["list", "--nonsense"]).ends_with(2);
    run(["-d", "x.db", "list", "--status", "paused"]).ends_with(2);
    run(["-d", "x.db", "insert", "a", "b", "-p", "nonsense"]).ends_with(2);
    run(["-d", "x.db", "insert", "a", "b", "--delay", "soon"]).ends_with(2);
    run(["-d", "x.db", "get", "nonsense"]).ends_with(2);
    run([]).ends_with(2);
    let demo = run(["demo", "--database", "x.db"]).ends_with(2);
    assert!(demo.err().contains("--folder"), "{}", demo.err());
}

#[test]
fn a_missing_database_ends_with_5_and_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typo.db");
    let missing = run(["-d", &path.display().to_string(), "list"]).ends_with(5);
    assert!(
        missing.err().contains("outlast migrate"),
        "{}",
        missing.err()
    );
    assert!(!path.exists());
    // Nothing listens on port 1. The message does not contain the password.
    let url = "postgres://ada:hunter2@127.0.0.1:1/shop";
    let refused = run(["-d", url, "list"]).ends_with(5);
    assert!(!refused.err().contains("hunter2"), "{}", refused.err());
}

#[test]
fn a_file_without_a_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    std::fs::write(&path, "").unwrap();
    let old = run(["-d", &path.display().to_string(), "list"]).ends_with(5);
    assert!(old.err().contains("has schema version 0"), "{}", old.err());
    std::fs::write(
        &path,
        "this is no database, and long enough to be read as one ".repeat(40),
    )
    .unwrap();
    run(["-d", &path.display().to_string(), "list"]).ends_with(5);
}

#[tokio::test]
async fn input_that_the_store_refuses_is_a_wrong_command_line() {
    let site = Site::sqlite().await;
    let empty = site.run(["insert", "", "start"]).ends_with(2);
    assert!(empty.err().contains("machine is empty"), "{}", empty.err());
    site.run(["insert", "a/b", "start"]).ends_with(2);
    site.run(["insert", "a", "b", "--state", "{"]).ends_with(2);
    let top = site.run(["top"]).ends_with(2);
    assert!(top.err().contains("needs a terminal"), "{}", top.err());
}

#[test]
fn help_has_the_exit_codes_and_completions_know_every_command() {
    let help = run(["--help"]).succeeds().out();
    assert!(
        help.contains("Exit codes:") && help.contains("5  the database"),
        "{help}"
    );
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(["completions", shell]).succeeds().out();
        assert!(script.contains("doctor"), "{shell}");
    }
}

#[test]
fn an_unsupported_database_url_and_a_folder_are_refused() {
    let other = run(["-d", "mysql://ada@host/shop", "migrate"]).ends_with(2);
    assert!(other.err().contains("postgres://"), "{}", other.err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    for command in ["list", "migrate"] {
        let refused = run(["-d", &path, command]).ends_with(5);
        assert!(
            refused.err().contains("is a directory"),
            "{}",
            refused.err()
        );
    }
}

#[tokio::test]
async fn a_limit_of_zero_is_refused_and_empty_input_asks_nothing() {
    let site = Site::sqlite().await;
    site.run(["list", "-n", "0"]).ends_with(2);
    site.run(["collect", "--older-than", "1d", "-n", "0"])
        .ends_with(2);
    let none = site.run_with(["retry", "-"], "\n").succeeds();
    assert_eq!(none.line(), "0 retried");
    assert!(none.err().contains("no ids on stdin"), "{}", none.err());
}
