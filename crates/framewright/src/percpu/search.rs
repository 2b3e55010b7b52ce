//! The search for free pages side by side.

use crate::slots::Tree;

/// A search for numbers side by side in a set. Others may change it meanwhile.
#[derive(Debug)]
pub(super) struct UnitSearch<'m> {
    set: Tree<'m>,
    /// The number at which it goes on, and how many of the set lie right before that.
    from: u32,
    len: u32,
    pages: u32,
}

impl<'m> UnitSearch<'m> {
    /// A search for `pages` of them, from `from` on.
    pub(super) const fn new(set: Tree<'m>, from: u32, pages: u32) -> Self {
        Self {
            set,
            from,
            pages,
            len: 0,
        }
    }

    /// Reads so many words more. The first of them, or `None` in there if the search has ended without one.
    pub(super) fn go_on(&mut self, words: usize) -> Option<Option<u32>> {
        for _ in 0..words {
            let Some(word) = self.set.word(self.from as usize / 64) else {
                return Some(None);
            };
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
