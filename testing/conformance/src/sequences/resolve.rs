//! Resolves steps into verbs: turns picks into ids of existing rows.

mod flows;
mod links;
mod replies;
mod signal_or_insert;

use super::calls::{Call, Reply};
use super::state::State;
use super::steps::{self, Decision, Kind, Letter, Pick, QUEUES, Row, Step};
use flows::{events, fitting, flow, views};
use links::{answers_cancel, links};
use outlast_core::{
    Answer, CascadeRequest, Claim, ClaimOffer, ClaimRef, ClaimRequest, CollectRequest, Commit,
    Extent, Flowing, HistoryPosition, Inserted, Instance, InstanceId, Json, MachineOffer,
    NewInstance, NewSignal, NewWorker, Note, Outcome, Park, Proceed, ReapRequest, Release,
    RepairScope, SignalId, Status, Target, Timestamp, WorkerId,
};
use replies::replies;
use signal_or_insert::signal_or_insert;
use std::collections::BTreeSet;
use std::time::Duration;

/// The sender of the verbs, with the rows and claims of earlier verbs.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Every instance that ever existed.
    instances: Vec<InstanceId>,
    /// Every worker that ever existed.
    workers: Vec<WorkerId>,
    /// Every claim that was ever made, with its awaited signals.
    claims: Vec<(ClaimRef, Vec<SignalId>)>,
}

impl Sender {
    /// Returns the verb that `step` means now; `None` when it has nothing to act on.
    pub(super) fn resolve(&self, step: &Step, state: &State, now: Timestamp) -> Option<Call> {
        let note = || Note::by("ada").because("chance");
        Some(match step {
            Step::Insert { rows, claim_for } => {
                let worker = claim_for.and_then(|pick| self.worker(pick, state, now));
                Call::Insert(new_instances(rows, now), worker)
            }
            Step::Claim {
                worker,
                queue,
                machines,
                max,
            } => match self.worker(*worker, state, now) {
                Some(worker) => Call::Claim(ClaimRequest {
                    worker,
                    queue: queue_with_work(*queue, state, now).into(),
                    machines: steps::machines(*machines).into(),
                    max: *max,
                }),
                None => Call::Register(new_worker(60)),
            },
            Step::Commit(decisions) => match self.commits(decisions, state, now) {
                Some(commits) => Call::Commit(commits),
                // Without a claim to commit, the step claims instead.
                None => Call::Claim(ClaimRequest {
                    worker: self.worker(1, state, now)?,
                    queue: queue_with_work(0, state, now).into(),
                    machines: steps::machines(None).into(),
                    max: 10,
                }),
            },
            Step::Release { claims, pause } => Call::Release(self.releases(claims, *pause, state)?),
            Step::ClaimsOf(worker) => Call::ClaimsOf(self.worker(*worker, state, now)?),
            Step::Deliver { letters, claim_for } => Call::Deliver(
                self.signals(letters, state)?,
                claim_for
                    .as_ref()
                    .and_then(|offer| self.offer(offer, state, now)),
            ),
            Step::SignalOrInsert { row, letter } => {
                Call::SignalOrInsert(signal_or_insert(row, letter, state, now))
            }
            Step::Register { lease } => Call::Register(new_worker(*lease)),
            Step::Heartbeat { worker, lease } => {
                Call::Heartbeat(*pick(&self.workers, *worker)?, Duration::from_secs(*lease))
            }
            Step::Deregister(worker) => Call::Deregister(*pick(&self.workers, *worker)?),
            Step::Reap { max, crashes_max } => Call::Reap(ReapRequest {
                max: *max,
                crashes_max: *crashes_max,
            }),
            Step::Fire { max } => Call::Fire(*max),
            Step::TimeOut { max } => Call::TimeOut(*max),
            Step::Collect { retention, max } => Call::Collect(CollectRequest {
                retention: Duration::from_secs(*retention),
                max: *max,
            }),
            Step::NeedingRepair { after, max } => Call::NeedingRepair(RepairScope::Page {
                after: after.and_then(|it| self.any_instance(it)),
                max: *max,
            }),
            Step::Repair(picks) => Call::Repair(self.targets(picks, state, is_parked)?, note()),
            Step::Cancel { picks, tree } => {
                let targets = self.family_targets(picks, *tree, state)?;
                Call::Cancel(targets, extent(*tree), note())
            }
            Step::Terminate { picks, tree } => {
                let targets = self.family_targets(picks, *tree, state)?;
                Call::Terminate(targets, extent(*tree), note())
            }
            Step::Cascade { max } => Call::Cascade(CascadeRequest { max: *max }),
            Step::Retry(picks) => Call::Retry(self.targets(picks, state, ended_badly)?, note()),
            Step::Delete(picks) => Call::Delete(self.targets(picks, state, has_ended)?, note()),
            Step::Pause(queue) => Call::Pause(QUEUES[*queue].into(), note()),
            Step::Resume(queue) => Call::Resume(QUEUES[*queue].into(), note()),
            Step::Pass(_) => return None,
        })
    }

    /// Remembers the content of `reply`, in the ids of the model.
    pub(super) fn remember(&mut self, call: &Call, reply: &Reply, state: &State) {
        for row in &state.instances {
            if self.instances.last().is_none_or(|last| row.id > *last) {
                self.instances.push(row.id);
            }
        }
        match (call, reply) {
            (_, Reply::Registered(worker)) => self.workers.push(*worker),
            (_, Reply::Inserted(inserts)) => {
                for row in &inserts.rows {
                    if let Inserted::New {
                        id,
                        claimed: Some(revision),
                    } = row
                    {
                        let claim = ClaimRef {
                            id: *id,
                            revision: *revision,
                        };
                        self.claims.push((claim, Vec::new()));
                    }
                }
            }
            (_, Reply::Claimed(claimed)) => {
                claimed.claims.iter().for_each(|it| self.remember_claim(it));
            }
            (_, Reply::Delivered(delivered)) => {
                let claims = delivered.claims.iter();
                claims.for_each(|it| self.remember_claim(it));
            }
            (Call::Commit(commits), Reply::Committed(committed)) => {
                for (commit, answer) in commits.iter().zip(&committed.answers) {
                    if let Answer::Committed {
                        revision,
                        status: Status::Executing,
                        ..
                    } = answer
                    {
                        let claim = ClaimRef {
                            revision: *revision,
                            ..commit.claim
                        };
                        self.claims.push((claim, Vec::new()));
                    }
                }
            }
            _ => {}
        }
    }

    fn remember_claim(&mut self, claim: &Claim) {
        let awaited = claim.awaited().map(|it| it.id).collect();
        self.claims.push((claim.reference(), awaited));
    }

    fn offer(
        &self,
        offer: &steps::ClaimOffer,
        state: &State,
        now: Timestamp,
    ) -> Option<ClaimOffer> {
        let queues = match offer.queue {
            Some(queue) => vec![QUEUES[queue].into()],
            None => QUEUES.map(String::from).into(),
        };
        Some(ClaimOffer {
            worker: self.worker(offer.worker, state, now)?,
            queues,
            machines: steps::machines(offer.machines).into(),
        })
    }

    /// Returns mostly a live worker, and sometimes any that ever existed.
    fn worker(&self, n: Pick, state: &State, now: Timestamp) -> Option<WorkerId> {
        let alive: Vec<WorkerId> = state
            .workers
            .iter()
            .filter(|worker| worker.lease_expires_at > now)
            .map(|worker| worker.id)
            .collect();
        match n % 7 {
            0 => pick(&self.workers, n).copied(),
            _ => pick(&alive, n).copied(),
        }
    }

    /// Returns mostly a live claim, and sometimes a stale one.
    fn claim(&self, n: Pick, state: &State) -> Option<&(ClaimRef, Vec<SignalId>)> {
        let (live, stale): (Vec<_>, Vec<_>) =
            self.claims.iter().partition(|it| is_held(it.0, state));
        match n % 10 {
            0 => pick(&stale, n).copied(),
            _ => pick(&live, n).copied(),
        }
    }

    fn any_instance(&self, n: Pick) -> Option<InstanceId> {
        pick(&self.instances, n).copied()
    }

    /// Returns mostly instances that `wanted` selects, and sometimes any, stored or not.
    ///
    /// Prefers children of joining parents, since several rows must agree in families.
    fn targets(
        &self,
        picks: &[Pick],
        state: &State,
        wanted: fn(&Instance) -> bool,
    ) -> Option<Vec<InstanceId>> {
        let fitting = state.instances.iter().filter(|row| wanted(row));
        let fitting: Vec<&Instance> = fitting.collect();
        let is_child = |row: &&&Instance| parent_joins(row, state);
        let children: Vec<&Instance> = fitting.iter().filter(is_child).copied().collect();
        let targets = picks.iter().map(|n| match n % 4 {
            0 => self.any_instance(*n),
            1 | 2 if !children.is_empty() => pick(&children, *n).map(|row| row.id),
            _ => match pick(&fitting, *n) {
                Some(row) => Some(row.id),
                None => self.any_instance(*n),
            },
        });
        targets.collect()
    }

    /// Returns mostly roots with descendants for a tree, live or finished.
    fn family_targets(&self, picks: &[Pick], tree: bool, state: &State) -> Option<Vec<InstanceId>> {
        let has_fanned_out = |row: &Instance| row.round > 0;
        let mut targets =
            self.targets(picks, state, if tree { has_fanned_out } else { is_live })?;
        if tree {
            // One tree at a time: otherwise whole families finish too fast.
            targets.truncate(1);
        }
        Some(targets)
    }

    fn signals(&self, letters: &[Letter], state: &State) -> Option<Vec<NewSignal>> {
        let waits = |row: &Instance| row.status == Status::AwaitingSignal;
        let address = |letter: &Letter| {
            if let Some((machine, key)) = letter.key {
                return Some(Target::Key {
                    machine: steps::machine(machine).into(),
                    key: steps::correlation_key(key),
                });
            }
            let wanted = match letter.target % 3 {
                0 => is_live,
                1 if state.instances.iter().any(waits_for_anything) => waits_for_anything,
                _ => waits,
            };
            let target = self.targets(&[letter.target], state, wanted)?;
            Some(Target::Id(target[0]))
        };
        let signals = letters.iter().map(|letter| {
            let target = address(letter)?;
            let name = match awaited_name(&target, letter.name, state) {
                Some(name) if letter.target % 4 != 0 => name,
                Some(_) | None => steps::NAMES[letter.name].to_owned(),
            };
            let mut signal = NewSignal::new(target, name, steps::state("sent"));
            signal.dedup_key = letter.dedup.map(steps::dedup_key);
            // Other digits of the target choose the address and the name.
            let asks = !(letter.target / 12).is_multiple_of(4);
            if asks && (letter.target / 48).is_multiple_of(2) {
                let id = || steps::dedup_key(letter.name);
                signal.dedup_key.get_or_insert_with(id);
            }
            signal.wants_reply = asks && signal.dedup_key.is_some();
            Some(signal)
        });
        signals.collect()
    }

    fn releases(&self, claims: &[Pick], pause: u64, state: &State) -> Option<Vec<Release>> {
        let mut releases: Vec<Release> = Vec::new();
        for n in claims {
            let Some((claim, _)) = self.claim(*n, state) else {
                continue;
            };
            releases.push(Release {
                claim: *claim,
                pause: Duration::from_secs(pause),
            });
        }
        (!releases.is_empty()).then_some(releases)
    }

    fn commits(
        &self,
        decisions: &[Decision],
        state: &State,
        now: Timestamp,
    ) -> Option<Vec<Commit>> {
        let mut commits: Vec<Commit> = Vec::new();
        for decision in decisions {
            let Some((claim, awaited)) = self.claim(decision.claim, state) else {
                continue;
            };
            let repeated = commits.iter().any(|it| it.claim == *claim);
            if repeated && !decision.claim.is_multiple_of(7) {
                continue;
            }
            let handed = decision.received.unwrap_or(awaited.len());
            let row = state.instance(claim.id);
            let kind = match row {
                Some(row) => fitting(&decision.kind, decision.claim, row),
                None => decision.kind.clone(),
            };
            let mut outcome = outcome(&kind, claim.id, state, now);
            if !awaited.is_empty() && !decision.claim.is_multiple_of(3) {
                wait_for_the_same(&mut outcome, claim.id, state);
            }
            if let Outcome::Fail { error, .. } = &mut outcome {
                *error = error_value(decision.claim);
            }
            commits.push(Commit {
                claim: *claim,
                received: awaited.iter().copied().take(handed).collect(),
                outcome,
                answers_cancel: answers_cancel(claim.id, decision.claim, state),
                links: links(claim.id, decision.claim, state),
                events: events(decision.events, decision.claim, now),
                position: position(decision.claim, row),
                views: views(decision.events, decision.claim),
                replies: replies(claim.id, decision.claim, state),
            });
        }
        keep_keys_apart(&mut commits, state);
        (!commits.is_empty()).then_some(commits)
    }
}

/// Returns the expected position of the history: the true one, a wrong one, or none.
fn position(choice: usize, row: Option<&Instance>) -> Option<HistoryPosition> {
    let row = row.filter(|_| !choice.is_multiple_of(3))?;
    let wrong = i32::from(choice.is_multiple_of(5));
    Some(HistoryPosition {
        run: row.run,
        events: row.events + wrong,
    })
}

/// Returns the error value of a failure: about every second one has a value.
///
/// The last digit has decided whether the claim is stale.
fn error_value(choice: Pick) -> Option<Json> {
    (choice / 10)
        .is_multiple_of(2)
        .then(|| steps::state("badly"))
}

/// Makes a wait await the same names again, so that signals accumulate.
fn wait_for_the_same(outcome: &mut Outcome, id: InstanceId, state: &State) {
    let awaited = state.instance(id).and_then(|row| row.awaits.as_ref());
    let (Outcome::Wait { names, .. }
    | Outcome::Flow {
        then: Flowing::Park(Park { names, .. }),
        ..
    }) = outcome
    else {
        return;
    };
    if let Some(awaited) = awaited.filter(|it| !it.is_empty() && !names.is_empty()) {
        names.clone_from(awaited);
    }
}

/// Returns one of the names that `target` waits for.
fn awaited_name(target: &Target, n: Pick, state: &State) -> Option<String> {
    match target {
        Target::Id(id) => pick(state.instance(*id)?.awaits.as_ref()?, n).cloned(),
        Target::Key { .. } => None,
    }
}

/// Removes the keys of children that another outcome of the batch may free.
///
/// The contract fixes no order in which such a child would get its key.
fn keep_keys_apart(commits: &mut [Commit], state: &State) {
    let in_batch = commits.iter().filter_map(|it| state.instance(it.claim.id));
    let held: BTreeSet<(String, String)> = in_batch
        .filter(|row| row.holds_key)
        .filter_map(|row| Some((row.machine.clone(), row.correlation_key.clone()?)))
        .collect();
    for commit in commits {
        let (Outcome::FanOut { children, .. } | Outcome::Flow { children, .. }) =
            &mut commit.outcome
        else {
            continue;
        };
        for child in children {
            let key = child.correlation.as_ref().map(|it| it.key.clone());
            if key.is_some_and(|key| held.contains(&(child.machine.clone(), key))) {
                child.correlation = None;
            }
        }
    }
}

fn outcome(kind: &Kind, id: InstanceId, state: &State, now: Timestamp) -> Outcome {
    let next = |step: &str, proceed| Outcome::Next {
        step: step.into(),
        state: steps::state("went on"),
        proceed,
    };
    match kind {
        Kind::Keep => next("ahead", Proceed::KeepClaim),
        Kind::Requeue => next("next", Proceed::Requeue),
        Kind::NamelessStep => next("a\u{0}b", Proceed::Requeue),
        Kind::Retry { delay, error } => Outcome::Retry {
            state: steps::state("tried"),
            delay: Duration::from_secs(*delay),
            error: error.then(|| "did\u{0}not work".into()),
        },
        Kind::Wait { names, timeout } => Outcome::Wait {
            names: steps::names(*names),
            step: "waited".into(),
            state: steps::state("waited"),
            // A wait without names needs a timeout.
            timeout: match names {
                0 => Some(Duration::from_secs(timeout.unwrap_or(5))),
                _ => timeout.map(Duration::from_secs),
            },
        },
        Kind::EndlessSleep => Outcome::Wait {
            names: Vec::new(),
            step: "waited".into(),
            state: steps::state("waited"),
            timeout: None,
        },
        Kind::FanOut(rows, joining) => Outcome::FanOut {
            children: new_instances(rows, now),
            join: joining.join(),
            step: "joined".into(),
            state: steps::state("fanned out"),
        },
        Kind::Flow(flowing) => flow(flowing, id, state, now),
        Kind::EndlessPark => Outcome::Flow {
            children: Vec::new(),
            window: None,
            then: Flowing::Park(Park::default()),
        },
        Kind::Renew => Outcome::ContinueAsNew {
            state: steps::state("anew"),
        },
        Kind::Done => Outcome::Done {
            result: steps::state("well"),
        },
        Kind::Stop => Outcome::fail("badly"),
        Kind::Cancel => Outcome::Cancel {
            reason: "unwanted".into(),
        },
    }
}

fn new_instances(rows: &[Row], now: Timestamp) -> Vec<NewInstance> {
    rows.iter().map(|row| row.new_instance(now)).collect()
}

pub(super) fn new_worker(lease: u64) -> NewWorker {
    NewWorker {
        name: "worker".into(),
        host: "host".into(),
        version: "1.0".into(),
        machines: vec![MachineOffer {
            name: "a".into(),
            version: 1,
            queue: QUEUES[0].into(),
            steps: vec!["start".into(), "next".into()],
        }],
        queues: QUEUES.map(String::from).into(),
        lease: Duration::from_secs(lease),
    }
}

fn pick<T>(from: &[T], n: Pick) -> Option<&T> {
    (!from.is_empty()).then(|| &from[from.len() - 1 - n % from.len()])
}

fn is_held(claim: ClaimRef, state: &State) -> bool {
    state
        .instance(claim.id)
        .is_some_and(|row| row.status == Status::Executing && row.revision == claim.revision)
}

/// Returns the queue, or the other one when only that has claimable rows.
fn queue_with_work(n: usize, state: &State, now: Timestamp) -> &'static str {
    let works = |queue: &&str| {
        let claimable = |row: &Instance| {
            row.status == Status::Runnable
                && row.held != Some(true)
                && row.queue == *queue
                && row.eligible_at <= now
        };
        state.instances.iter().any(claimable)
    };
    let both = [QUEUES[n], QUEUES[1 - n]];
    both.into_iter().find(works).unwrap_or(QUEUES[n])
}

fn parent_joins(row: &Instance, state: &State) -> bool {
    let parent = row.parent.and_then(|it| state.instance(it.id));
    parent.is_some_and(|it| it.status == Status::AwaitingChildren)
}

fn extent(tree: bool) -> Extent {
    match tree {
        true => Extent::Tree,
        false => Extent::One,
    }
}

/// Whether it is a workflow that waits for both children and signals.
fn waits_for_anything(row: &Instance) -> bool {
    let is_workflow = row.joining.is_some() && row.awaits.is_some();
    is_workflow && row.status == Status::AwaitingChildren
}

fn is_live(row: &Instance) -> bool {
    !row.status.is_terminal()
}

fn has_ended(row: &Instance) -> bool {
    row.status.is_terminal()
}

fn is_parked(row: &Instance) -> bool {
    row.status.is_parked()
}

fn ended_badly(row: &Instance) -> bool {
    matches!(row.status, Status::Failed | Status::Cancelled)
}
