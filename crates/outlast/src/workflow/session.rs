//! Runs the code of a workflow: against its history first, then on.
//!
//! A session lives as long as the claim does. [`Session::next`] runs the code until there is something to write, and is called again when
//! that is written. In one turn it
//!
//! 1. tells the code the events that it does not know yet, one at a time, and runs it on after each that answers something;
//! 2. once, when the history has been gone through, looks what has come meanwhile: ends of children, signals, timers, a cancel;
//! 3. decides what is next: the end; something to be recorded; steps to be run; children to be started; or a park.
//!
//! The code may hear of an event before it is written, since between its calls it does nothing but compute; what has effects
//! waits until all that led to it is. So the result of a step is written with whatever the code comes to by it.

mod arrivals;
mod parking;

use super::events::{
    CallKind, Completed, Consumed, Failed, Mismatch, Reason, Renewed, Started, Told, event,
};
use super::flow::Flow;
use super::runtime::{Ask, Call, Identity, Runtime, UnitKind};
use super::trap::{self, Foreign};
use super::{ExportedRun, FlowError, Workflow};
use crate::machine::{Context, Decided, Trouble};
use outlast_core::limits::{HISTORY_BYTES_MAX, HISTORY_MAX, HISTORY_PAGE_MAX};
use outlast_core::{
    BLOCKED, Event, EventKind, Flowing, HistoryRequest, Invalid, Json, NewEvent, Outcome, Proceed,
    Signal, Timestamp,
};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long a blocked one waits before it is tried again: from this, doubled up to that.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

type Code = Pin<Box<dyn Future<Output = Result<Json, FlowError>> + Send>>;

/// A run of a workflow in memory.
pub(crate) struct Session {
    flow: Flow,
    /// None once it is over.
    code: Option<Code>,
    result: Option<Result<Json, FlowError>>,
    /// What the run began with, as it is stored.
    input: Json,
    /// The rounds that the instance has begun.
    round: i32,
    /// What waits in the inbox, oldest first.
    inbox: Vec<Signal>,
    has_looked: bool,
    /// Whether what is written next tells the code's answer to a cancel.
    answers_cancel: bool,
    foreign: Option<Foreign>,
    /// What the code has panicked with, while something that it was told is to be written.
    panic: Option<Box<dyn Any + Send>>,
    /// Whether the last outcome was written.
    is_written: bool,
}

impl Session {
    /// A run of this workflow, with its history so far.
    pub(crate) async fn begin<W: Workflow>(
        workflow: Arc<W>,
        cx: &Context,
    ) -> Result<Session, Trouble> {
        let history = load(cx).await?;
        let input: W::Input =
            cx.claim().state.decode().map_err(|invalid| {
                Trouble::Fatal(format!("its input does not decode: {invalid}"))
            })?;
        let claim = cx.claim();
        let identity = Identity {
            id: claim.id,
            workflow: claim.machine.clone(),
            run: claim.run,
            key: claim.correlation_key.clone(),
            trace: claim.trace.clone(),
        };
        let mut runtime = Runtime::new(identity, history);
        runtime.step_timeout = W::STEP_TIMEOUT;
        runtime.handle = Some(tokio::runtime::Handle::current());
        let flow = Flow::new(runtime, Some(cx.client().clone()));
        let mut session = Session::of(workflow, flow, input);
        session.input = claim.state.clone();
        session.round = claim.round;
        session.inbox = claim.inbox.clone();
        Ok(session)
    }

    pub(super) fn of<W: Workflow>(workflow: Arc<W>, flow: Flow, input: W::Input) -> Session {
        let handed = flow.clone();
        let code: Code = Box::pin(async move {
            let output = workflow.run(handed, input).await?;
            Json::of(&output).map_err(|invalid| FlowError::invalid(invalid.within("output")))
        });
        Session {
            flow,
            code: Some(code),
            result: None,
            input: Json::null(),
            round: 0,
            inbox: Vec::new(),
            has_looked: false,
            answers_cancel: false,
            foreign: None,
            panic: None,
            is_written: true,
        }
    }

    /// Runs a workflow against a recorded history, and nothing else. Answers what differs.
    pub(crate) fn replayed<W: Workflow>(
        workflow: W,
        history: ExportedRun,
    ) -> Result<Option<(String, String)>, Invalid> {
        let input: W::Input = history
            .input
            .decode()
            .map_err(|invalid| invalid.within("input"))?;
        let identity = Identity {
            id: history.instance,
            workflow: history.workflow,
            run: history.run,
            key: history.key,
            trace: history.trace,
        };
        let events = history.events.into_iter().map(|event| NewEvent {
            kind: event.kind,
            call: event.call,
            name: event.name,
            data: event.data,
            at: Some(event.at),
        });
        let mut runtime = Runtime::new(identity, events.collect());
        runtime.strict = true;
        let mut session = Session::of(Arc::new(workflow), Flow::new(runtime, None), input);
        if !session.flow.lock().history.is_empty() {
            session.replay();
            session.hold_end_against_history();
        }
        session.is_blocked();
        let mismatch = session.flow.lock().blocked.take();
        Ok(mismatch.map(|it| (it.expected, it.found)))
    }

    /// A run that has ended must end, and one that waits must not.
    fn hold_end_against_history(&mut self) {
        let mut runtime = self.flow.lock();
        let last = runtime.history.len() - 1;
        let has_ended = matches!(
            runtime.history[last].kind,
            EventKind::RunCompleted
                | EventKind::RunFailed
                | EventKind::RunCancelled
                | EventKind::ContinuedAsNew
        );
        let is_open = runtime
            .calls
            .iter()
            .any(|call| call.is_recorded && call.end.is_none());
        let ended = runtime.describe_event(last);
        let after = runtime.last_call();
        match (&self.result, has_ended) {
            (None, true) => runtime.block(ended, format!("something to wait for, {after}")),
            (Some(_), false) if is_open => {
                runtime.block(
                    "something that is waited for".into(),
                    format!("its end, after {after}"),
                );
            }
            (Some(_), _) | (None, false) => {}
        }
    }

    /// What was decided last is written, at this moment.
    pub(crate) fn written(&mut self, at: Timestamp, begins_round: bool) {
        self.flow.lock().committed(at);
        self.round += i32::from(begins_round);
        self.answers_cancel = false;
        self.is_written = true;
    }

    /// Runs the code until there is something to write.
    pub(crate) async fn next(&mut self, cx: &Context) -> Result<Decided, Trouble> {
        if !std::mem::replace(&mut self.is_written, false) {
            // A cancel came first.
            self.flow.lock().take_back();
        }
        if let Some(decided) = self.restart_if_over(cx) {
            return Ok(decided);
        }
        if self.flow.lock().history.is_empty() {
            let now = match cx.claim().claimed_at {
                Some(claimed_at) => claimed_at,
                None => cx.client().now().await.map_err(Trouble::Store)?,
            };
            // The same when the worker dies before this is written: what is drawn by it may be a key of effects.
            let seed = self.flow.lock().identity.seed();
            let started = event(
                EventKind::RunStarted,
                None,
                "",
                &Started { seed },
                Some(now),
            );
            self.flow.lock().push(started);
        }
        self.replay();
        self.note_cancel(cx);
        if self.is_blocked() {
            return Ok(self.block(cx));
        }
        if !std::mem::replace(&mut self.has_looked, true) && self.result.is_none() {
            self.look(cx).await?;
        }
        loop {
            if self.stops() && self.flow.lock().is_ahead() {
                return Ok(self.go_on());
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

    /// Whether the code cannot be run on as it is. What it was told before is written all the same: a step that has run is
    /// not run again because of what the code makes of its result.
    fn stops(&mut self) -> bool {
        self.is_blocked() || self.panic.is_some() || self.is_astray()
    }

    /// Whether the code was told a time that it would not be told again: it is to be run from the start, once the moment of
    /// all that has happened is known.
    pub(crate) fn is_astray(&self) -> bool {
        self.flow.lock().is_astray
    }

    /// One turn: what is to be written, if the code has come to something.
    async fn turn(&mut self, cx: &Context) -> Result<Option<Decided>, Trouble> {
        // What a group or a selection said of the others holds also when the code ends with it.
        if !self.flow.lock().to_cancel.is_empty() {
            if !self.flow.lock().is_dirty() {
                self.cancel_rest(cx).await?;
                return Ok(None);
            }
            return Ok(Some(match self.result {
                Some(_) => self.go_on(),
                None => self.proceed(),
            }));
        }
        if let Some(result) = self.result.take() {
            return Ok(Some(self.end(result)));
        }
        // Children that are about to be started are in the history before they have done anything.
        let new = self.flow.lock().calls_to_start();
        if let Some(reason) = self.is_too_long(new) {
            return Ok(Some(self.fail(reason)));
        }
        if self.decide_units() || self.take_signals() {
            return Ok(None);
        }
        let has_finished = !self.flow.lock().finished.is_empty();
        if has_finished {
            let is_to_write = self.record_finished();
            return Ok(is_to_write.then(|| self.go_on()));
        }
        let waiting = self.flow.lock().waiting_units();
        if waiting.is_empty() {
            self.foreign.get_or_insert(Foreign::Awaits);
            return Ok(None);
        }
        let has_work = self.has_work(&waiting);
        // Of timers that are compared all must have begun, so that it is known which is the first.
        let mixes_timers = self.mixes_timers(&waiting);
        let to_start = {
            let runtime = self.flow.lock();
            let mut units = waiting.iter().copied();
            let first = units.find(|unit| runtime.is_to_start(*unit));
            first.map(|unit| {
                let others = units.any(|unit| runtime.is_to_start(unit));
                let is_launch = runtime.units[unit].kind == UnitKind::Launch;
                (unit, others || has_work || is_launch || mixes_timers)
            })
        };
        match to_start {
            Some((unit, goes_on)) => Ok(Some(self.start(unit, goes_on, &waiting))),
            None if has_work => self.run_steps(cx, &waiting).await,
            None if mixes_timers => Ok(Some(self.proceed())),
            None => {
                if self.see_children(cx, &waiting).await? {
                    return Ok(None);
                }
                Ok(Some(self.park(&waiting)))
            }
        }
    }

    /// Goes through what the code does not know yet.
    fn replay(&mut self) {
        self.flow.lock().may_run = false;
        if self.flow.lock().applied == 0 {
            // What the run began with is known before the code is.
            self.flow.lock().apply_next();
            self.run_code();
        }
        loop {
            {
                let runtime = self.flow.lock();
                if runtime.applied == runtime.history.len() || runtime.blocked.is_some() {
                    break;
                }
                drop(runtime);
            }
            self.apply_next();
        }
    }

    /// Tells the code of the next event, and runs it on if that answers something.
    fn apply_next(&mut self) {
        let answers = {
            let mut runtime = self.flow.lock();
            let index = runtime.applied;
            let kind = runtime.history[index].kind;
            if self.result.is_some() && !may_follow_the_end(kind) {
                let expected = runtime.describe_event(index);
                let after = runtime.last_call();
                runtime.block(expected, format!("the end of the code, after {after}"));
                return;
            }
            runtime.apply_next()
        };
        if answers {
            self.run_code();
        }
    }

    /// Adds an event and tells the code of it at once.
    fn tell(&mut self, event: NewEvent) {
        self.flow.lock().push(event);
        self.apply_next();
    }

    fn run_code(&mut self) {
        let Some(code) = &mut self.code else {
            return;
        };
        self.flow.lock().polled.clear();
        let (polled, foreign) =
            trap::poll(
                |cx| match catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(cx))) {
                    Ok(polled) => polled.map(Ok),
                    Err(panic) => Poll::Ready(Err(panic)),
                },
            );
        self.foreign = self.foreign.or(foreign);
        let Poll::Ready(over) = polled else {
            return;
        };
        self.code = None;
        match over {
            Ok(result) => self.result = Some(result),
            Err(panic) if self.flow.lock().is_ahead() => self.panic = Some(panic),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// A run that has ended and lives again was retried by an operator: it begins anew.
    fn restart_if_over(&mut self, cx: &Context) -> Option<Decided> {
        let runtime = self.flow.lock();
        let last = runtime.history.last()?.kind;
        let is_over = matches!(
            last,
            EventKind::RunCompleted | EventKind::RunFailed | EventKind::RunCancelled
        );
        is_over.then(|| {
            let state = cx.claim().state.clone();
            Decided {
                // The code has not heard of one.
                answers_cancel: Some(false),
                ..Decided::of(Outcome::Renew { state })
            }
        })
    }

    /// A cancel that the code has not heard of is an event like any other.
    fn note_cancel(&mut self, cx: &Context) {
        if !cx.claim().is_to_answer_cancel() {
            return;
        }
        self.answers_cancel = true;
        if self.flow.lock().cancel_reason().is_some() || self.result.is_some() {
            return;
        }
        let reason = cx.cancel_reason().unwrap_or("cancelled").to_owned();
        let at = cx.claim().cancel.as_ref().map(|cancel| cancel.requested_at);
        let kind = EventKind::CancelRequested;
        self.tell(event(kind, None, "", &Reason { reason }, at));
    }

    fn is_blocked(&mut self) -> bool {
        let mut runtime = self.flow.lock();
        if let Some(foreign) = self.foreign {
            let after = runtime.last_call();
            let found = match foreign {
                Foreign::Awaits => format!(
                    "after {after}, something that is not durable: a socket, a timer or a channel of the runtime, a task, or calls in \
                     a combinator that keeps wakers; put it into flow.step(..) or an activity, and wait for several calls with \
                     flow.all(..) or flow.select(..)"
                ),
                Foreign::Spawns => format!(
                    "after {after}, a task that the code spawns and nobody would remember; use flow.step(..), an activity, or \
                     flow.all(..) for what goes on side by side"
                ),
            };
            runtime.block("only calls of its flow".into(), found);
        }
        runtime.blocked.is_some()
    }

    /// Leaves the instance as it is, says why, and has it tried again: by a build that fits, perhaps.
    fn block(&mut self, cx: &Context) -> Decided {
        let mut runtime = self.flow.lock();
        let committed = runtime.committed;
        runtime.history.truncate(committed);
        let mismatch = runtime.blocked.clone().unwrap_or(Mismatch {
            expected: String::new(),
            found: String::new(),
        });
        let doublings = cx.attempt().min(6);
        let pause = (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE);
        let error = format!(
            "{BLOCKED}the history has {}; the code has {}",
            mismatch.expected, mismatch.found
        );
        let note = event(EventKind::ReplayBlocked, None, "", &mismatch, None);
        let is_known = runtime
            .history
            .last()
            .is_some_and(|last| last.kind == note.kind && last.data == note.data);
        crate::metrics::blocked(&runtime.identity.workflow);
        tracing::warn!(instance = %runtime.identity.id, workflow = runtime.identity.workflow, "{error}");
        Decided {
            events: if is_known { Vec::new() } else { vec![note] },
            ..Decided::of(Outcome::Retry {
                state: cx.claim().state.clone(),
                delay: pause,
                error: Some(error),
            })
        }
    }

    /// Groups and selections that are decided by what has ended.
    fn decide_units(&mut self) -> bool {
        let decided = {
            let runtime = self.flow.lock();
            let units = runtime.waiting_units().into_iter();
            units
                .filter_map(|unit| runtime.decide(unit).map(|event| (unit, event)))
                .next()
        };
        let Some((unit, resolved)) = decided else {
            return false;
        };
        // Whoever waits for nothing else than a timer that was not the first waits no more.
        let timers: Vec<NewEvent> = {
            let runtime = self.flow.lock();
            let timers = runtime
                .open_leaves(unit)
                .filter(|(_, call)| call.kind == CallKind::Timer && call.is_recorded);
            let now = runtime.moment();
            let cancelled = |(call, _): (i32, &Call)| {
                let waiting = super::events::Waiting::default();
                event(EventKind::TimerCancelled, Some(call), "", &waiting, now)
            };
            timers.map(cancelled).collect()
        };
        {
            let mut runtime = self.flow.lock();
            for timer in timers {
                runtime.push(timer);
                runtime.apply_next();
            }
        }
        self.tell(resolved);
        true
    }

    /// A signal that the code waits for and that has come.
    fn take_signals(&mut self) -> bool {
        let wanted = {
            let runtime = self.flow.lock();
            let units = runtime.waiting_units();
            let leaves = units.iter().flat_map(|unit| runtime.open_leaves(*unit));
            let signals = leaves.filter(|(_, call)| call.kind == CallKind::Signal);
            let wanted = signals.filter_map(|(number, call)| {
                let place = self.inbox.iter().position(|it| it.name == call.name)?;
                Some((number, call.name.clone(), place))
            });
            wanted.min()
        };
        let Some((call, name, place)) = wanted else {
            return false;
        };
        let signal = self.inbox.remove(place);
        self.consume(call, &name, signal);
        true
    }

    fn consume(&mut self, call: i32, name: &str, signal: Signal) {
        self.flow.lock().consumed.push(signal.id);
        let at = Some(signal.inserted_at);
        let consumed = Consumed {
            signal: signal.id,
            payload: signal.payload,
        };
        let kind = EventKind::SignalConsumed;
        self.tell(event(kind, Some(call), name, &consumed, at));
    }

    /// What steps have come to. The code hears of it at once, and what it comes to by that is written with it. Code that goes
    /// by the time hears of it when it is written: only then the moment is known. Answers whether it is to be written now.
    fn record_finished(&mut self) -> bool {
        let (finished, hears_at_once) = {
            let mut runtime = self.flow.lock();
            let finished = std::mem::take(&mut runtime.finished);
            runtime.record_notes(true);
            (finished, !runtime.was_asked_for_now())
        };
        if !hears_at_once {
            let is_over = |call| finished.iter().any(|(over, _)| *over == call);
            self.flow.lock().record_waiting(is_over);
        }
        for (call, result) in finished {
            let recorded = finished_event(&self.flow.lock(), call, result);
            if self.result.is_some() {
                // The code has ended without it.
                break;
            }
            match hears_at_once && !self.stops() {
                true => self.tell(recorded),
                false => self.flow.lock().push(recorded),
            }
        }
        !hears_at_once
    }

    /// Whether something that the code waits for is to be run here.
    fn has_work(&self, waiting: &[usize]) -> bool {
        let runtime = self.flow.lock();
        let mut leaves = waiting.iter().flat_map(|unit| runtime.open_leaves(*unit));
        leaves.any(|(_, call)| matches!(call.ask, Ask::Work))
    }

    fn mixes_timers(&self, waiting: &[usize]) -> bool {
        let runtime = self.flow.lock();
        let leaves = waiting.iter().flat_map(|unit| runtime.open_leaves(*unit));
        let timers = leaves.filter(|(_, call)| call.kind == CallKind::Timer);
        let (begun, new): (Vec<_>, Vec<_>) = timers.partition(|(_, call)| call.is_recorded);
        !begun.is_empty() && !new.is_empty()
    }

    /// Runs steps until one is over, or a timer beside them has come; all that led to them is written first.
    async fn run_steps(
        &mut self,
        cx: &Context,
        waiting: &[usize],
    ) -> Result<Option<Decided>, Trouble> {
        let (due, any_new) = self.timers_beside(waiting);
        if any_new || self.flow.lock().is_dirty() {
            return Ok(Some(self.proceed()));
        }
        self.flow.lock().may_run = true;
        let come = tokio::select! {
            biased;
            () = self.run_on() => Ok(false),
            come = come(cx, due) => come.map(|()| true),
        };
        self.flow.lock().may_run = false;
        if come? {
            let timers = self.arrived_timers(cx, waiting).await?;
            self.take_in(timers);
        }
        Ok(None)
    }

    /// The first moment that somebody waits for beside the steps, and whether a timer has not begun yet.
    fn timers_beside(&self, waiting: &[usize]) -> (Option<Timestamp>, bool) {
        let runtime = self.flow.lock();
        let leaves = waiting.iter().flat_map(|unit| runtime.open_leaves(*unit));
        let timers = leaves.filter(|(_, call)| call.kind == CallKind::Timer);
        let timers: Vec<Option<Timestamp>> = timers.map(|(_, call)| call.due).collect();
        let any_new = timers.iter().any(Option::is_none);
        (timers.into_iter().flatten().min(), any_new)
    }

    async fn run_on(&mut self) {
        poll_fn(|cx| {
            self.flow.lock().waker = Some(cx.waker().clone());
            self.run_code();
            let is_over = !self.flow.lock().finished.is_empty() || self.code.is_none();
            match is_over || self.foreign.is_some() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Starts the children of a unit, and waits if there is nothing else to do.
    fn start(&mut self, unit: usize, goes_on: bool, waiting: &[usize]) -> Decided {
        let round = self.round + 1;
        let (children, window) = {
            let mut runtime = self.flow.lock();
            runtime.record_notes(true);
            let children = runtime.schedule(unit, round);
            runtime.record_waiting(|_| false);
            (children, runtime.units[unit].window)
        };
        let then = match goes_on {
            true => Flowing::Proceed(Proceed::KeepClaim),
            false => Flowing::Park(self.what_wakes(waiting, Some((unit, round, children.len())))),
        };
        self.decided(Outcome::Flow {
            children,
            window,
            then,
        })
    }

    /// Records what the code waits for, writes what there is, and goes on.
    fn proceed(&mut self) -> Decided {
        self.record_all();
        self.go_on()
    }

    fn record_all(&mut self) {
        let mut runtime = self.flow.lock();
        runtime.record_notes(true);
        runtime.record_waiting(|_| false);
    }

    /// Writes what there is, and goes on.
    fn go_on(&mut self) -> Decided {
        self.decided(Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Proceed(Proceed::KeepClaim),
        })
    }

    fn park(&mut self, waiting: &[usize]) -> Decided {
        self.record_all();
        let park = self.what_wakes(waiting, None);
        self.decided(Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Park(park),
        })
    }

    fn is_too_long(&self, new: usize) -> Option<String> {
        let runtime = self.flow.lock();
        let (events, bytes) = (runtime.history.len() + new, runtime.bytes);
        if events > HISTORY_MAX {
            return Some(format!(
                "its history has {events} events, and at most {HISTORY_MAX} are kept; use flow.continue_as_new(..) when \
                 flow.history_pressure() says so"
            ));
        }
        (bytes > HISTORY_BYTES_MAX).then(|| {
            format!(
                "its history has {bytes} bytes, and at most {HISTORY_BYTES_MAX} are kept; keep large things elsewhere and use \
                 flow.continue_as_new(..)"
            )
        })
    }

    /// The code is over.
    fn end(&mut self, result: Result<Json, FlowError>) -> Decided {
        let has_survived = match &result {
            Ok(_) => true,
            Err(error) => error.is_renewal(),
        };
        self.flow.lock().record_notes(has_survived);
        match result {
            Ok(result) => {
                self.close(EventKind::RunCompleted, None);
                self.decided(Outcome::Done { result })
            }
            Err(error) => match error.into_renewal() {
                Ok(state) => {
                    let input = Some(self.input.clone());
                    let kind = EventKind::ContinuedAsNew;
                    let last = event(kind, None, "", &Renewed { input }, None);
                    self.flow.lock().push(last);
                    self.decided(Outcome::Renew { state })
                }
                Err(error) if error.is_cancelled() && self.flow.is_cancelled() => {
                    let reason = self.flow.cancel_reason().unwrap_or_default();
                    self.close(EventKind::RunCancelled, Some(&reason));
                    self.decided(Outcome::Cancel { reason })
                }
                Err(error) => self.fail(error.to_string()),
            },
        }
    }

    fn fail(&mut self, reason: String) -> Decided {
        let reason = outlast_core::limits::clean_error(&reason);
        self.close(EventKind::RunFailed, Some(&reason));
        self.decided(Outcome::Stop { reason })
    }

    fn close(&mut self, kind: EventKind, reason: Option<&str>) {
        let last = match reason {
            Some(reason) => {
                let reason = Reason {
                    reason: reason.to_owned(),
                };
                event(kind, None, "", &reason, None)
            }
            None => event(kind, None, "", &serde_json::Map::new(), None),
        };
        self.flow.lock().push(last);
    }

    /// An outcome with all that is not written yet.
    fn decided(&self, outcome: Outcome) -> Decided {
        let runtime = self.flow.lock();
        Decided {
            events: runtime.history[runtime.committed..].to_vec(),
            received: Some(runtime.consumed.clone()),
            answers_cancel: Some(self.answers_cancel),
            outcome,
        }
    }
}

/// What a step has come to.
fn finished_event(runtime: &Runtime, call: i32, result: Result<Json, Failed>) -> NewEvent {
    let it = runtime.call(call);
    let (call, name) = (Some(call), it.name.as_str());
    match (it.kind, result) {
        (CallKind::Tell, Ok(answer)) => {
            let told = Told {
                child: None,
                answer: answer.decode().unwrap_or_default(),
            };
            event(EventKind::ChildTold, call, name, &told, None)
        }
        (_, Ok(result)) => {
            let completed = Completed { result };
            event(EventKind::StepCompleted, call, name, &completed, None)
        }
        (_, Err(failed)) => event(EventKind::StepFailed, call, name, &failed, None),
    }
}

/// The end of a run whose code has no outcome of its own.
pub(crate) fn failed(reason: String) -> Decided {
    let reason = outlast_core::limits::clean_error(&reason);
    let last = Reason {
        reason: reason.clone(),
    };
    Decided {
        events: vec![event(EventKind::RunFailed, None, "", &last, None)],
        ..Decided::of(Outcome::Stop { reason })
    }
}

/// Waits until this moment has come, by the database's clock; for ever when there is none.
async fn come(cx: &Context, due: Option<Timestamp>) -> Result<(), Trouble> {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    loop {
        let now = cx.client().now().await.map_err(Trouble::Store)?;
        if due <= now {
            return Ok(());
        }
        tokio::time::sleep(due.since(now)).await;
    }
}

/// Events that may stand behind the last one that the code has asked for.
fn may_follow_the_end(kind: EventKind) -> bool {
    match kind {
        EventKind::FailureHandled
        | EventKind::VersionMarked
        | EventKind::ReplayBlocked
        | EventKind::CancelRequested
        | EventKind::ChildTold
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
        | EventKind::RunCancelled => true,
        EventKind::RunStarted
        | EventKind::StepScheduled
        | EventKind::StepCompleted
        | EventKind::StepFailed
        | EventKind::ActivityScheduled
        | EventKind::ChildScheduled
        | EventKind::GroupResolved
        | EventKind::SelectionResolved
        | EventKind::TimerScheduled
        | EventKind::TimerFired
        | EventKind::SignalAwaited
        | EventKind::SignalConsumed
        | EventKind::Transitioned => false,
    }
}

/// The history of the run, whole.
async fn load(cx: &Context) -> Result<Vec<NewEvent>, Trouble> {
    let claim = cx.claim();
    let mut history: Vec<NewEvent> = Vec::new();
    let stored = usize::try_from(claim.events).unwrap_or(0);
    while history.len() < stored {
        let page = HistoryRequest {
            id: claim.id,
            run: claim.run,
            after: history.len() as i32,
            max: HISTORY_PAGE_MAX,
        };
        let events = cx.client().history(page).await.map_err(Trouble::Store)?;
        if events.is_empty() {
            let reason = format!(
                "its history has {} events, and {stored} were written",
                history.len()
            );
            return Err(Trouble::Fatal(reason));
        }
        history.extend(events.into_iter().map(as_new));
    }
    // What was written since the claim is somebody else's.
    history.truncate(stored);
    Ok(history)
}

pub(super) fn as_new(event: Event) -> NewEvent {
    NewEvent {
        kind: event.kind,
        call: event.call,
        name: event.name,
        data: event.data,
        at: Some(event.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::InstanceId;
    use outlast_core::limits::HISTORY_LONG;

    struct Idle;

    impl Workflow for Idle {
        const NAME: &'static str = "idle";
        type Input = ();
        type Output = ();

        async fn run(&self, flow: Flow, (): ()) -> super::super::FlowResult<()> {
            flow.sleep(Duration::from_secs(1)).await
        }
    }

    /// A session with so many events that carry so much each.
    fn session(events: usize, data: &str) -> Session {
        let identity = Identity {
            id: InstanceId(1),
            workflow: Idle::NAME.into(),
            run: 1,
            key: None,
            trace: None,
        };
        let kind = EventKind::VersionMarked;
        let event = event(kind, None, "", &data, Some(Timestamp(0)));
        let runtime = Runtime::new(identity, vec![event; events]);
        Session::of(Arc::new(Idle), Flow::new(runtime, None), ())
    }

    #[test]
    fn a_history_is_too_long_from_one_event_over_the_limit_on() {
        assert_eq!(session(HISTORY_MAX, "").is_too_long(0), None);
        let reason = session(HISTORY_MAX + 1, "").is_too_long(0);
        let reason = reason.expect("it is too long");
        assert!(reason.contains("50001 events"), "{reason}");
        assert!(reason.contains("flow.continue_as_new("), "{reason}");
    }

    #[test]
    fn a_history_is_too_large_from_one_byte_over_the_limit_on() {
        // With its quotes.
        let half = "x".repeat(HISTORY_BYTES_MAX / 2 - 2);
        assert_eq!(session(2, &half).is_too_long(0), None);
        let reason = session(2, &format!("{half}x")).is_too_long(0);
        let reason = reason.expect("it is too large");
        assert!(reason.contains("bytes"), "{reason}");
        assert!(reason.contains("flow.continue_as_new("), "{reason}");
    }

    #[test]
    fn a_workflow_is_told_from_the_soft_limit_on() {
        let session = session(HISTORY_LONG, "");
        session.flow.lock().applied = HISTORY_LONG - 1;
        assert!(!session.flow.history_pressure());
        session.flow.lock().applied = HISTORY_LONG;
        assert!(session.flow.history_pressure());
    }

    #[test]
    fn what_was_not_written_does_not_count() {
        let session = session(2, "");
        let before = session.flow.lock().bytes;
        let lost = event(EventKind::TimerScheduled, Some(1), "lost", &"lost", None);
        session.flow.lock().applied = 2;
        session.flow.lock().push(lost);
        session.flow.lock().take_back();
        assert_eq!(session.flow.history_length(), 2);
        assert_eq!(session.flow.lock().bytes, before);
    }
}
