//! Live changes as server-sent events.

use super::overview::overview;
use crate::access::scoped_queries::PageRequest;
use crate::access::tokens::Caller;
use crate::api::Api;
use crate::bodies::instance::InstanceBody;
use crate::limits::FOLLOWED_MAX;
use crate::problem::{Code, Problem, ProblemBody};
use crate::requests::cursor::ListQuery;
use crate::requests::extract::{MayRead, Query, parse_id};
use crate::requests::query::{FilterParams, PageParams};
use crate::server::serve::Shutdown;
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use outlast_core::{Instance, InstanceId, Revision, Status};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// How often the overview is sent.
const OVERVIEW_EVERY: Duration = Duration::from_secs(2);
/// How often a ping is sent, so that both sides detect a lost connection.
const PING_EVERY: Duration = Duration::from_secs(10);
/// A stream pauses this many times as long as its reads took, so that many streams cannot keep the
/// database busy.
const REST: u32 = 10;
/// The minimum time per instance of a read by id.
const EACH: Duration = Duration::from_millis(10);

/// The instances to follow by id; without ids, a page of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct FollowParams {
    /// Follow this instance; repeated for several, at most 200.
    id: Vec<String>,
    /// Follow a page of this size, at most 200. Without it, only the overview is sent.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// Follow the page that begins here: a `next` of the list with the same filter.
    cursor: Option<String>,
}

/// Live changes as server-sent events.
///
/// `instance` carries an instance in the form of the lists. It is sent for each followed instance
/// at the start, and again after each change.
///
/// `gone` carries the id of an instance that was deleted or has left the page. `overview` carries
/// the overview, every two seconds. `problem` reports a failed read; the stream continues. `ping`
/// carries nothing.
///
/// A stream has no memory: after a reconnect it starts from the beginning.
#[utoipa::path(
    get, path = "/v1/events", tag = "overview", operation_id = "follow_events",
    params(FilterParams, FollowParams),
    responses(
        (status = 200, description = "Changes, until the client or the server closes the connection.", content_type = "text/event-stream", body = String),
        (status = "default", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn follow(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Query(filter, params): Query<FilterParams, FollowParams>,
    stopping: Option<Extension<Shutdown>>,
) -> Result<impl IntoResponse, Problem> {
    let subject = subject(filter, params)?;
    let permit = api.streams.clone().try_acquire_owned().map_err(|_| {
        Problem::new(
            Code::TooManyStreams,
            "too many event streams are open; close one or try again later",
        )
    })?;
    let source = EventStream::new(api, caller, subject, permit);
    let events = stream::unfold(source, |mut source| async {
        let event = source.next().await;
        Some((Ok::<_, Infallible>(event), source))
    });
    let stopped = async move {
        match stopping {
            Some(Extension(stopping)) => stopping.stopped().await,
            None => std::future::pending().await,
        }
    };
    let ping = KeepAlive::new()
        .interval(PING_EVERY)
        .event(Event::default().event("ping").data("{}"));
    let events = futures_util::StreamExt::take_until(events, Box::pin(stopped));
    Ok((
        // A buffering proxy would hold events back.
        [("x-accel-buffering", "no")],
        Sse::new(events).keep_alive(ping),
    ))
}

enum Subject {
    OverviewOnly,
    Ids(Vec<InstanceId>),
    Page {
        filter: Box<FilterParams>,
        before: Option<InstanceId>,
        limit: usize,
    },
}

fn subject(filter: FilterParams, params: FollowParams) -> Result<Subject, Problem> {
    let is_filtered =
        filter != FilterParams::default() || params.limit.is_some() || params.cursor.is_some();
    if params.id.is_empty() {
        if !is_filtered {
            return Ok(Subject::OverviewOnly);
        }
        let page = PageParams {
            limit: params.limit,
            ..PageParams::default()
        };
        let list_query = ListQuery::new("instances", &filter);
        let before = params
            .cursor
            .as_deref()
            .map(|cursor| list_query.position(cursor))
            .transpose()?;
        // Reports an invalid filter in this response, not in an event.
        filter.filter(outlast_core::Timestamp(0))?;
        return Ok(Subject::Page {
            limit: page.limit()?,
            before: before.map(InstanceId),
            filter: Box::new(filter),
        });
    }
    if is_filtered {
        return Err(Problem::invalid("give ids or a filter, not both"));
    }
    if params.id.len() > FOLLOWED_MAX {
        return Err(Problem::invalid(format!(
            "a stream follows at most {FOLLOWED_MAX} ids, not {}",
            params.id.len()
        )));
    }
    let ids = params
        .id
        .iter()
        .map(|id| parse_id(id))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Subject::Ids(ids))
}

/// One stream: the instances that it follows, and what it has sent.
struct EventStream {
    api: Arc<Api>,
    caller: Arc<Caller>,
    subject: Subject,
    /// The last version sent of each instance.
    sent: BTreeMap<InstanceId, SentVersion>,
    waiting: VecDeque<Event>,
    next_read: Instant,
    next_overview: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Identifies a version of an instance. A wake and a cancel request do not change the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentVersion {
    revision: Revision,
    status: Status,
    /// Whether a cancel was requested, and whether the machine has answered it.
    cancel: Option<bool>,
}

impl SentVersion {
    fn of(instance: &Instance) -> SentVersion {
        let cancel = instance.cancel.as_ref();
        SentVersion {
            revision: instance.revision,
            status: instance.status,
            cancel: cancel.map(|cancel| cancel.answered),
        }
    }
}

/// An instance as it is sent. Its state is dropped at once, because a stream follows many.
type ReadInstance = (InstanceId, SentVersion, InstanceBody);

fn read_instance(instance: Instance) -> ReadInstance {
    let version = SentVersion::of(&instance);
    (instance.id, version, InstanceBody::summary(instance))
}

impl EventStream {
    fn new(
        api: Arc<Api>,
        caller: Arc<Caller>,
        subject: Subject,
        permit: OwnedSemaphorePermit,
    ) -> EventStream {
        EventStream {
            api,
            caller,
            subject,
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            next_read: Instant::now(),
            next_overview: Instant::now(),
            _permit: permit,
        }
    }

    /// Returns the next event. Nothing accumulates while the client does not read.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            let reads_instances = !matches!(self.subject, Subject::OverviewOnly);
            let is_read = reads_instances && self.next_read <= self.next_overview;
            let due = if is_read {
                self.next_read
            } else {
                self.next_overview
            };
            tokio::time::sleep_until(due).await;
            let begun = Instant::now();
            if is_read {
                let least = self.read().await;
                self.next_read = begun + least.max(begun.elapsed() * REST);
            } else {
                self.send_overview().await;
                self.next_overview = begun + OVERVIEW_EVERY.max(begun.elapsed() * REST);
            }
        }
    }

    async fn send_overview(&mut self) {
        match overview(&self.api, &self.caller.scope).await {
            Ok(overview) => self.waiting.extend(event("overview", &overview)),
            Err(problem) => self.send_problem(problem),
        }
    }

    /// Reads once and returns the minimum time until the next read.
    async fn read(&mut self) -> Duration {
        let found = self.find().await;
        match found {
            Ok(found) => self.compare(found),
            Err(problem) => self.send_problem(problem),
        }
        let every = self.api.settings.limits.look_every;
        match &self.subject {
            Subject::Ids(ids) => every.max(EACH * u32::try_from(ids.len()).unwrap_or(u32::MAX)),
            Subject::Page { .. } | Subject::OverviewOnly => every,
        }
    }

    async fn find(&self) -> Result<Vec<ReadInstance>, Problem> {
        let scope = &self.caller.scope;
        let _room = self.api.reserve().await?;
        match &self.subject {
            Subject::OverviewOnly => Ok(Vec::new()),
            Subject::Ids(ids) => {
                let mut found = Vec::new();
                for id in ids {
                    let instance = self.api.client.find(*id).await?;
                    found.extend(instance.filter(|it| scope.has(it)).map(read_instance));
                }
                Ok(found)
            }
            Subject::Page {
                filter,
                before,
                limit,
            } => {
                let wanted = PageRequest {
                    filter: self.api.filter(filter).await?,
                    before: *before,
                    limit: *limit,
                    values: false,
                };
                let found = self.api.page(scope, wanted, |_| true).await?;
                Ok(found.instances.into_iter().map(read_instance).collect())
            }
        }
    }

    /// Queues an event for each change since the last version sent.
    fn compare(&mut self, found: Vec<ReadInstance>) {
        #[derive(Serialize)]
        struct Gone {
            id: String,
        }
        let now: BTreeMap<_, _> = found
            .iter()
            .map(|(id, version, _)| (*id, version.clone()))
            .collect();
        let before = std::mem::replace(&mut self.sent, now);
        for id in before.keys().filter(|id| !self.sent.contains_key(id)) {
            self.waiting
                .extend(event("gone", &Gone { id: id.to_string() }));
        }
        for (id, version, instance) in found {
            if before.get(&id) != Some(&version) {
                self.waiting.extend(event("instance", &instance));
            }
        }
    }

    fn send_problem(&mut self, problem: Problem) {
        self.waiting
            .extend(event("problem", &ProblemBody::from(problem)));
    }
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
