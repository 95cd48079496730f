//! Connections: how they are made, when they are used again, and what is prepared on them.

use crate::error::Failure;
use crate::migrate::first_value;
use deadpool::managed::{self, Manager, Metrics, RecycleError, RecycleResult};
use futures_util::future::{join_all, join3};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) type Pool = managed::Pool<Connections>;
pub(crate) type PoolError = managed::PoolError<Error>;

/// A connection of the pool, which takes it back when this is dropped.
pub(crate) type Pooled = managed::Object<Connections>;

/// Makes the pool's connections.
pub(crate) struct Connections {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl Manager for Connections {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        let (client, driver) = self.config.connect(self.tls.clone()).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::warn!(%error, "a connection to PostgreSQL was lost");
            }
        });
        Ok(Connection {
            client,
            driver,
            prepared: Mutex::default(),
        })
    }

    /// A dead connection is noticed without a round trip for the living ones.
    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
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
    prepared: Mutex<Prepared>,
}

/// What was prepared, and by which of the server's processes.
#[derive(Default)]
struct Prepared {
    backend: Option<Backend>,
    statements: HashMap<&'static str, Statement>,
}

/// The server's process behind a connection. A pooler may give each transaction another one.
pub(crate) type Backend = i32;

/// A statement to prepare: its name, its text, and the types of its parameters.
pub(crate) struct Preparable<'a> {
    pub(crate) name: &'static str,
    pub(crate) text: &'a str,
    pub(crate) types: Vec<Type>,
}

impl Connection {
    /// Prepares what is not yet prepared, in one round trip, and in one transaction so that the process
    /// that keeps the statements is known. Answers which process that is.
    ///
    /// The driver's names for statements differ within this program only: behind a pooler another
    /// process may keep another program's statement of the same name. So they are used where they
    /// were prepared and nowhere else.
    pub(crate) async fn prepare(&self, wanted: &[Preparable<'_>]) -> Result<Backend, Failure> {
        let missing = self.missing(wanted);
        if let (true, Some(backend)) = (missing.is_empty(), self.backend()) {
            return Ok(backend);
        }
        let (begun, statements, committed) = join3(
            self.simple_query("begin; select pg_backend_pid() as backend"),
            join_all(
                missing
                    .iter()
                    .map(|it| self.prepare_typed(it.text, &it.types)),
            ),
            self.batch_execute("commit"),
        )
        .await;
        let backend = first_value(&begun?, "backend").and_then(|pid| pid.parse().ok());
        let statements = statements.into_iter().collect::<Result<Vec<_>, _>>()?;
        committed?;
        match (backend, self.backend()) {
            (Some(backend), None) => self.keep(backend, &missing, statements),
            (Some(backend), Some(before)) if backend == before => {
                self.keep(backend, &missing, statements)
            }
            _ => Err(Failure::OtherBackend),
        }
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
        self.add(&missing, statements);
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

    fn backend(&self) -> Option<Backend> {
        self.prepared().backend
    }

    fn keep(
        &self,
        backend: Backend,
        missing: &[&Preparable<'_>],
        statements: Vec<Statement>,
    ) -> Result<Backend, Failure> {
        self.add(missing, statements);
        self.prepared().backend = Some(backend);
        Ok(backend)
    }

    fn add(&self, missing: &[&Preparable<'_>], statements: Vec<Statement>) {
        let names = missing.iter().map(|it| it.name);
        self.prepared().statements.extend(names.zip(statements));
    }

    fn prepared(&self) -> MutexGuard<'_, Prepared> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
