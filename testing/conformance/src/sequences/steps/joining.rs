//! The joins of fan-outs in a random sequence.

use outlast_core::{ClosePolicy, Join, Until};
use proptest::option::weighted;
use proptest::prelude::*;
use std::time::Duration;

/// The join of a fan-out.
#[derive(Clone, Debug)]
pub(in super::super) struct JoinProgress {
    until: usize,
    deadline: Option<u64>,
    window: Option<u32>,
    rest: usize,
}

/// A join, mostly with settings other than the defaults.
pub(super) fn joining() -> impl Strategy<Value = JoinProgress> {
    (
        0..6usize,
        weighted(0.25, 0..20u64),
        weighted(0.4, 1..4u32),
        0..ClosePolicy::ALL.len(),
    )
        .prop_map(|(until, deadline, window, rest)| JoinProgress {
            until,
            deadline,
            window,
            rest,
        })
}

impl JoinProgress {
    /// Waits for every child, without a window.
    pub(in super::super) fn plain() -> JoinProgress {
        JoinProgress {
            until: 0,
            deadline: None,
            window: None,
            rest: 0,
        }
    }

    pub(in super::super) fn join(&self) -> Join {
        Join {
            until: match self.until {
                0 | 1 => Until::All,
                2 | 3 => Until::FailFast,
                4 => Until::Quorum(1),
                _ => Until::Quorum(2),
            },
            deadline: self.deadline.map(Duration::from_secs),
            window: self.window,
            rest: ClosePolicy::ALL[self.rest],
        }
    }
}
