//! Blocks that leave a seat's caches off the fast path: one for a request, half of a cache that is over, all in a
//! drain.

use super::super::pageblock::Tag;
use super::super::zone::Zone;
use super::chains::low_bits;
use super::record::{CACHED_ORDERS, SeatWords, cache_number};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::units::{Mobility, Order};

impl<'m> SeatWords<'m> {
    /// Takes the youngest block out of the cache, if it is still this seat's.
    #[inline]
    pub(super) fn pop<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        order: Order,
    ) -> Option<usize> {
        loop {
            let offset = self.take_youngest(cache_number(mobility, order.index()))?;
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
        move_down(entries, young);
        self.set_cached(mobility, order.index(), keep);
    }

    /// Gives back some of the older half of one cache, if it has any: blocks of few pageblocks, because that takes a
    /// while for each.
    #[inline(never)] // or what it needs lies on the stack of all that its callers call
    pub(super) fn spill_some<P>(self, zone: &Zone<'m, P>, mobility: Mobility, order: Order) {
        let cached = self.cached(mobility, order.index());
        let entries = &self.entries(mobility, order.index())[..cached];
        let old = &entries[..cached.div_ceil(2)];
        let gone = zone.give_some(self, old, order, mobility);
        let mut staying = !gone & low_bits(cached);
        let mut left = 0;
        while staying != 0 {
            let from = staying.trailing_zeros() as usize;
            let end = from + (!(staying >> from)).trailing_zeros() as usize;
            move_down(&entries[left..], &entries[from..end]);
            left += end - from;
            staying &= !low_bits(end);
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

/// Moves entries to lower places of the same cache.
#[inline(always)]
fn move_down(to: &[AtomicU32], from: &[AtomicU32]) {
    let to = &to[..from.len()];
    // Four at a time: the compiler does not unroll a loop over atomics.
    let ((to, last_to), (from, last_from)) = (to.as_chunks::<4>(), from.as_chunks::<4>());
    for (to, from) in to.iter().zip(from) {
        let moved = from.each_ref().map(|from| from.load(Relaxed));
        for (to, moved) in to.iter().zip(moved) {
            to.store(moved, Relaxed);
        }
    }
    for (to, from) in last_to.iter().zip(last_from) {
        to.store(from.load(Relaxed), Relaxed);
    }
}
