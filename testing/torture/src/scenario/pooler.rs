//! All connections go through PgBouncer in transaction mode, while workers are killed.

use super::kill::kill_again_and_again;
use super::postgres;
use crate::args::Args;
use crate::report::Report;
use crate::site::Site;
use crate::stage::Stage;
use anyhow::{Context as _, Result};
use outlast_testbed::pooler::{Behind, Pooler};

/// Fewer than the workers would open, so that sessions are shared.
const SERVER_CONNECTIONS: usize = 10;

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let cluster = postgres()?;
    let behind = Behind::cluster(cluster.port());
    let pooler = Pooler::start(&behind, SERVER_CONNECTIONS);
    let pooler =
        pooler.context("PgBouncer is needed: install it, or name it in OUTLAST_TEST_PGBOUNCER")?;
    let way = Site::Postgres {
        url: pooler.url(),
        listen_url: Some(cluster.url()),
    };
    let stage = Stage::set(args, Site::postgres(cluster.url()), way).await?;
    let stage = stage.may_keep_sessions(SERVER_CONNECTIONS as i64);
    stage.play(kill_again_and_again).await
}
