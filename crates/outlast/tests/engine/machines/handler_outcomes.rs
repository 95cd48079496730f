//! `on_failure` may return every outcome that a step may return, and each does the same as there.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{Inspect, Instance, Store};
use outlast::{Failure, Handle, Outcome, Status, StepError};

on_both_stores!(
    on_failure_goes_to_another_step,
    on_failure_goes_to_another_step_through_the_queue,
    on_failure_retries_the_step_with_one_more_attempt,
    on_failure_waits_for_a_signal_and_the_next_step_receives_it,
    on_failure_waits_until_a_deadline_and_the_next_step_runs_then,
    on_failure_starts_children_and_the_next_step_sees_them,
    on_failure_ends_the_instance_as_done,
    on_failure_ends_the_instance_as_failed,
    on_failure_ends_the_instance_as_cancelled,
);

/// Fails, and lets `on_failure` do what its state says.
struct Case;

#[steps]
#[derive(Clone)]
enum Trial {
    Fail(Verdict),
    /// The step to which `on_failure` leads. It returns what it sees.
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Verdict {
    Next,
    Requeue,
    Retry,
    Wait,
    WaitAtMost,
    FanOut,
    Done,
    Fail,
    Cancelled,
}

/// What a step saw.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    step: String,
    attempt: u32,
    signals: Vec<u32>,
    children: Vec<u32>,
}

#[derive(Signal, Serialize, Deserialize)]
struct Appeal(u32);

/// A child that returns its number.
struct Witness;

#[steps]
enum Testimony {
    Say(u32),
}

impl Machine for Witness {
    const NAME: &'static str = "witness";
    type State = Testimony;
    type Output = u32;

    async fn step(&self, Testimony::Say(number): Testimony, _: &Context) -> StepResult<Self> {
        done(number)
    }
}

fn seen(cx: &Context) -> Result<Seen, StepError> {
    let children = cx.children::<Witness>()?;
    Ok(Seen {
        step: cx.step().to_owned(),
        attempt: cx.attempt(),
        signals: cx
            .received::<Appeal>()?
            .map(|it| it.0)
            .into_iter()
            .collect(),
        children: children.iter().filter_map(|child| child.output).collect(),
    })
}

impl Machine for Case {
    const NAME: &'static str = "case";
    type State = Trial;
    type Output = Seen;

    async fn step(&self, trial: Trial, cx: &Context) -> StepResult<Self> {
        match trial {
            Trial::Fail(Verdict::Retry) if cx.attempt() > 0 => done(seen(cx)?),
            Trial::Fail(_) => Err(StepError::new("guilty")),
            Trial::After => done(seen(cx)?),
        }
    }

    async fn on_failure(&self, trial: Trial, failure: Failure, cx: &Context) -> StepResult<Self> {
        let Trial::Fail(verdict) = trial else {
            return fail(failure);
        };
        match verdict {
            Verdict::Next => next(Trial::After),
            Verdict::Requeue => Ok(Outcome::requeue(Trial::After)),
            Verdict::Retry => retry(Duration::ZERO, failure),
            Verdict::Wait => wait_for::<Appeal>().then(Trial::After),
            Verdict::WaitAtMost => wait_for::<Appeal>()
                .timeout(Duration::from_millis(50))
                .then(Trial::After),
            Verdict::FanOut => {
                fan_out([1, 2].map(|n| Witness::with(Testimony::Say(n)))).then(Trial::After)
            }
            Verdict::Done => done(seen(cx)?),
            Verdict::Fail => fail(format!("convicted: {failure}")),
            Verdict::Cancelled => Ok(Outcome::cancelled("settled out of court")),
        }
    }
}

async fn tried(store: impl Store + Inspect, verdict: Verdict) -> (Engine, Handle<Case>) {
    let engine = Engine::builder(store).register(Case).register(Witness);
    let engine = engine.queue("default", 10).start().await.unwrap();
    let case = insert(engine.client(), Case::with(Trial::Fail(verdict))).await;
    (engine, case)
}

/// What the step saw that ended the instance as done.
async fn output(store: impl Store + Inspect, verdict: Verdict) -> Seen {
    let (_engine, case) = tried(store, verdict).await;
    case.output().timeout(LONG).await.unwrap()
}

async fn ended(store: impl Store + Inspect, verdict: Verdict) -> Instance {
    let (_engine, case) = tried(store, verdict).await;
    case.ended().timeout(LONG).await.unwrap()
}

fn after() -> Seen {
    Seen {
        step: "after".into(),
        ..Seen::default()
    }
}

async fn on_failure_goes_to_another_step<S: Store + Inspect + Clone>(store: S) {
    assert_eq!(output(store, Verdict::Next).await, after());
}

async fn on_failure_goes_to_another_step_through_the_queue<S: Store + Inspect + Clone>(store: S) {
    assert_eq!(output(store, Verdict::Requeue).await, after());
}

async fn on_failure_retries_the_step_with_one_more_attempt<S: Store + Inspect + Clone>(store: S) {
    let (_engine, case) = tried(store, Verdict::Retry).await;
    let expected = Seen {
        step: "fail".into(),
        attempt: 1,
        ..Seen::default()
    };
    assert_eq!(case.output().timeout(LONG).await.unwrap(), expected);
}

async fn on_failure_waits_for_a_signal_and_the_next_step_receives_it<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (_engine, case) = tried(store, Verdict::Wait).await;
    let parked = case.settled().timeout(LONG).await.unwrap();
    assert_eq!(
        (parked.status, parked.step.as_str()),
        (Status::AwaitingSignal, "after")
    );
    assert_eq!(parked.awaits, Some(vec![Appeal::NAME.to_owned()]));
    case.signal(Appeal(7)).await.unwrap();
    let expected = Seen {
        signals: vec![7],
        ..after()
    };
    assert_eq!(case.output().timeout(LONG).await.unwrap(), expected);
}

async fn on_failure_waits_until_a_deadline_and_the_next_step_runs_then<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (_engine, case) = tried(store, Verdict::WaitAtMost).await;
    assert_eq!(case.output().timeout(LONG).await.unwrap(), after());
}

async fn on_failure_starts_children_and_the_next_step_sees_them<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (_engine, case) = tried(store, Verdict::FanOut).await;
    let expected = Seen {
        children: vec![1, 2],
        ..after()
    };
    assert_eq!(case.output().timeout(LONG).await.unwrap(), expected);
    assert_eq!(case.children().await.unwrap().len(), 2);
}

async fn on_failure_ends_the_instance_as_done<S: Store + Inspect + Clone>(store: S) {
    let expected = Seen {
        step: "fail".into(),
        ..Seen::default()
    };
    assert_eq!(output(store, Verdict::Done).await, expected);
}

async fn on_failure_ends_the_instance_as_failed<S: Store + Inspect + Clone>(store: S) {
    let ended = ended(store, Verdict::Fail).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.last_error.as_deref(), Some("convicted: guilty"));
}

async fn on_failure_ends_the_instance_as_cancelled<S: Store + Inspect + Clone>(store: S) {
    let ended = ended(store, Verdict::Cancelled).await;
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(ended.last_error.as_deref(), Some("settled out of court"));
}
