//! What a request may be served from: for each order the cheapest pageblock that has a block of it.
//!
//! A search looks at an order when no cheaper candidate is known, and remembers what it saw. When it has taken from a
//! pageblock, it looks again only where that changed something. So a batch from several pageblocks costs hardly more
//! looks at the index than one block.

use super::super::pageblock::{BlockIndex, Meta, Passing};
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use crate::policy::End;
use crate::slots::WORD_ORDER;
use crate::units::Order;
use core::ops::Range;

/// More than the orders inside a pageblock, which are 0 to 10: a power of two, so that a mask keeps an order inside.
pub(super) const ORDERS: usize = 16;

/// A request on its way through the candidates.
pub(super) struct BlockSearch {
    pub(super) list: usize,
    pub(super) wanted: WantedBlock,
    pub(super) end: End,
    /// Behind the largest order that a block may have.
    orders_end: usize,
    /// Whether to leave pageblocks in which other CPUs work to them, as long as there are others.
    pub(super) spare: bool,
    /// Whether it passed by a row because other CPUs work in its pageblocks.
    pub(super) met: bool,
    /// The rows that were empty.
    pub(super) passing: Passing,
    /// The orders at which the search has looked, a bit each.
    seen: u32,
    /// By order: what it adds to each class's cost.
    surcharge: [i32; ORDERS],
    /// By order: what the cheapest candidate costs, of those not passed by, with the surcharge; `NO_CANDIDATE` if there
    /// is none. Before a look what the cheapest class costs, whether or not that has a block.
    cost: [i32; ORDERS],
    /// By order seen: that candidate.
    pub(super) best: [Candidate; ORDERS],
}

/// A pageblock with a free block of some order.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) rank: u16,
    pub(super) class: u16,
    /// The row's pageblock nearest to the end from which the search takes.
    pub(super) id: u32,
}

/// More than any cost: the policy's are 16 bits, its surcharges not much more.
const NO_CANDIDATE: i32 = i32::MAX;

impl BlockSearch {
    #[inline(always)]
    pub(super) fn new<P>(zone: &Zone<'_, P>, wanted: WantedBlock, passing: Passing) -> Self {
        let pressure = zone.policy.pressure(&zone.zone_facts());
        let none = Candidate {
            rank: 0,
            class: 0,
            id: 0,
        };
        let mut search = Self {
            list: zone.policy.list(wanted.mobility, pressure),
            wanted,
            end: zone.policy.end(wanted.mobility),
            orders_end: usize::from(zone.map.pageblock_order) + 1,
            spare: zone.map.cpus > 1 && zone.policy.is_sparing(wanted.mobility, pressure),
            met: false,
            passing,
            seen: 0,
            surcharge: [0; ORDERS],
            cost: [NO_CANDIDATE; ORDERS],
            best: [none; ORDERS],
        };
        for order in search.orders() {
            let found = Order::new(order as u8).expect("orders in a pageblock are small");
            let surcharge = zone
                .policy
                .surcharge(pressure, wanted.mobility, wanted.order, found);
            search.surcharge[order % ORDERS] = surcharge;
            search.cost[order % ORDERS] = zone.index.least_cost(search.list, order) + surcharge;
        }
        search
    }

    /// The orders at which there may be a block.
    #[inline(always)]
    const fn orders(&self) -> Range<usize> {
        self.wanted.order.index()..self.orders_end
    }

    /// Forgets the pageblocks that it saw, and passes none by.
    #[cold]
    pub(super) fn look_again(&mut self, index: &BlockIndex<'_>) {
        self.seen = 0;
        self.met = false;
        for order in self.orders() {
            let least = index.least_cost(self.list, order);
            self.cost[order % ORDERS] = least + self.surcharge[order % ORDERS];
        }
    }

    /// Looks at one order, from rank `from` on.
    #[inline(always)]
    fn look(&mut self, index: &BlockIndex<'_>, order: usize, from: usize) {
        self.seen |= 1 << order;
        let row = (self.list, order);
        let found = index.first(row, from, self.end, &mut self.passing);
        self.cost[order % ORDERS] = match found {
            Some(found) => {
                self.best[order % ORDERS] = Candidate {
                    rank: found.rank as u16,
                    class: found.class as u16,
                    id: found.id as u32,
                };
                found.cost + self.surcharge[order % ORDERS]
            }
            None => NO_CANDIDATE,
        };
    }

    /// The same behind a candidate that turned out to be none, or in a better row.
    #[inline(never)]
    pub(super) fn look_from(&mut self, index: &BlockIndex<'_>, order: usize, from: usize) {
        self.look(index, order, from);
    }

    /// The order of the cheapest candidate, the smallest order of equals. Does not look at an order
    /// if its cheapest class costs more than a candidate already seen.
    #[inline(never)]
    pub(super) fn cheapest(&mut self, index: &BlockIndex<'_>) -> Option<usize> {
        let mut cheapest = None;
        let mut least = NO_CANDIDATE;
        for order in self.orders() {
            if self.cost[order % ORDERS] >= least {
                continue;
            }
            if self.seen >> order & 1 == 0 {
                self.look(index, order, 0);
                if self.cost[order % ORDERS] >= least {
                    continue;
                }
            }
            least = self.cost[order % ORDERS];
            cheapest = Some(order);
        }
        cheapest
    }

    /// Whether a block of at least a word is the cheapest candidate, which is of `order`, or would be, if there were one in
    /// the cheapest class.
    pub(super) fn may_prefer_words(&self, index: &BlockIndex<'_>, order: usize) -> bool {
        let words = usize::from(WORD_ORDER);
        let is_cheaper = |large: usize| {
            let least = index.least_cost(self.list, large) + self.surcharge[large % ORDERS];
            least < self.cost[order % ORDERS]
        };
        order >= words || (words..self.orders_end).any(is_cheaper)
    }

    /// Brings what it saw up to date after the search has taken from pageblock `id`, which is as `now` says. It looks
    /// only at orders at which that pageblock was the candidate, or is a better one now.
    #[inline(never)]
    pub(super) fn look_after<P>(&mut self, zone: &Zone<'_, P>, id: usize, now: Meta) {
        if self.met {
            // Another CPU may have left a row that was passed by.
            return self.look_again(&zone.index);
        }
        let mut seen = self.seen;
        while seen != 0 {
            let order = seen.trailing_zeros() as usize;
            seen &= seen - 1;
            // The rank up to which all rows are empty, but for the pageblock.
            let mut rank = usize::MAX;
            let mut from = usize::MAX;
            if self.cost[order % ORDERS] != NO_CANDIDATE {
                let best = self.best[order % ORDERS];
                rank = usize::from(best.rank);
                if best.id as usize == id {
                    from = rank;
                }
            }
            if now.orders() >> order & 1 != 0
                && let Some(better) = zone.index.rank(self.list, zone.row(order, now.class()))
                && better <= rank
            {
                from = better;
            }
            if from != usize::MAX {
                self.look_from(&zone.index, order, from);
            }
        }
    }
}
