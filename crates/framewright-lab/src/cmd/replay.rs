//! `framewright replay`: what memory would have looked like under another policy.

use super::answered::{AnsweredCase, base_of};
use super::error::CommandError;
use super::input::{LoadedTrace, case_names, files_of, load};
use super::progress::with_progress;
use crate::files::{FileClaims, OutputSet, is_stdout};
use crate::measure::{Film, MAX_ORDER, Picture, Sample, replay as m};
use crate::replay::admission::{MachineZone, MarksSource};
use crate::replay::reclaim::reclaims;
use crate::replay::{
    MachineZones, ProposedSqueeze, ReclaimOptions, ReplayJob, ReplayOptions, ReplayOutcome,
    ReplayPolicy, SAMPLE_MS, Start, TraceMemory, labels_by_state, placement, propose_squeezes,
    replay_all,
};
use crate::report::html::HtmlPage;
use crate::report::{
    self, Accent, Assertion, BlockMaps, Calibration, Deviation, Hollow, Item, MachineRecord, Note,
    OverTime, PerfettoCase, PlotLine, ReportCase, ReportColumn, RunInfo, Scale, Section, Tabled,
    accent, calibrate, calibrate_requests, case_grid, has_place, hollow_samples, hollow_text,
    json_lines, linux_column, perfetto, placement_column, request_calibration_lines, series_csv,
    verdict,
};
use crate::size::{read_frames_len, read_mib, shown_frames};
use crate::trace::MemoryLimit;
use clap::ValueEnum;
use framewright::Order;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replay traces of the kernel's page allocator under several policies, side by side
///
/// Reads ftrace text (`trace` and `trace_pipe`), `perf script` text and PFT1; plain, gzip or
/// zstd; `-` is standard input.
///
/// Unless --reclaim is given, a replay neither reclaims nor compacts; in any case the programs do not
/// react to what becomes of memory. Compare policies with each other, not a policy with a running
/// system.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("series").multiple(true)))]
pub struct ReplayArgs {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Policies to compare, the first is the one others are marked against [default: all but
    /// no-grouping]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub policy: Vec<ReplayPolicy>,

    /// Where the initial objects come to lie
    #[arg(long, value_enum, default_value_t = StartArg::Imposed)]
    pub start: StartArg,

    /// Movable memory to hold back from the start to the end, like a balloon: 5GiB, 160MiB, or a number of frames
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = read_frames_len)]
    pub squeeze: u64,

    /// The recording machine's /proc/pagetypeinfo when the trace began: pageblocks are labelled so
    /// that the free frames under each label have its shares, and a text trace gets as much free
    /// memory as it lists
    #[arg(long, value_name = "PAGETYPEINFO")]
    pub state: Option<PathBuf>,

    /// Whether a request must leave what the machine's zones keep back, as Linux has it: under every policy the same
    #[arg(long, value_enum, default_value_t = WatermarksArg::Off, conflicts_with = "reclaim")]
    pub watermarks: WatermarksArg,

    /// Try one allocation of this order at each trace second, and free it at once
    #[arg(long, value_name = "ORDER", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub probe: Option<u8>,

    /// Reclaim and compact: a request that cannot be served at once waits, which is a stall, and what
    /// that costs is counted. Policies that can: linux-4.4 and proposal with the rules of Linux 3.10
    /// around their fallback, and the engine's with its own
    #[arg(long)]
    pub reclaim: bool,

    /// After the trace, request this many huge pages of order 9, hold them, and count what compaction
    /// alone does for them
    #[arg(long, value_name = "N", requires = "reclaim", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub probe_huge: u64,

    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a series over trace time
    #[arg(long, value_name = "FILE", group = "series")]
    pub csv: Option<PathBuf>,

    /// Write a series in Perfetto's format, for ui.perfetto.dev: memory as counters and failures as slices, under each
    /// policy and, where the trace comes with it, on the recording machine
    #[arg(long, value_name = "FILE", group = "series")]
    pub perfetto: Option<PathBuf>,

    /// Trace seconds between two points of the series
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds, requires = "series")]
    pub every: f64,

    /// Write one HTML page with the table, free memory over time, and a map of the pageblocks under each
    /// policy that can be moved through time; needs no network, replaces what has that name
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// What to print
    #[arg(long, value_enum, default_value_t = PrintFormat::Table)]
    pub format: PrintFormat,

    /// Demand a relation between figures, as `framewright.failures_order3==0`; may be repeated.
    /// Exit code 1 if one does not hold in every case
    #[arg(long = "assert", value_name = "EXPR")]
    pub assertions: Vec<Assertion>,

    /// How much of this machine's memory a trace may take: while it is read, and for each replay of it
    /// as 8GiB, or a number of MiB [default: 4GiB, and for a replay no more than 512MiB and 1KiB for each operation]
    #[arg(long, value_name = "SIZE", value_parser = read_mib)]
    pub memory_limit: Option<u64>,

    /// Time each replay, best with --jobs 1; only then do figures differ from run to run
    #[arg(long)]
    pub time: bool,

    /// Replays that run at once [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// The three columns of every experiment: there is a kernel for each that reclaims.
pub(super) const RECLAIMING: [ReplayPolicy; 3] = [
    ReplayPolicy::HISTORICAL[0],
    ReplayPolicy::HISTORICAL[1],
    ReplayPolicy::OURS,
];

/// Pictures of memory on a page.
pub(super) const PICTURES: u32 = 120;

/// [`Start`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartArg {
    /// Where the recording had them
    Imposed,
    /// Where each policy puts them
    Fresh,
}

/// Whether requests are admitted by watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WatermarksArg {
    /// By the recording's zones; where it has none, by one with the marks that Linux computes for its memory
    On,
    /// A policy serves a request as long as it finds a block
    Off,
}

impl WatermarksArg {
    const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// The zones behind whose marks `loaded` is replayed.
    fn zones(self, loaded: &LoadedTrace) -> Option<MachineZones> {
        let trace = &loaded.trace;
        (self == Self::On).then(|| match &loaded.zones {
            Some(infos) => MachineZones::recorded(trace, infos),
            None => MachineZones::computed(trace),
        })
    }
}

/// What a reader of a replay with reclaim must know.
const RECLAIM_NOTES: [&str; 3] = [
    "linux-4.4 and proposal have the watermarks, reclaim and compaction of Linux 3.10 around their \
     fallback, with pageblocks of 512 frames; the engine's policies have the engine's own",
    "what a request may wait for, and which objects are copies of files, stands in the recording's \
     flags; the oldest are given back first, and nothing is dirty",
    "whether and when the programs would have read again what reclaim took is not known: its later \
     frees are passed over, and the memory is not asked for again",
];

/// What a reader of the huge-page probes must know.
const HUGE_NOTE: &str = "the huge pages are requested one after another when the trace is over, held, \
                         and served from what is free or by compaction: nothing is reclaimed for \
                         them, and the background has no time";

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrintFormat {
    /// A table with a column a policy
    Table,
    /// The final state of each policy as /proc/pagetypeinfo has it
    Pagetypeinfo,
    /// The final state of each policy as /proc/buddyinfo has it
    Buddyinfo,
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.001..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number of seconds from 0.001 to 1e9".into()),
    }
}

impl ReplayArgs {
    fn start(&self) -> Start {
        match self.start {
            StartArg::Imposed => Start::Imposed,
            StartArg::Fresh => Start::Fresh,
        }
    }

    fn policies(&self) -> Vec<ReplayPolicy> {
        if self.policy.is_empty() {
            let all = if self.reclaim {
                &RECLAIMING[..]
            } else {
                ReplayPolicy::COMPARED
            };
            return all.to_vec();
        }
        let mut policies = Vec::new();
        for &policy in &self.policy {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        policies
    }

    fn limit(&self) -> MemoryLimit {
        self.memory_limit
            .map_or(MemoryLimit::default(), |mib| MemoryLimit::bytes(mib << 20))
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.jobs.map_or_else(all, usize::from)
    }

    /// The options as the figures' first record has them. Paths are left out: they are of this
    /// machine, and the cases have the traces' names.
    fn described(&self) -> BTreeMap<&'static str, String> {
        let names: Vec<String> = self.policies().iter().map(ToString::to_string).collect();
        let mut options = BTreeMap::from([
            ("policy", names.join(",")),
            ("start", self.start().name().to_owned()),
            ("squeeze", self.squeeze.to_string()),
            (
                "state",
                if self.state.is_some() {
                    "given"
                } else {
                    "none"
                }
                .to_owned(),
            ),
            ("jobs", self.threads().to_string()),
            ("watermarks", self.watermarks.name().to_owned()),
        ]);
        options.extend(self.probe.map(|order| ("probe", order.to_string())));
        if self.reclaim {
            options.insert("reclaim", "yes".into());
            options.insert("probe_huge", self.probe_huge.to_string());
        }
        options
    }
}

/// One trace replayed under all policies.
pub(super) struct Replayed {
    /// The figures.
    pub(super) case: ReportCase,
    /// The outcomes, in the order of the policies.
    pub(super) outcomes: Vec<ReplayOutcome>,
}

/// Replays one loaded trace, and calibrates where the trace comes with what Linux itself did. With `answers` it has the
/// sentences that stand before the table.
pub(super) fn replay_case(
    loaded: &LoadedTrace,
    policies: &[ReplayPolicy],
    (options, watermarks): (ReplayOptions, WatermarksArg),
    threads: usize,
    limit: MemoryLimit,
    answers: bool,
) -> Result<Replayed, CommandError> {
    let at =
        |cause: &dyn std::fmt::Display| CommandError::Input(format!("{}: {cause}", loaded.path));
    let reclaims = options.reclaim.is_some();
    TraceMemory::check_size(&loaded.trace, reclaims, limit).map_err(|e| at(&e))?;
    let mut memory = TraceMemory::new(&loaded.trace).map_err(|e| at(&e))?;
    // As many at once as the limit has room for; one fits, as was just checked.
    let at_once = limit.len_bytes() / TraceMemory::replay_bytes(&loaded.trace, reclaims).max(1);
    let threads = threads.min(usize::try_from(at_once).unwrap_or(usize::MAX).max(1));
    let free = memory.free_frames_at_start();
    // With reclaim the balloon takes what others give back, and the figures say what it did not get.
    if options.squeeze > free && options.reclaim.is_none() {
        return Err(at(&format!(
            "--squeeze {} is more than there is to take away, expected at most the {} frames \
             that are free at the start",
            options.squeeze,
            shown_frames(free)
        )));
    }
    if let Some(listed) = loaded.listed {
        memory.labels = labels_by_state(&loaded.trace, listed);
    }
    if let Some(min) = loaded.min_watermark {
        memory.min_watermark = min;
    }
    if !reclaims {
        memory.zones = watermarks.zones(loaded);
    }
    let mut jobs: Vec<ReplayJob<'_>> = policies
        .iter()
        .map(|&policy| ReplayJob {
            policy,
            memory: &memory,
            options,
        })
        .collect();
    let calibrates = loaded.reference.is_some() && options.reclaim.is_none();
    if calibrates {
        // Always from the recorded layout and without squeeze: only that is what Linux did.
        jobs.push(ReplayJob {
            policy: ReplayPolicy::RECORDING_KERNEL,
            memory: &memory,
            options: ReplayOptions {
                every_ms: Some(SAMPLE_MS),
                ..ReplayOptions::new(Start::Imposed)
            },
        });
    }
    let as_recorded = options.start == Start::Imposed && options.squeeze == 0;
    let base = base_of(policies, reclaims);
    // The calibration is a replay of the recording kernel's rules as recorded, too.
    let is_there = policies.contains(&base) || (calibrates && as_recorded);
    let wants_base = answers && !is_there;
    if wants_base {
        jobs.push(ReplayJob {
            policy: base,
            memory: &memory,
            options: ReplayOptions {
                every_ms: None,
                pictures: 0,
                ..options
            },
        });
    }
    let ops = loaded.trace.ops.len() as u64;
    let mut outcomes = with_progress(&loaded.name, ops * jobs.len() as u64, |done| {
        replay_all(&jobs, threads, done)
    })
    .map_err(|e| at(&e))?;
    let mut columns = Vec::new();
    let mut calibration = None;
    let mut notes = loaded.notes.clone();
    let own_base = wants_base.then(|| outcomes.pop()).flatten();
    let model = calibrates.then(|| outcomes.pop()).flatten();
    if let Some(reference) = &loaded.reference {
        let of = |model| calibrate(&loaded.trace, reference, model);
        calibration = model.as_ref().and_then(of);
        if as_recorded {
            columns.push(linux_column(&loaded.trace, reference));
        }
    }
    if let (None, Some(chosen), true) = (&loaded.reference, &loaded.chosen, as_recorded) {
        let placement = placement(&memory, chosen).map_err(|e| at(&e))?;
        columns.push(placement_column(&loaded.trace, &placement));
        notes.push(format!(
            "linux is where the recording kernel put each allocation; {} frames moved later and \
             are missing there, so memory looks emptier than it was",
            placement.moved_frames
        ));
    }
    if let Some(machine) = &memory.zones {
        notes.push(shown_zones(machine));
    }
    if as_recorded && !reclaims {
        let of_base = outcomes
            .iter()
            .find(|outcome| outcome.policy == base.name());
        let of_base = of_base.or(own_base.as_ref()).or(model.as_ref());
        notes.extend(of_base.into_iter().flat_map(request_calibration_lines));
    }
    let samples = outcomes
        .first()
        .map_or(0, |outcome| outcome.means.samples());
    let mut found = loaded.hollow();
    found.extend(hollow_samples(samples, &memory));
    found.extend(empty_errors(calibration.as_ref(), &outcomes));
    if let Some(stalls) = outcomes.iter().find_map(|outcome| outcome.stalls.as_ref()) {
        notes.extend(RECLAIM_NOTES.map(str::to_owned));
        if stalls.huge.tries.tried > 0 {
            notes.push(HUGE_NOTE.to_owned());
        }
    }
    let mut proposed = None;
    let has_failed = |outcome: &ReplayOutcome| outcome.failures.iter().any(|&count| count > 0);
    if !reclaims && !loaded.trace.ops.is_empty() && !outcomes.iter().any(has_failed) {
        let policy = policies
            .first()
            .copied()
            .unwrap_or(ReplayPolicy::RECORDING_KERNEL);
        let found = propose_squeezes(&memory, policy, options, threads).map_err(|e| at(&e))?;
        notes.push(nothing_fails(policy, &found));
        proposed = found.first().map(|one| one.frames);
    }
    let of_base = outcomes
        .iter()
        .find(|outcome| outcome.policy == base.name())
        .or(own_base.as_ref())
        .or(model.as_ref().filter(|_| as_recorded));
    let answer = match of_base.filter(|_| answers) {
        None => None,
        Some(of_base) => {
            let case = AnsweredCase {
                loaded,
                memory: &memory,
                policies,
                options,
                threads,
                outcomes: &outcomes,
                base: (base, of_base),
                calibration: calibration.as_ref(),
                hollow: &found,
                proposed,
            };
            Some(case.answer()?)
        }
    };
    columns.extend(outcomes.iter().map(|outcome| {
        let mut column = ReportColumn::of(outcome);
        if as_recorded && !reclaims {
            column.values.extend(calibrate_requests(outcome));
        }
        column
    }));
    let name = format!(
        "{}/{}/b{}",
        loaded.name,
        options.start.name(),
        options.squeeze
    );
    let hollow = |(kind, says)| Hollow {
        case: name.clone(),
        kind,
        says,
    };
    let case = ReportCase {
        hollow: found.into_iter().map(hollow).collect(),
        name,
        ops,
        columns,
        anomalies: loaded.anomalies.clone(),
        calibration,
        notes,
        answer,
    };
    Ok(Replayed { case, outcomes })
}

/// Behind whose marks requests were admitted.
fn shown_zones(machine: &MachineZones) -> String {
    let zone = |zone: &MachineZone| {
        let [min, low, high] = zone.marks;
        format!("{} {} ({min}, {low}, {high})", zone.name, zone.frames)
    };
    let zones: Vec<String> = machine.zones.iter().map(zone).collect();
    let source = match machine.source {
        MarksSource::Recorded => "as the recording has them",
        MarksSource::Summed => {
            "with the sums of the recording's, because what was free does not tell where its zones lie"
        }
        MarksSource::Computed => "computed as Linux does, because the recording has none",
    };
    format!(
        "requests are admitted by watermarks, {source}: zones of so many frames (min, low, high) {}; who may wait is served \
         below them where the machine served it, and counted as stalled",
        zones.join(", ")
    )
}

/// What to ask instead where nothing fails.
fn nothing_fails(policy: ReplayPolicy, proposed: &[ProposedSqueeze]) -> String {
    let each = proposed.iter().map(|one| match one.fails {
        Some((order, count)) => format!(
            "--squeeze {} (under {policy} {count} requests of order {order} fail)",
            shown_frames(one.frames)
        ),
        None => format!(
            "--squeeze {} (more than is ever free: some request fails under every policy)",
            shown_frames(one.frames)
        ),
    });
    let each: Vec<String> = each.collect();
    match each.is_empty() {
        true => "no request fails, and none would with less memory".into(),
        false => format!(
            "no request fails; with less memory some do: {}",
            each.join(", ")
        ),
    }
}

/// Failures of which the model's error says nothing because there were none, although some policy has them here.
fn empty_errors(
    calibration: Option<&Calibration>,
    outcomes: &[ReplayOutcome],
) -> Option<(&'static str, String)> {
    let is_empty = |order: &usize| {
        let has_some = outcomes.iter().any(|outcome| outcome.failures[*order] > 0);
        let metric = m::FAILURES.of(*order);
        has_some
            && calibration
                .is_some_and(|c| c.deviations.get(&metric).is_some_and(Deviation::is_empty))
    };
    let orders: Vec<String> = (0..=MAX_ORDER)
        .filter(is_empty)
        .map(|k| k.to_string())
        .collect();
    (!orders.is_empty()).then(|| {
        let says = format!(
            "the model's error is 0 for failures of order {} because the recording has none of them: how far a replay \
             with less memory is off there is not known",
            orders.join(", ")
        );
        ("zero_error", says)
    })
}

/// Runs the command.
///
/// # Errors
/// If a trace cannot be read or replayed, an output cannot be written, or an assertion does not
/// hold.
pub fn run(args: &ReplayArgs) -> Result<(), CommandError> {
    let to_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
    if args.format != PrintFormat::Table && (to_stdout(&args.json) || to_stdout(&args.csv)) {
        return Err(CommandError::Input(
            "--format and an output on standard output both want that, expected one of them".into(),
        ));
    }
    let names = case_names(&args.traces)?;
    claim(args)?;
    let options = ReplayOptions {
        start: args.start(),
        squeeze: args.squeeze,
        probe: args.probe.and_then(Order::new),
        every_ms: (args.csv.is_some() || args.perfetto.is_some())
            .then(|| (args.every * 1000.0).round() as u64),
        reclaim: args.reclaim.then_some(ReclaimOptions {
            huge_probes: args.probe_huge,
        }),
        pictures: if args.html.is_some() { PICTURES } else { 0 },
        time: args.time,
    };
    let policies = args.policies();
    if args.reclaim
        && let Some(policy) = policies.iter().find(|&&policy| !reclaims(policy))
    {
        return Err(CommandError::Input(format!(
            "--reclaim: there is no kernel that reclaims with the policy {policy}, expected some of {}",
            RECLAIMING.map(ReplayPolicy::name).join(", ")
        )));
    }
    let (mut replayed, mut machines) = (Vec::new(), Vec::new());
    for (path, name) in args.traces.iter().zip(names) {
        let mut loaded = load(path, args.state.as_deref(), args.limit())?;
        loaded.name = name;
        let (threads, limit) = (args.threads(), args.limit());
        let how = (options, args.watermarks);
        replayed.push(replay_case(&loaded, &policies, how, threads, limit, true)?);
        machines.push(loaded.reference);
    }
    let cases: Vec<ReportCase> = replayed.iter().map(|r| r.case.clone()).collect();
    let info = RunInfo {
        experiment: "replay",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: 0,
        options: args.described(),
        machine: MachineRecord::this(),
        hollow: cases.iter().flat_map(|case| case.hollow.clone()).collect(),
    };
    let mut failed = Vec::new();
    for assertion in &args.assertions {
        for case in &cases {
            let held = assertion.check(case).map_err(CommandError::input)?;
            if !held.held {
                failed.push(held.figures);
            }
        }
    }
    let mut outputs = OutputSet::new();
    let mut write = |path: &Path, bytes| outputs.write(path, bytes).map_err(CommandError::input);
    if let Some(path) = &args.csv {
        let runs: Vec<(&str, &ReplayOutcome)> = replayed
            .iter()
            .flat_map(|r| {
                r.outcomes
                    .iter()
                    .map(|outcome| (r.case.name.as_str(), outcome))
            })
            .collect();
        write(path, series_csv(&runs).into_bytes())?;
    }
    if let Some(path) = &args.perfetto {
        let cases = replayed
            .iter()
            .zip(&machines)
            .map(|(r, machine)| PerfettoCase {
                name: &r.case.name,
                policies: (r.outcomes.iter())
                    .map(|outcome| (outcome.policy, &*outcome.series))
                    .collect(),
                machine: machine.as_deref(),
            });
        write(path, perfetto(&cases.collect::<Vec<_>>()))?;
    }
    if let Some(path) = &args.html {
        let page = page(info.clone(), &replayed);
        let text = page.render().map_err(CommandError::input)?;
        write(path, text.into_bytes())?;
    }
    if let Some(path) = &args.json {
        let lines = json_lines(&info, &cases).map_err(CommandError::input)?;
        write(path, lines)?;
    }
    if !to_stdout(&args.json) && !to_stdout(&args.csv) {
        let first = hollow_text(&info.hollow);
        let text = match args.format {
            PrintFormat::Table => first + &printed(args.format, &replayed),
            // What programs read as Linux's own stays so.
            _ => {
                let _ = io::stderr().write_all(first.as_bytes());
                printed(args.format, &replayed)
            }
        };
        write("-".as_ref(), text.into_bytes())?;
    }
    outputs.keep().map_err(CommandError::input)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Assertion(failed.join("\n")))
    }
}

/// Claims what the command reads and writes: no output is an input or another output (OF1), and each has a place.
fn claim(args: &ReplayArgs) -> Result<(), CommandError> {
    let mut claims = FileClaims::new();
    for path in args
        .traces
        .iter()
        .flat_map(|path| files_of(path))
        .chain(args.state.clone())
    {
        claims.reads(&path).map_err(CommandError::input)?;
    }
    for (option, path) in [
        ("--json", &args.json),
        ("--csv", &args.csv),
        ("--perfetto", &args.perfetto),
        ("--html", &args.html),
    ] {
        let Some(path) = path else { continue };
        if matches!(option, "--html" | "--perfetto") && is_stdout(path) {
            return Err(CommandError::Input(format!(
                "{option} - wants standard output, expected a file's name"
            )));
        }
        claims.writes(option, path).map_err(CommandError::input)?;
        has_place(path).map_err(CommandError::input)?;
    }
    Ok(())
}

/// A case as a reader sees it: table, calibration, verdict, anomalies.
pub(super) fn case_table(case: &ReportCase) -> Tabled {
    let has_stalls = |column: &ReportColumn| column.values.contains_key(&m::STALL.of(0));
    let reclaims = case.columns.iter().any(has_stalls);
    let calibrated = match &case.calibration {
        Some(calibration) => format!(
            "model error: how far {} replayed from the recorded layout is from what Linux did, \
             over {} samples",
            calibration.model, calibration.samples
        ),
        None if reclaims => {
            "not calibrated: the model of the recording kernel does not reclaim".into()
        }
        None => "not calibrated: nothing says what Linux itself did (NAME.linux_ref.csv beside \
                 the trace would), so how far a replay is from the machine is not known"
            .into(),
    };
    let mut notes = vec![Note::Text(calibrated)];
    let rivals = ReplayPolicy::HISTORICAL.map(ReplayPolicy::name);
    notes.extend(verdict(case, ReplayPolicy::OURS.name(), &rivals).map(Note::Listing));
    notes.extend(case.notes.iter().cloned().map(Note::Text));
    let anomaly = |(kind, count): &(String, u64)| Note::Text(format!("anomaly: {kind} {count}"));
    notes.extend(case.anomalies.iter().map(anomaly));
    Tabled {
        caption: format!("{}: {} operations", case.name, case.ops),
        grid: case_grid(case),
        notes,
    }
}

/// What a page shows of a case: its table, and memory over time under each policy of `shows`.
pub(super) fn case_items(replayed: &Replayed, shows: impl Fn(&str) -> bool) -> Vec<Item> {
    let Replayed { case, outcomes } = replayed;
    let films: Vec<_> = outcomes
        .iter()
        .filter(|outcome| shows(outcome.policy))
        .filter_map(|outcome| Some((outcome.policy, outcome.film.as_ref()?)))
        .collect();
    let mut items = vec![Item::Table(case_table(case))];
    if films.is_empty() {
        return items;
    }
    let over_time = |title: &str, note: &str, value: fn(&Sample) -> u64| {
        let line = |&(policy, film): &(&str, &Film)| {
            let point = |picture: &Picture| {
                let sample = &picture.sample;
                (
                    sample.ms as f64 / 1000.0,
                    value(sample) as f64 / FRAMES_PER_MIB,
                )
            };
            PlotLine {
                name: named(policy),
                accent: accent(policy),
                is_published: false,
                points: film.pictures.iter().map(point).collect(),
            }
        };
        Item::OverTime(OverTime {
            title: format!("{}: {title}", case.name),
            across: "seconds of the trace",
            scale: Scale::Linear,
            value: "MiB",
            lines: films.iter().map(line).collect(),
            note: note.into(),
        })
    };
    items.push(over_time(
        "free memory",
        "Frames that no allocation holds. The programs ask the same of every policy, so lines part only \
         where requests fail.",
        Sample::free_frames,
    ));
    items.push(over_time(
        "free memory in whole blocks of 2 MiB",
        "What a huge page could be made of without moving anything.",
        |sample| sample.free_2m_blocks() << 9,
    ));
    items.push(Item::Map(BlockMaps {
        title: format!("{}: what each block of memory holds", case.name),
        films: films
            .into_iter()
            .map(|(policy, film)| (named(policy), film.clone()))
            .collect(),
    }));
    items
}

const FRAMES_PER_MIB: f64 = 256.0;

/// A policy's name, with that of its column where it has one.
fn named(policy: &str) -> String {
    match accent(policy).map(Accent::name) {
        Some(column) => format!("{policy} ({column})"),
        None => policy.to_owned(),
    }
}

/// How the figures of a replay are taken.
pub(super) const METHOD: &str = "\
A replay asks each policy for what the recording was asked for, in its order. An observer outside notes which frames \
are handed out and freed, the same for every policy, and every figure that policies are compared by comes from it; an \
allocator that hands a frame out twice stops the replay. Means are over samples, one a trace second. \
With --time, replay_ns_per_op is wall time, allocator and observer together.

The model's error is how far the replay of the recording kernel's own rules is from what that kernel did: the mean of \
the absolute differences over the samples. A figure marked ~ differs from the first policy's by no more than that.

docs/metrics.md in the repository has each formula.";

fn page(info: RunInfo, replayed: &[Replayed]) -> HtmlPage {
    let section = |(nth, one): (usize, &Replayed)| Section {
        id: format!("case-{}", nth + 1),
        title: one.case.name.clone(),
        introduction: String::new(),
        items: case_items(one, |_| true),
        method: METHOD,
        summary: one
            .case
            .answer
            .iter()
            .flat_map(|answer| answer.sentences.clone())
            .collect(),
    };
    HtmlPage {
        title: "What memory would have looked like".into(),
        lead: "A recording of what a kernel's page allocator was asked for, replayed under several \
               policies. The programs go on as recorded whatever becomes of memory: compare policies \
               with each other, not a policy with a running system."
            .into(),
        info,
        sections: replayed.iter().enumerate().map(section).collect(),
    }
}

fn printed(format: PrintFormat, replayed: &[Replayed]) -> String {
    let mut text = String::new();
    for Replayed { case, outcomes } in replayed {
        match format {
            PrintFormat::Table => {
                text.extend(case.answer.iter().map(|answer| answer.text(&case.name)));
                text += &case_table(case).text();
            }
            PrintFormat::Pagetypeinfo | PrintFormat::Buddyinfo => {
                for outcome in outcomes {
                    text += &format!("# {} {}\n", case.name, outcome.policy);
                    text += &match format {
                        PrintFormat::Buddyinfo => report::buddyinfo(outcome),
                        _ => report::pagetypeinfo(outcome),
                    };
                }
            }
        }
        text.push('\n');
    }
    text
}
