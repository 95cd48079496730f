//! The commands `migrate` and `doctor`.

use crate::support::{Ran, Site, bare, on_both_databases};

on_both_databases!(
    the_schema_is_migrated_once_and_its_version_is_shown,
    the_doctor_reports_a_good_database_as_fine,
);

async fn the_schema_is_migrated_once_and_its_version_is_shown(site: &Site) {
    let status = site
        .run(["migrate", "--status", "-o", "json"])
        .succeeds()
        .json();
    assert_eq!(status["version"], status["needed"]);
    let again = site.run(["migrate"]).succeeds();
    assert!(
        again.err().contains("the schema is up to date"),
        "{}",
        again.err()
    );
    let printed = site.run(["migrate", "--print"]).succeeds().out();
    assert!(
        printed.contains("create table") && printed.contains("Migration 1"),
        "{printed}"
    );
}

async fn the_doctor_reports_a_good_database_as_fine(site: &Site) {
    let found = site.run(["doctor", "-o", "json"]);
    let findings = found.json_lines();
    assert!(findings.len() >= 8, "{}", found.out());
    for check in ["stuck_leases", "overdue_timers", "schema_version"] {
        let finding = findings.iter().find(|it| it["check"] == check).unwrap();
        assert_eq!(finding["severity"], "fine", "{finding}");
    }
    let table = site.run(["doctor"]);
    assert!(table.out().starts_with("CHECK "), "{}", table.out());
    assert!(table.err().contains(" checks: "), "{}", table.err());
}

#[test]
fn the_sql_of_postgresql_is_printed_without_a_database() {
    let mut command = bare();
    command.args([
        "migrate", "--print", "--schema", "shop", "--worker", "runner",
    ]);
    let printed = Ran::of(command).succeeds().out();
    assert!(printed.contains("\"shop\".instances"), "{printed}");
    assert!(printed.contains("to \"runner\""), "{printed}");
}

#[tokio::test]
async fn a_damaged_file_ends_the_doctor_with_1() {
    let site = Site::sqlite().await;
    for _ in 0..3 {
        site.run(["insert", "a", "start"]).succeeds();
    }
    let damage = "pragma writable_schema = on;
        update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'signals')
        where name = 'operations';";
    let raw = rusqlite::Connection::open(site.database()).unwrap();
    raw.execute_batch(damage).unwrap();
    drop(raw);
    let found = site.run(["doctor"]).ends_with(1);
    assert!(
        found.out().contains("the file is damaged"),
        "{}",
        found.out()
    );
    assert!(
        found.out().contains("integrity: stop every program"),
        "{}",
        found.out()
    );
}
