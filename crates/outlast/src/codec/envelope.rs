//! What stands in the database for an encoded value: `1:i:2026-11:pVtY…`.
//!
//! The form's version, whether it belongs to one instance (`i`) or was written before there was one (`-`), the id
//! of the key, and the bytes as base64. In a JSON column it is the one member of an object ([`Json::encoded`]);
//! in a text it follows [`TEXT_HEAD`].

use super::{CodecError, Encoded};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use outlast_core::Json;

/// How an error text begins that is encoded; a plain one is never written so.
pub(super) const TEXT_HEAD: &str = "outlast:encoded:";

const VERSION: &str = "1";
const BOUND: &str = "i";
const UNBOUND: &str = "-";
const KEY_BYTES_MAX: usize = 64;

/// What stands in the database.
pub(super) struct Envelope {
    pub(super) encoded: Encoded,
    /// Whether it was encoded for one instance.
    pub(super) is_bound: bool,
}

impl Envelope {
    /// Whether a key may be called this.
    pub(super) fn accepts_key(key: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_plain)
    }

    pub(super) fn to_text(&self) -> String {
        let binding = if self.is_bound { BOUND } else { UNBOUND };
        let Encoded { key, bytes } = &self.encoded;
        let mut text = format!("{VERSION}:{binding}:{key}:");
        STANDARD_NO_PAD.encode_string(bytes, &mut text);
        text
    }

    /// Reads it back. What no codec could have written was changed.
    pub(super) fn parse(text: &str) -> Result<Envelope, CodecError> {
        let mut parts = text.splitn(4, ':');
        let mut part = || parts.next().ok_or(CodecError::Changed);
        let (version, binding, key, bytes) = (part()?, part()?, part()?, part()?);
        if version != VERSION || !Envelope::accepts_key(key) {
            return Err(CodecError::Changed);
        }
        let is_bound = match binding {
            BOUND => true,
            UNBOUND => false,
            _ => return Err(CodecError::Changed),
        };
        let bytes = STANDARD_NO_PAD.decode(bytes);
        Ok(Envelope {
            encoded: Encoded {
                key: key.to_owned(),
                bytes: bytes.map_err(|_| CodecError::Changed)?,
            },
            is_bound,
        })
    }
}

/// The id of the key that an envelope names, for messages.
pub(super) fn key_of(envelope: &str) -> String {
    let key = envelope.split(':').nth(2).unwrap_or_default();
    let is_known = Envelope::accepts_key(key);
    if is_known { key } else { "unknown" }.to_owned()
}

/// The envelope in a text, if it is encoded.
pub(super) fn in_text(text: &str) -> Option<&str> {
    text.strip_prefix(TEXT_HEAD)
}

/// What stands in the place of a value that is refused, so that it is never taken for one.
pub(super) fn refused(error: &CodecError) -> Json {
    let envelope = match error {
        CodecError::NotEncoded => "0:plain",
        CodecError::Changed
        | CodecError::UnknownKey { .. }
        | CodecError::NoCodec { .. }
        | CodecError::Unavailable { .. } => "0:changed",
    };
    Json::encoded(envelope).unwrap_or_else(|_| Json::null())
}

/// Why a value was refused, if this stands for one.
pub(super) fn refusal(value: &Json) -> Option<CodecError> {
    match value.as_encoded()? {
        "0:plain" => Some(CodecError::NotEncoded),
        _ => Some(CodecError::Changed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    fn envelope(key: &str, is_bound: bool, bytes: &[u8]) -> Envelope {
        Envelope {
            encoded: Encoded {
                key: key.into(),
                bytes: bytes.into(),
            },
            is_bound,
        }
    }

    #[test]
    fn an_envelope_reads_back_as_it_was() {
        for (key, is_bound, bytes) in [("k", true, &b""[..]), ("2026-11.a_B", false, &[0, 255, 7])]
        {
            let text = envelope(key, is_bound, bytes).to_text();
            let back = Envelope::parse(&text).unwrap();
            assert_eq!(back.encoded.key, key);
            assert_eq!(back.encoded.bytes, bytes);
            assert_eq!(back.is_bound, is_bound);
            assert_eq!(key_of(&text), key);
            assert!(Json::encoded(&text).is_ok());
        }
    }

    #[test]
    fn what_no_codec_wrote_was_changed() {
        for text in [
            "",
            "1",
            "1:i:k",
            "2:i:k:AAAA",
            "1:x:k:AAAA",
            "1:i::AAAA",
            "1:i:k:A",
            "1:i:k:AAAA=",
            "1:i:k:\u{fc}",
            "1:i:a b:AAAA",
            "0:plain",
            "0:changed",
        ] {
            let error = Envelope::parse(text).err();
            assert_eq!(error, Some(CodecError::Changed), "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for error in [CodecError::NotEncoded, CodecError::Changed] {
            assert_eq!(refusal(&refused(&error)), Some(error));
        }
        assert_eq!(refusal(&Json::null()), None);
    }
}
