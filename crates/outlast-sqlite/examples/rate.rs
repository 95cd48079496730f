//! How fast the store is by itself: its verbs called one after the other, without an engine.
//!
//! ```text
//! cargo run --release -p outlast-sqlite --example rate -- [drain|chain|keyed|insert]... [-n ROWS] [-b BATCH]
//! ```
//!
//! `drain` claims and ends; `chain` has nine steps more before the end, on the same claim; `keyed` is a
//! drain in which four rows share a partition key. The processor's time is that of the whole process, and
//! says more than the time on the wall when others use the machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool that prints what it saw"
)]

use outlast_core::{
    Answer, ClaimRef, ClaimRequest, Commit, Json, MachineVersion, NewInstance, NewWorker, Outcome,
    Proceed, Store, Ties, WorkerId,
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
        settings.workloads = ["insert", "drain", "chain", "keyed"]
            .map(String::from)
            .into();
    }
    settings
}

async fn run(workload: &str, settings: &Settings, folder: &Path) {
    let store = Sqlite::open(folder.join("rate.db")).unwrap();
    let worker = worker(&store).await;
    let meter = Meter::start(&store);
    insert(&store, settings, workload == "keyed").await;
    let steps = match workload {
        "insert" => 0,
        "drain" | "keyed" => 1,
        "chain" => 10,
        _ => panic!("there is no workload {workload}"),
    };
    if steps == 0 {
        meter.stop(workload, settings.rows, &store);
    } else {
        let meter = Meter::start(&store);
        run_steps(&store, worker, settings, steps).await;
        meter.stop(workload, settings.rows * steps, &store);
    }
    store.close().await;
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

async fn run_steps(store: &Sqlite, worker: WorkerId, settings: &Settings, steps: usize) {
    let mut ended = 0;
    while ended < settings.rows {
        let request = ClaimRequest {
            worker,
            queue: "default".into(),
            machines: [MachineVersion::new("rate", 1)].into(),
            max: settings.batch,
        };
        let claims = store.claim(request).await.unwrap().claims;
        let mut held: Vec<_> = claims
            .iter()
            .map(|it| (it.reference(), it.ties()))
            .collect();
        for left in (0..steps).rev() {
            let commits = held
                .iter()
                .map(|(claim, ties)| outcome(*claim, *ties, left))
                .collect();
            let committed = store.commit(commits).await.unwrap();
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

fn outcome(claim: ClaimRef, ties: Ties, left: usize) -> Commit {
    let document = Json::parse(format!(r#"{{"number":{},"left":{left}}}"#, claim.id)).unwrap();
    let outcome = match left {
        0 => Outcome::Done { result: document },
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
        ties,
    }
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
