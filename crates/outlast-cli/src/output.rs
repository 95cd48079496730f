//! Output: data to stdout, everything else to stderr.

use crate::failure::Failure;
use crate::table::Table;
use clap::ValueEnum;
use outlast_core::text::{escaped_json, escaped_lines};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document per line
    Json,
    /// One id per line, as input for `outlast retry -` and other commands
    Ids,
}

/// Writes data to stdout in the chosen format.
pub(crate) struct Output {
    pub(crate) format: Format,
    terminal: bool,
    colours: bool,
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        let terminal = std::io::stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Output {
            format,
            terminal,
            colours: terminal && !unwanted,
        }
    }

    /// Returns whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// Prints one line of data or several. It escapes terminal control sequences.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.print(&escaped_lines(text.as_ref()))
    }

    /// Prints one stored JSON document. It escapes terminal control characters without changing
    /// the value.
    pub(crate) fn document(&self, text: &str) -> Result<(), Failure> {
        self.print(&escaped_json(text))
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        // A pipe is read while it is written: without the flush, `watch` would print nothing for
        // long.
        Ok(out.flush()?)
    }

    pub(crate) fn json(&self, object: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(object);
        self.document(&text.map_err(|error| Failure::Failed(error.to_string()))?)
    }

    /// The cells are already escaped, and the colours are ours.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        let mut lines = table.lines().into_iter();
        lines.try_for_each(|line| self.print(&line))
    }
}

/// Prints a note to stderr. A closed stderr is ignored.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", escaped_lines(text.as_ref()));
}

/// A log writer to stderr that escapes foreign text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logs;

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        std::io::stderr().write_all(escaped_lines(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
