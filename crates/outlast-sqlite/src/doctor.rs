//! The health checks of the file and the database, for `outlast doctor`. They only read.
//!
//! They run on a reader, in one transaction. A check that reads the whole file needs a bound: its
//! snapshot keeps SQLite from resetting the log.

use crate::error::Fault;
use crate::inspect::{COUNTED_MAX, counted};
use crate::migrate;
use crate::options::Synchronous;
use crate::tx::Tx;
use crate::verbs::repair;
use outlast_core::{Finding, OVERDUE_AFTER, StoredTimes, limits, size};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

const STUCK_LEASES: &str = include_str!("../sql/doctor/stuck_leases.sql");
const OVERDUE_TIMERS: &str = include_str!("../sql/doctor/overdue_timers.sql");
const OVERDUE_TIMEOUTS: &str = include_str!("../sql/doctor/overdue_timeouts.sql");
const TIMES: &str = include_str!("../sql/doctor/times.sql");

/// SQLite writes a log back at a few megabytes. A log of this size is kept by a long reader.
const LOG_MAX: u64 = 256 * 1024 * 1024;
/// Reading every page of a larger file takes longer than a question may.
const CHECKED_MAX: u64 = 256 * 1024 * 1024;
/// Less unused space than this is not worth a rebuild.
const UNUSED_MIN: u64 = 64 * 1024 * 1024;
/// Less space than this on the disk is a warning.
const ROOM_MIN: u64 = 1024 * 1024 * 1024;
/// Less space than this on the disk is serious.
const ROOM_SERIOUS: u64 = 64 * 1024 * 1024;
/// The space that one value of the largest size takes ([`limits::JSON_BYTES_MAX`]).
const ROOM_TO_WRITE: u64 = 1024 * 1024;

/// The path and the settings, which the database itself does not know.
#[derive(Clone, Debug)]
pub(crate) struct ExaminedFile {
    /// The file; `None` in memory.
    pub(crate) file: Option<PathBuf>,
    /// What a commit of the writer waits for.
    pub(crate) synchronous: Synchronous,
}

impl ExaminedFile {
    /// Whether the disk has so little space that the next writes fail.
    ///
    /// The write-ahead log may still have space for a small write when the disk has none.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let free = self.file.as_deref().and_then(free_bytes);
        free.is_some_and(|free| free < ROOM_TO_WRITE)
    }
}

/// Runs all checks, and returns a finding for each.
///
/// A check that fails to run fails all of them: its error says more than a missing finding.
pub(crate) fn examine_database(
    tx: &Tx<'_>,
    examined: &ExaminedFile,
) -> Result<Vec<Finding>, Fault> {
    let pages = Pages::of(tx.connection)?;
    let mut findings = vec![
        library(),
        journal(tx.connection, examined)?,
        durability(examined),
        pages.unused(),
        integrity(tx.connection, &pages)?,
        stuck_leases(tx)?,
        overdue_timers(tx)?,
        overdue_timeouts(tx)?,
        Finding::repairs(&repair::among_newest(tx)?, limits::REPAIR_EXAMINED_MAX),
        stored_times(tx)?,
        schema_version(tx.connection)?,
    ];
    if let Some(file) = &examined.file {
        findings.push(writable(file));
        findings.extend(log_size(file));
        findings.extend(room(file));
    }
    Ok(findings)
}

fn library() -> Finding {
    // A version with the known fault is refused when a store is opened.
    let found = format!(
        "the library is SQLite {}, without the fault that loses what was written when the log is reset",
        rusqlite::version()
    );
    Finding::fine("library_version", found)
}

/// Checks the journal mode, which any program can change while no other has the file open.
fn journal(connection: &Connection, examined: &ExaminedFile) -> Result<Finding, Fault> {
    const CHECK: &str = "journal_mode";
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let found = format!("the journal mode is {mode}");
    Ok(match (mode.as_str(), &examined.file) {
        ("wal", _) | ("memory", None) => Finding::fine(CHECK, found),
        _ => Finding::warning(
            CHECK,
            found + ": readers and the writer wait for each other",
            "somebody has changed it: restart the programs that use the file, which sets it back",
        ),
    })
}

/// Judges the setting of this process. The file does not store it, and other processes may differ.
fn durability(examined: &ExaminedFile) -> Finding {
    const CHECK: &str = "durability";
    if examined.file.is_none() {
        let found = "the database is in memory: it ends with the process";
        return Finding::warning(CHECK, found, "open a file for what is to be kept");
    }
    match examined.synchronous {
        Synchronous::Full => Finding::fine(
            CHECK,
            "this process waits for the disk (synchronous = full)",
        ),
        Synchronous::Normal => Finding::warning(
            CHECK,
            "this process does not wait for the disk (synchronous = normal): a loss of power takes the last moments back",
            "open the store with Synchronous::Full",
        ),
        Synchronous::Off => Finding::serious(
            CHECK,
            "this process leaves writing to the system (synchronous = off): a loss of power can destroy the file",
            "open the store with Synchronous::Full",
        ),
    }
}

/// The size of the file, and its unused part.
struct Pages {
    bytes: u64,
    unused_bytes: u64,
}

impl Pages {
    fn of(connection: &Connection) -> Result<Pages, Fault> {
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let page_bytes = pragma("page_size")?.unsigned_abs();
        Ok(Pages {
            bytes: pragma("page_count")?.unsigned_abs() * page_bytes,
            unused_bytes: pragma("freelist_count")?.unsigned_abs() * page_bytes,
        })
    }

    fn unused(&self) -> Finding {
        const CHECK: &str = "unused_space";
        let (bytes, unused) = (size(self.bytes), size(self.unused_bytes));
        let found = format!("the database takes {bytes}, of which {unused} are unused");
        if self.unused_bytes < UNUSED_MIN.max(self.bytes / 2) {
            return Finding::fine(CHECK, found);
        }
        let remedy = "new instances will use it; to give it back to the disk, run `vacuum` with sqlite3 while no engine runs";
        Finding::warning(CHECK, found, remedy)
    }
}

fn integrity(connection: &Connection, pages: &Pages) -> Result<Finding, Fault> {
    const CHECK: &str = "integrity";
    if pages.bytes > CHECKED_MAX {
        let found = format!(
            "not looked at: the database takes {}, and reading all of it takes long; run `pragma quick_check` with sqlite3 when there is time",
            size(pages.bytes)
        );
        return Ok(Finding::fine(CHECK, found));
    }
    // Stops at the first damage. The remedy is the same for any number.
    let answer: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    Ok(match answer.as_str() {
        "ok" => Finding::fine(
            CHECK,
            format!("all {} read as they were written", size(pages.bytes)),
        ),
        damage => Finding::serious(
            CHECK,
            format!(
                "the file is damaged: {}",
                damage.lines().next().unwrap_or_default()
            ),
            "stop every program that uses it, keep a copy, and restore a backup or use `.recover` of sqlite3",
        ),
    })
}

fn stuck_leases(tx: &Tx<'_>) -> Result<Finding, Fault> {
    let mut statement = tx.prepare(STUCK_LEASES)?;
    let found = statement.query_row(params![tx.now.0, COUNTED_MAX], |row| {
        let workers: i64 = row.get("workers")?;
        let (claims, longest) = (counted(row.get("claims")?), row.get("longest")?);
        Ok(Finding::stuck_leases(
            claims,
            workers.unsigned_abs(),
            duration(longest),
        ))
    })?;
    Ok(found)
}

fn overdue_timers(tx: &Tx<'_>) -> Result<Finding, Fault> {
    let mut statement = tx.prepare(OVERDUE_TIMERS)?;
    let before = tx.now - OVERDUE_AFTER;
    let found = statement.query_row(params![tx.now.0, before.0, COUNTED_MAX], |row| {
        let (overdue, longest) = (counted(row.get("instances")?), row.get("longest")?);
        Ok(Finding::overdue_timers(overdue, duration(longest)))
    })?;
    Ok(found)
}

fn overdue_timeouts(tx: &Tx<'_>) -> Result<Finding, Fault> {
    let mut statement = tx.prepare(OVERDUE_TIMEOUTS)?;
    let before = tx.now - OVERDUE_AFTER;
    let found = statement.query_row(params![tx.now.0, before.0, COUNTED_MAX], |row| {
        let (overdue, longest) = (counted(row.get("instances")?), row.get("longest")?);
        Ok(Finding::overdue_timeouts(overdue, duration(longest)))
    })?;
    Ok(found)
}

/// Looks for times that another clock has written.
///
/// Reads the newest instances only, so that the check takes bounded time
/// ([`limits::EXAMINED_MAX`]).
fn stored_times(tx: &Tx<'_>) -> Result<Finding, Fault> {
    let mut statement = tx.prepare(TIMES)?;
    let looked = i64::try_from(limits::EXAMINED_MAX).unwrap_or(i64::MAX);
    let ahead = tx.now + limits::AHEAD_MAX;
    let (first, last) = (limits::MOMENT_MIN, limits::MOMENT_MAX);
    let values = params![tx.now.0, ahead.0, looked, first.0, last.0];
    let times = statement.query_row(values, |row| {
        let count = |name| row.get::<_, i64>(name).map(i64::unsigned_abs);
        Ok(StoredTimes {
            looked: count("looked")?,
            ahead: count("ahead")?,
            furthest: duration(row.get("furthest")?),
            waiting: count("waiting")?,
            strange: count("strange")?,
            workers: count("workers")?,
        })
    })?;
    Ok(times.finding())
}

fn schema_version(connection: &Connection) -> Result<Finding, Fault> {
    let found = migrate::version(connection)?.unsigned_abs();
    Ok(Finding::schema_version(
        found,
        migrate::newest().unsigned_abs(),
    ))
}

/// Checks the file and its directory, because SQLite keeps its log beside the file.
fn writable(file: &Path) -> Finding {
    const CHECK: &str = "writable";
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let read_only = [file, folder].into_iter().filter(|path| !may_write(path));
    let read_only: Vec<_> = read_only.map(|path| path.display().to_string()).collect();
    if read_only.is_empty() {
        return Finding::fine(CHECK, "the file and its directory can be written");
    }
    Finding::serious(
        CHECK,
        format!("read-only for this user: {}", read_only.join(", ")),
        "make the file and its directory writable for the user of the engines, and see that the file system is not mounted read-only",
    )
}

#[cfg(unix)]
fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn may_write(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.permissions().readonly())
}

/// Checks the size of the log, which is absent while no process has the file open.
fn log_size(file: &Path) -> Option<Finding> {
    const CHECK: &str = "log_size";
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    let bytes = std::fs::metadata(name).map_or(0, |log| log.len());
    let found = format!("the write-ahead log takes {}", size(bytes));
    if bytes <= LOG_MAX {
        return Some(Finding::fine(CHECK, found));
    }
    let remedy = "a reader keeps it from being written back: find the program that leaves a transaction on the file open";
    Some(Finding::warning(CHECK, found, remedy))
}

fn room(file: &Path) -> Option<Finding> {
    free_bytes(file).map(judged_room)
}

#[cfg(unix)]
fn free_bytes(file: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(file).ok()?;
    // `f_bavail` leaves out the reserve of the superuser, which a store cannot count on.
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

fn judged_room(free: u64) -> Finding {
    const CHECK: &str = "disk_room";
    let found = format!("the disk has room for {} more", size(free));
    let remedy = "make room: a full disk stops every write until there is some";
    match free {
        ..ROOM_SERIOUS => Finding::serious(CHECK, found, remedy),
        ROOM_SERIOUS..ROOM_MIN => Finding::warning(CHECK, found, remedy),
        _ => Finding::fine(CHECK, found),
    }
}

/// Converts the difference of two stored times; null and a time that lies ahead are zero.
fn duration(micros: Option<i64>) -> Duration {
    Duration::from_micros(u64::try_from(micros.unwrap_or_default()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::Severity;

    #[test]
    fn a_disk_that_fills_up_is_found() {
        for (free, expected) in [
            (0, Severity::Serious),
            (ROOM_SERIOUS, Severity::Warning),
            (ROOM_MIN, Severity::Fine),
        ] {
            assert_eq!(judged_room(free).severity, expected);
        }
    }

    #[test]
    fn much_unused_space_is_found() {
        let unused = |bytes, unused_bytes| {
            Pages {
                bytes,
                unused_bytes,
            }
            .unused()
            .severity
        };
        assert_eq!(unused(1 << 20, 1 << 19), Severity::Fine);
        assert_eq!(unused(1 << 30, 1 << 28), Severity::Fine);
        assert_eq!(unused(1 << 30, 1 << 29), Severity::Warning);
    }
}
