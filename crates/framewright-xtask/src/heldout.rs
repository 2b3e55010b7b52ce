//! `cargo xtask held-out`: recordings that no constant of the policy was found on, under each policy, and their table.
//!
//! `traces/held-out.sh` makes the recordings; they are too large for the repository. The command sweeps those in a folder
//! and keeps what came of each. All were made after the policy's last change.
//! Those whose names begin with `later` have a size and seed that no earlier recording had.

use crate::kernels::boot;
use crate::machine;
use crate::pages::{JUDGED, OURS, PolicyStanding, RIVALS, cases};
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord, gather};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const NAME: &str = "held-out";
/// Nothing, and nearly all that is free at every moment.
const SQUEEZES: &str = "0,97%";
/// Orders of the operations: the recorded one, and others.
const INTERLEAVINGS: &str = "3";
const LATER: &str = "later";

/// The ending of a recording's name.
pub(crate) const ENDING: &str = ".pft.zst";

/// The recordings in a folder, by name.
pub(crate) fn recordings(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let at = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(at)?;
    let mut traces: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(ENDING))
        .collect();
    traces.sort();
    match traces.is_empty() {
        false => Ok(traces),
        true => Err(format!(
            "{}: no recording, expected those of traces/held-out.sh",
            folder.display()
        )),
    }
}

/// Sweeps the recordings in `folder`, and writes the result file.
pub(crate) fn take(folder: &Path) -> Result<(), String> {
    let traces = recordings(folder)?;
    let out = boot::root().join("target/held-out.jsonl");
    // Rows of an earlier program may be there.
    let _ = fs::remove_file(&out);
    let policies = format!("{},{OURS}", RIVALS.join(","));
    let status = Command::new(boot::root().join("target/release/framewright"))
        .arg("sweep")
        .args(["--policy", &policies, "--start", "imposed,fresh"])
        .args(["--squeeze", SQUEEZES, "--interleavings", INTERLEAVINGS])
        .arg("--json")
        .arg(&out)
        .args(&traces)
        .status()
        .map_err(|error| format!("cargo build --release: target/release/framewright: {error}"))?;
    if !status.success() {
        return Err(format!("framewright sweep: {status}"));
    }
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let (rows, digests, commit) = rows(&text)?;
    let run = RunRecord {
        commands: vec!["cargo xtask held-out FOLDER".to_owned()],
        commit,
        date: machine::date(),
        with: digests,
        runs: 1,
        is_trial: false,
        beside: None,
        linux: None,
    };
    ResultFile { run, rows }.write(NAME)
}

/// The figures in a sweep's rows, the recordings' digests, and the commit of the program that replayed them.
fn rows(sweep: &str) -> Result<(Vec<ResultRow>, String, String), String> {
    let mut rows = Vec::new();
    let mut commit = String::new();
    let mut digests = BTreeMap::new();
    for (nth, line) in sweep.lines().enumerate() {
        let bad = |what: &str| format!("line {} of the sweep: {what}", nth + 1);
        let row: Value = serde_json::from_str(line).map_err(|error| bad(&error.to_string()))?;
        let text = |name: &str| row[name].as_str().ok_or_else(|| bad(name));
        let squeeze = row["squeeze"].as_u64().ok_or_else(|| bad("squeeze"))?;
        let short = if squeeze == 0 { "all" } else { "short" };
        let case = format!("{}/{}/{short}", text("case")?, text("start")?);
        text("commit")?.clone_into(&mut commit);
        digests.insert(text("case")?.to_owned(), text("trace")?.to_owned());
        for (metric, ..) in JUDGED {
            let value = row[metric].as_f64().ok_or_else(|| bad(metric))?;
            let names = [&case, text("variant")?, metric];
            rows.push(ResultRow::one(names, "", RowSource::Simulated, value));
        }
    }
    if rows.is_empty() {
        return Err("the sweep has no row".to_owned());
    }
    let digests: Vec<String> = digests
        .iter()
        .map(|(name, digest)| format!("{name} {}", digest.get(..16).unwrap_or(digest)))
        .collect();
    // Rows of one combination in several orders become one with their range.
    Ok((gather(&[rows]), digests.join(", "), commit))
}

/// Cases of a kind: their figures against the best rival, and how many comparisons with one rival there are, and in how
/// many of them the engine's policy dominates.
#[derive(Clone, Copy, Default)]
struct HeldOutSum {
    standing: PolicyStanding,
    dominates: u64,
    of: u64,
}

impl HeldOutSum {
    fn add_case(&mut self, file: &ResultFile, case: &str) {
        self.standing.add(PolicyStanding::of(file, case, &RIVALS));
        for rival in RIVALS {
            self.dominates += u64::from(PolicyStanding::of(file, case, &[rival]).dominates());
            self.of += 1;
        }
    }

    /// The cells of a line.
    fn cells(&self) -> String {
        let PolicyStanding {
            better,
            equal,
            worse,
        } = self.standing;
        format!(
            "{better} | {equal} | {worse} | {} of {}",
            self.dominates, self.of
        )
    }
}

/// The sums of cases that `key` puts together.
fn sums<K: Ord>(file: &ResultFile, key: impl Fn(bool, &str, &str) -> K) -> BTreeMap<K, HeldOutSum> {
    let mut sums: BTreeMap<K, HeldOutSum> = BTreeMap::new();
    for case in cases(file) {
        let mut parts = case.split('/');
        let (name, start) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let key = key(name.starts_with(LATER), name, start);
        sums.entry(key).or_default().add_case(file, case);
    }
    sums
}

const fn when(is_later: bool) -> &'static str {
    match is_later {
        true => "**not in view then**",
        false => "**in view at the policy's last change**",
    }
}

/// A line for each recording and start, and the sums.
pub(crate) fn table(file: &ResultFile) -> String {
    let mut out = String::from(
        "| recording | start | better | equal | worse | dominates |\n|---|---|---|---|---|---|\n",
    );
    let each = sums(file, |is_later, name, start| {
        (is_later, name.to_owned(), start.to_owned())
    });
    for ((_, name, start), sum) in &each {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| {name} | {start} | {} |", sum.cells());
    }
    let all = sums(file, |is_later, _, start| (is_later, start.to_owned()));
    for ((is_later, start), sum) in &all {
        let _ = writeln!(out, "| {} | {start} | {} |", when(*is_later), sum.cells());
    }
    out
}

/// The result file of the engine's policy with the rule that was removed.
pub(crate) const HEALING: &str = "held-out-healing";
/// The one without the rule, of the same recordings.
pub(crate) const NO_HEALING: &str = "held-out-no-healing";

/// The sums with the rule and without it. Rivals are the same in both.
pub(crate) fn healing_table(with: &ResultFile, without: &ResultFile) -> String {
    let rivals = without.rows.iter().filter(|row| row.variant != OURS);
    let mut whole = with.clone();
    whole.rows.extend(rivals.cloned());
    let mut out = String::from(
        "| recordings | start | the rule | better | equal | worse | dominates |\n|---|---|---|---|---|---|---|\n",
    );
    let key = |is_later: bool, _: &str, start: &str| (is_later, start.to_owned());
    let kept = sums(&whole, key);
    for ((is_later, start), sum) in sums(without, key) {
        let (when, without) = (when(is_later), sum.cells());
        let with = kept
            .get(&(is_later, start.clone()))
            .map_or_else(|| "- | - | - | -".to_owned(), HeldOutSum::cells);
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| {when} | {start} | kept | {with} |");
        let _ = writeln!(out, "| | | removed | {without} |");
    }
    let _ = writeln!(
        out,
        "\n`docs/results/{HEALING}.jsonl` has the engine's figures with the rule put back, at {} on {}, `docs/results/{NO_HEALING}.jsonl` the others.",
        with.run.commit, with.run.date
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;

    fn line(case: &str, variant: &str, squeeze: u64, mixed: f64) -> String {
        let mut row = serde_json::json!({
            "experiment": "sweep", "case": case, "trace": "0123456789abcdef0123", "squeeze": squeeze,
            "start": "fresh", "variant": variant, "commit": "abc",
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
        let (rows, digests, commit) = rows(&text.join("\n")).unwrap();
        assert_eq!(commit, "abc");
        assert_eq!(digests, "b 0123456789abcdef, later-a 0123456789abcdef");
        let run = run_record(0.0);
        let file = ResultFile { run, rows };
        let shown = table(&file);
        assert!(
            shown.contains("| later-a | fresh | 1 | 7 | 0 | 5 of 5 |"),
            "{shown}"
        );
        assert!(
            shown.contains("| b | fresh | 0 | 7 | 1 | 0 of 5 |"),
            "{shown}"
        );
        assert!(
            shown.contains("| **not in view then** | fresh | 1 |"),
            "{shown}"
        );
        let mut with = file.clone();
        with.rows.retain(|row| row.variant == OURS);
        for row in &mut with.rows {
            (row.median, row.min, row.max) = (2.0, 2.0, 2.0);
        }
        let shown = healing_table(&with, &file);
        let kept = "| **in view at the policy's last change** | fresh | kept | 2 | 0 | 6 | 0 of 5 |\n| | | removed | 0 | 7 | 1 | 0 of 5 |";
        assert!(shown.contains(kept), "{shown}");
    }

    #[test]
    fn what_another_order_of_operations_turns_round_is_no_difference() {
        let mut text = Vec::new();
        for mixed in [2.0, 3.0, 4.0] {
            text.push(line("later-a", OURS, 0, mixed));
            text.extend(RIVALS.map(|rival| line("later-a", rival, 0, mixed + 1.5)));
            text.push(line("b", OURS, 0, mixed));
            text.extend(RIVALS.map(|rival| line("b", rival, 0, mixed + 2.5)));
        }
        let (rows, ..) = rows(&text.join("\n")).unwrap();
        let mixed = rows.iter().find(|row| row.metric == "mixed_blocks");
        let mixed = mixed.unwrap();
        assert_eq!(
            (mixed.min, mixed.median, mixed.max, mixed.n),
            (2.0, 3.0, 4.0, 3)
        );
        let shown = table(&ResultFile {
            run: run_record(0.0),
            rows,
        });
        assert!(
            shown.contains("| later-a | fresh | 0 | 8 | 0 | 0 of 5 |"),
            "{shown}"
        );
        assert!(
            shown.contains("| b | fresh | 1 | 7 | 0 | 5 of 5 |"),
            "{shown}"
        );
    }

    #[test]
    fn one_rival_that_is_surely_better_is_enough_to_be_worse() {
        // The best by median overlaps; another, which is nearer, does not.
        let mut text = Vec::new();
        for nth in 0..3 {
            text.push(line("a", OURS, 0, f64::from([118, 123, 126][nth])));
            text.push(line("a", RIVALS[0], 0, f64::from([77, 90, 152][nth])));
            text.extend(RIVALS[1..].iter().map(|rival| line("a", rival, 0, 99.0)));
        }
        let (rows, ..) = rows(&text.join("\n")).unwrap();
        let run = run_record(0.0);
        let shown = table(&ResultFile { run, rows });
        assert!(
            shown.contains("| a | fresh | 0 | 7 | 1 | 0 of 5 |"),
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
