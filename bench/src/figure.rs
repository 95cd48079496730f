//! What was measured, as a table for people and as JSON for programs.

use crate::cpu::Usage;
use crate::statistics::median;
use crate::targets::{Bound, TARGETS, Target};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::json;
use std::collections::BTreeMap;

/// One number of one run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) usage: Usage,
}

impl Sample {
    pub(crate) fn new(
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        usage: Usage,
    ) -> Sample {
        Sample {
            name: name.into(),
            value,
            unit,
            usage,
        }
    }

    /// So many things in the time that the meter ran.
    pub(crate) fn rate(
        name: impl Into<String>,
        things: usize,
        unit: &'static str,
        usage: Usage,
    ) -> Sample {
        Sample::new(name, things as f64 / usage.seconds, unit, usage)
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: BTreeMap<Key, Figure>,
    order: Vec<Key>,
    versions: BTreeMap<String, String>,
}

/// The name of a figure and where it was measured.
type Key = (String, String);

#[derive(Debug)]
struct Figure {
    unit: &'static str,
    n: usize,
    settings: String,
    runs: Vec<Sample>,
}

/// What a ratio of two figures came to.
struct Reached {
    target: &'static Target,
    ratio: f64,
}

impl Report {
    pub(crate) fn add(&mut self, place: &str, n: usize, settings: &str, sample: Sample) {
        let key = (sample.name.clone(), place.to_owned());
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        let figure = self.figures.entry(key).or_insert_with(|| Figure {
            unit: sample.unit,
            n,
            settings: settings.to_owned(),
            runs: Vec::new(),
        });
        figure.runs.push(sample);
    }

    pub(crate) fn add_version(&mut self, of: impl Into<String>, version: impl Into<String>) {
        self.versions.insert(of.into(), version.into());
    }

    pub(crate) fn print_table(&self) {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
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
            let figure = &self.figures[key];
            let usage = figure.usage();
            table.add_row([
                key.0.clone(),
                key.1.clone(),
                figure.n.to_string(),
                number(figure.median()),
                figure.unit.to_owned(),
                format!("{}–{}", number(figure.lowest()), number(figure.highest())),
                format!("{:.2}", usage.engine),
                format!("{:.2}", usage.database),
                format!("{:.2}", usage.others),
                format!("{}/{}", figure.quiet().len(), figure.runs.len()),
            ]);
        }
        for column in [2, 3, 6, 7, 8] {
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
        for key in &self.order {
            let figure = &self.figures[key];
            let line = json!({
                "name": key.0, "store": key.1, "value": figure.median(), "unit": figure.unit,
                "lowest": figure.lowest(), "highest": figure.highest(), "n": figure.n,
                "runs": figure.runs.iter().map(|run| run.value).collect::<Vec<_>>(),
                "quiet_runs": figure.quiet().len(), "cpu": figure.usage(),
                "settings": figure.settings, "versions": self.versions,
            });
            println!("{}", serde_json::to_string(&line)?);
        }
        for Reached { target, ratio } in self.reached() {
            let line = json!({
                "name": target.words(), "value": ratio, "unit": "ratio", "bound": target.bound.to_string(),
                "reached": target.bound.holds(ratio), "versions": self.versions,
            });
            println!("{}", serde_json::to_string(&line)?);
        }
        Ok(())
    }

    fn words_on_versions(&self) -> String {
        let versions = self
            .versions
            .iter()
            .map(|(of, version)| format!("{of}: {version}"));
        versions.collect::<Vec<_>>().join("; ")
    }

    fn reached(&self) -> Vec<Reached> {
        let ratio = |target: &'static Target| {
            let of = self.figures.get(&target.of.key())?;
            let by = self.figures.get(&target.by.key())?;
            Some(Reached {
                target,
                ratio: ratio(of, by),
            })
        };
        TARGETS.iter().filter_map(ratio).collect()
    }
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reached { target, ratio } = self;
        let word = if target.bound.holds(*ratio) {
            "reached"
        } else {
            "NOT reached"
        };
        write!(
            f,
            "{} = {ratio:.2} (must be {}): {word}",
            target.words(),
            target.bound
        )
    }
}

/// Round by round, since both sides of a round ran under the same conditions; the middle of those.
fn ratio(of: &Figure, by: &Figure) -> f64 {
    let rounds = of.runs.iter().zip(&by.runs);
    let ratios: Vec<f64> = rounds.map(|(of, by)| of.value / by.value).collect();
    median(&ratios)
}

impl Figure {
    /// The runs that count: all of them when none was quiet, which the table shows.
    fn counted(&self) -> Vec<&Sample> {
        match self.quiet() {
            quiet if quiet.is_empty() => self.runs.iter().collect(),
            quiet => quiet,
        }
    }

    fn quiet(&self) -> Vec<&Sample> {
        self.runs
            .iter()
            .filter(|run| run.usage.is_quiet())
            .collect()
    }

    fn values(&self) -> Vec<f64> {
        self.counted().iter().map(|run| run.value).collect()
    }

    fn median(&self) -> f64 {
        median(&self.values())
    }

    fn lowest(&self) -> f64 {
        self.values().into_iter().fold(f64::INFINITY, f64::min)
    }

    fn highest(&self) -> f64 {
        self.values().into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    fn usage(&self) -> Usage {
        let middle = |part: fn(&Usage) -> f64| {
            median(
                &self
                    .counted()
                    .iter()
                    .map(|run| part(&run.usage))
                    .collect::<Vec<_>>(),
            )
        };
        Usage {
            engine: middle(|usage| usage.engine),
            database: middle(|usage| usage.database),
            others: middle(|usage| usage.others),
            ..self.runs.first().map(|run| run.usage).unwrap_or_default()
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// As many digits as a number of its size deserves.
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

/// For a bound's own tests and its words.
impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(bound) => write!(f, "≥ {bound}"),
            Bound::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_as_many_digits_as_they_deserve() {
        let written = [1_234_567.8, 1_234.5, 999.0, 12.34, 0.567, 0.012].map(number);
        assert_eq!(
            written,
            ["1 234 568", "1 234", "999.0", "12.3", "0.57", "0.0120"]
        );
    }
}
