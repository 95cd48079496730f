//! One value on its way through the codec: its frame, its binding to a place, and its errors.

use super::envelope::{self, Binding, Envelope, Form};
use super::{Codec, CodecError, Kind, Place, Spot};
use outlast_core::limits::{self, ENCODED_BYTES_MAX, ERROR_BYTES_MAX};
use outlast_core::{Error, Event, InstanceId, Invalid, Json, NewEvent, SignalId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Separates the header from the value in the encoded bytes. Neither step names nor JSON headers
/// contain it.
const HEADER_END: char = '\n';

/// How often an error text is shortened until its encoded form fits.
const SHORTENINGS: usize = 4;

/// The place of a value, as its writer or its reader knows it.
pub(super) struct Value<'a> {
    kind: Kind,
    name: &'a str,
    instance: Option<InstanceId>,
    exact: ExactPlace<'a>,
}

/// What is known of the exact place of a value.
enum ExactPlace<'a> {
    /// A result or an error: an instance has one.
    Whole,
    State(StatePlace<'a>),
    Signal(SignalTarget<'a>),
    Spot(Spot<'a>),
}

/// The place of a state. Facts that the reader does not know are not compared.
#[derive(Clone, Copy, Default)]
pub(super) struct StatePlace<'a> {
    pub(super) step: Option<&'a str>,
    pub(super) version: Option<i32>,
    pub(super) run: Option<i32>,
    /// The revision at which the instance entered its step.
    pub(super) entered: Option<i64>,
    /// The correlation key, if there is one. It distinguishes inserted states, which are bound to
    /// no instance.
    pub(super) key: Option<Option<&'a str>>,
    /// For a child: its parent, its round and its position.
    pub(super) child: Option<(InstanceId, i32, i32)>,
}

/// The place of a signal.
#[derive(Clone, Copy, Default)]
pub(super) struct SignalTarget<'a> {
    /// Machine and correlation key of its target.
    pub(super) key: Option<(&'a str, &'a str)>,
    pub(super) dedup_key: Option<&'a str>,
}

/// The header of a state: a line of JSON.
#[derive(Serialize, Deserialize)]
struct StateHeader<'a>(
    #[serde(borrow)] Cow<'a, str>,
    i32,
    i32,
    i64,
    #[serde(borrow)] Option<Cow<'a, str>>,
);

/// The header of a signal's payload: a line of JSON.
#[derive(Serialize, Deserialize)]
struct SignalHeader<'a>(#[serde(borrow)] [Option<Cow<'a, str>>; 1]);

impl<'a> Value<'a> {
    pub(super) fn state(
        machine: &'a str,
        instance: Option<InstanceId>,
        visit: StatePlace<'a>,
    ) -> Value<'a> {
        Value {
            kind: Kind::State,
            name: machine,
            instance,
            exact: ExactPlace::State(visit),
        }
    }

    pub(super) fn result(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Result,
            name: machine,
            instance,
            exact: ExactPlace::Whole,
        }
    }

    pub(super) fn signal(
        name: &'a str,
        instance: Option<InstanceId>,
        sent: SignalTarget<'a>,
    ) -> Value<'a> {
        Value {
            kind: Kind::Signal,
            name,
            instance,
            exact: ExactPlace::Signal(sent),
        }
    }

    pub(super) fn error(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Error,
            name: machine,
            instance,
            exact: ExactPlace::Whole,
        }
    }

    /// Creates the place of a stored event.
    pub(super) fn event(machine: &'a str, instance: InstanceId, event: &'a Event) -> Value<'a> {
        Value {
            kind: Kind::Event,
            name: machine,
            instance: Some(instance),
            exact: ExactPlace::Spot(Spot::Event {
                run: event.run,
                seq: event.seq,
                kind: event.kind,
                call: event.call,
                name: &event.name,
            }),
        }
    }

    /// Creates the place of an event that is written at this position.
    pub(super) fn new_event(
        machine: &'a str,
        instance: InstanceId,
        (run, seq): (i32, i32),
        event: &'a NewEvent,
    ) -> Value<'a> {
        Value {
            kind: Kind::Event,
            name: machine,
            instance: Some(instance),
            exact: ExactPlace::Spot(Spot::Event {
                run,
                seq,
                kind: event.kind,
                call: event.call,
                name: &event.name,
            }),
        }
    }

    /// Creates the place of a view.
    pub(super) fn view(machine: &'a str, instance: InstanceId, name: &'a str) -> Value<'a> {
        Value {
            kind: Kind::View,
            name: machine,
            instance: Some(instance),
            exact: ExactPlace::Spot(Spot::View { name }),
        }
    }

    /// Creates the place of the reply to an update.
    pub(super) fn reply(machine: &'a str, instance: InstanceId, signal: SignalId) -> Value<'a> {
        Value {
            kind: Kind::Reply,
            name: machine,
            instance: Some(instance),
            exact: ExactPlace::Spot(Spot::Reply { signal }),
        }
    }

    pub(super) fn encode(&self, codec: &dyn Codec, plain: &Json) -> Result<Json, Unwritable> {
        let text = plain.as_str();
        let sealed = match self.header().map_err(Unwritable::Invalid)? {
            Some(mut framed) => {
                framed.reserve(1 + text.len());
                framed.push(HEADER_END);
                framed.push_str(text);
                self.seal(codec, framed.as_bytes())?
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

    /// Returns the header of the value.
    fn header(&self) -> Result<Option<String>, Invalid> {
        let header = match &self.exact {
            ExactPlace::Whole | ExactPlace::Spot(_) => return Ok(None),
            ExactPlace::State(visit) => serde_json::to_string(&StateHeader(
                visit.step.unwrap_or_default().into(),
                visit.version.unwrap_or_default(),
                visit.run.unwrap_or(1),
                visit.entered.unwrap_or_default(),
                visit.key.flatten().map(Cow::Borrowed),
            )),
            ExactPlace::Signal(sent) => {
                serde_json::to_string(&SignalHeader([sent.dedup_key.map(Cow::Borrowed)]))
            }
        };
        header
            .map(Some)
            .map_err(|error| Invalid::new(self.kind.as_str(), error.to_string()))
    }

    /// Encodes an error text.
    ///
    /// A long text is cut until it fits: a report of a failure must never be refused.
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

    /// Reads a value. A plain value is returned unchanged, if plain values are accepted.
    pub(super) fn read(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        if value.as_encoded().is_some() {
            return self.decode(codec, value);
        }
        if codec.accepts_plain() {
            return Ok(value.clone());
        }
        Err(self.unreadable(CodecError::NotEncoded))
    }

    /// Reads like [`read`](Value::read), but replaces a value that can never be read by a refusal.
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

    /// Reads an error text.
    ///
    /// Plain texts are always accepted, because the store writes some itself. A changed text is
    /// replaced by that fact, so that it does not hide the failure.
    pub(super) fn read_text(&self, codec: &dyn Codec, text: String) -> Result<String, Unreadable> {
        let Some(envelope) = envelope::in_text(&text) else {
            return Ok(text);
        };
        match self.open(codec, envelope).map(String::from_utf8) {
            Ok(Ok(plain)) => Ok(plain),
            Ok(Err(_)) | Err(CodecError::Changed | CodecError::NotEncoded) => {
                Ok(format!("(the error text {})", CodecError::Changed))
            }
            Err(error @ CodecError::OldForm) => Ok(format!("(the error text {error})")),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// Decodes an encoded value.
    pub(super) fn decode(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        let envelope = value.as_encoded().unwrap_or_default();
        let plain = Envelope::parse(envelope).and_then(|envelope| {
            let bytes = self.open_envelope(codec, &envelope)?;
            let text = self
                .unframed(&envelope, &bytes)
                .ok_or(CodecError::Changed)?;
            Json::stored(text.to_owned()).map_err(|_| CodecError::Changed)
        });
        plain.map_err(|error| self.unreadable(error))
    }

    /// Returns the text of the value; `None` when its header names another place.
    fn unframed<'b>(&self, envelope: &Envelope, bytes: &'b [u8]) -> Option<&'b str> {
        let text = std::str::from_utf8(bytes).ok()?;
        match (&self.exact, envelope.form) {
            (ExactPlace::Whole | ExactPlace::Spot(_), _) | (ExactPlace::Signal(_), Form::First) => {
                Some(text)
            }
            (ExactPlace::State(visit), Form::First) => {
                let (step, state) = text.split_once(HEADER_END)?;
                fits(visit.step, step).then_some(state)
            }
            (ExactPlace::State(visit), Form::Second) => {
                let (header, state) = text.split_once(HEADER_END)?;
                let StateHeader(step, version, run, entered, key) =
                    serde_json::from_str(header).ok()?;
                // A state that is bound to its instance needs no key.
                let fits_key =
                    envelope.binding == Binding::Instance || fits(visit.key, key.as_deref());
                let fits = fits(visit.step, &*step)
                    && fits(visit.version, version)
                    && fits(visit.run, run)
                    && fits(visit.entered, entered);
                (fits && fits_key).then_some(state)
            }
            (ExactPlace::Signal(sent), Form::Second) => {
                let (header, payload) = text.split_once(HEADER_END)?;
                let SignalHeader([dedup_key]) = serde_json::from_str(header).ok()?;
                // A prepared signal may have got its dedup key afterwards.
                let fits = dedup_key.is_none() || dedup_key.as_deref() == sent.dedup_key;
                fits.then_some(payload)
            }
        }
    }

    /// Calls the codec to encode, and catches its panics.
    fn seal(&self, codec: &dyn Codec, plain: &[u8]) -> Result<String, Unwritable> {
        let binding = self.binding();
        let place = self
            .place(Form::Second, binding)
            .map_err(|error| self.unreadable(error))?;
        let encode = || codec.encode(plain, &place);
        let encoded = catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(panicked()));
        // Any failure to write is the codec's and not the value's.
        let unavailable = |reason| self.unreadable(CodecError::Unavailable { reason });
        let encoded = encoded.map_err(|error| match error {
            CodecError::Unavailable { reason } => unavailable(reason),
            CodecError::UnknownKey { .. }
            | CodecError::NoCodec { .. }
            | CodecError::Changed
            | CodecError::OldForm
            | CodecError::NotEncoded => unavailable(format!("it {error}")),
        })?;
        if !Envelope::accepts_key(&encoded.key) {
            let rule = "must be 1 to 64 letters, digits, '-', '_' and '.'";
            return Err(unavailable(format!("the id {:?} of its key {rule}", encoded.key)).into());
        }
        let envelope = Envelope {
            encoded,
            form: Form::Second,
            binding,
        };
        Ok(envelope.to_text())
    }

    /// Calls the codec to decode an envelope.
    fn open(&self, codec: &dyn Codec, envelope: &str) -> Result<Vec<u8>, CodecError> {
        self.open_envelope(codec, &Envelope::parse(envelope)?)
    }

    /// Calls the codec to decode, and catches its panics.
    fn open_envelope(&self, codec: &dyn Codec, envelope: &Envelope) -> Result<Vec<u8>, CodecError> {
        if envelope.form == Form::First && !codec.accepts_old_form() {
            return Err(CodecError::OldForm);
        }
        let place = self.place(envelope.form, envelope.binding)?;
        let decode = || codec.decode(&envelope.encoded, &place);
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(panicked()))
    }

    /// Returns the tightest binding that the writer's knowledge allows.
    fn binding(&self) -> Binding {
        match &self.exact {
            _ if self.instance.is_some() => Binding::Instance,
            ExactPlace::State(StatePlace { child: Some(_), .. }) => Binding::Child,
            ExactPlace::Signal(SignalTarget { key: Some(_), .. }) => Binding::Key,
            ExactPlace::Whole
            | ExactPlace::State(_)
            | ExactPlace::Signal(_)
            | ExactPlace::Spot(_) => Binding::Nothing,
        }
    }

    /// Returns the place of a value with this form and binding.
    ///
    /// A value that is bound to a fact which the reader lacks belongs to another place.
    fn place(&self, form: Form, binding: Binding) -> Result<Place<'a>, CodecError> {
        let instance = match binding {
            Binding::Instance => Some(self.instance.ok_or(CodecError::Changed)?),
            Binding::Child | Binding::Key | Binding::Nothing => None,
        };
        #[cfg(outlast_mutants)]
        if self.kind == Kind::Event
            && outlast_core::mutant::is("events-are-not-bound-to-their-position")
        {
            return Ok(Place {
                kind: self.kind,
                name: self.name,
                instance,
                spot: Some(Spot::Whole),
            });
        }
        let spot = match (binding, &self.exact) {
            (Binding::Instance | Binding::Nothing, ExactPlace::Spot(spot)) => *spot,
            (Binding::Instance | Binding::Nothing, _) => Spot::Whole,
            (Binding::Child, ExactPlace::State(visit)) => {
                let (parent, round, position) = visit.child.ok_or(CodecError::Changed)?;
                Spot::Child {
                    parent,
                    round,
                    position,
                }
            }
            (Binding::Key, ExactPlace::Signal(sent)) => {
                let (machine, key) = sent.key.ok_or(CodecError::Changed)?;
                Spot::Key { machine, key }
            }
            (Binding::Child | Binding::Key, _) => return Err(CodecError::Changed),
        };
        Ok(Place {
            kind: self.kind,
            name: self.name,
            instance,
            spot: (form == Form::Second).then_some(spot),
        })
    }

    pub(super) fn unreadable(&self, error: CodecError) -> Unreadable {
        let of = match self.kind {
            Kind::State | Kind::Result | Kind::Error => format!("the {}", self.kind.as_str()),
            Kind::Event => "an event".to_owned(),
            Kind::View => "a view".to_owned(),
            Kind::Reply => "a reply".to_owned(),
            Kind::Signal => format!("the payload of signal {:?}", self.name),
        };
        let what = match self.instance {
            Some(id) => format!("{of} of instance {id}"),
            None => of,
        };
        Unreadable { what, error }
    }
}

/// Whether the written fact matches the expected one, if any is expected.
fn fits<T: PartialEq>(expected: Option<T>, written: T) -> bool {
    expected.is_none_or(|expected| expected == written)
}

fn panicked() -> CodecError {
    CodecError::Unavailable {
        reason: "the codec panicked".into(),
    }
}

/// A value that could not be read, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    pub(crate) what: String,
    pub(crate) error: CodecError,
}

/// Why a value cannot be encoded.
#[derive(Debug)]
pub(crate) enum Unwritable {
    /// It can never be encoded.
    Invalid(Invalid),
    /// The codec fails, or does not know the key of an already encoded value.
    Codec(Unreadable),
}

impl Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.error)
    }
}

impl Unreadable {
    /// Turns it into an error of `operation`.
    pub(crate) fn during(self, operation: &'static str) -> Error {
        let reason = self.to_string();
        let source = None;
        match self.error {
            CodecError::UnknownKey { .. } | CodecError::NoCodec { .. } => Error::Unusable {
                operation,
                reason,
                source,
            },
            CodecError::Changed | CodecError::NotEncoded | CodecError::OldForm => Error::Corrupt {
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

    /// Turns it into an error of `operation`, for this row of a batch.
    pub(crate) fn during(self, operation: &'static str, place: Option<&str>) -> Error {
        let placed = match place {
            Some(place) => self.within(place),
            None => self,
        };
        match placed {
            Unwritable::Invalid(invalid) => invalid.during(operation),
            Unwritable::Codec(unreadable) => match unreadable.error {
                CodecError::Unavailable { .. } => unreadable.during(operation),
                // The value was encoded before, by another codec or for another place.
                CodecError::UnknownKey { .. }
                | CodecError::NoCodec { .. }
                | CodecError::Changed
                | CodecError::OldForm
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

    /// Written by the first version with key `[1; 32]`. A change of the form must still read it.
    #[test]
    fn what_the_first_version_wrote_is_still_read() {
        let keys = || Keyring::new("k1", &[1; 32]).unwrap();
        let (keys, strict) = (keys().require_encoded(), keys().require_bound());
        let id = Some(InstanceId(7));
        let plain = Json::of("secret").unwrap();
        let begin = StatePlace {
            step: Some("begin"),
            version: Some(2),
            entered: Some(9),
            ..StatePlace::default()
        };
        for (value, written) in [
            (
                Value::state("m", id, begin),
                "1:i:k1:dh+q0UapGC4akaA7tTpB+Uq8Rv5/uBI4LgT6ukh6NC3rR78qIsjkRH1K+ThPkDB9l72PvHgN",
            ),
            (
                Value::state("m", None, begin),
                "1:-:k1:j4iDjSklKdG4+Yk4bZk8PWnvNZc8HfTPF5DZpJjlT5qZYgbiNpxGJjdwrCf2LlaI/UU5JNAT",
            ),
            (
                Value::result("m", id),
                "1:i:k1:0XDgrXo//zqMhGi88AH3V2ydPN7Ir10zn9QtsaBuHrqs9/i+f0174DOm0lU/+iyO",
            ),
            (
                Value::signal("go", id, SignalTarget::default()),
                "1:i:k1:ouvfXXT1A1XupC0wHFHNiugp3J07W1HKwLxREMwQ5Krs+Fc1U07LimU5mb04VfTN",
            ),
        ] {
            let stored = Json::encoded(written).unwrap();
            assert_eq!(value.read(&keys, &stored).unwrap(), plain);
            let refused = value.read(&strict, &stored).unwrap_err();
            assert_eq!(refused.error, CodecError::OldForm);
            // A value that is written again is bound to its place.
            let bound = value.encode(&keys, &plain).unwrap();
            assert_eq!(value.read(&strict, &bound).unwrap(), plain);
        }
        let text =
            "outlast:encoded:1:i:k1:cibEFZjWcvt981q74Ici4aKEQTJpLGmV7y1qDXufCpm7dKVo+UUS031L8/+YEg";
        let error = Value::error("m", id);
        assert_eq!(error.read_text(&keys, text.into()).unwrap(), "secret");
        let refused = error.read_text(&strict, text.into()).unwrap();
        assert!(refused.contains("older form"), "{refused}");
    }

    /// An event of form 1 is bound only to its machine and its instance.
    #[test]
    fn an_event_of_the_first_form_is_read_at_any_place_of_its_instance_unless_that_is_refused() {
        let keys = || Keyring::new("k1", &[1; 32]).unwrap();
        let place = Place {
            kind: Kind::Event,
            name: "m",
            instance: Some(InstanceId(7)),
            spot: None,
        };
        let envelope = Envelope {
            encoded: keys().encode(b"{}", &place).unwrap(),
            form: Form::First,
            binding: Binding::Instance,
        };
        let stored = Json::encoded(&envelope.to_text()).unwrap();
        let event = |seq| Event {
            run: 1,
            seq,
            at: outlast_core::Timestamp(0),
            kind: outlast_core::EventKind::StepCompleted,
            call: Some(1),
            name: "a".into(),
            data: stored.clone(),
        };
        for event in [event(1), event(2)] {
            let value = Value::event("m", InstanceId(7), &event);
            assert_eq!(value.read(&keys(), &stored).unwrap().as_str(), "{}");
            let refused = value.read(&keys().require_bound(), &stored).unwrap_err();
            assert_eq!(refused.error, CodecError::OldForm);
        }
    }

    /// The header of a state must match the facts that its reader knows.
    #[test]
    fn a_state_is_read_only_where_all_that_its_reader_knows_fits() {
        let keys = Keyring::new("k1", &[1; 32]).unwrap();
        let written = StatePlace {
            step: Some("a\nb"),
            version: Some(2),
            run: Some(3),
            entered: Some(4),
            key: Some(Some("k\n\"")),
            child: None,
        };
        let plain = Json::of("secret").unwrap();
        let state = |visit| Value::state("m", None, visit);
        let stored = state(written).encode(&keys, &plain).unwrap();
        for fits in [written, StatePlace::default()] {
            assert_eq!(state(fits).read(&keys, &stored).unwrap(), plain);
        }
        for elsewhere in [
            StatePlace {
                step: Some("a"),
                ..written
            },
            StatePlace {
                version: Some(1),
                ..written
            },
            StatePlace {
                run: Some(1),
                ..written
            },
            StatePlace {
                entered: Some(5),
                ..written
            },
            StatePlace {
                key: Some(None),
                ..written
            },
        ] {
            let refused = state(elsewhere).read(&keys, &stored).unwrap_err();
            assert_eq!(refused.error, CodecError::Changed);
        }
    }
}
