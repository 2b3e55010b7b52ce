//! Result files: `docs/results/NAME.jsonl`, a line that says how its figures were taken, then a line a figure.

use crate::kernels::boot;
use crate::machine::{self, FOREIGN_MAX, ForeignLoad, MachineWords};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// The first line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// What a reader types to see such figures.
    pub(crate) commands: Vec<String>,
    pub(crate) commit: String,
    pub(crate) date: String,
    /// Emulator or data, with its version, where the figures come from one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) with: String,
    /// How often each command ran.
    pub(crate) runs: u64,
    /// Whether the commands are smaller ones than the documents speak of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_trial: bool,
    /// None where instructions are counted, which are the same beside anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<Surroundings>,
    /// How the figures of the variant `linux` were taken, where another command boots Linux for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) linux: Option<Box<Self>>,
}

/// What figures were taken on, and beside what.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    pub(crate) machine: MachineWords,
    pub(crate) seconds: f64,
    /// The load average of a minute, before the first command and after the last.
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
    /// CPUs that others had in the run beside which they had most, and those the hypervisor had.
    pub(crate) foreign: f64,
    pub(crate) steal: f64,
}

impl Surroundings {
    /// Of a measurement that has just ended; others had `worst` at most.
    pub(crate) fn since(start: Instant, load_before: f64, worst: ForeignLoad) -> Self {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Self {
            machine: MachineWords::this(),
            seconds: start.elapsed().as_secs_f64().round(),
            load_before,
            load_after: machine::load_average(),
            foreign: rounded(worst.foreign),
            steal: rounded(worst.steal),
        }
    }
}

/// A figure: the median of its repetitions, and their range.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ResultRow {
    pub(crate) case: String,
    /// `published before` for what a document says of `before`.
    pub(crate) variant: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) source: RowSource,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) n: u64,
}

impl ResultRow {
    /// A figure that was taken once.
    pub(crate) fn one(
        [case, variant, metric]: [&str; 3],
        unit: &str,
        source: RowSource,
        value: f64,
    ) -> Self {
        Self {
            case: case.to_owned(),
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            source,
            median: value,
            min: value,
            max: value,
            n: 1,
        }
    }

    /// Whether the ranges of the two have a figure in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowSource {
    /// By this machine's clock.
    Measured,
    /// The outcome of a model or a count: the same on every machine.
    Simulated,
    /// A document's.
    Published,
}

/// A result file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ResultFile {
    pub(crate) run: RunRecord,
    pub(crate) rows: Vec<ResultRow>,
}

/// Where the file of that name lies.
pub(crate) fn path_of(name: &str) -> PathBuf {
    boot::root().join(format!("docs/results/{name}.jsonl"))
}

impl ResultFile {
    pub(crate) fn read(name: &str) -> Result<Self, String> {
        let path = path_of(name);
        let at = format!("docs/results/{name}.jsonl");
        let text = fs::read_to_string(&path).map_err(|error| format!("{at}: {error}"))?;
        Self::parse(&text).map_err(|error| format!("{at}: {error}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        fn line<T: for<'de> Deserialize<'de>>((nth, text): (usize, &str)) -> Result<T, String> {
            serde_json::from_str(text).map_err(|error| format!("line {}: {error}", nth + 1))
        }
        let mut lines = text.lines().enumerate();
        let run = line(lines.next().ok_or("it is empty")?)?;
        let rows = lines.map(line).collect::<Result<_, _>>()?;
        Ok(Self { run, rows })
    }

    pub(crate) fn print(&self) -> String {
        let line = |text: serde_json::Result<String>| text.expect("numbers and text") + "\n";
        let rows = self.rows.iter().map(|row| line(serde_json::to_string(row)));
        line(serde_json::to_string(&self.run)) + &rows.collect::<String>()
    }

    pub(crate) fn write(&self, name: &str) -> Result<(), String> {
        let path = path_of(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        boot::write(&path, &self.print())
    }

    pub(crate) fn find(&self, case: &str, variant: &str, metric: &str) -> Option<&ResultRow> {
        let is_it =
            |row: &&ResultRow| row.case == case && row.variant == variant && row.metric == metric;
        self.rows.iter().find(is_it)
    }

    /// Whether others had so much of the CPUs that a time says little.
    pub(crate) fn is_marked(&self) -> bool {
        let beside = self.run.beside.as_ref();
        beside.is_some_and(|beside| beside.foreign > FOREIGN_MAX)
    }

    /// Whether any figure is this machine's.
    pub(crate) fn is_timed(&self) -> bool {
        self.rows
            .iter()
            .any(|row| row.source == RowSource::Measured)
    }
}

/// The figures in the output of a command: of the laboratory (`value`) or of a benchmark (`median`). Other lines say
/// what was run.
pub(crate) fn rows_in(output: &str) -> Result<Vec<ResultRow>, String> {
    let mut rows = Vec::new();
    for (nth, text) in output.lines().enumerate() {
        let error = |error| format!("line {} of the figures: {error}", nth + 1);
        let mut line: Value = serde_json::from_str(text).map_err(error)?;
        if line.get("metric").is_none() {
            continue;
        }
        if let Some(value) = line.get("value").cloned() {
            for name in ["median", "min", "max"] {
                line[name] = value.clone();
            }
            line["n"] = 1.into();
        }
        let mut row: ResultRow = serde_json::from_value(line).map_err(error)?;
        if row.source == RowSource::Published {
            row.variant = format!("published {}", row.variant);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The middle of some values, the mean of the two in the middle of an even number; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len => f64::midpoint(values[(len - 1) / 2], values[len / 2]),
    }
}

/// Several runs' figures in one: medians of medians, the widest range.
pub(crate) fn gather(runs: &[Vec<ResultRow>]) -> Vec<ResultRow> {
    let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let mut gathered: Vec<Vec<&ResultRow>> = Vec::new();
    for row in runs.iter().flatten() {
        let place = *places
            .entry((&row.case, &row.variant, &row.metric))
            .or_insert(gathered.len());
        if place == gathered.len() {
            gathered.push(Vec::new());
        }
        gathered[place].push(row);
    }
    let one = |rows: Vec<&ResultRow>| ResultRow {
        median: median(rows.iter().map(|row| row.median).collect()),
        min: rows.iter().map(|row| row.min).fold(f64::INFINITY, f64::min),
        max: rows
            .iter()
            .map(|row| row.max)
            .fold(f64::NEG_INFINITY, f64::max),
        n: rows.iter().map(|row| row.n).sum(),
        ..rows[0].clone()
    };
    gathered.into_iter().map(one).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run_record(foreign: f64) -> RunRecord {
        RunRecord {
            commands: vec!["framewright lab x".to_owned()],
            commit: "abc".to_owned(),
            date: "2026-01-01".to_owned(),
            with: String::new(),
            runs: 3,
            is_trial: false,
            linux: None,
            beside: Some(Surroundings {
                machine: MachineWords {
                    cpu: "a CPU".to_owned(),
                    cpus: 2,
                    memory_mib: 8000,
                    os: "Linux 6".to_owned(),
                },
                seconds: 1.0,
                load_before: 0.1,
                load_after: 0.2,
                foreign,
                steal: 0.0,
            }),
        }
    }

    #[test]
    fn runs_become_a_median_and_a_range() {
        let run = |value: f64| {
            let lab = format!(
                "{{\"version\":\"1\"}}\n{{\"experiment\":\"x\",\"case\":\"c\",\"variant\":\"before\",\
                 \"metric\":\"m\",\"value\":{value},\"unit\":\"ns\",\"source\":\"measured\"}}\n\
                 {{\"case\":\"c\",\"variant\":\"before\",\"metric\":\"m\",\"value\":7,\"unit\":\"ns\",\
                 \"source\":\"published\"}}\n"
            );
            rows_in(&lab).unwrap()
        };
        let rows = gather(&[run(3.0), run(1.0), run(2.0)]);
        let ours = &rows[0];
        assert_eq!(
            (ours.median, ours.min, ours.max, ours.n),
            (2.0, 1.0, 3.0, 3)
        );
        assert_eq!(
            (rows[1].variant.as_str(), rows[1].median),
            ("published before", 7.0)
        );
        let file = ResultFile {
            run: run_record(0.0),
            rows,
        };
        assert_eq!(ResultFile::parse(&file.print()).unwrap(), file);
        assert!(ResultFile::parse("{}").unwrap_err().starts_with("line 1"));
        assert!(rows_in("{").unwrap_err().starts_with("line 1"));
    }
}
