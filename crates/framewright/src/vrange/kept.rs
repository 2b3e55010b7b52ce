//! Constructed areas: freed by their users, but with frames and mapping intact, in lists by length,
//! for the next request of the same length.
//!
//! ```text
//!     words 0 to 31   heads of the lists, two a word: the first page of the latest area, plus one
//!     word 32         which lists are not empty, one bit a length
//!     word 33         pages with frames in all lists
//!     word 34         the length to take from next, when something must go
//!     words 40 to 71  how many areas each list has, two a word
//! ```
//!
//! The lists are one seat's, and are linked through the areas' headers.
//!
//! # Sources
//! Bonwick, "The slab allocator", USENIX Summer 1994: keeping what is costly to make in its
//! constructed state, one level up.

use super::AreaState;
use super::table::{AreaHeader, AreaTable};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The longest area that is kept, in pages with frames.
pub(super) const KEPT_MAX: u32 = 64;
/// Words of the lists of one seat: whole cache lines.
pub(super) const KEPT_WORDS: usize = 72;

const MASK: usize = KEPT_MAX as usize / 2;
const PAGES: usize = MASK + 1;
const NEXT_OUT: usize = MASK + 2;
const COUNTS: usize = 40;
const _: () = assert!(NEXT_OUT < COUNTS && COUNTS + KEPT_MAX as usize / 2 == KEPT_WORDS);
const _: () = assert!(KEPT_WORDS.is_multiple_of(8));
const _: () = assert!(KEPT_MAX == u64::BITS, "one bit a length");

/// How many areas of a list are searched for one that is aligned.
const LOOKS: u32 = 4;

/// The lists of one seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'m> {
    words: &'m [AtomicU64],
    table: AreaTable<'m>,
}

impl<'m> Kept<'m> {
    /// The lists in `words`, of which there are [`KEPT_WORDS`]; zeroed words are empty lists.
    #[inline(always)]
    pub(super) const fn new(words: &'m [AtomicU64], table: AreaTable<'m>) -> Self {
        Self { words, table }
    }

    /// Pages with frames in all lists.
    #[inline(always)]
    pub(super) fn pages(self) -> u64 {
        self.words[PAGES].load(Relaxed)
    }

    /// Takes an area of `pages` pages with frames out of its list: the latest aligned one, if it is
    /// among the first few. Its header still says that it is kept.
    #[inline(always)]
    pub(super) fn take(self, pages: u32, is_aligned: impl Fn(u32) -> bool) -> Option<u32> {
        let list = pages.wrapping_sub(1);
        if list >= KEPT_MAX {
            return None;
        }
        let mut before = None;
        let mut at = self.head(list)?;
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

    /// Puts a live area into its list. Returns false if it is no longer live, because another CPU
    /// freed it at the same moment.
    #[inline(always)]
    pub(super) fn put(self, at: u32, live: AreaHeader, pages: u32, alone: bool) -> bool {
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
    pub(super) fn add(self, at: u32, header: AreaHeader) {
        let list = header.pages() - 2;
        self.table.set_header(at, header.kept(self.head(list)));
        self.link(list, at);
    }

    #[inline(always)]
    fn link(self, list: u32, at: u32) {
        self.set_head(list, Some(at));
        self.set(MASK, self.get(MASK) | 1 << list);
        self.set(PAGES, self.pages() + u64::from(list) + 1);
        // A window has fewer than 2^32 pages, so no count reaches into its neighbour.
        let word = COUNTS + (list / 2) as usize;
        self.set(word, self.get(word) + (1 << (list % 2 * 32)));
    }

    /// How many areas of `pages` pages there are, 1 to [`KEPT_MAX`].
    #[inline(always)]
    pub(super) fn count(self, pages: u32) -> u64 {
        let list = pages - 1;
        self.get(COUNTS + (list / 2) as usize) >> (list % 2 * 32) & 0xffff_ffff
    }

    /// Whether there is an area of `pages` pages, 1 to [`KEPT_MAX`].
    pub(super) fn has(self, pages: u32) -> bool {
        self.get(MASK) >> (pages - 1) & 1 != 0
    }

    /// The area that [`take_any`](Self::take_any) would take, and its list.
    fn next_out(self) -> Option<(u32, u32)> {
        let mask = self.get(MASK);
        if mask == 0 {
            return None;
        }
        let from = self.get(NEXT_OUT) as u32 % KEPT_MAX;
        let list = (mask.rotate_right(from).trailing_zeros() + from) % KEPT_MAX;
        Some((self.head(list)?, list))
    }

    /// The area that [`take_any`](Self::take_any) would take.
    pub(super) fn peek_any(self) -> Option<u32> {
        self.next_out().map(|(at, _)| at)
    }

    /// Takes an area out: of each length in turn, so that areas of a length which no request wants
    /// do not stay for ever.
    pub(super) fn take_any(self) -> Option<u32> {
        let (at, list) = self.next_out()?;
        self.set(NEXT_OUT, u64::from(list) + 1);
        self.unlink(list, None, self.next(at));
        Some(at)
    }

    #[inline(always)]
    fn unlink(self, list: u32, before: Option<u32>, next: Option<u32>) {
        match before {
            None => {
                self.set_head(list, next);
                if next.is_none() {
                    self.set(MASK, self.get(MASK) & !(1 << list));
                }
            }
            Some(before) => {
                if let Some(header) = self.table.header(before) {
                    self.table.set_header(before, header.kept(next));
                }
            }
        }
        self.set(PAGES, self.pages() - u64::from(list) - 1);
        let word = COUNTS + (list / 2) as usize;
        self.set(word, self.get(word) - (1 << (list % 2 * 32)));
    }

    #[inline(always)]
    fn next(self, at: u32) -> Option<u32> {
        let header = self.table.header(at)?;
        debug_assert!(header.state() == AreaState::Kept, "a listed area is kept");
        header.next()
    }

    #[inline(always)]
    fn head(self, list: u32) -> Option<u32> {
        let word = self.get((list / 2) as usize);
        ((word >> (list % 2 * 32)) as u32).checked_sub(1)
    }

    #[inline(always)]
    fn set_head(self, list: u32, at: Option<u32>) {
        let shift = list % 2 * 32;
        let word = self.get((list / 2) as usize) & !(u64::from(u32::MAX) << shift);
        let link = at.map_or(0, |at| u64::from(at) + 1);
        self.set((list / 2) as usize, word | link << shift);
    }

    // Relaxed: the words belong to one seat, and its busy and claimed words hand them over.
    #[inline(always)]
    fn get(self, word: usize) -> u64 {
        self.words[word].load(Relaxed)
    }

    #[inline(always)]
    fn set(self, word: usize, value: u64) {
        self.words[word].store(value, Relaxed);
    }

    /// The number of pages in the lists, or the first area with a wrong list or header.
    pub(super) fn verify(self) -> Result<u64, u32> {
        let mut sum = 0;
        for list in 0..KEPT_MAX {
            let mut at = self.head(list);
            if at.is_some() != (self.get(MASK) >> list & 1 != 0) {
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::super::AreaKind;
    use super::*;
    use crate::raw::atomic_words;
    use std::vec;
    use std::vec::Vec;

    fn live(table: AreaTable<'_>, at: u32, pages: u32) -> AreaHeader {
        let header = AreaHeader::live(AreaKind::Vmalloc, pages + 1, 9);
        table.set_header(at, header);
        header
    }

    #[test]
    fn areas_come_back_by_length_latest_first_and_aligned_ones_among_the_first_few() {
        let (mut table, mut words) = (vec![0; 4096], vec![0; KEPT_WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let kept = Kept::new(atomic_words(&mut words), table);
        assert_eq!(kept.take(1, |_| true), None);
        for (at, pages) in [(0, 1), (64, 1), (2, 64), (70, 1), (300, 2), (80, 1)] {
            assert!(kept.put(at, live(table, at, pages), pages, true));
            kept.verify().unwrap();
        }
        assert_eq!(kept.pages(), 4 + 64 + 2);
        for outside in [0, 3, 65, u32::MAX] {
            assert_eq!(kept.take(outside, |_| true), None);
        }
        assert_eq!(kept.take(1, |at| at % 64 == 0), Some(64));
        kept.verify().unwrap();
        assert_eq!(kept.take(64, |_| false), None);
        assert_eq!(kept.take(64, |_| true), Some(2));
        let rest: Vec<_> = core::iter::from_fn(|| kept.take(1, |_| true)).collect();
        assert_eq!(rest, [80, 70, 0]);
        assert_eq!((kept.verify(), kept.pages()), (Ok(2), 2));
        // The search does not go past the first four.
        for at in 10..15 {
            assert!(kept.put(at, live(table, at, 3), 3, false));
        }
        assert_eq!(kept.take(3, |at| at == 10), None);
        assert_eq!(kept.take(3, |at| at == 11), Some(11));
        kept.verify().unwrap();
    }

    #[test]
    fn what_must_go_is_taken_from_each_length_in_turn() {
        let (mut table, mut words) = (vec![0; 4096], vec![0; KEPT_WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let kept = Kept::new(atomic_words(&mut words), table);
        for (at, pages) in [(0, 64), (100, 64), (200, 1), (210, 1), (220, 1), (300, 5)] {
            assert!(kept.put(at, live(table, at, pages), pages, true));
        }
        let gone: Vec<_> = core::iter::from_fn(|| kept.take_any()).collect();
        assert_eq!(gone, [220, 300, 100, 210, 0, 200]);
        assert_eq!((kept.verify(), kept.pages()), (Ok(0), 0));
    }

    #[test]
    fn an_area_that_somebody_else_freed_meanwhile_is_not_put_twice() {
        let (mut table, mut words) = (vec![0; 64], vec![0; 2 * KEPT_WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let words = atomic_words(&mut words);
        let (ours, theirs) = words.split_at(KEPT_WORDS);
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
        let (mut table, mut words) = (vec![0; 256], vec![0; KEPT_WORDS]);
        let table = AreaTable::new(atomic_words(&mut table));
        let words = atomic_words(&mut words);
        let kept = Kept::new(words, table);
        assert!(kept.put(9, live(table, 9, 2), 2, true));
        live(table, 9, 2);
        assert_eq!(kept.verify(), Err(9), "not kept");
        table.set_header(9, live(table, 9, 3).kept(None));
        assert_eq!(kept.verify(), Err(9), "another length");
        table.set_header(9, live(table, 9, 2).kept(Some(9)));
        assert_eq!(kept.verify(), Err(9), "a circle");
        table.set_header(9, live(table, 9, 2).kept(None));
        assert_eq!(kept.verify(), Ok(2));
        words[PAGES].store(3, Relaxed);
        assert_eq!(kept.verify(), Err(0), "the sum");
        words[MASK].store(0, Relaxed);
        assert_eq!(kept.verify(), Err(9), "the mask");
    }
}
