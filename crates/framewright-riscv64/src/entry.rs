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
//! the extension Svpbmt). So an entry says nothing of caches: a device is uncached by its address, and memory never is.

use framewright::{Frame, PageAccess};
use framewright_paging::entry::EntryFormat;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const ACCESSED: u64 = 1 << 6;
const WRITTEN: u64 = 1 << 7;

const FRAME_SHIFT: u32 = 10;
const FRAME_BITS: u32 = 44;

/// The bits for an access. No mapping is for user mode. Before a hart executes what was written as data, it executes `fence.i`.
#[inline(always)]
const fn bits_of(access: PageAccess) -> u64 {
    if access.is_data() {
        return VALID | READ | WRITE | ACCESSED | WRITTEN;
    }
    let writable = if access.is_writable() {
        WRITE | WRITTEN
    } else {
        0
    };
    let executable = if access.is_executable() { EXECUTE } else { 0 };
    VALID | READ | ACCESSED | writable | executable
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

    /// Whether a mapping with that access lets it through.
    #[must_use]
    pub const fn is_granted_by(self, access: PageAccess) -> bool {
        match self {
            Self::Fetch => access.is_executable(),
            Self::Load => true,
            Self::Store => access.is_writable(),
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
    pub const fn leaf(frame: Frame, access: PageAccess) -> Self {
        Self(frame.0 << FRAME_SHIFT | bits_of(access))
    }
}

impl<const LEVELS: u32> EntryFormat for SvEntry<LEVELS> {
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
    fn page(frame: Frame, access: PageAccess) -> Self {
        Self::leaf(frame, access)
    }

    #[inline(always)]
    fn huge(frame: Frame, access: PageAccess) -> Self {
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
    fn access(self) -> PageAccess {
        PageAccess::new(self.0 & WRITE != 0, self.0 & EXECUTE != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sv39Entry = SvEntry<3>;

    #[test]
    fn an_entry_keeps_its_frame_and_its_access() {
        for access in [PageAccess::DATA, PageAccess::READ, PageAccess::TEXT] {
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
        let data = SvEntry::<4>::page(Frame(0x12345), PageAccess::DATA);
        assert_eq!(data.bits(), 0x12345 << 10 | 0b1100_0111);
        let text = Sv39Entry::huge(Frame(0x200), PageAccess::TEXT);
        assert_eq!(text.bits(), 0x200 << 10 | 0b0100_1011);
        assert_eq!(Sv39Entry::table(Frame(7)).bits(), 7 << 10 | 1);
    }

    #[test]
    fn an_access_is_granted_by_its_bit() {
        use FaultedAccess::{Fetch, Load, Store};
        let granted =
            |access: PageAccess| [Fetch, Load, Store].map(|kind| kind.is_granted_by(access));
        assert_eq!(granted(PageAccess::DATA), [false, true, true]);
        assert_eq!(granted(PageAccess::READ), [false, true, false]);
        assert_eq!(granted(PageAccess::TEXT), [true, true, false]);
        assert_eq!(granted(PageAccess::ALL), [true; 3]);
        let kinds = [12, 13, 15].map(FaultedAccess::of_cause);
        assert_eq!(kinds, [Some(Fetch), Some(Load), Some(Store)]);
        // An access fault, a system call, the timer.
        for other in [5, 9, 1 << 63 | 5] {
            assert_eq!(FaultedAccess::of_cause(other), None);
        }
    }
}
