//! Moves contents, and shows the pages with their new frames.

use super::fill::TableFill;
use super::plan::{BATCH, MovingBlock, exchange_targets};
use super::region::AnonRegion;
use crate::ram::FRAME_BYTES;
use crate::window::MappingAccess;
use framewright::platform::RangePlatform;
use framewright::reclaim::{Move, MoveState};
use framewright::{Frame, Run};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The most pages that are moved at once, unless a single block has more: see [`BATCH`].
const BATCH_PAGES: u64 = 512;

/// At most this many unpopulated pages are shown with their neighbours by one mapping.
const GAP_PAGES: usize = 64;

impl AnonRegion {
    pub(super) fn migrate_all(&self, mut moves: &mut [Move]) {
        while !moves.is_empty() {
            let (mut len, mut pages) = (0, 0);
            while len < moves.len().min(BATCH) && (len == 0 || pages < BATCH_PAGES) {
                pages += moves[len].order.frames();
                len += 1;
            }
            let (batch, rest) = moves.split_at_mut(len);
            self.migrate(batch);
            moves = rest;
        }
    }

    /// One batch: at most [`BATCH`] moves.
    fn migrate(&self, moves: &mut [Move]) {
        // A look without the gate, so that a batch without pages of this region need not wait for
        // it.
        let is_mine =
            |one: &Move| one.state == MoveState::Unknown && self.table.page_of(one.from).is_some();
        if !moves.iter().any(is_mine) {
            return;
        }
        let mut pieces = [MovingBlock::default(); BATCH];
        let mut fill = TableFill::<BATCH>::new();
        let shut = self.gate.shut();
        let mut len = 0;
        for (nth, one) in moves.iter_mut().enumerate() {
            if one.state != MoveState::Unknown {
                continue;
            }
            match self.piece(nth, one) {
                Ok(piece) => {
                    pieces[len] = piece;
                    len += 1;
                }
                Err(state) => one.state = state,
            }
        }
        let len = sort_and_part(&mut pieces[..len], moves);
        let pieces = &mut pieces[..len];
        self.plan(pieces);
        let changes = pieces
            .iter()
            .map(|p| u64::from(p.is_first) + u64::from(p.is_cut));
        if !self.window.has_room(changes.sum()) {
            self.counts.refused.fetch_add(1, Relaxed);
            pieces
                .iter()
                .for_each(|p| moves[p.nth].state = MoveState::Busy);
            return;
        }
        self.counts.batches.fetch_add(1, Relaxed);
        let mut rest = &mut *pieces;
        while !rest.is_empty() {
            let more = rest[1..].iter().position(|piece| piece.is_first);
            let (together, others) = rest.split_at_mut(more.map_or(rest.len(), |more| more + 1));
            let state = self.move_together(together);
            for piece in together {
                let one = &mut moves[piece.nth];
                one.to = self.frame(piece.to);
                one.state = state;
                if state == MoveState::Moved {
                    fill.add(self.addresses(piece.page..piece.page + piece.pages));
                }
            }
            rest = others;
        }
        // Threads that wait may go on: the rest only saves faults.
        drop(shut);
        fill.fill();
    }

    /// The piece for a move of the region's, or why it stays.
    fn piece(&self, nth: usize, one: &Move) -> Result<MovingBlock, MoveState> {
        let page = self.table.page_of(one.from).ok_or(MoveState::Unknown)?;
        let pages = one.order.frames();
        let ram = self.window.ram().frames();
        let inside = Run::new(one.to, pages)
            .is_some_and(|to| ram.contains(to.start()) && to.end() <= ram.end());
        let whole = page + pages as usize <= self.page_count()
            && (0..pages).all(|nth| {
                let frame = self.table.frame(page + nth as usize);
                frame == Some(Frame(one.from.0 + nth))
            });
        if !inside || !whole {
            return Err(MoveState::Busy);
        }
        let pages = pages as usize;
        if (page..page + pages).any(|page| self.table.is_pinned(page)) {
            return Err(MoveState::Pinned);
        }
        Ok(MovingBlock {
            page,
            pages,
            from: one.from.0 - ram.start().0,
            to: one.to.0 - ram.start().0,
            nth,
            is_first: false,
            is_cut: false,
        })
    }

    /// Decides which pieces can be shown together, and gives them their targets.
    fn plan(&self, pieces: &mut [MovingBlock]) {
        let mut end = None;
        for piece in pieces.iter_mut() {
            piece.is_first = end.is_none_or(|end: usize| {
                piece.page - end > GAP_PAGES
                    || (end..piece.page).any(|page| self.table.frame(page).is_some())
            });
            end = Some(piece.page + piece.pages);
        }
        exchange_targets(pieces);
    }

    /// Moves pieces with no populated page between them. Returns `Moved`, or `Busy` if it moved
    /// nothing.
    fn move_together(&self, pieces: &mut [MovingBlock]) -> MoveState {
        let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
        let pages = self.gap_before(first.page)..self.gap_after(last.page + last.pages);
        // From here on no thread can access the pages: the translations are gone when this returns.
        if self.window.unmap(self.range(&pages)).is_err() {
            return MoveState::Busy;
        }
        self.counts.closed.fetch_add(1, Relaxed);
        let ram = self.window.ram();
        for piece in &*pieces {
            let run = |at| Run::new(self.frame(at), piece.pages as u64).expect("it is in RAM");
            ram.copy(run(piece.from), run(piece.to))
                .expect("both are in RAM");
            for nth in 0..piece.pages {
                self.table.forget(self.frame(piece.from + nth as u64));
                let to = self.frame(piece.to + nth as u64);
                self.table.set(piece.page + nth, to);
            }
            self.counts
                .moved_pages
                .fetch_add(piece.pages as u64, Relaxed);
        }
        let mut start = pages.start;
        for (nth, piece) in pieces.iter().enumerate() {
            let next = pieces.get(nth + 1);
            if next.is_some_and(|next| !next.is_cut) {
                continue;
            }
            let end = next.map_or(pages.end, |next| next.page);
            self.show(start..end, piece);
            start = end;
        }
        MoveState::Moved
    }

    /// Shows `pages` with the shift of `piece`, which is among them, as far as there are frames.
    fn show(&self, pages: Range<usize>, piece: &MovingBlock) {
        let frames = self.window.ram().frames().frames();
        // Frames that exist in front of the piece's first, and behind it.
        let before = (piece.page - pages.start).min(piece.to as usize);
        let after = (pages.end - piece.page).min((frames - piece.to) as usize);
        let first = self.frame(piece.to - before as u64);
        let run = Run::new(first, (before + after) as u64).expect("it is in RAM");
        self.counts.shown.fetch_add(1, Relaxed);
        // If the kernel refuses, they stay hidden until a thread touches them and shows them.
        if self
            .window
            .remap(
                self.page(piece.page - before),
                run,
                MappingAccess::Write,
                false,
            )
            .is_err()
        {
            self.counts.refused.fetch_add(1, Relaxed);
        }
    }

    /// Where the unpopulated pages in front of `page` begin, if they are few.
    fn gap_before(&self, page: usize) -> usize {
        let mut gap = page.saturating_sub(GAP_PAGES / 2)..page;
        let populated = gap.rfind(|&page| self.table.frame(page).is_some());
        populated.map_or(page, |populated| populated + 1)
    }

    /// Where the unpopulated pages from `page` on end, if they are few.
    fn gap_after(&self, page: usize) -> usize {
        let mut gap = page..(page + GAP_PAGES / 2).min(self.page_count());
        let populated = gap.find(|&page| self.table.frame(page).is_some());
        populated.unwrap_or(page)
    }

    fn frame(&self, nth: u64) -> Frame {
        Frame(self.window.ram().frames().start().0 + nth)
    }

    fn addresses(&self, pages: Range<usize>) -> Range<*mut u8> {
        let start = self.window.address(self.page(pages.start));
        let start = start.expect("the pages are in the window");
        start..start.wrapping_byte_add(pages.len() * FRAME_BYTES)
    }
}

/// Sorts the pieces by page, and leaves out pieces that overlap with one before, which were asked
/// for twice. Returns how many remain.
fn sort_and_part(pieces: &mut [MovingBlock], moves: &mut [Move]) -> usize {
    pieces.sort_unstable_by_key(|piece| (piece.page, piece.nth));
    let (mut len, mut end) = (0, 0);
    for at in 0..pieces.len() {
        let piece = pieces[at];
        if len > 0 && piece.page < end {
            moves[piece.nth].state = MoveState::Busy;
            continue;
        }
        end = piece.page + piece.pages;
        pieces[len] = piece;
        len += 1;
    }
    len
}
