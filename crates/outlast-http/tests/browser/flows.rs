//! A workflow on the screen of its instance: its timeline, open waits, events and runs.

use crate::Visit;
use crate::flow_machines::{Approved, Errand, crowd, shelf, stuck};
use crate::page::Theme;
use crate::screens::pictures;
use crate::stage::{Setting, Stage};
use crate::team::Go;
use outlast::{Note, Status};
use serde_json::json;

const MARK: &str = "document.querySelector('[data-timeline]').marked = true";
const MARKED: &str = "document.querySelector('[data-timeline]').marked === true";

/// A script that returns timeline rows whose parts overlap, or whose bar is not beside the name.
const OVERLAPS: &str = "[...document.querySelectorAll('.timeline-names li')].filter((row) => { \
    const parts = [...row.children].map((part) => part.getBoundingClientRect()).filter((box) => box.width > 0); \
    const bar = document.querySelector(`[data-bar='${row.dataset.call}']`).getBoundingClientRect(); \
    const own = row.getBoundingClientRect(); \
    return parts.some((box, index) => index > 0 && box.left < parts[index - 1].right - 1) || parts.some((box) => box.right > own.right + 1) \
        || bar.top < own.top - 1 || bar.bottom > own.bottom + 1; \
    }).map((row) => row.textContent)";

fn errand(checks: &[&str]) -> Errand {
    Errand {
        note: "two lamps, fragile".into(),
        parcels_ms: vec![350, 900, 600],
        checks: checks.iter().map(|&what| what.to_owned()).collect(),
        repeats: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_drawn_and_continues_after_a_signal_sent_by_clicking() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.errand(errand(&["wait", "done", "wait"])).await;
    let page = &visit.page;
    page.size(1360, 1180).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-waiting]", "signal approved (call ")
        .await;
    // The open waits, with their group and children.
    page.until_text("[data-waits]", "approved").await;
    page.until_text("[data-group]", "4 of 5 open; the first one wins")
        .await;
    page.until(
        "document.querySelectorAll('[data-wait]').length === 4 && document.querySelector('[data-wait] a[href*=\"/instances/\"]')",
        "four calls, some with their child",
    )
    .await;
    // The timeline has a bar for each call, links to children, failures and timers.
    page.until(
        "document.querySelectorAll('[data-timeline] [data-call]').length === document.querySelectorAll('[data-timeline] [data-bar]').length",
        "a bar for each call",
    )
    .await;
    for name in ["reserve", "insure", "label", "pack", "approved", "piece"] {
        page.until_text(".timeline-names", name).await;
    }
    page.until(
        "document.querySelector('[data-timeline] .is-child a[href*=\"/instances/\"]') && document.querySelector('[data-moment=failure_handled]')",
        "children inline and a failure that was handled",
    )
    .await;
    page.until(
        "document.querySelectorAll('.call-bar.is-open').length >= 4",
        "four open calls",
    )
    .await;
    // The bars are to scale: a longer call has a longer bar.
    let longest = "(() => { const width = (call) => document.querySelector(`[data-bar='${call}'] .bar`).getBoundingClientRect().width; \
        const packs = [...document.querySelectorAll('.timeline-names .is-activity')].filter((row) => row.textContent.includes('pack')).map((row) => width(row.dataset.call)); \
        return packs.length === 3 && packs[1] > packs[2] && packs[2] > packs[0]; })()";
    page.until(longest, "bars as long as their calls").await;
    page.until_text("[data-events]", "too fragile to be insured")
        .await;
    for (theme, name) in [(Theme::Light, "workflow"), (Theme::Dark, "workflow-dark")] {
        page.prefer(theme).await;
        page.value("scrollTo(0, 0)").await;
        page.picture(&pictures().join(format!("{name}.png"))).await;
    }
    page.prefer(Theme::Light).await;

    // The page updates without a reload.
    page.value(MARK).await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;
    for child in stage.client.admin().children(id).await.unwrap() {
        if child.status == Status::AwaitingSignal {
            stage.client.signal(child.id, Go {}).await.unwrap();
        }
    }
    page.click(".signal-form textarea").await;
    page.write(r#"{"by": "<img src=x onerror=window.hit=1>"}"#)
        .await;
    page.press("Send signal").await;
    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("[data-events]", "run completed").await;
    page.until_text("[data-events]", "signal consumed").await;
    page.until(
        "document.querySelector('[data-moment=run_completed]') && !document.querySelector('.call-bar.is-open .bar')",
        "a timeline that has ended",
    )
    .await;
    page.until("!document.querySelector('[data-waits]')", "no open wait")
        .await;
    assert_eq!(page.value(MARKED).await, true);
    // The payload is shown as text.
    page.until_text("[data-events]", "<img src=x onerror=window.hit=1>")
        .await;
    assert_eq!(
        page.value("window.hit === undefined && !document.querySelector('main img')")
            .await,
        true
    );
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_asked_by_clicking() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.errand(errand(&["done"])).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-events]", "too fragile to be insured")
        .await;
    page.until_text(".query-form option", "doings").await;
    // Without a value the query is null, which is no query of this type.
    page.press("Ask").await;
    page.until_text(".query-form [role=alert]", "invalid_json")
        .await;
    page.click(".query-form textarea").await;
    page.write(r#"{"about": "packed"}"#).await;
    page.press("Ask").await;
    page.until_text("[data-reply=doings]", "packed 3").await;
    page.until(
        "!document.querySelector('[data-reply]').textContent.includes('begun')",
        "a part",
    )
    .await;
    // A workflow that answers no query has no form.
    let silent = stage.start(stuck::with()).await;
    page.go(&format!("{}instances/{silent}", stage.ui)).await;
    page.until_text("[data-events]", "begin").await;
    page.until("!document.querySelector('.query-form')", "no form")
        .await;
    visit.end_but_for(&["400 (Bad Request)"]).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_sent_by_clicking_and_its_reply_is_shown() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.start(shelf::with()).await;
    let page = &visit.page;
    page.size(1360, 1500).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-waiting]", "approved").await;
    // The history is drawn last, above the forms.
    page.until_text("[data-events]", "signal awaited").await;
    page.press("Send update").await;
    page.until_text(".update-form [role=alert]", "the name is required")
        .await;
    page.click(".update-form [name=name]").await;
    page.write("take_books").await;
    page.click(".update-form [name=id]").await;
    page.write("u-1").await;
    page.click(".update-form textarea").await;
    page.write(r#"{"books": 3}"#).await;
    page.press("Send update").await;
    page.until_text(".update-form [data-update='u-1'][data-kind=done]", "3")
        .await;
    // The inbox, the events and the timeline name it.
    page.until_text("section[aria-label=Inbox] .tag", "update")
        .await;
    page.until_text("[data-events]", "update accepted").await;
    page.until_text("[data-events]", "u-1").await;
    let moment = "document.querySelector('[data-moment=update_completed] title').textContent";
    page.until(
        &format!("{moment}.includes('take_books u-1 done')"),
        "the answer in the timeline",
    )
    .await;
    page.picture(&pictures().join("update.png")).await;
    // A rejection has a reason, and so has a failure.
    for (books, id, kind, reason) in [
        (0, "u-2", "rejected", "was rejected: no book is given"),
        (9, "u-3", "failed", "failed: the shelf is full"),
    ] {
        for (field, text) in [
            ("[name=id]", id.to_owned()),
            ("textarea", format!(r#"{{"books": {books}}}"#)),
        ] {
            let field = format!(".update-form {field}");
            page.value(&format!("document.querySelector(\"{field}\").select()"))
                .await;
            page.write(&text).await;
        }
        page.press("Send update").await;
        page.until_text(
            &format!(".update-form [data-update='{id}'][data-kind={kind}]"),
            reason,
        )
        .await;
    }
    page.until_text("[data-events]", "the shelf is full").await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_payloads_in_events_stay_text() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let attack = r#"<script>window.hit=1</script><img src=x onerror=window.hit=1><a href="javascript:window.hit=1">\u{202e}"#;
    let hostile = Errand {
        note: attack.into(),
        ..Errand::default()
    };
    let id = stage.errand(hostile).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-events]", "<script>window.hit=1</script>")
        .await;
    // Every fold is opened, and stays open while the page is redrawn.
    page.until(
        "[...document.querySelectorAll('[data-events] details:not([open]) summary')].every((fold) => fold.click() ?? true) && !document.querySelector('[data-events] details:not([open])')",
        "everything to unfold",
    )
    .await;
    page.until(
        "[...document.querySelectorAll('[data-events] details json-view')].some((view) => view.textContent.includes('on_parent_close'))",
        "the stored payload",
    )
    .await;
    assert_eq!(
        page.value("window.hit === undefined && !document.querySelector('main img, main script, main a[href^=javascript]')")
            .await,
        true
    );
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_chosen_by_link_and_kept_in_the_address() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let again = Errand {
        repeats: 1,
        ..Errand::default()
    };
    let id = stage.errand(again).await;
    let approved = Approved { by: "Ada".into() };
    stage.client.signal(id, approved).await.unwrap();
    stage.waits_for_approval(id, 2).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text(".runs [aria-current]", "Run 2").await;
    page.until(
        "document.querySelector('.call-bar.is-open')",
        "an open call",
    )
    .await;
    page.press("Run 1").await;
    page.until_text(".runs [aria-current]", "Run 1").await;
    page.until_text("[data-events]", "continued as new").await;
    page.until(
        "document.querySelector('[data-moment=continued_as_new]') && !document.querySelector('.call-bar.is-open .bar')",
        "a run that is over",
    )
    .await;
    assert!(
        page.address()
            .await
            .ends_with(&format!("instances/{id}?run=1"))
    );
    // Opening the address directly shows the same run.
    page.go(&format!("{}instances/{id}?run=1", stage.ui)).await;
    page.until_text(".runs [aria-current]", "Run 1").await;
    page.until_text("[data-events]", "continued as new").await;
    // The keyboard moves through the rows that can be opened.
    page.key("j").await;
    page.until(
        "document.activeElement.closest('[data-row]')",
        "a row with the focus",
    )
    .await;
    // The page says that a run does not exist.
    page.go(&format!("{}instances/{id}?run=7", stage.ui)).await;
    page.until_text("main", "has no run 7 yet").await;
    visit.end_but_for(&["404"]).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_replay_is_explained_and_a_long_history_is_folded() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let blocked = stage.start(stuck::with()).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{blocked}", stage.ui)).await;
    page.until_text("[data-blocked]", "put it into flow.step")
        .await;
    page.until_text("[data-waiting]", "is blocked").await;
    page.until(
        "document.querySelector('[data-moment=replay_blocked]')",
        "the mark of the blocked replay",
    )
    .await;
    page.picture(&pictures().join("workflow-blocked.png")).await;

    let many = Errand {
        parcels_ms: vec![1; 60],
        ..Errand::default()
    };
    let id = stage.errand(many).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    // The large group is folded, and its events are shown page by page.
    page.until_text(".timeline-names", "of 61").await;
    page.until(
        "document.querySelectorAll('[data-call]').length < 20 && document.querySelectorAll('[data-event]').length === 40",
        "a folded group and the last events",
    )
    .await;
    page.click(".timeline-names .is-all button.fold").await;
    page.until(
        "document.querySelectorAll('[data-call]').length > 60",
        "the members",
    )
    .await;
    page.click("[data-earlier]").await;
    page.until(
        "document.querySelector('[data-event=\"1\"]') && document.querySelectorAll('[data-event]').length > 120",
        "all events",
    )
    .await;
    page.size(390, 844).await;
    page.until(
        "document.documentElement.scrollWidth <= 390",
        "a page that is no wider than the screen",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_close_policies_are_drawn_and_listed() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.errand(errand(&["wait", "done", "wait"])).await;
    let page = &visit.page;
    page.size(1360, 1180).await;
    stage
        .client
        .admin()
        .terminate(id, Note::by("ada"))
        .await
        .unwrap();
    let children = stage.client.admin().children(id).await.unwrap();
    let live = children.iter().rfind(|it| it.status != Status::Done);
    let live = live.unwrap().id;
    stage.reaches(live, Status::Cancelled).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until(
        "document.querySelectorAll('[data-applied=request_cancel]').length === 2",
        "a mark on each cancelled child",
    )
    .await;
    page.until_text(".timeline-names", "asked to cancel").await;
    // One child was done before its parent was terminated; the parent had not recorded its end.
    page.until(
        "[...document.querySelectorAll('.timeline-names .is-child')].some((row) => row.querySelector('a') && row.textContent.includes('done'))",
        "the status of the child that was done",
    )
    .await;
    page.until_text("[data-events]", "policy applied").await;
    page.until_text("[data-events]", &format!("parent {id} ended as cancelled"))
        .await;
    page.until_text("[data-handled]", "1").await;
    for (theme, name) in [
        (Theme::Light, "workflow-policies"),
        (Theme::Dark, "workflow-policies-dark"),
    ] {
        page.prefer(theme).await;
        page.value("scrollTo(0, 0)").await;
        page.picture(&pictures().join(format!("{name}.png"))).await;
    }
    page.prefer(Theme::Light).await;
    // The child shows the same reason, and links to the run that started it.
    page.go(&format!("{}instances/{live}", stage.ui)).await;
    page.until_text("[data-origin]", "of run 1").await;
    page.until_text(
        ".cancel-reason",
        &format!("by parent: parent {id} ended as cancelled"),
    )
    .await;
    page.picture(&pictures().join("workflow-child.png")).await;
    page.click("[data-origin]").await;
    page.until_text("h1", &format!("Instance {id}")).await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_workflows_are_found_from_the_overview() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let blocked = stage.start(stuck::with()).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    page.until_text(".attention", "1 instance is blocked").await;
    page.click(".attention .is-error a").await;
    page.until_text("main table", &blocked.to_string()).await;
    page.until_text("main table", "blocked: ").await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_timeline_fits_a_wide_and_a_narrow_screen() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let long = Errand {
        parcels_ms: (0..150).map(|n| 5 + n % 40).collect(),
        checks: ["wait", "done", "wait"].map(str::to_owned).to_vec(),
        ..Errand::default()
    };
    let id = stage.errand(long).await;
    let page = &visit.page;
    page.size(1360, 1180).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text(".timeline-names", "of 151").await;
    page.until_text("[data-waits]", "approved").await;
    page.picture(&pictures().join("workflow-long.png")).await;
    page.click(".timeline-names .is-all button.fold").await;
    page.until(
        "document.querySelectorAll('[data-call]').length > 150",
        "the members",
    )
    .await;
    assert_eq!(page.value(OVERLAPS).await, json!([]));
    for (theme, name) in [
        (Theme::Light, "workflow-long-open"),
        (Theme::Dark, "workflow-long-open-dark"),
    ] {
        page.prefer(theme).await;
        page.picture(&pictures().join(format!("{name}.png"))).await;
    }
    for (theme, name) in [
        (Theme::Dark, "workflow-phone-dark"),
        (Theme::Light, "workflow-phone"),
    ] {
        page.prefer(theme).await;
        page.size(390, 1400).await;
        page.until(
            "document.documentElement.scrollWidth <= 390",
            "a page that is no wider than the screen",
        )
        .await;
        page.picture(&pictures().join(format!("{name}.png"))).await;
    }
    assert_eq!(page.value(OVERLAPS).await, json!([]));
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_on_postgresql_is_drawn_with_its_window_and_completes() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::postgres(Setting::default()).await;
    let id = stage.start(crowd::with(3)).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-window]", "2 running, 1 held").await;
    page.until_text("[data-group]", "0 of 3").await;
    page.until(
        "document.querySelectorAll('[data-timeline] .is-child').length === 3",
        "its children inline",
    )
    .await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;
    page.value(MARK).await;
    for child in stage.client.admin().children(id).await.unwrap() {
        stage.client.signal(child.id, Go {}).await.unwrap();
    }
    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("[data-events]", "run completed").await;
    assert_eq!(page.value(MARKED).await, true);
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeline_rows_are_built_from_events() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    let group = json!({"kind": "all", "path": [2], "size": 2, "index": 0});
    let event = |seq: i32, ms: u32, kind: &str, call: Option<i32>, group: serde_json::Value| {
        let at = format!("2026-01-01T15:00:00.{ms:03}Z");
        json!({"seq": seq, "at": at, "kind": kind, "call": call, "name": "n", "child": null, "child_run": null, "deadline": null, "group": group})
    };
    let none = serde_json::Value::Null;
    let events = [
        event(1, 0, "run_started", None, none.clone()),
        event(2, 10, "step_completed", Some(1), none.clone()),
        event(3, 10, "activity_scheduled", Some(3), group.clone()),
        event(4, 10, "timer_scheduled", Some(4), group),
        event(5, 40, "activity_failed", Some(3), none.clone()),
        event(6, 41, "group_resolved", Some(2), none.clone()),
        // A single activity has a `child_started` event, like any child.
        event(7, 50, "activity_scheduled", Some(5), none.clone()),
        event(8, 60, "child_started", Some(5), none.clone()),
        event(9, 70, "activity_scheduled", Some(6), none.clone()),
        event(10, 75, "child_started", Some(6), none.clone()),
        event(11, 80, "activity_completed", Some(6), none),
    ];
    let rows = format!(
        "import(new URL('instance/timeline.js', document.baseURI)).then(({{ rowsOf }}) => rowsOf({}).rows.map((row) => [row.call, row.kind, row.depth, row.to === null ? null : row.to - row.from, row.end]))",
        json!(events)
    );
    assert_eq!(
        page.value(&rows).await,
        json!([
            [1, "step", 0, 10, "completed"],
            [2, "all", 0, 31, "resolved"],
            [3, "activity", 1, 30, "failed"],
            [4, "timer", 1, null, null],
            [5, "activity", 0, null, null],
            [6, "activity", 0, 10, "completed"],
        ])
    );
    visit.end().await;
    stage.end().await;
}
