//! Compaction: movable pages from the bottom go to free frames at the top, until a block is free.

use super::lock::HeldLock;
use super::tenants::{FrameHolder, JournalContents, TenantLru};
use super::zone::{JournalZone, Lists};
use super::{COSTLY_ORDER, Journal, PAGEBLOCK};
use framewright::Mobility;
use framewright::platform::RangePlatform;
use std::sync::atomic::Ordering::Relaxed;

/// Pages isolated at a time, and frames looked at under one hold of the lock.
const CLUSTER: usize = 32;

/// After this many fast searches without a find the next ones grow no shorter.
const FAILED_SEARCHES_MAX: u32 = 7;

/// Whether a request or the background compacts, which decides how hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A request, which waits: gives up a block of its order at the first page that cannot move,
    /// and everything where a lock is contended.
    Direct,
    /// The background: moves what it can.
    Background,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalOutcome {
    /// Too few free frames to move anything to.
    Skipped,
    /// Not tried: the last attempts failed.
    Deferred,
    /// There is a block of the order.
    Success,
    /// The scanners met.
    Complete,
    /// A lock was contended, or there was nothing to move pages to.
    Contended,
}

/// One attempt.
struct JournalAttempt<'j, M> {
    journal: &'j Journal<M>,
    order: usize,
    mode: Mode,
    /// The next frame to move from.
    migrate: u32,
    /// The pageblock that the free scanner is in.
    free: u32,
    /// Where in it, from its first frame.
    free_at: u32,
    /// Frames to move to.
    targets: Vec<u32>,
    contended: bool,
    /// Fast searches in a row that found nothing.
    failed_searches: u32,
    /// Where the last search for a free block found one.
    search_order: usize,
}

impl<M: RangePlatform + JournalContents> Journal<M> {
    /// Tries to make a free block of `order`.
    pub(super) fn compact(&self, order: usize, mode: Mode) -> JournalOutcome {
        let zone = &self.zone;
        if zone.allows(order, zone.marks.low) {
            return JournalOutcome::Success;
        }
        // Moving takes as many free frames as two blocks, above the low mark.
        if zone.free() < zone.marks.low + (2 << order) {
            return JournalOutcome::Skipped;
        }
        let scanners = &self.scanners;
        if scanners.restarts() {
            scanners.forget_hints();
        }
        let migrate = scanners.migrate[mode as usize].load(Relaxed);
        let (mut migrate, mut free) = (migrate, scanners.free.load(Relaxed));
        if migrate >= free {
            (migrate, free) = (0, zone.frames() - PAGEBLOCK);
        }
        let mut attempt = JournalAttempt {
            journal: self,
            order,
            mode,
            migrate,
            free,
            free_at: 0,
            targets: Vec::new(),
            contended: false,
            failed_searches: 0,
            search_order: order.saturating_sub(1),
        };
        let outcome = attempt.run();
        attempt.finish(outcome);
        outcome
    }
}

impl<M: RangePlatform + JournalContents> JournalAttempt<'_, M> {
    fn zone(&self) -> &JournalZone {
        &self.journal.zone
    }

    fn run(&mut self) -> JournalOutcome {
        let mut pages = Vec::new();
        loop {
            // The background finishes the pageblock that it is in, so that a request that may take all of it does.
            let is_between = self.migrate.is_multiple_of(PAGEBLOCK);
            if (is_between || self.mode == Mode::Direct) && self.zone().has(self.order) {
                return JournalOutcome::Success;
            }
            if self.contended && self.mode == Mode::Direct {
                return JournalOutcome::Contended;
            }
            // One pageblock between them is too few for both.
            if self.migrate / PAGEBLOCK >= self.free / PAGEBLOCK {
                return JournalOutcome::Complete;
            }
            let is_found = is_between && self.find_source();
            let block = self.migrate & !(PAGEBLOCK - 1);
            if self.migrate == block && !is_found && self.passes_by(block) {
                self.migrate += PAGEBLOCK;
                continue;
            }
            self.isolate(block + PAGEBLOCK, &mut pages);
            if !self.move_all(&mut pages) {
                return JournalOutcome::Contended;
            }
        }
    }

    /// Whether a pageblock is none to move pages from: nothing was found there, or, for a request, its label is
    /// another.
    fn passes_by(&self, block: u32) -> bool {
        let is_of_others =
            self.mode == Mode::Direct && self.zone().label(block) != Mobility::Unmovable;
        is_of_others || self.journal.scanners.skips(block)
    }

    /// How many free blocks a fast search looks at.
    const fn search_most(&self) -> usize {
        (CLUSTER >> self.failed_searches) + 1
    }

    fn searched(&mut self, is_found: bool) {
        self.failed_searches = if is_found {
            0
        } else {
            FAILED_SEARCHES_MAX.min(self.failed_searches + 1)
        };
    }

    /// The background goes on in the pageblock of a movable free block below the order, if one lies in the lower part
    /// of what is between the scanners: little is to be moved there.
    fn find_source(&mut self) -> bool {
        if self.mode == Mode::Direct || self.order <= COSTLY_ORDER {
            return false;
        }
        let journal = self.journal;
        let distance = self.free.saturating_sub(self.migrate) >> 1;
        let distance = if self.migrate > 0 {
            distance >> 2
        } else {
            distance
        };
        let high = (self.migrate + distance) & !(PAGEBLOCK - 1);
        let from = self.migrate;
        let is_right = |frame: u32| (from..high).contains(&frame) && !journal.scanners.skips(frame);
        let lists = journal.zone.lock();
        let most = self.search_most();
        let mut orders = (COSTLY_ORDER..self.order).rev();
        let found =
            orders.find_map(|order| journal.zone.find_movable(&lists, order, most, is_right));
        drop(lists);
        self.searched(found.is_some());
        let Some(found) = found else {
            return false;
        };
        self.migrate = found & !(PAGEBLOCK - 1);
        journal.scanners.set_skip(found);
        true
    }

    /// Isolates pages to move, from `migrate` to `end` at most.
    fn isolate(&mut self, end: u32, pages: &mut Vec<(u32, FrameHolder)>) {
        let journal = self.journal;
        let order_frames = 1 << self.order;
        let from = self.migrate;
        let gives_up = self.mode == Mode::Direct && order_frames <= PAGEBLOCK;
        let block_end = |at: u32| (at & !(order_frames - 1)) + order_frames;
        let mut block = block_end(from);
        let mut lru: Option<HeldLock<'_, TenantLru>> = None;
        let mut any = false;
        let mut at = from;
        while at < end {
            if gives_up && at >= block {
                if !pages.is_empty() {
                    break;
                }
                block = block_end(at);
            }
            if let Some(order) = self.zone().order_at(at) {
                at += 1 << order;
                continue;
            }
            if at.is_multiple_of(CLUSTER as u32) {
                lru = None;
            }
            let isolated = journal.tenants.holder(at).and_then(|_| {
                if lru.is_none() {
                    let (held, waited) = journal.tenants.lock_or_say();
                    self.contended |= waited;
                    lru = Some(held);
                }
                journal.tenants.isolate(lru.as_mut()?, at)
            });
            match isolated {
                Some(holder) => {
                    pages.push((at, holder));
                    any = true;
                    at += 1;
                    if pages.len() >= CLUSTER {
                        break;
                    }
                }
                None if gives_up => {
                    // What came before in the block need not move either.
                    if let Some(lru) = lru.as_mut() {
                        for (frame, holder) in pages.drain(..) {
                            journal.tenants.put(lru, frame, holder);
                        }
                    }
                    at = block;
                }
                None => at += 1,
            }
        }
        drop(lru);
        self.migrate = at.min(end);
        let whole = from.is_multiple_of(PAGEBLOCK) && self.migrate == end;
        if whole && (!any || gives_up && pages.is_empty()) {
            journal.scanners.set_skip(from);
        }
    }

    /// Moves the isolated pages; `false` if there is nothing to move them to, and those left are
    /// back where they were.
    fn move_all(&mut self, pages: &mut Vec<(u32, FrameHolder)>) -> bool {
        if pages.is_empty() {
            return true;
        }
        let journal = self.journal;
        let mut moved = Vec::with_capacity(pages.len());
        while let Some((from, holder)) = pages.pop() {
            if self.targets.is_empty() {
                self.find_targets(pages.len() + 1);
            }
            let Some(to) = self.targets.pop() else {
                let mut lru = journal.tenants.lock();
                journal.tenants.put(&mut lru, from, holder);
                for (frame, holder) in pages.drain(..) {
                    journal.tenants.put(&mut lru, frame, holder);
                }
                break;
            };
            journal.tenants.migrate(&journal.mapper, holder, from, to);
            moved.push((from, to, holder));
        }
        if moved.is_empty() {
            // Where the scanners met the next look ends it.
            return self.migrate / PAGEBLOCK >= self.free / PAGEBLOCK;
        }
        journal.count(|c| &c.migrated, moved.len() as u64);
        let mut lru = journal.tenants.lock();
        for &(_, to, holder) in &moved {
            journal.tenants.put(&mut lru, to, holder);
        }
        drop(lru);
        let mut lists = self.zone().lock();
        for (from, _, _) in moved {
            self.zone().give(&mut lists, from, 0);
        }
        true
    }

    /// Isolates at least `wanted` free frames, from the top, if there are that many above the other
    /// scanner.
    fn find_targets(&mut self, wanted: usize) {
        if self.find_in_lists() {
            return;
        }
        let journal = self.journal;
        while self.targets.len() < wanted && self.free / PAGEBLOCK > self.migrate / PAGEBLOCK {
            let block = self.free & !(PAGEBLOCK - 1);
            let is_passed =
                journal.scanners.skips(block) || journal.zone.label(block) != Mobility::Movable;
            if self.free_at == 0 && is_passed {
                self.next_block(block);
                continue;
            }
            let mut at = block + self.free_at;
            let mut lists: Option<HeldLock<'_, Lists>> = None;
            while at < block + PAGEBLOCK && self.targets.len() < wanted {
                if at.is_multiple_of(CLUSTER as u32) {
                    lists = None;
                }
                let Some(order) = journal.zone.order_at(at) else {
                    at += 1;
                    continue;
                };
                if lists.is_none() {
                    let (held, waited) = journal.zone.locks().lock_or_say();
                    self.contended |= waited;
                    lists = Some(held);
                }
                if journal.zone.free() <= journal.zone.marks.min + (1 << order) {
                    break;
                }
                // The first look was without the lock: another thread may have taken the block since.
                match lists.as_mut().and_then(|l| journal.zone.isolate(l, at)) {
                    Some(order) => {
                        self.targets.extend(at..at + (1 << order));
                        at += 1 << order;
                    }
                    None => at += 1,
                }
            }
            drop(lists);
            if at < block + PAGEBLOCK {
                self.free_at = at - block;
                if self.targets.len() < wanted {
                    return;
                }
            } else {
                if self.free_at == 0 {
                    journal.scanners.set_skip(block);
                }
                self.next_block(block);
            }
        }
    }

    /// Isolates a movable free block below the order from the lists, if one lies high enough.
    fn find_in_lists(&mut self) -> bool {
        let journal = self.journal;
        let zone = &journal.zone;
        let distance = self.free.saturating_sub(self.migrate);
        let floor = |part: u32| self.free.saturating_sub(part) & !(PAGEBLOCK - 1);
        let (low, least) = (floor(distance >> 2), floor(distance >> 1));
        let most = (self.search_most() / 2).max(1);
        let (mut lists, waited) = zone.locks().lock_or_say();
        self.contended |= waited;
        let mut found = None;
        for order in (0..=self.search_order).rev() {
            if zone.free() <= zone.marks.min + (1 << order) {
                continue;
            }
            let at = |from| zone.find_movable(&lists, order, most, |frame| frame >= from);
            if let Some(frame) = at(low).or_else(|| at(least)) {
                self.search_order = order;
                found = zone.isolate(&mut lists, frame).map(|order| (frame, order));
                break;
            }
        }
        drop(lists);
        self.searched(found.is_some());
        let Some((frame, order)) = found else {
            return false;
        };
        self.targets.extend(frame..frame + (1 << order));
        true
    }

    fn next_block(&mut self, block: u32) {
        self.free = block.saturating_sub(PAGEBLOCK);
        self.free_at = 0;
    }

    /// Gives back what was not needed, and remembers where the scanners were.
    fn finish(self, outcome: JournalOutcome) {
        let scanners = &self.journal.scanners;
        let mut free = self.free;
        if !self.targets.is_empty() {
            let top = self.targets.iter().max().copied().unwrap_or(0);
            free = free.max(top & !(PAGEBLOCK - 1));
            let mut lists = self.zone().lock();
            for frame in &self.targets {
                self.zone().give(&mut lists, *frame, 0);
            }
        }
        if outcome == JournalOutcome::Complete {
            scanners.begin_at_the_bottom();
            scanners
                .free
                .store(self.zone().frames() - PAGEBLOCK, Relaxed);
            if self.mode == Mode::Direct {
                scanners.flush.store(true, Relaxed);
            }
        } else {
            scanners.migrate[self.mode as usize].store(self.migrate, Relaxed);
            scanners.free.store(free, Relaxed);
        }
    }
}
