//! `va-fit`: the second document's tests, those of Linux's own test module, and what this project
//! must show, each with its own preparation.

mod body;
mod case;
mod limits;
mod remote;
#[cfg(test)]
mod tests;
mod timed;
mod timing;

pub use case::Case;

pub(super) use timing::{bind, cpu_ns, joined};

use super::clock::Clock;
use super::{
    FRAMEWRIGHT, Failure, Options, PROPOSED, Progress, WINDOW_PAGES, WINDOW_START, published,
};
use crate::report::Figure;
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
pub fn run(
    cases: &[Case],
    options: Options,
    progress: Progress<'_>,
) -> Result<Vec<Figure>, Failure> {
    let clock = Clock::calibrated();
    let mut figures = Vec::new();
    for &case in cases {
        figures.extend(published::va_fit(case.name()));
        figures.extend(one(case, options, clock)?);
        progress.step();
    }
    Ok(figures)
}

fn one(case: Case, options: Options, clock: Clock) -> Result<Vec<Figure>, Failure> {
    let timed = Timed {
        case: case.name(),
        options,
        clock,
    };
    match case {
        Case::LeFit => timed.figures::<body::LeFit>(),
        Case::BFit => timed.figures::<body::BFit>(),
        Case::NeFit => timed.figures::<body::NeFit>(),
        Case::FixSize => timed.figures::<body::FixSize>(),
        Case::FullFit => timed.figures::<body::FullFit>(),
        Case::LongBusyList => timed.figures::<body::LongBusyList<15_000, true>>(),
        Case::LongBusyListClean => timed.figures::<body::LongBusyList<15_000, false>>(),
        Case::RandomSize => timed.figures::<body::RandomSize>(),
        Case::FixAlign => timed.figures::<body::FixAlign>(),
        Case::RandomSizeAlign => timed.figures::<body::RandomSizeAlign>(),
        Case::AlignShift => timed.figures::<body::AlignShift>(),
        Case::SteadyRandom => timed.figures::<body::SteadyRandom>(),
        Case::Churn => timed.figures::<body::Churn>(),
        Case::VmMapRam(1) => timed.figures::<body::MapRam<1>>(),
        Case::VmMapRam(4) => timed.figures::<body::MapRam<4>>(),
        Case::VmMapRam(16) => timed.figures::<body::MapRam<16>>(),
        Case::VmMapRam(_) => timed.figures::<body::MapRam<64>>(),
        Case::RemoteFree => remote::figures(options, clock),
        Case::AlignedHoles => limits::aligned_holes(),
        Case::PinnedBlocks => limits::pinned_blocks(),
        Case::Occupancy => limits::occupancy(options.seed),
        Case::LongBusyList1m => limits::long_busy_list_1m(options, clock),
        Case::Backlog => limits::backlog(options, clock),
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
