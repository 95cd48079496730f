//! Follows the protocol between a client and its server, and detects commits.

use super::framing::{Message, split_text};
use super::sql::{Effect, effects};
use std::collections::HashMap;

/// The client's messages, up to the point where the server is ready again.
#[derive(Default)]
pub(super) struct Asked {
    /// Prepared statements and their effects.
    statements: HashMap<Vec<u8>, Effect>,
    /// Bound portals, ready to be executed.
    portals: HashMap<Vec<u8>, Effect>,
    /// Whether the client is in a transaction block.
    in_block: bool,
    /// Whether the transaction has written something.
    wrote: bool,
    /// What the current round commits so far.
    commits: Option<Commits>,
}

/// How a round commits its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commits {
    /// By an explicit `COMMIT`.
    Explicit,
    /// By the end of a round with a write outside a transaction.
    Implicit,
}

/// The meaning of a client's message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Whether the server commits writes with this message.
    pub(super) commits: Option<Commits>,
    /// Whether it ends a round, so that the server reports its state.
    pub(super) ends_round: bool,
}

impl Asked {
    /// Processes the next message of the client.
    pub(super) fn take(&mut self, message: &Message<'_>) -> Step {
        let before = self.commits;
        let mut ends_round = false;
        match message.kind {
            b'P' => self.parse(message.body),
            b'B' => self.bind(message.body),
            b'E' => self.execute(message.body),
            b'C' => self.close(message.body),
            b'Q' => {
                let text = split_text(message.body).map_or(&b""[..], |(text, _)| text);
                for effect in effects(&String::from_utf8_lossy(text)) {
                    self.apply(effect);
                }
                ends_round = true;
            }
            b'S' | b'F' => ends_round = true,
            _ => {}
        }
        if ends_round && !self.in_block && std::mem::take(&mut self.wrote) {
            self.commits = self.commits.or(Some(Commits::Implicit));
        }
        let commits = self.commits.filter(|_| before.is_none());
        if ends_round {
            self.commits = None;
        }
        Step {
            commits,
            ends_round,
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Begin => {
                self.in_block = true;
                self.wrote = false;
            }
            Effect::Commit => {
                self.in_block = false;
                if std::mem::take(&mut self.wrote) {
                    self.commits = Some(Commits::Explicit);
                }
            }
            Effect::RollBack => {
                self.in_block = false;
                self.wrote = false;
            }
            Effect::Write => self.wrote = true,
            Effect::Nothing => {}
        }
    }

    fn parse(&mut self, body: &[u8]) {
        let named = split_text(body).and_then(|(name, rest)| Some((name, split_text(rest)?.0)));
        if let Some((name, text)) = named {
            let effect = effects(&String::from_utf8_lossy(text)).first().copied();
            let effect = effect.unwrap_or(Effect::Nothing);
            self.statements.insert(name.to_vec(), effect);
        }
    }

    fn bind(&mut self, body: &[u8]) {
        let named = split_text(body).and_then(|(name, rest)| Some((name, split_text(rest)?.0)));
        if let Some((portal, statement)) = named {
            let effect = self.statements.get(statement).copied();
            let effect = effect.unwrap_or(Effect::Nothing);
            self.portals.insert(portal.to_vec(), effect);
        }
    }

    fn execute(&mut self, body: &[u8]) {
        let portal = split_text(body).map_or(&b""[..], |(portal, _)| portal);
        if let Some(effect) = self.portals.get(portal).copied() {
            self.apply(effect);
        }
    }

    fn close(&mut self, body: &[u8]) {
        let Some((kind, Some((name, _)))) =
            body.split_first().map(|(k, rest)| (k, split_text(rest)))
        else {
            return;
        };
        match kind {
            b'S' => self.statements.remove(name),
            _ => self.portals.remove(name),
        };
    }
}

/// The server's messages in the current round.
#[derive(Default)]
pub(super) struct Answered {
    failed: bool,
    committed: bool,
}

impl Answered {
    /// Processes the next message of the server. Returns its transaction state when the round is
    /// over.
    pub(super) fn take(&mut self, message: &Message<'_>) -> Option<u8> {
        match message.kind {
            b'E' => self.failed = true,
            b'C' => self.committed |= message.body == b"COMMIT\0",
            b'Z' => return message.body.first().copied(),
            _ => {}
        }
        None
    }

    /// Returns whether the commit of the round succeeded.
    pub(super) fn has_committed(&self, how: Commits, status: u8) -> bool {
        match how {
            Commits::Explicit => self.committed,
            Commits::Implicit => !self.failed && status == b'I',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what each of these messages commits.
    fn commits(asked: &mut Asked, messages: &[(u8, &str)]) -> Vec<Option<Commits>> {
        let step = |(kind, body): &(u8, &str)| {
            let body = body.as_bytes();
            let bytes = body;
            let kind = *kind;
            asked.take(&Message { kind, body, bytes }).commits
        };
        messages.iter().map(step).collect()
    }

    #[test]
    fn a_commit_is_found_in_the_message_that_requests_it() {
        let mut asked = Asked::default();
        let prepared = [(b'P', "s1\0insert into t values (1)\0"), (b'S', "")];
        assert_eq!(commits(&mut asked, &prepared), [None, None]);
        let in_block = [
            (b'Q', "begin\0"),
            (b'B', "\0s1\0"),
            (b'E', "\0"),
            (b'S', ""),
            (b'Q', "commit\0"),
        ];
        let explicit = Some(Commits::Explicit);
        let expected = [None, None, None, None, explicit];
        assert_eq!(commits(&mut asked, &in_block), expected);
        let implicit = [(b'B', "\0s1\0"), (b'E', "\0"), (b'S', "")];
        let expected = [None, None, Some(Commits::Implicit)];
        assert_eq!(commits(&mut asked, &implicit), expected);
        // An executed COMMIT commits before the round ends.
        let executed = [
            (b'Q', "begin; insert into t values (1)\0"),
            (b'P', "\0commit\0"),
            (b'B', "\0\0"),
            (b'E', "\0"),
            (b'S', ""),
        ];
        let expected = [None, None, None, explicit, None];
        assert_eq!(commits(&mut asked, &executed), expected);
    }

    #[test]
    fn a_transaction_that_only_reads_or_rolls_back_is_no_commit() {
        let mut asked = Asked::default();
        for round in [
            &[(b'Q', "begin\0"), (b'Q', "select 1\0"), (b'Q', "commit\0")][..],
            &[
                (b'Q', "begin\0"),
                (b'Q', "delete from t\0"),
                (b'Q', "rollback\0"),
            ],
            &[(b'Q', "select 1\0"), (b'S', "")],
            &[
                (b'P', "s\0delete from t\0"),
                (b'C', "Ss\0"),
                (b'B', "\0s\0"),
                (b'E', "\0"),
                (b'S', ""),
            ],
        ] {
            let found = commits(&mut asked, round);
            assert!(found.iter().all(Option::is_none), "{round:?}: {found:?}");
        }
        let in_one_query = [(b'Q', "begin; delete from t; commit\0")];
        let expected = [Some(Commits::Explicit)];
        assert_eq!(commits(&mut asked, &in_one_query), expected);
    }

    #[test]
    fn only_a_commit_that_the_server_confirms_counts() {
        let mut answered = Answered::default();
        let mut take = |kind, body: &[u8]| {
            let bytes = body;
            answered.take(&Message { kind, body, bytes })
        };
        assert_eq!(take(b'C', b"ROLLBACK\0"), None);
        assert_eq!(take(b'Z', b"I"), Some(b'I'));
        assert!(!answered.has_committed(Commits::Explicit, b'I'));
        assert!(answered.has_committed(Commits::Implicit, b'I'));
        assert!(!answered.has_committed(Commits::Implicit, b'T'));
        let failed = Answered {
            failed: true,
            committed: false,
        };
        assert!(!failed.has_committed(Commits::Implicit, b'I'));
    }
}
