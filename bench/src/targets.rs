//! The targets, as ratios within one run where possible.

use crate::args::{Kind, Workload};

/// A bound on a figure, or on its ratio to another one.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) of: Of,
    pub(crate) by: By,
    pub(crate) bound: Bound,
}

/// A figure of a store or a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of {
    pub(crate) workload: Workload,
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
}

/// The reference of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// None: the bound has the figure's own unit.
    Itself,
    /// Another figure of the run.
    Figure(Of),
    /// The same figure of every peer of the run.
    EveryPeer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(bound) => write!(f, "≥ {bound}"),
            Bound::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

/// Returns whether a place is a peer and not one of our stores.
pub(crate) fn is_peer(place: &str) -> bool {
    place != Kind::Postgres.name() && place != Kind::Sqlite.name()
}

const fn target(of: Of, by: By, bound: Bound) -> Target {
    Target { of, by, bound }
}

const fn postgres(workload: Workload, name: &'static str) -> Of {
    at(Kind::Postgres.name(), workload, name)
}

const fn sqlite(workload: Workload, name: &'static str) -> Of {
    at(Kind::Sqlite.name(), workload, name)
}

const fn at(place: &'static str, workload: Workload, name: &'static str) -> Of {
    Of {
        workload,
        name,
        place,
    }
}

use Bound::{AtLeast, AtMost};
use By::{EveryPeer, Figure, Itself};
use Workload::{
    Backlog, Chain, Drain, Fanout, FlowFanout, FlowReplay, FlowSteps, History, Insert, Latency,
    Parked, Signal, Timers, Window,
};

pub(crate) const TARGETS: &[Target] = &[
    target(
        postgres(Drain, "drain"),
        Figure(postgres(Drain, "floor drain")),
        AtLeast(0.6),
    ),
    target(
        postgres(Drain, "drain"),
        Figure(at("graphile_worker", Drain, "drain")),
        AtLeast(0.8),
    ),
    target(
        postgres(Drain, "drain"),
        Figure(at("gen_durable", Drain, "drain")),
        AtLeast(2.0),
    ),
    target(
        postgres(Chain, "chain"),
        Figure(postgres(Chain, "floor chain")),
        AtLeast(0.6),
    ),
    target(
        postgres(Chain, "chain"),
        Figure(at("dbos", Chain, "chain")),
        AtLeast(15.0),
    ),
    target(
        postgres(Fanout, "fanout"),
        Figure(postgres(Fanout, "drain of as many")),
        AtMost(1.5),
    ),
    target(
        postgres(Window, "window"),
        Figure(postgres(Window, "fanout of as many")),
        AtMost(3.0),
    ),
    target(
        postgres(Signal, "signal p50"),
        Figure(postgres(Signal, "one commit")),
        AtMost(5.0),
    ),
    target(postgres(Signal, "signal p50"), EveryPeer, AtMost(1.0)),
    target(
        postgres(Latency, "latency p50"),
        Figure(postgres(Latency, "one commit")),
        AtMost(5.0),
    ),
    target(postgres(Latency, "latency p50"), EveryPeer, AtMost(1.0)),
    target(
        postgres(Latency, "step to step"),
        Figure(postgres(Latency, "one commit")),
        AtMost(2.0),
    ),
    target(
        postgres(Insert, "insert batches"),
        Figure(postgres(Insert, "floor insert batches")),
        AtLeast(0.8),
    ),
    target(postgres(Timers, "lateness p99"), Itself, AtMost(50.0)),
    target(postgres(Parked, "idle cpu"), Itself, AtMost(1.0)),
    target(postgres(Parked, "parked cpu"), Itself, AtMost(1.0)),
    target(
        postgres(Parked, "parked memory"),
        Figure(postgres(Parked, "idle memory")),
        // Memory per parked instance would exceed this at a million; the allocator varies by less.
        AtMost(1.25),
    ),
    target(
        postgres(Backlog, "claim at n"),
        Figure(postgres(Backlog, "claim at n/100")),
        AtMost(1.3),
    ),
    target(
        sqlite(Drain, "drain"),
        Figure(postgres(Drain, "drain")),
        AtLeast(1.5),
    ),
    target(
        sqlite(Chain, "chain"),
        Figure(postgres(Chain, "chain")),
        AtLeast(2.0),
    ),
    target(
        postgres(FlowSteps, "flow-steps"),
        Figure(postgres(FlowSteps, "chain of as many")),
        AtLeast(0.5),
    ),
    target(
        sqlite(FlowSteps, "flow-steps"),
        Figure(sqlite(FlowSteps, "chain of as many")),
        AtLeast(0.5),
    ),
    target(
        postgres(FlowFanout, "flow-fanout"),
        Figure(postgres(FlowFanout, "fanout of as many")),
        AtMost(2.0),
    ),
    target(
        sqlite(FlowFanout, "flow-fanout"),
        Figure(sqlite(FlowFanout, "fanout of as many")),
        AtMost(2.0),
    ),
    target(postgres(FlowReplay, "resume at n"), Itself, AtMost(20.0)),
    target(sqlite(FlowReplay, "resume at n"), Itself, AtMost(20.0)),
    // Four times the history takes at most four times as long: superlinear growth would fail.
    target(
        postgres(FlowReplay, "resume at 4n"),
        Figure(postgres(FlowReplay, "resume at n")),
        AtMost(4.0),
    ),
    target(
        sqlite(FlowReplay, "resume at 4n"),
        Figure(sqlite(FlowReplay, "resume at n")),
        AtMost(4.0),
    ),
    target(
        postgres(History, "history of transitions"),
        Figure(postgres(History, "history off")),
        AtLeast(0.4),
    ),
    target(
        postgres(History, "history of states"),
        Figure(postgres(History, "history off")),
        AtLeast(0.4),
    ),
    target(
        sqlite(History, "history of transitions"),
        Figure(sqlite(History, "history off")),
        AtLeast(0.4),
    ),
    target(
        sqlite(History, "history of states"),
        Figure(sqlite(History, "history off")),
        AtLeast(0.4),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_for_its_own_value_and_for_better_ones() {
        assert!(AtLeast(0.6).holds(0.6) && AtLeast(0.6).holds(0.7) && !AtLeast(0.6).holds(0.59));
        assert!(AtMost(1.5).holds(1.5) && AtMost(1.5).holds(1.4) && !AtMost(1.5).holds(1.51));
        assert!(!AtLeast(0.6).holds(f64::NAN) && !AtMost(1.5).holds(f64::NAN));
    }

    #[test]
    fn every_place_but_our_stores_is_a_peer() {
        assert!(!is_peer("postgres") && !is_peer("sqlite"));
        assert!(is_peer("dbos"));
    }
}
