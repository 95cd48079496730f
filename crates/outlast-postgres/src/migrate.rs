//! Migrations of the schema, and its version.
//!
//! `Options::connect` runs or checks them. A migration never waits longer than the lock timeout.
//!
//! A migration that was released is never edited: schemas that have run it stay as they are, and
//! nothing compares them with its text. A change is a new migration at the end of the list.

use crate::connection::{Pool, Pooled};
use crate::error::Failure;
use crate::options::check_schema_name;
use crate::session::statement::in_schema;
use outlast_core::{Error, Invalid};
use std::time::Duration;
use tokio_postgres::SimpleQueryMessage;

/// The migrations, oldest first. The version is the position, counted from 1.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_kernel.sql"),
    include_str!("../migrations/0002_trace_and_visits.sql"),
    include_str!("../migrations/0003_transaction.sql"),
    include_str!("../migrations/0004_fewer_checks.sql"),
    include_str!("../migrations/0005_roles.sql"),
    include_str!("../migrations/0006_machines_and_traffic.sql"),
    include_str!("../migrations/0007_families.sql"),
    include_str!("../migrations/0008_workflows.sql"),
    include_str!("../migrations/0009_parts.sql"),
    include_str!("../migrations/0010_bounds.sql"),
    include_str!("../migrations/0011_machine_columns.sql"),
    include_str!("../migrations/0012_groups.sql"),
    include_str!("../migrations/0013_fresh_inboxes.sql"),
    include_str!("../migrations/0014_views.sql"),
    include_str!("../migrations/0015_keys_as_bytes.sql"),
    include_str!("../migrations/0016_timeouts.sql"),
    include_str!("../migrations/0017_updates.sql"),
    include_str!("../migrations/0018_repairs.sql"),
];

/// The version of the schema that this build needs.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// The beginning of a transaction that changes the schema.
///
/// The lock timeout keeps it from blocking running workers for long. One advisory lock lets many
/// nodes start at once. The search path holds only the system's functions and operators, whatever
/// the role's own path is.
const LOCKING: &str = "\
begin isolation level read committed;
set local lock_timeout = LOCK_MS;
set local search_path = pg_catalog, pg_temp;
select pg_advisory_xact_lock(hashtextextended('outlast migration of SCHEMA', 0));
";

/// The objects that every migration needs. An existing schema needs no right to create one.
///
/// Not `create schema if not exists`: the server checks that right even if the schema exists.
const FOUNDATION: &str = "\
do $$ begin if to_regnamespace('\"SCHEMA\"') is null then create schema \"SCHEMA\"; end if; end $$;
create table if not exists outlast.meta (key text primary key, value integer not null);
";

/// How long a migration that an operator runs by hand may wait for a lock.
///
/// A lock on a table blocks all later ones in its queue, so steps stop as long as this waits.
pub(crate) const PRINTED_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the SQL of every migration for `schema`, for operators who run migrations themselves.
///
/// A second run stops with an error and changes nothing.
pub fn migrations_sql(schema: &str) -> Result<String, Invalid> {
    check_schema_name(schema)?;
    let mut sql = format!("-- Outlast, schema {schema:?}, version {SCHEMA_VERSION}.\n");
    for (position, migration) in MIGRATIONS.iter().enumerate() {
        let version = position + 1;
        let opening = opening(schema, PRINTED_LOCK_TIMEOUT);
        sql.push_str(&format!("\n-- Migration {version}\n{opening}"));
        sql.push_str(&in_schema(migration, schema));
        sql.push_str(&closing(version, schema));
    }
    Ok(sql)
}

/// Migrates the schema to this version. Each migration is one transaction.
///
/// Nodes that start at once take turns, one migration at a time. A node of an older build refuses
/// to start from then on.
pub(crate) async fn run(pool: &Pool, schema: &str, lock: Duration) -> Result<(), Error> {
    let client = connection(pool).await?;
    // Checking first means that a node on an up-to-date schema needs no right to create anything.
    let mut version = version(&client, schema, lock).await?;
    refuse_newer(version, schema)?;
    while version < SCHEMA_VERSION {
        version = step(&client, schema, lock).await?;
        refuse_newer(version, schema)?;
        tracing::info!(schema, version, "migrated");
    }
    Ok(())
}

/// Returns an error unless the schema has this version.
pub(crate) async fn check(pool: &Pool, schema: &str, lock: Duration) -> Result<(), Error> {
    let version = find_version(pool, schema, lock).await?;
    refuse_newer(version, schema)?;
    if version < SCHEMA_VERSION {
        return Err(unusable(format!(
            "schema {schema:?} is at version {version} and this build needs {SCHEMA_VERSION}; run the migrations"
        )));
    }
    Ok(())
}

/// Returns the version of the schema; 0 if there is none.
pub(crate) async fn find_version(
    pool: &Pool,
    schema: &str,
    lock: Duration,
) -> Result<usize, Error> {
    version(&connection(pool).await?, schema, lock).await
}

/// Runs the next migration, unless another node has just run it. Returns the new version.
async fn step(client: &Pooled, schema: &str, lock: Duration) -> Result<usize, Error> {
    let done = async {
        client.batch_execute(&opening(schema, lock)).await?;
        // Read again under the lock: another node may have migrated while this one waited.
        let version = version_in(&client.simple_query(&version_query(schema)).await?);
        let Some(migration) = MIGRATIONS.get(version) else {
            client.batch_execute("commit").await?;
            return Ok(version);
        };
        #[cfg(outlast_mutants)]
        let migration = crate::mutants::defective_migration(version + 1, migration);
        client.batch_execute(&in_schema(migration, schema)).await?;
        client.batch_execute(&closing(version + 1, schema)).await?;
        Ok::<_, tokio_postgres::Error>(version + 1)
    };
    match done.await {
        Ok(version) => Ok(version),
        Err(error) => {
            // The first error counts. If the connection is gone, the server rolls back.
            let _ = client.batch_execute("rollback").await;
            Err(Failure::from(error).during("migrate"))
        }
    }
}

/// Returns the version of the schema; 0 if there is none.
async fn version(client: &Pooled, schema: &str, lock: Duration) -> Result<usize, Error> {
    // One message is one transaction, so the setting ends with it.
    let limited = |query: &str| {
        let lock_ms = lock.as_millis();
        format!(
            "set local lock_timeout = {lock_ms}; set local search_path = pg_catalog, pg_temp; {query}"
        )
    };
    let ask = async {
        let exists = format!("select to_regclass('\"{schema}\".meta') as meta");
        let found = client.simple_query(&limited(&exists)).await?;
        if first_value(&found, "meta").is_none() {
            return Ok(0);
        }
        let found = client
            .simple_query(&limited(&version_query(schema)))
            .await?;
        Ok(version_in(&found))
    };
    ask.await
        .map_err(|error: tokio_postgres::Error| Failure::from(error).during("migrate"))
}

fn version_query(schema: &str) -> String {
    in_schema(
        "select value from outlast.meta where key = 'version'",
        schema,
    )
}

fn version_in(found: &[SimpleQueryMessage]) -> usize {
    first_value(found, "value")
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

pub(crate) fn first_value<'a>(messages: &'a [SimpleQueryMessage], column: &str) -> Option<&'a str> {
    messages.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(column)
    })
}

fn opening(schema: &str, lock: Duration) -> String {
    let foundation = in_schema(&FOUNDATION.replace("SCHEMA", schema), schema);
    take_lock(schema, lock) + &foundation
}

/// Begins a transaction that changes the schema, and waits for any other such transaction.
pub(crate) fn take_lock(schema: &str, lock: Duration) -> String {
    LOCKING
        .replace("LOCK_MS", &lock.as_millis().to_string())
        .replace("SCHEMA", schema)
}

/// Records the version and commits, in the transaction of the migration: it never runs twice.
fn closing(version: usize, schema: &str) -> String {
    in_schema(
        &format!(
            "\ninsert into outlast.meta (key, value) values ('version', {version})\n    \
             on conflict (key) do update set value = excluded.value;\ncommit;\n"
        ),
        schema,
    )
}

fn refuse_newer(version: usize, schema: &str) -> Result<(), Error> {
    if version > SCHEMA_VERSION {
        return Err(unusable(format!(
            "schema {schema:?} is at version {version}, made by a newer build; this one knows {SCHEMA_VERSION}: update it"
        )));
    }
    Ok(())
}

async fn connection(pool: &Pool) -> Result<Pooled, Error> {
    pool.get()
        .await
        .map_err(|error| Failure::Pool(error).during("migrate"))
}

fn unusable(reason: String) -> Error {
    Error::Unusable {
        operation: "migrate",
        reason,
        source: None,
    }
}
