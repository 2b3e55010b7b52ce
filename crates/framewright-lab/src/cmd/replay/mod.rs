//! `framewright replay`: what memory would have looked like under another policy.

mod answered;
mod cards;
mod case;
mod choices;
mod course;
mod nearby;
mod settings;
mod shown;

pub(super) use case::{CaseWants, ReplayMeans, Replayed, memory_of, replay_case};
pub use choices::{CompactionArg, PrintFormat, SettingsArg, StacksBy, StartArg, WatermarksArg};
pub(super) use course::MIXED_BLOCKS;
pub(super) use shown::{METHOD, case_items};

use super::conduct::{CommandError, ReplayLimits, distinct};
use super::input::{case_names, files_of, load};
use super::places::claim_output;
use crate::files::{FileClaims, OutputSet, is_stdout};
use crate::replay::reclaim::reclaims;
use crate::replay::{ReclaimOptions, ReplayOptions, ReplayOutcome, ReplayPolicy, Start};
use crate::report::{
    Assertion, COLLAPSED_MAX, FlameGraph, MachineRecord, OwnersReport, PerfettoCase, ReportCase,
    RunInfo, StackWeight, flame_svg, hollow_text, json_lines, perfetto, series_csv,
};
use crate::size::read_frames_len;
use crate::trace::state::read_page_owner;
use crate::trace::{Askers, Input};
use framewright::Order;
use shown::{page, printed};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replay traces of the kernel's page allocator under several policies, side by side
///
/// Reads ftrace text (`trace` and `trace_pipe`), `perf script` text, PFT1 to PFT5; plain, gzip or
/// zstd; `-` is standard input.
///
/// Unless --reclaim is given, no request of a replay reclaims or compacts, and frames move only where the
/// recording machine's compaction emptied them; in any case the programs do not
/// react to what becomes of memory. Compare policies with each other, not a policy with a running
/// system.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("series").multiple(true)))]
pub struct ReplayArgs {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Policies to compare; others are marked against the one with the recorded kernel's rules, or where that is not among
    /// them the first [default: all but linux-6.18-defrag and no-grouping]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub policy: Vec<ReplayPolicy>,

    /// Where the initial objects come to lie
    #[arg(long, value_enum, default_value_t = StartArg::Imposed)]
    pub start: StartArg,

    /// Movable memory to hold back from the start to the end, like a balloon: 5GiB, 160MiB, or a number of frames
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true, value_parser = read_frames_len)]
    pub squeeze: u64,

    /// The recording machine's /proc/pagetypeinfo when the trace began: pageblocks are labelled so
    /// that the free frames under each label have its shares, and a text trace gets as much free
    /// memory as it lists
    #[arg(long, value_name = "PAGETYPEINFO")]
    pub state: Option<PathBuf>,

    /// A dump of the recording machine's /sys/kernel/debug/page_owner, as it is or from page_owner_sort, plain, gzip or zstd: it
    /// names the callers that hold what was there before the recording, too
    #[arg(long, value_name = "PAGE_OWNER")]
    pub page_owner: Option<PathBuf>,

    /// Whether a request must leave what the machine's zones keep back, as Linux has it: under every policy the same
    #[arg(long, value_enum, default_value_t = WatermarksArg::Auto, conflicts_with = "reclaim")]
    pub watermarks: WatermarksArg,

    /// What of the machine's compaction happens in a replay too: under every policy the same frames are emptied
    #[arg(long, value_enum, default_value_t = CompactionArg::Recorded, conflicts_with = "reclaim")]
    pub compaction: CompactionArg,

    /// Settings that the recorded kernel has and that are tried on its recording, where requests are admitted by watermarks and
    /// some fail: under its rules, at nearby squeezes and in other orders as the policies are. `few` takes up to 15 more
    /// replays, `all` up to 30
    #[arg(long, value_enum, default_value_t = SettingsArg::Few)]
    pub settings: SettingsArg,

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
    /// policy and on the recording machine, whose counters are those that the trace comes with
    #[arg(long, value_name = "FILE", group = "series")]
    pub perfetto: Option<PathBuf>,

    /// Trace seconds between two points of the series
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds, requires = "series")]
    pub every: f64,

    /// Write one HTML page with the table, free memory over time, and a map of the pageblocks under each
    /// policy that can be moved through time; needs no network, replaces what has that name
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the askers by command and call chain as collapsed stacks, a line each with its weight, which `flamegraph.pl` and
    /// `inferno-flamegraph` draw; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE", conflicts_with = "time")]
    pub stacks: Option<PathBuf>,

    /// What stacks are weighed by
    #[arg(long, value_enum, default_value_t = StacksBy::Held, requires = "stacks")]
    pub stacks_by: StacksBy,

    /// Draw two flame graphs of the askers by command and call chain, as one SVG: the holders of what is in the way at the end, and
    /// those that made pageblocks mixed; replaces what has that name
    #[arg(long, value_name = "FILE", conflicts_with = "time")]
    pub flame: Option<PathBuf>,

    /// What to print
    #[arg(long, value_enum, default_value_t = PrintFormat::Table)]
    pub format: PrintFormat,

    /// Demand a relation between figures, as `framewright.failures_order3==0`; may be repeated.
    /// Exit code 1 if one does not hold in every case
    #[arg(long = "assert", value_name = "EXPR")]
    pub assertions: Vec<Assertion>,

    /// Time each replay, best with --jobs 1; only then do figures differ from run to run. The askers are then shown
    /// in the kernel's own layout or not at all
    #[arg(long)]
    pub time: bool,

    /// What the replays may take of this machine
    #[command(flatten)]
    pub limits: ReplayLimits,
}

/// The three columns of every experiment: there is a kernel for each that reclaims.
pub(super) const RECLAIMING: [ReplayPolicy; 3] = [
    ReplayPolicy::HISTORICAL[0],
    ReplayPolicy::HISTORICAL[1],
    ReplayPolicy::OURS,
];

/// Pictures of memory on a page.
pub(super) const PICTURES: u32 = 120;

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.001..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number of seconds from 0.001 to 1e9".into()),
    }
}

impl ReplayArgs {
    fn start(&self) -> Start {
        self.start.into()
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
        distinct(&self.policy)
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
            ("jobs", self.limits.threads().to_string()),
            ("watermarks", self.watermarks.name().to_owned()),
            ("compaction", self.compaction.name().to_owned()),
            ("settings", self.settings.name().to_owned()),
        ]);
        if self.page_owner.is_some() {
            options.insert("page_owner", "given".into());
        }
        options.extend(self.probe.map(|order| ("probe", order.to_string())));
        if self.reclaim {
            options.insert("reclaim", "yes".into());
            options.insert("probe_huge", self.probe_huge.to_string());
        }
        options
    }
}

/// Runs the command.
///
/// # Errors
/// If a trace cannot be read or replayed, an output cannot be written, or an assertion does not
/// hold.
pub fn run(args: &ReplayArgs) -> Result<(), CommandError> {
    let to_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
    let is_taken = [&args.json, &args.csv, &args.stacks]
        .into_iter()
        .any(to_stdout);
    if args.format != PrintFormat::Table && is_taken {
        return Err(CommandError::Input(
            "--format and an output on standard output both want that, expected one of them".into(),
        ));
    }
    let names = case_names(&args.traces)?;
    if args.page_owner.is_some() && names.len() > 1 {
        return Err(CommandError::Input(
            "--page-owner: a dump is of one machine, expected one trace beside it".into(),
        ));
    }
    claim(args)?;
    let options = ReplayOptions {
        start: args.start(),
        squeeze: args.squeeze,
        probe: args.probe.and_then(Order::new),
        every_ms: (args.csv.is_some() || args.perfetto.is_some() || args.html.is_some())
            .then(|| (args.every * 1000.0).round() as u64),
        reclaim: args.reclaim.then_some(ReclaimOptions {
            huge_probes: args.probe_huge,
        }),
        pictures: if args.html.is_some() { PICTURES } else { 0 },
        time: args.time,
        who: false,
        compaction: args.compaction == CompactionArg::Recorded,
        interleaving: 0,
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
    let owners = args.page_owner.as_deref().map(|path| {
        let input = Input::open(path).map_err(CommandError::input)?;
        let input = input.with_memory_limit(args.limits.memory());
        let owners = read_page_owner(input).map_err(CommandError::input)?;
        Ok(OwnersReport::new(&owners))
    });
    let owners = owners.transpose()?;
    let mut replayed: Vec<Replayed> = Vec::new();
    let mut collapsed = String::new();
    let mut flames = [
        (
            "fixed frames that are held in mixed pageblocks at the end",
            "frames",
        ),
        ("times that a pageblock was made mixed", "times"),
    ]
    .map(|(title, unit)| FlameGraph {
        title: title.to_owned(),
        unit,
        stacks: String::new(),
    });
    for (path, name) in args.traces.iter().zip(names) {
        let mut loaded = load(path, args.state.as_deref(), args.limits.memory())?;
        loaded.name = name;
        let of_askers = [("--stacks", &args.stacks), ("--flame", &args.flame)];
        if let Some((option, _)) = of_askers.into_iter().find(|(_, path)| path.is_some())
            && !loaded.trace.askers.is_known()
        {
            // Before the work, which can take minutes.
            return Err(unnamed(option, &loaded.name));
        }
        let means = ReplayMeans {
            threads: args.limits.threads(),
            limit: args.limits.memory(),
            stop: None,
        };
        let watermarks = args.watermarks;
        let wants = CaseWants {
            answers: true,
            settings: args.settings,
            owners: owners.as_ref(),
        };
        replayed.push(replay_case(
            &loaded, &policies, options, watermarks, means, wants,
        )?);
        let case = &replayed[replayed.len() - 1].case;
        let askers = &loaded.trace.askers;
        let root = (args.traces.len() > 1).then_some(&*case.name);
        if args.stacks.is_some() {
            let text = stacks("--stacks", case, askers, root, args.stacks_by.weight())?;
            if text.is_empty() {
                let name = &case.name;
                let _ = writeln!(
                    io::stderr(),
                    "--stacks: in {name} there is nothing to weigh; --stacks-by weighs something else"
                );
            }
            collapsed += &text;
        }
        if args.flame.is_some() {
            for (graph, by) in flames.iter_mut().zip([StacksBy::Held, StacksBy::Mixed]) {
                graph.stacks += &stacks("--flame", case, askers, root, by.weight())?;
            }
        }
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
        let cases = replayed.iter().map(|r| PerfettoCase {
            name: &r.case.name,
            policies: (r.outcomes.iter())
                .map(|outcome| (outcome.policy, &*outcome.series))
                .collect(),
            rows: &r.machine.rows,
            failures: &r.machine.failures,
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
    if let Some(path) = &args.stacks {
        write(path, collapsed.into_bytes())?;
    }
    if let Some(path) = &args.flame {
        write(path, flame_svg(&flames).into_bytes())?;
    }
    if !is_taken {
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

/// There is nothing that stacks could be made of.
fn unnamed(option: &str, name: &str) -> CommandError {
    CommandError::Input(format!(
        "{option}: {name} does not name the askers, expected a recording with the names of tasks, or with call chains"
    ))
}

/// The collapsed stacks of a case, with `root` below each.
fn stacks(
    option: &str,
    case: &ReportCase,
    askers: &Askers,
    root: Option<&str>,
    by: StackWeight,
) -> Result<String, CommandError> {
    let who = case
        .who
        .as_ref()
        .ok_or_else(|| unnamed(option, &case.name))?;
    who.collapsed(askers, root, by).ok_or_else(|| {
        CommandError::Input(format!(
            "{option}: {} has too many stacks, expected at most {} MiB",
            case.name,
            COLLAPSED_MAX >> 20
        ))
    })
}

/// Claims what the command reads and writes: no output is an input or another output (OF1), and each has a place.
fn claim(args: &ReplayArgs) -> Result<(), CommandError> {
    let inputs = args
        .traces
        .iter()
        .chain(&args.state)
        .chain(&args.page_owner);
    if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(CommandError::Input(
            "two inputs are both -, but standard input can be read once, expected a file's name for one of them".into(),
        ));
    }
    let mut claims = FileClaims::new();
    for path in args
        .traces
        .iter()
        .flat_map(|path| files_of(path))
        .chain(args.state.clone())
        .chain(args.page_owner.clone())
    {
        claims.reads(&path).map_err(CommandError::input)?;
    }
    for (option, path) in [
        ("--json", &args.json),
        ("--csv", &args.csv),
        ("--perfetto", &args.perfetto),
        ("--html", &args.html),
        ("--stacks", &args.stacks),
        ("--flame", &args.flame),
    ] {
        let Some(path) = path else { continue };
        if matches!(option, "--html" | "--perfetto" | "--flame") && is_stdout(path) {
            return Err(CommandError::Input(format!(
                "{option} - wants standard output, expected a file's name"
            )));
        }
        claim_output(&mut claims, option, path)?;
    }
    Ok(())
}
