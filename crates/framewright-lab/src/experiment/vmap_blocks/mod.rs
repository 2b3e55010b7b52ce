//! `vmap-blocks`: the first document's three scenarios, with blocks of 1024 pages on one CPU; and two of them as a
//! 32-bit machine has them: a window of 128 MiB, blocks of 256 pages, mappings of up to 32.
//!
//! `before` and `proposed` are the engine with a switch each, so that their counts test these rules of the engine. The
//! counts of Linux's own code are not here.

mod command;
mod plan;
mod published;
mod report;

pub use command::BlocksArgs;
pub use plan::VmapBlocks;

use super::range_metrics as m;
use super::ranges::{Null, NumberFrames, RangeEngine, SeatFrames, with_host, with_space};
use super::timing::{CalibratedClock, Latencies, least_and_middle, spread};
use super::{
    Allocator, BEFORE, FRAMEWRIGHT, Failure, Findings, Mapper, PROPOSED, Progress, SpaceOptions,
    SpaceSubject, SubjectCounters,
};
use crate::report::{Figure, FigureSource};
use framewright::Page;
use framewright::platform::RangePlatform;
use framewright::policy::RangeConfig;
use framewright::vrange::SpaceLayout;
use framewright_sim::Random;
use std::hint::black_box;

/// Pages of the address space of a 32-bit machine: 128 MiB.
const WINDOW_PAGES_32: u64 = (128 << 20) / Page::BYTES;

/// What describes a vmap block in Linux 6.12 on x86-64: a `vmap_block` of 232 bytes and a `vmap_area` of 72.
const LINUX_BLOCK_BYTES: u64 = 304;

/// How many seeds the random sequence is made with, from 1 on: the document names a Mersenne twister,
/// but neither implementation nor seed.
const SEEDS: u64 = 40;

/// The document's scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// One mapping of 16 pages, then as many of 8 as leave a hole of 8 in the block.
    Exhaust,
    /// Mappings of 1 to 64 pages.
    Random,
    /// Blocks filled but for one hole with mappings of each order, then one of each order.
    Orders,
    /// The first on a 32-bit machine.
    Exhaust32,
    /// The second on a 32-bit machine: 1 to 32 pages.
    Random32,
}

impl Scenario {
    /// All of them, the document's own first.
    pub const ALL: [Self; 5] = [
        Self::Exhaust,
        Self::Random,
        Self::Orders,
        Self::Exhaust32,
        Self::Random32,
    ];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhaust => "exhaust",
            Self::Random => "random",
            Self::Orders => "orders",
            Self::Exhaust32 => "exhaust32",
            Self::Random32 => "random32",
        }
    }

    /// The document's number of iterations.
    #[must_use]
    pub const fn iterations(self) -> u64 {
        match self {
            Self::Exhaust | Self::Orders | Self::Exhaust32 => 1000,
            Self::Random | Self::Random32 => 10_000,
        }
    }

    const fn is_32(self) -> bool {
        matches!(self, Self::Exhaust32 | Self::Random32)
    }

    /// Pages of a vmap block (`VMAP_BBMAP_BITS`).
    const fn block_pages(self) -> u64 {
        if self.is_32() { 256 } else { 1024 }
    }

    /// The most pages of one mapping from a block (`VMAP_MAX_ALLOC`, the bits of a word).
    const fn alloc_max(self) -> u64 {
        if self.is_32() { 32 } else { 64 }
    }

    /// `layout` with this machine's window and blocks.
    fn layout(self, layout: &SpaceLayout) -> SpaceLayout {
        let mut layout = layout.with_span_pages(self.block_pages() as u32);
        if self.is_32() {
            layout.pages = layout.pages.min(WINDOW_PAGES_32);
        }
        layout
    }

    /// Calls `pair` with the pages of each mapping, which is unmapped at once.
    fn run(
        self,
        iterations: u64,
        seed: u64,
        mut pair: impl FnMut(u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut random = Random::new(seed);
        let (block_pages, alloc_max) = (self.block_pages(), self.alloc_max());
        for _ in 0..iterations {
            match self {
                Self::Exhaust | Self::Exhaust32 => {
                    pair(16)?;
                    for _ in 0..(block_pages - 16) / 8 - 1 {
                        pair(8)?;
                    }
                }
                Self::Random | Self::Random32 => pair(1 + random.below(alloc_max))?,
                Self::Orders => {
                    for order in 0..=alloc_max.ilog2() {
                        for _ in 0..(block_pages >> order) - 1 {
                            pair(1 << order)?;
                        }
                    }
                    for order in 0..=alloc_max.ilog2() {
                        pair(1 << order)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no case '{name}', expected one of {names}")
        })
    }
}

/// The variants and how the engine is configured for each.
fn variants() -> [(&'static str, RangeConfig); 3] {
    let ours = RangeConfig::for_cpus(1);
    let proposed = RangeConfig {
        recycle: false,
        ..ours
    };
    let before = RangeConfig {
        newest_first: true,
        ..proposed
    };
    [(BEFORE, before), (PROPOSED, proposed), (FRAMEWRIGHT, ours)]
}

/// One run of a scenario.
#[derive(Debug)]
struct ScenarioRun {
    maps: u64,
    map_ns: u64,
    unmap_ns: u64,
    /// Of each call of `map_ram`.
    latencies: Latencies,
    /// Lowest page, and the one behind the highest.
    low: u64,
    high: u64,
}

/// The scenarios' figures, and the documents'.
///
/// Steps of progress: one a repetition, [`steps`] in all.
///
/// # Errors
/// If memory cannot be had, or a request fails.
pub fn run(
    scenarios: &[Scenario],
    options: SpaceOptions,
    progress: Progress<'_>,
) -> Result<Findings, Failure> {
    let clock = CalibratedClock::calibrated();
    let mut findings = Findings::default();
    for &scenario in scenarios {
        let published = published::figures(scenario.name());
        findings.figures.extend(published);
        for (variant, config) in variants() {
            let one = BlocksVariant {
                scenario,
                variant,
                config,
                options,
                clock,
            };
            let measured = one.findings(progress);
            findings.add(measured.map_err(|e| e.of(scenario.name(), variant))?);
            if scenario == Scenario::Random {
                let range = one.over_seeds();
                findings.add(range.map_err(|e| e.of(scenario.name(), variant))?.into());
            }
        }
    }
    Ok(findings)
}

/// How many steps of progress a run has.
#[must_use]
pub fn steps(scenarios: &[Scenario], options: SpaceOptions) -> u64 {
    (scenarios.len() * variants().len()) as u64 * u64::from(options.repeat)
}

/// What is done with a variant's seat; `counters` says what it has counted.
trait BlocksWork {
    type Out;

    fn with(
        &self,
        seat: &mut impl SpaceSubject,
        counters: impl Fn() -> SubjectCounters,
    ) -> Result<Self::Out, Failure>;
}

struct EachCall<'v>(&'v BlocksVariant);

impl BlocksWork for EachCall<'_> {
    type Out = (ScenarioRun, SubjectCounters);

    fn with(
        &self,
        seat: &mut impl SpaceSubject,
        counters: impl Fn() -> SubjectCounters,
    ) -> Result<Self::Out, Failure> {
        Ok((self.0.scenario_on(seat)?, counters()))
    }
}

struct EachBlock<'v>(&'v BlocksVariant);

/// Calls, and their nanoseconds in all.
#[derive(Debug, Clone, Copy, Default)]
struct BlockTimes {
    /// Of `map_ram` that cut a block.
    allocs: (u64, u64),
    /// Of `unmap_ram` in which blocks were given back.
    frees: (u64, u64),
}

impl BlocksWork for EachBlock<'_> {
    type Out = BlockTimes;

    fn with(
        &self,
        seat: &mut impl SpaceSubject,
        counters: impl Fn() -> SubjectCounters,
    ) -> Result<Self::Out, Failure> {
        let BlocksVariant {
            scenario,
            options,
            clock,
            ..
        } = *self.0;
        // Reading the counters takes longer than a call; a tenth of that many calls has blocks enough.
        let iterations = match scenario {
            Scenario::Random | Scenario::Random32 => scenario.iterations(),
            _ => scenario.iterations() / 10,
        };
        let iterations = options.loops.unwrap_or(u64::MAX).min(iterations);
        let mut times = BlockTimes::default();
        let mut before = counters();
        let add = |(calls, all): &mut (u64, u64), ns| (*calls, *all) = (*calls + 1, *all + ns);
        scenario.run(iterations, options.seed, |pages| {
            let (page, ns) = clock.time(|| seat.map_ram(pages));
            let page = black_box(page?);
            let mapped = counters();
            if mapped.area_allocs > before.area_allocs {
                add(&mut times.allocs, ns);
            }
            let (unmapped, ns) = clock.time(|| seat.unmap_ram(page, pages));
            before = counters();
            if before.block_frees > mapped.block_frees {
                add(&mut times.frees, ns);
            }
            Ok(unmapped?)
        })?;
        Ok(times)
    }
}

#[derive(Clone, Copy)]
struct BlocksVariant {
    scenario: Scenario,
    variant: &'static str,
    config: RangeConfig,
    options: SpaceOptions,
    clock: CalibratedClock,
}

impl BlocksVariant {
    fn findings(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        let mut runs = Vec::new();
        let mut counters = None;
        for _ in 0..self.options.repeat {
            // Fresh each time, so that the counters are those of one run.
            let (run, counted) = self.timed()?;
            runs.push(run);
            counters = Some(counted);
            progress.step();
        }
        let blocks = self.block_times()?;
        let (Some(first), Some(counters)) = (runs.first(), counters) else {
            return Ok(Findings::default());
        };
        // Of several runs the one that was disturbed least.
        let mean = |ns: fn(&ScenarioRun) -> u64| {
            let means: Vec<f64> = runs.iter().map(|r| ns(r) as f64 / r.maps as f64).collect();
            least_and_middle(&means).0
        };
        let counted = self.options.mapper.counted();
        let figure = |metric, value, source| Figure {
            case: self.scenario.name().to_owned(),
            variant: self.variant,
            metric,
            value,
            source,
        };
        let mut figures = vec![
            figure(m::MAP_CALLS, first.maps as f64, counted),
            figure(
                m::MAP_NS_MEAN,
                mean(|run| run.map_ns),
                FigureSource::Measured,
            ),
            figure(m::UNMAP_CALLS, first.maps as f64, counted),
            figure(
                m::UNMAP_NS_MEAN,
                mean(|run| run.unmap_ns),
                FigureSource::Measured,
            ),
            figure(m::AREA_ALLOCS, counters.area_allocs as f64, counted),
            figure(m::BLOCK_FREES, counters.block_frees as f64, counted),
            figure(
                m::VA_SPAN_BYTES,
                ((first.high - first.low) * Page::BYTES) as f64,
                counted,
            ),
            figure(m::LAZY_PAGES_PEAK, counters.lazy_pages_peak as f64, counted),
            figure(
                m::LAZY_PAGES_BOUND,
                counters.lazy_pages_bound as f64,
                counted,
            ),
            figure(m::TLB_FLUSHES, counters.tlb_flushes as f64, counted),
        ];
        let most = counters.lazy_pages_most;
        figures.extend(most.map(|most| figure(m::LAZY_PAGES_MOST, most as f64, counted)));
        let held = counters.area_allocs - counters.block_frees;
        let block_bytes = match self.variant {
            FRAMEWRIGHT => self.own_block_bytes()?,
            _ => LINUX_BLOCK_BYTES,
        };
        figures.extend([
            figure(m::BLOCKS_HELD, held as f64, counted),
            figure(m::BLOCK_BYTES, (held * block_bytes) as f64, counted),
        ]);
        let times = [
            (m::BLOCK_ALLOC_NS_MEAN, blocks.allocs),
            (m::BLOCK_FREE_NS_MEAN, blocks.frees),
        ];
        for (metric, (calls, ns)) in times {
            if calls > 0 {
                let mean = ns as f64 / calls as f64;
                figures.push(figure(metric, mean, FigureSource::Measured));
            }
        }
        let mut latencies = Latencies::new();
        runs.iter().for_each(|run| latencies.add(&run.latencies));
        let case = self.scenario.name();
        Ok(Findings {
            figures,
            latencies: vec![latencies.distribution(case, self.variant, "map")],
            ..Findings::default()
        })
    }

    /// The counts of the random sequence with each of [`SEEDS`] seeds, where nothing is mapped.
    fn over_seeds(&self) -> Result<Vec<Figure>, Failure> {
        let (mut allocs, mut frees) = (Vec::new(), Vec::new());
        for seed in 1..=SEEDS {
            let mut options = self.options;
            (options.seed, options.mapper) = (seed, Mapper::Null);
            let (_, counted) = Self { options, ..*self }.timed()?;
            allocs.push(counted.area_allocs as f64);
            frees.push(counted.block_frees as f64);
        }
        let ([least, _, most], [frees_least, frees_middle, frees_most]) =
            (spread(&allocs), spread(&frees));
        let values = [
            (m::AREA_ALLOCS_LEAST, least),
            (m::AREA_ALLOCS_MOST, most),
            (m::BLOCK_FREES_LEAST, frees_least),
            (m::BLOCK_FREES_MIDDLE, frees_middle),
            (m::BLOCK_FREES_MOST, frees_most),
        ];
        let figure = |(metric, value)| Figure {
            case: self.scenario.name().to_owned(),
            variant: self.variant,
            metric,
            value,
            source: FigureSource::Simulated,
        };
        Ok(values.map(figure).into())
    }

    /// Bytes of the engine's metadata for the address space of one block.
    fn own_block_bytes(&self) -> Result<u64, Failure> {
        let layout = self.scenario.layout(&Null::layout(1));
        let bytes = layout.words_needed()? as u64 * 8;
        Ok(bytes * self.scenario.block_pages() / layout.pages)
    }

    /// The scenario, each call timed.
    fn timed(&self) -> Result<(ScenarioRun, SubjectCounters), Failure> {
        self.on(&EachCall(self))
    }

    /// The scenario once more, with a look at the counters behind each call.
    fn block_times(&self) -> Result<BlockTimes, Failure> {
        self.on(&EachBlock(self))
    }

    /// `work` with a seat of the variant in a fresh window.
    fn on<W: BlocksWork>(&self, work: &W) -> Result<W::Out, Failure> {
        match self.options.mapper {
            Mapper::Null => self.in_space(&Null::layout(1), Null::new()?, &NumberFrames, work),
            Mapper::Host => with_host(1, |host| {
                self.in_space(&host.platform.layout(1), host.platform, host, work)
            }),
        }
    }

    fn in_space<P: RangePlatform + Sync, F: SeatFrames, W: BlocksWork>(
        &self,
        layout: &SpaceLayout,
        platform: P,
        frames: &F,
        work: &W,
    ) -> Result<W::Out, Failure> {
        let layout = self.scenario.layout(layout);
        with_space(&layout, &self.config, platform, |space| {
            let engine = RangeEngine::<_, _, false> { space, frames };
            work.with(&mut engine.seat(0)?, || engine.counters())
        })
    }

    fn scenario_on(&self, seat: &mut impl SpaceSubject) -> Result<ScenarioRun, Failure> {
        let iterations = self.options.loops.unwrap_or(self.scenario.iterations());
        let mut run = ScenarioRun {
            maps: 0,
            map_ns: 0,
            unmap_ns: 0,
            latencies: Latencies::new(),
            low: u64::MAX,
            high: 0,
        };
        self.scenario.run(iterations, self.options.seed, |pages| {
            let (page, ns) = self.clock.time(|| seat.map_ram(pages));
            let page = black_box(page?);
            run.maps += 1;
            run.map_ns += ns;
            run.latencies.record(ns);
            run.low = run.low.min(page.0);
            run.high = run.high.max(page.0 + pages);
            let (unmapped, ns) = self.clock.time(|| seat.unmap_ram(page, pages));
            run.unmap_ns += ns;
            Ok(unmapped?)
        })?;
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn figures(scenarios: &[Scenario], seed: u64) -> Vec<Figure> {
        let options = SpaceOptions {
            mapper: Mapper::Null,
            threads: 1,
            loops: None,
            repeat: 1,
            seed,
        };
        let steps = AtomicU64::new(0);
        let figures = super::run(scenarios, options, Progress::new(&steps))
            .unwrap()
            .figures;
        assert_eq!(steps.into_inner(), super::steps(scenarios, options));
        figures
    }

    /// Blocks allocated and freed.
    fn blocks(figures: &[Figure], case: Scenario, variant: &str, source: FigureSource) -> [u64; 2] {
        [m::AREA_ALLOCS, m::BLOCK_FREES].map(|metric| {
            let figure = figures.iter().find(|f| {
                f.case == case.name()
                    && f.variant == variant
                    && f.metric == metric
                    && f.source == source
            });
            figure.unwrap().value as u64
        })
    }

    #[test]
    fn the_documents_counts_come_out_exactly() {
        let cases = [Scenario::Exhaust, Scenario::Orders];
        let figures = figures(&cases, 1);
        for case in cases {
            for variant in [BEFORE, PROPOSED] {
                assert_eq!(
                    blocks(&figures, case, variant, FigureSource::Simulated),
                    blocks(&figures, case, variant, FigureSource::Published),
                    "{} {variant}",
                    case.name()
                );
            }
        }
        let [allocs, _] = blocks(
            &figures,
            Scenario::Exhaust,
            FRAMEWRIGHT,
            FigureSource::Simulated,
        );
        assert!(allocs <= 20, "{allocs} blocks");
    }

    #[test]
    fn a_random_sequence_comes_out_within_three_percent() {
        let figures = figures(&[Scenario::Random], crate::experiment::SEED);
        let near = |ours: u64, document: u64| ours.abs_diff(document) * 100 <= document * 3;
        for variant in [BEFORE, PROPOSED] {
            let [allocs, frees] =
                blocks(&figures, Scenario::Random, variant, FigureSource::Simulated);
            let [pen_allocs, pen_frees] =
                blocks(&figures, Scenario::Random, variant, FigureSource::Published);
            assert!(near(allocs, pen_allocs), "{variant}: {allocs}");
            assert!(near(frees, pen_frees), "{variant}: {frees}");
        }
    }

    #[test]
    fn the_range_over_seeds_has_the_documents_count_at_its_edge_and_ours_in_it() {
        let figures = figures(&[Scenario::Random], crate::experiment::SEED);
        let of = |variant, metric| {
            let found = figures.iter().find(|f| {
                f.variant == variant && f.metric == metric && f.source == FigureSource::Simulated
            });
            found.unwrap().value as u64
        };
        let frees = [
            m::BLOCK_FREES_LEAST,
            m::BLOCK_FREES_MIDDLE,
            m::BLOCK_FREES_MOST,
        ];
        assert_eq!(frees.map(|metric| of(BEFORE, metric)), [33, 47, 59]);
        for variant in [BEFORE, PROPOSED] {
            let ours = of(variant, m::AREA_ALLOCS);
            assert!(
                (of(variant, m::AREA_ALLOCS_LEAST)..=of(variant, m::AREA_ALLOCS_MOST))
                    .contains(&ours)
            );
        }
    }

    /// 1,000 blocks of 1 MiB do not fit into 128 MiB: what is not in use must come back.
    #[test]
    fn a_small_window_is_not_exhausted_by_blocks_that_are_in_no_use() {
        let cases = [Scenario::Exhaust32, Scenario::Random32];
        let figures = figures(&cases, 1);
        for case in cases {
            for (variant, _) in variants() {
                let [allocs, _] = blocks(&figures, case, variant, FigureSource::Simulated);
                assert!(allocs > 0, "{} {variant}", case.name());
            }
        }
        let [allocs, frees] = blocks(
            &figures,
            Scenario::Exhaust32,
            BEFORE,
            FigureSource::Simulated,
        );
        assert!(allocs > 128 && allocs - frees <= 128, "{allocs} {frees}");
    }

    #[test]
    fn an_unknown_scenario_is_an_error_that_names_the_known_ones() {
        let error = "tail".parse::<Scenario>().unwrap_err();
        assert_eq!(
            error,
            "there is no case 'tail', expected one of exhaust, random, orders, exhaust32, random32"
        );
    }
}
