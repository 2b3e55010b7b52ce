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

/// How a replay began: with empty lists, with lists filled from the smallest free blocks, and with lists and labels as the
/// machine had them.
const STARTS: [&str; 3] = ["empty", "smallest", "listed"];

/// On how many recordings the error became smaller and larger than with empty lists, and its medians; then what each
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
        "| error of the model | median: empty | smallest first | smaller / larger | as listed | smaller / larger |\n\
         |---|---|---|---|---|---|\n",
    );
    for (metric, title) in ERRORS {
        let of = |start| {
            cases
                .iter()
                .filter_map(move |case| value(case, start, metric))
        };
        let [empty, others @ ..] = STARTS.map(|start| of(start).collect::<Vec<f64>>());
        // Writing into a string cannot fail.
        let _ = write!(out, "| {title} | {} |", number(median(empty.clone())));
        for other in others {
            let pairs = || empty.iter().zip(&other);
            let smaller = pairs().filter(|(empty, other)| other < empty).count();
            let larger = pairs().filter(|(empty, other)| other > empty).count();
            let middle = number(median(other.clone()));
            let _ = write!(out, " {middle} | {smaller} / {larger} |");
        }
        out.push('\n');
    }
    out += "\n| recording | frames on lists | fallbacks: machine | empty | smallest first | as listed | failures of order 3: machine \
            | empty | smallest first | as listed |\n|---|---|---|---|---|---|---|---|---|---|\n";
    for case in &cases {
        let _ = write!(out, "| {case} |");
        let mut columns = vec![("linux", "frames_on_lists")];
        for metric in ["fallbacks", "failures_order3"] {
            columns.push(("linux", metric));
            columns.extend(STARTS.map(|start| (start, metric)));
        }
        for (variant, metric) in columns {
            let figure = value(case, variant, metric).map_or("-".to_owned(), number);
            let _ = write!(out, " {figure} |");
        }
        out.push('\n');
    }
    out
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
    fn errors_are_counted_and_figures_stand_by_recording() {
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
                row("a", "smallest", error, 2.0),
                row("a", "listed", error, 4.0),
                row("b", "empty", error, 8.0),
                row("b", "smallest", error, 9.0),
                row("b", "listed", error, 3.0),
                row("b", "linux", "fallbacks", 7.0),
            ],
        };
        let shown = table(&file);
        for line in [
            "| mixed pageblocks | 6 | 5.50 | 1 / 1 | 3.50 | 1 / 0 |",
            "| b | - | 7 | - | - | - | - | - | - | - |",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert_eq!(median(vec![]), 0.0);
    }
}
