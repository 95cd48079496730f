//! The list of conditions that need an operator, for the overview of the dashboard.

use crate::access::tokens::TokenScope;
use crate::bodies::instance::{CountBody, Counts};
use crate::overview::step_counter::OverviewSnapshot;
use outlast_core::{
    Count, OVERDUE_AFTER, QueueSummary, RETRIES_ALARMING, Status, StepCount, Worker,
};
use serde::Serialize;

/// The number of queues and machines listed by name. A longer list would hide the other entries.
const NAMED_MAX: usize = 20;

/// A condition that needs an operator.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Attention {
    /// `expired_leases`, `overdue_timers`, `unserved_queue`, `unserved_machine`, `blocked`,
    /// `retry_storm`, `paused_queue` or `no_deadline`.
    kind: &'static str,
    severity: Severity,
    count: u64,
    /// False when counting stopped at a bound and there may be more.
    exact: bool,
    /// The condition and the remedy, in one sentence.
    sentence: String,
    /// The query of the list that shows the instances; null when the entry is not about instances.
    filter: Option<String>,
    /// The screen to open: `instances`, `queues` or `workers`.
    link: &'static str,
}

/// The severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Work has stopped.
    Error,
    /// Work is slower than it should be, or fails repeatedly.
    Warning,
    /// Worth knowing.
    Notice,
}

/// Counts of instances by step, reduced to what the caller may see.
#[derive(Debug)]
pub(crate) struct StepTotals {
    pub(crate) counts: Counts,
    pub(crate) complete: bool,
    pub(crate) without_deadline: CountBody,
    pub(crate) overdue: CountBody,
    pub(crate) retrying: CountBody,
    pub(crate) blocked: CountBody,
}

/// Lists the conditions that need an operator, the most severe first.
pub(crate) fn attention(
    snapshot: &OverviewSnapshot,
    scope: &TokenScope,
    totals: &StepTotals,
) -> Vec<Attention> {
    let mut all = Vec::new();
    all.extend(expired_leases(snapshot, scope));
    all.extend(overdue_timers(totals.overdue));
    all.extend(blocked(totals.blocked));
    all.extend(retry_storm(totals.retrying));
    all.extend(no_deadline(totals.without_deadline));
    // A token bound to machines may not see what else a queue holds.
    if scope.machines.is_none() {
        let queues = snapshot
            .queues
            .iter()
            .filter(|queue| scope.has_queue(&queue.name));
        all.extend(
            queues
                .filter_map(|queue| stuck(queue, snapshot))
                .take(NAMED_MAX),
        );
    }
    // These counts are by machine, so they would reveal other queues to a token bound to queues.
    if scope.queues.is_none() {
        all.extend(
            unserved_machines(snapshot, scope)
                .into_iter()
                .take(NAMED_MAX),
        );
    }
    all.sort_by_key(|item| item.severity);
    all
}

fn expired_leases(snapshot: &OverviewSnapshot, scope: &TokenScope) -> Option<Attention> {
    let expired = snapshot
        .workers
        .iter()
        .filter(|worker| worker.lease_expires_at <= snapshot.now);
    let expired = expired.filter(|worker| crate::routes::is_seen(worker, scope));
    let count = expired.count() as u64;
    let sentence = match count {
        0 => return None,
        1 => "The lease of 1 worker has expired: it has crashed or lost its connection. Its instances wait until a live worker takes them over.".to_owned(),
        n => format!("The leases of {n} workers have expired: they have crashed or lost their connection. Their instances wait until a live worker takes them over."),
    };
    Some(Attention {
        kind: "expired_leases",
        severity: Severity::Error,
        count,
        exact: true,
        sentence,
        filter: None,
        link: "workers",
    })
}

fn overdue_timers(count: CountBody) -> Option<Attention> {
    let late = OVERDUE_AFTER.as_secs();
    let sentence = match counted(count)? {
        Counted::One => format!(
            "1 instance is more than {late} s past its deadline: no engine is running the timers."
        ),
        Counted::Many(many) => format!(
            "{many} instances are more than {late} s past their deadline: no engine is running the timers, or the engines cannot keep up."
        ),
    };
    Some(of_instances(
        "overdue_timers",
        Severity::Error,
        count,
        sentence,
        "deadline=overdue".into(),
    ))
}

fn blocked(count: CountBody) -> Option<Attention> {
    let sentence = match counted(count)? {
        Counted::One => "1 instance is blocked: its code does not match its history, or it keeps committing without progress. It resumes when a matching build is deployed. See its page for the reason.".to_owned(),
        Counted::Many(many) => format!("{many} instances are blocked: their code does not match their history, or they keep committing without progress. They resume when a matching build is deployed. See their pages for the reasons."),
    };
    let filter = [
        ("status", "runnable,executing"),
        ("error", outlast_core::BLOCKED),
    ];
    let filter = serde_html_form::to_string(filter).unwrap_or_default();
    Some(of_instances(
        "blocked",
        Severity::Error,
        count,
        sentence,
        filter,
    ))
}

fn retry_storm(count: CountBody) -> Option<Attention> {
    let sentence = match counted(count)? {
        Counted::One => format!(
            "1 instance has been retried {RETRIES_ALARMING} times or more at its current step. See its last error."
        ),
        Counted::Many(many) => format!(
            "{many} instances have been retried {RETRIES_ALARMING} times or more at their current step. See their last errors."
        ),
    };
    let filter = format!("status=runnable,executing&attempts_from={RETRIES_ALARMING}");
    Some(of_instances(
        "retry_storm",
        Severity::Warning,
        count,
        sentence,
        filter,
    ))
}

fn no_deadline(count: CountBody) -> Option<Attention> {
    let sentence = match counted(count)? {
        Counted::One => "1 instance waits for a signal without a deadline. If the signal never arrives, it waits forever.".to_owned(),
        Counted::Many(many) => format!("{many} instances wait for a signal without a deadline. If the signal never arrives, they wait forever."),
    };
    Some(of_instances(
        "no_deadline",
        Severity::Notice,
        count,
        sentence,
        "deadline=none".into(),
    ))
}

/// Reports a queue that has work and no worker.
fn stuck(queue: &QueueSummary, snapshot: &OverviewSnapshot) -> Option<Attention> {
    let count = CountBody::from(queue.eligible);
    if matches!(queue.eligible, Count::Exactly(0)) {
        return None;
    }
    let waiting = match counted(count)? {
        Counted::One => "1 instance waits".to_owned(),
        Counted::Many(many) => format!("{} instances wait", many.to_lowercase()),
    };
    let name = &queue.name;
    let (kind, severity, sentence) = if queue.paused {
        let sentence =
            format!("Queue {name} is paused, and {waiting} in it. Resume it to run them.");
        ("paused_queue", Severity::Warning, sentence)
    } else if is_served(name, snapshot) {
        return None;
    } else {
        let sentence =
            format!("No live worker serves queue {name}, where {waiting}. Start a worker for it.");
        ("unserved_queue", Severity::Error, sentence)
    };
    let filter =
        serde_html_form::to_string([("queue", name.as_str()), ("status", "runnable")]).ok();
    Some(Attention {
        kind,
        severity,
        count: count.count,
        exact: count.exact,
        sentence,
        filter,
        link: "queues",
    })
}

fn is_served(queue: &str, snapshot: &OverviewSnapshot) -> bool {
    alive(snapshot).any(|worker| worker.queues.iter().any(|served| served == queue))
}

/// Reports instances at a step that no live worker has: a misspelt name, or a build that is not
/// running. Without any worker the queues are reported instead. A worker that does not list its
/// machines may have any of them.
fn unserved_machines(snapshot: &OverviewSnapshot, scope: &TokenScope) -> Vec<Attention> {
    let lists_machines = |worker: &Worker| !worker.machines.is_empty();
    if alive(snapshot).next().is_none() || !alive(snapshot).all(lists_machines) {
        return Vec::new();
    }
    let counts = snapshot.step_counts.iter();
    let runnable = counts.filter(|it| it.status == Status::Runnable && it.instances > 0);
    runnable
        .filter(|it| scope.has_machine(&it.machine) && !is_known(it, snapshot))
        .map(unserved_machine)
        .collect()
}

fn is_known(count: &StepCount, snapshot: &OverviewSnapshot) -> bool {
    let mut offers = alive(snapshot).flat_map(|worker| &worker.machines);
    offers.any(|offer| {
        let is_it = offer.name == count.machine && offer.version == count.version;
        is_it && (offer.steps.is_empty() || offer.steps.contains(&count.step))
    })
}

fn unserved_machine(count: &StepCount) -> Attention {
    let StepCount {
        machine,
        version,
        step,
        instances,
        ..
    } = count;
    let waiting = match instances {
        1 => "1 instance waits".to_owned(),
        many => format!("{many} instances wait"),
    };
    let sentence = format!(
        "No live worker has step {step} of machine {machine} version {version}, where {waiting}. Deploy a build that has it, or terminate them if the name is wrong."
    );
    let filter = serde_html_form::to_string([
        ("machine", machine.as_str()),
        ("version", &version.to_string()),
        ("step", step),
        ("status", "runnable"),
    ]);
    Attention {
        kind: "unserved_machine",
        severity: Severity::Error,
        count: *instances,
        exact: true,
        sentence,
        filter: filter.ok(),
        link: "instances",
    }
}

fn alive(snapshot: &OverviewSnapshot) -> impl Iterator<Item = &Worker> {
    let workers = snapshot.workers.iter();
    workers.filter(|worker| worker.lease_expires_at > snapshot.now)
}

fn of_instances(
    kind: &'static str,
    severity: Severity,
    count: CountBody,
    sentence: String,
    filter: String,
) -> Attention {
    Attention {
        kind,
        severity,
        count: count.count,
        exact: count.exact,
        sentence,
        filter: Some(filter),
        link: "instances",
    }
}

/// A count, formatted to begin a sentence.
enum Counted {
    One,
    Many(String),
}

fn counted(count: CountBody) -> Option<Counted> {
    match (count.count, count.exact) {
        (0, _) => None,
        (1, true) => Some(Counted::One),
        (many, true) => Some(Counted::Many(many.to_string())),
        (many, false) => Some(Counted::Many(format!("At least {many}"))),
    }
}
