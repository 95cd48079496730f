//! One page of the browser: actions of a person on it, and its content.

use crate::devtools::{Browser, Link};
use base64::Engine as _;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// How long a test waits for a condition of the page.
const PATIENCE_MS: u64 = 20_000;

/// A page with its own history, cookies and storage.
pub(crate) struct Page {
    link: Arc<Link>,
    session: String,
}

/// A colour theme.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
}

impl Page {
    pub(crate) async fn open(browser: &Browser) -> Page {
        let link = browser.link();
        let context = link
            .ask("Target.createBrowserContext", json!({}), None)
            .await;
        let context = context["browserContextId"].clone();
        let target = link.ask(
            "Target.createTarget",
            json!({ "url": "about:blank", "browserContextId": context }),
            None,
        );
        let target = target.await["targetId"].clone();
        let attached = link
            .ask(
                "Target.attachToTarget",
                json!({ "targetId": target, "flatten": true }),
                None,
            )
            .await;
        let session = attached["sessionId"]
            .as_str()
            .expect("a session has an id")
            .to_owned();
        let page = Page { link, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.ask(&format!("{domain}.enable"), json!({})).await;
        }
        page.size(1360, 860).await;
        page
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.link.ask(method, params, Some(&self.session)).await
    }

    pub(crate) async fn size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.ask("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Sets the theme that the system prefers.
    pub(crate) async fn prefer(&self, theme: Theme) {
        let feature = json!({ "name": "prefers-color-scheme", "value": theme.word() });
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        )
        .await;
    }

    pub(crate) async fn go(&self, url: &str) {
        let went = self.ask("Page.navigate", json!({ "url": url })).await;
        assert!(
            went.get("errorText").is_none(),
            "{url}: {}",
            went["errorText"]
        );
        self.until(
            "document.readyState === 'complete' && document.querySelector('main')",
            "the page to load",
        )
        .await;
    }

    /// Returns the value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let value = self.value_here(expression).await;
        value.unwrap_or_else(|| panic!("the page was closed during {expression}"))
    }

    /// Returns the value of an expression, or `None` when the page navigates meanwhile.
    async fn value_here(&self, expression: &str) -> Option<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let asked = self
            .link
            .ask_for("Runtime.evaluate", params, Some(&self.session));
        let answer = match asked.await {
            Ok(answer) => answer,
            Err(refusal) if refusal["message"] == "Inspected target navigated or closed" => {
                return None;
            }
            Err(refusal) => panic!("{expression} was refused: {refusal}"),
        };
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}\n{}",
            answer["exceptionDetails"]
        );
        Some(answer["result"]["value"].clone())
    }

    /// Returns the text of the first element that matches, or an empty text.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let text = self
            .value(&format!(
                "document.querySelector({})?.textContent ?? ''",
                json!(selector)
            ))
            .await;
        text.as_str().expect("text is text").to_owned()
    }

    /// Waits until an expression is true. `what` names the condition in the panic of a timeout.
    pub(crate) async fn until(&self, condition: &str, what: &str) {
        if !self.becomes(condition).await {
            let shown = self.value("document.body?.innerText ?? ''").await;
            let shown = shown.as_str().unwrap_or_default();
            panic!("timed out waiting for {what}: {condition}\nthe page shows:\n{shown}");
        }
    }

    /// Waits until an expression is true; returns false after a timeout.
    pub(crate) async fn becomes(&self, condition: &str) -> bool {
        let wait = format!(
            "new Promise((resolve) => {{
                const end = performance.now() + {PATIENCE_MS};
                const look = () => {{
                    let seen = false;
                    try {{ seen = Boolean({condition}); }} catch {{ /* not there yet */ }}
                    if (seen || performance.now() > end) resolve(seen);
                    else setTimeout(look, 15);
                }};
                look();
            }})"
        );
        loop {
            // After a navigation the wait begins again on the new page.
            if let Some(seen) = self.value_here(&wait).await {
                return seen == true;
            }
        }
    }

    /// Waits until the first element that matches contains a text.
    pub(crate) async fn until_text(&self, selector: &str, text: &str) {
        let condition = format!(
            "document.querySelector({}).textContent.includes({})",
            json!(selector),
            json!(text)
        );
        self.until(&condition, text).await;
    }

    /// Clicks in the middle of the first element that matches, with a real pointer. A covered or
    /// invisible element does not get the click.
    pub(crate) async fn click(&self, selector: &str) {
        let find = format!("document.querySelector({})", json!(selector));
        self.click_on(&find, selector).await;
    }

    /// Clicks the button or link with this text.
    pub(crate) async fn press(&self, text: &str) {
        let find = format!(
            "[...document.querySelectorAll('dialog[open] button, dialog[open] a')].concat([...document.querySelectorAll('button, a')])
                .find((each) => each.textContent.trim() === {})",
            json!(text)
        );
        self.click_on(&find, text).await;
    }

    async fn click_on(&self, find: &str, what: &str) {
        self.until(&format!("(() => {{ const it = {find}; return it && !it.disabled && it.getClientRects().length > 0; }})()"), what).await;
        let place = format!(
            "(() => {{
                const it = {find};
                it.scrollIntoView({{ block: 'center', inline: 'center', behavior: 'instant' }});
                const box = it.getClientRects()[0];
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"
        );
        let place = self.value(&place).await;
        for (kind, count) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": if count > 0 { "left" } else { "none" }, "clickCount": count });
            self.ask("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Types into the focused element.
    pub(crate) async fn write(&self, text: &str) {
        self.ask("Input.insertText", json!({ "text": text })).await;
    }

    /// Presses a key: a letter, `Enter` or `Escape`.
    pub(crate) async fn key(&self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            letter => u32::from(letter.to_ascii_uppercase().as_bytes()[0]),
        };
        let text = match key {
            "Enter" => "\r",
            "Escape" => "",
            letter => letter,
        };
        let down =
            json!({ "type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.ask("Input.dispatchKeyEvent", down).await;
        self.ask(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        )
        .await;
    }

    pub(crate) async fn address(&self) -> String {
        self.value("location.pathname + location.search")
            .await
            .as_str()
            .expect("an address is text")
            .to_owned()
    }

    /// Takes a picture of the visible part of the page.
    pub(crate) async fn picture(&self, file: &Path) {
        let taken = self
            .ask("Page.captureScreenshot", json!({ "format": "png" }))
            .await;
        let bytes = taken["data"].as_str().expect("a picture is base64");
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(bytes)
            .expect("a picture is base64");
        std::fs::create_dir_all(file.parent().expect("the picture has a folder"))
            .expect("a folder can be made");
        std::fs::write(file, bytes).expect("a picture can be kept");
    }

    /// Panics when the page has reported an error or a warning that is not allowed, or has sent a
    /// request to another machine.
    pub(crate) fn check_quiet(&self, allowed: &[&str]) {
        for event in self.link.events(&self.session) {
            let params = &event["params"];
            let trouble = match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled"
                    if params["type"] == "error" || params["type"] == "warning" =>
                {
                    Some(params["args"].to_string())
                }
                "Log.entryAdded"
                    if params["entry"]["level"] == "error"
                        || params["entry"]["level"] == "warning" =>
                {
                    Some(params["entry"].to_string())
                }
                "Network.requestWillBeSent" => {
                    leaving(params["request"]["url"].as_str().unwrap_or_default())
                }
                _ => None,
            };
            if let Some(trouble) = trouble {
                assert!(
                    allowed.iter().any(|allowed| trouble.contains(allowed)),
                    "the page has trouble: {trouble}"
                );
            }
        }
    }
}

/// Returns a complaint about a URL on another machine.
fn leaving(url: &str) -> Option<String> {
    let stays = ["http://127.0.0.1:", "data:", "about:", "blob:"]
        .iter()
        .any(|start| url.starts_with(start));
    (!stays).then(|| format!("a request to {url}"))
}
