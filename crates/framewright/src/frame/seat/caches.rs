//! Blocks that leave a seat's caches off the fast path: one for a request, half of a cache that is over, all in a
//! drain.

use super::super::pageblock::Tag;
use super::super::zone::Zone;
use super::record::{CACHED_ORDERS, SeatWords, cache_number};
use crate::sync::Ordering::Relaxed;
use crate::units::{Mobility, Order};

impl<'m> SeatWords<'m> {
    /// Takes the youngest block out of the cache, if it is still this seat's.
    pub(super) fn pop<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        order: Order,
    ) -> Option<usize> {
        loop {
            let cached = self.cached(mobility, order.index());
            let left = cached.checked_sub(1)?;
            let offset = self.youngest(cache_number(mobility, order.index()));
            self.set_cached(mobility, order.index(), left);
            if zone.tag(offset) == Tag::cached(self.number, order, mobility) {
                return Some(offset);
            }
            zone.count_corruption();
        }
    }

    /// Gives the oldest blocks of one cache back to their pageblocks, until `keep` are left.
    pub(in super::super) fn spill<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        order: Order,
        keep: usize,
    ) {
        let cached = self.cached(mobility, order.index());
        if cached <= keep {
            return;
        }
        let entries = &self.entries(mobility, order.index())[..cached];
        let (old, young) = entries.split_at(cached - keep);
        zone.give_cached(self, old, order, mobility);
        for (to, from) in entries.iter().zip(young) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.set_cached(mobility, order.index(), keep);
    }

    /// Gives back some of the older half of one cache, if it has any: blocks of few pageblocks, because that takes a
    /// while for each.
    pub(super) fn spill_some<P>(self, zone: &Zone<'m, P>, mobility: Mobility, order: Order) {
        let cached = self.cached(mobility, order.index());
        let entries = &self.entries(mobility, order.index())[..cached];
        let (old, young) = entries.split_at(cached.div_ceil(2));
        let gone = zone.give_some(self, old, order, mobility);
        let staying = old.iter().enumerate();
        let staying = staying.filter(|(nth, _)| gone >> nth & 1 == 0);
        let mut left = 0;
        for ((_, from), to) in staying.zip(entries) {
            to.store(from.load(Relaxed), Relaxed);
            left += 1;
        }
        for (from, to) in young.iter().zip(&entries[left..]) {
            to.store(from.load(Relaxed), Relaxed);
            left += 1;
        }
        self.set_cached(mobility, order.index(), left);
    }

    /// Gives back everything cached, and what is loose.
    pub(in super::super) fn drain<P>(self, zone: &Zone<'m, P>) {
        self.give_loose(zone);
        for mobility in Mobility::ALL {
            self.give_stock(zone, mobility);
        }
        for order in 0..CACHED_ORDERS {
            for mobility in Mobility::ALL {
                let order = Order::new(order as u8).expect("cached orders are small");
                self.spill(zone, mobility, order, 0);
            }
        }
    }
}
