//! Senders of updates, which send again under the same id until they are told what became of it.

use super::{Load, SENDS_MAX};
use crate::ledger::{Answer, Entry, Tail, Told, now_us};
use crate::machines::{Ask, Desk, Plea, Query, Shift, Way, of_update_id, update_id};
use anyhow::Result;
use outlast::client::RequestError;
use outlast::machine::Request;
use outlast::prelude::*;
use outlast::{InstanceId, LookupError, SignalError};
use serde_json::Value;
use std::collections::HashSet;
use tokio::task::JoinSet;

/// How often a worker looks for updates that it could send too. It sends one of this many, and
/// this often.
const AGAIN_PAUSE: Duration = Duration::from_millis(50);
const AGAIN_ONE_OF: u32 = 6;
const AGAIN_MAX: u32 = 2;

impl Load {
    /// Starts a machine that answers updates.
    pub(super) async fn start_desk(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let want = random.u64(1..6);
        let new = Desk::with(Shift::Open {
            token,
            want,
            patience_ms: random.u64(300..1_500),
        });
        if let Some(id) = self.insert(token, new, None).await? {
            let id: InstanceId = id.into();
            if self.mix.operators && random.u32(..15) == 0 {
                self.end_within(id, 1_000, random.fork());
            }
            self.follow(
                move |load, mut random| async move {
                    for _ in 0..random.u64(1..want + 3) {
                        tokio::time::sleep(Duration::from_millis(random.u64(..100))).await;
                        let query = |number, way| Query { number, way };
                        load.send(id, query, &mut random).await;
                    }
                },
                random.fork(),
            );
        }
        Ok(())
    }

    /// Sends a journey updates of both kinds.
    pub(super) async fn send_to_journey(self, id: InstanceId, mut random: fastrand::Rng) {
        for _ in 0..random.u32(1..4) {
            tokio::time::sleep(Duration::from_millis(random.u64(..150))).await;
            match random.u32(..3) {
                0 => {
                    let plea = |number, way| Plea { number, way };
                    self.send(id, plea, &mut random).await;
                }
                _ => {
                    let ask = |number, way| Ask { number, way };
                    self.send(id, ask, &mut random).await;
                }
            }
        }
    }

    /// Sends an update, sometimes from several tasks at once, and sometimes again after its reply.
    async fn send<R>(&self, to: InstanceId, request: fn(u64, Way) -> R, random: &mut fastrand::Rng)
    where
        R: Request<Reply = u64> + Send,
    {
        let number = random.u64(..1 << 53);
        let way = Way::ALL[random.usize(..Way::ALL.len())];
        let mut senders = JoinSet::new();
        let tasks = match random.u32(..3) {
            0 => 3,
            _ => 1,
        };
        for _ in 0..tasks {
            let (load, random) = (self.clone(), random.fork());
            senders.spawn(async move {
                load.send_until_told(to, request, (number, way), SENDS_MAX, random)
                    .await;
            });
        }
        senders.join_all().await;
        if random.u32(..4) == 0 {
            tokio::time::sleep(Duration::from_millis(random.u64(..3_000))).await;
            self.send_until_told(to, request, (number, way), SENDS_MAX, random.fork())
                .await;
        }
    }

    /// Sends some of the updates again that another process sends, under their ids.
    pub(crate) async fn send_again(self, mut others: Tail) {
        let (mut random, mut seen) = (fastrand::Rng::new(), HashSet::new());
        loop {
            tokio::time::sleep(AGAIN_PAUSE).await;
            for entry in others.read().unwrap_or_default() {
                if let Entry::Sent {
                    instance, update, ..
                } = entry
                    && seen.insert(update.clone())
                    && random.u32(..AGAIN_ONE_OF) == 0
                {
                    let repeat = |load: Load, random| async move {
                        load.repeat(InstanceId(instance), &update, random).await;
                    };
                    self.follow(repeat, random.fork());
                }
            }
        }
    }

    async fn repeat(self, to: InstanceId, update: &str, random: fastrand::Rng) {
        let Some((name, way, number)) = of_update_id(update) else {
            return;
        };
        let it = (number, way);
        match name {
            "ask" => {
                let ask = |number, way| Ask { number, way };
                self.send_until_told(to, ask, it, AGAIN_MAX, random).await;
            }
            "plea" => {
                let plea = |number, way| Plea { number, way };
                self.send_until_told(to, plea, it, AGAIN_MAX, random).await;
            }
            _ => {
                let query = |number, way| Query { number, way };
                self.send_until_told(to, query, it, AGAIN_MAX, random).await;
            }
        }
    }

    /// Sends an update until its sender is told the reply, the rejection, or the end.
    async fn send_until_told<R>(
        &self,
        to: InstanceId,
        request: fn(u64, Way) -> R,
        (number, way): (u64, Way),
        sends_max: u32,
        mut random: fastrand::Rng,
    ) where
        R: Request<Reply = u64> + Send,
    {
        let update = update_id(R::NAME, way, number);
        for _ in 0..sends_max {
            let asked_at = now_us();
            let sent = Entry::Sent {
                instance: to.0,
                update: update.clone(),
                at: asked_at,
            };
            self.ledger.write(&sent).await;
            let patience = Duration::from_millis(random.u64(50..1_500));
            let request = request(number, way);
            let sent = self.client.update(to, request).id(update.as_str());
            let (answer, reply) = match sent.timeout(patience).await {
                Ok(reply) => (Answer::Done, Some(Value::from(reply))),
                Err(RequestError::Rejected { reason, .. }) => {
                    (Answer::Rejected, Some(Value::from(reason)))
                }
                Err(RequestError::Failed { error, .. }) => {
                    (Answer::Failed, Some(Value::from(error)))
                }
                Err(RequestError::Ended { .. }) => (Answer::Ended, None),
                Err(RequestError::TimedOut { .. }) => (Answer::Pending, None),
                Err(RequestError::IdTaken { .. }) => (Answer::Missing, None),
                // Not sent, or collected.
                Err(
                    RequestError::Signal(SignalError::InboxFull { .. })
                    | RequestError::Lookup(LookupError::NotFound { .. }),
                ) => return,
                Err(error) => {
                    self.errors.note(&error.into());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let told = Told {
                instance: to.0,
                update: update.clone(),
                answer,
                reply,
                asked_at,
                at: now_us(),
            };
            self.ledger.write(&Entry::Told(told)).await;
            if answer != Answer::Pending {
                return;
            }
            tokio::time::sleep(Duration::from_millis(random.u64(100..1_000))).await;
        }
    }
}
