//! Tables for people: no frame, one line of headings, colours only on a terminal.

use crate::format::{harmless, relative, shortened};
use crate::json::shown_key;
use crate::output::Output;
use comfy_table::{Cell, Color, ContentArrangement, presets};
use outlast::Status;
use outlast::store::{Instance, Severity, Timestamp};

/// A table under construction.
pub(crate) struct Table {
    table: comfy_table::Table,
    colours: bool,
}

impl Table {
    pub(crate) fn new(output: &Output, headings: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        match output.is_terminal() {
            true => table.set_content_arrangement(ContentArrangement::Dynamic),
            false => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        match output.has_colours() {
            true => table.enforce_styling(),
            false => table.force_no_tty(),
        };
        if !headings.is_empty() {
            table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
        }
        Table {
            table,
            colours: output.has_colours(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.table.add_row(cells);
        // The first column has no padding, so that tables align with other lines.
        let columns = self.table.column_iter_mut();
        columns.for_each(|column| {
            column.set_padding((0, 2));
        });
    }

    /// Returns the lines without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = match self.colours {
            true => self.table.to_string(),
            false => self.table.trim_fmt(),
        };
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }
}

pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(harmless(text.as_ref()))
}

fn status(it: &Instance) -> Cell {
    let colour = match it.status {
        Status::Runnable => Color::Cyan,
        Status::Executing => Color::Blue,
        Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren => Color::Yellow,
        Status::Done => Color::Green,
        Status::Failed => Color::Red,
        Status::Cancelled => Color::DarkGrey,
    };
    Cell::new(it.status).fg(colour)
}

pub(crate) fn severity(severity: Severity) -> Cell {
    let colour = match severity {
        Severity::Fine => Color::Green,
        Severity::Warning => Color::Yellow,
        Severity::Serious => Color::Red,
    };
    Cell::new(severity.as_str()).fg(colour)
}

/// The headings of a row made by [`instance`].
pub(crate) const INSTANCE: [&str; 8] = [
    "id", "machine", "step", "status", "queue", "key", "updated", "error",
];

pub(crate) fn instance(it: &Instance, now: Timestamp) -> [Cell; 8] {
    const ERROR_CHARS_MAX: usize = 60;
    let error = it.last_error.as_deref().unwrap_or_default();
    [
        cell(it.id.to_string()),
        cell(format!("{}/{}", it.machine, it.version)),
        cell(&it.step),
        status(it),
        cell(&it.queue),
        cell(shown_key(&it.correlation_key).unwrap_or_default()),
        cell(relative(it.updated_at, now)),
        cell(shortened(error, ERROR_CHARS_MAX)),
    ]
}
