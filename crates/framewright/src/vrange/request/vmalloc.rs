//! Areas with frames of the space's own behind them.
//!
//! ```text
//!   vmalloc   a kept area of that length ([kept](super::kept))
//!             else: an area, then its frames in runs, noted in the table, then the mapping
//!   vfree     into this CPU's lists of kept areas, if they are not full (`keep`) and the space is not strict
//!             else: lazy; when it is released, its frames go back to their source, or a strict space keeps it
//!   vfree_atomic    Live ──▶ Deferred, and into the space's list, beside the depot; enters no seat
//!   free_deferred   all that are there, one after another, as kept areas are evicted: Deferred ──▶ Lazy
//! ```
//!
//! While an area is built, its pages belong to a live area that no other CPU knows. So all calls to
//! the platform and to the source of frames are made outside a busy seat.
//!
//! A request for more pages than frames are free fails before it takes one. Otherwise the frames
//! that it takes and gives back would count as freed, and each such failure would stop all CPUs
//! once more for its last frame (F9 of the [frames](crate::frame)).

use super::super::areas::KEPT_MAX;
use super::super::seat::Spill;
use super::super::space::Moves;
use super::super::{AreaKind, AreaState, RangeError, RangeFreeError, RangeSeat, Space};
use super::need::{HUGE_PAGES, PageNeed};
use super::undo::UnknownArea;
use super::{AreaRequest, map_in_parts};
use crate::frame::{AllocError, FrameSource, FrameTables};
use crate::platform::parts::{PART_FRAMES, zero_run};
use crate::platform::{MapError, OrElse, RangePlatform};
use crate::units::{Frame, Page, Run};

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Allocates an area and its frames, and maps them \[`vmalloc`\]: as many pages as asked for,
    /// with a guard page behind them that is never mapped, and one [before](AreaRequest::guard_before) them if asked for. The frames are anywhere, in runs as long
    /// as the source has them cheaply; one call maps each run.
    ///
    /// It takes an area of the same length that was freed lately and kept, if there is one: as it is, in some nanoseconds,
    /// or, in a strict space, with its frames, which it maps again. Contents are zero if that was asked for, and
    /// undefined otherwise. It is mapped for the access of the request; in a space that is not strict, one for another access
    /// than the default is built anew, and not kept when it is freed.
    ///
    /// If the context allows waiting, everything kept and lazy is purged, of all CPUs, before the
    /// request fails. If not, the request takes only what is there at once, and maps frames in
    /// several runs only if there is room for their pages below the bound on lazy ones, for the
    /// case that only some can be mapped. Where a request that may wait might have succeeded, it says `WouldWait`: of
    /// the area, or of its frames.
    ///
    /// # Errors
    /// [`RangeError::Caching`] for an access past caches: [`vmap`](Self::vmap) and [`ioremap`](Self::ioremap) have these. Or
    /// the window can never serve the request, or it lacks a gap, frames or mappings. Nothing has
    /// changed then; pages that were mapped before the platform refused may be lazy for a while.
    #[inline(always)]
    pub fn vmalloc(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        if self.space.keeps()
            && request.align_bytes.is_power_of_two()
            && request.is_plain()
            && self.try_enter()
            && let Some(page) = self.take_constructed(request)
        {
            return Ok(page);
        }
        self.vmalloc_slow(request)
    }

    #[inline(never)]
    fn vmalloc_slow(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        // The fast path may have entered the seat while another CPU claimed it.
        self.exit();
        // The direct map has these frames too, with lines in caches that are written back at any time.
        if !request.access.is_cached() {
            return Err(RangeError::Caching(request.access));
        }
        // Refuses a request that could not be served however much were freed, before it moves,
        // purges or takes anything.
        if let Err(error) = PageNeed::of(request, self.space.start(), self.space.pages()) {
            return Err(match error {
                RangeError::NoSpace { .. } => self.failed(error),
                error => error,
            });
        }
        let frames = self.frames.frames_in_all();
        if request.pages > frames {
            return Err(RangeError::TooManyFrames {
                pages: request.pages,
                frames,
            });
        }
        // In a strict space a kept area has no mapping, so one will do for each access (V14).
        let has_their_access = request.access.is_data() || self.space.config.strict;
        if self.space.keeps() && has_their_access && request.pages <= u64::from(KEPT_MAX) {
            self.enter()?;
            if let Some(page) = self.take_constructed_slow(request) {
                return Ok(page);
            }
            self.exit();
            self.space.platform.interrupt_window();
        }
        let may_block = request.context.may_block;
        let is_short = may_block && self.frames.is_short();
        if is_short {
            // The first sign of pressure: free frames are worth more than this CPU's kept areas.
            self.purge_kept()?;
        }
        let error = match self.construct(request, is_short, false) {
            Ok(page) => return Ok(page),
            Err((error, _)) => error,
        };
        // Kept and lazy areas have frames, and use up mappings that the host allows.
        let would_a_drain_help = matches!(
            error,
            RangeError::Frames(_) | RangeError::Map(MapError::NoMemory | MapError::Limit { .. })
        );
        if !may_block && matches!(error, RangeError::Frames(_)) {
            return self.construct_at_once(request);
        }
        if !would_a_drain_help || !may_block {
            return Err(error);
        }
        // Once more, with an eye on what other CPUs move meanwhile. That is a look at a line of each CPU's, so a
        // request that succeeds at once is spared it.
        let (error, had_spare) = match self.construct(request, is_short, true) {
            Ok(page) => return Ok(page),
            Err(failed) => failed,
        };
        if had_spare {
            self.drain();
            let constructed = self.construct(request, is_short, false);
            return constructed.map_err(|(error, _)| error);
        }
        Err(error)
    }

    /// On failure, also returns whether anything was kept, lazy, waiting or on its way from there when it
    /// looked for frames or mappings; false unless it `watches` that.
    pub(super) fn construct(
        &mut self,
        request: &AreaRequest,
        is_short: bool,
        watches: bool,
    ) -> Result<Page, (RangeError, bool)> {
        // Frames that are taken and given back count as freed, so the next request that fails would
        // stop all CPUs once more.
        let is_worth_a_look = is_short || watches || request.pages > u64::from(KEPT_MAX);
        let begin = watches.then(|| self.space.moves());
        if request.context.may_block && is_worth_a_look && request.pages > self.frames.frames_free()
        {
            let error = RangeError::Frames(AllocError::Exhausted);
            return Err((error, self.space.had_spare_since_some(begin)));
        }
        let page = self
            .alloc_kind(request, AreaKind::Vmalloc)
            .map_err(|error| (error, false))?;
        let area = UnknownArea::new(self.space.offset_unchecked(page) as u32, request);
        // Only now: the search for pages may have moved areas of this CPU's own.
        let begin = watches.then(|| self.space.moves());
        let made = self.make(area, |seat, area| seat.fill_and_map(area, request, begin));
        made.map_err(|(error, had_spare)| match error {
            // Only now: to count it may unwind, and the area has been given up.
            RangeError::WouldWait => (self.failed(error), had_spare),
            error => (error, had_spare),
        })
    }

    /// Has `work` make an area that no other CPU knows yet.
    #[inline(always)]
    pub(super) fn make<E>(
        &mut self,
        mut area: UnknownArea,
        work: impl FnOnce(&mut Self, &mut UnknownArea) -> Result<(), E>,
    ) -> Result<Page, E> {
        // Some of it may be mapped, and its frames go back with it, when it is released.
        let mut making = (&mut *self, &mut area);
        let unwound = OrElse::new(&mut making, |(seat, area): &mut (&mut Self, _)| {
            seat.lose(area);
        });
        let (seat, begun) = &mut *unwound.seat;
        let made = work(seat, begun);
        unwound.end();
        if area.is_left {
            self.free_unused(area.at);
        }
        made.map(|()| self.space.page(area.at))
    }

    /// Takes frames for a live area that no other CPU knows, and maps them. On failure it is live no longer; then
    /// this also returns what [`construct`](Self::construct) does.
    fn fill_and_map(
        &mut self,
        area: &mut UnknownArea,
        request: &AreaRequest,
        begin: Option<Moves>,
    ) -> Result<(), (RangeError, bool)> {
        // Not a shorter one, which may be kept: each of its runs is as long as it can be.
        let gathered = match request.huge && request.pages >= HUGE_PAGES {
            true => self.gather_by_huge_pages(area, request),
            false => self.gather(area, area.pages, request),
        };
        if let Err(error) = gathered {
            let had_spare = self.give_up(area, request.context, begin);
            return Err((RangeError::Frames(error), had_spare));
        }
        if !request.access.is_data() {
            self.space.table.note_access(area.at, true);
        }
        self.map_filled(area, request, begin)
    }

    /// The same for an area that has its frames.
    pub(super) fn map_filled(
        &mut self,
        area: &mut UnknownArea,
        request: &AreaRequest,
        begin: Option<Moves>,
    ) -> Result<(), (RangeError, bool)> {
        area.reserved = match self.reserve_area(area.at, area.pages, request) {
            Ok(reserved) => reserved,
            Err(error) => {
                self.give_up(area, request.context, begin);
                return Err((error, false));
            }
        };
        // Without a promise only one call maps, all pages or none.
        let is_in_parts = request.context.may_block || area.reserved != 0;
        match self.map_area(area, request, is_in_parts) {
            Ok(()) => {
                self.unreserve(area.reserved);
                Ok(())
            }
            Err((0, error)) => {
                self.unreserve(area.reserved);
                area.reserved = 0;
                let had_spare = self.give_up(area, request.context, begin);
                Err((RangeError::Map(error), had_spare))
            }
            Err((_, error)) => {
                // Mapped pages must be unmapped and flushed before their frames can be reused, so
                // the area goes the way of all areas.
                let had_spare = self.space.had_spare_since_some(begin);
                self.leave(area, request.context);
                Err((RangeError::Map(error), had_spare))
            }
        }
    }

    /// Takes frames for an area, for the pages of each large entry by itself: a run that is shorter than one does not reach into
    /// the next one, and the first question for each is for all of it.
    #[cold]
    fn gather_by_huge_pages(
        &mut self,
        area: &mut UnknownArea,
        request: &AreaRequest,
    ) -> Result<(), AllocError> {
        while area.done < area.pages {
            let place = self.space.page(area.at + area.done).0 % HUGE_PAGES;
            let end = area.done + (HUGE_PAGES - place) as u32;
            self.gather(area, end.min(area.pages), request)?;
            self.space.platform.interrupt_window();
        }
        Ok(())
    }

    /// Takes frames for the first `pages` pages of an area, zeroes them if that was asked for, and records them.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn gather(
        &mut self,
        area: &mut UnknownArea,
        pages: u32,
        request: &AreaRequest,
    ) -> Result<(), AllocError> {
        let UnknownArea { at, done, .. } = area;
        let at = *at;
        let mut most = pages;
        // The run that ends at `done`: its first page and the frame behind it.
        let (mut first, mut behind) = (0, None);
        let mut since = 0;
        let mut slow_calls = self.frames.slow_calls();
        while *done < pages {
            let asked = (pages - *done).min(most);
            let run = match self.frames.alloc_run(u64::from(asked), request.context) {
                Ok(run) if !run.is_empty() => self.at_most(run, asked),
                failed => return Err(failed.err().unwrap_or(AllocError::Exhausted)),
            };
            if behind != Some(run.start()) {
                first = *done;
            }
            self.space.table.set_run(at + first, at + *done, run);
            *done += run.frames() as u32;
            behind = Some(run.end());
            // Only now: if the platform unwinds, the area gives them back.
            if request.zero {
                zero_run(&self.space.platform, run);
            }
            since += run.frames();
            let now = self.frames.slow_calls();
            if now != slow_calls || *done < pages && since >= PART_FRAMES {
                (since, slow_calls) = (0, now);
                self.space.platform.interrupt_window();
            }
            // If there were no longer runs, there will be none the next time.
            most = (run.frames() as u32).saturating_mul(2);
        }
        Ok(())
    }

    /// Gives the rest back to a source that gives more than was asked for.
    fn at_most(&mut self, run: Run, asked: u32) -> Run {
        let asked = u64::from(asked);
        if run.frames() <= asked {
            return run;
        }
        // If a wait unwinds out of this, nothing else knows of the frames that the area was to have.
        let unwound = OrElse::new(self, |seat: &mut Self| {
            seat.frames.free_run(run.part(0, asked))
        });
        (unwound.seat.frames).free_run(run.part(asked, run.frames() - asked));
        unwound.end();
        run.part(0, asked)
    }

    /// Before a caller that may not wait maps several runs: reports as many lazy pages as it would
    /// leave if it could map only some of them. Returns how many. Fails if there is no room for
    /// them.
    fn reserve_area(&self, at: u32, pages: u32, request: &AreaRequest) -> Result<u64, RangeError> {
        if request.context.may_block {
            return Ok(0);
        }
        let mut runs = 0;
        self.space.table.for_all_runs(at, pages, |_| runs += 1);
        if runs == 1 {
            return Ok(0);
        }
        let needed = u64::from(pages) + 1;
        self.enter()?;
        let fits = self.held().promise(needed);
        self.exit();
        fits.then_some(needed).ok_or(RangeError::WouldWait)
    }

    /// Maps the frames of an area with as few calls as there are runs, or long runs in parts. On failure, returns how
    /// many pages are mapped.
    fn map_area(
        &mut self,
        area: &UnknownArea,
        request: &AreaRequest,
        is_in_parts: bool,
    ) -> Result<(), (u32, MapError)> {
        let UnknownArea { at, pages, .. } = *area;
        let space = self.space;
        let tables = &mut FrameTables::new(&mut self.frames, request.context);
        if is_in_parts && u64::from(pages) > PART_FRAMES {
            return map_in_parts(space, at, pages, request.access, tables);
        }
        space.table.for_each_run(at, pages, |page, run| {
            let mapped = (space.platform).map(space.page(page), run, request.access, tables);
            mapped.map_err(|error| (page - at, error))
        })
    }

    /// Frees an area made by [`vmalloc`](Self::vmalloc), by any CPU \[`vfree`\]. Returns its length
    /// in pages, without the guard page.
    ///
    /// If the space is strict, the area is unmapped when this returns, and lazy. After a flush, one of at most 128 pages
    /// may be kept with its frames for the next request of its length. If the space is not strict, such an area is
    /// kept as it is, in this CPU's lists, and one that is not stays mapped until a purge. The lists are bounded, and
    /// areas that stay in them too long go.
    ///
    /// Frames go back to their source, through the seat that purges them, after they have been unmapped and flushed.
    ///
    /// # Errors
    /// What is wrong with the page. Nothing has changed then.
    #[inline]
    pub fn vfree(&mut self, page: Page) -> Result<u64, RangeFreeError> {
        if !self.space.config.strict && self.space.keeps() {
            let mut is_one_of_many = false;
            let offset = self.space.offset_unchecked(page);
            if self.try_enter() && offset < self.space.pages() {
                let held = self.held();
                let at = offset as u32;
                let (number, place) = self.space.spans.place(at);
                if self.space.spans.get(number).starts_at(place)
                    && let Some(header) = self.space.table.header(at)
                    && header.is_live_of(AreaKind::Vmalloc)
                {
                    if held.keep(at, header) {
                        self.exit();
                        return Ok(u64::from(header.pages()) - 1);
                    }
                    is_one_of_many = held.are_enough_kept(header);
                }
            }
            if !is_one_of_many {
                return self.vfree_slow(page);
            }
        }
        self.free_kind(page, AreaKind::Vmalloc)
    }

    #[cold]
    #[inline(never)]
    fn vfree_slow(&mut self, page: Page) -> Result<u64, RangeFreeError> {
        // The fast path may have entered the seat while another CPU claimed it.
        self.exit();
        loop {
            self.enter()?;
            let held = self.held();
            let checked = self.space.check_free(page, AreaKind::Vmalloc);
            let header = match checked {
                Ok(header) => header,
                Err(error) => {
                    self.exit();
                    return Err(error);
                }
            };
            let at = self.space.offset_unchecked(page) as u32;
            if held.keep(at, header) {
                self.exit();
                return Ok(u64::from(header.pages()) - 1);
            }
            // Makes room for it, if that is possible: areas that move or go have been here for
            // longer.
            let evicted = match held.make_room_to_keep(at, header) {
                Spill::Moved => {
                    self.exit();
                    continue;
                }
                Spill::Victim(at) => Some(at),
                Spill::Nothing => None,
            };
            self.exit();
            match evicted {
                Some(kept) => {
                    self.evict(kept)?;
                    self.space.platform.interrupt_window();
                }
                None => return self.free_kind(page, AreaKind::Vmalloc),
            }
        }
    }
}

impl<P: RangePlatform> Space<'_, P> {
    /// Defers the free of an area made by [`vmalloc`](RangeSeat::vmalloc): for a handler, or for a caller that holds a lock,
    /// which may neither wait nor enter a seat \[`vfree_atomic`\]. Returns the area's length in pages, without the guard page.
    ///
    /// The area stays mapped, with its frames, until a CPU frees it: in [`free_deferred`](RangeSeat::free_deferred), which a
    /// kernel has a thread of its own call, as Linux has its worker; in a purge or a drain; or in a request that may wait, before
    /// it fails. Until then a listing shows it as [deferred](crate::vrange::AreaState::Deferred), without its tag.
    ///
    /// Takes no lock, waits for no CPU, and calls nothing of the platform's. Two atomic operations, and more only where another
    /// caller adds an area at the same moment. It may interrupt any call on this CPU; but on a platform that is
    /// [`ALONE`](crate::platform::FramePlatform::ALONE) it must not interrupt a call of the same space.
    ///
    /// # Errors
    /// What is wrong with the page. Nothing has changed then.
    pub fn vfree_atomic(&self, page: Page) -> Result<u64, RangeFreeError> {
        if self.is_poisoned() {
            return Err(RangeFreeError::Poisoned);
        }
        loop {
            let header = self.check_free(page, AreaKind::Vmalloc)?;
            // If this fails, another CPU has freed the area, and the next look says so.
            if self.defer(self.offset_unchecked(page) as u32, header) {
                return Ok(u64::from(header.pages()) - AreaKind::Vmalloc.guard_pages());
            }
        }
    }

    /// Whether the live `vmalloc` area at a page is mapped for another access than the default.
    pub(crate) fn has_access(&self, area: Page) -> bool {
        (self.table).has_access(self.offset_unchecked(area) as u32)
    }

    /// The frame behind a page of an area made by [`vmalloc`](RangeSeat::vmalloc)
    /// \[`vmalloc_to_pfn`\]; `None` for its guard page, and for all other pages.
    ///
    /// Time: O(1). While other CPUs free, the answer may be out of date as soon as it is returned.
    /// While an area is being built, it may be anything.
    #[must_use]
    pub fn frame_behind(&self, page: Page) -> Option<Frame> {
        let area = self.find(page)?;
        let is_mapped = match area.state {
            AreaState::Live | AreaState::Deferred => true,
            AreaState::Kept => !self.config.strict,
            AreaState::Lazy => false,
        };
        let is_built = area.kind == AreaKind::Vmalloc && is_mapped;
        if !is_built || !area.range().contains(page) {
            return None;
        }
        self.table.frame(self.offset_unchecked(page) as u32)
    }
}
