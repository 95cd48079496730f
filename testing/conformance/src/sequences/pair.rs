//! A store and the model side by side: each verb goes to both, and both must agree.

use super::calls::{Call, Reply};
use super::compare;
use super::coverage::Coverage;
use super::ids::Ids;
use super::invariants;
use super::looks;
use super::resolve::{Sender, new_worker};
use super::state::{State, Wanted};
use super::steps::{self, QUEUES, Step};
use crate::{Database, Model, Subject};
use outlast_core::{
    CascadeRequest, Cascaded, ClaimRequest, Clock, CollectRequest, Commit, Extent, InstanceId,
    ManualClock, Note, Outcome, ReapRequest, RepairScope, Status,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Verbs per question.
const LOOK_EVERY: usize = 3;

/// The differences, if any.
type Agreement<T = ()> = Result<T, Vec<String>>;

pub(super) struct Pair {
    model: Model,
    subject: Subject,
    clock: ManualClock,
    to_store: Ids,
    to_model: Ids,
    /// The model's state after the last verb.
    state: State,
    sender: Sender,
    coverage: Coverage,
    trail: Vec<String>,
}

impl Pair {
    pub(super) fn new(subject: Subject, clock: ManualClock) -> Pair {
        Pair {
            model: Model::new(clock.clone()),
            subject,
            clock,
            to_store: Ids::default(),
            to_model: Ids::default(),
            state: State::default(),
            sender: Sender::default(),
            coverage: Coverage::default(),
            trail: Vec::new(),
        }
    }

    /// Closes the store, and returns the coverage and the trail of the sequence.
    pub(super) async fn finish(self) -> (Coverage, Vec<String>) {
        self.subject.finish().await;
        (self.coverage, self.trail)
    }

    /// Sends `steps`, and then verbs until every instance has finished.
    pub(super) async fn follow(&mut self, steps: &[Step]) -> Agreement {
        self.send(Call::Register(new_worker(60))).await?;
        for (nth, step) in steps.iter().enumerate() {
            if let Step::Pass(time) = step {
                self.pass(*time);
            } else if let Some(call) = self.sender.resolve(step, &self.state, self.clock.now()) {
                self.send(call).await?;
            }
            if nth.is_multiple_of(LOOK_EVERY) {
                self.look(nth).await?;
            }
        }
        self.settle().await
    }

    /// Asks both sides a question. It changes no state.
    async fn look(&mut self, nth: usize) -> Agreement {
        let now = self.clock.now();
        let call = looks::question(nth + self.state.instances.len(), &self.state, now);
        let model = call.clone().send(&self.model).await;
        let renamed = call.clone().renamed(&self.to_store);
        let store = renamed.send(self.subject.store.as_ref()).await;
        let store = store.renamed(&self.to_model);
        let differences = compare::answers(&call, &model, &store, &self.state, now);
        if !differences.is_empty() {
            self.trail.push(format!("{call:?}"));
            return Err(differences);
        }
        self.coverage.count(&call, &model, &self.state, &self.state);
        Ok(())
    }

    fn pass(&mut self, seconds: u64) {
        self.trail.push(format!("{seconds} s pass"));
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Sends one verb to both sides and compares the results.
    async fn send(&mut self, call: Call) -> Agreement<Reply> {
        self.trail.push(format!("{call:?}"));
        let before = std::mem::take(&mut self.state);
        let model = call.clone().send(&self.model).await;
        let renamed = call.clone().renamed(&self.to_store);
        let store = renamed.send(self.subject.store.as_ref()).await;
        self.state = read(&self.model, None).await?;
        let stored = self.read_store(&before).await?;

        self.to_store.learn(&self.state, &stored);
        self.to_model.learn(&stored, &self.state);
        let store = store.renamed(&self.to_model);
        let stored = stored.renamed(&self.to_model);

        let now = self.clock.now();
        let mut differences = compare::answers(&call, &model, &store, &self.state, now);
        differences.extend(compare::states(&self.state, &stored));
        differences.extend(invariants::broken_in(&stored));
        differences.extend(invariants::broken_between(&before, &stored));
        if !differences.is_empty() {
            return Err(differences);
        }
        self.coverage.count(&call, &model, &before, &self.state);
        self.sender.remember(&call, &model, &self.state);
        Ok(model)
    }

    async fn read_store(&self, before: &State) -> Agreement<State> {
        let store = self.subject.store.as_ref();
        if self.trail.len().is_multiple_of(8) {
            return read(store, None).await;
        }
        let mut wanted = Wanted {
            inboxes: self.state.recipients(),
            histories: before.changed_histories(&self.state).collect(),
            updates: before.changed_updates(&self.state).collect(),
        };
        wanted.inboxes.extend(before.recipients());
        // A row with a signal that this verb made has no known counterpart in the store yet.
        if wanted.all().any(|id| !self.to_store.knows(*id)) {
            return read(store, None).await;
        }
        let renamed = |ids: BTreeSet<InstanceId>| {
            let renamed = ids.into_iter().map(|mut id| {
                self.to_store.rename(&mut id);
                id
            });
            renamed.collect()
        };
        let wanted = Wanted {
            inboxes: renamed(wanted.inboxes),
            histories: renamed(wanted.histories),
            updates: renamed(wanted.updates),
        };
        read(store, Some(&wanted)).await
    }

    /// Finishes every instance on both sides, and checks that this is possible (I2).
    async fn settle(&mut self) -> Agreement {
        let note = || Note::by("ada");
        for queue in QUEUES {
            self.send(Call::Resume(queue.into(), note())).await?;
        }
        for _ in 0..100 {
            if self
                .state
                .instances
                .iter()
                .all(|row| row.status.is_terminal())
            {
                return self.collect_everything().await;
            }
            self.work_once().await?;
        }
        Err(vec!["I2: not every instance can be finished".into()])
    }

    /// Fires deadlines, times out, reaps, cancels endless waits, and finishes claimable instances.
    async fn work_once(&mut self) -> Agreement {
        self.pass(100_000);
        self.send(Call::Fire(1_000)).await?;
        self.send(Call::TimeOut(1_000)).await?;
        let reap = ReapRequest {
            max: 1_000,
            crashes_max: 1_000,
        };
        self.send(Call::Reap(reap)).await?;
        let waits = self.state.instances.iter();
        let waits =
            waits.filter(|row| matches!(row.status, Status::AwaitingSignal | Status::Sleeping));
        let waits: Vec<InstanceId> = waits.map(|row| row.id).collect();
        self.send(Call::Terminate(waits, Extent::One, Note::by("ada")))
            .await?;
        self.run_cascades().await?;
        let Reply::Registered(worker) = self.send(Call::Register(new_worker(60))).await? else {
            return Err(vec!["a worker was not registered".into()]);
        };
        for queue in QUEUES {
            let request = ClaimRequest {
                worker,
                queue: queue.into(),
                machines: steps::machines(None).into(),
                max: 1_000,
            };
            if let Reply::Claimed(claimed) = self.send(Call::Claim(request)).await? {
                let done = |claim: &outlast_core::Claim| Commit {
                    claim: claim.reference(),
                    received: Vec::new(),
                    outcome: Outcome::Done {
                        result: steps::state("at last"),
                    },
                    answers_cancel: claim.is_to_answer_cancel(),
                    links: claim.links(),
                    events: Vec::new(),
                    position: None,
                    views: Vec::new(),
                    replies: Vec::new(),
                };
                let commits = claimed.claims.iter().map(done).collect();
                self.send(Call::Commit(commits)).await?;
            }
        }
        Ok(())
    }

    /// Runs cascades until none is left.
    async fn run_cascades(&mut self) -> Agreement {
        for _ in 0..10_000 {
            let request = CascadeRequest { max: 3 };
            if let Reply::Cascaded(Cascaded { more: false, .. }) =
                self.send(Call::Cascade(request)).await?
            {
                let broken = invariants::broken_at_rest(&self.state);
                return if broken.is_empty() {
                    Ok(())
                } else {
                    Err(broken)
                };
            }
        }
        Err(vec!["I13: a cascade does not end".into()])
    }

    /// Collects finished instances, and checks that nothing remains (I1).
    async fn collect_everything(&mut self) -> Agreement {
        self.run_cascades().await?;
        let everything = RepairScope::Page {
            after: None,
            max: 1_000,
        };
        if let Reply::NeedingRepair(needing) = self.send(Call::NeedingRepair(everything)).await?
            && !needing.found.is_empty()
        {
            return Err(vec![format!("instances need a repair: {needing:?}")]);
        }
        self.pass(1);
        let everything = CollectRequest {
            retention: Duration::ZERO,
            max: 10_000,
        };
        self.send(Call::Collect(everything)).await?;
        match self.state.instances.len() + self.state.signals.len() + self.state.operations.len() {
            0 => Ok(()),
            left => Err(vec![format!("{left} rows are never removed")]),
        }
    }
}

async fn read(store: &dyn Database, wanted: Option<&Wanted>) -> Agreement<State> {
    let state = State::read(store, wanted).await;
    state.map_err(|error| vec![format!("the state cannot be read: {error}")])
}
