//! Operators that end instances, and sometimes retry them.

use super::Load;
use crate::ledger::{Entry, now_us};
use outlast::prelude::*;
use outlast::{InstanceId, Note};

/// A way to end an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Cancel,
    Terminate,
    CancelTree,
    TerminateTree,
}

impl Ending {
    pub(super) const ALL: [Ending; 4] = [
        Ending::Cancel,
        Ending::Terminate,
        Ending::CancelTree,
        Ending::TerminateTree,
    ];
    pub(super) const OF_ONE: [Ending; 2] = [Ending::Cancel, Ending::Terminate];
    pub(super) const OF_TREES: [Ending; 2] = [Ending::CancelTree, Ending::TerminateTree];

    fn name(self) -> &'static str {
        match self {
            Ending::Cancel => "cancel",
            Ending::Terminate => "terminate",
            Ending::CancelTree => "cancel_tree",
            Ending::TerminateTree => "terminate_tree",
        }
    }
}

impl Load {
    /// Ends it within this many milliseconds.
    pub(super) fn end_within(&self, id: InstanceId, within_ms: u64, random: fastrand::Rng) {
        self.follow(
            move |load, random| async move { load.end_soon(id, within_ms, random).await },
            random,
        );
    }

    /// Ends it within this many milliseconds, and perhaps retries it. Only for instances without
    /// an inbox: an end empties it, and the retried step would report a timeout.
    pub(super) fn end_and_retry(&self, id: InstanceId, within_ms: u64, random: fastrand::Rng) {
        self.follow(
            move |load, mut random| async move {
                load.end_soon(id, within_ms, random.fork()).await;
                if random.bool() {
                    // A cancelled instance takes time to finish, and a live one cannot be retried.
                    tokio::time::sleep(Duration::from_millis(random.u64(..100))).await;
                    if load
                        .client
                        .admin()
                        .retry(id, Note::by("torture"))
                        .await
                        .is_ok()
                    {
                        load.note_operated("retry", id).await;
                    }
                }
            },
            random,
        );
    }

    async fn end_soon(&self, id: InstanceId, within_ms: u64, mut random: fastrand::Rng) {
        tokio::time::sleep(Duration::from_millis(random.u64(..within_ms))).await;
        self.end(id, Ending::OF_ONE[random.usize(..2)]).await;
    }

    /// Returns whether the end was acknowledged.
    pub(super) async fn end(&self, id: InstanceId, ending: Ending) -> bool {
        let (client, note) = (&self.client, Note::by("torture"));
        let answer = match ending {
            Ending::Cancel => client.admin().cancel(id, note).await.map(drop),
            Ending::Terminate => client.admin().terminate(id, note).await.map(drop),
            Ending::CancelTree => client.admin().cancel_tree(id, note).await.map(drop),
            Ending::TerminateTree => client.admin().terminate_tree(id, note).await.map(drop),
        };
        match answer {
            Ok(()) => self.note_operated(ending.name(), id).await,
            Err(error) => {
                self.errors.note(&error.into());
                return false;
            }
        }
        true
    }

    async fn note_operated(&self, verb: &str, id: InstanceId) {
        let entry = Entry::Operated {
            verb: verb.to_owned(),
            instance: id.0,
            at: now_us(),
        };
        self.ledger.write(&entry).await;
    }
}
