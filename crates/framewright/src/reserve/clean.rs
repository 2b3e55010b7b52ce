//! Write-back: pages that are on no device yet go there.

use super::area::{CLEAN_CURSOR, CLEANER};
use super::table::{BLOCK, DIRTY, INDEX, OBJECT, State};
use super::{Guest, Key, PoolId};
use crate::platform::{Contents, Relax};
use crate::sync::{Lock, Ordering::Relaxed};
use crate::units::Frame;

/// What a call of [`Guest::clean`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Pages that are on their device now.
    pub written: u64,
    /// Pages whose writing failed: they are dirty as before.
    pub failed: u64,
    /// Pages that were invalidated or put again while they were written.
    pub overtaken: u64,
}

impl<P: Relax + Contents> Guest<'_, '_, P> {
    /// Has up to `pages` dirty pages written: calls `write` with each one's key and frame, which
    /// nobody changes meanwhile. If it returns `true` the page is on its device, and may be dropped from
    /// then on; else it stays dirty, and is tried again when all others have been.
    ///
    /// One CPU at a time; another one's call does nothing. So two versions of one page are
    /// written one after the other. `write` is called under no lock, and must not clean.
    pub fn clean(&mut self, pages: u64, mut write: impl FnMut(&Key, Frame) -> bool) -> Cleaned {
        let reserve = self.reserve();
        let mut cleaned = Cleaned::default();
        let Some(_cleaner) = Lock::new(&reserve.own[CLEANER]).try_lock() else {
            return cleaned;
        };
        let words = reserve.blocks_of(false).len() * (BLOCK / 64);
        let start = reserve.own[CLEAN_CURSOR].load(Relaxed) as usize % words;
        for nth in (start..words).chain(0..start) {
            let mut dirty = reserve.table.lane(nth)[DIRTY].load(Relaxed);
            while dirty != 0 {
                if cleaned.written + cleaned.failed + cleaned.overtaken == pages {
                    return cleaned;
                }
                let id = nth * 64 + dirty.trailing_zeros() as usize;
                dirty &= dirty - 1;
                self.clean_one(id, &mut write, &mut cleaned);
            }
            reserve.own[CLEAN_CURSOR].store(nth as u64 + 1, Relaxed);
        }
        cleaned
    }

    fn clean_one(
        &mut self,
        id: usize,
        write: &mut impl FnMut(&Key, Frame) -> bool,
        cleaned: &mut Cleaned,
    ) {
        let reserve = self.reserve();
        let table = &reserve.table;
        let Some(inside) = table.try_enter(id) else {
            return;
        };
        let word = table.state(id);
        let writing = word.with_state(State::Writing);
        if word.state() != State::Dirty || !table.change(id, word, writing) {
            return;
        }
        let desc = table.desc(id);
        let key = Key {
            pool: PoolId(word.pool() as u16),
            object: desc[OBJECT].load(Relaxed),
            index: desc[INDEX].load(Relaxed),
        };
        // The bit stays: no owner takes the frame, and none waits for the device (C3).
        drop(inside);
        let written = write(&key, reserve.frame(id));
        let inside = table.enter(id, &reserve.platform);
        let after = word.with_state(if written { State::Cached } else { State::Dirty });
        if written {
            table.set_dirty(id, false);
        }
        if table.change(id, writing, after) {
            *(if written {
                &mut cleaned.written
            } else {
                &mut cleaned.failed
            }) += 1;
        } else {
            // Nobody's page any more: whoever dropped it left the frame to us.
            table.set_dirty(id, false);
            self.release(id, table.state(id), &inside);
            cleaned.overtaken += 1;
        }
    }
}
