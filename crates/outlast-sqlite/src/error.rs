//! Translates SQLite's errors into the contract's: what happened, and what to do about it.
//!
//! `job.rs`, `open.rs` and `transaction.rs` call it for the caller of an operation. Loops decide
//! by the kind of an error. A permanent fault must never become `Transient`, or a loop repeats it
//! for ever.

use outlast_core::{Error, Source};
use rusqlite::ErrorCode;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;

/// Why a verb failed: an error of SQLite or of the contract.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Store(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Store(error)
    }
}

impl Fault {
    /// Returns the error that the caller of `operation` sees.
    pub(crate) fn during(self, operation: &'static str) -> Error {
        match self {
            Fault::Sqlite(error) => explain(operation, Arc::new(error)),
            Fault::Store(error) => error,
        }
    }

    /// Returns why this row could not be written, if the row was the cause and not the database.
    ///
    /// `commit` then isolates the row. Any other fault would hit each row of the batch alike.
    pub(crate) fn refused_row(&self) -> Option<String> {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("bad-row-fails-its-batch") {
            return None;
        }
        match self {
            Fault::Sqlite(error) if is_refusal(error) => Some(error.to_string()),
            Fault::Sqlite(_) | Fault::Store(_) => None,
        }
    }

    /// Returns why this row could not be decoded, if that is the fault.
    ///
    /// A claim then fails the row alone, so that it does not stop its queue (docs/protocol.md,
    /// defect 12).
    pub(crate) fn unreadable_row(&self) -> Option<String> {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("unreadable-row-stops-its-queue") {
            return None;
        }
        match self {
            Fault::Sqlite(error) if is_unreadable(error) => Some(error.to_string()),
            Fault::Sqlite(_) | Fault::Store(_) => None,
        }
    }
}

/// Returns SQLite's code, if SQLite caused the error.
///
/// Knows only the errors of [`explain`]. Those of [`unopened`] hold their cause without the `Arc`.
pub(crate) fn code(error: &Error) -> Option<ErrorCode> {
    let (Error::Transient { source, .. } | Error::Unusable { source, .. }) = error else {
        return None;
    };
    let cause = source.as_ref()?.downcast_ref::<Arc<rusqlite::Error>>()?;
    cause.sqlite_error_code()
}

/// Makes an error of the running store.
///
/// The cause is shared: when a transaction fails, every verb in it gets the same one.
pub(crate) fn explain(operation: &'static str, cause: Arc<rusqlite::Error>) -> Error {
    let source: Option<Source> = Some(Box::new(cause.clone()));
    let transient = |reason: &str| Error::Transient {
        operation,
        reason: format!("{reason} ({cause})"),
        source: Some(Box::new(cause.clone())),
    };
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => transient(
            "another process holds the database for longer than the busy timeout; nothing was written, try again, or find who keeps a transaction open",
        ),
        Some(ErrorCode::DiskFull) => transient(
            "the disk is full, or the database has reached its size limit; nothing was written, make room (collecting ended instances frees space inside the file) and try again",
        ),
        Some(ErrorCode::SystemIoFailure) => transient(
            "the disk reported an error; nothing was written, check its health and free space",
        ),
        Some(ErrorCode::OutOfMemory) => transient("there is not enough memory"),
        Some(ErrorCode::ReadOnly) => Error::Unusable {
            operation,
            reason: format!(
                "the database file has become read-only; make it writable and open it again ({cause})"
            ),
            source,
        },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Corrupt {
            operation,
            reason: format!(
                "the database file is damaged; restore it from a backup, or recover it with SQLite's own tools ({cause})"
            ),
            source,
        },
        _ if is_unreadable(&cause) => Error::Corrupt {
            operation,
            reason: format!("a row holds what this version could not have written: {cause}"),
            source,
        },
        // SQLite would refuse the same statement again, so a retry cannot help.
        _ => Error::Corrupt {
            operation,
            reason: format!("SQLite refused a statement: {}", message(&cause)),
            source,
        },
    }
}

/// Makes an error of opening the file at `path`, or a database in memory.
pub(crate) fn unopened(path: Option<&Path>, cause: rusqlite::Error) -> Error {
    let name = path.map_or("the database in memory".into(), |path| {
        path.display().to_string()
    });
    let unusable = |reason: String, cause: rusqlite::Error| Error::Unusable {
        operation: "open",
        reason,
        source: Some(Box::new(cause)),
    };
    match cause.sqlite_error_code() {
        // First: SQLite's code for a directory is that of any file that it cannot open.
        _ if path.is_some_and(Path::is_dir) => unusable(
            format!("{name} is a directory; name the file in it that is the database"),
            cause,
        ),
        Some(ErrorCode::NotADatabase) => unusable(
            format!("{name} is not an SQLite database; name another file, it was left as it is"),
            cause,
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            let reason = match path.and_then(Path::parent) {
                Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => format!(
                    "{name} cannot be created because the directory {} does not exist; create it first",
                    folder.display()
                ),
                Some(_) | None => format!(
                    "{name} cannot be opened; the file and its directory must be readable and writable for this user, since SQLite keeps its log beside the file"
                ),
            };
            unusable(reason, cause)
        }
        Some(ErrorCode::ReadOnly) => read_only(&name, Some(cause)),
        // A statement met a table of the same name with other columns.
        _ if matches!(cause, rusqlite::Error::SqlInputError { .. }) => unusable(
            format!(
                "{name} seems to belong to another program ({}); name another file",
                message(&cause)
            ),
            cause,
        ),
        _ => explain("open", Arc::new(cause)),
    }
}

/// Makes the error of a file at `name` that can be read but not written.
pub(crate) fn read_only(name: &str, cause: Option<rusqlite::Error>) -> Error {
    Error::Unusable {
        operation: "open",
        reason: format!(
            "{name} is read-only; make the file and its directory writable for this user"
        ),
        source: cause.map(|cause| Box::new(cause) as Source),
    }
}

/// Makes the error of a verb whose transaction SQLite rolled back because of another verb.
pub(crate) fn transaction_lost(operation: &'static str) -> Error {
    Error::Transient {
        operation,
        reason: "the transaction it shared with other verbs was rolled back; nothing was written, try again"
            .into(),
        source: None,
    }
}

/// Makes the error of a verb that panicked.
///
/// Not transient: the same request would panic again.
pub(crate) fn panicked(operation: &'static str, panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    Error::Corrupt {
        operation,
        reason: format!("the store panicked, which is a fault of it; nothing was written: {text}"),
        source: None,
    }
}

/// Returns the message without the statement, which can be pages long.
fn message(error: &rusqlite::Error) -> String {
    if let rusqlite::Error::SqlInputError { msg, .. } = error {
        return msg.clone();
    }
    error.to_string()
}

/// Whether SQLite refused one row: a check, a unique index, a size or a type.
fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

/// Whether a column does not hold a value of its type. Only a write past the store makes one.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}
