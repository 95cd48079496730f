//! Warns of instances that no live worker would run, for lack of their machine or queue.
//!
//! An engine checks its own machines when it starts, and an executor the children of an outcome.
//! Both only warn: a worker that is about to start may serve them. Machines that this engine
//! serves itself are not looked up in the store.

use super::node::Node;
use outlast_core::{Error, NewInstance, Outcome, Worker};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How many different warnings are remembered.
const WARNINGS_MAX: usize = 1_000;

/// Machines, with version and queue, that were warned of before.
#[derive(Default)]
pub(crate) struct Unserved {
    warned: Mutex<HashSet<(String, i32, String)>>,
}

impl Unserved {
    /// Remembers a machine. Returns whether it is new here.
    fn note(&self, machine: &str, version: i32, queue: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= WARNINGS_MAX {
            warned.clear();
        }
        warned.insert((machine.to_owned(), version, queue.to_owned()))
    }

    /// Returns the children of an outcome that this engine does not serve.
    ///
    /// Each kind is returned once, and only the first time.
    pub(crate) fn children<'a>(&self, node: &Node, outcome: &'a Outcome) -> Vec<&'a NewInstance> {
        let (Outcome::FanOut { children, .. } | Outcome::Flow { children, .. }) = outcome else {
            return Vec::new();
        };
        let kind = |child: &'a NewInstance| (&child.machine, child.version, &child.queue);
        let mut last = None;
        let mut unserved = Vec::new();
        for child in children {
            // Most children are of one kind.
            if last.replace(kind(child)) != Some(kind(child))
                && !serves(node, &child.machine, child.version, &child.queue)
                && self.note(&child.machine, child.version, &child.queue)
            {
                unserved.push(child);
            }
        }
        unserved
    }
}

fn serves(node: &Node, machine: &str, version: i32, queue: &str) -> bool {
    node.settings.queues.contains_key(queue) && node.code.registry.get(machine, version).is_some()
}

/// Warns of registered machines whose queue neither this engine nor another live worker serves.
pub(crate) async fn warn_of_machines(node: &Node) {
    let mut unserved = node.code.registry.offers();
    unserved.retain(|offer| !node.settings.queues.contains_key(&offer.queue));
    if unserved.is_empty() {
        return;
    }
    let workers = match live_workers(node).await {
        Ok(workers) => workers,
        Err(error) => {
            tracing::debug!(%error, "could not read which queues have workers");
            return;
        }
    };
    for offer in unserved {
        if !is_run(&workers, &offer.name, offer.version, &offer.queue) {
            tracing::warn!(
                machine = offer.name,
                version = offer.version,
                queue = offer.queue,
                "no live worker takes from the queue of this machine, so that its instances wait; serve it with \
                 EngineBuilder::queue({:?}, ..), or start a worker that does",
                offer.queue
            );
        }
    }
}

/// Warns of children that no live worker runs.
pub(crate) async fn warn_of_children(node: &Node, parent: &str, children: Vec<&NewInstance>) {
    let workers = match live_workers(node).await {
        Ok(workers) => workers,
        Err(error) => {
            tracing::debug!(%error, "could not read which machines have workers");
            return;
        }
    };
    for child in children {
        if !is_run(&workers, &child.machine, child.version, &child.queue) {
            tracing::warn!(
                parent,
                machine = child.machine,
                version = child.version,
                queue = child.queue,
                "no live worker runs this machine in this queue, so that the child waits; register it with \
                 EngineBuilder::register on a worker, and serve its queue with EngineBuilder::queue"
            );
        }
    }
}

async fn live_workers(node: &Node) -> Result<Vec<Worker>, Error> {
    let workers = node.store().workers().await?;
    let now = node.store().now().await?;
    let alive = workers.into_iter().filter(|it| it.lease_expires_at > now);
    Ok(alive.collect())
}

/// Returns whether one of these workers runs the machine and takes from the queue.
fn is_run(workers: &[Worker], machine: &str, version: i32, queue: &str) -> bool {
    workers.iter().any(|worker| {
        let mut offers = worker.machines.iter();
        worker.queues.iter().any(|it| it == queue)
            && offers.any(|offer| offer.name == machine && offer.version == version)
    })
}
