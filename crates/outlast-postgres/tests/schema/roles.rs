//! Roles have no more rights than they need (docs/security.md).
//!
//! The worker runs every verb, the enqueuer inserts and signals, and the reader reads.

use crate::support::work::{self, task};
use crate::support::{Database, raw, raw_to, unique_schema, url_of, value_of};
use outlast_conformance::{Subject, Threads, suite, try_rule};
use outlast_core::{
    Commit, Delivery, Error, ErrorKind, Extent, Filter, Inserted, Inspect, InstanceId, Json,
    ListRequest, ManualClock, NewInstance, NewReply, NewSignal, Note, Outcome, RepairScope,
    ReplyKind, Result, Scope, SignalOrInsert, Status, StepCountRequest, Store, Target, UpdateState,
    WriteCheck,
};
use outlast_postgres::{Migrations, Options, Postgres, Roles, testing};
use std::collections::BTreeSet;
use tokio_postgres::error::SqlState;

/// A schema with its own owner, and one role for each part.
struct Scene {
    schema: String,
    /// The URL of the database that the roles connect to.
    database: String,
}

impl Scene {
    /// Creates the scene in the database that all tests share.
    async fn new() -> Scene {
        let database = url_of(|config| config);
        Scene::named(unique_schema(), database).await
    }

    async fn named(schema: String, database: String) -> Scene {
        let scene = Scene { schema, database };
        let admin = raw_to(&scene.database).await;
        for role in scene.roles() {
            let create = format!("create role \"{role}\" login");
            admin.batch_execute(&create).await.unwrap();
        }
        // The owner may create nothing else in the database.
        let (schema, owner) = (&scene.schema, scene.role("owner"));
        let create = format!("create schema \"{schema}\" authorization \"{owner}\"");
        admin.batch_execute(&create).await.unwrap();
        let migrated = scene.options("owner").connect().await.unwrap();
        migrated.close().await;
        scene.grant().await;
        scene
    }

    fn role(&self, part: &str) -> String {
        // Names of roles and schemas have at most 63 bytes.
        let short: String = self.schema.chars().rev().take(40).collect();
        format!("{short} {part}")
    }

    fn roles(&self) -> [String; 5] {
        ["owner", "worker", "enqueuer", "reader", "stranger"].map(|part| self.role(part))
    }

    fn all(&self) -> Roles {
        Roles::new()
            .worker(self.role("worker"))
            .enqueuer(self.role("enqueuer"))
            .reader(self.role("reader"))
    }

    async fn grant(&self) {
        let owner = self.options("owner");
        owner.grant(&self.all()).await.unwrap();
    }

    fn url(&self, part: &str) -> String {
        let role = self.role(part).replace(' ', "%20");
        let (_, rest) = self.database.split_once('@').unwrap();
        format!("postgres://{role}@{rest}")
    }

    fn options(&self, part: &str) -> Options {
        let options = Postgres::options(&self.url(part)).unwrap();
        options.schema(&self.schema).max_connections(4)
    }

    async fn store(&self, part: &str) -> Postgres {
        self.options(part).connect().await.unwrap()
    }

    async fn client(&self, part: &str) -> tokio_postgres::Client {
        raw_to(&self.url(part)).await
    }

    async fn drop(self) {
        let admin = raw_to(&self.database).await;
        let mut sql = format!(
            "set client_min_messages = warning; drop schema \"{}\" cascade",
            self.schema
        );
        for role in self.roles() {
            sql.push_str(&format!("; drop owned by \"{role}\"; drop role \"{role}\""));
        }
        admin.batch_execute(&sql).await.unwrap();
    }
}

/// Whether `sql` is refused for a missing right. Any other error fails the test, except one about
/// values.
async fn is_denied(client: &tokio_postgres::Client, sql: &str) -> bool {
    client.batch_execute("begin").await.unwrap();
    let answer = client.batch_execute(sql).await;
    client.batch_execute("rollback").await.unwrap();
    let Err(error) = answer else {
        return false;
    };
    let code = error
        .code()
        .expect("the error comes from the server")
        .code()
        .to_owned();
    let about_values = ["22", "23"].iter().any(|class| code.starts_with(class));
    let denied = code == SqlState::INSUFFICIENT_PRIVILEGE.code();
    assert!(denied || about_values, "{sql}\n{error:?}");
    denied
}

/// The statements of the store that a role may not execute.
///
/// The server checks rights before values, so the arguments are nulls.
async fn denied_statements(scene: &Scene, part: &str) -> BTreeSet<&'static str> {
    let (admin, client) = (raw_to(&scene.database).await, scene.client(part).await);
    let mut denied = BTreeSet::new();
    for (name, text) in testing::statements(&scene.schema) {
        let parameters = admin.prepare(&text).await.unwrap().params().len();
        let nulls = vec!["null"; parameters].join(", ");
        let arguments = match parameters {
            0 => String::new(),
            _ => format!("({nulls})"),
        };
        let sql = format!("prepare tried as {text}; execute tried{arguments}; deallocate tried");
        if is_denied(&client, &sql).await {
            denied.insert(name);
        }
        let _ = client.batch_execute("deallocate all").await;
    }
    denied
}

#[test]
fn the_worker_role_suffices_for_an_engine() {
    async fn open() -> Subject {
        let (scene, clock) = (Scene::new().await, ManualClock::default());
        let store = scene.options("worker").clock(clock.clone()).connect().await;
        Subject::new(store.unwrap(), clock).cleaned_by(async move {
            let dropped = tokio::spawn(scene.drop());
            dropped.await.expect("the schema is dropped");
        })
    }
    let rule = suite::outcomes::batches::a_mixed_workload_ends_with_nothing_to_repair;
    try_rule(Threads::Several, open, rule);
}

#[tokio::test]
async fn a_worker_executes_every_statement_and_alters_no_schema_object() {
    let scene = Scene::new().await;
    assert_eq!(denied_statements(&scene, "worker").await, BTreeSet::new());
    let (client, s) = (scene.client("worker").await, &scene.schema);
    for sql in [
        format!("create table \"{s}\".mine ()"),
        format!("create function \"{s}\".now(integer) returns integer language sql as 'select 1'"),
        format!(
            "create or replace function \"{s}\".now() returns timestamptz language sql as 'select now()'"
        ),
        format!("create index on \"{s}\".instances (step)"),
        format!("alter table \"{s}\".instances add column mine text"),
        format!("alter schema \"{s}\" rename to mine"),
        format!("drop table \"{s}\".signals"),
        format!("drop function \"{s}\".now()"),
        format!("drop schema \"{s}\" cascade"),
        format!("truncate \"{s}\".instances"),
        format!("update \"{s}\".meta set value = 1"),
        format!("update \"{s}\".operations set operator = 'somebody else'"),
        format!("alter sequence \"{s}\".instances_id_seq restart"),
        format!("select setval('\"{s}\".instances_id_seq', 1)"),
        format!("lock table \"{s}\".meta in exclusive mode"),
        format!(
            "create trigger mine after insert on \"{s}\".instances execute function suppress_redundant_updates_trigger()"
        ),
    ] {
        assert!(is_denied(&client, &sql).await, "{sql}");
    }
    scene.drop().await;
}

#[tokio::test]
async fn an_enqueuer_starts_and_signals_instances_through_the_store() {
    let scene = Scene::new().await;
    let web = scene.options("enqueuer").enqueue_only().connect().await;
    let (web, worker) = (web.unwrap(), scene.store("worker").await);
    assert_eq!(web.check_writes().await.unwrap(), WriteCheck::NoRight);

    // More rows than fit into one message.
    let rows: Vec<_> = (0..60)
        .map(|n| task().correlation_key(format!("order:{n}")))
        .collect();
    let inserted = web.insert(rows.clone(), None).await.unwrap();
    let ids: Vec<_> = inserted.rows.iter().filter_map(Inserted::new_id).collect();
    assert_eq!(ids.len(), 60);
    assert!(ids.is_sorted());
    assert_eq!(inserted.woken, ["default".to_owned()].into());
    let again = web.insert(rows, None).await.unwrap();
    assert_eq!(
        again.rows[59],
        Inserted::Duplicate {
            holder: Some(ids[59])
        }
    );
    assert!(again.woken.is_empty());

    let parked = park(&worker, "order:0").await;
    let to = |target| NewSignal::new(target, "paid", Json::null());
    let by_key = Target::Key {
        machine: "task".into(),
        key: "order:0".into(),
    };
    let signals = vec![
        to(by_key.clone()).dedup_key("evt"),
        to(Target::Id(parked)).dedup_key("evt"),
        to(Target::Id(InstanceId(i64::MAX))),
    ];
    let delivered = web.deliver(signals, None).await.unwrap();
    assert!(
        matches!(delivered.answers[0], Delivery::Delivered { instance, woke: true, .. } if instance == parked)
    );
    assert_eq!(
        delivered.answers[1],
        Delivery::Duplicate { instance: parked }
    );
    assert_eq!(delivered.answers[2], Delivery::NoTarget);
    assert_eq!(delivered.woken, ["default".to_owned()].into());

    // A bad row makes the whole batch fail.
    let bad = vec![task(), NewInstance::new("", "start", Json::null())];
    assert_eq!(
        web.insert(bad, None).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    web.close().await;
    worker.close().await;
    scene.drop().await;
}

#[tokio::test]
async fn an_enqueuer_sends_an_update_and_reads_its_reply() {
    let scene = Scene::new().await;
    let web = scene.options("enqueuer").enqueue_only().connect().await;
    let (web, worker) = (web.unwrap(), scene.store("worker").await);
    web.insert(vec![task().correlation_key("order:0")], None)
        .await
        .unwrap();
    let id = park(&worker, "order:0").await;
    let update = NewSignal::new(id.into(), "paid", Json::null()).update("u");
    let delivered = web.deliver(vec![update.clone()], None).await.unwrap();
    assert!(matches!(
        delivered.answers[..],
        [Delivery::Delivered { woke: true, .. }]
    ));
    let state = async || {
        let found = web.update(id, "u").await.unwrap().unwrap();
        assert_eq!(Some(&found), worker.update(id, "u").await.unwrap().as_ref());
        found.state
    };
    assert_eq!(state().await, UpdateState::Pending);
    let claimed = work::claim(&worker, work::worker(&worker).await).await;
    let reply = NewReply {
        signal: claimed.inbox[0].id,
        kind: ReplyKind::Done,
        data: Json::parse("[1.50]").unwrap(),
    };
    let commit = Commit {
        replies: vec![reply],
        ..Commit::of(&claimed, work::wait_for("paid"))
    };
    worker.commit(vec![commit].into()).await.unwrap();
    let UpdateState::Replied(reply) = state().await else {
        panic!("it is answered");
    };
    assert_eq!(
        (reply.kind, reply.data.as_str()),
        (ReplyKind::Done, "[1.50]")
    );
    let again = web.deliver(vec![update], None).await.unwrap();
    assert_eq!(again.answers, [Delivery::Duplicate { instance: id }]);
    assert_eq!(web.update(id, "v").await.unwrap(), None);
    // An end without an answer, and a retry after it.
    let second = NewSignal::new(id.into(), "other", Json::null()).update("u-2");
    web.deliver(vec![second], None).await.unwrap();
    let note = || Note::by("test");
    let ended = worker.terminate(vec![id], Extent::One, note());
    ended.await.unwrap();
    let unanswered = async || web.update(id, "u-2").await.unwrap().unwrap().state;
    assert_eq!(unanswered().await, UpdateState::Ended);
    worker.retry(vec![id], note()).await.unwrap();
    assert_eq!(unanswered().await, UpdateState::Ended);
    web.close().await;
    worker.close().await;
    scene.drop().await;
}

#[tokio::test]
async fn an_enqueuers_signal_starts_its_target_when_the_key_is_free() {
    let scene = Scene::new().await;
    let web = scene.options("enqueuer").enqueue_only().connect().await;
    let (web, worker) = (web.unwrap(), scene.store("worker").await);
    let request = |key: &str| SignalOrInsert {
        row: task().correlation_key(key),
        name: "paid".into(),
        payload: Json::null(),
        dedup_key: None,
    };
    let first = web.signal_or_insert(request("a")).await.unwrap();
    let started = first.inserted.expect("the key was free");
    assert!(
        matches!(first.delivery, Delivery::Delivered { instance, woke: false, .. } if instance == started)
    );
    let second = web.signal_or_insert(request("a")).await.unwrap();
    assert_eq!(second.inserted, None);
    assert!(matches!(second.delivery, Delivery::Delivered { instance, .. } if instance == started));
    assert_eq!(worker.signals(started, None).await.unwrap().len(), 2);

    // A holder that ended and keeps its key is not replaced.
    let kept = task().correlation("kept", Scope::FOREVER);
    let kept = work::insert(&worker, kept).await;
    worker
        .terminate(vec![kept], Extent::One, Note::by("test"))
        .await
        .unwrap();
    let third = web.signal_or_insert(request("kept")).await.unwrap();
    assert_eq!((third.inserted, third.delivery), (None, Delivery::NoTarget));
    web.close().await;
    worker.close().await;
    scene.drop().await;
}

/// Parks the task with this key until the signal `paid`.
async fn park(store: &Postgres, key: &str) -> InstanceId {
    let worker = work::worker(store).await;
    let claims = store
        .claim(work::request(worker, 100))
        .await
        .unwrap()
        .claims;
    let mut parked = None;
    for claim in claims {
        let outcome = match claim.correlation_key.as_deref() == Some(key) {
            true => Outcome::Wait {
                names: vec!["paid".into()],
                step: "paid".into(),
                state: Json::null(),
                timeout: None,
            },
            false => continue,
        };
        parked = Some(claim.id);
        let commit = outlast_core::Commit::of(&claim, outcome);
        store.commit(vec![commit].into()).await.unwrap();
    }
    let parked = parked.expect("the task was claimed");
    assert_eq!(
        work::get(store, parked).await.status,
        Status::AwaitingSignal
    );
    parked
}

#[tokio::test]
async fn an_enqueuer_starts_and_signals_instances_in_plain_sql() {
    let scene = Scene::new().await;
    let (client, s) = (scene.client("enqueuer").await, &scene.schema);
    let id: i64 = value_of(
        &client,
        &format!("select \"{s}\".insert('task', 'start', correlation_key => 'order:1')"),
    )
    .await;
    for (sql, expected) in [
        (format!("select \"{s}\".signal({id}, 'paid')"), "delivered"),
        (
            format!("select \"{s}\".signal('task', 'order:1', 'paid', '{{\"amount\": 1}}'::jsonb)"),
            "delivered",
        ),
        (
            format!("select \"{s}\".signal('task', 'order:1', 'paid', '{{\"amount\": 1}}')"),
            "delivered",
        ),
        (
            format!("select \"{s}\".signal('task', 'order:2', 'paid')"),
            "no_target",
        ),
    ] {
        assert_eq!(value_of::<String>(&client, &sql).await, expected, "{sql}");
    }
    scene.drop().await;
}

#[tokio::test]
async fn an_enqueuer_may_execute_no_other_statement() {
    let scene = Scene::new().await;
    let all: BTreeSet<_> = testing::statements(&scene.schema)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let denied = denied_statements(&scene, "enqueuer").await;
    let allowed: Vec<_> = all.difference(&denied).copied().collect();
    // These statements of the doctor read what every role may see, and the schema's version.
    assert_eq!(
        allowed,
        [
            "doctor/holders",
            "doctor/rights",
            "doctor/schema",
            "doctor/server",
            "doctor/table",
            "notify/notify",
            "transaction/insert",
            "transaction/reply",
            "transaction/signal"
        ]
    );
    let client = scene.client("enqueuer").await;
    for sql in intrusions(&scene.schema) {
        assert!(is_denied(&client, &sql).await, "{sql}");
    }
    scene.drop().await;
}

/// Statements that only workers and owners may run. Readers may run some of them.
fn intrusions(schema: &str) -> Vec<String> {
    let mut sql = Vec::new();
    for table in [
        "instances",
        "signals",
        "workers",
        "queues",
        "operations",
        "runs",
        "delays",
    ] {
        sql.push(format!("select from \"{schema}\".{table}"));
        sql.extend(writes(schema, table));
    }
    sql.extend(writes(schema, "meta"));
    for function in [
        "now()",
        "check_text('a', 'b', 1)",
        "check_json('a', '1')",
        "check_scope('{}')",
        "check_machine('a', 1)",
        "check_name('a', 'b', 1)",
        "check_new_machine('a', 1)",
        "check_moment('a', null)",
        "check_stored('a', '1')",
        "check_json_bytes('a', 1, 1)",
        "check_json_depth('a', '1')",
        "is_key_in_hex('a')",
        "check_timeout('a', 1)",
    ] {
        sql.push(format!("select \"{schema}\".{function}"));
    }
    sql
}

fn writes(schema: &str, table: &str) -> Vec<String> {
    let column = match table {
        "meta" => "key",
        "queues" | "workers" => "name",
        "operations" => "operator",
        "runs" | "delays" => "count",
        _ => "id",
    };
    vec![
        format!("insert into \"{schema}\".{table} ({column}) select null"),
        format!("update \"{schema}\".{table} set {column} = {column}"),
        format!("select from \"{schema}\".{table} for share"),
        format!("delete from \"{schema}\".{table}"),
        format!("truncate \"{schema}\".{table}"),
        format!("alter table \"{schema}\".{table} add column mine text"),
        format!("drop table \"{schema}\".{table}"),
    ]
}

#[tokio::test]
async fn the_sql_functions_enforce_the_limits_for_an_enqueuer() {
    let scene = Scene::new().await;
    let (client, s) = (scene.client("enqueuer").await, &scene.schema);
    let insert_one = |machine: &str, version: &str, step: &str, state: &str, rest: &str| {
        format!(
            "select * from \"{s}\".insert_one({machine}, {version}, {step}, {state}, 'default', 0::smallint, {rest})"
        )
    };
    let plain = "0, null, null, null, null, null";
    let deliver_one = |name: &str, payload: &str, dedup: &str| {
        format!(
            "select * from \"{s}\".deliver_one(1, null, null, {name}, {payload}, {dedup}, 10000)"
        )
    };
    let deep = format!("'{}{}'", "[".repeat(101), "]".repeat(101));
    for sql in [
        insert_one("'a/b'", "1", "'s'", "'1'", plain),
        insert_one("''", "1", "'s'", "'1'", plain),
        insert_one("null", "1", "'s'", "'1'", plain),
        insert_one("'a'", "0", "'s'", "'1'", plain),
        insert_one("'a'", "1", "E'a\\x01b'", "'1'", plain),
        insert_one("'a'", "1", "repeat('x', 201)", "'1'", plain),
        insert_one("'a'", "1", "'s'", "null", plain),
        insert_one("'a'", "1", "'s'", &deep, plain),
        insert_one("'a'", "1", "'s'", r#"'"\u0000"'"#, plain),
        insert_one("'a'", "1", "'s'", "to_json(repeat('x', 1048576))", plain),
        insert_one(
            "'a'",
            "1",
            "'s'",
            "'1'",
            "0, null, repeat('x', 513), null, null, null",
        ),
        insert_one(
            "'a'",
            "1",
            "'s'",
            "'1'",
            "0, null, null, 'k', '{done}', null",
        ),
        insert_one("'a'", "1", "'s'", "'1'", "0, null, null, 'k', null, null"),
        insert_one(
            "'a'",
            "1",
            "'s'",
            "'1'",
            "0, 300000000000000000, null, null, null, null",
        ),
        deliver_one("''", "'1'", "null"),
        deliver_one("null", "'1'", "null"),
        deliver_one("'a'", "null", "null"),
        deliver_one("'a'", &deep, "null"),
        deliver_one("'a'", "'1'", "repeat('x', 513)"),
    ] {
        let error = client.batch_execute(&sql).await.unwrap_err();
        let code = error.code().unwrap().code();
        assert!(code.starts_with("22"), "{sql}\n{error:?}");
    }
    let admin = raw_to(&scene.database).await;
    let rows: i64 = value_of(&admin, &format!("select count(*) from \"{s}\".instances")).await;
    assert_eq!(rows, 0);
    scene.drop().await;
}

#[tokio::test]
async fn a_reader_reads_everything_and_writes_nothing() {
    let scene = Scene::new().await;
    let (worker, reader) = (scene.store("worker").await, scene.store("reader").await);
    let id = work::insert(&worker, task().correlation_key("order:1")).await;
    let signal = NewSignal::new(Target::Id(id), "paid", Json::null());
    worker.deliver(vec![signal], None).await.unwrap();
    worker.pause("default", Note::by("test")).await.unwrap();

    assert!(reader.now().await.is_ok());
    assert_eq!(reader.get(id).await.unwrap().unwrap().id, id);
    assert_eq!(
        reader.find("task", "order:1").await.unwrap().unwrap().id,
        id
    );
    let page = reader
        .list(ListRequest {
            limit: 10,
            ..ListRequest::default()
        })
        .await
        .unwrap();
    assert_eq!(page.instances.len(), 1);
    assert!(reader.count(Filter::default()).await.is_ok());
    assert_eq!(reader.signals(id, None).await.unwrap().len(), 1);
    assert!(reader.children(id, None, None).await.unwrap().is_empty());
    assert_eq!(reader.queues().await.unwrap().len(), 1);
    assert!(reader.workers().await.unwrap().is_empty());
    assert_eq!(reader.operations(None).await.unwrap().len(), 1);
    assert_eq!(reader.rounds(id).await.unwrap(), []);
    let scope = RepairScope::Ids(vec![id]);
    assert_eq!(reader.needing_repair(scope).await.unwrap().found, []);
    let everything = StepCountRequest {
        after: None,
        limit: 10,
    };
    assert_eq!(
        reader.count_by_step(everything).await.unwrap().groups.len(),
        1
    );
    let now = reader.now().await.unwrap();
    worker.add_run_stats(work::stats(now)).await.unwrap();
    assert_eq!(reader.run_stats(now).await.unwrap().runs.len(), 1);
    assert_eq!(worker.check_writes().await.unwrap(), WriteCheck::Works);
    assert_eq!(reader.check_writes().await.unwrap(), WriteCheck::NoRight);

    let client = scene.client("reader").await;
    let denied = denied_statements(&scene, "reader").await;
    for (name, text) in testing::statements(&scene.schema) {
        let may = name.starts_with("inspect/") || name == "notify/notify";
        assert_eq!(
            denied.contains(name),
            !may && needs_rights_to_write(&text),
            "{name}"
        );
    }
    for sql in intrusions(&scene.schema) {
        let reads =
            (sql.starts_with("select from") && !sql.ends_with("share")) || sql.ends_with(".now()");
        assert_eq!(is_denied(&client, &sql).await, !reads, "{sql}");
    }
    for call in [
        "insert('task', 'start')",
        "signal(1, 'paid')",
        "update(1, 'paid', '1', 'u')",
    ] {
        let sql = format!("select \"{}\".{call}", scene.schema);
        assert!(is_denied(&client, &sql).await, "{sql}");
    }
    worker.close().await;
    reader.close().await;
    scene.drop().await;
}

/// Whether a statement writes, locks, advances a sequence, or calls a function that writes.
fn needs_rights_to_write(text: &str) -> bool {
    let sql: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect();
    let sql = sql.join(" ");
    [
        "insert into ",
        "update \"",
        "delete from ",
        "for update",
        "for no key update",
        "for key share",
        "nextval(",
        "_one(",
    ]
    .iter()
    .any(|word| sql.contains(word))
}

#[tokio::test]
async fn a_role_without_grants_may_do_nothing_even_with_usage_of_the_schema() {
    let scene = Scene::new().await;
    let (client, s) = (scene.client("stranger").await, &scene.schema);
    let may_enter = format!(
        "grant usage on schema \"{s}\" to \"{}\"",
        scene.role("stranger")
    );
    for inside in [false, true] {
        if inside {
            scene
                .client("owner")
                .await
                .batch_execute(&may_enter)
                .await
                .unwrap();
        }
        for sql in intrusions(s) {
            assert!(is_denied(&client, &sql).await, "{sql}");
        }
        for call in [
            "insert('task', 'start')",
            "signal(1, 'paid')",
            "signal('task', 'key', 'paid', 'null'::jsonb)",
            "signal('task', 'key', 'paid', 'null')",
            "update(1, 'paid', '1', 'u')",
            "update('task', 'key', 'paid', '1', 'u')",
            "reply(1, 'u')",
            "reply('task', 'key', 'u')",
            "insert_one('a', 1, 's', '1', 'q', 0::smallint, 0, null, null, null, null, null)",
            "deliver_one(1, null, null, 'a', '1', null, 1)",
        ] {
            let sql = format!("select \"{s}\".{call}");
            assert!(is_denied(&client, &sql).await, "{sql}");
        }
        let sql = format!("select from \"{s}\".meta");
        assert!(is_denied(&client, &sql).await);
    }
    scene.drop().await;
}

#[tokio::test]
async fn the_roles_decide_the_rights_on_every_object_of_the_schema() {
    let scene = Scene::new().await;
    let admin = raw_to(&scene.database).await;
    let decided = scene.all().sql(&scene.schema).unwrap();
    let query = "select case when c.relkind = 'S' then 'sequence' else 'table' end, c.relname::text
                   from pg_class c where c.relnamespace = $1::text::regnamespace and c.relkind not in ('i', 't')
                 union all
                 select 'function', p.proname::text from pg_proc p where p.pronamespace = $1::text::regnamespace";
    let quoted = format!("\"{}\"", scene.schema);
    for row in admin.query(query, &[&quoted]).await.unwrap() {
        let (kind, name): (&str, &str) = (row.get(0), row.get(1));
        // The functions that enqueue call these with the rights of their owner.
        let is_internal = name.starts_with("check_")
            || ["queue_of", "is_key_in_hex"].contains(&name)
            || ["workers_id_seq", "operations_id_seq", "cascades_id_seq"].contains(&name);
        let end = if kind == "function" { "(" } else { " " };
        let is_decided = decided.contains(&format!("{quoted}.{name}{end}"));
        assert!(
            is_decided != is_internal,
            "the {kind} {name} is new: grant it in roles.rs, or list it here"
        );
    }
    // Every function that runs with the owner's rights sets its search path.
    let query = "select p.proname::text, p.prosecdef,
                        coalesce(array_to_string(p.proconfig, ' '), '') like '%search_path=pg_catalog, pg_temp%',
                        coalesce(p.proacl::text, '=X') ~ '[{,]=|^='
                   from pg_proc p where p.pronamespace = $1::text::regnamespace";
    for row in admin.query(query, &[&quoted]).await.unwrap() {
        let (name, definer, pinned, public): (&str, bool, bool, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let acts = [
            "insert",
            "signal",
            "update",
            "reply",
            "insert_one",
            "deliver_one",
        ];
        let acts = acts.contains(&name);
        assert_eq!((definer, pinned), (acts, acts), "{name}");
        assert!(!public, "every role may call {name}");
    }
    scene.drop().await;
}

#[tokio::test]
async fn a_repeated_grant_replaces_the_rights_of_a_role() {
    let scene = Scene::new().await;
    let client = scene.client("worker").await;
    let delete = format!("delete from \"{}\".instances", scene.schema);
    scene.grant().await;
    assert!(!is_denied(&client, &delete).await);
    let demoted = Roles::new().reader(scene.role("worker"));
    scene.options("owner").grant(&demoted).await.unwrap();
    assert!(is_denied(&client, &delete).await);
    // A role with two parts has the rights of both.
    let both = Roles::new()
        .reader(scene.role("worker"))
        .worker(scene.role("worker"));
    let sql = both.sql(&scene.schema).unwrap();
    scene
        .client("owner")
        .await
        .batch_execute(&sql)
        .await
        .unwrap();
    assert!(!is_denied(&client, &delete).await);
    scene.drop().await;
}

#[tokio::test]
async fn schemas_and_roles_may_have_any_name_that_postgresql_takes() {
    let admin = raw().await;
    let (long, reserved) = (format!("{:x<63}", unique_schema()), "select".to_owned());
    let database = Database::create().await;
    for schema in [long, reserved] {
        let scene = Scene::named(schema, database.url.clone()).await;
        let web = scene.options("enqueuer").enqueue_only().connect().await;
        let web = web.unwrap();
        work::insert(&web, task()).await;
        web.close().await;
        scene.drop().await;
    }
    let scene = Scene::new().await;
    let hostile = format!("{}\"; drop schema public; --", unique_schema());
    let quoted = format!("\"{}\"", hostile.replace('"', "\"\""));
    admin
        .batch_execute(&format!("create role {quoted}"))
        .await
        .unwrap();
    let roles = Roles::new().worker(&hostile);
    scene.options("owner").grant(&roles).await.unwrap();
    let sql = "select has_table_privilege($1, $2, 'delete')";
    let table = format!("\"{}\".instances", scene.schema);
    let row = admin.query_one(sql, &[&hostile, &table]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    scene.drop().await;
    admin
        .batch_execute(&format!("drop role {quoted}"))
        .await
        .unwrap();
    database.drop().await;
}

/// The message of an error that the caller can correct.
fn message_of<T>(answer: Result<T>) -> String {
    let Err(error) = answer else {
        panic!("the call was allowed");
    };
    assert!(matches!(error, Error::Unusable { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

#[tokio::test]
async fn the_error_for_a_missing_right_names_the_verb_the_table_and_the_remedy() {
    let scene = Scene::new().await;
    let reader = scene.store("reader").await;
    let insert = message_of(reader.insert(vec![task()], None).await.map(drop));
    assert!(
        insert.starts_with("insert: permission denied for table instances; the role lacks a right"),
        "{insert}"
    );
    assert!(insert.contains("outlast_postgres::Roles"), "{insert}");
    reader.close().await;

    let by_reader = scene.options("reader").grant(&scene.all()).await;
    let by_reader = message_of(by_reader);
    assert!(
        by_reader.starts_with("grant: permission denied"),
        "{by_reader}"
    );
    assert!(by_reader.contains("connect as that role"), "{by_reader}");

    let stranger = message_of(scene.options("stranger").connect().await.map(drop));
    assert!(
        stranger.contains("permission denied for schema"),
        "{stranger}"
    );

    // The schema is older, and the role may not migrate it.
    let older = format!(
        "update \"{}\".meta set value = value - 1 where key = 'version'",
        scene.schema
    );
    scene
        .client("owner")
        .await
        .batch_execute(&older)
        .await
        .unwrap();
    let worker = message_of(scene.options("worker").connect().await.map(drop));
    assert!(worker.starts_with("migrate: permission denied"), "{worker}");
    assert!(
        worker.contains("migrations are for the schema's owner"),
        "{worker}"
    );
    let checking = scene.options("worker").migrations(Migrations::Check);
    let worker = message_of(checking.connect().await.map(drop));
    assert!(worker.contains("run the migrations"), "{worker}");
    scene.drop().await;
}

/// Before PostgreSQL 15 every role could create objects in `public`, which is in the default
/// search path. A better matching operator there would run with the rights of its caller.
#[tokio::test]
async fn functions_and_operators_of_other_roles_are_never_called() {
    let database = Database::create().await;
    let trap = |name: &str, arguments: &str| {
        format!(
            "create function public.{name}({arguments}) returns text language plpgsql as
             $$ begin raise 'a stranger''s code ran as %', current_user; end $$;"
        )
    };
    let sql = format!(
        "{}{} create operator public.|| (leftarg = text, rightarg = integer, function = public.caught);
         {}",
        trap("caught", "text, integer"),
        trap("coalesce", "text, text"),
        trap("octet_length", "character varying"),
    );
    raw_to(&database.url)
        .await
        .batch_execute(&sql)
        .await
        .unwrap();
    let scene = Scene::named(unique_schema(), database.url.clone()).await;
    let worker = scene.store("worker").await;
    // A delivery compares `machine || '/' || version` to find rows to claim.
    let offer = work::worker(&worker).await;
    let id = work::insert(&worker, task().correlation_key("order:0")).await;
    assert_eq!(park(&worker, "order:0").await, id);
    let signal = NewSignal::new(Target::Id(id), "paid", Json::null());
    let delivered = worker.deliver(vec![signal], Some(work::offer(offer))).await;
    assert_eq!(delivered.unwrap().claims.len(), 1);
    // A plain lookup does call the stranger's function.
    let caught = scene.client("worker").await;
    let error = caught
        .query("select 'a'::text || 1", &[])
        .await
        .unwrap_err();
    assert!(
        format!("{error:?}").contains("stranger's code"),
        "{error:?}"
    );
    worker.close().await;
    scene.drop().await;
    database.drop().await;
}
