//! Starts a session: loads the history and creates the run in memory.
//!
//! The executor starts a session for each claim, and a new one when the code must be replayed. It
//! never runs code against a history that it cannot read completely.

use super::mismatch::blocked;
use super::{Session, WorkflowFuture};
use crate::client::Client;
use crate::machine::{Context, Decided, Trouble};
use crate::workflow::flow::Flow;
use crate::workflow::replay::events::{Accepted, Consumed, Mismatch, RunStart, data, event};
use crate::workflow::replay::runtime::{Identity, Runtime, blocked_at_the_end};
use crate::workflow::{FlowError, Workflow};
use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    Error, Event, EventKind, HistoryRequest, InstanceId, Invalid, Json, NewEvent, Outcome, Signal,
    SignalId, Timestamp,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The result of starting a session.
pub(crate) enum Begun {
    Session(Box<Session>),
    /// The code does not fit the stored history even before it runs.
    Blocked(Box<Decided>),
}

impl Session {
    /// Creates a run of this workflow from its stored history.
    pub(crate) async fn begin<W: Workflow>(
        workflow: Arc<W>,
        cx: &Context,
    ) -> Result<Begun, Trouble> {
        let claim = cx.claim();
        let history = load(cx.client(), claim.id, claim.run, claim.events).await;
        let history = history.map_err(Trouble::Store)?;
        let mismatch = match refused(&history) {
            Some(mismatch) => mismatch,
            None => match read_input::<W>(cx, history.len())? {
                Ok(input) => {
                    return Ok(Begun::Session(Session::with(workflow, cx, history, input)));
                }
                Err(mismatch) => mismatch,
            },
        };
        let was_blocked_by = blocked_at_the_end(&history);
        let decided = blocked(cx, &mismatch, was_blocked_by.as_ref());
        Ok(Begun::Blocked(Box::new(decided)))
    }

    fn with<W: Workflow>(
        workflow: Arc<W>,
        cx: &Context,
        history: Vec<NewEvent>,
        input: W::Input,
    ) -> Box<Session> {
        let claim = cx.claim();
        let identity = Identity {
            id: claim.id,
            workflow: claim.machine.clone(),
            run: claim.run,
            key: claim.correlation_key.clone(),
            trace: claim.trace.clone(),
        };
        let inbox = unconsumed(claim.inbox.clone(), &history);
        let mut runtime = Runtime::new(identity, history);
        runtime.step_timeout = W::STEP_TIMEOUT;
        runtime.handle = Some(tokio::runtime::Handle::current());
        let flow = Flow::new(runtime, Some(cx.client().clone()), cx.provided().clone());
        let mut session = Session::of(workflow, flow, input);
        session.input = claim.state.clone();
        session.round = claim.round;
        session.inbox = inbox;
        Box::new(session)
    }

    pub(in crate::workflow) fn of<W: Workflow>(
        workflow: Arc<W>,
        flow: Flow,
        input: W::Input,
    ) -> Session {
        let handed = flow.clone();
        let code: WorkflowFuture = Box::pin(async move {
            let output = workflow.run(handed, input).await?;
            Json::of(&output).map_err(|invalid| FlowError::invalid(invalid.within("output")))
        });
        Session {
            flow,
            code: Some(code),
            result: None,
            handling: Vec::new(),
            input: Json::null(),
            round: 0,
            inbox: Vec::new(),
            has_looked: false,
            answers_cancel: false,
            violation: None,
            panic: None,
        }
    }

    /// Adds the first event of a run if it is missing.
    pub(super) async fn begin_history(&mut self, cx: &Context) -> Result<(), Trouble> {
        if !self.flow.lock().history.is_empty() {
            return Ok(());
        }
        let now = match cx.claim().claimed_at {
            Some(claimed_at) => claimed_at,
            None => cx.client().admin().now().await.map_err(Trouble::Store)?,
        };
        self.start_history(now);
        Ok(())
    }

    /// Adds the first event of a run that begins now.
    pub(super) fn start_history(&mut self, now: Timestamp) {
        let mut runtime = self.flow.lock();
        // The seed is the same when the worker dies before this is written. Values drawn from it
        // may be keys of effects.
        let seed = runtime.identity.seed();
        let kind = EventKind::RunStarted;
        runtime
            .history
            .push(event(kind, None, "", &RunStart { seed }, Some(now)));
    }

    /// Begins another run if the history has ended: an operator has retried the instance.
    pub(super) fn restart_if_over(&mut self, cx: &Context) -> Option<Decided> {
        let runtime = self.flow.lock();
        let last = runtime.history.last()?.kind;
        let is_over = matches!(
            last,
            EventKind::RunCompleted
                | EventKind::RunFailed
                | EventKind::RunCancelled
                | EventKind::TimedOut
        );
        is_over.then(|| {
            let state = cx.claim().state.clone();
            Decided {
                // The code has not seen a cancel request.
                answers_cancel: Some(false),
                ..Decided::of(Outcome::ContinueAsNew { state })
            }
        })
    }
}

/// Returns the signals of a claim that the history has not consumed.
///
/// A claim that is kept still has the inbox of its last read.
fn unconsumed(mut inbox: Vec<Signal>, history: &[NewEvent]) -> Vec<Signal> {
    if inbox.is_empty() {
        return inbox;
    }
    let taken = |event: &NewEvent| {
        if event.kind == EventKind::UpdateAccepted {
            return Some(data::<Accepted>(event).ok()?.signal);
        }
        let is_consumed = event.kind == EventKind::SignalConsumed;
        is_consumed.then(|| Some(data::<Consumed>(event).ok()?.signal))?
    };
    let consumed: HashSet<SignalId> = history.iter().filter_map(taken).collect();
    inbox.retain(|signal| !consumed.contains(&signal.id));
    inbox
}

/// Returns a mismatch for an event that the codec has refused, if there is one.
///
/// The code does not run against such a history, whether or not it would read the event.
pub(super) fn refused(history: &[NewEvent]) -> Option<Mismatch> {
    let mut events = (1..).zip(history);
    events.find_map(|(seq, event)| {
        let error = crate::codec::refusal(&event.data)?;
        Some(Mismatch {
            expected: format!("event {seq}: {}", event.kind.as_str()),
            found: format!("an event that cannot be read: it {error}"),
        })
    })
}

/// Returns the input of the run.
///
/// Blocks if the code does not fit the input or the history is incomplete. A run that has not
/// begun and never can fails with the reason.
fn read_input<W: Workflow>(
    cx: &Context,
    found: usize,
) -> Result<Result<W::Input, Mismatch>, Trouble> {
    let claim = cx.claim();
    let stored = usize::try_from(claim.events).unwrap_or(0);
    if found < stored {
        return Ok(Err(incomplete(stored, found)));
    }
    match claim.state.decode() {
        Ok(input) => Ok(Ok(input)),
        Err(invalid) if stored == 0 => {
            let reason = format!("its input does not decode: {invalid}");
            Err(Trouble::Fatal(reason))
        }
        Err(invalid) => Ok(Err(other_input(&invalid))),
    }
}

/// Returns the mismatch of a history that has lost events.
pub(super) fn incomplete(stored: usize, found: usize) -> Mismatch {
    Mismatch {
        expected: format!("{stored} events"),
        found: format!("only {found} of them: the others are no longer stored"),
    }
}

/// Returns the mismatch of code with another input type.
pub(super) fn other_input(invalid: &Invalid) -> Mismatch {
    Mismatch {
        expected: "a run that began with its input".into(),
        found: format!("an input type that does not fit the stored input: {invalid}"),
    }
}

/// Loads the first events of a run, as many as its row counts.
pub(super) async fn load(
    client: &Client,
    id: InstanceId,
    run: i32,
    events: i32,
) -> Result<Vec<NewEvent>, Error> {
    let mut history: Vec<NewEvent> = Vec::new();
    let stored = usize::try_from(events).unwrap_or(0);
    while history.len() < stored {
        let page = HistoryRequest {
            id,
            run,
            after: history.len() as i32,
            max: HISTORY_PAGE_MAX,
        };
        let events = client.admin().history(page).await?;
        if events.is_empty() {
            break;
        }
        history.extend(events.into_iter().map(as_new));
    }
    // Another worker has written the events after the revision of the row.
    history.truncate(stored);
    Ok(history)
}

fn as_new(event: Event) -> NewEvent {
    NewEvent {
        kind: event.kind,
        call: event.call,
        name: event.name,
        data: event.data,
        at: Some(event.at),
    }
}
