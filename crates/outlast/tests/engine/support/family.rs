//! Machines for tests of families. The tests decide when they go on.

use outlast::prelude::*;
use outlast::{Outcome, StepError};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Lets a parked child go on.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Go;

/// A child that does what its state says.
#[derive(Clone, Default)]
pub(crate) struct Kid {
    /// How many [`Play::Busy`] steps run at this moment.
    pub(crate) running: Arc<AtomicUsize>,
    /// The largest value of `running` so far.
    pub(crate) most: Arc<AtomicUsize>,
    /// How many steps were dropped where they await.
    pub(crate) dropped: Arc<AtomicUsize>,
    /// Steps and cancels, in the order in which they ran.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

#[steps]
#[derive(Clone)]
pub(crate) enum Play {
    /// Ends as done with this output.
    Win(u32),
    /// Ends as failed with this reason.
    Lose(String),
    /// Waits for [`Go`], then goes on with this state.
    Park(Box<Play>),
    /// Runs until it is dropped or cancelled.
    Linger,
    /// Yields once, then ends as done.
    Busy,
    /// Parks. A cancel leads to [`Play::Tidied`].
    Tidy,
    /// Ends as cancelled, after the cleanup.
    Tidied,
}

impl Kid {
    pub(crate) fn saw(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }
}

/// Counts a step that is dropped where it awaits.
pub(crate) struct Guard {
    dropped: Arc<AtomicUsize>,
    ended: bool,
}

impl Guard {
    pub(crate) fn new(dropped: &Arc<AtomicUsize>) -> Guard {
        Guard {
            dropped: dropped.clone(),
            ended: false,
        }
    }

    pub(crate) fn ends(mut self) {
        self.ended = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Machine for Kid {
    const NAME: &'static str = "kid";
    type State = Play;
    type Output = u32;

    async fn step(&self, play: Play, cx: &Context) -> StepResult<Self> {
        self.saw(cx.step());
        match play {
            Play::Win(points) => done(points),
            Play::Lose(reason) => fail(reason),
            Play::Park(then) => wait_for::<Go>().then(*then),
            Play::Linger => {
                let guard = Guard::new(&self.dropped);
                cx.cancelled().await;
                guard.ends();
                Ok(Outcome::requeue(Play::Linger))
            }
            Play::Busy => {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(running, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                done(1)
            }
            Play::Tidy => wait_for::<Go>().then(Play::Tidy),
            Play::Tidied => Ok(Outcome::cancelled("tidied up")),
        }
    }

    async fn on_cancel(&self, play: Play, cx: &Context) -> StepResult<Self> {
        let reason = cx.cancel_reason().unwrap_or_default().to_owned();
        self.saw(format!("cancel: {reason}"));
        match play {
            Play::Tidy => next(Play::Tidied),
            Play::Win(_)
            | Play::Lose(_)
            | Play::Park(_)
            | Play::Linger
            | Play::Busy
            | Play::Tidied => Ok(Outcome::cancelled(reason)),
        }
    }
}

/// The children of the current round and the reason of the join, as the parent sees them.
pub(crate) fn round(cx: &Context) -> Result<Value, StepError> {
    let kids = cx.children::<Kid>()?;
    let kids: Vec<_> = kids
        .iter()
        .map(|kid| json!([kid.position, kid.status, kid.output, kid.error]))
        .collect();
    let first = cx.first_failure().map(|child| child.position);
    Ok(json!({ "joined": cx.joined(), "kids": kids, "first_failure": first }))
}
