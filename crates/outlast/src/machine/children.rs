//! Children as the steps of their parent see and reach them.

use super::{Context, Signal, StepError};
use crate::client::{Client, Signalling};
use crate::codec::refusal;
use crate::definition::{Durable, Fails, Id};
use outlast_core::{
    CancelAnswer, Child, Error, Instance, InstanceId, Invalid, Json, Note, Status, TerminateAnswer,
};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A child of machine `M`, as its parent sees it.
#[non_exhaustive]
pub struct ChildOf<M: Durable> {
    /// The child's id.
    pub id: Id<M>,
    /// Its position among all children of its fan-out, counted from 0.
    pub position: u32,
    /// Its status; terminal, unless the join did not wait for it.
    pub status: Status,
    /// Its output, when it is done.
    pub output: Option<M::Output>,
    /// Its error, when it failed or was cancelled.
    pub error: Option<String>,
    /// Its error as a value, when it failed with one.
    error_value: Option<Json>,
}

impl<M: Durable> ChildOf<M> {
    pub(super) fn read(child: &Child) -> Result<ChildOf<M>, Invalid> {
        // A failed child has its error value there.
        let (output, error_value) = match child.status {
            Status::Done => (child.result.as_ref(), None),
            Status::Runnable
            | Status::Executing
            | Status::AwaitingSignal
            | Status::Sleeping
            | Status::AwaitingChildren
            | Status::Failed
            | Status::Cancelled => (None, child.result.clone()),
        };
        let output = match output {
            Some(result) => Some(readable(result, "result").and_then(Json::decode).map_err(
                |invalid| {
                    invalid.within(format_args!(
                        "output of child {} ({})",
                        child.id, child.machine
                    ))
                },
            )?),
            None => None,
        };
        Ok(ChildOf {
            id: Id::of(child.id),
            position: child.position.try_into().unwrap_or(0),
            status: child.status,
            output,
            error: child.last_error.clone(),
            error_value,
        })
    }

    /// Returns the error with which it failed, if it failed with one of type `M::Error`.
    ///
    /// It is `None` for a child that ended otherwise and for a failure that is only a text. A
    /// stored value that `M::Error` does not read is an error.
    pub fn downcast(&self) -> Result<Option<M::Error>, StepError>
    where
        M: Fails,
        M::Error: DeserializeOwned,
    {
        let value = self.error_value.as_ref();
        let read = |value| readable(value, "error value").and_then(Json::decode);
        let error = value.map(read).transpose();
        Ok(error.map_err(|invalid| {
            invalid.within(format_args!("error of child {} ({})", self.id, M::NAME))
        })?)
    }

    /// Returns its output, or an error that says that it ended otherwise or is still live.
    pub fn into_output(self) -> Result<M::Output, StepError> {
        let (id, status) = (self.id, self.status);
        self.output.ok_or_else(|| match status.is_terminal() {
            true => {
                let reason = self.error.as_deref().unwrap_or("no reason given");
                StepError::new(format!("child {id} is {status}: {reason}"))
            }
            false => StepError::new(format!("child {id} has not ended: it is {status}")),
        })
    }
}

/// Returns a value, unless the codec refused it.
///
/// It refuses a changed value, and a plain one where only encoded values are accepted.
pub(super) fn readable<'a>(value: &'a Json, what: &str) -> Result<&'a Json, Invalid> {
    match refusal(value) {
        Some(refused) => Err(Invalid::new(what, refused.to_string())),
        None => Ok(value),
    }
}

impl<M: Durable> fmt::Debug for ChildOf<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOf")
            .field("id", &self.id)
            .field("position", &self.position)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// A child that a step of its parent can reach; made by [`Context::child`].
#[derive(Clone, Copy, Debug)]
pub struct ChildHandle<'a> {
    cx: &'a Context,
    id: InstanceId,
    round: i32,
}

impl<'a> ChildHandle<'a> {
    pub(super) fn new(cx: &'a Context, id: InstanceId, round: i32) -> ChildHandle<'a> {
        ChildHandle { cx, id, round }
    }

    /// Returns the child's id.
    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// Returns the fan-out that started it, counted from 1.
    pub fn round(&self) -> u32 {
        self.round.try_into().unwrap_or(0)
    }

    /// Reads the child. It is stored while its parent lives, unless an operator deletes it.
    pub async fn get(&self) -> Result<Option<Instance>, Error> {
        self.client().find(self.id).await
    }

    /// Reads its status; `None` when an operator deleted it.
    pub async fn status(&self) -> Result<Option<Status>, Error> {
        // The status needs no decoding, so this skips the codec.
        let found = self.client().store.get(self.id).await?;
        Ok(found.map(|instance| instance.status))
    }

    /// Sends it a signal: await it.
    ///
    /// A step that runs again sends the same signals under the same keys, so that each arrives
    /// once. The order distinguishes signals of one name. A step that may send different signals
    /// when it runs again must [set the keys](Signalling::dedup).
    pub fn signal<S: Signal>(&self, signal: S) -> Signalling<'a> {
        let earlier = self.cx.sent().count(self.id, S::NAME);
        let visit = self.cx.idempotency_key();
        let key = format!("parent:{visit}:{}:{earlier}", S::NAME);
        self.client().signal(self.id, signal).dedup(key)
    }

    /// Cancels it; see [`Admin::cancel`](crate::client::Admin::cancel). A second cancel is harmless.
    pub async fn cancel(&self, reason: impl fmt::Display) -> Result<CancelAnswer, Error> {
        self.client()
            .admin()
            .cancel(self.id, self.note(reason))
            .await
    }

    /// Terminates it; see [`Admin::terminate`](crate::client::Admin::terminate). A second call is harmless.
    pub async fn terminate(&self, reason: impl fmt::Display) -> Result<TerminateAnswer, Error> {
        self.client()
            .admin()
            .terminate(self.id, self.note(reason))
            .await
    }

    fn client(&self) -> &'a Client {
        self.cx.client()
    }

    fn note(&self, reason: impl fmt::Display) -> Note {
        Note::by(format!("parent {}", self.cx.id())).because(reason.to_string())
    }
}

/// Counts the signals that one run of a step has sent, by child and name.
#[derive(Debug, Default)]
pub(super) struct SentSignals(Mutex<HashMap<(InstanceId, &'static str), u32>>);

impl SentSignals {
    /// Counts one signal, and returns how many came before it.
    fn count(&self, child: InstanceId, name: &'static str) -> u32 {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = sent.entry((child, name)).or_default();
        *earlier += 1;
        *earlier - 1
    }
}
