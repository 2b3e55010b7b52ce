//! Where a put gets a descriptor: a free one, or that of the page which the hand evicts.

use super::super::table::{
    BLOCK, BLOCK_LANES, EvictionOrder, FrameState, InsideFrom, OrderShard, PoolId, StateWord,
};
use super::Guest;
use crate::platform::ReservePlatform;
use crate::sync::Ordering::Relaxed;

/// Steps of the hand that a put makes in one shard at most.
const HAND_STEPS: usize = 64;

/// A page on its way in: a descriptor in state Filling, with its gate held open.
pub(super) struct ClaimedPage<'m> {
    pub(in super::super) id: usize,
    pub(in super::super) word: StateWord,
    pub(in super::super) inside: InsideFrom<'m>,
}

impl<'m, P: ReservePlatform> Guest<'_, 'm, P> {
    /// A descriptor for a page: free, or whatever the hand finds.
    pub(super) fn claim(
        &mut self,
        pool: PoolId,
        is_value: bool,
        state: FrameState,
    ) -> Option<ClaimedPage<'m>> {
        let order = self.reserve().orders[usize::from(is_value)];
        let shards = order.len();
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
            if order.can_have_free(nth)
                && let Some(shard) = order.try_lock(nth)
                && let Some(claim) = self.claim_free(&order, &shard, nth, &wanted)
            {
                return Some(claim);
            }
        }
        if let Some(claim) = round().find_map(|nth| {
            let shard = order.try_lock(nth)?;
            // Takes free frames that another CPU had locked above before it evicts a page.
            let free = (!is_full && order.can_have_free(nth))
                .then(|| self.claim_free(&order, &shard, nth, &wanted));
            free.flatten()
                .or_else(|| self.evict(&shard, &wanted, is_full))
        }) {
            return Some(claim);
        }
        // Before a put is refused, it waits for the shards that other CPUs had locked.
        round().find_map(|nth| {
            let shard = order.lock(nth, &self.reserve().platform);
            let free = (!is_full).then(|| self.claim_free(&order, &shard, nth, &wanted));
            free.flatten()
                .or_else(|| self.evict(&shard, &wanted, is_full))
        })
    }

    /// Whether the pool has as many pages as it may.
    fn is_at_most(&self, pool: PoolId) -> bool {
        let (_, max) = self.reserve().pools.shares(usize::from(pool.0));
        max != u64::MAX && self.reserve().held(usize::from(pool.0)) >= max
    }

    fn claim_free(
        &self,
        order: &EvictionOrder<'m>,
        shard: &OrderShard<'_>,
        nth: usize,
        wanted: &PutWants,
    ) -> Option<ClaimedPage<'m>> {
        let table = &self.reserve().table;
        let blocks = self.reserve().blocks_of(wanted.is_value);
        let of_shard = (blocks.len() + order.len() - 1 - nth) / order.len();
        let hint = shard.free_hint();
        shard.expect_no_free();
        let mut left = false;
        for at in 0..of_shard {
            let local = (hint + at) % of_shard;
            let block = blocks.start + nth + local * order.len();
            for word in 0..BLOCK_LANES {
                let mut bits = table.lane(block * BLOCK_LANES + word).free.load(Relaxed);
                while bits != 0 {
                    let id = block * BLOCK + word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let inside = table.try_enter_from(id, self.record());
                    left = true;
                    let Some(inside) = inside else { break };
                    if wanted.is_dirty && table.is_kept(id) || !table.claim_free(id) {
                        continue;
                    }
                    shard.set_free_hint(local);
                    shard.may_have_free();
                    let word = wanted.filling(table.state(id));
                    table.publish(id, word);
                    return Some(self.claimed(shard, id, word, inside));
                }
            }
        }
        if left {
            // No frame left over could be claimed now.
            shard.may_have_free();
        }
        None
    }

    /// Evicts the next page in the order of eviction.
    fn evict(
        &self,
        shard: &OrderShard<'_>,
        wanted: &PutWants,
        own: bool,
    ) -> Option<ClaimedPage<'m>> {
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
            if wanted.is_dirty && table.is_kept(id) {
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
                return Some(self.claimed(shard, id, filling, inside));
            }
        }
        None
    }

    fn claimed(
        &self,
        shard: &OrderShard<'_>,
        id: usize,
        word: StateWord,
        inside: InsideFrom<'m>,
    ) -> ClaimedPage<'m> {
        let table = &self.reserve().table;
        table.before_writing();
        self.hold(word.pool(), 1);
        shard.push(table, id);
        ClaimedPage { id, word, inside }
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
    /// The state of a claimed descriptor whose state was `word` before.
    fn filling(&self, word: StateWord) -> StateWord {
        word.next(FrameState::Filling, usize::from(self.pool.0))
    }
}
