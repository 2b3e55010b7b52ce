//! The records of a reserve: its own, those of guests' seats, and what is noted of each frame and each section of frames.

use super::super::PutRefused;
use super::pool::KINDS;
use crate::raw::record;
use crate::stats::REFUSALS;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Frames in a section: those for which one gate is. Fewer in shuttle's schedules, each of which has its
/// own reserve and never frees it.
pub(in super::super) const SECTION: usize = if cfg!(shuttle) { 64 } else { 512 };

/// Lanes of a section.
pub(in super::super) const SECTION_LANES: usize = SECTION / 64;

record! {
    /// The reserve's own. Written under the owners' lock, but for the fields that say otherwise.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct OwnersRecord {
        pub(in super::super) lock: AtomicU64,
        /// Where the search for a single frame goes on.
        pub(in super::super) cursor: AtomicU64,
        pub(in super::super) takes: AtomicU64,
        pub(in super::super) taken_free: AtomicU64,
        pub(in super::super) taken_cold: AtomicU64,
        pub(in super::super) takes_failed: AtomicU64,
        pub(in super::super) released: AtomicU64,
        pub(in super::super) taken_hot: AtomicU64,

        /// The lock of the CPU that writes dirty pages.
        pub(in super::super) cleaner: AtomicU64,
        /// Where the cleaner goes on, under its lock.
        pub(in super::super) clean_cursor: AtomicU64,
        /// Pages copied into ordinary frames; added to under no lock.
        pub(in super::super) put_back: AtomicU64,
        /// Runs that owners reserve now while they clear them.
        pub(in super::super) clearing: AtomicU64,
        /// The origin of the ordinary frames; 0 before the first. Set once, under no lock.
        pub(in super::super) supply: AtomicU64,
        /// Where reclaim goes on looking for spare frames: a hint, written under no lock.
        pub(in super::super) spare_cursor: AtomicU64,
        /// Pools opened, by kind.
        pub(in super::super) opened: [AtomicU64; KINDS as usize],
    } = 16 words, cleaner at 8;

    /// A guest's seat, without the pages that it holds by pool. Only the seat's CPU writes it.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct GuestRecord {
        pub(in super::super) taken: AtomicU64,
        /// The section whose gate the guest is inside of, plus one; 0 while it is inside none. Owners read it.
        pub(in super::super) inside: AtomicU64,
        _line: [AtomicU64; 6],

        /// What is counted, by kind of pool.
        pub(in super::super) counters: [GuestCounters; KINDS as usize],
    } = 40 words, counters at 8;

    /// What a seat counts for the pools of one kind.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct GuestCounters {
        pub(in super::super) stored: AtomicU64,
        pub(in super::super) loaded: AtomicU64,
        pub(in super::super) missed: AtomicU64,
        pub(in super::super) evicted: AtomicU64,
        pub(in super::super) invalidated_pages: AtomicU64,
        pub(in super::super) invalidated_objects: AtomicU64,
        pub(in super::super) invalidated_pools: AtomicU64,
        pub(in super::super) invalidate_failed: AtomicU64,
        pub(in super::super) refused: [AtomicU64; PutRefused::COUNT],
    } = 16 words;

    /// What is known of a page, beside its state word.
    #[derive(Debug)]
    #[repr(C)]
    pub(in super::super) struct Descriptor {
        pub(in super::super) object: AtomicU64,
        /// The page's number in the object.
        pub(in super::super) index: AtomicU64,
        /// The generations of pool and object when the page was put.
        pub(in super::super) born: AtomicU64,
        /// The neighbours in the eviction queue.
        pub(super) links: AtomicU64,
        /// The word that a page without a frame repeats. In a descriptor for an ordinary frame: the number of that
        /// frame plus one, or 0 if it has none.
        pub(in super::super) value: AtomicU64,
    } = 5 words;

    /// What one bit each says of 64 frames: one cache line.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct Lane {
        /// Free frames.
        pub(in super::super) free: AtomicU64,
        /// Frames that belong to a reservation, or to a run that an owner clears.
        pub(in super::super) reserved: AtomicU64,
        /// Pages that were got since the hand passed.
        pub(in super::super) visited: AtomicU64,
        /// Frames that owners have.
        pub(in super::super) owned: AtomicU64,
        /// Frames with pages that are not on their device.
        pub(in super::super) dirty: AtomicU64,
        /// Those of the dirty ones that may be copied into an ordinary frame.
        pub(in super::super) movable: AtomicU64,
        /// Descriptors for ordinary frames that have a frame.
        pub(in super::super) stocked: AtomicU64,
    } = 8 words;

    /// What is noted of a section of frames.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct SectionRecord {
        /// See `SHUT`. On a line of its own: an owner that puts a page back counts itself here. A guest says
        /// in its seat's record that it is inside.
        pub(super) gate: AtomicU64,
        _line: [AtomicU64; 7],

        pub(in super::super) lanes: [Lane; SECTION_LANES],
    }
}

const _: () = assert!(PutRefused::COUNT == REFUSALS.len());

/// Adds to a word that only the holder of a lock writes, for that holder.
pub(in super::super) fn add(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}

impl Descriptor {
    /// Says of its page what `other` says: the object, the number in it, and when the page was put.
    pub(in super::super) fn name_page_of(&self, other: &Self) {
        let copy = |to: &AtomicU64, from: &AtomicU64| to.store(from.load(Relaxed), Relaxed);
        copy(&self.object, &other.object);
        copy(&self.index, &other.index);
        copy(&self.born, &other.born);
    }
}

impl Lane {
    /// Frames with dirty pages.
    #[inline]
    pub(in super::super) fn dirty(&self) -> u64 {
        self.dirty.load(Relaxed)
    }

    /// Frames that are an owner's or have dirty pages.
    #[inline]
    pub(in super::super) fn owned_or_dirty(&self) -> u64 {
        self.owned.load(Relaxed) | self.dirty()
    }

    /// Frames that are reserved or an owner's.
    #[inline]
    pub(in super::super) fn unavailable(&self) -> u64 {
        self.reserved.load(Relaxed) | self.owned.load(Relaxed)
    }

    /// Frames that are reserved, or an owner's, or have dirty pages.
    #[inline]
    pub(in super::super) fn unavailable_or_dirty(&self) -> u64 {
        self.unavailable() | self.dirty()
    }

    /// Frames whose pages are dirty and must stay where they are, if those that may be copied may be.
    #[inline]
    pub(in super::super) fn staying(&self, put_back: bool) -> u64 {
        match (self.dirty.load(Relaxed), put_back) {
            (0, _) => 0,
            (dirty, false) => dirty,
            (dirty, true) => dirty & !self.movable.load(Relaxed),
        }
    }
}
