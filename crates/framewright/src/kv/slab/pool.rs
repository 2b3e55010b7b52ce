//! Records without a slab: a few in each seat's list, the rest in a set that all CPUs share.

use super::Records;
use crate::slots::Tree;
use crate::sync::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// The most records that move between a seat and the pool at once.
const BATCH_MAX: u32 = 16;

/// The records that no seat has: a set that CPUs take from and give to without a lock. A record is
/// in it or not, and no link leads to it: so a CPU that was off for long between two steps takes no
/// record twice.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RecordPool<'m> {
    /// The records that were given back.
    given: Tree<'m>,
    /// How often a record was given back: 64 bits.
    gives: &'m AtomicU64,
    /// How many records have ever been taken; those above hold anything.
    fresh: &'m AtomicU64,
    records: u32,
    batch: u32,
}

impl<'m> RecordPool<'m> {
    pub(in super::super) fn new(
        given: Tree<'m>,
        gives: &'m AtomicU64,
        fresh: &'m AtomicU64,
        records: u32,
        cpus: u16,
    ) -> Self {
        let share = records / (4 * u32::from(cpus));
        Self {
            given,
            gives,
            fresh,
            records,
            batch: share.clamp(1, BATCH_MAX),
        }
    }

    /// How many records move at once.
    pub(in super::super) const fn batch(self) -> u32 {
        self.batch
    }

    /// Takes a record, if there is any. It holds what its last slab wrote, or zeroes.
    pub(in super::super) fn take(self, records: Records<'_>) -> Option<u32> {
        self.take_given().or_else(|| {
            let fresh = self.take_fresh()?;
            records.get(fresh).clear();
            Some(fresh)
        })
    }

    /// Looks again only if another CPU took the record that was found, or gave one back meanwhile.
    fn take_given(self) -> Option<u32> {
        loop {
            let gives = self.gives.load(SeqCst);
            match self.given.first() {
                // The taker sees what the record's last slab wrote into it.
                Some(number) if self.given.remove(number) => return Some(number as u32),
                Some(_) => {}
                None if self.gives.load(SeqCst) == gives => return None,
                None => {}
            }
        }
    }

    fn take_fresh(self) -> Option<u32> {
        let mut fresh = self.fresh.load(Relaxed);
        while fresh < u64::from(self.records) {
            // Relaxed: no CPU reads or writes a fresh record before the one that takes it.
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

    /// Takes this record, if it was given back and no CPU has taken it since.
    #[cfg(all(test, loom))]
    pub(in super::super) fn remove(self, number: u32) -> bool {
        self.given.remove(number as usize)
    }

    /// Gives a record back.
    pub(in super::super) fn give(self, number: u32) {
        self.given.insert(number as usize);
        self.gives.fetch_add(1, SeqCst);
    }

    /// How many records have ever been taken: those up to this number.
    pub(in super::super) fn fresh(self) -> u32 {
        self.fresh.load(Relaxed).min(self.records.into()) as u32
    }

    /// Whether it has a record that was taken before. Only for use while no CPU takes or gives one; so is the next one.
    pub(in super::super) fn has(self, number: u32) -> bool {
        let number = number as usize;
        self.given.first_from(number) == Some(number)
    }

    /// Whether its set is intact: only records that were taken before were given back.
    pub(in super::super) fn is_consistent(self) -> bool {
        let taken = 1..=self.fresh() as usize;
        self.given.iter().all(|number| taken.contains(&number)) && self.given.is_consistent()
    }
}
