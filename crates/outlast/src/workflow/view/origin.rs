//! Finds the call of a workflow that has started an instance, in the workflow's history.
//!
//! A search reads a bounded number of events, never a whole long history.

use super::waits::GroupPlace;
use crate::client::Admin;
use crate::workflow::replay::events::{CallKind, Scheduled, data_of};
use outlast_core::{
    Event, EventKind, HistoryRequest, Instance, InstanceId, Result, RunSummary, Timestamp,
};
use serde::Serialize;
use std::collections::HashMap;

/// How many events are read at a time. Pages are small, because a search reads few places of a
/// history.
const PAGE: i32 = 100;
/// How many such pages a search may read. This allows as many events as `waits` reads.
const PAGES_MAX: usize = 100;

/// The call of a workflow that has started an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The run of the workflow that made the call.
    pub run: i32,
    /// The number of the call in that run.
    pub call: i32,
    /// `activity` or `child`.
    pub kind: &'static str,
    /// The name of the call.
    pub name: String,
    /// The sequence number of its event in the history of that run.
    pub seq: i32,
    /// When it was scheduled.
    pub at: Timestamp,
    /// The group it is in.
    pub group: Option<GroupPlace>,
}

impl Admin<'_> {
    /// Returns the call that started an instance.
    ///
    /// Returns `None` when no workflow started it, when the history of that run is no longer
    /// stored, or when 10,000 events did not contain it.
    pub async fn origin(self, child: &Instance) -> Result<Option<Origin>> {
        let (Some(parent), Some(position)) = (child.parent, child.position) else {
            return Ok(None);
        };
        let mut calls = Calls::of(self, parent.id).await?;
        calls.find((parent.round, position)).await
    }
}

/// The round of a parent that started a child, and the child's position there.
type ChildPosition = (i32, i32);

/// Finds the calls of a workflow by the places of their children. Pages are kept for the next
/// search.
pub(in crate::workflow) struct Calls<'a> {
    admin: Admin<'a>,
    id: InstanceId,
    runs: Vec<RunSummary>,
    pages: HashMap<(i32, i32), Vec<(ChildPosition, Origin)>>,
}

impl<'a> Calls<'a> {
    pub(in crate::workflow) async fn of(admin: Admin<'a>, id: InstanceId) -> Result<Calls<'a>> {
        let runs = admin.histories(id).await?;
        Ok(Calls {
            admin,
            id,
            runs,
            pages: HashMap::new(),
        })
    }

    pub(in crate::workflow) fn runs(&self) -> &[RunSummary] {
        &self.runs
    }

    /// Finds the call in all runs. Rounds are counted over all runs, so only one run can have it.
    pub(in crate::workflow) async fn find(
        &mut self,
        place: ChildPosition,
    ) -> Result<Option<Origin>> {
        let runs: Vec<(i32, i32)> = self.runs.iter().map(|it| (it.run, it.events)).collect();
        for (run, events) in runs.into_iter().rev() {
            if let Some(found) = self.find_in(run, events, place).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Finds the call in one run by binary search over the pages.
    ///
    /// Places grow along a history: rounds begin one after another, and positions follow the order
    /// of the calls. Pages that schedule no child are skipped.
    async fn find_in(
        &mut self,
        run: i32,
        events: i32,
        place: ChildPosition,
    ) -> Result<Option<Origin>> {
        let (mut low, mut high) = (0, (events + PAGE - 1) / PAGE);
        while low < high {
            let middle = low + (high - low) / 2;
            let Some((page, found)) = self.first_from(run, middle, high).await? else {
                high = middle;
                continue;
            };
            match found.binary_search_by_key(&place, |(place, _)| *place) {
                Ok(index) => return Ok(Some(found[index].1.clone())),
                Err(0) => high = middle,
                Err(after) if after == found.len() => low = page + 1,
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the first page from `page` on, and before `end`, that schedules a child.
    async fn first_from(
        &mut self,
        run: i32,
        page: i32,
        end: i32,
    ) -> Result<Option<(i32, &[(ChildPosition, Origin)])>> {
        for page in page..end {
            if !self.pages.contains_key(&(run, page)) {
                if self.pages.len() == PAGES_MAX {
                    return Ok(None);
                }
                let read = self.read(run, page).await?;
                self.pages.insert((run, page), read);
            }
            if !self.pages[&(run, page)].is_empty() {
                return Ok(Some((page, &self.pages[&(run, page)])));
            }
        }
        Ok(None)
    }

    async fn read(&self, run: i32, page: i32) -> Result<Vec<(ChildPosition, Origin)>> {
        let end = (page + 1) * PAGE;
        let mut found = Vec::new();
        let mut after = page * PAGE;
        loop {
            let request = HistoryRequest {
                id: self.id,
                run,
                after,
                max: (end - after) as usize,
            };
            let events = self.admin.history(request).await?;
            found.extend(events.iter().filter_map(scheduled));
            match events.last() {
                Some(last) if events.more && last.seq < end => after = last.seq,
                Some(_) | None => return Ok(found),
            }
        }
    }
}

/// Returns what an event schedules, and its place.
fn scheduled(event: &Event) -> Option<(ChildPosition, Origin)> {
    if !matches!(
        event.kind,
        EventKind::ActivityScheduled | EventKind::ChildScheduled
    ) {
        return None;
    }
    let kind = CallKind::of(event.kind)?;
    let scheduled: Scheduled = data_of(&event.data).ok()?;
    let origin = Origin {
        run: event.run,
        call: event.call?,
        kind: kind.as_str(),
        name: event.name.clone(),
        seq: event.seq,
        at: event.at,
        group: scheduled.group.map(Into::into),
    };
    Some(((scheduled.round, scheduled.position), origin))
}
