//! The outcomes of workflows in a random sequence.

use super::{Pick, Row, Theme, pick, row};
use proptest::bool::weighted as weighted_bool;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// An outcome of a workflow.
#[derive(Clone, Debug)]
pub(in super::super) struct Flowing {
    pub(in super::super) rows: Vec<Row>,
    pub(in super::super) window: Option<u32>,
    pub(in super::super) then: Then,
}

/// The next action of a workflow after it has started children.
#[derive(Clone, Debug)]
pub(in super::super) enum Then {
    Keep,
    Requeue,
    Park(Parking),
}

/// The events that a parked workflow waits for.
#[derive(Clone, Debug)]
pub(in super::super) struct Parking {
    /// The awaited names, as a mask.
    pub(in super::super) names: usize,
    /// The deadline in seconds from now; negative for a time in the past.
    pub(in super::super) deadline: Option<i64>,
    pub(in super::super) ends: Option<JoinSet>,
    /// Whether it needs all of it.
    pub(in super::super) needs_all: bool,
}

/// The children that a workflow waits for, among those that exist when the step runs.
#[derive(Clone, Debug)]
pub(in super::super) struct JoinSet {
    /// Which of the live children, as a mask.
    pub(in super::super) living: usize,
    /// One of the finished children.
    pub(in super::super) ended: Option<Pick>,
    /// Whether it waits for the children that this step starts.
    pub(in super::super) started: bool,
    /// How many finished children wake it.
    pub(in super::super) count: Pick,
    /// How the children are divided into join sets.
    pub(in super::super) sets: Pick,
}

/// An outcome that mostly waits for children.
pub(super) fn flowing(theme: Theme) -> impl Strategy<Value = Flowing> {
    let then = prop_oneof![
        3 => Just(Then::Keep),
        1 => Just(Then::Requeue),
        6 => parking().prop_map(Then::Park),
    ];
    let rows = prop_oneof![2 => vec(row(theme), 0..1), 3 => vec(row(theme), 1..4)];
    (rows, weighted(0.25, 1..3u32), then).prop_map(|(rows, window, then)| Flowing {
        rows,
        window,
        then,
    })
}

fn parking() -> impl Strategy<Value = Parking> {
    (
        prop_oneof![2 => Just(0), 3 => 1..8usize],
        weighted(0.3, -3..20i64),
        weighted(0.8, awaited()),
    )
        .prop_map(|(names, deadline, ends)| Parking {
            names,
            deadline,
            ends,
            needs_all: names.is_multiple_of(2),
        })
}

fn awaited() -> impl Strategy<Value = JoinSet> {
    (
        prop_oneof![3 => Just(usize::MAX), 2 => 1..16usize],
        weighted(0.2, pick()),
        weighted_bool(0.8),
        pick(),
    )
        .prop_map(|(living, ended, started, chosen)| JoinSet {
            living,
            ended,
            started,
            count: chosen,
            sets: chosen / 3,
        })
}

impl Parking {
    /// Waits for every live child.
    pub(in super::super) fn plain() -> Parking {
        Parking {
            names: 0,
            deadline: None,
            ends: Some(JoinSet {
                living: usize::MAX,
                ended: None,
                started: true,
                count: 0,
                sets: 0,
            }),
            needs_all: false,
        }
    }
}
