//! Memory under pressure, in one thread: what a kernel does when a request cannot be served at once.
//!
//! A [`Kernel`] is an allocator with all that stands around it: watermarks, a background reclaimer,
//! direct reclaim, compaction. [`Tenants`] hold the memory: a synthetic phone, or the objects of a
//! recorded trace. They are the same for all kernels and know none of them; a kernel sees them through
//! the engine's own traits, [`Shrink`] and [`Migrate`].
//!
//! Time is the caller's: it gives the background what a CPU could do in the time that has passed.

mod engine;

pub use engine::{EngineConfig, EngineKernel, with_engine};

use framewright::reclaim::{Migrate, Shrink};
use framewright::stats::ReclaimStats;
use framewright::{Context, CpuId, Frame, Mobility, Order};

/// Where a client puts the frames that it gives back while a kernel reclaims.
pub trait Frees {
    /// Frees the block of `order` at `frame`, which was allocated with that order.
    ///
    /// # Panics
    /// If it is not allocated: then the client is at fault, and a run must not survive that.
    fn give(&mut self, cpu: CpuId, frame: Frame, order: Order);
}

/// A client that gives frames back, into any [`Frees`].
pub trait Gives: for<'f> Shrink<dyn Frees + 'f> {}

impl<T: for<'f> Shrink<dyn Frees + 'f>> Gives for T {}

/// The holders of the memory: a kernel may move all their movable pages.
pub trait Tenants: Migrate {
    /// The clients that can give memory back. The document's kernel asks them in this order; the engine
    /// begins with another one each round.
    fn shrinkers(&self) -> &[&dyn Gives];
}

/// A request for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PressureRequest {
    /// The CPU that asks.
    pub cpu: CpuId,
    /// How much.
    pub order: Order,
    /// For what.
    pub mobility: Mobility,
    /// What it may wait for. What may not reclaim is atomic, and may go below the min watermark.
    pub context: Context,
}

/// A kernel's memory management, over frames from 0 on.
pub trait Kernel {
    /// The name of the policy, as the command line knows it.
    fn name(&self) -> &'static str;

    /// Serves a request, with reclaim and compaction if it must and may. `None`: out of memory, and
    /// everything is as before but for what was reclaimed.
    fn alloc(&mut self, tenants: &dyn Tenants, request: PressureRequest) -> Option<Frame>;

    /// Frees a block.
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order);

    /// Whether the background has been woken and not gone to sleep since.
    fn background_is_awake(&self) -> bool;

    /// What the background does with the time for looking at `frames` frames. Nothing if it sleeps.
    fn background(&mut self, tenants: &dyn Tenants, frames: u64);

    /// What was counted, under Linux's names.
    fn stats(&self) -> ReclaimStats;

    /// Free blocks by list and order, as `/proc/pagetypeinfo` counts them.
    fn free_blocks(&self) -> [[u64; 11]; LISTS];

    /// Pageblocks by list.
    fn labels(&self) -> [u64; LISTS];
}

/// A kernel whose memory can be laid out before a run as a recording had it, and that lets blocks
/// be freed in part, as recordings do.
pub trait Impose: Kernel {
    /// Labels a pageblock. Only before the first request.
    fn set_label(&mut self, pageblock: u64, label: Mobility);

    /// Takes the one block `frame .. frame + 2^order`. Only before the first request. False if a frame
    /// of it is not free.
    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool;

    /// Frees the block of `order` at `frame`, an aligned part of a larger one. What is left of that
    /// becomes the fewest aligned blocks, each with its own order.
    ///
    /// # Panics
    /// If it is not allocated.
    fn free_part(&mut self, cpu: CpuId, frame: Frame, order: Order);
}

/// The lists of the document's kernel: the three mobilities, the reserve, the contiguous area.
pub const LISTS: usize = 5;

/// Their names, in the order of `/proc/pagetypeinfo`.
pub const LIST_NAMES: [&str; LISTS] = ["Unmovable", "Reclaimable", "Movable", "Reserve", "CMA"];
