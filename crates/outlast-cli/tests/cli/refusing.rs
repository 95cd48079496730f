//! What cannot be: said in words and by the code.

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
fn a_database_that_is_not_there_ends_with_5_and_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typo.db");
    let missing = run(["-d", &path.display().to_string(), "list"]).ends_with(5);
    assert!(
        missing.err().contains("outlast migrate"),
        "{}",
        missing.err()
    );
    assert!(!path.exists());
    // Nobody listens at port 1, and the password is not repeated.
    let url = "postgres://ada:hunter2@127.0.0.1:1/shop";
    let refused = run(["-d", url, "list"]).ends_with(5);
    assert!(!refused.err().contains("hunter2"), "{}", refused.err());
}

#[test]
fn a_file_without_a_schema_is_told_what_to_do() {
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
async fn what_the_store_refuses_is_a_wrong_command_line() {
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
fn a_database_of_another_kind_is_refused_and_a_folder_is_told_apart_from_a_disk() {
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
async fn a_list_of_none_is_not_asked_for_and_no_ids_are_nothing_to_ask_about() {
    let site = Site::sqlite().await;
    site.run(["list", "-n", "0"]).ends_with(2);
    site.run(["collect", "--older-than", "1d", "-n", "0"])
        .ends_with(2);
    let none = site.run_with(["retry", "-"], "\n").succeeds();
    assert_eq!(none.line(), "0 retried");
    assert!(none.err().contains("no ids on stdin"), "{}", none.err());
}
