//! Errors of PostgreSQL and of the pool, classified by what the caller should do about them.
//!
//! `session.rs` and the verbs decide by the server's codes. Messages are translated by the server,
//! so no decision may rest on them. Only the driver's own errors have no code.

use crate::connection::PoolError;
use crate::connection::connect::ConnectError;
use deadpool::managed::TimeoutType;
use outlast_core::{Error, Invalid, Source};
use std::fmt;
use tokio_postgres::error::{DbError, SqlState};

/// The failure of a transaction, before the verb turns it into an [`Error`].
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the server or of the connection.
    Database(tokio_postgres::Error),
    /// The pool had no connection to give.
    Pool(PoolError),
    /// An error of the verb, not of the database.
    Verb(Error),
}

impl Failure {
    /// Returns whether two transactions conflicted, so that a retry can help.
    ///
    /// The order of locks leaves two known deadlocks, each with a terminate (docs/protocol.md,
    /// defect 7). The server ends them, and the retry has the right result.
    pub(crate) fn is_contention(&self) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("deadlock-is-an-error") {
            return false;
        }
        matches!(
            self.code(),
            Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
        )
    }

    /// Returns whether two claims of one partition key raced (I8). The loser looks again.
    ///
    /// The constraint is compared by name: a violation of any other one is not a race.
    pub(crate) fn is_lost_race_for_a_key(&self) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("lost-race-for-a-key-is-an-error") {
            return false;
        }
        let Failure::Database(error) = self else {
            return false;
        };
        error.as_db_error().is_some_and(|error| {
            error.code() == &SqlState::UNIQUE_VIOLATION
                && error.constraint() == Some("instances_partition")
        })
    }

    /// Returns whether the session is read-only: its server has become a standby.
    pub(crate) fn is_read_only(&self) -> bool {
        self.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Returns whether the server's disk is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.code() == Some(&SqlState::DISK_FULL)
    }

    /// Returns whether the role lacks a right.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Returns whether one row caused the error, so that the others can be written without it.
    ///
    /// A class that is missing here makes the whole batch fail again and again. A class too many
    /// rejects every outcome of a batch for a fault of the server.
    pub(crate) fn blames_a_row(&self) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("bad-row-fails-its-batch") {
            return false;
        }
        // Data exceptions, integrity violations, program limits, and errors that triggers raise.
        self.code().is_some_and(|code| {
            ["22", "23", "54", "P0"]
                .iter()
                .any(|class| code.code().starts_with(class))
        })
    }

    /// Returns whether a named statement is missing, because a pooler switched the process.
    pub(crate) fn is_missing_statement(&self) -> bool {
        matches!(
            self.code(),
            Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT)
        )
    }

    /// Returns the server's code, from a statement or from the login.
    fn code(&self) -> Option<&SqlState> {
        match self {
            Failure::Database(error) => error.code(),
            Failure::Pool(PoolError::Backend(ConnectError::Failed(error))) => error.code(),
            Failure::Pool(_) | Failure::Verb(_) => None,
        }
    }

    /// Returns the reason why a row cannot be written.
    pub(crate) fn into_invalid(self) -> Invalid {
        let reason = match &self {
            Failure::Database(error) => match error.as_db_error() {
                Some(error) => ServerError::of(error).message,
                None => error.to_string(),
            },
            Failure::Pool(error) => error.to_string(),
            Failure::Verb(error) => error.to_string(),
        };
        Invalid::new("outcome", format!("was refused by the database: {reason}"))
    }

    /// Returns the error of `operation`.
    pub(crate) fn during(self, operation: &'static str) -> Error {
        match self {
            Failure::Verb(error) => error,
            Failure::Database(error) => classify(operation, error),
            Failure::Pool(PoolError::Backend(ConnectError::Failed(error))) => {
                classify(operation, error)
            }
            Failure::Pool(PoolError::Closed) => Error::Closed { operation },
            Failure::Pool(error) => Error::Transient {
                operation,
                reason: without_connection(&error).to_owned(),
                source: Some(error.into()),
            },
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        Failure::Database(error)
    }
}

impl From<ConnectError> for Failure {
    fn from(reason: ConnectError) -> Failure {
        Failure::Pool(PoolError::Backend(reason))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Verb(error)
    }
}

impl From<Invalid> for Failure {
    /// A value that was read, not given: the stored value is corrupt.
    fn from(invalid: Invalid) -> Failure {
        Failure::Verb(Error::Corrupt {
            operation: "read",
            reason: invalid.to_string(),
            source: Some(invalid.into()),
        })
    }
}

fn without_connection(error: &PoolError) -> &'static str {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            "no connection became free in time; raise max_connections of the store, or look for slow statements"
        }
        PoolError::Backend(ConnectError::TimedOut)
        | PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            "the server did not answer in time; is it reachable and not overloaded?"
        }
        PoolError::Backend(ConnectError::Failed(_))
        | PoolError::Closed
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(_) => "no connection could be made",
    }
}

/// Classifies a driver's error by what a caller should do about it.
fn classify(operation: &'static str, error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(error) => classify_code(operation, ServerError::of(error)),
        None => without_code(operation, error),
    }
}

/// The server's error without the values that it quotes.
///
/// Details, contexts and hints are left out. They hold whole rows (`Failing row contains ...`),
/// and errors go to logs.
#[derive(Debug)]
pub(crate) struct ServerError {
    code: String,
    message: String,
    constraint: Option<String>,
}

impl ServerError {
    fn of(error: &DbError) -> ServerError {
        ServerError {
            constraint: error.constraint().map(ToOwned::to_owned),
            ..ServerError::new(error.code().code(), error.message())
        }
    }

    pub(crate) fn new(code: &str, message: &str) -> ServerError {
        // The message about a refused value ends with it: `invalid input syntax for type x:
        // "value"`.
        let quotes_value = code.starts_with("22");
        let message = match message.split_once(": \"") {
            Some((before, _)) if quotes_value => before,
            _ => message,
        };
        ServerError {
            code: code.to_owned(),
            message: message.to_owned(),
            constraint: None,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        match &self.constraint {
            Some(constraint) => write!(f, ", constraint {constraint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

/// Classifies the server's error, for any driver.
pub(crate) fn classify_code(operation: &'static str, error: ServerError) -> Error {
    let (code, message) = (error.code.clone(), error.message.clone());
    let source: Source = error.into();
    let state = SqlState::from_code(&code);
    if let Some(advice) = advice_when_unusable(operation, &state) {
        return Error::Unusable {
            operation,
            reason: format!("{message}; {advice}"),
            source: Some(source),
        };
    }
    if let Some(advice) = advice_when_transient(&state) {
        return Error::Transient {
            operation,
            reason: format!("{message}{advice}"),
            source: Some(source),
        };
    }
    match code.get(..2) {
        // The checks of outlast-core have let a value through that the server refuses.
        Some("22" | "54") => Error::Invalid {
            operation,
            invalid: Invalid::new("input", format!("was refused by the database: {message}")),
        },
        _ => Error::Corrupt {
            operation,
            reason: format!("unexpected answer of the database ({code}): {message}"),
            source: Some(source),
        },
    }
}

fn advice_when_unusable(operation: &str, code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password in the URL, and the server's pg_hba.conf"
        }
        SqlState::UNDEFINED_OBJECT if operation == "grant" => {
            "create the role first, or mend its name; nothing was granted"
        }
        SqlState::INVALID_CATALOG_NAME => "create the database, or mend its name in the URL",
        SqlState::INSUFFICIENT_PRIVILEGE => match operation {
            "migrate" => {
                "migrations are for the schema's owner: run them as that role, and connect as this one afterwards, once it has its rights (outlast_postgres::Roles)"
            }
            "grant" => "rights are given by the schema's owner: connect as that role",
            _ => {
                "the role lacks a right: give it with outlast_postgres::Roles, as the schema's owner and again after every migration, or connect as a role that has it"
            }
        },
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::UNDEFINED_COLUMN
        | SqlState::INVALID_SCHEMA_NAME => {
            "the schema is missing or was changed by hand; run the migrations, or mend the schema's name"
        }
        _ => return None,
    })
}

fn advice_when_transient(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; the database is read-only: connect to the primary (target_session_attrs=read-write), or turn default_transaction_read_only off"
        }
        SqlState::DISK_FULL => "; the server's disk is full: make room, nothing was written",
        SqlState::TOO_MANY_CONNECTIONS => {
            "; raise the server's max_connections or lower the store's"
        }
        SqlState::QUERY_CANCELED => "; it took longer than the store allows",
        SqlState::LOCK_NOT_AVAILABLE => "; somebody holds a lock for too long",
        _ => match code.code().get(..2).unwrap_or_default() {
            // Connections, rollbacks, resources, operator interventions, system errors.
            "08" | "25" | "40" | "53" | "55" | "57" | "58" => "",
            _ => return None,
        },
    })
}

/// Classifies errors of the connection: the server was unreachable, or closed the connection.
///
/// The driver has no kinds for them, so the texts of its errors only choose an advice or end a
/// useless retry. A text that is not recognised is transient.
fn without_code(operation: &'static str, error: tokio_postgres::Error) -> Error {
    // The driver's text often leaves out its causes, such as "Connection refused".
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !reason.contains(&inner_text) {
            reason = format!("{reason}: {inner_text}");
        }
        cause = inner.source();
    }
    let refused = reason.contains("Connection refused") || reason.contains("No such file");
    if reason.contains("certificate") {
        return Error::Unusable {
            operation,
            reason: format!(
                "{reason}; give the server's root certificate with sslrootcert, or use sslmode=require to encrypt without checking it"
            ),
            source: Some(error.into()),
        };
    }
    if reason.contains("password missing") || reason.contains("does not support TLS") {
        return Error::Unusable {
            operation,
            reason: format!("{reason}; check the URL's password and sslmode"),
            source: Some(error.into()),
        };
    }
    let advice = if refused {
        "; is PostgreSQL running there, and do host and port in the URL name it?"
    } else if reason.contains("lookup address") {
        "; does the host in the URL exist?"
    } else if reason.contains("does not allow writes") {
        "; no host of the URL takes writes now"
    } else {
        ""
    };
    Error::Transient {
        operation,
        reason: format!("{reason}{advice}"),
        source: Some(error.into()),
    }
}
