//! Peers: programs that run the same workloads, each in its folder under `peers/`.
//!
//! `peers/NAME/run WORKLOAD N URL` prints one JSON object per figure; the first tells about the peer.

use crate::args::Workload;
use crate::cpu::Meter;
use crate::figure::Sample;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a peer prints: a figure, or what it is.
#[derive(Deserialize)]
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

/// What one run of a peer brought.
pub(crate) struct Ran {
    pub(crate) samples: Vec<Sample>,
    pub(crate) about: Option<String>,
}

/// Installs a peer, if that was not done before.
pub(crate) fn install(peer: &str) -> Result<()> {
    let status = Command::new(folder(peer).join("install"))
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("there is no peer {peer:?}: see bench/peers"))?;
    ensure!(status.success(), "peer {peer} could not be installed");
    Ok(())
}

/// Runs a workload of a peer on an empty database.
pub(crate) async fn run(peer: &str, workload: Workload, n: usize, site: &Site) -> Result<Ran> {
    let url = site.empty_database().await?;
    let meter = Meter::start(site.server_process())?;
    let output = Command::new(folder(peer).join("run"))
        .args([&workload.to_string(), &n.to_string(), &url])
        .stderr(Stdio::inherit())
        .output()?;
    let usage = meter.stop()?;
    ensure!(
        output.status.success(),
        "peer {peer} did not finish {workload}: {}",
        output.status
    );
    let mut ran = Ran {
        samples: Vec::new(),
        about: None,
    };
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("peer {peer} printed what is no figure: {line}"))?;
        match line.name.as_str() {
            "about" => ran.about = Some(format!("{} ({})", line.version, line.configuration)),
            _ => ran
                .samples
                .push(Sample::new(line.name, line.value, unit(&line.unit), usage)),
        }
    }
    Ok(ran)
}

fn unit(unit: &str) -> &'static str {
    ["steps/s", "rows/s", "ms", "s"]
        .into_iter()
        .find(|known| *known == unit)
        .unwrap_or("?")
}

fn folder(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(peer)
}
