//! Verbs as values: the calls that both sides get, and their replies.

use super::ids::Ids;
use crate::Database;
use outlast_core::{
    Answer, CancelRequest, Cancelled, CascadeRequest, Cascaded, Child, Claim, ClaimOffer, ClaimRef,
    ClaimRequest, Claimed, CollectRequest, Collected, Commit, Committed, Count, DeleteAnswer,
    Delivered, Delivery, DroppedChild, ErrorKind, Event, Extent, Family, Fired, Flowing, Heartbeat,
    HeldClaim, HistoryRequest, Inserted, Inserts, InstanceId, ListRequest, NeedingRepair,
    NewInstance, NewSignal, NewWorker, Note, Operation, OperationId, Outcome, Park, QueueNames,
    ReapRequest, Reaped, Release, Released, RepairScope, Repaired, Result, Retried, RoundSummary,
    Rows, RunStats, Signal, SignalOrInsert, SignalledOrInserted, StepCountRequest, StepCounts,
    Target, Terminated, TimedOut, Timestamp, WorkerId, limits,
};
use std::time::Duration;

/// One verb with all its arguments.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Insert(Vec<NewInstance>, Option<WorkerId>),
    Claim(ClaimRequest),
    Commit(Vec<Commit>),
    Release(Vec<Release>),
    ClaimsOf(WorkerId),
    Inbox(ClaimRef),
    Deliver(Vec<NewSignal>, Option<ClaimOffer>),
    SignalOrInsert(SignalOrInsert),
    Register(NewWorker),
    Heartbeat(WorkerId, Duration),
    Deregister(WorkerId),
    Reap(ReapRequest),
    Fire(usize),
    TimeOut(usize),
    Collect(CollectRequest),
    NeedingRepair(RepairScope),
    Repair(Vec<InstanceId>, Note),
    Cancel(Vec<InstanceId>, Extent, Note),
    Terminate(Vec<InstanceId>, Extent, Note),
    Cascade(CascadeRequest),
    Retry(Vec<InstanceId>, Note),
    Delete(Vec<InstanceId>, Note),
    Pause(String, Note),
    Resume(String, Note),
    StepCounts(StepCountRequest),
    Rounds(InstanceId),
    CloseActions(InstanceId),
    Family(InstanceId),
    History(HistoryRequest),
    /// A page, and the count of all matches.
    Search(ListRequest),
    /// Records run statistics, and reads them back.
    Record(RunStats),
}

/// The answer of a verb.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Inserted(Inserts),
    Claimed(Claimed),
    Committed(Committed),
    Released(Released),
    Claims(Vec<HeldClaim>),
    Inbox(Option<Vec<Signal>>),
    Delivered(Delivered),
    SignalledOrInserted(SignalledOrInserted),
    Registered(WorkerId),
    Beat(Heartbeat),
    Deregistered,
    Reaped(Reaped),
    Fired(Fired),
    TimedOut(TimedOut),
    Collected(Collected),
    NeedingRepair(NeedingRepair),
    Repaired(Repaired),
    Cancelled(Cancelled),
    Terminated(Terminated),
    Cascaded(Cascaded),
    Retried(Retried),
    Deleted(Vec<DeleteAnswer>),
    Changed(bool),
    Counted(StepCounts),
    Rounds(Vec<RoundSummary>),
    CloseActions(Vec<Operation>),
    Family(Option<Family>),
    History(Rows<Event>),
    Found(Vec<InstanceId>, Option<InstanceId>, Count),
    Recorded(RunStats),
    Refused(ErrorKind, String),
}

impl Call {
    /// Sends the verb to a store.
    pub(super) async fn send(self, store: &dyn Database) -> Reply {
        match self.answer(store).await {
            Ok(reply) => reply,
            Err(error) => Reply::Refused(error.kind(), error.to_string()),
        }
    }

    async fn answer(self, store: &dyn Database) -> Result<Reply> {
        Ok(match self {
            Call::Insert(rows, worker) => Reply::Inserted(store.insert(rows, worker).await?),
            Call::Claim(request) => Reply::Claimed(store.claim(request).await?),
            Call::Commit(commits) => Reply::Committed(store.commit(commits.into()).await?),
            Call::Release(releases) => Reply::Released(store.release(releases).await?),
            Call::ClaimsOf(worker) => Reply::Claims(store.claims_of(worker).await?),
            Call::Inbox(claim) => Reply::Inbox(store.inbox(claim).await?),
            Call::Deliver(signals, offer) => Reply::Delivered(store.deliver(signals, offer).await?),
            Call::SignalOrInsert(request) => {
                Reply::SignalledOrInserted(store.signal_or_insert(request).await?)
            }
            Call::Register(worker) => Reply::Registered(store.register(worker).await?),
            Call::Heartbeat(worker, lease) => Reply::Beat(store.heartbeat(worker, lease).await?),
            Call::Deregister(worker) => {
                store.deregister(worker).await?;
                Reply::Deregistered
            }
            Call::Reap(request) => Reply::Reaped(store.reap(request).await?),
            Call::Fire(max) => Reply::Fired(store.fire(max).await?),
            Call::TimeOut(max) => Reply::TimedOut(store.time_out(max).await?),
            Call::Collect(request) => Reply::Collected(store.collect(request).await?),
            Call::NeedingRepair(scope) => Reply::NeedingRepair(store.needing_repair(scope).await?),
            Call::Repair(ids, note) => Reply::Repaired(store.repair(ids, note).await?),
            Call::Cancel(ids, extent, note) => {
                Reply::Cancelled(store.cancel(ids, extent, note).await?)
            }
            Call::Terminate(ids, extent, note) => {
                Reply::Terminated(store.terminate(ids, extent, note).await?)
            }
            Call::Cascade(request) => Reply::Cascaded(store.cascade(request).await?),
            Call::Retry(ids, note) => Reply::Retried(store.retry(ids, note).await?),
            Call::Delete(ids, note) => Reply::Deleted(store.delete(ids, note).await?),
            Call::Pause(queue, note) => Reply::Changed(store.pause(&queue, note).await?),
            Call::Resume(queue, note) => Reply::Changed(store.resume(&queue, note).await?),
            Call::StepCounts(request) => Reply::Counted(store.count_by_step(request).await?),
            Call::Rounds(id) => Reply::Rounds(store.rounds(id).await?),
            Call::CloseActions(parent) => Reply::CloseActions(close_actions(store, parent).await?),
            Call::Family(id) => Reply::Family(store.family(id).await?),
            Call::History(request) => Reply::History(store.history(request).await?),
            Call::Search(request) => {
                let count = store.count(request.filter.clone()).await?;
                let page = store.list(request).await?;
                let ids = page.instances.iter().map(|row| row.id).collect();
                Reply::Found(ids, page.next, count)
            }
            Call::Record(stats) => {
                store.add_run_stats(stats).await?;
                Reply::Recorded(store.run_stats(Timestamp(0)).await?)
            }
        })
    }

    /// Returns the call with the ids of the other side.
    pub(super) fn renamed(mut self, ids: &Ids) -> Call {
        match &mut self {
            Call::Insert(_, worker) => worker.iter_mut().for_each(|it| ids.rename_worker(it)),
            Call::Claim(request) => ids.rename_worker(&mut request.worker),
            Call::Commit(commits) => {
                for commit in commits {
                    ids.rename(&mut commit.claim.id);
                    commit
                        .received
                        .iter_mut()
                        .for_each(|it| ids.rename_signal(it));
                    let replies = commit.replies.iter_mut();
                    replies.for_each(|it| ids.rename_signal(&mut it.signal));
                    if let Outcome::Flow {
                        then:
                            Flowing::Park(Park {
                                join_sets: Some(ends),
                                ..
                            }),
                        ..
                    } = &mut commit.outcome
                    {
                        for part in &mut ends.sets {
                            ids.rename_all(&mut part.children);
                        }
                    }
                }
            }
            Call::Release(releases) => {
                releases
                    .iter_mut()
                    .for_each(|it| ids.rename(&mut it.claim.id));
            }
            Call::Deliver(signals, offer) => {
                offer
                    .iter_mut()
                    .for_each(|it| ids.rename_worker(&mut it.worker));
                for signal in signals {
                    if let Target::Id(id) = &mut signal.target {
                        ids.rename(id);
                    }
                }
            }
            Call::ClaimsOf(worker) | Call::Heartbeat(worker, _) | Call::Deregister(worker) => {
                ids.rename_worker(worker);
            }
            Call::NeedingRepair(RepairScope::Page { after, .. }) => {
                after.iter_mut().for_each(|it| ids.rename(it));
            }
            Call::Cancel(named, ..)
            | Call::Terminate(named, ..)
            | Call::Retry(named, _)
            | Call::Repair(named, _)
            | Call::NeedingRepair(RepairScope::Ids(named))
            | Call::Delete(named, _) => ids.rename_all(named),
            Call::StepCounts(request) => request.after.iter_mut().for_each(|it| ids.rename(it)),
            Call::Inbox(claim) => ids.rename(&mut claim.id),
            Call::Rounds(id) | Call::CloseActions(id) | Call::Family(id) => ids.rename(id),
            Call::History(request) => ids.rename(&mut request.id),
            Call::Search(request) => {
                let parent = request.filter.parent.iter_mut();
                let named = parent.chain(&mut request.before);
                named.for_each(|it| ids.rename(it));
            }
            Call::Cascade(_)
            | Call::Record(_)
            | Call::SignalOrInsert(_)
            | Call::Register(_)
            | Call::Reap(_)
            | Call::Fire(_)
            | Call::TimeOut(_)
            | Call::Collect(_)
            | Call::Pause(..)
            | Call::Resume(..) => {}
        }
        self
    }
}

impl Reply {
    /// Returns the reply with the ids of the other side.
    pub(super) fn renamed(mut self, ids: &Ids) -> Reply {
        match &mut self {
            Reply::Inserted(inserts) => inserts.rows.iter_mut().for_each(|row| match row {
                Inserted::New { id, .. } => ids.rename(id),
                Inserted::Duplicate { holder } => holder.iter_mut().for_each(|it| ids.rename(it)),
            }),
            Reply::Claimed(claimed) => claimed
                .claims
                .iter_mut()
                .for_each(|it| rename_claim(it, ids)),
            Reply::Claims(claims) => {
                for held in claims {
                    ids.rename(&mut held.claim.id);
                    rename_reasons(&mut None, &mut held.cancel, ids);
                }
            }
            Reply::Delivered(delivered) => {
                let answers = delivered.answers.iter_mut();
                answers.for_each(|it| rename_delivery(it, ids));
                let claims = delivered.claims.iter_mut();
                claims.for_each(|it| rename_claim(it, ids));
            }
            Reply::SignalledOrInserted(answer) => {
                answer.inserted.iter_mut().for_each(|it| ids.rename(it));
                rename_delivery(&mut answer.delivery, ids);
            }
            Reply::Registered(worker) => ids.rename_worker(worker),
            Reply::Reaped(reaped) => {
                ids.rename_all(&mut reaped.returned);
                ids.rename_all(&mut reaped.failed);
                reaped
                    .removed
                    .iter_mut()
                    .for_each(|it| ids.rename_worker(it));
            }
            Reply::Fired(fired) => ids.rename_all(&mut fired.woken_instances),
            Reply::TimedOut(timed_out) => {
                ids.rename_all(&mut timed_out.ended);
                ids.rename_all(&mut timed_out.running);
            }
            Reply::Collected(collected) => ids.rename_all(&mut collected.removed),
            Reply::NeedingRepair(needing) => {
                needing.found.iter_mut().for_each(|(id, _)| ids.rename(id));
                needing.next.iter_mut().for_each(|it| ids.rename(it));
            }
            Reply::Deleted(answers) => {
                for answer in answers {
                    if let DeleteAnswer::ParentLives(parent) = answer {
                        ids.rename(parent);
                    }
                }
            }
            Reply::Committed(committed) => {
                for answer in &mut committed.answers {
                    match answer {
                        Answer::Committed {
                            cancel,
                            latest_signal,
                            ..
                        } => {
                            rename_reasons(&mut None, cancel, ids);
                            latest_signal
                                .iter_mut()
                                .for_each(|it| ids.rename_signal(it));
                        }
                        Answer::Cancel(cancel) => ids.rename_in(&mut cancel.reason),
                        Answer::Lost | Answer::Rejected(_) => {}
                    }
                }
            }
            Reply::Inbox(inbox) => {
                let signals = inbox.iter_mut().flatten();
                signals.for_each(|it| ids.rename_signal(&mut it.id));
            }
            Reply::Cascaded(cascaded) => {
                ids.rename_all(&mut cascaded.requested);
                ids.rename_all(&mut cascaded.ended);
                ids.rename_all(&mut cascaded.running);
            }
            Reply::CloseActions(operations) => rename_operations(operations, ids),
            Reply::Counted(counts) => counts.next.iter_mut().for_each(|it| ids.rename(it)),
            Reply::Found(found, next, _) => {
                ids.rename_all(found);
                next.iter_mut().for_each(|it| ids.rename(it));
            }
            Reply::Rounds(_)
            | Reply::Family(_)
            | Reply::History(_)
            | Reply::Recorded(_)
            | Reply::Released(_)
            | Reply::Beat(_)
            | Reply::Deregistered
            | Reply::Cancelled(_)
            | Reply::Terminated(_)
            | Reply::Retried(_)
            | Reply::Repaired(_)
            | Reply::Changed(_)
            | Reply::Refused(..) => {}
        }
        self
    }

    /// Takes the hints out of the reply.
    pub(super) fn take_woken(&mut self) -> QueueNames {
        match self {
            Reply::Inserted(it) => std::mem::take(&mut it.woken),
            Reply::Committed(it) => std::mem::take(&mut it.woken),
            Reply::Released(it) => std::mem::take(&mut it.woken),
            Reply::Delivered(it) => std::mem::take(&mut it.woken),
            Reply::SignalledOrInserted(it) => std::mem::take(&mut it.woken),
            Reply::Reaped(it) => std::mem::take(&mut it.woken),
            Reply::Fired(it) => std::mem::take(&mut it.woken),
            Reply::TimedOut(it) => std::mem::take(&mut it.woken),
            Reply::Repaired(it) => std::mem::take(&mut it.woken),
            Reply::Cancelled(it) => std::mem::take(&mut it.woken),
            Reply::Terminated(it) => std::mem::take(&mut it.woken),
            Reply::Cascaded(it) => std::mem::take(&mut it.woken),
            Reply::Retried(it) => std::mem::take(&mut it.woken),
            Reply::Claimed(_)
            | Reply::NeedingRepair(_)
            | Reply::Claims(_)
            | Reply::Inbox(_)
            | Reply::Registered(_)
            | Reply::Beat(_)
            | Reply::Deregistered
            | Reply::Collected(_)
            | Reply::Deleted(_)
            | Reply::Changed(_)
            | Reply::Counted(_)
            | Reply::Rounds(_)
            | Reply::CloseActions(_)
            | Reply::Family(_)
            | Reply::History(_)
            | Reply::Found(..)
            | Reply::Recorded(_)
            | Reply::Refused(..) => QueueNames::new(),
        }
    }
}

fn rename_delivery(delivery: &mut Delivery, ids: &Ids) {
    match delivery {
        Delivery::Delivered { id, instance, .. } => {
            ids.rename_signal(id);
            ids.rename(instance);
        }
        Delivery::Duplicate { instance } | Delivery::InboxFull { instance } => {
            ids.rename(instance);
        }
        Delivery::NoTarget => {}
    }
}

fn rename_claim(claim: &mut Claim, ids: &Ids) {
    ids.rename(&mut claim.id);
    claim
        .parent
        .iter_mut()
        .for_each(|it| ids.rename(&mut it.id));
    claim
        .inbox
        .iter_mut()
        .for_each(|it| ids.rename_signal(&mut it.id));
    let rename_child = |child: &mut Child| {
        ids.rename(&mut child.id);
        rename_reasons(&mut child.last_error, &mut None, ids);
    };
    claim.children.iter_mut().for_each(rename_child);
    rename_dropped(&mut claim.dropped, ids);
    rename_reasons(&mut None, &mut claim.cancel, ids);
    claim.first_failure.iter_mut().for_each(|it| ids.rename(it));
}

/// Renames the ids in reasons: an operation that a parent caused names it.
pub(super) fn rename_reasons(
    error: &mut Option<String>,
    cancel: &mut Option<CancelRequest>,
    ids: &Ids,
) {
    error.iter_mut().for_each(|it| ids.rename_in(it));
    cancel
        .iter_mut()
        .for_each(|it| ids.rename_in(&mut it.reason));
}

/// Makes operations comparable by their content.
///
/// The store chooses their ids, and the contract fixes no order between operations of one moment.
pub(super) fn rename_operations(operations: &mut [Operation], ids: &Ids) {
    for operation in operations.iter_mut() {
        let named = operation.instance.iter_mut().chain(&mut operation.cause);
        named.for_each(|it| ids.rename(it));
        rename_reasons(&mut operation.reason, &mut None, ids);
    }
    sort_operations(operations);
}

pub(super) fn sort_operations(operations: &mut [Operation]) {
    operations.iter_mut().for_each(|it| it.id = OperationId(0));
    operations.sort_by_key(|it| {
        (
            it.at,
            it.verb.as_str(),
            it.instance,
            it.queue.clone(),
            it.status_before,
        )
    });
}

/// Reads all operations that a parent caused, page by page.
///
/// Each page continues after the previous one.
async fn close_actions(store: &dyn Database, parent: InstanceId) -> Result<Vec<Operation>> {
    let mut all: Vec<Operation> = Vec::new();
    loop {
        let after = all.last().map(|it| it.id);
        let page = store.close_actions(parent, after).await?;
        let last = page.len() < limits::PAGE_MAX;
        all.extend(page);
        if last {
            assert!(
                all.is_sorted_by(|a, b| a.id < b.id),
                "the ids of the operations grow"
            );
            sort_operations(&mut all);
            return Ok(all);
        }
    }
}

pub(super) fn rename_dropped(dropped: &mut [DroppedChild], ids: &Ids) {
    for child in dropped {
        child.holder.iter_mut().for_each(|it| ids.rename(it));
    }
}
