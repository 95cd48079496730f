//! The program on a terminal: answers to its questions, and `top`.

use crate::support::{Site, on_both_databases};
use crate::terminal::Terminal;

on_both_databases!(
    unconfirmed_commands_change_nothing,
    confirmed_commands_are_carried_out,
    ending_a_family_asks_with_the_number_of_live_instances,
    collecting_asks_with_the_number_of_instances_that_it_removes,
    top_draws_on_the_terminal_and_leaves_it_as_it_was,
);

fn insert(site: &Site, many: usize) -> Vec<String> {
    (0..many)
        .map(|_| site.run(["insert", "a", "start"]).succeeds().line())
        .collect()
}

fn cancelled(site: &Site) -> String {
    let count = site.run(["count", "--status", "cancelled"]);
    count.succeeds().line()
}

async fn unconfirmed_commands_change_nothing(site: &Site) {
    insert(site, 3);
    let end_of_input = "\u{4}";
    for answer in ["n\n", "\n", "maybe\n", end_of_input] {
        let mut terminal = Terminal::start(&site.command(["terminate", "--machine", "a"]));
        terminal.shows("terminate 3 instances? [y/N] ");
        terminal.types(answer);
        terminal.shows("aborted");
        terminal.ends_with(4);
    }
    assert_eq!(cancelled(site), "0");
}

async fn confirmed_commands_are_carried_out(site: &Site) {
    let ids = insert(site, 3);
    let mut terminal = Terminal::start(&site.command(["terminate", &ids[0], &ids[1]]));
    terminal.shows("terminate 2 instances? [y/N] ");
    terminal.types("y\n");
    terminal.shows("2 terminated");
    terminal.ends_with(0);
    let mut terminal = Terminal::start(&site.command(["terminate", "--all"]));
    terminal.shows("terminate 1 instance? [y/N] ");
    terminal.types("YES\n");
    terminal.shows("1 terminated");
    terminal.ends_with(0);
    assert_eq!(cancelled(site), "3");
}

async fn ending_a_family_asks_with_the_number_of_live_instances(site: &Site) {
    let id = insert(site, 1).remove(0);
    let question = format!("terminate the family of instance {id}, 1 live of 1? [y/N] ");
    for (answer, expected, code) in [("n\n", "aborted", 4), ("y\n", "terminated: ", 0)] {
        let mut terminal = Terminal::start(&site.command(["terminate", &id, "--tree"]));
        terminal.shows(&question);
        terminal.types(answer);
        terminal.shows(expected);
        terminal.ends_with(code);
    }
    assert_eq!(cancelled(site), "1");
}

async fn collecting_asks_with_the_number_of_instances_that_it_removes(site: &Site) {
    let ids = insert(site, 3);
    site.run(["terminate", &ids[0], &ids[1], "--yes"])
        .succeeds();
    let collect = || Terminal::start(&site.command(["collect", "--older-than", "0s"]));
    for (answer, expected, code) in [("n\n", "aborted", 4), ("y\n", "2 deleted", 0)] {
        let mut terminal = collect();
        terminal.shows("delete 2 instances that finished more than 0 ms ago");
        terminal.shows("? [y/N] ");
        terminal.types(answer);
        terminal.shows(expected);
        terminal.ends_with(code);
    }
    let mut terminal = collect();
    terminal.shows("no instances match");
    terminal.shows("0 deleted");
    terminal.ends_with(0);
}

async fn top_draws_on_the_terminal_and_leaves_it_as_it_was(site: &Site) {
    insert(site, 3);
    let control_c = "\u{3}";
    for key in ["q", control_c] {
        let mut terminal = Terminal::start(&site.command(["top"]));
        terminal.shows(ENTER_ALTERNATE_SCREEN);
        terminal.shows("outlast top");
        terminal.shows("3 runnable");
        assert!(!terminal.is_in_line_mode(), "top reads single keys");
        terminal.types(key);
        terminal.shows(LEAVE_ALTERNATE_SCREEN);
        terminal.ends_with(0);
        assert!(terminal.is_in_line_mode());
    }
}

const ENTER_ALTERNATE_SCREEN: &str = "\u{1b}[?1049h";
const LEAVE_ALTERNATE_SCREEN: &str = "\u{1b}[?1049l";
