//! Put-back: moves a page that is on no device yet to an ordinary frame, so that an owner gets the
//! page's own frame.
//!
//! ```text
//!     frame of the reserve:   Dirty ──▶ Writing ───────────▶ Filling ─────────────▶ Free
//!                                         │ copy               │ under the bucket's lock
//!     ordinary frame:          Free ──▶ Filling ────────────────┴─▶ Dirty
//!     index:                        (frame, generation) ────────────▶ (ordinary, generation)
//! ```
//!
//! A page in an ordinary frame has a descriptor behind those of the frames. It is found, got,
//! invalidated and cleaned like any other, but never evicted, because it is on no device. When it
//! is gone, its frame stays with the descriptor until the next page is put back, or until
//! [`Reserve::collect`] or reclaim.
//!
//! While an owner clears a run, its frames are reserved like those of a reservation: no dirty page and
//! no other owner comes in. The owner copies under no lock and in no gate, so neither a guest nor
//! another owner waits for its copies.
//!
//! A page that is being moved is Writing, as if the cleaner had it. A get copies it. A CPU that
//! forgets it or takes it away moves its generation on, and the move then finds that the page is
//! gone. A get that meets the moment of the switch finds no entry, and looks once more under the
//! bucket's lock. A walk that forgets all pages of an object meets the new place after the old one,
//! because its number is higher, and waits where it is Filling.

use super::super::area::Reserve;
use super::super::table::{FrameState, Lane, PageEntry, StateWord};
use super::super::{Guest, Key};
use super::clearing::{ClearingRun, LOOKS_IN_TRANSIT};
use crate::frame::{FrameSource, origin_word};
use crate::platform::{ReservePlatform, surely};
use crate::slots::{first_of, words_of};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::units::{Frame, Run, RunError};
use core::ops::Range;

/// How often to wait for a page in transit: it is one copy, or one step, from its end.
const WAITS: u32 = 1000;
/// How many further runs are tried after one that was not cleared.
const TRIES: u32 = 8;
/// How often a get looks again for a page that was moved: it is moved once.
const LOOKS: usize = 4;

/// Why a page stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Stays {
    /// It is being written, or its pool does not put pages back.
    Busy,
    /// There is no ordinary frame, or no descriptor for one.
    NoMemory,
}

/// How many words of the descriptors for ordinary frames an owner that clears a run has searched to
/// the end: none is left there that is free with a frame, or free without one. So clearing takes
/// time by the pages of the run, not by pages times words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SearchedWords {
    stocked: usize,
    empty: usize,
}

/// What a search for a run has led to.
enum ClearPlan<'r, 'm, P: ReservePlatform> {
    Taken(Run),
    Clear(ClearingRun<'r, 'm, P>),
    Again,
    /// Another owner clears frames that would do, and may fail.
    InTransit,
    Nothing,
}

impl<'m, P: ReservePlatform> Reserve<'m, P> {
    /// [`alloc_contig`](Self::alloc_contig) where pages of pools that [put
    /// back](super::super::PoolConfig::put_back) are no obstacle: those that are on no device yet are
    /// copied into frames of `supply`, and found there from then on. Such a page counts as much as
    /// 64 clean ones when the run is chosen.
    ///
    /// The platform [copies](crate::platform::ReservePlatform::copy) frames of `supply` too, and may read them until they
    /// are given back. A frame that no longer holds a page is spare: it serves the next page that is put back. The caller
    /// gets spare frames back by [`collect`](Self::collect), or by reclaim, if it makes the reserve one of its
    /// [clients](crate::reclaim::Shrink). This call itself gives them back only if it lacks frames.
    ///
    /// All supplies from which a reserve ever gets frames must have one [origin](FrameSource::origin), because each
    /// takes back frames that another one gave (C11).
    ///
    /// Time: as `alloc_contig`, and 0.9 to 2.1 µs for each page put back. Holds no lock while it copies, or while it
    /// calls `supply`.
    ///
    /// # Errors
    /// As `alloc_contig`; [`RunError::NoMemory`] if only ordinary memory is missing: `supply` has
    /// no frame, or as many pages as may be are [in ordinary
    /// frames](super::super::ReserveLayout::ordinary) already; [`RunError::OtherFrames`] if an earlier supply had
    /// another origin. No page is lost then.
    pub fn alloc_contig_with(
        &self,
        frames: u64,
        align: u64,
        supply: &mut (impl FrameSource + ?Sized),
    ) -> Result<Run, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        if ![0, origin_word(supply.origin())].contains(&self.own.supply.load(Relaxed)) {
            return Err(RunError::OtherFrames);
        }
        let mut lacking = None;
        let (mut attempt, mut looks) = (0, 0);
        let mut is_collected = false;
        while attempt < TRIES {
            match self.plan(frames, align) {
                ClearPlan::Taken(run) => return Ok(run),
                ClearPlan::Clear(clearing) => match clearing.clear(supply) {
                    Ok(()) => {
                        if let Some(run) = clearing.take() {
                            return Ok(run);
                        }
                    }
                    Err((Stays::Busy, _)) => self.platform.relax(attempt),
                    Err((Stays::NoMemory, frame)) => {
                        // Pages that are invalid by a generation still have descriptors and frames.
                        if is_collected || self.collect(supply) == 0 {
                            lacking = Some(frame);
                            break;
                        }
                        is_collected = true;
                        continue;
                    }
                },
                ClearPlan::Again => {}
                ClearPlan::InTransit if looks < LOOKS_IN_TRANSIT => {
                    self.platform.relax(looks);
                    looks += 1;
                    continue;
                }
                ClearPlan::InTransit | ClearPlan::Nothing => break,
            }
            attempt += 1;
        }
        // Tries without putting any page back, perhaps at the cost of more clean ones.
        self.alloc_contig(frames, align)
            .map_err(|error| match (error, lacking) {
                (RunError::NoRoom, Some(frame)) => RunError::NoMemory(frame),
                (RunError::NoRoom, None) if looks == LOOKS_IN_TRANSIT => RunError::WouldWait,
                _ => error,
            })
    }

    /// Chooses a run and keeps it, or takes it at once if it has no page to put back.
    fn plan(&self, frames: u64, align: u64) -> ClearPlan<'_, 'm, P> {
        let _owners = self.lock_owners();
        let Some(ids) = self.cheapest(frames, align, true) else {
            let in_transit = self.is_in_transit(frames, align, true);
            return match in_transit {
                true => ClearPlan::InTransit,
                false => ClearPlan::Nothing,
            };
        };
        self.drop_dead(&ids);
        if self.first_of(&ids, Lane::dirty).is_none() {
            if self.discard(&ids, Lane::unavailable_or_dirty) {
                return ClearPlan::Taken(self.run_at(&ids));
            }
            return ClearPlan::Again;
        }
        self.mark_reserved(&ids);
        // Dirty pages that came before the run was reserved are visible now.
        let stays = |(nth, mask)| self.table.lane(nth).staying(true) & mask != 0;
        if self
            .first_of(&ids, |lane| lane.owned.load(Relaxed))
            .is_some()
            || words_of(&ids).any(stays)
        {
            self.reserved_no_more(&ids);
            return ClearPlan::Again;
        }
        ClearPlan::Clear(self.clearing_run(ids))
    }

    /// A descriptor with an ordinary frame, in state Filling.
    fn obtain_ordinary(
        &self,
        pool: usize,
        supply: &mut (impl FrameSource + ?Sized),
        looked: &mut SearchedWords,
    ) -> Result<(usize, StateWord), Stays> {
        let table = &self.table;
        let mut found = self.stocked_descriptor(supply, looked);
        if found == Ok(None) {
            // Descriptors may have become free behind the search: look from the start.
            *looked = SearchedWords::default();
            found = self.stocked_descriptor(supply, looked);
        }
        let found = found.or_else(|stays| {
            // Where no other is free, one that has a frame will do, from the start as well.
            looked.stocked = 0;
            let id = self.obtain_free_ordinary(true, &mut looked.stocked);
            id.map(Some).ok_or(stays)
        })?;
        let id = found.ok_or(Stays::NoMemory)?;
        let word = table.state(id).next(FrameState::Filling, pool);
        table.publish(id, word);
        table.before_writing();
        Ok((id, word))
    }

    /// Obtains a free descriptor that has a frame or gets one, and searches on from `looked`. `None`
    /// if no descriptor is free. Fails if `supply` has no frame for it.
    fn stocked_descriptor(
        &self,
        supply: &mut (impl FrameSource + ?Sized),
        looked: &mut SearchedWords,
    ) -> Result<Option<usize>, Stays> {
        let table = &self.table;
        if let Some(id) = self.obtain_free_ordinary(true, &mut looked.stocked) {
            return Ok(Some(id));
        }
        // Asks the supply while it holds no descriptor, because the supply may panic.
        let ids = self.ordinary_from(looked.empty);
        if first_of(&ids, |nth| table.lane(nth).free.load(Relaxed)).is_none() {
            return Ok(None);
        }
        let frame = supply.alloc_frame().map_err(|_| Stays::NoMemory)?;
        let origin = origin_word(supply.origin());
        // Another owner's supply may have been the first, a moment ago. Relaxed: no other access depends on the number.
        let first = self
            .own
            .supply
            .compare_exchange(0, origin, Relaxed, Relaxed);
        if first.is_err_and(|first| first != origin) {
            surely(|| supply.free_frame(frame));
            return Err(Stays::NoMemory);
        }
        let Some(id) = self.obtain_free_ordinary(false, &mut looked.empty) else {
            surely(|| supply.free_frame(frame));
            return Ok(None);
        };
        // Release: a reader of the number finds the frame as its supply left it.
        table.desc(id).value.store(frame.0 + 1, Release);
        table.lane(id / 64).stocked.fetch_or(1 << (id % 64), AcqRel);
        Ok(Some(id))
    }

    /// The descriptors for ordinary frames from the `nth` word of them on.
    fn ordinary_from(&self, nth: usize) -> Range<usize> {
        let ids = self.table.ordinary();
        ids.end.min(ids.start + nth * 64)..ids.end
    }

    /// Obtains a free descriptor, one with an ordinary frame or one without. Searches on from the
    /// word in `looked`, and updates it.
    fn obtain_free_ordinary(&self, is_stocked: bool, looked: &mut usize) -> Option<usize> {
        let table = &self.table;
        words_of(&self.ordinary_from(*looked)).find_map(|(nth, mask)| {
            let lane = table.lane(nth);
            let stocked = lane.stocked.load(Relaxed);
            let wanted = if is_stocked { stocked } else { !stocked };
            let mut bits = lane.free.load(Relaxed) & wanted & mask;
            while bits != 0 {
                let id = nth * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if table.clear_free(id) {
                    // Another CPU may have had it meanwhile, and stocked it or collected its frame.
                    if self.ordinary_frame(id).is_some() == is_stocked {
                        return Some(id);
                    }
                    table.set_free(id);
                }
            }
            *looked += 1;
            None
        })
    }

    /// Puts the page of a frame back; also `Ok` if the page is gone meanwhile.
    pub(super) fn put_back(
        &self,
        id: usize,
        supply: &mut (impl FrameSource + ?Sized),
        looked: &mut SearchedWords,
    ) -> Result<(), Stays> {
        let table = &self.table;
        let word = table.state(id);
        if word.state() != FrameState::Dirty {
            let is_written = word.state() == FrameState::Writing;
            return if is_written { Err(Stays::Busy) } else { Ok(()) };
        }
        let (to, to_word) = self.obtain_ordinary(word.pool(), supply, looked)?;
        let mut moving = MovingPage {
            reserve: self,
            from: id,
            writing: word.with_state(FrameState::Writing),
            to,
            to_word,
            is_begun: false,
        };
        // Only guests can change the state: the run is reserved, so other owners stay away.
        moving.is_begun = table.change(id, word, moving.writing);
        if moving.is_begun {
            let frame = self.ordinary_frame(to).expect("it has one");
            self.platform.copy(self.frame(id), frame);
            moving.switch();
        }
        Ok(())
    }
}

impl<P> Reserve<'_, P> {
    /// The ordinary frame of a descriptor, if it has one.
    pub(in super::super) fn ordinary_frame(&self, id: usize) -> Option<Frame> {
        // Acquire pairs with the Release in `stocked_descriptor`.
        let value = self.table.desc(id).value.load(Acquire);
        value.checked_sub(1).map(Frame)
    }
}

/// A page on its way. Dropping this leaves the page where it was, unless it has been switched.
struct MovingPage<'r, 'm, P: ReservePlatform> {
    reserve: &'r Reserve<'m, P>,
    from: usize,
    writing: StateWord,
    to: usize,
    to_word: StateWord,
    is_begun: bool,
}

impl<P: ReservePlatform> MovingPage<'_, '_, P> {
    /// Makes the page visible in its new place, if it has not been forgotten meanwhile.
    fn switch(self) {
        let reserve = self.reserve;
        let table = &reserve.table;
        let (from, to) = (table.desc(self.from), table.desc(self.to));
        to.name_page_of(from);
        let key = from.key(self.writing.pool());
        let entry = PageEntry::new(self.from, self.writing.generation());
        let inside = table.enter(self.from, &reserve.platform);
        let mut locked = reserve
            .bucket(&key, key.object_hash())
            .lock(&reserve.platform);
        // A CPU that takes the page away or drops it does so before this, or finds it in the new
        // place.
        let gone = self.writing.next(FrameState::Filling, self.writing.pool());
        if !locked.has(entry) || !table.change(self.from, self.writing, gone) {
            // The page was forgotten meanwhile.
            drop((locked, inside));
            return;
        }
        table.set_dirty(self.to, true);
        table.publish(self.to, self.to_word.with_state(FrameState::Dirty));
        locked.replace(entry, PageEntry::new(self.to, self.to_word.generation()));
        // A get that looks without the lock may have seen neither entry.
        locked.change();
        drop(locked);
        table.set_clean(self.from);
        table.publish(self.from, gone.next(FrameState::Free, gone.pool()));
        table.set_free(self.from);
        reserve.tell_free(self.from);
        reserve.own.put_back.fetch_add(1, Relaxed);
        core::mem::forget(self);
    }
}

impl<P: ReservePlatform> Drop for MovingPage<'_, '_, P> {
    fn drop(&mut self) {
        let reserve = self.reserve;
        let table = &reserve.table;
        table.publish(
            self.to,
            self.to_word.next(FrameState::Free, self.to_word.pool()),
        );
        table.set_free(self.to);
        if !self.is_begun {
            return;
        }
        let dirty = self.writing.with_state(FrameState::Dirty);
        if table.change(self.from, self.writing, dirty) {
            return;
        }
        // The CPU that dropped the page left the frame to us.
        surely(|| {
            let _owners = reserve.lock_owners();
            let _inside = table.enter(self.from, &reserve.platform);
            let word = table.state(self.from);
            reserve.dirty_no_more(self.from, word.pool());
            reserve.count_lost(word.pool());
            table.publish(self.from, word.next(FrameState::Free, word.pool()));
            table.set_free(self.from);
            reserve.tell_free(self.from);
        });
    }
}

impl<P: ReservePlatform> Guest<'_, '_, P> {
    /// A second look for a get that found no page, because the page may have been moved meanwhile.
    #[cold]
    pub(in super::super) fn get_moved(&self, key: &Key, page: &mut [u64; 512]) -> Option<()> {
        let reserve = self.reserve();
        if !reserve.pools.is_put_back(key.pool) {
            return None;
        }
        for _ in 0..LOOKS {
            let bucket = reserve.bucket(key, key.object_hash());
            // Nothing is moved under its lock.
            let locked = bucket.lock(&reserve.platform);
            locked.find(|entry| self.page_of(entry, key).is_some())?;
            drop(locked);
            if self.try_get(key, page).is_some() {
                return Some(());
            }
        }
        None
    }
}

impl<P: ReservePlatform> ClearingRun<'_, '_, P> {
    /// Moves every dirty page out of it.
    pub(super) fn clear(
        &self,
        supply: &mut (impl FrameSource + ?Sized),
    ) -> Result<(), (Stays, Frame)> {
        let reserve = self.reserve;
        let mut looked = SearchedWords::default();
        let mut at = self.ids.start;
        let mut attempt = 0;
        while let Some(id) = reserve.first_of(&(at..self.ids.end), Lane::dirty) {
            if at != id {
                (at, attempt) = (id, 0);
            } else if attempt == WAITS {
                return Err((Stays::Busy, reserve.frame(id)));
            } else if attempt > 0 {
                // In transit: a get takes it away, or another CPU is about to drop it.
                reserve.platform.relax(attempt);
            }
            let put_back = reserve.put_back(id, supply, &mut looked);
            put_back.map_err(|stays| (stays, reserve.frame(id)))?;
            attempt += 1;
        }
        Ok(())
    }
}
