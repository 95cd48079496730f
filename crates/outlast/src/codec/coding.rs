//! Where values are encoded on their way to the store, and decoded on their way back.
//!
//! Whatever waits or travels between the two is in its encoded form: rows and signals on their way through an
//! engine's intake, outcomes in the committer, ends that the hub tells. So it does not matter who of this process
//! has which codec: each decodes for itself.

use super::envelope::{self, Envelope};
use super::{Codec, CodecError, Kind, Place};
use outlast_core::limits::{self, ENCODED_BYTES_MAX, ERROR_BYTES_MAX};
use outlast_core::{
    Child, Claim, Error, Instance, InstanceId, Invalid, Json, NewInstance, NewSignal, Outcome,
    SignalOrInsert, SignalRow, Target,
};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What separates a step from its state in what is encoded: no step's name has it.
const STEP_END: u8 = b'\n';

/// How often an error text is shortened until it fits when it is encoded.
const SHORTENINGS: usize = 4;

/// A codec, or none: then values pass as they are.
#[derive(Clone, Default)]
pub(crate) struct Coding(Option<Arc<dyn Codec>>);

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

impl Coding {
    pub(crate) fn new(codec: impl Codec) -> Coding {
        Coding(Some(Arc::new(codec)))
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// Writing.
impl Coding {
    /// A row as it is stored. One that was prepared before is encoded already, and looked at: only what this codec
    /// reads passes.
    pub(crate) fn encode_row(&self, mut row: NewInstance) -> Result<NewInstance, Unwritable> {
        let Some(codec) = &self.0 else {
            return Ok(row);
        };
        let state = Value::state(&row.machine, Some(&row.step), None);
        if row.state.as_encoded().is_some() {
            state.decode(&**codec, &row.state)?;
        } else {
            row.state = state.encode(&**codec, &row.state)?;
        }
        Ok(row)
    }

    /// A signal as it is stored; see [`encode_row`](Coding::encode_row).
    pub(crate) fn encode_signal(&self, mut signal: NewSignal) -> Result<NewSignal, Unwritable> {
        let Some(codec) = &self.0 else {
            return Ok(signal);
        };
        let instance = match &signal.target {
            Target::Id(id) => Some(*id),
            Target::Key { .. } => None,
        };
        let payload = Value::signal(&signal.name, instance);
        if signal.payload.as_encoded().is_some() {
            payload.decode(&**codec, &signal.payload)?;
        } else {
            signal.payload = payload.encode(&**codec, &signal.payload)?;
        }
        Ok(signal)
    }

    /// Both as they are stored. The row may have been prepared before, the payload not.
    pub(crate) fn encode_signal_or_insert(
        &self,
        mut request: SignalOrInsert,
    ) -> Result<SignalOrInsert, Unwritable> {
        if let Some(codec) = &self.0 {
            request.row = self.encode_row(request.row)?;
            request.payload =
                Value::signal(&request.name, None).encode(&**codec, &request.payload)?;
        }
        Ok(request)
    }

    /// What an instance failed with, as it is stored.
    pub(crate) fn encode_error(
        &self,
        machine: &str,
        id: InstanceId,
        text: String,
    ) -> Result<String, Unwritable> {
        match self.0.as_deref() {
            Some(codec) => Value::error(machine, Some(id)).encode_text(codec, &text),
            None => Ok(text),
        }
    }

    /// An outcome of this claim as it is stored.
    pub(crate) fn encode_outcome(
        &self,
        claim: &Claim,
        outcome: Outcome,
    ) -> Result<Outcome, Unwritable> {
        let Some(codec) = self.0.as_deref() else {
            return Ok(outcome);
        };
        let (machine, id) = (&claim.machine, Some(claim.id));
        let state_of =
            |step: &str, state: Json| Value::state(machine, Some(step), id).encode(codec, &state);
        let text = |text: String| Value::error(machine, id).encode_text(codec, &text);
        Ok(match outcome {
            Outcome::Next {
                step,
                state,
                proceed,
            } => Outcome::Next {
                state: state_of(&step, state)?,
                step,
                proceed,
            },
            Outcome::Retry {
                state,
                delay,
                error,
            } => Outcome::Retry {
                state: state_of(&claim.step, state)?,
                delay,
                error: error.map(text).transpose()?,
            },
            Outcome::Wait {
                names,
                step,
                state,
                timeout,
            } => Outcome::Wait {
                names,
                state: state_of(&step, state)?,
                step,
                timeout,
            },
            Outcome::FanOut {
                children,
                step,
                state,
            } => Outcome::FanOut {
                children: self.encode_children(children)?,
                state: state_of(&step, state)?,
                step,
            },
            Outcome::Done { result } => Outcome::Done {
                result: Value::result(machine, id).encode(codec, &result)?,
            },
            Outcome::Stop { reason } => Outcome::Stop {
                reason: text(reason)?,
            },
            Outcome::Cancel { reason } => Outcome::Cancel {
                reason: text(reason)?,
            },
        })
    }

    fn encode_children(&self, children: Vec<NewInstance>) -> Result<Vec<NewInstance>, Unwritable> {
        let children = children.into_iter().enumerate().map(|(position, child)| {
            let encoded = self.encode_row(child);
            encoded.map_err(|error| error.within(format_args!("child {position}")))
        });
        children.collect()
    }
}

/// Reading.
///
/// A value whose key is not here yet may be read by somebody else, or later: then nothing of the whole is read.
/// One that was changed never will be: it is refused in its place, and its neighbours are not held up by it.
impl Coding {
    /// Decodes everything in a claim. Without its state a claim is of no use, so that is never refused in place.
    pub(crate) fn decode_claim(&self, claim: &mut Claim) -> Result<(), Unreadable> {
        let Some(codec) = &self.0 else {
            return refuse_encoded(claim);
        };
        let state = Value::state(&claim.machine, Some(&claim.step), Some(claim.id));
        claim.state = state.read(&**codec, &claim.state)?;
        for signal in &mut claim.inbox {
            let payload = Value::signal(&signal.name, Some(claim.id));
            signal.payload = payload.read_or_refuse(&**codec, &signal.payload)?;
        }
        for child in &mut claim.children {
            decode_child(&**codec, child)?;
        }
        Ok(())
    }

    /// An instance as its machine sees it.
    pub(crate) fn decode_instance(
        &self,
        mut instance: Instance,
        operation: &'static str,
    ) -> Result<Instance, Error> {
        if let Some(codec) = &self.0 {
            let decoded = decode_instance(&**codec, &mut instance, |value, codec, json| {
                value.read(codec, json)
            });
            decoded.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(instance)
    }

    /// Instances of a page; what was changed in one of them is refused in its place.
    pub(crate) fn decode_page(
        &self,
        instances: &mut [Instance],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for instance in instances {
            let decoded = decode_instance(&**codec, instance, |value, codec, json| {
                value.read_or_refuse(codec, json)
            });
            decoded.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Children as their parent sees them.
    pub(crate) fn decode_children(
        &self,
        children: &mut [Child],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for child in children {
            decode_child(&**codec, child).map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Signals as they were sent.
    pub(crate) fn decode_signals(
        &self,
        signals: &mut [SignalRow],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for signal in signals {
            if let Some(payload) = &mut signal.payload {
                let value = Value::signal(&signal.name, Some(signal.target));
                *payload = value
                    .read_or_refuse(&**codec, payload)
                    .map_err(|unreadable| unreadable.during(operation))?;
            }
        }
        Ok(())
    }

    /// A result that somebody told.
    pub(crate) fn decode_result(
        &self,
        machine: &str,
        id: InstanceId,
        result: Json,
    ) -> Result<Json, Error> {
        match &self.0 {
            Some(codec) => Value::result(machine, Some(id))
                .read(&**codec, &result)
                .map_err(|unreadable| unreadable.during("wait")),
            None => Ok(result),
        }
    }

    /// A reason that somebody told.
    pub(crate) fn decode_reason(
        &self,
        machine: &str,
        id: InstanceId,
        reason: String,
    ) -> Result<String, Error> {
        match &self.0 {
            Some(codec) => Value::error(machine, Some(id))
                .read_text(&**codec, reason)
                .map_err(|unreadable| unreadable.during("wait")),
            None => Ok(reason),
        }
    }
}

/// How a value of an instance is read: strictly, or refused in its place.
type Read = fn(&Value<'_>, &dyn Codec, &Json) -> Result<Json, Unreadable>;

fn decode_instance(
    codec: &dyn Codec,
    instance: &mut Instance,
    read: Read,
) -> Result<(), Unreadable> {
    let (machine, id) = (&instance.machine, Some(instance.id));
    let state = Value::state(machine, Some(&instance.step), id);
    instance.state = read(&state, codec, &instance.state)?;
    if let Some(result) = &mut instance.result {
        *result = read(&Value::result(machine, id), codec, result)?;
    }
    if let Some(error) = instance.last_error.take() {
        instance.last_error = Some(Value::error(machine, id).read_text(codec, error)?);
    }
    Ok(())
}

fn decode_child(codec: &dyn Codec, child: &mut Child) -> Result<(), Unreadable> {
    let (machine, id) = (&child.machine, Some(child.id));
    // A parent does not know at which step its child stands.
    let state = Value::state(machine, None, id);
    child.state = state.read_or_refuse(codec, &child.state)?;
    if let Some(result) = &mut child.result {
        *result = Value::result(machine, id).read_or_refuse(codec, result)?;
    }
    if let Some(error) = child.last_error.take() {
        child.last_error = Some(Value::error(machine, id).read_text(codec, error)?);
    }
    Ok(())
}

/// Without a codec nothing that is encoded can be run.
fn refuse_encoded(claim: &Claim) -> Result<(), Unreadable> {
    let refuse = |value: &Value<'_>, envelope: &str| {
        let key = envelope::key_of(envelope);
        Err(value.unreadable(CodecError::NoCodec { key }))
    };
    if let Some(envelope) = claim.state.as_encoded() {
        let state = Value::state(&claim.machine, Some(&claim.step), Some(claim.id));
        return refuse(&state, envelope);
    }
    for signal in &claim.inbox {
        if let Some(envelope) = signal.payload.as_encoded() {
            return refuse(&Value::signal(&signal.name, Some(claim.id)), envelope);
        }
    }
    for child in &claim.children {
        let result = child.result.as_ref().and_then(Json::as_encoded);
        let error = child.last_error.as_deref().and_then(envelope::in_text);
        if let Some(envelope) = result.or(error).or(child.state.as_encoded()) {
            return refuse(&Value::result(&child.machine, Some(child.id)), envelope);
        }
    }
    Ok(())
}

/// An outcome as it is stored without a codec: a plain error text never begins as an encoded one does.
pub(crate) fn plain_outcome(mut outcome: Outcome) -> Outcome {
    match &mut outcome {
        Outcome::Stop { reason } | Outcome::Cancel { reason } => mark_plain(reason),
        Outcome::Retry { error, .. } => error.iter_mut().for_each(mark_plain),
        Outcome::Next { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Done { .. } => {}
    }
    outcome
}

fn mark_plain(text: &mut String) {
    if envelope::in_text(text).is_some() {
        text.insert(0, ' ');
    }
}

/// Why a value was refused in its place, if it was.
pub(crate) fn refusal(value: &Json) -> Option<CodecError> {
    envelope::refusal(value)
}

/// Where a value belongs, as its writer or its reader knows it.
struct Value<'a> {
    kind: Kind,
    name: &'a str,
    /// Of a state, where it is known.
    step: Option<&'a str>,
    instance: Option<InstanceId>,
}

impl<'a> Value<'a> {
    fn state(machine: &'a str, step: Option<&'a str>, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::State,
            name: machine,
            step,
            instance,
        }
    }

    fn result(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Result,
            name: machine,
            step: None,
            instance,
        }
    }

    fn signal(name: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Signal,
            name,
            step: None,
            instance,
        }
    }

    fn error(machine: &'a str, instance: Option<InstanceId>) -> Value<'a> {
        Value {
            kind: Kind::Error,
            name: machine,
            step: None,
            instance,
        }
    }

    fn encode(&self, codec: &dyn Codec, plain: &Json) -> Result<Json, Unwritable> {
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
    fn encode_text(&self, codec: &dyn Codec, text: &str) -> Result<String, Unwritable> {
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
    fn read(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        if value.as_encoded().is_some() {
            return self.decode(codec, value);
        }
        if codec.accepts_plain() {
            return Ok(value.clone());
        }
        Err(self.unreadable(CodecError::NotEncoded))
    }

    /// As [`read`](Value::read); what never can be read is refused in its place.
    fn read_or_refuse(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
        match self.read(codec, value) {
            Err(unreadable) if !unreadable.error.may_pass() => {
                Ok(envelope::refused(&unreadable.error))
            }
            read => read,
        }
    }

    /// Reads an error text. Plain ones are accepted always, since the store has words of its own; a changed one
    /// is replaced by that, since a report of a failure should not hide it.
    fn read_text(&self, codec: &dyn Codec, text: String) -> Result<String, Unreadable> {
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
    fn decode(&self, codec: &dyn Codec, value: &Json) -> Result<Json, Unreadable> {
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
            Kind::Result | Kind::Signal | Kind::Error => Some(text),
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

    fn unreadable(&self, error: CodecError) -> Unreadable {
        let of = match self.kind {
            Kind::State | Kind::Result | Kind::Error => format!("the {}", self.kind.as_str()),
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
    fn within(self, outer: impl Display) -> Unwritable {
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
