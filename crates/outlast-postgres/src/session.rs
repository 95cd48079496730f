//! Transactions on pooled connections: pipelined, bounded, and retried after conflicts.
//!
//! Every verb runs its statements through this file. No user code runs inside a transaction.
//!
//! Nothing here opens a savepoint. A subtransaction writes another `xmin`, and the statements of a
//! commit find their own rows by `xmin` (docs/decisions/0008).

pub(crate) mod conductor;
pub(crate) mod statement;
pub(crate) mod tx_settings;

use crate::connection::{Pool, Pooled, Preparable};
use crate::doctor::write_check::FullDisk;
use crate::error::Failure;
use crate::hints::listen::Channel;
use crate::session::conductor::Conductor;
use crate::session::statement::{Call, Texts, Timekeeper};
use crate::session::tx_settings::{TimeLimits, TxKind};
use crate::transaction::Schema;
use futures_util::future::join_all;
use outlast_core::{Clock, Error};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::Row;

/// How often a transaction is tried when it conflicts with others.
///
/// The pauses add up to an eighth of a second. That is longer than a queue of short transactions.
const TRIES_MAX: u32 = 8;

/// The rows of each call, in the order of the calls.
pub(crate) type Answers = Vec<Vec<Row>>;

/// The state that all connections of a store share.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) limits: TimeLimits,
    /// A test's clock; `None` for the server's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Whether statements are prepared by name, or sent as text each time. A server process that
    /// lacks a statement turns it off for good (docs/decisions/0010).
    pub(crate) named: AtomicBool,
    /// Whether instances are started and signalled through the schema's functions.
    pub(crate) enqueue_only: bool,
    /// A test's control over the order of statements; `None` in every other store.
    pub(crate) conductor: Option<Arc<dyn Conductor>>,
    /// The statements for users' own transactions.
    pub(crate) transactions: Schema,
    /// Whether the server has recently reported a full disk.
    pub(crate) full_disk: FullDisk,
    /// The notification channel.
    pub(crate) channel: Channel,
}

impl Session {
    /// Runs one transaction in one round trip.
    ///
    /// All calls are sent before the first answer comes, so no call can depend on an answer.
    pub(crate) async fn transact(
        &self,
        tx_kind: TxKind,
        calls: &[Call<'_>],
    ) -> Result<Answers, Failure> {
        self.begin(tx_kind).await?.finish(calls).await
    }

    /// Begins a transaction of several round trips. Nothing is sent before its first call.
    ///
    /// It keeps its connection and its locks until it ends, over every round trip in between.
    pub(crate) async fn begin(&self, tx_kind: TxKind) -> Result<Transaction<'_>, Failure> {
        let client = self.pool.get().await.map_err(Failure::Pool)?;
        Ok(Transaction {
            session: self,
            client: Some(client),
            tx_kind,
            begun: false,
        })
    }

    /// Runs `once` until it does not conflict with others, a bounded number of times.
    ///
    /// `once` is the whole transaction: the server has rolled back every failure that is tried
    /// again. So `once` must change nothing of its caller before it succeeds.
    ///
    /// A broken connection is not tried again here, because the server may have committed. Only
    /// the caller knows whether its verb can be sent twice (docs/protocol.md, defect 13).
    pub(crate) async fn retry<'a, T>(
        &self,
        operation: &'static str,
        once: impl Fn() -> Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>> + Send,
    ) -> Result<T, Error> {
        let mut tries = 0;
        loop {
            let failure = match once().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tries += 1;
            if !self.may_help(&failure) || tries == TRIES_MAX {
                return Err(failure.during(operation));
            }
            tracing::debug!(
                operation,
                tries,
                "trying again: two transactions were in each other's way"
            );
            tokio::time::sleep(pause_after(tries)).await;
        }
    }

    /// Returns whether a retry can help. Also remembers what the failure reveals about the server.
    pub(crate) fn may_help(&self, failure: &Failure) -> bool {
        if failure.is_missing_statement() {
            // The whole store stops naming statements: its pool leads through one URL. The retry
            // then sends texts, so it cannot fail for the same reason.
            if self.named.swap(false, Ordering::Relaxed) {
                tracing::info!(
                    "the connection does not keep prepared statements (a pooler in transaction mode): sending them whole from now on"
                );
            }
            return true;
        }
        if failure.is_disk_full() {
            self.full_disk.note();
        }
        failure.is_contention() || failure.is_lost_race_for_a_key()
    }

    /// Refuses new work, and waits until every connection is back in the pool.
    pub(crate) async fn close(&self) {
        self.channel.close().await;
        self.pool.close();
        // The pool cannot wait for connections that are in use, so this looks every millisecond.
        while self.pool.status().size > self.pool.status().available {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns the SQL that begins a transaction. The settings are in it and cost no round trip.
    fn opening(&self, tx_kind: TxKind, client: &Pooled, named: bool) -> Cow<'static, str> {
        let mut sql = match named {
            true => client.opening(tx_kind, &self.limits),
            false => self.limits.opening(tx_kind).into(),
        };
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("isolation-of-the-database") {
            sql = sql.replace(" isolation level read committed", "").into();
        }
        // Set in each transaction: a test moves its clock between two of them.
        if let Some(clock) = &self.clock {
            sql.to_mut().push_str(&format!(
                "; set local {} = {}",
                Timekeeper::SETTING,
                clock.now().0
            ));
        }
        sql
    }
}

/// Returns a growing pause with jitter, so that two transactions do not collide again.
fn pause_after(tries: u32) -> Duration {
    let jitter = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| u64::from(now.subsec_nanos()) % 1_000);
    Duration::from_micros((1 << tries) * 500 + jitter * u64::from(tries))
}

/// An open transaction.
///
/// Dropping it unfinished closes its connection, and the server rolls back. So no connection
/// returns to the pool inside a transaction. A drop cannot wait for a rollback, and a dropped verb
/// may still have a statement that runs on the server.
pub(crate) struct Transaction<'s> {
    session: &'s Session,
    client: Option<Pooled>,
    tx_kind: TxKind,
    /// Whether something may have been sent. Such a connection must not go back to the pool before
    /// the end of the transaction.
    begun: bool,
}

/// The position of an exchange in its transaction.
#[derive(Clone, Copy)]
struct Frame {
    opening: bool,
    last: bool,
    /// The exchange is one statement and the whole transaction: no `begin`, no `commit`.
    alone: bool,
}

/// One message of a pipeline.
enum PipelineMessage<'a, 'p> {
    /// SQL without parameters: the `begin` with its settings, or the `commit`.
    Plain(Cow<'static, str>),
    /// A call of a statement that is prepared on this connection.
    Named(tokio_postgres::Statement, &'a Call<'p>),
    /// A call with the whole text. It leaves nothing prepared on the server.
    Whole(&'a str, &'a Call<'p>),
}

impl Transaction<'_> {
    /// Sends `calls` together and waits for their answers. The transaction stays open.
    pub(crate) async fn run(&mut self, calls: &[Call<'_>]) -> Result<Answers, Failure> {
        let answers = self.exchange(calls, false).await;
        if let Err(failure) = &answers {
            self.take_back(failure).await;
        }
        answers
    }

    /// Sends `calls` and the commit together.
    pub(crate) async fn finish(mut self, calls: &[Call<'_>]) -> Result<Answers, Failure> {
        let answers = self.exchange(calls, true).await;
        match &answers {
            Ok(_) => self.return_connection(),
            Err(failure) => self.take_back(failure).await,
        }
        answers
    }

    async fn exchange(&mut self, calls: &[Call<'_>], last: bool) -> Result<Answers, Failure> {
        let Some(client) = &self.client else {
            return Err(Failure::Verb(Error::Corrupt {
                operation: "transaction",
                reason: "a call after the transaction was over".into(),
                source: None,
            }));
        };
        // Set before anything is sent: a future that is dropped half-way must not return its
        // connection.
        let opening = !std::mem::replace(&mut self.begun, true);
        let frame = Frame {
            opening,
            last,
            alone: opening && last && self.session.goes_alone(client, self.tx_kind, calls),
        };
        let messages = self
            .session
            .messages(client, self.tx_kind, frame, calls)
            .await?;
        if frame.alone {
            let answers = pipeline(client, messages).await;
            // A single statement is committed or rolled back by now.
            self.begun = false;
            return answers;
        }
        let answers = match &self.session.conductor {
            None => pipeline(client, messages).await?,
            Some(conductor) => conducted(client, messages, conductor.as_ref()).await?,
        };
        // The answers of `begin` and `commit` are left out.
        let first = usize::from(opening);
        Ok(answers.into_iter().skip(first).take(calls.len()).collect())
    }

    /// Rolls back after a failure.
    ///
    /// Drops a connection that may not write. The pool connects again and follows the failover.
    async fn take_back(&mut self, failure: &Failure) {
        if failure.is_read_only() {
            self.client.take().map(Pooled::take);
            return;
        }
        self.roll_back().await;
    }

    /// Rolls back. For a verb that finds after its first statements that it must write nothing.
    pub(crate) async fn abandon(mut self) {
        self.roll_back().await;
    }

    async fn roll_back(&mut self) {
        let Some(client) = self.client.as_ref().filter(|_| self.begun) else {
            return;
        };
        // If nothing was sent before the failure, the server only warns. If this fails, the drop
        // closes the connection.
        if client.batch_execute("rollback").await.is_ok() {
            self.return_connection();
        }
    }

    fn return_connection(&mut self) {
        self.client = None;
    }
}

impl Drop for Transaction<'_> {
    /// Takes the connection of an unfinished transaction out of the pool, and closes it.
    fn drop(&mut self) {
        match self.client.take() {
            Some(client) if self.begun => drop(Pooled::take(client)),
            _ => {}
        }
    }
}

impl Session {
    /// Returns the messages of one exchange.
    ///
    /// Statements are prepared before anything is sent, once per connection. Inside an open
    /// transaction they are prepared in that transaction. Behind a pooler, only the transaction is
    /// sure to stay on one server process.
    async fn messages<'a, 'p>(
        &'a self,
        client: &Pooled,
        tx_kind: TxKind,
        frame: Frame,
        calls: &'a [Call<'p>],
    ) -> Result<Vec<PipelineMessage<'a, 'p>>, Failure> {
        // Read once: another verb may switch it meanwhile, and `begin` must fit the calls. Behind
        // a pooler, the `begin` of named calls checks that the server process has the statements.
        let named = self.named.load(Ordering::Relaxed);
        let mut messages = Vec::with_capacity(calls.len() + 2);
        if named {
            let wanted = self.preparable(calls);
            match frame.opening {
                true => client.prepare(&wanted, &self.limits).await?,
                false => client.prepare_inside(&wanted).await?,
            }
        }
        if frame.opening && !frame.alone {
            let sql = self.opening(tx_kind, client, named);
            messages.push(PipelineMessage::Plain(sql));
        }
        for call in calls {
            let prepared = named.then(|| client.statement(call.statement.name));
            messages.push(match prepared.flatten() {
                Some(statement) => PipelineMessage::Named(statement, call),
                None => PipelineMessage::Whole(self.text(call), call),
            });
        }
        if frame.last && !frame.alone {
            let commit = "commit";
            #[cfg(outlast_mutants)]
            let commit = match outlast_core::mutant::is("transaction-stays-open") {
                true => "commit and chain",
                false => commit,
            };
            messages.push(PipelineMessage::Plain(commit.into()));
        }
        Ok(messages)
    }

    /// Returns whether the calls need no `begin` and `commit`.
    ///
    /// This is so for one statement on a connection with the right settings. Each saved message
    /// also saves the server's answer.
    ///
    /// Claims and queries have settings of their own, which only a `begin` can carry. So does a
    /// test's clock. A conductor must be asked before the commit.
    fn goes_alone(&self, client: &Pooled, tx_kind: TxKind, calls: &[Call<'_>]) -> bool {
        let is_test = self.clock.is_some() || self.conductor.is_some();
        tx_kind == TxKind::Write
            && calls.len() == 1
            && client.is_direct()
            && self.named.load(Ordering::Relaxed)
            && !is_test
    }

    fn preparable<'a>(&'a self, calls: &[Call<'_>]) -> Vec<Preparable<'a>> {
        calls
            .iter()
            .map(|call| Preparable {
                name: call.statement.name,
                text: self.text(call),
                types: call.parameters.iter().map(|p| p.sql_type.clone()).collect(),
            })
            .collect()
    }

    fn text<'a>(&'a self, call: &Call<'_>) -> &'a str {
        self.conductor
            .as_ref()
            .and_then(|conductor| conductor.variant(call.statement.name))
            .unwrap_or_else(|| self.texts.of(call.statement))
    }
}

/// The most messages of one round trip: up to 30 futures, `join_all` polls in order.
const PIPELINE_MAX: usize = 30;

/// Sends every message before it awaits the first answer: one round trip, or several for a long
/// list.
///
/// Answers come in order. The first error counts, since it makes all later statements of the
/// transaction fail.
async fn pipeline(
    client: &Pooled,
    messages: Vec<PipelineMessage<'_, '_>>,
) -> Result<Answers, Failure> {
    let mut answers = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter();
    loop {
        // `join_all` sends these messages in their order. It is the order of the locks.
        let together = messages.by_ref().take(PIPELINE_MAX);
        let answered = join_all(together.map(|message| send(client, message))).await;
        if answered.is_empty() {
            return Ok(answers);
        }
        for answer in answered {
            answers.push(answer?);
        }
    }
}

/// Sends messages one by one when the conductor allows it, for tests of interleavings.
async fn conducted(
    client: &Pooled,
    messages: Vec<PipelineMessage<'_, '_>>,
    conductor: &dyn Conductor,
) -> Result<Answers, Failure> {
    let mut answers = Vec::with_capacity(messages.len());
    for message in messages {
        match &message {
            PipelineMessage::Plain(sql) if sql.starts_with("begin") => {}
            PipelineMessage::Plain(_) => conductor.before("commit").await,
            PipelineMessage::Named(_, call) | PipelineMessage::Whole(_, call) => {
                conductor.before(call.statement.name).await;
            }
        }
        answers.push(send(client, message).await?);
    }
    Ok(answers)
}

async fn send(
    client: &Pooled,
    message: PipelineMessage<'_, '_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match message {
        PipelineMessage::Plain(sql) => client.batch_execute(&sql).await.map(|()| Vec::new()),
        PipelineMessage::Named(statement, call) => {
            let values: Vec<_> = call.parameters.iter().map(|p| &*p.value as _).collect();
            client.query(&statement, &values).await
        }
        PipelineMessage::Whole(text, call) => {
            let values: Vec<_> = call
                .parameters
                .iter()
                .map(|p| (&*p.value as _, p.sql_type.clone()))
                .collect();
            client.query_typed(text, &values).await
        }
    }
}
