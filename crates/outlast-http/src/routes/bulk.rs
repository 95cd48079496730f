//! Acting on everything that a filter matches, a page at a time.

use super::operate::note;
use crate::api::Api;
use crate::cursor::Question;
use crate::extract::{Body, MayOperate, Path};
use crate::limits::BULK_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::query::FilterParams;
use crate::scoped_queries::Wanted;
use axum::Json;
use axum::extract::State;
use outlast_core::{
    CancelAnswer, DeleteAnswer, Filter, InstanceId, Note, RetryAnswer, Status, TerminateAnswer,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to act on.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = Bulk)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    /// Which instances; those that the verb has nothing to do for are left out.
    #[schema(value_type = FilterParams)]
    filter: serde_json::Map<String, serde_json::Value>,
    /// Recorded with each operation.
    reason: Option<String>,
    /// The `next` of the answer before.
    cursor: Option<String>,
    /// Only count.
    #[serde(default)]
    #[schema(required = false)]
    dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = BulkAnswer)]
pub(crate) struct BulkAnswer {
    /// Instances that were looked at and fit. Left out by a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    matched: Option<u64>,
    /// Of those, how many were changed; others moved on meanwhile, or were asked to cancel before. Left out by a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    changed: Option<u64>,
    /// The `cursor` to go on with; null when all have been looked at.
    next: Option<String>,
    /// How many fit. Only of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    count: Option<u64>,
    /// Whether `count` is all of them; else it is at least so many. Only of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    exact: Option<bool>,
}

#[derive(Clone, Copy)]
enum Act {
    Retry,
    Cancel,
    Terminate,
    Delete,
}

impl Act {
    fn of(word: &str) -> Result<Act, Problem> {
        match word {
            "retry" => Ok(Act::Retry),
            "cancel" => Ok(Act::Cancel),
            "terminate" => Ok(Act::Terminate),
            "delete" => Ok(Act::Delete),
            other => Err(Problem::new(
                Code::NotFound,
                format!("there is no bulk {other:?}: retry, cancel, terminate or delete"),
            )),
        }
    }

    /// Whether there is something to do in this status.
    fn is_for(self, status: Status) -> bool {
        match self {
            Act::Retry => matches!(status, Status::Failed | Status::Cancelled),
            Act::Cancel | Act::Terminate => !status.is_terminal(),
            Act::Delete => status.is_terminal(),
        }
    }

    /// Which statuses are meant when none is named. To retry means the failed: whoever cancelled something meant it.
    fn meant(self) -> Vec<Status> {
        let all = Status::ALL.into_iter();
        match self {
            Act::Retry => vec![Status::Failed],
            Act::Cancel | Act::Terminate | Act::Delete => {
                all.filter(|status| self.is_for(*status)).collect()
            }
        }
    }
}

/// Retries, cancels, terminates or deletes what a filter matches: at most 500 with each request, and the caller goes on with `next`.
/// With `dry_run` it only counts.
#[utoipa::path(
    post, path = "/v1/bulk/{verb}", tag = "operations", operation_id = "bulk",
    params(("verb" = String, Path, description = "retry, cancel, terminate or delete")), request_body = BulkBody,
    responses((status = 200, description = "How many instances were changed, or would be.", body = BulkAnswer), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn bulk(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path(verb): Path<String>,
    Body(body): Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    let act = Act::of(&verb)?;
    FilterParams::check_names(body.filter.keys().map(String::as_str))?;
    let params: FilterParams = serde_json::from_value(body.filter.into())
        .map_err(|error| Problem::invalid(format!("the filter: {error}")))?;
    let question = Question::new(&format!("bulk {verb}"), &params);
    let before = body
        .cursor
        .as_deref()
        .map(|cursor| question.position(cursor))
        .transpose()?;
    let Some(filter) = narrowed(api.filter(&params).await?, act) else {
        return Ok(Json(nothing(body.dry_run)));
    };
    if body.dry_run {
        let count = crate::shape::CountBody::from(api.count(&caller.scope, &filter).await?);
        return Ok(Json(BulkAnswer {
            count: Some(count.count),
            exact: Some(count.exact),
            ..BulkAnswer::default()
        }));
    }
    let wanted = Wanted {
        filter,
        before: before.map(InstanceId),
        limit: BULK_MAX,
        values: false,
    };
    let found = api.page(&caller.scope, wanted, |_| true).await?;
    let ids: Vec<_> = found.instances.iter().map(|instance| instance.id).collect();
    let matched = ids.len();
    let changed = apply(&api, act, ids, note(&caller, body.reason)).await?;
    Ok(Json(BulkAnswer {
        matched: Some(matched as u64),
        changed: Some(changed as u64),
        next: found.next.map(|next| question.cursor(next.0)),
        ..BulkAnswer::default()
    }))
}

/// The filter with only those of its statuses in which there is something to do; `None` when none is left.
fn narrowed(mut filter: Filter, act: Act) -> Option<Filter> {
    if filter.statuses.is_empty() {
        filter.statuses = act.meant();
    } else {
        filter.statuses.retain(|status| act.is_for(*status));
    }
    (!filter.statuses.is_empty()).then_some(filter)
}

fn nothing(dry_run: bool) -> BulkAnswer {
    let (none, all) = (dry_run.then_some(0), (!dry_run).then_some(0));
    BulkAnswer {
        matched: all,
        changed: all,
        count: none,
        exact: dry_run.then_some(true),
        next: None,
    }
}

async fn apply(api: &Api, act: Act, ids: Vec<InstanceId>, note: Note) -> Result<usize, Problem> {
    if ids.is_empty() {
        return Ok(0);
    }
    Ok(match act {
        Act::Retry => {
            let answers = api.client.retry_all(ids, note).await?;
            let is_changed = |answer: &&RetryAnswer| matches!(answer, RetryAnswer::Retried);
            answers.iter().filter(is_changed).count()
        }
        Act::Cancel => {
            let answers = api.client.cancel_all(ids, note).await?;
            let is_changed = |answer: &&CancelAnswer| match answer {
                CancelAnswer::Requested(_) | CancelAnswer::NeverStarted => true,
                CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => false,
            };
            answers.iter().filter(is_changed).count()
        }
        Act::Terminate => {
            let answers = api.client.terminate_all(ids, note).await?;
            let is_changed =
                |answer: &&TerminateAnswer| matches!(answer, TerminateAnswer::Terminated(_));
            answers.iter().filter(is_changed).count()
        }
        Act::Delete => {
            let answers = api.client.delete_all(ids, note).await?;
            let is_changed = |answer: &&DeleteAnswer| matches!(answer, DeleteAnswer::Deleted);
            answers.iter().filter(is_changed).count()
        }
    })
}
