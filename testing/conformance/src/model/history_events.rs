//! Histories and views of workflows.

use super::Tables;
use outlast_core::{
    Event, HistoryRequest, InstanceId, NewEvent, NewView, Result, Rows, RunSummary, Timestamp,
    View, limits,
};

impl Tables {
    /// Adds to the history of the instance's present run.
    pub(super) fn append(&mut self, id: InstanceId, events: Vec<NewEvent>, now: Timestamp) {
        let Some(row) = self.instances.get_mut(&id) else {
            return;
        };
        for event in events {
            row.events += 1;
            self.histories.entry(id).or_default().push(Event {
                run: row.run,
                seq: row.events,
                at: event.at.unwrap_or(now),
                kind: event.kind,
                call: event.call,
                name: event.name,
                data: event.data,
            });
        }
    }

    /// Writes views, with the revision that their outcome has given the row.
    pub(super) fn publish(&mut self, id: InstanceId, views: Vec<NewView>, now: Timestamp) {
        let Some(row) = self.instances.get(&id) else {
            return;
        };
        for NewView { name, data } in views {
            let stored = self.views.entry(id).or_default();
            if stored.get(&name).is_some_and(|view| view.data == data) {
                continue;
            }
            let view = View {
                name: name.clone(),
                revision: row.revision,
                at: now,
                data,
            };
            stored.insert(name, view);
        }
    }

    pub(super) fn views_of(&self, id: InstanceId, name: Option<&str>) -> Vec<View> {
        let views = self.views.get(&id).into_iter().flat_map(|it| it.values());
        views
            .filter(|view| name.is_none_or(|name| view.name == name))
            .take(limits::VIEWS_MAX)
            .cloned()
            .collect()
    }

    /// Removes the histories that are older than the last runs.
    pub(super) fn forget_runs(&mut self, id: InstanceId, present: i32) {
        if let Some(history) = self.histories.get_mut(&id) {
            history.retain(|event| event.run > present - limits::RUNS_KEPT);
        }
    }

    pub(super) fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        request
            .check()
            .map_err(|invalid| invalid.during("history"))?;
        let events = self.events_of(request.id);
        let events = events.filter(|it| it.run == request.run && it.seq > request.after);
        Rows::cut(events.cloned().map(Ok), request.max, Event::bytes)
    }

    pub(super) fn runs(&self, id: InstanceId) -> Vec<RunSummary> {
        let mut runs: Vec<RunSummary> = Vec::new();
        for event in self.events_of(id) {
            match runs.last_mut().filter(|it| it.run == event.run) {
                Some(run) => {
                    run.events += 1;
                    run.last_at = event.at;
                    run.last = event.kind;
                }
                None => runs.push(RunSummary {
                    run: event.run,
                    events: 1,
                    started_at: event.at,
                    last_at: event.at,
                    last: event.kind,
                }),
            }
        }
        runs
    }

    fn events_of(&self, id: InstanceId) -> impl Iterator<Item = &Event> {
        self.histories.get(&id).into_iter().flatten()
    }
}
