//! A database whose default isolation is stricter than the store expects changes nothing: each
//! transaction says what it needs (docs/protocol.md, defect 17).

use crate::support::{Database, raw, raw_to, value_of, work};
use outlast_conformance::{Subject, Threads, suite, try_rule};
use outlast_core::{ManualClock, Store};
use outlast_postgres::Postgres;

/// A store in a database of its own with this default isolation.
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
        claims_at_once_never_get_the_same_row,
        claims_at_once_take_one_of_a_partition_key,
        siblings_that_end_at_once_join_once,
        joins_in_opposite_order_do_not_get_in_each_others_way,
        inserts_of_the_same_keys_in_opposite_order_have_one_holder_each,
        a_signal_that_races_a_park_is_never_lost,
        a_signal_that_races_an_end_is_dropped_with_it_or_refused,
        one_of_many_sends_under_one_key_arrives,
        an_outcome_that_races_a_terminate_wins_or_is_lost,
        of_the_same_outcome_sent_at_once_one_is_committed,
        maintenance_at_once_returns_everything_once,
    }
    outcomes::batches {
        a_mixed_workload_comes_to_rest_without_anything_to_mend,
    }
}

/// Also what goes alone, as one statement without a `begin`: as all single verbs do on a direct connection.
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
    // Connections learn with use that nothing is between them and the server.
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
