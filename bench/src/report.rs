//! All figures, as a table for people and as JSON for programs.

use crate::args::Workload;
use crate::figure::{Figure, Sample};
use crate::targets::{Bound, By, Of, TARGETS, Target, is_peer};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All figures.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: BTreeMap<Key, Figure>,
    order: Vec<Key>,
    versions: BTreeMap<String, String>,
}

/// Identifies a figure by workload, name and place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    workload: Workload,
    name: String,
    place: String,
}

/// Where and when a sample was taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) workload: Workload,
    pub(crate) place: &'a str,
    pub(crate) round: usize,
    pub(crate) n: usize,
    pub(crate) settings: &'a str,
}

/// The result of a target.
struct Reached<'a> {
    words: String,
    value: f64,
    unit: &'a str,
    bound: Bound,
    of: &'a Figure,
    place: &'a str,
}

impl Report {
    pub(crate) fn add(&mut self, taken: &Taken<'_>, sample: Sample) {
        let key = Key {
            workload: taken.workload,
            name: sample.name.clone(),
            place: taken.place.to_owned(),
        };
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        let n = sample.n.unwrap_or(taken.n);
        let figure = self
            .figures
            .entry(key)
            .or_insert_with(|| Figure::new(sample.unit.clone(), n, taken.settings.to_owned()));
        figure.add(taken.round, sample);
    }

    pub(crate) fn add_version(&mut self, of: impl Into<String>, version: impl Into<String>) {
        self.versions.insert(of.into(), version.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn print_table(&self) {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "workload",
            "figure",
            "on",
            "n",
            "median",
            "unit",
            "range",
            "engine CPU",
            "database CPU",
            "others",
            "quiet runs",
        ]);
        for key in &self.order {
            table.add_row(row(key, &self.figures[key]));
        }
        for column in [3, 4, 7, 8, 9] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
        println!("CPU in cores of {}. {}", cores(), self.words_on_versions());
        for reached in self.reached() {
            println!("{reached}");
        }
    }

    pub(crate) fn print_json(&self) -> anyhow::Result<()> {
        for line in self.lines() {
            println!("{}", serde_json::to_string(&line)?);
        }
        Ok(())
    }

    /// Returns one object per figure, and one per target that this run can judge.
    fn lines(&self) -> Vec<Value> {
        let figures = self.order.iter().map(|key| {
            let figure = &self.figures[key];
            json!({
                "workload": key.workload.to_string(), "name": key.name, "store": key.place,
                "value": figure.median(), "unit": figure.unit,
                "lowest": figure.lowest(), "highest": figure.highest(), "n": figure.n,
                "runs": figure.all(), "quiet_runs": figure.quiet_runs(), "cpu": figure.usage(),
                "settings": figure.settings, "versions": self.versions,
            })
        });
        let targets = self.reached().into_iter().map(|reached| {
            json!({
                "name": reached.words, "store": reached.place, "value": reached.value,
                "unit": reached.unit, "n": reached.of.n, "bound": reached.bound.to_string(),
                "reached": reached.holds(), "settings": reached.of.settings,
                "versions": self.versions,
            })
        });
        figures.chain(targets).collect()
    }

    fn words_on_versions(&self) -> String {
        let versions = self
            .versions
            .iter()
            .map(|(of, version)| format!("{of}: {version}"));
        versions.collect::<Vec<_>>().join("; ")
    }

    fn reached(&self) -> Vec<Reached<'_>> {
        TARGETS
            .iter()
            .flat_map(|target| self.judge(target))
            .collect()
    }

    /// Returns `None` when a figure of the target was not measured.
    fn judge(&self, target: &'static Target) -> Vec<Reached<'_>> {
        let Some(of) = self.figures.get(&key(target.of)) else {
            return Vec::new();
        };
        let compare = |(key, by): (&Key, &Figure)| Reached {
            words: format!("{} ÷ {}", words(target.of), words_of_key(key)),
            value: of.ratio(by),
            unit: "ratio",
            bound: target.bound,
            of,
            place: target.of.place,
        };
        match target.by {
            By::Itself => vec![Reached {
                words: words(target.of),
                value: of.median(),
                unit: &of.unit,
                bound: target.bound,
                of,
                place: target.of.place,
            }],
            By::Figure(by) => self
                .figures
                .get_key_value(&key(by))
                .map(compare)
                .into_iter()
                .collect(),
            By::EveryPeer => self
                .figures
                .iter()
                .filter(|(key, _)| {
                    is_peer(&key.place)
                        && (key.workload, key.name.as_str()) == (target.of.workload, target.of.name)
                })
                .map(compare)
                .collect(),
        }
    }
}

fn key(of: Of) -> Key {
    Key {
        workload: of.workload,
        name: of.name.to_owned(),
        place: of.place.to_owned(),
    }
}

fn words(of: Of) -> String {
    words_of_key(&key(of))
}

fn words_of_key(key: &Key) -> String {
    format!("{} ({})", key.name, key.place)
}

fn row(key: &Key, figure: &Figure) -> [String; 11] {
    let usage = figure.usage();
    [
        key.workload.to_string(),
        key.name.clone(),
        key.place.clone(),
        figure.n.to_string(),
        number(figure.median()),
        figure.unit.clone(),
        format!("{}–{}", number(figure.lowest()), number(figure.highest())),
        format!("{:.2}", usage.engine),
        format!("{:.2}", usage.database),
        format!("{:.2}", usage.others),
        format!("{}/{}", figure.quiet_runs(), figure.all().len()),
    ]
}

impl Reached<'_> {
    fn holds(&self) -> bool {
        self.bound.holds(self.value)
    }
}

impl std::fmt::Display for Reached<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reached {
            words,
            value,
            unit,
            bound,
            ..
        } = self;
        let word = match self.holds() {
            true => "reached",
            false => "NOT reached",
        };
        match *unit {
            "ratio" => write!(f, "{words} = {value:.2} (must be {bound}): {word}"),
            unit => write!(f, "{words} = {value:.2} {unit} (must be {bound}): {word}"),
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Formats a number with a precision that suits its size.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => {
            let digits = format!("{value:.0}");
            let head = digits.len() % 3;
            let groups = digits.as_bytes()[head..]
                .chunks(3)
                .map(String::from_utf8_lossy);
            let groups: Vec<_> = std::iter::once(digits[..head].into())
                .chain(groups)
                .collect();
            groups.join(" ").trim().to_owned()
        }
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::tests::sample;

    fn report(figures: &[(Workload, &str, &str, f64)]) -> Report {
        let mut report = Report::default();
        for &(workload, place, name, value) in figures {
            let taken = Taken {
                workload,
                place,
                round: 1,
                n: 10,
                settings: "default",
            };
            report.add(&taken, sample(name, value, 0.0));
        }
        report
    }

    fn judged(figures: &[(Workload, &str, &str, f64)]) -> Vec<(String, f64, bool)> {
        let report = report(figures);
        let reached = report.reached();
        let judged = reached.iter().map(|reached| {
            let words = reached.words.clone();
            (words, reached.value, reached.holds())
        });
        judged.collect()
    }

    #[test]
    fn a_target_is_judged_when_both_its_figures_were_measured() {
        let drain = (Workload::Drain, "postgres", "drain", 50.0);
        assert_eq!(judged(&[drain]), []);
        let floor = (Workload::Drain, "postgres", "floor drain", 100.0);
        let words = "drain (postgres) ÷ floor drain (postgres)".to_owned();
        assert_eq!(judged(&[drain, floor]), [(words, 0.5, false)]);
    }

    #[test]
    fn a_bound_without_a_ratio_is_judged_by_the_figure_itself() {
        let lateness = (Workload::Timers, "postgres", "lateness p99", 49.0);
        let words = "lateness p99 (postgres)".to_owned();
        assert_eq!(judged(&[lateness]), [(words, 49.0, true)]);
    }

    #[test]
    fn a_target_compares_every_peer_and_no_store() {
        let latency = |place, value| (Workload::Latency, place, "latency p50", value);
        let figures = [
            latency("postgres", 2.0),
            latency("sqlite", 1.0),
            latency("dbos", 4.0),
            latency("restate", 1.0),
        ];
        let reached: Vec<bool> = judged(&figures).into_iter().map(|it| it.2).collect();
        assert_eq!(reached, [true, false]);
    }

    #[test]
    fn figures_of_one_name_in_two_workloads_are_kept_apart() {
        let figures = [
            (Workload::Latency, "postgres", "one commit", 1.0),
            (Workload::Signal, "postgres", "one commit", 10.0),
            (Workload::Latency, "postgres", "latency p50", 4.0),
            (Workload::Signal, "postgres", "signal p50", 60.0),
        ];
        let judged: Vec<(f64, bool)> = judged(&figures)
            .into_iter()
            .map(|it| (it.1, it.2))
            .collect();
        assert_eq!(judged, [(6.0, false), (4.0, true)]);
    }

    #[test]
    fn the_precision_of_a_number_depends_on_its_size() {
        let written = [1_234_567.8, 1_234.5, 999.0, 12.34, 0.567, 0.012].map(number);
        assert_eq!(
            written,
            ["1 234 568", "1 234", "999.0", "12.3", "0.57", "0.0120"]
        );
    }
}
