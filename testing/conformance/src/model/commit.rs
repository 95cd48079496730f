//! The commit and release verbs: writes outcomes, and returns claims.

use super::Tables;
use super::effects::{Effects, of_join};
use super::tables::{change_status, make_runnable};
use outlast_core::{
    Answer, Barrier, CancelRequest, ClaimRef, Commit, Committed, DroppedChild, Instance,
    InstanceId, Join, Json, NewInstance, Outcome, Parent, Proceed, QueueNames, Release,
    ReleaseAnswer, Released, Result, SignalId, Status, Timestamp, limits,
};
use std::time::Duration;

impl Tables {
    pub(super) fn commit(&mut self, commits: &[Commit], now: Timestamp) -> Result<Committed> {
        Commit::check_batch(commits).map_err(|invalid| invalid.during("commit"))?;
        let mut answers = Commit::foregone(commits);
        let mut effects = Effects::default();
        // Children start, and workflows check theirs, before any other outcome of the batch is
        // written.
        let (first, others): (Vec<_>, Vec<_>) = commits
            .iter()
            .enumerate()
            .filter(|(position, _)| answers[*position].is_none())
            .partition(|(_, commit)| goes_first(&commit.outcome));
        for (position, commit) in first.into_iter().chain(others) {
            answers[position] = Some(self.commit_one(commit.clone(), now, &mut effects));
        }
        let settled = self.settle(effects, now);
        Ok(Committed {
            answers: answers.into_iter().flatten().collect(),
            woken: settled.woken,
            cascades: settled.cascades,
        })
    }

    fn commit_one(&mut self, commit: Commit, now: Timestamp, effects: &mut Effects) -> Answer {
        let Some(row) = self.claimed(commit.claim) else {
            return Answer::Lost;
        };
        if let Some(cancel) = comes_first(row, &commit) {
            return Answer::Cancel(cancel);
        }
        row.revision = row.revision.next();
        row.crashes = 0;
        row.updated_at = now;
        // A retried answer to a cancel is no answer yet.
        let settles = commit.answers_cancel && !matches!(commit.outcome, Outcome::Retry { .. });
        if let Some(cancel) = row.cancel.as_mut().filter(|_| settles) {
            cancel.answered = true;
        }
        self.apply(commit, now, effects)
    }

    fn apply(&mut self, commit: Commit, now: Timestamp, effects: &mut Effects) -> Answer {
        let Commit {
            claim: ClaimRef { id, .. },
            received,
            outcome,
            answers_cancel,
            links: _,
            events,
            position: _,
            views,
            replies,
        } = commit;
        self.append(id, events, now);
        self.publish(id, views, now);
        self.reply(id, replies, now);
        let woken = &mut effects.woken;
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
            } => {
                // With a pending cancel, only the outcome that answers it may be delayed.
                let delay = match self.is_cancel_pending(id) && !answers_cancel {
                    true => Duration::ZERO,
                    false => delay,
                };
                self.try_again(id, state, delay, error, now, woken);
            }
            Outcome::Wait {
                names,
                step,
                state,
                timeout,
            } => self.park(id, &received, (step, state), names, timeout, now, woken),
            Outcome::FanOut {
                children,
                join,
                step,
                state,
            } => self.fan_out(id, &received, (step, state), (children, join), now, effects),
            Outcome::Flow {
                children,
                window,
                then,
            } => self.flow(id, &received, (children, window), then, now, effects),
            Outcome::ContinueAsNew { state } => {
                self.continue_as_new(id, &received, state, now, woken);
            }
            Outcome::Done { result } => {
                self.row(id).result = Some(result);
                self.finish(id, Status::Done, None, now, effects);
            }
            Outcome::Fail { reason, error } => {
                self.row(id).result = error;
                self.finish(id, Status::Failed, Some(reason), now, effects);
            }
            Outcome::Cancel { reason } => {
                self.finish(id, Status::Cancelled, Some(reason), now, effects);
            }
        }
        let latest_signal = self.latest_signals.get(&id).copied();
        let row = self.row(id);
        Answer::Committed {
            revision: row.revision,
            status: row.status,
            cancel: row
                .cancel
                .clone()
                .filter(|cancel| row.status == Status::Executing && !cancel.answered),
            latest_signal: latest_signal.filter(|_| row.status == Status::Executing),
            at: now,
        }
    }

    fn is_cancel_pending(&mut self, id: InstanceId) -> bool {
        let cancel = self.row(id).cancel.as_ref();
        cancel.is_some_and(|cancel| !cancel.answered)
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

    /// Parks, unless a cancel is pending or an unreceived signal matches.
    ///
    /// See docs/protocol.md, defect 11.
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
        let goes_on = unseen || self.is_cancel_pending(id);
        match received.iter().max() {
            Some(last) => self.latest_signals.insert(id, *last),
            None => self.latest_signals.remove(&id),
        };
        let row = self.row(id);
        progress(row, to);
        row.locked_by = None;
        let status = Status::AwaitingSignal.derived(!names.is_empty());
        row.awaits = Some(names);
        row.eligible_at = now;
        if goes_on {
            make_runnable(row, now, woken);
        } else {
            change_status(row, status);
            row.await_deadline = timeout.map(|timeout| now + timeout);
        }
    }

    /// Starts the children of a new round and parks until their join is decided.
    ///
    /// With an unanswered cancel no child starts, but the round counts.
    fn fan_out(
        &mut self,
        id: InstanceId,
        received: &[SignalId],
        to: (String, Json),
        (children, join): (Vec<NewInstance>, Join),
        now: Timestamp,
        effects: &mut Effects,
    ) {
        self.consume(id, received, now);
        let round = self.row(id).round + 1;
        let is_cancelled = self.is_cancel_pending(id);
        let (started, dropped) = match is_cancelled {
            true => (0, Vec::new()),
            false => self.spawn(Parent { id, round }, children, join, now, effects),
        };
        let row = self.row(id);
        progress(row, to);
        row.attempt = 0;
        row.awaits = None;
        row.locked_by = None;
        row.eligible_at = now;
        row.round = round;
        row.joining = None;
        row.children_pending = started;
        row.dropped = dropped;
        row.barrier = Some(Barrier {
            until: join.until,
            window: join.window,
            rest: join.rest,
            started,
            failed: 0,
            first_failure: None,
            joined: match is_cancelled {
                true => None,
                false => join.until.decided(started, started, 0),
            },
        });
        if is_cancelled || row.barrier.is_some_and(|it| it.joined.is_some()) {
            make_runnable(row, now, &mut effects.woken);
            effects.decided.extend(of_join(row));
        } else {
            change_status(row, Status::AwaitingChildren);
            row.await_deadline = join.deadline.map(|deadline| now + deadline);
        }
    }

    /// Inserts the children of a round.
    ///
    /// Returns how many were started, and the children whose key is occupied.
    pub(super) fn spawn(
        &mut self,
        parent: Parent,
        children: Vec<NewInstance>,
        join: Join,
        now: Timestamp,
        effects: &mut Effects,
    ) -> (i32, Vec<DroppedChild>) {
        let (mut started, mut dropped) = (0, Vec::new());
        for (position, child) in (0..).zip(children) {
            let machine = child.machine.clone();
            let key = child.correlation.as_ref().map(|it| it.key.clone());
            match self.add(child, Some(parent), now) {
                Ok(id) => {
                    let row = self.row(id);
                    row.position = i32::try_from(position).ok();
                    row.held = join
                        .window
                        .map(|places| i64::from(started) >= places.into());
                    self.hint(id, now, &mut effects.woken);
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
        effects: &mut Effects,
    ) {
        self.row(id).last_error = reason.as_deref().map(limits::clean_error);
        self.end(id, status, now, effects);
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

    /// Returns the row of `claim` while it is claimed at that revision (I3).
    fn claimed(&mut self, claim: ClaimRef) -> Option<&mut Instance> {
        self.instances
            .get_mut(&claim.id)
            .filter(|row| row.status == Status::Executing && row.revision == claim.revision)
    }

    pub(super) fn row(&mut self, id: InstanceId) -> &mut Instance {
        self.instances
            .get_mut(&id)
            .expect("the fence has found this row in the same verb")
    }
}

/// Moves to another step and resets attempts and errors.
///
/// The revision is already that of this commit.
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

fn goes_first(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::FanOut { .. } | Outcome::Flow { .. })
}

/// Returns the unanswered cancel that stops a workflow from parking and from starting children.
fn comes_first(row: &Instance, commit: &Commit) -> Option<CancelRequest> {
    let is_flow = matches!(commit.outcome, Outcome::Flow { .. });
    let begins = commit.outcome.park().is_some() || commit.outcome.begins_round();
    let cancel = row.cancel.clone()?;
    (is_flow && begins && !cancel.answered && !commit.answers_cancel).then_some(cancel)
}
