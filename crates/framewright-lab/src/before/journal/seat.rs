//! One CPU's way into the allocator: its lists in front of the zone, and the order in which a request tries them,
//! the zone, compaction and reclaim. What is global stands in `zone` and `compact`.

use super::compact::{JournalOutcome, Mode};
use super::tenants::JournalContents;
use super::zone::ORDERS;
use super::{COSTLY_ORDER, Journal, Rule};
use framewright::platform::RangePlatform;
use framewright::{Frame, Mobility};

/// Frames that a per-CPU list takes from the zone, or gives back, at a time.
const BATCH: usize = 32;

/// Frames above which it gives back.
const HIGH: usize = 4 * BATCH;

/// Times that a request for a single frame reclaims before it fails.
const RECLAIMS_MAX: u32 = 16;

/// One CPU's place in the allocator.
#[derive(Debug)]
pub struct JournalSeat<'j, M> {
    pub(super) journal: &'j Journal<M>,
    pub(super) cpu: usize,
}

impl<M: RangePlatform + JournalContents> JournalSeat<'_, M> {
    /// A frame for a tenant. Where there is none, the tenant itself must reclaim.
    pub fn frame(&mut self) -> Option<Frame> {
        let zone = &self.journal.zone;
        let frame = self.try_alloc(0, zone.marks.low, Mobility::Movable);
        let frame = frame.or_else(|| {
            self.journal.wake.wake(0);
            self.try_alloc(0, self.journal.zone.marks.min, Mobility::Movable)
        });
        frame.map(|frame| Frame(u64::from(frame)))
    }

    /// A block of `order`, contiguous; how hard is the rule's to say.
    pub(super) fn contiguous(&mut self, order: usize) -> Option<u32> {
        if order >= ORDERS {
            return None;
        }
        let marks = self.journal.zone.marks;
        if let Some(frame) = self.try_unmovable(order, marks.low) {
            return Some(frame);
        }
        self.journal.wake.wake(order);
        let got = self.try_unmovable(order, marks.min);
        if got.is_some() || self.journal.rule == Rule::FailFast || order == 0 {
            return got;
        }
        if order > COSTLY_ORDER {
            match self.direct_compact(order) {
                (Some(frame), _) => return Some(frame),
                // Reclaim would not help either, and the caller has another way.
                (None, JournalOutcome::Skipped | JournalOutcome::Deferred) => return None,
                (None, _) => {}
            }
        }
        if self.direct_reclaim(order) > 0 {
            let got = self.try_unmovable(order, marks.min).or_else(|| {
                self.journal.drain_all();
                self.try_unmovable(order, marks.min)
            });
            if got.is_some() {
                return got;
            }
        }
        self.direct_compact(order).0
    }

    fn direct_compact(&mut self, order: usize) -> (Option<u32>, JournalOutcome) {
        let journal = self.journal;
        if journal.scanners.is_deferred() {
            return (None, JournalOutcome::Deferred);
        }
        let outcome = journal.timed(|c| &c.compact_ns, || journal.compact(order, Mode::Direct));
        if outcome == JournalOutcome::Skipped {
            return (None, outcome);
        }
        journal.count(|c| &c.compact_stall, 1);
        let got = self.try_unmovable(order, journal.zone.marks.min);
        if got.is_some() {
            journal.scanners.succeeded();
            journal.count(|c| &c.compact_success, 1);
        }
        (got, outcome)
    }

    /// Single frames for an area, as many as `wanted`. For each one the request reclaims if it must;
    /// `false` if that brings none.
    pub(super) fn bulk(&mut self, wanted: usize, frames: &mut Vec<u32>) -> bool {
        while frames.len() < wanted {
            let got = self.try_unmovable(0, self.journal.zone.marks.low);
            match got.or_else(|| self.single()) {
                Some(frame) => frames.push(frame),
                None => return false,
            }
        }
        true
    }

    fn single(&mut self) -> Option<u32> {
        let min = self.journal.zone.marks.min;
        self.journal.wake.wake(0);
        if let Some(frame) = self.try_unmovable(0, min) {
            return Some(frame);
        }
        for _ in 0..RECLAIMS_MAX {
            if self.direct_reclaim(0) == 0 {
                self.journal.drain_all();
            }
            if let Some(frame) = self.try_unmovable(0, min) {
                return Some(frame);
            }
        }
        None
    }

    /// A block for the journal, which cannot be moved.
    fn try_unmovable(&mut self, order: usize, mark: u64) -> Option<u32> {
        self.try_alloc(order, mark, Mobility::Unmovable)
    }

    /// A block, from this CPU's lists or by one look at the zone.
    fn try_alloc(&mut self, order: usize, mark: u64, kind: Mobility) -> Option<u32> {
        let zone = &self.journal.zone;
        let can_move = |frame| self.journal.tenants.holder(frame).is_some();
        if order > COSTLY_ORDER {
            if !zone.allows(order, mark) {
                return None;
            }
            return zone.take(&mut zone.lock(), order, kind, can_move);
        }
        let mut lists = self.journal.per_cpu[self.cpu].lock();
        let list = &mut lists[kind as usize][order];
        if list.is_empty() && zone.allows(order, mark) {
            let mut blocks = zone.lock();
            for _ in 0..BATCH >> order {
                match zone.take(&mut blocks, order, kind, can_move) {
                    Some(frame) => list.push(frame),
                    None => break,
                }
            }
            // The first one taken is the first one handed out.
            list.reverse();
        }
        list.pop()
    }

    /// Frees a block.
    pub(super) fn free(&mut self, frame: u32, order: usize) {
        let zone = &self.journal.zone;
        if order > COSTLY_ORDER {
            zone.give(&mut zone.lock(), frame, order);
            return;
        }
        let mut lists = self.journal.per_cpu[self.cpu].lock();
        let list = &mut lists[zone.label(frame) as usize][order];
        list.push(frame);
        if list.len() << order >= HIGH {
            let mut blocks = zone.lock();
            for frame in list.drain(..BATCH >> order) {
                zone.give(&mut blocks, frame, order);
            }
        }
    }

    /// Gives back what this CPU has cached.
    pub fn drain(&mut self) {
        self.journal.drain(self.cpu);
    }
}

impl<M> Journal<M> {
    /// Gives back what one CPU has cached.
    pub(super) fn drain(&self, cpu: usize) {
        let mut lists = self.per_cpu[cpu].lock();
        let mut blocks = self.zone.lock();
        for (order, list) in lists
            .iter_mut()
            .flat_map(|kind| kind.iter_mut().enumerate())
        {
            for frame in list.drain(..) {
                self.zone.give(&mut blocks, frame, order);
            }
        }
    }

    /// Gives back what all CPUs have cached.
    pub fn drain_all(&self) {
        (0..self.per_cpu.len()).for_each(|cpu| self.drain(cpu));
    }
}
