//! Pools of pages, and the generations by which all pages of a pool or of an object are invalid
//! at once.

use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The number of a pool. Those of [`PoolKind::Cleancache`] are even, those of
/// [`PoolKind::Frontswap`] odd.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

impl PoolId {
    /// The kind of every pool that has this number, so that who counts what a guest does needs to look
    /// nowhere.
    #[must_use]
    pub const fn kind(self) -> PoolKind {
        match self.0 % KINDS {
            0 => PoolKind::Cleancache,
            _ => PoolKind::Frontswap,
        }
    }
}

/// Whose pages a pool holds: what it is counted as. It changes nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PoolKind {
    /// Clean pages of files.
    Cleancache,
    /// Swapped-out pages.
    Frontswap,
}

/// How many kinds there are.
pub(super) const KINDS: u16 = 2;

/// What a pool is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Whose pages it holds.
    pub kind: PoolKind,
    /// A get takes its page away: whoever got it has it, and nobody has it twice. Else a page
    /// stays, and whoever changes his copy must invalidate first.
    pub exclusive: bool,
    /// Pages may be put that are on no device yet. No chance may cost such a page: so objects of the
    /// pool have no generation, and to invalidate one is a walk over all frames.
    pub may_be_dirty: bool,
    /// How many of its pages may be on no device yet, exactly (write-back under a budget): above, a
    /// put of one is [refused](super::Refused::DirtyFull) until some are [cleaned](super::Guest::clean).
    pub dirty_pages_max: u64,
    /// A page that is on no device yet does not keep an owner from its frame: it is copied into an
    /// ordinary one first (put-back), where the owner [hands in](super::Reserve::alloc_contig_with) a supply of
    /// such. Into a reservation it does not go all the same (C3).
    pub put_back: bool,
    /// Pages that other pools leave to it when they evict.
    pub min_pages: u64,
    /// Pages above which it evicts its own.
    pub max_pages: u64,
}

impl PoolConfig {
    /// Of clean pages of files (cleancache): exclusive, no shares.
    pub const CLEAN: Self = Self {
        kind: PoolKind::Cleancache,
        exclusive: true,
        may_be_dirty: false,
        dirty_pages_max: u64::MAX,
        put_back: false,
        min_pages: 0,
        max_pages: u64::MAX,
    };

    /// Of swapped-out pages (frontswap): a page stays until it is invalidated, and may be dirty.
    pub const SWAP: Self = Self {
        kind: PoolKind::Frontswap,
        exclusive: false,
        may_be_dirty: true,
        ..Self::CLEAN
    };
}

// The words of a pool.
/// Its generation, which is odd while it exists.
const GENERATION: usize = 0;
const EXCLUSIVE: usize = 1;
const MIN: usize = 2;
const MAX: usize = 3;
const MAY_BE_DIRTY: usize = 4;
/// How often an object of it was invalidated by a walk.
const WALKS: usize = 5;
const DIRTY_MAX: usize = 6;
const PUT_BACK: usize = 7;
/// How many of its pages are on no device yet; on a line that gets do not read.
const DIRTY: usize = 8;
/// Words of a pool: two cache lines.
pub(super) const POOL_WORDS: usize = 16;

/// Pools, and generations of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pools<'m> {
    pools: &'m [AtomicU64],
    /// By hash: objects that share one are invalidated together.
    objects: &'m [AtomicU64],
}

/// A page that is counted as dirty; not any more when this is dropped.
#[derive(Debug)]
pub(super) struct Debt<'m>(&'m AtomicU64);

impl Debt<'_> {
    /// The page has arrived: whoever cleans or drops it counts it out.
    pub(super) const fn stays(self) {
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
/// Each of the two only ever grows, so the sum of the same two is what it was exactly as long as both are. One word
/// holds it, at any width: it comes round after 2^63 invalidations. A pool whose objects have no generation
/// says so in the highest bit: a number that was opened for the one kind of pages and then for the other has
/// no sum twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Born(pub(super) u64);

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
    pub(super) const fn new(pools: &'m [AtomicU64], objects: &'m [AtomicU64]) -> Self {
        Self { pools, objects }
    }

    /// How many pools there can be, of all kinds.
    pub(super) const fn len(&self) -> usize {
        self.pools.len() / POOL_WORDS
    }

    fn pool(&self, pool: PoolId) -> Option<&'m [AtomicU64]> {
        let at = usize::from(pool.0) * POOL_WORDS;
        self.pools.get(at..at + POOL_WORDS)
    }

    fn object(&self, hash: u64) -> &'m AtomicU64 {
        &self.objects[(hash >> 32) as usize % self.objects.len()]
    }

    /// The generations that a page put now has, if the pool exists.
    #[inline]
    pub(super) fn now(&self, pool: PoolId, object_hash: u64) -> Option<Born> {
        // Acquire pairs with the Release of those who invalidate.
        let words = self.pool(pool)?;
        let of_pool = words[GENERATION].load(Acquire);
        let of_object = if words[MAY_BE_DIRTY].load(Relaxed) != 0 {
            None
        } else {
            Some(self.object(object_hash).load(Acquire))
        };
        (of_pool & 1 != 0).then_some(Born::new(of_pool, of_object))
    }

    #[inline]
    pub(super) fn is_exclusive(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|words| words[EXCLUSIVE].load(Relaxed) != 0)
    }

    #[inline]
    pub(super) fn may_be_dirty(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|words| words[MAY_BE_DIRTY].load(Relaxed) != 0)
    }

    /// Whether pages of it that are dirty are copied elsewhere for an owner's sake.
    #[inline]
    pub(super) fn is_put_back(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|words| words[PUT_BACK].load(Relaxed) != 0)
    }

    /// One page more of it is dirty, if so many may be.
    pub(super) fn begin_dirty(&self, pool: PoolId) -> Option<Debt<'m>> {
        let words = self.pool(pool)?;
        let debt = Debt(&words[DIRTY]);
        // Relaxed: a count beside the pages; nobody concludes anything about a page from it.
        (debt.0.fetch_add(1, Relaxed) < words[DIRTY_MAX].load(Relaxed)).then_some(debt)
    }

    /// A page of it is not dirty any more, or is none.
    pub(super) fn end_dirty(&self, pool: usize) {
        self.pools[pool * POOL_WORDS + DIRTY].fetch_sub(1, Relaxed);
    }

    /// How many pages of it are on no device yet; may be one too many for a moment for each CPU.
    pub(super) fn dirty(&self, pool: usize) -> u64 {
        self.pools[pool * POOL_WORDS + DIRTY].load(Relaxed)
    }

    /// How many walks there were: a put that was under way when one began is overtaken.
    #[inline]
    pub(super) fn walks(&self, pool: PoolId) -> u64 {
        self.pool(pool)
            .map_or(0, |words| words[WALKS].load(Acquire))
    }

    /// The same, by who has claimed a descriptor since he asked first.
    #[inline]
    pub(super) fn walks_after_claim(&self, pool: PoolId) -> u64 {
        if !self.may_be_dirty(pool) {
            // Nobody walks.
            return self.walks(pool);
        }
        fence(SeqCst);
        self.walks(pool)
    }

    pub(super) fn begin_walk(&self, pool: PoolId) {
        if let Some(words) = self.pool(pool) {
            words[WALKS].fetch_add(1, AcqRel);
            // As in `walks_after_claim`: either that finds this walk, or the walk finds what is claimed.
            fence(SeqCst);
        }
    }

    /// The least and the most pages of a pool.
    pub(super) fn shares(&self, pool: usize) -> (u64, u64) {
        let words = &self.pools[pool * POOL_WORDS..];
        (words[MIN].load(Relaxed), words[MAX].load(Relaxed))
    }

    /// The first number of that kind that no pool has. Under the owners' lock.
    pub(super) fn free_number(&self, kind: PoolKind) -> Option<PoolId> {
        let mut ids = (0..self.len() as u16).map(PoolId);
        ids.find(|id| id.kind() == kind && !self.is_open(*id))
    }

    /// Makes the pool of a [free number](Self::free_number) exist. Under the same lock.
    pub(super) fn open(&self, pool: PoolId, config: &PoolConfig) {
        let words = &self.pools[usize::from(pool.0) * POOL_WORDS..][..POOL_WORDS];
        words[EXCLUSIVE].store(u64::from(config.exclusive), Relaxed);
        words[MAY_BE_DIRTY].store(u64::from(config.may_be_dirty), Relaxed);
        words[DIRTY_MAX].store(config.dirty_pages_max, Relaxed);
        words[PUT_BACK].store(u64::from(config.put_back), Relaxed);
        words[MIN].store(config.min_pages, Relaxed);
        words[MAX].store(config.max_pages, Relaxed);
        words[GENERATION].fetch_add(1, Release);
    }

    pub(super) fn is_open(&self, pool: PoolId) -> bool {
        self.pool(pool)
            .is_some_and(|words| words[GENERATION].load(Acquire) & 1 != 0)
    }

    /// Makes all pages of a pool invalid, and refuses further ones. Whether it was there.
    pub(super) fn close(&self, pool: PoolId) -> bool {
        let Some(words) = self.pool(pool) else {
            return false;
        };
        let seen = words[GENERATION].load(Relaxed);
        // Under no lock: of several who close it one finds it open. Who opens pools leaves those that are.
        seen & 1 != 0
            && words[GENERATION]
                .compare_exchange(seen, seen.wrapping_add(1), Release, Relaxed)
                .is_ok()
    }

    /// Makes all pages of an object invalid, and those of objects with the same hash.
    pub(super) fn invalidate_object(&self, object_hash: u64) {
        self.object(object_hash).fetch_add(1, Release);
    }

    /// As if every object had been invalidated `times` times, and every pool closed and opened as often.
    pub(super) fn age(&self, times: u64) {
        for object in self.objects {
            object.fetch_add(times, Release);
        }
        for words in self.pools.chunks_exact(POOL_WORDS) {
            words[GENERATION].fetch_add(times.wrapping_mul(2), Release);
        }
    }
}
