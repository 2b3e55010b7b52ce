//! What a zone is built from, and why it could not be: the limits stand here, apart from the zone, because the lists and
//! the marks are made from the same configuration.

use super::LinuxPolicy;
use super::links;
use core::fmt;
use framewright::Run;

/// The largest order that the lists hold (`MAX_PAGE_ORDER`).
pub const MAX_ORDER: u8 = 10;

/// What a [`LinuxBuddy`](super::LinuxBuddy) is built from.
#[derive(Debug, Clone, Copy)]
pub struct LinuxBuddyConfig<'a> {
    /// Whose rules.
    pub policy: LinuxPolicy,
    /// The number of frames; they are numbered from 0.
    pub frames: u64,
    /// Frames below `frames` that do not exist.
    pub absent: &'a [Run],
    /// CPUs with lists of their own, at least 1; a request from a CPU with a higher number uses
    /// the lists of that number modulo this one.
    pub cpus: u16,
    /// Log2 of a pageblock's length in frames, 1 to [`MAX_ORDER`]: 9 on x86-64, 10 on the
    /// document's devices.
    pub pageblock_order: u8,
    /// Whether there are per-CPU lists; without them every request goes to the free lists.
    pub per_cpu_lists: bool,
    /// What the machine says of this zone of its own.
    pub marks: Option<BuddyMarks>,
    /// Where the mark of each CPU's lists stands at the start, from 6.7 on; at the least one where there is none.
    pub percpu_first: &'a [u32],
}

/// What a machine says of one of its zones, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuddyMarks {
    /// Frames that its allocator was given, those that a trace leaves out among them.
    pub managed: u64,
    /// The high watermark.
    pub high: u64,
    /// The most that claims of pageblocks raise the watermarks by.
    pub boost_max: u64,
    /// By how much they were raised at the start.
    pub boost_first: u64,
    /// Of the per-CPU lists since 6.7: frames moved at once, and between which the marks move.
    pub batch: u32,
    /// The least mark.
    pub high_min: u32,
    /// The largest mark.
    pub high_max: u32,
}

impl LinuxBuddyConfig<'static> {
    /// `frames` frames without holes in pageblocks of 512, with per-CPU lists for two CPUs.
    #[must_use]
    pub const fn new(policy: LinuxPolicy, frames: u64) -> Self {
        Self {
            policy,
            frames,
            absent: &[],
            cpus: 2,
            pageblock_order: 9,
            per_cpu_lists: true,
            marks: None,
            percpu_first: &[],
        }
    }
}

/// Why a [`LinuxBuddy`](super::LinuxBuddy) could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinuxBuddyError {
    /// More frames than its 32-bit links can name.
    TooManyFrames(u64),
    /// No pageblock order between 1 and [`MAX_ORDER`].
    PageblockOrder(u8),
    /// No CPU to keep lists for.
    NoCpu,
}

impl fmt::Display for LinuxBuddyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFrames(n) => {
                write!(f, "{n} frames are above the maximum {}", links::MAX_FRAMES)
            }
            Self::PageblockOrder(o) => {
                write!(f, "pageblock order {o} is not between 1 and {MAX_ORDER}")
            }
            Self::NoCpu => f.write_str("0 cpus are below the minimum 1"),
        }
    }
}

impl core::error::Error for LinuxBuddyError {}
