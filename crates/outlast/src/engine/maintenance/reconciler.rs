//! Looks for instances that nothing would ever wake, and repairs them.
//!
//! Nodes with the maintenance role run it, soon after they start and then rarely. No verb leaves
//! such an instance: somebody has edited its row, or there is a bug. Each repair is recorded,
//! counted and logged as an error.

use crate::engine::backoff::{Backoff, jittered};
use crate::engine::node::Node;
use crate::metrics;
use outlast_core::{Error, Hints, InstanceId, Note, RepairAnswer, RepairScope};
use std::sync::Arc;
use std::time::Duration;

/// The most instances checked in one transaction.
const PAGE: usize = 1_000;
/// The pause between two pages: the walk is a background check and must not be a load.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before the first walk: nodes that start together do not walk together.
const START_INTERVAL: Duration = Duration::from_secs(10);
/// The pause between two walks.
const WALK_INTERVAL: Duration = Duration::from_secs(600);
/// The operator that its repairs are recorded with.
const OPERATOR: &str = "reconciler";

/// Walks through all instances, page by page.
pub(crate) struct Reconciler {
    node: Arc<Node>,
}

impl Reconciler {
    pub(crate) fn new(node: Arc<Node>) -> Reconciler {
        Reconciler { node }
    }

    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        let mut after = None;
        let mut pause = jittered(START_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = self.node.stop.everything.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.run_once(after).await {
                Ok(next) => {
                    backoff.reset();
                    after = next;
                    jittered(if next.is_some() {
                        PAGE_INTERVAL
                    } else {
                        WALK_INTERVAL
                    })
                }
                Err(error) => {
                    metrics::store_error("reconciler");
                    tracing::warn!(%error, "could not look for instances to repair; trying again");
                    backoff.next()
                }
            };
        }
    }

    /// Checks one page and repairs it. Returns where the next page starts.
    pub(crate) async fn run_once(
        &self,
        after: Option<InstanceId>,
    ) -> Result<Option<InstanceId>, Error> {
        let store = self.node.store();
        let page = RepairScope::Page { after, max: PAGE };
        let needing = store.needing_repair(page).await?;
        let ids: Vec<InstanceId> = needing.found.iter().map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return Ok(needing.next);
        }
        // The verb checks each again: it may have been woken meanwhile.
        let repaired = store.repair(ids.clone(), Note::by(OPERATOR)).await?;
        let mut mended = 0;
        for (id, answer) in ids.iter().zip(&repaired.answers) {
            if let RepairAnswer::Repaired(need) = answer {
                mended += 1;
                tracing::error!(instance = %id, need = need.as_str(), "repaired an instance that nothing would have woken; if nobody edited its row, please report this as a bug");
            }
        }
        metrics::mended(mended);
        let hints = Hints {
            cascades: repaired.cascades,
            ..Hints::now(repaired.woken)
        };
        self.node.client.hub.publish(store, hints);
        Ok(needing.next)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

    use super::*;
    use crate::client::Client;
    use crate::definition::Durable;
    use crate::engine::builder::Settings;
    use crate::prelude::*;
    use crate::testing::Harness;
    use crate::workflow::Workflow;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use outlast_core::ManualClock;
    use std::fmt::{Debug, Write};
    use std::sync::Mutex;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};

    /// Waits for two children.
    struct Parent;

    impl Durable for Parent {
        const NAME: &'static str = "parent";
        type Input = ();
        type Output = ();
    }

    impl Workflow for Parent {
        async fn run(&self, flow: Flow, (): ()) -> FlowResult<()> {
            flow.all((flow.run(Kid::with(())), flow.run(Kid::with(()))))
                .await?;
            Ok(())
        }
    }

    struct Kid;

    impl Durable for Kid {
        const NAME: &'static str = "kid";
        type Input = ();
        type Output = ();
    }

    impl Workflow for Kid {
        async fn run(&self, flow: Flow, (): ()) -> FlowResult<()> {
            flow.sleep(Duration::from_secs(1)).await
        }
    }

    /// The errors that are logged.
    #[derive(Clone, Default)]
    struct Errors(Arc<Mutex<String>>);

    impl<S: tracing::Subscriber> Layer<S> for Errors {
        fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
            if *event.metadata().level() == tracing::Level::ERROR {
                event.record(&mut Text(&mut self.0.lock().unwrap()));
            }
        }
    }

    struct Text<'a>(&'a mut String);

    impl Visit for Text<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{field}={value:?} ").unwrap();
        }
    }

    /// Returns the value of the counter of repaired rows.
    fn repaired(recorder: &DebuggingRecorder) -> u64 {
        let counters = recorder.snapshotter().snapshot().into_vec();
        let repaired = counters
            .into_iter()
            .filter(|(key, ..)| key.key().name() == metrics::MENDED);
        repaired
            .map(|(.., value)| match value {
                DebugValue::Counter(count) => count,
                DebugValue::Gauge(_) | DebugValue::Histogram(_) => 0,
            })
            .sum()
    }

    #[test]
    fn a_repaired_workflow_is_counted_and_logged_as_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outlast.db");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let clock = ManualClock::default();
        let store = outlast_sqlite::Sqlite::options().clock(clock.clone());
        let store = store.open(&file).unwrap();
        let (mut harness, id) = runtime.block_on(async {
            let harness = Harness::on(store.clone(), clock);
            let harness = harness.register(Parent).register(Kid);
            let mut harness = harness.build().await.unwrap();
            let parent = harness.start(Parent::with(())).await.unwrap();
            harness.run().await;
            (harness, parent.id())
        });
        let node = Node::new(
            Client::new(store),
            Settings::default(),
            Arc::default(),
            None,
        );
        let reconciler = Reconciler::new(Arc::new(node));
        let (recorder, errors) = (DebuggingRecorder::new(), Errors::default());
        let subscriber = tracing_subscriber::registry().with(errors.clone());
        let walk = || {
            ::metrics::with_local_recorder(&recorder, || {
                tracing::subscriber::with_default(subscriber, || {
                    runtime.block_on(reconciler.run_once(None)).unwrap()
                })
            })
        };
        // As if finished children had been miscounted: no event would wake the parent.
        let database = rusqlite::Connection::open(&file).unwrap();
        let miscount =
            "update instances set children_pending = 5, joining_left = '[5]' where id = ?1";
        database.execute(miscount, [id.get().0]).unwrap();
        runtime.block_on(harness.run_all());
        runtime.block_on(async { harness.expect(id).await.awaits_children() });
        assert_eq!(walk(), None);
        assert_eq!(repaired(&recorder), 1);
        let errors = errors.0.lock().unwrap().clone();
        assert!(
            errors.contains("repaired an instance that nothing would have woken"),
            "{errors}"
        );
        assert!(errors.contains(&format!("instance={id}")), "{errors}");
        runtime.block_on(harness.run());
        runtime.block_on(async { harness.expect(id).await.is_done() });
    }

    #[tokio::test]
    async fn the_first_walk_comes_soon_after_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outlast.db");
        let store = outlast_sqlite::Sqlite::open(&file).unwrap();
        let row = outlast_core::NewInstance::new("lost", "run", outlast_core::Json::null());
        outlast_core::Store::insert(&store, vec![row], None)
            .await
            .unwrap();
        let database = rusqlite::Connection::open(&file).unwrap();
        let lost = "update instances set status = 'awaiting_signal', awaits = '[]'";
        database.execute(lost, []).unwrap();
        let node = Node::new(
            Client::new(store.clone()),
            Settings::default(),
            Arc::default(),
            None,
        );
        let begun = tokio::time::Instant::now();
        let walk = tokio::spawn(Reconciler::new(Arc::new(node)).run());
        let recorded = async || {
            let operations = outlast_core::Inspect::operations(&store, None)
                .await
                .unwrap();
            operations.first().map(|it| (it.verb, it.by.clone()))
        };
        while recorded().await.is_none() {
            assert!(
                begun.elapsed() < WALK_INTERVAL / 2,
                "the walk has not begun"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let by_itself = (outlast_core::Verb::Repair, OPERATOR.to_owned());
        assert_eq!(recorded().await, Some(by_itself));
        walk.abort();
    }
}
