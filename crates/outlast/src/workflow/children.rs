//! Children as their workflow sees them.

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

/// What came of a [signal to a child](ChildRef::signal). A crash does not change it: a signal that was delivered before the
/// worker died is `Delivered` when the code is run again, also if the child has consumed it and has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildSignalAnswer {
    /// The signal is in the inbox of the child, or was.
    Delivered,
    /// The child has ended: nothing would ever read the signal.
    NoTarget,
    /// The child holds as many unconsumed signals as it may.
    InboxFull,
}

/// What came of [asking a child to end](ChildRef::cancel). A crash does not change it: a child that was asked before the
/// worker died was `Requested` to end when the code is run again, also if the child has ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildCancelAnswer {
    /// The child is asked to end: by this call, or by another request that came before its end.
    Requested,
    /// The child is cancelled: it still waited for a place in the window of its group, so nothing of it has run.
    NeverStarted,
    /// The code knows that the child has ended, or the child has ended without being asked to.
    AlreadyEnded,
    /// An operator has removed the child.
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

    /// The call that started it: given once, kept over runs of the child and of this workflow's code.
    pub fn call(&self) -> i32 {
        self.call
    }

    /// The child; `None` before the history has it. That is once it was started with [`start_child`](Flow::start_child), or
    /// was waited for alone; in a group, once it has ended or has begun another run. It stays the same over runs of the child.
    pub fn id(&self) -> Option<InstanceId> {
        self.flow.lock().call(self.call).link().child
    }

    /// Its newest run that this workflow has seen; `None` before it was seen.
    pub fn run(&self) -> Option<i32> {
        let run = self.flow.lock().call(self.call).link().run;
        (run > 0).then_some(run)
    }

    /// Its workflow or machine.
    pub fn machine(&self) -> String {
        let runtime = self.flow.lock();
        let row = runtime.call(self.call).row();
        row.map(|row| row.machine.clone()).unwrap_or_default()
    }

    /// How it ended, if this workflow has seen that.
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

    /// What becomes of it when this workflow ends before it does.
    pub fn on_parent_close(&self) -> ClosePolicy {
        self.flow.lock().policy_of(self.call)
    }

    /// Sends it a signal: await it. It arrives once, however often the workflow is run again.
    pub fn signal<S: Signal>(&self, signal: S) -> Call<'static, ChildSignalAnswer> {
        let payload = signal.payload();
        self.tell(S::NAME, move |client, child, key| async move {
            let payload = payload.map_err(|invalid| invalid.to_string())?;
            let mut message = NewSignal::new(child.into(), S::NAME, payload);
            message.dedup_key = Some(key);
            let answers = client.signal_rows(vec![message]).await;
            let answers = answers.map_err(|error| error.to_string())?;
            Ok(match answers.first() {
                // The key is this call's own: a try before this one has delivered it.
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
        // Seen when the call is made, so that it is the same whenever the code is run again.
        let knows_end = self.status().is_some();
        self.tell("cancel", move |client, child, _| async move {
            let answer = client.cancel(child, note.clone()).await;
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

    /// Something that is sent to the child, as a call that is recorded.
    fn tell<T, F, Fut>(&self, name: &str, send: F) -> Call<'static, T>
    where
        T: Serialize + Send,
        F: FnOnce(Client, InstanceId, String) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, String>> + Send + 'static,
    {
        let (flow, call) = (self.flow.clone(), self.call);
        // Drawn when the call is made, so that it is the same whenever the code is run again.
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
        self.flow.work(CallKind::Tell, name, work)
    }
}

/// What a child that has ended was told before. A worker may have asked it to end and died before that was recorded: the row
/// keeps the request.
async fn asked_before(
    client: &Client,
    child: InstanceId,
    note: &Note,
) -> Result<ChildCancelAnswer, String> {
    let row = client.get(child).await.map_err(|error| error.to_string())?;
    let Some(row) = row else {
        return Ok(ChildCancelAnswer::NotFound);
    };
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("answer-of-a-cancel-goes-by-the-crash") {
        return Ok(ChildCancelAnswer::AlreadyEnded);
    }
    // A child that is ended at once never has the request on its row.
    let was_held = row.status == Status::Cancelled && row.last_error == Some(note.cancellation());
    Ok(match row.cancel {
        Some(_) => ChildCancelAnswer::Requested,
        None if was_held => ChildCancelAnswer::NeverStarted,
        None => ChildCancelAnswer::AlreadyEnded,
    })
}

/// The child of a call: as the history knows it, or, as long as that has not seen it, as the store does.
async fn find(flow: &Flow, client: &Client, call: i32) -> Result<InstanceId, String> {
    let (round, position) = {
        let runtime = flow.lock();
        let it = runtime.call(call).link();
        if let Some(child) = it.found {
            return Ok(child);
        }
        (it.round, it.position)
    };
    let children = client.children_of(flow.id(), round).await;
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
