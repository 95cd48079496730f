//! The timeline of a run: its events, followed by the close policies that its end applied.
//!
//! A history ends with its run. The cascade of that end acts on the children later and is recorded
//! with them ([`Admin::close_actions`]). Both are combined only for display. So a replay reads
//! only the calls of the code and their results (docs/decisions/0036).

use super::origin::{Calls, Origin};
use crate::client::Admin;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{
    ClosePolicy, Event, HistoryRequest, Instance, InstanceId, Operation, OperationId, Result, Rows,
    Status, Timestamp, Verb, is_ended_note,
};

/// An entry of the timeline of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimelineEntry {
    /// An event of its history.
    Event(Event),
    /// A close policy that was applied to a child after the run had ended.
    PolicyApplied(PolicyApplied),
}

/// A child was cancelled or terminated because the workflow ended before it did.
///
/// There is no entry for a child that continues, had ended, or had been asked to end before.
/// Durable work applies a policy and retries until it is done, so there are no entries for
/// failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyApplied {
    /// Its sequence number, which continues after the events.
    pub seq: i32,
    /// When it was applied.
    pub at: Timestamp,
    /// The child.
    pub child: InstanceId,
    /// The policy of the child that was applied.
    pub policy: ClosePolicy,
    /// The child's status before.
    pub status_before: Option<Status>,
    /// The call that started it, perhaps in an earlier run. See [`Admin::origin`](crate::client::Admin::origin) for when it is
    /// unknown.
    pub origin: Option<Origin>,
    /// Which end of which parent was the cause.
    pub reason: String,
}

impl TimelineEntry {
    /// The kind of an applied policy, as a word.
    pub const POLICY_APPLIED: &'static str = "policy_applied";

    /// Returns its sequence number in the timeline, counted from 1.
    pub fn seq(&self) -> i32 {
        match self {
            TimelineEntry::Event(event) => event.seq,
            TimelineEntry::PolicyApplied(policy) => policy.seq,
        }
    }

    /// Returns when it happened.
    pub fn at(&self) -> Timestamp {
        match self {
            TimelineEntry::Event(event) => event.at,
            TimelineEntry::PolicyApplied(policy) => policy.at,
        }
    }

    /// Returns the word for its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            TimelineEntry::Event(event) => event.kind.as_str(),
            TimelineEntry::PolicyApplied(_) => TimelineEntry::POLICY_APPLIED,
        }
    }
}

impl PolicyApplied {
    /// Returns the call, if this run made it: each run numbers its calls from the start.
    pub fn call_in(&self, run: i32) -> Option<i32> {
        let origin = self.origin.as_ref()?;
        (origin.run == run).then_some(origin.call)
    }
}

impl Admin<'_> {
    /// Returns a page of the timeline, in order: at most `max` entries after the one at `after`.
    ///
    /// [`Rows::more`] says whether more follow: a page with large data is shorter than its `max`.
    pub async fn timeline(
        self,
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
        // Policies follow the last event. Read one more than fits, to know whether there are more.
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

    /// Returns the policies that the end of a run applied, in order; none while the run continues.
    pub(in crate::workflow) async fn policies(
        self,
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
            let page = self.client.store.close_actions(instance.id, last).await?;
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
        self,
        calls: &mut Calls<'_>,
        child: InstanceId,
    ) -> Result<Option<Origin>> {
        let child = self.client.store.get(child).await?;
        let place = child.and_then(|it| Some((it.parent?.round, it.position?)));
        match place {
            Some(place) => calls.find(place).await,
            None => Ok(None),
        }
    }
}

/// When a run was the current one, and how many events it has.
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

/// Returns the child and the policy if a parent's end was the cause.
///
/// A tree that an operator ended is not included.
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
        Verb::Retry | Verb::Pause | Verb::Resume | Verb::Delete | Verb::Repair => return None,
    };
    Some((operation, operation.instance?, policy))
}
