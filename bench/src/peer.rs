//! Peers: other programs that run the same workloads, each in its folder under `peers/`.
//!
//! `peers/NAME/run WORKLOAD N URL` prints one JSON object per figure; the first one describes the
//! peer. It exits with 3 when the peer does not offer the workload.

use crate::args::Workload;
use crate::cpu::Meter;
use crate::figure::Sample;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code for a workload that the peer does not offer.
const NOT_OFFERED: i32 = 3;

/// A line of a peer's output: a figure, or its description.
#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    #[serde(default)]
    value: f64,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    configuration: String,
}

/// The result of a peer's run; empty when it does not offer the workload.
#[derive(Default)]
pub(crate) struct Ran {
    pub(crate) samples: Vec<Sample>,
    pub(crate) about: Option<String>,
}

/// Installs a peer, if necessary.
pub(crate) fn install(peer: &str) -> Result<()> {
    let script = folder(peer).join("install");
    ensure!(
        !peer.is_empty() && !peer.contains('/') && script.is_file(),
        "there is no peer {peer:?}; there are {}",
        known().join(", ")
    );
    let status = Command::new(script)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("peer {peer} cannot be installed"))?;
    ensure!(status.success(), "peer {peer} could not be installed");
    Ok(())
}

/// Runs a workload of a peer, each of its parts on an empty database.
pub(crate) async fn run(peer: &str, workload: Workload, n: usize, site: &Site) -> Result<Ran> {
    let mut ran = Ran::default();
    for part in parts(workload) {
        run_part(peer, &part, n, site, &mut ran).await?;
    }
    Ok(ran)
}

/// Returns the peers' names of a workload. `step` is a separate workload there.
fn parts(workload: Workload) -> Vec<String> {
    let name = workload.to_string();
    match workload {
        Workload::Latency => vec![name, "step".to_owned()],
        Workload::Drain
        | Workload::Chain
        | Workload::Fanout
        | Workload::Window
        | Workload::CancelTree
        | Workload::Signal
        | Workload::Insert
        | Workload::Timers
        | Workload::Parked
        | Workload::Backlog
        | Workload::FlowSteps
        | Workload::FlowFanout
        | Workload::FlowReplay
        | Workload::History => vec![name],
    }
}

async fn run_part(peer: &str, part: &str, n: usize, site: &Site, ran: &mut Ran) -> Result<()> {
    let url = site.empty_database().await?;
    let meter = Meter::start(site.server_process())?;
    let output = Command::new(folder(peer).join("run"))
        .args([part, &n.to_string(), &url])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("peer {peer} cannot be run"))?;
    let usage = meter.stop()?;
    if output.status.code() == Some(NOT_OFFERED) {
        return Ok(());
    }
    ensure!(
        output.status.success(),
        "peer {peer} did not finish {part}: {}",
        output.status
    );
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("peer {peer} printed a line that is no figure: {line}"))?;
        match line.name.as_str() {
            "about" => ran.about = Some(format!("{} ({})", line.version, line.configuration)),
            name => {
                let sample = Sample::new(our_name(name), line.value, line.unit, usage);
                ran.samples.push(sample);
            }
        }
    }
    Ok(())
}

/// Returns our name of a peer's figure.
fn our_name(name: &str) -> &str {
    match name {
        "step" => "step to step",
        name => name,
    }
}

fn known() -> Vec<String> {
    let entries = std::fs::read_dir(folder(""))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("install").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn folder(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(peer)
}
