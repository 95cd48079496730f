//! An update as the code receives it: the request, and the way to reply.

use super::Request;
use outlast_core::{Invalid, Json, NewReply, ReplyKind, SignalId};
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// An update that the code has taken: a request whose sender waits for the reply.
///
/// It reads like the request itself. The reply is stored with the outcome that follows: of the step
/// of a machine, or of the workflow. If that is never written, neither is the reply, and the code
/// takes the update again.
///
/// Code that drops an update without a reply has failed to answer it; the sender is told so.
///
/// ```
/// use outlast::machine::Update;
/// use outlast::prelude::*;
///
/// #[derive(Signal, Serialize, Deserialize)]
/// #[signal(reply = u64)]
/// struct ChangePrice {
///     to: u64,
/// }
///
/// #[workflow]
/// async fn sell(flow: Flow, mut price: u64) -> FlowResult<u64> {
///     let change: Update<ChangePrice> = flow.update().await?;
///     if change.to == 0 {
///         change.reject("nothing is free");
///     } else {
///         let old = price;
///         price = change.to;
///         change.reply(old)?;
///     }
///     Ok(price)
/// }
/// ```
#[must_use = "reply to it, or reject it"]
pub struct Update<R> {
    request: Option<R>,
    id: Option<String>,
    signal: SignalId,
    replies: Arc<dyn TakeReply>,
}

/// Keeps a reply until it is written.
pub(crate) trait TakeReply: Send + Sync {
    fn take(&self, reply: NewReply);
}

impl<R: Request> Update<R> {
    /// Replies with a value, and returns the request.
    pub fn reply(mut self, value: R::Reply) -> Result<R, Invalid> {
        let data = Json::of(&value).map_err(|invalid| invalid.within("reply"))?;
        let reply = NewReply {
            signal: self.signal,
            kind: ReplyKind::Done,
            data,
        };
        self.replies.take(reply);
        Ok(self.request.take().expect("no other method takes it"))
    }
}

impl<R> Update<R> {
    pub(crate) fn new(
        request: R,
        (signal, id): (SignalId, Option<String>),
        replies: Arc<dyn TakeReply>,
    ) -> Update<R> {
        Update {
            request: Some(request),
            id,
            signal,
            replies,
        }
    }

    /// Replies that the request is rejected, and returns it.
    pub fn reject(mut self, reason: impl Display) -> R {
        let reason = reason.to_string();
        let reply = NewReply::because(self.signal, ReplyKind::Rejected, &reason);
        self.replies.take(reply);
        self.request.take().expect("no other method takes it")
    }

    /// Returns its id, which the sender chose; `None` for a plain signal, which has no reply.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl<R> Deref for Update<R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.request.as_ref().expect("a reply consumes the update")
    }
}

impl<R> Drop for Update<R> {
    fn drop(&mut self) {
        if self.request.is_some() {
            let reason = "the code did not reply";
            self.replies
                .take(NewReply::because(self.signal, ReplyKind::Failed, reason));
        }
    }
}

// By hand: the request need not implement `Debug`, and may be secret.
impl<R> fmt::Debug for Update<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update")
            .field("id", &self.id)
            .field("signal", &self.signal)
            .finish_non_exhaustive()
    }
}

/// The replies of one run of a step.
#[derive(Debug, Default)]
pub(crate) struct StepReplies(Mutex<Vec<NewReply>>);

impl StepReplies {
    /// Returns whether an update was answered.
    pub(super) fn has(&self, signal: SignalId) -> bool {
        let replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        replies.iter().any(|reply| reply.signal == signal)
    }

    /// Takes the replies so far.
    pub(super) fn taken(&self) -> Vec<NewReply> {
        let mut replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *replies)
    }
}

impl TakeReply for StepReplies {
    fn take(&self, reply: NewReply) {
        let mut replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        replies.push(reply);
    }
}
