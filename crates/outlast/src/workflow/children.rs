//! Children as their workflow sees them.

use super::FlowErrorKind;
use super::call::Call;
use super::events::{CallKind, Failed};
use super::flow::Flow;
use super::runtime::Answered;
use super::waiting::Work;
use crate::machine::Signal;
use outlast_core::{
    CancelAnswer, ClosePolicy, Delivery, InstanceId, Json, NewSignal, Note, Status,
};
use std::fmt::{self, Display};

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

    /// Sends it a signal: await it. It arrives once, however often the workflow is run again. The answer is a word:
    /// `delivered`, `no_target` or `inbox_full`.
    pub fn signal<S: Signal>(&self, signal: S) -> Call<'static, String> {
        let payload = signal.payload();
        self.tell(S::NAME, move |client, child, key| async move {
            let payload = payload.map_err(|invalid| invalid.to_string())?;
            let mut message = NewSignal::new(child.into(), S::NAME, payload);
            message.dedup_key = Some(key);
            let answers = client.signal_rows(vec![message]).await;
            let answers = answers.map_err(|error| error.to_string())?;
            Ok(match answers.first() {
                // The key is this call's own: a try before this one has delivered it.
                Some(Delivery::Delivered { .. } | Delivery::Duplicate { .. }) => "delivered",
                Some(Delivery::InboxFull { .. }) => "inbox_full",
                Some(Delivery::NoTarget) | None => "no_target",
            })
        })
    }

    /// Asks it to end: await it. The answer is a word.
    pub fn cancel(&self, reason: impl Display) -> Call<'static, String> {
        let parent = self.flow.id();
        let note = Note::by(format!("parent {parent}")).because(reason.to_string());
        self.tell("cancel", move |client, child, _| async move {
            let answer = client.cancel(child, note).await;
            let answer = answer.map_err(|error| error.to_string())?;
            Ok(match answer {
                CancelAnswer::Requested(_) | CancelAnswer::AlreadyRequested(_) => "requested",
                CancelAnswer::NeverStarted => "never_started",
                CancelAnswer::AlreadyEnded(_) => "already_ended",
                CancelAnswer::NotFound => "not_found",
            })
        })
    }

    /// Something that is sent to the child, as a call that is recorded.
    fn tell<F, Fut>(&self, name: &str, send: F) -> Call<'static, String>
    where
        F: FnOnce(crate::Client, InstanceId, String) -> Fut + Send + 'static,
        Fut: Future<Output = Result<&'static str, String>> + Send + 'static,
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
            Json::of(answer).map_err(|invalid| failed(invalid.to_string()))
        });
        self.flow.work(CallKind::Tell, name, work)
    }
}

/// The child of a call: as the history knows it, or, as long as that has not seen it, as the store does.
async fn find(flow: &Flow, client: &crate::Client, call: i32) -> Result<InstanceId, String> {
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
