//! Ends of instances that have taken too long: the answer of `time_out`, and its texts.

use crate::{EventKind, InstanceId, Json, NewEvent, QueueNames};
use serde::Serialize;
use std::time::Duration;

/// The answer to a time-out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedOut {
    /// The instances that have failed as timed out, earliest deadline first.
    pub ended: Vec<InstanceId>,
    /// Those of them that a worker was running, in the same order: the engine notifies that
    /// worker.
    pub running: Vec<InstanceId>,
    /// Queues in which an instance may have become claimable.
    pub woken: QueueNames,
    /// Whether an end or a join left work for [`cascade`](crate::Store::cascade).
    pub cascades: bool,
    /// The time until the next instance times out; zero when one is due already.
    pub next_timeout_in: Option<Duration>,
}

/// Which timeout of an instance has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedTimeout {
    /// That of the instance.
    Instance(Duration),
    /// That of this run.
    Run(i32, Duration),
}

impl PassedTimeout {
    /// Returns the error of the instance.
    ///
    /// It is the same in every store. It begins with [`TIMED_OUT`].
    pub fn reason(self) -> String {
        match self {
            PassedTimeout::Instance(timeout) => format!("{TIMED_OUT} after {}", in_words(timeout)),
            PassedTimeout::Run(run, timeout) => {
                format!("{TIMED_OUT} after {} in run {run}", in_words(timeout))
            }
        }
    }

    /// Returns the last event of a history that the timeout has ended.
    ///
    /// Stores write it without a codec, as they write the error.
    pub fn event(self) -> NewEvent {
        #[derive(Serialize)]
        struct Reason {
            reason: String,
        }
        let reason = self.reason();
        NewEvent {
            kind: EventKind::TimedOut,
            call: None,
            name: String::new(),
            data: Json::of(&Reason { reason }).expect("one short text can be stored"),
            at: None,
        }
    }
}

/// The beginning of the error of an instance that has taken too long.
pub const TIMED_OUT: &str = "timed out";

/// Writes a duration as a number of its largest whole unit.
fn in_words(duration: Duration) -> String {
    let micros = duration.as_micros();
    let units = [
        (24 * 3_600_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let unit = units
        .into_iter()
        .find(|(size, _)| micros.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "µs"));
    format!("{} {name}", micros / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_timeout_in_its_largest_whole_unit() {
        for (seconds, words) in [
            (90.0, "90 s"),
            (7_200.0, "2 h"),
            (5_400.0, "90 min"),
            (2_592_000.0, "30 d"),
            (1.5, "1500 ms"),
            (0.000_25, "250 µs"),
        ] {
            let timeout = Duration::from_secs_f64(seconds);
            let reason = PassedTimeout::Instance(timeout).reason();
            assert_eq!(reason, format!("timed out after {words}"));
        }
        let of_a_run = PassedTimeout::Run(3, Duration::from_secs(60));
        assert_eq!(of_a_run.reason(), "timed out after 1 min in run 3");
        let event = of_a_run.event();
        assert_eq!(
            event.data.as_str(),
            r#"{"reason":"timed out after 1 min in run 3"}"#
        );
    }
}
