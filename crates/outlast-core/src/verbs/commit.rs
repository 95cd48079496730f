//! Outcomes to commit and claims to release: the requests and answers of both verbs.
//!
//! The engine builds them; the stores write them. A store never writes an outcome whose fence does
//! not match.

use crate::limits::{self, AWAITED_NAMES_MAX, BATCH_MAX, CHILDREN_MAX, Hidden};
use crate::{
    CancelRequest, Claim, Flowing, InstanceId, Invalid, Join, Json, NewEvent, NewInstance,
    NewReply, NewView, QueueNames, Revision, SignalId, Status, Timestamp,
};
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// A claim as an outcome names it: the instance and the revision that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    /// The instance.
    pub id: InstanceId,
    /// The fence: the revision of the claim.
    pub revision: Revision,
}

/// One outcome to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The claim that the outcome belongs to.
    pub claim: ClaimRef,
    /// The awaited signals that the step was given ([`Claim::awaited`](crate::Claim::awaited)).
    ///
    /// Progress consumes exactly these. A wait is not woken by them again (docs/protocol.md,
    /// defect 11).
    pub received: Vec<SignalId>,
    /// The step's decision.
    pub outcome: Outcome,
    /// Whether this is the machine's answer to a cancel ([`Claim::is_to_answer_cancel`]).
    ///
    /// Any outcome but a retry settles that cancel: later steps run as the machine decided.
    pub answers_cancel: bool,
    /// The links of the instance, from its claim.
    pub links: Links,
    /// Events for the history of the current run, written with this outcome or not at all.
    pub events: Vec<NewEvent>,
    /// The position in that history, from the claim.
    pub position: Option<HistoryPosition>,
    /// Views to write with this outcome or not at all. A value that is stored already stays as it
    /// is, with its revision.
    pub views: Vec<NewView>,
    /// Replies to updates, written with this outcome or not at all. Each consumes its update, also
    /// with an outcome that keeps the inbox.
    pub replies: Vec<NewReply>,
}

/// The position in the history of a run.
///
/// While a claim is held only its outcomes append to the history, so the claim carries the position
/// and a commit need not read it. A store reads the position when the given one is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPosition {
    /// The run.
    pub run: i32,
    /// The number of events in its history.
    pub events: i32,
}

/// Which other rows of the store an instance may be linked to.
///
/// The links are fixed when the instance is inserted. The claim carries them, so that a commit
/// need not look for rows that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// It may have a parent, whose join counts its end.
    pub parent: bool,
    /// It may have a partition key, behind which other instances wait.
    pub partition_key: bool,
    /// It may have children, which a cascade cancels or ends with it.
    pub children: bool,
    /// It may have a place in a window of its parent's children, for which siblings wait.
    pub window: bool,
}

impl Links {
    /// Nothing is known: the store looks for every link.
    pub const UNKNOWN: Links = Links {
        parent: true,
        partition_key: true,
        children: true,
        window: true,
    };
}

/// The decision of a step.
///
/// | outcome | status | `attempt` | `eligible_at` | `awaits` | inbox |
/// |---|---|---|---|---|---|
/// | `Next`, keep the claim | executing | 0 | unchanged | cleared | received consumed |
/// | `Next`, requeue | runnable | 0 | now | cleared | received consumed |
/// | `Retry` | runnable | + 1 | now + delay | kept | kept |
/// | `Wait` | awaiting signal, sleeping or runnable (1) | unchanged | now | the names | kept |
/// | `FanOut` | awaiting children or runnable (2) | 0 | now | cleared | received consumed |
/// | `Flow`, keep the claim | executing | 0 | unchanged | cleared | received consumed |
/// | `Flow`, requeue | runnable | 0 | now | cleared | received consumed |
/// | `Flow`, park | parked or runnable (3) | 0 | now | the names | received consumed |
/// | `ContinueAsNew` | runnable | 0 | now | cleared | received consumed |
/// | `Done` | done | unchanged | unchanged | cleared | emptied |
/// | `Fail` | failed | unchanged | unchanged | cleared | emptied |
/// | `Cancel` | cancelled | unchanged | unchanged | cleared | emptied |
///
/// 1. Sleeping without names. Runnable when an unreceived match is in the inbox.
/// 2. Runnable when no child was started.
/// 3. Awaiting children with join sets, otherwise awaiting signal, or sleeping without names.
///    Runnable when an awaited signal or child is there.
///
/// With every outcome, an update that the commit replies to is consumed as well, whatever the last
/// column says.
///
/// Every outcome sets `crashes` to 0 and `updated_at` to now, adds one to `revision`, and gives up
/// the claim unless it keeps it. `Done`, `Fail` and `Cancel` leave `step` and `state` unchanged,
/// set `finished_at`, and join the parent. `Fail` and `Cancel` write their reason to `last_error`.
/// `Done` writes its output to `result`, and `Fail` its error value or null.
/// A `Retry` with an error sets `last_error`, a `Retry` without one keeps it, every other outcome
/// clears it.
///
/// **An unanswered cancel** changes an outcome that does not answer it. A `Wait` and a `FanOut`
/// lead to runnable, eligible now. The fan-out starts no children, but still counts as a round. A
/// `Retry` is eligible now. So no new work begins before the machine has decided about the cancel.
/// A `Next` that keeps its claim keeps it, and the answer carries the cancel.
///
/// **A fan-out** that starts children parks until its [`Join`] is decided. Four things decide it:
/// the number of started children (a quorum above it), finished children, the deadline, or a
/// cancel. [`Claim::joined`] gives the woken step the reason.
///
/// **A flow** leaves `step`, `state` and `entered` unchanged. With children it begins a round.
/// Nothing joins that round unless the flow parks for it. For a flow that parks with join sets, a
/// child that was not started counts as a failed one. Suppose a flow parks or starts children, and
/// does not answer a pending cancel. Then it is not written: the answer is [`Answer::Cancel`], and
/// the claim is kept. A flow that continues without children is written; the answer carries the
/// cancel if the claim is kept.
///
/// A park checks once, after the received signals and the answered updates are consumed and the
/// children are started. It checks the inbox, and the awaited children of earlier commits as they
/// were before this batch ([`JoinSets`](crate::JoinSets)). An awaited signal or child that is
/// already there prevents the park. A cancel that the flow answers does not.
///
/// A park with join sets writes them to `joining`, and the count to `Barrier::started`:
///
/// | the park | `children_pending` | `failed` | `joined` |
/// |---|---|---|---|
/// | waits | the remaining count | 0 | none |
/// | continues: a child failed (4) | the remaining count | the failed | failure |
/// | continues: enough children of a join set have finished | 0 | 0 | all |
/// | continues: only a signal is there | the remaining count | 0 | none |
///
/// 4. Or it was cancelled, is gone, or was not started.
///
/// **A park that [needs all](crate::Park::needs_all)** continues only when everything is there, or
/// when a child has failed, was cancelled, is gone or was not started. Otherwise it awaits
/// children while some are missing, and signals after that. `awaits` lists the names that are not
/// in the inbox. A moment that has passed is no deadline. `joined` is all after the last child has
/// finished.
///
/// Each join set keeps its remaining count, at least 0. `children_pending` is the smallest
/// remaining count, and the count is the smallest one: the join set that is nearest to complete
/// wakes the workflow. A finished child counts in every join set that contains it, but a failed
/// one counts as one failure.
///
/// In all these cases `first_failure` is none, `rest` is to abandon, and `until` is
/// [`FailFast`](crate::Until::FailFast). The `window` is that of the children that this commit
/// starts. Any other flow leaves the barrier and `children_pending` unchanged. A flow without a
/// barrier that starts children gets one that joins nothing. Its `joining` is emptied when it
/// starts children or has a barrier, so that children it does not wait for are not counted. A
/// machine's fan-out clears `joining`.
///
/// **`ContinueAsNew`** begins a run: `run + 1` with an empty history. The store keeps the
/// histories of the last [`RUNS_KEPT`](crate::limits::RUNS_KEPT) runs, the current one included,
/// and removes the others. It begins a new visit of its step (`entered`). Children, rounds and
/// `joining` are unchanged. The timeout of a run is counted anew, that of the instance goes on. A
/// cancel that it does not answer comes next.
///
/// `Debug` shows neither states, results, error values nor reasons.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Goes to another step.
    Next {
        /// The step.
        step: String,
        /// The state of that step.
        state: Json,
        /// Whether this worker runs the next step.
        proceed: Proceed,
    },
    /// Runs the same step again.
    Retry {
        /// The state for the next attempt.
        state: Json,
        /// The delay before the next attempt.
        delay: Duration,
        /// The reason, for people to read.
        error: Option<String>,
    },
    /// Parks until a signal of one of these names arrives, then goes to `step`.
    Wait {
        /// The names. Without names the wait is a sleep and needs a timeout.
        names: Vec<String>,
        /// The step to go to, after a signal and after a timeout.
        step: String,
        /// The state of that step.
        state: Json,
        /// The longest wait.
        timeout: Option<Duration>,
    },
    /// Starts children and parks until their join is decided, then goes to `step`.
    FanOut {
        /// The children, in the order in which the step will see them.
        children: Vec<NewInstance>,
        /// The condition that wakes the instance.
        join: Join,
        /// The step to go to.
        step: String,
        /// The state of that step.
        state: Json,
    },
    /// A workflow continues or waits. Step and state are unchanged.
    Flow {
        /// The children to start, as one round. Without children no round begins.
        children: Vec<NewInstance>,
        /// How many of them run at a time; `None` starts all of them.
        window: Option<u32>,
        /// What the workflow does next.
        then: Flowing,
    },
    /// A workflow restarts as the same instance, with a new state and an empty history.
    ContinueAsNew {
        /// The state of the new run.
        state: Json,
    },
    /// Ends the instance as done.
    Done {
        /// The result.
        result: Json,
    },
    /// Ends the instance as failed.
    Fail {
        /// The reason, for people to read.
        reason: String,
        /// The error as a value, for programs. It is stored as the instance's result.
        error: Option<Json>,
    },
    /// Ends the instance as cancelled.
    Cancel {
        /// The reason.
        reason: String,
    },
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Next {
                step,
                state,
                proceed,
            } => f
                .debug_struct("Next")
                .field("step", step)
                .field("state", state)
                .field("proceed", proceed)
                .finish(),
            Outcome::Retry {
                state,
                delay,
                error,
            } => f
                .debug_struct("Retry")
                .field("state", state)
                .field("delay", delay)
                .field("error", &error.as_deref().map(Hidden))
                .finish(),
            Outcome::Wait {
                names,
                step,
                state,
                timeout,
            } => f
                .debug_struct("Wait")
                .field("names", names)
                .field("step", step)
                .field("state", state)
                .field("timeout", timeout)
                .finish(),
            Outcome::FanOut {
                children,
                join,
                step,
                state,
            } => f
                .debug_struct("FanOut")
                .field("children", children)
                .field("join", join)
                .field("step", step)
                .field("state", state)
                .finish(),
            Outcome::Flow {
                children,
                window,
                then,
            } => f
                .debug_struct("Flow")
                .field("children", children)
                .field("window", window)
                .field("then", then)
                .finish(),
            Outcome::ContinueAsNew { state } => f
                .debug_struct("ContinueAsNew")
                .field("state", state)
                .finish(),
            Outcome::Done { result } => f.debug_struct("Done").field("result", result).finish(),
            Outcome::Fail { reason, error } => f
                .debug_struct("Fail")
                .field("reason", &Hidden(reason))
                .field("error", error)
                .finish(),
            Outcome::Cancel { reason } => f
                .debug_struct("Cancel")
                .field("reason", &Hidden(reason))
                .finish(),
        }
    }
}

/// Which worker runs the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proceed {
    /// This worker, on the same claim (run-ahead). The status stays `executing`.
    KeepClaim,
    /// The next worker that claims the instance.
    Requeue,
}

impl Outcome {
    /// Creates a failure without an error value.
    pub fn fail(reason: impl Into<String>) -> Outcome {
        Outcome::Fail {
            reason: reason.into(),
            error: None,
        }
    }

    /// Returns the terminal status it leads to, if any.
    pub fn end(&self) -> Option<Status> {
        match self {
            Outcome::Done { .. } => Some(Status::Done),
            Outcome::Fail { .. } => Some(Status::Failed),
            Outcome::Cancel { .. } => Some(Status::Cancelled),
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow { .. }
            | Outcome::ContinueAsNew { .. } => None,
        }
    }

    /// Whether it consumes the signals that the step received.
    pub fn consumes(&self) -> bool {
        match self {
            Outcome::Next { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow { .. }
            | Outcome::ContinueAsNew { .. } => true,
            Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => false,
        }
    }

    /// Returns the state it writes. An end, and a workflow that continues, keep the stored state.
    pub fn state(&self) -> Option<&Json> {
        match self {
            Outcome::Next { state, .. }
            | Outcome::Retry { state, .. }
            | Outcome::Wait { state, .. }
            | Outcome::FanOut { state, .. }
            | Outcome::ContinueAsNew { state } => Some(state),
            Outcome::Flow { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => None,
        }
    }

    /// Returns the value it writes to the instance's result: an output, or an error value.
    pub fn result(&self) -> Option<&Json> {
        match self {
            Outcome::Done { result } => Some(result),
            Outcome::Fail { error, .. } => error.as_ref(),
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow { .. }
            | Outcome::ContinueAsNew { .. }
            | Outcome::Cancel { .. } => None,
        }
    }

    /// Whether it is a machine's fan-out.
    pub fn is_fan_out(&self) -> bool {
        matches!(self, Outcome::FanOut { .. })
    }

    /// Returns the children it starts.
    pub fn children(&self) -> &[NewInstance] {
        match self {
            Outcome::FanOut { children, .. } | Outcome::Flow { children, .. } => children,
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::ContinueAsNew { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => &[],
        }
    }

    /// Whether it begins a round: a fan-out always does, a workflow when it starts children.
    pub fn begins_round(&self) -> bool {
        self.is_fan_out() || !self.children().is_empty()
    }

    /// Returns the park of a workflow that waits.
    pub fn park(&self) -> Option<&crate::Park> {
        let Outcome::Flow {
            then: Flowing::Park(park),
            ..
        } = self
        else {
            return None;
        };
        Some(park)
    }

    /// Returns the signal names it waits for.
    ///
    /// A wait without names is a sleep, or waits for children.
    pub fn awaited_names(&self) -> &[String] {
        match self {
            Outcome::Wait { names, .. } => names,
            Outcome::Flow {
                then: Flowing::Park(park),
                ..
            } => &park.names,
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::FanOut { .. }
            | Outcome::Flow {
                then: Flowing::Proceed(_),
                ..
            }
            | Outcome::ContinueAsNew { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => &[],
        }
    }

    /// Whether it keeps the claim.
    pub fn keeps_claim(&self) -> bool {
        matches!(
            self,
            Outcome::Next {
                proceed: Proceed::KeepClaim,
                ..
            } | Outcome::Flow {
                then: Flowing::Proceed(Proceed::KeepClaim),
                ..
            }
        )
    }

    /// Checks whether it can be stored.
    ///
    /// A store answers [`Answer::Rejected`] for an invalid outcome, and writes the rest of the
    /// batch.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Outcome::Next { step, .. } => limits::check_name("step", step),
            Outcome::Retry { delay, .. } => limits::check_delay("retry delay", *delay),
            Outcome::Wait {
                names,
                step,
                timeout,
                ..
            } => check_wait(names, step, *timeout),
            Outcome::FanOut {
                children,
                join,
                step,
                ..
            } => join.check().and_then(|()| check_fan_out(children, step)),
            Outcome::Flow {
                children,
                window,
                then,
            } => check_flow(children, *window, then),
            Outcome::ContinueAsNew { .. }
            | Outcome::Done { .. }
            | Outcome::Fail { .. }
            | Outcome::Cancel { .. } => Ok(()),
        }
    }
}

fn check_wait(names: &[String], step: &str, timeout: Option<Duration>) -> Result<(), Invalid> {
    limits::check_name("step", step)?;
    limits::check_batch("wait", names.len(), AWAITED_NAMES_MAX)?;
    for name in names {
        limits::check_name("awaited signal", name)?;
    }
    match timeout {
        Some(timeout) => limits::check_delay("wait timeout", timeout),
        None if names.is_empty() => Err(Invalid::new(
            "wait",
            "names no signal and has no timeout, so nothing could ever wake it; give it one of them",
        )),
        None => Ok(()),
    }
}

fn check_fan_out(children: &[NewInstance], step: &str) -> Result<(), Invalid> {
    limits::check_name("step", step)?;
    check_children(children)
}

fn check_flow(
    children: &[NewInstance],
    window: Option<u32>,
    then: &Flowing,
) -> Result<(), Invalid> {
    let join = Join {
        window,
        ..Join::default()
    };
    join.check()?;
    check_children(children)?;
    match then {
        Flowing::Proceed(_) => Ok(()),
        Flowing::Park(park) => park.check(),
    }
}

fn check_children(children: &[NewInstance]) -> Result<(), Invalid> {
    limits::check_batch("fan-out", children.len(), CHILDREN_MAX)?;
    for (position, child) in children.iter().enumerate() {
        child
            .check()
            .map_err(|invalid| invalid.within(format_args!("child {position}")))?;
    }
    Ok(())
}

impl Commit {
    /// Creates the commit of a claim whose step received every awaited signal.
    pub fn of(claim: &Claim, outcome: Outcome) -> Commit {
        Commit {
            claim: claim.reference(),
            received: claim.awaited().map(|signal| signal.id).collect(),
            outcome,
            answers_cancel: claim.is_to_answer_cancel(),
            links: claim.links(),
            events: Vec::new(),
            position: Some(HistoryPosition {
                run: claim.run,
                events: claim.events,
            }),
            views: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Checks whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        self.outcome.check()?;
        NewEvent::check_all(&self.events)?;
        NewView::check_all(&self.views)?;
        NewReply::check_all(&self.replies)?;
        let has_no_history =
            self.events.is_empty() && self.position.is_some_and(|it| it.events == 0);
        if has_no_history && !self.views.is_empty() {
            // Views are removed with the history of their instance.
            return Err(Invalid::new(
                "views",
                "belong to an instance without a history",
            ));
        }
        Ok(())
    }

    /// Checks the size of a batch.
    pub fn check_batch(commits: &[Commit]) -> Result<(), Invalid> {
        limits::check_batch("commit", commits.len(), BATCH_MAX)
    }

    /// Returns the answers that need no look at the store.
    ///
    /// An outcome that cannot be stored is rejected. A claim that occurred before in the batch is
    /// lost.
    pub fn foregone(commits: &[Commit]) -> Vec<Option<Answer>> {
        let mut named = HashSet::with_capacity(commits.len());
        commits
            .iter()
            .map(|commit| match commit.check() {
                Err(invalid) => Some(Answer::Rejected(invalid)),
                Ok(()) if named.insert(commit.claim) => None,
                Ok(()) => Some(Answer::Lost),
            })
            .collect()
    }
}

/// The result of one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The outcome is durable.
    Committed {
        /// The new revision: the fence of a kept claim.
        revision: Revision,
        /// The new status.
        status: Status,
        /// With a kept claim: a cancel that arrived meanwhile and must be answered next.
        cancel: Option<CancelRequest>,
        /// With a kept claim: the latest signal that was delivered since the claim.
        ///
        /// A worker that has not seen it reads the inbox again ([`inbox`](crate::Store::inbox)).
        latest_signal: Option<SignalId>,
        /// When it was written, by the store's clock: the time of its events that carry none.
        at: Timestamp,
    },
    /// A cancel arrived first, and the workflow's outcome does not answer it.
    ///
    /// Nothing was written, and the claim is kept. The engine passes the cancel to the workflow,
    /// which decides on another outcome.
    Cancel(CancelRequest),
    /// The worker no longer held the claim; nothing was written.
    ///
    /// An outcome that is sent again after an unnoticed success gets the same answer
    /// (docs/protocol.md, defect 13).
    Lost,
    /// The outcome can never be written. The claim is kept for another outcome.
    Rejected(Invalid),
}

/// The answer to a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// One answer per outcome, in the caller's order.
    pub answers: Vec<Answer>,
    /// Queues in which an instance may have become claimable: requeued instances, children,
    /// parents, and the next in line of a partition key.
    pub woken: QueueNames,
    /// Whether an end or a join left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
}

/// A claim to release unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The claim.
    pub claim: ClaimRef,
    /// How long no worker may claim it. Zero keeps its position in the queue; any other value
    /// makes it eligible that long from now (docs/protocol.md, defect 15).
    pub pause: Duration,
}

/// The result of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// The instance is in its queue again.
    Released,
    /// The worker no longer held the claim.
    Lost,
}

/// The answer to a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// One answer per claim, in the caller's order.
    pub answers: Vec<ReleaseAnswer>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
}
