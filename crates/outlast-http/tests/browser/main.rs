//! The dashboard in a real browser: Debian's Chromium, against a real engine and router on this machine.
//!
//! Without Chromium every test says that it is skipped; `./scripts/test.sh` installs it. Pictures of each screen are left
//! in `target/screenshots`; the ones in `docs/images` are copies of those.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod acting;
mod devtools;
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

/// One browser at a time: two of them on a small machine make each other late, and some tests look at the time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A browser with a page, or nothing where there is no Chromium.
struct Visit {
    browser: Browser,
    page: Page,
    _alone: MutexGuard<'static, ()>,
}

impl Visit {
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

    /// JoinSets the visit, which must have been without complaints.
    async fn end(self) {
        self.end_but_for(&[]).await;
    }

    /// JoinSets the visit; only these complaints may have been made.
    async fn end_but_for(self, allowed: &[&str]) {
        self.page.check_quiet(allowed);
        self.browser.close().await;
    }
}
