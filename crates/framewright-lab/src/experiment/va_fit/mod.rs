//! `va-fit`: the second document's tests, those of Linux's own test module, and what this project
//! must show, each with its own preparation.

mod command;
mod published;
mod report;

pub use command::FitArgs;
pub use plan::VaFit;

mod body;
mod case;
mod measuring;
mod plan;
#[cfg(test)]
mod tests;
mod variants;

pub use case::FitCase;

use super::range_metrics as m;
use super::timing::{CalibratedClock, Load, LoadWatch};
use super::{Failure, Findings, Progress, SpaceOptions};
use crate::report::{Figure, FigureSource};
use measuring::peer::PeerProgram;
use measuring::{TimedCase, limits, remote};
use std::time::Duration;

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
    let peer = PeerProgram::found().ok();
    let peer = peer.as_ref();
    for &case in cases {
        findings.add(published::figures(case.name()).into());
        let watch = LoadWatch::begin();
        let spent = || peer.map_or(Duration::ZERO, PeerProgram::spent);
        let before = spent();
        let mut found = one(case, options, clock, peer)?;
        if let Some(load) = watch.end(spent() - before) {
            found.figures.extend(beside(&found.figures, load));
        }
        findings.add(found);
        progress.step();
    }
    Ok(findings)
}

fn one(
    case: FitCase,
    options: SpaceOptions,
    clock: CalibratedClock,
    peer: Option<&PeerProgram>,
) -> Result<Findings, Failure> {
    let timed = TimedCase {
        case: case.name(),
        options,
        clock,
        peer,
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
        FitCase::LongBusyList1m => {
            limits::long_busy_list_1m(options, clock, peer).map(Findings::from)
        }
        FitCase::Backlog => limits::backlog(options, clock, peer).map(Findings::from),
    }
}

/// The load of a case, once for each of its variants.
fn beside(figures: &[Figure], load: Load) -> Vec<Figure> {
    let mut out: Vec<Figure> = Vec::new();
    for figure in figures {
        if out.iter().any(|other| other.variant == figure.variant) {
            continue;
        }
        let metrics = [
            (m::LOAD_AVERAGE, load.average),
            (m::FOREIGN_LOAD, load.foreign),
            (m::STOLEN_CPUS, load.stolen),
        ];
        out.extend(metrics.map(|(metric, value)| Figure {
            metric,
            value,
            source: FigureSource::Measured,
            ..figure.clone()
        }));
    }
    out
}
