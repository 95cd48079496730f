//! The data of one screen, read at one time.

use super::operation_lines::{self, OperationLine};
use super::status_counts::{Counts, StatusCounts};
use outlast::store::{Error, Instance, QueueSummary, Timestamp, Worker};
use outlast::{Client, Status};

/// The number of failures shown.
const FAILURES: usize = 20;

/// Everything that the screen shows.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) now: Timestamp,
    pub(super) counts: Counts,
    pub(super) queues: Vec<QueueSummary>,
    pub(super) workers: Vec<Worker>,
    /// The newest failures.
    pub(super) failures: Vec<Instance>,
    /// The latest operations, newest first.
    pub(super) operations: Vec<OperationLine>,
    /// The error of the last read; the other data is then older.
    pub(super) error: Option<String>,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot {
            now: Timestamp(0),
            counts: Counts::default(),
            queues: Vec::new(),
            workers: Vec::new(),
            failures: Vec::new(),
            operations: Vec::new(),
            error: None,
        }
    }
}

/// Reads the database repeatedly.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    status_counts: StatusCounts,
}

impl Watcher {
    pub(super) async fn look(&mut self, client: &Client) -> Result<Snapshot, Error> {
        let failed = client.list().status(Status::Failed).limit(FAILURES);
        let admin = client.admin();
        Ok(Snapshot {
            now: admin.now().await?,
            counts: self.status_counts.look(client).await?,
            queues: admin.queues().await?,
            workers: admin.workers().await?,
            failures: failed.await?.instances,
            operations: operation_lines::fold(&admin.operations(None).await?),
            error: None,
        })
    }
}
