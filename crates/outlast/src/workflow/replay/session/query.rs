//! Replays a run for queries, and calls the handlers that its code has registered.
//!
//! The client calls it, in a process that has the code. It has no claim and no client, so it never
//! sends, runs or writes anything (decision 0057).

use super::Session;
use super::start::{incomplete, load, other_input, refused};
use crate::client::Client;
use crate::definition::Provided;
use crate::error::{LookupError, RequestError};
use crate::machine::panic_message;
use crate::workflow::Workflow;
use crate::workflow::flow::Flow;
use crate::workflow::replay::determinism;
use crate::workflow::replay::events::Mismatch;
use crate::workflow::replay::runtime::{Identity, Runtime, Unanswered};
use outlast_core::{Error, EventKind, Instance, InstanceId, Json};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

/// A run whose code stands where its committed history ends.
pub(crate) struct Replayed {
    session: Box<Session>,
    id: InstanceId,
    workflow: &'static str,
}

impl Replayed {
    /// Replays the committed history of the current run of this row.
    pub(crate) async fn of<W: Workflow>(
        workflow: Arc<W>,
        client: &Client,
        row: &Instance,
        provided: &Provided,
    ) -> Result<Replayed, RequestError> {
        let blocked = |mismatch| blocked(row.id, mismatch);
        let history = load(client, row.id, row.run, row.events).await?;
        let stored = usize::try_from(row.events).unwrap_or(0);
        if history.len() < stored {
            // It may have been deleted since its row was read.
            if client.store.get(row.id).await?.is_none() {
                let target = row.id.into();
                return Err(LookupError::NotFound { target }.into());
            }
            return Err(blocked(incomplete(stored, history.len())));
        }
        if let Some(mismatch) = refused(&history) {
            return Err(blocked(mismatch));
        }
        let input = crate::error::decode(&row.state);
        let input = input.map_err(|invalid| blocked(other_input(&invalid)))?;
        let identity = Identity {
            id: row.id,
            workflow: row.machine.clone(),
            run: row.run,
            key: row.correlation_key.clone(),
            trace: row.trace.clone(),
        };
        let mut runtime = Runtime::new(identity, history);
        runtime.keep_queries();
        let flow = Flow::new(runtime, None, provided.clone());
        let mut replayed = Replayed {
            session: Box::new(Session::of(workflow, flow, input)),
            id: row.id,
            workflow: W::NAME,
        };
        replayed.session.begin_unclaimed(client).await?;
        replayed.session.replay_whole();
        replayed.refuse_blocked()?;
        replayed.session.see_unseen_children(client).await?;
        Ok(replayed)
    }

    /// Returns the names of the queries that the code handles, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.session.flow.lock().queries.names().collect()
    }

    /// Calls the handler of this name.
    pub(crate) fn answer(self, name: &str, query: &Json) -> Result<Json, RequestError> {
        let handler = self.session.flow.lock().queries.begin(name);
        let Some(handler) = handler else {
            return Err(RequestError::NoHandler {
                id: self.id,
                request: name.to_owned(),
                workflow: self.workflow.to_owned(),
                known: self.names().into_iter().map(str::to_owned).collect(),
            });
        };
        // A handler runs where code runs. So a task that it spawns is dropped, as one of the code.
        let mut answer = None;
        let (_, violation) = determinism::poll(
            |_| {
                answer = Some(catch_unwind(AssertUnwindSafe(|| handler(query))));
                Poll::Ready(())
            },
            || {},
        );
        self.session.flow.lock().queries.end();
        self.refuse_blocked()?;
        let failed = |error| RequestError::Failed {
            request: name.to_owned(),
            error,
        };
        if violation.is_some() {
            return Err(failed("its handler spawns a task".into()));
        }
        match answer {
            Some(Ok(Ok(reply))) => Ok(reply),
            Some(Ok(Err(Unanswered::Failed(error)))) => Err(failed(error)),
            Some(Ok(Err(Unanswered::Malformed(invalid)))) => Err(RequestError::Malformed {
                request: name.to_owned(),
                invalid,
            }),
            Some(Err(panic)) => Err(failed(format!("panicked: {}", panic_message(&*panic)))),
            None => Err(failed("its handler did not run".into())),
        }
    }

    fn refuse_blocked(&self) -> Result<(), RequestError> {
        let mismatch = self.session.flow.lock().blocked.clone();
        mismatch.map_or(Ok(()), |mismatch| Err(blocked(self.id, mismatch)))
    }
}

/// A handler may own a clone of the flow, which owns the handler.
impl Drop for Replayed {
    fn drop(&mut self) {
        let handlers = self.session.flow.lock().queries.take();
        drop(handlers);
    }
}

impl Session {
    /// Adds the first event of a run that no worker has begun, as if one began it now.
    async fn begin_unclaimed(&mut self, client: &Client) -> Result<(), Error> {
        if self.flow.lock().history.is_empty() {
            let now = client.admin().now().await?;
            self.start_history(now);
        }
        Ok(())
    }

    /// Runs the code against its whole history, and compares its end.
    fn replay_whole(&mut self) {
        let recorded = self.recorded_end();
        let panic = catch_unwind(AssertUnwindSafe(|| self.replay())).err();
        if panic.is_some() {
            // The code is gone. What follows is still compared with the calls that it has made.
            self.replay();
        }
        match (recorded, panic) {
            // A run may fail for reasons that are not in its code.
            (Some(end), _) if end.kind == EventKind::RunFailed => {}
            (Some(end), Some(panic)) => {
                let mut runtime = self.flow.lock();
                let (after, message) = (runtime.last_call(), panic_message(&*panic));
                runtime.block(end.description, format!("a panic after {after}: {message}"));
            }
            (Some(end), None) => self.hold_end_against_history(Some(end)),
            // The code ends, or panics, where its committed history ends.
            (None, _) => {}
        }
        self.is_blocked();
    }

    /// Reads the ids of children whose start is not in the history yet.
    ///
    /// The commit that starts children does not know their ids. The workflow records them when it
    /// is woken (decision 0052).
    async fn see_unseen_children(&mut self, client: &Client) -> Result<(), Error> {
        let rounds = {
            let runtime = self.flow.lock();
            let unseen = runtime.children();
            let unseen = unseen.filter(|(_, it)| it.end.is_none() && it.link().child.is_none());
            runtime.by_round(unseen.map(|(call, _)| call))
        };
        let parent = self.flow.id();
        for (round, calls) in rounds {
            let children = client.admin().children_of(parent, round).await?;
            let children = children
                .into_iter()
                .map(|it| (it.position, (it.id, it.run)));
            let children: HashMap<i32, (InstanceId, i32)> = children.collect();
            let mut runtime = self.flow.lock();
            for call in calls {
                if let Some(link) = runtime.call_mut(call).link_mut()
                    && let Some((child, run)) = children.get(&link.position)
                {
                    link.child = Some(*child);
                    link.run = *run;
                }
            }
        }
        Ok(())
    }
}

fn blocked(id: InstanceId, mismatch: Mismatch) -> RequestError {
    RequestError::Blocked {
        id,
        expected: mismatch.expected,
        found: mismatch.found,
    }
}
