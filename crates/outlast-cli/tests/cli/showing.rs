//! Hostile text in the output: it can neither control the terminal nor look like other text.

use crate::support::{Site, on_both_databases};

on_both_databases!(
    payloads_are_shown_escaped_and_stay_the_same_json,
    names_with_invisible_characters_are_refused,
    reasons_and_error_messages_are_shown_escaped,
);

/// An 8-bit start of an escape sequence, a delete, a reversal of the text direction, and invisible
/// characters.
const HOSTILE: &str = "a\u{9b}31m\u{7f}\u{202e}\u{200b}\u{2028}\u{feff}z";

fn is_safe(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c != '\n' && outlast_core::text::is_unsafe(c))
}

async fn payloads_are_shown_escaped_and_stay_the_same_json(site: &Site) {
    let parameter = format!("text={HOSTILE}");
    let id = site
        .run(["insert", "clerk", "start", "-p", &parameter])
        .succeeds()
        .line();
    for format in ["json", "table"] {
        for command in [
            &["get", &id][..],
            &["get", &id, "--state"],
            &["list"],
            &["tree", &id],
        ] {
            let mut run = site.command([]);
            run.args(command).args(["-o", format]);
            let shown = crate::support::Ran::of(run).succeeds().out();
            assert!(is_safe(&shown), "{command:?} -o {format}: {shown:?}");
        }
    }
    let state = site.run(["get", &id, "--state"]).succeeds().json();
    assert_eq!(state["text"], HOSTILE, "the JSON value is unchanged");
    let table = site.run(["get", &id]).succeeds().out();
    assert!(table.contains("\\u{202e}"), "{table}");
}

async fn names_with_invisible_characters_are_refused(site: &Site) {
    let odd = "a\u{202e}b";
    for arguments in [
        ["insert", odd, "start", "--queue", "default"],
        ["insert", "clerk", odd, "--queue", "default"],
        ["insert", "clerk", "start", "--queue", odd],
        ["insert", "clerk", "start", "--key", odd],
        ["insert", "clerk", "start", "--partition-key", odd],
    ] {
        let refused = site.run(arguments).ends_with(2);
        let message = refused.err();
        assert!(
            message.contains("format character \\u{202e}"),
            "{arguments:?}: {message}"
        );
        assert!(is_safe(&message), "{message:?}");
    }
}

async fn reasons_and_error_messages_are_shown_escaped(site: &Site) {
    let id = site.run(["insert", "clerk", "start"]).succeeds().line();
    site.run(["terminate", &id, "--reason", HOSTILE]).succeeds();
    for shown in [site.run(["get", &id]), site.run(["list", "-o", "json"])] {
        assert!(is_safe(&shown.out()), "{:?}", shown.out());
    }
    let missed = site.run(["get", "--machine", HOSTILE, "--key", HOSTILE]);
    assert!(is_safe(&missed.err()), "{:?}", missed.err());
    let queue = site.run(["queues", "pause", HOSTILE]);
    assert!(is_safe(&queue.err()), "{:?}", queue.err());
}
