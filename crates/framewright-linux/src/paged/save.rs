//! Writes all dirty pages to the device, where they stay in memory; and forgets pages that are no
//! longer wanted.

use super::evict::{BATCH, Evictor};
use super::region::PagedRegion;
use super::table::{BUSY, DIRTY, LEAVING, PagedState, SHOWN, WRITABLE};
use super::{Paged, PagedError};
use crate::swap::SwapError;
use framewright::frame::FrameSource;
use framewright::platform::MapError;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Paged<'_> {
    /// Writes all dirty pages, here or in the store, to the device and, where that is durable,
    /// makes a checkpoint. When it returns, all that was written to the region before it began is
    /// safe: another process finds it by [`Frontswap::restore`](crate::Frontswap::restore). Returns
    /// the checkpoint's number, 0 if there is none.
    ///
    /// A thread that writes meanwhile waits only for a fault; the checkpoint may or may not contain
    /// its write.
    ///
    /// # Errors
    /// Some page was not written: the last checkpoint is the one before, and dirty pages stay
    /// dirty.
    pub fn sync(&self) -> Result<u64, PagedError> {
        Ok(self.swap.sync_with(|| self.save_all())?)
    }

    fn save_all(&self) -> Result<(), SwapError> {
        let mut at = 0;
        while at < self.region.page_count() {
            let mut evictor = self.evictor();
            let (next, is_arriving) = self.copy_dirty(&mut evictor, at);
            at = next;
            let saved = self.store_copies(&mut evictor);
            drop(evictor);
            saved?;
            if is_arriving {
                // A page that is on its way in may be nowhere else: it is looked at when it is
                // there.
                let shut = self.region.gate.shut();
                let state = self.region.table.state(at);
                if state.is(BUSY) && !state.has_frame() {
                    self.region.wait(shut);
                }
            }
        }
        Ok(())
    }

    /// Copies up to a batch of dirty pages from `at` on, which are clean and busy then. Returns
    /// where it ended, and whether that is because the page there is arriving.
    fn copy_dirty(&self, evictor: &mut Evictor, at: usize) -> (usize, bool) {
        let region = &self.region;
        evictor.pages.clear();
        evictor.picked.clear();
        let _shut = region.gate.shut();
        let mut end = (region.page_count(), false);
        for nth in at..region.page_count() {
            let state = region.table.state(nth);
            if state.is(BUSY) && !state.has_frame() {
                end = (nth, true);
                break;
            }
            if !state.has_frame() || !state.is(DIRTY) {
                continue;
            }
            if evictor.picked.len() == BATCH {
                end = (nth, false);
                break;
            }
            evictor.picked.push(nth);
        }
        self.close(&evictor.picked);
        for &nth in &evictor.picked {
            let state = region.table.state(nth);
            // A page that is pinned, or that could not be hidden, may be written at any time: it
            // stays dirty.
            let is_open = state.is(WRITABLE) || state.pins() > 0;
            let saved = if is_open { state } else { state.without(DIRTY) };
            region.table.set(nth, saved.with(BUSY));
            let frame = region.table.frame(state).expect("it was seen a moment ago");
            region.copy_out(frame, &mut evictor.contents[evictor.pages.len()]);
            evictor.pages.push(nth as u64);
        }
        end
    }

    /// Hides the pages that can be written to, unless they are pinned: neighbours by one call. With
    /// the gate shut.
    fn close(&self, pages: &[usize]) {
        let region = &self.region;
        let must_close = |nth: usize| {
            let state = region.table.state(nth);
            state.is(WRITABLE) && state.pins() == 0
        };
        let mut rest = pages;
        while let Some((&first, _)) = rest.split_first() {
            let together = rest.iter().zip(first..);
            let together =
                together.take_while(|(nth, wanted)| **nth == *wanted && must_close(**nth));
            let run = first..first + together.count();
            if !run.is_empty() && region.hide(&run).is_ok() {
                for nth in run.clone() {
                    let state = region.table.state(nth);
                    region.table.set(nth, state.without(SHOWN | WRITABLE));
                }
            }
            rest = &rest[run.len().max(1)..];
        }
    }

    fn store_copies(&self, evictor: &mut Evictor) -> Result<(), SwapError> {
        let len = evictor.pages.len();
        let mut saving = SavingPages {
            region: &self.region,
            pages: &evictor.picked,
            saved: 0,
        };
        let stored = self.swap.store(&evictor.pages, &evictor.contents[..len]);
        saving.saved = stored.as_ref().err().map_or(len, |(nth, _)| *nth);
        drop(saving);
        stored.map_err(|(_, error)| error)
    }

    /// Forgets pages, counted from the region's first: they are zero then, without a frame or a
    /// slot.
    ///
    /// # Errors
    /// A page is pinned, or outside, or the kernel does not let it be hidden. Those before it are forgotten.
    pub fn discard(
        &self,
        pages: Range<u64>,
        supply: &mut dyn FrameSource,
    ) -> Result<(), PagedError> {
        if pages.start > pages.end || pages.end > self.region.page_count() as u64 {
            return Err(PagedError::Outside(self.len_bytes()));
        }
        self.check_supply(supply.origin())?;
        loop {
            let spare = self.spare().pop();
            let Some(frame) = spare else { break };
            supply.free_frame(frame);
        }
        let (mut at, end) = (pages.start as usize, pages.end as usize);
        while at < end {
            let mut evictor = self.evictor();
            // As in `evict`.
            evictor.free_all(&mut |frame| supply.free_frame(frame));
            let (next, obstacle) = self.seize(at..end);
            let seized = SeizedPages {
                region: &self.region,
                pages: at..next,
            };
            for nth in at..next {
                let forgotten = self.swap.invalidate(nth as u64);
                debug_assert!(forgotten.is_ok(), "each page of the region has an entry");
            }
            std::mem::forget(seized);
            self.forget(at..next, &mut evictor);
            evictor.free_all(&mut |frame| supply.free_frame(frame));
            drop(evictor);
            at = next;
            match obstacle {
                SaveObstacle::None => {}
                SaveObstacle::Pinned => return Err(PagedError::Pinned(at as u64)),
                SaveObstacle::Shown(error) => return Err(PagedError::Map(error)),
                SaveObstacle::Arriving => {
                    let shut = self.region.gate.shut();
                    if self.region.table.state(at).is(BUSY) {
                        self.region.wait(shut);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the access to the first of `pages` away, up to a batch, so that no thread can reach
    /// them. Returns the page where it ended, and why it went no further.
    fn seize(&self, pages: Range<usize>) -> (usize, SaveObstacle) {
        let region = &self.region;
        let _shut = region.gate.shut();
        let end = pages.end.min(pages.start + BATCH);
        let stop = (pages.start..end).find_map(|nth| {
            let state = region.table.state(nth);
            if state.pins() > 0 {
                Some((nth, SaveObstacle::Pinned))
            } else if state.is(BUSY) {
                Some((nth, SaveObstacle::Arriving))
            } else {
                None
            }
        });
        let (end, obstacle) = stop.unwrap_or((end, SaveObstacle::None));
        let seized = pages.start..end;
        let shown = |nth| region.table.state(nth).is(SHOWN);
        if seized.clone().any(shown)
            && let Err(error) = region.hide(&seized)
        {
            // While they are visible, they may be in use.
            return (pages.start, SaveObstacle::Shown(error));
        }
        for nth in seized {
            let state = region.table.state(nth);
            let state = state.without(SHOWN | WRITABLE).with(BUSY | LEAVING);
            region.table.set(nth, state);
        }
        (end, obstacle)
    }

    /// Takes the frames of seized pages, which are then as if never touched.
    fn forget(&self, pages: Range<usize>, evictor: &mut Evictor) {
        let region = &self.region;
        let before = evictor.frames.len();
        let _shut = region.gate.shut();
        for nth in pages {
            let state = region.table.state(nth);
            evictor.frames.extend(region.table.frame(state));
            region.table.without_frame(state);
            region.table.set(nth, PagedState::default());
        }
        let gone = evictor.frames.len() - before;
        self.resident.fetch_sub(gone as u64, Relaxed);
        region.changed.tell();
    }
}

/// Pages that are being copied to the swap, until this is dropped, even by a panic: then those that were not saved
/// are dirty (PG4, PG6).
struct SavingPages<'p> {
    region: &'p PagedRegion,
    pages: &'p [usize],
    /// How many of them are saved.
    saved: usize,
}

impl Drop for SavingPages<'_> {
    fn drop(&mut self) {
        let region = self.region;
        let _shut = region.gate.shut();
        for (at, &nth) in self.pages.iter().enumerate() {
            let state = region.table.state(nth).without(BUSY);
            let state = if at < self.saved {
                state
            } else {
                state.with(DIRTY)
            };
            region.table.set(nth, state);
        }
        region.changed.tell();
    }
}

/// Pages that are to be forgotten: if that unwinds, those with a frame stay, whatever the swap still has of them
/// (PG6).
struct SeizedPages<'p> {
    region: &'p PagedRegion,
    pages: Range<usize>,
}

impl Drop for SeizedPages<'_> {
    fn drop(&mut self) {
        let region = self.region;
        let _shut = region.gate.shut();
        for nth in self.pages.clone() {
            let state = region.table.state(nth).without(BUSY | LEAVING);
            let state = match state.has_frame() {
                true => state.with(DIRTY),
                false => state,
            };
            region.table.set(nth, state);
        }
        region.changed.tell();
    }
}

/// Why a page cannot be forgotten now.
enum SaveObstacle {
    None,
    Pinned,
    Shown(MapError),
    Arriving,
}
