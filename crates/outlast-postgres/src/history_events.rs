//! Histories and views of workflows: as parameters of a commit, and for readers.
//!
//! Commits and readers of histories call this file. Events are appended by the commit of their
//! outcome and never changed (I14). Their numbers come from the row under the fence.

use crate::decode::{column, json, time};
use crate::error::Failure;
use crate::inspect::{ask_planned, first_fitting, fitting};
use crate::session::Session;
use crate::session::statement::{self, Parameter, value};
use crate::verbs::commit::outcome::{number_literal, text_literal};
use outlast_core::{
    Commit, Event, HistoryRequest, InstanceId, NewEvent, NewView, Result, Revision, Rows,
    RunSummary, View, limits,
};
use tokio_postgres::Row;

/// Returns the events of outcomes as columns: their number, then one array literal per field.
///
/// Each outcome has its own literals. In one long array, the server would have to count off the
/// positions for each outcome.
pub(crate) fn columns(rows: &[&Commit]) -> [Parameter<'static>; 6] {
    let counts: Vec<i32> = rows.iter().map(|row| row.events.len() as i32).collect();
    [
        value(counts),
        texts(rows, |event| event.kind.as_str()),
        numbers(rows, |event| event.call),
        texts(rows, |event| event.name.as_str()),
        texts(rows, |event| event.data.as_str()),
        numbers(rows, |event| event.at.map(|at| at.0)),
    ]
}

/// Returns the views of outcomes as columns, like [`columns`].
pub(crate) fn view_columns(rows: &[&Commit]) -> [Parameter<'static>; 2] {
    let of = |text: fn(&NewView) -> &str| {
        let literal = |row: &&Commit| text_literal(row.views.iter().map(text));
        value(rows.iter().map(literal).collect::<Vec<String>>())
    };
    [of(|view| &view.name), of(|view| view.data.as_str())]
}

fn texts(rows: &[&Commit], of: fn(&NewEvent) -> &str) -> Parameter<'static> {
    let of_row = |row: &&Commit| text_literal(row.events.iter().map(of));
    value(rows.iter().map(of_row).collect::<Vec<String>>())
}

fn numbers<T: ToString>(rows: &[&Commit], of: fn(&NewEvent) -> Option<T>) -> Parameter<'static> {
    let of_row = |row: &&Commit| number_literal(row.events.iter().map(of));
    value(rows.iter().map(of_row).collect::<Vec<String>>())
}

pub(crate) async fn history(session: &Session, request: HistoryRequest) -> Result<Rows<Event>> {
    request
        .check()
        .map_err(|invalid| invalid.during("history"))?;
    // A planned query: the replay of every workflow reads its history by this.
    let call = statement::INSPECT_HISTORY.with([
        value(request.id.0),
        value(request.run),
        value(request.after),
        value(request.max as i64 + 1),
        value(limits::PAGE_BYTES_MAX as i64),
    ]);
    let read = |row: &Row| fitting(row, event);
    let events = ask_planned(session, "history", call, read).await?;
    Ok(first_fitting(events, request.max))
}

fn event(row: &Row) -> Result<Event, Failure> {
    Ok(Event {
        run: column(row, "run")?,
        seq: column(row, "seq")?,
        at: time(row, "at")?,
        kind: column::<&str>(row, "kind")?.parse()?,
        call: column(row, "call")?,
        name: column(row, "name")?,
        data: json(row, "data")?,
    })
}

pub(crate) async fn histories(session: &Session, id: InstanceId) -> Result<Vec<RunSummary>> {
    let call = statement::INSPECT_HISTORIES.with([value(id.0), value(limits::RUNS_KEPT)]);
    let runs = ask_planned(session, "histories", call, |row| {
        Ok(RunSummary {
            run: column(row, "run")?,
            events: column(row, "events")?,
            started_at: time(row, "started_at")?,
            last_at: time(row, "last_at")?,
            last: column::<&str>(row, "last")?.parse()?,
        })
    });
    runs.await
}

pub(crate) async fn views(
    session: &Session,
    id: InstanceId,
    name: Option<&str>,
) -> Result<Vec<View>> {
    let call =
        statement::INSPECT_VIEWS.with([value(id.0), value(name), value(limits::VIEWS_MAX as i64)]);
    let views = ask_planned(session, "views", call, |row| {
        Ok(View {
            name: column(row, "name")?,
            revision: Revision(column(row, "revision")?),
            at: time(row, "at")?,
            data: json(row, "data")?,
        })
    });
    views.await
}
