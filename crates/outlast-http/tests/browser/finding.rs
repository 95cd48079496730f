//! Addresses, pages of a list, the keyboard and themes.

use crate::Visit;
use crate::page::Theme;
use crate::stage::{Setting, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn an_address_holds_every_filter() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    stage.populate().await;
    let page = &visit.page;
    page.go(&format!("{}instances", stage.ui)).await;
    page.until_text("[data-total]", "instances").await;

    page.click(".statuses .is-failed").await;
    page.click("[name=machine]").await;
    page.write("line_item").await;
    page.click("[name=error]").await;
    page.write("lamp in").await;
    page.press("More filters").await;
    page.click("[name=version]").await;
    page.write("1").await;
    page.value("{ const age = document.querySelector('[name=age]'); age.value = '1h'; age.dispatchEvent(new Event('change')); }").await;
    page.until_text("[data-total]", "2 match").await;
    page.until(
        "location.search.includes('age=1h') && location.search.includes('version=1')",
        "the address",
    )
    .await;
    let address = page.address().await;
    for part in [
        "status=failed",
        "machine=line_item",
        "error=lamp+in",
        "version=1",
        "age=1h",
    ] {
        assert!(address.contains(part), "{part} is not in {address}");
    }

    // Another page opens the copied address.
    let other = crate::page::Page::open(&visit.browser).await;
    let origin = stage.ui.trim_end_matches("/ui/");
    other.go(&format!("{origin}{address}")).await;
    other.until_text("[data-total]", "2 match").await;
    for (name, value) in [
        ("machine", "line_item"),
        ("error", "lamp in"),
        ("version", "1"),
        ("age", "1h"),
    ] {
        let shown = other
            .value(&format!("document.querySelector('[name={name}]').value"))
            .await;
        assert_eq!(shown, value, "{name}");
    }
    assert_eq!(
        other
            .value("document.querySelector('.statuses .is-failed').getAttribute('aria-pressed')")
            .await,
        "true"
    );
    other.press("Clear").await;
    other.until("location.search === ''", "no filter").await;
    // The address changes before the screen is redrawn.
    other
        .until(
            "document.querySelector('[name=machine]')?.value === ''",
            "no machine in its field",
        )
        .await;
    other.check_quiet(&[]);
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_pages_back_and_forth_and_its_columns_can_be_chosen() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    stage.populate().await;
    let page = &visit.page;
    page.go(&format!("{}instances", stage.ui)).await;
    page.until(
        "document.querySelectorAll('[data-row]').length === 50",
        "a full page",
    )
    .await;
    let newest = page
        .value("document.querySelector('[data-row]').dataset.row")
        .await;
    page.press("Older").await;
    page.until(&format!("document.querySelector('[data-row]') && document.querySelector('[data-row]').dataset.row !== '{}'", newest.as_str().unwrap()), "older ones").await;
    let highest: i64 = page
        .value("document.querySelector('[data-row]').dataset.row")
        .await
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        highest,
        newest.as_str().unwrap().parse::<i64>().unwrap() - 50,
        "a page was skipped or shown twice"
    );
    page.press("Newer").await;
    page.until(
        &format!(
            "document.querySelector('[data-row]')?.dataset.row === '{}'",
            newest.as_str().unwrap()
        ),
        "the newest",
    )
    .await;

    page.press("Columns").await;
    page.click("dialog [name=queue]").await;
    page.click("dialog [name=attempt]").await;
    page.press("Apply").await;
    page.until("[...document.querySelectorAll('th')].map((each) => each.textContent).join() === 'Id,Machine,Step,Status,Queue,Key,Updated,Last error'", "the chosen columns").await;
    page.go(&format!("{}instances", stage.ui)).await;
    page.until_text("thead", "Queue").await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_reaches_everything() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let first = stage.checkout(1).await;
    let second = stage.checkout(2).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    for (key, heading) in [
        ("m", "Machines"),
        ("q", "Queues"),
        ("w", "Workers"),
        ("o", "Overview"),
        ("i", "Instances"),
    ] {
        page.key("g").await;
        page.key(key).await;
        page.until(
            &format!("document.querySelector('h1')?.textContent === '{heading}'"),
            heading,
        )
        .await;
    }
    page.until_text("table", "checkout").await;
    page.key("j").await;
    assert_eq!(page.text(":focus").await, second.to_string());
    page.key("j").await;
    assert_eq!(page.text(":focus").await, first.to_string());
    page.key("k").await;
    assert_eq!(page.text(":focus").await, second.to_string());
    page.key("/").await;
    assert_eq!(page.value("document.activeElement.name").await, "machine");
    page.write("g").await;
    page.key("i").await;
    assert_eq!(
        page.value("document.activeElement.value").await,
        "gi",
        "keys in a field are text"
    );
    page.key("Escape").await;
    assert_eq!(
        page.value("document.activeElement === document.body").await,
        true
    );
    page.key("?").await;
    page.until_text("dialog[open]", "Show shortcuts").await;
    page.key("Escape").await;
    page.until(
        "document.querySelector('dialog') === null",
        "the list to close",
    )
    .await;

    page.go(&format!("{}instances", stage.ui)).await;
    page.until_text("table", "checkout").await;
    page.key("j").await;
    page.key("Enter").await;
    page.until(
        &format!("location.pathname.endsWith('/instances/{second}')"),
        "the row to open",
    )
    .await;
    visit.end().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_theme_follows_the_system_until_one_is_chosen() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    let theme = "document.documentElement.dataset.theme";
    page.prefer(Theme::Dark).await;
    page.go(&stage.ui).await;
    assert_eq!(page.value(theme).await, "dark");
    page.prefer(Theme::Light).await;
    page.until(&format!("{theme} === 'light'"), "the system's change")
        .await;
    page.press("Theme").await;
    assert_eq!(page.value(theme).await, "dark");
    page.go(&format!("{}queues", stage.ui)).await;
    assert_eq!(page.value(theme).await, "dark", "a choice is kept");
    page.key("t").await;
    page.until(&format!("{theme} === 'light'"), "the other theme")
        .await;
    visit.end().await;
    stage.end().await;
}
