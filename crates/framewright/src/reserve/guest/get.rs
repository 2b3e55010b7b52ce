//! How a guest loads a page.
//!
//! A get copies first and looks afterwards: it serves the copied page only if the descriptor still
//! has the generation of the entry, the entry still stands in the index, and neither the object nor
//! the pool was invalidated meanwhile (C4, C6). So a get that leaves its page in place makes no other
//! CPU wait. In an exclusive pool the get takes the page away instead: it holds the descriptor in
//! state Loading for the time of the copy.

use super::super::table::{FrameState, InsideFrom, StateWord};
use super::{Guest, Key, Undo};
use crate::platform::ReservePlatform;
use crate::raw::soon_written;
use crate::sync::Ordering::Relaxed;

/// Cache lines of the caller's page that a get fetches before it knows whether there is anything to
/// copy. More would get in the way of the search.
const LINES_AHEAD: usize = 8;

impl<P: ReservePlatform> Guest<'_, '_, P> {
    /// Copies the page of `key` into `page`, if it is there. In an exclusive pool the page then
    /// belongs to the caller and has left the reserve.
    ///
    /// After a miss `page` holds what it held before, or zeros, or a mix of both: never what an
    /// owner wrote. 0.1 µs besides the copy.
    pub fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        let hit = self.try_get(&key, page).is_some() || self.get_moved(&key, page).is_some();
        self.count(key.pool.0.into(), |counters| match hit {
            true => &counters.loaded,
            false => &counters.missed,
        });
        hit
    }

    pub(in super::super) fn try_get(&self, key: &Key, page: &mut [u64; 512]) -> Option<()> {
        let reserve = self.reserve;
        let table = &reserve.table;
        let object_hash = key.object_hash();
        let bucket = self.bucket(key, object_hash);
        bucket.fetch();
        // Uses the time until the index arrives.
        for line in page.chunks(8).take(LINES_AHEAD) {
            soon_written(&line[0]);
        }
        let now = reserve.pools.now(key.pool, object_hash)?;
        let found = |entry| self.page_of(entry, key).map(|(id, word)| (entry, id, word));
        let (entry, id, word) = bucket.entries().find_map(found)?;
        if table.desc(id).born.load(Relaxed) != now.0 {
            return None;
        }
        let is_there = if reserve.pools.is_exclusive(key.pool) {
            self.take_away(id, word, page).is_some()
        } else {
            // An ordinary frame stays with its descriptor while a CPU is inside the gate.
            let _inside = table
                .is_ordinary(id)
                .then(|| table.enter_from(id, self.record, &reserve.platform));
            self.copy(id, page);
            let is_there = table.state_after_reading(id).generation() == word.generation()
                && bucket.has(entry);
            if is_there {
                table.visit(id);
            }
            is_there
        };
        // Nor must a get that was under way serve a page that was invalidated meanwhile (C6).
        if is_there && reserve.pools.now(key.pool, object_hash) == Some(now) {
            return Some(());
        }
        // The copied words may be an owner's, which the guest must not see.
        page.fill(0);
        None
    }

    /// The get of an exclusive pool: copies the page and takes it away.
    fn take_away(&self, id: usize, word: StateWord, page: &mut [u64; 512]) -> Option<()> {
        let table = &self.reserve.table;
        let inside = table.enter_from(id, self.record, &self.reserve.platform);
        let mut now = word;
        loop {
            match now.state() {
                FrameState::Cached | FrameState::Dirty => {
                    let loading = now.with_state(FrameState::Loading);
                    if table.change(id, now, loading) {
                        let undo = Undo(|| self.stop_loading(id, loading, now, &inside));
                        self.copy(id, page);
                        undo.disarm();
                        // A CPU that forgot the page meanwhile has moved its generation on (C6):
                        // `drop_page`.
                        let gone = loading.next(FrameState::Filling, loading.pool());
                        let is_mine = table.change(id, loading, gone);
                        if now.is_dirty() {
                            self.reserve.dirty_no_more(id, now.pool());
                        }
                        self.release(id, table.state(id), &inside);
                        return is_mine.then_some(());
                    }
                }
                // The CPU that is also copying it gives the frame back when it is done:
                // `drop_page`.
                FrameState::Writing => {
                    self.copy(id, page);
                    if table.change(id, now, now.next(FrameState::Writing, now.pool())) {
                        return Some(());
                    }
                }
                _ => return None,
            }
            now = table.state(id);
            if now.generation() != word.generation() {
                return None;
            }
        }
    }

    /// Puts the page of an unfinished get back where it was, unless it was forgotten meanwhile.
    #[cold]
    fn stop_loading(
        &self,
        id: usize,
        loading: StateWord,
        before: StateWord,
        inside: &InsideFrom<'_>,
    ) {
        let table = &self.reserve.table;
        if !table.change(id, loading, before) {
            if before.is_dirty() {
                self.reserve.dirty_no_more(id, before.pool());
            }
            self.release(id, table.state(id), inside);
        }
    }

    fn copy(&self, id: usize, page: &mut [u64; 512]) {
        let reserve = self.reserve;
        if reserve.table.has_frame(id) {
            reserve.platform.load(reserve.frame(id), page);
        } else if reserve.table.is_ordinary(id) {
            // If there is no frame, the page is gone, and the caller sees that when it looks at the
            // state.
            if let Some(frame) = reserve.ordinary_frame(id) {
                reserve.platform.load(frame, page);
            }
        } else {
            page.fill(reserve.table.desc(id).value.load(Relaxed));
        }
    }
}
