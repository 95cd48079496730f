//! The overview: counts, charts, and conditions that need an operator.

use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::instance::{CountBody, Counts, no_counts};
use crate::bodies::time::Moment;
use crate::overview::attention::{Attention, StepTotals, attention};
use crate::overview::charts::{SeriesBody, series};
use crate::overview::step_counter::OverviewSnapshot;
use crate::problem::{Problem, ProblemBody};
use crate::requests::extract::MayRead;
use crate::requests::query::FilterParams;
use axum::Json;
use axum::extract::State;
use outlast_core::{BLOCKED, Filter, RETRIES_ALARMING, Status};
use serde::Serialize;
use std::sync::Arc;

/// The overview of everything within the token's scope.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Overview)]
pub(crate) struct OverviewBody {
    /// Instances by status.
    #[schema(inline)]
    counts: Counts,
    /// When the count began.
    counted_at: Moment,
    /// Whether all instances were counted.
    complete: bool,
    /// Conditions that need an operator, the most severe first.
    attention: Vec<Attention>,
    /// The last hour, in minutes.
    series: SeriesBody,
}

/// Returns the overview.
#[utoipa::path(
    get, path = "/v1/overview", tag = "overview", operation_id = "get_overview",
    responses((status = 200, description = "The overview.", body = OverviewBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
) -> Result<Json<OverviewBody>, Problem> {
    overview(&api, &caller.scope).await.map(Json)
}

/// Builds the overview that a token may see.
pub(crate) async fn overview(api: &Api, scope: &TokenScope) -> Result<OverviewBody, Problem> {
    let snapshot = api.step_counter.snapshot().await?;
    let totals = match &scope.queues {
        None => summed(&snapshot, scope),
        Some(_) => counted(api, scope).await?,
    };
    Ok(OverviewBody {
        attention: attention(&snapshot, scope, &totals),
        series: series(&snapshot.stats, snapshot.now, scope),
        counts: totals.counts,
        counted_at: Moment(snapshot.counted_at),
        complete: totals.complete,
    })
}

/// Sums the instances by status from the counts by step.
fn summed(snapshot: &OverviewSnapshot, scope: &TokenScope) -> StepTotals {
    let mut totals = StepTotals {
        counts: no_counts(),
        complete: snapshot.complete,
        without_deadline: nothing(snapshot.complete),
        overdue: nothing(snapshot.complete),
        retrying: nothing(snapshot.complete),
        blocked: nothing(snapshot.complete),
    };
    for count in snapshot
        .step_counts
        .iter()
        .filter(|count| scope.has_machine(&count.machine))
    {
        *totals.counts.entry(count.status.as_str()).or_default() += count.instances;
        totals.without_deadline.count += count.without_deadline;
        totals.overdue.count += count.overdue;
        totals.retrying.count += count.retrying;
        totals.blocked.count += count.blocked;
    }
    totals
}

fn nothing(exact: bool) -> CountBody {
    CountBody { count: 0, exact }
}

/// Counts the instances for a token bound to queues: the counts by step are not by queue.
async fn counted(api: &Api, scope: &TokenScope) -> Result<StepTotals, Problem> {
    let mut counts = no_counts();
    let mut complete = true;
    for status in Status::ALL {
        let filter = Filter {
            statuses: vec![status],
            ..Filter::default()
        };
        let count = CountBody::from(api.count(scope, &filter).await?);
        counts.insert(status.as_str(), count.count);
        complete &= count.exact;
    }
    let with_deadline = |deadline: &str| FilterParams {
        deadline: Some(deadline.to_owned()),
        ..FilterParams::default()
    };
    let without_deadline = api.filter(&with_deadline("none")).await?;
    let overdue = api.filter(&with_deadline("overdue")).await?;
    let retrying = Filter {
        statuses: vec![Status::Runnable, Status::Executing],
        attempts_from: Some(RETRIES_ALARMING),
        ..Filter::default()
    };
    let blocked = Filter {
        statuses: vec![Status::Runnable, Status::Executing],
        error: Some(BLOCKED.to_owned()),
        ..Filter::default()
    };
    Ok(StepTotals {
        counts,
        complete,
        without_deadline: api.count(scope, &without_deadline).await?.into(),
        overdue: api.count(scope, &overdue).await?.into(),
        retrying: api.count(scope, &retrying).await?.into(),
        blocked: api.count(scope, &blocked).await?.into(),
    })
}
