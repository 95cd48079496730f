//! Where a run happens: a server or a folder, with a fresh database for each run.

use crate::args::Kind;
use crate::bed::Bed;
use crate::cpu;
use anyhow::{Context, Result, bail};
use outlast::{Postgres, Sqlite};
use outlast_testbed::cluster::Cluster;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// The database of the benchmark, created again for every run.
const DATABASE: &str = "outlast_bench";

/// A source of fresh stores.
pub(crate) enum Site {
    Postgres(Box<Server>),
    Sqlite(Folder),
}

/// The folder of the SQLite files, removed when the value is dropped.
pub(crate) struct Folder {
    folder: TempDir,
    made: AtomicU32,
}

/// A PostgreSQL server, private or given.
pub(crate) struct Server {
    /// Stopped when the value is dropped.
    _cluster: Option<Cluster>,
    config: Config,
    url: String,
    process: Option<u32>,
    version: String,
    settings: String,
}

impl Site {
    pub(crate) async fn new(kind: Kind, url: Option<&str>) -> Result<Site> {
        match kind {
            Kind::Postgres => Ok(Site::Postgres(Box::new(Server::new(url).await?))),
            // Beside the build: the folder for temporary files may be in memory.
            Kind::Sqlite => Ok(Site::Sqlite(Folder {
                folder: tempfile::tempdir_in(folder_on_disk()?)?,
                made: AtomicU32::new(0),
            })),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Site::Postgres(_) => Kind::Postgres,
            Site::Sqlite(_) => Kind::Sqlite,
        }
    }

    /// Returns the parent of the database's processes, if they run on this machine.
    pub(crate) fn server_process(&self) -> Option<u32> {
        match self {
            Site::Postgres(server) => server.process,
            Site::Sqlite(_) => None,
        }
    }

    /// Returns whether the database uses this machine's clock.
    pub(crate) fn has_our_clock(&self) -> bool {
        match self {
            Site::Postgres(server) => server.process.is_some(),
            Site::Sqlite(_) => true,
        }
    }

    /// Returns the name and version of the database.
    pub(crate) fn version(&self) -> String {
        match self {
            Site::Postgres(server) => format!("PostgreSQL {}", server.version),
            Site::Sqlite(_) => format!("SQLite {}", rusqlite::version()),
        }
    }

    /// Returns the durability settings of the database.
    pub(crate) fn settings(&self) -> &str {
        match self {
            Site::Postgres(server) => &server.settings,
            // As set by the store.
            Site::Sqlite(_) => "journal_mode wal, synchronous full",
        }
    }

    /// Returns an empty store.
    pub(crate) async fn fresh(&self) -> Result<Bed> {
        match self {
            Site::Postgres(server) => {
                let config = server.fresh_database().await?;
                let store = Postgres::connect(&server.url).await?;
                Ok(Bed::Postgres {
                    store,
                    config: Box::new(config),
                })
            }
            Site::Sqlite(folder) => {
                let path = folder.fresh_file()?;
                Ok(Bed::Sqlite {
                    store: Sqlite::open(&path)?,
                    path,
                })
            }
        }
    }

    /// Returns the address of an empty database, for a peer.
    pub(crate) async fn empty_database(&self) -> Result<String> {
        match self {
            Site::Postgres(server) => {
                server.fresh_database().await?;
                Ok(server.url.clone())
            }
            Site::Sqlite(_) => bail!("peers run on PostgreSQL; add --store postgres"),
        }
    }
}

impl Folder {
    /// Returns a new file name each time: a dropped store may still be closing the previous file,
    /// and removes the files beside it by name.
    fn fresh_file(&self) -> Result<PathBuf> {
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).context("an old database cannot be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(self.folder.path().join(format!("bench-{number}.db")))
    }
}

impl Server {
    async fn new(url: Option<&str>) -> Result<Server> {
        let (cluster, url) = match url {
            Some(url) => (None, url.to_owned()),
            None => {
                let mut cluster = Cluster::durable().context(
                    "PostgreSQL's programs are needed (on Debian: apt-get install postgresql), or --url for a server that runs",
                )?;
                cluster.start();
                let url = cluster.url();
                (Some(cluster), url)
            }
        };
        let config = read_url(&url)?;
        let client = connect(&config).await?;
        let process = match &cluster {
            Some(cluster) => cluster.process(),
            None => {
                let backend: i32 = ask(&client, "select pg_backend_pid()").await?;
                cpu::server_of(backend as u32)
            }
        };
        let mut ours = config.clone();
        ours.dbname(DATABASE);
        Ok(Server {
            url: url_of(&ours),
            config,
            _cluster: cluster,
            process,
            version: ask(&client, "show server_version").await?,
            settings: ask(
                &client,
                "select format('fsync %s, synchronous_commit %s',
                               current_setting('fsync'), current_setting('synchronous_commit'))",
            )
            .await?,
        })
    }

    /// Creates an empty database, after the server has flushed the writes of earlier runs.
    async fn fresh_database(&self) -> Result<Config> {
        let client = connect(&self.config).await?;
        for command in ["drop database if exists", "create database"] {
            let force = if command.starts_with("drop") {
                "with (force)"
            } else {
                ""
            };
            client
                .batch_execute(&format!("{command} {DATABASE} {force}"))
                .await
                .context("every run needs a database of its own, which the role of --url must be allowed to make")?;
        }
        checkpoint(&client).await?;
        let mut config = self.config.clone();
        config.dbname(DATABASE);
        Ok(config)
    }
}

async fn ask<T>(client: &Client, question: &str) -> Result<T>
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    Ok(client.query_one(question, &[]).await?.try_get(0)?)
}

/// Parses the URL. Its errors do not repeat it, because it may contain a password.
fn read_url(url: &str) -> Result<Config> {
    let mut config: Config = url.parse().context(
        "--url cannot be read; it looks like postgres://user:password@host:5432/database",
    )?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(std::time::Duration::from_secs(10));
    }
    Ok(config)
}

/// Returns the URL of a configuration, for programs that take one.
fn url_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]"),
        Some(Host::Tcp(host)) => encoded(host.as_bytes()),
        Some(Host::Unix(folder)) => encoded(folder.as_os_str().as_encoded_bytes()),
        None => "127.0.0.1".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("postgres");
    let password = config
        .get_password()
        .map(|password| format!(":{}", encoded(password)))
        .unwrap_or_default();
    let database = encoded(config.get_dbname().unwrap_or(user).as_bytes());
    let user = encoded(user.as_bytes());
    format!("postgres://{user}{password}@{host}:{port}/{database}")
}

/// Percent-encodes a part of a URL.
fn encoded(bytes: &[u8]) -> String {
    let sign = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(sign).collect()
}

pub(crate) async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) = config
        .connect(NoTls)
        .await
        .context("the PostgreSQL server cannot be reached")?;
    tokio::spawn(connection);
    Ok(client)
}

/// Forces a checkpoint, so that it does not happen during a run. Not every role may do that; then
/// a run may pay for the one before.
pub(crate) async fn checkpoint(client: &Client) -> Result<()> {
    match client.batch_execute("checkpoint").await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
        done => Ok(done?),
    }
}

/// Returns the folder of this program's build, which is on a disk.
fn folder_on_disk() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program
        .parent()
        .context("the program has a folder")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that parsing and printing preserves a URL.
    fn assert_survives(url: &str) {
        let config = read_url(url).expect("the URL is valid");
        let again = read_url(&url_of(&config)).expect("the printed URL is valid");
        assert_eq!(again.get_user(), config.get_user(), "{url}");
        assert_eq!(again.get_password(), config.get_password(), "{url}");
        assert_eq!(again.get_hosts(), config.get_hosts(), "{url}");
        assert_eq!(again.get_ports(), config.get_ports(), "{url}");
        assert_eq!(again.get_dbname(), config.get_dbname(), "{url}");
    }

    #[test]
    fn a_url_is_the_same_after_it_was_parsed_and_printed() {
        assert_survives("postgres://outlast@127.0.0.1:54329/outlast");
        assert_survives("postgres://a%20b:p%40ss%2Fw%3Ard%25%3F%23@host:5433/some%2Fdb");
        assert_survives("postgres://me:p%C3%A4ss@[::1]:5432/db");
        assert_survives("postgres://me@%2Fvar%2Frun%2Fpostgresql:5432/db");
        assert_survives("host=/var/run/postgresql port=5433 user=me password='a b@c' dbname=db");
    }

    #[test]
    fn the_error_for_a_malformed_url_does_not_repeat_it() {
        let error = read_url("postgres://me:secret@host:notaport/db")
            .expect_err("the port is not a number");
        let message = format!("{error:#}");
        assert!(message.contains("--url"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
}
