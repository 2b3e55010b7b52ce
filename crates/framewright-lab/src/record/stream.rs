//! A recording that is written while it is made.
//!
//! ```text
//!   state, page flags ─▶ tracing on ─▶ the kernel's pages of events ─▶ tracing off ─▶ page flags, state
//!        └───────────────────────┴──── packed, straight to a file or standard output ──────────┘
//! ```
//!
//! The kernel prints no event and the recorder reads none (`trace::pages`): printing them cost ten times as much as all the
//! rest. Where pages could not be read again, because a kernel before 4.1 does not say which frame an event is of, or because
//! its tracing adds call chains to events, the stream has what `trace_pipe` prints.
//!
//! Nothing is reduced here: `replay` does that, on another machine where there is room. What the recorder holds does not
//! grow with the recording: the buffers, what the packing looks back at, and what waits for the stream's reader.

use super::command::Running;
use super::kernel::{FailureWatch, check_order, proc_text, running_tasks, state};
use super::outlet::{StreamOutlet, TakesStream};
use super::pages::KernelPages;
use super::report::ended_line;
use super::stream_writer::{
    KernelText, LEVEL_OF_PAGES, LEVEL_OF_TEXT, Pumped, StreamPump, StreamStop, StreamWriter,
    TakesEvents,
};
use super::{
    BufferFill, BufferKeeps, Instance, RecordError, RecordOptions, RecordingEnded,
    RunningRecording, monotonic_ns, open_page_flags, open_tracefs, room,
};
use crate::files::is_stdout;
use crate::trace::{FORMATS, PageFormats, STREAM_MAGIC, STREAM_MAGIC_PAGES};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a stream is: what the recorder says in the end, and the text of its section `end`.
#[derive(Debug, Clone)]
pub struct StreamReport {
    /// Why it ended.
    pub ended: RecordingEnded,
    /// How long tracing was on.
    pub elapsed: Duration,
    /// Events that went into it; where it is text, lines of them.
    pub events: u64,
    /// Its bytes, as they were written.
    pub len_bytes: u64,
    /// The buffers of all CPUs together, in MiB.
    pub buffer_mib: u64,
    /// What they have lost.
    pub fill: BufferFill,
    /// Events that this kernel does not trace.
    pub missing: Vec<&'static str>,
    /// Where it went.
    pub path: PathBuf,
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ended_line(self.ended, self.elapsed.as_secs_f64()))?;
        writeln!(
            f,
            "buffers {} MiB, {} events, lost {}",
            self.buffer_mib,
            self.events,
            self.fill.lost + self.fill.overwritten
        )?;
        if self.fill.events > 0 {
            writeln!(
                f,
                "not read: {} events that are left in the buffers",
                self.fill.events
            )?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "not traced by this kernel: {}", self.missing.join(" "))?;
        }
        Ok(())
    }
}

/// Records into a stream. `say` is told what happens, a line at a time.
///
/// `interrupted` is what signals set: once, and the stream is ended; again, and it stays as it is, without its end.
///
/// # Errors
/// [`RecordError`]. A file has its name by then only if tracing had begun, and holds what was recorded.
pub fn record_stream(
    options: &RecordOptions,
    interrupted: &AtomicBool,
    mut say: impl FnMut(&str),
) -> Result<StreamReport, RecordError> {
    let path = &options.output;
    let to_stdout = is_stdout(path);
    let is_packed = to_stdout || path.extension().is_some_and(|ending| ending == "zst");
    let outlet = StreamOutlet::open(path, options.replace)?;
    let tracefs = open_tracefs(&mut say)?;
    let meminfo = proc_text("meminfo")?;
    let available = room::available_mib(&meminfo).unwrap_or(0);
    let buffer_mib = room::stream_buffer_mib(options.buffer_mib, available)?;
    let kept_free = room::check_stream_disk(&outlet, path, &meminfo, is_packed, buffer_mib)?;
    if let Some(ends) = options.until_failure {
        check_order(ends, &proc_text("buddyinfo").unwrap_or_default())?;
    }
    // Before anything is changed: whether page flags can be read at all.
    drop(open_page_flags()?);
    let instance = Instance::make(&tracefs, buffer_mib, BufferKeeps::Newest)?;
    let form = StreamForm::of(&instance)?;
    if let StreamForm::Text(why) = &form {
        say(&format!(
            "events are written as text, which costs this machine more: {why}"
        ));
    }
    let events = form.open(&instance)?;
    let failures = options.until_failure;
    let failures = failures.map(|ends| FailureWatch::new(&tracefs, ends));
    let mut watched = RunningRecording {
        instance: &instance,
        keeps: BufferKeeps::Newest,
        failures: failures.transpose()?,
        states: None,
        duration: options.duration,
    };
    let stopped = |stop: StreamStop| stop.error(path);
    let level = is_packed.then_some(form.level());
    let writer = StreamWriter::new(outlet, level, form.magic());
    let mut writer = writer.map_err(|e| stopped(e.into()))?;
    write_machine("before", &mut writer, interrupted).map_err(|e| e.error(path))?;
    writer.wait(interrupted).map_err(stopped)?;
    writer.outlet().name()?;
    let ends = match (options.until_failure, options.duration) {
        (Some(ends), _) => format!(", until a request fails {ends}"),
        (None, None) if options.command.is_empty() => "; Ctrl-C ends it".into(),
        _ => String::new(),
    };
    let start = Instant::now();
    instance.set_tracing(true)?;
    // A task may have taken another name before tracing began, and no event says so. The later name stands.
    write_tasks(&mut writer).map_err(|e| stopped(e.into()))?;
    form.begin(&mut writer).map_err(|e| stopped(e.into()))?;
    if let Some(failures) = &watched.failures {
        failures.start()?;
    }
    say(&format!(
        "recording through {buffer_mib} MiB of buffers into a stream{ends}"
    ));
    let mut child = Running::spawn(&options.command, to_stdout)?;
    // From here on: the command has the priority that it was given.
    if let Some(nice) = raise_priority() {
        say(&format!(
            "the recorder runs at nice {nice}, so that it reads the buffers before they are full"
        ));
    }
    let mut pump = StreamPump::new(events, writer, kept_free);
    let ended = watched.wait(&mut child, interrupted, || match pump.pump() {
        Ok(Pumped::Idle) => Ok(None),
        Ok(Pumped::More) => Ok(Some(None)),
        Err(StreamStop::ReaderGone) => Ok(Some(Some(RecordingEnded::ReaderGone))),
        Err(StreamStop::DiskFull) => Ok(Some(Some(RecordingEnded::DiskFull))),
        Err(stop) => Err(stop.error(path)),
    });
    instance.set_tracing(false)?;
    let elapsed = start.elapsed();
    let ended = ended?;
    if let (Some(child), RecordingEnded::Interrupted) = (&mut child, ended) {
        child.finish(interrupted, &mut say)?;
    }
    interrupted.store(false, Ordering::Relaxed);
    let mut report = StreamReport {
        ended,
        elapsed,
        events: 0,
        len_bytes: 0,
        buffer_mib,
        fill: BufferFill::default(),
        missing: instance.missing().to_vec(),
        path: path.clone(),
    };
    match end_stream(pump, &instance, &mut report, interrupted) {
        Ok(outlet) => outlet.close(),
        Err(StreamStop::ReaderGone) => {
            report.ended = RecordingEnded::ReaderGone;
        }
        Err(StreamStop::DiskFull) => {
            report.ended = RecordingEnded::DiskFull;
            say("the disk is full: the stream has no end; what is written can be replayed");
        }
        Err(StreamStop::Interrupted) => {
            say("interrupted again: the stream has no end; what is written can be replayed");
        }
        Err(stop) => return Err(stop.error(path)),
    }
    // The buffers are memory that the machine wants back, while the command goes on.
    drop(watched);
    drop(instance);
    if let Some(child) = &mut child {
        child.finish_after(ended, interrupted, &mut say)?;
    }
    Ok(report)
}

/// What the tasks that run now are called.
fn write_tasks<T: TakesStream>(writer: &mut StreamWriter<T>) -> io::Result<()> {
    let mut tasks = Vec::new();
    for (task, name) in running_tasks() {
        let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'\n').collect();
        tasks.extend_from_slice(format!("{task} ").as_bytes());
        tasks.extend_from_slice(&name);
        tasks.push(b'\n');
    }
    writer.section("tasks", &tasks)
}

/// What the machine says of itself at one moment, and before the first event what its tasks are called.
fn write_machine(
    when: &str,
    writer: &mut StreamWriter<StreamOutlet>,
    interrupted: &AtomicBool,
) -> Result<(), StreamStop> {
    let other = |error: RecordError| StreamStop::Failed(std::io::Error::other(error.to_string()));
    // As near to the events as can be: page flags move, and the counters of /proc belong to them.
    if when == "before" {
        let kernel = fs::read("/proc/sys/kernel/osrelease").unwrap_or_default();
        writer.section("kernel", &kernel)?;
        write_tasks(writer)?;
    }
    let files = state().map_err(other)?;
    let flags = open_page_flags().map_err(other)?;
    writer.sections(&format!("{when}.kpageflags"), flags, interrupted)?;
    for (name, bytes) in files {
        writer.section(&format!("{when}.{name}"), &bytes)?;
    }
    writer.wait(interrupted)
}

/// The priority at which buffers are read: above that of what fills them, below what must not be late.
const NICE: i32 = -10;

/// Raises this thread's priority, if it may; to what.
fn raise_priority() -> Option<i32> {
    let now = rustix::process::getpriority_process(None).ok()?;
    let nice = raised(now)?;
    rustix::process::setpriority_process(None, nice).ok()?;
    Some(nice)
}

/// The priority for a recorder that was started at this one. One that was started below others is meant to stay there.
fn raised(now: i32) -> Option<i32> {
    (NICE + 1..=0).contains(&now).then_some(NICE)
}

/// How a stream has its events.
enum StreamForm {
    /// As the kernel holds them, with what it says of their form.
    Pages {
        formats: Box<PageFormats>,
        texts: [String; 3],
    },
    /// As the kernel prints them, and why.
    Text(String),
}

impl StreamForm {
    fn of(instance: &Instance<'_>) -> Result<Self, RecordError> {
        if instance.adds_chains() {
            return Ok(Self::Text(
                "the machine's tracing adds call chains to events (options/stacktrace)".into(),
            ));
        }
        let texts = match instance.page_formats() {
            Ok(texts) => texts,
            Err(error) => return Ok(Self::Text(error.to_string())),
        };
        Ok(
            match PageFormats::read([0, 1, 2].map(|nth| texts[nth].as_bytes())) {
                Ok(formats) => Self::Pages {
                    formats: Box::new(formats),
                    texts,
                },
                Err(why) => Self::Text(why),
            },
        )
    }

    const fn magic(&self) -> &'static [u8] {
        match self {
            Self::Pages { .. } => STREAM_MAGIC_PAGES,
            Self::Text(_) => STREAM_MAGIC,
        }
    }

    /// How well it is packed, where it is.
    const fn level(&self) -> i32 {
        match self {
            Self::Pages { .. } => LEVEL_OF_PAGES,
            Self::Text(_) => LEVEL_OF_TEXT,
        }
    }

    /// What stands in front of the events.
    fn begin<T: TakesStream>(&self, writer: &mut StreamWriter<T>) -> io::Result<()> {
        match self {
            Self::Pages { texts, .. } => {
                let mut sections = FORMATS.iter().zip(texts);
                sections.try_for_each(|(name, text)| writer.section(name, text.as_bytes()))
            }
            // It says which text follows where no event does.
            Self::Text(_) => writer.events(b"# tracer: nop\n"),
        }
    }

    fn open(&self, instance: &Instance<'_>) -> Result<KernelEvents, RecordError> {
        let Self::Pages { formats, .. } = self else {
            return Ok(KernelEvents::Text(KernelText::new(instance.pipe()?)));
        };
        // In a container `/proc` numbers tasks otherwise than events do.
        let names = running_tasks()
            .is_empty()
            .then(|| instance.names_of_tasks());
        let pages = KernelPages::new(instance.pages()?, (**formats).clone(), names, monotonic_ns);
        Ok(KernelEvents::Pages(Box::new(pages)))
    }
}

/// The kernel's events in either form.
enum KernelEvents {
    Pages(Box<KernelPages<File>>),
    Text(KernelText<File>),
}

impl TakesEvents for KernelEvents {
    fn move_some<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<Pumped> {
        match self {
            Self::Pages(pages) => pages.move_some(writer),
            Self::Text(text) => text.move_some(writer),
        }
    }

    fn end(&mut self) {
        match self {
            Self::Pages(pages) => pages.end(),
            Self::Text(text) => text.end(),
        }
    }
}

impl StreamReport {
    /// Counts what a pump has moved.
    fn count(&mut self, pump: &StreamPump<KernelEvents, StreamOutlet>, instance: &Instance<'_>) {
        self.len_bytes = pump.writer.taken_bytes;
        self.fill = instance.fill().unwrap_or_default();
        self.events = match pump.events {
            KernelEvents::Pages(_) => self.fill.read,
            // One line is the header's.
            KernelEvents::Text(_) => pump.writer.events.saturating_sub(1),
        };
    }
}

/// Writes what is left in the buffers and what the machine is like now, and ends the stream.
fn end_stream(
    mut pump: StreamPump<KernelEvents, StreamOutlet>,
    instance: &Instance<'_>,
    report: &mut StreamReport,
    interrupted: &AtomicBool,
) -> Result<StreamOutlet, StreamStop> {
    if report.ended == RecordingEnded::ReaderGone {
        report.count(&pump, instance);
        return Ok(pump.writer.into_outlet());
    }
    let drained = pump.drain(interrupted);
    report.count(&pump, instance);
    drained?;
    let mut writer = pump.writer;
    write_machine("after", &mut writer, interrupted)?;
    writer.section("end", report.to_string().as_bytes())?;
    let (outlet, len_bytes) = writer.finish(interrupted)?;
    report.len_bytes = len_bytes;
    Ok(outlet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kernel::Tracefs;
    use std::io::Read;

    #[test]
    fn a_recorder_s_priority_is_raised_unless_it_was_started_below_others_or_higher() {
        let raised = [-20, NICE, NICE + 1, 0, 1, 19].map(raised);
        let expected = [None, None, Some(NICE), Some(NICE), None, None];
        assert_eq!(raised, expected);
    }

    #[test]
    fn events_that_were_left_in_the_buffers_are_told() {
        let report = |events| {
            let report = StreamReport {
                ended: RecordingEnded::Interrupted,
                elapsed: Duration::from_secs(1),
                events: 9,
                len_bytes: 0,
                buffer_mib: 1,
                fill: BufferFill {
                    events,
                    ..BufferFill::default()
                },
                missing: Vec::new(),
                path: PathBuf::new(),
            };
            report.to_string()
        };
        assert!(report(0).ends_with("buffers 1 MiB, 9 events, lost 0\n"));
        let says = "9 events, lost 0\nnot read: 17 events that are left in the buffers\n";
        assert!(report(17).ends_with(says), "{}", report(17));
    }

    /// Call chains are only in what the kernel prints: a stream that has them stays text. The option is set in this test's
    /// own instance, which goes with it.
    #[test]
    fn events_with_call_chains_are_written_as_the_kernel_prints_them() {
        let Ok(tracefs) = Tracefs::open() else {
            println!("skipped: not root, or no tracefs");
            return;
        };
        let instance = Instance::make(&tracefs, 1, BufferKeeps::Newest).unwrap();
        let option = tracefs.root().join("instances").join(instance.name());
        let option = option.join("options/stacktrace");
        if !option.exists() {
            println!("skipped: this kernel has no option stacktrace");
            return;
        }
        fs::write(&option, "0").unwrap();
        let form = StreamForm::of(&instance).unwrap();
        assert!(matches!(form, StreamForm::Pages { .. }));
        assert_eq!(form.magic(), STREAM_MAGIC_PAGES);
        assert_eq!(form.level(), LEVEL_OF_PAGES);
        assert!(matches!(form.open(&instance), Ok(KernelEvents::Pages(_))));
        fs::write(&option, "1").unwrap();
        let form = StreamForm::of(&instance).unwrap();
        let StreamForm::Text(why) = &form else {
            panic!("the chains would be lost")
        };
        assert!(why.contains("options/stacktrace"), "{why}");
        assert_eq!(form.magic(), STREAM_MAGIC);
        assert_eq!(form.level(), LEVEL_OF_TEXT);
        assert!(matches!(form.open(&instance), Ok(KernelEvents::Text(_))));
        // They are there.
        instance.set_tracing(true).unwrap();
        drop(std::process::Command::new("true").status());
        instance.set_tracing(false).unwrap();
        let mut text = Vec::new();
        instance.text().unwrap().read_to_end(&mut text).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("<stack trace>"));
    }
}
