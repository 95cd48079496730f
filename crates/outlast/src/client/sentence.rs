//! The sentences of `explain`: facts in, a sentence out. Nothing here reads a store.

use crate::workflow::{Blocked, OpenWait, Waits, WindowWait};
use outlast_core::{
    Barrier, CancelRequest, Instance, InstanceId, QueueSummary, RepairNeed, RoundSummary, Status,
    Timestamp, Until, Worker, WorkerId, span,
};

/// How many characters of an error a sentence quotes.
const ERROR_CHARS_MAX: usize = 160;

/// How many calls a sentence names; of more it gives the number.
const NAMED_MAX: usize = 3;

/// The facts around an instance; facts that were not read are empty.
#[derive(Debug)]
pub(super) struct InstanceFacts {
    /// The current time of the store.
    pub(super) now: Timestamp,
    /// The queue it is in.
    pub(super) queue: Option<QueueSummary>,
    /// Every registered worker.
    pub(super) workers: Vec<Worker>,
    /// The instance of its partition key that goes first.
    pub(super) ahead: Option<Ahead>,
    /// The children it waits for.
    pub(super) round: Option<RoundSummary>,
    /// The window of its parent's fan-out.
    pub(super) window: Option<u32>,
    /// The waits of a workflow.
    pub(super) waits: Option<Waits>,
    /// What is wrong with it, if nothing would ever wake it.
    pub(super) need: Option<RepairNeed>,
}

/// The instance of a partition key that goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// This instance, which is executing.
    Runs(InstanceId),
    /// This instance, which is runnable.
    IsFirst(InstanceId),
    /// An instance in a line that is too long to read.
    Line,
}

impl InstanceFacts {
    /// Creates the facts of an instance of which only the time is known.
    pub(super) fn at(now: Timestamp) -> InstanceFacts {
        InstanceFacts {
            now,
            queue: None,
            workers: Vec::new(),
            ahead: None,
            round: None,
            window: None,
            waits: None,
            need: None,
        }
    }

    fn is_alive(&self, worker: &Worker) -> bool {
        worker.lease_expires_at > self.now
    }

    /// Returns the live workers that claim from this queue.
    fn serving(&self, queue: &String) -> Vec<&Worker> {
        let workers = self.workers.iter();
        workers
            .filter(|worker| self.is_alive(worker) && worker.queues.contains(queue))
            .collect()
    }
}

/// Says what the instance waits for, and whether it was cancelled.
pub(super) fn sentence(instance: &Instance, around: &InstanceFacts) -> String {
    let stands = standing(instance, around);
    let stands = match &instance.cancel {
        Some(cancel) if !instance.status.is_terminal() => {
            wished(instance.status, cancel, &stands, around.now)
        }
        Some(_) | None => stands,
    };
    match instance.times_out_at() {
        Some(at) => format!("{stands}; it {}", timing_out(at, around.now)),
        None => stands,
    }
}

fn timing_out(at: Timestamp, now: Timestamp) -> String {
    match at > now {
        true => format!(
            "fails as timed out at {} (in {})",
            moment(at, now),
            span(at.since(now))
        ),
        false => format!(
            "fails as timed out now: its time was up {} ago",
            span(now.since(at))
        ),
    }
}

fn wished(status: Status, cancel: &CancelRequest, stands: &str, now: Timestamp) -> String {
    let reason = quoted(&cancel.reason);
    if cancel.answered {
        return format!("does what its machine decided about the cancel ({reason}): it {stands}");
    }
    let asked = format!(
        "was asked to end {} ago ({reason})",
        span(now.since(cancel.requested_at))
    );
    match status {
        Status::Executing => {
            format!("{stands}; it {asked}, and its machine decides now or after this step")
        }
        Status::Runnable
        | Status::AwaitingSignal
        | Status::Sleeping
        | Status::AwaitingChildren
        | Status::Done
        | Status::Failed
        | Status::Cancelled => {
            format!("{asked}; its machine decides when it is claimed: it {stands}")
        }
    }
}

fn standing(instance: &Instance, around: &InstanceFacts) -> String {
    let now = around.now;
    if let Some(need) = around.need {
        return lost(instance, need);
    }
    if let Some(waits) = around.waits.as_ref()
        && let Some(sentence) = flowing(instance, waits, now)
    {
        return sentence;
    }
    match instance.status {
        Status::Runnable if instance.held == Some(true) => held(around),
        Status::Runnable if instance.eligible_at > now => later(instance, around),
        Status::Runnable => due(instance, around),
        Status::Executing => executing(instance, around),
        Status::AwaitingSignal => awaiting_signal(instance, now),
        Status::Sleeping => sleeping(instance, now),
        Status::AwaitingChildren => awaiting_children(instance, around),
        Status::Done | Status::Failed | Status::Cancelled => ended(instance, now),
    }
}

/// Says what is wrong, and how to repair it.
fn lost(instance: &Instance, need: RepairNeed) -> String {
    format!(
        "needs a repair: {}, and nothing would wake it; run `outlast repair {}`",
        need.clause(),
        instance.id
    )
}

fn held(around: &InstanceFacts) -> String {
    match around.window {
        Some(1) => {
            "waits for its turn among the children of its round, which run one at a time".to_owned()
        }
        Some(places) => {
            format!("waits for a place among the {places} of its round that run at a time")
        }
        None => "waits for a place among those of its round that run at a time".to_owned(),
    }
}

/// Says when it is due, and what would be missing then.
fn later(instance: &Instance, around: &InstanceFacts) -> String {
    let when = delayed(instance, around.now);
    let serving = around.serving(&instance.queue);
    match lack(instance, &serving) {
        Some(lack) if !serving.is_empty() => {
            let queue = &instance.queue;
            format!("{when}; no live worker of queue {queue} {lack}")
        }
        Some(_) | None => when,
    }
}

fn delayed(instance: &Instance, now: Timestamp) -> String {
    let (step, at) = (its_step(instance), instance.eligible_at);
    if instance.attempt == 0 {
        return format!("runs{step} {}", until("at", at, now));
    }
    let wait = span(at.since(now));
    let attempt = instance.attempt + 1;
    match &instance.last_error {
        Some(error) => format!(
            "retries{step} in {wait} (attempt {attempt}): last error {}",
            quoted(error)
        ),
        None => format!("runs{step} again in {wait} (attempt {attempt})"),
    }
}

/// Names the step. A workflow has only one step, so it is not named.
fn its_step(instance: &Instance) -> String {
    match instance.is_workflow() {
        true => String::new(),
        false => format!(" step {}", instance.step),
    }
}

fn due(instance: &Instance, around: &InstanceFacts) -> String {
    let queue = &instance.queue;
    if around.queue.as_ref().is_some_and(|queue| queue.paused) {
        return format!("waits in queue {queue}, which is paused");
    }
    let serving = around.serving(queue);
    if serving.is_empty() {
        return format!("is due in queue {queue}, and no live worker serves that queue");
    }
    if let Some(lack) = lack(instance, &serving) {
        return format!("is due in queue {queue}, and no live worker there {lack}");
    }
    match around.ahead {
        Some(Ahead::Runs(other)) => {
            return format!(
                "waits behind instance {other}, which has the same partition key and runs"
            );
        }
        Some(Ahead::IsFirst(other)) => {
            return format!(
                "waits behind instance {other}, which has the same partition key and goes first"
            );
        }
        Some(Ahead::Line) => {
            return "waits in a long line of instances with the same partition key".to_owned();
        }
        None => {}
    }
    let since = span(around.now.since(instance.eligible_at));
    let workers = match serving.len() {
        1 => "1 live worker serves".to_owned(),
        several => format!("{several} live workers serve"),
    };
    format!("is due in queue {queue} since {since}; {workers} that queue")
}

/// Says what the instance needs and no worker has.
///
/// A worker that does not list its machines may have all of them.
fn lack(instance: &Instance, serving: &[&Worker]) -> Option<String> {
    if serving.iter().any(|worker| worker.machines.is_empty()) {
        return None;
    }
    let (machine, version) = (&instance.machine, instance.version);
    let offers = serving.iter().flat_map(|worker| &worker.machines);
    let fitting: Vec<_> = offers
        .filter(|offer| offer.name == *machine && offer.version == version)
        .collect();
    if fitting.is_empty() {
        return Some(format!("has machine {machine} version {version}"));
    }
    let knows = fitting
        .iter()
        .any(|offer| offer.steps.is_empty() || offer.steps.contains(&instance.step));
    (!knows).then(|| {
        format!(
            "knows step {} of machine {machine} version {version}",
            instance.step
        )
    })
}

fn executing(instance: &Instance, around: &InstanceFacts) -> String {
    let (step, now) = (its_step(instance), around.now);
    let is_its = |worker: &&Worker| Some(worker.id) == instance.locked_by;
    let Some(worker) = around.workers.iter().find(is_its) else {
        let WorkerId(id) = instance.locked_by.unwrap_or(WorkerId(0));
        return format!("runs{step} on worker {id}, which is not registered any more");
    };
    let (name, ends) = (&worker.name, worker.lease_expires_at);
    if around.is_alive(worker) {
        let since = span(now.since(instance.updated_at));
        let left = span(ends.since(now));
        return format!("runs{step} on worker {name} (since {since}; lease ends in {left})");
    }
    let ago = span(now.since(ends));
    format!("runs{step} on worker {name}, whose lease ended {ago} ago; the reaper gives it back")
}

fn awaiting_signal(instance: &Instance, now: Timestamp) -> String {
    let names = instance.awaits.as_deref().unwrap_or_default();
    if instance.needs_all
        && let Some(what) = enumerated(names, "and")
    {
        return match instance.await_deadline {
            Some(at) => format!("waits for signal {what}, and {}", until("until", at, now)),
            None => format!("waits for signal {what}, without a deadline"),
        };
    }
    let Some(what) = alternatives(names) else {
        return sleeping(instance, now);
    };
    match instance.await_deadline {
        Some(at) => format!("waits for signal {what} {}", until("until", at, now)),
        None => format!("waits for signal {what}, without a deadline"),
    }
}

fn sleeping(instance: &Instance, now: Timestamp) -> String {
    match instance.await_deadline {
        Some(at) => format!("sleeps {}", until("until", at, now)),
        None => "sleeps without an end".to_owned(),
    }
}

fn awaiting_children(instance: &Instance, around: &InstanceFacts) -> String {
    let waits = match &instance.barrier {
        Some(barrier) => match barrier.until {
            Until::All => awaiting_all(instance, around),
            Until::FailFast => {
                let all = awaiting_all(instance, around);
                format!("{all}, or for the first that ends badly")
            }
            Until::Quorum(needed) => awaiting_quorum(instance, barrier, needed),
        },
        None => awaiting_all(instance, around),
    };
    match instance.await_deadline {
        Some(at) if instance.needs_all => {
            format!("{waits}, and {}", until("until", at, around.now))
        }
        Some(at) => format!("{waits}, {}", until("until", at, around.now)),
        None => waits,
    }
}

/// Uses the parent's counts: a child that finished but is not counted yet still keeps it waiting.
fn awaiting_quorum(instance: &Instance, barrier: &Barrier, needed: u32) -> String {
    let Barrier {
        started, failed, ..
    } = barrier;
    let done = started - failed - instance.children_pending;
    let needed = match (needed, *started) {
        (1, 1) => "its child to be done".to_owned(),
        (1, started) => format!("one of {started} children to be done"),
        (needed, started) => format!("{needed} of {started} children to be done"),
    };
    let mut sentence = format!("waits for {needed}");
    for (children, how) in [(done, "done"), (*failed, "failed or cancelled")] {
        if children > 0 {
            sentence += &format!(", {children} {how}");
        }
    }
    sentence
}

fn awaiting_all(instance: &Instance, around: &InstanceFacts) -> String {
    let pending = u64::try_from(instance.children_pending).unwrap_or_default();
    let counts = around.round.as_ref().map(|round| &round.children[..]);
    let counts = counts.unwrap_or_default();
    let stored: u64 = counts.iter().map(|(_, children)| children).sum();
    let of = |status: Status| counts.iter().find(|(it, _)| *it == status);
    let of = |status: Status| of(status).map_or(0, |(_, children)| *children);
    let ended_badly = [
        (Status::Failed, "failed"),
        (Status::Cancelled, "been cancelled"),
    ];
    let badly: Vec<_> = ended_badly
        .into_iter()
        .filter_map(|(status, how)| match of(status) {
            0 => None,
            1 => Some(format!("1 has {how}")),
            several => Some(format!("{several} have {how}")),
        })
        .collect();
    let children = match stored.max(pending) {
        1 => "its child".to_owned(),
        all if all == pending => format!("all of its {all} children"),
        all => format!("{pending} of {all} children"),
    };
    let mut sentence = format!("waits for {children}");
    for bad in badly {
        sentence += &format!(", {bad}");
    }
    sentence
}

fn ended(instance: &Instance, now: Timestamp) -> String {
    let status = instance.status;
    let at = instance.finished_at.unwrap_or(instance.updated_at);
    let ago = span(now.since(at));
    match (&instance.last_error, status) {
        (Some(error), Status::Failed | Status::Cancelled) => {
            let at = match instance.is_workflow() {
                true if instance.run > 1 => format!(" in run {}", instance.run),
                true => String::new(),
                false => format!(" at step {}", instance.step),
            };
            format!("{status} {ago} ago{at}: {}", quoted(error))
        }
        (_, _) => format!("{status} {ago} ago"),
    }
}

/// Says what a workflow waits for, or why it is blocked; `None` when its history does not show it.
fn flowing(instance: &Instance, waits: &Waits, now: Timestamp) -> Option<String> {
    if let Some(blocked) = &waits.blocked {
        return Some(stuck(instance, blocked, now));
    }
    if !matches!(
        instance.status,
        Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren
    ) {
        return None;
    }
    let awaited: Vec<&OpenWait> = waits.open.iter().filter(|it| it.is_awaited).collect();
    let is_sleep = |it: &&OpenWait| it.kind == "timer" && it.group.is_none();
    if let [only] = awaited[..]
        && is_sleep(&only)
    {
        let at = only.deadline?;
        return Some(format!(
            "sleeps (call {}) {}",
            only.call,
            until("until", at, now)
        ));
    }
    let alone = awaited.iter().filter(|it| it.group.is_none());
    let mut phrases: Vec<String> = alone.map(|it| noun(it, now)).collect();
    for group in &waits.groups {
        let members = awaited.iter().copied().filter(|it| {
            let path = it.group.as_ref().map(|place| &place.path[..]);
            path.and_then(<[i32]>::first) == Some(&group.call)
        });
        let members: Vec<&OpenWait> = members.collect();
        phrases.push(match group.is_selection {
            true => selected(&members, group.open, now),
            false => {
                let (call, open, size) = (group.call, group.open, group.size);
                let calls = format!("{open} of {size} calls of a group (call {call})");
                match (group.window, members.len() == open && open <= NAMED_MAX) {
                    (Some(WindowWait { running, held }), _) if held > 0 => {
                        format!("{calls}, of which {running} have a place and {held} wait for one")
                    }
                    (_, true) => format!("{calls}: {}", listed(&members, "and", now)),
                    (_, false) => calls,
                }
            }
        });
    }
    let phrases = enumerated(&phrases, "and")?;
    let cut = match waits.is_whole {
        true => "",
        false => "; only a part of its history and children was looked at",
    };
    Some(format!("waits for {phrases}{cut}"))
}

/// Says a wait for the first of several calls, of which `open` are open.
///
/// A timer among them is the deadline of the others.
fn selected(members: &[&OpenWait], open: usize, now: Timestamp) -> String {
    let (timers, others): (Vec<&OpenWait>, Vec<&OpenWait>) =
        members.iter().partition(|it| it.kind == "timer");
    let deadline = timers.iter().filter_map(|it| it.deadline).min();
    let is_one_group = others
        .iter()
        .all(|it| it.group.as_ref().is_some_and(|place| place.path.len() > 1));
    let open = open.saturating_sub(timers.len());
    let what = match (others.len(), is_one_group) {
        (0, _) => "a moment".to_owned(),
        (1..=NAMED_MAX, true) => listed(&others, "and", now),
        (1..=NAMED_MAX, false) => listed(&others, "or", now),
        (_, true) => format!("{open} open calls of a group"),
        (_, false) => format!("the first of {open} calls"),
    };
    match deadline {
        Some(at) => format!("{what} {}", until("until", at, now)),
        None => what,
    }
}

fn listed(waits: &[&OpenWait], last: &str, now: Timestamp) -> String {
    let nouns: Vec<String> = waits.iter().map(|it| noun(it, now)).collect();
    enumerated(&nouns, last).unwrap_or_default()
}

/// Names a wait: `child label 43 (call 3)`, `signal approved (call 5)`.
///
/// A timer has its deadline: `a timer (call 6) until 15:04:05 UTC (in 12 min)`.
fn noun(wait: &OpenWait, now: Timestamp) -> String {
    let OpenWait {
        kind, name, call, ..
    } = wait;
    match (wait.child, wait.deadline) {
        (Some(child), _) => format!("{kind} {name} {child} (call {call})"),
        (None, Some(at)) => format!("a {kind} (call {call}) {}", until("until", at, now)),
        (None, None) => format!("{kind} {name} (call {call})"),
    }
}

/// Says both sides of a mismatch between code and history.
fn stuck(instance: &Instance, blocked: &Blocked, now: Timestamp) -> String {
    let (expected, found) = (quoted(&blocked.expected), quoted(&blocked.found));
    let attempt = instance.attempt + 1;
    let again = match instance.status {
        Status::Runnable if instance.eligible_at > now => {
            let wait = span(instance.eligible_at.since(now));
            format!("it is tried again in {wait} (attempt {attempt}), by another build perhaps")
        }
        Status::Runnable
        | Status::Executing
        | Status::AwaitingSignal
        | Status::Sleeping
        | Status::AwaitingChildren
        | Status::Done
        | Status::Failed
        | Status::Cancelled => format!("it is tried again now (attempt {attempt})"),
    };
    format!("is blocked: its history has {expected}, and the code has {found}; {again}")
}

/// Formats `a`, `a or b`, `a, b or c`; `None` for an empty list.
fn alternatives(names: &[String]) -> Option<String> {
    enumerated(names, "or")
}

fn enumerated(names: &[String], conjunction: &str) -> Option<String> {
    let (last, before) = names.split_last()?;
    Some(match before {
        [] => last.clone(),
        before => format!("{} {conjunction} {last}", before.join(", ")),
    })
}

/// Formats a moment with its distance: `until 15:04:05 UTC (in 12 min)`.
fn until(preposition: &str, at: Timestamp, now: Timestamp) -> String {
    let moment = moment(at, now);
    match at > now {
        true => format!("{preposition} {moment} (in {})", span(at.since(now))),
        false => format!(
            "{preposition} {moment}, which was {} ago: the timers wake it",
            span(now.since(at))
        ),
    }
}

/// Returns the first line of an error, cut to the length that a sentence can quote.
fn quoted(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(ERROR_CHARS_MAX).collect();
    if cut.len() < error.trim_end().len() {
        cut.push('…');
    }
    cut
}

/// Formats the time of day in UTC, with the date unless it is today.
fn moment(at: Timestamp, now: Timestamp) -> String {
    const SECONDS_PER_DAY: i64 = 86_400;
    let seconds = at.0.div_euclid(1_000_000);
    let (day, second) = (
        seconds.div_euclid(SECONDS_PER_DAY),
        seconds.rem_euclid(SECONDS_PER_DAY),
    );
    let today = now.0.div_euclid(1_000_000).div_euclid(SECONDS_PER_DAY);
    let time = format!(
        "{:02}:{:02}:{:02} UTC",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    match day == today {
        true => time,
        false => {
            let (year, month, day) = date(day);
            format!("{year:04}-{month:02}-{day:02} {time}")
        }
    }
}

/// Converts a day counted from 1970 to year, month and day.
///
/// Years begin in March here, so that a leap day is the last of a year.
fn date(days_since_1970: i64) -> (i64, i64, i64) {
    const DAYS_PER_400_YEARS: i64 = 146_097;
    const DAYS_FROM_MARCH_OF_YEAR_0: i64 = 719_468;
    let days = days_since_1970 + DAYS_FROM_MARCH_OF_YEAR_0;
    let cycle = days.div_euclid(DAYS_PER_400_YEARS);
    let day_of_cycle = days.rem_euclid(DAYS_PER_400_YEARS);
    // Every fourth year has one more day, except every hundredth, but including every
    // four-hundredth.
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let first = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100;
    let day_of_year = day_of_cycle - first;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
