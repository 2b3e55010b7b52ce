//! Makes a run of any length free where it lies, and takes it: clean contents are dropped, the rest
//! moves.
//!
//! ```text
//!             one batch
//!   found ──▶ dropped, if clean ──▶ offered with targets ──▶ moved ──▶ the next batch
//!     ▲                                   │ passes
//!     └────────────── tries ──────────────┴──▶ stays ──▶ the place is given up
//! ```

use super::batch::{BATCH, MoveBatch, answer_for};
use super::emptying::{Emptying, InTheWay};
use crate::frame::{Apart, NotApart, Seat, TargetRoom};
use crate::platform::{FramePlatform, OrElse, Patience, surely};
use crate::policy::ContigConfig;
use crate::reclaim::state::MoveTally;
use crate::reclaim::{Clients, Discard, Move, MoveState, Obstacle, Reclaim};
use crate::stats::ContigStats;
use crate::units::{Frame, Mobility, Order, Run, RunError};
use core::ops::Range;

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// Empties the frames of `run` and takes them, as the fewest unmovable allocations. The caller
    /// frees them, together or in parts ([`Seat::free_frames`]). Adds what that took to `effort`: tries, and the pages
    /// that it migrated, discarded, could not move and reclaimed.
    ///
    /// The pageblocks of the run are set apart meanwhile, and the blocks that CPUs had cached of
    /// them go back. In their parts outside the run contents stay, and free frames can be allocated
    /// again when this returns. Contents go wherever movable requests are served. Where too little
    /// is free above the min watermark, clients are asked to give frames back first.
    ///
    /// Stops all CPUs twice, and twice more for a block that reaches into pageblocks beside the
    /// run's. Time: O(frames of the pageblocks), and for each frame in use the time of its client.
    ///
    /// # Errors
    /// What is in the way, or what is wrong with the run: [`RunError::Isolation`] if another CPU
    /// is emptying one of its pageblocks. Nothing is taken and nothing isolated then; contents that
    /// have moved stay moved, and those dropped are gone.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn take_run(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        run: Run,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        config: &ContigConfig,
        effort: &mut ContigStats,
    ) -> Result<(), RunError> {
        let (area, ids) = self.pageblocks_around(run)?;
        let apart = self.zone().set_apart(ids);
        self.take_from(apart, &area, seat, clients, config, effort)
    }

    /// The same, but gives up if it cannot set the run's pageblocks apart before `patience` ends: then
    /// `None`, and nothing has changed. After that it goes on as without a bound.
    pub(crate) fn take_run_within(
        &self,
        seat: &mut Seat<'z, 'm, P>,
        run: Run,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        config: &ContigConfig,
        effort: &mut ContigStats,
        patience: &mut Patience,
    ) -> Option<Result<(), RunError>> {
        let (area, ids) = match self.pageblocks_around(run) {
            Ok(around) => around,
            Err(error) => return Some(Err(error)),
        };
        let apart = self.zone().set_apart_within(ids, patience)?;
        Some(self.take_from(apart, &area, seat, clients, config, effort))
    }

    /// The offsets of a run, and the pageblocks that it reaches into.
    fn pageblocks_around(&self, run: Run) -> Result<(Range<usize>, Range<usize>), RunError> {
        let zone = self.zone();
        let area = zone.offsets(run)?;
        let ids = zone.pageblock_of(area.start)..zone.pageblock_of(area.end - 1) + 1;
        Ok((area, ids))
    }

    /// Empties `area` of the pageblocks that are apart, and takes it.
    fn take_from(
        &self,
        apart: Result<Apart<'_, 'm, P>, NotApart>,
        area: &Range<usize>,
        seat: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        config: &ContigConfig,
        effort: &mut ContigStats,
    ) -> Result<(), RunError> {
        let zone = self.zone();
        assert!(
            core::ptr::addr_eq(seat.zone(), zone),
            "a seat in the zone of the run"
        );
        let frame_in = |id: usize| zone.frame_at(zone.offsets_of(&(id..id)).start.max(area.start));
        let in_the_way = |frame, why: Obstacle| why.at(frame);
        let apart = apart.map_err(|refused| match refused {
            NotApart::Isolated(id) => RunError::Isolation(frame_in(id)),
            NotApart::Pinned(id) => in_the_way(frame_in(id), Obstacle::Pinned),
            NotApart::Reserved(id) => in_the_way(frame_in(id), Obstacle::Unmovable),
        })?;
        let mut taking = Taking {
            reclaim: self,
            emptying: Emptying {
                seat,
                movers: clients.migrate,
                room: if config.lent_last {
                    TargetRoom::LentLast
                } else {
                    TargetRoom::Anywhere
                },
                // A frame that does not exist cannot be taken.
                holes: false,
                tally: MoveTally::default(),
                counts: self.state,
            },
            clients,
            config,
            effort,
        };
        let result = taking.empty(&apart, area);
        let tally = taking.emptying.tally;
        drop(taking);
        effort.pages_migrated += tally.moved;
        effort.pages_stayed += tally.stayed;
        result.map_err(|stays| in_the_way(zone.frame_at(stays.offset), stays.why))?;
        if apart.open_with_run(area, Mobility::Unmovable) {
            return Ok(());
        }
        // The frame was about to be free when last looked at: its user allocated it before it was
        // set apart, and may still be using it.
        Err(in_the_way(zone.frame_at(area.start), Obstacle::Busy))
    }
}

/// One call's taking of a run.
struct Taking<'e, 'z, 'm, P> {
    reclaim: &'e Reclaim<'z, 'm, P>,
    emptying: Emptying<'e, 'z, 'm, P>,
    clients: &'e Clients<'e, Seat<'z, 'm, P>>,
    config: &'e ContigConfig,
    effort: &'e mut ContigStats,
}

/// A client is asked what it has dropped: the taking, the batch, the questions.
type Asking<'a, T> = (&'a mut T, &'a mut MoveBatch, &'a mut [Discard]);

impl<'m, P: FramePlatform> Taking<'_, '_, 'm, P> {
    /// Empties `area`, batch by batch.
    fn empty(&mut self, apart: &Apart<'_, 'm, P>, area: &Range<usize>) -> Result<(), InTheWay> {
        self.emptying.tally.migrate_scanned += area.len() as u64;
        if self.config.looks_first {
            let mut at = area.start;
            while self.emptying.next_block(area, &mut at)?.is_some() {}
        }
        let mut batch = MoveBatch::new(self.reclaim.zone().frame_at(0));
        // Once more for each frame that was about to be free.
        for _ in 0..self.config.tries {
            let mut at = area.start;
            loop {
                let most = usize::from(self.config.batch);
                self.emptying.gather(area, &mut at, most, &mut batch)?;
                if batch.len == 0 {
                    break;
                }
                self.clear(apart, &mut batch)?;
            }
            if self.emptying.first_left(area).is_none() {
                return Ok(());
            }
        }
        match self.emptying.first_left(area) {
            None => Ok(()),
            Some(offset) => Err(InTheWay {
                offset,
                why: Obstacle::Busy,
            }),
        }
    }

    /// Drops or moves one batch. After the last try, returns the block that stays.
    fn clear(&mut self, apart: &Apart<'_, 'm, P>, batch: &mut MoveBatch) -> Result<(), InTheWay> {
        let mut stays = None;
        for _ in 0..self.config.tries {
            if batch.len == 0 {
                return Ok(());
            }
            self.effort.tries += 1;
            let beyond = self.emptying.keep_unpinned(apart, batch)?;
            if self.config.discards {
                self.discard(batch);
            }
            for _ in 0..self.config.passes {
                if batch.len == 0 {
                    return Ok(());
                }
                self.find_targets(apart, batch)?;
                stays = self.emptying.offer(batch);
                self.keep_those_that_stay(batch);
                // A frame that was just allocated may be unknown to its client for a moment.
                let is_final = !self.config.retries_pinned;
                if let Some(pinned) =
                    stays.filter(|stays| is_final && stays.why == Obstacle::Pinned)
                {
                    return Err(pinned);
                }
            }
            drop(beyond);
        }
        match stays {
            Some(stays) if batch.len > 0 => Err(stays),
            _ => Ok(()),
        }
    }

    /// Has clients drop clean contents, and frees their frames. The rest is to be moved.
    fn discard(&mut self, batch: &mut MoveBatch) {
        let none = Discard {
            frame: Frame(0),
            order: Order::ZERO,
            is_dropped: false,
        };
        let mut asked = [none; BATCH];
        for mover in self.clients.migrate {
            let asked = &mut asked[..batch.len];
            for (ask, of) in asked.iter_mut().zip(batch.moves()) {
                *ask = Discard {
                    frame: of.from,
                    order: of.order,
                    is_dropped: false,
                };
            }
            let mut asking = (&mut *self, &mut *batch, asked);
            // If the client unwinds, what it has dropped until then is in use no longer.
            let unwound = OrElse::new(
                &mut asking,
                |(taking, batch, asked): &mut Asking<'_, Self>| {
                    taking.free_dropped(batch, asked);
                },
            );
            mover.discard(unwound.seat.2);
            unwound.end();
            let (taking, batch, asked) = asking;
            taking.free_dropped(batch, asked);
            if batch.len == 0 {
                return;
            }
        }
    }

    /// Frees the blocks of a batch whose contents a client has dropped, by its answers. The others stay in
    /// the batch.
    fn free_dropped(&mut self, batch: &mut MoveBatch, asked: &[Discard]) {
        // The answer counts for the block beside which it stands (R8); the order is ours, not
        // the client's.
        let is_dropped = |nth: usize, of: &Move| {
            answer_for(asked, nth, |ask| ask.frame == of.from).is_some_and(|ask| ask.is_dropped)
        };
        surely(|| {
            let dropped = batch.moves().enumerate();
            let dropped = dropped.filter(|(nth, of)| is_dropped(*nth, of));
            let freed = self
                .emptying
                .seat
                .free_at_once(dropped.map(|(_, of)| (of.from, of.order)));
            self.effort.pages_discarded += freed;
        });
        let mut nth = 0;
        batch.keep(|of| {
            nth += 1;
            !is_dropped(nth - 1, of)
        });
    }

    /// Takes a target for each move, after clients have given frames back where too few are free.
    fn find_targets(
        &mut self,
        apart: &Apart<'_, 'm, P>,
        batch: &mut MoveBatch,
    ) -> Result<(), InTheWay> {
        let zone = self.reclaim.zone();
        let sizes = || batch.moves().map(|of| of.order);
        let wanted: u64 = sizes().map(Order::frames).sum();
        let largest = sizes().max().unwrap_or(Order::ZERO);
        // Free frames in pageblocks apart are no room.
        let here: u64 = apart
            .ids()
            .map(|id| u64::from(zone.pageblock(id).free))
            .sum();
        let free = zone.free_frames_for(Mobility::Movable).saturating_sub(here);
        let needed = wanted + zone.watermarks().min;
        if free < needed {
            self.bring(largest, needed - free);
        }
        let mut result = self.emptying.find_targets(batch);
        for _ in 1..self.config.tries {
            match result {
                Err(stays) if stays.why == Obstacle::NoRoom && self.bring(largest, wanted) > 0 => {
                    result = self.emptying.find_targets(batch);
                }
                _ => break,
            }
        }
        result
    }

    fn bring(&mut self, order: Order, wanted: u64) -> u64 {
        let Self {
            reclaim, clients, ..
        } = *self;
        let freed = reclaim.bring(self.emptying.seat, order, wanted, clients);
        self.effort.pages_reclaimed += freed;
        freed
    }

    /// Keeps only blocks that stayed and are still there, to be offered again. In a pageblock apart
    /// nothing new can have come to their place.
    fn keep_those_that_stay(&self, batch: &mut MoveBatch) {
        let zone = self.reclaim.zone();
        batch.keep(|of| {
            let offset = zone.offset_of(of.from);
            of.state != MoveState::Moved
                && offset.is_some_and(|offset| zone.is_movable_block(offset, of.order))
        });
    }
}
