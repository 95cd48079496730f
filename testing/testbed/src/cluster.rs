//! A private PostgreSQL that a test configures, stops, kills and restarts. It is removed when the
//! value is dropped. All calls block.

use crate::process::{Process, wait_until};
use crate::program::{self, Account};
use crate::question;
use rustix::process::Signal;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A cluster in its own folder.
pub struct Cluster {
    folder: Folder,
    programs: PathBuf,
    account: Option<Account>,
    port: u16,
    /// The server's main process, parent of its others. It may have ended.
    server: Option<Child>,
}

/// The folder of a cluster.
enum Folder {
    /// A folder that is removed with the cluster.
    Own(TempDir),
    /// A folder of the caller.
    Given(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Folder::Own(folder) => folder.path(),
            Folder::Given(path) => path,
        }
    }
}

/// How long a server may take to accept connections, including recovery.
const START_MAX: Duration = Duration::from_secs(120);

const SMALL: &str = "fsync = off\nmax_connections = 30\nshared_buffers = 16MB";

/// How to stop a server.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Like a power failure.
    Immediately,
    /// A clean shutdown.
    Fast,
}

impl Cluster {
    /// Creates a small cluster that trusts everyone and does not wait for the disk. Returns
    /// `None`, with a message, if the server's programs are missing.
    pub fn create() -> Option<Cluster> {
        let cluster = Cluster::initialised(None, &["--auth=trust"])?;
        cluster.configure(SMALL);
        Some(cluster)
    }

    /// Creates a cluster that trusts everyone, with the server's default settings: a commit waits
    /// for the disk.
    pub fn durable() -> Option<Cluster> {
        Cluster::initialised(None, &["--auth=trust"])
    }

    /// The same in an empty folder of the caller, such as one of a
    /// [`SmallDisk`](crate::small_disk::SmallDisk), which must outlive the cluster.
    pub fn durable_in(folder: &Path) -> Option<Cluster> {
        Cluster::initialised(Some(folder), &["--auth=trust"])
    }

    /// Creates a cluster that requires this password for `outlast`.
    pub fn with_password(password: &str) -> Option<Cluster> {
        let account = Account::needed();
        let folder = program::folder(account);
        let file = folder.path().join("password");
        fs::write(&file, password).expect("the password file is written");
        program::give(&file, account);
        let file = format!("--pwfile={}", file.display());
        let cluster = Cluster::initialised(None, &["--auth=scram-sha-256", &file])?;
        cluster.configure(SMALL);
        Some(cluster)
    }

    fn initialised(folder: Option<&Path>, options: &[&str]) -> Option<Cluster> {
        let cluster = Cluster::bare(folder)?;
        let mut initdb = cluster.command("initdb");
        initdb.args(["--pgdata=data", "--username=outlast", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync"]).args(options);
        program::run(&mut initdb);
        cluster.configure(&format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{}'",
            cluster.path().display()
        ));
        Some(cluster)
    }

    /// Returns an empty folder for the copy of another cluster. Returns `None`, with a message, if
    /// the copy program is missing.
    pub(crate) fn for_copy() -> Option<Cluster> {
        let cluster = Cluster::bare(None)?;
        if !cluster.programs.join("pg_basebackup").is_file() {
            eprintln!("skipped: pg_basebackup is not where the server's programs are");
            return None;
        }
        Some(cluster)
    }

    /// Deletes its data and becomes a standby of a running cluster. It does not start.
    pub(crate) fn copy(&mut self, primary: &Cluster, name: &str) {
        self.kill();
        self.remove_shared_memory();
        let data = self.path().join("data");
        if data.exists() {
            fs::remove_dir_all(&data).expect("the old data can be removed");
        }
        let from = format!("host=127.0.0.1 port={} user=outlast", primary.port);
        let mut copy = self.command("pg_basebackup");
        copy.args(["--pgdata=data", "--checkpoint=fast", "--wal-method=stream"]);
        copy.args(["--no-sync", "--dbname", &from]);
        program::run(&mut copy);
        self.configure(&format!(
            "unix_socket_directories = '{}'\nprimary_conninfo = '{from} application_name={name}'",
            self.path().display()
        ));
        self.make_standby();
    }

    /// Reloads the configuration, and waits until new sessions use it. The server notifies its
    /// other processes before.
    pub(crate) fn reload(&self) {
        let loaded = || {
            let rows = self.ask("postgres", "select pg_conf_load_time()");
            rows.expect("the server answers").concat().concat()
        };
        let before = loaded();
        let mut reload = self.command("pg_ctl");
        program::run(reload.args(["reload", "--pgdata=data", "--silent"]));
        wait_until("the configuration is read", || loaded() != before);
    }

    /// Returns an empty folder for a cluster.
    fn bare(folder: Option<&Path>) -> Option<Cluster> {
        let account = Account::needed();
        let Some(programs) = find_programs() else {
            eprintln!(
                "skipped: initdb, postgres and pg_ctl are in no usual folder (OUTLAST_PG_BIN)"
            );
            return None;
        };
        let folder = match folder {
            None => Folder::Own(program::folder(account)),
            Some(path) => {
                program::give(path, account);
                Folder::Given(path.to_owned())
            }
        };
        Some(Cluster {
            folder,
            programs,
            account,
            port: 0,
            server: None,
        })
    }

    /// Adds lines to the configuration. They apply at the next start.
    pub fn configure(&self, lines: &str) {
        let file = self.path().join("data/postgresql.conf");
        let text = fs::read_to_string(&file).expect("the configuration is read");
        fs::write(&file, text + "\n" + lines).expect("the configuration is written");
    }

    /// Starts the server, on its previous port if it had one. Waits until it accepts connections:
    /// after a crash, until it has recovered.
    pub fn start(&mut self) {
        let had = self.port;
        for _ in 0..10 {
            if self.port == 0 {
                self.port = program::some_port();
            }
            if self.try_start() {
                return;
            }
            // Clients rely on its address.
            self.port = had;
        }
        panic!("no free port in ten attempts");
    }

    /// Tries to start it; returns false when the port is taken. It is our child: once we have
    /// reaped it, nothing of a killed server blocks the next start, wherever this machine
    /// reparents orphans.
    fn try_start(&mut self) -> bool {
        self.reap();
        let path = self.path().join("server.log");
        let mut log = fs::OpenOptions::new();
        let log = log.append(true).create(true).open(&path);
        let log = log.expect("the log can be written");
        let length_before = log.metadata().map_or(0, |log| log.len() as usize);
        let mut start = self.command("postgres");
        start.args(["-D", "data", "-p", &self.port.to_string()]);
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Ctrl-C in a terminal must not reach the server.
        start.process_group(0);
        self.server = Some(start.spawn().expect("postgres can be started"));
        let begun = Instant::now();
        while !self.is_ready() {
            let ended = self.process().is_none();
            let log = fs::read(&path).unwrap_or_default();
            let output = String::from_utf8_lossy(log.get(length_before..).unwrap_or_default());
            if ended && output.contains("Address already in use") {
                return false;
            }
            assert!(!ended && begun.elapsed() < START_MAX, "{output}");
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Returns whether the lock file says that the server accepts connections.
    fn is_ready(&self) -> bool {
        let lock_file = self.path().join("data/postmaster.pid");
        let text = fs::read_to_string(lock_file).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let named = lines.next().and_then(|id| id.parse().ok());
        named.is_some() && named == self.process() && lines.nth(6) == Some("ready")
    }

    /// Reaps a server that has ended.
    fn reap(&mut self) {
        if let Some(mut server) = self.server.take() {
            assert!(
                matches!(server.try_wait(), Ok(Some(_))),
                "the server still runs"
            );
        }
    }

    /// Waits until the server accepts connections. It restarts by itself when one of its processes
    /// was killed.
    pub fn wait_ready(&self) {
        let begun = Instant::now();
        while !question::accepts(self.port) {
            assert!(
                begun.elapsed() < START_MAX,
                "the server accepts no connections:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the server and all its processes with SIGKILL. Their files stay: the next start finds
    /// the lock file and the shared memory of a crash, and recovers.
    pub fn kill(&mut self) {
        if let Some(server) = self.living() {
            server.kill_with_descendants();
        }
        self.reap();
    }

    /// Returns the backends.
    pub fn backends(&self) -> Vec<u32> {
        let children = self.living().map_or_else(Vec::new, |it| it.children());
        children
            .iter()
            .filter(|child| serves_a_client(&child.title()))
            .map(Process::id)
            .collect()
    }

    /// Kills a backend with SIGKILL: the server ends all others, and recovers. Returns whether the
    /// backend still ran.
    pub fn kill_backend(&self, id: u32) -> bool {
        let children = self.living().map_or_else(Vec::new, |it| it.children());
        let Some(backend) = children.into_iter().find(|child| child.id() == id) else {
            return false;
        };
        backend.signal(Signal::KILL);
        backend.wait_for_end();
        true
    }

    /// Stops the server.
    pub fn stop(&self, how: Stop) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "--pgdata=data", "--silent"]);
        stop.arg(match how {
            Stop::Immediately => "--mode=immediate",
            Stop::Fast => "--mode=fast",
        });
        let server = self.living();
        program::run(&mut stop);
        // The server removes its lock file a moment before it ends.
        if let Some(server) = server {
            server.wait_for_end();
        }
    }

    /// Runs a query on a database of the server; returns the rows as text.
    pub fn ask(&self, database: &str, sql: &str) -> io::Result<Vec<Vec<String>>> {
        question::ask(self.port, database, sql)
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        let log = fs::read(self.path().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Makes a cleanly stopped server a standby that follows no primary.
    pub fn make_standby(&self) {
        self.write("data/standby.signal", "");
    }

    /// Promotes a standby.
    pub fn promote(&self) {
        let mut promote = self.command("pg_ctl");
        program::run(promote.args(["promote", "--pgdata=data", "--silent"]));
    }

    /// Writes a file that only the server may read.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.path().join(name);
        fs::write(&file, content).expect("the file is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
            .expect("its permissions are set");
        program::give(&file, self.account);
        file
    }

    /// Returns its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the server's main process; `None` while it is stopped.
    pub fn process(&self) -> Option<u32> {
        self.living().map(|server| server.id())
    }

    fn living(&self) -> Option<Process> {
        Process::find(self.server.as_ref()?.id())
    }

    /// Returns its port; 0 before its first start.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of its database `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://outlast@127.0.0.1:{}/postgres", self.port)
    }

    fn command(&self, name: &str) -> std::process::Command {
        program::command(&self.programs.join(name), self.path(), self.account)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        match self.living() {
            None => self.remove_shared_memory(),
            Some(server) => {
                // A clean shutdown removes what the server has outside its folder.
                server.signal(Signal::QUIT);
                if !server.ends_within(Duration::from_secs(10)) {
                    server.kill_with_descendants();
                    self.remove_shared_memory();
                }
            }
        }
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

impl Cluster {
    /// Removes the shared memory of a killed server that will not start again.
    fn remove_shared_memory(&self) {
        let lock_file = self.path().join("data/postmaster.pid");
        let text = fs::read_to_string(lock_file).unwrap_or_default();
        let named = text.lines().nth(6).unwrap_or_default();
        if let Some(segment) = named.split_whitespace().nth(1) {
            let mut remove = program::command("ipcrm".as_ref(), Path::new("/"), self.account);
            let _ = remove.args(["-m", segment]).output();
        }
    }
}

/// Returns whether the title of a process is that of a backend: user, database, client address.
fn serves_a_client(title: &str) -> bool {
    let Some(title) = title.strip_prefix("postgres: ") else {
        return false;
    };
    let mut words = title.split_whitespace().peekable();
    // The cluster's name, if it has one.
    let _ = words.next_if(|word| word.ends_with(':'));
    let (user, from) = (words.next(), words.nth(1));
    user != Some("walsender") && from.is_some_and(|from| from == "[local]" || from.ends_with(')'))
}

/// Returns the folder of the server's programs.
pub(crate) fn find_programs() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("OUTLAST_PG_BIN") {
        return Some(PathBuf::from(folder));
    }
    let mut folders = program::folders_of_path();
    let mut packaged: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    packaged.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    folders.extend(packaged.into_iter().map(|(_, folder)| folder));
    let initdb = program::find("initdb", folders)?;
    // The folder of a symbolic link to one program may lack the others.
    let initdb = initdb.canonicalize().unwrap_or(initdb);
    initdb.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_that_serve_a_client_are_backends() {
        for title in [
            "postgres: outlast postgres 127.0.0.1(40000) idle",
            "postgres: outlast postgres [local] SELECT",
            "postgres: cluster: outlast postgres 127.0.0.1(40000) idle in transaction",
        ] {
            assert!(serves_a_client(title), "{title}");
        }
        for title in [
            "postgres: checkpointer ",
            "postgres: walsender outlast 127.0.0.1(40000) streaming 0/3000060",
            "postgres: autovacuum worker postgres",
            "postgres: parallel worker for PID 17",
            "postgres: logical replication launcher",
            "/usr/bin/postgres -D data -p 20000",
        ] {
            assert!(!serves_a_client(title), "{title}");
        }
    }
}
