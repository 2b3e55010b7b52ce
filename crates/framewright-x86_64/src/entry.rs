//! An entry of a page table, and what an access through it may do.
//!
//! ```text
//!  63   52 51                                  12 11   7 4 3 1 0
//!  NX  ...  frame number of a page or of a table   ... H C T W P
//! ```
//! P present, W writable, T and C the caching, by the page-attribute table, H huge (2 MiB, in the third level).

use framewright::{Frame, PageAccess};
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

/// The model-specific register of the page-attribute table \[`IA32_PAT`\].
pub const PAGE_ATTRIBUTES_REGISTER: u32 = 0x277;

/// What a kernel writes there on each CPU before it maps anything as [write-combining](PageAccess::write_combining): that in the
/// place of write-through, and all else as the CPU starts.
pub const PAGE_ATTRIBUTES: u64 = 0x0007_0406_0007_0106;

/// The bits for an access. Write-combining is the entry of the page-attribute table that Linux has for it too, the one with T
/// alone.
#[inline(always)]
const fn bits_of(access: PageAccess) -> u64 {
    if access.is_data() {
        return PRESENT | WRITABLE | NO_EXECUTE;
    }
    other_bits(access)
}

#[cold]
#[inline(never)] // so that the usual access takes no more than a look
const fn other_bits(access: PageAccess) -> u64 {
    let writable = if access.is_writable() { WRITABLE } else { 0 };
    let executable = if access.is_executable() {
        0
    } else {
        NO_EXECUTE
    };
    let caching = match (access.is_uncached(), access.is_write_combining()) {
        (false, false) => 0,
        (false, true) => WRITE_THROUGH,
        (true, _) => WRITE_THROUGH | UNCACHED,
    };
    PRESENT | writable | executable | caching
}

/// The value of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableEntry(pub u64);

impl EntryFormat for TableEntry {
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
        Self((frame.0 * Frame::BYTES) | bits_of(access))
    }

    #[inline(always)]
    fn huge(frame: Frame, access: PageAccess) -> Self {
        Self((frame.0 * Frame::BYTES) | bits_of(access) | HUGE)
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
        let cached = PageAccess::new(self.0 & WRITABLE != 0, self.0 & NO_EXECUTE == 0);
        match self.0 & (WRITE_THROUGH | UNCACHED) {
            0 => cached,
            WRITE_THROUGH => cached.write_combining(),
            _ => cached.uncached(),
        }
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
            PageAccess::ALL,
            PageAccess::DEVICE,
            PageAccess::DATA.write_combining(),
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
        let combining = PageAccess::DATA.write_combining();
        assert_eq!(
            TableEntry::page(Frame(1), combining).0,
            0x8000_0000_0000_100b
        );
    }
}
