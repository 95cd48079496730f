//! Keys of any bytes, and the text in which stores keep them.
//!
//! A correlation, partition or dedup key is bytes. Most keys are UTF-8 without control characters,
//! and they are stored as they are. Any other key is stored as U+0001 and the bytes in lower-case
//! hexadecimal (docs/decisions/0054). No key of the first kind has a control character, so two
//! keys never have the same text.
//!
//! Which bytes are UTF-8 and which characters are control characters never changes. So a key has
//! the same text in every build. Format characters are not among them: later versions of Unicode
//! add some.

use crate::Invalid;
use crate::text::{escaped, is_plain};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Begins the stored text of a key that is not stored as it is.
const MARK: char = '\u{1}';

/// A correlation, partition or dedup key as stores keep it. Made from text or from bytes.
///
/// Text and bytes of one content are the same key. A text that was read from a store is given back
/// as it is, so the key of one instance can become the key of another.
///
/// ```
/// use outlast_core::KeyText;
///
/// assert_eq!(KeyText::from("order:42"), KeyText::from(b"order:42"));
/// assert_eq!(KeyText::from("order:42").as_str(), "order:42");
///
/// let binary = KeyText::from(b"\x00\xff");
/// assert_eq!(binary.as_str(), "\u{1}00ff");
/// assert_eq!(binary.to_string(), r"\x00ff");
/// assert_eq!(binary, KeyText::from(binary.as_str()));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyText(String);

impl KeyText {
    /// Returns the text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key of these hexadecimal digits, with or without `\x` before them.
    ///
    /// ```
    /// # use outlast_core::KeyText;
    /// assert_eq!(KeyText::from_hex("00FF").unwrap(), KeyText::from(b"\x00\xff"));
    /// assert_eq!(KeyText::from_hex(r"\x3432").unwrap(), KeyText::from("42"));
    /// assert!(KeyText::from_hex("0").is_err());
    /// ```
    pub fn from_hex(digits: &str) -> Result<KeyText, Invalid> {
        let digits = digits.strip_prefix(r"\x").unwrap_or(digits);
        match decoded(&digits.to_ascii_lowercase()) {
            Some(bytes) => Ok(KeyText::from(bytes)),
            None => Err(Invalid::new(
                "key",
                "is not in hexadecimal: write two digits for each byte, like 00ff",
            )),
        }
    }
}

/// Returns the bytes of a stored key.
///
/// ```
/// assert_eq!(*outlast_core::key::bytes("order:42"), *b"order:42");
/// assert_eq!(*outlast_core::key::bytes("\u{1}00ff"), *b"\x00\xff");
/// ```
pub fn bytes(stored: &str) -> Cow<'_, [u8]> {
    match hex(stored).and_then(decoded) {
        Some(bytes) => Cow::Owned(bytes),
        None => Cow::Borrowed(stored.as_bytes()),
    }
}

/// Returns the hexadecimal digits of a stored key. `None` if the key is stored as it is.
///
/// ```
/// assert_eq!(outlast_core::key::hex("\u{1}00ff"), Some("00ff"));
/// assert_eq!(outlast_core::key::hex("order:42"), None);
/// ```
pub fn hex(stored: &str) -> Option<&str> {
    let digits = stored.strip_prefix(MARK)?;
    // These digits are no stored key if their bytes are stored as they are.
    decoded(digits).filter(|bytes| stored_as_is(bytes).is_none())?;
    Some(digits)
}

/// Shows a stored key to people: `\x00ff`, or the text itself.
///
/// ```
/// assert_eq!(outlast_core::key::shown("\u{1}00ff"), r"\x00ff");
/// assert_eq!(outlast_core::key::shown("order:42"), "order:42");
/// ```
pub fn shown(stored: &str) -> Cow<'_, str> {
    match hex(stored) {
        Some(digits) => Cow::Owned(format!(r"\x{digits}")),
        None => Cow::Borrowed(stored),
    }
}

/// Shows a stored key in a sentence: `\x00ff`, or the text in quotes.
///
/// ```
/// assert_eq!(outlast_core::key::quoted("\u{1}00ff"), r"\x00ff");
/// assert_eq!(outlast_core::key::quoted(r"\x00ff"), r#""\\x00ff""#);
/// ```
pub fn quoted(stored: &str) -> String {
    match hex(stored) {
        Some(digits) => format!(r"\x{digits}"),
        None => format!("{:?}", escaped(stored)),
    }
}

/// Returns the text of a key that is stored as it is.
fn stored_as_is(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    #[cfg(outlast_mutants)]
    if crate::mutant::is("control-characters-are-stored-as-they-are") {
        return Some(text);
    }
    (is_plain(text) || !text.chars().any(char::is_control)).then_some(text)
}

/// Decodes lower-case digits, two for each byte.
fn decoded(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|[high, low]| Some(value(*high)? << 4 | value(*low)?));
    rest.is_empty().then(|| bytes.collect())?
}

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&shown(&self.0)))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.0))
    }
}

impl From<&[u8]> for KeyText {
    fn from(bytes: &[u8]) -> KeyText {
        #[cfg(outlast_mutants)]
        if std::str::from_utf8(bytes).is_err() && crate::mutant::is("bytes-are-replaced") {
            let text = String::from_utf8_lossy(bytes).replace('\u{fffd}', "?");
            return KeyText::from(text.as_bytes());
        }
        if let Some(text) = stored_as_is(bytes) {
            return KeyText(text.to_owned());
        }
        let mut text = String::with_capacity(1 + 2 * bytes.len());
        text.push(MARK);
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        KeyText(text)
    }
}

impl From<String> for KeyText {
    fn from(text: String) -> KeyText {
        #[cfg(outlast_mutants)]
        if text.len() > 400 && crate::mutant::is("long-keys-are-cut") {
            return KeyText(text.chars().take(400).collect());
        }
        #[cfg(outlast_mutants)]
        if text.starts_with(MARK) && crate::mutant::is("what-looks-stored-is-stored") {
            return KeyText(text);
        }
        match stored_as_is(text.as_bytes()).is_some() || hex(&text).is_some() {
            true => KeyText(text),
            false => KeyText::from(text.as_bytes()),
        }
    }
}

impl From<KeyText> for String {
    fn from(key: KeyText) -> String {
        key.0
    }
}

/// Keys can be made from everything that a text can be made from, and from bytes.
macro_rules! key_from {
    ($($given:ty => |$it:ident| $value:expr;)*) => {
        $(impl From<$given> for KeyText {
            fn from($it: $given) -> KeyText { KeyText::from($value) }
        })*
    };
}

key_from! {
    &str => |text| text.to_owned();
    &mut str => |text| text.to_owned();
    &String => |text| text.clone();
    Box<str> => |text| String::from(text);
    Cow<'_, str> => |text| text.into_owned();
    char => |c| c.to_string();
    Vec<u8> => |bytes| bytes.as_slice();
    &Vec<u8> => |bytes| bytes.as_slice();
    Box<[u8]> => |bytes| &*bytes;
    Cow<'_, [u8]> => |bytes| &*bytes;
}

impl From<&KeyText> for KeyText {
    fn from(key: &KeyText) -> KeyText {
        key.clone()
    }
}

impl<const N: usize> From<&[u8; N]> for KeyText {
    fn from(bytes: &[u8; N]) -> KeyText {
        KeyText::from(bytes.as_slice())
    }
}

impl<const N: usize> From<[u8; N]> for KeyText {
    fn from(bytes: [u8; N]) -> KeyText {
        KeyText::from(bytes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// All keys of up to two bytes, with and without text around them.
    fn keys() -> impl Iterator<Item = Vec<u8>> {
        let pairs = (0..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec());
        let singles = (0..=u8::MAX).map(|byte| vec![byte]);
        let around = |key: Vec<u8>| [&b"a"[..], &key, "ü".as_bytes()].concat();
        let short = singles.chain(pairs);
        short.flat_map(move |key| [around(key.clone()), key])
    }

    #[test]
    fn a_key_has_one_text_and_the_text_one_key() {
        for key in keys() {
            let stored = KeyText::from(&key);
            assert_eq!(*bytes(stored.as_str()), *key, "{key:?}");
            assert_eq!(KeyText::from(stored.as_str()), stored, "{key:?}");
            let digits: String = key.iter().map(|byte| format!("{byte:02X}")).collect();
            assert_eq!(KeyText::from_hex(&digits).unwrap(), stored);
            let shown = stored.to_string();
            assert!(!shown.chars().any(crate::text::is_unsafe), "{shown:?}");
            if let Ok(text) = std::str::from_utf8(&key) {
                assert_eq!(KeyText::from(text), stored);
            }
        }
    }

    #[test]
    fn a_text_that_only_looks_stored_is_a_key_of_its_own() {
        // An odd digit, upper case, no digits, and bytes that are stored as they are.
        for text in ["\u{1}0", "\u{1}FF", "\u{1}", "\u{1}3432"] {
            let key = KeyText::from(text);
            assert_eq!(*bytes(key.as_str()), *text.as_bytes());
            assert_ne!(key.as_str(), text);
        }
    }

    #[test]
    fn bytes_that_look_stored_are_a_key_of_their_own() {
        let key = KeyText::from(b"\x0100ff");
        assert_eq!(*bytes(key.as_str()), *b"\x0100ff");
        assert_ne!(key, KeyText::from(b"\x00\xff"));
    }
}
