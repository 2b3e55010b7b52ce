//! `framewright sweep`: recordings under all combinations of policies, memory and settings.
//!
//! ```text
//!   recordings x policies x memory x settings ─▶ combinations ─▶ those without a row in FILE ─▶ replays, in parallel
//!                                                                     FILE, a row each ◀──────────┘
//!   in the end FILE in its order, and tables and a page with the front marked
//! ```

mod row;
mod shown;

use super::conduct::{CommandError, ReplayLimits, distinct, with_progress};
use super::input::{LoadedTrace, case_names, files_of, load_told_apart, replayed_files_of};
use super::places::claim_output;
use super::replay::{StartArg, WatermarksArg, memory_of};
use crate::files::{FileClaims, OutputSet, RowFile, is_stdout};
use crate::printable;
use crate::replay::{
    ReplayJob, ReplayOptions, ReplayPolicy, Start, TraceMemory, least_free, replay_all,
};
use crate::report::{Hollow, MachineRecord, RunInfo};
use crate::size::{SqueezeSize, read_frames_len, read_squeeze, shown_frames};
use crate::trace::TraceDigest;
use row::{CombinationKey, CombinationRow};
use shown::{SweepGroup, page};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The commit that a row is of.
const COMMIT: &str = env!("FRAMEWRIGHT_COMMIT");
/// What a build says that knows none.
const NO_COMMIT: &str = "unknown";

/// Replay recordings under all combinations of policies, memory and settings
///
/// FILE gets a row of JSON for each combination as soon as it is done. A combination that has a row there, of the same
/// trace, options and version of this command, is not replayed again: a sweep that was stopped goes on where it was.
/// In the end the rows have one order, however many replays ran at once.
///
/// The table marks with * what no other policy or setting beats with the same recording and memory: in failures of orders 2 and
/// 3, contaminated blocks, and the unusable index of order 9.
#[derive(Debug, clap::Args)]
pub(super) struct SweepArgs {
    /// The recordings
    #[arg(required = true, value_name = "RECORDING")]
    traces: Vec<PathBuf>,

    /// Policies [default: all that replay compares]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<ReplayPolicy>,

    /// Movable memory to hold back, one or more sizes: 0,160MiB, or numbers of frames; 97.5% is a share of what is free
    /// at every moment of the recording [default: 0]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', allow_hyphen_values = true, value_parser = read_squeeze, conflicts_with = "memory")]
    squeeze: Vec<SqueezeSize>,

    /// Memory that is left, one or more sizes: 2GiB,1GiB, or numbers of frames; the rest is held back
    #[arg(long, value_name = "SIZE", value_delimiter = ',', allow_hyphen_values = true, value_parser = read_frames_len)]
    memory: Vec<u64>,

    /// Where the initial objects come to lie: imposed, fresh, or both
    #[arg(long, value_enum, value_delimiter = ',', default_value = "imposed")]
    start: Vec<StartArg>,

    /// Whether requests are admitted by watermarks: on, off, auto as `replay` has it, or several of these
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off")]
    watermarks: Vec<WatermarksArg>,

    /// How often each combination is replayed: once as recorded, and then with operations of different CPUs, and batches of
    /// frees, in other orders that timing could have made; a row for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    interleavings: u32,

    /// The rows, as JSON Lines; what is there stays
    #[arg(long, value_name = "FILE")]
    json: PathBuf,

    /// Write one HTML page with the tables, and a plot of each pair of these costs with the front in it; needs no network,
    /// replaces what has that name
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    limits: ReplayLimits,
}

/// One combination of a recording.
#[derive(Debug, Clone)]
struct SweepCombination {
    key: CombinationKey,
    policy: ReplayPolicy,
    options: ReplayOptions,
    watermarks: WatermarksArg,
}

impl SweepArgs {
    fn policies(&self) -> Vec<ReplayPolicy> {
        match self.policy.is_empty() {
            true => ReplayPolicy::COMPARED.to_vec(),
            false => distinct(&self.policy),
        }
    }

    /// Frames to hold back of a recording's memory.
    fn squeezes(&self, loaded: &LoadedTrace) -> Result<Vec<u64>, CommandError> {
        let all = loaded.trace.present_frames();
        let squeeze = |&left: &u64| {
            all.checked_sub(left).ok_or_else(|| {
                CommandError::Input(format!(
                    "{}: --memory {left} is more than the recording's machine has, expected at most {}",
                    loaded.path,
                    shown_frames(all)
                ))
            })
        };
        match (self.memory.is_empty(), self.squeeze.is_empty()) {
            (false, _) => distinct(&self.memory).iter().map(squeeze).collect(),
            (true, false) => {
                let is_share = |size: &SqueezeSize| matches!(size, SqueezeSize::OfFree(_));
                // Only a share is worth a pass over the trace.
                let least = match self.squeeze.iter().any(is_share) {
                    true => least_free(&memory_of(
                        loaded,
                        ReplayOptions::new(StartArg::Imposed.into()),
                        WatermarksArg::Off,
                        self.limits.memory(),
                    )?),
                    false => 0,
                };
                let frames = |size: &SqueezeSize| size.frames(least);
                Ok(distinct(
                    &self.squeeze.iter().map(frames).collect::<Vec<_>>(),
                ))
            }
            (true, true) => Ok(vec![0]),
        }
    }

    fn combinations(
        &self,
        path: &Path,
        loaded: &LoadedTrace,
    ) -> Result<Vec<SweepCombination>, CommandError> {
        let beside = beside(path)?;
        let trace = loaded
            .digest
            .map_or_else(String::new, |digest| digest.to_string());
        let mut combinations = Vec::new();
        for squeeze in self.squeezes(loaded)? {
            for start in distinct(&self.start) {
                for watermarks in distinct(&self.watermarks) {
                    let recorded = ReplayOptions {
                        squeeze,
                        ..ReplayOptions::new(start.into())
                    };
                    // Whether so much can be held back, and the last order fits, is known before the first replay.
                    let last = ReplayOptions {
                        interleaving: self.interleavings - 1,
                        ..recorded
                    };
                    memory_of(loaded, last, watermarks, self.limits.memory())?;
                    let policies = self.policies().into_iter();
                    let orders = |policy| (0..self.interleavings).map(move |nth| (policy, nth));
                    for (policy, interleaving) in policies.flat_map(orders) {
                        let options = ReplayOptions {
                            interleaving,
                            ..recorded
                        };
                        let key = CombinationKey {
                            trace: trace.clone(),
                            beside: beside.clone(),
                            squeeze,
                            start: options.start.name().to_owned(),
                            watermarks: watermarks.name().to_owned(),
                            variant: policy.name().to_owned(),
                            interleaving,
                            version: env!("CARGO_PKG_VERSION").to_owned(),
                            commit: COMMIT.to_owned(),
                        };
                        combinations.push(SweepCombination {
                            key,
                            policy,
                            options,
                            watermarks,
                        });
                    }
                }
            }
        }
        Ok(combinations)
    }

    /// What ran; squeezes stand in the tables' captions.
    fn info(&self, hollow: Vec<Hollow>) -> RunInfo {
        let names = |all: Vec<&str>| all.join(",");
        let policies = self.policies();
        let starts = distinct(&self.start).into_iter();
        let marks = distinct(&self.watermarks).into_iter();
        RunInfo {
            experiment: "sweep",
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            seed: 0,
            options: BTreeMap::from([
                (
                    "policy",
                    names(policies.iter().map(|one| one.name()).collect()),
                ),
                (
                    "start",
                    names(starts.map(|one| Start::from(one).name()).collect()),
                ),
                (
                    "watermarks",
                    names(marks.map(WatermarksArg::name).collect()),
                ),
                ("interleavings", self.interleavings.to_string()),
            ]),
            machine: MachineRecord::this(),
            hollow,
        }
    }
}

/// The digest of the files beside a trace that a replay's figures depend on, too.
fn beside(path: &Path) -> Result<String, CommandError> {
    let mut all = Vec::new();
    for file in replayed_files_of(path) {
        let bytes = fs::read(&file)
            .map_err(|e| CommandError::Input(format!("{}: {e}", printable::path(&file))))?;
        all.extend(TraceDigest::of(&bytes).to_bytes());
    }
    Ok(TraceDigest::of(&all).to_string())
}

/// Runs the command.
///
/// # Errors
/// If a recording cannot be read or replayed, or FILE holds something else than rows or cannot be written. Rows of what
/// was done before are in FILE.
pub(super) fn run(args: &SweepArgs) -> Result<(), CommandError> {
    let names = case_names(&args.traces)?;
    claim(args)?;
    let shown = printable::path(&args.json);
    let (mut file, lines, torn) = RowFile::open(&args.json).map_err(CommandError::input)?;
    let torn_at = lines.len() + 1;
    let mut rows: Vec<(CombinationRow, String)> = Vec::new();
    for (number, line) in lines.into_iter().enumerate() {
        let at = |e| CommandError::Input(format!("{shown}:{}: {e}", number + 1));
        let row = CombinationRow::read(&line).map_err(at)?;
        // Files that were put together may have a row twice.
        match rows.iter().find(|(other, _)| other.key == row.key) {
            None => rows.push((row, line)),
            Some((other, _)) if other.is_alike(&row) => {}
            Some((other, _)) => return Err(at(row.conflict(other))),
        }
    }
    // Only now: a file of something else stays as it is.
    if !CombinationRow::may_begin(&torn) {
        return Err(CommandError::Input(format!(
            "{shown}:{torn_at}: the last line has no end and is no part of a row, expected a row of framewright sweep"
        )));
    }
    if !torn.is_empty() {
        file.cut(torn.len()).map_err(CommandError::input)?;
        let _ = writeln!(
            io::stderr(),
            "{shown}:{torn_at}: the last line is torn ({} bytes without an end); it is dropped",
            torn.len()
        );
    }
    let file = Mutex::new(file);
    // The same file in the end, where a link leads to it.
    let place = fs::canonicalize(&args.json).unwrap_or_else(|_| args.json.clone());
    let (mut asked, mut replayed, mut hollow) = (Vec::new(), 0, Vec::new());
    for (path, name) in args.traces.iter().zip(names) {
        let mut loaded = load_told_apart(path, None, args.limits.memory(), true)?;
        loaded.name = name;
        hollow.extend(loaded.hollow().into_iter().map(|(kind, says)| Hollow {
            case: loaded.name.clone(),
            kind,
            says,
        }));
        let combinations = args.combinations(path, &loaded)?;
        let is_there = |key: &CombinationKey| rows.iter().any(|(row, _)| row.key == *key);
        let of_others = combinations
            .iter()
            .filter_map(|one| rows.iter().find(|(row, _)| row.key == one.key))
            .find(|(row, _)| row.case != loaded.name);
        if let Some((row, _)) = of_others {
            let _ = writeln!(
                io::stderr(),
                "{}: the same recording as {}, whose rows stand for both",
                loaded.path,
                printable::text(&row.case)
            );
        }
        let missing: Vec<SweepCombination> = combinations
            .iter()
            .filter(|one| !is_there(&one.key))
            .cloned()
            .collect();
        replayed += missing.len();
        rows.extend(replay_missing(args, &loaded, &missing, &file)?);
        let new = combinations.into_iter().map(|one| one.key);
        let new: Vec<CombinationKey> = new.filter(|key| !asked.contains(key)).collect();
        asked.extend(new);
    }
    let taken = asked.len() - replayed.min(asked.len());
    if taken > 0 && COMMIT == NO_COMMIT {
        let _ = writeln!(
            io::stderr(),
            "{shown}: this build says no commit, so {taken} rows may be of another one that replays otherwise; without the \
             file each is replayed"
        );
    }
    rows.sort_by_cached_key(|(row, _)| row.place());
    let text: String = rows.iter().map(|(_, line)| format!("{line}\n")).collect();
    let mut outputs = OutputSet::new();
    let asked: Vec<&CombinationRow> = rows
        .iter()
        .map(|(row, _)| row)
        .filter(|row| asked.contains(&row.key))
        .collect();
    let groups = SweepGroup::all(&asked);
    let tables: Vec<String> = groups.iter().map(|group| group.tabled().text()).collect();
    let said = format!(
        "{} combinations: {replayed} replayed, {} in {shown} before\n\n{}",
        asked.len(),
        taken,
        tables.join("\n")
    );
    let mut write = |path: &Path, bytes| outputs.write(path, bytes).map_err(CommandError::input);
    write(&place, text.into_bytes())?;
    if let Some(path) = &args.html {
        let page = page(args.info(hollow), &groups).render();
        write(path, page.map_err(CommandError::input)?.into_bytes())?;
    }
    write("-".as_ref(), said.into_bytes())?;
    outputs.keep().map_err(CommandError::input)
}

/// No output is an input, and there is a place for it.
fn claim(args: &SweepArgs) -> Result<(), CommandError> {
    let mut claims = FileClaims::new();
    for path in args.traces.iter().flat_map(|path| files_of(path)) {
        claims.reads(&path).map_err(CommandError::input)?;
    }
    if is_stdout(&args.json) {
        return Err(CommandError::Input(
            "--json - wants standard output, expected a file's name: rows are looked up there"
                .into(),
        ));
    }
    claim_output(&mut claims, "--json", &args.json)?;
    if let Some(path) = &args.html {
        if is_stdout(path) {
            return Err(CommandError::Input(
                "--html - wants standard output, expected a file's name".into(),
            ));
        }
        claim_output(&mut claims, "--html", path)?;
    }
    Ok(())
}

/// Replays what has no row yet, and adds a row for each as soon as it is done.
fn replay_missing(
    args: &SweepArgs,
    loaded: &LoadedTrace,
    missing: &[SweepCombination],
    file: &Mutex<RowFile>,
) -> Result<Vec<(CombinationRow, String)>, CommandError> {
    let at = |e: &dyn std::fmt::Display| CommandError::Input(format!("{}: {e}", loaded.path));
    let mut memories: BTreeMap<(&str, u64, &str), TraceMemory<'_>> = BTreeMap::new();
    for one in missing {
        let CombinationKey {
            start,
            squeeze,
            watermarks,
            ..
        } = &one.key;
        if let Entry::Vacant(place) = memories.entry((start, *squeeze, watermarks)) {
            let limit = args.limits.memory();
            place.insert(memory_of(loaded, one.options, one.watermarks, limit)?);
        }
    }
    // As many at once as the limit has room for; one fits, as was checked.
    let at_once = args.limits.memory().len_bytes()
        / TraceMemory::replay_bytes(&loaded.trace, false, args.interleavings - 1).max(1);
    let threads = args.limits.threads();
    let threads = threads.min(usize::try_from(at_once).unwrap_or(usize::MAX).max(1));
    let next = AtomicUsize::new(0);
    let done_rows = Mutex::new(Vec::new());
    let failed: Mutex<Option<CommandError>> = Mutex::new(None);
    let one_row = |one: &SweepCombination, done: &AtomicU64| {
        let CombinationKey {
            start,
            squeeze,
            watermarks,
            ..
        } = &one.key;
        let memory = &memories[&(start.as_str(), *squeeze, watermarks.as_str())];
        let job = ReplayJob {
            policy: one.policy,
            memory,
            options: one.options,
        };
        let outcomes = replay_all(&[job], 1, done).map_err(|e| at(&e))?;
        let left = loaded.trace.present_frames() - squeeze;
        let rows = outcomes.iter().map(|outcome| {
            let row = CombinationRow::new(&loaded.name, one.key.clone(), left, outcome);
            let line = row.line().map_err(|e| at(&e))?;
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.add(&line).map_err(CommandError::input)?;
            Ok((row, line))
        });
        rows.collect::<Result<Vec<_>, CommandError>>()
    };
    let ops = loaded.trace.ops.len() as u64 * missing.len() as u64;
    with_progress(&loaded.name, ops, |done| {
        let work = || {
            // Relaxed: the counter only hands out indices; rows are passed by their lock.
            while let Some(one) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                match one_row(one, done) {
                    Ok(rows) => done_rows
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend(rows),
                    Err(error) => {
                        next.store(missing.len(), Ordering::Relaxed);
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(missing.len()) {
                scope.spawn(work);
            }
            work();
        });
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(done_rows
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)),
    }
}
