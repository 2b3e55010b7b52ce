use super::{RecordError, Tracefs};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Without these a recording says nothing.
const NEEDED: [&str; 2] = ["kmem/mm_page_alloc", "kmem/mm_page_free"];

/// These tell a move from a free and fallbacks from fits; a kernel built without compaction has
/// none of the last ones. `mm_page_free_batched` is not among them: it repeats `mm_page_free`.
const WANTED: [&str; 7] = [
    "kmem/mm_page_alloc_extfrag",
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_try_to_compact_pages",
    "migrate/mm_migrate_pages_start",
    "migrate/mm_migrate_pages",
    "vmscan/mm_vmscan_direct_reclaim_begin",
];

/// What the ring buffers hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferFill {
    /// Events that can be read.
    pub events: u64,
    /// Events that were overwritten or not written for want of room, or of an undisturbed moment.
    pub lost: u64,
    /// How full the fullest CPU's buffer is, in percent.
    pub percent: u64,
}

/// Names that a recorder tries for its instance. Another container's recorder may have the number of this one's
/// process, and one that was killed may have left its instance.
const TRIES: u32 = 16;

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
    _tracefs: &'t Tracefs,
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
    pub fn make(tracefs: &'t Tracefs, buffer_mib: u64) -> Result<Self, RecordError> {
        let (name, hold) = Self::make_held(tracefs)?;
        // From here on, dropping it removes it.
        let mut instance = Self {
            path: tracefs.root().join("instances").join(&name),
            name,
            cpus: Vec::new(),
            buffer_bytes_per_cpu: 0,
            missing: Vec::new(),
            hold: Some(hold),
            _tracefs: tracefs,
        };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        // What does not fit is counted and left out; the beginning is what the state belongs to.
        instance.write("options/overwrite", "0")?;
        instance.cpus = instance.find_cpus()?;
        let kib = (buffer_mib << 10) / instance.cpus.len().max(1) as u64;
        instance.buffer_bytes_per_cpu = kib << 10;
        let kib = kib.to_string();
        instance.write("buffer_size_kb", &kib).map_err(|error| {
            RecordError::Missing(format!(
                "no ring buffers of {kib} KiB a CPU ({error}): give a smaller --buffer"
            ))
        })?;
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

    /// Makes an instance under a name that is free, and holds it open.
    fn make_held(tracefs: &Tracefs) -> Result<(String, File), RecordError> {
        let own = format!("{}{}", Self::PREFIX, std::process::id());
        let mut refused = io::Error::from(io::ErrorKind::AlreadyExists);
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
                // Another recorder has taken it for one that is left, before it was held.
                Err(_) if !path.exists() => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(RecordError::file(&switch, &error));
                }
            }
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
            let value = |wanted: &str| {
                text.lines()
                    .filter_map(|line| line.split_once(": "))
                    .find(|(name, _)| *name == wanted)
                    .and_then(|(_, value)| value.trim().parse::<u64>().ok())
                    .unwrap_or(0)
            };
            fill.events += value("entries");
            fill.lost += value("overrun") + value("commit overrun") + value("dropped events");
            let percent = value("bytes") * 100 / self.buffer_bytes_per_cpu.max(1);
            fill.percent = fill.percent.max(percent);
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

    fn write(&self, file: &str, value: &str) -> Result<(), RecordError> {
        let path = self.path.join(file);
        write_existing(&path, value).map_err(|e| RecordError::file(&path, &e))
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        self.hold = None;
        // Another recorder may have taken it for one that is left: then it is gone, as it should be.
        if let Err(error) = fs::remove_dir(&self.path)
            && error.kind() != io::ErrorKind::NotFound
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

/// Whether an instance of that name is a recorder's: a user's own `framewright-mine` is not.
fn is_recorders(name: &str) -> bool {
    let number = name.strip_prefix(Instance::PREFIX);
    number.is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    })
}

/// `fs::write` would make the file; in tracefs a file that is not there cannot be made.
fn write_existing(path: &Path, value: &str) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.write_all(value.as_bytes())
}
