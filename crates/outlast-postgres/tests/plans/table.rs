//! The tables: a million instances, their signals and their events.

use crate::support;
use std::time::Duration;
use tokio_postgres::Client;

// The last two digits of an id are the kind of its row (fill.sql).

/// Failed long ago.
pub(crate) const FAILED: i64 = 61;
/// Runnable, and holds the correlation key `c<id>`.
pub(crate) const KEYED: i64 = 75;
/// Set aside behind the partition key of a [`RUNNING`] row.
pub(crate) const SET_ASIDE: i64 = 90;
/// Awaits signals, and holds the correlation key `c<id>`.
pub(crate) const PARKED_WITH_KEY: i64 = 91;
/// Awaits signals.
pub(crate) const PARKED: i64 = 92;
/// Awaits the children that follow it.
pub(crate) const PARENT: i64 = 95;
/// A running child.
pub(crate) const CHILD: i64 = 96;
/// Runs under the partition key `e<id>`, with two signals in its inbox.
pub(crate) const RUNNING: i64 = 99;

/// Ended long ago, and left two updates unanswered.
pub(crate) const ASKED: i64 = 65;
/// Ended long ago, and was a parent.
pub(crate) const ENDED_PARENT: i64 = 63;

/// The parent that waits for a family of 100,000 children in a window.
pub(crate) const FAMILY: i64 = 1_000_095;
/// The first child of that family that has ended.
pub(crate) const FIRST_PLACED: i64 = 1_100_000;
/// The first child of that family that the window holds.
pub(crate) const FIRST_HELD: i64 = 1_150_000;

/// The worker that claims.
pub(crate) const WORKER: i64 = 1;
/// The first of ten workers whose lease has expired.
pub(crate) const FIRST_EXPIRED_WORKER: i64 = 191;

/// The ids of `count` rows of a kind, starting at the 21st.
pub(crate) fn ids(kind: i64, count: usize) -> Vec<i64> {
    (20..).take(count).map(|n| n * 100 + kind).collect()
}

/// The two signals in the inbox of a running row.
pub(crate) fn inbox(id: i64) -> [i64; 2] {
    [2 * id, 2 * id + 1]
}

/// Keeps the statistics unchanged until a test renews them. The tables are also unlogged, because
/// they are dropped soon.
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

/// Fills the tables with fill.sql.
///
/// 300,000 instances are delayed at an urgent priority, 10,000 are behind one busy key, 580,000
/// can run, 40,000 have ended, and some are of every other kind.
pub(crate) async fn fill(client: &Client, schema: &str) {
    let sql = include_str!("fill.sql").replace("outlast.", &format!("\"{schema}\"."));
    client.batch_execute(&sql).await.unwrap();
}

/// Ends 300,000 of the instances that can run, as a night of work does.
pub(crate) async fn drain(client: &Client, schema: &str) {
    let sql = format!(
        "update \"{schema}\".instances \
            set status = 'done', revision = revision + 2, finished_at = now() - interval '2 days', \
                updated_at = now(), result = '{{\"ok\": true}}' \
          where id % 100 between 31 and 60 and id <= 1000000"
    );
    client.batch_execute(&sql).await.unwrap();
}

/// Puts every row behind the busy key back into the queue, as if it had just arrived.
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

/// The rows of the queue `main` that the next claim should take, without those of the busy key.
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

/// Closes a connection, and waits until its server process has ended.
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
    panic!("the server process {pid} did not end within a minute");
}

/// Waits until no snapshot sees the rows that were deleted or replaced so far.
///
/// Until then an index leads readers to these rows, and the counts of pages say nothing about a
/// plan.
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
    panic!("a session kept a snapshot open for a minute");
}

/// The server's counters of the two large tables.
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

    /// Waits until this many updates are counted: a server process reports when it ends.
    pub(crate) async fn after_updates(client: &Client, schema: &str, updates: i64) -> Counters {
        for _ in 0..6_000 {
            let counters = Counters::read(client, schema).await;
            if counters.updates >= updates {
                return counters;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server did not count {updates} updates within a minute");
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
