//! Constructed areas: freed by their users, but with their frames, in lists by length, for the next request of
//! the same length. They are still mapped, except in a strict space.
//!
//! The lists are one seat's, and are linked through the areas' headers.
//!
//! # Sources
//! Bonwick, "The slab allocator", USENIX Summer 1994: keeping what is costly to make in its
//! constructed state, one level up.

use super::info::AreaState;
use super::table::{AreaHeader, AreaTable};
use crate::raw::record;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The longest area that is kept, in pages with frames.
pub(in super::super) const KEPT_MAX: u32 = 128;
/// Words that have one bit for each length.
const MASKS: usize = KEPT_MAX.div_ceil(u64::BITS) as usize;
/// Words that have two numbers of 32 bits for each length.
const PAIRS: usize = KEPT_MAX as usize / 2;

record! {
    /// The lists of one seat, or of the depot: the holder's, and other CPUs read the pages.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(in super::super) struct KeptRecord {
        /// Heads of the lists, two a word: the first page of the latest area, plus one.
        heads: [AtomicU64; PAIRS],
        /// Which lists are not empty, one bit a length.
        masks: [AtomicU64; MASKS],
        /// Pages with frames in all lists.
        pages: AtomicU64,
        /// The length to take from next, when something must go.
        next_out: AtomicU64,
        _rest: [AtomicU64; 4],
        /// How many areas each list has, two a word.
        counts: [AtomicU64; PAIRS],
    } = 136 words, masks at 64, counts at 72;
}

/// How many areas of a list are searched for one that is aligned.
const LOOKS: u32 = 8;

/// The lists of one seat.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Kept<'m> {
    record: &'m KeptRecord,
    table: AreaTable<'m>,
}

impl<'m> Kept<'m> {
    /// The lists in `record`; a zeroed one has empty lists.
    #[inline(always)]
    pub(in super::super) const fn new(record: &'m KeptRecord, table: AreaTable<'m>) -> Self {
        Self { record, table }
    }

    /// Pages with frames in all lists.
    #[inline(always)]
    pub(in super::super) fn pages(self) -> u64 {
        get(&self.record.pages)
    }

    /// Takes the latest area of `pages` pages with frames out of its list, if it is aligned. Its header still says that
    /// it is kept.
    #[inline(always)]
    pub(in super::super) fn take_latest(
        self,
        pages: u32,
        is_aligned: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (list, at) = self.latest(pages).filter(|&(_, at)| is_aligned(at))?;
        self.unlink(list, None, self.next(at));
        Some(at)
    }

    /// The same, but the latest that is aligned, if it is among the first few.
    pub(in super::super) fn take(
        self,
        pages: u32,
        is_aligned: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (list, mut at) = self.latest(pages)?;
        let mut before = None;
        for _ in 0..LOOKS {
            let next = self.next(at);
            if is_aligned(at) {
                self.unlink(list, before, next);
                return Some(at);
            }
            before = Some(at);
            at = next?;
        }
        None
    }

    /// The list of areas of `pages` pages and its latest area; `None` if it is empty, or there is no such list.
    #[inline(always)]
    fn latest(self, pages: u32) -> Option<(u32, u32)> {
        let list = pages.wrapping_sub(1);
        if list >= KEPT_MAX {
            return None;
        }
        self.head(list).map(|at| (list, at))
    }

    /// Puts a live area into its list. Returns false if it is no longer live, because another CPU
    /// freed it at the same moment.
    #[inline(always)]
    pub(in super::super) fn put(self, at: u32, live: AreaHeader, pages: u32, alone: bool) -> bool {
        let list = pages - 1;
        let kept = live.kept(self.head(list));
        if alone {
            self.table.set_header(at, kept);
        } else if !self.table.change_header(at, live, kept) {
            return false;
        }
        self.link(list, at);
        true
    }

    /// Puts an area that was taken out of other lists, and that no other CPU can free, into its
    /// list.
    pub(in super::super) fn add(self, at: u32, header: AreaHeader) {
        let list = header.pages() - 2;
        self.table.set_header(at, header.kept(self.head(list)));
        self.link(list, at);
    }

    #[inline(always)]
    fn link(self, list: u32, at: u32) {
        self.set_head(list, Some(at));
        let mask = self.mask(list);
        set(mask, get(mask) | 1 << (list % u64::BITS));
        set(&self.record.pages, self.pages() + u64::from(list) + 1);
        // A window has fewer than 2^32 pages, so no count reaches into its neighbour.
        let word = &self.record.counts[(list / 2) as usize];
        set(word, get(word) + (1 << (list % 2 * 32)));
    }

    /// How many areas of `pages` pages there are, 1 to [`KEPT_MAX`].
    #[inline(always)]
    pub(in super::super) fn count(self, pages: u32) -> u64 {
        let list = pages - 1;
        get(&self.record.counts[(list / 2) as usize]) >> (list % 2 * 32) & 0xffff_ffff
    }

    /// Whether there is an area of `pages` pages, 1 to [`KEPT_MAX`].
    pub(in super::super) fn has(self, pages: u32) -> bool {
        let list = pages - 1;
        get(self.mask(list)) >> (list % u64::BITS) & 1 != 0
    }

    /// The area that [`take_any`](Self::take_any) would take, and its list.
    fn next_out(self) -> Option<(u32, u32)> {
        let masks = self.record.masks.iter().rev();
        let mask = masks.fold(0, |all, mask| all << u64::BITS | u128::from(get(mask)));
        if mask == 0 {
            return None;
        }
        let from = get(&self.record.next_out) as u32 % KEPT_MAX;
        let list = (mask.rotate_right(from).trailing_zeros() + from) % KEPT_MAX;
        Some((self.head(list)?, list))
    }

    /// The area that [`take_any`](Self::take_any) would take.
    pub(in super::super) fn peek_any(self) -> Option<u32> {
        self.next_out().map(|(at, _)| at)
    }

    /// Takes an area out: of each length in turn, so that areas of a length which no request wants
    /// do not stay for ever.
    pub(in super::super) fn take_any(self) -> Option<u32> {
        let (at, list) = self.next_out()?;
        set(&self.record.next_out, u64::from(list) + 1);
        self.unlink(list, None, self.next(at));
        Some(at)
    }

    #[inline(always)]
    fn unlink(self, list: u32, before: Option<u32>, next: Option<u32>) {
        match before {
            None => {
                self.set_head(list, next);
                if next.is_none() {
                    let mask = self.mask(list);
                    set(mask, get(mask) & !(1 << (list % u64::BITS)));
                }
            }
            Some(before) => {
                if let Some(header) = self.table.header(before) {
                    self.table.set_header(before, header.kept(next));
                }
            }
        }
        set(&self.record.pages, self.pages() - u64::from(list) - 1);
        let word = &self.record.counts[(list / 2) as usize];
        set(word, get(word) - (1 << (list % 2 * 32)));
    }

    #[inline(always)]
    fn next(self, at: u32) -> Option<u32> {
        let header = self.table.header(at)?;
        debug_assert!(header.state() == AreaState::Kept, "a listed area is kept");
        header.next()
    }

    #[inline(always)]
    fn head(self, list: u32) -> Option<u32> {
        let word = get(&self.record.heads[(list / 2) as usize]);
        ((word >> (list % 2 * 32)) as u32).checked_sub(1)
    }

    #[inline(always)]
    fn set_head(self, list: u32, at: Option<u32>) {
        let shift = list % 2 * 32;
        let heads = &self.record.heads[(list / 2) as usize];
        let word = get(heads) & !(u64::from(u32::MAX) << shift);
        let link = at.map_or(0, |at| u64::from(at) + 1);
        set(heads, word | link << shift);
    }

    #[inline(always)]
    fn mask(self, list: u32) -> &'m AtomicU64 {
        &self.record.masks[(list / u64::BITS) as usize]
    }

    /// The number of pages in the lists, or the first area with a wrong list or header.
    pub(in super::super) fn verify(self) -> Result<u64, u32> {
        let mut sum = 0;
        for list in 0..KEPT_MAX {
            let mut at = self.head(list);
            if at.is_some() != self.has(list + 1) {
                return Err(at.unwrap_or(0));
            }
            let mut count = 0;
            while let Some(area) = at {
                count += 1;
                let header = self.table.header(area).ok_or(area)?;
                let is_kept = header.state() == AreaState::Kept;
                sum += u64::from(list) + 1;
                if !is_kept || header.pages() != list + 2 || sum > self.pages() {
                    return Err(area);
                }
                at = header.next();
            }
            if count != self.count(list + 1) {
                return Err(self.head(list).unwrap_or(0));
            }
        }
        if sum == self.pages() { Ok(sum) } else { Err(0) }
    }
}

// Relaxed: the words belong to one seat, and its busy and claimed words hand them over.
#[inline(always)]
fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

#[inline(always)]
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Relaxed);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::super::AreaKind;
    use super::*;
    use crate::raw::{Carver, RawRecord, atomic_words};
    use std::vec;
    use std::vec::Vec;

    /// Words for one record, wherever they begin.
    const WORDS: usize = Carver::words_needed(KeptRecord::WORDS);

    fn lists(words: &mut [u64]) -> &[KeptRecord] {
        let count = words.len() / KeptRecord::WORDS;
        Carver::of(words).at_a_line().records(count)
    }

    fn live(table: AreaTable<'_>, at: u32, pages: u32) -> AreaHeader {
        let header = AreaHeader::live(AreaKind::Vmalloc, pages + 1, 9);
        table.set_header(at, header);
        header
    }

    #[test]
    fn areas_come_back_by_length_latest_first_and_aligned_ones_among_the_first_few() {
        let (mut table, mut words) = (vec![0; 4096], vec![0; WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let kept = Kept::new(&lists(&mut words)[0], table);
        assert_eq!(kept.take(1, |_| true), None);
        for (at, pages) in [(0, 1), (64, 1), (2, 64), (70, 1), (300, 2), (80, 1)] {
            assert!(kept.put(at, live(table, at, pages), pages, true));
            kept.verify().unwrap();
        }
        assert_eq!(kept.pages(), 4 + 64 + 2);
        for outside in [0, 3, 129, u32::MAX] {
            assert_eq!(kept.take(outside, |_| true), None);
        }
        assert_eq!(kept.take(1, |at| at % 64 == 0), Some(64));
        kept.verify().unwrap();
        assert_eq!(kept.take(64, |_| false), None);
        assert_eq!(kept.take(64, |_| true), Some(2));
        let rest: Vec<_> = core::iter::from_fn(|| kept.take(1, |_| true)).collect();
        assert_eq!(rest, [80, 70, 0]);
        assert_eq!((kept.verify(), kept.pages()), (Ok(2), 2));
        // The search does not go past the first eight.
        for at in 10..19 {
            assert!(kept.put(at, live(table, at, 3), 3, false));
        }
        assert_eq!(kept.take(3, |at| at == 10), None);
        assert_eq!(kept.take_latest(3, |at| at == 11), None);
        assert_eq!(kept.take(3, |at| at == 11), Some(11));
        assert_eq!(kept.take_latest(3, |at| at == 18), Some(18));
        kept.verify().unwrap();
    }

    #[test]
    fn what_must_go_is_taken_from_each_length_in_turn() {
        let (mut table, mut words) = (vec![0; 4096], vec![0; WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let kept = Kept::new(&lists(&mut words)[0], table);
        for (at, pages) in [(0, 64), (100, 64), (200, 1), (210, 1), (220, 1), (300, 5)] {
            assert!(kept.put(at, live(table, at, pages), pages, true));
        }
        let gone: Vec<_> = core::iter::from_fn(|| kept.take_any()).collect();
        assert_eq!(gone, [220, 300, 100, 210, 0, 200]);
        assert_eq!((kept.verify(), kept.pages()), (Ok(0), 0));
    }

    #[test]
    fn an_area_that_another_cpu_freed_meanwhile_is_not_put_twice() {
        let (mut table, mut words) = (vec![0; 64], vec![0; WORDS + KeptRecord::WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let [ours, theirs] = lists(&mut words) else {
            unreachable!("memory for two")
        };
        let (ours, theirs) = (Kept::new(ours, table), Kept::new(theirs, table));
        let header = live(table, 5, 2);
        assert!(theirs.put(5, header, 2, false));
        assert!(!ours.put(5, header, 2, false));
        assert_eq!((ours.pages(), theirs.pages()), (0, 2));
        assert_eq!(ours.verify(), Ok(0));
        assert_eq!(theirs.verify(), Ok(2));
    }

    #[test]
    fn a_broken_list_is_noticed() {
        let (mut table, mut words) = (vec![0; 256], vec![0; WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let record = &lists(&mut words)[0];
        let kept = Kept::new(record, table);
        assert!(kept.put(9, live(table, 9, 2), 2, true));
        live(table, 9, 2);
        assert_eq!(kept.verify(), Err(9), "not kept");
        table.set_header(9, live(table, 9, 3).kept(None));
        assert_eq!(kept.verify(), Err(9), "another length");
        table.set_header(9, live(table, 9, 2).kept(Some(9)));
        assert_eq!(kept.verify(), Err(9), "a circle");
        table.set_header(9, live(table, 9, 2).kept(None));
        assert_eq!(kept.verify(), Ok(2));
        record.pages.store(3, Relaxed);
        assert_eq!(kept.verify(), Err(0), "the sum");
        record.masks[0].store(0, Relaxed);
        assert_eq!(kept.verify(), Err(9), "the mask");
    }
}
