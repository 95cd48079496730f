//! Updates of a workflow: calls that take one, handlers that run beside the code, and conditions.

use super::call::{Awaiting, Call, Parts};
use super::flow::Flow;
use super::group::{Group, ResultShape, WaitPlan};
use super::replay::events::{CallKind, Consumed};
use super::replay::runtime::{Ask, Check, Handling, UpdateHandler};
use super::waiting::Work;
use super::{FlowError, FlowResult};
use crate::machine::{Request, Update};
use outlast_core::{Invalid, Json, limits};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

impl Flow {
    /// Handles updates of this type beside the main code, from now on.
    ///
    /// The handler starts at the moment at which the update arrives, and runs beside the main code
    /// and other handlers. It may make calls of its own. The reply is written with the next commit
    /// after its end. An error is the reply too, and does not fail the workflow. The run ends when
    /// its code and all started handlers have ended; an update that arrives after the end of the
    /// code is not accepted.
    ///
    /// The handlers of a replay start at the same places in the history. So register them before
    /// the first call. A later handler of the same type replaces the earlier one.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// use std::sync::{Arc, Mutex};
    ///
    /// #[derive(Signal, Serialize, Deserialize)]
    /// #[signal(reply = String)]
    /// struct MoveTo {
    ///     street: String,
    /// }
    ///
    /// #[workflow]
    /// async fn deliver(flow: Flow, street: String) -> FlowResult<String> {
    ///     let street = Arc::new(Mutex::new(street));
    ///     let shared = street.clone();
    ///     flow.on_update(move |_flow, change: MoveTo| {
    ///         let old = std::mem::replace(&mut *shared.lock().unwrap(), change.street);
    ///         async move { Ok(old) }
    ///     })?
    ///     .validate(|change| match change.street.is_empty() {
    ///         true => Err("a street has a name"),
    ///         false => Ok(()),
    ///     });
    ///     flow.sleep(DAY).await?;
    ///     let street = street.lock().unwrap().clone();
    ///     Ok(street)
    /// }
    /// ```
    pub fn on_update<R, H, Fut>(&self, handler: H) -> FlowResult<OnUpdate<R>>
    where
        R: Request,
        H: Fn(Flow, R) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = FlowResult<R::Reply>> + Send + 'static,
    {
        limits::check_name("update", R::NAME).map_err(FlowError::invalid)?;
        let handle = move |flow: Flow, payload: Json| -> Handling {
            let request = payload.decode::<R>();
            // The closure runs now, so that it sees what the code sees at this moment.
            let code = request.map(|request| handler(flow, request));
            Box::pin(async move {
                // The payload was readable when the update was accepted.
                let reply = code.map_err(FlowError::unreadable)?.await?;
                Json::of(&reply).map_err(|invalid| FlowError::invalid(invalid.within("reply")))
            })
        };
        let handler = UpdateHandler {
            checks: vec![readable::<R>()],
            handle: Arc::new(handle),
        };
        let replaced = self.lock().updates.register(R::NAME, handler);
        // Dropped here, outside of the lock: its closure may hold a flow.
        drop(replaced.map_err(FlowError::invalid)?);
        Ok(OnUpdate {
            flow: self.clone(),
            request: PhantomData,
        })
    }

    /// Waits for the next update of this type, in the order of arrival.
    ///
    /// The [`Update`] is answered by its `reply` or `reject`. An update whose payload does not fit
    /// the type is rejected, and the wait goes on.
    pub fn update<R: Request>(&self) -> UpdateCall<R> {
        let parts = limits::check_name("update", R::NAME).map(|()| Parts {
            kind: CallKind::Signal,
            name: R::NAME.to_owned(),
            ask: Ask::Update(readable::<R>()),
            work: None,
        });
        UpdateCall {
            call: Call::new(self, parts),
            request: PhantomData,
        }
    }

    /// Waits until a condition holds that update handlers or code beside this make true.
    ///
    /// The condition is no call and leaves no event. It may only read what the code shares.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    /// # #[derive(Signal, Serialize, Deserialize)] #[signal(reply = ())] struct Approve;
    /// # async fn example(flow: Flow) -> FlowResult<()> {
    /// let approved = Arc::new(AtomicBool::new(false));
    /// let seen = approved.clone();
    /// flow.on_update(move |_flow, _: Approve| {
    ///     seen.store(true, Ordering::Relaxed);
    ///     async { Ok(()) }
    /// })?;
    /// if !flow.until(|| approved.load(Ordering::Relaxed)).timeout(DAY).await? {
    ///     return flow.fail("nobody approved");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn until<'a>(&self, condition: impl FnMut() -> bool + Send + 'a) -> Until<'a> {
        Until {
            flow: self.clone(),
            condition: Box::new(condition),
        }
    }
}

/// Returns the check that a payload is of this type.
fn readable<R: Request>() -> Check {
    Arc::new(|payload| match payload.decode::<R>() {
        Ok(_) => Ok(()),
        Err(invalid) => Err(format!("its payload does not fit: {invalid}")),
    })
}

/// A registered handler of updates; made by [`Flow::on_update`].
pub struct OnUpdate<R> {
    flow: Flow,
    request: PhantomData<fn(R)>,
}

impl<R: Request> OnUpdate<R> {
    /// Checks each update before it is accepted. A rejected update leaves no event.
    ///
    /// The reason is the reply. The check runs once for each update, and not in a replay. It may
    /// read what the code shares, but must change nothing.
    pub fn validate<E: Display>(
        self,
        check: impl Fn(&R) -> Result<(), E> + Send + Sync + 'static,
    ) -> OnUpdate<R> {
        let check: Check = Arc::new(move |payload| {
            let request = payload.decode::<R>().map_err(|error| error.to_string())?;
            check(&request).map_err(|error| error.to_string())
        });
        self.flow.lock().updates.add_check(R::NAME, check);
        self
    }
}

impl<R> fmt::Debug for OnUpdate<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnUpdate").finish_non_exhaustive()
    }
}

/// A wait for an update; made by [`Flow::update`]. Await it, or hand it to [`Flow::all`] or
/// [`Flow::select`].
#[must_use = "a call does nothing unless it is awaited, or handed to flow.all(..) or flow.select(..)"]
pub struct UpdateCall<R> {
    call: Call<'static, Json>,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> UpdateCall<R> {
    /// Waits no longer than `after`: `None` if the time is up first.
    pub fn timeout(self, after: Duration) -> super::select::Within<Self> {
        let flow = self.call.flow.clone();
        flow.deadline(after, self)
    }
}

impl<R: Request> IntoFuture for UpdateCall<R> {
    type Output = FlowResult<Update<R>>;
    type IntoFuture = TakingUpdate<R>;

    fn into_future(self) -> TakingUpdate<R> {
        TakingUpdate {
            flow: self.call.flow.clone(),
            awaiting: self.call.into_future(),
            request: PhantomData,
        }
    }
}

impl<R: Request> Group for UpdateCall<R> {
    type Output = Update<R>;
    type ResultShape = UpdateShape<R>;

    fn spread(self, into: &mut WaitPlan) -> Result<UpdateShape<R>, Invalid> {
        let flow = self.call.flow.clone();
        self.call.spread(into)?;
        Ok(UpdateShape {
            flow,
            request: PhantomData,
        })
    }
}

/// A wait for an update that is awaited alone.
pub struct TakingUpdate<R> {
    flow: Flow,
    awaiting: Awaiting<'static, Json>,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> Future for TakingUpdate<R> {
    type Output = FlowResult<Update<R>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let taken = Pin::new(&mut this.awaiting).poll(cx);
        taken.map(|taken| update_of(&this.flow, &taken?))
    }
}

/// The shape of a wait for an update.
#[doc(hidden)]
pub struct UpdateShape<R> {
    flow: Flow,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> ResultShape for UpdateShape<R> {
    type Output = Update<R>;

    fn leaves(&self) -> usize {
        1
    }

    fn each_work(&mut self, _: usize, _: &mut dyn FnMut(usize, &mut Work<'_>)) {}

    fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<Update<R>> {
        update_of(&self.flow, &next()?)
    }
}

/// Reads the update that a call has taken.
fn update_of<R: Request>(flow: &Flow, taken: &Json) -> FlowResult<Update<R>> {
    let taken: Consumed = taken.decode().map_err(FlowError::unreadable)?;
    let request = taken.payload.decode().map_err(FlowError::unreadable)?;
    let replies = flow.replies();
    Ok(Update::new(request, (taken.signal, taken.update), replies))
}

/// A wait for a condition; made by [`Flow::until`]. Await it.
#[must_use = "await it"]
pub struct Until<'a> {
    flow: Flow,
    condition: Box<dyn FnMut() -> bool + Send + 'a>,
}

impl<'a> Until<'a> {
    /// Waits no longer than `after`: `false` if the time is up first.
    pub fn timeout(self, after: Duration) -> UntilTimeout<'a> {
        UntilTimeout {
            timer: self.flow.sleep(after).into_future(),
            until: self,
        }
    }
}

impl Future for Until<'_> {
    type Output = FlowResult<()>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<FlowResult<()>> {
        if (self.condition)() {
            self.flow.lock().updates.conditions_met += 1;
            return Poll::Ready(Ok(()));
        }
        let mut runtime = self.flow.lock();
        if runtime.is_cancelled_here() {
            let reason = runtime.cancel_reason().unwrap_or("cancelled");
            return Poll::Ready(Err(FlowError::cancelled(reason)));
        }
        runtime.updates.awaits_condition = true;
        Poll::Pending
    }
}

/// A wait for a condition that ends at a time; made by [`Until::timeout`]. Await it.
#[must_use = "await it"]
pub struct UntilTimeout<'a> {
    until: Until<'a>,
    timer: Awaiting<'static, ()>,
}

impl Future for UntilTimeout<'_> {
    type Output = FlowResult<bool>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FlowResult<bool>> {
        let this = self.get_mut();
        if let Poll::Ready(met) = Pin::new(&mut this.until).poll(cx) {
            return Poll::Ready(met.map(|()| true));
        }
        let timer = Pin::new(&mut this.timer).poll(cx);
        timer.map(|passed| passed.map(|()| false))
    }
}
