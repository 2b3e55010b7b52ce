//! GCMA, version 2: the contiguous reserve of the fifth document, by its algorithm.
//!
//! ```text
//!   put ─▶ a frame: bitmap from bit 0, one lock ─▶ entry and key on the heap ─▶ copy ─▶ tree of its bucket ─▶ LRU
//!             │ none free: 32 pages from the end of the same client's LRU, again
//!
//!   take [start, end):  1  each frame: free ──▶ isolated;  else RECLAIMING, off the LRU, onto a list
//!                       2  each on the list: out of its tree; the thread with the last reference isolates it
//!                       3  is each isolated? no ──▶ again from there, without end
//! ```
//!
//! Two clients share the area: *cleancache* (clean pages of files) and *frontswap* (pages that are on
//! the swap device already: write-through). Each has its own buckets, 256 trees a pool with a lock
//! each, and one LRU list with one lock. The first fit in a bitmap of what
//! owners have decides which range an owner gets, as under CMA's interface.
//!
//! # What is mended
//! Always, because it would crash this process or write past its memory: a frame's link to its
//! bucket is a number, so that none is stale after its pool is gone (7); bits are counted from the
//! area's start and no frame number means success (9); a walk ends at the area's end (part of 3);
//! a second release of an entry is counted and not made (4); a pool's number is another pool's only after all pages of
//! the former one are gone.
//!
//! Only with [`Conduct::AsPublished`], for tests that show them: invalidating an object does nothing
//! (1); a refused store leaves the older copy (2); a retry walks as many frames as the request has
//! from where it was interrupted, and isolates frames behind the request (3); a frame's flags are cleared
//! outside the lock, and not at all when its owner gives it back, so that an owner is given a frame
//! that a store is writing to (5); a range that is owned is taken again (6). An experiment runs with
//! [`Conduct::Mended`], because those would hand wrong pages to its job.
//!
//! Kept in both: one client's pages are never evicted for the other's sake (8), the bitmap's scan
//! from 0 and two heap objects a page (9), a retry without end.
//!
//! # Locks
//! A bucket's, then an LRU's, then the area's: what the document calls `gcma->lock`. Beside them the
//! owners' bitmap's.
//!
//! # What is not here
//! debugfs; module parameters; several areas in turn, because there is one.
//!
//! # Sources
//! S. Park, "introduce gcma", LKML RFC v2, February 2015, by its description.

mod area;
mod dmem;
mod door;
mod take;
#[cfg(test)]
mod tests;

use area::{FrameFlags, GcmaFrames, OwnersBitmap};
use dmem::{BUCKETS, DmemClient, DmemEntry, DmemLru, DmemPool, lock};
use framewright::platform::ReservePlatform;
use framewright::reserve::{Key, PoolId, PutRefused};
use framewright::{Frame, Run};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What the area is lent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcmaKind {
    /// Clean pages of files.
    Cleancache,
    /// Swapped-out pages, which are on their device.
    Frontswap,
}

/// Which of the faults are there; see the [module's description](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Those that do not crash.
    AsPublished,
    /// Those that cost time only.
    Mended,
}

/// What was counted, for one client; under the document's names where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Pages stored.
    pub stored_pages: u64,
    /// Pages loaded.
    pub loaded_pages: u64,
    /// Loads that found nothing.
    pub load_failed_pages: u64,
    /// Pages dropped for other pages' sake.
    pub evicted_pages: u64,
    /// Pages dropped because an owner took their frame.
    pub reclaimed_pages: u64,
    /// Pages invalidated by key.
    pub invalidated_pages: u64,
    /// Stores for which there was no frame.
    pub refused_pages: u64,
}

#[derive(Debug, Default)]
struct GcmaCounts {
    stored: AtomicU64,
    loaded: AtomicU64,
    load_failed: AtomicU64,
    evicted: AtomicU64,
    reclaimed: AtomicU64,
    invalidated: AtomicU64,
    refused: AtomicU64,
}

/// What owners met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakeCounters {
    /// Ranges taken.
    pub takes: u64,
    /// Of frames taken, those that were free.
    pub taken_free: u64,
    /// Times a range was walked again because a frame was still in use.
    pub retries: u64,
    /// Nanoseconds from the first such look to the last.
    pub wait_ns: u64,
    /// Entries that the published code would have released twice (4).
    pub double_releases: u64,
}

/// Pools of each client at most: the document's cleancache has 16.
const POOLS_MAX: usize = 16;

/// Pages evicted at a time.
const EVICT_BATCH: usize = 32;

/// The area with its two clients; shared by reference among threads.
#[derive(Debug)]
pub struct Gcma<P> {
    platform: P,
    run: Run,
    conduct: Conduct,
    /// `gcma->lock`.
    area: Mutex<GcmaFrames>,
    flags: Vec<FrameFlags>,
    /// Pool and bucket of the page in each frame: stays when the page is gone.
    homes: Vec<AtomicU32>,
    pools: Vec<DmemPool>,
    lrus: [Mutex<DmemLru>; 2],
    counts: [GcmaCounts; 2],
    owners: Mutex<OwnersBitmap>,
    takes: Mutex<TakeCounters>,
}

/// Waits for a lock. A thread that panicked under it has failed its run already.
impl<P: ReservePlatform> Gcma<P> {
    /// An area whose frames are all free.
    ///
    /// # Panics
    /// If it has no frame, or 2^32 or more.
    #[must_use]
    pub fn new(run: Run, conduct: Conduct, platform: P) -> Self {
        let frames = u32::try_from(run.frames()).expect("fewer than 2^32 frames") as usize;
        assert!(frames > 0, "an area has frames");
        let client = |nth: usize| {
            if nth < POOLS_MAX {
                DmemClient::Clean
            } else {
                DmemClient::Swap
            }
        };
        Self {
            platform,
            run,
            conduct,
            area: Mutex::new(GcmaFrames::new(frames)),
            flags: (0..frames).map(|_| FrameFlags::default()).collect(),
            homes: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            pools: (0..2 * POOLS_MAX)
                .map(|nth| DmemPool::new(client(nth)))
                .collect(),
            lrus: [(); 2].map(|()| Mutex::new(DmemLru::new(frames))),
            counts: Default::default(),
            owners: Mutex::new(OwnersBitmap::new(frames)),
            takes: Mutex::default(),
        }
    }

    /// The frames.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.run
    }

    /// A pool of that kind; `None` if there are sixteen.
    #[must_use]
    pub fn open_pool(&self, kind: GcmaKind) -> Option<PoolId> {
        let ids = match kind {
            GcmaKind::Cleancache => 0..POOLS_MAX,
            GcmaKind::Frontswap => POOLS_MAX..2 * POOLS_MAX,
        };
        let id = { ids }.find(|&id| self.pools[id].open())?;
        Some(PoolId(id as u16))
    }

    /// Stores a page that may be dropped at any time.
    ///
    /// # Errors
    /// There is no such pool; or neither a free frame nor a page of the same client to evict: then the
    /// older copy is gone, or with [`Conduct::AsPublished`] still there (2).
    pub fn put(&self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        let pool = self.pool(key.pool).ok_or(PutRefused::NoPool)?;
        let turn = pool.open_turn().ok_or(PutRefused::NoPool)?;
        let client = pool.client();
        let counts = &self.counts[client as usize];
        let frame = loop {
            if let Some(frame) = self.alloc_page() {
                break frame;
            }
            if self.evict(client) == 0 {
                counts.refused.fetch_add(1, Relaxed);
                if self.conduct == Conduct::Mended {
                    self.forget(key);
                }
                return Err(PutRefused::Full);
            }
        };
        let entry = Arc::new(DmemEntry::new(client, &key, frame));
        let bucket = dmem::bucket_of(client, &key);
        let home = u32::from(key.pool.0) * BUCKETS as u32 + bucket as u32;
        self.homes[frame].store(home, Relaxed);
        self.platform.store(self.frame(frame), page);
        let mut tree = lock(pool.bucket(bucket));
        if pool.open_turn() != Some(turn) {
            drop(tree);
            self.release(entry);
            return Err(PutRefused::NoPool);
        }
        while let Err(old) = tree.insert(&entry) {
            tree.remove(&old);
            self.leave_lru(&old, client);
            self.release(old);
        }
        // Inside the bucket's lock, so that no other thread takes the page out of its tree before it
        // is on the list.
        let mut lru = lock(&self.lrus[client as usize]);
        lru.push_front(frame, &entry);
        self.flags[frame].set(area::LRU);
        drop((lru, tree));
        self.release(entry);
        counts.stored.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Copies the page of `key` into `page` if it is there; it stays.
    pub fn get(&self, key: Key, page: &mut [u64; 512]) -> bool {
        let Some(pool) = self.pool(key.pool) else {
            return false;
        };
        let client = pool.client();
        let counts = &self.counts[client as usize];
        let bucket = pool.bucket(dmem::bucket_of(client, &key));
        let found = lock(bucket).find(client, &key);
        let Some(entry) = found else {
            counts.load_failed.fetch_add(1, Relaxed);
            return false;
        };
        self.platform.load(self.frame(entry.frame()), page);
        {
            let _tree = lock(bucket);
            let mut lru = lock(&self.lrus[client as usize]);
            if self.flags[entry.frame()].has(area::LRU) {
                lru.move_to_front(entry.frame());
            }
        }
        self.release(entry);
        counts.loaded.fetch_add(1, Relaxed);
        true
    }

    /// Forgets the page of `key`.
    pub fn invalidate_page(&self, key: Key) {
        if let Some(client) = self.forget(key) {
            self.counts[client as usize]
                .invalidated
                .fetch_add(1, Relaxed);
        }
    }

    /// Forgets the pages of an object: a walk over all trees of its pool, as the document's for a pool;
    /// with [`Conduct::AsPublished`] nothing (1).
    pub fn invalidate_object(&self, pool: PoolId, object: u64) {
        if self.conduct == Conduct::AsPublished {
            return;
        }
        self.forget_all(pool, |entry| entry.object() == object);
    }

    /// Forgets the pages of a pool, which is no more. Whether it was there.
    pub fn invalidate_pool(&self, pool: PoolId) -> bool {
        let Some(closed) = self.pool(pool).filter(|pool| pool.close()) else {
            return false;
        };
        self.forget_all(pool, |_| true);
        closed.emptied();
        true
    }

    /// What was counted of a client.
    #[must_use]
    pub fn counters(&self, kind: GcmaKind) -> ClientCounters {
        let counts = &self.counts[match kind {
            GcmaKind::Cleancache => DmemClient::Clean,
            GcmaKind::Frontswap => DmemClient::Swap,
        } as usize];
        ClientCounters {
            stored_pages: counts.stored.load(Relaxed),
            loaded_pages: counts.loaded.load(Relaxed),
            load_failed_pages: counts.load_failed.load(Relaxed),
            evicted_pages: counts.evicted.load(Relaxed),
            reclaimed_pages: counts.reclaimed.load(Relaxed),
            invalidated_pages: counts.invalidated.load(Relaxed),
            refused_pages: counts.refused.load(Relaxed),
        }
    }

    /// What owners met.
    #[must_use]
    pub fn take_counters(&self) -> TakeCounters {
        *lock(&self.takes)
    }

    /// Frames that neither a page nor an owner has.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        lock(&self.area).free()
    }

    const fn frame(&self, nth: usize) -> Frame {
        Frame(self.run.start().0 + nth as u64)
    }

    fn pool(&self, pool: PoolId) -> Option<&DmemPool> {
        self.pools.get(usize::from(pool.0)).filter(|p| p.is_open())
    }

    /// Takes the page of `key` out of tree and list; whose it was.
    fn forget(&self, key: Key) -> Option<DmemClient> {
        let pool = self.pool(key.pool)?;
        let client = pool.client();
        let mut tree = lock(pool.bucket(dmem::bucket_of(client, &key)));
        let entry = tree.find(client, &key)?;
        tree.remove(&entry);
        self.leave_lru(&entry, client);
        drop(tree);
        self.release(entry);
        Some(client)
    }

    fn forget_all(&self, pool: PoolId, is_meant: impl Fn(&DmemEntry) -> bool) {
        let Some(pool) = self.pools.get(usize::from(pool.0)) else {
            return;
        };
        for bucket in pool.buckets() {
            let mut tree = lock(bucket);
            for entry in tree.remove_where(&is_meant) {
                self.leave_lru(&entry, pool.client());
                self.release(entry);
            }
        }
    }

    fn leave_lru(&self, entry: &DmemEntry, client: DmemClient) {
        let mut lru = lock(&self.lrus[client as usize]);
        let flags = &self.flags[entry.frame()];
        if flags.has(area::LRU) {
            lru.unlink(entry.frame());
            flags.clear(area::LRU);
        }
    }

    /// Drops a reference; the last one gives the frame back, to its owner if it is being taken.
    fn release(&self, entry: Arc<DmemEntry>) {
        let Some(entry) = Arc::into_inner(entry) else {
            return;
        };
        let frame = entry.frame();
        let mut area = lock(&self.area);
        let flags = &self.flags[frame];
        if flags.has(area::RECLAIMING) {
            flags.replace(area::ISOLATED);
        } else {
            area.clear(frame);
        }
    }

    /// A frame for a page: the first free one.
    fn alloc_page(&self) -> Option<usize> {
        let mut area = lock(&self.area);
        let frame = area.take_first()?;
        if self.conduct == Conduct::AsPublished {
            drop(area);
        }
        self.flags[frame].replace(0);
        Some(frame)
    }

    /// Evicts up to 32 pages of a client; how many.
    fn evict(&self, client: DmemClient) -> usize {
        let mut victims = Vec::with_capacity(EVICT_BATCH);
        {
            let mut lru = lock(&self.lrus[client as usize]);
            while victims.len() < EVICT_BATCH
                && let Some(frame) = lru.last()
            {
                let entry = lru.entry(frame);
                lru.unlink(frame);
                self.flags[frame].clear(area::LRU);
                // `None`: another thread has just dropped the last reference, and gives the frame back.
                victims.extend(entry);
            }
        }
        let evicted = victims.len();
        for entry in victims {
            self.drop_from_tree(entry);
        }
        self.counts[client as usize]
            .evicted
            .fetch_add(evicted as u64, Relaxed);
        evicted
    }

    /// Takes an entry that is off its list out of its tree, and drops the reference to it.
    fn drop_from_tree(&self, entry: Arc<DmemEntry>) {
        let home = self.homes[entry.frame()].load(Relaxed) as usize;
        let pool = &self.pools[home / BUCKETS];
        let mut tree = lock(pool.bucket(home % BUCKETS));
        match tree.find_like(&entry) {
            Some(found) if Arc::ptr_eq(&found, &entry) => {
                tree.remove(&entry);
                self.release(found);
            }
            // The key was stored again meanwhile: the published code releases `entry` once more.
            Some(found) => {
                lock(&self.takes).double_releases += 1;
                self.release(found);
            }
            None => {}
        }
        drop(tree);
        self.release(entry);
    }
}
