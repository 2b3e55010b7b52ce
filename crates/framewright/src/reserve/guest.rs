//! A CPU's way into the reserve for guests: put, get, invalidate.

use super::PutRefused;
use super::area::Reserve;
use super::claim::ClaimedPage;
use super::counters::count;
use super::index::{Bucket, LockedBucket, PageEntry, Ticket};
use super::pool::{Born, Debt, PoolId};
use super::table::{BORN, FrameState, INDEX, InsideFrom, OBJECT, StateWord, VALUE};
use crate::platform::{PageWords, ReservePlatform};
use crate::raw::soon_written;
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::CpuId;
use core::cell::Cell;
use core::marker::PhantomData;

/// The name of a guest's page.
///
/// Its place in the index is a hash without a secret. A guest that chooses its keys can choose
/// eight that share a bucket of seven entries, and one of its own clean pages is then dropped for
/// another. Where the pages in the bucket are dirty, a further put there is
/// [refused](PutRefused::IndexFull), even that of another guest. A guest that lets strangers choose
/// objects or indices must hash them with a secret key first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The pool.
    pub pool: PoolId,
    /// The object, such as a file; 0 where a pool has only one.
    pub object: u64,
    /// The page in the object.
    pub index: u64,
}

impl Key {
    pub(super) fn object_hash(&self) -> u64 {
        mixed(u64::from(self.pool.0) << 48 ^ self.object)
    }
}

/// A well-mixed number (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
const fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// A page by the whole generation of its descriptor, which tells it from the pages before and after
/// it. An entry of the index remembers less.
#[derive(Clone, Copy, Debug)]
struct PageVersion {
    id: usize,
    generation: u64,
}

/// What became of a put.
pub type Put = Result<(), PutRefused>;

/// Cache lines of the caller's page that a get fetches before it knows whether there is anything to
/// copy. More would get in the way of the search.
const LINES_AHEAD: usize = 8;

/// The seat of one CPU, for guests; given back when dropped.
///
/// Calls with one key are to be serialised by the callers, as a kernel's page lock does; if they
/// are not, each call still has an effect as if it happened alone.
#[derive(Debug)]
pub struct Guest<'r, 'm, P> {
    reserve: &'r Reserve<'m, P>,
    words: &'m [AtomicU64],
    cpu: CpuId,
    /// The shard in which the next page is evicted.
    pub(super) next_shard: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl<P> Drop for Guest<'_, '_, P> {
    fn drop(&mut self) {
        // Release: the next CPU to take the seat sees its counters.
        self.words[count::TAKEN].store(0, Release);
    }
}

impl<'r, 'm, P> Guest<'r, 'm, P> {
    pub(super) fn take(reserve: &'r Reserve<'m, P>, cpu: CpuId) -> Option<Self> {
        let words = reserve.seat_words(cpu)?;
        // Acquire pairs with the Release in `drop`.
        let taken = words[count::TAKEN].swap(1, Acquire);
        (taken == 0).then(|| Self {
            reserve,
            words,
            cpu,
            next_shard: usize::from(cpu.0),
            not_sync: PhantomData,
        })
    }
}

impl<'r, 'm, P: ReservePlatform> Guest<'r, 'm, P> {
    pub(super) const fn reserve(&self) -> &'r Reserve<'m, P> {
        self.reserve
    }

    /// The words of the seat.
    pub(super) const fn words(&self) -> &'m [AtomicU64] {
        self.words
    }

    /// The CPU that the seat belongs to.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Counts something of the kind that `pool` is of.
    #[inline]
    pub(super) fn count(&self, pool: usize, counter: usize) {
        // Only this seat writes the word.
        let word = &self.words[count::of(pool, counter)];
        word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(super) fn hold(&self, pool: usize, by: u64) {
        let word = &self.words[count::HELD + pool];
        word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Stores a page that may be dropped at any time: one that is clean, or on its device already.
    ///
    /// Copies the page, so the caller may use its own again at once. About 0.1 µs besides the copy.
    ///
    /// # Errors
    /// Why it was refused. No version of the page is in the reserve then.
    pub fn put(&mut self, key: Key, page: &PageWords) -> Put {
        self.put_as(key, page, FrameState::Cached)
    }

    /// Stores a page that is on no device yet: it stays until it is [cleaned](Self::clean), got
    /// away or invalidated. Never in a reservation (C3).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`PutRefused::NoPool`] where the pool was not opened for dirty pages;
    /// [`PutRefused::DirtyFull`] above [its bound](super::PoolConfig::dirty_pages_max).
    pub fn put_dirty(&mut self, key: Key, page: &PageWords) -> Put {
        self.put_as(key, page, FrameState::Dirty)
    }

    fn put_as(&mut self, key: Key, page: &PageWords, state: FrameState) -> Put {
        let result = self.try_put(key, page, state);
        let counter = match result {
            Ok(()) => count::STORED,
            Err(reason) => count::REFUSED + reason as usize,
        };
        self.count(key.pool.0.into(), counter);
        result
    }

    fn try_put(&mut self, key: Key, page: &PageWords, state: FrameState) -> Put {
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
        let claim = value.and_then(|_| self.claim(key.pool, true, state));
        let claim = claim.or_else(|| self.claim(key.pool, false, state));
        let claim = claim.ok_or(PutRefused::Full)?;
        let desc = table.desc(claim.id);
        desc[OBJECT].store(key.object, Relaxed);
        desc[INDEX].store(key.index, Relaxed);
        desc[BORN].store(born.0, Relaxed);
        // The entry stands in the index before the page does, and no get follows it while the state
        // is Filling. So nothing after the copy has to wait for it to leave the processor.
        let mut locked = bucket.lock(&reserve.platform);
        // If the page's object or pool got a new generation meanwhile, the page goes in all the
        // same: BORN says that it is dead.
        if locked.ticket() != ticket || reserve.pools.walks_after_claim(key.pool) != walks {
            drop(locked);
            self.give_back(&claim);
            return Err(PutRefused::Overtaken);
        }
        let entry = PageEntry::new(claim.id, claim.word.generation());
        let mut displaced = None;
        if !locked.insert(entry, table) {
            displaced = self.give_up_one(&mut locked);
            if displaced.is_none() || !locked.insert(entry, table) {
                drop(locked);
                self.give_back(&claim);
                return Err(PutRefused::IndexFull);
            }
        }
        locked.change();
        drop(locked);
        if table.has_frame(claim.id) {
            // If the platform panics, the frame does not stay in transit.
            let undo = Undo(|| self.give_back(&claim));
            reserve.platform.store(reserve.frame(claim.id), page);
            undo.disarm();
        } else {
            desc[VALUE].store(page[0], Relaxed);
        }
        let arrived = self.arrive(&claim, state, debt);
        drop(claim);
        if let Some(displaced) = displaced {
            self.count(table.state(displaced.id).pool(), count::EVICTED);
            self.drop_page(displaced);
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
        let mut locked = bucket.lock(&self.reserve.platform);
        let old = self.forget(&mut locked, key);
        let ticket = locked.ticket();
        drop(locked);
        if let Some(old) = old {
            self.drop_page(old);
        }
        ticket
    }

    /// Makes the copied page visible, unless it was forgotten meanwhile.
    fn arrive(&self, claim: &ClaimedPage<'_>, state: FrameState, debt: Option<Debt<'_>>) -> Put {
        let table = &self.reserve.table;
        let there = claim.word.with_state(state);
        if let Some(debt) = debt {
            // An atomic exchange: a forgotten page that became dirty would reach its device some
            // day, over a newer version.
            let pool = PoolId(there.pool() as u16);
            table.set_dirty(claim.id, self.reserve.pools.is_put_back(pool));
            if table.change(claim.id, claim.word, there) {
                debt.stays();
                return Ok(());
            }
            table.set_clean(claim.id);
        } else if table.state(claim.id) == claim.word {
            // A CPU that forgets the page between this look and the store has taken the entry away
            // before. So no get finds the page, and the hand takes its frame.
            table.publish(claim.id, there);
            return Ok(());
        }
        self.give_back(claim);
        Err(PutRefused::Overtaken)
    }

    /// Copies the page of `key` into `page`, if it is there. In an exclusive pool the page then
    /// belongs to the caller and has left the reserve.
    ///
    /// After a miss `page` holds what it held before, or zeros, or a mix of both: never what an
    /// owner wrote. 0.1 µs besides the copy.
    pub fn get(&mut self, key: Key, page: &mut PageWords) -> bool {
        let hit = self.try_get(&key, page).is_some() || self.get_moved(&key, page).is_some();
        let counter = if hit { count::LOADED } else { count::MISSED };
        self.count(key.pool.0.into(), counter);
        hit
    }

    pub(super) fn try_get(&self, key: &Key, page: &mut PageWords) -> Option<()> {
        let reserve = self.reserve;
        let table = &reserve.table;
        let object_hash = key.object_hash();
        let bucket = self.bucket(key, object_hash);
        bucket.fetch();
        // Uses the time until the index arrives.
        for line in page.chunks(8).take(LINES_AHEAD) {
            soon_written(&line[0]);
        }
        let now = reserve.pools.now(key.pool, object_hash)?;
        let found = |entry| self.page_of(entry, key).map(|(id, word)| (entry, id, word));
        let (entry, id, word) = bucket.entries().find_map(found)?;
        if table.desc(id)[BORN].load(Relaxed) != now.0 {
            return None;
        }
        let is_there = if reserve.pools.is_exclusive(key.pool) {
            self.take_away(id, word, page).is_some()
        } else {
            // An ordinary frame stays with its descriptor while a CPU is inside the gate.
            let _inside = table
                .is_ordinary(id)
                .then(|| table.enter_from(id, self.words, &reserve.platform));
            self.copy(id, page);
            let is_there = table.state_after_reading(id).generation() == word.generation()
                && bucket.has(entry);
            if is_there {
                table.visit(id);
            }
            is_there
        };
        // Nor must a get that was under way serve a page that was invalidated meanwhile (C6).
        if is_there && reserve.pools.now(key.pool, object_hash) == Some(now) {
            return Some(());
        }
        // The copied words may be an owner's, which the guest must not see.
        page.fill(0);
        None
    }

    /// The get of an exclusive pool: copies the page and takes it away.
    fn take_away(&self, id: usize, word: StateWord, page: &mut PageWords) -> Option<()> {
        let table = &self.reserve.table;
        let inside = table.enter_from(id, self.words, &self.reserve.platform);
        let mut now = word;
        loop {
            match now.state() {
                FrameState::Cached | FrameState::Dirty => {
                    let loading = now.with_state(FrameState::Loading);
                    if table.change(id, now, loading) {
                        let undo = Undo(|| self.stop_loading(id, loading, now, &inside));
                        self.copy(id, page);
                        undo.disarm();
                        // A CPU that forgot the page meanwhile has moved its generation on (C6):
                        // `drop_page`.
                        let gone = loading.next(FrameState::Filling, loading.pool());
                        let is_mine = table.change(id, loading, gone);
                        if now.is_dirty() {
                            self.reserve.dirty_no_more(id, now.pool());
                        }
                        self.release(id, table.state(id), &inside);
                        return is_mine.then_some(());
                    }
                }
                // The CPU that is also copying it gives the frame back when it is done:
                // `drop_page`.
                FrameState::Writing => {
                    self.copy(id, page);
                    if table.change(id, now, now.next(FrameState::Writing, now.pool())) {
                        return Some(());
                    }
                }
                _ => return None,
            }
            now = table.state(id);
            if now.generation() != word.generation() {
                return None;
            }
        }
    }

    /// Puts the page of an unfinished get back where it was, unless it was forgotten meanwhile.
    #[cold]
    fn stop_loading(
        &self,
        id: usize,
        loading: StateWord,
        before: StateWord,
        inside: &InsideFrom<'_>,
    ) {
        let table = &self.reserve.table;
        if !table.change(id, loading, before) {
            if before.is_dirty() {
                self.reserve.dirty_no_more(id, before.pool());
            }
            self.release(id, table.state(id), inside);
        }
    }

    fn copy(&self, id: usize, page: &mut PageWords) {
        let reserve = self.reserve;
        if reserve.table.has_frame(id) {
            reserve.platform.load(reserve.frame(id), page);
        } else if reserve.table.is_ordinary(id) {
            // If there is no frame, the page is gone, and the caller sees that when it looks at the
            // state.
            if let Some(frame) = reserve.ordinary_frame(id) {
                reserve.platform.load(frame, page);
            }
        } else {
            page.fill(reserve.table.desc(id)[VALUE].load(Relaxed));
        }
    }

    /// Forgets the page of `key`. After it returns no get finds that page (C6). Waits for an owner
    /// that has the gate of its block shut: for one copy at most.
    pub fn invalidate_page(&mut self, key: Key) {
        let reserve = self.reserve;
        let bucket = self.bucket(&key, key.object_hash());
        let mut locked = bucket.lock(&reserve.platform);
        let old = self.forget(&mut locked, &key);
        locked.change();
        drop(locked);
        if let Some(old) = old {
            self.drop_page(old);
        }
        self.count(key.pool.0.into(), count::INVALIDATED_PAGES);
    }

    /// Forgets all pages of an object, and by chance those of another one. O(1). In a pool whose
    /// pages may be dirty it forgets only those of the object, by a walk over all frames: O(frames
    /// of the reserve) a call, however few pages the object has. Waits for each put that is under
    /// way, for one copy.
    pub fn invalidate_object(&mut self, pool: PoolId, object: u64) {
        let key = Key {
            pool,
            object,
            index: 0,
        };
        self.count(pool.0.into(), count::INVALIDATED_OBJECTS);
        let pools = &self.reserve.pools;
        if !pools.may_be_dirty(pool) {
            pools.invalidate_object(key.object_hash());
            return;
        }
        // Puts that are under way from here on are overtaken; the walk finds those that are done.
        pools.begin_walk(pool);
        let table = &self.reserve.table;
        let is_of = |word: StateWord| word.pool() == usize::from(pool.0);
        for id in 0..self.reserve.ids() {
            let mut word = table.state(id);
            let mut attempt = 0;
            // Waits for a page on its way in, one copy at most, so that it does not arrive behind
            // the walk. When the generation has moved on, that put has ended; a later put began
            // after the walk did.
            let generation = word.generation();
            while is_of(word)
                && word.state() == FrameState::Filling
                && word.generation() == generation
            {
                self.reserve.platform.relax(attempt);
                attempt = attempt.saturating_add(1);
                word = table.state(id);
            }
            if is_of(word) && word.has_page() && table.desc(id)[OBJECT].load(Relaxed) == object {
                let generation = word.generation();
                self.drop_page(PageVersion { id, generation });
            }
        }
    }

    /// Forgets all pages of a pool and closes it: further puts are refused. O(1). Returns whether
    /// the pool was there.
    pub fn invalidate_pool(&mut self, pool: PoolId) -> bool {
        let closed = self.reserve.pools.close(pool);
        let counter = if closed {
            count::INVALIDATED_POOLS
        } else {
            count::INVALIDATE_FAILED
        };
        self.count(pool.0.into(), counter);
        closed
    }

    fn bucket(&self, key: &Key, object_hash: u64) -> Bucket<'m> {
        self.reserve.bucket(key, object_hash)
    }

    /// Where the page of `entry` is, if it is `key`'s and has arrived.
    #[inline]
    pub(super) fn page_of(&self, entry: PageEntry, key: &Key) -> Option<(usize, StateWord)> {
        let word = self.reserve.table.state(entry.id());
        (word.has_page() && self.is_of_state(entry, word, key)).then_some((entry.id(), word))
    }

    /// Whether a page of `entry` is `key`'s, already there or on its way in.
    #[inline]
    fn is_of(&self, entry: PageEntry, key: &Key) -> bool {
        self.is_of_state(entry, self.reserve.table.state(entry.id()), key)
    }

    #[inline]
    fn is_of_state(&self, entry: PageEntry, word: StateWord, key: &Key) -> bool {
        if !entry.is_of(word.generation()) || word.pool() != usize::from(key.pool.0) {
            return false;
        }
        let desc = self.reserve.table.desc(entry.id());
        desc[OBJECT].load(Relaxed) == key.object && desc[INDEX].load(Relaxed) == key.index
    }

    /// Takes the entry of `key` out of its bucket.
    fn forget(&self, locked: &mut LockedBucket<'_>, key: &Key) -> Option<PageVersion> {
        self.remove(locked, |entry, word| self.is_of_state(entry, word, key))
    }

    /// Takes an entry out of a full bucket, one whose page may be dropped to make room.
    fn give_up_one(&self, locked: &mut LockedBucket<'_>) -> Option<PageVersion> {
        self.remove(locked, |_, word| word.state() == FrameState::Cached)
    }

    /// Takes the first entry for which `is` holds, given its descriptor's state, out of its bucket.
    /// Returns the page that it names.
    fn remove(
        &self,
        locked: &mut LockedBucket<'_>,
        is: impl Fn(PageEntry, StateWord) -> bool,
    ) -> Option<PageVersion> {
        let mut generation = 0;
        let entry = locked.find(|entry| {
            let word = self.reserve.table.state(entry.id());
            generation = word.generation();
            is(entry, word)
        })?;
        locked.remove(entry);
        let id = entry.id();
        Some(PageVersion { id, generation })
    }

    /// Drops a page whose entry has left the index, if the page is still there. Not for a caller
    /// inside a gate.
    fn drop_page(&self, PageVersion { id, generation }: PageVersion) {
        let table = &self.reserve.table;
        let inside = table.enter_from(id, self.words, &self.reserve.platform);
        loop {
            let word = table.state(id);
            if word.generation() != generation {
                return;
            }
            if matches!(
                word.state(),
                FrameState::Writing | FrameState::Loading | FrameState::Filling
            ) {
                // The CPU that is copying it gives the frame back when it is done.
                if table.change(id, word, word.next(word.state(), word.pool())) {
                    return;
                }
            } else if !word.has_page() {
                return;
            } else if table.change(id, word, word.next(FrameState::Filling, word.pool())) {
                if word.is_dirty() {
                    self.reserve.dirty_no_more(id, word.pool());
                }
                self.release(id, table.state(id), &inside);
                return;
            }
        }
    }

    /// Frees a descriptor that this CPU holds in a state of transit.
    pub(super) fn release(&self, id: usize, word: StateWord, _inside: &InsideFrom<'_>) {
        let reserve = self.reserve;
        reserve
            .table
            .publish(id, word.next(FrameState::Free, word.pool()));
        self.hold(word.pool(), 1u64.wrapping_neg());
        reserve.table.set_free(id);
        reserve.tell_free(id);
    }

    fn give_back(&self, claim: &ClaimedPage<'_>) {
        // The word may differ from the claimed one: a CPU that forgot the page has moved the
        // generation on.
        let word = self.reserve.table.state(claim.id);
        self.release(claim.id, word, &claim.inside);
    }
}

impl<'m, P> Reserve<'m, P> {
    /// Records that the page of a descriptor is no longer dirty, or no longer there.
    pub(super) fn dirty_no_more(&self, id: usize, pool: usize) {
        self.table.set_clean(id);
        self.pools.end_dirty(pool);
    }

    pub(super) fn bucket(&self, key: &Key, object_hash: u64) -> Bucket<'m> {
        self.index.bucket(mixed(object_hash ^ key.index))
    }

    /// Whether the page's object or pool was invalidated.
    pub(super) fn is_dead(&self, id: usize, word: StateWord) -> bool {
        let desc = self.table.desc(id);
        let key = Key {
            pool: PoolId(word.pool() as u16),
            object: desc[OBJECT].load(Relaxed),
            index: 0,
        };
        let now = self.pools.now(key.pool, key.object_hash());
        now != Some(Born(desc[BORN].load(Relaxed)))
    }
}

/// Calls its closure if the platform panics in the middle of a copy.
struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Undo<F> {
    /// The copy has ended.
    const fn disarm(self) {
        core::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The word that the page repeats, if it consists of one.
fn repeated(page: &PageWords) -> Option<u64> {
    let value = page[0];
    // Looks at some words first: mostly that ends it.
    if page[511] != value || page[1] != value || page[256] != value {
        return None;
    }
    page.iter().all(|word| *word == value).then_some(value)
}
