//! A case whose operation is timed: one pass with a look at every call, and then repetitions with nothing but the
//! clock, because a look costs more than the operation.

use super::peer::{PeerCase, PeerProgram, RecordedWork, recorded};
use super::timing::{BodyOver, FitThreads, PreparedCase, Rate, SeenCalls, watched};
use crate::experiment::range_metrics as m;
use crate::experiment::timing::{CalibratedClock, Latencies, Quantile, least_and_middle, spread};
use crate::experiment::va_fit::body::{FitBody, Setting};
use crate::experiment::va_fit::plan::{LOOPS_HOST, LOOPS_NULL, cpus};
use crate::experiment::va_fit::variants::{FitVariant, LINUX, VariantWork};
use crate::experiment::{
    Allocator, BEFORE, Failure, Findings, Mapper, SpaceOptions, SubjectCounters,
};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};
use std::marker::PhantomData;

/// A case whose operation is timed.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiment::va_fit) struct TimedCase<'p> {
    pub(in crate::experiment::va_fit) case: &'static str,
    pub(in crate::experiment::va_fit) options: SpaceOptions,
    pub(in crate::experiment::va_fit) clock: CalibratedClock,
    /// Linux's own allocator, if it is there.
    pub(in crate::experiment::va_fit) peer: Option<&'p PeerProgram>,
}

/// What the watched pass of one variant gave.
struct Pass {
    variant: &'static str,
    seen: SeenCalls,
    /// Operations of all threads, those that warm up among them.
    ops: u64,
    counters: SubjectCounters,
}

/// A body whose type is forgotten: what is done around it is compiled once.
pub(super) trait TimedBody {
    /// See [`FitBody::BEFORE_DIVISOR`].
    fn before_divisor(&self) -> Option<u64>;

    /// `work` with the body over a variant's allocator in a fresh window.
    fn on(
        &self,
        variant: FitVariant,
        mapper: Mapper,
        cpus: u16,
        work: &mut CaseWork<'_>,
    ) -> Result<(), Failure>;

    /// The body as Linux's own allocator gets it.
    fn recorded(&self, setting: Setting) -> Result<Box<dyn RecordedWork>, Failure>;
}

/// What is done with a case over an allocator.
type CaseWork<'w> = dyn FnMut(&dyn PreparedCase) -> Result<(), Failure> + 'w;

/// The body `B`.
struct BodyOf<B>(PhantomData<fn() -> B>);

/// The body `B`, its type forgotten.
pub(super) const fn timed_body<B: FitBody + 'static>() -> impl TimedBody {
    BodyOf::<B>(PhantomData)
}

impl<B: FitBody + 'static> TimedBody for BodyOf<B> {
    fn before_divisor(&self) -> Option<u64> {
        B::BEFORE_DIVISOR
    }

    fn on(
        &self,
        variant: FitVariant,
        mapper: Mapper,
        cpus: u16,
        work: &mut CaseWork<'_>,
    ) -> Result<(), Failure> {
        struct Prepare<'w, 'x, B>(&'w mut CaseWork<'x>, PhantomData<fn() -> B>);

        impl<B: FitBody> VariantWork for Prepare<'_, '_, B> {
            type Out = ();

            fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<(), Failure> {
                (self.0)(&BodyOver::<A, B>::new(allocator))
            }
        }

        variant.run(mapper, cpus, Prepare::<B>(work, PhantomData))
    }

    fn recorded(&self, setting: Setting) -> Result<Box<dyn RecordedWork>, Failure> {
        recorded::<B>(setting)
    }
}

impl TimedCase<'_> {
    /// All that is measured of the case, whose body is `B`.
    pub(in crate::experiment::va_fit) fn findings<B: FitBody + 'static>(
        &self,
    ) -> Result<Findings, Failure> {
        self.findings_of(&timed_body::<B>())
    }

    fn findings_of(&self, body: &dyn TimedBody) -> Result<Findings, Failure> {
        let times = self.times(&self.batches(body)?);
        let mut findings = Findings::from(times);
        for pass in self.passes(body)? {
            let counted = self.counted(&pass, body.before_divisor().is_some());
            findings.figures.extend(counted);
            let of =
                |latencies: &Latencies, call| latencies.distribution(self.case, pass.variant, call);
            let calls = [of(&pass.seen.allocs, "alloc"), of(&pass.seen.frees, "free")];
            findings.latencies.extend(calls);
        }
        self.peer_pass(body, &mut findings)?;
        Ok(findings)
    }

    fn loops(&self, body: &dyn TimedBody, variant: &'static str) -> u64 {
        let loops = self.options.loops.unwrap_or(match self.options.mapper {
            Mapper::Null => LOOPS_NULL,
            Mapper::Host => LOOPS_HOST,
        });
        match (variant, body.before_divisor()) {
            (BEFORE, Some(divisor)) => (loops / divisor).max(1),
            _ => loops,
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            mapper: self.options.mapper,
            seed: self.options.seed,
            thread: 0,
        }
    }

    /// The variants that have something comparable, by their order.
    fn variants(&self, body: &dyn TimedBody) -> impl Iterator<Item = FitVariant> + use<> {
        let has_lists = body.before_divisor().is_some();
        let all = FitVariant::all(self.options.mapper).iter().copied();
        all.filter(move |variant| has_lists || !variant.is_list())
    }

    /// What `work` makes of the case over a variant's allocator, which has done nothing before.
    fn on<T>(
        &self,
        body: &dyn TimedBody,
        variant: FitVariant,
        work: impl Fn(&dyn PreparedCase) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut out = Err(Failure::new("the variant was not run"));
        let cpus = cpus(self.options.threads);
        let ran = body.on(variant, self.options.mapper, cpus, &mut |case| {
            out = work(case);
            Ok(())
        });
        ran.and(out).map_err(|e| e.of(self.case, variant.name()))
    }

    /// All variants by turns, repetition by repetition, each on a fresh allocator: one process may not have that many
    /// mappings that all are there at once.
    pub(super) fn batches(&self, body: &dyn TimedBody) -> Result<Vec<Rates>, Failure> {
        let mut all: Vec<Rates> = Vec::new();
        let mut linux = Rates::of(LINUX);
        for _ in 0..self.options.repeat {
            for (nth, variant) in self.variants(body).enumerate() {
                let (alone, rate) =
                    self.on(body, variant, |case| self.batch(body, variant, case))?;
                if all.len() == nth {
                    all.push(Rates::of(variant.name()));
                }
                all[nth].alone.extend(alone);
                all[nth].all.push(rate);
            }
            if let Some(mut case) = self.peer_case(body)? {
                let rate = case.repetition().map_err(|e| e.of(self.case, LINUX))?;
                linux.all.push(rate);
            }
        }
        if !linux.all.is_empty() {
            all.push(linux);
        }
        Ok(all)
    }

    /// One repetition: with the first thread alone, if there are several, and with all.
    fn batch(
        &self,
        body: &dyn TimedBody,
        variant: FitVariant,
        case: &dyn PreparedCase,
    ) -> Result<(Option<Rate>, Rate), Failure> {
        let (loops, count) = (self.loops(body, variant.name()), self.options.threads);
        let mut threads = FitThreads::prepare(case, count, loops, self.setting())?;
        let alone = if count > 1 {
            Some(threads.repetition(false)?)
        } else {
            None
        };
        Ok((alone, threads.repetition(true)?))
    }

    /// The case in Linux's own allocator, which has one thread and maps nothing.
    fn peer_case(&self, body: &dyn TimedBody) -> Result<Option<PeerCase<'_>>, Failure> {
        let fits = self.options.threads == 1 && self.options.mapper == Mapper::Null;
        let Some(peer) = self.peer.filter(|_| fits) else {
            return Ok(None);
        };
        let cpus = cpus(self.options.threads);
        let work = body.recorded(self.setting());
        let case = work.and_then(|work| {
            let loops = self.loops(body, LINUX);
            PeerCase::prepare(peer, cpus, loops, work)
        });
        case.map(Some).map_err(|e| e.of(self.case, LINUX))
    }

    /// The pass with a look at every call, of Linux's own allocator.
    fn peer_pass(&self, body: &dyn TimedBody, findings: &mut Findings) -> Result<(), Failure> {
        let Some(mut case) = self.peer_case(body)? else {
            return Ok(());
        };
        let watched = case.watched(self.clock);
        let (allocs, frees, counters) = watched.map_err(|e| e.of(self.case, LINUX))?;
        let mut push = |metric, value| findings.figures.push(self.figure(LINUX, metric, value));
        for quantile in Quantile::ALL {
            push(m::ALLOC_NS.of(quantile as usize), allocs.at(quantile));
            push(m::FREE_NS.of(quantile as usize), frees.at(quantile));
        }
        let loops = self.loops(body, LINUX);
        push(m::OPS, (loops + loops / 10) as f64);
        push(m::LAZY_PAGES_PEAK, counters.lazy_pages_peak as f64);
        push(m::LAZY_PAGES_BOUND, counters.lazy_pages_bound as f64);
        push(m::TLB_FLUSHES, counters.tlb_flushes as f64);
        let of = |latencies: &Latencies, call| latencies.distribution(self.case, LINUX, call);
        findings
            .latencies
            .extend([of(&allocs, "alloc"), of(&frees, "free")]);
        Ok(())
    }

    /// The pass with a look at every call, of each variant.
    fn passes(&self, body: &dyn TimedBody) -> Result<Vec<Pass>, Failure> {
        let threads = self.options.threads;
        self.variants(body)
            .map(|variant| {
                let loops = self.loops(body, variant.name());
                self.on(body, variant, |case| {
                    Ok(Pass {
                        variant: variant.name(),
                        seen: watched(case, threads, loops, self.setting(), self.clock)?,
                        ops: u64::from(threads) * (loops + loops / 10),
                        counters: case.counters(),
                    })
                })
            })
            .collect()
    }

    fn figure(&self, variant: &'static str, metric: Metric, value: f64) -> Figure {
        let source = if m::is_timed(metric) {
            FigureSource::Measured
        } else {
            self.options.mapper.counted()
        };
        Figure {
            case: self.case.to_owned(),
            variant,
            metric,
            value,
            source,
        }
    }

    fn times(&self, all: &[Rates]) -> Vec<Figure> {
        let before = all.iter().find(|rates| rates.variant == BEFORE);
        let mut figures = Vec::new();
        for rates in all {
            let mut push = |metric, value| figures.push(self.figure(rates.variant, metric, value));
            let [least, middle, most] = spread(&rates.op_ns());
            push(m::OP_NS_MIN, least);
            push(m::OP_NS_MEDIAN, middle);
            push(m::OP_NS_MAX, most);
            if let Some(before) = before.filter(|_| rates.variant != BEFORE) {
                let turns = rates.op_ns().into_iter().zip(before.op_ns());
                let ratios: Vec<f64> = turns.map(|(own, before)| own / before).collect();
                let [least, middle, most] = spread(&ratios);
                push(m::TIME_VS_BEFORE, middle);
                push(m::TIME_VS_BEFORE_MIN, least);
                push(m::TIME_VS_BEFORE_MAX, most);
            }
            if !rates.alone.is_empty() {
                let (throughput, speedup) = rates.scaling();
                push(m::OPS_PER_SECOND, throughput);
                push(m::SPEEDUP, speedup);
                push(m::SPEEDUP_CPU, rates.cpu_scaling(self.options.threads));
            }
        }
        figures
    }

    fn counted(&self, pass: &Pass, has_before: bool) -> Vec<Figure> {
        let mut figures = Vec::new();
        let mut push = |metric, value| figures.push(self.figure(pass.variant, metric, value));
        for quantile in Quantile::ALL {
            if !pass.seen.allocs.is_empty() {
                push(
                    m::ALLOC_NS.of(quantile as usize),
                    pass.seen.allocs.at(quantile),
                );
            }
            if !pass.seen.frees.is_empty() {
                push(
                    m::FREE_NS.of(quantile as usize),
                    pass.seen.frees.at(quantile),
                );
            }
        }
        let counters = &pass.counters;
        push(m::OPS, pass.ops as f64);
        push(m::AREA_ALLOCS, counters.area_allocs as f64);
        push(m::VA_SPAN_BYTES, pass.seen.span_bytes() as f64);
        push(m::LAZY_PAGES_PEAK, counters.lazy_pages_peak as f64);
        push(m::LAZY_PAGES_BOUND, counters.lazy_pages_bound as f64);
        if let Some(most) = counters.lazy_pages_most {
            push(m::LAZY_PAGES_MOST, most as f64);
        }
        push(m::TLB_FLUSHES, counters.tlb_flushes as f64);
        if !has_before {
            push(m::BLOCK_FREES, counters.block_frees as f64);
        }
        if let Some(fits) = counters.fits.filter(|_| has_before) {
            let metrics = [
                m::FITS_FULL,
                m::FITS_LEFT_EDGE,
                m::FITS_RIGHT_EDGE,
                m::FITS_NO_EDGE,
            ];
            for (metric, fits) in metrics.into_iter().zip(fits) {
                push(metric, fits as f64);
            }
        }
        if let Some(walked) = counters.areas_walked {
            push(m::AREAS_WALKED, walked as f64);
        }
        if pass.seen.failed > 0 {
            push(m::FAILED, pass.seen.failed as f64);
        }
        figures
    }
}

/// The repetitions of one variant.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    pub(super) variant: &'static str,
    all: Vec<Rate>,
    /// Of the first thread alone, where there are several.
    alone: Vec<Rate>,
}

impl Rates {
    const fn of(variant: &'static str) -> Self {
        Self {
            variant,
            all: Vec::new(),
            alone: Vec::new(),
        }
    }

    /// Of each repetition.
    pub(super) fn op_ns(&self) -> Vec<f64> {
        self.all.iter().map(|rate| rate.op_ns).collect()
    }

    /// The best throughput of all threads, and that over the best of one thread. The best, because
    /// other processes on the machine can only make either less.
    fn scaling(&self) -> (f64, f64) {
        let most = |rates: &[Rate]| rates.iter().map(|r| r.ops_per_second).fold(0.0, f64::max);
        let (all, one) = (most(&self.all), most(&self.alone));
        (all, if one > 0.0 { all / one } else { 0.0 })
    }

    /// What the throughput would be over that of one, had each thread a CPU to itself all the time:
    /// what the threads' caches do to each other is in it, sleeping for a lock is not.
    fn cpu_scaling(&self, threads: u16) -> f64 {
        let least = |rates: &[Rate]| {
            let times: Vec<f64> = rates.iter().map(|rate| rate.cpu_ns).collect();
            least_and_middle(&times).0
        };
        let (all, one) = (least(&self.all), least(&self.alone));
        f64::from(threads) * if all > 0.0 { one / all } else { 0.0 }
    }
}
