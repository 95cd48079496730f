//! One value on its way through the codec: framed, bound to its place, and why it could not be read or written.

use super::envelope::{self, Envelope};
use super::{Codec, CodecError, Kind, Place};
use outlast_core::limits::{self, ENCODED_BYTES_MAX, ERROR_BYTES_MAX};
use outlast_core::{Error, InstanceId, Invalid, Json};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What separates a step from its state in what is encoded: no step's name has it.
const STEP_END: u8 = b'\n';

/// How often an error text is shortened until it fits when it is encoded.
const SHORTENINGS: usize = 4;

/// Where a value belongs, as its writer or its reader knows it.
pub(super) struct Value<'a> {
    kind: Kind,
    name: &'a str,
    /// Of a state, where it is known.
    step: Option<&'a str>,
    instance: Option<InstanceId>,
}

impl<'a> Value<'a> {
    pub(super) fn state(
        machine: &'a str,
        step: Option<&'a str>,
        instance: Option<InstanceId>,
    ) -> Value<'a> {
        Value {
            kind: Kind::State,
            name: machine,
            step,
            instance,
        }
    }

    pub(super) fn result(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Result,
            name: machine,
            step: None,
            instance,
        }
    }

    pub(super) fn signal(name: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Signal,
            name,
            step: None,
            instance,
        }
    }

    pub(super) fn error(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Error,
            name: machine,
            step: None,
            instance,
        }
    }

    pub(super) fn event(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Event,
            name: machine,
            step: None,
            instance,
        }
    }

    pub(super) fn encode(&self, codec: &dyn Codec, plain: &Json) -> Result<Json, Unwritable> {
        let text = plain.as_str();
        let sealed = match self.step {
            Some(step) => {
                let mut framed = Vec::with_capacity(step.len() + 1 + text.len());
                framed.extend_from_slice(step.as_bytes());
                framed.push(STEP_END);
                framed.extend_from_slice(text.as_bytes());
                self.seal(codec, &framed)?
            }
            None => self.seal(codec, text.as_bytes())?,
        };
        let encoded = Json::encoded(&sealed).map_err(Unwritable::Invalid)?;
        let bytes = encoded.as_str().len();
        if bytes > ENCODED_BYTES_MAX {
            let reason = format!(
                "has {} bytes, and {bytes} when it is encoded; at most {ENCODED_BYTES_MAX} are stored",
                text.len()
            );
            return Err(Unwritable::Invalid(Invalid::new(
                self.kind.as_str(),
                reason,
            )));
        }
        Ok(encoded)
    }

    /// An error text that fits when it is encoded: a report of a failure is cut, never refused.
    pub(super) fn encode_text(&self, codec: &dyn Codec, text: &str) -> Result<String, Unwritable> {
        const CUT: &str = "… (cut)";
        let mut plain = limits::clean_error(text);
        for _ in 0..SHORTENINGS {
            let sealed = self.seal(codec, plain.as_bytes())?;
            let encoded = format!("{}{sealed}", envelope::TEXT_HEAD);
            if encoded.len() <= ERROR_BYTES_MAX {
                return Ok(encoded);
            }
            let spare = encoded.len() - ERROR_BYTES_MAX + CUT.len();
            let mut end = plain.len().saturating_sub(spare);
            while !plain.is_char_boundary(end) {
                end -= 1;
            }
            plain.truncate(end);
            plain.push_str(CUT);
        }
        let reason = format!("it makes more than {ERROR_BYTES_MAX} bytes of a short text");
        Err(self.unreadable(CodecError::Unavailable { reason }).into())
    }

    /// Reads a value; a plain one is itself, if plain ones are accepted.
    pub(super) fn read(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        if value.as_encoded().is_some() {
            return self.decode(codec, value);
        }
        if codec.accepts_plain() {
            return Ok(value.clone());
        }
        Err(self.unreadable(CodecError::NotEncoded))
    }

    /// As [`read`](Value::read); what never can be read is refused in its place.
    pub(super) fn read_or_refuse(
        &self,
        codec: &dyn Codec,
        value: &Json,
    ) -> Result<Json, Unreadable> {
        match self.read(codec, value) {
            Err(unreadable) if !unreadable.error.may_pass() => {
                Ok(envelope::refused(&unreadable.error))
            }
            read => read,
        }
    }

    /// Reads an error text. Plain ones are accepted always, since the store has words of its own; a changed one
    /// is replaced by that, since a report of a failure should not hide it.
    pub(super) fn read_text(&self, codec: &dyn Codec, text: String) -> Result<String, Unreadable> {
        let Some(envelope) = envelope::in_text(&text) else {
            return Ok(text);
        };
        match self.open(codec, envelope).map(String::from_utf8) {
            Ok(Ok(plain)) => Ok(plain),
            Ok(Err(_)) | Err(CodecError::Changed | CodecError::NotEncoded) => {
                Ok(format!("(the error text {})", CodecError::Changed))
            }
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Reads an encoded value.
    pub(super) fn decode(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        let envelope = value.as_encoded().unwrap_or_default();
        let plain = self.open(codec, envelope).and_then(|bytes| {
            let text = self.unframed(&bytes).ok_or(CodecError::Changed)?;
            Json::stored(text.to_owned()).map_err(|_| CodecError::Changed)
        });
        plain.map_err(|error| self.unreadable(error))
    }

    /// The text of the value; none when it belongs to another step.
    fn unframed<'b>(&self, bytes: &'b [u8]) -> Option<&'b str> {
        let text = std::str::from_utf8(bytes).ok()?;
        match self.kind {
            Kind::State => {
                let (step, state) = text.split_once(char::from(STEP_END))?;
                self.step
                    .is_none_or(|expected| expected == step)
                    .then_some(state)
            }
            Kind::Result | Kind::Signal | Kind::Error | Kind::Event => Some(text),
        }
    }

    /// Has the codec encode, whatever it does.
    fn seal(&self, codec: &dyn Codec, plain: &[u8]) -> Result<String, Unwritable> {
        let place = self.place(self.instance);
        let encode = || codec.encode(plain, &place);
        let encoded = catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(panicked()));
        // Whatever is in its way when it writes, it is the codec's and not the value's.
        let unavailable = |reason| self.unreadable(CodecError::Unavailable { reason });
        let encoded = encoded.map_err(|error| match error {
            CodecError::Unavailable { reason } => unavailable(reason),
            CodecError::UnknownKey { .. }
            | CodecError::NoCodec { .. }
            | CodecError::Changed
            | CodecError::NotEncoded => unavailable(format!("it {error}")),
        })?;
        if !Envelope::accepts_key(&encoded.key) {
            let rule = "must be 1 to 64 letters, digits, '-', '_' and '.'";
            return Err(unavailable(format!("the id {:?} of its key {rule}", encoded.key)).into());
        }
        let envelope = Envelope {
            encoded,
            is_bound: self.instance.is_some(),
        };
        Ok(envelope.to_text())
    }

    /// Has the codec decode, whatever it does.
    fn open(&self, codec: &dyn Codec, envelope: &str) -> Result<Vec<u8>, CodecError> {
        let envelope = Envelope::parse(envelope)?;
        let instance = match (envelope.is_bound, self.instance) {
            (false, _) => None,
            (true, Some(id)) => Some(id),
            // It belongs to an instance that is not this one, which has no id yet.
            (true, None) => return Err(CodecError::Changed),
        };
        let place = self.place(instance);
        let decode = || codec.decode(&envelope.encoded, &place);
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(panicked()))
    }

    fn place(&self, instance: Option<InstanceId>) -> Place<'a> {
        Place {
            kind: self.kind,
            name: self.name,
            instance,
        }
    }

    pub(super) fn unreadable(&self, error: CodecError) -> Unreadable {
        let of = match self.kind {
            Kind::State | Kind::Result | Kind::Error => format!("the {}", self.kind.as_str()),
            Kind::Event => "an event".to_owned(),
            Kind::Signal => format!("the payload of signal {:?}", self.name),
        };
        let what = match self.instance {
            Some(id) => format!("{of} of instance {id}"),
            None => of,
        };
        Unreadable { what, error }
    }
}

fn panicked() -> CodecError {
    CodecError::Unavailable {
        reason: "the codec panicked".into(),
    }
}

/// A value that could not be read: which one, and why.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    pub(crate) what: String,
    pub(crate) error: CodecError,
}

/// Why something cannot be written in its encoded form.
#[derive(Debug)]
pub(crate) enum Unwritable {
    /// It never can.
    Invalid(Invalid),
    /// The codec does not work, or does not know what is encoded already.
    Codec(Unreadable),
}

impl Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.error)
    }
}

impl Unreadable {
    /// The same, as the error of `operation`.
    pub(crate) fn during(self, operation: &'static str) -> Error {
        let reason = self.to_string();
        let source = None;
        match self.error {
            CodecError::UnknownKey { .. } | CodecError::NoCodec { .. } => Error::Unusable {
                operation,
                reason,
                source,
            },
            CodecError::Changed | CodecError::NotEncoded => Error::Corrupt {
                operation,
                reason,
                source,
            },
            CodecError::Unavailable { .. } => Error::Transient {
                operation,
                reason,
                source,
            },
        }
    }
}

impl Unwritable {
    pub(super) fn within(self, outer: impl Display) -> Unwritable {
        match self {
            Unwritable::Invalid(invalid) => Unwritable::Invalid(invalid.within(outer)),
            Unwritable::Codec(Unreadable { what, error }) => Unwritable::Codec(Unreadable {
                what: format!("{outer}: {what}"),
                error,
            }),
        }
    }

    /// The same, as the error of `operation`, for what stands at this place of a batch.
    pub(crate) fn during(self, operation: &'static str, place: Option<&str>) -> Error {
        let placed = match place {
            Some(place) => self.within(place),
            None => self,
        };
        match placed {
            Unwritable::Invalid(invalid) => invalid.during(operation),
            Unwritable::Codec(unreadable) => match unreadable.error {
                CodecError::Unavailable { .. } => unreadable.during(operation),
                // It was encoded before it came here, and not by this codec, or for another place.
                CodecError::UnknownKey { .. }
                | CodecError::NoCodec { .. }
                | CodecError::Changed
                | CodecError::NotEncoded => {
                    Invalid::new(unreadable.what, unreadable.error.to_string()).during(operation)
                }
            },
        }
    }
}

impl From<Unreadable> for Unwritable {
    fn from(unreadable: Unreadable) -> Unwritable {
        Unwritable::Codec(unreadable)
    }
}

#[cfg(all(test, feature = "encryption"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;
    use crate::codec::Keyring;

    /// Written by the first version with key `[1; 32]`; whoever changes the form keeps reading it.
    #[test]
    fn what_the_first_version_wrote_is_still_read() {
        let keys = Keyring::new("k1", &[1; 32]).unwrap();
        let id = Some(InstanceId(7));
        let plain = Json::of("secret").unwrap();
        for (value, written) in [
            (
                Value::state("m", Some("begin"), id),
                "1:i:k1:dh+q0UapGC4akaA7tTpB+Uq8Rv5/uBI4LgT6ukh6NC3rR78qIsjkRH1K+ThPkDB9l72PvHgN",
            ),
            (
                Value::state("m", Some("begin"), None),
                "1:-:k1:j4iDjSklKdG4+Yk4bZk8PWnvNZc8HfTPF5DZpJjlT5qZYgbiNpxGJjdwrCf2LlaI/UU5JNAT",
            ),
            (
                Value::result("m", id),
                "1:i:k1:0XDgrXo//zqMhGi88AH3V2ydPN7Ir10zn9QtsaBuHrqs9/i+f0174DOm0lU/+iyO",
            ),
            (
                Value::signal("go", id),
                "1:i:k1:ouvfXXT1A1XupC0wHFHNiugp3J07W1HKwLxREMwQ5Krs+Fc1U07LimU5mb04VfTN",
            ),
        ] {
            let stored = Json::encoded(written).unwrap();
            assert_eq!(value.read(&keys, &stored).unwrap(), plain);
        }
        let text =
            "outlast:encoded:1:i:k1:cibEFZjWcvt981q74Ici4aKEQTJpLGmV7y1qDXufCpm7dKVo+UUS031L8/+YEg";
        let error = Value::error("m", id);
        assert_eq!(error.read_text(&keys, text.into()).unwrap(), "secret");
    }
}
