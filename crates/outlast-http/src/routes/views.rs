//! Routes for views: the values that a workflow publishes.

use super::wait::{place, stopped, timeout_of};
use crate::api::Api;
use crate::bodies::time::Moment;
use crate::problem::{Problem, ProblemBody};
use crate::read_budget::BudgetedBody;
use crate::requests::extract::{Id, MayRead, Path, Query, parse_id};
use crate::requests::query::number;
use crate::server::serve::Shutdown;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use outlast::{InstanceId, LookupError};
use outlast_core::{Json as Document, Revision, View};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The views of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Views)]
pub(crate) struct ViewsBody {
    /// By name.
    views: Vec<ViewBody>,
}

/// One view, if there is one.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ViewAnswer)]
pub(crate) struct OneViewBody {
    /// Null when nothing is published under this name, or nothing after `wait_after`.
    view: Option<ViewBody>,
}

/// A value that a workflow has published.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = View)]
pub(crate) struct ViewBody {
    name: String,
    /// The revision of the instance that wrote it: the `wait_after` of the next request.
    revision: i64,
    at: Moment,
    #[schema(value_type = serde_json::Value)]
    data: Document,
}

impl From<View> for ViewBody {
    fn from(view: View) -> ViewBody {
        ViewBody {
            name: view.name,
            revision: view.revision.0,
            at: Moment(view.at),
            data: view.data,
        }
    }
}

/// Whether to wait for a newer value, and how long.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ViewParams {
    /// Wait for a value of a higher revision than this. Default: answer at once.
    #[param(value_type = Option<i64>)]
    wait_after: Option<String>,
    /// The longest wait in milliseconds. Default: 30,000, which is also the maximum.
    #[param(value_type = Option<u64>)]
    timeout_ms: Option<String>,
}

/// Lists the values that a workflow has published, by name.
#[utoipa::path(
    get, path = "/v1/instances/{id}/views", tag = "instances", operation_id = "list_views",
    params(("id" = String, Path)),
    responses((status = 200, description = "The views.", body = ViewsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<ViewsBody>, Problem> {
    api.instance(&caller.scope, id).await?;
    let views = api.admin().views(id).await?;
    Ok(Json(ViewsBody {
        views: views.into_iter().map(ViewBody::from).collect(),
    }))
}

/// Returns a value that a workflow has published, or waits for a newer one.
///
/// It needs no worker. A wait ends early when the instance has ended.
#[utoipa::path(
    get, path = "/v1/instances/{id}/views/{name}", tag = "instances", operation_id = "get_view",
    params(("id" = String, Path), ("name" = String, Path), ViewParams),
    responses((status = 200, description = "The view, or null.", body = OneViewBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Path((id, name)): Path<(String, String)>,
    Query(params, _): Query<ViewParams>,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    let id = parse_id(&id)?;
    let after = number("wait_after", params.wait_after.as_deref())?.map(Revision);
    let timeout = timeout_of(params.timeout_ms.as_deref())?;
    api.instance(&caller.scope, id).await?;
    // Waits without holding a value, and reads it again within the memory budget: one commit may
    // wake many waits at once.
    if after.is_some() {
        let _place = place(&api)?;
        tokio::select! {
            found = look(&api, id, &name, after, timeout) => drop(found?),
            // At shutdown the caller repeats the request at another server.
            () = stopped(stopping) => {}
        }
    }
    let room = api.reserve().await?;
    let view = look(&api, id, &name, after, Duration::ZERO).await?;
    let answer = Json(OneViewBody {
        view: view.map(ViewBody::from),
    });
    BudgetedBody::answer(answer.into_response(), room).await
}

async fn look(
    api: &Api,
    id: InstanceId,
    name: &str,
    after: Option<Revision>,
    at_most: Duration,
) -> Result<Option<View>, Problem> {
    match api.admin().view(id, name, after, at_most).await {
        Ok(view) => Ok(view),
        Err(LookupError::Store(error)) => Err(error.into()),
        // The instance was removed meanwhile; reading a view has no other error.
        Err(_) => Err(Problem::no_instance(id)),
    }
}
