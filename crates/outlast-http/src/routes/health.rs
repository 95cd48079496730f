//! Liveness and readiness: whether the process responds, and whether its database accepts writes.

use crate::api::Api;
use crate::limits::{READY_FOR, READY_WITHIN, UNREADY_FOR};
use crate::problem::{Code, Problem, ProblemBody};
use axum::Json;
use axum::extract::State;
use outlast::Client;
use outlast_core::WriteCheck;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;

/// The process is healthy.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthBody {
    /// `ok`.
    status: &'static str,
}

/// Reports that the process responds. No token is needed.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "get_health", security(()),
    responses((status = 200, description = "The process is running.", body = HealthBody)),
)]
pub(crate) async fn health() -> Json<HealthBody> {
    Json(HealthBody { status: "ok" })
}

/// The database accepts writes, or this process may only read.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadinessBody {
    /// `ok`.
    status: &'static str,
    /// Whether the process may write. A process that may only read is ready as well.
    writes: bool,
}

/// Reports within two seconds whether the database is ready. No token is needed.
///
/// It is ready if it accepts writes, or if it responds to a process that may only read.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "get_readiness", security(()),
    responses((status = 200, description = "The database accepts writes, or the process has read-only access.", body = ReadinessBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<ReadinessBody>, Problem> {
    let looked = tokio::time::timeout(READY_WITHIN, api.readiness.look(&api.client)).await;
    let found = looked.unwrap_or(Err("the database did not respond within two seconds"));
    let writes = found.map_err(|detail| Problem::new(Code::Unavailable, detail))?;
    let status = "ok";
    Ok(Json(ReadinessBody { status, writes }))
}

/// Caches whether the database accepts writes. One request tries, and the others wait for its
/// result.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, WriteAccess)>>);

/// Whether the process may write, or why the database does not accept writes. The text reveals
/// nothing about the database.
type WriteAccess = Result<bool, &'static str>;

impl Readiness {
    async fn look(&self, client: &Client) -> WriteAccess {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = *last
            && at.elapsed() < found.map_or(UNREADY_FOR, |_| READY_FOR)
        {
            return found;
        }
        let found = try_writing(client).await;
        *last = Some((Instant::now(), found));
        found
    }
}

async fn try_writing(client: &Client) -> WriteAccess {
    let detail = match client.admin().check_writes().await {
        Ok(WriteCheck::Works) => return Ok(true),
        Ok(WriteCheck::NoRight) => return Ok(false),
        Ok(WriteCheck::ReadOnly) => "the database is read-only",
        Ok(WriteCheck::DiskFull) => "the database's disk is full",
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            return Err("the database is not responding; see the server log");
        }
    };
    tracing::warn!("not ready: {detail}");
    Err(detail)
}
