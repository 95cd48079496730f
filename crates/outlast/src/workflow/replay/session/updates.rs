//! Accepts updates, and runs their handlers beside the code.

use super::Session;
use crate::workflow::flow::Flow;
use crate::workflow::replay::events::{Accepted, event};
use crate::workflow::replay::runtime::{Ask, HandlerStart, Handling, refusal, reply_of};
use outlast_core::{EventKind, NewReply, ReplyKind, Signal, SignalId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

/// How often code and handlers are polled until no condition becomes true any more.
const ROUNDS_MAX: usize = 1_000;

/// The code that handles one update.
pub(super) struct RunningHandler {
    signal: SignalId,
    code: Handling,
}

impl RunningHandler {
    /// Polls the code. Its end is the reply to the update.
    pub(super) fn poll(&mut self, flow: &Flow, cx: &mut Context<'_>) -> Poll<()> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.code.as_mut().poll(cx)));
        let reply = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => reply_of(self.signal, result),
            Err(panic) => panicked(self.signal, &*panic),
        };
        let mut runtime = flow.lock();
        // A handler that could not read an answer has a result that is a guess.
        if runtime.blocked.is_none() {
            runtime.updates.reply(reply);
        }
        Poll::Ready(())
    }
}

fn panicked(signal: SignalId, panic: &(dyn std::any::Any + Send)) -> NewReply {
    let panic = crate::machine::panic_message(panic);
    NewReply::because(signal, ReplyKind::Failed, &format!("panicked: {panic}"))
}

impl Session {
    /// Returns whether the code and all its handlers have ended.
    ///
    /// Handlers that have started end before their run: their senders wait for the replies.
    pub(super) fn is_over(&self) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("handlers-end-with-the-code") {
            return self.result.is_some();
        }
        self.result.is_some() && self.handling.is_empty()
    }

    /// Starts the handler of the update at this index of the inbox, or rejects the update.
    pub(super) fn accept(&mut self, place: usize) {
        let signal = self.inbox.remove(place);
        let handler = self.flow.lock().updates.handler(&signal.name).cloned();
        let checks = handler.map(|it| it.checks).unwrap_or_default();
        // Outside of the lock: a validator may ask the flow.
        if let Some(reason) = refusal(&checks, &signal.payload) {
            self.refuse(&signal, ReplyKind::Rejected, &reason);
            return;
        }
        self.flow.lock().consumed.push(signal.id);
        let at = Some(signal.inserted_at);
        let accepted = Accepted {
            signal: signal.id,
            update: signal.dedup_key.filter(|_| signal.wants_reply),
            payload: signal.payload,
        };
        let kind = EventKind::UpdateAccepted;
        self.record(event(kind, None, &signal.name, &accepted, at));
    }

    /// Returns whether a call does not take a signal that has its name.
    ///
    /// Then the signal is answered with the reason, and the call waits for the next one.
    pub(super) fn refuses(&mut self, call: i32, signal: &Signal) -> bool {
        let check = match &self.flow.lock().call(call).ask {
            Ask::Update(check) => Some(check.clone()),
            Ask::Work | Ask::Child(_) | Ask::Timer(_) | Ask::Signal | Ask::Nothing => None,
        };
        match check {
            Some(check) => {
                let refused = refusal(&[check], &signal.payload);
                if let Some(reason) = &refused {
                    self.refuse(signal, ReplyKind::Rejected, reason);
                }
                refused.is_some()
            }
            None => {
                // The code takes it as a signal. Its sender must not wait for ever.
                if signal.wants_reply {
                    let reason = "the workflow took it as a signal, which has no reply";
                    let reply = NewReply::because(signal.id, ReplyKind::Failed, reason);
                    self.flow.lock().updates.refuse(reply);
                }
                false
            }
        }
    }

    /// Consumes a signal that the code never sees, with the reason as its reply.
    fn refuse(&mut self, signal: &Signal, kind: ReplyKind, reason: &str) {
        let mut runtime = self.flow.lock();
        if !signal.wants_reply {
            let id = runtime.identity.id;
            let name = &signal.name;
            // The reason may quote the payload.
            tracing::warn!(instance = %id, signal = name, "dropped a signal that the code rejects");
        }
        runtime.consumed.push(signal.id);
        let reply = NewReply::because(signal.id, kind, reason);
        runtime.updates.refuse(reply);
    }

    /// Starts the handler of an update whose acceptance was applied a moment ago.
    pub(super) fn start_handler(&mut self) {
        let starting = self.flow.lock().updates.take_starting();
        let Some(starting) = starting else {
            return;
        };
        let HandlerStart {
            signal,
            payload,
            handle,
        } = starting;
        let flow = self.flow.clone();
        // Within the first poll, where calls of the code are allowed.
        let code: Handling = Box::pin(async move { handle(flow, payload).await });
        self.handling.push(RunningHandler { signal, code });
    }
}

/// Polls until no condition of the code becomes true any more.
///
/// A handler may make a condition true after the code was polled. Without another poll the code
/// would see that at the next event, and a replay at another place.
pub(super) fn poll_until_stable(flow: &Flow, mut poll: impl FnMut()) {
    poll();
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("conditions-are-checked-once") {
        return;
    }
    for _ in 1..ROUNDS_MAX {
        let mut runtime = flow.lock();
        if !std::mem::take(&mut runtime.updates.awaits_condition) {
            return;
        }
        let before = runtime.updates.conditions_met;
        drop(runtime);
        poll();
        let runtime = flow.lock();
        if runtime.updates.conditions_met == before {
            return;
        }
    }
}

/// Handlers may hold the flow, which holds them.
impl Drop for Session {
    fn drop(&mut self) {
        let handlers = self.flow.lock().updates.take_handlers();
        drop(handlers);
    }
}
