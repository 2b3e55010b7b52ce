//! What is asked for, checked before anything is made.

use super::super::Failure;
use super::{Options, SIZES};
use framewright::Frame;

/// Left to everybody else on the machine.
const LEFT_KIB: u64 = 2 << 20;

/// Frames of the smallest reserve: two pageblocks.
const RESERVE_FRAMES_MIN: u64 = 1024;

/// What an experiment is made of.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The area's frames.
    pub(super) reserve_frames: u64,
    /// The document's sizes, as far as the area has so many frames.
    pub(super) sizes: Vec<u64>,
    /// Threads that may be guests at a time.
    pub(super) seats: u16,
}

impl Plan {
    /// # Errors
    /// If the area has too few frames, or memory has no more than the area, or the machine lacks them.
    pub(super) fn new(options: &Options) -> Result<Self, Failure> {
        let (ram_frames, reserve_frames) = (
            options.ram_bytes / Frame::BYTES,
            options.reserve_bytes / Frame::BYTES,
        );
        if reserve_frames < RESERVE_FRAMES_MIN {
            return Err(Failure::new(format!(
                "a reserve of {reserve_frames} frames is too small, expected {RESERVE_FRAMES_MIN} or more"
            )));
        }
        // The job needs memory besides.
        if ram_frames < reserve_frames + RESERVE_FRAMES_MIN {
            return Err(Failure::new(format!(
                "a RAM of {ram_frames} frames has no room for a reserve of {reserve_frames} and \
                 {RESERVE_FRAMES_MIN} frames besides"
            )));
        }
        room_for(ram_frames)?;
        let sizes = SIZES.into_iter().filter(|&frames| frames <= reserve_frames);
        Ok(Self {
            reserve_frames,
            sizes: sizes.collect(),
            seats: options.workers + 2,
        })
    }
}

/// Whether the machine has so many frames and 2 GiB besides, as far as it tells.
fn room_for(frames: u64) -> Result<(), Failure> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"));
    let available = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
    // The metadata of frames and pages, and a device in memory.
    let needed = frames.saturating_mul(Frame::BYTES) / 1024 * 3 / 2 + LEFT_KIB;
    match available {
        Some(kib) if kib < needed => Err(Failure::new(format!(
            "{} MiB of memory are available, {} MiB are needed: the experiment's and 2 GiB for the machine",
            kib >> 10,
            needed >> 10
        ))),
        _ => Ok(()),
    }
}
