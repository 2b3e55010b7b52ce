//! `framewright lab`: the published experiments, repeated.

use super::main_job::{self, Outputs, Size};
use super::progress::with_progress;
use super::{CommandError, fallback, gcma, kvmalloc};
use crate::experiment::range_metrics as m;
use crate::experiment::va_fit::{self, Case};
use crate::experiment::vmap_blocks::{self, Scenario};
use crate::experiment::{
    BEFORE, Clock, FRAMEWRIGHT, Failure, Findings, Mapper, Options, Progress, SEED,
};
use crate::measure::Metric;
use crate::report::{
    Figure, Machine, Note, RunInfo, Tabled, figure_grid, figure_lines, has_place, write_whole,
};
use clap::Subcommand;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Repeat a published experiment, and show its own figures beside what this machine does
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    VmapBlocks(VmapBlocks),
    VaFit(VaFit),
    Kvmalloc(kvmalloc::Args),
    Fallback(fallback::Args),
    Gcma(gcma::Args),
    All(All),
}

/// Everything that `framewright` alone does: the sample trace and all experiments, and one HTML page
#[derive(Debug, clap::Args)]
pub struct All {
    /// At the documents' own sizes, which takes many minutes, instead of less than two
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    outputs: Outputs,
}

/// vm_map_ram's blocks: what a sequence of short mappings costs in address space (R. Pen, 2015)
///
/// Cases: exhaust, random, orders. Variants: before puts a new block in front of the others,
/// proposed behind them, framewright uses slots of a block again as soon as they were flushed.
#[derive(Debug, clap::Args)]
pub struct VmapBlocks {
    /// Cases [default: all]
    #[arg(long = "case", value_name = "NAME", value_delimiter = ',')]
    cases: Vec<Scenario>,

    /// Threads: the scenarios are those of one CPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1))]
    threads: u16,

    #[command(flatten)]
    common: Common,
}

/// vmalloc's address space: what it costs to find a gap (U. Rezki, 2018)
///
/// Variants: before walks a list of busy areas, proposed searches a tree of gaps under one lock,
/// framewright has spans that belong to a CPU.
#[derive(Debug, clap::Args)]
pub struct VaFit {
    /// Cases, as vm_map_ram, vm_map_ram/4 or full_fit [default: all]
    #[arg(long = "case", value_name = "NAME", value_delimiter = ',', value_parser = cases)]
    cases: Vec<Cases>,

    /// Threads, each with a CPU slot of its own; with more than one, throughput is compared with
    /// one thread's. On the host some cases have room for three
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// What stands behind the pages
    #[arg(long, value_enum, default_value_t = Mapper::Host)]
    mapper: Mapper,

    /// Iterations, or operations a repetition [default: the document's, or 100,000 with the null
    /// mapper and 2,000 with the host's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    loops: Option<u64>,

    /// Repetitions [default: 5; 1 of vmap-blocks on the host, which takes seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// Of the random numbers [default: 4, whose sequence frees as many vmap blocks as the document's]
    #[arg(long, value_name = "N", default_value_t = SEED, hide_default_value = true)]
    seed: u64,

    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one name on the command line stands for.
#[derive(Debug, Clone)]
struct Cases(Vec<Case>);

fn cases(name: &str) -> Result<Cases, String> {
    Case::named(name).map(Cases)
}

/// Runs the command.
///
/// # Errors
/// If the machine does not give what is needed, a request fails that must not, or an output cannot
/// be written.
pub fn run(args: &Args) -> Result<(), CommandError> {
    let json = match &args.experiment {
        Experiment::VmapBlocks(args) => &args.common.json,
        Experiment::VaFit(args) => &args.common.json,
        Experiment::Kvmalloc(args) => args.json(),
        Experiment::Fallback(args) => args.json(),
        Experiment::Gcma(args) => args.json(),
        Experiment::All(_) => &None,
    };
    if let Some(path) = json {
        has_place(path).map_err(CommandError::input)?;
    }
    match &args.experiment {
        Experiment::VmapBlocks(args) => {
            let scenarios = or_all(args.cases.clone(), &Scenario::ALL);
            let repeat = match args.common.mapper {
                Mapper::Null => 5,
                Mapper::Host => 1,
            };
            let options = args.common.options(args.threads, repeat);
            let figures = measured_blocks(&scenarios, options)?.figures;
            let names: Vec<&str> = scenarios.iter().map(|case| case.name()).collect();
            let info = info("vmap-blocks", &names, options);
            let text = || blocks_table(&figures, options).text();
            args.common.write(&info, &figures, text)
        }
        Experiment::VaFit(args) => {
            let cases = args.cases.iter().flat_map(|cases| cases.0.clone());
            let cases = or_all(cases.collect(), &Case::ALL);
            let options = args.common.options(args.threads, 5);
            let figures = measured_fits(&cases, options)?.figures;
            let names: Vec<&str> = cases.iter().map(|case| case.name()).collect();
            let info = info("va-fit", &names, options);
            let text = || fits_table(&figures, options, in_full).text();
            args.common.write(&info, &figures, text)
        }
        Experiment::Kvmalloc(args) => kvmalloc::run(args),
        Experiment::Fallback(args) => fallback::run(args),
        Experiment::Gcma(args) => gcma::run(args),
        Experiment::All(args) => {
            let size = if args.full { Size::Full } else { Size::Quick };
            main_job::run(size, &args.outputs)
        }
    }
}

/// What was named, once each, or everything.
fn or_all<T: Copy + PartialEq>(named: Vec<T>, all: &[T]) -> Vec<T> {
    if named.is_empty() {
        return all.to_vec();
    }
    let mut once = Vec::new();
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

impl Common {
    fn options(&self, threads: u16, repeat: u32) -> Options {
        Options {
            mapper: self.mapper,
            threads,
            loops: self.loops,
            repeat: self.repeat.unwrap_or(repeat),
            seed: self.seed,
        }
    }

    fn write(
        &self,
        info: &RunInfo,
        figures: &[Figure],
        text: impl FnOnce() -> String,
    ) -> Result<(), CommandError> {
        let is_stdout = self.json.as_ref().is_some_and(|p| p.as_os_str() == "-");
        if let Some(path) = &self.json {
            let lines = figure_lines(info, figures).map_err(CommandError::input)?;
            write_whole(path, &lines).map_err(CommandError::input)?;
        }
        if !is_stdout {
            write_whole("-".as_ref(), text().as_bytes()).map_err(CommandError::input)?;
        }
        Ok(())
    }
}

/// What ran: one of the experiments on virtual ranges.
pub(super) fn info(experiment: &'static str, cases: &[&str], options: Options) -> RunInfo {
    let loops = options.loops.map_or("default".into(), |n| n.to_string());
    RunInfo {
        experiment,
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: options.seed,
        options: BTreeMap::from([
            ("case", cases.join(",")),
            ("mapper", options.mapper.name().to_owned()),
            ("threads", options.threads.to_string()),
            ("loops", loops),
            ("repeat", options.repeat.to_string()),
        ]),
        machine: Machine::this(),
    }
}

pub(super) fn failed(failure: Failure) -> CommandError {
    CommandError::Input(failure.to_string())
}

/// `vmap-blocks`, with progress.
pub(super) fn measured_blocks(
    scenarios: &[Scenario],
    options: Options,
) -> Result<Findings, CommandError> {
    let steps = vmap_blocks::steps(scenarios, options);
    with_progress("vmap-blocks", steps, |done| {
        vmap_blocks::run(scenarios, options, Progress::new(done))
    })
    .map_err(failed)
}

/// `va-fit`, with progress.
pub(super) fn measured_fits(cases: &[Case], options: Options) -> Result<Findings, CommandError> {
    with_progress("va-fit", cases.len() as u64, |done| {
        va_fit::run(cases, options, Progress::new(done))
    })
    .map_err(failed)
}

/// The rows of `va-fit`'s table that fit a screen; JSON has everything.
pub(super) fn in_full(metric: Metric) -> bool {
    let in_json = [
        m::ALLOC_NS.named("p99"),
        m::FREE_NS.named("p99"),
        m::ALLOC_NS.named("max"),
        m::FREE_NS.named("max"),
        m::AREA_ALLOCS,
    ];
    !in_json.contains(&metric)
}

/// Fewer rows still, for the main job.
pub(super) fn in_short(metric: Metric) -> bool {
    let shown = [
        m::OP_NS_MEDIAN,
        m::TIME_VS_BEFORE,
        m::REMOTE_VS_LOCAL,
        m::SERVED,
        m::LIVE_MAPPINGS,
        m::OCCUPANCY,
        m::COST_GROWTH,
        m::FREE_NS_WORST,
    ];
    shown.contains(&metric)
}

/// The table of `vmap-blocks` and what a reader must know.
pub(super) fn blocks_table(figures: &[Figure], options: Options) -> Tabled {
    let mapper = options.mapper.name();
    let clock = Clock::calibrated().own_ns;
    let published = format!(
        "published: a kernel of 2015 under ftrace, whose probes are in its times. Ours: the least \
         mean of {} run(s); the clock's own {clock} ns are subtracted from each call.",
        options.repeat,
    );
    let mut notes = vec![Note::Text(published)];
    if options.loops.is_some() {
        let other = "Not the document's number of iterations: its counts are not to be compared.";
        notes.push(Note::Text(other.into()));
    }
    Tabled {
        caption: format!(
            "vmap-blocks, mapper {mapper}: vm_map_ram and vm_unmap_ram by turns, blocks of 1024 \
             pages, one CPU"
        ),
        grid: figure_grid(figures, |_| true),
        notes,
    }
}

/// The table of `va-fit` and what a reader must know.
pub(super) fn fits_table(
    figures: &[Figure],
    options: Options,
    shows: impl Fn(Metric) -> bool,
) -> Tabled {
    let mapper = options.mapper.name();
    let clock = Clock::calibrated().own_ns;
    let threads = options.threads;
    let mut notes = vec![format!(
        "Batches of all variants by turns, {} repetition(s); the clock's own {clock} ns are \
         subtracted from each latency.",
        options.repeat
    )];
    if shows(m::OPS) && makes_fewer(figures) {
        notes.push(
            "before makes fewer operations (ops) where each takes so long; its counts are of \
             those."
                .into(),
        );
    }
    notes.push(
        match options.mapper {
            Mapper::Null => {
                "Nothing is mapped: this is the address-space level alone. before has no figure for \
                 vm_map_ram: its blocks are the other experiment."
            }
            Mapper::Host => {
                "Frames are taken, mapped with mmap, and given back. A host usually allows a process \
                 65,530 mappings, so le_fit, b_fit, full_fit, both long_busy_list and steady_random have \
                 fewer areas than with the null mapper (docs/metrics.md); what asks how far something \
                 goes is at the address-space level here too."
            }
        }
        .into(),
    );
    Tabled {
        caption: format!(
            "va-fit, mapper {mapper}, threads {threads}, an operation is an allocation and its free"
        ),
        grid: figure_grid(figures, &shows),
        notes: notes.into_iter().map(Note::Text).collect(),
    }
}

/// Whether `before` made fewer operations than ours in some case.
fn makes_fewer(figures: &[Figure]) -> bool {
    let of = |variant: &'static str| {
        let all = figures
            .iter()
            .filter(move |f| f.metric == m::OPS && f.variant == variant);
        all.map(|f| (&f.case, f.value))
    };
    of(BEFORE).any(|(case, fewer)| of(FRAMEWRIGHT).any(|(ours, ops)| ours == case && fewer < ops))
}
