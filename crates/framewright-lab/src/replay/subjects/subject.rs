//! What a replay asks of an allocator.

use crate::replay::{CachedBlock, FailureCause, RecordedStep};
use framewright::{CpuId, Frame, Mobility, Order};
use std::ops::Range;

/// A free that the allocator did not accept; in a replay this is a fault of the allocator or of
/// the replay, never of the trace, and stops the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeRefused;

/// A request of the recording.
#[derive(Debug, Clone, Copy)]
pub struct RecordedRequest {
    /// The CPU that made it.
    pub cpu: CpuId,
    /// Its order.
    pub order: Order,
    /// What becomes of the block.
    pub mobility: Mobility,
    /// Its flags. None where no event showed the request: a single frame is then of Linux's bulk allocator.
    pub flags: Option<u32>,
    /// Whether the machine served it.
    pub is_served: bool,
}

/// What became of a request of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayAnswer {
    /// Served at once.
    Served(Frame),
    /// Served, after it would have waited for memory.
    Stalled(Frame),
    /// Not served; for what, where the allocator says.
    Refused(Option<FailureCause>),
}

impl ReplayAnswer {
    /// The block, if there is one.
    #[must_use]
    pub const fn frame(self) -> Option<Frame> {
        match self {
            Self::Served(frame) | Self::Stalled(frame) => Some(frame),
            Self::Refused(_) => None,
        }
    }
}

/// What a replay asks of an allocator: the engine, and each of the lab's historical baselines.
///
/// Frames are numbered from 0 to the length of the trace's universe. Every metric that two
/// policies are compared by is computed outside, by the observer, from the calls and their
/// results alone; what a subject reports of itself is shown, but never compared.
pub trait ReplaySubject {
    /// The policy's name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// Sets the label of one pageblock before the trace starts (start mode `imposed`).
    fn set_label(&mut self, pageblock: u64, label: Mobility);

    /// Takes the one block `frame .. frame + 2^order` at start (mode `imposed`).
    /// False if any frame of it is not free.
    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool;

    /// A block of `order`, or `None` if the policy finds none.
    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame>;

    /// A request of the recording.
    #[inline]
    fn request(&mut self, request: RecordedRequest) -> ReplayAnswer {
        match self.alloc(request.cpu, request.order, request.mobility) {
            Some(frame) => ReplayAnswer::Served(frame),
            None => ReplayAnswer::Refused(None),
        }
    }

    /// This many milliseconds of the recording pass.
    fn pass_time(&mut self, _ms: u64) {}

    /// From here on the background reclaims when it did on the recording machine ([`background`](Self::background)), and
    /// not when a model of it would.
    fn follow_background(&mut self) {}

    /// The recorded background begins a round, or has ended one.
    fn background(&mut self, _step: RecordedStep) {}

    /// Frees the block of `order` at `frame`: a whole allocation, or an aligned part of one.
    ///
    /// # Errors
    /// If the block is not allocated.
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused>;

    /// Moves an allocated, movable block to a free place of the same zone, as the recording machine's compaction did with its
    /// own. False where that place is not free, or free in some CPU's cache only; nothing has changed then.
    ///
    /// # Errors
    /// If what was to move is not allocated.
    fn move_block(&mut self, from: Frame, to: Frame, order: Order) -> Result<bool, FreeRefused> {
        if !self.alloc_at(to, order, Mobility::Movable) {
            return Ok(false);
        }
        self.free(CpuId(0), from, order).map(|()| true)
    }

    /// Whether compaction may move frames into the pageblock, which has so many frames in use that cannot be moved.
    fn receives_moved(&self, _pageblock: u64, fixed_frames: u16) -> bool {
        fixed_frames == 0
    }

    /// The frames of the zone that the frame lies in; compaction stays within it.
    fn zone_of(&self, _frame: Frame) -> Range<u64> {
        0..u64::MAX
    }

    /// Takes to the CPUs' caches what the recording machine had there when the recording began: these blocks, or, where there
    /// are none, as much as the recording tells. Only where the allocator is one of those that keep as much.
    fn fill_caches(&mut self, _blocks: &[CachedBlock]) {}

    /// Returns every frame held in per-CPU caches to the shared state.
    fn drain(&mut self);

    /// Free blocks per label (indexed by [`Mobility`]) and order, as `/proc/pagetypeinfo` counts
    /// them: what lies in per-CPU caches is not among them.
    fn free_blocks(&self) -> [[u64; 11]; 3];

    /// Pageblocks per label, indexed by [`Mobility`].
    fn labels(&self) -> [u64; 3];

    /// Fallbacks so far: `[wanted][taken from]`, indexed by [`Mobility`].
    fn fallbacks(&self) -> [[u64; 3]; 3];
}
