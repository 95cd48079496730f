//! A program for operators: it finds failed instances, explains waits, retries, and checks the
//! database.
//!
//! ```sh
//! cargo run -p outlast-examples --bin operating
//! ```

use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{Filter, RetryAnswer, Severity};
use outlast::{Note, Postgres, Status};
use outlast_examples::{SCHEMA, postgres_url};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Configures a worker of a larger installation.
async fn worker(url: &str) -> outlast::Result<EngineBuilder> {
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
        .retention(3 * DAY))
}

#[derive(Default)]
struct Disk {
    is_full: AtomicBool,
}

#[job(queue = "exports", attempts = 1)]
async fn export(_number: u32, disk: Data<Arc<Disk>>) -> io::Result<()> {
    match disk.is_full.load(Ordering::SeqCst) {
        true => Err(io::Error::other("no space left on device")),
        false => Ok(()),
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let disk = Arc::new(Disk::default());
    disk.is_full.store(true, Ordering::SeqCst);
    let builder = match postgres_url() {
        Some(url) => worker(&url).await?,
        None => Engine::sqlite_in_memory()?,
    };
    let engine = builder
        .register(export)
        .provide(disk.clone())
        .start()
        .await?;
    let client = engine.client();
    let admin = client.admin();

    let exports = client.start_many((1..=3).map(export::with)).await?;
    for failed in &exports {
        failed.ended().timeout(MINUTE).await?;
    }

    // Finds failed instances and their errors.
    let failed = Filter {
        machine: Some("export".into()),
        statuses: vec![Status::Failed],
        error: Some("no space left".into()),
        ..Filter::default()
    };
    let page = client.list().filter(failed).limit(100).await?;
    for instance in &page.instances {
        println!("{}: {}", instance.id, admin.explain(instance).await?);
    }
    assert_eq!(page.instances.len(), 3);

    // The disk has room again: retries all, and records the operator and the reason.
    disk.is_full.store(false, Ordering::SeqCst);
    let ids = page.instances.iter().map(|instance| instance.id).collect();
    let note = Note::by("ada").because("the disk has room again");
    let answers = admin.retry_all(ids, note).await?;
    assert_eq!(answers, [RetryAnswer::Retried; 3]);
    for retried in &exports {
        retried.output().timeout(MINUTE).await?;
    }
    let operations = admin.operations(Some(exports[0].id().get())).await?;
    println!("{:?}", operations.first().expect("it is recorded"));

    // The health of the database, as `outlast doctor` prints it.
    let findings = admin.doctor().await?;
    for finding in &findings {
        let severity = finding.severity.as_str();
        println!("{} is {severity}: {}", finding.check, finding.found);
    }
    let serious = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Serious);
    println!("{} of {} are serious", serious.count(), findings.len());

    engine.shutdown().await
}
