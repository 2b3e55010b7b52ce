//! How many frames a zone keeps back, and from which requests. Pure arithmetic over the free lists: it changes
//! nothing, and every step of the slow path and of the background asks it.

use super::lists::{ORDERS, Zone310};
use super::{Kernel310, Layout310};

/// The watermarks, in frames, and how they bind requests of higher orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks310 {
    /// Below it only a request that cannot wait is served.
    pub min: u64,
    /// Below it the background is woken.
    pub low: u64,
    /// Up to it the background works.
    pub high: u64,
    /// By how many bits the demand shrinks from one order to the next.
    pub(super) order_shift: u8,
}

impl Watermarks310 {
    /// The marks that the kernel computes for a zone of that many frames of 4 KiB.
    ///
    /// The minimum is 4 * sqrt(KiB of memory) KiB, within 128 KiB and 64 MiB, unless it is given;
    /// low and high lie above it by a quarter and by half of it, both raised by Android's
    /// `extra_free_kbytes`.
    pub(super) fn new(layout: &Layout310<'_>, present: u64) -> Self {
        let by_size = || (present * 4 * 16).isqrt().clamp(128, 64 << 10);
        let min = layout.min_free_kbytes.unwrap_or_else(by_size) / 4;
        let extra = layout.extra_free_kbytes / 4;
        Self {
            min,
            low: min + extra + min / 4,
            high: min + extra + min / 2,
            order_shift: layout.min_free_order_shift,
        }
    }
}

/// What a request may use that others may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Privileges {
    /// Half of the mark (`ALLOC_HIGH`).
    pub(super) high: bool,
    /// A quarter of what is left of it (`ALLOC_HARDER`).
    pub(super) harder: bool,
    /// Free frames of the contiguous area count (`ALLOC_CMA`).
    pub(super) cma: bool,
}

impl Privileges {
    pub(super) const NONE: Self = Self {
        high: false,
        harder: false,
        cma: false,
    };
}

/// Whether it is worth compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suitable {
    /// Too little is free, or that is what a request would fail of.
    Skipped,
    /// It would change something.
    Continue,
    /// A request would be served as it is.
    Partial,
}

/// A fragmentation index up to this says that memory is what lacks (`extfrag_threshold`).
const EXTFRAG_THRESHOLD: i64 = 500;

/// The gap above high up to which the background balances a zone, as a part of the zone.
const BALANCE_GAP_RATIO: u64 = 100;

impl Kernel310 {
    /// Whether a request of `order` leaves the zone above `mark`.
    ///
    /// What lies in blocks of lower orders is of no use to it, and for each of them it demands
    /// less; free frames of the contiguous area are taken off only once, before the orders.
    #[inline]
    pub(super) fn is_above(&self, order: u8, mark: u64, may: Privileges) -> bool {
        let mut min = mark as i64;
        if may.high {
            min -= min / 2;
        }
        if may.harder {
            min -= min / 4;
        }
        let mut free = self.zone.free() as i64 - ((1 << order) - 1);
        let not_mine = if may.cma { 0 } else { self.zone.free_cma() };
        if free - not_mine as i64 <= min {
            return false;
        }
        for lower in 0..order {
            free -= i64::from(self.zone.free_at(lower)) << lower;
            min >>= self.marks.order_shift;
            if free <= min {
                return false;
            }
        }
        true
    }

    /// Whether compaction for `order` should run.
    pub(super) fn suitable(&self, order: u8) -> Suitable {
        // Twice the block, as contents are in two places for a while.
        let mark = self.marks.low + (2 << order);
        if !self.is_above(0, mark, Privileges::NONE) {
            return Suitable::Skipped;
        }
        match fragmentation_index(&self.zone, order) {
            0..=EXTFRAG_THRESHOLD => Suitable::Skipped,
            -1000 if self.is_above(order, mark, Privileges::NONE) => Suitable::Partial,
            _ => Suitable::Continue,
        }
    }

    /// Whether the background has nothing to do: above high by `gap` at the order, or so that
    /// compaction can do the rest.
    pub(super) fn is_balanced(&self, order: u8, gap: u64) -> bool {
        self.is_above(order, self.marks.high + gap, Privileges::NONE)
            && (order == 0 || self.suitable(order) != Suitable::Skipped)
    }

    pub(super) fn balance_gap(&self) -> u64 {
        let part = self.zone.present().div_ceil(BALANCE_GAP_RATIO);
        self.marks.low.min(part)
    }
}

/// Towards 1000 a request of the order fails because free frames are scattered, towards 0 because
/// there are too few; -1000 if there is a block.
fn fragmentation_index(zone: &Zone310, order: u8) -> i64 {
    let orders = 0..ORDERS as u8;
    let blocks: u64 = orders.map(|order| u64::from(zone.free_at(order))).sum();
    if blocks == 0 {
        return 0;
    }
    if zone.has_free(order) {
        return -1000;
    }
    1000 - ((1000 + zone.free() * 1000 / (1 << order)) / blocks) as i64
}
