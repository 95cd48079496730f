//! Metrics and spans of an engine, and the trace that an instance shares with all that it starts.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::through::{Break, Through};
use crate::support::{LONG, eventually, insert, on_both_stores};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outlast::engine::EngineBuilder;
use outlast::metrics::{ALL, MetricType, SLOTS_BUSY};
use outlast::prelude::*;
use outlast::store::{
    ClaimRequest, ClosePolicy, Inspect, Json, ListRequest, MachineVersion, NewInstance, NewWorker,
    Store, limits,
};
use outlast::trace::Propagator;
use outlast::{Client, Durable, InstanceId, New, Note, Workflow};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::Semaphore;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Record};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

on_both_stores!(
    every_metric_appears,
    spans_name_the_instance_and_carry_no_payloads,
    one_trace_covers_waits_children_and_instances_inserted_by_a_step,
    a_propagator_supplies_the_trace_and_gets_the_span_of_every_step,
);

/// A secret in every payload. It must not be in a span.
const SECRET: &str = "xyzzy-4711";

#[derive(Clone)]
struct Tour {
    started: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Tour {
    fn new() -> Tour {
        Tour {
            started: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }
}

#[steps]
enum Stop {
    Start {
        secret: String,
    },
    Waited {
        secret: String,
    },
    Joined {
        secret: String,
    },
    Child {
        secret: String,
    },
    Grandchild {
        secret: String,
    },
    Side {
        secret: String,
    },
    Sleep,
    Panic,
    Hold,
    /// Has a child that is terminated with it.
    Guide,
    /// Leads to itself, without end.
    Circle,
    End,
}

#[derive(Signal, Serialize, Deserialize)]
struct Hello {
    secret: String,
}

impl Machine for Tour {
    const NAME: &'static str = "tour";
    type State = Stop;
    type Output = String;

    async fn step(&self, state: Stop, cx: &Context) -> StepResult<Self> {
        let queue = || cx.queue().to_owned();
        match state {
            Stop::Start { secret } => wait_for::<Hello>().then(Stop::Waited { secret }),
            Stop::Waited { secret } => {
                let side = Stop::Side {
                    secret: secret.clone(),
                };
                let side = Tour::with(side).queue(queue()).key("side");
                cx.client().start(side).await?;
                let child = Stop::Child {
                    secret: secret.clone(),
                };
                fan_out([Tour::with(child).queue(queue())]).then(Stop::Joined { secret })
            }
            Stop::Child { secret } => {
                let grandchild = Stop::Grandchild {
                    secret: secret.clone(),
                };
                let grandchild = Tour::with(grandchild).queue(queue());
                fan_out([grandchild]).then(Stop::Joined { secret })
            }
            Stop::Joined { secret } | Stop::Side { secret } => done(secret),
            Stop::Grandchild { secret } => match cx.attempt() {
                0 => retry(Duration::ZERO, "once more"),
                _ => done(secret),
            },
            Stop::Sleep => sleep(Duration::from_millis(1)).then(Stop::End),
            Stop::Panic => panic!("as asked"),
            Stop::Hold => {
                self.started.add_permits(1);
                self.go.acquire().await?.forget();
                done(String::new())
            }
            Stop::Guide => {
                let guided = Stop::Start {
                    secret: SECRET.into(),
                };
                let guided = Tour::with(guided).queue(queue());
                let guided = guided.on_parent_close(ClosePolicy::Terminate);
                fan_out([guided]).then(Stop::End)
            }
            Stop::Circle => next(Stop::Circle),
            Stop::End => done(String::new()),
        }
    }
}

/// Awaits a future that is no call of the workflow, and is blocked.
struct Stuck;

impl Durable for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();
}

impl Workflow for Stuck {
    async fn run(&self, _: Flow, (): ()) -> FlowResult<()> {
        std::future::pending().await
    }
}

/// A tour that carries the secret everywhere.
fn tour(queue: &str) -> New<Tour> {
    let start = Stop::Start {
        secret: SECRET.into(),
    };
    Tour::with(start).queue(queue)
}

fn hello() -> Hello {
    Hello {
        secret: SECRET.into(),
    }
}

/// Each test has a queue of its own, because tests in one process share the recorder.
fn builder(store: impl Store + Inspect, machine: &Tour, queue: &str) -> EngineBuilder {
    let builder = Engine::builder(store).register(machine.clone());
    builder.queue(queue, 10)
}

/// One recorder for the process.
fn recorder() -> &'static Snapshotter {
    static SNAPSHOTTER: OnceLock<Snapshotter> = OnceLock::new();
    SNAPSHOTTER.get_or_init(|| {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        snapshotter
    })
}

async fn every_metric_appears<S: Store + Inspect + Clone>(store: S) {
    let recorder = recorder();
    let queue = support::unique_schema();
    let client = Client::new(store.clone());
    // Inserted before the gauges are set for the first time.
    insert(&client, Tour::with(Stop::End).queue(&queue)).await;
    leave_a_dead_worker(&client, &store, &queue).await;
    let breaks = AtomicBool::new(true);
    let broken = Through::new(store).breaking(move |verb| {
        let breaks = verb == "commit" && breaks.swap(false, Ordering::SeqCst);
        breaks.then_some(Break::Before)
    });
    let machine = Tour::new();
    let engine = builder(broken, &machine, &queue).register(Stuck);
    let engine = engine.lease(limits::LEASE_MIN * 5);
    let engine = engine.start().await.unwrap();

    let toured = insert(engine.client(), tour(&queue)).await;
    toured.signal(hello()).await.unwrap();
    toured.output().timeout(LONG).await.unwrap();
    for stop in [Stop::Sleep, Stop::Panic] {
        let handle = insert(engine.client(), Tour::with(stop).queue(&queue)).await;
        handle.ended().timeout(LONG).await.unwrap();
    }
    // A claim that is lost while its step runs. Then one that this build cannot run.
    let held = insert(engine.client(), Tour::with(Stop::Hold).queue(&queue)).await;
    machine.started.acquire().await.unwrap().forget();
    held.terminate(Note::by("the test")).await.unwrap();
    machine.go.add_permits(1);
    let guide = insert(engine.client(), Tour::with(Stop::Guide).queue(&queue)).await;
    guide.settled().timeout(LONG).await.unwrap();
    guide.terminate(Note::by("the test")).await.unwrap();
    insert(engine.client(), Tour::with(Stop::Circle).queue(&queue)).await;
    let stuck = engine.start(Stuck::with(()).queue(&queue));
    stuck.await.unwrap();
    let unknown = NewInstance::new("tour", "unheard_of", Json::null()).queue(&queue);
    let admin = engine.client().admin();
    admin.insert_rows(vec![unknown]).await.unwrap();

    let mut seen = Seen::default();
    eventually("every metric is there", async || {
        seen.add_snapshot(recorder, &queue);
        ALL.iter().all(|(name, ..)| seen.kinds.contains_key(*name))
    })
    .await;
    for (name, kind, _) in ALL {
        let expected = match kind {
            MetricType::Counter => MetricKind::Counter,
            MetricType::Gauge => MetricKind::Gauge,
            MetricType::Histogram => MetricKind::Histogram,
        };
        assert_eq!(seen.kinds[name], expected, "{name}");
    }
    let listed: BTreeSet<_> = ALL.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(seen.kinds.keys().cloned().collect::<BTreeSet<_>>(), listed);
    engine.shutdown().await.unwrap();
    seen.add_snapshot(recorder, &queue);
    assert_eq!(seen.slots_busy, 0.0, "every slot is free again");
}

/// The metrics of a recorder so far. Each snapshot resets the recorder, so the values are summed.
#[derive(Default)]
struct Seen {
    kinds: BTreeMap<String, MetricKind>,
    slots_busy: f64,
}

impl Seen {
    fn add_snapshot(&mut self, recorder: &Snapshotter, queue: &str) {
        for (key, _, _, value) in recorder.snapshot().into_vec() {
            let name = key.key().name();
            let mut labels = key.key().labels();
            let of_queue = labels.any(|label| label.value() == queue);
            match value {
                DebugValue::Histogram(values) if values.is_empty() => continue,
                DebugValue::Gauge(busy) if name == SLOTS_BUSY && of_queue => {
                    self.slots_busy += busy.into_inner();
                }
                DebugValue::Counter(_) | DebugValue::Gauge(_) | DebugValue::Histogram(_) => {}
            }
            self.kinds.insert(name.to_owned(), key.kind());
        }
    }
}

/// Takes a claim for a worker that never renews its lease.
async fn leave_a_dead_worker<S: Store>(client: &Client, store: &S, queue: &str) {
    insert(client, Tour::with(Stop::End).queue(queue)).await;
    let dead = NewWorker {
        name: "dead".into(),
        host: "nowhere".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec![queue.to_owned()],
        lease: limits::LEASE_MIN,
    };
    let request = ClaimRequest {
        worker: store.register(dead).await.unwrap(),
        queue: queue.to_owned(),
        machines: [MachineVersion::new("tour", 1)].into(),
        max: 1,
    };
    assert_eq!(store.claim(request).await.unwrap().claims.len(), 1);
}

#[test]
fn the_table_in_the_docs_has_every_metric_in_its_order_and_no_other() {
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next().unwrap().trim_end_matches('`').to_owned();
            (name, cells.next().unwrap().to_owned())
        })
        .collect();
    let all = ALL.map(|(name, kind, _)| {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        (name.to_owned(), kind.to_owned())
    });
    assert_eq!(documented, all);
}

/// A span or an event.
#[derive(Clone, Debug, Default)]
struct Sight {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Sight {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

type Sights = Arc<Mutex<Vec<Sight>>>;

/// Keeps every span and event of the process, of any level.
struct Watcher(Sights);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Watcher {
    fn on_new_span(
        &self,
        attributes: &Attributes<'_>,
        _: &tracing::span::Id,
        _: LayerContext<'_, S>,
    ) {
        let mut sight = Sight {
            name: attributes.metadata().name(),
            ..Sight::default()
        };
        attributes.record(&mut sight);
        self.0.lock().unwrap().push(sight);
    }

    fn on_record(&self, id: &tracing::span::Id, values: &Record<'_>, cx: LayerContext<'_, S>) {
        let mut sight = Sight {
            name: cx.span(id).unwrap().name(),
            ..Sight::default()
        };
        values.record(&mut sight);
        self.0.lock().unwrap().push(sight);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let mut sight = Sight {
            name: "event",
            ..Sight::default()
        };
        event.record(&mut sight);
        self.0.lock().unwrap().push(sight);
    }
}

/// One watcher for the process.
fn watcher() -> &'static Sights {
    static SIGHTS: OnceLock<Sights> = OnceLock::new();
    SIGHTS.get_or_init(|| {
        let sights = Sights::default();
        let subscriber = tracing_subscriber::registry().with(Watcher(sights.clone()));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        sights
    })
}

async fn spans_name_the_instance_and_carry_no_payloads<S: Store + Inspect + Clone>(store: S) {
    let sights = watcher();
    let queue = support::unique_schema();
    let engine = builder(store, &Tour::new(), &queue).start().await.unwrap();
    let handle = insert(engine.client(), tour(&queue).trace("00-seen-here-01")).await;
    handle.signal(hello()).dedup("once").await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), SECRET);
    let worker = engine.client().admin().workers().await.unwrap()[0]
        .id
        .to_string();
    engine.shutdown().await.unwrap();

    let sights = sights.lock().unwrap().clone();
    let id = handle.id().to_string();
    let of = |name: &str, field: &str, value: &str| {
        let of = sights.iter().filter(|sight| {
            sight.name == name && sight.fields.get(field).is_some_and(|field| field == value)
        });
        of.cloned().collect::<Vec<_>>()
    };
    let claims = of("claim", "queue", &queue);
    assert!(!claims.is_empty());
    assert!(claims.iter().all(|claim| claim.fields["worker"] == worker));
    assert!(!of("claim", "claimed", "1").is_empty());
    assert!(!of("event", "instance", &id).is_empty());
    let steps = of("step", "trace", "00-seen-here-01");
    let own: BTreeSet<_> = steps
        .iter()
        .filter(|step| step.fields["instance"] == id)
        .map(|step| step.fields["step"].as_str())
        .collect();
    assert_eq!(own, ["start", "waited", "joined"].into());
    for field in ["machine", "version", "attempt", "revision"] {
        assert!(steps.iter().all(|step| step.fields.contains_key(field)));
    }
    let commits = of("commit", "instance", &id);
    let outcomes: BTreeSet<_> = commits
        .iter()
        .map(|commit| &*commit.fields["outcome"])
        .collect();
    assert!(outcomes.is_superset(&["wait", "fan_out", "done"].into()));
    assert!(
        commits
            .iter()
            .all(|commit| commit.fields.contains_key("revision"))
    );
    assert!(sights.iter().any(|sight| sight.name == "commit_batch"));

    let leak = sights.iter().find(|sight| {
        let mut values = sight.fields.values();
        values.any(|value| value.contains(SECRET))
    });
    assert!(leak.is_none(), "{leak:?}");
}

/// The traces of all instances.
async fn traces(client: &Client) -> BTreeMap<InstanceId, Option<String>> {
    let request = ListRequest {
        limit: 100,
        ..ListRequest::default()
    };
    let instances = client
        .admin()
        .list(request)
        .await
        .unwrap()
        .instances
        .into_iter();
    instances
        .map(|instance| (instance.id, instance.trace))
        .collect()
}

async fn one_trace_covers_waits_children_and_instances_inserted_by_a_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let sights = watcher();
    let queue = support::unique_schema();
    let engine = builder(store, &Tour::new(), &queue).start().await.unwrap();
    let handle = insert(engine.client(), tour(&queue)).await;
    handle.signal(hello()).await.unwrap();
    handle.output().timeout(LONG).await.unwrap();
    eventually("the instance inserted by the step has ended", async || {
        let side = engine.client().find(Tour::key("side")).await.unwrap();
        side.is_some_and(|side| side.finished_at.is_some())
    })
    .await;

    let traces = traces(engine.client()).await;
    let trace = traces[&handle.id().get()]
        .clone()
        .expect("the instance has a trace");
    assert_eq!(
        traces.len(),
        4,
        "the tour, its child, its grandchild and the inserted instance"
    );
    assert!(traces.values().all(|other| other.as_ref() == Some(&trace)));
    let steps = sights.lock().unwrap().clone();
    let steps: BTreeSet<_> = steps
        .iter()
        .filter(|sight| sight.name == "step" && sight.fields.get("trace") == Some(&trace))
        .map(|step| step.fields["step"].clone())
        .collect();
    let expected = ["start", "waited", "joined", "child", "grandchild", "side"];
    assert_eq!(steps, expected.map(str::to_owned).into());
    // Another instance has another trace.
    let other = insert(engine.client(), Tour::with(Stop::End).queue(&queue)).await;
    let other = other.instance().await.unwrap();
    assert_ne!(other.trace, Some(trace));
    engine.shutdown().await.unwrap();
}

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The propagator of a caller that is in a trace. It notes the spans that it is given.
#[derive(Clone, Default)]
struct Noting {
    attached: Arc<Mutex<Vec<(bool, String)>>>,
}

impl Propagator for Noting {
    fn current(&self) -> Option<String> {
        Some(CALLER.into())
    }

    fn attach(&self, span: &tracing::Span, traceparent: &str) {
        let is_step = span.metadata().is_some_and(|span| span.name() == "step");
        let mut attached = self.attached.lock().unwrap();
        attached.push((is_step, traceparent.to_owned()));
    }
}

async fn a_propagator_supplies_the_trace_and_gets_the_span_of_every_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    watcher();
    let queue = support::unique_schema();
    let noting = Noting::default();
    let engine = builder(store.clone(), &Tour::new(), &queue).propagator(noting.clone());
    let engine = engine.start().await.unwrap();
    let sent = insert(engine.client(), Tour::with(Stop::Sleep).queue(&queue)).await;
    sent.output().timeout(LONG).await.unwrap();
    assert_eq!(
        traces(engine.client()).await[&sent.id().get()].as_deref(),
        Some(CALLER)
    );
    let attached = std::mem::take(&mut *noting.attached.lock().unwrap());
    assert_eq!(
        attached,
        [(true, CALLER.to_owned()), (true, CALLER.to_owned())]
    );

    // A client without a propagator, and an insert that names its own trace.
    let client = Client::new(store.clone());
    let own = insert(&client, Tour::with(Stop::End).queue(&queue)).await;
    let traced = Tour::with(Stop::End).queue(&queue).trace("00-told-so-01");
    let traced = insert(&Client::new(store).propagator(noting.clone()), traced).await;
    for handle in [&own, &traced] {
        let handle = engine.handle(handle).await.unwrap();
        handle.output().timeout(LONG).await.unwrap();
    }
    let traces = traces(engine.client()).await;
    assert_ne!(traces[&own.id().get()].as_deref(), Some(CALLER));
    assert_eq!(traces[&traced.id().get()].as_deref(), Some("00-told-so-01"));
    engine.shutdown().await.unwrap();
}
