//! Samples of runs, and figures over several runs.

use crate::cpu::Usage;
use crate::statistics::{median, quantile};

/// One number of one run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) usage: Usage,
    /// The number of instances, if it differs from that of the run.
    pub(crate) n: Option<usize>,
    /// Whether the load of other processes does not change it.
    unmoved_by_others: bool,
}

impl Sample {
    pub(crate) fn new(
        name: impl Into<String>,
        value: f64,
        unit: impl Into<String>,
        usage: Usage,
    ) -> Sample {
        Sample {
            name: name.into(),
            value,
            unit: unit.into(),
            usage,
            n: None,
            unmoved_by_others: false,
        }
    }

    /// The rate of this many operations while the meter ran.
    pub(crate) fn rate(
        name: impl Into<String>,
        things: usize,
        unit: &'static str,
        usage: Usage,
    ) -> Sample {
        Sample::new(name, things as f64 / usage.seconds, unit, usage)
    }

    /// The time that the meter ran.
    pub(crate) fn seconds(name: impl Into<String>, usage: Usage) -> Sample {
        Sample::new(name, usage.seconds, "s", usage)
    }

    /// Sets the number of instances.
    pub(crate) fn of(self, n: usize) -> Sample {
        Sample { n: Some(n), ..self }
    }

    /// Marks a count by the kernel for our processes alone, not a time: other processes do not
    /// change it.
    pub(crate) fn unmoved_by_others(self) -> Sample {
        Sample {
            unmoved_by_others: true,
            ..self
        }
    }

    /// Returns whether other processes did not disturb it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unmoved_by_others || self.usage.is_quiet()
    }
}

/// Durations of one operation in milliseconds, and the processor usage meanwhile.
#[derive(Debug)]
pub(crate) struct Times {
    milliseconds: Vec<f64>,
    usage: Usage,
}

impl Times {
    pub(crate) fn new(milliseconds: Vec<f64>, usage: Usage) -> Times {
        Times {
            milliseconds,
            usage,
        }
    }

    /// Returns a quantile.
    pub(crate) fn quantile(&self, name: impl Into<String>, share: f64) -> Sample {
        Sample::new(name, quantile(&self.milliseconds, share), "ms", self.usage)
    }

    pub(crate) fn median(&self, name: impl Into<String>) -> Sample {
        Sample::new(name, median(&self.milliseconds), "ms", self.usage)
    }

    pub(crate) fn mean(&self, name: impl Into<String>) -> Sample {
        let sum: f64 = self.milliseconds.iter().sum();
        let mean = sum / self.milliseconds.len() as f64;
        Sample::new(name, mean, "ms", self.usage)
    }
}

/// One number over several runs.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) unit: String,
    pub(crate) n: usize,
    pub(crate) settings: String,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    round: usize,
    sample: Sample,
}

impl Figure {
    pub(crate) fn new(unit: String, n: usize, settings: String) -> Figure {
        Figure {
            unit,
            n,
            settings,
            runs: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, round: usize, sample: Sample) {
        self.runs.push(Run { round, sample });
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.values())
    }

    pub(crate) fn lowest(&self) -> f64 {
        self.values().into_iter().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn highest(&self) -> f64 {
        self.values().into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the values of all runs, counted or not.
    pub(crate) fn all(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.sample.value).collect()
    }

    pub(crate) fn quiet_runs(&self) -> usize {
        self.runs.iter().filter(|run| run.is_quiet()).count()
    }

    /// Returns the median ratio to another figure, round by round: both sides of a round ran under
    /// the same conditions. It skips rounds with a disturbed side, unless all are disturbed.
    pub(crate) fn ratio(&self, by: &Figure) -> f64 {
        let pairs = self.runs.iter().filter_map(|of| {
            let by = by.runs.iter().find(|by| by.round == of.round)?;
            let quiet = of.is_quiet() && by.is_quiet();
            Some((quiet, of.sample.value / by.sample.value))
        });
        let pairs: Vec<(bool, f64)> = pairs.collect();
        let any_quiet = pairs.iter().any(|(quiet, _)| *quiet);
        let counted = pairs.iter().filter(|(quiet, _)| *quiet || !any_quiet);
        median(&counted.map(|(_, ratio)| *ratio).collect::<Vec<_>>())
    }

    pub(crate) fn usage(&self) -> Usage {
        let counted = self.counted();
        let middle = |part: fn(&Usage) -> f64| {
            let parts: Vec<f64> = counted.iter().map(|run| part(&run.sample.usage)).collect();
            median(&parts)
        };
        Usage {
            engine: middle(|usage| usage.engine),
            database: middle(|usage| usage.database),
            others: middle(|usage| usage.others),
            cores: counted.first().map_or(1, |run| run.sample.usage.cores),
            seconds: middle(|usage| usage.seconds),
        }
    }

    /// Returns the runs that count: all of them when none was quiet, which the report shows.
    fn counted(&self) -> Vec<&Run> {
        let any_quiet = self.quiet_runs() > 0;
        let counted = self.runs.iter().filter(|run| run.is_quiet() || !any_quiet);
        counted.collect()
    }

    fn values(&self) -> Vec<f64> {
        self.counted().iter().map(|run| run.sample.value).collect()
    }
}

impl Run {
    fn is_quiet(&self) -> bool {
        self.sample.is_quiet()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a sample that was measured while others used this many of two cores.
    pub(crate) fn sample(name: &str, value: f64, others: f64) -> Sample {
        let usage = Usage {
            others,
            cores: 2,
            seconds: 10.0,
            ..Usage::default()
        };
        Sample::new(name, value, "steps/s", usage)
    }

    fn figure(runs: &[(usize, f64, f64)]) -> Figure {
        let mut figure = Figure::new("steps/s".into(), 1, String::new());
        for &(round, value, others) in runs {
            figure.add(round, sample("drain", value, others));
        }
        figure
    }

    #[test]
    fn a_disturbed_run_does_not_count_beside_a_quiet_run() {
        let figure = figure(&[(1, 100.0, 0.0), (2, 10.0, 1.0), (3, 120.0, 0.1)]);
        assert_eq!(figure.quiet_runs(), 2);
        assert_eq!((figure.lowest(), figure.highest()), (100.0, 120.0));
        assert_eq!(figure.all(), [100.0, 10.0, 120.0]);
    }

    #[test]
    fn every_run_counts_when_none_was_quiet() {
        let figure = figure(&[(1, 100.0, 1.0), (2, 10.0, 1.0), (3, 120.0, 1.0)]);
        assert_eq!((figure.quiet_runs(), figure.median()), (0, 100.0));
    }

    #[test]
    fn a_ratio_compares_runs_of_the_same_round() {
        let of = figure(&[(1, 100.0, 0.0), (2, 10.0, 0.0), (3, 50.0, 0.0)]);
        // The second round is missing: the third must not replace it.
        let by = figure(&[(1, 50.0, 0.0), (3, 25.0, 0.0)]);
        assert_eq!(of.ratio(&by), 2.0);
        let by = figure(&[(1, 200.0, 0.0), (2, 20.0, 0.0), (3, 100.0, 0.0)]);
        assert_eq!(of.ratio(&by), 0.5);
    }

    #[test]
    fn a_ratio_leaves_out_rounds_in_which_either_side_was_disturbed() {
        let of = figure(&[(1, 100.0, 0.0), (2, 100.0, 0.0), (3, 100.0, 1.0)]);
        let by = figure(&[(1, 100.0, 0.0), (2, 10.0, 1.0), (3, 10.0, 0.0)]);
        assert_eq!(of.ratio(&by), 1.0);
    }

    #[test]
    fn a_sample_that_other_processes_cannot_change_is_always_quiet() {
        let sample = sample("idle cpu", 0.5, 1.9);
        assert!(!sample.is_quiet());
        assert!(sample.unmoved_by_others().is_quiet());
    }

    #[test]
    fn times_have_a_median_a_mean_and_quantiles() {
        let times = Times::new(
            (1..=100).map(f64::from).chain([1_000.0]).collect(),
            Usage::default(),
        );
        assert_eq!(times.median("p50").value, 51.0);
        assert_eq!(times.quantile("p99", 0.99).value, 100.0);
        assert!((times.mean("mean").value - 59.9).abs() < 0.1);
    }
}
