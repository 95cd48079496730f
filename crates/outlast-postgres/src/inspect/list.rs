//! Pages of instances, and their number.
//!
//! The dashboard and the command line call this. Every statement has a bound on the rows it reads.

use crate::decode::{self, column};
use crate::error::Failure;
use crate::inspect::{COUNTED_MAX, ask, ask_planned, counted, first_fitting, fitting};
use crate::session::Session;
use crate::session::statement::{self, Parameter, Statement, value};
use outlast_core::limits::{PAGE_BYTES_MAX, SCAN_MAX};
use outlast_core::{
    Count, Deadline, Filter, Instance, InstanceId, ListRequest, Page, Result, Status,
};
use std::time::SystemTime;
use tokio_postgres::Row;

/// Returns a page: by the index of a filter if that finds few rows, else by reading ids in order.
///
/// No plan is right for every filter, so the choice is made here and not by the planner. The first
/// try is bounded too: an index that finds many rows is given up after `SCAN_MAX` of them.
pub(crate) async fn list(session: &Session, request: &ListRequest) -> Result<Page> {
    request.check().map_err(|invalid| invalid.during("list"))?;
    if let Some(indexed) = IndexedFilter::of(&request.filter)
        && let Some(page) = list_found(session, request, indexed).await?
    {
        return Ok(page);
    }
    let reads = [value(SCAN_MAX as i64)];
    let (read_to, rows) = page(session, statement::INSPECT_LIST, request, reads, "read_to").await?;
    Ok(cut(rows, request.limit, read_to.map(InstanceId)))
}

/// Returns the page, or `None` if the index finds more rows than a page may read.
async fn list_found(
    session: &Session,
    request: &ListRequest,
    indexed: IndexedFilter,
) -> Result<Option<Page>> {
    let most = SCAN_MAX as i64 + 1;
    let more = [value(most), value(indexed.word())];
    let statement = statement::INSPECT_LIST_FOUND;
    let (found, rows) = page(session, statement, request, more, "found").await?;
    let is_few = found.is_some_and(|found| found < most);
    Ok(is_few.then(|| cut(rows, request.limit, None)))
}

/// Reads a page by one of the two statements.
///
/// The statement is asked for one row more than the page holds, to know whether another page
/// follows. Every row has the same number in the column `about`. A page without instances is one
/// row with that number only. A row is `None` if its values do not fit.
async fn page<const N: usize>(
    session: &Session,
    statement: Statement,
    request: &ListRequest,
    more: [Parameter<'static>; N],
    about: &'static str,
) -> Result<(Option<i64>, Vec<Option<Instance>>)> {
    let mut parameters = filter(&request.filter);
    parameters.push(value(request.before.map_or(i64::MAX, |id| id.0)));
    parameters.push(value(request.limit as i64 + 1));
    parameters.extend(more);
    parameters.push(value(request.values));
    parameters.push(value(PAGE_BYTES_MAX as i64));
    let read = |row: &Row| -> Result<_, Failure> {
        let is_empty = column::<Option<i64>>(row, "id")?.is_none();
        let instance = (!is_empty)
            .then(|| fitting(row, decode::instance))
            .transpose()?;
        Ok((column::<Option<i64>>(row, about)?, instance))
    };
    let rows = ask_planned(session, "list", statement.with(parameters), read).await?;
    let figure = rows.first().and_then(|(figure, _)| *figure);
    Ok((figure, rows.into_iter().filter_map(|row| row.1).collect()))
}

/// Returns the page and where the next one begins.
///
/// A page that stopped at its bound of rows read is not full, but it has a next one.
fn cut(rows: Vec<Option<Instance>>, limit: usize, read_to: Option<InstanceId>) -> Page {
    let page = first_fitting(rows, limit);
    let next = match page.more {
        true => page.rows.last().map(|last| last.id),
        false => read_to,
    };
    Page {
        instances: page.rows,
        next,
    }
}

/// The filters that have an index.
///
/// Step and status have none on purpose: commits would then no longer update rows in place
/// (docs/decisions/0025).
#[derive(Clone, Copy)]
enum IndexedFilter {
    Parent,
    Deadline,
    Ended,
    Executing,
}

impl IndexedFilter {
    fn of(filter: &Filter) -> Option<IndexedFilter> {
        match filter {
            Filter {
                parent: Some(_), ..
            } => Some(IndexedFilter::Parent),
            Filter {
                deadline: Some(Deadline::Before(_)),
                ..
            } => Some(IndexedFilter::Deadline),
            Filter {
                ended_from,
                ended_until,
                ..
            } if ended_from.is_some() || ended_until.is_some() => Some(IndexedFilter::Ended),
            Filter { statuses, .. } if *statuses == [Status::Executing] => {
                Some(IndexedFilter::Executing)
            }
            Filter { .. } => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            IndexedFilter::Parent => "parent",
            IndexedFilter::Deadline => "deadline",
            IndexedFilter::Ended => "ended",
            IndexedFilter::Executing => "executing",
        }
    }
}

pub(crate) async fn count(session: &Session, wanted: &Filter) -> Result<Count> {
    wanted.check().map_err(|invalid| invalid.during("count"))?;
    let mut parameters = filter(wanted);
    parameters.push(value(COUNTED_MAX));
    let call = statement::INSPECT_COUNT.with(parameters);
    let rows = ask(session, "count", call, |row| {
        column(row, "instances").map(counted)
    });
    Ok(rows.await?[0])
}

/// Returns a filter as the first parameters of list.sql, list_found.sql and count.sql.
fn filter(filter: &Filter) -> Vec<Parameter<'_>> {
    let statuses = filter.stored_statuses();
    let statuses: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
    let (without_deadline, deadline_before) = match filter.deadline {
        None => (None, None),
        Some(Deadline::None) => (Some(true), None),
        Some(Deadline::Before(moment)) => (None, Some(SystemTime::from(moment))),
    };
    vec![
        value(filter.machine.as_deref()),
        value(filter.version),
        value(filter.step.as_deref()),
        value((!statuses.is_empty()).then_some(statuses)),
        value(filter.queue.as_deref()),
        value(filter.correlation_key.as_deref()),
        value(filter.partition_key.as_deref()),
        value(filter.parent.map(|id| id.0)),
        value(filter.inserted_from.map(SystemTime::from)),
        value(filter.inserted_until.map(SystemTime::from)),
        value(filter.error.as_deref()),
        value(filter.attempts_from),
        value(without_deadline),
        value(deadline_before),
        value(filter.ended_from.map(SystemTime::from)),
        value(filter.ended_until.map(SystemTime::from)),
        value(filter.asleep()),
    ]
}
