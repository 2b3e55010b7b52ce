//! A case whose operation is timed: one pass with a look at every call, and then repetitions with nothing but the
//! clock, because a look costs more than the operation.

use super::peer::{PeerCase, PeerProgram};
use super::timing::{Rate, SeenCalls, Threads, watched};
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

/// One repetition of a variant: with the first thread alone, if there are several, and with all.
struct Batch<'t, B> {
    timed: &'t TimedCase<'t>,
    body: PhantomData<fn() -> B>,
}

impl<B: FitBody> VariantWork for Batch<'_, B> {
    type Out = (Option<Rate>, Rate);

    fn with<A: Allocator>(
        &self,
        variant: &'static str,
        allocator: &A,
    ) -> Result<Self::Out, Failure> {
        let mut threads = self.timed.threads::<A, B>(variant, allocator)?;
        let alone = if self.timed.options.threads > 1 {
            Some(threads.repetition(false)?)
        } else {
            None
        };
        Ok((alone, threads.repetition(true)?))
    }
}

/// The pass with a look at every call.
struct Watched<'t, B> {
    timed: &'t TimedCase<'t>,
    body: PhantomData<fn() -> B>,
}

impl<B: FitBody> VariantWork for Watched<'_, B> {
    type Out = Pass;

    fn with<A: Allocator>(&self, variant: &'static str, allocator: &A) -> Result<Pass, Failure> {
        let timed = self.timed;
        let (loops, threads) = (timed.loops::<B>(variant), timed.options.threads);
        Ok(Pass {
            variant,
            seen: watched::<A, B>(allocator, threads, loops, timed.setting(), timed.clock)?,
            ops: u64::from(threads) * (loops + loops / 10),
            counters: allocator.counters(),
        })
    }
}

impl TimedCase<'_> {
    /// All that is measured of the case.
    pub(in crate::experiment::va_fit) fn findings<B: FitBody>(&self) -> Result<Findings, Failure> {
        let times = self.times(&self.batches::<B>()?);
        let mut findings = Findings::from(times);
        for pass in self.passes::<B>()? {
            let counted = self.counted(&pass, B::BEFORE_DIVISOR.is_some());
            findings.figures.extend(counted);
            let of =
                |latencies: &Latencies, call| latencies.distribution(self.case, pass.variant, call);
            let calls = [of(&pass.seen.allocs, "alloc"), of(&pass.seen.frees, "free")];
            findings.latencies.extend(calls);
        }
        self.peer_pass::<B>(&mut findings)?;
        Ok(findings)
    }

    fn loops<B: FitBody>(&self, variant: &'static str) -> u64 {
        let loops = self.options.loops.unwrap_or(match self.options.mapper {
            Mapper::Null => LOOPS_NULL,
            Mapper::Host => LOOPS_HOST,
        });
        match (variant, B::BEFORE_DIVISOR) {
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

    fn threads<'a, A: Allocator, B: FitBody>(
        &self,
        variant: &'static str,
        allocator: &'a A,
    ) -> Result<Threads<'a, A, B>, Failure> {
        let (loops, threads) = (self.loops::<B>(variant), self.options.threads);
        Threads::prepare(allocator, threads, loops, self.setting())
    }

    /// The variants that have something comparable, by their order.
    fn variants<B: FitBody>(&self) -> impl Iterator<Item = FitVariant> + use<B> {
        let all = FitVariant::all(self.options.mapper).iter().copied();
        all.filter(|variant| B::BEFORE_DIVISOR.is_some() || !variant.is_list())
    }

    /// All variants by turns, repetition by repetition, each on a fresh allocator: one process may not have that many
    /// mappings that all are there at once.
    pub(super) fn batches<B: FitBody>(&self) -> Result<Vec<Rates>, Failure> {
        let mut all: Vec<Rates> = Vec::new();
        let mut linux = Rates::of(LINUX);
        let cpus = cpus(self.options.threads);
        let batch = Batch::<B> {
            timed: self,
            body: PhantomData,
        };
        for _ in 0..self.options.repeat {
            for (nth, variant) in self.variants::<B>().enumerate() {
                let (alone, rate) = variant
                    .run(self.options.mapper, cpus, &batch)
                    .map_err(|e| e.of(self.case, variant.name()))?;
                if all.len() == nth {
                    all.push(Rates::of(variant.name()));
                }
                all[nth].alone.extend(alone);
                all[nth].all.push(rate);
            }
            if let Some(mut case) = self.peer_case::<B>()? {
                let rate = case.repetition().map_err(|e| e.of(self.case, LINUX))?;
                linux.all.push(rate);
            }
        }
        if !linux.all.is_empty() {
            all.push(linux);
        }
        Ok(all)
    }

    /// The case in Linux's own allocator, which has one thread and maps nothing.
    fn peer_case<B: FitBody>(&self) -> Result<Option<PeerCase<'_, B>>, Failure> {
        let fits = self.options.threads == 1 && self.options.mapper == Mapper::Null;
        let Some(peer) = self.peer.filter(|_| fits) else {
            return Ok(None);
        };
        let cpus = cpus(self.options.threads);
        let case = PeerCase::prepare(peer, cpus, self.loops::<B>(LINUX), self.setting());
        case.map(Some).map_err(|e| e.of(self.case, LINUX))
    }

    /// The pass with a look at every call, of Linux's own allocator.
    fn peer_pass<B: FitBody>(&self, findings: &mut Findings) -> Result<(), Failure> {
        let Some(mut case) = self.peer_case::<B>()? else {
            return Ok(());
        };
        let watched = case.watched(self.clock);
        let (allocs, frees, counters) = watched.map_err(|e| e.of(self.case, LINUX))?;
        let mut push = |metric, value| findings.figures.push(self.figure(LINUX, metric, value));
        for quantile in Quantile::ALL {
            push(m::ALLOC_NS.of(quantile as usize), allocs.at(quantile));
            push(m::FREE_NS.of(quantile as usize), frees.at(quantile));
        }
        let loops = self.loops::<B>(LINUX);
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

    fn passes<B: FitBody>(&self) -> Result<Vec<Pass>, Failure> {
        let cpus = cpus(self.options.threads);
        let watched = Watched::<B> {
            timed: self,
            body: PhantomData,
        };
        self.variants::<B>()
            .map(|variant| {
                let pass = variant.run(self.options.mapper, cpus, &watched);
                pass.map_err(|e| e.of(self.case, variant.name()))
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
