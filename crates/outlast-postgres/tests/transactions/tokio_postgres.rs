//! Insert and signal inside a transaction of tokio-postgres.

use crate::rules::{Caller, transaction_rules};
use crate::support::work::{insert, task};
use crate::support::{drop_schema, raw, raw_to, unique_schema, url};
use outlast_core::{Delivery, Error, Inserted, Inspect, Invalid, NewInstance, NewSignal, Store};
use outlast_postgres::Postgres;
use outlast_postgres::transaction::Schema;
use outlast_postgres::transaction::tokio_postgres as verbs;
use tokio_postgres::{Client, SimpleQueryMessage};

struct TokioPostgres(Client);

impl Caller for TokioPostgres {
    async fn begin(url: &str, begin: &str) -> TokioPostgres {
        let mut caller = TokioPostgres(raw_to(url).await);
        caller.run(begin).await;
        caller
    }

    async fn run(&mut self, sql: &str) {
        self.0.batch_execute(sql).await.unwrap();
    }

    async fn insert<N>(&mut self, at: &impl AsRef<Schema>, new: N) -> Result<Inserted, Error>
    where
        N: TryInto<NewInstance>,
        N::Error: Into<Invalid>,
    {
        verbs::insert(&self.0, at, new).await
    }

    async fn signal<S>(&mut self, at: &impl AsRef<Schema>, signal: S) -> Result<Delivery, Error>
    where
        S: TryInto<NewSignal>,
        S::Error: Into<Invalid>,
    {
        verbs::signal(&self.0, at, signal).await
    }
}

transaction_rules!(TokioPostgres);

#[tokio::test]
async fn the_drivers_own_transaction_commits_or_rolls_back() {
    let schema = unique_schema();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.connect().await.unwrap();
    let mut client = raw().await;

    let tx = client.transaction().await.unwrap();
    let dropped = verbs::insert(&tx, &store, task()).await.unwrap();
    drop(tx);
    let tx = client.transaction().await.unwrap();
    let kept = verbs::insert(&tx, &store, task()).await.unwrap();
    tx.commit().await.unwrap();
    let [dropped, kept] = [dropped, kept].map(|it| it.new_id().unwrap());
    assert_eq!(store.get(dropped).await.unwrap(), None);
    assert!(store.get(kept).await.unwrap().is_some());
    store.close().await;
    drop_schema(&schema).await;
}

/// The server plans the functions on empty tables and keeps the plans while the tables fill.
#[tokio::test]
async fn the_functions_read_by_index_after_the_tables_have_grown() {
    let schema = unique_schema();
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.connect().await.unwrap();
    let id = insert(&store, task().correlation_key("k")).await;
    let client = raw().await;
    let calls = [
        "insert_one('task', 1, 'start', 'null', 'default', 0::smallint, 0, null, null, 'k', '{runnable}', null)".to_owned(),
        format!("deliver_one({id}, null, null, 'go', 'null', 'evt-7', 10000)"),
        "deliver_one(null, 'task', 'k', 'go', 'null', null, 10000)".to_owned(),
    ];
    let buffers = async |call: &str| {
        let sql = format!("explain (analyze, buffers, format json) select * from {schema}.{call}");
        let messages = client.simple_query(&sql).await.unwrap();
        let lines = messages.iter().filter_map(|message| {
            let SimpleQueryMessage::Row(row) = message else {
                return None;
            };
            row.get(0)
        });
        let text: Vec<&str> = lines.collect();
        let plan: serde_json::Value = serde_json::from_str(&text.join("\n")).unwrap();
        let plan = &plan[0]["Plan"];
        let read = |field: &str| plan[field].as_i64().unwrap();
        read("Shared Hit Blocks") + read("Shared Read Blocks")
    };
    // The statistics say that there is one row. The server keeps a plan after the sixth call at
    // the latest.
    let analyze = format!("analyze {schema}.instances, {schema}.signals");
    raw().await.batch_execute(&analyze).await.unwrap();
    for _ in 0..8 {
        for call in &calls {
            buffers(call).await;
        }
    }
    let fill = format!(
        "insert into {schema}.instances (machine, machine_version, step, state, status, queue, priority, eligible_at,
                correlation_key, correlation_scope, correlation_guard, inserted_at, updated_at)
         select 'task', 1, 'start', 'null', 'runnable', 'default', 0, now(), n, '{{runnable}}', n, now(), now()
           from generate_series(1, 50000) n;
         insert into {schema}.signals (target_id, name, payload, dedup_key, inserted_at)
         select n, 'go', 'null', n, now() from generate_series({id} + 1, {id} + 50000) n"
    );
    raw().await.batch_execute(&fill).await.unwrap();
    for call in &calls {
        // Other tests change the catalogs, so one call may have to read them again. A plan that
        // reads a whole table reads it in each call.
        let mut read = buffers(call).await;
        for _ in 0..2 {
            read = read.min(buffers(call).await);
        }
        assert!(read < 100, "{call} reads {read} pages");
    }
    store.close().await;
    drop_schema(&schema).await;
}
