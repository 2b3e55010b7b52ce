//! The slow check of the invariants, for a reserve at rest.

use super::area::Reserve;
use super::table::{EvictionShard, FrameState, POOLS_MAX, PageEntry, SECTION};
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;

impl<P> Reserve<'_, P> {
    /// Checks every invariant that can be seen while no other CPU is at work. O(metadata).
    ///
    /// # Errors
    /// The first that does not hold, with the frame's number in the reserve or the pool's.
    pub fn verify(&self) -> Result<(), Broken> {
        let table = &self.table;
        // A gate that stays shut, or a guest that is inside for ever, would keep all others waiting.
        if let Some(section) = table.first_in_use() {
            let (invariant, at) = ("C3", (section * SECTION) as u64);
            return Err(Broken { invariant, at });
        }
        let mut held = [0u64; POOLS_MAX];
        let mut dirty_pages = [0u64; POOLS_MAX];
        let mut reserved = 0u64;
        for section in 0..table.sections() {
            for slot in 0..SECTION {
                let id = section * SECTION + slot;
                if !self.is_descriptor(id) {
                    continue;
                }
                let broken = |invariant| {
                    let at = id as u64;
                    Err(Broken { invariant, at })
                };
                let lane = table.lane(id / 64);
                let [free, owned, is_reserved, dirty, movable, stocked] = [
                    &lane.free,
                    &lane.owned,
                    &lane.reserved,
                    &lane.dirty,
                    &lane.movable,
                    &lane.stocked,
                ]
                .map(|bits| bits.load(Relaxed) >> (id % 64) & 1 != 0);
                let word = table.state(id);
                match word.state() {
                    FrameState::Filling | FrameState::Loading => return broken("C1"),
                    FrameState::Free if free == owned => return broken("C2"),
                    FrameState::Free => {}
                    _ if free || owned => return broken("C2"),
                    _ => held[word.pool()] += 1,
                }
                let is_dirty = matches!(word.state(), FrameState::Dirty | FrameState::Writing);
                if is_dirty != dirty || movable && !dirty {
                    return broken("C7");
                }
                dirty_pages[word.pool()] += u64::from(is_dirty);
                if is_dirty && is_reserved {
                    return broken("C3");
                }
                reserved += u64::from(is_reserved);
                // A dirty page that no guest can invalidate would reach its device all the same.
                let key = table.desc(id).key(word.pool());
                let entry = PageEntry::new(id, word.generation());
                if is_dirty && !self.bucket(&key, key.object_hash()).has(entry) {
                    return broken("C7");
                }
                if table.is_ordinary(id) {
                    let has_frame = self.ordinary_frame(id).is_some();
                    if has_frame != stocked || is_dirty && !has_frame {
                        return broken("C7");
                    }
                }
            }
        }
        let in_reservations = self.reservations.all().map(|entry| entry.run().frames());
        if reserved != in_reservations.sum() || self.own.clearing.load(Relaxed) != 0 {
            let (invariant, at) = ("C3", reserved);
            return Err(Broken { invariant, at });
        }
        let is_wrong = |pool: &usize| {
            held[*pool] != self.held(*pool) || dirty_pages[*pool] != self.pools.dirty(*pool)
        };
        match (0..self.pools.len()).find(is_wrong) {
            Some(at) => Err(Broken {
                invariant: "pages held",
                at: at as u64,
            }),
            None => {
                self.verify_index()?;
                self.verify_queues()
            }
        }
    }

    /// Checks the lists from which pages are evicted.
    fn verify_queues(&self) -> Result<(), Broken> {
        let broken = |invariant, at: usize| {
            let at = at as u64;
            Err(Broken { invariant, at })
        };
        let mut listed = 0;
        for (queue, shard) in
            (self.queues.iter()).flat_map(|of| (0..of.len()).map(move |at| (of, at)))
        {
            let Some(shard) = queue.try_lock(shard) else {
                return broken("EQ1", shard);
            };
            match shard.verify(&self.table, self.ids()) {
                Ok(len) => listed += len,
                Err(at) => return broken("EQ1", at),
            }
        }
        let mut linked = 0;
        for id in (0..self.ids()).filter(|&id| self.is_descriptor(id)) {
            let is_linked = EvictionShard::is_linked(&self.table, id);
            linked += usize::from(is_linked);
            if self.table.state(id).state() == FrameState::Cached && !is_linked {
                return broken("EQ2", id);
            }
        }
        match listed == linked {
            true => Ok(()),
            false => broken("EQ1", linked),
        }
    }

    /// Checks that no two entries of a bucket name one descriptor, and no two valid ones the same
    /// page.
    fn verify_index(&self) -> Result<(), Broken> {
        let broken = |at: usize| {
            let (invariant, at) = ("C8", at as u64);
            Err(Broken { invariant, at })
        };
        let mut live = 0;
        for bucket in self.index.all() {
            for (nth, entry) in bucket.entries().enumerate() {
                if bucket
                    .entries()
                    .skip(nth + 1)
                    .any(|other| other.id() == entry.id())
                {
                    return broken(entry.id());
                }
                let word = self.table.state(entry.id());
                let key = self.table.desc(entry.id()).key(word.pool());
                // A stale entry may still look valid, but its page is of another key, in another
                // bucket.
                let is_live = word.has_page() && entry.is_of(word.generation());
                live += u64::from(is_live && self.bucket(&key, key.object_hash()).is(bucket));
            }
        }
        let pages: u64 = (0..self.pools.len()).map(|pool| self.held(pool)).sum();
        if live > pages {
            return broken(self.ids());
        }
        Ok(())
    }
}
