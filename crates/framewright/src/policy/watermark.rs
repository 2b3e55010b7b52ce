//! Watermarks: how many free frames, or free pageblocks, change what allocators do.

use crate::units::Order;

/// Free-frame counts at which behaviour changes, and the same in whole free pageblocks.
///
/// By themselves they are only reported: CPU caches keep less while less than `low` is free.
/// [Reclaim](crate::reclaim) acts on them, by its targets, when it serves the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// Below this, only requests may allocate that help to free memory.
    pub min: u64,
    /// Below this, reclaiming should start.
    pub low: u64,
    /// Above this, reclaiming can stop.
    pub high: u64,
}

impl Watermarks {
    /// The watermarks of a zone of that many frames: `min` is twice the square root of the frames,
    /// `low` a quarter more and `high` half more.
    ///
    /// For frames of 4 KiB these are Linux's without its bounds for very small and very large
    /// machines: the square root of sixteen times the KiB (`min_free_kbytes`).
    #[must_use]
    pub const fn of(frames: u64) -> Self {
        let min = 2 * frames.isqrt();
        Self {
            min,
            low: min + min / 4,
            high: min + min / 2,
        }
    }

    /// The same in whole pageblocks, rounded up: as much should be free in whole pageblocks, so
    /// that work for whole blocks begins before the last one is broken [`defrag_mode`'s
    /// watermarks].
    #[must_use]
    pub const fn in_pageblocks(self, pageblock_order: Order) -> Self {
        let frames = pageblock_order.frames();
        Self {
            min: self.min.div_ceil(frames),
            low: self.low.div_ceil(frames),
            high: self.high.div_ceil(frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_grow_with_the_square_root_of_the_zone() {
        // 4 GiB: 1024 * 1024 frames; Linux's min_free_kbytes would be 8192 KiB, 2048 frames.
        let marks = Watermarks::of(1 << 20);
        assert_eq!((marks.min, marks.low, marks.high), (2048, 2560, 3072));
        let blocks = marks.in_pageblocks(Order::new(9).unwrap());
        assert_eq!((blocks.min, blocks.low, blocks.high), (4, 5, 6));
        let one = Watermarks::of(10).in_pageblocks(Order::new(9).unwrap());
        assert_eq!((one.min, one.low, one.high), (1, 1, 1));
    }
}
