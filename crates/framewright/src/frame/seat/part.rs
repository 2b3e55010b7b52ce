//! Allocates and frees more than one block at a time, and parts of one.
//!
//! A request that needs fewer frames than a block has allocates the block and frees the rest. To do that it
//! enters its seat once more, and a wait for a CPU that stops it may unwind. Then no caller knows the block. It
//! is *loose*: still an allocation, noted in the seat's record. Every drain gives it back, whichever CPU
//! drains the seat, and so does the seat's next request of this kind before it takes a block.

use super::super::pageblock::{HeldBlock, Tag};
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::super::{AllocError, FreeError};
use super::Seat;
use super::record::{CACHED_ORDERS, SeatWords};
use crate::platform::{FramePlatform, OrElse, surely};
use crate::sync::Ordering::Relaxed;
use crate::units::{Frame, Mobility, Order, Run, RunError};
use core::iter;

impl<'m, P: FramePlatform> Seat<'_, 'm, P> {
    /// Allocates up to `frames.len()` blocks of `order`; returns how many. Fewer only if the next
    /// allocation failed: this repeats [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// Why not even the first allocation succeeded.
    pub fn alloc_bulk(
        &mut self,
        order: Order,
        mobility: Mobility,
        frames: &mut [Frame],
    ) -> Result<usize, AllocError> {
        let mut bulk = (self, frames, 0);
        let unwound = OrElse::new(&mut bulk, |(seat, frames, taken)| {
            // The caller does not know of these frames.
            _ = seat.free_bulk(order, &frames[..*taken]);
        });
        let (seat, frames, taken) = &mut *unwound.seat;
        let mut failed = None;
        for frame in frames.iter_mut() {
            match seat.alloc(order, mobility) {
                Ok(found) => *frame = found,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            *taken += 1;
        }
        let taken = *taken;
        unwound.end();
        match failed {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    /// Frees blocks of `order`, one after the other. If a wait unwinds out of it, they are free all the same.
    ///
    /// # Errors
    /// How many were freed, and why the next one was not; those after it are as before.
    pub fn free_bulk(&mut self, order: Order, frames: &[Frame]) -> Result<(), (usize, FreeError)> {
        let (mut freed, mut result) = (0, Ok(()));
        surely(|| {
            while let Some(&frame) = frames.get(freed) {
                if let Err(error) = self.free(frame, order) {
                    result = Err((freed, error));
                    break;
                }
                freed += 1;
            }
        });
        result
    }

    /// Frees the block of `order` at `frame`, which is a whole allocation or an aligned part of a
    /// larger one. What remains of the larger one becomes the fewest aligned allocations. The
    /// caller frees each with its own order, or by parts again.
    ///
    /// Time: that of [`free`](Self::free) for a whole allocation, and else O(orders), under a lock. If several CPUs free
    /// parts of one allocation, they take turns. A caller that frees all parts of one, each by itself,
    /// [splits](Self::split) it first.
    ///
    /// # Errors
    /// If no allocation contains the whole block. Nothing has changed then.
    #[inline]
    pub fn free_part(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        if self.free_cached(frame, order) {
            return Ok(());
        }
        self.free_part_slow(frame, order)
    }

    #[inline(never)]
    fn free_part_slow(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        self.enter();
        let result = self.cut_out(frame, order);
        let result = result.and_then(|()| self.free_entered(frame, order));
        self.exit();
        result
    }

    /// Frees every frame of `run`: the allocations that lie in it, side by side, and the parts
    /// inside it of those that reach out of it. These leave the same state behind as
    /// [`free_part`](Self::free_part).
    ///
    /// Time: O(1) for each allocation inside, O(orders²) for one that reaches out. If a wait unwinds out of it, the
    /// frames are free all the same.
    ///
    /// # Errors
    /// If a frame belongs to no allocation: the first one. Nothing has changed then. If another CPU frees some of them
    /// at the same moment, which is a double free, this frees the others, and the error names the first that was not
    /// its own.
    pub fn free_frames(&mut self, run: Run) -> Result<(), FreeError> {
        if run.frames().is_power_of_two()
            && let Some(order) = Order::new(run.frames().trailing_zeros() as u8)
            && self.free_cached(run.start(), order)
        {
            return Ok(());
        }
        let (mut at, mut result) = (None, Ok(()));
        surely(|| {
            if at.is_none() {
                result = self.check_allocated(run);
                if result.is_err() {
                    return;
                }
            }
            self.free_each(at.get_or_insert(run.start()), run.end(), &mut result);
        });
        result
    }

    /// Whether each frame of a run belongs to an allocation.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn check_allocated(&self, run: Run) -> Result<(), FreeError> {
        let mut at = run.start();
        while at < run.end() {
            let allocation = self.allocation_of(at);
            let Some((start, order)) = allocation.or_else(|| self.allocation_in_turn(at)) else {
                return Err(self.refuse(at, Order::ZERO));
            };
            at = Frame(start.0 + order.frames());
        }
        Ok(())
    }

    /// Allocates `frames` frames side by side, the first at a multiple of `align` frames, each as an allocation of its
    /// own, which its owner frees by itself: the first frames of the smallest block in which they fit, if such a block is
    /// there at once. The rest of it stays free.
    ///
    /// As [`try_alloc`](Self::try_alloc) it stops no CPU, drains nothing and counts no failure. Two bytes for each frame.
    #[must_use]
    pub fn try_alloc_singles(
        &mut self,
        frames: u64,
        align: u64,
        mobility: Mobility,
    ) -> Option<Run> {
        if frames == 0 || !align.is_power_of_two() {
            return None;
        }
        let order = Order::covering(frames.max(align))?;
        if order > self.zone.max_order() {
            return None;
        }
        self.enter();
        let taken = self.take_first((order, mobility), frames);
        if let Some((offset, end)) = taken {
            let live = Tag::live(Order::ZERO, mobility);
            self.zone
                .tags
                .fill(offset, frames as usize, live.0, Relaxed);
            self.words.counters().pgalloc[mobility.index()].add(frames);
            self.free_rest(offset, (frames, end), mobility);
        }
        self.exit();
        taken.and_then(|(offset, _)| Run::new(self.zone.frame(offset), frames))
    }

    /// Allocates the first `frames` frames of a block of `order`, which has as many, as the fewest aligned
    /// allocations, if such a block is there at once. What remains of the block is free, or in this CPU's caches.
    /// The CPU stays in its seat meanwhile, so no wait that unwinds leaves part of the block behind.
    #[inline(never)]
    pub(crate) fn try_first(
        &mut self,
        (order, mobility): (Order, Mobility),
        frames: u64,
    ) -> Option<Run> {
        self.enter();
        let taken = self.take_first((order, mobility), frames);
        if let Some((offset, end)) = taken {
            for (at, part) in parts(0, frames) {
                self.hand_out(offset + at as usize, part, mobility);
            }
            self.free_rest(offset, (frames, end), mobility);
        }
        self.exit();
        taken.and_then(|(offset, _)| Run::new(self.zone.frame(offset), frames))
    }

    /// Takes a block of `order`, or just its first `frames` frames, if it is one pageblock's: where it begins, and how many
    /// frames were taken. The seat is busy.
    fn take_first(
        &self,
        (order, mobility): (Order, Mobility),
        frames: u64,
    ) -> Option<(usize, u64)> {
        let is_cached = order.index() < CACHED_ORDERS;
        let is_large = order > self.zone.pageblock_order();
        let is_whole = order == self.zone.pageblock_order() && frames == order.frames();
        if is_cached || is_large || is_whole {
            let cached = is_cached.then(|| self.words.pop(self.zone, mobility, order));
            let block = cached.flatten().or_else(|| self.fetch(order, mobility));
            return block.map(|offset| (offset, order.frames()));
        }
        let first = self.fetch_first(WantedBlock { order, mobility }, frames)?;
        Some((first, frames))
    }

    /// Frees what was taken behind the frames that a request keeps. The first of the caches that are full makes room; the
    /// others stay as they are, because room for all in one hold of the seat would take long. The seat is busy.
    fn free_rest(&self, offset: usize, (from, end): (u64, u64), mobility: Mobility) {
        let mut has_made_room = false;
        for (at, part) in parts(from, end) {
            let rest = offset + at as usize;
            self.hand_out(rest, part, mobility);
            let is_full = part.index() < CACHED_ORDERS && self.is_full(part, mobility);
            let freed = if is_full && has_made_room {
                self.free_uncached(rest, part, mobility)
            } else {
                has_made_room |= is_full;
                self.free_entered(self.zone.frame(rest), part)
            };
            debug_assert!(freed.is_ok(), "it was allocated a moment ago");
        }
    }

    /// The allocation that `frame` belongs to.
    fn allocation_of(&self, frame: Frame) -> Option<(Frame, Order)> {
        let offset = self.zone.offset(frame)?;
        if let Some((order, _)) = self.zone.tag(offset).as_live() {
            return Some((frame, order));
        }
        let (start, order, _) = self.zone.enclosing(offset, Order::ZERO)?;
        Some((self.zone.frame(start), order))
    }

    /// The same, for an allocation that another CPU may be splitting: it has no tags then.
    #[cold]
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn allocation_in_turn(&self, frame: Frame) -> Option<(Frame, Order)> {
        let offset = self.zone.offset(frame)?;
        self.enter();
        let held = self.turn_to_split(offset);
        let found = self.allocation_of(frame);
        held.unlock();
        self.exit();
        found
    }

    /// The order of the largest block from `frame` on that ends at or before `end` and lies in one
    /// allocation.
    pub(super) fn largest_part(&self, frame: Frame, end: Frame) -> Order {
        let Some((start, order)) = self.allocation_of(frame) else {
            return Order::ZERO;
        };
        let end = end.0.min(start.0 + order.frames());
        let fits = (end - frame.0).ilog2();
        let aligned = frame.0.trailing_zeros();
        Order::new(fits.min(aligned) as u8).unwrap_or(Order::ZERO)
    }

    /// CPUs that split one allocation, or the rest of one, take turns, and each looks for the
    /// allocation only in its own turn: the tags of a half-split allocation show no allocation at
    /// all. Their lock is that of the pageblock in which the largest block around the frame would
    /// start. Its holder waits for no other CPU.
    pub(super) fn turn_to_split(&self, offset: usize) -> HeldBlock<'_, 'm, P> {
        let zone = self.zone;
        let place = zone.map.origin + offset as u64;
        let largest = place >> zone.map.max_order << zone.map.max_order;
        let first = largest.saturating_sub(zone.map.origin) >> zone.map.pageblock_order;
        let mut attempt = 0;
        loop {
            match zone.try_lock(self.words.counters(), first as usize) {
                Some(held) => return held,
                None => {
                    // This CPU has changed nothing yet, so it may wait.
                    let waiting = self.words.turn().calling_out();
                    zone.platform.relax(attempt);
                    waiting.end();
                }
            }
            attempt = attempt.saturating_add(1);
        }
    }

    /// Makes the allocation of `order` at `frame` into allocations of order `into`, side by side, each of which its
    /// owner frees by itself: `split_page` of Linux. With `into` equal to `order` it only looks.
    ///
    /// Time: two bytes for each allocation that comes of it, under a lock for each pageblock. It waits for CPUs that
    /// free parts of allocations there. If a wait unwinds out of it, the allocation is split all the same.
    ///
    /// # Errors
    /// If no block of that order is allocated there, as [`free`](Self::free), or `into` is above `order`
    /// ([`FreeError::WrongOrder`]). Nothing has changed then. If another CPU frees a part of it at the same moment,
    /// which is a free of what it does not own, the pageblocks before that part are split, and the error names the
    /// frame at which the next one starts.
    pub fn split(&mut self, frame: Frame, order: Order, into: Order) -> Result<(), FreeError> {
        let zone = self.zone;
        let tag = zone.offset(frame).map(|offset| zone.tag(offset));
        if into > order || tag.and_then(|tag| tag.as_live_of(order)).is_none() {
            return Err(self.refuse(frame, into.max(order)));
        }
        if into == order {
            return Ok(());
        }
        let chunk = order.min(zone.pageblock_order()).max(into);
        let (mut at, mut result) = (frame, Ok(()));
        surely(|| {
            while at.0 < frame.0 + order.frames() && result.is_ok() {
                self.enter();
                let split = self.cut_out(at, chunk);
                result = split.and_then(|()| self.split_chunk(at, chunk, into));
                self.exit();
                at = Frame(at.0 + chunk.frames());
            }
        });
        result
    }

    /// The same for an allocation of at most a pageblock.
    fn split_chunk(&self, frame: Frame, order: Order, into: Order) -> Result<(), FreeError> {
        let (zone, offset) = (self.zone, self.zone.offset_unchecked(frame));
        let held = self.turn_to_split(offset);
        let owner = zone.tag(offset).as_live_of(order);
        if let Some(mobility) = owner {
            let tag = Tag::live(into, mobility);
            // From the last on, so that the allocation shrinks when all others have tags.
            for nth in (0..1 << (order.get() - into.get())).rev() {
                zone.set_tag(offset + (nth << into.get()), tag);
            }
        }
        held.unlock();
        match owner {
            Some(_) => Ok(()),
            None => Err(self.refuse(frame, order)),
        }
    }

    /// Makes the block of `order` at `frame` an allocation of its own, if it is part of one.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    fn cut_out(&self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let zone = self.zone;
        let Some(offset) = zone.offset(frame).filter(|_| frame.is_aligned(order)) else {
            return Err(self.refuse(frame, order));
        };
        if zone.tag(offset).as_live().is_some_and(|(o, _)| o == order) {
            return Ok(());
        }
        let held = self.turn_to_split(offset);
        let found = zone.enclosing(offset, order);
        let result = match found {
            Some((start, mut whole, mobility)) => {
                // Goes from the large to the small: the half without the block becomes an
                // allocation of its own, before the half with it shrinks.
                let mut at = start;
                while whole > order {
                    whole = Order::new(whole.get() - 1).expect("above another order");
                    let half = whole.frames() as usize;
                    let upper = at + half;
                    zone.set_tag(upper, Tag::live(whole, mobility));
                    zone.set_tag(at, Tag::live(whole, mobility));
                    if offset >= upper {
                        at = upper;
                    }
                }
                Ok(())
            }
            None => Err(self.refuse(frame, order)),
        };
        held.unlock();
        result
    }

    /// Frees every allocation in `run`, which starts and ends with one: all that
    /// [`alloc_run_at`](super::super::Zone::alloc_run_at) gave.
    ///
    /// # Errors
    /// If the run is not inside, or not covered exactly by allocations. Nothing has changed then. If another CPU frees
    /// some of them at the same moment, which is a double free, this frees the others, and the error names the first
    /// that was not its own.
    ///
    /// If a wait unwinds out of it, the frames are free all the same.
    pub fn free_range(&mut self, run: Run) -> Result<(), RunError> {
        self.check_covered(run)?;
        let (mut at, mut result) = (run.start(), Ok(()));
        surely(|| self.free_each(&mut at, run.end(), &mut result));
        result.map_err(|error| RunError::NotFree(error.frame()))
    }

    /// Whether allocations cover a run exactly.
    fn check_covered(&self, run: Run) -> Result<(), RunError> {
        let mut at = run.start();
        if run.is_empty() {
            return Err(RunError::Outside);
        }
        while at < run.end() {
            let offset = self.zone.offset(at).ok_or(RunError::Outside)?;
            let Some((order, _)) = self.zone.tag(offset).as_live() else {
                return Err(RunError::NotFree(at));
            };
            at = Frame(at.0 + order.frames());
        }
        if at == run.end() {
            Ok(())
        } else {
            Err(RunError::NotFree(run.end()))
        }
    }

    /// Gives back the loose block, if there is one. If the wait for another CPU unwinds, it is loose as before.
    #[inline]
    pub(crate) fn give_loose(&mut self) {
        if self.words.loose().is_some() {
            self.enter();
            self.words.give_loose(self.zone);
            self.exit();
        }
    }

    /// Keeps the first `frames` frames of the block of `order` at `first`, as the fewest aligned allocations, and
    /// frees the rest. The seat has just allocated the block, and had nothing loose before. Time: O(orders).
    ///
    /// If the wait for another CPU unwinds out of this, the block is loose.
    pub(crate) fn keep_first(
        &mut self,
        first: Frame,
        (order, mobility): (Order, Mobility),
        frames: u64,
    ) -> Run {
        let kept = Run::new(first, frames).expect("it is inside a block");
        if frames == order.frames() {
            return kept;
        }
        let (zone, offset) = (self.zone, self.zone.offset_unchecked(first));
        let unwound = OrElse::new(self, |seat: &mut Self| {
            seat.words.set_loose(Some(offset));
        });
        unwound.seat.enter();
        let held = unwound.seat.turn_to_split(offset);
        let all = parts(0, frames).chain(parts(frames, order.frames()));
        for (at, part) in all {
            zone.set_tag(offset + at as usize, Tag::live(part, mobility));
        }
        held.unlock();
        unwound.end();
        for (at, part) in parts(frames, order.frames()) {
            let freed = self.free_entered(Frame(first.0 + at), part);
            debug_assert!(freed.is_ok(), "{freed:?}: it was just allocated");
        }
        self.exit();
        kept
    }
}

/// The fewest aligned blocks of the frames from `from` to `to` of a block: where each begins, and its order.
fn parts(from: u64, to: u64) -> impl Iterator<Item = (u64, Order)> {
    let mut at = from;
    iter::from_fn(move || {
        let largest = (to - at).checked_ilog2()?.min(at.trailing_zeros());
        let part = Order::new(largest as u8)?;
        at += part.frames();
        Some((at - part.frames(), part))
    })
}

impl<'m> SeatWords<'m> {
    /// Gives back the loose block. The seat is busy, or all CPUs stand still.
    pub(super) fn give_loose<P>(self, zone: &Zone<'m, P>) {
        let Some(offset) = self.loose() else { return };
        self.set_loose(None);
        if let Some((order, mobility)) = zone.tag(offset).as_live() {
            let given = zone.give_back(self.counters(), offset, order, mobility);
            debug_assert!(given.is_ok(), "no caller knows the block");
        }
    }
}
