//! Whether anybody else may be listening. A message costs the server as much as a commit, so a node that is
//! alone says nothing but now and then that it is there.
//!
//! Who listens says so when it begins and every half minute, and answers whoever begins. Who has heard nobody
//! for a minute and a half is alone. Somebody who does not listen cannot know, and always tells.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a node that listens says so.
pub(crate) const GREETING_INTERVAL: Duration = Duration::from_secs(30);
/// How long after its last word somebody counts as there.
const ABSENT_AFTER: Duration = Duration::from_secs(90);
/// How long the others have to answer a newcomer.
const NEWCOMER_FOR: Duration = Duration::from_secs(1);

/// What is known of the others.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    state: Mutex<State>,
    /// Somebody has begun to listen, and is to be answered.
    pub(crate) newcomer: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    listening_since: Option<Instant>,
    heard: Option<Instant>,
}

impl Presence {
    /// Whether nobody would hear.
    pub(crate) fn is_alone(&self) -> bool {
        let State {
            listening_since,
            heard,
        } = *self.lock();
        let known = listening_since.is_some_and(|since| since.elapsed() > NEWCOMER_FOR);
        known && heard.is_none_or(|heard| heard.elapsed() > ABSENT_AFTER)
    }

    /// This node listens now, or not any more.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.lock().listening_since = listening.then(Instant::now);
    }

    /// Another node has said something.
    pub(crate) fn note_other(&self) {
        self.lock().heard = Some(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_has_listened_for_a_while_and_heard_nobody_is_alone() {
        let presence = Presence::default();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(
            !presence.is_alone(),
            "it does not listen, so it cannot know"
        );
        presence.set_listening(true);
        assert!(
            !presence.is_alone(),
            "the others have not had time to answer"
        );
        tokio::time::advance(NEWCOMER_FOR * 2).await;
        assert!(presence.is_alone());
        presence.note_other();
        tokio::time::advance(GREETING_INTERVAL * 2).await;
        assert!(!presence.is_alone());
        tokio::time::advance(ABSENT_AFTER).await;
        assert!(presence.is_alone(), "the other has gone");
        presence.set_listening(false);
        assert!(!presence.is_alone());
    }
}
