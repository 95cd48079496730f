//! A sleeping instance on every screen, wide and narrow.

use crate::Visit;
use crate::machines::{Patrol, Watch};
use crate::page::Theme;
use crate::screens::pictures;
use crate::stage::{Setting, Stage};
use outlast::{Machine, Status};

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_shows_a_sleeping_instance_as_sleeping() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let waits = stage.checkout(1).await;
    let asleep = stage.start(Patrol::with(Watch::Walk)).await;
    stage.reaches(asleep, Status::Sleeping).await;
    let page = &visit.page;

    // The list, with its badges and its filter.
    page.go(&format!("{}instances", stage.ui)).await;
    page.until_text(&format!("[data-row='{asleep}']"), "sleeping")
        .await;
    page.until_text(&format!("[data-row='{waits}']"), "awaiting signal")
        .await;
    let moon = format!("document.querySelector(\"[data-row='{asleep}'] .status.is-sleeping svg\")");
    page.until(&moon, "its shape").await;
    page.click(".statuses .is-sleeping").await;
    let rows = "[...document.querySelectorAll('tbody [data-row]')].map((row) => row.dataset.row)";
    let only = format!("JSON.stringify({rows}) === JSON.stringify(['{asleep}'])");
    page.until(&only, "only the sleeping instance").await;
    assert!(page.address().await.contains("status=sleeping"));
    page.click(".statuses .is-sleeping").await;
    page.click(".statuses .is-awaiting_signal").await;
    let only = format!("JSON.stringify({rows}) === JSON.stringify(['{waits}'])");
    page.until(&only, "only the instance that awaits a signal")
        .await;

    // The screen of the instance.
    page.go(&format!("{}instances/{asleep}", stage.ui)).await;
    page.until(
        "document.querySelector('[data-status=sleeping]')",
        "its status",
    )
    .await;
    page.until_text("[data-waiting]", "sleeps until").await;
    page.until_text("main", "Sleeps until").await;
    let hue = "document.querySelector(\"[data-stay='1']\")?.style.getPropertyValue('--hue') === 'var(--sleeping)'";
    page.until(hue, "its lane in the colour of sleep").await;

    // The screen of its machine.
    page.go(&format!("{}machine?name=patrol", stage.ui)).await;
    let counted =
        "document.querySelector(\"[data-step-count='rest sleeping']\")?.textContent === '1'";
    page.until(counted, "the count at its step").await;

    // The overview, whose counts lead to the lists.
    for (theme, width, name) in [
        (Theme::Light, 1280, "sleeping-light"),
        (Theme::Dark, 1280, "sleeping-dark"),
        (Theme::Light, 1090, "sleeping-narrow"),
        (Theme::Light, 390, "sleeping-phone"),
    ] {
        page.prefer(theme).await;
        page.size(width, 900).await;
        for (path, screen) in [
            (String::new(), "overview"),
            ("instances".into(), "list"),
            (format!("instances/{asleep}"), "instance"),
            ("machine?name=patrol".into(), "machine"),
        ] {
            page.go(&format!("{}{path}", stage.ui)).await;
            page.until_text("main", "sleeping").await;
            if screen == "overview" {
                let counted = "document.querySelector('[data-count=sleeping]').textContent === '1' \
                    && document.querySelector('[data-count=awaiting_signal]').textContent === '1'";
                page.until(counted, "both counts").await;
                let cut = "[...document.querySelectorAll('.tile')].filter((tile) => tile.scrollWidth > tile.clientWidth) \
                    .map((tile) => tile.textContent)";
                assert_eq!(page.value(cut).await, serde_json::json!([]), "{width} wide");
            }
            let fits = format!("document.documentElement.scrollWidth <= {width}");
            page.until(&fits, "a page that is no wider than the screen")
                .await;
            let file = pictures().join(format!("{name}-{screen}.png"));
            page.picture(&file).await;
        }
    }
    visit.end().await;
    stage.end().await;
}
