//! Pages of instances and counts, by filter.
//!
//! The only statements that are built at run time. They use only the columns named here, and bind
//! every value. A caller's text must never become part of a statement.

use crate::error::Fault;
use crate::inspect::{self, COUNTED_MAX, all, counted};
use crate::tx::Tx;
use outlast_core::limits::SCAN_MAX;
use outlast_core::{
    Count, Deadline, Filter, Instance, InstanceId, ListRequest, Page, Rows, Status, Timestamp,
};
use rusqlite::params_from_iter;
use rusqlite::types::Value;

/// Returns a page of instances.
///
/// Uses the index of a filter that finds few rows, and otherwise scans in the order of the ids.
/// Reads only ids first, and whole instances only for the rows that match.
pub(crate) fn list(tx: &Tx<'_>, request: &ListRequest) -> Result<Page, Fault> {
    let mut fitting = match selective_index(tx, &request.filter)? {
        Some(indexed) => find(tx, request, indexed)?,
        None => scan(tx, request)?,
    };
    let is_full = fitting.ids.len() > request.limit;
    fitting.ids.truncate(request.limit);
    // A full page continues after its last row. Otherwise the scan continues where it stopped.
    let next = match is_full {
        true => fitting.ids.last().copied(),
        false => fitting.read_to,
    };
    let ids = fitting.ids.into_iter();
    let read = ids.filter_map(|id| inspect::get_listed(tx, id, request.values).transpose());
    let bytes = |it: &Instance| if request.values { it.bytes() } else { 0 };
    let page = Rows::cut(read, request.limit, bytes)?;
    // Large values can cut the page before its limit.
    let next = match page.more {
        true => page.rows.last().map(|last| last.id),
        false => next,
    };
    Ok(Page {
        instances: page.rows,
        next,
    })
}

/// The matching ids, newest first. One more than the page holds, if there is one.
struct Fitting {
    ids: Vec<InstanceId>,
    /// The last id that was read, when unread rows remain.
    read_to: Option<InstanceId>,
}

/// Scans in the order of the ids until the page is full.
///
/// Reads at most [`SCAN_MAX`] rows, so a page can be short or empty while more rows follow.
fn scan(tx: &Tx<'_>, request: &ListRequest) -> Result<Fitting, Fault> {
    let mut conditions = Conditions::new(request.before);
    let fits = conditions.of(&request.filter);
    // The filter is a column and no condition: rows that do not match must count as read.
    let limit = conditions.bind(SCAN_MAX as i64 + 1);
    let sql = format!(
        "select id, ({fits}) as fits\nfrom instances\nwhere id < ?1\norder by id desc\nlimit {limit}"
    );
    let mut statement = tx.prepare_made(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let (mut read, mut last) = (0, None);
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        if read == SCAN_MAX {
            return Ok(Fitting { ids, read_to: last });
        }
        read += 1;
        let id = InstanceId(row.get(0)?);
        last = Some(id);
        // A comparison with null is null, and no match.
        if row.get::<_, Option<bool>>(1)? == Some(true) {
            ids.push(id);
        }
        if ids.len() > request.limit {
            break;
        }
    }
    Ok(Fitting { ids, read_to: None })
}

/// Reads all rows that an index finds.
///
/// The index does not have the order of the ids, so SQLite sorts them. [`selective_index`] has
/// bounded how many there are.
fn find(tx: &Tx<'_>, request: &ListRequest, indexed: IndexedFilter) -> Result<Fitting, Fault> {
    let mut conditions = Conditions::new(request.before);
    let found = indexed.condition(&mut conditions);
    let fits = conditions.of(&request.filter);
    let limit = conditions.bind(request.limit as i64 + 1);
    let index = indexed.index();
    // `indexed by` makes a condition that the index cannot serve an error, and not a full scan.
    let sql = format!(
        "select id\nfrom instances indexed by {index}\nwhere id < ?1 and {found} and {fits}\norder by id desc\nlimit {limit}"
    );
    let ids = all(tx, &sql, params_from_iter(conditions.values), |row| {
        row.get(0).map(InstanceId)
    })?;
    Ok(Fitting { ids, read_to: None })
}

/// Returns the index of a filter, if it finds no more rows than a page may read.
///
/// It counts, because SQLite has no statistics to choose by: the store never runs `analyze`.
fn selective_index(tx: &Tx<'_>, filter: &Filter) -> Result<Option<IndexedFilter>, Fault> {
    let Some(indexed) = IndexedFilter::of(filter) else {
        return Ok(None);
    };
    let mut conditions = Conditions::new(None);
    let found = indexed.condition(&mut conditions);
    let limit = conditions.bind(SCAN_MAX as i64 + 1);
    let index = indexed.index();
    let sql = format!(
        "select count(*)\nfrom (select 1 from instances indexed by {index} where {found} limit {limit})"
    );
    let mut statement = tx.prepare_made(&sql)?;
    let found: i64 = statement.query_row(params_from_iter(conditions.values), |row| row.get(0))?;
    Ok((found <= SCAN_MAX as i64).then_some(indexed))
}

/// Counts the matching instances, up to the reported maximum.
///
/// The limit bounds the matches and not the rows read. A filter that matches few rows can read the
/// whole table.
pub(crate) fn count(tx: &Tx<'_>, filter: &Filter) -> Result<Count, Fault> {
    let mut conditions = Conditions::new(None);
    let fits = conditions.of(filter);
    let limit = conditions.bind(COUNTED_MAX);
    let sql = format!(
        "select count(*)\nfrom (select 1 from instances where id < ?1 and {fits}\nlimit {limit})"
    );
    let mut statement = tx.prepare_made(&sql)?;
    let count: i64 = statement.query_row(params_from_iter(conditions.values), |row| row.get(0))?;
    Ok(counted(count))
}

/// A filter with an index.
///
/// Each condition must imply the condition of its partial index, or SQLite cannot use the index.
#[derive(Clone, Copy)]
enum IndexedFilter {
    Parent(InstanceId),
    Deadline(Timestamp),
    Ended { from: Timestamp, until: Timestamp },
    Executing,
}

impl IndexedFilter {
    fn of(filter: &Filter) -> Option<IndexedFilter> {
        match filter {
            Filter {
                parent: Some(parent),
                ..
            } => Some(IndexedFilter::Parent(*parent)),
            Filter {
                deadline: Some(Deadline::Before(moment)),
                ..
            } => Some(IndexedFilter::Deadline(*moment)),
            Filter {
                ended_from,
                ended_until,
                ..
            } if ended_from.is_some() || ended_until.is_some() => Some(IndexedFilter::Ended {
                from: ended_from.unwrap_or(Timestamp(i64::MIN)),
                until: ended_until.unwrap_or(Timestamp(i64::MAX)),
            }),
            Filter { statuses, .. } if *statuses == [Status::Executing] => {
                Some(IndexedFilter::Executing)
            }
            Filter { .. } => None,
        }
    }

    fn index(self) -> &'static str {
        match self {
            IndexedFilter::Parent(_) => "instances_parent",
            IndexedFilter::Deadline(_) => "instances_deadline",
            IndexedFilter::Ended { .. } => "instances_finished",
            IndexedFilter::Executing => "instances_locked",
        }
    }

    fn condition(self, conditions: &mut Conditions) -> String {
        match self {
            IndexedFilter::Parent(id) => format!("parent_id = {}", conditions.bind(id.0)),
            IndexedFilter::Deadline(moment) => {
                format!("await_deadline < {}", conditions.bind(moment.0))
            }
            IndexedFilter::Ended { from, until } => format!(
                "finished_at >= {} and finished_at < {}",
                conditions.bind(from.0),
                conditions.bind(until.0)
            ),
            IndexedFilter::Executing => "status = 'executing'".to_owned(),
        }
    }
}

/// The bound values of a statement. The first is always the id below which rows are wanted.
struct Conditions {
    values: Vec<Value>,
}

impl Conditions {
    fn new(before: Option<InstanceId>) -> Conditions {
        let before = before.map_or(i64::MAX, |id| id.0);
        Conditions {
            values: vec![before.into()],
        }
    }

    /// Binds a value and returns its placeholder.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Returns a filter as one condition.
    fn of(&mut self, filter: &Filter) -> String {
        let mut parts = vec!["true".to_owned()];
        let mut add = |comparison: &str, value: Option<Value>| {
            if let Some(value) = value {
                parts.push(format!("{comparison} {}", self.bind(value)));
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::from);
        add("machine =", text(&filter.machine));
        add("machine_version =", filter.version.map(Value::from));
        add("step =", text(&filter.step));
        add("queue =", text(&filter.queue));
        add("correlation_key =", text(&filter.correlation_key));
        add("partition_key =", text(&filter.partition_key));
        add("parent_id =", filter.parent.map(|id| id.0.into()));
        add("inserted_at >=", filter.inserted_from.map(|at| at.0.into()));
        add("inserted_at <", filter.inserted_until.map(|at| at.0.into()));
        add("finished_at >=", filter.ended_from.map(|at| at.0.into()));
        add("finished_at <", filter.ended_until.map(|at| at.0.into()));
        add("attempt >=", filter.attempts_from.map(Value::from));
        parts.extend(self.deadline(filter.deadline));
        if let Some(error) = &filter.error {
            parts.push(format!(
                "instr(last_error, {}) > 0",
                self.bind(error.clone())
            ));
        }
        let statuses = filter.stored_statuses();
        if !statuses.is_empty() {
            let statuses = statuses.iter();
            let places = statuses.map(|status| self.bind(status.as_str().to_owned()));
            let places: Vec<String> = places.collect();
            parts.push(format!("status in ({})", places.join(", ")));
        }
        parts.extend(filter.asleep().map(|asleep| {
            let asleep = self.bind(asleep);
            format!("(status <> 'awaiting_signal' or (coalesce(awaits, '[]') = '[]') = {asleep})")
        }));
        parts.join("\n  and ")
    }

    fn deadline(&mut self, deadline: Option<Deadline>) -> Option<String> {
        Some(match deadline? {
            Deadline::None => "status = 'awaiting_signal' and await_deadline is null".to_owned(),
            Deadline::Before(moment) => {
                let moment = self.bind(moment.0);
                format!("status = 'awaiting_signal' and await_deadline < {moment}")
            }
        })
    }
}
