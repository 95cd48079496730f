//! A private PostgreSQL, to be configured, stopped and started again. Gone with the value.

use crate::program::{self, Account};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A cluster in a folder of its own.
pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    account: Option<Account>,
    port: u16,
}

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
        let cluster = Cluster::initialised(&["--auth=trust"])?;
        cluster.configure(SMALL);
        Some(cluster)
    }

    /// A cluster that trusts everyone, with the server's own settings: a commit waits for the disk.
    pub fn durable() -> Option<Cluster> {
        Cluster::initialised(&["--auth=trust"])
    }

    /// A cluster that asks `outlast` for this password.
    pub fn with_password(password: &str) -> Option<Cluster> {
        let account = Account::needed();
        let folder = program::folder(account);
        let file = folder.path().join("password");
        fs::write(&file, password).expect("the password file is written");
        program::give(&file, account);
        let file = format!("--pwfile={}", file.display());
        let cluster = Cluster::initialised(&["--auth=scram-sha-256", &file])?;
        cluster.configure(SMALL);
        Some(cluster)
    }

    fn initialised(options: &[&str]) -> Option<Cluster> {
        let account = Account::needed();
        let Some(programs) = find_programs() else {
            eprintln!(
                "skipped: initdb, postgres and pg_ctl are in no usual folder (OUTLAST_PG_BIN)"
            );
            return None;
        };
        let cluster = Cluster {
            folder: program::folder(account),
            programs,
            account,
            port: 0,
        };
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

    /// Adds lines to the configuration, which the next start reads.
    pub fn configure(&self, lines: &str) {
        let file = self.path().join("data/postgresql.conf");
        let text = fs::read_to_string(&file).expect("the configuration is read");
        fs::write(&file, text + "\n" + lines).expect("the configuration is written");
    }

    /// Starts the server, on the port it had before if it had one.
    pub fn start(&mut self) {
        for _ in 0..10 {
            if self.port == 0 {
                self.port = program::some_port();
            }
            let mut start = self.command("pg_ctl");
            start.args(["start", "--pgdata=data", "--log=server.log", "--silent"]);
            start.arg(format!("--options=-p {}", self.port));
            if start.output().expect("pg_ctl runs").status.success() {
                return;
            }
            let log = fs::read_to_string(self.path().join("server.log")).unwrap_or_default();
            assert!(log.contains("Address already in use"), "{log}");
            self.port = 0;
        }
        panic!("no free port in ten attempts");
    }

    /// Stops the server.
    pub fn stop(&self, how: Stop) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "--pgdata=data", "--silent"]);
        stop.arg(match how {
            Stop::Immediately => "--mode=immediate",
            Stop::Fast => "--mode=fast",
        });
        program::run(&mut stop);
    }

    /// Makes a server that was stopped in order a standby that follows nobody.
    pub fn make_standby(&self) {
        self.write("data/standby.signal", "");
    }

    /// Ends a standby's following.
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

    /// Makes a folder of the server's.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let folder = self.path().join(name);
        fs::create_dir(&folder).expect("the folder is made");
        program::give(&folder, self.account);
        folder
    }

    /// Gives a path to the account that runs the server.
    pub fn give(&self, path: &Path) {
        program::give(path, self.account);
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The process of the server itself, parent of all its others; `None` while it is stopped.
    pub fn process(&self) -> Option<u32> {
        let text = fs::read_to_string(self.path().join("data/postmaster.pid")).ok()?;
        text.lines().next()?.trim().parse().ok()
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
        if self.path().join("data/postmaster.pid").exists() {
            let mut stop = self.command("pg_ctl");
            stop.args(["stop", "--pgdata=data", "--silent", "--mode=immediate"]);
            let _ = stop.output();
        }
    }
}

fn find_programs() -> Option<PathBuf> {
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
    program::find("initdb", folders).map(|path| path.parent().expect("it has one").to_owned())
}
