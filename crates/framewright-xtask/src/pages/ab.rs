//! The table of predictions and of what became of them.

use super::query::number;
use crate::results::{ResultFile, ResultRow};
use std::fmt::Write;

/// The files, each with the pairs that were compared together.
pub(crate) const NAMES: [&str; 2] = ["ab", "ab-later"];

/// The figures of each pair that the page shows; the file has all.
const SHOWN: [&str; 4] = [
    "external_fallbacks",
    "mixed_blocks_added",
    "allocstall",
    "compact_stall",
];

fn of<'f>(file: &'f ResultFile, case: &str, variant: &str, metric: &str) -> Option<&'f ResultRow> {
    let mut rows = file.rows.iter();
    rows.find(|row| row.case == case && row.variant == variant && row.metric == metric)
}

fn range(row: Option<&ResultRow>) -> String {
    match row {
        None => "-".into(),
        Some(row) => format!("{} to {}", number(row.min), number(row.max)),
    }
}

/// The sums, then a line a pair and figure.
pub(crate) fn table(name: &str, file: &ResultFile) -> String {
    let sum = |name: &str| of(file, "all", "sums", name).map_or(0.0, |row| row.median);
    let percent = |part: f64, whole: f64| number((100.0 * part / whole.max(1.0)).round());
    let mut out = format!(
        "{} pairs. The effect (less, none, more) was as predicted for {} of {} predicted figures ({} %), and the change lay \
         within the predicted 90 % range for {} ({} %). With the unpredicted figures counted as missed these are {} % and {} % \
         of {}. Of {} figures with an effect, {} had a prediction, and {} the right sign.\n\n",
        number(sum("pairs")),
        number(sum("hits")),
        number(sum("predicted")),
        percent(sum("hits"), sum("predicted")),
        number(sum("in_range")),
        percent(sum("in_range"), sum("predicted")),
        percent(sum("hits"), sum("figures")),
        percent(sum("in_range"), sum("figures")),
        number(sum("figures")),
        number(sum("effects")),
        number(sum("effects_predicted")),
        number(sum("effects_hit")),
    );
    out += "| load and B | figure | under A | under B | change | predicted | as predicted |\n|---|---|---|---|---|---|---|\n";
    let mut last = "";
    for row in file.rows.iter().filter(|row| row.variant == "A") {
        let (case, metric) = (row.case.as_str(), row.metric.as_str());
        if !SHOWN.contains(&metric) {
            continue;
        }
        let is = |variant| of(file, case, variant, metric).is_some_and(|row| row.median > 0.0);
        let said = of(file, case, "predicted", metric);
        let outcome = match (said, is("hit"), is("in_range")) {
            (None, ..) => "no prediction",
            (_, true, true) => "effect and range",
            (_, true, false) => "effect",
            (_, false, true) => "range",
            (_, false, false) => "no",
        };
        let change = of(file, case, "change", metric).map_or(0.0, |row| row.median);
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | `{metric}` | {} | {} | {} | {} | {outcome} |",
            if case == last { "" } else { case },
            range(Some(row)),
            range(of(file, case, "B", metric)),
            number(change),
            range(said),
        );
        last = case;
    }
    let _ = writeln!(
        out,
        "\nRanges of at least {} runs each by turns, at {} on {} (`docs/results/{name}.jsonl`, which has every figure, and in its first line \
         the digests of the predictions and the range of the load average).",
        file.run.runs, file.run.commit, file.run.date
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::query::tests::files;
    use crate::results::RowSource;

    #[test]
    fn a_pair_s_line_says_what_became_of_its_prediction() {
        let mut files = files(0.0);
        let mut file = files.file("x").unwrap().clone();
        let row = |case: &str, variant: &str, metric: &str, values: [f64; 3]| ResultRow {
            case: case.into(),
            variant: variant.into(),
            metric: metric.into(),
            unit: String::new(),
            source: RowSource::Measured,
            median: values[0],
            min: values[1],
            max: values[2],
            n: 1,
        };
        let one = |variant: &str, values| row("files/b", variant, "allocstall", values);
        file.rows = vec![
            row("all", "sums", "predicted", [4.0; 3]),
            row("all", "sums", "hits", [3.0; 3]),
            one("A", [5.0, 2.0, 9.0]),
            one("B", [50.0, 20.0, 90.0]),
            one("change", [45.0; 3]),
            one("predicted", [35.0, 30.0, 40.0]),
            one("hit", [1.0; 3]),
            one("in_range", [0.0; 3]),
            row("files/b", "A", "pgsteal_direct", [1.0; 3]),
        ];
        let text = table("ab", &file);
        assert!(
            text.contains("for 3 of 4 predicted figures (75 %)"),
            "{text}"
        );
        assert!(
            text.contains(
                "| files/b | `allocstall` | 2 to 9 | 20 to 90 | 45 | 30 to 40 | effect |"
            ),
            "{text}"
        );
        assert!(!text.contains("pgsteal"));
    }
}
