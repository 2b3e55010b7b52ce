use framewright::Context;
use framewright::vrange::AreaKind;

/// One operation on a space, as plain data.
///
/// Places are offsets from the window's first page, so that one may lie outside; `pick` is a live
/// area, by its number modulo the number of live ones. So an operation means something in every
/// state, and any subsequence of a sequence is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum Op {
    /// `alloc_area`, `vmalloc` or `map_ram`, each page then written. What it does not have (zeroes,
    /// an alignment) is left out.
    Alloc {
        cpu: u16,
        kind: AreaKind,
        pages: u64,
        align_bytes: u64,
        zero: bool,
        context: Context,
    },
    /// The right call for something live, each page read before.
    Free { cpu: u16, pick: u32 },
    /// The same, twice.
    FreeTwice { cpu: u16, pick: u32 },
    /// Any of the three calls for any page of something live, and as many pages more or fewer.
    FreeWrong {
        cpu: u16,
        pick: u32,
        kind: AreaKind,
        offset: u64,
        more: i8,
    },
    /// Any of the three calls for whatever is there: mostly misuse.
    FreeAny {
        cpu: u16,
        at: u64,
        kind: AreaKind,
        pages: u64,
    },
    /// Reads a page of something live, and writes it anew.
    Touch { cpu: u16, pick: u32, nth: u64 },
    /// Reads whatever is there, as who uses it after it was freed.
    TouchAny { cpu: u16, at: u64 },
    /// `Space::find` of whatever is there.
    Find { at: u64 },
    /// `RangeSeat::purge`.
    Purge { cpu: u16 },
    /// `RangeSeat::drain`.
    Drain { cpu: u16 },
    /// Gives a CPU's seat back and takes it again.
    Reseat { cpu: u16 },
}
