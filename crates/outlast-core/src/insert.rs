//! Bringing instances into the store.

use crate::limits::{self, BATCH_MAX};
use crate::{ClosePolicy, InstanceId, Invalid, Json, QueueNames, Revision, Scope, Timestamp};
use std::time::Duration;

/// An instance to insert, or a child to spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInstance {
    /// The machine's name.
    pub machine: String,
    /// The machine's version.
    pub version: i32,
    /// The step it starts at.
    pub step: String,
    /// The state that step takes.
    pub state: Json,
    /// Where it waits for a worker.
    pub queue: String,
    /// Its rank in the queue; lower is more urgent.
    pub priority: i16,
    /// When it may first be claimed.
    pub start: Start,
    /// Instances that share one never execute at the same time (I8).
    pub partition_key: Option<String>,
    /// Its business key, unique among the machine's holders (I9).
    pub correlation: Option<Correlation>,
    /// The trace it belongs to, a W3C `traceparent`: kept verbatim and handed to every claim, so that
    /// one trace spans all its steps and those of its children.
    pub trace: Option<String>,
    /// Of a child: what becomes of it when its parent ends before it does. It means nothing for others.
    pub on_parent_close: ClosePolicy,
}

/// A correlation key and how long it is occupied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// The key, kept verbatim.
    pub key: String,
    /// The statuses in which it is occupied.
    pub scope: Scope,
}

/// When an instance may first be claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At once.
    #[default]
    Now,
    /// After a delay, counted by the store's clock.
    After(Duration),
    /// At a moment; one in the past means at once, ahead of what became eligible later.
    At(Timestamp),
}

/// What became of one row of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the store.
    New {
        /// The id it was given.
        id: InstanceId,
        /// The claim on it, when the caller asked for one and this row could be handed over.
        claimed: Option<Revision>,
    },
    /// Its correlation key is occupied, by another instance or by an earlier row of the batch;
    /// nothing was written for it.
    Duplicate {
        /// Who holds the key; `None` when the holder ended while the insert looked.
        holder: Option<InstanceId>,
    },
}

impl Inserted {
    /// The id of the new instance, if there is one.
    pub fn new_id(&self) -> Option<InstanceId> {
        match self {
            Inserted::New { id, .. } => Some(*id),
            Inserted::Duplicate { .. } => None,
        }
    }
}

/// The answer to an insert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserts {
    /// One per row, in the caller's order.
    pub rows: Vec<Inserted>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
}

impl NewInstance {
    /// An instance of `machine`, version 1, in queue `default`, starting now.
    pub fn new(machine: impl Into<String>, step: impl Into<String>, state: Json) -> NewInstance {
        NewInstance {
            machine: machine.into(),
            version: 1,
            step: step.into(),
            state,
            queue: "default".into(),
            priority: 0,
            start: Start::Now,
            partition_key: None,
            correlation: None,
            trace: None,
            on_parent_close: ClosePolicy::Abandon,
        }
    }

    /// With this version of the machine.
    pub fn version(mut self, version: i32) -> NewInstance {
        self.version = version;
        self
    }

    /// In this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> NewInstance {
        self.queue = queue.into();
        self
    }

    /// With this priority; lower is more urgent.
    pub fn priority(mut self, priority: i16) -> NewInstance {
        self.priority = priority;
        self
    }

    /// Not before this.
    pub fn start(mut self, start: Start) -> NewInstance {
        self.start = start;
        self
    }

    /// Never at the same time as others with this key.
    pub fn partition_key(mut self, key: impl Into<String>) -> NewInstance {
        self.partition_key = Some(key.into());
        self
    }

    /// Known by this key while it lives.
    pub fn correlation_key(self, key: impl Into<String>) -> NewInstance {
        self.correlation(key, Scope::LIVE)
    }

    /// Known by this key while its status is in `scope`.
    pub fn correlation(mut self, key: impl Into<String>, scope: Scope) -> NewInstance {
        self.correlation = Some(Correlation {
            key: key.into(),
            scope,
        });
        self
    }

    /// Belonging to this trace: a W3C `traceparent`.
    pub fn trace(mut self, trace: impl Into<String>) -> NewInstance {
        self.trace = Some(trace.into());
        self
    }

    /// As a child, treated like this when its parent ends before it does.
    pub fn on_parent_close(mut self, policy: ClosePolicy) -> NewInstance {
        self.on_parent_close = policy;
        self
    }

    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_new_machine(&self.machine)?;
        limits::check_version(self.version)?;
        limits::check_new_name("step", &self.step)?;
        limits::check_new_name("queue", &self.queue)?;
        if let Start::After(delay) = self.start {
            limits::check_delay("start delay", delay)?;
        }
        if let Start::At(at) = self.start {
            limits::check_moment("start", at)?;
        }
        if let Some(key) = &self.partition_key {
            limits::check_new_key("partition key", key)?;
        }
        if let Some(correlation) = &self.correlation {
            limits::check_new_key("correlation key", &correlation.key)?;
        }
        if let Some(trace) = &self.trace {
            // A child has the trace of its parent, which may have been stored long ago.
            limits::check_key("trace", trace)?;
        }
        Ok(())
    }

    /// Whether all of `rows` can be inserted together; names the first that cannot.
    pub fn check_all(rows: &[NewInstance]) -> Result<(), Invalid> {
        limits::check_batch("insert", rows.len(), BATCH_MAX)?;
        for (position, row) in rows.iter().enumerate() {
            row.check()
                .map_err(|invalid| invalid.within(format_args!("row {position}")))?;
        }
        Ok(())
    }
}
