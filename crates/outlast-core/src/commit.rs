//! Writing what a step decided, and giving back what was not run.

use crate::limits::{self, AWAITED_NAMES_MAX, BATCH_MAX, CHILDREN_MAX, Hidden};
use crate::{
    Claim, InstanceId, Invalid, Json, NewInstance, QueueNames, Revision, SignalId, Status,
};
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// A claim as an outcome names it: the instance, and the one moment of it that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    /// The instance.
    pub id: InstanceId,
    /// The fence.
    pub revision: Revision,
}

/// One outcome to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Whose outcome it is.
    pub claim: ClaimRef,
    /// The awaited signals that were handed to the step ([`Claim::awaited`](crate::Claim::awaited)).
    /// Progress consumes exactly these; a wait is not woken by them again (PROTOCOL §3 #11).
    pub received: Vec<SignalId>,
    /// What the step decided.
    pub outcome: Outcome,
    /// What the instance is tied to, from its claim.
    pub ties: Ties,
}

/// What else of the store an instance is tied to. It was fixed when the instance was inserted, so whoever has
/// the claim knows, and a commit need not look for what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ties {
    /// It may have a parent, which counts its end.
    pub parent: bool,
    /// It may have a partition key, behind which others wait.
    pub partition_key: bool,
}

impl Ties {
    /// Nothing is known: everything is looked for.
    pub const UNKNOWN: Ties = Ties {
        parent: true,
        partition_key: true,
    };
}

/// What a step decided.
///
/// | outcome | status | `attempt` | `eligible_at` | `awaits` | inbox |
/// |---|---|---|---|---|---|
/// | `Next`, keep the claim | executing | 0 | as it was | cleared | the received are consumed |
/// | `Next`, requeue | runnable | 0 | now | cleared | the received are consumed |
/// | `Retry` | runnable | + 1 | now + delay | kept | kept |
/// | `Wait` | awaiting signal; runnable when an unreceived match is in the inbox | as it was | now | the names | kept |
/// | `FanOut` | awaiting children; runnable when none was started | 0 | now | cleared | the received are consumed |
/// | `Done` | done | as it was | as it was | cleared | emptied |
/// | `Stop` | failed | as it was | as it was | cleared | emptied |
/// | `Cancel` | cancelled | as it was | as it was | cleared | emptied |
///
/// All of them set `crashes` to 0 and `updated_at` to now, add one to `revision`, and give up the
/// claim unless it is kept. `Done`, `Stop` and `Cancel` leave `step` and `state` as they were, set
/// `finished_at`, and join the parent. `last_error` is the reason of `Stop` and `Cancel`; a `Retry`
/// with an error sets it, one without keeps it; the others clear it.
///
/// `Debug` shows neither states, results nor reasons.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// On to another step.
    Next {
        /// The step.
        step: String,
        /// The state it takes.
        state: Json,
        /// Whether the worker goes on itself.
        proceed: Proceed,
    },
    /// The same step again.
    Retry {
        /// The state to try it with.
        state: Json,
        /// How long to wait before.
        delay: Duration,
        /// Why, for people to read.
        error: Option<String>,
    },
    /// Park until a signal of one of these names arrives, then go to `step`.
    Wait {
        /// The names; with none the wait is a sleep and needs a timeout.
        names: Vec<String>,
        /// The step to go to, whether a signal came or the time was up.
        step: String,
        /// The state it takes.
        state: Json,
        /// How long to wait at most.
        timeout: Option<Duration>,
    },
    /// Start children and park until all of them have ended, then go to `step`.
    FanOut {
        /// The children, in the order the step will see them.
        children: Vec<NewInstance>,
        /// The step to go to.
        step: String,
        /// The state it takes.
        state: Json,
    },
    /// The end, well.
    Done {
        /// The result.
        result: Json,
    },
    /// The end, badly.
    Stop {
        /// Why.
        reason: String,
    },
    /// The end, because it was wished.
    Cancel {
        /// Why.
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
                step,
                state,
            } => f
                .debug_struct("FanOut")
                .field("children", children)
                .field("step", step)
                .field("state", state)
                .finish(),
            Outcome::Done { result } => f.debug_struct("Done").field("result", result).finish(),
            Outcome::Stop { reason } => f
                .debug_struct("Stop")
                .field("reason", &Hidden(reason))
                .finish(),
            Outcome::Cancel { reason } => f
                .debug_struct("Cancel")
                .field("reason", &Hidden(reason))
                .finish(),
        }
    }
}

/// Who runs the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proceed {
    /// This worker, on the same claim (run-ahead). The status stays `executing`.
    KeepClaim,
    /// Whoever claims it next.
    Requeue,
}

impl Outcome {
    /// The end it leads to, if it is one.
    pub fn end(&self) -> Option<Status> {
        match self {
            Outcome::Done { .. } => Some(Status::Done),
            Outcome::Stop { .. } => Some(Status::Failed),
            Outcome::Cancel { .. } => Some(Status::Cancelled),
            Outcome::Next { .. }
            | Outcome::Retry { .. }
            | Outcome::Wait { .. }
            | Outcome::FanOut { .. } => None,
        }
    }

    /// Whether it consumes the signals the step received.
    pub fn consumes(&self) -> bool {
        matches!(self, Outcome::Next { .. } | Outcome::FanOut { .. })
    }

    /// Whether it starts children.
    pub fn is_fan_out(&self) -> bool {
        matches!(self, Outcome::FanOut { .. })
    }

    /// Whether the claim lives on.
    pub fn keeps_claim(&self) -> bool {
        matches!(
            self,
            Outcome::Next {
                proceed: Proceed::KeepClaim,
                ..
            }
        )
    }

    /// Whether it can be stored. A store answers [`Answer::Rejected`] for one that cannot, and writes
    /// its neighbours.
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
            Outcome::FanOut { children, step, .. } => check_fan_out(children, step),
            Outcome::Done { .. } | Outcome::Stop { .. } | Outcome::Cancel { .. } => Ok(()),
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
    limits::check_batch("fan-out", children.len(), CHILDREN_MAX)?;
    for (position, child) in children.iter().enumerate() {
        child
            .check()
            .map_err(|invalid| invalid.within(format_args!("child {position}")))?;
    }
    Ok(())
}

impl Commit {
    /// The outcome of a claim whose step was handed all that it awaited.
    pub fn of(claim: &Claim, outcome: Outcome) -> Commit {
        Commit {
            claim: claim.reference(),
            received: claim.awaited().map(|signal| signal.id).collect(),
            outcome,
            ties: claim.ties(),
        }
    }

    /// Whether a batch of this size can be taken.
    pub fn check_batch(commits: &[Commit]) -> Result<(), Invalid> {
        limits::check_batch("commit", commits.len(), BATCH_MAX)
    }

    /// What can be answered without looking at the store: an outcome that cannot be stored is rejected,
    /// and a claim that was named before in the batch is lost.
    pub fn foregone(commits: &[Commit]) -> Vec<Option<Answer>> {
        let mut named = HashSet::new();
        commits
            .iter()
            .map(|commit| match commit.outcome.check() {
                Err(invalid) => Some(Answer::Rejected(invalid)),
                Ok(()) if named.insert(commit.claim) => None,
                Ok(()) => Some(Answer::Lost),
            })
            .collect()
    }
}

/// What became of one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is durable.
    Committed {
        /// The revision it led to: the fence of a kept claim.
        revision: Revision,
        /// The status it led to.
        status: Status,
    },
    /// The claim was no longer this worker's; nothing was written. The same answer comes when an
    /// outcome is sent again after its first try succeeded unseen (PROTOCOL §3 #13).
    Lost,
    /// It can never be written; the claim is still held, so that another outcome can be.
    Rejected(Invalid),
}

/// The answer to a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// One per outcome, in the caller's order.
    pub answers: Vec<Answer>,
    /// The queues in which something may now be claimed: own requeues, children, parents released,
    /// neighbours of a partition key.
    pub woken: QueueNames,
}

/// A claim to give back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which claim.
    pub claim: ClaimRef,
    /// How long nobody should take it: zero puts it back exactly where it was, anything else makes it
    /// eligible that long from now (PROTOCOL §3 #15).
    pub pause: Duration,
}

/// What became of one claim given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// It is in its queue again.
    Released,
    /// It was no longer this worker's.
    Lost,
}

/// The answer to a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// One per claim, in the caller's order.
    pub answers: Vec<ReleaseAnswer>,
    /// The queues in which something may now be claimed.
    pub woken: QueueNames,
}
