//! Migrations run once, as a whole, and in the configured schema.

#[path = "../../examples/migrate.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod example;

use crate::support::work::{self, task};
use crate::support::{Database, drop_schema, raw, raw_to, unique_schema, url, value_of};
use futures_util::future::join_all;
use outlast_core::{
    Answer, ChildRange, ClaimRef, Commit, Delivery, ErrorKind, Extent, Inspect, InstanceId,
    JoinProgress, Joined, Json, Links, NewReply, NewSignal, Note, Outcome, Proceed, ReplyKind,
    Revision, Status, Store, Verb,
};
use outlast_postgres::{Migrations, Options, Postgres, Roles, SCHEMA_VERSION, migrations_sql};
use std::time::Duration;
use tokio_postgres::Client;

fn options(schema: &str) -> Options {
    Postgres::options(&url()).unwrap().schema(schema)
}

/// Everything in a schema, as text: tables, columns, constraints, indexes, functions, versions.
async fn catalog(client: &Client, schema: &str) -> String {
    let query = format!(
        "select string_agg(line, E'\\n' order by line) from (
            select 'column ' || table_name || '.' || column_name || ' ' || data_type || ' '
                   || is_nullable || coalesce(' ' || collation_name, '')
                   || coalesce(' ' || column_default, '') || ' ' || is_identity as line
              from information_schema.columns where table_schema = '{schema}'
            union all
            select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
              from pg_constraint where connamespace = '{schema}'::regnamespace
            union all
            select indexdef from pg_indexes where schemaname = '{schema}'
            union all
            select pg_get_functiondef(oid) from pg_proc where pronamespace = '{schema}'::regnamespace
            union all
            select 'table ' || relname || coalesce(' ' || array_to_string(reloptions, ','), '')
              from pg_class where relnamespace = '{schema}'::regnamespace
        ) as lines"
    );
    let lines: Option<String> = value_of(client, &query).await;
    lines.unwrap_or_default().replace(schema, "SCHEMA")
}

/// The objects of a database outside of this schema, with those of the system.
async fn outside(client: &Client, schema: &str) -> Vec<String> {
    let query = format!(
        "select format('%s %s', n.nspname, o.name) from (
            select relnamespace as namespace, relname::text as name from pg_class
            union all select pronamespace, proname from pg_proc
            union all select typnamespace, typname from pg_type
            union all select oid, 'namespace' from pg_namespace
            union all select extnamespace, extname from pg_extension
         ) as o join pg_namespace n on n.oid = o.namespace
         where n.nspname not in ('{schema}', 'pg_toast') and n.nspname not like 'pg_temp%'
         order by 1"
    );
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn versions(client: &Client, schema: &str) -> Vec<(String, i32)> {
    let query = format!("select key, value from \"{schema}\".meta");
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_that_start_at_once_make_one_schema() {
    let schema = unique_schema();
    let connecting = (0..16).map(|_| {
        let options = options(&schema).max_connections(1);
        tokio::spawn(options.connect())
    });
    let mut stores = Vec::new();
    for connected in join_all(connecting).await {
        stores.push(connected.unwrap().expect("every node starts"));
    }
    let raw = raw().await;
    let only = [("version".to_owned(), SCHEMA_VERSION as i32)];
    assert_eq!(versions(&raw, &schema).await, only);
    let id = work::insert(&stores[0], task()).await;
    for store in &stores {
        assert_eq!(work::get(store, id).await.id, id);
        store.close().await;
    }
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_migration_does_not_wait_for_a_lock_for_long() {
    let (schema, holder) = (unique_schema(), raw().await);
    let hasty = || options(&schema).lock_timeout(Duration::from_millis(150));
    let sql = format!(
        "create schema {schema}; create table {schema}.meta (key text primary key, value integer not null)"
    );
    holder.batch_execute(&sql).await.unwrap();
    let before = catalog(&holder, &schema).await;
    for lock in [
        // The lock of a migration by another node.
        format!(
            "select pg_advisory_xact_lock(hashtextextended('outlast migration of {schema}', 0))"
        ),
        // A lock taken by hand.
        format!("lock table {schema}.meta in access exclusive mode"),
    ] {
        holder
            .batch_execute(&format!("begin; {lock}"))
            .await
            .unwrap();
        let connecting = hasty().connect();
        let error = tokio::time::timeout(Duration::from_secs(20), connecting).await;
        let error = error.expect("connecting ends in time").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
        let message = "somebody holds a lock for too long";
        assert!(error.to_string().contains(message), "{error}");
        holder.batch_execute("rollback").await.unwrap();
        assert_eq!(catalog(&holder, &schema).await, before, "half-migrated");
    }
    let store = hasty().connect().await.unwrap();
    work::running(&store).await;
    store.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let (schema, raw) = (unique_schema(), raw().await);
    // This table makes the first migration fail at its second table.
    let sql = format!("create schema {schema}; create table {schema}.signals (x integer)");
    raw.batch_execute(&sql).await.unwrap();
    let before = catalog(&raw, &schema).await;
    let error = options(&schema).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(
        error.to_string().contains("\"signals\" already exists"),
        "{error}"
    );
    assert_eq!(catalog(&raw, &schema).await, before);
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_schema_of_a_newer_version_is_refused_and_left_alone() {
    let schema = unique_schema();
    options(&schema).connect().await.unwrap().close().await;
    let (raw, newer) = (raw().await, SCHEMA_VERSION + 1);
    let sql = format!("update \"{schema}\".meta set value = {newer} where key = 'version'");
    raw.batch_execute(&sql).await.unwrap();
    let before = catalog(&raw, &schema).await;
    for migrations in [Migrations::Run, Migrations::Check] {
        let options = options(&schema).migrations(migrations);
        let error = options.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        let message = format!("is at version {newer}, made by a newer build");
        assert!(error.to_string().contains(&message), "{error}");
        assert!(error.to_string().contains("update it"), "{error}");
    }
    assert_eq!(options(&schema).schema_version().await.unwrap(), newer);
    assert_eq!(catalog(&raw, &schema).await, before);
    drop_schema(&schema).await;
}

#[tokio::test]
async fn printed_migrations_make_the_same_schema_as_connecting_and_run_only_once() {
    let (connected, printed) = (unique_schema(), unique_schema());
    options(&connected).connect().await.unwrap().close().await;
    let (raw, sql) = (raw().await, migrations_sql(&printed).unwrap());
    raw.batch_execute(&sql).await.unwrap();
    let made = catalog(&raw, &printed).await;
    assert!(made.contains("instances_pick") && made.contains("CREATE OR REPLACE FUNCTION"));
    assert_eq!(made, catalog(&raw, &connected).await);
    assert_eq!(
        versions(&raw, &printed).await,
        versions(&raw, &connected).await
    );
    let checked = options(&printed).migrations(Migrations::Check);
    let store = checked.connect().await.unwrap();
    let id = work::insert(&store, task()).await;

    raw.batch_execute(&sql)
        .await
        .expect_err("a second run fails");
    raw.batch_execute("rollback").await.unwrap();
    assert_eq!(catalog(&raw, &printed).await, made);
    assert_eq!(versions(&raw, &printed).await.len(), 1);
    assert_eq!(work::get(&store, id).await.id, id);
    store.close().await;
    drop_schema(&connected).await;
    drop_schema(&printed).await;
    assert!(migrations_sql("not plain").is_err());
}

/// Version 15 is the last one whose functions know no timeouts. A function with another parameter
/// is another function.
#[tokio::test]
async fn the_functions_that_get_a_timeout_keep_their_grants() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 16\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let role = format!("caller_{schema}");
    let grants = format!(
        "create role {role};
         grant execute on function {schema}.insert(text, text, jsonb, integer, text, integer, timestamptz, text,
             text, text[], text) to {role} with grant option"
    );
    raw.batch_execute(&grants).await.unwrap();
    options(&schema).connect().await.unwrap().close().await;
    let can = |function: &str, right: &str| {
        format!(
            "select has_function_privilege('{role}', p.oid, '{right}') from pg_proc p
              where p.pronamespace = '{schema}'::regnamespace and p.proname = '{function}'"
        )
    };
    for (function, right, expected) in [
        ("insert", "execute", true),
        ("insert", "execute with grant option", true),
        ("insert_one", "execute", false),
    ] {
        let found: bool = value_of(&raw, &can(function, right)).await;
        assert_eq!(found, expected, "{function}: {right}");
    }
    drop_schema(&schema).await;
    raw.batch_execute(&format!("drop role {role}"))
        .await
        .unwrap();
}

/// A node of the first version may run during the migration. Its rows are still there afterwards,
/// and its claims can be committed.
#[tokio::test]
async fn a_schema_of_the_first_version_keeps_its_rows_when_it_is_migrated() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (first, _) = sql.split_once("\n-- Migration 2\n").unwrap();
    raw.batch_execute(first).await.unwrap();
    let old_rows = format!(
        "select {schema}.insert('task', 'start', '{{\"n\": 1}}', correlation_key => 'waiting');
         select {schema}.insert('task', 'second', priority => 5);
         insert into {schema}.workers (name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
         values ('old', 'host', '1', '{{default}}', now(), now(), now() + interval '1 hour');
         select {schema}.insert('task', 'third', correlation_key => 'held');
         update {schema}.instances set status = 'executing', locked_by = 1, revision = 7 where step = 'third';
         update {schema}.instances set status = 'awaiting_signal', awaits = '{{go}}', revision = 4
          where correlation_key = 'waiting';
         select {schema}.signal('task', 'held', 'later')"
    );
    raw.batch_execute(&old_rows).await.unwrap();
    assert_eq!(options(&schema).schema_version().await.unwrap(), 1);
    let checked = options(&schema).migrations(Migrations::Check);
    let error = checked.connect().await.unwrap_err();
    assert!(error.to_string().contains("run the migrations"), "{error}");

    let store = options(&schema).connect().await.unwrap();
    let only = [("version".to_owned(), SCHEMA_VERSION as i32)];
    assert_eq!(versions(&raw, &schema).await, only);
    let waiting = store.find("task", "waiting").await.unwrap().unwrap();
    assert_eq!(
        (waiting.revision, waiting.entered),
        (Revision(4), Revision(0))
    );
    assert_eq!(
        (waiting.trace, waiting.state.as_str()),
        (None, r#"{"n": 1}"#)
    );
    let held = store.find("task", "held").await.unwrap().unwrap();
    // The instance of a machine is in its first run and has no history.
    assert_eq!((held.run, held.events, &held.joining), (1, 0, &None));
    assert_eq!(store.signals(held.id, None).await.unwrap().len(), 1);
    let commit = Commit {
        claim: ClaimRef {
            id: held.id,
            revision: held.revision,
        },
        received: Vec::new(),
        outcome: work::wait_for("later"),
        answers_cancel: false,
        links: Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    let committed = store.commit(vec![commit].into()).await.unwrap();
    let [answer] = &committed.answers[..] else {
        panic!("{committed:?}");
    };
    let expected = Answer::Committed {
        revision: Revision(8),
        status: Status::Runnable,
        cancel: None,
        latest_signal: None,
        at: store.get(held.id).await.unwrap().unwrap().updated_at,
    };
    assert_eq!(*answer, expected);
    let claim = work::claim(&store, work::worker(&store).await).await;
    assert_eq!((claim.id, claim.entered), (held.id, Revision(8)));
    assert_eq!(claim.awaited().count(), 1);

    // The function has the new signature, and the old one is gone.
    let new: i64 = value_of(
        &raw,
        &format!("select {schema}.insert('task', 'start', trace => 't')"),
    )
    .await;
    let new = work::get(&store, InstanceId(new)).await;
    assert_eq!(
        (new.trace.as_deref(), new.entered),
        (Some("t"), Revision(0))
    );
    store.close().await;
    drop_schema(&schema).await;
}

/// A waiting parent gets the counts that decide its join, and old operations get their verbs.
#[tokio::test]
async fn a_family_from_before_migration_7_gets_its_counts_and_joins() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 7\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let family = format!(
        "select {schema}.insert('task', 'start') from generate_series(1, 4);
         update {schema}.instances set status = 'awaiting_children', round = 1, children_pending = 1 where id = 1;
         update {schema}.instances set parent_id = 1, parent_round = 1 where id > 1;
         update {schema}.instances set status = 'failed', finished_at = now(), last_error = 'no' where id = 2;
         update {schema}.instances set status = 'done', finished_at = now(), result = '1' where id = 3;
         insert into {schema}.operations (verb, instance_id, operator, status_before, at)
         values ('cancel', 2, 'somebody', 'runnable', now())"
    );
    raw.batch_execute(&family).await.unwrap();

    let store = options(&schema).connect().await.unwrap();
    let barrier = work::get(&store, InstanceId(1)).await.barrier.unwrap();
    assert_eq!((barrier.started, barrier.failed), (3, 1));
    assert_eq!(barrier.first_failure, Some(InstanceId(2)));
    let children = store.children(InstanceId(1), None, None).await.unwrap();
    let positions: Vec<i32> = children.iter().map(|child| child.position).collect();
    assert_eq!(positions, [0, 1, 2]);
    let operations = store.operations(Some(InstanceId(2))).await.unwrap();
    assert_eq!(operations[0].verb, Verb::Terminate);

    let ended = store.terminate(vec![InstanceId(4)], Extent::One, Note::by("test"));
    let woken = ended.await.unwrap().woken;
    assert_eq!(woken.into_iter().collect::<Vec<_>>(), ["default"]);
    let claim = work::claim(&store, work::worker(&store).await).await;
    assert_eq!((claim.id, claim.joined), (InstanceId(1), Some(Joined::All)));
    let positions: Vec<i32> = claim.children.iter().map(|child| child.position).collect();
    assert_eq!(positions, [0, 1, 2]);
    store.close().await;
    drop_schema(&schema).await;
}

/// The migration gives it one join set: all children of its rounds.
#[tokio::test]
async fn a_workflow_parked_before_join_sets_is_woken_by_its_last_child() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 9\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let family = format!(
        "select {schema}.insert('task', 'start') from generate_series(1, 4);
         update {schema}.instances
            set status = 'awaiting_children', round = 3, joining = '{{1,3}}', children_started = 2,
                children_pending = 2, join_fails_fast = true
          where id = 1;
         update {schema}.instances set parent_id = 1, parent_round = id - 1, parent_position = 0 where id > 1"
    );
    raw.batch_execute(&family).await.unwrap();

    let store = options(&schema).connect().await.unwrap();
    let waiting = work::get(&store, InstanceId(1)).await;
    let sets = [JoinProgress {
        ranges: vec![ChildRange::whole(1), ChildRange::whole(3)],
        left: 2,
    }];
    assert_eq!(waiting.joining.as_deref(), Some(&sets[..]));
    let worker = work::worker(&store).await;
    for (child, left) in [(2, 1), (3, 1), (4, 0)] {
        let claim = work::claim(&store, worker).await;
        assert_eq!(claim.id, InstanceId(child));
        work::commit(&store, &claim, work::done()).await;
        let row = work::get(&store, InstanceId(1)).await;
        assert_eq!(row.joining.unwrap()[0].left, left);
    }
    let claim = work::claim(&store, worker).await;
    assert_eq!((claim.id, claim.joined), (InstanceId(1), Some(Joined::All)));
    store.close().await;
    drop_schema(&schema).await;
}

/// Version 10 is the last one with the columns `fsm` and `fsm_version`.
#[tokio::test]
async fn instances_of_every_kind_continue_after_their_columns_are_renamed() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 11\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let rows = format!(
        "select {schema}.insert('task', 'runnable');
         select {schema}.insert('task', 'executing');
         select {schema}.insert('task', 'parked', correlation_key => 'parked');
         select {schema}.insert('task', 'failed', correlation_key => 'failed');
         select {schema}.insert('flow', 'run', version => 3, correlation_key => 'flow');
         insert into {schema}.workers (name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
         values ('old', 'host', '1', '{{default}}', now(), now(), now() + interval '1 hour');
         update {schema}.instances set status = 'executing', locked_by = 1, revision = 7 where id = 2;
         update {schema}.instances set status = 'awaiting_signal', awaits = '{{go}}' where id = 3;
         update {schema}.instances
            set status = 'failed', finished_at = now(), last_error = 'broken', correlation_guard = null
          where id = 4;
         update {schema}.instances
            set status = 'awaiting_signal', awaits = '{{go}}', events = 2, revision = 3
          where id = 5;
         insert into {schema}.events (instance_id, run, seq, kind, name, data, at)
         values (5, 1, 1, 'run_started', '', '{{}}', now()), (5, 1, 2, 'signal_awaited', 'go', '{{}}', now());
         insert into {schema}.runs (minute, fsm, fsm_version, step, outcome, next_step, count, micros)
         values (date_trunc('minute', now()), 'task', 1, 'start', 'done', '', 4, 400)"
    );
    raw.batch_execute(&rows).await.unwrap();
    let indexes = format!(
        "select string_agg(indexdef, ';' order by indexname)
           from pg_indexes
          where schemaname = '{schema}' and tablename <> 'views'
            and indexname <> 'instances_timeout'"
    );
    let old_indexes: String = value_of(&raw, &indexes).await;

    let store = options(&schema).connect().await.unwrap();

    let new_indexes: String = value_of(&raw, &indexes).await;
    let renamed = old_indexes.replace("fsm_version", "machine_version");
    assert_eq!(new_indexes, renamed.replace("fsm", "machine"));
    let leftover = format!(
        "select count(*) from pg_proc
          where pronamespace = '{schema}'::regnamespace and prosrc ~ '\\mfsm'"
    );
    assert_eq!(value_of::<i64>(&raw, &leftover).await, 0);
    let stats = store.run_stats(outlast_core::Timestamp(0)).await.unwrap();
    assert_eq!(stats.runs[0].machine, "task");
    // The running instance can be committed.
    let running = work::get(&store, InstanceId(2)).await;
    let claim = ClaimRef {
        id: running.id,
        revision: Revision(7),
    };
    let commit = Commit {
        claim,
        received: Vec::new(),
        outcome: work::done(),
        answers_cancel: false,
        links: Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    store.commit(vec![commit].into()).await.unwrap();
    assert_eq!(work::get(&store, running.id).await.status, Status::Done);
    // The runnable instance is claimed, the parked one after a signal, the failed one after a
    // retry.
    let worker = work::worker(&store).await;
    assert_eq!(work::claim(&store, worker).await.id, InstanceId(1));
    let signalled = format!("select {schema}.signal('task', 'parked', 'go')");
    assert_eq!(value_of::<String>(&raw, &signalled).await, "delivered");
    assert_eq!(work::claim(&store, worker).await.id, InstanceId(3));
    let failed = store.find("task", "failed").await.unwrap().unwrap();
    assert_eq!(failed.last_error.as_deref(), Some("broken"));
    store.retry(vec![failed.id], Note::by("ada")).await.unwrap();
    assert_eq!(work::claim(&store, worker).await.id, failed.id);
    // The workflow keeps its version, its history and its key.
    let flow = store.find("flow", "flow").await.unwrap().unwrap();
    assert_eq!((flow.version, flow.events, flow.run), (3, 2, 1));
    let again = format!("select {schema}.insert('flow', 'run', correlation_key => 'flow')");
    assert_eq!(value_of::<Option<i64>>(&raw, &again).await, None);
    let signalled = format!("select {schema}.signal('flow', 'flow', 'go')");
    assert_eq!(value_of::<String>(&raw, &signalled).await, "delivered");
    assert_eq!(work::get(&store, flow.id).await.status, Status::Runnable);
    store.close().await;
    drop_schema(&schema).await;
}

/// Version 12 notes no signals on rows that execute.
#[tokio::test]
async fn a_claim_from_before_migration_13_is_told_of_later_signals() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 13\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let rows = format!(
        "select {schema}.insert('task', 'executing', correlation_key => 'held');
         insert into {schema}.workers (name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
         values ('old', 'host', '1', '{{default}}', now(), now(), now() + interval '1 hour');
         update {schema}.instances set status = 'executing', locked_by = 1, revision = 7 where id = 1;
         select {schema}.signal('task', 'held', 'before')"
    );
    raw.batch_execute(&rows).await.unwrap();

    let store = options(&schema).connect().await.unwrap();
    let mut claim = ClaimRef {
        id: InstanceId(1),
        revision: Revision(7),
    };
    let mut named = Vec::new();
    for _ in 0..2 {
        let commit = Commit {
            claim,
            received: Vec::new(),
            outcome: Outcome::Next {
                step: "next".into(),
                state: Json::null(),
                proceed: Proceed::KeepClaim,
            },
            answers_cancel: false,
            links: Links::UNKNOWN,
            events: Vec::new(),
            position: None,
            views: Vec::new(),
            replies: Vec::new(),
        };
        let committed = store.commit(vec![commit].into()).await.unwrap();
        let [Answer::Committed { latest_signal, .. }] = committed.answers[..] else {
            panic!("{committed:?}");
        };
        named.push(latest_signal.is_some());
        claim.revision = claim.revision.next();
        let signalled = format!("select {schema}.signal('task', 'held', 'after')");
        assert_eq!(value_of::<String>(&raw, &signalled).await, "delivered");
    }
    assert_eq!(named, [false, true]);
    let inbox = store.inbox(claim).await.unwrap().unwrap();
    let names: Vec<&str> = inbox.iter().map(|signal| signal.name.as_str()).collect();
    assert_eq!(names, ["before", "after", "after"]);
    store.close().await;
    drop_schema(&schema).await;
}

/// Version 16 knows no updates. Its signals and tombstones are plain, and new updates find them.
#[tokio::test]
async fn signals_from_before_migration_17_want_no_reply() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 17\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let role = format!("caller_{schema}");
    let rows = format!(
        "create role {role};
         grant execute on function {schema}.deliver_one(bigint, text, text, text, json, text, bigint) to {role};
         select {schema}.insert('task', 'start', correlation_key => 'held');
         select {schema}.signal('task', 'held', 'go');
         select {schema}.signal('task', 'held', 'go', dedup_key => 'pending');
         select {schema}.signal('task', 'held', 'go', dedup_key => 'consumed');
         update {schema}.signals set payload = null, consumed_at = now() where dedup_key = 'consumed'"
    );
    raw.batch_execute(&rows).await.unwrap();

    let store = options(&schema).connect().await.unwrap();
    let id = InstanceId(1);
    let signals = store.signals(id, None).await.unwrap();
    assert_eq!(signals.len(), 3);
    assert!(signals.iter().all(|signal| !signal.wants_reply));
    for key in ["pending", "consumed"] {
        assert_eq!(store.update(id, key).await.unwrap(), None);
        let update = NewSignal::new(id.into(), "go", Json::null()).update(key);
        let delivered = store.deliver(vec![update], None).await.unwrap();
        assert_eq!(delivered.answers, [Delivery::Duplicate { instance: id }]);
    }
    let claim = work::claim(&store, work::worker(&store).await).await;
    let replies = signals.iter().map(|signal| NewReply {
        signal: signal.id,
        kind: ReplyKind::Done,
        data: Json::null(),
    });
    let commit = Commit {
        replies: replies.collect(),
        ..Commit::of(&claim, work::wait_for("other"))
    };
    store.commit(vec![commit].into()).await.unwrap();
    assert_eq!(store.signals(id, None).await.unwrap(), signals);
    // A node of version 16 may still run. It calls the function without the new parameter.
    let older = format!(
        "select answer from {schema}.deliver_one(1, null, null, 'go', '1', 'older', 10000)"
    );
    assert_eq!(value_of::<String>(&raw, &older).await, "delivered");
    assert_eq!(store.update(id, "older").await.unwrap(), None);
    let may = format!(
        "select has_function_privilege('{role}', p.oid, 'execute') from pg_proc p
          where p.pronamespace = '{schema}'::regnamespace and p.proname = 'deliver_one'"
    );
    assert!(value_of::<bool>(&raw, &may).await, "it keeps its grants");
    store.close().await;
    drop_schema(&schema).await;
    let dropped = raw.batch_execute(&format!("drop role {role}")).await;
    dropped.unwrap();
}

/// A large table is neither rewritten nor read.
#[tokio::test]
async fn migration_17_does_not_rewrite_the_signals() {
    let (schema, raw) = (unique_schema(), raw().await);
    let sql = migrations_sql(&schema).unwrap();
    let (before, _) = sql.split_once("\n-- Migration 17\n").unwrap();
    raw.batch_execute(before).await.unwrap();
    let file = format!("select pg_relation_filenode('{schema}.signals')::bigint");
    let old: i64 = value_of(&raw, &file).await;
    options(&schema).connect().await.unwrap().close().await;
    assert_eq!(value_of::<i64>(&raw, &file).await, old);
    let checks = format!(
        "select count(*) from pg_constraint c where c.conrelid = '{schema}.signals'::regclass and c.contype = 'c'"
    );
    assert_eq!(value_of::<i64>(&raw, &checks).await, 0);
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_store_creates_objects_only_in_its_configured_schema() {
    let database = Database::create().await;
    let raw = raw_to(&database.url).await;
    let before = outside(&raw, "mine").await;
    let mine = Postgres::options(&database.url).unwrap().schema("mine");
    let mine = mine.connect().await.unwrap();
    let id = work::insert(&mine, task().correlation_key("k")).await;
    let claim = work::claim(&mine, work::worker(&mine).await).await;
    work::commit(&mine, &claim, work::wait_for("go")).await;
    raw.batch_execute("select mine.signal('task', 'k', 'go'); select mine.insert('task', 'start')")
        .await
        .unwrap();
    assert_eq!(outside(&raw, "mine").await, before);
    let all = catalog(&raw, "mine").await;
    assert!(
        !all.contains("outlast."),
        "a name of the default schema remains:\n{all}"
    );

    let theirs = Postgres::options(&database.url).unwrap().schema("theirs");
    let theirs = theirs.connect().await.unwrap();
    assert_eq!(theirs.get(id).await.unwrap(), None);
    assert_eq!(theirs.find("task", "k").await.unwrap(), None);
    work::insert(&theirs, task().correlation_key("k")).await;
    let theirs_claim = work::claim(&theirs, work::worker(&theirs).await).await;
    work::commit(&theirs, &theirs_claim, work::done()).await;
    let holder = mine
        .find("task", "k")
        .await
        .unwrap()
        .expect("the key is held");
    assert_eq!(holder.id, id);
    mine.close().await;
    theirs.close().await;
    drop(raw);
    database.drop().await;
}

#[tokio::test]
async fn the_migrate_example_prints_shows_and_runs_migrations() {
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        example::run(arguments.into_iter())
    };
    let (schema, url) = (unique_schema(), url());
    let printed = run(&["--print", "--schema", &schema]).await.unwrap();
    assert_eq!(printed, migrations_sql(&schema).unwrap().trim_end());
    assert_eq!(
        run(&["--print"]).await.unwrap(),
        migrations_sql("outlast").unwrap().trim_end()
    );
    let status = || run(&["--status", &url, "--schema", &schema]);
    let needed = format!("needed {SCHEMA_VERSION}");
    assert_eq!(status().await.unwrap(), format!("version 0\n{needed}"));
    let migrated = run(&[&url, "--schema", &schema]).await.unwrap();
    assert_eq!(migrated, format!("version {SCHEMA_VERSION}"));
    assert_eq!(
        status().await.unwrap(),
        format!("version {SCHEMA_VERSION}\n{needed}")
    );
    for arguments in [&[][..], &["--status"], &["--what"], &[&url, "--print"]] {
        let message = run(arguments).await.unwrap_err();
        assert!(message.contains("usage: migrate"), "{message}");
    }
    let roles = Roles::new().worker("w").enqueuer("e").reader("r");
    let named = ["--worker", "w", "--enqueuer", "e", "--reader", "r"];
    let grants = roles.sql("outlast").unwrap();
    let printed = run(&[&["--grants"][..], &named].concat()).await.unwrap();
    assert_eq!(printed, grants.trim_end());
    let printed = run(&[&["--print"][..], &named].concat()).await.unwrap();
    let both = format!("{}\n{grants}", migrations_sql("outlast").unwrap());
    assert_eq!(printed, both.trim_end());
    let missing = [&url, "--schema", &schema, "--reader", "nobody of this name"];
    let message = run(&missing).await.unwrap_err();
    assert!(message.contains("does not exist"), "{message}");
    let message = run(&["postgres://me:hunter2@127.0.0.1:1/x"])
        .await
        .unwrap_err();
    assert!(message.contains("is PostgreSQL running"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
    drop_schema(&schema).await;
}
