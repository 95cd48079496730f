//! No instance commits forever. A workflow writes each event once, and an instance whose commits
//! change nothing is blocked.

use crate::support::*;
use futures_util::FutureExt;
use outlast::Status;
use outlast::prelude::*;
use outlast::store::EventKind;
use outlast::testing::Point;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both_stores!(
    a_machine_without_progress_is_blocked_until_its_code_is_fixed,
    a_machine_without_progress_is_blocked_also_without_run_ahead,
    a_machine_that_makes_progress_is_never_blocked,
    the_harness_names_the_instance_that_goes_in_circles,
    cancel_rest_takes_effect_whatever_the_code_does_next,
    cancel_rest_takes_effect_despite_a_crash_at_each_commit,
);

/// How a child becomes one of the rest that is cancelled.
#[derive(Clone, Copy, Debug)]
enum Left {
    Selection,
    FailedAll,
    Timeout,
    Deadline,
}

/// What the code does between that call and its end.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Now,
    Step,
    Activity,
    Draws,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Done,
    Failed,
    ContinuedAsNew,
}

const LEFT: [Left; 4] = [
    Left::Selection,
    Left::FailedAll,
    Left::Timeout,
    Left::Deadline,
];
const BETWEEN: [Between; 5] = [
    Between::Nothing,
    Between::Now,
    Between::Step,
    Between::Activity,
    Between::Draws,
];
const ENDS: [End; 3] = [End::Done, End::Failed, End::ContinuedAsNew];

#[derive(Clone, Copy, Debug)]
struct Case {
    left: Left,
    between: Between,
    /// How many forms of changes the code asks for before and after `between`.
    versions: (usize, usize),
    end: End,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for left in LEFT {
        for between in BETWEEN {
            for versions in [(0, 0), (1, 0), (0, 1), (2, 1)] {
                for end in ENDS {
                    cases.push(Case {
                        left,
                        between,
                        versions,
                        end,
                    });
                }
            }
        }
    }
    cases
}

async fn leave(flow: &Flow, left: Left) -> FlowResult<()> {
    let (quick, failing) = (Say::Give(1), Say::Fail("no".into()));
    let holds = || flow.run(Kid::with(Say::Wait));
    match left {
        Left::Selection => {
            let first = flow.select((flow.run(Kid::with(quick)), holds()));
            first.cancel_rest().await?;
        }
        Left::FailedAll => {
            let all = flow.all((flow.run(Kid::with(failing)), holds()));
            all.cancel_rest().await.unwrap_err();
        }
        Left::Timeout => {
            holds().timeout(SECOND).cancel_rest().await?;
        }
        Left::Deadline => {
            let pair = (holds(), flow.run(Kid::with(Say::Wait)));
            flow.deadline(SECOND, pair).cancel_rest().await?;
        }
    }
    Ok(())
}

fn code(case: Case) -> Script {
    script(move |flow, _| async move {
        if flow.run_number() > 1 {
            return Ok(0);
        }
        leave(&flow, case.left).await?;
        let mut forms = 0;
        for n in 0..case.versions.0 {
            forms += flow.version(&format!("before {n}"), 0, 1);
        }
        match case.between {
            Between::Nothing => {}
            Between::Now => drop(flow.now()),
            Between::Step => drop(number(&flow, "between", 1).await?),
            Between::Activity => drop(flow.run(double::with(1)).await?),
            Between::Draws => drop((flow.random(), flow.uuid())),
        }
        for n in 0..case.versions.1 {
            forms += flow.version(&format!("after {n}"), 0, 1);
        }
        match case.end {
            End::Done => Ok(forms),
            End::Failed => flow.fail("as it was to be"),
            End::ContinuedAsNew => flow.continue_as_new(()),
        }
    })
}

/// Runs a case. Returns the events of its first run as words, and the number of commits.
async fn seen(ground: &Ground, case: Case, crash: Option<(Point, u32)>) -> (Vec<String>, u32) {
    let mut harness = ground.runs(code(case)).await;
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_at::<Script>("run", point, nth);
    }
    let report = harness.run_all().await;
    let row = get(&harness, id).await;
    let error = row.last_error.as_deref().unwrap_or_default();
    let ended = match case.end {
        End::Done | End::ContinuedAsNew => Status::Done,
        End::Failed => Status::Failed,
    };
    assert_eq!(row.status, ended, "{case:?} {crash:?}: {error}");
    let statuses = statuses(&harness, id).await;
    let left = statuses.iter().filter(|it| **it == Status::Cancelled);
    let many = if matches!(case.left, Left::Deadline) {
        2
    } else {
        1
    };
    assert_eq!(left.count(), many, "{case:?} {crash:?}: {statuses:?}");
    let events = history(&harness, id, 1).await;
    assert_eq!(
        count(&events, EventKind::ChildMessaged),
        many,
        "{case:?} {crash:?}"
    );
    let marks = count(&events, EventKind::VersionMarked);
    assert_eq!(
        marks,
        case.versions.0 + case.versions.1,
        "{case:?} {crash:?}"
    );
    (words(&events), report.steps)
}

async fn cancel_rest_takes_effect_whatever_the_code_does_next(ground: Ground) {
    // Every seventh case: each value of each field meets most values of the others.
    for case in cases().into_iter().step_by(7) {
        seen(&ground, case, None).await;
    }
}

async fn cancel_rest_takes_effect_despite_a_crash_at_each_commit(ground: Ground) {
    // Every seventeenth case: each value of each field meets several values of the others.
    for case in cases().into_iter().step_by(17) {
        let (_, commits) = seen(&ground, case, None).await;
        for point in [Point::BeforeCommit, Point::AfterCommit] {
            // A crash at a commit that the worker does not reach does not happen.
            for nth in 1..=commits.min(8) {
                seen(&ground, case, Some((point, nth))).await;
            }
        }
    }
}

/// A machine that goes to its own step and state again and again, until `is_fixed` is set.
#[derive(Clone, Default)]
struct Spins {
    is_fixed: Arc<AtomicBool>,
}

#[steps]
enum Spin {
    Around(u64),
    Count(u64),
}

impl Machine for Spins {
    const NAME: &'static str = "spins";
    type State = Spin;
    type Output = u64;

    async fn step(&self, state: Spin, _: &Context) -> StepResult<Self> {
        match state {
            Spin::Around(n) if self.is_fixed.load(Ordering::Relaxed) => done(n),
            Spin::Around(n) => next(Spin::Around(n)),
            Spin::Count(0) => done(0),
            Spin::Count(n) => next(Spin::Count(n - 1)),
        }
    }
}

async fn is_blocked_until_fixed(ground: Ground, run_ahead: u32) {
    let spins = Spins::default();
    let worker = ground.bare().register(spins.clone());
    let worker = worker.steps_max(2_000).run_ahead(run_ahead);
    let mut harness = worker.build().await.unwrap();
    let id = harness
        .start(Spins::with(Spin::Around(7)))
        .await
        .unwrap()
        .id();
    assert_eq!(harness.run().await.steps, 1_001);
    let row = get(&harness, id).await;
    assert_eq!((row.status, row.attempt), (Status::Runnable, 1));
    let error = row.last_error.clone().unwrap();
    assert!(
        error.starts_with("blocked: goes in circles: 1000 commits at step around"),
        "{error}"
    );
    assert_eq!(row.eligible_at, harness.time() + SECOND);
    let sentence = harness.client().admin().explain(&row).await.unwrap();
    assert!(sentence.contains("goes in circles"), "{sentence}");
    // The next attempt is blocked at its first commit.
    harness.advance(SECOND).await;
    assert_eq!(harness.run().await.steps, 1);
    let row = get(&harness, id).await;
    assert_eq!((row.status, row.attempt), (Status::Runnable, 2));
    assert_eq!(row.eligible_at, harness.time() + 2 * SECOND);
    spins.is_fixed.store(true, Ordering::Relaxed);
    harness.advance(2 * SECOND).await;
    harness.run().await;
    harness.expect(id).await.is_done_with(&7);
}

async fn a_machine_without_progress_is_blocked_until_its_code_is_fixed(ground: Ground) {
    is_blocked_until_fixed(ground, 100_000).await;
}

async fn a_machine_without_progress_is_blocked_also_without_run_ahead(ground: Ground) {
    is_blocked_until_fixed(ground, 0).await;
}

async fn a_machine_that_makes_progress_is_never_blocked(ground: Ground) {
    let worker = ground.bare().register(Spins::default());
    let mut harness = worker.steps_max(2_000).build().await.unwrap();
    let counts = Spins::with(Spin::Count(1_500));
    let counts = harness.start(counts).await.unwrap();
    assert_eq!(harness.run().await.steps, 1_501);
    harness.expect(&counts).await.is_done_with(&0);
}

async fn the_harness_names_the_instance_that_goes_in_circles(ground: Ground) {
    let worker = ground.bare().register(Spins::default());
    let mut harness = worker.build().await.unwrap();
    let started = harness.start(Spins::with(Spin::Around(7))).await.unwrap();
    let panic = AssertUnwindSafe(harness.run()).catch_unwind().await;
    let panic = panic.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    let expected = format!(
        "instance {} of spins goes in circles: it has run 1000 steps",
        started.id()
    );
    assert!(message.starts_with(&expected), "{message}");
    assert!(message.contains("around"), "{message}");

    let worker = ground.bare().register(Spins::default()).jumps_max(3);
    let mut harness = worker.steps_max(2_000).build().await.unwrap();
    harness.start(Spins::with(Spin::Around(8))).await.unwrap();
    let panic = AssertUnwindSafe(harness.run_all()).catch_unwind().await;
    let panic = panic.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("time was moved 3 times"), "{message}");
}
