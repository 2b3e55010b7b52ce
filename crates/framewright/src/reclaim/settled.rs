//! Makes room where unmovable contents have settled: movable contents leave such pageblocks.
//!
//! A pageblock of which an eighth cannot move will hardly be one free block again. Unmovable
//! contents are to go there, but find no room, because movable contents fill every hole: a frame
//! that is freed anywhere is page cache a moment later. So a stock of free frames is kept there,
//! like the stock of entirely free pageblocks, and in the same way: contents are moved, to
//! pageblocks that have not settled.

use super::Clients;
use super::direct::BlockRequest;
use super::moving::Emptying;
use super::state::{Counter, Lack, MoveTally, Reclaim};
use crate::frame::{Seat, TargetRoom};
use crate::platform::FramePlatform;
use crate::policy::{Label, is_settled};

/// Above this order a request does not wait for room: contents that leave a pageblock mostly leave
/// single frames behind.
const ORDER_MAX: u8 = 1;
/// Less room than this is not worth the stop of all CPUs for a request that waits.
const ROOM_MIN: u64 = 64;

/// Free frames in settled pageblocks and room outside them, as of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Settled {
    /// Free frames in settled pageblocks.
    pub(super) free: u64,
    /// Free frames in other pageblocks that hold movable contents: room for the contents that
    /// leave.
    pub(super) room: u64,
    /// The settled pageblock with the most unmovable frames among those with some movable ones, and
    /// the number of its unmovable frames.
    pub(super) fullest: Option<(usize, u64)>,
    /// Another one was passed over, because it gained nothing when it was last tried.
    skipped: bool,
}

impl<P> Reclaim<'_, '_, P> {
    /// Whether a stock is kept. Where labels decide, they place unmovable contents.
    pub(super) const fn keeps_stock(&self) -> bool {
        self.config().stock_percent > 0 && !self.zone().is_labelled()
    }
}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// Looks at all descriptors. Time: O(pageblocks), some ns each.
    pub(super) fn settled(&self) -> Settled {
        let zone = self.zone();
        let mut seen = Settled::default();
        let mut most = 0;
        for id in 0..zone.pageblocks() {
            let Some(pins) = zone.pins_if_open(id) else {
                continue;
            };
            let facts = zone.pageblock(id);
            if facts.label == Label::HighOrder {
                continue;
            }
            let (free, movable) = (u64::from(facts.free), u64::from(facts.movable()));
            if !is_settled(&facts, zone.pageblock_order()) {
                seen.room += if movable > 0 { free } else { 0 };
                continue;
            }
            seen.free += free;
            if movable == 0 || pins > 0 || facts.nonmovable() <= most {
                continue;
            }
            if self.is_skipped_when_settled(id) {
                seen.skipped = true;
                continue;
            }
            most = facts.nonmovable();
            seen.fullest = Some((id, movable));
        }
        seen
    }

    /// Moves movable contents out of the settled pageblock `id`. Returns the number of frames
    /// moved.
    fn move_out(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        id: usize,
    ) -> MoveTally {
        let Ok(apart) = self.zone().set_apart(id..id + 1) else {
            // It is pinned, or another CPU has set it apart.
            self.skip_when_settled(id);
            return MoveTally::default();
        };
        let mut emptying = Emptying {
            seat: frames,
            movers: clients.migrate,
            room: TargetRoom::Unsettled,
            holes: true,
            tally: MoveTally::default(),
            counts: self.state,
        };
        emptying.move_out(&apart);
        let tally = emptying.tally;
        drop(apart);
        if tally.moved == 0 {
            self.skip_when_settled(id);
        }
        tally
    }

    /// One step of the background for the stock, which had `seen` free frames. Returns how many
    /// looks it took.
    pub(super) fn restock(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        id: usize,
        seen: u64,
    ) -> u64 {
        let before = self.looks();
        let moved = self.move_out(frames, clients, id).moved;
        let now = self.settled();
        if moved > 0 && now.free > seen {
            self.take_up(Lack::Stock);
        } else if moved > 0 || now.fullest.is_none() {
            // Other CPUs use up the gain, or no pageblock gains anything: either way it must end
            // (R3).
            if now.skipped {
                self.drop_skips_of_settled();
            }
            self.give_up(Lack::Stock);
        }
        self.looks().saturating_sub(before)
    }

    /// Makes room where unmovable contents have settled already, for an unmovable request that
    /// would go where all contents move. A stall, if anything was to be moved for it.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room_where_settled(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        request: &BlockRequest,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) {
        if !self.keeps_stock() || request.order.get() > ORDER_MAX || clients.migrate.is_empty() {
            return;
        }
        let settled = self.settled();
        let Some((id, movable)) = settled.fullest else {
            return;
        };
        if settled.room < movable.min(ROOM_MIN) {
            return;
        }
        let MoveTally { moved, stayed, .. } = self.move_out(frames, clients, id);
        if moved + stayed > 0 {
            self.count(Counter::CompactStall, 1);
            self.count(
                if moved > 0 {
                    Counter::CompactSuccess
                } else {
                    Counter::CompactFail
                },
                1,
            );
        }
    }
}
