//! Expectations of a test about an instance. A failed expectation panics and shows the whole
//! instance.

use crate::definition::Durable;
use outlast_core::{Instance, Status};
use std::fmt::{self, Debug};
use std::marker::PhantomData;

/// An instance to compare with the expectations of a test.
///
/// [`Harness::expect`](super::Harness::expect) creates it.
pub struct Expected<D> {
    instance: Instance,
    definition: PhantomData<fn() -> D>,
}

impl<D: Durable> Expected<D> {
    pub(super) fn new(instance: Instance) -> Expected<D> {
        Expected {
            instance,
            definition: PhantomData,
        }
    }

    /// Returns the instance.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Expects this status.
    #[track_caller]
    pub fn is(self, status: Status) -> Self {
        self.check("status", &self.instance.status, &status);
        self
    }

    /// Expects this step.
    #[track_caller]
    pub fn at_step(self, step: &str) -> Self {
        self.check("step", &self.instance.step.as_str(), &step);
        self
    }

    /// Expects this many earlier attempts of its step.
    #[track_caller]
    pub fn tried(self, attempts: u32) -> Self {
        let tried = u32::try_from(self.instance.attempt).unwrap_or(0);
        self.check("attempt", &tried, &attempts);
        self
    }

    /// Expects it to wait for signals of these names, in any order.
    #[track_caller]
    pub fn awaits<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let this = self.is(Status::AwaitingSignal);
        let mut awaited: Vec<_> = this
            .instance
            .awaits
            .iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let mut names: Vec<_> = names.into_iter().collect();
        awaited.sort_unstable();
        names.sort_unstable();
        let same = awaited == names;
        assert!(same, "it awaits {awaited:?}, not {names:?}: {this:?}");
        this
    }

    /// Expects it to wait for a moment and nothing else.
    #[track_caller]
    pub fn sleeps(self) -> Self {
        self.is(Status::Sleeping)
    }

    /// Expects it to wait for its children.
    #[track_caller]
    pub fn awaits_children(self) -> Self {
        self.is(Status::AwaitingChildren)
    }

    /// Expects it to be done.
    #[track_caller]
    pub fn is_done(self) -> Self {
        self.is(Status::Done)
    }

    /// Expects it to be done with this output.
    #[track_caller]
    pub fn is_done_with(self, output: &D::Output) -> Self
    where
        D::Output: PartialEq + Debug,
    {
        let this = self.is_done();
        let found = this.output();
        this.check("output", &found, output);
        this
    }

    /// Expects it to have failed with an error that contains this text.
    #[track_caller]
    pub fn is_failed_with(self, part: &str) -> Self {
        self.is(Status::Failed).has_error(part)
    }

    /// Expects it to be cancelled with a reason that contains this text.
    #[track_caller]
    pub fn is_cancelled_with(self, part: &str) -> Self {
        self.is(Status::Cancelled).has_error(part)
    }

    /// Expects a requested cancel with a reason that contains this text, answered or not.
    #[track_caller]
    pub fn was_asked_to_end(self, part: &str) -> Self {
        let cancel = self.instance.cancel.as_ref();
        let reason = cancel.map_or("", |cancel| cancel.reason.as_str());
        assert!(
            cancel.is_some() && reason.contains(part),
            "it was not asked to end with {part:?}: {self:?}"
        );
        self
    }

    /// Expects an error that contains this text: the final one, or that of an attempt.
    #[track_caller]
    pub fn has_error(self, part: &str) -> Self {
        let error = self.instance.last_error.as_deref().unwrap_or_default();
        assert!(
            error.contains(part),
            "its error does not contain {part:?}: {self:?}"
        );
        self
    }

    /// Returns its output.
    #[track_caller]
    pub fn output(&self) -> D::Output {
        let Some(result) = &self.instance.result else {
            panic!("it has no output: {self:?}");
        };
        match result.decode() {
            Ok(output) => output,
            Err(invalid) => panic!("its output {invalid}: {self:?}"),
        }
    }

    #[track_caller]
    fn check<T: PartialEq + Debug>(&self, what: &str, found: &T, expected: &T) {
        assert!(
            found == expected,
            "its {what} is {found:?}, not {expected:?}: {self:?}"
        );
    }
}

impl<D> fmt::Debug for Expected<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance {
            id,
            machine,
            status,
            step,
            state,
            attempt,
            awaits,
            result,
            last_error,
            cancel,
            ..
        } = &self.instance;
        // A test needs to see the payload.
        write!(
            f,
            "instance {id} of {machine} is {status} at step {step} (attempt {attempt}) with {}",
            state.as_str()
        )?;
        if let Some(awaits) = awaits {
            write!(f, ", awaits {awaits:?}")?;
        }
        if let Some(result) = result {
            write!(f, ", result {}", result.as_str())?;
        }
        if let Some(error) = last_error {
            write!(f, ", error {error:?}")?;
        }
        if let Some(cancel) = cancel {
            write!(f, ", asked to end: {:?}", cancel.reason)?;
        }
        Ok(())
    }
}
