//! `va-fit`: the second document's tests, those of Linux's own test module, and what this project
//! must show, each with its own preparation.

mod command;
mod published;
mod report;

pub use command::{FitArgs, VaFit};

mod body;
mod case;
mod limits;
mod remote;
#[cfg(test)]
mod tests;
mod timed;
mod timing;

pub use case::FitCase;

use super::clock::CalibratedClock;
use super::{
    FRAMEWRIGHT, Failure, Findings, PROPOSED, Progress, SpaceOptions, WINDOW_PAGES, WINDOW_START,
};
use framewright::PageRange;
use framewright::policy::RangeConfig;
use timed::TimedCase;

/// Operations a repetition, where nothing else was asked for.
const LOOPS_NULL: u64 = 100_000;
/// The same with real mappings, each of which takes microseconds.
const LOOPS_HOST: u64 = 2_000;

/// The cases' figures, and the documents'.
///
/// Steps of progress: one a case.
///
/// # Errors
/// If memory cannot be had, or a request fails that should not.
pub fn run(
    cases: &[FitCase],
    options: SpaceOptions,
    progress: Progress<'_>,
) -> Result<Findings, Failure> {
    let clock = CalibratedClock::calibrated();
    let mut findings = Findings::default();
    for &case in cases {
        findings.add(published::figures(case.name()).into());
        findings.add(one(case, options, clock)?);
        progress.step();
    }
    Ok(findings)
}

fn one(case: FitCase, options: SpaceOptions, clock: CalibratedClock) -> Result<Findings, Failure> {
    let timed = TimedCase {
        case: case.name(),
        options,
        clock,
    };
    match case {
        FitCase::LeFit => timed.findings::<body::LeFit>(),
        FitCase::BFit => timed.findings::<body::BFit>(),
        FitCase::NeFit => timed.findings::<body::NeFit>(),
        FitCase::FixSize => timed.findings::<body::FixSize>(),
        FitCase::FullFit => timed.findings::<body::FullFit>(),
        FitCase::LongBusyList => timed.findings::<body::LongBusyList<15_000, true>>(),
        FitCase::LongBusyListClean => timed.findings::<body::LongBusyList<15_000, false>>(),
        FitCase::RandomSize => timed.findings::<body::RandomSize>(),
        FitCase::FixAlign => timed.findings::<body::FixAlign>(),
        FitCase::RandomSizeAlign => timed.findings::<body::RandomSizeAlign>(),
        FitCase::AlignShift => timed.findings::<body::AlignShift>(),
        FitCase::SteadyRandom => timed.findings::<body::SteadyRandom>(),
        FitCase::Churn => timed.findings::<body::Churn>(),
        FitCase::VmMapRam(1) => timed.findings::<body::MapRam<1>>(),
        FitCase::VmMapRam(4) => timed.findings::<body::MapRam<4>>(),
        FitCase::VmMapRam(16) => timed.findings::<body::MapRam<16>>(),
        FitCase::VmMapRam(_) => timed.findings::<body::MapRam<64>>(),
        FitCase::RemoteFree => remote::figures(options, clock).map(Findings::from),
        FitCase::AlignedHoles => limits::aligned_holes().map(Findings::from),
        FitCase::PinnedBlocks => limits::pinned_blocks().map(Findings::from),
        FitCase::Occupancy => limits::occupancy(options.seed).map(Findings::from),
        FitCase::LongBusyList1m => limits::long_busy_list_1m(options, clock).map(Findings::from),
        FitCase::Backlog => limits::backlog(options, clock).map(Findings::from),
    }
}

/// CPUs that the bound on lazy pages is made for: what the machine has that Linux's figures are
/// from, or as many as there are threads.
fn cpus(threads: u16) -> u16 {
    threads.max(2)
}

/// The variants of the engine.
fn configs(cpus: u16) -> [(&'static str, RangeConfig); 2] {
    let ours = RangeConfig::for_cpus(cpus);
    let proposed = RangeConfig {
        spans: false,
        kept_pages_max: 0,
        ..ours
    };
    [(PROPOSED, proposed), (FRAMEWRIGHT, ours)]
}

fn window() -> PageRange {
    PageRange::new(WINDOW_START, WINDOW_PAGES)
        .expect("the window ends below the number range's end")
}
