//! The published experiments, one section a document.

use super::{Part, Size, reserve, summary};
use crate::cmd::CommandError;
use crate::cmd::{fallback, gcma, gcma_tables, kvmalloc, lab};
use crate::experiment::fallback::{Course, Params, Policy as Kernels, Span};
use crate::experiment::gcma as contiguous;
use crate::experiment::kvmalloc as objects;
use crate::experiment::va_fit::Case;
use crate::experiment::vmap_blocks::Scenario;
use crate::experiment::{self, Findings, Mapper};
use crate::measure::Metric;
use crate::report::{
    Accent, Distribution, Figure, Item, Latency, Line, OverTime, RunInfo, Scale, Section,
    figure_lines,
};

/// What each experiment is run with.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Of `vmap-blocks`, whose counts depend on the document's number of iterations.
    pub(super) scenarios: Vec<Scenario>,
    pub(super) blocks: experiment::Options,
    /// Of `va-fit`, for each mapper.
    pub(super) cases: Vec<Case>,
    pub(super) fits: Vec<experiment::Options>,
    pub(super) shows_fit: fn(Metric) -> bool,
    /// Of `kvmalloc`, for each mapper.
    pub(super) objects: Vec<objects::Options>,
    pub(super) shows_objects: fn(Metric) -> bool,
    /// Of `fallback`.
    pub(super) span: Span,
    pub(super) shows_pressure: fn(Metric) -> bool,
    /// Of `gcma`.
    pub(super) contiguous: contiguous::Options,
    pub(super) shows_contiguous: fn(Metric) -> bool,
}

impl Plan {
    pub(super) fn of(size: Size) -> Self {
        let is_full = size == Size::Full;
        let ranges = |mapper, loops: Option<u64>, repeat| experiment::Options {
            mapper,
            threads: 1,
            loops: if is_full { None } else { loops },
            repeat,
            seed: experiment::SEED,
        };
        let kv = |mapper| objects::Options {
            mapper,
            threads: 2,
            object_bytes: 64 << 10,
            fragmented: objects::FRAGMENTED,
            seconds: if is_full { 2.0 } else { 0.3 },
            seed: experiment::SEED,
            repeat: if is_full { 3 } else { 1 },
            read_in: None,
            memory_bytes: objects::MEMORY_BYTES,
        };
        let repeat = if is_full { 5 } else { 3 };
        Self {
            scenarios: Scenario::ALL.to_vec(),
            blocks: ranges(Mapper::Host, None, 1),
            cases: Case::ALL.to_vec(),
            // Some 20 ms a case and variant.
            fits: vec![
                ranges(Mapper::Null, Some(20_000), repeat),
                ranges(Mapper::Host, Some(500), repeat),
            ],
            shows_fit: if is_full { lab::in_full } else { lab::in_short },
            objects: vec![kv(Mapper::Null), kv(Mapper::Host)],
            shows_objects: if is_full {
                kvmalloc::in_full
            } else {
                kvmalloc::in_short
            },
            // In the quick form some 70 minutes, of which the phone is awake for 50.
            span: Span {
                days_milli: if is_full {
                    fallback::PUBLISHED_DAYS_MILLI
                } else {
                    50
                },
                every_s: Some(if is_full { 900 } else { 20 }),
            },
            shows_pressure: if is_full {
                fallback::in_full
            } else {
                fallback::in_short
            },
            contiguous: gcma::sized(is_full),
            shows_contiguous: if is_full {
                gcma_tables::in_full
            } else {
                gcma_tables::in_short
            },
        }
    }
}

/// Each part, as soon as it is done.
pub(super) fn each(
    size: Size,
    threads: usize,
    told: &mut impl FnMut(Part) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let plan = Plan::of(size);
    let available = experiment::available();
    match &available {
        Ok(()) => {
            told(blocks(&plan)?)?;
            told(fits(&plan)?)?;
            told(kv(&plan)?)?;
        }
        Err(lacking) => {
            for (id, title) in [BLOCKS, FITS, OBJECTS] {
                told(missing(id, title, lacking))?;
            }
        }
    }
    told(pressure(&plan, threads)?)?;
    told(match &available {
        Ok(()) => reserve::part(&plan)?,
        Err(lacking) => missing(reserve::ID, reserve::TITLE, lacking),
    })
}

/// The figures as the experiment's own command writes them.
pub(super) fn lines(info: &RunInfo, figures: &[Figure]) -> Result<Vec<u8>, CommandError> {
    figure_lines(info, figures).map_err(CommandError::input)
}

/// An experiment that this machine has not what it takes for.
fn missing(id: &str, title: &str, lacking: &experiment::Failure) -> Part {
    let section = Section {
        id: id.into(),
        title: title.into(),
        introduction: format!("Not shown on this machine: {lacking}\n"),
        items: Vec::new(),
        method: "",
        summary: vec![format!("not run: {lacking}")],
    };
    Part {
        section,
        records: Vec::new(),
    }
}

const BLOCKS: (&str, &str) = (
    "vmap-blocks",
    "How much address space does a sequence of short mappings use up?",
);

const BLOCKS_INTRODUCTION: &str = "\
vm_map_ram cuts small mappings from blocks of 1024 pages. R. Pen, 2015: a block that has room for a page is
asked first by every request for two, so blocks pile up (before: a new block is put in front of the others;
proposed: behind them; framewright: slots of a block are used again as soon as they were flushed).
";

/// `vmap-blocks`, on real mappings.
pub(super) fn blocks(plan: &Plan) -> Result<Part, CommandError> {
    let Findings { figures, latencies } = lab::measured_blocks(&plan.scenarios, plan.blocks)?;
    let names: Vec<&str> = plan.scenarios.iter().map(|case| case.name()).collect();
    let records = lines(&lab::info(BLOCKS.0, &names, plan.blocks), &figures)?;
    let mut items = vec![Item::Table(lab::blocks_table(&figures, plan.blocks))];
    for of in latencies.chunk_by(|a, b| a.case == b.case) {
        let title = format!("{}: how long a vm_map_ram takes", of[0].case);
        items.extend(drawn(title, of.to_vec()));
    }
    let (id, title) = BLOCKS;
    let section = Section {
        id: id.into(),
        title: title.into(),
        introduction: BLOCKS_INTRODUCTION.into(),
        items,
        method: "\
map and unmap: the mean over all calls of a scenario, each timed by itself, less what reading the clock takes. Areas and \
blocks: counted by the allocator during the same run, which begins with an empty window. va_span_bytes: from the lowest \
to the highest byte that was handed out. lazy_pages_peak: the most pages that were unmapped by their user and not yet \
flushed.",
        summary: summary::blocks(&figures),
    };
    Ok(Part { section, records })
}

const FITS: (&str, &str) = ("va-fit", "How long does it take to find address space?");

const FITS_INTRODUCTION: &str = "\
U. Rezki, 2018: vmalloc walked a list of busy areas (before), and a tree of gaps under one lock takes its place
(proposed); framewright has spans that belong to a CPU. First the address-space level alone, then with frames
taken and mapped.
";

/// Cases whose latencies are drawn.
const DRAWN: [&str; 3] = ["full_fit", "long_busy_list", "random_size_align"];

/// `va-fit` with each mapper.
pub(super) fn fits(plan: &Plan) -> Result<Part, CommandError> {
    let mut items = Vec::new();
    let mut told = Vec::new();
    let mut records = Vec::new();
    let names: Vec<&str> = plan.cases.iter().map(|case| case.name()).collect();
    for &options in &plan.fits {
        let Findings { figures, latencies } = lab::measured_fits(&plan.cases, options)?;
        records.extend(lines(&lab::info(FITS.0, &names, options), &figures)?);
        items.push(Item::Table(lab::fits_table(
            &figures,
            options,
            plan.shows_fit,
        )));
        for case in DRAWN {
            let of = |one: &&Distribution| one.case == case && one.call == "alloc";
            let of: Vec<Distribution> = latencies.iter().filter(of).cloned().collect();
            items.extend(drawn(
                format!(
                    "{case}, mapper {}: how long an allocation takes",
                    options.mapper.name()
                ),
                of,
            ));
        }
        told.extend(summary::fits(&figures, options.mapper));
    }
    let (id, title) = FITS;
    let section = Section {
        id: id.into(),
        title: title.into(),
        introduction: FITS_INTRODUCTION.into(),
        items,
        method: "\
op_ns: a repetition is a batch of operations between two readings of the thread's CPU time; the variants take turns, \
repetition by repetition, so that caches and neighbours are the same for all of them; the middle repetition is shown. \
time_vs_before: the middle ones' ratio. Latencies: a pass of its own with a reading of the clock before and after each \
call, less what two readings take by themselves. Counts: from that second pass, on an allocator that has done nothing \
before.

The document's own times are of a whole test, of which it does not say how many operations it has; so only its ratio \
is beside ours.",
        summary: told,
    };
    Ok(Part { section, records })
}

/// A plot of latencies, if there are any.
pub(super) fn drawn(title: String, of: Vec<Distribution>) -> Option<Item> {
    let of: Vec<Distribution> = of.into_iter().filter(|one| one.shares.len() > 1).collect();
    (!of.is_empty()).then(|| {
        Item::Latency(Latency {
            title,
            of,
            note: "Each call timed by itself; both axes are logarithmic, the lower one in what is left: the \
                   further right, the rarer."
                .into(),
        })
    })
}

const OBJECTS: (&str, &str) = (
    "kvmalloc",
    "What does a large buffer cost where memory is in pieces?",
);

const OBJECTS_INTRODUCTION: &str = "\
D. Chinner, 2023: a journal on two threads asks for 64 KiB at a high rate. `before` compacts and reclaims before
it maps pages, `proposed` maps them at once, both under one lock for all address space; framewright maps at
once, and has no lock that all share on that way. First with pages in a table of the experiment's own, which
costs what a kernel pays; then with mmap, which costs some twenty times that.
";

/// `kvmalloc` with each mapper.
pub(super) fn kv(plan: &Plan) -> Result<Part, CommandError> {
    let mut items = Vec::new();
    let mut told = Vec::new();
    let mut records = Vec::new();
    for options in &plan.objects {
        let all = [*options];
        let Findings { figures, latencies } = kvmalloc::measured(&all)?;
        let info = kvmalloc::info(options, &[options.threads]);
        records.extend(lines(&info, &figures)?);
        items.push(Item::Table(kvmalloc::table(
            &figures,
            &all,
            plan.shows_objects,
        )));
        let mapper = options.mapper.name();
        items.extend(drawn(
            format!("mapper {mapper}: how long a kvmalloc takes"),
            latencies,
        ));
        told.extend(summary::kv(&figures, options.mapper));
    }
    let (id, title) = OBJECTS;
    let section = Section {
        id: id.into(),
        title: title.into(),
        introduction: OBJECTS_INTRODUCTION.into(),
        items,
        method: "\
A thread reads its CPU time between the phases of a commit, so a call's CPU time is the mean of a batch. In every fourth \
commit each call is timed by the wall clock instead; the plots are of those. Shares are of all CPU time of the threads \
and the background. Counts (compact_stall, allocstall) are of all repetitions. Frames, who has which of them, items and \
their order are the same for every variant.",
        summary: told,
    };
    Ok(Part { section, records })
}

const PRESSURE: (&str, &str) = (
    "fallback",
    "What does a fallback cost a phone, request by request?",
);

const PRESSURE_INTRODUCTION: &str = "\
ChengYi He, 2016: a synthetic phone lives on the document's kernel as it was (before), with the document's patch
(proposed), and on this engine (framewright): requests of order 2 and 3 that had to reclaim or compact, and
pageblocks that mix what can be moved with what cannot.
";

/// `fallback` with one seed.
pub(super) fn pressure(plan: &Plan, threads: usize) -> Result<Part, CommandError> {
    let seeds = [1];
    let lives = fallback::lived(
        &Params::default(),
        &Kernels::ALL,
        &seeds,
        plan.span,
        threads,
    )?;
    let table = fallback::table(&lives.figures, &seeds, plan.span, plan.shows_pressure);
    let info = fallback::info(&Kernels::ALL, &seeds, plan.span.days_milli, false);
    let records = lines(&info, &lives.figures)?;
    let over_time = |title: &str, value, note: &str, course| {
        let line = |(name, points): (&'static str, _)| Line {
            name: name.into(),
            accent: Accent::of(name),
            is_published: false,
            points,
        };
        Item::OverTime(OverTime {
            title: title.into(),
            across: "hours awake",
            scale: Scale::Linear,
            value,
            lines: lives.courses(course).into_iter().map(line).collect(),
            note: note.into(),
        })
    };
    let items = vec![
        Item::Table(table),
        over_time(
            "Free memory of the phone",
            "MiB",
            "Frames on the kernel's free lists.",
            Course::FreeMib,
        ),
        over_time(
            "Pageblocks that hold movable frames and others",
            "pageblocks of 4 MiB",
            "Seen from outside, from what the phone holds, the same for all three.",
            Course::MixedPageblocks,
        ),
        over_time(
            "Requests that had to reclaim before they were served, so far",
            "requests",
            "Of all orders.",
            Course::Stalls,
        ),
    ];
    let (id, title) = PRESSURE;
    let section = Section {
        id: id.into(),
        title: title.into(),
        introduction: PRESSURE_INTRODUCTION.into(),
        items,
        method: "\
Virtual time: nothing here is measured with a clock. The phone's demand is drawn from one seed and is the same for all \
three kernels; what was killed or evicted is asked for again. allocstall: requests that reclaimed themselves. \
compact_stall: requests that compacted. Lists and pageblocks: at the end. docs/design/0009-fallback-and-reclaim.md says how \
the phone was fitted, and how far each row is off.",
        summary: summary::pressure(&lives.figures, plan.span),
    };
    Ok(Part { section, records })
}
