//! What is the same for every experiment: as a command, and as a section of the main job.

use super::conduct::{CommandError, with_progress};
use super::places::claim_output;
use crate::experiment::{Detail, Experiment, Findings, Progress, Size, all_experiments};
use crate::files::{FileClaims, OutputSet, is_stdout};
use crate::report::{
    Figure, Item, MachineRecord, RunInfo, Section, Tabled, figure_lines, measured_cases,
};
use std::path::Path;

/// Runs the plan that a command asks for, and writes what it found.
///
/// # Errors
/// If the options are wrong, the machine does not give what is needed, an output cannot be written, or an assertion
/// does not hold.
pub(super) fn command<E: Experiment>(args: &E::Args) -> Result<(), CommandError> {
    let to = E::outputs(args);
    let to_stdout = |path: Option<&Path>| path.is_some_and(is_stdout);
    let mut claims = FileClaims::new();
    for path in E::inputs(args) {
        match path.is_dir() {
            true => claims.reads_folder(path),
            false => claims.reads(path).map_err(CommandError::input)?,
        }
    }
    for (option, path) in [("--json", to.json), ("--csv", to.csv)] {
        let Some(path) = path else { continue };
        claim_output(&mut claims, option, path)?;
    }
    let plan = E::asked(args).map_err(CommandError::Input)?;
    let Findings {
        figures, series, ..
    } = found(&plan)?;
    let mut unheld = Vec::new();
    for assertion in to.assertions {
        for case in measured_cases(&figures) {
            let held = assertion.check(case, &figures);
            let held = held.map_err(CommandError::input)?;
            if !held.held {
                unheld.push(held.figures);
            }
        }
    }
    let mut outputs = OutputSet::new();
    let mut write = |path: &Path, bytes| outputs.write(path, bytes).map_err(CommandError::input);
    if let Some(path) = to.csv {
        write(path, series.into_bytes())?;
    }
    if let Some(path) = to.json {
        write(path, lines(&plan, &figures)?)?;
    }
    if !to_stdout(to.json) && !to_stdout(to.csv) {
        let tables = plan.tables(&figures, Detail::Full);
        let text: Vec<String> = tables.iter().map(Tabled::text).collect();
        write("-".as_ref(), text.join("\n").into_bytes())?;
    }
    outputs.keep().map_err(CommandError::input)?;
    if unheld.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Assertion(unheld.join("\n")))
    }
}

macro_rules! sections {
    ($($name:ident: $experiment:ty,)*) => {
        /// Each experiment's section of the main job and its records, as soon as it is done.
        pub(super) fn each_section(
            size: Size,
            mut told: impl FnMut((Section, Vec<u8>)) -> Result<(), CommandError>,
        ) -> Result<(), CommandError> {
            $(told(section::<$experiment>(size)?)?;)*
            Ok(())
        }
    };
}
all_experiments!(sections);

/// The experiment's section in the main job, and its records; where the machine lacks what it needs, a section that
/// says so.
fn section<E: Experiment>(size: Size) -> Result<(Section, Vec<u8>), CommandError> {
    if let Err(lacking) = E::available() {
        let section = Section {
            introduction: format!("Not shown on this machine: {lacking}\n"),
            method: "",
            summary: vec![format!("not run: {lacking}")],
            ..empty::<E>()
        };
        return Ok((section, Vec::new()));
    }
    let detail = match size {
        Size::Quick => Detail::Short,
        Size::Full => Detail::Full,
    };
    section_of(&E::sized(size), detail)
}

/// The same of these plans.
pub(super) fn section_of<E: Experiment>(
    plans: &[E],
    detail: Detail,
) -> Result<(Section, Vec<u8>), CommandError> {
    let mut section = empty::<E>();
    let mut records = Vec::new();
    for plan in plans {
        let findings = found(plan)?;
        let figures = &findings.figures;
        records.extend(lines(plan, figures)?);
        let tables = plan.tables(figures, detail).into_iter().map(Item::Table);
        section.items.extend(tables.chain(plan.plots(&findings)));
        section.summary.extend(plan.verdict(figures));
        // One card for all plans: that of the first that has one.
        if section.cards.is_empty() {
            section.cards.extend(plan.card(&findings));
        }
    }
    Ok((section, records))
}

fn empty<E: Experiment>() -> Section {
    Section {
        id: E::NAME.into(),
        title: E::TITLE.into(),
        introduction: E::INTRODUCTION.into(),
        items: Vec::new(),
        method: E::METHOD,
        summary: Vec::new(),
        cards: Vec::new(),
    }
}

/// What the plan's run finds, with progress.
fn found<E: Experiment>(plan: &E) -> Result<Findings, CommandError> {
    with_progress(E::NAME, plan.steps(), |done| plan.run(Progress::new(done)))
        .map_err(CommandError::input)
}

/// The run and its figures as JSON Lines.
fn lines<E: Experiment>(plan: &E, figures: &[Figure]) -> Result<Vec<u8>, CommandError> {
    let info = RunInfo {
        experiment: E::NAME,
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: plan.seed(),
        options: plan.described(),
        machine: MachineRecord::this(),
        hollow: Vec::new(),
    };
    figure_lines(&info, figures).map_err(CommandError::input)
}
