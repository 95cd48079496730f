//! Routes for queues: their depths, pause and resume.

use super::operate::note;
use crate::access::tokens::{Caller, TokenScope};
use crate::api::Api;
use crate::bodies::instance::CountBody;
use crate::bodies::time::Moment;
use crate::limits::QUEUES_COUNTED_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{MayOperate, MayRead, OptionalBody, Path};
use axum::Json;
use axum::extract::State;
use outlast_core::{Count, Filter, QueueSummary, Status, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of similar names that an error lists.
const NAMED_MAX: usize = 5;

/// The reason, and whether the queue may be unknown.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = QueueReason)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QueueReasonBody {
    /// Recorded with the operation.
    reason: Option<String>,
    /// Whether to pause a queue that does not exist yet.
    #[schema(required = false)]
    force: bool,
}

/// Queues by name.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Queues)]
pub(crate) struct QueuesBody {
    /// Queues that have work, are paused or are served by a live worker.
    queues: Vec<QueueBody>,
}

/// A queue and its depth.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueBody {
    name: String,
    paused: bool,
    /// Instances that a worker could claim now. For a token bound to machines: all runnable
    /// instances of those machines.
    eligible: CountBody,
    /// Instances that are not yet eligible; null for a token bound to machines.
    delayed: Option<CountBody>,
    executing: CountBody,
    /// When the oldest eligible instance became eligible; null for a token bound to machines.
    oldest_eligible_at: Option<Moment>,
    /// Steps started per minute, over the last one or two minutes; null before the first count.
    rate_per_minute: Option<f64>,
}

/// Whether the request changed something.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Changed)]
pub(crate) struct ChangedBody {
    /// False when the queue already was in this state.
    changed: bool,
}

/// Lists every queue that has work, is paused or is served by a live worker.
#[utoipa::path(
    get, path = "/v1/queues", tag = "queues", operation_id = "list_queues",
    responses((status = 200, description = "The queues.", body = QueuesBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
) -> Result<Json<QueuesBody>, Problem> {
    let summaries = api.admin().queues().await?;
    // The depths are current, so they are worth showing even without the rate.
    let snapshot = api.step_counter.snapshot().await.ok();
    let within = summaries
        .into_iter()
        .filter(|queue| caller.scope.has_queue(&queue.name));
    let mut queues = Vec::new();
    match &caller.scope.machines {
        None => queues.extend(within.map(|queue| {
            let rate = snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.rate(&queue.name));
            QueueBody::of(queue, rate)
        })),
        Some(_) => {
            for queue in within.take(QUEUES_COUNTED_MAX) {
                queues.extend(QueueBody::of_some_machines(&api, &caller.scope, queue).await?);
            }
        }
    }
    Ok(Json(QueuesBody { queues }))
}

impl QueueBody {
    fn of(queue: QueueSummary, rate_per_minute: Option<f64>) -> QueueBody {
        QueueBody {
            name: queue.name,
            paused: queue.paused,
            eligible: queue.eligible.into(),
            delayed: Some(queue.delayed.into()),
            executing: queue.executing.into(),
            oldest_eligible_at: queue.oldest_eligible_at.map(Moment),
            rate_per_minute,
        }
    }

    /// Returns the queue for a token bound to machines, or `None` if it has no instances of them.
    async fn of_some_machines(
        api: &Api,
        scope: &TokenScope,
        queue: QueueSummary,
    ) -> Result<Option<QueueBody>, Problem> {
        let of = |status| Filter {
            queue: Some(queue.name.clone()),
            statuses: vec![status],
            ..Filter::default()
        };
        let eligible = api.count(scope, &of(Status::Runnable)).await?;
        let executing = api.count(scope, &of(Status::Executing)).await?;
        if (eligible, executing) == (Count::Exactly(0), Count::Exactly(0)) {
            return Ok(None);
        }
        Ok(Some(QueueBody {
            name: queue.name,
            paused: queue.paused,
            eligible: eligible.into(),
            delayed: None,
            executing: executing.into(),
            oldest_eligible_at: None,
            rate_per_minute: None,
        }))
    }
}

/// Pauses a queue: no further work is claimed, and running steps continue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", tag = "queues", operation_id = "pause_queue",
    params(("queue" = String, Path)), request_body = Option<QueueReasonBody>,
    responses((status = 200, description = "The queue is paused.", body = ChangedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn pause(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path(queue): Path<String>,
    OptionalBody(body): OptionalBody<QueueReasonBody>,
) -> Result<Json<ChangedBody>, Problem> {
    check(&caller, &queue)?;
    check_exists(&api, &caller, &queue, body.force).await?;
    let changed = api
        .admin()
        .pause(&queue, note(&caller, body.reason))
        .await?;
    Ok(Json(ChangedBody { changed }))
}

/// Resumes a queue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", tag = "queues", operation_id = "resume_queue",
    params(("queue" = String, Path)), request_body = Option<QueueReasonBody>,
    responses((status = 200, description = "The queue is not paused.", body = ChangedBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn resume(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path(queue): Path<String>,
    OptionalBody(body): OptionalBody<QueueReasonBody>,
) -> Result<Json<ChangedBody>, Problem> {
    check(&caller, &queue)?;
    check_exists(&api, &caller, &queue, body.force).await?;
    let changed = api
        .admin()
        .resume(&queue, note(&caller, body.reason))
        .await?;
    Ok(Json(ChangedBody { changed }))
}

/// A pause stops all work in the queue, so the token must not be bound to some of its machines.
fn check(caller: &Caller, queue: &str) -> Result<(), Problem> {
    limits::check_name("queue", queue)?;
    if caller.scope.has_queue(queue) && caller.scope.machines.is_none() {
        return Ok(());
    }
    let detail = format!("this token does not cover every machine in queue {queue:?}");
    Err(Problem::new(Code::Forbidden, detail))
}

/// Refuses an unknown name, which may be misspelt, and lists similar names.
async fn check_exists(api: &Api, caller: &Caller, queue: &str, force: bool) -> Result<(), Problem> {
    if force {
        return Ok(());
    }
    let Some(mut names) = api.admin().missing_queue(queue).await? else {
        return Ok(());
    };
    names.retain(|name| caller.scope.has_queue(name));
    names.truncate(NAMED_MAX);
    let detail = format!(
        "queue {queue:?} does not exist; similar names: {}; send \"force\": true to proceed anyway",
        names.join(", ")
    );
    Err(Problem::new(Code::NotFound, detail))
}
