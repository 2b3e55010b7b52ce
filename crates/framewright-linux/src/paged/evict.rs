//! Pages leave: by second chance, because the hardware does not report uses.
//!
//! ```text
//!     shown ──── hand: hidden, with its neighbours ────▶ listed ──── first of the list ───▶ evicted
//!       ▲                                                  │
//!       └───────────────── touched: used ──────────────────┘
//! ```

use super::Paged;
use super::region::{PagedRegion, count};
use super::table::{BUSY, DIRTY, LEAVING, LISTED, PagedState, SHOWN, WRITABLE};
use crate::ram::FRAME_WORDS;
use crate::swap::SwapError;
use framewright::Frame;
use framewright::frame::FrameSource;
use framewright::reclaim::{Ask, Shrink, Shrunk};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// The most pages that leave at once: one request to the device.
pub(super) const BATCH: usize = 32;

/// Rounds over the list that may find only pages that were touched.
const ROUNDS: usize = 8;

/// The most pages that are hidden at once, and the longest range that one call hides.
const HIDE: usize = 64;
const HIDE_SPAN: usize = 512;

/// At least one in this many resident pages waits in the list.
const LISTED_PART: u64 = 4;

/// The state of eviction.
#[derive(Debug)]
pub(super) struct Evictor {
    /// Hidden pages, the first of them first. Some may have been touched since, or be gone. Never longer than the room
    /// that it has from the start (PG7).
    listed: VecDeque<usize>,
    /// Where the next pages to hide are looked for.
    hand: usize,
    pub(super) picked: Vec<usize>,
    /// The picked pages that must be stored, and their contents.
    pub(super) pages: Vec<u64>,
    pub(super) contents: Vec<[u64; 512]>,
    pub(super) frames: Vec<Frame>,
}

/// The result of one call.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Evicted {
    pub(super) scanned: u64,
    pub(super) freed: u64,
}

impl Evictor {
    /// For a region with at most this many resident pages, or not many more.
    pub(super) fn new(resident_max: u64) -> Self {
        let listed_max = (resident_max / LISTED_PART) as usize + HIDE;
        Self {
            listed: VecDeque::with_capacity(listed_max),
            hand: 0,
            picked: Vec::with_capacity(BATCH),
            pages: Vec::with_capacity(BATCH),
            contents: vec![[0; FRAME_WORDS]; BATCH],
            frames: Vec::with_capacity(BATCH),
        }
    }

    /// Frees the frames that pages had. If that unwinds, those that are left go with the next ones.
    pub(super) fn free_all(&mut self, free: &mut dyn FnMut(Frame)) {
        self.frames.reverse();
        while let Some(frame) = self.frames.pop() {
            free(frame);
        }
    }
}

/// Picked pages on their way to the swap: they stay if that unwinds (PG6).
struct LeavingPages<'p, 's> {
    paged: &'p Paged<'s>,
    evictor: &'p mut Evictor,
}

impl Drop for LeavingPages<'_, '_> {
    fn drop(&mut self) {
        let region = &self.paged.region;
        let shut = region.gate.shut();
        for &nth in &self.evictor.picked {
            let state = region.table.state(nth);
            region.table.set(nth, state.without(BUSY | LEAVING));
        }
        drop(shut);
        region.changed.tell();
    }
}

/// A page that only this thread changes, until this is dropped, even by a panic (PG6).
struct BusyPage<'p> {
    region: &'p PagedRegion,
    nth: usize,
}

impl Drop for BusyPage<'_> {
    fn drop(&mut self) {
        let shut = self.region.gate.shut();
        let state = self.region.table.state(self.nth);
        self.region.table.set(self.nth, state.without(BUSY));
        drop(shut);
        self.region.changed.tell();
    }
}

impl Paged<'_> {
    pub(super) fn evictor(&self) -> MutexGuard<'_, Evictor> {
        self.evictor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts at least `wanted` pages if possible, in whole batches.
    pub(super) fn evict_some(&self, wanted: u64, supply: &mut dyn FrameSource) -> u64 {
        let mut evictor = self.evictor();
        // A small batch for a small budget, so that not half of it goes at once.
        let batch = (self.budget / 8).clamp(1, BATCH as u64) as usize;
        let (mut freed, mut rounds) = (0, 0);
        while freed < wanted && rounds < ROUNDS {
            let done = self.evict(&mut evictor, batch, true, &mut |frame| {
                supply.free_frame(frame)
            });
            freed += done.freed;
            rounds = if done.freed == 0 { rounds + 1 } else { 0 };
        }
        freed
    }

    /// Evicts up to `wanted` pages, at most a batch.
    pub(super) fn evict(
        &self,
        evictor: &mut Evictor,
        wanted: usize,
        may_write: bool,
        free: &mut dyn FnMut(Frame),
    ) -> Evicted {
        // Those of a call that unwound: with these it would not have room for its own (PG7).
        evictor.free_all(free);
        let mut done = Evicted {
            scanned: self.list_more(evictor),
            freed: 0,
        };
        done.scanned += self.pick(evictor, wanted.min(BATCH), may_write);
        if evictor.picked.is_empty() {
            return done;
        }
        let leaving = LeavingPages {
            paged: self,
            evictor: &mut *evictor,
        };
        let stored = self.store(leaving.evictor);
        std::mem::forget(leaving);
        if let Err((_, error)) = &stored {
            self.tell_error(error);
        }
        let failed = match &stored {
            Ok(()) => &[],
            Err((nth, _)) => &evictor.pages[*nth..],
        };
        let before = evictor.frames.len();
        self.let_go(&evictor.picked, failed, &mut evictor.frames);
        self.region.changed.tell();
        done.freed = (evictor.frames.len() - before) as u64;
        self.resident.fetch_sub(done.freed, Relaxed);
        let counts = &self.region.counts;
        count(&counts.evicted, done.freed);
        count(&counts.given, done.freed);
        count(
            &counts.evicted_dirty,
            (evictor.pages.len() - failed.len()) as u64,
        );
        count(&counts.evict_failed, failed.len() as u64);
        evictor.free_all(free);
        done
    }

    /// Hides pages until enough are listed, or the hand has gone all the way round. Returns how
    /// many pages it saw.
    fn list_more(&self, evictor: &mut Evictor) -> u64 {
        let resident = self.resident.load(Relaxed);
        let enough = (resident / LISTED_PART).clamp(1, resident.max(1)) as usize;
        let (mut seen, all) = (0, self.region.page_count());
        let mut looked = 0;
        let room = evictor.listed.capacity() - HIDE;
        while evictor.listed.len() < enough && evictor.listed.len() <= room && looked < all {
            let (passed, resident) = self.hide_some(evictor);
            looked += passed;
            seen += resident;
        }
        seen
    }

    /// Hides up to [`HIDE`] pages from the hand on. Returns how many pages the hand passed, and how
    /// many of them had frames.
    fn hide_some(&self, evictor: &mut Evictor) -> (usize, u64) {
        let region = &self.region;
        let start = evictor.hand;
        let before = evictor.listed.len();
        let mut resident = 0;
        let _shut = region.gate.shut();
        // From the first to the last page that one call hides; pages that are not shown may lie
        // between.
        let mut run = start..start;
        let mut at = start;
        while at < region.page_count() && at - start < HIDE_SPAN {
            let state = region.table.state(at);
            resident += u64::from(state.has_frame());
            if state.is_idle() && !state.is(LISTED) {
                if evictor.listed.len() - before == HIDE {
                    break;
                }
                region.table.set(at, state.with(LISTED));
                evictor.listed.push_back(at);
                if state.is(SHOWN) {
                    if run.is_empty() {
                        run.start = at;
                    }
                    run.end = at + 1;
                }
            } else if state.is(SHOWN) {
                // Pinned, or in use: it stays visible.
                self.hide_run(&run);
                run = at..at;
            }
            at += 1;
        }
        self.hide_run(&run);
        evictor.hand = if at == region.page_count() { 0 } else { at };
        (at - start, resident)
    }

    /// Hides the listed ones among `pages`. With the gate shut.
    fn hide_run(&self, pages: &std::ops::Range<usize>) {
        let region = &self.region;
        // If the kernel refuses, they stay visible, and so count as used.
        if pages.is_empty() || region.hide(pages).is_err() {
            return;
        }
        for nth in pages.clone() {
            let state = region.table.state(nth);
            if state.is(SHOWN) {
                count(&region.counts.hidden, 1);
                region.table.set(nth, state.without(SHOWN | WRITABLE));
            }
        }
    }

    /// Picks the first of the list that have not been touched since: they are leaving. Returns how
    /// many it saw.
    fn pick(&self, evictor: &mut Evictor, wanted: usize, may_write: bool) -> u64 {
        let region = &self.region;
        evictor.picked.clear();
        evictor.pages.clear();
        let mut seen = 0;
        let mut left = evictor.listed.len();
        let _shut = region.gate.shut();
        while evictor.picked.len() < wanted && left > 0 {
            let Some(nth) = evictor.listed.pop_front() else {
                break;
            };
            left -= 1;
            seen += 1;
            let state = region.table.state(nth);
            if !state.is(LISTED) {
                continue;
            }
            if !may_write && state.is(DIRTY) {
                evictor.listed.push_back(nth);
                continue;
            }
            let is_unused = state.is_idle() && !state.is(SHOWN);
            let state = state.without(LISTED);
            region.table.set(
                nth,
                if is_unused {
                    evictor.picked.push(nth);
                    state.with(BUSY | LEAVING)
                } else {
                    state
                },
            );
        }
        seen
    }

    /// Stores the picked pages that are dirty, and keeps the others.
    fn store(&self, evictor: &mut Evictor) -> Result<(), (usize, SwapError)> {
        let region = &self.region;
        for &nth in &evictor.picked {
            let state = region.table.state(nth);
            let Some(frame) = region.table.frame(state) else {
                continue;
            };
            let contents = &mut evictor.contents[evictor.pages.len()];
            region.copy_out(frame, contents);
            if state.is(DIRTY) {
                evictor.pages.push(nth as u64);
            } else {
                // In no slot: it is zero, as it was before it was touched.
                self.swap.keep(nth as u64, contents);
            }
        }
        let dirty = evictor.pages.len();
        let (pages, contents) = (&evictor.pages[..], &evictor.contents[..dirty]);
        self.swap.store(pages, contents).or_else(|(nth, error)| {
            if !matches!(error, SwapError::Full(_)) || !self.free_stale_slots() {
                return Err((nth, error));
            }
            let again = self.swap.store(&pages[nth..], &contents[nth..]);
            again.map_err(|(more, error)| (nth + more, error))
        })
    }

    /// Frees the slots of pages that have changed since they came from there. Returns whether there
    /// were any.
    fn free_stale_slots(&self) -> bool {
        let region = &self.region;
        let before = self.swap.used_slots();
        for nth in 0..region.page_count() {
            // A look without the gate: mostly there is no such page.
            if !region.table.state(nth).is(DIRTY) || !self.swap.has_slot(nth as u64) {
                continue;
            }
            let is_stale = {
                let _shut = region.gate.shut();
                let state = region.table.state(nth);
                let is_stale = state.is_idle() && state.is(DIRTY);
                if is_stale {
                    region.table.set(nth, state.with(BUSY));
                }
                is_stale
            };
            if is_stale {
                let _busy = BusyPage { region, nth };
                let _ = self.swap.invalidate(nth as u64);
            }
        }
        self.swap.used_slots() < before
    }

    /// Takes the frames of the picked pages that did not fail away, into `frames`.
    fn let_go(&self, picked: &[usize], failed: &[u64], frames: &mut Vec<Frame>) {
        let region = &self.region;
        let _shut = region.gate.shut();
        for &nth in picked {
            let state = region.table.state(nth);
            if failed.contains(&(nth as u64)) {
                // Hidden, and still dirty: a touch, or the next look, comes back to it.
                region.table.set(nth, state.without(BUSY | LEAVING));
                continue;
            }
            frames.extend(region.table.frame(state));
            region.table.without_frame(state);
            region.table.set(nth, PagedState::default());
        }
    }
}

impl<F: FrameSource> Shrink<F> for Paged<'_> {
    /// As hot as the share of hidden pages that were touched again.
    fn holding(&self) -> u64 {
        self.resident.load(Relaxed)
    }

    fn heat(&self) -> u8 {
        let counts = &self.region.counts;
        let (hidden, used) = (counts.hidden.load(Relaxed), counts.used_again.load(Relaxed));
        let heat = used.saturating_mul(255) / hidden.max(1);
        heat.min(255) as u8
    }

    /// By second chance. If the request may not wait for I/O, only pages that need not be written
    /// go. While another thread evicts, none go, so that the request asks others; unless it may wait, and may look at
    /// half of the pages that have frames or more: others had little then. It waits for that thread, and counts the
    /// frames that came meanwhile as freed, which the other one counts too; it evicts only what is missing then.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        if self.check_supply(frames.origin()).is_err() {
            return shrunk;
        }
        let may_write = ask.context.may_io && ask.context.may_block;
        // Of a single page half is that page.
        let half = self.resident.load(Relaxed).div_ceil(2).max(1);
        let is_last_resort = ask.scan >= half;
        let counts = &self.region.counts;
        let given = counts.given.load(Relaxed);
        let mut evictor = match self.evictor.try_lock() {
            Ok(evictor) => evictor,
            Err(TryLockError::Poisoned(evictor)) => evictor.into_inner(),
            // Its holder waits for its own I/O at most, and for no frame: no call of a device asks reclaim.
            Err(TryLockError::WouldBlock) if may_write && is_last_resort => {
                count(&counts.waits, 1);
                let evictor = self.evictor();
                // All threads that wait would else take a batch each.
                let came = counts.given.load(Relaxed) - given;
                shrunk.freed = came.min(ask.wanted);
                evictor
            }
            Err(TryLockError::WouldBlock) => return shrunk,
        };
        while shrunk.freed < ask.wanted && shrunk.scanned < ask.scan {
            let wanted = (ask.wanted - shrunk.freed).min(BATCH as u64) as usize;
            let done = self.evict(&mut evictor, wanted, may_write, &mut |frame| {
                frames.free_frame(frame)
            });
            shrunk.scanned += done.scanned.max(1);
            shrunk.freed += done.freed;
        }
        shrunk
    }
}
