//! Every bound of the system, each with its reason, and the checks that apply them.
//!
//! Clients and stores check all input here first. So both stores refuse the same input with the
//! same text, and no invalid value reaches a statement (docs/protocol.md, defect 12).

use crate::text::{is_format, is_plain};
use crate::{Invalid, Timestamp, key};
use std::fmt;
use std::time::Duration;

/// Names of machines, queues, steps and signals: long enough for a sentence, short enough to keep
/// index entries small.
pub const NAME_BYTES_MAX: usize = 200;

/// Correlation, partition and dedup keys. PostgreSQL refuses index entries over 2,704 bytes; a key
/// of this size leaves room for the other columns, also as hexadecimal text.
pub const KEY_BYTES_MAX: usize = 512;

/// One state, result, error value or payload. Every commit rewrites the state, so larger values belong in an
/// object store, with their address in the state.
pub const JSON_BYTES_MAX: usize = 1024 * 1024;

/// One state, result, error value or payload as a codec has encoded it. The largest plain value fits as base64
/// with the overhead of encryption.
pub const ENCODED_BYTES_MAX: usize = 2 * JSON_BYTES_MAX;

/// Nesting of a JSON document. serde_json reads 128 levels; the difference is for the envelopes of
/// states and results.
pub const JSON_DEPTH_MAX: usize = 100;

/// An error text. Enough for a message with its causes; a stack trace belongs in the log.
pub const ERROR_BYTES_MAX: usize = 8 * 1024;

/// Names in one wait: every arriving signal is compared with each.
pub const AWAITED_NAMES_MAX: usize = 100;

/// Join sets in one park. Every finished child is compared with each.
pub const JOIN_SETS_MAX: usize = 100;

/// Commits in a row that change nothing but the revision. Working code changes its step, state or
/// history long before that. Without a bound such an instance would keep a slot and the disk busy.
pub const COMMITS_WITHOUT_PROGRESS_MAX: u32 = 1_000;

/// Unconsumed signals of an instance. A claim loads the whole inbox, so it needs a bound.
pub const INBOX_MAX: usize = 10_000;

/// Instances that a signal by key with a dedup key is compared with: the latest holders. Each
/// costs one lookup.
pub const HOLDERS_MAX: usize = 100;

/// Children of one fan-out: they are inserted in the parent's transaction.
pub const CHILDREN_MAX: usize = 100_000;

/// Rows of one verb. They are one transaction, and other transactions wait for its locks.
pub const BATCH_MAX: usize = 100_000;

/// Instances of one claim: they are locked, and then loaded, together.
pub const CLAIM_MAX: usize = 10_000;

/// Machine versions that one worker names in a claim: every eligible row is compared with each.
pub const MACHINES_MAX: usize = 1_000;

/// Queues that one worker names in a delivery: every woken row is compared with each.
pub const QUEUES_MAX: usize = 1_000;

/// Rows of one page.
pub const PAGE_MAX: usize = 1_000;

/// Rows of a page without a requested limit.
pub const PAGE_DEFAULT: usize = 50;

/// Bytes of the values on one page: states, results, payloads, event data, errors. A page with
/// large values has fewer rows than its limit, and at least one. Without this bound a page of the
/// largest values would take gigabytes.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The largest exact count. Beyond it the answer is "at least this many", because counting reads
/// every row.
pub const COUNT_MAX: u64 = 100_000;

/// Rows that one page reads, whether they fit its filter or not. Without this bound a filter that
/// fits nothing would read the whole table.
pub const SCAN_MAX: usize = 20_000;

/// Instances in one slice of a count by step: some milliseconds of reading, so that other queries
/// are not held up.
pub const STEP_COUNT_MAX: usize = 20_000;

/// Run counts that one call adds, and that one answer returns of each kind.
pub const RUN_STATS_MAX: usize = 10_000;

/// The largest count that one call adds. Eight million of them in one minute still fit the
/// databases' integers.
pub const RUN_STATS_COUNT_MAX: u64 = 1 << 40;

/// The longest time that one call adds, in microseconds: 35 years.
pub const RUN_STATS_MICROS_MAX: u64 = 1 << 50;

/// How long run counts are kept.
pub const RUN_STATS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Steps of a machine in a worker's registration.
pub const STEPS_MAX: usize = 1_000;

/// Bytes of all machines in a worker's registration: every query for workers reads them.
pub const OFFER_BYTES_MAX: usize = 256 * 1024;

/// The longest delay or timeout: ten years. Both databases compute such a moment without overflow.
pub const DELAY_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The earliest moment that a caller may give.
pub const MOMENT_MIN: Timestamp = Timestamp(0);

/// The latest moment that a caller may give, the end of the year 9999: both databases and every
/// client can show it.
pub const MOMENT_MAX: Timestamp = Timestamp(253_402_300_799_000_000);

/// How far a stored time may be ahead of the clock. A larger difference means that another clock
/// wrote it; synchronised clocks differ by less.
pub const AHEAD_MAX: Duration = Duration::from_secs(60);

/// Instances whose times a doctor run reads, the newest first: about half a second of reading.
pub const EXAMINED_MAX: usize = 200_000;

/// Instances that a doctor run checks for repairs, the newest first. Children have higher ids than
/// their parents, so it reads at most as many children.
pub const REPAIR_EXAMINED_MAX: usize = 50_000;

/// The longest lease: the claims of a dead worker wait this long before they run again.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The shortest lease: with less, an ordinary pause of the process would look like its death.
pub const LEASE_MIN: Duration = Duration::from_millis(100);

/// Events of one commit: twice what the largest fan-out needs.
pub const EVENTS_MAX: usize = 2 * CHILDREN_MAX;

/// Events of one run of a workflow: replaying more takes too long. The workflow must continue as
/// new before that.
pub const HISTORY_MAX: usize = 50_000;

/// Number of events from which a workflow learns that its history is long.
pub const HISTORY_LONG: usize = 10_000;

/// Handlers of updates in one workflow: a park awaits the names of all of them.
pub const UPDATE_HANDLERS_MAX: usize = 50;

/// Views of one instance: they are read as a whole.
pub const VIEWS_MAX: usize = 20;

/// Bytes of one view: each change writes it anew.
pub const VIEW_BYTES_MAX: usize = 64 * 1024;

/// Handlers of queries of one workflow: people choose from a list of their names.
pub const QUERIES_MAX: usize = 100;

/// Number of events up to which the start of every awaited child is recorded. They and the ends of
/// all awaited calls must fit. In a longer history, what remains is for the calls of the code.
pub const HISTORY_WITH_STARTS_MAX: usize = HISTORY_MAX / 2;

/// Bytes of the event data of one run.
pub const HISTORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Events of one page of a history.
pub const HISTORY_PAGE_MAX: usize = 10_000;

/// Transitions in the history of a machine. The machine may run for ever, its history may not grow
/// for ever. The last event says that it is full.
pub const TRANSITIONS_MAX: usize = 10_000;

/// The largest state that is kept with a transition: it is written a second time beside the row.
pub const TRANSITION_STATE_BYTES_MAX: usize = 256 * 1024;

/// Returns how many bytes of state are kept at this position of a history, counted from 1.
///
/// The bound shrinks with the position. So the sum is bounded, at some 20 MiB, and the engine need
/// not sum up the earlier states.
pub fn transition_state_bytes(place: usize) -> usize {
    let share = HISTORY_BYTES_MAX / 32 / place.max(1);
    share.min(TRANSITION_STATE_BYTES_MAX)
}

/// Runs of a workflow whose history is kept, including the current one.
pub const RUNS_KEPT: i32 = 10;

/// Checks a machine name. It is part of URLs, so it is plain text without separators.
pub fn check_machine(name: &str) -> Result<(), Invalid> {
    check_name("machine", name)?;
    if name.contains('/') {
        return Err(Invalid::new(
            "machine",
            format!("{name:?} contains '/', which separates name and version"),
        ));
    }
    Ok(())
}

/// Checks a machine name that is to be stored.
pub fn check_new_machine(name: &str) -> Result<(), Invalid> {
    check_machine(name)?;
    check_shown("machine", name)
}

/// Checks a machine version.
pub fn check_version(version: i32) -> Result<(), Invalid> {
    if version < 1 {
        return Err(Invalid::new(
            "version",
            format!("is {version}; versions start at 1"),
        ));
    }
    Ok(())
}

/// Checks a name of a queue, step or signal.
pub fn check_name(what: &'static str, name: &str) -> Result<(), Invalid> {
    check_text(what, name, NAME_BYTES_MAX)
}

/// Checks a correlation, partition or dedup key in the text in which it is stored.
///
/// A key may have any bytes. The text has a control character only where
/// [`KeyText`](crate::KeyText) puts it.
pub fn check_key(what: &'static str, key: &str) -> Result<(), Invalid> {
    if let Some(digits) = key::hex(key) {
        return check_size(what, digits.len() / 2, KEY_BYTES_MAX);
    }
    check_text_or(what, key, KEY_BYTES_MAX, "so give the key in hexadecimal")
}

/// Checks a trace.
pub fn check_trace(trace: &str) -> Result<(), Invalid> {
    check_text("trace", trace, KEY_BYTES_MAX)
}

/// Checks a part of an error text that is searched for.
pub fn check_error_part(part: &str) -> Result<(), Invalid> {
    check_text("error", part, KEY_BYTES_MAX)
}

/// Checks a name that is to be stored.
///
/// It refuses more than a lookup does, because names that are already stored must still be found.
pub fn check_new_name(what: &'static str, name: &str) -> Result<(), Invalid> {
    check_name(what, name)?;
    check_shown(what, name)
}

/// Checks a key that a person typed and that is to be stored.
///
/// Invisible characters come from copying. A key that has them is given in hexadecimal.
pub fn check_typed_key(what: &'static str, key: &str) -> Result<(), Invalid> {
    check_key(what, key)?;
    check_shown(what, key)
}

/// Checks a delay or a timeout.
pub fn check_delay(what: &'static str, delay: Duration) -> Result<(), Invalid> {
    if delay > DELAY_MAX {
        return Err(Invalid::new(
            what,
            format!(
                "is {} s; the longest is ten years ({} s)",
                delay.as_secs(),
                DELAY_MAX.as_secs()
            ),
        ));
    }
    Ok(())
}

/// The shortest timeout of an instance: both databases count in microseconds.
pub const TIMEOUT_MIN: Duration = Duration::from_micros(1);

/// Checks the timeout of an instance or of a run.
pub fn check_timeout(what: &'static str, timeout: Duration) -> Result<(), Invalid> {
    if timeout < TIMEOUT_MIN {
        return Err(Invalid::new(
            what,
            "is zero, so the instance would fail before its first step; leave it out for none",
        ));
    }
    check_delay(what, timeout)
}

/// Checks a moment that a caller gives.
pub fn check_moment(what: &'static str, at: Timestamp) -> Result<(), Invalid> {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("moments-have-no-range") {
        return Ok(());
    }
    if (MOMENT_MIN..=MOMENT_MAX).contains(&at) {
        return Ok(());
    }
    Err(Invalid::new(what, "is not between the years 1970 and 9999"))
}

/// Checks the duration of a lease.
pub fn check_lease(lease: Duration) -> Result<(), Invalid> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Invalid::new(
        "lease",
        format!("is {lease:?}; it must be between {LEASE_MIN:?} and {LEASE_MAX:?}"),
    ))
}

/// Checks the number of rows of a verb.
pub fn check_batch(what: &'static str, rows: usize, max: usize) -> Result<(), Invalid> {
    if rows > max {
        return Err(Invalid::new(
            what,
            format!("has {rows} entries; at most {max} go at once, split it"),
        ));
    }
    Ok(())
}

/// Makes an error text storable in both databases.
///
/// Replaces control characters other than line breaks and tabs, and cuts a long text with a mark.
///
/// It never refuses a text, because that would hide the failure that the text reports.
pub fn clean_error(text: &str) -> String {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("errors-are-not-cleaned") {
        return text.to_owned();
    }
    const CUT: &str = "… (cut)";
    let clean: String = text
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect();
    if clean.len() <= ERROR_BYTES_MAX {
        return clean;
    }
    let mut end = ERROR_BYTES_MAX - CUT.len();
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &clean[..end])
}

/// Shows the size of an error text in `Debug`.
///
/// User code writes the text and may quote payloads, which must not reach a log.
pub(crate) struct Hidden<'a>(pub(crate) &'a str);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of text", self.0.len())
    }
}

fn check_text(what: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    check_text_or(what, text, max, "which cannot be stored")
}

/// Checks a text. The error about a control character ends with `otherwise`.
fn check_text_or(
    what: &'static str,
    text: &str,
    max: usize,
    otherwise: &str,
) -> Result<(), Invalid> {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("names-are-not-checked") {
        return Ok(());
    }
    check_size(what, text.len(), max)?;
    let control = |c: &char| c.is_control();
    if !is_plain(text)
        && let Some(c) = text.chars().find(control)
    {
        return Err(Invalid::new(
            what,
            format!("contains the control character {c:?}, {otherwise}"),
        ));
    }
    Ok(())
}

fn check_size(what: &'static str, bytes: usize, max: usize) -> Result<(), Invalid> {
    if bytes == 0 {
        return Err(Invalid::new(what, "is empty"));
    }
    if bytes > max {
        return Err(Invalid::new(
            what,
            format!("has {bytes} bytes; at most {max} are allowed"),
        ));
    }
    Ok(())
}

/// Refuses invisible and bidirectional characters.
///
/// They make two names look the same, or reverse a line.
fn check_shown(what: &'static str, text: &str) -> Result<(), Invalid> {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("names-are-not-checked") {
        return Ok(());
    }
    if is_plain(text) {
        return Ok(());
    }
    match text.chars().find(|&c| is_format(c)) {
        Some(c) => Err(Invalid::new(
            what,
            format!(
                "contains the format character {}, which does not show",
                c.escape_unicode()
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyText;

    #[test]
    fn names_and_keys_that_a_database_cannot_store_are_refused() {
        assert!(check_name("step", "start").is_ok());
        assert!(check_name("step", "").is_err());
        assert!(check_name("step", "a\0b").is_err());
        assert!(check_name("step", &"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(check_name("step", &"x".repeat(NAME_BYTES_MAX + 1)).is_err());
        assert!(check_key("correlation key", &"ü".repeat(KEY_BYTES_MAX / 2)).is_ok());
        assert!(check_key("correlation key", &"ü".repeat(KEY_BYTES_MAX / 2 + 1)).is_err());
        assert!(check_key("correlation key", "").is_err());
        assert!(check_machine("check/out").is_err());
        assert!(check_version(0).is_err());
    }

    #[test]
    fn a_key_of_any_bytes_is_checked_by_its_bytes() {
        let check = |key: KeyText| check_key("partition key", key.as_str());
        for byte in 0..=u8::MAX {
            assert!(
                check(KeyText::from(vec![byte; KEY_BYTES_MAX])).is_ok(),
                "{byte}"
            );
            assert!(check(KeyText::from(vec![byte; KEY_BYTES_MAX + 1])).is_err());
        }
        // Texts that no key has: they would be second texts of other keys.
        for text in [
            "\0",
            "a\nb",
            "\u{1}",
            "\u{1}0",
            "\u{1}3432",
            "\u{1}00FF",
            "a\u{1}00ff",
        ] {
            let error = check_key("dedup key", text).unwrap_err().to_string();
            assert!(error.contains("in hexadecimal"), "{error}");
        }
    }

    #[test]
    fn new_names_and_typed_keys_with_invisible_characters_are_refused() {
        for c in [
            '\u{202e}',
            '\u{200b}',
            '\u{2028}',
            '\u{feff}',
            '\u{ad}',
            '\u{e0041}',
        ] {
            let name = format!("a{c}b");
            for refused in [
                check_new_name("step", &name),
                check_typed_key("partition key", &name),
                check_new_machine(&name),
            ] {
                let error = refused.unwrap_err().to_string();
                assert!(error.contains("format character \\u{"), "{error}");
                assert!(!error.chars().any(crate::text::is_unsafe), "{error:?}");
            }
            assert!(check_name("step", &name).is_ok(), "a stored name is valid");
            assert!(check_key("correlation key", &name).is_ok());
        }
        assert!(check_new_name("step", "größe 日本 ❤️").is_ok());
    }

    #[test]
    fn a_timeout_of_zero_or_over_ten_years_is_refused() {
        for timeout in [TIMEOUT_MIN, DELAY_MAX] {
            assert!(check_timeout("timeout", timeout).is_ok());
        }
        let zero = check_timeout("run timeout", Duration::ZERO).unwrap_err();
        assert!(zero.to_string().contains("run timeout is zero"), "{zero}");
        let long = check_timeout("timeout", DELAY_MAX + TIMEOUT_MIN).unwrap_err();
        assert!(long.to_string().contains("ten years"), "{long}");
    }

    #[test]
    fn a_time_out_of_range_is_refused() {
        for at in [MOMENT_MIN, MOMENT_MAX] {
            assert!(check_moment("start", at).is_ok());
        }
        for at in [i64::MIN, MOMENT_MIN.0 - 1, MOMENT_MAX.0 + 1, i64::MAX] {
            assert!(check_moment("start", Timestamp(at)).is_err(), "{at}");
        }
    }

    #[test]
    fn an_error_text_is_cleaned_and_cut_never_refused() {
        assert_eq!(
            clean_error("a\0b\u{1b}[31m\nc"),
            "a\u{fffd}b\u{fffd}[31m\nc"
        );
        let long = clean_error(&"é".repeat(ERROR_BYTES_MAX));
        assert!(long.len() <= ERROR_BYTES_MAX && long.ends_with("(cut)"));
    }

    #[test]
    fn the_total_size_of_the_states_of_a_history_is_bounded() {
        assert_eq!(transition_state_bytes(1), TRANSITION_STATE_BYTES_MAX);
        assert_eq!(transition_state_bytes(100), 20_971);
        let all: usize = (1..=TRANSITIONS_MAX).map(transition_state_bytes).sum();
        assert!(all < HISTORY_BYTES_MAX / 3, "{all}");
    }

    #[test]
    fn delays_leases_and_batches_out_of_range_are_refused() {
        assert!(check_delay("delay", DELAY_MAX).is_ok());
        assert!(check_delay("delay", DELAY_MAX + Duration::from_secs(1)).is_err());
        assert!(check_lease(Duration::ZERO).is_err());
        assert!(check_lease(Duration::from_secs(30)).is_ok());
        assert!(check_batch("batch", 3, 2).is_err());
    }
}
