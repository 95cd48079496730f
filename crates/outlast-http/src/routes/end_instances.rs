//! Ending instances and trees of them: as a request, or at once; and what came of it for the children.

use super::operate::{OperationBody, note};
use crate::api::Api;
use crate::auth::{Caller, TokenScope};
use crate::cursor::Question;
use crate::extract::{Id, MayOperate, MayRead, OptionalBody, Path, Query};
use crate::problem::{Code, Problem, ProblemBody};
use crate::query::limit;
use crate::shape::{Counts, StatusWord, no_counts};
use axum::Json;
use axum::extract::State;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{
    CancelAnswer, Family, InstanceId, Operation, OperationId, Status, TerminateAnswer,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How to end something.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = Ending)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EndingBody {
    /// Recorded with the operation, and shown on the instance.
    reason: Option<String>,
    /// Also all that descend from it, whatever their policies say. Needs a token without bounds.
    #[schema(required = false)]
    tree: bool,
}

/// What was found, and so what was done.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Ended)]
pub(crate) struct EndedBody {
    answer: EndedWord,
    /// What the instance was before.
    #[schema(value_type = StatusWord)]
    status_before: Status,
}

/// What was found, in a word.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EndedAnswer)]
pub(crate) enum EndedWord {
    /// It is asked to end, and its machine decides how.
    Requested,
    /// It had been asked before; nothing was written of it.
    AlreadyRequested,
    /// It is cancelled: it still waited for its place in a window, and nothing of it had run.
    NeverStarted,
    /// It is cancelled.
    Terminated,
    /// It had ended before. Only the answer for a tree, where those that descend from it are told all the same.
    AlreadyEnded,
}

/// How an instance and all that descend from it stand.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Family)]
pub(crate) struct FamilyBody {
    /// How many there are by status, the instance itself among them.
    #[schema(inline)]
    members: Counts,
    /// How many have not ended: as many as a verb for the tree would be for.
    live: u64,
    /// Whether all were counted; else there are at least so many.
    complete: bool,
}

/// Where to go on, and how far.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CloseActionsParams {
    /// The `next` of the page before.
    cursor: Option<String>,
    /// How many, at most 200; 50 if not given.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
}

/// A page of what was done to children.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ClosurePage)]
pub(crate) struct CloseActionsBody {
    /// In the order it was done; `instance` is the child.
    close_actions: Vec<OperationBody>,
    /// The `cursor` of the next page; null when this was the last.
    next: Option<String>,
}

/// Asks an instance to end. Its machine decides how: it may take more steps to undo what it did.
///
/// One that waits is woken for it; one that runs is told. Asking again changes nothing.
#[utoipa::path(
    post, path = "/v1/instances/{id}/cancel", tag = "operations", operation_id = "cancel_instance",
    params(("id" = String, Path)), request_body = Option<EndingBody>,
    responses((status = 200, description = "The instance is asked to end, or has ended.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Id(id): Id,
    OptionalBody(body): OptionalBody<EndingBody>,
) -> Result<Json<EndedBody>, Problem> {
    cancel_one(&api, &caller, id, body).await
}

/// Asks the instance that holds a correlation key to end; else the latest that held it is answered for.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/cancel", tag = "operations", operation_id = "cancel_holder",
    params(("machine" = String, Path), ("key" = String, Path)), request_body = Option<EndingBody>,
    responses((status = 200, description = "What became of the instance.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel_by_key(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path((machine, key)): Path<(String, String)>,
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
        true => api.client.cancel_tree(id, note).await?,
        false => api.client.cancel(id, note).await?,
    };
    match answer {
        CancelAnswer::Requested(status) => Ok(ended(EndedWord::Requested, status)),
        CancelAnswer::AlreadyRequested(status) => Ok(ended(EndedWord::AlreadyRequested, status)),
        CancelAnswer::NeverStarted => Ok(ended(EndedWord::NeverStarted, Status::Runnable)),
        CancelAnswer::AlreadyEnded(status) => already_ended(id, status, body.tree),
        CancelAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// JoinSets an instance as cancelled, whatever it does. The outcome of a step that runs is not written.
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

/// JoinSets the instance that holds a correlation key as cancelled, whatever it does; else the latest that held it is
/// answered for.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/terminate", tag = "operations", operation_id = "terminate_holder",
    params(("machine" = String, Path), ("key" = String, Path)), request_body = Option<EndingBody>,
    responses((status = 200, description = "What became of the instance.", body = EndedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn terminate_by_key(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path((machine, key)): Path<(String, String)>,
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
        true => api.client.terminate_tree(id, note).await?,
        false => api.client.terminate(id, note).await?,
    };
    match answer {
        TerminateAnswer::Terminated(status) => Ok(ended(EndedWord::Terminated, status)),
        TerminateAnswer::AlreadyEnded(status) => already_ended(id, status, body.tree),
        TerminateAnswer::NotFound => Err(Problem::no_instance(id)),
    }
}

/// How an instance and all that descend from it stand, counted up to 100,000: what a cancel or a terminate of its tree
/// would be for.
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
    let family = api.client.family(id).await?;
    let family = family.ok_or_else(|| Problem::no_instance(id))?;
    Ok(Json(FamilyBody::of(&family)))
}

/// What was done to the children of an instance because of it: its end, its join, or a tree that was ended.
#[utoipa::path(
    get, path = "/v1/instances/{id}/close_actions", tag = "instances", operation_id = "list_close_actions",
    params(("id" = String, Path), CloseActionsParams),
    responses((status = 200, description = "A page of close_actions, oldest first.", body = CloseActionsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn close_actions(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<CloseActionsParams>,
) -> Result<Json<CloseActionsBody>, Problem> {
    let question = Question::new("close_actions", &id.0);
    let after = params
        .cursor
        .as_deref()
        .map(|cursor| question.position(cursor))
        .transpose()?;
    let limit = limit(params.limit.as_deref())?;
    api.instance(&caller.scope, id).await?;
    let mut found = api.client.close_actions(id, after.map(OperationId)).await?;
    let is_more = found.len() > limit || found.len() == PAGE_MAX;
    found.truncate(limit);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|last| question.cursor(last.id.0));
    let seen = seen(&api, &caller.scope, found).await?;
    Ok(Json(CloseActionsBody {
        close_actions: seen.into_iter().map(OperationBody::of).collect(),
        next,
    }))
}

/// Those of the close_actions whose child is within reach.
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
        let child = api.client.get(child).await?;
        if child.is_some_and(|child| scope.has(&child)) {
            seen.push(closure);
        }
    }
    Ok(seen)
}

/// Whether the caller reaches the instance and, for a tree, whatever may descend from it. Whose queues those are is known
/// only once they are there, so no bounded token will do.
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
    let detail = "what descends from an instance may be in any queue and of any machine, and this token reaches some only; \
                  ask with one that has no bounds, or for one instance at a time";
    Err(Problem::new(Code::Forbidden, detail))
}

fn ended(answer: EndedWord, status_before: Status) -> Json<EndedBody> {
    Json(EndedBody {
        answer,
        status_before,
    })
}

/// Nothing was to be done for the instance; in a tree there may be others.
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
        format!("instance {id} is {status} already"),
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
