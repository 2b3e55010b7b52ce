//! A strict space: a free unmaps its area before it returns, as Linux clears the page tables (V12).
//!
//! The CPU that frees calls the platform, once its change of the header has made the area lazy, and in its busy seat.
//! So no other CPU frees the area, hands its pages out, or stops this one meanwhile. The pages are lazy then as in
//! any other space: they wait for a pass and a flush. The pass has nothing to unmap.
//!
//! An unmapped area says so to a CPU that [collects](super::inbox) it: its header's link is its own first page, which
//! is no area's next one. (Not that of a slot in a block of the CPU's own, which no other CPU collects.) A span says
//! whether it may have any other lazy area: one that the platform failed to unmap, or that a call
//! [left](super::super::request) which neither unmaps nor waits.
//!
//! # Kept areas
//! ```text
//!   vfree                 flush              release                     vmalloc of that length
//!   ─────▶ lazy, unmapped ─────▶ waiting ───────────────▶ kept ────────────────────────────────▶ live, mapped
//!                                  ▲                       │
//!                                  └────────── retire ─────┘   pressure, a drain, too little room
//! ```
//! No translation of a waiting area's pages is left once its generation has passed. So an area of a seat's span need not
//! lose its frames then: the release puts it into the seat's lists, and a request of its length maps the same frames
//! at the same address. The header's link says that none of its frames is gone; a release that stops within an area
//! takes the link away.
//!
//! A kept area that must go waits once more, with a generation that has passed and without the link. So the next
//! release, which works in parts, gives its frames back.

use super::super::areas::KEPT_MAX;
use super::super::seat::Held;
use super::super::span::{SpanBits, bits};
use super::super::{AreaHeader, AreaKind};
use crate::frame::FrameSource;
use crate::platform::RangePlatform;

/// How many kept areas make room at a time for others.
pub(super) const VICTIMS: usize = 4;

/// Whether a waiting area was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeping {
    Kept,
    /// The lists have no room for it.
    Full,
    /// No area like it is kept.
    Never,
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// If the space is strict, unmaps an area that this CPU has just made lazy. Returns whether the area is unmapped.
    #[inline(always)]
    pub(in super::super) fn unmap_if_strict(&self, at: u32, header: AreaHeader) -> bool {
        self.space.config.strict && self.unmap_at_once(at, header)
    }

    #[inline(always)]
    fn unmap_at_once(self, at: u32, header: AreaHeader) -> bool {
        let end = at + header.pages() - header.kind().guard_pages() as u32;
        let unmapped = self.unmap(at, end);
        if unmapped {
            self.space.table.set_header(at, header.lazy(Some(at)));
        }
        unmapped
    }

    /// Lets an area of the arena wait that this CPU has made lazy and unmapped.
    pub(in super::super) fn wait_in_arena(&self, at: u32, header: AreaHeader) {
        self.ready_areas();
        self.append_waiting_area(at, header);
        self.words.areas_stamp.set(self.space.stamp());
        self.words.add_unmapped(u64::from(header.pages()));
    }

    /// The most pages that this CPU keeps: in an engine all CPUs together a share of the frames that exist now.
    pub(super) fn kept_most(&self, frames: &impl FrameSource) -> u64 {
        match self.space.kept_share {
            0 => self.space.kept_max,
            share => (frames.frames_in_all() / share).min(self.space.kept_max),
        }
    }

    /// Keeps a waiting area whose generation has passed, if it may be kept and the lists have room: for `most` pages. The
    /// caller makes its pages wait no longer.
    pub(super) fn keep_waiting(&self, at: u32, header: AreaHeader, most: u64) -> Keeping {
        let pages = header.pages() - 1;
        let is_whole = header.next() == Some(at);
        let is_short = pages <= KEPT_MAX && u64::from(pages) <= most;
        if !is_whole || header.kind() != AreaKind::Vmalloc || !is_short {
            return Keeping::Never;
        }
        let kept = self.kept();
        if kept.pages() + u64::from(pages) > most {
            return Keeping::Full;
        }
        kept.add(at, header);
        Keeping::Kept
    }

    /// Lets up to `most` kept areas wait once more, for a release that keeps none of them. Returns how many.
    pub(in super::super) fn retire_kept(&self, most: usize) -> usize {
        if self.kept().pages() == 0 {
            return 0;
        }
        let _moving = self.words.moving();
        let mut count = 0;
        while count < most
            && let Some(at) = self.kept().take_any()
        {
            let header = self.header(at);
            let pages = header.pages();
            self.space.table.set_header(at, header.lazy(None));
            let (number, place) = self.space.spans.place(at);
            let span = self.span(number);
            bits::set(span.bits(SpanBits::Waiting), place, pages);
            let waiting = span.waiting();
            if waiting.pages == 0 {
                self.append_waiting(number);
                span.set_stamp(0);
            }
            span.set_waiting(waiting.with(pages, bits::summary_of(place, pages)));
            self.words
                .counters
                .released
                .add(u64::from(pages).wrapping_neg());
            count += 1;
        }
        count
    }
}
