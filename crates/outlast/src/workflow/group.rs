//! Groups: several calls that a workflow waits for together, in any shape.

use super::call::Parts;
use super::flow::Flow;
use super::replay::runtime::{NewCall, WaitCall, WaitKind};
use super::waiting::{Waiting, Work};
use super::{FlowError, FlowResult};
use outlast_core::{Invalid, Json};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The argument of [`Flow::all`]: calls, groups, and vectors, arrays and tuples of them.
///
/// They can be nested. The results have the same shape.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no call, and no group of calls",
    label = "write calls that are not awaited yet, such as `flow.run(..)`",
    note = "a group is a tuple, an array or a `Vec` of calls; an iterator becomes one with `.collect::<Vec<_>>()`"
)]
pub trait Group: Sized {
    /// The results, in the same shape.
    type Output;
    /// The type that remembers the shape.
    #[doc(hidden)]
    type ResultShape: ResultShape<Output = Self::Output>;

    /// Moves the calls out of their shape into the plan.
    #[doc(hidden)]
    fn spread(self, into: &mut WaitPlan) -> Result<Self::ResultShape, Invalid>;

    /// Takes the window of the group. A deadline needs it, since it becomes the outermost group.
    #[doc(hidden)]
    fn take_window(&mut self) -> Option<u32> {
        None
    }
}

/// A shape that waits for its results.
#[doc(hidden)]
pub trait ResultShape {
    type Output;

    /// Returns how many calls it has.
    fn leaves(&self) -> usize;

    /// Visits the code to run here, with the index of its call. `at` is the index of the first
    /// call.
    fn each_work(&mut self, at: usize, visit: &mut dyn FnMut(usize, &mut Work<'_>));

    /// Puts the results of the calls into the shape, in the order of the calls.
    fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<Self::Output>;
}

/// The calls of a group, without their shape.
#[doc(hidden)]
#[derive(Default)]
pub struct WaitPlan {
    pub(super) leaves: Vec<WaitCall>,
    /// The index of the first call of each member of a selection.
    pub(super) members: Vec<usize>,
    /// How many groups have been added.
    pub(super) groups: usize,
    /// The groups that the next call is in.
    pub(super) path: Vec<usize>,
    pub(super) window: Option<u32>,
    /// The calls of each group that cancels the rest.
    pub(super) cancelled: Vec<Range<usize>>,
}

impl WaitPlan {
    /// Adds a call.
    pub(super) fn leaf(&mut self, parts: Parts<'_>) {
        self.leaves.push(WaitCall::New(NewCall {
            kind: parts.kind,
            name: parts.name,
            ask: parts.ask,
            groups: self.path.clone(),
        }));
    }

    /// Creates a plan with one call.
    pub(super) fn of(parts: Parts<'_>) -> WaitPlan {
        let mut spread = WaitPlan {
            leaves: Vec::with_capacity(1),
            ..WaitPlan::default()
        };
        spread.leaf(parts);
        spread
    }

    /// Adds a child that was started before.
    pub(super) fn again(&mut self, call: i32) {
        self.leaves.push(WaitCall::Again(call));
    }

    /// Checks whether all its calls can be started.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        match self.window {
            Some(0) => Err(Invalid::new(
                "window",
                "has no places, so no child could ever start; give it at least one",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Starts another member of a selection.
    pub(super) fn next_member(&mut self) {
        self.members.push(self.leaves.len());
    }

    /// Adds what `spread` adds as a group inside this one.
    pub(super) fn within<T>(
        &mut self,
        spread: impl FnOnce(&mut Self) -> Result<T, Invalid>,
    ) -> Result<T, Invalid> {
        self.path.push(self.groups);
        self.groups += 1;
        let shape = spread(self);
        self.path.pop();
        shape
    }

    /// Does the same for a group that may cancel its children.
    ///
    /// If set, its running children are cancelled once the workflow no longer waits for them.
    pub(super) fn within_cancelled<T>(
        &mut self,
        cancel_rest: bool,
        spread: impl FnOnce(&mut Self) -> Result<T, Invalid>,
    ) -> Result<T, Invalid> {
        let first = self.leaves.len();
        let shape = self.within(spread)?;
        if cancel_rest {
            self.cancelled.push(first..self.leaves.len());
        }
        Ok(shape)
    }
}

/// A group of calls; created by [`Flow::all`]. Await it, or make it part of another group.
#[must_use = "await it"]
pub struct All<G: Group> {
    waiting: Waiting,
    group: Option<G>,
    shape: Option<G::ResultShape>,
    window: Option<u32>,
    cancel_rest: bool,
}

// Nothing in it is pinned in place: pinned futures are boxed.
impl<G: Group> Unpin for All<G> {}

impl<G: Group> All<G> {
    pub(super) fn new(flow: &Flow, group: G) -> All<G> {
        All {
            waiting: Waiting::new(flow.clone(), WaitKind::Group),
            group: Some(group),
            shape: None,
            window: None,
            cancel_rest: false,
        }
    }

    /// Runs at most `n` of its children at a time, in their order.
    ///
    /// The next child starts when one has ended. Only the outermost group can have a window.
    pub fn window(mut self, n: u32) -> All<G> {
        self.window = Some(n);
        self
    }

    /// Cancels its running children when the workflow no longer waits for them. Default: they
    /// continue.
    ///
    /// That is the case when one of them has failed, or when an outer group or selection is
    /// decided.
    pub fn cancel_rest(mut self) -> All<G> {
        self.cancel_rest = true;
        self
    }

    /// Waits no longer than `after`: `None` if the time is up first.
    ///
    /// The calls continue, unless [`cancel_rest`](All::cancel_rest) is set, before or after this.
    pub fn timeout(self, after: std::time::Duration) -> super::select::Within<Self> {
        let flow = self.waiting.flow().clone();
        flow.deadline(after, self)
    }
}

impl<G: Group> Future for All<G> {
    type Output = FlowResult<G::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(group) = this.group.take() {
            let mut spread = WaitPlan {
                window: this.window,
                ..WaitPlan::default()
            };
            if let Err(invalid) = spread.check() {
                return Poll::Ready(Err(FlowError::invalid(invalid)));
            }
            match spread.within_cancelled(this.cancel_rest, |spread| group.spread(spread)) {
                Ok(shape) => this.shape = Some(shape),
                Err(invalid) => return Poll::Ready(Err(FlowError::invalid(invalid))),
            }
            this.waiting.ask(spread);
        }
        let Some(shape) = &mut this.shape else {
            return Poll::Pending;
        };
        ready!(this.waiting.poll(shape, cx))?;
        let shape = this.shape.take().expect("the shape is taken once");
        let failed = this.waiting.resolved().and_then(|it| it.failed);
        if let Some(failed) = failed {
            return Poll::Ready(this.waiting.failure(failed));
        }
        this.waiting.gather(0, |next| shape.gather(next))
    }
}

/// A group inside another one.
impl<G: Group> Group for All<G> {
    type Output = G::Output;
    type ResultShape = G::ResultShape;

    fn spread(self, into: &mut WaitPlan) -> Result<G::ResultShape, Invalid> {
        if self.window.is_some() {
            return Err(Invalid::new(
                "group",
                "is inside another group and sets .window(..); set it on the outermost group",
            ));
        }
        let group = self.group.ok_or_else(|| {
            Invalid::new("group", "was polled before it was added to another group")
        })?;
        into.within_cancelled(self.cancel_rest, |spread| group.spread(spread))
    }

    fn take_window(&mut self) -> Option<u32> {
        self.window.take()
    }
}

impl<G: Group> Group for Vec<G> {
    type Output = Vec<G::Output>;
    type ResultShape = Vec<G::ResultShape>;

    fn spread(self, into: &mut WaitPlan) -> Result<Vec<G::ResultShape>, Invalid> {
        self.into_iter().map(|member| member.spread(into)).collect()
    }
}

impl<S: ResultShape> ResultShape for Vec<S> {
    type Output = Vec<S::Output>;

    fn leaves(&self) -> usize {
        self.iter().map(ResultShape::leaves).sum()
    }

    fn each_work(&mut self, mut at: usize, visit: &mut dyn FnMut(usize, &mut Work<'_>)) {
        for member in self {
            member.each_work(at, visit);
            at += member.leaves();
        }
    }

    fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<Self::Output> {
        self.into_iter().map(|member| member.gather(next)).collect()
    }
}

impl<G: Group, const N: usize> Group for [G; N] {
    type Output = [G::Output; N];
    type ResultShape = ArrayShape<G::ResultShape, N>;

    fn spread(self, into: &mut WaitPlan) -> Result<Self::ResultShape, Invalid> {
        let shapes: Result<Vec<_>, _> =
            self.into_iter().map(|member| member.spread(into)).collect();
        Ok(ArrayShape(shapes?))
    }
}

/// The shape of an array.
#[doc(hidden)]
pub struct ArrayShape<S, const N: usize>(Vec<S>);

impl<S: ResultShape, const N: usize> ResultShape for ArrayShape<S, N> {
    type Output = [S::Output; N];

    fn leaves(&self) -> usize {
        self.0.leaves()
    }

    fn each_work(&mut self, at: usize, visit: &mut dyn FnMut(usize, &mut Work<'_>)) {
        self.0.each_work(at, visit);
    }

    fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<Self::Output> {
        let results: Vec<S::Output> = self.0.gather(next)?;
        match results.try_into() {
            Ok(results) => Ok(results),
            Err(_) => unreachable!("there are as many results as members"),
        }
    }
}

impl Group for () {
    type Output = ();
    type ResultShape = ();

    fn spread(self, _: &mut WaitPlan) -> Result<(), Invalid> {
        Ok(())
    }
}

impl ResultShape for () {
    type Output = ();

    fn leaves(&self) -> usize {
        0
    }

    fn each_work(&mut self, _: usize, _: &mut dyn FnMut(usize, &mut Work<'_>)) {}

    fn gather(self, _: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<()> {
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($member:ident $index:tt),+))*) => {$(
        impl<$($member: Group),+> Group for ($($member,)+) {
            type Output = ($($member::Output,)+);
            type ResultShape = ($($member::ResultShape,)+);

            fn spread(self, into: &mut WaitPlan) -> Result<Self::ResultShape, Invalid> {
                Ok(($(self.$index.spread(into)?,)+))
            }
        }

        impl<$($member: ResultShape),+> ResultShape for ($($member,)+) {
            type Output = ($($member::Output,)+);

            fn leaves(&self) -> usize {
                0 $(+ self.$index.leaves())+
            }

            fn each_work(&mut self, at: usize, visit: &mut dyn FnMut(usize, &mut Work<'_>)) {
                let mut at = at;
                $(
                    self.$index.each_work(at, visit);
                    at += self.$index.leaves();
                )+
                let _ = at;
            }

            fn gather(self, next: &mut dyn FnMut() -> FlowResult<Json>) -> FlowResult<Self::Output> {
                Ok(($(self.$index.gather(next)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
