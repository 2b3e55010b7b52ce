//! `docs/metrics.md`: its tables are made from the tables of metrics.
//!
//! A line `<!-- metrics: TABLE, PART -->` stands above each; what is between it and `<!-- end -->` is replaced.

use crate::measure::{Better, Metric, MetricRow, MetricTable, replay, who};
use std::fmt::Write;

const BEGIN: &str = "<!-- metrics: ";
const END: &str = "<!-- end -->\n";

/// Every table there is.
#[must_use]
pub fn metric_tables() -> Vec<MetricTable> {
    let mut tables = vec![replay::TABLE, who::TABLE];
    #[cfg(all(target_os = "linux", feature = "experiments"))]
    tables.extend(crate::experiment::metric_tables());
    tables
}

/// The page with its tables made anew.
///
/// # Errors
/// If a marker names no table, has no end, or a part of a table has no marker.
pub fn metrics_page(page: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = page;
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for (name, rows) in metric_tables() {
        parts.extend(rows.iter().map(|row| (name, row.part)));
    }
    while let Some(at) = rest.find(BEGIN) {
        let (before, marked) = rest.split_at(at);
        let (marker, behind) = marked
            .split_once('\n')
            .ok_or("a marker has no line behind it")?;
        let of = marker[BEGIN.len()..]
            .trim_end_matches(" -->")
            .split_once(", ");
        let (_, after) = behind
            .split_once(END)
            .ok_or_else(|| format!("{marker} has no end"))?;
        let rows = of.map_or_else(Vec::new, rows_of);
        if rows.is_empty() {
            return Err(format!("{marker} names no part of a table"));
        }
        parts.retain(|part| Some(*part) != of);
        text += before;
        let _ = write!(text, "{marker}\n{}{END}", table(&rows));
        rest = after;
    }
    match parts.first() {
        Some((table, part)) => Err(format!("nothing shows {table}, {part}")),
        None => Ok(text + rest),
    }
}

fn rows_of((table, part): (&str, &str)) -> Vec<&'static MetricRow> {
    let tables = metric_tables()
        .into_iter()
        .filter(|(name, _)| *name == table);
    let rows = tables.flat_map(|(_, rows)| rows);
    rows.filter(|row| row.part == part).collect()
}

fn table(rows: &[&'static MetricRow]) -> String {
    let mut text = String::from("| metric | unit | what it is | better |\n|---|---|---|---|\n");
    for &row in rows {
        let better = match row.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "-",
        };
        let (unit, definition) = (row.unit, row.definition);
        let _ = writeln!(
            text,
            "| {} | {unit} | {definition} | {better} |",
            named(row)
        );
    }
    text
}

/// A family's name, and what its capitals stand for.
fn named(row: &'static MetricRow) -> String {
    let mut text = format!("`{}`", Metric::new(0, row).name());
    for axis in row.axes {
        let names = &axis.names[usize::from(axis.first)..];
        let numbers = names.iter().all(|name| name.parse::<u8>().is_ok());
        let _ = match names {
            [first, .., last] if numbers => write!(text, ", {} = {first}..{last}", axis.word),
            _ => write!(text, ", {}: {}", axis.word, names.join(", ")),
        };
    }
    text
}
