//! The history of a run in memory.
//!
//! It keeps the events that the code does not know yet or that are not written yet. Other events
//! are only counted: their data is with the calls that they answered.

use outlast_core::{NewEvent, Timestamp};
use std::collections::VecDeque;

/// The history of a run.
pub(in crate::workflow) struct EventLog {
    /// Events that the code does not know or that are not written, except those being written.
    events: VecDeque<NewEvent>,
    /// How many events came before these.
    forgotten: usize,
    /// How many events the code knows.
    known: usize,
    /// How many events are written.
    written: usize,
    /// The size of all events.
    bytes: usize,
}

impl EventLog {
    /// Creates a stored history of which the code knows nothing yet.
    pub(super) fn stored(events: Vec<NewEvent>) -> EventLog {
        EventLog {
            forgotten: 0,
            known: 0,
            written: events.len(),
            bytes: events.iter().map(size_of).sum(),
            events: events.into(),
        }
    }

    pub(in crate::workflow) fn len(&self) -> usize {
        self.forgotten + self.events.len()
    }

    pub(in crate::workflow) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::workflow) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many events the code knows.
    pub(in crate::workflow) fn known(&self) -> usize {
        self.known
    }

    /// Returns how many events are written.
    pub(in crate::workflow) fn written(&self) -> usize {
        self.written
    }

    /// Returns the event at this index, from 0, unless the code knows it and it is written.
    pub(in crate::workflow) fn get(&self, index: usize) -> Option<&NewEvent> {
        self.events.get(index.checked_sub(self.forgotten)?)
    }

    /// Returns the next event that the code does not know.
    pub(in crate::workflow) fn next(&self) -> Option<&NewEvent> {
        self.get(self.known)
    }

    /// Returns the last event, unless the code knows it and it is written.
    pub(in crate::workflow) fn last(&self) -> Option<&NewEvent> {
        self.events.back()
    }

    /// Adds an event.
    pub(in crate::workflow) fn push(&mut self, event: NewEvent) {
        self.bytes += size_of(&event);
        self.events.push_back(event);
    }

    /// Counts one more event as known by the code.
    pub(in crate::workflow) fn note_known(&mut self) {
        self.known += 1;
        while self.forgotten < self.known.min(self.written) && self.events.pop_front().is_some() {
            self.forgotten += 1;
        }
    }

    /// Returns whether the code knows an unwritten event whose time is set only by the write.
    pub(in crate::workflow) fn is_ahead(&self) -> bool {
        let mut ahead = (self.written..self.known).filter_map(|index| self.get(index));
        ahead.any(|event| event.at.is_none())
    }

    /// Takes all unwritten events out, to be written.
    ///
    /// They come back with [`wrote`](EventLog::wrote) or with
    /// [`did_not_write`](EventLog::did_not_write).
    pub(in crate::workflow) fn take_unwritten(&mut self) -> Vec<NewEvent> {
        let unwritten = self.events.drain(self.written - self.forgotten..);
        let mut events = Vec::with_capacity(unwritten.len());
        events.extend(unwritten);
        events
    }

    /// Confirms that these events were written at this time.
    ///
    /// Returns the latest time that the code now knows.
    pub(super) fn wrote(&mut self, events: Vec<NewEvent>, at: Timestamp) -> Option<Timestamp> {
        let mut latest = None;
        for mut event in events {
            let at = *event.at.get_or_insert(at);
            let is_known = self.written < self.known;
            self.written += 1;
            // A run that is blocked or begins again has not seen all written events.
            if is_known {
                latest = latest.max(Some(at));
                self.forgotten += 1;
            } else {
                self.events.push_back(event);
            }
        }
        latest
    }

    /// Takes back events that were not written. Events that the code has not seen are dropped.
    pub(super) fn did_not_write(&mut self, events: Vec<NewEvent>) {
        self.events.extend(events);
        let kept = self.known.max(self.written) - self.forgotten;
        let lost = self.events.drain(kept..);
        self.bytes -= lost.map(|event| size_of(&event)).sum::<usize>();
    }
}

fn size_of(event: &NewEvent) -> usize {
    event.name.len() + event.data.as_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::replay::events::event;
    use outlast_core::EventKind;

    fn timer(name: &str, at: Option<i64>) -> NewEvent {
        let kind = EventKind::TimerScheduled;
        event(kind, Some(1), name, &name, at.map(Timestamp))
    }

    #[test]
    fn events_that_are_neither_written_nor_known_to_the_code_do_not_count() {
        let mut history = EventLog::stored(vec![timer("a", Some(1)), timer("b", Some(2))]);
        history.note_known();
        history.note_known();
        let before = history.bytes();
        history.push(timer("heard", None));
        history.note_known();
        let with_heard = history.bytes();
        history.push(timer("unheard", None));
        let unwritten = history.take_unwritten();
        assert_eq!(unwritten.len(), 2);
        history.did_not_write(unwritten);
        assert_eq!((history.len(), history.known()), (3, 3));
        assert_eq!(history.bytes(), with_heard);
        assert!(with_heard > before);
        assert_eq!(history.take_unwritten()[0].name, "heard");
    }

    #[test]
    fn written_events_that_the_code_knows_are_counted_and_not_kept() {
        let mut history = EventLog::stored(vec![timer("a", Some(1)), timer("b", Some(2))]);
        assert_eq!(history.next().map(|it| it.name.as_str()), Some("a"));
        history.note_known();
        assert!(history.get(0).is_none());
        assert_eq!(history.get(1).map(|it| it.name.as_str()), Some("b"));
        history.note_known();
        assert!(history.last().is_none());
        assert_eq!(history.len(), 2);
    }

    #[test]
    fn the_time_is_that_of_the_latest_written_event_known_to_the_code() {
        let mut history = EventLog::stored(Vec::new());
        history.push(timer("known", None));
        history.note_known();
        assert!(history.is_ahead());
        history.push(timer("unknown", Some(9)));
        let unwritten = history.take_unwritten();
        let latest = history.wrote(unwritten, Timestamp(5));
        assert_eq!(latest, Some(Timestamp(5)));
        assert!(!history.is_ahead());
        assert_eq!((history.written(), history.known()), (2, 1));
        assert_eq!(history.next().map(|it| it.name.as_str()), Some("unknown"));
    }
}
