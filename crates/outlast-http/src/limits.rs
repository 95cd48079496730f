//! Every bound of the API, with its reason.

use std::time::Duration;

/// A request body is at most as large as one state. Larger data belongs in other storage, with its
/// address here.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The nesting of a body, checked before parsing.
pub(crate) const BODY_DEPTH_MAX: usize = 64;
/// Instances on a page.
pub(crate) const PAGE_MAX: usize = 200;
/// The default number of instances on a page.
pub(crate) const PAGE_DEFAULT: usize = 50;
/// Instances that one request inserts.
pub(crate) const BATCH_MAX: usize = 1_000;
/// Instances that one request of a bulk verb examines.
pub(crate) const BULK_MAX: usize = 500;
/// Instances that one event stream follows by id.
pub(crate) const FOLLOWED_MAX: usize = 200;
/// Open calls of a workflow that are shown; the groups carry the total.
pub(crate) const WAITS_SHOWN: usize = 200;
/// Handled failures that are shown; the body carries the total.
pub(crate) const HANDLED_SHOWN: usize = 50;
/// Memory of one request that reads values. It holds a page of values in the database's response,
/// as rows, and as text in a buffer that grows by doubling.
pub(crate) const READ_BYTES_MAX: usize = 5 * outlast_core::limits::PAGE_BYTES_MAX;
/// How long such a request waits for memory.
pub(crate) const READ_TURN: Duration = Duration::from_secs(5);
/// Bounds of a tree: nodes in total, children of one round, and levels.
pub(crate) const TREE_NODES_MAX: usize = 500;
pub(crate) const TREE_CHILDREN_MAX: usize = 50;
pub(crate) const TREE_DEPTH_MAX: usize = 5;
pub(crate) const TREE_DEPTH_DEFAULT: usize = 3;
/// Store reads for one page, when most rows are outside the token's scope or of another round.
pub(crate) const LOOKS_MAX: usize = 5;
/// Executing instances that are read to attribute them to their workers.
pub(crate) const EXECUTING_READ_MAX: usize = 5_000;
/// Queues that are counted one by one for a token bound to machines.
pub(crate) const QUEUES_COUNTED_MAX: usize = 100;
/// Longest long poll.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long the store may take to answer and still count as ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(2);
/// How long a positive readiness answer is reused. The route needs no token, so this bounds the
/// writes.
pub(crate) const READY_FOR: Duration = Duration::from_secs(5);
/// How long a negative readiness answer is reused.
pub(crate) const UNREADY_FOR: Duration = Duration::from_secs(1);
/// In microseconds, the unit of timestamps.
pub(crate) const MINUTE: i64 = 60_000_000;
/// The period that charts and transitions show.
pub(crate) const WINDOW_MINUTES: i64 = 60;

/// Bounds on the concurrent work of one router. The defaults suit a dashboard that a team leaves
/// open.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a request may take, except long polls and event streams.
    pub request_timeout: Duration,
    /// Event streams at once.
    pub streams: usize,
    /// Long polls at once.
    pub waits: usize,
    /// Bytes that requests which read values may use at once, until their responses are sent.
    /// Further requests wait for a few seconds and are then refused with 503. Default: 64 MiB; at
    /// least 20 MiB.
    pub read_bytes: usize,
    /// The shortest interval between two reads of an event stream.
    pub look_every: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_timeout: Duration::from_secs(15),
            streams: 64,
            waits: 256,
            read_bytes: 64 * 1024 * 1024,
            look_every: Duration::from_secs(1),
        }
    }
}

/// Returns whether a document is nested too deep. It counts only brackets outside strings; the
/// parser checks the syntax.
pub(crate) fn is_too_deep(document: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > BODY_DEPTH_MAX {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(!is_too_deep(nested(BODY_DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(BODY_DEPTH_MAX + 1).as_bytes()));
        assert!(is_too_deep("[".repeat(1_000_000).as_bytes()));
        assert!(!is_too_deep(format!("\"{}\"", "[".repeat(200)).as_bytes()));
        assert!(!is_too_deep(
            format!(r#""\"{}""#, "[".repeat(200)).as_bytes()
        ));
        assert!(!is_too_deep("[]".repeat(200).as_bytes()));
    }
}
