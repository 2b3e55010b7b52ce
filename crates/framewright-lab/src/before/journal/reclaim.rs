//! Reclaim, by the request that stalls and by the background. Both evict from the cache's end; they differ in when
//! they stop, and only the request's is counted as a stall.

use super::JournalSeat;
use super::compact::{JournalOutcome, Mode};
use super::tenants::JournalContents;
use framewright::Frame;
use framewright::platform::RangePlatform;

/// Pages that a request reclaims at a time.
pub(super) const RECLAIM_PAGES: usize = 32;

impl<M: RangePlatform + JournalContents> JournalSeat<'_, M> {
    /// Reclaims for a request that waits; how many pages. Where enough is free for compaction to
    /// work with, a large order is left to that.
    pub(super) fn direct_reclaim(&mut self, order: usize) -> usize {
        let journal = self.journal;
        journal.count(|c| &c.allocstall, 1);
        let zone = &journal.zone;
        if order > super::COSTLY_ORDER && zone.free() >= zone.marks.high + (2 << order) {
            return 1;
        }
        let reclaimed = journal.timed(|c| &c.reclaim_ns, || self.reclaim(RECLAIM_PAGES));
        journal.count(|c| &c.reclaimed, reclaimed as u64);
        reclaimed
    }

    /// Drops `pages` pages of the cache and frees their frames.
    pub(super) fn reclaim(&mut self, pages: usize) -> usize {
        let mut frames = Vec::with_capacity(pages);
        self.journal.tenants.evict(pages, &mut frames);
        for &frame in &frames {
            self.free_frame(frame);
        }
        frames.len()
    }

    /// What the background does when it is woken for a request of `order`: reclaims up to the high
    /// mark, and at least two blocks of the order; then drops the hints of a finished scan, and
    /// compacts, if its last attempts did not fail.
    pub fn background(&mut self, order: usize) {
        let journal = self.journal;
        let zone = &journal.zone;
        let mut least = if order > 0 { 2 << order } else { 0 };
        while zone.free() < zone.marks.high || (least > 0 && !zone.has(order)) {
            let reclaimed = self.reclaim(RECLAIM_PAGES);
            self.drain();
            least = usize::saturating_sub(least, reclaimed);
            if reclaimed == 0 {
                break;
            }
        }
        if order == 0 {
            return;
        }
        journal.scanners.asleep();
        if journal.zone.has(order) || journal.scanners.is_deferred() {
            return;
        }
        match journal.compact(order, Mode::Background) {
            JournalOutcome::Success => journal.scanners.succeeded(),
            JournalOutcome::Complete => {
                // What CPUs have cached may be a block.
                journal.drain_all();
                journal.scanners.defer();
            }
            JournalOutcome::Skipped | JournalOutcome::Deferred | JournalOutcome::Contended => {}
        }
    }

    /// Frees a frame that a tenant had.
    pub fn free_frame(&mut self, frame: Frame) {
        self.free(frame.0 as u32, 0);
    }
}
