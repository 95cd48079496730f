//! Transactions on pooled connections: pipelined, bounded, tried again when two are in each other's way.

use crate::conductor::Conductor;
use crate::connection::{Pool, Pooled, Preparable};
use crate::error::Failure;
use crate::listen::Channel;
use crate::statement::{Call, Texts, Timekeeper};
use crate::transaction::Schema;
use crate::tx_settings::{TimeLimits, TxKind};
use crate::write_check::FullDisk;
use futures_util::future::join_all;
use outlast_core::{Clock, Error};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::Row;

/// How often a transaction is tried when others are in its way. The pauses between add up to an eighth
/// of a second, which outlasts a queue of short transactions.
const TRIES_MAX: u32 = 8;

/// The rows of each call, in their order.
pub(crate) type Answers = Vec<Vec<Row>>;

/// What one store shares between all its connections.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) limits: TimeLimits,
    /// A clock set by a test; the server's otherwise.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Whether statements are prepared by name, or sent whole each time.
    pub(crate) named: AtomicBool,
    /// Whether instances are started and signalled through the schema's functions.
    pub(crate) enqueue_only: bool,
    pub(crate) conductor: Option<Arc<dyn Conductor>>,
    /// The statements for users' own transactions.
    pub(crate) transactions: Schema,
    /// Whether the server has lately said that its disk is full.
    pub(crate) full_disk: FullDisk,
    /// Where hints are told and heard.
    pub(crate) channel: Channel,
}

impl Session {
    /// One transaction in one round trip.
    pub(crate) async fn transact(
        &self,
        tx_kind: TxKind,
        calls: &[Call<'_>],
    ) -> Result<Answers, Failure> {
        self.begin(tx_kind).await?.finish(calls).await
    }

    /// A transaction of several round trips. Nothing is sent before its first call.
    pub(crate) async fn begin(&self, tx_kind: TxKind) -> Result<Transaction<'_>, Failure> {
        let client = self.pool.get().await.map_err(Failure::Pool)?;
        Ok(Transaction {
            session: self,
            client: Some(client),
            tx_kind,
            begun: false,
        })
    }

    /// Runs `once` until nobody is in its way, a bounded number of times.
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

    /// Whether trying again can help, after learning from the failure what there is to learn.
    pub(crate) fn may_help(&self, failure: &Failure) -> bool {
        if failure.is_missing_statement() {
            if self.named.swap(false, Ordering::Relaxed) {
                tracing::info!(
                    "the connection does not keep prepared statements (a pooler in transaction mode): sending them whole from now on"
                );
            }
            return true;
        }
        if failure.is_disk_full() {
            self.full_disk.meet();
        }
        failure.is_contention() || failure.is_lost_race_for_a_key()
    }

    /// Takes no more work, and waits until every connection has come home.
    pub(crate) async fn close(&self) {
        self.channel.close().await;
        self.pool.close();
        while self.pool.status().size > self.pool.status().available {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What opens a transaction. One message: the settings cost no round trip.
    fn opening(&self, tx_kind: TxKind, client: &Pooled, named: bool) -> Cow<'static, str> {
        let mut sql = match named {
            true => client.opening(tx_kind, &self.limits),
            false => self.limits.opening(tx_kind).into(),
        };
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("isolation-of-the-database") {
            sql = sql.replace(" isolation level read committed", "").into();
        }
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

/// Pauses grow, and differ between contenders so that they do not meet again.
fn pause_after(tries: u32) -> Duration {
    let jitter = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| u64::from(now.subsec_nanos()) % 1_000);
    Duration::from_micros((1 << tries) * 500 + jitter * u64::from(tries))
}

/// An open transaction. Dropped before it is finished, it takes its connection with it, which the
/// server answers with a rollback: a connection never returns to the pool inside a transaction.
pub(crate) struct Transaction<'s> {
    session: &'s Session,
    client: Option<Pooled>,
    tx_kind: TxKind,
    begun: bool,
}

/// Where in a transaction an exchange stands.
#[derive(Clone, Copy)]
struct Frame {
    opening: bool,
    last: bool,
    /// It is the whole of it, and needs no words around it.
    alone: bool,
}

/// One message of a pipeline.
enum Message<'a, 'p> {
    Plain(Cow<'static, str>),
    Named(tokio_postgres::Statement, &'a Call<'p>),
    Whole(&'a str, &'a Call<'p>),
}

impl Transaction<'_> {
    /// Sends `calls` together and waits for their answers; the transaction stays open.
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
            // When it failed there is nothing to take back.
            self.begun = false;
            return answers;
        }
        let answers = match &self.session.conductor {
            None => pipeline(client, messages).await?,
            Some(conductor) => conducted(client, messages, conductor.as_ref()).await?,
        };
        let first = usize::from(opening);
        Ok(answers.into_iter().skip(first).take(calls.len()).collect())
    }

    /// Takes everything back after a failure. A session that may not write is not kept: the next is made
    /// where the URL leads by now.
    async fn take_back(&mut self, failure: &Failure) {
        if failure.is_read_only() {
            self.client.take().map(Pooled::take);
            return;
        }
        self.roll_back().await;
    }

    /// Takes everything back.
    pub(crate) async fn abandon(mut self) {
        self.roll_back().await;
    }

    async fn roll_back(&mut self) {
        let Some(client) = self.client.as_ref().filter(|_| self.begun) else {
            return;
        };
        if client.batch_execute("rollback").await.is_ok() {
            self.return_connection();
        }
    }

    fn return_connection(&mut self) {
        self.client = None;
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        match self.client.take() {
            Some(client) if self.begun => drop(Pooled::take(client)),
            _ => {}
        }
    }
}

impl Session {
    /// The messages of one exchange. Statements are prepared before anything is sent, once per
    /// connection.
    async fn messages<'a, 'p>(
        &'a self,
        client: &Pooled,
        tx_kind: TxKind,
        frame: Frame,
        calls: &'a [Call<'p>],
    ) -> Result<Vec<Message<'a, 'p>>, Failure> {
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
            messages.push(Message::Plain(sql));
        }
        for call in calls {
            let prepared = named.then(|| client.statement(call.statement.name));
            messages.push(match prepared.flatten() {
                Some(statement) => Message::Named(statement, call),
                None => Message::Whole(self.text(call), call),
            });
        }
        if frame.last && !frame.alone {
            messages.push(Message::Plain("commit".into()));
        }
        Ok(messages)
    }

    /// Whether the calls are a transaction without being told so: one statement, on a connection that has the
    /// settings for it. Each message that is saved is one that the server need not send an answer to.
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

/// Sends every message before the first answer is awaited: one round trip. Answers come in order; the
/// first error is the one that counts, since what follows it in a transaction only fails because of it.
async fn pipeline(client: &Pooled, messages: Vec<Message<'_, '_>>) -> Result<Answers, Failure> {
    // `join_all` polls up to 30 futures in order, which is the order they are sent in.
    debug_assert!(messages.len() <= 30);
    let answers = join_all(messages.into_iter().map(|message| send(client, message))).await;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

/// Sends messages one by one, each when the conductor says so: for tests of interleavings.
async fn conducted(
    client: &Pooled,
    messages: Vec<Message<'_, '_>>,
    conductor: &dyn Conductor,
) -> Result<Answers, Failure> {
    let mut answers = Vec::with_capacity(messages.len());
    for message in messages {
        match &message {
            Message::Plain(sql) if sql.starts_with("begin") => {}
            Message::Plain(_) => conductor.before("commit").await,
            Message::Named(_, call) | Message::Whole(_, call) => {
                conductor.before(call.statement.name).await;
            }
        }
        answers.push(send(client, message).await?);
    }
    Ok(answers)
}

async fn send(
    client: &Pooled,
    message: Message<'_, '_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match message {
        Message::Plain(sql) => client.batch_execute(&sql).await.map(|()| Vec::new()),
        Message::Named(statement, call) => {
            let values: Vec<_> = call.parameters.iter().map(|p| &*p.value as _).collect();
            client.query(&statement, &values).await
        }
        Message::Whole(text, call) => {
            let values: Vec<_> = call
                .parameters
                .iter()
                .map(|p| (&*p.value as _, p.sql_type.clone()))
                .collect();
            client.query_typed(text, &values).await
        }
    }
}
