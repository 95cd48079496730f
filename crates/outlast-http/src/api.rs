//! The state that every route shares: the client, the settings and the bounds on concurrent work.

use crate::limits::{Limits, READ_BYTES_MAX, READ_TURN};
use crate::overview::step_counter::StepCounter;
use crate::problem::{Code, Problem};
use crate::routes::Readiness;
use crate::settings::Settings;
use outlast::Client;
use outlast::client::Admin;
use std::sync::{Arc, Once, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which the memory of reads is counted.
pub(crate) const KIB: usize = 1024;

/// Holds the client, the settings and everything else that requests share.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) step_counter: Arc<StepCounter>,
    /// One permit for each event stream that may be open.
    pub(crate) streams: Arc<Semaphore>,
    /// One permit for each long poll that may be open.
    pub(crate) waits: Arc<Semaphore>,
    /// The last answer to whether the database accepts writes.
    pub(crate) readiness: Readiness,
    /// Logs once that the server does not pass on the address of its peers.
    pub(crate) peer_is_unknown: Once,
    /// The memory that reads may use at once, in KiB.
    read_memory: Arc<Semaphore>,
    /// The OpenAPI document, built on the first request for it.
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
            read_memory: Arc::new(Semaphore::new(limits.read_bytes.max(READ_BYTES_MAX) / KIB)),
            document: OnceLock::new(),
            client,
            settings,
        })
    }

    /// Returns what operators do.
    pub(crate) fn admin(&self) -> Admin<'_> {
        self.client.admin()
    }

    /// Reserves memory for one request that reads values.
    pub(crate) async fn reserve(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.reserve_bytes(READ_BYTES_MAX).await
    }

    /// Reserves memory for `bytes`, or the whole budget if `bytes` is larger.
    pub(crate) async fn reserve_bytes(
        &self,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        let all = self.settings.limits.read_bytes.max(READ_BYTES_MAX);
        let permits = u32::try_from(bytes.min(all) / KIB).unwrap_or(u32::MAX);
        let turn = self.read_memory.clone().acquire_many_owned(permits);
        match tokio::time::timeout(READ_TURN, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Problem::new(
                Code::Unavailable,
                "too many large responses are in progress; try again later",
            )),
        }
    }

    pub(crate) fn document(&self) -> Result<&str, Problem> {
        let document = self
            .document
            .get_or_init(|| crate::routes::document().to_json().ok());
        let document = document.as_deref();
        document
            .ok_or_else(|| Problem::new(Code::Internal, "the OpenAPI document could not be built"))
    }
}
