//! Hints that nodes send each other to avoid polling. Correctness never depends on a hint.

use crate::{InstanceId, QueueNames, Result};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

/// Rows that may have become worth a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Queues in which an instance may be claimable, with the delay until the earliest.
    pub queues: BTreeMap<String, Duration>,
    /// The time until the earliest deadline of a new wait.
    pub deadline: Option<Duration>,
    /// Instances that ended, for clients that wait for them.
    pub ended: Vec<InstanceId>,
    /// Instances that were cancelled or terminated while a worker ran them, for that worker.
    pub cancelled: Vec<InstanceId>,
    /// Whether there is work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
}

impl Hints {
    /// Creates a hint that these queues have claimable instances now.
    pub fn now(queues: QueueNames) -> Hints {
        Hints {
            queues: queues
                .into_iter()
                .map(|queue| (queue, Duration::ZERO))
                .collect(),
            ..Hints::default()
        }
    }

    /// Whether the hint is empty.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
            && self.deadline.is_none()
            && self.ended.is_empty()
            && self.cancelled.is_empty()
            && !self.cascades
    }

    /// Adds a hint that this queue has a claimable instance in `due_in`.
    pub fn queue(&mut self, queue: &str, due_in: Duration) {
        match self.queues.get_mut(queue) {
            Some(earliest) => *earliest = due_in.min(*earliest),
            None => {
                self.queues.insert(queue.to_owned(), due_in);
            }
        }
    }

    /// Adds a hint that a wait ends in `due_in`.
    pub fn deadline(&mut self, due_in: Duration) {
        self.deadline = Some(
            self.deadline
                .map_or(due_in, |earliest| earliest.min(due_in)),
        );
    }

    /// Merges the hints of another sender.
    pub fn merge(&mut self, other: Hints) {
        for (queue, due_in) in other.queues {
            self.queue(&queue, due_in);
        }
        if let Some(due_in) = other.deadline {
            self.deadline(due_in);
        }
        self.ended.extend(other.ended);
        self.cancelled.extend(other.cancelled);
        self.cascades |= other.cascades;
    }
}

/// A stream of hints from other nodes.
#[async_trait]
pub trait Listen: Send {
    /// Waits for the next hints. After an error, listen anew; hints sent in between are lost.
    async fn next(&mut self) -> Result<Hints>;
}
