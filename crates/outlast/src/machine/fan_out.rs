//! Fan-out: starting children, and the conditions that wake their parent.

use super::{Context, Machine, Outcome, StepResult};
use outlast_core::limits::CHILDREN_MAX;
use outlast_core::{ClosePolicy, Invalid, Join, NewInstance, Until};
use std::time::Duration;

/// Children without a joining step yet; made by [`fan_out`].
///
/// | to continue | write |
/// |---|---|
/// | when every child has finished, successfully or not (the default) | [`.all()`](FanOut::all) |
/// | as soon as a child has failed or was cancelled | [`.fail_fast()`](FanOut::fail_fast) |
/// | when `k` children are done, or can no longer be done | [`.quorum(k)`](FanOut::quorum) |
/// | when one child is done, or none can be done any more | [`.any()`](FanOut::any) |
/// | after this long at the latest | [`.deadline(d)`](FanOut::deadline) |
///
/// [`Context::joined`] gives the reason to the woken step. Children that are still live continue.
/// [`.cancel_rest()`](FanOut::cancel_rest) and [`.terminate_rest()`](FanOut::terminate_rest)
/// change that.
#[must_use = "say with `then` which step joins the children"]
#[derive(Debug)]
pub struct FanOut {
    children: Vec<Result<NewInstance, Invalid>>,
    /// The chosen condition and its method. A second choice is a mistake that the outcome reports.
    until: Option<(Until, &'static str)>,
    rest: Option<ClosePolicy>,
    deadline: Option<Duration>,
    window: Option<usize>,
    policy: ClosePolicy,
    mistake: Option<Invalid>,
}

/// Starts children and parks the instance until every child has finished, successfully or not.
///
/// The methods of [`FanOut`] change that condition.
///
/// ```
/// # use outlast::prelude::*;
/// # struct Line; #[steps] enum L { Pack(u32) }
/// # impl Machine for Line { const NAME: &'static str = "line"; type State = L; type Output = u32;
/// # async fn step(&self, state: L, cx: &Context) -> StepResult<Self> { done(1) } }
/// # struct M; #[steps] enum Order { Join }
/// # impl Machine for M { const NAME: &'static str = "m"; type State = Order; type Output = ();
/// # async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> { let lines = [1, 2];
/// fan_out(lines.map(|line| Line::with(L::Pack(line))))
///     .fail_fast()
///     .cancel_rest()
///     .deadline(HOUR)
///     .then(Order::Join)
/// # } }
/// ```
pub fn fan_out<C>(children: impl IntoIterator<Item = C>) -> FanOut
where
    C: TryInto<NewInstance>,
    C::Error: Into<Invalid>,
{
    FanOut {
        children: Vec::new(),
        until: None,
        rest: None,
        deadline: None,
        window: None,
        policy: ClosePolicy::Abandon,
        mistake: None,
    }
    .and(children)
}

impl FanOut {
    /// Adds children, perhaps of another machine. All of them are one round.
    pub fn and<C>(mut self, children: impl IntoIterator<Item = C>) -> FanOut
    where
        C: TryInto<NewInstance>,
        C::Error: Into<Invalid>,
    {
        let children = children.into_iter();
        self.children
            .extend(children.map(|child| child.try_into().map_err(Into::into)));
        self
    }

    /// Waits until every child has finished, successfully or not. This is the default.
    pub fn all(self) -> FanOut {
        self.until(Until::All, "all")
    }

    /// Waits until every child has finished, or until one fails or is cancelled.
    pub fn fail_fast(self) -> FanOut {
        self.until(Until::FailFast, "fail_fast")
    }

    /// Waits until `k` children are done, or can no longer be done.
    ///
    /// `k` can no longer be done when too many children have ended otherwise. A child that was not
    /// started because its key was occupied counts as ended otherwise.
    pub fn quorum(self, k: u32) -> FanOut {
        self.until(Until::Quorum(k), "quorum")
    }

    /// Waits until one child is done, or until none can be done any more: a quorum of one.
    pub fn any(self) -> FanOut {
        self.until(Until::Quorum(1), "any")
    }

    /// Waits no longer than this, counted from the fan-out.
    ///
    /// The step then sees the children so far.
    pub fn deadline(mut self, deadline: Duration) -> FanOut {
        self.deadline = Some(deadline);
        self
    }

    /// Runs at most `n` of the children at a time, in order.
    ///
    /// The next child starts when a running one finishes. A child keeps its place while it waits
    /// for a signal or for its children.
    pub fn window(mut self, n: usize) -> FanOut {
        self.window = Some(n);
        self
    }

    /// Cancels the children that are still live when this instance is woken.
    ///
    /// Their machines decide how they end, in [`on_cancel`](super::Machine::on_cancel).
    pub fn cancel_rest(self) -> FanOut {
        self.rest(ClosePolicy::RequestCancel)
    }

    /// Terminates the children that are still live when this instance is woken.
    pub fn terminate_rest(self) -> FanOut {
        self.rest(ClosePolicy::Terminate)
    }

    /// Sets what happens to live children when this instance ends. Default: they continue.
    ///
    /// A child whose [own policy](crate::New::on_parent_close) is not to continue keeps that
    /// policy.
    pub fn on_parent_close(mut self, policy: ClosePolicy) -> FanOut {
        self.policy = policy;
        self
    }

    /// Goes to this step, with its state, when the join is decided.
    pub fn then<M: Machine>(self, state: M::State) -> StepResult<M> {
        Ok(Outcome::fan_out(self, state))
    }

    fn until(mut self, until: Until, name: &'static str) -> FanOut {
        if let Some((_, before)) = self.until {
            self.mistaken(format!(
                "has both .{before}() and .{name}(); call one of them"
            ));
        }
        self.until = Some((until, name));
        self
    }

    fn rest(mut self, policy: ClosePolicy) -> FanOut {
        if self.rest.is_some_and(|before| before != policy) {
            self.mistaken("has both .cancel_rest() and .terminate_rest(); call one of them".into());
        }
        self.rest = Some(policy);
        self
    }

    fn mistaken(&mut self, reason: String) {
        let mistake = || Invalid::new("fan-out", reason);
        self.mistake.get_or_insert_with(mistake);
    }

    /// Returns the children and the join for the store.
    ///
    /// Children without a trace get their parent's.
    pub(super) fn record(mut self, cx: &Context) -> Result<(Vec<NewInstance>, Join), Invalid> {
        let join = self.join()?;
        let policy = self.policy;
        let children = self.children.into_iter().enumerate();
        let children = children.map(|(position, child)| {
            let mut child =
                child.map_err(|invalid| invalid.within(format_args!("child {position}")))?;
            child.trace = child.trace.or_else(|| cx.trace().map(str::to_owned));
            if child.on_parent_close == ClosePolicy::Abandon {
                child.on_parent_close = policy;
            }
            Ok(child)
        });
        Ok((children.collect::<Result<_, Invalid>>()?, join))
    }

    fn join(&mut self) -> Result<Join, Invalid> {
        let until = self.until.map_or(Until::All, |(until, _)| until);
        let waits_for_all = until == Until::All && self.deadline.is_none();
        if waits_for_all && self.rest.is_some() {
            self.mistaken(
                "waits for all of its children, so there is no rest to end; say .fail_fast(), .quorum(k), .any() or \
                 .deadline(..), or leave the rest out"
                    .into(),
            );
        }
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        Ok(Join {
            until,
            deadline: self.deadline,
            window: self.window.map(|n| n.min(CHILDREN_MAX) as u32),
            rest: self.rest.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> FanOut {
        fan_out(std::iter::empty::<NewInstance>())
    }

    fn refusal(mut fan_out: FanOut) -> String {
        fan_out.join().unwrap_err().to_string()
    }

    #[test]
    fn the_settings_of_a_fan_out_are_those_of_its_join() {
        assert_eq!(none().join(), Ok(Join::default()));
        assert_eq!(none().all().join(), Ok(Join::default()));
        let mut join = none()
            .quorum(2)
            .deadline(Duration::from_secs(5))
            .window(7)
            .terminate_rest();
        let expected = Join {
            until: Until::Quorum(2),
            deadline: Some(Duration::from_secs(5)),
            window: Some(7),
            rest: ClosePolicy::Terminate,
        };
        assert_eq!(join.join(), Ok(expected));
        let any = none().any().join().map(|join| join.until);
        assert_eq!(any, Ok(Until::Quorum(1)));
    }

    #[test]
    fn conflicting_join_settings_are_refused_by_name() {
        let both = refusal(none().fail_fast().quorum(2));
        assert!(
            both.contains(".fail_fast()") && both.contains(".quorum()"),
            "{both}"
        );
        let both = refusal(none().any().cancel_rest().terminate_rest());
        assert!(both.contains(".terminate_rest()"), "{both}");
    }

    #[test]
    fn a_join_of_all_has_no_rest_without_a_deadline() {
        let refused = refusal(none().cancel_rest());
        assert!(refused.contains("no rest"), "{refused}");
        let mut late = none().deadline(Duration::from_secs(1)).cancel_rest();
        assert!(late.join().is_ok());
    }
}
