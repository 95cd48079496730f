//! While a step runs, the engine has no transaction open and no lock on the instance.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::raw::{Raw, on_sqlite_file};
use crate::support::{LONG, eventually, insert, return_schema, running, take_schema, url};
use outlast::prelude::*;
use outlast::store::{Inspect, InstanceId, Store};
use outlast::{Outcome, Status};
use outlast_postgres::Postgres;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Runs two steps until the test lets each go on.
#[derive(Clone)]
struct Holder {
    started: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

#[steps]
enum Held {
    /// Claimed with its insert.
    First,
    /// Claimed from the queue.
    Second,
}

impl Machine for Holder {
    const NAME: &'static str = "holder";
    type State = Held;
    type Output = ();

    async fn step(&self, state: Held, _: &Context) -> StepResult<Self> {
        self.started.add_permits(1);
        self.go.acquire().await?.forget();
        match state {
            Held::First => Ok(Outcome::requeue(Held::Second)),
            Held::Second => done(()),
        }
    }
}

/// Calls a check while each of the two steps runs.
async fn while_a_step_runs(store: impl Store + Inspect, check: impl AsyncFn(InstanceId)) {
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let machine = Holder {
        started: started.clone(),
        go: go.clone(),
    };
    let engine = running(store, machine).await;
    let handle = insert(engine.client(), Holder::with(Held::First)).await;
    for step in ["first", "second"] {
        started.acquire().await.unwrap().forget();
        check(handle.id().get()).await;
        let row = handle.instance().await.unwrap();
        assert_eq!((row.status, &*row.step), (Status::Executing, step));
        go.add_permits(1);
    }
    handle.output().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_transaction_is_open_while_a_step_runs() {
        on_sqlite_file(async |store, raw: Raw| {
            while_a_step_runs(store, async |id| {
                let other = raw.sqlite();
                // Nobody writes: another process gets the lock.
                let touch = format!(
                    "begin immediate; update instances set step = step where id = {id}; rollback"
                );
                other.execute_batch(&touch).unwrap();
                // Nobody reads: the log of writes can be emptied.
                eventually("no reader keeps the log", async || {
                    let sql = "pragma wal_checkpoint(truncate)";
                    let busy: bool = other.query_row(sql, [], |row| row.get(0)).unwrap();
                    !busy
                })
                .await;
            })
            .await;
        })
        .await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_transaction_is_open_while_a_step_runs() {
        let schema = take_schema();
        // The application name tells the engine's connections from those of other tests.
        let options = Postgres::options(&format!("{}?application_name={schema}", url())).unwrap();
        let store = options.schema(&schema).connect().await.unwrap();
        let raw = outlast_testbed::shared::connect(&url()).await;
        while_a_step_runs(store.clone(), async |id| {
            // Other sessions can lock the row. A wait for the step would last until it ends.
            let lock = format!(
                "begin; set local lock_timeout = '5s';
                 select from \"{schema}\".instances where id = {id} for update; rollback"
            );
            raw.batch_execute(&lock).await.unwrap();
            let open = "select count(*) from pg_stat_activity
                         where application_name = $1 and xact_start is not null";
            eventually("no connection has a transaction", async || {
                let row = raw.query_one(open, &[&schema]).await.unwrap();
                row.get::<_, i64>(0) == 0
            })
            .await;
        })
        .await;
        store.close().await;
        return_schema(&schema).await;
    }
}
