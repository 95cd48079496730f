//! Attributes processor time during a measurement, from the kernel's counters.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::time::Instant;

/// The kernel's unit, on every Linux that we support.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor seconds since an arbitrary start.
#[derive(Clone, Copy, Debug)]
struct Count {
    engine: f64,
    database: f64,
    machine: f64,
}

/// The average number of cores used, by consumer.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    /// This process, or the peer's.
    pub(crate) engine: f64,
    /// The database's processes; zero for SQLite.
    pub(crate) database: f64,
    /// Everything else on the machine.
    pub(crate) others: f64,
    /// The number of cores.
    pub(crate) cores: usize,
    /// The duration.
    #[serde(skip)]
    pub(crate) seconds: f64,
}

impl Usage {
    /// A run counts when other processes used at most a tenth of the machine. The machine's
    /// counters move in ticks of each core, which are too coarse for a short run.
    pub(crate) fn is_quiet(&self) -> bool {
        let cores = self.cores as f64;
        let tick = cores / TICKS_PER_SECOND / self.seconds;
        self.others <= 0.1 * cores + tick
    }

    /// Combines several periods into one.
    pub(crate) fn over(stretches: &[Usage]) -> Usage {
        let seconds: f64 = stretches.iter().map(|usage| usage.seconds).sum();
        let mean = |part: fn(&Usage) -> f64| {
            let used: f64 = stretches.iter().map(|it| part(it) * it.seconds).sum();
            used / seconds
        };
        Usage {
            engine: mean(|usage| usage.engine),
            database: mean(|usage| usage.database),
            others: mean(|usage| usage.others),
            cores: stretches.first().map_or(1, |usage| usage.cores),
            seconds,
        }
    }
}

/// Measures from its creation to its end.
pub(crate) struct Meter {
    server: Option<u32>,
    begun: Instant,
    before: Count,
}

impl Meter {
    /// Starts the measurement. `server` is the parent of the database's processes.
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

/// Returns the seconds of a process, its live children, and its reaped children; without `except`.
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

#[derive(Debug, PartialEq)]
struct Process {
    id: u32,
    parent: u32,
    own: f64,
    ended_children: f64,
    threads: u32,
}

fn processes() -> Result<Vec<Process>> {
    let entries = fs::read_dir("/proc").context("the processes cannot be listed")?;
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that ends meanwhile is counted by its parent.
    Ok(ids.filter_map(process).collect())
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut process = parse_process(id, &stat)?;
    // For a single-threaded process, as the database's are, the kernel has nanoseconds and not
    // only ticks.
    if process.threads == 1
        && let Some(own) = seconds_of_first_thread(id)
    {
        process.own = own;
    }
    Some(process)
}

fn parse_process(id: u32, stat: &str) -> Option<Process> {
    // The name in parentheses may contain anything.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |nth: usize| -> Option<f64> { fields.get(nth)?.parse().ok() };
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        ended_children: (ticks(13)? + ticks(14)?) / TICKS_PER_SECOND,
        threads: fields.get(17)?.parse().ok()?,
    })
}

fn seconds_of_first_thread(id: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    (nanoseconds > 0.0).then_some(nanoseconds / 1e9)
}

/// Returns the busy seconds of the machine, including those that its hypervisor took.
fn machine() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("the machine's counters cannot be read")?;
    Ok(parse_machine(&stat))
}

fn parse_machine(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&nth| ticks.get(nth));
    busy.sum::<f64>() / TICKS_PER_SECOND
}

/// Returns the server of a backend, if it runs on this machine.
pub(crate) fn server_of(backend: u32) -> Option<u32> {
    let name = fs::read_to_string(format!("/proc/{backend}/comm")).ok()?;
    // For a server on another machine, this number may be any process here.
    if !name.starts_with("postgres") {
        return None;
    }
    process(backend).map(|process| process.parent)
}

/// Returns the resident memory of this process, in megabytes.
pub(crate) fn memory() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("the memory cannot be read")?;
    parse_memory(&status).context("the kernel reports no memory of this process")
}

fn parse_memory(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(others: f64, seconds: f64) -> Usage {
        Usage {
            engine: 1.0,
            database: 0.5,
            others,
            cores: 2,
            seconds,
        }
    }

    #[test]
    fn a_process_name_may_contain_spaces_and_parentheses() {
        let stat =
            "42 (a) b (c) 1 2) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 3 0 12345 1 2";
        let expected = Process {
            id: 42,
            parent: 7,
            own: 2.0,
            ended_children: 0.5,
            threads: 3,
        };
        assert_eq!(parse_process(42, stat), Some(expected));
        assert_eq!(parse_process(42, "42 (cut"), None);
        assert_eq!(parse_process(42, "42 (cut) S 7"), None);
    }

    #[test]
    fn the_busy_time_of_a_machine_excludes_idle_time_and_disk_waits() {
        let stat = "cpu  100 10 50 9000 800 5 5 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse_machine(stat), 2.0);
    }

    #[test]
    fn memory_is_the_resident_size_of_the_process() {
        let status = "Name:\tbench\nVmPeak:\t 9999 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(parse_memory(status), Some(2.0));
        assert_eq!(parse_memory("Name:\tbench\n"), None);
    }

    #[test]
    fn the_server_that_the_engine_started_is_not_counted_with_it() {
        let process = |id, parent, own| Process {
            id,
            parent,
            own,
            ended_children: 0.0,
            threads: 1,
        };
        let processes = [
            process(1, 0, 100.0),
            process(2, 1, 1.0),
            process(3, 2, 2.0),
            process(4, 2, 4.0),
            process(5, 4, 8.0),
        ];
        assert_eq!(family(&processes, 2, Some(4)), 3.0);
        assert_eq!(family(&processes, 4, None), 12.0);
    }

    #[test]
    fn a_run_counts_when_other_processes_used_at_most_a_tenth() {
        assert!(usage(0.19, 10.0).is_quiet());
        assert!(!usage(0.25, 10.0).is_quiet());
        // In a run of 50 ms, one tick of each core is a load of 0.4 cores.
        assert!(usage(0.4, 0.05).is_quiet());
    }

    #[test]
    fn usage_over_several_periods_is_weighted_by_their_length() {
        let together = Usage::over(&[usage(0.4, 1.0), usage(0.0, 3.0)]);
        assert_eq!((together.seconds, together.others), (4.0, 0.1));
        assert_eq!((together.engine, together.database), (1.0, 0.5));
    }

    #[test]
    fn the_meter_measures_the_work_of_its_own_process() {
        let meter = Meter::start(None).expect("the counters of the kernel can be read");
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 50 {
            std::hint::black_box(begun);
        }
        let usage = meter
            .stop()
            .expect("the counters of the kernel can be read");
        assert!(usage.engine > 0.0, "{usage:?}");
        assert!(memory().expect("the counters of the kernel can be read") > 0.1);
    }
}
