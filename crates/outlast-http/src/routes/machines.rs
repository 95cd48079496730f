//! Routes for machines: their steps, the instances at each step, and the observed transitions.

use super::workers::seen;
use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::instance::{Counts, no_counts};
use crate::bodies::time::Moment;
use crate::limits::WINDOW_MINUTES;
use crate::overview::step_counter::OverviewSnapshot;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{MayRead, Path};
use axum::Json;
use axum::extract::State;
use outlast_core::{MachineOffer, Runs, StepCount};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Machines by name and version.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Machines)]
pub(crate) struct MachinesBody {
    machines: Vec<MachineBody>,
    /// When the count began.
    counted_at: Moment,
    /// Whether all instances were counted; false during the first count.
    complete: bool,
    /// The period of runs and transitions, in minutes.
    window_minutes: i64,
}

/// A machine in one version.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Machine)]
pub(crate) struct MachineBody {
    name: String,
    version: i32,
    /// The default queue of its instances; null when no running worker has the machine.
    queue: Option<String>,
    /// In the order of their declaration, then other steps that were observed.
    steps: Vec<StepBody>,
    /// The observed transitions.
    transitions: Vec<StepTransitionBody>,
    /// The number of running workers that have it.
    workers: usize,
}

/// A step of a machine.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Step)]
pub(crate) struct StepBody {
    name: String,
    /// Whether a running worker declares it; else it was only observed.
    declared: bool,
    /// The number of instances at the step, by status. A finished instance counts at its last
    /// step.
    #[schema(inline)]
    counts: Counts,
    /// The number of runs.
    runs: u64,
    /// The number of runs that ended with a retry or a failure.
    failures: u64,
    /// The mean duration of a run; null without runs.
    mean_ms: Option<f64>,
    /// When the live instance that has not changed for longest was last updated.
    oldest_updated_at: Option<Moment>,
}

/// A transition from a step to the next.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = StepTransition)]
pub(crate) struct StepTransitionBody {
    from: String,
    /// Null when the instance finished.
    to: Option<String>,
    /// next, retry, wait, fan_out, done, stop or cancel.
    outcome: String,
    count: u64,
    mean_ms: Option<f64>,
}

/// Lists every machine that a worker has or that has instances.
#[utoipa::path(
    get, path = "/v1/machines", tag = "machines", operation_id = "list_machines",
    responses((status = 200, description = "The machines.", body = MachinesBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
) -> Result<Json<MachinesBody>, Problem> {
    let snapshot = api.step_counter.snapshot().await?;
    Ok(Json(body(&snapshot, &caller.scope, None)))
}

/// Lists the versions of one machine.
#[utoipa::path(
    get, path = "/v1/machines/{machine}", tag = "machines", operation_id = "get_machine",
    params(("machine" = String, Path)),
    responses((status = 200, description = "The versions of the machine.", body = MachinesBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Path(machine): Path<String>,
) -> Result<Json<MachinesBody>, Problem> {
    let snapshot = api.step_counter.snapshot().await?;
    let body = body(&snapshot, &caller.scope, Some(&machine));
    if body.machines.is_empty() && body.complete {
        let detail = format!(
            "machine {machine:?} does not exist: no worker runs it, and it has no instances"
        );
        return Err(Problem::new(Code::NotFound, detail));
    }
    Ok(Json(body))
}

fn body(snapshot: &OverviewSnapshot, scope: &TokenScope, only: Option<&str>) -> MachinesBody {
    let mut machines = Machines::default();
    let is_wanted = |name: &str| scope.has_machine(name) && only.is_none_or(|only| only == name);
    let alive = snapshot
        .workers
        .iter()
        .filter(|worker| worker.lease_expires_at > snapshot.now);
    for worker in alive.filter_map(|worker| seen(worker.clone(), scope)) {
        let offers = worker
            .machines
            .iter()
            .filter(|offer| is_wanted(&offer.name));
        offers
            .filter(|offer| scope.has_queue(&offer.queue))
            .for_each(|offer| machines.offer(offer));
    }
    // These counts are not by queue, so a token bound to queues does not see them.
    if scope.queues.is_none() {
        let counts = snapshot
            .step_counts
            .iter()
            .filter(|count| is_wanted(&count.machine));
        counts.for_each(|count| machines.count(count));
        let runs = snapshot
            .stats
            .runs
            .iter()
            .filter(|runs| is_wanted(&runs.machine));
        runs.for_each(|runs| machines.run(runs));
    }
    MachinesBody {
        machines: machines.0.into_iter().map(Machine::body).collect(),
        counted_at: Moment(snapshot.counted_at),
        complete: snapshot.complete && scope.queues.is_none(),
        window_minutes: WINDOW_MINUTES,
    }
}

#[derive(Default)]
struct Machines(BTreeMap<(String, i32), Machine>);

#[derive(Default)]
struct Machine {
    queue: Option<String>,
    workers: usize,
    declared: Vec<String>,
    steps: BTreeMap<String, Step>,
    transitions: BTreeMap<(String, String, String), RunTime>,
}

#[derive(Default)]
struct Step {
    counts: BTreeMap<&'static str, u64>,
    time: RunTime,
    failures: u64,
    oldest: Option<Moment>,
}

#[derive(Clone, Copy, Default)]
struct RunTime {
    count: u64,
    micros: u64,
}

impl RunTime {
    fn add(&mut self, runs: &Runs) {
        self.count += runs.count;
        self.micros += runs.micros;
    }

    fn mean_ms(self) -> Option<f64> {
        (self.count > 0).then(|| (self.micros as f64 / self.count as f64).round() / 1000.0)
    }
}

impl Machines {
    fn of(&mut self, name: &str, version: i32) -> &mut Machine {
        self.0.entry((name.to_owned(), version)).or_default()
    }

    fn offer(&mut self, offer: &MachineOffer) {
        let machine = self.of(&offer.name, offer.version);
        machine.workers += 1;
        machine.queue.get_or_insert_with(|| offer.queue.clone());
        for step in &offer.steps {
            if !machine.declared.contains(step) {
                machine.declared.push(step.clone());
            }
        }
    }

    fn count(&mut self, count: &StepCount) {
        let machine = self.of(&count.machine, count.version);
        let step = machine.steps.entry(count.step.clone()).or_default();
        *step.counts.entry(count.status.as_str()).or_default() += count.instances;
        if !count.status.is_terminal() {
            let oldest = Moment(count.oldest_updated_at);
            step.oldest = Some(step.oldest.map_or(oldest, |known| known.min(oldest)));
        }
    }

    fn run(&mut self, runs: &Runs) {
        let machine = self.of(&runs.machine, runs.version);
        let step = machine.steps.entry(runs.step.clone()).or_default();
        step.time.add(runs);
        if is_failure(&runs.outcome) {
            step.failures += runs.count;
        }
        let way = (runs.step.clone(), runs.next.clone(), runs.outcome.clone());
        machine.transitions.entry(way).or_default().add(runs);
    }
}

/// Returns whether a run with this outcome counts as a failure.
pub(crate) fn is_failure(outcome: &str) -> bool {
    matches!(outcome, "retry" | "fail" | "stop")
}

impl Machine {
    fn body(((name, version), mut machine): ((String, i32), Machine)) -> MachineBody {
        let declared = std::mem::take(&mut machine.declared);
        let mut steps: Vec<StepBody> = Vec::new();
        for name in declared {
            let step = machine.steps.remove(&name).unwrap_or_default();
            steps.push(step.body(name, true));
        }
        steps.extend(
            machine
                .steps
                .into_iter()
                .map(|(name, step)| step.body(name, false)),
        );
        let transitions = machine
            .transitions
            .into_iter()
            .map(|((from, to, outcome), time)| StepTransitionBody {
                from,
                to: (!to.is_empty()).then_some(to),
                outcome,
                count: time.count,
                mean_ms: time.mean_ms(),
            });
        MachineBody {
            name,
            version,
            queue: machine.queue,
            steps,
            transitions: transitions.collect(),
            workers: machine.workers,
        }
    }
}

impl Step {
    fn body(self, name: String, declared: bool) -> StepBody {
        let mut counts = no_counts();
        counts.extend(self.counts);
        StepBody {
            name,
            declared,
            counts,
            runs: self.time.count,
            failures: self.failures,
            mean_ms: self.time.mean_ms(),
            oldest_updated_at: self.oldest,
        }
    }
}
