//! A guest, and its record of its pages.

use super::{POISON, PageName, PoisonReport, PoisonShared};
use crate::Random;
use framewright::reserve::{Key, PoolId, Store};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What a guest knows of one of its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KnownPage {
    /// No get may find it.
    Absent,
    /// A get may find it.
    Clean,
    /// A get finds it, unless it is on the device.
    Dirty,
}

struct GuestAtWork<'s> {
    shared: &'s PoisonShared<'s>,
    nth: u64,
    store: Box<dyn Store + 's>,
    pools: Vec<PoolId>,
    /// For each page of each pool: what is known of it, and its version.
    pages: Vec<Vec<(KnownPage, u64)>>,
    report: PoisonReport,
}

impl GuestAtWork<'_> {
    fn key(&self, pool: usize, index: u64) -> Key {
        Key {
            pool: self.pools[pool],
            object: self.shared.pools[pool].object(self.nth, index),
            index,
        }
    }

    fn name(&self, pool: usize, index: u64) -> PageName {
        PageName {
            guest: self.nth,
            pool: pool as u64,
            index,
            version: self.pages[pool][index as usize].1,
        }
    }

    fn put(&mut self, pool: usize, index: u64, dirty: bool) {
        let at = (pool, index as usize);
        self.pages[at.0][at.1].1 += 1;
        let (key, page) = (self.key(pool, index), self.name(pool, index).page());
        let put = match dirty {
            true => self.store.put_dirty(key, &page),
            false => self.store.put(key, &page),
        };
        self.pages[at.0][at.1].0 = match (put, dirty) {
            (Err(_), _) => KnownPage::Absent,
            (Ok(()), true) => KnownPage::Dirty,
            (Ok(()), false) => KnownPage::Clean,
        };
        match put {
            Ok(()) => self.report.stored += 1,
            Err(_) => self.report.refused += 1,
        }
    }

    fn get(&mut self, pool: usize, index: u64) {
        let (key, name) = (self.key(pool, index), self.name(pool, index));
        let mut out = [POISON; 512];
        let is_hit = self.store.get(key, &mut out);
        let known = &mut self.pages[pool][index as usize].0;
        if !is_hit {
            self.report.misses += 1;
            let was = std::mem::replace(known, KnownPage::Absent);
            let device = self.shared.on_device(name).map(|word| word.load(SeqCst));
            if was == KnownPage::Dirty && device != Some(name.version) {
                self.shared
                    .wrong(format!("C7: {name:?} is lost; on its device: {device:?}"));
            }
            return;
        }
        self.report.hits += 1;
        let found = PageName::read(&out);
        if *known == KnownPage::Absent {
            self.shared
                .wrong(format!("C5, C6: {found:?} is found, and is gone"));
        } else if found != Some(name) {
            let ends = [out[0], out[511]];
            self.shared.wrong(format!(
                "C4: {found:?} is found for {name:?}, its ends {ends:x?}"
            ));
        }
        if self.shared.pools[pool].exclusive {
            *known = KnownPage::Absent;
        }
    }

    fn invalidate(&mut self, pool: usize, index: u64, what: u64) {
        self.report.invalidated += 1;
        let key = self.key(pool, index);
        let is_meant: &dyn Fn(u64) -> bool = match what {
            0 => {
                self.store.invalidate_page(key);
                &|other| other == index
            }
            1 => {
                self.store.invalidate_object(key.pool, key.object);
                &|other| self.shared.pools[pool].object(self.nth, other) == key.object
            }
            _ => {
                let was_there = self.store.invalidate_pool(key.pool);
                match self.shared.site.open_pool(pool) {
                    Some(next) if was_there => self.pools[pool] = next,
                    next => {
                        let (old, is) = (key.pool, was_there);
                        self.shared.wrong(format!(
                            "{old:?} was there: {is}; and after it there is {next:?}"
                        ));
                    }
                }
                &|_| true
            }
        };
        for (other, page) in (0..).zip(&mut self.pages[pool]) {
            if is_meant(other) {
                page.0 = KnownPage::Absent;
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let pool = random.below(self.pools.len() as u64) as usize;
        let index = random.below(self.shared.plan.pages);
        match random.below(20_000) {
            0 => self.invalidate(pool, index, 2),
            1..=20 if self.shared.pools[pool].has_objects => self.invalidate(pool, index, 1),
            1..=1000 => self.invalidate(pool, index, 0),
            1001..=10_000 => {
                let dirty = self.shared.pools[pool].may_be_dirty && random.chance(60);
                self.put(pool, index, dirty);
            }
            _ => self.get(pool, index),
        }
    }
}

pub(super) fn guest(shared: &PoisonShared<'_>, nth: u16) {
    /// Even if the engine panics, the others must not wait for ever.
    struct Left<'a>(&'a AtomicU64);
    impl Drop for Left<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    let _left = Left(&shared.guests_left);
    // Before anything that may panic, because a thread here waits for all.
    shared.start.wait();
    let pools: Option<Vec<_>> = (0..shared.pools.len())
        .map(|pool| shared.site.open_pool(pool))
        .collect();
    let pages = vec![(KnownPage::Absent, 0); shared.plan.pages as usize];
    let mut guest = GuestAtWork {
        shared,
        nth: u64::from(nth),
        store: shared.site.guest(nth),
        pages: vec![pages; shared.pools.len()],
        pools: pools.unwrap_or_default(),
        report: PoisonReport::default(),
    };
    if guest.pools.is_empty() {
        return shared.wrong(format!("guest {nth} has no pools"));
    }
    let mut random = shared.random(u64::from(nth));
    for _ in 0..shared.plan.ops.div_ceil(shared.plan.guests.into()) {
        if shared.is_over.load(Relaxed) {
            break;
        }
        guest.step(&mut random);
    }
    // Includes the pages that are still there.
    for pool in 0..guest.pools.len() {
        (0..shared.plan.pages).for_each(|index| guest.get(pool, index));
    }
    shared.add(&guest.report);
}
