//! An entry of a page table, and what an access through it may do.
//!
//! ```text
//!  63   52 51                                  12 11   7 4 3 1 0
//!  NX  ...  frame number of a page or of a table   ... H C T W P
//! ```
//! P present, W writable, T write-through, C uncached, H huge (2 MiB, in the third level).

use framewright::Frame;
use framewright_paging::entry::EntryFormat;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const UNCACHED: u64 = 1 << 4;
const HUGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;

/// Bits 12 to 51: no x86-64 CPU has more than 52 bits of physical address.
const FRAME_MASK: u64 = ((1 << 52) - 1) & !0xfff;

/// The frames that an entry can name: 2^40 of 4 KiB are 52 bits of address.
pub const FRAMES_MAX: u64 = 1 << 40;

/// What an access through a mapping may do, and whether caches keep what it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageAccess(u64);

impl PageAccess {
    /// Read and write, no execution: what the engine's areas are.
    pub const DATA: Self = Self(PRESENT | WRITABLE | NO_EXECUTE);
    /// Read alone.
    pub const READ: Self = Self(PRESENT | NO_EXECUTE);
    /// Read and execution: the text of a module.
    pub const TEXT: Self = Self(PRESENT);
    /// Read and write past all caches: registers of devices \[`ioremap`\].
    pub const DEVICE: Self = Self(PRESENT | WRITABLE | NO_EXECUTE | WRITE_THROUGH | UNCACHED);
}

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableEntry(pub u64);

impl EntryFormat for TableEntry {
    type Access = PageAccess;

    const LEVELS: u32 = 4;
    const FRAMES_MAX: u64 = FRAMES_MAX;

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
        Self((frame.0 * Frame::BYTES) | access.0)
    }

    #[inline(always)]
    fn huge(frame: Frame, access: PageAccess) -> Self {
        Self((frame.0 * Frame::BYTES) | access.0 | HUGE)
    }

    /// It grants everything: the entries of pages decide.
    #[inline(always)]
    fn table(frame: Frame) -> Self {
        Self((frame.0 * Frame::BYTES) | PRESENT | WRITABLE)
    }

    #[inline(always)]
    fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    #[inline(always)]
    fn is_huge(self) -> bool {
        self.0 & (PRESENT | HUGE) == PRESENT | HUGE
    }

    /// In upper levels what is not huge is a table.
    #[inline(always)]
    fn is_table(self) -> bool {
        self.0 & (PRESENT | HUGE) == PRESENT
    }

    #[inline(always)]
    fn frame(self) -> Frame {
        Frame((self.0 & FRAME_MASK) / Frame::BYTES)
    }

    #[inline(always)]
    fn access(self) -> PageAccess {
        PageAccess(self.0 & PageAccess::DEVICE.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_frame_and_its_access() {
        for access in [
            PageAccess::DATA,
            PageAccess::READ,
            PageAccess::TEXT,
            PageAccess::DEVICE,
        ] {
            for number in [0, 512, FRAMES_MAX - 512] {
                let page = TableEntry::page(Frame(number), access);
                let huge = TableEntry::huge(Frame(number), access);
                assert!(page.is_present() && !page.is_huge() && huge.is_huge());
                assert_eq!(page.frame(), Frame(number));
                assert_eq!(huge.frame(), Frame(number));
                assert_eq!([page.access(), huge.access()], [access; 2]);
            }
        }
        let empty = TableEntry::from_bits(0);
        assert!(!empty.is_present() && !empty.is_huge());
    }

    /// The bits as the manual numbers them.
    #[test]
    fn the_bits_are_the_machines() {
        assert_eq!(
            TableEntry::page(Frame(0x12345), PageAccess::DATA).0,
            0x8000_0000_1234_5003
        );
        assert_eq!(
            TableEntry::huge(Frame(0x200), PageAccess::TEXT).0,
            0x0020_0081
        );
        assert_eq!(TableEntry::table(Frame(7)).0, 0x7003);
        assert_eq!(
            TableEntry::page(Frame(1), PageAccess::DEVICE).0,
            0x8000_0000_0000_101b
        );
    }
}
