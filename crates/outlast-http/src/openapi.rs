//! The OpenAPI document, generated from the routes.

use utoipa::Modify;
use utoipa::openapi::RefOr;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

/// A placeholder for the path of the router, which is known only when a request arrives.
const PLACE: &str = "{place}";

/// The description of every error response.
const REFUSAL: &str = "The request was refused: `code` says why to programs, `detail` to people.";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Outlast",
        description = "State machines that outlast the process: start them, signal them, wait for them, look at them and mend them."
    ),
    servers((url = "{place}")),
    security(("token" = [])),
    modifiers(&Token),
    tags(
        (name = "instances", description = "Starting instances and looking at them"),
        (name = "signals", description = "Sending signals"),
        (name = "operations", description = "Retry, cancel, terminate and delete"),
        (name = "queues", description = "Depths, pause and resume"),
        (name = "workers", description = "Running engines"),
        (name = "machines", description = "Steps, counts and transitions"),
        (name = "overview", description = "Everything at a glance, and live changes"),
        (name = "health", description = "For those who watch the process"),
    )
)]
pub(crate) struct Document;

struct Token;

impl Modify for Token {
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
