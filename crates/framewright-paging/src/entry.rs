//! What an architecture says of the entries of its page tables.

use framewright::{Frame, PageAccess};

/// An entry of a page table: 64 bits, of which zero is an entry that is empty.
///
/// A table has 512 of them, in one frame of 4 KiB, on every architecture for which this is implemented.
pub trait EntryFormat: Copy {
    /// How many tables a walk goes through, from the root to a page: 3 for 39 bits of address, 4 for 48.
    const LEVELS: u32;

    /// The frames that an entry can name.
    const FRAMES_MAX: u64;

    /// The entry of these bits.
    fn from_bits(bits: u64) -> Self;

    /// Its bits.
    fn bits(self) -> u64;

    /// A page of 4 KiB.
    fn page(frame: Frame, access: PageAccess) -> Self;

    /// A page of 2 MiB, whose first frame is a multiple of 512.
    fn huge(frame: Frame, access: PageAccess) -> Self;

    /// A table of the next level.
    fn table(frame: Frame) -> Self;

    /// Whether something is there.
    fn is_present(self) -> bool;

    /// Whether it maps pages by itself. Asked above the last level only.
    fn is_huge(self) -> bool;

    /// Whether it names a table. Asked above the last level only.
    fn is_table(self) -> bool;

    /// The frame that it names.
    fn frame(self) -> Frame;

    /// The access that it grants, as far as an entry of this architecture can say it.
    fn access(self) -> PageAccess;
}
