//! Brings pages: from the swap, or zero.

use super::evict::BATCH;
use super::region::count;
use super::table::{AHEAD, BUSY, DIRTY, FAILED, PagedState, SHOWN, WRITABLE};
use super::{Paged, PagedError};
use crate::ram::FRAME_WORDS;
use crate::swap::LoadedPage;
use crate::window::MappingAccess;
use framewright::Frame;
use framewright::frame::FrameSource;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{MutexGuard, PoisonError};

/// The most pages that are brought at once, where touches follow one another: 64 KiB.
const CLUSTER: usize = 16;

/// Sequences of touches that a pager tells apart.
const STREAMS: usize = 4;

/// Dirty pages that a pager cleans at a time while no page is wanted.
const CLEAN: u64 = 8;

/// A pager's own state.
struct PagerWork {
    /// Of as many pages as are brought at once.
    contents: Vec<[u64; 512]>,
    frames: Vec<Frame>,
    loaded: Vec<LoadedPage>,
    streams: [Stream; STREAMS],
    oldest: usize,
    /// The sequence that the last touch belongs to.
    latest: usize,
}

/// Touches in ascending order.
#[derive(Clone, Copy, Default)]
struct Stream {
    next: usize,
    len: usize,
}

impl PagerWork {
    /// How many pages to bring for a touch of `nth`: twice as many as the last time, if it
    /// continues where that ended.
    fn cluster(&mut self, nth: usize) -> usize {
        let found = self
            .streams
            .iter()
            .position(|one| one.next == nth && one.len > 0);
        self.latest = found.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % STREAMS;
            self.oldest
        });
        let stream = &mut self.streams[self.latest];
        let len = if stream.next == nth {
            stream.len * 2
        } else {
            1
        };
        let len = len.clamp(1, CLUSTER);
        *stream = Stream {
            next: nth + len,
            len,
        };
        len
    }

    /// Frees all frames but the first `kept`. If that unwinds, those that are left are still the pager's.
    fn free_behind(&mut self, kept: usize, supply: &mut dyn FrameSource) {
        self.frames[kept..].reverse();
        while self.frames.len() > kept
            && let Some(frame) = self.frames.pop()
        {
            supply.free_frame(frame);
        }
    }

    /// The touch brings pages up to `end`: its sequence goes on there.
    fn ends_at(&mut self, end: usize) {
        let stream = &mut self.streams[self.latest];
        stream.next = stream.next.max(end);
    }
}

/// A pager that serves; counted out when this is dropped, even by a panic.
struct ServingPager<'p, 's>(&'p Paged<'s>);

impl Drop for ServingPager<'_, '_> {
    fn drop(&mut self) {
        self.0.region.end_of_pager();
    }
}

/// Pages on their way in, until this is dropped, even by a panic.
struct Bringing<'p, 's>(&'p Paged<'s>);

impl Drop for Bringing<'_, '_> {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Relaxed);
        self.0.region.changed.tell();
    }
}

/// Pages that were claimed, and are counted as resident: if a call unwinds they are as before, but those that the
/// swap has handed over have their frames (PG6).
struct ClaimedPages<'p, 's> {
    paged: &'p Paged<'s>,
    work: &'p mut PagerWork,
    pages: Range<usize>,
    counted: u64,
}

impl Drop for ClaimedPages<'_, '_> {
    fn drop(&mut self) {
        let (region, work) = (&self.paged.region, &mut *self.work);
        let mut kept = 0;
        let all = work.loaded.iter().zip(&work.contents);
        // Nowhere else now, even if it was not copied to its frame yet.
        let dirty = all
            .zip(self.pages.clone())
            .filter_map(|((loaded, contents), page)| {
                (*loaded == LoadedPage::Dirty).then_some((page, contents))
            });
        for ((page, contents), frame) in dirty.zip(&work.frames) {
            region.copy_in(*frame, contents);
            let _shut = region.gate.shut();
            let state = region.table.state(page).with(DIRTY);
            let state = region.table.with_frame(page, state, *frame);
            region.table.set(page, state);
            kept += 1;
        }
        work.frames.drain(..kept);
        self.paged.unclaim(&self.pages, None);
        self.paged
            .resident
            .fetch_sub(self.counted - kept as u64, Relaxed);
    }
}

/// A pager's frames that no page has yet: if a call unwinds, they are kept for the next pager (PG6).
struct LooseFrames<'p, 's> {
    paged: &'p Paged<'s>,
    work: PagerWork,
}

impl Drop for LooseFrames<'_, '_> {
    fn drop(&mut self) {
        self.paged.spare().append(&mut self.work.frames);
    }
}

impl Paged<'_> {
    /// Brings touched pages, with frames of `supply`, until [`stop`](Self::stop). For a thread of
    /// its own, which touches no page of the region; several may do it.
    ///
    /// While no page is wanted it cleans, if the swap has many dirty pages.
    ///
    /// # Errors
    /// [`PagedError::OtherFrames`], at once.
    pub fn serve(&self, supply: &mut dyn FrameSource) -> Result<(), PagedError> {
        let region = &self.region;
        if let Err(error) = self.check_supply(supply.origin()) {
            region.refused_pager();
            return Err(error);
        }
        region.begin_of_pager();
        let _serving = ServingPager(self);
        let mut loose = LooseFrames {
            paged: self,
            work: PagerWork {
                contents: vec![[0; FRAME_WORDS]; CLUSTER],
                frames: Vec::new(),
                loaded: Vec::new(),
                streams: Default::default(),
                oldest: 0,
                latest: 0,
            },
        };
        let work = &mut loose.work;
        while !region.is_stopped.load(Acquire) {
            let seen = region.asked.now();
            match region.next_wanted() {
                Some((nth, is_write)) => self.bring(nth, is_write, supply, work),
                None if self.swap.wants_cleaning() && self.swap.clean(CLEAN) > 0 => {}
                None if !region.window.has_room(BATCH as u64) && self.evict_some(1, supply) > 0 => {
                }
                None => region.asked.wait(seen),
            }
        }
        Ok(())
    }

    /// Frames that pagers left behind that have unwound: the next pager's, or freed by the next discard.
    pub(super) fn spare(&self) -> MutexGuard<'_, Vec<Frame>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a supply of that origin has the frames of the region's RAM (RS1).
    pub(super) fn check_supply(&self, origin: u64) -> Result<(), PagedError> {
        match self.region.window.ram().is_given_by(origin) {
            true => Ok(()),
            false => Err(PagedError::OtherFrames),
        }
    }

    /// Ends all calls of [`serve`](Self::serve), now and later. From then on a touch of a page
    /// without a frame is treated like one of an address without memory.
    pub fn stop(&self) {
        self.region.is_stopped.store(true, Release);
        self.region.asked.tell();
        self.region.changed.tell();
    }

    /// Brings a page, and some behind it. Leaves those of the latter that cannot be brought: no
    /// thread wants them yet.
    fn bring(
        &self,
        nth: usize,
        is_write: bool,
        supply: &mut dyn FrameSource,
        work: &mut PagerWork,
    ) {
        self.arriving.fetch_add(1, Relaxed);
        let _bringing = Bringing(self);
        self.bring_now(nth, is_write, supply, work);
    }

    fn bring_now(
        &self,
        nth: usize,
        is_write: bool,
        supply: &mut dyn FrameSource,
        work: &mut PagerWork,
    ) {
        let wanted = work.cluster(nth);
        let mut claimed = ClaimedPages {
            paged: self,
            work,
            pages: nth..nth + 1,
            counted: 0,
        };
        claimed.pages = self.claim(nth, wanted);
        let together = nth..nth + wanted;
        claimed.work.ends_at(claimed.pages.end);
        let more = claimed.pages.len() as u64;
        let resident = self.resident.fetch_add(more, AcqRel) + more;
        claimed.counted = more;
        self.make_room(resident, supply);
        let taken = self.take_frames(claimed.pages.len(), supply, claimed.work);
        let mut filled = taken.and_then(|()| self.fill(&claimed.pages, claimed.work));
        let all = claimed.pages.clone();
        if filled.is_err() && all.start + claimed.work.loaded.len() <= nth && all.start < nth {
            // The pages before it stand in the way of the one that was touched.
            claimed.pages = nth..nth + 1;
            claimed.counted = 1;
            self.unclaim(&(all.start..nth), None);
            self.unclaim(&(nth + 1..all.end), None);
            self.resident.fetch_sub(all.len() as u64 - 1, Relaxed);
            let one = claimed.work.frames.len().min(1);
            claimed.work.free_behind(one, supply);
            claimed.work.loaded.clear();
            if !claimed.work.frames.is_empty() {
                filled = self.fill(&claimed.pages, claimed.work);
            }
        }
        let pages = claimed.pages.clone();
        let brought = pages.start..pages.start + claimed.work.loaded.len();
        let rest = brought.end..pages.end;
        claimed.work.free_behind(brought.len(), supply);
        self.resident.fetch_sub(rest.len() as u64, Relaxed);
        self.show_new(&brought, (nth, is_write), &together, claimed.work);
        claimed.work.frames.clear();
        std::mem::forget(claimed);
        let failed = match filled {
            Err(error) if !brought.contains(&nth) => {
                self.note(nth, error);
                Some(nth)
            }
            _ => None,
        };
        self.unclaim(&rest, failed);
    }

    /// Marks as busy up to `wanted` pages from `nth` on that have no frame; of a single one that must be read from the device
    /// those [around](super::around) it that lie there, too. `nth` is busy already.
    fn claim(&self, nth: usize, wanted: usize) -> Range<usize> {
        let region = &self.region;
        let is_on_device = |nth: usize| self.swap.has_slot(nth as u64);
        // A sequence says itself what comes next, and its pages are shown: no hit would be counted.
        let around = match wanted == 1 && is_on_device(nth) {
            true => region.around.next(nth),
            false => nth..nth + 1,
        };
        let _shut = region.gate.shut();
        let take = |nth: usize| {
            let state = region.table.state(nth);
            let may = !state.has_frame() && !state.is(BUSY);
            if may {
                region.table.set(nth, state.with(BUSY).without(FAILED));
            }
            may
        };
        let mut pages = nth..nth + 1;
        while pages.end < region.page_count()
            && (pages.len() < wanted || pages.end < around.end && is_on_device(pages.end))
            && pages.len() < CLUSTER
            && take(pages.end)
        {
            pages.end += 1;
        }
        while pages.start > around.start
            && pages.len() < CLUSTER
            && is_on_device(pages.start - 1)
            && take(pages.start - 1)
        {
            pages.start -= 1;
        }
        pages
    }

    /// Gives up pages without a frame. Threads that wait for the one that `failed` learn it at
    /// once: else a thread that looked in between would ask again, and no thread would learn of the
    /// failure.
    fn unclaim(&self, pages: &Range<usize>, failed: Option<usize>) {
        let region = &self.region;
        let _shut = region.gate.shut();
        for nth in pages.clone() {
            let state = region.table.state(nth).without(BUSY);
            let state = if failed == Some(nth) {
                state.with(FAILED)
            } else {
                state
            };
            region.table.set(nth, state);
        }
    }

    /// Keeps why a page could not be brought, for the thread that asks.
    fn note(&self, nth: usize, error: PagedError) {
        count(&self.region.counts.failed, 1);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.insert(nth, error);
    }

    /// Evicts until `resident` pages are within the budget, if that is possible.
    fn make_room(&self, resident: u64, supply: &mut dyn FrameSource) {
        let over = resident.saturating_sub(self.budget);
        if over > 0 || !self.region.window.has_room(BATCH as u64) {
            self.evict_some(over.max(1), supply);
        }
    }

    /// Up to `wanted` frames, at least one.
    fn take_frames(
        &self,
        wanted: usize,
        supply: &mut dyn FrameSource,
        work: &mut PagerWork,
    ) -> Result<(), PagedError> {
        work.frames.clear();
        work.loaded.clear();
        while work.frames.len() < wanted {
            if let Some(frame) = self.spare().pop() {
                work.frames.push(frame);
                continue;
            }
            match supply.alloc_frame() {
                Ok(frame) => work.frames.push(frame),
                Err(_) if !work.frames.is_empty() => break,
                Err(error) if self.evict_some(1, supply) == 0 => return Err(error.into()),
                Err(_) => {}
            }
        }
        // Sorted, so that one mapping shows frames that follow one another.
        work.frames.sort_unstable();
        Ok(())
    }

    /// Fills the frames with contents, as far as the swap returns them.
    fn fill(&self, pages: &Range<usize>, work: &mut PagerWork) -> Result<(), PagedError> {
        let first = pages.start as u64;
        let contents = &mut work.contents[..work.frames.len().min(pages.len())];
        let loaded = self.swap.load_run(first, contents, &mut work.loaded);
        let filled = work.frames.iter().zip(&*contents).take(work.loaded.len());
        for (&frame, contents) in filled {
            self.region.copy_in(frame, contents);
        }
        Ok(loaded?)
    }

    /// Gives the pages their frames, and shows those that belong `together` with the one that was touched. The others were
    /// read ahead.
    fn show_new(
        &self,
        pages: &Range<usize>,
        touched: (usize, bool),
        together: &Range<usize>,
        work: &PagerWork,
    ) {
        let region = &self.region;
        let zero = work.loaded.iter().filter(|one| **one == LoadedPage::Zero);
        count(&region.counts.zeroed, zero.count() as u64);
        count(&region.counts.brought, pages.len() as u64);
        let ahead = pages.clone().filter(|nth| !together.contains(nth));
        count(&region.counts.ahead, ahead.count() as u64);
        let _shut = region.gate.shut();
        let mut start = 0;
        while start < pages.len() {
            let marks = self.marks(pages, start, touched, together, work);
            let mut end = start + 1;
            while end < pages.len()
                && work.frames[end].0 == work.frames[end - 1].0 + 1
                && self.marks(pages, end, touched, together, work) == marks
            {
                end += 1;
            }
            let access = if PagedState::default().with(marks).is(WRITABLE) {
                MappingAccess::Write
            } else {
                MappingAccess::Read
            };
            let shown = pages.start + start..pages.start + end;
            let is_shown =
                marks & SHOWN != 0 && region.show(&shown, work.frames[start], access).is_ok();
            // If the kernel refuses, they stay hidden until a thread touches them.
            let marks = match is_shown {
                true => marks,
                false => marks & !(SHOWN | WRITABLE),
            };
            for (nth, frame) in shown.zip(&work.frames[start..end]) {
                let state = region.table.state(nth).without(BUSY).with(marks);
                let state = region.table.with_frame(nth, state, *frame);
                region.table.set(nth, state);
            }
            start = end;
        }
    }

    /// Marks of the `nth` of the pages that were brought for the page that was `touched`, by a write or not.
    fn marks(
        &self,
        pages: &Range<usize>,
        nth: usize,
        (touched, is_write): (usize, bool),
        together: &Range<usize>,
        work: &PagerWork,
    ) -> u64 {
        debug_assert!(nth < pages.len());
        if !together.contains(&(pages.start + nth)) {
            debug_assert!(work.loaded[nth] != LoadedPage::Dirty, "its slot has it");
            return AHEAD;
        }
        let is_touched = pages.start + nth == touched;
        // In a sequence of writes to zero pages the next ones will be written, too.
        let will_be_written = is_write && (is_touched || work.loaded[nth] == LoadedPage::Zero);
        if will_be_written || work.loaded[nth] == LoadedPage::Dirty {
            SHOWN | WRITABLE | DIRTY
        } else {
            SHOWN
        }
    }
}
