//! The background: work as a build does it, on real files, in memory that is full.
//!
//! ```text
//!   depend    each file is read, and its names are counted
//!   compile   in another order each file is read again with the headers it includes; a compiler goes over it several
//!             times, with a heap in paged memory that grows from file to file; what comes of it is compressed into
//!             paged memory and written to a file; one that was compressed before is read again and compared
//!   link      what was written is read again
//! ```
//!
//! A job takes its files from a source tree (`tree.rs`) and its memory from a compiler's heap (`heap.rs`); it knows of the
//! machine only what files and swap lie on.

mod heap;
mod tree;

#[cfg(test)]
pub(super) use heap::FILES_MAX;
pub(super) use tree::SourceTree;

use super::super::{Failure, Progress};
use super::GcmaOptions;
use super::machine::Storage;
use crate::printable;
use framewright::frame::FrameSource;
use framewright_linux::file_cache::{FileCache, FilePin, OpenFile};
use framewright_linux::paged::{Paged, PagedPin};
use framewright_sim::Random;
use heap::CompilerHeap;
use nix::sys::resource::{UsageWho, getrusage};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};
use tree::SourceFile;

/// Steps of progress in a build.
pub(super) const STEPS: usize = 100;

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// Headers of one file at most.
const INCLUDES_MAX: usize = 16;

/// Bytes of a file at most: of longer ones the beginning is built.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// CPU time of threads, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CpuTime {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

impl CpuTime {
    /// Of this thread so far.
    pub(super) fn mine() -> Self {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        getrusage(UsageWho::RUSAGE_THREAD).map_or(Self::default(), |usage| Self {
            user_s: seconds(usage.user_time()),
            system_s: seconds(usage.system_time()),
        })
    }

    pub(super) fn add(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
    }
}

/// Something compressed: where, in bytes of the ring ever written, and what.
#[derive(Debug, Clone, Copy)]
struct Packed {
    at: u64,
    len: usize,
    sum: u64,
}

/// A build of one tree.
pub(super) struct BuildJob<'a, 's> {
    tree: &'a SourceTree,
    files: &'a FileCache<'s>,
    paged: &'a Paged<'s>,
    storage: &'a Storage,
    /// Where objects are written.
    out: PathBuf,
    seed: u64,
    /// Pins that each worker holds.
    pins: usize,
    /// How often a compiler goes over a file.
    passes: u32,
    /// Pages of each worker's heap. The heaps lie behind the ring.
    heap_pages: u64,
    ring_bytes: u64,
    /// The order in which files are compiled and linked, drawn.
    order: Vec<usize>,
    /// Of each phase the next file.
    next: [AtomicUsize; 3],
    /// Between phases all wait for each other.
    phase: Barrier,
    stop: AtomicBool,
    /// Bytes of the ring that were ever written.
    ring: AtomicU64,
    packed: Mutex<BTreeMap<usize, Packed>>,
    names: AtomicU64,
    /// Files done, each in three phases.
    done: AtomicUsize,
}

/// What a worker has of its own.
struct BuildWorker<'a, 's> {
    counts: HashMap<u64, u32>,
    text: Vec<u8>,
    whole: Vec<u8>,
    draw: Random,
    file_pins: VecDeque<FilePin<'a, 's>>,
    page_pins: VecDeque<PagedPin<'a>>,
    heap: CompilerHeap,
}

impl<'a, 's> BuildJob<'a, 's> {
    pub(super) fn new(
        tree: &'a SourceTree,
        (files, paged): (&'a FileCache<'s>, &'a Paged<'s>),
        storage: &'a Storage,
        out: PathBuf,
        options: &GcmaOptions,
        workers: u16,
        heap_pages: u64,
    ) -> Self {
        let (seed, pins) = (options.seed, options.pins);
        let heaps = heap_pages * u64::from(options.workers);
        let mut order: Vec<usize> = (0..tree.sources.len()).collect();
        Random::new(seed).shuffle(&mut order);
        Self {
            tree,
            files,
            paged,
            storage,
            out,
            seed,
            pins: (pins / u32::from(workers)) as usize,
            passes: options.passes,
            heap_pages,
            ring_bytes: (paged.pages() - heaps) * 4096,
            order,
            next: Default::default(),
            phase: Barrier::new(usize::from(workers)),
            stop: AtomicBool::new(false),
            ring: AtomicU64::new(0),
            packed: Mutex::default(),
            names: AtomicU64::new(0),
            done: AtomicUsize::new(0),
        }
    }

    /// Names that were counted, all files together.
    pub(super) fn names(&self) -> u64 {
        self.names.load(Relaxed)
    }

    /// One worker's part. If one fails, all stop.
    pub(super) fn work(
        &self,
        nth: u16,
        supply: &mut dyn FrameSource,
        progress: Option<Progress<'_>>,
    ) -> Result<CpuTime, Failure> {
        let mut worker = BuildWorker {
            counts: HashMap::new(),
            text: Vec::new(),
            whole: Vec::new(),
            draw: Random::new(self.seed ^ u64::from(nth) << 32),
            file_pins: VecDeque::new(),
            page_pins: VecDeque::new(),
            heap: CompilerHeap::new(
                self.ring_bytes / 4096 + u64::from(nth) * self.heap_pages,
                self.heap_pages,
            ),
        };
        let mut result = Ok(());
        for phase in 0..3 {
            while result.is_ok()
                && !self.stop.load(Relaxed)
                && let at = self.next[phase].fetch_add(1, Relaxed)
                && at < self.tree.sources.len()
            {
                self.tell(progress);
                result = match phase {
                    0 => self.depend(&mut worker, at, supply),
                    1 => self.compile(&mut worker, self.order[at], supply),
                    _ => self.link(&mut worker, self.order[at], supply),
                };
            }
            if result.is_ok() {
                result = worker.heap.end(self.paged, supply, true);
            }
            if result.is_err() {
                self.stop.store(true, Relaxed);
            }
            self.phase.wait();
        }
        result.map(|()| CpuTime::mine())
    }

    /// Reads every file once: afterwards memory is as full as it ever is.
    pub(super) fn read_all(&self, supply: &mut dyn FrameSource) -> Result<(), Failure> {
        let mut text = Vec::new();
        for source in &self.tree.sources {
            let file = self.open(source)?;
            text.clear();
            self.read(&file, supply, &mut text)?;
        }
        Ok(())
    }

    /// Has all workers end as soon as they have done the file they are at.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// A step of progress for each hundredth of the work.
    fn tell(&self, progress: Option<Progress<'_>>) {
        let all = 3 * self.tree.sources.len();
        let done = self.done.fetch_add(1, Relaxed);
        for _ in done * STEPS / all..(done + 1) * STEPS / all {
            progress.into_iter().for_each(Progress::step);
        }
    }

    fn open(&self, source: &SourceFile) -> Result<OpenFile, Failure> {
        let opened = self.storage.file(&source.path, false);
        let opened = opened.and_then(|medium| self.files.add_medium(medium, false));
        opened.map_err(|e| {
            Failure::new(format!(
                "{}: cannot read: {e}",
                printable::path(&source.path)
            ))
        })
    }

    /// Appends a file's text to `into`.
    fn read(
        &self,
        file: &OpenFile,
        supply: &mut dyn FrameSource,
        into: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let end = into.len() + file.len_bytes().min(FILE_BYTES_MAX) as usize;
        let (mut at, mut offset) = (into.len(), 0);
        into.resize(end, 0);
        while at < end {
            let part = end.min(at + CHUNK);
            let read = self.files.read(supply, file, offset, &mut into[at..part]);
            let read = read.map_err(Failure::new)?;
            if read == 0 {
                break;
            }
            at += read;
            offset += read as u64;
        }
        into.truncate(at);
        Ok(())
    }

    fn depend(
        &self,
        worker: &mut BuildWorker<'a, 's>,
        at: usize,
        supply: &mut dyn FrameSource,
    ) -> Result<(), Failure> {
        let file = self.open(&self.tree.sources[at])?;
        worker.text.clear();
        self.read(&file, supply, &mut worker.text)?;
        self.names
            .fetch_add(count_names(&worker.text, &mut worker.counts), Relaxed);
        self.hold_pins(worker, &file, supply)
    }

    fn compile(
        &self,
        worker: &mut BuildWorker<'a, 's>,
        at: usize,
        supply: &mut dyn FrameSource,
    ) -> Result<(), Failure> {
        let file = self.open(&self.tree.sources[at])?;
        worker.text.clear();
        self.read(&file, supply, &mut worker.text)?;
        worker.whole.clear();
        for name in includes(&worker.text).take(INCLUDES_MAX) {
            if let Some(header) = self.tree.header(name) {
                let header = self.open(header)?;
                self.read(&header, supply, &mut worker.whole)?;
            }
        }
        worker.whole.extend_from_slice(&worker.text);
        self.names
            .fetch_add(count_names(&worker.whole, &mut worker.counts), Relaxed);
        worker.heap.grow(self.paged, &worker.whole)?;
        for _ in 1..self.passes {
            count_names(&worker.whole, &mut worker.counts);
            worker.heap.pass(self.paged, &mut worker.draw)?;
        }
        worker.heap.end(self.paged, supply, false)?;
        let packed = lz4_flex::block::compress(&worker.whole);
        self.remember(at, &packed)?;
        self.compare_one(worker)?;
        // The object: what the file itself became.
        let object = lz4_flex::block::compress(&worker.text);
        let path = self.out.join(format!("{at}.o"));
        let created = self.storage.file(&path, true);
        let created = created.and_then(|medium| self.files.add_medium(medium, true));
        let failed =
            |e: io::Error| Failure::new(format!("{}: cannot write: {e}", printable::path(&path)));
        let created = created.map_err(failed)?;
        let sum = sum(&object).to_le_bytes();
        for (offset, bytes) in [(0, &sum[..]), (8, &object)] {
            let written = self.files.write(supply, &created, offset, bytes);
            if written.map_err(Failure::new)? != bytes.len() {
                return Err(failed(io::ErrorKind::WriteZero.into()));
            }
        }
        self.hold_pins(worker, &file, supply)
    }

    fn link(
        &self,
        worker: &mut BuildWorker<'a, 's>,
        at: usize,
        supply: &mut dyn FrameSource,
    ) -> Result<(), Failure> {
        let path = self.out.join(format!("{at}.o"));
        let source = SourceFile { path, len_bytes: 0 };
        let object = self.open(&source)?;
        worker.text.clear();
        self.read(&object, supply, &mut worker.text)?;
        let is_whole = worker
            .text
            .split_first_chunk::<8>()
            .is_some_and(|(expected, bytes)| {
                worker.text.len() as u64 == FILE_BYTES_MAX
                    || u64::from_le_bytes(*expected) == sum(bytes)
            });
        if !is_whole {
            let name = printable::path(&source.path);
            return Err(Failure::new(format!(
                "{name}: other bytes than were written"
            )));
        }
        Ok(())
    }

    /// Copies something to the end of the ring, if it is no longer than that.
    fn remember(&self, of: usize, bytes: &[u8]) -> Result<(), Failure> {
        let ring = self.ring_bytes;
        let len = bytes.len() as u64;
        if len > ring {
            return Ok(());
        }
        // What does not fit before the ring's end begins at its beginning.
        let begin = |at: u64| {
            if at % ring + len > ring {
                at.next_multiple_of(ring)
            } else {
                at
            }
        };
        let moved = self
            .ring
            .fetch_update(Relaxed, Relaxed, |at| Some(begin(at) + len));
        let at = begin(moved.unwrap_or_default());
        self.paged.write(at % ring, bytes).map_err(Failure::new)?;
        let packed = Packed {
            at,
            len: bytes.len(),
            sum: sum(bytes),
        };
        self.packed().insert(of, packed);
        Ok(())
    }

    fn packed(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Packed>> {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one of those that were compressed before, and compares it with what it was.
    fn compare_one(&self, worker: &mut BuildWorker<'a, 's>) -> Result<(), Failure> {
        let ring = self.ring_bytes;
        let wanted = worker.draw.remainder(self.tree.sources.len() as u64) as usize;
        let found = {
            let packed = self.packed();
            packed
                .range(wanted..)
                .next()
                .map(|(of, packed)| (*of, *packed))
        };
        let Some((of, packed)) = found else {
            return Ok(());
        };
        let is_there = |packed: &Packed| self.ring.load(Relaxed) - packed.at <= ring;
        if is_there(&packed) {
            let mut bytes = vec![0; packed.len];
            let read = self.paged.read(packed.at % ring, &mut bytes);
            read.map_err(Failure::new)?;
            // Unless the ring has come round to it meanwhile.
            if sum(&bytes) != packed.sum && is_there(&packed) {
                let name = printable::path(&self.tree.sources[of].path);
                return Err(Failure::new(format!(
                    "{name}: its copy in paged memory is another one"
                )));
            }
        } else {
            self.packed().remove(&of);
        }
        Ok(())
    }

    /// Pins a page of a file and one of the ring, and lets the oldest ones go.
    fn hold_pins(
        &self,
        worker: &mut BuildWorker<'a, 's>,
        file: &OpenFile,
        supply: &mut dyn FrameSource,
    ) -> Result<(), Failure> {
        if self.pins == 0 {
            return Ok(());
        }
        if worker.file_pins.len() + worker.page_pins.len() >= self.pins {
            worker.file_pins.pop_front();
            worker.page_pins.pop_front();
        }
        let page = worker
            .draw
            .remainder(file.len_bytes().div_ceil(4096).max(1));
        let pin = self.files.pin(supply, file, page).map_err(Failure::new)?;
        worker.file_pins.push_back(pin);
        let written = self.ring.load(Relaxed).min(self.ring_bytes) / 4096;
        if written > 0 && self.pins > 1 {
            let page = worker.draw.remainder(written);
            let pin = self.paged.pin(page..page + 1, false);
            worker.page_pins.push_back(pin.map_err(Failure::new)?);
        }
        Ok(())
    }
}

/// A checksum: multiply and rotate, eight bytes at a time.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let sum = words
        .iter()
        .fold(bytes.len() as u64, |s, w| mix(s, u64::from_le_bytes(*w)));
    rest.iter().fold(sum, |s, byte| mix(s, u64::from(*byte)))
}

/// Counts the names in a text, each by itself; how many there are.
fn count_names(text: &[u8], counts: &mut HashMap<u64, u32>) -> u64 {
    counts.clear();
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut names = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let len = rest
            .iter()
            .position(|byte| !is_of_name(byte))
            .unwrap_or(rest.len());
        if len > 0 && !rest[0].is_ascii_digit() {
            *counts.entry(sum(&rest[..len])).or_default() += 1;
            names += 1;
        }
        at += len + 1;
    }
    names
}

/// The names of included files: between quotes.
fn includes(text: &[u8]) -> impl Iterator<Item = &str> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let line = line.strip_prefix(b"#include")?.trim_ascii_start();
        let (open, rest) = line.split_first()?;
        let close = match open {
            b'"' => b'"',
            b'<' => b'>',
            _ => return None,
        };
        let end = rest.iter().position(|byte| *byte == close)?;
        let path = std::str::from_utf8(&rest[..end]).ok()?;
        path.rsplit('/').next()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Device;
    use super::*;
    use framewright::Frame;
    use framewright::frame::ZoneLayout;
    use framewright_linux::file_cache::FileOptions;
    use framewright_linux::swap::{Frontswap, Zram};
    use framewright_linux::{Host, Options};
    use std::sync::Arc;

    #[test]
    fn what_is_longer_than_the_ring_is_not_remembered() {
        let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(2);
        let host = Host::new(&Options::new(layout)).unwrap();
        let ram = host.ram_shared();
        let device = Zram::new(64, 1 << 20);
        // All but a page are a heap's.
        let paged = Paged::new(Arc::clone(ram), Frontswap::new(&device, 16), 16).unwrap();
        let files = FileCache::new(Arc::clone(ram), None, FileOptions::default());
        let tree = SourceTree::make(64 << 10, 1).unwrap();
        let storage = Storage::new(Device::Host);
        let options = super::super::command::sized(false);
        let heap = 15 / u64::from(options.workers);
        let users = (&files, &paged);
        let job = BuildJob::new(&tree, users, &storage, PathBuf::new(), &options, 1, heap);
        let ring = job.ring_bytes as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
            paged.await_pager().unwrap();
            let bytes: Vec<u8> = (0..=ring).map(|at| at as u8).collect();
            for (of, len) in [ring + 1, ring - 100, ring, 200].into_iter().enumerate() {
                job.remember(of, &bytes[..len]).unwrap();
            }
            paged.stop();
        });
        let at: Vec<_> = job.packed().iter().map(|(of, one)| (*of, one.at)).collect();
        let ring = ring as u64;
        assert_eq!(at, [(1, 0), (2, ring), (3, 2 * ring)]);
    }

    #[test]
    fn names_and_headers_are_found_in_a_text() {
        let text = b"#include \"a/h1.h\"\n#include <h2.h>\nint f_1(int x2) { return 0x1f + x2; }\n#include";
        assert_eq!(includes(text).collect::<Vec<_>>(), ["h1.h", "h2.h"]);
        let mut counts = HashMap::new();
        let names = count_names(text, &mut counts);
        assert_eq!(names, 14);
        assert_eq!(counts[&sum(b"include")], 3);
        assert_eq!(counts[&sum(b"x2")], 2);
        assert_ne!(sum(b"ab"), sum(b"ba"));
    }
}
