//! The route that turns signed messages into signals.

use super::signals::{DeliveryBody, send_one};
use crate::access::signature::WebhookTarget;
use crate::api::Api;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{Path, RawBody, parse, parse_id};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use outlast_core::{Json as Document, NewSignal, Target};
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;

/// Accepts a Standard Webhooks message and sends it as a signal. Its id is the dedup key.
///
/// No token is needed: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`
/// authenticate the message.
#[utoipa::path(
    post, path = "/v1/webhooks/{name}", tag = "signals", operation_id = "take_webhook", security(()),
    params(
        ("name" = String, Path), ("webhook-id" = String, Header), ("webhook-timestamp" = u64, Header),
        ("webhook-signature" = String, Header),
    ),
    request_body = serde_json::Value,
    responses((status = 200, description = "The signal was delivered, by this message or by an earlier copy of it.", body = DeliveryBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn take(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Json<DeliveryBody>, Problem> {
    let route = api.settings.webhooks.get(&name).ok_or_else(|| {
        Problem::new(Code::NotFound, format!("no webhook {name:?} is configured"))
    })?;
    let id = route.verify(&headers, &body, SystemTime::now())?;
    let document: Value = parse(&body)?;
    let target = target(&route.target, &document)?;
    let text = std::str::from_utf8(&body)
        .map_err(|_| Problem::new(Code::InvalidJson, "the body is not UTF-8"))?;
    let payload = Document::parse(text.trim())?;
    let signal = NewSignal::new(target, route.signal.as_str(), payload).dedup_key(id);
    signal.check()?;
    send_one(&api, signal).await.map(Json)
}

fn target(target: &WebhookTarget, document: &Value) -> Result<Target, Problem> {
    match target {
        WebhookTarget::Id { pointer } => parse_id(&text_at(document, pointer)?).map(Target::Id),
        WebhookTarget::Key { machine, pointer } => Ok(Target::Key {
            machine: machine.clone(),
            key: text_at(document, pointer)?,
        }),
    }
}

/// Returns the text at a pointer, or a whole number as text.
fn text_at(document: &Value, pointer: &str) -> Result<String, Problem> {
    match document.pointer(pointer) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
        Some(_) => Err(Problem::invalid(format!(
            "the value at {pointer} must be a string or a whole number"
        ))),
        None => Err(Problem::invalid(format!(
            "the body has no value at {pointer}"
        ))),
    }
}
