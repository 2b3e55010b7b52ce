//! Operations on a zone with clients. A client's mood is an operation, so that it can be dropped from a sequence as
//! any other.

use framewright::Mobility;
use framewright::policy::Label;

/// The owner of memory: one of the simulated clients, by number; from here on a user, whose
/// contents no client can move or give back.
pub const USER: u8 = super::CLIENTS as u8;

/// How a client behaves, as a sum of bits; with 0 it answers honestly.
pub mod mood {
    /// It gives no frame back, and its contents are all in use when they are to move.
    pub const REFUSES: u8 = 1;
    /// It does not know its frames when they are to move.
    pub const FORGETS: u8 = 2;
    /// It allocates from within: takes a frame before it gives others back, and gives it back too;
    /// and does so on another CPU while contents move.
    pub const ALLOCATES: u8 = 4;
    /// On another CPU it frees the first source while its contents are to move; and a frame of its
    /// own while it is to give some back.
    pub const FREES: u8 = 8;
    /// It has the zone drained and verified while it is called, which needs every lock.
    pub const PROBES: u8 = 16;
    /// It exchanges targets among moves, and reorders what it was asked about.
    pub const EXCHANGES: u8 = 32;
    /// It tries to pin the pageblock of the first source while its contents are to move, which is
    /// refused.
    pub const PINS: u8 = 64;
    /// It keeps for itself one of the frames that it gives back: an unmovable one.
    pub const HOARDS: u8 = 128;
}

/// One operation on a zone with clients, as plain data.
///
/// `pick` is an allocation, by its number modulo the number of live ones; places are offsets from
/// the first pageblock. So an operation has a meaning in every state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum ReclaimOp {
    /// `reclaim::ReclaimSeat::alloc`, for `owner`; it may wait and reclaim, unless `nowait`.
    Alloc {
        cpu: u16,
        order: u8,
        mobility: Mobility,
        owner: u8,
        nowait: bool,
    },
    /// `frame::Seat::alloc`, which obeys no watermark.
    Raw {
        cpu: u16,
        order: u8,
        mobility: Mobility,
        owner: u8,
    },
    /// `reclaim::ReclaimSeat::free`.
    Free { cpu: u16, pick: u32 },
    /// Sets whether its client has it in use: then it is not given back, and is busy when it is to
    /// move.
    Hold { pick: u32, held: bool },
    /// Sets whether its client calls it pinned.
    Pin { pick: u32, pinned: bool },
    /// `Zone::pin`, or `Zone::unpin`.
    PinBlock { at: u32, pinned: bool },
    /// Sets how a client behaves for this many calls.
    Mood { client: u8, mood: u8, calls: u8 },
    /// `Reclaim::compact`; the block that it makes is a user's.
    Compact {
        cpu: u16,
        order: u8,
        mobility: Mobility,
        direct: bool,
    },
    /// `Reclaim::evacuate` of whole pageblocks.
    Evacuate { cpu: u16, block: u32, blocks: u32 },
    /// `Reclaim::take_run`, as Linux does or by the default; the run that it takes is a user's.
    TakeRun {
        cpu: u16,
        at: u32,
        frames: u32,
        linux: bool,
    },
    /// `Zone::isolate` of one pageblock, or `Zone::unisolate`.
    Isolate { block: u32, isolated: bool },
    /// `Zone::set_label` of one pageblock.
    SetLabel { block: u32, label: Label },
    /// `Reclaim::background`, one step.
    Background { cpu: u16, budget: u32 },
    /// The same, until it rests.
    Rest { cpu: u16, budget: u32 },
    /// `Relief::reclaim` of this many frames.
    Relieve { cpu: u16, frames: u32 },
    /// `Zone::drain`, and a comparison of every pageblock.
    Drain,
}
