//! The runs of a plan as lines of a file that only grows: a comparison that was interrupted goes on behind its last
//! whole line. Runs of another plan are refused.

use super::{AbError, RunFigures};
use crate::files::RowFile;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One run, a row of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbRun {
    /// The arm's name.
    pub arm: String,
    /// The round, which is what the seed is drawn by.
    pub round: u64,
    /// The load's seed.
    pub seed: u64,
    /// The plan's digest.
    pub plan: String,
    /// The digest of the prediction that stood before it began; none of a recorded run, which prediction is made from.
    pub prediction: Option<String>,
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// How long the load took.
    pub seconds: f64,
    /// The machine's load average of the last minute, before and after.
    pub load_before: f64,
    /// The same after.
    pub load_after: f64,
    /// What was available before the load began.
    pub free_mib: u64,
    /// What the process beside it held.
    pub held_mib: u64,
    /// What is left out or cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The figures.
    pub figures: RunFigures,
}

/// The file that runs are added to.
#[derive(Debug)]
pub struct AbRuns {
    file: RowFile,
    /// Those that are there.
    pub runs: Vec<AbRun>,
}

impl AbRuns {
    /// Opens or makes it. A row that was torn by a kill goes.
    ///
    /// # Errors
    /// If it holds something else than runs of the plan with this digest.
    pub fn open(path: &Path, plan: &str) -> Result<Self, AbError> {
        let (mut file, lines, torn) = RowFile::open(path).map_err(AbError::new)?;
        let runs = read_all(path, lines.iter().map(String::as_str), plan)?;
        if !torn.is_empty() {
            file.cut(torn.len()).map_err(AbError::new)?;
        }
        Ok(Self { file, runs })
    }

    /// Reads it.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if it is not there.
    pub fn read(path: &Path, plan: &str) -> Result<Vec<AbRun>, AbError> {
        let text = std::fs::read_to_string(path).map_err(|e| AbError::file(path, e))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        read_all(path, text[..whole].lines(), plan)
    }

    /// Whether that run is there.
    #[must_use]
    pub fn has(&self, arm: &str, round: u64) -> bool {
        self.runs
            .iter()
            .any(|run| run.arm == arm && run.round == round)
    }

    /// Adds a run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, run: AbRun) -> Result<(), AbError> {
        let line = serde_json::to_string(&run).map_err(AbError::new)?;
        self.file.add(&line).map_err(AbError::new)?;
        self.runs.push(run);
        Ok(())
    }
}

fn read_all<'l>(
    path: &Path,
    lines: impl Iterator<Item = &'l str>,
    plan: &str,
) -> Result<Vec<AbRun>, AbError> {
    let read = |(nth, line): (usize, &str)| {
        let at = |what: String| AbError::file(path, format!("line {}: {what}", nth + 1));
        let run: AbRun = serde_json::from_str(line).map_err(|e| at(e.to_string()))?;
        match run.plan == plan {
            true => Ok(run),
            false => Err(at(
                "is a run of another plan, expected a new folder for a new plan".into(),
            )),
        }
    };
    lines.enumerate().map(read).collect()
}
