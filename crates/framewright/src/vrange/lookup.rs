//! Areas looked up by page or listed, and the counts.

use super::space::sum;
use super::span::{SpanBits, SpanOwner};
use super::{AreaHeader, AreaInfo, AreaKind, AreaState, RangeFreeError, Space};
use crate::platform::RangePlatform;
use crate::stats::RangeStats;
use crate::sync::Ordering::Relaxed;
use crate::sync::{clear_bits, set_bits};
use crate::units::Page;

impl<'m, P: RangePlatform> Space<'m, P> {
    /// The area that `page` belongs to, its guard pages included.
    ///
    /// Time: O(1). While other CPUs free, the answer may be out of date as soon as it is returned.
    #[must_use]
    pub fn find(&self, page: Page) -> Option<AreaInfo> {
        let offset = self.offset_unchecked(page);
        if offset >= self.pages() {
            return None;
        }
        let at = offset as u32;
        if offset + 1 < self.pages() && self.starts_behind_a_guard(at + 1) {
            return self.info(at + 1);
        }
        let (number, place) = self.spans.place(at);
        let span = self.spans.get(number);
        let start = match span.start_before(place) {
            Some(start) => self.spans.first(number) + start,
            None => span.covers()?,
        };
        let (number, place) = self.spans.place(start);
        if !self.spans.get(number).starts_at(place) {
            return None;
        }
        let info = self.info(start)?;
        (at - start < (info.pages + info.guard) as u32).then_some(info)
    }

    /// Whether an area starts at `at` that has the page before it as a guard, too: always one of the arena.
    #[inline]
    pub(super) fn has_guard_before(&self, at: u32) -> bool {
        let (number, place) = self.spans.place(at);
        let span = self.spans.get(number);
        let word = &span.bits(SpanBits::Lazy)[(place / 64) as usize];
        word.load(Relaxed) >> (place % 64) & 1 != 0 && span.owner() == SpanOwner::Arena
    }

    /// The same, and the area has not ended: its start goes before its mark.
    fn starts_behind_a_guard(&self, at: u32) -> bool {
        let (number, place) = self.spans.place(at);
        self.has_guard_before(at) && self.spans.get(number).starts_at(place)
    }

    /// Says whether the area of the arena that starts there has the page before it, too. Atomic, because other CPUs' areas
    /// can start in the same span.
    #[cold]
    pub(super) fn mark_guard_before(&self, at: u32, has_guard: bool) {
        let (number, place) = self.spans.place(at);
        let word = &self.spans.get(number).bits(SpanBits::Lazy)[(place / 64) as usize];
        let bit = 1 << (place % 64);
        match has_guard {
            true => set_bits(word, bit, P::ALONE),
            false => clear_bits(word, bit, P::ALONE),
        };
    }

    /// Calls `sink` with every area, by address. While CPUs work, `sink` may or may not see an area
    /// that is made or freed meanwhile. Time: O(spans between the lowest and the highest that was ever
    /// used, and areas).
    pub fn for_each_area(&self, mut sink: impl FnMut(AreaInfo)) {
        for number in self.used_spans() {
            let first = self.spans.first(number);
            for (word, starts) in self
                .spans
                .get(number)
                .bits(SpanBits::Starts)
                .iter()
                .enumerate()
            {
                let mut left = starts.load(Relaxed);
                while left != 0 {
                    let at = first + word as u32 * 64 + left.trailing_zeros();
                    left &= left - 1;
                    if let Some(info) = self.info(at) {
                        sink(info);
                    }
                }
            }
        }
    }

    /// The header of the area of that kind that starts at `page`, if there is one to be freed.
    pub(super) fn check_free(
        &self,
        page: Page,
        kind: AreaKind,
    ) -> Result<AreaHeader, RangeFreeError> {
        let offset = self.offset_unchecked(page);
        if offset >= self.pages() {
            return Err(RangeFreeError::Outside(page));
        }
        let at = offset as u32;
        let (number, place) = self.spans.place(at);
        if !self.spans.get(number).starts_at(place) {
            return Err(match self.find(page) {
                Some(area) if area.start != page => RangeFreeError::NotTheFirst {
                    page,
                    start: area.start,
                },
                _ => RangeFreeError::NotAllocated(page),
            });
        }
        let header = self.table.header(at);
        let header = header.ok_or(RangeFreeError::NotAllocated(page))?;
        if header.state() != AreaState::Live {
            return Err(RangeFreeError::AlreadyFree(page));
        }
        if header.kind() != kind {
            return Err(RangeFreeError::WrongKind(page));
        }
        Ok(header)
    }

    /// The area that the header at a page describes.
    fn info(&self, at: u32) -> Option<AreaInfo> {
        let header = self.table.header(at)?;
        let guard = header.kind().guard_pages();
        Some(AreaInfo {
            start: self.page(at),
            pages: u64::from(header.pages()) - guard,
            guard_before: self.has_guard_before(at).into(),
            guard,
            kind: header.kind(),
            state: header.state(),
            tag: match header.state() {
                AreaState::Live => header.tag(),
                AreaState::Deferred | AreaState::Kept | AreaState::Lazy => 0,
            },
        })
    }

    /// The counts of all CPUs so far.
    #[must_use]
    pub fn stats(&self) -> RangeStats {
        let all = |counter| sum(self.all_seats(), counter);
        let live = self.all_seats().map(|seat| seat.live.get());
        self.look_at_lazy();
        let lazy = self.sum_of_lazy(0);
        let [stop_lock, arena_lock, depot_lock] = self.locks();
        RangeStats {
            area_allocs: all(|of| &of.allocs),
            area_frees: all(|of| &of.frees),
            remote_frees: all(|of| &of.remote_frees),
            kept_takes: all(|of| &of.kept_takes),
            kept_pages: self
                .all_seats()
                .map(|seat| seat.kept(self.table).pages())
                .sum::<u64>()
                + self.depot().pages(),
            failures: all(|of| &of.failures),
            live_pages: live.fold(0, u64::wrapping_add),
            alloc_vmap_area: all(|of| &of.cuts),
            free_vmap_area: all(|of| &of.gives),
            span_takes: all(|of| &of.span_takes),
            span_returns: all(|of| &of.span_returns),
            span_dissolves: all(|of| &of.dissolves),
            new_vmap_block: all(|of| &of.block_takes),
            free_vmap_block: all(|of| &of.block_returns),
            vm_map_ram: all(|of| &of.map_ram),
            vm_unmap_ram: all(|of| &of.unmap_ram),
            vmap_lazy_nr: lazy,
            lazy_pages_peak: self.peak(),
            purges: all(|of| &of.purges),
            unmap_calls: all(|of| &of.unmaps),
            unmap_failures: all(|of| &of.unmap_failures),
            tlb_flushes: all(|of| &of.flushes),
            claims: all(|of| &of.claims),
            drains: all(|of| &of.drains),
            merges_per_hold_max: self.merges_max(),
            va_span_pages: self.extent(),
            fits_full: all(|of| &of.fit_full),
            fits_left_edge: all(|of| &of.fit_left),
            fits_right_edge: all(|of| &of.fit_right),
            fits_no_edge: all(|of| &of.fit_none),
            stop_lock,
            arena_lock,
            depot_lock,
        }
    }
}
