//! A machine with a recorded history on the screen of its instance: timeline, transitions, states.

use crate::Visit;
use crate::screens::pictures;
use crate::stage::{Setting, Stage};
use crate::tracked::{Parcel, Tracked};
use outlast::{Machine, Status};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_machine_is_drawn_listed_and_stepped_through() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let note = "<img src=x onerror=window.hit=1>".to_owned();
    let id = stage.start(Tracked::with(Parcel::Pack { note })).await;
    stage.reaches(id, Status::AwaitingSignal).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    // The screen is that of a machine: step, state and open wait.
    page.until_text("[data-waiting]", "waits for signal cleared")
        .await;
    page.until_text(".facts", "3 transitions").await;
    page.until(
        "document.querySelector('[data-json=state]') && ![...document.querySelectorAll('button')].some((button) => button.textContent === 'Export')",
        "a state, and nothing to export",
    )
    .await;
    // A lane for each step, and a stay for each visit of a step. The last stay is open.
    page.until(
        "[...document.querySelectorAll('[data-lane]')].map((lane) => lane.dataset.lane).join() === 'pack,weigh,ship'",
        "a lane for each step",
    )
    .await;
    page.until(
        "document.querySelectorAll('[data-stay]').length === 4 && document.querySelectorAll('[data-stay].is-open').length === 1",
        "a stay for each visit",
    )
    .await;
    page.until_text("[data-event=\"2\"]", "retry→ weigh").await;
    page.until_text("[data-event=\"2\"]", "<b>the scales are taken</b>")
        .await;
    page.until_text("[data-event=\"3\"]", "waits for cleared")
        .await;
    // Steps back to the first state, and forward again.
    page.until_text("[data-past-state]", "9007199254740993")
        .await;
    page.until_text("[data-past-said]", "At step ship, after event 3")
        .await;
    for _ in 0..3 {
        page.click("[data-past=back]").await;
    }
    page.until_text("[data-past-said]", "At step pack, when recording began")
        .await;
    page.until_text("[data-past-state=\"0\"]", "<img src=x")
        .await;
    page.until(
        "document.querySelector('[data-past=back]').disabled",
        "the beginning",
    )
    .await;
    page.click("[data-past=on]").await;
    page.until_text("[data-past-state=\"1\"]", "grams").await;
    page.picture(&pictures().join("machine-past.png")).await;

    // New transitions are added, and the shown state stays.
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;
    page.click(".signal-form textarea").await;
    page.write("{}").await;
    page.press("Send signal").await;
    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("[data-event=\"4\"]", "woken by cleared")
        .await;
    page.until(
        "document.querySelector('[data-moment=done]') && !document.querySelector('[data-stay].is-open')",
        "a timeline that has ended",
    )
    .await;
    page.until_text("[data-past-state=\"1\"]", "grams").await;
    assert_eq!(
        page.value("window.hit === undefined && !document.querySelector('main img')")
            .await,
        true
    );
    page.size(390, 844).await;
    page.until(
        "document.documentElement.scrollWidth <= innerWidth",
        "a page that is no wider than the screen",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeline_lanes_are_built_from_transitions() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    let event = |seq: i32, ms: u32, name: &str, outcome: &str, to: Option<&str>| {
        let at = format!("2026-01-01T15:00:00.{ms:03}Z");
        let transition = json!({"outcome": outcome, "to": to, "is_last": false});
        json!({"seq": seq, "at": at, "kind": "transitioned", "name": name, "transition": transition})
    };
    let events = [
        event(1, 10, "pack", "next", Some("weigh")),
        event(2, 15, "weigh", "retry", Some("weigh")),
        event(3, 40, "weigh", "wait", Some("pack")),
        event(4, 90, "pack", "fail", None),
    ];
    let lanes = format!(
        "import(new URL('instance/timeline.js', document.baseURI)).then(({{ lanesOf }}) => {{ const {{ rows, moments }} = lanesOf({}, 0); \
         return [rows.map((row) => [row.step, row.stays.map((stay) => [stay.seq, stay.to - stay.from, stay.outcome])]), moments.map((each) => each.outcome)]; }})",
        json!(events)
    );
    assert_eq!(
        page.value(&lanes).await,
        json!([
            [
                ["pack", [[0, 0, "next"], [3, 50, "wait"]]],
                ["weigh", [[1, 5, "next"], [2, 25, "retry"]]],
            ],
            ["fail"],
        ])
    );
    visit.end().await;
    stage.end().await;
}
