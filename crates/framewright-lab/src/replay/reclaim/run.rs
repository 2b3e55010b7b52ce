//! The loop of a replay with reclaim: the next operation, the background's share of the time that passed, and a
//! look by the observer. A request that waits is a stall; a free of what is gone is passed over.

use super::content::context_of;
use super::programs::{HeldPrograms, Programs, TraceFree};
use super::{HugeProbes, ObjectContent, Stalls};
use crate::measure::{MAX_ORDER, Observer, Sample};
use crate::pressure::{Gives, Impose, LIST_NAMES, PressureRequest};
use crate::replay::notes::{Camera, WhoFollower};
use crate::replay::run::probe_mobility;
use crate::replay::{
    FailureCause, ReplayError, ReplayOptions, ReplayOutcome, SAMPLE_MS, SeriesPoint, Start,
    TraceMemory,
};
use crate::trace::{OpKind, TraceOp};
use framewright::stats::ReclaimStats;
use framewright::{Context, CpuId, Frame, Mobility, Order};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Frames that the background can look at in a millisecond of trace time: one a microsecond.
///
/// The machine that recorded the traces had its background look at 1,340 a millisecond, both
/// scanners of compaction included, over the 63.5 seconds of `mixC` (its `vmstat` before and after).
pub const BACKGROUND_FRAMES_PER_MS: u64 = 1000;

/// The order of a huge page.
const HUGE_ORDER: u8 = 9;

/// Replays the trace on a kernel that reclaims and compacts; `contents` is what the trace's objects
/// hold, by id.
///
/// Deterministic: the same memory, options and kernel give the same outcome except
/// [`ReplayOutcome::elapsed`].
///
/// # Errors
/// If the kernel hands a frame out twice, or moves something to a frame that is in use, or the
/// initial layout cannot be imposed.
pub fn replay_with_reclaim(
    policy: &'static str,
    kernel: &mut dyn Impose,
    memory: &TraceMemory<'_>,
    contents: &[ObjectContent],
    options: ReplayOptions,
    done: &AtomicU64,
) -> Result<ReplayOutcome, ReplayError> {
    let trace = memory.trace;
    let objects = trace.init.len() + memory.allocs;
    let observer = Observer::new(trace.nframes, &trace.absent);
    let balloon = usize::try_from(options.squeeze).unwrap_or(usize::MAX);
    let all = objects.saturating_add(balloon.min(trace.nframes as usize));
    let who = options.who.then(|| WhoFollower::new(trace)).flatten();
    let programs = Programs::new(observer, trace.nframes, all, contents).counted(who);
    let gives: [&dyn Gives; 1] = [&programs];
    let mut run = ReclaimRun {
        kernel,
        programs: &programs,
        held: HeldPrograms::new(&programs, &gives),
        options,
        next_id: 0,
        now_ms: 0,
        next_sample_ms: 0,
        next_point_ms: 0,
        at_start: ReclaimStats::default(),
        listing: Duration::ZERO,
        outcome: ReplayOutcome::new(policy, trace.ops.len() as u64),
        stalls: Stalls::default(),
        camera: Camera::new(options.pictures, memory),
        min_watermark: memory.min_watermark,
    };
    run.outcome.requests = memory.requests;
    run.begin(memory)?;
    run.squeeze(objects as u32)?;
    run.look();
    run.at_start = run.kernel.stats();
    let reclaimed_at_start = programs.reclaimed();
    let begun = Instant::now();
    let mut reported = 0;
    for (index, op) in trace.ops.iter().enumerate() {
        let flags = || trace.gfp.get(usize::from(op.gfp)).copied();
        run.step(op, index, flags)?;
        if op.kind() == OpKind::Tick {
            done.fetch_add((index - reported) as u64, Ordering::Relaxed);
            reported = index;
        }
    }
    if options.time {
        run.outcome.elapsed = begun.elapsed().saturating_sub(run.listing);
    }
    done.fetch_add((trace.ops.len() - reported) as u64, Ordering::Relaxed);
    run.stalls.stats = run.kernel.stats().since(&run.at_start);
    run.stalls.reclaimed_objects = programs.reclaimed() - reclaimed_at_start;
    run.outcome.end = programs.observe(|observer| observer.sample(run.now_ms));
    run.outcome.who = programs.counted_by_asker();
    let (camera, now_ms) = (run.camera.take(), run.now_ms);
    run.outcome.film =
        camera.map(|camera| programs.observe(|observer| camera.developed(now_ms, observer)));
    run.outcome.labels = movable_only(run.kernel.labels());
    run.outcome.free_blocks = movable_only(run.kernel.free_blocks());
    if let Some(reclaim) = options.reclaim {
        run.stalls.huge = run.probe_huge(reclaim.huge_probes)?;
    }
    run.outcome.stalls = Some(Box::new(run.stalls));
    Ok(run.outcome)
}

/// Of the document's lists those that are a mobility's, by mobility.
fn movable_only<T: Copy + Default>(lists: [T; LIST_NAMES.len()]) -> [T; 3] {
    let mut by_mobility = [T::default(); 3];
    for mobility in Mobility::ALL {
        let list = LIST_NAMES.iter().position(|&name| name == mobility.name());
        by_mobility[mobility.index()] = list.map_or(T::default(), |list| lists[list]);
    }
    by_mobility
}

/// A replay under way.
struct ReclaimRun<'r, 'a> {
    kernel: &'r mut dyn Impose,
    programs: &'r Programs<'a>,
    held: HeldPrograms<'r, 'a>,
    options: ReplayOptions,
    next_id: u32,
    now_ms: u64,
    next_sample_ms: u64,
    next_point_ms: u64,
    at_start: ReclaimStats,
    listing: Duration,
    outcome: ReplayOutcome,
    stalls: Stalls,
    camera: Option<Camera>,
    min_watermark: u64,
}

impl ReclaimRun<'_, '_> {
    /// A picture, if it is time for one.
    fn look(&mut self) {
        if let Some(camera) = &mut self.camera {
            let now = self.now_ms;
            self.programs.observe(|observer| camera.look(now, observer));
        }
    }

    /// Puts the initial objects in place.
    fn begin(&mut self, memory: &TraceMemory<'_>) -> Result<(), ReplayError> {
        let trace = memory.trace;
        if self.options.start == Start::Imposed {
            for (pageblock, &label) in memory.labels.iter().enumerate() {
                self.kernel.set_label(pageblock as u64, label);
            }
        }
        for (id, object) in trace.init.iter().enumerate() {
            let mobility = object.class.mobility();
            let (frame, order) = (object.frame, Order::ZERO);
            match self.options.start {
                Start::Imposed => {
                    if !self.kernel.alloc_at(frame, order, mobility) {
                        return Err(ReplayError::NotImposed {
                            policy: self.outcome.policy,
                            object: id,
                            frame,
                        });
                    }
                    self.place(id as u32, frame, order, mobility, None)?;
                }
                Start::Fresh => {
                    let request = of_program(order, mobility);
                    match self.alloc(request, None)? {
                        Some(frame) => self.place(id as u32, frame, order, mobility, None)?,
                        None => self.outcome.unplaced += 1,
                    }
                }
            }
        }
        let placed = |id: u32| self.programs.place_of(id);
        for (frame, mobility) in (0..trace.init.len() as u32).filter_map(placed) {
            self.programs.note(|who, _| who.begin(frame, mobility));
        }
        self.programs.mix_coldest();
        self.next_id = trace.init.len() as u32;
        Ok(())
    }

    /// Takes the frames that are to be held back: a program's, which can be moved. As many as there
    /// are: what can be given back is given back for them.
    fn squeeze(&mut self, first: u32) -> Result<(), ReplayError> {
        for taken in 0..self.options.squeeze {
            let request = of_program(Order::ZERO, Mobility::Movable);
            let Some(frame) = self.alloc(request, None)? else {
                // Nothing is freed in between, so no later one would find a frame either.
                self.outcome.unplaced += self.options.squeeze - taken;
                break;
            };
            let id = first.saturating_add(taken as u32);
            self.place(id, frame, Order::ZERO, Mobility::Movable, None)?;
        }
        Ok(())
    }

    #[inline]
    fn step(
        &mut self,
        op: &TraceOp,
        index: usize,
        flags: impl Fn() -> Option<u32>,
    ) -> Result<(), ReplayError> {
        let (cpu, order) = (CpuId(op.cpu()), op.order());
        let request = |flags| PressureRequest {
            cpu,
            order,
            mobility: op.mobility(),
            context: context_of(flags),
        };
        match op.kind() {
            OpKind::Alloc => {
                let asker = self.programs.note(|who, _| who.ask(op)).unwrap_or_default();
                match self.request(request(flags()), index)? {
                    Some(frame) => {
                        self.place(self.next_id, frame, order, op.mobility(), Some(index))?;
                        let served = |who: &mut WhoFollower<'_>, observer: &Observer| {
                            who.serve(asker, op, frame, observer);
                        };
                        self.programs.note(served);
                    }
                    None => {
                        self.programs.note(|who, _| who.fail(asker, op));
                        self.outcome.failures[order.index()] += 1;
                        let sample = self.looked();
                        let log = &mut self.outcome.failed;
                        let cause = FailureCause::of(order.index(), &sample, self.min_watermark);
                        log.note(order.index(), flags(), &sample, cause);
                    }
                }
                self.next_id += 1;
            }
            OpKind::Free => self.free(cpu, op.value, None, order, index)?,
            OpKind::FreePart => {
                self.free(cpu, op.value, Some(u64::from(op.offset)), order, index)?;
            }
            OpKind::Tick => self.tick(u64::from(op.value), index)?,
            OpKind::Failed => {
                self.programs.note(|who, _| who.ask(op));
                let sample = self.looked();
                let log = &mut self.outcome.refused;
                let cause = FailureCause::of(order.index(), &sample, self.min_watermark);
                log.note(order.index(), flags(), &sample, cause);
                let request = request(flags());
                let frame = self.request(request, index)?;
                let retries = &mut self.outcome.retries[order.index()];
                retries.tried += 1;
                if let Some(frame) = frame {
                    retries.served += 1;
                    self.give_back(request, frame, index)?;
                }
            }
        }
        Ok(())
    }

    /// Asks the kernel, and what became of memory meanwhile is checked.
    fn alloc(
        &mut self,
        request: PressureRequest,
        op: Option<usize>,
    ) -> Result<Option<Frame>, ReplayError> {
        self.programs.set_cpu(request.cpu);
        let frame = self.kernel.alloc(&self.held, request);
        self.check(op)?;
        Ok(frame)
    }

    /// A request of the trace.
    #[inline]
    fn request(
        &mut self,
        request: PressureRequest,
        op: usize,
    ) -> Result<Option<Frame>, ReplayError> {
        let is_single = request.order == Order::ZERO;
        let before = if is_single {
            0
        } else {
            self.kernel.stats().compact_stall
        };
        let frame = self.alloc(request, Some(op))?;
        if !is_single {
            let stalls = self.kernel.stats().compact_stall - before;
            self.stalls.compact_stall[request.order.index()] += stalls;
        }
        // Below the watermarks a block may be there and not be for this request.
        if frame.is_none() && self.programs.observe(|o| o.has_free(request.order)) {
            self.outcome.false_failures += 1;
        }
        Ok(frame)
    }

    /// Frees at once what the kernel served. The observer sees it first: here too the kernel may hand
    /// out a frame in use by mistake, and the free would then take that frame from its object.
    fn give_back(
        &mut self,
        request: PressureRequest,
        frame: Frame,
        op: usize,
    ) -> Result<(), ReplayError> {
        let (order, mobility) = (request.order, request.mobility);
        let seen = self.programs.observe(|observer| {
            observer.take(frame, order, mobility)?;
            observer.give(frame, order, mobility)
        });
        seen.map_err(|fault| self.fault(Some(op), fault))?;
        self.kernel.free(request.cpu, frame, order);
        Ok(())
    }

    fn place(
        &mut self,
        id: u32,
        frame: Frame,
        order: Order,
        mobility: Mobility,
        op: Option<usize>,
    ) -> Result<(), ReplayError> {
        let placed = self.programs.place(id, frame, order, mobility);
        placed.map_err(|fault| self.fault(op, fault))
    }

    #[inline]
    fn free(
        &mut self,
        cpu: CpuId,
        id: u32,
        part: Option<u64>,
        order: Order,
        op: usize,
    ) -> Result<(), ReplayError> {
        let freed = self.programs.free(id, part, order);
        match freed.map_err(|fault| self.fault(Some(op), fault))? {
            TraceFree::Block {
                frame,
                is_part: false,
            } => self.kernel.free(cpu, frame, order),
            TraceFree::Block {
                frame,
                is_part: true,
            } => self.kernel.free_part(cpu, frame, order),
            TraceFree::Reclaimed => self.stalls.frees_of_reclaimed += 1,
            TraceFree::Failed => self.outcome.frees_of_failed += 1,
        }
        Ok(())
    }

    /// What memory looks like now.
    fn looked(&self) -> Sample {
        self.programs
            .observe(|observer| observer.sample(self.now_ms))
    }

    fn tick(&mut self, ms: u64, op: usize) -> Result<(), ReplayError> {
        self.now_ms += ms;
        self.programs.set_cpu(CpuId(0));
        let frames = ms.saturating_mul(BACKGROUND_FRAMES_PER_MS);
        self.kernel.background(&self.held, frames);
        self.check(Some(op))?;
        self.look();
        let sample_due = self.now_ms >= self.next_sample_ms;
        let point_due = self.options.every_ms.is_some() && self.now_ms >= self.next_point_ms;
        if !sample_due && !point_due {
            return Ok(());
        }
        let now = self.now_ms;
        let sample = self.programs.observe(|observer| observer.sample(now));
        if let (true, Some(every)) = (point_due, self.options.every_ms) {
            self.next_point_ms = now + every;
            self.outcome.series.push(SeriesPoint {
                sample,
                failures: self.outcome.failures,
                failures_reported: self.outcome.failed.counts.reported,
                fallbacks: [[0; 3]; 3],
                reclaim: Some(self.kernel.stats().since(&self.at_start)),
            });
        }
        if sample_due {
            self.next_sample_ms = now + SAMPLE_MS;
            self.outcome.means.add(&sample);
            let begun = Instant::now();
            let (labels, blocks) = (self.kernel.labels(), self.kernel.free_blocks());
            let lists = &mut self.outcome.lists;
            lists.add(movable_only(labels), movable_only(blocks));
            self.listing += begun.elapsed();
            if let Some(order) = self.options.probe {
                self.probe(order, op)?;
            }
        }
        Ok(())
    }

    /// Tries one allocation, which must not wait: it is to show what is there, not to change it.
    fn probe(&mut self, order: Order, op: usize) -> Result<(), ReplayError> {
        let request = PressureRequest {
            context: Context::NOWAIT,
            ..of_program(order, probe_mobility(order))
        };
        self.outcome.probes.tried += 1;
        if let Some(frame) = self.alloc(request, Some(op))? {
            self.outcome.probes.served += 1;
            self.give_back(request, frame, op)?;
        }
        Ok(())
    }

    /// At the end of the trace, requests huge pages one after another and holds them. No time passes
    /// for the background and no client gives frames back, so that the kernel has only free frames
    /// and compaction to serve them with.
    fn probe_huge(&mut self, probes: u64) -> Result<HugeProbes, ReplayError> {
        let order = Order::new(HUGE_ORDER).unwrap_or(Order::ZERO);
        let before = self.kernel.stats();
        let only_movers = HeldPrograms::new(self.programs, &[]);
        let mut huge = HugeProbes::default();
        self.programs.set_cpu(CpuId(0));
        for _ in 0..probes {
            let request = of_program(order, Mobility::Movable);
            let frame = self.kernel.alloc(&only_movers, request);
            self.check(None)?;
            huge.tries.tried += 1;
            if let Some(frame) = frame {
                huge.tries.served += 1;
                let taken = self
                    .programs
                    .observe(|o| o.take(frame, order, Mobility::Movable));
                taken.map_err(|fault| self.fault(None, fault))?;
            }
        }
        let counted = self.kernel.stats().since(&before);
        huge.migrated = counted.pgmigrate_success;
        huge.scanned = counted.compact_migrate_scanned + counted.compact_free_scanned;
        Ok(huge)
    }

    /// Whether a client saw what no allocator may do.
    #[inline]
    fn check(&self, op: Option<usize>) -> Result<(), ReplayError> {
        match self.programs.fault() {
            None => Ok(()),
            Some(fault) => Err(self.fault(op, fault)),
        }
    }

    #[cold]
    fn fault(&self, op: Option<usize>, fault: crate::measure::AllocatorFault) -> ReplayError {
        ReplayError::Fault {
            policy: self.outcome.policy,
            op,
            fault,
        }
    }
}

/// What a program asks for on the first CPU, and may wait for.
const fn of_program(order: Order, mobility: Mobility) -> PressureRequest {
    PressureRequest {
        cpu: CpuId(0),
        order,
        mobility,
        context: Context::ANY,
    }
}

const _: () = assert!((HUGE_ORDER as usize) < MAX_ORDER);
