//! Views: what a workflow publishes is read without a worker, and written only if it changed.

use crate::support::*;
use outlast::client::ViewOf;
use outlast::prelude::*;
use outlast::store::{Inspect, Revision, Store, limits};
use outlast::testing::Point;
use outlast::{Engine, Handle, LookupError};

on_both_stores!(
    a_published_value_is_read_while_the_workflow_waits_and_after_its_end,
    the_last_value_of_a_turn_is_written,
    a_replay_does_not_publish_old_values_again,
    a_value_survives_a_crash_at_any_commit,
    an_unchanged_value_keeps_its_revision_over_runs,
    a_value_that_a_new_build_publishes_is_written_with_the_next_commit,
    a_blocked_workflow_publishes_nothing_and_keeps_its_views,
    an_outcome_that_yields_to_a_cancel_publishes_with_the_next_one,
    a_value_that_cannot_be_stored_is_an_error_of_the_code,
    a_view_that_is_not_there_or_does_not_decode_is_told_apart,
);

async fn handle(on: &impl HasClient, id: Scripted) -> Handle<Script> {
    on.client().handle(id).await.unwrap()
}

/// Reads the view `at` of the workflow of the test.
async fn at(on: &impl HasClient, id: Scripted) -> Option<ViewOf<String>> {
    handle(on, id).await.view("at").await.unwrap()
}

async fn value(on: &impl HasClient, id: Scripted) -> Option<String> {
    at(on, id).await.map(|view| view.value)
}

async fn a_published_value_is_read_while_the_workflow_waits_and_after_its_end(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.publish("at", "the door")?;
        flow.signal::<Go>().await?;
        flow.publish("at", "the table")?;
        flow.publish("count", &2)?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    assert_eq!(value(&harness, id).await, None, "it has not run yet");
    harness.run().await;
    let parked = at(&ground.client, id).await.unwrap();
    assert_eq!(parked.value, "the door");
    assert_eq!(parked.revision, get(&harness, id).await.revision);
    ground.client.signal(id, Go(1)).await.unwrap();
    harness.run().await;
    assert_eq!(value(&ground.client, id).await.unwrap(), "the table");
    let views = ground.client.admin().views(id).await.unwrap();
    let views = views.iter().map(|it| (it.name.as_str(), it.data.as_str()));
    let expected = [("at", "\"the table\""), ("count", "2")];
    assert_eq!(views.collect::<Vec<_>>(), expected);
}

async fn the_last_value_of_a_turn_is_written(ground: Ground) {
    let code = script(|flow, _| async move {
        for n in 0..3 {
            flow.publish("at", &format!("before {n}"))?;
            number(&flow, "step", n).await?;
            flow.publish("at", &format!("after {n}"))?;
        }
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(value(&harness, id).await.unwrap(), "after 2");
}

async fn a_replay_does_not_publish_old_values_again(ground: Ground) {
    let code = || {
        script(|flow, _| async move {
            flow.publish("at", "one")?;
            number(&flow, "step", 1).await?;
            flow.publish("at", "two")?;
            flow.signal::<Go>().await?;
            flow.signal::<Go>().await.map(|_| ())
        })
    };
    let mut harness = ground.runs(code()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let before = at(&harness, id).await.unwrap();
    assert_eq!(before.value, "two");
    // Another worker replays from the start and commits again.
    let mut other = ground.runs(code()).await;
    ground.client.signal(id, Go(1)).await.unwrap();
    other.run().await;
    assert!(get(&other, id).await.revision > before.revision);
    assert_eq!(at(&other, id).await.unwrap(), before);
}

async fn a_value_survives_a_crash_at_any_commit(ground: Ground) {
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..4 {
            let code = script(|flow, _| async move {
                for n in 0..2 {
                    number(&flow, "step", n).await?;
                    flow.publish("at", &format!("{n}"))?;
                }
                Ok(())
            });
            let mut harness = ground.runs(code).await;
            let id = begin(&harness, ()).await;
            harness.crash_at::<Script>("run", point, nth);
            harness.run_all().await;
            assert_eq!(value(&harness, id).await.unwrap(), "1", "{point:?} {nth}");
        }
    }
}

async fn an_unchanged_value_keeps_its_revision_over_runs(ground: Ground) {
    let code = script(|flow, left: Value| async move {
        flow.publish("at", "here")?;
        flow.publish("left", &left)?;
        match left.as_u64().unwrap() {
            0 => Ok(()),
            left => flow.continue_as_new(left - 1),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 2).await;
    let handle = handle(&harness, id).await;
    let left = handle.view::<u64>("left").await.unwrap().unwrap();
    let here = handle.view::<String>("at").await.unwrap().unwrap();
    assert_eq!(left.value, 0);
    assert!(here.revision < left.revision);
}

async fn a_value_that_a_new_build_publishes_is_written_with_the_next_commit(ground: Ground) {
    let old = script(|flow, _| async move {
        flow.signal::<Go>().await?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(old).await;
    let id = begin_and_run(&mut harness, ()).await;
    let new = script(|flow, _| async move {
        flow.publish("at", "the first wait")?;
        flow.signal::<Go>().await?;
        flow.publish("at", "the second wait")?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(new).await;
    harness.run().await;
    assert_eq!(value(&harness, id).await, None, "nothing has woken it");
    ground.client.signal(id, Go(1)).await.unwrap();
    harness.run().await;
    assert_eq!(value(&harness, id).await.unwrap(), "the second wait");
}

async fn a_blocked_workflow_publishes_nothing_and_keeps_its_views(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.publish("at", "the old code")?;
        number(&flow, "one", 1).await?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let other = script(|flow, _| async move {
        flow.publish("at", "the new code")?;
        number(&flow, "another", 1).await?;
        flow.signal::<Go>().await.map(|_| ())
    });
    let mut harness = ground.runs(other).await;
    ground.client.signal(id, Go(1)).await.unwrap();
    harness.run().await;
    let blocked = get(&harness, id).await;
    assert!(blocked.last_error.unwrap().starts_with("blocked: "));
    assert_eq!(value(&harness, id).await.unwrap(), "the old code");
}

async fn an_outcome_that_yields_to_a_cancel_publishes_with_the_next_one(ground: Ground) {
    let client = ground.client.clone();
    let code = script(move |flow, _| {
        let client = client.clone();
        async move {
            let id = flow.id();
            flow.step("cancels itself", async move || {
                let cancelled = client.admin().cancel(id, ada()).await;
                cancelled.map(|_| ()).map_err(|error| error.to_string())
            })
            .await?;
            flow.publish("at", "the wait")?;
            let waited = flow.signal::<Go>().await;
            flow.publish("was_cancelled", &waited.is_err())?;
            Ok(())
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(value(&harness, id).await.unwrap(), "the wait");
    let view = handle(&harness, id)
        .await
        .view::<bool>("was_cancelled")
        .await;
    assert!(view.unwrap().unwrap().value);
}

async fn a_value_that_cannot_be_stored_is_an_error_of_the_code(ground: Ground) {
    let code = script(|flow, _| async move {
        let large = "x".repeat(limits::VIEW_BYTES_MAX);
        let mut errors = vec![
            flow.publish("", &1),
            flow.publish("a\0b", &1),
            flow.publish("large", &large),
            flow.publish("nan", &std::collections::HashMap::from([((1, 2), 3)])),
        ];
        for n in 0..limits::VIEWS_MAX {
            flow.publish(&format!("view {n}"), &n)?;
        }
        // A known name is no further one.
        flow.publish("view 0", "again")?;
        errors.push(flow.publish("one more", &1));
        Ok(errors
            .into_iter()
            .map(|it| it.unwrap_err().to_string())
            .collect::<Vec<_>>())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let errors: Vec<String> = serde_json::from_value(output(&get(&harness, id).await)).unwrap();
    assert_eq!(errors.len(), 5);
    assert!(errors[0].contains("empty"), "{}", errors[0]);
    assert!(
        errors[2].contains("view \"large\" has 65538 bytes"),
        "{}",
        errors[2]
    );
    assert!(errors[3].contains("view \"nan\""), "{}", errors[3]);
    assert!(errors[4].contains("at most 20 views"), "{}", errors[4]);
    let views = ground.client.admin().views(id).await.unwrap();
    assert_eq!(views.len(), limits::VIEWS_MAX);
}

async fn a_view_that_is_not_there_or_does_not_decode_is_told_apart(ground: Ground) {
    let code = script(|flow, _| async move { flow.publish("at", "a text") });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let handle = handle(&harness, id).await;
    assert_eq!(handle.view::<String>("other").await.unwrap(), None);
    let error = handle.view::<u64>("at").await.unwrap_err();
    assert!(matches!(error, LookupError::Undecodable { .. }));
    assert!(error.to_string().contains("view \"at\""), "{error}");
    let admin = ground.client.admin();
    admin.delete(id.get(), ada()).await.unwrap();
    let error = handle.view::<String>("at").await.unwrap_err();
    assert!(matches!(error, LookupError::NotFound { .. }), "{error}");
}

mod in_real_time {
    use super::*;

    on_both_stores_in_real_time!(a_reader_waits_for_a_newer_value_until_the_end);

    /// Steps on when the test says so.
    #[workflow]
    async fn counts(flow: Flow) -> FlowResult<()> {
        for n in 0..3_u64 {
            flow.publish("count", &n)?;
            flow.signal::<Go>().await?;
        }
        Ok(())
    }

    async fn a_reader_waits_for_a_newer_value_until_the_end(store: impl Store + Inspect + Clone) {
        let engine = Engine::builder(store)
            .register(counts)
            .start()
            .await
            .unwrap();
        let handle = engine.start(counts::with()).await.unwrap();
        let mut seen = Revision(-1);
        for n in 0..3 {
            let newer = handle.view::<u64>("count").newer_than(seen, MINUTE);
            let view = newer.await.unwrap().unwrap();
            assert_eq!(view.value, n);
            assert!(view.revision > seen);
            seen = view.revision;
            // Nothing is newer yet, and the reader does not wait longer than it said.
            let none = handle.view::<u64>("count");
            let none = none.newer_than(seen, Duration::from_millis(20));
            assert_eq!(none.await.unwrap(), None);
            if n < 2 {
                let reader = {
                    let handle = handle.clone();
                    tokio::spawn(async move {
                        let newer = handle.view::<u64>("count").newer_than(seen, MINUTE);
                        newer.await.unwrap().unwrap().value
                    })
                };
                handle.signal(Go(1)).await.unwrap();
                assert_eq!(reader.await.unwrap(), n + 1);
            } else {
                handle.signal(Go(1)).await.unwrap();
            }
        }
        // The end is the answer: no newer value will come.
        let none = handle
            .view::<u64>("count")
            .newer_than(seen, Duration::MAX)
            .await;
        assert_eq!(none.unwrap(), None);
        engine.shutdown().await.unwrap();
    }
}
