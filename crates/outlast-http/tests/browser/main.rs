//! Tests of the dashboard in a real browser: Debian's Chromium, with a real engine and router on
//! this machine.
//!
//! Without Chromium every test fails; `./scripts/test.sh` installs it. With
//! `OUTLAST_TEST_CHROMIUM=none` every test says that it is skipped. The tests
//! write a picture of each screen to `target/screenshots`. The pictures in `docs/images` are
//! copies.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod acting;
mod devtools;
mod failures;
mod families;
mod finding;
#[path = "../machines/flows.rs"]
mod flow_machines;
mod flows;
mod history;
mod hostile;
mod living;
mod machines;
mod many;
mod page;
mod pure;
mod screens;
mod sleeping;
mod stage;
#[path = "../machines/team.rs"]
mod team;
#[path = "../machines/tracked.rs"]
mod tracked;
mod transitions;

use devtools::Browser;
use page::Page;
use tokio::sync::{Mutex, MutexGuard};

/// Allows one browser at a time. Some tests measure time, and two browsers on a small machine slow
/// each other down.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A browser with a page.
struct Visit {
    browser: Browser,
    page: Page,
    _alone: MutexGuard<'static, ()>,
}

impl Visit {
    /// Starts a browser; `None` where these tests are skipped.
    async fn start() -> Option<Visit> {
        let alone = ALONE.lock().await;
        let browser = Browser::start()?;
        let page = Page::open(&browser).await;
        Some(Visit {
            browser,
            page,
            _alone: alone,
        })
    }

    /// Ends the visit. The page must not have reported any error or warning.
    async fn end(self) {
        self.end_but_for(&[]).await;
    }

    /// Ends the visit. The page may have reported only these errors and warnings.
    async fn end_but_for(self, allowed: &[&str]) {
        self.page.check_quiet(allowed);
        self.browser.close().await;
    }
}
