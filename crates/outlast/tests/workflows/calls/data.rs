//! Values that the builder provides, and that code takes by their types.

use crate::support::*;
use outlast::machine::Needs;
use outlast::prelude::*;
use outlast::testing::{Harness, Replay, ReplayError};
use outlast::{Durable, JobError, SetupError};
use std::sync::atomic::{AtomicU64, Ordering};

on_both_stores!(
    a_workflow_and_its_job_take_the_provided_values,
    a_workflow_type_takes_the_values_that_it_lists,
    a_missing_value_is_an_error_of_the_harness,
    a_value_provided_twice_is_an_error_of_the_harness,
    a_value_that_the_code_does_not_list_is_an_error_where_it_is_taken,
    a_replay_takes_the_provided_values,
    a_missing_value_is_an_error_of_the_replay,
);

/// What the code takes: a machine that numbers letters.
struct Stamp {
    next: AtomicU64,
}

impl Stamp {
    fn from(next: u64) -> Stamp {
        Stamp {
            next: AtomicU64::new(next),
        }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

struct Sender(&'static str);

#[job]
async fn address(to: String, sender: Data<Sender>) -> Result<String, JobError> {
    Ok(format!("from {} to {to}", sender.0))
}

/// A workflow that takes two values, one of them in a step.
#[workflow]
async fn letter(
    flow: Flow,
    to: String,
    stamp: Data<Stamp>,
    sender: Data<Sender>,
) -> FlowResult<(String, u64, String)> {
    let step = flow.step("number", async || Ok::<_, String>(stamp.number()));
    let number = step.await?;
    let envelope = flow.run(address::with(to)).await?;
    flow.sleep(SECOND).await?;
    Ok((sender.0.into(), number, envelope))
}

async fn post(ground: &Ground) -> Harness {
    let worker = ground.bare().register(letter).register(address);
    let worker = worker.provide(Stamp::from(7)).provide(Sender("Ada"));
    worker.build().await.unwrap()
}

async fn a_workflow_and_its_job_take_the_provided_values(ground: Ground) {
    let mut harness = post(&ground).await;
    let first = harness.start(letter::with("Grace".into())).await.unwrap();
    harness.run_all().await;
    let second = harness.start(letter::with("Mary".into())).await.unwrap();
    harness.run_all().await;
    // Each run of the code gets the same value.
    for (sent, number, to) in [(first, 7, "Grace"), (second, 8, "Mary")] {
        let expected = ("Ada".into(), number, format!("from Ada to {to}"));
        harness.expect(&sent).await.is_done_with(&expected);
    }
}

/// A workflow that takes a value by its type, and may list it.
struct Numbers<const LISTS: bool>;

impl<const LISTS: bool> Durable for Numbers<LISTS> {
    const NAME: &'static str = "numbers";
    type Input = ();
    type Output = u64;
}

impl<const LISTS: bool> Workflow for Numbers<LISTS> {
    fn needs(needs: &mut Needs) {
        if LISTS {
            needs.data::<Stamp>();
        }
    }

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<u64> {
        let stamp = flow.data::<Stamp>()?;
        let step = flow.step("number", async || Ok::<_, String>(stamp.number()));
        step.await
    }
}

async fn a_workflow_type_takes_the_values_that_it_lists(ground: Ground) {
    let worker = ground.bare().register(Numbers::<true>);
    let mut harness = worker.provide(Stamp::from(3)).build().await.unwrap();
    let started = harness.start(Numbers::<true>::with(())).await.unwrap();
    harness.run().await;
    harness.expect(&started).await.is_done_with(&3);
}

/// Checks that an error names the workflow, the type of the value and what to write.
#[track_caller]
fn names_the_missing(error: &SetupError, workflow: &str, value: &str) {
    assert!(matches!(error, SetupError::MissingData { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(workflow), "{text}");
    assert!(text.contains(value), "{text}");
    assert!(text.contains(".provide(..)"), "{text}");
}

async fn a_missing_value_is_an_error_of_the_harness(ground: Ground) {
    let worker = ground.bare().register(letter).provide(Sender("Ada"));
    let error = worker.build().await.err().unwrap();
    names_the_missing(&error, "letter/1", "calls::data::Stamp");
    let worker = ground.bare().register(Numbers::<true>);
    let error = worker.build().await.err().unwrap();
    names_the_missing(&error, "numbers/1", "calls::data::Stamp");
    let worker = ground.bare().register(address).provide(Stamp::from(1));
    let error = worker.build().await.err().unwrap();
    names_the_missing(&error, "address/1", "calls::data::Sender");
}

async fn a_value_provided_twice_is_an_error_of_the_harness(ground: Ground) {
    let worker = ground.bare().register(letter).provide(Stamp::from(1));
    let worker = worker.provide(Sender("Ada")).provide(Sender("Mary"));
    let error = worker.build().await.err().unwrap();
    assert!(
        matches!(error, SetupError::ProvidedTwice { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.contains("calls::data::Sender"), "{text}");
}

async fn a_value_that_the_code_does_not_list_is_an_error_where_it_is_taken(ground: Ground) {
    let worker = ground.bare().register(Numbers::<false>);
    let mut harness = worker.build().await.unwrap();
    let started = harness.start(Numbers::<false>::with(())).await.unwrap();
    harness.run().await;
    let row = started.instance().await.unwrap();
    let reason = reason(&row);
    assert!(reason.contains("calls::data::Stamp"), "{reason}");
    assert!(reason.contains(".provide(..)"), "{reason}");
}

/// Returns the history of a letter that was sent.
async fn sent(ground: &Ground) -> String {
    let mut harness = post(ground).await;
    let sent = harness.start(letter::with("Grace".into())).await.unwrap();
    harness.run_all().await;
    harness.expect(&sent).await.is_done();
    let history = harness.client().admin().export(&sent, None).await;
    serde_json::to_string(&history.unwrap().unwrap()).unwrap()
}

async fn a_replay_takes_the_provided_values(ground: Ground) {
    let history = sent(&ground).await;
    let replay = Replay::of(letter).provide(Sender("nobody"));
    replay.provide(Stamp::from(0)).check(&history).unwrap();
}

async fn a_missing_value_is_an_error_of_the_replay(ground: Ground) {
    let history = sent(&ground).await;
    let replay = Replay::of(letter).provide(Sender("nobody"));
    let ReplayError::Setup(error) = replay.check(&history).unwrap_err() else {
        panic!("a value is missing");
    };
    names_the_missing(&error, "letter/1", "calls::data::Stamp");
    let replay = Replay::of(letter).provide(Sender("one"));
    let replay = replay.provide(Sender("two")).provide(Stamp::from(0));
    let twice = replay.check(&history).unwrap_err();
    assert!(
        matches!(&twice, ReplayError::Setup(SetupError::ProvidedTwice { .. })),
        "{twice}"
    );
}
