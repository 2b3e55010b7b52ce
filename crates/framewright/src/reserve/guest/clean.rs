//! Write-back: writes pages that are on no device yet to their device.

use super::super::table::{FrameState, StateWord};
use super::{Guest, Key};
use crate::platform::ReservePlatform;
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

impl<P: ReservePlatform> Guest<'_, '_, P> {
    /// Has up to `pages` dirty pages written: calls `write` with the key and the frame of each. The
    /// contents of the frame do not change meanwhile. If `write` returns `true`, the page is on its
    /// device, and may be dropped from then on. Else it stays dirty, and is tried again after all
    /// others.
    ///
    /// One CPU cleans at a time; a call from another CPU does nothing. So two versions of one page
    /// are written one after the other. `write` is called under no lock but the cleaner's, and must
    /// not clean. A put or an invalidation of the page does not wait for `write`: the version that
    /// `write` has may still be on its way to the device then. A guest that writes to the device
    /// itself must keep the two in order.
    pub fn clean(&mut self, pages: u64, mut write: impl FnMut(&Key, Frame) -> bool) -> Cleaned {
        let reserve = self.reserve();
        let mut cleaned = Cleaned::default();
        let Some(_cleaner) = Lock::new(&reserve.own.cleaner).try_lock() else {
            return cleaned;
        };
        let (frames, ordinary) = (reserve.table.frames(), reserve.table.ordinary());
        let start = reserve.own.clean_cursor.load(Relaxed) as usize % reserve.ids();
        let halves = [start..frames, start.max(ordinary.start)..ordinary.end];
        let others = [0..start.min(frames), ordinary.start..start];
        for ids in halves.into_iter().chain(others) {
            let mut at = ids.start;
            while at < ids.end {
                let word = reserve.table.lane(at / 64).dirty() >> (at % 64);
                if word == 0 {
                    at = (at / 64 + 1) * 64;
                    continue;
                }
                at += word.trailing_zeros() as usize;
                if at >= ids.end {
                    break;
                }
                if cleaned.written + cleaned.failed + cleaned.overtaken == pages {
                    return cleaned;
                }
                // The next call begins behind this page, whatever becomes of it.
                reserve.own.clean_cursor.store(at as u64 + 1, Relaxed);
                self.clean_one(at, &mut write, &mut cleaned);
                at += 1;
            }
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
        let Some(inside) = table.try_enter_from(id, self.record()) else {
            return;
        };
        let word = table.state(id);
        let writing = word.with_state(FrameState::Writing);
        if word.state() != FrameState::Dirty || !table.change(id, word, writing) {
            return;
        }
        let key = table.desc(id).key(word.pool());
        let is_dead = reserve.is_dead(id, word);
        // The dirty bit stays: no owner takes the frame, so no owner waits for the device (C3).
        drop(inside);
        let mut end = EndWriting {
            guest: self,
            id,
            writing,
            // If `write` panics, the page is as dirty as before.
            after: word,
        };
        let frame = if table.is_ordinary(id) {
            reserve.ordinary_frame(id)
        } else {
            Some(reserve.frame(id))
        };
        if !is_dead && frame.is_some_and(|frame| write(&key, frame)) {
            end.after = word.with_state(FrameState::Cached);
        }
        let written = end.after != word;
        match end.finish() {
            WritingEnded::Stays if written => cleaned.written += 1,
            WritingEnded::Stays => cleaned.failed += 1,
            WritingEnded::Gone => cleaned.overtaken += 1,
        }
    }
}

/// A page that is being written. Dropping this ends the writing.
struct EndWriting<'g, 'r, 'm, P: ReservePlatform> {
    guest: &'g Guest<'r, 'm, P>,
    id: usize,
    writing: StateWord,
    after: StateWord,
}

enum WritingEnded {
    Stays,
    Gone,
}

impl<P: ReservePlatform> EndWriting<'_, '_, '_, P> {
    fn finish(self) -> WritingEnded {
        let ended = self.end();
        core::mem::forget(self);
        ended
    }

    fn end(&self) -> WritingEnded {
        let reserve = self.guest.reserve();
        let table = &reserve.table;
        let inside = table.enter_from(self.id, self.guest.record(), &reserve.platform);
        let is_dead = reserve.is_dead(self.id, self.writing);
        let stays_dirty = self.after.state() == FrameState::Dirty;
        if !stays_dirty {
            // Clears the bit before the page can be dropped and the frame hold another dirty page.
            table.set_clean(self.id);
        }
        if !is_dead && !stays_dirty && table.is_ordinary(self.id) {
            // A page that a device has does not stay in ordinary memory.
            let gone = self.writing.next(FrameState::Filling, self.writing.pool());
            if table.change(self.id, self.writing, gone) {
                reserve.pools.end_dirty(self.writing.pool());
                self.guest.release(self.id, gone, &inside);
                return WritingEnded::Stays;
            }
        } else if !is_dead && table.change(self.id, self.writing, self.after) {
            if !stays_dirty {
                reserve.pools.end_dirty(self.writing.pool());
            }
            return WritingEnded::Stays;
        }
        // The page was forgotten meanwhile: the CPU that dropped it left the frame to us.
        reserve.dirty_no_more(self.id, self.writing.pool());
        self.guest.release(self.id, table.state(self.id), &inside);
        WritingEnded::Gone
    }
}

impl<P: ReservePlatform> Drop for EndWriting<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.end();
    }
}
