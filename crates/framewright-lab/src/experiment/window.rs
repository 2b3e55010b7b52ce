//! What the experiments have in common before any of them runs: the names of what is compared, the seed, and the window
//! with what stands behind its pages.

use crate::report::FigureSource;
use framewright::Page;

/// The seed where none is given. How many vmap blocks a random sequence frees with head insertion
/// depends on it: 33 to 59, 47 in the mean, for the seeds from 1 to 40, where the first document has 37
/// from a generator and a seed that it does not name. This is the first of them that has 37.
pub const SEED: u64 = 4;

/// The behaviour a document complains about.
pub const BEFORE: &str = "before";
/// What it proposes.
pub const PROPOSED: &str = "proposed";
/// This project's, as its defaults have it: a free unmaps before it returns, as in Linux.
pub const FRAMEWRIGHT: &str = "framewright";
/// The same, not strict: freed areas of up to 128 pages stay mapped until the next request of their length.
pub const FRAMEWRIGHT_KEPT: &str = "framewright-kept";

/// The window's length in pages: 32 GiB, what the first document's worst case leaves behind
/// (7001 blocks of 4 MiB) and some.
pub(super) const WINDOW_PAGES: u64 = (32 << 30) / Page::BYTES;

/// Where a window begins that nothing is mapped in: 4 GiB, a multiple of every length that matters.
pub(super) const WINDOW_START: Page = Page((4 << 30) / Page::BYTES);

/// What stands behind the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mapper {
    /// Nothing: the address-space level alone
    Null,
    /// The frames of a memfd, mapped with mmap
    Host,
}

impl Mapper {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Host => "host",
        }
    }

    /// Where counts come from: of real mappings, or of none.
    pub(super) const fn counted(self) -> FigureSource {
        match self {
            Self::Null => FigureSource::Simulated,
            Self::Host => FigureSource::Measured,
        }
    }
}
