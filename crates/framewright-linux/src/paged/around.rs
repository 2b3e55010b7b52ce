//! How many pages come with one that must be read from the device.
//!
//! A page that comes so is hidden, and has the mark AHEAD until its first use, which is a hit. The more hits since the last
//! read, the more pages the next one brings; without hits it soon brings one, or two where reads follow one another. A
//! sequence that a pager knows brings its own pages, and neither takes hits nor gives any.
//!
//! Source: swap read-ahead of Linux (`page_cluster` and the hits on swapped pages that were read ahead), since 3.14.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most pages of one read, that which is wanted among them: as many as Linux has by default.
pub(super) const CLUSTER_MAX: usize = 8;

/// What a region's next read learns from its earlier ones. Pagers share it, and none waits: a value that another pager has
/// just replaced makes a read longer or shorter, no more.
#[derive(Debug)]
pub(super) struct ReadAround {
    /// Pages read ahead that were used since the last read.
    hits: AtomicUsize,
    /// The page for which the last read was.
    last: AtomicUsize,
    /// How many pages it could bring.
    len: AtomicUsize,
}

impl Default for ReadAround {
    /// The first read brings as many as one can.
    fn default() -> Self {
        Self {
            hits: AtomicUsize::new(CLUSTER_MAX),
            last: AtomicUsize::new(0),
            len: AtomicUsize::new(1),
        }
    }
}

impl ReadAround {
    /// A page that was read ahead is used for the first time.
    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// The pages that a read for `nth` may bring: `nth` among them, from a multiple of their number on.
    pub(super) fn next(&self, nth: usize) -> Range<usize> {
        let hits = self.hits.swap(0, Relaxed);
        let follows = self.last.swap(nth, Relaxed).abs_diff(nth) == 1;
        let len = pages(hits, follows, self.len.load(Relaxed));
        self.len.store(len, Relaxed);
        let start = nth / len * len;
        start..start + len
    }
}

/// How many pages a read may bring after so many hits; whether it is for a page beside the last read's; and after a read that
/// could bring `before`.
fn pages(hits: usize, follows: bool, before: usize) -> usize {
    let wanted = match hits {
        0 => 1 + usize::from(follows),
        _ => hits.saturating_add(2).min(CLUSTER_MAX).next_power_of_two(),
    };
    wanted.max(before / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_by_hits_and_shrink_by_half_without() {
        let known = [(0, 1), (1, 4), (2, 4), (3, 8), (6, 8), (usize::MAX, 8)];
        for (hits, len) in known {
            assert_eq!(pages(hits, false, 1), len, "{hits} hits");
        }
        assert_eq!(pages(0, true, 1), 2);
        assert_eq!((pages(0, false, 8), pages(1, true, 8)), (4, 4));
        let around = ReadAround::default();
        let mut lengths = [0; 6];
        for (nth, len) in lengths.iter_mut().enumerate() {
            let wanted = 1000 - 100 * nth;
            let read = around.next(wanted);
            assert!(read.contains(&wanted) && read.start % read.len() == 0);
            *len = read.len();
        }
        assert_eq!(lengths, [8, 4, 2, 1, 1, 1]);
        around.hit();
        assert_eq!(around.next(7).len(), 4);
        // One after the other, downwards too.
        assert_eq!([6, 5, 9].map(|nth| around.next(nth).len()), [2, 2, 1]);
    }
}
