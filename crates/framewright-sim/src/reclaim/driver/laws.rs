//! The laws that must hold after every operation.

use super::ReclaimPair;
use crate::difference::{Difference, differ};
use crate::frame::ModelFrame;
use framewright::policy::Label;
use framewright::reclaim::Background;
use framewright::stats::{FrameStats, ReclaimStats};
use framewright::{Mobility, Order};
use std::ops::Range;

/// The counters of engine and model before an operation.
pub(super) struct Before {
    pub(super) frames: FrameStats,
    pub(super) reclaim: ReclaimStats,
    pub(super) free: u64,
    allocated: [u64; 3],
    freed: u64,
    failed: [u64; 2],
}

/// How many pageblocks, or runs of them, one attempt of compaction tries, and how often it goes
/// through each.
const TRIES: u64 = 16;
const PASSES: u64 = 3;
const BATCH: u64 = 64;
/// The order of the block that is made for unmovable contents where no whole pageblock can be
/// emptied.
const PIECE: Order = Order::new(5).expect("a small order");

impl ReclaimPair<'_, '_, '_, '_> {
    pub(super) fn before(&self) -> Before {
        let model = self.world.model();
        Before {
            frames: self.world.zone.stats(),
            reclaim: self.reclaim.stats(),
            free: self.world.zone.free_in_pageblocks(),
            allocated: model.allocated,
            freed: model.freed,
            failed: [model.exhausted, model.fragmented],
        }
    }

    /// How many frames are missing for a request to leave the min watermark free, as the
    /// documentation says: of those that it may have; frames that CPUs cache do not count.
    pub(super) fn lacking(&self, order: Order, mobility: Mobility) -> u64 {
        let zone = self.world.zone;
        let needed = zone.watermarks().min + order.frames();
        let model = self.world.model();
        let all = zone.free_in_pageblocks();
        let is_lent = |id: &usize| model.frames.kept_label(*id) == Some(Label::Contiguous);
        let lent: u64 = (0..zone.pageblocks())
            .filter(is_lent)
            .map(|id| u64::from(zone.pageblock(id).free))
            .sum();
        let free = if mobility.is_movable() {
            all
        } else {
            all.saturating_sub(lent)
        };
        needed.saturating_sub(free)
    }

    /// Checks that every counter has grown by what the model counted. Targets that no client saw,
    /// because not all were found, were taken and freed again. For a `request` a larger block may
    /// have been made, at most a pageblock, of which it kept the front.
    pub(super) fn check_counts(
        &self,
        before: &Before,
        request: Option<(Order, Mobility)>,
    ) -> Result<(), Difference> {
        let (frames, reclaim) = (self.world.zone.stats(), self.reclaim.stats());
        let model = self.world.model();
        let (was, calls) = (&before.reclaim, &model.calls);
        let moved = [
            reclaim.pgmigrate_success - was.pgmigrate_success,
            reclaim.pgmigrate_fail - was.pgmigrate_fail,
        ];
        if moved != [calls.moved, calls.stayed] {
            let must = [calls.moved, calls.stayed];
            return differ!("pgmigrate_success and fail grew by {moved:?}, not {must:?}");
        }
        let isolated = reclaim.compact_isolated - was.compact_isolated;
        // Each source that was offered had a target.
        let Some(targets) = isolated.checked_sub(calls.offered) else {
            return differ!("compact_isolated grew by {isolated}, {calls:?}");
        };
        if targets < calls.offered {
            return differ!("compact_isolated grew by {isolated}, {calls:?}");
        }
        let mut more = [0; 3];
        for mobility in Mobility::ALL {
            let nth = mobility.index();
            let got = frames.pgalloc[nth] - before.frames.pgalloc[nth];
            let moved = if mobility.is_movable() { targets } else { 0 };
            let must = model.allocated[nth] - before.allocated[nth] + moved;
            let Some(beyond) = got.checked_sub(must) else {
                return differ!("pgalloc for {mobility} grew by {got}, not {must}");
            };
            more[nth] = beyond;
        }
        let freed = frames.pgfree - before.frames.pgfree;
        let must = model.freed - before.freed + targets;
        if freed != must + more.iter().sum::<u64>() {
            return differ!("pgfree grew by {freed}, not {must} and {more:?}");
        }
        let whole = self.world.zone.pageblock_order();
        let piece = whole.min(PIECE);
        let is_right = Mobility::ALL.iter().all(|mobility| {
            let more = more[mobility.index()];
            let of_request = request.is_some_and(|(order, of)| {
                let made = more + order.frames();
                of == *mobility && made.is_power_of_two() && made <= whole.frames()
            });
            // The background has whole pageblocks made, and pieces for unmovable contents, and
            // frees them.
            let made = if mobility.is_movable() { whole } else { piece };
            let of_background =
                request.is_none() && calls.is_background && more.is_multiple_of(made.frames());
            more == 0 || of_request || of_background
        });
        if !is_right {
            return differ!("pgalloc has {more:?} more than were asked for");
        }
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let failed = [
            sum(&frames.exhausted) - sum(&before.frames.exhausted),
            sum(&frames.fragmented) - sum(&before.frames.fragmented),
        ];
        let must = [
            model.exhausted - before.failed[0],
            model.fragmented - before.failed[1],
        ];
        if failed != must {
            return differ!("exhausted and fragmented grew by {failed:?}, not {must:?}");
        }
        Ok(())
    }

    /// R3: checks that clients were called no more often than allowed.
    pub(super) fn check_bounds(&self, compactions: u64) -> Result<(), Difference> {
        let case = &self.world.case;
        let calls = self.world.model().calls.clone();
        let shrinks_max = u64::from(case.reclaim.rounds_max) * super::super::CLIENTS as u64;
        let place = case
            .layout
            .max_order
            .max(case.layout.pageblock_order)
            .frames();
        let batches_max = compactions * TRIES * PASSES * (2 * place / BATCH + 2);
        if calls.shrinks > shrinks_max || calls.batches > batches_max {
            return differ!("R3: {calls:?}, at most {shrinks_max} and {batches_max}");
        }
        Ok(())
    }

    pub(super) fn check_background(
        &self,
        before: &Before,
        got: Background,
        budget: u64,
        was_wanted: bool,
    ) -> Result<(), Difference> {
        self.check_counts(before, None)?;
        let (was, is) = (&before.reclaim, self.reclaim.stats());
        let calls = self.world.model().calls.clone();
        let steps = (is.pgscan_kswapd, is.pgsteal_kswapd);
        let must = (
            was.pgscan_kswapd + calls.scanned,
            was.pgsteal_kswapd + calls.freed,
        );
        if steps != must {
            return differ!("pgscan_kswapd and pgsteal_kswapd are {steps:?}, not {must:?}");
        }
        let mut others = is;
        others.allocstall = was.allocstall;
        (others.pgscan_direct, others.pgsteal_direct) = (was.pgscan_direct, was.pgsteal_direct);
        others.compact_stall = was.compact_stall;
        if others != is {
            return differ!("the background is counted as a stall: {is:?}");
        }
        if calls.scanned > budget {
            return differ!("{} looks with a budget of {budget}", calls.scanned);
        }
        let naps = is.kswapd_high_wmark_hit_quickly > was.kswapd_high_wmark_hit_quickly;
        if !was_wanted && !naps && (got != Background::Sleeps || calls.shrinks + calls.batches > 0)
        {
            return differ!("the background was not wanted, and it {got:?}");
        }
        if got == Background::Naps {
            return self.check_targets();
        }
        Ok(())
    }

    /// Checks that the background is done when it says so.
    fn check_targets(&self) -> Result<(), Difference> {
        let zone = self.world.zone;
        let free = [zone.free_in_pageblocks(), zone.free_pageblocks()];
        let percent = u64::from(self.world.case.reclaim.pageblocks_percent);
        let (marks, each) = (zone.watermarks(), zone.pageblock_order().frames());
        let of_pageblocks = |mark: u64| (mark * percent / 100).div_ceil(each);
        // Room to work over: the high target is above the low one.
        let high = of_pageblocks(marks.high).max(of_pageblocks(marks.low) + 1);
        let kept = if percent > 0 { high } else { 0 };
        let targets = [marks.high + kept * each, kept];
        if free[0] >= targets[0] && free[1] >= targets[1] {
            return Ok(());
        }
        differ!(
            "the background is done at {free:?} frames and pageblocks, its targets are {targets:?}"
        )
    }

    /// Whether these pageblocks must be possible to empty: all in them can move, is known and free
    /// to move, and there is room for it. Only certain with one CPU and no cache.
    pub(super) fn can_evacuate(&self, block: usize, blocks: usize) -> bool {
        let world = self.world;
        let model = world.model();
        if !world.case.is_uncached() || model.moods.iter().any(|&(mood, _)| mood != 0) {
            return false;
        }
        let shift = world.zone.pageblock_order().get();
        drop(model);
        self.can_empty(block << shift..(block + blocks) << shift)
    }

    /// The same for a run of any length, all of which exists.
    pub(super) fn can_take_run(&self, at: usize, frames: usize) -> bool {
        let model = self.world.model();
        if !self.world.case.is_uncached() || model.moods.iter().any(|&(mood, _)| mood != 0) {
            return false;
        }
        let is_there = (at..at + frames)
            .all(|at| at < model.frames.span() && model.frames.state(at) != ModelFrame::Absent);
        drop(model);
        is_there && self.can_empty(at..at + frames)
    }

    fn can_empty(&self, inside: Range<usize>) -> bool {
        let world = self.world;
        let model = world.model();
        let ids = model.frames.block_of(inside.start)..model.frames.block_of(inside.end - 1) + 1;
        let is_plain = |id: usize| {
            model.frames.pins(id) == 0
                && !model.frames.is_isolated(id)
                && model.frames.kept_label(id).is_none()
        };
        if ids.end > world.zone.pageblocks() || !ids.clone().all(is_plain) {
            return false;
        }
        let mut frames = 0;
        for (&at, object) in &model.objects {
            let end = at + object.order.frames() as usize;
            if end <= inside.start || at >= inside.end {
                continue;
            }
            let moves = object.order == Order::ZERO
                && object.mobility.is_movable()
                && usize::from(object.owner) < super::super::CLIENTS
                && !object.held
                && object.pinned.is_none();
            if !moves {
                return false;
            }
            frames += 1;
        }
        let room: u64 = (0..world.zone.pageblocks())
            .filter(|&id| !ids.contains(&id))
            .filter(|&id| !model.frames.is_isolated(id) && model.frames.kept_label(id).is_none())
            .map(|id| u64::from(model.frames.counts(id).0))
            .sum();
        room >= frames
    }

    pub(super) fn verify_all(&self) -> Result<(), Difference> {
        let zone = self.world.zone;
        if let Err(broken) = zone.verify() {
            return differ!("{broken}");
        }
        let counted = zone.recount();
        let got = (
            counted.present,
            counted.free + counted.cached,
            counted.allocated,
        );
        let model = self.world.model();
        let must = (
            model.frames.present_frames(),
            model.frames.free_frames(),
            model.frames.allocated_frames(),
        );
        if got != must {
            return differ!(
                "present, free, allocated: the engine counts {got:?}, the model {must:?}"
            );
        }
        for block in 0..zone.pageblocks() {
            let is = zone.is_isolated(block);
            if is != model.frames.is_isolated(block) {
                return differ!("R1: pageblock {block} is isolated: {is}");
            }
        }
        model.check_all_contents()
    }

    /// Compares each pageblock's counts and label; only after a drain, when no frame is cached.
    pub(super) fn compare_pageblocks(&self) -> Result<(), Difference> {
        let model = self.world.model();
        for block in 0..model.frames.pageblocks() {
            let facts = self.world.zone.pageblock(block);
            let got = (facts.free, facts.absent, facts.by_mobility);
            let must = model.frames.counts(block);
            if got != must {
                return differ!("pageblock {block}: the engine has {got:?}, the model {must:?}");
            }
            let label = match facts.label {
                Label::Of(_) => None,
                kept => Some(kept),
            };
            if label != model.frames.kept_label(block) {
                return differ!("pageblock {block} has the label {:?}", facts.label);
            }
        }
        Ok(())
    }
}
