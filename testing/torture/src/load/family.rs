//! Families, some of which are ended early, and trees that finish only when an operator ends them.

use super::Load;
use super::ending::Ending;
use crate::ledger::{Entry, now_us};
use crate::machines::{Family, Kin};
use anyhow::Result;
use outlast::InstanceId;
use outlast::prelude::*;

/// How often a required operation is tried.
const TRIES_MAX: u32 = 1_200;
const PAUSE: Duration = Duration::from_millis(100);

impl Load {
    /// Starts three families for each tree that must be ended.
    pub(super) async fn start_related(&self, random: &mut fastrand::Rng) -> Result<()> {
        match self.mix.doomed && random.u32(..4) == 0 {
            true => self.start_doomed(random).await,
            false => self.start_family(random).await,
        }
    }

    async fn start_family(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let mut new = Family::with(Kin::Raise {
            token,
            depth: random.u32(1..4),
            rounds: random.u32(1..3),
            doomed: false,
        });
        if random.u32(..4) == 0 {
            new = new.timeout(Duration::from_millis(random.u64(100..3_000)));
        }
        let id = self.insert(token, new, None).await?;
        if let (Some(id), true) = (id, self.mix.operators && random.bool()) {
            self.follow(
                |load, random| async move { load.end_some_of(id.into(), random).await },
                random.fork(),
            );
        }
        Ok(())
    }

    /// Ends the parent or some of its children, alone or with all descendants.
    pub(super) async fn end_some_of(&self, parent: InstanceId, mut random: fastrand::Rng) {
        for _ in 0..random.u32(1..4) {
            tokio::time::sleep(Duration::from_millis(random.u64(..600))).await;
            let children = self
                .client
                .admin()
                .children(parent)
                .await
                .unwrap_or_default();
            let target = match children.is_empty() || random.u32(..3) == 0 {
                true => parent,
                false => children[random.usize(..children.len())].id,
            };
            self.end(target, Ending::ALL[random.usize(..4)]).await;
        }
    }

    /// Starts a tree that waits for its end, and ends it. It retries until that succeeds, because
    /// the tree would wait for long.
    async fn start_doomed(&self, random: &mut fastrand::Rng) -> Result<()> {
        let Some(root) = self.insert_doomed(random.u32(1..4)).await else {
            return Ok(());
        };
        tokio::time::sleep(Duration::from_millis(random.u64(..800))).await;
        let ending = Ending::OF_TREES[random.usize(..2)];
        for _ in 0..TRIES_MAX {
            if self.end(root, ending).await {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Inserts until it is acknowledged, with a key, so that the tree exists once.
    async fn insert_doomed(&self, depth: u32) -> Option<InstanceId> {
        let (token, asked_at) = (self.token(), now_us());
        let asked = Entry::Asked {
            token,
            at: asked_at,
        };
        self.ledger.write(&asked).await;
        for _ in 0..TRIES_MAX {
            let doomed = Family::with(Kin::Raise {
                token,
                depth,
                rounds: 1,
                doomed: true,
            });
            let doomed = doomed.key(format!("doomed:{token}"));
            match self.client.start(doomed).await {
                Ok(started) => {
                    let id = started.id().get();
                    self.note_inserted(token, id, asked_at, None).await;
                    return Some(id);
                }
                Err(error) => self.errors.note(&error.into()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }
}
