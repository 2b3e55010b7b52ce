//! What a request may be served from: for each order the cheapest pageblock that has a block of it.
//!
//! A search looks at an order when no cheaper candidate is known, and remembers what it saw. When it has taken from a
//! pageblock, it looks again only where that changed something. So a batch from several pageblocks costs hardly more
//! looks at the index than one block.

use super::super::pageblock::{BlockIndex, Meta, Passing};
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::record::SeatWords;
use crate::policy::{End, Pressure};
use crate::slots::WORD_ORDER;
use crate::units::Order;
use core::ops::Range;

/// More than the orders inside a pageblock, which are 0 to 10: a power of two, so that a mask keeps an order inside.
pub(super) const ORDERS: usize = 16;

/// How a request goes through a row.
#[derive(Clone, Copy)]
pub(super) struct RowSearch {
    pub(super) wanted: WantedBlock,
    pub(super) end: End,
    /// Whether to leave pageblocks in which other CPUs work to them, as long as there are others.
    pub(super) spare: bool,
    /// The rows that were empty.
    pub(super) passing: Passing,
}

impl RowSearch {
    #[inline(always)]
    pub(super) fn new<P>(
        zone: &Zone<'_, P>,
        (wanted, pressure): (WantedBlock, Pressure),
        passing: Passing,
    ) -> Self {
        Self {
            wanted,
            end: zone.policy.end(wanted.mobility),
            spare: zone.map.cpus > 1 && zone.policy.is_sparing(wanted.mobility, pressure),
            passing,
        }
    }
}

/// A request on its way through the candidates.
pub(super) struct BlockSearch {
    pub(super) list: usize,
    pub(super) row: RowSearch,
    /// Behind the largest order that a block may have.
    orders_end: usize,
    /// Whether it passed by a row because other CPUs work in its pageblocks.
    pub(super) met: bool,
    /// Whether it has tried a pageblock, and taken from another of the row.
    pub(super) strayed: bool,
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

/// What a CPU's last look at the index came to, in a word, so that its next one may be spared. It holds as long as no
/// pageblock has come into a row of the index since: until then candidates only go.
///
/// - *None* of a request: the index had no block for it, nor for a larger one of its mobility. All lists of a mobility have
///   the same rows, so pressure makes no difference. This one fails a request, so it says more: no search was tidying up
///   during the look, and it holds only until one begins to.
/// - The *cheapest* for a request under some pressure: the row of its candidate, and the pageblock that the CPU then took
///   from. No pageblock has a candidate before that row, but for this one, which has changed. So the cheapest candidate is now
///   one of this pageblock, or else the row's nearest. An empty row says nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchNote(u64);

impl SearchNote {
    /// Says nothing.
    pub(super) const NOTHING: Self = Self(0);
    /// What kind of note it is: the lowest bits.
    const HAS_NONE: u64 = 2;
    const CHEAPEST: u64 = 1;
    /// Kind and request: above them are the order and the rank, and the pageblock in the upper half.
    const ASKED: u64 = 0xfff;

    /// The seat's note, if it holds after these insertions.
    #[inline(always)]
    pub(super) fn of(seat: SeatWords<'_>, insertions: u64) -> Self {
        Self(seat.noted(insertions))
    }

    /// The seat's note, whether or not it holds.
    #[inline(always)]
    pub(super) fn last(seat: SeatWords<'_>) -> Self {
        Self(seat.noted_last())
    }

    /// Makes it the seat's.
    #[inline(always)]
    pub(super) fn keep(self, seat: SeatWords<'_>, insertions: u64) {
        seat.note(self.0, insertions);
    }

    /// Order and mobility of a request, of a pageblock's order at most.
    #[inline(always)]
    const fn request(wanted: WantedBlock) -> u64 {
        (wanted.order.get() as u64) << 8 | (wanted.mobility.index() as u64) << 6
    }

    /// The row of the cheapest candidate for a request, of `order`, and the pageblock that was taken from.
    #[inline(always)]
    pub(super) const fn cheapest(
        (wanted, pressure): (WantedBlock, Pressure),
        (order, rank): (usize, u16),
        id: usize,
    ) -> Self {
        let place = (id as u64) << 32 | (rank as u64) << 16 | (order as u64) << 12;
        let pressure = (pressure.number() as u64) << 2;
        Self(place | Self::request(wanted) | pressure | Self::CHEAPEST)
    }

    /// The same after a further block, of pageblock `id`.
    #[inline(always)]
    pub(super) const fn after(self, id: usize) -> Self {
        Self(self.0 as u32 as u64 | (id as u64) << 32)
    }

    /// Whether it tells of the cheapest candidate for a request.
    #[inline(always)]
    pub(super) const fn is_cheapest_for(self, asked: (WantedBlock, Pressure)) -> bool {
        (self.0 ^ Self::cheapest(asked, (0, 0), 0).0) & Self::ASKED == 0
    }

    /// The cheapest candidate for the request now, and of which order it is.
    #[inline(always)]
    pub(super) fn cheapest_now<P>(
        self,
        zone: &Zone<'_, P>,
        (wanted, pressure): (WantedBlock, Pressure),
    ) -> Option<(usize, Candidate)> {
        let list = zone.policy.list(wanted.mobility, pressure);
        let surcharge = |order: usize| {
            let found = Order::new(order as u8).unwrap_or(Order::MAX);
            let policy = &zone.policy;
            policy.surcharge(pressure, wanted.mobility, wanted.order, found)
        };
        let order = (self.0 >> 12 & 0xf) as usize;
        let rank = (self.0 >> 16 & 0xffff) as usize;
        let (class, cost) = zone.index.class(list, order, rank);
        // By cost, order and rank: the row.
        let mut best = (cost + surcharge(order), order, rank);
        let mut found = None;
        let id = (self.0 >> 32) as usize;
        let meta = zone.meta(id);
        if !meta.is_isolated() {
            let mut orders = meta.orders() >> wanted.order.get() << wanted.order.get();
            while orders != 0 {
                let order = orders.trailing_zeros() as usize;
                orders &= orders - 1;
                if let Some(rank) = zone.index.rank(list, zone.row(order, meta.class())) {
                    let (class, cost) = zone.index.class(list, order, rank);
                    let of_this = (cost + surcharge(order), order, rank);
                    if of_this < best {
                        best = of_this;
                        found = Some((class, id));
                    }
                }
            }
        }
        let (_, order, rank) = best;
        let (class, id) = match found {
            Some(found) => found,
            None => {
                let row = zone.row(order, class as u16);
                let end = zone.policy.end(wanted.mobility);
                (class, zone.index.find_at_end(row, end)?)
            }
        };
        let candidate = Candidate {
            rank: rank as u16,
            class: class as u16,
            id: id as u32,
        };
        Some((order, candidate))
    }

    /// The index has no such block.
    pub(super) const fn none(wanted: WantedBlock) -> Self {
        Self(Self::request(wanted) | Self::HAS_NONE)
    }

    /// Whether the index had no such block.
    #[inline(always)]
    pub(super) const fn has_none(self, wanted: WantedBlock) -> bool {
        let than = Self::none(wanted).0;
        // The same kind and mobility, of the same order or a smaller one.
        (self.0 ^ than) & 0xff == 0 && self.0 <= than
    }
}

/// More than any cost: the policy's are 16 bits, its surcharges not much more.
const NO_CANDIDATE: i32 = i32::MAX;

impl BlockSearch {
    #[inline(always)]
    pub(super) fn new<P>(
        zone: &Zone<'_, P>,
        (wanted, pressure): (WantedBlock, Pressure),
        passing: Passing,
    ) -> Self {
        let none = Candidate {
            rank: 0,
            class: 0,
            id: 0,
        };
        let mut search = Self {
            list: zone.policy.list(wanted.mobility, pressure),
            row: RowSearch::new(zone, (wanted, pressure), passing),
            orders_end: usize::from(zone.map.pageblock_order) + 1,
            met: false,
            strayed: false,
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
        self.row.wanted.order.index()..self.orders_end
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
        let found = index.first(row, from, self.row.end, &mut self.row.passing);
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
