//! `framewright lab fallback`.

use super::CommandError;
use super::input::text_of;
use super::lab::failed;
use super::progress::with_progress;
use super::replay;
use crate::experiment::Progress;
use crate::experiment::fallback::metrics as m;
use crate::experiment::fallback::{
    Course, Job, Outcome, Params, Policy, Span, case, figures, live_all, middles, series,
};
use crate::measure::Metric;
use crate::report::{
    Figure, FigureAssertion, Machine, Note, RunInfo, Tabled, figure_grid, figure_lines, has_place,
    write_whole,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Huge pages requested after a trace, as after the recorded ones.
const HUGE_PROBES: u64 = 350;

/// The most days.
const DAYS_MAX: f64 = 100.0;

/// Order-2 and order-3 stalls of a phone after days: what a fallback does to memory (ChengYi He, 2016)
///
/// A synthetic phone of 2.7 GB lives on Linux 3.10.49 as it was (before), with the document's patch
/// (proposed), and on this engine (framewright). What it asks for is the same for all of them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long, of which the device is awake for the parameter file's share
    #[arg(long, value_name = "DAYS", default_value = "2.5", value_parser = days_milli)]
    days: u64,

    /// Seeds of the demand, as 1,2,7
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    seed: Vec<u64>,

    /// The seeds from 1 to K instead
    #[arg(long, value_name = "K", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,

    /// Policies [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<Policy>,

    /// The phone, in the form of the program's own phone.toml (crates/framewright-lab/src/experiment/fallback)
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,

    /// Lives at a time [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a series over virtual time
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Seconds awake between two points of the series
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    every: u64,

    /// The same machine over this recorded trace, in the phone's place, with 350 huge pages requested at
    /// its end: `framewright replay --reclaim`, which has assertions and more options
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["days", "seed", "seeds", "params", "assertions"])]
    trace: Option<PathBuf>,

    /// Frames to hold back from the trace's memory, from the start to the end
    #[arg(long, value_name = "FRAMES", requires = "trace", default_value_t = 0)]
    squeeze: u64,

    /// Demand a relation between figures, as `framewright.allocstall<=proposed.allocstall`; may be
    /// repeated. Exit code 1 if one does not hold for every seed
    #[arg(long = "assert", value_name = "EXPR")]
    assertions: Vec<FigureAssertion>,
}

fn days_milli(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(days) if (0.001..=DAYS_MAX).contains(&days) => Ok((days * 1000.0).round() as u64),
        _ => Err(format!("expected days from 0.001 to {DAYS_MAX}")),
    }
}

impl Args {
    /// Where figures are to be written.
    pub(super) const fn json(&self) -> &Option<PathBuf> {
        &self.json
    }

    fn seeds(&self) -> Vec<u64> {
        let mut seeds = Vec::new();
        let all = self.seeds.map(|last| (1..=last).collect());
        for seed in all.unwrap_or_else(|| self.seed.clone()) {
            if !seeds.contains(&seed) {
                seeds.push(seed);
            }
        }
        seeds
    }

    fn policies(&self) -> Vec<Policy> {
        let is_named = |policy: &Policy| self.policy.is_empty() || self.policy.contains(policy);
        Policy::ALL.into_iter().filter(is_named).collect()
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.jobs.map_or_else(all, usize::from)
    }

    fn params(&self) -> Result<Params, CommandError> {
        let Some(path) = &self.params else {
            return Ok(Params::default());
        };
        let (name, text) = text_of(path)?;
        Params::read(&name, &text).map_err(CommandError::input)
    }

    /// What `framewright replay` is asked for `trace`.
    fn replay_of(&self, trace: &Path) -> replay::Args {
        let named = |policy: Policy| match policy {
            Policy::Before => replay::RECLAIMING[0],
            Policy::Proposed => replay::RECLAIMING[1],
            Policy::Framewright => replay::RECLAIMING[2],
        };
        replay::Args {
            traces: vec![trace.to_owned()],
            policy: self.policies().into_iter().map(named).collect(),
            start: replay::StartArg::Imposed,
            squeeze: self.squeeze,
            state: None,
            probe: None,
            reclaim: true,
            probe_huge: HUGE_PROBES,
            json: self.json.clone(),
            csv: self.csv.clone(),
            every: self.every as f64,
            html: None,
            format: replay::Format::Table,
            assertions: Vec::new(),
            memory_limit: None,
            jobs: self.jobs,
        }
    }
}

/// What ran; `is_given` says whether another phone than the program's own.
pub(super) fn info(policies: &[Policy], seeds: &[u64], days_milli: u64, is_given: bool) -> RunInfo {
    let policies: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
    let all: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let params = if is_given { "given" } else { "default" };
    RunInfo {
        experiment: "fallback",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: seeds.first().copied().unwrap_or(0),
        options: BTreeMap::from([
            ("days", (days_milli as f64 / 1000.0).to_string()),
            ("seeds", all.join(",")),
            ("policy", policies.join(",")),
            ("params", params.to_owned()),
        ]),
        machine: Machine::this(),
    }
}

/// Runs the command.
///
/// # Errors
/// If the parameter file has a fault, an output cannot be written, or an assertion does not hold.
pub fn run(args: &Args) -> Result<(), CommandError> {
    if let Some(trace) = &args.trace {
        return replay::run(&args.replay_of(trace));
    }
    let is_stdout = |path: &Option<PathBuf>| path.as_ref().is_some_and(|p| p.as_os_str() == "-");
    if is_stdout(&args.json) && is_stdout(&args.csv) {
        return Err(CommandError::Input(
            "--json - and --csv - both want standard output, expected one of them".into(),
        ));
    }
    if let Some(path) = &args.csv {
        has_place(path).map_err(CommandError::input)?;
    }
    let params = args.params()?;
    let seeds = args.seeds();
    let span = Span {
        days_milli: args.days,
        every_s: args.csv.as_ref().map(|_| args.every),
    };
    let lives = lived(&params, &args.policies(), &seeds, span, args.threads())?;
    let mut unheld = Vec::new();
    for assertion in &args.assertions {
        for &seed in &seeds {
            let held = assertion.check(&case(seed), &lives.figures);
            let held = held.map_err(CommandError::input)?;
            if !held.held {
                unheld.push(held.figures);
            }
        }
    }
    if let Some(path) = &args.csv {
        let text = series(&lives.jobs, &lives.outcomes);
        write_whole(path, text.as_bytes()).map_err(CommandError::input)?;
    }
    if let Some(path) = &args.json {
        let policies = args.policies();
        let info = info(&policies, &seeds, args.days, args.params.is_some());
        let lines = figure_lines(&info, &lives.figures);
        let lines = lines.map_err(CommandError::input)?;
        write_whole(path, &lines).map_err(CommandError::input)?;
    }
    if !is_stdout(&args.json) && !is_stdout(&args.csv) {
        let text = table(&lives.figures, &seeds, span, in_full).text();
        write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
    }
    if unheld.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Assertion(unheld.join("\n")))
    }
}

/// Lives, with their figures.
pub(super) struct Lives {
    jobs: Vec<Job>,
    outcomes: Vec<Outcome>,
    /// Of each seed, behind the document's.
    pub(super) figures: Vec<Figure>,
}

impl Lives {
    /// The first seed's lives over time.
    pub(super) fn courses(&self, of: Course) -> Vec<(&'static str, Vec<(f64, f64)>)> {
        let first = self.jobs.first().map(|job| job.seed);
        let lives = self.jobs.iter().zip(&self.outcomes);
        let of_first = lives.filter(|(job, _)| Some(job.seed) == first);
        of_first
            .map(|(job, outcome)| (job.policy.name(), outcome.course(of)))
            .collect()
    }
}

/// Each policy with each seed, with progress.
pub(super) fn lived(
    params: &Params,
    policies: &[Policy],
    seeds: &[u64],
    span: Span,
    threads: usize,
) -> Result<Lives, CommandError> {
    let of = |&seed| policies.iter().map(move |&policy| Job { policy, seed });
    let jobs: Vec<Job> = seeds.iter().flat_map(of).collect();
    let steps = span.steps(params) * jobs.len() as u64;
    let outcomes = with_progress("fallback", steps, |done| {
        live_all(params, &jobs, span, threads, Progress::new(done))
    })
    .map_err(failed)?;
    let figures = figures(&jobs, &outcomes);
    Ok(Lives {
        jobs,
        outcomes,
        figures,
    })
}

/// The document's time: its counts are to be compared with those of as much.
pub(super) const PUBLISHED_DAYS_MILLI: u64 = 2500;

/// What the command shows: what the document has, and what the phone felt.
pub(super) fn in_full(metric: Metric) -> bool {
    let is_of = |family: Metric, few: usize| (0..few).any(|at| metric == family.of(at));
    if metric.is(m::FREE) {
        return (0..3).any(|list| (0..4).any(|order| metric == m::FREE.of_two(list, order)));
    }
    if metric.is(m::ALLOCSTALL_ORDER) {
        return is_of(m::ALLOCSTALL_ORDER, 4);
    }
    ![m::KSWAPD_WAKE, m::COMPACT_DAEMON_WAKE, m::REQUESTS].contains(&metric)
}

/// What the main job shows.
pub(super) fn in_short(metric: Metric) -> bool {
    let is_of = |family: Metric, few: usize| (0..few).any(|at| metric == family.of(at));
    let shown = [
        m::MIXED_PAGEBLOCKS,
        m::MIXED_PAGEBLOCKS_MEAN,
        m::ALLOCSTALL,
        m::PGSTEAL_KSWAPD,
        m::PGSTEAL_DIRECT,
        m::COMPACT_STALL,
        m::COMPACT_FREE_SCANNED,
        m::PGMIGRATE_SUCCESS,
    ];
    is_of(m::BLOCKS, 3) || is_of(m::ALLOCSTALL_ORDER, 4) || shown.contains(&metric)
}

/// The table and what a reader must know.
pub(super) fn table(
    figures: &[Figure],
    seeds: &[u64],
    span: Span,
    shows: fn(Metric) -> bool,
) -> Tabled {
    let days = span.days_milli as f64 / 1000.0;
    let several = seeds.len() > 1;
    let middle = if several {
        middles(figures, seeds.len())
    } else {
        Vec::new()
    };
    let shown = if several { &middle } else { figures };
    let mut notes = Vec::new();
    if span.days_milli != PUBLISHED_DAYS_MILLI {
        notes.push("published: counts of 2.5 days, which are not to be compared with those of another time.");
    }
    notes.push(
        "The phone was fitted once, to the document's before column; proposed and framewright are \
         predictions\n(docs/design/0009-fallback-and-reclaim.md). Mixed pageblocks hold movable frames and \
         others; the document\ndoes not count them.",
    );
    Tabled {
        caption: format!(
            "fallback: a synthetic phone of 2.7 GB, {days} days; pageblocks of 4 MiB, lists at the end, counts of \
             all the time"
        ),
        grid: figure_grid(shown, shows),
        notes: notes
            .into_iter()
            .map(|note| Note::Text(note.into()))
            .collect(),
    }
}
