//! A million instances, and what they wait for.

use crate::support;
use std::time::Duration;
use tokio_postgres::Client;

/// The last two digits of an id say what kind of row it is (fill.sql). Ended long ago, badly:
pub(crate) const FAILED: i64 = 61;
/// Runnable, and holding the correlation key `c<id>`.
pub(crate) const KEYED: i64 = 75;
/// Set aside behind the partition key of a [`RUNNING`] row.
pub(crate) const SET_ASIDE: i64 = 90;
/// Awaiting signals, and holding the correlation key `c<id>`.
pub(crate) const PARKED_WITH_KEY: i64 = 91;
/// Awaiting signals.
pub(crate) const PARKED: i64 = 92;
/// Awaiting the children that follow it.
pub(crate) const PARENT: i64 = 95;
/// A child that is running.
pub(crate) const CHILD: i64 = 96;
/// Running under the partition key `e<id>`, with an inbox of two.
pub(crate) const RUNNING: i64 = 99;

/// Ended long ago, and once a parent.
pub(crate) const ENDED_PARENT: i64 = 63;

/// The parent of one family of 100,000, who waits for them.
pub(crate) const FAMILY: i64 = 1_000_095;
/// The children of that family of 100,000 in a window: the first of those that have ended, and of those that wait.
pub(crate) const FIRST_PLACED: i64 = 1_100_000;
pub(crate) const FIRST_HELD: i64 = 1_150_000;

/// The worker that claims, and the first of the ten whose lease has expired.
pub(crate) const WORKER: i64 = 1;
pub(crate) const FIRST_EXPIRED_WORKER: i64 = 191;

/// The first `count` ids of a kind, starting a little into the table.
pub(crate) fn ids(kind: i64, count: usize) -> Vec<i64> {
    (20..).take(count).map(|n| n * 100 + kind).collect()
}

/// The two signals in the inbox of a running row.
pub(crate) fn inbox(id: i64) -> [i64; 2] {
    [2 * id, 2 * id + 1]
}

/// Keeps statistics as they are until a test renews them, and writes no log: a table that is gone in a
/// minute needs none.
pub(crate) async fn freeze_statistics(client: &Client, schema: &str) {
    for table in ["instances", "signals", "events"] {
        let sql = format!(
            "alter table \"{schema}\".{table} set (autovacuum_enabled = off); \
             alter table \"{schema}\".{table} set unlogged; \
             analyze \"{schema}\".{table}"
        );
        client.batch_execute(&sql).await.unwrap();
    }
}

/// Fills the tables: 300,000 delayed at an urgent priority, 10,000 behind one busy key, 580,000 that can
/// run, 40,000 ended, and some of every other kind.
pub(crate) async fn fill(client: &Client, schema: &str) {
    let sql = include_str!("fill.sql").replace("outlast.", &format!("\"{schema}\"."));
    client.batch_execute(&sql).await.unwrap();
}

/// JoinSets 300,000 of those that could run, as a night of work does.
pub(crate) async fn drain(client: &Client, schema: &str) {
    let sql = format!(
        "update \"{schema}\".instances \
            set status = 'done', revision = revision + 2, finished_at = now() - interval '2 days', \
                updated_at = now(), result = '{{\"ok\": true}}' \
          where id % 100 between 31 and 60 and id <= 1000000"
    );
    client.batch_execute(&sql).await.unwrap();
}

/// Lets everybody behind the busy key stand in the queue again, as if they had just come.
pub(crate) async fn line_up_anew(client: &Client, schema: &str) {
    let sql = format!(
        "update \"{schema}\".instances set blocked = false \
          where status = 'runnable' and partition_key = 'busy' and blocked"
    );
    client.batch_execute(&sql).await.unwrap();
}

pub(crate) async fn vacuum(client: &Client, schema: &str) {
    wait_for_old_snapshots(client).await;
    let sql = format!(
        "vacuum (analyze) \"{schema}\".instances, \"{schema}\".signals, \"{schema}\".events"
    );
    client.batch_execute(&sql).await.unwrap();
}

pub(crate) async fn analyze(client: &Client, schema: &str) {
    let sql = format!("analyze \"{schema}\".instances, \"{schema}\".signals, \"{schema}\".events");
    client.batch_execute(&sql).await.unwrap();
}

/// How many rows of the busy key are set aside.
pub(crate) async fn set_aside(client: &Client, schema: &str) -> i64 {
    let sql = format!(
        "select count(*) from \"{schema}\".instances \
          where status = 'runnable' and partition_key = 'busy' and blocked"
    );
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// The rows of the queue `main` that are to be claimed next, when the busy key's are passed over.
pub(crate) async fn next_in_main(client: &Client, schema: &str, count: i64) -> Vec<i64> {
    let sql = format!(
        "select id from \"{schema}\".instances \
          where status = 'runnable' and not blocked and queue = 'main' \
            and eligible_at <= now() and partition_key is distinct from 'busy' \
          order by priority, eligible_at, id limit {count}"
    );
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// JoinSets a connection, and waits until the server's process has ended too.
pub(crate) async fn close(client: Client) {
    let sql = "select pg_backend_pid()";
    let pid: i32 = client.query_one(sql, &[]).await.unwrap().get(0);
    drop(client);
    let other = support::raw().await;
    let sql = "select count(*) from pg_stat_activity where pid = $1";
    for _ in 0..6_000 {
        let alive: i64 = other.query_one(sql, &[&pid]).await.unwrap().get(0);
        if alive == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server's process {pid} has not ended within a minute");
}

/// Waits until nobody can see any more what was deleted or replaced so far: until then an index leads
/// every reader to it, and buffers say nothing about a plan.
pub(crate) async fn wait_for_old_snapshots(client: &Client) {
    let now: i64 = client
        .query_one("select txid_current()", &[])
        .await
        .unwrap()
        .get(0);
    let sql = format!(
        "select count(*) from pg_stat_activity \
          where datname = current_database() and pid <> pg_backend_pid() \
            and age(backend_xmin) >= age('{now}'::xid)",
        now = now % (1 << 32)
    );
    for _ in 0..6_000 {
        let older: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
        if older == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody keeps a snapshot open for a minute");
}

/// What the server counts about the two large tables.
pub(crate) struct Counters {
    pub(crate) seq_scans: i64,
    pub(crate) updates: i64,
    pub(crate) hot_updates: i64,
}

impl Counters {
    pub(crate) async fn read(client: &Client, schema: &str) -> Counters {
        let sql = format!(
            "select sum(seq_scan)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint \
               from pg_stat_user_tables \
              where schemaname = '{schema}' and relname in ('instances', 'signals')"
        );
        let row = client.query_one(&sql, &[]).await.unwrap();
        Counters {
            seq_scans: row.get(0),
            updates: row.get(1),
            hot_updates: row.get(2),
        }
    }

    /// Reads them when so many updates have been counted: the server's processes report when they end.
    pub(crate) async fn after_updates(client: &Client, schema: &str, updates: i64) -> Counters {
        for _ in 0..6_000 {
            let counters = Counters::read(client, schema).await;
            if counters.updates >= updates {
                return counters;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server has not counted {updates} updates within a minute");
    }
}

pub(crate) async fn connect() -> Client {
    let client = support::raw().await;
    client
        .batch_execute("set synchronous_commit = off")
        .await
        .unwrap();
    client
}
