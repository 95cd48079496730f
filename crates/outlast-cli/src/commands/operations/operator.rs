//! The options that are recorded with an operation.

use clap::Args;
use outlast::Note;

/// The name and the reason of an operator.
#[derive(Args, Clone, Debug)]
pub(crate) struct Operator {
    /// The reason, for the log of operations
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The name, for the log of operations. Default: your user name
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

impl Operator {
    pub(crate) fn note(&self) -> Note {
        let user = || {
            std::env::var("USER")
                .or_else(|_| std::env::var("USERNAME"))
                .ok()
        };
        let by = self
            .by
            .clone()
            .or_else(user)
            .filter(|name| !name.is_empty());
        let note = Note::by(by.unwrap_or_else(|| "outlast".to_owned()));
        match &self.reason {
            Some(reason) => note.because(reason),
            None => note,
        }
    }
}
