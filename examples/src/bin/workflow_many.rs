//! Many children of one workflow: a window, the first of several, and one that is started now and
//! awaited later.
//!
//! An import asks two mirrors and takes the faster one. It starts a watcher that runs beside
//! everything else, loads a hundred files four at a time, and then signals the watcher to finish.
//!
//! ```sh
//! cargo run -p outlast-examples --bin workflow_many
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast::workflow::OneOf2;
use std::sync::atomic::{AtomicI32, Ordering};

struct Import;

impl Workflow for Import {
    const NAME: &'static str = "import";
    type Input = u32;
    type Output = String;

    async fn run(&self, flow: Flow, files: u32) -> FlowResult<String> {
        // The first answer wins. The others are asked to cancel.
        let mirrors = [("far", 60_000), ("near", 0)];
        let mirrors = mirrors.map(|(name, ms)| flow.activity(Ask, (name.to_owned(), ms)));
        let (_, mirror) = flow.select(Vec::from(mirrors)).cancel_rest().await?;

        // Only starts the child; the start is committed when this line returns. If the import ends
        // first, the child gets a cancel request.
        let watcher = flow
            .child::<Watch>(mirror.clone())
            .on_parent_close(ClosePolicy::RequestCancel)
            .start()
            .await?;
        println!("the watcher is {:?}", watcher.child());

        // Four run at a time, however many there are.
        let loads: Vec<_> = (0..files).map(|file| flow.activity(Load, file)).collect();
        let bytes = flow.all(loads).window(4).await?;

        // Signals the child once, however often this code runs again.
        watcher.child().signal(Finish).await?;
        let patience = flow.sleep(Duration::from_secs(60));
        let seen = match flow.select((watcher.join(), patience)).await? {
            OneOf2::First(seen) => seen,
            OneOf2::Second(()) => return Err(flow.fail("the watcher does not answer")),
        };
        let bytes: u64 = bytes.iter().sum();
        Ok(format!("{bytes} bytes from {mirror}; {seen}"))
    }
}

struct Watch;

#[derive(Serialize, Deserialize)]
struct Finish;

impl Signal for Finish {
    const NAME: &'static str = "finish";
}

impl Workflow for Watch {
    const NAME: &'static str = "watch_import";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: Flow, mirror: String) -> FlowResult<String> {
        let mut looks = 0;
        loop {
            let look = Duration::from_millis(100);
            if flow.signal::<Finish>().timeout(look).await?.is_some() {
                return Ok(format!("{mirror} was watched"));
            }
            looks += 1;
            println!("look {looks} at {mirror}");
        }
    }
}

struct Ask;

impl Job for Ask {
    const NAME: &'static str = "ask_mirror";
    type Args = (String, u64);
    type Output = String;

    async fn perform(&self, (name, ms): (String, u64), cx: &Context) -> Result<String, JobError> {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(name),
            () = cx.cancelled() => Err(JobError::cancel("another was quicker")),
        }
    }
}

struct Load;

static LOADING: AtomicI32 = AtomicI32::new(0);
static LOADING_MAX: AtomicI32 = AtomicI32::new(0);

impl Job for Load {
    const NAME: &'static str = "load_file";
    type Args = u32;
    type Output = u64;

    async fn perform(&self, _file: u32, _cx: &Context) -> Result<u64, JobError> {
        let now = LOADING.fetch_add(1, Ordering::SeqCst) + 1;
        LOADING_MAX.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        LOADING.fetch_sub(1, Ordering::SeqCst);
        Ok(1_000)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .workflow(Import)
        .workflow(Watch)
        .machine(Ask)
        .machine(Load)
        .queue("default", 20)
        .start()
        .await?;

    let import = engine.insert(Run::<Import>(100)).await?;
    let loaded = engine.wait(import, Duration::from_secs(20)).await?;
    println!("{loaded}");
    ensure!(loaded == "100000 bytes from near; near was watched");
    let at_once = LOADING_MAX.load(Ordering::SeqCst);
    println!("{at_once} files at a time");
    ensure!((1..=4).contains(&at_once));

    let import = import.id().context("it has no key")?;
    let seen = engine.get(import).await?.context("it is stored")?;
    println!("it has {} events", seen.events);
    engine.shutdown().await;
    Ok(())
}
