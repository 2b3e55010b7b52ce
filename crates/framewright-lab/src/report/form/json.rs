//! A report as JSON Lines. Records are flat and name experiment, case and variant each, so that a line can be
//! filtered and compared without those around it.

use crate::measure::who;
use crate::report::{FigureSource, Hollow, LINUX, OwnersReport, ReportCase, WhoReport, WhoTable};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// The machine a command ran on, without its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineRecord {
    /// Architecture, as the compiler calls it.
    pub arch: &'static str,
    /// Operating system and its release.
    pub os: String,
    /// The processor's name.
    pub cpu: String,
    /// CPUs this process may use.
    pub cpus: u64,
    /// Memory in KiB; 0 where it is not known.
    pub memory_kib: u64,
}

impl MachineRecord {
    /// This machine, as far as `/proc` tells.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            text.lines()
                .find(|line| line.starts_with(key))
                .and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.and_then(|text| text.split(' ').next()?.parse().ok());
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            arch: std::env::consts::ARCH,
            os: format!("{} {}", std::env::consts::OS, release.trim())
                .trim()
                .to_owned(),
            cpu: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            memory_kib: memory.unwrap_or(0),
        }
    }
}

/// The first record: what ran, where, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// The experiment, as in every figure.
    pub experiment: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// The commit it was built from, or `unknown` outside a repository.
    pub commit: &'static str,
    /// The seed; a replay draws nothing, so 0.
    pub seed: u64,
    /// The command line's options, by name.
    pub options: BTreeMap<&'static str, String>,
    /// The machine.
    pub machine: MachineRecord,
    /// Why figures of this run say less than they seem to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hollow: Vec<Hollow>,
}

/// A figure, flat.
#[derive(Serialize)]
pub(in crate::report) struct Record<'a> {
    pub(in crate::report) experiment: &'a str,
    pub(in crate::report) case: &'a str,
    pub(in crate::report) variant: &'a str,
    pub(in crate::report) metric: String,
    pub(in crate::report) value: serde_json::Number,
    pub(in crate::report) unit: &'a str,
    pub(in crate::report) source: FigureSource,
}

/// An answer: a record like any other, with its sentences besides.
#[derive(Serialize)]
struct AnswerRecord<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    says: &'a [String],
}

/// What an asker came to: a record like any other, with its name, and what it is a name of.
#[derive(Serialize)]
struct WhoRecord<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    by: &'a str,
    who: &'a str,
}

/// The run and its figures as JSON Lines: one record that describes the run, then a record a
/// figure.
///
/// # Errors
/// What serialisation reports; values are finite numbers, so none is expected.
pub fn json_lines(info: &RunInfo, cases: &[ReportCase]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    line(&mut out, info)?;
    for case in cases {
        if let Some(answer) = &case.answer {
            let sentences = answer.sentences.len() as u64;
            let record = Record {
                experiment: info.experiment,
                case: &case.name,
                variant: "answer",
                metric: "sentences".to_owned(),
                value: sentences.into(),
                unit: "sentences",
                source: FigureSource::Simulated,
            };
            let says = &answer.sentences;
            line(&mut out, &AnswerRecord { record, says })?;
        }
        for column in case.all_columns() {
            for (metric, &value) in &column.values {
                let record = Record {
                    experiment: info.experiment,
                    case: &case.name,
                    variant: &column.variant,
                    metric: metric.name(),
                    value: metric.number(value),
                    unit: metric.unit(),
                    source: column.source,
                };
                line(&mut out, &record)?;
            }
        }
        if let Some(report) = &case.who {
            who_lines(&mut out, info, &case.name, report)?;
        }
        for (by, name, frames) in case.owners.iter().flat_map(OwnersReport::rows) {
            let metric = who::FIXED_FRAMES_IN_MIXED;
            let record = Record {
                experiment: info.experiment,
                case: &case.name,
                variant: "page_owner",
                metric: metric.name(),
                value: frames.into(),
                unit: metric.unit(),
                source: FigureSource::Measured,
            };
            line(
                &mut out,
                &WhoRecord {
                    record,
                    by,
                    who: &name,
                },
            )?;
        }
        for (kind, count) in &case.anomalies {
            let record = Record {
                experiment: info.experiment,
                case: &case.name,
                variant: "trace",
                metric: format!("anomalies_{kind}"),
                value: (*count).into(),
                unit: "events",
                source: FigureSource::Measured,
            };
            line(&mut out, &record)?;
        }
        for (metric, deviation) in case.calibration.iter().flat_map(|c| &c.deviations) {
            let record = Record {
                experiment: info.experiment,
                case: &case.name,
                variant: "calibration",
                metric: format!("error_{}", metric.name()),
                value: serde_json::Number::from_f64(deviation.error).unwrap_or_else(|| 0.into()),
                unit: metric.unit(),
                source: FigureSource::Simulated,
            };
            line(&mut out, &record)?;
        }
    }
    Ok(out)
}

fn who_lines(
    out: &mut Vec<u8>,
    info: &RunInfo,
    case: &str,
    report: &WhoReport,
) -> serde_json::Result<()> {
    let source = match report.layout {
        LINUX => FigureSource::Measured,
        _ => FigureSource::Simulated,
    };
    let rows = |table: &WhoTable| {
        let by = table.by;
        table.rows.clone().into_iter().map(move |row| (by, row))
    };
    for (by, row) in report.tables.iter().flat_map(rows) {
        for (metric, value) in report.values(&row.counts) {
            let record = Record {
                experiment: info.experiment,
                case,
                variant: report.layout,
                metric: metric.name(),
                value: value.into(),
                unit: metric.unit(),
                source,
            };
            let who = &row.who;
            line(out, &WhoRecord { record, by, who })?;
        }
    }
    Ok(())
}

pub(in crate::report) fn line(
    out: &mut Vec<u8>,
    record: &impl Serialize,
) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    // Writing to a vector does not fail.
    let _ = out.write_all(b"\n");
    Ok(())
}
