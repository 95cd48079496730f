//! The upper limit on PostgreSQL: two connections, a thousand rows per statement.

use crate::cpu::Usage;
use crate::figure::Sample;
use crate::machines::CHAIN_STEPS;
use crate::site::{checkpoint, connect};
use crate::workload::Run;
use crate::workload::insert::{BATCH, CALLERS, single};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use tokio_postgres::{Client, Config, Statement};

/// Two saturate two cores; more gain nothing.
const CONNECTIONS: usize = 2;

/// Planner settings for every statement below, because these tables have no statistics.
const PLANS: &str = "set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; \
                     set enable_mergejoin = off; set jit = off; set plan_cache_mode = force_generic_plan";

const INSERT: &str = "
    insert into outlast.instances
           (machine, machine_version, step, state, status, queue, priority, eligible_at, trace, inserted_at, updated_at)
    select 'floor', 1, 'work', n.state::json, 'runnable', 'default', 0, now(),
           '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', now(), now()
      from unnest($1::text[]) as n (state)";

/// A claim does not wait for the disk: a lost claim never began.
const CLAIM: &str = "
    with picked as materialized (
        select i.id
          from outlast.instances i
         where i.status = 'runnable' and not i.blocked and i.queue = 'default' and i.priority = 0
           and i.eligible_at <= now()
         order by i.eligible_at, i.id
         limit $1
           for no key update skip locked)
    update outlast.instances i
       set status = 'executing', revision = i.revision + 1, locked_by = $2, updated_at = now()
     where i.id = any (array(select p.id from picked p))
    returning i.id, i.revision, i.step, i.state::text";

const GO_ON: &str = "
    update outlast.instances i
       set step = 'work', state = n.state::json, revision = i.revision + 1,
           entered_revision = i.revision + 1, updated_at = now()
      from unnest($1::bigint[], $2::bigint[], $3::text[]) as n (id, revision, state)
     where i.id = any (array[n.id]) and i.revision = n.revision and i.status = 'executing'
    returning i.id, i.revision";

const FINISH: &str = "
    update outlast.instances i
       set status = 'done', result = n.result::json, revision = i.revision + 1, locked_by = null,
           updated_at = now(), finished_at = now()
      from unnest($1::bigint[], $2::bigint[], $3::text[]) as n (id, revision, result)
     where i.id = any (array[n.id]) and i.revision = n.revision and i.status = 'executing'
    returning i.id, i.revision";

pub(super) async fn drain(run: &Run<'_>, config: &Config) -> Result<Vec<Sample>> {
    let usage = run_steps(run, config, 1).await?;
    Ok(vec![Sample::rate("floor drain", run.n, "steps/s", usage)])
}

pub(super) async fn chain(run: &Run<'_>, config: &Config) -> Result<Vec<Sample>> {
    let usage = run_steps(run, config, CHAIN_STEPS as usize).await?;
    let steps = run.n * CHAIN_STEPS as usize;
    Ok(vec![Sample::rate("floor chain", steps, "steps/s", usage)])
}

async fn run_steps(run: &Run<'_>, config: &Config, steps: usize) -> Result<Usage> {
    fill(run, config).await?;
    let client = connect(config).await?;
    client.batch_execute("analyze").await?;
    checkpoint(&client).await?;
    let bar = run.bar(run.n, "claiming and completing");
    let mut hands = Vec::new();
    for _ in 0..CONNECTIONS {
        hands.push(Hand::new(config).await?);
    }
    let meter = run.meter()?;
    let hands: Vec<_> = hands
        .into_iter()
        .map(|hand| {
            let bar = bar.clone();
            tokio::spawn(async move { hand.run(steps, &bar).await })
        })
        .collect();
    let mut done = 0;
    for hand in hands {
        done += hand.await??;
    }
    let usage = meter.stop()?;
    bar.finish_and_clear();
    ensure!(done == run.n, "{done} of {} were done", run.n);
    Ok(usage)
}

/// One connection that claims and completes.
struct Hand {
    client: Client,
    claim: Statement,
    go_on: Statement,
    finish: Statement,
}

impl Hand {
    async fn new(config: &Config) -> Result<Hand> {
        let client = connect(config).await?;
        client.batch_execute(PLANS).await?;
        Ok(Hand {
            claim: client.prepare(CLAIM).await?,
            go_on: client.prepare(GO_ON).await?,
            finish: client.prepare(FINISH).await?,
            client,
        })
    }

    /// Runs until nothing is left. Returns the number of instances that it completed.
    async fn run(&self, steps: usize, bar: &ProgressBar) -> Result<usize> {
        let mut done = 0;
        loop {
            let claimed = self.claim().await?;
            if claimed.is_empty() {
                return Ok(done);
            }
            let (mut ids, mut revisions, states) = split(claimed);
            for left in (1..steps).rev() {
                let states: Vec<String> = ids
                    .iter()
                    .map(|id| format!(r#"{{"number":{id},"left":{left}}}"#))
                    .collect();
                (ids, revisions) = self.write(&self.go_on, &ids, &revisions, &states).await?;
            }
            let (ended, _) = self.write(&self.finish, &ids, &revisions, &states).await?;
            done += ended.len();
            bar.inc(ended.len() as u64);
        }
    }

    async fn claim(&self) -> Result<Vec<(i64, i64, String)>> {
        let (begun, rows, committed) = tokio::join!(
            self.client
                .batch_execute("begin; set local synchronous_commit = off"),
            self.client.query(&self.claim, &[&(BATCH as i64), &1_i64]),
            self.client.batch_execute("commit"),
        );
        begun?;
        committed?;
        Ok(rows?
            .iter()
            .map(|row| (row.get(0), row.get(1), row.get(3)))
            .collect())
    }

    async fn write(
        &self,
        statement: &Statement,
        ids: &[i64],
        revisions: &[i64],
        documents: &[String],
    ) -> Result<(Vec<i64>, Vec<i64>)> {
        let rows = self
            .client
            .query(statement, &[&ids, &revisions, &documents])
            .await?;
        Ok(rows
            .iter()
            .map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)))
            .unzip())
    }
}

fn split(claimed: Vec<(i64, i64, String)>) -> (Vec<i64>, Vec<i64>, Vec<String>) {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for (id, revision, state) in claimed {
        columns.0.push(id);
        columns.1.push(revision);
        columns.2.push(state);
    }
    columns
}

async fn fill(run: &Run<'_>, config: &Config) -> Result<()> {
    let client = connect(config).await?;
    let statement = client.prepare(INSERT).await?;
    let bar = run.bar(run.n, "inserting");
    for first in (0..run.n).step_by(BATCH) {
        client
            .query(&statement, &[&states(first, BATCH.min(run.n - first))])
            .await?;
        bar.inc(BATCH as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

fn states(first: usize, count: usize) -> Vec<String> {
    (first..first + count)
        .map(|number| format!(r#"{{"number":{number}}}"#))
        .collect()
}

pub(super) async fn insert(run: &Run<'_>, config: &Config) -> Result<Vec<Sample>> {
    let single = single(run.n);
    Ok(vec![
        Sample::rate(
            "floor insert single",
            single,
            "rows/s",
            insert_from(run, config, 1, single, 1).await?,
        ),
        Sample::rate(
            "floor insert batches",
            run.n,
            "rows/s",
            insert_from(run, config, 1, run.n, BATCH).await?,
        ),
        Sample::rate(
            "floor insert 32 callers",
            single,
            "rows/s",
            insert_from(run, config, CALLERS, single, 1).await?,
        ),
    ])
}

/// Inserts this many rows from this many connections; each statement is a batch and a transaction.
async fn insert_from(
    run: &Run<'_>,
    config: &Config,
    callers: usize,
    rows: usize,
    batch: usize,
) -> Result<Usage> {
    let mut clients = Vec::new();
    for _ in 0..callers {
        let client = connect(config).await?;
        let statement = client.prepare(INSERT).await?;
        clients.push((client, statement));
    }
    let first = &clients[0].0;
    first.batch_execute("truncate outlast.instances").await?;
    checkpoint(first).await?;
    let bar = run.bar(rows, "bare inserts");
    let meter = run.meter()?;
    let callers: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(caller, (client, statement))| {
            let (bar, stride) = (bar.clone(), callers * batch);
            tokio::spawn(async move {
                for first in (caller * batch..rows).step_by(stride) {
                    let states = states(first, batch.min(rows - first));
                    client.query(&statement, &[&states]).await?;
                    bar.inc(states.len() as u64);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    let usage = meter.stop()?;
    bar.finish_and_clear();
    Ok(usage)
}
