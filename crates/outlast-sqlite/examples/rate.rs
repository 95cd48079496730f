//! How fast the store is by itself: its verbs called one after the other, without an engine.
//!
//! ```text
//! cargo run --release -p outlast-sqlite --example rate -- [drain|chain|flow|keyed|insert|history|window]... [-n ROWS] [-b BATCH]
//! ```
//!
//! `drain` claims and ends; `chain` has nine steps more before the end, on the same claim; `flow` is a chain of
//! workflows, with an event of each step; `keyed` is a drain in which four rows share a partition key; `history` is one
//! commit of so many events, and a reading of them; `window` is one fan-out whose children run fifty at a time, with
//! the first tenth of them and the last beside the whole. The processor's time is that of the whole process, and
//! says more than the time on the wall when others use the machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool that prints what it saw"
)]

use outlast_core::limits::HISTORY_PAGE_MAX;
use outlast_core::{
    Answer, Claim, ClaimRef, ClaimRequest, Commit, EventKind, Flowing, HistoryRequest, Inspect,
    Join, Json, Links, MachineVersion, NewEvent, NewInstance, NewWorker, Outcome, Proceed, Store,
    WorkerId,
};
use outlast_sqlite::Sqlite;
use std::path::Path;
use std::time::{Duration, Instant};

struct Settings {
    workloads: Vec<String>,
    rows: usize,
    batch: usize,
}

#[tokio::main]
async fn main() {
    let settings = settings();
    println!("workload           rows/s   µs wall/row   µs cpu/row   transactions");
    for workload in &settings.workloads {
        // Beside the program: the folder for temporary files may be in memory.
        let program = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        run(workload, &settings, folder.path()).await;
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        workloads: Vec::new(),
        rows: 50_000,
        batch: 1_000,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|it| it.parse().ok()).unwrap();
        match argument.as_str() {
            "-n" => settings.rows = number(),
            "-b" => settings.batch = number(),
            _ => settings.workloads.push(argument),
        }
    }
    if settings.workloads.is_empty() {
        settings.workloads = [
            "insert", "drain", "chain", "flow", "keyed", "history", "window",
        ]
        .map(String::from)
        .into();
    }
    settings
}

async fn run(workload: &str, settings: &Settings, folder: &Path) {
    let store = Sqlite::open(folder.join("rate.db")).unwrap();
    let worker = worker(&store).await;
    let meter = Meter::start(&store);
    if workload == "window" {
        run_window(&store, worker, settings).await;
        return store.close().await;
    }
    if workload == "history" {
        run_history(&store, worker, settings).await;
        return store.close().await;
    }
    insert(&store, settings, workload == "keyed").await;
    let steps = match workload {
        "insert" => 0,
        "drain" | "keyed" => 1,
        "chain" | "flow" => 10,
        _ => panic!("there is no workload {workload}"),
    };
    if steps == 0 {
        meter.stop(workload, settings.rows, &store);
    } else {
        let meter = Meter::start(&store);
        let is_flow = workload == "flow";
        run_steps(&store, worker, settings, steps, is_flow).await;
        meter.stop(workload, settings.rows * steps, &store);
    }
    store.close().await;
}

const WINDOW: u32 = 50;

async fn run_window(store: &Sqlite, worker: WorkerId, settings: &Settings) {
    let row = || NewInstance::new("rate", "work", Json::null());
    store.insert(vec![row()], None).await.unwrap();
    let parent = claim(store, worker, 1).await.remove(0);
    let fan_out = Outcome::FanOut {
        children: vec![row(); settings.rows],
        join: Join {
            window: Some(WINDOW),
            ..Join::default()
        },
        step: "joined".into(),
        state: Json::null(),
    };
    let meter = Meter::start(store);
    let fan_out = vec![Commit::of(&parent, fan_out)];
    store.commit(fan_out.into()).await.unwrap();
    meter.stop("fan-out", settings.rows, store);
    let tenth = settings.rows / 10;
    let meter = Meter::start(store);
    for (part, rows) in [
        ("first tenth", tenth),
        ("between", 8 * tenth),
        ("last tenth", tenth),
    ] {
        let meter = Meter::start(store);
        end_children(store, worker, rows).await;
        meter.stop(part, rows, store);
    }
    meter.stop("window", 10 * tenth, store);
}

async fn end_children(store: &Sqlite, worker: WorkerId, rows: usize) {
    let mut ended = 0;
    while ended < rows {
        let claims = claim(store, worker, (rows - ended).min(WINDOW as usize)).await;
        ended += claims.len();
        let done = |claim| {
            let result = Json::null();
            Commit::of(claim, Outcome::Done { result })
        };
        let commits: Vec<_> = claims.iter().map(done).collect();
        store.commit(commits.into()).await.unwrap();
    }
}

async fn claim(store: &Sqlite, worker: WorkerId, max: usize) -> Vec<Claim> {
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: [MachineVersion::new("rate", 1)].into(),
        max,
    };
    store.claim(request).await.unwrap().claims
}

async fn insert(store: &Sqlite, settings: &Settings, keyed: bool) {
    for first in (0..settings.rows).step_by(settings.batch) {
        let row = |number: usize| {
            let state = Json::parse(format!(r#"{{"number":{number}}}"#)).unwrap();
            let row = NewInstance::new("rate", "work", state);
            if keyed {
                row.partition_key(format!("customer-{}", number / 4))
            } else {
                row
            }
        };
        let last = settings.rows.min(first + settings.batch);
        let rows = (first..last).map(row).collect();
        store.insert(rows, None).await.unwrap();
    }
}

async fn run_steps(
    store: &Sqlite,
    worker: WorkerId,
    settings: &Settings,
    steps: usize,
    is_flow: bool,
) {
    let mut ended = 0;
    while ended < settings.rows {
        let claims = claim(store, worker, settings.batch).await;
        let mut held: Vec<_> = claims
            .iter()
            .map(|it| (it.reference(), it.links()))
            .collect();
        for left in (0..steps).rev() {
            let commits: Vec<_> = held
                .iter()
                .map(|(claim, links)| outcome(*claim, *links, left, is_flow))
                .collect();
            let committed = store.commit(commits.into()).await.unwrap();
            for ((claim, _), answer) in held.iter_mut().zip(committed.answers) {
                let Answer::Committed { revision, .. } = answer else {
                    panic!("{answer:?}");
                };
                claim.revision = revision;
            }
        }
        ended += held.len();
    }
}

fn outcome(claim: ClaimRef, links: Links, left: usize, is_flow: bool) -> Commit {
    let document = Json::parse(format!(r#"{{"number":{},"left":{left}}}"#, claim.id)).unwrap();
    let events = match is_flow {
        true => vec![event(left as i32 + 1, document.clone())],
        false => Vec::new(),
    };
    let outcome = match left {
        0 => Outcome::Done { result: document },
        _ if is_flow => go_on(),
        _ => Outcome::Next {
            step: "work".into(),
            state: document,
            proceed: Proceed::KeepClaim,
        },
    };
    Commit {
        claim,
        received: Vec::new(),
        outcome,
        answers_cancel: false,
        links,
        events,
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    }
}

fn event(call: i32, data: Json) -> NewEvent {
    NewEvent {
        kind: EventKind::StepCompleted,
        call: Some(call),
        name: "work".into(),
        data,
        at: None,
    }
}

fn go_on() -> Outcome {
    Outcome::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Proceed(Proceed::KeepClaim),
    }
}

async fn run_history(store: &Sqlite, worker: WorkerId, settings: &Settings) {
    let row = NewInstance::new("rate", "work", Json::null());
    store.insert(vec![row], None).await.unwrap();
    let claim = claim(store, worker, 1).await.remove(0);
    let mut commit = Commit::of(&claim, go_on());
    let calls = 1..=settings.rows as i32;
    let data = |call| Json::parse(format!(r#"{{"number":{call},"left":0}}"#)).unwrap();
    commit.events = calls.map(|call| event(call, data(call))).collect();
    let meter = Meter::start(store);
    store.commit(vec![commit].into()).await.unwrap();
    meter.stop("history", settings.rows, store);
    let meter = Meter::start(store);
    let mut request = HistoryRequest {
        id: claim.id,
        run: 1,
        after: 0,
        max: HISTORY_PAGE_MAX,
    };
    while let Some(last) = store.history(request).await.unwrap().last() {
        request.after = last.seq;
    }
    meter.stop("its reading", settings.rows, store);
}

async fn worker(store: &Sqlite) -> WorkerId {
    let worker = NewWorker {
        name: "rate".into(),
        host: "here".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: Duration::from_secs(3_600),
    };
    store.register(worker).await.unwrap()
}

struct Meter {
    began: Instant,
    cpu: Duration,
    transactions: u64,
}

impl Meter {
    fn start(store: &Sqlite) -> Meter {
        Meter {
            began: Instant::now(),
            cpu: cpu(),
            transactions: store.transactions(),
        }
    }

    fn stop(self, workload: &str, rows: usize, store: &Sqlite) {
        let wall = self.began.elapsed().as_secs_f64();
        let cpu = (cpu() - self.cpu).as_secs_f64();
        let rows = rows as f64;
        println!(
            "{workload:<14} {:>10.0} {:>13.2} {:>12.2} {:>14}",
            rows / wall,
            wall * 1e6 / rows,
            cpu * 1e6 / rows,
            store.transactions() - self.transactions
        );
    }
}

/// What this process has used, in user and system time, to a hundredth of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let field = |n: usize| -> u64 {
        after_name
            .split_whitespace()
            .nth(n)
            .unwrap()
            .parse()
            .unwrap()
    };
    Duration::from_millis((field(11) + field(12)) * 10)
}
