//! PostgreSQL with high availability: Patroni nodes that elect a primary through etcd. All calls
//! block.
//!
//! In synchronous mode Patroni makes the primary wait for a standby as soon as there is one, and
//! promotes only such a standby. Without a standby the primary does not wait: see
//! [`replicas`](crate::replicas).

use crate::cluster;
use crate::process::Process;
use crate::program::{self, Account};
use crate::question;
use crate::replicas::Mode;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The nodes and their etcd, removed when the value is dropped.
pub struct Patroni {
    nodes: Vec<Node>,
    etcd: Etcd,
    programs: Programs,
    mode: Mode,
    account: Option<Account>,
}

/// One node: a Patroni and its PostgreSQL.
struct Node {
    name: String,
    folder: TempDir,
    postgres_port: u16,
    /// The port of Patroni's REST API.
    status_port: u16,
    patroni: Option<Child>,
}

struct Etcd {
    process: Child,
    port: u16,
    /// Removed after the process.
    _folder: TempDir,
}

struct Programs {
    patroni: PathBuf,
    etcd: PathBuf,
    postgres: PathBuf,
}

/// How long a node may take for anything. On a busy machine it takes tens of seconds.
const PATIENCE: Duration = Duration::from_secs(120);

impl Patroni {
    /// Starts this many nodes, with standbys that are ready to take over. Returns `None`, with a
    /// message, if a program is missing.
    pub fn start(nodes: usize, mode: Mode) -> Option<Patroni> {
        let programs = Programs::find()?;
        let account = Account::needed();
        let etcd = Etcd::start(&programs.etcd, account);
        let nodes = (0..nodes).map(|index| Node {
            name: format!("node{index}"),
            folder: program::folder(account),
            postgres_port: free_port(),
            status_port: free_port(),
            patroni: None,
        });
        let mut patroni = Patroni {
            nodes: nodes.collect(),
            etcd,
            programs,
            mode,
            account,
        };
        for index in 0..patroni.nodes.len() {
            patroni.run(index);
            // The first node starts alone; the others copy it.
            patroni.wait_for_leader();
        }
        patroni.wait_for_standbys();
        Some(patroni)
    }

    /// Returns a URL of all nodes, which connects to the one that accepts writes.
    pub fn url(&self) -> String {
        let hosts = self.nodes.iter();
        let hosts: Vec<_> = hosts
            .map(|node| format!("127.0.0.1:{}", node.postgres_port))
            .collect();
        format!(
            "postgres://outlast@{}/postgres?target_session_attrs=read-write",
            hosts.join(",")
        )
    }

    /// Returns the primary that accepts writes, if there is one.
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(Node::leads)
    }

    /// Kills the primary and its Patroni with SIGKILL, and returns the node. The others notice
    /// when its leader key in etcd expires.
    pub fn kill_leader(&mut self) -> usize {
        let leader = self.wait_for_leader();
        self.nodes[leader].kill();
        leader
    }

    /// Waits until a node is the primary and accepts writes.
    pub fn wait_for_leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.pause(begun, "there is no leader");
        }
    }

    /// Restarts a killed node, which rejoins the others.
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].clear();
        self.run(index);
    }

    /// Waits until every node is the primary or a ready standby. In synchronous mode one standby
    /// must have every acknowledged commit; in both modes all must be streaming.
    pub fn wait_for_standbys(&self) {
        let begun = Instant::now();
        while !self.has_standbys() {
            self.pause(begun, "there is no standby");
        }
    }

    fn has_standbys(&self) -> bool {
        let count = |path: &str| self.nodes.iter().filter(|node| node.says(path)).count();
        let synchronous = match self.mode {
            Mode::Synchronous => count("/synchronous") >= 1,
            Mode::Asynchronous => true,
        };
        let Some(leader) = self.leader() else {
            return false;
        };
        let following = "select count(*) from pg_stat_replication where state = 'streaming'";
        let following = question::ask(self.nodes[leader].postgres_port, "postgres", following);
        let expected = self.nodes.len() - 1;
        synchronous
            && count("/replica") == expected
            && following.is_ok_and(|rows| rows.concat().concat() == expected.to_string())
    }

    fn pause(&self, begun: Instant, what: &str) {
        assert!(begun.elapsed() < PATIENCE, "{what}:\n{}", self.logs());
        std::thread::sleep(Duration::from_millis(20));
    }

    /// Returns the last lines of each Patroni's log.
    fn logs(&self) -> String {
        let end = |node: &Node| {
            let log = fs::read(node.folder.path().join("patroni.log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log[log.len().saturating_sub(3_000)..]).into_owned();
            format!("--- {}\n{log}", node.name)
        };
        self.nodes.iter().map(end).collect()
    }

    fn run(&mut self, index: usize) {
        let text = self.configuration(&self.nodes[index]);
        let node = &mut self.nodes[index];
        let folder = node.folder.path();
        let file = folder.join("patroni.yml");
        fs::write(&file, text).expect("the configuration is written");
        program::give(&file, self.account);
        let mut log = fs::OpenOptions::new();
        let log = log.append(true).create(true);
        let log = log.open(folder.join("patroni.log"));
        let log = log.expect("the log can be written");
        let mut command = program::command(&self.programs.patroni, folder, self.account);
        command.arg("patroni.yml").env("HOME", folder);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        node.patroni = Some(command.spawn().expect("patroni can be started"));
    }

    /// These are the shortest timeouts with which a busy machine does not depose a live primary. A
    /// former primary with commits that the new one lacks is copied again.
    fn configuration(&self, node: &Node) -> String {
        let folder = node.folder.path().display();
        let Node {
            name,
            postgres_port,
            status_port,
            ..
        } = node;
        let synchronous = self.mode == Mode::Synchronous;
        let (etcd, programs) = (self.etcd.port, self.programs.postgres.display());
        format!(
            "scope: outlast
name: {name}
restapi: {{listen: '127.0.0.1:{status_port}', connect_address: '127.0.0.1:{status_port}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 8
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: {synchronous}
    postgresql:
      parameters:
        max_connections: 100
        shared_buffers: 32MB
        wal_keep_size: 512MB
        dynamic_shared_memory_type: mmap
  initdb:
  - encoding: UTF8
  - locale: C
  pg_hba:
  - host all all 127.0.0.1/32 trust
  - host replication all 127.0.0.1/32 trust
postgresql:
  listen: 127.0.0.1:{postgres_port}
  connect_address: 127.0.0.1:{postgres_port}
  bin_dir: {programs}
  data_dir: {folder}/data
  pgpass: {folder}/pgpass
  remove_data_directory_on_diverged_timelines: true
  remove_data_directory_on_rewind_failure: true
  # A node that is copied again would otherwise wait about a hundred seconds for a checkpoint.
  basebackup:
    checkpoint: fast
  authentication:
    superuser: {{username: outlast}}
    replication: {{username: outlast_standby}}
  parameters:
    unix_socket_directories: {folder}
"
        )
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end();
        }
    }
}

impl Node {
    fn leads(&self) -> bool {
        let asked = || question::ask(self.postgres_port, "postgres", "select pg_is_in_recovery()");
        self.says("/primary") && asked().is_ok_and(|rows| rows.concat().concat() == "f")
    }

    /// Returns whether Patroni's REST API answers yes at this path.
    fn says(&self, path: &str) -> bool {
        self.patroni.is_some() && status(self.status_port, path).is_some_and(|status| status == 200)
    }

    /// Returns the main process of its server, which is not a child of Patroni.
    fn server(&self) -> Option<Process> {
        let data = self.folder.path().join("data");
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let id: u32 = text.lines().next()?.trim().parse().ok()?;
        // Another process may have this number by now.
        let works_there = fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == data);
        Process::find(id).filter(|_| works_there)
    }

    /// Patroni first: it would restart its server.
    fn kill(&mut self) {
        let server = self.server();
        self.end_patroni();
        if let Some(server) = server {
            server.kill_with_descendants();
        }
    }

    fn end_patroni(&mut self) {
        if let Some(mut patroni) = self.patroni.take() {
            if let Some(process) = Process::find(patroni.id()) {
                process.kill_with_descendants();
            }
            let _ = patroni.wait();
        }
    }

    /// Ends all processes, and lets the server remove what it has outside its folder.
    fn end(&mut self) {
        let server = self.server();
        self.end_patroni();
        // Patroni may have started a server meanwhile.
        for server in server.into_iter().chain(self.server()) {
            server.signal(Signal::QUIT);
            if !server.ends_within(Duration::from_secs(10)) {
                server.kill_with_descendants();
            }
        }
    }

    /// Removes the lock file of a server that was not reaped: the next start would take it for a
    /// running server.
    fn clear(&self) {
        let lock_file = self.folder.path().join("data/postmaster.pid");
        let text = fs::read_to_string(&lock_file).unwrap_or_default();
        let id = text.lines().next().unwrap_or_default().trim();
        if self.server().is_none()
            && !id.is_empty()
            && fs::exists(format!("/proc/{id}")).unwrap_or(false)
        {
            let _ = fs::remove_file(lock_file);
        }
    }
}

impl Etcd {
    fn start(program: &std::path::Path, account: Option<Account>) -> Etcd {
        for _ in 0..10 {
            let folder = program::folder(account);
            let (port, peers) = (free_port(), free_port());
            let log = fs::File::create(folder.path().join("etcd.log"));
            let mut command = program::command(program, folder.path(), account);
            command.args(["--name=outlast", "--data-dir=data", "--logger=zap"]);
            for (option, port) in [
                ("listen-client-urls", port),
                ("advertise-client-urls", port),
                ("listen-peer-urls", peers),
                ("initial-advertise-peer-urls", peers),
            ] {
                command.arg(format!("--{option}=http://127.0.0.1:{port}"));
            }
            command.arg(format!(
                "--initial-cluster=outlast=http://127.0.0.1:{peers}"
            ));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(log.expect("the log can be written"));
            let process = command.spawn().expect("etcd can be started");
            let mut etcd = Etcd {
                process,
                port,
                _folder: folder,
            };
            if etcd.answers() {
                return etcd;
            }
        }
        panic!("etcd did not start in ten attempts");
    }

    /// Returns whether etcd came up; it exits when a port is taken.
    fn answers(&mut self) -> bool {
        let begun = Instant::now();
        while status(self.port, "/health") != Some(200) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "etcd does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Programs {
    fn find() -> Option<Programs> {
        let found = |name: &str| {
            let found = program::find(name, program::folders_of_path());
            if found.is_none() {
                eprintln!("skipped: no {name} on PATH");
            }
            found
        };
        let postgres = cluster::find_programs();
        if postgres.is_none() {
            eprintln!(
                "skipped: the programs of PostgreSQL are in no usual folder (OUTLAST_PG_BIN)"
            );
        }
        Some(Programs {
            patroni: found("patroni")?,
            etcd: found("etcd")?,
            postgres: postgres?,
        })
    }
}

/// Returns a port without a listener.
fn free_port() -> u16 {
    loop {
        let port = program::some_port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Returns the HTTP status of a plain request.
fn status(port: u16, path: &str) -> Option<u16> {
    let patience = Duration::from_secs(3);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(4_096).read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split_whitespace().nth(1)?.parse().ok()
}
