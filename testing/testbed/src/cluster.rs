//! A private PostgreSQL, to be configured, stopped, killed and started again. Gone with the value. All calls
//! block.

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

/// A cluster in a folder of its own.
pub struct Cluster {
    folder: Folder,
    programs: PathBuf,
    account: Option<Account>,
    port: u16,
    /// The process of the server, parent of all its others. It may have ended.
    server: Option<Child>,
}

/// Where a cluster is.
enum Folder {
    /// In a folder that goes with it.
    Own(TempDir),
    /// In a folder of somebody else's.
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

/// How long a server may take until it takes connections, recovery included.
const START_MAX: Duration = Duration::from_secs(120);

const SMALL: &str = "fsync = off\nmax_connections = 30\nshared_buffers = 16MB";

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// As if the power went.
    Immediately,
    /// In order.
    Fast,
}

impl Cluster {
    /// A small cluster that trusts everyone and does not wait for the disk; `None`, with a word, where the
    /// server's programs are not.
    pub fn create() -> Option<Cluster> {
        let cluster = Cluster::initialised(None, &["--auth=trust"])?;
        cluster.configure(SMALL);
        Some(cluster)
    }

    /// A cluster that trusts everyone, with the server's own settings: a commit waits for the disk.
    pub fn durable() -> Option<Cluster> {
        Cluster::initialised(None, &["--auth=trust"])
    }

    /// The same in an empty folder that stays when the cluster goes, such as one of a
    /// [`SmallDisk`](crate::small_disk::SmallDisk), which must outlive it.
    pub fn durable_in(folder: &Path) -> Option<Cluster> {
        Cluster::initialised(Some(folder), &["--auth=trust"])
    }

    /// A cluster that asks `outlast` for this password.
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

    /// A place for a cluster, to be filled with a copy of another. `None`, with a word, where the program that
    /// copies is not.
    pub(crate) fn place() -> Option<Cluster> {
        let cluster = Cluster::bare(None)?;
        if !cluster.programs.join("pg_basebackup").is_file() {
            eprintln!("skipped: pg_basebackup is not where the server's programs are");
            return None;
        }
        Some(cluster)
    }

    /// Forgets all it holds and becomes a standby of another, which runs. It is not started.
    pub(crate) fn copy(&mut self, primary: &Cluster, name: &str) {
        self.kill();
        self.remove_shared_memory();
        let data = self.path().join("data");
        if data.exists() {
            fs::remove_dir_all(&data).expect("what it held can be removed");
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

    /// Makes the server read its configuration, and waits until new sessions have it. The server's other
    /// processes were told by then.
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

    /// A place for a cluster, without one.
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

    /// Adds lines to the configuration, which the next start reads.
    pub fn configure(&self, lines: &str) {
        let file = self.path().join("data/postgresql.conf");
        let text = fs::read_to_string(&file).expect("the configuration is read");
        fs::write(&file, text + "\n" + lines).expect("the configuration is written");
    }

    /// Starts the server, on the port it had before if it had one, and waits until it takes connections:
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
            // Whoever knows its address relies on it.
            self.port = had;
        }
        panic!("no free port in ten attempts");
    }

    /// Whether it started; not when another has the port. As a child of ours: once its end was asked for,
    /// nothing of a killed server stands in the way of the next, wherever orphans go on this machine.
    fn try_start(&mut self) -> bool {
        self.reap();
        let path = self.path().join("server.log");
        let mut log = fs::OpenOptions::new();
        let log = log.append(true).create(true).open(&path);
        let log = log.expect("the log can be written");
        let said_before = log.metadata().map_or(0, |log| log.len() as usize);
        let mut start = self.command("postgres");
        start.args(["-D", "data", "-p", &self.port.to_string()]);
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // What interrupts the program from a terminal is not for the server.
        start.process_group(0);
        self.server = Some(start.spawn().expect("postgres can be started"));
        let begun = Instant::now();
        while !self.is_ready() {
            let ended = self.process().is_none();
            let log = fs::read(&path).unwrap_or_default();
            let said = String::from_utf8_lossy(log.get(said_before..).unwrap_or_default());
            if ended && said.contains("Address already in use") {
                return false;
            }
            assert!(!ended && begun.elapsed() < START_MAX, "{said}");
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Whether the server says in its lock file that it takes connections.
    fn is_ready(&self) -> bool {
        let lock_file = self.path().join("data/postmaster.pid");
        let text = fs::read_to_string(lock_file).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let named = lines.next().and_then(|id| id.parse().ok());
        named.is_some() && named == self.process() && lines.nth(6) == Some("ready")
    }

    /// Asks for the end of a server that has ended.
    fn reap(&mut self) {
        if let Some(mut server) = self.server.take() {
            assert!(
                matches!(server.try_wait(), Ok(Some(_))),
                "the server still runs"
            );
        }
    }

    /// Waits until the server takes connections, as it does again by itself when one of its processes was
    /// killed.
    pub fn wait_ready(&self) {
        let begun = Instant::now();
        while !question::accepts(self.port) {
            assert!(
                begun.elapsed() < START_MAX,
                "the server takes no connections:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the server and all its processes with SIGKILL at once. What they leave lies where it lay: the
    /// next start finds the lock file and the shared memory of a crash, and recovers.
    pub fn kill(&mut self) {
        if let Some(server) = self.living() {
            server.kill_with_descendants();
        }
        self.reap();
    }

    /// The processes that serve clients.
    pub fn backends(&self) -> Vec<u32> {
        let children = self.living().map_or_else(Vec::new, |it| it.children());
        children
            .iter()
            .filter(|child| serves_a_client(&child.title()))
            .map(Process::id)
            .collect()
    }

    /// Kills one of the server's processes with SIGKILL: the server ends all others, and recovers. Whether it
    /// was still there.
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
        // It gives its lock file up a moment before it ends.
        if let Some(server) = server {
            server.wait_for_end();
        }
    }

    /// Asks a database of the server something; the rows as text.
    pub fn ask(&self, database: &str, sql: &str) -> io::Result<Vec<Vec<String>>> {
        question::ask(self.port, database, sql)
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        let log = fs::read(self.path().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Makes a server that was stopped in order a standby that follows nobody.
    pub fn make_standby(&self) {
        self.write("data/standby.signal", "");
    }

    /// JoinSets a standby's following.
    pub fn promote(&self) {
        let mut promote = self.command("pg_ctl");
        program::run(promote.args(["promote", "--pgdata=data", "--silent"]));
    }

    /// Writes a file that the server may read and nobody else.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let file = self.path().join(name);
        fs::write(&file, content).expect("the file is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is kept private");
        program::give(&file, self.account);
        file
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The process of the server itself, parent of all its others; `None` while it is stopped.
    pub fn process(&self) -> Option<u32> {
        self.living().map(|server| server.id())
    }

    fn living(&self) -> Option<Process> {
        Process::find(self.server.as_ref()?.id())
    }

    /// The port it listens on; 0 before its first start.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of its database `postgres`.
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
                // Asked to end, it removes what it has outside its folder.
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
    /// Removes the memory that a killed server has left, which nobody starts again.
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

/// Whether the title of a server's process is one of those that serve a client: who, which database, from where.
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

/// The folder of the server's programs.
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
    // A link to one of them says nothing of the others.
    let initdb = initdb.canonicalize().unwrap_or(initdb);
    initdb.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_that_serve_clients_are_taken_for_such() {
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
