//! Cascades: a parent's end, a decided join or an operator acts on the children of an instance.

use super::Tables;
use super::effects::Effects;
use outlast_core::{
    CancelAnswer, CascadeAction, CascadeRequest, Cascaded, ClosePolicy, Instance, InstanceId, Note,
    Result, Status, TerminateAnswer, Timestamp,
};

/// A cascade that is left to run.
#[derive(Clone, Debug)]
pub(crate) struct Cascade {
    pub(crate) parent: InstanceId,
    pub(super) from_round: i32,
    pub(crate) action: CascadeAction,
    /// Whether the cascade also reaches the descendants of the children.
    pub(super) deep: bool,
    pub(super) note: Note,
    /// The position: only children before this (round, id) remain; the latest come first.
    pub(crate) before: (i32, InstanceId),
}

impl Cascade {
    /// Makes a cascade over all present children of `parent`.
    pub(super) fn of_rounds(parent: &Instance, action: CascadeAction, note: Note) -> Cascade {
        Cascade {
            parent: parent.id,
            from_round: 1,
            action,
            deep: false,
            note,
            before: (parent.round, InstanceId(i64::MAX)),
        }
    }

    /// Makes a cascade over all present descendants; `None` when `parent` has never fanned out.
    pub(super) fn of_tree(parent: &Instance, action: CascadeAction, note: Note) -> Option<Cascade> {
        (parent.round > 0).then(|| Cascade {
            deep: true,
            ..Cascade::of_rounds(parent, action, note)
        })
    }

    fn place_of(&self, row: &Instance) -> Option<(i32, InstanceId)> {
        let parent = row.parent.filter(|it| it.id == self.parent)?;
        let place = (parent.round, row.id);
        (parent.round >= self.from_round && place < self.before).then_some(place)
    }
}

impl Tables {
    pub(super) fn add_cascade(&mut self, cascade: Cascade) {
        let id = self.next_id();
        self.cascades.insert(id, cascade);
    }

    /// Whether a cascade of `id` is left to run.
    pub(super) fn is_cascading(&self, id: InstanceId) -> bool {
        self.cascades.values().any(|cascade| cascade.parent == id)
    }

    pub(super) fn cascade(&mut self, request: CascadeRequest, now: Timestamp) -> Result<Cascaded> {
        request
            .check()
            .map_err(|invalid| invalid.during("cascade"))?;
        let Some((key, cascade)) = self.cascades.first_key_value() else {
            return Ok(Cascaded::default());
        };
        let (key, cascade) = (*key, cascade.clone());
        let batch = self.latest_children(&cascade, request.max);
        if batch.len() < request.max {
            self.cascades.remove(&key);
        } else if let (Some(last), Some(row)) = (batch.last(), self.cascades.get_mut(&key)) {
            row.before = *last;
        }

        let mut cascaded = Cascaded::default();
        let mut effects = Effects::default();
        let mut children: Vec<InstanceId> = batch.iter().map(|(_, id)| *id).collect();
        if cascade.deep {
            effects.trees = self.trees_of(&children, &cascade);
        }
        children.sort();
        for id in children {
            self.act_on_child(id, &cascade, now, &mut effects, &mut cascaded);
        }
        cascaded.woken = self.settle(effects, now).woken;
        cascaded.more = !self.cascades.is_empty();
        Ok(cascaded)
    }

    /// Returns the next children of a cascade with their rounds, latest first.
    fn latest_children(&self, cascade: &Cascade, max: usize) -> Vec<(i32, InstanceId)> {
        let rows = self.instances.values();
        let mut places: Vec<_> = rows.filter_map(|row| cascade.place_of(row)).collect();
        places.sort();
        places.reverse();
        places.truncate(max);
        places
    }

    fn trees_of(&self, children: &[InstanceId], cascade: &Cascade) -> Vec<Cascade> {
        let rows = children.iter().filter_map(|id| self.instances.get(id));
        rows.filter_map(|row| Cascade::of_tree(row, cascade.action, cascade.note.clone()))
            .collect()
    }

    fn act_on_child(
        &mut self,
        id: InstanceId,
        cascade: &Cascade,
        now: Timestamp,
        effects: &mut Effects,
        cascaded: &mut Cascaded,
    ) {
        let Some(row) = self.instances.get(&id) else {
            return;
        };
        let ran = row.status == Status::Executing;
        let policy = cascade.action.for_child(row.on_parent_close);
        let cause = Some(cascade.parent);
        let reached = match policy {
            ClosePolicy::Abandon => return,
            ClosePolicy::RequestCancel => {
                match self.cancel_one(id, &cascade.note, cause, now, effects) {
                    CancelAnswer::Requested(_) => &mut cascaded.requested,
                    CancelAnswer::NeverStarted => &mut cascaded.ended,
                    CancelAnswer::AlreadyRequested(_)
                    | CancelAnswer::AlreadyEnded(_)
                    | CancelAnswer::NotFound => return,
                }
            }
            ClosePolicy::Terminate => {
                match self.terminate_one(id, &cascade.note, cause, now, effects) {
                    TerminateAnswer::Terminated(_) => &mut cascaded.ended,
                    TerminateAnswer::AlreadyEnded(_) | TerminateAnswer::NotFound => return,
                }
            }
        };
        reached.push(id);
        if ran {
            cascaded.running.push(id);
        }
    }
}
