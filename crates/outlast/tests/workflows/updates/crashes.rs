//! Updates and crashes: one reply, one effect, the same course of the code.

use super::*;
use outlast::testing::Point;
use std::sync::{Arc, Mutex};

on_both_stores!(
    a_child_gets_one_signal_from_an_update_that_twenty_crashes_replay,
    a_crash_at_any_commit_changes_neither_replies_nor_results,
    a_reply_is_lost_with_its_commit_and_given_again,
);

/// The example of the specification: an update signals the child that the code waits for.
fn approves_its_child() -> Script {
    script(|flow, _| async move {
        flow.on_update(|flow: Flow, approve: ApproveChild| async move {
            if let Some(child) = flow.last_child() {
                child.signal(Go(1)).await?;
            }
            Ok(approve.by)
        })?;
        flow.all((flow.run(Kid::with(Say::Wait)), flow.signal::<Go>()))
            .await?;
        Ok(())
    })
}

async fn a_child_gets_one_signal_from_an_update_that_twenty_crashes_replay(ground: Ground) {
    // The child does not run, so that its inbox shows what it was sent.
    let mut harness = ground.runs_only(approves_its_child()).await;
    let id = begin_and_run(&mut harness, ()).await;
    let update = |by: &str| {
        let approve = ApproveChild { by: by.into() };
        harness
            .client()
            .update(id, approve)
            .id("u-1")
            .timeout(Duration::ZERO)
    };
    assert!(update("Ada").await.is_err());
    let client = harness.client().clone();
    for nth in 0..20 {
        let point = match nth % 2 {
            0 => Point::BeforeCommit,
            _ => Point::AfterCommit,
        };
        harness.crash_at::<Script>("run", point, 1 + nth / 4 % 3);
        harness.run().await;
    }
    harness.run().await;
    let approve = ApproveChild { by: "Bob".into() };
    let reply = client.update(id, approve).id("u-1").await;
    assert_eq!(reply.unwrap(), "Ada");
    let child = children(&client, id).await[0].id;
    let signals = client.admin().signals(child, None).await.unwrap();
    assert_eq!(signals.len(), 1, "{signals:?}");
    let kinds = [
        EventKind::UpdateAccepted,
        EventKind::ChildMessaged,
        EventKind::UpdateCompleted,
    ];
    assert_eq!(counts(&client, id, kinds).await, [1, 1, 1]);
}

/// Code and handlers that share a list and make calls: the list shows the course of the code.
fn shares_a_list() -> Script {
    script(|flow, _| async move {
        let list = Arc::new(Mutex::new(Vec::new()));
        let shared = list.clone();
        flow.on_update(move |flow: Flow, Add(n)| {
            let list = shared.clone();
            async move {
                list.lock().unwrap().push(format!("began {n}"));
                let more = number(&flow, "more", n).await?;
                let doubled = flow.run(double::with(more)).await?;
                list.lock().unwrap().push(format!("ended {n}"));
                Ok(doubled + flow.random() % 10)
            }
        })?
        .validate(|Add(n)| match n {
            13 => Err("bad luck"),
            _ => Ok(()),
        });
        flow.until(|| list.lock().unwrap().len() >= 2).await?;
        let note = |what: &str| list.lock().unwrap().push(what.to_owned());
        note("two are there");
        number(&flow, "step", 1).await?;
        note("a step has run");
        flow.run(double::with(2)).await?;
        note("a job has run");
        let taken = flow.update::<ApproveChild>().await?;
        let by = taken.by.clone();
        taken.reply(format!("thanks {by}"))?;
        flow.until(|| list.lock().unwrap().len() >= 9).await?;
        let list = list.lock().unwrap().clone();
        Ok(list)
    })
}

type Course = (Value, Vec<u64>, String);

/// Sends the updates of a test, runs everything, and returns output and replies.
async fn course(ground: &Ground, crash: Option<(Point, u32)>) -> Course {
    let mut harness = ground.runs(shares_a_list()).await;
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_at::<Script>("run", point, nth);
    }
    send(&harness, id, "u-1", Add(1)).await;
    harness.run_all().await;
    for n in [13, 2, 3] {
        send(&harness, id, &format!("u-{n}"), Add(n)).await;
    }
    harness.run_all().await;
    send(&harness, id, "u-4", ApproveChild { by: "Ada".into() }).await;
    harness.run_all().await;
    let mut replies = Vec::new();
    for n in [1, 2, 3] {
        // The last digit is drawn from the seed of the run.
        replies.push(reply(&harness, id, &format!("u-{n}")).await.unwrap());
    }
    assert!(matches!(
        reply(&harness, id, "u-13").await,
        Err(RequestError::Rejected { .. })
    ));
    let thanks = harness
        .client()
        .update(id, ApproveChild { by: String::new() })
        .id("u-4");
    let thanks = thanks.timeout(Duration::ZERO).await.unwrap();
    let kinds = [EventKind::UpdateAccepted, EventKind::UpdateCompleted];
    assert_eq!(counts(&harness, id, kinds).await, [3, 4]);
    // A replay of the whole history comes to the same replies and the same end.
    let exported = harness.client().admin().export(id, None).await.unwrap();
    let exported = serde_json::to_string(&exported).unwrap();
    outlast::testing::Replay::of(shares_a_list())
        .check(&exported)
        .unwrap();
    (output(&get(&harness, id).await), replies, thanks)
}

async fn a_crash_at_any_commit_changes_neither_replies_nor_results(ground: Ground) {
    let (calm, _, thanks) = course(&ground, None).await;
    assert_eq!(thanks, "thanks Ada");
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..=12 {
            let crashed = course(&ground, Some((point, nth))).await;
            assert_eq!(
                (&crashed.0, &crashed.2),
                (&calm, &thanks),
                "{point:?} {nth}"
            );
        }
    }
}

async fn a_reply_is_lost_with_its_commit_and_given_again(ground: Ground) {
    let log = Log::default();
    let noted = log.clone();
    let code = script(move |flow, _| {
        let log = noted.clone();
        async move {
            flow.on_update(move |_flow, Add(n)| {
                log.note("handled");
                async move { Ok(n) }
            })?;
            flow.signal::<Go>().await.map(|_| ())
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    send(&harness, id, "u-1", Add(6)).await;
    harness.crash_at::<Script>("run", Point::BeforeCommit, 1);
    harness.run().await;
    assert_eq!(log.times("handled"), 2);
    assert_eq!(reply(&harness, id, "u-1").await.unwrap(), 6);
}
