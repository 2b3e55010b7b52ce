//! The tables of docs/rivals.md: the rows that a rival wins, what the engine's instructions are there, and all counts.

use super::{BENCHES, EMPTY, NAME, RivalBench};
use crate::pages::{ResultFiles, number};
use crate::results::{ResultFile, ResultRow};
use std::fmt::Write;

/// The tables, by name.
pub(crate) const TABLES: [&str; 3] = [NAME, "rivals-groups", "rivals-counts"];

/// What stands for a figure that was not taken.
const NO_FIGURE: &str = "-";

/// A time in which a rival is below the engine.
#[derive(PartialEq, Debug)]
struct LostRow {
    /// The file of the times.
    results: &'static str,
    case: String,
    /// `alloc`, `free` or `pair`.
    phase: String,
    ours: String,
    rival: String,
}

impl LostRow {
    fn title(&self) -> String {
        let heap = if self.ours == "Heap" {
            ", as a heap"
        } else {
            ""
        };
        format!("`{}`, {}{heap}", self.case, self.phase)
    }
}

/// The name of a group's figure.
pub(super) fn group_metric(phase: &str, group: &str) -> String {
    format!("{phase} of {group}")
}

/// The group of a figure of that phase.
fn group_in<'m>(phase: &str, metric: &'m str) -> Option<&'m str> {
    metric.strip_prefix(phase)?.strip_prefix(" of ")
}

/// What a benchmark's engine loses, in the order of its file.
fn lost(bench: &RivalBench, times: &ResultFile) -> Vec<LostRow> {
    let mut found = Vec::new();
    let is_ours = |row: &&ResultRow| bench.ours.contains(&row.variant.as_str());
    for ours in times.rows.iter().filter(is_ours) {
        let Some(phase) = ours.metric.strip_suffix("_ns") else {
            continue;
        };
        let rivals = times.rows.iter().filter(|row| {
            row.case == ours.case && row.metric == ours.metric && row.median < ours.median
        });
        found.extend(rivals.filter(|row| !is_ours(row)).map(|rival| LostRow {
            results: bench.results,
            case: ours.case.clone(),
            phase: phase.to_owned(),
            ours: ours.variant.clone(),
            rival: rival.variant.clone(),
        }));
    }
    found
}

/// What all of them lose.
fn all_lost(files: &mut ResultFiles) -> Result<Vec<LostRow>, String> {
    let mut all = Vec::new();
    for bench in &BENCHES {
        all.extend(lost(bench, files.file(bench.results)?));
    }
    Ok(all)
}

/// The table of that name, without the words on how its figures were taken.
pub(crate) fn table(name: &str, files: &mut ResultFiles) -> Result<String, String> {
    match name {
        NAME => lost_table(files),
        "rivals-groups" => {
            let rows = all_lost(files)?;
            Ok(groups(&rows, files.file(NAME)?))
        }
        _ => Ok(counts(files.file(NAME)?)),
    }
}

fn lost_table(files: &mut ResultFiles) -> Result<String, String> {
    let mut out = "| row | engine, ns | rival, ns | engine, instructions | rival | engine, locked | rival |\n\
                   |---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in all_lost(files)? {
        let mut time = |variant: &str| {
            let LostRow {
                results,
                case,
                phase,
                ..
            } = &row;
            files.shown(&format!("{results}, {case}, {variant}, {phase}_ns"))
        };
        let (ours, theirs) = (time(&row.ours)?, time(&row.rival)?);
        let counts = files.file(NAME)?;
        let count = |variant: &str, kind: &str| {
            let metric = format!("{}_{kind}", row.phase);
            let found = counts.find(&row.case, variant, &metric);
            found.map_or(NO_FIGURE.to_owned(), |row| number(row.median))
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {ours} | {}, {theirs} | {} | {} | {} | {} |",
            row.title(),
            row.rival,
            count(&row.ours, "instructions"),
            count(&row.rival, "instructions"),
            count(&row.ours, "locked"),
            count(&row.rival, "locked"),
        );
    }
    Ok(out)
}

/// The figures of the groups of one phase, in the file's order, which is by size.
fn groups_of<'f>(
    counts: &'f ResultFile,
    case: &'f str,
    variant: &'f str,
    phase: &'f str,
) -> impl Iterator<Item = (&'f str, f64)> {
    let rows = counts.rows.iter();
    let rows = rows.filter(move |row| row.case == case && row.variant == variant);
    rows.filter_map(move |row| Some((group_in(phase, &row.metric)?, row.median)))
}

fn groups_head() -> String {
    "| row | instructions | of these |\n|---|---|---|\n".to_owned()
}

fn groups_line(title: &str, counts: &ResultFile, names: [&str; 3]) -> Option<String> {
    let [case, variant, phase] = names;
    let all = counts.find(case, variant, &format!("{phase}_instructions"))?;
    let groups = groups_of(counts, case, variant, phase);
    let mut groups: Vec<(&str, f64)> = groups.collect();
    // What no file of the engine's has, and is not the pattern's either.
    let call = all.median - groups.iter().map(|(_, value)| value).sum::<f64>();
    groups.extend((call >= 0.5).then_some(("the call", (call * 100.0).round() / 100.0)));
    let words: Vec<String> = groups
        .iter()
        .map(|(group, value)| format!("{group} {}", number(*value)))
        .collect();
    let (all, words) = (number(all.median), words.join(", "));
    Some(format!("| {title} | {all} | {words} |\n"))
}

/// The engine's instructions in the rows that it loses.
fn groups(rows: &[LostRow], counts: &ResultFile) -> String {
    let mut out = groups_head();
    let mut last = String::new();
    for row in rows {
        let title = row.title();
        let names = [row.case.as_str(), &row.ours, &row.phase];
        // Several rivals may win one row.
        if title != last
            && let Some(line) = groups_line(&title, counts, names)
        {
            out += &line;
        }
        last = title;
    }
    out
}

/// The engine's instructions in all that was counted.
pub(super) fn groups_of_all(counts: &ResultFile) -> String {
    let mut out = groups_head();
    for row in &counts.rows {
        let is_ours = |bench: &RivalBench| bench.ours.contains(&row.variant.as_str());
        let phase = row.metric.strip_suffix("_instructions");
        if let Some(phase) = phase.filter(|_| BENCHES.iter().any(is_ours)) {
            let title = format!("`{}`, {phase}, {}", row.case, row.variant);
            let names = [row.case.as_str(), &row.variant, phase];
            out += &groups_line(&title, counts, names).unwrap_or_default();
        }
    }
    out
}

/// What the benchmark's engine was counted in: patterns and their phases.
fn phases<'f>(bench: &RivalBench, counts: &'f ResultFile) -> Vec<(&'f str, &'f str)> {
    let mut found = Vec::new();
    for row in &counts.rows {
        let phase = row.metric.strip_suffix("_instructions");
        let phase = phase.filter(|_| bench.ours.contains(&row.variant.as_str()));
        let new = phase.map(|phase| (row.case.as_str(), phase));
        found.extend(new.filter(|new| !found.contains(new)));
    }
    found
}

/// The subjects of a benchmark that were counted beside its engine.
fn variants<'f>(bench: &RivalBench, counts: &'f ResultFile) -> Vec<&'f str> {
    let cases: Vec<&str> = phases(bench, counts)
        .into_iter()
        .map(|(case, _)| case)
        .collect();
    let mut found: Vec<&str> = Vec::new();
    for row in counts
        .rows
        .iter()
        .filter(|row| cases.contains(&row.case.as_str()))
    {
        let variant = row.variant.as_str();
        if variant != EMPTY && !found.contains(&variant) {
            found.push(variant);
        }
    }
    found
}

/// Everything that was counted: instructions, and behind them those that lock the bus and system calls, where there are any.
pub(super) fn counts(counts: &ResultFile) -> String {
    let mut out = String::new();
    for bench in &BENCHES {
        let variants = variants(bench, counts);
        if variants.is_empty() {
            continue;
        }
        let line = "|---".repeat(variants.len() + 2);
        let _ = writeln!(
            out,
            "\n| pattern | of | {} |\n{line}|",
            variants.join(" | ")
        );
        for (case, phase) in phases(bench, counts) {
            let _ = write!(out, "| `{case}` | {phase} |");
            for variant in &variants {
                let value = |kind: &str| {
                    let row = counts.find(case, variant, &format!("{phase}_{kind}"));
                    row.map(|row| row.median)
                };
                let Some(instructions) = value("instructions") else {
                    let _ = write!(out, " {NO_FIGURE} |");
                    continue;
                };
                let _ = write!(out, " {}", number(instructions));
                for (kind, word) in [("locked", "locked"), ("system_calls", "system calls")] {
                    if let Some(some) = value(kind).filter(|some| *some >= 0.01) {
                        let _ = write!(out, ", {} {word}", number(some));
                    }
                }
                out += " |";
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::RowSource;
    use crate::results::tests::run_record;

    fn file(rows: &[(&str, &str, &str, f64)]) -> ResultFile {
        let row = |(case, variant, metric, value): &(&str, &str, &str, f64)| {
            ResultRow::one([case, variant, metric], "x", RowSource::Simulated, *value)
        };
        ResultFile {
            run: run_record(0.0),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_row_is_lost_where_a_rival_takes_less_time() {
        let times = file(&[
            ("bulk/3/1", "framewright", "alloc_ns", 50.0),
            ("bulk/3/1", "framewright", "free_ns", 80.0),
            ("bulk/3/1", "buddy", "alloc_ns", 60.0),
            ("bulk/3/1", "buddy", "free_ns", 30.0),
            ("bulk/3/2", "buddy", "free_ns", 3.0),
        ]);
        let expected = LostRow {
            results: "frames",
            case: "bulk/3/1".to_owned(),
            phase: "free".to_owned(),
            ours: "framewright".to_owned(),
            rival: "buddy".to_owned(),
        };
        assert_eq!(lost(&BENCHES[0], &times), [expected]);
    }

    #[test]
    fn a_heap_does_not_lose_to_a_seat() {
        let times = file(&[
            ("pair/64/1", "seat", "pair_ns", 10.0),
            ("pair/64/1", "Heap", "pair_ns", 20.0),
            ("pair/64/1", "malloc", "pair_ns", 15.0),
        ]);
        let lost = lost(&BENCHES[1], &times);
        let titles: Vec<_> = lost.iter().map(LostRow::title).collect();
        assert_eq!(titles, ["`pair/64/1`, pair, as a heap"]);
    }

    fn counted() -> ResultFile {
        file(&[
            ("bulk/3/1", "framewright", "free_instructions", 90.0),
            ("bulk/3/1", "framewright", "free_locked", 0.25),
            ("bulk/3/1", "framewright", "free of tags", 60.5),
            ("bulk/3/1", "framewright", "free of index", 28.0),
            ("bulk/3/1", "buddy", "free_instructions", 30.0),
            ("bulk/3/1", "empty", "free_instructions", 3.0),
            ("pair/64/1", "Heap", "pair_instructions", 70.0),
            ("pair/64/1", "malloc", "pair_instructions", 40.0),
            ("pair/64/1", "buddy", "pair_instructions", 50.0),
            ("pair/64/1", "malloc", "pair_system_calls", 2.0),
        ])
    }

    #[test]
    fn groups_stand_once_for_a_row() {
        let row = |rival: &str| LostRow {
            results: "frames",
            case: "bulk/3/1".to_owned(),
            phase: "free".to_owned(),
            ours: "framewright".to_owned(),
            rival: rival.to_owned(),
        };
        let text = groups(&[row("buddy"), row("buddy-slab")], &counted());
        let line = "| `bulk/3/1`, free | 90 | tags 60.5, index 28, the call 1.50 |\n";
        assert_eq!(text, groups_head() + line);
        assert!(groups_of_all(&counted()).contains("| `bulk/3/1`, free, framewright | 90 | tags"));
    }

    #[test]
    fn counts_have_a_column_for_each_subject_of_their_benchmark() {
        let expected = "
| pattern | of | framewright | buddy |
|---|---|---|---|
| `bulk/3/1` | free | 90, 0.250 locked | 30 |

| pattern | of | Heap | malloc | buddy |
|---|---|---|---|---|
| `pair/64/1` | pair | 70 | 40, 2 system calls | 50 |
";
        assert_eq!(counts(&counted()), expected);
    }
}
