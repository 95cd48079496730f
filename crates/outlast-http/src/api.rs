//! What every route works with.

use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::settings::Settings;
use crate::surveyor::Surveyor;
use outlast::Client;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// The client, the settings, and what is shared between requests.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) surveyor: Arc<Surveyor>,
    /// A place for each event stream that may be open.
    pub(crate) streams: Arc<Semaphore>,
    /// A place for each long poll that may be open.
    pub(crate) waits: Arc<Semaphore>,
    /// The document of the API, made when it is first asked for.
    document: OnceLock<Option<String>>,
}

impl Api {
    pub(crate) fn new(client: Client, settings: Settings) -> Arc<Api> {
        let limits: &Limits = &settings.limits;
        Arc::new(Api {
            surveyor: Surveyor::new(client.clone()),
            streams: Arc::new(Semaphore::new(limits.streams)),
            waits: Arc::new(Semaphore::new(limits.waits)),
            document: OnceLock::new(),
            client,
            settings,
        })
    }

    pub(crate) fn document(&self) -> Result<&str, Problem> {
        let document = self
            .document
            .get_or_init(|| crate::routes::document().to_json().ok());
        let document = document.as_deref();
        document.ok_or_else(|| Problem::new(Code::Internal, "the document cannot be written"))
    }
}
