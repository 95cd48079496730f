//! Writing outcomes, and giving claims back.

use super::Tables;
use super::tables::{change_status, make_runnable};
use outlast_core::{
    Answer, ClaimRef, Commit, Committed, DroppedChild, Instance, InstanceId, Json, NewInstance,
    Outcome, Parent, Proceed, QueueNames, Release, ReleaseAnswer, Released, Result, SignalId,
    Status, Timestamp, limits,
};
use std::time::Duration;

impl Tables {
    pub(super) fn commit(&mut self, commits: Vec<Commit>, now: Timestamp) -> Result<Committed> {
        Commit::check_batch(&commits).map_err(|invalid| invalid.during("commit"))?;
        let mut answers: Vec<Answer> = vec![Answer::Lost; commits.len()];
        let mut woken = QueueNames::new();
        let (first_mentions, repeats) = first_mentions(commits);
        // Children are started before anything else of the batch is written.
        let (fan_outs, others): (Vec<_>, Vec<_>) = first_mentions
            .into_iter()
            .partition(|(_, commit)| matches!(commit.outcome, Outcome::FanOut { .. }));
        for (position, commit) in fan_outs.into_iter().chain(others).chain(repeats) {
            answers[position] = self.commit_one(commit, now, &mut woken);
        }
        Ok(Committed { answers, woken })
    }

    fn commit_one(&mut self, commit: Commit, now: Timestamp, woken: &mut QueueNames) -> Answer {
        if let Err(invalid) = commit.outcome.check() {
            return Answer::Rejected(invalid);
        }
        let Some(row) = self.claimed(commit.claim) else {
            return Answer::Lost;
        };
        row.revision = row.revision.next();
        row.crashes = 0;
        row.updated_at = now;
        self.apply(commit, now, woken)
    }

    fn apply(&mut self, commit: Commit, now: Timestamp, woken: &mut QueueNames) -> Answer {
        let Commit {
            claim: ClaimRef { id, .. },
            received,
            outcome,
            ties: _,
        } = commit;
        match outcome {
            Outcome::Next {
                step,
                state,
                proceed,
            } => self.go_on(id, &received, (step, state), proceed, now, woken),
            Outcome::Retry {
                state,
                delay,
                error,
            } => self.try_again(id, state, delay, error, now, woken),
            Outcome::Wait {
                names,
                step,
                state,
                timeout,
            } => self.park(id, &received, (step, state), names, timeout, now, woken),
            Outcome::FanOut {
                children,
                step,
                state,
            } => self.fan_out(id, &received, (step, state), children, now, woken),
            Outcome::Done { result } => {
                self.row(id).result = Some(result);
                self.finish(id, Status::Done, None, now, woken);
            }
            Outcome::Stop { reason } => self.finish(id, Status::Failed, Some(reason), now, woken),
            Outcome::Cancel { reason } => {
                self.finish(id, Status::Cancelled, Some(reason), now, woken);
            }
        }
        let row = self.row(id);
        Answer::Committed {
            revision: row.revision,
            status: row.status,
        }
    }

    fn go_on(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        to: (String, Json),
        proceed: Proceed,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        self.consume(id, received, now);
        let row = self.row(id);
        progress(row, to);
        row.attempt = 0;
        row.awaits = None;
        match proceed {
            Proceed::KeepClaim => {}
            Proceed::Requeue => {
                row.locked_by = None;
                make_runnable(row, now, woken);
            }
        }
    }

    fn try_again(
        &mut self,
        id: InstanceId,
        state: Json,
        delay: Duration,
        error: Option<String>,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        let row = self.row(id);
        row.state = state;
        row.attempt += 1;
        row.locked_by = None;
        if let Some(error) = error {
            row.last_error = Some(limits::clean_error(&error));
        }
        change_status(row, Status::Runnable);
        row.eligible_at = now + delay;
        if row.eligible_at <= now {
            woken.insert(row.queue.clone());
        }
    }

    /// Parks, unless a signal is there that the step was not handed (PROTOCOL §3 #11).
    #[allow(clippy::too_many_arguments, reason = "the fields of one outcome")]
    fn park(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        to: (String, Json),
        names: Vec<String>,
        timeout: Option<Duration>,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        let unseen = self
            .inbox(id)
            .any(|signal| names.contains(&signal.name) && !received.contains(&signal.id));
        let row = self.row(id);
        progress(row, to);
        row.locked_by = None;
        row.awaits = Some(names);
        row.eligible_at = now;
        if unseen {
            make_runnable(row, now, woken);
        } else {
            change_status(row, Status::AwaitingSignal);
            row.await_deadline = timeout.map(|timeout| now + timeout);
        }
    }

    /// Starts the children of a new round and parks until they have ended.
    fn fan_out(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        to: (String, Json),
        children: Vec<NewInstance>,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        self.consume(id, received, now);
        let round = self.row(id).round + 1;
        let (started, dropped) = self.spawn(Parent { id, round }, children, now, woken);
        let row = self.row(id);
        progress(row, to);
        row.attempt = 0;
        row.awaits = None;
        row.locked_by = None;
        row.eligible_at = now;
        row.round = round;
        row.children_pending = started;
        row.dropped = dropped;
        if started == 0 {
            make_runnable(row, now, woken);
        } else {
            change_status(row, Status::AwaitingChildren);
        }
    }

    /// How many were started, and which were not because their key is occupied.
    fn spawn(
        &mut self,
        parent: Parent,
        children: Vec<NewInstance>,
        now: Timestamp,
        woken: &mut QueueNames,
    ) -> (i32, Vec<DroppedChild>) {
        let (mut started, mut dropped) = (0, Vec::new());
        for (position, child) in (0..).zip(children) {
            let machine = child.machine.clone();
            let key = child.correlation.as_ref().map(|it| it.key.clone());
            match self.add(child, Some(parent), now) {
                Ok(id) => {
                    self.hint(id, now, woken);
                    started += 1;
                }
                Err(holder) => dropped.push(DroppedChild {
                    position,
                    machine,
                    key: key.unwrap_or_default(),
                    holder: Some(holder),
                }),
            }
        }
        (started, dropped)
    }

    fn finish(
        &mut self,
        id: InstanceId,
        status: Status,
        reason: Option<String>,
        now: Timestamp,
        woken: &mut QueueNames,
    ) {
        self.row(id).last_error = reason.as_deref().map(limits::clean_error);
        self.end(id, status, now, woken);
    }

    pub(super) fn release(&mut self, releases: &[Release], now: Timestamp) -> Result<Released> {
        limits::check_batch("release", releases.len(), limits::BATCH_MAX)
            .map_err(|invalid| invalid.during("release"))?;
        let mut released = Released::default();
        for release in releases {
            let answer = match self.claimed(release.claim) {
                Some(row) => {
                    give_back(row, release.pause, now, &mut released.woken);
                    ReleaseAnswer::Released
                }
                None => ReleaseAnswer::Lost,
            };
            released.answers.push(answer);
        }
        Ok(released)
    }

    /// The row that `claim` names, while it is claimed at that very revision (I3).
    fn claimed(&mut self, claim: ClaimRef) -> Option<&mut Instance> {
        self.instances
            .get_mut(&claim.id)
            .filter(|row| row.status == Status::Executing && row.revision == claim.revision)
    }

    fn row(&mut self, id: InstanceId) -> &mut Instance {
        self.instances
            .get_mut(&id)
            .expect("the fence has found this row in the same verb")
    }
}

/// To another step, with the past forgiven. The revision is already that of this commit.
fn progress(row: &mut Instance, (step, state): (String, Json)) {
    row.step = step;
    row.entered = row.revision;
    row.state = state;
    row.last_error = None;
}

fn give_back(row: &mut Instance, pause: Duration, now: Timestamp, woken: &mut QueueNames) {
    change_status(row, Status::Runnable);
    row.revision = row.revision.next();
    row.locked_by = None;
    row.updated_at = now;
    if !pause.is_zero() {
        row.eligible_at = now + pause;
    }
    if row.eligible_at <= now {
        woken.insert(row.queue.clone());
    }
}

type Positioned = Vec<(usize, Commit)>;

/// The commits with their positions: those that name a claim for the first time with an outcome that can
/// be stored, and the rest.
fn first_mentions(commits: Vec<Commit>) -> (Positioned, Positioned) {
    let mut named = Vec::new();
    commits.into_iter().enumerate().partition(|(_, commit)| {
        let first = commit.outcome.check().is_ok() && !named.contains(&commit.claim);
        if first {
            named.push(commit.claim);
        }
        first
    })
}
