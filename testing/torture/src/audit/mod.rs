//! The audit: every committed change, written by triggers in the transaction that makes the
//! change. The checker reads it.

use crate::ledger::Answer;
use crate::site::{self, Site};
use anyhow::{Context as _, Result};
use futures_util::TryStreamExt;
use outlast_core::{ClosePolicy, EventKind, Joined, TIMED_OUT, Until};
use serde::Deserialize;

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) seq: i64,
    /// The database's time of the change, in microseconds.
    pub(crate) at: i64,
    pub(crate) subject: Subject,
}

/// The changed row.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Instance(Box<Instance>),
    Event(Event),
    Signal(Signal),
    Worker(Worker),
}

/// An instance after the change; before it, for a delete.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Instance {
    pub(crate) op: Op,
    pub(crate) id: i64,
    pub(crate) machine: String,
    pub(crate) status: outlast::Status,
    pub(crate) revision: i64,
    pub(crate) step: String,
    pub(crate) visit: i64,
    pub(crate) attempt: i32,
    pub(crate) crashes: i32,
    pub(crate) round: i32,
    pub(crate) pending: i32,
    pub(crate) locked_by: Option<i64>,
    pub(crate) eligible_at: i64,
    pub(crate) deadline: Option<i64>,
    pub(crate) partition_key: Option<String>,
    pub(crate) guard: Option<String>,
    pub(crate) parent: Option<i64>,
    pub(crate) parent_round: Option<i32>,
    /// For a child: its position among its siblings, and its close policy.
    pub(crate) position: Option<i32>,
    pub(crate) policy: Option<ClosePolicy>,
    /// For a child in a window: whether it still waits for a slot.
    pub(crate) held: Option<bool>,
    /// For a parent: the join of its last fan-out, its progress, and why it was woken.
    pub(crate) needs: Option<u32>,
    pub(crate) fails_fast: bool,
    pub(crate) window: Option<u32>,
    pub(crate) started: i32,
    pub(crate) failed: i32,
    pub(crate) first_failure: Option<i64>,
    pub(crate) joined: Option<Joined>,
    /// Whether it was asked to cancel, and whether its machine has answered.
    pub(crate) cancelled: bool,
    pub(crate) answered: bool,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    /// For a workflow: its current run, and the number of events in it.
    pub(crate) run: i32,
    pub(crate) events: i32,
    /// When it fails as timed out, over all its runs and because of its current run.
    pub(crate) timeout_at: Option<i64>,
    pub(crate) run_timeout_at: Option<i64>,
    /// Only for inserts.
    pub(crate) state: Option<String>,
}

impl Instance {
    /// Returns whether its machine still has to answer a cancel.
    pub(crate) fn is_to_answer(&self) -> bool {
        self.cancelled && !self.answered
    }

    /// Returns when it fails as timed out, if it has not ended before.
    pub(crate) fn times_out_at(&self) -> Option<i64> {
        self.timeout_at.into_iter().chain(self.run_timeout_at).min()
    }

    /// Returns whether a timeout has ended it.
    pub(crate) fn has_timed_out(&self) -> bool {
        let error = self.error.as_deref().unwrap_or_default();
        self.status == outlast::Status::Failed && error.starts_with(TIMED_OUT)
    }

    /// Returns the condition that wakes it from its last fan-out.
    pub(crate) fn until(&self) -> Until {
        match self.needs {
            Some(needed) => Until::Quorum(needed),
            None if self.fails_fast => Until::FailFast,
            None => Until::All,
        }
    }
}

/// An event of a workflow's history after the change; before it, for a delete.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) instance: i64,
    pub(crate) run: i32,
    pub(crate) seq: i32,
    /// The time of the event, in microseconds.
    pub(crate) at: i64,
    pub(crate) kind: EventKind,
    pub(crate) call: Option<i32>,
    pub(crate) name: String,
    pub(crate) data: serde_json::Value,
}

/// A signal after the change; before it, for a delete.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Signal {
    pub(crate) op: Op,
    pub(crate) id: i64,
    pub(crate) target: i64,
    pub(crate) name: String,
    pub(crate) dedup: Option<String>,
    /// Whether it was consumed: only its dedup key is left, and the reply to an update.
    pub(crate) consumed: bool,
    /// Whether it is an update, and how it was answered.
    pub(crate) wants_reply: bool,
    pub(crate) reply_kind: Option<Answer>,
    pub(crate) reply: Option<serde_json::Value>,
}

/// A registered worker.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Worker {
    pub(crate) id: i64,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Insert,
    Update,
    Delete,
}

/// Installs the triggers.
pub(crate) async fn install(site: &Site) -> Result<()> {
    match site {
        Site::Postgres { url, .. } => {
            let client = site::plain(url).await?;
            client.batch_execute(include_str!("postgres.sql")).await?;
        }
        Site::Sqlite { file } => {
            site::open(file)?.execute_batch(include_str!("sqlite.sql"))?;
        }
    }
    Ok(())
}

/// Passes every change to a callback, in order. With `instance`, only the changes of that
/// instance, its history and its signals.
pub(crate) async fn read(
    site: &Site,
    instance: Option<i64>,
    mut see: impl FnMut(Change),
) -> Result<()> {
    match site {
        Site::Postgres { url, .. } => {
            let client = site::plain(url).await?;
            let sql = "select seq, at, kind, body from torture.audit \
                       where $1::bigint is null \
                          or kind = 'instance' and (body::json ->> 'id')::bigint = $1 \
                          or kind = 'event' and (body::json ->> 'instance')::bigint = $1 \
                          or kind = 'signal' and (body::json ->> 'target')::bigint = $1 \
                       order by seq";
            let rows = client.query_raw(sql, [instance]).await?;
            let mut rows = std::pin::pin!(rows);
            while let Some(row) = rows.try_next().await? {
                see(change(row.get(0), row.get(1), row.get(2), row.get(3))?);
            }
        }
        Site::Sqlite { file } => {
            let connection = site::open(file)?;
            let sql = "select seq, at, kind, body from torture_audit \
                       where ?1 is null \
                          or kind = 'instance' and body ->> 'id' = ?1 \
                          or kind = 'event' and body ->> 'instance' = ?1 \
                          or kind = 'signal' and body ->> 'target' = ?1 \
                       order by seq";
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([instance])?;
            while let Some(row) = rows.next()? {
                let (kind, body): (String, String) = (row.get(2)?, row.get(3)?);
                see(change(row.get(0)?, row.get(1)?, &kind, &body)?);
            }
        }
    }
    Ok(())
}

fn change(seq: i64, at: i64, kind: &str, body: &str) -> Result<Change> {
    let subject = match kind {
        "instance" => serde_json::from_str(body).map(|row| Subject::Instance(Box::new(row))),
        "event" => serde_json::from_str(body).map(Subject::Event),
        "signal" => serde_json::from_str(body).map(Subject::Signal),
        "worker" => serde_json::from_str(body).map(Subject::Worker),
        other => anyhow::bail!("change {seq} is of an unknown kind {other:?}"),
    };
    let subject = subject.with_context(|| format!("change {seq} cannot be read: {body}"))?;
    Ok(Change { seq, at, subject })
}
