use super::body::{FitBody, Setting};
use super::timing::{Lane, Rate, SeenCalls, Threads, watched};
use super::{LOOPS_HOST, LOOPS_NULL, configs, cpus, window};
use crate::before::busy_list::BusyList;
use crate::experiment::clock::Quantile;
use crate::experiment::clock::{CalibratedClock, Latencies, least_and_middle};
use crate::experiment::engine::{RangeEngine, with_space};
use crate::experiment::host::{HostedBusy, with_host};
use crate::experiment::null::{Null, NumberFrames};
use crate::experiment::range_metrics as m;
use crate::experiment::{
    Allocator, BEFORE, FRAMEWRIGHT, Failure, Findings, Mapper, PROPOSED, SpaceOptions,
    SubjectCounters,
};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

/// A case whose operation is timed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedCase {
    pub(super) case: &'static str,
    pub(super) options: SpaceOptions,
    pub(super) clock: CalibratedClock,
}

/// What the watched pass of one variant gave.
struct Pass {
    variant: &'static str,
    seen: SeenCalls,
    /// Operations of all threads, those that warm up among them.
    ops: u64,
    counters: SubjectCounters,
}

impl TimedCase {
    /// All that is measured of the case.
    pub(super) fn findings<B: FitBody>(&self) -> Result<Findings, Failure> {
        let rates = match self.options.mapper {
            Mapper::Null => self.batches_null::<B>(),
            Mapper::Host => self.batches_host::<B>(),
        };
        let times = self.times(&rates.map_err(|e| e.of(self.case, "batches"))?);
        let mut findings = Findings::from(times);
        for pass in self.passes::<B>()? {
            let counted = self.counted(&pass, B::BEFORE_DIVISOR.is_some());
            findings.figures.extend(counted);
            let of =
                |latencies: &Latencies, call| latencies.distribution(self.case, pass.variant, call);
            let calls = [of(&pass.seen.allocs, "alloc"), of(&pass.seen.frees, "free")];
            findings.latencies.extend(calls);
        }
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

    fn lane<'a, A: Allocator, B: FitBody + 'a>(
        &self,
        variant: &'static str,
        allocator: &'a A,
    ) -> Result<Box<dyn Lane + 'a>, Failure> {
        let loops = self.loops::<B>(variant);
        let threads = self.options.threads;
        let lane = Threads::<A, B>::prepare(variant, allocator, threads, loops, self.setting());
        Ok(Box::new(lane.map_err(|e| e.of(self.case, variant))?))
    }

    /// All variants by turns, nothing mapped.
    pub(super) fn batches_null<B: FitBody>(&self) -> Result<Vec<Rates>, Failure> {
        let null = Null::new()?;
        let cpus = cpus(self.options.threads);
        let layout = Null::layout(cpus);
        let [(_, proposed), (_, ours)] = configs(cpus);
        let frames = &NumberFrames;
        with_space(&layout, &proposed, null, |space| {
            let proposed = RangeEngine::<_, _, false> { space, frames };
            with_space(&layout, &ours, null, |space| {
                let ours = RangeEngine::<_, _, false> { space, frames };
                let busy = BusyList::new(window(), cpus, null);
                let mut lanes = Vec::new();
                if B::BEFORE_DIVISOR.is_some() {
                    lanes.push(self.lane::<_, B>(BEFORE, &busy)?);
                }
                lanes.push(self.lane::<_, B>(PROPOSED, &proposed)?);
                lanes.push(self.lane::<_, B>(FRAMEWRIGHT, &ours)?);
                self.in_turn(lanes)
            })
        })
    }

    /// One variant after the other, each with memory of its own: one process may not have so many
    /// mappings that all are there at once.
    fn batches_host<B: FitBody>(&self) -> Result<Vec<Rates>, Failure> {
        let cpus = cpus(self.options.threads);
        let mut rates = Vec::new();
        if B::BEFORE_DIVISOR.is_some() {
            rates.extend(with_host(cpus, |host| {
                let busy = HostedBusy::new(host, cpus);
                let lane = self.lane::<_, B>(BEFORE, &busy)?;
                self.in_turn(vec![lane])
            })?);
        }
        for (variant, config) in configs(cpus) {
            rates.extend(with_host(cpus, |host| {
                with_space(
                    &host.platform.layout(cpus),
                    &config,
                    host.platform,
                    |space| {
                        let frames = host;
                        let engine = RangeEngine::<_, _, true> { space, frames };
                        let lane = self.lane::<_, B>(variant, &engine)?;
                        self.in_turn(vec![lane])
                    },
                )
            })?);
        }
        Ok(rates)
    }

    /// The repetitions of all lanes, one after the other.
    fn in_turn(&self, lanes: Vec<Box<dyn Lane + '_>>) -> Result<Vec<Rates>, Failure> {
        let mut lanes: Vec<_> = lanes
            .into_iter()
            .map(|lane| (Rates::of(lane.variant()), lane))
            .collect();
        for _ in 0..self.options.repeat {
            for (rates, lane) in &mut lanes {
                let variant = rates.variant;
                let mut repetition =
                    |all| lane.repetition(all).map_err(|e| e.of(self.case, variant));
                if self.options.threads > 1 {
                    rates.alone.push(repetition(false)?);
                }
                rates.all.push(repetition(true)?);
            }
        }
        Ok(lanes.into_iter().map(|(rates, _)| rates).collect())
    }

    fn passes<B: FitBody>(&self) -> Result<Vec<Pass>, Failure> {
        let cpus = cpus(self.options.threads);
        let mut passes = Vec::new();
        if B::BEFORE_DIVISOR.is_some() {
            let pass = match self.options.mapper {
                Mapper::Null => {
                    let busy = BusyList::new(window(), cpus, Null::new()?);
                    self.pass::<_, B>(BEFORE, &busy)
                }
                Mapper::Host => with_host(cpus, |host| {
                    let busy = HostedBusy::new(host, cpus);
                    self.pass::<_, B>(BEFORE, &busy)
                }),
            };
            passes.push(pass.map_err(|e| e.of(self.case, BEFORE))?);
        }
        for (variant, config) in configs(cpus) {
            let pass = match self.options.mapper {
                Mapper::Null => with_space(&Null::layout(cpus), &config, Null::new()?, |space| {
                    let frames = &NumberFrames;
                    let engine = RangeEngine::<_, _, false> { space, frames };
                    self.pass::<_, B>(variant, &engine)
                }),
                Mapper::Host => with_host(cpus, |host| {
                    with_space(
                        &host.platform.layout(cpus),
                        &config,
                        host.platform,
                        |space| {
                            let frames = host;
                            let engine = RangeEngine::<_, _, true> { space, frames };
                            self.pass::<_, B>(variant, &engine)
                        },
                    )
                }),
            };
            passes.push(pass.map_err(|e| e.of(self.case, variant))?);
        }
        Ok(passes)
    }

    fn pass<A: Allocator, B: FitBody>(
        &self,
        variant: &'static str,
        allocator: &A,
    ) -> Result<Pass, Failure> {
        let loops = self.loops::<B>(variant);
        let threads = self.options.threads;
        let seen = watched::<A, B>(allocator, threads, loops, self.setting(), self.clock)?;
        Ok(Pass {
            variant,
            seen,
            ops: u64::from(threads) * (loops + loops / 10),
            counters: allocator.counters(),
        })
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
        let before = before.map(|rates| rates.op_ns().1);
        let mut figures = Vec::new();
        for rates in all {
            let (least, middle) = rates.op_ns();
            figures.push(self.figure(rates.variant, m::OP_NS_MIN, least));
            figures.push(self.figure(rates.variant, m::OP_NS_MEDIAN, middle));
            if let Some(before) = before.filter(|_| rates.variant != BEFORE) {
                figures.push(self.figure(rates.variant, m::TIME_VS_BEFORE, middle / before));
            }
            if !rates.alone.is_empty() {
                let (throughput, speedup) = rates.scaling();
                let cpu = rates.cpu_scaling(self.options.threads);
                figures.push(self.figure(rates.variant, m::OPS_PER_SECOND, throughput));
                figures.push(self.figure(rates.variant, m::SPEEDUP, speedup));
                figures.push(self.figure(rates.variant, m::SPEEDUP_CPU, cpu));
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

    /// The least and the middle.
    pub(super) fn op_ns(&self) -> (f64, f64) {
        let times: Vec<f64> = self.all.iter().map(|rate| rate.op_ns).collect();
        least_and_middle(&times)
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
