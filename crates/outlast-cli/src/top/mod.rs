//! `outlast top`: the whole database on one screen.
//!
//! `snapshot` reads, `status_counts` counts all instances in slices, `operation_lines` folds the
//! operations, `view` draws.

mod operation_lines;
mod snapshot;
mod status_counts;
mod view;

use crate::database::Database;
use crate::failure::Failure;
use crate::format::duration;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use snapshot::{Snapshot, Watcher};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often the keyboard thread checks whether its receiver still exists.
const LISTENING: Duration = Duration::from_millis(250);

/// The shortest interval: nobody reads faster, and every read costs the database something.
const SHORTEST: Duration = Duration::from_millis(250);

/// Arguments of `top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The interval between two updates
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    every: Duration,
}

/// A key that the screen handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPress {
    Quit,
    Redraw,
}

pub(crate) async fn run(args: &TopArgs, database: &Database) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() {
        let words =
            "top needs a terminal; in scripts use `outlast count` or `outlast queues -o json`";
        return Err(Failure::Usage(words.to_owned()));
    }
    let terminal = ratatui::try_init()?;
    let result = watch(args, database, terminal).await;
    ratatui::restore();
    result
}

async fn watch(
    args: &TopArgs,
    database: &Database,
    mut terminal: DefaultTerminal,
) -> Result<(), Failure> {
    let mut keys = listen();
    let mut watcher = Watcher::default();
    let mut seen = Snapshot::default();
    loop {
        match watcher.look(&database.client).await {
            Ok(snapshot) => seen = snapshot,
            // The screen stays and shows the error: the database may come back.
            Err(error) => seen.error = Some(error.to_string()),
        }
        terminal.draw(|frame| view::draw(frame, &seen))?;
        let next_look = tokio::time::sleep(args.every.max(SHORTEST));
        tokio::pin!(next_look);
        loop {
            tokio::select! {
                () = &mut next_look => break,
                key = keys.recv() => match key {
                    Some(KeyPress::Redraw) => { terminal.draw(|frame| view::draw(frame, &seen))?; }
                    Some(KeyPress::Quit) | None => return Ok(()),
                },
            }
        }
    }
}

/// Reads the keyboard on its own thread, because the read blocks. The thread ends when the
/// receiver is dropped.
fn listen() -> mpsc::Receiver<KeyPress> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(LISTENING) {
                Ok(true) => event::read().ok().and_then(|event| key_press(&event)),
                Ok(false) => None,
                Err(_) => return,
            };
            if let Some(key) = key
                && sender.blocking_send(key).is_err()
            {
                return;
            }
        }
    });
    keys
}

fn key_press(event: &Event) -> Option<KeyPress> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => {
            let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
            let quits = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                || (is_interrupt && key.code == KeyCode::Char('c'));
            quits.then_some(KeyPress::Quit)
        }
        Event::Resize(_, _) => Some(KeyPress::Redraw),
        Event::Key(_)
        | Event::Mouse(_)
        | Event::Paste(_)
        | Event::FocusGained
        | Event::FocusLost => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn q_escape_and_control_c_quit_and_nothing_else_does() {
        let pressed = |code, modifiers| key_press(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(
            pressed(KeyCode::Char('q'), KeyModifiers::NONE),
            Some(KeyPress::Quit)
        );
        assert_eq!(
            pressed(KeyCode::Esc, KeyModifiers::NONE),
            Some(KeyPress::Quit)
        );
        assert_eq!(
            pressed(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(KeyPress::Quit)
        );
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key_press(&Event::Resize(80, 24)), Some(KeyPress::Redraw));
    }
}
