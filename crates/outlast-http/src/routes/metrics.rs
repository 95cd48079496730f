//! The route for Prometheus.

use crate::api::Api;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::MayRead;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use std::sync::Arc;

/// Returns the metrics of this process in the Prometheus text format.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "get_metrics",
    responses(
        (status = 200, description = "The metrics of the process.", body = String, content_type = "text/plain"),
        (status = "default", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn metrics(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
) -> Result<impl IntoResponse, Problem> {
    if !caller.scope.is_everything() {
        let detail = "metrics cover every queue and machine; use a token without a scope";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let Some(render) = &api.settings.metrics else {
        let detail = "metrics are not enabled; see docs/metrics.md";
        return Err(Problem::new(Code::NotFound, detail));
    };
    Ok((
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        render(),
    ))
}
