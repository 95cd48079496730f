//! A stricter default isolation of the database changes nothing: each transaction sets its own
//! level (docs/protocol.md, defect 17).

use crate::support::{Database, raw, raw_to, value_of, work};
use outlast_conformance::{Subject, Threads, suite, try_rule};
use outlast_core::{ManualClock, Store};
use outlast_postgres::Postgres;

/// A store in its own database, which has this default isolation.
async fn open(isolation: &str) -> Subject {
    let database = Database::create().await;
    let sql = format!(
        "alter database {} set default_transaction_isolation = '{isolation}'",
        database.name
    );
    raw().await.batch_execute(&sql).await.unwrap();
    let default: String =
        value_of(&raw_to(&database.url).await, "show transaction_isolation").await;
    assert_eq!(default, isolation);
    let clock = ManualClock::default();
    let options = Postgres::options(&database.url).unwrap();
    let store = options.clock(clock.clone()).connect().await.unwrap();
    Subject::new(store, clock).cleaned_by(async move {
        let dropped = tokio::spawn(database.drop());
        dropped.await.expect("the database is dropped");
    })
}

macro_rules! rules_hold {
    ($($group:ident::$module:ident { $($rule:ident,)* })*) => {
        mod serializable {
            $($(
                #[test]
                fn $rule() {
                    super::holds("serializable", super::suite::$group::$module::$rule);
                }
            )*)*
        }
        mod repeatable_read {
            $($(
                #[test]
                fn $rule() {
                    super::holds("repeatable read", super::suite::$group::$module::$rule);
                }
            )*)*
        }
    };
}

fn holds(isolation: &'static str, rule: impl AsyncFnOnce(&Subject)) {
    try_rule(Threads::Several, || open(isolation), rule);
}

rules_hold! {
    claiming::races {
        concurrent_claims_never_take_the_same_row,
        concurrent_claims_take_one_row_of_a_partition_key,
        siblings_that_end_concurrently_wake_their_parent_once,
        concurrent_batches_of_siblings_in_opposite_order_all_commit,
        concurrent_inserts_of_keys_in_opposite_order_leave_one_holder_per_key,
        a_signal_that_races_a_park_is_never_lost,
        a_signal_that_races_an_end_is_dropped_with_it_or_refused,
        concurrent_sends_with_one_dedup_key_deliver_one_signal,
        an_outcome_that_races_a_terminate_wins_or_is_lost,
        an_outcome_sent_several_times_concurrently_is_committed_once,
        concurrent_reapers_return_each_claim_once,
    }
    outcomes::batches {
        a_mixed_workload_ends_with_nothing_to_repair,
    }
}

/// This includes verbs of one statement, which run without `begin` on a direct connection.
#[tokio::test]
async fn every_write_of_a_store_is_read_committed_whatever_the_database_says() {
    let database = Database::create().await;
    let sql = format!(
        "alter database {} set default_transaction_isolation = 'serializable'",
        database.name
    );
    raw().await.batch_execute(&sql).await.unwrap();
    let store = Postgres::connect(&database.url).await.unwrap();
    let watch = "create function outlast.refuse() returns trigger language plpgsql as $$ \
        begin \
            if current_setting('transaction_isolation') <> 'read committed' then \
                raise 'written as %', current_setting('transaction_isolation'); \
            end if; \
            return null; \
        end $$; \
        create trigger refuse after insert or update on outlast.instances \
            for each row execute function outlast.refuse(); \
        create trigger refuse after insert or update on outlast.workers \
            for each row execute function outlast.refuse()";
    raw_to(&database.url)
        .await
        .batch_execute(watch)
        .await
        .unwrap();
    // A connection detects with use that no pooler is between it and the server.
    for _ in 0..5 {
        let claim = work::running(&store).await;
        let committed = store
            .commit(work::outcome_of(&claim, work::done()).into())
            .await;
        committed.unwrap();
    }
    store.close().await;
    database.drop().await;
}
