//! The store keeps every rule of the contract behind a pooler in transaction mode.
//!
//! There each transaction may get another server connection. The store detects that it may not
//! prepare statements by name.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;

use futures_util::future::join_all;
use outlast_conformance::{Model, Subject, suite};
use outlast_core::{Answer, Clock, Filter, Inspect, ManualClock, Status, Store};
use outlast_postgres::{Options, Postgres, testing};
use outlast_testbed::pooler::Pooler;
use std::time::Duration;
use support::work::{self, done, running, task};
use support::{
    drop_schema, raw, raw_to, return_schema, start_pooler, take_schema, unique_schema, value_of,
};
use tokio_postgres::Client;

fn options(pooler: &Pooler, schema: &str) -> Options {
    Postgres::options(&pooler.url()).unwrap().schema(schema)
}

async fn open_with(change: impl FnOnce(Options) -> Options) -> Subject {
    let (clock, schema) = (ManualClock::default(), take_schema());
    let Some(pooler) = start_pooler(2) else {
        // `start_pooler` printed the reason. The model keeps the rules.
        return Subject::new(Model::new(clock.clone()), clock);
    };
    // From here on transactions alternate between two server connections.
    both_server_connections(&pooler).await;
    let options = options(&pooler, &schema).clock(clock.clone());
    let store = change(options).connect().await.unwrap();
    Subject::new(store, clock)
        .guarded_by(pooler)
        .cleaned_by(async move {
            let returned = tokio::spawn(async move { return_schema(&schema).await });
            returned.await.expect("the schema is emptied or dropped");
        })
}

async fn open() -> Subject {
    open_with(|options| options).await
}

outlast_conformance::conformance_suite!(open);

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_named_statements_keeps_the_rules() {
    macro_rules! try_all {
        ($($group:ident::$module:ident::$rule:ident,)*) => {
            $({
                let subject = open_with(Options::without_named_statements).await;
                suite::$group::$module::$rule(&subject).await;
                subject.finish().await;
            })*
        };
    }
    try_all! {
        outcomes::batches::a_mixed_workload_ends_with_nothing_to_repair,
        claiming::claims::a_claim_carries_everything_the_step_may_look_at,
        families::children::joins_nest_three_levels_deep,
        claiming::races::concurrent_claims_never_take_the_same_row,
        claiming::races::concurrent_claims_take_one_row_of_a_partition_key,
        claiming::races::siblings_that_end_concurrently_wake_their_parent_once,
        claiming::races::a_signal_that_races_a_park_is_never_lost,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_share_server_connections_keep_their_settings_apart() {
    let Some(pooler) = start_pooler(1) else {
        return;
    };
    let schemas = [unique_schema(), unique_schema()];
    let clocks = [ManualClock::default(), ManualClock::default()];
    clocks[1].advance(Duration::from_secs(86_400));
    let mut stores = Vec::new();
    for (schema, clock) in schemas.iter().zip(&clocks) {
        let options = options(&pooler, schema).clock(clock.clone());
        stores.push(options.connect().await.unwrap());
    }
    for _ in 0..50 {
        let calls = stores.iter().chain(&stores).map(|store| store.now());
        let answers = join_all(calls).await;
        for (answer, clock) in answers.into_iter().zip(clocks.iter().chain(&clocks)) {
            assert_eq!(answer.unwrap(), clock.now());
        }
        for store in &stores {
            let claim = running(store).await;
            let committed = work::commit(store, &claim, done()).await;
            assert!(matches!(committed, Answer::Committed { .. }));
        }
        // The next client of the same server connection finds its settings unchanged.
        let next = raw_to(&pooler.url()).await;
        let settings = next
            .simple_query(
                "select coalesce(current_setting('outlast_test.now_us', true), '') as clock,
                        current_setting('enable_seqscan') as seqscan,
                        current_setting('lock_timeout') as lock_timeout,
                        current_setting('synchronous_commit') as durable",
            )
            .await
            .unwrap();
        let row = settings.iter().find_map(|message| {
            let tokio_postgres::SimpleQueryMessage::Row(row) = message else {
                return None;
            };
            Some(row)
        });
        let row = row.expect("the query has one row");
        let found = [row.get(0), row.get(1), row.get(2), row.get(3)];
        assert_eq!(found, ["", "on", "0", "on"].map(Some));
    }
    for (store, schema) in stores.iter().zip(&schemas) {
        let ended = Filter {
            statuses: vec![Status::Done],
            ..Filter::default()
        };
        let counted = store.count(ended).await.unwrap();
        assert_eq!(counted, outlast_core::Count::Exactly(50));
        store.close().await;
        drop_schema(schema).await;
    }
}

#[tokio::test]
async fn a_store_distinguishes_a_pooler_from_a_server() {
    let schema = unique_schema();
    let server = Postgres::options(&support::url()).unwrap().schema(&schema);
    let server = server.connect().await.unwrap();
    assert!(testing::is_direct(&server).await);
    if let Some(pooler) = start_pooler(2) {
        let store = options(&pooler, &schema).connect().await.unwrap();
        assert!(!testing::is_direct(&store).await);
        store.close().await;
    }
    server.close().await;
    drop_schema(&schema).await;
}

/// Drivers number their statements, so two programs use the same name for different statements.
/// Behind a pooler one program can then find a statement of the other.
#[tokio::test]
async fn a_store_never_runs_a_prepared_statement_of_another_program() {
    // The store gets the clean server connection first, or the poisoned one.
    for turns in [0, 1] {
        let Some(pooler) = start_pooler(2) else {
            return;
        };
        let (schema, direct) = (unique_schema(), raw().await);
        let direct_options = Postgres::options(&support::url()).unwrap().schema(&schema);
        let seen = direct_options.connect().await.unwrap();
        let store = options(&pooler, &schema).max_connections(1);
        let store = store.connect().await.unwrap();
        poison_one_of_two(&pooler, &schema).await;
        let other = raw_to(&pooler.url()).await;
        for _ in 0..turns {
            other.batch_execute("select").await.unwrap();
        }

        for _ in 0..4 {
            let worker = work::worker(&store).await;
            let id = work::insert(&store, task()).await;
            let claim = work::claim(&store, worker).await;
            assert_eq!(claim.id, id);
            assert!(matches!(
                work::commit(&store, &claim, done()).await,
                Answer::Committed { .. }
            ));
            assert_eq!(work::get(&seen, id).await.status, Status::Done);
        }
        let poisoned: i64 = value_of(
            &direct,
            &format!("select count(*) from \"{schema}\".poisoned"),
        )
        .await;
        assert_eq!(poisoned, 0, "statements of another program were run");
        store.close().await;
        seen.close().await;
        drop_schema(&schema).await;
    }
}

/// Prepares statements on one server connection, under the names that drivers use. Their
/// parameters are those of many statements of the store.
async fn poison_one_of_two(pooler: &Pooler, schema: &str) {
    let sql = format!("create table \"{schema}\".poisoned (name text)");
    raw().await.batch_execute(&sql).await.unwrap();
    let [clean, other] = both_server_connections(pooler).await;
    clean.batch_execute("begin").await.unwrap();
    other.batch_execute("begin").await.unwrap();
    for n in 0..400 {
        let sql = format!(
            "prepare s{n} (bigint[], bigint[]) as
                insert into \"{schema}\".poisoned values ('s{n}') returning $1, $2"
        );
        other.batch_execute(&sql).await.unwrap();
    }
    other.batch_execute("commit").await.unwrap();
    clean.batch_execute("commit").await.unwrap();
}

/// Opens both server connections: two transactions that are open at once need one each.
async fn both_server_connections(pooler: &Pooler) -> [Client; 2] {
    let clients = [raw_to(&pooler.url()).await, raw_to(&pooler.url()).await];
    for word in ["begin", "commit"] {
        for client in &clients {
            client.batch_execute(word).await.unwrap();
        }
    }
    clients
}
