//! `framewright compare`: two recordings, before and after a change on a machine.

use super::conduct::{CommandError, ReplayLimits, distinct, with_progress};
use super::input::{LoadedTrace, files_of, load_told_apart};
use super::places::claim_output;
use super::replay::{WatermarksArg, memory_of, seconds};
use crate::files::{FileClaims, OutputSet, is_stdout};
use crate::measure::TimeWindows;
use crate::replay::{
    ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, Start, TraceMemory, replay_all,
};
use crate::report::{
    ComparedRecording, ComparedVariant, FigureSource, LINUX, MachineRecord, POINTS_A_WINDOW,
    RecordingComparison, RunInfo, WindowedFigure, machine_figures, replay_figures,
};
use crate::size::read_frames_len;
use crate::trace::state::ZoneInfo;
use crate::trace::{OpKind, Trace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Windows of the shorter recording at most, unless --window says how long they are.
const WINDOWS_MAX: u64 = 600;
/// Windows of the longer one at most: time that a few bytes of a recording claim is not worked through window by window.
const WINDOWS_OF_LONGER_MAX: u64 = 20_000;

/// Compare two recordings, before and after a change: what differs beyond chance
///
/// Each figure is taken in equal windows of both recordings: a rate where it counts, a mean over time where it is a
/// state. The difference has a range, of 90 %, from a block bootstrap over the windows; what lies beyond it is marked.
/// Figures are the machine's own, and those of a replay of both under a policy.
///
/// Reads what `framewright replay` reads, and the files beside it.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The recording from before the change
    #[arg(value_name = "A")]
    before: PathBuf,

    /// The recording from after it
    #[arg(value_name = "B")]
    after: PathBuf,

    /// Policies under which both are replayed [default: the rules of the recorded kernels]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<ReplayPolicy>,

    /// Movable memory to hold back in the replays: 5GiB, 160MiB, or a number of frames
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true, value_parser = read_frames_len)]
    squeeze: u64,

    /// Whether a request must leave in the replays what the machine's zones keep back
    #[arg(long, value_enum, default_value_t = WatermarksArg::Auto)]
    watermarks: WatermarksArg,

    /// The length of a window [default: 1, or so that the shorter recording has 600 and the longer one 20000]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    window: Option<f64>,

    /// Write the figures as JSON Lines; `-` for standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    limits: ReplayLimits,
}

impl CompareArgs {
    fn policies(&self, loaded: &[LoadedTrace; 2]) -> Vec<ReplayPolicy> {
        match self.policy.is_empty() {
            true => distinct(&loaded.each_ref().map(LoadedTrace::rules)),
            false => distinct(&self.policy),
        }
    }

    fn described(
        &self,
        policies: &[ReplayPolicy],
        window_ms: u64,
        watermarks: WatermarksArg,
    ) -> BTreeMap<&'static str, String> {
        let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
        BTreeMap::from([
            ("policy", names.join(",")),
            ("squeeze", self.squeeze.to_string()),
            ("watermarks", watermarks.name().to_owned()),
            ("window_ms", window_ms.to_string()),
        ])
    }
}

/// Runs the command.
///
/// # Errors
/// If a recording cannot be read or replayed, has no whole window, or the output cannot be written.
pub(super) fn run(args: &CompareArgs) -> Result<(), CommandError> {
    claim(args)?;
    let load = |path: &Path| load_told_apart(path, None, args.limits.memory(), true);
    let loaded = [load(&args.before)?, load(&args.after)?];
    let lens = loaded.each_ref().map(|loaded| len_ms(&loaded.trace));
    let window_ms = match args.window {
        Some(seconds) => (seconds * 1000.0).round() as u64,
        None => default_window_ms(lens),
    };
    let windows = lens.map(|ms| TimeWindows::of(ms, window_ms));
    for (loaded, (windows, ms)) in loaded.iter().zip(windows.iter().zip(lens)) {
        if ms == 0 {
            return Err(CommandError::Input(format!(
                "{}: no time passes in the recording, expected one of some seconds",
                loaded.path
            )));
        }
        if windows.count() == 0 {
            return Err(CommandError::Input(format!(
                "{}: the recording lasts {} s, expected at least one window of {} s; --window takes a shorter one",
                loaded.path,
                ms as f64 / 1000.0,
                window_ms as f64 / 1000.0
            )));
        }
        if windows.count() as u64 > WINDOWS_OF_LONGER_MAX {
            return Err(CommandError::Input(format!(
                "{}: the recording has {} windows of {} s, expected at most {WINDOWS_OF_LONGER_MAX}; --window takes a \
                 longer one",
                loaded.path,
                windows.count(),
                window_ms as f64 / 1000.0
            )));
        }
    }
    let machine = [0, 1].map(|at: usize| {
        let one = &loaded[at];
        machine_figures(
            &one.trace,
            one.reference.as_deref(),
            one.stalls,
            windows[at],
        )
    });
    let mut variants = vec![ComparedVariant::of(LINUX, FigureSource::Measured, machine)];
    let watermarks = args.watermarks.of_all(&loaded);
    let memory = |at: usize| {
        let options = options(args, windows[at]);
        memory_of(&loaded[at], options, watermarks, args.limits.memory())
    };
    let mut memories = [memory(0)?, memory(1)?];
    // Both by the same rules: where one has no rounds to follow, a model takes the place of either's.
    if memories.iter().any(|memory| memory.background.is_none()) {
        memories = memories.map(|memory| memory.with_less());
    }
    let policies = args.policies(&loaded);
    let [a, b] =
        [0, 1].map(|at: usize| replayed(args, &policies, &loaded[at], &memories[at], windows[at]));
    for (policy, both) in policies.iter().zip(a?.into_iter().zip(b?)) {
        let both = [both.0, both.1];
        variants.push(ComparedVariant::of(
            policy.name(),
            FigureSource::Simulated,
            both,
        ));
    }
    let side = |at: usize| {
        let one = &loaded[at];
        ComparedRecording {
            name: one.name.clone(),
            ms: lens[at],
            frames: one.trace.present_frames(),
            managed: one.zones.as_deref().map(managed),
            kernel: one.kernel.clone(),
            hollow: hollow(one, args.policy.is_empty()),
        }
    };
    let comparison = RecordingComparison {
        sides: [side(0), side(1)],
        windows,
        variants,
    };
    let mut outputs = OutputSet::new();
    let mut write = |path: &Path, bytes| outputs.write(path, bytes).map_err(CommandError::input);
    if let Some(path) = &args.json {
        let info = RunInfo {
            experiment: "compare",
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("FRAMEWRIGHT_COMMIT"),
            seed: 0,
            options: args.described(&policies, window_ms, watermarks),
            machine: MachineRecord::this(),
            hollow: Vec::new(),
        };
        write(path, comparison.json(&info).map_err(CommandError::input)?)?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        write("-".as_ref(), comparison.text().into_bytes())?;
    }
    outputs.keep().map_err(CommandError::input)
}

/// The frames that all zones manage.
fn managed(zones: &[ZoneInfo]) -> u64 {
    let managed = zones.iter().map(|zone| zone.managed);
    managed.fold(0, u64::saturating_add)
}

/// No output is an input, and each has a place.
fn claim(args: &CompareArgs) -> Result<(), CommandError> {
    let mut claims = FileClaims::new();
    for path in [&args.before, &args.after] {
        for file in files_of(path) {
            claims.reads(&file).map_err(CommandError::input)?;
        }
    }
    if args.before.as_os_str() == "-" && args.after.as_os_str() == "-" {
        return Err(CommandError::Input(
            "standard input is given twice, expected it once".into(),
        ));
    }
    if let Some(path) = &args.json {
        claim_output(&mut claims, "--json", path)?;
    }
    Ok(())
}

fn options(args: &CompareArgs, windows: TimeWindows) -> ReplayOptions {
    ReplayOptions {
        squeeze: args.squeeze,
        every_ms: Some((windows.len_ms() / POINTS_A_WINDOW).max(1)),
        ..ReplayOptions::new(Start::Imposed)
    }
}

/// The figures of each policy's replay.
fn replayed(
    args: &CompareArgs,
    policies: &[ReplayPolicy],
    loaded: &LoadedTrace,
    memory: &TraceMemory<'_>,
    windows: TimeWindows,
) -> Result<Vec<Vec<WindowedFigure>>, CommandError> {
    let options = options(args, windows);
    let job = |&policy: &ReplayPolicy| ReplayJob {
        policy,
        memory,
        options,
    };
    let jobs: Vec<ReplayJob<'_>> = policies.iter().map(job).collect();
    let threads = args.limits.threads();
    let ops = loaded.trace.ops.len() as u64 * jobs.len() as u64;
    let outcomes = with_progress(&loaded.name, ops, |done| replay_all(&jobs, threads, done));
    let outcomes: Vec<ReplayOutcome> =
        outcomes.map_err(|e| CommandError::Input(format!("{}: {e}", loaded.path)))?;
    Ok(outcomes
        .iter()
        .map(|outcome| replay_figures(outcome, windows))
        .collect())
}

/// Whole seconds, so that neither recording has more windows than it may.
fn default_window_ms(lens: [u64; 2]) -> u64 {
    let shorter = lens[0].min(lens[1]) / WINDOWS_MAX;
    let longer = lens[0].max(lens[1]) / WINDOWS_OF_LONGER_MAX;
    shorter.max(longer).div_ceil(1000).max(1) * 1000
}

fn len_ms(trace: &Trace) -> u64 {
    let ticks = trace.ops.iter().filter(|op| op.kind() == OpKind::Tick);
    ticks.map(|op| u64::from(op.value)).sum()
}

/// What makes the figures of a recording say less than they seem to; `takes_rules` where they are of the rules of its kernel.
fn hollow(loaded: &LoadedTrace, takes_rules: bool) -> Vec<String> {
    let mut says: Vec<String> = loaded.hollow().into_iter().map(|(_, says)| says).collect();
    says.extend(loaded.assumed_rules().filter(|_| takes_rules));
    if loaded.reference.is_none() {
        says.push(
            "nothing says what Linux itself made of memory (NAME.linux_ref.csv beside the trace would), so the machine \
             has counts of requests only"
                .into(),
        );
    }
    says
}
