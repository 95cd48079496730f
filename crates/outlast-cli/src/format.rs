//! Parses and formats times, durations and counts for people.

use outlast::Status;
use outlast::store::{Count, Timestamp};
use outlast_core::text::escaped;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Parses `90s`, `5m`, `1h30m`, `30d`: numbers with units, added up.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 6] = [
        ("ms", 1),
        ("s", 1_000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
        ("w", 604_800_000),
    ];
    let wrong = || format!("{text:?} is not a duration; use 90s, 5m, 1h30m or 30d");
    let (mut rest, mut sum) = (text.trim(), 0_u64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit = rest[..end].trim();
        rest = &rest[end..];
        let (_, ms) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        let part = number.checked_mul(*ms).ok_or_else(wrong)?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(Duration::from_millis(sum))
}

/// Parses a limit of at least one.
pub(crate) fn limit(text: &str) -> Result<NonZeroUsize, String> {
    let wrong = |_| format!("{text:?} is not a number of at least 1");
    text.parse().map_err(wrong)
}

/// A time, or an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Duration),
}

impl Moment {
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::At(at) => at,
            Moment::Ago(ago) => now - ago,
        }
    }
}

/// Parses `2026-11-16T14:20:00Z`, or `2h` for two hours ago.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(ago) = duration(text) {
        return Ok(Moment::Ago(ago));
    }
    timestamp(text).map(Moment::At).map_err(|_| {
        format!("{text:?} is not a time; use 2026-11-16T14:20:00Z, or 2h for two hours ago")
    })
}

/// Parses a time in RFC 3339.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| format!("{text:?} is not a time; use 2026-11-16T14:20:00Z");
    let read: jiff::Timestamp = text.parse().map_err(wrong)?;
    Ok(Timestamp(read.as_microsecond()))
}

/// Formats a time in RFC 3339, UTC, with microseconds.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => format!("{at:.6}"),
        // No store accepts a time that far away.
        Err(_) => format!("{} µs since 1970", at.0),
    }
}

/// Formats the time of day, for events that happen while the user watches.
pub(crate) fn time_of_day(at: Timestamp) -> String {
    rfc3339(at).get(11..19).unwrap_or_default().to_owned()
}

/// Formats how long ago a time was, or how far ahead it is.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    match at > now {
        true => format!("in {}", outlast_core::span(at.since(now))),
        false => format!("{} ago", outlast_core::span(now.since(at))),
    }
}

/// Formats a count, with a plus sign if there may be more.
pub(crate) fn count(count: Count) -> String {
    match count {
        Count::Exactly(number) => number.to_string(),
        Count::AtLeast(number) => format!("{number}+"),
    }
}

/// Formats `1 instance`, `100000+ instances`.
pub(crate) fn instances(matched: Count) -> String {
    let noun = match matched {
        Count::Exactly(1) => "instance",
        Count::Exactly(_) | Count::AtLeast(_) => "instances",
    };
    format!("{} {noun}", count(matched))
}

/// Formats `3 done, 1 failed`.
pub(crate) fn by_status(counts: &[(Status, u64)]) -> String {
    let words: Vec<_> = counts
        .iter()
        .map(|(status, number)| format!("{number} {status}"))
        .collect();
    words.join(", ")
}

/// Makes foreign text safe for a terminal, in one line. It removes everything that moves the
/// cursor, changes colours or reorders text.
pub(crate) fn harmless(text: &str) -> String {
    escaped(&text.replace(['\n', '\t'], " ")).into_owned()
}

/// Returns the beginning of a text.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    let text = harmless(text);
    if text.chars().count() <= chars_max {
        return text;
    }
    text.chars()
        .take(chars_max.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5_400),
            ("30d", 2_592_000),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in [
            "",
            "5",
            "m",
            "5x",
            "-5s",
            "1.5h",
            "99999999999999999999s",
            "9999999999999999d",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_are_read_as_dates_and_as_ages() {
        let at = Timestamp(1_767_279_600_000_000);
        assert_eq!(moment("2026-01-01T15:00:00Z"), Ok(Moment::At(at)));
        assert_eq!(moment("2026-01-01T16:00:00+01:00"), Ok(Moment::At(at)));
        let hour_ago = moment("1h").unwrap().before(at);
        assert_eq!(rfc3339(hour_ago), "2026-01-01T14:00:00.000000Z");
        assert!(
            moment("yesterday")
                .unwrap_err()
                .contains("2026-11-16T14:20:00Z")
        );
    }

    #[test]
    fn control_characters_are_escaped_and_long_texts_are_shortened() {
        assert_eq!(harmless("a\u{1b}[31mb\nc\u{9b}"), "a\\u{1b}[31mb c\\u{9b}");
        assert_eq!(harmless("a\u{202e}b\u{7f}"), "a\\u{202e}b\\u{7f}");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
