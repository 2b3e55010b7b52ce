//! Pools of pages, and the generations that make all pages of a pool or of an object invalid at
//! once.

use crate::raw::record;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The number of a pool. Those of cleancaches are even, those of frontswaps odd.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

impl PoolId {
    /// Whether every pool with this number is a frontswap's: the number alone tells a counter which kind to count.
    #[must_use]
    pub const fn is_swap(self) -> bool {
        !self.0.is_multiple_of(KINDS)
    }
}

/// How many kinds there are.
pub(in super::super) const KINDS: u16 = 2;
/// As many numbers as pools can have.
pub(in super::super) const POOLS_MAX: usize = 256 * KINDS as usize;

/// What a pool is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Its pages are swapped out (frontswap), and else of files (cleancache). That decides which counters count them,
    /// and nothing else.
    pub is_swap: bool,
    /// A get takes its page away: the caller has it then, and no second get finds it. Else a page
    /// stays, and a guest that changes its copy must invalidate it first.
    pub exclusive: bool,
    /// Pages may be put that are on no device yet. A hash collision must not cost such a page, so
    /// objects of the pool have no generation, and invalidating one walks over all frames.
    pub may_be_dirty: bool,
    /// How many of its pages may be on no device yet, exactly (write-back under a budget). Above
    /// it, a put of one is [refused](super::super::PutRefused::DirtyFull) until some are
    /// [cleaned](super::super::Guest::clean).
    pub dirty_pages_max: u64,
    /// A page that is on no device yet does not keep an owner from its frame. It is first copied
    /// into an ordinary frame (put-back), if the owner [hands
    /// in](super::super::Reserve::alloc_contig_with) a supply of them. Even so it never goes into a
    /// reservation (C3).
    pub put_back: bool,
    /// Pages that other pools leave to it when they evict.
    pub min_pages: u64,
    /// Pages above which it evicts its own.
    pub max_pages: u64,
}

impl PoolConfig {
    /// Of clean pages of files (cleancache): exclusive, no shares.
    pub const CLEAN: Self = Self {
        is_swap: false,
        exclusive: true,
        may_be_dirty: false,
        dirty_pages_max: u64::MAX,
        put_back: false,
        min_pages: 0,
        max_pages: u64::MAX,
    };

    /// Of swapped-out pages (frontswap): a page stays until it is invalidated, and may be dirty.
    pub const SWAP: Self = Self {
        is_swap: true,
        exclusive: false,
        may_be_dirty: true,
        ..Self::CLEAN
    };
}

record! {
    /// What is known of a pool: a line that gets read, and one that puts of dirty pages write.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct PoolRecord {
        /// Odd while it exists.
        generation: AtomicU64,
        is_exclusive: AtomicU64,
        min_pages: AtomicU64,
        max_pages: AtomicU64,
        may_be_dirty: AtomicU64,
        /// How often an object of it was invalidated by a walk.
        walks: AtomicU64,
        dirty_pages_max: AtomicU64,
        put_back: AtomicU64,

        /// How many of its pages are on no device yet.
        dirty: AtomicU64,
    } = 16 words, dirty at 8;
}

/// Pools, and generations of objects.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Pools<'m> {
    pools: &'m [PoolRecord],
    /// By hash: objects that share a hash are invalidated together.
    objects: &'m [AtomicU64],
}

/// A page counted as dirty. Dropping this takes it out of the count.
#[derive(Debug)]
pub(in super::super) struct Debt<'m>(&'m AtomicU64);

impl Debt<'_> {
    /// The page has arrived: the CPU that cleans or drops it takes it out of the count.
    pub(in super::super) const fn stays(self) {
        core::mem::forget(self);
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// When a page was put: the sum of the generations of its pool and its object.
///
/// Each of the two only ever grows, so the sum of the same two is unchanged exactly as long as both
/// are. One word holds it, at any width: it comes round after 2^63 invalidations. The highest bit
/// marks a pool whose objects have no generation: so a number that is reused for the other kind of
/// pool never has the same sum twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Born(pub(in super::super) u64);

impl Born {
    const OF_POOL_ALONE: u64 = 1 << 63;

    const fn new(of_pool: u64, of_object: Option<u64>) -> Self {
        match of_object {
            Some(of_object) => Self(of_pool.wrapping_add(of_object) & !Self::OF_POOL_ALONE),
            None => Self(of_pool | Self::OF_POOL_ALONE),
        }
    }
}

impl<'m> Pools<'m> {
    pub(in super::super) const fn new(pools: &'m [PoolRecord], objects: &'m [AtomicU64]) -> Self {
        Self { pools, objects }
    }

    /// How many pools there can be, of all kinds.
    pub(in super::super) const fn len(&self) -> usize {
        self.pools.len()
    }

    fn pool(&self, pool: PoolId) -> Option<&'m PoolRecord> {
        self.pools.get(usize::from(pool.0))
    }

    fn object(&self, hash: u64) -> &'m AtomicU64 {
        &self.objects[(hash >> 32) as usize % self.objects.len()]
    }

    /// The generations that a page put now has, if the pool exists.
    #[inline]
    pub(in super::super) fn now(&self, pool: PoolId, object_hash: u64) -> Option<Born> {
        // Acquire pairs with the Release of an invalidation.
        let record = self.pool(pool)?;
        let of_pool = record.generation.load(Acquire);
        let of_object = if record.may_be_dirty.load(Relaxed) != 0 {
            None
        } else {
            Some(self.object(object_hash).load(Acquire))
        };
        (of_pool & 1 != 0).then_some(Born::new(of_pool, of_object))
    }

    #[inline]
    pub(in super::super) fn is_exclusive(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|record| record.is_exclusive.load(Relaxed) != 0)
    }

    #[inline]
    pub(in super::super) fn may_be_dirty(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|record| record.may_be_dirty.load(Relaxed) != 0)
    }

    /// Whether its dirty pages are copied elsewhere when an owner wants their frames.
    #[inline]
    pub(in super::super) fn is_put_back(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|record| record.put_back.load(Relaxed) != 0)
    }

    /// Counts one more of its pages as dirty, if that many may be.
    pub(in super::super) fn begin_dirty(&self, pool: PoolId) -> Option<Debt<'m>> {
        let record = self.pool(pool)?;
        let debt = Debt(&record.dirty);
        // Relaxed: a count beside the pages; no decision about a page rests on it.
        (debt.0.fetch_add(1, Relaxed) < record.dirty_pages_max.load(Relaxed)).then_some(debt)
    }

    /// Counts one page less as dirty: it was cleaned, or is gone.
    pub(in super::super) fn end_dirty(&self, pool: usize) {
        self.pools[pool].dirty.fetch_sub(1, Relaxed);
    }

    /// How many of its pages are on no device yet; for a moment up to one too many for each CPU.
    pub(in super::super) fn dirty(&self, pool: usize) -> u64 {
        self.pools[pool].dirty.load(Relaxed)
    }

    /// How many walks there were. A put that was under way when a walk began is overtaken.
    #[inline]
    pub(in super::super) fn walks(&self, pool: PoolId) -> u64 {
        self.pool(pool)
            .map_or(0, |record| record.walks.load(Acquire))
    }

    /// The same, for a put that has obtained a descriptor since it first asked.
    #[inline]
    pub(in super::super) fn walks_once_more(&self, pool: PoolId) -> u64 {
        if !self.may_be_dirty(pool) {
            // This pool has no walks.
            return self.walks(pool);
        }
        fence(SeqCst);
        self.walks(pool)
    }

    pub(in super::super) fn begin_walk(&self, pool: PoolId) {
        if let Some(record) = self.pool(pool) {
            record.walks.fetch_add(1, AcqRel);
            // As in `walks_once_more`: either the put finds this walk, or the walk finds the
            // obtained descriptor.
            fence(SeqCst);
        }
    }

    /// The fewest and the most pages of a pool.
    pub(in super::super) fn shares(&self, pool: usize) -> (u64, u64) {
        let record = &self.pools[pool];
        (
            record.min_pages.load(Relaxed),
            record.max_pages.load(Relaxed),
        )
    }

    /// The first number that no pool has, of a frontswap or a cleancache. Under the owners' lock.
    pub(in super::super) fn free_number(&self, is_swap: bool) -> Option<PoolId> {
        let mut ids = (0..self.len() as u16).map(PoolId);
        ids.find(|id| id.is_swap() == is_swap && !self.is_open(*id))
    }

    /// Makes the pool of a [free number](Self::free_number) exist. Under the same lock.
    pub(in super::super) fn open(&self, pool: PoolId, config: &PoolConfig) {
        let record = &self.pools[usize::from(pool.0)];
        record
            .is_exclusive
            .store(u64::from(config.exclusive), Relaxed);
        record
            .may_be_dirty
            .store(u64::from(config.may_be_dirty), Relaxed);
        record
            .dirty_pages_max
            .store(config.dirty_pages_max, Relaxed);
        record.put_back.store(u64::from(config.put_back), Relaxed);
        record.min_pages.store(config.min_pages, Relaxed);
        record.max_pages.store(config.max_pages, Relaxed);
        record.generation.fetch_add(1, Release);
    }

    pub(in super::super) fn is_open(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|record| record.generation.load(Acquire) & 1 != 0)
    }

    /// Makes all pages of a pool invalid, and refuses further ones. Returns whether the pool was
    /// there.
    pub(in super::super) fn close(&self, pool: PoolId) -> bool {
        let Some(record) = self.pool(pool) else {
            return false;
        };
        let seen = record.generation.load(Relaxed);
        // No lock is held: of several CPUs that close it, one finds it open. Opening a pool never
        // touches an open one.
        seen & 1 != 0
            && record
                .generation
                .compare_exchange(seen, seen.wrapping_add(1), Release, Relaxed)
                .is_ok()
    }

    /// Makes all pages of an object invalid, and those of objects with the same hash.
    pub(in super::super) fn invalidate_object(&self, object_hash: u64) {
        self.object(object_hash).fetch_add(1, Release);
    }

    /// As if every object had been invalidated `times` times, and every pool closed and opened as often.
    pub(in super::super) fn age(&self, times: u64) {
        for object in self.objects {
            object.fetch_add(times, Release);
        }
        for record in self.pools {
            record.generation.fetch_add(times.wrapping_mul(2), Release);
        }
    }
}
