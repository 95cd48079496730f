//! What people do to one instance: retry, cancel, delete; and the record of it.

use crate::api::Api;
use crate::auth::Caller;
use crate::extract::{Id, MayOperate, MayRead, OptionalBody, Query};
use crate::problem::{Code, Problem, ProblemBody};
use crate::time::Moment;
use axum::Json;
use axum::extract::State;
use outlast_core::{CancelAnswer, DeleteAnswer, Note, Operation, RetryAnswer, Status, Verb};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why something is done.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = Reason)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReasonBody {
    /// Recorded with the operation.
    pub(crate) reason: Option<String>,
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ReasonParams {
    /// Recorded with the operation.
    reason: Option<String>,
}

/// What was done.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Answer)]
pub(crate) struct AnswerBody {
    /// `retried`, `cancelled` or `deleted`.
    answer: &'static str,
}

/// What operators did.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Operations)]
pub(crate) struct OperationsBody {
    /// Newest first.
    operations: Vec<OperationBody>,
}

/// Something an operator did.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Operation)]
pub(crate) struct OperationBody {
    /// `cancel`, `retry`, `pause`, `resume` or `delete`.
    #[schema(value_type = String)]
    verb: Verb,
    instance: Option<String>,
    queue: Option<String>,
    /// Who: the name of the token.
    by: String,
    reason: Option<String>,
    /// What the instance was before.
    #[schema(value_type = Option<crate::shape::StatusWord>)]
    status_before: Option<Status>,
    at: Moment,
}

/// What an operator's verb is recorded with.
pub(crate) fn note(caller: &Caller, reason: Option<String>) -> Note {
    Note {
        by: caller.name.clone(),
        reason: reason.filter(|reason| !reason.is_empty()),
    }
}

/// Starts a failed or cancelled instance again at the step where it ended.
#[utoipa::path(
    post, path = "/v1/instances/{id}/retry", tag = "operations", operation_id = "retry_instance",
    params(("id" = String, Path)), request_body = Option<ReasonBody>,
    responses((status = 200, body = AnswerBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn retry(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Json<AnswerBody>, Problem> {
    api.instance(&caller.reach, id).await?;
    match api.client.retry(id, note(&caller, body.reason)).await? {
        RetryAnswer::Retried => Ok(Json(AnswerBody { answer: "retried" })),
        RetryAnswer::NotEndedBadly(status) => {
            let detail = format!(
                "instance {id} is {status}; what has failed or was cancelled can be retried"
            );
            Err(Problem::new(Code::NotFailed, detail))
        }
        RetryAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// Ends an instance as cancelled, whatever it does.
#[utoipa::path(
    post, path = "/v1/instances/{id}/cancel", tag = "operations", operation_id = "cancel_instance",
    params(("id" = String, Path)), request_body = Option<ReasonBody>,
    responses((status = 200, body = AnswerBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Json<AnswerBody>, Problem> {
    api.instance(&caller.reach, id).await?;
    match api.client.cancel(id, note(&caller, body.reason)).await? {
        CancelAnswer::Cancelled(_) => Ok(Json(AnswerBody {
            answer: "cancelled",
        })),
        CancelAnswer::AlreadyEnded(status) => Err(Problem::new(
            Code::AlreadyEnded,
            format!("instance {id} is {status} already"),
        )),
        CancelAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// Removes an instance that has ended.
#[utoipa::path(
    delete, path = "/v1/instances/{id}", tag = "operations", operation_id = "delete_instance",
    params(("id" = String, Path), ReasonParams),
    responses((status = 200, body = AnswerBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn delete(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    Query(params, _): Query<ReasonParams>,
) -> Result<Json<AnswerBody>, Problem> {
    api.instance(&caller.reach, id).await?;
    match api.client.delete(id, note(&caller, params.reason)).await? {
        DeleteAnswer::Deleted => Ok(Json(AnswerBody { answer: "deleted" })),
        DeleteAnswer::NotEnded(status) => {
            let detail = format!("instance {id} is {status}; cancel it first");
            Err(Problem::new(Code::NotEnded, detail))
        }
        DeleteAnswer::ParentLives(_) => {
            let detail =
                format!("the parent of instance {id} has not ended and may still read its result");
            Err(Problem::new(Code::NotEnded, detail))
        }
        DeleteAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// What operators did to an instance, newest first.
#[utoipa::path(
    get, path = "/v1/instances/{id}/operations", tag = "operations", operation_id = "list_operations",
    params(("id" = String, Path)),
    responses((status = 200, body = OperationsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn operations(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<OperationsBody>, Problem> {
    api.instance(&caller.reach, id).await?;
    let operations = api.client.operations(Some(id)).await?;
    Ok(Json(OperationsBody {
        operations: operations.into_iter().map(OperationBody::of).collect(),
    }))
}

impl OperationBody {
    fn of(operation: Operation) -> OperationBody {
        OperationBody {
            verb: operation.verb,
            instance: operation.instance.map(|id| id.to_string()),
            queue: operation.queue,
            by: operation.by,
            reason: operation.reason,
            status_before: operation.status_before,
            at: Moment(operation.at),
        }
    }
}
