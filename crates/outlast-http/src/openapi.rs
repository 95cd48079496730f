//! The document of the API, made from the routes.

use utoipa::Modify;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

/// What stands in it for the place of the router, which is known when somebody asks.
const PLACE: &str = "{place}";

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

/// The document for a router at `place`.
pub(crate) fn placed(document: &str, place: &str) -> String {
    let place = if place.is_empty() { "/" } else { place };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    document.replacen(&quoted(PLACE), &quoted(place), 1)
}
