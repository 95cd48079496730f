//! Compares two answers or two states, and describes the differences.

use super::calls::{Call, Reply};
use super::state::{History, State};
use outlast_core::{
    CancelRequest, Claimed, Instance, Json, SentUpdate, SignalRow, Status, Timestamp, UpdateState,
    Worker,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// Describes how the store's answer differs from the model's.
///
/// `after` is the model's state after the verb.
pub(super) fn answers(
    call: &Call,
    model: &Reply,
    store: &Reply,
    after: &State,
    now: Timestamp,
) -> Vec<String> {
    let (mut model, mut store) = (model.clone(), store.clone());
    let mut differences = Vec::new();
    let (expected, hinted) = (model.take_woken(), store.take_woken());
    // A store may send more hints than needed, and may name neighbours of a partition key too.
    if !hinted.is_superset(&expected) {
        differences.push(format!("hints: model {expected:?}, store {hinted:?}"));
    }
    if let (Call::Claim(request), Reply::Claimed(model), Reply::Claimed(store)) =
        (call, &mut model, &mut store)
    {
        let bounded = |claimed: &Claimed| claimed.claims.len() >= request.max;
        if bounded(model) || bounded(store) || model.paused {
            (model.more, model.next_due_in) = (store.more, store.next_due_in);
        } else if may_be_next_due(store.next_due_in, &request.queue, after, now) {
            model.next_due_in = store.next_due_in;
        }
    }
    if let (Reply::Refused(model, text), Reply::Refused(store, other)) = (&model, &mut store) {
        // Each store words its errors; the contract fixes only the kind.
        if model == store {
            other.clone_from(text);
        }
    }
    differences.extend(unequal("answer", &model, &store));
    differences
}

/// Whether `due` is a valid time of the next eligible row of `queue`.
///
/// A row behind a partition key may be left out. Stores may differ in how far they look ahead for
/// such rows.
fn may_be_next_due(due: Option<Duration>, queue: &str, state: &State, now: Timestamp) -> bool {
    // A row that waits for a place in a window becomes eligible when it gets one.
    let runnable = |row: &&Instance| row.status == Status::Runnable && row.held != Some(true);
    let rows = state.instances.iter().filter(runnable);
    let mut delayed: Vec<&Instance> = rows
        .filter(|row| row.queue == queue && row.eligible_at > now)
        .collect();
    delayed.sort_by_key(|row| row.eligible_at);
    for row in delayed {
        if due == Some(row.eligible_at.since(now)) {
            return true;
        }
        if !may_be_held(row, state) {
            return false;
        }
    }
    due.is_none()
}

fn may_be_held(row: &Instance, state: &State) -> bool {
    row.partition_key.is_some()
        && state.instances.iter().any(|other| {
            other.id != row.id
                && other.partition_key == row.partition_key
                && matches!(other.status, Status::Runnable | Status::Executing)
        })
}

/// Describes how the store's state differs from the model's.
pub(super) fn states(model: &State, store: &State) -> Vec<String> {
    let mut differences = rows("instance", &model.instances, &store.instances);
    differences.extend(rows("signal", &model.signals, &store.signals));
    differences.extend(rows("worker", &model.workers, &store.workers));
    differences.extend(histories(model, store));
    differences.extend(updates(model, store));
    if model.operations != store.operations {
        differences.extend(unequal("operations", &model.operations, &store.operations));
    }
    if model.queues != store.queues {
        differences.extend(unequal("queues", &model.queues, &store.queues));
    }
    differences
}

/// Compares the histories that were read from the store.
fn histories(model: &State, store: &State) -> Vec<String> {
    let nothing = History::default();
    let mut differences = Vec::new();
    for (id, stored) in &store.histories {
        let expected = model.histories.get(id).unwrap_or(&nothing);
        if expected != stored {
            let what = format!("history of {id}");
            differences.extend(unequal(&what, &expected.lines(), &stored.lines()));
        }
    }
    differences
}

/// Compares the answers about updates that were asked of the store.
fn updates(model: &State, store: &State) -> Vec<String> {
    // `Debug` hides the reply.
    let line = |found: &Option<SentUpdate>| match found {
        Some(SentUpdate {
            signal,
            name,
            state: UpdateState::Replied(reply),
        }) => format!("{signal} {name} {reply:?} {}", reply.data.as_str()),
        other => format!("{other:?}"),
    };
    let mut differences = Vec::new();
    for (key, stored) in &store.updates {
        let expected = model.updates.get(key).unwrap_or(&None);
        if expected != stored {
            let what = format!("update {:?} of {}", key.1, key.0);
            differences.extend(unequal(&what, &line(expected), &line(stored)));
        }
    }
    differences
}

/// A row that can be compared column by column.
trait Columns: PartialEq {
    fn id(&self) -> i64;

    /// Returns every column with its value, documents included, which `Debug` hides.
    fn columns(&self) -> Vec<(&'static str, String)>;
}

macro_rules! columns {
    ($row:ident; $($column:ident),* $(,)?) => {
        vec![$((stringify!($column), format!("{:?}", $row.$column)),)*]
    };
}

impl Columns for Instance {
    fn id(&self) -> i64 {
        self.id.0
    }

    fn columns(&self) -> Vec<(&'static str, String)> {
        let mut columns = columns![
            self; machine, version, step, status, revision, entered, trace, last_error, queue, priority, eligible_at,
            attempt, crashes, partition_key, locked_by, awaits, await_deadline, needs_all, parent, position,
            on_parent_close, held, round, run, events, joining, children_pending, barrier, dropped, correlation_key, correlation_scope, holds_key, inserted_at,
            updated_at, finished_at,
        ];
        columns.push(("state", self.state.as_str().to_owned()));
        columns.push(("result", text(self.result.as_ref())));
        columns.push(("cancel", cancel(self.cancel.as_ref())));
        columns
    }
}

impl Columns for SignalRow {
    fn id(&self) -> i64 {
        self.id.0
    }

    fn columns(&self) -> Vec<(&'static str, String)> {
        let mut columns = columns![
            self; target, name, dedup_key, wants_reply, inserted_at, consumed_at,
        ];
        columns.push(("payload", text(self.payload.as_ref())));
        columns
    }
}

impl Columns for Worker {
    fn id(&self) -> i64 {
        self.id.0
    }

    fn columns(&self) -> Vec<(&'static str, String)> {
        columns![
            self; name, host, version, queues, started_at, heartbeat_at, lease_expires_at,
        ]
    }
}

/// Formats a cancel with its reason, which `Debug` hides.
fn cancel(request: Option<&CancelRequest>) -> String {
    request.map_or("none".into(), |it| format!("{it:?} because {}", it.reason))
}

fn text(json: Option<&Json>) -> String {
    json.map_or("none".into(), |json| json.as_str().to_owned())
}

fn rows<T: Columns + Debug>(what: &str, model: &[T], store: &[T]) -> Vec<String> {
    let mut stored: BTreeMap<i64, &T> = store.iter().map(|row| (row.id(), row)).collect();
    let mut differences = Vec::new();
    for row in model {
        let id = row.id();
        match stored.remove(&id) {
            Some(other) if row == other => {}
            Some(other) => differences.extend(columns_of(&format!("{what} {id}"), row, other)),
            None => differences.push(format!("{what} {id}: only the model has {row:?}")),
        }
    }
    for (id, row) in stored {
        differences.push(format!("{what} {id}: only the store has {row:?}"));
    }
    differences
}

fn columns_of(what: &str, model: &impl Columns, store: &impl Columns) -> Vec<String> {
    let columns = model.columns().into_iter().zip(store.columns());
    let unequal = columns.filter(|(model, store)| model != store);
    unequal
        .map(|((column, model), (_, store))| {
            format!("{what}: {column} is {model} in the model, {store} in the store")
        })
        .collect()
}

fn unequal<T: Debug>(what: &str, model: &T, store: &T) -> Option<String> {
    let (model, store) = (format!("{model:?}"), format!("{store:?}"));
    (model != store).then(|| format!("{what}:\n      model {model}\n      store {store}"))
}
