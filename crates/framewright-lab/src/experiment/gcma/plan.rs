//! What is asked for, checked before anything is made.

use super::super::Failure;
use super::{BesideRequests, GcmaOptions, GcmaVariant, Lengths, SIZES, SwapSafety};
use framewright::Frame;

/// Memory that the experiment leaves to the host's other processes: 2 GiB.
const LEFT_KIB: u64 = 2 << 20;

/// Frames of the smallest reserve, and of what is left beside one: two pageblocks.
const FRAMES_MIN: u64 = 1024;

/// Pages of paged memory at most: each may be a mapping of its own, of which Linux allows a process 65,530.
const PAGED_MAX: u64 = 50_000;

/// Copies of pages that are put back, at a time.
const ORDINARY_MAX: u64 = 2048;

/// Threads that bring pages of paged memory: in Linux each process brings its own.
pub(super) const PAGERS: u16 = 4;

/// CPUs of a machine besides those of the pagers and the workers: of the background's reclaim, the owner, the guest that
/// is always busy or the reader that fills the area again, and compressed memory; and one to spare.
const SERVING_SEATS: u16 = 5;

/// Frames of a pageblock, of which an area lent to movable memory consists.
const PAGEBLOCK: u64 = 512;

/// What an experiment is made of.
#[derive(Debug, Clone)]
pub(super) struct GcmaPlan {
    /// Frames in all.
    ram_frames: u64,
    /// Of those, the area's.
    pub(super) reserve_frames: u64,
    /// Frames that no variant can move or drop, the kernel's: a quarter of the RAM. The programs' are paged memory.
    pub(super) held_frames: u64,
    /// Pages of paged memory. As many of them have frames as there are, wherever these lie.
    pub(super) paged_pages: u64,
    /// Of those, each worker's heap.
    pub(super) heap_pages: u64,
    /// Slots of the swap device: 128 for 800 of RAM, as the document has it.
    pub(super) swap_slots: u64,
    /// Bytes of a tree that is made.
    pub(super) tree_bytes: u64,
    /// The document's sizes, as far as the area has room for a reservation of each.
    pub(super) sizes: Vec<u64>,
    /// CPUs: threads that may be guests at a time, and one that no thread has.
    pub(super) seats: u16,
    /// Whether the lengths are known before a request.
    lengths: Lengths,
}

/// Frames of the pageblocks in this many bytes.
const fn whole(bytes: u64) -> u64 {
    bytes / Frame::BYTES / PAGEBLOCK * PAGEBLOCK
}

/// Pages of paged memory beside a build: the programs', a quarter of the RAM.
const fn paged_max(ram_frames: u64) -> u64 {
    let quarter = ram_frames / 4;
    if quarter < PAGED_MAX {
        quarter
    } else {
        PAGED_MAX
    }
}

impl GcmaOptions {
    /// Bytes of a tree that is made: as asked for, or a part of the RAM.
    pub(crate) fn made_bytes(&self) -> u64 {
        self.tree_bytes.unwrap_or_else(|| {
            // With paged memory and what is written of them the job touches more than the RAM has, the area included:
            // 5/8 of the RAM, and more where paged memory is less than a quarter.
            let ram_frames = whole(self.ram_bytes);
            (ram_frames - paged_max(ram_frames)) * Frame::BYTES / 6 * 5
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
        let held_frames = ram_frames / 4;
        // The rest is page cache, and memory is always full: the machine reads more of files than there is of it
        // before anything is measured, and nothing but reclaim takes that away.
        let workers = u64::from(options.workers);
        let heap_pages = paged_max(ram_frames) * 7 / 8 / workers;
        let (paged_pages, swap_slots) = match options.at_work() {
            BesideRequests::Build => (heap_pages * workers * 8 / 7, ram_frames * 128 / 800),
            // Two versions of some pages are there at a time.
            _ => (reserve_frames / 2, reserve_frames * 3 / 4 + 1024),
        };
        Ok(Self {
            ram_frames,
            reserve_frames,
            held_frames,
            paged_pages,
            heap_pages,
            swap_slots,
            tree_bytes: options.made_bytes(),
            sizes,
            seats: options.workers + PAGERS + SERVING_SEATS,
            lengths: options.lengths,
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

    /// The sizes for which an area has a place of its own, ascending: none where the lengths are unknown. The
    /// document's variants have one for each. What framewright puts back lies in none, so it has one for the longest
    /// requests, where a shorter one goes, too, that is not served elsewhere, and of the others for the shortest, as
    /// many as take a sixth of the area together.
    pub(super) fn reserved(&self, variant: GcmaVariant, policy: SwapSafety) -> Vec<u64> {
        if self.lengths == Lengths::Unknown {
            return Vec::new();
        }
        if variant != GcmaVariant::Framewright || policy != SwapSafety::PutBack {
            return self.sizes.clone();
        }
        let Some((longest, others)) = self.sizes.split_last() else {
            return Vec::new();
        };
        let mut left = self.reserve_frames / 6;
        let short = others.iter().copied().map_while(|frames| {
            left = left.checked_sub(frames)?;
            Some(frames)
        });
        short.chain([*longest]).collect()
    }

    /// Dirty pages in framewright's area at a time: half of the frames that no reservation has. Where there is no
    /// reservation for a request that meets them, no more than can be copied.
    pub(super) fn dirty_max(&self, policy: SwapSafety) -> u64 {
        let reserved = self.reserved(GcmaVariant::Framewright, policy);
        let max = (self.reserve_frames - reserved.iter().sum::<u64>()) / 2;
        match self.lengths {
            Lengths::Known => max,
            Lengths::Unknown => max.min(ORDINARY_MAX),
        }
    }

    /// Pages that are put back and not got again, at a time: a request waits for at most this many copies, 2
    /// to 4 ms.
    pub(super) fn ordinary_max(&self, policy: SwapSafety) -> u32 {
        self.dirty_max(policy).min(ORDINARY_MAX) as u32
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

/// Whether the machine has this many frames and 2 GiB besides, as far as it tells.
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
    use super::super::Device;
    use super::*;
    use crate::experiment::gcma::job::SourceTree;

    #[test]
    fn dirty_pages_lie_where_no_reservation_is_whatever_the_policy() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        let plan = GcmaPlan::new(&options).unwrap();
        assert_eq!(plan.sizes, [1, 512, 1024, 2048]);
        let of = |plan: &GcmaPlan, policy| {
            let reserved = plan.reserved(GcmaVariant::Framewright, policy);
            let reserved: u64 = reserved.iter().sum();
            (reserved, plan.dirty_max(policy), plan.ordinary_max(policy))
        };
        // The lengths are unknown.
        assert_eq!(of(&plan, SwapSafety::WriteBack), (0, 2048, 2048));
        assert!(
            plan.reserved(GcmaVariant::Cma, SwapSafety::PutBack)
                .is_empty()
        );
        options.lengths = Lengths::Known;
        let plan = GcmaPlan::new(&options).unwrap();
        assert_eq!(of(&plan, SwapSafety::WriteBack), (3585, 255, 255));
        // The longest requests' and those of 1 and 512 frames, and half of all others.
        let put_back = SwapSafety::PutBack;
        assert_eq!(
            plan.reserved(GcmaVariant::Framewright, put_back),
            [1, 512, 2048]
        );
        assert_eq!(of(&plan, put_back), (2561, 767, 767));
        assert_eq!(plan.reserved(GcmaVariant::Cma, put_back), plan.sizes);
        assert_eq!(
            plan.tree_bytes,
            options.tree_bytes.unwrap(),
            "as the quick form says"
        );
        let paged = plan.heap_pages * u64::from(options.workers) * 8 / 7;
        assert_eq!((plan.held_frames, plan.paged_pages), (2560, paged));
        assert!(
            (2400..=2560).contains(&paged) && plan.swap_slots == 1638,
            "{paged}"
        );
    }

    #[test]
    fn the_job_touches_more_than_the_ram_has() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        options.tree_bytes = None;
        for device in [Device::Card, Device::Host] {
            options.device = device;
            assert_eq!(options.made_bytes(), 25 << 20);
        }
        let plan = GcmaPlan::new(&options).unwrap();
        let tree = SourceTree::make(plan.tree_bytes, options.seed).unwrap();
        let of_files = tree.sources.iter().map(|source| source.len_bytes);
        let objects = tree.sources.iter().map(|source| {
            let text = std::fs::read(&source.path).unwrap();
            lz4_flex::block::compress(&text).len() as u64
        });
        let (sources, objects) = (of_files.sum::<u64>(), objects.sum::<u64>());
        // Each compiler's heap grows to its end, and the ring's is reached: what is compressed into it is no less than
        // the objects.
        let workers = u64::from(options.workers);
        let ring = plan.paged_pages - plan.heap_pages * workers;
        assert!(tree.sources.len() as u64 > workers * crate::experiment::gcma::job::FILES_MAX);
        assert!(objects > ring * Frame::BYTES);
        let touched = sources + objects + plan.paged_pages * Frame::BYTES;
        assert!(touched > options.ram_bytes, "{sources} {objects} {touched}");
        // Where paged memory is at its bound there are more sources instead.
        options.ram_bytes = 8 << 30;
        let paged = PAGED_MAX * Frame::BYTES;
        assert_eq!(options.made_bytes(), ((8 << 30) - paged) / 6 * 5);
    }
}
