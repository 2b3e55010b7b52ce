//! Empties a range of frames: its contents move elsewhere, in batches.

use super::batch::{BATCH, MoveBatch};
use crate::frame::{Apart, ApartContent, Beyond, NotApart, Seat, TargetRoom, Zone};
use crate::platform::{FramePlatform, OrElse, surely};
use crate::reclaim::state::{MoveTally, ReclaimWords};
use crate::reclaim::{Migrate, Move, MoveState};
use crate::units::{Frame, Mobility, Order, RunError};
use core::ops::Range;

/// How often to go through a range: once, and again for blocks that were busy, or about to be free.
const PASSES: usize = 3;

/// Why the contents of a frame stay where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// Its pageblock has a pin, or its client says that it is pinned.
    Pinned,
    /// Its client could not move it just now.
    Busy,
    /// Its contents cannot be moved: by their mobility, or because no client knows them.
    Unmovable,
    /// No free block of its order, among those that may be broken, is left to move it to.
    NoRoom,
}

impl Obstacle {
    /// The error for a block at `frame` that stays.
    pub(crate) const fn at(self, frame: Frame) -> RunError {
        match self {
            Self::Pinned => RunError::Pinned(frame),
            Self::Busy => RunError::Busy(frame),
            Self::Unmovable => RunError::Unmovable(frame),
            Self::NoRoom => RunError::NoMemory(frame),
        }
    }
}

/// The block, by the offset of its first frame, that is in the way of emptying a range, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InTheWay {
    pub(super) offset: usize,
    pub(super) why: Obstacle,
}

/// One call's emptying of ranges.
pub(in crate::reclaim) struct Emptying<'e, 'z, 'm, P> {
    pub(in crate::reclaim) seat: &'e mut Seat<'z, 'm, P>,
    pub(in crate::reclaim) movers: &'e [&'e dyn Migrate],
    /// Where contents may go.
    pub(in crate::reclaim) room: TargetRoom,
    /// Whether frames that do not exist count as empty.
    pub(in crate::reclaim) holes: bool,
    pub(in crate::reclaim) tally: MoveTally,
    /// Where it counts in the end, also if a client unwinds (R9).
    pub(in crate::reclaim) counts: ReclaimWords<'m>,
}

impl<P> Drop for Emptying<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.counts.count_all(&self.tally);
    }
}

impl<'m, P: FramePlatform> Emptying<'_, '_, 'm, P> {
    /// Empties `area`, which lies in the pageblocks `apart`. Afterwards all of its frames are free,
    /// or do not exist where that is allowed. Clients are called under no lock and in no busy seat
    /// (R5).
    ///
    /// Moves nothing if it sees something that cannot move at all.
    ///
    /// Not inlined, like what it and its callers only pass through: what those need for themselves would lie on the
    /// stack together with all that a client's call needs.
    #[inline(never)]
    pub(super) fn empty(
        &mut self,
        apart: &Apart<'_, 'm, P>,
        area: Range<usize>,
    ) -> Result<(), InTheWay> {
        self.tally.migrate_scanned += area.len() as u64;
        let mut at = area.start;
        while self.next_block(&area, &mut at)?.is_some() {}
        let mut left = Ok(());
        let mut batch = MoveBatch::new(self.seat.zone().frame_at(0));
        for _ in 0..PASSES {
            let mut busy = None;
            let mut at = area.start;
            loop {
                self.gather(&area, &mut at, BATCH, &mut batch)?;
                if batch.len == 0 {
                    break;
                }
                let beyond = self.keep_unpinned(apart, &batch)?;
                self.find_targets(&mut batch)?;
                let stays = self.offer(&mut batch);
                drop(beyond);
                if let Some(stays) = stays.filter(|stays| stays.why != Obstacle::Busy) {
                    return Err(stays);
                }
                busy = busy.or(stays);
            }
            let Some(offset) = self.first_left(&area) else {
                return Ok(());
            };
            let why = Obstacle::Busy;
            left = Err(busy.unwrap_or(InTheWay { offset, why }));
        }
        left
    }

    /// Moves the movable contents out of the pageblocks `apart`, as far as there is room elsewhere.
    /// Passes by a block that does not move, or is as large as a pageblock.
    pub(in crate::reclaim) fn move_out(&mut self, apart: &Apart<'_, 'm, P>) {
        let zone = self.seat.zone();
        let area = zone.offsets_of(&apart.ids());
        self.tally.migrate_scanned += area.len() as u64;
        let mut at = area.start;
        let mut batch = MoveBatch::new(self.seat.zone().frame_at(0));
        loop {
            batch.clear();
            while batch.len < BATCH
                && let Some(offset) = zone.next_taken(at..area.end)
            {
                at = match zone.content(offset) {
                    ApartContent::Block(order, mobility) => {
                        if mobility.is_movable() && order < zone.pageblock_order() {
                            batch.add(offset, order);
                        }
                        offset + order.frames() as usize
                    }
                    ApartContent::Cached(order) => offset + order.frames() as usize,
                    ApartContent::Absent | ApartContent::Unknown => offset + 1,
                };
            }
            if batch.len == 0 || self.find_targets(&mut batch).is_err() {
                return;
            }
            self.offer(&mut batch);
        }
    }

    /// No CPU can pin a pageblock that is apart. From here on, neither can the pageblocks outside
    /// that the blocks to be moved reach into.
    #[inline(never)]
    pub(super) fn keep_unpinned<'z>(
        &self,
        apart: &Apart<'z, 'm, P>,
        batch: &MoveBatch,
    ) -> Result<Option<Beyond<'z, 'm, P>>, InTheWay> {
        let zone = self.seat.zone();
        let offset_of = |of: Move| zone.offset_of(of.from);
        let (Some(first), Some(last)) = (batch.moves().next(), batch.moves().next_back()) else {
            return Ok(None);
        };
        let (Some(start), Some(end)) = (offset_of(first), offset_of(last)) else {
            return Ok(None);
        };
        let offsets = start..end + last.order.frames() as usize;
        apart.keep_unpinned_beyond(&offsets).map_err(|refused| {
            let (id, why) = match refused {
                NotApart::Pinned(id) => (id, Obstacle::Pinned),
                NotApart::Isolated(id) | NotApart::Reserved(id) => (id, Obstacle::Busy),
            };
            let offset = zone.offsets_of(&(id..id)).start;
            InTheWay { offset, why }
        })
    }

    /// The next movable block in `area` at or after `at`; sets `at` behind it.
    pub(super) fn next_block(
        &self,
        area: &Range<usize>,
        at: &mut usize,
    ) -> Result<Option<(usize, Order)>, InTheWay> {
        let zone = self.seat.zone();
        let stays = |offset, why| Err(InTheWay { offset, why });
        while let Some(offset) = zone.next_taken(*at..area.end) {
            let (start, order, mobility) = match zone.content(offset) {
                ApartContent::Block(order, mobility) => (offset, order, mobility),
                ApartContent::Cached(order) => {
                    *at = offset + order.frames() as usize;
                    continue;
                }
                ApartContent::Absent if !self.holes => return stays(offset, Obstacle::Unmovable),
                ApartContent::Unknown if offset == area.start => match zone.block_around(offset) {
                    Some(block) => block,
                    None => {
                        *at = offset + 1;
                        continue;
                    }
                },
                ApartContent::Absent | ApartContent::Unknown => {
                    *at = offset + 1;
                    continue;
                }
            };
            *at = start + order.frames() as usize;
            if !mobility.is_movable() {
                return stays(start, Obstacle::Unmovable);
            }
            if order > zone.pageblock_order() && zone.is_pinned(start..*at) {
                return stays(start, Obstacle::Pinned);
            }
            if matches!(self.room, TargetRoom::Below(made) if order >= made) {
                return stays(start, Obstacle::NoRoom);
            }
            return Ok(Some((start, order)));
        }
        Ok(None)
    }

    /// The first frame of `area` that is not empty.
    pub(super) fn first_left(&self, area: &Range<usize>) -> Option<usize> {
        let zone = self.seat.zone();
        let mut at = area.start;
        while let Some(offset) = zone.next_taken(at..area.end) {
            if !self.holes || zone.content(offset) != ApartContent::Absent {
                return Some(offset);
            }
            at = offset + 1;
        }
        None
    }

    /// Fills the batch anew with the next movable blocks of `area` from `at` on, up to `most`, which is up to [`BATCH`].
    #[inline(never)]
    pub(super) fn gather(
        &self,
        area: &Range<usize>,
        at: &mut usize,
        most: usize,
        batch: &mut MoveBatch,
    ) -> Result<(), InTheWay> {
        batch.clear();
        while batch.len < most.min(BATCH)
            && let Some((start, order)) = self.next_block(area, at)?
        {
            batch.add(start, order);
        }
        Ok(())
    }

    /// Takes a target for each move, of which none has one yet: for all, or for none. A larger
    /// block is one allocation, so it is not moved in pieces.
    pub(super) fn find_targets(&mut self, batch: &mut MoveBatch) -> Result<(), InTheWay> {
        let mut finding = (self, batch);
        // Whatever ends this early, a wait that unwinds too: those that were found go back.
        let early = OrElse::new(&mut finding, |(emptying, batch): &mut (&mut Self, _)| {
            emptying.give_targets_back(batch);
        });
        let (emptying, batch) = &mut *early.seat;
        emptying.find_each_target(batch)?;
        early.end();
        Ok(())
    }

    fn give_targets_back(&mut self, batch: &mut MoveBatch) {
        surely(|| {
            let taken = batch.moves().filter(|of| of.to != of.from);
            self.seat.free_at_once(taken.map(|of| (of.to, of.order)));
        });
        // These frames are free from here on: a second try must not free them again.
        batch.keep(|_| true);
    }

    /// The same, but leaves the targets that it has found where there are not enough.
    fn find_each_target(&mut self, batch: &mut MoveBatch) -> Result<(), InTheWay> {
        let mut targets = [0; BATCH];
        let mut orders = batch
            .moves()
            .fold(0u32, |orders, of| orders | 1 << of.order.get());
        while orders != 0 {
            let order =
                Order::new(orders.trailing_zeros() as u8).expect("a move's order is an order");
            orders &= orders - 1;
            let wanted = batch.moves().filter(|of| of.order == order).count();
            let targets = &mut targets[..wanted];
            let found = self.seat.take_targets(order, self.room, targets);
            self.tally.free_scanned += found.looks + order.frames() * found.taken as u64;
            self.tally.isolated += order.frames() * found.taken as u64;
            let mut targets = targets[..found.taken].iter();
            let mut in_the_way = None;
            for nth in 0..batch.len {
                let of = batch.get(nth);
                if of.order != order {
                    continue;
                }
                match targets.next() {
                    Some(&target) => batch.set_target(nth, target),
                    None => in_the_way = in_the_way.or(Some(of.from)),
                }
            }
            if let Some(from) = in_the_way {
                let offset = self.seat.zone().offset_of(from).unwrap_or(0);
                let why = Obstacle::NoRoom;
                return Err(InTheWay { offset, why });
            }
        }
        Ok(())
    }

    /// Offers moves that have targets to the clients, and frees what is in use no longer: of each move either
    /// the source or the target, also if a client unwinds. Returns a block that stays and is still there, as
    /// [`free_unused`](Self::free_unused).
    pub(super) fn offer(&mut self, batch: &mut MoveBatch) -> Option<InTheWay> {
        let movers = self.movers;
        let mut offering = (self, batch);
        let unwound = OrElse::new(&mut offering, |(emptying, batch): &mut (&mut Self, _)| {
            _ = emptying.free_unused(batch);
        });
        unwound.seat.1.offer(movers);
        unwound.end();
        let (emptying, batch) = offering;
        emptying.free_unused(batch)
    }

    /// Frees the sources of moves that succeeded, and the targets of those that did not (R2).
    /// Returns a block that stays and is still there, if there is one: rather one that stays for
    /// good.
    #[inline(never)]
    fn free_unused(&mut self, batch: &MoveBatch) -> Option<InTheWay> {
        let zone = self.seat.zone();
        let mut stays: Option<InTheWay> = None;
        for of in batch.moves() {
            let frames = of.order.frames();
            self.tally.isolated += frames;
            let why = match of.state {
                MoveState::Moved => {
                    self.tally.moved += frames;
                    continue;
                }
                MoveState::Busy => Obstacle::Busy,
                MoveState::Pinned => Obstacle::Pinned,
                MoveState::Unknown => Obstacle::Unmovable,
            };
            self.tally.stayed += frames;
            let offset = zone.offset_of(of.from).unwrap_or(0);
            // Its user may have freed it meanwhile.
            let is_there = zone.is_movable_block(offset, of.order);
            if is_there && stays.is_none_or(|stays| stays.why == Obstacle::Busy) {
                stays = Some(InTheWay { offset, why });
            }
        }
        let has_moved = |of: &Move| of.state == MoveState::Moved;
        surely(|| {
            let sources = batch.moves().filter(has_moved);
            let targets = batch.moves().filter(|of| !has_moved(of));
            let sources = sources.map(|of| (of.from, of.order));
            let targets = targets.map(|of| (of.to, of.order));
            self.seat.free_at_once(sources.chain(targets));
        });
        stays
    }
}

/// The aligned block of `order`, smaller than a pageblock, that is cheapest to empty in pageblock
/// `id`: the one with the most free frames, and the lowest of equals. With `another`, a block that
/// is free already does not count. Counts the frames it went through in blocks that cannot be
/// emptied. Only as of this moment.
///
/// The bitmap shows what is free, so only few blocks are gone through frame by frame. Time:
/// O(frames of the pageblock), partly in words.
#[inline(never)]
pub(super) fn cheapest_block<P>(
    zone: &Zone<'_, P>,
    id: usize,
    order: Order,
    another: bool,
    looks: &mut u64,
) -> Option<Range<usize>> {
    let all = zone.offsets_of(&(id..id + 1));
    let len = order.frames() as usize;
    let blocks = || all.clone().step_by(len).map(|at| at..at + len);
    let free = |block: &Range<usize>| zone.free_frames_in(block);
    let is_meant = |free: &u32| !another || u64::from(*free) < order.frames();
    let mut wanted = blocks().map(|block| free(&block)).filter(is_meant).max();
    while let Some(most) = wanted {
        for block in blocks().filter(|block| free(block) == most) {
            match look_at(zone, &block, order) {
                Ok(()) => return Some(block),
                Err(frames) => *looks += frames,
            }
        }
        wanted = blocks()
            .map(|block| free(&block))
            .filter(|&free| free < most)
            .max();
    }
    None
}

/// Whether `block` of `order` can be emptied. If not, how many frames were gone through to see
/// that.
fn look_at<P>(zone: &Zone<'_, P>, block: &Range<usize>, order: Order) -> Result<(), u64> {
    let mut at = block.start;
    while let Some(offset) = zone.next_taken(at..block.end) {
        at = match zone.content(offset) {
            ApartContent::Block(size, Mobility::Movable) | ApartContent::Cached(size)
                if size < order =>
            {
                offset + size.frames() as usize
            }
            // The last block: one that is larger and cached ends outside.
            ApartContent::Cached(_) => return Ok(()),
            ApartContent::Block(..) | ApartContent::Absent | ApartContent::Unknown => {
                return Err((offset - block.start) as u64 + 1);
            }
        };
    }
    Ok(())
}
