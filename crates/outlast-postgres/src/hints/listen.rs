//! Hints between nodes, by `NOTIFY` and `LISTEN` on one channel per schema.
//!
//! The engine's notifier calls this. Correctness never depends on a hint: pickers also poll.
//!
//! A notification has its own transaction, which does not wait for the disk. Inside the
//! transaction of a verb, the server's one lock on its notification queue would serialise all
//! commits.
//!
//! A listener has its own connection, outside the pool. A pooler in transaction mode forgets its
//! listeners.

use crate::connection::connect::{Connector, Driver};
use crate::error::Failure;
use crate::hints::message::{ReceivedMessage, message, probing};
use crate::hints::presence::{GREETING_INTERVAL, Presence};
use crate::session::Session;
use crate::session::statement::{self, value};
use crate::session::tx_settings::TxKind;
use async_trait::async_trait;
use outlast_core::{Error, Hints, Listen, Result};
use std::future::{pending, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client};

/// How many received messages may wait for the caller.
///
/// Further messages are dropped: behind so many hints, another one says nothing new. Waiting for
/// the caller instead would fill the server's notification queue, which all databases share.
const UNREAD_MAX: usize = 1_024;

/// How long a message to oneself may take. On a busy server it takes a few milliseconds.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// How long closing a connection may take.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// The notification channel of one schema.
pub(crate) struct Channel {
    name: String,
    /// The name of this store on the channel. The store ignores its own messages.
    node: String,
    /// Connects the listener. `None` if the store neither sends nor listens.
    connector: Option<Connector>,
    /// True once the store closes. Every listener subscribes to it.
    closing: watch::Sender<bool>,
    /// Whether the log has said that messages do not arrive.
    warned: AtomicBool,
    presence: Arc<Presence>,
}

impl Channel {
    /// Returns the channel of `schema`. Without a connector it neither sends nor listens.
    pub(crate) fn new(schema: &str, connector: Option<Connector>) -> Channel {
        Channel {
            name: channel_of(schema),
            node: random_word(),
            connector,
            closing: watch::Sender::new(false),
            warned: AtomicBool::new(false),
            presence: Arc::default(),
        }
    }

    /// Ends every listener and waits until their connections are closed (I11).
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        self.closing.closed().await;
    }

    fn closed(&self) -> Error {
        Error::Closed {
            operation: "listen",
        }
    }
}

/// Sends hints to the other nodes, unless there are none (docs/decisions/0018).
pub(crate) async fn notify(session: &Session, hints: &Hints) -> Result<()> {
    let channel = &session.channel;
    if hints.is_empty() || channel.connector.is_none() || channel.presence.is_alone() {
        return Ok(());
    }
    send(session, &message(&channel.node, hints)).await
}

/// Sends one message in a transaction of its own, through the pool.
async fn send(session: &Session, message: &str) -> Result<()> {
    let once = || async move {
        let call = statement::NOTIFY.with([value(session.channel.name.as_str()), value(message)]);
        let answers = session.transact(TxKind::Claim, &[call]).await;
        answers.map(drop).map_err(queue_is_full)
    };
    session.retry("notify", || Box::pin(once())).await
}

/// A full notification queue is not the fault of the message, whatever the class of its code says.
fn queue_is_full(failure: Failure) -> Failure {
    let full = matches!(&failure, Failure::Database(error)
        if error.code() == Some(&SqlState::PROGRAM_LIMIT_EXCEEDED));
    if !full {
        return failure;
    }
    Failure::Verb(Error::Transient {
        operation: "notify",
        reason: "the server's queue of notifications is full; a session listens inside a transaction that stays open".into(),
        source: None,
    })
}

/// Listens for hints of other nodes. Returns `None` if the connection receives no notifications.
pub(crate) async fn listen(session: &Arc<Session>) -> Result<Option<Box<dyn Listen>>> {
    let channel = &session.channel;
    let mut closing = channel.closing.subscribe();
    let listener = tokio::select! {
        biased;
        () = wait_for_close(&mut closing) => return Err(channel.closed()),
        listener = open(session) => listener?,
    };
    Ok(listener.map(|listener| Box::new(listener) as Box<dyn Listen>))
}

async fn open(session: &Arc<Session>) -> Result<Option<Listener>> {
    let channel = &session.channel;
    let Some(connector) = &channel.connector else {
        return Ok(None);
    };
    let opened = connector.connect().await;
    let (client, connection) = opened.map_err(|reason| Failure::from(reason).during("listen"))?;
    let probe = random_word();
    let (arrived, mut echo) = oneshot::channel();
    let (sender, hints) = mpsc::channel(UNREAD_MAX);
    let task = ListenTask {
        connection,
        channel: channel.name.clone(),
        node: channel.node.clone(),
        probe: Some((probe.clone(), arrived)),
        hints: sender,
        closing: channel.closing.subscribe(),
        presence: channel.presence.clone(),
    };
    let mut listener = Listener {
        client,
        hints,
        task: Some(tokio::spawn(task.run())),
        greeter: None,
    };
    // The probe goes through the pool and must come back on this connection. That proves that both
    // lead to the same database, and that no pooler is in between.
    listener
        .order(&format!("listen \"{}\"", channel.name))
        .await?;
    send(session, &probing(&channel.node, &probe)).await?;
    match timeout(PROBE_MAX, &mut echo).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Err(listener.reason().await),
        Err(_) => {
            // A pooler may hand the listening connection to another client, which would get our
            // messages.
            let _ = timeout(CLOSING_MAX, listener.order("unlisten *")).await;
            channel.warn();
            return Ok(None);
        }
    }
    // A listening connection is idle as long as no other node sends a hint. A timeout that the
    // administrator has set must not close it.
    listener.order("set idle_session_timeout = 0").await?;
    listener.greeter = Some(Greeter::start(session));
    Ok(Some(listener))
}

/// Announces this node at intervals and answers new nodes, until it is dropped.
struct Greeter {
    presence: Arc<Presence>,
    task: JoinHandle<()>,
}

impl Greeter {
    fn start(session: &Arc<Session>) -> Greeter {
        let presence = session.channel.presence.clone();
        presence.set_listening(true);
        Greeter {
            task: tokio::spawn(greet(session.clone())),
            presence,
        }
    }
}

impl Drop for Greeter {
    /// A node that does not listen cannot know whether it is alone, so it sends from now on.
    fn drop(&mut self) {
        self.presence.set_listening(false);
        self.task.abort();
    }
}

async fn greet(session: Arc<Session>) {
    let channel = &session.channel;
    let greeting = message(&channel.node, &Hints::default());
    loop {
        // A node that misses this greeting receives the next one.
        if let Err(error) = send(&session, &greeting).await {
            tracing::debug!(%error, "could not announce that this node listens");
        }
        let _ = timeout(GREETING_INTERVAL, channel.presence.newcomer.notified()).await;
    }
}

impl Channel {
    /// Logs once how to fix a connection that receives no notifications.
    fn warn(&self) {
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            channel = self.name,
            "notifications do not arrive, so this node polls: the URL leads through a pooler in transaction mode, \
             or to another database than listen_url; give a direct URL with Options::listen_url, \
             or turn them off with Options::without_notifications"
        );
    }
}

/// The caller's handle to a listening connection. Dropping it ends the connection.
struct Listener {
    client: Client,
    hints: mpsc::Receiver<Hints>,
    /// The task that reads the connection. It returns the reason for its end.
    task: Option<JoinHandle<Error>>,
    greeter: Option<Greeter>,
}

#[async_trait]
impl Listen for Listener {
    async fn next(&mut self) -> Result<Hints> {
        match self.hints.recv().await {
            Some(hints) => Ok(hints),
            None => Err(self.reason().await),
        }
    }
}

impl Listener {
    /// Runs a command on the listening connection.
    async fn order(&mut self, sql: &str) -> Result<()> {
        let done = self.client.batch_execute(sql).await;
        done.map_err(|error| Failure::from(error).during("listen"))
    }

    /// Returns the reason why no more messages come.
    async fn reason(&mut self) -> Error {
        let reason = match &mut self.task {
            Some(task) => task.await.ok(),
            None => None,
        };
        self.task = None;
        self.greeter = None;
        reason.unwrap_or_else(|| broken(None))
    }
}

/// Returns a transient error for any cause: listening again is the remedy.
fn broken(error: Option<tokio_postgres::Error>) -> Error {
    let cause = error.map(|error| Failure::from(error).during("listen"));
    let reason = match &cause {
        Some(cause) => format!("the connection was lost ({cause}); listen anew"),
        None => "the connection has ended; listen anew".into(),
    };
    Error::Transient {
        operation: "listen",
        reason,
        source: cause.map(Into::into),
    }
}

/// The task that reads the connection, so that the server never waits for a busy caller.
struct ListenTask {
    connection: Driver,
    channel: String,
    node: String,
    /// The probe message that proves that messages arrive, and the channel that reports it.
    probe: Option<(String, oneshot::Sender<()>)>,
    hints: mpsc::Sender<Hints>,
    closing: watch::Receiver<bool>,
    presence: Arc<Presence>,
}

impl ListenTask {
    async fn run(mut self) -> Error {
        loop {
            // In this order: a flood of messages must not keep a store from closing.
            let message = tokio::select! {
                biased;
                () = wait_for_close(&mut self.closing) => {
                    return Error::Closed { operation: "listen" };
                }
                () = self.hints.closed() => {
                    self.finish().await;
                    return broken(None);
                }
                message = poll_fn(|cx| self.connection.poll_message(cx)) => message,
            };
            match message {
                Some(Ok(AsyncMessage::Notification(message)))
                    if message.channel() == self.channel =>
                {
                    self.take(message.payload());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return broken(Some(error)),
                None => return broken(None),
            }
        }
    }

    /// Passes the hints of another node on. Its own messages only answer the probe.
    fn take(&mut self, message: &str) {
        let Some(message) = ReceivedMessage::read(message) else {
            tracing::debug!(
                channel = self.channel,
                "skipped a message that is not of this version's form"
            );
            return;
        };
        if message.node == self.node {
            self.take_probe(&message);
            return;
        }
        self.presence.note_other();
        if message.probe.is_some() {
            self.presence.newcomer.notify_one();
        }
        if message.hints.is_empty() {
            return;
        }
        if self.hints.try_send(message.hints).is_err() {
            tracing::debug!(
                channel = self.channel,
                "dropped hints because the client reads them too slowly"
            );
        }
    }

    /// Reports that the probe has arrived. A probe of an earlier listener of this store is not it.
    fn take_probe(&mut self, message: &ReceivedMessage) {
        let Some((probe, arrived)) = self.probe.take() else {
            return;
        };
        if message.probe.as_ref() == Some(&probe) {
            // The caller may have given up.
            let _ = arrived.send(());
        } else {
            self.probe = Some((probe, arrived));
        }
    }

    /// Closes the connection. The client was dropped with the listener.
    async fn finish(&mut self) {
        let closing = async {
            while let Some(Ok(_)) = poll_fn(|cx| self.connection.poll_message(cx)).await {}
        };
        let _ = timeout(CLOSING_MAX, closing).await;
    }
}

async fn wait_for_close(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        // The store was dropped without `close`. Its listeners may go on.
        pending::<()>().await;
    }
}

/// Returns the channel of a schema, an identifier of at most 63 bytes.
///
/// Nodes of different builds share it, so the name never changes.
///
/// A name too long for the prefix keeps its beginning and gets a digest. The character between
/// them occurs in no schema name.
fn channel_of(schema: &str) -> String {
    const PREFIX: &str = "outlast:";
    if PREFIX.len() + schema.len() <= 63 {
        return format!("{PREFIX}{schema}");
    }
    // FNV-1a is the same in every build. The standard library does not promise that of its hasher.
    let digest = schema
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{PREFIX}{}~{digest:016x}", &schema[..38])
}

/// Returns a random word. Each `RandomState` has its own keys, from the system's randomness.
fn random_word() -> String {
    format!("{:016x}", RandomState::new().hash_one(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_identifiers_and_differ() {
        assert_eq!(channel_of("outlast"), "outlast:outlast");
        let long = |last: char| format!("{}{last}", "x".repeat(62));
        for schema in ["x".repeat(55), "x".repeat(56), long('a')] {
            assert!(channel_of(&schema).len() <= 63);
        }
        assert_ne!(channel_of(&long('a')), channel_of(&long('b')));
    }
}
