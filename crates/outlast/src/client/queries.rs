//! Looking without touching.

use super::Client;
use outlast_core::{
    Child, Count, Event, Family, Filter, Finding, HistoryRequest, Instance, InstanceId,
    ListRequest, Operation, OperationId, Page, QueueSummary, Result, RoundSummary, Rows, RunStats,
    RunSummary, SignalId, SignalRow, StepCountRequest, StepCounts, Target, Timestamp, Worker,
    WriteCheck,
};

impl Client {
    /// One instance, by its id or by `Machine::key(..)`; `None` when there is none. By key it is the instance that
    /// holds the key, else the latest that held it, for as long as that is stored.
    pub async fn get(&self, target: impl Into<Target>) -> Result<Option<Instance>> {
        let found = match target.into() {
            Target::Id(id) => self.store.get(id).await?,
            Target::Key { machine, key } => self.store.find(&machine, &key).await?,
        };
        let decode = |instance| self.coding.decode_instance(instance, "get");
        found.map(decode).transpose()
    }

    // What a codec finds changed in the database is refused in its place where there are several, so that one
    // does not hide the others; `docs/encryption.md` has the whole table.

    /// A page of instances, newest first. [`Page::next`] is the cursor: the `before` of the next page. A page ends as
    /// well when it has read [`SCAN_MAX`](outlast_core::limits::SCAN_MAX) instances, so one whose filter few fit may
    /// be short, even empty: the last is the one without a `next`.
    ///
    /// A page has no states and no results, since these may be large. [`ListRequest::values`] asks for them; such a page
    /// ends as well when they have [`PAGE_BYTES_MAX`](outlast_core::limits::PAGE_BYTES_MAX) bytes.
    pub async fn list(&self, request: ListRequest) -> Result<Page> {
        let values = request.values;
        let mut page = self.store.list(request).await?;
        self.coding
            .decode_page(&mut page.instances, values, "list")?;
        Ok(page)
    }

    /// How many instances fit, counted up to [`COUNT_MAX`](outlast_core::limits::COUNT_MAX).
    pub async fn count(&self, filter: Filter) -> Result<Count> {
        self.store.count(filter).await
    }

    /// Every child of an instance that is still stored, of all rounds, oldest first.
    pub async fn children(&self, id: InstanceId) -> Result<Vec<Child>> {
        self.children_in(id, None).await
    }

    /// Every child of one fan-out of an instance that is still stored, in the order they were asked for. Fan-outs are
    /// counted from 1.
    pub async fn children_of(&self, id: InstanceId, round: i32) -> Result<Vec<Child>> {
        self.children_in(id, Some(round)).await
    }

    async fn children_in(&self, id: InstanceId, round: Option<i32>) -> Result<Vec<Child>> {
        let mut children: Vec<Child> = Vec::new();
        loop {
            let after = children.last().map(|child| child.id);
            let mut page = self.store.children(id, round, after).await?;
            self.coding
                .decode_children(id, &mut page.rows, "children")?;
            children.extend(page.rows);
            if !page.more {
                return Ok(children);
            }
        }
    }

    /// A page of the signals of an instance, oldest first, after the one named. [`Rows::more`] tells whether more follow.
    pub async fn signals(
        &self,
        id: InstanceId,
        after: Option<SignalId>,
    ) -> Result<Rows<SignalRow>> {
        let mut signals = self.store.signals(id, after).await?;
        // The target is read only where a payload is bound to its key.
        let target = match self.coding.needs_key(&signals.rows) {
            true => self.store.get(id).await?,
            false => None,
        };
        let key = target.as_ref().and_then(|it| {
            let key = it.correlation_key.as_deref()?;
            Some((it.machine.as_str(), key))
        });
        self.coding
            .decode_signals(&mut signals.rows, key, "signals")?;
        Ok(signals)
    }

    /// Events of one run of a workflow, or of a machine that [records its history](crate::Machine::HISTORY), in their order.
    /// [`EventDetail`](crate::workflow::EventDetail) is what each says. [`Rows::more`] tells whether more follow: a page with
    /// large data is shorter than its `max`.
    pub async fn history(&self, request: HistoryRequest) -> Result<Rows<Event>> {
        let mut events = self.store.history(request).await?;
        if !self.coding.is_none() && !events.is_empty() {
            let found = self.store.get(request.id).await?;
            let machine = found.map(|instance| instance.machine).unwrap_or_default();
            self.coding
                .decode_events(&machine, request.id, &mut events.rows, "history")?;
        }
        Ok(events)
    }

    /// The runs whose history is stored, in their order. A machine has one run, if it has a history.
    pub async fn histories(&self, id: impl Into<InstanceId>) -> Result<Vec<RunSummary>> {
        self.store.histories(id.into()).await
    }

    /// Every queue that has work, is paused or is served by a live worker, by name.
    pub async fn queues(&self) -> Result<Vec<QueueSummary>> {
        let mut queues = self.store.queues().await?;
        let now = self.store.now().await?;
        let workers = self.store.workers().await?;
        let alive = workers.iter().filter(|it| it.lease_expires_at > now);
        for name in alive.flat_map(|worker| &worker.queues) {
            if !queues.iter().any(|queue| queue.name == *name) {
                queues.push(idle(name));
            }
        }
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(queues)
    }

    /// `None` when a queue of this name exists: it has instances, is paused, is served by a live worker, is the own
    /// queue of a machine that a worker has, or is `default`. Otherwise the names of queues that exist, the nearest
    /// first: the name may be mistyped.
    pub async fn missing_queue(&self, name: &str) -> Result<Option<Vec<String>>> {
        let mut names: Vec<String> = self.queues().await?.into_iter().map(|it| it.name).collect();
        let workers = self.store.workers().await?;
        let offers = workers.iter().flat_map(|worker| &worker.machines);
        names.extend(offers.map(|offer| offer.queue.clone()));
        names.push("default".to_owned());
        if names.iter().any(|known| known == name) || self.has_instances(name).await? {
            return Ok(None);
        }
        names.sort();
        names.dedup();
        names.sort_by_key(|known| distance(known, name));
        Ok(Some(names))
    }

    /// Whether an instance is in this queue, among the newest that a page reads.
    async fn has_instances(&self, queue: &str) -> Result<bool> {
        let filter = Filter {
            queue: Some(queue.to_owned()),
            ..Filter::default()
        };
        let request = ListRequest {
            filter,
            limit: 1,
            ..ListRequest::default()
        };
        Ok(!self.store.list(request).await?.instances.is_empty())
    }

    /// Every registered worker.
    pub async fn workers(&self) -> Result<Vec<Worker>> {
        self.store.workers().await
    }

    /// What operators did, newest first: to one instance, or to anything.
    pub async fn operations(&self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.store.operations(instance).await
    }

    /// A page of what was done to the children of an instance because of it, in the order it was done, after the one
    /// named: by its end, by a join that was decided without them, or by a tree that was ended.
    pub async fn close_actions(
        &self,
        parent: InstanceId,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.store.close_actions(parent, after).await
    }

    /// How an instance and all that descend from it stand: what [`cancel_tree`](Client::cancel_tree) and
    /// [`terminate_tree`](Client::terminate_tree) would meet. `None` when there is no such instance. Counted up to
    /// [`COUNT_MAX`](outlast_core::limits::COUNT_MAX) in all.
    pub async fn family(&self, id: impl Into<InstanceId>) -> Result<Option<Family>> {
        self.store.family(id.into()).await
    }

    /// How the children of an instance stand, by round: what a join waits for. Counted up to
    /// [`COUNT_MAX`](outlast_core::limits::COUNT_MAX) children in all, the newest rounds first; answered in the order
    /// of the rounds.
    pub async fn rounds(&self, id: InstanceId) -> Result<Vec<RoundSummary>> {
        self.store.rounds(id).await
    }

    /// Counts a slice of all instances, in the order of their ids, by machine, step and status. [`StepCounts::next`] is
    /// where to go on; added up until it is `None`, the slices are everything.
    pub async fn count_by_step(&self, request: StepCountRequest) -> Result<StepCounts> {
        self.store.count_by_step(request).await
    }

    /// What engines have run since the minute of `since`, and how long it had waited, by the minute. They are kept for
    /// a day and are a few seconds behind; those of an engine that crashed in its last seconds are missing.
    pub async fn run_stats(&self, since: Timestamp) -> Result<RunStats> {
        self.store.run_stats(since).await
    }

    /// How the database is: settings, space, what stands in the way, also what is fine. For a look now and then:
    /// it asks much.
    pub async fn doctor(&self) -> Result<Vec<Finding>> {
        self.store.doctor().await
    }

    /// Whether the database takes writes now: commits a small write that leaves nothing. An answer within seconds is as
    /// good as a new one, so ask now and then only.
    pub async fn check_writes(&self) -> Result<WriteCheck> {
        self.store.check_writes().await
    }

    /// The database's present moment.
    pub async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }
}

/// A queue with nothing in it.
fn idle(name: &str) -> QueueSummary {
    let none = Count::Exactly(0);
    QueueSummary {
        name: name.to_owned(),
        paused: false,
        eligible: none,
        delayed: none,
        executing: none,
        oldest_eligible_at: None,
    }
}

/// How many characters must be put in, left out or exchanged to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (place, wanted) in other.chars().enumerate() {
            let exchanged = diagonal + usize::from(letter != wanted);
            diagonal = row[place + 1];
            row[place + 1] = exchanged.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn names_that_differ_little_are_near() {
        assert_eq!(distance("mail", "mail"), 0);
        assert_eq!(distance("mail", "mial"), 2);
        assert_eq!(distance("mail", "mails"), 1);
        assert_eq!(distance("", "mail"), 4);
        assert_eq!(distance("reports", ""), 7);
    }
}
