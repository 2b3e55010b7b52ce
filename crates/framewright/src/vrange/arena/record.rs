//! An arena's own words.

use crate::raw::record;
use crate::sync::AtomicU64;

record! {
    /// The words of an arena, in a cache line: CPUs which do not want the lock do not wait for its line. Its holder
    /// writes them; zeroes are an arena without a gap.
    #[derive(Debug)]
    #[repr(C)]
    pub(in super::super) struct ArenaRecord {
        pub(super) lock: AtomicU64,
        /// The root of the tree of gaps.
        pub(super) root: AtomicU64,
        /// How many pages the gaps have together, and how many gaps there are.
        pub(super) free_pages: AtomicU64,
        pub(super) gaps: AtomicU64,
        /// The length of the gap at the window's end.
        pub(super) end_pages: AtomicU64,
        /// A page behind which no other gap ends.
        pub(super) tree_end: AtomicU64,
        _rest: [AtomicU64; 2],
    } = 8 words;
}
