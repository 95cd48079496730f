//! Tests of the screen's content, read back from a test terminal.

use super::*;
use crate::top::snapshot::Watcher;
use outlast::store::{Json, NewInstance};
use outlast::{Client, Note, Sqlite};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn screen(seen: &Snapshot, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, seen)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(line).collect()
}

#[track_caller]
fn line_with<'a>(screen: &'a [String], words: &str) -> &'a str {
    let found = screen.iter().find(|line| line.contains(words));
    found.unwrap_or_else(|| panic!("{words:?} is not on the screen:\n{}", screen.join("\n")))
}

#[test]
fn the_screen_says_when_nothing_is_known_yet() {
    let screen = screen(&Snapshot::default(), 100, 30);
    line_with(&screen, "outlast top");
    line_with(&screen, "instances (still counting)");
    assert_eq!(
        screen.iter().filter(|line| line.contains("none")).count(),
        4
    );
}

#[tokio::test]
async fn counts_queues_and_operations_are_on_the_screen() {
    let client = Client::new(Sqlite::in_memory().unwrap());
    let rows = (0..3).map(|_| NewInstance::new("checkout", "start", Json::null()).queue("mail"));
    let inserted = client.admin().insert_rows(rows.collect()).await.unwrap();
    let first = inserted[0].new_id().unwrap();
    client
        .admin()
        .terminate(first, Note::by("ada"))
        .await
        .unwrap();
    client.admin().pause("mail", Note::by("ada")).await.unwrap();
    let seen = Watcher::default().look(&client).await.unwrap();
    let screen = screen(&seen, 120, 30);
    let counts = line_with(&screen, "runnable");
    assert!(
        counts.contains("2 runnable") && counts.contains("1 cancelled"),
        "{counts}"
    );
    let queue = line_with(&screen, "mail");
    assert!(queue.contains("paused"), "{queue}");
    let act = line_with(&screen, "terminate");
    assert!(
        act.contains(&first.to_string()) && act.contains("ada"),
        "{act}"
    );
    line_with(&screen, "queue mail");
}

#[tokio::test]
async fn errors_of_instances_are_escaped_and_a_failed_read_is_shown() {
    let client = Client::new(Sqlite::in_memory().unwrap());
    let row = NewInstance::new("checkout", "charge", Json::null());
    let id = client.admin().insert_rows(vec![row]).await.unwrap()[0]
        .new_id()
        .unwrap();
    let mut failed = client.find(id).await.unwrap().unwrap();
    failed.last_error = Some("card \u{1b}[31mdeclined".into());
    let seen = Snapshot {
        failures: vec![failed],
        error: Some("the server is gone".into()),
        ..Snapshot::default()
    };
    let screen = screen(&seen, 120, 30);
    let failure = line_with(&screen, "declined");
    assert!(
        failure.contains("charge") && !failure.contains('\u{1b}'),
        "{failure}"
    );
    line_with(&screen, "stale: the server is gone");
}

#[tokio::test]
async fn a_screen_of_80_by_24_has_every_count_and_a_row_of_every_table() {
    let client = Client::new(Sqlite::in_memory().unwrap());
    let row = |queue: &str| NewInstance::new("checkout", "charge", Json::null()).queue(queue);
    let rows = (0..5).map(|number| row(&format!("mail-{number}")));
    let inserted = client.admin().insert_rows(rows.collect()).await.unwrap();
    for inserted in &inserted {
        let id = inserted.new_id().unwrap();
        client.admin().cancel(id, Note::by("ada")).await.unwrap();
    }
    let mut failed = client.find(inserted[0].new_id().unwrap()).await.unwrap();
    failed.as_mut().unwrap().last_error = Some("card declined".into());
    let mut seen = Watcher::default().look(&client).await.unwrap();
    seen.failures = vec![failed.unwrap(); 10];
    let screen = screen(&seen, 80, 24);
    for status in Status::ALL {
        line_with(&screen, &format!(" {status}"));
    }
    line_with(&screen, "mail-0");
    line_with(&screen, "none");
    line_with(&screen, "ada");
    line_with(&screen, "card declined");
}

#[test]
fn tables_without_room_for_a_row_are_left_out_and_failures_have_the_rest() {
    assert_eq!(shares([8, 10, 1, 5], 0), [0, 0, 0, 0]);
    assert_eq!(shares([8, 10, 1, 5], 11), [6, 5, 0, 0]);
    assert_eq!(shares([8, 10, 1, 5], 18), [5, 5, 4, 4]);
    assert_eq!(shares([1, 1, 1, 1], 40), [4, 28, 4, 4]);
}

#[test]
fn drawing_on_a_small_screen_does_not_panic() {
    for (width, height) in [(1, 1), (20, 5), (80, 10)] {
        screen(&Snapshot::default(), width, height);
    }
}
