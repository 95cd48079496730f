//! Authorization: tokens, their roles, and the queues and machines that they are bound to.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outlast_core::Instance;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The prefix of every secret, so that people and secret scanners recognise one.
const PREFIX: &str = "outlast_";
/// 256 bits. A secret cannot be guessed, so guesses need no rate limit.
const SECRET_BYTES: usize = 32;

/// The permissions of a token. Each role includes the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// May read.
    Read,
    /// May start instances and send signals.
    Signal,
    /// May retry, repair, cancel, terminate, delete, pause and resume.
    Operate,
    /// May do everything.
    Admin,
}

impl Role {
    /// Every role, in ascending order of permissions.
    pub const ALL: [Role; 4] = [Role::Read, Role::Signal, Role::Operate, Role::Admin];

    /// Returns the name of the role.
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
                    "unknown role {word:?}; use read, signal, operate or admin"
                ))
            })
    }
}

/// The reason why a token cannot be used.
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

/// A token as the server knows it: a name, a role, a scope, and the hash of its secret.
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
    /// Generates a secret of 256 random bits and the token that stores its hash. The secret cannot
    /// be recovered later.
    pub fn generate(name: impl Into<String>, role: Role) -> Result<(String, Token), BadToken> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            BadToken::new(format!("the system has no source of randomness: {error}"))
        })?;
        let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let token = Token::of(name, role, &secret)?;
        Ok((secret, token))
    }

    /// Creates the token of a secret that [`generate`](Token::generate) made. Other secrets are
    /// refused, because a secret chosen by a person can be guessed.
    pub fn of(name: impl Into<String>, role: Role, secret: &str) -> Result<Token, BadToken> {
        let bytes = secret
            .strip_prefix(PREFIX)
            .and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
        match bytes {
            Some(bytes) if bytes.len() == SECRET_BYTES => {
                Ok(Token::new(name.into(), role, hash(secret)))
            }
            Some(_) | None => Err(BadToken::new(format!(
                "a secret must be {PREFIX:?} followed by 32 bytes in base64url; create one with Token::generate"
            ))),
        }
    }

    /// Creates a token from a stored [`hash`](Token::hash).
    pub fn hashed(name: impl Into<String>, role: Role, kept: &str) -> Result<Token, BadToken> {
        let bytes = kept
            .strip_prefix("sha256:")
            .and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok())
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| {
            BadToken::new(
                "a hash must be \"sha256:\" followed by 32 bytes in base64url, as returned by Token::hash",
            )
        })?;
        Ok(Token::new(name.into(), role, bytes))
    }

    fn new(name: String, role: Role, hash: [u8; 32]) -> Token {
        let scope = TokenScope::default();
        let caller = Arc::new(Caller { name, role, scope });
        Token { hash, caller }
    }

    /// Returns the hash of the secret as text, for a configuration file.
    pub fn hash(&self) -> String {
        format!("sha256:{}", URL_SAFE_NO_PAD.encode(self.hash))
    }

    /// Binds the token to instances in these queues.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Token {
        let caller = Arc::make_mut(&mut self.caller);
        caller.scope.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// Binds the token to instances of these machines.
    pub fn machines<M: Into<String>>(mut self, machines: impl IntoIterator<Item = M>) -> Token {
        let caller = Arc::make_mut(&mut self.caller);
        caller.scope.machines = Some(machines.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Debug for Token {
    /// Shows no hash: logs must not contain it either.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.caller).finish()
    }
}

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name written to the log of operations.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scope: TokenScope,
}

impl Caller {
    /// Returns a caller with every permission, for a host application that authenticates by itself
    /// or for requests from this machine.
    pub(crate) fn unnamed() -> Caller {
        Caller {
            name: "http".into(),
            role: Role::Admin,
            scope: TokenScope::default(),
        }
    }
}

/// The queues and machines that a token is bound to; `None` means all.
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

/// The tokens that a router accepts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    pub(crate) fn add(&mut self, token: Token) {
        self.0.push(token);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the token of a secret. It compares every token in constant time, so the response time
    /// reveals nothing.
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
    fn each_generated_secret_is_different_and_has_256_bits() {
        let (one, _) = Token::generate("a", Role::Read).unwrap();
        let (two, _) = Token::generate("a", Role::Read).unwrap();
        assert_ne!(one, two);
        assert_eq!(one.len(), PREFIX.len() + 43);
    }

    #[test]
    fn a_made_up_secret_is_refused() {
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
    fn a_token_made_from_a_hash_accepts_its_secret() {
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
    fn roles_are_ordered_and_parse_from_their_names() {
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
