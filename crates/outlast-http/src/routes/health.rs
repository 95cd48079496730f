//! Whether the process answers, and whether its database does.

use crate::api::Api;
use crate::limits::READY_WITHIN;
use crate::problem::{Code, Problem, ProblemBody};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;

/// All is well.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthBody {
    /// `ok`.
    status: &'static str,
}

/// The process answers. No token is needed.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "get_health", security(()),
    responses((status = 200, body = HealthBody)),
)]
pub(crate) async fn health() -> Json<HealthBody> {
    Json(HealthBody { status: "ok" })
}

/// The database answers within two seconds. No token is needed.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "get_readiness", security(()),
    responses((status = 200, body = HealthBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<HealthBody>, Problem> {
    match tokio::time::timeout(READY_WITHIN, api.client.now()).await {
        Ok(Ok(_)) => Ok(Json(HealthBody { status: "ok" })),
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            Err(Problem::new(
                Code::Unavailable,
                "the database does not answer; the server's log says why",
            ))
        }
        Err(_) => Err(Problem::new(
            Code::Unavailable,
            "the database did not answer within two seconds",
        )),
    }
}
