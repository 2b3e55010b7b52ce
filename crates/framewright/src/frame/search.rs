//! From a request to a pageblock: the cheapest candidate in the index, taken or passed by.

use super::block::Held;
use super::seat::{SeatWords, counter};
use super::zone::Zone;
use crate::policy::Label;
use crate::units::{Mobility, Order};

/// How many pageblocks of one row are tried before the next row is.
const TRIES: usize = 8;

/// What a request wants.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) order: Order,
    pub(super) mobility: Mobility,
}

/// What came of a row.
enum Outcome {
    /// There are this many blocks now, and the label was the requester's own.
    Own(usize),
    /// There are this many blocks now; it was a fallback.
    Fallback(usize),
    /// The row is empty.
    Empty,
    /// Other CPUs work in all of its pageblocks, or in all that were tried.
    Busy,
}

impl<'m, P> Zone<'m, P> {
    /// Takes as many blocks as fit into `out`, or fewer; returns how many. Never waits.
    ///
    /// Goes from pageblock to pageblock as long as no request for one block would have to fall
    /// back: a batch is no reason to break up what another mobility needs. Tags and the `NET`
    /// counter are the caller's.
    #[inline]
    pub(super) fn take_some(&self, seat: SeatWords<'m>, wanted: Wanted, out: &mut [u32]) -> usize {
        let mut taken = 0;
        let mut from = 0;
        // Other CPUs' pageblocks are left to them as long as there are others. Not so for what
        // cannot move: there, one more contaminated pageblock is the dearer evil.
        let mut spare = wanted.mobility.is_movable() && self.map.cpus > 1;
        loop {
            let list = wanted.mobility.index();
            let Some((rank, row)) = self.index.cheapest(list, wanted.order, from) else {
                if taken == 0 && spare {
                    (spare, from) = (false, 0);
                    continue;
                }
                return taken;
            };
            match self.take_from_row(seat, row, wanted, spare, out, taken) {
                Outcome::Own(now) => {
                    taken = now;
                    if taken == out.len() {
                        return taken;
                    }
                    from = 0;
                }
                Outcome::Fallback(now) => return now,
                Outcome::Empty => from = rank,
                Outcome::Busy => from = rank + 1,
            }
        }
    }

    #[inline]
    fn take_from_row(
        &self,
        seat: SeatWords<'m>,
        row: usize,
        wanted: Wanted,
        spare: bool,
        out: &mut [u32],
        taken: usize,
    ) -> Outcome {
        let end = self.policy.end(wanted.mobility);
        let (found, class) = self.row_parts(row);
        let mut at = None;
        for _ in 0..TRIES {
            let Some(id) = self.index.find(row, end, at) else {
                return if at.is_none() {
                    Outcome::Empty
                } else {
                    Outcome::Busy
                };
            };
            at = Some(id);
            if spare && self.reserved_by(id).is_some_and(|cpu| cpu != seat.number) {
                continue;
            }
            let Some(mut held) = self.try_lock(id) else {
                continue;
            };
            let meta = held.meta();
            if meta.class() != class || meta.orders() >> found & 1 == 0 || meta.is_isolated() {
                held.unlock();
                continue;
            }
            let label = meta.label();
            let is_own = label == Label::Of(wanted.mobility) || label == Label::Contiguous;
            if !is_own && taken > 0 {
                // Nothing more without a fallback: the batch ends here.
                held.unlock();
                return Outcome::Fallback(taken);
            }
            let becomes = if is_own {
                label
            } else {
                self.fall_back(seat, &held, wanted, found)
            };
            let now = held.take(found, wanted.order, wanted.mobility, out, taken);
            held.unlock_as(becomes, false);
            if self.map.cpus > 1 && wanted.mobility.is_movable() {
                self.reserve(seat, id);
            }
            return if is_own {
                Outcome::Own(now)
            } else {
                Outcome::Fallback(now)
            };
        }
        Outcome::Busy
    }

    /// Decides the label of a pageblock that a request falls back to, and counts it.
    #[cold]
    fn fall_back(
        &self,
        seat: SeatWords<'m>,
        held: &Held<'_, 'm, P>,
        wanted: Wanted,
        found: u8,
    ) -> Label {
        let facts = held.facts();
        let Label::Of(owner) = facts.label else {
            return facts.label;
        };
        let found = Order::new(found).expect("orders in a pageblock are small");
        let relabel = self.policy.is_relabelled(&facts, wanted.mobility, found);
        let pair = wanted.mobility.index() * 3 + owner.index();
        if relabel {
            seat.count(counter::RELABELS + pair, 1);
            Label::Of(wanted.mobility)
        } else {
            seat.count(counter::STEALS + pair, 1);
            facts.label
        }
    }

    /// Makes `id` the pageblock in which this CPU works, as a hint to the others.
    #[inline]
    fn reserve(&self, seat: SeatWords<'m>, id: usize) {
        let current = seat.current();
        if current == Some(id) {
            return;
        }
        if let Some(current) = current
            && self.reserved_by(current) == Some(seat.number)
        {
            self.set_reserved(current, None);
        }
        self.set_reserved(id, Some(seat.number));
        seat.set_current(id);
    }

    /// Takes one block from the high-order reserve.
    #[cold]
    pub(super) fn take_reserved(&self, wanted: Wanted) -> Option<usize> {
        let class = self
            .policy
            .classes()
            .number(crate::policy::Class::HighOrder);
        for found in wanted.order.get()..=self.map.pageblock_order {
            let row = self.row(usize::from(found), class);
            let end = self.policy.end(wanted.mobility);
            let Some(id) = self.index.find(row, end, None) else {
                continue;
            };
            let Some(mut held) = self.try_lock(id) else {
                continue;
            };
            let mut out = [0];
            let taken = if held.meta().orders() >> found & 1 != 0 {
                held.take(found, wanted.order, wanted.mobility, &mut out, 0)
            } else {
                0
            };
            held.unlock();
            if taken == 1 {
                return Some(out[0] as usize);
            }
        }
        None
    }
}
