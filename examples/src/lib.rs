//! Code that the examples share: the choice of the database, and starting a second process of the
//! same example.
//!
//! The features are shown in `bin/`, one program each.

use anyhow::Context as _;
use outlast::engine::EngineBuilder;
use outlast::{Engine, Postgres};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

/// The schema of the examples, so that they can run on any database.
pub const SCHEMA: &str = "outlast_examples";

/// Returns an engine on SQLite in memory, or on the PostgreSQL of `OUTLAST_DATABASE_URL`.
///
/// Your program chooses its store: `Engine::sqlite("shop.db")?`, or
/// `Engine::postgres(&url).await?`.
pub async fn engine() -> outlast::Result<EngineBuilder> {
    match postgres_url() {
        Some(url) => engine_on(&url).await,
        None => Engine::sqlite_in_memory(),
    }
}

/// Returns a database that several processes can use: the PostgreSQL of `OUTLAST_DATABASE_URL`, or
/// a file in `folder`.
pub fn shared_database(folder: &Path) -> String {
    let file = || folder.join("shop.db").display().to_string();
    postgres_url().unwrap_or_else(file)
}

/// Returns the PostgreSQL of `OUTLAST_DATABASE_URL`, if it is set.
pub fn postgres_url() -> Option<String> {
    let url = std::env::var("OUTLAST_DATABASE_URL").ok();
    url.filter(|url| !url.is_empty())
}

/// Returns an engine on the result of [`shared_database`].
pub async fn engine_on(database: &str) -> outlast::Result<EngineBuilder> {
    if !database.starts_with("postgres") {
        return Engine::sqlite(database);
    }
    let options = Postgres::options(database)?.schema(SCHEMA);
    Ok(Engine::builder(options.connect().await?))
}

/// Sends a POST with a JSON body, and returns the status and the body of the response.
pub async fn send_post(
    address: SocketAddr,
    path: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    send(address, "POST", path, &[], body).await
}

/// Sends a request, with a JSON body unless it is empty. Returns the status and the body of the
/// response.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<(u16, String)> {
    let length = body.len();
    let headers = headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("no HTTP")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// A second process of the same program, started with the argument `worker` and the database.
pub struct WorkerProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The lines of its output that were read.
    pub output: Vec<String>,
}

impl WorkerProcess {
    /// Starts the process.
    pub fn start(database: &str) -> io::Result<WorkerProcess> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", database])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().expect("its output is piped");
        Ok(WorkerProcess {
            child,
            lines: BufReader::new(stdout).lines(),
            output: Vec::new(),
        })
    }

    /// Returns the database if this process is such a worker.
    pub fn database() -> Option<String> {
        let mut arguments = std::env::args().skip(1);
        arguments.next().filter(|first| first == "worker")?;
        arguments.next()
    }

    /// Reads until a line begins with `text`.
    pub async fn wait_for_line(&mut self, text: &str) -> io::Result<()> {
        while let Some(line) = self.read_line().await? {
            if line.starts_with(text) {
                return Ok(());
            }
        }
        let ended = format!("the worker ended before it printed {text:?}");
        Err(io::Error::other(ended))
    }

    /// Sends a signal of the operating system: `TERM` asks the process to stop, `KILL` ends it at
    /// once.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        let id = self.child.id().and_then(|id| id.try_into().ok());
        let id = id.and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the worker has ended"))?;
        Ok(kill_process(id, signal)?)
    }

    /// Waits until the process ends, and reads the rest of its output.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        while self.read_line().await?.is_some() {}
        self.child.wait().await
    }

    async fn read_line(&mut self) -> io::Result<Option<String>> {
        let line = self.lines.next_line().await?;
        if let Some(line) = &line {
            println!("  worker: {line}");
            self.output.push(line.clone());
        }
        Ok(line)
    }
}
