//! The findings of the doctor, good and bad.

use crate::support::work;
use outlast_core::{Finding, Inspect, Json, ManualClock, Note, Outcome, Severity, Start, Store};
use outlast_postgres::{Postgres, Roles};
use std::time::Duration;

struct Scene {
    store: Postgres,
    clock: ManualClock,
    schema: String,
}

impl Scene {
    async fn open() -> Scene {
        let (schema, clock) = (crate::support::unique_schema(), ManualClock::default());
        let store = crate::support::options(&schema, &clock)
            .connect()
            .await
            .unwrap();
        Scene {
            store,
            clock,
            schema,
        }
    }

    async fn found(&self, check: &str) -> Finding {
        found(&self.store, check).await.unwrap()
    }

    async fn close(self) {
        self.store.close().await;
        crate::support::drop_schema(&self.schema).await;
    }
}

async fn found(store: &Postgres, check: &str) -> Option<Finding> {
    let findings = store.doctor().await.unwrap();
    let mut of_check = findings
        .into_iter()
        .filter(|finding| finding.check == check);
    let found = of_check.next();
    assert!(of_check.next().is_none(), "{check} has several findings");
    found
}

#[tokio::test]
async fn every_check_is_answered() {
    let scene = Scene::open().await;
    let findings = scene.store.doctor().await.unwrap();
    let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(
        checks,
        [
            "server_version",
            "writable",
            "durability",
            "autovacuum",
            "isolation",
            "connections",
            "transaction_ids",
            "clocks",
            "old_snapshots",
            "idle_transactions",
            "dead_rows",
            "index_size",
            "stuck_leases",
            "overdue_timers",
            "overdue_timeouts",
            "repairs",
            "times",
            "schema_version",
        ]
    );
    for check in [
        "server_version",
        "writable",
        "schema_version",
        "stuck_leases",
        "overdue_timers",
        "overdue_timeouts",
        "repairs",
        "times",
    ] {
        let finding = scene.found(check).await;
        assert_eq!(finding.severity, Severity::Fine, "{finding:?}");
        assert!(finding.remedy.is_empty());
    }
    scene.close().await;
}

#[tokio::test]
async fn claims_of_a_dead_worker_are_found() {
    let scene = Scene::open().await;
    let claim = work::running(&scene.store).await;
    scene.clock.advance(Duration::from_secs(2 * 3600));
    let stuck = scene.found("stuck_leases").await;
    assert_eq!(stuck.severity, Severity::Warning, "{claim:?}");
    assert_eq!(
        stuck.found,
        "1 claim held by 1 dead worker, whose first lease ended 60 min ago"
    );
    scene.close().await;
}

#[tokio::test]
async fn waits_past_their_deadline_are_found() {
    let scene = Scene::open().await;
    let claim = work::running(&scene.store).await;
    let park = Outcome::Wait {
        names: vec!["paid".into()],
        step: "ship".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(60)),
    };
    work::commit(&scene.store, &claim, park).await;
    scene.clock.advance(Duration::from_secs(65));
    assert_eq!(scene.found("overdue_timers").await.severity, Severity::Fine);
    scene.clock.advance(Duration::from_secs(30));
    let overdue = scene.found("overdue_timers").await;
    assert_eq!(overdue.severity, Severity::Warning);
    assert_eq!(
        overdue.found,
        "1 wait should have been woken, the first 35 s ago"
    );
    scene.close().await;
}

#[tokio::test]
async fn instances_past_their_whole_timeout_are_found() {
    let scene = Scene::open().await;
    let minute = Duration::from_secs(60);
    for row in [
        work::task().timeout(minute),
        work::task().run_timeout(minute),
        work::task(),
    ] {
        work::insert(&scene.store, row).await;
    }
    scene.clock.advance(Duration::from_secs(65));
    let overdue = scene.found("overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Fine);
    scene.clock.advance(Duration::from_secs(30));
    let overdue = scene.found("overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Warning);
    assert_eq!(
        overdue.found,
        "2 instances should have failed as timed out, the first 35 s ago"
    );
    assert_eq!(scene.store.time_out(10).await.unwrap().ended.len(), 2);
    let overdue = scene.found("overdue_timeouts").await;
    assert_eq!(overdue.severity, Severity::Fine);
    scene.close().await;
}

#[tokio::test]
async fn instances_that_need_a_repair_are_found() {
    let scene = Scene::open().await;
    let claim = work::running(&scene.store).await;
    let sleep = Outcome::Wait {
        names: Vec::new(),
        step: "woken".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(60)),
    };
    work::commit(&scene.store, &claim, sleep).await;
    assert_eq!(scene.found("repairs").await.severity, Severity::Fine);
    let schema = &scene.schema;
    let lost = format!("update {schema}.instances set await_deadline = null");
    crate::support::raw()
        .await
        .batch_execute(&lost)
        .await
        .unwrap();
    let repairs = scene.found("repairs").await;
    assert_eq!(repairs.severity, Severity::Warning);
    let expected = format!(
        "the first is {}: it is parked and waits for nothing",
        claim.id
    );
    assert!(repairs.found.contains(&expected), "{repairs:?}");
    let note = Note::by("ada");
    scene.store.repair(vec![claim.id], note).await.unwrap();
    assert_eq!(scene.found("repairs").await.severity, Severity::Fine);
    scene.close().await;
}

#[tokio::test]
async fn times_that_the_clock_has_not_reached_are_found() {
    let scene = Scene::open().await;
    let hour = Duration::from_secs(3_600);
    work::insert(&scene.store, work::task()).await;
    let later = work::task().start(Start::After(10 * hour));
    work::insert(&scene.store, later).await;
    assert_eq!(scene.found("times").await.severity, Severity::Fine);
    scene.clock.advance(hour);
    work::insert(&scene.store, work::task()).await;
    let right = outlast_core::Clock::now(&scene.clock) - hour + Duration::from_secs(60);
    scene.clock.set(right);
    let found = scene.found("times").await;
    assert_eq!(found.severity, Severity::Serious);
    assert_eq!(
        found.found,
        "1 instance written by a clock that was ahead, at most 59 min from now; 1 instance due and not started, among the newest 3 instances"
    );
    scene.close().await;
}

#[tokio::test]
async fn times_out_of_range_and_heartbeats_ahead_of_the_clock_are_found() {
    let scene = Scene::open().await;
    let id = work::insert(&scene.store, work::task()).await;
    work::worker(&scene.store).await;
    let sql = crate::support::raw().await;
    for (change, message) in [
        ("instances set eligible_at = 'infinity'", "after 9999"),
        (
            "instances set eligible_at = '287168-01-01 00:00:00+00'",
            "after 9999",
        ),
        ("instances set eligible_at = '-infinity'", "before 1970"),
        (
            "instances set inserted_at = 'infinity', updated_at = 'infinity'",
            "was ahead",
        ),
        (
            "workers set heartbeat_at = heartbeat_at + interval '1 day'",
            "1 worker with a heartbeat ahead",
        ),
    ] {
        sql.batch_execute(&format!("update \"{}\".{change}", scene.schema))
            .await
            .unwrap();
        let found = scene.found("times").await;
        assert_eq!(found.severity, Severity::Serious, "{change} of {id}");
        assert!(found.found.contains(message), "{change}: {found:?}");
    }
    scene.close().await;
}

/// A warning about it takes minutes, so this test checks that the query finds the session.
#[tokio::test]
async fn an_idle_transaction_is_seen() {
    let scene = Scene::open().await;
    let idle = crate::support::raw().await;
    let name = format!("{}_idle", scene.schema);
    let begin =
        format!("set application_name = '{name}'; begin isolation level repeatable read; select 1");
    idle.batch_execute(&begin).await.unwrap();
    let (_, text) = outlast_postgres::testing::statements(&scene.schema)
        .into_iter()
        .find(|(name, _)| *name == "doctor/holders")
        .unwrap();
    let rows = crate::support::raw()
        .await
        .query(&text, &[&1_000_i64])
        .await
        .unwrap();
    let mine: Vec<_> = rows
        .iter()
        .filter(|row| row.get::<_, String>("name").ends_with(&name))
        .collect();
    assert_eq!(mine.len(), 1);
    assert_eq!(mine[0].get::<_, String>("kind"), "session");
    assert!(mine[0].get::<_, bool>("is_idle") && mine[0].get::<_, bool>("keeps_rows"));
    assert!(mine[0].get::<_, f64>("seconds") >= 0.0);
    idle.batch_execute("rollback").await.unwrap();
    scene.close().await;
}

#[tokio::test]
async fn role_settings_that_risk_committed_data_are_found() {
    let scene = Scene::open().await;
    let role = format!("{}_hasty", scene.schema);
    let raw = crate::support::raw().await;
    let make = format!(
        "create role {role} login; alter role {role} set synchronous_commit = off;
         alter role {role} set default_transaction_isolation = 'serializable'"
    );
    raw.batch_execute(&make).await.unwrap();
    let options = crate::support::options(&scene.schema, &scene.clock);
    options.grant(&Roles::new().reader(&role)).await.unwrap();
    let url = crate::support::url_of(|config| config.user(&role));
    let store = Postgres::options(&url)
        .unwrap()
        .schema(&scene.schema)
        .connect()
        .await
        .unwrap();
    assert_eq!(
        found(&store, "durability").await.unwrap().severity,
        Severity::Serious
    );
    assert_eq!(
        found(&store, "isolation").await.unwrap().severity,
        Severity::Warning
    );
    // A reader may run every check.
    assert!(found(&store, "stuck_leases").await.is_some());
    store.close().await;
    scene.close().await;
    raw.batch_execute(&format!("drop role {role}"))
        .await
        .unwrap();
}

#[tokio::test]
async fn checks_that_the_role_may_not_read_are_left_out() {
    let scene = Scene::open().await;
    let role = format!("{}_web", scene.schema);
    let raw = crate::support::raw().await;
    raw.batch_execute(&format!("create role {role} login"))
        .await
        .unwrap();
    let options = crate::support::options(&scene.schema, &scene.clock);
    options.grant(&Roles::new().enqueuer(&role)).await.unwrap();
    let url = crate::support::url_of(|config| config.user(&role));
    let store = Postgres::options(&url)
        .unwrap()
        .schema(&scene.schema)
        .connect()
        .await
        .unwrap();
    assert!(found(&store, "server_version").await.is_some());
    assert!(found(&store, "stuck_leases").await.is_none());
    store.close().await;
    scene.close().await;
    raw.batch_execute(&format!("drop role {role}"))
        .await
        .unwrap();
}
