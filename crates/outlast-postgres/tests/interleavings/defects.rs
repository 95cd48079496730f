//! Statements as they must not be, kept to show that they are caught.

use super::gate::Variants;

macro_rules! variants {
    ($($statement:literal => $file:literal),* $(,)?) => {
        Variants::from([$(($statement, include_str!(concat!("defective/", $file, ".sql")).to_owned())),*])
    };
}

/// PROTOCOL §3 #2: the park does not lock its row before it looks into the inbox.
pub(crate) fn park_without_locking() -> Variants {
    variants! { "commit/lock" => "park_without_locking" }
}

/// PROTOCOL §3 #2: the park locks its row in the statement that looks into the inbox.
pub(crate) fn park_in_one_statement() -> Variants {
    variants! {
        "commit/lock" => "park_without_locking",
        "commit/park" => "park_in_one_statement",
    }
}

/// PROTOCOL §3 #2: the delivery does not lock its target before it looks at it.
pub(crate) fn deliver_without_locking() -> Variants {
    variants! { "deliver/lock" => "deliver_without_locking" }
}

/// PROTOCOL §3 #2: the delivery does not wait for a target that somebody holds.
pub(crate) fn deliver_without_waiting() -> Variants {
    variants! { "deliver/lock" => "deliver_without_waiting" }
}

/// PROTOCOL §3 #2: neither side locks first.
pub(crate) fn neither_locks() -> Variants {
    let mut both = park_without_locking();
    both.extend(deliver_without_locking());
    both
}

/// PROTOCOL §3 #3: outcomes are written whatever became of the claim.
pub(crate) fn outcome_without_fence() -> Variants {
    variants! {
        "commit/lock" => "lock_without_fence",
        "commit/join" => "join_without_fence",
        "commit/advance" => "end_without_fence",
    }
}

/// PROTOCOL §3 #3: a lost outcome counts the end that another has written.
pub(crate) fn join_whoever_wrote() -> Variants {
    variants! { "commit/join" => "join_whoever_wrote" }
}

/// PROTOCOL §3 #5: siblings of one batch are not counted per parent.
pub(crate) fn join_without_count() -> Variants {
    variants! { "commit/join" => "join_without_count" }
}

/// The next in line is passed over while somebody holds it.
pub(crate) fn let_through_without_waiting() -> Variants {
    variants! { "commit/let_through" => "let_through_without_waiting" }
}

/// A claim sets rows aside behind one that may be leaving, and overtakes elders it could not lock.
pub(crate) fn set_aside_without_locking() -> Variants {
    variants! { "claim/claim" => "set_aside_without_locking" }
}
