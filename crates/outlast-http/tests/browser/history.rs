//! Run stats of an invented hour. The charts of a stage that runs for seconds would be empty.

use outlast_core::{Delays, RunStats, Runs, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};

const MINUTE_MICROS: i64 = 60_000_000;

/// The runs: machine, version, step, outcome, next step, percentage, duration in microseconds.
const RUNS: [(&str, i32, &str, &str, &str, u64, u64); 16] = [
    ("checkout", 2, "start", "wait", "charge", 100, 2_100),
    ("checkout", 2, "charge", "next", "reserve", 92, 11_000),
    ("checkout", 2, "charge", "next", "refund", 5, 9_000),
    ("checkout", 2, "charge", "fail", "", 1, 8_000),
    ("checkout", 2, "reserve", "retry", "reserve", 7, 240_000),
    ("checkout", 2, "reserve", "next", "ship", 90, 64_000),
    ("checkout", 2, "reserve", "fail", "", 2, 41_000),
    ("checkout", 2, "ship", "next", "notify", 90, 120_000),
    ("checkout", 2, "notify", "done", "", 90, 31_000),
    ("checkout", 2, "refund", "cancel", "", 5, 15_000),
    ("checkout", 1, "start", "wait", "ship", 6, 2_000),
    ("checkout", 1, "ship", "done", "", 6, 90_000),
    ("fulfilment", 1, "pack", "fan_out", "ship", 40, 5_000),
    ("fulfilment", 1, "ship", "done", "", 39, 7_000),
    ("send_mail", 1, "perform", "done", "", 80, 90_000),
    ("send_mail", 1, "perform", "retry", "perform", 9, 3_000_000),
];

/// Returns the run stats of the 59 minutes before this one.
pub(crate) fn hour() -> RunStats {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_micros();
    let this_minute = i64::try_from(now).expect("the time fits into an i64") / MINUTE_MICROS;
    let mut stats = RunStats::default();
    for back in 1..60_u32 {
        let minute = Timestamp((this_minute - i64::from(back)) * MINUTE_MICROS);
        // A slow wave with some noise per minute.
        let busy = 320.0 + 140.0 * (f64::from(back) / 7.0).sin() + f64::from(back * 37 % 50);
        let of = |percent: u64| (busy * percent as f64 / 100.0) as u64;
        for (machine, version, step, outcome, next, percent, micros) in RUNS {
            // Failures and retries peak every fifth minute.
            let is_bad = outcome == "fail" || outcome == "retry";
            let count = if is_bad && back % 5 != 0 {
                of(percent) / 6
            } else {
                of(percent)
            };
            if count > 0 {
                stats.runs.push(Runs {
                    minute,
                    machine: machine.into(),
                    version,
                    step: step.into(),
                    outcome: outcome.into(),
                    next: next.into(),
                    count,
                    micros: count * micros,
                });
            }
        }
        for (bin, percent) in [
            (1, 20),
            (2, 45),
            (3, 25),
            (4, 7),
            (5 + (back % 11 / 9) as u8, 3),
        ] {
            let count = of(percent);
            stats.delays.push(Delays {
                minute,
                queue: "default".into(),
                bin,
                count,
            });
        }
    }
    stats
}
