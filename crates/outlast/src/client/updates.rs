//! Updates: sending them, and waiting for their replies.

use super::handle::FOREVER;
use super::{Admin, Client, Handle};
use crate::error::{LookupError, RequestError, SignalError, decode};
use crate::machine::Request;
use futures_util::future::BoxFuture;
use outlast_core::{
    Delivery, InstanceId, Invalid, Json, KeyText, NewSignal, Reply, ReplyKind, Result, SentUpdate,
    Target, UpdateState,
};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::Instant;

/// The first and the longest pause between two looks for a reply. A node without an engine
/// receives no hints from other nodes.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Client {
    /// Sends an update to an instance, by its id or by `Machine::key(..)`, and waits for the
    /// reply: await it.
    ///
    /// An update is a signal that wants a reply. The code takes it with
    /// [`Context::update`](crate::Context::update), [`Flow::update`](crate::Flow::update) or a
    /// [handler](crate::Flow::on_update). The reply is stored with the outcome that follows.
    ///
    /// ```
    /// # use outlast::{Client, InstanceId, prelude::*};
    /// #[derive(Signal, Serialize, Deserialize)]
    /// #[signal(reply = u64)]
    /// struct ChangePrice {
    ///     to: u64,
    /// }
    ///
    /// # async fn send(client: Client, id: InstanceId) -> outlast::Result<()> {
    /// let old = client.update(id, ChangePrice { to: 5 }).id("request-1234").timeout(MINUTE).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update<R: Request>(&self, target: impl Into<Target>, request: R) -> Updating<'_, R> {
        let target = target.into();
        Updating {
            client: self,
            signal: request.to(target.clone()),
            target,
            id: None,
            at_most: FOREVER,
            request: PhantomData,
        }
    }
}

impl<D> Handle<D> {
    /// Sends it an update, and waits for the reply: await it.
    ///
    /// Set an [id](Updating::id) if the update may be sent again.
    pub fn update<R: Request>(&self, request: R) -> Updating<'_, R> {
        self.client().update(self.id().get(), request)
    }
}

/// An update to send; made by [`Client::update`] and [`Handle::update`]. Await it.
#[must_use = "an update is sent when it is awaited"]
pub struct Updating<'a, R> {
    client: &'a Client,
    signal: Result<NewSignal, Invalid>,
    target: Target,
    id: Option<KeyText>,
    at_most: Duration,
    request: PhantomData<fn(R)>,
}

impl<R> Updating<'_, R> {
    /// Sets the id of the update. Default: a random one.
    ///
    /// An update that is sent again under its id is the same update and has the same reply, while
    /// the instance is stored. The id is the dedup key of the signal.
    pub fn id(mut self, id: impl Into<KeyText>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Waits at most this long for the reply. Default: as long as it takes.
    ///
    /// After that the answer is [`RequestError::TimedOut`], with the id. The update stays; send
    /// it again under its id to wait on.
    pub fn timeout(mut self, at_most: Duration) -> Self {
        self.at_most = at_most;
        self
    }
}

impl<'a, R: Request> IntoFuture for Updating<'a, R> {
    type Output = Result<R::Reply, RequestError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let id = self.id.unwrap_or_else(random_id);
            let signal = self.signal.map_err(|invalid| invalid.during("update"))?;
            let admin = self.client.admin();
            let instance = admin.send_update(signal.update(id.clone())).await?;
            let id = String::from(id);
            let found = admin.update(instance, &id, self.at_most).await?;
            let Some(update) = found else {
                let request = R::NAME.to_owned();
                // The row of the signal is a plain one, or the instance is gone.
                return Err(match self.client.store.get(instance).await? {
                    Some(_) => RequestError::IdTaken { request, id },
                    None => LookupError::NotFound {
                        target: self.target,
                    }
                    .into(),
                });
            };
            reply::<R>(instance, id, update)
        })
    }
}

fn random_id() -> KeyText {
    KeyText::from(format!("{:032x}", fastrand::u128(..)))
}

/// Reads the reply to an update.
fn reply<R: Request>(
    instance: InstanceId,
    id: String,
    update: SentUpdate,
) -> Result<R::Reply, RequestError> {
    let request = R::NAME.to_owned();
    let Reply { kind, data, .. } = match update.state {
        UpdateState::Replied(reply) => reply,
        UpdateState::Pending => return Err(RequestError::TimedOut { request, id }),
        UpdateState::Ended => return Err(RequestError::Ended { request, instance }),
    };
    match kind {
        ReplyKind::Done => decode(&data).map_err(|invalid| RequestError::Undecodable {
            id: instance,
            invalid: invalid.within(format_args!("reply to {request}")),
        }),
        ReplyKind::Failed => Err(RequestError::Failed {
            request,
            error: reason(&data),
        }),
        ReplyKind::Rejected => Err(RequestError::Rejected {
            request,
            reason: reason(&data),
        }),
    }
}

fn reason(data: &Json) -> String {
    data.decode().unwrap_or_else(|_| data.as_str().to_owned())
}

impl Admin<'_> {
    /// Sends an update, and returns the instance that it went to, now or under the same id before.
    ///
    /// The signal has an id ([`NewSignal::update`]). An instance that has ended before is
    /// [`RequestError::Ended`].
    pub async fn send_update(self, signal: NewSignal) -> Result<InstanceId, RequestError> {
        let (request, target) = (signal.name.clone(), signal.target.clone());
        let answers = self.signal_rows(vec![signal]).await?;
        match answers.first() {
            Some(Delivery::Delivered { instance, .. } | Delivery::Duplicate { instance }) => {
                Ok(*instance)
            }
            Some(Delivery::InboxFull { instance }) => {
                Err(RequestError::Signal(SignalError::InboxFull {
                    signal: request,
                    instance: *instance,
                }))
            }
            Some(Delivery::NoTarget) | None => {
                let found = self.client.resolve(target.clone()).await?;
                let found = match found {
                    Some(id) => self.client.store.get(id).await?.map(|it| it.id),
                    None => None,
                };
                Err(match found {
                    Some(instance) => RequestError::Ended { request, instance },
                    None => LookupError::NotFound { target }.into(),
                })
            }
        }
    }

    /// Reads what became of an update by its id, and waits at most this long for its reply.
    ///
    /// `None` when the instance, or the update of this id, does not exist. The id is a
    /// [`KeyText`].
    pub async fn update(
        self,
        instance: impl Into<InstanceId>,
        update: &str,
        at_most: Duration,
    ) -> Result<Option<SentUpdate>> {
        let (client, id) = (self.client, instance.into());
        // A longer time has no representable end.
        let deadline = Instant::now() + at_most.min(FOREVER);
        let watch = client.hub.watch(id);
        let mut pause = FIRST_PAUSE;
        loop {
            let found = client.store.update(id, update).await?;
            let is_pending = found
                .as_ref()
                .is_some_and(|it| it.state == UpdateState::Pending);
            if !is_pending || Instant::now() >= deadline {
                return self.decode_update(id, found).await;
            }
            let next_look = (Instant::now() + pause).min(deadline);
            // A timeout means only that it is time to look.
            let _ = tokio::time::timeout_at(next_look, watch.moved()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn decode_update(
        self,
        id: InstanceId,
        mut found: Option<SentUpdate>,
    ) -> Result<Option<SentUpdate>> {
        let client = self.client;
        if let Some(update) = &mut found
            && let UpdateState::Replied(reply) = &mut update.state
            && !client.coding.is_none()
        {
            let instance = client.store.get(id).await?;
            let machine = instance.map(|it| it.machine).unwrap_or_default();
            let place = (machine.as_str(), id, update.signal);
            reply.data = client.coding.decode_reply(place, &reply.data)?;
        }
        Ok(found)
    }
}

// By hand: the request need not implement `Debug`, and may be secret.
impl<R> fmt::Debug for Updating<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updating")
            .field("target", &self.target)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
