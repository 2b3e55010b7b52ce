//! A/B against the kernel of this machine, predicted before it runs.
//!
//! ```text
//!   plan ─▶ runs under A, recorded ─▶ prediction of each B, with its digest ─▶ runs under A and B by turns ─▶ scores
//!              recordings/ recorded.jsonl        prediction.json                        runs.jsonl           score.jsonl
//! ```
//!
//! One folder has all of it, and a stage that was stopped goes on where it was. What a prediction is worth depends on
//! its being older than what it speaks of: runs by turns do not begin without one, each of their rows carries its digest,
//! and a score is refused where the digest is another one or a row is older.
//!
//! # What happens to the machine
//! [`HeldSettings`] writes down what the machine has before it changes anything, in the run's folder, and puts it back when
//! it is dropped. After a kill the next run does, whatever folder it is in.

mod effect;
mod figures;
mod hog;
mod load;
mod machine;
mod plan;
mod predict;
mod rows;
mod runner;
mod score;
mod setting;

pub use effect::{AbEffect, median};
pub use figures::{AB_FIGURES, AbFigure, FigureKind, RunFigures};
pub use hog::serve_hog;
pub use load::{AbLoad, LOADS};
pub use plan::{AbArm, AbChoices, AbPlan};
pub use predict::{AbPrediction, ArmPrediction, FigurePrediction, ModelFigures, predict_arm};
pub use rows::{AbRun, AbRuns};
pub use runner::AbRunner;
pub use score::{ArmScore, FigureScore, ScoreSums, score_arm};
pub use setting::{HeldSettings, HostSetting, SettingValues, SettingsRoot};

use std::fmt;

/// Why a stage ended before it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbError(String);

impl AbError {
    /// With what is wrong and what was expected.
    pub fn new(cause: impl fmt::Display) -> Self {
        Self(cause.to_string())
    }

    fn file(path: &std::path::Path, cause: impl fmt::Display) -> Self {
        Self(format!("{}: {cause}", crate::printable::path(path)))
    }
}

impl fmt::Display for AbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AbError {}

/// Seconds since 1970.
fn now_s() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}
