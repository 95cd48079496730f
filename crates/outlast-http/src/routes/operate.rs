//! Routes that retry, repair and delete one instance, and its log of operations. `end_instances` has
//! cancel and terminate.

use crate::access::tokens::Caller;
use crate::api::Api;
use crate::bodies::time::Moment;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{Id, MayOperate, MayRead, OptionalBody, Query};
use axum::Json;
use axum::extract::State;
use outlast_core::{
    DeleteAnswer, Note, Operation, RepairAnswer, RepairNeed, RetryAnswer, Status, Verb,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The reason for an operation.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = Reason)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReasonBody {
    /// Recorded with the operation.
    pub(crate) reason: Option<String>,
}

/// The reason for an operation.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ReasonParams {
    /// Recorded with the operation.
    reason: Option<String>,
}

/// The effect of the operation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Answer)]
pub(crate) struct AnswerBody {
    /// `retried` or `deleted`.
    answer: &'static str,
}

/// The log of operations.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Operations)]
pub(crate) struct OperationsBody {
    /// Newest first.
    operations: Vec<OperationBody>,
}

/// An operation by an operator, or by a parent on its children.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Operation)]
pub(crate) struct OperationBody {
    /// Ids ascend.
    #[schema(example = "42")]
    id: String,
    /// `cancel`, `terminate`, `retry`, `pause`, `resume`, `delete` or `repair`.
    #[schema(value_type = String)]
    verb: Verb,
    instance: Option<String>,
    queue: Option<String>,
    /// The name of the token, `parent`, or `reconciler` for repairs by an engine.
    by: String,
    reason: Option<String>,
    /// The instance whose end, join or tree caused the operation.
    cause: Option<String>,
    /// The status of the instance before the operation.
    #[schema(value_type = Option<crate::bodies::instance::StatusWord>)]
    status_before: Option<Status>,
    at: Moment,
}

/// Returns the note that is recorded with an operator's verb.
pub(crate) fn note(caller: &Caller, reason: Option<String>) -> Note {
    Note {
        by: caller.name.clone(),
        reason: reason.filter(|reason| !reason.is_empty()),
    }
}

/// Restarts a failed or cancelled instance at the step where it ended.
#[utoipa::path(
    post, path = "/v1/instances/{id}/retry", tag = "operations", operation_id = "retry_instance",
    params(("id" = String, Path)), request_body = Option<ReasonBody>,
    responses((status = 200, description = "The instance is runnable again.", body = AnswerBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn retry(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Json<AnswerBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    match api.admin().retry(id, note(&caller, body.reason)).await? {
        RetryAnswer::Retried => Ok(Json(AnswerBody { answer: "retried" })),
        RetryAnswer::NotEndedBadly(status) => {
            let detail = format!(
                "instance {id} is {status}; only failed and cancelled instances can be retried"
            );
            Err(Problem::new(Code::NotFailed, detail))
        }
        RetryAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// The effect of a repair.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = RepairResult)]
pub(crate) struct RepairBody {
    /// `repaired`, or `not_needed`: then nothing was changed.
    answer: &'static str,
    /// What was wrong: `signal_arrived`, `nothing_awaited`, `children_miscounted`,
    /// `children_finished`, `key_is_free` or `place_is_free`; null if nothing was.
    #[schema(value_type = Option<String>)]
    need: Option<RepairNeed>,
}

/// Repairs an instance that nothing would ever wake. Any other instance stays as it is.
#[utoipa::path(
    post, path = "/v1/instances/{id}/repair", tag = "operations", operation_id = "repair_instance",
    params(("id" = String, Path)), request_body = Option<ReasonBody>,
    responses((status = 200, description = "The instance needs no repair now.", body = RepairBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn repair(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Json<RepairBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    let note = note(&caller, body.reason);
    let (answer, need) = match api.admin().repair(id, note).await? {
        RepairAnswer::Repaired(need) => ("repaired", Some(need)),
        RepairAnswer::NotNeeded(_) => ("not_needed", None),
        RepairAnswer::NotFound => return Err(Problem::no_instance(id)),
    };
    Ok(Json(RepairBody { answer, need }))
}

/// Deletes a finished instance.
#[utoipa::path(
    delete, path = "/v1/instances/{id}", tag = "operations", operation_id = "delete_instance",
    params(("id" = String, Path), ReasonParams),
    responses((status = 200, description = "The instance is deleted.", body = AnswerBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn delete(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    Query(params, _): Query<ReasonParams>,
) -> Result<Json<AnswerBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    match api.admin().delete(id, note(&caller, params.reason)).await? {
        DeleteAnswer::Deleted => Ok(Json(AnswerBody { answer: "deleted" })),
        DeleteAnswer::NotEnded(status) => {
            let detail = format!("instance {id} is {status}; cancel or terminate it first");
            Err(Problem::new(Code::NotEnded, detail))
        }
        DeleteAnswer::ParentLives(_) => {
            let detail = format!(
                "the parent of instance {id} has not finished and may still read its result"
            );
            Err(Problem::new(Code::NotEnded, detail))
        }
        DeleteAnswer::Cascading => {
            let detail = format!(
                "the children of instance {id} are still being cancelled; try again in a moment"
            );
            Err(Problem::new(Code::Conflict, detail))
        }
        DeleteAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// Lists the operations on an instance by operators or by its parent, newest first.
#[utoipa::path(
    get, path = "/v1/instances/{id}/operations", tag = "operations", operation_id = "list_operations",
    params(("id" = String, Path)),
    responses((status = 200, description = "The operations, newest first.", body = OperationsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn operations(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<OperationsBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    let operations = api.admin().operations(Some(id)).await?;
    Ok(Json(OperationsBody {
        operations: operations.into_iter().map(OperationBody::of).collect(),
    }))
}

impl OperationBody {
    pub(crate) fn of(operation: Operation) -> OperationBody {
        OperationBody {
            id: operation.id.to_string(),
            verb: operation.verb,
            instance: operation.instance.map(|id| id.to_string()),
            queue: operation.queue,
            by: operation.by,
            reason: operation.reason,
            cause: operation.cause.map(|parent| parent.to_string()),
            status_before: operation.status_before,
            at: Moment(operation.at),
        }
    }
}
