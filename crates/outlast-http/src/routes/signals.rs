//! Routes that send signals and read an inbox.

use crate::access::tokens::Caller;
use crate::api::Api;
use crate::bodies::instance::shown_key;
use crate::bodies::time::Moment;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{Body, Id, MayRead, MaySignal, Query};
use crate::requests::keys::{self, KeyParams, KeyPath};
use axum::Json;
use axum::extract::State;
use outlast_core::{
    Delivery, InstanceId, Json as Document, NewSignal, SignalId, SignalRow, Target,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A signal to send.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = NewSignal)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSignalBody {
    name: String,
    /// Default: null. Stored byte for byte.
    #[serde(default = "Document::null")]
    #[schema(value_type = Option<serde_json::Value>, required = false)]
    payload: Document,
    /// Makes a repeated request harmless. By id: for as long as the instance is stored, also after
    /// its end. By key: for as long as a holder of the key is stored, among the latest 100
    /// holders.
    dedup_key: Option<String>,
    /// The dedup key in hexadecimal, instead of as text.
    dedup_key_hex: Option<String>,
}

/// The result of sending a signal.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryBody {
    /// `delivered`, or `duplicate` when a signal with this dedup key was sent before.
    #[schema(value_type = DeliveryWord)]
    pub(crate) delivery: &'static str,
    /// The signal; null for a duplicate.
    pub(crate) signal_id: Option<String>,
    /// The receiving instance.
    pub(crate) instance: String,
    /// Whether it woke the instance.
    pub(crate) woke: bool,
}

/// The result of sending a signal, in one word.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum DeliveryWord {
    Delivered,
    Duplicate,
}

/// A page of an inbox.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SignalPage)]
pub(crate) struct SignalsBody {
    /// Oldest first.
    signals: Vec<SignalBody>,
    /// The `cursor` of the next page; null when this was the last.
    next: Option<String>,
}

/// A signal as stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Signal)]
pub(crate) struct SignalBody {
    id: String,
    name: String,
    /// Whether it is an update: its sender waits for a reply.
    wants_reply: bool,
    /// Stored byte for byte; null for a consumed signal, of which only the dedup key is stored.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Document>,
    /// For an update, its id. A dedup key that is not text is shown like `\x00ff`.
    dedup_key: Option<String>,
    /// The dedup key in hexadecimal, only if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    dedup_key_hex: Option<String>,
    inserted_at: Moment,
    consumed_at: Option<Moment>,
}

/// The start of a page.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CursorParams {
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists the stored signals of an instance, oldest first.
#[utoipa::path(
    get, path = "/v1/instances/{id}/signals", tag = "signals", operation_id = "list_signals",
    params(("id" = String, Path), CursorParams),
    responses((status = 200, description = "A page of the inbox.", body = SignalsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(page, _): Query<CursorParams>,
) -> Result<Json<SignalsBody>, Problem> {
    let list_query = ListQuery::new("signals", &id.0);
    let after = page
        .cursor
        .as_deref()
        .map(|cursor| list_query.position(cursor))
        .transpose()?;
    api.instance(&caller.scope, id).await?;
    let signals = api.admin().signals(id, after.map(SignalId)).await?;
    let last = signals.last().filter(|_| signals.more);
    Ok(Json(SignalsBody {
        next: last.map(|last| list_query.cursor(last.id.0)),
        signals: signals.into_iter().map(SignalBody::of).collect(),
    }))
}

impl SignalBody {
    fn of(row: SignalRow) -> SignalBody {
        let (dedup_key, dedup_key_hex) = shown_key(row.dedup_key);
        SignalBody {
            id: row.id.to_string(),
            name: row.name,
            wants_reply: row.wants_reply,
            payload: row.payload,
            dedup_key,
            dedup_key_hex,
            inserted_at: Moment(row.inserted_at),
            consumed_at: row.consumed_at.map(Moment),
        }
    }
}

/// Sends a signal to an instance.
#[utoipa::path(
    post, path = "/v1/instances/{id}/signals", tag = "signals", operation_id = "signal_instance",
    params(("id" = String, Path)), request_body = NewSignalBody,
    responses((status = 200, description = "The signal was delivered, by this request or by an earlier one with the same dedup key.", body = DeliveryBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn send(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    Id(id): Id,
    Body(body): Body<NewSignalBody>,
) -> Result<Json<DeliveryBody>, Problem> {
    deliver(&api, &caller, Target::Id(id), body).await.map(Json)
}

/// Sends a signal to the holder of a correlation key.
#[utoipa::path(
    post, path = "/v1/machines/{machine}/keys/{key}/signals", tag = "signals", operation_id = "signal_holder",
    params(("machine" = String, Path), ("key" = String, Path), KeyParams), request_body = NewSignalBody,
    responses((status = 200, description = "The signal was delivered, by this request or by an earlier one with the same dedup key.", body = DeliveryBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn send_by_key(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    KeyPath { machine, key }: KeyPath,
    Body(body): Body<NewSignalBody>,
) -> Result<Json<DeliveryBody>, Problem> {
    deliver(&api, &caller, Target::Key { machine, key }, body)
        .await
        .map(Json)
}

async fn deliver(
    api: &Api,
    caller: &Caller,
    target: Target,
    body: NewSignalBody,
) -> Result<DeliveryBody, Problem> {
    let target = within_reach(api, caller, target).await?;
    let mut signal = NewSignal::new(target, body.name, body.payload);
    signal.dedup_key = keys::new(
        "dedup_key",
        body.dedup_key.as_deref(),
        body.dedup_key_hex.as_deref(),
    )?;
    signal.check()?;
    send_one(api, signal).await
}

/// Sends a signal and returns the result.
pub(crate) async fn send_one(api: &Api, signal: NewSignal) -> Result<DeliveryBody, Problem> {
    let answers = api.admin().signal_rows(vec![signal]).await?;
    match answers.into_iter().next().unwrap_or(Delivery::NoTarget) {
        Delivery::Delivered { id, instance, woke } => Ok(DeliveryBody {
            delivery: "delivered",
            signal_id: Some(id.to_string()),
            instance: instance.to_string(),
            woke,
        }),
        Delivery::Duplicate { instance } => Ok(DeliveryBody {
            delivery: "duplicate",
            signal_id: None,
            instance: instance.to_string(),
            woke: false,
        }),
        Delivery::NoTarget => Err(no_target()),
        Delivery::InboxFull { instance } => Err(inbox_full(instance)),
    }
}

/// Returns the target if it is within the caller's scope. A token with a scope is checked against
/// an instance, and the signal goes to that same instance. A key stays a key if the token is not
/// bound to queues, because the machine is part of the key.
pub(super) async fn within_reach(
    api: &Api,
    caller: &Caller,
    target: Target,
) -> Result<Target, Problem> {
    let reaches = match &target {
        Target::Id(_) => caller.scope.is_everything(),
        Target::Key { machine, .. } => {
            caller.scope.queues.is_none() && caller.scope.has_machine(machine)
        }
    };
    if reaches {
        return Ok(target);
    }
    let found = match &target {
        Target::Id(id) => api
            .client
            .find(*id)
            .await?
            .filter(|instance| caller.scope.has(instance)),
        Target::Key { machine, key } => api.holder(&caller.scope, machine, key).await?,
    };
    found
        .map(|instance| Target::Id(instance.id))
        .ok_or_else(no_target)
}

pub(super) fn no_target() -> Problem {
    Problem::new(
        Code::NoTarget,
        "the instance does not exist or has finished",
    )
}

pub(super) fn inbox_full(instance: InstanceId) -> Problem {
    Problem::new(
        Code::InboxFull,
        format!("the inbox of instance {instance} is full; it must consume signals first"),
    )
}
