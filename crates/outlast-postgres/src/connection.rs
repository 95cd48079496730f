//! Connections: how they are made, when they are used again, and what is prepared on them.

use crate::connect::{Connector, LETTING_IN_MAX, Unreached};
use crate::direct::is_direct;
use crate::error::Failure;
use crate::tx_settings::{TimeLimits, TxKind};
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
pub(crate) type PoolError = managed::PoolError<Unreached>;

/// A connection of the pool, which takes it back when this is dropped.
pub(crate) type Pooled = managed::Object<Connections>;

/// Makes the pool's connections.
pub(crate) struct Connections(pub(crate) Connector);

impl Manager for Connections {
    type Type = Connection;
    type Error = Unreached;

    async fn create(&self) -> Result<Connection, Unreached> {
        let (client, driver) = self.0.connect().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::warn!(%error, "a connection to PostgreSQL was lost");
            }
        });
        // Made before it is asked anything: dropped, it ends its driver.
        let mut connection = Connection {
            direct: false,
            client,
            driver,
            mark: unique_mark(),
            prepared: Mutex::default(),
        };
        let asking = timeout(LETTING_IN_MAX, is_direct(&connection.client));
        connection.direct = asking.await.map_err(|_| Unreached::Silent)??;
        Ok(connection)
    }

    /// A dead connection is noticed without a round trip for the living ones.
    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Unreached> {
        if connection.is_closed() {
            return Err(RecycleError::message("the connection is closed"));
        }
        Ok(())
    }
}

/// A connection, and the statements that the server keeps for it.
pub(crate) struct Connection {
    client: Client,
    driver: JoinHandle<()>,
    /// Whether it leads to one process of the server for as long as it lives.
    direct: bool,
    mark: String,
    prepared: Mutex<Prepared>,
}

/// What was prepared.
#[derive(Default)]
struct Prepared {
    /// The settings are made, or the marks are there that make them.
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
    /// Prepares what is not yet prepared: one transaction, one round trip.
    ///
    /// The driver's names for statements differ within this program only. Behind a pooler, which may give
    /// each transaction another process of the server, that process may keep another program's statement
    /// of the same name. So marks that nobody else has are left beside them, and every transaction that
    /// uses them executes one first, which also makes its settings. A process that is ours alone needs no marks
    /// and keeps its settings.
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
        // What was prepared stays prepared, even if something after it failed.
        self.prepared().ready = true;
        let statements = statements.into_iter().collect::<Result<Vec<_>, _>>()?;
        committed?;
        self.keep(&missing, statements);
        Ok(())
    }

    /// Whether a statement is a transaction by itself here, with the settings of verbs that write.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// SQL that begins a transaction once statements are prepared. Where they are not, it fails.
    pub(crate) fn opening(&self, tx_kind: TxKind, limits: &TimeLimits) -> Cow<'static, str> {
        match self.direct {
            true => limits.opening_for_life(tx_kind),
            false => format!("{}; execute {}", tx_kind.begin(), self.mark(tx_kind)).into(),
        }
    }

    /// The name of a statement that makes the settings of a transaction. Where our statements are not, it is
    /// missing too.
    fn mark(&self, tx_kind: TxKind) -> String {
        format!("{}_{}", self.mark, tx_kind.word())
    }

    /// Begins a transaction and leaves the marks.
    fn marking(&self, limits: &TimeLimits) -> String {
        let marks = TxKind::ALL.map(|tx_kind| {
            let query = limits.setting_query(tx_kind);
            format!("; prepare {} as {query}", self.mark(tx_kind))
        });
        format!("begin{}", marks.concat())
    }

    /// Prepares what is not yet prepared inside the transaction that is open.
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

    /// The prepared statement of this name.
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

/// A name that no other connection of any program has.
fn unique_mark() -> String {
    // Each state has keys of its own, from the system's source of randomness.
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
    /// A peer that is gone without a word must not keep the connection's task for hours.
    fn drop(&mut self) {
        self.driver.abort();
    }
}
