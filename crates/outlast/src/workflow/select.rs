//! Selections, where the first answered call wins, and deadlines of calls and groups.

use super::flow::Flow;
use super::group::{Group, ResultShape, WaitPlan};
use super::replay::runtime::WaitKind;
use super::waiting::Waiting;
use super::{FlowError, FlowResult};
use outlast_core::{Invalid, Json};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The argument of [`Flow::select`]: tuples of two to four calls or groups, or a vector of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no choice of calls",
    label = "write a tuple of two to four calls that are not awaited yet, such as `flow.run(..)`",
    note = "calls of one type may be in a `Vec`"
)]
pub trait Choices: Sized {
    /// The result of the first one, and which it was.
    type Output;
    #[doc(hidden)]
    type Shapes: ResultShape;

    #[doc(hidden)]
    fn spread(self, into: &mut WaitPlan) -> Result<Self::Shapes, Invalid>;

    #[doc(hidden)]
    fn pick(
        shapes: Self::Shapes,
        winner: usize,
        next: &mut dyn FnMut() -> FlowResult<Json>,
    ) -> FlowResult<Self::Output>;
}

/// A selection; created by [`Flow::select`]. Await it.
#[must_use = "await it"]
pub struct Select<C: Choices> {
    waiting: Waiting,
    choices: Option<C>,
    shapes: Option<C::Shapes>,
    window: Option<u32>,
    cancel_rest: bool,
}

// Nothing in it is pinned in place: pinned futures are boxed.
impl<C: Choices> Unpin for Select<C> {}

impl<C: Choices> Select<C> {
    pub(super) fn new(flow: &Flow, choices: C) -> Select<C> {
        Select {
            waiting: Waiting::new(flow.clone(), WaitKind::Selection),
            choices: Some(choices),
            shapes: None,
            window: None,
            cancel_rest: false,
        }
    }

    /// Cancels the children among the others. Default: they continue.
    pub fn cancel_rest(mut self) -> Select<C> {
        self.cancel_rest = true;
        self
    }
}

impl<C: Choices> Future for Select<C> {
    type Output = FlowResult<C::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(choices) = this.choices.take() {
            let mut spread = WaitPlan {
                window: this.window,
                ..WaitPlan::default()
            };
            if let Err(invalid) = spread.check() {
                return Poll::Ready(Err(FlowError::invalid(invalid)));
            }
            match spread.within_cancelled(this.cancel_rest, |spread| choices.spread(spread)) {
                Ok(shapes) => this.shapes = Some(shapes),
                Err(invalid) => return Poll::Ready(Err(FlowError::invalid(invalid))),
            }
            this.waiting.ask(spread);
        }
        let Some(shapes) = &mut this.shapes else {
            return Poll::Pending;
        };
        ready!(this.waiting.poll(shapes, cx))?;
        let resolved = this.waiting.resolved().unwrap_or_default();
        if let Some(failed) = resolved.failed {
            return Poll::Ready(this.waiting.failure(failed));
        }
        let winner = resolved.winner.unwrap_or(0);
        let shapes = this.shapes.take().expect("the shapes are taken once");
        let first = this.waiting.first_leaf(winner);
        this.waiting
            .gather(first, |next| C::pick(shapes, winner, next))
    }
}

impl<G: Group> Choices for Vec<G> {
    /// The index of the first one, and its result.
    type Output = (usize, G::Output);
    type Shapes = Vec<G::ResultShape>;

    fn spread(self, into: &mut WaitPlan) -> Result<Vec<G::ResultShape>, Invalid> {
        if self.is_empty() {
            return Err(Invalid::new(
                "selection",
                "has no members, so none can be the first; add at least one",
            ));
        }
        let members = self.into_iter().map(|member| {
            into.next_member();
            member.spread(into)
        });
        members.collect()
    }

    fn pick(
        shapes: Vec<G::ResultShape>,
        winner: usize,
        next: &mut dyn FnMut() -> FlowResult<Json>,
    ) -> FlowResult<Self::Output> {
        let shape = shapes
            .into_iter()
            .nth(winner)
            .expect("the winner is a member of the selection");
        Ok((winner, shape.gather(next)?))
    }
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident ($($member:ident $variant:ident $index:tt),+))*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the variants count the members")]
        pub enum $name<$($member),+> {
            $($variant($member),)+
        }

        impl<$($member: Group),+> Choices for ($($member,)+) {
            type Output = $name<$($member::Output),+>;
            type Shapes = ($($member::ResultShape,)+);

            fn spread(self, into: &mut WaitPlan) -> Result<Self::Shapes, Invalid> {
                Ok(($({
                    into.next_member();
                    self.$index.spread(into)?
                },)+))
            }

            fn pick(
                shapes: Self::Shapes,
                winner: usize,
                next: &mut dyn FnMut() -> FlowResult<Json>,
            ) -> FlowResult<Self::Output> {
                match winner {
                    $($index => Ok($name::$variant(shapes.$index.gather(next)?)),)+
                    _ => unreachable!("the winner is a member of the selection"),
                }
            }
        }
    )*};
}

choices! {
    /// Which of two was first, with its result.
    OneOf2 (A First 0, B Second 1)
    /// Which of three was first, with its result.
    OneOf3 (A First 0, B Second 1, C Third 2)
    /// Which of four was first, with its result.
    OneOf4 (A First 0, B Second 1, C Third 2, D Fourth 3)
}

/// A call or group with a deadline; created by `timeout` and [`Flow::deadline`]. Await it.
#[must_use = "await it"]
pub struct Within<G: Group> {
    select: Select<(G, super::Call<'static, ()>)>,
}

impl<G: Group> Within<G> {
    pub(super) fn new(flow: &Flow, after: Duration, mut group: G) -> Within<G> {
        let window = group.take_window();
        let mut select = Select::new(flow, (group, flow.sleep(after)));
        select.window = window;
        Within { select }
    }

    /// Cancels the children that still run when the time is up. Default: they continue.
    pub fn cancel_rest(mut self) -> Within<G> {
        self.select = self.select.cancel_rest();
        self
    }
}

impl<G: Group> Future for Within<G> {
    /// `None` when the time was up first.
    type Output = FlowResult<Option<G::Output>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let first = ready!(Pin::new(&mut self.select).poll(cx));
        Poll::Ready(first.map(|first| match first {
            OneOf2::First(output) => Some(output),
            OneOf2::Second(()) => None,
        }))
    }
}
