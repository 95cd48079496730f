//! Ends instances whose step blocks its thread, since nobody else can.
//!
//! A step that awaits is dropped at its limit of time, where it awaits. One that does not come back from its thread
//! cannot be dropped, and nothing of its task runs any more, `handle` neither. Without this its instance would
//! execute for as long as the process lives: the lease is renewed by other threads.

use super::backoff::jittered;
use super::node::{Node, Running};
use crate::metrics;
use outlast_core::{Answer, Commit, Error, Hints, Outcome, Ties};
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
/// How far past its limit a step counts as blocking: a busy runtime may be late to drop it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for steps that do not come back.
pub(crate) struct Watchdog {
    node: Arc<Node>,
}

impl Watchdog {
    pub(crate) fn new(node: Arc<Node>) -> Watchdog {
        Watchdog { node }
    }

    /// What cannot be written is tried again with the next look.
    pub(crate) async fn run(self) {
        loop {
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(jittered(INTERVAL)) => {}
            }
            if let Err(error) = self.run_once().await {
                metrics::store_error("watchdog");
                tracing::warn!(%error, "could not end what blocks its thread; trying again");
            }
        }
    }

    /// Ends what blocks now.
    pub(crate) async fn run_once(&self) -> Result<(), Error> {
        for code in self.node.running() {
            if code.since.elapsed() > code.limit + PATIENCE {
                self.end(&code).await?;
            }
        }
        Ok(())
    }

    /// The fence drops what the step returns if it comes back after all.
    async fn end(&self, code: &Running) -> Result<(), Error> {
        let reason = format!(
            "step {} blocks its thread: its limit of {:?} is long past, and only the end of the process can stop it; \
             mend it, then retry the instance",
            code.step, code.limit
        );
        let client = &self.node.client;
        let reason = client
            .coding
            .encode_error(code.machine, code.claim.id, reason)
            .map_err(|unwritable| unwritable.during("commit", None))?;
        let commit = Commit {
            claim: code.claim,
            received: Vec::new(),
            outcome: Outcome::Stop { reason },
            ties: Ties::UNKNOWN,
        };
        let committed = self.node.store().commit(vec![commit]).await?;
        self.node.leave_behind(code);
        if let [Answer::Committed { .. }] = committed.answers[..] {
            metrics::failed(code.machine, code.step, "blocked");
            tracing::error!(
                instance = %code.claim.id, machine = code.machine, step = code.step,
                "the step blocks its thread: its instance fails, the thread and its slot are lost until this \
                 process ends"
            );
            let mut hints = Hints::now(committed.woken);
            hints.ended.push(code.claim.id);
            client.hub.publish(self.node.store(), hints);
        }
        Ok(())
    }
}
