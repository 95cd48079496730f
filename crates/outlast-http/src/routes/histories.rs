//! Routes for the history of an instance: its events, its calls, its runs, and an export of a
//! workflow run.

use crate::api::Api;
use crate::bodies::barrier::PolicyWord;
use crate::bodies::instance::StatusWord;
use crate::bodies::workflow::{CallBody, EventBody, RunBody};
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{Id, MayRead, Query};
use crate::requests::query::{limit, number};
use axum::Json;
use axum::extract::State;
use outlast::workflow::{ExportedRun, TimelineEntry};
use outlast_core::Instance;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Selects events.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct HistoryParams {
    /// Of this run. Default: the current run.
    #[param(value_type = Option<i32>)]
    run: Option<String>,
    /// Events after this one: the `next` of the previous page.
    #[param(value_type = Option<i32>)]
    after: Option<String>,
    /// The number of events. Default: 50, at most 200. A page with large payloads may have fewer.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
}

/// Selects calls.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CallsParams {
    /// Of this run. Default: the current run.
    #[param(value_type = Option<i32>)]
    run: Option<String>,
    /// Calls after this one: the `next` of the previous page.
    #[param(value_type = Option<i32>)]
    after: Option<String>,
    /// The number of calls. Default: 50, at most 200.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
}

/// Selects a run.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct RunParams {
    /// This run. Default: the current run.
    #[param(value_type = Option<i32>)]
    run: Option<String>,
}

/// A page of a history.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = HistoryPage)]
pub(crate) struct HistoryBody {
    /// The run of these events.
    run: i32,
    /// In the order in which they were recorded.
    events: Vec<EventBody>,
    /// The `after` of the next page; null when this is the last page at present.
    next: Option<i32>,
}

/// A page of the children of a run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = CallPage)]
pub(crate) struct CallsBody {
    /// The run of these calls.
    run: i32,
    /// In the order of the calls.
    calls: Vec<CallBody>,
    /// The `after` of the next page; null when this is the last page at present.
    next: Option<i32>,
}

/// The runs of an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Runs)]
pub(crate) struct RunsBody {
    /// The runs whose history is stored, in order. A machine has one if it records its history.
    runs: Vec<RunBody>,
    /// The current run of the instance.
    present: i32,
}

/// A run with its whole history: what `outlast export` writes, and what a test replays against
/// other code.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ExportedRun)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct ExportBody {
    /// The format version of this document.
    format: u32,
    instance: i64,
    workflow: String,
    version: i32,
    run: i32,
    /// The correlation key.
    #[schema(required = false)]
    key: Option<String>,
    #[schema(required = false)]
    trace: Option<String>,
    status: StatusWord,
    /// The input of the run.
    input: serde_json::Value,
    events: Vec<ExportedEvent>,
    /// The close policies that the end of the run applied to its children; absent when there are
    /// none.
    #[schema(required = false)]
    policies: Vec<ExportedPolicy>,
    /// The stored children whose end is not in the events, by call; absent when there are none.
    #[schema(required = false)]
    children: Vec<ExportedChild>,
}

/// A child of an exported run whose end is not recorded.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ExportedChild)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct ExportedChild {
    /// The call that started it.
    call: i32,
    machine: String,
    child: i64,
    /// Its newest run.
    run: i32,
    /// Its status at the time of the export.
    status: StatusWord,
}

/// A close policy of an exported history that was applied to a child.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ExportedPolicy)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct ExportedPolicy {
    seq: i32,
    /// Microseconds since 1970.
    at: i64,
    /// `policy_applied`.
    kind: String,
    /// The run and the call that started the child.
    #[schema(required = false)]
    run: Option<i32>,
    #[schema(required = false)]
    call: Option<i32>,
    #[schema(required = false)]
    name: String,
    child: i64,
    policy: PolicyWord,
    #[schema(required = false)]
    status_before: Option<StatusWord>,
    reason: String,
}

/// An event of an exported history.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ExportedEvent)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct ExportedEvent {
    seq: i32,
    /// Microseconds since 1970.
    at: i64,
    kind: String,
    #[schema(required = false)]
    call: Option<i32>,
    #[schema(required = false)]
    name: String,
    data: serde_json::Value,
}

/// Lists the history of an instance in order.
///
/// A workflow run has its events, then each close policy that its end applied to a child. A
/// machine that records its history has its transitions.
#[utoipa::path(
    get, path = "/v1/instances/{id}/history", tag = "instances", operation_id = "get_history",
    params(("id" = String, Path), HistoryParams),
    responses((status = 200, description = "A page of the history.", body = HistoryBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn history(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<HistoryParams>,
) -> Result<Json<HistoryBody>, Problem> {
    let run = run_of(params.run.as_deref())?;
    let after = after_of(params.after.as_deref(), "events")?;
    let limit = limit(params.limit.as_deref())?;
    let instance = api.instance(&caller.scope, id).await?;
    let run = stored_run(&api, &instance, run).await?;
    let entries = api.admin().timeline(&instance, run, after, limit).await?;
    let next = entries.last().filter(|_| entries.more);
    let next = next.map(TimelineEntry::seq);
    let shown = entries.into_iter();
    Ok(Json(HistoryBody {
        run,
        events: shown.map(|entry| EventBody::of(entry, run)).collect(),
        next,
    }))
}

/// Lists the children of a run by call, as the workflow's history has them.
///
/// There is one entry for each call, however many runs the child has, even if the child is no
/// longer stored.
#[utoipa::path(
    get, path = "/v1/instances/{id}/calls", tag = "instances", operation_id = "list_calls",
    params(("id" = String, Path), CallsParams),
    responses((status = 200, description = "A page of calls.", body = CallsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn calls(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<CallsParams>,
) -> Result<Json<CallsBody>, Problem> {
    let run = run_of(params.run.as_deref())?;
    let after = after_of(params.after.as_deref(), "calls")?;
    let limit = limit(params.limit.as_deref())?;
    let instance = api.instance(&caller.scope, id).await?;
    let run = stored_run(&api, &instance, run).await?;
    // Reads one more row to know whether there is another page.
    let max = limit + 1;
    let mut calls = api.admin().child_calls(&instance, run, after, max).await?;
    let is_more = calls.len() > limit;
    calls.truncate(limit);
    let next = calls.last().filter(|_| is_more).map(|last| last.call);
    Ok(Json(CallsBody {
        run,
        calls: calls.into_iter().map(CallBody::from).collect(),
        next,
    }))
}

/// Lists the runs of an instance whose history is stored.
///
/// A workflow that continues as new begins another run.
#[utoipa::path(
    get, path = "/v1/instances/{id}/runs", tag = "instances", operation_id = "list_runs",
    params(("id" = String, Path)),
    responses((status = 200, description = "The runs whose history is stored.", body = RunsBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn runs(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
) -> Result<Json<RunsBody>, Problem> {
    let instance = api.instance(&caller.scope, id).await?;
    let runs = api.admin().histories(id).await?;
    Ok(Json(RunsBody {
        runs: runs.into_iter().map(RunBody::from).collect(),
        present: instance.run,
    }))
}

/// Exports a run of a workflow with its whole history.
#[utoipa::path(
    get, path = "/v1/instances/{id}/export", tag = "instances", operation_id = "export_history",
    params(("id" = String, Path), RunParams),
    responses((status = 200, description = "The run with its whole history.", body = ExportBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn export(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Id(id): Id,
    Query(params, _): Query<RunParams>,
) -> Result<Json<ExportedRun>, Problem> {
    let run = run_of(params.run.as_deref())?;
    let instance = api.instance(&caller.scope, id).await?;
    let exported = api.admin().export(id, run).await?;
    let exported = exported.ok_or_else(|| nothing_to_export(&instance, run))?;
    Ok(Json(exported))
}

fn run_of(given: Option<&str>) -> Result<Option<i32>, Problem> {
    let run: Option<i32> = number("run", given)?;
    match run {
        Some(run) if run < 1 => Err(Problem::invalid(format!(
            "run must be at least 1, not {run}"
        ))),
        run => Ok(run),
    }
}

fn after_of(given: Option<&str>, what: &str) -> Result<i32, Problem> {
    let after = number("after", given)?.unwrap_or(0);
    match after < 0 {
        true => Err(Problem::invalid(format!(
            "after must not be negative; {what} are numbered from 1"
        ))),
        false => Ok(after),
    }
}

/// Returns the requested run if its history is stored. A run that has just begun has no events
/// yet, but it exists.
async fn stored_run(api: &Api, instance: &Instance, run: Option<i32>) -> Result<i32, Problem> {
    let wanted = run.unwrap_or(instance.run);
    if instance.has_history() && wanted == instance.run {
        return Ok(wanted);
    }
    let stored = api.admin().histories(instance.id).await?;
    match stored.iter().any(|it| it.run == wanted) {
        true => Ok(wanted),
        false => Err(no_history(instance, run)),
    }
}

fn no_history(instance: &Instance, run: Option<i32>) -> Problem {
    let (id, machine) = (instance.id, &instance.machine);
    let detail = match (run, instance.has_history()) {
        (_, false) => format!(
            "instance {id} of machine {machine:?} has no history: the machine records none, or it has not started"
        ),
        (Some(run), true) if run > instance.run => {
            format!(
                "instance {id} has no run {run} yet; its current run is {}",
                instance.run
            )
        }
        (Some(run), true) => {
            format!("the history of run {run} of instance {id} is no longer stored")
        }
        (None, true) => format!("run {} of instance {id} has no events yet", instance.run),
    };
    Problem::new(Code::NoHistory, detail)
}

fn nothing_to_export(instance: &Instance, run: Option<i32>) -> Problem {
    let (id, machine) = (instance.id, &instance.machine);
    if instance.has_history() && !instance.is_workflow() {
        let detail = format!(
            "instance {id} of machine {machine:?} is not a workflow; only workflow histories can be exported"
        );
        return Problem::new(Code::NoHistory, detail);
    }
    no_history(instance, run)
}
