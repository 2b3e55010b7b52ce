//! How much a CPU's lists take, give and keep: the marks as the kernel of the year computes them, or as a recorded machine
//! has them. `percpu` moves blocks by these marks and computes none.

use super::policy::HUGE_ORDER;
use super::{BuddyMarks, LinuxPolicy};
use framewright::Mobility;

/// Lists for the orders 0 to 3 and each mobility; older kernels use the first three.
pub(super) const LOW_ORDER_LISTS: usize = 4 * 3;
/// And two for huge pages: not movable, movable.
pub(super) const LISTS: usize = LOW_ORDER_LISTS + 2;
/// A batch grows by doubling at most this many times (`CONFIG_PCP_BATCH_SCALE_MAX`).
pub(super) const BATCH_SCALE_MAX: u8 = 5;

/// One CPU's state beside its lists.
#[derive(Debug, Clone, Default)]
pub(super) struct BuddyPerCpu {
    /// Frames on all of its lists.
    pub(super) count: u32,
    /// 6.12: doublings of the next refill, grown by refills and shrunk by frees.
    pub(super) alloc_factor: u8,
    /// 6.12: frames freed lately, halved by each allocation.
    pub(super) free_count: u32,
    /// 6.12: the last free was of an order between 1 and 3.
    pub(super) freed_high_order: bool,
    /// 6.12: frames above which some go back, between the zone's least and most.
    pub(super) high: u32,
}

impl BuddyPerCpu {
    pub(super) fn new(high: u32) -> Self {
        Self {
            high,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// How much moves between a CPU's lists and the free lists at once, and how much may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PerCpuMarks {
    /// Frames moved at once.
    pub(super) batch: u32,
    /// Frames on a CPU's lists above which a batch goes back, at least.
    pub(super) high_min: u32,
    /// And at most: between the two the mark moves with what the CPU does.
    pub(super) high_max: u32,
}

impl PerCpuMarks {
    /// The marks that a kernel of that time computes for a zone of `frames` frames of 4 KiB.
    ///
    /// Until 4.19: a batch of a quarter of a thousandth of the zone, at most 512 KiB before the quarter, made
    /// odd to 2^n - 1; the mark is six batches. 6.12: 1/4096 of the zone, at most 256 KiB,
    /// likewise made odd; the mark is each CPU's share of the low watermark, at least four batches.
    pub(super) fn new(policy: LinuxPolicy, frames: u64, cpus: u16) -> Self {
        if policy.is_strict() {
            let batch = (frames >> 12).min(64) as u32;
            let batch = if batch <= 1 {
                1
            } else {
                one_below_power(batch)
            };
            let share = low_watermark(frames) / u64::from(cpus);
            Self::fixed(batch, (share as u32).max(batch << 2))
        } else {
            let batch = ((frames / 1024).min(128) / 4).max(1) as u32;
            let batch = one_below_power(batch);
            Self::fixed(batch.max(1), 6 * batch)
        }
    }

    pub(super) const fn fixed(batch: u32, high: u32) -> Self {
        Self {
            batch,
            high_min: high,
            high_max: high,
        }
    }

    /// The marks that a machine with 6.12's rules says it has.
    pub(super) fn of_machine(marks: &BuddyMarks) -> Self {
        Self {
            batch: marks.batch.max(1),
            high_min: marks.high_min,
            high_max: marks.high_max.max(marks.high_min),
        }
    }
}

/// 1.5 times `batch`, down to a power of two, less one: odd strides spread over cache colours.
pub(super) fn one_below_power(batch: u32) -> u32 {
    (1 << (batch + batch / 2).ilog2()) - 1
}

/// The low watermark of 6.12 for one zone, in frames of 4 KiB.
///
/// The minimum is 4 * sqrt(KiB of memory) KiB, within 128 KiB and 256 MiB; with transparent huge
/// pages at least 2 + 3 * 3 pageblocks, unless that is more than a twentieth of the zone. Low lies
/// above it by a quarter of it or by a thousandth of the zone, whichever is more.
pub(super) fn low_watermark(frames: u64) -> u64 {
    let min = min_watermark(frames);
    min + (min / 4).max(frames / 1000)
}

/// Its min watermark: see [`low_watermark`].
pub(super) fn min_watermark(frames: u64) -> u64 {
    let kib = (frames * 4 * 16).isqrt().clamp(128, 256 << 10);
    let huge = (512 * (2 + 3 * 3)).min(frames / 20);
    (kib / 4).max(huge)
}

/// Which of a CPU's lists holds blocks of this order and mobility.
#[inline]
pub(super) fn list_index(order: u8, mt: usize) -> usize {
    if order == HUGE_ORDER {
        LOW_ORDER_LISTS + usize::from(mt == Mobility::Movable.index())
    } else {
        usize::from(order) * 3 + mt
    }
}

pub(super) fn order_of(list: usize) -> u8 {
    if list >= LOW_ORDER_LISTS {
        HUGE_ORDER
    } else {
        (list / 3) as u8
    }
}
