//! What guests do: put, get, invalidate, clean. The model knows which page was put last under each key, and which of them
//! must not be lost.

use super::super::{Ground, POOLS, ReserveLie};
use super::{PagePlace, PairChecked, PutPage, ReservePair};
use crate::difference::differ;
use framewright::reserve::{Key, PutRefused};

impl ReservePair<'_, '_, '_> {
    pub(super) fn put(
        &mut self,
        cpu: u16,
        at: PagePlace,
        is_dirty: bool,
        is_value: bool,
    ) -> PairChecked {
        self.stamps += 1;
        let stamp = self.stamps;
        let page = if is_value {
            [stamp << 1; 512]
        } else {
            Ground::page(stamp)
        };
        let key = self.key(at);
        let old = self.pages.remove(&at);
        let stored = if self.lies(ReserveLie::StoreAnother) {
            Ground::page(stamp + 1000)
        } else {
            page
        };
        let guest = &mut self.guests[usize::from(cpu)];
        let put = if is_dirty {
            guest.put_dirty(key, &stored)
        } else {
            guest.put(key, &stored)
        };
        self.count(put.is_ok());
        let config = POOLS[at.0];
        let dirty = if is_dirty {
            self.pages.dirty_of(at.0)
        } else {
            0
        };
        match put {
            Ok(()) if is_dirty && (!config.may_be_dirty || dirty >= config.dirty_pages_max) => {
                return differ!("a dirty page is stored in pool {}, which has {dirty}", at.0);
            }
            Ok(()) => {
                self.pages.insert(at, PutPage { stamp, is_dirty });
                return Ok(());
            }
            Err(PutRefused::NoPool) if is_dirty && !config.may_be_dirty => {}
            Err(PutRefused::DirtyFull)
                if is_dirty && dirty + self.dead[at.0] >= config.dirty_pages_max => {}
            Err(PutRefused::Full) if self.may_be_full(at.0, is_dirty) => {}
            Err(PutRefused::IndexFull) if self.pages.dirty() > 0 => {}
            Err(reason) => return differ!("{at:?} is refused: {reason:?}"),
        }
        if let Some(old) = old
            && self.case.lie == ReserveLie::KeepRefused
            && !self.lied
        {
            // It counts as told when that succeeds: the older version may be refused, too.
            self.lied = self.guests[0].put(key, &Ground::page(old.stamp)).is_ok();
        }
        Ok(())
    }

    /// Whether every frame can be an owner's, a reservation's for a dirty page, a dirty page's, or
    /// among another pool's least; or the pool has its most, perhaps all of it without frames if
    /// one is wanted.
    fn may_be_full(&self, pool: usize, is_dirty: bool) -> bool {
        let others = POOLS.iter().enumerate().filter(|(nth, _)| *nth != pool);
        let least: u64 = others.map(|(_, config)| config.min_pages).sum();
        let owned: u64 = self.owned.iter().map(|run| run.frames()).sum();
        let held = self
            .reservations
            .iter()
            .filter(|held| held.taken || is_dirty);
        let held: u64 = held.map(|held| held.run.frames()).sum();
        let dead: u64 = self.dead.iter().sum();
        // The hand goes round twice in a small reserve, and gives up earlier in a large one.
        self.case.frames > 32
            || POOLS[pool].max_pages != u64::MAX
            || owned + held + self.pages.dirty() + dead + least >= self.case.frames
    }

    pub(super) fn get(&mut self, cpu: u16, at: PagePlace) -> PairChecked {
        let key = self.key(at);
        let mut out = [7; 512];
        let hit = self.guests[usize::from(cpu)].get(key, &mut out);
        let known = self.pages.get(&at).copied();
        if !hit {
            self.pages.remove(&at);
            return match known {
                Some(page) if page.is_dirty => differ!("C7: the dirty page {at:?} is lost"),
                _ => Ok(()),
            };
        }
        let got = Ground::stamp(&out);
        let Some(page) = known.filter(|page| got == Some(page.stamp)) else {
            let put = known.map(|page| page.stamp);
            return differ!("C5: {at:?} is {got:?}, and {put:?} was put last");
        };
        if POOLS[at.0].exclusive {
            self.pages.remove(&at);
            if self.lies(ReserveLie::KeepGot) {
                let _ = self.guests[0].put(key, &Ground::page(page.stamp));
            }
        }
        Ok(())
    }

    pub(super) fn invalidate(&mut self, cpu: u16, at: PagePlace, what: u8) -> PairChecked {
        let key = self.key(at);
        let guest = usize::from(cpu);
        match what {
            0 => {
                self.guests[guest].invalidate_page(key);
                self.pages.remove(&at);
            }
            1 => {
                let has_pages = self.pages.has_object(at.0, at.1);
                if !(has_pages && self.lies(ReserveLie::KeepObject)) {
                    self.guests[guest].invalidate_object(key.pool, key.object);
                }
                self.pages.remove_object(at.0, at.1);
            }
            _ => {
                self.dead[at.0] += self.pages.dirty_of(at.0);
                self.pages.remove_pool(at.0);
                if !self.guests[guest].invalidate_pool(key.pool) {
                    return differ!("pool {} was not there", at.0);
                }
                self.closed(guest, key)?;
                match self.reserve.open_pool(&POOLS[at.0]) {
                    Some(pool) => {
                        self.pools[at.0] = pool;
                        // The pages that died with its predecessor are dropped, and count no
                        // longer.
                        self.dead[at.0] = 0;
                    }
                    None => return differ!("pool {} is not opened again", at.0),
                }
            }
        }
        Ok(())
    }

    /// A pool that is closed has no pages, takes none, and is not closed again.
    fn closed(&mut self, guest: usize, key: Key) -> PairChecked {
        let guest = &mut self.guests[guest];
        let put = guest.put(key, &Ground::page(1));
        let got = guest.get(key, &mut [7; 512]);
        match (put, got, guest.invalidate_pool(key.pool)) {
            (Err(PutRefused::NoPool), false, false) => Ok(()),
            found => differ!("a closed pool: {found:?}"),
        }
    }

    pub(super) fn clean(&mut self, cpu: u16, pages: u64, fail_each: u64) -> PairChecked {
        let (mut calls, mut written, mut wrong) = (0, 0, None);
        let again = self.lies(ReserveLie::WriteTwice);
        let (model, pools, ground) = (&mut self.pages, &self.pools, self.ground);
        let cleaned = self.guests[usize::from(cpu)].clean(pages, |key, frame| {
            calls += 1;
            let pool = pools.iter().position(|pool| *pool == key.pool);
            let at = (pool.unwrap_or(usize::MAX), key.object, key.index);
            match model.get(&at) {
                Some(page) if page.is_dirty && ground.stamp_in(frame) == Some(page.stamp) => {
                    let fails = fail_each != 0 && calls % fail_each == 0;
                    if !fails {
                        model.clean(at);
                    }
                    written += u64::from(!fails);
                    // The lie says that it was not written, and has it written once more.
                    !fails && !again
                }
                _ => {
                    wrong = Some(at);
                    false
                }
            }
        });
        if let Some(at) = wrong {
            return differ!("{at:?} is written, and is not the page to be written");
        }
        let dead: u64 = self.dead.iter().sum();
        if !again && (cleaned.written, cleaned.failed) != (written, calls - written)
            || cleaned.overtaken > dead
        {
            return differ!("{cleaned:?} after {calls} calls, of which {written} wrote");
        }
        if pages == u64::MAX {
            self.dead = [0; POOLS.len()];
        }
        Ok(())
    }

    /// Ages the pools: no page that is there is served after it.
    pub(super) fn age_pools(&mut self, times: u64) {
        self.reserve.age_pools(times);
        for pool in 0..POOLS.len() {
            self.dead[pool] += self.pages.dirty_of(pool);
        }
        self.pages.clear();
    }
}
