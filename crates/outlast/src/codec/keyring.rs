//! The built-in codec: encryption with one or several keys.

use super::envelope::Envelope;
use super::{Codec, CodecError, Encoded, Place};
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use outlast_core::Invalid;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// Encrypts with XChaCha20-Poly1305, with a random nonce for every value.
///
/// It has one or several keys, each with an id. The first key writes, all keys read. To rotate
/// keys, add the new key to every node as a second key, then put it first. Keep the old key until
/// no stored value needs it.
///
/// ```
/// use outlast::codec::Keyring;
///
/// # fn main() -> outlast::Result<()> {
/// # let (new_key, old_key) = ([1; 32], [2; 32]);
/// let keys = Keyring::new("2026-11", &new_key)?.and("2026-05", &old_key)?;
/// assert!(Keyring::new("2026-11", b"too short").is_err());
/// # Ok(())
/// # }
/// ```
///
/// A key is 32 random bytes, from a key service or `openssl rand -base64 32`. A passphrase is not
/// a key. Keys are overwritten when the keyring is dropped, and never shown.
pub struct Keyring {
    keys: Vec<KeyringEntry>,
    accepts_plain: bool,
    accepts_old_form: bool,
}

struct KeyringEntry {
    id: String,
    /// It overwrites its key when it is dropped.
    cipher: Box<XChaCha20Poly1305>,
}

impl Keyring {
    /// Creates a keyring with the key that writes.
    ///
    /// Its id is stored beside every value it encrypts: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub fn new(id: impl Into<String>, key: &[u8]) -> Result<Keyring, Invalid> {
        let keyring = Keyring {
            keys: Vec::new(),
            accepts_plain: true,
            accepts_old_form: true,
        };
        keyring.and(id, key)
    }

    /// Adds a key that reads.
    pub fn and(mut self, id: impl Into<String>, key: &[u8]) -> Result<Keyring, Invalid> {
        let id = id.into();
        if !Envelope::accepts_key(&id) {
            let reason = "must be 1 to 64 letters, digits, '-', '_' and '.'";
            return Err(Invalid::new(format!("the id {id:?} of a key"), reason));
        }
        if self.key(&id).is_some() {
            let reason = "is there already; what one of them wrote, the other could not read";
            return Err(Invalid::new(format!("key {id:?}"), reason));
        }
        let cipher = XChaCha20Poly1305::new_from_slice(key).map_err(|_| {
            let reason = format!("has {} bytes; a key has exactly {KEY_BYTES}", key.len());
            Invalid::new(format!("key {id:?}"), reason)
        })?;
        self.keys.push(KeyringEntry {
            id,
            cipher: Box::new(cipher),
        });
        Ok(self)
    }

    /// Refuses states, results and payloads that are not encrypted.
    ///
    /// They were written before there were keys, or by a client without one. Plain error texts of
    /// the store are still shown.
    #[must_use]
    pub fn require_encoded(mut self) -> Keyring {
        self.accepts_plain = false;
        self
    }

    /// Refuses plain values, and encrypted ones that are not bound to their place.
    ///
    /// Older builds encrypted without that binding. [`require_encoded`](Keyring::require_encoded)
    /// refuses plain values alone.
    ///
    /// An attacker could exchange such values within one instance.
    ///
    /// Set it when every node runs this build and no older row is left: `docs/encryption.md` has
    /// the query.
    #[must_use]
    pub fn require_bound(mut self) -> Keyring {
        self.accepts_plain = false;
        self.accepts_old_form = false;
        self
    }

    fn key(&self, id: &str) -> Option<&KeyringEntry> {
        self.keys.iter().find(|key| key.id == id)
    }
}

impl Codec for Keyring {
    fn encode(&self, plain: &[u8], place: &Place<'_>) -> Result<Encoded, CodecError> {
        let unavailable = |reason: String| CodecError::Unavailable { reason };
        let Some(key) = self.keys.first() else {
            return Err(unavailable("the keyring is empty".into()));
        };
        // Random, because nodes share no counter. With 192 bits a collision is practically
        // impossible.
        let nonce = XNonce::try_generate().map_err(|error| {
            unavailable(format!("there are no random bytes to be had: {error}"))
        })?;
        let message = Payload {
            msg: plain,
            aad: &associated_data(&key.id, place),
        };
        let sealed = key.cipher.encrypt(&nonce, message);
        let sealed = sealed.map_err(|_| unavailable("the cipher refuses the value".into()))?;
        Ok(Encoded {
            key: key.id.clone(),
            bytes: [nonce.as_slice(), &sealed].concat(),
        })
    }

    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>, CodecError> {
        let Encoded { key: id, bytes } = encoded;
        let key = self
            .key(id)
            .ok_or_else(|| CodecError::UnknownKey { key: id.clone() })?;
        let (nonce, sealed) = bytes
            .split_at_checked(NONCE_BYTES)
            .ok_or(CodecError::Changed)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| CodecError::Changed)?;
        let message = Payload {
            msg: sealed,
            aad: &associated_data(id, place),
        };
        key.cipher
            .decrypt(&nonce, message)
            .map_err(|_| CodecError::Changed)
    }

    fn accepts_plain(&self) -> bool {
        self.accepts_plain
    }

    fn accepts_old_form(&self) -> bool {
        self.accepts_old_form
    }
}

/// Returns the place and the key id, so that a value cannot be attributed to another key.
fn associated_data(key: &str, place: &Place<'_>) -> Vec<u8> {
    let mut data = place.associated_data();
    data.extend_from_slice(b" key ");
    data.extend_from_slice(key.as_bytes());
    data
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;
    use crate::codec::{Kind, Spot};
    use outlast_core::InstanceId;

    const PLACE: Place<'static> = Place {
        kind: Kind::State,
        name: "checkout",
        instance: Some(InstanceId(7)),
        spot: Some(Spot::Whole),
    };

    #[test]
    fn a_keyring_decodes_the_values_of_every_key_that_it_has() {
        let old = Keyring::new("old", &[1; 32]).unwrap();
        let both = Keyring::new("new", &[2; 32]).unwrap();
        let both = both.and("old", &[1; 32]).unwrap();
        let encoded = old.encode(b"secret", &PLACE).unwrap();
        assert_eq!(both.decode(&encoded, &PLACE).unwrap(), b"secret");
        let encoded = both.encode(b"secret", &PLACE).unwrap();
        assert_eq!(encoded.key, "new");
        assert_eq!(both.decode(&encoded, &PLACE).unwrap(), b"secret");
        let unknown = CodecError::UnknownKey { key: "new".into() };
        assert_eq!(old.decode(&encoded, &PLACE), Err(unknown));
    }

    #[test]
    fn encrypting_a_value_twice_gives_different_bytes() {
        let keys = Keyring::new("k", &[1; 32]).unwrap();
        let [one, other] = [(); 2].map(|()| keys.encode(b"secret", &PLACE).unwrap());
        assert_ne!(one.bytes[..NONCE_BYTES], other.bytes[..NONCE_BYTES]);
        assert_ne!(one.bytes[NONCE_BYTES..], other.bytes[NONCE_BYTES..]);
        assert_eq!(one.bytes.len(), NONCE_BYTES + b"secret".len() + 16);
    }

    #[test]
    fn decoding_fails_for_a_changed_bit_and_for_another_place() {
        let keys = Keyring::new("k", &[1; 32]).unwrap();
        let encoded = keys.encode(b"secret", &PLACE).unwrap();
        for position in 0..encoded.bytes.len() * 8 {
            let mut changed = encoded.clone();
            changed.bytes[position / 8] ^= 1 << (position % 8);
            assert_eq!(keys.decode(&changed, &PLACE), Err(CodecError::Changed));
        }
        for bytes in 0..encoded.bytes.len() {
            let mut cut = encoded.clone();
            cut.bytes.truncate(bytes);
            assert_eq!(keys.decode(&cut, &PLACE), Err(CodecError::Changed));
        }
        let kind = Place {
            kind: Kind::Result,
            ..PLACE
        };
        let name = Place {
            name: "checkou",
            ..PLACE
        };
        let instance = Place {
            instance: Some(InstanceId(8)),
            ..PLACE
        };
        let unbound = Place {
            instance: None,
            ..PLACE
        };
        let old_form = Place {
            spot: None,
            ..PLACE
        };
        let child = Place {
            spot: Some(Spot::Child {
                parent: InstanceId(7),
                round: 1,
                position: 0,
            }),
            ..PLACE
        };
        for elsewhere in [kind, name, instance, unbound, old_form, child] {
            assert_eq!(keys.decode(&encoded, &elsewhere), Err(CodecError::Changed));
        }
    }

    #[test]
    fn a_value_does_not_decode_under_another_key_id_with_the_same_bytes() {
        let keys = Keyring::new("a", &[1; 32])
            .unwrap()
            .and("b", &[1; 32])
            .unwrap();
        let mut encoded = keys.encode(b"secret", &PLACE).unwrap();
        encoded.key = "b".into();
        assert_eq!(keys.decode(&encoded, &PLACE), Err(CodecError::Changed));
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_reason() {
        for (id, key, reason) in [
            ("k", &[1; 31][..], "has 31 bytes; a key has exactly 32"),
            ("k", &[1; 33][..], "has 33 bytes"),
            ("", &[1; 32][..], "1 to 64 letters"),
            ("a:b", &[1; 32][..], "1 to 64 letters"),
            ("first", &[1; 32][..], "is there already"),
        ] {
            let refused = Keyring::new("first", &[1; 32]).unwrap().and(id, key);
            let message = refused.err().unwrap().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
