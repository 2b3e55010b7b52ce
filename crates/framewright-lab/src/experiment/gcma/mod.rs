//! What contiguous memory costs its owner while other users have it: the fifth document's experiment.
//!
//! ```text
//!   foreground                    the area                         background
//!   1 ... 32,000 frames,   ──▶  cma          movable pages   ◀──  a build-like job on real files,
//!   32 of each, released        gcma         GCMA version 2        or a guest that is always busy,
//!   at once, paced              framewright  the reserve           or nothing
//! ```
//!
//! # How time is taken
//! The latency of a request is from its call to its return by the wall clock, served or not, less what the
//! clock itself costs. It leaves out the release, the pause and what fills the area again.
//!
//! # Sources
//! S. Park, "introduce gcma", LKML RFC v2, February 2015; its two tables.

mod build;
mod command;
mod job;
mod machine;
pub mod metrics;
mod options;
mod plan;
mod published;
mod report;
mod request;

pub use command::{GcmaArgs, GcmaExperiment};
pub use machine::card;
pub use options::{
    BesideRequests, DRAWN_ABOVE, Device, GcmaOptions, GcmaVariant, INTERVAL, Lengths, SIZES,
    SwapSafety,
};

use super::{CalibratedClock, Failure, Findings, Progress};
use crate::files::TempFolder;
use crate::report::{Distribution, Figure, FigureSource};
use build::{BuildWork, Built, Came};
use job::SourceTree;
use machine::with_machine;
use metrics as m;
use plan::GcmaPlan;
use request::SizeOutcome;

/// The case of the second table.
pub const BACKGROUND: &str = "background";

/// Steps of progress: a request each, or a hundredth of a build.
#[must_use]
pub fn steps(options: &GcmaOptions) -> u64 {
    let variants = options.variants.len() as u64;
    match options.at_work() {
        BesideRequests::Build => variants * u64::from(options.runs) * job::STEPS as u64,
        _ => variants * options.requests_of(SIZES.len()) as u64,
    }
}

/// What came of one variant's machines.
#[derive(Debug, Default)]
struct VariantTally {
    builds: Vec<Built>,
    outcomes: Vec<SizeOutcome>,
}

impl VariantTally {
    fn add(&mut self, came: Came) {
        self.builds.extend(came.built);
        if self.outcomes.is_empty() {
            self.outcomes = came.outcomes;
            return;
        }
        for (all, more) in self.outcomes.iter_mut().zip(&came.outcomes) {
            all.add(more);
        }
    }

    /// Requests that must still be made.
    fn missing(&self, options: &GcmaOptions, sizes: usize) -> usize {
        let made = self.outcomes.iter().map(SizeOutcome::requests);
        if options.is_drawn() {
            return options.requests_of(sizes).saturating_sub(made.sum());
        }
        // The sizes take turns, so the size with the fewest requests says how many each still needs.
        let least = made.min().unwrap_or(0);
        (options.requests as usize).saturating_sub(least) * sizes
    }
}

/// The variants' figures, behind the document's. Machines take turns, run by run.
///
/// # Errors
/// If the memory asked for cannot be laid out or had, source files cannot be read, a request
/// fails in a way that no variant's requests fail, or the build finds other bytes than it wrote.
pub fn run(options: &GcmaOptions, progress: Progress<'_>) -> Result<Findings, Failure> {
    let plan = GcmaPlan::new(options)?;
    let clock = CalibratedClock::calibrated();
    let is_build = options.at_work() == BesideRequests::Build;
    let tree = match &options.tree {
        _ if !is_build => None,
        Some(folder) => Some(SourceTree::read(folder)?),
        None => Some(SourceTree::make(plan.tree_bytes, options.seed)?),
    };
    let is_run = |v: &&GcmaVariant| is_build || **v != GcmaVariant::Original;
    let variants: Vec<GcmaVariant> = options.variants.iter().filter(is_run).copied().collect();
    let mut tallies: Vec<VariantTally> = variants.iter().map(|_| VariantTally::default()).collect();
    let runs = if is_build { options.runs } else { 1 };
    for run in 1..=runs {
        for at in turns(run, variants.len()) {
            let (variant, tally) = (variants[at], &mut tallies[at]);
            let folder = TempFolder::make("gcma");
            let folder =
                folder.map_err(|e| Failure::new(format!("no folder for a machine: {e}")))?;
            let missing = tally.missing(options, plan.sizes.len());
            let work = BuildWork {
                variant,
                plan: &plan,
                options,
                tree: tree.as_ref(),
                folder: folder.path(),
                clock,
                progress,
                // The last run makes up for what is missing.
                must: if run == runs { missing } else { 0 },
            };
            let came = with_machine(variant, &plan, options, folder.path(), |machine| {
                work.on(machine)
            });
            tally.add(came.map_err(|e| {
                e.of(
                    if is_build { BACKGROUND } else { "requests" },
                    variant.name(),
                )
            })?);
        }
    }
    Ok(Findings {
        figures: figures(&plan, &variants, &tallies),
        latencies: latencies(&plan, &variants, &tallies),
        ..Findings::default()
    })
}

/// The order of the variants in a run: each run begins with another one, so that none always has the machine as it is
/// at first.
fn turns(run: u32, variants: usize) -> impl Iterator<Item = usize> {
    let first = (run as usize - 1) % variants.max(1);
    (first..variants).chain(0..first)
}

/// The requests of each size, variant by variant.
fn latencies(
    plan: &GcmaPlan,
    variants: &[GcmaVariant],
    tallies: &[VariantTally],
) -> Vec<Distribution> {
    let mut latencies = Vec::new();
    for (at, frames) in plan.sizes.iter().enumerate() {
        for (variant, tally) in variants.iter().zip(tallies) {
            let outcome = tally.outcomes.get(at).filter(|o| o.requests() > 0);
            let of = outcome.map(|o| o.distribution(&frames.to_string(), variant.name()));
            latencies.extend(of);
        }
    }
    latencies
}

fn figures(plan: &GcmaPlan, variants: &[GcmaVariant], tallies: &[VariantTally]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let measured = |case: &str, variant: GcmaVariant, (metric, value)| Figure {
        case: case.to_owned(),
        variant: variant.name(),
        metric,
        value,
        source: FigureSource::Measured,
    };
    for (at, &frames) in plan.sizes.iter().enumerate() {
        figures.extend(published::latencies(frames));
        for (&variant, tally) in variants.iter().zip(tallies) {
            let outcome = tally.outcomes.get(at).filter(|o| o.requests() > 0);
            let of = outcome.map_or_else(Vec::new, SizeOutcome::figures);
            let case = frames.to_string();
            figures.extend(of.into_iter().map(|value| measured(&case, variant, value)));
        }
    }
    if tallies.iter().all(|tally| tally.builds.is_empty()) {
        return figures;
    }
    figures.extend(published::background());
    let elapsed = |tally: &VariantTally| mean(&tally.builds, |b| b.elapsed_s);
    let original = variants.iter().position(|v| *v == GcmaVariant::Original);
    let original = original.map(|at| elapsed(&tallies[at]));
    for (&variant, tally) in variants.iter().zip(tallies) {
        let builds = &tally.builds;
        let mut of = vec![
            (m::USER_S, mean(builds, |b| b.cpu.user_s)),
            (m::SYSTEM_S, mean(builds, |b| b.cpu.system_s)),
            (m::ELAPSED_S, elapsed(tally)),
            (
                m::CPU_PERCENT,
                mean(builds, |b| {
                    (b.cpu.user_s + b.cpu.system_s) / b.elapsed_s * 100.0
                }),
            ),
            (m::LOAD_AVERAGE, mean(builds, |b| b.load_average)),
            (m::FOREIGN_LOAD, mean(builds, |b| b.foreign_load)),
            (
                m::DEVICE_BYTES_WRITTEN,
                mean(builds, |b| b.device_bytes as f64),
            ),
            (m::SWAP_PAGES_STORED, mean(builds, |b| b.swap.stored as f64)),
            (
                m::SWAP_PAGES_WRITTEN,
                mean(builds, |b| b.swap.written as f64),
            ),
            (
                m::PAGES_WRITTEN_TWICE,
                mean(builds, |b| b.swap.twice() as f64),
            ),
        ];
        if let Some(original) = original {
            of.push((m::ELAPSED_VS_ORIGINAL, elapsed(tally) / original));
        }
        let looked = |b: &Built| (b.counted.loaded + b.counted.missed) as f64;
        if !variant.is_moving() {
            let ratio = |b: &Built| b.counted.loaded as f64 / looked(b).max(1.0);
            of.push((m::HIT_RATIO, mean(builds, ratio)));
        }
        figures.extend(
            of.into_iter()
                .map(|value| measured(BACKGROUND, variant, value)),
        );
    }
    figures
}

fn mean(builds: &[Built], of: impl Fn(&Built) -> f64) -> f64 {
    builds.iter().map(of).sum::<f64>() / builds.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_begins_with_another_variant_and_has_all() {
        let orders = [1, 2, 3, 4].map(|run| turns(run, 3).collect::<Vec<_>>());
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(turns(2, 1).collect::<Vec<_>>(), [0]);
        assert_eq!(turns(1, 0).count(), 0);
    }
}
