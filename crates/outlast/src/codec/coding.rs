//! Where values are encoded on their way to the store, and decoded on their way back.
//!
//! Whatever waits or travels between the two is in its encoded form: rows and signals on their way through an
//! engine's intake, outcomes in the committer, ends that the hub tells. So it does not matter who of this process
//! has which codec: each decodes for itself.

use super::envelope;
use super::value::{Unreadable, Unwritable, Value};
use super::{Codec, CodecError};
use outlast_core::{
    Child, Claim, Error, Event, Instance, InstanceId, Json, NewEvent, NewInstance, NewSignal,
    Outcome, SignalOrInsert, SignalRow, Target,
};
use std::sync::Arc;

/// A codec, or none: then values pass as they are.
#[derive(Clone, Default)]
pub(crate) struct Coding(Option<Arc<dyn Codec>>);

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
                join,
                step,
                state,
            } => Outcome::FanOut {
                children: self.encode_children(children)?,
                join,
                state: state_of(&step, state)?,
                step,
            },
            Outcome::Flow {
                children,
                window,
                then,
            } => Outcome::Flow {
                children: self.encode_children(children)?,
                window,
                then,
            },
            Outcome::Renew { state } => Outcome::Renew {
                state: state_of(&claim.step, state)?,
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

    /// Events of a workflow as they are stored: what they carry, and not what they are about.
    pub(crate) fn encode_events(
        &self,
        machine: &str,
        id: InstanceId,
        mut events: Vec<NewEvent>,
    ) -> Result<Vec<NewEvent>, Unwritable> {
        if let Some(codec) = self.0.as_deref() {
            for event in &mut events {
                event.data = Value::event(machine, Some(id)).encode(codec, &event.data)?;
            }
        }
        Ok(events)
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

    /// Events as the workflow has made them. One that was changed in the database is refused in its place.
    pub(crate) fn decode_events(
        &self,
        machine: &str,
        id: InstanceId,
        events: &mut [Event],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for event in events {
            event.data = Value::event(machine, Some(id))
                .read_or_refuse(&**codec, &event.data)
                .map_err(|unreadable| unreadable.during(operation))?;
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
        | Outcome::Flow { .. }
        | Outcome::Renew { .. }
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
