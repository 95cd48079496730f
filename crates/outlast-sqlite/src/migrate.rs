//! Schema migrations: the list, and the code that applies it when a store is opened.
//!
//! `open.rs` calls it. It must never touch a database of another program or of a newer version.

use crate::error::Fault;
use outlast_core::Error;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// Every schema migration, oldest first. A released migration never changes its effect.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "kernel",
        sql: include_str!("../migrations/0001_kernel.sql"),
    },
    Migration {
        version: 2,
        name: "trace and visits",
        sql: include_str!("../migrations/0002_trace_and_visits.sql"),
    },
    Migration {
        version: 3,
        name: "cheaper checks",
        sql: include_str!("../migrations/0003_cheaper_checks.sql"),
    },
    Migration {
        version: 4,
        name: "machines and traffic",
        sql: include_str!("../migrations/0004_machines_and_traffic.sql"),
    },
    Migration {
        version: 5,
        name: "families",
        sql: include_str!("../migrations/0005_families.sql"),
    },
    Migration {
        version: 6,
        name: "workflows",
        sql: include_str!("../migrations/0006_workflows.sql"),
    },
    Migration {
        version: 7,
        name: "parts",
        sql: include_str!("../migrations/0007_parts.sql"),
    },
    Migration {
        version: 8,
        name: "bounds",
        sql: include_str!("../migrations/0008_bounds.sql"),
    },
    Migration {
        version: 9,
        name: "machine columns",
        sql: include_str!("../migrations/0009_machine_columns.sql"),
    },
    Migration {
        version: 10,
        name: "groups",
        sql: include_str!("../migrations/0010_groups.sql"),
    },
    Migration {
        version: 11,
        name: "error values",
        sql: include_str!("../migrations/0011_error_values.sql"),
    },
    Migration {
        version: 12,
        name: "fresh inboxes",
        sql: include_str!("../migrations/0012_fresh_inboxes.sql"),
    },
    Migration {
        version: 13,
        name: "views",
        sql: include_str!("../migrations/0013_views.sql"),
    },
    Migration {
        version: 14,
        name: "timeouts",
        sql: include_str!("../migrations/0014_timeouts.sql"),
    },
    Migration {
        version: 15,
        name: "updates",
        sql: include_str!("../migrations/0015_updates.sql"),
    },
    Migration {
        version: 16,
        name: "repairs",
        sql: include_str!("../migrations/0016_repairs.sql"),
    },
];

/// One schema migration.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The version that it leads to. Versions increase by one.
    pub version: i64,
    /// A short name of the change.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// Fails when a newer version or another program has written the database. Changes nothing.
pub(crate) fn check(connection: &mut Connection) -> Result<(), MigrateError> {
    // One read transaction, so that another process cannot migrate between the two reads.
    let moment = connection.transaction()?;
    let found = version(&moment)?;
    refuse_newer(found)?;
    refuse_foreign(&moment, found)
}

/// Applies the missing migrations, in one transaction.
///
/// Several processes may call it at once. The first to get the lock migrates; the others check
/// again and find nothing to do.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), MigrateError> {
    // Most opens end here, without waiting for the write lock.
    if version(connection)? == newest() {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have migrated since.
    let found = version(&tx)?;
    refuse_newer(found)?;
    refuse_foreign(&tx, found)?;
    // Part of no migration: the version must have a place before the first of them.
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

/// Fails unless the database on `connection` has exactly this version's schema.
///
/// For connections that must not migrate: read-only stores, and users' own transactions.
pub(crate) fn check_current(operation: &'static str, connection: &Connection) -> Result<(), Error> {
    let found = version(connection).map_err(|error| Fault::from(error).during(operation))?;
    let known = newest();
    let reason = match found {
        found if found == known => return Ok(()),
        0 => "the database has no schema of Outlast; open the store's file, or open a store on this one first".into(),
        found if found < known => format!(
            "the schema has version {found} and this program needs {known}; open a store on the file first, which migrates it"
        ),
        found => format!(
            "the schema has version {found}, and this program knows only up to {known}; run a newer version of the program"
        ),
    };
    Err(Error::Unusable {
        operation,
        reason,
        source: None,
    })
}

/// Why a migration failed.
pub(crate) enum MigrateError {
    Sqlite(rusqlite::Error),
    Unusable(Error),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> MigrateError {
        MigrateError::Sqlite(error)
    }
}

/// Returns the schema version that this program needs.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Returns the schema version; 0 before the first migration.
///
/// Looks for the table first: a query of a missing table would be an error.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    if tables(connection, "meta")?.is_empty() {
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

/// Returns those tables with one of our names that match `pattern`.
fn tables(connection: &Connection, pattern: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "select name from sqlite_schema
             where type = 'table' and name like ?1
               and name in ('instances', 'signals', 'workers', 'queues', 'operations', 'runs', 'delays', 'cascades',
                            'events', 'meta')",
        )?
        .query_map([pattern], |row| row.get(0))?
        .collect()
}

/// Refuses a database that has tables of our names but no version: another program made them.
fn refuse_foreign(connection: &Connection, found: i64) -> Result<(), MigrateError> {
    if found > 0 {
        return Ok(());
    }
    let foreign = tables(connection, "%")?;
    if foreign.is_empty() {
        return Ok(());
    }
    Err(MigrateError::Unusable(Error::Unusable {
        operation: "open",
        reason: format!(
            "the database belongs to another program, which has tables of the same names ({}); name another file, this one was left as it is",
            foreign.join(", ")
        ),
        source: None,
    }))
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
