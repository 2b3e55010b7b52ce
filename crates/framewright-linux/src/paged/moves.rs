//! Changes the frames behind pages: for compaction, and for contiguous memory made by migration.

use super::Paged;
use super::region::{PagedRegion, count};
use super::table::{AHEAD, BUSY, DIRTY, LEAVING, LISTED, PagedState, SHOWN, WRITABLE};
use crate::window::MappingAccess;
use framewright::reclaim::{Discard, Migrate, Move, MoveState};
use framewright::{Frame, Order, Run};
use std::sync::atomic::Ordering::Relaxed;

/// The most moves at once: this bounds how long the gate is shut.
const BATCH: usize = 64;

impl Migrate for Paged<'_> {
    /// In batches of up to 64. Neighbours lose their access by one call, and get it back by one if
    /// their new frames follow one another; else 2 to 4 µs a page beyond the copy. A hidden page
    /// costs the copy alone.
    fn migrate(&self, moves: &mut [Move]) {
        for batch in moves.chunks_mut(BATCH) {
            self.region.migrate(batch);
        }
    }

    /// Drops pages that were not used lately and are in the swap, or zero: only pages whose access
    /// was taken away already, and of those that were read ahead only what was in their list before.
    fn discard(&self, blocks: &mut [Discard]) {
        for batch in blocks.chunks_mut(BATCH) {
            let dropped = self.region.discard(batch);
            self.resident.fetch_sub(dropped, Relaxed);
            count(&self.region.counts.evicted, dropped);
        }
    }
}

impl Paged<'_> {
    /// Waits while the page in `frame` is on its way to the swap, for a caller that wants the frame
    /// empty and has found it busy. If a frame has no page yet and pages are on their way in, waits
    /// until something has changed. Returns whether there was anything to wait for: never for a
    /// frame outside the region's memory.
    pub fn await_frame(&self, frame: Frame) -> bool {
        let region = &self.region;
        let mut has_waited = false;
        loop {
            // Before the look, so that a change after it is not missed.
            let seen = region.changed.now();
            let shut = region.gate.shut();
            let is_leaving = region.table.page_of(frame).is_some_and(|nth| {
                let state = region.table.state(nth);
                state.is(BUSY) && region.table.frame(state) == Some(frame)
            });
            let is_arriving = !has_waited
                && region.table.has(frame)
                && region.table.page_of(frame).is_none()
                && self.arriving.load(Relaxed) > 0;
            if !is_leaving && !is_arriving {
                return has_waited;
            }
            has_waited = true;
            drop(shut);
            region.changed.wait(seen);
        }
    }
}

impl PagedRegion {
    fn migrate(&self, moves: &mut [Move]) {
        // A look without the gate, so that a batch without pages of this region need not wait for
        // it.
        let is_mine =
            |one: &Move| one.state == MoveState::Unknown && self.table.page_of(one.from).is_some();
        if !moves.iter().any(is_mine) {
            return;
        }
        let _shut = self.gate.shut();
        // By page, so that neighbours are side by side.
        let mut mine = [(0, 0); BATCH];
        let mut len = 0;
        for (at, one) in moves.iter_mut().enumerate() {
            if one.state != MoveState::Unknown {
                continue;
            }
            let Some(nth) = self.table.page_of(one.from) else {
                continue;
            };
            one.state = self.obstacle(nth, one);
            if one.state == MoveState::Unknown {
                mine[len] = (nth, at);
                len += 1;
            }
        }
        let mine = &mut mine[..len];
        mine.sort_unstable();
        let mut rest = &*mine;
        while let Some((first, _)) = rest.first() {
            let together = rest
                .iter()
                .zip(*first..)
                .take_while(|((nth, _), wanted)| nth == wanted)
                .count();
            let (run, more) = rest.split_at(together);
            self.move_run(run, moves);
            rest = more;
        }
    }

    /// Drops those that may be dropped; returns how many.
    fn discard(&self, blocks: &mut [Discard]) -> u64 {
        if blocks
            .iter()
            .all(|one| self.table.page_of(one.frame).is_none())
        {
            return 0;
        }
        let mut dropped = 0;
        let _shut = self.gate.shut();
        for one in blocks {
            let Some(nth) = self.table.page_of(one.frame) else {
                continue;
            };
            let state = self.table.state(nth);
            // A thread may wait for what was just read ahead.
            let is_new = state.is(AHEAD) && !state.is(LISTED);
            let may_go = state.is_idle() && !state.is(SHOWN | DIRTY) && !is_new;
            if may_go && one.order == Order::ZERO && self.table.frame(state) == Some(one.frame) {
                self.table.without_frame(state);
                self.table.set(nth, PagedState::default());
                one.is_dropped = true;
                dropped += 1;
            }
        }
        dropped
    }

    /// Why the page is not moved; `Unknown` if it can be.
    fn obstacle(&self, nth: usize, one: &Move) -> MoveState {
        let state = self.table.state(nth);
        let ram = self.ram().frames();
        if state.pins() > 0 {
            MoveState::Pinned
        } else if state.is(BUSY | LEAVING)
            || one.order != Order::ZERO
            || self.table.frame(state) != Some(one.from)
            || !ram.contains(one.to)
        {
            MoveState::Busy
        } else {
            MoveState::Unknown
        }
    }

    /// Moves pages that follow one another.
    fn move_run(&self, run: &[(usize, usize)], moves: &mut [Move]) {
        let pages = run[0].0..run[0].0 + run.len();
        let shown = |nth| self.table.state(nth).is(SHOWN);
        // From here on no thread can access them: the translations are gone when this returns.
        if pages.clone().any(shown) && self.hide(&pages).is_err() {
            run.iter()
                .for_each(|(_, at)| moves[*at].state = MoveState::Busy);
            return;
        }
        for &(nth, at) in run {
            let one = &mut moves[at];
            // A move that was asked for twice: the second one finds another frame.
            if self.table.frame(self.table.state(nth)) != Some(one.from) {
                one.state = MoveState::Busy;
                continue;
            }
            let frame = |frame| Run::new(frame, 1).expect("the frame is in RAM");
            let copied = self.ram().copy(frame(one.from), frame(one.to));
            debug_assert!(copied.is_ok(), "both are in RAM");
            let state = self.table.without_frame(self.table.state(nth));
            self.table
                .set(nth, self.table.with_frame(nth, state, one.to));
            one.state = MoveState::Moved;
            count(&self.counts.moved, 1);
        }
        let mut start = pages.start;
        while start < pages.end {
            let state = self.table.state(start);
            let is_same = |nth: usize| {
                let other = self.table.state(nth);
                let frame = |state| self.table.frame(state).map(|frame| frame.0);
                other.is(SHOWN) == state.is(SHOWN)
                    && other.is(DIRTY) == state.is(DIRTY)
                    && frame(other) == frame(state).map(|frame| frame + (nth - start) as u64)
            };
            let more = (start + 1..pages.end)
                .take_while(|nth| is_same(*nth))
                .count();
            let end = start + 1 + more;
            self.show_moved(start..end);
            start = end;
        }
    }

    /// Shows pages that were shown before, and whose frames follow one another.
    fn show_moved(&self, pages: std::ops::Range<usize>) {
        let state = self.table.state(pages.start);
        if !state.is(SHOWN) {
            return;
        }
        let frame = self.table.frame(state).expect("the page has a frame");
        let (access, marks) = if state.is(DIRTY) {
            (MappingAccess::Write, SHOWN | WRITABLE)
        } else {
            (MappingAccess::Read, SHOWN)
        };
        // If the kernel refuses, they stay hidden until a thread touches them.
        let marks = self.show(&pages, frame, access).map_or(0, |()| marks);
        for nth in pages {
            let state = self.table.state(nth).without(SHOWN | WRITABLE);
            self.table.set(nth, state.with(marks));
        }
    }
}
