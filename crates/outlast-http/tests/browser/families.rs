//! Cancelling and terminating instances and trees by clicking, and joins of every kind.

use crate::Visit;
use crate::page::{Page, Theme};
use crate::screens::pictures;
use crate::stage::{Setting, Stage};
use crate::team::{Plan, Undone};
use outlast::store::ClosePolicy;
use outlast::{InstanceId, Note, Status};

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_shown_until_the_machine_has_finished_its_cleanup() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.piece("careful").await;
    stage.reaches(id, Status::AwaitingSignal).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.press("Cancel").await;
    page.until_text("dialog[open]", "its machine decides how")
        .await;
    page.write("ordered twice").await;
    page.press("Cancel instance").await;
    page.until(
        "document.querySelector('[data-cancel=answered]')",
        "the answer",
    )
    .await;
    page.until_text("[data-waiting]", "ordered twice").await;
    page.until_text("[data-waiting]", "undone").await;
    stage.client.signal(id, Undone {}).await.unwrap();
    page.until(
        "document.querySelector('[data-status=cancelled]')",
        "its end",
    )
    .await;
    page.until_text("[data-error]", "everything is undone")
        .await;
    page.until(
        "!document.querySelector('[data-cancel]')",
        "no mark of a cancel",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_step_that_ignores_its_cancel_is_terminated_by_clicking() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let id = stage.piece("run").await;
    stage.reaches(id, Status::Executing).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.press("Cancel").await;
    page.press("Cancel instance").await;
    page.until(
        "document.querySelector('[data-cancel=pending]')",
        "the unanswered cancel",
    )
    .await;
    page.until_text("[data-cancel]", "cancel requested").await;
    page.until_text(".facts", "not answered yet").await;
    page.until_text("[data-waiting]", "asked to end").await;
    stage.reaches(id, Status::Executing).await;

    page.press("Terminate").await;
    page.until_text("dialog[open]", "ends immediately").await;
    page.write("it never ends").await;
    page.key("Enter").await;
    page.until(
        "document.querySelector('[data-status=cancelled]')",
        "its end",
    )
    .await;
    page.until_text("[data-error]", "it never ends").await;
    stage.reaches(id, Status::Cancelled).await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_counted_before_it_is_cancelled_and_then_ends() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let root = waiting_team(&stage, 3).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{root}/family", stage.ui))
        .await;
    page.press("Cancel tree …").await;
    page.until_text("[data-tree=counted]", "4 of 4 instances are live")
        .await;
    page.until_text("[data-tree]", "3 awaiting signal").await;
    picture(page, "cancel-tree").await;
    page.press("Cancel 4").await;
    page.until_text("[data-join]", "3 of 3, 3 cancelled").await;
    stage.reaches(root, Status::Cancelled).await;

    // The parent shows the close action on each child.
    page.go(&format!("{}instances/{root}", stage.ui)).await;
    let children = stage.client.admin().children(root).await.unwrap();
    for child in children {
        assert_eq!(child.status, Status::Cancelled);
        page.until_text("[data-close_actions]", &child.id.to_string())
            .await;
    }
    page.until_text("[data-close_actions]", "asked to cancel")
        .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_is_terminated_with_or_without_its_tree() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    let alone = waiting_team(&stage, 2).await;
    page.go(&format!("{}instances/{alone}", stage.ui)).await;
    page.press("Terminate").await;
    page.until_text("[data-tree=counted]", "3 of 3 instances are live")
        .await;
    page.press("Terminate instance").await;
    page.until(
        "document.querySelector('[data-status=cancelled]')",
        "its end",
    )
    .await;
    for child in stage.client.admin().children(alone).await.unwrap() {
        assert_eq!(
            child.status,
            Status::AwaitingSignal,
            "the tree was not included"
        );
    }

    let whole = waiting_team(&stage, 2).await;
    page.go(&format!("{}instances/{whole}", stage.ui)).await;
    page.press("Terminate").await;
    page.until_text("[data-tree=counted]", "3 of 3 instances are live")
        .await;
    page.click("dialog[open] [name=tree]").await;
    picture(page, "terminate-tree").await;
    page.press("Terminate 3").await;
    page.until_text("[data-close_actions]", "terminated").await;
    for child in stage.client.admin().children(whole).await.unwrap() {
        stage.reaches(child.id, Status::Cancelled).await;
    }
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_join_meter_shows_what_the_parent_waits_for_and_why_it_was_woken() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    let hour = Some(3_600_000);
    let cases: Vec<(&str, Plan, &str, Vec<&str>)> = vec![
        (
            "all",
            plan(&["done", "fail", "wait"]),
            "2 of 3, 1 failed",
            vec!["Until all finish", "First failure"],
        ),
        (
            "fail-fast",
            Plan {
                fail_fast: true,
                cancel_rest: true,
                ..plan(&["done", "wait", "wait"])
            },
            "1 of 3",
            vec!["or one fails", "The rest is asked to cancel"],
        ),
        (
            "quorum",
            Plan {
                quorum: Some(3),
                deadline_ms: hour,
                ..plan(&["done", "done", "wait", "wait", "fail"])
            },
            "3 of 5, 1 failed",
            vec!["Quorum 3 of 5: 2 done", "Deadline in"],
        ),
        (
            "any",
            Plan {
                quorum: Some(1),
                ..plan(&["wait", "wait"])
            },
            "0 of 2",
            vec!["Any of 2: 0 done"],
        ),
        (
            "window",
            Plan {
                window: Some(2),
                on_close: Some(ClosePolicy::RequestCancel),
                ..plan(&["done", "wait", "wait", "wait", "wait"])
            },
            "1 of 5",
            vec![
                "Window 2: 2 children wait for a slot",
                "When it ends, they are asked to cancel",
            ],
        ),
        (
            "woken-failure",
            Plan {
                fail_fast: true,
                ..plan(&["fail", "wait"])
            },
            "1 of 2, 1 failed",
            vec!["Joined by the first failure"],
        ),
        (
            "woken-quorum",
            Plan {
                quorum: Some(1),
                ..plan(&["done", "wait"])
            },
            "1 of 2",
            vec!["Joined by the quorum"],
        ),
        (
            "woken-impossible",
            Plan {
                quorum: Some(2),
                ..plan(&["fail", "wait"])
            },
            "1 of 2, 1 failed",
            vec!["Joined without the quorum"],
        ),
        (
            "woken-deadline",
            Plan {
                deadline_ms: Some(1),
                ..plan(&["wait"])
            },
            "0 of 1",
            vec!["Joined by the deadline"],
        ),
    ];
    for (name, plan, meter, terms) in cases {
        let id = stage.team(plan).await;
        page.go(&format!("{}instances/{id}/family", stage.ui)).await;
        page.until_text("[data-join]", meter).await;
        for term in &terms {
            page.until_text("[data-terms]", term).await;
        }
        if name == "window" {
            page.until_text(".family", "2 runnable, 2 held").await;
            let held = "[...document.querySelectorAll('.member .tag')].filter((tag) => tag.textContent === 'held')";
            page.until(&format!("{held}.length === 2"), "the two held children")
                .await;
            page.until_text(".family", "#4").await;
        }
        for theme in [Theme::Light, Theme::Dark] {
            page.prefer(theme).await;
            picture(page, &format!("join-{name}-{}", theme.word())).await;
        }
        page.go(&format!("{}instances/{id}", stage.ui)).await;
        for term in &terms {
            page.until_text("[data-terms]", term).await;
        }
    }
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn close_actions_of_a_terminated_parent_are_shown_page_by_page() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    let root = stage
        .team(Plan {
            on_close: Some(ClosePolicy::Terminate),
            ..plan(&["wait"; 25])
        })
        .await;
    stage.reaches(root, Status::AwaitingChildren).await;
    let note = Note::by("test");
    stage.client.admin().terminate(root, note).await.unwrap();
    for child in stage.client.admin().children(root).await.unwrap() {
        stage.reaches(child.id, Status::Cancelled).await;
    }
    page.go(&format!("{}instances/{root}", stage.ui)).await;
    page.until(
        "document.querySelectorAll('[data-close_actions] li').length === 20",
        "a page",
    )
    .await;
    page.until_text("[data-close_actions]", "ended as cancelled")
        .await;
    picture(page, "close_actions").await;
    page.press("Show more").await;
    page.until(
        "document.querySelectorAll('[data-close_actions] li').length === 25",
        "the rest",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

async fn picture(page: &Page, name: &str) {
    page.picture(&pictures().join(format!("{name}.png"))).await;
}

fn plan(children: &[&str]) -> Plan {
    Plan {
        children: children.iter().map(|&what| what.to_owned()).collect(),
        ..Plan::default()
    }
}

/// Starts a team, and returns its id once all its children wait for a signal.
async fn waiting_team(stage: &Stage, children: usize) -> InstanceId {
    let id = stage.team(plan(&vec!["wait"; children])).await;
    stage.reaches(id, Status::AwaitingChildren).await;
    for child in stage.client.admin().children(id).await.unwrap() {
        stage.reaches(child.id, Status::AwaitingSignal).await;
    }
    id
}
