//! The background: the work of Linux's kswapd and kcompactd, as a function that a thread or a CPU
//! calls.
//!
//! ```text
//!              woken, below a low target
//!     Sleeps ────────────────────────────▶ Works ◀──┐ woken during the nap: low hit quickly
//!        ▲                                   │      │ below high after it: high hit quickly
//!        │ still above, after the nap        ▼      │
//!        └──────────────────────────────── Naps ────┘
//! ```
//!
//! The engine has no clock here: the caller decides how long a nap is (a tenth of a second in
//! Linux). The engine counts what happened between a call that returned [`Background::Naps`] and
//! the next one.

use super::Clients;
use super::direct::{Behalf, Round, piece_of};
use super::moving::Compaction;
use super::settled::Settled;
use super::state::{Counter, Lack, Reclaim};
use super::watch::{NAPS, SLEEPS, WORKS};
use crate::frame::Seat;
use crate::platform::{FramePlatform, surely};
use crate::policy::{Targets, boost_after, gap, held_back};
use crate::sync::Ordering::{AcqRel, Relaxed};
use crate::units::{Context, Mobility, Order};

/// What the background wants of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Background {
    /// To be called again at once: the budget is used up, but the work is not done.
    Works,
    /// To be called again after a short sleep, or as soon as it [is wanted](Reclaim::is_wanted).
    Naps,
    /// To be called again when it is wanted.
    Sleeps,
}

/// What the next step of the background is to work on.
enum BackgroundStep {
    /// Below the high target in frames, by this many.
    Frames(u64),
    /// Below that in pageblocks.
    Pageblocks,
    /// Below the zone's high watermark in frames that unmovable contents may use.
    Ordinary,
    /// Below the high target in free frames where unmovable contents have settled. Movable contents
    /// are to leave this pageblock; with the number of frames free there.
    Stock(usize, u64),
    Reached,
}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// One step of the background. First clients give frames back until there is room for requests
    /// and for compaction. Then pieces are emptied for unmovable contents, if too little is free
    /// that is not lent. Then pageblocks are emptied until as many are whole as the high target
    /// says. Then the frames still missing for that target are given back, too. A fallback that
    /// polluted raises both targets for a while. For one caller at a time.
    ///
    /// Ends when the targets are reached, when nothing further helps (it is then not woken for the
    /// same reason for a while), or after about `budget` looks: at frames that clients are asked
    /// about, and of compaction's scanners. The last call of a client, or the last pageblock, is
    /// finished.
    ///
    /// Clients free into `frames`. It obeys no watermark itself, and its context allows everything.
    pub fn background(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        budget: u64,
    ) -> Background {
        if !self.is_up() {
            return Background::Sleeps;
        }
        let mut left = budget.max(1);
        let is_reached = loop {
            let used = match self.standing(self.targets()) {
                BackgroundStep::Frames(missing) if self.may_ask() => {
                    self.ask_once(frames, clients, missing, left)
                }
                BackgroundStep::Pageblocks if self.may_empty() => {
                    let whole = self.zone().pageblock_order();
                    self.empty_one(frames, clients, whole, Lack::Pageblocks)
                }
                BackgroundStep::Stock(id, free) => self.restock(frames, clients, id, free),
                BackgroundStep::Ordinary => {
                    let piece = piece_of(self.zone().pageblock_order());
                    self.empty_one(frames, clients, piece, Lack::Ordinary)
                }
                // A CPU that woke it while it worked wants more than it saw, so it looks once more.
                // A CPU that wakes it after this finds it wanted when it rests.
                _ if self.record().woken.swap(0, AcqRel) != 0 => 1,
                BackgroundStep::Reached => break true,
                _ => break false,
            };
            // Each step counts as at least one look, so that the loop ends.
            left = left.saturating_sub(used.max(1));
            if left == 0 {
                return Background::Works;
            }
        };
        self.rest(is_reached)
    }

    /// Whether it is to work: wakes up, or ends a nap.
    fn is_up(&self) -> bool {
        let phase = &self.record().phase;
        let woken = self.record().woken.swap(0, Relaxed) != 0;
        match phase.load(Relaxed) {
            WORKS => return true,
            NAPS if woken => self.count(Counter::LowHitQuickly, 1),
            NAPS => {
                if matches!(self.standing(self.targets()), BackgroundStep::Reached) {
                    phase.store(SLEEPS, Relaxed);
                    return false;
                }
                self.count(Counter::HighHitQuickly, 1);
            }
            _ if !woken => return false,
            _ => {}
        }
        phase.store(WORKS, Relaxed);
        let first = u64::from(self.config().priority_first);
        self.record().priority.store(first, Relaxed);
        self.record().given_up.store(0, Relaxed);
        self.record().looked_in_vain.store(0, Relaxed);
        true
    }

    /// Goes to sleep; only naps if the targets are reached.
    fn rest(&self, is_reached: bool) -> Background {
        let boost = &self.record().boost;
        boost.store(boost_after(boost.load(Relaxed), is_reached), Relaxed);
        let (phase, rests) = if is_reached {
            (NAPS, Background::Naps)
        } else {
            (SLEEPS, Background::Sleeps)
        };
        self.record().phase.store(phase, Relaxed);
        rests
    }

    /// What to work on first: frames for requests, and for compaction to have room; then
    /// pageblocks, as long as any can be emptied; then the other targets that the zone misses.
    fn standing(&self, targets: Targets) -> BackgroundStep {
        let zone = self.zone();
        let (marks, free) = (zone.watermarks(), zone.free_in_pageblocks());
        let whole = zone.pageblock_order();
        // And some frames for requests to take while a pageblock is emptied.
        let room = marks.min + gap(whole) + whole.frames();
        let first = marks.high.max(room).min(targets.frames.high);
        let settled = if self.keeps_stock() {
            self.settled()
        } else {
            Settled::default()
        };
        // The stock that is held back does not count as free for movable contents.
        let held_back = held_back(settled.free, &targets);
        let free = free.saturating_sub(held_back);
        if free < first && self.may_ask() {
            return BackgroundStep::Frames(first - free);
        }
        let ordinary = zone.free_frames_for(Mobility::Unmovable);
        if ordinary < marks.high && !self.has_given_up(Lack::Ordinary) {
            return BackgroundStep::Ordinary;
        }
        if settled.free < targets.stock.high && !self.has_given_up(Lack::Stock) {
            match settled.fullest {
                Some((id, movable)) if settled.room > movable => {
                    return BackgroundStep::Stock(id, settled.free);
                }
                Some((_, movable)) if self.may_ask() => {
                    return BackgroundStep::Frames(movable + 1 - settled.room);
                }
                _ => {}
            }
        }
        let high = targets.pageblocks.high;
        let lacks_pageblocks = zone.free_pageblocks_up_to(high) < high;
        if lacks_pageblocks && self.may_empty() {
            return BackgroundStep::Pageblocks;
        }
        match targets.frames.high.saturating_sub(free) {
            0 if lacks_pageblocks => BackgroundStep::Pageblocks,
            0 => BackgroundStep::Reached,
            missing => BackgroundStep::Frames(missing),
        }
    }

    fn has_given_up(&self, lack: Lack) -> bool {
        self.record().given_up.load(Relaxed) >> lack as u64 & 1 != 0
    }

    /// Tries no more about `lack` in the rest of this run, nor for some time after it.
    pub(super) fn give_up(&self, lack: Lack) {
        let given_up = &self.record().given_up;
        given_up.store(given_up.load(Relaxed) | 1 << lack as u64, Relaxed);
        self.leave_off(lack);
    }

    fn may_ask(&self) -> bool {
        !self.has_given_up(Lack::Frames)
    }

    fn may_empty(&self) -> bool {
        !self.has_given_up(Lack::Pageblocks)
    }

    /// One round of asking; returns how many looks it took.
    fn ask_once(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        missing: u64,
        left: u64,
    ) -> u64 {
        let at = &self.record().priority;
        let priority = at.load(Relaxed) as u8;
        let wanted = missing.max(u64::from(self.config().batch_frames));
        let round = Round {
            behalf: Behalf::Background,
            priority,
            wanted,
            scan_max: left,
            order: Order::ZERO,
            context: Context::ANY,
        };
        let shrunk = self.ask_all(frames, clients, &round);
        let in_vain = &self.record().looked_in_vain;
        in_vain.store(
            match shrunk.freed {
                0 => in_vain.load(Relaxed).saturating_add(shrunk.scanned),
                _ => 0,
            },
            Relaxed,
        );
        // If the budget ends each step before a round does, no round ever counts as the last one.
        // So after looking at everything twice, as a second chance takes, without a gain, it gives
        // up.
        let all_twice = clients.holding().saturating_mul(2);
        let is_hopeless = in_vain.load(Relaxed) > all_twice;
        if shrunk.freed == 0 && (priority == 0 && shrunk.scanned < left || is_hopeless) {
            self.give_up(Lack::Frames);
        } else if shrunk.freed < wanted && shrunk.scanned < left {
            at.store(u64::from(priority.saturating_sub(1)), Relaxed);
        }
        shrunk.scanned
    }

    /// Empties one more block, for unmovable contents if they lack it. Returns how many looks it
    /// took.
    fn empty_one(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        order: Order,
        lack: Lack,
    ) -> u64 {
        let given_up = &self.record().given_up;
        let flags = given_up.load(Relaxed);
        if flags & HAS_COMPACTED == 0 {
            given_up.store(flags | HAS_COMPACTED, Relaxed);
            self.count(Counter::CompactWake, 1);
        }
        let (before, stood) = (self.looks(), self.stands(lack));
        let mobility = match lack {
            Lack::Ordinary => Mobility::Unmovable,
            Lack::Pageblocks | Lack::Frames | Lack::Stock => Mobility::Movable,
        };
        let emptied = self.compact_ahead(frames, order, mobility, clients.migrate);
        match emptied {
            Compaction::Captured(block) => {
                surely(|| {
                    let freed = frames.free(block, order);
                    debug_assert_eq!(freed, Ok(()), "it was captured for the background");
                });
                if self.stands(lack) > stood {
                    self.take_up(lack);
                } else {
                    // Other CPUs use up the gain, or contents only go round: either way it must end
                    // (R3).
                    self.give_up(lack);
                }
            }
            _ => self.give_up(lack),
        }
        self.looks().saturating_sub(before)
    }

    /// How much the zone has at the moment of the resource that `lack` names.
    fn stands(&self, lack: Lack) -> u64 {
        let zone = self.zone();
        match lack {
            Lack::Frames => zone.free_in_pageblocks(),
            Lack::Ordinary => zone.free_frames_for(Mobility::Unmovable),
            Lack::Stock => self.settled().free,
            Lack::Pageblocks => zone.free_pageblocks_up_to(self.targets().pageblocks.high),
        }
    }

    /// Looks of both scanners so far.
    pub(super) fn looks(&self) -> u64 {
        self.counted(Counter::MigrateScanned) + self.counted(Counter::FreeScanned)
    }
}

/// In `given_up`, above the bits of the targets that were given up.
const HAS_COMPACTED: u64 = 1 << 4;
