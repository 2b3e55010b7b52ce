//! The table of two recordings under each policy: the engine's against the best of five of Linux.

use super::query::number;
use crate::results::{ResultFile, ResultRow};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) const OURS: &str = "concentrated";

pub(crate) const RIVALS: [&str; 5] = [
    "linux-4.4",
    "proposal",
    "linux-4.13",
    "linux-6.12",
    "linux-6.12-nofragment",
];

/// Metrics by which a policy is judged, their title, and whether less is better.
pub(crate) const JUDGED: [(&str, &str, bool); 8] = [
    ("contaminated_blocks", "contaminated", true),
    ("mixed_blocks", "mixed", true),
    ("unusable_index_order3", "U_3", true),
    ("unusable_index_order9", "U_9", true),
    ("free_2m_blocks", "free 2 MiB", false),
    ("failures_order2", "f2", true),
    ("failures_order3", "f3", true),
    ("failures_order4", "f4", true),
];

/// In how many figures the engine's policy is better than each of the others, worse than one of them, or neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PolicyStanding {
    pub(crate) better: u64,
    pub(crate) equal: u64,
    pub(crate) worse: u64,
}

impl ResultRow {
    /// How it compares with a rival's figure: `Greater` is better. Neither what cannot be told apart in the figures shown is
    /// a difference, nor what another order of the same operations turns round.
    fn against(&self, rival: &Self, is_less_better: bool) -> Ordering {
        if number(self.median) == number(rival.median) || self.overlaps(rival) {
            Ordering::Equal
        } else if (self.median < rival.median) == is_less_better {
            Ordering::Greater
        } else {
            Ordering::Less
        }
    }
}

impl PolicyStanding {
    /// Of one case.
    pub(crate) fn of(file: &ResultFile, case: &str, rivals: &[&str]) -> Self {
        let mut standing = Self::default();
        for (metric, _, is_less_better) in JUDGED {
            let Some(ours) = file.find(case, OURS, metric) else {
                continue;
            };
            let rivals = rivals
                .iter()
                .filter_map(|rival| file.find(case, rival, metric));
            // One rival that is surely better is enough to be worse; to be better is to be so than each.
            let least = rivals
                .map(|rival| ours.against(rival, is_less_better))
                .min();
            match least {
                Some(Ordering::Less) => standing.worse += 1,
                Some(Ordering::Equal) => standing.equal += 1,
                Some(Ordering::Greater) => standing.better += 1,
                None => {}
            }
        }
        standing
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.better += other.better;
        self.equal += other.equal;
        self.worse += other.worse;
    }

    /// Whether it is worse in nothing and better in something.
    pub(crate) const fn dominates(self) -> bool {
        self.worse == 0 && self.better > 0
    }
}

/// A case's figures: the engine's and the best of `rivals`, by metric.
fn judged(file: &ResultFile, case: &str, rivals: &[&str]) -> Vec<Option<(f64, f64)>> {
    let one = |(metric, _, is_less_better): (&str, &str, bool)| {
        let ours = file.find(case, OURS, metric)?.median;
        let all = rivals
            .iter()
            .filter_map(|rival| file.find(case, rival, metric));
        let all = all.map(|row| row.median);
        let best = if is_less_better {
            all.reduce(f64::min)
        } else {
            all.reduce(f64::max)
        };
        Some((ours, best?))
    };
    JUDGED.map(one).into()
}

pub(crate) fn cases(file: &ResultFile) -> BTreeSet<&str> {
    file.rows.iter().map(|row| row.case.as_str()).collect()
}

pub(crate) fn standing(file: &ResultFile) -> PolicyStanding {
    let mut standing = PolicyStanding::default();
    for case in cases(file) {
        standing.add(PolicyStanding::of(file, case, &RIVALS));
    }
    standing
}

pub(crate) fn table(file: &ResultFile) -> String {
    let titles: Vec<&str> = JUDGED.iter().map(|(_, title, _)| *title).collect();
    let mut out = format!(
        "| case | | {} |\n|{}\n",
        titles.join(" | "),
        "---|".repeat(10)
    );
    for case in cases(file) {
        let all = judged(file, case, &RIVALS);
        let cells = |of: fn((f64, f64)) -> f64| {
            let text = |one: &Option<(f64, f64)>| one.map_or("-".to_owned(), |one| number(of(one)));
            all.iter().map(text).collect::<Vec<_>>().join(" | ")
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {case} | best of five | {} |",
            cells(|(_, best)| best)
        );
        let _ = writeln!(out, "| | **{OURS}** | {} |", cells(|(ours, _)| ours));
    }
    let PolicyStanding {
        better,
        equal,
        worse,
    } = standing(file);
    let all = better + equal + worse;
    let _ = writeln!(
        out,
        "\nOf {all} comparisons {better} are better, {equal} equal, {worse} worse."
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;
    use crate::results::{ResultRow, RowSource};

    #[test]
    fn the_engine_is_held_against_the_best_other() {
        let row = |variant: &str, metric: &str, value: f64| {
            let names = ["a/fresh/b0", variant, metric];
            ResultRow::one(names, "", RowSource::Simulated, value)
        };
        let rows = vec![
            row(OURS, "mixed_blocks", 3.0),
            row("linux-4.4", "mixed_blocks", 5.0),
            row("proposal", "mixed_blocks", 4.0),
            row("no-grouping", "mixed_blocks", 1.0),
            row(OURS, "free_2m_blocks", 3.0),
            row("proposal", "free_2m_blocks", 9.0),
            row(OURS, "failures_order3", 0.0),
            row("proposal", "failures_order3", 0.0),
        ];
        let file = ResultFile {
            run: run_record(0.0),
            rows,
        };
        let expected = PolicyStanding {
            better: 1,
            equal: 1,
            worse: 1,
        };
        assert_eq!(standing(&file), expected);
        let text = table(&file);
        assert!(
            text.contains("| a/fresh/b0 | best of five | - | 4 | - | - | 9 | - | 0 | - |"),
            "{text}"
        );
        assert!(text.contains("| | **concentrated** | - | 3 |"), "{text}");
    }
}
