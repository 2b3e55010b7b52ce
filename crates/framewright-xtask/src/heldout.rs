//! `cargo xtask held-out`: recordings that no constant of the policy was found on, under each policy, and their table.
//!
//! `traces/held-out.sh` makes the recordings; they are too large for the repository. The command sweeps those in a folder
//! and keeps what came of each. A recording whose name begins with `later` was made after the policy's last change.

use crate::boot;
use crate::machine;
use crate::query::number;
use crate::recordings::{JUDGED, OURS, RIVALS};
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const NAME: &str = "held-out";
/// Nothing, and nearly all that is free at every moment.
const SQUEEZES: &str = "0,97%";
const LATER: &str = "later";

/// Sweeps the recordings in `folder`, and writes the result file.
pub(crate) fn take(folder: &Path) -> Result<(), String> {
    let at = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(at)?;
    let mut traces: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".pft.zst"))
        .collect();
    traces.sort();
    if traces.is_empty() {
        return Err(format!(
            "{}: no recording, expected those of traces/held-out.sh",
            folder.display()
        ));
    }
    let out = boot::root().join("target/held-out.jsonl");
    // Rows of an earlier program may be there.
    let _ = fs::remove_file(&out);
    let policies = format!("{},{OURS}", RIVALS.join(","));
    let status = Command::new(boot::root().join("target/release/framewright"))
        .arg("sweep")
        .args(["--policy", &policies, "--start", "imposed,fresh"])
        .args(["--squeeze", SQUEEZES, "--json"])
        .arg(&out)
        .args(&traces)
        .status()
        .map_err(|error| format!("cargo build --release: target/release/framewright: {error}"))?;
    if !status.success() {
        return Err(format!("framewright sweep: {status}"));
    }
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let (rows, digests) = rows(&text)?;
    let run = RunRecord {
        commands: vec!["cargo xtask held-out FOLDER".to_owned()],
        commit: machine::commit(),
        date: machine::date(),
        with: digests,
        runs: 1,
        is_trial: false,
        beside: None,
        linux: None,
    };
    ResultFile { run, rows }.write(NAME)
}

/// The figures in a sweep's rows, and the recordings' digests.
fn rows(sweep: &str) -> Result<(Vec<ResultRow>, String), String> {
    let mut rows = Vec::new();
    let mut digests = BTreeMap::new();
    for (nth, line) in sweep.lines().enumerate() {
        let bad = |what: &str| format!("line {} of the sweep: {what}", nth + 1);
        let row: Value = serde_json::from_str(line).map_err(|error| bad(&error.to_string()))?;
        let text = |name: &str| row[name].as_str().ok_or_else(|| bad(name));
        let squeeze = row["squeeze"].as_u64().ok_or_else(|| bad("squeeze"))?;
        let short = if squeeze == 0 { "all" } else { "short" };
        let case = format!("{}/{}/{short}", text("case")?, text("start")?);
        digests.insert(text("case")?.to_owned(), text("trace")?.to_owned());
        for (metric, ..) in JUDGED {
            let value = row[metric].as_f64().ok_or_else(|| bad(metric))?;
            rows.push(ResultRow {
                case: case.clone(),
                variant: text("variant")?.to_owned(),
                metric: metric.to_owned(),
                unit: String::new(),
                source: RowSource::Simulated,
                median: value,
                min: value,
                max: value,
                n: 1,
            });
        }
    }
    if rows.is_empty() {
        return Err("the sweep has no row".to_owned());
    }
    let digests: Vec<String> = digests
        .iter()
        .map(|(name, digest)| format!("{name} {}", digest.get(..16).unwrap_or(digest)))
        .collect();
    Ok((rows, digests.join(", ")))
}

/// What a comparison came to, by figure.
#[derive(Clone, Copy, Default)]
struct Compared {
    better: u64,
    equal: u64,
    worse: u64,
}

impl Compared {
    fn add(&mut self, other: Self) {
        self.better += other.better;
        self.equal += other.equal;
        self.worse += other.worse;
    }

    /// The figures of one case: ours against the best of `rivals`. What cannot be told apart as it is shown is equal.
    fn of(file: &ResultFile, case: &str, rivals: &[&str]) -> Self {
        let mut sum = Self::default();
        for (metric, _, is_less_better) in JUDGED {
            let of = |variant| file.find(case, variant, metric).map(|row| row.median);
            let pick = if is_less_better { f64::min } else { f64::max };
            let best = rivals.iter().filter_map(|rival| of(rival)).reduce(pick);
            let (Some(ours), Some(best)) = (of(OURS), best) else {
                continue;
            };
            if number(ours) == number(best) {
                sum.equal += 1;
            } else if (ours < best) == is_less_better {
                sum.better += 1;
            } else {
                sum.worse += 1;
            }
        }
        sum
    }

    const fn dominates(self) -> bool {
        self.worse == 0 && self.better > 0
    }
}

/// A line for each recording and start, and the sums.
pub(crate) fn table(file: &ResultFile) -> String {
    let mut lines: BTreeMap<(bool, String, String), (Compared, u64, u64)> = BTreeMap::new();
    let mut cases: Vec<&str> = file.rows.iter().map(|row| row.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    for case in cases {
        let mut parts = case.split('/');
        let (name, start) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let key = (name.starts_with(LATER), name.to_owned(), start.to_owned());
        let line = lines.entry(key).or_default();
        line.0.add(Compared::of(file, case, &RIVALS));
        for rival in RIVALS {
            line.1 += u64::from(Compared::of(file, case, &[rival]).dominates());
            line.2 += 1;
        }
    }
    let mut out = String::from(
        "| recording | start | better | equal | worse | dominates |\n|---|---|---|---|---|---|\n",
    );
    let mut sums: BTreeMap<(bool, String), (Compared, u64, u64)> = BTreeMap::new();
    let mut write = |name: &str, start: &str, line: &(Compared, u64, u64)| {
        let (
            Compared {
                better,
                equal,
                worse,
            },
            dominates,
            of,
        ) = *line;
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {name} | {start} | {better} | {equal} | {worse} | {dominates} of {of} |"
        );
    };
    for ((is_later, name, start), line) in &lines {
        write(name, start, line);
        let sum = sums.entry((*is_later, start.clone())).or_default();
        sum.0.add(line.0);
        sum.1 += line.1;
        sum.2 += line.2;
    }
    for ((is_later, start), sum) in &sums {
        let name = if *is_later {
            "**made after the change**"
        } else {
            "**made before**"
        };
        write(name, start, sum);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;

    fn line(case: &str, variant: &str, squeeze: u64, mixed: f64) -> String {
        let mut row = serde_json::json!({
            "experiment": "sweep", "case": case, "trace": "0123456789abcdef0123", "squeeze": squeeze,
            "start": "fresh", "variant": variant,
        });
        for (metric, ..) in JUDGED {
            row[metric] = 1.0.into();
        }
        row["mixed_blocks"] = mixed.into();
        row.to_string()
    }

    #[test]
    fn a_policy_dominates_that_is_worse_in_nothing_and_better_in_something() {
        let mut text = Vec::new();
        for rival in RIVALS {
            text.push(line("later-a", rival, 0, 3.0));
            text.push(line("b", rival, 7, 3.0));
        }
        text.push(line("later-a", OURS, 0, 2.0));
        text.push(line("b", OURS, 7, 4.0));
        let (rows, digests) = rows(&text.join("\n")).unwrap();
        assert_eq!(digests, "b 0123456789abcdef, later-a 0123456789abcdef");
        let run = run_record(0.0);
        let shown = table(&ResultFile { run, rows });
        assert!(
            shown.contains("| later-a | fresh | 1 | 7 | 0 | 5 of 5 |"),
            "{shown}"
        );
        assert!(
            shown.contains("| b | fresh | 0 | 7 | 1 | 0 of 5 |"),
            "{shown}"
        );
        assert!(
            shown.contains("| **made after the change** | fresh | 1 |"),
            "{shown}"
        );
    }

    #[test]
    fn a_row_that_lacks_a_figure_is_named() {
        let text = line("a", OURS, 0, 1.0).replace("free_2m_blocks", "free_blocks");
        let error = rows(&text).unwrap_err();
        assert!(
            error.contains("line 1") && error.contains("free_2m_blocks"),
            "{error}"
        );
        assert!(rows("").is_err());
    }
}
