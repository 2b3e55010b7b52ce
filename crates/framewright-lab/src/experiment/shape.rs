//! The one shape of an experiment: what the runner asks of each. It names no experiment, so that each can be read, and
//! tested, without the list of all.

use super::ranges::Null;
use super::{Failure, Progress};
use crate::measure::MetricTable;
use crate::report::{
    Distribution, Figure, FigureAssertion, Item, OverTime, Size, Tabled, VerdictCard,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much a table shows; JSON has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What the main job shows in its quick form.
    Short,
    /// All that fits a screen.
    Full,
}

/// Where a command writes, and what it demands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outputs<'a> {
    /// Figures as JSON Lines.
    pub json: Option<&'a Path>,
    /// A series over time.
    pub csv: Option<&'a Path>,
    /// What must hold in every case.
    pub assertions: &'a [FigureAssertion],
}

/// An experiment; its values are plans.
pub trait Experiment: Sized {
    /// Its name in figures and in addresses on the page.
    const NAME: &'static str;
    /// The question that it answers.
    const TITLE: &'static str;
    /// What is done, broken where a terminal breaks it.
    const INTRODUCTION: &'static str;
    /// How each kind of figure is taken.
    const METHOD: &'static str;
    /// What is measured.
    const METRICS: MetricTable;

    /// Its options on the command line; their comment is what `--help` says of the experiment.
    type Args: clap::Args;

    /// Where a command writes.
    fn outputs(args: &Self::Args) -> Outputs<'_>;

    /// What a command reads, files and folders: none of its outputs may be among it.
    fn inputs(_args: &Self::Args) -> Vec<&Path> {
        Vec::new()
    }

    /// The plan that a command asks for.
    ///
    /// # Errors
    /// What is wrong with the options.
    fn asked(args: &Self::Args) -> Result<Self, String>;

    /// The plans of the main job, each with tables of its own.
    fn sized(size: Size) -> Vec<Self>;

    /// Whether this machine has what the experiment needs.
    ///
    /// # Errors
    /// What it lacks.
    fn available() -> Result<(), Failure> {
        available()
    }

    /// How many steps of progress a run has.
    fn steps(&self) -> u64;

    /// Runs the plan.
    ///
    /// # Errors
    /// If the machine does not give what is needed, or a request fails that must not.
    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure>;

    /// Of the random numbers.
    fn seed(&self) -> u64;

    /// The plan as a record has it.
    fn described(&self) -> BTreeMap<&'static str, String>;

    /// The tables, and what a reader must know of them.
    fn tables(&self, figures: &[Figure], detail: Detail) -> Vec<Tabled>;

    /// The plots of a page.
    fn plots(&self, findings: &Findings) -> Vec<Item>;

    /// What was reproduced, by how much it differs, and why: a line each.
    fn verdict(&self, figures: &[Figure]) -> Vec<String>;

    /// The verdict that a page shows first; none where its case was not run.
    fn card(&self, findings: &Findings) -> Option<VerdictCard>;
}

/// Writes figures: every experiment can.
#[derive(Debug, clap::Args)]
pub struct JsonArgs {
    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What an experiment found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The figures.
    pub figures: Vec<Figure>,
    /// How long calls took, of those whose calls were timed one by one.
    pub latencies: Vec<Distribution>,
    /// What happened over time.
    pub courses: Vec<OverTime>,
    /// The same as CSV, where that was asked for.
    pub series: String,
}

impl Findings {
    /// Takes the other's in.
    pub fn add(&mut self, other: Self) {
        self.figures.extend(other.figures);
        self.latencies.extend(other.latencies);
        self.courses.extend(other.courses);
        self.series += &other.series;
    }
}

impl From<Vec<Figure>> for Findings {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            ..Self::default()
        }
    }
}

/// Whether the machine has what every experiment needs.
///
/// # Errors
/// What it lacks: the barrier on all threads that the engine's frequent paths are compiled for.
pub fn available() -> Result<(), Failure> {
    Null::new().map(drop)
}
