//! Where the pages are: a slot for each frame, found by (file, page) or by the frame.

use crate::ram::Ram;
use framewright::Frame;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// No slot.
pub(in crate::file_cache) const NONE: u32 = u32::MAX;
/// Parts of the table with a lock each. A power of two.
const SHARDS: usize = 64;

/// A page's name: its file and its number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::file_cache) struct PageKey {
    pub(in crate::file_cache) file: u64,
    pub(in crate::file_cache) page: u64,
}

/// The state of a slot's frame. See the [module's description](super).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(in crate::file_cache) enum SlotState {
    /// Not the cache's.
    Free,
    /// The cache's, with no page in it.
    Held,
    /// A page is on its way in.
    Filling,
    /// A page.
    Ready,
    /// A page on its way out.
    Leaving,
    /// A page on its way to another frame, or from one.
    Moving,
    /// A pinned page that belongs to no file now.
    Orphan,
}

const STATES: u32 = 7;
const DIRTY: u32 = 8;
const WRITING: u32 = 16;
const AHEAD: u32 = 32;

/// What is known of one frame.
#[derive(Debug)]
pub(in crate::file_cache) struct CacheSlot {
    file: AtomicU64,
    page: AtomicU64,
    flags: AtomicU32,
    /// How many threads copy from or to it now: grows only under the shard's lock.
    users: AtomicU32,
    pins: AtomicU32,
    /// The next in the bucket.
    chain: AtomicU32,
    pub(super) newer: AtomicU32,
    pub(super) older: AtomicU32,
    pub(super) visited: AtomicBool,
}

impl CacheSlot {
    // Relaxed everywhere: under the shard's lock, or checked again under it.
    pub(in crate::file_cache) fn key(&self) -> PageKey {
        PageKey {
            file: self.file.load(Relaxed),
            page: self.page.load(Relaxed),
        }
    }

    pub(in crate::file_cache) fn state(&self) -> SlotState {
        match self.flags.load(Relaxed) & STATES {
            0 => SlotState::Free,
            1 => SlotState::Held,
            2 => SlotState::Filling,
            3 => SlotState::Ready,
            4 => SlotState::Leaving,
            5 => SlotState::Moving,
            _ => SlotState::Orphan,
        }
    }

    pub(in crate::file_cache) fn set_state(&self, state: SlotState) {
        let others = self.flags.load(Relaxed) & !STATES;
        self.flags.store(others | state as u32, Relaxed);
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    fn set(&self, flag: u32, on: bool) {
        let others = self.flags.load(Relaxed) & !flag;
        self.flags
            .store(others | if on { flag } else { 0 }, Relaxed);
    }

    pub(in crate::file_cache) fn is_dirty(&self) -> bool {
        self.has(DIRTY)
    }

    pub(in crate::file_cache) fn set_dirty(&self, on: bool) {
        self.set(DIRTY, on);
    }

    pub(in crate::file_cache) fn is_writing(&self) -> bool {
        self.has(WRITING)
    }

    pub(in crate::file_cache) fn set_writing(&self, on: bool) {
        self.set(WRITING, on);
    }

    pub(super) fn is_ahead(&self) -> bool {
        self.has(AHEAD)
    }

    pub(in crate::file_cache) fn set_ahead(&self, on: bool) {
        self.set(AHEAD, on);
    }

    /// Whether no thread copies from or to it. Acquire pairs with the Release in
    /// [`CacheTable::release`].
    pub(in crate::file_cache) fn is_idle(&self) -> bool {
        self.users.load(Acquire) == 0
    }

    pub(in crate::file_cache) fn hold(&self) {
        self.users.fetch_add(1, Relaxed);
    }

    pub(in crate::file_cache) fn pins(&self) -> u32 {
        self.pins.load(Relaxed)
    }

    pub(in crate::file_cache) fn set_pins(&self, pins: u32) {
        self.pins.store(pins, Relaxed);
    }

    /// The next in a list of slots that are in no bucket.
    pub(in crate::file_cache) fn next(&self) -> u32 {
        self.chain.load(Relaxed)
    }

    pub(in crate::file_cache) fn set_next(&self, id: u32) {
        self.chain.store(id, Relaxed);
    }

    pub(super) fn neighbours(&self) -> (u32, u32) {
        (self.newer.load(Relaxed), self.older.load(Relaxed))
    }

    /// Takes over whether the other one is dirty, read ahead and visited.
    pub(in crate::file_cache) fn take_marks(&self, other: &Self) {
        self.set_dirty(other.is_dirty());
        self.set_ahead(other.is_ahead());
        let visited = other.visited.load(Relaxed);
        self.visited.store(visited, Relaxed);
    }

    /// Makes it an empty slot of that state.
    pub(in crate::file_cache) fn reset(&self, state: SlotState) {
        self.flags.store(state as u32, Relaxed);
        self.visited.store(false, Relaxed);
    }
}

/// A slot for each frame of the RAM.
#[derive(Debug)]
pub(in crate::file_cache) struct CacheSlots(Box<[CacheSlot]>);

impl CacheSlots {
    #[inline]
    pub(in crate::file_cache) fn get(&self, id: u32) -> &CacheSlot {
        &self.0[id as usize]
    }
}

/// Threads waiting in a shard.
#[derive(Debug, Default)]
struct Waiting {
    waiters: u32,
}

#[repr(align(128))]
#[derive(Debug, Default)]
struct CacheShard {
    lock: Mutex<Waiting>,
    changed: Condvar,
    /// Counted under the lock.
    hits: AtomicU64,
    ahead_hits: AtomicU64,
}

/// The table.
#[derive(Debug)]
pub(in crate::file_cache) struct CacheTable {
    pub(in crate::file_cache) slots: CacheSlots,
    heads: Box<[AtomicU32]>,
    shards: Box<[CacheShard]>,
    first: u64,
}

/// A page that a thread copies from or to: it keeps its contents and its place.
#[derive(Debug)]
pub(in crate::file_cache) struct HeldPage<'t> {
    table: &'t CacheTable,
    pub(in crate::file_cache) id: u32,
}

impl Drop for HeldPage<'_> {
    fn drop(&mut self) {
        self.table.release(self.id);
    }
}

/// A bucket with its shard locked.
pub(in crate::file_cache) struct LockedChain<'t> {
    table: &'t CacheTable,
    shard: &'t CacheShard,
    guard: MutexGuard<'t, Waiting>,
    key: PageKey,
}

impl CacheTable {
    pub(in crate::file_cache) fn new(ram: &Ram) -> Self {
        let frames = ram.frames().frames() as usize;
        assert!(
            frames < NONE as usize,
            "a cache over at most 2^32 - 2 frames"
        );
        let slot = |_| CacheSlot {
            file: AtomicU64::new(0),
            page: AtomicU64::new(0),
            flags: AtomicU32::new(SlotState::Free as u32),
            users: AtomicU32::new(0),
            pins: AtomicU32::new(0),
            chain: AtomicU32::new(NONE),
            newer: AtomicU32::new(NONE),
            older: AtomicU32::new(NONE),
            visited: AtomicBool::new(false),
        };
        let buckets = frames.next_power_of_two().max(SHARDS);
        Self {
            slots: CacheSlots((0..frames).map(slot).collect()),
            heads: (0..buckets).map(|_| AtomicU32::new(NONE)).collect(),
            shards: (0..SHARDS).map(|_| CacheShard::default()).collect(),
            first: ram.frames().start().0,
        }
    }

    #[inline]
    pub(in crate::file_cache) fn slot(&self, id: u32) -> &CacheSlot {
        self.slots.get(id)
    }

    #[inline]
    pub(in crate::file_cache) fn frame(&self, id: u32) -> Frame {
        Frame(self.first + u64::from(id))
    }

    pub(in crate::file_cache) fn id_of(&self, frame: Frame) -> Option<u32> {
        let id = frame.0.checked_sub(self.first)?;
        (id < self.slots.0.len() as u64).then_some(id as u32)
    }

    #[inline]
    fn bucket(&self, key: PageKey) -> usize {
        // A multiplication for each part, and the better half of the product.
        let n = (key.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key.page)
            .wrapping_mul(0xd6e8_feb8_6659_fd93);
        (n ^ n >> 32) as usize & (self.heads.len() - 1)
    }

    /// The lock of a page's shard.
    #[inline]
    pub(in crate::file_cache) fn lock(&self, key: PageKey) -> LockedChain<'_> {
        let shard = &self.shards[self.bucket(key) % SHARDS];
        LockedChain {
            table: self,
            shard,
            guard: shard.lock.lock().unwrap_or_else(PoisonError::into_inner),
            key,
        }
    }

    /// The page, held, if it is there; waits while it is in transit. `is_new_use` says whether the
    /// use makes it visited.
    #[inline]
    pub(in crate::file_cache) fn hold(
        &self,
        key: PageKey,
        is_new_use: bool,
    ) -> Option<HeldPage<'_>> {
        let mut locked = self.lock(key);
        loop {
            let id = locked.find()?;
            let slot = self.slot(id);
            if slot.state() == SlotState::Ready {
                slot.hold();
                let shard = locked.shard;
                let mut counter = &shard.hits;
                if slot.is_ahead() {
                    // The first use of a page that was read ahead counts as if it had been read in
                    // now.
                    slot.set_ahead(false);
                    counter = &shard.ahead_hits;
                } else if is_new_use && !slot.visited.load(Relaxed) {
                    slot.visited.store(true, Relaxed);
                }
                counter.store(counter.load(Relaxed) + 1, Relaxed);
                return Some(HeldPage { table: self, id });
            }
            locked = locked.wait();
        }
    }

    /// A page that was [held](CacheSlot::hold) by hand.
    pub(in crate::file_cache) fn held(&self, id: u32) -> HeldPage<'_> {
        HeldPage { table: self, id }
    }

    #[inline]
    fn release(&self, id: u32) {
        // Release: a thread that finds it idle sees what was copied before.
        self.slot(id).users.fetch_sub(1, Release);
    }

    /// Whether the page is there, or on its way.
    pub(in crate::file_cache) fn has(&self, key: PageKey) -> bool {
        self.lock(key).find().is_some()
    }

    /// Hits, and those among them that were the first use of a page that was read ahead.
    pub(in crate::file_cache) fn hits(&self) -> (u64, u64) {
        let sum = |counter: fn(&CacheShard) -> &AtomicU64| {
            let all = self.shards.iter().map(|shard| counter(shard).load(Relaxed));
            all.sum::<u64>()
        };
        let ahead = sum(|shard| &shard.ahead_hits);
        (sum(|shard| &shard.hits) + ahead, ahead)
    }
}

impl<'t> LockedChain<'t> {
    /// The slot of the page.
    #[inline]
    pub(in crate::file_cache) fn find(&self) -> Option<u32> {
        let mut at = self.head().load(Relaxed);
        while at != NONE {
            let slot = self.table.slot(at);
            if slot.key() == self.key {
                return Some(at);
            }
            at = slot.chain.load(Relaxed);
        }
        None
    }

    /// Whether the page is in that slot, and in that state.
    pub(in crate::file_cache) fn is(&self, id: u32, state: SlotState) -> bool {
        self.find() == Some(id) && self.table.slot(id).state() == state
    }

    fn head(&self) -> &'t AtomicU32 {
        &self.table.heads[self.table.bucket(self.key)]
    }

    /// Records that the page is in the slot, which is in no bucket.
    pub(in crate::file_cache) fn insert(&self, id: u32) {
        let slot = self.table.slot(id);
        slot.file.store(self.key.file, Relaxed);
        slot.page.store(self.key.page, Relaxed);
        slot.chain.store(self.head().load(Relaxed), Relaxed);
        self.head().store(id, Relaxed);
    }

    /// Records that the page is no longer in the slot.
    pub(in crate::file_cache) fn remove(&self, id: u32) {
        let mut link = self.head();
        while link.load(Relaxed) != id {
            link = &self.table.slot(link.load(Relaxed)).chain;
        }
        link.store(self.table.slot(id).chain.load(Relaxed), Relaxed);
    }

    /// Waits until another thread reports that something in the shard has [changed](Self::changed).
    pub(in crate::file_cache) fn wait(mut self) -> Self {
        self.guard.waiters += 1;
        let guard = self.shard.changed.wait(self.guard);
        self.guard = guard.unwrap_or_else(PoisonError::into_inner);
        self.guard.waiters -= 1;
        self
    }

    /// Unlocks and wakes the threads that wait in the shard.
    pub(in crate::file_cache) fn changed(self) {
        let has_waiters = self.guard.waiters > 0;
        drop(self.guard);
        if has_waiters {
            self.shard.changed.notify_all();
        }
    }
}
