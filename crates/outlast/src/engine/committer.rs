//! Writes outcomes: at once when idle, otherwise together with all that wait.
//!
//! Executors hand outcomes over through an [`CommitSender`]. An outcome is never written without the
//! fence of its claim.
//!
//! A commit waits for the disk and for the server's work on its rows. So two *hands* take turns:
//! while one commit is under way, the other hand gathers and sends. No outcome waits for a batch
//! to fill.

use super::backoff::Backoff;
use super::node::Node;
use crate::codec::Unreadable;
use crate::metrics;
use outlast_core::{
    Answer, CancelRequest, Commit, Committed, Due, Error, ErrorKind, Hints, Invalid, NewEvent,
    Outcome, Revision, SignalId, Status, Timestamp,
};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

/// The most outcomes in one commit. It is one transaction, and others wait for its locks.
const BATCH_MAX: usize = 1_000;
/// The most outcomes that wait for a commit. Above it, tasks wait to hand theirs over.
const WAITING_MAX: usize = 10_000;

/// Commits under way at a time. Two keep the server busy while answers are read. More would only
/// make each commit smaller.
pub(crate) const HANDS: usize = 2;
/// A commit beside another has at least this share of its size. The exception is a commit that
/// takes longer than usual: it may wait for a foreign lock.
const SMALLEST_SHARE: usize = 2;
const SHARE_PATIENCE: Duration = Duration::from_millis(20);

/// Writes the outcomes of the executors. Clones are hands that share the inbox.
#[derive(Clone)]
pub(crate) struct Committer {
    node: Arc<Node>,
    inbox: Arc<Mutex<mpsc::Receiver<Pending>>>,
    /// How many outcomes are being written.
    under_way: watch::Sender<usize>,
}

/// Where executors hand their outcomes over.
#[derive(Clone)]
pub(crate) struct CommitSender {
    sender: mpsc::Sender<Pending>,
}

/// An outcome that waits for its commit.
pub(crate) struct Pending {
    commit: Commit,
    reply_to: ReplyTo,
}

/// The task that waits for an outcome.
struct ReplyTo {
    /// Where the instance can be claimed afterwards; `None` if the claim is kept.
    queue: Option<String>,
    reply: oneshot::Sender<Written>,
}

/// The answer to an outcome.
#[derive(Debug)]
pub(crate) enum Written {
    /// The outcome is durable.
    Committed {
        /// The revision after the commit.
        revision: Revision,
        /// The outcome that was written.
        outcome: Outcome,
        /// The events that were added to the history.
        events: Vec<NewEvent>,
        /// A cancel request that the next step must answer, if the claim is kept.
        cancel: Option<CancelRequest>,
        /// The latest signal since the claim, if the claim is kept.
        latest_signal: Option<SignalId>,
        /// When it was written, by the database's clock.
        at: Timestamp,
    },
    /// A cancel request came first that the outcome does not answer. The claim is kept.
    Cancelled {
        cancel: CancelRequest,
        /// The events that were not added to the history.
        events: Vec<NewEvent>,
    },
    /// The claim was no longer this worker's.
    ///
    /// Or an earlier attempt wrote this outcome and its answer was lost.
    Lost,
    /// The outcome can never be written.
    Rejected(Invalid),
    /// The outcome was not sent: the codec does not work.
    Unencoded(Unreadable),
    /// The store or the engine was closed first.
    Closed,
}

impl CommitSender {
    /// Hands an outcome over and waits until it is durable, or known not to be.
    pub(crate) async fn write(&self, commit: Commit, queue: &str) -> Written {
        let (reply, written) = oneshot::channel();
        let queue = (!commit.outcome.keeps_claim()).then(|| queue.to_owned());
        let reply_to = ReplyTo { queue, reply };
        let pending = Pending { commit, reply_to };
        if self.sender.send(pending).await.is_err() {
            return Written::Closed;
        }
        written.await.unwrap_or(Written::Closed)
    }
}

impl Committer {
    pub(crate) fn new(node: Arc<Node>) -> (Committer, CommitSender) {
        let (sender, inbox) = mpsc::channel(WAITING_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        let under_way = watch::Sender::default();
        let committer = Committer {
            node,
            inbox,
            under_way,
        };
        (committer, CommitSender { sender })
    }

    /// Runs until every outbox is dropped and everything is written.
    pub(crate) async fn run(self) {
        while self.run_once().await {}
    }

    /// Waits for outcomes and writes those that have gathered. Returns `false` when no more can
    /// come.
    pub(crate) async fn run_once(&self) -> bool {
        let batch = self.gather().await;
        let outcomes = batch.len();
        if outcomes == 0 {
            return false;
        }
        self.write(batch).await;
        self.under_way.send_modify(|sum| *sum -= outcomes);
        true
    }

    /// Returns the outcomes that have arrived, at least one; none when no more can come.
    ///
    /// Tasks that are about to hand theirs over get one turn first: the first of many must not go
    /// alone. No small commit goes beside a large one. Each waits for the disk, and the remaining
    /// outcomes wait for it.
    async fn gather(&self) -> Vec<Pending> {
        let mut batch = Vec::new();
        let mut inbox = self.inbox.lock().await;
        inbox.recv_many(&mut batch, BATCH_MAX).await;
        give_way().await;
        let mut under_way = self.under_way.subscribe();
        let patience = Instant::now() + SHARE_PATIENCE;
        loop {
            while batch.len() < BATCH_MAX
                && let Ok(next) = inbox.try_recv()
            {
                batch.push(next);
            }
            let other = *under_way.borrow_and_update();
            if batch.len() >= BATCH_MAX || batch.len() * SMALLEST_SHARE >= other {
                break;
            }
            tokio::select! {
                _ = under_way.changed() => {}
                () = tokio::time::sleep_until(patience) => break,
                next = inbox.recv() => match next {
                    Some(next) => batch.push(next),
                    None => break,
                },
            }
        }
        self.under_way.send_modify(|sum| *sum += batch.len());
        batch
    }

    /// Writes a batch, and tries until the store answers.
    ///
    /// An outcome is never given up while there is a store to write it to.
    async fn write(&self, batch: Vec<Pending>) {
        let batch = batch.into_iter().map(|it| (it.commit, it.reply_to));
        let (commits, askers): (Vec<_>, Vec<_>) = batch.unzip();
        let outcomes = commits.len();
        let commits = Arc::new(commits);
        let mut backoff = Backoff::default();
        loop {
            let span = tracing::debug_span!("commit_batch", outcomes);
            let started = Instant::now();
            let commit = self.node.store().commit(commits.clone()).instrument(span);
            let error = match commit.await {
                Ok(committed) => {
                    metrics::committed(outcomes, started.elapsed());
                    return self.answer(Arc::unwrap_or_clone(commits), askers, committed);
                }
                Err(error) => error,
            };
            metrics::store_error("committer");
            #[cfg(outlast_mutants)]
            if outlast_core::mutant::is("broken-commit-is-given-up") {
                return;
            }
            if self.is_final(&error) {
                tracing::error!(%error, outcomes, "outcomes could not be written");
                // Dropping the reply means `Closed` to the waiting tasks.
                return;
            }
            tracing::warn!(%error, outcomes, "could not commit; trying again");
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Returns whether another attempt is useless.
    ///
    /// The store isolates a bad row by itself, so an error for the whole batch is temporary. The
    /// exceptions are a closed store and a batch that no task waits for.
    fn is_final(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Closed => true,
            ErrorKind::Transient
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::Corrupt => self.node.stop.grace.is_cancelled(),
        }
    }

    /// Answers every waiting task, and returns its outcome to it.
    fn answer(&self, commits: Vec<Commit>, askers: Vec<ReplyTo>, committed: Committed) {
        let mut hints = Hints::now(committed.woken);
        hints.cascades = committed.cascades;
        for ((commit, reply_to), answer) in commits.iter().zip(&askers).zip(&committed.answers) {
            if let Answer::Committed {
                status, revision, ..
            } = answer
            {
                let queue = reply_to.queue.as_deref();
                self.note(&mut hints, commit, queue, *status, *revision);
            }
        }
        // Publish the hints first: a task that gets its answer may ask for what the outcome
        // caused.
        self.node.client.hub.publish(self.node.store(), hints);
        for ((commit, reply_to), answer) in commits.into_iter().zip(askers).zip(committed.answers) {
            let Commit {
                outcome, events, ..
            } = commit;
            let written = match answer {
                Answer::Committed {
                    revision,
                    cancel,
                    latest_signal,
                    at,
                    ..
                } => Written::Committed {
                    revision,
                    outcome,
                    events,
                    cancel,
                    latest_signal,
                    at,
                },
                Answer::Cancel(cancel) => Written::Cancelled { cancel, events },
                Answer::Lost => Written::Lost,
                Answer::Rejected(invalid) => Written::Rejected(invalid),
            };
            // A task that has gone away needs no answer.
            let _ = reply_to.reply.send(written);
        }
    }

    /// Adds the hints for other nodes that follow from a written outcome.
    fn note(
        &self,
        hints: &mut Hints,
        commit: &Commit,
        queue: Option<&str>,
        status: Status,
        revision: Revision,
    ) {
        let (id, outcome) = (commit.claim.id, &commit.outcome);
        match status {
            Status::Executing => {}
            Status::Runnable => {
                let delay = match outcome {
                    Outcome::Retry { delay, .. } => *delay,
                    Outcome::Next { .. }
                    | Outcome::Wait { .. }
                    | Outcome::FanOut { .. }
                    | Outcome::Flow { .. }
                    | Outcome::ContinueAsNew { .. }
                    | Outcome::Done { .. }
                    | Outcome::Fail { .. }
                    | Outcome::Cancel { .. } => Duration::ZERO,
                };
                if let Some(queue) = queue {
                    hints.queue(queue, delay);
                }
            }
            Status::AwaitingSignal | Status::Sleeping => {
                if let Outcome::Wait {
                    timeout: Some(timeout),
                    ..
                } = outcome
                {
                    hints.deadline(*timeout);
                }
                note_park(hints, outcome);
                self.node.client.hub.moved(id);
            }
            Status::AwaitingChildren => {
                if let Outcome::FanOut { join, .. } = outcome
                    && let Some(deadline) = join.deadline
                {
                    hints.deadline(deadline);
                }
                note_park(hints, outcome);
                self.node.client.hub.moved(id);
            }
            Status::Done | Status::Failed | Status::Cancelled => {
                self.node.client.hub.ended(id, revision, outcome);
                hints.ended.push(id);
            }
        }
    }
}

/// Adds the deadline of a parked workflow to the hints.
///
/// How far away an absolute time is, is not known here: the database's clock decides. So the
/// timers look at once.
fn note_park(hints: &mut Hints, outcome: &Outcome) {
    match outcome.park().and_then(|park| park.deadline) {
        Some(Due::After(delay)) => hints.deadline(delay),
        Some(Due::At(_)) => hints.deadline(Duration::ZERO),
        None => {}
    }
}

/// Lets other tasks run first.
///
/// The runtime's `yield_now` keeps the task on its thread. A step that blocks that thread would
/// then stop every commit, while the heartbeat goes on and no other worker takes over.
async fn give_way() {
    let mut given = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
