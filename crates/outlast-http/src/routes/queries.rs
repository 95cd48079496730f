//! Routes for queries, which the code of a workflow answers.
//!
//! The code must be in this process: the client of the router belongs to an engine.

use super::signals::inbox_full;
use crate::api::Api;
use crate::problem::{Code, Problem, ProblemBody};
use crate::read_budget::BudgetedBody;
use crate::requests::extract::{AnyBody, Id, MayRead, Path, parse_id};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use outlast::client::RequestError;
use outlast::{LookupError, SignalError};
use serde::Serialize;
use std::sync::Arc;

/// The queries that a workflow answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Queries)]
pub(crate) struct QueriesBody {
    /// Their names, in order.
    queries: Vec<String>,
}

/// Lists the queries that a workflow answers now.
///
/// Replays its history, as a query does. Without the code of the workflow in this server, the
/// answer is the problem `no_code`.
#[utoipa::path(
    get, path = "/v1/instances/{id}/queries", tag = "instances", operation_id = "list_queries",
    params(("id" = String, Path)),
    responses((status = 200, description = "The names.", body = QueriesBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<QueriesBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    let queries = api.admin().queries(id).await?;
    Ok(Json(QueriesBody { queries }))
}

/// Asks a workflow: its history is replayed here, and its code answers.
///
/// The body is the query, any JSON; an absent one is null. The answer is the reply, any JSON.
/// Nothing is written, and no worker takes part.
#[utoipa::path(
    post, path = "/v1/instances/{id}/queries/{name}", tag = "instances", operation_id = "query_instance",
    params(("id" = String, Path), ("name" = String, Path)), request_body = serde_json::Value,
    responses((status = 200, description = "The reply.", body = serde_json::Value), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn ask(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Path((id, name)): Path<(String, String)>,
    AnyBody(query): AnyBody,
) -> Result<Response, Problem> {
    let id = parse_id(&id)?;
    api.instance(&caller.scope, id).await?;
    // This bounds how many histories are in memory at once.
    let room = api.reserve().await?;
    let reply = api.admin().query(id, &name, &query).await?;
    BudgetedBody::answer(Json(reply).into_response(), room).await
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Problem {
        let code = match error {
            RequestError::Store(error) | RequestError::Lookup(LookupError::Store(error)) => {
                return error.into();
            }
            RequestError::Signal(SignalError::Store(error)) => return error.into(),
            RequestError::Signal(SignalError::InboxFull { instance, .. }) => {
                return inbox_full(instance);
            }
            RequestError::Lookup(_) => Code::NotFound,
            RequestError::Signal(_) | RequestError::Ended { .. } => Code::NoTarget,
            RequestError::IdTaken { .. } => Code::Conflict,
            RequestError::TimedOut { .. } => Code::Timeout,
            RequestError::NoHandler { .. } | RequestError::NotAWorkflow { .. } => Code::NoHandler,
            RequestError::NoCode { .. } => Code::NoCode,
            RequestError::Blocked { .. } => Code::Blocked,
            RequestError::Malformed { .. } => Code::InvalidJson,
            RequestError::Rejected { .. } | RequestError::Failed { .. } => Code::RequestFailed,
            RequestError::Undecodable { .. } | _ => Code::Internal,
        };
        Problem::new(code, error.to_string())
    }
}
