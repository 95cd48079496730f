//! Opens connections: checks the file before the first write, then sets the pragmas.
//!
//! `Options::open` calls it once for each store. A file of another program or of a newer version
//! must never be changed.

use crate::Options;
use crate::error;
use crate::migrate::{self, MigrateError};
use outlast_core::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The first SQLite version without the WAL-reset bug (docs/protocol.md, defect 19).
///
/// Older versions can lose writes when the log is reset.
const VERSION_MIN: (i32, &str) = (3_051_003, "3.51.3");

/// Prepared statements that a connection keeps: all of this crate, and some filters.
///
/// With fewer, the statements of a filter would displace those of the verbs.
const STATEMENTS_KEPT: usize = 192;

/// The page cache of the writer. SQLite writes a batch that does not fit to the log twice.
const WRITER_CACHE_KIB: i64 = 64 * 1024;

/// The size to which SQLite truncates the log after writing it back.
const LOG_KEPT_BYTES: i64 = 64 * 1024 * 1024;

/// The connections of a store.
///
/// In memory there are no readers: no second connection can see the data. Each connection belongs
/// to one thread, so all are opened without SQLite's mutex (`NO_MUTEX`).
pub(crate) struct Connections {
    pub(crate) writer: Connection,
    pub(crate) readers: Vec<Connection>,
}

/// Opens the file at `path`, or a database in memory, and migrates its schema.
pub(crate) fn open(options: &Options, path: Option<&Path>) -> Result<Connections> {
    check_library(rusqlite::version_number(), rusqlite::version())?;
    let path = file(path);
    check_path(path)?;
    // Before the writer's connection: opening that would create the file.
    if let Some(path) = path.filter(|_| options.read_only) {
        return open_read_only(options, path);
    }
    let writer = open_writer(options, path).map_err(|error| match error {
        MigrateError::Sqlite(error) => error::unopened(path, error),
        MigrateError::Unusable(error) => error,
    })?;
    // After the writer, which has made the schema and the log that they read.
    let readers = match path {
        Some(path) => (0..options.readers)
            .map(|_| open_reader(options, path))
            .collect::<rusqlite::Result<_>>()
            .map_err(|error| error::unopened(Some(path), error))?,
        None => Vec::new(),
    };
    Ok(Connections { writer, readers })
}

/// Returns the schema version of an existing file.
pub(crate) fn schema_version(path: &Path) -> Result<i64> {
    let connection = open_to_look(path, &Options::default());
    connection
        .and_then(|connection| migrate::version(&connection))
        .map_err(|error| error::unopened(Some(path), error))
}

/// Opens a file that need not be writable, and changes nothing.
///
/// The writer gets a connection on which SQLite refuses every write. So verbs fail with SQLite's
/// own answer, and no verb has to know of this mode.
fn open_read_only(options: &Options, path: &Path) -> Result<Connections> {
    let connect = || {
        let connection = open_to_look(path, options)?;
        configure(&connection)?;
        Ok(connection)
    };
    let unopened = |error| error::unopened(Some(path), error);
    let writer = connect().map_err(unopened)?;
    // An older schema cannot be migrated here.
    migrate::check_current("open", &writer)?;
    let readers = (0..options.readers).map(|_| connect());
    let readers = readers.collect::<rusqlite::Result<_>>().map_err(unopened)?;
    Ok(Connections { writer, readers })
}

/// Opens a connection that only reads.
///
/// SQLite keeps an index of the log beside the file. In a read-only directory it cannot create
/// one. If there is no log either, no process writes, and the file is safe to read as immutable.
///
/// An immutable file is read without locks. A process of another user that begins to write later
/// is not noticed.
fn open_to_look(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = |connection: rusqlite::Result<Connection>| {
        let connection = connection?;
        connection.busy_timeout(options.busy_timeout)?;
        // SQLite opens the file only here, at the first read.
        migrate::version(&connection)?;
        Ok(connection)
    };
    match read(Connection::open_with_flags(path, flags)) {
        Err(error) if is_without_index(&error) && !has_log(path) => {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            read(Connection::open_with_flags(immutable(path), flags))
        }
        opened => opened,
    }
}

fn is_without_index(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// Whether there is a log that is not empty.
///
/// Read as immutable, the file would lack the commits that are only in the log.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// Returns the URI that opens a file as immutable.
fn immutable(path: &Path) -> String {
    let mut address = "file:".to_owned();
    for c in path.to_string_lossy().chars() {
        match c {
            // These begin an escape, the parameters or the fragment of a URI.
            '%' | '?' | '#' => address.push_str(&format!("%{:02x}", u32::from(c))),
            c => address.push(c),
        }
    }
    address + "?immutable=1"
}

/// Returns the path of a file, or `None` for SQLite's name of a database in memory.
pub(crate) fn file(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| *path != Path::new(":memory:"))
}

/// Refuses an SQLite library that can lose writes (docs/protocol.md, defect 19).
///
/// Also called for users' own connections: their program may never open a store.
pub(crate) fn check_library(number: i32, name: &str) -> Result<()> {
    let (least, least_name) = VERSION_MIN;
    if number >= least {
        return Ok(());
    }
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("library-with-the-known-fault") {
        return Ok(());
    }
    Err(Error::Unusable {
        operation: "open",
        reason: format!(
            "this program was built with SQLite {name}, and {least_name} is the first that can be trusted with several connections; build it with a newer rusqlite"
        ),
        source: None,
    })
}

/// Refuses an empty path. SQLite would open a temporary database, and delete it at the end.
fn check_path(path: Option<&Path>) -> Result<()> {
    match path {
        Some(path) if path.as_os_str().is_empty() => Err(Error::Unusable {
            operation: "open",
            reason: "the path of the database is empty; name a file, or use Sqlite::in_memory"
                .into(),
            source: None,
        }),
        Some(_) | None => Ok(()),
    }
}

/// Opens the connection of the writer.
///
/// Checks the database before it changes anything: a file of another program, or of a newer
/// version, stays as it is.
fn open_writer(options: &Options, path: Option<&Path>) -> Result<Connection, MigrateError> {
    let mut connection = match path {
        Some(path) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?
        }
        None => Connection::open_in_memory()?,
    };
    connection.busy_timeout(options.busy_timeout)?;
    // Before the journal mode, which is stored in the file.
    migrate::check(&mut connection)?;
    if let Some(path) = path {
        // SQLite opens a file that it cannot write as read-only, without an error.
        if connection.is_readonly(MAIN_DB)? {
            let name = path.display().to_string();
            return Err(MigrateError::Unusable(error::read_only(&name, None)));
        }
        use_log(&connection, path, options.busy_timeout)?;
    }
    configure(&connection)?;
    connection.pragma_update(None, "synchronous", options.synchronous.as_str())?;
    #[cfg(outlast_mutants)]
    if outlast_core::mutant::is("commit-does-not-wait-for-the-disk") {
        connection.pragma_update(None, "synchronous", "normal")?;
    }
    // Negative: in KiB, not in pages.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // Before the migration, so that a rebuild of tables respects the limit too.
    limit_size(&connection, options.size_max_bytes)?;
    migrate::migrate(&mut connection)?;
    Ok(connection)
}

/// Opens the connection of a reader.
///
/// Read-only, so that a question that writes by mistake fails instead of passing the writer by.
fn open_reader(options: &Options, path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    configure(&connection)?;
    Ok(connection)
}

/// Sets what the writer and the readers have in common.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Fixes query plans independently of bound values. Otherwise SQLite prepares a statement again
    // at every use whose values could change its plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The journal of a savepoint fits in memory and need not survive a crash.
    connection.pragma_update(None, "temp_store", "memory")
}

/// Switches the file to a write-ahead log.
///
/// The switch needs an exclusive lock, and SQLite's busy timeout does not cover it. Processes that
/// start together have to retry here.
fn use_log(connection: &Connection, path: &Path, timeout: Duration) -> Result<(), MigrateError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let began = Instant::now();
    let mode = loop {
        // A file that has a log already answers at once, without the exclusive lock.
        match connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
        {
            Err(error) if is_busy(&error) && began.elapsed() < timeout => thread::sleep(PAUSE),
            mode => break mode?,
        }
    };
    if mode != "wal" {
        return Err(MigrateError::Unusable(Error::Unusable {
            operation: "open",
            reason: format!(
                "{} cannot have a write-ahead log (its journal mode stays {mode}); put it on a local disk, network file systems have no shared memory",
                path.display()
            ),
            source: None,
        }));
    }
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))?;
    Ok(())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Limits the number of pages.
///
/// SQLite keeps the limit in the connection and not in the file, so each process sets its own. A
/// file that is larger already keeps its size.
fn limit_size(connection: &Connection, bytes: Option<u64>) -> rusqlite::Result<()> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    // SQLite reads 0 as a question for the present limit.
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn a_library_with_the_known_fault_is_refused() {
        let error = check_library(3_051_002, "3.51.2").unwrap_err();
        assert!(error.to_string().contains("3.51.3"), "{error}");
        assert!(check_library(3_051_003, "3.51.3").is_ok());
        assert!(check_library(rusqlite::version_number(), rusqlite::version()).is_ok());
    }

    #[test]
    fn a_statement_is_not_prepared_again_when_other_values_are_bound_to_it() {
        let writer = open(&Options::default(), None).unwrap().writer;
        let mut statement = writer
            .prepare(include_str!("../sql/claim/inbox.sql"))
            .unwrap();
        for instance in 0..10 {
            assert!(!statement.exists([instance]).unwrap());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
