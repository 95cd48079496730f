//! `outlast demo`: sample machines that keep running, on their own database.
//!
//! `machines` has the machines, `feeder` starts and signals instances, and `engine` runs them. The
//! API and the dashboard are served as by `outlast serve`.

mod engine;
mod feeder;
mod machines;

use crate::database::{DatabaseArgs, Location};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::server::BoundServer;
use crate::shutdown_signal;
use clap::Args;
use engine::DemoEngine;
use outlast_http::Settings;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// The folder for the SQLite database
    #[arg(long, value_name = "PATH", default_value = "outlast-demo")]
    folder: PathBuf,
    /// Run on this PostgreSQL server instead
    #[arg(long, value_name = "URL", conflicts_with = "folder")]
    postgres: Option<String>,
    /// The port on 127.0.0.1; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 7700)]
    port: u16,
}

impl DemoArgs {
    fn place(&self, schema: &str) -> Result<Location, Failure> {
        if let Some(url) = &self.postgres {
            return Ok(Location::Postgres {
                url: url.clone(),
                schema: schema.to_owned(),
            });
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| {
            let folder = self.folder.display();
            Failure::Failed(format!("cannot create folder {folder}: {error}"))
        })?;
        Ok(Location::Sqlite(self.folder.join("demo.db")))
    }
}

/// Runs until it is stopped. Started again, it continues where it was.
pub(crate) async fn run(
    args: &DemoArgs,
    database: &DatabaseArgs,
    output: &Output,
) -> Result<(), Failure> {
    refuse_database(database)?;
    let place = args.place(&database.schema)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let server = BoundServer::at(address, Settings::new())
        .await?
        .with_metrics()?;
    let running = DemoEngine::start(&place).await?;
    note(match &place {
        Location::Sqlite(path) => format!("running sample machines on {}", path.display()),
        Location::Postgres { schema, .. } => format!("running sample machines in schema {schema}"),
    });
    let stop = CancellationToken::new();
    let feeder = tokio::spawn(feeder::feed(running.client(), stop.clone()));
    let served = server
        .serve(running.client(), output, shutdown_signal::requested())
        .await;
    note("stopping after the running steps");
    stop.cancel();
    // The feeder stops between two rounds, and a panic has already been logged.
    let _ = feeder.await;
    running.stop().await;
    served
}

/// Refuses `--database`: it may name a real database, or the user meant `--postgres`. The
/// environment variable is ignored, because it is meant for the other commands.
fn refuse_database(database: &DatabaseArgs) -> Result<(), Failure> {
    let in_environment = std::env::var("OUTLAST_DATABASE").ok();
    match database.database.is_some() && database.database != in_environment {
        true => Err(Failure::Usage(
            "demo uses its own database; choose one with --folder or --postgres instead of --database".to_owned(),
        )),
        false => Ok(()),
    }
}
