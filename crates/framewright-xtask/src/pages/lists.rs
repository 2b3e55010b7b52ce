//! What it changes in a replay's error that CPUs' lists begin filled, over all recordings and by recording.

use super::query::number;
use crate::results::ResultFile;
use std::fmt::Write;

pub(crate) const NAME: &str = "percpu-lists";

/// Errors of the model, and their titles.
const ERRORS: [(&str, &str); 10] = [
    ("error_unusable_index_order3", "unusable index of order 3"),
    ("error_unusable_index_order9", "unusable index of order 9"),
    ("error_free_2m_blocks", "free blocks of 2 MiB"),
    ("error_contaminated_blocks", "contaminated pageblocks"),
    ("error_mixed_blocks", "mixed pageblocks"),
    ("error_failures_order0", "failures of order 0"),
    ("error_failures_order1", "failures of order 1"),
    ("error_failures_order2", "failures of order 2"),
    ("error_failures_order3", "failures of order 3"),
    ("error_failures_order4", "failures of order 4"),
];

/// Recordings that were looked at while this was made, and those that were not.
const GROUPS: [(&str, bool); 2] = [("seen", false), ("not seen", true)];

/// On how many recordings the error became smaller and larger, and its medians; then what each recording shows.
pub(crate) fn table(file: &ResultFile) -> String {
    let value = |case: &str, variant: &str, metric: &str| {
        let mut rows = file.rows.iter();
        let found =
            rows.find(|row| row.case == case && row.variant == variant && row.metric == metric);
        found.map(|row| row.median)
    };
    let mut cases: Vec<&str> = file.rows.iter().map(|row| &*row.case).collect();
    cases.dedup();
    let mut out = String::from("| error of the model |");
    for (title, is_later) in GROUPS {
        let of_group = cases.iter().filter(|case| is_unseen(case) == is_later);
        // Writing into a string cannot fail.
        let _ = write!(out, " {} {title} | median |", of_group.count());
    }
    out += "\n|---|---|---|---|---|\n";
    for (metric, title) in ERRORS {
        let _ = write!(out, "| {title} |");
        for (_, is_later) in GROUPS {
            let of_group = cases.iter().filter(|case| is_unseen(case) == is_later);
            let both = of_group.filter_map(|case| {
                Some((
                    value(case, "empty", metric)?,
                    value(case, "filled", metric)?,
                ))
            });
            let (empty, filled): (Vec<f64>, Vec<f64>) = both.unzip();
            let pairs = || empty.iter().zip(&filled);
            let smaller = pairs().filter(|(empty, filled)| filled < empty).count();
            let larger = pairs().filter(|(empty, filled)| filled > empty).count();
            let _ = write!(
                out,
                " {smaller} / {larger} | {}, {} |",
                number(median(empty)),
                number(median(filled))
            );
        }
        out.push('\n');
    }
    out += "\n| recording | frames on lists | fallbacks: machine | empty | filled | failures of order 3: machine | empty | filled |\n\
            |---|---|---|---|---|---|---|---|\n";
    for case in &cases {
        let _ = write!(out, "| {case} |");
        let columns = [("linux", "frames_on_lists")].into_iter().chain(
            ["fallbacks", "failures_order3"]
                .into_iter()
                .flat_map(|metric| ["linux", "empty", "filled"].map(|variant| (variant, metric))),
        );
        for (variant, metric) in columns {
            let figure = value(case, variant, metric).map_or("-".to_owned(), number);
            let _ = write!(out, " {figure} |");
        }
        out.push('\n');
    }
    out
}

/// Whether it was made after the choices that this shows.
fn is_unseen(case: &str) -> bool {
    case.starts_with("later")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;
    use crate::results::{ResultRow, RowSource};

    #[test]
    fn errors_are_counted_by_group_and_figures_stand_by_recording() {
        let row = |case: &str, variant: &str, metric: &str, median| ResultRow {
            case: case.into(),
            variant: variant.into(),
            metric: metric.into(),
            unit: String::new(),
            source: RowSource::Simulated,
            median,
            min: median,
            max: median,
            n: 1,
        };
        let error = "error_mixed_blocks";
        let file = ResultFile {
            run: run_record(0.0),
            rows: vec![
                row("a", "empty", error, 4.0),
                row("a", "filled", error, 2.0),
                row("b", "empty", error, 8.0),
                row("b", "filled", error, 9.0),
                row("later-a", "empty", error, 3.0),
                row("later-a", "filled", error, 3.0),
                row("later-a", "linux", "fallbacks", 7.0),
            ],
        };
        let shown = table(&file);
        for line in [
            "| error of the model | 2 seen | median | 1 not seen | median |",
            "| mixed pageblocks | 1 / 1 | 6, 5.50 | 0 / 0 | 3, 3 |",
            "| later-a | - | 7 | - | - | - | - | - |",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert_eq!(median(vec![]), 0.0);
    }
}
