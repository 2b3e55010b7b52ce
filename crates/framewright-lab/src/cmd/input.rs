//! From a path to a trace with all that lies beside it. The neighbours (state, chosen frames, the reference,
//! counters) are found here by name and held to the trace's digest, so that every command reads the same files and
//! none mixes two recordings.

use super::conduct::CommandError;
use crate::before::buddy::LinuxPolicy;
use crate::printable;
use crate::replay::{ListedFree, ReplayPolicy, fit_free_memory, read_reference};
use crate::report::{
    MachineStalls, RecordedKernel, hollow_areas, hollow_blocks, hollow_events, hollow_pages,
    hollow_trace,
};
use crate::trace::reduce::{Reducer, ReferenceRow};
use crate::trace::state::{
    MachineSettings, PageTypeInfo, ZoneInfo, kernel_version, lead_of, page_kib, read_mem_total,
    read_pagetypeinfo, read_settings, read_vmstat, read_zoneinfo,
};
use crate::trace::{
    Input, MemoryLimit, Recording, RunningDigest, Snapshot, StreamParts, StreamReader, TextReader,
    Trace, TraceDigest, TracedWork, read_frames, read_frames_digest, read_pft, text_of, trace_stem,
};
use framewright::Mobility;
use std::fs;
use std::path::{Path, PathBuf};

/// A trace with all that lies beside it.
#[derive(Debug)]
pub(super) struct LoadedTrace {
    /// What messages call it.
    pub(super) path: String,
    /// The file's name without folder and without a recording's ending, as cases have it.
    pub(super) name: String,
    /// The trace.
    pub(super) trace: Trace,
    /// What the input could not mean as it stands, by kind; kinds that did not occur left out.
    pub(super) anomalies: Vec<(String, u64)>,
    /// What the recording kernel itself made of memory, from `NAME.linux_ref.csv`.
    pub(super) reference: Option<Vec<ReferenceRow>>,
    /// The frame that the recording kernel chose for each allocation, from `NAME.pfn.zst`.
    pub(super) chosen: Option<Vec<u32>>,
    /// What the recording machine listed as free, and under which label, when the trace began.
    pub(super) types: Option<PageTypeInfo>,
    /// Free frames by label on the recording machine, from `--state`.
    pub(super) listed: Option<ListedFree>,
    /// The order of a pageblock on the recording machine, as far as a file says.
    pub(super) block_order: Option<u64>,
    /// Frames in contiguous areas of the recording machine, as far as a file says.
    pub(super) contiguous: u64,
    /// The size of its pages in KiB, as far as files say.
    pub(super) page_kib: Option<u64>,
    /// The recording machine's min watermark over all zones, in frames, as far as a file says.
    pub(super) min_watermark: Option<u64>,
    /// The recording machine's zones, from `before.zoneinfo`.
    pub(super) zones: Option<Vec<ZoneInfo>>,
    /// The release of the recording machine's kernel, as far as a file says that belongs to this trace for certain.
    pub(super) kernel: Option<String>,
    /// How it was set, from `before.settings`.
    pub(super) settings: Option<MachineSettings>,
    /// What requests waited for there, as far as files say that belong to this trace for certain.
    pub(super) stalls: Option<MachineStalls>,
    /// Whether it was read from text, which does not say what was free.
    pub(super) is_text: bool,
    /// Frames that `/proc` of the recording machine called free when the trace began, per-CPU lists left out.
    pub(super) listed_free: Option<u64>,
    /// How many seconds before the trace began that was, where not at its beginning.
    pub(super) lead: Option<f64>,
    /// What a reader must know of the files beside it.
    pub(super) notes: Vec<String>,
    /// What tells it from every other trace, where it was asked for.
    pub(super) digest: Option<TraceDigest>,
}

/// The sample trace and its reference, part of the program: the main job needs no file.
const SAMPLE: &[u8] = include_bytes!("../../sample/sample.pft.zst");
const SAMPLE_REFERENCE: &str = include_str!("../../sample/sample.linux_ref.csv");
/// What `traces/README.md` says of it.
const SAMPLE_KERNEL: &str = "6.18.44";

/// The sample trace that the program carries.
pub(super) fn sample() -> Result<LoadedTrace, CommandError> {
    let name = "sample";
    let input = Input::from_reader(name, SAMPLE).map_err(CommandError::input)?;
    let trace = read_pft(input).map_err(CommandError::input)?;
    let reference = read_reference(SAMPLE_REFERENCE, trace.present_frames());
    let reference = reference.map_err(CommandError::input)?;
    Ok(LoadedTrace {
        path: name.to_owned(),
        name: name.to_owned(),
        trace,
        anomalies: Vec::new(),
        reference: Some(reference),
        chosen: None,
        types: None,
        listed: None,
        block_order: None,
        contiguous: 0,
        page_kib: None,
        min_watermark: None,
        zones: None,
        kernel: Some(SAMPLE_KERNEL.to_owned()),
        settings: None,
        stalls: None,
        is_text: false,
        listed_free: None,
        lead: None,
        notes: Vec::new(),
        digest: None,
    })
}

/// Reads a trace and what lies beside it; `state` is the recording machine's
/// `/proc/pagetypeinfo` when the trace began, `limit` how much of this machine's memory that may
/// take.
pub(super) fn load(
    path: &Path,
    state: Option<&Path>,
    limit: MemoryLimit,
) -> Result<LoadedTrace, CommandError> {
    load_told_apart(path, state, limit, false)
}

/// The same, with the trace's digest if it `is_told_apart`.
pub(super) fn load_told_apart(
    path: &Path,
    state: Option<&Path>,
    limit: MemoryLimit,
    is_told_apart: bool,
) -> Result<LoadedTrace, CommandError> {
    let state = state.map(read_state).transpose()?;
    let stem = case_name(path);
    let beside = Beside::of(path);
    let mut loaded = LoadedTrace {
        path: printable::path(path),
        name: printable::text(&stem),
        trace: Trace::default(),
        anomalies: Vec::new(),
        reference: None,
        chosen: None,
        types: None,
        listed: state.as_ref().map(|state| state.listed),
        block_order: state.as_ref().map(|state| state.info.pageblock_order),
        contiguous: state
            .as_ref()
            .map_or(0, |state| state.info.contiguous_frames()),
        page_kib: None,
        min_watermark: None,
        zones: None,
        kernel: None,
        settings: None,
        stalls: None,
        is_text: false,
        listed_free: state
            .as_ref()
            .map(|state| state.listed.iter().copied().fold(0, u64::saturating_add)),
        lead: state.as_ref().and_then(|state| state.lead),
        notes: Vec::new(),
        digest: None,
    };
    let input = Input::open(path).map_err(CommandError::input)?;
    let digest = RunningDigest::default();
    let is_asked = is_told_apart || beside.any() || state.is_some();
    let input = match is_asked {
        true => input.with_digest(digest.clone()),
        false => input,
    };
    let input = input.with_memory_limit(limit);
    match Recording::from_input(input).map_err(CommandError::input)? {
        Recording::Columns(trace) => loaded.trace = *trace,
        Recording::Text(reader) => {
            loaded.is_text = true;
            read_text(*reader, &mut loaded, limit)?;
        }
        Recording::Stream(reader) => read_stream(*reader, &mut loaded, limit)?,
    }
    let digest = digest.so_far();
    loaded.digest = is_told_apart.then_some(digest);
    if let Some(state) = state {
        loaded.belongs(&state.name, state.digest, digest)?;
    }
    if let Some(beside) = &beside.reference {
        let (name, text) = text_of(beside).map_err(CommandError::input)?;
        let at = |cause: String| CommandError::Input(format!("{name}:{cause}"));
        loaded.belongs(&name, digest_of(&name, 1, &text)?, digest)?;
        let frames = loaded.trace.present_frames();
        loaded.reference = Some(read_reference(&text, frames).map_err(at)?);
    }
    // What the recorder has kept of the machine is looked at, too, where no other is given.
    if let (Some(path), None) = (&beside.state, loaded.listed_free) {
        let state = read_state(path)?;
        loaded.block_order = Some(state.info.pageblock_order);
        loaded.contiguous = state.info.contiguous_frames();
        loaded.lead = state.lead;
        loaded.belongs(&state.name, state.digest, digest)?;
        loaded.listed_free = Some(state.listed.iter().copied().fold(0, u64::saturating_add));
        loaded.types = Some(state.info);
    }
    if let Some(path) = &beside.zones {
        let (name, text) = text_of(path).map_err(CommandError::input)?;
        loaded.belongs(&name, digest_of(&name, 1, &text)?, digest)?;
        loaded.lead = loaded.lead.or(lead_of(&text));
        let zones = read_zoneinfo(&name, &text).map_err(CommandError::input)?;
        loaded.min_watermark = Some(min_watermark(&zones));
        loaded.zones = Some(zones);
    }
    if let (Some(path), Some(zones)) = (&beside.memory, &loaded.zones) {
        let (name, text) = text_of(path).map_err(CommandError::input)?;
        let total = read_mem_total(&name, &text).map_err(CommandError::input)?;
        loaded.page_kib = page_kib(total, zones);
        // Of an earlier version's that is said of the files above.
        if let said @ Some(_) = digest_of(&name, 1, &text)? {
            loaded.belongs(&name, said, digest)?;
        }
    }
    if let Some(path) = &beside.settings {
        let (name, text) = text_of(path).map_err(CommandError::input)?;
        loaded.belongs(&name, digest_of(&name, 1, &text)?, digest)?;
        loaded.settings = Some(read_settings(&name, &text).map_err(CommandError::input)?);
    }
    if let Some(both) = &beside.counters {
        loaded.stalls = read_stalls(both, digest)?;
    }
    if let Some(path) = &beside.summary {
        loaded.read_kernel(path, digest)?;
    }
    if let Some(lead) = loaded.lead {
        loaded.notes.push(format!(
            "the trace begins where a flight recorder's events begin: what memory was like there was worked out from \
             them, and before.* is from {lead:.1} s earlier"
        ));
    }
    // The reference knows more: migrations are in it. But not whose a frame is.
    let is_wanted = loaded.reference.is_none() || loaded.trace.askers.is_known();
    let frames = beside.frames.filter(|_| is_wanted);
    if let Some(beside) = frames {
        let mut input = Input::open(&beside).map_err(CommandError::input)?;
        let said = read_frames_digest(&mut input).map_err(CommandError::input)?;
        loaded.belongs(&printable::path(&beside), said, digest)?;
        let frames = read_frames(input, &loaded.trace).map_err(CommandError::input)?;
        loaded.chosen = Some(frames);
    }
    Ok(loaded)
}

impl LoadedTrace {
    /// The rules that stand for the recorded kernel's.
    pub(super) fn rules(&self) -> ReplayPolicy {
        self.known_rules()
            .map_or(ReplayPolicy::ASSUMED_KERNEL, |(rules, _)| rules)
    }

    /// The same of that release as it is set when it boots.
    pub(super) fn unset_rules(&self) -> ReplayPolicy {
        self.release_rules()
            .map_or(ReplayPolicy::ASSUMED_KERNEL, |(rules, _)| rules)
    }

    /// The rules of its release, and whether they are exactly these.
    fn release_rules(&self) -> Option<(ReplayPolicy, bool)> {
        ReplayPolicy::of_release(self.kernel.as_deref()?)
    }

    /// The same as it was set.
    fn known_rules(&self) -> Option<(ReplayPolicy, bool)> {
        let settings = self.settings.as_ref();
        let mode = settings.and_then(|settings| settings.number("vm.defrag_mode"));
        match mode {
            // Every release that has it has the rules of 6.12 besides.
            Some(1) => Some((ReplayPolicy::Linux(LinuxPolicy::Linux618Defrag), true)),
            _ => self.release_rules(),
        }
    }

    /// What the recording says of its kernel besides the events.
    pub(super) fn recorded_kernel(&self) -> RecordedKernel {
        RecordedKernel {
            version: (self.kernel.as_deref().and_then(kernel_version))
                .map(|(major, minor, _)| (major, minor)),
            settings: self.settings.clone(),
            block_order: self.block_order,
            memory_kib: Some(
                self.trace
                    .present_frames()
                    .saturating_mul(self.page_kib.unwrap_or(4)),
            ),
            page_kib: self.page_kib,
        }
    }

    /// What a reader must know of these rules where they are assumed, or no more than near.
    pub(super) fn assumed_rules(&self) -> Option<String> {
        let why = match (&self.kernel, self.known_rules()) {
            (Some(release), Some((rules, false))) => {
                return Some(format!(
                    "no model has exactly the rules of the recorded kernel, {release}: those of {rules} are taken for them"
                ));
            }
            (_, Some(_)) => return None,
            (Some(release), None) => {
                format!("the recorded kernel calls itself {release}, which is no release")
            }
            (None, None) => {
                "nothing says which kernel was recorded (NAME.summary.txt beside the trace would)"
                    .to_owned()
            }
        };
        Some(format!(
            "{why}: its rules are taken for those of {}",
            ReplayPolicy::ASSUMED_KERNEL
        ))
    }

    /// What it lets no replay know, by kind.
    pub(super) fn hollow(&self) -> Vec<(&'static str, String)> {
        // What was free at another moment is no measure.
        let listed = self.listed_free;
        let listed = listed.filter(|_| self.is_text || self.lead.is_none());
        let zones = self.zones.iter().flatten();
        let cached = zones
            .flat_map(|zone| &zone.cpus)
            .fold(0, |sum: u64, cpu| sum.saturating_add(cpu.count));
        let listed = listed.map(|listed| (listed, cached));
        let mut found = hollow_trace(&self.trace, self.is_text, listed);
        found.extend(hollow_blocks(self.block_order));
        found.extend(hollow_areas(self.contiguous, self.page_kib.unwrap_or(4)));
        found.extend(hollow_pages(self.page_kib));
        found.extend(hollow_events(&self.anomalies));
        found
    }

    /// Reads the release of the kernel from a summary, if the summary is this trace's.
    fn read_kernel(&mut self, path: &Path, digest: TraceDigest) -> Result<(), CommandError> {
        let (name, text) = text_of(path).map_err(CommandError::input)?;
        let Some(kernel) = text.lines().find_map(|line| line.strip_prefix("kernel ")) else {
            return Ok(());
        };
        let mut lines = (1..).zip(text.lines());
        let said = lines.find_map(|(number, line)| digest_of(&name, number, line).transpose());
        match said.transpose()? {
            // Rules are chosen by it, and of an earlier version's the others would have to be guessed at, too.
            None => self.notes.push(format!(
                "{} does not say which trace it belongs to, so the kernel that it names is not taken for this one's",
                Path::new(&name).file_name().map_or((&*name).into(), |name| name.to_string_lossy())
            )),
            said => {
                self.belongs(&name, said, digest)?;
                self.kernel = Some(printable::text(kernel));
            }
        }
        Ok(())
    }

    /// Whether a file beside the trace is one of this trace. One of an earlier version does not say, which is noted.
    fn belongs(
        &mut self,
        file: &str,
        said: Option<TraceDigest>,
        digest: TraceDigest,
    ) -> Result<(), CommandError> {
        match said {
            None => self.notes.push(format!(
                "{} does not say which trace it belongs to (a recording of an earlier version); it is taken for this \
                 one's",
                Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy())
            )),
            Some(said) if said == digest => {}
            Some(said) => {
                return Err(CommandError::Input(format!(
                    "{file}: belongs to another trace than {} (sha256 {said}, expected {digest}): rename it or \
                     remove it",
                    self.path
                )));
            }
        }
        Ok(())
    }
}

/// Files beside a trace that are read with it.
#[derive(Debug)]
struct Beside {
    /// What the recording kernel itself made of memory.
    reference: Option<PathBuf>,
    /// The frames that it chose.
    frames: Option<PathBuf>,
    /// What the machine said of itself when the recording began: free blocks, and zones.
    state: Option<PathBuf>,
    zones: Option<PathBuf>,
    /// How much memory it had.
    memory: Option<PathBuf>,
    /// How its kernel was set then.
    settings: Option<PathBuf>,
    /// What it had counted before and after.
    counters: Option<[PathBuf; 2]>,
    /// What the recorder says of it in words.
    summary: Option<PathBuf>,
}

impl Beside {
    fn of(path: &Path) -> Self {
        let stem = case_name(path);
        let state = |name: &str| {
            let file = path.with_file_name("state").join(&stem).join(name);
            (path.as_os_str() != "-" && file.is_file()).then_some(file)
        };
        Self {
            reference: beside(path, &stem, "linux_ref.csv"),
            frames: beside(path, &stem, "pfn.zst"),
            state: state("before.pagetypeinfo"),
            zones: state("before.zoneinfo"),
            memory: state("before.meminfo"),
            settings: state("before.settings"),
            counters: state("before.vmstat")
                .zip(state("after.vmstat"))
                .map(|(before, after)| [before, after]),
            summary: beside(path, &stem, "summary.txt"),
        }
    }

    fn any(&self) -> bool {
        self.reference.is_some()
            || self.frames.is_some()
            || self.state.is_some()
            || self.zones.is_some()
            || self.memory.is_some()
            || self.settings.is_some()
            || self.counters.is_some()
            || self.summary.is_some()
    }
}

/// The min watermark over all zones, in frames.
fn min_watermark(zones: &[ZoneInfo]) -> u64 {
    let min = |sum: u64, zone: &ZoneInfo| sum.saturating_add(zone.watermarks[0]);
    zones.iter().fold(0, min)
}

/// Every file that [`load`] reads.
pub(super) fn files_of(path: &Path) -> Vec<PathBuf> {
    let Beside {
        reference,
        frames,
        state,
        zones,
        memory,
        settings,
        counters,
        summary,
    } = Beside::of(path);
    let mut files = vec![path.to_owned()];
    files.extend(state);
    files.extend(zones);
    files.extend(memory);
    files.extend(settings);
    files.extend(counters.into_iter().flatten());
    files.extend(summary);
    files.extend(reference);
    files.extend(frames);
    files
}

/// Those beside the trace that a replay's figures depend on: what the recorder says in words, how the kernel was set, and how
/// much memory it had, only answers ask for.
pub(super) fn replayed_files_of(path: &Path) -> Vec<PathBuf> {
    let beside = Beside::of(path);
    let told = [beside.summary, beside.settings, beside.memory];
    let mut files = files_of(path);
    files.retain(|file| file != path && !told.iter().flatten().any(|one| one == file));
    files
}

/// The names of cases, one a trace and each once: where two files have the same name, their folders' names stand
/// before it, and where that is not enough, a number behind it.
///
/// # Errors
/// If a file is given twice: its cases would say the same under two names.
pub(super) fn case_names(paths: &[PathBuf]) -> Result<Vec<String>, CommandError> {
    let mut names: Vec<String> = Vec::new();
    for (nth, path) in paths.iter().enumerate() {
        let same = |other: &PathBuf| {
            other == path
                || fs::canonicalize(path)
                    .is_ok_and(|a| fs::canonicalize(other).is_ok_and(|b| a == b))
        };
        if paths[..nth].iter().any(same) {
            let path = printable::path(path);
            return Err(CommandError::Input(format!(
                "{path}: is given twice, expected each trace once"
            )));
        }
        names.push(printable::text(&case_name(path)));
    }
    let is_twice =
        |names: &[String], nth: usize| names.iter().filter(|n| **n == names[nth]).count() > 1;
    let short = names.clone();
    for (nth, path) in paths.iter().enumerate() {
        let folder = path.parent().and_then(Path::file_name);
        if let (true, Some(folder)) = (is_twice(&short, nth), folder) {
            names[nth] = format!(
                "{}/{}",
                printable::text(&folder.to_string_lossy()),
                short[nth]
            );
        }
    }
    let mut number = 1;
    for nth in 0..names.len() {
        while names[..nth].contains(&names[nth]) {
            number += 1;
            names[nth] = format!("{}#{number}", short[nth]);
        }
    }
    Ok(names)
}

/// The digest in the first line of `text`, which is line `number` of that file.
fn digest_of(name: &str, number: u64, text: &str) -> Result<Option<TraceDigest>, CommandError> {
    let at = |cause| CommandError::Input(format!("{name}:{number}: {cause}"));
    TraceDigest::of_text(text).map_err(at)
}

/// What `--state` names.
struct GivenState {
    name: String,
    digest: Option<TraceDigest>,
    listed: ListedFree,
    info: PageTypeInfo,
    lead: Option<f64>,
}

/// What requests waited for between two `/proc/vmstat`; `None` unless both say that they belong to this trace: of
/// one that was cut they count too much. Nor where the first is from before the trace begins, unless nothing waited.
fn read_stalls(
    both: &[PathBuf; 2],
    digest: TraceDigest,
) -> Result<Option<MachineStalls>, CommandError> {
    let mut texts = Vec::new();
    for path in both {
        let (name, text) = text_of(path).map_err(CommandError::input)?;
        let said = digest_of(&name, 1, &text)?;
        if said != Some(digest) {
            return Ok(None);
        }
        texts.push((name, text));
    }
    let has_lead = texts.iter().any(|(_, text)| lead_of(text).is_some());
    let texts = texts.iter().map(|(name, text)| (&**name, &**text));
    let stalls = stalls_between(texts)?;
    Ok((!has_lead || stalls == MachineStalls::default()).then_some(stalls))
}

/// What requests waited for between two texts of `/proc/vmstat`, each behind its name.
fn stalls_between<'t>(
    both: impl Iterator<Item = (&'t str, &'t str)>,
) -> Result<MachineStalls, CommandError> {
    let mut counted = [MachineStalls::default(); 2];
    for ((name, text), counted) in both.zip(&mut counted) {
        let counters = read_vmstat(name, text).map_err(CommandError::input)?;
        for (counter, &value) in &counters {
            if counter.starts_with("allocstall") {
                counted.reclaimed = counted.reclaimed.saturating_add(value);
            } else if counter == "compact_stall" {
                counted.compacted = value;
            }
        }
    }
    let [before, after] = counted;
    Ok(MachineStalls {
        reclaimed: after.reclaimed.saturating_sub(before.reclaimed),
        compacted: after.compacted.saturating_sub(before.compacted),
    })
}

/// What the kernel did not do between two texts of `/proc/vmstat`, by its own counters: events of it would show nothing.
fn idle_between(both: [(&str, &str); 2]) -> Result<TracedWork, CommandError> {
    let read = |(name, text)| read_vmstat(name, text).map_err(CommandError::input);
    let [before, after] = [read(both[0])?, read(both[1])?];
    let is_still = |wanted: &str| {
        let of = |counter: &&String| counter.starts_with(wanted);
        let mut counters = before.keys().filter(of).peekable();
        counters.peek().is_some()
            && counters.all(|counter| before.get(counter) == after.get(counter))
    };
    Ok(TracedWork {
        background: is_still("pageoutrun"),
        reclaim: is_still("allocstall"),
        compaction: is_still("compact_stall") && is_still("compact_migrate_scanned"),
    })
}

/// Free frames by label in a `/proc/pagetypeinfo`, over all zones.
fn read_state(path: &Path) -> Result<GivenState, CommandError> {
    let (name, text) = text_of(path).map_err(CommandError::input)?;
    state_of(name, &text)
}

fn state_of(name: String, text: &str) -> Result<GivenState, CommandError> {
    let info = read_pagetypeinfo(&name, text).map_err(CommandError::input)?;
    let digest = digest_of(&name, 1, text)?;
    let listed = Mobility::ALL.map(|label| info.free_frames(label));
    Ok(GivenState {
        name,
        digest,
        listed,
        info,
        lead: lead_of(text),
    })
}

/// `fileA` for `../traces/fileA.pft.zst`, `t.ftrace.gz` for `t.ftrace.gz`, `stdin` for `-`.
fn case_name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "stdin".into();
    }
    let file = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    trace_stem(&file).to_owned()
}

fn beside(path: &Path, name: &str, extension: &str) -> Option<PathBuf> {
    if path.as_os_str() == "-" {
        return None;
    }
    let beside = path.with_file_name(format!("{name}.{extension}"));
    beside.is_file().then_some(beside)
}

/// Reads text to its end and reduces it to objects.
fn read_text(
    reader: TextReader,
    loaded: &mut LoadedTrace,
    limit: MemoryLimit,
) -> Result<(), CommandError> {
    read_events(reader, loaded, limit, None, |_| Ok(None))
}

/// Reads a stream to its end: what it says of the machine takes the place of files beside it.
fn read_stream(
    mut stream: StreamReader,
    loaded: &mut LoadedTrace,
    limit: MemoryLimit,
) -> Result<(), CommandError> {
    let before = stream.take_parts().map_err(CommandError::input)?;
    let path = loaded.path.clone();
    let text = |parts: &StreamParts, name: &str| match parts.text(name) {
        Ok(text) => Ok(text.map(|text| (format!("{path}: {name}"), text.to_owned()))),
        Err(fault) => Err(CommandError::Input(format!("{path}: {fault}"))),
    };
    // Without page flags it is text that knows how much was free.
    loaded.is_text = before.first.is_none();
    if let (Some((name, text)), None) = (text(&before, "before.pagetypeinfo")?, loaded.listed) {
        let state = state_of(name, &text)?;
        loaded.listed = loaded.is_text.then_some(state.listed);
        loaded.block_order = Some(state.info.pageblock_order);
        loaded.contiguous = state.info.contiguous_frames();
        loaded.listed_free = Some(state.listed.iter().copied().fold(0, u64::saturating_add));
        loaded.types = Some(state.info);
    }
    if let Some((name, text)) = text(&before, "before.zoneinfo")? {
        let zones = read_zoneinfo(&name, &text).map_err(CommandError::input)?;
        loaded.min_watermark = Some(min_watermark(&zones));
        loaded.zones = Some(zones);
    }
    if let (Some((name, text)), Some(zones)) = (text(&before, "before.meminfo")?, &loaded.zones) {
        let total = read_mem_total(&name, &text).map_err(CommandError::input)?;
        loaded.page_kib = page_kib(total, zones);
    }
    if let Some((name, text)) = text(&before, "before.settings")? {
        loaded.settings = Some(read_settings(&name, &text).map_err(CommandError::input)?);
    }
    let kernel = text(&before, "kernel")?;
    loaded.kernel = kernel.map(|(_, release)| printable::text(release.trim_end()));
    let counters = text(&before, "before.vmstat")?;
    let tasks: Vec<(u32, Vec<u8>)> = before
        .tasks()
        .map(|(task, name)| (task, name.to_vec()))
        .collect();
    let (mut reader, rest) = stream.into_events().map_err(CommandError::input)?;
    for (task, name) in tasks {
        reader.name_listed_task(task, &name);
    }
    let mut idle = TracedWork::default();
    read_events(reader, loaded, limit, before.first, |loaded| {
        let after = rest.finish().map_err(CommandError::input)?;
        if !after.is_whole() {
            loaded.anomalies.push(("cut_stream".into(), 1));
        }
        if let (Some(before), Some(after)) = (counters, text(&after, "after.vmstat")?) {
            let both = [&before, &after].map(|(name, text)| (&**name, &**text));
            loaded.stalls = Some(stalls_between(both.into_iter())?);
            idle = idle_between(both)?;
        }
        Ok(after.last)
    })?;
    let traced = &mut loaded.trace.work.traced;
    *traced = traced.or(idle);
    Ok(())
}

/// Reads events to their end and reduces them to objects, with what memory was like before the first and, as `finish`
/// says, behind the last one.
fn read_events(
    reader: TextReader,
    loaded: &mut LoadedTrace,
    limit: MemoryLimit,
    first: Option<Snapshot>,
    finish: impl FnOnce(&mut LoadedTrace) -> Result<Option<Snapshot>, CommandError>,
) -> Result<(), CommandError> {
    let mut reducer = Reducer::new(first).with_memory_limit(limit);
    let before_number = reader.before_number();
    let mut reader = reader.read_ahead(CommandError::input, |read| {
        let at = |e| CommandError::Input(format!("{before_number}{}: {e}", read.line));
        reducer.push_asked(&read.event, read.asked).map_err(at)
    })?;
    let last = finish(loaded)?;
    let reducer = reducer.named(reader.take_asked(), reader.names());
    let at_end = |e| CommandError::Input(format!("{}: {e}", reader.name()));
    let reduction = reducer.finish(last.as_ref()).map_err(at_end)?;
    let mut kinds = reader.counts().anomalies();
    // Lost events come through both; the reader's count stands.
    for (kind, count) in reduction.anomalies.kinds() {
        if count > 0 && !kinds.iter().any(|&(known, _)| known == kind) {
            kinds.push((kind, count));
        }
    }
    loaded.block_order = loaded.block_order.or(reader.counts().pageblock_order);
    if reader.names().left_out() > 0 {
        kinds.push(("names_left_out", reader.names().left_out()));
    }
    let kinds = kinds.into_iter().map(|(kind, n)| (kind.to_owned(), n));
    loaded.anomalies.extend(kinds);
    if reduction.trace.nframes == 0 {
        return Err(CommandError::Input(format!(
            "{}: no event names a frame, expected events `mm_page_alloc` and `mm_page_free` of the group `kmem`, with \
             their `pfn`",
            reader.name()
        )));
    }
    loaded.trace = reduction.trace;
    match loaded.listed {
        // The reduction's own reference counts frames as free that are made absent here.
        Some(listed) => fit_free_memory(&mut loaded.trace, &reduction.chosen, listed),
        None => loaded.reference = Some(reduction.reference).filter(|rows| !rows.is_empty()),
    }
    loaded.chosen = Some(reduction.chosen);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_named_by_the_file_without_folder_and_a_recording_s_ending() {
        assert_eq!(case_name(Path::new("../traces/fileA.pft.zst")), "fileA");
        assert_eq!(case_name(Path::new("trace")), "trace");
        assert_eq!(case_name(Path::new("run.1")), "run.1");
        assert_eq!(case_name(Path::new("./.hidden.txt")), ".hidden.txt");
        assert_eq!(case_name(Path::new("-")), "stdin");
    }

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            case_names(&paths)
        };
        assert_eq!(
            names(&["a/run.pft", "b/run.pft", "b/x"]).unwrap(),
            ["a/run", "b/run", "x"]
        );
        assert_eq!(
            names(&["run.pft", "run.pft.zst", "run"]).unwrap(),
            ["run", "run#2", "run#3"]
        );
        assert_eq!(names(&["a/c/run", "b/c/run"]).unwrap(), ["c/run", "run#2"]);
        assert_eq!(names(&["run.1", "run.2"]).unwrap(), ["run.1", "run.2"]);
        for twice in [["-", "-"], ["src/lib.rs", "src/../src/lib.rs"]] {
            let CommandError::Input(said) = names(&twice).unwrap_err() else {
                panic!("not bad input")
            };
            assert!(
                said.contains("is given twice, expected each trace once"),
                "{said}"
            );
        }
    }
}
