//! What `framewright replay` and `sweep` work out, for a program that calls this crate: a recording with all that lies beside
//! it, and its figures under each policy. The figures are those of the commands; nothing is printed and no file is written.

use super::CommandError;
use super::input::{LoadedTrace, case_names, files_of, load_told_apart};
use super::replay::{
    CaseWants, RECLAIMING, ReplayMeans, SettingsArg, WatermarksArg, memory_of, replay_case,
};
use crate::measure::MAX_ORDER;
use crate::printable;
use crate::replay::reclaim::reclaims;
use crate::replay::{
    FlatSettings, ReclaimOptions, ReplayJob, ReplayOptions, ReplayPolicy, Start, TraceMemory,
    flat_replay, least_free, replay_all_until, replayed_lines,
};
use crate::report::{ReportCase, ReportColumn};
use crate::size::{SqueezeSize, shown_frames};
use crate::trace::state::ZoneInfo;
use crate::trace::{MemoryLimit, OpKind, TraceDigest};
use framewright::Order;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// A file cannot be read or replayed.
    Input(InputFault),
    /// The caller asked for what there is not; what was expected.
    Usage(String),
    /// The caller wanted no further replay to begin.
    Stopped,
}

/// What is wrong with a file: where, what, and what was expected. Displays as the commands show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFault {
    /// The file, printable.
    pub file: String,
    /// The line, counted from 1, where the fault has one.
    pub line: Option<u64>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl InputFault {
    /// From what a command shows; a message about none of the `files` is about the first.
    fn of(shown: &str, files: &[PathBuf]) -> Self {
        let names = files.iter().map(|file| printable::path(file));
        // Names may begin alike, and may hold colons themselves.
        let name = names
            .filter(|name| {
                shown
                    .strip_prefix(&**name)
                    .is_some_and(|rest| rest.starts_with(':'))
            })
            .max_by_key(String::len);
        let Some(file) = name else {
            let file = files
                .first()
                .map_or_else(String::new, |file| printable::path(file));
            return Self {
                file,
                line: None,
                message: shown.to_owned(),
            };
        };
        let rest = &shown[file.len() + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let line = rest[..digits]
            .parse()
            .ok()
            .filter(|_| rest[digits..].starts_with(':'));
        let message = match line {
            Some(_) => &rest[digits + 1..],
            None => rest,
        };
        Self {
            file,
            line,
            message: message.trim_start().to_owned(),
        }
    }
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(fault) => fault.fmt(f),
            Self::Usage(message) => f.write_str(message),
            Self::Stopped => f.write_str("stopped before the last replay began"),
        }
    }
}

impl std::error::Error for CallError {}

/// How a recording is replayed. What [`ReplayOptions`] has and this has not is for outputs of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaySettings {
    /// Where the initial objects come to lie.
    pub start: Start,
    /// Movable frames to hold back.
    pub squeeze: u64,
    /// Whether requests are admitted by watermarks.
    pub watermarks: WatermarksArg,
    /// Settings of the recorded kernel that are tried beside the policies.
    pub settings: SettingsArg,
    /// Try one allocation of this order at each trace second.
    pub probe: Option<Order>,
    /// Requests that cannot be served at once reclaim and compact; with it, the huge pages to request after the trace.
    pub reclaim: Option<u64>,
}

impl ReplaySettings {
    fn options(self) -> ReplayOptions {
        ReplayOptions {
            squeeze: self.squeeze,
            probe: self.probe,
            reclaim: self
                .reclaim
                .map(|huge_probes| ReclaimOptions { huge_probes }),
            ..ReplayOptions::new(self.start)
        }
    }
}

/// What a recording holds, counted.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingFacts {
    /// What cases are called.
    pub name: String,
    /// What tells the trace from every other.
    pub digest: TraceDigest,
    /// The recording machine's kernel, where the recorder's summary lies beside the trace or a stream says so.
    pub kernel: Option<String>,
    /// CPUs that appear in it: the largest number, plus one.
    pub cpus: u16,
    /// Frames that exist.
    pub frames: u64,
    /// Those that are free at the start.
    pub free_frames: u64,
    /// The order of the machine's pageblocks, as far as a file says.
    pub block_order: Option<u64>,
    /// The machine's zones, as far as a file says.
    pub zones: Vec<ZoneInfo>,
    /// Allocations, frees and failures.
    pub events: u64,
    /// From the first to the last.
    pub milliseconds: u64,
    /// Requests that failed on the recording machine, by order.
    pub failures: [u64; MAX_ORDER + 1],
    /// Whether it was read from text, which does not say what was free.
    pub is_text: bool,
    /// What the input could not mean as it stands, by kind.
    pub anomalies: Vec<(String, u64)>,
    /// Why its figures say less than they seem to: a word for programs, and a sentence.
    pub hollow: Vec<(&'static str, String)>,
    /// What a reader must know of the files beside it.
    pub notes: Vec<String>,
}

/// A recording with all that lies beside it. Immutable, so that threads may share it.
#[derive(Debug)]
pub struct LoadedRecording {
    loaded: LoadedTrace,
    files: Vec<PathBuf>,
    limit: MemoryLimit,
    facts: RecordingFacts,
    /// The frames that are free at every moment: a pass over the trace, made for the first share that is asked for.
    least_free: OnceLock<u64>,
}

/// The names of cases, one a recording and each once.
///
/// # Errors
/// [`CallError::Usage`] if a file is given twice.
pub fn names_of(paths: &[PathBuf]) -> Result<Vec<String>, CallError> {
    case_names(paths).map_err(|e| match e {
        CommandError::Input(message) | CommandError::Assertion(message) => {
            CallError::Usage(message)
        }
    })
}

impl LoadedRecording {
    /// Reads a recording and the files beside it, as the commands do. `state` is the recording machine's
    /// `/proc/pagetypeinfo` when the trace began; `limit` is what the trace, and each replay of it, may take of this
    /// machine's memory.
    ///
    /// # Errors
    /// [`CallError::Input`].
    pub fn open(path: &Path, state: Option<&Path>, limit: MemoryLimit) -> Result<Self, CallError> {
        let mut files = files_of(path);
        files.extend(state.map(Path::to_owned));
        let loaded = load_told_apart(path, state, limit, true).map_err(|e| fault(e, &files))?;
        TraceMemory::check_size(&loaded.trace, false, 0, limit)
            .map_err(|e| fault(CommandError::Input(format!("{}: {e}", loaded.path)), &files))?;
        let facts = facts_of(&loaded).map_err(|e| fault(e, &files))?;
        Ok(Self {
            loaded,
            files,
            limit,
            facts,
            least_free: OnceLock::new(),
        })
    }

    /// What it holds.
    #[must_use]
    pub fn facts(&self) -> &RecordingFacts {
        &self.facts
    }

    /// So many frames to hold back of this recording's memory, as `framewright sweep --squeeze` takes them.
    ///
    /// # Errors
    /// [`CallError::Input`].
    pub fn held_back(&self, size: SqueezeSize) -> Result<u64, CallError> {
        let least = match (size, self.least_free.get()) {
            (SqueezeSize::Frames(_), _) => 0,
            (SqueezeSize::OfFree(_), Some(&least)) => least,
            (SqueezeSize::OfFree(_), None) => {
                let options = ReplayOptions::new(Start::Imposed);
                let memory = memory_of(&self.loaded, options, WatermarksArg::Off, self.limit);
                let least = least_free(&memory.map_err(|e| fault(e, &self.files))?);
                *self.least_free.get_or_init(|| least)
            }
        };
        Ok(size.frames(least))
    }

    /// What a kernel is handed to replay the recording's first `ops` operations on frames of its own, all of them with `None`:
    /// the stream, and the lines that its replay comes to here.
    ///
    /// # Errors
    /// [`CallError::Input`].
    pub fn for_kernel(
        mut self,
        ops: Option<usize>,
        settings: FlatSettings,
    ) -> Result<(Vec<u64>, String), CallError> {
        if let Some(ops) = ops {
            self.loaded.trace.ops.truncate(ops);
        }
        let files = &self.files;
        let at = |cause: &dyn fmt::Display| {
            let shown = format!("{}: {cause}", self.loaded.path);
            fault(CommandError::Input(shown), files)
        };
        let options = ReplayOptions {
            squeeze: settings.squeeze,
            ..ReplayOptions::new(settings.start)
        };
        let memory = memory_of(&self.loaded, options, WatermarksArg::Off, self.limit);
        let memory = memory.map_err(|e| fault(e, files))?;
        let stream = flat_replay(&memory, settings).map_err(|e| at(&e))?;
        let lines = replayed_lines(&memory, settings).map_err(|e| at(&e))?;
        Ok((stream, lines))
    }

    /// How many replays at once the limit of memory has room for.
    #[must_use]
    pub fn at_once(&self) -> u64 {
        let each = TraceMemory::replay_bytes(&self.loaded.trace, false, 0);
        (self.limit.len_bytes() / each.max(1)).max(1)
    }

    /// The figures of each policy and, where the recording comes with what Linux itself did, of the machine and the
    /// model's error: those of `framewright replay --json`. No replay begins once `stop` is set.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn replay(
        &self,
        policies: &[ReplayPolicy],
        settings: ReplaySettings,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<ReportCase, CallError> {
        self.check(policies, settings)?;
        let means = ReplayMeans {
            threads,
            limit: self.limit,
            stop: Some(stop),
        };
        let (options, watermarks) = (settings.options(), settings.watermarks);
        let wants = CaseWants {
            answers: false,
            settings: settings.settings,
            owners: None,
        };
        let replayed = replay_case(&self.loaded, policies, options, watermarks, means, wants);
        match replayed {
            Ok(replayed) => Ok(replayed.case),
            // Relaxed: what the caller has set, it sees.
            Err(_) if stop.load(Ordering::Relaxed) => Err(CallError::Stopped),
            Err(error) => Err(fault(error, &self.files)),
        }
    }

    /// The figures of one policy and nothing else: those of a row of `framewright sweep`.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn figures(
        &self,
        policy: ReplayPolicy,
        settings: ReplaySettings,
        stop: &AtomicBool,
    ) -> Result<ReportColumn, CallError> {
        self.check(&[policy], settings)?;
        let options = settings.options();
        let memory = memory_of(&self.loaded, options, settings.watermarks, self.limit);
        let memory = memory.map_err(|e| fault(e, &self.files))?;
        let job = ReplayJob {
            policy,
            memory: &memory,
            options,
        };
        let outcomes = replay_all_until(&[job], 1, &AtomicU64::new(0), stop);
        match outcomes.as_deref() {
            Ok([outcome]) => Ok(ReportColumn::of(outcome)),
            Ok(_) => Err(CallError::Stopped),
            Err(_) if stop.load(Ordering::Relaxed) => Err(CallError::Stopped),
            Err(e) => {
                let shown = format!("{}: {e}", self.loaded.path);
                Err(fault(CommandError::Input(shown), &self.files))
            }
        }
    }

    /// What the commands refuse by their options' names.
    fn check(&self, policies: &[ReplayPolicy], settings: ReplaySettings) -> Result<(), CallError> {
        let is_without = |policy: &&ReplayPolicy| !reclaims(**policy);
        if settings.reclaim.is_some() {
            if let Some(policy) = policies.iter().find(is_without) {
                return Err(CallError::Usage(format!(
                    "there is no kernel that reclaims with the policy {policy}, expected some of {}",
                    RECLAIMING.map(ReplayPolicy::name).join(", ")
                )));
            }
            if settings.watermarks == WatermarksArg::On {
                return Err(CallError::Usage(
                    "a replay that reclaims has watermarks of its own, expected one of reclaim and watermarks".into(),
                ));
            }
        } else if settings.squeeze > self.facts.free_frames {
            return Err(CallError::Usage(format!(
                "squeeze {} is more than there is to take away from {}, expected at most the {} frames that are free at the start",
                settings.squeeze,
                self.facts.name,
                shown_frames(self.facts.free_frames)
            )));
        }
        Ok(())
    }
}

fn facts_of(loaded: &LoadedTrace) -> Result<RecordingFacts, CommandError> {
    let memory = TraceMemory::new(&loaded.trace)
        .map_err(|e| CommandError::Input(format!("{}: {e}", loaded.path)))?;
    let mut failures = [0; MAX_ORDER + 1];
    let mut events = 0;
    for op in &loaded.trace.ops {
        events += u64::from(op.kind() != OpKind::Tick);
        if op.kind() == OpKind::Failed {
            failures[op.order().index()] += 1;
        }
    }
    Ok(RecordingFacts {
        name: loaded.name.clone(),
        digest: loaded.digest.unwrap_or(TraceDigest::of(&[])),
        kernel: loaded.kernel.clone(),
        cpus: memory.cpus,
        frames: loaded.trace.present_frames(),
        free_frames: memory.free_frames_at_start(),
        block_order: loaded.block_order,
        zones: loaded.zones.clone().unwrap_or_default(),
        events,
        milliseconds: memory.ms,
        failures,
        is_text: loaded.is_text,
        anomalies: loaded.anomalies.clone(),
        hollow: loaded.hollow(),
        notes: loaded.notes.clone(),
    })
}

fn fault(error: CommandError, files: &[PathBuf]) -> CallError {
    let (CommandError::Input(shown) | CommandError::Assertion(shown)) = error;
    CallError::Input(InputFault::of(&shown, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_taken_apart_whatever_the_files_are_called() {
        let files = ["a: 7", "a: 7: b.csv", "a"].map(PathBuf::from);
        let of = |shown: &str| {
            let fault = InputFault::of(shown, &files);
            assert!(shown.ends_with(&fault.message), "{shown}");
            (fault.file.clone(), fault.line, fault.message)
        };
        let expected = |file: &str, line, message: &str| (file.into(), line, message.into());
        assert_eq!(
            of("a: 7:3: no order"),
            expected("a: 7", Some(3), "no order")
        );
        assert_eq!(of("a: 7: cut off"), expected("a: 7", None, "cut off"));
        assert_eq!(
            of("a: 7: b.csv:2: x"),
            expected("a: 7: b.csv", Some(2), "x")
        );
        assert_eq!(of("a:12"), expected("a", None, "12"));
        assert_eq!(of("of none"), expected("a: 7", None, "of none"));
        let shown = "a: 7:3: no order";
        assert_eq!(InputFault::of(shown, &files).to_string(), shown);
    }
}
