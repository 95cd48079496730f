//! What a client and its server say to each other, and where among it a transaction is committed.

use super::framing::{Message, split_text};
use super::sql::{Effect, effects};
use std::collections::HashMap;

/// What a client has asked, up to where the server says that it waits again.
#[derive(Default)]
pub(super) struct Asked {
    /// Prepared statements and what they do.
    statements: HashMap<Vec<u8>, Effect>,
    /// Bound ones, ready to be executed.
    portals: HashMap<Vec<u8>, Effect>,
    /// Whether the client has begun a transaction and not ended it.
    in_block: bool,
    /// Whether something was written since the transaction began.
    wrote: bool,
    /// What the current round commits, so far.
    commits: Option<Commits>,
}

/// How a round commits what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commits {
    /// By saying so.
    Said,
    /// By the end of a round in which something was written outside a transaction.
    Alone,
}

/// What a message of the client is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// With this message the server commits what was written.
    pub(super) commits: Option<Commits>,
    /// With it a round ends, and the server answers where it stands.
    pub(super) ends_round: bool,
}

impl Asked {
    /// Takes in the next message of the client.
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
                    self.does(effect);
                }
                ends_round = true;
            }
            b'S' | b'F' => ends_round = true,
            _ => {}
        }
        if ends_round && !self.in_block && std::mem::take(&mut self.wrote) {
            self.commits = self.commits.or(Some(Commits::Alone));
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

    fn does(&mut self, effect: Effect) {
        match effect {
            Effect::Begin => {
                self.in_block = true;
                self.wrote = false;
            }
            Effect::Commit => {
                self.in_block = false;
                if std::mem::take(&mut self.wrote) {
                    self.commits = Some(Commits::Said);
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
            self.does(effect);
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

/// What the server has answered in the current round.
#[derive(Default)]
pub(super) struct Answered {
    failed: bool,
    committed: bool,
}

impl Answered {
    /// Takes in the next message of the server; where it stands when the round is over.
    pub(super) fn take(&mut self, message: &Message<'_>) -> Option<u8> {
        match message.kind {
            b'E' => self.failed = true,
            b'C' => self.committed |= message.body == b"COMMIT\0",
            b'Z' => return message.body.first().copied(),
            _ => {}
        }
        None
    }

    /// Whether what the round was to commit is committed.
    pub(super) fn has_committed(&self, how: Commits, status: u8) -> bool {
        match how {
            Commits::Said => self.committed,
            Commits::Alone => !self.failed && status == b'I',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of these messages commits.
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
    fn a_commit_is_found_where_the_server_is_told_of_it() {
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
        let said = Some(Commits::Said);
        let expected = [None, None, None, None, said];
        assert_eq!(commits(&mut asked, &in_block), expected);
        let alone = [(b'B', "\0s1\0"), (b'E', "\0"), (b'S', "")];
        let expected = [None, None, Some(Commits::Alone)];
        assert_eq!(commits(&mut asked, &alone), expected);
        // What executes COMMIT commits, before the round ends.
        let executed = [
            (b'Q', "begin; insert into t values (1)\0"),
            (b'P', "\0commit\0"),
            (b'B', "\0\0"),
            (b'E', "\0"),
            (b'S', ""),
        ];
        let expected = [None, None, None, said, None];
        assert_eq!(commits(&mut asked, &executed), expected);
    }

    #[test]
    fn what_writes_nothing_or_is_taken_back_commits_nothing() {
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
        let said_at_once = [(b'Q', "begin; delete from t; commit\0")];
        let expected = [Some(Commits::Said)];
        assert_eq!(commits(&mut asked, &said_at_once), expected);
    }

    #[test]
    fn only_what_the_server_confirms_is_committed() {
        let mut answered = Answered::default();
        let mut take = |kind, body: &[u8]| {
            let bytes = body;
            answered.take(&Message { kind, body, bytes })
        };
        assert_eq!(take(b'C', b"ROLLBACK\0"), None);
        assert_eq!(take(b'Z', b"I"), Some(b'I'));
        assert!(!answered.has_committed(Commits::Said, b'I'));
        assert!(answered.has_committed(Commits::Alone, b'I'));
        assert!(!answered.has_committed(Commits::Alone, b'T'));
        let failed = Answered {
            failed: true,
            committed: false,
        };
        assert!(!failed.has_committed(Commits::Alone, b'I'));
    }
}
