//! The engine of the demonstration, on either store.

use super::machines::{Approval, Checkout, Fulfil, Invoice, LineItem, Order, Pack, PrintLabel};
use crate::database::{Location, postgres};
use crate::failure::Failure;
use outlast::{Client, Engine, EngineBuilder, Sqlite, Store};
use std::sync::Arc;
use std::time::Duration;

/// How long finished instances are kept. It bounds the database, however long the demonstration
/// runs.
const RETENTION: Duration = Duration::from_secs(900);
/// No step of the sample machines takes longer.
const GRACE: Duration = Duration::from_secs(3);

/// A running engine.
pub(super) struct DemoEngine {
    engine: Engine,
    store: Arc<dyn Store>,
}

impl DemoEngine {
    /// Opens the database, creates it if necessary, and starts the engine.
    pub(super) async fn start(place: &Location) -> Result<DemoEngine, Failure> {
        match place {
            Location::Sqlite(path) => {
                let store = Sqlite::open(path)?;
                let engine = configured(Engine::builder(store.clone())).start().await?;
                Ok(DemoEngine {
                    engine,
                    store: Arc::new(store),
                })
            }
            Location::Postgres { url, schema } => {
                let store = postgres(url)?.schema(schema).connect().await?;
                let engine = configured(Engine::builder(store.clone())).start().await?;
                Ok(DemoEngine {
                    engine,
                    store: Arc::new(store),
                })
            }
        }
    }

    pub(super) fn client(&self) -> Client {
        self.engine.client().clone()
    }

    /// Lets running steps finish, and closes the database.
    pub(super) async fn stop(self) {
        self.engine.shutdown().await;
        self.store.close().await;
    }
}

fn configured(builder: EngineBuilder) -> EngineBuilder {
    builder
        .machine(Checkout)
        .machine(Order)
        .machine(LineItem)
        .machine(Invoice)
        .machine(Approval)
        .workflow(Fulfil)
        .workflow(PrintLabel)
        .machine(Pack)
        .queue("default", 20)
        .queue("mail", 5)
        .name("demo")
        .retention(RETENTION)
        .grace(GRACE)
}
