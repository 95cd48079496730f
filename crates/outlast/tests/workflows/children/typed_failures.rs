//! Failures with a value: a child fails with an error, and its parent reads it by type.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{EventKind, limits};
use outlast::testing::{Harness, HarnessBuilder, Point};
use outlast::workflow::{BLOCKED, Started, Starting};
use outlast::{Client, Durable, Fails, FlowError, Job, JobError, Status};
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::collections::BTreeMap;
use std::error::Error;

on_both_stores!(
    each_kind_of_child_fails_with_a_value_that_its_parent_reads,
    the_value_of_a_failure_is_in_the_row_and_in_the_history_of_the_parent,
    a_value_is_the_same_after_a_crash_at_any_commit,
    a_value_is_that_of_the_last_attempt_of_a_job,
    a_failed_child_of_a_group_gives_its_value,
    a_failed_child_of_a_selection_gives_its_value,
    a_failed_child_under_a_timeout_gives_its_value,
    a_started_child_gives_its_value_to_each_join,
    a_value_without_fields_is_a_value,
    a_value_may_be_as_large_as_an_output,
    a_value_that_cannot_be_stored_does_not_hide_the_failure,
    a_failure_by_text_has_no_value_and_is_returned_unchanged,
    a_cancelled_child_has_no_value,
    a_downcast_to_another_definition_returns_the_unchanged_error,
    an_error_of_the_code_itself_is_downcast_without_a_history,
    a_definition_under_another_type_name_reads_the_value,
    a_value_that_no_longer_decodes_blocks_and_shows_both_sides,
    a_value_that_arrives_and_does_not_decode_blocks_and_shows_both_sides,
    code_after_a_value_that_does_not_decode_does_nothing,
    code_that_panics_after_a_value_that_does_not_decode_is_blocked,
    a_step_that_reads_a_value_that_does_not_decode_has_no_result,
    a_workflow_with_an_error_type_continues_as_new,
    a_workflow_with_an_error_type_is_cancelled_as_any_other,
    the_failure_of_a_child_is_not_the_value_of_its_parent,
    a_workflow_turns_the_failure_of_its_child_into_its_own,
);

/// The error of the children of these tests.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
enum Refusal {
    #[error("only {left} left")]
    OutOfStock { left: u32 },
    #[error("closed until {0}")]
    Closed(String),
}

fn refusal(left: u32) -> Refusal {
    Refusal::OutOfStock { left }
}

#[job(attempts = 1)]
async fn reserve(left: u32) -> Result<u64, Refusal> {
    Err(refusal(left))
}

/// A job that gives up at once, as a type with its own error.
struct Inspect;

impl Job for Inspect {
    const NAME: &'static str = "inspect";
    type Args = u32;
    type Output = u64;

    async fn perform(&self, left: u32, _: &Context) -> Result<u64, JobError> {
        Err(JobError::fatal(refusal(left)).typed::<Inspect>())
    }
}

impl Fails for Inspect {
    type Error = Refusal;
}

struct Shop;

#[steps]
enum Sale {
    Sell(u32),
}

impl Machine for Shop {
    const NAME: &'static str = "shop";
    type State = Sale;
    type Output = u64;

    async fn step(&self, Sale::Sell(left): Sale, _: &Context) -> StepResult<Self> {
        fail_with(refusal(left))
    }
}

impl Fails for Shop {
    type Error = Refusal;
}

/// A workflow that says what its error is, and fails with it after a step.
#[workflow(error = Refusal)]
async fn pick(flow: Flow, left: u32) -> FlowResult<u64> {
    number(&flow, "look", 1).await?;
    Err(refusal(left))?
}

/// The same as a type.
struct Pack;

impl Durable for Pack {
    const NAME: &'static str = "pack";
    type Input = u32;
    type Output = u64;
}

impl Workflow for Pack {
    async fn run(&self, flow: Flow, left: u32) -> FlowResult<u64> {
        number(&flow, "look", 1).await?;
        Err(FlowError::new(refusal(left)).typed::<Pack>())
    }
}

impl Fails for Pack {
    type Error = Refusal;
}

/// Creates a worker that runs all of them.
fn worker(ground: &Ground) -> HarnessBuilder {
    let worker = ground.worker().register(reserve).register(Inspect);
    worker.register(Shop).register(pick).register(Pack)
}

async fn runs(ground: &Ground, code: Script) -> Harness {
    worker(ground).register(code).build().await.unwrap()
}

/// Runs a workflow with all children until nothing waits any more, and returns its output.
async fn result(ground: &Ground, code: Script) -> Value {
    let mut harness = runs(ground, code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    output(&get(&harness, id).await)
}

/// A workflow that reads the value of each kind of child. The timer makes it replay.
fn reads_each() -> Script {
    script(|flow, _| async move {
        let mut values = Vec::new();
        let failed = flow.run(reserve::with(1)).await.unwrap_err();
        values.push(failed.downcast::<reserve>()?);
        let failed = flow.run(Inspect::with(2_u32)).await.unwrap_err();
        values.push(failed.downcast::<Inspect>()?);
        let failed = flow.run(Shop::with(Sale::Sell(3))).await.unwrap_err();
        values.push(failed.downcast::<Shop>()?);
        let failed = flow.run(pick::with(4)).await.unwrap_err();
        values.push(failed.downcast::<pick>()?);
        let failed = flow.run(Pack::with(5_u32)).await.unwrap_err();
        values.push(failed.downcast::<Pack>()?);
        flow.sleep(SECOND).await?;
        Ok(values)
    })
}

async fn each_kind_of_child_fails_with_a_value_that_its_parent_reads(ground: Ground) {
    let expected = [1, 2, 3, 4, 5].map(refusal);
    assert_eq!(result(&ground, reads_each()).await, json!(expected));
}

async fn the_value_of_a_failure_is_in_the_row_and_in_the_history_of_the_parent(ground: Ground) {
    let mut harness = runs(&ground, reads_each()).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let history = history(&harness, id, 1).await;
    let failed = history.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::ActivityFailed | EventKind::ChildFailed
        )
    });
    let failed: Vec<_> = failed.map(data).collect();
    let kids = children(&harness, id).await;
    assert_eq!((failed.len(), kids.len()), (5, 5));
    for (left, (kid, failed)) in (1..).zip(kids.iter().zip(failed)) {
        let stored: Value = kid.result.as_ref().unwrap().decode().unwrap();
        assert_eq!(stored, json!(refusal(left)));
        assert_eq!(failed["result"], stored);
        // The text is stored beside it, for people.
        let text = kid.last_error.as_deref().unwrap();
        assert!(text.ends_with(&refusal(left).to_string()), "{text}");
        assert_eq!(failed["error"], text);
    }
}

async fn a_value_is_the_same_after_a_crash_at_any_commit(ground: Ground) {
    let expected = json!([1, 2, 3, 4, 5].map(refusal));
    for point in [Point::BeforeStep, Point::BeforeCommit, Point::AfterCommit] {
        let mut nth = 1;
        loop {
            let mut harness = runs(&ground, reads_each()).await;
            let id = begin(&harness, ()).await;
            harness.crash_any(point, nth);
            let report = harness.run_all().await;
            assert_eq!(
                output(&get(&harness, id).await),
                expected,
                "{point:?} {nth}"
            );
            if report.crashes == 0 {
                break;
            }
            nth += 1;
        }
        assert!(nth > 10, "{point:?} {nth}");
    }
}

async fn a_value_is_that_of_the_last_attempt_of_a_job(ground: Ground) {
    #[job(attempts = 3)]
    async fn counts(cx: &Context) -> Result<u64, Refusal> {
        Err(refusal(cx.attempt() + 1))
    }

    let code = script(|flow, _| async move {
        let failed = flow.run(counts::with()).await.unwrap_err();
        let text = failed.to_string();
        Ok((text, failed.downcast::<counts>()?))
    });
    let worker = ground.worker().register(code).register(counts);
    let mut harness = worker.build().await.unwrap();
    let id = begin(&harness, ()).await;
    let report = harness.run_all().await;
    assert_eq!(report.retries, 2);
    let text = "counts failed: gave up after 3 attempts: only 3 left";
    let expected = json!([text, refusal(3)]);
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn a_failed_child_of_a_group_gives_its_value(ground: Ground) {
    let code = script(|flow, _| async move {
        let flat = flow.all((flow.run(reserve::with(1)), flow.sleep(HOUR)));
        let flat = flat.await.unwrap_err().downcast::<reserve>()?;
        let nested = flow.all((
            flow.run(double::with(1)),
            flow.all(vec![
                flow.run(Kid::with(Say::Wait)),
                flow.run(pick::with(2)),
            ]),
        ));
        let nested = nested.cancel_rest().await.unwrap_err();
        let nested = nested.downcast::<pick>()?;
        let window = (3..6).map(|left| flow.run(Shop::with(Sale::Sell(left))));
        let window = flow.all(window.collect::<Vec<_>>()).window(1).await;
        let window = window.unwrap_err().downcast::<Shop>()?;
        flow.sleep(SECOND).await?;
        Ok([flat, nested, window])
    });
    let expected = json!([1, 2, 3].map(refusal));
    assert_eq!(result(&ground, code).await, expected);
}

async fn a_failed_child_of_a_selection_gives_its_value(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.run(reserve::with(1)), flow.sleep(HOUR)));
        let first = first.await.unwrap_err().downcast::<reserve>()?;
        let within = flow.all((flow.run(pick::with(2)), flow.sleep(HOUR)));
        let within = flow.select((flow.signal::<Go>(), within)).await;
        let within = within.map(|_| ()).unwrap_err().downcast::<pick>()?;
        let vector = vec![flow.run(Shop::with(Sale::Sell(3)))];
        let vector = flow.select(vector).await.unwrap_err();
        let vector = vector.downcast::<Shop>()?;
        flow.sleep(SECOND).await?;
        Ok([first, within, vector])
    });
    let expected = json!([1, 2, 3].map(refusal));
    assert_eq!(result(&ground, code).await, expected);
}

async fn a_failed_child_under_a_timeout_gives_its_value(ground: Ground) {
    let code = script(|flow, _| async move {
        let call = flow.run(reserve::with(1)).timeout(HOUR).await;
        let call = call.unwrap_err().downcast::<reserve>()?;
        let group = flow.all((flow.run(pick::with(2)), flow.signal::<Go>()));
        let group = flow.deadline(HOUR, group).await;
        let group = group.map(|_| ()).unwrap_err().downcast::<pick>()?;
        flow.sleep(SECOND).await?;
        Ok([call, group])
    });
    assert_eq!(result(&ground, code).await, json!([1, 2].map(refusal)));
}

async fn a_started_child_gives_its_value_to_each_join(ground: Ground) {
    let code = script(|flow, _| async move {
        let job = flow.spawn(reserve::with(1)).await?;
        let kid = flow.spawn(pick::with(2)).await?;
        flow.sleep(SECOND).await?;
        let mut values = Vec::new();
        for _ in 0..2 {
            let failed = job.join().await.unwrap_err();
            values.push(failed.downcast::<reserve>()?);
            let failed = flow.all((kid.join(), job.join())).await.unwrap_err();
            // The group has the failure that the history has first.
            values.push(match failed.downcast::<pick>() {
                Ok(value) => value,
                Err(failed) => failed.downcast::<reserve>()?,
            });
        }
        Ok(values)
    });
    let seen = result(&ground, code).await;
    let values: Vec<Refusal> = serde_json::from_value(seen).unwrap();
    assert_eq!(values[..2], values[2..]);
    assert_eq!(values[0], refusal(1));
}

/// The most common error of all: a type without fields, which is `null` in JSON.
#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("there is no such thing")]
struct NotFound;

async fn a_value_without_fields_is_a_value(ground: Ground) {
    #[job(attempts = 1)]
    async fn find(_: u32) -> Result<u64, NotFound> {
        Err(NotFound)
    }

    #[workflow(error = NotFound)]
    async fn search(_flow: Flow) -> FlowResult<u64> {
        Err(NotFound)?
    }

    let code = script(|flow, _| async move {
        let job = flow.run(find::with(1)).await.unwrap_err();
        let job = job.downcast::<find>()?;
        let kid = flow.run(search::with()).await.unwrap_err();
        let kid = kid.downcast::<search>()?;
        flow.sleep(SECOND).await?;
        Ok([job, kid] == [NotFound, NotFound])
    });
    let worker = ground.worker().register(code).register(find);
    let mut harness = worker.register(search).build().await.unwrap();
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!(true));
}

async fn a_value_may_be_as_large_as_an_output(ground: Ground) {
    #[job(attempts = 1)]
    async fn refuses(bytes: usize) -> Result<u64, Refusal> {
        Err(Refusal::Closed("x".repeat(bytes)))
    }

    let around = json!(Refusal::Closed(String::new())).to_string().len();
    let largest = limits::JSON_BYTES_MAX - around;
    let code = script(move |flow, _| async move {
        let failed = flow.run(refuses::with(largest)).await.unwrap_err();
        let fits = match failed.downcast::<refuses>()? {
            Refusal::Closed(text) => text.len(),
            Refusal::OutOfStock { .. } => 0,
        };
        let failed = flow.run(refuses::with(largest + 1)).await.unwrap_err();
        let kind = failed.kind().as_str();
        let failed = failed.downcast::<refuses>().unwrap_err();
        flow.sleep(SECOND).await?;
        Ok((fits, kind, failed.to_string().len()))
    });
    let worker = ground.worker().register(code).register(refuses);
    let mut harness = worker.build().await.unwrap();
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen[0], largest);
    assert_eq!(seen[1], "activity_failed");
    assert!(seen[2].as_u64().unwrap() > 1_000, "its text is kept");
}

/// An error that serde cannot write: the keys of an object are texts.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("the shelves {shelves:?} are empty")]
struct Shelves {
    shelves: BTreeMap<(u8, u8), u8>,
}

async fn a_value_that_cannot_be_stored_does_not_hide_the_failure(ground: Ground) {
    #[workflow(error = Shelves)]
    async fn count(_flow: Flow) -> FlowResult<u64> {
        let shelves = BTreeMap::from([((1, 2), 3)]);
        Err(Shelves { shelves })?
    }

    let code = script(|flow, _| async move {
        let failed = flow.run(count::with()).await.unwrap_err();
        let failed = failed.downcast::<count>().unwrap_err();
        Ok((failed.kind().as_str(), failed.to_string()))
    });
    let worker = ground.worker().register(code).register(count);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    let seen = output(&get(&harness, id).await);
    assert_eq!(seen[0], "child_failed");
    let text = seen[1].as_str().unwrap();
    let expected = "count failed: the shelves {(1, 2): 3} are empty (its value cannot be stored: ";
    assert!(text.starts_with(expected), "{text}");
}

/// Returns all that an error says.
fn whole(error: &FlowError) -> Value {
    json!([
        error.kind().as_str(),
        error.to_string(),
        error.child(),
        error.call(),
        error.is_cancelled(),
    ])
}

async fn a_failure_by_text_has_no_value_and_is_returned_unchanged(ground: Ground) {
    #[workflow(error = Refusal)]
    async fn says(flow: Flow, why: String) -> FlowResult<u64> {
        flow.fail(why)
    }

    #[job(attempts = 1)]
    async fn panics(_: u32) -> Result<u64, Refusal> {
        panic!("an assertion of the job")
    }

    /// Fails by text where it may fail with a value.
    struct Tells;

    impl Job for Tells {
        const NAME: &'static str = "tells";
        type Args = u32;
        type Output = u64;

        async fn perform(&self, _: u32, _: &Context) -> Result<u64, JobError> {
            Err(JobError::fatal("no luck").typed::<Tells>())
        }
    }

    impl Fails for Tells {
        type Error = Refusal;
    }

    let code = script(|flow, _| async move {
        let mut seen = Vec::new();
        let failed = flow.run(says::with("no luck".into())).await.unwrap_err();
        seen.push(whole(&failed));
        seen.push(whole(&failed.downcast::<says>().unwrap_err()));
        let failed = flow.run(panics::with(1)).await.unwrap_err();
        seen.push(whole(&failed));
        seen.push(whole(&failed.downcast::<panics>().unwrap_err()));
        let failed = flow.run(Tells::with(1_u32)).await.unwrap_err();
        seen.push(whole(&failed));
        seen.push(whole(&failed.downcast::<Tells>().unwrap_err()));
        // The error of a step is a text, too.
        let step = flow.step("step", async || Err::<u64, _>(refusal(1)));
        let failed = step.await.unwrap_err();
        seen.push(whole(&failed));
        seen.push(whole(&failed.downcast::<says>().unwrap_err()));
        flow.sleep(SECOND).await?;
        Ok(seen)
    });
    let worker = ground.worker().register(code).register(says);
    let worker = worker.register(panics).register(Tells);
    let mut harness = worker.build().await.unwrap();
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    let kids = children(&harness, id).await;
    assert!(kids.iter().all(|kid| kid.result.is_none()));
    let panicked = "gave up after 1 attempt: the step panicked: an assertion of the job";
    let expected = [
        json!(["child_failed", "says failed: no luck", kids[0].id, 1, false]),
        json!([
            "activity_failed",
            format!("panics failed: {panicked}"),
            kids[1].id,
            2,
            false
        ]),
        json!([
            "activity_failed",
            "tells failed: no luck",
            kids[2].id,
            3,
            false
        ]),
        json!(["step", "step step: only 1 left", null, 4, false]),
    ];
    let expected: Vec<_> = expected.iter().flat_map(|it| [it, it]).collect();
    assert_eq!(output(&get(&harness, id).await), json!(expected));
}

async fn a_cancelled_child_has_no_value(ground: Ground) {
    /// Ends as cancelled, with an error that would be its value.
    struct Stops;

    impl Job for Stops {
        const NAME: &'static str = "stops";
        type Args = u32;
        type Output = u64;

        async fn perform(&self, left: u32, _: &Context) -> Result<u64, JobError> {
            Err(JobError::cancel(refusal(left)).typed::<Stops>())
        }
    }

    impl Fails for Stops {
        type Error = Refusal;
    }

    let code = script(|flow, _| async move {
        let cancelled = flow.run(Stops::with(1_u32)).await.unwrap_err();
        Ok(whole(&cancelled.downcast::<Stops>().unwrap_err()))
    });
    let worker = ground.worker().register(code).register(Stops);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    let kid = &children(&harness, id).await[0];
    assert_eq!((kid.status, &kid.result), (Status::Cancelled, &None));
    let text = "stops was cancelled: only 1 left";
    let expected = json!(["activity_cancelled", text, kid.id, 1, false]);
    assert_eq!(output(&get(&harness, id).await), expected);
}

async fn a_downcast_to_another_definition_returns_the_unchanged_error(ground: Ground) {
    let code = script(|flow, _| async move {
        let failed = flow.run(reserve::with(1)).await.unwrap_err();
        let before = whole(&failed);
        // The type of the error is the same, and the definition is not.
        let failed = failed.downcast::<pick>().unwrap_err();
        let failed = failed.downcast::<Shop>().unwrap_err();
        let is_same = whole(&failed) == before;
        number(&flow, "goes on", 1).await?;
        Ok((is_same, failed.downcast::<reserve>()?))
    });
    assert_eq!(result(&ground, code).await, json!([true, refusal(1)]));
}

async fn an_error_of_the_code_itself_is_downcast_without_a_history(ground: Ground) {
    async fn check(left: u32) -> FlowResult<()> {
        Err(refusal(left))?
    }

    let code = script(|_, _| async move {
        let own = check(1).await.unwrap_err().downcast::<pick>()?;
        let typed = check(2).await.unwrap_err().typed::<pick>();
        Ok([own, typed.downcast::<reserve>()?])
    });
    assert_eq!(result(&ground, code).await, json!([1, 2].map(refusal)));
}

/// A later build of the code of these tests.
mod renamed {
    use super::*;

    /// The same values under other names.
    #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    pub(super) enum Rejection {
        #[error("sold out, but for {left}")]
        OutOfStock { left: u32 },
        #[error("closed")]
        Closed(String),
    }

    #[job(name = "reserve", attempts = 1)]
    pub(super) async fn hold_back(left: u32) -> Result<String, Rejection> {
        Err(Rejection::OutOfStock { left })
    }
}

/// The children of `reserve` fail in a first build, and the later one reads their values.
fn reads_after_go<D>(spawn: fn(&Flow) -> Starting<D::Output>) -> Script
where
    D: Fails<Error: Error + Serialize + DeserializeOwned + Send + Sync>,
{
    script(move |flow, _| async move {
        let failed = spawn(&flow).await?.join().await;
        let failed = failed.map(|_| ()).unwrap_err();
        flow.signal::<Go>().await?;
        failed.downcast::<D>()
    })
}

async fn a_definition_under_another_type_name_reads_the_value(ground: Ground) {
    let old = reads_after_go::<reserve>(|flow| flow.spawn(reserve::with(1)));
    let mut old = runs(&ground, old).await;
    let id = begin_and_run(&mut old, ()).await;
    old.expect(id).await.awaits(["go"]);
    let new = reads_after_go::<renamed::hold_back>(|flow| flow.spawn(renamed::hold_back::with(1)));
    let mut new = ground.runs(new).await;
    go(&new, id.get(), 1).await;
    new.run().await;
    assert_eq!(output(&get(&new, id).await), json!(refusal(1)));
}

/// A build whose type does not read the values of the others.
mod stricter {
    use super::*;

    #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
    pub(super) enum Refusal {
        #[error("the whole shelf is empty")]
        Empty,
    }

    #[job(name = "reserve", attempts = 1)]
    pub(super) async fn reserve(_: u32) -> Result<u64, Refusal> {
        Err(Refusal::Empty)
    }
}

/// Runs a workflow that is blocked, and returns why.
async fn blocked(harness: &mut Harness, id: Scripted) -> String {
    harness.run().await;
    let row = get(harness, id).await;
    let error = row.last_error.clone().unwrap_or_default();
    assert_eq!(row.status, Status::Runnable, "{error}");
    assert!(error.starts_with(BLOCKED), "{error}");
    error
}

/// Checks that the text names the failure in the history, and the type of the code with the reason.
fn names_both_sides(error: &str) {
    let failure = "activity_failed \"reserve\" of call 1";
    assert!(error.contains(failure), "{error}");
    assert!(error.contains(type_name::<stricter::Refusal>()), "{error}");
    assert!(error.contains("unknown variant"), "{error}");
    assert!(error.contains("`Empty`"), "{error}");
}

async fn a_value_that_no_longer_decodes_blocks_and_shows_both_sides(ground: Ground) {
    let old = reads_after_go::<reserve>(|flow| flow.spawn(reserve::with(1)));
    let mut old = runs(&ground, old).await;
    let id = begin_and_run(&mut old, ()).await;
    let before = history(&old, id, 1).await;
    go(&old, id.get(), 1).await;
    let new = reads_after_go::<stricter::reserve>(|flow| flow.spawn(stricter::reserve::with(1)));
    let mut new = ground.runs(new).await;
    for _ in 0..2 {
        let error = blocked(&mut new, id).await;
        let failed = only_event(&before, EventKind::ActivityFailed).seq;
        let event = format!("{BLOCKED}the history has event {failed}: ");
        assert!(error.starts_with(&event), "{error}");
        names_both_sides(&error);
        new.advance(HOUR).await;
    }
    let after = history(&new, id, 1).await;
    assert_eq!(after[..before.len()], before, "no event is changed");
    let added = words(&after[before.len()..]);
    assert_eq!(added, ["replay_blocked"], "the block is recorded once");
    old.run_all().await;
    assert_eq!(output(&get(&old, id).await), json!(refusal(1)));
}

/// A newer job fails, and the build of its parent does not know the value yet.
async fn a_value_that_arrives_and_does_not_decode_blocks_and_shows_both_sides(ground: Ground) {
    let log = Log::default();
    let build = |log: &Log| {
        let log = log.clone();
        script(move |flow, _| {
            let log = log.clone();
            async move {
                let failed = flow.run(stricter::reserve::with(1)).await.unwrap_err();
                let value = failed.downcast::<stricter::reserve>();
                log.step(&flow, "after it", 1).await?;
                Ok(value.is_err())
            }
        })
    };
    // The build of the parent runs no jobs, so the newer one does.
    let mut parent = ground.runs_only(build(&log)).await;
    let id = begin_and_run(&mut parent, ()).await;
    let mut jobs = worker(&ground).build().await.unwrap();
    jobs.run().await;
    for _ in 0..3 {
        names_both_sides(&blocked(&mut parent, id).await);
        // The failure is not written, and the block is recorded once.
        let expected = [
            "run_started",
            "activity_scheduled 1 reserve",
            "replay_blocked",
        ];
        assert_eq!(history_words(&parent, id).await, expected);
        parent.advance(HOUR).await;
    }
    assert_eq!(log.entries(), [""; 0]);

    let fits = script(|flow, _| async move {
        let failed = flow.run(reserve::with(1)).await.unwrap_err();
        failed.downcast::<reserve>()
    });
    let mut fits = runs(&ground, fits).await;
    fits.advance(HOUR).await;
    fits.run().await;
    assert_eq!(output(&get(&fits, id).await), json!(refusal(1)));
}

/// What the code does although it could not read the value.
#[derive(Clone, Copy, Debug)]
enum Then {
    Step,
    StepBesideAnother,
    Job,
    Child,
    Spawn,
    Message,
    Signal,
    Timer,
    Group,
    Selection,
    Timeout,
    Uncancellable,
    Version,
    Ends,
    Fails,
    ContinuesAsNew,
    Waits,
}

const THEN: [Then; 17] = [
    Then::Step,
    Then::StepBesideAnother,
    Then::Job,
    Then::Child,
    Then::Spawn,
    Then::Message,
    Then::Signal,
    Then::Timer,
    Then::Group,
    Then::Selection,
    Then::Timeout,
    Then::Uncancellable,
    Then::Version,
    Then::Ends,
    Then::Fails,
    Then::ContinuesAsNew,
    Then::Waits,
];

async fn goes_on(flow: &Flow, kid: &Started<u64>, log: &Log, then: Then) -> FlowResult<()> {
    match then {
        Then::Step => drop(log.step(flow, "effect", 1).await?),
        Then::StepBesideAnother => {
            let both = (log.step(flow, "effect", 1), log.step(flow, "effect", 2));
            futures_util::try_join!(both.0.into_future(), both.1.into_future())?;
        }
        Then::Job => drop(flow.run(double::with(1)).await?),
        Then::Child => drop(flow.run(Kid::with(Say::Give(1))).await?),
        Then::Spawn => drop(flow.spawn(Kid::with(Say::Give(1))).await?),
        Then::Message => drop(kid.child().signal(Go(1)).await?),
        Then::Signal => flow.signal::<Halt>().await.map(|_| ())?,
        Then::Timer => flow.sleep(Duration::ZERO).await?,
        Then::Group => drop(flow.all([log.step(flow, "effect", 1)]).await?),
        Then::Selection => {
            let choices = (log.step(flow, "effect", 1), flow.signal::<Halt>());
            flow.select(choices).await?;
        }
        Then::Timeout => drop(log.step(flow, "effect", 1).timeout(HOUR).await?),
        Then::Uncancellable => {
            let code = async { log.step(flow, "effect", 1).await };
            flow.uncancellable(code).await?;
        }
        Then::Version => drop(flow.version("change", 0, 1)),
        Then::Ends => {}
        Then::Fails => flow.fail("it could not be read")?,
        Then::ContinuesAsNew => flow.continue_as_new(json!("again"))?,
        Then::Waits => std::future::pending().await,
    }
    Ok(())
}

/// Returns all that a workflow could have changed: its row, its children and their inboxes.
async fn touched(on: &Client, id: Scripted) -> String {
    let row = get(on, id).await;
    let kids = children(on, id).await;
    let mut seen = format!("{:?} {:?} {kids:?}", row.status, row.run);
    for id in kids.iter().map(|kid| kid.id).chain([id.get()]) {
        let inbox = on.admin().signals(id, None).await.unwrap();
        seen.push_str(&format!("\n{id}: {inbox:?}"));
    }
    seen
}

/// A workflow that waits for a job and a child, and reads the failure of the job after [`Go`].
fn reads<D>(job: fn(&Flow) -> Starting<u64>, log: &Log, then: Then) -> Script
where
    D: Fails<Error: Error + DeserializeOwned + Send + Sync> + Durable<Output = u64>,
{
    let log = log.clone();
    script(move |flow, _| {
        let log = log.clone();
        async move {
            let job = job(&flow).await?;
            let kid = flow.spawn(Kid::with(Say::Wait)).await?;
            let failed = job.join().await.unwrap_err();
            flow.signal::<Go>().await?;
            match failed.downcast::<D>() {
                Ok(value) => Ok(value.to_string()),
                Err(error) => {
                    goes_on(&flow, &kid, &log, then).await?;
                    Err(error)
                }
            }
        }
    })
}

async fn code_after_a_value_that_does_not_decode_does_nothing(ground: Ground) {
    for then in THEN {
        let log = Log::default();
        let old = reads::<reserve>(|flow| flow.spawn(reserve::with(1)), &log, then);
        let mut old = runs(&ground, old).await;
        let id = begin_and_run(&mut old, ()).await;
        old.expect(id).await.awaits(["go"]);
        old.client().signal(id, Halt(1)).await.unwrap();
        go(&old, id.get(), 1).await;
        let recorded = history(&old, id, 1).await;
        let before = touched(old.client(), id).await;

        let new = |flow: &Flow| flow.spawn(stricter::reserve::with(1));
        let new = reads::<stricter::reserve>(new, &log, then);
        let mut new = ground.runs(new).await;
        let error = blocked(&mut new, id).await;
        assert!(error.contains("unknown variant"), "{then:?}: {error}");
        assert_eq!(log.entries(), [""; 0], "{then:?}");
        let events = history(&new, id, 1).await;
        assert_eq!(events[..recorded.len()], recorded, "{then:?}");
        let added = words(&events[recorded.len()..]);
        assert_eq!(added, ["replay_blocked"], "{then:?}");
        // Only the status of the row differs: a signal has woken it.
        let after = touched(new.client(), id).await;
        assert_eq!(after, before, "{then:?}");

        old.advance(HOUR).await;
        old.run().await;
        assert_eq!(output(&get(&old, id).await), "only 1 left", "{then:?}");
    }
}

async fn code_that_panics_after_a_value_that_does_not_decode_is_blocked(ground: Ground) {
    let old = reads_after_go::<reserve>(|flow| flow.spawn(reserve::with(1)));
    let mut old = runs(&ground, old).await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let new = script(|flow, _| async move {
        let failed = flow.spawn(stricter::reserve::with(1)).await?.join().await;
        flow.signal::<Go>().await?;
        let value = failed.unwrap_err().downcast::<stricter::reserve>();
        Ok(value.expect("the value is read"))
    });
    let mut new = ground.runs(new).await;
    let error = blocked(&mut new, id).await;
    assert!(error.contains("unknown variant"), "{error}");
    old.advance(HOUR).await;
    old.run().await;
    assert_eq!(output(&get(&old, id).await), json!(refusal(1)));
}

/// The step runs, because its code reads the value. Its result would be a guess.
async fn a_step_that_reads_a_value_that_does_not_decode_has_no_result(ground: Ground) {
    fn reads<D>(job: fn(&Flow) -> Starting<u64>) -> Script
    where
        D: Fails<Error: DeserializeOwned + Error + Send + Sync> + Durable<Output = u64>,
    {
        script(move |flow, _| async move {
            let failed = job(&flow).await?.join().await.unwrap_err();
            flow.signal::<Go>().await?;
            let decides = flow.step("decides", async move || {
                Ok::<_, String>(match failed.downcast::<D>() {
                    Ok(value) => value.to_string(),
                    Err(_) => "a guess".into(),
                })
            });
            decides.await
        })
    }

    let mut old = runs(
        &ground,
        reads::<reserve>(|flow| flow.spawn(reserve::with(1))),
    )
    .await;
    let id = begin_and_run(&mut old, ()).await;
    go(&old, id.get(), 1).await;
    let new = reads::<stricter::reserve>(|flow| flow.spawn(stricter::reserve::with(1)));
    let mut new = ground.runs(new).await;
    for _ in 0..2 {
        let error = blocked(&mut new, id).await;
        assert!(error.contains("unknown variant"), "{error}");
        new.advance(HOUR).await;
    }
    let events = history(&new, id, 1).await;
    assert_eq!(count(&events, EventKind::StepCompleted), 0);
    old.advance(HOUR).await;
    old.run().await;
    assert_eq!(output(&get(&old, id).await), "only 1 left");
}

async fn a_workflow_with_an_error_type_continues_as_new(ground: Ground) {
    #[workflow(error = Refusal)]
    async fn renews(flow: Flow, more: u32) -> FlowResult<i32> {
        number(&flow, "look", 1).await?;
        match more {
            0 => Ok(flow.run_number()),
            more => flow.continue_as_new(more - 1),
        }
    }

    let worker = ground.bare().register(renews);
    let mut harness = worker.build().await.unwrap();
    let started = harness.start(renews::with(3)).await.unwrap();
    let report = harness.run().await;
    assert_eq!(report.continued_as_new, 3);
    harness.expect(&started).await.is_done_with(&4);
    let code = script(|flow, _| async move { flow.run(renews::with(2)).await });
    let worker = ground.bare().register(renews).register(code);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(3));
}

async fn a_workflow_with_an_error_type_is_cancelled_as_any_other(ground: Ground) {
    #[workflow(error = Refusal)]
    async fn waits(flow: Flow) -> FlowResult<u64> {
        Ok(flow.signal::<Go>().await?.0)
    }

    let code = script(|flow, _| async move { Ok(flow.signal::<Go>().await?.0) });
    let worker = ground.bare().register(waits).register(code);
    let mut harness = worker.build().await.unwrap();
    let typed = harness.start(waits::with()).await.unwrap();
    let plain = begin_and_run(&mut harness, ()).await;
    typed.cancel(ada().because("too dear")).await.unwrap();
    let plain = harness.handle::<Script>(plain).await.unwrap();
    plain.cancel(ada().because("too dear")).await.unwrap();
    harness.run().await;
    let typed = typed.instance().await.unwrap();
    let plain = plain.instance().await.unwrap();
    assert_eq!((typed.status, &typed.result), (Status::Cancelled, &None));
    assert_eq!(typed.status, plain.status);
    assert_eq!(typed.last_error, plain.last_error);
    let words = history_words(&harness, typed.id).await;
    assert_eq!(words.last().unwrap(), "run_cancelled");
}

async fn the_failure_of_a_child_is_not_the_value_of_its_parent(ground: Ground) {
    #[workflow(error = Refusal)]
    async fn passes_on(flow: Flow, left: u32) -> FlowResult<u64> {
        flow.run(reserve::with(left)).await
    }

    let code = script(|flow, _| async move {
        let failed = flow.run(passes_on::with(1)).await.unwrap_err();
        let failed = failed.downcast::<passes_on>().unwrap_err();
        let failed = failed.downcast::<reserve>().unwrap_err();
        Ok(failed.to_string())
    });
    let worker = worker(&ground).register(passes_on).register(code);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(children(&harness, id).await[0].result, None);
    let text = "gave up after 1 attempt: only 1 left";
    let text = format!("passes_on failed: reserve failed: {text}");
    assert_eq!(output(&get(&harness, id).await), json!(text));
}

async fn a_workflow_turns_the_failure_of_its_child_into_its_own(ground: Ground) {
    #[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
    #[error("no shop has it")]
    struct Nowhere {
        because: Refusal,
    }

    #[workflow(error = Nowhere)]
    async fn asks_shops(flow: Flow, left: u32) -> FlowResult<u64> {
        match flow.run(reserve::with(left)).await {
            Ok(n) => Ok(n),
            Err(error) => {
                let because = error.downcast::<reserve>()?;
                Err(Nowhere { because })?
            }
        }
    }

    let code = script(|flow, _| async move {
        let failed = flow.run(asks_shops::with(1)).await.unwrap_err();
        let text = failed.to_string();
        Ok((text, failed.downcast::<asks_shops>()?))
    });
    let worker = worker(&ground).register(asks_shops).register(code);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    let because = json!({ "because": refusal(1) });
    let expected = json!(["asks_shops failed: no shop has it", because]);
    assert_eq!(output(&get(&harness, id).await), expected);
}
