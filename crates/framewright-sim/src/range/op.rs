//! Operations on a space, which have a meaning in each of its states.

use crate::MachineCall;
use framewright::Context;
use framewright::vrange::AreaKind;

/// One operation on a space, as plain data.
///
/// Places are offsets from the window's first page, so one may lie outside; `pick` is a live area,
/// by its number modulo the number of live ones. So an operation has a meaning in every state, and
/// any subsequence of a sequence is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum RangeOp {
    /// `alloc_area`, `vmalloc` or `map_ram`, each page then written. Options that a call does not
    /// have (zeroes, an alignment, a guard page before) are left out.
    Alloc {
        cpu: u16,
        kind: AreaKind,
        pages: u64,
        align_bytes: u64,
        guard_before: bool,
        huge: bool,
        zero: bool,
        context: Context,
    },
    /// The right call for a live area, after reading each page.
    Free { cpu: u16, pick: u32 },
    /// The same, twice.
    FreeTwice { cpu: u16, pick: u32 },
    /// `vfree_atomic` of a live area of any kind.
    FreeAtomic { pick: u32 },
    /// `RangeSeat::free_deferred`.
    FreeDeferred { cpu: u16 },
    /// Any of the three calls for any page of a live area, and as many pages more or fewer.
    FreeWrong {
        cpu: u16,
        pick: u32,
        kind: AreaKind,
        offset: u64,
        more: i8,
    },
    /// Any of the three calls for any place: mostly misuse.
    FreeAny {
        cpu: u16,
        at: u64,
        kind: AreaKind,
        pages: u64,
    },
    /// Reads a page of a live area, and writes it anew.
    Touch { cpu: u16, pick: u32, nth: u64 },
    /// Reads any place, like a use after free.
    TouchAny { cpu: u16, at: u64 },
    /// `Space::find` of any place.
    Find { at: u64 },
    /// `RangeSeat::purge`.
    Purge { cpu: u16 },
    /// `RangeSeat::drain`.
    Drain { cpu: u16 },
    /// Gives a CPU's seat back and takes it again.
    Reseat { cpu: u16 },
    /// Calls of the platform's fail, so many in a row, after this many others of their kind.
    Fault {
        call: MachineCall,
        after: u8,
        times: u8,
    },
}
