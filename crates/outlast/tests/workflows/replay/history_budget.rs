//! The budget of a history: a hint at the soft limit, a clear failure at the hard one.

use crate::support::*;
use outlast::Durable;
use outlast::prelude::*;
use outlast::store::limits::{HISTORY_LONG, HISTORY_MAX, HISTORY_WITH_STARTS_MAX};
use outlast::store::{EventKind, Json};
use outlast_core::{
    ClaimRequest, Commit, Flowing, MachineVersion, NewEvent, NewWorker, Outcome as Written, Proceed,
};

on_both_stores!(
    history_pressure_is_set_for_a_long_history,
    a_workflow_whose_history_is_too_long_fails_and_says_why,
    the_length_of_a_history_is_the_same_on_replay,
    a_new_run_has_a_new_budget,
    a_long_history_does_without_starts_that_nothing_waits_for,
);

/// Adds events to a workflow that no worker runs, until its history has `len` events. They are
/// those of code that asks for the forms of many changes.
async fn lengthen(ground: &Ground, id: Scripted, len: usize) {
    let worker = NewWorker {
        name: "author".into(),
        host: "here".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: Vec::new(),
        lease: HOUR,
    };
    let worker = ground.store.register(worker).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: "default".into(),
        machines: vec![MachineVersion::new(Script::NAME, 1)].into(),
        max: 1,
    };
    let claimed = ground.store.claim(request).await.unwrap();
    let claim = &claimed.claims[0];
    assert_eq!(claim.id, id.get());
    let outcome = Written::Flow {
        children: Vec::new(),
        window: None,
        then: Flowing::Proceed(Proceed::Requeue),
    };
    let mut commit = Commit::of(claim, outcome);
    commit.received = Vec::new();
    let more = len - usize::try_from(claim.events).unwrap();
    commit.events = (0..more)
        .map(|n| NewEvent {
            kind: EventKind::VersionMarked,
            call: None,
            name: format!("change {n}"),
            data: Json::of(&json!({"version": 1})).unwrap(),
            at: None,
        })
        .collect();
    ground.store.commit(vec![commit].into()).await.unwrap();
    ground.store.deregister(worker).await.unwrap();
}

/// A workflow that waits for a signal, and then returns whether its history is long.
fn feels_pressure() -> Script {
    script(|flow, _| async move {
        flow.signal::<Go>().await?;
        let pressure = (flow.history_pressure(), flow.history_length());
        number(&flow, "one", 1).await?;
        number(&flow, "two", 2).await?;
        Ok(pressure)
    })
}

async fn history_pressure_is_set_for_a_long_history(ground: Ground) {
    let mut harness = ground.runs(feels_pressure()).await;
    for (len, is_long) in [(HISTORY_LONG - 2, false), (HISTORY_LONG - 1, true)] {
        let id = begin_and_run(&mut harness, ()).await;
        go(&harness, id.get(), 1).await;
        lengthen(&ground, id, len).await;
        harness.run().await;
        // The signal adds one event.
        let seen = output(&get(&harness, id).await);
        assert_eq!(seen, json!([is_long, len + 1]));
    }
}

async fn a_workflow_whose_history_is_too_long_fails_and_says_why(ground: Ground) {
    let mut harness = ground.runs(feels_pressure()).await;
    let fits = begin_and_run(&mut harness, ()).await;
    go(&harness, fits.get(), 1).await;
    // The signal and two steps are still to come. No event of the run follows the last step.
    lengthen(&ground, fits, HISTORY_MAX - 3).await;
    harness.run().await;
    assert_eq!(
        output(&get(&harness, fits).await),
        json!([true, HISTORY_MAX - 2])
    );
    let too_long = begin_and_run(&mut harness, ()).await;
    go(&harness, too_long.get(), 1).await;
    lengthen(&ground, too_long, HISTORY_MAX).await;
    harness.run().await;
    let error = reason(&get(&harness, too_long).await);
    assert!(error.contains("50001 events"), "{error}");
    assert!(error.contains("at most 50000"), "{error}");
    assert!(error.contains("flow.continue_as_new("), "{error}");
    let runs = harness.client().admin().histories(too_long).await.unwrap();
    assert_eq!(runs[0].last, EventKind::RunFailed);
}

/// Otherwise code that continues as new at some length would do so at another place on replay, and
/// would be blocked.
async fn the_length_of_a_history_is_the_same_on_replay(ground: Ground) {
    let code = script(|flow, _| async move {
        let mut lengths = vec![flow.history_length()];
        number(&flow, "one", 1).await?;
        lengths.push(flow.history_length());
        flow.signal::<Go>().await?;
        lengths.push(flow.history_length());
        number(&flow, "two", 2).await?;
        lengths.push(flow.history_length());
        Ok(lengths)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    // The start; the first step; the signal, awaited and consumed; the second step.
    assert_eq!(output(&get(&harness, id).await), json!([1, 2, 4, 5]));
}

async fn a_new_run_has_a_new_budget(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        if input == json!("again") {
            return Ok((flow.history_pressure(), flow.history_length()));
        }
        flow.signal::<Go>().await?;
        match flow.history_pressure() {
            true => flow.continue_as_new("again"),
            false => flow.fail("it is not long"),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    lengthen(&ground, id, HISTORY_LONG).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([false, 1]));
}

async fn a_long_history_does_without_starts_that_nothing_waits_for(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)));
        let look = async {
            flow.signal::<Halt>().await?;
            let known = flow.children().iter().all(|it| it.id().is_some());
            let spawned = flow.spawn(Kid::with(Say::Wait)).await?;
            Ok::<_, outlast::FlowError>((known, spawned.child().id().is_some()))
        };
        let (group, seen) = futures_util::join!(flow.all(kids), look);
        Ok((group?, seen?))
    });
    let mut harness = ground.runs(code).await;
    // Two starts, and the answers to three calls.
    for (len, are_recorded) in [
        (HISTORY_WITH_STARTS_MAX - 5, true),
        (HISTORY_WITH_STARTS_MAX - 4, false),
    ] {
        let id = begin_and_run(&mut harness, ()).await;
        harness.client().signal(id, Halt(1)).await.unwrap();
        lengthen(&ground, id, len).await;
        harness.run().await;
        for kid in &children(&harness, id).await[..2] {
            go(&harness, kid.id, 1).await;
        }
        harness.run().await;
        let seen = output(&get(&harness, id).await);
        assert_eq!(seen, json!([[1, 1], [are_recorded, true]]), "{len}");
    }
}
