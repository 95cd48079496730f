//! Cancels and the verbs of operators.

pub mod cancel_answers;
pub mod cancelling;
pub mod operators;
