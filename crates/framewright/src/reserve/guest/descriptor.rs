//! Where a put gets a descriptor: a free one, or that of the page which the hand evicts.

use super::super::table::{
    EvictionQueue, EvictionShard, FrameState, InsideFrom, PoolId, SECTION, SECTION_LANES, StateWord,
};
use super::Guest;
use crate::platform::ReservePlatform;
use crate::sync::Ordering::Relaxed;

/// Steps of the hand that a put makes in one shard at most.
const HAND_STEPS: usize = 64;

/// A page on its way in: a descriptor in state Filling, with its gate held open.
pub(super) struct IncomingPage<'m> {
    pub(in super::super) id: usize,
    pub(in super::super) word: StateWord,
    pub(in super::super) inside: InsideFrom<'m>,
}

impl<'m, P: ReservePlatform> Guest<'_, 'm, P> {
    /// A descriptor for a page: free, or whatever the hand finds.
    pub(super) fn obtain(
        &mut self,
        pool: PoolId,
        is_value: bool,
        state: FrameState,
    ) -> Option<IncomingPage<'m>> {
        let queue = self.reserve().queues[usize::from(is_value)];
        let shards = queue.len();
        self.next_shard = (self.next_shard + 1) % shards;
        let start = self.next_shard;
        let round = || (start..shards).chain(0..start);
        let wanted = PutWants {
            pool,
            is_value,
            is_dirty: state == FrameState::Dirty,
        };
        let is_full = self.is_at_most(pool);
        for nth in round().filter(|_| !is_full) {
            if queue.can_have_free(nth)
                && let Some(shard) = queue.try_lock(nth)
                && let Some(incoming) = self.obtain_free(&queue, &shard, nth, &wanted)
            {
                return Some(incoming);
            }
        }
        if let Some(incoming) = round().find_map(|nth| {
            let shard = queue.try_lock(nth)?;
            // Takes free frames that another CPU had locked above before it evicts a page.
            let free = (!is_full && queue.can_have_free(nth))
                .then(|| self.obtain_free(&queue, &shard, nth, &wanted));
            free.flatten()
                .or_else(|| self.evict(&shard, &wanted, is_full))
        }) {
            return Some(incoming);
        }
        // Before a put is refused, it waits for the shards that other CPUs had locked.
        round().find_map(|nth| {
            let shard = queue.lock(nth, &self.reserve().platform);
            let free = (!is_full).then(|| self.obtain_free(&queue, &shard, nth, &wanted));
            free.flatten()
                .or_else(|| self.evict(&shard, &wanted, is_full))
        })
    }

    /// Whether the pool has as many pages as it may.
    fn is_at_most(&self, pool: PoolId) -> bool {
        let (_, max) = self.reserve().pools.shares(usize::from(pool.0));
        max != u64::MAX && self.reserve().held(usize::from(pool.0)) >= max
    }

    fn obtain_free(
        &self,
        queue: &EvictionQueue<'m>,
        shard: &EvictionShard<'_>,
        nth: usize,
        wanted: &PutWants,
    ) -> Option<IncomingPage<'m>> {
        let table = &self.reserve().table;
        let sections = self.reserve().sections_of(wanted.is_value);
        let of_shard = (sections.len() + queue.len() - 1 - nth) / queue.len();
        let hint = shard.free_hint();
        shard.expect_no_free();
        let mut left = false;
        for at in 0..of_shard {
            let local = (hint + at) % of_shard;
            let section = sections.start + nth + local * queue.len();
            for word in 0..SECTION_LANES {
                let mut bits = table
                    .lane(section * SECTION_LANES + word)
                    .free
                    .load(Relaxed);
                while bits != 0 {
                    let id = section * SECTION + word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let inside = table.try_enter_from(id, self.record());
                    left = true;
                    let Some(inside) = inside else { break };
                    if wanted.is_dirty && table.is_reserved(id) || !table.clear_free(id) {
                        continue;
                    }
                    shard.set_free_hint(local);
                    shard.may_have_free();
                    let word = wanted.filling(table.state(id));
                    table.publish(id, word);
                    return Some(self.incoming(shard, id, word, inside));
                }
            }
        }
        if left {
            // No frame left over could be had now.
            shard.may_have_free();
        }
        None
    }

    /// Evicts the next page in the eviction queue.
    fn evict(
        &self,
        shard: &EvictionShard<'_>,
        wanted: &PutWants,
        own: bool,
    ) -> Option<IncomingPage<'m>> {
        let reserve = self.reserve();
        let table = &reserve.table;
        for _ in 0..HAND_STEPS {
            let id = shard.step(table)?;
            let word = table.state(id);
            let is_dead = word.has_page() && reserve.is_dead(id, word);
            match word.state() {
                FrameState::Cached => {}
                // A dead page: no get and no device waits for it.
                FrameState::Dirty if is_dead => {}
                FrameState::Free => {
                    shard.unlink(table, id);
                    continue;
                }
                _ => continue,
            }
            if !is_dead && (table.pass_by(id) || !self.may_evict(word.pool(), wanted.pool, own)) {
                continue;
            }
            let Some(inside) = table.try_enter_from(id, self.record()) else {
                continue;
            };
            if wanted.is_dirty && table.is_reserved(id) {
                continue;
            }
            // Moves the generation on at once, so that no get finds the old page from here on (C6).
            let filling = wanted.filling(word);
            if table.change(id, word, filling) {
                if word.is_dirty() {
                    reserve.dirty_no_more(id, word.pool());
                }
                self.hold(word.pool(), 1u64.wrapping_neg());
                self.count(word.pool(), |counters| &counters.evicted);
                return Some(self.incoming(shard, id, filling, inside));
            }
        }
        None
    }

    fn incoming(
        &self,
        shard: &EvictionShard<'_>,
        id: usize,
        word: StateWord,
        inside: InsideFrom<'m>,
    ) -> IncomingPage<'m> {
        let table = &self.reserve().table;
        table.before_writing();
        self.hold(word.pool(), 1);
        shard.push(table, id);
        IncomingPage { id, word, inside }
    }

    /// Whether the shares let `pool` evict a page of `from`.
    fn may_evict(&self, from: usize, pool: PoolId, own: bool) -> bool {
        if from == usize::from(pool.0) {
            return true;
        }
        let (min, _) = self.reserve().pools.shares(from);
        !own && (min == 0 || self.reserve().held(from) > min)
    }
}

/// What a put wants a descriptor for.
struct PutWants {
    pool: PoolId,
    is_value: bool,
    is_dirty: bool,
}

impl PutWants {
    /// The state of an obtained descriptor whose state was `word` before.
    fn filling(&self, word: StateWord) -> StateWord {
        word.next(FrameState::Filling, usize::from(self.pool.0))
    }
}
