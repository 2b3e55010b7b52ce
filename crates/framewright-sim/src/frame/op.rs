//! Operations are data without references, so that a sequence of them can be printed, shortened and run again.

use framewright::Mobility;
use framewright::policy::Label;

/// One operation on a zone, as plain data.
///
/// Places are offsets from the start of the first pageblock, so one may lie outside; `pick` is an
/// allocation, by its number modulo the number of live ones. So an operation has a meaning in every
/// state, and any subsequence of a sequence is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum FrameOp {
    /// `Seat::alloc`.
    Alloc {
        cpu: u16,
        order: u8,
        mobility: Mobility,
    },
    /// `Seat::alloc_at_once`.
    AllocAtOnce {
        cpu: u16,
        order: u8,
        mobility: Mobility,
    },
    /// `Seat::free` of a live allocation.
    Free { cpu: u16, pick: u32 },
    /// `Seat::free` of any place: mostly misuse.
    FreeAny { cpu: u16, at: u32, order: u8 },
    /// `Seat::free` of a live allocation, twice.
    FreeTwice { cpu: u16, pick: u32 },
    /// `Seat::free_part` of a live allocation: its `part`th aligned piece of `order`.
    FreePart {
        cpu: u16,
        pick: u32,
        order: u8,
        part: u32,
    },
    /// `Seat::free_part` of any place.
    FreePartAny { cpu: u16, at: u32, order: u8 },
    /// `Seat::split` of a live allocation, or of one that is not there if `off` is not 0.
    Split {
        cpu: u16,
        pick: u32,
        into: u8,
        off: u8,
    },
    /// `Seat::try_alloc_singles`, aligned to `1 << align` frames.
    Singles {
        cpu: u16,
        frames: u32,
        align: u8,
        mobility: Mobility,
    },
    /// `Seat::alloc_bulk`.
    AllocBulk {
        cpu: u16,
        order: u8,
        mobility: Mobility,
        count: u8,
    },
    /// `Seat::free_bulk` of up to `count` live blocks of one order, and then once more of the
    /// first if `twice`.
    FreeBulk {
        cpu: u16,
        pick: u32,
        count: u8,
        twice: bool,
    },
    /// `Seat::free_range` from a live allocation on, over `count` allocations as far as they touch.
    FreeRange { cpu: u16, pick: u32, count: u8 },
    /// `Seat::free_range` of any place.
    FreeRangeAny { cpu: u16, at: u32, frames: u32 },
    /// `FrameSource::alloc_run` of a seat.
    TakeRun { cpu: u16, frames: u32 },
    /// `Seat::free_frames` from inside a live allocation on, over `count` allocations as far as they touch, and to a
    /// frame inside the last. `cut` says how far inside.
    FreeFrames {
        cpu: u16,
        pick: u32,
        count: u8,
        cut: u16,
    },
    /// `Seat::free_frames` of any place.
    FreeFramesAny { cpu: u16, at: u32, frames: u32 },
    /// `Zone::alloc_at`.
    AllocAt {
        at: u32,
        order: u8,
        mobility: Mobility,
    },
    /// `Zone::alloc_run_at`.
    AllocRun {
        at: u32,
        frames: u32,
        mobility: Mobility,
    },
    /// `Zone::alloc_contiguous`.
    AllocContiguous {
        frames: u32,
        align: u32,
        mobility: Mobility,
    },
    /// `Zone::add`.
    Add { at: u32, frames: u32 },
    /// `Zone::remove`.
    Remove { at: u32, frames: u32 },
    /// `Zone::isolate`.
    Isolate { block: u32, blocks: u32 },
    /// `Zone::unisolate`.
    Unisolate { block: u32, blocks: u32 },
    /// `Zone::set_label`.
    SetLabel {
        block: u32,
        blocks: u32,
        label: Label,
    },
    /// `Zone::reserve_high_order`.
    ReserveHighOrder { blocks: u32 },
    /// `Zone::pin`, or `Zone::unpin`.
    Pin { at: u32, pinned: bool },
    /// `Zone::drain`, and a comparison of the free blocks by order.
    Drain,
    /// Gives a CPU's seat back and takes it again.
    Reseat { cpu: u16 },
}
