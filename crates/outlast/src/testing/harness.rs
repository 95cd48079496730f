//! A harness: runs machines in the calling task, at a time that the test sets.

use super::expect::Expected;
use super::run_report::RunReport;
use crate::client::{Client, Handle};
use crate::codec::Codec;
use crate::definition::{Address, Durable, New, Register};
use crate::engine::{
    Cascader, ClaimEnd, Committer, Definitions, Executor, Fault, Heartbeat, Node, Picker, Point,
    QueueSlots, Reaper, Roles, Settings, StepPoint, Timers, assemble,
};
use crate::error::{LookupError, SetupError};
use outlast_core::{
    Claim, Error, Inspect, InstanceId, ManualClock, QueueSummary, Store, Timestamp, limits,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// Steps of all instances after which a run counts as endless.
const ALL_STEPS_MAX: u32 = 100_000;

/// Steps of one instance without a change of the time, after which it counts as looping. Most
/// tests need fewer.
const STEPS_MAX: u32 = 1_000;

/// Changes of the time after which a run counts as endless.
const JUMPS_MAX: u32 = 1_000;

/// Runs machines, jobs and workflows in the calling task.
///
/// It starts and finds instances as an [`Engine`](crate::Engine) does.
pub struct Harness {
    node: Arc<Node>,
    clock: ManualClock,
    committer: Committer,
    executor: Arc<Executor>,
    heartbeat: Heartbeat,
    reaper: Reaper,
    timers: Timers,
    cascader: Cascader,
    pickers: BTreeMap<String, Picker>,
    watch: StepObserver,
    jumps_max: u32,
}

/// Observes every step of a harness, and holds the requested crashes.
#[derive(Clone, Default)]
struct StepObserver(Arc<Mutex<Observations>>);

#[derive(Default)]
struct Observations {
    tally: RunReport,
    crashes: Vec<Crash>,
    /// The steps of each instance since the last change of the time.
    steps: HashMap<InstanceId, u32>,
    steps_max: u32,
    /// A description of the instance that ran last.
    last: String,
}

struct Crash {
    /// The machine and the step; `None` matches any.
    whose: Option<(&'static str, String)>,
    point: Point,
    /// How often it still passes before the crash.
    passes: u32,
}

/// Builds a harness; made by [`Harness::builder`] and [`Harness::on`].
#[must_use = "build it"]
pub struct HarnessBuilder {
    store: Result<Client, Error>,
    clock: ManualClock,
    definitions: Definitions,
    run_ahead: u32,
    jumps_max: u32,
    steps_max: u32,
}

impl Harness {
    /// Creates a harness on a new SQLite database in memory.
    #[cfg(feature = "sqlite")]
    pub fn builder() -> HarnessBuilder {
        let clock = ManualClock::default();
        let store = crate::Sqlite::options().clock(clock.clone()).in_memory();
        HarnessBuilder::new(store.map(Client::new), clock)
    }

    /// Creates a harness on this store, which must take its time from `clock`.
    pub fn on(store: impl Store + Inspect, clock: ManualClock) -> HarnessBuilder {
        HarnessBuilder::new(Ok(Client::new(store)), clock)
    }

    /// Returns the client of the harness.
    pub fn client(&self) -> &Client {
        &self.node.client
    }

    /// Starts an instance: [`Client::start`].
    pub async fn start<D: Durable>(&self, new: New<D>) -> crate::Result<Handle<D>> {
        Ok(self.node.client.start(new).await?)
    }

    /// Returns the instance of `D` with this id or key: [`Client::handle`].
    pub async fn handle<D: Durable>(
        &self,
        address: impl Into<Address<D>>,
    ) -> Result<Handle<D>, LookupError> {
        self.node.client.handle(address).await
    }

    /// Runs every instance that can run now, until none can, and reports what ran.
    ///
    /// Cascades run before anything else. The time does not change: a delayed retry and a wait
    /// stay parked.
    ///
    /// # Panics
    ///
    /// When the store fails, or the run does not come to an end. That is when one instance has run
    /// [`steps_max`](HarnessBuilder::steps_max) steps without a change of the time, or all
    /// instances 100,000.
    pub async fn run(&mut self) -> RunReport {
        self.begin_run();
        self.run_now().await;
        self.watched().tally
    }

    /// Runs like [`run`](Harness::run), and moves the time forward until nothing waits for it.
    ///
    /// Retries, delayed starts, deadlines and timeouts of instances come at once.
    ///
    /// # Panics
    ///
    /// When the store fails, or the run does not come to an end: as for [`run`](Harness::run), or
    /// when the time was moved [`jumps_max`](HarnessBuilder::jumps_max) times.
    pub async fn run_all(&mut self) -> RunReport {
        self.begin_run();
        for _ in 0..self.jumps_max {
            self.run_now().await;
            match self.next_due_in().await {
                Some(next) => self.move_time(next),
                None => return self.watched().tally,
            }
        }
        panic!(
            "time was moved {} times and there is no end: a machine waits again and again; the last that ran was {}",
            self.jumps_max,
            self.watched().last
        );
    }

    fn begin_run(&mut self) {
        let mut watched = self.watched();
        watched.tally = RunReport::default();
        watched.steps.clear();
    }

    fn move_time(&mut self, by: Duration) {
        self.clock.advance(by);
        self.watched().steps.clear();
    }

    /// Moves the time forward, wakes the instances that wait until then, and fails those that have
    /// [timed out](crate::New::timeout) then.
    ///
    /// None runs before the next [`run`](Harness::run).
    pub async fn advance(&mut self, by: Duration) {
        self.move_time(by);
        self.fire().await;
    }

    /// Moves the time to a moment, wakes the instances that wait until then, and fails those that
    /// have [timed out](crate::New::timeout) then.
    pub async fn set_time(&mut self, now: Timestamp) {
        self.clock.set(now);
        self.watched().steps.clear();
        self.fire().await;
    }

    /// Returns the time of the harness.
    pub fn time(&self) -> Timestamp {
        outlast_core::Clock::now(&self.clock)
    }

    /// Moves the time to the deadline of this instance's wait or join, and wakes it.
    ///
    /// # Panics
    ///
    /// When it has no deadline.
    pub async fn fire_deadline<D: Durable>(&mut self, of: impl Into<Address<D>>) {
        let expected = self.expect(of).await;
        let Some(deadline) = expected.instance().await_deadline else {
            panic!("it has no deadline to wait for: {expected:?}");
        };
        self.set_time(deadline.max(self.time())).await;
    }

    /// Crashes the worker the next time a step of `D` reaches this point.
    ///
    /// Another worker takes over, as after a reap: the step runs again, with one more attempt.
    pub fn crash<D: Durable>(&mut self, step: impl Into<String>, point: Point) {
        self.crash_at::<D>(step, point, 1);
    }

    /// Like [`crash`](Harness::crash), at the `nth` time, counted from 1.
    ///
    /// A workflow has one step, `run`, which reaches its commit once for each commit.
    pub fn crash_at<D: Durable>(&mut self, step: impl Into<String>, point: Point, nth: u32) {
        self.die(Some((D::NAME, step.into())), point, nth);
    }

    /// Like [`crash_at`](Harness::crash_at), for any machine and step.
    ///
    /// With the [`steps`](RunReport::steps) of an earlier run without crashes, a test can crash a
    /// worker at every edge of every commit.
    pub fn crash_any(&mut self, point: Point, nth: u32) {
        self.die(None, point, nth);
    }

    fn die(&mut self, whose: Option<(&'static str, String)>, point: Point, nth: u32) {
        self.watched().crashes.push(Crash {
            whose,
            point,
            passes: nth.saturating_sub(1),
        });
    }

    /// Reads an instance, to compare it with expectations.
    ///
    /// # Panics
    ///
    /// When there is no such instance.
    pub async fn expect<D: Durable>(&self, of: impl Into<Address<D>>) -> Expected<D> {
        let target = of.into().target();
        let found = stored(self.node.client.find(target.clone()).await);
        let Some(instance) = found else {
            panic!("there is no instance {target:?}");
        };
        Expected::new(instance)
    }

    async fn run_now(&mut self) {
        loop {
            stored(self.heartbeat.run_once().await);
            self.fire().await;
            self.cascade().await;
            let queues = stored(self.node.store().queues().await);
            let mut has_run = false;
            for queue in queues {
                has_run |= self.run_queue(&queue).await;
            }
            if !has_run {
                return;
            }
        }
    }

    /// Runs the due instances of one queue, one claim after another.
    async fn run_queue(&mut self, queue: &QueueSummary) -> bool {
        let mut has_run = false;
        loop {
            let picked = stored(self.picker(&queue.name).run_once().await);
            if picked.picks.is_empty() {
                return has_run;
            }
            for pick in picked.picks {
                has_run = true;
                let committer = &self.committer;
                let commit = async { while committer.run_once().await {} };
                let ran = tokio::select! {
                    ran = self.executor.run(pick) => ran,
                    () = commit => unreachable!("the executor has an outbox"),
                };
                if ran == ClaimEnd::Crashed {
                    self.take_over().await;
                }
                let watched = self.watched();
                let (steps, last) = (watched.tally.steps, &watched.last);
                assert!(
                    steps < ALL_STEPS_MAX,
                    "{steps} steps have run and there is no end; the last was {last}"
                );
            }
        }
    }

    /// Replaces a dead worker: reaps its claims and registers another one.
    async fn take_over(&mut self) {
        if let Some(worker) = self.node.worker() {
            stored(self.node.store().deregister(worker).await);
        }
        while stored(self.reaper.run_once().await).more {}
        stored(self.heartbeat.register().await);
    }

    async fn fire(&mut self) {
        loop {
            let fired = stored(self.timers.run_once().await);
            let woken = fired.woken_instances.len();
            self.watched().tally.timeouts += u32::try_from(woken).unwrap_or(u32::MAX);
            let mut next_timeout_in = fired.next_timeout_in;
            while next_timeout_in == Some(Duration::ZERO) {
                next_timeout_in = stored(self.timers.time_out_once().await).next_timeout_in;
            }
            // A deadline that has passed need not wake an instance.
            if woken == 0 && fired.next_due_in.is_none_or(|next| !next.is_zero()) {
                return;
            }
        }
    }

    async fn cascade(&self) {
        while stored(self.cascader.run_once().await).more {}
    }

    /// Returns the time until any instance becomes due.
    async fn next_due_in(&mut self) -> Option<Duration> {
        let fired = stored(self.timers.run_once().await);
        let mut next = [fired.next_due_in, fired.next_timeout_in]
            .into_iter()
            .flatten()
            .min();
        for queue in stored(self.node.store().queues().await) {
            let picked = stored(self.picker(&queue.name).run_once().await);
            next = [next, picked.look_again_in].into_iter().flatten().min();
        }
        next
    }

    /// Returns a picker that claims one instance at a time, so that a run has one order.
    fn picker(&mut self, queue: &str) -> &Picker {
        let (node, executor) = (&self.node, &self.executor);
        self.pickers.entry(queue.to_owned()).or_insert_with(|| {
            let alarm = node.client.hub.queue_alarm(queue);
            let lane = Arc::new(QueueSlots::new(queue, 1, 0, alarm));
            Picker::new(node.clone(), lane, executor.clone(), TaskTracker::new())
        })
    }

    fn watched(&self) -> MutexGuard<'_, Observations> {
        self.watch.lock()
    }
}

impl HarnessBuilder {
    fn new(store: Result<Client, Error>, clock: ManualClock) -> HarnessBuilder {
        HarnessBuilder {
            store,
            clock,
            definitions: Definitions::default(),
            run_ahead: Settings::default().run_ahead,
            jumps_max: JUMPS_MAX,
            steps_max: STEPS_MAX,
        }
    }

    /// Runs this machine, job or workflow.
    pub fn register<K>(mut self, definition: impl Register<K>) -> HarnessBuilder {
        self.definitions.register(definition);
        self
    }

    /// Provides a value that code takes by its type, as [`Data<T>`](crate::Data).
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> HarnessBuilder {
        self.definitions.provide(value);
        self
    }

    /// Sets the codec; as [`EngineBuilder::codec`](crate::engine::EngineBuilder::codec).
    pub fn codec(mut self, codec: impl Codec) -> HarnessBuilder {
        self.store = self.store.map(|client| client.codec(codec));
        self
    }

    /// Sets how many steps of one instance run in a row.
    ///
    /// As [`EngineBuilder::run_ahead`](crate::engine::EngineBuilder::run_ahead).
    pub fn run_ahead(mut self, steps: u32) -> HarnessBuilder {
        self.run_ahead = steps;
        self
    }

    /// Sets how often [`run_all`](Harness::run_all) may move the time. Default: 1,000.
    ///
    /// A run with more counts as endless.
    pub fn jumps_max(mut self, jumps: u32) -> HarnessBuilder {
        self.jumps_max = jumps;
        self
    }

    /// Sets how many steps one instance may run without a change of the time. Default: 1,000.
    ///
    /// An instance with more counts as looping. Each commit of a workflow is such a step.
    pub fn steps_max(mut self, steps: u32) -> HarnessBuilder {
        self.steps_max = steps;
        self
    }

    /// Checks the machines and registers the first worker.
    pub async fn build(self) -> Result<Harness, SetupError> {
        let settings = Settings {
            name: "harness".into(),
            // The harness adds further queues when instances appear in them.
            queues: BTreeMap::from([("default".into(), 1)]),
            roles: Roles::WORKER,
            lease: limits::LEASE_MAX,
            run_ahead: self.run_ahead,
            ..Settings::default()
        };
        let watch = StepObserver::default();
        watch.lock().steps_max = self.steps_max;
        let node = assemble(self.store?, settings, self.definitions, Some(watch.fault()))?;
        let node = Arc::new(node);
        let (committer, outbox) = Committer::new(node.clone());
        let harness = Harness {
            clock: self.clock,
            committer,
            executor: Arc::new(Executor::new(node.clone(), outbox)),
            heartbeat: Heartbeat::new(node.clone()),
            reaper: Reaper::new(node.clone()),
            timers: Timers::new(node.clone()),
            cascader: Cascader::new(node.clone()),
            pickers: BTreeMap::new(),
            watch,
            jumps_max: self.jumps_max,
            node,
        };
        harness.heartbeat.register().await?;
        Ok(harness)
    }
}

impl StepObserver {
    fn fault(&self) -> Fault {
        let watch = self.clone();
        Arc::new(move |moment| {
            let heard = watch.lock().hear(moment);
            match heard {
                Ok(dies) => dies,
                Err(circles) => panic!("{circles}"),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observations {
    /// Counts an outcome, and answers whether the worker crashes here.
    ///
    /// The error names an instance that loops.
    fn hear(&mut self, moment: &StepPoint<'_>) -> Result<bool, String> {
        if let (Point::AfterCommit, Some(outcome)) = (moment.point, moment.outcome) {
            self.tally.count(outcome);
            self.count_step(moment.claim)?;
        }
        let mut asked_for = None;
        for (index, crash) in self.crashes.iter_mut().enumerate() {
            if !crash.is_at(moment) {
                continue;
            }
            match crash.passes.checked_sub(1) {
                Some(left) => crash.passes = left,
                None => asked_for = asked_for.or(Some(index)),
            }
        }
        if let Some(index) = asked_for {
            self.crashes.remove(index);
            self.tally.crashes += 1;
        }
        Ok(asked_for.is_some())
    }

    fn count_step(&mut self, claim: &Claim) -> Result<(), String> {
        let Claim {
            id, machine, step, ..
        } = claim;
        self.last = format!("instance {id} of {machine} at step {step}");
        let steps = self.steps.entry(*id).or_default();
        *steps += 1;
        match *steps > self.steps_max {
            true => Err(format!(
                "instance {id} of {machine} goes in circles: it has run {} steps while time stood still, the last of them \
                 {step}; a machine that needs more is tested with HarnessBuilder::steps_max",
                self.steps_max
            )),
            false => Ok(()),
        }
    }
}

impl Crash {
    fn is_at(&self, moment: &StepPoint<'_>) -> bool {
        let is_meant = self.whose.as_ref().is_none_or(|(machine, step)| {
            *machine == moment.claim.machine && *step == moment.claim.step
        });
        is_meant && self.point == moment.point
    }
}

/// Unwraps: a test cannot continue when its store fails.
fn stored<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(answer) => answer,
        Err(error) => panic!("the harness cannot use its store: {error}"),
    }
}
