//! Writing what a step decided, and giving back what was not run.

use crate::limits::{self, AWAITED_NAMES_MAX, BATCH_MAX, CHILDREN_MAX, Hidden};
use crate::{
    CancelRequest, Claim, Flowing, InstanceId, Invalid, Join, Json, NewEvent, NewInstance,
    QueueNames, Revision, SignalId, Status, Timestamp,
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
    /// Progress consumes exactly these; a wait is not woken by them again (docs/protocol.md, defect 11).
    pub received: Vec<SignalId>,
    /// What the step decided.
    pub outcome: Outcome,
    /// Whether it is what the machine decided about a cancel ([`Claim::is_to_answer_cancel`]). Any outcome but a retry
    /// then settles that cancel: what comes after is what was decided.
    pub answers_cancel: bool,
    /// What the instance is tied to, from its claim.
    pub links: Links,
    /// What is added to the history of the run that the instance is in before this outcome, with it or not at all.
    pub events: Vec<NewEvent>,
    /// Where that history stands, from the claim.
    pub mark: Option<HistoryPosition>,
}

/// Where the history of a run stands. Only outcomes add to it, so whoever has the claim knows, and a commit need not look; one
/// that is wrong is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPosition {
    /// The run.
    pub run: i32,
    /// How many events its history has.
    pub events: i32,
}

/// What else of the store an instance is tied to. It was fixed when the instance was inserted, so whoever has
/// the claim knows, and a commit need not look for what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// It may have a parent, which counts its end.
    pub parent: bool,
    /// It may have a partition key, behind which others wait.
    pub partition_key: bool,
    /// It may have children, who are told of its end.
    pub children: bool,
    /// It may have a place in a window of its parent's children, for which others wait.
    pub window: bool,
}

impl Links {
    /// Nothing is known: everything is looked for.
    pub const UNKNOWN: Links = Links {
        parent: true,
        partition_key: true,
        children: true,
        window: true,
    };
}

/// What a step decided.
///
/// | outcome | status | `attempt` | `eligible_at` | `awaits` | inbox |
/// |---|---|---|---|---|---|
/// | `Next`, keep the claim | executing | 0 | as it was | cleared | the received are consumed |
/// | `Next`, requeue | runnable | 0 | now | cleared | the received are consumed |
/// | `Retry` | runnable | + 1 | now + delay | kept | kept |
/// | `Wait` | awaiting signal, or sleeping without names; runnable when an unreceived match is in the inbox | as it was | now | the names | kept |
/// | `FanOut` | awaiting children; runnable when none was started | 0 | now | cleared | the received are consumed |
/// | `Flow`, keep the claim | executing | 0 | as it was | cleared | the received are consumed |
/// | `Flow`, requeue | runnable | 0 | now | cleared | the received are consumed |
/// | `Flow`, park | awaiting children when ends are awaited, else awaiting signal, or sleeping without names; runnable when one of what it waits for is there | 0 | now | the names | the received are consumed |
/// | `Renew` | runnable | 0 | now | cleared | the received are consumed |
/// | `Done` | done | as it was | as it was | cleared | emptied |
/// | `Stop` | failed | as it was | as it was | cleared | emptied |
/// | `Cancel` | cancelled | as it was | as it was | cleared | emptied |
///
/// All of them set `crashes` to 0 and `updated_at` to now, add one to `revision`, and give up the
/// claim unless it is kept. `Done`, `Stop` and `Cancel` leave `step` and `state` as they were, set
/// `finished_at`, and join the parent. `last_error` is the reason of `Stop` and `Cancel`; a `Retry`
/// with an error sets it, one without keeps it; the others clear it.
///
/// **A cancel that is not answered yet** changes what an outcome does that does not answer it: a `Wait` and a `FanOut`
/// lead to runnable, eligible now, and the fan-out starts no children (it counts as a round all the same); a `Retry` is
/// eligible now. Nothing of the old course begins any more; what the machine decides about the cancel comes next. A `Next`
/// that keeps its claim keeps it, and the answer tells the cancel.
///
/// **A fan-out** that starts children parks until its [`Join`] is decided: by what it starts with (a quorum of more than
/// were started), by ends of children, by its deadline, or by a cancel. The woken step sees why ([`Claim::joined`]).
///
/// **A flow** leaves `step`, `state` and `entered` as they were; with children it begins a round. Its round is joined by
/// nobody unless it parks for it. A flow that parks and expects ends is woken by a child that was not started as by a bad
/// end. One that meets a cancel which it does not answer is not written when it parks or starts children: the answer is
/// [`Answer::Cancel`], and the claim is kept. One that goes on without children is written, and the answer tells the cancel
/// if the claim is kept.
///
/// A park looks once, when what was received is consumed and the children are started: at the inbox, and at the awaited
/// children of earlier commits as they were before this batch ([`JoinSets`](crate::JoinSets)). What it finds there keeps it from
/// parking. A cancel that it answers does not.
///
/// | a park for ends | `joining` | `children_pending` | `Barrier::started` | `failed` | `joined` |
/// |---|---|---|---|---|---|
/// | waits | the parts | what is left | the count | 0 | none |
/// | goes on: one has ended badly, is gone, or was not started | the parts | what is left | the count | the bad | failure |
/// | goes on: enough of a part have ended | the parts | 0 | the count | 0 | all |
/// | goes on: only a signal is there | the parts | what is left | the count | 0 | none |
///
/// Each part has what is left of its own count, at least 0. `children_pending` is the least of these, and the count is the
/// least of theirs: what is nearest wakes. An end is counted in every part that has the child, and is one bad end all the
/// same.
///
/// In all of these `first_failure` is none, `rest` is to abandon, `until` is [`FailFast`](crate::Until::FailFast), and the
/// `window` is that of the children this very commit starts. Any other flow leaves the barrier and `children_pending` as
/// they were (a barrier of nobody, if there was none and it starts children); its `joining` is empty when it starts children
/// or has one, so that ends it does not wait for are not counted. A machine's fan-out has no `joining`, whatever was there.
///
/// **A renewal** begins a run: `run + 1` with an empty history; the histories of all but the last
/// [`RUNS_KEPT`](crate::limits::RUNS_KEPT) runs are removed, the present one included in the count. It begins a visit of its
/// step (`entered`). Children, rounds and `joining` stay as they are. A cancel that it does not answer comes next.
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
    /// Start children and park until their join is decided, then go to `step`.
    FanOut {
        /// The children, in the order the step will see them.
        children: Vec<NewInstance>,
        /// What wakes the instance.
        join: Join,
        /// The step to go to.
        step: String,
        /// The state it takes.
        state: Json,
    },
    /// A workflow goes on or waits, where it is.
    Flow {
        /// The children it starts, as a round of their own; none begins no round.
        children: Vec<NewInstance>,
        /// How many of them run at a time; `None` starts all of them.
        window: Option<u32>,
        /// What comes next.
        then: Flowing,
    },
    /// A workflow begins anew, as the same instance: at the same step, with another state and an empty history.
    ContinueAsNew {
        /// The state it begins with.
        state: Json,
    },
    /// The end, well.
    Done {
        /// The result.
        result: Json,
    },
    /// The end, badly.
    Fail {
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
            Outcome::Fail { reason } => f
                .debug_struct("Fail")
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

    /// Whether it consumes the signals the step received.
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

    /// The state that it leads to; an end, and a workflow that goes on, leave the one that was there.
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

    /// Whether it is a machine's fan-out.
    pub fn is_fan_out(&self) -> bool {
        matches!(self, Outcome::FanOut { .. })
    }

    /// The children it starts.
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

    /// What a workflow waits for, if it is one that does.
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

    /// The signals that it waits for. A wait without any is a sleep, or waits for ends of children.
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

    /// Whether the claim lives on.
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
    /// The outcome of a claim whose step was handed all that it awaited.
    pub fn of(claim: &Claim, outcome: Outcome) -> Commit {
        Commit {
            claim: claim.reference(),
            received: claim.awaited().map(|signal| signal.id).collect(),
            outcome,
            answers_cancel: claim.is_to_answer_cancel(),
            links: claim.links(),
            events: Vec::new(),
            mark: Some(HistoryPosition {
                run: claim.run,
                events: claim.events,
            }),
        }
    }

    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        self.outcome.check()?;
        NewEvent::check_all(&self.events)
    }

    /// Whether a batch of this size can be taken.
    pub fn check_batch(commits: &[Commit]) -> Result<(), Invalid> {
        limits::check_batch("commit", commits.len(), BATCH_MAX)
    }

    /// What can be answered without looking at the store: an outcome that cannot be stored is rejected,
    /// and a claim that was named before in the batch is lost.
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

/// What became of one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is durable.
    Committed {
        /// The revision it led to: the fence of a kept claim.
        revision: Revision,
        /// The status it led to.
        status: Status,
        /// When the claim is kept: a cancel that came meanwhile and is to be answered next.
        cancel: Option<CancelRequest>,
        /// When it was written, by the store's clock: the moment of its events that have none of their own.
        at: Timestamp,
    },
    /// A cancel came first that a workflow's outcome does not answer. Nothing was written, and the claim is kept: the
    /// workflow is to be told, and comes to another outcome.
    Cancel(CancelRequest),
    /// The claim was no longer this worker's; nothing was written. The same answer comes when an
    /// outcome is sent again after its first try succeeded unseen (docs/protocol.md, defect 13).
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
    /// Whether children are to be told of an end or of a join: [`cascade`](crate::Store::cascade) has something to do.
    pub cascades: bool,
}

/// A claim to give back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which claim.
    pub claim: ClaimRef,
    /// How long nobody should take it: zero puts it back exactly where it was, anything else makes it
    /// eligible that long from now (docs/protocol.md, defect 15).
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
