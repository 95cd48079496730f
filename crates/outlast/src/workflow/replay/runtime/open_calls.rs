//! The calls that the code waits for now.

use super::calls::{IssuedCall, WaitKind};
use super::{MayRun, Runtime};
use outlast_core::NewEvent;
use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

impl Runtime {
    /// Returns the waits without an answer that the code waits for, in their order.
    pub(in crate::workflow) fn waiting(&self) -> impl Iterator<Item = usize> {
        let polled = self.polled.iter().copied();
        polled.filter(|wait| !self.is_ready(*wait))
    }

    /// Forgets the waits before the code is polled; the poll notes them again.
    pub(in crate::workflow) fn forget_waiting(&mut self) {
        self.polled.clear();
        self.updates.awaits_condition = false;
    }

    /// Notes that the code waits for this wait.
    pub(in crate::workflow) fn note_waiting(&mut self, wait: usize) {
        if let Err(place) = self.polled.binary_search(&wait) {
            self.polled.insert(place, wait);
        }
    }

    /// Notes that the code has dropped this wait.
    pub(in crate::workflow) fn note_dropped(&mut self, wait: usize) {
        if let Ok(place) = self.polled.binary_search(&wait) {
            self.polled.remove(place);
        }
    }

    /// Notes the waker with which the code is about to be polled.
    pub(in crate::workflow) fn begin_poll(&mut self, waker: &Waker) {
        self.code_waker = Some(waker.clone());
    }

    /// Notes a waker with which an awaited call was polled.
    pub(in crate::workflow) fn keep_waker(&mut self, waker: &Waker) {
        let own = self.code_waker.as_ref();
        if own.is_some_and(|own| !own.will_wake(waker)) {
            self.kept_wakers.push(waker.clone());
        }
    }

    /// Compares new calls with the history after a poll, and returns the wakers of awaited calls.
    ///
    /// They come in the order in which they were polled. Each call is polled again with the code,
    /// because the code waits for the calls that it polls.
    pub(in crate::workflow) fn end_poll(&mut self) -> Vec<Waker> {
        self.code_waker = None;
        self.compare_new_calls();
        std::mem::take(&mut self.kept_wakers)
    }

    /// Returns the calls that the code waits for.
    pub(in crate::workflow) fn open(&self) -> impl Iterator<Item = (i32, &IssuedCall)> {
        self.waiting().flat_map(|wait| self.open_leaves(wait))
    }

    /// Returns a wait that its finished calls decide, with the event that says so.
    pub(in crate::workflow) fn resolved_unit(&self) -> Option<(usize, NewEvent)> {
        let mut waits = self.waiting();
        waits.find_map(|wait| self.decide(wait).map(|resolved| (wait, resolved)))
    }

    /// Lets the awaited steps run: everything that led to them is written.
    pub(in crate::workflow) fn let_steps_run(&mut self) {
        let mut waiting = self.waiting();
        let first = waiting.next().map(|wait| self.waits[wait].kind);
        let is_alone = first == Some(WaitKind::Single) && waiting.next().is_none();
        drop(waiting);
        self.may_run = match is_alone {
            true => MayRun::OneStep,
            false => MayRun::Steps,
        };
    }

    /// Returns how many awaited children are still to be started.
    pub(in crate::workflow) fn calls_to_start(&self) -> usize {
        let new = |it: &IssuedCall| it.kind.is_child() && !it.is_recorded;
        self.open().filter(|(_, it)| new(it)).count()
    }

    /// Returns whether children of this wait are still to be started.
    pub(in crate::workflow) fn is_to_start(&self, wait: usize) -> bool {
        self.waits[wait].leaves.iter().any(|call| {
            let it = self.call(*call);
            it.kind.is_child() && !it.is_recorded && it.end.is_none()
        })
    }

    /// Returns the calls of a wait that have not ended.
    pub(in crate::workflow) fn open_leaves(
        &self,
        wait: usize,
    ) -> impl Iterator<Item = (i32, &IssuedCall)> {
        let leaves = self.waits[wait].leaves.iter();
        leaves
            .map(|call| (*call, self.call(*call)))
            .filter(|(_, it)| it.end.is_none())
    }

    /// Returns the index of each awaited call, in the order of the waits and their calls.
    pub(in crate::workflow) fn places(&self) -> HashMap<i32, usize> {
        let mut places = HashMap::new();
        for wait in self.waiting() {
            for leaf in &self.waits[wait].leaves {
                let place = places.len();
                places.entry(*leaf).or_insert(place);
            }
        }
        places
    }

    /// Returns the open children of the given calls, by round.
    pub(in crate::workflow) fn by_round(
        &self,
        calls: impl Iterator<Item = i32>,
    ) -> BTreeMap<i32, Vec<i32>> {
        let mut rounds: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for call in calls {
            let round = self.call(call).link().round;
            rounds.entry(round).or_default().push(call);
        }
        rounds
    }
}
