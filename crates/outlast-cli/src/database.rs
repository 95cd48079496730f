//! The database options, and opening a database.

use crate::args::EVERYWHERE;
use crate::failure::Failure;
use crate::output::note;
use clap::Args;
use outlast::postgres::{Migrations, Options};
use outlast::store::{Inspect, Store};
use outlast::{Client, Postgres, Sqlite};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long closing waits for the last notifications. Engines that miss one find the change by
/// polling.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The database options.
#[derive(Args, Clone, Debug)]
pub(crate) struct DatabaseArgs {
    /// The database: postgres://user@host/name, the path of an SQLite file, or @FILE for a file
    /// that contains one of these
    #[arg(
        short,
        long,
        global = true,
        help_heading = EVERYWHERE,
        value_name = "URL|PATH|@FILE",
        env = "OUTLAST_DATABASE",
        hide_env_values = true
    )]
    pub(crate) database: Option<String>,

    /// The schema in a PostgreSQL database
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        value_name = "NAME",
        env = "OUTLAST_SCHEMA",
        default_value = "outlast"
    )]
    pub(crate) schema: String,
}

/// How a command uses the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only reads, so a read-only database is enough.
    Read,
    /// Writes.
    Write,
}

/// The location of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Postgres { url: String, schema: String },
    Sqlite(PathBuf),
}

impl DatabaseArgs {
    /// Returns the location of the named database.
    pub(crate) fn place(&self) -> Result<Location, Failure> {
        let Some(database) = self.database.as_deref().filter(|it| !it.is_empty()) else {
            let words = "no database given; use --database postgres://user@host/name or --database FILE, or set OUTLAST_DATABASE";
            return Err(Failure::Usage(words.to_owned()));
        };
        let place = Location::of(&named_in_file(database)?, &self.schema)?;
        place.warn_of_password(std::env::args_os());
        Ok(place)
    }

    /// Opens the database, which must have this version's schema.
    pub(crate) async fn open(&self, access: Access) -> Result<Database, Failure> {
        self.place()?.open(access).await
    }
}

impl Location {
    pub(crate) fn of(database: &str, schema: &str) -> Result<Location, Failure> {
        match database.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Location::Postgres {
                url: database.to_owned(),
                schema: schema.to_owned(),
            }),
            Some((scheme, _)) => Err(Failure::Usage(format!(
                "unsupported database {scheme}://; use postgres://user@host/name or the path of an SQLite file"
            ))),
            None => {
                let path = database.strip_prefix("sqlite:").unwrap_or(database);
                Ok(Location::Sqlite(path.into()))
            }
        }
    }

    /// Every user of the machine can read the arguments of a process.
    fn warn_of_password(&self, mut arguments: impl Iterator<Item = OsString>) {
        let Location::Postgres { url, .. } = self else {
            return;
        };
        let has_password = Postgres::options(url).is_ok_and(|options| options.has_password());
        let shows = |argument: OsString| argument.to_string_lossy().contains(url.as_str());
        if has_password && arguments.any(shows) {
            note(
                "warning: every user of this machine can read a password on the command line; use OUTLAST_DATABASE, --database @FILE, PGPASSWORD or ~/.pgpass",
            );
        }
    }

    /// Opens an existing database. It creates nothing and does not change the schema.
    async fn open(&self, access: Access) -> Result<Database, Failure> {
        match self {
            Location::Postgres { url, schema } => {
                let options = postgres(url)?.schema(schema).max_connections(4);
                let options = match access {
                    Access::Read => options.read_only(),
                    Access::Write => options,
                };
                let store = options.migrations(Migrations::Check).connect().await;
                Ok(Database::of(store.map_err(with_migrate)?))
            }
            Location::Sqlite(path) => {
                check_file(path)?;
                let options = match access {
                    Access::Read => Sqlite::options().read_only(),
                    Access::Write => Sqlite::options(),
                };
                Ok(Database::of(options.open(path)?))
            }
        }
    }
}

/// Returns the connection settings of a server. The password comes from the places where libpq
/// looks for it.
pub(crate) fn postgres(url: &str) -> Result<Options, Failure> {
    Ok(Postgres::options(url)?.find_password())
}

/// Resolves `@FILE` to the first line of the file. Any other value is returned unchanged.
fn named_in_file(database: &str) -> Result<Cow<'_, str>, Failure> {
    let Some(file) = database.strip_prefix('@') else {
        return Ok(database.into());
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the database from file {file}: {error}"
        ))
    })?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned().into()),
        Some(_) | None => Err(Failure::Usage(format!(
            "the first line of {file} is empty; it must name the database"
        ))),
    }
}

/// Adds the remedy for an older schema: `outlast migrate`.
fn with_migrate(error: outlast::store::Error) -> Failure {
    let failure = Failure::from(error);
    if let Failure::Database(words) = &failure {
        return Failure::Database(words.replace("run the migrations", "run `outlast migrate`"));
    }
    failure
}

/// A misspelt path must not create a new database.
fn check_file(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if !path.exists() {
        return Err(Failure::Database(format!(
            "{shown} does not exist; create it with `outlast migrate --database {shown}`"
        )));
    }
    let (found, needed) = (Sqlite::schema_version(path)?, needed_by_sqlite());
    if found < needed {
        return Err(Failure::Database(format!(
            "{shown} has schema version {found}, but this build needs {needed}; run `outlast migrate --database {shown}`"
        )));
    }
    Ok(())
}

/// Returns the schema version that this build needs.
pub(crate) fn needed_by_sqlite() -> i64 {
    Sqlite::migrations()
        .last()
        .map_or(0, |migration| migration.version)
}

/// An open database.
pub(crate) struct Database {
    /// Everything that a program can do.
    pub(crate) client: Client,
    /// The calls of engines: collecting.
    pub(crate) store: Arc<dyn Store>,
}

impl Database {
    pub(crate) fn of(store: impl Store + Inspect + Clone) -> Database {
        Database {
            client: Client::new(store.clone()),
            store: Arc::new(store),
        }
    }

    /// Closes the database after the pending notifications are sent. Otherwise a running step
    /// would learn of a cancel late.
    pub(crate) async fn close(self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.client.flush_hints()).await;
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_postgresql_and_paths_name_sqlite_files() {
        let postgres = |url: &str| Location::Postgres {
            url: url.to_owned(),
            schema: "outlast".to_owned(),
        };
        for (database, expected) in [
            (
                "postgres://me@host/shop",
                postgres("postgres://me@host/shop"),
            ),
            (
                "postgresql://me@host/shop",
                postgres("postgresql://me@host/shop"),
            ),
            ("shop.db", Location::Sqlite("shop.db".into())),
            ("sqlite:shop.db", Location::Sqlite("shop.db".into())),
        ] {
            assert_eq!(Location::of(database, "outlast").unwrap(), expected);
        }
        let failure = Location::of("mysql://me@host/shop", "outlast").unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure
                .message()
                .unwrap()
                .starts_with("unsupported database mysql://")
        );
    }

    #[test]
    fn a_missing_file_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("typo.db");
        let failure = check_file(&path).unwrap_err();
        assert_eq!(failure.code(), 5);
        assert!(failure.message().unwrap().contains("outlast migrate"));
        assert!(!path.exists());
        let failure = check_file(folder.path()).unwrap_err();
        assert!(failure.message().unwrap().contains("is a directory"));
    }
}
