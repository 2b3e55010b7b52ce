//! What is asked for, checked before anything is made.

use super::super::Failure;
use super::{BesideRequests, Device, GcmaOptions, GcmaVariant, SIZES, SwapSafety};
use framewright::Frame;

/// Memory that the experiment leaves to the host's other processes: 2 GiB.
const LEFT_KIB: u64 = 2 << 20;

/// Frames of the smallest reserve, and of what is left beside one: two pageblocks.
const FRAMES_MIN: u64 = 1024;

/// Frames of a pageblock, of which an area lent to movable memory consists.
const PAGEBLOCK: u64 = 512;

/// What an experiment is made of.
#[derive(Debug, Clone)]
pub(super) struct GcmaPlan {
    /// Frames in all.
    ram_frames: u64,
    /// Of those, the area's.
    pub(super) reserve_frames: u64,
    /// Frames that the kernel and the programs have: three quarters of what is not the area's, 408 of 544 MiB. The
    /// document's board ran 16 compilers there.
    pub(super) held_frames: u64,
    /// Pages of paged memory, and how many of them have frames at a time.
    pub(super) paged_pages: u64,
    pub(super) paged_budget: u64,
    /// Slots of the swap device.
    pub(super) swap_slots: u64,
    /// Bytes of a tree that is made.
    pub(super) tree_bytes: u64,
    /// The document's sizes, as far as the area has room for a reservation of each.
    pub(super) sizes: Vec<u64>,
    /// Threads that may be guests at a time.
    pub(super) seats: u16,
}

/// Frames of the pageblocks in so many bytes.
const fn whole(bytes: u64) -> u64 {
    bytes / Frame::BYTES / PAGEBLOCK * PAGEBLOCK
}

impl GcmaOptions {
    /// Bytes of a tree that is made: as asked for, or a part of the RAM.
    pub(crate) fn made_bytes(&self) -> u64 {
        self.tree_bytes.unwrap_or_else(|| {
            // With headers, objects and what is compressed this is more than memory holds. On a card a build of
            // the larger one would take minutes.
            let sixteenths = match self.device {
                Device::Card => 2,
                Device::Host => 10,
            };
            whole(self.ram_bytes) * Frame::BYTES / 16 * sixteenths
        })
    }
}

impl GcmaPlan {
    /// # Errors
    /// If the area has too few frames, or memory has no more than the area, or the machine lacks them.
    pub(super) fn new(options: &GcmaOptions) -> Result<Self, Failure> {
        let (ram_frames, reserve_frames) = (whole(options.ram_bytes), whole(options.reserve_bytes));
        if reserve_frames < FRAMES_MIN {
            return Err(Failure::new(format!(
                "a reserve of {} is too small, expected {} or more",
                sized(options.reserve_bytes),
                sized(FRAMES_MIN * Frame::BYTES)
            )));
        }
        // The job needs memory besides.
        if ram_frames < reserve_frames + 4 * FRAMES_MIN {
            return Err(Failure::new(format!(
                "a RAM of {} has no room for a reserve of {} and {} besides",
                sized(options.ram_bytes),
                sized(options.reserve_bytes),
                sized(4 * FRAMES_MIN * Frame::BYTES)
            )));
        }
        room_for(ram_frames)?;
        let mut left = reserve_frames;
        let sizes = SIZES.into_iter().map_while(|frames| {
            left = left.checked_sub(frames)?;
            Some(frames)
        });
        let sizes: Vec<u64> = sizes.collect();
        let held_frames = (ram_frames - reserve_frames) / 4 * 3;
        // A build has twice what is left, and frames for a quarter of that.
        let left = ram_frames - reserve_frames - held_frames;
        let (paged_pages, paged_budget) = match options.at_work() {
            BesideRequests::Build => (left * 2, left / 2),
            _ => (reserve_frames / 2, reserve_frames / 2),
        };
        Ok(Self {
            ram_frames,
            reserve_frames,
            held_frames,
            paged_pages,
            paged_budget,
            // Two versions of some pages are there at a time.
            swap_slots: paged_pages * 3 / 2 + 1024,
            tree_bytes: options.made_bytes(),
            sizes,
            seats: options.workers + 4,
        })
    }

    /// Frames of the zone: all, or all but the area's.
    pub(super) const fn zone_frames(&self, variant: GcmaVariant) -> u64 {
        if variant.is_moving() {
            self.ram_frames
        } else {
            self.ram_frames - self.reserve_frames
        }
    }

    /// The sizes of which framewright's owner has a reservation, ascending. What is put back lies in none. So there is
    /// one for the longest requests, which is also where a shorter one goes that is not served elsewhere, and of the
    /// others for the shortest, as many as take a sixth of the area together.
    pub(super) fn reserved(&self, policy: SwapSafety) -> Vec<u64> {
        let (mut left, longest) = match policy {
            SwapSafety::WriteThrough | SwapSafety::WriteBack => return self.sizes.clone(),
            SwapSafety::PutBack => (self.reserve_frames / 6, self.sizes.split_last()),
        };
        let Some((longest, others)) = longest else {
            return Vec::new();
        };
        let short = others.iter().copied().map_while(|frames| {
            left = left.checked_sub(frames)?;
            Some(frames)
        });
        short.chain([*longest]).collect()
    }

    /// Dirty pages in the area at a time: half of the frames that no reservation has.
    pub(super) fn dirty_max(&self, policy: SwapSafety) -> u64 {
        (self.reserve_frames - self.reserved(policy).iter().sum::<u64>()) / 2
    }

    /// Pages that are put back and not got again, at a time: so many copies does a request wait for at most, 2
    /// to 4 ms, before it takes the reservation instead.
    pub(super) fn ordinary_max(&self, policy: SwapSafety) -> u32 {
        self.dirty_max(policy).min(2048) as u32
    }
}

/// Bytes as they are given, in the largest unit below them.
fn sized(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_pages_lie_where_no_reservation_is_whatever_the_policy() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        let plan = GcmaPlan::new(&options).unwrap();
        assert_eq!(plan.sizes, [1, 512, 1024, 2048]);
        let of = |policy| {
            let reserved = plan.reserved(policy).iter().sum::<u64>();
            (reserved, plan.dirty_max(policy), plan.ordinary_max(policy))
        };
        assert_eq!(of(SwapSafety::WriteBack), (3585, 255, 255));
        // The longest requests' and those of 1 and 512 frames, and half of all others.
        assert_eq!(plan.reserved(SwapSafety::PutBack), [1, 512, 2048]);
        assert_eq!(of(SwapSafety::PutBack), (2561, 767, 767));
        assert_eq!(plan.tree_bytes, 24 << 20, "as the quick form says");
        options.tree_bytes = None;
        for (device, sixteenths) in [(Device::Host, 10), (Device::Card, 2)] {
            options.device = device;
            let plan = GcmaPlan::new(&options).unwrap();
            assert_eq!(plan.tree_bytes, (40 << 20) / 16 * sixteenths);
        }
    }
}
