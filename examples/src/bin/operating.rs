//! A program for operators: it finds failed instances, explains waits, retries, and checks the
//! database.
//!
//! ```sh
//! cargo run -p outlast-examples --bin operating
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::{EngineBuilder, Filter, ListRequest, RetryAnswer, Severity};
use outlast_examples::{SCHEMA, postgres_url};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Configures a worker of a larger installation.
async fn worker(url: &str) -> Result<EngineBuilder> {
    let store = Postgres::options(url)?
        .schema(SCHEMA)
        // Per node. A few connections serve hundreds of slots.
        .max_connections(5)
        .connect()
        .await?;
    Ok(Engine::builder(store)
        .name("worker-1")
        // How long the steps of a dead node wait before another node runs them.
        .lease(Duration::from_secs(30))
        // How long running steps may take at shutdown. Less than the platform's kill timeout.
        .grace(Duration::from_secs(20))
        // How long finished instances are kept.
        .retention(Duration::from_secs(3 * 24 * 3600)))
}

struct Export {
    disk_is_full: Arc<AtomicBool>,
}

impl Job for Export {
    const NAME: &'static str = "export";
    const QUEUE: &'static str = "exports";
    const MAX_ATTEMPTS: u32 = 1;
    type Args = u32;
    type Output = ();

    async fn perform(&self, _number: u32, _cx: &Context) -> Result<(), JobError> {
        match self.disk_is_full.load(Ordering::SeqCst) {
            true => Err(std::io::Error::other("no space left on device"))?,
            false => Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let disk_is_full = Arc::new(AtomicBool::new(true));
    let builder = match postgres_url() {
        Some(url) => worker(&url).await?,
        None => Engine::builder(Sqlite::in_memory()?),
    };
    let engine = builder
        .machine(Export {
            disk_is_full: disk_is_full.clone(),
        })
        .queue("exports", 10)
        .start()
        .await?;
    let patience = Duration::from_secs(10);

    let exports = engine.insert_many((1..=3).map(New::<Export>)).await?;
    for export in &exports {
        let id = export.id().context("another instance holds the key")?;
        engine.wait_ended(id, patience).await?;
    }

    // Finds failed instances and their errors.
    let failed = Filter {
        machine: Some("export".into()),
        statuses: vec![Status::Failed],
        error: Some("no space left".into()),
        ..Filter::default()
    };
    let page = engine
        .list(ListRequest {
            filter: failed.clone(),
            limit: 100,
            ..ListRequest::default()
        })
        .await?;
    for instance in &page.instances {
        println!("{}: {}", instance.id, engine.explain(instance).await?);
    }
    ensure!(page.instances.len() == 3);

    // The disk has room again: retries all, and records the operator and the reason.
    disk_is_full.store(false, Ordering::SeqCst);
    let ids = page.instances.iter().map(|instance| instance.id).collect();
    let note = Note::by("ada").because("the disk has room again");
    let answers = engine.retry_all(ids, note).await?;
    ensure!(answers == [RetryAnswer::Retried; 3]);
    for export in exports {
        engine.wait(export, patience).await?;
    }
    let last = engine.operations(Some(page.instances[0].id)).await?;
    println!("{:?}", last.first().context("it is recorded")?);

    // The health of the database, as `outlast doctor` prints it.
    let findings = engine.doctor().await?;
    for finding in &findings {
        let severity = finding.severity.as_str();
        println!("{} is {severity}: {}", finding.check, finding.found);
    }
    let serious = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Serious);
    println!("{} of {} are serious", serious.count(), findings.len());

    engine.shutdown().await;
    Ok(())
}
