//! One tracing instance: its events, its buffers, how it prints, and its end. No other file writes to the kernel's
//! tracing; a kernel that lacks an event or an option is met here.

use super::Tracefs;
use crate::record::RecordError;
use crate::trace::TracedWork;
use framewright::Order;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Without these a recording says nothing.
const NEEDED: [&str; 2] = ["kmem/mm_page_alloc", "kmem/mm_page_free"];

/// These tell a move from a free, fallbacks from fits, what tasks are called, and what the kernel did about memory; a kernel
/// built without compaction has none of some. `mm_page_free_batched` is not among them: it repeats `mm_page_free`.
const WANTED: [&str; 12] = [
    "kmem/mm_page_alloc_extfrag",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_try_to_compact_pages",
    "migrate/mm_migrate_pages_start",
    "migrate/mm_migrate_pages",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
    "task/task_newtask",
    "task/task_rename",
];

/// What goes wrong, and what the kernel does about it.
const TROUBLE: [&str; 8] = [
    "kmem/mm_page_alloc_extfrag",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_try_to_compact_pages",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_kswapd_sleep",
];

/// What any process may write into the buffers of an instance, or what the kernel adds to events.
const WRITTEN: [&str; 6] = [
    "ftrace/print",
    "ftrace/bprint",
    "ftrace/bputs",
    "ftrace/raw_data",
    "ftrace/kernel_stack",
    "ftrace/user_stack",
];

/// How events are printed, and whether. A new instance takes these from the machine's own tracing, which may be set
/// otherwise; old kernels lack some.
const PRINTED: [(&str, &str); 11] = [
    ("raw", "0"),
    ("hex", "0"),
    ("bin", "0"),
    ("verbose", "0"),
    ("fields", "0"),
    ("latency-format", "0"),
    ("record-tgid", "0"),
    ("context-info", "1"),
    ("irq-info", "1"),
    ("record-cmd", "1"),
    ("markers", "1"),
];

/// Which events full buffers keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BufferKeeps {
    /// The oldest: an event that finds no room is not written.
    #[default]
    Oldest,
    /// The newest: it overwrites the oldest, as a flight recorder does.
    Newest,
}

/// What the ring buffers hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferFill {
    /// Events that can be read.
    pub events: u64,
    /// Events that were not written for want of room, or of an undisturbed moment.
    pub lost: u64,
    /// Events that newer ones have overwritten.
    pub overwritten: u64,
    /// Events that were read, each once.
    pub read: u64,
    /// How full the fullest CPU's buffer is, in percent.
    pub percent: u64,
    /// From here on the buffers have every CPU's events, in nanoseconds of `CLOCK_MONOTONIC`: the oldest event of the
    /// CPU of which the least is left. `None` where no event was overwritten.
    pub whole_from_ns: Option<u64>,
}

/// A CPU's buffer for failures: a few hundred of them.
const FAILURES_KIB: u64 = 64;
/// The same where all are counted by order: tens of thousands.
const ALL_FAILURES_KIB: u64 = 4096;

/// Names that a recorder tries for its instance. Another container's recorder may have the number of this one's
/// process, and one that was killed may have left its instance.
const TRIES: u32 = 16;
/// How often a recorder makes an instance anew whose files are missing, and how long it waits before that.
const MADE_ANEW: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// A tracing instance of this process: buffers and events of its own, beside whatever else is
/// traced on the machine. Dropping it removes it.
#[derive(Debug)]
pub struct Instance<'t> {
    path: PathBuf,
    name: String,
    cpus: Vec<PathBuf>,
    buffer_bytes_per_cpu: u64,
    missing: Vec<&'static str>,
    /// `tracing_on`, held open: while it is, the kernel lets no process remove the instance.
    hold: Option<File>,
    /// What tells its folder from one of the same name that another recorder makes when this one is gone.
    inode: Option<u64>,
    tracefs: &'t Tracefs,
}

impl<'t> Instance<'t> {
    /// What names of instances begin with; the process's number follows, and a second one where that is taken.
    pub const PREFIX: &'static str = "framewright-";

    /// Makes an instance that does not trace yet, with all buffers allocated: `buffer_mib` shared
    /// out evenly among the CPUs.
    ///
    /// # Errors
    /// [`RecordError::Missing`] if the kernel has no events for page frames, or no memory for the
    /// buffers. The instance is gone then.
    pub fn make(
        tracefs: &'t Tracefs,
        buffer_mib: u64,
        keeps: BufferKeeps,
    ) -> Result<Self, RecordError> {
        let mut instance = Self::make_bare(tracefs, keeps)?;
        let kib = (buffer_mib << 10) / instance.cpus.len().max(1) as u64;
        instance.set_buffer_kib(kib)?;
        for event in NEEDED {
            instance.enable(event).map_err(|error| {
                RecordError::Missing(format!(
                    "this kernel does not trace {event} ({error}); it must be built with CONFIG_EVENT_TRACING"
                ))
            })?;
        }
        for event in WANTED {
            if instance.enable(event).is_err() {
                instance.missing.push(event);
            }
        }
        Ok(instance)
    }

    /// Makes an instance that traces nothing but allocations that fail, those of one order if that is given, and the
    /// newest of them. It does not trace yet.
    ///
    /// # Errors
    /// [`RecordError::Missing`] if the kernel cannot tell these from the others.
    pub fn make_for_failures(
        tracefs: &'t Tracefs,
        only: Option<Order>,
    ) -> Result<Self, RecordError> {
        Self::make_failures(tracefs, only, FAILURES_KIB)
    }

    /// The same for failures of all orders, with room to tell the orders of very many.
    ///
    /// # Errors
    /// As [`make_for_failures`](Self::make_for_failures).
    pub fn make_for_all_failures(tracefs: &'t Tracefs) -> Result<Self, RecordError> {
        Self::make_failures(tracefs, None, ALL_FAILURES_KIB)
    }

    /// Makes an instance that traces nothing but requests served from another mobility's pageblock, of which its
    /// [`fill`](Self::fill) is the count. It does not trace yet.
    ///
    /// # Errors
    /// [`RecordError::Missing`] if the kernel does not trace them.
    pub fn make_for_fallbacks(tracefs: &'t Tracefs) -> Result<Self, RecordError> {
        let mut instance = Self::make_bare(tracefs, BufferKeeps::Newest)?;
        instance.set_buffer_kib(FAILURES_KIB)?;
        let event = WANTED[0];
        instance.enable(event).map_err(|error| {
            RecordError::Missing(format!("this kernel does not trace {event} ({error})"))
        })?;
        Ok(instance)
    }

    /// Makes an instance that traces what goes wrong: requests that fail, requests served from another mobility's
    /// pageblock, and what the kernel does about memory. It keeps the newest events and does not trace yet.
    ///
    /// # Errors
    /// [`RecordError::Missing`] if the kernel cannot tell requests that fail from the others.
    pub(crate) fn make_for_trouble(
        tracefs: &'t Tracefs,
        buffer_kib: u64,
    ) -> Result<Self, RecordError> {
        let mut instance = Self::make_failures(tracefs, None, FAILURES_KIB)?;
        instance.share_buffer_kib(buffer_kib)?;
        for event in TROUBLE {
            if instance.enable(event).is_err() {
                instance.missing.push(event);
            }
        }
        Ok(instance)
    }

    /// Makes an instance that traces requests that are served, those of one frame left out: they are most of all, and
    /// `/proc/vmstat` counts them. It keeps the newest events and does not trace yet.
    ///
    /// # Errors
    /// [`RecordError::Missing`] if the kernel cannot tell these from the others.
    pub(crate) fn make_for_larger_requests(
        tracefs: &'t Tracefs,
        buffer_kib: u64,
    ) -> Result<Self, RecordError> {
        let mut instance = Self::make_bare(tracefs, BufferKeeps::Newest)?;
        instance.share_buffer_kib(buffer_kib)?;
        instance.enable_filtered(|[field, failed]| format!("{field} != {failed} && order > 0"))?;
        Ok(instance)
    }

    fn make_failures(
        tracefs: &'t Tracefs,
        only: Option<Order>,
        kib: u64,
    ) -> Result<Self, RecordError> {
        let mut instance = Self::make_bare(tracefs, BufferKeeps::Newest)?;
        instance.set_buffer_kib(kib)?;
        instance.enable_filtered(|failed| failure_filter(&failed, only))?;
        Ok(instance)
    }

    /// Traces the allocations that a filter lets through, made of the field that tells failures and its value in one.
    fn enable_filtered(
        &self,
        filter: impl FnOnce([String; 2]) -> String,
    ) -> Result<(), RecordError> {
        let event = NEEDED[0];
        let format = self.read(&format!("events/{event}/format"))?;
        let failed = failed_field(&format).ok_or_else(|| {
            RecordError::Missing(format!(
                "this kernel's {event} has neither pfn nor page, so that failures cannot be told"
            ))
        })?;
        self.write(&format!("events/{event}/filter"), &filter(failed))?;
        self.enable(event)
    }

    /// Makes an instance that traces nothing. On a busy machine the files of a new instance can be missing for a moment,
    /// although it is held open. Why is not known. Then this makes one anew.
    fn make_bare(tracefs: &'t Tracefs, keeps: BufferKeeps) -> Result<Self, RecordError> {
        let mut again = MADE_ANEW;
        loop {
            match Self::make_once(tracefs, keeps) {
                Err(RecordError::File(_)) if again > 0 => again -= 1,
                made => return made,
            }
            thread::sleep(BETWEEN);
        }
    }

    fn make_once(tracefs: &'t Tracefs, keeps: BufferKeeps) -> Result<Self, RecordError> {
        let (name, hold) = Self::make_held(tracefs)?;
        // From here on, dropping it removes it.
        let mut instance = Self {
            path: tracefs.root().join("instances").join(&name),
            name,
            cpus: Vec::new(),
            buffer_bytes_per_cpu: 0,
            missing: Vec::new(),
            hold: Some(hold),
            inode: None,
            tracefs,
        };
        instance.inode = inode_of(&instance.path);
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        for (option, value) in PRINTED {
            if instance.path.join("options").join(option).exists() {
                instance.write(&format!("options/{option}"), value)?;
            }
        }
        // Where the oldest stay, what does not fit is counted and left out: the beginning is what the state belongs to.
        let overwrites = keeps == BufferKeeps::Newest;
        instance.write("options/overwrite", if overwrites { "1" } else { "0" })?;
        instance.cpus = instance.find_cpus()?;
        Ok(instance)
    }

    fn set_buffer_kib(&mut self, kib: u64) -> Result<(), RecordError> {
        self.buffer_bytes_per_cpu = kib << 10;
        let kib = kib.to_string();
        self.write("buffer_size_kb", &kib).map_err(|error| {
            RecordError::Missing(format!(
                "no ring buffers of {kib} KiB a CPU ({error}): give a smaller size"
            ))
        })
    }

    /// Shares a buffer out among the CPUs, none of which gets too little for some hundred events.
    fn share_buffer_kib(&mut self, kib: u64) -> Result<(), RecordError> {
        let share = kib / self.cpus.len().max(1) as u64;
        self.set_buffer_kib(share.max(FAILURES_KIB))
    }

    /// Makes an instance under a name that is free, and holds it open.
    fn make_held(tracefs: &Tracefs) -> Result<(String, File), RecordError> {
        let own = format!("{}{}", Self::PREFIX, std::process::id());
        let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
        let mut unopened = None;
        for attempt in 0..TRIES {
            let name = match attempt {
                0 => own.clone(),
                _ => format!("{own}-{attempt}"),
            };
            let path = tracefs.root().join("instances").join(&name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    refused = error;
                    break;
                }
                Ok(()) => {}
            }
            let switch = path.join("tracing_on");
            match File::options().write(true).open(&switch) {
                Ok(hold) => return Ok((name, hold)),
                // Another recorder may take it for one that is left, before it is held. While the kernel removes it, its
                // files are gone, and the folder is still there.
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    unopened = Some(RecordError::file(&switch, &error));
                }
            }
        }
        if let Some(error) = unopened {
            return Err(error);
        }
        Err(RecordError::Missing(match refused.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "other recorders have the tracing instances {own} to {own}-{}; end one of them",
                TRIES - 1
            ),
            _ => format!(
                "no tracing instance can be made: {refused}; a locked-down kernel refuses (see \
                 /sys/kernel/security/lockdown), and instances need Linux 3.10"
            ),
        }))
    }

    /// Removes instances of recorders that were killed; returns their names. The kernel removes none that a
    /// process holds open (W4).
    pub fn remove_stale(tracefs: &Tracefs) -> Vec<String> {
        let mut names = tracefs.instances().unwrap_or_default();
        names.retain(|name| {
            is_recorders(name)
                && fs::remove_dir(tracefs.root().join("instances").join(name)).is_ok()
        });
        names
    }

    /// Its name under `instances/`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Events this kernel does not have.
    #[must_use]
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Which of the kernel's work it traces: that whose beginnings and ends this kernel has.
    #[must_use]
    pub fn traced(&self) -> TracedWork {
        traced_without(&self.missing)
    }

    /// Starts or stops tracing.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_tracing(&self, on: bool) -> Result<(), RecordError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// What the buffers hold. Reads one small file a CPU, which itself allocates a little.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn fill(&self) -> Result<BufferFill, RecordError> {
        let mut fill = BufferFill::default();
        for path in &self.cpus {
            let text = fs::read_to_string(path).map_err(|e| RecordError::file(path, &e))?;
            fill.add(&text, self.buffer_bytes_per_cpu);
        }
        Ok(fill)
    }

    /// The text of all events, merged by time. Only after tracing has stopped.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn text(&self) -> Result<File, RecordError> {
        let path = self.path.join("trace");
        File::open(&path).map_err(|e| RecordError::file(&path, &e))
    }

    /// The text of events as they come, each once: a read that finds none says that it would have to wait.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn pipe(&self) -> Result<File, RecordError> {
        let path = self.path.join("trace_pipe");
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(&path);
        opened.map_err(|e| RecordError::file(&path, &e))
    }

    /// The pages of each CPU's buffer as they come, each once: a read that finds none says that it would have to wait.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(crate) fn pages(&self) -> Result<Vec<(u16, File)>, RecordError> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let open = |stats: &PathBuf| {
            let path = stats.with_file_name("trace_pipe_raw");
            let cpu = stats.parent().and_then(Path::file_name)?.to_str()?;
            let cpu = cpu.strip_prefix("cpu")?.parse().ok()?;
            let opened = File::options().read(true).custom_flags(flags).open(&path);
            let opened = opened.map_err(|e| RecordError::file(&path, &e));
            Some(opened.map(|file| (cpu, file)))
        };
        self.cpus.iter().filter_map(open).collect()
    }

    /// What tracefs says of these pages and of the events in them: the texts of [`FORMATS`](crate::trace::FORMATS), in that
    /// order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn page_formats(&self) -> Result<[String; 3], RecordError> {
        let order = if cfg!(target_endian = "little") {
            "little"
        } else {
            "big"
        };
        let page = self.read_at_once("events/header_page")?;
        let mut events = String::new();
        for event in NEEDED {
            events += &self.read(&format!("events/{event}/format"))?;
        }
        // What a kernel lacks is not traced; what another process writes into the buffers is of the last ones.
        for event in WANTED.iter().chain(&WRITTEN) {
            if let Ok(format) = self.read(&format!("events/{event}/format")) {
                events += &format;
            }
        }
        Ok([format!("byte_order {order}\n"), page, events])
    }

    /// Whether the machine's tracing, from which an instance takes its options, adds call chains to events.
    #[must_use]
    pub fn adds_chains(&self) -> bool {
        let is_on = |option: &str| {
            let value = self.read(&format!("options/{option}"));
            value.is_ok_and(|value| value.trim() == "1")
        };
        is_on("stacktrace") || is_on("userstacktrace")
    }

    /// The file in which the kernel keeps the names of some tasks that had events.
    pub(crate) fn names_of_tasks(&self) -> PathBuf {
        self.tracefs.root().join("saved_cmdlines")
    }

    fn find_cpus(&self) -> Result<Vec<PathBuf>, RecordError> {
        let folder = self.path.join("per_cpu");
        let list = || -> io::Result<Vec<PathBuf>> {
            let entries = fs::read_dir(&folder)?;
            entries
                .map(|entry| Ok(entry?.path().join("stats")))
                .collect()
        };
        let mut cpus = list().map_err(|e| RecordError::file(&folder, &e))?;
        cpus.sort_unstable();
        Ok(cpus)
    }

    fn enable(&self, event: &str) -> Result<(), RecordError> {
        self.write(&format!("events/{event}/enable"), "1")
    }

    fn read(&self, file: &str) -> Result<String, RecordError> {
        let path = self.path.join(file);
        fs::read_to_string(&path).map_err(|e| RecordError::file(&path, &e))
    }

    /// Reads a file that the kernel gives to the first read alone, however little that takes.
    fn read_at_once(&self, file: &str) -> Result<String, RecordError> {
        let path = self.path.join(file);
        let mut bytes = vec![0; 64 << 10];
        let got = File::open(&path).and_then(|mut file| file.read(&mut bytes));
        bytes.truncate(got.map_err(|e| RecordError::file(&path, &e))?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), RecordError> {
        let path = self.path.join(file);
        write_existing(&path, value).map_err(|e| RecordError::file(&path, &e))
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        self.hold = None;
        // Another recorder may have taken it for one that is left: then it is gone, as it should be, and in another
        // container one of the same name may be there, held by its recorder.
        let is_own = || inode_of(&self.path) == self.inode;
        if is_own()
            && let Err(error) = fs::remove_dir(&self.path)
            && error.kind() != io::ErrorKind::NotFound
            && is_own()
        {
            // Standard error may be closed. A lost message is better than a panic in a drop.
            let _ = writeln!(
                io::stderr(),
                "the tracing instance {} could not be removed ({error}); as root: rmdir /sys/kernel/tracing/instances/{}",
                self.name,
                self.name
            );
        }
    }
}

impl BufferFill {
    /// Whether the buffers still have what happened then, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn has(&self, time_ns: u64) -> bool {
        self.whole_from_ns.is_none_or(|begin| begin <= time_ns)
    }

    /// Adds what a CPU's `stats` say of its buffer.
    fn add(&mut self, stats: &str, buffer_bytes: u64) {
        let text = |wanted: &str| {
            let fields = stats.lines().filter_map(|line| line.split_once(": "));
            let mut named = fields.filter(|(name, _)| *name == wanted);
            named.next().map(|(_, value)| value.trim())
        };
        let value = |wanted| text(wanted).and_then(|value| value.parse::<u64>().ok());
        let count = |wanted| value(wanted).unwrap_or(0);
        self.events += count("entries");
        self.read += count("read events");
        self.lost += count("commit overrun") + count("dropped events");
        let overwritten = count("overrun");
        self.overwritten += overwritten;
        let percent = count("bytes").saturating_mul(100) / buffer_bytes.max(1);
        self.percent = self.percent.max(percent);
        if overwritten > 0 {
            let oldest = text("oldest event ts").and_then(nanoseconds);
            self.whole_from_ns = self.whole_from_ns.max(Some(oldest.unwrap_or(u64::MAX)));
        }
    }
}

/// Seconds with six digits behind the point, as the kernel prints times.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, micros) = seconds.split_once('.')?;
    let (whole, micros): (u64, u64) = (whole.parse().ok()?, micros.parse().ok()?);
    let whole = whole.checked_mul(1_000_000_000)?;
    whole.checked_add(micros.checked_mul(1000)?)
}

/// What tells an allocation that failed from the others, a field and its value then: the frame of all ones that it has in
/// place of one, or, before Linux 4.1, a page that is null.
fn failed_field(format: &str) -> Option<[String; 2]> {
    let field = |name: &str| {
        let mut lines = format.lines().filter(|line| line.contains("field:"));
        lines.find(|line| line.contains(&format!(" {name};")))
    };
    let (field, failed) = match (field("pfn"), field("page")) {
        (Some(pfn), _) if pfn.contains("size:4;") => ("pfn", u64::from(u32::MAX)),
        (Some(_), _) => ("pfn", u64::MAX),
        (None, Some(_)) => ("page", 0),
        (None, None) => return None,
    };
    Some([field.to_owned(), failed.to_string()])
}

/// Lets failures through. Other orders, of which thousands may fail a second, leave no room for the one that is looked
/// for.
fn failure_filter([field, failed]: &[String; 2], only: Option<Order>) -> String {
    match only {
        Some(order) => format!("{field} == {failed} && order == {}", order.get()),
        None => format!("{field} == {failed}"),
    }
}

/// Whether an instance of that name is a recorder's: a user's own `framewright-mine` is not.
fn is_recorders(name: &str) -> bool {
    let number = name.strip_prefix(Instance::PREFIX);
    number.is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    })
}

fn inode_of(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|there| there.ino())
}

/// `fs::write` would make the file; in tracefs a file that is not there cannot be made.
fn write_existing(path: &Path, value: &str) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// What is traced of the kernel's work where these events are missing.
fn traced_without(missing: &[&str]) -> TracedWork {
    let has = |events: &[&str]| events.iter().all(|event| !missing.contains(event));
    TracedWork {
        background: has(&[
            "vmscan/mm_vmscan_kswapd_wake",
            "vmscan/mm_vmscan_kswapd_sleep",
        ]),
        reclaim: has(&[
            "vmscan/mm_vmscan_direct_reclaim_begin",
            "vmscan/mm_vmscan_direct_reclaim_end",
        ]),
        compaction: has(&[
            "compaction/mm_compaction_begin",
            "compaction/mm_compaction_end",
            "compaction/mm_compaction_try_to_compact_pages",
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_adds_up_cpus_and_begins_where_each_has_all_of_its_events() {
        let stats = |overrun: u64, oldest: &str| {
            format!(
                "entries: 10\noverrun: {overrun}\ncommit overrun: 1\nbytes: 512\noldest event ts: {oldest}\nnow ts:  9.000001\ndropped events: 2\nread events: 4\n"
            )
        };
        let mut fill = BufferFill::default();
        fill.add(&stats(0, " 8.000000"), 1024);
        assert_eq!(fill.whole_from_ns, None, "nothing was overwritten");
        fill.add(&stats(5, "  2716.123456"), 1024);
        fill.add(&stats(7, "    5.000001"), 2048);
        let expected = BufferFill {
            events: 30,
            lost: 9,
            overwritten: 12,
            read: 12,
            percent: 50,
            whole_from_ns: Some(2_716_123_456_000),
        };
        assert_eq!(fill, expected);
        // A time that cannot be read: nothing is known to be whole.
        fill.add(&stats(1, "soon"), 1024);
        assert_eq!(fill.whole_from_ns, Some(u64::MAX));
        assert!(!fill.has(2_716_123_457_000));
        let kept = [2_716_123_455_999, 2_716_123_456_000].map(|time| expected.has(time));
        assert_eq!(kept, [false, true]);
        assert!(BufferFill::default().has(0));
    }

    /// Two containers' recorders have the same number: when the one ends, the other may take its instance for a left one,
    /// and make its own of that name.
    #[test]
    fn w4_the_instance_that_another_recorder_has_made_under_its_name_is_left_alone() {
        let Ok(tracefs) = Tracefs::open() else {
            println!("skipped: not root, or no tracefs");
            return;
        };
        for is_own in [false, true] {
            let mut instance = Instance::make_for_failures(&tracefs, None).unwrap();
            let path = instance.path.clone();
            let mut other = Some(fs::File::open(path.join("tracing_on")).unwrap());
            if is_own {
                other = None;
            } else {
                instance.inode = instance.inode.map(|own| own + 1);
            }
            drop(instance);
            assert_eq!(path.exists(), !is_own);
            // While a file of it is open the kernel does not remove it, and it would outlive the test.
            drop(other);
            let _ = fs::remove_dir(&path);
            assert!(!path.exists());
        }
    }

    #[test]
    fn failures_are_told_by_the_frame_or_the_page_that_they_lack() {
        let field =
            |of: &str, size| format!("\tfield:unsigned long {of};\toffset:8;\tsize:{size};\n");
        let with = |format: &str, only| Some(failure_filter(&failed_field(format)?, only));
        let of = |format: &str| with(format, None);
        let filter = of(&(field("pfn", 8) + &field("order", 4)));
        assert_eq!(filter.unwrap(), "pfn == 18446744073709551615");
        assert_eq!(of(&field("pfn", 4)).unwrap(), "pfn == 4294967295");
        assert_eq!(of("\tfield:struct page * page;\n").unwrap(), "page == 0");
        assert_eq!(of("print fmt: \"pfn;\"\n"), None);
        let only = with("\tfield:struct page * page;\n", Order::new(3));
        assert_eq!(only.unwrap(), "page == 0 && order == 3");
    }
}
