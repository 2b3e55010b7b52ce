//! Pages leave: to the cleancache, if it takes them.

use super::FileCache;
use super::slots::{HandStep, PageKey, SlotState};
use super::stats::count;
use crate::ram::FRAME_WORDS;
use framewright::frame::FrameSource;
use framewright::reclaim::{Ask, Shrink, Shrunk};
use framewright::reserve::Key;
use std::sync::atomic::Ordering::Relaxed;

/// A page on its way to the cleancache: if that unwinds, it stays, and no thread waits for it (FC9).
struct LeavingPage<'c, 's> {
    cache: &'c FileCache<'s>,
    id: u32,
}

impl Drop for LeavingPage<'_, '_> {
    fn drop(&mut self) {
        let slot = self.cache.table.slot(self.id);
        let locked = self.cache.table.lock(slot.key());
        slot.set_state(SlotState::Ready);
        locked.changed();
    }
}

impl FileCache<'_> {
    /// Gives up to `wanted` pages up, in the order of the eviction queue, after looking at `scan` at most.
    /// Writes dirty ones first, or passes them by.
    pub(super) fn evict(
        &self,
        supply: &mut dyn FrameSource,
        wanted: u64,
        scan: u64,
        may_write: bool,
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        // Each is looked at twice at most: with its mark, and without.
        let scan = scan.min(self.queue.len().saturating_mul(2) + 2);
        while shrunk.scanned < scan && shrunk.freed < wanted {
            let Some(step) = self.queue.step(&self.table.slots) else {
                break;
            };
            shrunk.scanned += 1;
            let HandStep::Victim(id) = step else { continue };
            let key = self.table.slot(id).key();
            let left = self.leave(key, id) || may_write && self.write_and_leave(key, id);
            if left {
                self.free_frame(supply, id);
                shrunk.freed += 1;
            }
        }
        shrunk
    }

    fn write_and_leave(&self, key: PageKey, id: u32) -> bool {
        let is_dirty = {
            let locked = self.table.lock(key);
            let slot = self.table.slot(id);
            locked.is(id, SlotState::Ready) && slot.is_dirty() && slot.pins() == 0
        };
        if !is_dirty {
            return false;
        }
        self.write_around(key);
        self.leave(key, id)
    }

    /// Takes the page out of its slot, if it is clean and not in use: its frame is the caller's
    /// then.
    pub(super) fn leave(&self, key: PageKey, id: u32) -> bool {
        let slot = self.table.slot(id);
        let locked = self.table.lock(key);
        // A thread that writes it back holds it, so it is not idle.
        let may_go = locked.is(id, SlotState::Ready)
            && slot.is_idle()
            && slot.pins() == 0
            && !slot.is_dirty();
        if !may_go {
            return false;
        }
        // A thread that wants it now waits until it is in the cleancache: it must find this page,
        // and not an older one on disk.
        slot.set_state(SlotState::Leaving);
        drop(locked);
        if let Some((tenancy, pool)) = self.cleancache {
            let mut words = [0; FRAME_WORDS];
            self.copy_out(id, &mut words);
            let key = Key {
                pool,
                object: key.file,
                index: key.page,
            };
            let mut is_put = false;
            let leaving = LeavingPage { cache: self, id };
            tenancy.with(&mut |store| is_put = store.put(key, &words).is_ok());
            std::mem::forget(leaving);
            count(&self.counters.put, u64::from(is_put));
        }
        self.queue.remove(&self.table.slots, id);
        let locked = self.table.lock(key);
        locked.remove(id);
        slot.reset(SlotState::Held);
        locked.changed();
        count(&self.counters.evicted, 1);
        true
    }

    pub(super) fn free_frame(&self, supply: &mut dyn FrameSource, id: u32) {
        self.table.slot(id).reset(SlotState::Free);
        supply.free_frame(self.table.frame(id));
    }

    /// Writes all dirty pages and gives all pages up that it can: not those that are pinned, in
    /// use, or could not be written, and none to a supply of other frames. Returns how many remain.
    pub fn clear(&self, supply: &mut dyn FrameSource) -> u64 {
        self.write_everything();
        if self.check_supply(supply).is_err() {
            return self.queue.len();
        }
        while self.evict(supply, u64::MAX, u64::MAX, true).freed > 0 {}
        self.give_stock_back(supply);
        self.queue.len()
    }
}

impl<F: FrameSource> Shrink<F> for FileCache<'_> {
    /// As hot as the share of uses that found their page.
    fn holding(&self) -> u64 {
        self.stats().pages
    }

    fn heat(&self) -> u8 {
        let stats = self.stats();
        let heat = stats.hits.saturating_mul(255) / (stats.hits + stats.misses).max(1);
        heat.min(255) as u8
    }

    /// By SIEVE. It writes dirty pages first if the context lets it start I/O and enter a file
    /// system, and else passes them by. Clean ones go to the cleancache.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        if self.check_supply(&*frames).is_err() {
            return shrunk;
        }
        while shrunk.freed < ask.wanted
            && let Some(id) = self.stock_pop()
        {
            self.free_frame(frames, id);
            shrunk.freed += 1;
            shrunk.scanned += 1;
        }
        let may_write = ask.context.may_io && ask.context.may_fs && ask.context.may_block;
        let wanted = ask.wanted - shrunk.freed;
        let scan = ask.scan.saturating_sub(shrunk.scanned);
        let evicted = self.evict(frames, wanted, scan, may_write);
        shrunk.freed += evicted.freed;
        shrunk.scanned += evicted.scanned;
        shrunk
    }
}

impl FileCache<'_> {
    /// All counters, and the pages it has.
    #[must_use]
    pub fn stats(&self) -> super::FileStats {
        let (hits, ahead_hits) = self.table.hits();
        let all = &self.counters;
        let [
            misses,
            ahead_pages,
            from_cleancache,
            from_disk,
            evicted,
            put,
            written,
            write_errors,
            moved,
            dirty,
        ] = [
            &all.misses,
            &all.ahead_pages,
            &all.from_cleancache,
            &all.from_disk,
            &all.evicted,
            &all.put,
            &all.written,
            &all.write_errors,
            &all.moved,
            &all.dirty,
        ]
        .map(|counter| counter.load(Relaxed));
        super::FileStats {
            hits,
            misses,
            ahead_hits,
            ahead_pages,
            from_cleancache,
            from_disk,
            evicted,
            put,
            written,
            write_errors,
            moved,
            pages: self.queue.len(),
            dirty,
        }
    }
}
