//! One replay: the loop over the operations, what it counts, and the values of its metrics.

use super::compaction::{RecordedCompaction, ReplayedFrames};
use super::interleaving::interleaved;
use super::notes::{Camera, WhoFollower};
use super::{
    BackgroundRuns, FailureCause, FailureLog, RecordedRequest, ReplayAnswer, ReplayError,
    ReplaySubject, Stalls, Start, TraceMemory, TraceObjects, Tries, USUAL_FLAGS, WhoTally, given,
};
use crate::measure::replay as m;
use crate::measure::{Film, ListMeans, MAX_ORDER, Means, Metric, Observer, Sample};
use crate::trace::{OpKind, RequestCounts, TraceOp};
use framewright::stats::ReclaimStats;
use framewright::{CpuId, Mobility, Order};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Trace time between two samples that enter a mean.
pub const SAMPLE_MS: u64 = 1000;

/// What a replay is asked to do besides following the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Where the initial objects come to lie.
    pub start: Start,
    /// Movable frames taken one by one after the initial objects and held to the end.
    pub squeeze: u64,
    /// Try one allocation of this order at each trace second, and free it at once.
    pub probe: Option<Order>,
    /// Keep a point of the series whenever this many milliseconds of trace time have passed.
    pub every_ms: Option<u64>,
    /// Requests that cannot be served at once reclaim and compact.
    pub reclaim: Option<ReclaimOptions>,
    /// Take at most this many pictures of the pageblocks, evenly over trace time; none with 0.
    pub pictures: u32,
    /// Take the time of the operations.
    pub time: bool,
    /// Count by asker, where the recording names the askers.
    pub who: bool,
    /// Do what compaction did while the machine was recorded, where the recording says what it moved.
    pub compaction: bool,
    /// The order of the operations: 0 is the recorded one, any other number one that other timing could have made. A replay
    /// that reclaims or counts by asker keeps the recorded one.
    pub interleaving: u32,
}

/// What a replay that reclaims does besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReclaimOptions {
    /// After the trace, request this many huge pages and hold them.
    pub huge_probes: u64,
}

impl ReplayOptions {
    /// Start mode and nothing else.
    #[must_use]
    pub const fn new(start: Start) -> Self {
        Self {
            start,
            squeeze: 0,
            probe: None,
            every_ms: None,
            reclaim: None,
            pictures: 0,
            time: false,
            who: false,
            compaction: true,
            interleaving: 0,
        }
    }
}

/// One point of a series over trace time: counts are of what happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesPoint {
    /// Memory at that moment.
    pub sample: Sample,
    /// Failed allocations so far, by order.
    pub failures: [u64; MAX_ORDER + 1],
    /// Of those, the ones that could have been printed.
    pub failures_reported: [u64; MAX_ORDER + 1],
    /// Fallbacks so far, `[wanted][taken from]`.
    pub fallbacks: [[u64; 3]; 3],
    /// What reclaim and compaction have counted so far, in a replay that has them.
    pub reclaim: Option<ReclaimStats>,
}

/// What became of memory under one policy.
#[derive(Debug, Clone)]
pub struct ReplayOutcome {
    /// The policy's name.
    pub policy: &'static str,
    /// Means over the samples, one a trace second.
    pub means: Means,
    /// Means of what the policy says of its own lists, at the same samples.
    pub lists: ListMeans,
    /// The series, where one was asked for.
    pub series: Vec<SeriesPoint>,
    /// The state after the last operation.
    pub end: Sample,
    /// Pictures of the pageblocks, where some were asked for.
    pub film: Option<Film>,
    /// Failed allocations, by order.
    pub failures: [u64; MAX_ORDER + 1],
    /// Failed requests, probes included, while a free block of the order existed.
    pub false_failures: u64,
    /// Requests that the recording machine served and that would have waited here, by order: served below the marks.
    pub stalled: [u64; MAX_ORDER + 1],
    /// Of the requests that failed on the recording machine, those that fail here, too.
    pub met: FailureLog,
    /// The requests that failed on the recording machine, by order: tried, and freed at once.
    pub retries: [Tries; MAX_ORDER + 1],
    /// The probes of [`ReplayOptions::probe`].
    pub probes: Tries,
    /// Initial objects and squeezed frames that found no place.
    pub unplaced: u64,
    /// Frees of objects whose allocation had failed: passed over.
    pub frees_of_failed: u64,
    /// Fallbacks during the trace, `[wanted][taken from]`, as the policy itself counts them.
    pub fallbacks: [[u64; 3]; 3],
    /// Pageblocks by label at the end, as the policy itself counts them.
    pub labels: [u64; 3],
    /// Free blocks by label and order at the end, as the policy itself lists them.
    pub free_blocks: [[u64; MAX_ORDER + 1]; 3],
    /// The requests of the trace, by what their flags say.
    pub requests: RequestCounts,
    /// The failed ones.
    pub failed: FailureLog,
    /// The requests that failed on the recording machine, and what memory looked like here when they came.
    pub refused: FailureLog,
    /// What each asker has, where that was wanted and the recording names the askers.
    pub who: Option<WhoTally>,
    /// What requests cost that could not be served at once, in a replay that reclaims.
    pub stalls: Option<Box<Stalls>>,
    /// Frames that were moved because compaction did so on the recording machine.
    pub moved: u64,
    /// Operations of the trace.
    pub ops: u64,
    /// Wall time of the operations, allocator and observer together, without the start; zero where it was not asked
    /// for, so that the same input gives the same figures.
    pub elapsed: Duration,
}

impl ReplayOutcome {
    /// Nothing yet, under `policy`, of a trace of `ops` operations.
    pub(crate) fn new(policy: &'static str, ops: u64) -> Self {
        Self {
            policy,
            means: Means::default(),
            lists: ListMeans::default(),
            series: Vec::new(),
            end: Sample::default(),
            film: None,
            failures: [0; MAX_ORDER + 1],
            false_failures: 0,
            stalled: [0; MAX_ORDER + 1],
            met: FailureLog::default(),
            retries: [Tries::default(); MAX_ORDER + 1],
            probes: Tries::default(),
            unplaced: 0,
            frees_of_failed: 0,
            fallbacks: [[0; 3]; 3],
            labels: [0; 3],
            free_blocks: [[0; MAX_ORDER + 1]; 3],
            requests: RequestCounts::default(),
            failed: FailureLog::default(),
            refused: FailureLog::default(),
            who: None,
            stalls: None,
            moved: 0,
            ops,
            elapsed: Duration::ZERO,
        }
    }

    /// Nanoseconds of wall time an operation of the trace took, allocator and observer together.
    #[must_use]
    pub fn ns_per_op(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.ops.max(1) as f64
    }

    /// Requests that were served from a pageblock of another mobility, as the policy itself counts them.
    #[must_use]
    pub fn mixing_fallbacks(&self) -> u64 {
        let rows = self.fallbacks.iter().enumerate();
        let others = rows.flat_map(|(wanted, row)| {
            let each = row.iter().enumerate();
            each.filter(move |&(taken, _)| taken != wanted)
        });
        others.map(|(_, count)| count).sum()
    }

    /// Every metric that the run has a value for: without a sample, or with nothing retried or probed, there are
    /// fewer.
    #[must_use]
    pub fn values(&self) -> BTreeMap<Metric, f64> {
        let mut values: BTreeMap<Metric, f64> = self.means.values().into_iter().collect();
        values.extend([
            (m::FALSE_FAILURES, self.false_failures as f64),
            (m::UNPLACED_FRAMES, self.unplaced as f64),
            (m::FREES_OF_FAILED, self.frees_of_failed as f64),
        ]);
        if self.moved > 0 {
            values.insert(m::MOVED_FRAMES, self.moved as f64);
        }
        values.extend(self.probes.values(m::PROBES, m::PROBES_SERVED));
        for order in 0..=MAX_ORDER {
            values.insert(m::FAILURES.of(order), self.failures[order] as f64);
            values.extend(by_flags(order, &self.requests, &self.failed.counts));
            let (tried, served) = (m::RETRIED.of(order), m::RETRIES_SERVED.of(order));
            values.extend(self.retries[order].values(tried, served));
        }
        if self.stalled != [0; MAX_ORDER + 1] {
            let of = |order| (m::STALLED.of(order), self.stalled[order] as f64);
            values.extend((0..=MAX_ORDER).map(of));
        }
        if self.means.samples() > 0 {
            for label in Mobility::ALL {
                let at = label.index();
                values.insert(m::PAGEBLOCKS.of(at), self.lists.pageblocks(label));
                values.extend((0..=MAX_ORDER).map(|order| {
                    let free = self.lists.free_blocks(label, order);
                    (m::LISTED_BLOCKS.of_two(at, order), free)
                }));
            }
        }
        match &self.stalls {
            Some(stalls) => values.extend(stalls.values()),
            // The kernels that reclaim do not say.
            None => values.extend(self.fallbacks()),
        }
        if self.elapsed > Duration::ZERO {
            values.insert(m::REPLAY_NS_PER_OP, self.ns_per_op());
        }
        values
    }

    fn fallbacks(&self) -> impl Iterator<Item = (Metric, f64)> {
        let all = (0..3).flat_map(|wanted| (0..3).map(move |taken| (wanted, taken)));
        let pairs = all.filter(|(wanted, taken)| wanted != taken);
        pairs.enumerate().map(|(nth, (wanted, taken))| {
            (m::FALLBACKS.of(nth), self.fallbacks[wanted][taken] as f64)
        })
    }
}

/// What failed of the requests of an order by what their flags say, and how many of each there were.
pub(crate) fn by_flags(
    order: usize,
    requests: &RequestCounts,
    failed: &RequestCounts,
) -> impl Iterator<Item = (Metric, f64)> {
    let all = [
        (m::REQUESTS, requests.all, m::FAILURES, failed.all),
        (
            m::REQUESTS_REPORTED,
            requests.reported,
            m::FAILURES_REPORTED,
            failed.reported,
        ),
        (
            m::REQUESTS_NO_RECLAIM,
            requests.no_reclaim,
            m::FAILURES_NO_RECLAIM,
            failed.no_reclaim,
        ),
        (
            m::REQUESTS_OPTIONAL,
            requests.optional,
            m::FAILURES_OPTIONAL,
            failed.optional,
        ),
    ];
    let of = move |(asked, requests, failures, failed): (
        Metric,
        [u64; MAX_ORDER + 1],
        Metric,
        [u64; MAX_ORDER + 1],
    )| {
        [
            (asked.of(order), requests[order]),
            (failures.of(order), failed[order]),
        ]
    };
    let is_any = requests.all[order] > 0;
    let values = all.into_iter().flat_map(of).filter(move |_| is_any);
    values.map(|(metric, count)| (metric, count as f64))
}

/// Replays the trace on one subject.
///
/// `done` counts operations finished; another thread may show it as progress. Deterministic: the same
/// memory, options and policy give the same outcome except [`ReplayOutcome::elapsed`].
///
/// # Errors
/// If the subject hands a frame out twice or refuses a free, or the initial layout cannot be
/// imposed; a replay does not go on with a state that has lost its meaning.
pub fn replay(
    subject: &mut dyn ReplaySubject,
    memory: &TraceMemory<'_>,
    options: ReplayOptions,
    done: &AtomicU64,
) -> Result<ReplayOutcome, ReplayError> {
    let mut run = ReplayRun::start(subject, memory, options)?;
    run.fallbacks_at_start = run.subject.fallbacks();
    run.outcome.requests = memory.requests;
    let min = memory.min_watermark;
    let flags = |op: &TraceOp| memory.trace.gfp.get(usize::from(op.gfp)).copied();
    if memory.background.is_some() {
        run.subject.follow_background();
    }
    let recorded = memory.background.as_ref();
    let mut steps = recorded.map_or(&[][..], BackgroundRuns::steps);
    let begun = Instant::now();
    let mut reported = 0;
    let ops = &memory.trace.ops;
    let order = match options.interleaving {
        0 => None,
        _ if options.who => None,
        seed => Some(interleaved(memory.trace, seed)),
    };
    for place in 0..ops.len() {
        while let Some((&(at, step), rest)) = steps.split_first()
            && at as usize <= place
        {
            run.subject.background(step);
            steps = rest;
        }
        run.compact(place)?;
        let index = match &order {
            None => place,
            Some(order) => {
                run.next_id = order[place].object as usize;
                order[place].index as usize
            }
        };
        let op = &ops[index];
        let (cpu, order) = (CpuId(op.cpu()), op.order());
        match op.kind() {
            OpKind::Alloc => {
                let mobility = op.mobility();
                let request = RecordedRequest {
                    cpu,
                    order,
                    mobility,
                    flags: flags(op),
                    is_served: true,
                };
                let asker = run
                    .who
                    .as_mut()
                    .map(|who| (who.ask(op), fallen_back(run.subject)));
                let answer = run.request(request, index)?;
                if let (Some(who), Some((asker, before))) = (&mut run.who, asker) {
                    who.fall_back(asker, fallen_back(run.subject) - before);
                    match answer.frame() {
                        Some(frame) => who.serve(asker, op, frame, &run.observer),
                        None => who.fail(asker, op),
                    }
                }
                match answer {
                    ReplayAnswer::Served(frame) => run.place(frame, order, mobility),
                    ReplayAnswer::Stalled(frame) => {
                        run.outcome.stalled[order.index()] += 1;
                        run.place(frame, order, mobility);
                    }
                    ReplayAnswer::Refused(cause) => {
                        run.outcome.failures[order.index()] += 1;
                        let sample = run.looked();
                        let cause =
                            cause.unwrap_or_else(|| FailureCause::of(order.index(), &sample, min));
                        let log = &mut run.outcome.failed;
                        log.note(order.index(), flags(op), &sample, cause);
                    }
                }
                run.next_id += 1;
            }
            OpKind::Free => match run.objects.get(op.value) {
                Some((frame, mobility)) => {
                    run.objects.forget(op.value);
                    if let Some(compaction) = &mut run.compaction {
                        compaction.forget(frame);
                    }
                    if let Some(who) = &mut run.who {
                        who.free(frame, order);
                    }
                    run.free(cpu, frame, order, mobility, index)?;
                }
                None => run.outcome.frees_of_failed += 1,
            },
            OpKind::FreePart => match run.objects.get(op.value) {
                Some((frame, mobility)) => {
                    let part = framewright::Frame(frame.0 + u64::from(op.offset));
                    if let Some(compaction) = &mut run.compaction {
                        compaction.forget(frame);
                    }
                    if let Some(who) = &mut run.who {
                        who.free(part, order);
                    }
                    run.free(cpu, part, order, mobility, index)?;
                }
                None => run.outcome.frees_of_failed += 1,
            },
            OpKind::Tick => {
                run.tick(u64::from(op.value), index)?;
                done.fetch_add((place - reported) as u64, Ordering::Relaxed);
                reported = place;
            }
            OpKind::Failed => {
                if let Some(who) = &mut run.who {
                    who.ask(op);
                }
                let sample = run.looked();
                let request = RecordedRequest {
                    cpu,
                    order,
                    mobility: op.mobility(),
                    flags: flags(op),
                    is_served: false,
                };
                let answer = run.try_once(request, index)?;
                let retries = &mut run.outcome.retries[order.index()];
                retries.tried += 1;
                let (is_met, cause) = match answer {
                    ReplayAnswer::Served(_) | ReplayAnswer::Stalled(_) => {
                        retries.served += 1;
                        (false, None)
                    }
                    ReplayAnswer::Refused(cause) => (true, cause),
                };
                let cause = cause.unwrap_or_else(|| FailureCause::of(order.index(), &sample, min));
                let outcome = &mut run.outcome;
                let met = is_met.then_some(&mut outcome.met);
                for log in [&mut outcome.refused].into_iter().chain(met) {
                    log.note(order.index(), flags(op), &sample, cause);
                }
            }
        }
    }
    run.compact(memory.trace.ops.len())?;
    if options.time {
        run.outcome.elapsed = begun.elapsed().saturating_sub(run.listing);
    }
    done.fetch_add(
        (memory.trace.ops.len() - reported) as u64,
        Ordering::Relaxed,
    );
    Ok(run.finish())
}

/// How often the policy has fallen back so far, all pairs together.
fn fallen_back(subject: &dyn ReplaySubject) -> u64 {
    let pairs = subject.fallbacks();
    let of = |wanted: usize| {
        (0..3)
            .filter(move |&taken| taken != wanted)
            .map(move |taken| pairs[wanted][taken])
    };
    (0..3).flat_map(of).sum()
}

/// A replay under way.
struct ReplayRun<'a> {
    subject: &'a mut dyn ReplaySubject,
    options: ReplayOptions,
    observer: Observer,
    objects: TraceObjects,
    next_id: usize,
    now_ms: u64,
    next_sample_ms: u64,
    next_point_ms: u64,
    fallbacks_at_start: [[u64; 3]; 3],
    listing: Duration,
    camera: Option<Camera>,
    who: Option<WhoFollower<'a>>,
    compaction: Option<RecordedCompaction<'a>>,
    outcome: ReplayOutcome,
}

impl<'a> ReplayRun<'a> {
    fn start(
        subject: &'a mut dyn ReplaySubject,
        memory: &TraceMemory<'a>,
        options: ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let mut observer = Observer::new(memory.trace.nframes, &memory.trace.absent);
        let mut objects = TraceObjects::new(memory.trace.init.len() + memory.allocs);
        let unplaced = given::begin(
            subject,
            &mut observer,
            &mut objects,
            memory,
            options.start,
            options.squeeze,
        )?;
        let mut who = options
            .who
            .then(|| WhoFollower::new(memory.trace))
            .flatten();
        if let Some(who) = &mut who {
            let placed = (0..memory.trace.init.len() as u32).filter_map(|id| objects.get(id));
            placed.for_each(|(frame, mobility)| who.begin(frame, mobility));
        }
        let mut compaction = (options.compaction)
            .then(|| RecordedCompaction::new(&memory.trace.moves, memory.trace.nframes))
            .flatten();
        if let Some(compaction) = &mut compaction {
            for id in 0..memory.trace.init.len() {
                if let Some((frame, mobility)) = objects.get(id as u32) {
                    compaction.place(id, frame, Order::ZERO, mobility);
                }
            }
        }
        let mut outcome = ReplayOutcome::new(subject.name(), memory.trace.ops.len() as u64);
        outcome.unplaced = unplaced;
        let mut camera = Camera::new(options.pictures, memory);
        if let Some(camera) = &mut camera {
            camera.look(0, &mut observer);
        }
        Ok(Self {
            subject,
            options,
            observer,
            objects,
            next_id: memory.trace.init.len(),
            now_ms: 0,
            next_sample_ms: 0,
            next_point_ms: 0,
            fallbacks_at_start: [[0; 3]; 3],
            listing: Duration::ZERO,
            camera,
            who,
            compaction,
            outcome,
        })
    }

    /// Does what compaction did before operation `op`.
    #[inline]
    fn compact(&mut self, op: usize) -> Result<(), ReplayError> {
        let Some(compaction) = &mut self.compaction else {
            return Ok(());
        };
        let mut frames = ReplayedFrames {
            subject: self.subject,
            observer: &mut self.observer,
            objects: &mut self.objects,
            who: self.who.as_mut(),
        };
        let ran = compaction.run(op, &mut frames);
        ran.map_err(|fault| self.fault(op, fault))
    }

    /// The next object is there.
    #[inline]
    fn place(&mut self, frame: framewright::Frame, order: Order, mobility: Mobility) {
        self.objects.place(self.next_id, frame, mobility);
        if let Some(compaction) = &mut self.compaction {
            compaction.place(self.next_id, frame, order, mobility);
        }
    }

    #[inline]
    fn request(
        &mut self,
        request: RecordedRequest,
        op: usize,
    ) -> Result<ReplayAnswer, ReplayError> {
        let RecordedRequest {
            order, mobility, ..
        } = request;
        let answer = self.subject.request(request);
        let Some(frame) = answer.frame() else {
            // An allocator that says why has more reasons than the want of a block.
            if answer == ReplayAnswer::Refused(None) && self.observer.has_free(order) {
                self.outcome.false_failures += 1;
            }
            return Ok(answer);
        };
        match self.observer.take(frame, order, mobility) {
            Ok(()) => Ok(answer),
            Err(fault) => Err(self.fault(op, fault)),
        }
    }

    #[inline]
    fn free(
        &mut self,
        cpu: CpuId,
        frame: framewright::Frame,
        order: Order,
        mobility: Mobility,
        op: usize,
    ) -> Result<(), ReplayError> {
        if let Err(fault) = self.observer.give(frame, order, mobility) {
            return Err(self.fault(op, fault));
        }
        match self.subject.free(cpu, frame, order) {
            Ok(()) => Ok(()),
            Err(refused) => Err(ReplayError::Refused {
                policy: self.outcome.policy,
                op,
                frame,
                order,
                refused,
            }),
        }
    }

    /// Allocates and frees at once; what became of it.
    fn try_once(
        &mut self,
        request: RecordedRequest,
        op: usize,
    ) -> Result<ReplayAnswer, ReplayError> {
        let answer = self.request(request, op)?;
        if let Some(frame) = answer.frame() {
            self.free(request.cpu, frame, request.order, request.mobility, op)?;
        }
        Ok(answer)
    }

    /// What memory looks like now.
    fn looked(&mut self) -> Sample {
        self.observer.sample(self.now_ms)
    }

    fn tick(&mut self, ms: u64, op: usize) -> Result<(), ReplayError> {
        self.now_ms += ms;
        self.subject.pass_time(ms);
        if let Some(camera) = &mut self.camera {
            camera.look(self.now_ms, &mut self.observer);
        }
        let sample_due = self.now_ms >= self.next_sample_ms;
        let point_due = self.options.every_ms.is_some() && self.now_ms >= self.next_point_ms;
        if !sample_due && !point_due {
            return Ok(());
        }
        let sample = self.observer.sample(self.now_ms);
        if let (true, Some(every)) = (point_due, self.options.every_ms) {
            self.next_point_ms = self.now_ms + every;
            self.outcome.series.push(SeriesPoint {
                sample,
                failures: self.outcome.failures,
                failures_reported: self.outcome.failed.counts.reported,
                fallbacks: self.fallbacks(),
                reclaim: None,
            });
        }
        if sample_due {
            self.next_sample_ms = self.now_ms + SAMPLE_MS;
            self.outcome.means.add(&sample);
            self.sample_lists();
            if let Some(order) = self.options.probe {
                // As one that may wait: what is asked is whether there is a block.
                let request = RecordedRequest {
                    cpu: CpuId(0),
                    order,
                    mobility: probe_mobility(order),
                    flags: Some(USUAL_FLAGS),
                    is_served: true,
                };
                let answer = self.try_once(request, op)?;
                self.outcome.probes.tried += 1;
                self.outcome.probes.served += u64::from(answer.frame().is_some());
            }
        }
        Ok(())
    }

    /// Asks the policy for its lists, on time of its own: what a reader may want to see is not part
    /// of what an operation costs.
    fn sample_lists(&mut self) {
        let begun = Instant::now();
        let lists = &mut self.outcome.lists;
        lists.add(self.subject.labels(), self.subject.free_blocks());
        self.listing += begun.elapsed();
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        let mut fallbacks = self.subject.fallbacks();
        for (now, before) in fallbacks.iter_mut().zip(self.fallbacks_at_start) {
            for (now, before) in now.iter_mut().zip(before) {
                *now -= before;
            }
        }
        fallbacks
    }

    fn finish(mut self) -> ReplayOutcome {
        self.outcome.end = self.observer.sample(self.now_ms);
        let camera = self.camera.take();
        self.outcome.film = camera.map(|camera| camera.developed(self.now_ms, &mut self.observer));
        let who = self.who.take();
        self.outcome.who = who.map(|who| who.finish(&self.observer));
        self.outcome.fallbacks = self.fallbacks();
        self.outcome.moved = (self.compaction.as_ref()).map_or(0, |compaction| compaction.moved);
        self.outcome.labels = self.subject.labels();
        self.outcome.free_blocks = self.subject.free_blocks();
        self.outcome
    }

    #[cold]
    fn fault(&self, op: usize, fault: crate::measure::AllocatorFault) -> ReplayError {
        ReplayError::Fault {
            policy: self.outcome.policy,
            op: Some(op),
            fault,
        }
    }
}

/// The mobility with which blocks of this order are requested in practice. Below a pageblock the kernel
/// requests them (stacks, slabs, rings), from a pageblock on programs that want a huge page.
pub(super) const fn probe_mobility(order: Order) -> Mobility {
    if order.get() < crate::measure::BLOCK_ORDER {
        Mobility::Unmovable
    } else {
        Mobility::Movable
    }
}
