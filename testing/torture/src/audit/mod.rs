//! What the database committed, change by change: triggers write it in the transaction that makes the change.

use crate::site::{self, Site};
use anyhow::{Context as _, Result};
use futures_util::TryStreamExt;
use outlast_core::{ClosePolicy, EventKind, Joined, Until};
use serde::Deserialize;

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) seq: i64,
    /// When it was made, by the database's clock; in microseconds.
    pub(crate) at: i64,
    pub(crate) subject: Subject,
}

/// Who changed.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Instance(Box<Instance>),
    Event(Event),
    Signal(Signal),
    Worker(Worker),
}

/// An instance after the change; before it, when it was deleted.
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
    /// As a child: its position among its siblings, and what becomes of it when its parent ends.
    pub(crate) position: Option<i32>,
    pub(crate) policy: Option<ClosePolicy>,
    /// In a window: whether it still waits for a place.
    pub(crate) held: Option<bool>,
    /// As a parent, of its last fan-out: how it joins, how it stands, and why it was woken.
    pub(crate) needs: Option<u32>,
    pub(crate) fails_fast: bool,
    pub(crate) window: Option<u32>,
    pub(crate) started: i32,
    pub(crate) failed: i32,
    pub(crate) first_failure: Option<i64>,
    pub(crate) joined: Option<Joined>,
    /// Whether it was asked to end, and whether its machine has decided about that.
    pub(crate) cancelled: bool,
    pub(crate) answered: bool,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    /// As a workflow: which run it is in, and how many events that has.
    pub(crate) run: i32,
    pub(crate) events: i32,
    /// Only of inserts.
    pub(crate) state: Option<String>,
}

impl Instance {
    /// Whether its machine is still to decide about a cancel.
    pub(crate) fn is_to_answer(&self) -> bool {
        self.cancelled && !self.answered
    }

    /// What wakes it from its last fan-out.
    pub(crate) fn until(&self) -> Until {
        match self.needs {
            Some(needed) => Until::Quorum(needed),
            None if self.fails_fast => Until::FailFast,
            None => Until::All,
        }
    }
}

/// An event of a workflow's history after the change; before it, when it was deleted.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) instance: i64,
    pub(crate) run: i32,
    pub(crate) seq: i32,
    /// Its own moment, in microseconds.
    pub(crate) at: i64,
    pub(crate) kind: EventKind,
    pub(crate) call: Option<i32>,
    pub(crate) name: String,
    pub(crate) data: serde_json::Value,
}

/// A signal after the change; before it, when it was deleted.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Signal {
    pub(crate) op: Op,
    pub(crate) id: i64,
    pub(crate) target: i64,
    pub(crate) name: String,
    pub(crate) dedup: Option<String>,
    /// Only its dedup key is left of it.
    pub(crate) consumed: bool,
}

/// A worker that registered.
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

/// Makes the database keep an audit, from now on.
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

/// Shows every change, in order. What is asked for with `instance` is the story of one: its own changes, its history and
/// its signals.
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
