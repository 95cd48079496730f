//! How the calls of the code are registered, and held against the history.

use super::calls::{Ask, Call, Leaf, Member, NewCall, Several, Unit, UnitKind};
use super::{Identity, Runtime, describe_call};
use crate::workflow::events::{
    self, CallKind, Outline, Place, Scheduled, Waiting, data, is_digest_of,
};
use crate::workflow::group::Spread;
use outlast_core::{EventKind, Invalid, NewEvent};
use smallvec::SmallVec;
use std::fmt;

impl Runtime {
    /// Registers what the code waits for from now on. `None` when the run is to end and this is not shielded from that.
    pub(in crate::workflow) fn register(
        &mut self,
        kind: UnitKind,
        spread: Spread,
    ) -> Option<usize> {
        if self.is_cancelled_here() {
            return None;
        }
        let unit = self.units.len();
        let groups = match kind {
            UnitKind::Single | UnitKind::Launch => Vec::new(),
            UnitKind::Group => self.register_groups(unit, CallKind::Group, spread.groups),
            UnitKind::Selection => self.register_groups(unit, CallKind::Selection, spread.groups),
        };
        let size = spread.leaves.len();
        let mut leaves = SmallVec::with_capacity(size);
        for (index, leaf) in spread.leaves.into_iter().enumerate() {
            leaves.push(match leaf {
                Leaf::New(call) => {
                    let place = (!groups.is_empty()).then(|| Place {
                        path: call.groups.iter().map(|&group| groups[group]).collect(),
                        size,
                        index,
                        select: kind == UnitKind::Selection,
                        member: Some(member_of(&spread.members, index)),
                    });
                    self.register_call(unit, kind, call, place.map(Box::new))
                }
                Leaf::Again(call) => {
                    if let Some(link) = self.call_mut(call).link_mut() {
                        link.joins.push((unit as u32, index));
                    }
                    call
                }
            });
        }
        let ends = leaves.iter().filter_map(|leaf| {
            let end = self.call(*leaf).end.as_ref()?;
            Some((end.event, *leaf, end.answer.is_bad()))
        });
        let bad = ends.clone().filter(|(.., is_bad)| *is_bad).min();
        #[cfg(outlast_mutants)]
        let bad = match outlast_core::mutant::is("joined-failure-is-the-last") {
            true => ends.clone().filter(|(.., is_bad)| *is_bad).max(),
            false => bad,
        };
        let several = groups.first().map(|&call| Several {
            call,
            members: spread.members,
            standing: Vec::new(),
            window: spread.window,
            cancelled: spread.cancelled,
            groups: groups.len(),
            resolved: None,
        });
        let mut it = Unit {
            kind,
            first_bad: bad.map(|(_, leaf, _)| leaf),
            open: (size - ends.count()) as u32,
            leaves,
            several: several.map(Box::new),
        };
        self.hold_outline_against_history(&it);
        if kind == UnitKind::Selection {
            let standing = it.members().map(|leaves| self.standing(leaves)).collect();
            if let Some(several) = &mut it.several {
                several.standing = standing;
            }
        }
        self.units.push(it);
        Some(unit)
    }

    /// How a member of a selection stands: children that were started before may have ended.
    fn standing(&self, leaves: &[i32]) -> Member {
        let ends = leaves.iter().filter_map(|leaf| {
            let end = self.call(*leaf).end.as_ref()?;
            Some((end.event, end.answer.is_bad().then_some(*leaf)))
        });
        let bad = ends.clone().filter(|(_, bad)| bad.is_some()).min();
        let open = leaves.len() - ends.clone().count();
        let last = ends.map(|(event, _)| event).max().unwrap_or(0);
        let well = (open == 0).then_some((last, None));
        Member {
            open: open as u32,
            decided: bad.or(well),
        }
    }

    fn register_groups(&mut self, unit: usize, outermost: CallKind, groups: usize) -> Vec<i32> {
        let kinds = std::iter::once(outermost).chain(std::iter::repeat(CallKind::Group));
        let mut calls = Vec::new();
        for kind in kinds.take(groups.max(1)) {
            let group = NewCall {
                kind,
                name: String::new(),
                ask: Ask::Nothing,
                groups: Vec::new(),
            };
            calls.push(self.register_call(unit, UnitKind::Group, group, None));
        }
        calls
    }

    fn register_call(
        &mut self,
        unit: usize,
        kind: UnitKind,
        leaf: NewCall,
        place: Option<Box<Place>>,
    ) -> i32 {
        let call = i32::try_from(self.calls.len() + 1).unwrap_or(i32::MAX);
        self.hold_against_history(call, &leaf, Setting::of(kind, place.as_deref()));
        self.calls.push(Call {
            kind: leaf.kind,
            is_recorded: false,
            unit: unit as u32,
            name: leaf.name,
            ask: leaf.ask,
            place,
            due: None,
            end: None,
        });
        call
    }

    /// Whether the code asks for what it asked for when the history was made.
    fn hold_against_history(&mut self, call: i32, leaf: &NewCall, setting: Setting<'_>) {
        // Most groups have no event before they are resolved, and what the code went on without may have none at all.
        let Some(&first) = self.first_of.get(&call) else {
            return;
        };
        let Some(event) = self.history.get(first) else {
            return;
        };
        let found = describe_call(call, leaf.kind, &leaf.name);
        // What could not be sent to a child is recorded as any other work that has failed.
        let is_unsent = leaf.kind == CallKind::Tell && event.kind == EventKind::StepFailed;
        let fits = (CallKind::of(event.kind) == Some(leaf.kind) || is_unsent)
            && (event.name == leaf.name || leaf.kind == CallKind::Group);
        if !fits {
            let expected = self.describe_event(first);
            self.block(expected, found);
            return;
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("open-groups-are-not-compared") {
            return;
        }
        // An event that cannot be read blocks where it is told.
        let Ok(recorded) = Recorded::of(event) else {
            return;
        };
        if let Some(recorded) = recorded.setting()
            && !setting.fits(recorded)
            && !self.was_changed_before(first, setting, recorded)
        {
            let expected = format!("{}, {recorded}", self.describe_event(first));
            self.block(expected, format!("{found}, {setting}"));
            return;
        }
        self.hold_input_against_history(first, call, leaf, &recorded);
    }

    /// Whether a build from before groups were compared has let a group grow: then it has events of both sizes.
    fn was_changed_before(&self, first: usize, found: Setting<'_>, recorded: Setting<'_>) -> bool {
        let (Setting::In(place), Setting::In(recorded)) = (found, recorded) else {
            return false;
        };
        let has_same_place = (&place.path, place.index) == (&recorded.path, recorded.index);
        if !has_same_place || place.is_beside(recorded) {
            return false;
        }
        let mut later = (first..).map_while(|index| self.history.get(index));
        later.any(|event| {
            let recorded = Recorded::of(event);
            let recorded = recorded.as_ref().ok().and_then(Recorded::setting);
            matches!(recorded, Some(Setting::In(recorded)) if place.is_beside(recorded))
        })
    }

    /// Whether a group that the history has as one consists of what it consisted of.
    fn hold_outline_against_history(&mut self, unit: &Unit) {
        let Some(group) = unit.several.as_ref().map(|several| several.call) else {
            return;
        };
        let Some(&first) = self.first_of.get(&group) else {
            return;
        };
        let recorded = self.history.get(first).filter(|event| {
            let kind = event.kind;
            matches!(kind, EventKind::GroupAwaited | EventKind::SelectionAwaited)
        });
        let Some(Ok(recorded)) = recorded.map(data::<Outline>) else {
            return;
        };
        let outline = unit.outline();
        if outline != recorded {
            let expected = format!("{}, {recorded}", self.describe_event(first));
            let found = describe_call(group, self.call(group).kind, "");
            self.block(expected, format!("{found} {outline}"));
        }
    }

    /// What a call is given is compared too: a difference means that the code goes by something that is not in the history.
    ///
    /// A process is one build with one set of settings, so that a difference to what it has given before is a fault of the
    /// code, and blocks. Another process may have another form of a type, or another patience; what is recorded stands, and was
    /// carried out, so that it is told and no more. There would be no build either that can come to what a clock once said.
    fn hold_input_against_history(
        &mut self,
        first: usize,
        call: i32,
        leaf: &NewCall,
        recorded: &Recorded,
    ) {
        let (differs, process) = match (&leaf.ask, recorded) {
            (Ask::Child(child), Recorded::Child(recorded)) => (
                !is_digest_of(&recorded.input, &child.row.state),
                recorded.process,
            ),
            (Ask::Timer(after), Recorded::Waiting(recorded)) => (
                recorded
                    .after_us
                    .is_some_and(|us| us != outlast_core::micros(*after)),
                recorded.process,
            ),
            _ => return,
        };
        if !differs {
            return;
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("inputs-are-not-compared") {
            return;
        }
        let expected = format!("{} as it was given then", self.describe_event(first));
        let found = format!(
            "{} given something else; does the code before it read a clock, chance or the world? use flow.now(), \
             flow.random(), flow.uuid() or flow.step",
            describe_call(call, leaf.kind, &leaf.name)
        );
        if self.strict || process == Some(events::process()) {
            self.block(expected, found);
        } else if !std::mem::replace(&mut self.has_told_difference, true) {
            let Identity { id, workflow, .. } = &self.identity;
            tracing::warn!(instance = %id, workflow, "the history has {expected}; the code has {found}");
        }
    }
}

/// The member of a selection that a leaf belongs to, by where the leaves of each begin. A group is one member.
fn member_of(begins: &[usize], index: usize) -> usize {
    begins
        .partition_point(|begin| *begin <= index)
        .saturating_sub(1)
}

/// What the first event of a call says of it.
enum Recorded {
    Child(Box<Scheduled>),
    Waiting(Waiting),
    /// It came to its answer at once, or is a group.
    Other,
}

impl Recorded {
    fn of(event: &NewEvent) -> Result<Recorded, Invalid> {
        match event.kind {
            EventKind::ActivityScheduled | EventKind::ChildScheduled => {
                data(event).map(Recorded::Child)
            }
            EventKind::StepScheduled | EventKind::TimerScheduled | EventKind::SignalAwaited => {
                data(event).map(Recorded::Waiting)
            }
            EventKind::RunStarted
            | EventKind::StepCompleted
            | EventKind::StepFailed
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled
            | EventKind::ChildStarted
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated
            | EventKind::ChildTold
            | EventKind::GroupAwaited
            | EventKind::GroupResolved
            | EventKind::SelectionAwaited
            | EventKind::SelectionResolved
            | EventKind::TimerFired
            | EventKind::TimerCancelled
            | EventKind::SignalConsumed
            | EventKind::VersionMarked
            | EventKind::CancelRequested
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::Transitioned => Ok(Recorded::Other),
        }
    }

    /// Where the call stands; `None` where that was not recorded.
    fn setting(&self) -> Option<Setting<'_>> {
        let (group, launched) = match self {
            Recorded::Child(it) => (it.group.as_ref(), it.launched),
            Recorded::Waiting(it) => (it.group.as_ref(), None),
            Recorded::Other => return None,
        };
        Some(match (group, launched) {
            (Some(place), _) => Setting::In(place),
            (None, Some(true)) => Setting::Launched,
            (None, Some(false)) => Setting::Awaited,
            (None, None) => Setting::Alone,
        })
    }
}

/// How a call is made.
#[derive(Clone, Copy)]
enum Setting<'a> {
    /// In a group or a selection.
    In(&'a Place),
    /// In none. Of a child it is not known whether it was awaited.
    Alone,
    /// In none, and awaited.
    Awaited,
    /// In none, and not awaited either.
    Launched,
}

impl Setting<'_> {
    fn of(kind: UnitKind, place: Option<&Place>) -> Setting<'_> {
        match (place, kind) {
            (Some(place), _) => Setting::In(place),
            (None, UnitKind::Launch) => Setting::Launched,
            (None, UnitKind::Single | UnitKind::Group | UnitKind::Selection) => Setting::Awaited,
        }
    }

    /// Whether the code makes the call as the history has it.
    fn fits(self, recorded: Setting<'_>) -> bool {
        match (self, recorded) {
            (Setting::In(place), Setting::In(recorded)) => place.fits(recorded),
            (Setting::In(_), _) | (_, Setting::In(_)) => false,
            (Setting::Launched, Setting::Awaited) | (Setting::Awaited, Setting::Launched) => false,
            (Setting::Alone | Setting::Awaited | Setting::Launched, _) => true,
        }
    }
}

impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::In(place) => place.fmt(f),
            Setting::Alone => f.write_str("in no group"),
            Setting::Awaited => f.write_str("awaited alone"),
            Setting::Launched => f.write_str("started without being awaited"),
        }
    }
}
