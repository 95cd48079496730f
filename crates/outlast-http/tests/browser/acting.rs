//! Actions of a person at the dashboard, and their effects.

use crate::Visit;
use crate::stage::{Setting, Stage, admin};
use outlast::store::{Filter, ListRequest, Verb};
use outlast::{Roles, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_sent_by_clicking_finishes_an_instance() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.checkout(1).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until(
        "document.querySelector('.signal-form [name=name]').value === 'payment_confirmed'",
        "the name of the awaited signal",
    )
    .await;

    page.click(".signal-form textarea").await;
    page.write("{\"amount\": 12").await;
    page.press("Send signal").await;
    page.until_text(".field-problem", "} expected at character 14")
        .await;
    page.write("}").await;
    page.press("Send signal").await;

    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("[data-json=result]", "order 1 is on its way")
        .await;
    stage.reaches(id, Status::Done).await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_needs_a_repair_has_a_button_for_it() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    // An engine with maintenance would repair it first.
    let roles = Some(Roles::WORKER);
    let stage = Stage::sqlite(Setting {
        roles,
        ..Setting::default()
    });
    let stage = stage.await;
    let id = stage.checkout(1).await;
    stage.reaches(id, Status::AwaitingSignal).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("[data-waiting]", "waits for signal").await;
    let buttons = "document.querySelectorAll('[data-repair]').length";
    assert_eq!(page.value(buttons).await, 0, "it needs no repair");

    let lost = "update instances set awaits = '[]', await_deadline = null where id = ";
    stage.edit(&format!("{lost}{id}"));
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text(
        "[data-waiting]",
        "needs a repair: it is parked and waits for nothing",
    )
    .await;
    page.click("[data-repair]").await;
    page.until(
        "document.querySelector('dialog[open] [name=reason]')",
        "the question",
    )
    .await;
    page.click("dialog[open] [name=reason]").await;
    page.write("the row was edited").await;
    page.click("dialog[open] button[type=submit]").await;
    page.until("!document.querySelector('[data-repair]')", "the repair")
        .await;
    let operations = stage.client.admin().operations(Some(id)).await.unwrap();
    assert_eq!(operations.len(), 1);
    assert_eq!(operations[0].verb, Verb::Repair);
    let reason = "it is parked and waits for nothing: the row was edited";
    assert_eq!(operations[0].reason.as_deref(), Some(reason));
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_resumed_by_clicking() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    stage.is_well.store(true, Ordering::SeqCst);
    stage
        .mail("later@mail.example", Duration::from_secs(3600))
        .await;
    let page = &visit.page;
    page.go(&format!("{}queues", stage.ui)).await;

    page.click("[aria-label='Pause mail']").await;
    page.until(
        "document.querySelector('dialog[open] [name=reason]')",
        "the question",
    )
    .await;
    page.write("the other side is moving house").await;
    page.press("Pause").await;
    page.until_text("[data-row='mail']", "paused").await;
    let mail = stage.mail("ada@mail.example", Duration::ZERO).await;
    page.until_text("[data-depth='mail']", "1").await;
    let now = stage.client.find(mail).await.unwrap().unwrap();
    assert_eq!(now.status, Status::Runnable);
    let reasons = stage.client.admin().operations(None).await.unwrap();
    assert_eq!(
        reasons[0].reason.as_deref(),
        Some("the other side is moving house")
    );

    page.click("[aria-label='Resume mail']").await;
    page.press("Resume").await;
    stage.reaches(mail, Status::Done).await;
    page.until(
        "!document.querySelector(\"[data-row='mail']\")?.textContent.includes('paused')",
        "the queue to go on",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_action_changes_only_instances_that_match_the_filter() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    for number in 0..5 {
        let mail = stage
            .mail(&format!("{number}@mail.example"), Duration::ZERO)
            .await;
        stage.reaches(mail, Status::Failed).await;
    }
    let parent = stage.fulfilment(0, 3, 0).await;
    stage.reaches(parent, Status::Done).await;
    stage.is_well.store(true, Ordering::SeqCst);
    let page = &visit.page;

    page.go(&format!(
        "{}instances?machine=send_mail&status=failed",
        stage.ui
    ))
    .await;
    page.until_text("[data-total]", "5 match").await;
    page.press("Retry all …").await;
    page.until_text("dialog", "5 instances will be retried")
        .await;
    page.press("Retry 5").await;
    page.until_text("[data-bulk=finished]", "5 instances retried.")
        .await;
    page.press("Close").await;
    page.until_text("[data-total]", "0 match").await;
    assert_eq!(ended(&stage, "send_mail", Status::Done, 5).await, 5);
    assert_eq!(
        ended(&stage, "line_item", Status::Failed, 3).await,
        3,
        "instances of another machine were changed"
    );

    page.go(&format!("{}instances?machine=line_item", stage.ui))
        .await;
    page.until_text("[data-total]", "3 match").await;
    page.press("Delete all …").await;
    page.press("Delete 3").await;
    page.until_text("[data-bulk=finished]", "3 instances deleted.")
        .await;
    page.press("Close").await;
    page.until_text("main", "No matches").await;
    assert_eq!(ended(&stage, "send_mail", Status::Done, 5).await, 5);

    stage.checkout(1).await;
    stage.checkout(2).await;
    page.go(&format!("{}instances?key=order%3A1", stage.ui))
        .await;
    page.until_text("[data-total]", "1 match").await;
    page.press("Cancel all …").await;
    page.press("Cancel 1").await;
    page.until_text("[data-bulk=finished]", "1 instance asked to cancel.")
        .await;
    page.press("Close").await;
    assert_eq!(ended(&stage, "checkout", Status::Cancelled, 1).await, 1);
    assert_eq!(
        ended(&stage, "checkout", Status::AwaitingSignal, 1).await,
        1
    );
    page.go(&format!("{}instances?machine=checkout", stage.ui))
        .await;
    page.press("Terminate all …").await;
    page.until_text("dialog", "1 instance will be terminated")
        .await;
    page.press("Terminate 1").await;
    page.until_text("[data-bulk=finished]", "1 instance terminated.")
        .await;
    page.press("Close").await;
    assert_eq!(ended(&stage, "checkout", Status::Cancelled, 2).await, 2);
    visit.end().await;
    stage.end().await;
}

/// Waits until a machine has the expected number of instances in a status, and returns the number.
async fn ended(stage: &Stage, machine: &str, status: Status, expected: usize) -> usize {
    for _ in 0..500 {
        if of(stage, machine, status).await == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    of(stage, machine, status).await
}

async fn of(stage: &Stage, machine: &str, status: Status) -> usize {
    let filter = Filter {
        machine: Some(machine.to_owned()),
        statuses: vec![status],
        ..Filter::default()
    };
    let request = ListRequest {
        filter,
        before: None,
        limit: 100,
        values: false,
    };
    stage
        .client
        .admin()
        .list(request)
        .await
        .unwrap()
        .instances
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_retried_cancelled_and_deleted_by_clicking() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let mail = stage.mail("ada@mail.example", Duration::ZERO).await;
    stage.reaches(mail, Status::Failed).await;
    stage.is_well.store(true, Ordering::SeqCst);
    let page = &visit.page;
    page.go(&format!("{}instances/{mail}", stage.ui)).await;
    page.press("Retry").await;
    page.until(
        "document.querySelector('dialog[open] [name=reason]')",
        "the question",
    )
    .await;
    page.write("the other side is well").await;
    page.key("Enter").await;
    page.until("document.querySelector('[data-status=done]')", "its end")
        .await;
    page.until_text("main", "the other side is well").await;
    page.press("Delete").await;
    page.until("document.querySelector('dialog[open]')", "the question")
        .await;
    page.press("Delete").await;
    page.until_text("h1", "Instances").await;
    assert!(stage.client.find(mail).await.unwrap().is_none());

    let order = stage.checkout(1).await;
    page.go(&format!("{}instances/{order}", stage.ui)).await;
    page.press("Cancel").await;
    page.press("Cancel instance").await;
    page.until(
        "document.querySelector('[data-status=cancelled]')",
        "its end",
    )
    .await;
    page.go(&format!("{}instances/{mail}", stage.ui)).await;
    page.until_text(".problem", "not_found").await;
    visit.end_but_for(&["404"]).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_for_a_token_and_keeps_it_for_the_tab() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let (secret, token) = admin();
    let setting = Setting {
        token: Some(token),
        ..Setting::default()
    };
    let stage = Stage::sqlite(setting).await;
    stage.checkout(1).await;
    let page = &visit.page;
    page.go(&format!("{}instances", stage.ui)).await;
    page.until(
        "document.querySelector('dialog[open] [name=token]')",
        "the question",
    )
    .await;
    page.write("not this one").await;
    page.key("Enter").await;
    page.until_text("dialog[open]", "refused").await;
    page.click("dialog[open] [name=token]").await;
    page.write(&secret).await;
    page.key("Enter").await;
    page.until_text("table", "checkout").await;
    page.until(
        "document.querySelector('.connection').dataset.state === 'live'",
        "the stream, with the token too",
    )
    .await;

    page.go(&format!("{}queues", stage.ui)).await;
    page.until_text("h1", "Queues").await;
    assert_eq!(page.value("document.querySelector('dialog') === null && localStorage.length === 0 && !document.cookie").await, true);
    page.press("Sign out").await;
    page.until(
        "document.querySelector('dialog[open] [name=token]')",
        "the question again",
    )
    .await;
    visit.end_but_for(&["401"]).await;
    stage.end().await;
}
