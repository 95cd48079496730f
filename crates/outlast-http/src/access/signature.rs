//! Standard Webhooks: verifies the signature of a message and finds its target.

use crate::problem::{Code, Problem};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PREFIX: &str = "whsec_";
/// The length of a secret that the standard allows.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The largest difference between the message's timestamp and our clock.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// The maximum number of signatures in one message.
const SIGNATURES_MAX: usize = 10;
/// Secrets that are valid at the same time: the current one, and the previous or next one.
const SECRETS_MAX: usize = 2;

/// A secret that signs messages.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

/// The reason why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("webhook: {0}")]
pub struct BadSecret(&'static str);

impl WebhookSecret {
    /// Parses a secret: `whsec_` and 24 to 64 bytes in base64.
    pub fn new(secret: &str) -> Result<WebhookSecret, BadSecret> {
        let bytes = secret
            .strip_prefix(PREFIX)
            .and_then(|encoded| STANDARD.decode(encoded).ok());
        match bytes {
            Some(bytes) if SECRET_BYTES.contains(&bytes.len()) => Ok(WebhookSecret(bytes)),
            Some(_) | None => Err(BadSecret(
                "a secret must be \"whsec_\" followed by 24 to 64 bytes in base64",
            )),
        }
    }

    /// Generates a secret of 256 random bits, as text and as a value.
    pub fn generate() -> Result<(String, WebhookSecret), BadSecret> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|_| BadSecret("the system has no source of randomness"))?;
        Ok((
            format!("{PREFIX}{}", STANDARD.encode(bytes)),
            WebhookSecret(bytes.to_vec()),
        ))
    }

    /// Returns the value that a sender puts in `webhook-signature`.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mac = self
            .mac(id, &timestamp.to_string(), body)
            .finalize()
            .into_bytes();
        format!("v1,{}", STANDARD.encode(mac))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(..)")
    }
}

/// Where the messages of a webhook go: the signal, and the instance that receives it.
///
/// ```
/// use outlast_http::{Settings, WebhookRoute, WebhookSecret};
///
/// let (secret, parsed) = WebhookSecret::generate()?;
/// // {"type": "payment.confirmed", "data": {"order": "order:42", ..}}
/// let route = WebhookRoute::to_key("checkout", "/data/order", "payment_confirmed", parsed);
/// let settings = Settings::new().webhook("payments", route);
/// # Ok::<(), outlast_http::BadSecret>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebhookRoute {
    pub(crate) target: WebhookTarget,
    /// The name of the signal.
    pub(crate) signal: String,
    secrets: Vec<WebhookSecret>,
}

/// How a message names the instance.
#[derive(Clone, Debug)]
pub(crate) enum WebhookTarget {
    Id { pointer: String },
    Key { machine: String, pointer: String },
}

impl WebhookRoute {
    /// Sends to the instance of `machine` whose correlation key is in the body at this JSON
    /// pointer.
    pub fn to_key(
        machine: impl Into<String>,
        pointer: impl Into<String>,
        signal: impl Into<String>,
        secret: WebhookSecret,
    ) -> WebhookRoute {
        WebhookRoute {
            target: WebhookTarget::Key {
                machine: machine.into(),
                pointer: pointer.into(),
            },
            signal: signal.into(),
            secrets: vec![secret],
        }
    }

    /// Sends to the instance whose id is in the body at this JSON pointer.
    pub fn to_id(
        pointer: impl Into<String>,
        signal: impl Into<String>,
        secret: WebhookSecret,
    ) -> WebhookRoute {
        WebhookRoute {
            target: WebhookTarget::Id {
                pointer: pointer.into(),
            },
            signal: signal.into(),
            secrets: vec![secret],
        }
    }

    /// Accepts a second secret as well, while the sender rotates. A third replaces the second.
    pub fn or_secret(mut self, secret: WebhookSecret) -> WebhookRoute {
        self.secrets.truncate(SECRETS_MAX - 1);
        self.secrets.push(secret);
        self
    }

    /// Returns the id of a recent message that one of the secrets signed.
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<String, Problem> {
        let bad = |detail: &str| Problem::new(Code::BadSignature, detail);
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) = (
            header("webhook-id"),
            header("webhook-timestamp"),
            header("webhook-signature"),
        ) else {
            return Err(bad(
                "the headers webhook-id, webhook-timestamp and webhook-signature are required",
            ));
        };
        // Checks the signature first: an unauthenticated sender learns nothing else.
        if !self.is_signed(id, timestamp, body, signatures) {
            return Err(bad("no signature matches the body"));
        }
        check_timestamp(timestamp, now)?;
        Ok(id.to_owned())
    }

    fn is_signed(&self, id: &str, timestamp: &str, body: &[u8], signatures: &str) -> bool {
        let given = signatures.split(' ').filter_map(|signature| {
            let (version, encoded) = signature.split_once(',')?;
            (version == "v1")
                .then(|| STANDARD.decode(encoded).ok())
                .flatten()
        });
        let given: Vec<Vec<u8>> = given.take(SIGNATURES_MAX).collect();
        self.secrets.iter().any(|secret| {
            let mac = secret.mac(id, timestamp, body);
            // Compares in constant time.
            given
                .iter()
                .any(|given| mac.clone().verify_slice(given).is_ok())
        })
    }
}

fn check_timestamp(timestamp: &str, now: SystemTime) -> Result<(), Problem> {
    let seconds = timestamp.parse::<u64>().ok();
    let sent = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    let Some(sent) = sent else {
        return Err(Problem::new(
            Code::StaleTimestamp,
            "webhook-timestamp must be in seconds since 1970",
        ));
    };
    let apart = match now.duration_since(sent) {
        Ok(since) => since,
        Err(ahead) => ahead.duration(),
    };
    if apart <= WINDOW {
        return Ok(());
    }
    let detail = format!(
        "the timestamp is {} s away from the server's clock; at most {} s are allowed",
        apart.as_secs(),
        WINDOW.as_secs()
    );
    Err(Problem::new(Code::StaleTimestamp, detail))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    /// The example of the Standard Webhooks specification. An independent sender made its
    /// signature.
    #[test]
    fn signing_the_example_of_the_standard_gives_its_signature() {
        let secret = WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn malformed_webhook_secrets_are_refused() {
        for bad in [
            "",
            "whsec_",
            "whsec_AAAA",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_???",
        ] {
            assert!(WebhookSecret::new(bad).is_err(), "{bad}");
        }
        let (text, _) = WebhookSecret::generate().unwrap();
        assert!(WebhookSecret::new(&text).is_ok());
    }
}
