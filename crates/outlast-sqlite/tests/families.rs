//! Parents and children in a file: restarts, migrations, repairs, the checks of the schema, and
//! the cost of a window.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Answer, CascadeRequest, Claim, ClosePolicy, Commit, Extent, Inspect, InstanceId, Join, Joined,
    Json, NewInstance, Note, Outcome, RepairScope, Repaired, Status, Store, Until, Verb, WorkerId,
};
use outlast_sqlite::Sqlite;
use rusqlite::{Connection, StatementStatus, params};
use std::path::Path;

/// Returns the instances that need a repair, and repairs them.
async fn repair_all(store: &Sqlite) -> (Vec<InstanceId>, Repaired) {
    let scope = RepairScope::Page {
        after: None,
        max: 1_000,
    };
    let needing = store.needing_repair(scope).await.unwrap().found;
    let ids: Vec<InstanceId> = needing.into_iter().map(|(id, _)| id).collect();
    let repaired = store.repair(ids.clone(), Note::by("reconciler"));
    (ids, repaired.await.unwrap())
}

/// Inserts a parent that fans out.
async fn parent_of(
    store: &Sqlite,
    worker: WorkerId,
    children: Vec<NewInstance>,
    join: Join,
) -> InstanceId {
    let parent = scene::insert(store, vec![scene::order()]).await[0];
    let claim = scene::claim(store, worker, 1).await.claims.remove(0);
    let fan_out = Outcome::FanOut {
        children,
        join,
        step: "joined".into(),
        state: Json::null(),
    };
    let committed = store.commit(vec![Commit::of(&claim, fan_out)].into()).await;
    assert_eq!(scene::committed(&committed.unwrap().answers), 1);
    parent
}

fn done(claim: &Claim) -> Commit {
    let result = Json::null();
    Commit::of(claim, Outcome::Done { result })
}

fn fail(claim: &Claim) -> Commit {
    Commit::of(claim, Outcome::fail("badly"))
}

fn execute(path: &Path, sql: &str) -> rusqlite::Result<()> {
    Connection::open(path).unwrap().execute_batch(sql)
}

#[tokio::test]
async fn an_unfinished_cascade_continues_after_a_restart() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let policed = scene::order().on_parent_close(ClosePolicy::Terminate);
    let parent = parent_of(&store, worker, vec![policed; 5], Join::default()).await;
    let note = Note::by("ada");
    let terminated = store.terminate(vec![parent], Extent::One, note).await;
    assert!(terminated.unwrap().cascades);
    let cascaded = store.cascade(CascadeRequest { max: 2 }).await.unwrap();
    assert_eq!((cascaded.ended.len(), cascaded.more), (2, true));
    store.close().await;

    let store = Sqlite::open(&path).unwrap();
    let cascaded = store.cascade(CascadeRequest { max: 10 }).await.unwrap();
    assert_eq!((cascaded.ended.len(), cascaded.more), (3, false));
    let close_actions = store.close_actions(parent, None).await.unwrap();
    assert_eq!(close_actions.len(), 5);
    assert!(close_actions.iter().all(|it| it.verb == Verb::Terminate));
    let family = store.family(parent).await.unwrap().unwrap();
    assert_eq!(family.members, [(Status::Cancelled, 6)]);
    store.close().await;
}

/// Creates a file of version 4, the last one before families.
fn old_file(path: &Path) {
    let before = Sqlite::migrations().iter().filter(|it| it.version < 5);
    let schema: String = before.map(|it| it.sql).collect();
    let rows = r#"
        create table meta (key text primary key, value text not null) strict;
        insert into meta values ('schema_version', '4');
        insert into instances (id, fsm, fsm_version, step, state, status, queue, priority, eligible_at,
            parent_id, parent_round, round, children_pending, inserted_at, updated_at, finished_at)
        values (1, 'order', 1, 'join', '{}', 'awaiting_children', 'default', 0, 0, null, null, 2, 1, 0, 0, null),
               (2, 'order', 1, 'start', '{}', 'failed', 'default', 0, 0, 1, 1, 0, 0, 0, 0, 1),
               (3, 'order', 1, 'start', '{}', 'done', 'default', 0, 0, 1, 2, 0, 0, 0, 0, 9),
               (4, 'order', 1, 'start', '{}', 'failed', 'default', 0, 0, 1, 2, 0, 0, 0, 0, 8),
               (5, 'order', 1, 'start', '{}', 'cancelled', 'default', 0, 0, 1, 2, 0, 0, 0, 0, 7),
               (6, 'order', 1, 'start', '{}', 'runnable', 'default', 0, 0, 1, 2, 0, 0, 0, 0, null);
        insert into operations (id, verb, instance_id, operator, status_before, at)
        values (7, 'cancel', 5, 'ada', 'runnable', 7), (8, 'retry', 4, 'ada', 'failed', 7);"#;
    execute(path, &(schema + rows)).unwrap();
}

#[tokio::test]
async fn a_file_of_the_previous_version_continues_its_joins() {
    let (_folder, path) = scene::new_path();
    old_file(&path);
    let store = Sqlite::open(&path).unwrap();
    let children = store.children(InstanceId(1), None, None).await.unwrap();
    let positions: Vec<i32> = children.iter().map(|child| child.position).collect();
    assert_eq!(positions, [0, 0, 1, 2, 3]);
    let row = store.get(InstanceId(1)).await.unwrap().unwrap();
    let barrier = row.barrier.unwrap();
    assert_eq!((barrier.until, barrier.joined), (Until::All, None));
    assert_eq!((barrier.started, barrier.failed), (4, 2));
    assert_eq!(barrier.first_failure, Some(InstanceId(5)));
    assert_eq!(repair_all(&store).await.0, []);
    let operations = store.operations(None).await.unwrap();
    let verbs: Vec<Verb> = operations.iter().map(|it| it.verb).collect();
    assert_eq!(verbs, [Verb::Retry, Verb::Terminate]);

    let worker = scene::worker(&store).await;
    let child = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!(child.id, InstanceId(6));
    store.commit(vec![done(&child)].into()).await.unwrap();
    let parent = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((parent.id, parent.joined), (row.id, Some(Joined::All)));
    let new = scene::insert(&store, vec![scene::order()]).await;
    assert_eq!(new, [InstanceId(7)]);
    store.close().await;
}

/// The search for the next child costs the same, however many children are held or have ended.
#[tokio::test]
async fn the_next_child_of_a_window_is_found_without_a_scan_of_its_siblings() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let join = Join {
        window: Some(50),
        ..Join::default()
    };
    let parent = parent_of(&store, worker, vec![scene::order(); 5_000], join).await;
    let connection = Connection::open(&path).unwrap();
    let steps = || {
        let sql = include_str!("../sql/window/next.sql");
        let mut statement = connection.prepare(sql).unwrap();
        let values = params![parent.0, 1, 1];
        let next: i64 = statement.query_row(values, |row| row.get(0)).unwrap();
        (next, statement.get_status(StatementStatus::VmStep))
    };
    let (first, at_the_beginning) = steps();
    let mut ended = 0;
    while ended < 4_000 {
        let claims = scene::claim(&store, worker, 100).await.claims;
        assert_eq!(claims.len(), 50, "the window has 50 places");
        ended += claims.len() as i64;
        let commits: Vec<_> = claims.iter().map(done).collect();
        store.commit(commits.into()).await.unwrap();
    }
    let (next, after_many) = steps();
    assert_eq!(next, first + ended);
    assert_eq!(after_many, at_the_beginning);
    store.close().await;
}

#[tokio::test]
async fn a_repair_admits_a_child_to_a_window_in_which_none_runs() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let join = Join {
        window: Some(1),
        ..Join::default()
    };
    let parent = parent_of(&store, worker, vec![scene::order(); 3], join).await;
    let children = store.children(parent, None, None).await.unwrap();
    let ids: Vec<InstanceId> = children.iter().map(|child| child.id).collect();
    assert_eq!(repair_all(&store).await.0, []);
    let hold_all = "update instances set held = 1, blocked = 1 where held = 0";
    execute(&path, hold_all).unwrap();
    assert_eq!(scene::claim(&store, worker, 10).await.claims, []);

    let (needing, repaired) = repair_all(&store).await;
    assert_eq!(needing, [ids[0]]);
    assert!(repaired.woken.contains("default"));
    assert_eq!(repair_all(&store).await.0, []);
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(scene::ids(&claims), [ids[0]]);
    store.close().await;
}

#[tokio::test]
async fn a_repair_wakes_a_decided_join_and_terminates_the_rest() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let join = Join {
        until: Until::FailFast,
        rest: ClosePolicy::Terminate,
        ..Join::default()
    };
    let parent = parent_of(&store, worker, vec![scene::order(); 2], join).await;
    let claims = scene::claim(&store, worker, 1).await.claims;
    let failed = claims[0].id;
    let unseen = format!(
        "update instances set status = 'failed', locked_by = null, finished_at = 1 where id = {failed}"
    );
    execute(&path, &unseen).unwrap();

    let (needing, repaired) = repair_all(&store).await;
    assert_eq!((needing, repaired.cascades), (vec![parent], true));
    let row = store.get(parent).await.unwrap().unwrap();
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 1));
    let barrier = row.barrier.unwrap();
    assert_eq!(barrier.joined, Some(Joined::Failure));
    assert_eq!((barrier.failed, barrier.first_failure), (1, Some(failed)));
    let cascaded = store.cascade(CascadeRequest { max: 10 }).await.unwrap();
    assert_eq!(cascaded.ended.len(), 1);
    store.close().await;
}

/// After a rejected outcome the store writes the other outcomes of the batch one by one. It counts
/// nothing of the rejected one.
#[tokio::test]
async fn an_end_that_cannot_be_written_is_not_counted_and_frees_no_place() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let join = Join {
        window: Some(2),
        ..Join::default()
    };
    let parent = parent_of(&store, worker, vec![scene::order(); 5], join).await;
    let claims = scene::claim(&store, worker, 10).await.claims;
    let bad = claims[0].id;
    let trigger = format!(
        "create trigger refuse before update on instances when new.id = {bad}
         begin select raise(abort, 'refused by the test'); end"
    );
    execute(&path, &trigger).unwrap();

    let commits = vec![fail(&claims[0]), done(&claims[1])];
    let answers = store.commit(commits.into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
    assert_eq!(scene::committed(&answers), 1);
    let row = store.get(parent).await.unwrap().unwrap();
    assert_eq!(row.children_pending, 4);
    let barrier = row.barrier.unwrap();
    assert_eq!((barrier.failed, barrier.first_failure), (0, None));
    let held = store.children(parent, None, None).await.unwrap();
    assert_eq!(held.iter().filter(|child| child.held).count(), 2);
    store.close().await;
}

/// The end of a child and its count in the join are written together, or not at all.
#[tokio::test]
async fn an_end_whose_join_cannot_be_written_is_rejected_alone() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let parent = parent_of(&store, worker, vec![scene::order(); 1], Join::default()).await;
    let other = scene::insert(&store, vec![scene::order()]).await[0];
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(claims.len(), 2);
    let trigger = format!(
        "create trigger refuse before update on instances when new.id = {parent}
         begin select raise(abort, 'refused by the test'); end"
    );
    execute(&path, &trigger).unwrap();

    let commits: Vec<_> = claims.iter().map(done).collect();
    let answers = store.commit(commits.into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
    let child = store.get(claims[0].id).await.unwrap().unwrap();
    assert_eq!(child.status, Status::Executing);
    let other = store.get(other).await.unwrap().unwrap();
    assert_eq!(other.status, Status::Done);
    store.close().await;
}

#[tokio::test]
async fn the_schema_refuses_invalid_rows() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let join = Join {
        window: Some(1),
        ..Join::default()
    };
    let parent = parent_of(&store, worker, vec![scene::order(); 2], join).await;
    let held = store.children(parent, None, None).await.unwrap()[1].id;
    store.close().await;
    for (id, set) in [
        (held, "blocked = 0"),
        (held, "status = 'executing', blocked = 0, locked_by = 1"),
        (held, "status = 'cancelled', blocked = 0, finished_at = 1"),
        (held, "on_parent_close = 'abandon'"),
        (held, "parent_position = null"),
        (parent, "held = 0"),
        (parent, "on_parent_close = 'terminate'"),
        (parent, "joined = 'enough'"),
        (parent, "join_rest = 'abandon'"),
        (parent, "join_window = 0"),
        (parent, "cancel_requested_at = 1"),
        (parent, "cancel_answered = 1"),
    ] {
        let update = format!("update instances set {set} where id = {id}");
        assert!(execute(&path, &update).is_err(), "{set}");
    }
    let fits =
        "update instances set await_deadline = 1, cancel_requested_at = 1, cancel_reason = 'so',
            cancel_answered = 1
        where status = 'awaiting_children'";
    assert_eq!(execute(&path, fits), Ok(()));
}
