//! Routes that cancel or terminate instances and their trees, and that show the effect on
//! children.

use super::operate::{OperationBody, note};
use crate::access::tokens::{Caller, TokenScope};
use crate::api::Api;
use crate::bodies::instance::{Counts, StatusWord, no_counts};
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{Id, MayOperate, MayRead, OptionalBody, Query};
use crate::requests::keys::{KeyParams, KeyPath};
use crate::requests::query::limit;
use axum::Json;
use axum::extract::State;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{
    CancelAnswer, Family, InstanceId, Operation, OperationId, Status, TerminateAnswer,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How to end an instance.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = Ending)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EndingBody {
    /// Recorded with the operation, and shown on the instance.
    reason: Option<String>,
    /// Also ends all descendants, whatever their close policies. Needs a token without a scope.
    #[schema(required = false)]
    tree: bool,
}

/// The effect of a cancel or terminate.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Ended)]
pub(crate) struct EndedBody {
    answer: EndedWord,
    /// The status of the instance before the operation.
    #[schema(value_type = StatusWord)]
    status_before: Status,
}

/// The effect in one word.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EndedAnswer)]
pub(crate) enum EndedWord {
    /// The instance was asked to end, and its machine decides how.
    Requested,
    /// The instance had been asked before; nothing was written.
    AlreadyRequested,
    /// The instance is cancelled. It was still held by a window and had not run.
    NeverStarted,
    /// The instance is cancelled.
    Terminated,
    /// The instance had already finished. Only for a tree, whose descendants are still ended.
    AlreadyEnded,
}

/// The statuses of an instance and all its descendants.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Family)]
pub(crate) struct FamilyBody {
    /// The number of instances by status, including the instance itself.
    #[schema(inline)]
    members: Counts,
    /// The number of live instances: those that a verb for the tree would affect.
    live: u64,
    /// Whether all were counted; else the counts are lower bounds.
    complete: bool,
}

/// The start and size of a page.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CloseActionsParams {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// The number of entries. Default: 50, at most 200.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
}

/// A page of actions on the children of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ClosurePage)]
pub(crate) struct CloseActionsBody {
    /// In the order in which they were applied; `instance` is the child.
    close_actions: Vec<OperationBody>,
    /// The `cursor` of the next page; null when this was the last.
    next: Option<String>,
}

/// Asks an instance to end. Its machine decides how: it may take more steps to undo its work.
///
/// A waiting instance is woken, and the worker of a running one is notified. Asking again changes
/// nothing.
#[utoipa::path(
    post, path = "/v1/instances/{id}/cancel", tag = "operations", operation_id = "cancel_instance",
    params(("id" = String, Path)), request_body = Option<EndingBody>,
    responses((status = 200, description = "The cancel was requested, or the instance has finished.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<EndingBody>,
) -> Result<Json<EndedBody>, Problem> {
    cancel_one(&api, &caller, id, body).await
}

/// Asks the holder of a correlation key to end.
///
/// If no instance holds the key, the response is about the latest holder.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/cancel", tag = "operations", operation_id = "cancel_holder",
    params(("machine" = String, Path), ("key" = String, Path), KeyParams), request_body = Option<EndingBody>,
    responses((status = 200, description = "The result of the cancel.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel_by_key(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    KeyPath { machine, key }: KeyPath,
    OptionalBody(body): OptionalBody<EndingBody>,
) -> Result<Json<EndedBody>, Problem> {
    let id = api.by_key(&caller.scope, &machine, &key).await?.id;
    cancel_one(&api, &caller, id, body).await
}

async fn cancel_one(
    api: &Api,
    caller: &Caller,
    id: InstanceId,
    body: EndingBody,
) -> Result<Json<EndedBody>, Problem> {
    check_reach(api, caller, id, body.tree).await?;
    let note = note(caller, body.reason);
    let answer = match body.tree {
        true => api.admin().cancel_tree(id, note).await?,
        false => api.admin().cancel(id, note).await?,
    };
    match answer {
        CancelAnswer::Requested(status) => Ok(ended(EndedWord::Requested, status)),
        CancelAnswer::AlreadyRequested(status) => Ok(ended(EndedWord::AlreadyRequested, status)),
        CancelAnswer::NeverStarted => Ok(ended(EndedWord::NeverStarted, Status::Runnable)),
        CancelAnswer::AlreadyEnded(status) => already_ended(id, status, body.tree),
        CancelAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// Ends an instance as cancelled, whatever its status.
///
/// The outcome of a running step is not written.
#[utoipa::path(
    post, path = "/v1/instances/{id}/terminate", tag = "operations", operation_id = "terminate_instance",
    params(("id" = String, Path)), request_body = Option<EndingBody>,
    responses((status = 200, description = "The instance has ended.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn terminate(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<EndingBody>,
) -> Result<Json<EndedBody>, Problem> {
    terminate_one(&api, &caller, id, body).await
}

/// Ends the holder of a correlation key as cancelled, whatever its status.
///
/// If no instance holds the key, the response is about the latest holder.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/terminate", tag = "operations", operation_id = "terminate_holder",
    params(("machine" = String, Path), ("key" = String, Path), KeyParams), request_body = Option<EndingBody>,
    responses((status = 200, description = "The result of the terminate.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn terminate_by_key(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    KeyPath { machine, key }: KeyPath,
    OptionalBody(body): OptionalBody<EndingBody>,
) -> Result<Json<EndedBody>, Problem> {
    let id = api.by_key(&caller.scope, &machine, &key).await?.id;
    terminate_one(&api, &caller, id, body).await
}

async fn terminate_one(
    api: &Api,
    caller: &Caller,
    id: InstanceId,
    body: EndingBody,
) -> Result<Json<EndedBody>, Problem> {
    check_reach(api, caller, id, body.tree).await?;
    let note = note(caller, body.reason);
    let answer = match body.tree {
        true => api.admin().terminate_tree(id, note).await?,
        false => api.admin().terminate(id, note).await?,
    };
    match answer {
        TerminateAnswer::Terminated(status) => Ok(ended(EndedWord::Terminated, status)),
        TerminateAnswer::AlreadyEnded(status) => already_ended(id, status, body.tree),
        TerminateAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// Counts an instance and its descendants by status, up to 100,000.
///
/// A cancel or terminate of the tree would affect these instances.
#[utoipa::path(
    get, path = "/v1/instances/{id}/family", tag = "instances", operation_id = "count_family",
    params(("id" = String, Path)),
    responses((status = 200, description = "The family, counted by status.", body = FamilyBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn family(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<FamilyBody>, Problem> {
    check_reach(&api, &caller, id, true).await?;
    let family = api.admin().family(id).await?;
    let family = family.ok_or_else(|| Problem::no_instance(id))?;
    Ok(Json(FamilyBody::of(&family)))
}

/// Lists the actions on children that an instance's end, its join or the end of a tree caused.
#[utoipa::path(
    get, path = "/v1/instances/{id}/close_actions", tag = "instances", operation_id = "list_close_actions",
    params(("id" = String, Path), CloseActionsParams),
    responses((status = 200, description = "A page of close actions, oldest first.", body = CloseActionsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn close_actions(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<CloseActionsParams>,
) -> Result<Json<CloseActionsBody>, Problem> {
    let list_query = ListQuery::new("close_actions", &id.0);
    let after = params
        .cursor
        .as_deref()
        .map(|cursor| list_query.position(cursor))
        .transpose()?;
    let limit = limit(params.limit.as_deref())?;
    api.instance(&caller.scope, id).await?;
    let mut found = api
        .admin()
        .close_actions(id, after.map(OperationId))
        .await?;
    let is_more = found.len() > limit || found.len() == PAGE_MAX;
    found.truncate(limit);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|last| list_query.cursor(last.id.0));
    let seen = seen(&api, &caller.scope, found).await?;
    Ok(Json(CloseActionsBody {
        close_actions: seen.into_iter().map(OperationBody::of).collect(),
        next,
    }))
}

/// Keeps the close actions whose child is within the token's scope.
async fn seen(
    api: &Api,
    scope: &TokenScope,
    found: Vec<Operation>,
) -> Result<Vec<Operation>, Problem> {
    if scope.is_everything() {
        return Ok(found);
    }
    let mut seen = Vec::new();
    for closure in found {
        let Some(child) = closure.instance else {
            continue;
        };
        let child = api.client.find(child).await?;
        if child.is_some_and(|child| scope.has(&child)) {
            seen.push(closure);
        }
    }
    Ok(seen)
}

/// Checks that the caller may act on the instance and, for a tree, on its descendants. The queues
/// of later descendants are not known yet, so a tree needs a token without a scope.
async fn check_reach(
    api: &Api,
    caller: &Caller,
    id: InstanceId,
    is_tree: bool,
) -> Result<(), Problem> {
    api.instance(&caller.scope, id).await?;
    if !is_tree || caller.scope.is_everything() {
        return Ok(());
    }
    let detail = "descendants may be in any queue and of any machine, and this token is limited to some; \
                  use a token without a scope, or end one instance at a time";
    Err(Problem::new(Code::Forbidden, detail))
}

fn ended(answer: EndedWord, status_before: Status) -> Json<EndedBody> {
    Json(EndedBody {
        answer,
        status_before,
    })
}

/// The instance itself needed no change; in a tree, its descendants may.
fn already_ended(
    id: InstanceId,
    status: Status,
    is_tree: bool,
) -> Result<Json<EndedBody>, Problem> {
    if is_tree {
        return Ok(ended(EndedWord::AlreadyEnded, status));
    }
    Err(Problem::new(
        Code::AlreadyEnded,
        format!("instance {id} is already {status}"),
    ))
}

impl FamilyBody {
    fn of(family: &Family) -> FamilyBody {
        let mut members = no_counts();
        let counted = family.members.iter();
        members.extend(counted.map(|(status, count)| (status.as_str(), *count)));
        FamilyBody {
            members,
            live: family.live(),
            complete: family.complete,
        }
    }
}
