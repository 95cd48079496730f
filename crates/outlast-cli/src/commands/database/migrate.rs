//! `outlast migrate`: migrates the schema of a database.

use crate::database::{DatabaseArgs, Location, needed_by_sqlite, postgres};
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use clap::Args;
use outlast::Sqlite;
use outlast::postgres::{Options, Roles, SCHEMA_VERSION, migrations_sql};
use outlast::store::Store;
use serde_json::json;
use std::path::Path;

/// Arguments of `migrate`.
#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// Print the SQL instead of running it: for PostgreSQL, or for SQLite if --database names a
    /// file
    #[arg(long, conflicts_with = "status")]
    print: bool,
    /// Print the version of the database and the version that this build needs
    #[arg(long)]
    status: bool,
    /// Then grant this role the rights of engines and operators
    #[arg(long, value_name = "ROLE")]
    worker: Vec<String>,
    /// Then grant this role the right to start and signal instances, and no other
    #[arg(long, value_name = "ROLE")]
    enqueuer: Vec<String>,
    /// Then grant this role the right to read
    #[arg(long, value_name = "ROLE")]
    reader: Vec<String>,
}

pub(crate) async fn run(
    args: &MigrateArgs,
    database: &DatabaseArgs,
    output: &Output,
) -> Result<(), Failure> {
    // Printing needs no database.
    let place = match args.print && database.database.is_none() {
        true => Location::of("postgres://", &database.schema)?,
        false => database.place()?,
    };
    match place {
        Location::Postgres { schema, .. } if args.print => print_postgres(args, &schema, output),
        Location::Sqlite(_) if args.print => print_sqlite(args, output),
        Location::Postgres { url, schema } => {
            let options = postgres(&url)?.schema(schema).max_connections(1);
            on_postgres(args, options, output).await
        }
        Location::Sqlite(path) => on_sqlite(args, &path, output).await,
    }
}

async fn on_postgres(args: &MigrateArgs, options: Options, output: &Output) -> Result<(), Failure> {
    let found = options.schema_version().await? as u64;
    let versions = Versions {
        found,
        needed: SCHEMA_VERSION as u64,
    };
    if args.status {
        return versions.print(output);
    }
    options.clone().connect().await?.close().await;
    let roles = args.roles();
    if roles != Roles::new() {
        options.grant(&roles).await?;
        note("granted the rights of the roles");
    }
    versions.migrated(output)
}

async fn on_sqlite(args: &MigrateArgs, path: &Path, output: &Output) -> Result<(), Failure> {
    refuse_roles(args)?;
    let found = match path.exists() {
        true => Sqlite::schema_version(path)?,
        false => 0,
    };
    let versions = Versions {
        found: found.unsigned_abs(),
        needed: needed_by_sqlite().unsigned_abs(),
    };
    if args.status {
        return versions.print(output);
    }
    Sqlite::open(path)?.close().await;
    versions.migrated(output)
}

fn print_postgres(args: &MigrateArgs, schema: &str, output: &Output) -> Result<(), Failure> {
    let wrong = |invalid: outlast::store::Invalid| Failure::Usage(invalid.to_string());
    output.line(migrations_sql(schema).map_err(wrong)?.trim_end())?;
    let roles = args.roles();
    if roles != Roles::new() {
        output.line("")?;
        output.line(roles.sql(schema).map_err(wrong)?.trim_end())?;
    }
    Ok(())
}

fn print_sqlite(args: &MigrateArgs, output: &Output) -> Result<(), Failure> {
    refuse_roles(args)?;
    for migration in Sqlite::migrations() {
        let heading = format!("-- Migration {}: {}", migration.version, migration.name);
        output.line(heading)?;
        output.line(migration.sql.trim_end())?;
    }
    Ok(())
}

fn refuse_roles(args: &MigrateArgs) -> Result<(), Failure> {
    match args.roles() == Roles::new() {
        true => Ok(()),
        false => Err(Failure::Usage(
            "SQLite has no roles; access to the file is access to everything".to_owned(),
        )),
    }
}

impl MigrateArgs {
    fn roles(&self) -> Roles {
        let roles = Roles::new();
        let roles = self
            .worker
            .iter()
            .fold(roles, |roles, name| roles.worker(name));
        let roles = self
            .enqueuer
            .iter()
            .fold(roles, |roles, name| roles.enqueuer(name));
        self.reader
            .iter()
            .fold(roles, |roles, name| roles.reader(name))
    }
}

/// The version of the database, and the version that this build needs.
struct Versions {
    found: u64,
    needed: u64,
}

impl Versions {
    fn print(&self, output: &Output) -> Result<(), Failure> {
        let Versions { found, needed } = self;
        match output.format {
            Format::Json => output.json(&json!({"version": found, "needed": needed})),
            Format::Table | Format::Ids => output.line(format!("version {found}, needed {needed}")),
        }
    }

    fn migrated(&self, output: &Output) -> Result<(), Failure> {
        let Versions { found, needed } = self;
        match found == needed {
            true => note("the schema is up to date"),
            false => note(format!("migrated from version {found} to {needed}")),
        }
        match output.format {
            Format::Json => output.json(&json!({"version": needed, "was": found})),
            Format::Table | Format::Ids => output.line(format!("version {needed}")),
        }
    }
}
