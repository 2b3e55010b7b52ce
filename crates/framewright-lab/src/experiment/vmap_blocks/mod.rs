//! `vmap-blocks`: the first document's three scenarios, with blocks of 1024 pages on one CPU.

mod command;
mod published;
mod report;

pub use command::{BlocksArgs, VmapBlocks};

use super::clock::{CalibratedClock, Latencies, least_and_middle};
use super::engine::{RangeEngine, SeatFrames, with_space};
use super::host::with_host;
use super::null::{Null, NumberFrames};
use super::{
    Allocator, BEFORE, FRAMEWRIGHT, Failure, Findings, Mapper, PROPOSED, Progress, SpaceOptions,
    SpaceSubject,
};
use crate::experiment::range_metrics as m;
use crate::report::{Figure, FigureSource};
use framewright::Page;
use framewright::platform::RangePlatform;
use framewright::policy::RangeConfig;
use framewright::vrange::SpaceLayout;
use framewright_sim::Random;
use std::hint::black_box;

/// Pages of a vmap block (`VMAP_BBMAP_BITS`).
const BLOCK_PAGES: u64 = 1024;

/// The most pages of one mapping from a block (`VMAP_MAX_ALLOC`).
const ALLOC_MAX: u64 = 64;

/// The document's scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// One mapping of 16 pages, then as many of 8 as leave a hole of 8 in the block.
    Exhaust,
    /// Mappings of 1 to 64 pages.
    Random,
    /// Blocks filled but for one hole with mappings of each order, then one of each order.
    Orders,
}

impl Scenario {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Exhaust, Self::Random, Self::Orders];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exhaust => "exhaust",
            Self::Random => "random",
            Self::Orders => "orders",
        }
    }

    /// The document's number of iterations.
    #[must_use]
    pub const fn iterations(self) -> u64 {
        match self {
            Self::Exhaust | Self::Orders => 1000,
            Self::Random => 10_000,
        }
    }

    /// Calls `pair` with the pages of each mapping, which is unmapped at once.
    fn run(
        self,
        iterations: u64,
        seed: u64,
        mut pair: impl FnMut(u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut random = Random::new(seed);
        for _ in 0..iterations {
            match self {
                Self::Exhaust => {
                    pair(16)?;
                    for _ in 0..(BLOCK_PAGES - 16) / 8 - 1 {
                        pair(8)?;
                    }
                }
                Self::Random => pair(1 + random.below(ALLOC_MAX))?,
                Self::Orders => {
                    for order in 0..=ALLOC_MAX.ilog2() {
                        for _ in 0..(BLOCK_PAGES >> order) - 1 {
                            pair(1 << order)?;
                        }
                    }
                    for order in 0..=ALLOC_MAX.ilog2() {
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
        }
    }
    Ok(findings)
}

/// How many steps of progress a run has.
#[must_use]
pub fn steps(scenarios: &[Scenario], options: SpaceOptions) -> u64 {
    (scenarios.len() * variants().len()) as u64 * u64::from(options.repeat)
}

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
            let (run, counted) = match self.options.mapper {
                Mapper::Null => self.on(&Null::layout(1), Null::new()?, &NumberFrames)?,
                Mapper::Host => with_host(1, |host| {
                    self.on(&host.platform.layout(1), host.platform, host)
                })?,
            };
            runs.push(run);
            counters = Some(counted);
            progress.step();
        }
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
        let mut latencies = Latencies::new();
        runs.iter().for_each(|run| latencies.add(&run.latencies));
        let case = self.scenario.name();
        Ok(Findings {
            figures,
            latencies: vec![latencies.distribution(case, self.variant, "map")],
            ..Findings::default()
        })
    }

    fn on<P: RangePlatform + Sync, F: SeatFrames>(
        &self,
        layout: &SpaceLayout,
        platform: P,
        frames: &F,
    ) -> Result<(ScenarioRun, super::SubjectCounters), Failure> {
        let layout = layout.with_span_pages(BLOCK_PAGES as u32);
        with_space(&layout, &self.config, platform, |space| {
            let engine = RangeEngine::<_, _, false> {
                space,
                frames,
                strict: false,
            };
            let run = self.scenario_on(&mut engine.seat(0)?)?;
            Ok((run, engine.counters()))
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
    fn an_unknown_scenario_is_an_error_that_names_the_known_ones() {
        let error = "tail".parse::<Scenario>().unwrap_err();
        assert_eq!(
            error,
            "there is no case 'tail', expected one of exhaust, random, orders"
        );
    }
}
