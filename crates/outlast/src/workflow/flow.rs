//! `Flow`: the calls that the code of a workflow can make.
//!
//! The code of users calls it. It only registers calls: the session decides what is written and
//! sent.

use super::call::{Call, Parts, Starting};
use super::children::ChildRef;
use super::group::{All, Group};
use super::replay::events::{CallKind, Failed};
use super::replay::runtime::{Ask, ChildStart, Handler, Runtime, Unanswered};
use super::select::{Choices, Select, Within};
use super::waiting::Work;
use super::{FlowError, FlowResult};
use crate::client::Client;
use crate::definition::{Data, Durable, MissingData, New, Provided};
use crate::machine::{Request, Signal, TakeReply};
use outlast_core::{InstanceId, Invalid, Json, NewReply, Timestamp, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// The handle with which the code of a workflow makes durable calls.
///
/// | to | write |
/// |---|---|
/// | run code here and record its result | [`step`](Flow::step) |
/// | run a job, a workflow or a machine and wait | [`run`](Flow::run) |
/// | start one and wait later | [`spawn`](Flow::spawn) |
/// | wait for several calls | [`all`](Flow::all) |
/// | wait for the first of several calls | [`select`](Flow::select) |
/// | sleep; bound a wait | [`sleep`](Flow::sleep), [`deadline`](Flow::deadline) |
/// | wait for a signal | [`signal`](Flow::signal) |
/// | take an update and reply | [`update`](Flow::update), [`on_update`](Flow::on_update) |
/// | wait for a condition | [`until`](Flow::until) |
/// | show how far it is | [`publish`](Flow::publish) |
/// | answer questions about its state | [`on_query`](Flow::on_query) |
/// | read the time | [`now`](Flow::now) |
/// | draw random values | [`random`](Flow::random), [`uuid`](Flow::uuid) |
/// | change the code under running instances | [`version`](Flow::version) |
/// | start again with an empty history | [`continue_as_new`](Flow::continue_as_new) |
///
/// Clones are cheap and refer to the same flow.
#[derive(Clone)]
pub struct Flow(Arc<FlowInner>);

struct FlowInner {
    runtime: Mutex<Runtime>,
    /// Sends signals and cancel requests to children; `None` where nothing may be sent.
    client: Option<Client>,
    provided: Provided,
}

impl FlowInner {
    /// Locks the runtime, and ignores poisoning.
    ///
    /// The guarded value is consistent between any two statements, so a panic elsewhere leaves it
    /// usable.
    fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakeReply for FlowInner {
    fn take(&self, reply: NewReply) {
        self.lock().updates.reply(reply);
    }
}

impl Flow {
    pub(super) fn new(runtime: Runtime, client: Option<Client>, provided: Provided) -> Flow {
        Flow(Arc::new(FlowInner {
            runtime: Mutex::new(runtime),
            client,
            provided,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.0.lock()
    }

    /// Returns the result of a finished call.
    pub(super) fn answer(&self, call: i32) -> FlowResult<Json> {
        let answer = self.lock().answer(call);
        answer.map_err(|error| error.within(self))
    }

    /// Returns where updates leave their replies.
    pub(super) fn replies(&self) -> Arc<dyn TakeReply> {
        self.0.clone()
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.0.client.as_ref()
    }

    /// Runs the closure here and records its result before the workflow continues.
    ///
    /// The closure may run again when the worker dies before that, so its effects must be
    /// idempotent. A [`uuid`](Flow::uuid) drawn before the step is a key for that.
    ///
    /// An error, a panic and a timeout are recorded too; the call then returns the error. [Run a
    /// job](Flow::run) for code that should be retried. The closure cannot make calls of the flow.
    ///
    /// A closure that ends with `Ok(..)` names the type of its error, which `?` does not tell.
    /// [`StepFailure`] takes any error:
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use outlast::workflow::StepFailure;
    /// # async fn price_of(item: u32) -> std::io::Result<u64> { Ok(5) }
    /// # async fn example(flow: Flow) -> FlowResult<(u64, u64)> {
    /// let price = flow.step("price", async || price_of(7).await).await?;
    /// let total = flow
    ///     .step("total", async || {
    ///         let price = price_of(8).await?;
    ///         Ok::<_, StepFailure>(price * 2)
    ///     })
    ///     .await?;
    /// # Ok((price, total)) }
    /// ```
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

    /// Starts a job, a workflow or a machine as a child, and waits for its output.
    ///
    /// The child runs in its own queue, on any worker. A job is retried as it declares; its retry
    /// policy is fixed when the job is scheduled. [`timeout`](Call::timeout) limits the wait, and
    /// the options of [`New`] say how the child runs:
    ///
    /// ```
    /// # use outlast::store::ClosePolicy;
    /// # use outlast::prelude::*;
    /// # #[job] async fn pack(item: u32) -> std::io::Result<String> { Ok(String::new()) }
    /// # #[workflow] async fn ship(flow: Flow, parcel: String) -> FlowResult<u64> { Ok(1) }
    /// # async fn example(flow: Flow) -> FlowResult<Option<u64>> {
    /// let parcel = flow.run(pack::with(7).queue("packing").max_attempts(3)).await?;
    /// let shipping = ship::with(parcel).on_parent_close(ClosePolicy::RequestCancel);
    /// let tracking = flow.run(shipping).timeout(DAY).await?; // None after a day
    /// # Ok(tracking) }
    /// ```
    pub fn run<D: Durable>(&self, new: New<D>) -> Call<'static, D::Output> {
        let parts = new.into_parts().map(|(row, policy)| Parts {
            kind: match policy {
                Some(_) => CallKind::Activity,
                None => CallKind::Child,
            },
            name: D::NAME.to_owned(),
            ask: Ask::Child(Box::new(ChildStart::new(row, policy))),
            work: None,
        });
        Call::new(self, parts)
    }

    /// Starts a job, a workflow or a machine as a child, and returns once the start is committed.
    ///
    /// The handle can be awaited later: `flow.spawn(..).await?.join().await?`.
    pub fn spawn<D: Durable>(&self, new: New<D>) -> Starting<D::Output> {
        Starting::new(self.run(new))
    }

    /// Waits for all calls of a group, and returns the results in the shape of the group.
    ///
    /// The calls are scheduled in one commit. The group fails with its first failed call, even
    /// while others still run. The others continue, unless [`cancel_rest`](All::cancel_rest) is
    /// set.
    ///
    /// While a [step](Flow::step) of the group runs, the code receives no signals or results of
    /// children. It receives them when the step has ended.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # #[job] async fn pack(item: u32) -> std::io::Result<String> { Ok(String::new()) }
    /// # #[workflow] async fn print_label(flow: Flow, order: u32) -> FlowResult<u64> { Ok(1) }
    /// # async fn example(flow: Flow, items: Vec<u32>) -> FlowResult<(u64, Vec<String>)> {
    /// let (label, parcels) = flow
    ///     .all((
    ///         flow.run(print_label::with(7_u32)),
    ///         items.into_iter().map(|item| flow.run(pack::with(item))).collect::<Vec<_>>(),
    ///     ))
    ///     .await?;
    /// # Ok((label, parcels)) }
    /// ```
    pub fn all<G: Group>(&self, group: G) -> All<G> {
        All::new(self, group)
    }

    /// Waits for the first of several calls to end, successfully or not.
    ///
    /// The others continue, unless [`cancel_rest`](Select::cancel_rest) is set. An awaited signal
    /// that did not win stays in the inbox.
    ///
    /// A [step](Flow::step) that does not win is dropped while it awaits. A timer interrupts a
    /// running step; signals and results of children arrive when no step runs.
    pub fn select<C: Choices>(&self, choices: C) -> Select<C> {
        Select::new(self, choices)
    }

    /// Waits for a duration, by the database's clock.
    pub fn sleep(&self, duration: Duration) -> Call<'static, ()> {
        let parts = limits::check_delay("timer", duration).map(|()| Parts {
            kind: CallKind::Timer,
            name: String::new(),
            ask: Ask::Timer(duration),
            work: None,
        });
        Call::new(self, parts)
    }

    /// Waits for a call or a group, but no longer than `after`: `None` if the time is up first.
    ///
    /// The calls continue, unless `cancel_rest` is set [here](Within::cancel_rest) or [on the
    /// group](All::cancel_rest).
    pub fn deadline<G: Group>(&self, after: Duration, group: G) -> Within<G> {
        Within::new(self, after, group)
    }

    /// Waits for the next signal of this type, in the order of arrival.
    ///
    /// A signal that came earlier is not lost.
    pub fn signal<S: Signal>(&self) -> Call<'static, S> {
        let parts = limits::check_name("signal", S::NAME).map(|()| Parts {
            kind: CallKind::Signal,
            name: S::NAME.to_owned(),
            ask: Ask::Signal,
            work: None,
        });
        Call::new(self, parts)
    }

    /// Publishes a value for others to read at any time, under a name.
    ///
    /// It is no call and leaves no event. The value that stands when the workflow waits, or has run
    /// a step, is written with that commit, if it changed. [`Handle::view`](crate::Handle::view)
    /// reads it without a worker: also while the workflow waits or is blocked, and after its end.
    ///
    /// A workflow has at most [`VIEWS_MAX`](outlast_core::limits::VIEWS_MAX) views of
    /// [`VIEW_BYTES_MAX`](outlast_core::limits::VIEW_BYTES_MAX) bytes.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// #[job]
    /// async fn pack(item: u32) -> std::io::Result<()> {
    ///     Ok(())
    /// }
    ///
    /// #[workflow]
    /// async fn pack_all(flow: Flow, items: Vec<u32>) -> FlowResult<()> {
    ///     for (packed, item) in items.iter().enumerate() {
    ///         flow.publish("packed", &packed)?;
    ///         flow.run(pack::with(*item)).await?;
    ///     }
    ///     flow.publish("packed", &items.len())
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> outlast::Result<()> {
    /// # let engine = Engine::sqlite_in_memory()?.register(pack_all).register(pack).start().await?;
    /// # let parcel = engine.start(pack_all::with(vec![1, 2])).await?;
    /// # parcel.output().await?;
    /// let packed = parcel.view::<usize>("packed").await?.map(|view| view.value);
    /// assert_eq!(packed, Some(2));
    /// # engine.shutdown().await
    /// # }
    /// ```
    pub fn publish<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> FlowResult<()> {
        let value =
            Json::of(value).map_err(|invalid| invalid.within(format_args!("view {name:?}")));
        let published = value.and_then(|value| {
            let mut runtime = self.lock();
            runtime.queries.refuse_changes("a published value")?;
            runtime.views.publish(name, value)
        });
        published.map_err(FlowError::invalid)
    }

    /// Registers the handler that answers queries of this type.
    ///
    /// [`Handle::query`](crate::Handle::query) replays the history of the instance and calls the
    /// handler. The handler reads values that the code shares with it, and the
    /// [children](Flow::children) of the flow. It changes nothing: its calls fail, and what it
    /// changes in memory is gone with its answer.
    ///
    /// The registration is no call and leaves no event. A query is answered from this line on, so
    /// write it before the first call. A second handler of the same type replaces the first. A
    /// workflow handles at most [`QUERIES_MAX`](outlast_core::limits::QUERIES_MAX) types.
    ///
    /// Use [`publish`](Flow::publish) for values that must be readable where the code is not.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// use std::sync::{Arc, Mutex};
    ///
    /// #[derive(Signal, Serialize, Deserialize)]
    /// #[signal(reply = Vec<String>)]
    /// struct Items {
    ///     prefix: String,
    /// }
    ///
    /// #[derive(Signal, Serialize, Deserialize)]
    /// struct Add(String);
    ///
    /// #[workflow]
    /// async fn cart(flow: Flow) -> FlowResult<()> {
    ///     let items = Arc::new(Mutex::new(Vec::new()));
    ///     let seen = items.clone();
    ///     flow.on_query(move |query: Items| {
    ///         let items: Vec<String> = seen.lock().unwrap().clone();
    ///         Ok(items.into_iter().filter(|it| it.starts_with(&query.prefix)).collect())
    ///     })?;
    ///     loop {
    ///         let Add(item) = flow.signal::<Add>().await?;
    ///         items.lock().unwrap().push(item);
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> outlast::Result<()> {
    /// # let engine = Engine::sqlite_in_memory()?.register(cart).start().await?;
    /// let shopping = engine.start(cart::with()).await?;
    /// for item in ["apple", "pear", "apricot"] {
    ///     shopping.signal(Add(item.into())).await?;
    /// }
    /// shopping.settled().await?;
    /// let items = shopping.query(Items { prefix: "ap".into() }).await?;
    /// assert_eq!(items, ["apple", "apricot"]);
    /// # engine.shutdown().await
    /// # }
    /// ```
    pub fn on_query<Q, F>(&self, handler: F) -> FlowResult<()>
    where
        Q: Request,
        F: Fn(Q) -> FlowResult<Q::Reply> + Send + 'static,
    {
        let registered = {
            let mut runtime = self.lock();
            let refused = match runtime.in_step {
                true => Err(Invalid::new(
                    format!("query {:?}", Q::NAME),
                    "is registered inside a step, which is not run again with its workflow",
                )),
                false => runtime.queries.refuse_changes("a registration"),
            };
            refused.and_then(|()| runtime.queries.register(Q::NAME))
        };
        if registered.map_err(FlowError::invalid)? {
            let replaced = self.lock().queries.keep(Q::NAME, untyped(handler));
            drop(replaced);
        }
        Ok(())
    }

    /// Returns the time of the last event of this workflow, by the database's clock.
    ///
    /// It is the same whenever the workflow runs again.
    pub fn now(&self) -> SystemTime {
        self.timestamp().into()
    }

    /// Returns [`now`](Flow::now) as it is stored.
    pub fn timestamp(&self) -> Timestamp {
        self.lock().read_clock()
    }

    /// Returns a random number, the same whenever the workflow runs again.
    ///
    /// Inside a step it is a new number each time.
    pub fn random(&self) -> u64 {
        self.lock().draw()
    }

    /// Returns a random UUID (version 4), the same whenever the workflow runs again.
    ///
    /// Use it as a key for effects that must not happen twice. Draw it before the step that needs
    /// it: inside a step it is a new one each time.
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

    /// Returns which version of a change this run uses.
    ///
    /// A run that passed this place before the change existed gets `min`. A run that reaches it
    /// first now gets `max`. The answer is recorded and never changes for this run.
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

    /// Ends this run and begins another one of the same instance, with this input and no history.
    ///
    /// Return its result from the workflow. Children and signals stay; close policies are not
    /// applied.
    pub fn continue_as_new<I: Serialize, T>(&self, input: I) -> FlowResult<T> {
        let input =
            Json::of(&input).map_err(|invalid| FlowError::invalid(invalid.within("input")))?;
        Err(FlowError::renewal(input))
    }

    /// Returns an error of this workflow, a text or any error: return it from the workflow.
    pub fn fail<T>(&self, error: impl Into<FlowError>) -> FlowResult<T> {
        Err(error.into())
    }

    /// Returns the value of this type that the builder was given.
    ///
    /// A type in [`needs`](crate::Workflow::needs) is certainly there. Functions with
    /// [`#[workflow]`](macro@crate::workflow) take the value as a parameter. Use it inside steps: what
    /// it answers is not recorded.
    pub fn data<T: Send + Sync + 'static>(&self) -> Result<Data<T>, MissingData> {
        self.0.provided.get()
    }

    /// Runs code whose calls still work after the workflow was asked to end: for cleaning up.
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

    /// Returns whether the workflow was asked to end.
    ///
    /// The next call outside [`uncancellable`](Flow::uncancellable) then returns an error.
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancel_reason().is_some()
    }

    /// Returns why the workflow was asked to end, and by whom.
    pub fn cancel_reason(&self) -> Option<String> {
        self.lock().cancel_reason().map(str::to_owned)
    }

    /// Returns whether the history is long: time to [continue as new](Flow::continue_as_new).
    ///
    /// The workflow fails at [`HISTORY_MAX`](outlast_core::limits::HISTORY_MAX) events.
    pub fn history_pressure(&self) -> bool {
        self.lock().history_is_long()
    }

    /// Returns how many events this run has up to here: the same whenever the workflow runs again.
    pub fn history_length(&self) -> usize {
        self.lock().known_events()
    }

    /// Returns the children that this run has started, in the order of the calls; jobs are left out.
    ///
    /// Only children whose start is committed are included.
    pub fn children(&self) -> Vec<ChildRef> {
        let calls: Vec<i32> = self.lock().children().map(|(call, _)| call).collect();
        calls
            .into_iter()
            .map(|call| ChildRef::new(self, call))
            .collect()
    }

    /// Returns the last child that this run has started.
    pub fn last_child(&self) -> Option<ChildRef> {
        self.children().pop()
    }

    /// Returns the id of the instance.
    pub fn id(&self) -> InstanceId {
        self.lock().identity.id
    }

    /// Returns the number of this run of the instance, counted from 1.
    pub fn run_number(&self) -> i32 {
        self.lock().identity.run
    }

    /// Returns the correlation key, held or released, as a [`KeyText`](outlast_core::KeyText).
    pub fn key(&self) -> Option<String> {
        self.lock().identity.key.clone()
    }
}

/// Erases the types of a handler.
fn untyped<Q: Request>(handler: impl Fn(Q) -> FlowResult<Q::Reply> + Send + 'static) -> Handler {
    Box::new(move |query| {
        let query = query.decode().map_err(Unanswered::Malformed)?;
        let failed = |error: String| Unanswered::Failed(limits::clean_error(&error));
        let reply = handler(query).map_err(|error| failed(error.to_string()))?;
        Json::of(&reply).map_err(|invalid| failed(invalid.within("reply").to_string()))
    })
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

/// Code that a cancel of its workflow does not interrupt; created by [`Flow::uncancellable`].
/// Await it.
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
