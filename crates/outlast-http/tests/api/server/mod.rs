//! The server: requests, errors, event streams, health, the OpenAPI document.

mod bad_input;
mod dashboard;
mod errors;
mod events;
mod openapi;
mod readiness;
mod standalone;
