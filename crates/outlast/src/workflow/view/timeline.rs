//! What happened in a run, as people see it: its events, and after them what its end has meant for its children.
//!
//! A history ends with its run. What the cascade of that end does to the children comes later, is work of its own, and is
//! recorded with the children ([`Client::close_actions`]). Both are put together when somebody looks, so that replay reads nothing
//! but what the code has asked for and what came of it (docs/decisions/0036).

use super::origin::{Calls, Origin};
use crate::client::Client;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{
    ClosePolicy, Event, HistoryRequest, Instance, InstanceId, Operation, OperationId, Result, Rows,
    Status, Timestamp, Verb, is_ended_note,
};

/// Something that the timeline of a run tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimelineEntry {
    /// An event of its history.
    Event(Event),
    /// What became of a child when the run had ended.
    PolicyApplied(PolicyApplied),
}

/// A child was asked to end, or was ended, because the workflow had ended before it did.
///
/// There is none of a child that goes on, that had ended, or that had been asked before. A policy is applied by durable work
/// that is tried until it is done, so there is nothing to tell of one that could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyApplied {
    /// Its place in the timeline: they go on where the events end.
    pub seq: i32,
    /// When.
    pub at: Timestamp,
    /// The child.
    pub child: InstanceId,
    /// What it was under, and so what it was told.
    pub policy: ClosePolicy,
    /// What it was then.
    pub status_before: Option<Status>,
    /// The call that had started it, perhaps in an earlier run; see [`Client::origin`] for when it is not known.
    pub origin: Option<Origin>,
    /// What it was told with: which end of which parent.
    pub reason: String,
}

impl TimelineEntry {
    /// The word of a policy that was applied, as a kind of event.
    pub const POLICY_APPLIED: &'static str = "policy_applied";

    /// Its place in the timeline of its run, counted from 1.
    pub fn seq(&self) -> i32 {
        match self {
            TimelineEntry::Event(event) => event.seq,
            TimelineEntry::PolicyApplied(policy) => policy.seq,
        }
    }

    /// When it happened.
    pub fn at(&self) -> Timestamp {
        match self {
            TimelineEntry::Event(event) => event.at,
            TimelineEntry::PolicyApplied(policy) => policy.at,
        }
    }

    /// The word for what it says.
    pub fn kind(&self) -> &'static str {
        match self {
            TimelineEntry::Event(event) => event.kind.as_str(),
            TimelineEntry::PolicyApplied(_) => TimelineEntry::POLICY_APPLIED,
        }
    }
}

impl PolicyApplied {
    /// The call, where this run has made it: calls are numbered anew in each.
    pub fn call_in(&self, run: i32) -> Option<i32> {
        let origin = self.origin.as_ref()?;
        (origin.run == run).then_some(origin.call)
    }
}

impl Client {
    /// A page of the timeline of a run, in the order in which it happened: at most `max` after the one at `after`.
    /// [`Rows::more`] tells whether more follow: a page with large data is shorter than its `max`.
    pub async fn timeline(
        &self,
        instance: &Instance,
        run: i32,
        after: i32,
        max: usize,
    ) -> Result<Rows<TimelineEntry>> {
        let request = HistoryRequest {
            id: instance.id,
            run,
            after,
            max,
        };
        let events = self.history(request).await?;
        let left = max - events.len();
        // Policies follow the last event. One more than fits tells whether there are more.
        let policies = match events.more {
            true => Vec::new(),
            false => self.policies(instance, run, after, left + 1).await?,
        };
        let more = events.more || policies.len() > left;
        let events = events.into_iter().map(TimelineEntry::Event);
        let policies = policies.into_iter().map(TimelineEntry::PolicyApplied);
        Ok(Rows {
            rows: events.chain(policies.take(left)).collect(),
            more,
        })
    }

    /// What the end of a run has meant for children, in the order in which it was done; nothing while the run goes on.
    pub(in crate::workflow) async fn policies(
        &self,
        instance: &Instance,
        run: i32,
        after: i32,
        max: usize,
    ) -> Result<Vec<PolicyApplied>> {
        let is_over = instance.status.is_terminal() || run < instance.run;
        if instance.round == 0 || !is_over || !instance.is_workflow() {
            return Ok(Vec::new());
        }
        let mut calls = Calls::of(self, instance.id).await?;
        let Some(span) = TimelineSpan::of(&calls, run) else {
            return Ok(Vec::new());
        };
        let mut policies: Vec<PolicyApplied> = Vec::new();
        let (mut seq, mut last): (i32, Option<OperationId>) = (span.events, None);
        loop {
            let page = self.store.close_actions(instance.id, last).await?;
            last = page.last().map(|operation| operation.id);
            let applied = page.iter().filter(|it| span.has(it.at));
            for (operation, child, policy) in applied.filter_map(|it| applied_by(instance.id, it)) {
                seq += 1;
                if seq <= after {
                    continue;
                }
                policies.push(PolicyApplied {
                    seq,
                    at: operation.at,
                    child,
                    policy,
                    status_before: operation.status_before,
                    origin: self.origin_among(&mut calls, child).await?,
                    reason: operation.reason.clone().unwrap_or_default(),
                });
                if policies.len() == max {
                    return Ok(policies);
                }
            }
            if page.len() < PAGE_MAX {
                return Ok(policies);
            }
        }
    }

    async fn origin_among(
        &self,
        calls: &mut Calls<'_>,
        child: InstanceId,
    ) -> Result<Option<Origin>> {
        let child = self.store.get(child).await?;
        let place = child.and_then(|it| Some((it.parent?.round, it.position?)));
        match place {
            Some(place) => calls.find(place).await,
            None => Ok(None),
        }
    }
}

/// From when to when a run was the present one, and how many events it has.
struct TimelineSpan {
    events: i32,
    from: Timestamp,
    until: Option<Timestamp>,
}

impl TimelineSpan {
    fn of(calls: &Calls<'_>, run: i32) -> Option<TimelineSpan> {
        let runs = calls.runs();
        let index = runs.iter().position(|it| it.run == run)?;
        Some(TimelineSpan {
            events: runs[index].events,
            from: runs[index].started_at,
            until: runs.get(index + 1).map(|next| next.started_at),
        })
    }

    fn has(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// The child and the policy, when what was done was done because its parent had ended: not by a tree that somebody ended.
fn applied_by(
    parent: InstanceId,
    operation: &Operation,
) -> Option<(&Operation, InstanceId, ClosePolicy)> {
    if !is_ended_note(parent, &operation.by, operation.reason.as_deref()) {
        return None;
    }
    let policy = match operation.verb {
        Verb::Cancel => ClosePolicy::RequestCancel,
        Verb::Terminate => ClosePolicy::Terminate,
        Verb::Retry | Verb::Pause | Verb::Resume | Verb::Delete => return None,
    };
    Some((operation, operation.instance?, policy))
}
