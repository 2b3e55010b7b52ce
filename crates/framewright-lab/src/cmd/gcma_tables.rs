//! The tables of `framewright lab gcma`: the requests, and the build beside them.
//!
//! Both have the columns of every experiment, `before` being CMA and `proposed` GCMA; behind them what only this
//! document has.

use crate::experiment::Clock;
use crate::experiment::gcma::metrics::{self as m, Of};
use crate::experiment::gcma::{BACKGROUND, Background, DRAWN_ABOVE, Device, Options, SIZES};
use crate::measure::Metric;
use crate::report::{Figure, FigureColumn, Machine, Note, Tabled, figure_grid_of};

/// The columns; those of the requests, and behind them the build's, who has one more.
const COLUMNS: [FigureColumn; 9] = [
    ("cma", true, "published\nbefore\n(cma)"),
    ("gcma", true, "published\nproposed\n(gcma)"),
    ("cma", false, "before\n(cma)"),
    ("gcma", false, "proposed\n(gcma)"),
    ("framewright", false, "framewright"),
    ("gcma.zram", true, "published\ngcma.zram"),
    ("gcma.zram", false, "gcma.zram"),
    ("original", true, "published\noriginal"),
    ("original", false, "original"),
];

/// How many of them the requests have: nobody asks `original` for anything.
const OF_REQUESTS: usize = 7;

/// What the command shows.
pub(super) fn in_full(metric: Metric) -> bool {
    ![m::REQUESTS, m::LATENCY_US.of(Of::P99 as usize)].contains(&metric)
}

/// What the main job shows.
pub(super) fn in_short(metric: Metric) -> bool {
    in_full(metric) && ![m::PAGES_MIGRATED, m::PAGES_DISCARDED, m::WAIT_US].contains(&metric)
}

/// The tables and what a reader must know: the requests', and the build's if there was one.
pub(super) fn tables(
    figures: &[Figure],
    options: &Options,
    shows: fn(Metric) -> bool,
) -> Vec<Tabled> {
    let (builds, requests): (Vec<_>, Vec<_>) =
        figures.iter().cloned().partition(|f| f.case == BACKGROUND);
    let mut tables = vec![of_requests(&requests, options, shows)];
    if !builds.is_empty() {
        tables.push(of_builds(&builds, options, shows));
    }
    tables
}

fn of_requests(figures: &[Figure], options: &Options, shows: fn(Metric) -> bool) -> Tabled {
    let machine = Machine::this();
    let beside = match (options.idle, options.background) {
        (true, _) => "guests' clean pages in every frame, nobody at work",
        (false, Background::None) => "every frame free, nobody at work",
        (false, Background::Build) => match options.device {
            Device::Card => "beside a build on an emulated class 10 SD card",
            Device::Host => "beside a build on the host's own device",
        },
        (false, Background::Guest) => "guests' clean pages in every frame, one guest always busy",
    };
    let mut notes = vec![format!(
        "published: CuBox i4 Pro, 4 CPUs ARMv7 at 1 GHz, 800 MiB, 256 MiB reserved, beside a kernel build. Ours: {},\n\
         {} CPUs. From a request's call to its return, less the clock's own {} ns.",
        machine.cpu,
        machine.cpus,
        Clock::calibrated().own_ns,
    )];
    let has = |frames: &u64| figures.iter().any(|f| f.case == frames.to_string());
    let (last, lacking) = (
        SIZES.iter().rfind(|s| has(s)),
        SIZES.iter().filter(|s| !has(s)).count(),
    );
    if let (Some(last), 1..) = (last, lacking) {
        notes.push(format!(
            "{lacking} of the document's {} sizes are not shown: an area of {} MiB has room for one request of each \
             up to {last} frames.",
            SIZES.len(),
            options.reserve_bytes >> 20,
        ));
    }
    Tabled {
        caption: format!(
            "gcma: {} requests of {} from {} MiB of {} MiB; {beside}",
            options.requests,
            if options.requests > DRAWN_ABOVE {
                "sizes that are drawn"
            } else {
                "each size"
            },
            options.reserve_bytes >> 20,
            options.ram_bytes >> 20,
        ),
        grid: figure_grid_of(&COLUMNS[..OF_REQUESTS], figures, shows),
        notes: notes.into_iter().map(Note::Text).collect(),
    }
}

fn of_builds(figures: &[Figure], options: &Options, shows: fn(Metric) -> bool) -> Tabled {
    let notes = format!(
        "published: five kernel builds on that board. Ours: {} build(s) of each variant by turns, {} worker(s).",
        options.runs, options.workers
    );
    Tabled {
        caption:
            "gcma, the build: what it takes beside the requests; original is cma without a request"
                .into(),
        grid: figure_grid_of(&COLUMNS, figures, shows),
        notes: vec![Note::Text(notes)],
    }
}
