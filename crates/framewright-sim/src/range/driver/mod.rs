//! A space, and the model of virtual ranges, in step. The space stands alone, over frames from a pool: see
//! [`drive`](crate::drive).

mod compare;
mod deferred;

use super::calls::{self, OWN_FRAMES, RangeRequest, covers};
use super::{ModelArea, ModelExtent, RangeCase, RangeModel, RangeOp};
use crate::difference::{Difference, Finding, RunSummary, differ};
use crate::drive::{self, CpuSeats, InStep as _, in_step};
use crate::{Machine, Paging, PoolFrames, Random};
use framewright::frame::AllocError;
use framewright::platform::MapError;
use framewright::stats::RangeStats;
use framewright::vrange::{AreaKind, RangeError, RangeFreeError, RangeSeat, Space};
use framewright::{Context, CpuId, Page};

type SimRangeSeat<'s, 'm> = RangeSeat<'s, 'm, &'s Paging, PoolFrames<'s>>;

/// Engine and model, in step.
struct RangePair<'s, 'm> {
    case: RangeCase,
    paging: &'s Paging,
    space: &'s Space<'m, &'s Paging>,
    seats: CpuSeats<SimRangeSeat<'s, 'm>>,
    model: RangeModel,
    expected: RangeStats,
    /// Pages of live areas of `vmalloc`.
    vmalloc_pages: u64,
    vmalloc_calls: u64,
    /// Whether the engine may have areas whose free is deferred.
    has_deferred: bool,
    summary: RunSummary,
    random: Random,
}

impl RangeCase {
    /// The machine that the case runs on.
    #[must_use]
    pub fn paging(&self) -> Paging {
        let layout = &self.layout;
        Paging::new(
            layout.cpus,
            layout.start,
            layout.pages,
            self.pool_frames,
            OWN_FRAMES,
        )
        .eager(self.is_eager)
        .limited(self.mapped_max)
        .with_tables(self.table_pages)
    }
}

/// Runs a sequence on engine and model. Each operation's result, the counters, every translation
/// and word, and the engine's own `verify` are compared as often as `case` says. At the end
/// everything is freed and drained, and the window must be one gap again, with all frames back.
///
/// A panic of the engine is a difference too. After a call that `paging`'s machine makes fail,
/// everything must be as it was before the operation.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If no space can have the layout of the case.
pub fn run(
    case: &RangeCase,
    paging: &Paging,
    ops: impl IntoIterator<Item = RangeOp>,
) -> Result<RunSummary, Finding> {
    let words = case
        .layout
        .words_needed()
        .expect("a layout a space can have");
    let mut memory = vec![0xa5a5_a5a5_a5a5_a5a5; words];
    let space = Space::new(&case.layout, &case.config, &mut memory, paging)
        .expect("enough metadata and a good layout");
    let mut pair = RangePair {
        case: *case,
        paging,
        space: &space,
        seats: CpuSeats::new(case.layout.cpus),
        model: RangeModel::new(&case.layout),
        expected: RangeStats::default(),
        vmalloc_pages: 0,
        vmalloc_calls: 0,
        has_deferred: false,
        summary: RunSummary::default(),
        random: Random::new(case.layout.pages),
    };
    for cpu in 0..case.layout.cpus {
        let seat = space.seat(CpuId(cpu), PoolFrames(paging));
        pair.seats
            .put(cpu, seat.expect("a new space's seats are free"));
    }
    in_step(&mut pair, case.cadence, ops)
}

impl drive::InStep for RangePair<'_, '_> {
    type Op = RangeOp;

    fn machine(&self) -> &Machine {
        self.paging.machine()
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    fn step(&mut self, op: RangeOp) -> Result<(), Difference> {
        match op {
            RangeOp::Alloc {
                cpu,
                kind,
                pages,
                align_bytes,
                guard_before,
                huge,
                zero,
                context,
            } => {
                // As many as there are frames in the list.
                let is_ram = kind == AreaKind::Ram;
                let pages_max = if is_ram { calls::LISTED_MAX } else { u64::MAX };
                self.alloc(RangeRequest {
                    cpu,
                    kind,
                    pages: pages.min(pages_max),
                    align_bytes: if is_ram { Page::BYTES } else { align_bytes },
                    guard_before: guard_before && !is_ram,
                    huge,
                    zero: zero && kind == AreaKind::Vmalloc,
                    context,
                    // `map_ram` has no tag.
                    tag: (if is_ram {
                        0
                    } else {
                        (self.summary.served % 1000) as u32
                    }),
                    id: self.model.next_id(),
                })
            }
            RangeOp::Free { cpu, pick } => match self.model.pick(pick) {
                Some(area) => self.free(cpu, area.start, area.kind, area.pages),
                None => Ok(()),
            },
            RangeOp::FreeTwice { cpu, pick } => match self.model.pick(pick) {
                Some(area) => {
                    self.free(cpu, area.start, area.kind, area.pages)?;
                    self.free(cpu, area.start, area.kind, area.pages)
                }
                None => Ok(()),
            },
            RangeOp::FreeAtomic { pick } => match self.model.pick(pick) {
                Some(area) => self.free_atomic(area.start, area.pages),
                None => Ok(()),
            },
            RangeOp::FreeDeferred { cpu } => self.free_deferred(cpu),
            RangeOp::FreeWrong {
                cpu,
                pick,
                kind,
                offset,
                more,
            } => match self.model.pick(pick) {
                Some(area) => {
                    let page = Page(area.start.0 + offset % area.covers);
                    let pages = area.pages.saturating_add_signed(i64::from(more));
                    self.free(cpu, page, kind, pages)
                }
                None => Ok(()),
            },
            RangeOp::FreeAny {
                cpu,
                at,
                kind,
                pages,
            } => self.free(cpu, self.page(at), kind, pages),
            RangeOp::Touch { cpu, pick, nth } => match self.model.pick(pick) {
                Some(area) => self.touch(cpu, &area, nth % area.pages),
                None => Ok(()),
            },
            RangeOp::TouchAny { cpu, at } => {
                let page = self.page(at);
                let frame = self.paging.access(CpuId(cpu), page);
                match self.model.covering(page) {
                    Some(area) if (area.start.0..area.start.0 + area.pages).contains(&page.0) => {
                        let area = *area;
                        self.touch(cpu, &area, page.0 - area.start.0)
                    }
                    Some(area) if frame.is_some() => {
                        differ!("page {page} beside {area:?} reaches {frame:?}")
                    }
                    _ => Ok(()),
                }
            }
            RangeOp::Find { at } => self.compare_find(self.page(at)),
            RangeOp::Purge { cpu } => {
                self.seat(cpu).purge();
                Ok(())
            }
            RangeOp::Drain { cpu } => {
                let failed = self.paging.machine().failed();
                // Either way: only the first one frees what is deferred before it stops all CPUs.
                let is_bounded = self.summary.served.is_multiple_of(2);
                let seat = self.seat(cpu);
                match is_bounded {
                    true if !seat.drain_within(0) => return differ!("a drain waited for no CPU"),
                    true => {}
                    false => seat.drain(),
                }
                // Pages that could not be unmapped are still lazy.
                if self.paging.machine().failed() != failed {
                    return Ok(());
                }
                self.compare_drained()
            }
            RangeOp::Reseat { cpu } => self.reseat(cpu),
            RangeOp::Fault { call, after, times } => {
                let machine = self.paging.machine();
                machine.fail(call, after.into(), times.into());
                Ok(())
            }
        }
    }

    fn compare_counters(&mut self) -> Result<(), Difference> {
        self.compare_stats()
    }

    fn verify(&mut self) -> Result<(), Difference> {
        self.verify_all()
    }

    fn check_platform(&self) -> Result<(), Difference> {
        match self.paging.broken() {
            Some(broken) => differ!("the platform was misused: {broken}"),
            None => Ok(()),
        }
    }

    /// The law of every allocator: when all is freed, all is as at first.
    fn free_everything(&mut self) -> Result<(), Difference> {
        let cpus = u64::from(self.seats.cpus());
        while let Some(area) = self.model.pick(0) {
            let cpu = (area.start.0 % cpus) as u16;
            self.free(cpu, area.start, area.kind, area.pages)?;
        }
        // Twice: a call that was made to fail may have left work for the next time.
        self.step(RangeOp::Drain { cpu: 0 })?;
        self.step(RangeOp::Drain { cpu: 0 })?;
        self.check_platform()?;
        self.compare_counters()?;
        self.compare_drained()?;
        self.verify()?;
        let (free, pool) = (self.back(), u64::from(self.case.pool_frames));
        let mapped = self.paging.mapped_pages();
        if (free, mapped) != (pool, 0) {
            return differ!(
                "at the end {free} of {pool} frames are back, and {mapped} pages mapped"
            );
        }
        self.whole_window()
    }
}

impl<'s, 'm> RangePair<'s, 'm> {
    fn seat(&mut self, cpu: u16) -> &mut SimRangeSeat<'s, 'm> {
        self.seats.run_on(self.paging.machine(), cpu)
    }

    /// Frames of the pool that are free, or the platform's for its tables.
    fn back(&self) -> u64 {
        self.paging.free_frames() + self.paging.table_frames()
    }

    fn page(&self, at: u64) -> Page {
        Page(self.case.layout.start.0.wrapping_add(at))
    }

    fn reseat(&mut self, cpu: u16) -> Result<(), Difference> {
        let taken =
            |space: &'s Space<'m, &'s Paging>, paging| space.seat(CpuId(cpu), PoolFrames(paging));
        if taken(self.space, self.paging).is_ok() {
            return differ!("a seat was given out twice");
        }
        self.seats.give_back(cpu);
        match taken(self.space, self.paging) {
            Ok(seat) => {
                self.seats.put(cpu, seat);
                Ok(())
            }
            Err(error) => differ!("a seat that was given back: {error}"),
        }
    }

    fn alloc(&mut self, request: RangeRequest) -> Result<(), Difference> {
        let extent = ModelExtent {
            before: request.guard_before.into(),
            covers: covers(request.kind, request.pages),
        };
        let failed = self.paging.machine().failed();
        let (paging, pool_frames) = (self.paging, self.case.pool_frames);
        self.vmalloc_calls += u64::from(request.kind == AreaKind::Vmalloc);
        let kept_takes = self.space.stats().kept_takes;
        let got = paging.within(request.context, || {
            calls::alloc(self.seat(request.cpu), pool_frames, &request)
        });
        let was_hit = paging.machine().failed() != failed;
        match got {
            Ok(start) => {
                let is_kept = self.space.stats().kept_takes > kept_takes;
                self.served(&request, start, extent, is_kept)
            }
            Err(error) => self.refused(&request, extent, error, was_hit),
        }
    }

    fn served(
        &mut self,
        request: &RangeRequest,
        start: Page,
        mut extent: ModelExtent,
        is_kept: bool,
    ) -> Result<(), Difference> {
        // A kept area may have a guard page before it that this request did not ask for; no other may.
        let has_before = self
            .space
            .find(start)
            .is_some_and(|area| area.guard_before != 0);
        if has_before && is_kept {
            extent.before = 1;
        }
        let ModelExtent { covers, .. } = extent;
        let &RangeRequest {
            kind,
            pages,
            align_bytes,
            tag,
            ..
        } = request;
        // If it was served there was room, so only the request itself can be wrong.
        let must = self.model.check(pages, align_bytes);
        if let Some(objection) = self.model.objection(start, extent, align_bytes) {
            return differ!("{request:?} was served: {objection}; the model says {must:?}");
        }
        must.map_err(|error| Difference(format!("{request:?} was served at {start}: {error}")))?;
        let area = self.model.alloc(start, pages, extent, kind, tag);
        self.summary.served += 1;
        self.expected.live_pages += covers;
        match kind {
            AreaKind::Plain => self.expected.area_allocs += 1,
            AreaKind::Vmalloc => {
                self.expected.area_allocs += 1;
                self.vmalloc_pages += pages;
            }
            AreaKind::Ram => self.expected.vm_map_ram += 1,
        }
        // As its user would: maps its own frames, sometimes only a part.
        let own_pages = area.pages - self.random.below(2) * self.random.below(area.pages);
        area.inspect(self.paging, request.cpu, request.zero, own_pages)
            .map_err(Difference)
    }

    fn touch(&self, cpu: u16, area: &ModelArea, nth: u64) -> Result<(), Difference> {
        area.touch(self.paging, cpu, nth).map_err(Difference)
    }

    fn refused(
        &mut self,
        request: &RangeRequest,
        extent: ModelExtent,
        error: RangeError,
        was_hit: bool,
    ) -> Result<(), Difference> {
        self.summary.refused += 1;
        let must = self
            .model
            .must_alloc(request.pages, extent, request.align_bytes);
        let may_wait = request.context.may_block;
        let has_blocks = request.kind == AreaKind::Ram || self.expected.vm_map_ram > 0;
        let pins = !self.case.config.recycle && has_blocks;
        let tables = self.paging.table_frames();
        let frames_left = u64::from(self.case.pool_frames) - tables - self.vmalloc_pages;
        // The engine does not even look for more pages than there are frames, even if the window
        // could serve them.
        let pool = u64::from(self.case.pool_frames);
        let is_beyond = request.kind == AreaKind::Vmalloc
            && request.pages > pool
            && self
                .model
                .could_serve(request.pages, extent, request.align_bytes);
        // What is free, lazy or kept: a request that must not wait knows that much without waiting.
        let others = self.case.layout.pages - self.expected.live_pages;
        let may_have =
            others >= extent.covers.saturating_add(extent.before) || self.deferred().areas != 0;
        let is_right = match (must, error) {
            (_, RangeError::TooManyFrames { pages, frames }) => {
                is_beyond && (pages, frames) == (request.pages, pool)
            }
            _ if is_beyond => false,
            (Err(must), _) if must == error => true,
            // Pages that failed to be unmapped are not free, and without recycling slots need a whole block, and keep
            // all of it.
            (Ok(()), RangeError::NoSpace { pages, align_bytes }) => {
                (pages, align_bytes) == (request.pages, request.align_bytes)
                    && (was_hit || self.summary.faults > 0 || pins)
            }
            // A request that may not wait does not purge, and maps several runs only below the bound on lazy pages.
            (Ok(()) | Err(RangeError::NoSpace { .. }), RangeError::WouldWait) => {
                !may_wait && (may_have || request.kind != AreaKind::Plain && must.is_ok())
            }
            (
                Ok(()) | Err(RangeError::NoSpace { .. }),
                RangeError::Frames(AllocError::WouldWait),
            ) => !may_wait && request.kind == AreaKind::Vmalloc,
            (Ok(()) | Err(RangeError::NoSpace { .. }), RangeError::Frames(error)) => {
                error == AllocError::Exhausted
                    && request.kind == AreaKind::Vmalloc
                    && (was_hit || frames_left < request.pages)
            }
            (Ok(()), RangeError::Map(MapError::Limit { max })) => {
                // All pages of plain areas may be mapped; without plain areas, this is exact.
                let mapped = self.model.live_pages() + request.pages;
                max == self.case.mapped_max
                    && (!may_wait || was_hit || mapped > max || self.summary.faults > 0)
            }
            (Ok(()), RangeError::Map(error)) => {
                let frames = match request.kind {
                    AreaKind::Vmalloc => request.pages,
                    AreaKind::Plain | AreaKind::Ram => 0,
                };
                let lacks_tables = self.case.table_pages != 0
                    && (!may_wait
                        || frames_left < frames + request.pages / self.case.table_pages + 2);
                error == MapError::NoMemory
                    && (was_hit || lacks_tables)
                    && request.kind != AreaKind::Plain
            }
            _ => false,
        };
        if is_right {
            let is_for_space = matches!(error, RangeError::NoSpace { .. } | RangeError::WouldWait);
            self.expected.failures += u64::from(is_for_space);
            Ok(())
        } else {
            differ!("V8: {request:?}: the engine says {error:?}, the model {must:?}")
        }
    }

    fn free(&mut self, cpu: u16, page: Page, kind: AreaKind, pages: u64) -> Result<(), Difference> {
        let must = self.model.must_free(page, kind, pages);
        if must.is_ok() {
            let area = *self
                .model
                .covering(page)
                .expect("a page that can be freed is in a live area");
            for nth in [0, self.random.below(area.pages), area.pages - 1] {
                self.touch(cpu, &area, nth)?;
            }
        }
        let failures = self.space.stats().unmap_failures;
        let got: Result<u64, RangeFreeError> = calls::free(self.seat(cpu), page, kind, pages);
        match (got, must) {
            (Ok(freed), Ok(())) => {
                let area = self.freed(page, freed)?;
                if self.space.config().strict && self.space.stats().unmap_failures == failures {
                    let mut all = (0..area.pages).map(|nth| Page(page.0 + nth));
                    if let Some(page) = all.find(|&page| self.paging.mapped(page).is_some()) {
                        return differ!("V12: {page} of {area:?} is mapped after the free");
                    }
                }
                Ok(())
            }
            (Err(error), Err(reasons)) if reasons.contains(&error) => Ok(()),
            (Err(error), Err(reasons)) if self.may_be_undone(page, error, &reasons) => Ok(()),
            (got, must) => differ!("free of {page}: the engine says {got:?}, the model {must:?}"),
        }
    }

    /// Takes note that an area was freed, which had so many pages.
    fn freed(&mut self, page: Page, freed: u64) -> Result<ModelArea, Difference> {
        let area = self.model.free(page);
        self.expected.live_pages -= area.covers;
        match area.kind {
            AreaKind::Plain => self.expected.area_frees += 1,
            AreaKind::Vmalloc => {
                self.expected.area_frees += 1;
                self.vmalloc_pages -= area.pages;
            }
            AreaKind::Ram => self.expected.vm_unmap_ram += 1,
        }
        match freed == area.pages {
            true => Ok(area),
            false => differ!("the free of {area:?} says {freed} pages"),
        }
    }

    /// Whether a page may be of an area that could not be mapped: it was never handed out, but was
    /// freed like all areas.
    fn may_be_undone(&self, page: Page, error: RangeFreeError, reasons: &[RangeFreeError]) -> bool {
        let is_such = match error {
            RangeFreeError::AlreadyFree(at) => at == page,
            RangeFreeError::NotTheFirst { page: at, start } => at == page && start < page,
            _ => false,
        };
        is_such
            && reasons.contains(&RangeFreeError::NotAllocated(page))
            && self.paging.failed_maps() > 0
    }

    /// Checks that the window is one gap: one request can have all but the guard page.
    fn whole_window(&mut self) -> Result<(), Difference> {
        let pages = self.case.layout.pages - 1;
        if pages == 0 {
            return Ok(());
        }
        let request = RangeRequest {
            cpu: 0,
            kind: AreaKind::Plain,
            pages,
            align_bytes: Page::BYTES,
            guard_before: false,
            huge: false,
            zero: false,
            context: Context::NOWAIT,
            tag: 7,
            id: self.model.next_id(),
        };
        match calls::alloc(self.seat(0), 0, &request) {
            Ok(start) if start == self.case.layout.start => {
                self.model
                    .alloc(start, pages, pages + 1, AreaKind::Plain, 7);
                self.expected.area_allocs += 1;
                self.expected.live_pages += pages + 1;
                self.free(0, start, AreaKind::Plain, pages)?;
                self.step(RangeOp::Drain { cpu: 0 })?;
                self.verify()
            }
            other => differ!("when all is freed, the window is not one gap: {other:?}"),
        }
    }
}
