//! Typed ids and keys, which address instances.

use super::Durable;
use outlast_core::{InstanceId, KeyText, Target};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

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

/// The address of an instance of `M` by its correlation key; made by
/// [`Machine::key`](crate::Machine::key).
pub struct Key<M>(KeyText, PhantomData<fn() -> M>);

impl<M> Key<M> {
    pub(crate) fn new(key: impl Into<KeyText>) -> Key<M> {
        Key(key.into(), PhantomData)
    }
}

impl<M> Clone for Key<M> {
    fn clone(&self) -> Key<M> {
        Key(self.0.clone(), PhantomData)
    }
}

impl<M: Durable> fmt::Debug for Key<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {:?})", M::NAME, self.0)
    }
}

impl<M: Durable> From<Key<M>> for Target {
    fn from(key: Key<M>) -> Target {
        Target::Key {
            machine: M::NAME.into(),
            key: key.0.into(),
        }
    }
}

/// What [`Client::handle`](crate::Client::handle) looks up: an id, a [`Key`], or a key as text or bytes.
#[derive(Debug)]
pub struct Address<M> {
    lookup: Lookup,
    machine: PhantomData<fn() -> M>,
}

#[derive(Debug)]
enum Lookup {
    Id(InstanceId),
    Key(KeyText),
}

impl<M> Address<M> {
    fn new(lookup: Lookup) -> Address<M> {
        Address {
            lookup,
            machine: PhantomData,
        }
    }
}

impl<M: Durable> Address<M> {
    pub(crate) fn target(self) -> Target {
        match self.lookup {
            Lookup::Id(id) => Target::Id(id),
            Lookup::Key(key) => Key::<M>::new(key).into(),
        }
    }
}

impl<M> From<Id<M>> for Address<M> {
    fn from(id: Id<M>) -> Address<M> {
        Address::new(Lookup::Id(id.0))
    }
}

impl<M> From<InstanceId> for Address<M> {
    fn from(id: InstanceId) -> Address<M> {
        Address::new(Lookup::Id(id))
    }
}

impl<M> From<Key<M>> for Address<M> {
    fn from(key: Key<M>) -> Address<M> {
        Address::new(Lookup::Key(key.0))
    }
}

/// An address can be made from everything that a key can be made from.
macro_rules! address_from {
    ($($given:ty),*) => {
        $(impl<M> From<$given> for Address<M> {
            fn from(key: $given) -> Address<M> {
                Address::new(Lookup::Key(key.into()))
            }
        })*
    };
}

address_from!(&str, String, &String, &[u8], Vec<u8>, &Vec<u8>, KeyText);

impl<M, const N: usize> From<&[u8; N]> for Address<M> {
    fn from(key: &[u8; N]) -> Address<M> {
        Address::new(Lookup::Key(key.into()))
    }
}
