//! `ChildRef`: a child as its workflow sees it, and the messages that the workflow can send to it.
//!
//! What it returns comes from the history, so that a replay returns the same.

use super::FlowErrorKind;
use super::call::Call;
use super::flow::Flow;
use super::replay::events::{CallKind, Failed};
use super::replay::runtime::Answered;
use super::waiting::Work;
use crate::Client;
use crate::machine::Signal;
use outlast_core::{
    CancelAnswer, ClosePolicy, Delivery, InstanceId, Json, NewSignal, Note, Status,
};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

/// The result of a [signal to a child](ChildRef::signal).
///
/// A crash does not change it. A signal that was delivered before the worker died is `Delivered`
/// when the code runs again. That holds even if the child has consumed it and has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildSignalAnswer {
    /// The signal is or was in the inbox of the child.
    Delivered,
    /// The child has ended and would never read the signal.
    NoTarget,
    /// The child already holds as many unconsumed signals as it may.
    InboxFull,
}

/// The result of a [cancel of a child](ChildRef::cancel).
///
/// A crash does not change it. A child that was asked to end before the worker died is `Requested`
/// when the code runs again. That holds even if the child has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildCancelAnswer {
    /// The child was asked to end, by this call or by an earlier request before its end.
    Requested,
    /// The child is cancelled. It still waited for a place in the window of its group, so none of
    /// its code has run.
    NeverStarted,
    /// The code knows that the child has ended, or the child ended without being asked to.
    AlreadyEnded,
    /// An operator has deleted the child.
    NotFound,
}

/// A child that this run has started, as its history knows it.
#[derive(Clone)]
pub struct ChildRef {
    flow: Flow,
    call: i32,
}

impl ChildRef {
    pub(super) fn new(flow: &Flow, call: i32) -> ChildRef {
        ChildRef {
            flow: flow.clone(),
            call,
        }
    }

    /// Returns the number of the call that started it.
    ///
    /// It stays the same over runs of the child and replays of this workflow.
    pub fn call(&self) -> i32 {
        self.call
    }

    /// Returns the child; `None` before it is started.
    ///
    /// Whatever makes the code go on after that, it knows the id: a call that returns, a signal, a
    /// timer or a cancel. That holds for children that are spawned, awaited alone, and in groups
    /// and selections. The id stays the same over runs of the child.
    ///
    /// It is also `None` if the child could not be started, and in histories of
    /// [25,000 events](outlast_core::limits::HISTORY_WITH_STARTS_MAX) for the children of a group.
    pub fn id(&self) -> Option<InstanceId> {
        self.flow.lock().call(self.call).link().child
    }

    /// Returns its newest run that this workflow has seen; `None` before it is started.
    ///
    /// A workflow sees new runs of the children that it waits for when it is woken. They do not
    /// wake it.
    pub fn run(&self) -> Option<i32> {
        let run = self.flow.lock().call(self.call).link().run;
        (run > 0).then_some(run)
    }

    /// Returns its workflow or machine.
    pub fn machine(&self) -> String {
        let runtime = self.flow.lock();
        let row = runtime.call(self.call).row();
        row.map(|row| row.machine.clone()).unwrap_or_default()
    }

    /// Returns how it ended, if this workflow has seen that.
    pub fn status(&self) -> Option<Status> {
        let runtime = self.flow.lock();
        let end = runtime.call(self.call).end.as_ref()?;
        Some(match &end.answer {
            Answered::Well(_) | Answered::Given => Status::Done,
            Answered::Child(FlowErrorKind::ChildCancelled | FlowErrorKind::ChildTerminated, _) => {
                Status::Cancelled
            }
            Answered::Child(..) | Answered::Step(_) => Status::Failed,
        })
    }

    /// Returns what happens to it when this workflow ends first.
    pub fn on_parent_close(&self) -> ClosePolicy {
        self.flow.lock().policy_of(self.call)
    }

    /// Sends it a signal: await it. The signal arrives once, however often the workflow runs
    /// again.
    pub fn signal<S: Signal>(&self, signal: S) -> Call<'static, ChildSignalAnswer> {
        let payload = signal.payload();
        self.send(S::NAME, move |client, child, key| async move {
            let payload = payload.map_err(|invalid| invalid.to_string())?;
            let mut message = NewSignal::new(child.into(), S::NAME, payload);
            message.dedup_key = Some(key);
            let answers = client.admin().signal_rows(vec![message]).await;
            let answers = answers.map_err(|error| error.to_string())?;
            Ok(match answers.first() {
                // Only this call uses the key, so an earlier attempt has delivered the signal.
                Some(Delivery::Delivered { .. } | Delivery::Duplicate { .. }) => {
                    ChildSignalAnswer::Delivered
                }
                Some(Delivery::InboxFull { .. }) => ChildSignalAnswer::InboxFull,
                Some(Delivery::NoTarget) | None => ChildSignalAnswer::NoTarget,
            })
        })
    }

    /// Asks it to end: await it.
    pub fn cancel(&self, reason: impl Display) -> Call<'static, ChildCancelAnswer> {
        let parent = self.flow.id();
        let note = Note::by(format!("parent {parent}")).because(reason.to_string());
        // Read when the call is made, so that the value is the same whenever the code runs again.
        let knows_end = self.status().is_some();
        self.send("cancel", move |client, child, _| async move {
            let answer = client.admin().cancel(child, note.clone()).await;
            Ok(match answer.map_err(|error| error.to_string())? {
                CancelAnswer::Requested(_) | CancelAnswer::AlreadyRequested(_) => {
                    ChildCancelAnswer::Requested
                }
                CancelAnswer::NeverStarted => ChildCancelAnswer::NeverStarted,
                CancelAnswer::AlreadyEnded(_) if knows_end => ChildCancelAnswer::AlreadyEnded,
                CancelAnswer::AlreadyEnded(_) => asked_before(&client, child, &note).await?,
                CancelAnswer::NotFound => ChildCancelAnswer::NotFound,
            })
        })
    }

    /// Creates a recorded call that sends a message to the child.
    fn send<T, F, Fut>(&self, name: &str, send: F) -> Call<'static, T>
    where
        T: Serialize + Send,
        F: FnOnce(Client, InstanceId, String) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, String>> + Send + 'static,
    {
        let (flow, call) = (self.flow.clone(), self.call);
        // Drawn when the call is made, so that the key is the same whenever the code runs again.
        let key = format!("flow:{}:{}", flow.id(), flow.uuid());
        let work = Work::new(move || async move {
            let failed = |error: String| Failed {
                kind: "error".into(),
                error,
            };
            let Some(client) = flow.client().cloned() else {
                return Err(failed(
                    "nothing is sent while a history is only read".into(),
                ));
            };
            let child = find(&flow, &client, call).await.map_err(failed)?;
            let answer = send(client, child, key).await.map_err(failed)?;
            Json::of(&answer).map_err(|invalid| failed(invalid.to_string()))
        });
        self.flow.work(CallKind::Message, name, work)
    }
}

/// Returns how a finished child had been asked to end before, if it was.
///
/// A worker may have asked it and died before that was recorded. The row keeps the request.
async fn asked_before(
    client: &Client,
    child: InstanceId,
    note: &Note,
) -> Result<ChildCancelAnswer, String> {
    let row = client
        .find(child)
        .await
        .map_err(|error| error.to_string())?;
    let Some(row) = row else {
        return Ok(ChildCancelAnswer::NotFound);
    };
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("answer-of-a-cancel-goes-by-the-crash") {
        return Ok(ChildCancelAnswer::AlreadyEnded);
    }
    // A held child is cancelled at once, so its row never has the request.
    let was_held = row.status == Status::Cancelled && row.last_error == Some(note.cancellation());
    Ok(match row.cancel {
        Some(_) => ChildCancelAnswer::Requested,
        None if was_held => ChildCancelAnswer::NeverStarted,
        None => ChildCancelAnswer::AlreadyEnded,
    })
}

/// Finds the child of a call: in the history, or in the store if the history has not seen it.
async fn find(flow: &Flow, client: &Client, call: i32) -> Result<InstanceId, String> {
    let (round, position) = {
        let runtime = flow.lock();
        let it = runtime.call(call).link();
        if let Some(child) = it.found {
            return Ok(child);
        }
        (it.round, it.position)
    };
    let children = client.admin().children_of(flow.id(), round).await;
    let children = children.map_err(|error| error.to_string())?;
    let child = children.iter().find(|child| child.position == position);
    let child = child.map(|child| child.id);
    child.ok_or_else(|| "the child was not started, or was removed".into())
}

impl fmt::Debug for ChildRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildRef")
            .field("call", &self.call)
            .field("id", &self.id())
            .field("run", &self.run())
            .field("status", &self.status())
            .finish()
    }
}
