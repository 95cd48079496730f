//! Instances to insert: the requests and answers of `insert`.
//!
//! Clients and fan-outs create them. Nothing here reads a store.

use crate::limits::{self, BATCH_MAX};
use crate::{
    ClosePolicy, InstanceId, Invalid, Json, KeyText, QueueNames, Revision, Scope, Timestamp,
};
use std::time::Duration;

/// An instance to insert, or a child to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInstance {
    /// The machine's name.
    pub machine: String,
    /// The machine's version.
    pub version: i32,
    /// The step it starts at.
    pub step: String,
    /// The state of that step.
    pub state: Json,
    /// The queue in which it waits for a worker.
    pub queue: String,
    /// Its priority in the queue; lower is more urgent.
    pub priority: i16,
    /// When it may first be claimed.
    pub start: Start,
    /// The partition key, as a [`KeyText`]. Instances that share one never execute at the same time
    /// (I8).
    pub partition_key: Option<String>,
    /// Its business key, unique among the holders of the machine (I9).
    pub correlation: Option<Correlation>,
    /// The trace it belongs to, a W3C `traceparent`.
    ///
    /// It is stored verbatim and passed to every claim, so that one trace spans its steps and its
    /// children.
    pub trace: Option<String>,
    /// What happens to a child when its parent ends first. Unused for other instances.
    pub on_parent_close: ClosePolicy,
    /// How long it may take in all, over all its runs. It is counted from the moment at which it
    /// may first be claimed, and anew from an operator's retry.
    pub timeout: Option<Duration>,
    /// How long one run of it may take. Continue-as-new and an operator's retry count anew.
    pub run_timeout: Option<Duration>,
}

/// A correlation key and the statuses in which it is occupied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// The key, as a [`KeyText`].
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
    /// After a delay, by the store's clock.
    After(Duration),
    /// At a moment. A past moment means at once, ahead of instances that became eligible later.
    At(Timestamp),
}

/// The result of one row of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the store.
    New {
        /// Its id.
        id: InstanceId,
        /// The revision of its claim, when the caller asked for one and this row was claimable.
        claimed: Option<Revision>,
    },
    /// Its correlation key is occupied by another instance or by an earlier row of the batch.
    /// Nothing was written for it.
    Duplicate {
        /// The instance that holds the key; `None` when it ended while the insert looked.
        holder: Option<InstanceId>,
    },
}

impl Inserted {
    /// Returns the id of the new instance, if any.
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
    /// One answer per row, in the caller's order.
    pub rows: Vec<Inserted>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
}

impl NewInstance {
    /// Creates an instance of `machine`: version 1, queue `default`, starting now.
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
            timeout: None,
            run_timeout: None,
        }
    }

    /// Sets the version of the machine.
    pub fn version(mut self, version: i32) -> NewInstance {
        self.version = version;
        self
    }

    /// Sets the queue.
    pub fn queue(mut self, queue: impl Into<String>) -> NewInstance {
        self.queue = queue.into();
        self
    }

    /// Sets the priority; lower is more urgent.
    pub fn priority(mut self, priority: i16) -> NewInstance {
        self.priority = priority;
        self
    }

    /// Sets the earliest start.
    pub fn start(mut self, start: Start) -> NewInstance {
        self.start = start;
        self
    }

    /// Sets the partition key: instances that share one never execute at the same time.
    pub fn partition_key(mut self, key: impl Into<KeyText>) -> NewInstance {
        self.partition_key = Some(key.into().into());
        self
    }

    /// Sets the correlation key, occupied until the instance ends.
    pub fn correlation_key(self, key: impl Into<KeyText>) -> NewInstance {
        self.correlation(key, Scope::LIVE)
    }

    /// Sets the correlation key, occupied while the status is in `scope`.
    pub fn correlation(mut self, key: impl Into<KeyText>, scope: Scope) -> NewInstance {
        self.correlation = Some(Correlation {
            key: key.into().into(),
            scope,
        });
        self
    }

    /// Sets the trace: a W3C `traceparent`.
    pub fn trace(mut self, trace: impl Into<String>) -> NewInstance {
        self.trace = Some(trace.into());
        self
    }

    /// Sets what happens to a child when its parent ends first.
    pub fn on_parent_close(mut self, policy: ClosePolicy) -> NewInstance {
        self.on_parent_close = policy;
        self
    }

    /// Sets how long it may take in all. After that it fails as timed out.
    pub fn timeout(mut self, timeout: Duration) -> NewInstance {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long each run of it may take. After that it fails as timed out.
    pub fn run_timeout(mut self, timeout: Duration) -> NewInstance {
        self.run_timeout = Some(timeout);
        self
    }

    /// Checks whether it can be stored.
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
            limits::check_key("partition key", key)?;
        }
        if let Some(correlation) = &self.correlation {
            limits::check_key("correlation key", &correlation.key)?;
        }
        if let Some(trace) = &self.trace {
            // A child has the trace of its parent, which may have been stored by an older version.
            limits::check_trace(trace)?;
        }
        self.check_timeout("timeout", self.timeout)?;
        self.check_timeout("run timeout", self.run_timeout)
    }

    fn check_timeout(&self, what: &'static str, timeout: Option<Duration>) -> Result<(), Invalid> {
        let Some(timeout) = timeout else {
            return Ok(());
        };
        limits::check_timeout(what, timeout)?;
        match self.start {
            Start::At(at) => limits::check_moment("end of the timeout", at + timeout),
            Start::Now | Start::After(_) => Ok(()),
        }
    }

    /// Checks whether all `rows` can be inserted together; names the first that cannot.
    pub fn check_all(rows: &[NewInstance]) -> Result<(), Invalid> {
        limits::check_batch("insert", rows.len(), BATCH_MAX)?;
        for (position, row) in rows.iter().enumerate() {
            row.check()
                .map_err(|invalid| invalid.within(format_args!("row {position}")))?;
        }
        Ok(())
    }
}
