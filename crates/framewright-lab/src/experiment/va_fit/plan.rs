//! What one run is given: the cases, and what is the same in all of them, the window and the bound on lazy pages.

use super::FitCase;
use crate::experiment::{SpaceOptions, WINDOW_PAGES, WINDOW_START};
use framewright::PageRange;
use framewright::policy::RangeConfig;

/// The cases, and what they are run with.
#[derive(Debug, Clone)]
pub struct VaFit {
    pub(crate) cases: Vec<FitCase>,
    pub(crate) options: SpaceOptions,
}

/// Operations a repetition, where nothing else was asked for.
pub(super) const LOOPS_NULL: u64 = 100_000;
/// The same with real mappings, each of which takes microseconds.
pub(super) const LOOPS_HOST: u64 = 2_000;

/// CPUs that the bound on lazy pages is made for: what the machine has that Linux's figures are
/// from, or as many as there are threads.
pub(super) fn cpus(threads: u16) -> u16 {
    threads.max(2)
}

/// The bound on lazy pages of all variants: Linux's.
pub(super) const fn cpus_bound(cpus: u16) -> u64 {
    RangeConfig::for_cpus(cpus).lazy_pages_max
}

pub(super) fn window() -> PageRange {
    PageRange::new(WINDOW_START, WINDOW_PAGES)
        .expect("the window ends below the number range's end")
}
