//! A steady rate without faults, twice beside an open snapshot: measures what grows and what does
//! not.
//!
//! There is no audit, because it would dominate the measurement. Finished instances are kept for a
//! minute, so that the tables reach a size and should stay there.

use super::postgres;
use crate::args::Args;
use crate::crew::{Crew, Worker};
use crate::ledger::Ledger;
use crate::load::{Load, Mix};
use crate::report::SoakReport;
use crate::site::{self, Site, StoreKind};
use crate::stage::usual_orders;
use anyhow::{Context as _, Result, ensure};
use outlast_testbed::cluster::Cluster;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Samples in a run.
const SAMPLES: u32 = 60;
const RETENTION: Duration = Duration::from_secs(60);

/// One measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) minute: f64,
    pub(crate) instances: i64,
    /// The heap and the indexes of the instances.
    pub(crate) table_kib: i64,
    pub(crate) indexes_kib: i64,
    pub(crate) signals_kib: i64,
    /// Since the previous sample.
    pub(crate) claims: i64,
    pub(crate) claimed: i64,
    /// Buffers per claimed row, including claims that found nothing; PostgreSQL only.
    pub(crate) buffers_per_claimed: f64,
    pub(crate) worker_kib: i64,
    /// Whether a snapshot was held open.
    pub(crate) snapshot: bool,
}

pub(crate) async fn run(args: &Args) -> Result<SoakReport> {
    let folder = tempfile::tempdir()?;
    let (cluster, site) = match args.store {
        StoreKind::Postgres => {
            let cluster = postgres_with_statistics()?;
            let site = Site::postgres(cluster.url());
            (Some(cluster), site)
        }
        StoreKind::Sqlite => {
            let file = folder.path().join("soak.db");
            (None, Site::Sqlite { file })
        }
    };
    let client = site.client().await?;
    let meter = Meter::new(&site).await?;
    let ledger = Ledger::open(folder.path(), "supervisor")?;
    let mut orders = usual_orders(&site, folder.path());
    orders.lease_ms = 30_000;
    orders.retention_ms = Some(RETENTION.as_millis() as u64);
    let crew = Crew {
        orders,
        ledger: ledger.clone(),
    };
    let worker = crew.start("soak".to_owned()).await?;
    let (stop, stopped) = watch::channel(false);
    let load = Load::new(client, ledger, args.seed, Mix::of(args.rate));
    let errors = load.errors();
    let driving = {
        let (site, seed) = (site.clone(), args.seed);
        tokio::spawn(async move { load.run(&site, seed, stopped).await })
    };
    let samples = measure(args, &site, meter, &worker).await;
    stop.send_replace(true);
    driving.await?;
    rest(&site).await?;
    worker.stop().await?;
    drop(cluster);
    Ok(SoakReport::new(args, samples?, errors.count()))
}

/// Starts the usual server with statement statistics.
fn postgres_with_statistics() -> Result<Cluster> {
    let mut cluster = postgres()?;
    cluster.stop(outlast_testbed::cluster::Stop::Fast);
    cluster.configure("shared_preload_libraries = 'pg_stat_statements'");
    cluster.start();
    Ok(cluster)
}

/// Takes samples. It holds a snapshot open for a minute (or one sample) after a third of the time
/// and after two thirds.
async fn measure(
    args: &Args,
    site: &Site,
    mut meter: Meter,
    worker: &Worker,
) -> Result<Vec<Sample>> {
    let whole = Duration::from_secs_f64(args.minutes * 60.0);
    let begun = Instant::now();
    let process = worker.process().context("the worker has ended")?;
    let bar = indicatif::ProgressBar::new(u64::from(SAMPLES));
    let mut samples = Vec::new();
    let mut snapshot = None;
    for number in 1..=SAMPLES {
        let holds = number == SAMPLES / 3 || number == SAMPLES * 2 / 3;
        if holds {
            snapshot = Some(Snapshot::open(site).await?);
        }
        tokio::time::sleep_until(begun + whole * number / SAMPLES).await;
        let minute = begun.elapsed().as_secs_f64() / 60.0;
        let mut sample = meter.sample().await?;
        sample.minute = minute;
        sample.worker_kib = resident_kib(process)?;
        sample.snapshot = snapshot.take().is_some();
        samples.push(sample);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(samples)
}

/// Waits until every started instance has finished.
async fn rest(site: &Site) -> Result<()> {
    let begun = Instant::now();
    while site.live().await? > 0 {
        ensure!(
            begun.elapsed() < Duration::from_secs(120),
            "instances are stuck after the soak"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A reader that does not end: rows that it might see cannot be vacuumed.
enum Snapshot {
    Postgres(#[allow(dead_code, reason = "open as long as the session")] tokio_postgres::Client),
    Sqlite(#[allow(dead_code, reason = "open as long as the connection")] rusqlite::Connection),
}

impl Snapshot {
    async fn open(site: &Site) -> Result<Snapshot> {
        Ok(match site {
            Site::Postgres { url, .. } => {
                let client = site::plain(url).await?;
                let sql =
                    "begin isolation level repeatable read; select count(*) from outlast.instances";
                client.batch_execute(sql).await?;
                Snapshot::Postgres(client)
            }
            Site::Sqlite { file } => {
                let connection = site::open(file)?;
                connection.execute_batch("begin; select count(*) from instances")?;
                Snapshot::Sqlite(connection)
            }
        })
    }
}

/// Measures the database.
enum Meter {
    Postgres {
        client: tokio_postgres::Client,
        before: Costs,
    },
    Sqlite {
        connection: rusqlite::Connection,
    },
}

/// The cost of claims so far.
#[derive(Clone, Copy, Default)]
struct Costs {
    calls: i64,
    rows: i64,
    buffers: i64,
}

impl Meter {
    async fn new(site: &Site) -> Result<Meter> {
        Ok(match site {
            Site::Postgres { url, .. } => {
                let client = site::plain(url).await?;
                client
                    .batch_execute("create extension pg_stat_statements")
                    .await?;
                let before = Costs::default();
                Meter::Postgres { client, before }
            }
            Site::Sqlite { file } => Meter::Sqlite {
                connection: site::open(file)?,
            },
        })
    }

    async fn sample(&mut self) -> Result<Sample> {
        match self {
            Meter::Postgres { client, before } => {
                let sizes = client.query_one(SIZES, &[]).await?;
                let row = client.query_one(CLAIM_COSTS, &[]).await?;
                let now = Costs {
                    calls: row.get(0),
                    rows: row.get(1),
                    buffers: row.get(2),
                };
                // Every claim returns one row of counts beside the claimed rows.
                let claims = now.calls - before.calls;
                let claimed = now.rows - before.rows - claims;
                let buffers = now.buffers - before.buffers;
                *before = now;
                Ok(Sample {
                    instances: sizes.get(0),
                    table_kib: sizes.get(1),
                    indexes_kib: sizes.get(2),
                    signals_kib: sizes.get(3),
                    claims,
                    claimed,
                    buffers_per_claimed: buffers as f64 / claimed.max(1) as f64,
                    ..Sample::default()
                })
            }
            Meter::Sqlite { connection } => {
                let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
                let page = count("pragma page_size")?;
                let used = count("pragma page_count")? - count("pragma freelist_count")?;
                Ok(Sample {
                    instances: count("select count(*) from instances")?,
                    table_kib: used * page / 1024,
                    ..Sample::default()
                })
            }
        }
    }
}

const SIZES: &str = "select (select count(*) from outlast.instances), \
    pg_table_size('outlast.instances') / 1024, pg_indexes_size('outlast.instances') / 1024, \
    pg_total_relation_size('outlast.signals') / 1024";

const CLAIM_COSTS: &str = "select coalesce(sum(calls), 0)::bigint, coalesce(sum(rows), 0)::bigint, \
    coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint \
    from pg_stat_statements where query like '%set_aside%' and query like '%looked_at%'";

/// Returns the resident memory of the process.
fn resident_kib(process: u32) -> Result<i64> {
    let status = Path::new("/proc").join(process.to_string()).join("status");
    let status = std::fs::read_to_string(status)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .context("the status of the process has no VmRSS")?
        .parse()
        .context("VmRSS is not a number")
}
