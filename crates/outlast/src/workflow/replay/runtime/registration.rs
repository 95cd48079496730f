//! Registers the calls of the code. [`comparison`](super::comparison) compares them with the
//! history afterwards.

use super::Runtime;
use super::calls::{
    Ask, AwaitedCalls, Combinator, IssuedCall, NewCall, SelectionMember, WaitCall, WaitKind,
};
use crate::workflow::group::WaitPlan;
use crate::workflow::replay::events::{CallKind, GroupPosition};
use smallvec::SmallVec;

impl Runtime {
    /// Registers the calls that the code waits for from now on.
    ///
    /// Returns `None` when the run is cancelled and this wait is not uncancellable.
    pub(in crate::workflow) fn register(
        &mut self,
        kind: WaitKind,
        spread: WaitPlan,
    ) -> Option<usize> {
        if self.is_cancelled_here() {
            return None;
        }
        let wait = self.waits.len();
        let groups = match kind {
            WaitKind::Single | WaitKind::Launch => Vec::new(),
            WaitKind::Group => self.register_groups(wait, CallKind::Group, spread.groups),
            WaitKind::Selection => self.register_groups(wait, CallKind::Selection, spread.groups),
        };
        let size = spread.leaves.len();
        let mut leaves = SmallVec::with_capacity(size);
        for (index, leaf) in spread.leaves.into_iter().enumerate() {
            leaves.push(match leaf {
                WaitCall::New(call) => {
                    let place = (!groups.is_empty()).then(|| GroupPosition {
                        path: call.groups.iter().map(|&group| groups[group]).collect(),
                        size,
                        index,
                        select: kind == WaitKind::Selection,
                        member: Some(member_of(&spread.members, index)),
                    });
                    self.register_call(wait, call, place.map(Box::new))
                }
                WaitCall::Again(call) => {
                    if let Some(link) = self.call_mut(call).link_mut() {
                        link.joins.push((wait as u32, index));
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
        let combinator = groups.first().map(|&call| Combinator {
            call,
            members: spread.members,
            progress: Vec::new(),
            window: spread.window,
            cancelled: spread.cancelled,
            groups: groups.len(),
            resolved: None,
        });
        let mut it = AwaitedCalls {
            kind,
            first_bad: bad.map(|(_, leaf, _)| leaf),
            open: (size - ends.count()) as u32,
            leaves,
            combinator: combinator.map(Box::new),
        };
        if kind == WaitKind::Selection {
            let progress = it
                .members()
                .map(|leaves| self.member_progress(leaves))
                .collect();
            if let Some(combinator) = &mut it.combinator {
                combinator.progress = progress;
            }
        }
        self.waits.push(it);
        Some(wait)
    }

    /// Returns the progress of a member of a selection.
    ///
    /// Children that were started before may already have ended.
    fn member_progress(&self, leaves: &[i32]) -> SelectionMember {
        let ends = leaves.iter().filter_map(|leaf| {
            let end = self.call(*leaf).end.as_ref()?;
            Some((end.event, end.answer.is_bad().then_some(*leaf)))
        });
        let bad = ends.clone().filter(|(_, bad)| bad.is_some()).min();
        let open = leaves.len() - ends.clone().count();
        let last = ends.map(|(event, _)| event).max().unwrap_or(0);
        let well = (open == 0).then_some((last, None));
        SelectionMember {
            open: open as u32,
            decided: bad.or(well),
        }
    }

    fn register_groups(&mut self, wait: usize, outermost: CallKind, groups: usize) -> Vec<i32> {
        let kinds = std::iter::once(outermost).chain(std::iter::repeat(CallKind::Group));
        let mut calls = Vec::new();
        for kind in kinds.take(groups.max(1)) {
            let group = NewCall {
                kind,
                name: String::new(),
                ask: Ask::Nothing,
                groups: Vec::new(),
            };
            calls.push(self.register_call(wait, group, None));
        }
        calls
    }

    fn register_call(
        &mut self,
        wait: usize,
        leaf: NewCall,
        place: Option<Box<GroupPosition>>,
    ) -> i32 {
        let call = i32::try_from(self.calls.len() + 1).unwrap_or(i32::MAX);
        self.calls.push(IssuedCall {
            kind: leaf.kind,
            is_recorded: false,
            wait: wait as u32,
            name: leaf.name,
            ask: leaf.ask,
            place,
            due: None,
            end: None,
        });
        call
    }
}

/// Returns the member of a selection that a call belongs to, by the first index of each. A group
/// is one member.
fn member_of(begins: &[usize], index: usize) -> usize {
    begins
        .partition_point(|begin| *begin <= index)
        .saturating_sub(1)
}
