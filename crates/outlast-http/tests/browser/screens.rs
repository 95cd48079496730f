//! Every screen with data, in both themes, at both widths, below any prefix.

use crate::Visit;
use crate::history;
use crate::page::{Page, Theme};
use crate::stage::{Cast, Setting, Stage};
use outlast::store::{Json, NewInstance};
use std::path::PathBuf;

/// A screen: its name, its path, and the texts that selectors must find there.
struct Screen {
    name: &'static str,
    path: String,
    seen: Vec<(&'static str, &'static str)>,
}

fn screens(cast: &Cast) -> Vec<Screen> {
    let screen = |name, path: String, seen: &[(&'static str, &'static str)]| Screen {
        name,
        path,
        seen: seen.to_vec(),
    };
    vec![
        screen(
            "overview",
            String::new(),
            &[
                ("main", "Needs attention"),
                (".attention", "retried 5 times or more"),
                (".attention", "without a deadline"),
                ("main", "Steps per minute"),
                ("main table", "checkout"),
            ],
        ),
        screen(
            "machines",
            "machines".into(),
            &[("main", "fulfilment"), ("main", "send_mail")],
        ),
        screen(
            "machine",
            "machine?name=checkout&without=1".into(),
            &[
                ("main", "Version 2"),
                (".graph", "reserve"),
                (".graph", "notify"),
                (".graph", "done"),
            ],
        ),
        screen(
            "versions",
            "machine?name=checkout".into(),
            &[("main", "Version 1"), ("main", "Version 2")],
        ),
        screen(
            "instances",
            "instances".into(),
            &[
                ("table", "line_item"),
                ("table", "awaiting signal"),
                ("table", "no lamp in stock"),
            ],
        ),
        screen(
            "instance",
            format!("instances/{}", cast.waiting),
            &[
                ("[data-waiting]", "payment_confirmed"),
                ("json-view", "9007199254740993"),
                (".signal-form", "Send signal"),
            ],
        ),
        screen(
            "failed",
            format!("instances/{}", cast.failed),
            &[
                ("[data-error]", "mail.example does not answer"),
                (".head", "Retry"),
            ],
        ),
        screen(
            "family",
            format!("instances/{}/family", cast.parent),
            &[
                ("[data-join]", "37 of 50, 2 failed"),
                (".family", "35 done"),
                (".family", "no lamp in stock"),
            ],
        ),
        screen(
            "joining",
            format!("instances/{}/family", cast.team),
            &[
                ("[data-join]", "3 of 8, 1 failed"),
                ("[data-terms]", "Quorum 5 of 8: 2 done"),
                ("[data-terms]", "Window 3: 2 children wait for a slot"),
                ("[data-terms]", "Deadline in"),
                ("[data-terms]", "When it ends, they are terminated"),
            ],
        ),
        screen(
            "asked",
            format!("instances/{}", cast.asked),
            &[
                ("[data-cancel=answered]", "cancel handled"),
                ("[data-waiting]", "the customer has ordered twice"),
                ("[data-waiting]", "undone"),
                (".head", "Terminate"),
            ],
        ),
        screen(
            "queues",
            "queues".into(),
            &[("table", "mail"), ("table", "reports"), ("table", "Pause")],
        ),
        screen(
            "workers",
            "workers".into(),
            &[
                (".worker", "shop-1"),
                (".worker", "alive"),
                (".worker", "checkout v2"),
            ],
        ),
    ]
}

async fn look(page: &Page, base: &str, screen: &Screen) {
    page.go(&format!("{base}{}", screen.path)).await;
    for (selector, text) in &screen.seen {
        page.until_text(selector, text).await;
    }
}

/// Waits until the charts and the counts show numbers. Engines write their run stats every few
/// seconds.
async fn runs_are_counted(page: &Page, base: &str) {
    page.go(base).await;
    page.until(
        "[...document.querySelectorAll('.chart .bars')].some((bars) => bars.children.length > 0)",
        "the first bar of a chart",
    )
    .await;
    page.until(
        "[...document.querySelectorAll('.tile b')].some((count) => count.textContent !== '0')",
        "the counts of the instances",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_shows_the_data_in_both_themes() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting {
        history: Some(history::hour()),
        ..Setting::default()
    })
    .await;
    let cast = stage.populate().await;
    runs_are_counted(&visit.page, &stage.ui).await;
    for theme in [Theme::Light, Theme::Dark] {
        visit.page.prefer(theme).await;
        for screen in screens(&cast) {
            look(&visit.page, &stage.ui, &screen).await;
            let ground = visit
                .page
                .value("getComputedStyle(document.body).backgroundColor")
                .await;
            assert_eq!(
                ground == "rgb(19, 20, 24)",
                theme == Theme::Dark,
                "{} is {ground}",
                screen.name
            );
            visit
                .page
                .until(
                    "document.querySelector('.connection').dataset.state === 'live'",
                    "the stream",
                )
                .await;
            visit
                .page
                .picture(&pictures().join(format!("{}-{}.png", screen.name, theme.word())))
                .await;
        }
    }
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_shows_the_data_of_postgresql() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::postgres(Setting::default()).await;
    let cast = stage.populate().await;
    runs_are_counted(&visit.page, &stage.ui).await;
    for screen in screens(&cast) {
        look(&visit.page, &stage.ui, &screen).await;
    }
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_works_below_a_prefix_and_on_a_phone() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let setting = Setting {
        prefix: "/admin/outlast",
        ..Setting::default()
    };
    let stage = Stage::sqlite(setting).await;
    let cast = stage.populate().await;
    visit.page.size(390, 800).await;
    runs_are_counted(&visit.page, &stage.ui).await;
    for screen in screens(&cast) {
        look(&visit.page, &stage.ui, &screen).await;
        let (wide, room) = (
            visit
                .page
                .value("document.documentElement.scrollWidth")
                .await,
            visit.page.value("innerWidth").await,
        );
        assert_eq!(wide, room, "{} is wider than a phone", screen.name);
        visit
            .page
            .picture(&pictures().join(format!("{}-phone.png", screen.name)))
            .await;
    }
    visit.page.click(".nav a[href$='/queues']").await;
    visit.page.until_text("h1", "Queues").await;
    assert_eq!(visit.page.address().await, "/admin/outlast/ui/queues");
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_phone_names_can_be_read_and_every_action_is_on_the_screen() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let cast = stage.populate().await;
    let mut screens = screens(&cast);
    screens.push(long_names(&stage).await);
    runs_are_counted(&visit.page, &stage.ui).await;
    for (width, theme) in [(390, Theme::Light), (390, Theme::Dark), (320, Theme::Light)] {
        visit.page.size(width, 844).await;
        visit.page.prefer(theme).await;
        for screen in &screens {
            look(&visit.page, &stage.ui, screen).await;
            check_phone(&visit.page, width, screen.name).await;
        }
        dialogs(&visit.page, &stage, &cast, width).await;
    }
    visit.end().await;
    stage.end().await;
}

/// Inserts an instance with very long names, and returns its screen.
async fn long_names(stage: &Stage) -> Screen {
    let name = |what: &str| format!("{what}_{}", "with_a_long_name_".repeat(4));
    let row = NewInstance::new(name("machine"), name("step"), Json::null())
        .queue(name("queue"))
        .correlation_key(name("key"));
    let inserted = stage.client.admin().insert_rows(vec![row]).await.unwrap();
    Screen {
        name: "long names",
        path: format!("instances/{}", inserted[0].new_id().unwrap()),
        seen: vec![("main", "key_with_a_long_name_")],
    }
}

/// Checks the dialogs on a phone.
async fn dialogs(page: &Page, stage: &Stage, cast: &Cast, width: u32) {
    let instance = format!("instances/{}", cast.waiting);
    for (path, action) in [
        ("queues", "Pause"),
        ("instances", "Columns"),
        ("instances", "Cancel all …"),
        (instance.as_str(), "Cancel"),
        (instance.as_str(), "Terminate"),
    ] {
        page.go(&format!("{}{path}", stage.ui)).await;
        page.press(action).await;
        page.until("document.querySelector('dialog[open] button')", action)
            .await;
        check_phone(page, width, action).await;
        page.key("Escape").await;
        page.until("!document.querySelector('dialog[open]')", "its end")
            .await;
    }
}

async fn check_phone(page: &Page, width: u32, what: &str) {
    let wrong = page.value(UNFIT).await;
    assert_eq!(wrong, serde_json::json!([]), "{what} at {width} pixels");
}

/// A script that returns misfits on a phone: a page wider than the screen, a control off the
/// screen, a name broken into lines of less than twelve letters or cut to less than eight.
const UNFIT: &str = r#"(() => {
    const wrong = [];
    const name = (element) => `${element.tagName.toLowerCase()}.${element.className} ${JSON.stringify(element.textContent.trim().slice(0, 40))}`;
    const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== 'hidden' && !element.closest('.unseen, .skip');
    const scrolls = (element) => element.closest('.table, .graph-room, .timeline-room, .statuses, .well, json-view');
    if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const each of document.querySelectorAll('button, input, select, textarea, summary')) {
        if (!shown(each) || each.closest('.statuses, .graph-room, .timeline-room')) continue;
        const box = each.getBoundingClientRect();
        if (box.left < 0 || box.right > innerWidth + 0.5) wrong.push(`off the screen: ${name(each)}`);
    }
    for (const each of document.querySelectorAll('a')) {
        if (!shown(each) || scrolls(each)) continue;
        const box = each.getBoundingClientRect();
        if (box.left < 0 || box.right > innerWidth + 0.5) wrong.push(`off the screen: ${name(each)}`);
    }
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const text = walk.currentNode.data.trim();
        const element = walk.currentNode.parentElement;
        if (text.length < 2 || !shown(element) || element.closest('svg, option, datalist, noscript, .well')) continue;
        const range = document.createRange();
        range.selectNodeContents(walk.currentNode);
        const lines = new Set([...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top)));
        if (lines.size > text.split(/\s+/).length && text.length / lines.size < 12) wrong.push(`${lines.size} lines: ${name(element)}`);
    }
    for (const each of document.querySelectorAll('td.clip, .name, .what, .over')) {
        const text = each.textContent.trim();
        if (!shown(each) || each.scrollWidth <= each.clientWidth + 1 || each.closest('.graph')) continue;
        const style = getComputedStyle(each);
        const room = each.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        const letters = room / (parseFloat(style.fontSize) * 0.55);
        if (text.length > letters && letters < 8) wrong.push(`cut to ${letters.toFixed(1)} letters: ${name(each)}`);
        if (!each.title) wrong.push(`cut without the whole name on it: ${name(each)}`);
    }
    return wrong;
})()"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_control_has_a_name_and_text_can_be_read_in_both_themes() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let cast = stage.populate().await;
    for theme in [Theme::Light, Theme::Dark] {
        visit.page.prefer(theme).await;
        for screen in screens(&cast) {
            if screen.name == "overview" {
                runs_are_counted(&visit.page, &stage.ui).await;
            }
            look(&visit.page, &stage.ui, &screen).await;
            let nameless = visit.page.value(NAMELESS).await;
            assert_eq!(
                nameless,
                serde_json::json!([]),
                "controls without a name on {}",
                screen.name
            );
            let pale = visit.page.value(PALE).await;
            assert_eq!(
                pale,
                serde_json::json!([]),
                "low contrast on {} in the {} theme",
                screen.name,
                theme.word()
            );
        }
    }
    visit.end().await;
    stage.end().await;
}

/// A script that returns links, buttons and fields without a name for a screen reader.
const NAMELESS: &str = r#"[...document.querySelectorAll('a, button, input, select, textarea')]
    .filter((each) => each.getClientRects().length > 0)
    .filter((each) => !(each.textContent.trim() || each.getAttribute('aria-label') || each.title || each.closest('label')))
    .map((each) => each.outerHTML)"#;

/// A script that returns texts whose contrast with their background is below 4.5:1.
const PALE: &str = r#"(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
    const behind = (element) => {
        const layers = [];
        for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
        return layers.reverse().reduce((ground, layer) => over(layer, ground), [255, 255, 255, 1]);
    };
    const light = (color) => color.slice(0, 3)
        .map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const pale = new Set();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || element.closest('svg, option, datalist, noscript, :disabled') || element.getClientRects().length === 0) continue;
        const ground = behind(element);
        const [one, two] = [light(over(rgba(getComputedStyle(element).color), ground)), light(ground)];
        const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        if (contrast < 4.5) pale.add(`${walk.currentNode.data.trim().slice(0, 40)} (${element.className}) ${contrast.toFixed(2)}`);
    }
    return [...pale];
})()"#;

/// Returns the folder for pictures, in cargo's target folder.
pub(crate) fn pictures() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("screenshots")
}
