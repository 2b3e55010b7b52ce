//! An entry of a page table, and what an access through it may do.
//!
//! ```text
//!  63  54 53                                    10 9  8 7 6 5 4 3 2 1 0
//!  ...    frame number of a page or of a table      ... D A G U X W R V
//! ```
//! V valid; R, W, X the access: none of the three in an entry that names a table; A accessed, D written.
//!
//! A and D are set from the start. A hart that does not set them itself faults where they are not.
//! Whether caches keep what is read says the machine for each physical address, not the entry (that would be
//! the extension Svpbmt). So there is no access for devices: [`SvAccess::DATA`] is right for them.

use framewright::Frame;
use framewright_paging::entry::EntryFormat;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const ACCESSED: u64 = 1 << 6;
const WRITTEN: u64 = 1 << 7;

/// The low bits, which say what an entry is.
const ACCESS_MASK: u64 = 0x3ff;
const FRAME_SHIFT: u32 = 10;
const FRAME_BITS: u32 = 44;

/// What an access through a mapping may do. No mapping is for user mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SvAccess(u64);

impl SvAccess {
    /// Read and write, no execution: what the engine's areas are.
    pub const DATA: Self = Self(VALID | READ | WRITE | ACCESSED | WRITTEN);
    /// Read alone.
    pub const READ: Self = Self(VALID | READ | ACCESSED);
    /// Read and execution: the text of a module. Each hart executes `fence.i` before it executes it.
    pub const TEXT: Self = Self(VALID | READ | EXECUTE | ACCESSED);
    /// Everything: a kernel's own image, where it is not divided.
    pub const ALL: Self = Self(Self::DATA.0 | EXECUTE);

    /// Whether it lets an access of this kind through.
    #[must_use]
    pub const fn grants(self, access: FaultedAccess) -> bool {
        let asked = match access {
            FaultedAccess::Fetch => EXECUTE,
            FaultedAccess::Load => READ,
            FaultedAccess::Store => WRITE,
        };
        self.0 & asked != 0
    }
}

/// What an instruction that faulted wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultedAccess {
    /// To be fetched.
    Fetch,
    /// To read.
    Load,
    /// To write.
    Store,
}

impl FaultedAccess {
    /// Of a page fault's number, as `scause` has it; `None` if it is another exception, or an interrupt.
    #[must_use]
    pub const fn of_cause(cause: u64) -> Option<Self> {
        match cause {
            12 => Some(Self::Fetch),
            13 => Some(Self::Load),
            15 => Some(Self::Store),
            _ => None,
        }
    }
}

/// The value of an entry in a table of Sv39 (3 levels) or Sv48 (4), which are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SvEntry<const LEVELS: u32>(pub u64);

impl<const LEVELS: u32> SvEntry<LEVELS> {
    /// An entry that maps by itself: a page, of 4 KiB in the last level, of 2 MiB in the one before, of 1 GiB above.
    #[inline(always)]
    #[must_use]
    pub const fn leaf(frame: Frame, access: SvAccess) -> Self {
        Self(frame.0 << FRAME_SHIFT | access.0)
    }
}

impl<const LEVELS: u32> EntryFormat for SvEntry<LEVELS> {
    type Access = SvAccess;

    const LEVELS: u32 = LEVELS;
    /// 56 bits of physical address.
    const FRAMES_MAX: u64 = 1 << FRAME_BITS;

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn page(frame: Frame, access: SvAccess) -> Self {
        Self::leaf(frame, access)
    }

    #[inline(always)]
    fn huge(frame: Frame, access: SvAccess) -> Self {
        Self::leaf(frame, access)
    }

    /// The other bits of an entry that names a table are reserved.
    #[inline(always)]
    fn table(frame: Frame) -> Self {
        Self(frame.0 << FRAME_SHIFT | VALID)
    }

    #[inline(always)]
    fn is_present(self) -> bool {
        self.0 & VALID != 0
    }

    #[inline(always)]
    fn is_huge(self) -> bool {
        self.is_present() && self.0 & (READ | WRITE | EXECUTE) != 0
    }

    #[inline(always)]
    fn is_table(self) -> bool {
        self.0 & (VALID | READ | WRITE | EXECUTE) == VALID
    }

    #[inline(always)]
    fn frame(self) -> Frame {
        Frame(self.0 >> FRAME_SHIFT & ((1 << FRAME_BITS) - 1))
    }

    #[inline(always)]
    fn access(self) -> SvAccess {
        SvAccess(self.0 & ACCESS_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sv39Entry = SvEntry<3>;

    #[test]
    fn an_entry_keeps_its_frame_and_its_access() {
        for access in [SvAccess::DATA, SvAccess::READ, SvAccess::TEXT] {
            for number in [0, 512, Sv39Entry::FRAMES_MAX - 512] {
                let leaf = Sv39Entry::page(Frame(number), access);
                assert!(leaf.is_present() && leaf.is_huge() && !leaf.is_table());
                assert_eq!((leaf.frame(), leaf.access()), (Frame(number), access));
                assert_eq!(leaf, Sv39Entry::huge(Frame(number), access));
                let table = Sv39Entry::table(Frame(number));
                assert!(table.is_present() && !table.is_huge() && table.is_table());
                assert_eq!(table.frame(), Frame(number));
            }
        }
        let empty = Sv39Entry::from_bits(0);
        assert!(!empty.is_present() && !empty.is_huge() && !empty.is_table());
    }

    /// The bits as the manual numbers them.
    #[test]
    fn the_bits_are_the_machines() {
        let data = SvEntry::<4>::page(Frame(0x12345), SvAccess::DATA);
        assert_eq!(data.bits(), 0x12345 << 10 | 0b1100_0111);
        let text = Sv39Entry::huge(Frame(0x200), SvAccess::TEXT);
        assert_eq!(text.bits(), 0x200 << 10 | 0b0100_1011);
        assert_eq!(Sv39Entry::table(Frame(7)).bits(), 7 << 10 | 1);
    }

    #[test]
    fn an_access_is_granted_by_its_bit() {
        use FaultedAccess::{Fetch, Load, Store};
        let granted = |access: SvAccess| [Fetch, Load, Store].map(|kind| access.grants(kind));
        assert_eq!(granted(SvAccess::DATA), [false, true, true]);
        assert_eq!(granted(SvAccess::READ), [false, true, false]);
        assert_eq!(granted(SvAccess::TEXT), [true, true, false]);
        assert_eq!(granted(SvAccess::ALL), [true; 3]);
        let kinds = [12, 13, 15].map(FaultedAccess::of_cause);
        assert_eq!(kinds, [Some(Fetch), Some(Load), Some(Store)]);
        // An access fault, a system call, the timer.
        for other in [5, 9, 1 << 63 | 5] {
            assert_eq!(FaultedAccess::of_cause(other), None);
        }
    }
}
