//! Reclaim in rounds of falling priority over all clients, shared by requests and the background: each brings its
//! own `Scan`, which says how hard to look and when enough is reclaimed.

use super::Kernel310;
use super::fallback::COSTLY_ORDER;
use super::watermark::{Privileges, Suitable};
use crate::pressure::{Frees, Tenants};
use framewright::reclaim::Ask;
use framewright::{Context, CpuId, Frame, Order};

/// Frames that a client is asked for at a time, and that a request reclaims (`SWAP_CLUSTER_MAX`).
pub(super) const CLUSTER: u64 = 32;

/// Where reclaim begins: a client is asked to look at a 2^12th of what it holds.
pub(super) const DEF_PRIORITY: u8 = 12;

/// One reclaim, of a request or of the background: its priority, and what came of it so far
/// (`scan_control`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    pub(super) order: u8,
    pub(super) priority: u8,
    pub(super) context: Context,
    pub(super) background: bool,
    pub(super) reclaimed: u64,
}

impl Scan {
    /// The background's, before its first round.
    pub(super) const fn background(order: u8) -> Self {
        Self {
            order,
            priority: DEF_PRIORITY,
            context: Context::ANY,
            background: true,
            reclaimed: 0,
        }
    }
}

impl Frees for Kernel310 {
    fn give(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free_checked(cpu, frame, order);
    }
}

impl Kernel310 {
    /// Reclaims for a request that waits. Returns the number of frames, or 1 if it got none but
    /// compaction or another reclaim may bring some. 0: memory has run out.
    pub(super) fn direct_reclaim(
        &mut self,
        tenants: &dyn Tenants,
        order: u8,
        context: Context,
    ) -> u64 {
        self.stats.allocstall[usize::from(order)] += 1;
        let mut scan = Scan {
            context,
            background: false,
            ..Scan::background(order)
        };
        let mut leaves_to_compaction = false;
        for priority in (0..=DEF_PRIORITY).rev() {
            scan.priority = priority;
            if priority == DEF_PRIORITY || self.is_reclaimable(tenants) {
                leaves_to_compaction = self.is_ready_to_compact(order);
                if !leaves_to_compaction {
                    self.shrink_zone(tenants, &mut scan);
                }
            }
            if scan.reclaimed >= CLUSTER || leaves_to_compaction {
                break;
            }
        }
        if scan.reclaimed > 0 {
            scan.reclaimed
        } else {
            u64::from(leaves_to_compaction || self.is_reclaimable(tenants))
        }
    }

    /// Whether the clients have not yet been gone through six times without a frame freed.
    pub(super) fn is_reclaimable(&self, tenants: &dyn Tenants) -> bool {
        self.pages_scanned < 6 * held(tenants)
    }

    /// One round over the clients, and more as long as a large order has too little to be compacted
    /// from.
    pub(super) fn shrink_zone(&mut self, tenants: &dyn Tenants, scan: &mut Scan) {
        loop {
            let before = scan.reclaimed;
            self.shrink_clients(tenants, scan);
            if scan.reclaimed == before || !self.continues(tenants, scan) {
                return;
            }
        }
    }

    /// Asks each client to look at its part for this priority, a cluster of each in turns. A
    /// request stops when it has a cluster; the background looks at all of it.
    fn shrink_clients(&mut self, tenants: &dyn Tenants, scan: &mut Scan) {
        let clients = tenants.shrinkers();
        let mut parts = core::mem::take(&mut self.parts);
        parts.clear();
        parts.extend(clients.iter().map(|client| {
            let part = client.holding() >> scan.priority;
            match scan.priority {
                // At the last priority no client is spared for its heat.
                0 => part,
                _ => part * (256 - u64::from(client.heat())) / 256,
            }
        }));
        let mut reclaimed = 0;
        let mut any = true;
        while any && (scan.background || reclaimed < CLUSTER) {
            any = false;
            for (client, part) in clients.iter().zip(&mut parts) {
                if *part == 0 {
                    continue;
                }
                any = true;
                let cluster = (*part).min(CLUSTER);
                *part -= cluster;
                self.pages_scanned += cluster;
                let ask = Ask {
                    wanted: cluster,
                    scan: cluster,
                    order: Order::new(scan.order).unwrap_or(Order::ZERO),
                    context: scan.context,
                };
                let shrunk = client.shrink(self as &mut dyn Frees, &ask);
                reclaimed += shrunk.freed;
                let stats = &mut self.stats;
                if scan.background {
                    stats.pgscan_kswapd += shrunk.scanned;
                    stats.pgsteal_kswapd += shrunk.freed;
                } else {
                    stats.pgscan_direct += shrunk.scanned;
                    stats.pgsteal_direct += shrunk.freed;
                }
            }
        }
        scan.reclaimed += reclaimed;
        self.parts = parts;
    }

    /// Whether to go on at this priority: only for large orders or in need, until there are frames
    /// of two blocks, if the clients hold that many, or compaction would run
    /// (`should_continue_reclaim`).
    fn continues(&self, tenants: &dyn Tenants, scan: &Scan) -> bool {
        let compacts =
            scan.order > 0 && (scan.order > COSTLY_ORDER || scan.priority < DEF_PRIORITY - 2);
        if !compacts {
            return false;
        }
        let wanted = 2 << scan.order;
        (scan.reclaimed < wanted && held(tenants) > wanted)
            || self.suitable(scan.order) == Suitable::Skipped
    }

    /// Whether a request of a large order does better to compact than to reclaim.
    fn is_ready_to_compact(&mut self, order: u8) -> bool {
        if order <= COSTLY_ORDER {
            return false;
        }
        let mark = self.marks.high + self.balance_gap() + (2 << order);
        let is_enough = self.is_above(0, mark, Privileges::NONE);
        if self.scanners.is_deferred(order) {
            return is_enough;
        }
        self.suitable(order) != Suitable::Skipped && is_enough
    }
}

fn held(tenants: &dyn Tenants) -> u64 {
    let clients = tenants.shrinkers();
    clients.iter().map(|client| client.holding()).sum()
}
