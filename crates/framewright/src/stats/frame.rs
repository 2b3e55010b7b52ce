//! What a zone has counted.

use super::LockStats;
use crate::units::{Mobility, Order};

/// One counter an order, for every order the engine can name.
pub(crate) type PerOrder = [u64; Order::MAX.index() + 1];

/// What the page-frame allocator has counted since it was made.
///
/// A snapshot: plain numbers, taken counter by counter, so that counters read while other CPUs
/// work may be some operations apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameStats {
    /// Free frames (`nr_free_pages`), including those in CPU caches, and remote ones that are not
    /// yet collected.
    pub nr_free_pages: u64,
    /// Frames handed out, by the mobility asked for (`pgalloc`).
    pub pgalloc: [u64; 3],
    /// Frames given back (`pgfree`).
    pub pgfree: u64,
    /// Requests that failed because too few frames were free, by order.
    pub exhausted: PerOrder,
    /// Requests that failed although enough frames were free, by order. Those that must not wait count
    /// here, too: for them a block may have lain in another CPU's cache.
    pub fragmented: PerOrder,
    /// Fallbacks that left the block's label as it was: `[wanted][taken from]`
    /// [`mm_page_alloc_extfrag` with `change_ownership=0`].
    pub steals: [[u64; 3]; 3],
    /// Fallbacks that changed the block's label: `[wanted][label before]`
    /// [`mm_page_alloc_extfrag` with `change_ownership=1`].
    pub relabels: [[u64; 3]; 3],
    /// Frees of blocks in a pageblock that another CPU held.
    pub remote_frees: u64,
    /// Times all caches and remote frees were collected (`drain_all_pages`).
    pub drains: u64,
    /// Frees refused because no such block was allocated there, or not with that order.
    pub bad_frees: u64,
    /// The zone's stop lock; only if locks are accounted.
    pub stop_lock: LockStats,
    /// All of the pageblocks' locks.
    pub pageblock_locks: LockStats,
}

impl FrameStats {
    /// Requests that failed, by order and for either reason.
    #[must_use]
    pub fn failures(&self, order: Order) -> u64 {
        self.exhausted[order.index()] + self.fragmented[order.index()]
    }

    /// Fallbacks from `wanted` to `taken`, label changed or not.
    #[must_use]
    pub fn fallbacks(&self, wanted: Mobility, taken: Mobility) -> u64 {
        let (wanted, taken) = (wanted.index(), taken.index());
        self.steals[wanted][taken] + self.relabels[wanted][taken]
    }

    /// Adds another CPU's or zone's counters.
    pub fn add(&mut self, other: &Self) {
        self.nr_free_pages += other.nr_free_pages;
        self.pgfree += other.pgfree;
        self.remote_frees += other.remote_frees;
        self.drains += other.drains;
        self.bad_frees += other.bad_frees;
        self.stop_lock.add(&other.stop_lock);
        self.pageblock_locks.add(&other.pageblock_locks);
        add_each(&mut self.pgalloc, &other.pgalloc);
        add_each(&mut self.exhausted, &other.exhausted);
        add_each(&mut self.fragmented, &other.fragmented);
        for wanted in 0..3 {
            add_each(&mut self.steals[wanted], &other.steals[wanted]);
            add_each(&mut self.relabels[wanted], &other.relabels[wanted]);
        }
    }
}

fn add_each(sums: &mut [u64], others: &[u64]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_twice_doubles_every_counter() {
        let one = FrameStats {
            nr_free_pages: 1,
            pgalloc: [1, 2, 3],
            pgfree: 4,
            exhausted: [5; 21],
            fragmented: [6; 21],
            steals: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            relabels: [[9, 8, 7], [6, 5, 4], [3, 2, 1]],
            remote_frees: 7,
            drains: 8,
            bad_frees: 9,
            stop_lock: LockStats {
                acquisitions: 10,
                contended: 11,
                hold_ns_max: 12,
            },
            pageblock_locks: LockStats::default(),
        };
        let mut two = one;
        two.add(&one);
        assert_eq!(two.failures(Order::ZERO), 22);
        assert_eq!(two.fallbacks(Mobility::Unmovable, Mobility::Movable), 20);
        assert_eq!(two.pgalloc, [2, 4, 6]);
        let rest = (two.nr_free_pages, two.pgfree, two.remote_frees, two.drains);
        assert_eq!((rest, two.bad_frees), ((2, 8, 14, 16), 18));
        let lock = two.stop_lock;
        let lock = (lock.acquisitions, lock.contended, lock.hold_ns_max);
        assert_eq!(lock, (20, 22, 12), "the longest hold is none longer");
    }
}
