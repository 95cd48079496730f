//! The columns of docs/specification.md, section 9: their names, their types and what is in them.
//!
//! The store writes, and plain SQL reads. So a column that is renamed, of another type, or filled
//! with something else is found, whatever the store reads back.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::raw::{Raw, on_both_databases};
use outlast::store::{
    Answer, Claim, ClaimRequest, Commit, Inspect, InstanceId, Join, Json, MachineVersion,
    NewInstance, NewSignal, NewWorker, Outcome, Start, Store, Target, WorkerId,
};
use std::time::Duration;

on_both_databases!(
    a_row_per_instance_has_the_specified_columns,
    a_row_has_the_specified_defaults,
    a_row_per_signal_has_the_specified_columns,
);

const QUEUE: &str = "urgent";

/// The specification's columns of an instance: its name, the name here, and the types on
/// PostgreSQL and on SQLite.
const INSTANCES: &[(&str, &str, &str, &str)] = &[
    ("id", "id", "bigint", "INTEGER"),
    ("fsm", "machine", "text", "TEXT"),
    ("fsm_version", "machine_version", "integer", "INTEGER"),
    ("step", "step", "text", "TEXT"),
    ("status", "status", "text", "TEXT"),
    ("state", "state", "json", "TEXT"),
    ("result", "result", "json", "TEXT"),
    ("awaits", "awaits", "text[]", "TEXT"),
    ("queue", "queue", "text", "TEXT"),
    ("priority", "priority", "smallint", "INTEGER"),
    ("partition_key", "partition_key", "text", "TEXT"),
    (
        "eligible_at",
        "eligible_at",
        "timestamp with time zone",
        "INTEGER",
    ),
    ("attempt", "attempt", "integer", "INTEGER"),
    ("last_error", "last_error", "text", "TEXT"),
    ("locked_by", "locked_by", "bigint", "INTEGER"),
    ("parent_id", "parent_id", "bigint", "INTEGER"),
    ("children_pending", "children_pending", "integer", "INTEGER"),
    ("unique_key", "correlation_key", "text", "TEXT"),
    ("unique_scope", "correlation_scope", "text[]", "TEXT"),
    ("unique_guard", "correlation_guard", "text", "TEXT"),
    (
        "inserted_at",
        "inserted_at",
        "timestamp with time zone",
        "INTEGER",
    ),
    (
        "updated_at",
        "updated_at",
        "timestamp with time zone",
        "INTEGER",
    ),
];

const SIGNALS: &[(&str, &str, &str, &str)] = &[
    ("id", "id", "bigint", "INTEGER"),
    ("target_id", "target_id", "bigint", "INTEGER"),
    ("name", "name", "text", "TEXT"),
    ("payload", "payload", "json", "TEXT"),
    ("dedup_key", "dedup_key", "text", "TEXT"),
    (
        "inserted_at",
        "inserted_at",
        "timestamp with time zone",
        "INTEGER",
    ),
];

/// The lease is a column of the worker, not of the instance.
const WORKERS: &[(&str, &str, &str, &str)] = &[(
    "lease_expires_at",
    "lease_expires_at",
    "timestamp with time zone",
    "INTEGER",
)];

impl Raw {
    async fn check_types(&self, table: &str, columns: &[(&str, &str, &str, &str)]) {
        for (specified, column, postgres, sqlite) in columns {
            let (sql, expected) = match self {
                Raw::Sqlite(_) => (
                    format!(
                        "select type from pragma_table_info('{table}') where name = '{column}'"
                    ),
                    sqlite,
                ),
                Raw::Postgres(_, schema) => (
                    format!(
                        "select format_type(atttypid, atttypmod) from pg_attribute
                          where attrelid = '{schema}.{table}'::regclass and attname = '{column}'"
                    ),
                    postgres,
                ),
            };
            let is = self
                .text(&format!("select coalesce(({sql}), 'missing')"))
                .await;
            assert_eq!(is, **expected, "{table}.{column}, there {specified}");
        }
    }

    /// Returns a column of an instance as text.
    async fn column(&self, id: InstanceId, column: &str) -> String {
        let sql = format!(
            "select coalesce(cast({column} as text), 'null') from instances where id = {id}"
        );
        self.text(&sql).await
    }

    async fn is(&self, id: InstanceId, expected: &[(&str, &str)]) {
        for (column, value) in expected {
            assert_eq!(self.column(id, column).await, *value, "{column}");
        }
    }

    /// Returns a list as this database writes it.
    fn list(&self, entries: &[&str]) -> String {
        match self {
            Raw::Sqlite(_) => serde_json::to_string(entries).unwrap(),
            Raw::Postgres(..) => format!("{{{}}}", entries.join(",")),
        }
    }

    /// Returns whether a condition holds for the instance.
    async fn holds(&self, id: InstanceId, condition: &str) -> bool {
        let sql = format!(
            "select case when {condition} then 'yes' else 'no' end from instances where id = {id}"
        );
        self.text(&sql).await == "yes"
    }
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

async fn worker(store: &impl Store) -> WorkerId {
    let worker = NewWorker {
        name: "worker".into(),
        host: "host".into(),
        version: "1.0".into(),
        machines: Vec::new(),
        queues: vec![QUEUE.into()],
        lease: Duration::from_secs(3600),
    };
    store.register(worker).await.unwrap()
}

async fn insert(store: &impl Store, row: NewInstance) -> InstanceId {
    let inserts = store.insert(vec![row], None).await.unwrap();
    inserts.rows[0].new_id().unwrap()
}

async fn claim(store: &impl Store, worker: WorkerId) -> Claim {
    let request = ClaimRequest {
        worker,
        queue: QUEUE.into(),
        machines: [MachineVersion::new("task", 3)].into(),
        max: 1,
    };
    store.claim(request).await.unwrap().claims.remove(0)
}

async fn commit(store: &impl Store, claim: &Claim, outcome: Outcome) {
    let committed = store.commit(vec![Commit::of(claim, outcome)].into()).await;
    let answer = committed.unwrap().answers.remove(0);
    assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
}

fn task() -> NewInstance {
    let row = NewInstance::new("task", "start", json(r#"{"a":1}"#));
    row.version(3).queue(QUEUE).priority(-7)
}

async fn a_row_per_instance_has_the_specified_columns<S: Store + Inspect + Clone>(
    store: S,
    raw: Raw,
) {
    raw.check_types("instances", INSTANCES).await;
    raw.check_types("workers", WORKERS).await;

    let later = Start::After(Duration::from_secs(3600));
    let keyed = task().partition_key("p").correlation_key("k").start(later);
    let id = insert(&store, keyed).await;
    let scope = [
        "runnable",
        "executing",
        "awaiting_signal",
        "awaiting_children",
    ];
    raw.is(
        id,
        &[
            ("machine", "task"),
            ("machine_version", "3"),
            ("step", "start"),
            ("status", "runnable"),
            ("state", r#"{"a":1}"#),
            ("result", "null"),
            ("awaits", "null"),
            ("queue", QUEUE),
            ("priority", "-7"),
            ("partition_key", "p"),
            ("attempt", "0"),
            ("last_error", "null"),
            ("locked_by", "null"),
            ("parent_id", "null"),
            ("children_pending", "0"),
            ("correlation_key", "k"),
            ("correlation_scope", &raw.list(&scope)),
            ("correlation_guard", "k"),
        ],
    )
    .await;
    let hour = match raw {
        Raw::Sqlite(_) => "3600000000",
        Raw::Postgres(..) => "interval '1 hour'",
    };
    assert!(
        raw.holds(id, &format!("eligible_at = inserted_at + {hour}"))
            .await
    );
    assert!(raw.holds(id, "updated_at = inserted_at").await);

    let worker = worker(&store).await;
    let id = insert(&store, task()).await;
    let first = claim(&store, worker).await;
    raw.is(
        id,
        &[("status", "executing"), ("locked_by", &worker.to_string())],
    )
    .await;
    let lease =
        "select case when lease_expires_at > heartbeat_at then 'yes' else 'no' end from workers";
    assert_eq!(raw.text(lease).await, "yes");

    let retry = Outcome::Retry {
        state: json("2"),
        delay: Duration::ZERO,
        error: Some("not yet".into()),
    };
    commit(&store, &first, retry).await;
    let retried = [
        ("status", "runnable"),
        ("step", "start"),
        ("state", "2"),
        ("attempt", "1"),
        ("last_error", "not yet"),
        ("locked_by", "null"),
    ];
    raw.is(id, &retried).await;
    assert!(raw.holds(id, "updated_at > inserted_at").await);

    let wait = Outcome::Wait {
        names: vec!["paid".into(), "void".into()],
        step: "waited".into(),
        state: json("3"),
        timeout: None,
    };
    let second = claim(&store, worker).await;
    commit(&store, &second, wait).await;
    let parked = [
        ("status", "awaiting_signal"),
        ("step", "waited"),
        ("awaits", &raw.list(&["paid", "void"])),
    ];
    raw.is(id, &parked).await;

    let signal = NewSignal::new(Target::Id(id), "paid", json("{}"));
    store.deliver(vec![signal], None).await.unwrap();
    let fan_out = Outcome::FanOut {
        children: vec![task(), task()],
        join: Join::default(),
        step: "joined".into(),
        state: json("4"),
    };
    let third = claim(&store, worker).await;
    commit(&store, &third, fan_out).await;
    let joining = [
        ("status", "awaiting_children"),
        ("children_pending", "2"),
        ("awaits", "null"),
        ("attempt", "0"),
    ];
    raw.is(id, &joining).await;
    let child = claim(&store, worker).await;
    raw.is(child.id, &[("parent_id", &id.to_string())]).await;
    let done = || Outcome::Done {
        result: json("[5]"),
    };
    commit(&store, &child, done()).await;
    raw.is(child.id, &[("status", "done"), ("result", "[5]")])
        .await;
    raw.is(id, &[("children_pending", "1")]).await;
    let sibling = claim(&store, worker).await;
    commit(&store, &sibling, Outcome::fail("torn")).await;
    raw.is(sibling.id, &[("status", "failed"), ("last_error", "torn")])
        .await;
    raw.is(
        id,
        &[
            ("status", "runnable"),
            ("step", "joined"),
            ("children_pending", "0"),
        ],
    )
    .await;

    // The guard is the key only while the status is in the scope.
    let keyed = insert(&store, task().correlation_key("k2").priority(-8)).await;
    let last = claim(&store, worker).await;
    assert_eq!(last.id, keyed);
    raw.is(keyed, &[("correlation_guard", "k2")]).await;
    commit(&store, &last, done()).await;
    raw.is(
        keyed,
        &[("correlation_key", "k2"), ("correlation_guard", "null")],
    )
    .await;
}

async fn a_row_has_the_specified_defaults<S: Store + Inspect + Clone>(store: S, raw: Raw) {
    let id = insert(&store, NewInstance::new("task", "start", json("{}"))).await;
    let defaults = [
        ("machine_version", "1"),
        ("status", "runnable"),
        ("queue", "default"),
        ("priority", "0"),
        ("attempt", "0"),
        ("children_pending", "0"),
        ("correlation_guard", "null"),
    ];
    raw.is(id, &defaults).await;
    assert!(raw.holds(id, "eligible_at = inserted_at").await);
}

async fn a_row_per_signal_has_the_specified_columns<S: Store + Inspect + Clone>(
    store: S,
    raw: Raw,
) {
    raw.check_types("signals", SIGNALS).await;
    let id = insert(&store, task()).await;
    let signal = NewSignal::new(Target::Id(id), "paid", json(r#"{"b":2}"#)).dedup_key("once");
    store.deliver(vec![signal], None).await.unwrap();
    let expected = format!("{id} paid {{\"b\":2}} once");
    let columns = "cast(target_id as text) || ' ' || name || ' ' || cast(payload as text) || ' ' || dedup_key";
    let row = raw.text(&format!("select {columns} from signals")).await;
    assert_eq!(row, expected);
    let moment = "select case when inserted_at is not null then 'yes' else 'no' end from signals";
    assert_eq!(raw.text(moment).await, "yes");
}
