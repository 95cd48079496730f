//! JSON documents that both databases can store.

use crate::Invalid;
use crate::limits::{JSON_BYTES_MAX, JSON_DEPTH_MAX};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use std::cell::Cell;
use std::fmt;
use std::io;

/// The prefix of a document that a codec has encoded. [`Json::of`], [`Json::written`] and
/// [`Json::parse`] refuse it, so that no plain document has it.
const ENCODED_HEAD: &str = r#"{"outlast:encoded":""#;
const ENCODED_TAIL: &str = r#""}"#;

/// One JSON document, kept as text. It is parsed only where it is used.
///
/// [`Json::of`] and [`Json::parse`] create only storable documents. These are within the bounds of
/// [`limits`](crate::limits), and have neither the escape `\u0000` nor lone surrogates, which
/// PostgreSQL cannot hold (docs/protocol.md, defect 12). `Debug` shows the size, not the content.
///
/// ```
/// use outlast_core::Json;
///
/// let state = Json::of(&serde_json::json!({ "number": 42 })).unwrap();
/// assert_eq!(state.as_str(), r#"{"number":42}"#);
/// assert!(Json::parse(r#""\u0000""#).is_err());
/// ```
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Encodes `value`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Json, Invalid> {
        Json::around(value).and_then(|it| Json::written(it.0))
    }

    /// Encodes a value that wraps storable documents.
    ///
    /// The wrapper itself must be storable. The whole may be a little larger and deeper than each
    /// document.
    pub fn around<T: Serialize + ?Sized>(value: &T) -> Result<Json, Invalid> {
        let mut small = Small(SCRATCH.take());
        let document = match serde_json::to_writer(&mut small, value) {
            Ok(()) => small.to_document(),
            Err(error) if error.is_io() => to_raw_value(value),
            Err(error) => Err(error),
        };
        SCRATCH.set(small.into_scratch());
        document
            .map(Json)
            .map_err(|error| Invalid::new("value", format!("cannot be written as JSON: {error}")))
    }

    /// Takes a document that serde wrote or read, and checks only whether it can be stored.
    pub fn written(document: Box<RawValue>) -> Result<Json, Invalid> {
        check_storable(document.get())?;
        Ok(Json(document))
    }

    /// Takes text that another program encoded, and checks all of it.
    pub fn parse(text: impl Into<String>) -> Result<Json, Invalid> {
        let text = text.into();
        check_storable(&text)?;
        Json::stored(text)
    }

    /// Takes text that comes from a store, and checks only its syntax.
    ///
    /// A document that an older version accepted must stay readable.
    pub fn stored(text: String) -> Result<Json, Invalid> {
        RawValue::from_string(text)
            .map(Json)
            .map_err(|error| Invalid::new("JSON", format!("is malformed: {error}")))
    }

    /// Creates the document that stands for an encoded value, from the output of the codec.
    ///
    /// It has one member, whose name is reserved for this.
    ///
    /// ```
    /// use outlast_core::Json;
    ///
    /// let encoded = Json::encoded("1:-:key:AAAA").unwrap();
    /// assert_eq!(encoded.as_encoded(), Some("1:-:key:AAAA"));
    /// assert!(Json::parse(encoded.as_str()).is_err());
    /// ```
    pub fn encoded(envelope: &str) -> Result<Json, Invalid> {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
        if !envelope.bytes().all(is_plain) {
            let reason = "must be plain ASCII that needs no escapes in JSON";
            return Err(Invalid::new("an encoded value", reason));
        }
        Json::stored(format!("{ENCODED_HEAD}{envelope}{ENCODED_TAIL}"))
    }

    /// Returns the codec's output, when this document stands for an encoded value.
    pub fn as_encoded(&self) -> Option<&str> {
        let rest = self.as_str().strip_prefix(ENCODED_HEAD)?;
        // A document with this prefix is never a plain value, whatever its end.
        Some(rest.strip_suffix(ENCODED_TAIL).unwrap_or_default())
    }

    /// Creates the document `null`.
    pub fn null() -> Json {
        Json(RawValue::NULL.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Decodes the document.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        serde_json::from_str(self.as_str())
            .map_err(|error| Invalid::new("JSON", format!("does not decode: {}", unquoted(&error))))
    }
}

thread_local! {
    /// A reused buffer for documents whose size is not known yet.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The largest document that is written to the buffer and then copied into a block that fits.
/// Serde itself writes into a larger block and shrinks it, which fragments the heap each time.
const SMALL_MAX: usize = 4096;

/// A writer for a document that may turn out to be small.
struct Small(Vec<u8>);

impl Small {
    fn to_document(&self) -> serde_json::Result<Box<RawValue>> {
        let document: &RawValue = serde_json::from_slice(&self.0)?;
        Ok(document.to_owned())
    }

    /// Returns the empty buffer, for the next document.
    fn into_scratch(mut self) -> Vec<u8> {
        self.0.clear();
        self.0
    }
}

impl io::Write for Small {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.len() + piece.len() > SMALL_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns serde's message without the part that quotes the document.
///
/// It keeps what was expected, which kind of value was found, and the position.
fn unquoted(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    let place = format!("at line {line} column {column}");
    let expected = text.rsplit_once(", expected ").map(|(_, expected)| {
        let end = expected.rfind(" at line ").unwrap_or(expected.len());
        &expected[..end]
    });
    let kind = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "unknown field",
    ]
    .into_iter()
    .find(|kind| text.starts_with(kind));
    match (kind, expected) {
        (Some(kind), Some(expected)) => format!("{kind}, expected {expected}, {place}"),
        // Field names come from the program, not from the document.
        _ if text.starts_with("missing field") || text.starts_with("duplicate field") => text,
        _ if error.is_data() => format!("the value is refused {place}"),
        _ => text,
    }
}

impl PartialEq for Json {
    /// Compares the texts: stores return documents verbatim.
    fn eq(&self, other: &Json) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    /// Shows only the size: payloads do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.as_str().len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Json::written(raw).map_err(serde::de::Error::custom)
    }
}

/// Checks size, depth, and the escapes that PostgreSQL refuses.
fn check_storable(text: &str) -> Result<(), Invalid> {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("json-without-bounds") {
        return Ok(());
    }
    if text.len() > JSON_BYTES_MAX {
        return Err(Invalid::new(
            "JSON",
            format!(
                "has {} bytes; at most {JSON_BYTES_MAX} are stored, keep large things elsewhere and their address here",
                text.len()
            ),
        ));
    }
    if text.starts_with(ENCODED_HEAD) {
        let reason = "has the form that is kept for encoded values: an object whose one member is \"outlast:encoded\"";
        return Err(Invalid::new("JSON", reason));
    }
    check_depth_and_escapes(text)
}

/// Checks nesting and escapes in one pass. serde_json checks the syntax, so this need only be
/// right for documents that serde_json accepts.
fn check_depth_and_escapes(text: &str) -> Result<(), Invalid> {
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at = check_escape(bytes, at)?,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return Err(Invalid::new(
                        "JSON",
                        format!("is nested more than {JSON_DEPTH_MAX} levels deep"),
                    ));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Returns the position of the last byte of the escape that starts at `at`, if it can be stored.
fn check_escape(bytes: &[u8], at: usize) -> Result<usize, Invalid> {
    #[cfg(outlast_mutants)]
    if crate::mutant::is("escapes-are-not-checked") {
        return Ok(at + 1);
    }
    if bytes.get(at + 1) != Some(&b'u') {
        return Ok(at + 1);
    }
    match code_unit(bytes, at) {
        Some(0) => Err(Invalid::new(
            "JSON",
            "contains \\u0000, which PostgreSQL cannot hold",
        )),
        Some(0xD800..=0xDBFF) => match code_unit(bytes, at + 6) {
            Some(0xDC00..=0xDFFF) => Ok(at + 11),
            _ => Err(lone_surrogate()),
        },
        Some(0xDC00..=0xDFFF) => Err(lone_surrogate()),
        _ => Ok(at + 5),
    }
}

fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" {
        return None;
    }
    let digits = std::str::from_utf8(&escape[2..]).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn lone_surrogate() -> Invalid {
    Invalid::new(
        "JSON",
        "contains half of a surrogate pair, which is no character",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_json_keeps_its_text_unchanged() {
        for text in [
            "null",
            "-0.0",
            "1e400",
            "18446744073709551615",
            r#"{"b":1,"a":1}"#,
            r#""\ud83d\ude00 \\u0000""#,
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn small_and_large_values_are_written_alike() {
        for length in [
            0,
            1,
            SMALL_MAX - 3,
            SMALL_MAX - 2,
            SMALL_MAX - 1,
            3 * SMALL_MAX,
        ] {
            let value = "x".repeat(length);
            let json = Json::of(&value).unwrap();
            assert_eq!(json.as_str(), serde_json::to_string(&value).unwrap());
        }
    }

    #[test]
    fn a_value_that_encodes_another_value_meanwhile_is_complete() {
        struct Inner;
        struct Outer;
        impl Serialize for Inner {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(Json::of(&[1, 2]).unwrap().as_str())
            }
        }
        impl Serialize for Outer {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq([Inner, Inner])
            }
        }
        let json = Json::of(&Outer).unwrap();
        assert_eq!(json.as_str(), r#"["[1,2]","[1,2]"]"#);
    }

    #[test]
    fn json_that_a_database_cannot_store_is_refused() {
        for text in [
            r#""\u0000""#,
            r#"{"\u0000":1}"#,
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\u0041""#,
            r#""\ud800x""#,
            "{",
            "",
            "nul",
            "1 2",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_that_is_too_deep_or_too_large_is_refused() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Json::parse(nested(JSON_DEPTH_MAX)).is_ok());
        assert!(Json::parse(nested(JSON_DEPTH_MAX + 1)).is_err());
        assert!(Json::parse(nested(100_000)).is_err());
        let of_size = |n: usize| format!("\"{}\"", "x".repeat(n - 2));
        assert!(Json::parse(of_size(JSON_BYTES_MAX)).is_ok());
        assert!(Json::parse(of_size(JSON_BYTES_MAX + 1)).is_err());
        assert!(Json::parse(format!("\"{}\"", "[".repeat(500))).is_ok());
    }

    #[test]
    fn a_plain_value_cannot_pass_for_an_encoded_value() {
        let forged = serde_json::json!({ "outlast:encoded": "1:-:key:AAAA" });
        let text = forged.to_string();
        assert!(Json::stored(text.clone()).unwrap().as_encoded().is_some());
        for refused in [
            Json::of(&forged),
            Json::written(RawValue::from_string(text.clone()).unwrap()),
            Json::parse(text.clone()),
            serde_json::from_str(&text).map_err(|error| Invalid::new("JSON", error.to_string())),
        ] {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("kept for encoded values"), "{message}");
        }
        // Any other spelling is a plain value, both when it is written and when it is read.
        for plain in [
            r#"{ "outlast:encoded":"x"}"#,
            r#"{"outlast:encoded": "x"}"#,
            r#"{"outlast\u003aencoded":"x"}"#,
            r#"[{"outlast:encoded":"x"}]"#,
        ] {
            assert_eq!(Json::parse(plain).unwrap().as_encoded(), None, "{plain}");
        }
    }

    #[test]
    fn the_output_of_a_codec_is_kept_unchanged_or_refused() {
        let encoded = Json::encoded("1:i:k-1:+/A=").unwrap();
        assert_eq!(encoded.as_encoded(), Some("1:i:k-1:+/A="));
        assert_eq!(encoded.as_str(), r#"{"outlast:encoded":"1:i:k-1:+/A="}"#);
        for not_plain in ["\"", "\\", "\n", "ü"] {
            assert!(Json::encoded(not_plain).is_err(), "{not_plain:?}");
        }
        let more = Json::stored(r#"{"outlast:encoded":"x","b":1}"#.to_owned()).unwrap();
        assert_eq!(
            more.as_encoded(),
            Some(""),
            "it counts as encoded, and no codec decodes it"
        );
    }

    #[test]
    fn a_decode_error_does_not_contain_the_value() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only read")]
        struct Order {
            number: u8,
            kind: Kind,
        }
        #[derive(Debug, Deserialize)]
        enum Kind {
            Small,
        }
        for (text, expected) in [
            (
                r#"{"number":"secret"}"#,
                "invalid type, expected u8, at line 1 column 18",
            ),
            (
                r#"{"number":7654321}"#,
                "invalid value, expected u8, at line 1 column 17",
            ),
            (
                r#"{"number":1,"kind":"secret, expected x"}"#,
                "unknown variant, expected `Small`, at line 1 column 39",
            ),
            (
                r#"{"secret":1}"#,
                "unknown field, expected `number` or `kind`, at line 1 column 9",
            ),
            (
                r#"{"number":1}"#,
                "missing field `kind` at line 1 column 12",
            ),
        ] {
            let invalid = Json::parse(text).unwrap().decode::<Order>().unwrap_err();
            assert_eq!(invalid.reason, format!("does not decode: {expected}"));
        }
        let address = Json::of("secret").unwrap().decode::<std::net::IpAddr>();
        let invalid = address.unwrap_err();
        assert!(!invalid.to_string().contains("secret"), "{invalid}");
    }

    #[test]
    fn debug_shows_no_payload() {
        let json = Json::of("secret").unwrap();
        assert_eq!(format!("{json:?}"), "Json(8 bytes)");
    }
}
