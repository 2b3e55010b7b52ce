//! Tables of figures, from the forms in `tables/`.
//!
//! A form is Markdown in which `{QUERY}` stands for a figure ([`super::query`]); `{<QUERY}` is bold if it is the least
//! of its line, `{<2 QUERY}` of those of its line with that number, `{>QUERY}` if it is the most. What stands behind
//! `{?FILE: VARIANT}` in a line is left out where the file has no figure of that variant. Lines that begin with `@`:
//!
//! - `@grid FILE: VARIANT, VARIANT = TITLE, ...` begins a table with a column a variant,
//! - `@row CASE, METRIC` is a row of it, `@row CASE, METRIC, ~BASE` one with the model's error behind it,
//! - `@every` are rows for all that the file has of these variants, in its order,
//! - `@source FILE` says how the file's figures were taken.

use super::query::{MARK, ResultFiles, TRIAL};
use super::{ab, document, notebook, recordings};
use crate::heldout;
use crate::kernels::{fallback, ostd};
use crate::many_cpus;
use crate::recording_cost;
use crate::replay_error;
use crate::results::ResultFile;
use crate::rivals;
use crate::vmalloc_test;
use std::fmt::Write;

/// The forms, by name.
const FORMS: &[(&str, &str)] = &[
    ("claims", include_str!("../../tables/claims.md")),
    ("document-0", include_str!("../../tables/document-0.md")),
    ("document-1", include_str!("../../tables/document-1.md")),
    ("document-2", include_str!("../../tables/document-2.md")),
    ("document-3", include_str!("../../tables/document-3.md")),
    ("document-4", include_str!("../../tables/document-4.md")),
    ("documents", include_str!("../../tables/documents.md")),
    ("fallback", include_str!("../../tables/fallback.md")),
    ("frames", include_str!("../../tables/frames.md")),
    ("gcma-build", include_str!("../../tables/gcma-build.md")),
    ("gcma-idle", include_str!("../../tables/gcma-idle.md")),
    ("kvmalloc", include_str!("../../tables/kvmalloc.md")),
    (
        "kernel-riscv64",
        include_str!("../../tables/kernel-riscv64.md"),
    ),
    ("objects", include_str!("../../tables/objects.md")),
    ("ranges", include_str!("../../tables/ranges.md")),
    ("replay-fresh", include_str!("../../tables/replay-fresh.md")),
    (
        "replay-imposed",
        include_str!("../../tables/replay-imposed.md"),
    ),
    ("replay-short", include_str!("../../tables/replay-short.md")),
    ("reserve", include_str!("../../tables/reserve.md")),
    ("speed", include_str!("../../tables/speed.md")),
    ("va-fit", include_str!("../../tables/va-fit.md")),
    ("va-fit-full", include_str!("../../tables/va-fit-full.md")),
    ("vmap-blocks", include_str!("../../tables/vmap-blocks.md")),
    (
        "vmap-blocks-full",
        include_str!("../../tables/vmap-blocks-full.md"),
    ),
];

/// What stands for a figure that no file has; what is missing is said.
const NO_FIGURE: &str = "-";

/// The table of that name, and what it lacks.
pub(crate) fn table(name: &str, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
    // It says itself how its figures were taken: they are no times.
    if ab::NAMES.contains(&name) {
        return match files.file(name) {
            Ok(file) => ab::table(name, file),
            Err(error) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    if name == notebook::NAME {
        return notebook::page().unwrap_or_else(|error| {
            lacking.push(error);
            String::new()
        });
    }
    if name == heldout::HEALING {
        let with = files.file(name).cloned();
        return match (with, files.file(heldout::NO_HEALING)) {
            (Ok(with), Ok(without)) => heldout::healing_table(&with, without),
            (Err(error), _) | (_, Err(error)) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    if name == fallback::NAME {
        let phone = files.file("fallback").cloned();
        return match (files.file(name), phone) {
            (Ok(file), Ok(phone)) => fallback::table(file, &phone) + &source(name, file),
            (Err(error), _) | (_, Err(error)) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    if name == recording_cost::NAME {
        // These are not there before they are taken again.
        let later = files.file(recording_cost::STREAM_NAME).ok().cloned();
        return match files.file(name) {
            Ok(file) => {
                let mut out = recording_cost::table(file, later.as_ref()) + &source(name, file);
                if let Some(later) = later {
                    out += "\nThe rows of `--stream` were taken later, those of its hour not:\n";
                    out += &source(recording_cost::STREAM_NAME, &later);
                }
                out
            }
            Err(error) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    if rivals::TABLES.contains(&name) {
        let made = rivals::table(name, files);
        return match (made, files.file(rivals::NAME)) {
            (Ok(table), Ok(file)) => table + &source(rivals::NAME, file),
            (Err(error), _) | (_, Err(error)) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    if many_cpus::TABLES.contains(&name) {
        let made = many_cpus::table(name, files);
        return match (made, files.file(many_cpus::NAME)) {
            (Ok(table), Ok(file)) => table + &source(many_cpus::NAME, file),
            (Err(error), _) | (_, Err(error)) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    let made: Option<fn(&ResultFile) -> String> = match name {
        "kernel" => Some(document::table),
        "ostd" => Some(ostd::table),
        "recordings" => Some(recordings::table),
        heldout::NAME => Some(heldout::table),
        replay_error::NAME => Some(replay_error::table),
        vmalloc_test::NAME => Some(vmalloc_test::table),
        _ => None,
    };
    if let Some(made) = made {
        return match files.file(name) {
            Ok(file) => made(file) + &source(name, file),
            Err(error) => {
                lacking.push(error);
                String::new()
            }
        };
    }
    match FORMS.iter().find(|(known, _)| *known == name) {
        Some((_, form)) => filled(form, files, lacking),
        None => {
            lacking.push(format!("there is no table `{name}`"));
            String::new()
        }
    }
}

/// The form with its figures.
fn filled(form: &str, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut grid = None;
    for line in form.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, &mut grid) {
            ("@grid", _) => {
                let begun = FigureGrid::new(rest);
                out += &begun.head();
                grid = Some(begun);
            }
            ("@row", Some(grid)) => out += &grid.row(rest, files, lacking),
            ("@every", Some(grid)) => out += &grid.every_row(files, lacking),
            ("@source", _) => match files.file(rest) {
                Ok(file) => out += &source(rest, file),
                Err(error) => lacking.push(error),
            },
            _ => {
                out += &filled_line(line, files, lacking);
                out.push('\n');
            }
        }
    }
    out
}

/// A table with a column a variant.
struct FigureGrid {
    file: String,
    columns: Vec<(String, String)>,
    /// Whether the last column is the model's error.
    has_error: bool,
    last_case: String,
}

impl FigureGrid {
    fn new(words: &str) -> Self {
        let (file, variants) = words.split_once(": ").unwrap_or((words, ""));
        let column = |text: &str| {
            let (variant, title) = text.split_once('=').unwrap_or((text, text));
            (variant.trim().to_owned(), title.trim().to_owned())
        };
        let mut columns: Vec<_> = variants.split(',').map(column).collect();
        let has_error = columns.pop_if(|(variant, _)| variant == "error").is_some();
        Self {
            file: file.to_owned(),
            columns,
            has_error,
            last_case: String::new(),
        }
    }

    fn head(&self) -> String {
        let titles: Vec<&str> = self
            .columns
            .iter()
            .map(|(_, title)| title.as_str())
            .collect();
        let error = if self.has_error {
            " model's error |"
        } else {
            ""
        };
        let columns = self.columns.len() + usize::from(self.has_error);
        let lines = "---|".repeat(columns + 2);
        format!(
            "| case | figure | {} |{error}\n|{lines}\n",
            titles.join(" | ")
        )
    }

    fn row(&mut self, words: &str, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
        let words: Vec<&str> = words.split(',').map(str::trim).collect();
        let [case, metric, rest @ ..] = &words[..] else {
            lacking.push(format!("@row {}: expected CASE, METRIC", words.join(", ")));
            return String::new();
        };
        let title = if *case == self.last_case { "" } else { *case };
        let mut row = format!("| {title} | `{metric}` |");
        let mut found = 0;
        let mut why = String::new();
        for (variant, _) in &self.columns {
            let mut query = format!("{}, {case}, {variant}, {metric}", self.file);
            let is_published = variant.starts_with("published ");
            for word in rest
                .iter()
                .filter(|word| !is_published || !word.starts_with('~'))
            {
                let _ = write!(query, ", {word}");
            }
            // A row has a figure for some variants only.
            let text = match files.shown(&query) {
                Ok(text) => {
                    found += 1;
                    text
                }
                Err(error) => {
                    why = error;
                    NO_FIGURE.to_owned()
                }
            };
            let _ = write!(row, " {text} |");
        }
        if self.has_error {
            let query = format!("{}, {case}, calibration, error_{metric}", self.file);
            let text = files.shown(&query).unwrap_or_default();
            let _ = write!(row, " {text} |");
        }
        if found == 0 {
            lacking.push(why);
        }
        (*case).clone_into(&mut self.last_case);
        row + "\n"
    }

    fn every_row(&mut self, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
        let file = match files.file(&self.file) {
            Ok(file) => file,
            Err(error) => {
                lacking.push(error);
                return String::new();
            }
        };
        let mut cases: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in &file.rows {
            let has_column = |(variant, _): &(String, String)| *variant == row.variant;
            if !self.columns.iter().any(has_column) {
                continue;
            }
            let nth = cases.iter().position(|(case, _)| *case == row.case);
            let nth = nth.unwrap_or_else(|| {
                cases.push((&row.case, Vec::new()));
                cases.len() - 1
            });
            let metrics = &mut cases[nth].1;
            if !metrics.contains(&row.metric.as_str()) {
                metrics.push(&row.metric);
            }
        }
        let rows: Vec<String> = cases
            .iter()
            .flat_map(|(case, metrics)| metrics.iter().map(move |of| format!("{case}, {of}")))
            .collect();
        rows.iter()
            .map(|words| self.row(words, files, lacking))
            .collect()
    }
}

/// A line without what it has for variants that are not in their files.
fn present(line: &str, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, marked)) = rest.split_once("{?") {
        out += before;
        let (condition, behind) = marked.split_once('}').unwrap_or((marked, ""));
        let (name, variant) = condition.split_once(": ").unwrap_or((condition, ""));
        match files.file(name) {
            Ok(file) if file.rows.iter().any(|row| row.variant == variant) => {}
            Ok(_) => return out,
            Err(error) => lacking.push(error),
        }
        rest = behind;
    }
    out + rest
}

/// A line with its figures in the place of `{QUERY}`.
fn filled_line(line: &str, files: &mut ResultFiles, lacking: &mut Vec<String>) -> String {
    let mut out = String::new();
    // Of each contest its number, and of each part in it the value, and where its text stands.
    let mut contests: Vec<(String, f64, std::ops::Range<usize>)> = Vec::new();
    let whole = present(line, files, lacking);
    let mut rest = whole.as_str();
    while let Some((before, marked)) = rest.split_once('{') {
        let (query, after) = marked.split_once('}').unwrap_or((marked, ""));
        out += before;
        let (is_most, behind) = match query.strip_prefix('>') {
            Some(behind) => (true, Some(behind)),
            None => (false, query.strip_prefix('<')),
        };
        let (contest, query) = match behind {
            Some(behind) => match behind.split_once(' ') {
                Some((number, query)) if number.parse::<u8>().is_ok() => (Some(number), query),
                _ => (Some(""), behind),
            },
            None => (None, query),
        };
        let text = match files.shown(query) {
            Ok(text) => text,
            Err(error) => {
                lacking.push(error);
                NO_FIGURE.to_owned()
            }
        };
        let place = out.len()..out.len() + text.len();
        if let (Some(contest), Ok((_, value))) = (contest, files.figure(query)) {
            // The most is the least of what is below zero.
            let value = if is_most { -value } else { value };
            contests.push((contest.to_owned(), value, place));
        }
        out += &text;
        rest = after;
    }
    out += rest;
    let least = |contest: &str| {
        let of = contests.iter().filter(|(other, ..)| other == contest);
        of.map(|(_, value, _)| *value).fold(f64::INFINITY, f64::min)
    };
    // From the back, so that places in front stay.
    for (contest, value, place) in contests.iter().rev() {
        if *value <= least(contest) {
            out.insert_str(place.end, "**");
            out.insert_str(place.start, "**");
        }
    }
    out
}

/// How a file's figures were taken.
pub(crate) fn source(name: &str, file: &ResultFile) -> String {
    let run = &file.run;
    let commands: Vec<String> = run.commands.iter().map(|c| format!("`{c}`")).collect();
    let mut out = format!("\n{}: ", commands.join(", "));
    if file.is_timed() {
        out += &match run.runs {
            1 => "one run".to_owned(),
            runs => format!("median of {runs} runs"),
        };
    } else {
        out += "the same on every machine";
    }
    if !run.with.is_empty() {
        let _ = write!(out, ", with {}", run.with);
    }
    let _ = write!(out, ", at {} on {}", run.commit, run.date);
    if let Some(beside) = run.beside.as_ref().filter(|_| file.is_timed()) {
        let machine = &beside.machine;
        let _ = write!(
            out,
            "; {} ({} CPUs, {} MiB, {}), load {} before and {} after",
            machine.cpu,
            machine.cpus,
            machine.memory_mib,
            machine.os,
            beside.load_before,
            beside.load_after
        );
        if file.is_marked() {
            let _ = write!(
                out,
                ", **{MARK} beside other work that had {:.1} CPUs**",
                beside.foreign
            );
        }
    }
    if run.is_trial {
        let _ = write!(out, ", **{TRIAL} a trial in a small size**");
    }
    let _ = writeln!(out, " (`docs/results/{name}.jsonl`).");
    if let Some(run) = &run.linux {
        let commands = run.commands.join("`, `");
        let (with, commit, date) = (&run.with, &run.commit, &run.date);
        let _ = writeln!(
            out,
            "\nLinux by `{commands}`: two runs agree to 1 %, with {with}, at {commit} on {date}."
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::query::tests::files;

    #[test]
    fn a_form_is_filled_and_the_least_or_the_most_of_a_line_is_bold() {
        let mut lacking = Vec::new();
        let mut files = files(0.0);
        let form = "| pair | {<x, c/1, before, time} | {<x, c/1, framewright, time} |\n\
                    | other | {<1 x, c/1, before, time} | {<2 x, c/1, framewright, time} |\n\
                    | most | {>x, c/1, before, time} | {>x, c/1, framewright, time} |\n";
        let text = filled(form, &mut files, &mut lacking);
        assert_eq!(
            text,
            "| pair | 5,000 | **12.2** |\n| other | **5,000** | **12.2** |\n| most | **5,000** | 12.2 |\n"
        );
        let form = "| a |{?x: before} {x, c/1, before, time} |{?x: none} {x, c/1, none, time} |\n";
        let text = filled(form, &mut files, &mut lacking);
        assert_eq!(text, "| a | 5,000 |\n");
        let grid = "@grid x: before, framewright = ours, error\n@row c/1, count, ~before\n@row c/1, time\n";
        let text = filled(grid, &mut files, &mut lacking);
        let expected = "| case | figure | before | ours | model's error |\n|---|---|---|---|---|\n\
                        | c/1 | `count` | 10 | 12~ | 2 |\n|  | `time` | 5,000 | 12.2 |  |\n";
        assert_eq!(text, expected);
        assert!(lacking.is_empty(), "{lacking:?}");
    }

    #[test]
    fn what_a_form_lacks_is_said_and_shown_as_a_dash() {
        let mut lacking = Vec::new();
        let text = filled(
            "a {x, c/1, before, nothing} b",
            &mut files(0.0),
            &mut lacking,
        );
        assert_eq!((text.as_str(), lacking.len()), ("a - b\n", 1));
        table("no-such", &mut files(0.0), &mut lacking);
        assert!(lacking[1].contains("`no-such`"));
    }

    #[test]
    fn every_row_is_shown_once_for_the_columns_that_there_are() {
        let mut lacking = Vec::new();
        let mut shown = |form| filled(form, &mut files(0.0), &mut lacking);
        let by_hand = shown("@grid x: before\n@row c/1, time\n@row c/1, count\n");
        assert_eq!(shown("@grid x: before\n@every\n"), by_hand);
        assert_eq!(shown("@grid x: no-such\n@every\n").lines().count(), 2);
        assert!(lacking.is_empty(), "{lacking:?}");
    }

    #[test]
    fn a_source_says_when_others_had_the_cpus() {
        let mut busy = files(0.7);
        let text = source("x", busy.file("x").unwrap());
        assert!(
            text.contains("beside other work that had 0.7 CPUs"),
            "{text}"
        );
        assert!(
            text.contains("median of 3 runs, at abc on 2026-01-01; a CPU (2 CPUs"),
            "{text}"
        );
        assert!(!source("x", files(0.4).file("x").unwrap()).contains("beside"));
    }
}
