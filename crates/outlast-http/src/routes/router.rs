//! Assembles the routes, the guard and the bounds into one router.

use super::{
    bulk, end_instances, events, family, health, histories, insert, instances, machines, metrics,
    operate, overview, queries, queues, signals, updates, views, wait, webhooks, workers,
};
use crate::access::guard;
use crate::api::Api;
use crate::dashboard;
use crate::limits::WAIT_MAX;
use crate::openapi::{self, Document};
use crate::problem::{Code, Problem};
use crate::read_budget::BudgetedBody;
use crate::settings::Settings;
use axum::Router;
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use outlast::Client;
use std::sync::Arc;
use std::time::Duration;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the API and the dashboard as a router, to serve alone or to mount under any prefix.
pub fn router(client: Client, settings: Settings) -> Router {
    let api = Api::new(client, settings);
    let timeout = api.settings.limits.request_timeout;
    let guarded = from_fn_with_state(api.clone(), guard::guard);
    let guarded_host = from_fn_with_state(api.clone(), guard::guard_host);

    let quick = quick()
        .route_layer(from_fn_with_state(api.clone(), within_memory))
        .route_layer(from_fn_with_state(timeout, within_time));
    let waiting = waiting_routes().route_layer(from_fn_with_state(timeout + WAIT_MAX, within_time));
    let closed = quick.merge(waiting).merge(streams()).route_layer(guarded);
    let open = open()
        .route_layer(from_fn_with_state(timeout, within_time))
        .route_layer(guarded_host.clone());
    let pages = pages().route_layer(guarded_host);

    Router::from(closed)
        .merge(Router::from(open))
        .merge(pages)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(with_headers))
        .with_state(api)
}

/// Returns the OpenAPI document of every route.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let routes = OpenApiRouter::<Arc<Api>>::with_openapi(Document::openapi());
    let routes = routes
        .merge(quick())
        .merge(waiting_routes())
        .merge(streams())
        .merge(open());
    let mut document = routes.into_openapi();
    openapi::describe_refusals(&mut document);
    document
}

fn quick() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(instances::list, insert::insert))
        .routes(routes!(instances::count))
        .routes(routes!(insert::insert_batch))
        .routes(routes!(instances::get, operate::delete))
        .routes(routes!(instances::holder))
        .routes(routes!(signals::list, signals::send))
        .routes(routes!(signals::send_by_key))
        .routes(routes!(family::children))
        .routes(routes!(family::tree))
        .routes(routes!(operate::operations))
        .routes(routes!(operate::retry))
        .routes(routes!(operate::repair))
        .routes(routes!(end_instances::cancel))
        .routes(routes!(end_instances::terminate))
        .routes(routes!(end_instances::cancel_by_key))
        .routes(routes!(end_instances::terminate_by_key))
        .routes(routes!(end_instances::family))
        .routes(routes!(end_instances::close_actions))
        .routes(routes!(histories::history))
        .routes(routes!(histories::calls))
        .routes(routes!(histories::runs))
        .routes(routes!(histories::export))
        .routes(routes!(views::list))
        .routes(routes!(queries::list))
        .routes(routes!(queries::ask))
        .routes(routes!(bulk::bulk))
        .routes(routes!(queues::list))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(workers::list))
        .routes(routes!(machines::list))
        .routes(routes!(machines::get))
        .routes(routes!(overview::get))
        .routes(routes!(metrics::metrics))
}

fn waiting_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(wait::wait))
        .routes(routes!(wait::wait_by_key))
        .routes(routes!(views::get))
        .routes(routes!(updates::send, updates::get))
        .routes(routes!(updates::send_by_key))
}

fn streams() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(events::follow))
}

/// Routes without a token.
fn open() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(webhooks::take))
        .routes(routes!(openapi_document))
}

fn pages() -> Router<Arc<Api>> {
    Router::new()
        .route("/", get(dashboard::root))
        .route("/ui", get(dashboard::root))
        .route("/ui/", get(dashboard::index))
        .route("/ui/{*path}", get(dashboard::file))
}

/// Returns this document. No token is needed.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "health", operation_id = "get_document", security(()),
    responses((status = 200, description = "This document.", body = serde_json::Value)),
)]
async fn openapi_document(
    State(api): State<Arc<Api>>,
    OriginalUri(full): OriginalUri,
    uri: Uri,
) -> Result<Response, Problem> {
    let place = dashboard::prefix(&api, &full, &uri);
    let body = openapi::placed(api.document()?, &place);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Bounds the time of every request.
async fn within_time(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    tokio::time::timeout(limit, next.run(request))
        .await
        .map_err(|_| {
            Problem::new(
                Code::Timeout,
                format!(
                    "the request took longer than {} s; it may still have taken effect",
                    limit.as_secs()
                ),
            )
        })
}

/// Reserves memory for reads: a page of values while the response is built, then the size of the
/// response until it is sent. An export has no pages and reserves the whole budget.
async fn within_memory(
    State(api): State<Arc<Api>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !reads_values(&request) {
        return Ok(next.run(request).await);
    }
    let room = match request.uri().path().ends_with("/export") {
        true => api.reserve_bytes(usize::MAX).await?,
        false => api.reserve().await?,
    };
    BudgetedBody::answer(next.run(request).await, room).await
}

/// Returns whether the size of the response depends on stored values.
fn reads_values(request: &Request) -> bool {
    let path = request.uri().path();
    let is_about_instances = path.contains("/instances") || path.contains("/keys/");
    request.method() == Method::GET && is_about_instances && !path.ends_with("/instances/count")
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    // Caches must not store the data of instances.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'",
        ));
    response
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(
        Code::NotFound,
        format!("no route {:?}; see /v1/openapi.json", uri.path()),
    )
}

async fn method_not_allowed(uri: Uri) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!(
            "{:?} does not support this method; see /v1/openapi.json",
            uri.path()
        ),
    )
}
