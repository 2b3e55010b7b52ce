//! Recording: what this machine's page allocator does, written down so that it can be replayed.
//!
//! ```text
//!   state, page flags ─▶ tracing on ─▶ the command, or time passes ─▶ tracing off
//!     ─▶ page flags, state ─▶ text of the buffers ─▶ reduction ─▶ files, all at once
//! ```
//!
//! Tracing goes to an instance of its own, with its own buffers and events: whatever else is
//! traced on the machine goes on undisturbed. While it runs, the recorder neither reads the buffers
//! nor writes a file, because both allocate frames, and the recording would show them. It only
//! looks four times a second whether the buffers are full, which allocates a little too, and stops
//! before events are lost.
//!
//! # What it leaves behind
//! The files it was asked for; on any error, those that were there before. The instance is removed
//! and the buffers with it, also after SIGINT, SIGQUIT, SIGTERM and SIGHUP; after SIGKILL the next recording
//! does it.
//!
//! # Invariants
//! - **W1** A recording's files are the new ones or the old ones, all of them: a new one takes its
//!   name only when all are written, and an old one goes only when all new ones have their names.
//! - **W2** No file is opened that is there already: each is made under a name that cannot be known
//!   before, so that neither a link nor a file laid there is written to.
//! - **W3** The command and its process group do not outlive the recorder, unless the command has
//!   ended by itself.
//! - **W4** A tracing instance is a recorder's as long as a process holds it open. The number in its name says
//!   nothing: containers number their processes each for itself.
//!
//! # Sources
//! `Documentation/trace/ftrace.rst` and `events.rst`, `Documentation/admin-guide/mm/pagemap.rst`.

mod command;
mod error;
mod instance;
mod memory;
mod report;
mod tracefs;

pub use error::RecordError;
pub use instance::{BufferFill, Instance};
pub use report::RecordReport;
pub use tracefs::Tracefs;

use crate::files::{FileClaims, Stage};
use crate::printable;
use crate::trace::reduce::{Reducer, Reduction, ReferenceRow};
use crate::trace::{
    Input, MemoryLimit, Snapshot, TextCounts, TextReader, TraceDigest, trace_stem, write_frames,
    write_frames_digest, write_pft1,
};
use command::Running;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files of `/proc` that are kept with a recording, before and after.
const STATE: [&str; 5] = ["pagetypeinfo", "buddyinfo", "zoneinfo", "vmstat", "meminfo"];

/// Files of `/proc` at one moment, by name.
type ProcFiles = Vec<(&'static str, Vec<u8>)>;

/// How often the recorder looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Every so many looks at the buffers, too: 4 times a second.
const LOOKS_PER_FILL: u32 = 5;
/// Percent of a CPU's buffer at which recording stops. The rest holds half a second of a
/// million events a second in 256 MiB.
const FULL_PERCENT: u64 = 90;
/// zstd's level for the files: level 12 packs 10 MB a second and is within 5 % of level 19.
const ZSTD_LEVEL: i32 = 12;

/// What to record, and where to.
#[derive(Debug, Clone, Default)]
pub struct RecordOptions {
    /// The trace's file. Its siblings take its name without extensions.
    pub output: PathBuf,
    /// The command to record, with its arguments; without one, the machine as it is.
    pub command: Vec<OsString>,
    /// Stops after this long.
    pub duration: Option<Duration>,
    /// The size of the buffers of all CPUs together, in MiB.
    pub buffer_mib: Option<u64>,
    /// Whether files that are there are replaced.
    pub replace: bool,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingEnded {
    /// The command did.
    Command(ExitStatus),
    /// The time was up.
    Time,
    /// A signal interrupted it.
    Interrupted,
    /// The buffers were full.
    Full,
}

/// Records, reduces and writes. `say` is told what happens, a line at a time.
///
/// `interrupted` is what signals set: once, and the recording ends and is written; again, and it
/// is given up.
///
/// # Errors
/// [`RecordError`]; nothing is left behind then.
pub fn record(
    options: &RecordOptions,
    interrupted: &AtomicBool,
    mut say: impl FnMut(&str),
) -> Result<RecordReport, RecordError> {
    let names = Names::of(options)?;
    let tracefs = Tracefs::open()?;
    if tracefs.is_detached() {
        say("tracefs is not mounted here; using a mount that only this process can see");
    }
    for stale in Instance::remove_stale(&tracefs) {
        say(&format!(
            "removed {stale}, the buffers of a recording that was killed"
        ));
    }
    let available = memory::available_mib(&proc_text("meminfo")?).unwrap_or(0);
    let buffer_mib = memory::buffer_mib(options.buffer_mib, available)?;
    // Before anything is changed: whether page flags can be read at all.
    drop(open_page_flags()?);
    let instance = Instance::make(&tracefs, buffer_mib)?;
    let before = state()?;
    let first = snapshot()?;
    say(&format!(
        "recording into {buffer_mib} MiB of buffers{}",
        match (&options.command[..], options.duration) {
            ([], None) => "; Ctrl-C ends it",
            _ => "",
        }
    ));
    let start = Instant::now();
    instance.set_tracing(true)?;
    // From here on it is ended with the recorder, however that ends; but by SIGKILL.
    let mut child = Running::spawn(&options.command)?;
    let ended = watch(&instance, &mut child, options.duration, interrupted);
    instance.set_tracing(false)?;
    let elapsed = start.elapsed();
    let ended = ended?;
    let last = snapshot()?;
    let after = state()?;
    if ended == RecordingEnded::Full {
        say(&format!(
            "the buffers are full after {:.1} s: the recording ends here; --buffer takes more",
            elapsed.as_secs_f64()
        ));
    }
    if let Some(child) = &mut child {
        if ended == RecordingEnded::Full {
            say("waiting for the command to end; its recording has ended");
        }
        child.finish(interrupted, &mut say)?;
    }
    interrupted.store(false, Ordering::Relaxed);
    let fill = instance.fill()?;
    let events = fill.events;
    say(&format!(
        "reducing {events} events; interrupt again to give up"
    ));
    let (reduction, text) = reduce_text(&instance, first, &last, interrupted)?;
    let report = RecordReport {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
        command: options.command.clone(),
        ended,
        elapsed,
        buffer_mib,
        fill,
        missing: instance.missing().to_vec(),
        text,
        counts: reduction.counts,
        anomalies: reduction.anomalies,
        agreement: reduction.agreement,
        nframes: reduction.trace.nframes,
        ninit: reduction.trace.init.len() as u64,
        nops: reduction.trace.ops.len() as u64,
    };
    // The buffers are memory that the files' packing can use.
    drop(instance);
    names.write(
        &reduction,
        &report,
        [("before", &before), ("after", &after)],
        interrupted,
    )?;
    Ok(report)
}

/// The names of a recording's files.
#[derive(Debug)]
struct Names {
    trace: PathBuf,
    frames: PathBuf,
    reference: PathBuf,
    summary: PathBuf,
    state: PathBuf,
}

impl Names {
    fn of(options: &RecordOptions) -> Result<Self, RecordError> {
        let path = &options.output;
        let bad = |what: &str| {
            Err(RecordError::Options(format!(
                "{}: {what}",
                printable::path(path)
            )))
        };
        if path.as_os_str() == "-" {
            return bad("a recording is several files, expected a file's name, as run.pft.zst");
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return bad("not a file's name, expected one as run.pft.zst");
        };
        let stem = trace_stem(name);
        let folder = path.parent().unwrap_or(Path::new(""));
        let here = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        if !here.is_dir() {
            return bad(&format!("there is no folder {}", printable::path(here)));
        }
        let state = folder.join("state").join(stem);
        let names = Self {
            trace: path.clone(),
            frames: folder.join(format!("{stem}.pfn.zst")),
            reference: folder.join(format!("{stem}.linux_ref.csv")),
            summary: folder.join(format!("{stem}.summary.txt")),
            state,
        };
        let states = ["before", "after"]
            .map(|when| STATE.map(|name| names.state.join(format!("{when}.{name}"))));
        let files = [
            &names.trace,
            &names.frames,
            &names.reference,
            &names.summary,
        ];
        for file in files.into_iter().chain(states.iter().flatten()) {
            // A link that leads nowhere is there, too.
            if fs::symlink_metadata(file).is_ok() && !(options.replace && file.is_file()) {
                return Err(RecordError::Options(format!(
                    "{}: is there already, expected a new name or --force",
                    printable::path(file)
                )));
            }
        }
        let mut claims = FileClaims::new();
        let claimed = files.into_iter().chain(states.iter().flatten());
        for file in claimed {
            let claim = claims.writes("a file of the recording", file);
            claim.map_err(|e| RecordError::Options(e.to_string()))?;
        }
        let above = names.state.ancestors().take(2);
        if above.into_iter().any(|folder| folder == names.trace) {
            return bad("the folder of the state files has this name, expected another");
        }
        Ok(names)
    }

    fn write(
        &self,
        reduction: &Reduction,
        report: &RecordReport,
        states: [(&str, &ProcFiles); 2],
        interrupted: &AtomicBool,
    ) -> Result<(), RecordError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| RecordError::file(&path, &error)
        };
        let mut stage = Stage::new();
        let mut columns = Vec::new();
        write_pft1(&reduction.trace, &mut columns).map_err(failed(&self.trace))?;
        let digest = TraceDigest::of(&columns);
        let packed = self.trace.extension().is_some_and(|ending| ending == "zst");
        if packed {
            columns = pack(&columns).map_err(failed(&self.trace))?;
        }
        stage.write(&self.trace, &columns)?;
        drop(columns);
        check(interrupted)?;
        let mut frames = Vec::new();
        write_frames_digest(digest, &mut frames).map_err(failed(&self.frames))?;
        write_frames(&reduction.chosen, &mut frames).map_err(failed(&self.frames))?;
        let frames = pack(&frames).map_err(failed(&self.frames))?;
        stage.write(&self.frames, &frames)?;
        check(interrupted)?;
        let mut rows = digest.line().into_bytes();
        ReferenceRow::write_csv(&reduction.reference, &mut rows)
            .map_err(failed(&self.reference))?;
        stage.write(&self.reference, &rows)?;
        stage.write(
            &self.summary,
            format!("{report}{}", digest.line()).as_bytes(),
        )?;
        stage.folder(&self.state)?;
        for (when, files) in states {
            for (name, bytes) in files {
                let bytes = [digest.line().as_bytes(), bytes].concat();
                stage.write(&self.state.join(format!("{when}.{name}")), &bytes)?;
            }
        }
        check(interrupted)?;
        Ok(stage.keep()?)
    }
}

fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(27)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn proc_text(name: &str) -> Result<String, RecordError> {
    let path = Path::new("/proc").join(name);
    fs::read_to_string(&path).map_err(|e| RecordError::file(&path, &e))
}

/// The files of [`STATE`] that this kernel has.
fn state() -> Result<ProcFiles, RecordError> {
    let mut files = Vec::new();
    for name in STATE {
        let path = Path::new("/proc").join(name);
        match fs::read(&path) {
            Ok(bytes) => files.push((name, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(RecordError::file(&path, &error)),
        }
    }
    Ok(files)
}

fn open_page_flags() -> Result<File, RecordError> {
    let path = Path::new("/proc/kpageflags");
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RecordError::Missing(
            "this kernel has no /proc/kpageflags; it must be built with CONFIG_PROC_PAGE_MONITOR"
                .into(),
        ),
        io::ErrorKind::PermissionDenied => RecordError::Missing(
            "reading /proc/kpageflags needs root (CAP_SYS_ADMIN): run it with sudo".into(),
        ),
        _ => RecordError::file(path, &error),
    })
}

fn snapshot() -> Result<Snapshot, RecordError> {
    Snapshot::read(open_page_flags()?)
        .map_err(|e| RecordError::file(Path::new("/proc/kpageflags"), &e))
}

/// Waits until the recording is to end. The child may be running still.
fn watch(
    instance: &Instance<'_>,
    child: &mut Option<Running>,
    duration: Option<Duration>,
    interrupted: &AtomicBool,
) -> Result<RecordingEnded, RecordError> {
    let start = Instant::now();
    for look in 1_u32.. {
        let left = duration.map(|duration| duration.saturating_sub(start.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(RecordingEnded::Time);
        }
        std::thread::sleep(left.unwrap_or(LOOK).min(LOOK));
        if interrupted.load(Ordering::Relaxed) {
            return Ok(RecordingEnded::Interrupted);
        }
        if let Some(child) = child
            && let Some(status) = child.try_wait()?
        {
            return Ok(RecordingEnded::Command(status));
        }
        if look.is_multiple_of(LOOKS_PER_FILL) {
            let fill = instance.fill()?;
            if fill.percent >= FULL_PERCENT || fill.lost > 0 {
                return Ok(RecordingEnded::Full);
            }
        }
    }
    Ok(RecordingEnded::Full)
}

fn check(interrupted: &AtomicBool) -> Result<(), RecordError> {
    match interrupted.load(Ordering::Relaxed) {
        true => Err(RecordError::Interrupted),
        false => Ok(()),
    }
}

fn reduce_text(
    instance: &Instance<'_>,
    first: Snapshot,
    last: &Snapshot,
    interrupted: &AtomicBool,
) -> Result<(Reduction, TextCounts), RecordError> {
    let trace = |error: &dyn std::fmt::Display| RecordError::Trace(error.to_string());
    let input = Input::from_reader("the kernel's trace", instance.text()?);
    let mut reader = TextReader::new(input.map_err(|e| trace(&e))?);
    // What it can hold is bounded by the buffers, whose size leaves room for it.
    let mut reducer = Reducer::new(Some(first)).with_memory_limit(MemoryLimit::bytes(u64::MAX));
    while let Some(event) = reader.next_event().map_err(|e| trace(&e))? {
        reducer.push(&event).map_err(|e| trace(&e))?;
        if reducer.counts().total().is_multiple_of(1 << 12) {
            check(interrupted)?;
        }
    }
    let counts = reader.counts().clone();
    let reduction = reducer.finish(Some(last)).map_err(|e| trace(&e))?;
    Ok((reduction, counts))
}
