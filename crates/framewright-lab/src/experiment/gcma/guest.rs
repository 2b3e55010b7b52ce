//! Guests without a job: one that fills the area, and one that is always busy.

use super::area::{Area, PoolIds};
use framewright::reserve::Key;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Pages of one object: a file of 4 MiB.
const OBJECT_PAGES: u64 = 1024;

/// The key of the `nth` page: of two in three files', of one swap's.
fn key(pools: PoolIds, nth: u64) -> Key {
    if nth.is_multiple_of(3) {
        return Key {
            pool: pools.swap,
            object: 0,
            index: nth / 3,
        };
    }
    Key {
        pool: pools.clean,
        object: nth / OBJECT_PAGES,
        index: nth % OBJECT_PAGES,
    }
}

/// A page of words that differ.
fn contents(nth: u64) -> [u64; 512] {
    std::array::from_fn(|word| nth << 16 | word as u64)
}

/// Fills the area with pages, each of which is new.
#[derive(Debug, Default)]
pub(super) struct Filler {
    next: u64,
}

impl Filler {
    /// Puts so many pages: if as many frames are free, none is afterwards.
    pub(super) fn put(&mut self, area: &dyn Area, pages: u64) {
        let (pools, mut page) = (area.pools(), contents(0));
        for nth in self.next..self.next + pages {
            page[0] = nth << 16;
            area.tenancy().with(&mut |store| {
                // What does not find room is not there: the area is as full as it can be.
                let _ = store.put(key(pools, nth), &page);
            });
        }
        self.next += pages;
    }
}

/// Gets pages at random, and puts those that are not there, until it is stopped.
pub(super) fn be_busy(area: &dyn Area, seed: u64, frames: u64, stop: &AtomicBool) {
    let (pools, mut page) = (area.pools(), contents(0));
    let mut n = seed;
    while !stop.load(Relaxed) {
        n = n
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let nth = (n >> 33) % frames;
        area.tenancy().with(&mut |store| {
            if !store.get(key(pools, nth), &mut page) {
                page = contents(nth);
                let _ = store.put(key(pools, nth), &page);
            }
        });
    }
}
