//! The engine of the demonstration, on either store.

use super::machines::{
    Approval, Checkout, LineItem, Order, fulfil, pack, print_label, send_invoice,
};
use crate::database::{Location, postgres};
use crate::failure::Failure;
use outlast::engine::EngineBuilder;
use outlast::store::Store;
use outlast::{Client, Engine, Sqlite};
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
        // Steps that outlast their grace run again at the next start.
        let _ = self.engine.shutdown().await;
        self.store.close().await;
    }
}

fn configured(builder: EngineBuilder) -> EngineBuilder {
    builder
        .register(Checkout)
        .register(Order)
        .register(LineItem)
        .register(send_invoice)
        .register(Approval)
        .register(fulfil)
        .register(print_label)
        .register(pack)
        .queue("default", 20)
        .queue("mail", 5)
        .name("demo")
        .retention(RETENTION)
        .grace(GRACE)
}
