//! Whether another node may be listening.
//!
//! A message costs the server as much as a commit. So a node without others sends greetings only.
//!
//! `listen.rs` keeps it (docs/decisions/0018). A wrong answer costs time or a message.
//!
//! A listening node announces itself when it starts and every 30 s, and it answers new nodes. A
//! node that has heard nothing for 90 s is alone. A node that does not listen cannot know, and
//! always sends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a listening node announces itself.
pub(crate) const GREETING_INTERVAL: Duration = Duration::from_secs(30);
/// How long after its last message a node counts as present.
///
/// Three times the interval, so that a lost greeting does no harm.
const ABSENT_AFTER: Duration = Duration::from_secs(90);
/// How long the other nodes have to answer a new node. Until then it sends its hints.
const NEWCOMER_FOR: Duration = Duration::from_secs(1);

/// What this node knows about the others.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    state: Mutex<State>,
    /// Notified when another node has started to listen and waits for an answer.
    pub(crate) newcomer: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    listening_since: Option<Instant>,
    last_message: Option<Instant>,
}

impl Presence {
    /// Returns whether no other node would receive a message.
    pub(crate) fn is_alone(&self) -> bool {
        let State {
            listening_since,
            last_message,
        } = *self.lock();
        let known = listening_since.is_some_and(|since| since.elapsed() > NEWCOMER_FOR);
        known && last_message.is_none_or(|at| at.elapsed() > ABSENT_AFTER)
    }

    /// Records whether this node listens.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.lock().listening_since = listening.then(Instant::now);
    }

    /// Records a message of another node.
    pub(crate) fn note_other(&self) {
        self.lock().last_message = Some(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_alone_after_it_has_listened_for_a_while_and_heard_no_other() {
        let presence = Presence::default();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(
            !presence.is_alone(),
            "a node that does not listen cannot know"
        );
        presence.set_listening(true);
        assert!(
            !presence.is_alone(),
            "the other nodes have not had time to answer"
        );
        tokio::time::advance(NEWCOMER_FOR * 2).await;
        assert!(presence.is_alone());
        presence.note_other();
        tokio::time::advance(GREETING_INTERVAL * 2).await;
        assert!(!presence.is_alone());
        tokio::time::advance(ABSENT_AFTER).await;
        assert!(presence.is_alone(), "the other node has gone");
        presence.set_listening(false);
        assert!(!presence.is_alone());
    }
}
