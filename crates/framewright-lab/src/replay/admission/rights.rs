//! What a zone keeps back from which request: pure arithmetic over one zone's numbers.

// Linux 6.18's numbers, which the readers translate every name to.
const DMA: u32 = 1 << 0;
const HIGHMEM: u32 = 1 << 1;
const DMA32: u32 = 1 << 2;
const MOVABLE: u32 = 1 << 3;
const HIGH: u32 = 1 << 5;
const DIRECT_RECLAIM: u32 = 1 << 10;
const KSWAPD_RECLAIM: u32 = 1 << 11;
const NORETRY: u32 = 1 << 16;
const MEMALLOC: u32 = 1 << 17;
const NOMEMALLOC: u32 = 1 << 19;

/// It may wait, and wants the usual memory (`GFP_KERNEL`): a request of which no event shows the flags.
pub(in crate::replay) const USUAL_FLAGS: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM | 1 << 6 | 1 << 7;

/// Zones of a node, by the part of memory that a request can do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneKind {
    Dma,
    Dma32,
    Normal,
    HighMem,
    Movable,
}

/// The last zone that a request with these flags can do with.
pub(super) const fn zone_kind(flags: u32) -> ZoneKind {
    if flags & DMA != 0 {
        ZoneKind::Dma
    } else if flags & DMA32 != 0 {
        ZoneKind::Dma32
    } else if flags & HIGHMEM == 0 {
        ZoneKind::Normal
    } else if flags & MOVABLE == 0 {
        ZoneKind::HighMem
    } else {
        ZoneKind::Movable
    }
}

/// What a request may use, once it is past the low marks, that others may not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestRights {
    /// Half of the min mark (`__GFP_HIGH`).
    pub is_high: bool,
    /// It may not reclaim. With the half of the mark, a quarter of what is left of it too.
    pub is_non_blocking: bool,
    /// All there is (`__GFP_MEMALLOC`).
    pub knows_no_marks: bool,
    /// It may reclaim, so it waits before it fails.
    pub may_wait: bool,
    /// It wakes the background.
    pub wakes: bool,
    /// Its caller has another way, so it gives up where others try again (`__GFP_NORETRY`).
    pub is_optional: bool,
}

impl RequestRights {
    /// What these flags give.
    #[must_use]
    pub const fn of(flags: u32) -> Self {
        let may_wait = flags & DIRECT_RECLAIM != 0;
        let may_dip = flags & NOMEMALLOC == 0;
        Self {
            is_high: flags & HIGH != 0,
            is_non_blocking: !may_wait && may_dip,
            knows_no_marks: flags & MEMALLOC != 0 && may_dip,
            may_wait,
            wakes: flags & KSWAPD_RECLAIM != 0,
            is_optional: flags & NORETRY != 0,
        }
    }

    /// How much of a min mark binds it.
    #[must_use]
    pub const fn min(self, mark: u64) -> u64 {
        let mut min = mark;
        if self.is_high {
            min -= min / 2;
            if self.is_non_blocking {
                min -= min / 4;
            }
        }
        min
    }
}

/// Whether a zone with `free` frames on its lists stays above `mark` when a block of `order` leaves it.
///
/// The frames of the block but one are taken off first, so that a request for one frame asks whether more than the
/// mark is free. Whether there is such a block is another question.
#[inline]
#[must_use]
pub(super) const fn is_above(free: u64, order: u8, mark: u64) -> bool {
    free.saturating_sub((1 << order) - 1) > mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_binds_the_less_the_more_urgent_a_request_is() {
        // GFP_KERNEL, GFP_NOWAIT, GFP_ATOMIC, an atomic slab that asks once more, MEMALLOC.
        let cases = [
            (0xcc0, 1000),
            (0x2800, 1000),
            (0x820, 375),
            (0xd_2820, 500),
            (0x2_0cc0, 1000),
        ];
        for (flags, min) in cases {
            assert_eq!(RequestRights::of(flags).min(1000), min, "{flags:#x}");
        }
        let may_wait = |flags| RequestRights::of(flags).may_wait;
        assert!(may_wait(0xcc0) && !may_wait(0x2800));
        let no_marks = |flags| RequestRights::of(flags).knows_no_marks;
        assert!(no_marks(0x2_0cc0) && !no_marks(0xa_0cc0) && !no_marks(0x820));
        // Odd marks round against the reserve, as the kernel's divisions do.
        assert_eq!(RequestRights::of(0x820).min(7), 3);
    }

    #[test]
    fn a_block_counts_but_for_one_frame() {
        assert!(is_above(11, 0, 10));
        assert!(!is_above(10, 0, 10));
        assert!(is_above(18, 3, 10));
        assert!(!is_above(17, 3, 10));
        assert!(!is_above(3, 9, 0));
    }

    #[test]
    fn flags_say_which_memory_a_request_can_do_with() {
        let cases = [
            (0x1, ZoneKind::Dma),
            (0x2dc4, ZoneKind::Dma32),
            (0xcc0, ZoneKind::Normal),
            (0xcc8, ZoneKind::Normal),
            (0x14_0cca, ZoneKind::Movable),
            (0xcc2, ZoneKind::HighMem),
        ];
        for (flags, kind) in cases {
            assert_eq!(zone_kind(flags), kind, "{flags:#x}");
        }
    }
}
