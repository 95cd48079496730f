//! Good and bad facts, and the findings about them.

use super::*;
use outlast_core::Severity::{self, Fine, Serious, Warning};

fn good() -> Server {
    Server {
        version: 170_002,
        version_text: "17.2".into(),
        is_standby: false,
        is_read_only: false,
        isolation: "read committed".into(),
        synchronous_commit: "on".into(),
        fsync: true,
        full_page_writes: true,
        autovacuum: true,
        connections: 12,
        connections_max: 97,
        transactions: 3_000_000,
        clock: Timestamp(0),
    }
}

fn found(server: Server, check: &str) -> Severity {
    let mut findings = server.findings().into_iter();
    let finding = findings.find(|finding| finding.check == check).unwrap();
    assert_eq!(finding.severity == Fine, finding.remedy.is_empty());
    finding.severity
}

#[test]
fn a_good_server_passes_every_check() {
    for finding in good().findings() {
        assert_eq!(finding.severity, Fine, "{finding:?}");
    }
}

/// The name of a check, a change that makes it fail, and the expected severity.
type Case = (&'static str, fn(&mut Server), Severity);

#[test]
fn each_bad_setting_is_found() {
    let cases: [Case; 12] = [
        ("server_version", |it| it.version = 130_001, Serious),
        ("writable", |it| it.is_standby = true, Serious),
        ("writable", |it| it.is_read_only = true, Serious),
        ("durability", |it| it.fsync = false, Serious),
        ("durability", |it| it.full_page_writes = false, Serious),
        (
            "durability",
            |it| it.synchronous_commit = "off".into(),
            Serious,
        ),
        ("autovacuum", |it| it.autovacuum = false, Warning),
        (
            "isolation",
            |it| it.isolation = "serializable".into(),
            Warning,
        ),
        ("connections", |it| it.connections = 80, Warning),
        ("connections", |it| it.connections = 97, Serious),
        (
            "transaction_ids",
            |it| it.transactions = 600_000_000,
            Warning,
        ),
        (
            "transaction_ids",
            |it| it.transactions = 1_900_000_000,
            Serious,
        ),
    ];
    for (check, spoil, expected) in cases {
        let mut server = good();
        spoil(&mut server);
        assert_eq!(found(server, check), expected, "{check}");
    }
}

fn holder(kind: &str, open: Option<u64>, is_idle: bool, keeps_rows: bool) -> Holder {
    Holder {
        kind: kind.into(),
        name: "17 of psql".into(),
        open: open.map(Duration::from_secs),
        is_idle,
        keeps_rows,
    }
}

#[test]
fn holders_of_open_transactions_are_named() {
    let severities = |them: &[Holder]| holders(them).map(|finding| finding.severity);
    assert_eq!(severities(&[]), [Fine, Fine]);
    assert_eq!(
        severities(&[holder("session", Some(30), true, true)]),
        [Fine, Fine]
    );
    assert_eq!(
        severities(&[holder("session", Some(90), true, false)]),
        [Fine, Warning]
    );
    assert_eq!(
        severities(&[holder("session", Some(400), false, true)]),
        [Warning, Fine]
    );
    assert_eq!(
        severities(&[holder("session", Some(4_000), true, true)]),
        [Serious, Warning]
    );
    assert_eq!(
        severities(&[holder("replication slot", None, true, true)]),
        [Serious, Fine]
    );
    let several = [
        holder("session", Some(400), false, true),
        holder("session", Some(301), false, true),
    ];
    assert_eq!(
        holders(&several)[0].found,
        "session 17 of psql keeps dead rows from being removed since 6 min, and 1 other"
    );
}

#[test]
fn dead_rows_and_swollen_indexes_are_found() {
    let space = |live, dead, index_bytes| Space {
        live,
        dead,
        vacuumed: None,
        table_bytes: 1 << 20,
        index_bytes,
    };
    let severities = |space: Space| space.findings().map(|finding| finding.severity);
    assert_eq!(severities(space(0, 9_000, 1 << 20)), [Fine, Fine]);
    assert_eq!(severities(space(1_000_000, 100_000, 1 << 28)), [Fine, Fine]);
    assert_eq!(severities(space(1_000, 11_000, 1 << 20)), [Warning, Fine]);
    assert_eq!(severities(space(1_000, 0, 1 << 27)), [Fine, Warning]);
}

#[test]
fn clocks_that_disagree_are_found() {
    let now = SystemTime::now();
    let later = now + Duration::from_secs(1);
    let at = |seconds| {
        clocks(
            now,
            later,
            Timestamp::from(now) + Duration::from_secs(seconds),
        )
    };
    assert_eq!(at(1).severity, Fine);
    assert_eq!(at(60).severity, Warning);
    let behind = clocks(now, later, Timestamp::from(now) - Duration::from_secs(60));
    assert!(behind.found.contains("60 s apart"), "{behind:?}");
}
