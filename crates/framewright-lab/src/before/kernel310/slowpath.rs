//! The order in which a request tries things: above low at once; below it wake, min, compaction, reclaim, and
//! again. It owns the order and the counts of stalls; each step's work stands in a file of its own.

use super::Kernel310;
use super::compact::{Attempt310, Outcome310};
use super::fallback::COSTLY_ORDER;
use super::lists::MOVABLE;
use super::watermark::Privileges;
use crate::pressure::Tenants;
use framewright::Context;

/// A request, in the kernel's terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) cpu: usize,
    pub(super) order: u8,
    pub(super) list: usize,
    pub(super) context: Context,
}

impl Want {
    fn may(self) -> Privileges {
        Privileges {
            cma: self.list == MOVABLE,
            ..Privileges::NONE
        }
    }

    /// A request that may neither wait nor reclaim is atomic. One that may wait and yet not reclaim
    /// would rather do without (`__GFP_NO_KSWAPD` without `__GFP_WAIT`), and has no privileges.
    fn is_atomic(self) -> bool {
        !self.context.may_reclaim && !self.context.may_block
    }
}

impl Kernel310 {
    /// A block, if that leaves the zone above `mark`.
    #[inline]
    fn take_above(&mut self, want: Want, mark: u64, may: Privileges) -> Option<u32> {
        if self.is_above(want.order, mark, may) {
            self.take_frames(want.cpu, want.order, want.list)
        } else {
            None
        }
    }

    /// Serves a request: above low at once, below it with all that the kernel does about it.
    #[inline]
    pub(super) fn serve(&mut self, tenants: &dyn Tenants, want: Want) -> Option<u32> {
        match self.take_above(want, self.marks.low, want.may()) {
            Some(frame) => Some(frame),
            None => self.serve_slow(tenants, want),
        }
    }

    #[cold]
    fn serve_slow(&mut self, tenants: &dyn Tenants, want: Want) -> Option<u32> {
        let is_atomic = want.is_atomic();
        if want.context.may_reclaim || is_atomic {
            self.wake(want.order);
        }
        let may = Privileges {
            high: is_atomic,
            harder: is_atomic,
            ..want.may()
        };
        let min = self.marks.min;
        let mut sync = false;
        loop {
            if let Some(frame) = self.take_above(want, min, may) {
                return Some(frame);
            }
            if !want.context.may_reclaim {
                return None;
            }
            if let Some(frame) = self.compact_for(tenants, want, sync) {
                return Some(frame);
            }
            sync = true;
            if self.direct_reclaim(tenants, want.order, want.context) == 0 {
                return None;
            }
            if let Some(frame) = self.take_above(want, min, may) {
                return Some(frame);
            }
            // What was reclaimed may lie on the CPUs' lists.
            self.drain_all();
            if let Some(frame) = self.take_above(want, min, may) {
                return Some(frame);
            }
            if want.order > COSTLY_ORDER {
                return self.compact_for(tenants, want, sync);
            }
        }
    }

    /// Compacts for a request that waits, and tries again.
    fn compact_for(&mut self, tenants: &dyn Tenants, want: Want, sync: bool) -> Option<u32> {
        if want.order == 0 || self.scanners.is_deferred(want.order) {
            return None;
        }
        if !want.context.may_io || !want.context.may_fs {
            return None;
        }
        self.stats.compact_stall += 1;
        let attempt = Attempt310 {
            order: want.order,
            list: want.list,
            sync,
            background: false,
            cpu: want.cpu,
        };
        if self.compact(tenants, attempt) == Outcome310::Skipped {
            return None;
        }
        self.drain_cpu(want.cpu);
        if let Some(frame) = self.take_above(want, self.marks.min, want.may()) {
            self.scanners.succeeded(want.order);
            self.stats.compact_success += 1;
            return Some(frame);
        }
        self.stats.compact_fail += 1;
        if sync {
            self.scanners.defer(want.order);
        }
        None
    }
}
