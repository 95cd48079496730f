//! Characters that are invisible or change the text around them, and text that is safe to show.
//!
//! Checks refuse names with such a character, and every output escapes them. A terminal obeys
//! control characters. A format character makes two names look the same, or reverses a line.

use std::borrow::Cow;
use std::fmt::Write;

/// The format characters of Unicode 16 (general category Cf), and the line and paragraph
/// separators (Zl, Zp).
const FORMAT: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character is invisible and controls how the text around it is shown.
///
/// ```
/// use outlast_core::text::is_format;
///
/// assert!(is_format('\u{202e}') && is_format('\u{200b}') && is_format('\u{2028}'));
/// assert!(!is_format('é') && !is_format('\n'));
/// ```
pub fn is_format(c: char) -> bool {
    c >= '\u{ad}'
        && FORMAT
            .iter()
            .any(|&(first, last)| (first..=last).contains(&c))
}

/// Whether every output must escape a character: a control or a format character.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_format(c)
}

/// Escapes every control and format character, as `\u{202e}`. Borrows the text when there is none.
///
/// ```
/// use outlast_core::text::escaped;
///
/// assert_eq!(escaped("order-7"), "order-7");
/// assert_eq!(escaped("a\u{202e}b\u{1b}[2J"), r"a\u{202e}b\u{1b}[2J");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false)
}

/// Escapes like [`escaped`], but keeps line breaks and tabs.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_but(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped_but(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_unsafe(c) && !keeps(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes every such character of a JSON document as `\u202e`: the same document, safe to show.
///
/// Borrows the text when there is none. Keeps line breaks and tabs between values.
///
/// ```
/// use outlast_core::text::escaped_json;
///
/// assert_eq!(escaped_json("\"\u{9b}\u{e0001}\""), r#""\u009b\udb40\udc01""#);
/// ```
pub fn escaped_json(document: &str) -> Cow<'_, str> {
    if is_plain(document) {
        return Cow::Borrowed(document);
    }
    let mut shown = String::with_capacity(document.len() + 8);
    for c in document.chars() {
        // JSON allows no character below the space inside a string, so these are between values.
        if c < ' ' || !is_unsafe(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// Whether a text needs no further check. Most texts are plain, so this is the fast path.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_format_characters_are_sorted_and_disjoint() {
        for pair in FORMAT.windows(2) {
            assert!(pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0, "{pair:?}");
        }
    }

    #[test]
    fn an_escaped_json_document_has_the_same_value() {
        let value = serde_json::json!({ "a\u{200b}": ["\u{7f}\u{9b}\u{2028}\u{e0041}\n", "é"] });
        let text = serde_json::to_string(&value).unwrap();
        let shown = escaped_json(&text);
        assert!(!shown.chars().any(is_unsafe), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
        let pretty = "{\n\t\"a\": \"\u{feff}\"\n}";
        assert_eq!(escaped_json(pretty), "{\n\t\"a\": \"\\ufeff\"\n}");
    }

    #[test]
    fn escaped_lines_keep_their_line_breaks() {
        assert_eq!(escaped_lines("a\n\tb\u{1b}"), "a\n\tb\\u{1b}");
        assert_eq!(escaped("a\nb"), r"a\u{a}b");
    }
}
