//! The long poll that waits for an instance.

use super::instances::whole;
use crate::access::tokens::Caller;
use crate::api::Api;
use crate::bodies::instance::InstanceBody;
use crate::limits::WAIT_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::read_budget::BudgetedBody;
use crate::requests::extract::{Id, MayRead, Query};
use crate::requests::keys::{KeyParams, KeyPath};
use crate::requests::query::number;
use crate::server::serve::Shutdown;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use outlast::{InstanceId, WaitError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;

/// The timeout and the condition of a wait.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct WaitParams {
    /// The longest wait in milliseconds. Default: 30,000, which is also the maximum.
    #[param(value_type = Option<u64>)]
    timeout_ms: Option<String>,
    /// `ended`, or `settled`: until only a signal, a child or a timer can continue it.
    until: Option<String>,
}

/// The result of a wait.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Waited)]
pub(crate) struct WaitedBody {
    /// Whether the condition was met; else the wait timed out.
    reached: bool,
    instance: InstanceBody,
}

/// Waits until an instance has finished, or until the timeout.
#[utoipa::path(
    get, path = "/v1/instances/{id}/wait", tag = "instances", operation_id = "wait_for_instance",
    params(("id" = String, Path), WaitParams),
    responses((status = 200, description = "The instance after the wait. `reached` is false if the wait timed out.", body = WaitedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn wait(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<WaitParams>,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    wait_for(&api, &caller, id, &params, stopping).await
}

/// Waits until the holder of a correlation key has finished, or until the timeout.
///
/// If no instance holds the key, it waits for the latest holder. The key is looked up once: the
/// wait does not switch to a later holder.
#[utoipa::path(
    get, path = "/v1/machines/{machine}/keys/{key}/wait", tag = "instances", operation_id = "wait_for_holder",
    params(("machine" = String, Path), ("key" = String, Path), WaitParams, KeyParams),
    responses((status = 200, description = "The instance after the wait. `reached` is false if the wait timed out.", body = WaitedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn wait_by_key(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    KeyPath { machine, key }: KeyPath,
    Query(params, _): Query<WaitParams, KeyParams>,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    let id = api.by_key(&caller.scope, &machine, &key).await?.id;
    wait_for(&api, &caller, id, &params, stopping).await
}

async fn wait_for(
    api: &Api,
    caller: &Caller,
    id: InstanceId,
    params: &WaitParams,
    stopping: Option<Extension<Shutdown>>,
) -> Result<Response, Problem> {
    let timeout = timeout_of(params.timeout_ms.as_deref())?;
    let until_ended = match params.until.as_deref() {
        None | Some("ended") => true,
        Some("settled") => false,
        Some(other) => {
            return Err(Problem::invalid(format!(
                "until must be ended or settled, not {other:?}"
            )));
        }
    };
    api.instance(&caller.scope, id).await?;
    let _place = place(api)?;
    // Drops the instance that the wait returns, and reads it again within the memory budget: one
    // end may wake many waits at once.
    let waiting = async {
        let waited = match until_ended {
            true => api.admin().wait_ended(id, timeout).await,
            false => api.admin().wait_settled(id, timeout).await,
        };
        match waited {
            Ok(_) => Ok(true),
            Err(WaitError::TimedOut { .. }) => Ok(false),
            Err(WaitError::NotFound) => Err(Problem::no_instance(id)),
            Err(WaitError::Store(error)) => Err(error.into()),
            Err(error) => Err(Problem::new(Code::Internal, error.to_string())),
        }
    };
    let reached = tokio::select! {
        reached = waiting => reached?,
        // At shutdown the caller gets the current state and repeats the request at another server.
        () = stopped(stopping) => false,
    };
    let room = api.reserve().await?;
    let instance = api.instance(&caller.scope, id).await?;
    let answer = Json(WaitedBody {
        reached,
        instance: whole(api, &caller.scope, instance).await?,
    });
    BudgetedBody::answer(answer.into_response(), room).await
}

/// Reads how long a long poll may wait.
pub(super) fn timeout_of(given: Option<&str>) -> Result<Duration, Problem> {
    let timeout = number("timeout_ms", given)?;
    let timeout = timeout.map_or(WAIT_MAX, Duration::from_millis);
    if timeout > WAIT_MAX {
        return Err(Problem::invalid(format!(
            "timeout_ms must be at most {1}, not {0}",
            timeout.as_millis(),
            WAIT_MAX.as_millis()
        )));
    }
    Ok(timeout)
}

/// Takes one of the places for long polls.
pub(super) fn place(api: &Api) -> Result<SemaphorePermit<'_>, Problem> {
    api.waits.try_acquire().map_err(|_| {
        Problem::new(
            Code::TooManyStreams,
            "too many long polls are open; try again later",
        )
    })
}

/// Waits until the server stops.
pub(super) async fn stopped(stopping: Option<Extension<Shutdown>>) {
    match stopping {
        Some(Extension(stopping)) => stopping.stopped().await,
        None => std::future::pending().await,
    }
}
