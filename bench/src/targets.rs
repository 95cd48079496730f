//! What must be reached, as ratios in one run.

/// A figure of a store or a peer.
pub(crate) struct Of {
    name: &'static str,
    place: &'static str,
}

/// A ratio of two figures, and its bound.
pub(crate) struct Target {
    pub(crate) of: Of,
    pub(crate) by: Of,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Of {
    pub(crate) fn key(&self) -> (String, String) {
        (self.name.to_owned(), self.place.to_owned())
    }
}

impl Target {
    pub(crate) fn words(&self) -> String {
        format!(
            "{} ({}) ÷ {} ({})",
            self.of.name, self.of.place, self.by.name, self.by.place
        )
    }
}

impl Bound {
    pub(crate) fn holds(self, ratio: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => ratio >= bound,
            Bound::AtMost(bound) => ratio <= bound,
        }
    }
}

const fn target(of: Of, by: Of, bound: Bound) -> Target {
    Target { of, by, bound }
}

const fn postgres(name: &'static str) -> Of {
    Of {
        name,
        place: "postgres",
    }
}

const fn sqlite(name: &'static str) -> Of {
    Of {
        name,
        place: "sqlite",
    }
}

const fn peer(place: &'static str, name: &'static str) -> Of {
    Of { name, place }
}

pub(crate) const TARGETS: &[Target] = &[
    target(
        postgres("drain"),
        postgres("floor drain"),
        Bound::AtLeast(0.6),
    ),
    target(
        postgres("drain"),
        peer("graphile_worker", "drain"),
        Bound::AtLeast(0.8),
    ),
    target(
        postgres("chain"),
        postgres("floor chain"),
        Bound::AtLeast(0.6),
    ),
    target(
        postgres("chain"),
        peer("dbos", "chain"),
        Bound::AtLeast(15.0),
    ),
    target(
        postgres("insert batches"),
        postgres("floor insert batches"),
        Bound::AtLeast(0.8),
    ),
    target(sqlite("drain"), postgres("drain"), Bound::AtLeast(1.5)),
    target(sqlite("chain"), postgres("chain"), Bound::AtLeast(2.0)),
];
