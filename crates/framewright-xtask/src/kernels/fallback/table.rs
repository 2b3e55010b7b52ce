//! The page's table: every figure of the three kernels, beside the document's and the model's.

use super::build::FallbackRule;
use super::rows::ALL_SEEDS;
use crate::pages::number;
use crate::results::ResultFile;
use std::fmt::Write;

/// The stalls of which the document speaks.
const CLAIMED: &[&str] = &["allocstall_order_2", "allocstall_order_3"];

/// How two figures stand to each other.
fn direction(before: f64, proposed: f64) -> &'static str {
    match proposed.total_cmp(&before) {
        std::cmp::Ordering::Less => "less",
        std::cmp::Ordering::Equal => "equal",
        std::cmp::Ordering::Greater => "more",
    }
}

/// In how many seeds the figure is less under the proposed rule, equal, and more.
fn seeds(file: &ResultFile, metric: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for row in &file.rows {
        if row.metric != metric
            || row.case == ALL_SEEDS
            || row.variant != FallbackRule::Before.variant()
        {
            continue;
        }
        if let Some(other) = file.find(&row.case, FallbackRule::Proposed.variant(), metric) {
            let nth = match direction(row.median, other.median) {
                "less" => 0,
                "equal" => 1,
                _ => 2,
            };
            counts[nth] += 1;
        }
    }
    counts
}

/// The figures of all seeds; of the document and the model where they have that figure (`phone` is `lab fallback`'s file).
pub(crate) fn table(file: &ResultFile, phone: &ResultFile) -> String {
    let mut out = "| figure | before | proposed | as released | proposed is less, equal, more | document | model |\n\
                   |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut metrics: Vec<&str> = Vec::new();
    for row in file.rows.iter().filter(|row| row.case == ALL_SEEDS) {
        if !metrics.contains(&row.metric.as_str()) {
            metrics.push(&row.metric);
        }
    }
    for metric in &metrics {
        let shown =
            FallbackRule::ALL.map(|rule| match file.find(ALL_SEEDS, rule.variant(), metric) {
                Some(row) if row.min == row.max => number(row.median),
                Some(row) => format!(
                    "{} ({} to {})",
                    number(row.median),
                    number(row.min),
                    number(row.max)
                ),
                None => "-".to_owned(),
            });
        let [less, equal, more] = seeds(file, metric);
        let (document, model) = (pair(phone, "published ", metric), pair(phone, "", metric));
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| `{metric}` | {} | {less}, {equal}, {more} | {document} | {model} |",
            shown.join(" | ")
        );
    }
    out + &verdict(file, phone)
}

/// A figure of the phone, before and proposed, and what became of it.
fn pair(phone: &ResultFile, kind: &str, metric: &str) -> String {
    let of = |variant: &str| {
        let row = phone.find("seed/1", &format!("{kind}{variant}"), metric);
        row.map(|row| row.median)
    };
    match (of("before"), of("proposed")) {
        (Some(before), Some(proposed)) => {
            let became = direction(before, proposed);
            format!("{} to {}: {became}", number(before), number(proposed))
        }
        _ => "-".to_owned(),
    }
}

/// A figure of each seed, before and proposed.
fn by_seed(file: &ResultFile, metric: &str) -> String {
    let (before, proposed) = (FallbackRule::Before, FallbackRule::Proposed);
    let of = file.rows.iter().filter(|row| {
        row.metric == metric && row.case != ALL_SEEDS && row.variant == before.variant()
    });
    let pairs = of.filter_map(|row| {
        let other = file.find(&row.case, proposed.variant(), metric)?;
        Some(format!(
            "{} and {}",
            number(row.median),
            number(other.median)
        ))
    });
    pairs.collect::<Vec<_>>().join("; ")
}

/// What of the document's claim shows.
fn verdict(file: &ResultFile, phone: &ResultFile) -> String {
    let mut out = String::new();
    for metric in CLAIMED {
        let of = |rule: FallbackRule| {
            let row = file.find(ALL_SEEDS, rule.variant(), metric);
            row.map_or(0.0, |row| row.median)
        };
        let (before, proposed) = (of(FallbackRule::Before), of(FallbackRule::Proposed));
        let released = of(FallbackRule::Released);
        let [less, equal, more] = seeds(file, metric);
        let count = less + equal + more;
        // Writing into a string cannot fail.
        if count == 0 {
            let _ = writeln!(out, "\n`{metric}`: not measured.");
            continue;
        }
        let published = pair(phone, "published ", metric);
        // A difference that not every seed shows is none.
        let shown = match (less == count, more == count) {
            (true, _) => "shows",
            (_, true) => "is the other way round",
            _ => "does not show",
        };
        let _ = writeln!(
            out,
            "\n`{metric}`: {} before, {} proposed ({less} of {count} seeds less, {more} more), {} as released; the document \
             has {published}. The claim **{shown}** here. By seed, before and proposed: {}.",
            number(before),
            number(proposed),
            number(released),
            by_seed(file, metric)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::fallback::rows::with_sum;
    use crate::results::tests::run_record;
    use crate::results::{ResultRow, RowSource};

    fn row(seed: u64, variant: &str, metric: &str, value: f64) -> ResultRow {
        let case = format!("seed/{seed}");
        ResultRow::one(
            [&case, variant, metric],
            "requests",
            RowSource::Simulated,
            value,
        )
    }

    fn file(rows: Vec<ResultRow>) -> ResultFile {
        ResultFile {
            run: run_record(0.0),
            rows,
        }
    }

    /// Stalls of order 2 by seed under each rule.
    fn of(before: [f64; 3], proposed: [f64; 3]) -> ResultFile {
        let rows = (0..3).flat_map(|nth| {
            let row = |variant, value| row(nth as u64 + 1, variant, "allocstall_order_2", value);
            [
                row("before", before[nth]),
                row("proposed", proposed[nth]),
                row("released", 1.0),
            ]
        });
        file(with_sum(rows.collect()))
    }

    fn phone() -> ResultFile {
        let row = |variant, value| row(1, variant, "allocstall_order_2", value);
        file(vec![
            row("published before", 900.0),
            row("published proposed", 9.0),
            row("before", 4.0),
            row("proposed", 5.0),
        ])
    }

    #[test]
    fn a_figure_stands_beside_the_documents_and_the_models() {
        let text = table(&of([5.0, 7.0, 6.0], [2.0, 7.0, 8.0]), &phone());
        let expected = "| `allocstall_order_2` | 6 (5 to 7) | 7 (2 to 8) | 1 | 1, 1, 1 | 900 to 9: less | 4 to 5: more |";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_claim_that_one_seed_does_not_show_does_not_show() {
        let said = |before, proposed| table(&of(before, proposed), &phone());
        assert!(said([5.0, 7.0, 6.0], [2.0, 3.0, 4.0]).contains("(3 of 3 seeds less, 0 more)"));
        let shows = said([5.0, 7.0, 6.0], [2.0, 3.0, 4.0]);
        assert!(shows.contains(
            "The claim **shows** here. By seed, before and proposed: 5 and 2; 7 and 3; 6 and 4."
        ));
        assert!(
            said([5.0, 7.0, 6.0], [2.0, 7.0, 4.0]).contains("The claim **does not show** here.")
        );
        assert!(
            said([5.0, 7.0, 6.0], [6.0, 8.0, 9.0])
                .contains("The claim **is the other way round** here.")
        );
        assert!(
            said([5.0, 7.0, 6.0], [2.0, 3.0, 4.0]).contains("`allocstall_order_3`: not measured.")
        );
    }
}
