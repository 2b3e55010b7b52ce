//! Where a key's page is: buckets of one cache line, each with a lock and seven entries.
//!
//! An entry says (number, generation). It is stale when the frame's generation is another one (C8),
//! and then its place is as good as empty. Discarding never has to search the index.
//!
//! An entry has room for the lower 32 bits of the generation, which a frame counts through in
//! minutes. So an entry that matches proves nothing: the descriptor's key is compared too, and
//! every CPU that acts upon a page does so with the whole generation, as the state word had it. A
//! bucket names each descriptor at most once: a put that enters a page writes over an entry that an
//! earlier page left behind in the same bucket. So an entry that matches, in the bucket of its
//! descriptor's key, is the one that the page there was put with.

use super::{FrameTable, SECTION};
use crate::platform::FramePlatform;
use crate::raw::{record, soon_written};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

record! {
    /// A bucket: one cache line.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct IndexBucket {
        /// Its lock; above it, how often something in it was invalidated or put.
        lock: AtomicU64,
        entries: [AtomicU64; 7],
    } = 8 words;
}

const LOCKED: u64 = 1;
const CHANGE: u64 = 2;

/// An entry of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct PageEntry(u64);

/// How much of a generation an entry remembers: in a model next to nothing, so that stale entries
/// look valid as often as can be.
const REMEMBERED: u64 = if cfg!(shuttle) { 1 } else { 0xffff_ffff };

impl PageEntry {
    const NONE: Self = Self(0);

    pub(in super::super) const fn new(id: usize, generation: u64) -> Self {
        Self((id as u64 + 1) << 32 | generation & REMEMBERED)
    }

    pub(in super::super) const fn id(self) -> usize {
        (self.0 >> 32) as usize - 1
    }

    /// Whether it is of that generation, as far as it remembers.
    pub(in super::super) const fn is_of(self, generation: u64) -> bool {
        self.0 & 0xffff_ffff == generation & REMEMBERED
    }

    /// Whether the descriptors of both are behind one gate.
    pub(in super::super) const fn has_gate_of(self, other: Self) -> bool {
        self.id() / SECTION == other.id() / SECTION
    }

    /// Whether both name the same descriptor.
    const fn is_beside(self, other: Self) -> bool {
        self.0 >> 32 == other.0 >> 32
    }
}

/// All buckets, a power of two of them.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PageIndex<'m> {
    buckets: &'m [IndexBucket],
}

impl<'m> PageIndex<'m> {
    /// How many buckets that many pages have: two pages a bucket at most, so that one in a thousand
    /// buckets is full when all frames are (Poisson: more than 7 where 2 are expected).
    pub(in super::super) const fn buckets(pages: usize) -> usize {
        pages.div_ceil(2).next_power_of_two()
    }

    pub(in super::super) const fn new(buckets: &'m [IndexBucket]) -> Self {
        Self { buckets }
    }

    #[inline]
    pub(in super::super) fn bucket(&self, hash: u64) -> Bucket<'m> {
        Bucket {
            record: &self.buckets[hash as usize & (self.buckets.len() - 1)],
        }
    }

    /// Every bucket.
    pub(in super::super) fn all(&self) -> impl Iterator<Item = Bucket<'m>> + use<'m> {
        self.buckets.iter().map(|record| Bucket { record })
    }
}

/// One bucket: the entries of some keys.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Bucket<'m> {
    record: &'m IndexBucket,
}

impl<'m> Bucket<'m> {
    /// Its entries, without the lock: each may be stale.
    #[inline]
    pub(in super::super) fn entries(self) -> impl Iterator<Item = PageEntry> {
        // Acquire pairs with the Release in `LockedBucket::set`: the state word is published.
        let entries = self.record.entries.iter();
        let entries = entries.map(|word| PageEntry(word.load(Acquire)));
        entries.filter(|entry| *entry != PageEntry::NONE)
    }

    /// Whether it is the same one.
    pub(in super::super) fn is(self, other: Self) -> bool {
        core::ptr::eq(self.record, other.record)
    }

    /// Whether `entry` still stands in it.
    #[inline]
    pub(in super::super) fn has(self, entry: PageEntry) -> bool {
        self.entries().any(|other| other == entry)
    }

    /// Fetches the line ahead of its use.
    #[inline]
    pub(in super::super) fn fetch(self) {
        soon_written(&self.record.lock);
    }

    /// How often it has changed, if it is not locked.
    #[inline]
    pub(in super::super) fn ticket(self) -> Option<Ticket> {
        // Acquire pairs with the Release of the CPU that unlocked it: its entries.
        let seen = self.record.lock.load(Acquire);
        (seen & LOCKED == 0).then_some(Ticket(seen))
    }

    /// Whether it has not been locked, and has not changed, since the caller got `ticket`.
    #[inline]
    pub(in super::super) fn is_still_at(self, ticket: Ticket) -> bool {
        // Acquire: the reads of the entries before it are not delayed past it.
        fence(Acquire);
        self.record.lock.load(Relaxed) == ticket.0
    }

    /// Locks it, for a few loads and stores: no holder waits for anything.
    #[inline]
    pub(in super::super) fn lock(self, platform: &impl FramePlatform) -> LockedBucket<'m> {
        let lock = &self.record.lock;
        let mut attempt = 0;
        loop {
            let seen = lock.load(Relaxed);
            if seen & LOCKED == 0
                && lock
                    .compare_exchange_weak(seen, seen | LOCKED, Acquire, Relaxed)
                    .is_ok()
            {
                return LockedBucket {
                    record: self.record,
                    changes: seen,
                };
            }
            platform.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }
}

/// A bucket under its lock.
#[derive(Debug)]
pub(in super::super) struct LockedBucket<'m> {
    record: &'m IndexBucket,
    changes: u64,
}

/// How often a bucket had changed at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Ticket(u64);

impl LockedBucket<'_> {
    /// How often it has changed.
    pub(in super::super) const fn ticket(&self) -> Ticket {
        Ticket(self.changes)
    }

    /// Invalidates all tickets had until now.
    pub(in super::super) const fn change(&mut self) {
        self.changes = self.changes.wrapping_add(CHANGE);
    }

    /// The first entry for which `is` holds; `is` must tell stale ones.
    pub(in super::super) fn find(
        &self,
        mut is: impl FnMut(PageEntry) -> bool,
    ) -> Option<PageEntry> {
        let entries = self.record.entries.iter();
        let mut entries = entries.map(|word| PageEntry(word.load(Relaxed)));
        entries.find(|entry| *entry != PageEntry::NONE && is(*entry))
    }

    /// Forgets `entry`.
    pub(in super::super) fn remove(&mut self, entry: PageEntry) {
        if let Some(word) = self
            .record
            .entries
            .iter()
            .find(|word| word.load(Relaxed) == entry.0)
        {
            word.store(PageEntry::NONE.0, Relaxed);
        }
    }

    /// Whether `entry` still stands in it.
    pub(in super::super) fn has(&self, entry: PageEntry) -> bool {
        self.record
            .entries
            .iter()
            .any(|word| word.load(Relaxed) == entry.0)
    }

    /// Puts `new` in the place of `entry`, which stands in it: a reader finds one of the two.
    pub(in super::super) fn replace(&mut self, entry: PageEntry, new: PageEntry) {
        if let Some(left) = self.beside(new) {
            left.store(PageEntry::NONE.0, Relaxed);
        }
        let mut words = self.record.entries.iter();
        if let Some(word) = words.find(|word| word.load(Relaxed) == entry.0) {
            // Release, as in `insert`.
            word.store(new.0, Release);
        }
    }

    /// The entry that an earlier page of the same descriptor left, if any.
    fn beside(&self, entry: PageEntry) -> Option<&AtomicU64> {
        let mut words = self.record.entries.iter();
        words.find(|word| PageEntry(word.load(Relaxed)).is_beside(entry))
    }

    /// Puts `entry`, whose descriptor the caller has obtained, in the place of an earlier entry of
    /// the descriptor, or in an empty place, or in that of a stale entry. Returns whether there was
    /// such a place.
    pub(in super::super) fn insert(&mut self, entry: PageEntry, table: &FrameTable<'_>) -> bool {
        // Leaving a state always moves the generation on, so the entry of a page that is still on
        // its way in is not stale.
        let is_stale = |word: &&AtomicU64| {
            let old = PageEntry(word.load(Relaxed));
            old == PageEntry::NONE || !old.is_of(table.state(old.id()).generation())
        };
        let left = self.beside(entry);
        match left.or_else(|| self.record.entries.iter().find(is_stale)) {
            Some(word) => {
                // Release pairs with the Acquire in `entries`.
                word.store(entry.0, Release);
                true
            }
            None => false,
        }
    }
}

impl Drop for LockedBucket<'_> {
    fn drop(&mut self) {
        // Release: the entries.
        self.record.lock.store(self.changes & !LOCKED, Release);
    }
}
