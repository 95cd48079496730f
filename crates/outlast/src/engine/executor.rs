//! Runs claims: one task for each claim, step after step, for as long as the claim is kept.
//!
//! The picker and the fast path start these tasks. The executor never writes an outcome
//! itself: outcomes go to the committer, under the fence of the claim.

mod failure_report;
mod fresh_inbox;
mod no_progress;
mod quarantine;
mod unrunnable;
mod unrunnable_claims;
mod user_code;

use super::claims::ClaimGuard;
use super::committer::{CommitSender, Written};
use super::dispatch::picker::Pick;
use super::dispatch::queue_slots::{QueueSlots, Slot};
use super::faults::{Point, StepPoint};
use super::node::Node;
use super::unserved_queues::{Unserved, warn_of_children};
use crate::codec::{CodecError, Unreadable, Unwritable, plain_outcome};
use crate::machine::{Context, Decided, Failure, Registered, StepHandles};
use crate::metrics;
use crate::workflow::Session;
use failure_report::{AttemptFailure, Failures, Fate};
use fresh_inbox::SeenSignals;
use no_progress::{NoProgressCounter, NoProgressCounts};
use outlast_core::{
    CancelRequest, Claim, Commit, Flowing, Invalid, Outcome, Proceed, Revision, SignalId,
};
use quarantine::{Quarantine, is_quarantined};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;
use unrunnable::{Unrunnable, Unrunnables};

/// How long a claim waits for a slot before it is given back to other workers.
const SLOT_PATIENCE: Duration = Duration::from_secs(1);

/// Runs claims.
///
/// Every claim is a task, and a task is as large as the largest set of values its future holds.
/// Rare futures are boxed here, so that starting a task does not copy kilobytes.
pub(crate) struct Executor {
    node: Arc<Node>,
    outbox: CommitSender,
    unrunnables: Unrunnables,
    quarantine: Quarantine,
    no_progress: NoProgressCounts,
    unserved: Unserved,
}

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimEnd {
    /// Its last outcome is written, which ended the claim.
    Finished,
    /// The claim was given back untouched.
    Released,
    /// The claim was no longer this worker's.
    Lost,
    /// A test injected a crash here: the claim is left as it is.
    Crashed,
}

/// The next step of a kept claim.
struct NextStep {
    claim: Box<Claim>,
    /// The latest signal that came between the claim and the last commit.
    latest_signal: Option<SignalId>,
}

impl Executor {
    pub(crate) fn new(node: Arc<Node>, outbox: CommitSender) -> Executor {
        let slots = node.settings.queues.values().sum();
        Executor {
            node,
            outbox,
            unrunnables: Unrunnables::default(),
            quarantine: Quarantine::new(slots),
            no_progress: NoProgressCounts::default(),
            unserved: Unserved::default(),
        }
    }

    /// Runs the claim for as long as it is kept, each step in a slot of its queue.
    pub(crate) async fn run(&self, pick: Pick) -> ClaimEnd {
        let Pick {
            mut claim,
            held,
            place,
            taken,
        } = pick;
        let queue_slots = place.queue_slots();
        let Some(machine) = self.node.code.registry.get(&claim.machine, claim.version) else {
            return Box::pin(self.leave_unknown_step(&claim, &held)).await;
        };
        let mut admitted = None;
        if is_quarantined(&claim) {
            admitted = self.quarantine.admit(&claim, &held.lost);
            let Some(admitted) = &admitted else {
                return Box::pin(self.leave_suspect(&claim, &held)).await;
            };
            Box::pin(admitted.settle()).await;
        }
        let mut budget = match machine.runs_ahead {
            true => self.node.settings.run_ahead,
            false => 0,
        };
        let mut first = true;
        let mut seen = SeenSignals::of(&claim);
        let mut kept: Option<Slot> = None;
        // A workflow stays in memory for as long as its claim is kept.
        let mut session = None;
        let mut commit_counter = None;
        loop {
            let Some(step) = machine.step_name(&claim.step) else {
                return Box::pin(self.leave_unknown_step(&claim, &held)).await;
            };
            if first && let Err(unreadable) = self.node.client.coding.decode_claim(&mut claim) {
                let span = self.span(&claim);
                let left = self.leave_unreadable(machine, claim, unreadable, &held);
                return Box::pin(left.instrument(span)).await;
            }
            let commit_counter =
                commit_counter.get_or_insert_with(|| self.no_progress.resume(&claim));
            let slot = match kept.take() {
                Some(slot) => Some(slot),
                None => self.slot(queue_slots).await,
            };
            let Some(slot) = slot else {
                let stopping = self.node.stop.working.is_cancelled();
                let reason = if stopping { "stopping" } else { "waited" };
                return Box::pin(self.release(&claim, &held, Duration::ZERO, reason)).await;
            };
            if std::mem::replace(&mut first, false) {
                queue_slots.note_start();
                if waits_only_for_an_engine(&claim) {
                    let waited = claim.waited + taken.elapsed();
                    metrics::started(&queue_slots.queue, waited);
                    queue_slots.waits.started_after(waited);
                }
            }
            let span = self.span(&claim);
            // Keep this in one expression: a future in a variable is stored twice.
            match self
                .run_step(
                    machine,
                    step,
                    claim,
                    &held,
                    budget,
                    slot,
                    &mut session,
                    commit_counter,
                    &mut seen,
                )
                .instrument(span)
                .await
            {
                Ok(next) => (claim, kept) = next,
                Err(ran) => return ran,
            }
            // The instance has survived its step, so it leaves the quarantine group.
            drop(admitted.take());
            budget = budget.saturating_sub(1);
        }
    }

    /// Waits for a slot to run a step in.
    ///
    /// Returns `None` when the engine stops, or after [`SLOT_PATIENCE`]: another worker should
    /// then have the claim.
    async fn slot(&self, queue_slots: &Arc<QueueSlots>) -> Option<Slot> {
        if let Ok(slot) = queue_slots.try_slot() {
            return Some(slot);
        }
        tokio::select! {
            biased;
            () = self.node.stop.working.cancelled() => None,
            slot = tokio::time::timeout(SLOT_PATIENCE, queue_slots.slot()) => slot.ok().and_then(Result::ok),
        }
    }

    /// Runs one step and writes its outcome.
    ///
    /// Returns the claim of the next step, with the slot if that was kept. Otherwise returns how
    /// this claim ended.
    #[allow(
        clippy::too_many_arguments,
        reason = "what a claim has, handed on without being held twice"
    )]
    async fn run_step(
        &self,
        machine: &Registered,
        step: &'static str,
        claim: Box<Claim>,
        held: &ClaimGuard,
        budget: u32,
        slot: Slot,
        session: &mut Option<Box<Session>>,
        commit_counter: &mut NoProgressCounter<'_>,
        seen: &mut SeenSignals,
    ) -> Result<(Box<Claim>, Option<Slot>), ClaimEnd> {
        if self.crashes(Point::BeforeStep, &claim, None) {
            return Err(ClaimEnd::Crashed);
        }
        let cx = self.context(claim, held);
        let started = Instant::now();
        let (mut decided, failed) = match self.decide(machine, step, &cx, held, session).await {
            Ok(decided) => decided,
            Err(interrupted) => {
                return Err(Box::pin(self.interrupted(interrupted, &cx, held)).await);
            }
        };
        self.let_others_go_first(&mut decided.outcome, budget);
        commit_counter.check(cx.claim(), &mut decided);
        let took = started.elapsed();
        let outcome = &decided.outcome;
        metrics::ran(machine.name, step, outcome, took);
        self.node.run_counters.ran(machine, step, outcome, took);
        tracing::debug!(outcome = metrics::outcome_word(outcome), "step has run");
        if self.crashes(Point::BeforeCommit, cx.claim(), Some(outcome)) {
            return Err(ClaimEnd::Crashed);
        }
        // The slot is for user code only. Other steps may use it while this outcome is written.
        let writing = slot.into_commit_permit(outcome.keeps_claim());
        decided.record(machine, cx.claim());
        let failures = Failures::of(&decided, failed);
        let written = self.write(cx.claim(), decided).await;
        let next = match written {
            Written::Committed {
                revision,
                outcome,
                events,
                cancel,
                latest_signal,
                at,
            } => {
                self.report(cx.claim(), failures, Fate::Written);
                let unserved = self.unserved.children(&self.node, &outcome);
                if !unserved.is_empty() {
                    Box::pin(warn_of_children(&self.node, machine.name, unserved)).await;
                }
                let claim = lengthened(cx.into_claim(), events.len());
                if let Some(session) = session {
                    session.written(events, at, outcome.begins_round());
                }
                self.go_on(claim, revision, outcome, (cancel, latest_signal), held)
            }
            // Nothing was written: a cancel request came first. The workflow receives it and
            // decides again. Its failures are written and reported with that decision.
            Written::Cancelled { cancel, events } => {
                if let Some(session) = session {
                    session.not_written(events);
                }
                let mut claim = cx.into_claim();
                claim.cancel = Some(cancel);
                Ok(NextStep {
                    claim,
                    latest_signal: None,
                })
            }
            Written::Lost | Written::Rejected(_) | Written::Unencoded(_) | Written::Closed => {
                let written = (written, failures);
                Box::pin(self.recover(machine, step, cx, written, held, budget, commit_counter))
                    .await
            }
        };
        let mut next = next?;
        if seen.lack(next.latest_signal) {
            next = Box::pin(self.reload_inbox(machine, next, held, seen)).await?;
            if let Some(session) = session {
                session.refresh(&next.claim.inbox);
            }
        }
        Ok((next.claim, writing.into_slot()))
    }

    /// Handles a commit that was not written. An outcome that cannot be stored goes to
    /// `on_failure`, once.
    #[allow(
        clippy::too_many_arguments,
        reason = "what a claim has, handed on without being held twice"
    )]
    async fn recover(
        &self,
        machine: &Registered,
        step: &'static str,
        cx: Context,
        (mut written, mut failures): (Written, Option<Box<Failures>>),
        held: &ClaimGuard,
        budget: u32,
        commit_counter: &mut NoProgressCounter<'_>,
    ) -> Result<NextStep, ClaimEnd> {
        let mut events = 0;
        if let Written::Rejected(invalid) = written {
            #[cfg(outlast_mutants)]
            if outlast_core::mutant::is("outcome-that-cannot-be-stored-runs-again") {
                return Err(self
                    .release(cx.claim(), held, Duration::ZERO, "rejected")
                    .await);
            }
            let failure = Failure::Outcome(invalid);
            let (mut decided, second) =
                match self.on_failure(machine, step, failure, &cx, held).await {
                    Ok(decided) => decided,
                    Err(interrupted) => return Err(self.interrupted(interrupted, &cx, held).await),
                };
            self.let_others_go_first(&mut decided.outcome, budget);
            commit_counter.check(cx.claim(), &mut decided);
            decided.record(machine, cx.claim());
            let failed = match failures.and_then(|it| it.into_own()) {
                Some(first) => first.then(&second),
                None => second,
            };
            failures = Failures::of(&decided, Some(failed));
            events = decided.events.len();
            written = self.write(cx.claim(), decided).await;
        }
        let claim = lengthened(cx.into_claim(), events);
        self.conclude(machine, claim, (written, failures), held)
            .await
    }

    /// Sends the next step through the queue if the budget is used up or the engine stops.
    fn let_others_go_first(&self, outcome: &mut Outcome, budget: u32) {
        let last = budget == 0 || self.node.stop.working.is_cancelled();
        if let (
            Outcome::Next { proceed, .. }
            | Outcome::Flow {
                then: Flowing::Proceed(proceed),
                ..
            },
            true,
        ) = (outcome, last)
        {
            *proceed = Proceed::Requeue;
        }
    }

    /// Returns the claim of the next step, if the written outcome kept the claim.
    fn go_on(
        &self,
        claim: Box<Claim>,
        revision: Revision,
        outcome: Outcome,
        (cancel, latest_signal): (Option<CancelRequest>, Option<SignalId>),
        held: &ClaimGuard,
    ) -> Result<NextStep, ClaimEnd> {
        if self.crashes(Point::AfterCommit, &claim, Some(&outcome)) {
            return Err(ClaimEnd::Crashed);
        }
        match outcome {
            Outcome::Next {
                step,
                state,
                proceed: Proceed::KeepClaim,
            } => {
                held.move_on(revision);
                let claim = next_claim(claim, revision, step, state, cancel);
                Ok(NextStep {
                    claim,
                    latest_signal,
                })
            }
            Outcome::Flow {
                then: Flowing::Proceed(Proceed::KeepClaim),
                ..
            } => {
                held.move_on(revision);
                let begins_round = outcome.begins_round();
                Ok(NextStep {
                    claim: flowing_claim(claim, revision, begins_round, cancel),
                    latest_signal,
                })
            }
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow { .. }
            | Outcome::ContinueAsNew { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => Err(ClaimEnd::Finished),
        }
    }

    /// Decides from the answer to a commit how the claim ends.
    async fn conclude(
        &self,
        machine: &Registered,
        claim: Box<Claim>,
        (written, failures): (Written, Option<Box<Failures>>),
        held: &ClaimGuard,
    ) -> Result<NextStep, ClaimEnd> {
        match written {
            Written::Committed {
                revision,
                outcome,
                cancel,
                latest_signal,
                ..
            } => {
                self.report(&claim, failures, Fate::Written);
                self.go_on(claim, revision, outcome, (cancel, latest_signal), held)
            }
            Written::Lost => {
                self.report(&claim, failures, Fate::Lost);
                metrics::lost(machine.name);
                tracing::info!("the claim was lost; dropping the step's outcome");
                Err(self.lose(&claim, held))
            }
            Written::Rejected(invalid) => {
                // The outcome of `on_failure` cannot be written either. Its reason can.
                let reason = format!(
                    "its outcome cannot be stored, nor the outcome of on_failure: {invalid}"
                );
                let failed = match failures.and_then(|it| it.into_own()) {
                    Some(first) => first.then(&AttemptFailure::new("outcome", reason.clone())),
                    None => AttemptFailure::new("outcome", reason.clone()),
                };
                let mut stop = Decided::of(Outcome::fail(reason));
                stop.record(machine, &claim);
                let failures = Failures::of(&stop, Some(failed));
                let stopped = self.write(&claim, stop).await;
                self.report(&claim, failures, stopped.fate());
                match stopped {
                    Written::Committed { .. } => Err(ClaimEnd::Finished),
                    Written::Unencoded(unreadable) => {
                        Err(self.put_aside(&claim, &unreadable, held).await)
                    }
                    Written::Lost
                    | Written::Rejected(_)
                    | Written::Cancelled { .. }
                    | Written::Closed => Err(self.lose(&claim, held)),
                }
            }
            // The step has run and will run again: without its outcome there is no other way.
            Written::Unencoded(unreadable) => {
                self.report(&claim, failures, Fate::Released);
                Err(self.put_aside(&claim, &unreadable, held).await)
            }
            // A cancel request is checked only against outcomes that continue. Outcomes here end
            // the instance.
            Written::Cancelled { .. } | Written::Closed => {
                self.report(&claim, failures, Fate::Lost);
                Err(self.lose(&claim, held))
            }
        }
    }

    async fn write(&self, claim: &Claim, decided: Decided) -> Written {
        if !self.node.client.coding.is_none() {
            return Box::pin(self.write_encoded(claim, decided)).await;
        }
        let decided = Decided {
            outcome: plain_outcome(decided.outcome),
            ..decided
        };
        self.commit(claim, decided).await
    }

    /// Writes an outcome in its encoded form, and returns it as the step made it.
    async fn write_encoded(&self, claim: &Claim, decided: Decided) -> Written {
        let coding = &self.node.client.coding;
        let outcome = decided.outcome;
        let events = decided.events;
        let encoded = coding.encode_outcome(claim, outcome.clone());
        let encoded_events = coding.encode_events(claim, events.clone());
        let encoded_views = coding.encode_views(claim, decided.views);
        let encoded_replies = coding.encode_replies(claim, decided.replies);
        let encoded = encoded
            .and_then(|outcome| Ok((outcome, encoded_events?, encoded_views?, encoded_replies?)));
        let encoded = match encoded {
            Ok((outcome, events, views, replies)) => Decided {
                outcome,
                events,
                views,
                replies,
                received: decided.received,
                answers_cancel: decided.answers_cancel,
            },
            Err(Unwritable::Invalid(invalid)) => return Written::Rejected(invalid),
            Err(Unwritable::Codec(unreadable)) => return unwritten(unreadable),
        };
        self.unrunnables.forget(&Unrunnable::Codec);
        match self.commit(claim, encoded).await {
            Written::Committed {
                revision,
                cancel,
                latest_signal,
                at,
                ..
            } => Written::Committed {
                revision,
                outcome,
                events,
                cancel,
                latest_signal,
                at,
            },
            Written::Cancelled { cancel, .. } => Written::Cancelled { cancel, events },
            written @ (Written::Lost
            | Written::Rejected(_)
            | Written::Unencoded(_)
            | Written::Closed) => written,
        }
    }

    // Not an `async fn`: its future would hold the outcome a second time.
    fn commit<'a>(
        &'a self,
        claim: &'a Claim,
        decided: Decided,
    ) -> impl Future<Output = Written> + Send + 'a {
        let mut commit = Commit::of(claim, decided.outcome);
        commit.events = decided.events;
        commit.views = decided.views;
        commit.replies = decided.replies;
        if let Some(received) = decided.received {
            commit.received = received;
        }
        if let Some(answers_cancel) = decided.answers_cancel {
            commit.answers_cancel = answers_cancel;
        }
        let span = tracing::debug_span!(
            "commit",
            instance = %claim.id,
            revision = %claim.revision,
            outcome = metrics::outcome_word(&commit.outcome),
        );
        self.outbox.write(commit, &claim.queue).instrument(span)
    }

    /// Creates the context of a step, with cancel requests that came since the claim.
    ///
    /// Such a request is part of the claim from here on, so the machine's cancel handler runs
    /// instead.
    fn context(&self, mut claim: Box<Claim>, held: &ClaimGuard) -> Context {
        let cancel_flag = held.cancel_flag();
        if let Some(request) = cancel_flag.request() {
            claim.cancel = Some(request.clone());
        }
        let surroundings = StepHandles {
            client: self.node.client.within(claim.trace.as_deref()),
            span: tracing::Span::current(),
            lost: held.lost.clone(),
            covered: held.covered(),
            cancel_flag,
            stopping: self.node.stop.working.clone(),
            provided: self.node.code.provided.clone(),
        };
        Context::new(claim, surroundings)
    }

    fn span(&self, claim: &Claim) -> tracing::Span {
        let span = tracing::info_span!(
            "step",
            instance = %claim.id,
            machine = claim.machine,
            version = claim.version,
            step = claim.step,
            attempt = claim.attempt,
            revision = %claim.revision,
            on_cancel = claim.is_to_answer_cancel(),
            trace = claim.trace,
            otel.status_code = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
        );
        if let Some(trace) = &claim.trace {
            // The propagator is foreign code outside the guard of the step. Its panic must not
            // lose the claim.
            let attach = || self.node.client.propagator.attach(&span, trace);
            if catch_unwind(AssertUnwindSafe(attach)).is_err() {
                tracing::warn!(instance = %claim.id, "the propagator panicked; the step runs outside its trace");
            }
        }
        span
    }

    fn crashes(&self, point: Point, claim: &Claim, outcome: Option<&Outcome>) -> bool {
        let fault = self.node.fault.as_ref();
        fault.is_some_and(|fault| {
            fault(&StepPoint {
                point,
                claim,
                outcome,
            })
        })
    }
}

impl Written {
    /// Returns what happened to an outcome.
    fn fate(&self) -> Fate {
        match self {
            Written::Committed { .. } => Fate::Written,
            Written::Unencoded(_) => Fate::Released,
            Written::Lost | Written::Rejected(_) | Written::Cancelled { .. } | Written::Closed => {
                Fate::Lost
            }
        }
    }
}

/// Returns whether the claim waited for nothing but a free engine.
///
/// A partition key or a place in the window of a fan-out comes free with the end of another
/// instance. No engine could shorten that wait. A windowed child has its place after the first
/// attempt.
fn waits_only_for_an_engine(claim: &Claim) -> bool {
    let waits_for_place = claim.windowed && claim.entered == Revision(0) && claim.attempt == 0;
    claim.partition_key.is_none() && !waits_for_place
}

/// Handles an outcome that was not encoded.
///
/// Either the codec does not work, or a child was encoded elsewhere and not for this instance.
fn unwritten(unreadable: Unreadable) -> Written {
    match unreadable.error {
        CodecError::Unavailable { .. } => Written::Unencoded(unreadable),
        CodecError::UnknownKey { .. }
        | CodecError::NoCodec { .. }
        | CodecError::Changed
        | CodecError::OldForm
        | CodecError::NotEncoded => {
            let reason = unreadable.error.to_string();
            Written::Rejected(Invalid::new(unreadable.what, reason))
        }
    }
}

/// Adds the number of written events to the claim's history length.
fn lengthened(mut claim: Box<Claim>, events: usize) -> Box<Claim> {
    let events = i32::try_from(events).unwrap_or(i32::MAX);
    claim.events = claim.events.saturating_add(events);
    claim
}

/// Returns the claim of a workflow that continues.
///
/// The session knows which signals it consumed, and reads its children from the store.
fn flowing_claim(
    mut claim: Box<Claim>,
    revision: Revision,
    begins_round: bool,
    cancel: Option<CancelRequest>,
) -> Box<Claim> {
    claim.revision = revision;
    claim.round += i32::from(begins_round);
    claim.attempt = 0;
    claim.crashes = 0;
    claim.waited = Duration::ZERO;
    follow_cancel(&mut claim, cancel);
    claim
}

/// Returns the claim of the next step as the store would, except for signals that came meanwhile:
/// [`reload_inbox`](Executor::reload_inbox) adds these.
///
/// Awaited signals are consumed; the children of the round are still there. For `cancel` see
/// [`follow_cancel`].
fn next_claim(
    mut claim: Box<Claim>,
    revision: Revision,
    step: String,
    state: outlast_core::Json,
    cancel: Option<CancelRequest>,
) -> Box<Claim> {
    let awaits = std::mem::take(&mut claim.awaits);
    claim.inbox.retain(|signal| !awaits.contains(&signal.name));
    claim.revision = revision;
    claim.entered = revision;
    claim.step = step;
    claim.state = state;
    claim.attempt = 0;
    claim.crashes = 0;
    claim.waited = Duration::ZERO;
    follow_cancel(&mut claim, cancel);
    claim
}

/// Sets the cancel request of the next claim.
///
/// A request that came during the step arrives with the answer to the commit. The outcome has
/// already answered an earlier request.
fn follow_cancel(claim: &mut Claim, cancel: Option<CancelRequest>) {
    match cancel {
        Some(cancel) => claim.cancel = Some(cancel),
        None => claim
            .cancel
            .iter_mut()
            .for_each(|cancel| cancel.answered = true),
    }
}
