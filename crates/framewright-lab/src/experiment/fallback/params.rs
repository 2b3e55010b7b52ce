//! What the phone is: one file of figures with their units and reasons, and the faults it can have.

use crate::printable;
use framewright::{Frame, Run};
use serde::Deserialize;
use std::fmt;

/// The parameters that the program carries.
pub const PHONE: &str = include_str!("phone.toml");

/// What messages call them.
const PHONE_NAME: &str = "phone.toml";

/// The largest order of a block that the phone asks for.
const ORDER_MAX: u8 = 10;

/// Least and largest of a range that is drawn from, both included.
type NumberSpan = [u64; 2];

/// The parameters of the synthetic phone; `phone.toml` explains each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Memory and CPUs.
    pub machine: PhoneMachine,
    /// How the hours pass.
    pub time: Time,
    /// How little memory must be free before the killer ends processes of each rank.
    pub killer: KillerParams,
    /// The system's processes, which always run.
    pub system: System,
    /// The applications, which the user starts and the killer ends.
    pub applications: Applications,
    /// The readers of files.
    pub reading: Vec<Reading>,
    /// The sources of requests for kernel memory.
    pub kernel: Vec<KernelMemory>,
    /// The sources of requests for graphics and ion buffers.
    pub buffers: Vec<BufferParams>,
}

/// Memory and CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneMachine {
    /// Log2 of a pageblock's length in frames.
    pub pageblock_order: u8,
    /// Pageblocks that are listed.
    pub pageblocks: u64,
    /// What of them is memory, in KiB.
    pub mem_total_kib: u64,
    /// The rest: first frame and frames of each run.
    pub reserved: Vec<[u64; 2]>,
    /// First pageblock of the contiguous area, and how many it has.
    pub cma: [u64; 2],
    /// Whether movable requests of the document's kernel take from it first.
    pub cma_first: bool,
    /// CPUs.
    pub cpus: u16,
    /// The min watermark, in KiB.
    pub min_free_kib: u64,
    /// What the low and the high watermark are above it besides, in KiB.
    pub extra_free_kib: u64,
    /// By how many bits the demand of a watermark shrinks from one order to the next.
    pub min_free_order_shift: u8,
}

/// How the hours pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Of 1000 parts of the time, those in which the device is awake.
    pub awake_permille: u64,
    /// How long it is used, in seconds.
    pub use_s: NumberSpan,
    /// How long it is not used in between, in seconds.
    pub pause_s: NumberSpan,
    /// Frames that the background looks at in a millisecond.
    pub background_frames_per_ms: u64,
    /// What a process does before another has its turn, in microseconds.
    pub slice_us: u64,
}

/// How little memory must be free before the killer ends processes of each rank.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillerParams {
    /// Ranks.
    pub adj: Vec<u16>,
    /// Free frames and frames of files below which processes of that rank die.
    pub minfree_frames: Vec<u64>,
}

/// The system's processes, which always run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Anonymous frames.
    pub anon_frames: u64,
    /// Threads.
    pub threads: u64,
    /// Frames of kernel objects that stay.
    pub slab_frames: u64,
    /// Frames of graphics buffers that stay.
    pub graphics_frames: u64,
    /// Frames of its files.
    pub file_frames: u64,
}

/// The applications, which the user starts and the killer ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applications {
    /// How many are installed and used.
    pub count: u64,
    /// How many of them keep a service, which is killed later than a cached application.
    pub services: u64,
    /// Seconds until the user goes to another one.
    pub switch_s: NumberSpan,
    /// How unequal they are: the n-th is chosen with weight 1000 / (n + this).
    pub popularity_shift: u64,
    /// Anonymous frames after the start.
    pub anon_frames: NumberSpan,
    /// What it grows to in use, in percent of that.
    pub anon_grown_percent: u64,
    /// Anonymous frames that an application in use asks for in a second.
    pub anon_frames_per_s: NumberSpan,
    /// Anonymous frames that all others together free and ask for again in a second.
    pub others_frames_per_s: u64,
    /// Anonymous frames that a start asks for in a slice.
    pub start_frames_per_slice: u64,
    /// Threads of one.
    pub threads: NumberSpan,
    /// Frames of kernel objects that live with it: page tables, tasks, sockets, binder.
    pub slab_frames: NumberSpan,
    /// Of 100 such frames, those of order 0, 1, 2 and 3.
    pub slab_order_percent: [u64; 4],
    /// Of 100 blocks of order 1 to 3 among them, those that a request waits for.
    pub slab_waits_percent: u64,
    /// Frames of its files.
    pub file_frames: NumberSpan,
    /// Of these, what a start reads.
    pub start_read_percent: u64,
    /// Frames of its surfaces while it is on the screen.
    pub surface_frames: u64,
    /// Frames of its textures.
    pub texture_frames: NumberSpan,
    /// Of these, what it gives back when it goes to the background.
    pub texture_trimmed_percent: u64,
    /// Of a million movable frames, those that are pinned.
    pub pinned_per_million: u64,
}

/// Whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// Those of the application on the screen.
    Foreground,
    /// Those of the system.
    System,
    /// Those of any application.
    Any,
    /// What is read once, from front to end, and not for a long time again.
    Stream,
}

/// When something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// While the device is used.
    Use,
    /// While it is awake.
    Awake,
}

/// One reader of files: which files it reads, when, and how much at a time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// What it stands for.
    pub name: String,
    /// Whose files.
    pub whose: Whose,
    /// When.
    pub when: When,
    /// Time from one to the next, in microseconds.
    pub every_us: NumberSpan,
    /// Pages read at a time, one behind the other.
    pub run_pages: NumberSpan,
    /// Of 100 times, those in which it is in the hot part.
    pub hot_percent: u64,
    /// Of 100 pages, those of the hot part; of a stream 0.
    pub hot_pages_percent: u64,
    /// Pages of a stream's files; of others 0.
    pub stream_pages: u64,
}

/// What kernel memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// Stacks of threads.
    Stack,
    /// Objects that stay until their users free them.
    Slab,
    /// Objects that a shrinker can free.
    Cached,
}

/// One source of requests for kernel memory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelMemory {
    /// What it stands for.
    pub name: String,
    /// What it is.
    pub kind: KernelKind,
    /// When.
    pub when: When,
    /// Time from one burst to the next, in microseconds.
    pub every_us: NumberSpan,
    /// Blocks of a burst.
    pub blocks: NumberSpan,
    /// Of 100 blocks, those of order 0, 1, 2 and 3.
    pub order_percent: [u64; 4],
    /// Of 100 blocks of order 1 to 3, those that a request waits for; else it is content with a frame.
    pub waits_percent: u64,
    /// How long it lives, in milliseconds; each doubling from the least to the largest is as likely.
    pub life_ms: NumberSpan,
    /// Whether it may not wait: from an interrupt.
    pub atomic: bool,
}

/// One source of requests for buffers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferParams {
    /// What it stands for.
    pub name: String,
    /// When.
    pub when: When,
    /// Time from one storm to the next, in microseconds.
    pub every_us: NumberSpan,
    /// Buffers of a storm.
    pub buffers: NumberSpan,
    /// Frames of a buffer.
    pub frames: NumberSpan,
    /// The orders tried, from large to small; the last is 0.
    pub orders: Vec<u8>,
    /// How long it lives, in milliseconds; each doubling from the least to the largest is as likely.
    pub life_ms: NumberSpan,
}

/// What is wrong with a parameter file: `FILE:LINE: what, expected`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamsError(String);

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParamsError {}

impl PhoneMachine {
    /// The frames that pageblocks are made of, memory or not.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.pageblocks << self.pageblock_order
    }

    /// Those that are memory.
    #[must_use]
    pub const fn present(&self) -> u64 {
        self.mem_total_kib / (Frame::BYTES / 1024)
    }

    /// Those that are not, in order.
    #[must_use]
    pub fn absent(&self) -> Vec<Run> {
        let runs = self.reserved.iter();
        runs.filter_map(|&[start, frames]| Run::new(Frame(start), frames))
            .collect()
    }

    /// The contiguous area.
    #[must_use]
    pub fn cma_run(&self) -> Option<Run> {
        let [first, pageblocks] = self.cma;
        let frames = |pageblocks: u64| pageblocks << self.pageblock_order;
        Run::new(Frame(frames(first)), frames(pageblocks))
    }
}

impl Default for Params {
    /// Those that the program carries.
    ///
    /// # Panics
    /// Never: a test reads them.
    fn default() -> Self {
        match Self::read(PHONE_NAME, PHONE) {
            Ok(params) => params,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Params {
    /// Reads a parameter file's text; `name` is what messages call it.
    ///
    /// # Errors
    /// The first fault with its line: what is no TOML, an unknown or missing key, a value of the wrong
    /// type, a negative size, a range that begins behind its end, a zero where something must be.
    pub fn read(name: &str, text: &str) -> Result<Self, ParamsError> {
        let params: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(1, |span| line_of(text, span.start));
            let what = printable::text(&error.message().replace('\n', ", "));
            ParamsError(format!("{name}:{at}: {what}"))
        })?;
        let faults = Faults::default();
        params.check(&faults);
        match faults.first.into_inner() {
            None => Ok(params),
            Some(fault) => {
                let at = fault.line(text);
                let ParamFault { key, what, .. } = fault;
                Err(ParamsError(format!("{name}:{at}: {key}: {what}")))
            }
        }
    }

    /// Demands that a test's own parameters make sense.
    #[cfg(test)]
    pub(super) fn check_for_test(&self) {
        let faults = Faults::default();
        self.check(&faults);
        assert!(!faults.within("", 0).has_fault(), "{:?}", faults.first);
    }

    fn check(&self, faults: &Faults) {
        self.check_machine(faults);
        let time = faults.within("time", 0);
        let t = &self.time;
        time.between("awake_permille", t.awake_permille, 1, 1000);
        time.span("use_s", t.use_s, 1, HOUR_S * 100);
        time.span("pause_s", t.pause_s, 1, HOUR_S * 100);
        time.between(
            "background_frames_per_ms",
            t.background_frames_per_ms,
            1,
            1_000_000,
        );
        time.between("slice_us", t.slice_us, 10, 1_000_000);
        let killer = faults.within("killer", 0);
        let [ranks, limits] = [self.killer.adj.len(), self.killer.minfree_frames.len()];
        if ranks == 0 || ranks != limits {
            killer.say(
                "minfree_frames",
                format!("{limits} limits for {ranks} ranks, expected one for each"),
            );
        }
        if !self.killer.adj.is_sorted() || !self.killer.minfree_frames.is_sorted() {
            killer.say(
                "adj",
                "ranks or limits fall, expected them to rise".to_owned(),
            );
        }
        self.check_processes(faults);
        self.check_sources(faults);
    }

    fn check_machine(&self, faults: &Faults) {
        let (m, machine) = (&self.machine, faults.within("machine", 0));
        machine.between("pageblock_order", u64::from(m.pageblock_order), 8, 10);
        machine.between("pageblocks", m.pageblocks, 1, 1 << 14);
        machine.between("mem_total_kib", m.mem_total_kib, 1, 1 << 28);
        machine.between("cpus", u64::from(m.cpus), 1, 64);
        machine.between("min_free_kib", m.min_free_kib, 1, m.mem_total_kib / 4);
        machine.between("extra_free_kib", m.extra_free_kib, 0, m.mem_total_kib / 4);
        let shift = u64::from(m.min_free_order_shift);
        machine.between("min_free_order_shift", shift, 1, 8);
        if machine.has_fault() {
            return;
        }
        let mut end = 0;
        for &[start, frames] in &m.reserved {
            let after = start.checked_add(frames).filter(|&end| end <= m.frames());
            match after {
                Some(after) if start >= end && frames > 0 => end = after,
                _ => {
                    return machine.say(
                        "reserved",
                        format!(
                            "[{start}, {frames}] is empty, overlaps the run before it or ends behind \
                             frame {}, expected runs in order",
                            m.frames()
                        ),
                    );
                }
            }
        }
        let absent: u64 = m.reserved.iter().map(|run| run[1]).sum();
        if m.frames() - absent != m.present() {
            machine.say(
                "reserved",
                format!(
                    "{absent} frames, expected {} so that mem_total_kib is left of {} pageblocks",
                    m.frames().saturating_sub(m.present()),
                    m.pageblocks
                ),
            );
        }
        let [first, pageblocks] = m.cma;
        let last = first.checked_add(pageblocks);
        if last.is_none_or(|last| last > m.pageblocks) {
            machine.say(
                "cma",
                format!(
                    "pageblocks {first} and {pageblocks} more, expected them to lie within {}",
                    m.pageblocks
                ),
            );
        }
    }

    fn check_processes(&self, faults: &Faults) {
        let (s, system) = (&self.system, faults.within("system", 0));
        let all = self.machine.present();
        system.between("anon_frames", s.anon_frames, 1, all);
        system.between("threads", s.threads, 1, all);
        system.between("slab_frames", s.slab_frames, 0, all);
        system.between("graphics_frames", s.graphics_frames, 0, all);
        system.between("file_frames", s.file_frames, 1, FILES_MAX);
        let (a, apps) = (&self.applications, faults.within("applications", 0));
        apps.between("count", a.count, 1, APPS_MAX);
        apps.between("services", a.services, 0, a.count);
        apps.span("switch_s", a.switch_s, 1, HOUR_S * 100);
        apps.between("popularity_shift", a.popularity_shift, 1, 1000);
        apps.span("anon_frames", a.anon_frames, 1, all);
        apps.between("anon_grown_percent", a.anon_grown_percent, 100, 1000);
        apps.span("anon_frames_per_s", a.anon_frames_per_s, 0, 1_000_000);
        apps.between("others_frames_per_s", a.others_frames_per_s, 0, 1_000_000);
        apps.between(
            "start_frames_per_slice",
            a.start_frames_per_slice,
            1,
            100_000,
        );
        apps.span("threads", a.threads, 1, 10_000);
        apps.span("slab_frames", a.slab_frames, 0, all);
        apps.hundred("slab_order_percent", a.slab_order_percent);
        apps.between("slab_waits_percent", a.slab_waits_percent, 0, 100);
        apps.span("file_frames", a.file_frames, 1, FILES_MAX / APPS_MAX);
        apps.between("start_read_percent", a.start_read_percent, 0, 100);
        apps.between("surface_frames", a.surface_frames, 0, all);
        apps.span("texture_frames", a.texture_frames, 0, all);
        apps.between("texture_trimmed_percent", a.texture_trimmed_percent, 0, 100);
        apps.between("pinned_per_million", a.pinned_per_million, 0, 1_000_000);
    }

    fn check_sources(&self, faults: &Faults) {
        for (nth, reading) in self.reading.iter().enumerate() {
            let f = faults.within("reading", nth);
            f.span("every_us", reading.every_us, 1, EVERY_MAX_US);
            f.span("run_pages", reading.run_pages, 1, 1 << 16);
            f.between("hot_percent", reading.hot_percent, 0, 100);
            f.between("hot_pages_percent", reading.hot_pages_percent, 0, 100);
            let least = u64::from(reading.whose == Whose::Stream);
            let most = FILES_MAX * least;
            f.between("stream_pages", reading.stream_pages, least, most);
        }
        for (nth, kernel) in self.kernel.iter().enumerate() {
            let f = faults.within("kernel", nth);
            f.span("every_us", kernel.every_us, 1, EVERY_MAX_US);
            f.span("blocks", kernel.blocks, 1, 1 << 20);
            f.hundred("order_percent", kernel.order_percent);
            f.between("waits_percent", kernel.waits_percent, 0, 100);
            // What a shrinker frees lives until it does.
            let lives = u64::from(kernel.kind != KernelKind::Cached);
            f.span("life_ms", kernel.life_ms, lives, LIFE_MAX_MS * lives);
        }
        for (nth, buffers) in self.buffers.iter().enumerate() {
            let f = faults.within("buffers", nth);
            f.span("every_us", buffers.every_us, 1, EVERY_MAX_US);
            f.span("buffers", buffers.buffers, 1, 1 << 16);
            f.span("frames", buffers.frames, 1, self.machine.present());
            f.span("life_ms", buffers.life_ms, 1, LIFE_MAX_MS);
            let falls = buffers.orders.windows(2).all(|pair| pair[0] > pair[1]);
            let first = buffers.orders.first().is_some_and(|&o| o < ORDER_MAX);
            if !falls || !first || buffers.orders.last() != Some(&0) {
                let orders = &buffers.orders;
                f.say(
                    "orders",
                    format!("{orders:?}, expected orders below {ORDER_MAX} that fall to 0"),
                );
            }
        }
    }
}

/// Pages of files that an index is kept for: 64 GiB, of applications, of the system and of a stream each.
const FILES_MAX: u64 = 1 << 24;
/// Applications.
const APPS_MAX: u64 = 256;
const HOUR_S: u64 = 3600;
const EVERY_MAX_US: u64 = 24 * HOUR_S * 1_000_000;
const LIFE_MAX_MS: u64 = 1000 * HOUR_S * 1000;

/// The line, from 1, of a place in the text.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    before.matches('\n').count() + 1
}

/// What is wrong where.
#[derive(Debug)]
struct ParamFault {
    section: &'static str,
    /// Which of several sections of that name.
    nth: usize,
    key: &'static str,
    what: String,
}

impl ParamFault {
    /// The line of the key in its section.
    fn line(&self, text: &str) -> usize {
        let (one, many) = (
            format!("[{}]", self.section),
            format!("[[{}]]", self.section),
        );
        let mut sections = 0;
        let mut inside = false;
        let mut last = 1;
        for (line, words) in text.lines().map(str::trim).enumerate() {
            if words.starts_with('[') {
                let same = words.starts_with(&one) || words.starts_with(&many);
                inside = same && sections == self.nth;
                sections += usize::from(same);
                if inside {
                    last = line + 1;
                }
            }
            let key = words.split('=').next().unwrap_or_default();
            if inside && key.trim() == self.key {
                return line + 1;
            }
        }
        last
    }
}

/// Keeps the first fault.
#[derive(Debug, Default)]
struct Faults {
    first: std::cell::RefCell<Option<ParamFault>>,
}

impl Faults {
    const fn within(&self, section: &'static str, nth: usize) -> ParamSection<'_> {
        ParamSection {
            faults: self,
            section,
            nth,
        }
    }
}

/// Faults of one section.
struct ParamSection<'f> {
    faults: &'f Faults,
    section: &'static str,
    nth: usize,
}

impl ParamSection<'_> {
    fn has_fault(&self) -> bool {
        self.faults.first.borrow().is_some()
    }

    fn say(&self, key: &'static str, what: String) {
        let mut first = self.faults.first.borrow_mut();
        first.get_or_insert(ParamFault {
            section: self.section,
            nth: self.nth,
            key,
            what,
        });
    }

    fn between(&self, key: &'static str, value: u64, least: u64, most: u64) {
        if !(least..=most).contains(&value) {
            self.say(key, format!("{value}, expected {least} to {most}"));
        }
    }

    fn span(&self, key: &'static str, [low, high]: NumberSpan, least: u64, most: u64) {
        if low > high || low < least || high > most {
            self.say(
                key,
                format!(
                    "[{low}, {high}], expected the least and the largest, from {least} to {most}"
                ),
            );
        }
    }

    fn hundred(&self, key: &'static str, percent: [u64; 4]) {
        let sum = percent
            .iter()
            .try_fold(0_u64, |sum, &part| sum.checked_add(part));
        if sum != Some(100) {
            self.say(key, format!("{percent:?}, expected a sum of 100"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(old: &str, new: &str) -> String {
        assert!(PHONE.contains(old), "{old}");
        let text = PHONE.replacen(old, new, 1);
        let line = line_of(&text, text.find(new).unwrap());
        let error = Params::read("my.toml", &text).unwrap_err().to_string();
        let place = format!("my.toml:{line}: ");
        let what = error.strip_prefix(&place);
        what.unwrap_or_else(|| panic!("{error} is not at {place}"))
            .to_owned()
    }

    #[test]
    fn the_programs_own_parameters_are_read_and_every_key_is_explained() {
        let params = Params::default();
        assert_eq!(params.machine.frames(), 727 * 1024);
        assert_eq!(params.machine.present() * 4, 2_792_568);
        let mut above = "";
        for line in PHONE.lines() {
            let is_key = line.contains('=') && !line.starts_with('#');
            if is_key {
                let said = above.starts_with('#') || line.contains('#');
                assert!(said, "{line}: not explained");
            }
            above = line;
        }
    }

    #[test]
    fn a_fault_in_the_file_is_an_error_with_its_line() {
        assert!(fault("pageblocks = 727", "page_blocks = 727").contains("unknown field"));
        assert!(fault("pageblocks = 727", "pageblocks = \"many\"").contains("invalid type"));
        assert!(fault("pageblocks = 727", "pageblocks = -727").contains("-727"));
        assert_eq!(
            fault("pageblocks = 727", "pageblocks = 0"),
            "pageblocks: 0, expected 1 to 16384"
        );
        assert!(fault("mem_total_kib = 2792568", "mem_total_kib = ").contains("expected"));
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error_with_its_line() {
        let range = "expected the least and the largest";
        assert!(fault("use_s = [", "use_s = [900000, 1] #").contains(range));
        assert!(fault("cpus = 8", "cpus = 0").contains("expected 1 to 64"));
        let text = PHONE.replacen("mem_total_kib = 2792568", "mem_total_kib = 2792572", 1);
        let error = Params::read("my.toml", &text).unwrap_err().to_string();
        assert!(
            error.contains("reserved: 46306 frames, expected 46305"),
            "{error}"
        );
        // The second of several sections of one name.
        let second = PHONE.match_indices("[[kernel]]").nth(1).unwrap().0;
        let key = second + PHONE[second..].find("life_ms").unwrap();
        let text = format!("{}life_ms = [0, 1] #{}", &PHONE[..key], &PHONE[key..]);
        let error = Params::read("my.toml", &text).unwrap_err().to_string();
        let expected = format!("my.toml:{}: life_ms: [0, 1]", line_of(PHONE, key));
        assert!(error.starts_with(&expected), "{error}");
    }
}
