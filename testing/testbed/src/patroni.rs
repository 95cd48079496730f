//! PostgreSQL as people run it when it must not be away for long: nodes of Patroni, which agree through etcd on
//! who is the primary. All calls block.
//!
//! In synchronous mode Patroni makes the primary wait for a standby as soon as there is one, and lets only such a
//! standby take over. While there is none, the primary does not wait: see [`replicas`](crate::replicas).

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

/// Nodes and what they agree through, gone with the value.
pub struct Patroni {
    nodes: Vec<Node>,
    etcd: Etcd,
    programs: Programs,
    mode: Mode,
    account: Option<Account>,
}

/// One node: a Patroni and the PostgreSQL it looks after.
struct Node {
    name: String,
    folder: TempDir,
    postgres_port: u16,
    /// Where Patroni answers how it is.
    status_port: u16,
    patroni: Option<Child>,
}

struct Etcd {
    process: Child,
    port: u16,
    /// Gone after the process.
    _folder: TempDir,
}

struct Programs {
    patroni: PathBuf,
    etcd: PathBuf,
    postgres: PathBuf,
}

/// How long a node may take for anything. On a machine with other work it is tens of seconds.
const PATIENCE: Duration = Duration::from_secs(120);

impl Patroni {
    /// So many nodes, all running, the standbys ready to take over. `None`, with a word, where one of the
    /// programs is not.
    pub fn start(nodes: usize, mode: Mode) -> Option<Patroni> {
        let programs = Programs::find()?;
        let account = Account::needed();
        let etcd = Etcd::start(&programs.etcd, account);
        let nodes = (0..nodes).map(|place| Node {
            name: format!("node{place}"),
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
        for place in 0..patroni.nodes.len() {
            patroni.run(place);
            // One begins, the others copy it.
            patroni.wait_for_leader();
        }
        patroni.wait_for_standbys();
        Some(patroni)
    }

    /// The address of all nodes, which leads to the one that takes writes.
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

    /// The node that is the primary and takes writes, if there is one now.
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(Node::leads)
    }

    /// Kills the primary and its Patroni with SIGKILL, and says which node it was. The others notice when its
    /// word to etcd has run out.
    pub fn kill_leader(&mut self) -> usize {
        let leader = self.wait_for_leader();
        self.nodes[leader].kill();
        leader
    }

    /// Waits until a node is the primary and takes writes.
    pub fn wait_for_leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.pause(begun, "there is no leader");
        }
    }

    /// Runs a node that was killed, which then rejoins the others.
    pub fn restart(&mut self, place: usize) {
        self.nodes[place].clear();
        self.run(place);
    }

    /// Waits until every node is either the primary or ready to take over: one of them with all that is
    /// answered in synchronous mode, all of them following in any.
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

    /// The end of what each Patroni has logged.
    fn logs(&self) -> String {
        let end = |node: &Node| {
            let log = fs::read(node.folder.path().join("patroni.log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log[log.len().saturating_sub(3_000)..]).into_owned();
            format!("--- {}\n{log}", node.name)
        };
        self.nodes.iter().map(end).collect()
    }

    fn run(&mut self, place: usize) {
        let text = self.configuration(&self.nodes[place]);
        let node = &mut self.nodes[place];
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

    /// The times are the shortest with which a busy machine does not depose a primary that lives. A former
    /// primary that has what the new one has not is copied anew.
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
  # A node that begins anew would else wait for a checkpoint that takes its time, about a hundred seconds.
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

    /// Whether its Patroni answers yes to this question.
    fn says(&self, path: &str) -> bool {
        self.patroni.is_some() && status(self.status_port, path).is_some_and(|status| status == 200)
    }

    /// Its server, parent of all its processes, which is no child of Patroni's.
    fn server(&self) -> Option<Process> {
        let data = self.folder.path().join("data");
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let id: u32 = text.lines().next()?.trim().parse().ok()?;
        // The number may be another's by now.
        let works_there = fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == data);
        Process::find(id).filter(|_| works_there)
    }

    /// Patroni first: it would start its server again.
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

    /// JoinSets all, letting the server remove what it has outside its folder.
    fn end(&mut self) {
        let server = self.server();
        self.end_patroni();
        // It may have been started meanwhile.
        for server in server.into_iter().chain(self.server()) {
            server.signal(Signal::QUIT);
            if !server.ends_within(Duration::from_secs(10)) {
                server.kill_with_descendants();
            }
        }
    }

    /// Removes the lock file of a server whose end nobody has asked for: the next would take it for one that
    /// runs.
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

    /// Whether it came up; it ends by itself when a port is not free.
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

/// A port that nobody listens on now.
fn free_port() -> u16 {
    loop {
        let port = program::some_port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// The status of an answer to a plain request.
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
