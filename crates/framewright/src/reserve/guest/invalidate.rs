//! How a guest forgets a page, an object, a pool.
//!
//! A page is forgotten in the index and in its descriptor. An object or a pool is forgotten by a new
//! generation, in O(1): the pages that were born before it are dead, and the hand evicts them when it
//! comes by. Objects with the same hash share a generation, and a dirty page of another object must
//! not be lost (C7). So where pages may be dirty, a walk over all frames drops just the object's.

use super::super::table::{FrameState, PoolId, StateWord};
use super::{Guest, Key, PageVersion};
use crate::platform::ReservePlatform;
use crate::sync::Ordering::Relaxed;

impl<P: ReservePlatform> Guest<'_, '_, P> {
    /// Forgets the page of `key`. After it returns no get finds that page (C6). Waits for an owner
    /// that has the gate of its section shut: for one copy at most.
    pub fn invalidate_page(&mut self, key: Key) {
        let bucket = self.bucket(&key, key.object_hash());
        self.forget(bucket, &key, true);
        self.count(key.pool.0.into(), |counters| &counters.invalidated_pages);
    }

    /// Forgets all pages of an object, and by chance those of another one. O(1). In a pool whose
    /// pages may be dirty it forgets only those of the object, by a walk over all frames: O(frames
    /// of the reserve) a call, however few pages the object has. Waits for each put that is under
    /// way, for one copy.
    pub fn invalidate_object(&mut self, pool: PoolId, object: u64) {
        let key = Key {
            pool,
            object,
            index: 0,
        };
        self.count(pool.0.into(), |counters| &counters.invalidated_objects);
        let pools = &self.reserve.pools;
        if !pools.may_be_dirty(pool) {
            pools.invalidate_object(key.object_hash());
            return;
        }
        // Puts that are under way from here on are overtaken; the walk finds those that are done.
        pools.begin_walk(pool);
        let table = &self.reserve.table;
        let is_of = |word: StateWord| word.pool() == usize::from(pool.0);
        for id in 0..self.reserve.ids() {
            let mut word = table.state(id);
            let mut attempt = 0;
            // Waits for a page on its way in, one copy at most, so that it does not arrive behind
            // the walk. When the generation has moved on, that put has ended; a later put began
            // after the walk did.
            let generation = word.generation();
            while is_of(word)
                && word.state() == FrameState::Filling
                && word.generation() == generation
            {
                self.reserve.platform.relax(attempt);
                attempt = attempt.saturating_add(1);
                word = table.state(id);
            }
            if is_of(word) && word.has_page() && table.desc(id).object.load(Relaxed) == object {
                let generation = word.generation();
                self.enter_and_drop(PageVersion { id, generation });
            }
        }
    }

    /// Forgets all pages of a pool and closes it: further puts are refused. O(1). Returns whether
    /// the pool was there.
    pub fn invalidate_pool(&mut self, pool: PoolId) -> bool {
        let closed = self.reserve.pools.close(pool);
        self.count(pool.0.into(), |counters| match closed {
            true => &counters.invalidated_pools,
            false => &counters.invalidate_failed,
        });
        closed
    }
}
