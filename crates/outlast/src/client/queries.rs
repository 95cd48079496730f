//! Queries. They never write.

use super::{Admin, Client};
use crate::definition::Durable;
use futures_util::future::BoxFuture;
use outlast_core::{
    Child, Count, Event, Family, Filter, Finding, HistoryRequest, Instance, InstanceId, KeyText,
    ListRequest, Operation, OperationId, Page, QueueSummary, Result, RoundSummary, Rows, RunStats,
    RunSummary, SignalId, SignalRow, Status, StepCountRequest, StepCounts, Target, Timestamp,
    Worker, WriteCheck,
};

impl Client {
    /// Reads one instance, by its id or by `Machine::key(..)`; `None` when there is none.
    ///
    /// A key addresses its holder, or else the latest stored instance that held it.
    pub async fn find(&self, target: impl Into<Target>) -> Result<Option<Instance>> {
        let found = match target.into() {
            Target::Id(id) => self.store.get(id).await?,
            Target::Key { machine, key } => self.store.find(&machine, &key).await?,
        };
        let decode = |instance| self.coding.decode_instance(instance, "find");
        found.map(decode).transpose()
    }

    /// Reads a page of instances, newest first: await it.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use outlast::{Client, Sqlite, Status};
    /// # #[job] async fn greet(name: String) -> std::io::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> outlast::Result<()> {
    /// # let client = Client::new(Sqlite::in_memory()?);
    /// # client.start(greet::with("Ada".into())).await?;
    /// let page = client.list().of::<greet>().status(Status::Runnable).limit(10).await?;
    /// assert_eq!(page.instances.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self) -> Listing<'_> {
        Listing {
            client: self,
            request: ListRequest::default(),
        }
    }

    /// Counts the instances that fit, up to [`COUNT_MAX`](outlast_core::limits::COUNT_MAX).
    pub async fn count(&self, filter: Filter) -> Result<Count> {
        self.store.count(filter).await
    }
}

/// A page of instances to read; made by [`Client::list`]. Await it.
///
/// A page omits states and results, because they may be large. It also ends when it has read
/// [`SCAN_MAX`](outlast_core::limits::SCAN_MAX) instances. So a page with a selective filter may be
/// short, even empty. Only the last page has no [`next`](Page::next).
#[must_use = "await it"]
#[derive(Debug)]
pub struct Listing<'a> {
    client: &'a Client,
    request: ListRequest,
}

impl Listing<'_> {
    /// Only instances of this machine, job or workflow.
    pub fn of<D: Durable>(mut self) -> Self {
        self.request.filter.machine = Some(D::NAME.to_owned());
        self
    }

    /// Only instances with this status; called again, with one of them.
    pub fn status(mut self, status: Status) -> Self {
        self.request.filter.statuses.push(status);
        self
    }

    /// Only instances in this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.filter.queue = Some(queue.into());
        self
    }

    /// Only instances that hold or held this correlation key.
    pub fn key(mut self, key: impl Into<KeyText>) -> Self {
        self.request.filter.correlation_key = Some(key.into().into());
        self
    }

    /// Only instances that fit this filter. It replaces the conditions so far.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.request.filter = filter;
        self
    }

    /// Reads at most this many. Default: [`PAGE_DEFAULT`](outlast_core::limits::PAGE_DEFAULT).
    pub fn limit(mut self, instances: usize) -> Self {
        self.request.limit = instances;
        self
    }

    /// Continues after a page: takes its [`next`](Page::next).
    pub fn before(mut self, next: InstanceId) -> Self {
        self.request.before = Some(next);
        self
    }

    /// Reads states and results too.
    ///
    /// Such a page also ends at [`PAGE_BYTES_MAX`](outlast_core::limits::PAGE_BYTES_MAX) bytes of
    /// values.
    pub fn values(mut self) -> Self {
        self.request.values = true;
        self
    }
}

impl<'a> IntoFuture for Listing<'a> {
    type Output = Result<Page>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.admin().list(self.request).await })
    }
}

// In an answer with several values, a codec refuses a changed value in its place, so that it does
// not hide the others. `docs/encryption.md` has the whole table.
impl Admin<'_> {
    /// Reads a page of instances, newest first, as [`Client::list`] does.
    pub async fn list(self, request: ListRequest) -> Result<Page> {
        let client = self.client;
        let values = request.values;
        let mut page = client.store.list(request).await?;
        client
            .coding
            .decode_page(&mut page.instances, values, "list")?;
        Ok(page)
    }

    /// Reads every stored child of an instance, of all rounds, oldest first.
    pub async fn children(self, id: impl Into<InstanceId>) -> Result<Vec<Child>> {
        self.children_in(id.into(), None).await
    }

    /// Reads every stored child of one fan-out, in the order of the fan-out.
    ///
    /// Fan-outs are counted from 1.
    pub async fn children_of(self, id: impl Into<InstanceId>, round: i32) -> Result<Vec<Child>> {
        self.children_in(id.into(), Some(round)).await
    }

    async fn children_in(self, id: InstanceId, round: Option<i32>) -> Result<Vec<Child>> {
        let mut children: Vec<Child> = Vec::new();
        loop {
            let after = children.last().map(|child| child.id);
            let mut page = self.client.store.children(id, round, after).await?;
            self.client
                .coding
                .decode_children(id, &mut page.rows, "children")?;
            children.extend(page.rows);
            if !page.more {
                return Ok(children);
            }
        }
    }

    /// Reads a page of the signals of an instance after `after`, oldest first.
    ///
    /// [`Rows::more`] says whether more follow.
    pub async fn signals(
        self,
        id: impl Into<InstanceId>,
        after: Option<SignalId>,
    ) -> Result<Rows<SignalRow>> {
        let id = id.into();
        let mut signals = self.client.store.signals(id, after).await?;
        // Only a payload that is bound to a key needs its target.
        let target = match self.client.coding.needs_key(&signals.rows) {
            true => self.client.store.get(id).await?,
            false => None,
        };
        let key = target.as_ref().and_then(|it| {
            let key = it.correlation_key.as_deref()?;
            Some((it.machine.as_str(), key))
        });
        self.client
            .coding
            .decode_signals(&mut signals.rows, key, "signals")?;
        Ok(signals)
    }

    /// Reads events of one run of a workflow or a recorded machine, in order.
    ///
    /// A machine is recorded when its [`HISTORY`](crate::Machine::HISTORY) says so.
    ///
    /// [`EventDetail`](crate::workflow::EventDetail) decodes them. [`Rows::more`] says whether
    /// more follow: a page with large data is shorter than its `max`.
    pub async fn history(self, request: HistoryRequest) -> Result<Rows<Event>> {
        let mut events = self.client.store.history(request).await?;
        if !self.client.coding.is_none() && !events.is_empty() {
            let found = self.client.store.get(request.id).await?;
            let machine = found.map(|instance| instance.machine).unwrap_or_default();
            self.client
                .coding
                .decode_events(&machine, request.id, &mut events.rows, "history")?;
        }
        Ok(events)
    }

    /// Reads the runs whose history is stored, in order. A machine with a history has one run.
    pub async fn histories(self, id: impl Into<InstanceId>) -> Result<Vec<RunSummary>> {
        self.client.store.histories(id.into()).await
    }

    /// Reads every queue that has work, is paused or is served by a live worker, by name.
    pub async fn queues(self) -> Result<Vec<QueueSummary>> {
        let mut queues = self.client.store.queues().await?;
        let now = self.client.store.now().await?;
        let workers = self.client.store.workers().await?;
        let alive = workers.iter().filter(|it| it.lease_expires_at > now);
        for name in alive.flat_map(|worker| &worker.queues) {
            if !queues.iter().any(|queue| queue.name == *name) {
                queues.push(idle(name));
            }
        }
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(queues)
    }

    /// Checks whether a queue of this name exists; suggests other names when it does not.
    ///
    /// A queue exists when it has instances, is paused, or is served by a live worker. The default
    /// queue of a worker's machine and the queue `default` also exist. Then the answer is `None`.
    /// Otherwise the answer lists existing queues, the most similar first, because the name may be
    /// mistyped.
    pub async fn missing_queue(self, name: &str) -> Result<Option<Vec<String>>> {
        let mut names: Vec<String> = self.queues().await?.into_iter().map(|it| it.name).collect();
        let workers = self.client.store.workers().await?;
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

    /// Whether an instance is in this queue, among the newest that one page reads.
    async fn has_instances(self, queue: &str) -> Result<bool> {
        let filter = Filter {
            queue: Some(queue.to_owned()),
            ..Filter::default()
        };
        let request = ListRequest {
            filter,
            limit: 1,
            ..ListRequest::default()
        };
        Ok(!self.client.store.list(request).await?.instances.is_empty())
    }

    /// Reads every registered worker.
    pub async fn workers(self) -> Result<Vec<Worker>> {
        self.client.store.workers().await
    }

    /// Reads the recorded operations, newest first: of one instance, or all.
    pub async fn operations(self, instance: Option<InstanceId>) -> Result<Vec<Operation>> {
        self.client.store.operations(instance).await
    }

    /// Reads a page of the operations that an instance caused on its children, after `after`.
    ///
    /// They are in the order of their ids. The cause is its end, a join that was decided without
    /// them, or a tree.
    pub async fn close_actions(
        self,
        parent: impl Into<InstanceId>,
        after: Option<OperationId>,
    ) -> Result<Vec<Operation>> {
        self.client.store.close_actions(parent.into(), after).await
    }

    /// Counts an instance and its descendants by status; `None` when there is no such instance.
    ///
    /// These are the instances that [`cancel_tree`](Admin::cancel_tree) and
    /// [`terminate_tree`](Admin::terminate_tree) would affect. Counts up to
    /// [`COUNT_MAX`](outlast_core::limits::COUNT_MAX) in all.
    pub async fn family(self, id: impl Into<InstanceId>) -> Result<Option<Family>> {
        self.client.store.family(id.into()).await
    }

    /// Counts the children of an instance by round and status, in the order of the rounds.
    ///
    /// Counts up to [`COUNT_MAX`](outlast_core::limits::COUNT_MAX) children in all, the newest
    /// rounds first.
    pub async fn rounds(self, id: impl Into<InstanceId>) -> Result<Vec<RoundSummary>> {
        self.client.store.rounds(id.into()).await
    }

    /// Counts a slice of all instances, in the order of their ids, by machine, step and status.
    ///
    /// [`StepCounts::next`] starts the next slice. The slices up to a `next` of `None` add up to
    /// the whole table.
    pub async fn count_by_step(self, request: StepCountRequest) -> Result<StepCounts> {
        self.client.store.count_by_step(request).await
    }

    /// Reads run counts and start delays of all engines since `since`, by the minute.
    ///
    /// They are kept for a day and are a few seconds old. The counts of the last seconds before a
    /// crash are missing.
    pub async fn run_stats(self, since: Timestamp) -> Result<RunStats> {
        self.client.store.run_stats(since).await
    }

    /// Checks the database: settings, space, old snapshots.
    ///
    /// It also reports the checks without a problem.
    ///
    /// It runs many queries, so call it rarely.
    pub async fn doctor(self) -> Result<Vec<Finding>> {
        self.client.store.doctor().await
    }

    /// Checks whether the database accepts writes now.
    ///
    /// It commits a small write that leaves nothing behind.
    ///
    /// Each call writes, so reuse an answer for some seconds.
    pub async fn check_writes(self) -> Result<WriteCheck> {
        self.client.store.check_writes().await
    }

    /// Reads the current time of the database.
    pub async fn now(self) -> Result<Timestamp> {
        self.client.store.now().await
    }
}

/// Creates the summary of an empty queue.
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

/// Returns the edit distance of two names.
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
