//! Encoding of stored values, mainly encryption, so that the database never sees them.
//!
//! A [`Codec`] turns states, results, payloads of signals and error texts into bytes before they
//! leave the process, and back. Set it once: [`Client::codec`](crate::Client::codec),
//! [`EngineBuilder::codec`](crate::engine::EngineBuilder::codec),
//! [`HarnessBuilder::codec`](crate::testing::HarnessBuilder::codec). Machines do not see it.
//!
#![cfg_attr(
    all(feature = "encryption", feature = "sqlite"),
    doc = r#"```
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast::{Client, Sqlite};

#[job]
async fn charge(card: String) -> std::io::Result<String> {
    Ok(format!("charged {card}"))
}

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let (new_key, old_key) = ([1; 32], [2; 32]);
// The first key writes, all keys read.
let keys = Keyring::new("2026-11", &new_key)?.and("2026-05", &old_key)?;
let store = Sqlite::in_memory()?;
let engine = Engine::builder(store.clone()).codec(keys).register(charge).start().await?;
let charged = engine.start(charge::with("4111".into())).await?;
assert_eq!(charged.output().await?, "charged 4111");

// A client without the key sees only that there is a value.
let stored = Client::new(store).find(charged.id()).await?.ok_or("it is stored")?;
assert!(stored.state.as_encoded().is_some_and(|it| it.starts_with("2:-:2026-11:")));
# engine.shutdown().await?;
# Ok(())
# }
```"#
)]
//!
//! The guide `docs/encryption.md` says what is encoded, what stays readable, how to rotate keys,
//! and what an untrusted database can still do.

mod coding;
mod envelope;
#[cfg(feature = "encryption")]
mod keyring;
mod value;

#[cfg(feature = "encryption")]
pub use keyring::Keyring;

pub(crate) use coding::{Coding, plain_outcome, refusal};
pub(crate) use value::{Unreadable, Unwritable};

use outlast_core::{EventKind, InstanceId, SignalId};

/// Turns values into bytes that may be stored, and back.
///
/// The engine calls it on the threads that run steps, once for every value. It must not block
/// them: a codec that asks a key service must cache the answer.
///
/// ```
/// use outlast::codec::{Codec, CodecError, Encoded, Place};
///
/// /// Keeps nothing secret; it only shows the interface.
/// struct Backwards;
///
/// impl Codec for Backwards {
///     fn encode(&self, plain: &[u8], _place: &Place<'_>) -> Result<Encoded, CodecError> {
///         let bytes = plain.iter().rev().copied().collect();
///         Ok(Encoded { key: "backwards".into(), bytes })
///     }
///
///     fn decode(&self, encoded: &Encoded, _place: &Place<'_>) -> Result<Vec<u8>, CodecError> {
///         if encoded.key != "backwards" {
///             return Err(CodecError::UnknownKey { key: encoded.key.clone() });
///         }
///         Ok(encoded.bytes.iter().rev().copied().collect())
///     }
/// }
/// ```
pub trait Codec: Send + Sync + 'static {
    /// Encodes a value for this place.
    fn encode(&self, plain: &[u8], place: &Place<'_>) -> Result<Encoded, CodecError>;

    /// Decodes a value that was encoded for this place. Must fail for any other place.
    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>, CodecError>;

    /// Whether plain values are accepted.
    ///
    /// They were written before there was a codec, or by the SQL functions.
    ///
    /// If not, an instance with a plain state fails.
    fn accepts_plain(&self) -> bool {
        true
    }

    /// Whether values of the older form are accepted.
    ///
    /// Older builds encoded values without their exact place ([`Place::spot`]).
    ///
    /// If not, an instance with such a state fails.
    fn accepts_old_form(&self) -> bool {
        true
    }
}

/// An encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What is needed to decode it, usually the id of a key.
    ///
    /// It is stored readable beside the bytes: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub key: String,
    /// The bytes to store.
    pub bytes: Vec<u8>,
}

/// The place of a value: what both its writer and its reader know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place<'a> {
    /// The kind of the value.
    pub kind: Kind,
    /// The machine of a state, result or error; the name of a signal.
    pub name: &'a str,
    /// The instance it belongs to, if its writer knew it. A new instance has no id yet, and a
    /// signal by key does not know the id of its target.
    pub instance: Option<InstanceId>,
    /// The exact place in that instance. `None` for a value that an older build encoded.
    pub spot: Option<Spot<'a>>,
}

/// The exact place of a value in its instance.
///
/// Some facts are known only to the writer: step, version, run and visit of a state, the dedup key
/// of a signal. They are encoded with the value and compared when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spot<'a> {
    /// The only value of this kind in its instance.
    Whole,
    /// The state of a child, as its parent starts it.
    Child {
        /// The parent.
        parent: InstanceId,
        /// The parent's fan-out, counted from 1.
        round: i32,
        /// The position in that fan-out, counted from 0.
        position: i32,
    },
    /// A signal to the holder of a correlation key.
    Key {
        /// The machine of that instance.
        machine: &'a str,
        /// The key.
        key: &'a str,
    },
    /// An event of a history.
    Event {
        /// The run.
        run: i32,
        /// The position in the history of the run, counted from 1.
        seq: i32,
        /// The kind of the event.
        kind: EventKind,
        /// The call it belongs to.
        call: Option<i32>,
        /// The name of the call.
        name: &'a str,
    },
    /// A view.
    View {
        /// Its name.
        name: &'a str,
    },
    /// The reply to an update.
    Reply {
        /// The update.
        signal: SignalId,
    },
}

/// The kind of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The state of an instance, with the step it belongs to.
    State,
    /// The result of an instance.
    Result,
    /// The payload of a signal.
    Signal,
    /// Why a step failed, or an instance ended.
    Error,
    /// The data of an event.
    Event,
    /// The value of a view.
    View,
    /// The reply to an update.
    Reply,
}

impl Kind {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::State => "state",
            Kind::Result => "result",
            Kind::Signal => "signal",
            Kind::Error => "error",
            Kind::Event => "event",
            Kind::View => "view",
            Kind::Reply => "reply",
        }
    }
}

impl Place<'_> {
    /// Returns the place as bytes; different places give different bytes.
    ///
    /// An authenticated cipher takes them as associated data. So a value that was encoded for one
    /// place is refused at another.
    pub fn associated_data(&self) -> Vec<u8> {
        let form: &[u8] = match self.spot {
            None => b"outlast 1 ",
            Some(_) => b"outlast 2 ",
        };
        let mut data = form.to_vec();
        put_text(&mut data, self.kind.as_str());
        put_text(&mut data, self.name);
        match self.instance {
            Some(InstanceId(id)) => {
                data.push(1);
                data.extend_from_slice(&id.to_be_bytes());
            }
            None => data.push(0),
        }
        if let Some(spot) = self.spot {
            spot.put(&mut data);
        }
        data
    }
}

impl Spot<'_> {
    /// Appends the spot: a letter for its kind, then its fields in order.
    fn put(self, data: &mut Vec<u8>) {
        match self {
            Spot::Whole => data.push(b'w'),
            Spot::Child {
                parent,
                round,
                position,
            } => {
                data.push(b'c');
                data.extend_from_slice(&parent.0.to_be_bytes());
                data.extend_from_slice(&round.to_be_bytes());
                data.extend_from_slice(&position.to_be_bytes());
            }
            Spot::Key { machine, key } => {
                data.push(b'k');
                put_text(data, machine);
                put_text(data, key);
            }
            Spot::Event {
                run,
                seq,
                kind,
                call,
                name,
            } => {
                data.push(b'e');
                // Calls are counted from 1, so 0 means none.
                for number in [run, seq, call.unwrap_or(0)] {
                    data.extend_from_slice(&number.to_be_bytes());
                }
                put_text(data, kind.as_str());
                put_text(data, name);
            }
            Spot::View { name } => {
                data.push(b'v');
                put_text(data, name);
            }
            Spot::Reply { signal } => {
                data.push(b'r');
                data.extend_from_slice(&signal.0.to_be_bytes());
            }
        }
    }
}

/// Appends a text after its length, so that different lists of texts give different bytes.
fn put_text(data: &mut Vec<u8>, text: &str) {
    data.extend_from_slice(&(text.len() as u64).to_be_bytes());
    data.extend_from_slice(text.as_bytes());
}

/// Why a value was not encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// This node lacks the key. During a rollout another node may have it, so the value is left
    /// unchanged until then.
    #[error("is encoded with key {key:?}, which is not among the keys here")]
    UnknownKey {
        /// The key's id.
        key: String,
    },
    /// The value is encoded, and this client has no codec.
    #[error("is encoded with key {key:?}, and no codec is set here")]
    NoCodec {
        /// The key's id.
        key: String,
    },
    /// The value was changed, cut, or moved from another place.
    #[error("was changed or moved after it was encoded")]
    Changed,
    /// The value is plain, and the codec accepts only encoded values.
    #[error("is not encoded, and this codec accepts encoded values only")]
    NotEncoded,
    /// An older build encoded the value without its exact place, and the codec refuses such
    /// values.
    #[error(
        "is encoded in the older form, which does not bind it to its place, and that is not accepted here"
    )]
    OldForm,
    /// The codec cannot do it now; a retry may succeed.
    #[error("cannot be encoded or decoded now: {reason}")]
    Unavailable {
        /// The reason.
        reason: String,
    },
}

impl CodecError {
    /// Whether a retry, here or on another node, may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            CodecError::UnknownKey { .. }
            | CodecError::NoCodec { .. }
            | CodecError::Unavailable { .. } => true,
            CodecError::Changed | CodecError::NotEncoded | CodecError::OldForm => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_have_the_same_associated_data() {
        let old = |kind, name, instance| Place {
            kind,
            name,
            instance,
            spot: None,
        };
        let (one, other) = (Some(InstanceId(1)), Some(InstanceId(2)));
        let at = |spot| Place {
            spot: Some(spot),
            ..old(Kind::Event, "a", one)
        };
        let event = |run, seq, kind, call, name| {
            at(Spot::Event {
                run,
                seq,
                kind,
                call,
                name,
            })
        };
        let child = |parent, round, position| {
            let parent = InstanceId(parent);
            at(Spot::Child {
                parent,
                round,
                position,
            })
        };
        let key = |machine, key| at(Spot::Key { machine, key });
        let (done, failed) = (EventKind::StepCompleted, EventKind::StepFailed);
        let places = [
            old(Kind::State, "a", None),
            old(Kind::State, "a", one),
            old(Kind::State, "a", other),
            old(Kind::State, "ab", None),
            old(Kind::State, "a\0\0\0\0\0\0\0\u{1}", None),
            old(Kind::Result, "a", None),
            old(Kind::Error, "a", None),
            old(Kind::Signal, "a", None),
            old(Kind::Event, "a", one),
            at(Spot::Whole),
            at(Spot::View { name: "a" }),
            at(Spot::View { name: "b" }),
            at(Spot::Reply {
                signal: SignalId(1),
            }),
            at(Spot::Reply {
                signal: SignalId(2),
            }),
            event(1, 1, done, Some(1), "a"),
            event(2, 1, done, Some(1), "a"),
            event(1, 2, done, Some(1), "a"),
            event(1, 1, failed, Some(1), "a"),
            event(1, 1, done, Some(2), "a"),
            event(1, 1, done, None, "a"),
            event(1, 1, done, Some(1), "b"),
            child(1, 1, 1),
            child(2, 1, 1),
            child(1, 2, 1),
            child(1, 1, 2),
            key("a", "bc"),
            key("ab", "c"),
            key("a", "b"),
        ];
        for (nth, place) in places.iter().enumerate() {
            for another in &places[..nth] {
                assert_ne!(place.associated_data(), another.associated_data());
            }
        }
    }
}
