//! The repair of instances that nothing would ever wake, and the search for them.

use super::Tables;
use super::effects::{Effects, decide, ended_badly};
use super::operate::check_request;
use super::tables::make_runnable;
use outlast_core::{
    Instance, InstanceId, JoinProgress, Joined, NeedingRepair, Note, RepairAnswer, RepairNeed,
    RepairScope, Repaired, Result, Status, Timestamp, Verb,
};
use std::collections::BTreeMap;
use std::ops::Bound;

impl Tables {
    pub(super) fn needing_repair(&self, scope: &RepairScope) -> Result<NeedingRepair> {
        scope
            .check()
            .map_err(|invalid| invalid.during("needing_repair"))?;
        let (mut ids, mut next) = (Vec::new(), None);
        match scope {
            RepairScope::Page { after, max } => {
                let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                let rows = self.instances.range((start, Bound::Unbounded));
                ids.extend(rows.map(|(id, _)| *id).take(*max));
                next = ids.last().copied().filter(|_| ids.len() == *max);
            }
            RepairScope::Ids(named) => {
                ids.extend(named);
                ids.sort_unstable();
                ids.dedup();
            }
        }
        let found = ids.into_iter().filter_map(|id| Some((id, self.need(id)?)));
        Ok(NeedingRepair {
            found: found.collect(),
            next,
        })
    }

    pub(super) fn repair(
        &mut self,
        ids: &[InstanceId],
        note: &Note,
        now: Timestamp,
    ) -> Result<Repaired> {
        check_request("repair", ids, note)?;
        let judged: BTreeMap<InstanceId, RepairAnswer> = ids
            .iter()
            .map(|id| match (self.instances.get(id), self.need(*id)) {
                (None, _) => (*id, RepairAnswer::NotFound),
                (Some(_), Some(need)) => (*id, RepairAnswer::Repaired(need)),
                (Some(row), None) => (*id, RepairAnswer::NotNeeded(row.status)),
            })
            .collect();
        let mut effects = Effects::default();
        for (id, answer) in &judged {
            if let RepairAnswer::Repaired(need) = answer {
                let before = self.row(*id).status;
                self.repair_one(*id, *need, now, &mut effects);
                self.record(Verb::Repair, *id, before, &need.note(note), None, now);
            }
        }
        let settled = self.settle(effects, now);
        Ok(Repaired {
            answers: ids.iter().map(|id| judged[id]).collect(),
            woken: settled.woken,
            cascades: settled.cascades,
        })
    }

    /// Returns what is wrong with an instance; `None` when something will wake it.
    fn need(&self, id: InstanceId) -> Option<RepairNeed> {
        let row = self.instances.get(&id)?;
        let is_flow = row.joining.is_some();
        match row.status {
            Status::AwaitingSignal | Status::Sleeping if self.has_unseen_signal(row) => {
                Some(RepairNeed::SignalArrived)
            }
            Status::AwaitingSignal | Status::Sleeping => {
                let awaits = row.awaits.as_ref().is_some_and(|names| !names.is_empty());
                let is_lost = !awaits && row.await_deadline.is_none();
                is_lost.then_some(RepairNeed::NothingAwaited)
            }
            Status::AwaitingChildren if is_flow && self.has_unseen_signal(row) => {
                Some(RepairNeed::SignalArrived)
            }
            Status::AwaitingChildren if is_flow => {
                let is_lost = self.has_unseen_end(row);
                is_lost.then_some(RepairNeed::ChildrenFinished)
            }
            Status::AwaitingChildren => {
                let (pending, failed) = self.counts(row);
                let barrier = row.barrier?;
                let fits = (row.children_pending, barrier.failed) == (pending, failed);
                let decided = barrier.until.decided(barrier.started, pending, failed);
                (!fits || decided.is_some()).then_some(RepairNeed::ChildrenMiscounted)
            }
            Status::Runnable if row.held == Some(true) => {
                let is_lost = self.gets_next_place(row);
                is_lost.then_some(RepairNeed::PlaceIsFree)
            }
            Status::Runnable
            | Status::Executing
            | Status::Done
            | Status::Failed
            | Status::Cancelled => None,
        }
    }

    /// Whether an awaited signal came after the park. A wait may keep earlier ones.
    fn has_unseen_signal(&self, row: &Instance) -> bool {
        let seen = self.latest_signals.get(&row.id).copied();
        let names = row.awaits.iter().flatten();
        let awaited: Vec<&String> = names.collect();
        self.inbox(row.id)
            .any(|signal| awaited.contains(&&signal.name) && Some(signal.id) > seen)
    }

    /// Whether a child of a workflow has ended without waking it.
    fn has_unseen_end(&self, row: &Instance) -> bool {
        let sets = row.joining.as_deref().unwrap_or_default();
        let barrier = row.barrier.as_ref();
        let is_decided = barrier.is_some_and(|it| it.joined.is_some() || it.failed > 0);
        let counts_too_few = |set: &JoinProgress| {
            let started = barrier.map_or(0, |it| it.started);
            let ended = self.in_set(row, set).filter(|it| has_ended_since(it, row));
            sets.len() == 1 && ended.count() as i64 > i64::from((started - set.left).max(0))
        };
        let is_unseen = |set: &JoinProgress| {
            let is_alive = |it: &Instance| !it.status.is_terminal();
            let is_bad = |it: &Instance| has_ended_since(it, row) && ended_badly(it);
            set.left <= 0
                || !self.in_set(row, set).any(is_alive)
                || self.in_set(row, set).any(is_bad)
                || counts_too_few(set)
        };
        is_decided || sets.is_empty() || sets.iter().any(is_unseen)
    }

    fn in_set<'a>(
        &'a self,
        row: &'a Instance,
        set: &'a JoinProgress,
    ) -> impl Iterator<Item = &'a Instance> {
        let children = self.instances.values();
        children.filter(move |child| {
            let place = child.parent.filter(|it| it.id == row.id);
            let place = place.map(|it| it.round).zip(child.position);
            place.is_some_and(|(round, position)| set.has(round, position))
        })
    }

    /// Counts the live children of a machine's round, and those that ended badly.
    fn counts(&self, row: &Instance) -> (i32, i32) {
        let count = |wanted: fn(Status) -> bool| {
            let children = self.children_of(row.id, Some(row.round));
            let wanted = children.filter(|child| wanted(child.status)).count();
            i32::try_from(wanted).unwrap_or(i32::MAX)
        };
        let live = count(|status| !status.is_terminal());
        let failed = count(|status| matches!(status, Status::Failed | Status::Cancelled));
        (live, failed)
    }

    /// Whether no child runs in the window of a held child, and it is the first to get a place.
    fn gets_next_place(&self, row: &Instance) -> bool {
        let siblings = || {
            let rows = self.instances.values();
            rows.filter(|it| it.parent == row.parent && !it.status.is_terminal())
        };
        let first = siblings().find(|it| it.held == Some(true));
        first.is_some_and(|it| it.id == row.id) && !siblings().any(|it| it.held == Some(false))
    }

    fn repair_one(
        &mut self,
        id: InstanceId,
        need: RepairNeed,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        let (pending, failed) = match self.instances.get(&id) {
            Some(row) => self.counts(row),
            None => return,
        };
        let row = self.row(id);
        match need {
            RepairNeed::SignalArrived | RepairNeed::NothingAwaited => {
                make_runnable(row, now, &mut effects.woken);
            }
            RepairNeed::ChildrenFinished => {
                if let Some(barrier) = row.barrier.as_mut() {
                    barrier.joined = Some(Joined::All);
                }
                make_runnable(row, now, &mut effects.woken);
            }
            RepairNeed::ChildrenMiscounted => {
                row.children_pending = pending;
                if let Some(barrier) = row.barrier.as_mut() {
                    barrier.failed = failed;
                }
                row.updated_at = now;
                effects.decided.extend(decide(row, now, &mut effects.woken));
            }
            RepairNeed::PlaceIsFree => {
                row.held = Some(false);
                row.updated_at = now;
                self.hint(id, now, &mut effects.woken);
            }
            // The model sets nothing aside.
            RepairNeed::KeyIsFree => {}
        }
    }
}

/// Whether a child has ended after its parent parked: `eligible_at` is the moment of the park.
fn has_ended_since(child: &Instance, parent: &Instance) -> bool {
    child.finished_at > Some(parent.eligible_at)
}
