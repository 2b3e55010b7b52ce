//! What a zone reports of itself: counters, free blocks, labels.

use super::super::AllocError;
use super::super::seat::{CACHED_ORDERS, SeatWords, WORD_FRAMES};
use super::super::wanted::WantedBlock;
use super::Zone;
use crate::platform::FramePlatform;
use crate::policy::{BlockFacts, End, Label, Watermarks};
use crate::slots;
use crate::stats::FrameStats;
use crate::sync::{
    AtomicU32, CounterWord,
    Ordering::{Acquire, Relaxed},
    fence,
};
use crate::units::{Frame, Mobility, Order};

impl<'m, P: FramePlatform> Zone<'m, P> {
    /// Free blocks by label and order: the maximal aligned ones inside pageblocks; blocks in CPU
    /// caches are not among them. Blocks larger than a pageblock count as pageblocks. Isolated
    /// pageblocks count like others.
    ///
    /// Stops all CPUs. O(pageblocks), and O(frames / 64) for those that are neither wholly free nor
    /// full.
    pub fn free_blocks(&self) -> [[u64; Order::MAX.index() + 1]; Label::COUNT] {
        let _stopped = self.stop();
        let mut counts = [[0; Order::MAX.index() + 1]; Label::COUNT];
        for id in 0..self.map.blocks {
            let meta = self.meta(id);
            let of_label = &mut counts[meta.label().index()];
            // Most pageblocks of a large zone are wholly free or have no free frame: one word shows
            // it.
            if meta.orders() == 0 {
                continue;
            }
            if meta.orders() >> self.map.pageblock_order & 1 != 0 {
                of_label[self.pageblock_order().index()] += 1;
                continue;
            }
            let mut runs = [0; 11];
            slots::count_runs(self.bitmap(id), &mut runs);
            for (sum, runs) in of_label.iter_mut().zip(runs) {
                *sum += u64::from(runs);
            }
        }
        counts
    }

    /// Whether the frame exists and is free or cached, for checks from outside. Stops all CPUs.
    pub fn is_free(&self, frame: Frame) -> bool {
        let Some(offset) = self.offset(frame) else {
            return false;
        };
        self.at_rest(|stopped| {
            let held = stopped.hold(offset >> self.map.pageblock_order);
            let is_free = held.is_free(self.slot(offset));
            held.unlock();
            is_free
        })
    }
}

impl<'m, P> Zone<'m, P> {
    /// All counters, read one by one: while CPUs work they may be some operations apart. O(CPUs).
    ///
    /// The number of free frames is never below zero, nor above the number that exists. A block
    /// that one CPU freed and another one allocated may be counted only as freed, or only as
    /// allocated.
    #[must_use]
    pub fn stats(&self) -> FrameStats {
        let mut stats = FrameStats::default();
        let mut net_out = 0u64;
        for seat in self.all_seats() {
            for mobility in Mobility::ALL {
                let frames = seat.allocated(mobility);
                stats.pgalloc[mobility.index()] += frames;
                net_out = net_out.wrapping_add(frames);
            }
            let freed = seat.freed();
            stats.pgfree += freed;
            net_out = net_out.wrapping_sub(freed);
            let of = seat.counters();
            stats.remote_frees += of.remote.read();
            stats.drains += of.drains.read();
            stats.bad_frees += of.bad.read();
            add_each(stats.steals.as_flattened_mut(), &of.steals);
            add_each(stats.relabels.as_flattened_mut(), &of.relabels);
            add_each(&mut stats.exhausted, &of.exhausted);
            add_each(&mut stats.fragmented, &of.fragmented);
        }
        let present = self.present_frames();
        let out = if net_out as i64 > 0 { net_out } else { 0 };
        stats.nr_free_pages = present.saturating_sub(out);
        stats.bad_frees += self.corruptions();
        [stats.stop_lock, stats.pageblock_locks] = self.locks();
        stats
    }

    /// Pageblocks by label ([`Label::index`]), of those with at least one frame that exists.
    /// O(pageblocks); as of different moments while CPUs work.
    #[must_use]
    pub fn pageblocks_by_label(&self) -> [u64; Label::COUNT] {
        let mut counts = [0; Label::COUNT];
        for id in 0..self.map.blocks {
            if u64::from(self.facts(id).absent) < self.map.block_frames() {
                counts[self.meta(id).label().index()] += 1;
            }
        }
        counts
    }

    /// The zone's watermarks, from the number of frames that exist.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        Watermarks::of(self.present_frames())
    }

    /// How many pageblocks are entirely free, isolated ones not among them: a zone can have frames enough and no
    /// whole pageblock left. O(pageblocks); as of different moments while CPUs work.
    #[must_use]
    pub fn free_pageblocks(&self) -> u64 {
        let is_whole = |id: &usize| {
            let meta = self.meta(*id);
            !meta.is_isolated() && meta.orders() >> self.map.pageblock_order & 1 != 0
        };
        (0..self.map.blocks).filter(is_whole).count() as u64
    }

    /// How many pageblocks the zone spans.
    #[must_use]
    pub const fn pageblocks(&self) -> usize {
        self.map.blocks
    }

    /// Whether the `nth` pageblock is isolated, as of some moment: by [`isolate`](Zone::isolate),
    /// or because a call is emptying it.
    ///
    /// # Panics
    /// If there are not as many pageblocks.
    #[must_use]
    pub fn is_isolated(&self, nth: usize) -> bool {
        self.meta(nth).is_isolated()
    }

    /// The facts of the `nth` pageblock, as the policy sees them. Cached frames count as
    /// allocated.
    ///
    /// # Panics
    /// If there are not as many pageblocks.
    #[must_use]
    pub fn pageblock(&self, nth: usize) -> BlockFacts {
        self.facts(nth)
    }

    /// Free frames in pageblocks, without those in caches; inexact while CPUs work.
    #[must_use]
    pub fn free_in_pageblocks(&self) -> u64 {
        let net = self.all_seats().fold(0u64, |sum, seat| {
            sum.wrapping_add(seat.counters().net.read())
        });
        let free = self.present_frames().wrapping_sub(net);
        // The difference is below zero for a moment when one seat's counter is behind another's.
        if free as i64 > 0 { free } else { 0 }
    }

    /// Frames that are not allocated, cached ones included; while CPUs work, at least as many as
    /// there were at some moment of the call. Time: O(CPUs).
    ///
    /// Both sums only grow, and the whole sum of allocated frames is read before that of freed
    /// frames.
    pub(crate) fn frames_not_allocated(&self) -> u64 {
        let present = self.present_frames();
        let out = self.handed_out();
        fence(Acquire);
        let freed = self.all_seats().map(SeatWords::freed);
        let free = freed.fold(present.wrapping_sub(out), u64::wrapping_add);
        // The difference is below zero when frames that another CPU freed are counted only as
        // allocated again.
        if free as i64 > 0 { free } else { 0 }
    }

    /// Why a request fails: whether fewer frames are free than it asks for, counting those in
    /// caches.
    ///
    /// The counts are of different moments: CPUs work on, and may free and take frames meanwhile.
    /// Time: O(CPUs), and O(pageblocks) where hardly enough is free, or the free frames may not be
    /// taken.
    pub(in super::super) fn why_none(&self, order: Order, mobility: Mobility) -> AllocError {
        let nobodys = self.all_seats().fold(self.present_frames(), |sum, seat| {
            let allocated = Mobility::ALL.map(|mobility| seat.allocated(mobility));
            let allocated = allocated
                .iter()
                .fold(0u64, |sum, more| sum.wrapping_add(*more));
            sum.wrapping_sub(allocated).wrapping_add(seat.freed())
        });
        if nobodys < order.frames() {
            return AllocError::Exhausted;
        }
        let cached = self
            .all_seats()
            .map(|seat| self.cached_frames(seat, order, mobility));
        let mut missing = order.frames().saturating_sub(cached.sum());
        for id in (0..self.map.blocks).filter(|&id| self.may_serve(id, order, mobility)) {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(u64::from(self.facts(id).free));
        }
        match missing {
            0 => AllocError::Fragmented,
            _ => AllocError::Exhausted,
        }
    }

    /// Why a request fails that has looked into no other CPU's caches: by the counts of frames, unless there
    /// is no other CPU. Time: O(CPUs), or as [`why_none`](Self::why_none) on one.
    pub(in super::super) fn why_not_at_once(&self, order: Order, mobility: Mobility) -> AllocError {
        if self.map.cpus == 1 {
            self.why_none(order, mobility)
        } else if self.frames_not_allocated() < order.frames() {
            AllocError::Exhausted
        } else {
            AllocError::WouldWait
        }
    }

    /// How many frames a seat has cached, or in stock, from pageblocks that may serve requests of
    /// `order` and `mobility`; inexact while its CPU works. Time: O(cached blocks).
    fn cached_frames(&self, seat: SeatWords<'m>, order: Order, mobility: Mobility) -> u64 {
        let may =
            |offset: usize| self.may_serve(offset >> self.map.pageblock_order, order, mobility);
        let mut frames = 0;
        for of in Mobility::ALL {
            if let Some((offset, words)) = seat.stock(of)
                && may(offset)
            {
                frames += (words * WORD_FRAMES) as u64;
            }
            for order in 0..CACHED_ORDERS {
                let entries = &seat.entries(of, order)[..seat.cached(of, order)];
                let is_usable = |entry: &&AtomicU32| may(entry.load(Relaxed) as usize);
                frames += (entries.iter().filter(is_usable).count() as u64) << order;
            }
        }
        frames
    }

    /// Whether frames of that pageblock may serve a request of `order` and `mobility`. The
    /// high-order reserve serves only requests with [`WantedBlock::may_have_reserved`].
    fn may_serve(&self, id: usize, order: Order, mobility: Mobility) -> bool {
        let meta = self.meta(id);
        !meta.is_isolated()
            && match meta.label() {
                Label::Of(_) => true,
                Label::Contiguous => mobility.is_movable(),
                Label::HighOrder => {
                    WantedBlock { order, mobility }.may_have_reserved(self.pageblock_order())
                }
            }
    }

    /// Free frames that may serve single frames and runs of `mobility`, those in caches included: none of the
    /// high-order reserve.
    pub(in super::super) fn usable_frames(&self, mobility: Mobility) -> u64 {
        let in_pageblocks = (0..self.map.blocks)
            .filter(|&id| self.may_serve(id, Order::ZERO, mobility))
            .map(|id| u64::from(self.facts(id).free));
        let cached = self
            .all_seats()
            .map(|seat| self.cached_frames(seat, Order::ZERO, mobility));
        in_pageblocks.chain(cached).sum()
    }

    /// Frames handed out since the zone was made. With all CPUs stopped, and as long as this and the frames freed
    /// are what they were, no CPU has taken a frame into a cache either.
    pub(super) fn handed_out(&self) -> u64 {
        let allocated = |seat: SeatWords<'_>| Mobility::ALL.map(|of| seat.allocated(of));
        let allocated = self.all_seats().flat_map(allocated);
        allocated.fold(0, u64::wrapping_add)
    }
}

fn add_each(sums: &mut [u64], counters: &[CounterWord]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.read();
    }
}

/// What reclaim looks at, so often that it must be cheap. Each figure is as of one moment, but not all of the same one.
impl<P> Zone<'_, P> {
    /// Free frames in pageblocks that requests of `mobility` may have; cached ones do not count.
    /// Time: O(CPUs).
    pub(crate) fn free_frames_for(&self, mobility: Mobility) -> u64 {
        let facts = self.zone_facts();
        if mobility.is_movable() {
            facts.free
        } else {
            facts.free.saturating_sub(facts.free_lent)
        }
    }

    /// Entirely free pageblocks that every request may have, counted up to `max`. Time: O(max).
    pub(crate) fn free_pageblocks_up_to(&self, max: u64) -> u64 {
        let mut count = 0;
        let mut seen = [None; Mobility::ALL.len()];
        for mobility in Mobility::ALL {
            let row = self.whole_row(mobility);
            // By composition they are all of one class, whatever their label.
            if seen.contains(&Some(row)) {
                continue;
            }
            seen[mobility.index()] = Some(row);
            let mut at = None;
            while count < max {
                at = self.index.peek(row, End::Lowest, at);
                if at.is_none() {
                    break;
                }
                count += 1;
            }
        }
        count
    }

    /// Fallbacks so far that put unmovable contents into a pageblock whose contents could all move.
    /// Time: O(CPUs).
    pub(crate) fn polluting_fallbacks(&self) -> u64 {
        self.all_seats()
            .map(|seat| seat.counters().polluted.read())
            .sum()
    }

    /// How many CPUs have a seat.
    pub(crate) const fn cpus(&self) -> u16 {
        self.map.cpus
    }
}
