//! What an area of contiguous frames has counted.

use core::fmt;

/// What an area that is lent to movable contents has counted: under Linux's names of
/// `/proc/vmstat` and `/sys/kernel/mm/cma/*`, and what those lack.
///
/// A snapshot: plain numbers, taken counter by counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ContigStats {
    /// Requests that got their run.
    pub cma_alloc_success: u64,
    /// Requests that did not, except malformed ones.
    pub cma_alloc_fail: u64,
    /// Frames of requests that got their run.
    pub alloc_pages_success: u64,
    /// Frames of requests that did not.
    pub alloc_pages_fail: u64,
    /// Frames given back.
    pub release_pages_success: u64,
    /// Places that were tried: ranges with pageblocks that were isolated, or were to be.
    pub isolated_ranges: u64,
    /// Places given up because something did not go away (the tracepoint `cma_alloc_busy_retry`).
    pub busy_retries: u64,
    /// Tries of batches: one for each, and one more each time a part of it stayed.
    pub tries: u64,
    /// Frames with contents that moved out of the way.
    pub pages_migrated: u64,
    /// Frames with contents that were dropped because they were clean.
    pub pages_discarded: u64,
    /// Frames that were offered and stayed, counted each time.
    pub pages_stayed: u64,
    /// Frames that were reclaimed to make room for contents that move.
    pub pages_reclaimed: u64,
}

impl ContigStats {
    /// How many counters there are.
    pub(crate) const COUNT: usize = 12;

    /// The counters of which `count` knows the values, by number.
    pub(crate) fn read(count: impl Fn(usize) -> u64) -> Self {
        let mut stats = Self::default();
        for (nth, (_, value)) in stats.named_mut().into_iter().enumerate() {
            *value = count(nth);
        }
        stats
    }

    /// What was counted since an `earlier` snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for ((_, now), (_, then)) in since.named_mut().into_iter().zip(earlier.named()) {
            *now = now.saturating_sub(then);
        }
        since
    }

    /// Every counter with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); Self::COUNT] {
        let mut copy = *self;
        copy.named_mut().map(|(name, value)| (name, *value))
    }

    fn named_mut(&mut self) -> [(&'static str, &mut u64); Self::COUNT] {
        macro_rules! named {
            ($($name:ident),*) => { [$((stringify!($name), &mut self.$name)),*] };
        }
        named!(
            cma_alloc_success,
            cma_alloc_fail,
            alloc_pages_success,
            alloc_pages_fail,
            release_pages_success,
            isolated_ranges,
            busy_retries,
            tries,
            pages_migrated,
            pages_discarded,
            pages_stayed,
            pages_reclaimed
        )
    }
}

/// As `/proc/vmstat` lists counters: a name and a number on each line.
impl fmt::Display for ContigStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named()
            .iter()
            .try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_counter_is_read_by_its_number_and_listed_once() {
        let stats = ContigStats::read(|nth| 100 + nth as u64);
        assert_eq!(stats.cma_alloc_success, 100);
        assert_eq!(stats.pages_reclaimed, 111);
        let text = stats.to_string();
        assert!(text.starts_with("cma_alloc_success 100\ncma_alloc_fail 101\n"));
        assert_eq!(text.lines().count(), ContigStats::COUNT);
        let earlier = ContigStats::read(|nth| nth as u64);
        assert!(stats.since(&earlier).named().iter().all(|&(_, n)| n == 100));
    }
}
