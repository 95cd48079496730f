//! Encoding what is stored, so that the database never sees it: encryption above all.
//!
//! A [`Codec`] turns states, results, payloads of signals and error texts into bytes before they leave the
//! process, and back after they come in. It is set once: [`Client::codec`](crate::Client::codec),
//! [`EngineBuilder::codec`](crate::EngineBuilder::codec),
//! [`HarnessBuilder::codec`](crate::testing::HarnessBuilder::codec). Machines know nothing of it.
//!
#![cfg_attr(
    all(feature = "encryption", feature = "sqlite"),
    doc = r#"```
use outlast::codec::Keyring;
use outlast::prelude::*;
# struct Checkout;
# #[derive(Serialize, Deserialize)]
# #[serde(tag = "step", content = "state", rename_all = "snake_case")]
# enum Order { Start { card: String } }
# impl Machine for Checkout {
#     const NAME: &'static str = "checkout";
#     type State = Order;
#     type Output = String;
#     async fn step(&self, state: Order, _: &Context) -> StepResult<Self> {
#         let Order::Start { card } = state;
#         Ok(Outcome::done(card))
#     }
# }

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
# let (new_key, old_key) = ([1; 32], [2; 32]);
// The first key writes, all of them read.
let keys = Keyring::new("2026-11", &new_key)?.and("2026-05", &old_key)?;
let store = Sqlite::in_memory()?;
let engine = Engine::builder(store.clone())
    .codec(keys)
    .machine(Checkout)
    .queue("default", 10)
    .start()
    .await?;
let order = New::<Checkout>(Order::Start { card: "4111".into() });
let id = engine.insert(order).await?.id().ok_or("its key is free")?;
assert_eq!(engine.wait(id, Duration::from_secs(10)).await?, "4111");

// Who has no key sees that there is something, and no more.
let stored = Client::new(store).get(id).await?.ok_or("it is stored")?;
assert!(stored.state.as_encoded().is_some_and(|it| it.starts_with("2:-:2026-11:")));
# engine.shutdown().await;
# Ok(())
# }
```"#
)]
//!
//! What is encoded, what stays readable, how keys are changed, and what a database that is not trusted can still
//! do is in the guide `docs/encryption.md`.

mod coding;
mod envelope;
#[cfg(feature = "encryption")]
mod keyring;
mod value;

#[cfg(feature = "encryption")]
pub use keyring::Keyring;

pub(crate) use coding::{Coding, plain_outcome, refusal};
pub(crate) use value::{Unreadable, Unwritable};

use outlast_core::{EventKind, InstanceId};

/// Turns values into bytes that may be stored, and back.
///
/// It is called on the threads that run the steps, once for every value that is written or read, and must not
/// block them: one that asks a key service keeps the answer.
///
/// ```
/// use outlast::codec::{Codec, CodecError, Encoded, Place};
///
/// /// No secret at all; it shows the shape.
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

    /// Decodes what was encoded, for this place and no other.
    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>, CodecError>;

    /// Whether a value that is not encoded is read as it is: one that was written before there was a codec, or
    /// by the SQL functions. When it is not, such a state fails its instance.
    fn accepts_plain(&self) -> bool {
        true
    }

    /// Whether a value is read that an older build has encoded without its exact place ([`Place::spot`]). When it is not,
    /// such a state fails its instance.
    fn accepts_old_form(&self) -> bool {
        true
    }
}

/// What a codec made of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What is needed to read it again: the id of a key, most of the time. It stands beside the bytes for
    /// everybody to read: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub key: String,
    /// What is stored.
    pub bytes: Vec<u8>,
}

/// Where a value belongs: what is known of it both when it is written and when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place<'a> {
    /// What kind of value it is.
    pub kind: Kind,
    /// The machine of a state, result or error; the name of a signal.
    pub name: &'a str,
    /// The instance it belongs to, if that was known when it was written: an instance that is about to be
    /// inserted has no id yet, and neither has one that a signal finds by its key.
    pub instance: Option<InstanceId>,
    /// The exact place in that instance. `None` for a value that an older build has encoded.
    pub spot: Option<Spot<'a>>,
}

/// The exact place of a value in its instance.
///
/// What else is known of a state or a signal only when it is written is encoded with the value and compared when it is
/// read: step, version, run and visit of a state, the dedup key of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spot<'a> {
    /// Its instance has one value of this kind.
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
    /// A signal to whichever instance holds a correlation key.
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
        /// The place in the history of the run, counted from 1.
        seq: i32,
        /// What the event says.
        kind: EventKind,
        /// The call it belongs to.
        call: Option<i32>,
        /// What that call names.
        name: &'a str,
    },
}

/// What kind of value is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The state of an instance, with the step it belongs to.
    State,
    /// What an instance led to.
    Result,
    /// What a signal carries.
    Signal,
    /// Why a step failed, or an instance ended.
    Error,
    /// What an event of a workflow's history carries.
    Event,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::State => "state",
            Kind::Result => "result",
            Kind::Signal => "signal",
            Kind::Error => "error",
            Kind::Event => "event",
        }
    }
}

impl Place<'_> {
    /// The place as bytes, no two alike: what an authenticated cipher takes as associated data, so that what was
    /// encoded for one place is not accepted at another.
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
    /// Adds the spot to associated data: a letter for its kind, then its parts in their order.
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
                // No call is below 1.
                for number in [run, seq, call.unwrap_or(0)] {
                    data.extend_from_slice(&number.to_be_bytes());
                }
                put_text(data, kind.as_str());
                put_text(data, name);
            }
        }
    }
}

/// Adds a text with its length before it, so that no two lists of texts are alike.
fn put_text(data: &mut Vec<u8>, text: &str) {
    data.extend_from_slice(&(text.len() as u64).to_be_bytes());
    data.extend_from_slice(text.as_bytes());
}

/// Why a value was not encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// It was encoded with a key that is not here. It may be during a rollout, so what is encoded is left alone
    /// until somebody has the key.
    #[error("is encoded with key {key:?}, which is not among the keys here")]
    UnknownKey {
        /// The key's id.
        key: String,
    },
    /// It is encoded, and there is no codec here at all.
    #[error("is encoded with key {key:?}, and no codec is set here")]
    NoCodec {
        /// The key's id.
        key: String,
    },
    /// It was changed, cut, or moved from another place since it was encoded.
    #[error("was changed, or moved from elsewhere, since it was encoded")]
    Changed,
    /// It is plain, and the codec accepts only what is encoded.
    #[error("is not encoded, and nothing plain is accepted here")]
    NotEncoded,
    /// An older build has encoded it without its exact place, and the codec refuses such values.
    #[error(
        "is encoded in the older form, which does not bind it to its place, and that is not accepted here"
    )]
    OldForm,
    /// The codec cannot do it now; trying again may help.
    #[error("cannot be encoded or decoded now: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

impl CodecError {
    /// Whether trying again, here or elsewhere, may lead to something else.
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
