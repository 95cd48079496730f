//! The stored form of an encoded value: `2:i:2026-11:pVtY…`.
//!
//! It has four parts: the version of the form, the letter of the [`Binding`], the id of the key,
//! and the bytes as base64. In a JSON column it is the only member of an object
//! ([`Json::encoded`]). In a text it follows [`TEXT_HEAD`].
//!
//! Form 1 binds a value to its kind, its machine or signal, and its instance. Form 2 binds it to
//! its exact place ([`Spot`](super::Spot)). This build reads form 1 and writes form 2.

use super::{CodecError, Encoded};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use outlast_core::Json;

/// The prefix of an encoded error text. A plain error text is never stored with it.
pub(super) const TEXT_HEAD: &str = "outlast:encoded:";

const KEY_BYTES_MAX: usize = 64;

/// The stored form of an encoded value.
pub(super) struct Envelope {
    pub(super) encoded: Encoded,
    pub(super) form: Form,
    pub(super) binding: Binding,
}

/// The version of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Older builds wrote it.
    First,
    /// This build writes it.
    Second,
}

/// What a value is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// One instance.
    Instance,
    /// A child that had no id yet: its parent, its round and its position.
    Child,
    /// The holder of a correlation key.
    Key,
    /// No instance: it did not exist yet.
    Nothing,
}

impl Form {
    const ALL: [Form; 2] = [Form::First, Form::Second];

    fn as_str(self) -> &'static str {
        match self {
            Form::First => "1",
            Form::Second => "2",
        }
    }

    /// Whether a value of this form can have this binding.
    fn has(self, binding: Binding) -> bool {
        match (self, binding) {
            (Form::Second, _) | (Form::First, Binding::Instance | Binding::Nothing) => true,
            (Form::First, Binding::Child | Binding::Key) => false,
        }
    }
}

impl Binding {
    const ALL: [Binding; 4] = [
        Binding::Instance,
        Binding::Child,
        Binding::Key,
        Binding::Nothing,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Binding::Instance => "i",
            Binding::Child => "c",
            Binding::Key => "k",
            Binding::Nothing => "-",
        }
    }
}

impl Envelope {
    /// Whether this is a valid key id.
    pub(super) fn accepts_key(key: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_plain)
    }

    pub(super) fn to_text(&self) -> String {
        let Encoded { key, bytes } = &self.encoded;
        let (form, binding) = (self.form.as_str(), self.binding.as_str());
        let mut text = format!("{form}:{binding}:{key}:");
        STANDARD_NO_PAD.encode_string(bytes, &mut text);
        text
    }

    /// Parses an envelope. A text that no codec could have written counts as changed.
    pub(super) fn parse(text: &str) -> Result<Envelope, CodecError> {
        let mut sets = text.splitn(4, ':');
        let mut part = || sets.next().ok_or(CodecError::Changed);
        let (form, binding, key, bytes) = (part()?, part()?, part()?, part()?);
        let form = Form::ALL.into_iter().find(|it| it.as_str() == form);
        let binding = Binding::ALL.into_iter().find(|it| it.as_str() == binding);
        let (Some(form), Some(binding)) = (form, binding) else {
            return Err(CodecError::Changed);
        };
        if !form.has(binding) || !Envelope::accepts_key(key) {
            return Err(CodecError::Changed);
        }
        let bytes = STANDARD_NO_PAD.decode(bytes);
        Ok(Envelope {
            encoded: Encoded {
                key: key.to_owned(),
                bytes: bytes.map_err(|_| CodecError::Changed)?,
            },
            form,
            binding,
        })
    }

    /// Whether the reader must know the correlation key of the instance.
    pub(super) fn is_bound_to_a_key(text: &str) -> bool {
        text.starts_with("2:k:")
    }
}

/// Returns the key id of an envelope, for messages.
pub(super) fn key_of(envelope: &str) -> String {
    let key = envelope.split(':').nth(2).unwrap_or_default();
    let is_known = Envelope::accepts_key(key);
    if is_known { key } else { "unknown" }.to_owned()
}

/// Returns the envelope in a text, if it is encoded.
pub(super) fn in_text(text: &str) -> Option<&str> {
    text.strip_prefix(TEXT_HEAD)
}

/// Creates the document that replaces a refused value, so that it is never mistaken for a value.
pub(super) fn refused(error: &CodecError) -> Json {
    let envelope = match error {
        CodecError::NotEncoded => "0:plain",
        CodecError::OldForm => "0:old_form",
        CodecError::Changed
        | CodecError::UnknownKey { .. }
        | CodecError::NoCodec { .. }
        | CodecError::Unavailable { .. } => "0:changed",
    };
    Json::encoded(envelope).unwrap_or_else(|_| Json::null())
}

/// Returns why a value was refused.
///
/// A value that is still encoded because there is no codec counts too.
pub(super) fn refusal(value: &Json) -> Option<CodecError> {
    Some(match value.as_encoded()? {
        "0:plain" => CodecError::NotEncoded,
        "0:old_form" => CodecError::OldForm,
        "0:changed" => CodecError::Changed,
        envelope => CodecError::NoCodec {
            key: key_of(envelope),
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    fn envelope(key: &str, form: Form, binding: Binding, bytes: &[u8]) -> Envelope {
        Envelope {
            encoded: Encoded {
                key: key.into(),
                bytes: bytes.into(),
            },
            form,
            binding,
        }
    }

    #[test]
    fn an_envelope_reads_back_as_it_was() {
        for (key, form, binding, bytes) in [
            ("k", Form::Second, Binding::Instance, &b""[..]),
            ("k", Form::Second, Binding::Child, &[1]),
            ("k", Form::Second, Binding::Key, &[2]),
            ("2026-11.a_B", Form::First, Binding::Nothing, &[0, 255, 7]),
        ] {
            let text = envelope(key, form, binding, bytes).to_text();
            let back = Envelope::parse(&text).unwrap();
            assert_eq!(back.encoded.key, key);
            assert_eq!(back.encoded.bytes, bytes);
            assert_eq!((back.form, back.binding), (form, binding));
            assert_eq!(key_of(&text), key);
            assert_eq!(Envelope::is_bound_to_a_key(&text), binding == Binding::Key);
            assert!(Json::encoded(&text).is_ok());
        }
    }

    #[test]
    fn text_that_no_codec_wrote_is_reported_as_changed() {
        for text in [
            "",
            "1",
            "1:i:k",
            "3:i:k:AAAA",
            "1:c:k:AAAA",
            "1:k:k:AAAA",
            "2:x:k:AAAA",
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
    fn a_refusal_keeps_its_reason() {
        for error in [
            CodecError::NotEncoded,
            CodecError::OldForm,
            CodecError::Changed,
        ] {
            assert_eq!(refusal(&refused(&error)), Some(error));
        }
        assert_eq!(refusal(&Json::null()), None);
    }
}
