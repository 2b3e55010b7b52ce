//! Predictions and scores as text and as rows.

use crate::ab::{AB_FIGURES, AbPlan, AbPrediction, AbRun, ArmScore, FigureScore, ScoreSums};
use crate::cmd::conduct::CommandError;
use serde_json::json;
use std::fmt::Write;

/// All that is known of a folder.
pub(super) struct ScoredFolder {
    pub(super) plan: AbPlan,
    pub(super) prediction: AbPrediction,
    pub(super) digest: String,
    pub(super) runs: Vec<AbRun>,
    pub(super) scores: Vec<ArmScore>,
}

fn number(value: f64) -> String {
    format!("{value:.0}")
}

fn signed(value: f64) -> String {
    format!("{value:+.0}")
}

/// What is said before B runs.
pub(super) fn prediction(load: &str, prediction: &AbPrediction, digest: &str) -> String {
    let mut text = format!("prediction, sha256 {digest}\n");
    for arm in &prediction.arms {
        let _ = writeln!(text, "\n{load}, {}: the change of the median", arm.arm);
        for figure in AB_FIGURES {
            let Some(said) = arm.figures.get(figure.name) else {
                continue;
            };
            let line = match (said.effect(), said.range, &said.unpredicted) {
                (Some(effect), Some([low, high]), _) => {
                    format!("{} {} to {}", effect.sign(), signed(low), signed(high))
                }
                (_, _, why) => format!("unpredicted: {}", why.as_deref().unwrap_or_default()),
            };
            let _ = writeln!(text, "  {:<26} {line}", figure.name);
        }
    }
    text
}

fn cell(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", number(least), number(most))
}

fn line(figure: &FigureScore) -> [String; 5] {
    let said = match (figure.predicted, figure.range) {
        (Some(effect), Some([low, high])) => {
            format!("{} {} to {}", effect.sign(), signed(low), signed(high))
        }
        _ => "unpredicted".to_owned(),
    };
    let mark = |is: bool| if is { "yes" } else { "no" };
    [
        cell(&figure.a),
        cell(&figure.b),
        format!("{} {}", figure.effect.sign(), signed(figure.change)),
        said,
        format!("{}/{}", mark(figure.is_hit), mark(figure.is_in_range)),
    ]
}

/// The table, with the sums in its first line.
pub(super) fn table(scored: &[ScoredFolder]) -> String {
    let all: Vec<ArmScore> = scored.iter().flat_map(|one| one.scores.clone()).collect();
    let mut text = ScoreSums::of(&all).line() + "\n";
    for one in scored {
        let loads: Vec<f64> = one.runs.iter().map(|run| run.load_before).collect();
        for score in &one.scores {
            let _ = writeln!(
                text,
                "\n{}, {}, {} MiB beside the load, {} s, load average {:.2} to {:.2}, prediction sha256 {}",
                score.load,
                score.arm,
                one.plan.free_mib,
                one.plan.seconds,
                loads.iter().copied().fold(f64::INFINITY, f64::min),
                loads.iter().copied().fold(0.0, f64::max),
                one.digest
            );
            let head = ["A", "B", "effect, change", "predicted", "hit/in range"].map(str::to_owned);
            let rows = std::iter::once(("figure", head)).chain(
                score
                    .figures
                    .iter()
                    .map(|figure| (figure.figure.as_str(), line(figure))),
            );
            for (name, [a, b, effect, said, hit]) in rows {
                let _ = writeln!(
                    text,
                    "  {name:<26} {a:<22} {b:<22} {effect:<16} {said:<28} {hit}"
                );
            }
        }
    }
    text
}

/// The same as JSON Lines: how they were taken, with the sums; then a row for each figure of each arm, as median and range.
pub(super) fn lines(scored: &[ScoredFolder]) -> Result<String, CommandError> {
    let all: Vec<ArmScore> = scored.iter().flat_map(|one| one.scores.clone()).collect();
    let sums = ScoreSums::of(&all);
    let runs = || scored.iter().flat_map(|one| &one.runs);
    let loads: Vec<f64> = runs()
        .flat_map(|run| [run.load_before, run.load_after])
        .collect();
    let figures = all.iter().flat_map(|score| &score.figures);
    // A stage that was stopped has fewer than its plan.
    let fewest = figures
        .map(|figure| figure.a.len().min(figure.b.len()))
        .min();
    let latest = runs().map(|run| run.began).fold(0.0, f64::max);
    let predictions: Vec<_> = scored
        .iter()
        .map(|one| {
            json!({
                "load": one.plan.load,
                "sha256": one.digest,
                "made": one.prediction.made,
                "first_run": one.runs.iter().map(|run| run.began).fold(f64::INFINITY, f64::min),
                // The digest of the recording and of the row of each.
                "recorded_runs": one.prediction.from.len() / 2,
                "kernel": one.plan.kernel,
                "machine_mib": one.plan.machine_mib,
                "free_mib": one.plan.free_mib,
                "seconds": one.plan.seconds,
                "a": one.plan.arms[0].settings.to_string(),
            })
        })
        .collect();
    let mut rows = vec![json!({
        "says": sums.line(),
        "commands": ["framewright ab all FOLDER", "framewright ab compare FOLDER --json FILE"],
        "commit": env!("FRAMEWRIGHT_COMMIT"),
        "date": date_of(latest),
        "runs": fewest.unwrap_or(0),
        "load_average": [
            loads.iter().copied().fold(f64::INFINITY, f64::min),
            loads.iter().copied().fold(0.0, f64::max),
        ],
        "predictions": predictions,
    })];
    for (metric, value) in [
        ("pairs", sums.pairs),
        ("figures", sums.figures),
        ("predicted", sums.predicted),
        ("hits", sums.hits),
        ("in_range", sums.in_range),
        ("effects", sums.effects),
        ("effects_predicted", sums.effects_predicted),
        ("effects_hit", sums.effects_hit),
    ] {
        rows.push(row(
            "all",
            "sums",
            metric,
            "",
            "simulated",
            [value as f64; 3],
            1,
        ));
    }
    for score in &all {
        let case = format!("{}/{}", score.load, score.arm);
        for figure in &score.figures {
            let unit = AB_FIGURES.iter().find(|one| one.name == figure.figure);
            let unit = unit.map_or("", |one| one.unit);
            let name = figure.figure.as_str();
            let mut add = |variant: &str, source: &str, values: [f64; 3], n: usize| {
                rows.push(row(&case, variant, name, unit, source, values, n));
            };
            for (variant, values) in [("A", &figure.a), ("B", &figure.b)] {
                add(variant, "measured", figure_range(values), values.len());
            }
            add("change", "measured", [figure.change; 3], 1);
            if let Some([low, high]) = figure.range {
                add(
                    "predicted",
                    "simulated",
                    [f64::midpoint(low, high), low, high],
                    1,
                );
                add(
                    "hit",
                    "simulated",
                    [f64::from(u8::from(figure.is_hit)); 3],
                    1,
                );
                let is_in_range = f64::from(u8::from(figure.is_in_range));
                add("in_range", "simulated", [is_in_range; 3], 1);
            }
        }
    }
    let lines = rows.iter().map(serde_json::to_string);
    let lines = lines
        .collect::<Result<Vec<_>, _>>()
        .map_err(CommandError::input)?;
    Ok(lines.join("\n") + "\n")
}

fn row(
    case: &str,
    variant: &str,
    metric: &str,
    unit: &str,
    source: &str,
    [median, min, max]: [f64; 3],
    n: usize,
) -> serde_json::Value {
    json!({
        "case": case, "variant": variant, "metric": metric, "unit": unit, "source": source,
        "median": median, "min": min, "max": max, "n": n,
    })
}

/// Median, least and most.
fn figure_range(values: &[f64]) -> [f64; 3] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [crate::ab::median(values), least, most]
}

/// The day of this many seconds since 1970, as year, month and day (UTC).
fn date_of(seconds: f64) -> String {
    let mut days = (seconds / 86_400.0) as u64;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_days() {
        for (seconds, day) in [
            (0.0, "1970-01-01"),
            (951_782_399.0, "2000-02-28"),
            (951_782_400.0, "2000-02-29"),
            (1_735_689_599.0, "2024-12-31"),
            (1_735_689_600.0, "2025-01-01"),
        ] {
            assert_eq!(date_of(seconds), day);
        }
    }
}
