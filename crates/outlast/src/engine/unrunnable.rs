//! What keeps this node from running an instance, when others perhaps can: it is asked for less and less often.

use crate::codec::CodecError;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first and the longest pause of an instance that is left to others.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How many different obstacles are remembered.
const OBSTACLES_MAX: usize = 1_000;

/// Why this node cannot run an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unrunnable {
    /// This build does not know the step of this machine's version.
    UnknownStep(String, i32, String),
    /// What it carries is encoded with a key that is not here.
    UnknownKey(String),
    /// The codec does not work.
    Codec,
}

impl Unrunnable {
    /// What is in the way of reading or writing a value.
    pub(crate) fn of(error: &CodecError) -> Unrunnable {
        match error {
            CodecError::UnknownKey { key } | CodecError::NoCodec { key } => {
                Unrunnable::UnknownKey(key.clone())
            }
            CodecError::Changed
            | CodecError::NotEncoded
            | CodecError::OldForm
            | CodecError::Unavailable { .. } => Unrunnable::Codec,
        }
    }
}

/// An obstacle that was met.
pub(crate) struct Met {
    /// For the first time: worth a word.
    pub(crate) is_new: bool,
    /// How long the instance is left alone.
    pub(crate) pause: Duration,
}

/// How often each obstacle was in the way of a node.
#[derive(Default)]
pub(crate) struct Unrunnables(Mutex<HashMap<Unrunnable, u32>>);

impl Unrunnables {
    pub(crate) fn meet(&self, obstacle: Unrunnable) -> Met {
        let mut obstacles = self.lock();
        if obstacles.len() >= OBSTACLES_MAX && !obstacles.contains_key(&obstacle) {
            obstacles.clear();
        }
        let seen = obstacles.entry(obstacle).or_default();
        let pause = PAUSE.saturating_mul(1 << (*seen).min(6)).min(PAUSE_MAX);
        let is_new = *seen == 0;
        *seen = seen.saturating_add(1);
        Met { is_new, pause }
    }

    /// It is out of the way.
    pub(crate) fn overcome(&self, obstacle: &Unrunnable) {
        self.lock().remove(obstacle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Unrunnable, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
