//! The bulk verbs: they act on every instance that matches a filter, one page per request.

use super::operate::note;
use crate::access::scoped_queries::PageRequest;
use crate::api::Api;
use crate::limits::BULK_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{Body, MayOperate, Path};
use crate::requests::query::FilterParams;
use axum::Json;
use axum::extract::State;
use outlast_core::{
    CancelAnswer, DeleteAnswer, Filter, InstanceId, Note, RepairAnswer, RetryAnswer, Status,
    TerminateAnswer,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The instances to act on.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = Bulk)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    /// Selects the instances. Instances whose status does not allow the verb are skipped.
    #[schema(value_type = FilterParams)]
    filter: serde_json::Map<String, serde_json::Value>,
    /// Recorded with each operation.
    reason: Option<String>,
    /// The `next` of the previous response.
    cursor: Option<String>,
    /// Only counts.
    #[serde(default)]
    #[schema(required = false)]
    dry_run: bool,
}

/// The effect of a bulk verb, or its estimate.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = BulkAnswer)]
pub(crate) struct BulkAnswer {
    /// Instances that were examined and matched. Absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    matched: Option<u64>,
    /// Matched instances that were changed. The others changed meanwhile, were already asked to
    /// cancel, or need no repair. Absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    changed: Option<u64>,
    /// The `cursor` of the next request; null when all instances have been examined.
    next: Option<String>,
    /// The number of matching instances. Only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    count: Option<u64>,
    /// Whether `count` is exact; else it is a lower bound. Only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    exact: Option<bool>,
}

#[derive(Clone, Copy)]
enum BulkVerb {
    Retry,
    Cancel,
    Terminate,
    Delete,
    Repair,
}

impl BulkVerb {
    fn of(word: &str) -> Result<BulkVerb, Problem> {
        match word {
            "retry" => Ok(BulkVerb::Retry),
            "cancel" => Ok(BulkVerb::Cancel),
            "terminate" => Ok(BulkVerb::Terminate),
            "delete" => Ok(BulkVerb::Delete),
            "repair" => Ok(BulkVerb::Repair),
            other => Err(Problem::new(
                Code::NotFound,
                format!(
                    "unknown operation {other:?}; use retry, cancel, terminate, delete or repair"
                ),
            )),
        }
    }

    /// Returns whether the verb applies to this status.
    fn is_for(self, status: Status) -> bool {
        match self {
            BulkVerb::Retry => matches!(status, Status::Failed | Status::Cancelled),
            BulkVerb::Cancel | BulkVerb::Terminate => !status.is_terminal(),
            BulkVerb::Delete => status.is_terminal(),
            BulkVerb::Repair => status.is_parked() || status == Status::Runnable,
        }
    }

    /// The statuses that a verb selects by default. Retry selects only failed instances: a cancel
    /// was intended.
    fn meant(self) -> Vec<Status> {
        let all = Status::ALL.into_iter();
        match self {
            BulkVerb::Retry => vec![Status::Failed],
            BulkVerb::Cancel | BulkVerb::Terminate | BulkVerb::Delete | BulkVerb::Repair => {
                all.filter(|status| self.is_for(*status)).collect()
            }
        }
    }
}

/// Retries, cancels, terminates, deletes or repairs the instances that match a filter.
///
/// One request handles at most 500. The caller continues with `next`. With `dry_run` it only
/// counts.
#[utoipa::path(
    post, path = "/v1/bulk/{verb}", tag = "operations", operation_id = "bulk",
    params(("verb" = String, Path, description = "retry, cancel, terminate, delete or repair")), request_body = BulkBody,
    responses((status = 200, description = "The number of instances that were changed, or would be.", body = BulkAnswer), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn bulk(
    State(api): State<Arc<Api>>,
    MayOperate(caller): MayOperate,
    Path(verb): Path<String>,
    Body(body): Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    let act = BulkVerb::of(&verb)?;
    FilterParams::check_names(body.filter.keys().map(String::as_str))?;
    let params: FilterParams = serde_json::from_value(body.filter.into())
        .map_err(|error| Problem::invalid(format!("invalid filter: {error}")))?;
    let list_query = ListQuery::new(&format!("bulk {verb}"), &params);
    let before = body
        .cursor
        .as_deref()
        .map(|cursor| list_query.position(cursor))
        .transpose()?;
    let Some(filter) = narrowed(api.filter(&params).await?, act) else {
        return Ok(Json(nothing(body.dry_run)));
    };
    if body.dry_run {
        let count =
            crate::bodies::instance::CountBody::from(api.count(&caller.scope, &filter).await?);
        return Ok(Json(BulkAnswer {
            count: Some(count.count),
            exact: Some(count.exact),
            ..BulkAnswer::default()
        }));
    }
    let wanted = PageRequest {
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
        next: found.next.map(|next| list_query.cursor(next.0)),
        ..BulkAnswer::default()
    }))
}

/// Keeps the statuses of the filter to which the verb applies. Returns `None` when none is left.
fn narrowed(mut filter: Filter, act: BulkVerb) -> Option<Filter> {
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

async fn apply(
    api: &Api,
    act: BulkVerb,
    ids: Vec<InstanceId>,
    note: Note,
) -> Result<usize, Problem> {
    if ids.is_empty() {
        return Ok(0);
    }
    Ok(match act {
        BulkVerb::Retry => {
            let answers = api.admin().retry_all(ids, note).await?;
            let is_changed = |answer: &&RetryAnswer| matches!(answer, RetryAnswer::Retried);
            answers.iter().filter(is_changed).count()
        }
        BulkVerb::Cancel => {
            let answers = api.admin().cancel_all(ids, note).await?;
            let is_changed = |answer: &&CancelAnswer| match answer {
                CancelAnswer::Requested(_) | CancelAnswer::NeverStarted => true,
                CancelAnswer::AlreadyRequested(_)
                | CancelAnswer::AlreadyEnded(_)
                | CancelAnswer::NotFound => false,
            };
            answers.iter().filter(is_changed).count()
        }
        BulkVerb::Terminate => {
            let answers = api.admin().terminate_all(ids, note).await?;
            let is_changed =
                |answer: &&TerminateAnswer| matches!(answer, TerminateAnswer::Terminated(_));
            answers.iter().filter(is_changed).count()
        }
        BulkVerb::Delete => {
            let answers = api.admin().delete_all(ids, note).await?;
            let is_changed = |answer: &&DeleteAnswer| matches!(answer, DeleteAnswer::Deleted);
            answers.iter().filter(is_changed).count()
        }
        BulkVerb::Repair => {
            let answers = api.admin().repair_all(ids, note).await?;
            let is_changed = |answer: &&RepairAnswer| matches!(answer, RepairAnswer::Repaired(_));
            answers.iter().filter(is_changed).count()
        }
    })
}
