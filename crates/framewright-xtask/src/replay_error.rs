//! `cargo xtask replay-error`: how far the recording kernel's own rules, replayed, are from what it did, and what of the
//! machine a replay has for that; and the table.
//!
//! `traces/held-out.sh` makes the recordings, which are too large for the repository.

use crate::heldout::{ENDING, recordings};
use crate::kernels::boot;
use crate::machine;
use crate::pages::number;
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord, median};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) const NAME: &str = "replay-error";
const POLICY: &str = "linux-6.12";

/// Errors of the model, their titles, and the share of the machine's figure that they are wanted to be at most.
const ERRORS: [(&str, &str, f64); 10] = [
    (
        "error_unusable_index_order3",
        "unusable index of order 3",
        0.05,
    ),
    (
        "error_unusable_index_order9",
        "unusable index of order 9",
        0.05,
    ),
    ("error_free_2m_blocks", "free blocks of 2 MiB", 0.05),
    ("error_contaminated_blocks", "contaminated pageblocks", 0.05),
    ("error_mixed_blocks", "mixed pageblocks", 0.05),
    ("error_failures_order0", "failures of order 0", 0.2),
    ("error_failures_order1", "failures of order 1", 0.2),
    ("error_failures_order2", "failures of order 2", 0.2),
    ("error_failures_order3", "failures of order 3", 0.2),
    ("error_failures_order4", "failures of order 4", 0.2),
];

/// What a replay has of the machine: nothing on CPUs' lists, and labels by content; lists and labels as the machine listed them; and
/// what compaction moved besides.
const KNOWN: [&str; 3] = ["nothing", "lists", "moves"];

/// Replays the recordings in `folder` and writes the result file.
pub(crate) fn take(folder: &Path) -> Result<(), String> {
    let unlisted = boot::root().join("target/replay-error");
    let (mut rows, mut digests, mut commit) = (Vec::new(), Vec::new(), String::new());
    for recording in recordings(folder)? {
        let recording = recording.file_name().unwrap_or_default().to_string_lossy();
        let name = recording.strip_suffix(ENDING).unwrap_or(&recording);
        let summary = folder.join(format!("{name}.summary.txt"));
        let said = fs::read_to_string(&summary).map_err(|error| at(&summary, &error))?;
        let digest = word_behind(&said, "sha256").unwrap_or_default();
        digests.push(format!("{name} {}", digest.get(..16).unwrap_or(digest)));
        without_lists(folder, name, &unlisted)?;
        for (known, place, compaction) in [
            (KNOWN[0], unlisted.join(&*recording), "off"),
            (KNOWN[1], folder.join(&*recording), "off"),
            (KNOWN[2], folder.join(&*recording), "recorded"),
        ] {
            let text = replayed(&place, compaction)?;
            commit = add_rows(&text, name, known, &mut rows)?;
        }
        let zones = folder.join("state").join(name).join("before.zoneinfo");
        let zones = fs::read_to_string(&zones).map_err(|error| at(&zones, &error))?;
        let lists = zones.lines().filter_map(|line| {
            let count = line.trim().strip_prefix("count:")?;
            count.trim().parse::<f64>().ok()
        });
        let counted = |word| {
            let count = word_behind(&said, word).and_then(|count| count.parse().ok());
            count.ok_or_else(|| format!("{}: no {word}", summary.display()))
        };
        for (metric, value) in [
            ("fallbacks", counted("extfrag")?),
            (WAITS, counted("direct_reclaim")?),
            ("frames_on_lists", lists.sum()),
        ] {
            rows.push(row(name, "linux", metric, RowSource::Measured, value));
        }
    }
    let run = RunRecord {
        commands: vec!["cargo xtask replay-error FOLDER".to_owned()],
        commit,
        date: machine::date(),
        with: digests.join(", "),
        runs: 1,
        is_trial: false,
        beside: None,
        linux: None,
    };
    ResultFile { run, rows }.write(NAME)
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn word_behind<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let mut words = text.split_ascii_whitespace();
    words.find(|&found| found == word)?;
    words.next()
}

/// The recording once more, without what its machine listed as free.
fn without_lists(folder: &Path, name: &str, to: &Path) -> Result<(), String> {
    let (from_state, state) = (folder.join("state").join(name), to.join("state").join(name));
    fs::create_dir_all(&state).map_err(|error| at(&state, &error))?;
    let beside = ["pft.zst", "linux_ref.csv", "summary.txt"].map(|form| format!("{name}.{form}"));
    let copied = beside.map(|file| (folder.join(&file), to.join(&file)));
    let states = ["before.zoneinfo", "before.vmstat", "after.vmstat"];
    let states = states.map(|file| (from_state.join(file), state.join(file)));
    for (from, to) in copied.iter().chain(&states) {
        fs::copy(from, to).map_err(|error| at(from, &error))?;
    }
    Ok(())
}

/// What the program in `target/release` says of it, as JSON Lines.
fn replayed(recording: &Path, compaction: &str) -> Result<String, String> {
    let output = Command::new(boot::root().join("target/release/framewright"))
        .arg("replay")
        .arg(recording)
        .args([
            "--policy",
            POLICY,
            "--compaction",
            compaction,
            "--json",
            "-",
        ])
        .output()
        .map_err(|error| format!("cargo build --release: target/release/framewright: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "framewright replay {}: {said}",
            recording.display()
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Adds what is shown of a replay; the commit of the program.
fn add_rows(
    text: &str,
    case: &str,
    known: &str,
    rows: &mut Vec<ResultRow>,
) -> Result<String, String> {
    let mut commit = String::new();
    let (mut fallbacks, mut waits) = (0.0, 0.0);
    for line in text.lines() {
        let said: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if let Some(of) = said["commit"].as_str() {
            of.clone_into(&mut commit);
        }
        let (Some(metric), Some(value)) = (said["metric"].as_str(), said["value"].as_f64()) else {
            continue;
        };
        let is_error = ERRORS.iter().any(|(error, ..)| *error == metric);
        match said["variant"].as_str() {
            Some("calibration") if is_error => {
                rows.push(row(case, known, metric, RowSource::Simulated, value));
            }
            Some(POLICY) if metric.starts_with("fallbacks_") => fallbacks += value,
            Some(POLICY) if metric.starts_with("stalled_") => waits += value,
            Some(POLICY) if metric == FAILURES || metric == MOVED => {
                rows.push(row(case, known, metric, RowSource::Simulated, value));
            }
            Some("linux") if known == KNOWN[0] && is_measured(metric) => {
                rows.push(row(case, "linux", metric, RowSource::Measured, value));
            }
            _ => {}
        }
    }
    for (metric, count) in [("fallbacks", fallbacks), (WAITS, waits)] {
        rows.push(row(case, known, metric, RowSource::Simulated, count));
    }
    Ok(commit)
}

/// Whether the table has an error of it.
fn is_measured(metric: &str) -> bool {
    let mut errors = ERRORS.iter();
    errors.any(|(error, ..)| error.strip_prefix("error_") == Some(metric))
}

const FAILURES: &str = "failures_order3";
const MOVED: &str = "moved_frames";
/// Requests that waited for reclaim, or that would have.
const WAITS: &str = "waits";

fn row(case: &str, variant: &str, metric: &str, source: RowSource, value: f64) -> ResultRow {
    ResultRow::one([case, variant, metric], "", source, value)
}

/// On how many recordings the error became smaller and larger than in the column before, and its medians; then what each
/// recording shows.
pub(crate) fn table(file: &ResultFile) -> String {
    let value = |case: &str, variant: &str, metric: &str| {
        let mut rows = file.rows.iter();
        let found =
            rows.find(|row| row.case == case && row.variant == variant && row.metric == metric);
        found.map(|row| row.median)
    };
    let mut cases: Vec<&str> = file.rows.iter().map(|row| &*row.case).collect();
    cases.sort_unstable();
    cases.dedup();
    let mut out = String::from(
        "| error of the model, median | with nothing | with lists | smaller / larger than with nothing | with lists and moves \
         | smaller / larger than with lists | as near as wanted |\n|---|---|---|---|---|---|---|\n",
    );
    for (metric, title, wanted) in ERRORS {
        let of = |known| {
            let values = cases.iter();
            values.filter_map(move |case| value(case, known, metric))
        };
        let errors = KNOWN.map(|known| of(known).collect::<Vec<f64>>());
        // Writing into a string cannot fail.
        let _ = write!(out, "| {title} | {} |", number(median(errors[0].clone())));
        for pair in errors.windows(2) {
            let pairs = || pair[0].iter().zip(&pair[1]);
            let smaller = pairs().filter(|(before, now)| now < before).count();
            let larger = pairs().filter(|(before, now)| now > before).count();
            let middle = number(median(pair[1].clone()));
            let _ = write!(out, " {middle} | {smaller} / {larger} |");
        }
        let measured = metric.strip_prefix("error_").unwrap_or(metric);
        let is_near = |case: &&&str| {
            let (error, machine) = (
                value(case, KNOWN[2], metric),
                value(case, "linux", measured),
            );
            error
                .zip(machine)
                .is_some_and(|(error, machine)| error <= wanted * machine)
        };
        let near = cases.iter().filter(is_near).count();
        let _ = writeln!(out, " {near} of {} |", cases.len());
    }
    out += "\n| recording | on CPUs' lists | frames moved | waited for reclaim: machine | moves | fallbacks: machine | nothing | lists | moves | failures of order 3: machine \
            | nothing | lists | moves |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for case in &cases {
        let _ = write!(out, "| {case} |");
        let mut columns = vec![("linux", "frames_on_lists")];
        columns.extend([(KNOWN[2], MOVED), ("linux", WAITS), (KNOWN[2], WAITS)]);
        for metric in ["fallbacks", FAILURES] {
            columns.push(("linux", metric));
            columns.extend(KNOWN.map(|known| (known, metric)));
        }
        for (variant, metric) in columns {
            let figure = value(case, variant, metric).map_or("-".to_owned(), number);
            let _ = write!(out, " {figure} |");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;

    #[test]
    fn errors_are_counted_and_figures_stand_by_recording() {
        let of =
            |case, variant, metric, value| row(case, variant, metric, RowSource::Simulated, value);
        let error = "error_mixed_blocks";
        let file = ResultFile {
            run: run_record(0.0),
            rows: vec![
                of("a", "nothing", error, 4.0),
                of("a", "lists", error, 2.0),
                of("a", "moves", error, 4.0),
                of("b", "nothing", error, 8.0),
                of("b", "lists", error, 9.0),
                of("b", "moves", error, 3.0),
                of("b", "linux", "fallbacks", 7.0),
                of("a", "linux", "mixed_blocks", 79.0),
                of("b", "linux", "mixed_blocks", 60.0),
            ],
        };
        let shown = table(&file);
        for line in [
            "| mixed pageblocks | 6 | 5.50 | 1 / 1 | 3.50 | 1 / 1 | 1 of 2 |",
            "| b | - | - | - | - | 7 | - | - | - | - | - | - | - |",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn what_a_replay_says_becomes_rows() {
        let text = r#"{"experiment":"replay","commit":"abc"}
{"case":"x","variant":"calibration","metric":"error_mixed_blocks","value":2.5}
{"case":"x","variant":"linux-6.12","metric":"fallbacks_movable_to_unmovable","value":3}
{"case":"x","variant":"linux-6.12","metric":"fallbacks_unmovable_to_movable","value":4}
{"case":"x","variant":"linux-6.12","metric":"stalled_order0","value":5}
{"case":"x","variant":"linux-6.12","metric":"stalled_order3","value":1}
{"case":"x","variant":"linux-6.12","metric":"moved_frames","value":9}
{"case":"x","variant":"linux","metric":"failures_order3","value":1}"#;
        let mut rows = Vec::new();
        assert_eq!(add_rows(text, "a", "nothing", &mut rows).unwrap(), "abc");
        let found: Vec<_> = (rows.iter())
            .map(|row| (&*row.variant, &*row.metric, row.median))
            .collect();
        assert_eq!(
            found,
            [
                ("nothing", "error_mixed_blocks", 2.5),
                ("nothing", "moved_frames", 9.0),
                ("linux", "failures_order3", 1.0),
                ("nothing", "fallbacks", 7.0),
                ("nothing", "waits", 6.0),
            ]
        );
        let words = "alloc 5 extfrag 1567 migrate";
        assert_eq!(word_behind(words, "extfrag"), Some("1567"));
    }
}
