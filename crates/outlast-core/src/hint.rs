//! What nodes tell each other so that nobody has to poll. Nothing is lost when a hint is.

use crate::{InstanceId, QueueNames, Result};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

/// What may have become worth looking at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Queues in which something may be claimed, and in how long at the earliest.
    pub queues: BTreeMap<String, Duration>,
    /// How long until the earliest deadline of a new wait.
    pub deadline: Option<Duration>,
    /// Instances that ended: for whoever waits for them.
    pub ended: Vec<InstanceId>,
    /// Instances that were asked to end or were ended while a worker ran them: for that worker.
    pub told: Vec<InstanceId>,
    /// Whether children are to be told of their parents' ends.
    pub cascades: bool,
}

impl Hints {
    /// That these queues have something now.
    pub fn now(queues: QueueNames) -> Hints {
        Hints {
            queues: queues
                .into_iter()
                .map(|queue| (queue, Duration::ZERO))
                .collect(),
            ..Hints::default()
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
            && self.deadline.is_none()
            && self.ended.is_empty()
            && self.told.is_empty()
            && !self.cascades
    }

    /// That this queue has something in `due_in`.
    pub fn queue(&mut self, queue: &str, due_in: Duration) {
        match self.queues.get_mut(queue) {
            Some(earliest) => *earliest = due_in.min(*earliest),
            None => {
                self.queues.insert(queue.to_owned(), due_in);
            }
        }
    }

    /// That a wait ends in `due_in`.
    pub fn deadline(&mut self, due_in: Duration) {
        self.deadline = Some(
            self.deadline
                .map_or(due_in, |earliest| earliest.min(due_in)),
        );
    }

    /// Takes in what somebody else has to tell.
    pub fn merge(&mut self, other: Hints) {
        for (queue, due_in) in other.queues {
            self.queue(&queue, due_in);
        }
        if let Some(due_in) = other.deadline {
            self.deadline(due_in);
        }
        self.ended.extend(other.ended);
        self.told.extend(other.told);
        self.cascades |= other.cascades;
    }
}

/// Hints from other nodes, one after another.
#[async_trait]
pub trait Listen: Send {
    /// Waits for the next hints. After an error, listen anew; what was told in between is lost.
    async fn next(&mut self) -> Result<Hints>;
}
