//! Pooled connections: how they are made, when they are reused, and their prepared statements.
//!
//! `session.rs` takes them from the pool. A connection serves one verb at a time, and never goes
//! back to the pool inside a transaction.

pub(crate) mod connect;
pub(crate) mod direct;
pub(crate) mod passfile;
pub(crate) mod tls;

use crate::connection::connect::{ConnectError, Connector, LOGIN_MAX};
use crate::connection::direct::is_direct;
use crate::error::Failure;
use crate::session::tx_settings::{TimeLimits, TxKind};
use deadpool::managed::{self, Manager, Metrics, RecycleError, RecycleResult};
use futures_util::future::{join_all, join3};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

pub(crate) type Pool = managed::Pool<Connections>;
pub(crate) type PoolError = managed::PoolError<ConnectError>;

/// A connection of the pool. Dropping it returns it to the pool.
pub(crate) type Pooled = managed::Object<Connections>;

/// Makes the pool's connections.
pub(crate) struct Connections(pub(crate) Connector);

impl Manager for Connections {
    type Type = Connection;
    type Error = ConnectError;

    async fn create(&self) -> Result<Connection, ConnectError> {
        let (client, driver) = self.0.connect().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::warn!(%error, "a connection to PostgreSQL was lost");
            }
        });
        // Built before the first query: if that query fails, dropping the connection ends its
        // driver.
        let mut connection = Connection {
            direct: false,
            client,
            driver,
            mark: unique_mark(),
            prepared: Mutex::default(),
        };
        // Asked once: a connection is direct for its whole life, or never.
        let check = timeout(LOGIN_MAX, is_direct(&connection.client));
        connection.direct = check.await.map_err(|_| ConnectError::TimedOut)??;
        Ok(connection)
    }

    /// Refuses a dead connection. A live one costs no round trip.
    ///
    /// A connection whose peer has died unnoticed fails its next verb. Keepalives bound how long
    /// it can look alive (connect.rs).
    async fn recycle(
        &self,
        connection: &mut Connection,
        _: &Metrics,
    ) -> RecycleResult<ConnectError> {
        if connection.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        Ok(())
    }
}

/// A connection, and the statements that are prepared on it.
pub(crate) struct Connection {
    client: Client,
    /// The task that moves the bytes of the connection.
    driver: JoinHandle<()>,
    /// Whether it has one server process for its whole life, without a pooler.
    direct: bool,
    /// The beginning of the names of its marks. See [`prepare`](Connection::prepare).
    mark: String,
    /// Never locked over an `await`.
    prepared: Mutex<Prepared>,
}

/// The statements that are prepared on a connection.
#[derive(Default)]
struct Prepared {
    /// Whether the session has its settings, or the marks that make them for each transaction.
    ready: bool,
    statements: HashMap<&'static str, Statement>,
}

/// A statement to prepare: its name, its text, and the types of its parameters.
pub(crate) struct Preparable<'a> {
    pub(crate) name: &'static str,
    pub(crate) text: &'a str,
    pub(crate) types: Vec<Type>,
}

impl Connection {
    /// Prepares the missing statements in one transaction and one round trip.
    ///
    /// The driver's statement names are unique within this program only. A pooler may give each
    /// transaction another server process. That process may keep another program's statement of
    /// the same name. So the store also prepares marks: statements with a name that no other
    /// program uses. Every transaction executes a mark first. It makes the settings, and it fails
    /// where our statements are missing.
    ///
    /// A direct connection needs no marks, and its session keeps the settings. On any other, a
    /// setting for the session would reach the next program on that server process
    /// (docs/decisions/0010).
    pub(crate) async fn prepare(
        &self,
        wanted: &[Preparable<'_>],
        limits: &TimeLimits,
    ) -> Result<(), Failure> {
        let missing = self.missing(wanted);
        let ready = self.prepared().ready;
        if missing.is_empty() && ready {
            return Ok(());
        }
        if self.direct && !ready {
            self.batch_execute(&limits.for_life()).await?;
        }
        // A transaction keeps one server process: the marks and the statements are on the same.
        let begin = match (self.direct, ready) {
            (true, _) => "begin".to_owned(),
            (false, true) => format!("begin; execute {}", self.mark(TxKind::Write)),
            (false, false) => self.marking(limits),
        };
        let (begun, statements, committed) = join3(
            self.batch_execute(&begin),
            join_all(
                missing
                    .iter()
                    .map(|it| self.prepare_typed(it.text, &it.types)),
            ),
            self.batch_execute("commit"),
        )
        .await;
        begun?;
        // A rollback does not undo `prepare`, so the marks stay even if a statement failed.
        self.prepared().ready = true;
        let statements = statements.into_iter().collect::<Result<Vec<_>, _>>()?;
        committed?;
        self.keep(&missing, statements);
        Ok(())
    }

    /// Returns whether a single statement can run without `begin`, as a verb that writes.
    ///
    /// Only such a connection keeps its settings and its statements for its whole life.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns the SQL that begins a transaction. It fails where our statements are not prepared.
    pub(crate) fn opening(&self, tx_kind: TxKind, limits: &TimeLimits) -> Cow<'static, str> {
        match self.direct {
            true => limits.opening_for_life(tx_kind),
            false => format!("{}; execute {}", tx_kind.begin(), self.mark(tx_kind)).into(),
        }
    }

    /// Returns the name of the mark of this kind.
    ///
    /// The mark is missing wherever our statements are missing.
    fn mark(&self, tx_kind: TxKind) -> String {
        format!("{}_{}", self.mark, tx_kind.word())
    }

    /// Returns the SQL that begins a transaction and prepares the marks.
    fn marking(&self, limits: &TimeLimits) -> String {
        let marks = TxKind::ALL.map(|tx_kind| {
            let query = limits.setting_query(tx_kind);
            format!("; prepare {} as {query}", self.mark(tx_kind))
        });
        format!("begin{}", marks.concat())
    }

    /// Prepares the missing statements inside the open transaction.
    ///
    /// Behind a pooler, its `begin` has executed a mark. So it is on the server process that has
    /// the other statements of this connection.
    pub(crate) async fn prepare_inside(&self, wanted: &[Preparable<'_>]) -> Result<(), Failure> {
        let missing = self.missing(wanted);
        let statements = join_all(
            missing
                .iter()
                .map(|it| self.prepare_typed(it.text, &it.types)),
        );
        let statements = statements
            .await
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        self.keep(&missing, statements);
        Ok(())
    }

    /// Returns the prepared statement of this name.
    pub(crate) fn statement(&self, name: &str) -> Option<Statement> {
        self.prepared().statements.get(name).cloned()
    }

    fn missing<'w, 'a>(&self, wanted: &'w [Preparable<'a>]) -> Vec<&'w Preparable<'a>> {
        let prepared = self.prepared();
        wanted
            .iter()
            .filter(|it| !prepared.statements.contains_key(it.name))
            .collect()
    }

    fn keep(&self, missing: &[&Preparable<'_>], statements: Vec<Statement>) {
        let names = missing.iter().map(|it| it.name);
        self.prepared().statements.extend(names.zip(statements));
    }

    fn prepared(&self) -> MutexGuard<'_, Prepared> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a name that no other connection of any program has.
fn unique_mark() -> String {
    // Each `RandomState` has its own keys, from the system's source of randomness.
    let [left, right] = [0, 1].map(|n| RandomState::new().hash_one(n));
    format!("outlast_{left:016x}{right:016x}")
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Connection {
    /// Ends the connection's task: a dead peer could otherwise keep it for hours.
    fn drop(&mut self) {
        self.driver.abort();
    }
}
