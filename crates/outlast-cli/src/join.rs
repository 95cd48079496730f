//! Texts for the join of a fan-out and for the close policy of a child.

use crate::format::{relative, time_of_day};
use outlast::Status;
use outlast::store::{Barrier, CancelRequest, ClosePolicy, Instance, Joined, Timestamp, Until};

/// Formats the progress of the last fan-out: `waits for all: 37 of 50 finished, 2 failed; window of
/// 5`. Returns `None` if the instance never fanned out.
pub(crate) fn meter(it: &Instance, now: Timestamp) -> Option<String> {
    let barrier = it.barrier.as_ref()?;
    let waits = it.status == Status::AwaitingChildren;
    let mut parts = vec![match waits {
        true => format!("{}: {}", condition(barrier.until), counts(barrier, it)),
        false => format!("{}: {}", decision(barrier, it), counts(barrier, it)),
    }];
    if let Some(window) = barrier.window {
        parts.push(format!("window of {window}"));
    }
    if let (true, Some(at)) = (waits, it.await_deadline) {
        let bound = match it.needs_all {
            true => "not before",
            false => "until",
        };
        parts.push(format!(
            "{bound} {} UTC ({})",
            time_of_day(at),
            relative(at, now)
        ));
    }
    let lived = it.children_pending > 0 && barrier.joined.is_some();
    parts.extend(rest(barrier.rest, waits, lived).map(str::to_owned));
    Some(parts.join("; "))
}

fn condition(until: Until) -> String {
    match until {
        Until::All => "waits for all".to_owned(),
        Until::FailFast => "waits for all or the first failure".to_owned(),
        Until::Quorum(1) => "waits for any 1 done".to_owned(),
        Until::Quorum(needed) => format!("waits for any {needed} done"),
    }
}

fn decision(barrier: &Barrier, it: &Instance) -> String {
    let first = barrier.first_failure;
    match (barrier.joined, first) {
        (Some(Joined::All), _) => "joined".to_owned(),
        (Some(Joined::Failure), Some(first)) => format!("joined by the failure of {first}"),
        (Some(Joined::Failure), None) => "joined by a failure".to_owned(),
        (Some(Joined::Quorum), _) => "joined by the quorum".to_owned(),
        (Some(Joined::Impossible), _) => "joined without the quorum".to_owned(),
        (Some(Joined::Deadline), _) => "joined by the deadline".to_owned(),
        (None, _) if it.cancel.is_some() => "not joined, cancelled first".to_owned(),
        (None, _) => "not joined, ended first".to_owned(),
    }
}

/// A join of all children counts finished ones, a quorum counts those that are done.
fn counts(barrier: &Barrier, it: &Instance) -> String {
    let (started, failed) = (barrier.started, barrier.failed);
    let ended = started - it.children_pending;
    let mut counts = match barrier.until {
        Until::All | Until::FailFast => format!("{ended} of {started} finished"),
        Until::Quorum(_) => format!("{} of {started} done", ended - failed),
    };
    if failed > 0 {
        counts += &format!(", {failed} failed");
    }
    counts
}

fn rest(policy: ClosePolicy, waits: bool, lived: bool) -> Option<&'static str> {
    match (policy, waits, lived) {
        (ClosePolicy::RequestCancel, true, _) => Some("then cancels the rest"),
        (ClosePolicy::Terminate, true, _) => Some("then terminates the rest"),
        (ClosePolicy::RequestCancel, false, true) => Some("the rest is cancelled"),
        (ClosePolicy::Terminate, false, true) => Some("the rest is terminated"),
        (ClosePolicy::Abandon, false, true) => Some("the rest continues"),
        (ClosePolicy::Abandon, true, _) | (_, false, false) => None,
    }
}

/// Formats the close policy of a child.
pub(crate) fn policy(policy: ClosePolicy) -> &'static str {
    match policy {
        ClosePolicy::Abandon => "continues without its parent",
        ClosePolicy::RequestCancel => "cancelled with its parent",
        ClosePolicy::Terminate => "terminated with its parent",
    }
}

/// Formats `requested 3 s ago, not answered yet: cancelled by ada`.
pub(crate) fn cancel(request: &CancelRequest, now: Timestamp) -> String {
    let since = relative(request.requested_at, now);
    let answered = match request.answered {
        true => "answered",
        false => "not answered yet",
    };
    format!("requested {since}, {answered}: {}", request.reason)
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
