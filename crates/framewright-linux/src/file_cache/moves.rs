//! Pages move to other frames.

use super::FileCache;
use super::slots::{NONE, SlotState};
use super::stats::count;
use framewright::reclaim::{Discard, Migrate, Move, MoveState};
use framewright::{Frame, Order, Run};
use std::sync::PoisonError;

impl Migrate for FileCache<'_> {
    /// Moves pages one after the other: they have no translations, so there is no work to share.
    /// 0.5 µs each; a thread that wants a page meanwhile waits for its copy.
    fn migrate(&self, moves: &mut [Move]) {
        for one in moves {
            if one.state == MoveState::Unknown && one.order == Order::ZERO {
                one.state = self.move_page(one.from, one.to);
            }
        }
    }

    /// Drops clean pages that are not in use, by way of the cleancache like evicted ones, however
    /// lately they were read; and empty frames of the stock, which have no contents to move.
    fn discard(&self, blocks: &mut [Discard]) {
        let single = |block: &&mut Discard| !block.is_dropped && block.order == Order::ZERO;
        let mut is_any_empty = false;
        for block in blocks.iter_mut().filter(single) {
            let Some(id) = self.table.id_of(block.frame) else {
                continue;
            };
            let slot = self.table.slot(id);
            match slot.state() {
                SlotState::Held => is_any_empty = true,
                SlotState::Ready if self.leave(slot.key(), id) => {
                    slot.reset(SlotState::Free);
                    block.is_dropped = true;
                }
                _ => {}
            }
        }
        if is_any_empty {
            self.drop_from_stock(blocks);
        }
    }
}

impl FileCache<'_> {
    /// Waits while the page in `frame` is read in, written back or leaves, for a caller that wants
    /// the frame empty and has found it busy. Does not wait for a copy from or to the page, which
    /// is over in a microsecond. Returns whether there was anything to wait for.
    pub fn await_frame(&self, frame: Frame) -> bool {
        let Some(id) = self.table.id_of(frame) else {
            return false;
        };
        let slot = self.table.slot(id);
        let mut locked = self.table.lock(slot.key());
        let mut has_waited = false;
        loop {
            let is_on_its_way = matches!(slot.state(), SlotState::Filling | SlotState::Leaving);
            if locked.find() != Some(id) || !is_on_its_way && !slot.is_writing() {
                return has_waited;
            }
            has_waited = true;
            locked = locked.wait();
        }
    }

    /// Takes those of the frames out of the stock that are in it.
    fn drop_from_stock(&self, blocks: &mut [Discard]) {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut before) = (*stock, NONE);
        while at != NONE {
            let slot = self.table.slot(at);
            let (frame, next) = (self.table.frame(at), slot.next());
            match blocks.iter_mut().find(|block| block.frame == frame) {
                Some(block) => {
                    if before == NONE {
                        *stock = next;
                    } else {
                        self.table.slot(before).set_next(next);
                    }
                    slot.reset(SlotState::Free);
                    block.is_dropped = true;
                }
                None => before = at,
            }
            at = next;
        }
    }

    fn move_page(&self, from: Frame, to: Frame) -> MoveState {
        let Some(id) = self.table.id_of(from) else {
            return MoveState::Unknown;
        };
        let slot = self.table.slot(id);
        match slot.state() {
            SlotState::Free => return MoveState::Unknown,
            SlotState::Ready => {}
            SlotState::Orphan => return MoveState::Pinned,
            SlotState::Held | SlotState::Filling | SlotState::Leaving | SlotState::Moving => {
                return MoveState::Busy;
            }
        }
        let Some(to_id) = self.table.id_of(to) else {
            return MoveState::Busy;
        };
        let key = slot.key();
        let locked = self.table.lock(key);
        if !locked.is(id, SlotState::Ready) {
            return MoveState::Busy;
        }
        if slot.pins() > 0 {
            return MoveState::Pinned;
        }
        // A thread that writes it back holds it, too.
        if !slot.is_idle() {
            return MoveState::Busy;
        }
        slot.set_state(SlotState::Moving);
        drop(locked);
        let run = |frame| Run::new(frame, 1).expect("frames of the RAM have numbers");
        let copied = self.ram.copy(run(from), run(to));
        debug_assert!(copied.is_ok(), "both have slots, so both are in RAM");
        let target = self.table.slot(to_id);
        target.reset(SlotState::Moving);
        self.queue.replace(&self.table.slots, id, to_id);
        let locked = self.table.lock(key);
        locked.remove(id);
        locked.insert(to_id);
        target.take_marks(slot);
        target.set_state(SlotState::Ready);
        slot.reset(SlotState::Free);
        locked.changed();
        count(&self.counters.moved, 1);
        MoveState::Moved
    }
}
