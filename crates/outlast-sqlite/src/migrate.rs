//! Bringing the schema up to date.

use outlast_core::Error;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// Every change of the schema, oldest first. One that was released is never edited again.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "kernel",
    sql: include_str!("../migrations/0001_kernel.sql"),
}];

/// One change of the schema.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The version it leads to; they go up by one.
    pub version: i64,
    /// What it brings.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// Fails when the database was written by a newer version. Changes nothing.
pub(crate) fn check(connection: &Connection) -> Result<(), MigrateError> {
    refuse_newer(version(connection)?)
}

/// Applies what is missing, in one transaction. Any number of processes may do this at once: the first
/// to get the lock migrates, the others look again and find nothing to do.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    if version(connection)? == newest() {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&tx)?;
    refuse_newer(found)?;
    tx.execute_batch(
        "create table if not exists meta (key text primary key, value text not null) strict",
    )?;
    for migration in MIGRATIONS.iter().filter(|it| it.version > found) {
        tx.execute_batch(migration.sql)?;
        tracing::info!(
            version = migration.version,
            name = migration.name,
            "schema migrated"
        );
    }
    tx.execute(
        "insert into meta (key, value) values ('schema_version', ?1) on conflict (key) do update set value = excluded.value",
        [newest().to_string()],
    )?;
    tx.commit()?;
    Ok(())
}

/// What stops a migration.
pub(crate) enum MigrateError {
    Sqlite(rusqlite::Error),
    Unusable(Error),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> MigrateError {
        MigrateError::Sqlite(error)
    }
}

fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// The version of the schema; 0 when there is none yet.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    let has_meta = connection
        .prepare("select 1 from sqlite_schema where type = 'table' and name = 'meta'")?
        .exists([])?;
    if !has_meta {
        return Ok(0);
    }
    let version = connection
        .query_row(
            "select cast(value as integer) from meta where key = 'schema_version'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    Ok(version.unwrap_or(0))
}

fn refuse_newer(found: i64) -> Result<(), MigrateError> {
    if found <= newest() {
        return Ok(());
    }
    Err(MigrateError::Unusable(Error::Unusable {
        operation: "open",
        reason: format!(
            "the schema has version {found}, and this program knows only up to {}; run a newer version of the program, the database was left as it is",
            newest()
        ),
        source: None,
    }))
}
