//! Encodes values on their way to the store, and decodes them on their way back.
//!
//! The client and the engine call it at the store's boundary.
//!
//! Between the two, values stay encoded: rows and signals on the fast path, outcomes in the
//! committer, ends in the hub. So clients and engines of one process may have different codecs:
//! each decodes its own values.

use super::envelope::{self, Envelope};
use super::value::{SignalTarget, StatePlace, Unreadable, Unwritable, Value};
use super::{Codec, CodecError};
use outlast_core::{
    Child, Claim, Error, Event, EventKind, Instance, InstanceId, Json, NewEvent, NewInstance,
    NewReply, NewSignal, NewView, Outcome, Revision, SignalId, SignalOrInsert, SignalRow, Target,
    View,
};
use std::sync::Arc;

/// A codec, or none: then values pass unchanged.
#[derive(Clone, Default)]
pub(crate) struct Coding(Option<Arc<dyn Codec>>);

impl Coding {
    pub(crate) fn new(codec: impl Codec) -> Coding {
        Coding(Some(Arc::new(codec)))
    }

    /// Whether there is no codec.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// Writing.
impl Coding {
    /// Encodes a row for the store.
    ///
    /// A prepared row is already encoded; it passes only if this codec can read it.
    pub(crate) fn encode_row(&self, mut row: NewInstance) -> Result<NewInstance, Unwritable> {
        let Some(codec) = &self.0 else {
            return Ok(row);
        };
        let state = Value::state(&row.machine, None, inserted(&row));
        if row.state.as_encoded().is_some() {
            state.decode(&**codec, &row.state)?;
        } else {
            row.state = state.encode(&**codec, &row.state)?;
        }
        Ok(row)
    }

    /// Encodes a signal for the store; see [`encode_row`](Coding::encode_row).
    pub(crate) fn encode_signal(&self, mut signal: NewSignal) -> Result<NewSignal, Unwritable> {
        let Some(codec) = &self.0 else {
            return Ok(signal);
        };
        let (instance, key) = match &signal.target {
            Target::Id(id) => (Some(*id), None),
            Target::Key { machine, key } => (None, Some((machine.as_str(), key.as_str()))),
        };
        let sent = SignalTarget {
            key,
            dedup_key: signal.dedup_key.as_deref(),
        };
        let payload = Value::signal(&signal.name, instance, sent);
        if signal.payload.as_encoded().is_some() {
            payload.decode(&**codec, &signal.payload)?;
        } else {
            signal.payload = payload.encode(&**codec, &signal.payload)?;
        }
        Ok(signal)
    }

    /// Encodes both for the store. The row may be prepared, the payload not.
    pub(crate) fn encode_signal_or_insert(
        &self,
        mut request: SignalOrInsert,
    ) -> Result<SignalOrInsert, Unwritable> {
        if let Some(codec) = &self.0 {
            request.row = self.encode_row(request.row)?;
            let SignalOrInsert {
                row,
                name,
                payload,
                dedup_key,
            } = &request;
            let key = row.correlation.as_ref().map(|it| it.key.as_str());
            let sent = SignalTarget {
                key: key.map(|key| (row.machine.as_str(), key)),
                dedup_key: dedup_key.as_deref(),
            };
            let payload = Value::signal(name, None, sent).encode(&**codec, payload)?;
            request.payload = payload;
        }
        Ok(request)
    }

    /// Encodes the error of an instance for the store.
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

    /// Encodes an outcome of this claim for the store.
    pub(crate) fn encode_outcome(
        &self,
        claim: &Claim,
        outcome: Outcome,
    ) -> Result<Outcome, Unwritable> {
        let Some(codec) = self.0.as_deref() else {
            return Ok(outcome);
        };
        let (machine, id) = (&claim.machine, Some(claim.id));
        let state_at = |step: &str, run, entered, state: Json| {
            let visit = visit(step, claim.version, run, entered);
            Value::state(machine, id, visit).encode(codec, &state)
        };
        // The instance enters its next step at the revision of the commit.
        let next = claim.revision.next();
        let state_of = |step: &str, state| state_at(step, claim.run, next, state);
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
                state: state_at(&claim.step, claim.run, claim.entered, state)?,
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
                children: self.encode_children(claim, children)?,
                join,
                state: state_of(&step, state)?,
                step,
            },
            Outcome::Flow {
                children,
                window,
                then,
            } => Outcome::Flow {
                children: self.encode_children(claim, children)?,
                window,
                then,
            },
            Outcome::ContinueAsNew { state } => Outcome::ContinueAsNew {
                state: state_at(&claim.step, claim.run + 1, next, state)?,
            },
            Outcome::Done { result } => Outcome::Done {
                result: Value::result(machine, id).encode(codec, &result)?,
            },
            Outcome::Fail { reason, error } => Outcome::Fail {
                reason: text(reason)?,
                error: error
                    .map(|it| Value::result(machine, id).encode(codec, &it))
                    .transpose()?,
            },
            Outcome::Cancel { reason } => Outcome::Cancel {
                reason: text(reason)?,
            },
        })
    }

    /// Encodes the data of the events that an outcome of this claim appends.
    ///
    /// Kind, call and name stay readable. Positions are known because the fence excludes other
    /// writers.
    pub(crate) fn encode_events(
        &self,
        claim: &Claim,
        mut events: Vec<NewEvent>,
    ) -> Result<Vec<NewEvent>, Unwritable> {
        if let Some(codec) = self.0.as_deref() {
            for (seq, event) in (claim.events + 1..).zip(&mut events) {
                let place = (claim.run, seq);
                let value = Value::new_event(&claim.machine, claim.id, place, event);
                event.data = value.encode(codec, &event.data)?;
            }
        }
        Ok(events)
    }

    /// Encodes the views that an outcome of this claim publishes.
    pub(crate) fn encode_views(
        &self,
        claim: &Claim,
        mut views: Vec<NewView>,
    ) -> Result<Vec<NewView>, Unwritable> {
        if let Some(codec) = self.0.as_deref() {
            for view in &mut views {
                let value = Value::view(&claim.machine, claim.id, &view.name);
                view.data = value.encode(codec, &view.data)?;
            }
        }
        Ok(views)
    }

    /// Encodes the replies that an outcome of this claim gives to updates.
    pub(crate) fn encode_replies(
        &self,
        claim: &Claim,
        mut replies: Vec<NewReply>,
    ) -> Result<Vec<NewReply>, Unwritable> {
        if let Some(codec) = self.0.as_deref() {
            for reply in &mut replies {
                let value = Value::reply(&claim.machine, claim.id, reply.signal);
                reply.data = value.encode(codec, &reply.data)?;
            }
        }
        Ok(replies)
    }

    /// Encodes the children that an outcome of this claim starts, each bound to its position.
    ///
    /// A prepared child is bound again.
    fn encode_children(
        &self,
        claim: &Claim,
        children: Vec<NewInstance>,
    ) -> Result<Vec<NewInstance>, Unwritable> {
        let children = (0..).zip(children).map(|(position, child)| {
            let encoded = self.encode_child((claim.id, claim.round + 1, position), child);
            encoded.map_err(|error| error.within(format_args!("child {position}")))
        });
        children.collect()
    }

    fn encode_child(
        &self,
        place: (InstanceId, i32, i32),
        mut child: NewInstance,
    ) -> Result<NewInstance, Unwritable> {
        let Some(codec) = self.0.as_deref() else {
            return Ok(child);
        };
        let prepared = inserted(&child);
        if child.state.as_encoded().is_some() {
            let state = Value::state(&child.machine, None, prepared);
            child.state = state.decode(codec, &child.state)?;
        }
        let bound = StatePlace {
            child: Some(place),
            ..inserted(&child)
        };
        let state = Value::state(&child.machine, None, bound).encode(codec, &child.state)?;
        child.state = state;
        Ok(child)
    }
}

/// Reading.
///
/// A value whose key is missing may be readable elsewhere or later, so it makes the whole read
/// fail. A changed value will never be readable: it is refused in its place, and does not hide the
/// others.
impl Coding {
    /// Decodes everything in a claim.
    ///
    /// A claim is useless without its state, so a state is never refused in place.
    pub(crate) fn decode_claim(&self, claim: &mut Claim) -> Result<(), Unreadable> {
        let Some(codec) = &self.0 else {
            return refuse_encoded(claim);
        };
        let state = Value::state(&claim.machine, Some(claim.id), claimed(claim));
        claim.state = state.read(&**codec, &claim.state)?;
        self.decode_inbox(claim)?;
        for child in &mut claim.children {
            decode_child(&**codec, claim.id, child)?;
        }
        Ok(())
    }

    /// Decodes the signals in the inbox of a claim.
    pub(crate) fn decode_inbox(&self, claim: &mut Claim) -> Result<(), Unreadable> {
        let Some(codec) = &self.0 else {
            return refuse_encoded_signals(claim);
        };
        let key = claim.correlation_key.as_deref();
        let key = key.map(|key| (claim.machine.as_str(), key));
        for signal in &mut claim.inbox {
            let sent = SignalTarget {
                key,
                dedup_key: signal.dedup_key.as_deref(),
            };
            let payload = Value::signal(&signal.name, Some(claim.id), sent);
            signal.payload = payload.read_or_refuse(&**codec, &signal.payload)?;
        }
        Ok(())
    }

    /// Decodes an instance.
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

    /// Decodes the instances of a page, with states and results if `values` is set.
    ///
    /// A changed value is refused in its place.
    pub(crate) fn decode_page(
        &self,
        instances: &mut [Instance],
        values: bool,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for instance in instances {
            let decoded = match values {
                true => decode_instance(&**codec, instance, |value, codec, json| {
                    value.read_or_refuse(codec, json)
                }),
                // The state was not read.
                false => decode_error(&**codec, instance),
            };
            decoded.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Decodes children.
    pub(crate) fn decode_children(
        &self,
        parent: InstanceId,
        children: &mut [Child],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for child in children {
            let decoded = decode_child(&**codec, parent, child);
            decoded.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Decodes events. A changed event is refused in its place.
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
        // The store writes the event of a timeout itself, without a codec.
        let encoded = events.iter_mut();
        for event in encoded.filter(|event| event.kind != EventKind::TimedOut) {
            let data = Value::event(machine, id, event).read_or_refuse(&**codec, &event.data);
            event.data = data.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Decodes views. A changed view is refused in its place.
    pub(crate) fn decode_views(
        &self,
        machine: &str,
        id: InstanceId,
        views: &mut [View],
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for view in views {
            let data = Value::view(machine, id, &view.name).read_or_refuse(&**codec, &view.data);
            view.data = data.map_err(|unreadable| unreadable.during(operation))?;
        }
        Ok(())
    }

    /// Decodes a reply of this machine and instance to this update.
    pub(crate) fn decode_reply(
        &self,
        (machine, id, signal): (&str, InstanceId, SignalId),
        data: &Json,
    ) -> Result<Json, Error> {
        let Some(codec) = &self.0 else {
            return Ok(data.clone());
        };
        let read = Value::reply(machine, id, signal).read(&**codec, data);
        read.map_err(|unreadable| unreadable.during("update"))
    }

    /// Whether the reader must know the correlation key of one of these signals.
    pub(crate) fn needs_key(&self, signals: &[SignalRow]) -> bool {
        let mut payloads = signals.iter().filter_map(|signal| signal.payload.as_ref());
        let is_bound = |payload: &Json| {
            payload
                .as_encoded()
                .is_some_and(Envelope::is_bound_to_a_key)
        };
        self.0.is_some() && payloads.any(is_bound)
    }

    /// Decodes signals. `key` is the machine and the correlation key of their target.
    pub(crate) fn decode_signals(
        &self,
        signals: &mut [SignalRow],
        key: Option<(&str, &str)>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(codec) = &self.0 else {
            return Ok(());
        };
        for signal in signals {
            if let Some(payload) = &mut signal.payload {
                let sent = SignalTarget {
                    key,
                    dedup_key: signal.dedup_key.as_deref(),
                };
                let value = Value::signal(&signal.name, Some(signal.target), sent);
                *payload = value
                    .read_or_refuse(&**codec, payload)
                    .map_err(|unreadable| unreadable.during(operation))?;
            }
        }
        Ok(())
    }

    /// Decodes a result that the hub reported.
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

    /// Decodes a reason that the hub reported.
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
    let parent = instance.parent.zip(instance.position);
    let visit = StatePlace {
        step: Some(&instance.step),
        version: Some(instance.version),
        run: Some(instance.run),
        entered: Some(instance.entered.0),
        key: Some(instance.correlation_key.as_deref()),
        child: parent.map(|(parent, position)| (parent.id, parent.round, position)),
    };
    let state = Value::state(machine, id, visit);
    instance.state = read(&state, codec, &instance.state)?;
    if let Some(result) = &mut instance.result {
        *result = read(&Value::result(machine, id), codec, result)?;
    }
    decode_error(codec, instance)
}

fn decode_error(codec: &dyn Codec, instance: &mut Instance) -> Result<(), Unreadable> {
    if let Some(error) = instance.last_error.take() {
        let value = Value::error(&instance.machine, Some(instance.id));
        instance.last_error = Some(value.read_text(codec, error)?);
    }
    Ok(())
}

fn decode_child(
    codec: &dyn Codec,
    parent: InstanceId,
    child: &mut Child,
) -> Result<(), Unreadable> {
    let (machine, id) = (&child.machine, Some(child.id));
    // A parent knows neither the step nor the key of its child, so these are not compared.
    let visit = StatePlace {
        version: Some(child.version),
        run: Some(child.run),
        child: Some((parent, child.round, child.position)),
        ..StatePlace::default()
    };
    let state = Value::state(machine, id, visit);
    child.state = state.read_or_refuse(codec, &child.state)?;
    if let Some(result) = &mut child.result {
        *result = Value::result(machine, id).read_or_refuse(codec, result)?;
    }
    if let Some(error) = child.last_error.take() {
        child.last_error = Some(Value::error(machine, id).read_text(codec, error)?);
    }
    Ok(())
}

/// Returns the position of a state that an outcome writes.
fn visit(step: &str, version: i32, run: i32, entered: Revision) -> StatePlace<'_> {
    StatePlace {
        step: Some(step),
        version: Some(version),
        run: Some(run),
        entered: Some(entered.0),
        ..StatePlace::default()
    }
}

/// Returns the position of the state of a row to insert.
fn inserted(row: &NewInstance) -> StatePlace<'_> {
    StatePlace {
        step: Some(&row.step),
        version: Some(row.version),
        run: Some(1),
        entered: Some(0),
        key: Some(row.correlation.as_ref().map(|it| it.key.as_str())),
        child: None,
    }
}

/// Returns the position of the state of a claim.
fn claimed(claim: &Claim) -> StatePlace<'_> {
    let parent = claim.parent.zip(claim.position);
    StatePlace {
        step: Some(&claim.step),
        version: Some(claim.version),
        run: Some(claim.run),
        entered: Some(claim.entered.0),
        key: Some(claim.correlation_key.as_deref()),
        child: parent.map(|(parent, position)| (parent.id, parent.round, position)),
    }
}

/// Refuses encoded values: without a codec they cannot be used.
fn refuse_encoded(claim: &Claim) -> Result<(), Unreadable> {
    if let Some(envelope) = claim.state.as_encoded() {
        let state = Value::state(&claim.machine, Some(claim.id), claimed(claim));
        return refuse(&state, envelope);
    }
    refuse_encoded_signals(claim)?;
    for child in &claim.children {
        let result = child.result.as_ref().and_then(Json::as_encoded);
        let error = child.last_error.as_deref().and_then(envelope::in_text);
        if let Some(envelope) = result.or(error).or(child.state.as_encoded()) {
            return refuse(&Value::result(&child.machine, Some(child.id)), envelope);
        }
    }
    Ok(())
}

fn refuse_encoded_signals(claim: &Claim) -> Result<(), Unreadable> {
    for signal in &claim.inbox {
        if let Some(envelope) = signal.payload.as_encoded() {
            let payload = Value::signal(&signal.name, Some(claim.id), SignalTarget::default());
            return refuse(&payload, envelope);
        }
    }
    Ok(())
}

fn refuse(value: &Value<'_>, envelope: &str) -> Result<(), Unreadable> {
    let key = envelope::key_of(envelope);
    Err(value.unreadable(CodecError::NoCodec { key }))
}

/// Prepares an outcome for the store without a codec.
///
/// A plain error text must not begin like an encoded one.
pub(crate) fn plain_outcome(mut outcome: Outcome) -> Outcome {
    match &mut outcome {
        Outcome::Fail { reason, .. } | Outcome::Cancel { reason } => mark_plain(reason),
        Outcome::Retry { error, .. } => error.iter_mut().for_each(mark_plain),
        Outcome::Next { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. } => {}
    }
    outcome
}

fn mark_plain(text: &mut String) {
    if envelope::in_text(text).is_some() {
        text.insert(0, ' ');
    }
}

/// Returns why a value was refused in its place, if it was.
pub(crate) fn refusal(value: &Json) -> Option<CodecError> {
    envelope::refusal(value)
}
