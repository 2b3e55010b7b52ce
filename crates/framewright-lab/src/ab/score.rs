//! What a prediction was worth: the effect on a figure is less, more or none by whether the ranges of the arms
//! overlap, and each figure of an arm is held against it. Nothing here reads a file; the score is a function of the
//! prediction and the runs.

use super::{AB_FIGURES, AbEffect, AbRun, ArmPrediction, median};
use serde::{Deserialize, Serialize};

/// A figure of an arm, and what became of its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureScore {
    /// The figure.
    pub figure: String,
    /// A's runs by turns.
    pub a: Vec<f64>,
    /// B's.
    pub b: Vec<f64>,
    /// What happened.
    pub effect: AbEffect,
    /// What was said; none where it was unpredicted.
    pub predicted: Option<AbEffect>,
    /// The range of the change of the median that was said.
    pub range: Option<[f64; 2]>,
    /// The change of the median.
    pub change: f64,
    /// Whether both effects are the same.
    pub is_hit: bool,
    /// Whether the change lies in the range.
    pub is_in_range: bool,
}

/// What became of an arm's prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    /// The load.
    pub load: String,
    /// The arm.
    pub arm: String,
    /// Figures that at least one run had.
    pub figures: Vec<FigureScore>,
}

/// Scores an arm. A figure that is 0 in every run, or that the kernel does not count, has nothing to be scored.
#[must_use]
pub fn score_arm(load: &str, prediction: &ArmPrediction, runs: &[AbRun]) -> ArmScore {
    let mut figures = Vec::new();
    for figure in AB_FIGURES {
        let of = |arm: &str| -> Vec<f64> {
            let runs = runs.iter().filter(|run| run.arm == arm);
            runs.filter_map(|run| run.figures.get(figure.name).copied())
                .collect()
        };
        let (a, b) = (of("A"), of(&prediction.arm));
        if a.is_empty() || b.is_empty() || a.iter().chain(&b).all(|&value| value == 0.0) {
            continue;
        }
        let range = prediction
            .figures
            .get(figure.name)
            .and_then(|said| said.range);
        let (effect, predicted) = (AbEffect::between(&a, &b), range.map(AbEffect::of_range));
        let change = median(&b) - median(&a);
        figures.push(FigureScore {
            figure: figure.name.to_owned(),
            effect,
            predicted,
            range,
            change,
            is_hit: predicted == Some(effect),
            is_in_range: range.is_some_and(|[low, high]| (low..=high).contains(&change)),
            a,
            b,
        });
    }
    ArmScore {
        load: load.to_owned(),
        arm: prediction.arm.clone(),
        figures,
    }
}

/// The figures of several arms, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreSums {
    /// Pairs of A and a B.
    pub pairs: u64,
    /// All scored figures.
    pub figures: u64,
    /// Those that had a prediction.
    pub predicted: u64,
    /// Those whose effect was the predicted one.
    pub hits: u64,
    /// Those whose change lay in the predicted range.
    pub in_range: u64,
    /// Figures that had an effect.
    pub effects: u64,
    /// Of these, the ones that had a prediction.
    pub effects_predicted: u64,
    /// Of these, the ones whose sign was predicted.
    pub effects_hit: u64,
}

impl ScoreSums {
    /// Counts.
    #[must_use]
    pub fn of(arms: &[ArmScore]) -> Self {
        let mut sums = Self::default();
        for arm in arms {
            sums.pairs += 1;
            for figure in &arm.figures {
                let has_effect = figure.effect != AbEffect::None;
                let is_predicted = figure.predicted.is_some();
                sums.figures += 1;
                sums.predicted += u64::from(is_predicted);
                sums.hits += u64::from(figure.is_hit);
                sums.in_range += u64::from(figure.is_in_range);
                sums.effects += u64::from(has_effect);
                sums.effects_predicted += u64::from(has_effect && is_predicted);
                sums.effects_hit += u64::from(has_effect && figure.is_hit);
            }
        }
        sums
    }

    /// The line that stands first, whatever it says.
    #[must_use]
    pub fn line(&self) -> String {
        let percent = |part: u64, of: u64| match of {
            0 => "none".to_owned(),
            _ => format!("{:.0} %", 100.0 * part as f64 / of as f64),
        };
        format!(
            "{} pairs: the effect was as predicted for {} of {} predicted figures ({}), the change within the predicted 90 % \
             range for {} ({}); of all {} figures, the unpredicted ones counted as missed, {} and {}; of {} figures with an \
             effect {} had a prediction and {} the right sign",
            self.pairs,
            self.hits,
            self.predicted,
            percent(self.hits, self.predicted),
            self.in_range,
            percent(self.in_range, self.predicted),
            self.figures,
            percent(self.hits, self.figures),
            percent(self.in_range, self.figures),
            self.effects,
            self.effects_predicted,
            self.effects_hit,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FigurePrediction, RunFigures};
    use super::*;

    #[test]
    fn an_effect_is_one_where_the_ranges_do_not_overlap() {
        let between = |a: &[f64], b: &[f64]| AbEffect::between(a, b);
        assert_eq!(between(&[1.0, 2.0], &[3.0, 4.0]), AbEffect::More);
        assert_eq!(between(&[3.0, 4.0], &[1.0, 2.0]), AbEffect::Less);
        assert_eq!(between(&[1.0, 3.0], &[3.0, 4.0]), AbEffect::None);
        assert_eq!(between(&[0.0, 9.0], &[3.0, 4.0]), AbEffect::None);
        assert_eq!(AbEffect::of_range([-2.0, -1.0]), AbEffect::Less);
        assert_eq!(AbEffect::of_range([-2.0, 0.0]), AbEffect::None);
        assert_eq!(AbEffect::of_range([1.0, 5.0]), AbEffect::More);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    fn run(arm: &str, values: [f64; 4]) -> AbRun {
        let names = [
            "external_fallbacks",
            "allocstall",
            "compact_fail",
            "failures_order0",
        ];
        let figures: RunFigures = names.map(str::to_owned).into_iter().zip(values).collect();
        AbRun {
            arm: arm.into(),
            round: 0,
            seed: 0,
            plan: String::new(),
            prediction: None,
            began: 0.0,
            seconds: 1.0,
            load_before: 0.0,
            load_after: 0.0,
            free_mib: 0,
            held_mib: 0,
            notes: Vec::new(),
            figures,
        }
    }

    #[test]
    fn scores_are_counted_and_the_unpredicted_is_a_miss_of_all() {
        let said = |range: Option<[f64; 2]>| FigurePrediction {
            range,
            unpredicted: range.is_none().then(|| "no model".to_owned()),
            model: None,
        };
        let prediction = ArmPrediction {
            arm: "b".into(),
            figures: [
                ("external_fallbacks", said(Some([-100.0, -60.0]))),
                ("allocstall", said(Some([-5.0, 5.0]))),
                ("compact_fail", said(None)),
                ("failures_order0", said(Some([0.0, 0.0]))),
            ]
            .map(|(name, said)| (name.to_owned(), said))
            .into(),
        };
        let runs = [
            run("A", [100.0, 10.0, 3.0, 0.0]),
            run("A", [120.0, 20.0, 5.0, 0.0]),
            run("b", [0.0, 4000.0, 9.0, 0.0]),
            run("b", [2.0, 5000.0, 7.0, 0.0]),
        ];
        let score = score_arm("files", &prediction, &runs);
        // What is 0 everywhere is not there.
        assert_eq!(score.figures.len(), 3);
        let fallbacks = &score.figures[0];
        // The sign is right and the size is not: 110 to 1.
        assert_eq!(fallbacks.change, -109.0);
        assert!(fallbacks.is_hit && !fallbacks.is_in_range);
        let stalls = &score.figures[1];
        assert_eq!(
            (stalls.effect, stalls.predicted),
            (AbEffect::More, Some(AbEffect::None))
        );
        assert!(!stalls.is_hit && !stalls.is_in_range);
        let sums = ScoreSums::of(&[score.clone(), score]);
        let expected = ScoreSums {
            pairs: 2,
            figures: 6,
            predicted: 4,
            hits: 2,
            in_range: 0,
            effects: 6,
            effects_predicted: 4,
            effects_hit: 2,
        };
        assert_eq!(sums, expected);
        assert!(sums.line().starts_with(
            "2 pairs: the effect was as predicted for 2 of 4 predicted figures (50 %), the change within the predicted \
             90 % range for 0 (0 %); of all 6 figures, the unpredicted ones counted as missed, 33 % and 0 %"
        ));
    }
}
