//! What a fallback costs a phone in two and a half days: requests that stall, and blocks that mix.
//!
//! A [synthetic phone](phone) lives on a [kernel](crate::pressure::Kernel): the document's own, as it
//! was (`before`) and with its patch (`proposed`), and this engine (`framewright`). What the phone asks
//! for is the same for all of them.
//!
//! # How it was fitted
//! Once, `before` alone, to the document's before column; `phone.toml` says of each figure where it
//! comes from. The other columns are predictions.
//!
//! # Sources
//! ChengYi He, "avoid external fragmentation related to migration fallback", linux-kernel, 30 January
//! 2016.

pub mod params;
mod phone;
#[cfg(test)]
mod test_kernel;
#[cfg(test)]
mod tests;

pub use params::{Params, ParamsError};

use super::Progress;
use crate::pressure::{Kernel, LISTS};
use framewright::stats::ReclaimStats;
use phone::{Life, Lived};

/// Microseconds of a day.
const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// What a phone's life on a kernel came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the kernel counted.
    pub stats: ReclaimStats,
    /// Free blocks by list and order, at the end.
    pub free_blocks: [[u64; 11]; LISTS],
    /// Pageblocks by list, at the end.
    pub labels: [u64; LISTS],
    /// What the phone counted.
    lived: Lived,
}

/// Virtual time awake, in microseconds, of so many thousandths of a day.
#[must_use]
pub const fn awake_us(params: &Params, days_milli: u64) -> u64 {
    DAY_US / 1000 * days_milli / 1000 * params.time.awake_permille
}

/// A phone lives on a kernel that has all its memory free.
#[must_use]
pub fn live(
    params: &Params,
    kernel: &mut dyn Kernel,
    seed: u64,
    days_milli: u64,
    progress: Progress<'_>,
) -> Outcome {
    let lived = Life::run(params, kernel, seed, awake_us(params, days_milli), progress);
    Outcome {
        stats: kernel.stats(),
        free_blocks: kernel.free_blocks(),
        labels: kernel.labels(),
        lived,
    }
}
