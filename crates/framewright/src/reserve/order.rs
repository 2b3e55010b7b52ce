//! The order of eviction: SIEVE, in shards of blocks.
//!
//! A shard's pages stand in a list, the youngest at the head. A hand goes from the old to the
//! young. It passes by a page that was got since it passed last, and evicts the first other one. A
//! get moves nothing in the list, so it takes no lock. A page that an owner discards or a get takes
//! away stays in the list until the hand meets it there.

use super::table::{FrameTable, LINKS};
use crate::platform::FramePlatform;
use crate::sync::{
    AtomicU64, Lock, LockGuard,
    Ordering::{Relaxed, SeqCst},
    fence,
};

// The words of a shard.
const LOCK: usize = 0;
const HEAD: usize = 1;
const TAIL: usize = 2;
const HAND: usize = 3;
/// The block of the shard in which free frames were found last.
const HINT: usize = 4;
/// Whether a descriptor of the shard became free since a search of all its blocks found none. On a
/// line of its own, because the CPUs that free write it.
const MAY_HAVE_FREE: usize = 8;
/// Words of a shard.
pub(super) const SHARD_WORDS: usize = 16;

/// In a descriptor's links: it stands in a list. The bits below hold the older neighbour's number
/// plus one in 31 bits, and the younger one's in 31.
const LINKED: u64 = 1 << 63;
const HALF: u32 = 31;
const MASK: u64 = (1 << HALF) - 1;

/// All shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvictionOrder<'m> {
    words: &'m [AtomicU64],
}

impl<'m> EvictionOrder<'m> {
    pub(super) const fn new(words: &'m [AtomicU64]) -> Self {
        Self { words }
    }

    /// How many shards that many CPUs and blocks have: two a CPU, as far as there are blocks.
    pub(super) fn shards(cpus: u16, blocks: usize) -> usize {
        (2 * usize::from(cpus)).min(blocks).max(1)
    }

    pub(super) const fn len(&self) -> usize {
        self.words.len() / SHARD_WORDS
    }

    fn shard(&self, shard: usize) -> &'m [AtomicU64] {
        &self.words[shard * SHARD_WORDS..][..SHARD_WORDS]
    }

    /// Whether there can be free frames in the shard.
    #[inline]
    pub(super) fn can_have_free(&self, shard: usize) -> bool {
        self.shard(shard)[MAY_HAVE_FREE].load(Relaxed) != 0
    }

    /// Locks a shard. Waits for its holder, for some steps of its hand at most.
    pub(super) fn lock(&self, shard: usize, platform: &impl FramePlatform) -> OrderShard<'m> {
        let words = self.shard(shard);
        let _lock = Lock::new(&words[LOCK]).lock(|attempt| platform.relax(attempt));
        OrderShard { words, _lock }
    }

    pub(super) fn try_lock(&self, shard: usize) -> Option<OrderShard<'m>> {
        let words = self.shard(shard);
        let _lock = Lock::new(&words[LOCK]).try_lock()?;
        Some(OrderShard { words, _lock })
    }

    /// Records that something in the shard became free.
    #[inline]
    pub(super) fn tell_free(&self, shard: usize) {
        let may = &self.shard(shard)[MAY_HAVE_FREE];
        if may.load(SeqCst) == 0 {
            may.store(1, Relaxed);
        }
    }
}

/// A shard under its lock.
#[derive(Debug)]
pub(super) struct OrderShard<'m> {
    words: &'m [AtomicU64],
    _lock: LockGuard<'m>,
}

impl OrderShard<'_> {
    fn get(&self, word: usize) -> Option<usize> {
        (self.words[word].load(Relaxed) as usize).checked_sub(1)
    }

    fn set(&self, word: usize, id: Option<usize>) {
        self.words[word].store(id.map_or(0, |id| id as u64 + 1), Relaxed);
    }

    /// Where to look for free frames first, by block of the shard.
    pub(super) fn free_hint(&self) -> usize {
        self.words[HINT].load(Relaxed) as usize
    }

    pub(super) fn set_free_hint(&self, block: usize) {
        self.words[HINT].store(block as u64, Relaxed);
    }

    /// Lowers the flag before a search of all blocks. A CPU that frees meanwhile raises it again.
    pub(super) fn expect_no_free(&self) {
        // SeqCst, as in `tell_free` and where bits are set: either the search finds the bit, or the
        // CPU that set it finds the flag lowered and raises it.
        self.words[MAY_HAVE_FREE].swap(0, SeqCst);
        fence(SeqCst);
    }

    pub(super) fn may_have_free(&self) {
        self.words[MAY_HAVE_FREE].store(1, Relaxed);
    }

    fn links(table: &FrameTable<'_>, id: usize) -> Option<(Option<usize>, Option<usize>)> {
        let links = table.desc(id)[LINKS].load(Relaxed);
        let part = |part: u64| ((part & MASK) as usize).checked_sub(1);
        (links & LINKED != 0).then(|| (part(links >> HALF), part(links)))
    }

    fn set_links(table: &FrameTable<'_>, id: usize, older: Option<usize>, younger: Option<usize>) {
        let part = |id: Option<usize>| id.map_or(0, |id| id as u64 + 1);
        let links = LINKED | part(older) << HALF | part(younger);
        table.desc(id)[LINKS].store(links, Relaxed);
    }

    /// Puts `id` at the head: it is the youngest now.
    pub(super) fn push(&self, table: &FrameTable<'_>, id: usize) {
        self.unlink(table, id);
        let head = self.get(HEAD);
        Self::set_links(table, id, head, None);
        match head {
            Some(head) => {
                let (older, _) = Self::links(table, head).unwrap_or_default();
                Self::set_links(table, head, older, Some(id));
            }
            None => self.set(TAIL, Some(id)),
        }
        self.set(HEAD, Some(id));
    }

    /// Takes `id` out of the list, if it stands there.
    pub(super) fn unlink(&self, table: &FrameTable<'_>, id: usize) {
        let Some((older, younger)) = Self::links(table, id) else {
            return;
        };
        match older {
            Some(older) => {
                let (far, _) = Self::links(table, older).unwrap_or_default();
                Self::set_links(table, older, far, younger);
            }
            None => self.set(TAIL, younger),
        }
        match younger {
            Some(younger) => {
                let (_, far) = Self::links(table, younger).unwrap_or_default();
                Self::set_links(table, younger, older, far);
            }
            None => self.set(HEAD, older),
        }
        if self.get(HAND) == Some(id) {
            self.set(HAND, younger);
        }
        table.desc(id)[LINKS].store(0, Relaxed);
    }

    /// Moves the hand on, from the oldest to the youngest and round, and returns the page that it
    /// was at.
    pub(super) fn step(&self, table: &FrameTable<'_>) -> Option<usize> {
        let at = self.get(HAND).or_else(|| self.get(TAIL))?;
        let (_, younger) = Self::links(table, at).unwrap_or_default();
        self.set(HAND, younger);
        if let Some(next) = younger {
            table.fetch(next);
        }
        Some(at)
    }
}
