//! The budget of a history: a hint at the soft limit, a clear failure at the hard one.

use crate::support::*;
use outlast::limits::{HISTORY_LONG, HISTORY_MAX};
use outlast::prelude::*;
use outlast::{EventKind, Json};
use outlast_core::{
    ClaimRequest, Commit, Flowing, MachineVersion, NewEvent, NewWorker, Outcome as Written, Proceed,
};

on_both_stores!(
    a_workflow_is_told_when_its_history_is_long,
    a_workflow_whose_history_is_too_long_fails_and_says_why,
    the_length_of_a_history_is_the_same_when_the_code_is_run_again,
    a_new_run_has_a_new_budget,
);

/// Adds events to a workflow that nobody runs, as if its code had asked for so many forms of changes. It has `len` then.
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

/// Says whether its history is long, once it is woken.
fn feels_pressure() -> Script {
    script(|flow, _| async move {
        flow.signal::<Go>().await?;
        let pressure = (flow.history_pressure(), flow.history_length());
        number(&flow, "one", 1).await?;
        number(&flow, "two", 2).await?;
        Ok(pressure)
    })
}

async fn a_workflow_is_told_when_its_history_is_long(ground: Ground) {
    let mut harness = ground.runs(feels_pressure()).await;
    for (len, is_long) in [(HISTORY_LONG - 2, false), (HISTORY_LONG - 1, true)] {
        let id = ran(&mut harness, ()).await;
        go(&harness, id.get(), 1).await;
        lengthen(&ground, id, len).await;
        harness.run().await;
        // The signal itself is one more.
        let seen = output(&get(&harness, id).await);
        assert_eq!(seen, json!([is_long, len + 1]));
    }
}

async fn a_workflow_whose_history_is_too_long_fails_and_says_why(ground: Ground) {
    let mut harness = ground.runs(feels_pressure()).await;
    let fits = ran(&mut harness, ()).await;
    go(&harness, fits.get(), 1).await;
    // The signal and two steps are still to come; the last of them has nothing to follow.
    lengthen(&ground, fits, HISTORY_MAX - 3).await;
    harness.run().await;
    assert_eq!(
        output(&get(&harness, fits).await),
        json!([true, HISTORY_MAX - 2])
    );
    let too_long = ran(&mut harness, ()).await;
    go(&harness, too_long.get(), 1).await;
    lengthen(&ground, too_long, HISTORY_MAX).await;
    harness.run().await;
    let error = reason(&get(&harness, too_long).await);
    assert!(error.contains("50001 events"), "{error}");
    assert!(error.contains("at most 50000"), "{error}");
    assert!(error.contains("flow.continue_as_new("), "{error}");
    let runs = harness.histories(too_long).await.unwrap();
    assert_eq!(runs[0].last, EventKind::RunFailed);
}

/// Otherwise code that continues as new by it would do so at another place when it is run again, and be blocked.
async fn the_length_of_a_history_is_the_same_when_the_code_is_run_again(ground: Ground) {
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
    let id = ran(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    harness.run().await;
    // Begun; the step; awaited and consumed; the other step.
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
            false => Err(flow.fail("it is not long")),
        }
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    lengthen(&ground, id, HISTORY_LONG).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([false, 1]));
}
