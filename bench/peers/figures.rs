//! The output of every peer in Rust: one JSON object per line on standard output.

use std::time::Duration;

/// A run that takes longer than this has failed.
pub const DEADLINE: Duration = Duration::from_secs(900);

/// Prints the name, the version and the setup of the peer.
pub fn about(peer: &str, version: &str, configuration: &str) {
    println!(
        "{}",
        serde_json::json!({
            "name": "about",
            "peer": peer,
            "version": version,
            "configuration": configuration,
        })
    );
}

/// Prints one figure.
pub fn figure(name: &str, value: f64, unit: &str) {
    println!(
        "{}",
        serde_json::json!({ "name": name, "value": value, "unit": unit })
    );
}

/// Prints the rate of `count` operations per second.
pub fn rate(name: &str, count: u64, took: Duration, unit: &str) {
    figure(name, count as f64 / took.as_secs_f64(), unit);
}

/// Prints the median and the 99th percentile of `samples`.
#[allow(dead_code)]
pub fn percentiles(name: &str, mut samples: Vec<Duration>) {
    samples.sort_unstable();
    for (label, share) in [("p50", 0.50), ("p99", 0.99)] {
        let at = ((samples.len() as f64 * share).ceil() as usize).clamp(1, samples.len()) - 1;
        figure(
            &format!("{name} {label}"),
            samples[at].as_secs_f64() * 1e3,
            "ms",
        );
    }
}

/// Prints the mean time between two steps, over the middle half of `starts`. The first and the
/// last steps also contain the start and the end of the chain.
#[allow(dead_code)]
pub fn step_time(starts: &[std::time::Instant]) {
    if starts.len() < 4 {
        eprintln!("a chain of fewer than 4 steps has no middle");
        std::process::exit(2);
    }
    let (from, to) = (starts.len() / 4, starts.len() * 3 / 4);
    let took = starts[to].duration_since(starts[from]);
    figure("step", took.as_secs_f64() * 1e3 / (to - from) as f64, "ms");
}

/// Returns the workload, N and the database's address from the command line.
pub fn arguments() -> (String, u64, String) {
    let mut arguments = std::env::args().skip(1);
    match (
        arguments.next(),
        arguments.next().and_then(|n| n.parse().ok()),
        arguments.next(),
    ) {
        (Some(workload), Some(n), Some(url)) if n > 0 => (workload, n, url),
        _ => {
            eprintln!("usage: run WORKLOAD N URL");
            std::process::exit(2);
        }
    }
}

/// Ends the process: the peer does not offer this workload.
pub fn not_offered(why: &str) -> ! {
    eprintln!("not offered: {why}");
    std::process::exit(3);
}
