//! Opening and closing a store, files of earlier versions, and the identity of a database.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Answer, ClaimRef, Commit, Count, Delivery, ErrorKind, Filter, Inspect, InstanceId, Json,
    ManualClock, NewReply, NewSignal, Outcome, Proceed, ReplyKind, Revision, Status, Store, Target,
};
use outlast_sqlite::{Sqlite, Synchronous};
use rusqlite::Connection;
use std::path::Path;
use std::thread;

#[tokio::test]
async fn a_file_that_is_opened_again_continues_where_it_was() {
    let (_folder, path) = scene::new_path();
    let clock = ManualClock::default();
    let open = || Sqlite::options().clock(clock.clone()).open(&path).unwrap();

    let store = open();
    let worker = scene::worker(&store).await;
    let id = scene::insert(&store, vec![scene::order().correlation_key("k")]).await[0];
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let mut park = scene::done(claim.reference());
    park.outcome = Outcome::Wait {
        names: vec!["paid".into()],
        step: "ship".into(),
        state: Json::parse(r#"{"n":1}"#).unwrap(),
        timeout: None,
    };
    store.commit(vec![park].into()).await.unwrap();
    let parked = store.get(id).await.unwrap().unwrap();
    store.close().await;

    let store = open();
    assert_eq!(store.get(id).await.unwrap().unwrap(), parked);
    let target = Target::Key {
        machine: "order".into(),
        key: "k".into(),
    };
    let signal = NewSignal::new(target, "paid", Json::null());
    let delivered = store.deliver(vec![signal], None).await.unwrap().answers;
    assert!(matches!(
        delivered[0],
        Delivery::Delivered { woke: true, .. }
    ));
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.id, claim.step.as_str()), (id, "ship"));
    assert_eq!(claim.awaited().count(), 1);
    store.close().await;
}

#[tokio::test]
async fn close_waits_for_running_verbs_and_then_refuses_new_ones() {
    let (folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let other = store.clone();
    let insert =
        tokio::spawn(async move { other.insert(vec![scene::order(); 10_000], None).await });
    // The insert is under way or comes too late. It is written as a whole or not at all.
    tokio::task::yield_now().await;
    store.close().await;
    let inserted = insert.await.unwrap();

    let refused = store.insert(vec![scene::order()], None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    let refused = store.count(Filter::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert_eq!(store.now().await.unwrap_err().kind(), ErrorKind::Closed);
    let refused = store.commit(Vec::new().into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    store.close().await;

    assert!(
        !beside(&path, "-wal").exists(),
        "the log was written back and removed"
    );
    let expected = if inserted.is_ok() { 10_000 } else { 0 };
    let count: i64 = Connection::open(&path)
        .unwrap()
        .query_row("select count(*) from instances", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, expected);
    drop(folder);
}

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[tokio::test]
async fn two_stores_in_memory_do_not_see_each_other() {
    let clock = ManualClock::default();
    let (one, two) = (scene::in_memory(&clock), scene::in_memory(&clock));
    scene::insert(&one, vec![scene::order()]).await;
    assert_eq!(
        one.count(Filter::default()).await.unwrap(),
        Count::Exactly(1)
    );
    assert_eq!(
        two.count(Filter::default()).await.unwrap(),
        Count::Exactly(0)
    );

    let named = Sqlite::open(":memory:").unwrap();
    scene::insert(&named, vec![scene::order()]).await;
    assert_eq!(
        named.count(Filter::default()).await.unwrap(),
        Count::Exactly(1)
    );
    assert!(!Path::new(":memory:").exists());
}

#[tokio::test]
async fn every_level_of_durability_works() {
    for level in [Synchronous::Full, Synchronous::Normal, Synchronous::Off] {
        let (_folder, path) = scene::new_path();
        let store = Sqlite::options().synchronous(level).open(&path).unwrap();
        let worker = scene::worker(&store).await;
        let id = scene::insert(&store, vec![scene::order()]).await[0];
        let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
        let next = scene::next(claim.reference(), "[1]", Proceed::Requeue);
        store.commit(vec![next].into()).await.unwrap();
        let row = store.get(id).await.unwrap().unwrap();
        assert_eq!((row.status, row.step.as_str()), (Status::Runnable, "next"));
        store.close().await;
    }
}

/// The first connection creates the schema, and the others wait (docs/protocol.md, defect 19).
#[test]
fn several_threads_can_open_a_new_file_at_once() {
    let (_folder, path) = scene::new_path();
    let opened: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Sqlite::open(&path)))
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for store in opened {
        store.unwrap();
    }
}

#[test]
fn the_public_migrations_create_the_schema() {
    let migrations = Sqlite::migrations();
    let versions: Vec<i64> = migrations.iter().map(|it| it.version).collect();
    assert_eq!(versions, (1..=versions.len() as i64).collect::<Vec<_>>());
    let connection = Connection::open_in_memory().unwrap();
    for migration in migrations {
        connection.execute_batch(migration.sql).unwrap();
    }
    let instances = connection.prepare("select id, machine, status from instances");
    assert!(instances.is_ok());
}

#[tokio::test]
async fn a_file_of_the_first_version_keeps_its_rows_and_goes_on() {
    let (_folder, path) = scene::new_path();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "create table meta (key text primary key, value text not null) strict;
         insert into meta values ('schema_version', '1');",
    )
    .unwrap();
    old.execute_batch(Sqlite::migrations()[0].sql).unwrap();
    old.execute_batch(
        r#"insert into workers (name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
           values ('old', 'here', '1', '["default"]', 0, 0, 9000000000000000);
           insert into instances (fsm, fsm_version, step, state, status, revision, queue, priority,
               eligible_at, locked_by, inserted_at, updated_at)
           values ('order', 1, 'start', '{"n":1}', 'runnable', 2, 'default', 5, 0, null, 0, 0),
                  ('order', 1, 'second', '{}', 'executing', 7, 'default', 0, 0, 1, 0, 0);
           insert into signals (target_id, name, payload, inserted_at) values (2, 'later', '{}', 0);"#,
    )
    .unwrap();
    drop(old);

    let store = Sqlite::open(&path).unwrap();
    let (first, second) = (InstanceId(1), InstanceId(2));
    let row = store.get(first).await.unwrap().unwrap();
    assert_eq!((row.revision, row.entered), (Revision(2), Revision(0)));
    assert_eq!((row.trace, row.state.as_str()), (None, r#"{"n":1}"#));
    let mut wait = scene::done(ClaimRef {
        id: second,
        revision: Revision(7),
    });
    wait.outcome = Outcome::Wait {
        names: vec!["later".into()],
        step: "third".into(),
        state: Json::null(),
        timeout: None,
    };
    let committed = store.commit(vec![wait].into()).await.unwrap();
    let Answer::Committed {
        revision, status, ..
    } = committed.answers[0]
    else {
        panic!("{committed:?}");
    };
    assert_eq!((revision, status), (Revision(8), Status::Runnable));
    let worker = scene::worker(&store).await;
    let claims = scene::claim(&store, worker, 2).await.claims;
    assert_eq!(scene::ids(&claims), [second, first]);
    assert_eq!(
        (claims[0].entered, claims[1].entered),
        (Revision(8), Revision(0))
    );
    assert_eq!(claims[0].awaited().count(), 1);
    let new = scene::insert(&store, vec![scene::order().trace("t")]).await[0];
    let new = store.get(new).await.unwrap().unwrap();
    assert_eq!(new.trace.as_deref(), Some("t"));
    store.close().await;
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(store.get(new.id).await.unwrap().unwrap(), new);
}

/// Version 3 moves the rows into a table with other checks.
#[tokio::test]
async fn rows_that_move_into_another_table_keep_their_ids_and_no_id_is_given_twice() {
    let (_folder, path) = scene::new_path();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "create table meta (key text primary key, value text not null) strict;
         insert into meta values ('schema_version', '2');",
    )
    .unwrap();
    for migration in &Sqlite::migrations()[..2] {
        old.execute_batch(migration.sql).unwrap();
    }
    let insert = "insert into instances (fsm, fsm_version, step, state, status, queue, priority,
             eligible_at, inserted_at, updated_at, trace, entered_revision)
         values ('order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 0, 0, 't', 3)";
    for _ in 0..5 {
        old.execute_batch(insert).unwrap();
    }
    old.execute_batch("delete from instances where id in (2, 4, 5)")
        .unwrap();
    drop(old);

    let store = Sqlite::open(&path).unwrap();
    let new = scene::insert(&store, vec![scene::order()]).await;
    assert_eq!(new, [InstanceId(6)]);
    let kept = store.get(InstanceId(3)).await.unwrap().unwrap();
    assert_eq!(kept.trace.as_deref(), Some("t"));
    assert_eq!(kept.entered, Revision(3));
    assert_eq!(store.get(InstanceId(2)).await.unwrap(), None);
    store.close().await;
}

/// Version 11 notes no signals on rows that execute.
#[tokio::test]
async fn a_claim_from_before_version_12_is_told_of_later_signals() {
    let (_folder, path) = scene::new_path();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "create table meta (key text primary key, value text not null) strict;
         insert into meta values ('schema_version', '11');",
    )
    .unwrap();
    for migration in &Sqlite::migrations()[..11] {
        old.execute_batch(migration.sql).unwrap();
    }
    old.execute_batch(
        r#"insert into workers (name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
           values ('old', 'here', '1', '["default"]', 0, 0, 9000000000000000);
           insert into instances (machine, machine_version, step, state, status, revision, queue,
               priority, eligible_at, locked_by, inserted_at, updated_at)
           values ('order', 1, 'start', '{}', 'executing', 7, 'default', 0, 0, 1, 0, 0);
           insert into signals (target_id, name, payload, inserted_at) values (1, 'before', '{}', 0);"#,
    )
    .unwrap();
    drop(old);

    let store = Sqlite::open(&path).unwrap();
    let mut claim = ClaimRef {
        id: InstanceId(1),
        revision: Revision(7),
    };
    let mut named = Vec::new();
    for _ in 0..2 {
        let keep = scene::next(claim, "{}", Proceed::KeepClaim);
        let committed = store.commit(vec![keep].into()).await.unwrap();
        let [Answer::Committed { latest_signal, .. }] = committed.answers[..] else {
            panic!("{committed:?}");
        };
        named.push(latest_signal.is_some());
        claim.revision = claim.revision.next();
        let after = NewSignal::new(Target::Id(claim.id), "after", Json::null());
        store.deliver(vec![after], None).await.unwrap();
    }
    assert_eq!(named, [false, true]);
    let inbox = store.inbox(claim).await.unwrap().unwrap();
    let names: Vec<&str> = inbox.iter().map(|signal| signal.name.as_str()).collect();
    assert_eq!(names, ["before", "after", "after"]);
    store.close().await;
}

/// Version 14 knows no updates.
#[tokio::test]
async fn signals_from_before_version_15_want_no_reply() {
    let (_folder, path) = scene::new_path();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "create table meta (key text primary key, value text not null) strict;
         insert into meta values ('schema_version', '14');",
    )
    .unwrap();
    for migration in &Sqlite::migrations()[..14] {
        old.execute_batch(migration.sql).unwrap();
    }
    old.execute_batch(
        "insert into instances (machine, machine_version, step, state, status, queue, priority,
             eligible_at, inserted_at, updated_at)
         values ('order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 0, 0);
         insert into signals (target_id, name, payload, dedup_key, inserted_at, consumed_at)
         values (1, 'go', '{}', null, 0, null), (1, 'go', '{}', 'pending', 0, null),
                (1, 'go', null, 'consumed', 0, 0);",
    )
    .unwrap();
    drop(old);

    let store = Sqlite::open(&path).unwrap();
    let id = InstanceId(1);
    let signals = store.signals(id, None).await.unwrap();
    assert_eq!(signals.len(), 3);
    assert!(signals.iter().all(|signal| !signal.wants_reply));
    for key in ["pending", "consumed"] {
        assert_eq!(store.update(id, key).await.unwrap(), None);
        let update = NewSignal::new(Target::Id(id), "go", Json::null()).update(key);
        let delivered = store.deliver(vec![update], None).await.unwrap();
        assert_eq!(delivered.answers, [Delivery::Duplicate { instance: id }]);
    }
    let worker = scene::worker(&store).await;
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let replies = signals.iter().map(|signal| NewReply {
        signal: signal.id,
        kind: ReplyKind::Done,
        data: Json::null(),
    });
    let commit = Commit {
        replies: replies.collect(),
        ..scene::next(claim.reference(), "{}", Proceed::KeepClaim)
    };
    store.commit(vec![commit].into()).await.unwrap();
    assert_eq!(store.signals(id, None).await.unwrap(), signals);
    store.close().await;
}

#[tokio::test]
async fn the_schema_refuses_an_unknown_or_inconsistent_status() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::insert(&store, vec![scene::order()]).await;
    store.close().await;
    let connection = Connection::open(&path).unwrap();
    let update = |set: &str| connection.execute(&format!("update instances set {set}"), []);
    for set in [
        "status = 'ready'",
        "status = 'executing'",
        "status = 'done'",
        "status = 'awaiting_signal'",
        "finished_at = 1",
        "locked_by = 1",
    ] {
        assert!(update(set).is_err(), "{set}");
    }
    assert_eq!(update("status = 'done', finished_at = 1"), Ok(1));
}

#[tokio::test]
async fn a_file_has_one_database_id_and_each_store_in_memory_its_own() {
    let (folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let folder_name = folder.path().file_name().unwrap();
    let detour = folder
        .path()
        .join("..")
        .join(folder_name)
        .join("outlast.db");
    let same = Sqlite::open(&detour).unwrap();
    assert_eq!(store.database_id(), same.database_id());
    let canonical = path.canonicalize().unwrap();
    assert!(
        store
            .database_id()
            .contains(&canonical.display().to_string())
    );
    let other = Sqlite::open(folder.path().join("other.db")).unwrap();
    assert_ne!(store.database_id(), other.database_id());

    let (one, two) = (
        Sqlite::in_memory().unwrap(),
        Sqlite::open(":memory:").unwrap(),
    );
    assert_ne!(one.database_id(), two.database_id());
    assert_eq!(one.database_id(), one.clone().database_id());
}

/// The store needs no particular runtime. This test has none.
#[test]
fn the_store_works_without_a_runtime() {
    let store = Sqlite::in_memory().unwrap();
    let inserts = block_on(store.insert(vec![scene::order()], None)).unwrap();
    let id = inserts.rows[0].new_id().unwrap();
    assert!(block_on(store.get(id)).unwrap().is_some());
    block_on(store.close());
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(answer) => return answer,
            std::task::Poll::Pending => thread::park(),
        }
    }
}
