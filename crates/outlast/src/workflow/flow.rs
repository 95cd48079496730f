//! What the code of a workflow calls.

use super::call::{Activity, Call, Child, Parts, Plain};
use super::children::ChildRef;
use super::group::{All, Group};
use super::replay::events::{CallKind, Failed};
use super::replay::runtime::{Ask, ChildCall, Runtime};
use super::select::{Choices, Select, Within};
use super::waiting::Work;
use super::{FlowError, FlowResult, Run, Workflow};
use crate::client::Client;
use crate::machine::{Job, Machine, New, RetryPolicy, Signal};
use outlast_core::{InstanceId, Invalid, Json, NewInstance, Timestamp, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// What the code of a workflow calls: each call is durable.
///
/// | to | write |
/// |---|---|
/// | run something here, and record its result | [`step`](Flow::step) |
/// | run a job, with its own retries | [`activity`](Flow::activity) |
/// | start another workflow, or a machine, and wait for it | [`child`](Flow::child), [`machine`](Flow::machine) |
/// | start one and wait for it later | [`start_child`](Flow::start_child) |
/// | wait for several | [`all`](Flow::all) |
/// | wait for the first of several | [`select`](Flow::select) |
/// | wait for a while, or no longer than a while | [`sleep`](Flow::sleep), [`deadline`](Flow::deadline) |
/// | wait for a signal | [`signal`](Flow::signal) |
/// | know the time, draw by chance | [`now`](Flow::now), [`random`](Flow::random), [`uuid`](Flow::uuid) |
/// | change the code under running instances | [`version`](Flow::version) |
/// | begin anew | [`continue_as_new`](Flow::continue_as_new) |
///
/// Clones are cheap and are the same flow.
#[derive(Clone)]
pub struct Flow(Arc<Shared>);

struct Shared {
    runtime: Mutex<Runtime>,
    /// For what is sent to children; none where nothing may be sent.
    client: Option<Client>,
}

impl Flow {
    pub(super) fn new(runtime: Runtime, client: Option<Client>) -> Flow {
        let runtime = Mutex::new(runtime);
        Flow(Arc::new(Shared { runtime, client }))
    }

    /// What it guards is whole between any two statements, so a panic elsewhere leaves it usable.
    pub(super) fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.0
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.0.client.as_ref()
    }

    /// Runs the closure here and records what it came to before the workflow goes on. It may run again when the worker
    /// dies before that, so its effects must bear repeating; [`uuid`](Flow::uuid), drawn before, is a key for that.
    ///
    /// An error, a panic and a time that is up are recorded too, and are the error of this call. What is to be tried again is an
    /// [activity](Flow::activity). Inside the closure no calls can be made.
    pub fn step<'a, T, E, F, Fut>(&self, name: &str, closure: F) -> Call<'a, T>
    where
        T: Serialize + DeserializeOwned + 'static,
        E: Into<StepFailure>,
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let work = Work::new(move || {
            let code = closure();
            async move {
                let result = code.await.map_err(|error| Failed {
                    kind: "error".into(),
                    error: limits::clean_error(&error.into().0),
                })?;
                Json::of(&result).map_err(|invalid| Failed {
                    kind: "invalid".into(),
                    error: format!("its result cannot be stored: {invalid}"),
                })
            }
        });
        self.work(CallKind::Step, name, work)
    }

    pub(super) fn work<'a, T>(&self, kind: CallKind, name: &str, work: Work<'a>) -> Call<'a, T> {
        let parts = limits::check_name("step", name).map(|()| Parts {
            kind,
            name: name.to_owned(),
            ask: Ask::Work,
            work: Some(work),
        });
        Call::new(self, parts)
    }

    /// Runs a job as a child on its own queue, with its own retries, limit of time and backoff, fixed when it is scheduled.
    pub fn activity<J: Job>(&self, job: J, args: J::Args) -> Call<'static, J::Output, Activity> {
        let _ = job;
        let policy = RetryPolicy::of::<J>();
        let row = NewInstance::try_from(New::<J>(args));
        self.instance(CallKind::Activity, J::NAME, row, Some(policy))
    }

    /// Starts another workflow as a child and waits for it.
    pub fn child<W: Workflow>(&self, input: W::Input) -> Call<'static, W::Output, Child> {
        self.machine(Run::<W>(input))
    }

    /// Starts a machine as a child and waits for it: `flow.machine(New::<LineItem>(..))`.
    pub fn machine<M: Machine>(&self, new: New<M>) -> Call<'static, M::Output, Child> {
        self.instance(CallKind::Child, M::NAME, NewInstance::try_from(new), None)
    }

    /// Starts another workflow as a child, and goes on with a handle to it once that is committed.
    pub fn start_child<W: Workflow>(&self, input: W::Input) -> super::Starting<W::Output> {
        self.child::<W>(input).start()
    }

    fn instance<T, K>(
        &self,
        kind: CallKind,
        name: &str,
        row: Result<NewInstance, Invalid>,
        policy: Option<RetryPolicy>,
    ) -> Call<'static, T, K> {
        let parts = row.map(|row| Parts {
            kind,
            name: name.to_owned(),
            ask: Ask::Child(Box::new(ChildCall::new(row, policy))),
            work: None,
        });
        Call::new(self, parts)
    }

    /// Waits for all of a group: its calls are scheduled in one commit, and their results come in the shape of the group. The first that
    /// fails is the failure of the group, however many still run; the others go on, unless [`cancel_rest`](All::cancel_rest) is said.
    ///
    /// While a [step](Flow::step) of the group runs, signals and ends of children are not heard; they are when it is over.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # struct Pack; impl Job for Pack { const NAME: &'static str = "pack"; type Args = u32; type Output = String;
    /// # async fn perform(&self, item: u32, _: &Context) -> Result<String, JobError> { Ok(String::new()) } }
    /// # struct Label; impl Workflow for Label { const NAME: &'static str = "label"; type Input = u32; type Output = u64;
    /// # async fn run(&self, _: Flow, _: u32) -> FlowResult<u64> { Ok(1) } }
    /// # async fn example(flow: Flow, items: Vec<u32>) -> FlowResult<(u64, Vec<String>)> {
    /// let (label, parcels) = flow
    ///     .all((
    ///         flow.child::<Label>(7),
    ///         items.into_iter().map(|item| flow.activity(Pack, item)).collect::<Vec<_>>(),
    ///     ))
    ///     .await?;
    /// # Ok((label, parcels)) }
    /// ```
    pub fn all<G: Group>(&self, group: G) -> All<G> {
        All::new(self, group)
    }

    /// Waits for the first of several to end, well or badly. The others go on, unless
    /// [`cancel_rest`](Select::cancel_rest) is said; a signal that was waited for stays in the inbox.
    ///
    /// A [step](Flow::step) that is not the first is dropped where it awaits. A timer interrupts it; signals and ends of
    /// children are heard when no step runs.
    pub fn select<C: Choices>(&self, choices: C) -> Select<C> {
        Select::new(self, choices)
    }

    /// Waits for a while, by the database's clock.
    pub fn sleep(&self, duration: Duration) -> Call<'static, (), Plain> {
        let parts = limits::check_delay("timer", duration).map(|()| Parts {
            kind: CallKind::Timer,
            name: String::new(),
            ask: Ask::Timer(duration),
            work: None,
        });
        Call::new(self, parts)
    }

    /// Waits for a call or a group no longer than this: `None` when the time is up first. What was asked for goes on, unless
    /// [`cancel_rest`](Within::cancel_rest) is said, here or [of the group](All::cancel_rest).
    pub fn deadline<G: Group>(&self, after: Duration, group: G) -> Within<G> {
        Within::new(self, after, group)
    }

    /// Waits for the next signal of this type, in the order of arrival. One that came before is not lost.
    pub fn signal<S: Signal>(&self) -> Call<'static, S, Plain> {
        let parts = limits::check_name("signal", S::NAME).map(|()| Parts {
            kind: CallKind::Signal,
            name: S::NAME.to_owned(),
            ask: Ask::Signal,
            work: None,
        });
        Call::new(self, parts)
    }

    /// The time of the last thing that happened to this workflow, by the database's clock. It is the same whenever the
    /// workflow is run again.
    pub fn now(&self) -> SystemTime {
        self.timestamp().into()
    }

    /// As [`now`](Flow::now), as it is stored.
    pub fn timestamp(&self) -> Timestamp {
        self.lock().tell_now()
    }

    /// A number by chance, the same whenever the workflow is run again; inside a step, another one each time.
    pub fn random(&self) -> u64 {
        self.lock().draw()
    }

    /// A UUID (version 4) by chance, the same whenever the workflow is run again: a key for effects that must not
    /// happen twice. It is drawn before the step that needs it; inside a step it is another one each time.
    pub fn uuid(&self) -> String {
        let (high, low) = {
            let mut runtime = self.lock();
            (runtime.draw(), runtime.draw())
        };
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0b11 << 62) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Which form of a change this run has: `min` when it came past here before there was the change, `max` when it comes here
    /// first now. The answer is recorded and never changes for this run.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # async fn example(flow: Flow) -> FlowResult<()> {
    /// if flow.version("ask the bank first", 0, 1) >= 1 {
    ///     // What new runs do.
    /// }
    /// # Ok(()) }
    /// ```
    pub fn version(&self, change: &str, min: i32, max: i32) -> i32 {
        self.lock().version(change, min, max)
    }

    /// JoinSets this run and begins another one of the same instance with this input and an empty history: return what it
    /// gives. Children and signals stay; no policy is applied.
    pub fn continue_as_new<I: Serialize, T>(&self, input: I) -> FlowResult<T> {
        let input =
            Json::of(&input).map_err(|invalid| FlowError::invalid(invalid.within("input")))?;
        Err(FlowError::renewal(input))
    }

    /// An error of this workflow's own, for people to read.
    pub fn fail(&self, reason: impl Display) -> FlowError {
        FlowError::new(reason.to_string())
    }

    /// Runs code whose calls go on working when the workflow is to end: for cleaning up.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # async fn work(_: &Flow) -> FlowResult<()> { Ok(()) }
    /// # async fn undo() -> std::io::Result<()> { Ok(()) }
    /// # async fn example(flow: Flow) -> FlowResult<()> {
    /// if let Err(error) = work(&flow).await {
    ///     flow.uncancellable(async { flow.step("undo", undo).await }).await?;
    ///     return Err(error);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn uncancellable<'a, F: Future + Send + 'a>(
        &self,
        code: F,
    ) -> Uncancellable<'a, F::Output> {
        Uncancellable {
            flow: self.clone(),
            code: Box::pin(code),
        }
    }

    /// Whether the workflow was asked to end: its next call that is not shielded says so as an error.
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancel_reason().is_some()
    }

    /// Who asked it to end and why.
    pub fn cancel_reason(&self) -> Option<String> {
        self.lock().cancel_reason().map(str::to_owned)
    }

    /// Whether the history has become long: time to [continue as new](Flow::continue_as_new). At
    /// [`HISTORY_MAX`](outlast_core::limits::HISTORY_MAX) events the workflow fails.
    pub fn history_pressure(&self) -> bool {
        self.lock().history_is_long()
    }

    /// How many events this run has up to here: the same whenever the workflow is run again.
    pub fn history_length(&self) -> usize {
        self.lock().known_events()
    }

    /// The children that this run has started, in the order of the calls; those that are committed.
    pub fn children(&self) -> Vec<ChildRef> {
        let calls: Vec<i32> = self.lock().children().map(|(call, _)| call).collect();
        calls
            .into_iter()
            .map(|call| ChildRef::new(self, call))
            .collect()
    }

    /// The last of them.
    pub fn last_child(&self) -> Option<ChildRef> {
        self.children().pop()
    }

    /// The instance.
    pub fn id(&self) -> InstanceId {
        self.lock().identity.id
    }

    /// Which run of the instance this is, counted from 1.
    pub fn run(&self) -> i32 {
        self.lock().identity.run
    }

    /// Its correlation key, held or released.
    pub fn key(&self) -> Option<String> {
        self.lock().identity.key.clone()
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runtime = self.lock();
        f.debug_struct("Flow")
            .field("id", &runtime.identity.id)
            .field("workflow", &runtime.identity.workflow)
            .field("run", &runtime.identity.run)
            .finish_non_exhaustive()
    }
}

/// Why a step failed: any error, or a text.
#[derive(Debug)]
pub struct StepFailure(String);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for StepFailure {
    fn from(error: E) -> StepFailure {
        struct Chain(Box<dyn std::error::Error + Send + Sync>);

        impl Display for Chain {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                crate::machine::write_chain(self.0.as_ref(), f)
            }
        }

        StepFailure(Chain(error.into()).to_string())
    }
}

/// Code that is shielded from the cancel of its workflow; made by [`Flow::uncancellable`]. Await it.
#[must_use = "await it"]
pub struct Uncancellable<'a, T> {
    flow: Flow,
    code: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

impl<T> Future for Uncancellable<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let before = std::mem::replace(&mut self.flow.lock().uncancellable, true);
        let polled = self.code.as_mut().poll(cx);
        self.flow.lock().uncancellable = before;
        polled
    }
}
