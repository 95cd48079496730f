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
assert!(stored.state.as_encoded().is_some_and(|it| it.starts_with("1:-:2026-11:")));
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

use outlast_core::InstanceId;

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
        let mut data = b"outlast 1 ".to_vec();
        for part in [self.kind.as_str(), self.name] {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part.as_bytes());
        }
        match self.instance {
            Some(InstanceId(id)) => {
                data.push(1);
                data.extend_from_slice(&id.to_be_bytes());
            }
            None => data.push(0),
        }
        data
    }
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
            CodecError::Changed | CodecError::NotEncoded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_have_the_same_associated_data() {
        let place = |kind, name, instance| Place {
            kind,
            name,
            instance,
        };
        let (one, other) = (Some(InstanceId(1)), Some(InstanceId(2)));
        let places = [
            place(Kind::State, "a", None),
            place(Kind::State, "a", one),
            place(Kind::State, "a", other),
            place(Kind::State, "ab", None),
            place(Kind::State, "a\0\0\0\0\0\0\0\u{1}", None),
            place(Kind::Result, "a", None),
            place(Kind::Error, "a", None),
            place(Kind::Signal, "a", None),
        ];
        for (nth, place) in places.iter().enumerate() {
            for another in &places[..nth] {
                assert_ne!(place.associated_data(), another.associated_data());
            }
        }
    }
}
