//! Live updates of the page, also after a broken connection.

use crate::Visit;
use crate::machines::Restocked;
use crate::stage::{Setting, Stage};
use outlast::Status;
use outlast::store::{Filter, ListRequest};

/// Marks the page, so that a test notices a reload.
const MARK: &str = "window.mark = 'the same page'";
const MARKED: &str = "window.mark === 'the same page'";

#[tokio::test(flavor = "multi_thread")]
async fn changes_appear_without_reloading_the_page() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.checkout(1).await;
    let page = &visit.page;

    page.go(&format!("{}instances", stage.ui)).await;
    page.value(MARK).await;
    page.until_text(&format!("[data-row='{id}']"), "awaiting signal")
        .await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;
    stage.pay(1, 100).await;
    page.until_text(&format!("[data-row='{id}']"), "done").await;

    let newer = stage.checkout(2).await;
    page.until_text(".filters", "Show 1 new instance").await;
    page.press("Show 1 new instance").await;
    page.until_text(&format!("[data-row='{newer}']"), "awaiting signal")
        .await;

    page.click(&format!("[data-row='{newer}'] a")).await;
    page.until(
        "document.querySelector('[data-status=awaiting_signal]')",
        "the instance",
    )
    .await;
    stage.pay(2, 100).await;
    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("[data-json=result]", "order 2 is on its way")
        .await;

    page.press("Overview").await;
    page.until(
        "document.querySelector('[data-count=done]').textContent === '2'",
        "two done instances",
    )
    .await;
    stage.checkout(3).await;
    stage.pay(3, 100).await;
    page.until(
        "document.querySelector('[data-count=done]').textContent === '3'",
        "three done instances",
    )
    .await;

    page.go(&format!("{}machine?name=checkout", stage.ui)).await;
    page.value(MARK).await;
    for number in 4..=6 {
        stage.checkout(number).await;
    }
    page.until("document.querySelector(\"[data-step-count='charge awaiting_signal']\").textContent === '3'", "three instances at a step").await;
    assert_eq!(page.value(MARKED).await, true);
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_reconnects_and_misses_no_change() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let mut stage = Stage::sqlite(Setting::default()).await;
    let id = stage.checkout(1).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.value(MARK).await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;

    stage.hang_up();
    page.until(
        "document.querySelector('.connection').dataset.state === 'polling'",
        "the broken stream",
    )
    .await;
    stage.pay(1, 100).await;
    stage.reaches(id, Status::Done).await;
    stage.pick_up();
    page.until(
        "document.querySelector('[data-status=done]')",
        "the change during the interruption",
    )
    .await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream again",
    )
    .await;
    assert_eq!(page.value(MARKED).await, true);
    visit
        .end_but_for(&[
            "ERR_CONNECTION_REFUSED",
            "ERR_INCOMPLETE_CHUNKED_ENCODING",
            "ERR_CONNECTION_RESET",
            "ERR_EMPTY_RESPONSE",
        ])
        .await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_join_meter_updates_while_the_page_is_open() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let parent = stage.fulfilment(2, 1, 1).await;
    stage.reaches(parent, Status::AwaitingChildren).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{parent}/family", stage.ui))
        .await;
    page.until_text("[data-join='1']", "3 of 4, 1 failed").await;
    page.value(MARK).await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream",
    )
    .await;
    let waiting = stage.client.admin().list(ListRequest {
        filter: Filter {
            statuses: vec![Status::AwaitingSignal],
            ..Filter::default()
        },
        before: None,
        limit: 1,
        values: false,
    });
    let waiting = waiting.await.expect("the store answers").instances[0].id;
    let restocked = stage.client.signal(waiting, Restocked {}).await;
    restocked.expect("the signal is delivered");
    page.until_text("[data-join='1']", "4 of 4, 1 failed").await;
    assert_eq!(page.value(MARKED).await, true);
    visit.end().await;
    stage.end().await;
}
