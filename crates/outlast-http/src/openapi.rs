//! The OpenAPI document, generated from the routes.

use utoipa::Modify;
use utoipa::openapi::RefOr;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

/// A placeholder for the path of the router, which is known only when a request arrives.
const PLACE: &str = "{place}";

/// The description of every error response.
const REFUSAL: &str = "The request failed. Programs read `code`, people read `detail`.";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Outlast",
        description = "Durable state machines and workflows: start, signal, wait for, inspect and repair instances."
    ),
    servers((url = "{place}")),
    security(("token" = [])),
    modifiers(&BearerScheme),
    tags(
        (name = "instances", description = "Start and read instances"),
        (name = "signals", description = "Send signals"),
        (name = "operations", description = "Retry, cancel, terminate, delete and repair"),
        (name = "queues", description = "Queue depths, pause and resume"),
        (name = "workers", description = "Registered workers"),
        (name = "machines", description = "Steps, counts and transitions"),
        (name = "overview", description = "The overview, and live changes"),
        (name = "health", description = "Health checks, metrics and this document"),
    )
)]
pub(crate) struct Document;

/// Declares the authentication by a bearer token.
struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
    }
}

/// Describes every refusal. All have the same shape, so the routes do not repeat the description.
pub(crate) fn describe_refusals(document: &mut utoipa::openapi::OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let refusal = operation.responses.responses.get_mut("default");
            if let Some(RefOr::T(refusal)) = refusal {
                refusal.description = REFUSAL.to_owned();
            }
        }
    }
}

/// Returns the document for a router at `place`.
pub(crate) fn placed(document: &str, place: &str) -> String {
    let place = if place.is_empty() { "/" } else { place };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    document.replacen(&quoted(PLACE), &quoted(place), 1)
}
