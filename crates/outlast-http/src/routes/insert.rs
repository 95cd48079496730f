//! Routes that start instances.

use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::bodies::time;
use crate::limits::BATCH_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::extract::{Body, MaySignal};
use crate::requests::keys;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use outlast_core::{
    Inserted, InstanceId, Json as Document, MachineOffer, NewInstance, Scope, Start, Status,
    Worker, key,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// An instance to start.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = NewInstance)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInstanceBody {
    machine: String,
    /// Default: the newest version that a running worker has, or 1.
    version: Option<i32>,
    /// The first step.
    step: String,
    /// The state of that step. Default: null. Stored byte for byte.
    #[serde(default = "Document::null")]
    #[schema(value_type = Option<serde_json::Value>, required = false)]
    state: Document,
    /// Default: the queue that a running worker declares for the machine, or `default`.
    queue: Option<String>,
    /// Lower is more urgent.
    #[serde(default)]
    #[schema(required = false)]
    priority: i16,
    /// Do not start before this many milliseconds from now.
    delay_ms: Option<u64>,
    /// Do not start before this time, RFC 3339.
    eligible_at: Option<String>,
    /// The correlation key.
    key: Option<String>,
    /// The correlation key in hexadecimal, instead of as text.
    key_hex: Option<String>,
    /// The statuses in which the instance holds the key. Default: until it finishes.
    /// `awaiting_signal` includes sleeping; `sleeping` is refused here.
    #[schema(value_type = Option<Vec<crate::bodies::instance::StatusWord>>)]
    unique_in: Option<Vec<Status>>,
    partition_key: Option<String>,
    /// The partition key in hexadecimal, instead of as text.
    partition_key_hex: Option<String>,
    /// Fail the instance as timed out after this many milliseconds, counted from its earliest
    /// start, over all its runs. Default: never.
    timeout_ms: Option<u64>,
    /// The same for each run of a workflow.
    run_timeout_ms: Option<u64>,
}

/// Instances to start.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[schema(as = NewInstances)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// At most 1,000, in a body of at most 1 MiB.
    instances: Vec<NewInstanceBody>,
}

/// The result of starting an instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Inserted)]
pub(crate) struct InsertedBody {
    /// The new instance, or the current holder of the key.
    id: String,
    /// False when the key was held and nothing was written.
    created: bool,
}

/// The result for each instance.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = InsertedBatch)]
pub(crate) struct InsertedBatchBody {
    /// In the order of the request.
    instances: Vec<ItemBody>,
}

/// The result for one instance of a batch: an id, or an error.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = InsertedItem)]
pub(crate) struct ItemBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    created: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    error: Option<ItemError>,
}

/// Why an instance of a batch was refused.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ItemError {
    code: &'static str,
    detail: String,
}

/// Starts an instance.
///
/// Without a `key` in the body, the header `Idempotency-Key` is the key. It is held for as long as
/// the instance is stored, so a repeated request returns the same instance.
#[utoipa::path(
    post, path = "/v1/instances", tag = "instances", operation_id = "insert_instance",
    params(("Idempotency-Key" = Option<String>, Header)),
    request_body = NewInstanceBody,
    responses(
        (status = 201, body = InsertedBody, description = "Started."),
        (status = 200, body = InsertedBody, description = "This instance already holds the key. Nothing was written."),
        (status = "default", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn insert(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    headers: HeaderMap,
    Body(mut body): Body<NewInstanceBody>,
) -> Result<(StatusCode, Json<InsertedBody>), Problem> {
    take_idempotency_key(&mut body, &headers)?;
    let offers = Offers::of(&api, [&body]).await?;
    let row = row(body, &offers, &caller.scope)?;
    let key = row.correlation.clone().map(|correlation| correlation.key);
    let answers = api.admin().insert_rows(vec![row]).await?;
    let answer = answers
        .into_iter()
        .next()
        .unwrap_or(Inserted::Duplicate { holder: None });
    let (id, created) = holder_of(&api, &caller.scope, answer, key.as_deref()).await?;
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((
        status,
        Json(InsertedBody {
            id: id.to_string(),
            created,
        }),
    ))
}

/// Starts many instances. Each has its own result: an invalid one does not affect the others.
#[utoipa::path(
    post, path = "/v1/instances/batch", tag = "instances", operation_id = "insert_instances",
    request_body = BatchBody,
    responses((status = 200, description = "A result for each instance, in the order of the request.", body = InsertedBatchBody), (status = "default", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn insert_batch(
    State(api): State<Arc<Api>>,
    MaySignal(caller): MaySignal,
    Body(batch): Body<BatchBody>,
) -> Result<Json<InsertedBatchBody>, Problem> {
    if batch.instances.len() > BATCH_MAX {
        let detail = format!(
            "a batch has at most {BATCH_MAX} instances, not {}",
            batch.instances.len()
        );
        return Err(Problem::invalid(detail));
    }
    let offers = Offers::of(&api, &batch.instances).await?;
    let rows = batch
        .instances
        .into_iter()
        .map(|body| row(body, &offers, &caller.scope));
    let rows: Vec<_> = rows.collect();
    let (mut good, mut keys) = (Vec::new(), Vec::new());
    for row in rows.iter().flatten() {
        keys.push(row.correlation.clone().map(|correlation| correlation.key));
        good.push(row.clone());
    }
    let mut answers = api.admin().insert_rows(good).await?.into_iter().zip(keys);
    let mut instances = Vec::with_capacity(rows.len());
    for row in rows {
        let result = match row {
            Err(problem) => Err(problem),
            Ok(_) => match answers.next() {
                Some((answer, key)) => holder_of(&api, &caller.scope, answer, key.as_deref()).await,
                None => Err(Problem::new(
                    Code::Internal,
                    "the store returned too few results",
                )),
            },
        };
        instances.push(item(result));
    }
    Ok(Json(InsertedBatchBody { instances }))
}

fn item(result: Result<(InstanceId, bool), Problem>) -> ItemBody {
    match result {
        Ok((id, created)) => ItemBody {
            id: Some(id.to_string()),
            created: Some(created),
            error: None,
        },
        Err(problem) => ItemBody {
            error: Some(ItemError {
                code: problem.code.as_str(),
                detail: problem.detail,
            }),
            ..ItemBody::default()
        },
    }
}

/// Returns the holder of the key. A holder outside the scope is not named.
async fn holder_of(
    api: &Api,
    scope: &TokenScope,
    answer: Inserted,
    key: Option<&str>,
) -> Result<(InstanceId, bool), Problem> {
    let key = key::quoted(key.unwrap_or_default());
    match answer {
        Inserted::New { id, .. } => Ok((id, true)),
        Inserted::Duplicate {
            holder: Some(holder),
        } if scope.is_everything() => Ok((holder, false)),
        Inserted::Duplicate {
            holder: Some(holder),
        } => match api.instance(scope, holder).await {
            Ok(_) => Ok((holder, false)),
            Err(_) => Err(Problem::new(
                Code::Conflict,
                format!("another instance holds the key {key}"),
            )),
        },
        Inserted::Duplicate { holder: None } => Err(Problem::new(
            Code::Conflict,
            format!("the holder of key {key} has just finished; try again"),
        )),
    }
}

fn take_idempotency_key(body: &mut NewInstanceBody, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(given) = headers.get("idempotency-key") else {
        return Ok(());
    };
    let given = given
        .to_str()
        .map_err(|_| Problem::invalid("the Idempotency-Key header must be ASCII"))?;
    if body.key.is_some() || body.key_hex.is_some() {
        let detail = "give either key or the Idempotency-Key header, not both";
        return Err(Problem::invalid(detail));
    }
    body.key = Some(given.to_owned());
    body.unique_in = Some(Scope::FOREVER.statuses().collect());
    Ok(())
}

/// Returns the row of a body, if it is valid and within the caller's scope.
fn row(body: NewInstanceBody, offers: &Offers, scope: &TokenScope) -> Result<NewInstance, Problem> {
    let start = start(&body)?;
    let (version, queue) = offers.complete(&body);
    let mut row = NewInstance::new(body.machine, body.step, body.state)
        .version(version)
        .queue(queue)
        .priority(body.priority)
        .start(start);
    row.partition_key = keys::new(
        "partition_key",
        body.partition_key.as_deref(),
        body.partition_key_hex.as_deref(),
    )?;
    row.timeout = body.timeout_ms.map(Duration::from_millis);
    row.run_timeout = body.run_timeout_ms.map(Duration::from_millis);
    let key = keys::new("key", body.key.as_deref(), body.key_hex.as_deref())?;
    match (key, body.unique_in) {
        (Some(key), None) => row = row.correlation_key(key),
        (Some(key), Some(statuses)) => row = row.correlation(key, Scope::of(statuses)?),
        (None, Some(_)) => {
            return Err(Problem::invalid("unique_in requires key"));
        }
        (None, None) => {}
    }
    row.check()?;
    if !scope.has_machine(&row.machine) || !scope.has_queue(&row.queue) {
        let detail = format!(
            "this token may not start machine {:?} in queue {:?}",
            row.machine, row.queue
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(row)
}

fn start(body: &NewInstanceBody) -> Result<Start, Problem> {
    match (body.delay_ms, body.eligible_at.as_deref()) {
        (None, None) => Ok(Start::Now),
        (Some(delay), None) => Ok(Start::After(Duration::from_millis(delay))),
        (None, Some(text)) => time::read(text).map(Start::At).ok_or_else(|| {
            Problem::invalid(format!(
                "eligible_at must be a time such as 2026-11-16T14:20:00Z, not {text:?}"
            ))
        }),
        (Some(_), Some(_)) => Err(Problem::invalid(
            "give either delay_ms or eligible_at, not both",
        )),
    }
}

/// The machines that running workers declare. They supply the defaults of a request.
struct Offers(Vec<Worker>);

impl Offers {
    /// Reads the workers only when the request leaves something out.
    async fn of<'a>(
        api: &Api,
        bodies: impl IntoIterator<Item = &'a NewInstanceBody>,
    ) -> Result<Offers, Problem> {
        let mut bodies = bodies.into_iter();
        let is_needed = bodies.any(|body| body.version.is_none() || body.queue.is_none());
        let workers = if is_needed {
            api.admin().workers().await?
        } else {
            Vec::new()
        };
        Ok(Offers(workers))
    }

    fn complete(&self, body: &NewInstanceBody) -> (i32, String) {
        let newest = MachineOffer::among(&self.0, &body.machine, body.version);
        let version = body
            .version
            .or(newest.map(|offer| offer.version))
            .unwrap_or(1);
        let queue = body
            .queue
            .clone()
            .or_else(|| newest.map(|offer| offer.queue.clone()));
        (version, queue.unwrap_or_else(|| "default".into()))
    }
}
