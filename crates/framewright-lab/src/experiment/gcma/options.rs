//! What is asked for: the variants, what runs beside the requests and on what, how safe swap is, how long requests are,
//! and how many.
//!
//! It is below all other files of the experiment, so that each of them can be read without the run.

use crate::experiment::FRAMEWRIGHT;
use std::path::PathBuf;
use std::time::Duration;

/// The document's sizes, in frames.
pub const SIZES: [u64; 8] = [1, 512, 1024, 2048, 4096, 8192, 16_384, 32_000];

/// What a run of this many frames is aligned to, for every variant: its length rounded up to a power of two, 256 frames
/// at most, as Linux's callers of CMA ask (`CONFIG_CMA_ALIGNMENT`).
pub(super) fn alignment(frames: u64) -> u64 {
    frames.next_power_of_two().min(256)
}

/// Which users the area is lent to while its owner does not need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum GcmaVariant {
    /// As cma, without a request for contiguous memory: what the build takes by itself
    Original,
    /// An area lent to movable memory
    Cma,
    /// GCMA version 2, write-through to a swap file
    Gcma,
    /// The same with compressed memory as swap device
    #[value(name = "gcma.zram")]
    GcmaZram,
    /// This engine's reserve
    Framewright,
}

impl GcmaVariant {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 5] = [
        Self::Original,
        Self::Cma,
        Self::Gcma,
        Self::GcmaZram,
        Self::Framewright,
    ];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Cma => "cma",
            Self::Gcma => "gcma",
            Self::GcmaZram => "gcma.zram",
            Self::Framewright => FRAMEWRIGHT,
        }
    }

    /// Whether its area is lent to movable memory, and not to guests.
    pub(super) const fn is_moving(self) -> bool {
        matches!(self, Self::Original | Self::Cma)
    }
}

/// What runs beside the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BesideRequests {
    /// A build of source files, in memory that is too small for it
    Build,
    /// A guest that gets and puts pages without a pause
    Guest,
    /// Nothing
    None,
}

impl BesideRequests {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Guest => "guest",
            Self::None => "none",
        }
    }
}

/// What files and swap lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Device {
    /// A class 10 SD card as the document's, emulated: 20 MB/s read, 10 MB/s written, one transfer at a time
    Card,
    /// The host's own, as fast as it is
    Host,
}

impl Device {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Host => "host",
        }
    }
}

/// How a page in framewright's swap stays safe when its frame is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SwapSafety {
    /// It is on the device before it counts as stored
    WriteThrough,
    /// It is on the device later, and lies where no reservation is until then
    WriteBack,
    /// It is copied to ordinary memory; there are reservations for the longest and the shortest requests only
    PutBack,
}

impl SwapSafety {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteThrough => "write-through",
            Self::WriteBack => "write-back",
            Self::PutBack => "put-back",
        }
    }
}

/// Whether a variant knows before a request how long it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Lengths {
    /// No variant: each request is served from what is there
    Unknown,
    /// All variants: each length has a place of its own in the area, which is lent meanwhile
    Known,
}

impl Lengths {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Known => "known",
        }
    }
}

/// Requests above which there are this many in all, and the size of each is drawn: of all sizes that often would
/// take hours.
pub const DRAWN_ABOVE: u32 = 1000;

/// What the experiment is run with.
#[derive(Debug, Clone)]
pub struct GcmaOptions {
    /// Memory in all.
    pub ram_bytes: u64,
    /// Of that, the area.
    pub reserve_bytes: u64,
    /// Requests of each size at least; above [`DRAWN_ABOVE`], in all.
    pub requests: u32,
    /// What runs beside them.
    pub background: BesideRequests,
    /// Nothing runs beside the requests; before each of them the area is filled with guests' pages.
    pub idle: bool,
    /// Threads of the background.
    pub workers: u16,
    /// Source files; `None` for some that are made.
    pub tree: Option<PathBuf>,
    /// Bytes of those that are made; `None` for a part of the RAM.
    pub tree_bytes: Option<u64>,
    /// Builds of each variant.
    pub runs: u32,
    /// From one request beside a build to the next, in the build's time.
    pub interval: Duration,
    /// Whether the variants know how long requests will be.
    pub lengths: Lengths,
    /// How often a compiler goes over what it compiles.
    pub passes: u32,
    /// What files and swap lie on.
    pub device: Device,
    /// Of framewright's swap.
    pub policy: SwapSafety,
    /// Pages that the build holds pinned at a time.
    pub pins: u32,
    /// Of everything that is drawn.
    pub seed: u64,
    /// In the order in which they are run.
    pub variants: Vec<GcmaVariant>,
}

/// The document's rate: 256 requests beside a build of 515 s.
pub const INTERVAL: Duration = Duration::from_secs(2);

impl GcmaOptions {
    /// What runs beside the requests.
    pub(super) const fn at_work(&self) -> BesideRequests {
        if self.idle {
            BesideRequests::None
        } else {
            self.background
        }
    }

    /// Whether the size of each request is drawn.
    pub(super) const fn is_drawn(&self) -> bool {
        self.requests > DRAWN_ABOVE
    }

    /// Requests in all, of this many sizes: beside each build, if there are any.
    pub(super) const fn requests_of(&self, sizes: usize) -> usize {
        if self.is_drawn() {
            self.requests as usize
        } else {
            self.requests as usize * sizes
        }
    }
}
