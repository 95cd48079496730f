//! Reads what arrived while a workflow waited: children that began a run or finished, signals and
//! timers. Sends cancels.
//!
//! The session calls it. Each arrival becomes an event before the code sees it. Starts of children
//! come first, so that whatever wakes the code, it knows the ids of its children (decision 0052).

use super::super::events::{CallKind, ChildMessage, Ended, end_of, event};
use super::Session;
use crate::machine::{Context, Trouble};
use outlast_core::{Child, EventKind, InstanceId, NewEvent, Note, Signal, SignalId, Timestamp};
use std::collections::{BTreeSet, HashMap};

impl Session {
    /// Reads everything that arrived since the history was written.
    pub(super) async fn look(&mut self, cx: &Context) -> Result<(), Trouble> {
        let mut arrivals = self.ended_children(cx).await?;
        arrivals.extend(self.arrived_timers(cx).await?);
        arrivals.extend(self.arrived_signals());
        arrivals.extend(self.arrived_updates());
        self.apply_arrivals(arrivals);
        Ok(())
    }

    /// Applies arrivals in the order in which they happened; ties go in the order of the calls.
    pub(super) fn apply_arrivals(&mut self, mut arrivals: Vec<Arrival>) {
        let places = self.flow.lock().places();
        arrivals.sort_by_key(|arrival| (arrival.at, places.get(&arrival.call).copied()));
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("arrivals-are-applied-by-position") {
            arrivals.sort_by_key(|arrival| places.get(&arrival.call).copied());
        }
        for arrival in arrivals {
            while !self.stops()
                && let Some((wait, resolved)) = self.resolved_unit()
            {
                self.resolve(wait, resolved);
            }
            if self.stops() {
                return;
            }
            match arrival.what {
                ArrivalKind::Event(event) => self.record(event),
                ArrivalKind::Timer => {
                    if self.is_waited_for(arrival.call) {
                        let waiting = super::super::events::WaitData::default();
                        let (kind, call) = (EventKind::TimerFired, Some(arrival.call));
                        self.record(event(kind, call, "", &waiting, Some(arrival.at)));
                    }
                }
                ArrivalKind::Update(signal) => {
                    if let Some(place) = self.inbox.iter().position(|it| it.id == signal) {
                        self.accept(place);
                    }
                }
                ArrivalKind::Signal(signal) => {
                    let place = self.inbox.iter().position(|it| it.id == signal.id);
                    if let Some(place) = place
                        && self.is_waited_for(arrival.call)
                    {
                        self.consume(arrival.call, place);
                    }
                }
            }
        }
    }

    /// Returns whether the code still waits for a call.
    fn is_waited_for(&self, call: i32) -> bool {
        let runtime = self.flow.lock();
        runtime.open().any(|(open, _)| open == call)
    }

    /// Returns a wait that is decided, with the event that says so.
    fn resolved_unit(&self) -> Option<(usize, NewEvent)> {
        self.flow.lock().resolved_unit()
    }

    /// Records the starts of the awaited children, and returns the ends of the finished ones.
    async fn ended_children(&mut self, cx: &Context) -> Result<Vec<Arrival>, Trouble> {
        let children = self.awaited_children(cx).await?;
        self.record_starts(&children);
        let ends = children
            .into_iter()
            .filter_map(|(call, child)| match child {
                Some(child) => self.arrived_end(call, child),
                None => Some(self.arrived_loss(call)),
            });
        Ok(ends.collect())
    }

    /// Records which runs of the awaited children have begun since the history was written.
    pub(super) async fn see_starts(&mut self, cx: &Context) -> Result<(), Trouble> {
        let children = self.awaited_children(cx).await?;
        self.record_starts(&children);
        Ok(())
    }

    /// Reads the rows of the awaited children, in the order of the calls.
    ///
    /// There is no row if somebody else held the key of the child, or if it was deleted.
    async fn awaited_children(&mut self, cx: &Context) -> Result<Vec<AwaitedChild>, Trouble> {
        // A set, because a child awaited by several calls still ends once.
        let calls: BTreeSet<i32> = {
            let runtime = self.flow.lock();
            let open = runtime.open();
            let children = open.filter(|(_, call)| call.kind.is_child() && call.is_recorded);
            children.map(|(call, _)| call).collect()
        };
        let rounds = self.flow.lock().by_round(calls.iter().copied());
        let mut awaited = Vec::with_capacity(calls.len());
        for (round, calls) in rounds {
            let children = cx.client().admin().children_of(cx.id(), round).await;
            let children = children.map_err(Trouble::Store)?;
            let children = children.into_iter().map(|child| (child.position, child));
            let mut children: HashMap<i32, Child> = children.collect();
            let runtime = self.flow.lock();
            awaited.extend(calls.into_iter().map(|call| {
                let position = runtime.call(call).link().position;
                (call, children.remove(&position))
            }));
        }
        awaited.sort_unstable_by_key(|(call, _)| *call);
        Ok(awaited)
    }

    /// Records the starts of children, and notes the ids that a park must name.
    fn record_starts(&mut self, children: &[AwaitedChild]) {
        let starts = {
            let mut runtime = self.flow.lock();
            let found = children
                .iter()
                .filter_map(|(call, child)| Some((*call, child.as_ref()?)));
            let found: Vec<(i32, &Child)> = found.collect();
            for (call, child) in &found {
                if let Some(link) = runtime.call_mut(*call).link_mut() {
                    link.found = Some(child.id);
                }
            }
            runtime.starts(&found)
        };
        for start in starts {
            if self.stops() {
                return;
            }
            self.flow.lock().note_start(&start);
            self.record(start);
        }
    }

    /// Returns the end of a child; `None` while it lives.
    fn arrived_end(&self, call: i32, child: Child) -> Option<Arrival> {
        let runtime = self.flow.lock();
        let it = runtime.call(call);
        let end = end_of(it.kind, &child)?;
        let at = child.finished_at.unwrap_or(runtime.now());
        let ended = Ended {
            child: Some(child.id),
            run: child.run,
            result: child.result,
            error: child.last_error,
        };
        let event = event(end, Some(call), &it.name, &ended, Some(at));
        Some(Arrival::event(at, call, event))
    }

    /// Returns the failure of a call whose child has no row.
    fn arrived_loss(&self, call: i32) -> Arrival {
        let runtime = self.flow.lock();
        let it = runtime.call(call);
        let at = runtime.now();
        let reason = "somebody else holds its key, or it was deleted before its end was seen";
        let gone = Ended {
            error: Some(reason.into()),
            ..Ended::default()
        };
        let kind = match it.kind == CallKind::Activity {
            true => EventKind::ActivityFailed,
            false => EventKind::ChildFailed,
        };
        let event = event(kind, Some(call), &it.name, &gone, Some(at));
        Arrival::event(at, call, event)
    }

    pub(super) async fn arrived_timers(&mut self, cx: &Context) -> Result<Vec<Arrival>, Trouble> {
        let timers: Vec<(i32, Timestamp)> = {
            let runtime = self.flow.lock();
            let due = runtime
                .open()
                .filter_map(|(call, it)| Some((call, it.due?)));
            due.collect()
        };
        if timers.is_empty() {
            return Ok(Vec::new());
        }
        let now = cx.client().admin().now().await.map_err(Trouble::Store)?;
        let due = timers.into_iter().filter(|(_, due)| *due <= now);
        Ok(due
            .map(|(call, at)| Arrival {
                at,
                call,
                what: ArrivalKind::Timer,
            })
            .collect())
    }

    fn arrived_signals(&self) -> Vec<Arrival> {
        let runtime = self.flow.lock();
        let mut arrivals = Vec::new();
        let mut taken: Vec<usize> = Vec::new();
        let signals = runtime.open().filter(|(_, it)| it.kind == CallKind::Signal);
        // A handler goes before a call of the same name.
        let signals = signals.filter(|(_, it)| runtime.updates.handler(&it.name).is_none());
        for (call, it) in signals {
            let mut places = self.inbox.iter().enumerate();
            let found =
                places.find(|(place, signal)| signal.name == it.name && !taken.contains(place));
            if let Some((place, signal)) = found {
                taken.push(place);
                arrivals.push(Arrival {
                    at: signal.inserted_at,
                    call,
                    what: ArrivalKind::Signal(signal.clone()),
                });
            }
        }
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("signals-go-to-the-last-call") {
            let calls: Vec<i32> = arrivals.iter().rev().map(|it| it.call).collect();
            for (arrival, call) in arrivals.iter_mut().zip(calls) {
                arrival.call = call;
            }
        }
        arrivals
    }

    /// Returns the updates that a handler takes.
    fn arrived_updates(&self) -> Vec<Arrival> {
        let runtime = self.flow.lock();
        let inbox = self.inbox.iter();
        let handled = inbox.filter(|signal| runtime.updates.handler(&signal.name).is_some());
        let arrivals = handled.map(|signal| Arrival {
            at: signal.inserted_at,
            // No call waits for it.
            call: 0,
            what: ArrivalKind::Update(signal.id),
        });
        arrivals.collect()
    }

    /// Reads the ids of the awaited children: a park names them, and the code may ask for them.
    pub(super) async fn see_children(&mut self, cx: &Context) -> Result<(), Trouble> {
        let arrivals = self.ended_children(cx).await?;
        self.apply_arrivals(arrivals);
        Ok(())
    }

    /// Cancels the children of decided groups and selections that cancel the rest.
    pub(super) async fn cancel_rest(&mut self, cx: &Context) -> Result<(), Trouble> {
        let calls = self.flow.lock().to_cancel.clone();
        let rounds = self.flow.lock().by_round(calls.iter().copied());
        let mut told: Vec<(i32, InstanceId)> = Vec::new();
        for (round, calls) in rounds {
            let children = cx.client().admin().children_of(cx.id(), round).await;
            let children = children.map_err(Trouble::Store)?;
            let children: HashMap<i32, InstanceId> = children
                .into_iter()
                .map(|child| (child.position, child.id))
                .collect();
            let runtime = self.flow.lock();
            for call in calls {
                let child = children.get(&runtime.call(call).link().position);
                told.extend(child.map(|child| (call, *child)));
            }
        }
        let note = Note::by("parent").because(format!("parent {} goes on without it", cx.id()));
        let ids: Vec<InstanceId> = told.iter().map(|(_, id)| *id).collect();
        let cancelled = cx.client().admin().cancel_all(ids, note).await;
        cancelled.map_err(Trouble::Store)?;
        let known: HashMap<i32, InstanceId> = told.into_iter().collect();
        for call in calls {
            let note = ChildMessage {
                child: known.get(&call).copied(),
                answer: "cancel".into(),
            };
            let now = self.flow.lock().moment();
            self.record(event(
                EventKind::ChildMessaged,
                Some(call),
                "cancel",
                &note,
                now,
            ));
        }
        Ok(())
    }
}

/// A call that the code waits for, and the row of its child.
type AwaitedChild = (i32, Option<Child>);

/// Something that arrived from outside.
pub(super) struct Arrival {
    at: Timestamp,
    call: i32,
    what: ArrivalKind,
}

enum ArrivalKind {
    /// It happened, whether or not a call waits for it.
    Event(NewEvent),
    /// It counts only while a call waits for it.
    Timer,
    Signal(Signal),
    /// A handler takes it.
    Update(SignalId),
}

impl Arrival {
    fn event(at: Timestamp, call: i32, event: NewEvent) -> Arrival {
        Arrival {
            at,
            call,
            what: ArrivalKind::Event(event),
        }
    }
}
