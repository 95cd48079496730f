//! Findings of the doctor: what a store reports about itself and its database.
//!
//! Stores create findings; the command line and the HTTP API show them. A check never repairs
//! anything.

use crate::{Count, InstanceId, RepairNeed};
use std::cmp::Ordering;
use std::time::Duration;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// No problem.
    Fine,
    /// It works now, but will stop working or is slower than it could be.
    Warning,
    /// It does not work, or committed data may be lost.
    Serious,
}

impl Severity {
    /// Returns the word for it, the same in every interface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Fine => "fine",
            Severity::Warning => "warning",
            Severity::Serious => "serious",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check: short, stable, in lower case, such as `old_snapshots`.
    pub check: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The result, in one sentence with its figures.
    pub found: String,
    /// What to do about it, in one sentence; empty when there is no problem.
    pub remedy: String,
}

/// The result of [`Store::check_writes`](crate::Store::check_writes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCheck {
    /// The database has committed a write.
    Works,
    /// The database answers, but the role may not write.
    NoRight,
    /// The database, its server or its file is read-only.
    ReadOnly,
    /// The disk of the database is full or nearly full, or the database has reached its size
    /// limit.
    DiskFull,
}

impl Finding {
    /// Creates a finding without a problem.
    pub fn fine(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            severity: Severity::Fine,
            found: found.into(),
            remedy: String::new(),
        }
    }

    /// Creates a finding that will stop working, or is slower than it could be.
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            check,
            severity: Severity::Warning,
            found: found.into(),
            remedy: remedy.into(),
        }
    }

    /// Creates a finding that does not work, or may lose committed data.
    pub fn serious(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            severity: Severity::Serious,
            ..Finding::warning(check, found, remedy)
        }
    }

    /// Reports claims of workers whose lease has expired.
    ///
    /// `longest` is the time since the first of these leases expired.
    pub fn stuck_leases(claims: Count, workers: u64, longest: Duration) -> Finding {
        const CHECK: &str = "stuck_leases";
        if workers == 0 {
            return Finding::fine(CHECK, "every claim belongs to a worker that is alive");
        }
        if longest < LEASES_MAY_BE_OVER {
            let found = format!(
                "{} of a worker whose lease ended {} ago: about to be given back",
                counted(claims, "claim"),
                span(longest)
            );
            return Finding::fine(CHECK, found);
        }
        let found = format!(
            "{} held by {}, whose first lease ended {} ago",
            counted(claims, "claim"),
            counted(Count::Exactly(workers), "dead worker"),
            span(longest)
        );
        let remedy = "no engine reaps: start one on this database, and see why the workers died";
        Finding::warning(CHECK, found, remedy)
    }

    /// Reports waits whose deadline passed more than [`OVERDUE_AFTER`](crate::OVERDUE_AFTER) ago.
    ///
    /// `longest` is the time since the first of these deadlines.
    pub fn overdue_timers(overdue: Count, longest: Duration) -> Finding {
        const CHECK: &str = "overdue_timers";
        if overdue == Count::Exactly(0) {
            return Finding::fine(CHECK, "every deadline that has come was seen to");
        }
        let found = format!(
            "{} should have been woken, the first {} ago",
            counted(overdue, "wait"),
            span(longest)
        );
        let remedy = "no engine fires timers, or it cannot keep up: start one, or look at how busy the database is";
        Finding::warning(CHECK, found, remedy)
    }

    /// Reports instances whose whole timeout passed more than
    /// [`OVERDUE_AFTER`](crate::OVERDUE_AFTER) ago, and which still live.
    ///
    /// `longest` is the time since the first of these timeouts.
    pub fn overdue_timeouts(overdue: Count, longest: Duration) -> Finding {
        const CHECK: &str = "overdue_timeouts";
        if overdue == Count::Exactly(0) {
            return Finding::fine(CHECK, "every instance that took too long has ended");
        }
        let found = format!(
            "{} should have failed as timed out, the first {} ago",
            counted(overdue, "instance"),
            span(longest)
        );
        let remedy = "no engine fires timers, or it cannot keep up: start one, or look at how busy the database is";
        Finding::warning(CHECK, found, remedy)
    }

    /// Reports how many of the newest instances need a repair.
    ///
    /// `found` are the first of them, `looked` is how many were checked at most.
    pub fn repairs(found: &[(InstanceId, RepairNeed)], looked: usize) -> Finding {
        const CHECK: &str = "repairs";
        let Some((id, need)) = found.first() else {
            let found = format!("none of the newest {looked} instances needs a repair");
            return Finding::fine(CHECK, found);
        };
        let verb = if found.len() == 1 { "needs" } else { "need" };
        let found = format!(
            "{} of the newest {looked} {verb} a repair, the first is {id}: {}",
            counted(Count::Exactly(found.len() as u64), "instance"),
            need.clause()
        );
        let remedy = "run `outlast repair` with the id; an engine with maintenance repairs them, too, when it starts and every ten minutes; if nobody edited the rows, please report this as a bug";
        Finding::warning(CHECK, found, remedy)
    }

    /// Reports the version of the schema, and the version that this program needs.
    pub fn schema_version(found: u64, known: u64) -> Finding {
        const CHECK: &str = "schema_version";
        match found.cmp(&known) {
            Ordering::Equal => {
                Finding::fine(CHECK, format!("the schema has version {found}, the newest"))
            }
            Ordering::Less => Finding::serious(
                CHECK,
                format!("the schema has version {found}, and this program needs {known}"),
                "run `outlast migrate`",
            ),
            Ordering::Greater => Finding::warning(
                CHECK,
                format!("the schema has version {found}, and this program knows only {known}"),
                "run the newer version of the program everywhere",
            ),
        }
    }
}

/// What the doctor found about stored times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredTimes {
    /// Instances that were read, the newest.
    pub looked: u64,
    /// Instances with a write time that is ahead of the clock.
    pub ahead: u64,
    /// The largest distance of these times from the clock.
    pub furthest: Duration,
    /// Instances that were eligible by the clock that wrote them, but are not by this one.
    pub waiting: u64,
    /// Instances with a time outside [`MOMENT_MIN`](crate::limits::MOMENT_MIN) and
    /// [`MOMENT_MAX`](crate::limits::MOMENT_MAX).
    pub strange: u64,
    /// Workers whose last heartbeat is ahead of the clock: their claims are returned only when
    /// their leases expire.
    pub workers: u64,
}

impl StoredTimes {
    /// Returns the finding.
    pub fn finding(&self) -> Finding {
        const CHECK: &str = "times";
        #[cfg(outlast_mutants)]
        if crate::mutant::is("times-are-not-examined") {
            return Finding::fine(CHECK, "no time lies ahead of the clock");
        }
        let mut parts = Vec::new();
        let exactly = |number, thing| counted(Count::Exactly(number), thing);
        if self.ahead > 0 {
            parts.push(format!(
                "{} written by a clock that was ahead, at most {} from now",
                exactly(self.ahead, "instance"),
                span(self.furthest)
            ));
        }
        if self.waiting > 0 {
            parts.push(format!(
                "{} due and not started",
                exactly(self.waiting, "instance")
            ));
        }
        if self.workers > 0 {
            parts.push(format!(
                "{} with a heartbeat ahead",
                exactly(self.workers, "worker")
            ));
        }
        if self.strange > 0 {
            parts.push(format!(
                "{} with a time before 1970 or after 9999",
                exactly(self.strange, "instance")
            ));
        }
        let looked = format!("among the newest {}", exactly(self.looked, "instance"));
        if parts.is_empty() {
            return Finding::fine(CHECK, format!("no time lies ahead of the clock {looked}"));
        }
        let found = format!("{}, {looked}", parts.join("; "));
        let remedy = "the clock was ahead or has been set back: see that it is in step (NTP); what is due starts when the clock gets there; to start it earlier, terminate it and insert it again";
        match self.waiting + self.workers + self.strange {
            0 => Finding::warning(CHECK, found, remedy),
            _ => Finding::serious(CHECK, found, remedy),
        }
    }
}

/// The reaper runs every few seconds, so it is about to return claims whose lease expired less
/// than this ago.
const LEASES_MAY_BE_OVER: Duration = Duration::from_secs(30);

/// Formats a count with its noun.
fn counted(count: Count, thing: &str) -> String {
    match count {
        Count::Exactly(1) => format!("1 {thing}"),
        Count::Exactly(number) => format!("{number} {thing}s"),
        Count::AtLeast(number) => format!("more than {number} {thing}s"),
    }
}

/// Formats a duration as one number and one unit.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a size in bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_has_just_ended_is_not_stuck() {
        let found = |longest| Finding::stuck_leases(Count::Exactly(3), 1, longest).severity;
        assert_eq!(found(Duration::from_secs(5)), Severity::Fine);
        assert_eq!(found(Duration::from_secs(60)), Severity::Warning);
    }

    #[test]
    fn findings_contain_their_counts_and_times() {
        let leases = Finding::stuck_leases(Count::Exactly(1), 2, Duration::from_secs(300));
        assert_eq!(
            leases.found,
            "1 claim held by 2 dead workers, whose first lease ended 5 min ago"
        );
        let timers = Finding::overdue_timers(Count::AtLeast(1_000), Duration::from_secs(60));
        assert_eq!(
            timers.found,
            "more than 1000 waits should have been woken, the first 60 s ago"
        );
        let timeouts = Finding::overdue_timeouts(Count::Exactly(2), Duration::from_secs(90));
        assert_eq!(
            timeouts.found,
            "2 instances should have failed as timed out, the first 90 s ago"
        );
        let need = (InstanceId(7), RepairNeed::NothingAwaited);
        assert_eq!(
            Finding::repairs(&[need], 50_000).found,
            "1 instance of the newest 50000 needs a repair, the first is 7: it is parked and waits for nothing"
        );
        assert_eq!(Finding::repairs(&[], 50_000).severity, Severity::Fine);
    }

    #[test]
    fn a_finding_reports_times_ahead_of_the_clock_and_the_instances_they_delay() {
        let fine = StoredTimes {
            looked: 7,
            ..StoredTimes::default()
        };
        assert_eq!(fine.finding().severity, Severity::Fine);
        let written = StoredTimes {
            ahead: 2,
            furthest: Duration::from_secs(3_540),
            ..fine
        };
        assert_eq!(written.finding().severity, Severity::Warning);
        let waiting = StoredTimes {
            waiting: 2,
            ..written
        };
        let finding = waiting.finding();
        assert_eq!(finding.severity, Severity::Serious);
        assert_eq!(
            finding.found,
            "2 instances written by a clock that was ahead, at most 59 min from now; 2 instances due and not started, among the newest 7 instances"
        );
        for serious in [
            StoredTimes { workers: 1, ..fine },
            StoredTimes { strange: 1, ..fine },
        ] {
            assert_eq!(serious.finding().severity, Severity::Serious);
        }
    }

    #[test]
    fn sizes_and_spans_have_one_number_and_one_unit() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        for (seconds, expected) in [
            (0, "0 ms"),
            (1, "1 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
    }
}
