//! Queries the facts about the server and the schema. `judging` turns them into findings.
//!
//! The client calls this, for the command of the same name. It locks nothing, changes nothing, and
//! reads a bounded number of rows. A fact that the role may not read is left out.

mod judging;
pub(crate) mod write_check;

use crate::decode::{column, duration, instance_id, time};
use crate::error::Failure;
use crate::inspect::{COUNTED_MAX, counted};
use crate::migrate::SCHEMA_VERSION;
use crate::session::Session;
use crate::session::statement::{self, Call, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::repair;
use judging::{Holder, Server, Space};
use outlast_core::{Finding, OVERDUE_AFTER, Result, StoredTimes, Timestamp, limits, micros};
use std::time::{Duration, SystemTime};
use tokio_postgres::Row;

/// How many open transactions the doctor reads, the oldest first.
const HOLDERS_MAX: i64 = 100;

/// Returns the findings about a database, in a fixed order.
pub(crate) async fn examine_database(session: &Session) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    // The server reads its clock between two local times, so the round trip is no difference.
    let before = SystemTime::now();
    if let Some(server) = first(session, statement::DOCTOR_SERVER.with([]), server).await? {
        findings.extend(server.findings());
        findings.push(judging::clocks(before, SystemTime::now(), server.clock));
    }
    let holders = statement::DOCTOR_HOLDERS.with([value(HOLDERS_MAX)]);
    if let Some(holders) = ask(session, holders, holder).await? {
        findings.extend(judging::holders(&holders));
    }
    if let Some(space) = first(session, statement::DOCTOR_TABLE.with([]), space).await? {
        findings.extend(space.findings());
    }
    let leases = statement::DOCTOR_LEASES.with([value(COUNTED_MAX)]);
    findings.extend(first(session, leases, stuck_leases).await?);
    let timers = statement::DOCTOR_TIMERS.with([value(COUNTED_MAX), value(micros(OVERDUE_AFTER))]);
    findings.extend(first(session, timers, overdue_timers).await?);
    let late = [value(COUNTED_MAX), value(micros(OVERDUE_AFTER))];
    let timeouts = statement::DOCTOR_TIMEOUTS.with(late);
    findings.extend(first(session, timeouts, overdue_timeouts).await?);
    findings.extend(repairs(session).await?);
    let looked = i64::try_from(limits::EXAMINED_MAX).unwrap_or(i64::MAX);
    let times = [value(looked), value(micros(limits::AHEAD_MAX))];
    findings.extend(first(session, statement::DOCTOR_TIMES.with(times), stored_times).await?);
    let schema = statement::DOCTOR_SCHEMA.with([]);
    findings.extend(first(session, schema, schema_version).await?);
    Ok(findings)
}

/// Runs a query that answers one row.
async fn first<T: Send>(
    session: &Session,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Option<T>> {
    let rows = ask(session, call, read).await?;
    Ok(rows.and_then(|rows| rows.into_iter().next()))
}

/// Runs one query in its own transaction. Returns `None` if the role may not run it.
///
/// In a shared transaction, the first query that is refused would fail all others.
async fn ask<T: Send>(
    session: &Session,
    call: Call<'_>,
    read: impl Fn(&Row) -> Result<T, Failure> + Send + Sync,
) -> Result<Option<Vec<T>>> {
    let call = std::slice::from_ref(&call);
    let read = &read;
    let once = || {
        let answer = async move {
            match session.transact(TxKind::Inspect, call).await {
                Ok(answers) => {
                    let rows = answers[0].iter().map(read).collect::<Result<_, _>>();
                    rows.map(Some)
                }
                Err(failure) if failure.is_forbidden() => Ok(None),
                Err(failure) => Err(failure),
            }
        };
        Box::pin(answer) as _
    };
    session.retry("examine", once).await
}

fn server(row: &Row) -> Result<Server, Failure> {
    let is_on = |name| column::<String>(row, name).map(|word| word == "on");
    Ok(Server {
        version: column(row, "version")?,
        version_text: column(row, "version_text")?,
        is_standby: column(row, "is_standby")?,
        is_read_only: is_on("read_only")?,
        isolation: column(row, "isolation")?,
        synchronous_commit: column(row, "synchronous_commit")?,
        fsync: is_on("fsync")?,
        full_page_writes: is_on("full_page_writes")?,
        autovacuum: is_on("autovacuum")?,
        connections: column::<Option<i64>>(row, "connections")?.unwrap_or_default(),
        connections_max: column(row, "connections_max")?,
        transactions: column(row, "transactions")?,
        clock: time(row, "clock")?,
    })
}

fn holder(row: &Row) -> Result<Holder, Failure> {
    Ok(Holder {
        kind: column(row, "kind")?,
        name: column(row, "name")?,
        open: column::<Option<f64>>(row, "seconds")?.map(seconds),
        is_idle: column::<Option<bool>>(row, "is_idle")?.unwrap_or_default(),
        keeps_rows: column(row, "keeps_rows")?,
    })
}

fn space(row: &Row) -> Result<Space, Failure> {
    Ok(Space {
        live: column(row, "live")?,
        dead: column(row, "dead")?,
        vacuumed: column::<Option<f64>>(row, "vacuumed_seconds")?.map(seconds),
        table_bytes: column::<i64>(row, "table_bytes")?.unsigned_abs(),
        index_bytes: column::<i64>(row, "index_bytes")?.unsigned_abs(),
    })
}

fn stuck_leases(row: &Row) -> Result<Finding, Failure> {
    let workers: i64 = column(row, "workers")?;
    let claims = counted(column(row, "claims")?);
    let longest = longest(row)?;
    Ok(Finding::stuck_leases(
        claims,
        workers.unsigned_abs(),
        longest,
    ))
}

fn overdue_timers(row: &Row) -> Result<Finding, Failure> {
    let overdue = counted(column(row, "instances")?);
    Ok(Finding::overdue_timers(overdue, longest(row)?))
}

fn overdue_timeouts(row: &Row) -> Result<Finding, Failure> {
    let overdue = counted(column(row, "instances")?);
    Ok(Finding::overdue_timeouts(overdue, longest(row)?))
}

/// Looks for repairs among the newest instances. Returns `None` if the role may not read them.
async fn repairs(session: &Session) -> Result<Option<Finding>> {
    let newest = limits::REPAIR_EXAMINED_MAX;
    let skipped = i64::try_from(newest).unwrap_or(i64::MAX);
    let before = statement::DOCTOR_NEWEST.with([value(skipped)]);
    // None of fewer instances: then the walk starts with the first.
    let before = first(session, before, instance_id).await?;
    let page = ask(session, repair::paging(before, newest), repair::candidate).await?;
    let Some(page) = page else {
        return Ok(None);
    };
    let may_need = page.iter().filter(|it| it.may_need);
    let ids: Vec<i64> = may_need.map(|it| it.id.0).collect();
    let found = ask(session, repair::finding(ids), repair::need).await?;
    Ok(found.map(|found| Finding::repairs(&found, newest)))
}

fn stored_times(row: &Row) -> Result<Finding, Failure> {
    let count = |name| column::<i64>(row, name).map(i64::unsigned_abs);
    let furthest = column::<Option<i64>>(row, "furthest_us")?;
    let times = StoredTimes {
        looked: count("looked")?,
        ahead: count("ahead")?,
        furthest: duration(furthest.unwrap_or_default()),
        waiting: count("waiting")?,
        strange: count("strange")?,
        workers: count("workers")?,
    };
    Ok(times.finding())
}

fn schema_version(row: &Row) -> Result<Finding, Failure> {
    let found: i32 = column(row, "version")?;
    let found = u64::try_from(found).unwrap_or_default();
    Ok(Finding::schema_version(found, SCHEMA_VERSION as u64))
}

fn longest(row: &Row) -> Result<Duration, Failure> {
    let longest = column::<Option<i64>>(row, "longest_us")?;
    Ok(duration(longest.unwrap_or_default()))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Returns how far a clock is from the interval between two local times.
fn apart(from: SystemTime, to: SystemTime, clock: Timestamp) -> Duration {
    let (from, to) = (Timestamp::from(from), Timestamp::from(to));
    from.since(clock).max(clock.since(to))
}
