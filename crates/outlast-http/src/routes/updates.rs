//! Routes for updates: signals that want a reply.

use super::signals::{no_target, within_reach};
use super::wait::{place, stopped, timeout_of};
use crate::access::tokens::Caller;
use crate::api::Api;
use crate::bodies::instance::shown_key;
use crate::bodies::time::Moment;
use crate::problem::{Code, Problem, ProblemBody};
use crate::read_budget::BudgetedBody;
use crate::requests::extract::{AnyBody, MayRead, MaySignal, Path, Query, parse_id};
use crate::requests::keys::{self, KeyParams, KeyPath};
use crate::requests::query::flag;
use crate::server::serve::Shutdown;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use outlast::client::RequestError;
use outlast::{InstanceId, LookupError};
use outlast_core::{
    Json as Document, KeyText, NewSignal, Reply, ReplyKind, SentUpdate, Target, UpdateState,
};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;

/// The id of an update, and how long to wait for its reply.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct UpdateParams {
    /// The id of the update. Sent again under its id, it is the same update and has the same
    /// reply. Default: a random one.
    id: Option<String>,
    /// The id in hexadecimal, instead of as text.
    id_hex: Option<String>,
    /// The longest wait in milliseconds. Default: 30,000, which is also the maximum.
    #[param(value_type = Option<u64>)]
    timeout_ms: Option<String>,
}

/// How long to wait for the reply to an update.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ReplyParams {
    /// The longest wait in milliseconds, at most 30,000. Default: answer at once.
    #[param(value_type = Option<u64>)]
    timeout_ms: Option<String>,
    /// Whether the id in the path is in hexadecimal. Default: `false`.
    #[param(value_type = Option<bool>)]
    hex: Option<String>,
}

/// An update, and what became of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Update)]
pub(crate) struct UpdateBody {
    /// Its id. One that is not text is shown like `\x00ff`.
    update: Option<String>,
    /// The id in hexadecimal, only if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    update_hex: Option<String>,
    /// The instance that it was sent to.
    instance: String,
    name: String,
    /// `pending`, `replied`, or `ended` when the instance ended without a reply.
    #[schema(value_type = UpdateStateWord)]
    state: &'static str,
    /// Of a reply: `done`, `failed` when the code failed, or `rejected` when it refused.
    #[schema(value_type = Option<ReplyKindWord>)]
    kind: Option<&'static str>,
    /// The reply of the kind `done`, as stored.
    #[schema(value_type = Option<serde_json::Value>)]
    reply: Option<Document>,
    /// Why it failed or was rejected.
    reason: Option<String>,
    replied_at: Option<Moment>,
}

/// What became of an update, in one word.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum UpdateStateWord {
    Pending,
    Replied,
    Ended,
}

/// The kind of a reply, in one word.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum ReplyKindWord {
    Done,
    Failed,
    Rejected,
}

/// The name of an update, from a path that has more parameters.
#[derive(Deserialize)]
pub(crate) struct NamePath {
    update: String,
}

/// Sends an update to an instance, and waits for the reply.
///
/// The body is the payload, any JSON; an absent one is null. Sent again under its id, it is the
/// same update and has the same reply.
#[utoipa::path(
    post, path = "/v1/instances/{id}/updates/{update}", tag = "signals", operation_id = "update_instance",
    params(("id" = String, Path), ("update" = String, Path, description = "The name of the update."), UpdateParams), request_body = serde_json::Value,
    responses((status = 200, description = "The reply, or that the instance ended without one.", body = UpdateBody), (status = 202, description = "There is no reply yet: `pending`.", body = UpdateBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn send(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    Path((id, name)): Path<(String, String)>,
    Query(params, _): Query<UpdateParams>,
    stopping: Option<Extension<Shutdown>>,
    AnyBody(payload): AnyBody,
) -> Result<Response, Problem> {
    let target = Target::Id(parse_id(&id)?);
    answer(&api, &caller, target, name, payload, &params, stopping).await
}

/// Sends an update to the holder of a correlation key, and waits for the reply.
///
/// The body is the payload, any JSON; an absent one is null. Sent again under its id, it is the
/// same update and has the same reply.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/updates/{update}", tag = "signals", operation_id = "update_holder",
    params(("machine" = String, Path), ("key" = String, Path), ("update" = String, Path, description = "The name of the update."), UpdateParams, KeyParams), request_body = serde_json::Value,
    responses((status = 200, description = "The reply, or that the instance ended without one.", body = UpdateBody), (status = 202, description = "There is no reply yet: `pending`.", body = UpdateBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn send_by_key(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    KeyPath { machine, key }: KeyPath,
    Path(NamePath { update: name }): Path<NamePath>,
    Query(params, _): Query<UpdateParams, KeyParams>,
    stopping: Option<Extension<Shutdown>>,
    AnyBody(payload): AnyBody,
) -> Result<Response, Problem> {
    let target = Target::Key { machine, key };
    answer(&api, &caller, target, name, payload, &params, stopping).await
}

async fn answer(
    api: &Api,
    caller: &Caller,
    target: Target,
    name: String,
    payload: Document,
    params: &UpdateParams,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    let timeout = timeout_of(params.timeout_ms.as_deref())?;
    let given = keys::new("id", params.id.as_deref(), params.id_hex.as_deref())?;
    let id = given.map_or_else(random_id, Ok)?;
    let target = within_reach(api, caller, target).await?;
    let mut signal = NewSignal::new(target, name.as_str(), payload);
    signal.wants_reply = true;
    signal.dedup_key = Some(id.clone());
    signal.check()?;
    // Before the update is sent: a refused request leaves nothing behind.
    let _place = place_for(api, timeout)?;
    let instance = match api.admin().send_update(signal).await {
        Ok(instance) => instance,
        // Nothing was stored, as for a signal. The text does not say whether it exists.
        Err(RequestError::Ended { .. } | RequestError::Lookup(LookupError::NotFound { .. })) => {
            return Err(no_target());
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(body) = read(api, instance, &id, timeout, stopping).await? {
        return Ok(body);
    }
    api.instance(&caller.scope, instance).await?;
    let (request, id) = (name, shown_key(Some(id)).0.unwrap_or_default());
    Err(RequestError::IdTaken { request, id }.into())
}

/// Returns what became of an update, or waits for its reply.
#[utoipa::path(
    get, path = "/v1/instances/{id}/updates/{update}", tag = "signals", operation_id = "get_update",
    params(("id" = String, Path), ("update" = String, Path, description = "The id of the update."), ReplyParams),
    responses((status = 200, description = "The update. After a wait without a reply it is `pending`.", body = UpdateBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Path((id, update)): Path<(String, String)>,
    Query(params, _): Query<ReplyParams>,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    let id = parse_id(&id)?;
    let timeout = match params.timeout_ms.as_deref() {
        None => Duration::ZERO,
        given => timeout_of(given)?,
    };
    let key: String = match flag("hex", params.hex.as_deref())? {
        true => KeyText::from_hex(&update)?.into(),
        false => update,
    };
    SentUpdate::check_id(&key)?;
    api.instance(&caller.scope, id).await?;
    let _place = place_for(&api, timeout)?;
    let found = read(&api, id, &key, timeout, stopping).await?;
    found.map_or_else(
        || {
            let shown = shown_key(Some(key)).0.unwrap_or_default();
            let detail = format!("instance {id} was sent no update with the id {shown:?}");
            Err(Problem::new(Code::NotFound, detail))
        },
        |mut answer| {
            *answer.status_mut() = StatusCode::OK;
            Ok(answer)
        },
    )
}

/// Takes one of the places for long polls, if there is a wait.
fn place_for(api: &Api, timeout: Duration) -> Result<Option<SemaphorePermit<'_>>, Problem> {
    match timeout.is_zero() {
        true => Ok(None),
        false => place(api).map(Some),
    }
}

/// Waits for the reply, and answers with what became of the update. `None` if there is none.
async fn read(
    api: &Api,
    instance: InstanceId,
    id: &str,
    timeout: Duration,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Option<Response>, Problem> {
    // Waits without holding a reply, and reads it again within the memory budget: one commit may
    // write many replies at once.
    if !timeout.is_zero() {
        tokio::select! {
            found = api.admin().update(instance, id, timeout) => drop(found?),
            // At shutdown the caller repeats the request at another server.
            () = stopped(stopping) => {}
        }
    }
    let room = api.reserve().await?;
    let found = api.admin().update(instance, id, Duration::ZERO).await?;
    let Some(update) = found else {
        return Ok(None);
    };
    let status = match update.state {
        UpdateState::Pending => StatusCode::ACCEPTED,
        UpdateState::Replied(_) | UpdateState::Ended => StatusCode::OK,
    };
    let body = Json(UpdateBody::of(instance, id, update));
    let answer = BudgetedBody::answer((status, body).into_response(), room).await?;
    Ok(Some(answer))
}

impl UpdateBody {
    fn of(instance: InstanceId, id: &str, update: SentUpdate) -> UpdateBody {
        let (shown, digits) = shown_key(Some(id.to_owned()));
        let (state, reply) = match update.state {
            UpdateState::Pending => ("pending", None),
            UpdateState::Replied(reply) => ("replied", Some(reply)),
            UpdateState::Ended => ("ended", None),
        };
        let mut body = UpdateBody {
            update: shown,
            update_hex: digits,
            instance: instance.to_string(),
            name: update.name,
            state,
            kind: None,
            reply: None,
            reason: None,
            replied_at: None,
        };
        if let Some(Reply { kind, data, at }) = reply {
            body.kind = Some(kind.as_str());
            body.replied_at = Some(Moment(at));
            match kind {
                ReplyKind::Done => body.reply = Some(data),
                // A reason that this server cannot decode is shown as stored.
                ReplyKind::Failed | ReplyKind::Rejected => {
                    let reason = data.decode();
                    body.reason = Some(reason.unwrap_or_else(|_| data.as_str().to_owned()));
                }
            }
        }
        body
    }
}

fn random_id() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let detail = format!("the system has no source of randomness: {error}");
        Problem::new(Code::Internal, detail)
    })?;
    Ok(bytes.iter().fold(String::new(), |mut id, byte| {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
        id
    }))
}
