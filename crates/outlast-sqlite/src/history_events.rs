//! Histories and views of workflows: writes those of a commit, and reads them.
//!
//! The commit verb calls it, and the questions of `Inspect`. Events must be written in the
//! transaction of their outcome, after its fence held (I14). No function here changes an event.

use crate::decode;
use crate::error::Fault;
use crate::inspect::all;
use crate::tx::Tx;
use outlast_core::{
    Event, HistoryPosition, HistoryRequest, InstanceId, NewEvent, NewView, Revision, Rows,
    RunSummary, Timestamp, View, limits,
};
use rusqlite::params;

const GROW: &str = include_str!("../sql/history/grow.sql");
const PLACE: &str = include_str!("../sql/history/place.sql");
const APPEND: &str = include_str!("../sql/history/append.sql");
const FORGET: &str = include_str!("../sql/history/forget.sql");
const PUBLISH: &str = include_str!("../sql/history/publish.sql");
const VIEWS: &str = include_str!("../sql/inspect/histories/views.sql");
const HISTORY: &str = include_str!("../sql/inspect/histories/history.sql");
const HISTORIES: &str = include_str!("../sql/inspect/histories/histories.sql");

/// Writes events that the row's event count already includes, with the outcome whose fence held.
pub(crate) fn write(tx: &Tx<'_>, id: InstanceId, events: &[NewEvent]) -> Result<(), Fault> {
    write_after(tx, id, None, events)
}

/// Writes events like [`write`], at a history position that the caller may know.
///
/// The statement that has just written the row must have compared a given position with the row.
/// The unique index `events_place` refuses a place that is taken, and never overwrites it.
pub(crate) fn write_after(
    tx: &Tx<'_>,
    id: InstanceId,
    position: Option<HistoryPosition>,
    events: &[NewEvent],
) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let HistoryPosition { run, events: last } = match position {
        Some(position) => position,
        None => position_before(tx, id, events.len())?,
    };
    let mut statement = tx.prepare(APPEND)?;
    for (seq, event) in (last + 1..).zip(events) {
        statement.execute(params![
            id.0,
            run,
            seq,
            event.at.unwrap_or(tx.now).0,
            event.kind.as_str(),
            event.call,
            event.name,
            event.data.as_str()
        ])?;
    }
    Ok(())
}

/// Returns the history position before the last `new` events were counted.
///
/// A lookup of its own, because `returning` on the write would cost more
/// (`sql/history/place.sql`).
fn position_before(tx: &Tx<'_>, id: InstanceId, new: usize) -> Result<HistoryPosition, Fault> {
    let place = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (run, last): (i32, i32) = tx.prepare(PLACE)?.query_row([id.0], place)?;
    Ok(HistoryPosition {
        run,
        events: last - new as i32,
    })
}

/// Adds to the history of an instance whose outcome was written, or whose fence holds.
pub(crate) fn append(tx: &Tx<'_>, id: InstanceId, events: &[NewEvent]) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let values = params![id.0, events.len() as i64];
    // Counted first: `write` numbers the events backwards from the new count.
    tx.prepare(GROW)?.execute(values)?;
    write(tx, id, events)
}

/// Removes the histories of the runs up to `last`, as wholes: a run must have no gaps (I14).
pub(crate) fn forget(tx: &Tx<'_>, id: InstanceId, last: i32) -> Result<(), Fault> {
    tx.prepare(FORGET)?.execute(params![id.0, last])?;
    Ok(())
}

/// Writes views with an outcome whose fence held. `revision` is the one after the outcome.
pub(crate) fn publish(
    tx: &Tx<'_>,
    id: InstanceId,
    revision: Revision,
    views: &[NewView],
) -> Result<(), Fault> {
    for view in views {
        let values = params![id.0, view.name, revision.0, tx.now.0, view.data.as_str()];
        tx.prepare(PUBLISH)?.execute(values)?;
    }
    Ok(())
}

/// Returns the views of an instance, of all names or of one.
pub(crate) fn views(tx: &Tx<'_>, id: InstanceId, name: Option<&str>) -> Result<Vec<View>, Fault> {
    let values = params![id.0, name, limits::VIEWS_MAX as i64];
    all(tx, VIEWS, values, decode::view)
}

/// Returns a page of the events of one run.
pub(crate) fn history(tx: &Tx<'_>, request: HistoryRequest) -> Result<Rows<Event>, Fault> {
    // One row more than the page shows whether events follow.
    let (id, one_more) = (request.id.0, request.max as i64 + 1);
    let mut statement = tx.prepare(HISTORY)?;
    let values = params![id, request.run, request.after, one_more];
    let rows = statement.query_map(values, decode::event)?;
    Ok(Rows::cut(rows, request.max, Event::bytes)?)
}

/// Returns the runs whose history is stored.
pub(crate) fn histories(tx: &Tx<'_>, id: InstanceId) -> Result<Vec<RunSummary>, Fault> {
    all(tx, HISTORIES, [id.0], |row| {
        Ok(RunSummary {
            run: row.get("run")?,
            events: row.get("events")?,
            started_at: Timestamp(row.get("started_at")?),
            last_at: Timestamp(row.get("last_at")?),
            last: decode::word(row, "last")?,
        })
    })
}
