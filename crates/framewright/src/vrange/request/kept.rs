//! How a request takes a kept area, and how kept areas go because frames are short.
//!
//! ```text
//!   kept area, mapped      its header says live, and that is all
//!   in a strict space      its header says live; its frames, which it still has, are mapped
//! ```
//!
//! It takes the latest area of its length that is aligned as it asks, and has a guard page before it if it asks for that. If
//! the seat's lists have none, it looks among those that wait (in a strict space), or in the depot (else), before a request
//! builds one.
//!
//! Before a request fails, what this CPU keeps goes, and what it has made lazy; in a request that must not wait, what needs
//! neither an unmap nor a flush.

use super::super::areas::KEPT_MAX;
use super::super::error::Poisoned;
use super::super::purge::ReleasePart;
use super::super::seat::Held;
use super::super::{AreaHeader, AreaKind, RangeError, RangeFreeError, RangeSeat};
use super::AreaRequest;
use super::at_once::given_to_arena;
use super::need::PageNeed;
use super::undo::UnknownArea;
use crate::frame::{AllocError, FrameSource, FrameTables};
use crate::platform::parts::{PART_FRAMES, zero_run};
use crate::platform::{OrElse, RangePlatform};
use crate::seats::Standstill;
use crate::units::Page;

/// How many kept areas of a strict space go in one hold of the seat.
const RETIRED: usize = 16;

impl<'m, P: RangePlatform, F: FrameSource> RangeSeat<'_, 'm, P, F> {
    /// Makes the latest kept area of that length live again, if it fits. The caller is in a busy seat; on success this
    /// leaves the seat.
    #[inline(always)]
    pub(super) fn take_constructed(&mut self, request: &AreaRequest) -> Option<Page> {
        let pages = request.pages.min(u64::from(KEPT_MAX) + 1) as u32;
        let is_aligned = is_aligned(self.space.start().0, request.align_bytes);
        let at = self.held().kept().take_latest(pages, is_aligned)?;
        self.hand_out_kept(at, pages, request)
    }

    /// The same, but looks past the latest, among those that wait, and into the depot.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    pub(super) fn take_constructed_slow(&mut self, request: &AreaRequest) -> Option<Page> {
        // No more than `KEPT_MAX`.
        let pages = request.pages as u32;
        let held = self.held();
        let is_aligned = || is_aligned(self.space.start().0, request.align_bytes);
        if request.guard_before {
            return self.take_with_guard(pages, request);
        }
        if self.space.config.strict && !held.kept().has(pages) {
            // The generation of some may have passed.
            held.release_span(&mut ReleasePart::keeping(&self.frames), &mut self.frames);
        }
        if let Some(at) = held.kept().take(pages, is_aligned()) {
            return self.hand_out_kept(at, pages, request);
        }
        if !held.fetch_kept(pages, is_aligned()) {
            return None;
        }
        self.take_constructed(request)
    }

    /// The same of those that have a guard page before them, for a request that asks for it. A strict space keeps none of
    /// these, because it keeps only areas of spans.
    #[cold]
    #[inline(never)]
    fn take_with_guard(&mut self, pages: u32, request: &AreaRequest) -> Option<Page> {
        let (held, space) = (self.held(), self.space);
        if space.config.strict {
            return None;
        }
        let will_do = || {
            let is_aligned = is_aligned(space.start().0, request.align_bytes);
            move |at| is_aligned(at) && space.has_guard_before(at)
        };
        let own = held.kept().take(pages, will_do());
        let at = own.or_else(|| {
            let is_there = held.fetch_kept(pages, will_do());
            is_there.then(|| held.kept().take_latest(pages, will_do()))?
        })?;
        self.hand_out_kept(at, pages, request)
    }

    /// Makes an area live that was taken out of the lists, and leaves the seat. In a strict space it is mapped, too,
    /// and if that fails there is none.
    #[inline(always)]
    fn hand_out_kept(&mut self, at: u32, pages: u32, request: &AreaRequest) -> Option<Page> {
        let header = AreaHeader::live(AreaKind::Vmalloc, pages + 1, request.tag);
        self.space.table.set_header(at, header);
        self.words.counters.allocs.add(1);
        self.words.live.add(u64::from(pages) + 1);
        self.words.counters.kept_takes.add(1);
        self.exit();
        if self.space.config.strict {
            return self.map_kept(at, request);
        }
        if request.zero {
            self.zero_taken(at, pages);
        }
        Some(self.space.page(at))
    }

    /// Maps a live area that no other CPU knows and that has its frames. If that fails, the area and its frames go back,
    /// and the request goes on without.
    #[inline(never)]
    fn map_kept(&mut self, at: u32, request: &AreaRequest) -> Option<Page> {
        let space = self.space;
        let is_usual = request.access.is_data() & (request.pages <= PART_FRAMES);
        let run = space.table.only_run(at, request.pages);
        let Some(run) = run.filter(|_| is_usual) else {
            return self.map_kept_runs(at, request);
        };
        let page = space.page(at);
        let unwound = OrElse::new(self, |seat: &mut Self| seat.make_lazy(at, 0));
        if request.zero {
            zero_run(&space.platform, run);
        }
        let tables = &mut FrameTables::new(&mut unwound.seat.frames, request.context);
        let mapped = space.platform.map(page, run, request.access, tables);
        unwound.end();
        match mapped {
            Ok(()) => Some(page),
            Err(_) => self.give_up_kept(at, request),
        }
    }

    /// Gives up a kept area that the platform did not map, and its frames.
    #[cold]
    fn give_up_kept(&mut self, at: u32, request: &AreaRequest) -> Option<Page> {
        let mut area = UnknownArea::new(at, request);
        area.done = area.pages;
        let made = self.make(area, |seat, area| {
            seat.give_up(area, request.context, None);
            Err(())
        });
        self.words.counters.kept_takes.add(1u64.wrapping_neg());
        made.ok()
    }

    /// The same as `map_kept` for an area of several runs, or of a long one, and for another access than the default, now or before.
    #[inline(never)]
    fn map_kept_runs(&mut self, at: u32, request: &AreaRequest) -> Option<Page> {
        let mut area = UnknownArea::new(at, request);
        area.done = area.pages;
        self.space.table.note_access(at, !request.access.is_data());
        let made = self.make(area, |seat, area| {
            if request.zero {
                seat.zero_area(area.at, area.pages);
            }
            seat.map_filled(area, request, None)
        });
        if made.is_err() {
            // Only this CPU writes the counter, even while another one has claimed the seat.
            self.words.counters.kept_takes.add(1u64.wrapping_neg());
        }
        made.ok()
    }

    /// Zeroes a live area that no other CPU knows. Apart from the fast path, which is small enough then to stand in its
    /// callers.
    #[inline(never)]
    fn zero_taken(&mut self, at: u32, pages: u32) {
        let unwound = OrElse::new(self, |seat: &mut Self| seat.make_lazy(at, 0));
        unwound.seat.zero_area(at, pages);
        unwound.end();
    }

    /// Zeroes the frames behind an area, and lets interrupts in now and then.
    fn zero_area(&self, at: u32, pages: u32) {
        let platform = &self.space.platform;
        let mut since = 0;
        self.space.table.for_all_runs(at, pages, |run| {
            if since >= PART_FRAMES {
                since = 0;
                platform.interrupt_window();
            }
            zero_run(platform, run);
            since += run.frames();
        });
    }

    /// Makes the kept or deferred area lazy that this seat took out of the lists, unless a CPU that stopped all
    /// others did so first. Returns whether it did.
    #[inline(never)]
    pub(in super::super) fn evict(&mut self, at: u32) -> Result<bool, Poisoned> {
        self.enter()?;
        let page = self.space.page(at);
        let check = |held: &Held<'_, '_, P>| match held.words.evicting.link() {
            Some(evicting) if evicting == at => Ok(held.header(at)),
            _ => Err(RangeFreeError::AlreadyFree(page)),
        };
        match self.free_entered(page, AreaKind::Vmalloc, check) {
            Err(RangeFreeError::Poisoned) => Err(Poisoned),
            freed => Ok(freed.is_ok()),
        }
    }

    /// Frees the areas whose free any CPU has [deferred](crate::vrange::Space::vfree_atomic) before this begins: each becomes
    /// lazy, as in a [`vfree`](Self::vfree) that keeps nothing. Returns how many it freed. If there are none, it reads a few words.
    ///
    /// It may wait as `vfree`. When it returns, another CPU may still have some: one that frees them at the same time; or one whose
    /// wait unwound. That CPU's next call of this, next purge or drain goes on with them, and so does any CPU that stops all
    /// others. A poisoned space stays as it is.
    #[cold]
    #[inline(never)] // Or its frame would be part of the stack of a request that compacts.
    pub fn free_deferred(&mut self) -> u64 {
        let (mut freed, mut has_gathered) = (0, false);
        let (own, evicting) = (&self.words.deferred, &self.words.evicting);
        while own.link().is_some()
            || evicting.link().is_some()
            || !has_gathered && self.space.has_deferred()
        {
            if self.enter().is_err() {
                break;
            }
            let held = self.held();
            let taken = held.begin_to_evict(|held| {
                if own.link().is_none() && !has_gathered {
                    has_gathered = true;
                    held.gather_deferred();
                }
                held.take_deferred()
            });
            let is_deferred = taken.is_some_and(|at| held.header(at).is_deferred());
            self.exit();
            if let Some(at) = taken {
                let Ok(is_free) = self.evict(at) else {
                    break;
                };
                freed += u64::from(is_deferred && is_free);
                self.space.platform.interrupt_window();
            }
        }
        freed
    }

    /// Purges what this CPU itself made lazy and what it keeps, which disturbs no other CPU, and then looks once more. All
    /// that may be much it does in parts.
    pub(super) fn alloc_purged(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
    ) -> Result<Option<u32>, Poisoned> {
        self.evict_kept()?;
        self.unmap_lazy();
        if !self.space.is_for_spans(need)
            && let Some(at) = self.prepare_arena(need, header)?
        {
            return Ok(Some(at));
        }
        self.release_waiting();
        self.enter()?;
        let found = self.held().alloc_entered(need, header, &mut self.frames);
        self.exit();
        Ok(found)
    }

    /// The same for a slot.
    pub(super) fn ram_purged(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
    ) -> Result<Option<u32>, Poisoned> {
        self.purge_kept()?;
        self.enter()?;
        let found = self.held().alloc_ram(need, header, &mut self.frames);
        self.exit();
        Ok(found)
    }

    /// Builds an area for a request that must not wait and has found too few frames: once more, after what has waited has
    /// given its frames back.
    ///
    /// # Errors
    /// As `construct`; and frames [may be there](AllocError::WouldWait) behind freed areas.
    #[cold]
    #[inline(never)]
    pub(super) fn construct_at_once(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        if self.space.config.strict {
            // They have no mapping, so they wait for no flush.
            self.retire_all_kept()?;
        }
        self.release_waiting();
        // With an eye on what other CPUs move meanwhile: frames that it missed may have come back by the time it fails.
        match self.construct(request, false, true) {
            Err((RangeError::Frames(AllocError::Exhausted), true)) => {
                Err(RangeError::Frames(AllocError::WouldWait))
            }
            made => made.map_err(|(error, _)| error),
        }
    }

    /// What a request that must not wait can still do: what has waited is made free, in parts, and in a strict space this CPU's
    /// kept areas then wait, a few at a time, which have no mapping. After each part it looks once more.
    ///
    /// # Errors
    /// There is nothing, and a request that may wait might find some: [`RangeError::WouldWait`].
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_at_once(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
        begin: Standstill,
    ) -> Result<Option<u32>, RangeError> {
        self.look_at_once(need, begin, |held, frames| {
            held.alloc_from_own(need, header, frames)
        })
    }

    /// The same for a slot.
    #[cold]
    #[inline(never)]
    pub(super) fn ram_at_once(
        &mut self,
        need: &PageNeed,
        header: AreaHeader,
        begin: Standstill,
    ) -> Result<Option<u32>, RangeError> {
        self.look_at_once(need, begin, |held, frames| {
            held.return_all_empties();
            held.try_ram(need, header, frames)
        })
    }

    fn look_at_once(
        &mut self,
        need: &PageNeed,
        begin: Standstill,
        look: impl Fn(&Held<'_, 'm, P>, &mut F) -> Option<u32>,
    ) -> Result<Option<u32>, RangeError> {
        if self.space.has_too_few(need) {
            // Nothing that follows could help, so what is kept stays.
            return Ok(None);
        }
        loop {
            let part = ReleasePart::new(&self.frames);
            self.enter()?;
            let (changes, given) = (self.space.changes(), given_to_arena(self.words));
            let held = self.held();
            // A few kept areas at a time, so that a request that needs few leaves the others.
            let has_more = held.release_part(part, &mut self.frames)
                || self.space.config.strict && held.retire_kept(RETIRED) != 0;
            let found = look(&held, &mut self.frames);
            // What this CPU gives in its seat, it gives before it searches the arena.
            let changes = changes.wrapping_add(given_to_arena(self.words).wrapping_sub(given));
            self.exit();
            if found.is_some() {
                return Ok(found);
            }
            if !has_more {
                let may_have = self.space.may_have_after_a_wait(need, changes, begin);
                return match may_have {
                    true => Err(self.failed(RangeError::WouldWait)),
                    false => Ok(None),
                };
            }
            self.space.platform.interrupt_window();
        }
    }

    /// Gives back the kept areas of this CPU and of the depot, frames and all: as many pages as there are at first,
    /// because other CPUs may keep more meanwhile. What the platform cannot unmap, and the bound excludes, stays.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn purge_kept(&mut self) -> Result<(), Poisoned> {
        self.evict_kept()?;
        self.purge();
        Ok(())
    }

    /// The first step of that: these areas become lazy, or wait.
    #[cold]
    #[inline(never)]
    fn evict_kept(&mut self) -> Result<(), Poisoned> {
        // Before the rest, because a strict space keeps some of these.
        self.free_deferred();
        if self.space.config.strict {
            return self.retire_all_kept();
        }
        let mut left = None;
        loop {
            self.enter()?;
            let held = self.held();
            let all = held.kept_pages();
            let left = left.get_or_insert(all);
            let kept = if all != 0 && *left != 0 && held.can_evict() {
                held.begin_to_evict(|held| {
                    let kept = held.kept().take_any();
                    kept.or_else(|| held.space.take_from_depot())
                })
            } else {
                None
            };
            if let Some(at) = kept {
                *left = left.saturating_sub(u64::from(held.header(at).pages()) - 1);
            }
            self.exit();
            match kept {
                Some(at) => _ = self.evict(at)?,
                None => break,
            }
            self.space.platform.interrupt_window();
        }
        Ok(())
    }

    /// The same in a strict space, whose kept areas have no mapping.
    fn retire_all_kept(&mut self) -> Result<(), Poisoned> {
        loop {
            self.enter()?;
            let retired = self.held().retire_kept(RETIRED);
            self.exit();
            if retired == 0 {
                break;
            }
            self.space.platform.interrupt_window();
        }
        Ok(())
    }
}

/// A test whether a page of a window that begins at page number `start` is aligned to that power of two.
#[inline(always)]
fn is_aligned(start: u64, align_bytes: u64) -> impl Fn(u32) -> bool {
    let mask = (align_bytes / Page::BYTES).saturating_sub(1);
    move |at| (start + u64::from(at)) & mask == 0
}
