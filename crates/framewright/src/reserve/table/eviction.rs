//! The eviction queue: SIEVE, in shards of sections.
//!
//! A shard's pages stand in a list, the youngest at the head. A hand goes from the old to the
//! young. It passes by a page that was got since it passed last, and evicts the first other one. A
//! get moves nothing in the list, so it takes no lock. A page that an owner discards or a get takes
//! away stays in the list until the hand meets it there.
//!
//! # Invariants
//! - **EQ1** A shard's list goes from its head to its tail and back, and holds each descriptor once. The hand stands in
//!   it, or nowhere.
//! - **EQ2** A clean page stands in a list, so that it can be evicted.

use super::FrameTable;
use crate::platform::FramePlatform;
use crate::raw::record;
use crate::sync::{
    AtomicU64, Lock, LockGuard,
    Ordering::{Relaxed, SeqCst},
    fence,
};

record! {
    /// A shard's list, under its lock, and on a line of its own what CPUs that free write.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct ShardRecord {
        lock: AtomicU64,
        // Descriptors, by number plus one.
        head: AtomicU64,
        tail: AtomicU64,
        hand: AtomicU64,
        /// The section of the shard in which free frames were found last.
        hint: AtomicU64,
        _list: [AtomicU64; 3],

        /// Whether a descriptor of the shard became free since a search of all its sections found none.
        may_have_free: AtomicU64,
    } = 16 words, may_have_free at 8;
}

/// In a descriptor's links: it stands in a list. The bits below hold the older neighbour's number
/// plus one in 31 bits, and the younger one's in 31.
const LINKED: u64 = 1 << 63;
const HALF: u32 = 31;
const MASK: u64 = (1 << HALF) - 1;

/// All shards.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct EvictionQueue<'m> {
    shards: &'m [ShardRecord],
}

impl<'m> EvictionQueue<'m> {
    pub(in super::super) const fn new(shards: &'m [ShardRecord]) -> Self {
        Self { shards }
    }

    /// How many shards that many CPUs and sections have: two a CPU, as far as there are sections.
    pub(in super::super) fn shards(cpus: u16, sections: usize) -> usize {
        (2 * usize::from(cpus)).min(sections).max(1)
    }

    pub(in super::super) const fn len(&self) -> usize {
        self.shards.len()
    }

    /// Whether there can be free frames in the shard.
    #[inline]
    pub(in super::super) fn can_have_free(&self, shard: usize) -> bool {
        self.shards[shard].may_have_free.load(Relaxed) != 0
    }

    /// Locks a shard. Waits for its holder, for some steps of its hand at most.
    pub(in super::super) fn lock(
        &self,
        shard: usize,
        platform: &impl FramePlatform,
    ) -> EvictionShard<'m> {
        let record = &self.shards[shard];
        let _lock = Lock::new(&record.lock).lock(|attempt| platform.relax(attempt));
        EvictionShard { record, _lock }
    }

    pub(in super::super) fn try_lock(&self, shard: usize) -> Option<EvictionShard<'m>> {
        let record = &self.shards[shard];
        let _lock = Lock::new(&record.lock).try_lock()?;
        Some(EvictionShard { record, _lock })
    }

    /// Records that something in the shard became free.
    #[inline]
    pub(in super::super) fn tell_free(&self, shard: usize) {
        let may = &self.shards[shard].may_have_free;
        if may.load(SeqCst) == 0 {
            may.store(1, Relaxed);
        }
    }
}

/// A shard under its lock.
#[derive(Debug)]
pub(in super::super) struct EvictionShard<'m> {
    record: &'m ShardRecord,
    _lock: LockGuard<'m>,
}

impl EvictionShard<'_> {
    fn get(place: &AtomicU64) -> Option<usize> {
        (place.load(Relaxed) as usize).checked_sub(1)
    }

    fn set(place: &AtomicU64, id: Option<usize>) {
        place.store(id.map_or(0, |id| id as u64 + 1), Relaxed);
    }

    /// Where to look for free frames first, by section of the shard.
    pub(in super::super) fn free_hint(&self) -> usize {
        self.record.hint.load(Relaxed) as usize
    }

    pub(in super::super) fn set_free_hint(&self, section: usize) {
        self.record.hint.store(section as u64, Relaxed);
    }

    /// Lowers the flag before a search of all sections. A CPU that frees meanwhile raises it again.
    pub(in super::super) fn expect_no_free(&self) {
        // SeqCst, as in `tell_free` and where bits are set: either the search finds the bit, or the
        // CPU that set it finds the flag lowered and raises it.
        self.record.may_have_free.swap(0, SeqCst);
        fence(SeqCst);
    }

    pub(in super::super) fn may_have_free(&self) {
        self.record.may_have_free.store(1, Relaxed);
    }

    fn links(table: &FrameTable<'_>, id: usize) -> Option<(Option<usize>, Option<usize>)> {
        let links = table.desc(id).links.load(Relaxed);
        let part = |part: u64| ((part & MASK) as usize).checked_sub(1);
        (links & LINKED != 0).then(|| (part(links >> HALF), part(links)))
    }

    fn set_links(table: &FrameTable<'_>, id: usize, older: Option<usize>, younger: Option<usize>) {
        let part = |id: Option<usize>| id.map_or(0, |id| id as u64 + 1);
        let links = LINKED | part(older) << HALF | part(younger);
        table.desc(id).links.store(links, Relaxed);
    }

    /// Puts `id` at the head: it is the youngest now.
    pub(in super::super) fn push(&self, table: &FrameTable<'_>, id: usize) {
        self.unlink(table, id);
        let head = Self::get(&self.record.head);
        Self::set_links(table, id, head, None);
        match head {
            Some(head) => {
                let (older, _) = Self::links(table, head).unwrap_or_default();
                Self::set_links(table, head, older, Some(id));
            }
            None => Self::set(&self.record.tail, Some(id)),
        }
        Self::set(&self.record.head, Some(id));
    }

    /// Takes `id` out of the list, if it stands there.
    pub(in super::super) fn unlink(&self, table: &FrameTable<'_>, id: usize) {
        let Some((older, younger)) = Self::links(table, id) else {
            return;
        };
        match older {
            Some(older) => {
                let (far, _) = Self::links(table, older).unwrap_or_default();
                Self::set_links(table, older, far, younger);
            }
            None => Self::set(&self.record.tail, younger),
        }
        match younger {
            Some(younger) => {
                let (_, far) = Self::links(table, younger).unwrap_or_default();
                Self::set_links(table, younger, older, far);
            }
            None => Self::set(&self.record.head, older),
        }
        if Self::get(&self.record.hand) == Some(id) {
            Self::set(&self.record.hand, younger);
        }
        table.desc(id).links.store(0, Relaxed);
    }

    /// Moves the hand on, from the oldest to the youngest and round, and returns the page that it
    /// was at.
    pub(in super::super) fn step(&self, table: &FrameTable<'_>) -> Option<usize> {
        let at = Self::get(&self.record.hand).or_else(|| Self::get(&self.record.tail))?;
        let (_, younger) = Self::links(table, at).unwrap_or_default();
        Self::set(&self.record.hand, younger);
        if let Some(next) = younger {
            table.fetch(next);
        }
        Some(at)
    }

    /// Counts what stands in the list.
    ///
    /// # Errors
    /// The descriptor at which EQ1 does not hold.
    pub(in super::super) fn verify(
        &self,
        table: &FrameTable<'_>,
        ids: usize,
    ) -> Result<usize, usize> {
        let hand = Self::get(&self.record.hand);
        let (mut len, mut meets_hand) = (0, hand.is_none());
        let (mut next, mut younger) = (Self::get(&self.record.head), None);
        while let Some(id) = next {
            let links = (id < ids && len < ids).then(|| Self::links(table, id));
            let (older, back) = links.flatten().ok_or(id)?;
            if back != younger {
                return Err(id);
            }
            meets_hand |= hand == Some(id);
            len += 1;
            (next, younger) = (older, Some(id));
        }
        let is_whole = Self::get(&self.record.tail) == younger && meets_hand;
        is_whole.then_some(len).ok_or(hand.or(younger).unwrap_or(0))
    }

    /// Whether a descriptor stands in a list.
    pub(in super::super) fn is_linked(table: &FrameTable<'_>, id: usize) -> bool {
        Self::links(table, id).is_some()
    }
}
