//! PgBouncer in front of the test server: each transaction gets any of a few server connections.

use outlast_testbed::program::{self, Account};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::config::Host;

pub(crate) struct Pooler {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Pooler {
    /// A pooler with so many server connections, given out in turn. `None`, with a word, where there is
    /// no PgBouncer and nobody has named one.
    pub(crate) fn start(server_connections: usize) -> Option<Pooler> {
        let program = find_pgbouncer()?;
        for _ in 0..10 {
            let (account, port) = (Account::needed(), program::some_port());
            let folder = program::folder(account);
            let configuration = folder.path().join("pgbouncer.ini");
            std::fs::write(&configuration, configuration_of(port, server_connections)).unwrap();
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

    /// The address of the test server's database, through the pooler.
    pub(crate) fn url(&self) -> String {
        format!("postgres://outlast@127.0.0.1:{}/outlast", self.port)
    }

    /// Whether it came up; it ends by itself when the port is not free.
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

fn configuration_of(port: u16, server_connections: usize) -> String {
    let config: tokio_postgres::Config = super::url().parse().unwrap();
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        panic!("OUTLAST_TEST_POSTGRES_URL names no host");
    };
    let password = config.get_password().map_or_else(String::new, |password| {
        format!("password={}", String::from_utf8_lossy(password))
    });
    format!(
        "[databases]\noutlast = host={host} port={} dbname={} user={} {password}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nlogfile = log\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = {server_connections}\n\
         min_pool_size = {server_connections}\nserver_round_robin = 1\nmax_client_conn = 200\n",
        config.get_ports().first().unwrap_or(&5432),
        config.get_dbname().unwrap(),
        config.get_user().unwrap(),
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
