//! The SQL functions start and signal instances inside the caller's own transaction.

use crate::support::work::{self, claim, commit, done, get, task, wait_for, worker};
use crate::support::{
    drop_schema, install_settable_clock, options, raw, unique_schema, url, value_of,
};
use outlast_core::{
    Answer, Commit, Delivery, Extent, Flowing, Inserted, Inspect, Instance, InstanceId, Json,
    KeyText, ManualClock, NewInstance, NewReply, NewSignal, Outcome, Park, ReplyKind, Scope, Start,
    Status, Store, Target, Timestamp,
};
use outlast_postgres::Postgres;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A store, and a plain SQL session in the store's schema.
struct Both {
    store: Postgres,
    sql: Client,
    schema: String,
    clock: ManualClock,
}

impl Both {
    async fn open() -> Both {
        let (schema, clock) = (unique_schema(), ManualClock::default());
        let store = options(&schema, &clock).connect().await.unwrap();
        let sql = Both::session(&schema, &clock).await;
        Both {
            store,
            sql,
            schema,
            clock,
        }
    }

    async fn session(schema: &str, clock: &ManualClock) -> Client {
        let sql = raw().await;
        let now = outlast_core::Clock::now(clock).0;
        sql.batch_execute(&format!("set outlast_test.now_us = {now}"))
            .await
            .unwrap();
        assert!(schema.starts_with('t'), "a plain name needs no quotes");
        install_settable_clock(&sql, schema).await;
        sql
    }

    /// Replaces `outlast.` by the schema of the test.
    fn named(&self, sql: &str) -> String {
        sql.replace("outlast.", &format!("{}.", self.schema))
    }

    async fn run(&self, sql: &str) {
        self.sql.batch_execute(&self.named(sql)).await.unwrap();
    }

    /// The id that an insert returns.
    async fn insert(&self, call: &str) -> Option<InstanceId> {
        let id: Option<i64> = value_of(&self.sql, &self.named(&format!("select {call}"))).await;
        id.map(InstanceId)
    }

    /// The word that a signal returns.
    async fn signal(&self, call: &str) -> String {
        value_of(&self.sql, &self.named(&format!("select {call}"))).await
    }

    /// Asserts that a call is refused as bad input, with this message.
    async fn assert_refused(&self, call: &str, message: &str) {
        let query = self.named(&format!("select {call}"));
        let error = self.sql.query_one(&query, &[]).await.unwrap_err();
        let error = error
            .as_db_error()
            .expect("the error comes from the database");
        let class = &error.code().code()[..2];
        assert_eq!(class, "22", "{call}: {error:?}");
        let all = format!("{} {}", error.message(), error.detail().unwrap_or_default());
        assert!(all.contains(message), "{call}: {all}");
    }

    async fn close(self) {
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

/// The row without its id, and with its state in one notation.
fn comparable(mut row: Instance) -> Instance {
    row.id = InstanceId(0);
    let state: serde_json::Value = row.state.decode().unwrap();
    row.state = Json::of(&state).unwrap();
    row
}

#[tokio::test]
async fn an_insert_is_visible_after_the_commit_and_gone_after_a_rollback() {
    let both = Both::open().await;
    both.run("begin").await;
    let id = both
        .insert("outlast.insert('task', 'start')")
        .await
        .unwrap();
    assert_eq!(both.store.get(id).await.unwrap(), None, "visible too early");
    both.run("rollback").await;
    assert_eq!(both.store.get(id).await.unwrap(), None);
    both.run("begin").await;
    let id = both
        .insert("outlast.insert('task', 'start')")
        .await
        .unwrap();
    both.run("commit").await;
    let claim = claim(&both.store, worker(&both.store).await).await;
    assert_eq!(claim.id, id);
    both.close().await;
}

#[tokio::test]
async fn an_insert_makes_the_same_row_as_an_insert_of_the_store() {
    let both = Both::open().await;
    let state = Json::parse(r#"{"number":42}"#).unwrap();
    let at = Timestamp(1_767_225_600_000_000) + Duration::from_secs(60);
    for (call, row) in [
        (
            "outlast.insert('task', 'start')",
            NewInstance::new("task", "start", Json::parse("{}").unwrap()),
        ),
        (
            r#"outlast.insert('task', 'start', '{"number": 42}', correlation_key => 'order:42')"#,
            NewInstance::new("task", "start", state.clone()).correlation_key("order:42"),
        ),
        (
            "outlast.insert(machine => 'other', step => 'go', state => 'null', version => 3,
                queue => 'mail', priority => -5, eligible_at => '2026-01-01 00:01:00+00',
                partition_key => 'p', correlation_key => 'k', scope => '{runnable,executing}',
                trace => '00-a-b-01')",
            NewInstance::new("other", "go", Json::null())
                .version(3)
                .queue("mail")
                .priority(-5)
                .start(Start::At(at))
                .partition_key("p")
                .correlation(
                    "k",
                    Scope::of([Status::Runnable, Status::Executing]).unwrap(),
                )
                .trace("00-a-b-01"),
        ),
    ] {
        let by_sql = both.insert(call).await.expect("the row is no duplicate");
        let by_sql = comparable(get(&both.store, by_sql).await);
        // It would occupy the key of the second row.
        both.run("delete from outlast.instances").await;
        let by_store = work::insert(&both.store, row).await;
        let by_store = comparable(get(&both.store, by_store).await);
        assert_eq!(by_sql, by_store);
        assert_eq!(by_sql.state.as_str(), by_store.state.as_str());
        both.run("delete from outlast.instances").await;
    }
    both.close().await;
}

#[tokio::test]
async fn an_insert_with_an_occupied_key_returns_null() {
    let both = Both::open().await;
    let insert = "outlast.insert('task', 'start', correlation_key => 'k')";
    assert!(both.insert(insert).await.is_some());
    assert_eq!(both.insert(insert).await, None);
    let other = "outlast.insert('other', 'start', correlation_key => 'k')";
    assert!(both.insert(other).await.is_some(), "keys are per machine");
    work::insert(&both.store, task().correlation_key("mine")).await;
    let taken = "outlast.insert('task', 'start', correlation_key => 'mine')";
    assert_eq!(both.insert(taken).await, None);
    both.close().await;
}

/// An instance that waits for `go`, under the key `key`.
async fn parked(both: &Both, key: &str) -> InstanceId {
    let store = &both.store;
    let id = work::insert(store, task().correlation_key(key)).await;
    let claim = claim(store, worker(store).await).await;
    assert_eq!(claim.id, id);
    let answer = commit(store, &claim, wait_for("go")).await;
    assert!(matches!(
        answer,
        Answer::Committed {
            status: Status::AwaitingSignal,
            ..
        }
    ));
    id
}

#[tokio::test]
async fn a_signal_wakes_its_target_after_a_commit_and_not_after_a_rollback() {
    let both = Both::open().await;
    let id = parked(&both, "order:42").await;
    // The call is the one of the crate's documentation.
    let call = r#"outlast.signal('task', 'order:42', 'go', '{"amount": 100}')"#;
    both.run("begin").await;
    assert_eq!(both.signal(call).await, "delivered");
    assert_eq!(get(&both.store, id).await.status, Status::AwaitingSignal);
    both.run("rollback").await;
    assert_eq!(get(&both.store, id).await.status, Status::AwaitingSignal);
    assert_eq!(both.store.signals(id, None).await.unwrap(), []);
    both.run("begin").await;
    assert_eq!(both.signal(call).await, "delivered");
    both.run("commit").await;
    let claim = claim(&both.store, worker(&both.store).await).await;
    assert_eq!(claim.id, id);
    let payload: serde_json::Value = claim.inbox[0].payload.decode().unwrap();
    assert_eq!(payload["amount"], 100);
    both.close().await;
}

/// The last missing signal wakes the workflow.
#[tokio::test]
async fn an_sql_signal_removes_its_name_from_the_awaited_names_of_a_workflow() {
    let both = Both::open().await;
    let store = &both.store;
    let id = work::insert(store, task()).await;
    let worker = worker(store).await;
    let outcome = Outcome::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Park(Park {
            names: vec!["go".into(), "halt".into()],
            needs_all: true,
            ..Park::default()
        }),
    };
    commit(store, &claim(store, worker).await, outcome).await;
    for (name, missing, status) in [
        ("halt", &["go"][..], Status::AwaitingSignal),
        ("halt", &["go"], Status::AwaitingSignal),
        ("go", &[], Status::Runnable),
    ] {
        let call = format!("outlast.signal({id}, '{name}')");
        assert_eq!(both.signal(&call).await, "delivered");
        let row = get(store, id).await;
        assert_eq!((row.status, row.needs_all), (status, status.is_parked()));
        assert_eq!(row.awaits.unwrap(), missing);
    }
    let claim = claim(store, worker).await;
    assert_eq!((claim.id, claim.inbox.len()), (id, 3));
    both.close().await;
}

#[tokio::test]
async fn every_form_of_the_signal_function_delivers() {
    let both = Both::open().await;
    let id = work::insert(&both.store, task().correlation_key("k")).await;
    let mut sent = 0;
    for call in [
        format!("outlast.signal({id}, 'go')"),
        format!("outlast.signal({id}, 'go', '{{}}')"),
        format!("outlast.signal({id}, 'go', '{{}}', 'd1')"),
        format!(
            "outlast.signal({id}::bigint, 'go', jsonb_build_object('a', 1), dedup_key => 'd2')"
        ),
        format!("outlast.signal(target => {id}, name => 'go')"),
        "outlast.signal('task', 'k', 'go')".into(),
        "outlast.signal('task', 'k', 'go', '{}')".into(),
        "outlast.signal('task', 'k', 'go', '{}', 'd3')".into(),
        "outlast.signal('task', 'k', 'go', dedup_key => 'd4')".into(),
        "outlast.signal(machine => 'task', correlation_key => 'k', name => 'go')".into(),
        "outlast.signal('task'::text, 'k'::varchar, 'go', to_jsonb(1))".into(),
    ] {
        assert_eq!(both.signal(&call).await, "delivered", "{call}");
        sent += 1;
        let signals = both.store.signals(id, None).await.unwrap();
        assert_eq!(signals.len(), sent, "{call}");
    }
    both.close().await;
}

#[tokio::test]
async fn an_sql_signal_has_the_same_answers_and_effects_as_a_delivery() {
    let both = Both::open().await;
    let (by_sql, by_store) = (parked(&both, "a").await, parked(&both, "b").await);
    let ended = parked(&both, "c").await;
    let note = outlast_core::Note::by("ada");
    both.store
        .terminate(vec![ended], Extent::One, note)
        .await
        .unwrap();
    let word = |delivery: &Delivery| match delivery {
        Delivery::Delivered { .. } => "delivered",
        Delivery::Duplicate { .. } => "duplicate",
        Delivery::NoTarget => "no_target",
        Delivery::InboxFull { .. } => "inbox_full",
    };
    let sends: [(&str, Option<&str>); 6] = [
        ("unawaited", None),
        ("unawaited", Some("d1")),
        ("unawaited", Some("d1")),
        ("go", Some("d2")),
        ("go", Some("d2")),
        ("go", None),
    ];
    for (nth, (name, dedup_key)) in sends.into_iter().enumerate() {
        let mut signal = NewSignal::new(Target::Id(by_store), name, Json::parse("1").unwrap());
        signal.dedup_key = dedup_key.map(Into::into);
        let delivered = both.store.deliver(vec![signal], None).await.unwrap();
        let dedup = dedup_key.map_or("null".into(), |key| format!("'{key}'"));
        // Alternates between id and key.
        let call = match nth % 2 {
            0 => format!("outlast.signal({by_sql}, '{name}', '1', {dedup})"),
            _ => format!("outlast.signal('task', 'a', '{name}', '1', {dedup})"),
        };
        assert_eq!(
            both.signal(&call).await,
            word(&delivered.answers[0]),
            "{call}"
        );
        let (mut left, mut right) = (
            get(&both.store, by_sql).await,
            get(&both.store, by_store).await,
        );
        for row in [&mut left, &mut right] {
            row.id = InstanceId(0);
            row.correlation_key = None;
        }
        assert_eq!(left, right, "{call}");
        let inbox = async |id| {
            let signals = both.store.signals(id, None).await.unwrap().into_iter();
            let sets = signals.map(|it| (it.name, it.payload, it.dedup_key, it.inserted_at));
            sets.collect::<Vec<_>>()
        };
        assert_eq!(inbox(by_sql).await, inbox(by_store).await, "{call}");
    }
    for call in [
        format!("outlast.signal({ended}, 'go')"),
        "outlast.signal('task', 'c', 'go')".into(),
        "outlast.signal(0, 'go')".into(),
        "outlast.signal('task', 'nobody', 'go')".into(),
    ] {
        assert_eq!(both.signal(&call).await, "no_target", "{call}");
    }
    both.close().await;
}

#[tokio::test]
async fn an_sql_signal_repeated_after_the_end_is_a_duplicate() {
    let both = Both::open().await;
    let id = parked(&both, "k").await;
    let calls = [
        format!("outlast.signal({id}, 'go', dedup_key => 'd1')"),
        "outlast.signal('task', 'k', 'go', dedup_key => 'd1')".into(),
    ];
    assert_eq!(both.signal(&calls[1]).await, "delivered");
    let note = outlast_core::Note::by("ada");
    let ended = both.store.terminate(vec![id], Extent::One, note);
    ended.await.unwrap();
    for call in &calls {
        assert_eq!(both.signal(call).await, "duplicate", "{call}");
    }
    let next = parked(&both, "k").await;
    assert_eq!(
        both.signal(&calls[1]).await,
        "duplicate",
        "the former holder has it"
    );
    assert_eq!(both.store.signals(next, None).await.unwrap(), []);
    both.close().await;
}

/// What the function `reply` returns: the state, the kind, the reply and the name.
async fn replied(both: &Both, call: &str) -> [Option<String>; 4] {
    let sql = both.named(&format!(
        "select state, kind, reply::text, name, at is null as undated from {call}"
    ));
    let row = both.sql.query_one(&sql, &[]).await.unwrap();
    let [state, kind, reply, name] = [0, 1, 2, 3].map(|column| row.get(column));
    assert_eq!(row.get::<_, bool>("undated"), Option::is_none(&kind));
    [state, kind, reply, name]
}

#[tokio::test]
async fn an_sql_update_is_delivered_as_one_and_its_reply_is_read_in_sql() {
    let both = Both::open().await;
    let id = parked(&both, "k").await;
    let by_id = format!("outlast.reply({id}, 'u-7')");
    let by_key = "outlast.reply('task', 'k', 'u-7')";
    let none = [const { None }; 4];
    assert_eq!(replied(&both, &by_id).await, none);
    assert_eq!(replied(&both, by_key).await, none);
    let update = r#"outlast.update('task', 'k', 'go', '{"amount": 100}', 'u-7')"#;
    both.run("begin").await;
    assert_eq!(both.signal(update).await, "delivered");
    both.run("rollback").await;
    assert_eq!(both.store.update(id, "u-7").await.unwrap(), None);
    assert_eq!(both.signal(update).await, "delivered");
    let again = format!("outlast.update({id}, 'go', 'null', 'u-7')");
    assert_eq!(both.signal(&again).await, "duplicate");
    let standing = |words: [&str; 4]| words.map(|it| (!it.is_empty()).then(|| it.to_owned()));
    let pending = standing(["pending", "", "", "go"]);
    assert_eq!(replied(&both, &by_id).await, pending);
    assert_eq!(replied(&both, by_key).await, pending);

    let claim = claim(&both.store, worker(&both.store).await).await;
    assert_eq!(claim.id, id);
    assert!(claim.inbox[0].wants_reply);
    let second = format!("outlast.update({id}, 'go', 'null', 'u-8')");
    assert_eq!(both.signal(&second).await, "delivered");
    let reply = NewReply {
        signal: claim.inbox[0].id,
        kind: ReplyKind::Rejected,
        data: Json::parse(r#"{"because": ["ü\"", 1.50]}"#).unwrap(),
    };
    let commit = Commit {
        replies: vec![reply],
        ..Commit::of(&claim, done())
    };
    both.store.commit(vec![commit].into()).await.unwrap();
    let text = r#"{"because": ["ü\"", 1.50]}"#;
    let answered = standing(["replied", "rejected", text, "go"]);
    assert_eq!(replied(&both, &by_id).await, answered);
    assert_eq!(replied(&both, by_key).await, answered, "the former holder");
    let ended = standing(["ended", "", "", "go"]);
    let of_second = format!("outlast.reply({id}, 'u-8')");
    assert_eq!(replied(&both, &of_second).await, ended);
    // The next holder of the key did not get it.
    let next = parked(&both, "k").await;
    assert_eq!(both.signal(update).await, "duplicate");
    assert_eq!(both.store.signals(next, None).await.unwrap(), []);
    assert_eq!(replied(&both, by_key).await, answered);
    both.close().await;
}

#[tokio::test]
async fn an_update_ended_by_a_retry_stays_ended_in_sql() {
    let both = Both::open().await;
    let id = parked(&both, "k").await;
    let update = format!("outlast.update({id}, 'ask', '1', 'u')");
    assert_eq!(both.signal(&update).await, "delivered");
    let note = || outlast_core::Note::by("ada");
    let ended = both.store.terminate(vec![id], Extent::One, note());
    ended.await.unwrap();
    both.store.retry(vec![id], note()).await.unwrap();
    let found = replied(&both, &format!("outlast.reply({id}, 'u')")).await;
    assert_eq!(
        found,
        [Some("ended".into()), None, None, Some("ask".into())]
    );
    both.close().await;
}

#[tokio::test]
async fn every_answer_of_an_sql_update_is_that_of_a_signal() {
    let both = Both::open().await;
    let id = parked(&both, "k").await;
    let answers = [
        (
            format!("outlast.update({id}, 'ask', '1', 'u')"),
            "delivered",
        ),
        (
            format!("outlast.signal({id}, 'ask', '1', 'u')"),
            "duplicate",
        ),
        (
            format!("outlast.signal({id}, 'ask', '1', 'd')"),
            "delivered",
        ),
        (
            "outlast.update('task', 'k', 'ask', '1', 'd')".into(),
            "duplicate",
        ),
        ("outlast.update(0, 'ask', '1', 'u')".into(), "no_target"),
        (
            "outlast.update('task', 'nobody', 'ask', '1', 'u')".into(),
            "no_target",
        ),
    ];
    for (call, word) in answers {
        assert_eq!(both.signal(&call).await, word, "{call}");
    }
    // A plain signal with the id has no reply.
    let plain = replied(&both, "outlast.reply('task', 'k', 'd')").await;
    assert_eq!(plain, [const { None }; 4]);
    let refused = [
        (format!("outlast.update({id}, 'ask', '1', null)"), "no id"),
        (
            format!("outlast.update({id}, 'ask', '1', '')"),
            "dedup key is empty",
        ),
        (
            format!("outlast.update({id}, '', '1', 'u')"),
            "signal is empty",
        ),
        (
            format!("outlast.update({id}, 'ask', null, 'u')"),
            "payload is null",
        ),
        (
            "outlast.update(null, 'ask', '1', 'u')".into(),
            "target is null",
        ),
        (
            "outlast.update('', 'k', 'ask', '1', 'u')".into(),
            "machine is empty",
        ),
        (
            "outlast.update('task', null, 'ask', '1', 'u')".into(),
            "correlation key is null",
        ),
    ];
    for (call, message) in refused {
        both.assert_refused(&call, message).await;
    }
    both.close().await;
}

#[tokio::test]
async fn an_insert_without_a_queue_goes_to_the_queue_of_its_machine() {
    let both = Both::open().await;
    let queue_of = async |call: &str| {
        let id = both.insert(call).await.expect("the row is no duplicate");
        get(&both.store, id).await.queue
    };
    assert_eq!(queue_of("outlast.insert('task', 'start')").await, "default");
    both.run(
        "insert into outlast.workers
             (name, host, version, queues, machines, started_at, heartbeat_at, lease_expires_at)
         values ('w', 'h', '1', '{mail}',
                 '[{\"name\":\"task\",\"version\":2,\"queue\":\"mail\",\"steps\":[\"start\"]}]',
                 now(), now(), now() + interval '1 hour')",
    )
    .await;
    assert_eq!(queue_of("outlast.insert('task', 'start')").await, "default");
    let second = "outlast.insert('task', 'start', version => 2)";
    assert_eq!(queue_of(second).await, "mail");
    let named = "outlast.insert('task', 'start', version => 2, queue => 'other')";
    assert_eq!(queue_of(named).await, "other");
    both.close().await;
}

#[tokio::test]
async fn a_full_inbox_refuses_an_sql_signal() {
    let both = Both::open().await;
    let id = work::insert(&both.store, task()).await;
    let max = outlast_core::limits::INBOX_MAX;
    both.run(&format!(
        "insert into outlast.signals (target_id, name, payload, dedup_key, inserted_at)
         select {id}, 'go', 'null', n, outlast.now() from generate_series(2, {max}) as n"
    ))
    .await;
    let call = format!("outlast.signal({id}, 'go')");
    assert_eq!(both.signal(&call).await, "delivered");
    assert_eq!(both.signal(&call).await, "inbox_full");
    let known = format!("outlast.signal({id}, 'go', dedup_key => '2')");
    assert_eq!(
        both.signal(&known).await,
        "duplicate",
        "the dedup key is checked first"
    );
    both.close().await;
}

#[tokio::test]
async fn bad_input_is_refused_with_an_error_that_names_the_fault() {
    let both = Both::open().await;
    let id = work::insert(&both.store, task()).await;
    let long_name = "repeat('x', 201)";
    let long_key = "repeat('x', 513)";
    let nested = |n: usize| format!("(repeat('[', {n}) || repeat(']', {n}))::jsonb");
    let deep = |n| format!("outlast.insert('task', 'start', {})", nested(n));
    let sized = |n: usize| format!("to_jsonb(repeat('x', {}))", n - 2);
    for (call, message) in [
        ("outlast.insert('', 'start')".into(), "machine is empty"),
        ("outlast.insert(null, 'start')".into(), "machine is empty"),
        ("outlast.insert('a/b', 'start')".into(), "separates name and version"),
        (format!("outlast.insert({long_name}, 'start')"), "machine has 201 bytes; at most 200"),
        (format!("outlast.insert('task', {long_name})"), "step has 201 bytes"),
        ("outlast.insert('task', 'start', queue => '')".into(), "queue is empty"),
        ("outlast.insert('task', E'a\\tb')".into(), "step contains a control character"),
        ("outlast.insert('task', E'a\\u0085b')".into(), "control character"),
        ("outlast.insert('task', 'start', version => 0)".into(), "versions start at 1"),
        ("outlast.insert('task', 'start', version => null)".into(), "version is null"),
        ("outlast.insert('task', 'start', priority => 40000)".into(), "priority is 40000"),
        ("outlast.insert('task', 'start', priority => null)".into(), "priority is null"),
        ("outlast.insert('task', 'start', partition_key => '')".into(), "partition key is empty"),
        (format!("outlast.insert('task', 'start', partition_key => {long_key})"), "513 bytes; at most 512"),
        (format!("outlast.insert('task', 'start', correlation_key => {long_key})"), "correlation key has 513 bytes"),
        (format!("outlast.insert('task', 'start', trace => {long_key})"), "trace has 513 bytes"),
        ("outlast.insert('task', 'start', trace => '')".into(), "trace is empty"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => '{executing}')".into(), "must contain runnable"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => '{}')".into(), "must contain runnable"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => null)".into(), "must contain runnable"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => '{runnable,paused}')".into(), "unknown status"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => '{runnable,null}')".into(), "unknown status"),
        ("outlast.insert('task', 'start', correlation_key => 'k', scope => '{{runnable},{executing}}')".into(), "is not a plain list"),
        ("outlast.insert('task', 'start', eligible_at => 'infinity')".into(), "between the years 1970 and 9999"),
        ("outlast.insert('task', 'start', eligible_at => '-infinity')".into(), "between the years 1970 and 9999"),
        ("outlast.insert('task', 'start', eligible_at => '0044-03-15 00:00:00+00 BC')".into(), "between the years 1970 and 9999"),
        ("outlast.insert('task', 'start', eligible_at => '10000-01-02 00:00:00+00')".into(), "between the years 1970 and 9999"),
        ("outlast.insert('task', 'start', null)".into(), "state is null; JSON null is written"),
        (r#"outlast.insert('task', 'start', '"\u0000"')"#.into(), "\\u0000 cannot be converted"),
        (r#"outlast.insert('task', 'start', '"\ud800"')"#.into(), "surrogate"),
        ("outlast.insert('task', 'start', '{')".into(), "input string ended"),
        (deep(101), "nested more than 100 levels deep"),
        (deep(1_000), "nested more than 100 levels deep"),
        (format!("outlast.insert('task', 'start', {})", sized((1 << 20) + 1)), "at most 1048576"),
        (format!("outlast.signal({id}, '')"), "signal is empty"),
        (format!("outlast.signal({id}, {long_name})"), "signal has 201 bytes"),
        (format!("outlast.signal({id}, 'go', null)"), "payload is null"),
        (format!("outlast.signal({id}, 'go', {})", nested(101)), "nested more than"),
        (format!("outlast.signal({id}, 'go', dedup_key => '')"), "dedup key is empty"),
        (format!("outlast.signal({id}, 'go', dedup_key => {long_key})"), "dedup key has 513 bytes"),
        ("outlast.signal(null::bigint, 'go')".into(), "target is null"),
        ("outlast.signal('', 'k', 'go')".into(), "machine is empty"),
        ("outlast.signal('task', null, 'go')".into(), "correlation key is null"),
        (format!("outlast.signal('task', {long_key}, 'go')"), "correlation key has 513 bytes"),
        ("outlast.signal('task', 'k', '')".into(), "signal is empty"),
    ] {
        both.assert_refused(&call, message).await;
    }
    // The largest values are accepted.
    for call in [
        deep(100),
        format!("outlast.insert('task', 'start', {})", sized(1 << 20)),
        "outlast.insert(repeat('m', 200), repeat('s', 200), queue => repeat('q', 200), priority => 32767,
            partition_key => repeat('p', 512), correlation_key => repeat('c', 512),
            eligible_at => '9999-12-31 00:00:00+00')".into(),
    ] {
        let id = both.insert(&call).await.expect("the values are within the limits");
        get(&both.store, id).await;
    }
    assert_eq!(both.store.signals(id, None).await.unwrap(), []);
    both.close().await;
}

/// The text of a key is the same in SQL and in Rust, and both find what the other has started.
#[tokio::test]
async fn a_key_of_any_bytes_is_the_same_in_sql_and_in_rust() {
    let both = Both::open().await;
    let keys: [&[u8]; 9] = [
        b"order:42",
        "größe\u{202e}".as_bytes(),
        b"\x00",
        b"\x00\xff",
        b"a\nb",
        b"\x7f",
        "\u{85}".as_bytes(),
        b"\x0100ff",
        &[0xff; 512],
    ];
    for key in keys {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let call = format!("outlast.key('\\x{hex}'::bytea)");
        let by_sql: String = value_of(&both.sql, &both.named(&format!("select {call}"))).await;
        assert_eq!(by_sql, KeyText::from(key).as_str());

        let insert = format!(
            "outlast.insert('task', 'start', partition_key => {call}, correlation_key => {call})"
        );
        let id = both.insert(&insert).await.expect("the key is free");
        assert_eq!(both.insert(&insert).await, None, "the key is held");
        let row = task().correlation_key(key);
        let again = both.store.insert(vec![row], None).await.unwrap().rows;
        assert_eq!(again, [Inserted::Duplicate { holder: Some(id) }]);
        let signal = format!("outlast.signal('task', {call}, 'go', dedup_key => {call})");
        assert_eq!(both.signal(&signal).await, "delivered");
        let signal = NewSignal::new(id.into(), "go", Json::null()).dedup_key(key);
        let delivered = both.store.deliver(vec![signal], None).await.unwrap();
        assert_eq!(delivered.answers, [Delivery::Duplicate { instance: id }]);
    }
    // These are no texts of keys. The last one would be a second text of the key 42.
    for text in ["a\\nb", "\\u0001", "\\u00010", "\\u000100FF", "\\u00013432"] {
        let call = format!("outlast.insert('task', 'start', correlation_key => E'{text}')");
        both.assert_refused(&call, "through the function key(bytea)")
            .await;
    }
    let long = "outlast.insert('task', 'start', partition_key => outlast.key(decode(repeat('00', 513), 'hex')))";
    both.assert_refused(long, "partition key has 513 bytes")
        .await;
    both.close().await;
}

/// A call of the function behind the adapters, with its default arguments changed.
fn insert_one(changes: &[(&str, &str)]) -> String {
    let mut arguments = [
        ("machine", "'task'"),
        ("version", "1"),
        ("step", "'start'"),
        ("state", "'{}'"),
        ("queue", "'default'"),
        ("priority", "0::smallint"),
        ("delay_us", "0"),
        ("at_us", "null"),
        ("partition_key", "null"),
        ("correlation_key", "null"),
        ("scope", "'{runnable}'"),
        ("trace", "null"),
        ("timeout_us", "null"),
        ("run_timeout_us", "null"),
    ];
    for (name, value) in changes {
        let argument = arguments.iter_mut().find(|argument| argument.0 == *name);
        argument.expect("the function has this argument").1 = value;
    }
    let arguments = arguments.map(|(name, value)| format!("{name} => {value}"));
    format!("outlast.insert_one({})", arguments.join(", "))
}

fn deliver_one(id: InstanceId, name: &str, payload: &str, dedup_key: &str) -> String {
    format!("outlast.deliver_one({id}, null, null, {name}, {payload}, {dedup_key}, 10000)")
}

#[tokio::test]
async fn a_timeout_counts_from_the_start_as_in_the_store() {
    let both = Both::open().await;
    let now = outlast_core::Clock::now(&both.clock);
    let hour = Duration::from_secs(3600);
    for (start, from) in [
        ("null", now),
        ("outlast.now() + interval '1 hour'", now + hour),
        ("outlast.now() - interval '1 hour'", now),
    ] {
        let call = format!(
            "outlast.insert('task', 'start', eligible_at => {start}, timeout => interval '1 hour')"
        );
        let row = get(&both.store, both.insert(&call).await.unwrap()).await;
        assert_eq!(row.timeout_at, Some(from + hour), "{start}");
        assert_eq!(row.run_timeout_at, None);
    }
    let call = insert_one(&[
        ("delay_us", "3600000000"),
        ("timeout_us", "7200000000"),
        ("run_timeout_us", "1"),
    ]);
    let id = both.insert(&format!("id from {call}")).await.unwrap();
    let row = get(&both.store, id).await;
    assert_eq!(row.timeout_at, Some(now + 3 * hour));
    assert_eq!(
        row.run_timeout_at,
        Some(now + hour + Duration::from_micros(1))
    );
    for (timeout, message) in [
        ("interval '0'", "must be between"),
        ("interval '-1 second'", "must be between"),
        ("interval '11 years'", "ten years"),
    ] {
        let call = format!("outlast.insert('task', 'start', timeout => {timeout})");
        both.assert_refused(&call, message).await;
    }
    let late = "outlast.insert('task', 'start', eligible_at => '9999-12-31', timeout => '2 days')";
    both.assert_refused(late, "end of the timeout").await;
    for name in ["timeout_us", "run_timeout_us"] {
        both.assert_refused(&insert_one(&[(name, "0")]), "must be between")
            .await;
    }
    both.close().await;
}

#[tokio::test]
async fn a_caller_cannot_set_the_clock_of_the_functions() {
    let schema = unique_schema();
    let store = Postgres::options(&url()).unwrap().schema(&schema);
    let store = store.connect().await.unwrap();
    let both = Both {
        store,
        sql: raw().await,
        schema,
        clock: ManualClock::default(),
    };
    let worker = worker(&both.store).await;
    work::insert(&both.store, task()).await;
    let claim = claim(&both.store, worker).await;
    commit(&both.store, &claim, wait_for("go")).await;
    both.run("set outlast_test.now_us = 253402300799000000")
        .await;
    both.run(&format!("select {}", insert_one(&[]))).await;
    both.run("select outlast.insert('task', 'start')").await;
    both.run(&format!(
        "select {}",
        deliver_one(claim.id, "'go'", "'1'", "null")
    ))
    .await;
    both.run(&format!("select outlast.signal({}, 'more')", claim.id))
        .await;
    let misdated: i64 = value_of(
        &both.sql,
        &both.named(
            "select (select count(*) from outlast.instances i
                      where greatest(i.inserted_at, i.updated_at, i.eligible_at)
                            > clock_timestamp() + interval '1 minute')
                  + (select count(*) from outlast.signals s
                      where s.inserted_at > clock_timestamp() + interval '1 minute')",
        ),
    )
    .await;
    assert_eq!(misdated, 0, "rows have a time that their caller set");
    let woken = get(&both.store, claim.id).await;
    assert_eq!(woken.status, Status::Runnable);
    both.close().await;
}

/// The text is stored and read back unchanged, so the limit is on its size.
#[tokio::test]
async fn the_size_limit_of_json_counts_the_stored_text() {
    let both = Both::open().await;
    let id = work::insert(&both.store, task()).await;
    let padded = |bytes: usize| format!("('{{' || repeat(' ', {}) || '}}')::json", bytes - 2);
    let max = 1 << 20;
    let repeated = "('{' || repeat('\"a\":1,', 200000) || '\"a\":1}')::json";
    let encoded = |bytes: usize| {
        let envelope = format!("repeat('A', {})", bytes - 22);
        format!("('{{\"outlast:encoded\":\"' || {envelope} || '\"}}')::json")
    };
    let too_large = [
        padded(max + 1),
        padded(100 << 20),
        repeated.to_owned(),
        encoded(2 * max + 1),
    ];
    for json in &too_large {
        both.assert_refused(&insert_one(&[("state", json)]), "are stored")
            .await;
        both.assert_refused(&deliver_one(id, "'go'", json, "null"), "are stored")
            .await;
    }
    let text = format!("'[' || repeat(' ', {max}) || ']'");
    both.assert_refused(
        &format!("outlast.signal('task', 'k', 'go', {text})"),
        "are stored",
    )
    .await;
    assert_eq!(both.store.signals(id, None).await.unwrap(), []);
    for json in [padded(max), encoded(2 * max)] {
        both.run(&format!("select {}", insert_one(&[("state", &json)])))
            .await;
        both.run(&format!(
            "select {}",
            deliver_one(id, "'go'", &json, "null")
        ))
        .await;
    }
    both.close().await;
}

#[tokio::test]
async fn the_adapter_functions_refuse_the_same_input_as_the_library() {
    let both = Both::open().await;
    let id = work::insert(&both.store, task()).await;
    let many = "array_fill('runnable'::text, array[1000000])";
    for (changes, message) in [
        (&[("at_us", "-1")][..], "between the years 1970 and 9999"),
        (
            &[("at_us", "253402300799000001")],
            "between the years 1970 and 9999",
        ),
        (
            &[("at_us", "9223372036854775807")],
            "between the years 1970 and 9999",
        ),
        (&[("delay_us", "-1")], "start delay is -1 us"),
        (&[("delay_us", "316224000000001")], "ten years"),
        (&[("delay_us", "9223372036854775807")], "ten years"),
        (
            &[("correlation_key", "'k'"), ("scope", many)],
            "scope has 1000000 entries",
        ),
        (
            &[("machine", "E'a\\u202eb'")],
            "machine contains a format character",
        ),
        (
            &[("step", "E'a\\u200bb'")],
            "step contains a format character",
        ),
        (
            &[("queue", "E'a\\u2028b'")],
            "queue contains a format character",
        ),
        (
            &[("trace", "E'a\\u2066b'")],
            "trace contains a format character",
        ),
        (
            &[("step", "E'a\\U000E0041b'")],
            "step contains a format character",
        ),
    ] {
        both.assert_refused(&insert_one(changes), message).await;
    }
    for (call, message) in [
        (
            deliver_one(id, "E'a\\u200bb'", "'1'", "null"),
            "signal contains a format",
        ),
        (
            format!("outlast.signal({id}, E'a\\u200bb')"),
            "signal contains a format",
        ),
        (
            "outlast.insert(E'a\\u200bb', 'start')".into(),
            "machine contains a format",
        ),
        (
            "outlast.insert('task', 'start', eligible_at => '1969-12-31 23:59:59+00')".into(),
            "between the years 1970 and 9999",
        ),
    ] {
        both.assert_refused(&call, message).await;
    }
    both.run(&format!(
        "select {}",
        insert_one(&[("step", "'größe 日本 ❤️'")])
    ))
    .await;
    // The checks do not depend on the caller's setting for backslashes.
    both.run("set standard_conforming_strings = off").await;
    both.assert_refused(&insert_one(&[("step", "E'a\\u200bb'")]), "format character")
        .await;
    both.assert_refused("outlast.insert('task', E'a\\u0085b')", "control character")
        .await;
    both.close().await;
}

/// An older version accepted such names.
#[tokio::test]
async fn names_stored_by_an_older_version_are_still_found() {
    let both = Both::open().await;
    both.run(
        "insert into outlast.instances
            (machine, machine_version, step, state, status, queue, priority, eligible_at, correlation_key,
             correlation_scope, correlation_guard, inserted_at, updated_at)
         values (E'ta\\u200bsk', 1, E'sta\\u200brt', '1', 'runnable', E'de\\u200bfault', 0, outlast.now(),
                 E'k\\u202e', '{runnable}', E'k\\u202e', outlast.now(), outlast.now())",
    )
    .await;
    let by_sql = both
        .signal("outlast.signal(E'ta\\u200bsk', E'k\\u202e', 'go')")
        .await;
    assert_eq!(by_sql, "delivered");
    let target = Target::Key {
        machine: "ta\u{200b}sk".into(),
        key: "k\u{202e}".into(),
    };
    let signal = NewSignal::new(target, "go", Json::null());
    let delivered = both.store.deliver(vec![signal], None).await.unwrap();
    assert!(matches!(
        delivered.answers[..],
        [Delivery::Delivered { .. }]
    ));
    let filter = outlast_core::Filter {
        machine: Some("ta\u{200b}sk".into()),
        queue: Some("de\u{200b}fault".into()),
        correlation_key: Some("k\u{202e}".into()),
        ..outlast_core::Filter::default()
    };
    assert_eq!(
        both.store.count(filter).await.unwrap(),
        outlast_core::Count::Exactly(1)
    );
    both.close().await;
}

/// I2 and defect 2 (docs/protocol.md).
#[tokio::test(flavor = "multi_thread")]
async fn an_sql_signal_that_races_a_park_is_never_lost() {
    let both = Both::open().await;
    let worker = worker(&both.store).await;
    for isolation in ["read committed", "repeatable read", "serializable"] {
        both.run(&format!(
            "set session characteristics as transaction isolation level {isolation}"
        ))
        .await;
        let mut again = 0;
        for round in 0..200 {
            let key = format!("{isolation} {round}");
            let id = work::insert(&both.store, task().correlation_key(&key)).await;
            let claim = claim(&both.store, worker).await;
            assert_eq!(claim.id, id);
            let store = both.store.clone();
            let parking = tokio::spawn({
                let claim = claim.clone();
                async move { commit(&store, &claim, wait_for("go")).await }
            });
            let call = match round % 2 {
                0 => format!("outlast.signal({id}, 'go')"),
                _ => format!("outlast.signal('task', '{key}', 'go')"),
            };
            again += signal_until_delivered(&both, &call).await;
            let parked = parking.await.unwrap();
            assert!(matches!(parked, Answer::Committed { .. }), "{parked:?}");
            let row = get(&both.store, id).await;
            assert_eq!(
                row.status,
                Status::Runnable,
                "{isolation}, round {round}: lost"
            );
            let woken = work::claim(&both.store, worker).await;
            assert_eq!((woken.id, woken.inbox.len()), (id, 1));
            commit(&both.store, &woken, done()).await;
        }
        assert!(
            isolation != "read committed" || again == 0,
            "{again} failures"
        );
    }
    both.close().await;
}

/// Sends a signal until it is delivered. Returns how often the database could not serialise it.
async fn signal_until_delivered(both: &Both, call: &str) -> usize {
    let query = both.named(&format!("select {call}"));
    for failures in 0..20 {
        match both.sql.query_one(&query, &[]).await {
            Ok(row) => {
                assert_eq!(row.get::<_, &str>(0), "delivered");
                return failures;
            }
            Err(error) => {
                let code = error.code().cloned();
                assert_eq!(code, Some(SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
            }
        }
    }
    panic!("never delivered: {call}");
}

/// A step that runs ahead must see a signal of a caller's transaction, too.
#[tokio::test]
async fn a_signal_to_a_running_step_is_named_by_its_commit() {
    let both = Both::open().await;
    let store = &both.store;
    work::insert(store, task().correlation_key("k")).await;
    let mut running = claim(store, worker(store).await).await;
    let before = get(store, running.id).await;
    for call in [
        format!("outlast.signal({}, 'x')", running.id),
        "outlast.signal('task', 'k', 'y')".into(),
    ] {
        assert_eq!(both.signal(&call).await, "delivered");
        assert_eq!(get(store, running.id).await.updated_at, before.updated_at);
        let keep = Outcome::Next {
            step: "next".into(),
            state: Json::null(),
            proceed: outlast_core::Proceed::KeepClaim,
        };
        let Answer::Committed { latest_signal, .. } = commit(store, &running, keep).await else {
            panic!("{call}: the claim is held");
        };
        let sent = store.signals(running.id, None).await.unwrap();
        assert_eq!(latest_signal, sent.last().map(|signal| signal.id), "{call}");
        running.revision = running.revision.next();
        let inbox = store.inbox(running.reference()).await.unwrap().unwrap();
        assert_eq!(inbox.len(), sent.len());
    }
    both.close().await;
}

/// A caller with an old snapshot sees neither parks nor signals that were committed since.
#[tokio::test]
async fn a_signal_from_an_old_snapshot_fails_with_a_serialization_error() {
    let both = Both::open().await;
    let worker = worker(&both.store).await;
    let store = &both.store;
    let id = work::insert(store, task()).await;
    let running = claim(store, worker).await;
    let old = async |call: &str| {
        let query = both.named(&format!("select {call}"));
        let answer = both.sql.query_one(&query, &[]).await;
        answer.map(|row| row.get::<_, String>(0))
    };
    // The instance parked after the snapshot.
    both.run("begin isolation level repeatable read; select from outlast.instances")
        .await;
    commit(store, &running, wait_for("go")).await;
    let error = old(&format!("outlast.signal({id}, 'go')"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    both.run("rollback").await;
    // A signal with the same dedup key was sent after the snapshot.
    both.run("begin isolation level repeatable read; select from outlast.instances")
        .await;
    let other = NewSignal::new(Target::Id(id), "other", Json::null()).dedup_key("once");
    store.deliver(vec![other], None).await.unwrap();
    let call = format!("outlast.signal({id}, 'other', dedup_key => 'once')");
    let error = old(&call).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    both.run("rollback").await;
    assert_eq!(get(store, id).await.status, Status::AwaitingSignal);
    assert_eq!(store.signals(id, None).await.unwrap().len(), 1);
    both.close().await;
}

/// I9: one of several concurrent inserts of a key is new.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_inserts_of_a_key_by_sql_and_by_the_store_have_one_holder() {
    let both = Both::open().await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(Both::session(&both.schema, &both.clock).await);
    }
    for round in 0..50 {
        let key = format!("k{round}");
        let query = format!("select outlast.insert('task', 'start', correlation_key => '{key}')");
        let query = both.named(&query);
        let by_sql = sessions.iter().map(|session| async {
            let id: Option<i64> = value_of(session, &query).await;
            usize::from(id.is_some())
        });
        let by_store = (0..4).map(|_| async {
            let rows = vec![task().correlation_key(&key)];
            let inserts = both.store.insert(rows, None).await.unwrap();
            usize::from(inserts.rows[0].new_id().is_some())
        });
        let (by_sql, by_store) = futures_util::future::join(
            futures_util::future::join_all(by_sql),
            futures_util::future::join_all(by_store),
        )
        .await;
        let new: usize = by_sql.iter().chain(&by_store).sum();
        assert_eq!(new, 1, "{key}");
    }
    both.close().await;
}
