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
//! # A flight recorder
//! Buffers that keep the newest events ([`BufferKeeps::Newest`]) run for days. Each CPU has a buffer of its own, and
//! a busy one reaches back less far: the recording begins where every CPU has all of its events (W5). What memory
//! looked like there is worked out from the last snapshot and the events ([`Rewind`]); the files of `/proc` are read
//! every ten seconds, and those from just before the beginning are kept. A second instance, which traces failures
//! alone, tells when a request failed that ends the recording ([`EndingFailure`](crate::trace::EndingFailure)).
//!
//! # A stream
//! [`record_stream`] writes events while the machine is recorded, and reduces nothing: memory is bounded, and the recording
//! shows what its writing allocates. Events are copied as the kernel holds them; where that cannot be read again, as the
//! kernel prints them.
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
//! - **W5** A recording has every event from its beginning to its end, but for those that the kernel lost and counts:
//!   where one CPU's buffer reaches back further than another's, what lies before is left out.
//! - **W6** A failure ends a recording only if it is the one that was asked for.
//!
//! # Sources
//! `Documentation/trace/ftrace.rst` and `events.rst`, `Documentation/admin-guide/mm/pagemap.rst`.

mod command;
mod error;
mod kernel;
mod names;
mod options;
mod outlet;
mod pages;
mod report;
mod room;
mod stream;
mod stream_writer;

pub use error::RecordError;
pub use kernel::{BufferFill, BufferKeeps, Instance, Tracefs};
pub(crate) use kernel::{open_page_flags, task_name};
pub(in crate::record) use options::{LOOK, check};
pub use options::{RecordOptions, RecordingEnded};
pub use report::RecordReport;
pub use stream::{StreamReport, record_stream};

use crate::printable;
use crate::trace::reduce::{Reducer, Rewind};
use crate::trace::{Input, MemoryLimit, Snapshot, TextNames, TextReader, TraceEvent, WhoAsked};
use command::Running;
use kernel::{
    AT_REST_FRAMES, FailureWatch, LOOKS_MAX, ProcFiles, StateLog, check_order, proc_text,
    running_tasks, snapshot, state, until_at_rest,
};
use names::RecordingNames;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One look in this many is also a look at the buffers: 4 times a second.
const LOOKS_PER_FILL: u32 = 5;
/// Percent of a CPU's buffer at which recording stops. The rest holds half a second of a
/// million events a second in 256 MiB.
const FULL_PERCENT: u64 = 90;

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
    say: impl FnMut(&str),
) -> Result<RecordReport, RecordError> {
    record_around(options, interrupted, say, |_| {})
}

/// A moment of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingMoment {
    /// The buffers are there; the frames are about to be looked at, and then the command begins.
    Begins,
    /// The command has ended, and events are about to be reduced.
    Ended,
}

/// The same, with something to do at both moments.
///
/// # Errors
/// As [`record`].
pub fn record_around(
    options: &RecordOptions,
    interrupted: &AtomicBool,
    mut say: impl FnMut(&str),
    mut at: impl FnMut(RecordingMoment),
) -> Result<RecordReport, RecordError> {
    let names = RecordingNames::of(options)?;
    let tracefs = open_tracefs(&mut say)?;
    let available = room::available_mib(&proc_text("meminfo")?).unwrap_or(0);
    let buffer_mib = room::buffer_mib(
        options.keeps,
        options.buffer_mib,
        available + options.freed_mib,
    )?;
    room::check_disk(&options.output, buffer_mib)?;
    if let Some(ends) = options.until_failure {
        check_order(ends, &proc_text("buddyinfo").unwrap_or_default())?;
    }
    // Before anything is changed: whether page flags can be read at all.
    drop(open_page_flags()?);
    let instance = Instance::make(&tracefs, buffer_mib, options.keeps)?;
    let failures = options.until_failure;
    let failures = failures.map(|ends| FailureWatch::new(&tracefs, ends));
    // Memory for both snapshots is taken now: later, what is read and the recording would show it.
    let mut first = snapshot(Snapshot::default())?;
    let last = first.clone();
    at(RecordingMoment::Begins);
    let mut tasks = running_tasks();
    let begun;
    (first, begun) = look(first, &mut say)?;
    let mut watched = RunningRecording {
        instance: &instance,
        keeps: options.keeps,
        failures: failures.transpose()?,
        states: Some(StateLog::new(monotonic_ns(), begun)),
        duration: options.duration,
    };
    let ends = match options.until_failure {
        Some(ends) => format!(", until a request fails {ends}"),
        None if options.command.is_empty() && options.duration.is_none() => {
            "; Ctrl-C ends it".into()
        }
        None => String::new(),
    };
    let start = Instant::now();
    instance.set_tracing(true)?;
    // A task may have taken another name before tracing began, and no event says so. The later name stands.
    tasks.extend(running_tasks());
    if let Some(failures) = &watched.failures {
        failures.start()?;
    }
    say(&format!(
        "recording into {buffer_mib} MiB of buffers{}{ends}",
        match options.keeps {
            BufferKeeps::Oldest => "",
            BufferKeeps::Newest => ", the newest events",
        },
    ));
    // From here on it is ended with the recorder, however that ends; but by SIGKILL.
    let mut child = Running::spawn(&options.command, false)?;
    let ended = watched.wait(&mut child, interrupted, || Ok(None));
    instance.set_tracing(false)?;
    let (elapsed, end_ns) = (start.elapsed(), monotonic_ns());
    let ended = ended?;
    let last = snapshot(last)?;
    let after = state()?;
    let now = running_tasks();
    if ended == RecordingEnded::Full {
        say(&format!(
            "the buffers are full after {:.1} s: the recording ends here; --buffer takes more",
            elapsed.as_secs_f64()
        ));
    }
    let states = watched.states;
    if let Some(child) = &mut child {
        child.finish_after(ended, interrupted, &mut say)?;
    }
    at(RecordingMoment::Ended);
    let again = match interrupted.swap(false, Ordering::Relaxed) {
        true => " again",
        false => "",
    };
    let fill = instance.fill()?;
    let events = fill.events;
    say(&format!(
        "reducing {events} events; interrupt{again} to give up"
    ));
    if fill.whole_from_ns.is_some() {
        let mut rewind = Rewind::new(&last, &first);
        let reader = read_events(instance.text()?, &fill, interrupted, None, |event, _| {
            rewind.push(event);
            Ok(())
        })?;
        first = rewind.finish();
        // Numbers of tasks come round in days: those of the newest events are those of now, under the names that they had
        // when these began.
        tasks = named_before(now, reader.names());
    }
    let before = states.and_then(|states| states.choose(fill.whole_from_ns));
    let (before_ns, before) = before.unwrap_or_default();
    let begin = fill.whole_from_ns.map(|begin| begin.min(end_ns));
    let lead = begin.map(|begin| Duration::from_nanos(begin.saturating_sub(before_ns)));
    // What it can hold is bounded by the buffers, whose size leaves room for it.
    let mut reducer = Reducer::new(Some(first))
        .with_memory_limit(MemoryLimit::bytes(u64::MAX))
        .traced(instance.traced());
    let reader = read_events(
        instance.text()?,
        &fill,
        interrupted,
        Some(&tasks),
        |event, asked| {
            reducer
                .push_asked(event, asked)
                .map_err(|e| RecordError::Trace(e.to_string()))
        },
    )?;
    let text = reader.counts().clone();
    let reducer = reducer.named(WhoAsked::default(), reader.names());
    // It holds the buffers' text open, and the instance with it.
    drop(reader);
    let reduction = reducer.finish(Some(&last));
    let reduction = reduction.map_err(|e| RecordError::Trace(e.to_string()))?;
    let mut report = RecordReport {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
        command: options.command.clone(),
        ended,
        elapsed,
        kept: begin.map(|begin| Duration::from_nanos(end_ns - begin)),
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
        trace: names.trace.clone(),
        is_elsewhere: false,
    };
    // The buffers are memory that the files' packing can use.
    drop(instance);
    let states = [("before", lead, &before), ("after", None, &after)];
    match names.write(&reduction, &report, states, interrupted) {
        Err(RecordError::File(why)) => {
            // What took days is not lost to a disk that filled up meanwhile.
            let folder = tempfile::Builder::new()
                .prefix("framewright-recording-")
                .tempdir();
            let folder = folder.map_err(|e| {
                RecordError::File(format!("{why}; nor in the temporary folder: {e}"))
            })?;
            let names = names.moved_to(folder.path());
            report.trace.clone_from(&names.trace);
            report.is_elsewhere = true;
            match names.write(&reduction, &report, states, interrupted) {
                Err(RecordError::File(again)) => {
                    return Err(RecordError::File(format!(
                        "{why}; nor in the temporary folder: {again}"
                    )));
                }
                written => written?,
            }
            let folder = printable::path(&folder.keep());
            say(&format!("{why}; the recording is in {folder} instead"));
        }
        written => written?,
    }
    Ok(report)
}

/// Looks at all frames, and at what the machine says of itself right after that. What it says belongs to one moment, and the
/// frames are read one after another, so that both are taken again where much changed hands meanwhile.
fn look(
    mut frames: Snapshot,
    say: &mut impl FnMut(&str),
) -> Result<(Snapshot, ProcFiles), RecordError> {
    let (now, moved) = until_at_rest(state()?, || {
        frames = snapshot(std::mem::take(&mut frames))?;
        state()
    })?;
    if moved > AT_REST_FRAMES {
        say(&format!(
            "memory is not at rest: {moved} frames came to the free lists or left them while the recorder looked at the frames \
             for the {LOOKS_MAX}th time; what the recording begins with may be off by as many"
        ));
    }
    Ok((frames, now))
}

fn open_tracefs(say: &mut impl FnMut(&str)) -> Result<Tracefs, RecordError> {
    let tracefs = Tracefs::open()?;
    if tracefs.is_detached() {
        say("tracefs is not mounted here; using a mount that only this process can see");
    }
    for stale in Instance::remove_stale(&tracefs) {
        say(&format!(
            "removed {stale}, the buffers of a recording that was killed"
        ));
    }
    Ok(tracefs)
}

pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A recording that runs.
struct RunningRecording<'i, 't> {
    instance: &'i Instance<'t>,
    keeps: BufferKeeps,
    failures: Option<FailureWatch<'t>>,
    /// What a flight recorder has read so far; a stream has written it.
    states: Option<StateLog>,
    duration: Option<Duration>,
}

impl RunningRecording<'_, '_> {
    /// Waits until the recording is to end. The child may be running still.
    ///
    /// `pump` moves events at each look, and says if there are more, or why the recording is to end.
    fn wait(
        &mut self,
        child: &mut Option<Running>,
        interrupted: &AtomicBool,
        mut pump: impl FnMut() -> Result<Option<Option<RecordingEnded>>, RecordError>,
    ) -> Result<RecordingEnded, RecordError> {
        let start = Instant::now();
        let mut look = 0_u32;
        loop {
            look = look.wrapping_add(1);
            let left = self
                .duration
                .map(|duration| duration.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(RecordingEnded::Time);
            }
            match pump()? {
                None => std::thread::sleep(left.unwrap_or(LOOK).min(LOOK)),
                Some(None) => {}
                Some(Some(ended)) => return Ok(ended),
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ok(RecordingEnded::Interrupted);
            }
            if let Some(child) = child
                && let Some(status) = child.try_wait()?
            {
                return Ok(RecordingEnded::Command(status));
            }
            if look.is_multiple_of(LOOKS_PER_FILL)
                && let Some(ended) = self.look()?
            {
                return Ok(ended);
            }
        }
    }

    /// Looks at the buffers.
    fn look(&mut self) -> Result<Option<RecordingEnded>, RecordError> {
        if let Some(failures) = &mut self.failures
            && let Some((order, time_ns)) = failures.look()?
        {
            return Ok(Some(RecordingEnded::Failure { order, time_ns }));
        }
        match self.keeps {
            BufferKeeps::Oldest => {
                let fill = self.instance.fill()?;
                let is_full = fill.percent >= FULL_PERCENT || fill.lost > 0;
                Ok(is_full.then_some(RecordingEnded::Full))
            }
            BufferKeeps::Newest => {
                if let Some(states) = &mut self.states
                    && states.is_due(monotonic_ns())
                {
                    let begin = self.instance.fill()?.whole_from_ns;
                    let state = state()?;
                    // Of a time by which it was read: reading takes long while the machine is busy.
                    states.add(monotonic_ns(), state, begin);
                }
                Ok(None)
            }
        }
    }
}

/// What the tasks that run now were called before the first event that names them.
fn named_before(now: Vec<(u32, Vec<u8>)>, names: &TextNames) -> Vec<(u32, Vec<u8>)> {
    let mut tasks: BTreeMap<u32, Vec<u8>> = now.into_iter().collect();
    for (task, name) in names.before_events() {
        match name {
            Some(name) => drop(tasks.insert(task, name.to_vec())),
            // It was not there yet, and what had its number is not known.
            None => drop(tasks.remove(&task)),
        }
    }
    tasks.into_iter().collect()
}

/// Reads the events of the buffers, without those from before every CPU's are there (W5). Without the names that tasks
/// have when the events begin, it keeps those that the events say.
fn read_events(
    text: impl Read + Send + 'static,
    fill: &BufferFill,
    interrupted: &AtomicBool,
    tasks: Option<&[(u32, Vec<u8>)]>,
    mut take: impl FnMut(&TraceEvent, WhoAsked) -> Result<(), RecordError>,
) -> Result<TextReader, RecordError> {
    let trace = |error: &dyn std::fmt::Display| RecordError::Trace(error.to_string());
    let input = Input::from_reader("the kernel's trace", text);
    let mut reader = TextReader::new(input.map_err(|e| trace(&e))?);
    if tasks.is_none() {
        reader.keep_names_before_events();
    }
    for (task, name) in tasks.unwrap_or_default() {
        reader.name_task(*task, name);
    }
    let begin = fill.whole_from_ns.unwrap_or(0);
    let mut read = 0_u64;
    while let Some(event) = reader.next_event().map_err(|e| trace(&e))? {
        read += 1;
        if read.is_multiple_of(1 << 12) {
            check(interrupted)?;
        }
        let asked = reader.take_asked();
        if event.time_ns >= begin {
            take(&event, asked)?;
        }
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::EventKind;
    use std::io::Cursor;

    #[test]
    fn w5_events_from_before_every_cpu_has_all_of_its_own_are_left_out() {
        let line = |cpu, time| {
            format!(
                "    cat-7 [00{cpu}] ..... {time}: mm_page_free: page=00000000aa pfn=0x80 order=0\n"
            )
        };
        let text = line(0, "1.999999") + &line(0, "2.000000") + &line(1, "2.500000");
        let read = |whole_from_ns| {
            let fill = BufferFill {
                whole_from_ns,
                ..BufferFill::default()
            };
            let mut cpus = Vec::new();
            let text = Cursor::new(text.clone());
            let interrupted = AtomicBool::new(false);
            let taken = read_events(text, &fill, &interrupted, Some(&[]), |event, _| {
                cpus.push(event.cpu);
                Ok(())
            });
            taken.unwrap();
            cpus
        };
        assert_eq!(read(None), [0, 0, 1]);
        assert_eq!(read(Some(2_000_000_000)), [0, 1]);
        // Where that is not known of a CPU, nothing is whole.
        assert!(read(Some(u64::MAX)).is_empty());
    }

    #[test]
    fn a_task_has_the_name_from_before_an_event_gives_it_another() {
        let free = "mm_page_free: page=00000000aa pfn=0x80 order=0\n";
        let text = format!(
            "    <...>-7 [000] ..... 1.0: {free}\
             \x20   <...>-7 [000] ..... 1.5: task_rename: pid=7 oldcomm=sh newcomm=cc1 oom_score_adj=0\n\
             \x20   <...>-7 [000] ..... 2.0: {free}\
             \x20   <...>-7 [000] ..... 2.5: task_newtask: pid=8 comm=cc1 clone_flags=0 oom_score_adj=0\n"
        );
        let interrupted = AtomicBool::new(false);
        let read = |tasks: Option<&[(u32, Vec<u8>)]>| {
            let mut asked = Vec::new();
            let text = Cursor::new(text.clone());
            let reader = read_events(
                text,
                &BufferFill::default(),
                &interrupted,
                tasks,
                |event, who| {
                    asked.extend((event.kind != EventKind::Other).then_some(who.comm));
                    Ok(())
                },
            );
            let reader = reader.unwrap();
            let name = |place: Option<u32>| reader.names().comms().get(place? as usize);
            let names: Vec<Option<Vec<u8>>> = asked
                .into_iter()
                .map(|place| name(place).map(<[u8]>::to_vec))
                .collect();
            (reader, names)
        };
        // At the end it has its last name, and 8 was another task's number once.
        let now = vec![
            (7, b"cc1".to_vec()),
            (8, b"cc1".to_vec()),
            (9, b"init".to_vec()),
        ];
        let before = named_before(now, read(None).0.names());
        assert_eq!(before, [(7, b"sh".to_vec()), (9, b"init".to_vec())]);
        let names = read(Some(&before)).1;
        assert_eq!(names, [Some(b"sh".to_vec()), Some(b"cc1".to_vec())]);
    }
}
