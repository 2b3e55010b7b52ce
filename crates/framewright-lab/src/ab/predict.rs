//! The prediction of what B's settings change, made from replays of A's recordings before any B has run. It is
//! written once, with its digest beside it, so that it cannot follow the result.

use super::{AB_FIGURES, AbEffect, AbError, FigureKind, RunFigures, median, now_s};
use crate::trace::TraceDigest;
use framewright_sim::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The share of changes that a range is to hold.
const SHARE: f64 = 0.9;
/// Changes that are drawn for a range.
const DRAWS: usize = 4000;

/// What replays of one recording come to under both arms' settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFigures {
    /// Under A's.
    pub a: RunFigures,
    /// Under B's.
    pub b: RunFigures,
}

/// What is said of a figure before B has run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigurePrediction {
    /// The range that the change of the median, from A's runs to B's, has with a chance of 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpredicted: Option<String>,
    /// The medians of the replays under A's settings and B's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<[f64; 2]>,
}

impl FigurePrediction {
    /// The sign of it.
    #[must_use]
    pub fn effect(&self) -> Option<AbEffect> {
        self.range.map(AbEffect::of_range)
    }
}

/// What is said of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmPrediction {
    /// Its name.
    pub arm: String,
    /// Each figure, by name.
    pub figures: BTreeMap<String, FigurePrediction>,
}

/// What is said before any B has run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbPrediction {
    /// The plan's digest.
    pub plan: String,
    /// When it was made, in seconds since 1970.
    pub made: f64,
    /// The digests of the recordings that it was made from, and of what was counted beside them.
    pub from: Vec<String>,
    /// Each B.
    pub arms: Vec<ArmPrediction>,
}

/// Predicts an arm from replays of A's recordings, and from what the machine counted while these were made.
///
/// A count changes on the machine by the factor by which it changes in a replay, a difference by as much. A range is drawn:
/// a replay, and the machine's runs with replacement, as many for A as for B. `lacks` says which settings no replay knows.
#[must_use]
pub fn predict_arm(
    arm: &str,
    models: &[ModelFigures],
    measured: &[RunFigures],
    lacks: Option<&str>,
    runs: u64,
    seed: u64,
) -> ArmPrediction {
    let figures = AB_FIGURES.iter().map(|figure| {
        let unpredicted = |why: &str| FigurePrediction {
            range: None,
            unpredicted: Some(why.to_owned()),
            model: None,
        };
        let own: Vec<f64> = (measured.iter())
            .filter_map(|run| run.get(figure.name).copied())
            .collect();
        let pairs: Vec<(f64, f64)> = (models.iter())
            .filter_map(|model| Some((*model.a.get(figure.name)?, *model.b.get(figure.name)?)))
            .collect();
        let sides: [Vec<f64>; 2] = [
            pairs.iter().map(|pair| pair.0).collect(),
            pairs.iter().map(|pair| pair.1).collect(),
        ];
        let model = [median(&sides[0]), median(&sides[1])];
        let is_blind = pairs.iter().all(|&pair| pair == (0.0, 0.0)) && median(&own) > 0.0;
        let said = match (
            figure.unpredicted.or(lacks),
            own.is_empty(),
            pairs.is_empty(),
        ) {
            (Some(why), ..) => unpredicted(why),
            (None, true, _) => unpredicted("this kernel does not count it"),
            (None, _, true) => unpredicted("no replay has it"),
            (None, ..) if is_blind && figure.kind == FigureKind::Count => {
                unpredicted("the replays have none of them, and the machine has some")
            }
            (None, ..) => FigurePrediction {
                range: Some(drawn_range(figure.kind, &pairs, &own, runs, seed)),
                unpredicted: None,
                model: Some(model),
            },
        };
        (figure.name.to_owned(), said)
    });
    ArmPrediction {
        arm: arm.to_owned(),
        figures: figures.collect(),
    }
}

fn drawn_range(
    kind: FigureKind,
    pairs: &[(f64, f64)],
    own: &[f64],
    runs: u64,
    seed: u64,
) -> [f64; 2] {
    let mut random = Random::new(seed);
    let middle = median(own);
    // Few runs lie nearer to one another than those that come.
    let widen = match own.len() {
        0 | 1 => 1.0,
        len => (len as f64 / (len - 1) as f64).sqrt(),
    };
    let one_median = |random: &mut Random| {
        let drawn: Vec<f64> = (0..runs.max(1))
            .map(|_| middle + (own[random.index(own.len())] - middle) * widen)
            .collect();
        median(&drawn)
    };
    let mut changes: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let (a, b) = pairs[random.index(pairs.len())];
            let (of_a, of_b) = (one_median(&mut random), one_median(&mut random));
            match kind {
                FigureKind::Count => (of_b * (b + 1.0) / (a + 1.0)).max(0.0) - of_a.max(0.0),
                FigureKind::Difference => of_b + (b - a) - of_a,
            }
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| changes[((DRAWS - 1) as f64 * share).round() as usize];
    let tail = (1.0 - SHARE) / 2.0;
    [at(tail), at(1.0 - tail)]
}

/// What tells a prediction's file from another: the digest of its text.
fn digest_of(text: &str) -> String {
    TraceDigest::of(text.as_bytes()).to_string()
}

impl AbPrediction {
    fn path(folder: &Path) -> PathBuf {
        folder.join("prediction.json")
    }

    /// Where the digest stands.
    fn digest_path(folder: &Path) -> PathBuf {
        folder.join("prediction.sha256")
    }

    /// A prediction that is made now.
    #[must_use]
    pub fn new(plan: &str, from: Vec<String>, arms: Vec<ArmPrediction>) -> Self {
        Self {
            plan: plan.to_owned(),
            made: now_s(),
            from,
            arms,
        }
    }

    /// Writes it with its digest, which is returned. One that is there stays: runs may have been made behind it.
    ///
    /// # Errors
    /// If there is one, or it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<String, AbError> {
        let path = Self::path(folder);
        if path.exists() {
            return Err(AbError::file(
                &path,
                "a prediction stands, and is not made again; expected a new folder for another one",
            ));
        }
        let text = serde_json::to_string_pretty(self).map_err(AbError::new)? + "\n";
        let digest = digest_of(&text);
        // The digest first: a prediction without one is none.
        for (path, text) in [
            (
                Self::digest_path(folder),
                format!("{digest}  prediction.json\n"),
            ),
            (path, text),
        ] {
            let beside = path.with_extension("part");
            let write = || {
                let mut file = File::create(&beside)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                fs::rename(&beside, &path)
            };
            write().map_err(|e: std::io::Error| AbError::file(&path, e))?;
        }
        Ok(digest)
    }

    /// Reads the prediction that stands for a plan, and its digest.
    ///
    /// # Errors
    /// If there is none, it is not the one that the digest was written for, or it is of another plan.
    pub fn read(folder: &Path, plan: &str) -> Result<(Self, String), AbError> {
        let path = Self::path(folder);
        let text = fs::read_to_string(&path).map_err(|e| {
            AbError::file(
                &path,
                format!("{e}: no prediction stands, and nothing runs before one does; framewright ab predict makes it"),
            )
        })?;
        let said_path = Self::digest_path(folder);
        let said = fs::read_to_string(&said_path).map_err(|e| AbError::file(&said_path, e))?;
        let said = said
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        let digest = digest_of(&text);
        if said != digest {
            return Err(AbError::file(
                &path,
                format!(
                    "is not what was predicted (sha256 {digest}, expected {said}): it was changed afterwards"
                ),
            ));
        }
        let prediction: Self = serde_json::from_str(&text).map_err(|e| AbError::file(&path, e))?;
        match prediction.plan == plan {
            true => Ok((prediction, digest)),
            false => Err(AbError::file(
                &path,
                "predicts another plan than the one in this folder",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(all: &[(&str, f64)]) -> RunFigures {
        all.iter().map(|&(name, n)| (name.to_owned(), n)).collect()
    }

    #[test]
    fn a_count_changes_by_the_replay_s_factor_and_a_difference_by_its_amount() {
        let models = [ModelFigures {
            a: figures(&[("external_fallbacks", 99.0), ("mixed_blocks_added", 400.0)]),
            b: figures(&[("external_fallbacks", 9.0), ("mixed_blocks_added", 350.0)]),
        }];
        let measured =
            vec![figures(&[("external_fallbacks", 1000.0), ("mixed_blocks_added", 80.0)]); 3];
        let arm = predict_arm("b", &models, &measured, None, 5, 1);
        // Runs that are all alike leave no range: 1,000 become 100, and 80 become 30.
        assert_eq!(
            arm.figures["external_fallbacks"].range,
            Some([-900.0, -900.0])
        );
        assert_eq!(
            arm.figures["external_fallbacks"].effect(),
            Some(AbEffect::Less)
        );
        assert_eq!(
            arm.figures["mixed_blocks_added"].range,
            Some([-50.0, -50.0])
        );
        assert_eq!(arm.figures["external_fallbacks"].model, Some([99.0, 9.0]));
    }

    #[test]
    fn a_range_holds_what_runs_and_replays_differ_by() {
        let model = |b: f64| ModelFigures {
            a: figures(&[("external_fallbacks", 99.0)]),
            b: figures(&[("external_fallbacks", b)]),
        };
        let measured: Vec<RunFigures> = [800.0, 1000.0, 1200.0]
            .map(|n| figures(&[("external_fallbacks", n)]))
            .into();
        let [low, high] =
            predict_arm("b", &[model(99.0)], &measured, None, 5, 1).figures["external_fallbacks"]
                .range
                .unwrap();
        // No change in the replays: what is left is chance, on both sides alike.
        assert!(
            low < -150.0 && high > 150.0 && (low + high).abs() < 60.0,
            "{low} {high}"
        );
        let wide = predict_arm("b", &[model(9.0), model(199.0)], &measured, None, 5, 1);
        let [low, high] = wide.figures["external_fallbacks"].range.unwrap();
        assert!(low < -800.0 && high > 800.0, "{low} {high}");
    }

    #[test]
    fn what_no_replay_knows_is_said() {
        let models = [ModelFigures {
            a: figures(&[("allocstall", 0.0), ("external_fallbacks", 5.0)]),
            b: figures(&[("allocstall", 0.0), ("external_fallbacks", 5.0)]),
        }];
        let measured = vec![
            figures(&[
                ("allocstall", 700.0),
                ("external_fallbacks", 5.0),
                ("pgsteal_direct", 1.0)
            ]);
            2
        ];
        let arm = predict_arm("b", &models, &measured, None, 5, 1);
        assert_eq!(arm.figures.len(), AB_FIGURES.len());
        let why = |name: &str| arm.figures[name].unpredicted.clone().unwrap_or_default();
        assert!(why("allocstall").contains("the replays have none of them"));
        assert!(why("pgsteal_direct").contains("neither reclaims nor compacts"));
        assert!(why("compact_stall").contains("does not count it"));
        assert_eq!(why("external_fallbacks"), "");
        let blind = predict_arm("b", &models, &measured, Some("no model of vm.x"), 5, 1);
        let said = |figure: &FigurePrediction| figure.range.is_none();
        assert!(blind.figures.values().all(said));
    }

    #[test]
    fn a_prediction_that_is_missing_or_was_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |plan: &str| {
            let read = AbPrediction::read(folder.path(), plan);
            read.unwrap_err().to_string()
        };
        assert!(refused("p").contains("no prediction stands"));
        let arm = predict_arm("b", &[], &[], None, 1, 1);
        let prediction = AbPrediction::new("p", vec!["r".into()], vec![arm]);
        let digest = prediction.write(folder.path()).unwrap();
        let read = AbPrediction::read(folder.path(), "p").unwrap();
        assert_eq!(read, (prediction.clone(), digest));
        assert!(refused("q").contains("predicts another plan"));
        let again = prediction.write(folder.path()).unwrap_err().to_string();
        assert!(again.contains("a prediction stands"), "{again}");
        let path = AbPrediction::path(folder.path());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"r\"", "\"s\"")).unwrap();
        assert!(refused("p").contains("it was changed afterwards"));
        fs::write(&path, text).unwrap();
        fs::remove_file(AbPrediction::digest_path(folder.path())).unwrap();
        assert!(refused("p").contains("prediction.sha256"));
    }
}
