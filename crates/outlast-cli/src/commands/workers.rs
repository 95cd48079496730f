//! `outlast workers`: shows the registered workers.

use crate::database::Database;
use crate::failure::Failure;
use crate::format::relative;
use crate::json;
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use outlast::store::{Timestamp, Worker};

pub(crate) async fn run(database: &Database, output: &Output) -> Result<(), Failure> {
    let admin = database.client.admin();
    let (now, workers) = (admin.now().await?, admin.workers().await?);
    match output.format {
        Format::Json => workers
            .iter()
            .try_for_each(|it| output.json(&json::worker(it, now))),
        Format::Ids => workers
            .iter()
            .try_for_each(|it| output.line(it.id.to_string())),
        Format::Table if workers.is_empty() => {
            note("no workers are registered");
            Ok(())
        }
        Format::Table => {
            let headings = [
                "id", "name", "host", "version", "queues", "machines", "started", "lease",
            ];
            let mut table = Table::new(output, &headings);
            for it in &workers {
                table.row([
                    cell(it.id.to_string()),
                    cell(&it.name),
                    cell(&it.host),
                    cell(&it.version),
                    cell(it.queues.join(", ")),
                    cell(machines(it)),
                    cell(relative(it.started_at, now)),
                    cell(lease(it, now)),
                ]);
            }
            output.table(&table)
        }
    }
}

fn machines(worker: &Worker) -> String {
    let machines = worker.machines.iter();
    let machines: Vec<_> = machines
        .map(|it| format!("{}/{}", it.name, it.version))
        .collect();
    machines.join(", ")
}

/// Formats when the lease of a worker ends or ended.
pub(crate) fn lease(worker: &Worker, now: Timestamp) -> String {
    let ends = relative(worker.lease_expires_at, now);
    match worker.lease_expires_at > now {
        true => format!("expires {ends}"),
        false => format!("expired {ends}"),
    }
}
