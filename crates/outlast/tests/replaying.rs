//! Recorded histories against code: what `outlast::testing::replay` does and does not do.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast::prelude::*;
use outlast::testing::{Harness, ReplayError, replay_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a step, starts a child, tells it something and waits for it.
#[derive(Clone, Default)]
struct Parent {
    steps: Arc<AtomicU32>,
    /// What the child is given.
    given: u32,
    is_short: bool,
}

impl Workflow for Parent {
    const NAME: &'static str = "parent";
    type Input = ();
    type Output = u32;

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<u32> {
        let step = async || Ok::<_, String>(self.steps.fetch_add(1, Ordering::SeqCst));
        flow.step("count", step).await?;
        if self.is_short {
            return Ok(0);
        }
        let kid = flow.start_child::<Kid>(self.given).await?;
        kid.child().signal(Go).await?;
        kid.join().await
    }
}

struct Kid;

impl Workflow for Kid {
    const NAME: &'static str = "kid";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: Flow, given: u32) -> FlowResult<u32> {
        flow.signal::<Go>().await?;
        flow.sleep(Duration::from_secs(60)).await?;
        Ok(given)
    }
}

#[derive(Serialize, Deserialize)]
struct Go;

impl Signal for Go {
    const NAME: &'static str = "go";
}

/// The histories of a run that waits for its child, and of the same run when it has ended.
async fn recorded(code: &Parent) -> (String, String) {
    let harness = Harness::builder().workflow(code.clone()).workflow(Kid);
    let mut harness = harness.build().await.unwrap();
    let id = harness.insert(Run::<Parent>(())).await.unwrap();
    let id = id.id().unwrap();
    harness.run().await;
    let waits = harness.export(id, None).await.unwrap().unwrap();
    harness.run_all().await;
    harness.expect(id).await.is_done_with(&code.given);
    let ended = harness.export(id, None).await.unwrap().unwrap();
    let text = |history| serde_json::to_string(&history).unwrap();
    (text(waits), text(ended))
}

fn difference(code: Parent, history: &str) -> String {
    match replay_with(code, history) {
        Err(ReplayError::Differs { expected, found }) => format!("{expected} | {found}"),
        other => panic!("it differs, and the answer is {other:?}"),
    }
}

#[tokio::test]
async fn a_replay_runs_no_step_and_sends_nothing() {
    let code = Parent::default();
    let (waits, ended) = recorded(&code).await;
    assert_eq!(code.steps.load(Ordering::SeqCst), 1);
    replay_with(code.clone(), &waits).unwrap();
    replay_with(code.clone(), &ended).unwrap();
    assert_eq!(code.steps.load(Ordering::SeqCst), 1);
}

/// The code comes to its first step, which this history does not have, and that is where it stays.
#[tokio::test]
async fn a_replay_goes_no_further_than_the_history() {
    let code = Parent::default();
    let (waits, _) = recorded(&code).await;
    let mut history: serde_json::Value = serde_json::from_str(&waits).unwrap();
    history["events"].as_array_mut().unwrap().truncate(1);
    replay_with(code.clone(), &history.to_string()).unwrap();
    assert_eq!(code.steps.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_a_child_is_given_is_held_against_the_history() {
    let (waits, ended) = recorded(&Parent::default()).await;
    for history in [waits, ended] {
        let other = Parent {
            given: 1,
            ..Parent::default()
        };
        let difference = difference(other, &history);
        assert!(difference.contains("as it was given then"), "{difference}");
        assert!(difference.contains("given something else"), "{difference}");
    }
}

#[tokio::test]
async fn code_that_ends_too_early_differs() {
    let (waits, ended) = recorded(&Parent::default()).await;
    for history in [waits, ended] {
        let short = Parent {
            is_short: true,
            ..Parent::default()
        };
        let difference = difference(short, &history);
        assert!(difference.contains("the end of the code"), "{difference}");
    }
}

#[tokio::test]
async fn a_history_of_something_else_is_refused() {
    let (waits, _) = recorded(&Parent::default()).await;
    let refused = replay_with(Kid, &waits).unwrap_err();
    assert!(matches!(refused, ReplayError::Unreadable(_)));
    assert_eq!(
        refused.to_string(),
        "history is of parent/1, and the code is kid/1"
    );
    let refused = replay_with(Kid, "{}").unwrap_err();
    assert!(matches!(refused, ReplayError::Unreadable(_)), "{refused}");
}
