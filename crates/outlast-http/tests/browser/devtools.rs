//! Chromium, driven over its DevTools protocol. It speaks through two pipes, so nothing listens on a port and nobody
//! else can drive it.

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

/// How long a command may take. A machine that builds at the same time is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser that is gone with this value.
pub(crate) struct Browser {
    link: Arc<Link>,
    child: Child,
    _profile: TempDir,
}

/// The way to a browser: what is asked and what it tells by itself.
pub(crate) struct Link {
    to: tokio::sync::Mutex<ChildStdin>,
    last: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    told: Mutex<Vec<Value>>,
}

/// Where Chromium is: named, or on the path.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("OUTLAST_TEST_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names
            .map(|name| folder.join(name))
            .into_iter()
            .find(|program| program.is_file())
    })
}

impl Browser {
    /// Starts one; `None`, with a word, where there is none.
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = chromium() else {
            eprintln!(
                "skipped: no Chromium on PATH; ./scripts/test.sh installs it, or name it in OUTLAST_TEST_CHROMIUM"
            );
            return None;
        };
        let profile = tempfile::tempdir().expect("a temporary folder can be made");
        // The protocol wants descriptors 3 and 4; only a shell can set them without unsafe code.
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
            // Only our own pages are opened, and root, who runs tests in containers, has no sandbox.
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
            told: Mutex::default(),
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

    /// JoinSets it and waits until it has ended, so that its folder can go.
    pub(crate) async fn close(mut self) {
        let asked = self.link.ask("Browser.close", json!({}), None).await;
        assert_eq!(asked, json!({}));
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended
            .expect("Chromium ends when it is told")
            .expect("its end can be seen");
    }
}

impl Link {
    /// Asks for something and gives the answer; a refusal fails the test.
    pub(crate) async fn ask(&self, method: &str, params: Value, session: Option<&str>) -> Value {
        let answer = self.ask_for(method, params, session).await;
        answer.unwrap_or_else(|refusal| panic!("{method} was refused: {refusal}"))
    }

    /// Asks for something and gives the answer, or why it was refused.
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
            .expect("nobody panics with it")
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
            .expect("Chromium listens");
        let answer = tokio::time::timeout(PATIENCE, answered).await;
        let mut answer = answer
            .unwrap_or_else(|_| panic!("no answer to {method}"))
            .expect("Chromium has not ended");
        match answer.get_mut("error") {
            Some(refusal) => Err(refusal.take()),
            None => Ok(answer["result"].take()),
        }
    }

    /// What a session has told by itself so far.
    pub(crate) fn told(&self, session: &str) -> Vec<Value> {
        let told = self.told.lock().expect("nobody panics with it");
        told.iter()
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
            Ok(0) | Err(_) => return link.asked.lock().expect("nobody panics with it").clear(),
        }
        message.pop();
        let message: Value = serde_json::from_slice(&message).expect("Chromium speaks JSON");
        match message["id"].as_u64() {
            Some(id) => {
                let asked = link
                    .asked
                    .lock()
                    .expect("nobody panics with it")
                    .remove(&id);
                // Who asked may have given up.
                asked.map(|asked| asked.send(message));
            }
            None => link
                .told
                .lock()
                .expect("nobody panics with it")
                .push(message),
        }
    }
}
