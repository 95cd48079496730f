//! Who may do what: tokens, their roles, and how far they reach.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outlast_core::Instance;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// How every secret begins, so that people and scanners know what they look at.
const PREFIX: &str = "outlast_";
/// 256 bits: nobody guesses one, so nothing has to slow guesses down.
const SECRET_BYTES: usize = 32;

/// What a token allows. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Looking.
    Read,
    /// Starting instances and sending signals.
    Signal,
    /// Retrying, cancelling, terminating, deleting, pausing and resuming.
    Operate,
    /// Everything.
    Admin,
}

impl Role {
    /// Every role, from the least to the most.
    pub const ALL: [Role; 4] = [Role::Read, Role::Signal, Role::Operate, Role::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Signal => "signal",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = BadToken;

    fn from_str(word: &str) -> Result<Role, BadToken> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| {
                BadToken::new(format!(
                    "{word:?} is no role: read, signal, operate or admin"
                ))
            })
    }
}

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("token: {reason}")]
pub struct BadToken {
    reason: String,
}

impl BadToken {
    fn new(reason: impl Into<String>) -> BadToken {
        BadToken {
            reason: reason.into(),
        }
    }
}

/// A token as the server knows it: a name, a role, how far it reaches, and the hash of its secret.
///
/// ```
/// use outlast_http::{Role, Token};
///
/// // Made once; only the hash has to be kept.
/// let (secret, token) = Token::generate("shop", Role::Signal)?;
/// assert!(secret.starts_with("outlast_"));
/// let kept = token.hash();
///
/// let token = Token::hashed("shop", Role::Signal, &kept)?.queues(["orders"]).machines(["checkout"]);
/// # Ok::<(), outlast_http::BadToken>(())
/// ```
#[derive(Clone)]
pub struct Token {
    hash: [u8; 32],
    caller: Arc<Caller>,
}

impl Token {
    /// Makes a new secret of 256 random bits, and the token that knows its hash. The secret cannot be had again.
    pub fn generate(name: impl Into<String>, role: Role) -> Result<(String, Token), BadToken> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| BadToken::new(format!("there is no randomness to be had: {error}")))?;
        let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let token = Token::of(name, role, &secret)?;
        Ok((secret, token))
    }

    /// The token of a secret that [`generate`](Token::generate) made. Others are refused: what people think up
    /// can be guessed.
    pub fn of(name: impl Into<String>, role: Role, secret: &str) -> Result<Token, BadToken> {
        let bytes = secret
            .strip_prefix(PREFIX)
            .and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
        match bytes {
            Some(bytes) if bytes.len() == SECRET_BYTES => {
                Ok(Token::new(name.into(), role, hash(secret)))
            }
            Some(_) | None => Err(BadToken::new(format!(
                "a secret is {PREFIX:?} and 32 random bytes in base64url; make one with Token::generate"
            ))),
        }
    }

    /// The token whose [`hash`](Token::hash) was kept.
    pub fn hashed(name: impl Into<String>, role: Role, kept: &str) -> Result<Token, BadToken> {
        let bytes = kept
            .strip_prefix("sha256:")
            .and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok())
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| {
            BadToken::new(
                "a hash is \"sha256:\" and 32 bytes in base64url, as Token::hash gives it",
            )
        })?;
        Ok(Token::new(name.into(), role, bytes))
    }

    fn new(name: String, role: Role, hash: [u8; 32]) -> Token {
        let scope = TokenScope::default();
        let caller = Arc::new(Caller { name, role, scope });
        Token { hash, caller }
    }

    /// What to keep of it: the hash of the secret, as text.
    pub fn hash(&self) -> String {
        format!("sha256:{}", URL_SAFE_NO_PAD.encode(self.hash))
    }

    /// It reaches only instances in these queues.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Token {
        let caller = Arc::make_mut(&mut self.caller);
        caller.scope.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// It reaches only instances of these machines.
    pub fn machines<M: Into<String>>(mut self, machines: impl IntoIterator<Item = M>) -> Token {
        let caller = Arc::make_mut(&mut self.caller);
        caller.scope.machines = Some(machines.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Debug for Token {
    /// Even the hash is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.caller).finish()
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// What stands in the record of operations.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scope: TokenScope,
}

impl Caller {
    /// Somebody whom nobody has to recognise: the host application did, or there is only this machine.
    pub(crate) fn unnamed() -> Caller {
        Caller {
            name: "http".into(),
            role: Role::Admin,
            scope: TokenScope::default(),
        }
    }
}

/// How far a token reaches; `None` means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TokenScope {
    pub(crate) queues: Option<BTreeSet<String>>,
    pub(crate) machines: Option<BTreeSet<String>>,
}

impl TokenScope {
    pub(crate) fn is_everything(&self) -> bool {
        self.queues.is_none() && self.machines.is_none()
    }

    pub(crate) fn has_queue(&self, queue: &str) -> bool {
        self.queues
            .as_ref()
            .is_none_or(|queues| queues.contains(queue))
    }

    pub(crate) fn has_machine(&self, machine: &str) -> bool {
        let machines = self.machines.as_ref();
        machines.is_none_or(|machines| machines.contains(machine))
    }

    pub(crate) fn has(&self, instance: &Instance) -> bool {
        self.has_machine(&instance.machine) && self.has_queue(&instance.queue)
    }
}

/// The tokens that a router knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    pub(crate) fn add(&mut self, token: Token) {
        self.0.push(token);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose secret this is. Every token is looked at, and each comparison takes as long as any other, so that the
    /// time it takes tells nothing.
    pub(crate) fn find(&self, secret: &str) -> Option<Arc<Caller>> {
        let presented = hash(secret);
        let (mut found, mut at) = (Choice::from(0), 0u32);
        for (position, token) in (0u32..).zip(&self.0) {
            let equal = token.hash.ct_eq(&presented);
            at.conditional_assign(&position, equal);
            found |= equal;
        }
        let token = self.0.get(usize::try_from(at).ok()?)?;
        bool::from(found).then(|| token.caller.clone())
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    #[test]
    fn a_secret_finds_its_token_and_no_other_does() {
        let mut tokens = Tokens::default();
        let made: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| Token::generate(name, Role::Read).unwrap())
            .collect();
        made.iter().for_each(|(_, token)| tokens.add(token.clone()));
        for (secret, token) in &made {
            assert_eq!(tokens.find(secret).unwrap().name, token.caller.name);
            assert!(tokens.find(&secret[..secret.len() - 1]).is_none());
            assert!(tokens.find(&format!("{secret}A")).is_none());
        }
        assert!(tokens.find("").is_none());
        assert!(Tokens::default().find(&made[0].0).is_none());
    }

    #[test]
    fn secrets_have_256_bits_and_none_is_like_another() {
        let (one, _) = Token::generate("a", Role::Read).unwrap();
        let (two, _) = Token::generate("a", Role::Read).unwrap();
        assert_ne!(one, two);
        assert_eq!(one.len(), PREFIX.len() + 43);
    }

    #[test]
    fn what_was_thought_up_is_no_secret() {
        for weak in [
            "",
            "hunter2",
            "outlast_",
            "outlast_AAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(Token::of("a", Role::Read, weak).is_err(), "{weak}");
        }
    }

    #[test]
    fn a_token_made_of_its_hash_knows_the_secret() {
        let (secret, token) = Token::generate("a", Role::Admin).unwrap();
        let mut tokens = Tokens::default();
        tokens.add(Token::hashed("a", Role::Admin, &token.hash()).unwrap());
        assert!(tokens.find(&secret).is_some());
        assert!(Token::hashed("a", Role::Admin, "sha256:AAAA").is_err());
    }

    #[test]
    fn a_token_shows_neither_secret_nor_hash() {
        let (secret, token) = Token::generate("a", Role::Read).unwrap();
        let shown = format!("{token:?}");
        assert!(
            !shown.contains(&secret) && !shown.contains(&token.hash()),
            "{shown}"
        );
    }

    #[test]
    fn roles_include_those_before_them() {
        assert!(
            Role::Read < Role::Signal
                && Role::Signal < Role::Operate
                && Role::Operate < Role::Admin
        );
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().unwrap(), role);
        }
        assert!("root".parse::<Role>().is_err());
    }
}
