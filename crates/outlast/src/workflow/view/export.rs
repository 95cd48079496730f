//! Exports a run with its history as a document, to inspect it or to replay it against other code.

use super::lineage::ChildCall;
use super::timeline::{PolicyApplied, TimelineEntry};
use crate::client::Admin;
use crate::workflow::replay::events::{Renewed, data_of};
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    ClosePolicy, Event, EventKind, HistoryRequest, Instance, InstanceId, Json, Result, RunSummary,
    Status, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The format of the document. Readers check whether they support it.
const FORMAT: u32 = 1;

/// One complete run of a workflow.
///
/// `outlast export` writes it, [`testing::Replay`](crate::testing::Replay) reads it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedRun {
    /// The format of this document.
    pub format: u32,
    /// The instance.
    pub instance: InstanceId,
    /// Its workflow.
    pub workflow: String,
    /// The version of the workflow.
    pub version: i32,
    /// The number of the run.
    pub run: i32,
    /// Its correlation key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The status of the instance.
    pub status: Status,
    /// The input of the run.
    pub input: Json,
    /// The events, in order.
    pub events: Vec<ExportedEvent>,
    /// The close policies that the end of the run applied, in order. A replay does not read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ExportedPolicy>,
    /// The stored children whose end is not in the events, by call. A replay does not read them.
    ///
    /// A parked workflow records their newest run when it is next woken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ExportedChild>,
}

/// A child of an exported run whose end is not recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedChild {
    /// The call that started it.
    pub call: i32,
    /// Its machine.
    pub machine: String,
    /// The child.
    pub child: InstanceId,
    /// Its newest run.
    pub run: i32,
    /// Its status at the time of the export.
    pub status: Status,
}

impl ExportedChild {
    /// Returns a child as a call has it; `None` if its end is recorded or it is not stored.
    fn of(call: ChildCall) -> Option<ExportedChild> {
        if call.is_recorded {
            return None;
        }
        Some(ExportedChild {
            call: call.call,
            machine: call.machine,
            child: call.child?,
            run: call.run?,
            status: call.status?,
        })
    }
}

/// A close policy of an exported history that was applied to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedPolicy {
    /// Its sequence number, which continues after the events.
    pub seq: i32,
    /// When it was applied, in microseconds since 1970.
    pub at: Timestamp,
    /// `policy_applied`.
    pub kind: String,
    /// The run that started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i32>,
    /// The call of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// The name of that call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The child.
    pub child: InstanceId,
    /// The policy that was applied.
    pub policy: ClosePolicy,
    /// The child's status before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_before: Option<Status>,
    /// Which end of which parent was the cause.
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
    /// Its sequence number, counted from 1.
    pub seq: i32,
    /// When it happened, in microseconds since 1970.
    pub at: Timestamp,
    /// Its kind.
    pub kind: EventKind,
    /// The call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// The name of that call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The data of its kind.
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
    /// Parses an exported document.
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

impl Admin<'_> {
    /// Exports one complete run of a workflow. Default: the current run.
    ///
    /// Returns `None` when there is no such instance or run, or when its history is no longer
    /// stored. The history of a machine is not exported either: it cannot be replayed.
    pub async fn export(
        self,
        id: impl Into<InstanceId>,
        run: Option<i32>,
    ) -> Result<Option<ExportedRun>> {
        let id = id.into();
        let Some(instance) = self.client.find(id).await? else {
            return Ok(None);
        };
        let run = run.unwrap_or(instance.run);
        let stored = self.histories(id).await?;
        let is_meant = |it: &RunSummary| it.run == run && it.last != EventKind::Transitioned;
        if !stored.iter().any(is_meant) {
            return Ok(None);
        }
        let events = self.events_of(id, run).await?;
        // The last event of a machine that timed out is no transition.
        if events.first().map(|it| it.kind) == Some(EventKind::Transitioned) {
            return Ok(None);
        }
        let input = self.input_of(&instance, run, &stored).await?;
        let policies = self.policies(&instance, run, 0, usize::MAX).await?;
        let children = self.child_calls(&instance, run, 0, usize::MAX).await?;
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
            children: children.into_iter().filter_map(ExportedChild::of).collect(),
        }))
    }

    /// Returns every event of a run.
    pub async fn events_of(self, id: impl Into<InstanceId>, run: i32) -> Result<Vec<Event>> {
        let id = id.into();
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

    /// Returns the input of a run.
    ///
    /// The input of the current run is the state of the instance. A run that continued as new has
    /// its input in its last event. A run that an operator retried has the same input as the next
    /// one.
    async fn input_of(self, instance: &Instance, run: i32, stored: &[RunSummary]) -> Result<Json> {
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
