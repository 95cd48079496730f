//! The worker processes as the supervisor handles them: started, killed, frozen, resumed.

use crate::ledger::{Entry, Ledger, WorkerEvent, now_us};
use crate::site::Site;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The environment variable that makes this program a worker.
pub(crate) const ORDERS: &str = "OUTLAST_TORTURE_WORKER";
/// How long a worker may take to start, and to stop when it is asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) name: String,
    pub(crate) site: Site,
    /// The folder of its ledger and its log.
    pub(crate) folder: PathBuf,
    pub(crate) slots: usize,
    pub(crate) lease_ms: u64,
    pub(crate) work_max_ms: u64,
    pub(crate) crashes_max: u32,
    /// How long finished instances are kept.
    pub(crate) retention_ms: Option<u64>,
    /// Whether it runs the poisonous machine, and with which memory limit.
    pub(crate) poison: Option<Poison>,
    /// The error of its clock, in seconds.
    pub(crate) clock_off_s: i64,
    /// The rate of the load that the worker drives, if it does.
    pub(crate) drives: Option<f64>,
    /// The seed of its random choices.
    pub(crate) seed: u64,
}

/// Limits of a worker that runs the poisonous machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Poison {
    /// Bytes of address space.
    pub(crate) memory_max: u64,
}

/// Starts workers with the same configuration.
#[derive(Clone)]
pub(crate) struct Crew {
    pub(crate) orders: Orders,
    pub(crate) ledger: Ledger,
}

impl Crew {
    /// Starts a worker and waits until it is ready.
    pub(crate) async fn start(&self, name: String) -> Result<Worker> {
        let mut worker = self.spawn(name).await?;
        worker.ready().await?;
        Ok(worker)
    }

    /// Starts a worker without waiting until it is ready.
    pub(crate) async fn spawn(&self, name: String) -> Result<Worker> {
        let orders = Orders {
            name: name.clone(),
            ..self.orders.clone()
        };
        let log = orders.folder.join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env(ORDERS, serde_json::to_string(&orders)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        if orders.clock_off_s != 0 {
            crate::scenario::clock::set_clock(&mut command, orders.clock_off_s)?;
        }
        let mut child = command.spawn().context("a worker cannot be started")?;
        let output = child
            .stdout
            .take()
            .context("the worker's output is not piped")?;
        let worker = Worker {
            name,
            child,
            output: BufReader::new(output),
            ledger: self.ledger.clone(),
        };
        worker.note(WorkerEvent::Started).await;
        Ok(worker)
    }
}

/// How a worker failed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GaveOut {
    /// Its process ended.
    Died,
    /// Its process runs, but makes no progress.
    Silent,
}

/// A worker process.
pub(crate) struct Worker {
    pub(crate) name: String,
    child: Child,
    output: BufReader<tokio::process::ChildStdout>,
    ledger: Ledger,
}

impl Worker {
    /// Waits until it is ready.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.output.read_line(&mut line)).await;
        read.with_context(|| format!("worker {} does not become ready", self.name))??;
        ensure!(
            line == "ready\n",
            "worker {} ended at its start; see its log",
            self.name
        );
        Ok(())
    }

    /// Kills it.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.send(Signal::KILL)?;
        self.child.wait().await?;
        self.note(WorkerEvent::Killed).await;
        Ok(())
    }

    /// Stops it with SIGSTOP, in the middle of its work.
    pub(crate) async fn freeze(&self) -> Result<()> {
        self.send(Signal::STOP)?;
        self.note(WorkerEvent::Froze).await;
        Ok(())
    }

    /// Resumes it.
    pub(crate) async fn thaw(&self) -> Result<()> {
        self.note(WorkerEvent::Thawed).await;
        self.send(Signal::CONT)
    }

    /// Asks it to stop, and waits for a clean exit.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.send(Signal::TERM)?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let ended = ended.with_context(|| format!("worker {} does not stop", self.name))??;
        ensure!(
            ended.success(),
            "worker {} did not stop cleanly: {ended}",
            self.name
        );
        self.note(WorkerEvent::Stopped).await;
        Ok(())
    }

    /// Waits until it ends by itself, or is silent for this long.
    pub(crate) async fn gave_out(&mut self, silence_max: Duration) -> Result<GaveOut> {
        loop {
            let mut line = String::new();
            let reading = self.output.read_line(&mut line);
            let Ok(read) = tokio::time::timeout(silence_max, reading).await else {
                return Ok(GaveOut::Silent);
            };
            if read? == 0 {
                break;
            }
        }
        self.child.wait().await?;
        self.note(WorkerEvent::Died).await;
        Ok(GaveOut::Died)
    }

    /// Its process id.
    pub(crate) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    fn send(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().context("the worker has ended")?;
        let id = Pid::from_raw(id.try_into()?).context("the worker's process id is zero")?;
        kill_process(id, signal).with_context(|| format!("worker {} ended by itself", self.name))
    }

    async fn note(&self, event: WorkerEvent) {
        let (name, at) = (self.name.clone(), now_us());
        self.ledger.write(&Entry::Worker { name, event, at }).await;
    }
}
