//! `va-fit`: the second document's tests, those of Linux's own test module, and what this project
//! must show, each with its own preparation.

mod command;
mod published;
mod report;

pub use command::{Args, VaFit};

mod body;
mod case;
mod limits;
mod remote;
#[cfg(test)]
mod tests;
mod timed;
mod timing;

pub use case::Case;

use super::clock::Clock;
use super::{
    FRAMEWRIGHT, Failure, Findings, Options, PROPOSED, Progress, WINDOW_PAGES, WINDOW_START,
};
use framewright::PageRange;
use framewright::policy::RangeConfig;
use timed::Timed;

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
pub fn run(cases: &[Case], options: Options, progress: Progress<'_>) -> Result<Findings, Failure> {
    let clock = Clock::calibrated();
    let mut findings = Findings::default();
    for &case in cases {
        findings.add(published::figures(case.name()).into());
        findings.add(one(case, options, clock)?);
        progress.step();
    }
    Ok(findings)
}

fn one(case: Case, options: Options, clock: Clock) -> Result<Findings, Failure> {
    let timed = Timed {
        case: case.name(),
        options,
        clock,
    };
    match case {
        Case::LeFit => timed.findings::<body::LeFit>(),
        Case::BFit => timed.findings::<body::BFit>(),
        Case::NeFit => timed.findings::<body::NeFit>(),
        Case::FixSize => timed.findings::<body::FixSize>(),
        Case::FullFit => timed.findings::<body::FullFit>(),
        Case::LongBusyList => timed.findings::<body::LongBusyList<15_000, true>>(),
        Case::LongBusyListClean => timed.findings::<body::LongBusyList<15_000, false>>(),
        Case::RandomSize => timed.findings::<body::RandomSize>(),
        Case::FixAlign => timed.findings::<body::FixAlign>(),
        Case::RandomSizeAlign => timed.findings::<body::RandomSizeAlign>(),
        Case::AlignShift => timed.findings::<body::AlignShift>(),
        Case::SteadyRandom => timed.findings::<body::SteadyRandom>(),
        Case::Churn => timed.findings::<body::Churn>(),
        Case::VmMapRam(1) => timed.findings::<body::MapRam<1>>(),
        Case::VmMapRam(4) => timed.findings::<body::MapRam<4>>(),
        Case::VmMapRam(16) => timed.findings::<body::MapRam<16>>(),
        Case::VmMapRam(_) => timed.findings::<body::MapRam<64>>(),
        Case::RemoteFree => remote::figures(options, clock).map(Findings::from),
        Case::AlignedHoles => limits::aligned_holes().map(Findings::from),
        Case::PinnedBlocks => limits::pinned_blocks().map(Findings::from),
        Case::Occupancy => limits::occupancy(options.seed).map(Findings::from),
        Case::LongBusyList1m => limits::long_busy_list_1m(options, clock).map(Findings::from),
        Case::Backlog => limits::backlog(options, clock).map(Findings::from),
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
