//! The failures of commands, and their exit codes.

use outlast::SetupError;
use outlast::store::{Error, ErrorKind};
use std::io;

/// The exit codes, as shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure, or `doctor` found something serious
  2  invalid command line
  3  no such instance or queue
  4  refused: the instance's status or its code does not allow it, or it was not confirmed
  5  the database, or the server that was asked, cannot be reached or used";

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command failed.
    Failed(String),
    /// The command failed, and its output already says why.
    Reported,
    /// The command line is invalid.
    Usage(String),
    /// The named instance or object does not exist.
    NotFound(String),
    /// The current state does not allow it, or the user did not confirm.
    Refused(String),
    /// The database, or the server that was asked, cannot be reached or used.
    Database(String),
    /// The reader has closed stdout.
    OutputClosed,
}

impl Failure {
    /// Returns the text to print; `None` when the user already knows.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::Failed(words)
            | Failure::Usage(words)
            | Failure::NotFound(words)
            | Failure::Refused(words)
            | Failure::Database(words) => Some(words),
            Failure::Reported | Failure::OutputClosed => None,
        }
    }

    /// Returns the exit code; see [`EXIT_CODES`].
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Failed(_) | Failure::Reported => 1,
            Failure::Usage(_) => 2,
            Failure::NotFound(_) => 3,
            Failure::Refused(_) => 4,
            Failure::Database(_) => 5,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let words = with_causes(&error);
        match error.kind() {
            ErrorKind::Invalid if matches!(error, Error::Invalid { .. }) => Failure::Usage(words),
            ErrorKind::Invalid | ErrorKind::Transient | ErrorKind::Corrupt | ErrorKind::Closed => {
                Failure::Database(words)
            }
            ErrorKind::Conflict => Failure::Refused(words),
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Failure {
        if let SetupError::Store(error) = error {
            return error.into();
        }
        Failure::Failed(with_causes(&error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Failed(format!("cannot write output: {error}"))
    }
}

/// Formats an error with its causes, without repetition.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let (mut cause, mut last) = (error.source(), words.clone());
    while let Some(next) = cause {
        let text = next.to_string();
        // A cause may repeat the text before it, or add only a number.
        if !words.contains(&text) && !text.contains(&last) {
            words += &format!(": {text}");
            last = text;
        }
        cause = next.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_exit_code_that_help_lists() {
        let word = String::new;
        for (failure, code) in [
            (Failure::Failed(word()), 1),
            (Failure::Reported, 1),
            (Failure::Usage(word()), 2),
            (Failure::NotFound(word()), 3),
            (Failure::Refused(word()), 4),
            (Failure::Database(word()), 5),
        ] {
            assert_eq!(failure.code(), code);
            assert!(EXIT_CODES.contains(&format!("\n  {code}  ")));
        }
    }

    #[test]
    fn store_errors_map_to_different_exit_codes() {
        let closed = Error::Closed { operation: "get" };
        assert_eq!(Failure::from(closed).code(), 5);
        let invalid = outlast::store::Invalid::new("queue", "is empty").during("insert");
        let failure = Failure::from(invalid);
        assert_eq!(failure.code(), 2);
        assert_eq!(failure.message(), Some("insert: queue is empty"));
        let unread = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(unread).code(), 0);
    }
}
