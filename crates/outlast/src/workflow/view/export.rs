//! A run with its history, as a document: to be looked at, and to be replayed against other code.

use super::timeline::{PolicyApplied, TimelineEntry};
use crate::client::Client;
use crate::workflow::replay::events::{Renewed, data_of};
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    ClosePolicy, Event, EventKind, HistoryRequest, Instance, InstanceId, Json, Result, RunSummary,
    Status, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The form of the document; what reads it knows by this whether it can.
const FORMAT: u32 = 1;

/// One run of a workflow, whole: `outlast export` writes it, [`testing::replay`](crate::testing::replay) reads it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedRun {
    /// The form of this document.
    pub format: u32,
    /// The instance.
    pub instance: InstanceId,
    /// Its workflow.
    pub workflow: String,
    /// In which version.
    pub version: i32,
    /// Which run of it.
    pub run: i32,
    /// Its correlation key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// How the instance stands.
    pub status: Status,
    /// What the run began with.
    pub input: Json,
    /// What happened, in order.
    pub events: Vec<ExportedEvent>,
    /// What the end of the run has meant for its children, in order. It is no part of what code is held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ExportedPolicy>,
}

/// A policy of an exported history that was applied to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedPolicy {
    /// Its place: they go on where the events end.
    pub seq: i32,
    /// When it was applied, in microseconds since 1970.
    pub at: Timestamp,
    /// `policy_applied`.
    pub kind: String,
    /// The run that had started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i32>,
    /// The call of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// What that call names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The child.
    pub child: InstanceId,
    /// What it was told.
    pub policy: ClosePolicy,
    /// What it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_before: Option<Status>,
    /// Which end of which parent it was told.
    pub reason: String,
}

impl From<PolicyApplied> for ExportedPolicy {
    fn from(applied: PolicyApplied) -> ExportedPolicy {
        let origin = applied.origin;
        ExportedPolicy {
            seq: applied.seq,
            at: applied.at,
            kind: TimelineEntry::POLICY_APPLIED.to_owned(),
            run: origin.as_ref().map(|it| it.run),
            call: origin.as_ref().map(|it| it.call),
            name: origin.map(|it| it.name).unwrap_or_default(),
            child: applied.child,
            policy: applied.policy,
            status_before: applied.status_before,
            reason: applied.reason,
        }
    }
}

/// An event of an exported history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedEvent {
    /// Its place, counted from 1.
    pub seq: i32,
    /// When it happened, in microseconds since 1970.
    pub at: Timestamp,
    /// What it says.
    pub kind: EventKind,
    /// The call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// What that call names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What else there is to say.
    pub data: Json,
}

impl From<Event> for ExportedEvent {
    fn from(event: Event) -> ExportedEvent {
        ExportedEvent {
            seq: event.seq,
            at: event.at,
            kind: event.kind,
            call: event.call,
            name: event.name,
            data: event.data,
        }
    }
}

impl ExportedRun {
    /// Reads what an export has written.
    pub fn parse(text: &str) -> std::result::Result<ExportedRun, outlast_core::Invalid> {
        let history: ExportedRun = serde_json::from_str(text)
            .map_err(|error| outlast_core::Invalid::new("history", error.to_string()))?;
        if history.format != FORMAT {
            let reason = format!(
                "has form {}; this build reads form {FORMAT}",
                history.format
            );
            return Err(outlast_core::Invalid::new("history", reason));
        }
        Ok(history)
    }
}

impl Client {
    /// One run of a workflow with its history, whole; the present one unless another is named. `None` when there is no such
    /// instance or run, its history is no longer stored, or it is a machine's: that is nothing to replay.
    pub async fn export(
        &self,
        id: impl Into<InstanceId>,
        run: Option<i32>,
    ) -> Result<Option<ExportedRun>> {
        let id = id.into();
        let Some(instance) = self.get(id).await? else {
            return Ok(None);
        };
        let run = run.unwrap_or(instance.run);
        let stored = self.histories(id).await?;
        let is_meant = |it: &RunSummary| it.run == run && it.last != EventKind::Transitioned;
        if !stored.iter().any(is_meant) {
            return Ok(None);
        }
        let events = self.events_of(id, run).await?;
        let input = self.input_of(&instance, run, &stored).await?;
        let policies = self.policies(&instance, run, 0, usize::MAX).await?;
        Ok(Some(ExportedRun {
            format: FORMAT,
            instance: id,
            workflow: instance.machine,
            version: instance.version,
            run,
            key: instance.correlation_key,
            trace: instance.trace,
            status: instance.status,
            input,
            events: events.into_iter().map(Into::into).collect(),
            policies: policies.into_iter().map(Into::into).collect(),
        }))
    }

    /// Every event of a run.
    pub async fn events_of(&self, id: InstanceId, run: i32) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let page = HistoryRequest {
                id,
                run,
                after: events.last().map_or(0, |event| event.seq),
                max: HISTORY_PAGE_MAX,
            };
            let page = self.history(page).await?;
            events.extend(page.rows);
            if !page.more {
                return Ok(events);
            }
        }
    }

    /// What a run began with. The present one's is the state of the instance; one that began another run has left its own
    /// with its last event; one that an operator began anew had the input of the next.
    async fn input_of(&self, instance: &Instance, run: i32, stored: &[RunSummary]) -> Result<Json> {
        for run in stored
            .iter()
            .filter(|it| it.run >= run && it.run < instance.run)
        {
            let last = HistoryRequest {
                id: instance.id,
                run: run.run,
                after: run.events - 1,
                max: 1,
            };
            let last = self.history(last).await?.rows.pop();
            let renewed: Option<Renewed> =
                last.as_ref().and_then(|event| data_of(&event.data).ok());
            if let Some(Renewed { input: Some(input) }) = renewed {
                return Ok(input);
            }
        }
        Ok(instance.state.clone())
    }
}
