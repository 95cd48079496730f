//! Workflows in a file: restarts, migrations, repairs, the checks of the schema, and the cost of
//! statements.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Answer, ChildRange, Claim, ClaimRef, Commit, Event, EventKind, Flowing, HistoryRequest,
    Inspect, InstanceId, JoinProgress, JoinSet, JoinSets, Joined, Json, NewEvent, NewInstance,
    NewSignal, Note, Outcome, Park, Proceed, RepairNeed, RepairScope, Revision, Status, Store,
    Target, WorkerId, limits,
};
use outlast_sqlite::Sqlite;
use rusqlite::{Connection, Params, StatementStatus, params};
use std::path::Path;

const KEEP: Flowing = Flowing::Proceed(Proceed::KeepClaim);

fn event(call: i32) -> NewEvent {
    NewEvent {
        kind: EventKind::StepCompleted,
        call: Some(call),
        name: "reserve".into(),
        data: Json::parse(format!("[{call}]")).unwrap(),
        at: None,
    }
}

fn flow(children: Vec<NewInstance>, then: Flowing) -> Outcome {
    Outcome::Flow {
        children,
        window: None,
        then,
    }
}

fn awaiting(round: i32, count: i32) -> Flowing {
    let set = JoinSet {
        ranges: vec![ChildRange::whole(round)],
        children: Vec::new(),
        count,
    };
    Flowing::Park(Park {
        join_sets: Some(JoinSets::one(set)),
        ..Park::default()
    })
}

/// Inserts and claims an instance.
async fn running(store: &Sqlite, worker: WorkerId) -> Claim {
    scene::insert(store, vec![scene::order()]).await;
    scene::claim(store, worker, 1).await.claims.remove(0)
}

/// Commits an outcome with these events. The claim gets the new revision.
async fn commit(store: &Sqlite, claim: &mut Claim, outcome: Outcome, events: Vec<NewEvent>) {
    let mut commit = Commit::of(claim, outcome);
    commit.events = events;
    match store
        .commit(vec![commit].into())
        .await
        .unwrap()
        .answers
        .remove(0)
    {
        Answer::Committed { revision, .. } => claim.revision = revision,
        answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => panic!("{answer:?}"),
    }
}

async fn history(store: &Sqlite, id: InstanceId, run: i32) -> Vec<Event> {
    let request = HistoryRequest {
        id,
        run,
        after: 0,
        max: limits::HISTORY_PAGE_MAX,
    };
    store.history(request).await.unwrap().rows
}

/// Returns the number of rows of a statement, and the steps that it takes for them.
fn steps(connection: &Connection, sql: &str, values: impl Params) -> (usize, i32) {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(values).unwrap();
    let mut found = 0;
    while rows.next().unwrap().is_some() {
        found += 1;
    }
    drop(rows);
    (found, statement.get_status(StatementStatus::VmStep))
}

fn execute(path: &Path, sql: &str) -> rusqlite::Result<()> {
    Connection::open(path).unwrap().execute_batch(sql)
}

#[tokio::test]
async fn a_history_survives_a_restart() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let mut claim = running(&store, worker).await;
    for call in 1..=3 {
        let step = flow(Vec::new(), KEEP);
        commit(&store, &mut claim, step, vec![event(call)]).await;
    }
    let continue_as_new = Outcome::ContinueAsNew {
        state: Json::null(),
    };
    commit(&store, &mut claim, continue_as_new, vec![event(4)]).await;
    store.close().await;

    let store = Sqlite::open(&path).unwrap();
    let events = history(&store, claim.id, 1).await;
    let seen: Vec<_> = events
        .iter()
        .map(|it| (it.seq, it.call, it.data.as_str()))
        .collect();
    let expected = [
        (1, Some(1), "[1]"),
        (2, Some(2), "[2]"),
        (3, Some(3), "[3]"),
        (4, Some(4), "[4]"),
    ];
    assert_eq!(seen, expected);
    let runs = store.histories(claim.id).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].run, runs[0].events), (1, 4));
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.run, claim.events), (2, 0));
    store.close().await;
}

/// Creates a file of this version with these rows.
fn old_file(path: &Path, version: i64, rows: &str) {
    let before = Sqlite::migrations()
        .iter()
        .filter(|it| it.version <= version);
    let schema: String = before.map(|it| it.sql).collect();
    let meta = format!(
        "create table meta (key text primary key, value text not null) strict;
         insert into meta values ('schema_version', '{version}');"
    );
    execute(path, &(schema + &meta + rows)).unwrap();
}

#[tokio::test]
async fn a_file_of_the_previous_version_continues_and_can_record_histories() {
    let (_folder, path) = scene::new_path();
    // A parent that waits for its child.
    let rows = r#"
        insert into instances (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at,
            parent_id, parent_round, parent_position, round, children_pending, children_started, inserted_at, updated_at)
        values (1, 'order', 1, 'join', '{}', 'awaiting_children', 'default', 0, 0, null, null, null, 1, 1, 1, 0, 0),
               (2, 'order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 1, 1, 0, 0, 0, 0, 0, 0);"#;
    old_file(&path, 5, rows);
    let store = Sqlite::open(&path).unwrap();
    let (parent, child) = (InstanceId(1), InstanceId(2));
    let row = store.get(parent).await.unwrap().unwrap();
    assert_eq!((row.run, row.events, row.joining), (1, 0, None));
    let worker = scene::worker(&store).await;
    let mut claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.id, claim.run, claim.events), (child, 1, 0));
    let step = flow(Vec::new(), KEEP);
    commit(&store, &mut claim, step, vec![event(1)]).await;
    let result = Json::null();
    commit(&store, &mut claim, Outcome::Done { result }, vec![event(2)]).await;
    assert_eq!(history(&store, child, 1).await.len(), 2);
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.id, claim.joined), (parent, Some(Joined::All)));
    assert_eq!(
        claim.children.len(),
        1,
        "the claim of a machine has its children"
    );
    store.close().await;
}

/// The events of a rejected outcome are not stored, and its run does not end.
#[tokio::test]
async fn a_rejected_outcome_leaves_no_events_and_no_run_behind() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let (one, other) = (running(&store, worker).await, running(&store, worker).await);
    let refuse = "create trigger refuse before update on instances when new.run = 2
         begin select raise(abort, 'refused by the test'); end";
    execute(&path, refuse).unwrap();
    let state = Json::null();
    let mut commits = vec![
        Commit::of(&one, Outcome::ContinueAsNew { state }),
        Commit::of(&other, flow(Vec::new(), KEEP)),
    ];
    for commit in &mut commits {
        commit.events = vec![event(1), event(2)];
    }
    let answers = store.commit(commits.into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
    assert_eq!(scene::committed(&answers), 1);
    assert_eq!(history(&store, one.id, 1).await, []);
    let row = store.get(one.id).await.unwrap().unwrap();
    assert_eq!((row.run, row.events, row.status), (1, 0, Status::Executing));
    assert_eq!(history(&store, other.id, 1).await.len(), 2);
    store.close().await;
}

#[tokio::test]
async fn runs_are_listed_without_a_scan_of_their_events() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let mut claim = running(&store, worker).await;
    let step = flow(Vec::new(), KEEP);
    let many = (1..=20_000).map(event).collect();
    commit(&store, &mut claim, step, many).await;
    let runs = store.histories(claim.id).await.unwrap();
    assert_eq!((runs.len(), runs[0].events), (1, 20_000));
    let connection = Connection::open(&path).unwrap();
    let sql = include_str!("../sql/inspect/histories/histories.sql");
    let (found, steps) = steps(&connection, sql, [claim.id.0]);
    assert_eq!(found, 1);
    assert!(steps < 200, "{steps} steps for one run");
    store.close().await;
}

#[tokio::test]
async fn the_end_of_a_child_costs_the_same_however_many_are_awaited() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let mut claim = running(&store, worker).await;
    let steps_of_an_end = |parent: InstanceId| {
        let connection = Connection::open(&path).unwrap();
        let values = params![parent.0, "[7]", 7, 0, None::<i64>, 0];
        let sql = include_str!("../sql/join/join_sets.sql");
        steps(&connection, sql, values)
    };
    let stored_sets = |parent: InstanceId| {
        let connection = Connection::open(&path).unwrap();
        let sql = "select joining, json_array_length(joining_left) from instances where id = ?1";
        let sets = connection.query_row(sql, [parent.0], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        });
        sets.unwrap()
    };
    let park = flow(vec![scene::order(); 1_000], awaiting(1, 1_000));
    commit(&store, &mut claim, park, Vec::new()).await;
    let (counted, many) = steps_of_an_end(claim.id);
    assert_eq!(counted, 1);
    let sets_of_many = stored_sets(claim.id);
    scene::insert(&store, vec![scene::order().priority(-1)]).await;
    let mut claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let park = flow(vec![scene::order(); 2], awaiting(1, 2));
    commit(&store, &mut claim, park, Vec::new()).await;
    assert_eq!(steps_of_an_end(claim.id), (1, many));
    let sets = stored_sets(claim.id);
    assert_eq!(sets, sets_of_many, "an end reads and writes these columns");
    store.close().await;
}

#[tokio::test]
async fn a_repair_wakes_a_workflow_whose_children_have_all_ended_uncounted() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let mut claim = running(&store, worker).await;
    let park = flow(vec![scene::order(); 2], awaiting(1, 2));
    commit(&store, &mut claim, park, Vec::new()).await;
    let needing = async || {
        let scope = RepairScope::Ids(vec![claim.id]);
        store.needing_repair(scope).await.unwrap().found
    };
    let miscounted = format!(
        "update instances set children_pending = 1, joining_left = '[1]' where id = {}",
        claim.id
    );
    execute(&path, &miscounted).unwrap();
    assert_eq!(needing().await, [], "its children are still live");
    let unseen = format!(
        "update instances set status = 'done', finished_at = 1 where parent_id = {}",
        claim.id
    );
    execute(&path, &unseen).unwrap();
    assert_eq!(needing().await, [(claim.id, RepairNeed::ChildrenFinished)]);
    let repaired = store.repair(vec![claim.id], Note::by("reconciler"));
    assert!(repaired.await.unwrap().woken.contains("default"));
    let row = store.get(claim.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 1));
    assert_eq!(row.barrier.unwrap().joined, Some(Joined::All));
    store.close().await;
}

#[tokio::test]
async fn the_schema_refuses_invalid_rows() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let mut claim = running(&store, worker).await;
    let step = flow(Vec::new(), KEEP);
    commit(&store, &mut claim, step, vec![event(1)]).await;
    store.close().await;
    let add = |seq: i32, data: &str| {
        let id = claim.id;
        let insert = format!(
            "insert into events (instance_id, run, seq, at, kind, name, data)
             values ({id}, 1, {seq}, 0, 'step_completed', '', '{data}')"
        );
        execute(&path, &insert)
    };
    assert!(add(1, "null").is_err(), "a sequence number is used once");
    assert!(add(2, "{").is_err(), "the data of an event is JSON");
    assert_eq!(add(2, "null"), Ok(()));
    let rounds = |joining: &str| {
        let update = format!("update instances set joining = '{joining}'");
        execute(&path, &update)
    };
    assert!(rounds("1").is_err());
    assert_eq!(rounds("[1]"), Ok(()));
}

/// Such a workflow waits for all children of its rounds. They become one join set.
#[tokio::test]
async fn a_workflow_parked_before_join_sets_is_woken_by_its_last_child() {
    let (_folder, path) = scene::new_path();
    let rows = r#"
        insert into instances (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at,
            parent_id, parent_round, parent_position, round, joining, join_fails_fast, children_pending,
            children_started, inserted_at, updated_at)
        values (1, 'order', 1, 'run', '{}', 'awaiting_children', 'default', 0, 0,
                null, null, null, 3, '[1,3]', 1, 2, 2, 0, 0),
               (2, 'order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 1, 1, 0, 0, null, 0, 0, 0, 0, 0),
               (3, 'order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 1, 2, 0, 0, '[]', 0, 0, 0, 0, 0),
               (4, 'order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 1, 3, 0, 0, null, 0, 0, 0, 0, 0);"#;
    old_file(&path, 6, rows);
    let store = Sqlite::open(&path).unwrap();
    let get = async |id| store.get(InstanceId(id)).await.unwrap().unwrap();
    let sets = [JoinProgress {
        ranges: vec![ChildRange::whole(1), ChildRange::whole(3)],
        left: 2,
    }];
    assert_eq!(get(1).await.joining.as_deref(), Some(&sets[..]));
    assert_eq!(get(2).await.joining, None);
    assert_eq!(get(3).await.joining, Some(Vec::new()));
    let worker = scene::worker(&store).await;
    for (child, left) in [(2, 1), (3, 1), (4, 0)] {
        let mut claim = scene::claim(&store, worker, 1).await.claims.remove(0);
        assert_eq!(claim.id, InstanceId(child));
        let result = Json::null();
        commit(&store, &mut claim, Outcome::Done { result }, Vec::new()).await;
        assert_eq!(get(1).await.joining.unwrap()[0].left, left);
    }
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.id, claim.joined), (InstanceId(1), Some(Joined::All)));
    store.close().await;
}

/// Returns the instances of a file, each column of version 11 with its name.
fn stored(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let columns: Vec<String> = {
        let sql = "select name from pragma_table_info('instances')
                    where name <> 'latest_signal' and name not like '%timeout%' order by name";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    let shown = columns.iter().map(|it| format!("'{it} ' || quote({it})"));
    let shown = shown.collect::<Vec<_>>().join(" || ', ' || ");
    let sql = format!("select {shown} from instances order by id");
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Returns the indexes of version 11 of the table `instances` as SQL, without the quotes that a
/// rename of a column adds.
fn indexes(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql = "select replace(sql, '\"', '') from sqlite_schema
               where type = 'index' and tbl_name = 'instances' and name <> 'instances_timeout'
               order by name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Version 10 is the last one in which only a done instance has a result.
#[tokio::test]
async fn instances_of_every_kind_continue_after_the_migration_of_error_values() {
    let (_folder, path) = scene::new_path();
    let life = r#"["runnable","executing","awaiting_signal"]"#;
    // The instance with the highest id was deleted.
    let rows = format!(
        r#"
        insert into workers (id, name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
        values (1, 'old', 'here', '1', '["default"]', 0, 0, 9000000000000000);
        insert into instances (id, machine, machine_version, step, state, status, revision, locked_by,
            awaits, await_deadline, queue, priority, eligible_at, crashes, crashes_counted, result,
            last_error, trace, correlation_key, correlation_scope, correlation_guard, parent_id,
            parent_round, parent_position, round, children_pending, children_started, join_fails_fast,
            events, joining, joining_left, needs_all_revision, inserted_at, updated_at, finished_at)
        values (1, 'order', 1, 'ship', '{{}}', 'failed', 4, null, null, null, 'default', 0, 0, 2, 1, null,
                'broken', 't1', 'k1', '["runnable"]', null, null, null, null, 0, 0, 0, 0,
                0, null, null, null, 0, 0, 5),
               (2, 'order', 1, 'ship', '{{}}', 'done', 4, null, null, null, 'default', 0, 0, 0, 0, '[2]',
                null, null, null, null, null, null, null, null, 0, 0, 0, 0,
                0, null, null, null, 0, 0, 6),
               (3, 'order', 1, 'start', '{{}}', 'executing', 7, 1, null, null, 'default', 0, 0, 0, 0, null,
                null, null, null, null, null, null, null, null, 0, 0, 0, 0,
                0, null, null, null, 0, 0, null),
               (4, 'order', 1, 'ship', '{{}}', 'awaiting_signal', 4, null, '["go"]', 9000000000000000,
                'default', 0, 0, 0, 0, null, null, null, 'k4', '{life}', 'k4', null, null, null, 0, 0, 0, 0,
                0, null, null, null, 0, 0, null),
               (5, 'order', 1, 'run', '{{}}', 'awaiting_children', 3, null, '["go"]', null,
                'default', 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, 1, 1, 1, 1,
                2, '[[1,1,0,2147483647]]', '[1]', 3, 0, 0, null),
               (6, 'order', 1, 'start', '{{}}', 'runnable', 0, null, null, null, 'default', 0, 0, 0, 0, null,
                null, null, null, null, null, 5, 1, 0, 0, 0, 0, 0,
                0, null, null, null, 0, 0, null),
               (40, 'order', 1, 'start', '{{}}', 'runnable', 0, null, null, null, 'default', 0, 0, 0, 0, null,
                null, null, null, null, null, null, null, null, 0, 0, 0, 0,
                0, null, null, null, 0, 0, null);
        delete from instances where id = 40;
        insert into events (instance_id, run, seq, kind, name, data, at)
        values (5, 1, 1, 'run_started', '', '{{}}', 0), (5, 1, 2, 'signal_awaited', 'go', '{{}}', 0);"#
    );
    old_file(&path, 10, &rows);
    let (rows, shape) = (stored(&path), indexes(&path));
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(rows.len(), 6);
    assert_eq!(stored(&path), rows);
    assert_eq!(indexes(&path), shape);
    let new = scene::insert(&store, vec![scene::order().priority(9)]).await;
    assert_eq!(new, [InstanceId(41)], "no id is used twice");

    let get = async |id| store.get(InstanceId(id)).await.unwrap().unwrap();
    assert_eq!(get(2).await.result.unwrap().as_str(), "[2]");
    let value = || Json::parse(r#"{"left":0}"#).unwrap();
    let fail = || Outcome::Fail {
        reason: "out of paper".into(),
        error: Some(value()),
    };
    let running = ClaimRef {
        id: InstanceId(3),
        revision: Revision(7),
    };
    let failure = Commit {
        outcome: fail(),
        ..scene::done(running)
    };
    let committed = store.commit(vec![failure].into()).await.unwrap();
    assert_eq!(scene::committed(&committed.answers), 1);
    assert_eq!(get(3).await.result, Some(value()));

    let worker = scene::worker(&store).await;
    let mut child = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!(child.id, InstanceId(6));
    commit(&store, &mut child, fail(), vec![event(1)]).await;
    let workflow = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!(
        (workflow.id, workflow.joined),
        (InstanceId(5), Some(Joined::Failure))
    );
    let children = store.children(workflow.id, None, None).await.unwrap();
    assert_eq!(children[0].result, Some(value()));
    assert_eq!(history(&store, workflow.id, 1).await.len(), 2);

    for id in [InstanceId(1), InstanceId(3)] {
        store.retry(vec![id], Note::by("ada")).await.unwrap();
        assert_eq!(store.get(id).await.unwrap().unwrap().result, None);
        let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
        assert_eq!(claim.id, id);
    }
    let signal = NewSignal {
        target: Target::Key {
            machine: "order".into(),
            key: "k4".into(),
        },
        name: "go".into(),
        payload: Json::null(),
        dedup_key: None,
        wants_reply: false,
    };
    store.deliver(vec![signal], None).await.unwrap();
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!(claim.id, InstanceId(4));
    store.close().await;
}

/// Only an instance that is done or failed has a result.
#[tokio::test]
async fn the_schema_refuses_a_result_of_a_live_or_cancelled_instance() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    scene::insert(&store, vec![scene::order()]).await;
    store.close().await;
    let with_a_result = |status: &str, finished_at: &str| {
        let update = format!(
            "update instances set result = '1', status = '{status}', finished_at = {finished_at}"
        );
        execute(&path, &update)
    };
    assert!(with_a_result("runnable", "null").is_err());
    assert!(with_a_result("cancelled", "1").is_err());
    assert_eq!(with_a_result("failed", "1"), Ok(()));
    assert_eq!(with_a_result("done", "1"), Ok(()));
}

/// Version 8 is the last one with the columns `fsm` and `fsm_version`.
#[tokio::test]
async fn instances_of_every_kind_continue_after_their_columns_are_renamed() {
    let (_folder, path) = scene::new_path();
    let rows = r#"
        insert into workers (id, name, host, version, queues, started_at, heartbeat_at, lease_expires_at)
        values (1, 'old', 'here', '1', '["default"]', 0, 0, 9000000000000000);
        insert into instances (id, fsm, fsm_version, step, state, status, revision, locked_by, awaits, queue,
            priority, eligible_at, correlation_key, correlation_scope, correlation_guard, last_error,
            events, inserted_at, updated_at, finished_at)
        values (1, 'order', 1, 'start', '{}', 'runnable', 0, null, null, 'default', 0, 0,
                null, null, null, null, 0, 0, 0, null),
               (2, 'order', 1, 'start', '{}', 'executing', 7, 1, null, 'default', 0, 0,
                null, null, null, null, 0, 0, 0, null),
               (3, 'order', 1, 'ship', '{}', 'awaiting_signal', 4, null, '["go"]', 'default', 0, 0,
                'k3', '["runnable","executing","awaiting_signal"]', 'k3', null, 0, 0, 0, null),
               (4, 'order', 1, 'ship', '{}', 'failed', 4, null, null, 'default', 0, 0,
                'k4', '["runnable"]', null, 'broken', 0, 0, 0, 5),
               (5, 'order', 1, 'run', '{}', 'awaiting_signal', 3, null, '["go"]', 'default', 0, 0,
                'k5', '["runnable","executing","awaiting_signal"]', 'k5', null, 2, 0, 0, null);
        insert into events (instance_id, run, seq, kind, name, data, at)
        values (5, 1, 1, 'run_started', '', '{}', 0), (5, 1, 2, 'signal_awaited', 'go', '{}', 0);"#;
    old_file(&path, 8, rows);
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let running = ClaimRef {
        id: InstanceId(2),
        revision: Revision(7),
    };
    let committed = store
        .commit(vec![scene::done(running)].into())
        .await
        .unwrap();
    assert_eq!(scene::committed(&committed.answers), 1);
    let claim_one = async || scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!(claim_one().await.id, InstanceId(1));
    let signal = |key: &str| NewSignal {
        target: Target::Key {
            machine: "order".into(),
            key: key.into(),
        },
        name: "go".into(),
        payload: Json::null(),
        dedup_key: None,
        wants_reply: false,
    };
    for (key, id) in [("k3", 3), ("k5", 5)] {
        store.deliver(vec![signal(key)], None).await.unwrap();
        let claim = claim_one().await;
        assert_eq!(
            (claim.id, claim.machine.as_str()),
            (InstanceId(id), "order")
        );
    }
    assert_eq!(history(&store, InstanceId(5), 1).await.len(), 2);
    let failed = store.find("order", "k4").await.unwrap().unwrap();
    assert_eq!(failed.last_error.as_deref(), Some("broken"));
    store.retry(vec![failed.id], Note::by("ada")).await.unwrap();
    assert_eq!(claim_one().await.id, failed.id);
    store.close().await;
}
