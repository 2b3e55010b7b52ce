//! The background as a state machine that is given time in looks: awake, napping or asleep. It keeps where it is
//! between two calls, because a replay runs it in slices as trace time passes.

use super::Kernel310;
use super::compact::Attempt310;
use super::lists::UNMOVABLE;
use super::reclaim::{CLUSTER, DEF_PRIORITY, Scan};
use super::watermark::{Privileges, Suitable};
use crate::pressure::Tenants;

/// What the background is doing.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Until a request wakes it.
    Asleep,
    /// Its short sleep, to see whether it lasts: so much of it is left.
    Nap { left: u64 },
    /// Balancing the zone.
    Awake(Scan),
}

/// The background reclaimer between two calls (`kswapd`).
#[derive(Debug)]
pub(super) struct Kswapd {
    phase: Phase,
    /// The order it balances for, and the one it reads at the top of its loop.
    order: u8,
    next_order: u8,
    /// The order that the last balancing ended with.
    balanced_order: u8,
    /// The largest order asked for since it last looked (`kswapd_max_order`).
    asked_order: u8,
    /// Looks it has time for; below zero what it has taken in advance, as a step cannot be cut.
    credit: i64,
    /// How long the short sleep is, in looks.
    short_sleep: u64,
}

impl Kswapd {
    pub(super) const fn new(short_sleep: u64) -> Self {
        Self {
            phase: Phase::Asleep,
            order: 0,
            next_order: 0,
            balanced_order: 0,
            asked_order: 0,
            credit: 0,
            short_sleep,
        }
    }

    pub(super) const fn is_awake(&self) -> bool {
        !matches!(self.phase, Phase::Asleep)
    }

    fn balance(&mut self, order: u8) {
        self.order = order;
        self.phase = Phase::Awake(Scan::background(order));
    }

    /// On with what was asked for in the meantime.
    fn resume(&mut self) {
        self.next_order = self.asked_order;
        self.asked_order = 0;
        self.balance(self.next_order);
    }
}

impl Kernel310 {
    /// Tells the background of a request, and wakes it if it sleeps and the zone is below low at the
    /// order.
    pub(super) fn wake(&mut self, order: u8) {
        let background = &mut self.background;
        background.asked_order = background.asked_order.max(order);
        let is_napping = match background.phase {
            Phase::Awake(_) => return,
            Phase::Nap { .. } => true,
            Phase::Asleep => false,
        };
        if self.is_above(order, self.marks.low, Privileges::NONE) {
            return;
        }
        self.stats.kswapd_wake += 1;
        self.stats.kswapd_low_wmark_hit_quickly += u64::from(is_napping);
        self.background.resume();
    }

    /// Gives the background time for `looks` looks: a frame that a client looked at or a scanner of
    /// compaction passed is one, and so is each round; while it naps, time passes.
    pub(super) fn run_background(&mut self, tenants: &dyn Tenants, looks: u64) {
        self.background.credit += looks as i64;
        while self.background.credit > 0 {
            match self.background.phase {
                Phase::Asleep => {
                    self.background.credit = 0;
                    return;
                }
                Phase::Nap { left } => {
                    let now = left.min(self.background.credit as u64);
                    self.background.credit -= now as i64;
                    self.background.phase = Phase::Nap { left: left - now };
                    if left == now {
                        self.end_nap(tenants);
                    }
                }
                Phase::Awake(scan) => {
                    let before = self.background_looks();
                    self.balance_once(tenants, scan);
                    let looks = self.background_looks() - before;
                    self.background.credit -= looks as i64 + 1;
                }
            }
        }
    }

    /// The order that the background balanced for at last.
    #[cfg(test)]
    pub(super) fn background_order(&self) -> u8 {
        self.background.balanced_order
    }

    fn background_looks(&self) -> u64 {
        let stats = &self.stats;
        stats.pgscan_kswapd + stats.compact_migrate_scanned + stats.compact_free_scanned
    }

    /// Whether the background may sleep: a zone that has nothing to give counts as balanced.
    fn may_sleep(&self, tenants: &dyn Tenants, order: u8) -> bool {
        !self.is_reclaimable(tenants) || self.is_balanced(order, 0)
    }

    /// The top of its loop. It goes on if a request has asked for a larger order meanwhile; otherwise
    /// it tries to sleep.
    fn turn(&mut self, tenants: &dyn Tenants, balanced_order: u8) {
        let background = &mut self.background;
        background.balanced_order = balanced_order;
        if balanced_order == background.next_order {
            background.next_order = core::mem::take(&mut background.asked_order);
        }
        if background.order < background.next_order {
            background.balance(background.next_order);
        } else if self.may_sleep(tenants, balanced_order) {
            self.background.phase = Phase::Nap {
                left: self.background.short_sleep,
            };
        } else {
            self.stats.kswapd_high_wmark_hit_quickly += 1;
            self.background.resume();
        }
    }

    /// No request has cut the nap short. If the zone is balanced, the background sleeps, and
    /// compaction drops its hints if a request's scan has seen the whole zone.
    fn end_nap(&mut self, tenants: &dyn Tenants) {
        if self.may_sleep(tenants, self.background.balanced_order) {
            self.scanners.flush_if_due();
            self.background.phase = Phase::Asleep;
        } else {
            self.stats.kswapd_high_wmark_hit_quickly += 1;
            self.background.resume();
        }
    }

    /// One round of balancing at one priority.
    fn balance_once(&mut self, tenants: &dyn Tenants, mut scan: Scan) {
        let order = scan.order;
        let is_looked_at = scan.priority == DEF_PRIORITY || self.is_reclaimable(tenants);
        if !is_looked_at || self.is_balanced(order, 0) {
            return self.balanced(tenants, order);
        }
        // Not more than compaction needs to do the rest.
        let by_compaction = order > 0 && self.suitable(order) != Suitable::Skipped;
        let tested = if by_compaction { 0 } else { order };
        if !self.is_balanced(tested, self.balance_gap()) {
            self.shrink_zone(tenants, &mut scan);
        }
        if self.may_sleep(tenants, order) {
            return self.balanced(tenants, order);
        }
        self.background.phase = if scan.reclaimed >= CLUSTER {
            Phase::Awake(Scan::background(order))
        } else if scan.priority == 0 {
            // All was scanned, and the order is not there: from now on only single frames count.
            Phase::Awake(Scan::background(0))
        } else {
            scan.priority -= 1;
            Phase::Awake(scan)
        };
    }

    /// Balanced at `order`: compacts if a request of the order would still fail.
    fn balanced(&mut self, tenants: &dyn Tenants, order: u8) {
        if order > 0 && !self.is_above(order, self.marks.low, Privileges::NONE) {
            self.compact_in_background(tenants, order);
        }
        self.turn(tenants, order);
    }

    fn compact_in_background(&mut self, tenants: &dyn Tenants, order: u8) {
        if !self.scanners.is_deferred(order) {
            self.stats.compact_daemon_wake += 1;
            let attempt = Attempt310 {
                order,
                list: UNMOVABLE,
                sync: false,
                background: true,
                cpu: 0,
            };
            self.compact(tenants, attempt);
        }
        if self.is_above(order, self.marks.low, Privileges::NONE) {
            self.scanners.raise_failed(order);
        }
    }
}
