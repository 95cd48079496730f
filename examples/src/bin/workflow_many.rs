//! Many children of one workflow: a window, the first of several, and one that is started now and
//! awaited later.
//!
//! An import asks two mirrors and takes the faster one. It starts a watcher that runs beside
//! everything else, loads a hundred files four at a time, and then signals the watcher to finish.
//! Both answer queries about their state.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_many
//! ```

use outlast::prelude::*;
use outlast::store::ClosePolicy;
use outlast::workflow::OneOf2;
use outlast::{InstanceId, JobError};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = Option<InstanceId>)]
struct Watcher;

#[workflow]
async fn import(flow: Flow, files: u32) -> FlowResult<String> {
    let asked = flow.clone();
    flow.on_query(move |_: Watcher| Ok(asked.last_child().and_then(|it| it.id())))?;

    // The first answer wins. The others are asked to cancel.
    let mirrors = [("far", 60_000), ("near", 0)];
    let mirrors = mirrors.map(|(name, ms)| flow.run(ask_mirror::with((name.to_owned(), ms))));
    let (_, mirror) = flow.select(Vec::from(mirrors)).cancel_rest().await?;

    // Only starts the child; the start is committed when this line returns. If the import ends
    // first, the child gets a cancel request.
    let watching = watch_import::with(mirror.clone()).on_parent_close(ClosePolicy::RequestCancel);
    let watcher = flow.spawn(watching).await?;
    println!("the watcher is {:?}", watcher.child());

    // Four run at a time, however many there are.
    let loads: Vec<_> = (0..files)
        .map(|file| flow.run(load_file::with(file)))
        .collect();
    flow.publish("stage", "loading")?;
    let bytes = flow.all(loads).window(4).await?;
    flow.publish("stage", "watching")?;

    // Signals the child once, however often this code runs again.
    watcher.child().signal(Finish).await?;
    let seen = match flow.select((watcher.join(), flow.sleep(MINUTE))).await? {
        OneOf2::First(seen) => seen,
        OneOf2::Second(()) => return flow.fail("the watcher does not answer"),
    };
    let bytes: u64 = bytes.iter().sum();
    Ok(format!("{bytes} bytes from {mirror}; {seen}"))
}

#[derive(Signal, Serialize, Deserialize)]
struct Finish;

#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u32)]
struct Looks;

#[workflow]
async fn watch_import(flow: Flow, mirror: String) -> FlowResult<String> {
    let looks = Arc::new(AtomicU32::new(0));
    let counted = looks.clone();
    flow.on_query(move |_: Looks| Ok(counted.load(Ordering::SeqCst)))?;
    loop {
        let look = Duration::from_millis(100);
        if flow.signal::<Finish>().timeout(look).await?.is_some() {
            return Ok(format!("{mirror} was watched"));
        }
        let look = looks.fetch_add(1, Ordering::SeqCst) + 1;
        println!("look {look} at {mirror}");
    }
}

#[job]
async fn ask_mirror((name, ms): (String, u64), cx: &Context) -> Result<String, JobError> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(name),
        () = cx.cancelled() => Err(JobError::cancel("another was quicker")),
    }
}

static LOADING: AtomicI32 = AtomicI32::new(0);
static LOADING_MAX: AtomicI32 = AtomicI32::new(0);

#[job]
async fn load_file(_file: u32) -> std::io::Result<u64> {
    let now = LOADING.fetch_add(1, Ordering::SeqCst) + 1;
    LOADING_MAX.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(2)).await;
    LOADING.fetch_sub(1, Ordering::SeqCst);
    Ok(1_000)
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(import)
        .register(watch_import)
        .register(ask_mirror)
        .register(load_file)
        .start()
        .await?;

    let files = engine.start(import::with(100)).await?;
    let loaded = files.output().timeout(MINUTE).await?;
    println!("{loaded}");
    assert_eq!(loaded, "100000 bytes from near; near was watched");
    let at_once = LOADING_MAX.load(Ordering::SeqCst);
    println!("{at_once} files at a time");
    assert!((1..=4).contains(&at_once));

    let stage = files.view::<String>("stage").await?;
    assert_eq!(stage.map(|view| view.value).as_deref(), Some("watching"));
    let watcher = files.query(Watcher).await?.expect("it was started");
    let watcher = engine.handle::<watch_import>(watcher).await?;
    println!("{} looks", watcher.query(Looks).await?);

    println!("it has {} events", files.instance().await?.events);
    engine.shutdown().await
}
