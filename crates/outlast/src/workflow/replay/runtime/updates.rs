//! The updates of a run: the handlers of the code, and the replies to write.
//!
//! A reply is written with the commit that follows it, together with its event. A replay gives the
//! same replies again; the events of the history tell which of them are written.

use super::Runtime;
use crate::workflow::FlowError;
use crate::workflow::flow::Flow;
use crate::workflow::replay::events::{Accepted, Consumed, UpdateReply, data, event};
use futures_util::future::BoxFuture;
use outlast_core::limits::UPDATE_HANDLERS_MAX;
use outlast_core::{EventKind, Invalid, Json, NewEvent, NewReply, ReplyKind, Signal, SignalId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Says why an update cannot be accepted.
pub(in crate::workflow) type Check = Arc<dyn Fn(&Json) -> Result<(), String> + Send + Sync>;

/// Starts the code that handles an update.
pub(in crate::workflow) type HandlerCode = Arc<dyn Fn(Flow, Json) -> Handling + Send + Sync>;

/// The code that handles one update.
pub(in crate::workflow) type Handling = BoxFuture<'static, Result<Json, FlowError>>;

/// The code that handles the updates of one name.
#[derive(Clone)]
pub(in crate::workflow) struct UpdateHandler {
    /// Reads the payload, and calls the validator.
    pub(in crate::workflow) checks: Vec<Check>,
    pub(in crate::workflow) handle: HandlerCode,
}

/// An update whose handler starts now.
pub(in crate::workflow) struct HandlerStart {
    pub(in crate::workflow) signal: SignalId,
    pub(in crate::workflow) payload: Json,
    pub(in crate::workflow) handle: HandlerCode,
}

#[derive(Default)]
pub(in crate::workflow) struct Updates {
    handlers: BTreeMap<String, UpdateHandler>,
    /// Whether the main code has ended. Then no further update is accepted.
    pub(in crate::workflow) is_closed: bool,
    /// Whether the code, as it was polled last, waits for a condition.
    pub(in crate::workflow) awaits_condition: bool,
    /// How many waits for a condition have ended.
    pub(in crate::workflow) conditions_met: usize,
    /// An update that was accepted a moment ago.
    starting: Option<HandlerStart>,
    /// The updates that the code has taken, with name and id.
    taken: HashMap<SignalId, (String, Option<String>)>,
    /// The updates whose replies the stored history has.
    answered: HashSet<SignalId>,
    replies: Vec<PendingReply>,
}

struct PendingReply {
    reply: NewReply,
    /// Whether its event is in the history, or needs none.
    is_recorded: bool,
}

impl Updates {
    /// Creates the state of a run with this stored history.
    pub(super) fn of(history: &[NewEvent]) -> Updates {
        let completed = history
            .iter()
            .filter(|event| event.kind == EventKind::UpdateCompleted);
        let answered = completed.filter_map(|event| Some(data::<UpdateReply>(event).ok()?.signal));
        Updates {
            answered: answered.collect(),
            ..Updates::default()
        }
    }

    /// Sets the handler of a name.
    pub(in crate::workflow) fn register(
        &mut self,
        name: &str,
        handler: UpdateHandler,
    ) -> Result<Option<UpdateHandler>, Invalid> {
        let is_new = !self.handlers.contains_key(name);
        if is_new && self.handlers.len() == UPDATE_HANDLERS_MAX {
            let reason =
                format!("is one too many; a workflow has at most {UPDATE_HANDLERS_MAX} of them");
            return Err(Invalid::new(format!("handler of {name:?}"), reason));
        }
        Ok(self.handlers.insert(name.to_owned(), handler))
    }

    /// Adds a validator to the handler of a name.
    pub(in crate::workflow) fn add_check(&mut self, name: &str, check: Check) {
        if let Some(handler) = self.handlers.get_mut(name) {
            handler.checks.push(check);
        }
    }

    /// Takes all closures of the code, for dropping them outside of the lock.
    ///
    /// A closure may hold the flow, which holds this.
    pub(in crate::workflow) fn take_handlers(&mut self) -> impl Sized + use<> {
        (std::mem::take(&mut self.handlers), self.starting.take())
    }

    /// Returns the names of the updates that are accepted now.
    pub(in crate::workflow) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.handlers.keys().filter(|_| !self.is_closed);
        names.map(String::as_str)
    }

    /// Returns the handler of an update that is accepted now.
    pub(in crate::workflow) fn handler(&self, name: &str) -> Option<&UpdateHandler> {
        self.handlers.get(name).filter(|_| !self.is_closed)
    }

    /// Returns the index of the first signal that a handler takes.
    pub(in crate::workflow) fn first_in(&self, inbox: &[Signal]) -> Option<usize> {
        if self.handlers.is_empty() || self.is_closed {
            return None;
        }
        inbox
            .iter()
            .position(|signal| self.handlers.contains_key(&signal.name))
    }

    /// Notes that the code has taken an update.
    pub(super) fn note_taken(&mut self, signal: SignalId, name: &str, id: Option<String>) {
        self.taken.insert(signal, (name.to_owned(), id));
    }

    /// Returns the update whose handler is to be started.
    pub(in crate::workflow) fn take_starting(&mut self) -> Option<HandlerStart> {
        self.starting.take()
    }

    /// Adds a reply, unless it is written already. The first reply to an update stands.
    pub(in crate::workflow) fn reply(&mut self, reply: NewReply) {
        self.add(reply, false);
    }

    /// Adds a reply without an event, to an update that the code never sees.
    pub(in crate::workflow) fn refuse(&mut self, reply: NewReply) {
        self.add(reply, true);
    }

    fn add(&mut self, reply: NewReply, is_recorded: bool) {
        let signal = reply.signal;
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("replayed-replies-are-recorded-again") {
            self.answered.remove(&signal);
        }
        let is_given = self.replies.iter().any(|it| it.reply.signal == signal);
        if !is_given && !self.answered.contains(&signal) {
            self.replies.push(PendingReply { reply, is_recorded });
        }
    }

    /// Returns whether there are replies to write.
    pub(in crate::workflow) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Notes that all replies are written.
    pub(super) fn wrote(&mut self) {
        for pending in self.replies.drain(..) {
            self.answered.insert(pending.reply.signal);
            self.taken.remove(&pending.reply.signal);
        }
    }
}

/// Returns why one of these checks refuses a payload.
pub(in crate::workflow) fn refusal(checks: &[Check], payload: &Json) -> Option<String> {
    checks.iter().find_map(|check| {
        let checked = catch_unwind(AssertUnwindSafe(|| check(payload)));
        match checked {
            Ok(checked) => checked.err(),
            Err(panic) => {
                let panic = crate::machine::panic_message(&*panic);
                Some(format!("its validator panicked: {panic}"))
            }
        }
    })
}

impl Runtime {
    /// Applies the acceptance of an update: its handler starts with the next poll.
    ///
    /// Code without a handler for it does not fit the history.
    pub(super) fn accept(&mut self, name: &str, accepted: Accepted, expected: String) {
        let Accepted {
            signal,
            update,
            payload,
        } = accepted;
        let Some(handler) = self.updates.handlers.get(name) else {
            let last = self.last_call();
            let found = format!("no handler of the update {name:?}, after {last}");
            self.block(expected, found);
            return;
        };
        let handle = handler.handle.clone();
        self.updates.note_taken(signal, name, update);
        self.updates.starting = Some(HandlerStart {
            signal,
            payload,
            handle,
        });
    }

    /// Notes the update that a call has taken, and returns the answer of the call.
    pub(super) fn note_update(&mut self, call: i32, taken: Consumed) -> Result<Json, Invalid> {
        let name = self.call(call).name.clone();
        let answer = Json::around(&taken)?;
        self.updates.note_taken(taken.signal, &name, taken.update);
        Ok(answer)
    }

    /// Adds the events of new replies to the history.
    pub(in crate::workflow) fn record_replies(&mut self) {
        let pending = self.updates.replies.iter_mut();
        let events: Vec<NewEvent> = pending
            .filter(|it| !it.is_recorded)
            .map(|it| {
                it.is_recorded = true;
                let NewReply { signal, kind, data } = it.reply.clone();
                let taken = self.updates.taken.get(&signal).cloned();
                let (name, update) = taken.unwrap_or_default();
                let reply = UpdateReply {
                    signal,
                    update,
                    kind,
                    reply: data,
                };
                event(EventKind::UpdateCompleted, None, &name, &reply, None)
            })
            .collect();
        for event in events {
            // The code knows its own reply. An event before it may still be unknown to the code;
            // then this one is applied later, and changes nothing.
            let is_next = self.history.next().is_none();
            self.history.push(event);
            if is_next {
                self.history.note_known();
            }
        }
    }

    /// Returns the replies to write.
    pub(in crate::workflow) fn replies(&self) -> Vec<NewReply> {
        let replies = self.updates.replies.iter();
        replies.map(|it| it.reply.clone()).collect()
    }
}

/// Returns the reply of a handler that has ended.
pub(in crate::workflow) fn reply_of(signal: SignalId, result: Result<Json, FlowError>) -> NewReply {
    match result {
        Ok(data) => NewReply {
            signal,
            kind: ReplyKind::Done,
            data,
        },
        Err(error) if error.is_renewal() => {
            let reason = "a handler cannot continue as new; let the main code do it";
            NewReply::because(signal, ReplyKind::Failed, reason)
        }
        Err(error) => NewReply::because(signal, ReplyKind::Failed, &error.to_string()),
    }
}
