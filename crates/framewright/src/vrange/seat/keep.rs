//! How an area comes into a seat's lists of kept areas, and how it goes out to become lazy.
//!
//! A free keeps an area while the lists have room. If they are full, it first [spills](super::depot)
//! areas into the depot. If that is full too, the area itself goes where others of its length lie there, and else the
//! free evicts one that has been kept for longer. Under
//! pressure a request evicts all of them, and so does a CPU that has stopped all others.
//!
//! To become lazy an area needs room below the bound (V6), and to make that room a CPU may leave its
//! seat. So the area that is to go stands in a word of the seat (`evicting`) from when it leaves the
//! lists until it is lazy: another CPU that stops this one finds it there and makes it lazy itself. If the
//! wait for room unwinds, the area stays there, and this CPU's next eviction is of it.
//! Its header says that it is kept until it says that it is lazy, so a second free learns at every
//! moment that the area is free (V10).

use super::super::areas::KEPT_MAX;
use super::super::{AreaHeader, AreaKind};
use super::Held;
use super::depot::Spill;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Whether an area may be kept if there is room.
    #[inline(always)]
    fn may_keep(&self, at: u32, header: AreaHeader) -> bool {
        let pages = header.pages() - 1;
        let is_short = pages <= KEPT_MAX && u64::from(pages) <= self.space.kept_max;
        is_short && !self.space.table.has_access(at)
    }

    /// Whether so many areas like this one are kept that it should go: to keep it, another like it would have to.
    #[inline(always)]
    pub(in super::super) fn are_enough_kept(&self, header: AreaHeader) -> bool {
        let pages = header.pages() - 1;
        pages <= KEPT_MAX && !self.has_room(pages) && self.is_full_of(pages)
    }

    /// Makes room in the lists for an area that is to be kept, or returns the area that must go for
    /// that.
    pub(in super::super) fn make_room_to_keep(&self, at: u32, header: AreaHeader) -> Spill {
        if !self.may_keep(at, header) {
            return Spill::Nothing;
        }
        let mut spilled = Spill::Nothing;
        let victim = self.begin_to_evict(|held| {
            spilled = held.spill(header.pages() - 1);
            match spilled {
                Spill::Victim(at) => Some(at),
                Spill::Moved => None,
                Spill::Nothing => held.kept().take_any(),
            }
        });
        victim.map_or(spilled, Spill::Victim)
    }

    /// Whether there is room for another area below the bound, or else this CPU has nothing that the platform fails
    /// to unmap.
    pub(in super::super) fn can_evict(&self) -> bool {
        let has_room = || self.space.told_lazy() + u64::from(KEPT_MAX) < self.space.lazy_max;
        if has_room() {
            return true;
        }
        self.purge_lazy();
        has_room() || self.words.purgeable.get() == 0
    }

    /// Takes a kept or deferred area out of the lists to make it lazy, or takes up the eviction that unwound before. Until it is
    /// lazy, other CPUs find it by this seat.
    pub(in super::super) fn begin_to_evict(
        &self,
        take: impl FnOnce(&Self) -> Option<u32>,
    ) -> Option<u32> {
        let _moving = self.words.moving();
        let kept = self.words.evicting.link().or_else(|| take(self));
        self.words.evicting.set_link(kept);
        kept
    }

    /// The pages that areas in the lists and in the depot have, and one whose eviction unwound.
    pub(in super::super) fn kept_pages(&self) -> u64 {
        let evicting = self.words.evicting.link();
        let evicting = evicting.map_or(0, |at| u64::from(self.header(at).pages()) - 1);
        self.kept().pages() + self.space.depot().pages() + evicting
    }

    /// Keeps a live area as it is, if there is room, and if no other CPU has freed it meanwhile.
    #[inline(always)]
    pub(in super::super) fn keep(&self, at: u32, header: AreaHeader) -> bool {
        let pages = header.pages() - 1;
        let kept = self.kept();
        if pages > KEPT_MAX
            || !self.has_room(pages)
            || self.space.table.has_access(at)
            || !kept.put(at, header, pages, P::ALONE)
        {
            return false;
        }
        self.count_freed(header.pages());
        true
    }

    #[inline(always)]
    fn count_freed(&self, pages: u32) {
        self.words.counters.frees.add(1);
        self.words.live.sub(u64::from(pages));
    }

    /// Makes the deferred areas that the seat has, and all kept ones of the seat and of the depot, lazy, as far as the bound allows; returns
    /// whether that was all. If forced, also one area beyond the bound, which must then be purged.
    pub(in super::super) fn release_kept(
        &self,
        is_forced: bool,
        frames: &mut impl FrameSource,
    ) -> bool {
        if self.space.config.strict {
            self.retire_kept(usize::MAX);
        }
        loop {
            if self.kept_pages() == 0 && self.words.deferred.link().is_none() {
                return true;
            }
            let _moving = self.words.moving();
            let evicting = self.words.evicting.link();
            let evicting = evicting.or_else(|| self.take_deferred());
            self.words.evicting.set_link(evicting);
            let Some(at) = evicting.or_else(|| self.kept().peek_any()) else {
                let Some(at) = self.space.take_from_depot() else {
                    return true;
                };
                self.kept().add(at, self.header(at));
                continue;
            };
            let pages = u64::from(self.header(at).pages());
            let has_room = self.make_room(pages, AreaKind::Vmalloc, frames);
            if !has_room && !is_forced {
                self.space.sub_lazy(pages);
                self.words.settle();
                return false;
            }
            match evicting {
                Some(_) => self.words.evicting.set_link(None),
                None => _ = self.kept().take_any(),
            }
            let freed = self.free_checked(at, self.header(at));
            debug_assert!(freed, "no other CPU has it");
            self.words.settle();
            if !has_room {
                return false;
            }
        }
    }
}
