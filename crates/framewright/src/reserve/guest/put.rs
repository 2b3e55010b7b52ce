//! How a guest stores a page.
//!
//! 1. The older version of the page is forgotten, whatever becomes of the new one (C5). The bucket
//!    then gives a ticket, which is valid until it changes.
//! 2. The put obtains a descriptor (`descriptor`) and enters its gate.
//! 3. Under the bucket's lock it enters the page into the index, in state Filling, which no get
//!    follows. Without a valid ticket another call with the key came between, and the put gives up.
//! 4. It copies the page, and publishes the descriptor's state if that is still the one that it obtained. So
//!    all atomic exchanges of a clean page come before the copy.
//!
//! A page of one repeated word goes into a descriptor without a frame, if there is one.

use super::super::PutRefused;
use super::super::table::{Bucket, Debt, FrameState, LockedBucket, PageEntry, PoolId, Ticket};
use super::descriptor::IncomingPage;
use super::{Guest, Key, PageVersion, Undo};
use crate::platform::ReservePlatform;
use crate::sync::Ordering::Relaxed;

impl<'m, P: ReservePlatform> Guest<'_, 'm, P> {
    /// Stores a page that may be dropped at any time: one that is clean, or on its device already.
    ///
    /// Copies the page, so the caller may use its own again at once. About 0.1 µs besides the copy.
    ///
    /// # Errors
    /// Why it was refused. No version of the page is in the reserve then.
    pub fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        self.put_as(key, page, FrameState::Cached)
    }

    /// Stores a page that is on no device yet: it stays until it is [cleaned](Self::clean), got
    /// away or invalidated. Never in a reservation (C3).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`PutRefused::NoPool`] where the pool was not opened for dirty pages;
    /// [`PutRefused::DirtyFull`] above [its bound](super::super::PoolConfig::dirty_pages_max).
    pub fn put_dirty(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        self.put_as(key, page, FrameState::Dirty)
    }

    fn put_as(&mut self, key: Key, page: &[u64; 512], state: FrameState) -> Result<(), PutRefused> {
        let result = self.try_put(key, page, state);
        self.count(key.pool.0.into(), |counters| match result {
            Ok(()) => &counters.stored,
            Err(reason) => &counters.refused[reason as usize],
        });
        result
    }

    fn try_put(
        &mut self,
        key: Key,
        page: &[u64; 512],
        state: FrameState,
    ) -> Result<(), PutRefused> {
        let reserve = self.reserve;
        let table = &reserve.table;
        let object_hash = key.object_hash();
        let bucket = self.bucket(&key, object_hash);
        bucket.fetch();
        // The older version goes first: no get finds it from here on, whatever becomes of the new
        // one.
        let ticket = self.make_way(bucket, &key);
        let walks = reserve.pools.walks(key.pool);
        let born = reserve.pools.now(key.pool, object_hash);
        let born = born.ok_or(PutRefused::NoPool)?;
        if state == FrameState::Dirty && !reserve.pools.may_be_dirty(key.pool) {
            return Err(PutRefused::NoPool);
        }
        let debt = match state {
            FrameState::Dirty => {
                let debt = reserve.pools.begin_dirty(key.pool);
                Some(debt.ok_or(PutRefused::DirtyFull)?)
            }
            _ => None,
        };
        // A dirty page always has a frame, because that is what the cleaner hands to the device.
        let value = repeated(page).filter(|_| state == FrameState::Cached);
        let incoming = value.and_then(|_| self.obtain(key.pool, true, state));
        let incoming = incoming.or_else(|| self.obtain(key.pool, false, state));
        let incoming = incoming.ok_or(PutRefused::Full)?;
        let desc = table.desc(incoming.id);
        desc.object.store(key.object, Relaxed);
        desc.index.store(key.index, Relaxed);
        desc.born.store(born.0, Relaxed);
        // If the put ends before the page is there, or the platform unwinds, nothing stays in transit.
        let undo = Undo(|| self.give_back(&incoming));
        // The entry stands in the index before the page does, and no get follows it while the state
        // is Filling. So nothing after the copy has to wait for it to leave the processor.
        let mut locked = bucket.lock(&reserve.platform);
        // If the page's object or pool got a new generation meanwhile, the page goes in all the
        // same: `born` says that it is dead.
        if locked.ticket() != ticket || reserve.pools.walks_once_more(key.pool) != walks {
            return Err(PutRefused::Overtaken);
        }
        let entry = PageEntry::new(incoming.id, incoming.word.generation());
        let mut displaced = None;
        if !locked.insert(entry, table) {
            displaced = self.give_up_one(&mut locked);
            if displaced.is_none() || !locked.insert(entry, table) {
                return Err(PutRefused::IndexFull);
            }
        }
        locked.change();
        drop(locked);
        if table.has_frame(incoming.id) {
            reserve.platform.store(reserve.frame(incoming.id), page);
        } else {
            desc.value.store(page[0], Relaxed);
        }
        undo.disarm();
        let arrived = self.arrive(&incoming, state, debt);
        drop(incoming);
        if let Some(displaced) = displaced {
            self.count(table.state(displaced.id).pool(), |counters| {
                &counters.evicted
            });
            // If the wait for the gate unwinds, the hand comes by: the page is clean.
            self.enter_and_drop(displaced);
        }
        arrived
    }

    /// Forgets the page of `key`. The ticket is valid until a page of its bucket is put or
    /// invalidated.
    fn make_way(&self, bucket: Bucket<'m>, key: &Key) -> Ticket {
        // Mostly there is no page, and a look suffices.
        let seen = bucket.ticket();
        if let Some(seen) = seen
            && !bucket.entries().any(|entry| self.is_of(entry, key))
            && bucket.is_still_at(seen)
        {
            return seen;
        }
        self.forget(bucket, key, false)
    }

    /// Makes the copied page visible, unless it was forgotten meanwhile.
    fn arrive(
        &self,
        incoming: &IncomingPage<'_>,
        state: FrameState,
        debt: Option<Debt<'_>>,
    ) -> Result<(), PutRefused> {
        let table = &self.reserve.table;
        let there = incoming.word.with_state(state);
        if let Some(debt) = debt {
            // An atomic exchange: a forgotten page that became dirty would reach its device some
            // day, over a newer version.
            let pool = PoolId(there.pool() as u16);
            table.set_dirty(incoming.id, self.reserve.pools.is_put_back(pool));
            if table.change(incoming.id, incoming.word, there) {
                debt.stays();
                return Ok(());
            }
            table.set_clean(incoming.id);
        } else if table.state(incoming.id) == incoming.word {
            // A CPU that forgets the page between this look and the store has taken the entry away
            // before. So no get finds the page, and the hand takes its frame.
            table.publish(incoming.id, there);
            return Ok(());
        }
        self.give_back(incoming);
        Err(PutRefused::Overtaken)
    }

    /// Takes an entry out of a full bucket, one whose page may be dropped to make room.
    fn give_up_one(&self, locked: &mut LockedBucket<'_>) -> Option<PageVersion> {
        self.remove(locked, |_, word| word.state() == FrameState::Cached)
    }

    fn give_back(&self, incoming: &IncomingPage<'_>) {
        // The word may differ from the obtained one: a CPU that forgot the page has moved the
        // generation on.
        let word = self.reserve.table.state(incoming.id);
        self.release(incoming.id, word, &incoming.inside);
    }
}

/// The word that the page repeats, if it consists of one.
fn repeated(page: &[u64; 512]) -> Option<u64> {
    let value = page[0];
    // Looks at some words first: mostly that ends it.
    if page[511] != value || page[1] != value || page[256] != value {
        return None;
    }
    page.iter().all(|word| *word == value).then_some(value)
}
