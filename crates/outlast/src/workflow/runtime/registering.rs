//! How the calls of the code are registered, and held against the history.

use super::calls::{Ask, Call, Leaf, Member, NewCall, Several, Unit, UnitKind};
use super::{Identity, Runtime, describe_call};
use crate::workflow::events::{self, CallKind, Place, Scheduled, Waiting, data, is_digest_of};
use crate::workflow::group::Spread;
use outlast_core::EventKind;
use smallvec::SmallVec;

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
                    });
                    self.register_call(unit, call, place.map(Box::new))
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
            cancel_rest: spread.cancel_rest,
            resolved: None,
        });
        let mut it = Unit {
            kind,
            first_bad: bad.map(|(_, leaf, _)| leaf),
            open: (size - ends.count()) as u32,
            leaves,
            several: several.map(Box::new),
        };
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
            calls.push(self.register_call(unit, group, None));
        }
        calls
    }

    fn register_call(&mut self, unit: usize, leaf: NewCall, place: Option<Box<Place>>) -> i32 {
        let call = i32::try_from(self.calls.len() + 1).unwrap_or(i32::MAX);
        self.hold_against_history(call, &leaf);
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
    fn hold_against_history(&mut self, call: i32, leaf: &NewCall) {
        // A group has no event before it is resolved, and what the code went on without may have none at all.
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
        } else {
            self.hold_input_against_history(first, call, leaf);
        }
    }

    /// What a call is given is compared too: a difference means that the code goes by something that is not in the history.
    ///
    /// A process is one build with one set of settings, so that a difference to what it has given before is a fault of the
    /// code, and blocks. Another process may have another form of a type, or another patience; what is recorded stands, and was
    /// carried out, so that it is told and no more. There would be no build either that can come to what a clock once said.
    fn hold_input_against_history(&mut self, first: usize, call: i32, leaf: &NewCall) {
        let Some(event) = self.history.get(first) else {
            return;
        };
        let (differs, process) = match &leaf.ask {
            Ask::Child(child) => match data::<Scheduled>(event) {
                Ok(recorded) => (
                    !is_digest_of(&recorded.input, &child.row.state),
                    recorded.process,
                ),
                Err(_) => return,
            },
            Ask::Timer(after) => match data::<Waiting>(event) {
                Ok(recorded) => (
                    recorded
                        .after_us
                        .is_some_and(|us| us != outlast_core::micros(*after)),
                    recorded.process,
                ),
                Err(_) => return,
            },
            Ask::Work | Ask::Signal | Ask::Nothing => return,
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
