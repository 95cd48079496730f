//! Routes that list, count and read instances.

use super::explain::explanation;
use crate::access::scoped_queries::PageRequest;
use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::instance::{CountBody, InstanceBody};
use crate::bodies::workflow::{FlowBody, OriginBody};
use crate::problem::{Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{Id, MayRead, Query};
use crate::requests::keys::{KeyParams, KeyPath};
use crate::requests::query::{FilterParams, PageParams};
use axum::Json;
use axum::extract::State;
use outlast::workflow::Origin;
use outlast_core::{Instance, InstanceId};
use serde::Serialize;
use std::sync::Arc;

/// A page of instances.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = InstancePage)]
pub(crate) struct PageBody {
    /// Newest first.
    pub(crate) instances: Vec<InstanceBody>,
    /// The `cursor` of the next page; null when this was the last.
    pub(crate) next: Option<String>,
    /// False when the page is short because the scan reached its bound: the next page may have
    /// more.
    pub(crate) scanned_all: bool,
}

/// Lists instances, newest first.
#[utoipa::path(
    get, path = "/v1/instances", tag = "instances", operation_id = "list_instances",
    params(FilterParams, PageParams),
    responses((status = 200, description = "A page of instances, newest first.", body = PageBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Query(filter, page): Query<FilterParams, PageParams>,
) -> Result<Json<PageBody>, Problem> {
    let list_query = ListQuery::new("instances", &filter);
    let before = page
        .cursor
        .as_deref()
        .map(|cursor| list_query.position(cursor))
        .transpose()?;
    let is_full = page.is_full()?;
    let wanted = PageRequest {
        filter: api.filter(&filter).await?,
        before: before.map(InstanceId),
        limit: page.limit()?,
        values: is_full,
    };
    let found = api.page(&caller.scope, wanted, |_| true).await?;
    let shape = if is_full {
        InstanceBody::whole
    } else {
        InstanceBody::summary
    };
    Ok(Json(PageBody {
        instances: found.instances.into_iter().map(shape).collect(),
        next: found.next.map(|next| list_query.cursor(next.0)),
        scanned_all: found.scanned_all,
    }))
}

/// Counts the matching instances.
#[utoipa::path(
    get, path = "/v1/instances/count", tag = "instances", operation_id = "count_instances",
    params(FilterParams),
    responses((status = 200, description = "The number of matching instances.", body = CountBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn count(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Query(filter, _): Query<FilterParams>,
) -> Result<Json<CountBody>, Problem> {
    let filter = api.filter(&filter).await?;
    Ok(Json(api.count(&caller.scope, &filter).await?.into()))
}

/// Returns an instance with all its fields.
#[utoipa::path(
    get, path = "/v1/instances/{id}", tag = "instances", operation_id = "get_instance",
    params(("id" = String, Path)),
    responses((status = 200, description = "The instance.", body = InstanceBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<InstanceBody>, Problem> {
    let instance = api.instance(&caller.scope, id).await?;
    Ok(Json(whole(&api, &caller.scope, instance).await?))
}

/// Returns the holder of a correlation key, or else its latest holder.
#[utoipa::path(
    get, path = "/v1/machines/{machine}/keys/{key}", tag = "instances", operation_id = "get_holder",
    params(("machine" = String, Path), ("key" = String, Path), KeyParams),
    responses((status = 200, description = "The holder of the key.", body = InstanceBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn holder(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    KeyPath { machine, key }: KeyPath,
) -> Result<Json<InstanceBody>, Problem> {
    let instance = api.by_key(&caller.scope, &machine, &key).await?;
    Ok(Json(whole(&api, &caller.scope, instance).await?))
}

/// Returns an instance with all its fields, the sentence about its wait, and its liveness.
pub(crate) async fn whole(
    api: &Api,
    scope: &TokenScope,
    instance: Instance,
) -> Result<InstanceBody, Problem> {
    let waits = match instance.is_workflow() {
        true => Some(api.admin().waits(&instance).await?),
        false => None,
    };
    let explained = explanation(api, scope, &instance, waits.clone()).await?;
    let origin = origin(api, scope, &instance).await?;
    let mut body = InstanceBody::whole(instance);
    body.waiting = Some(explained.sentence);
    body.liveness = Some(explained.liveness.as_str());
    body.flow = waits.map(FlowBody::from);
    body.origin = origin.map(OriginBody::from);
    Ok(body)
}

/// Returns the call that started the instance. It comes from the parent's history, so the caller
/// must be allowed to see the parent.
async fn origin(
    api: &Api,
    scope: &TokenScope,
    instance: &Instance,
) -> Result<Option<Origin>, Problem> {
    let Some(parent) = instance.parent else {
        return Ok(None);
    };
    let parent = api.client.find(parent.id).await?;
    match parent.is_some_and(|it| it.is_workflow() && scope.has(&it)) {
        true => Ok(api.admin().origin(instance).await?),
        false => Ok(None),
    }
}
