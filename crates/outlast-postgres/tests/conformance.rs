//! The PostgreSQL store keeps every rule of the contract, and agrees with the reference model
//! (I12).
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod support;

use outlast_conformance::repairs::Editor;
use outlast_conformance::{Subject, sequences};
use outlast_core::{InstanceId, ManualClock};

async fn open_at(clock: ManualClock) -> Subject {
    support::subject(|options| options, clock).await
}

async fn open() -> Subject {
    open_at(ManualClock::default()).await
}

outlast_conformance::conformance_suite!(open);

/// Edits the schema of a store.
struct SchemaEditor {
    schema: String,
    session: tokio_postgres::Client,
}

#[async_trait::async_trait]
impl Editor for SchemaEditor {
    async fn edit(&self, id: InstanceId, changes: &str) {
        let moment = "timestamptz 'epoch' + interval '1 microsecond' * (";
        let changes = changes.replace("'[", "'{").replace("]'", "}'");
        let changes = changes.replace("TIME(", moment);
        let schema = &self.schema;
        let sql = format!("update {schema}.instances set {changes} where id = {id}");
        assert_eq!(self.session.execute(&sql, &[]).await.unwrap(), 1);
    }
}

mod repairs {
    use super::*;

    async fn open() -> (Subject, SchemaEditor) {
        let (schema, clock) = (support::unique_schema(), ManualClock::default());
        let store = support::options(&schema, &clock).connect().await.unwrap();
        let editor = SchemaEditor {
            schema: schema.clone(),
            session: support::raw().await,
        };
        let cleanup = async move {
            let dropped = tokio::spawn(async move { support::drop_schema(&schema).await });
            dropped.await.unwrap();
        };
        (Subject::new(store, clock).cleaned_by(cleanup), editor)
    }

    outlast_conformance::repair_suite!(open);
}

#[tokio::test]
async fn the_store_agrees_with_the_model() {
    sequences::compare_with_model(open_at).await;
}
