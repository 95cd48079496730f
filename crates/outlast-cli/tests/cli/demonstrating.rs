//! The commands `demo` and `serve`.

use crate::support::{LONG, Ran, Site, bare};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that serves HTTP, killed when this value is dropped.
pub(crate) struct Serving {
    child: Child,
    /// Host and port.
    address: String,
}

impl Serving {
    /// Starts the process, and reads the address that it prints.
    pub(crate) fn start(mut command: Command) -> Serving {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|it| it.strip_suffix('/'));
        let address = address
            .unwrap_or_else(|| panic!("{line:?} is no address"))
            .to_owned();
        Serving { child, address }
    }

    /// Returns the process id.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Requests a path, and returns the status and body of the answer.
    fn get(&self, path: &str) -> (u16, String) {
        self.get_of(&self.address, path)
    }

    /// Requests a path with this host header.
    pub(crate) fn get_of(&self, host: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    #[cfg(unix)]
    pub(crate) fn stop(mut self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "the process stops with exit code 0");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After a successful test the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(folder: &std::path::Path) -> Vec<Value> {
    let mut command = bare();
    command.current_dir(folder);
    command.args([
        "-d",
        "outlast-demo/demo.db",
        "list",
        "--all",
        "--status",
        "done,failed,cancelled",
        "-o",
        "json",
    ]);
    Ran::of(command).succeeds().json_lines()
}

/// Repeats the question until the answer is true, because another process makes it true.
fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ask() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(unix)]
#[test]
fn the_demo_is_served_and_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let demo = || {
        let mut command = bare();
        command
            .current_dir(folder.path())
            .args(["demo", "--port", "0"]);
        Serving::start(command)
    };
    let serving = demo();
    eventually("something has ended", || !ended(folder.path()).is_empty());
    let (status, body) = serving.get("/v1/overview");
    assert_eq!(status, 200, "{body}");
    let (status, body) = serving.get("/ui/");
    assert!(status == 200 && body.contains("<html"), "{body}");
    let (status, body) = serving.get("/metrics");
    assert!(
        status == 200 && body.contains("outlast_steps_total"),
        "{body}"
    );
    assert_kinds_are_documented(&body);
    serving.stop();

    let before = ended(folder.path());
    let serving = demo();
    let id = before[0]["id"].as_str().unwrap();
    let (status, _) = serving.get(&format!("/v1/instances/{id}"));
    assert_eq!(status, 200, "the instance survives the restart");
    eventually("more instances end", || {
        ended(folder.path()).len() > before.len()
    });
    serving.stop();
}

/// Checks that every metric is exported with its documented kind.
fn assert_kinds_are_documented(exported: &str) {
    let page = include_str!("../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeMap<&str, &str> = rows
        .filter_map(|row| row.split_once("` | "))
        .filter_map(|(name, rest)| Some((name, rest.split(' ').next()?)))
        .collect();
    let types = exported
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeMap<&str, &str> = types.filter_map(|it| it.split_once(' ')).collect();
    assert!(exported.len() > 10, "{exported:?}");
    for (name, kind) in &exported {
        assert_eq!(documented.get(name), Some(kind), "{name}");
    }
    assert_eq!(
        exported.get("outlast_start_delay_seconds"),
        Some(&"histogram")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_demo_runs_on_postgresql() {
    let site = Site::postgres().await;
    let mut command = site.command(["demo", "--port", "0", "--postgres", site.database()]);
    command.env_remove("OUTLAST_DATABASE");
    let serving = Serving::start(command);
    eventually("something runs", || {
        site.run(["count"]).succeeds().line() != "0"
    });
    serving.stop();
    site.clear().await;
}

#[cfg(unix)]
#[tokio::test]
async fn serve_asks_for_a_token_when_tokens_exist_or_others_can_connect() {
    let site = Site::sqlite().await;
    let id = site.run(["insert", "a", "start"]).succeeds().line();
    let serving = Serving::start(site.command(["serve", "--port", "0"]));
    let (status, body) = serving.get(&format!("/v1/instances/{id}"));
    assert!(
        status == 200 && body.contains("\"status\":\"runnable\""),
        "{body}"
    );
    serving.stop();

    let made = site
        .run(["token", "shop", "--role", "operate"])
        .succeeds()
        .out();
    let tokens = site.folder.path().join("tokens");
    std::fs::write(&tokens, made.lines().last().unwrap()).unwrap();
    let serving = Serving::start(site.command(["serve", "--port", "0", "--tokens", "tokens"]));
    assert_eq!(serving.get("/v1/instances").0, 401);
    serving.stop();

    // On an address that other machines reach, `serve` requires tokens.
    let refused = site
        .run(["serve", "--address", "0.0.0.0", "--port", "0"])
        .ends_with(4);
    assert!(refused.err().contains("set a token"), "{}", refused.err());
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = bare();
    command
        .current_dir(folder.path())
        .args(["demo", "--port", &port]);
    let refused = Ran::of(command).ends_with(1);
    assert!(refused.err().contains("--port"), "{}", refused.err());
}
