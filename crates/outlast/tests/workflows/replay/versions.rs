//! Changes of the code of running instances, with `flow.version`.

use crate::support::*;
use outlast::Status;
use outlast::store::EventKind;
use outlast::testing::Point;
use outlast::workflow::BLOCKED;

on_both_stores!(
    a_new_run_has_the_newest_form,
    a_new_run_has_the_newest_form_of_every_change,
    a_history_from_before_the_change_has_the_oldest_form,
    a_run_that_reaches_the_change_later_has_the_newest_form,
    a_run_keeps_its_form_when_newer_ones_exist,
    a_change_has_the_same_form_wherever_the_code_asks,
    a_form_is_written_before_the_step_that_depends_on_it,
    a_form_that_the_code_does_not_know_blocks,
    a_minimum_form_above_the_maximum_blocks,
    each_new_run_chooses_its_form_again,
);

/// A workflow that asks for a form at its start and after each call.
fn asks(forms: [i32; 2]) -> Script {
    script(move |flow, _| async move {
        let [min, max] = forms;
        let first = flow.version("first", min, max);
        number(&flow, "one", 1).await?;
        let second = flow.version("second", min, max);
        flow.run(double::with(1)).await?;
        let third = flow.version("third", min, max);
        flow.sleep(SECOND).await?;
        Ok((first, second, third, flow.version("last", min, max)))
    })
}

async fn a_new_run_has_the_newest_form(ground: Ground) {
    let code = script(|flow, _| async move { Ok(flow.version("change", 0, 3)) });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(output(&get(&harness, id).await), json!(3));
    let history = history(&harness, id, 1).await;
    let marked = only_event(&history, EventKind::VersionMarked);
    assert_eq!(
        (marked.name.as_str(), data(marked)),
        ("change", json!({"version": 3}))
    );
}

async fn a_new_run_has_the_newest_form_of_every_change(ground: Ground) {
    let seen = result_of(&ground, asks([0, 3]), ()).await;
    assert_eq!(seen, json!([3, 3, 3, 3]));
}

async fn a_history_from_before_the_change_has_the_oldest_form(ground: Ground) {
    let before = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(double::with(1)).await?;
        flow.sleep(SECOND).await?;
        Ok(())
    });
    let mut old = ground.runs(before).await;
    let id = begin_and_run(&mut old, ()).await;
    let mut new = ground.runs(asks([0, 3])).await;
    new.run_all().await;
    // The run waited for the timer, so only the last change is new to it.
    assert_eq!(output(&get(&new, id).await), json!([0, 0, 0, 3]));
}

async fn a_run_that_reaches_the_change_later_has_the_newest_form(ground: Ground) {
    let before = script(|flow, _| async move {
        number(&flow, "one", 1).await?;
        flow.run(double::with(1)).await?;
        Ok(())
    });
    let mut old = ground.runs_only(before).await;
    let id = begin_and_run(&mut old, ()).await;
    old.expect(id).await.awaits_children();
    let mut new = ground.runs(asks([0, 3])).await;
    new.run_all().await;
    assert_eq!(output(&get(&new, id).await), json!([0, 0, 3, 3]));
}

async fn a_run_keeps_its_form_when_newer_ones_exist(ground: Ground) {
    let mut first = ground.runs(asks([0, 1])).await;
    let id = begin_and_run(&mut first, ()).await;
    let mut second = ground.runs(asks([0, 2])).await;
    second.run_all().await;
    assert_eq!(output(&get(&second, id).await), json!([1, 1, 1, 2]));
    let history = history(&second, id, 1).await;
    assert_eq!(count(&history, EventKind::VersionMarked), 4);
}

async fn a_change_has_the_same_form_wherever_the_code_asks(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.version("change", 0, 1);
        flow.sleep(SECOND).await?;
        Ok([
            first,
            flow.version("change", 0, 1),
            flow.version("change", 0, 9),
        ])
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 1, 1]));
    let history = history(&harness, id, 1).await;
    assert_eq!(count(&history, EventKind::VersionMarked), 1);
}

async fn a_form_is_written_before_the_step_that_depends_on_it(ground: Ground) {
    let log = Log::default();
    let build = |newest: i32| {
        let log = log.clone();
        script(move |flow, _| {
            let log = log.clone();
            async move {
                let form = flow.version("change", 0, newest);
                let name = ["none", "first", "second"][form as usize];
                log.step(&flow, name, 1).await?;
                Ok(form)
            }
        })
    };
    let mut first = ground.runs(build(1)).await;
    let id = begin(&first, ()).await;
    // The step has had its effect, and its result is not written.
    first.crash_at::<Script>("run", Point::BeforeCommit, 2);
    let mut second = ground.runs(build(2)).await;
    first.run().await;
    second.run().await;
    assert_eq!(output(&get(&second, id).await), json!(1));
    assert_eq!(log.entries(), ["first", "first"]);
}

async fn a_form_that_the_code_does_not_know_blocks(ground: Ground) {
    let mut old = ground.runs(asks([0, 1])).await;
    let id = begin_and_run(&mut old, ()).await;
    old.advance(SECOND).await;
    let mut new = ground.runs(asks([2, 3])).await;
    new.run().await;
    let blocked = get(&new, id).await;
    assert_eq!(blocked.status, Status::Runnable);
    let error = blocked.last_error.unwrap();
    assert!(error.starts_with(BLOCKED), "{error}");
    assert!(error.contains("form 1 of the change \"first\""), "{error}");
    assert!(error.contains("forms 2 to 3"), "{error}");
    // A build that knows the form goes on.
    old.run_all().await;
    assert_eq!(output(&get(&old, id).await), json!([1, 1, 1, 1]));
}

async fn a_minimum_form_above_the_maximum_blocks(ground: Ground) {
    let mut wrong = ground.runs(asks([3, 1])).await;
    let id = begin_and_run(&mut wrong, ()).await;
    let blocked = get(&wrong, id).await;
    assert_eq!(blocked.status, Status::Runnable);
    let error = blocked.last_error.unwrap();
    assert!(error.starts_with(BLOCKED), "{error}");
    assert!(error.contains("\"first\""), "{error}");
    assert!(error.contains("forms 3 to 1"), "{error}");
    // The wrong build writes no form, so the correct build chooses it.
    let mut right = ground.runs(asks([1, 3])).await;
    right.run_all().await;
    assert_eq!(output(&get(&right, id).await), json!([3, 3, 3, 3]));
}

async fn each_new_run_chooses_its_form_again(ground: Ground) {
    let build = |newest: i32| {
        script(move |flow, input: Value| async move {
            let mut seen: Vec<i32> = serde_json::from_value(input)?;
            seen.push(flow.version("change", 0, newest));
            flow.sleep(SECOND).await?;
            match seen.len() {
                2 => Ok(seen),
                _ => flow.continue_as_new(seen),
            }
        })
    };
    let mut first = ground.runs(build(1)).await;
    let id = begin_and_run(&mut first, Vec::<i32>::new()).await;
    let mut second = ground.runs(build(2)).await;
    second.run_all().await;
    assert_eq!(output(&get(&second, id).await), json!([1, 2]));
}
