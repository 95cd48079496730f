//! The steps of a random sequence, before they are sent to a store.
//!
//! A step says "the third of the live claims", not "claim 17". It is resolved against the rows
//! that exist when it runs. A sequence therefore still makes sense after shrinking removes steps.
//! Names and keys are few, so that rows meet each other often.

mod flowing;
mod joining;

pub(super) use flowing::{Flowing, JoinSet, Parking, Then};
pub(super) use joining::JoinProgress;

use flowing::flowing;
use joining::joining;
use outlast_core::{
    ClosePolicy, Json, KeyText, MachineVersion, NewInstance, Scope, Start, Status, Timestamp,
};
use proptest::bool::weighted as weighted_bool;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use std::time::Duration;

pub(super) const QUEUES: [&str; 2] = ["default", "mail"];
pub(super) const NAMES: [&str; 3] = ["x", "y", "z"];
const MACHINES: [(&str, i32); 4] = [("a", 1), ("a", 2), ("b", 1), (WORKFLOW, 1)];

/// The machine whose instances are workflows.
pub(super) const WORKFLOW: &str = "w";

/// A number that picks one of the existing rows.
pub(super) type Pick = usize;

/// One verb, with picks instead of ids.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Insert {
        rows: Vec<Row>,
        claim_for: Option<Pick>,
    },
    Claim {
        worker: Pick,
        queue: usize,
        machines: Option<usize>,
        max: usize,
    },
    Commit(Vec<Decision>),
    Release {
        claims: Vec<Pick>,
        pause: u64,
    },
    ClaimsOf(Pick),
    Deliver {
        letters: Vec<Letter>,
        claim_for: Option<ClaimOffer>,
    },
    SignalOrInsert {
        row: Row,
        letter: Letter,
    },
    Register {
        lease: u64,
    },
    Heartbeat {
        worker: Pick,
        lease: u64,
    },
    Deregister(Pick),
    Reap {
        max: usize,
        crashes_max: i32,
    },
    Fire {
        max: usize,
    },
    TimeOut {
        max: usize,
    },
    Collect {
        retention: u64,
        max: usize,
    },
    NeedingRepair {
        after: Option<Pick>,
        max: usize,
    },
    Repair(Vec<Pick>),
    Cancel {
        picks: Vec<Pick>,
        tree: bool,
    },
    Terminate {
        picks: Vec<Pick>,
        tree: bool,
    },
    Cascade {
        max: usize,
    },
    Retry(Vec<Pick>),
    Delete(Vec<Pick>),
    Pause(usize),
    Resume(usize),
    /// Advances the clock.
    Pass(u64),
}

/// An instance to insert.
#[derive(Clone, Debug)]
pub(super) struct Row {
    machine: usize,
    queue: usize,
    priority: i16,
    start: i64,
    partition: Option<usize>,
    correlation: Option<(usize, usize)>,
    trace: Option<usize>,
    on_parent_close: usize,
    /// Of the instance, and of each run of it.
    timeouts: (Option<u64>, Option<u64>),
}

/// The decision of a step for one claim.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) claim: Pick,
    /// How many of the awaited signals it claims to have received. Default: all.
    pub(super) received: Option<usize>,
    pub(super) kind: Kind,
    /// How many events it adds to the history.
    pub(super) events: usize,
}

/// The outcomes, and some that can never be written.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Keep,
    Requeue,
    Retry { delay: u64, error: bool },
    Wait { names: usize, timeout: Option<u64> },
    FanOut(Vec<Row>, JoinProgress),
    Flow(Flowing),
    Renew,
    Done,
    Stop,
    Cancel,
    EndlessSleep,
    EndlessPark,
    NamelessStep,
}

/// A signal to send.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) target: Pick,
    /// Sends it to a correlation key instead.
    pub(super) key: Option<(usize, usize)>,
    pub(super) name: usize,
    pub(super) dedup: Option<usize>,
}

/// The worker that claims the instances that a delivery wakes.
#[derive(Clone, Debug)]
pub(super) struct ClaimOffer {
    pub(super) worker: Pick,
    /// One of the queues, or all.
    pub(super) queue: Option<usize>,
    pub(super) machines: Option<usize>,
}

/// The focus of a sequence. Without one, the situations that take several steps in a row are rare.
#[derive(Clone, Copy, Debug)]
pub(super) enum Theme {
    Everything,
    Families,
    Signals,
    Workflows,
}

impl Theme {
    pub(super) fn of(seed: u64) -> Theme {
        match seed % 5 {
            0 => Theme::Families,
            1 => Theme::Signals,
            2 => Theme::Workflows,
            _ => Theme::Everything,
        }
    }

    fn weigh<T>(self, everything: T, families: T, signals: T, workflows: T) -> T {
        match self {
            Theme::Everything => everything,
            Theme::Families => families,
            Theme::Signals => signals,
            Theme::Workflows => workflows,
        }
    }
}

/// Any step. The theme sets the probabilities.
pub(super) fn step(theme: Theme) -> impl Strategy<Value = Step> {
    let queue = 0..QUEUES.len();
    let weigh = |everything, families, signals, workflows| {
        theme.weigh(everything, families, signals, workflows)
    };
    prop_oneof![
        weigh(14, 8, 8, 8) => (vec(row(theme), 1..6), weighted(0.25, pick()))
            .prop_map(|(rows, claim_for)| Step::Insert { rows, claim_for }),
        weigh(22, 28, 24, 34) => (pick(), queue.clone(), weighted(0.15, 0..16usize), 0..9usize)
            .prop_map(|(worker, queue, machines, max)| Step::Claim { worker, queue, machines, max }),
        weigh(28, 34, 28, 50) => vec(decision(theme), 1..7).prop_map(Step::Commit),
        weigh(4, 1, 1, 1) => (vec(pick(), 1..3), prop_oneof![Just(0), 1..9u64])
            .prop_map(|(claims, pause)| Step::Release { claims, pause }),
        weigh(2, 1, 1, 1) => pick().prop_map(Step::ClaimsOf),
        weigh(10, 2, 24, 16) => (vec(letter(), 1..4), weighted(0.4, offer()))
            .prop_map(|(letters, claim_for)| Step::Deliver { letters, claim_for }),
        weigh(5, 2, 12, 2) => (keyed_row(theme), letter())
            .prop_map(|(row, letter)| Step::SignalOrInsert { row, letter }),
        weigh(3, 1, 1, 1) => (5..50u64).prop_map(|lease| Step::Register { lease }),
        2 => (pick(), 5..50u64).prop_map(|(worker, lease)| Step::Heartbeat { worker, lease }),
        weigh(2, 1, 1, 1) => pick().prop_map(Step::Deregister),
        weigh(7, 11, 2, 3) => (prop_oneof![1 => 1..4usize, 2 => Just(100)], prop_oneof![3 => Just(0), 1 => 1..4])
            .prop_map(|(max, crashes_max)| Step::Reap { max, crashes_max }),
        weigh(5, 1, 5, 4) => prop_oneof![1 => 1..3usize, 2 => Just(100)]
            .prop_map(|max| Step::Fire { max }),
        weigh(2, 2, 1, 2) => prop_oneof![1 => 1..3usize, 2 => Just(100)]
            .prop_map(|max| Step::TimeOut { max }),
        weigh(3, 3, 1, 2) => (prop_oneof![Just(0), 1..60u64], prop_oneof![1..4usize, Just(100)])
            .prop_map(|(retention, max)| Step::Collect { retention, max }),
        1 => (weighted(0.5, pick()), 1..50usize)
            .prop_map(|(after, max)| match after {
                Some(pick) if max % 2 == 0 => Step::Repair(vec![pick]),
                Some(_) | None => Step::NeedingRepair { after, max },
            }),
        weigh(6, 6, 1, 14) => (vec(pick(), 1..4), weighted_bool(0.3))
            .prop_map(|(picks, tree)| Step::Cancel { picks, tree }),
        weigh(4, 4, 1, 2) => (vec(pick(), 1..4), weighted_bool(0.3))
            .prop_map(|(picks, tree)| Step::Terminate { picks, tree }),
        weigh(4, 10, 1, 3) => prop_oneof![1 => Just(0), 4 => 1..3usize, 2 => Just(100)]
            .prop_map(|max| Step::Cascade { max }),
        weigh(6, 12, 2, 5) => vec(pick(), 1..4).prop_map(Step::Retry),
        weigh(3, 2, 1, 2) => vec(pick(), 1..4).prop_map(Step::Delete),
        1 => queue.clone().prop_map(Step::Pause),
        weigh(3, 6, 6, 6) => queue.prop_map(Step::Resume),
        weigh(10, 3, 5, 4) => prop_oneof![18 => 0..6u64, 6 => 6..40u64, 1 => 60..200_000u64]
            .prop_map(Step::Pass),
    ]
}

fn decision(theme: Theme) -> impl Strategy<Value = Decision> {
    let weigh = |everything, families, signals, workflows| {
        theme.weigh(everything, families, signals, workflows)
    };
    let kind = prop_oneof![
        weigh(4, 4, 1, 5) => Just(Kind::Keep),
        weigh(3, 2, 4, 3) => Just(Kind::Requeue),
        weigh(3, 1, 6, 2) => (prop_oneof![Just(0), 1..9u64], any::<bool>())
            .prop_map(|(delay, error)| Kind::Retry { delay, error }),
        weigh(8, 1, 24, 3) => (0..8usize, weighted(0.6, 0..20u64))
            .prop_map(|(names, timeout)| Kind::Wait { names, timeout }),
        weigh(8, 14, 1, 3) => (vec(row(theme), 0..5), joining())
            .prop_map(|(rows, joining)| Kind::FanOut(rows, joining)),
        weigh(3, 6, 2, 4) => Just(Kind::Done),
        weigh(3, 8, 1, 4) => Just(Kind::Stop),
        1 => Just(Kind::Cancel),
        weigh(4, 3, 4, 24) => flowing(theme).prop_map(Kind::Flow),
        weigh(1, 1, 1, 2) => Just(Kind::Renew),
        1 => Just(Kind::EndlessSleep),
        1 => Just(Kind::EndlessPark),
        1 => Just(Kind::NamelessStep),
    ];
    let events = prop_oneof![3 => Just(0), 2 => 1..4usize];
    (pick(), weighted(0.2, 0..3usize), kind, events).prop_map(|(claim, received, kind, events)| {
        Decision {
            claim,
            received,
            kind,
            events,
        }
    })
}

fn row(theme: Theme) -> impl Strategy<Value = Row> {
    let (keyed, known) = theme.weigh((0.4, 0.45), (0.1, 0.2), (0.1, 0.2), (0.1, 0.2));
    let (machines, workflows) = theme.weigh((6, 1), (8, 1), (6, 1), (1, 2));
    let last = MACHINES.len() - 1;
    (
        prop_oneof![machines => 0..last, workflows => Just(last)],
        0..QUEUES.len(),
        -1..=1i16,
        prop_oneof![9 => Just(0), 2 => 1..20i64, 1 => -20..0i64],
        weighted(keyed, 0..3usize),
        weighted(known, (0..3usize, 0..5usize)),
        weighted(0.3, 0..2usize),
        (0..ClosePolicy::ALL.len(), timeouts()),
    )
        .prop_map(
            |(machine, queue, priority, start, partition, correlation, trace, other)| {
                let (on_parent_close, timeouts) = other;
                Row {
                    machine,
                    queue,
                    priority,
                    start,
                    partition,
                    correlation,
                    trace,
                    on_parent_close,
                    timeouts,
                }
            },
        )
}

fn timeouts() -> impl Strategy<Value = (Option<u64>, Option<u64>)> {
    (weighted(0.05, 1..30u64), weighted(0.04, 1..20u64))
}

/// A row, mostly with a correlation key: only a holder of a key can be signalled by it.
fn keyed_row(theme: Theme) -> impl Strategy<Value = Row> {
    (row(theme), weighted(0.95, (0..3usize, 0..5usize)))
        .prop_map(|(row, correlation)| Row { correlation, ..row })
}

fn pick() -> impl Strategy<Value = Pick> + Clone {
    0..1_000usize
}

fn offer() -> impl Strategy<Value = ClaimOffer> {
    (
        pick(),
        weighted(0.3, 0..QUEUES.len()),
        weighted(0.15, 0..16usize),
    )
        .prop_map(|(worker, queue, machines)| ClaimOffer {
            worker,
            queue,
            machines,
        })
}

fn letter() -> impl Strategy<Value = Letter> {
    (
        pick(),
        weighted(0.3, (0..2usize, 0..3usize)),
        0..NAMES.len(),
        weighted(0.5, 0..3usize),
    )
        .prop_map(|(target, key, name, dedup)| Letter {
            target,
            key,
            name,
            dedup,
        })
}

impl Row {
    /// An instance of the first machine in the first queue, with defaults otherwise.
    pub(super) fn plain() -> Row {
        Row {
            machine: 0,
            queue: 0,
            priority: 0,
            start: 0,
            partition: None,
            correlation: None,
            trace: None,
            on_parent_close: 0,
            timeouts: (None, None),
        }
    }

    /// Makes the row to insert at `now`.
    pub(super) fn new_instance(&self, now: Timestamp) -> NewInstance {
        let (machine, version) = MACHINES[self.machine];
        let mut row = NewInstance::new(machine, "start", state("born"))
            .version(version)
            .queue(QUEUES[self.queue])
            .priority(self.priority)
            .on_parent_close(ClosePolicy::ALL[self.on_parent_close]);
        row.start = match self.start {
            0 => Start::Now,
            later @ 1.. => Start::After(Duration::from_secs(later.unsigned_abs())),
            ago => Start::At(now - Duration::from_secs(ago.unsigned_abs())),
        };
        row.partition_key = self.partition.map(|n| key('p', n));
        row.timeout = self.timeouts.0.map(Duration::from_secs);
        row.run_timeout = self.timeouts.1.map(Duration::from_secs);
        row.trace = self.trace.map(|n| format!("t{n}"));
        match self.correlation {
            Some((key, scope)) => row.correlation(correlation_key(key), scope_of(scope)),
            None => row,
        }
    }
}

/// Some of the machines, or all.
pub(super) fn machines(some: Option<usize>) -> Vec<MachineVersion> {
    let chosen = |n: &usize| some.is_none_or(|mask| mask & (1 << n) != 0);
    (0..MACHINES.len())
        .filter(chosen)
        .map(|n| MachineVersion::new(MACHINES[n].0, MACHINES[n].1))
        .collect()
}

/// Some of the signal names; none for a `mask` of 0.
pub(super) fn names(mask: usize) -> Vec<String> {
    let chosen = |n: &usize| mask & (1 << n) != 0;
    (0..NAMES.len())
        .filter(chosen)
        .map(|n| NAMES[n].to_owned())
        .collect()
}

pub(super) fn correlation_key(n: usize) -> String {
    key('k', n)
}

pub(super) fn dedup_key(n: usize) -> String {
    key('d', n)
}

/// The first key is text. The next one has a NUL, and the others are no UTF-8.
fn key(letter: char, n: usize) -> String {
    let last: &[u8] = match n {
        0 => b"0",
        1 => b"\0",
        _ => &[0xff, n as u8],
    };
    let mut key = letter.to_string().into_bytes();
    key.extend(last);
    KeyText::from(key).into()
}

/// A machine that correlation keys belong to.
pub(super) fn machine(n: usize) -> &'static str {
    ["a", "b"][n]
}

pub(super) fn state(word: &str) -> Json {
    Json::of(word).expect("a word is JSON")
}

fn scope_of(n: usize) -> Scope {
    use Status::{AwaitingChildren, AwaitingSignal, Executing, Failed, Runnable};
    let statuses: &[Status] = match n {
        0 => return Scope::LIVE,
        1 => return Scope::FOREVER,
        2 => &[Runnable],
        3 => &[Runnable, Executing, Failed],
        _ => &[Runnable, AwaitingSignal, AwaitingChildren],
    };
    Scope::of(statuses.iter().copied()).expect("runnable is among them")
}
