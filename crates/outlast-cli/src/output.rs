//! Where output goes: data to stdout, everything else to stderr.

use crate::failure::Failure;
use crate::table::Table;
use clap::ValueEnum;
use outlast_core::text::{escaped_json, escaped_lines};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document per line
    Json,
    /// One id per line, for `outlast retry -` and its like
    Ids,
}

/// Stdout, and how to write to it.
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

    /// Whether somebody looks at it as it comes.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// One line of data, or several. Nothing in it steers a terminal.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.print(&escaped_lines(text.as_ref()))
    }

    /// One JSON document as it is stored, in a form that steers no terminal and means the same.
    pub(crate) fn document(&self, text: &str) -> Result<(), Failure> {
        self.print(&escaped_json(text))
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        // A pipe is read while it is written: `watch` would otherwise say nothing for long.
        Ok(out.flush()?)
    }

    pub(crate) fn json(&self, object: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(object);
        self.document(&text.map_err(|error| Failure::Failed(error.to_string()))?)
    }

    /// The cells are harmless, and the colours are ours.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        let mut lines = table.lines().into_iter();
        lines.try_for_each(|line| self.print(&line))
    }
}

/// Something to know that is no data. When nobody listens, nobody needs it.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", escaped_lines(text.as_ref()));
}

/// Stderr for logs, which name what others have named.
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
