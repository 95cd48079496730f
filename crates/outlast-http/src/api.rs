//! What every route works with.

use crate::limits::{Limits, READ_BYTES_MAX, READ_TURN};
use crate::problem::{Code, Problem};
use crate::routes::Readiness;
use crate::settings::Settings;
use crate::step_counter::StepCounter;
use outlast::Client;
use std::sync::{Arc, Once, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which memory for reads is counted.
pub(crate) const KIB: usize = 1024;

/// The client, the settings, and what is shared between requests.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) step_counter: Arc<StepCounter>,
    /// A place for each event stream that may be open.
    pub(crate) streams: Arc<Semaphore>,
    /// A place for each long poll that may be open.
    pub(crate) waits: Arc<Semaphore>,
    /// Whether the database takes writes, as it was last tried.
    pub(crate) readiness: Readiness,
    /// The log says once that the server does not tell where connections come from.
    pub(crate) peer_is_unknown: Once,
    /// Memory that reads may take, in KiB.
    reads: Arc<Semaphore>,
    /// The document of the API, made when it is first asked for.
    document: OnceLock<Option<String>>,
}

impl Api {
    pub(crate) fn new(client: Client, settings: Settings) -> Arc<Api> {
        let limits: &Limits = &settings.limits;
        Arc::new(Api {
            step_counter: StepCounter::new(client.clone()),
            streams: Arc::new(Semaphore::new(limits.streams)),
            waits: Arc::new(Semaphore::new(limits.waits)),
            readiness: Readiness::default(),
            peer_is_unknown: Once::new(),
            reads: Arc::new(Semaphore::new(limits.read_bytes.max(READ_BYTES_MAX) / KIB)),
            document: OnceLock::new(),
            client,
            settings,
        })
    }

    /// Room in memory for one request that reads values.
    pub(crate) async fn room(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.room_for(READ_BYTES_MAX).await
    }

    /// Room for `bytes`, or for as many as there are in all.
    pub(crate) async fn room_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let all = self.settings.limits.read_bytes.max(READ_BYTES_MAX);
        let permits = u32::try_from(bytes.min(all) / KIB).unwrap_or(u32::MAX);
        let turn = self.reads.clone().acquire_many_owned(permits);
        match tokio::time::timeout(READ_TURN, turn).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Problem::new(
                Code::Unavailable,
                "as many large answers are on their way as may be; try again later",
            )),
        }
    }

    pub(crate) fn document(&self) -> Result<&str, Problem> {
        let document = self
            .document
            .get_or_init(|| crate::routes::document().to_json().ok());
        let document = document.as_deref();
        document.ok_or_else(|| Problem::new(Code::Internal, "the document cannot be written"))
    }
}
