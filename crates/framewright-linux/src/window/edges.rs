//! How many mappings the kernel has in a window is not asked of the kernel: it follows from the edges between what
//! single calls mapped. The file knows nothing of budgets; it says by how much a change moves the count.

use crate::mapping::Mapping;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The page behind the edge is mapped.
const MAPPED: u64 = 1;
/// The kernel may begin a mapping of its own there, even if the page before is mapped too.
const FIRST: u64 = 2;
/// The page before the edge is mapped.
const BEFORE: u64 = 4;
/// The kernel failed there, and may have left an edge.
const TORN: u64 = 8;

/// The lowest bit of every edge in a word.
const ONES: u64 = 0x1111_1111_1111_1111;
const EDGES_PER_WORD: usize = 16;
const _: () = assert!(ONES.count_ones() as usize == EDGES_PER_WORD);

/// Where the kernel may begin a new mapping in a window: one edge in front of each page, and one
/// behind the last, 4 bits each.
///
/// The kernel has at most one mapping more, in a window and its guards, than there are edges that
/// count. It has fewer if it joins two with frames that follow one another in the file.
///
/// # Invariants
/// - An edge counts if exactly one side is mapped, or both by different calls, or if it is torn.
/// - A thread that changes the pages of a range changes only the edges at and between them;
///   neighbours may do the same at the same moment. Each change of a word knows by how much it
///   changed the count, so the sum of all changes is the count.
#[derive(Debug)]
pub(super) struct Edges {
    words: Mapping,
}

impl Edges {
    /// Edges of `pages` pages without any mapping. Parts that are not touched cost no memory.
    pub(super) fn new(pages: usize) -> Result<Self, Errno> {
        let words = (pages + 1).div_ceil(EDGES_PER_WORD);
        let words = Mapping::anonymous(words * 8)?;
        Ok(Self { words })
    }

    /// Records that one call has mapped the pages of `pages`. Returns how many more edges count.
    pub(super) fn map(&self, pages: &Range<usize>) -> i64 {
        self.change(pages, |word| EdgeChange {
            // A mapping behind them is another call's. If the page there is not mapped, the bit has
            // no meaning, and the call that maps that page sets or clears it.
            set: word.of(pages.start..pages.end, MAPPED)
                | word.of(pages.start + 1..pages.end + 1, BEFORE)
                | word.of(pages.start..pages.start + 1, FIRST)
                | word.of(pages.end..pages.end + 1, FIRST),
            clear: word.of(pages.start + 1..pages.end, FIRST)
                | word.of(pages.start..pages.end + 1, TORN),
        })
    }

    /// Records that the pages of `pages` are no longer mapped. Returns how many more edges count.
    pub(super) fn unmap(&self, pages: &Range<usize>) -> i64 {
        self.change(pages, |word| EdgeChange {
            // As above: a later mapping here is not joined with it.
            set: word.of(pages.end..pages.end + 1, FIRST),
            clear: word.of(pages.start..pages.end, MAPPED | FIRST)
                | word.of(pages.start + 1..pages.end + 1, BEFORE)
                | word.of(pages.start..pages.end + 1, TORN),
        })
    }

    /// Records that the kernel refused to change the pages, and may have left edges at their ends.
    pub(super) fn tear(&self, pages: &Range<usize>) -> i64 {
        self.change(pages, |word| EdgeChange {
            set: word.of(pages.start..pages.start + 1, TORN)
                | word.of(pages.end..pages.end + 1, TORN),
            clear: 0,
        })
    }

    /// The first page of `pages` that is not mapped.
    pub(super) fn first_unmapped(&self, pages: &Range<usize>) -> Option<usize> {
        let unmapped = |page: &usize| {
            let word = &self.words.words(page / EDGES_PER_WORD * 8, 1)[0];
            // Acquire: a thread that sees the page mapped sees the mapping.
            word.load(Acquire) >> (page % EDGES_PER_WORD * 4) & MAPPED == 0
        };
        pages.clone().find(unmapped)
    }

    fn change(&self, pages: &Range<usize>, change: impl Fn(EdgeWord) -> EdgeChange) -> i64 {
        let words = pages.start / EDGES_PER_WORD..pages.end / EDGES_PER_WORD + 1;
        let atomics = self.words.words(words.start * 8, words.len());
        let mut more = 0;
        for (number, atomic) in words.zip(atomics) {
            let EdgeChange { set, clear } = change(EdgeWord(number * EDGES_PER_WORD));
            // Relaxed to read: no decision rests on it. Release: see `first_unmapped`.
            let mut old = atomic.load(Relaxed);
            loop {
                let new = old & !clear | set;
                match atomic.compare_exchange_weak(old, new, Release, Relaxed) {
                    Ok(_) => {
                        more += i64::from(counted(new)) - i64::from(counted(old));
                        break;
                    }
                    Err(now) => old = now,
                }
            }
        }
        more
    }
}

struct EdgeChange {
    set: u64,
    clear: u64,
}

/// A word, by its first edge.
#[derive(Clone, Copy)]
struct EdgeWord(usize);

impl EdgeWord {
    /// The bits `bits` of those edges that are in the word.
    fn of(self, edges: Range<usize>, bits: u64) -> u64 {
        let from = edges.start.saturating_sub(self.0).min(EDGES_PER_WORD);
        let to = edges.end.saturating_sub(self.0).min(EDGES_PER_WORD);
        if from >= to {
            return 0;
        }
        let len = (to - from) * 4;
        let mask = (!0 >> (64 - len)) << (from * 4);
        mask & (ONES * bits)
    }
}

/// How many edges of a word count.
fn counted(word: u64) -> u32 {
    let bits = |bit: u64| word >> bit.trailing_zeros() & ONES;
    let (mapped, before) = (bits(MAPPED), bits(BEFORE));
    let both_by_two_calls = mapped & before & bits(FIRST);
    (mapped ^ before | both_by_two_calls | bits(TORN)).count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::Random;

    /// The obviously right twin: for each page the number of the call that mapped it.
    struct EdgesTwin {
        calls: Vec<Option<u32>>,
        torn: Vec<bool>,
    }

    impl EdgesTwin {
        fn counted(&self) -> i64 {
            let page = |edge: usize| self.calls.get(edge).copied().flatten();
            let before = |edge: usize| edge.checked_sub(1).and_then(page);
            (0..=self.calls.len())
                .filter(|&edge| self.torn[edge] || page(edge) != before(edge))
                .count() as i64
        }
    }

    #[test]
    fn the_count_is_that_of_the_twin_after_each_change() {
        const PAGES: usize = 70;
        let edges = Edges::new(PAGES).unwrap();
        let mut twin = EdgesTwin {
            calls: vec![None; PAGES],
            torn: vec![false; PAGES + 1],
        };
        let mut numbers = Random::new(7);
        let mut random = |below| numbers.index(below);
        let mut count = 0;
        for call in 0..20_000 {
            let start = random(PAGES);
            let pages = start..start + 1 + random((PAGES - start).min(20));
            let torn = &mut twin.torn[pages.start..=pages.end];
            let what = random(16);
            if what == 0 {
                count += edges.tear(&pages);
                (torn[0], torn[pages.len()]) = (true, true);
            } else {
                torn.fill(false);
                // The rest of a call that is cut through counts as another call's now.
                let behind = twin.calls.get(pages.end).copied().flatten();
                let rest = twin.calls[pages.end..].iter_mut();
                rest.take_while(|other| behind.is_some() && **other == behind)
                    .for_each(|other| *other = Some(call + 1_000_000));
                let mapped = what.is_multiple_of(2).then_some(call);
                count += match mapped {
                    Some(_) => edges.map(&pages),
                    None => edges.unmap(&pages),
                };
                twin.calls[pages.clone()].fill(mapped);
            }
            assert_eq!(count, twin.counted(), "call {call}, {pages:?}");
            let unmapped = twin.calls[pages.clone()].iter().position(Option::is_none);
            let expected = unmapped.map(|nth| pages.start + nth);
            assert_eq!(edges.first_unmapped(&pages), expected);
        }
        count += edges.unmap(&(0..PAGES));
        assert_eq!(count, 0);
    }
}
