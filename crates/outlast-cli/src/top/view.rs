//! Draws a snapshot.

use super::operation_lines::OperationLine;
use super::snapshot::Snapshot;
use crate::commands::workers::lease;
use crate::format::{count, harmless, relative, time_of_day};
use outlast::Status;
use outlast::store::{Instance, QueueSummary, Timestamp, Worker};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};

/// The lines of a table besides its rows: its frame and its headings.
const AROUND: u16 = 3;

/// The space between two counts.
const GAP: &str = "   ";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, seen: &Snapshot) {
    let counts = statuses(seen, frame.area().width.saturating_sub(2));
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(counts.len() as u16 + 2),
        Constraint::Min(0),
    ]);
    let [head, top, rest] = areas.areas(frame.area());
    frame.render_widget(heading(seen), head);
    let title = match seen.counts.complete {
        true => " instances ",
        false => " instances (still counting) ",
    };
    let counts = Paragraph::new(counts).block(Block::bordered().title(title));
    frame.render_widget(counts, top);
    let wanted = [
        seen.queues.len().clamp(1, 8),
        seen.failures.len().max(1),
        seen.workers.len().clamp(1, 6),
        seen.operations.len().clamp(1, 5),
    ];
    let [queues, failures, workers, operations] =
        shares(wanted, rest.height).map(Constraint::Length);
    let areas = Layout::vertical([queues, workers, operations, failures]);
    let [queues, workers, operations, failures] = areas.areas(rest);
    draw_queues(frame, queues, &seen.queues, seen.now);
    draw_workers(frame, workers, &seen.workers, seen.now);
    draw_operations(frame, operations, &seen.operations, seen.now);
    draw_failures(frame, failures, &seen.failures, seen.now);
}

/// Returns the height of each table, the most important first. A table without room for a row is
/// left out, so that a small screen shows fewer tables instead of headings only. The others get
/// rows in turn; the remaining lines go to the failures.
fn shares(wanted: [usize; 4], height: u16) -> [u16; 4] {
    let (mut given, mut left) = ([0_u16; 4], height);
    for table in &mut given {
        if left > AROUND {
            (*table, left) = (AROUND + 1, left - AROUND - 1);
        }
    }
    let mut before = 0;
    while left > 0 && left != before {
        before = left;
        for (table, wanted) in given.iter_mut().zip(wanted) {
            let is_wanted = *table > 0 && usize::from(*table - AROUND) < wanted;
            if left > 0 && is_wanted {
                (*table, left) = (*table + 1, left - 1);
            }
        }
    }
    let [_, failures, _, _] = &mut given;
    if *failures > 0 {
        *failures += left;
    }
    given
}

fn heading(seen: &Snapshot) -> Paragraph<'_> {
    let mut parts = vec![
        Span::from("outlast top").bold(),
        Span::from(format!("  {} UTC  ", time_of_day(seen.now))),
        Span::from("q quits").dim(),
    ];
    if let Some(error) = &seen.error {
        let words = format!("  stale: {}", harmless(error));
        parts.push(Span::from(words).red());
    }
    Paragraph::new(Line::from(parts))
}

/// Draws the counts by status, on as many lines as they need.
fn statuses(seen: &Snapshot, width: u16) -> Vec<Line<'static>> {
    let more = if seen.counts.complete { "" } else { "+" };
    let mut lines = vec![Line::default()];
    for status in Status::ALL {
        let number = seen.counts.by_status.get(&status).copied();
        let number = number.unwrap_or_default();
        let style = match number {
            0 => Style::new().dim(),
            _ => Style::new().fg(colour(status)),
        };
        let count = Span::styled(format!("{number}{more} {status}"), style);
        let taken = lines.last().map_or(0, Line::width);
        if taken > 0 && taken + GAP.len() + count.width() > usize::from(width) {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut() {
            if !line.spans.is_empty() {
                line.push_span(GAP);
            }
            line.push_span(count);
        }
    }
    lines
}

fn colour(status: Status) -> Color {
    match status {
        Status::Runnable => Color::Cyan,
        Status::Executing => Color::Blue,
        Status::AwaitingSignal | Status::Sleeping | Status::AwaitingChildren => Color::Yellow,
        Status::Done => Color::Green,
        Status::Failed => Color::Red,
        Status::Cancelled => Color::DarkGray,
    }
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, queues: &[QueueSummary], now: Timestamp) {
    let rows = queues.iter().map(|queue| {
        let oldest = queue.oldest_eligible_at.map(|at| relative(at, now));
        let row = Row::new([
            harmless(&queue.name),
            count(queue.eligible),
            count(queue.delayed),
            count(queue.executing),
            oldest.unwrap_or_default(),
            if queue.paused { "paused" } else { "" }.to_owned(),
        ]);
        if queue.paused { row.yellow() } else { row }
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(12),
        Constraint::Length(7),
    ];
    let headings = ["queue", "due", "delayed", "executing", "oldest due", ""];
    draw_table(frame, area, " queues ", &headings, rows.collect(), &widths);
}

fn draw_workers(frame: &mut Frame<'_>, area: Rect, workers: &[Worker], now: Timestamp) {
    let rows = workers.iter().map(|worker| {
        let row = Row::new([
            worker.id.to_string(),
            harmless(&worker.name),
            harmless(&worker.host),
            harmless(&worker.queues.join(", ")),
            relative(worker.started_at, now),
            lease(worker, now),
        ]);
        let is_alive = worker.lease_expires_at > now;
        if is_alive { row } else { row.red() }
    });
    let widths = [
        Constraint::Length(6),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(11),
        Constraint::Length(16),
    ];
    let headings = ["id", "worker", "host", "queues", "started", "lease"];
    draw_table(frame, area, " workers ", &headings, rows.collect(), &widths);
}

fn draw_operations(
    frame: &mut Frame<'_>,
    area: Rect,
    operations: &[OperationLine],
    now: Timestamp,
) {
    let rows = operations.iter().map(|act| {
        Row::new([
            act.verb.to_string(),
            harmless(&act.to),
            harmless(&act.by),
            relative(act.at, now),
            harmless(&act.reason),
        ])
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Length(26),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Fill(1),
    ];
    let headings = ["what", "to", "by", "when", "reason"];
    draw_table(
        frame,
        area,
        " operations ",
        &headings,
        rows.collect(),
        &widths,
    );
}

fn draw_failures(frame: &mut Frame<'_>, area: Rect, failures: &[Instance], now: Timestamp) {
    let rows = failures.iter().map(|it| {
        Row::new([
            it.id.to_string(),
            harmless(&it.machine),
            harmless(&it.step),
            relative(it.finished_at.unwrap_or(it.updated_at), now),
            harmless(it.last_error.as_deref().unwrap_or_default()),
        ])
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Length(16),
        Constraint::Length(14),
        Constraint::Length(11),
        Constraint::Fill(1),
    ];
    let headings = ["id", "machine", "step", "failed", "error"];
    draw_table(
        frame,
        area,
        " newest failures ",
        &headings,
        rows.collect(),
        &widths,
    );
}

/// Draws a framed table, or a dash if it is empty.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &'static str,
    headings: &[&'static str],
    rows: Vec<Row<'_>>,
    widths: &[Constraint],
) {
    let block = Block::bordered().title(title);
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("none").dim().block(block), area);
        return;
    }
    let header = Row::new(headings.iter().copied()).bold();
    let table = Table::new(rows, widths).header(header).block(block);
    frame.render_widget(table, area);
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
