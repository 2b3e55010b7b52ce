//! What a request comes to in a window: pages and an alignment, and whether any gap of that window could serve it.

use super::super::RangeError;
use super::super::arena::WantedGap;
use super::AreaRequest;
use crate::units::{Context, Page};

/// The base pages of a large entry of page tables: 2 MiB.
pub(super) const HUGE_PAGES: u64 = 512;

/// The pages and the alignment that a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct PageNeed {
    /// With the guard page behind them.
    pub(in super::super) pages: u32,
    /// The guard pages before them: 0 or 1.
    pub(super) before: u32,
    /// A power of two.
    pub(in super::super) align_pages: u64,
    pub(in super::super) context: Context,
}

impl PageNeed {
    /// What a request needs in the window of `window_pages` pages from `start`.
    ///
    /// # Errors
    /// The window could not serve it even if all of it were free.
    pub(super) fn of(
        request: &AreaRequest,
        start: Page,
        window_pages: u64,
    ) -> Result<Self, RangeError> {
        let &AreaRequest {
            pages, align_bytes, ..
        } = request;
        if pages == 0 {
            return Err(RangeError::Empty);
        }
        if !align_bytes.is_power_of_two() {
            return Err(RangeError::Align { bytes: align_bytes });
        }
        if pages > window_pages {
            return Err(RangeError::TooLong { pages });
        }
        let before = u32::from(request.guard_before);
        let align_pages = (align_bytes / Page::BYTES).max(1);
        // Refuses a request that no address can serve. Uses masks, because a division would cost as
        // much as all the rest.
        let below = align_pages - 1;
        let first = (start.0 + u64::from(before)).checked_add(below);
        let end = first.and_then(|first| (first & !below).checked_add(pages + 1));
        match end {
            Some(end) if end <= start.0 + window_pages => Ok(Self {
                pages: pages as u32 + 1,
                before,
                align_pages,
                context: request.context,
            }),
            _ => Err(RangeError::NoSpace { pages, align_bytes }),
        }
    }

    /// As a search of the arena, guard pages on both sides included.
    #[inline(always)]
    pub(super) const fn wanted(&self) -> Option<WantedGap> {
        WantedGap::aligned_behind(self.before, self.pages + self.before, self.align_pages)
    }

    /// The same aligned for large entries, if that is wanted, it is long enough for one, and not aligned so anyway.
    pub(super) fn for_huge_pages(&self, is_wanted: bool) -> Option<Self> {
        let is_long = u64::from(self.pages) > HUGE_PAGES;
        (is_wanted && is_long && self.align_pages < HUGE_PAGES).then_some(Self {
            align_pages: HUGE_PAGES,
            ..*self
        })
    }
}
