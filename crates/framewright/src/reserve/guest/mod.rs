//! A CPU's way into the reserve for guests: [put](put), [get](get), [invalidate](invalidate).
//!
//! This file holds what the three share: the key, the seat, and how a page is found by its key and
//! leaves. A page leaves in two steps. Its entry goes out of the index, under the bucket's lock; then
//! its generation moves on, so that a get which found the entry before serves nothing. If another
//! CPU is just copying the page, that CPU gives the descriptor back when it is done.
//!
//! Only the seat's CPU writes the seat (`GuestRecord`). A guest takes no lock of rank 1. It is inside one gate at
//! a time (rank 2), and holds a bucket's lock (rank 4) for a few loads and stores. Keeps C4 to C7.

mod clean;
mod descriptor;
mod get;
mod invalidate;
mod put;

pub use clean::Cleaned;

use super::area::Reserve;
use super::table::{
    Born, Bucket, Descriptor, FrameState, GuestCounters, GuestRecord, InsideFrom, KINDS,
    LockedBucket, PageEntry, PoolId, StateWord, Ticket,
};
use crate::platform::ReservePlatform;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::CpuId;
use core::cell::Cell;
use core::marker::PhantomData;

/// The name of a guest's page.
///
/// Its place in the index is a hash without a secret. A guest that chooses its keys can choose
/// eight that share a bucket of seven entries, and one of its own clean pages is then dropped for
/// another. Where the pages in the bucket are dirty, a further put there is
/// [refused](super::PutRefused::IndexFull), even that of another guest. A guest that lets strangers choose
/// objects or indices must hash them with a secret key first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The pool.
    pub pool: PoolId,
    /// The object, such as a file; 0 where a pool has only one.
    pub object: u64,
    /// The page in the object.
    pub index: u64,
}

impl Key {
    pub(super) fn object_hash(&self) -> u64 {
        mixed(u64::from(self.pool.0) << 48 ^ self.object)
    }
}

impl Descriptor {
    /// The name of its page, which is of that pool.
    pub(super) fn key(&self, pool: usize) -> Key {
        Key {
            pool: PoolId(pool as u16),
            object: self.object.load(Relaxed),
            index: self.index.load(Relaxed),
        }
    }
}

/// A well-mixed number (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
const fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// A page by the whole generation of its descriptor, which tells it from the pages before and after
/// it. An entry of the index remembers less.
#[derive(Clone, Copy, Debug)]
struct PageVersion {
    id: usize,
    generation: u64,
}

/// The seat of one CPU, for guests; given back when dropped.
///
/// Calls with one key are to be serialised by the callers, as a kernel's page lock does; if they
/// are not, each call still has an effect as if it happened alone.
#[derive(Debug)]
pub struct Guest<'r, 'm, P> {
    reserve: &'r Reserve<'m, P>,
    record: &'m GuestRecord,
    /// Pages held, by pool: those that came by this seat less those that went; wraps.
    held: &'m [AtomicU64],
    cpu: CpuId,
    /// The shard in which the next page is evicted.
    pub(super) next_shard: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl<P> Drop for Guest<'_, '_, P> {
    fn drop(&mut self) {
        // Release: the next CPU to take the seat sees its counters.
        self.record.taken.store(0, Release);
    }
}

impl<'m, P> Reserve<'m, P> {
    /// The seat of `cpu` for guests, until it is dropped. `None` if the seat is taken, or the
    /// reserve has none for this CPU.
    pub fn guest(&self, cpu: CpuId) -> Option<Guest<'_, 'm, P>> {
        Guest::take(self, cpu)
    }
}

impl<'r, 'm, P> Guest<'r, 'm, P> {
    pub(super) fn take(reserve: &'r Reserve<'m, P>, cpu: CpuId) -> Option<Self> {
        let (record, held) = reserve.seat(cpu)?;
        // Acquire pairs with the Release in `drop`.
        let taken = record.taken.swap(1, Acquire);
        (taken == 0).then(|| Self {
            reserve,
            record,
            held,
            cpu,
            next_shard: usize::from(cpu.0),
            not_sync: PhantomData,
        })
    }
}

impl<'r, 'm, P: ReservePlatform> Guest<'r, 'm, P> {
    pub(super) const fn reserve(&self) -> &'r Reserve<'m, P> {
        self.reserve
    }

    /// The record of the seat.
    pub(super) const fn record(&self) -> &'m GuestRecord {
        self.record
    }

    /// The CPU that the seat belongs to.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Counts something of the kind that `pool` is of.
    #[inline]
    pub(super) fn count(&self, pool: usize, counter: impl Fn(&GuestCounters) -> &AtomicU64) {
        // Only this seat writes the word.
        let word = counter(&self.record.counters[pool % usize::from(KINDS)]);
        word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(super) fn hold(&self, pool: usize, by: u64) {
        let word = &self.held[pool];
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }

    fn bucket(&self, key: &Key, object_hash: u64) -> Bucket<'m> {
        self.reserve.bucket(key, object_hash)
    }

    /// Where the page of `entry` is, if it is `key`'s and has arrived.
    #[inline]
    pub(super) fn page_of(&self, entry: PageEntry, key: &Key) -> Option<(usize, StateWord)> {
        let word = self.reserve.table.state(entry.id());
        (word.has_page() && self.is_of_state(entry, word, key)).then_some((entry.id(), word))
    }

    /// Whether a page of `entry` is `key`'s, already there or on its way in.
    #[inline]
    fn is_of(&self, entry: PageEntry, key: &Key) -> bool {
        self.is_of_state(entry, self.reserve.table.state(entry.id()), key)
    }

    #[inline]
    fn is_of_state(&self, entry: PageEntry, word: StateWord, key: &Key) -> bool {
        if !entry.is_of(word.generation()) || word.pool() != usize::from(key.pool.0) {
            return false;
        }
        let desc = self.reserve.table.desc(entry.id());
        desc.object.load(Relaxed) == key.object && desc.index.load(Relaxed) == key.index
    }

    /// Takes the entry of `key` out of its bucket, and drops the page. Returns the bucket's ticket, which an
    /// invalidation makes a new one.
    ///
    /// Enters the gate first, and then locks the bucket: while this waits, and so may unwind, nothing has
    /// changed. A dirty page without an entry would reach its device after it was invalidated.
    fn forget(&self, bucket: Bucket<'m>, key: &Key, invalidates: bool) -> Ticket {
        let (table, platform) = (&self.reserve.table, &self.reserve.platform);
        let mut at = bucket.entries().find(|entry| self.is_of(*entry, key));
        loop {
            let inside =
                at.map(|entry| (entry, table.enter_from(entry.id(), self.record, platform)));
            let mut locked = bucket.lock(platform);
            let found = locked.find(|entry| self.is_of(entry, key));
            let gate = inside.filter(|(of, _)| found.is_some_and(|entry| entry.has_gate_of(*of)));
            if found.is_some() && gate.is_none() {
                // It came, or was moved, after the look.
                at = found;
                continue;
            }
            let old = self.remove(&mut locked, |entry, word| {
                self.is_of_state(entry, word, key)
            });
            if invalidates {
                locked.change();
            }
            let ticket = locked.ticket();
            drop(locked);
            if let (Some(old), Some((_, inside))) = (old, gate) {
                self.drop_page(old, &inside);
            }
            return ticket;
        }
    }

    /// Takes the first entry for which `is` holds, given its descriptor's state, out of its bucket.
    /// Returns the page that it names.
    fn remove(
        &self,
        locked: &mut LockedBucket<'_>,
        is: impl Fn(PageEntry, StateWord) -> bool,
    ) -> Option<PageVersion> {
        let mut generation = 0;
        let entry = locked.find(|entry| {
            let word = self.reserve.table.state(entry.id());
            generation = word.generation();
            is(entry, word)
        })?;
        locked.remove(entry);
        let id = entry.id();
        Some(PageVersion { id, generation })
    }

    /// The same for a caller inside no gate.
    fn enter_and_drop(&self, page: PageVersion) {
        let reserve = self.reserve;
        let inside = reserve
            .table
            .enter_from(page.id, self.record, &reserve.platform);
        self.drop_page(page, &inside);
    }

    /// Drops a page whose entry has left the index, if the page is still there. The caller is inside its gate.
    fn drop_page(&self, PageVersion { id, generation }: PageVersion, inside: &InsideFrom<'_>) {
        let table = &self.reserve.table;
        loop {
            let word = table.state(id);
            if word.generation() != generation {
                return;
            }
            if matches!(
                word.state(),
                FrameState::Writing | FrameState::Loading | FrameState::Filling
            ) {
                // The CPU that is copying it gives the frame back when it is done.
                if table.change(id, word, word.next(word.state(), word.pool())) {
                    return;
                }
            } else if !word.has_page() {
                return;
            } else if table.change(id, word, word.next(FrameState::Filling, word.pool())) {
                if word.is_dirty() {
                    self.reserve.dirty_no_more(id, word.pool());
                }
                self.release(id, table.state(id), inside);
                return;
            }
        }
    }

    /// Frees a descriptor that this CPU holds in a state of transit.
    pub(super) fn release(&self, id: usize, word: StateWord, _inside: &InsideFrom<'_>) {
        let reserve = self.reserve;
        reserve
            .table
            .publish(id, word.next(FrameState::Free, word.pool()));
        self.hold(word.pool(), 1u64.wrapping_neg());
        reserve.table.set_free(id);
        reserve.tell_free(id);
    }
}

impl<'m, P> Reserve<'m, P> {
    /// Records that the page of a descriptor is no longer dirty, or no longer there.
    pub(super) fn dirty_no_more(&self, id: usize, pool: usize) {
        self.table.set_clean(id);
        self.pools.end_dirty(pool);
    }

    pub(super) fn bucket(&self, key: &Key, object_hash: u64) -> Bucket<'m> {
        self.index.bucket(mixed(object_hash ^ key.index))
    }

    /// Whether the page's object or pool was invalidated.
    pub(super) fn is_dead(&self, id: usize, word: StateWord) -> bool {
        let desc = self.table.desc(id);
        let key = desc.key(word.pool());
        let now = self.pools.now(key.pool, key.object_hash());
        now != Some(Born(desc.born.load(Relaxed)))
    }
}

/// Calls its closure if the platform panics in the middle of a copy.
struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Undo<F> {
    /// The copy has ended.
    const fn disarm(self) {
        core::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
