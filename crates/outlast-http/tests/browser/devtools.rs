//! Drives Chromium over its DevTools protocol, through two pipes. No port is open, so no other
//! process can drive it.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

/// The limit for one command. It is long because a machine that also builds is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser process, killed when this value is dropped.
pub(crate) struct Browser {
    link: Arc<Link>,
    child: Child,
    _profile: TempDir,
}

/// The connection to a browser: open requests, and the events received so far.
pub(crate) struct Link {
    to: tokio::sync::Mutex<ChildStdin>,
    last: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    events: Mutex<Vec<Value>>,
}

/// Returns the path of Chromium, from `OUTLAST_TEST_CHROMIUM` or `PATH`. Returns `None` if the
/// variable is `none`: then the tests are skipped.
///
/// # Panics
///
/// When there is no Chromium. A test that passes without it would prove nothing.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("OUTLAST_TEST_CHROMIUM") {
        if named == "none" {
            return None;
        }
        let program = PathBuf::from(named);
        assert!(
            program.is_file(),
            "OUTLAST_TEST_CHROMIUM names no file: {}",
            program.display()
        );
        return Some(program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut programs =
        std::env::split_paths(&path).flat_map(|folder| names.map(|it| folder.join(it)));
    let program = programs.find(|program| program.is_file());
    Some(program.expect(
        "the dashboard's tests need Chromium, and none is on PATH: install it (on Debian as root: apt-get install \
         chromium), name its path in OUTLAST_TEST_CHROMIUM, or skip them with OUTLAST_TEST_CHROMIUM=none",
    ))
}

impl Browser {
    /// Starts a browser. Prints a message and returns `None` where `OUTLAST_TEST_CHROMIUM=none`
    /// skips these tests.
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = chromium() else {
            eprintln!(
                "SKIPPED, because OUTLAST_TEST_CHROMIUM is none: the dashboard is not tested"
            );
            return None;
        };
        let profile = tempfile::tempdir().expect("a temporary folder can be made");
        // The protocol needs descriptors 3 and 4. Only a shell can set them without unsafe code.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-first-run",
                "--disable-gpu",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            // Chromium has no sandbox for root, who runs tests in containers. The tests open only
            // their own pages.
            .args([
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("Chromium can be started");
        let link = Arc::new(Link {
            to: tokio::sync::Mutex::new(child.stdin.take().expect("it was piped")),
            last: AtomicU64::new(0),
            asked: Mutex::default(),
            events: Mutex::default(),
        });
        tokio::spawn(listen(
            link.clone(),
            child.stdout.take().expect("it was piped"),
        ));
        Some(Browser {
            link,
            child,
            _profile: profile,
        })
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        self.link.clone()
    }

    /// Closes the browser and waits for the end of its process, so that its folder can be removed.
    pub(crate) async fn close(mut self) {
        let asked = self.link.ask("Browser.close", json!({}), None).await;
        assert_eq!(asked, json!({}));
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended
            .expect("Chromium exits after Browser.close")
            .expect("the exit status can be read");
    }
}

impl Link {
    /// Sends a command and returns its answer; panics when Chromium refuses it.
    pub(crate) async fn ask(&self, method: &str, params: Value, session: Option<&str>) -> Value {
        let answer = self.ask_for(method, params, session).await;
        answer.unwrap_or_else(|refusal| panic!("{method} was refused: {refusal}"))
    }

    /// Sends a command and returns its answer, or the error.
    pub(crate) async fn ask_for(
        &self,
        method: &str,
        params: Value,
        session: Option<&str>,
    ) -> Result<Value, Value> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        self.asked
            .lock()
            .expect("the lock is not poisoned")
            .insert(id, answer);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to
            .lock()
            .await
            .write_all(&bytes)
            .await
            .expect("Chromium reads commands");
        let answer = tokio::time::timeout(PATIENCE, answered).await;
        let mut answer = answer
            .unwrap_or_else(|_| panic!("no answer to {method}"))
            .expect("Chromium still runs");
        match answer.get_mut("error") {
            Some(refusal) => Err(refusal.take()),
            None => Ok(answer["result"].take()),
        }
    }

    /// Returns the events that a session has sent so far.
    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        let events = self.events.lock().expect("the lock is not poisoned");
        events
            .iter()
            .filter(|event| event["sessionId"] == session)
            .cloned()
            .collect()
    }
}

async fn listen(link: Arc<Link>, from: ChildStdout) {
    let mut from = BufReader::new(from);
    loop {
        let mut message = Vec::new();
        match from.read_until(0, &mut message).await {
            Ok(1..) => {}
            // The browser has ended. The dropped sender wakes the waiting calls.
            Ok(0) | Err(_) => return link.asked.lock().expect("the lock is not poisoned").clear(),
        }
        message.pop();
        let message: Value = serde_json::from_slice(&message).expect("Chromium speaks JSON");
        match message["id"].as_u64() {
            Some(id) => {
                let asked = link
                    .asked
                    .lock()
                    .expect("the lock is not poisoned")
                    .remove(&id);
                // The caller may have timed out.
                asked.map(|asked| asked.send(message));
            }
            None => link
                .events
                .lock()
                .expect("the lock is not poisoned")
                .push(message),
        }
    }
}
