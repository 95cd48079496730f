//! The server's backends, then the whole server, killed repeatedly.

use super::postgres;
use crate::args::Args;
use crate::crew::Worker;
use crate::report::Report;
use crate::site::Site;
use crate::stage::{Act, Stage};
use anyhow::Result;
use outlast_testbed::cluster::Cluster;
use std::time::Duration;
use tokio::task::block_in_place;

const WORKERS: usize = 3;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let mut cluster = postgres()?;
    let site = Site::postgres(cluster.url());
    let stage = Stage::set(args, site.clone(), site).await?;
    stage
        .play(|act| crash_again_and_again(act, &mut cluster))
        .await
}

/// When a backend is killed, the server no longer trusts its shared memory: it ends all sessions
/// and recovers. A killed server recovers when it is started.
async fn crash_again_and_again(mut act: Act, cluster: &mut Cluster) -> Result<Vec<Worker>> {
    let workers = act.workers(WORKERS).await?;
    while act.goes_on() {
        tokio::time::sleep(Duration::from_millis(act.random.u64(500..2_500))).await;
        let backends = block_in_place(|| cluster.backends());
        if act.random.bool() && !backends.is_empty() {
            let backend = backends[act.random.usize(..backends.len())];
            if block_in_place(|| cluster.kill_backend(backend)) {
                act.note("server crashes: a backend killed").await;
            }
        } else {
            block_in_place(|| cluster.kill());
            act.note("server crashes: the whole server killed").await;
            tokio::time::sleep(Duration::from_millis(act.random.u64(..1_500))).await;
            block_in_place(|| cluster.start());
        }
        block_in_place(|| cluster.wait_ready());
    }
    Ok(workers)
}
