//! The reasons why this node cannot run an instance that another node may be able to run.
//!
//! The executor gives such an instance back for a pause that grows with each attempt.

use crate::codec::CodecError;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first and the longest pause of an instance that is left to other nodes.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How many different reasons are remembered.
const REASONS_MAX: usize = 1_000;

/// Why this node cannot run an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unrunnable {
    /// This build does not know the step of this machine's version.
    UnknownStep(String, i32, String),
    /// Its values are encoded with a key that this node lacks.
    UnknownKey(String),
    /// The codec does not work.
    Codec,
}

impl Unrunnable {
    /// Returns why a value cannot be read or written.
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

/// A reason that was just met.
pub(crate) struct Postponement {
    /// Whether this is the first time, which is worth a log line.
    pub(crate) is_new: bool,
    /// How long to leave the instance alone.
    pub(crate) pause: Duration,
}

/// How often this node has met each reason.
#[derive(Default)]
pub(crate) struct Unrunnables(Mutex<HashMap<Unrunnable, u32>>);

impl Unrunnables {
    pub(crate) fn note(&self, reason: Unrunnable) -> Postponement {
        let mut reasons = self.lock();
        if reasons.len() >= REASONS_MAX && !reasons.contains_key(&reason) {
            reasons.clear();
        }
        let seen = reasons.entry(reason).or_default();
        let pause = PAUSE.saturating_mul(1 << (*seen).min(6)).min(PAUSE_MAX);
        let is_new = *seen == 0;
        *seen = seen.saturating_add(1);
        Postponement { is_new, pause }
    }

    /// Forgets a reason that no longer applies.
    pub(crate) fn forget(&self, reason: &Unrunnable) {
        self.lock().remove(reason);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Unrunnable, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
