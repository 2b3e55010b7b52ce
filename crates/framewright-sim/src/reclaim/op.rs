use framewright::Mobility;
use framewright::policy::Label;

/// Whose memory it is: one of the simulated clients, by number; from here on a user's, whose contents
/// nobody can move or give back.
pub const USER: u8 = super::CLIENTS as u8;

/// How a client behaves, as a sum of bits; 0: it does what it is asked.
pub mod mood {
    /// It gives nothing back, and everything is in use when it is to move.
    pub const REFUSES: u8 = 1;
    /// It knows none of its frames when they are to move.
    pub const FORGETS: u8 = 2;
    /// It allocates from within: takes a frame before it gives others back, and gives it back too; and
    /// on another CPU while contents move.
    pub const ALLOCATES: u8 = 4;
    /// On another CPU it frees the first source while its contents are to move; and something of its
    /// own while it is to give back.
    pub const FREES: u8 = 8;
    /// It has the zone drained and verified while it is called, which needs every lock.
    pub const PROBES: u8 = 16;
    /// It exchanges targets among moves, and leaves what it was asked about in another sequence.
    pub const EXCHANGES: u8 = 32;
    /// It would pin the pageblock of the first source while its contents are to move, which is refused.
    pub const PINS: u8 = 64;
    /// It keeps a frame of what it gives back for itself: an unmovable one.
    pub const HOARDS: u8 = 128;
}

/// One operation on a zone with clients, as plain data.
///
/// `pick` is an allocation, by its number modulo the number of live ones; places are offsets from the
/// first pageblock. So an operation means something in every state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum Op {
    /// `reclaim::Seat::alloc`, for `owner`; it may wait and reclaim, but with `nowait`.
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
    /// `reclaim::Seat::free`.
    Free { cpu: u16, pick: u32 },
    /// Its client has it in use from now on, or no more: it is not given back, and busy when it is to
    /// move.
    Hold { pick: u32, held: bool },
    /// Its client says from now on that it is pinned, or no more.
    Pin { pick: u32, pinned: bool },
    /// `Zone::pin`, or `Zone::unpin`.
    PinBlock { at: u32, pinned: bool },
    /// How a client behaves for so many calls.
    Mood { client: u8, mood: u8, calls: u8 },
    /// `Reclaim::compact`; what it makes is a user's.
    Compact {
        cpu: u16,
        order: u8,
        mobility: Mobility,
        direct: bool,
    },
    /// `Reclaim::evacuate` of whole pageblocks.
    Evacuate { cpu: u16, block: u32, blocks: u32 },
    /// `Reclaim::take_run`, as Linux does or by the default; what it takes is a user's.
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
    /// `Relief::reclaim` of so many frames.
    Relieve { cpu: u16, frames: u32 },
    /// `Zone::drain`, and a comparison of every pageblock.
    Drain,
}
