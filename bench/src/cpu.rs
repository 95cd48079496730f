//! Who used the processor while something was measured, from what the kernel counts.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::time::Instant;

/// What the kernel counts in, on every Linux that we meet.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor seconds since some beginning.
#[derive(Clone, Copy, Debug)]
struct Count {
    engine: f64,
    database: f64,
    machine: f64,
}

/// Who used how many cores, on average, while something ran.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    /// This process, or the peer's.
    pub(crate) engine: f64,
    /// The database's processes; none of its own for SQLite.
    pub(crate) database: f64,
    /// Everything else on the machine.
    pub(crate) others: f64,
    /// How many cores there are.
    pub(crate) cores: usize,
    /// How long it ran.
    #[serde(skip)]
    pub(crate) seconds: f64,
}

impl Usage {
    /// A run counts when nobody else took more than a tenth of the machine.
    pub(crate) fn is_quiet(&self) -> bool {
        self.others <= 0.1 * self.cores as f64
    }
}

/// Counts from its making to its end.
pub(crate) struct Meter {
    server: Option<u32>,
    begun: Instant,
    before: Count,
}

impl Meter {
    /// Starts counting. `server` is the parent of the database's processes.
    pub(crate) fn start(server: Option<u32>) -> Result<Meter> {
        Ok(Meter {
            server,
            before: count(server)?,
            begun: Instant::now(),
        })
    }

    pub(crate) fn stop(self) -> Result<Usage> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let after = count(self.server)?;
        let engine = after.engine - self.before.engine;
        let database = after.database - self.before.database;
        let machine = after.machine - self.before.machine;
        Ok(Usage {
            engine: engine / seconds,
            database: database / seconds,
            others: (machine - engine - database).max(0.0) / seconds,
            cores: std::thread::available_parallelism()?.get(),
            seconds,
        })
    }
}

fn count(server: Option<u32>) -> Result<Count> {
    let processes = processes()?;
    let own = std::process::id();
    Ok(Count {
        engine: family(&processes, own, server),
        database: server.map_or(0.0, |server| family(&processes, server, None)),
        machine: machine()?,
    })
}

/// The seconds of a process, its children that live, and those that it has seen end; without `except`.
fn family(processes: &[Process], id: u32, except: Option<u32>) -> f64 {
    let own: f64 = processes
        .iter()
        .filter(|process| process.id == id)
        .map(|process| process.own + process.ended_children)
        .sum();
    let children = processes
        .iter()
        .filter(|process| process.parent == id && Some(process.id) != except);
    own + children
        .map(|child| family(processes, child.id, except))
        .sum::<f64>()
}

struct Process {
    id: u32,
    parent: u32,
    own: f64,
    ended_children: f64,
}

fn processes() -> Result<Vec<Process>> {
    let entries = fs::read_dir("/proc").context("the processes cannot be listed")?;
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // One that ends meanwhile is its parent's to count.
    Ok(ids.filter_map(process).collect())
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |nth: usize| -> Option<f64> { fields.get(nth)?.parse().ok() };
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        ended_children: (ticks(13)? + ticks(14)?) / TICKS_PER_SECOND,
    })
}

/// The seconds that any process of the machine ran, or was kept from running by other machines.
fn machine() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("the machine's counters cannot be read")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&nth| ticks.get(nth));
    Ok(busy.sum::<f64>() / TICKS_PER_SECOND)
}

/// The parent of a process: of one backend of a server on this machine, the server.
pub(crate) fn parent_of(id: u32) -> Option<u32> {
    process(id).map(|process| process.parent)
}
