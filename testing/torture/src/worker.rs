//! The worker process: an engine with all machines, until it is killed or asked to stop.

use crate::crew::{ORDERS, Orders};
use crate::ledger::{Entry, Ledger, SUPERVISOR, Tail, now_us};
use crate::load::{Load, Mix};
use crate::machines::{self, Effects, poison};
use anyhow::{Context as _, Result, ensure};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Returns the configuration of this process, if it is a worker.
pub(crate) fn orders() -> Result<Option<Orders>> {
    let Ok(orders) = std::env::var(ORDERS) else {
        return Ok(None);
    };
    serde_json::from_str(&orders)
        .map(Some)
        .with_context(|| format!("{ORDERS} has no orders: the supervisor sets it"))
}

/// Runs until it is asked to stop.
pub(crate) async fn run(orders: Orders) -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let recorder = DebuggingRecorder::new();
    let counted = recorder.snapshotter();
    recorder
        .install()
        .context("another recorder of metrics is installed")?;
    check_clock(orders.clock_off_s)?;
    let mut asked_to_stop = signal(SignalKind::terminate())?;

    let ledger = Ledger::open(&orders.folder, &orders.name)?;
    let work_max = Duration::from_millis(orders.work_max_ms);
    let effects = Effects::new(ledger.clone(), orders.name.clone(), work_max);
    let mut builder = machines::register(orders.site.engine().await?, &effects)
        .name(&orders.name)
        .queue("default", orders.slots)
        .only_named_queues()
        .lease(Duration::from_millis(orders.lease_ms))
        .poll_interval(Duration::from_millis(100))
        .crashes_max(orders.crashes_max)
        .grace(Duration::from_secs(5));
    builder = match orders.retention_ms {
        Some(retention) => builder.retention(Duration::from_millis(retention)),
        None => builder.keep_forever(),
    };
    if let Some(limits) = &orders.poison {
        builder = poison::register(builder, &effects, limits)?;
    }
    let engine = builder.start().await?;
    println!("ready");

    let (_stop, stopped) = watch::channel(false);
    if let Some(rate) = orders.drives {
        // This process is killed, so it could not end the trees that must be ended.
        let mix = Mix {
            doomed: false,
            ..Mix::of(rate)
        };
        let load = Load::new(engine.client().clone(), ledger.clone(), orders.seed, mix);
        let (site, seed) = (orders.site.clone(), orders.seed);
        tokio::spawn(async move { load.run(&site, seed, stopped).await });
    }
    let mix = Mix::of(1.0);
    let load = Load::new(engine.client().clone(), ledger.clone(), orders.seed, mix);
    tokio::spawn(load.send_again(Tail::open(&orders.folder, SUPERVISOR)?));
    if orders.poison.is_some() {
        tokio::spawn(say_alive());
    }
    tokio::select! {
        _ = asked_to_stop.recv() => {}
        () = report_counts(&counted, &ledger, &orders.name) => {}
    }
    // Steps that outlast their grace run again on another worker.
    let _ = engine.shutdown().await;
    // Dropping the runtime would wait for steps that block their thread.
    std::process::exit(0)
}

/// Prints that this process makes progress, as a health probe would check. It spawns a new task
/// each time, for any free thread.
async fn say_alive() {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let _ = tokio::spawn(async { println!("alive") }).await;
    }
}

/// Checks that a wrong clock is really wrong.
fn check_clock(off_s: i64) -> Result<()> {
    let shown = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64;
    let off = shown - now_us() / 1_000_000;
    ensure!(
        (off - off_s).abs() <= 5,
        "the clock is {off} s off instead of {off_s} s"
    );
    Ok(())
}

/// Writes the counts of dropped outcomes and of repairs to the ledger, whenever they grow. The
/// repairs should stay zero.
async fn report_counts(counted: &Snapshotter, ledger: &Ledger, worker: &str) {
    let (mut lost, mut mended) = (0, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let more = since_last(counted);
        let count = |name| more.get(name).copied().unwrap_or(0);
        let (more_lost, more_mended) = (
            count(outlast::metrics::LOST),
            count(outlast::metrics::MENDED),
        );
        lost += more_lost;
        mended += more_mended;
        if more_lost > 0 {
            let (worker, count) = (worker.to_owned(), lost);
            ledger.write(&Entry::LostOutcomes { worker, count }).await;
        }
        if more_mended > 0 {
            let (worker, count) = (worker.to_owned(), mended);
            ledger.write(&Entry::Mended { worker, count }).await;
        }
    }
}

/// Counters restart with every snapshot.
fn since_last(counted: &Snapshotter) -> HashMap<String, u64> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for (key, _, _, value) in counted.snapshot().into_vec() {
        if let DebugValue::Counter(count) = value {
            *counts.entry(key.key().name().to_owned()).or_default() += count;
        }
    }
    counts
}
