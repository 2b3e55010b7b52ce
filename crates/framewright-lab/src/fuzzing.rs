//! What a fuzzer gives to each reader, with a bound on what that may cost.
//!
//! One [`FuzzedFormat`] a format. Its body is a plain function: `fuzz/fuzz_targets` gives it whatever
//! libFuzzer thinks of, and `tests/fuzzing.rs` the seeds of `fuzz/seeds` with random changes, where
//! there is no fuzzer. The bound is that of `trace`'s invariant P4, so a body ends in a panic where a
//! reader has one (P6), or holds more than in proportion to its input. Time is libFuzzer's to bound
//! (`-timeout`), and unit tests count steps (P5).

use crate::replay::{ReplayOptions, ReplayPolicy, Start, TraceMemory, read_reference, replay};
use crate::report::{Assertion, OwnersReport};
use crate::trace::reduce::{Reducer, Reduction};
use crate::trace::state::{
    boot_words, read_buddyinfo, read_mem_total, read_page_owner, read_pagetypeinfo, read_settings,
    read_vmstat, read_zoneinfo,
};
use crate::trace::{
    Input, MemoryLimit, Recording, Snapshot, StreamReader, TextReader, Trace, TraceOp, read_frames,
    read_pft, write_frames, write_pft5,
};
use framewright::{Mobility, Order};
use framewright_sim::Random;
use std::io::Cursor;
use std::sync::atomic::AtomicU64;

/// A format, and what reading it may cost.
#[derive(Debug, Clone, Copy)]
pub struct FuzzedFormat {
    /// Its name: that of the target, and of the seeds' folder.
    pub name: &'static str,
    /// Reads the bytes and looks at what was read.
    pub body: fn(&[u8]),
    /// The most that may be held whatever the input is: usually [`BASE_BYTES`].
    pub base_bytes: u64,
    /// The most that may be held for each byte of input besides.
    pub bytes_per_byte: u64,
}

/// What a reader may hold whatever it reads: the buffers of an input and of its lines, the tables of a
/// text's names, and the frames of a machine that is replayed, which are no more than `NFRAMES_MAX`.
pub const BASE_BYTES: u64 = 4 << 20;

/// Machines that a body replays have at most this many frames.
const NFRAMES_MAX: u64 = 1 << 14;

/// The limit that the bodies set: far above what a fuzzer's input may need, far below what one may
/// claim.
const LIMIT: MemoryLimit = MemoryLimit::bytes(64 << 20);

/// The bytes that PFT's objects and operations become, twice where a trace is read, written and
/// read again.
const COLUMNS_PER_BYTE: u64 = 2 * 128;
/// An event of order 10 in a line of 60 bytes: 1,024 frames of 64 bytes.
const TEXT_PER_BYTE: u64 = 2 * 1024;
/// A line of two words becomes an entry of a map and two strings.
const WORDS_PER_BYTE: u64 = 128;

const fn format(name: &'static str, body: fn(&[u8]), bytes_per_byte: u64) -> FuzzedFormat {
    FuzzedFormat {
        name,
        body,
        base_bytes: BASE_BYTES,
        bytes_per_byte,
    }
}

/// What is packed can be any number of bytes: the limit bounds it.
const PACKED: FuzzedFormat = FuzzedFormat {
    base_bytes: 2 * (64 << 20),
    ..format("recording", recording, TEXT_PER_BYTE)
};

/// Every format that the laboratory reads.
pub const FORMATS: &[FuzzedFormat] = &[
    format("pft", pft, COLUMNS_PER_BYTE),
    format("pfn", pfn, COLUMNS_PER_BYTE),
    format("ftrace", ftrace, TEXT_PER_BYTE),
    format("perf", perf, TEXT_PER_BYTE),
    PACKED,
    format("reference", reference, WORDS_PER_BYTE),
    format("pagetypeinfo", pagetypeinfo, WORDS_PER_BYTE),
    format("buddyinfo", buddyinfo, WORDS_PER_BYTE),
    format("zoneinfo", zoneinfo, WORDS_PER_BYTE),
    format("vmstat", vmstat, WORDS_PER_BYTE),
    format("settings", settings, WORDS_PER_BYTE),
    format("page_owner", page_owner, WORDS_PER_BYTE),
    format("kpageflags", kpageflags, TEXT_PER_BYTE),
    format("assertion", assertion, WORDS_PER_BYTE),
    #[cfg(all(target_os = "linux", feature = "experiments"))]
    format("phone", phone, 1024),
];

/// The format of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static FuzzedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

/// How much the heap holds: an allocator that counts, which only a program can choose.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// Forgets what was held at most, but for what is held now, and says how much that is.
    pub reset: fn() -> u64,
    /// What has been held at most since then.
    pub peak: fn() -> u64,
}

/// Makes the program's heap one that counts, and `METER` its meter: only a program can choose its allocator.
#[macro_export]
macro_rules! metered_heap {
    ($heap:ident) => {
        #[global_allocator]
        static HEAP: $heap = $heap;

        const METER: $crate::fuzzing::Meter = $crate::fuzzing::Meter {
            reset: || {
                HEAP.reset_peak_usage();
                HEAP.current_usage() as u64
            },
            peak: || HEAP.peak_usage() as u64,
        };
    };
}

/// Runs the body on the bytes.
///
/// # Panics
/// If the body does, or if it held more than its bound.
pub fn check(format: &FuzzedFormat, bytes: &[u8], meter: &Meter) {
    let before = (meter.reset)();
    (format.body)(bytes);
    let held = (meter.peak)().saturating_sub(before);
    let len_bytes = bytes.len() as u64;
    let may_hold = format.base_bytes + format.bytes_per_byte * len_bytes;
    let name = format.name;
    assert!(
        held <= may_hold,
        "P4: {name} held {held} bytes for {len_bytes} bytes of input, expected at most {may_hold}"
    );
}

fn input(bytes: &[u8]) -> Option<Input> {
    let input = Input::from_reader("input", Cursor::new(bytes.to_vec()));
    input.ok().map(|input| input.with_memory_limit(LIMIT))
}

fn pft(bytes: &[u8]) {
    if let Some(Ok(trace)) = input(bytes).map(read_pft) {
        look(&trace);
    }
}

/// What is right of every trace; and a small one is replayed, which may fail but not panic.
fn look(trace: &Trace) {
    let mut written = Vec::new();
    if write_pft5(trace, &mut written).is_ok() {
        let again = input(&written).map(read_pft);
        assert_eq!(again.and_then(Result::ok).as_ref(), Some(trace), "P3");
    }
    let is_small = trace.nframes <= NFRAMES_MAX && trace.ops.len() <= 4096;
    if !is_small || TraceMemory::check_size(trace, false, 0, LIMIT).is_err() {
        return;
    }
    let Ok(memory) = TraceMemory::new(trace) else {
        return;
    };
    for policy in [ReplayPolicy::OURS, ReplayPolicy::ASSUMED_KERNEL] {
        let options = ReplayOptions {
            who: true,
            ..ReplayOptions::new(Start::Imposed)
        };
        let done = AtomicU64::new(0);
        let _ = policy.with(&memory, |subject| {
            replay(subject, &memory, options, &done).map(drop)
        });
    }
}

/// The chosen frames of a trace of five allocations.
fn pfn(bytes: &[u8]) {
    let alloc = |order| {
        let order = Order::new(order).unwrap_or(Order::ZERO);
        TraceOp::alloc(false, order, Mobility::Movable, 0, 255, 0)
    };
    let trace = Trace {
        nframes: 4096,
        ops: [0, 3, 9, 10, 0].map(alloc).to_vec(),
        ..Trace::default()
    };
    let Some(Ok(frames)) = input(bytes).map(|input| read_frames(input, &trace)) else {
        return;
    };
    assert_eq!(frames.len(), 5);
    let mut written = Vec::new();
    assert!(write_frames(&frames, &mut written).is_ok());
    if let Ok(memory) = TraceMemory::new(&trace) {
        let _ = crate::replay::placement(&memory, &frames, 2);
    }
}

/// Behind a line that says which dialect it is.
fn ftrace(bytes: &[u8]) {
    text(&[b"# tracer: nop\n", bytes].concat());
}

fn perf(bytes: &[u8]) {
    text(
        &[
            b"x 1/1 [000] 1.5: kmem:mm_page_free: pfn=1 order=0\n",
            bytes,
        ]
        .concat(),
    );
}

fn text(bytes: &[u8]) {
    if let Some(input) = input(bytes) {
        events(TextReader::new(input), None);
    }
}

fn stream(mut reader: StreamReader) {
    let Ok(before) = reader.take_parts() else {
        return;
    };
    let _ = (before.tasks().count(), before.is_whole());
    let Ok((text, rest)) = reader.into_events() else {
        return;
    };
    events(text, before.first);
    let _ = rest.finish();
}

/// Reads events to the end, refused lines passed over, and reduces them.
fn events(mut reader: TextReader, first: Option<Snapshot>) {
    let mut reducer = Reducer::new(first).with_memory_limit(LIMIT);
    loop {
        let line = reader.line_number();
        match reader.next_event() {
            Ok(Some(event)) => {
                let asked = reader.take_asked();
                if reducer.push_asked(&event, asked).is_err() {
                    return;
                }
            }
            Ok(None) => break,
            // Nothing comes after an input that cannot be read.
            Err(_) if reader.line_number() == line => return,
            Err(_) => {}
        }
    }
    let counts = reader.counts();
    let lines = counts.blank
        + counts.comments
        + counts.continuations
        + counts.lost_lines
        + counts.cut_last_line
        + counts.refused_lines
        + counts.events();
    assert_eq!(lines, counts.lines, "T1: {counts:?}");
    let reducer = reducer.named(reader.take_asked(), reader.names());
    if let Ok(reduction) = reducer.finish(None) {
        reduced(&reduction);
    }
}

fn reduced(reduction: &Reduction) {
    let trace = &reduction.trace;
    look(trace);
    let mut written = Vec::new();
    if write_frames(&reduction.chosen, &mut written).is_ok() {
        let again = input(&written).map(|input| read_frames(input, trace));
        let again = again.and_then(Result::ok);
        // What is packed shows in the first bytes, and frames can look so.
        assert!(again.is_none_or(|frames| frames == reduction.chosen), "P3");
    }
}

/// Anything, packed or not: what it is shows in its first bytes.
fn recording(bytes: &[u8]) {
    let Some(input) = input(bytes) else { return };
    match Recording::from_input(input) {
        Ok(Recording::Columns(trace)) => look(&trace),
        Ok(Recording::Text(reader)) => events(*reader, None),
        Ok(Recording::Stream(reader)) => stream(*reader),
        Err(_) => {}
    }
}

fn as_text(bytes: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
    }
}

fn reference(bytes: &[u8]) {
    as_text(bytes, |text| drop(read_reference(text, 1 << 20)));
}

fn pagetypeinfo(bytes: &[u8]) {
    as_text(bytes, |text| {
        if let Ok(info) = read_pagetypeinfo("input", text) {
            for mobility in Mobility::ALL {
                let _ = (info.pageblocks(mobility), info.free_blocks(mobility, 3));
            }
        }
    });
}

fn buddyinfo(bytes: &[u8]) {
    as_text(bytes, |text| {
        if let Ok(zones) = read_buddyinfo("input", text) {
            for zone in zones {
                let _ = zone.free_frames();
            }
        }
    });
}

fn zoneinfo(bytes: &[u8]) {
    as_text(bytes, |text| drop(read_zoneinfo("input", text)));
}

/// And `meminfo`, which has a name and a number a line, too.
fn vmstat(bytes: &[u8]) {
    as_text(bytes, |text| {
        let _ = (read_vmstat("input", text), read_mem_total("input", text));
    });
}

/// As a recording has them, and as a command line that words are kept of.
fn settings(bytes: &[u8]) {
    as_text(bytes, |text| {
        let _ = (read_settings("input", text), boot_words(text).count());
    });
}

fn page_owner(bytes: &[u8]) {
    let owners = input(bytes).map(read_page_owner);
    if let Some(Ok(owners)) = owners {
        let report = OwnersReport::new(&owners);
        let _ = (report.most(), report.tabled("input"), report.rows().count());
    }
}

/// The first half is what memory looks like before an event, the second half after it.
fn kpageflags(bytes: &[u8]) {
    let (first, last) = bytes.split_at(bytes.len() / 16 * 8);
    let (Ok(first), Ok(last)) = (Snapshot::read(first), Snapshot::read(last)) else {
        return;
    };
    let mut reducer = Reducer::new(Some(first)).with_memory_limit(LIMIT);
    let text = b"# tracer: nop\n b-1 [0] 1.0: mm_page_free: pfn=3 order=0\n b-1 [0] 3.0: mm_page_free: pfn=8 order=3\n";
    let mut reader = match input(text) {
        Some(input) => TextReader::new(input),
        None => return,
    };
    while let Ok(Some(event)) = reader.next_event() {
        if reducer.push(&event).is_err() {
            return;
        }
    }
    if let Ok(reduction) = reducer.finish(Some(&last)) {
        reduced(&reduction);
    }
}

fn assertion(bytes: &[u8]) {
    as_text(bytes, |text| drop(text.parse::<Assertion>()));
}

#[cfg(all(target_os = "linux", feature = "experiments"))]
fn phone(bytes: &[u8]) {
    use crate::experiment::fallback::Params;
    as_text(bytes, |text| {
        if let Ok(params) = Params::read("input", text) {
            let machine = params.machine;
            assert!(machine.frames() >= machine.present());
            let _ = (machine.absent(), machine.cma_run());
        }
    });
}

/// Changes bytes as a fuzzer would that knows nothing of them: the same seed, the same changes.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], seed: u64) {
    let mut random = Random::new(seed);
    let mut below = |n: usize| random.below(n.max(1) as u64) as usize;
    for _ in 0..1 + below(4) {
        let at = below(bytes.len());
        let end = (at + below(24)).min(bytes.len());
        match below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            3 => {
                let from = below(other.len());
                let to = (from + below(64)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            4 => {
                let extreme: &[u8] = [
                    &b"18446744073709551615"[..],
                    b"9223372036854775808",
                    b"-1",
                    b"0",
                    b"4294967295",
                    &[0xff; 8],
                    &[0; 8],
                    "\u{202e}".as_bytes(),
                ][below(8)];
                let end = (at + extreme.len()).min(bytes.len());
                drop(bytes.splice(at..end, extreme.iter().copied()));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << below(8);
                }
            }
        }
    }
}
