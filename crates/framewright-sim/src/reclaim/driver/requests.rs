//! Requests that may reclaim: whether they may fail, fall below a watermark, or count as a stall, by what was known
//! before.

use super::laws::Before;
use super::{ReclaimPair, with_clients};
use crate::difference::{Difference, differ};
use crate::reclaim::CLIENTS;
use crate::reclaim::world::OperationCalls;
use framewright::frame::AllocError;
use framewright::platform::Relief;
use framewright::policy::Fallback;
use framewright::{Context, Mobility, Order};

impl ReclaimPair<'_, '_, '_, '_> {
    pub(super) fn alloc(
        &mut self,
        cpu: u16,
        (order, mobility): (Order, Mobility),
        owner: u8,
        context: Context,
    ) -> Result<(), Difference> {
        let before = self.before();
        let could = self.world.model().frames.must_alloc(order, mobility);
        let lacked = self.lacking(order, mobility);
        let whole = self.world.zone.pageblock_order();
        self.world.begin(OperationCalls {
            context: Some(context),
            made: Some(order.max(whole)),
            ..OperationCalls::default()
        });
        let world = self.world;
        let seat = self.seats.run_on(world.machine, cpu);
        let got = with_clients(world, |clients| {
            seat.alloc(order, mobility, context, clients)
        });
        world.end()?;
        self.count(got.is_ok());
        let may = context.may_block && context.may_reclaim;
        let stops = world.zone.stats().drains - before.frames.drains;
        if !context.may_block && stops != 0 {
            return differ!(
                "{order} for {mobility}: {got:?} for a request that must not wait, by a stop"
            );
        }
        let is_quiet = {
            let calls = &world.model().calls;
            // For an unmovable request a pageblock may be emptied first, without use, into the
            // block that was there; clients may take frames meanwhile.
            let is_still = match mobility {
                Mobility::Movable => calls.shrinks == 0 && calls.batches == 0,
                _ => calls.shrinks == 0 || calls.batches > 0,
            };
            is_still || calls.meddled
        };
        if may && could.is_ok() && lacked == 0 && !is_quiet {
            return differ!("{order} for {mobility}: a stall where a block was");
        }
        let is_known = {
            let calls = &world.model().calls;
            !calls.meddled && calls.batches == 0
        };
        if may && could.is_ok() && lacked == 0 && got.is_err() && is_known {
            return differ!("{order} for {mobility}: {got:?}, although a block was there");
        }
        let is_missed = !may && self.may_miss(got.map(|_| ()), could, order);
        match got {
            Ok(frame) => {
                world.take(frame, (order, mobility), owner)?;
                if may && world.case.is_calm {
                    self.check_marks(&before, order)?;
                }
            }
            Err(error) if is_missed => world.model().count_failure(error),
            Err(AllocError::WouldWait) => {
                return differ!("{order} for {mobility}: it says that it would wait");
            }
            Err(error) => self.check_failure((order, mobility), error, may)?,
        }
        if !may {
            if got.map(|_| ()) != could {
                if !is_missed {
                    return differ!("F8: NOWAIT, the engine says {got:?}, the model {could:?}");
                }
                self.summary.missed += u64::from(could.is_ok());
            }
            let mut stats = self.reclaim.stats();
            stats.kswapd_wake = before.reclaim.kswapd_wake;
            if stats != before.reclaim {
                return differ!("a request that must not wait did: {stats:?}");
            }
        }
        let clears = self.clears(order, mobility);
        self.check_stalls(&before, order, got.is_ok(), clears)?;
        self.check_counts(&before, Some((order, mobility)))?;
        let config = world.case.reclaim;
        self.check_bounds(u64::from(config.compactions_max) + 2 + clears)
    }

    /// Whether the engine may say so to a request that must not wait: it need not know of a block that could
    /// be made of frames that other CPUs have cached, because it stops no CPU.
    fn may_miss(
        &self,
        got: Result<(), AllocError>,
        could: Result<(), AllocError>,
        order: Order,
    ) -> bool {
        let is_enough = order.frames() <= self.world.zone.stats().nr_free_pages;
        got == Err(AllocError::WouldWait)
            && is_enough
            && self.world.case.cpus() > 1
            && match could {
                Ok(()) => self.world.zone.recount().cached != 0,
                Err(error) => matches!(error, AllocError::Exhausted | AllocError::Fragmented),
            }
    }

    /// After a request that was served: checks that the min watermark holds, unless the request
    /// brought the frames that it took; except for frames that others may take before they look
    /// again.
    fn check_marks(&self, before: &Before, order: Order) -> Result<(), Difference> {
        let marks = self.world.zone.watermarks();
        let free = self.world.zone.free_in_pageblocks();
        let brought = self.world.model().calls.freed;
        let case = &self.world.case;
        let others = u64::from(case.cpus() - 1) * u64::from(case.reclaim.quota_frames);
        if free + others >= marks.min.min(before.free()) || brought >= order.frames() {
            return Ok(());
        }
        let was = before.free();
        differ!(
            "{free} frames are free, below min {}: before it were {was}, {order} brought {brought}",
            marks.min
        )
    }

    /// Checks that a request failed only for a true reason, and after all clients were asked for
    /// everything (R7).
    fn check_failure(
        &self,
        (order, mobility): (Order, Mobility),
        error: AllocError,
        may: bool,
    ) -> Result<(), Difference> {
        let lacks = self.lacking(order, mobility);
        let mut model = self.world.model();
        model.count_failure(error);
        let must = model.frames.must_alloc(order, mobility);
        let is_below = may && error == AllocError::Exhausted && lacks > 0;
        if must != Err(error) && !is_below && !model.calls.meddled {
            return differ!(
                "R7: {order} for {mobility}: the engine says {error:?}, the model {must:?}"
            );
        }
        let is_too_large = matches!(error, AllocError::TooLarge { .. });
        if !may || is_too_large || order > Order::ZERO && lacks == 0 {
            return Ok(());
        }
        let rounds_max = u64::from(self.world.case.reclaim.rounds_max);
        let is_over = model.calls.shrinks >= rounds_max;
        for client in 0..CLIENTS {
            let holding = model.holding(client);
            if holding > 0 && !model.calls.was_full[client] && !is_over {
                return differ!(
                    "R7: {order} failed, and client {client} was not asked for all of its {holding}"
                );
            }
        }
        Ok(())
    }

    /// How many settled pageblocks a request may clear of movable contents before it is served:
    /// one, if it is unmovable and small, and a stock is kept.
    fn clears(&self, order: Order, mobility: Mobility) -> u64 {
        let keeps_stock = self.world.case.reclaim.stock_percent > 0
            && self.world.case.config.fallback == Fallback::Concentrated;
        u64::from(keeps_stock && order.get() <= 1 && !mobility.is_movable())
    }

    /// Checks the stalls that a request may be counted as.
    fn check_stalls(
        &self,
        before: &Before,
        order: Order,
        is_served: bool,
        clears: u64,
    ) -> Result<(), Difference> {
        let (was, is) = (&before.reclaim, self.reclaim.stats());
        let calls = self.world.model().calls.clone();
        let stalls = is.allocstalls() - was.allocstalls();
        let of_order = is.allocstall[order.index()] - was.allocstall[order.index()];
        if stalls != of_order || stalls > 1 || calls.shrinks > 0 && stalls == 0 {
            return differ!("{} calls of caches, {stalls} stalls", calls.shrinks);
        }
        let compactions = is.compact_stall - was.compact_stall;
        let successes = is.compact_success - was.compact_success;
        let failures = is.compact_fail - was.compact_fail;
        let max = u64::from(self.world.case.reclaim.compactions_max) + 2 + clears;
        let is_right = compactions == successes + failures
            && compactions <= max
            && successes <= u64::from(is_served) + clears
            && (calls.batches == 0 || compactions > 0);
        if !is_right {
            return differ!(
                "{compactions} stalls to compact, {successes} with success, {failures} without, after \
                 {} batches; served: {is_served}",
                calls.batches
            );
        }
        let steps = (is.pgscan_direct, is.pgsteal_direct);
        let must = (
            was.pgscan_direct + calls.scanned,
            was.pgsteal_direct + calls.freed,
        );
        if steps != must || is.pgscan_kswapd != was.pgscan_kswapd {
            return differ!("pgscan_direct and pgsteal_direct are {steps:?}, not {must:?}");
        }
        Ok(())
    }

    /// Has relief bring frames, as for another allocator's request.
    pub(super) fn relieve(&mut self, cpu: u16, wanted: u64) -> Result<(), Difference> {
        let before = self.before();
        let context = Context::NOFS;
        self.world.begin(OperationCalls {
            context: Some(context),
            ..OperationCalls::default()
        });
        let (world, reclaim) = (self.world, self.reclaim);
        let seat = self.seats.run_on(world.machine, cpu).frames();
        let freed = with_clients(world, |clients| {
            reclaim.relief(*clients).reclaim(seat, wanted, context)
        });
        world.end()?;
        let said = world.model().calls.freed;
        if freed != said {
            return differ!("relief says that {freed} frames came, clients say {said}");
        }
        self.check_stalls(&before, Order::ZERO, true, 0)?;
        self.check_counts(&before, None)?;
        self.check_bounds(0)
    }
}
