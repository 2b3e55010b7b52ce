use super::{Case, Column, number::shown};
use crate::measure::{Better, Metric};
use std::fmt::Write;

/// The metrics by which a policy is judged.
const JUDGED: [Metric; 8] = [
    Metric::ContaminatedBlocks,
    Metric::MixedBlocks,
    Metric::UnusableIndex(3),
    Metric::UnusableIndex(9),
    Metric::Free2mBlocks,
    Metric::Failures(2),
    Metric::Failures(3),
    Metric::Failures(4),
];

/// `candidate` against the best of `rivals`, metric by metric: better or worse, by how much, and
/// whether that is more than the calibration error.
///
/// `None` if the case lacks the candidate or every rival.
#[must_use]
pub fn verdict(case: &Case, candidate: &str, rivals: &[&str]) -> Option<String> {
    let ours = case.column(candidate)?;
    let rivals: Vec<&Column> = rivals.iter().filter_map(|name| case.column(name)).collect();
    if rivals.is_empty() {
        return None;
    }
    let mut text = format!("{candidate} against the best of {} others:\n", rivals.len());
    for metric in JUDGED {
        let Some(&value) = ours.values.get(&metric) else {
            continue;
        };
        let Some((rival, best)) = best(metric, &rivals) else {
            continue;
        };
        let gain = match metric.better() {
            Better::Higher => value - best,
            _ => best - value,
        };
        let tells = case
            .calibration
            .as_ref()
            .and_then(|c| c.tells_apart(metric, value, best));
        let (ours, theirs) = (shown(metric, value), shown(metric, best));
        // What cannot be told apart in the figures shown is not called a difference.
        let difference = if ours == theirs {
            "equal".to_owned()
        } else {
            let word = if gain > 0.0 { "better" } else { "worse" };
            let weight = match tells {
                Some(true) => ", more than the model's error",
                Some(false) => ", within the model's error",
                None => "",
            };
            format!("{word} by {}{weight}", shown(metric, gain.abs()))
        };
        let name = metric.name();
        let _ = writeln!(
            text,
            "  {name:<22} {ours:>9} against {theirs:>9} ({rival}): {difference}"
        );
    }
    Some(text)
}

fn best<'a>(metric: Metric, rivals: &[&'a Column]) -> Option<(&'a str, f64)> {
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
