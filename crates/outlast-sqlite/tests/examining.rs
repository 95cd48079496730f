//! The findings of `doctor`, good and bad.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{Finding, Inspect, Json, ManualClock, Note, Outcome, Severity, Start, Store};
use outlast_sqlite::{Sqlite, Synchronous};
use std::time::Duration;

async fn found(store: &Sqlite, check: &str) -> Finding {
    let findings = store.doctor().await.unwrap();
    let mut of_check = findings.iter().filter(|finding| finding.check == check);
    let found = of_check.next().cloned();
    assert!(
        of_check.next().is_none(),
        "there are several findings {check}"
    );
    found.unwrap_or_else(|| panic!("{check} is not in {findings:?}"))
}

#[tokio::test]
async fn every_finding_of_a_healthy_file_is_fine() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::insert(&store, vec![scene::order()]).await;
    let findings = store.doctor().await.unwrap();
    assert!(findings.len() >= 9, "{findings:?}");
    for finding in findings.iter().filter(|it| it.check != "disk_room") {
        assert_eq!(finding.severity, Severity::Fine, "{finding:?}");
        assert!(finding.remedy.is_empty() && !finding.found.is_empty());
    }
    store.close().await;
    assert!(store.doctor().await.is_err());
}

#[tokio::test]
async fn the_durability_finding_depends_on_the_synchronous_level() {
    for (level, expected) in [
        (Synchronous::Full, Severity::Fine),
        (Synchronous::Normal, Severity::Warning),
        (Synchronous::Off, Severity::Serious),
    ] {
        let (_folder, path) = scene::new_path();
        let store = Sqlite::options().synchronous(level).open(&path).unwrap();
        assert_eq!(found(&store, "durability").await.severity, expected);
        store.close().await;
    }
    let store = Sqlite::in_memory().unwrap();
    assert_eq!(
        found(&store, "durability").await.severity,
        Severity::Warning
    );
    assert_eq!(found(&store, "journal_mode").await.severity, Severity::Fine);
}

#[tokio::test]
async fn claims_of_a_dead_worker_are_found() {
    let clock = ManualClock::default();
    let store = scene::in_memory(&clock);
    let worker = scene::worker(&store).await;
    scene::insert(&store, vec![scene::order(); 3]).await;
    assert_eq!(scene::claim(&store, worker, 2).await.claims.len(), 2);
    assert_eq!(found(&store, "stuck_leases").await.severity, Severity::Fine);
    clock.advance(Duration::from_secs(10 * 24 * 3600));
    let stuck = found(&store, "stuck_leases").await;
    assert_eq!(stuck.severity, Severity::Warning);
    assert!(
        stuck.found.starts_with("2 claims held by 1 dead worker"),
        "{stuck:?}"
    );
}

#[tokio::test]
async fn waits_past_their_deadline_are_found() {
    let clock = ManualClock::default();
    let store = scene::in_memory(&clock);
    let worker = scene::worker(&store).await;
    scene::insert(&store, vec![scene::order()]).await;
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let mut park = scene::done(claim.reference());
    park.outcome = Outcome::Wait {
        names: vec!["paid".into()],
        step: "ship".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(60)),
    };
    store.commit(vec![park].into()).await.unwrap();
    clock.advance(Duration::from_secs(65));
    assert_eq!(
        found(&store, "overdue_timers").await.severity,
        Severity::Fine
    );
    clock.advance(Duration::from_secs(30));
    let overdue = found(&store, "overdue_timers").await;
    assert_eq!(overdue.severity, Severity::Warning);
    assert_eq!(
        overdue.found,
        "1 wait should have been woken, the first 35 s ago"
    );
}

#[tokio::test]
async fn instances_past_their_whole_timeout_are_found() {
    let clock = ManualClock::default();
    let store = scene::in_memory(&clock);
    let minute = Duration::from_secs(60);
    let hurried = [
        scene::order().timeout(minute),
        scene::order().run_timeout(minute),
    ];
    scene::insert(&store, hurried.to_vec()).await;
    scene::insert(&store, vec![scene::order()]).await;
    clock.advance(Duration::from_secs(65));
    let overdue = found(&store, "overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Fine);
    clock.advance(Duration::from_secs(30));
    let overdue = found(&store, "overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Warning);
    assert_eq!(
        overdue.found,
        "2 instances should have failed as timed out, the first 35 s ago"
    );
    assert_eq!(store.time_out(10).await.unwrap().ended.len(), 2);
    let overdue = found(&store, "overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Fine);
}

#[tokio::test]
async fn instances_that_need_a_repair_are_found() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    scene::insert(&store, vec![scene::order()]).await;
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let mut sleep = scene::done(claim.reference());
    sleep.outcome = Outcome::Wait {
        names: Vec::new(),
        step: "woken".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(60)),
    };
    store.commit(vec![sleep].into()).await.unwrap();
    assert_eq!(found(&store, "repairs").await.severity, Severity::Fine);
    let lost = "update instances set await_deadline = null";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute(lost, [])
        .unwrap();
    let repairs = found(&store, "repairs").await;
    assert_eq!(repairs.severity, Severity::Warning);
    let expected = format!(
        "the first is {}: it is parked and waits for nothing",
        claim.id
    );
    assert!(repairs.found.contains(&expected), "{repairs:?}");
    store.repair(vec![claim.id], Note::by("ada")).await.unwrap();
    assert_eq!(found(&store, "repairs").await.severity, Severity::Fine);
    store.close().await;
}

#[tokio::test]
async fn times_that_the_clock_has_not_reached_are_found() {
    let clock = ManualClock::default();
    let store = scene::in_memory(&clock);
    let hour = Duration::from_secs(3_600);
    let later = scene::order().start(Start::After(10 * hour));
    scene::insert(&store, vec![scene::order(), later]).await;
    assert_eq!(found(&store, "times").await.severity, Severity::Fine);
    clock.advance(hour);
    scene::insert(&store, vec![scene::order()]).await;
    clock.set(outlast_core::Clock::now(&clock) - hour + Duration::from_secs(60));
    let times = found(&store, "times").await;
    assert_eq!(times.severity, Severity::Serious);
    assert_eq!(
        times.found,
        "1 instance written by a clock that was ahead, at most 59 min from now; 1 instance due and not started, among the newest 3 instances"
    );
}

#[tokio::test]
async fn times_out_of_range_and_heartbeats_ahead_of_the_clock_are_found() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::worker(&store).await;
    scene::insert(&store, vec![scene::order()]).await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    for (change, expected) in [
        (
            "instances set eligible_at = 9000000000000000000",
            "after 9999",
        ),
        ("instances set eligible_at = -1", "before 1970"),
        (
            "workers set heartbeat_at = heartbeat_at + 86400000000",
            "1 worker with a heartbeat ahead",
        ),
    ] {
        raw.execute(&format!("update {change}"), []).unwrap();
        let times = found(&store, "times").await;
        assert_eq!(times.severity, Severity::Serious, "{change}");
        assert!(times.found.contains(expected), "{change}: {times:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_found() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::insert(&store, vec![scene::order(); 2_000]).await;
    store.close().await;
    // The table `operations` gets the root page of the table `signals`.
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .unwrap();
    raw.execute_batch(
        "pragma writable_schema = on;
         update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'signals')
         where name = 'operations';",
    )
    .unwrap();
    drop(raw);
    let store = Sqlite::open(&path).unwrap();
    let damage = found(&store, "integrity").await;
    assert_eq!(damage.severity, Severity::Serious, "{damage:?}");
    store.close().await;
}
