use super::super::{Failure, Mapper};
use super::layout::Layout;
use crate::before::journal::{BLOCK_FRAMES_MAX, Marks};
use framewright::Page;

/// Frames of memory: 512 MiB, of whole largest blocks.
const FRAMES: u32 = (512 << 20) / Page::BYTES as u32;

/// Memory that is left to the machine: 2 GiB.
const LEFT_KIB: u64 = 2 << 20;

/// Bytes of a batch of items, unless an item is longer.
const BATCH_BYTES: u64 = 1 << 20;

/// The most items of a batch.
const BATCH_ITEMS_MAX: u64 = 256;

/// The part of memory that live buffers are.
const LIVE_SHARE: u64 = 8;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// What stands behind mapped pages.
    pub mapper: Mapper,
    /// Threads that log.
    pub threads: u16,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Of a hundred blocks of the object's order, those with a frame that cannot go.
    pub fragmented: u32,
    /// How long each repetition of each variant logs.
    pub seconds: f64,
    /// Of layout and items.
    pub seed: u64,
    /// Repetitions.
    pub repeat: u32,
    /// Frames of memory; `None` for the default.
    pub frames: Option<u32>,
}

/// Items of a batch, for objects of so many bytes: 1 MiB, at least one and at most 256.
#[must_use]
pub fn batch_items(object_bytes: u64) -> u64 {
    (BATCH_BYTES / object_bytes.max(1)).clamp(1, BATCH_ITEMS_MAX)
}

/// The same, worked out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) options: Options,
    pub(super) frames: u32,
    /// Words of an object: bytes rounded up.
    pub(super) words: usize,
    /// Pages of an object.
    pub(super) pages: usize,
    /// Items of a batch.
    pub(super) items: usize,
    /// Batches of each thread whose buffers are live while it formats the next one.
    pub(super) held: usize,
    pub(super) marks: Marks,
    /// Below so many free frames a thread that reads in reclaims by itself.
    pub(super) floor: u64,
    pub(super) machine_cpus: u16,
    pub(super) layout: Layout,
}

impl Plan {
    /// # Errors
    /// If the objects do not fit into memory, or memory into the machine.
    pub(super) fn new(options: Options) -> Result<Self, Failure> {
        let frames = options.frames.unwrap_or(FRAMES);
        debug_assert!(frames.is_multiple_of(BLOCK_FRAMES_MAX), "whole blocks");
        let bytes = options.object_bytes;
        let pages = bytes.div_ceil(Page::BYTES);
        let items = batch_items(bytes);
        // A batch is allocated and as much read in before the next look at what is free.
        let need = u64::from(options.threads)
            .saturating_mul(items)
            .saturating_mul(pages)
            .saturating_mul(2);
        // Two batches of each thread live, and half of memory somebody else's.
        if need > u64::from(frames) / 4 {
            return Err(Failure::new(format!(
                "an object of {bytes} bytes is too large for {} thread(s): two batches of each, {} MiB in all, \
                 are more than a quarter of the experiment's memory of {} MiB",
                options.threads,
                need.saturating_mul(Page::BYTES) >> 20,
                (u64::from(frames) * Page::BYTES) >> 20,
            )));
        }
        // A checkpoint's buffers are live until it is written: an eighth of memory.
        let held = u64::from(frames) / LIVE_SHARE / (need / 2);
        room_for(u64::from(frames))?;
        let min = 2 * u64::from(frames).isqrt();
        let marks = Marks {
            min,
            low: min + min / 4 + need,
            high: min + min / 2 + need + need / 2,
        };
        let order = pages.next_power_of_two().ilog2();
        let (seed, percent) = (options.seed, options.fragmented);
        Ok(Self {
            options,
            frames,
            words: bytes.div_ceil(8) as usize,
            pages: pages as usize,
            items: items as usize,
            held: held.max(1) as usize,
            marks,
            floor: min + need,
            machine_cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u16),
            layout: Layout::new(frames, order, percent, marks.high, seed),
        })
    }

    /// Seats: one a thread, and the background's.
    pub(super) const fn seats(&self) -> u16 {
        self.options.threads + 1
    }
}

/// Whether the machine has so many frames and 2 GiB besides, as far as it tells.
fn room_for(frames: u64) -> Result<(), Failure> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"));
    let available = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
    let needed = frames * Page::BYTES / 1024 + LEFT_KIB;
    match available {
        Some(kib) if kib < needed => Err(Failure::new(format!(
            "{} MiB of memory are available, {} MiB are needed: the experiment's and 2 GiB for the machine",
            kib >> 10,
            needed >> 10
        ))),
        _ => Ok(()),
    }
}
