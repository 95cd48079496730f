//! Who operates, and why: what is recorded with it.

use clap::Args;
use outlast::Note;

/// Who, and why.
#[derive(Args, Clone, Debug)]
pub(crate) struct Operator {
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Who, for the record; your user name unless said otherwise
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
