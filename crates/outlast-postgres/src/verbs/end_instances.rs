//! Cancelling and terminating locked instances: shared by operators' verbs and by cascades.
//!
//! The caller has locked the instances in an exchange of its own: each decision here rests on a
//! state that no other transaction can change. The statements take further locks in the order of a
//! commit.

use crate::decode::{close_policy, column, instance_id, status};
use crate::error::Failure;
use crate::session::statement::{self, Call, ids_of, references, value};
use crate::verbs::effects::{Effects, admitting, clearing, closing, joining, letting_through};
use outlast_core::{ClaimRef, ClosePolicy, InstanceId, Note, Result, Revision, Status, Verb};
use tokio_postgres::Row;

/// An instance as it was when it was locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockedInstance {
    pub(crate) claim: ClaimRef,
    pub(crate) status: Status,
    pub(crate) round: i32,
    /// Its slot in a window, if it has a window: `true` while it waits for the slot, then `false`.
    held: Option<bool>,
    pub(crate) policy: ClosePolicy,
    /// Whether a cancel was requested before, answered or not.
    cancel_requested: bool,
}

impl LockedInstance {
    /// Reads a row of operate/lock.sql or cascade/lock.sql.
    pub(crate) fn read(row: &Row) -> Result<LockedInstance, Failure> {
        Ok(LockedInstance {
            claim: ClaimRef {
                id: instance_id(row)?,
                revision: column(row, "revision").map(Revision)?,
            },
            status: status(row, "status")?,
            round: column(row, "round")?,
            held: column(row, "held")?,
            policy: close_policy(row, "on_parent_close")?,
            cancel_requested: column(row, "is_asked")?,
        })
    }

    pub(crate) fn id(&self) -> InstanceId {
        self.claim.id
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        self.cancel_requested
    }
}

/// The locked instances to cancel and to terminate, all with one note.
pub(crate) struct EndPlan<'a> {
    note: &'a Note,
    /// The parent that caused this, in a cascade.
    cause: Option<InstanceId>,
    /// Instances that get a cancel request. They end by their own outcome.
    pub(crate) requested: Vec<LockedInstance>,
    /// Instances that a cancel ends at once, because they wait for a slot in a window.
    pub(crate) never_started: Vec<LockedInstance>,
    /// Instances that end now, running or not.
    pub(crate) terminated: Vec<LockedInstance>,
}

impl<'a> EndPlan<'a> {
    pub(crate) fn new(note: &'a Note, cause: Option<InstanceId>) -> EndPlan<'a> {
        EndPlan {
            note,
            cause,
            requested: Vec::new(),
            never_started: Vec::new(),
            terminated: Vec::new(),
        }
    }

    /// Requests a cancel, unless the instance has finished or a cancel was requested before.
    ///
    /// Terminates an instance that waits for a slot in a window. Nothing of it has run, so there
    /// is nothing to clean up.
    pub(crate) fn cancel(&mut self, found: &LockedInstance) {
        match found {
            LockedInstance { status, .. } if status.is_terminal() => {}
            LockedInstance {
                held: Some(true), ..
            } => self.never_started.push(*found),
            LockedInstance {
                cancel_requested: true,
                ..
            } => {}
            LockedInstance { .. } => self.requested.push(*found),
        }
    }

    /// Terminates the instance, unless it has finished.
    pub(crate) fn terminate(&mut self, found: &LockedInstance) {
        if !found.status.is_terminal() {
            self.terminated.push(*found);
        }
    }

    /// Returns the statements in the order of their locks.
    ///
    /// The order is: own rows, which are locked already; rows that enter a window; parents; the
    /// next rows of partition keys. Own rows end before parents are counted: a parent that ends
    /// together with its child no longer waits for it. Cascades come from own rows, the `tree` and
    /// the parents, in this order.
    pub(crate) fn calls(&self, tree: Option<Call<'a>>) -> Vec<Call<'a>> {
        let mut calls = Vec::new();
        let changes = [
            (
                statement::OPERATE_CANCEL,
                &self.requested,
                self.note.cancellation(),
            ),
            (
                statement::OPERATE_TERMINATE,
                &self.never_started,
                self.note.cancellation(),
            ),
            (
                statement::OPERATE_TERMINATE,
                &self.terminated,
                self.note.termination(),
            ),
        ];
        for (statement, changed, why) in changes {
            if !changed.is_empty() {
                let [ids, revisions] = references(&claims(changed));
                calls.push(statement.with([ids, revisions, value(why)]));
            }
        }
        calls.extend(self.after_the_ends(tree));
        // One record for each instance that changed, in the transaction that changed it (I4).
        let cancelled = [&self.requested[..], &self.never_started[..]].concat();
        calls.extend(self.recording(Verb::Cancel, cancelled));
        calls.extend(self.recording(Verb::Terminate, self.terminated.clone()));
        calls
    }

    /// Returns the effects of the ends, as after a commit. A cancel request has none of them.
    fn after_the_ends(&self, tree: Option<Call<'a>>) -> Vec<Call<'a>> {
        let ended = claims(&[&self.never_started[..], &self.terminated[..]].concat());
        if ended.is_empty() {
            return tree.into_iter().collect();
        }
        let mut calls = vec![clearing(&ended)];
        // An instance that never started has no children, no slot, and stands in no line.
        let parents = self.terminated_where(|found| found.round > 0);
        if !parents.is_empty() {
            calls.push(closing(&parents));
        }
        calls.extend(tree);
        let placed = self.terminated_where(|found| found.held == Some(false));
        if !placed.is_empty() {
            calls.push(admitting(&placed));
        }
        calls.push(joining(&ended));
        // Also for rows that did not run: the line may have been handed to one of them.
        let in_line = self.terminated_where(|found| found.held != Some(true));
        if !in_line.is_empty() {
            calls.push(letting_through(&in_line));
        }
        calls
    }

    fn terminated_where(&self, condition: impl Fn(&LockedInstance) -> bool) -> Vec<ClaimRef> {
        let found = self.terminated.iter().filter(|found| condition(found));
        found.map(|found| found.claim).collect()
    }

    fn recording(&self, verb: Verb, mut changed: Vec<LockedInstance>) -> Option<Call<'a>> {
        changed.sort_by_key(LockedInstance::id);
        (!changed.is_empty()).then(|| recording(verb, self.note, &changed, self.cause))
    }

    /// Reads the answers of [`calls`](EndPlan::calls).
    pub(crate) fn effects(calls: &[Call<'_>], answers: &[Vec<Row>]) -> Result<Effects, Failure> {
        let mut effects = Effects::default();
        for (call, rows) in calls.iter().zip(answers) {
            effects.add(call.statement, rows)?;
        }
        Ok(effects)
    }
}

/// Returns the instances as claims, whose revisions are the fence of the writes.
pub(crate) fn claims(found: &[LockedInstance]) -> Vec<ClaimRef> {
    found.iter().map(|found| found.claim).collect()
}

/// Records what was done to each instance, and its status before.
///
/// The statuses come from the lock: the rows have been written by now.
pub(crate) fn recording<'a>(
    verb: Verb,
    note: &'a Note,
    changed: &[LockedInstance],
    cause: Option<InstanceId>,
) -> Call<'a> {
    let statuses = changed.iter().map(|found| found.status.as_str());
    statement::OPERATE_RECORD.with([
        value(verb.as_str()),
        value(note.by.as_str()),
        value(note.clean_reason()),
        value(ids_of(&claims(changed))),
        value(statuses.collect::<Vec<_>>()),
        value(cause.map(|id| id.0)),
    ])
}

/// Leaves a cascade to all descendants of each of these instances that has fanned out.
///
/// It covers the rounds until now. Children that a machine starts in answer to a cancel are in a
/// later round, and are left alone (I13).
pub(crate) fn leaving<'a>(
    action: &'static str,
    note: &'a Note,
    found: impl Iterator<Item = &'a LockedInstance>,
) -> Option<Call<'a>> {
    let (mut ids, mut rounds) = (Vec::new(), Vec::new());
    for parent in found.filter(|found| found.round > 0) {
        ids.push(parent.id().0);
        rounds.push(parent.round);
    }
    (!ids.is_empty()).then(|| {
        statement::CASCADE_LEAVE.with([
            value(action),
            value(note.by.as_str()),
            value(note.clean_reason()),
            value(ids),
            value(rounds),
        ])
    })
}
