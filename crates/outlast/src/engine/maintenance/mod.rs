//! The loops that keep the store in order. Every node that does maintenance runs all of them.
//!
//! None of them runs user code, and none of them needs to be the only one of its kind.

pub(super) mod cascader;
pub(super) mod collector;
pub(super) mod reaper;
pub(super) mod reconciler;
pub(super) mod timers;
