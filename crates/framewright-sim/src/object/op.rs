//! Operations on objects. A wrong free near a live object is told by its distance from it, because the object's address
//! changes when a sequence is made shorter.

use framewright::Context;
use framewright::policy::Effort;

/// The call that makes an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectCall {
    /// `KvSeat::kmalloc`.
    Kmalloc,
    /// `KvSeat::kvmalloc`.
    Kvmalloc,
    /// `KvSeat::kvcalloc`, of elements of this many bytes.
    Kvcalloc(u64),
    /// `KvSeat::vmalloc`.
    Vmalloc,
}

/// One operation on objects, as plain data.
///
/// `pick` is a live object, by its number modulo the number of live ones; `at` is a byte of the
/// direct map, then of the window, then of neither. So an operation has a meaning in every state,
/// and any subsequence of a sequence is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum ObjectOp {
    /// Makes an object, checks its bytes and writes them.
    Alloc {
        cpu: u16,
        call: ObjectCall,
        bytes: u64,
        align_bytes: u64,
        zero: bool,
        effort: Effort,
        context: Context,
    },
    /// `kvfree`, or `kfree` if that is right as well; reads its bytes before.
    Free { cpu: u16, pick: u32, kfree: bool },
    /// What lies this many times 16 bytes before the end of the frame, or page, in which something live
    /// starts: in a slab often behind its last slot.
    FreeBehind {
        cpu: u16,
        pick: u32,
        back: u8,
        kfree: bool,
    },
    /// The same, twice.
    FreeTwice { cpu: u16, pick: u32, kfree: bool },
    /// `kvfree` or `kfree` of a live object, this many bytes off.
    FreeWrong {
        cpu: u16,
        pick: u32,
        offset: u64,
        kfree: bool,
    },
    /// `kvfree` or `kfree` of any place: mostly misuse.
    FreeAny { cpu: u16, at: u64, kfree: bool },
    /// `kvrealloc` of a live object.
    Realloc {
        cpu: u16,
        pick: u32,
        bytes: u64,
        align_bytes: u64,
        zero: bool,
        effort: Effort,
        context: Context,
    },
    /// `kvrealloc` of any place: mostly misuse.
    ReallocAny { cpu: u16, at: u64, bytes: u64 },
    /// Reads the bytes of a live object.
    Touch { cpu: u16, pick: u32 },
    /// The cache takes frames.
    Fill { cpu: u16, frames: u64 },
    /// The cache drops frames.
    Drop { cpu: u16, frames: u64 },
    /// Gives back all memory that is kept unused.
    Drain { cpu: u16 },
    /// Gives a CPU's seat back and takes it again.
    Reseat { cpu: u16 },
}
