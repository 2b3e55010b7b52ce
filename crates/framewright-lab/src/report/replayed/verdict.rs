//! A policy against the best of others, metric by metric.

use crate::measure::replay as m;
use crate::measure::{Better, Metric};
use crate::report::{ReportCase, ReportColumn};
use std::fmt::Write;

/// The metrics by which a policy is judged.
const JUDGED: [Metric; 12] = [
    m::CONTAMINATED_BLOCKS,
    m::MIXED_BLOCKS,
    m::UNUSABLE_INDEX.of(3),
    m::UNUSABLE_INDEX.of(9),
    m::FREE_2M_BLOCKS,
    m::FAILURES.of(2),
    m::FAILURES.of(3),
    m::FAILURES.of(4),
    m::STALL.of(0),
    m::STALL.of(2),
    m::STALL.of(3),
    m::HUGE_PROBES_SERVED,
];

/// A metric of a candidate, and the best rival's.
struct Judged<'a> {
    metric: Metric,
    value: f64,
    rival: &'a str,
    best: f64,
}

impl Judged<'_> {
    /// By how much the candidate is better, below 0 if it is worse. What cannot be told apart in the
    /// figures shown is not called a difference.
    fn gain(&self) -> f64 {
        if self.metric.shown(self.value) == self.metric.shown(self.best) {
            return 0.0;
        }
        match self.metric.better() {
            Better::Higher => self.value - self.best,
            _ => self.best - self.value,
        }
    }
}

fn judged<'a>(case: &'a ReportCase, candidate: &str, rivals: &[&str]) -> Option<Vec<Judged<'a>>> {
    let ours = case.column(candidate)?;
    let rivals: Vec<&ReportColumn> = rivals.iter().filter_map(|name| case.column(name)).collect();
    if rivals.is_empty() {
        return None;
    }
    let one = |metric| {
        let value = *ours.values.get(&metric)?;
        let (rival, best) = best(metric, &rivals)?;
        Some(Judged {
            metric,
            value,
            rival,
            best,
        })
    };
    Some(JUDGED.into_iter().filter_map(one).collect())
}

/// In how many metrics `candidate` is better than the best of `rivals`, equal to it, and worse.
///
/// `None` if the case lacks the candidate or every rival.
#[must_use]
pub fn standing(case: &ReportCase, candidate: &str, rivals: &[&str]) -> Option<[usize; 3]> {
    let all = judged(case, candidate, rivals)?;
    let count = |is: fn(f64) -> bool| all.iter().filter(|one| is(one.gain())).count();
    Some([
        count(|gain| gain > 0.0),
        count(|gain| gain == 0.0),
        count(|gain| gain < 0.0),
    ])
}

/// `candidate` against the best of `rivals`, metric by metric: better or worse, by how much, and
/// whether that is more than the calibration error.
///
/// `None` if the case lacks the candidate or every rival.
#[must_use]
pub fn verdict(case: &ReportCase, candidate: &str, rivals: &[&str]) -> Option<String> {
    let all = judged(case, candidate, rivals)?;
    let present = rivals.iter().filter(|name| case.column(name).is_some());
    let mut text = format!(
        "{candidate} against the best of {} others:\n",
        present.count()
    );
    for one in all {
        let Judged {
            metric,
            value,
            rival,
            best,
        } = one;
        let gain = one.gain();
        let tells = case
            .calibration
            .as_ref()
            .and_then(|c| c.tells_apart(metric, value, best));
        let (ours, theirs) = (metric.shown(value), metric.shown(best));
        let difference = if gain == 0.0 {
            "equal".to_owned()
        } else {
            let word = if gain > 0.0 { "better" } else { "worse" };
            let weight = match tells {
                Some(true) => ", more than the model's error",
                Some(false) => ", within the model's error",
                None => "",
            };
            format!("{word} by {}{weight}", metric.shown(gain.abs()))
        };
        let name = metric.name();
        let _ = writeln!(
            text,
            "  {name:<22} {ours:>9} against {theirs:>9} ({rival}): {difference}"
        );
    }
    Some(text)
}

fn best<'a>(metric: Metric, rivals: &[&'a ReportColumn]) -> Option<(&'a str, f64)> {
    let mut best: Option<(&str, f64)> = None;
    for rival in rivals {
        let Some(&value) = rival.values.get(&metric) else {
            continue;
        };
        let wins = best.is_none_or(|(_, so_far)| match metric.better() {
            Better::Higher => value > so_far,
            _ => value < so_far,
        });
        if wins {
            best = Some((&rival.variant, value));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Answer, Calibration, Deviation, FigureSource, LINUX, case_grid};

    fn column(variant: &str, contaminated: f64, free_2m: f64, failures: f64) -> ReportColumn {
        let values = [
            (m::CONTAMINATED_BLOCKS, contaminated),
            (m::FREE_2M_BLOCKS, free_2m),
            (m::FAILURES.of(3), failures),
        ];
        ReportColumn {
            variant: variant.into(),
            source: FigureSource::Simulated,
            values: values.into(),
        }
    }

    fn case() -> ReportCase {
        let error = |error| Deviation {
            linux: 0.0,
            model: 0.0,
            error,
        };
        let deviations = [
            (m::CONTAMINATED_BLOCKS, error(10.0)),
            (m::FREE_2M_BLOCKS, error(2.0)),
        ];
        ReportCase {
            name: "t/imposed/b0".into(),
            ops: 1,
            columns: vec![
                column(LINUX, 305.0, 7.0, 3.0),
                column("a", 300.0, 7.0, 5.0),
                column("b", 308.0, 9.5, 5.0),
                column("ours", 289.0, 9.0, 6.0),
            ],
            anomalies: Vec::new(),
            who: None,
            calibration: Some(Calibration {
                model: "a",
                samples: 1,
                deviations: deviations.into(),
            }),
            owners: None,
            settings: None,
            answer: None,
            hollow: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_metric_is_held_against_the_best_rival_and_the_error() {
        let text = verdict(&case(), "ours", &["a", "b", "absent"]).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "ours against the best of 2 others:");
        assert!(lines[1].ends_with("300.0 (a): better by 11.0, more than the model's error"));
        assert!(lines[2].ends_with("9.5 (b): worse by 0.5, within the model's error"));
        assert!(lines[3].ends_with("5 (a): worse by 1"), "{text}");
        assert_eq!(lines.len(), 4);
        assert_eq!(standing(&case(), "ours", &["a", "b"]), Some([1, 0, 2]));
        assert_eq!(verdict(&case(), "absent", &["a"]), None);
        assert_eq!(verdict(&case(), "ours", &["absent"]), None);
    }

    #[test]
    fn the_column_that_an_answer_compares_with_stands_first() {
        let mut case = case();
        case.calibration = None;
        case.columns.push(column("linux-6.12", 1.0, 1.0, 1.0));
        let titles = |case: &ReportCase| -> Vec<(String, bool)> {
            let headings = case_grid(case).headings.into_iter();
            headings.map(|one| (one.one_line(), one.is_base)).collect()
        };
        assert_eq!(titles(&case)[4], ("linux-6.12".into(), false));
        case.answer = Some(Answer {
            sentences: Vec::new(),
            headlines: Vec::new(),
            base: "linux-6.12".parse().unwrap(),
            settings_order: None,
        });
        let named: Vec<String> = titles(&case).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            named,
            ["the recorded kernel", "linux-6.12", "a", "b", "ours"]
        );
        assert!(titles(&case)[1].1, "it is left out last");
        let text = case_grid(&case).text();
        let row = text
            .lines()
            .find(|line| line.contains("contaminated_blocks"));
        let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(cells[1..3], ["305.0", "1.0"]);
    }

    #[test]
    fn the_table_marks_differences_from_the_recorded_kernel_s_rules_within_the_error() {
        let row = |model, name: &str| -> Vec<String> {
            let mut case = case();
            case.calibration.as_mut().unwrap().model = model;
            let text = case_grid(&case).text();
            let mut lines = text.lines().map(str::trim_start);
            let line = lines.find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect()
        };
        // Without a column of these rules it is the first policy's.
        for model in ["a", "absent"] {
            assert_eq!(
                row(model, "contaminated_blocks "),
                ["305.0", "300.0", "308.0~", "289.0", "10.0"]
            );
            assert_eq!(
                row(model, "free_2m_blocks "),
                ["7.0", "7.0", "9.5", "9.0~", "2.0"]
            );
            assert_eq!(row(model, "failures_order3 "), ["3", "5", "5", "6"]);
            assert_eq!(row(model, "mixed_blocks "), ["-", "-", "-", "-"]);
        }
        assert_eq!(
            row("b", "contaminated_blocks "),
            ["305.0", "300.0~", "308.0", "289.0", "10.0"]
        );
        assert_eq!(
            row("b", "free_2m_blocks "),
            ["7.0", "7.0", "9.5", "9.0~", "2.0"]
        );
    }
}
