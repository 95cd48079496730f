//! Runs the code of a workflow: first against its history, then beyond it.
//!
//! A session lives as long as the claim. The executor calls [`Session::next`], which runs the code
//! until there is something to write. It is called again when that is written. One turn
//!
//! 1. passes unknown events to the code, one at a time, and polls it after each that answers
//!    something;
//! 2. once, after the history, reads what has arrived meanwhile: finished children, signals,
//!    timers, a cancel. It looks again when a commit names a new signal;
//! 3. decides the next action ([`NextAction`]) and does it, until there is something to write.
//!
//! The code may see an event before it is written, because between its calls it only computes.
//! Effects wait until everything that led to them is written. So the result of a step is written
//! together with the next calls of the code.

mod arrivals;
mod dry_run;
mod end;
mod mismatch;
mod next_action;
mod park;
mod query;
mod start;
mod steps;
mod updates;

pub(crate) use end::failed;
pub(crate) use query::Replayed;
pub(crate) use start::Begun;

use super::determinism::{self, Violation};
use super::events::{CallKind, Consumed, Reason, event};
use super::runtime::MayRun;
use crate::machine::{Context, Decided, Trouble};
use crate::workflow::FlowError;
use crate::workflow::flow::Flow;
use next_action::NextAction;
use outlast_core::{EventKind, Json, NewEvent, Outcome, Signal, Timestamp};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Poll, Waker};
use updates::{RunningHandler, poll_until_stable};

type WorkflowFuture = Pin<Box<dyn Future<Output = Result<Json, FlowError>> + Send>>;

/// A run of a workflow in memory.
pub(crate) struct Session {
    flow: Flow,
    /// `None` once the code has ended.
    code: Option<WorkflowFuture>,
    result: Option<Result<Json, FlowError>>,
    /// The handlers of updates that have not ended, in the order in which they were accepted.
    handling: Vec<RunningHandler>,
    /// The input of the run, as it is stored.
    input: Json,
    /// The number of rounds that the instance has begun.
    round: i32,
    /// The inbox, oldest signal first.
    inbox: Vec<Signal>,
    has_looked: bool,
    /// Whether the next commit contains the code's answer to a cancel.
    answers_cancel: bool,
    violation: Option<Violation>,
    /// A panic of the code, kept while events that the code received are not written.
    panic: Option<Box<dyn Any + Send>>,
}

impl Session {
    /// Confirms that the last decision was written, with these events and at this time.
    pub(crate) fn written(&mut self, events: Vec<NewEvent>, at: Timestamp, begins_round: bool) {
        self.flow.lock().committed(events, at);
        self.round += i32::from(begins_round);
        self.answers_cancel = false;
    }

    /// Takes back the last decision and its events: a cancel came first, so they were not written.
    pub(crate) fn not_written(&mut self, events: Vec<NewEvent>) {
        self.flow.lock().take_back(events);
    }

    /// Replaces the inbox: a signal has come since the claim. The next turn looks again.
    ///
    /// Looks at everything, because a child or a timer may have come before the signal.
    pub(crate) fn refresh(&mut self, inbox: &[Signal]) {
        self.inbox = inbox.to_vec();
        self.has_looked = false;
    }

    /// Runs the code until there is something to write.
    pub(crate) async fn next(&mut self, cx: &Context) -> Result<Decided, Trouble> {
        if let Some(decided) = self.restart_if_over(cx) {
            return Ok(decided);
        }
        self.begin_history(cx).await?;
        self.replay();
        if self.is_to_hear_cancel(cx) && !self.is_blocked() {
            // The code may ask for the ids of its children when it receives the cancel.
            self.see_starts(cx).await?;
        }
        self.note_cancel(cx);
        if self.is_blocked() {
            return Ok(self.block(cx));
        }
        if !std::mem::replace(&mut self.has_looked, true) && !self.is_over() {
            self.look(cx).await?;
        }
        loop {
            if self.stops() && self.flow.lock().history.is_ahead() {
                return Ok(self.write_recorded());
            }
            if let Some(panic) = self.panic.take() {
                resume_unwind(panic);
            }
            if self.is_blocked() {
                return Ok(self.block(cx));
            }
            if let Some(decided) = self.turn(cx).await? {
                return Ok(decided);
            }
        }
    }

    /// Returns whether the code cannot continue as it is.
    ///
    /// Events that it has received are still written. A finished step must not run again because
    /// the code failed on its result.
    fn stops(&mut self) -> bool {
        self.is_blocked() || self.panic.is_some() || self.needs_replay()
    }

    /// Returns whether the code must run again from the start.
    ///
    /// It does after it read a time that a replay would not return. The replay happens once the
    /// time of all events is known.
    pub(crate) fn needs_replay(&self) -> bool {
        self.flow.lock().needs_replay
    }

    /// Does the next action. Returns the outcome to write, if there is one.
    async fn turn(&mut self, cx: &Context) -> Result<Option<Decided>, Trouble> {
        cx.stay_covered().await;
        let next = NextAction::next(&self.flow.lock(), &self.inbox, self.is_over());
        match next {
            NextAction::CancelRest => self.cancel_rest(cx).await?,
            NextAction::Resolve { wait, resolved } => self.resolve(wait, resolved),
            NextAction::Accept { place } => self.accept(place),
            NextAction::Consume { call, place } => self.consume(call, place),
            NextAction::RecordFinished => return Ok(self.record_finished()),
            NextAction::RunSteps { due } => self.run_steps(cx, due).await?,
            NextAction::Stray => {
                self.violation.get_or_insert(Violation::Awaits);
            }
            NextAction::Write => return Ok(Some(self.write())),
            NextAction::Start { wait, goes_on } => return Ok(Some(self.start(wait, goes_on))),
            NextAction::Park => return Ok(Some(self.park())),
            NextAction::SeeChildren => self.see_children(cx).await?,
            NextAction::Fail(reason) => return Ok(Some(self.fail(reason, None))),
            NextAction::End => return Ok(self.result.take().map(|result| self.end(result))),
        }
        Ok(None)
    }

    /// Passes all unknown events to the code.
    fn replay(&mut self) {
        let knows_nothing = {
            let mut runtime = self.flow.lock();
            runtime.may_run = MayRun::No;
            runtime.history.known() == 0
        };
        if knows_nothing {
            // The code needs the first event, which has the input and the seed.
            self.flow.lock().apply_next();
            self.run_code();
        }
        while self.flow.lock().has_news() {
            self.apply_next();
        }
    }

    /// Passes the next event to the code, and polls the code if that answers something.
    fn apply_next(&mut self) {
        let answers = {
            let mut runtime = self.flow.lock();
            let next = runtime.history.next();
            let follows = next.is_none_or(|next| {
                // A step that ran beside the last awaited one is recorded too, if the code has
                // made that call.
                may_follow_the_end(next.kind)
                    || is_end_of_step(next.kind) && runtime.has_made(next.call)
            });
            if self.is_over() && !follows {
                let expected = runtime.describe_event(runtime.history.known());
                let after = runtime.last_call();
                runtime.block(expected, format!("the end of the code, after {after}"));
                return;
            }
            runtime.apply_next()
        };
        self.start_handler();
        if answers {
            self.run_code();
        }
    }

    /// Adds an event and passes it to the code at once.
    fn record(&mut self, event: NewEvent) {
        self.flow.lock().history.push(event);
        self.apply_next();
    }

    /// Polls the code, and the handlers of updates after it.
    fn run_code(&mut self) {
        if self.code.is_none() && self.handling.is_empty() {
            return;
        }
        let (code, handling, flow) = (&mut self.code, &mut self.handling, &self.flow);
        let mut over = None;
        flow.lock().forget_waiting();
        let (polled, violation) = determinism::poll(
            |cx| {
                flow.lock().begin_poll(cx.waker());
                poll_until_stable(flow, || {
                    if over.is_none()
                        && let Some(code) = code
                    {
                        over = match catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(cx))) {
                            Ok(Poll::Ready(result)) => Some(Ok(result)),
                            Ok(Poll::Pending) => None,
                            Err(panic) => Some(Err(panic)),
                        };
                        flow.lock().updates.is_closed |= over.is_some();
                        #[cfg(outlast_mutants)]
                        if outlast_core::mutant::is("updates-are-accepted-after-the-end") {
                            flow.lock().updates.is_closed = false;
                        }
                    }
                    handling.retain_mut(|handler| handler.poll(flow, cx).is_pending());
                });
                let is_over = over.is_some() || code.is_none();
                match is_over && handling.is_empty() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            },
            || {
                let kept = flow.lock().end_poll();
                kept.into_iter().for_each(Waker::wake);
            },
        );
        let _: Poll<()> = polled;
        self.violation = self.violation.or(violation);
        let Some(over) = over else {
            return;
        };
        self.code = None;
        match over {
            Ok(result) => self.result = Some(result),
            // The code may panic because it could not read something. The block says why.
            Err(_) if self.flow.lock().blocked.is_some() => {}
            Err(panic) if self.flow.lock().history.is_ahead() => self.panic = Some(panic),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Returns whether there is a cancel request that the code has not received and can receive.
    fn is_to_hear_cancel(&self, cx: &Context) -> bool {
        cx.claim().is_to_answer_cancel()
            && !self.is_over()
            && self.flow.lock().cancel_reason().is_none()
    }

    /// Adds a cancel request that the code has not seen as an event.
    fn note_cancel(&mut self, cx: &Context) {
        self.answers_cancel |= cx.claim().is_to_answer_cancel();
        if !self.is_to_hear_cancel(cx) {
            return;
        }
        let reason = cx.cancel_reason().unwrap_or("cancelled").to_owned();
        let at = cx.claim().cancel.as_ref().map(|cancel| cancel.requested_at);
        let kind = EventKind::CancelRequested;
        self.record(event(kind, None, "", &Reason { reason }, at));
    }

    /// Records that a group or a selection is decided.
    fn resolve(&mut self, wait: usize, resolved: NewEvent) {
        // Cancels the timers that lost the race.
        {
            let mut runtime = self.flow.lock();
            let timers = runtime
                .open_leaves(wait)
                .filter(|(_, call)| call.kind == CallKind::Timer && call.is_recorded);
            let timers: Vec<i32> = timers.map(|(call, _)| call).collect();
            let now = runtime.moment();
            for call in timers {
                let waiting = super::events::WaitData::default();
                let kind = EventKind::TimerCancelled;
                runtime
                    .history
                    .push(event(kind, Some(call), "", &waiting, now));
                runtime.apply_next();
            }
        }
        self.record(resolved);
    }

    /// Passes the signal at this index of the inbox to the call that waits for it.
    fn consume(&mut self, call: i32, place: usize) {
        let signal = self.inbox.remove(place);
        if self.refuses(call, &signal) {
            return;
        }
        self.flow.lock().consumed.push(signal.id);
        let at = Some(signal.inserted_at);
        let consumed = Consumed {
            signal: signal.id,
            payload: signal.payload,
            update: signal.dedup_key.filter(|_| signal.wants_reply),
        };
        let kind = EventKind::SignalConsumed;
        self.record(event(kind, Some(call), &signal.name, &consumed, at));
    }

    /// Creates the decision with an outcome, all unwritten events and all unwritten views.
    fn decided(&self, outcome: Outcome) -> Decided {
        let mut runtime = self.flow.lock();
        runtime.record_replies();
        Decided {
            replies: runtime.replies(),
            events: runtime.history.take_unwritten(),
            received: Some(runtime.consumed.clone()),
            answers_cancel: Some(self.answers_cancel),
            views: runtime.views.unwritten(),
            outcome,
        }
    }
}

fn is_end_of_step(kind: EventKind) -> bool {
    matches!(kind, EventKind::StepCompleted | EventKind::StepFailed)
}

/// Returns whether such an event may follow after the code has ended.
fn may_follow_the_end(kind: EventKind) -> bool {
    match kind {
        EventKind::FailureHandled
        | EventKind::VersionMarked
        | EventKind::ReplayBlocked
        | EventKind::CancelRequested
        | EventKind::ChildMessaged
        | EventKind::ChildStarted
        | EventKind::ActivityCompleted
        | EventKind::ActivityFailed
        | EventKind::ActivityCancelled
        | EventKind::ChildCompleted
        | EventKind::ChildFailed
        | EventKind::ChildCancelled
        | EventKind::ChildTerminated
        | EventKind::TimerCancelled
        | EventKind::ContinuedAsNew
        | EventKind::RunCompleted
        | EventKind::RunFailed
        | EventKind::RunCancelled
        | EventKind::TimedOut
        | EventKind::UpdateCompleted => true,
        EventKind::RunStarted
        | EventKind::UpdateAccepted
        | EventKind::StepScheduled
        | EventKind::StepCompleted
        | EventKind::StepFailed
        | EventKind::ActivityScheduled
        | EventKind::ChildScheduled
        | EventKind::GroupAwaited
        | EventKind::GroupResolved
        | EventKind::SelectionAwaited
        | EventKind::SelectionResolved
        | EventKind::TimerScheduled
        | EventKind::TimerFired
        | EventKind::SignalAwaited
        | EventKind::SignalConsumed
        | EventKind::Transitioned => false,
    }
}
