//! The route for workers and the machines that they run.

use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::instance::CountBody;
use crate::bodies::time::Moment;
use crate::limits::EXECUTING_READ_MAX;
use crate::problem::{Problem, ProblemBody};
use crate::requests::extract::MayRead;
use axum::Json;
use axum::extract::State;
use outlast_core::limits::PAGE_MAX;
use outlast_core::{Filter, ListRequest, MachineOffer, Status, Timestamp, Worker, WorkerId};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Workers by id.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Workers)]
pub(crate) struct WorkersBody {
    workers: Vec<WorkerBody>,
}

/// A running engine, or a dead one whose claims have not been reaped yet.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerBody {
    id: String,
    name: String,
    host: String,
    version: String,
    queues: Vec<String>,
    machines: Vec<OfferBody>,
    started_at: Moment,
    heartbeat_at: Moment,
    lease_expires_at: Moment,
    /// Whether its lease is still valid.
    alive: bool,
    executing: CountBody,
}

/// A machine that a worker runs.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = MachineOffer)]
pub(crate) struct OfferBody {
    name: String,
    version: i32,
    queue: String,
    /// In the order of their declaration.
    steps: Vec<String>,
}

/// Lists every registered worker.
#[utoipa::path(
    get, path = "/v1/workers", tag = "workers", operation_id = "list_workers",
    responses((status = 200, description = "The registered workers.", body = WorkersBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
) -> Result<Json<WorkersBody>, Problem> {
    let now = api.admin().now().await?;
    let workers = api.admin().workers().await?;
    let executing = Executing::read(&api, &caller.scope).await?;
    let workers = workers
        .into_iter()
        .filter_map(|worker| seen(worker, &caller.scope));
    let workers = workers
        .map(|worker| WorkerBody::of(worker, now, &executing))
        .collect();
    Ok(Json(WorkersBody { workers }))
}

/// Reduces a worker to what a token may see; `None` if that is nothing.
pub(crate) fn seen(mut worker: Worker, scope: &TokenScope) -> Option<Worker> {
    worker.queues.retain(|queue| scope.has_queue(queue));
    worker
        .machines
        .retain(|offer| scope.has_machine(&offer.name));
    let serves = scope.queues.is_none() || !worker.queues.is_empty();
    let runs = scope.machines.is_none() || !worker.machines.is_empty();
    (serves && runs).then_some(worker)
}

/// Returns whether any machine or queue of a worker is within the token's scope.
pub(crate) fn is_seen(worker: &Worker, scope: &TokenScope) -> bool {
    seen(worker.clone(), scope).is_some()
}

impl WorkerBody {
    fn of(worker: Worker, now: Timestamp, executing: &Executing) -> WorkerBody {
        WorkerBody {
            id: worker.id.to_string(),
            executing: executing.of(worker.id),
            name: worker.name,
            host: worker.host,
            version: worker.version,
            queues: worker.queues,
            machines: worker.machines.into_iter().map(OfferBody::of).collect(),
            started_at: Moment(worker.started_at),
            heartbeat_at: Moment(worker.heartbeat_at),
            lease_expires_at: Moment(worker.lease_expires_at),
            alive: worker.lease_expires_at > now,
        }
    }
}

impl OfferBody {
    fn of(offer: MachineOffer) -> OfferBody {
        OfferBody {
            name: offer.name,
            version: offer.version,
            queue: offer.queue,
            steps: offer.steps,
        }
    }
}

/// The number of executing instances by worker.
struct Executing {
    by_worker: HashMap<WorkerId, u64>,
    is_all: bool,
}

impl Executing {
    async fn read(api: &Api, scope: &TokenScope) -> Result<Executing, Problem> {
        let mut executing = Executing {
            by_worker: HashMap::new(),
            is_all: false,
        };
        let (mut before, mut read) = (None, 0);
        while read < EXECUTING_READ_MAX {
            let filter = Filter {
                statuses: vec![Status::Executing],
                ..Filter::default()
            };
            let page = api
                .admin()
                .list(ListRequest {
                    filter,
                    before,
                    limit: PAGE_MAX,
                    values: false,
                })
                .await?;
            read += PAGE_MAX;
            for instance in page.instances.iter().filter(|instance| scope.has(instance)) {
                if let Some(worker) = instance.locked_by {
                    *executing.by_worker.entry(worker).or_default() += 1;
                }
            }
            before = page.next;
            if before.is_none() {
                executing.is_all = true;
                break;
            }
        }
        Ok(executing)
    }

    fn of(&self, worker: WorkerId) -> CountBody {
        CountBody {
            count: self.by_worker.get(&worker).copied().unwrap_or(0),
            exact: self.is_all,
        }
    }
}
