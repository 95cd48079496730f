//! Where a run happens: a server or a folder, and a fresh database for each run.

use crate::args::Kind;
use crate::cpu;
use anyhow::{Context, Result, bail};
use outlast::{Client, Engine, EngineBuilder, Postgres, Sqlite};
use outlast_testbed::cluster::Cluster;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

/// A database of our own, made anew for every run.
const DATABASE: &str = "outlast_bench";

/// A place that gives fresh stores.
pub(crate) enum Site {
    Postgres(Server),
    Sqlite(TempDir),
}

/// A PostgreSQL server, ours or somebody's.
pub(crate) struct Server {
    /// Ends with the value.
    _cluster: Option<Cluster>,
    config: Config,
    url: String,
    process: Option<u32>,
    version: String,
}

/// A fresh store.
pub(crate) enum Bed {
    Postgres {
        store: Postgres,
        config: Box<Config>,
    },
    Sqlite {
        store: Sqlite,
        path: PathBuf,
    },
}

impl Site {
    pub(crate) async fn new(kind: Kind, url: Option<&str>) -> Result<Site> {
        match kind {
            Kind::Postgres => Ok(Site::Postgres(Server::new(url).await?)),
            // Beside the build, not in the folder for temporary files, which may be in memory.
            Kind::Sqlite => Ok(Site::Sqlite(tempfile::tempdir_in(folder_on_disk()?)?)),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Site::Postgres(_) => Kind::Postgres,
            Site::Sqlite(_) => Kind::Sqlite,
        }
    }

    /// The parent of the database's processes, where it has any and they are here.
    pub(crate) fn server_process(&self) -> Option<u32> {
        match self {
            Site::Postgres(server) => server.process,
            Site::Sqlite(_) => None,
        }
    }

    /// The database and its version.
    pub(crate) fn version(&self) -> String {
        match self {
            Site::Postgres(server) => format!("PostgreSQL {}", server.version),
            Site::Sqlite(_) => format!("SQLite {}", rusqlite::version()),
        }
    }

    /// A store with nothing in it.
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
                let path = folder.path().join("bench.db");
                for suffix in ["", "-wal", "-shm"] {
                    let file = format!("{}{suffix}", path.display());
                    if Path::new(&file).exists() {
                        std::fs::remove_file(&file)?;
                    }
                }
                Ok(Bed::Sqlite {
                    store: Sqlite::open(&path)?,
                    path,
                })
            }
        }
    }

    /// The address of an empty database, for a peer.
    pub(crate) async fn empty_database(&self) -> Result<String> {
        match self {
            Site::Postgres(server) => {
                server.fresh_database().await?;
                Ok(server.url.clone())
            }
            Site::Sqlite(_) => bail!("peers run on PostgreSQL; say --store postgres"),
        }
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
        let config: Config = url.parse().context("--url cannot be read")?;
        let client = connect(&config).await?;
        let version = client.query_one("show server_version", &[]).await?.get(0);
        let backend: i32 = client
            .query_one("select pg_backend_pid()", &[])
            .await?
            .get(0);
        let process = match &cluster {
            Some(cluster) => cluster.process(),
            None => cpu::parent_of(backend as u32),
        };
        let mut config = config;
        let administrated = config.clone();
        config.dbname(DATABASE);
        Ok(Server {
            url: url_of(&config),
            config: administrated,
            _cluster: cluster,
            process,
            version,
        })
    }

    /// An empty database, with nothing left for the server to write of the runs before.
    async fn fresh_database(&self) -> Result<Config> {
        let client = connect(&self.config).await?;
        client
            .batch_execute(&format!("drop database if exists {DATABASE} with (force)"))
            .await?;
        client
            .batch_execute(&format!("create database {DATABASE}"))
            .await?;
        client.batch_execute("checkpoint").await?;
        let mut config = self.config.clone();
        config.dbname(DATABASE);
        Ok(config)
    }
}

/// The address of a configuration, for programs that take one.
fn url_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        Some(tokio_postgres::config::Host::Unix(_)) | None => "127.0.0.1".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("postgres");
    let password = config
        .get_password()
        .map(|password| format!(":{}", String::from_utf8_lossy(password)))
        .unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("postgres://{user}{password}@{host}:{port}/{database}")
}

pub(crate) async fn connect(config: &Config) -> Result<tokio_postgres::Client> {
    let (client, connection) = config
        .connect(NoTls)
        .await
        .context("the PostgreSQL server does not answer")?;
    tokio::spawn(connection);
    Ok(client)
}

impl Bed {
    pub(crate) fn builder(&self) -> EngineBuilder {
        match self {
            Bed::Postgres { store, .. } => Engine::builder(store.clone()),
            Bed::Sqlite { store, .. } => Engine::builder(store.clone()),
        }
    }

    pub(crate) fn client(&self) -> Client {
        match self {
            Bed::Postgres { store, .. } => Client::new(store.clone()),
            Bed::Sqlite { store, .. } => Client::new(store.clone()),
        }
    }

    /// A way to look at the tables past the store.
    pub(crate) async fn eye(&self) -> Result<Eye> {
        Ok(match self {
            Bed::Postgres { config, .. } => Eye::Postgres(connect(config).await?),
            Bed::Sqlite { path, .. } => Eye::Sqlite(rusqlite::Connection::open(path)?),
        })
    }

    /// Statistics as a database has them that has been up for a while.
    pub(crate) async fn settle(&self) -> Result<()> {
        if let Bed::Postgres { config, .. } = self {
            let client = connect(config).await?;
            client.batch_execute("analyze; checkpoint").await?;
        }
        Ok(())
    }
}

/// Looks at the tables past the store.
pub(crate) enum Eye {
    Postgres(tokio_postgres::Client),
    Sqlite(rusqlite::Connection),
}

impl Eye {
    /// Whether nothing is left to run.
    pub(crate) async fn sees_nothing_to_run(&self) -> Result<bool> {
        let left: bool = match self {
            Eye::Postgres(client) => client
                .query_one(
                    "select exists (select from outlast.instances where status = 'runnable')
                         or exists (select from outlast.instances where status = 'executing')",
                    &[],
                )
                .await?
                .get(0),
            Eye::Sqlite(connection) => connection.query_row(
                "select exists (select 1 from instances where status = 'runnable')
                     or exists (select 1 from instances where status = 'executing')",
                [],
                |row| row.get(0),
            )?,
        };
        Ok(!left)
    }
}

/// Where this program was built: on a disk, and ours.
fn folder_on_disk() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program
        .parent()
        .context("the program has a folder")?
        .to_owned())
}
