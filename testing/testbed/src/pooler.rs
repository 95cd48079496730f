//! PgBouncer in transaction mode in front of a server: each transaction gets any of a few server
//! connections.

use crate::program::{self, Account};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A pooler, stopped when the value is dropped.
pub struct Pooler {
    process: Child,
    port: u16,
    folder: TempDir,
}

/// The database behind a pooler.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The server's host.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The database.
    pub database: String,
    /// The user name of the pooler at the server.
    pub user: String,
    /// The password of that user, if the server requires one.
    pub password: Option<String>,
}

impl Behind {
    /// Returns the database `postgres` of a [`Cluster`](crate::cluster::Cluster) that trusts
    /// everyone, on this port.
    pub fn cluster(port: u16) -> Behind {
        Behind {
            host: "127.0.0.1".to_owned(),
            port,
            database: "postgres".to_owned(),
            user: "outlast".to_owned(),
            password: None,
        }
    }
}

impl Pooler {
    /// Starts a pooler with this many server connections, used in turn. Returns `None`, with a
    /// message, if PgBouncer is missing.
    pub fn start(behind: &Behind, server_connections: usize) -> Option<Pooler> {
        let program = find_pgbouncer()?;
        for _ in 0..10 {
            let (account, port) = (Account::needed(), program::some_port());
            let folder = program::folder(account);
            let configuration = folder.path().join("pgbouncer.ini");
            let text = configuration_of(behind, port, server_connections);
            std::fs::write(&configuration, text).expect("the configuration is written");
            program::give(&configuration, account);
            let mut command = program::command(&program, folder.path(), account);
            command.arg("pgbouncer.ini");
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut pooler = Pooler {
                process: command.spawn().expect("pgbouncer can be started"),
                port,
                folder,
            };
            if pooler.listens() {
                return Some(pooler);
            }
        }
        panic!("pgbouncer did not start in ten attempts");
    }

    /// Returns the address of the database through the pooler.
    pub fn url(&self) -> String {
        format!("postgres://outlast@127.0.0.1:{}/outlast", self.port)
    }

    /// Returns whether it came up; it exits when the port is taken.
    fn listens(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            if log.contains("process up") {
                return true;
            }
            if self
                .process
                .try_wait()
                .expect("it is our process")
                .is_some()
            {
                assert!(log.contains("in use"), "pgbouncer ended: {log}");
                return false;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration_of(behind: &Behind, port: u16, server_connections: usize) -> String {
    let Behind {
        host,
        database,
        user,
        ..
    } = behind;
    let password = behind.password.as_ref();
    let password = password.map_or_else(String::new, |password| format!("password={password}"));
    format!(
        "[databases]\noutlast = host={host} port={} dbname={database} user={user} {password}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nlogfile = log\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = {server_connections}\n\
         min_pool_size = {server_connections}\nserver_login_retry = 1\nserver_round_robin = 1\nmax_client_conn = 200\n",
        behind.port,
    )
}

fn find_pgbouncer() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("OUTLAST_TEST_PGBOUNCER") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "OUTLAST_TEST_PGBOUNCER names no program");
        return Some(path);
    }
    let mut folders = program::folders_of_path();
    folders.push("/usr/sbin".into());
    let found = program::find("pgbouncer", folders);
    if found.is_none() {
        eprintln!("skipped: no pgbouncer on PATH or in /usr/sbin (OUTLAST_TEST_PGBOUNCER)");
    }
    found
}
