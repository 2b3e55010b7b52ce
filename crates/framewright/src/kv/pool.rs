//! Records that are no slab's: a few in each seat's list, the rest in a list of all CPUs'.

use super::slab::Records;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// The most records that move between a seat and the pool at once.
const BATCH_MAX: u32 = 16;

/// The records that no seat has. Taken from and given to in batches, without a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool<'m> {
    /// The first record of the list, and above it how often the list has changed: so that who saw
    /// it before does not take an old list for the present one.
    head: &'m AtomicU64,
    /// How many records have ever been taken; those above have not been touched.
    fresh: &'m AtomicU64,
    records: Records<'m>,
    batch: u32,
}

impl<'m> Pool<'m> {
    pub(super) fn new(
        head: &'m AtomicU64,
        fresh: &'m AtomicU64,
        records: Records<'m>,
        cpus: u16,
    ) -> Self {
        let share = records.count() / (4 * u32::from(cpus));
        Self {
            head,
            fresh,
            records,
            batch: share.clamp(1, BATCH_MAX),
        }
    }

    /// How many records are taken at once.
    pub(super) const fn batch(self) -> u32 {
        self.batch
    }

    /// Takes a record, if there is any.
    pub(super) fn take(self) -> Option<u32> {
        // Acquire pairs with the Release in `give`: the link is seen.
        let mut head = self.head.load(Acquire);
        while let number @ 1.. = head as u32 {
            // It may have been taken meanwhile, and the link be any number: then the count has
            // changed, and so the exchange fails.
            let rest = changed(head, self.records.get(number).next());
            match self.head.compare_exchange_weak(head, rest, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(found) => head = found,
            }
        }
        let mut fresh = self.fresh.load(Relaxed);
        while fresh < u64::from(self.records.count()) {
            // Relaxed: nothing has been written into a fresh record.
            match self
                .fresh
                .compare_exchange_weak(fresh, fresh + 1, Relaxed, Relaxed)
            {
                Ok(_) => return Some(fresh as u32 + 1),
                Err(found) => fresh = found,
            }
        }
        None
    }

    /// Gives a record back.
    pub(super) fn give(self, number: u32) {
        let mut head = self.head.load(Relaxed);
        loop {
            self.records.get(number).set_next(head as u32);
            let first = changed(head, number);
            // Release: whoever takes it sees the link.
            match self
                .head
                .compare_exchange_weak(head, first, AcqRel, Relaxed)
            {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// How many records it has. Only where nobody takes or gives one meanwhile.
    pub(super) fn recount(self) -> u32 {
        let all = self.records.count();
        let mut count = all - self.fresh.load(Acquire) as u32;
        let mut next = self.head.load(Acquire) as u32;
        while next != 0 && count <= all {
            count += 1;
            next = self.records.get(next).next();
        }
        count
    }
}

/// The next head of the list: another record first, and changed once more.
const fn changed(head: u64, number: u32) -> u64 {
    ((head >> 32) + 1) << 32 | number as u64
}
