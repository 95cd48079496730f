//! Hostile payloads: the page shows their exact content as text.

use crate::Visit;
use crate::page::Page;
use crate::stage::{Setting, Stage};
use serde_json::json;

/// Inserts an instance with exactly this text as its state, and returns its id.
async fn insert(page: &Page, name: &str, state: &str) -> String {
    let body = format!(
        r#"{{"machine":"hostile","step":{},"queue":"nobody","state":{state}}}"#,
        json!(name)
    );
    let insert = format!(
        "fetch(new URL('../v1/instances', document.baseURI), {{ method: 'POST', headers: {{ 'content-type': 'application/json' }}, body: {} }})
            .then((answer) => answer.json()).then((answer) => answer.id ?? JSON.stringify(answer))",
        json!(body)
    );
    let id = page.value(&insert).await;
    let id = id.as_str().unwrap();
    assert!(id.parse::<i64>().is_ok(), "{id}");
    id.to_owned()
}

/// Returns the text of the viewer without its buttons and labels.
async fn shown(page: &Page) -> String {
    let shown = "(() => {
        const copy = document.querySelector('[data-json=state] json-view').cloneNode(true);
        copy.querySelectorAll('button, .faint').forEach((each) => each.remove());
        return copy.textContent;
    })()";
    page.value(shown).await.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_payloads_are_shown_unchanged_as_text() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    let attack = r#"<script>window.hit=1</script><img src=x onerror=window.hit=1><a href="javascript:window.hit=1">"#;
    let states = [
        "9223372036854775807".to_owned(),
        "-9223372036854775808".to_owned(),
        "1e400".to_owned(),
        "0.10000000000000000000000000000000001".to_owned(),
        format!(r#"{{"text":{0},{0}:[{0}]}}"#, json!(attack)),
        r#"{"a":1,"a":2,"__proto__":{"x":3},"constructor":null}"#.to_owned(),
        "\"\u{202e}gpj.exe \u{200b}\u{feff}\u{2066}\u{0301}\u{1f468}\u{200d}\u{1f469}\u{e0041} \u{2028}\"".to_owned(),
        r#""\u0001\u202e \"quoted\" \\ \/ \u00e9 é""#.to_owned(),
        format!("{}1{}", "[".repeat(60), "]".repeat(60)),
    ];
    for state in states {
        let id = insert(page, attack, &state).await;
        page.go(&format!("{}instances/{id}", stage.ui)).await;
        page.until(
            "document.querySelector('[data-json=state] json-view')?.textContent",
            "its state",
        )
        .await;
        // Every fold is opened.
        page.until("[...document.querySelectorAll('json-view [aria-expanded=false]')].every((fold) => fold.click()) && !document.querySelector('json-view [aria-expanded=false]')", "everything to unfold").await;
        let seen = shown(page).await;
        assert_eq!(without_layout(&seen), without_layout(&state));
        assert!(
            page.text("main").await.contains(attack),
            "the name of the step is not shown unchanged"
        );
    }
    assert_eq!(
        page.value("window.hit === undefined && !document.querySelector('main img, main script')")
            .await,
        true
    );

    page.go(&format!("{}instances", stage.ui)).await;
    page.until_text("table", "<script>").await;
    page.go(&format!("{}machine?name=hostile", stage.ui)).await;
    page.until_text("main", "hostile").await;
    page.go(&format!(
        "{}machine?name={}",
        stage.ui, "%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E"
    ))
    .await;
    page.until_text("h1", "<img").await;
    assert_eq!(page.value("window.hit === undefined").await, true);
    visit.end().await;
    stage.end().await;
}

/// Removes the spaces outside strings.
fn without_layout(json: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for character in json.chars() {
        if !in_string && character.is_ascii_whitespace() {
            continue;
        }
        in_string ^= character == '"' && !escaped;
        escaped = in_string && character == '\\' && !escaped;
        out.push(character);
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_is_shown_in_parts_and_whole_on_demand() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let page = &visit.page;
    page.go(&stage.ui).await;
    let id = insert(page, "long", &format!("\"{}END\"", "x".repeat(1_000_000))).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.until_text("json-view", "show all 1,000,005 characters")
        .await;
    assert!(shown(page).await.len() < 10_000);
    page.press("… show all 1,000,005 characters").await;
    page.until(
        "document.querySelector('json-view').textContent.endsWith('xEND\"')",
        "all of it",
    )
    .await;
    assert_eq!(shown(page).await.len(), 1_000_005);

    let list = (0..20_000)
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let id = insert(page, "many", &format!("[{list}]")).await;
    page.go(&format!("{}instances/{id}", stage.ui)).await;
    page.press("… show 100 more").await;
    page.until(
        "document.querySelectorAll('json-view .number').length === 200",
        "the next ones",
    )
    .await;
    visit.end().await;
    stage.end().await;
}
