//! The set of free pages.

use crate::raw::Carver;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// The set of free pages. A CPU that holds the lock of the units changes it; others look.
#[derive(Debug)]
pub(super) struct FreeUnitPages<'m> {
    pages: &'m [AtomicU64],
    /// The words of it that have one.
    words: &'m [AtomicU64],
}

/// Puts a number into a set that only holders of the lock change.
fn insert(set: &[AtomicU64], nth: usize) {
    let word = &set[nth / 64];
    word.store(word.load(Relaxed) | 1 << (nth % 64), Relaxed);
}

/// Takes a number out of such a set. Returns whether its word has no other.
fn remove(set: &[AtomicU64], nth: usize) -> bool {
    let word = &set[nth / 64];
    let rest = word.load(Relaxed) & !(1 << (nth % 64));
    word.store(rest, Relaxed);
    rest == 0
}

fn contains(set: &[AtomicU64], nth: usize) -> bool {
    set[nth / 64].load(Relaxed) >> (nth % 64) & 1 != 0
}

impl<'m> FreeUnitPages<'m> {
    pub(super) const fn words(pages: usize) -> usize {
        pages.div_ceil(64) + pages.div_ceil(64 * 64)
    }

    /// All pages.
    pub(super) fn new(pages: usize, carver: &mut Carver<'m>) -> Self {
        let set = Self {
            pages: carver.words(pages.div_ceil(64)),
            words: carver.words(pages.div_ceil(64 * 64)),
        };
        (0..pages).for_each(|page| insert(set.pages, page));
        (0..set.pages.len()).for_each(|word| insert(set.words, word));
        set
    }

    pub(super) fn insert(&self, page: u32) {
        insert(self.pages, page as usize);
        insert(self.words, page as usize / 64);
    }

    pub(super) fn remove(&self, page: u32) {
        if remove(self.pages, page as usize) {
            remove(self.words, page as usize / 64);
        }
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        contains(self.pages, page as usize)
    }

    /// Whether the set of words says right whether that page's word has a free page.
    pub(super) fn is_word_right(&self, page: u32) -> bool {
        let word = page as usize / 64;
        contains(self.words, word) == (self.pages[word].load(Relaxed) != 0)
    }

    /// The first page.
    pub(super) fn first(&self) -> Option<u32> {
        let first_of = |set: &[AtomicU64], nth: usize| {
            let word = set[nth].load(Relaxed);
            (word != 0).then(|| nth * 64 + word.trailing_zeros() as usize)
        };
        let word = (0..self.words.len()).find_map(|nth| first_of(self.words, nth))?;
        first_of(self.pages, word).map(|page| page as u32)
    }

    /// A search for `pages` pages side by side, from page `from` on.
    pub(super) const fn search(&self, from: u32, pages: u32) -> UnitSearch<'m> {
        UnitSearch {
            set: self.pages,
            from,
            pages,
            len: 0,
        }
    }
}

/// A search for ones side by side in the set of free pages.
#[derive(Debug)]
pub(super) struct UnitSearch<'m> {
    set: &'m [AtomicU64],
    /// The page at which it goes on, and how many free ones lie right before that.
    from: u32,
    len: u32,
    pages: u32,
}

impl UnitSearch<'_> {
    /// Reads so many words more. The first page, or `None` in there if the search has ended without one.
    pub(super) fn go_on(&mut self, words: usize) -> Option<Option<u32>> {
        for _ in 0..words {
            let Some(word) = self.set.get(self.from as usize / 64) else {
                return Some(None);
            };
            let word = word.load(Relaxed);
            let mut at = self.from % 64;
            while at < 64 {
                let ones = (word >> at).trailing_ones();
                at += ones;
                self.from += ones;
                self.len += ones;
                if self.len >= self.pages {
                    return Some(Some(self.from - self.len));
                }
                if at < 64 {
                    let zeroes = (word >> at).trailing_zeros().min(64 - at);
                    at += zeroes;
                    self.from += zeroes;
                    self.len = 0;
                }
            }
        }
        None
    }
}
