//! What a run of the experiment is: sizes, threads, items, and the limits that make these sensible. All variants
//! run the same plan; what does not fit is refused here, with the numbers.

use super::super::{Failure, Mapper};
use super::layout::FrameLayout;
use crate::before::journal::{BLOCK_FRAMES_MAX, JournalMarks};
use crate::size::read_bytes;
use framewright::Page;

/// Memory where nothing else is asked for: 512 MiB.
pub const MEMORY_BYTES: u64 = 512 << 20;

/// The least memory: 32 MiB, 16 pageblocks.
const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// The most memory: 2^28 frames.
const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// The most pages read in for each buffer.
const READ_IN_MAX: u32 = 1 << 16;

/// Memory that is left to the machine: 2 GiB.
const LEFT_KIB: u64 = 2 << 20;

/// Bytes of a batch of items, unless an item is longer.
const BATCH_BYTES: u64 = 1 << 20;

/// The most items of a batch.
const BATCH_ITEMS_MAX: u64 = 256;

/// The part of memory that live buffers are.
const LIVE_SHARE: u64 = 8;

/// The part of memory that a thread's items are: of 512 MiB 8, more than the caches that are its own.
pub(super) const ITEMS_SHARE: u64 = 64;

/// The most pages of an object where they are of mixed lengths.
const MIXED_PAGES_MAX: u64 = 32;

/// How long objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectSize {
    /// All of this many bytes.
    Bytes(u64),
    /// Of 1 to 32 pages, each length as often, in whole words: 66 KiB in the mean.
    Mixed,
}

impl ObjectSize {
    /// The longest one's bytes.
    pub(super) const fn longest(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Mixed => MIXED_PAGES_MAX * Page::BYTES,
        }
    }

    /// Pages of one, in the mean.
    const fn pages(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.div_ceil(Page::BYTES),
            Self::Mixed => MIXED_PAGES_MAX.div_ceil(2) + 1,
        }
    }

    /// The order of the blocks that memory is in pieces of.
    const fn order(self) -> u32 {
        let pages = match self {
            Self::Bytes(_) => self.pages(),
            Self::Mixed => MIXED_PAGES_MAX / 2,
        };
        pages.next_power_of_two().ilog2()
    }
}

impl std::str::FromStr for ObjectSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mixed" {
            return Ok(Self::Mixed);
        }
        read_bytes(text).map(Self::Bytes)
    }
}

impl std::fmt::Display for ObjectSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Mixed => f.write_str("mixed"),
        }
    }
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KvmallocOptions {
    /// What stands behind mapped pages.
    pub mapper: Mapper,
    /// Threads that log.
    pub threads: u16,
    /// How long objects are.
    pub object: ObjectSize,
    /// Of a hundred blocks of the object's order, those with a frame that cannot go.
    pub fragmented: u32,
    /// How long each repetition of each variant logs.
    pub seconds: f64,
    /// Of layout and items.
    pub seed: u64,
    /// Repetitions.
    pub repeat: u32,
    /// Pages read into the cache for each buffer; `None` for as many as it has.
    pub read_in: Option<u32>,
    /// Bytes of memory, of which whole blocks of 4 MiB are used.
    pub memory_bytes: u64,
    /// Whether no thread reclaims ahead of a batch, so that calls find too little free.
    pub is_short: bool,
}

/// Items of a batch, for objects of such lengths: 1 MiB, at least one and at most 256.
#[must_use]
pub fn batch_items(object: ObjectSize) -> u64 {
    let bytes = match object {
        ObjectSize::Bytes(bytes) => bytes,
        ObjectSize::Mixed => object.pages() * Page::BYTES,
    };
    (BATCH_BYTES / bytes.max(1)).clamp(1, BATCH_ITEMS_MAX)
}

/// The same, worked out.
#[derive(Debug)]
pub(super) struct KvmallocPlan {
    pub(super) options: KvmallocOptions,
    pub(super) frames: u32,
    /// Words of the longest object: bytes rounded up.
    pub(super) words: usize,
    /// Pages read in before a batch.
    pub(super) read_in: usize,
    /// Items of a batch.
    pub(super) items: usize,
    /// Batches of each thread whose buffers are live while it formats the next one.
    pub(super) held: usize,
    pub(super) marks: JournalMarks,
    /// Below this many free frames a thread that reads in reclaims by itself.
    pub(super) floor: u64,
    pub(super) machine_cpus: u16,
    pub(super) layout: FrameLayout,
}

impl KvmallocPlan {
    /// # Errors
    /// If the objects do not fit into memory, or memory into the machine.
    pub(super) fn new(options: KvmallocOptions) -> Result<Self, Failure> {
        let memory = options.memory_bytes;
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory) {
            return Err(Failure::new(format!(
                "memory of {memory} bytes is not between 32 MiB and 1 TiB"
            )));
        }
        let frames = (memory / Page::BYTES) as u32 & !(BLOCK_FRAMES_MAX - 1);
        let bytes = options.object.longest();
        let pages = options.object.pages();
        let items = batch_items(options.object);
        // A batch is allocated and as much read in before the next look at what is free.
        let read_in = options.read_in.map_or(pages, u64::from);
        let batch = u64::from(options.threads)
            .saturating_mul(items)
            .saturating_mul(pages);
        let need = u64::from(options.threads)
            .saturating_mul(items)
            .saturating_mul(pages.saturating_add(read_in));
        // A batch of each thread, and what the threads read in, may be a quarter of memory: the programs, the
        // live buffers and the rest of the cache need room too.
        if read_in > u64::from(READ_IN_MAX) || need > u64::from(frames) / 4 {
            return Err(Failure::new(format!(
                "an object of {bytes} bytes is too large for {} thread(s): a batch of each and as much read in, {} MiB in all, \
                 are more than a quarter of the experiment's memory of {} MiB",
                options.threads,
                need.saturating_mul(Page::BYTES) >> 20,
                (u64::from(frames) * Page::BYTES) >> 20,
            )));
        }
        // A checkpoint's buffers are live until it is written: an eighth of memory.
        let held = u64::from(frames) / LIVE_SHARE / batch;
        room_for(u64::from(frames), options.threads)?;
        let min = 2 * u64::from(frames).isqrt();
        let marks = JournalMarks {
            min,
            low: min + min / 4 + need,
            high: min + min / 2 + need + need / 2,
        };
        let order = options.object.order();
        let (seed, percent) = (options.seed, options.fragmented);
        let layout = FrameLayout::new(frames, order, percent, marks.high, seed);
        // What the journal's buffers grow to comes out of the cache.
        let least = batch * (held.max(1) + 1) + need;
        if (layout.cache.len() as u64) < least {
            return Err(Failure::new(format!(
                "{} pages of cache are too few for {least} of buffers, expected more memory or smaller objects",
                layout.cache.len()
            )));
        }
        Ok(Self {
            options,
            frames,
            words: bytes.div_ceil(8) as usize,
            read_in: read_in as usize * items as usize,
            items: items as usize,
            held: held.max(1) as usize,
            marks,
            floor: if options.is_short { 0 } else { min + need },
            machine_cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u16),
            layout,
        })
    }

    /// Seats: one a thread, and the background's.
    pub(super) const fn seats(&self) -> u16 {
        self.options.threads + 1
    }
}

/// Whether the machine has this many frames, the threads' items and 2 GiB besides, as far as it tells.
fn room_for(frames: u64, threads: u16) -> Result<(), Failure> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"));
    let available = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
    let kib = frames * Page::BYTES / 1024;
    let needed = kib + u64::from(threads) * kib / ITEMS_SHARE + LEFT_KIB;
    match available {
        Some(kib) if kib < needed => Err(Failure::new(format!(
            "{} MiB of memory are available, {} MiB are needed: the experiment's and 2 GiB for the machine",
            kib >> 10,
            needed >> 10
        ))),
        _ => Ok(()),
    }
}

/// What is run: a case for each combination.
#[derive(Debug, Clone)]
pub struct Kvmalloc {
    /// Ascending, each once.
    pub(crate) threads: Vec<u16>,
    /// Of a hundred blocks, those with a frame that cannot go.
    pub(crate) fragmented: Vec<u32>,
    /// Lengths of buffers.
    pub(crate) objects: Vec<ObjectSize>,
    /// With the first of each.
    pub(crate) options: KvmallocOptions,
}
