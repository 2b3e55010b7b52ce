//! What owners do: reservations, taking, releasing.

use super::area::{RESERVATIONS, Reserve};
use super::counters::{CURSOR, RELEASED, TAKEN_COLD, TAKEN_FREE, TAKEN_HOT, TAKES, TAKES_FAILED};
use super::reservations::{Entry, Reservation};
use super::table::{BLOCK, DIRTY, FREE, KEPT, MOVABLE, OWNED, State, VISITED};
use super::{ReleaseError, ReservationError, TakeError};
use crate::platform::{Contents, Relax};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::units::{Frame, Run};
use core::ops::Range;

/// How often a search is made again, when what it chose was made dirty meanwhile.
const TRIES: usize = 8;

/// What taking a run would cost. Guests are at work meanwhile, so that what is added at one end of a
/// window and subtracted at the other may differ by a little: a sum is an estimate, and may be
/// below zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cost {
    /// Frames that cannot be taken, reserved or owned: exact, under the owners' lock.
    impossible: u32,
    /// Pages, those got lately counted twice, those to be put back [`PUT_BACK_PAGES`] times, and
    /// [`DIRTY_PAGES`] where one is not yet on its device.
    pages: i64,
}

/// What dirty pages among 64 frames count: more than all pages of a run together.
const DIRTY_PAGES: i64 = 1 << 32;

/// What a page that is to be put back counts: its copy takes 0.5 to 1 µs, where to discard one and to
/// have it read again is some ten ns of an owner's time.
const PUT_BACK_PAGES: i64 = 64;

impl Cost {
    const fn plus(self, other: Self) -> Self {
        Self {
            impossible: self.impossible + other.impossible,
            pages: self.pages + other.pages,
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            impossible: self.impossible - other.impossible,
            pages: self.pages - other.pages,
        }
    }

    /// Whether the run can be taken, as far as was seen.
    const fn is_possible(self) -> bool {
        self.impossible == 0 && self.pages < DIRTY_PAGES
    }
}

impl<'m, P: Relax + Contents> Reserve<'m, P> {
    /// Sets a run of `frames` frames aside, the first at a multiple of `align` frames: no other
    /// reservation and no [`alloc_contig`](Self::alloc_contig) gets any of it, guests keep their pages
    /// there, and from now on it holds only pages that can be dropped. The highest such run.
    ///
    /// `name` is for listings; its first sixteen bytes are kept. Time: O(frames). Takes the owners' lock.
    ///
    /// # Errors
    /// Why not. Nothing has changed then.
    pub fn reserve(
        &self,
        name: &str,
        frames: u64,
        align: u64,
    ) -> Result<Reservation, ReservationError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(ReservationError::Malformed);
        }
        let _owners = self.lock_owners();
        if self.reservations.is_full() {
            return Err(ReservationError::TooMany(RESERVATIONS));
        }
        let run = self.place(frames, align)?;
        let reservation = self.reservations.add(name, run);
        reservation.ok_or(ReservationError::TooMany(RESERVATIONS))
    }

    /// Gives a reservation up: its frames are everybody's again.
    ///
    /// # Errors
    /// If there is no such reservation, or it is taken.
    pub fn unreserve(&self, reservation: Reservation) -> Result<(), TakeError> {
        let _owners = self.lock_owners();
        let entry = self.reserved(reservation)?;
        let run = entry.run();
        if entry.is_taken() {
            return Err(TakeError::Taken(run));
        }
        entry.remove();
        self.set_kept(&self.offsets(run), false);
        Ok(())
    }

    /// The run of a reservation.
    #[must_use]
    pub fn run_of(&self, reservation: Reservation) -> Option<Run> {
        Some(self.reservations.get(reservation)?.run())
    }

    /// Takes a reservation, discarding the guests' pages that are in it.
    ///
    /// Time: about 1 ns for each page discarded and 20 ns for each 512 frames; waits for copies in flight,
    /// one for each CPU at most. Calls nobody.
    ///
    /// # Errors
    /// If it is taken already, or there is no such reservation: never because of guests (C3).
    pub fn take(&self, reservation: Reservation) -> Result<Run, TakeError> {
        let _owners = self.lock_owners();
        let entry = self.reserved(reservation)?;
        let (run, free) = (entry.run(), !entry.is_taken());
        if !free || !self.discard(&self.offsets(run), &[OWNED, DIRTY]) {
            debug_assert!(!free, "no dirty page and no owner is in a reservation");
            self.add(TAKES_FAILED, 1);
            return Err(TakeError::Taken(run));
        }
        entry.set_taken(true);
        Ok(run)
    }

    /// Takes a run of `frames` frames, the first at a multiple of `align` frames, of what no
    /// reservation needs: one that costs the fewest pages, those that were got lately counted twice;
    /// the lowest of several.
    ///
    /// Time: a search through the bitmaps, a few ns for each 64 frames, and as [`take`](Self::take).
    ///
    /// # Errors
    /// If there is no run that is not reserved, owned or dirty. Nothing has changed then, except that
    /// pages may have been dropped.
    pub fn alloc_contig(&self, frames: u64, align: u64) -> Result<Run, TakeError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(TakeError::Malformed);
        }
        let _owners = self.lock_owners();
        let mut swept = false;
        for _ in 0..TRIES {
            let Some(ids) = self.cheapest(frames, align, false) else {
                if swept {
                    break;
                }
                self.drop_dead(&(0..self.table.frames()));
                swept = true;
                continue;
            };
            if self.discard(&ids, &[OWNED, DIRTY, KEPT]) {
                let start = self.frame(ids.start);
                return Ok(Run::new(start, frames).expect("inside the reserve"));
            }
        }
        self.add(TAKES_FAILED, 1);
        Err(TakeError::NoRoom)
    }

    /// Gives frames back that an owner had: a whole reservation, or any part of what
    /// [`alloc_contig`](Self::alloc_contig) gave. Guests may use them at once; what is in them is
    /// never served.
    ///
    /// # Errors
    /// If not all of it is owned, or it is part of a reservation. Nothing has changed then.
    pub fn release(&self, run: Run) -> Result<(), ReleaseError> {
        let _owners = self.lock_owners();
        let whole = self.contains(run).then(|| self.offsets(run));
        let ids = whole.ok_or(ReleaseError::NotOwned(run))?;
        let owned = |(nth, mask)| self.bits(nth, &[OWNED]) & mask == mask;
        let kept = |(nth, mask)| self.bits(nth, &[KEPT]) & mask != 0;
        let mut reservations = self.reservations.all();
        let reservation = reservations.find(|entry| entry.is_taken() && entry.run() == run);
        if ids.is_empty()
            || !words_of(&ids).all(owned)
            || reservation.is_none() && words_of(&ids).any(kept)
        {
            return Err(ReleaseError::NotOwned(run));
        }
        if let Some(entry) = reservation {
            entry.set_taken(false);
        }
        self.own_no_more(&ids);
        self.add(RELEASED, run.frames());
        Ok(())
    }

    /// Calls `each` with the name, the run, and whether it is taken, of every reservation.
    pub fn for_each_reservation(&self, mut each: impl FnMut(&str, Run, bool)) {
        let _owners = self.lock_owners();
        for entry in self.reservations.all() {
            entry.with_name(|name| each(name, entry.run(), entry.is_taken()));
        }
    }

    fn reserved(&self, reservation: Reservation) -> Result<Entry<'m>, TakeError> {
        let entry = self.reservations.get(reservation);
        entry.ok_or(TakeError::Unknown)
    }

    fn contains(&self, run: Run) -> bool {
        run.start() >= self.run().start() && run.end() <= self.run().end()
    }

    fn offsets(&self, run: Run) -> Range<usize> {
        let start = (run.start().0 - self.run().start().0) as usize;
        start..start + run.frames() as usize
    }

    pub(super) fn add(&self, word: usize, by: u64) {
        // Under the owners' lock.
        self.own[word].store(self.own[word].load(Relaxed) + by, Relaxed);
    }

    /// Finds a place for a reservation and keeps it, if no dirty page is there or comes meanwhile.
    /// From the highest place down, each time to below what was in the way.
    fn place(&self, frames: u64, align: u64) -> Result<Run, ReservationError> {
        let start = self.run().start().0;
        let mut why = ReservationError::NoRoom;
        let mut end = self.run().end().0;
        while let Some(at) = end.checked_sub(frames).map(|at| at / align * align)
            && at >= start
        {
            let run = Run::new(Frame(at), frames).expect("inside the reserve");
            let ids = self.offsets(run);
            self.drop_dead(&ids);
            let mut obstacle = self.first_of(&ids, &[KEPT, OWNED, DIRTY]);
            if obstacle.is_none() {
                self.set_kept(&ids, true);
                // What came until then is there to be seen.
                obstacle = self.first_of(&ids, &[OWNED, DIRTY]);
                if obstacle.is_none() {
                    return Ok(run);
                }
                self.set_kept(&ids, false);
            }
            if self.first_of(&ids, &[OWNED, DIRTY]).is_some() {
                why = ReservationError::Busy;
            }
            end = start + obstacle.map_or(0, |id| id as u64);
        }
        Err(why)
    }

    /// The first frame that is in one of the bitmaps.
    pub(super) fn first_of(&self, ids: &Range<usize>, bitmaps: &[usize]) -> Option<usize> {
        words_of(ids).find_map(|(nth, mask)| {
            let bits = self.bits(nth, bitmaps) & mask;
            (bits != 0).then(|| nth * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Drops dirty pages that are invalid by their pool's generation: nobody waits for them.
    pub(super) fn drop_dead(&self, ids: &Range<usize>) {
        let mut at = ids.start;
        while let Some(id) = self.first_of(&(at..ids.end), &[DIRTY]) {
            at = id + 1;
            let _shut = self.table.shut(id / BLOCK, &self.platform);
            let state = self.table.state(id);
            if state.state() == State::Dirty
                && self.is_dead(id, state)
                && self
                    .table
                    .change(id, state, state.next(State::Free, state.pool()))
            {
                self.dirty_no_more(id, state.pool());
                self.count_lost(state.pool());
                self.table.set_free(id);
                self.tell_free(id);
            }
        }
    }

    /// A page of a pool is gone because of an owner.
    pub(super) fn count_lost(&self, pool: usize) {
        let lost = &self.lost[pool];
        lost.store(lost.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Sets frames aside, or not any more. Who puts a dirty page is inside the gate from his look on
    /// to the end: so when it is open again, he has seen it, or his page is there to be seen.
    pub(super) fn set_kept(&self, ids: &Range<usize>, kept: bool) {
        for (nth, mask) in words_of(ids) {
            let _shut = self.table.shut(nth * 64 / BLOCK, &self.platform);
            let word = &self.table.lane(nth)[KEPT];
            let before = word.load(Relaxed);
            // Only owners write it, and they take turns.
            word.store(if kept { before | mask } else { before & !mask }, Relaxed);
        }
    }

    /// Makes frames an owner's. `false` if one is in one of the `forbidden` bitmaps: nothing is owned
    /// then.
    pub(super) fn discard(&self, ids: &Range<usize>, forbidden: &[usize]) -> bool {
        let table = &self.table;
        let (mut free, mut cold, mut hot) = (0, 0, 0);
        let mut done = ids.start;
        while done < ids.end {
            let block = done / BLOCK;
            let end = ids.end.min((block + 1) * BLOCK);
            let shut = table.shut(block, &self.platform);
            let here = done..end;
            if words_of(&here).any(|(nth, mask)| self.bits(nth, forbidden) & mask != 0) {
                drop(shut);
                self.own_no_more(&(ids.start..done));
                return false;
            }
            for (nth, mask) in words_of(&here) {
                let lane = table.lane(nth);
                let was_free = lane[FREE].load(Relaxed) & mask;
                // Plain stores: with the gate shut nobody else writes these two.
                lane[FREE].store(lane[FREE].load(Relaxed) & !mask, Relaxed);
                lane[OWNED].store(lane[OWNED].load(Relaxed) | mask, Relaxed);
                free += u64::from(was_free.count_ones());
                let mut pages = mask & !was_free;
                let visited = lane[VISITED].load(Relaxed) & mask;
                if pages != 0 && visited != 0 {
                    lane[VISITED].fetch_and(!mask, Relaxed);
                }
                hot += u64::from((pages & visited).count_ones());
                cold += u64::from((pages & !visited).count_ones());
                while pages != 0 {
                    let id = nth * 64 + pages.trailing_zeros() as usize;
                    pages &= pages - 1;
                    let state = table.state(id);
                    table.set_shut(id, state.next(State::Free, state.pool()));
                    self.count_lost(state.pool());
                }
            }
            drop(shut);
            done = end;
        }
        // Before the owner's first write.
        table.before_writing();
        self.add(TAKES, 1);
        self.add(TAKEN_FREE, free);
        self.add(TAKEN_COLD, cold);
        self.add(TAKEN_HOT, hot);
        true
    }

    fn own_no_more(&self, ids: &Range<usize>) {
        for (nth, mask) in words_of(ids) {
            let lane = self.table.lane(nth);
            // Only owners write it, and they take turns.
            lane[OWNED].store(lane[OWNED].load(Relaxed) & !mask, Relaxed);
            // SeqCst, as where one frame becomes free.
            lane[FREE].fetch_or(mask, SeqCst);
        }
        if !ids.is_empty() {
            for block in ids.start / BLOCK..=(ids.end - 1) / BLOCK {
                self.tell_free(block * BLOCK);
            }
        }
    }

    /// The bits of 64 frames in one of several bitmaps.
    #[inline]
    pub(super) fn bits(&self, nth: usize, bitmaps: &[usize]) -> u64 {
        let lane = self.table.lane(nth);
        bitmaps
            .iter()
            .fold(0, |bits, &bitmap| bits | lane[bitmap].load(Relaxed))
    }

    /// What taking `offsets` would cost, if what can be put back may be.
    #[inline]
    fn cost(&self, offsets: &Range<usize>, put_back: bool) -> Cost {
        words_of(offsets)
            .map(|(nth, mask)| self.cost_of_word(nth, mask, put_back))
            .fold(Cost::default(), Cost::plus)
    }

    #[inline]
    fn cost_of_word(&self, nth: usize, mask: u64, put_back: bool) -> Cost {
        let impossible = self.bits(nth, &[KEPT, OWNED]) & mask;
        let pages = mask & !self.bits(nth, &[FREE]);
        if pages == 0 {
            return Cost {
                impossible: impossible.count_ones(),
                pages: 0,
            };
        }
        let hot = pages & self.bits(nth, &[VISITED]);
        let mut dirty = self.bits(nth, &[DIRTY]) & mask;
        let mut moved = 0;
        if put_back && dirty != 0 {
            moved = dirty & self.bits(nth, &[MOVABLE]);
            dirty &= !moved;
        }
        let count = |bits: u64| match bits {
            0 => 0,
            u64::MAX => 64,
            _ => i64::from(bits.count_ones()),
        };
        Cost {
            impossible: impossible.count_ones(),
            pages: count(pages)
                + count(hot)
                + count(moved) * PUT_BACK_PAGES
                + if dirty == 0 { 0 } else { DIRTY_PAGES },
        }
    }

    /// The cheapest run that can be taken.
    pub(super) fn cheapest(&self, frames: u64, align: u64, put_back: bool) -> Option<Range<usize>> {
        let all = self.table.frames() as u64;
        let start = self.run().start().0;
        let first = start.next_multiple_of(align).checked_sub(start)?;
        if frames > all || first > all - frames {
            return None;
        }
        if frames == 1 && align == 1 {
            let movable = || {
                let lanes = (0..self.table.frames().div_ceil(64)).filter(|_| put_back);
                let mut bits = lanes.map(|nth| {
                    let obstacles = self.bits(nth, &[KEPT, OWNED]);
                    (nth, self.bits(nth, &[MOVABLE]) & !obstacles)
                });
                let (nth, bits) = bits.find(|(_, bits)| *bits != 0)?;
                let id = nth * 64 + bits.trailing_zeros() as usize;
                Some(id..id + 1)
            };
            return self.cheapest_frame().or_else(movable);
        }
        // Candidates stand on a grid, so that a window slides over it piece by piece.
        let grid = align.max(frames.next_power_of_two().min(64));
        let (whole, rest) = (frames / grid * grid, frames % grid);
        let range = |from: u64, to: u64| from as usize..to as usize;
        let mut sum = self.cost(&range(first, first + whole), put_back);
        let mut best: Option<(i64, u64)> = None;
        let mut at = first;
        loop {
            let tail = self.cost(&range(at + whole, at + whole + rest), put_back);
            let cost = sum.plus(tail);
            if cost.is_possible() && best.is_none_or(|(pages, _)| cost.pages < pages) {
                best = Some((cost.pages, at));
                if cost.pages <= 0 {
                    break;
                }
            }
            if at + grid > all - frames {
                break;
            }
            if whole > 0 {
                sum = sum.minus(self.cost(&range(at, at + grid), put_back));
                sum = sum.plus(self.cost(&range(at + whole, at + whole + grid), put_back));
            }
            at += grid;
        }
        let at = match best {
            Some((_, at)) => at,
            None => self.first_fit(frames, align, put_back)?,
        };
        Some(range(at, at + frames))
    }

    /// The lowest run that can be taken, on the grid or not.
    fn first_fit(&self, frames: u64, align: u64, put_back: bool) -> Option<u64> {
        let start = self.run().start().0;
        let mut at = 0;
        // The run of frames that can be taken, which ends before `at`, begins here.
        let mut begin = 0;
        while at < self.table.frames() {
            if !self.cost(&(at..at + 1), put_back).is_possible() {
                begin = at + 1;
            } else {
                let aligned = (start + begin as u64).next_multiple_of(align) - start;
                if at as u64 + 1 >= aligned + frames {
                    return Some(aligned);
                }
            }
            at += 1;
        }
        None
    }

    /// A single frame: free if there is one near, else one that was not got lately.
    fn cheapest_frame(&self) -> Option<Range<usize>> {
        let words = self.table.frames().div_ceil(64);
        let begin = self.own[CURSOR].load(Relaxed) as usize % words;
        let has_free = (0..self.orders[0].len()).any(|shard| self.orders[0].can_have_free(shard));
        let look = |wants_free: bool, wants_cold: bool| {
            let nth = (begin..words).chain(0..begin);
            let found = nth.map(|nth| {
                let last = self.table.frames() - nth * 64;
                let inside = if last < 64 { (1 << last) - 1 } else { u64::MAX };
                let mut bits = inside & !self.bits(nth, &[KEPT, OWNED, DIRTY]);
                if wants_free {
                    bits &= self.bits(nth, &[FREE]);
                } else if wants_cold {
                    bits &= !self.bits(nth, &[VISITED]);
                }
                (nth, bits)
            });
            let found = found.into_iter().find(|(_, bits)| *bits != 0);
            found.map(|(nth, bits)| (nth, nth * 64 + bits.trailing_zeros() as usize))
        };
        let free = if has_free { look(true, false) } else { None };
        let found = free
            .or_else(|| look(false, true))
            .or_else(|| look(false, false));
        let (nth, id) = found?;
        self.own[CURSOR].store(nth as u64, Relaxed);
        Some(id..id + 1)
    }
}

/// The lanes that a range of frames lies in, and its bits in each.
pub(super) fn words_of(ids: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (start, end) = (ids.start, ids.end);
    let words = if start < end {
        start / 64..end.div_ceil(64)
    } else {
        0..0
    };
    words.map(move |word| {
        let low = u64::MAX << start.saturating_sub(word * 64).min(63);
        let above = (word + 1) * 64;
        let high = u64::MAX >> above.saturating_sub(end).min(63);
        (word, low & high)
    })
}
