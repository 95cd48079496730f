//! Helpers for rules about workflows.

use super::{Subject, commit_of, json, seconds, task};
use outlast_core::{
    Answer, ChildRange, Claim, Commit, Due, Event, EventKind, Flowing, HistoryRequest, Instance,
    InstanceId, JoinProgress, JoinSet, JoinSets, NewEvent, NewInstance, Outcome, Park, Proceed,
    RunSummary, Status, WorkerId, limits,
};

/// Makes an event of a call with this name.
pub(crate) fn event(kind: EventKind, name: &str) -> NewEvent {
    NewEvent {
        kind,
        call: Some(1),
        name: name.into(),
        data: json(r#"{"v":1}"#),
        at: None,
    }
}

/// Makes `n` events that differ in their names.
pub(crate) fn events(n: usize) -> Vec<NewEvent> {
    let name = |n| format!("e{n}");
    (0..n)
        .map(|n| event(EventKind::StepCompleted, &name(n)))
        .collect()
}

/// Makes the commit of `claim` with these events.
pub(crate) fn commit_with(claim: &Claim, outcome: Outcome, events: Vec<NewEvent>) -> Commit {
    Commit {
        events,
        ..commit_of(claim, outcome)
    }
}

/// Returns the claim as it is after an outcome that kept it.
pub(crate) fn kept(claim: &Claim) -> Claim {
    Claim {
        revision: claim.revision.next(),
        ..claim.clone()
    }
}

pub(crate) fn flow(children: Vec<NewInstance>, then: Flowing) -> Outcome {
    Outcome::Flow {
        children,
        window: None,
        then,
    }
}

/// The outcome that advances and keeps the claim.
pub(crate) fn flow_on() -> Outcome {
    start(Vec::new())
}

/// The outcome that advances through the queue.
pub(crate) fn flow_requeue() -> Outcome {
    flow(Vec::new(), Flowing::Proceed(Proceed::Requeue))
}

/// The outcome that starts children and keeps the claim.
pub(crate) fn start(children: Vec<NewInstance>) -> Outcome {
    flow(children, Flowing::Proceed(Proceed::KeepClaim))
}

/// The outcome that parks.
pub(crate) fn park(park: Park) -> Outcome {
    start_and_park(Vec::new(), park)
}

/// The outcome that starts children and parks.
pub(crate) fn start_and_park(children: Vec<NewInstance>, park: Park) -> Outcome {
    flow(children, Flowing::Park(park))
}

pub(crate) fn renew() -> Outcome {
    Outcome::ContinueAsNew {
        state: json(r#"{"at":"renewed"}"#),
    }
}

pub(crate) fn for_signals(names: &[&str]) -> Park {
    Park {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Park::default()
    }
}

pub(crate) fn for_time(n: u64) -> Park {
    Park {
        deadline: Some(Due::After(seconds(n))),
        ..Park::default()
    }
}

/// Waits for `count` finished children of these rounds.
pub(crate) fn for_ends(rounds: &[i32], children: &[InstanceId], count: i32) -> Park {
    for_join_sets(vec![part(rounds, children, count)])
}

/// Waits for the first of these join sets to complete.
pub(crate) fn for_join_sets(sets: Vec<JoinSet>) -> Park {
    Park {
        join_sets: Some(JoinSets { sets }),
        ..Park::default()
    }
}

/// A join set of `count` children of these rounds.
pub(crate) fn part(rounds: &[i32], children: &[InstanceId], count: i32) -> JoinSet {
    JoinSet {
        ranges: rounds.iter().copied().map(ChildRange::whole).collect(),
        children: children.to_vec(),
        count,
    }
}

/// A join set of all children of one round that are about to start at these positions.
pub(crate) fn starting(round: i32, positions: std::ops::RangeInclusive<i32>) -> JoinSet {
    let (first, last) = (*positions.start(), *positions.end());
    let span = ChildRange { round, first, last };
    JoinSet {
        ranges: vec![span],
        children: Vec::new(),
        count: last - first + 1,
    }
}

/// The progress of a join set: these whole rounds, with `left` children pending.
pub(crate) fn joining(rounds: &[i32], left: i32) -> JoinProgress {
    JoinProgress {
        ranges: rounds.iter().copied().map(ChildRange::whole).collect(),
        left,
    }
}

/// Returns the pending children of each join set of a workflow.
pub(crate) fn left(row: &Instance) -> Vec<i32> {
    let sets = row.joining.iter().flatten();
    sets.map(|part| part.left).collect()
}

/// Waits for the first event: a signal `go`, ten seconds, or the children of `ends`.
pub(crate) fn for_anything(ends: Park) -> Park {
    Park {
        join_sets: ends.join_sets,
        deadline: for_time(10).deadline,
        ..for_signals(&["go"])
    }
}

impl Subject {
    /// Commits an outcome with events that must be written, and returns the new status.
    pub(crate) async fn commit_events(
        &self,
        claim: &Claim,
        outcome: Outcome,
        events: Vec<NewEvent>,
    ) -> Status {
        match self.try_commit_events(claim, outcome, events).await {
            Answer::Committed { status, .. } => status,
            answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => {
                panic!("the outcome of {} was not committed: {answer:?}", claim.id)
            }
        }
    }

    pub(crate) async fn try_commit_events(
        &self,
        claim: &Claim,
        outcome: Outcome,
        events: Vec<NewEvent>,
    ) -> Answer {
        let commits = vec![commit_with(claim, outcome, events)];
        self.commit_all(commits).await.answers.remove(0)
    }

    /// Makes a worker, and the claim of a workflow that has started these children.
    pub(crate) async fn flowing(&self, children: Vec<NewInstance>) -> (WorkerId, Claim) {
        let (worker, claim) = self.running(task()).await;
        let status = self.commit(&claim, start(children)).await;
        assert_eq!(status, Status::Executing);
        let claim = Claim {
            round: claim.round + 1,
            ..kept(&claim)
        };
        (worker, claim)
    }

    /// Makes a worker and a workflow that has started these children and parks like this.
    ///
    /// Also returns the claims of the started children.
    pub(crate) async fn awaiting(
        &self,
        children: Vec<NewInstance>,
        until: Park,
    ) -> (WorkerId, InstanceId, Vec<Claim>) {
        let (worker, claim) = self.running(task()).await;
        let parked = self.commit(&claim, start_and_park(children, until)).await;
        assert_eq!(parked, Status::AwaitingChildren);
        (worker, claim.id, self.claim(worker, 1_000).await)
    }

    /// Returns the whole history of one run.
    pub(crate) async fn history(&self, id: InstanceId, run: i32) -> Vec<Event> {
        let request = HistoryRequest {
            id,
            run,
            after: 0,
            max: limits::HISTORY_PAGE_MAX,
        };
        self.store.history(request).await.unwrap().rows
    }

    /// Returns the names of the events of one run.
    pub(crate) async fn event_names(&self, id: InstanceId, run: i32) -> Vec<String> {
        let history = self.history(id, run).await.into_iter();
        history.map(|event| event.name).collect()
    }

    pub(crate) async fn runs(&self, id: InstanceId) -> Vec<RunSummary> {
        self.store.histories(id).await.unwrap()
    }
}
