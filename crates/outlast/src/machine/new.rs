//! New instances, and typed ids and keys that address them.

use super::Machine;
use super::codec;
use outlast_core::{ClosePolicy, InstanceId, Invalid, NewInstance, Scope, Start, Target};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

/// An instance to start; made by the function [`New`](fn@New) of the same name.
#[must_use = "insert it, or hand it to a fan-out"]
pub struct New<M: Machine> {
    state: M::State,
    queue: Option<String>,
    priority: i16,
    start: Start,
    partition_key: Option<String>,
    key: Option<String>,
    scope: Option<Scope>,
    trace: Option<String>,
    on_parent_close: ClosePolicy,
}

/// Creates an instance of `M` that starts with `state`; a job starts with its arguments.
///
/// ```
/// # use outlast::prelude::*;
/// # struct Checkout; #[derive(Serialize, Deserialize)] #[serde(tag = "step", content = "state")] enum Order { Start { number: u64 } }
/// # impl Machine for Checkout { const NAME: &'static str = "checkout"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { Ok(Outcome::done(())) } }
/// let order = New::<Checkout>(Order::Start { number: 42 })
///     .key("order:42")
///     .priority(-10)
///     .delay(Duration::from_secs(60));
/// ```
#[allow(non_snake_case)]
pub fn New<M: Machine>(state: impl Into<M::State>) -> New<M> {
    New {
        state: state.into(),
        queue: None,
        priority: 0,
        start: Start::Now,
        partition_key: None,
        key: None,
        scope: None,
        trace: None,
        on_parent_close: ClosePolicy::Abandon,
    }
}

impl<M: Machine> New<M> {
    /// Sets the correlation key.
    ///
    /// Signals can address the instance by it. It is unique among the live instances of the
    /// machine.
    pub fn key(mut self, key: impl Into<String>) -> New<M> {
        self.key = Some(key.into());
        self
    }

    /// Sets the statuses in which the key is occupied. Default: until the instance ends.
    pub fn scope(mut self, scope: Scope) -> New<M> {
        self.scope = Some(scope);
        self
    }

    /// Sets the queue, instead of [`Machine::QUEUE`].
    pub fn queue(mut self, queue: impl Into<String>) -> New<M> {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the priority in the queue; lower is more urgent. Default: 0.
    pub fn priority(mut self, priority: i16) -> New<M> {
        self.priority = priority;
        self
    }

    /// Starts it this long from now at the earliest, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> New<M> {
        self.start = Start::After(delay);
        self
    }

    /// Starts it at this moment at the earliest.
    pub fn at(mut self, moment: SystemTime) -> New<M> {
        self.start = Start::At(moment.into());
        self
    }

    /// Sets the partition key.
    ///
    /// Instances that share one, of any machine, never execute at the same time, and execute in
    /// order.
    pub fn partition_key(mut self, key: impl Into<String>) -> New<M> {
        self.partition_key = Some(key.into());
        self
    }

    /// Sets the trace, a W3C `traceparent`. Default: the caller's trace, or a new one.
    pub fn trace(mut self, traceparent: impl Into<String>) -> New<M> {
        self.trace = Some(traceparent.into());
        self
    }

    /// Sets what happens to a child when its parent ends first. Default: it continues.
    ///
    /// Only children of a [`fan_out`](super::fan_out) use it.
    pub fn on_parent_close(mut self, policy: ClosePolicy) -> New<M> {
        self.on_parent_close = policy;
        self
    }

    pub(crate) fn or_trace(mut self, trace: impl FnOnce() -> String) -> New<M> {
        self.trace = self.trace.or_else(|| Some(trace()));
        self
    }
}

impl<M: Machine> TryFrom<New<M>> for NewInstance {
    type Error = Invalid;

    fn try_from(new: New<M>) -> Result<NewInstance, Invalid> {
        let (step, state) = codec::encode(&new.state)?;
        let correlation = match (new.key, new.scope) {
            (Some(key), scope) => Some((key, scope.unwrap_or_default())),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Invalid::new(
                    "scope",
                    "is given without a key; call .key(..) too",
                ));
            }
        };
        let mut row = NewInstance::new(M::NAME, step, state)
            .version(M::VERSION)
            .queue(new.queue.as_deref().unwrap_or(M::QUEUE))
            .priority(new.priority)
            .start(new.start);
        row.partition_key = new.partition_key;
        row.trace = new.trace;
        row.on_parent_close = new.on_parent_close;
        if let Some((key, scope)) = correlation {
            row = row.correlation(key, scope);
        }
        row.check()?;
        Ok(row)
    }
}

impl<M: Machine> fmt::Debug for New<M> {
    /// Omits the state: payloads do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("New")
            .field("machine", &M::NAME)
            .field("version", &M::VERSION)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The id of an instance of `M`. The type gives the type of its output.
pub struct Id<M>(InstanceId, PhantomData<fn() -> M>);

impl<M> Id<M> {
    /// Creates a typed id. The caller asserts that `id` is an instance of `M`.
    pub fn of(id: InstanceId) -> Id<M> {
        Id(id, PhantomData)
    }

    /// Returns the plain id.
    pub fn get(self) -> InstanceId {
        self.0
    }
}

impl<M> Clone for Id<M> {
    fn clone(&self) -> Id<M> {
        *self
    }
}

impl<M> Copy for Id<M> {}

impl<M> PartialEq for Id<M> {
    fn eq(&self, other: &Id<M>) -> bool {
        self.0 == other.0
    }
}

impl<M> Eq for Id<M> {}

impl<M> fmt::Debug for Id<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

impl<M> fmt::Display for Id<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<M> Serialize for Id<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, M> Deserialize<'de> for Id<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id<M>, D::Error> {
        InstanceId::deserialize(deserializer).map(Id::of)
    }
}

impl<M> From<Id<M>> for InstanceId {
    fn from(id: Id<M>) -> InstanceId {
        id.0
    }
}

impl<M> From<Id<M>> for Target {
    fn from(id: Id<M>) -> Target {
        Target::Id(id.0)
    }
}

/// The address of an instance of `M` by its correlation key; made by [`Machine::key`].
pub struct Key<M>(String, PhantomData<fn() -> M>);

impl<M> Key<M> {
    pub(super) fn new(key: impl Into<String>) -> Key<M> {
        Key(key.into(), PhantomData)
    }
}

impl<M> Clone for Key<M> {
    fn clone(&self) -> Key<M> {
        Key(self.0.clone(), PhantomData)
    }
}

impl<M: Machine> fmt::Debug for Key<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {:?})", M::NAME, self.0)
    }
}

impl<M: Machine> From<Key<M>> for Target {
    fn from(key: Key<M>) -> Target {
        Target::Key {
            machine: M::NAME.into(),
            key: key.0,
        }
    }
}
