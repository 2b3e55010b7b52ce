//! How much to read when a page is missing.

/// What a reader of a file has read in so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::file_cache) struct Ahead {
    /// The page behind the last window.
    next: u64,
    /// The length of the last window, 0 if the reader jumps.
    pages: u64,
}

impl Ahead {
    /// A page is missing. The reader wants `wanted` pages from it on, and its last page was `last`.
    /// Returns how many to read from it on: more than wanted if the reader reads in sequence, twice
    /// as many each time, up to `max`.
    pub(in crate::file_cache) fn window(
        &mut self,
        page: u64,
        wanted: u64,
        last: Option<u64>,
        max: u64,
    ) -> u64 {
        let wanted = wanted.clamp(1, max);
        let is_next = page == self.next && self.pages > 0;
        let is_sequential = match last {
            None => page == 0,
            Some(last) => page == last || page == last.wrapping_add(1),
        };
        let pages = if is_next {
            // Grows like Linux's on-demand read-ahead: by four while small, then by two.
            let times = if self.pages < max / 16 { 4 } else { 2 };
            (self.pages * times).clamp(wanted, max)
        } else if is_sequential {
            let first = wanted.next_power_of_two();
            let times = match first {
                _ if first <= max / 32 => 4,
                _ if first <= max / 4 => 2,
                _ => 1,
            };
            (first * times).clamp(wanted, max)
        } else {
            self.pages = 0;
            return wanted;
        };
        *self = Self {
            next: page.saturating_add(pages),
            pages,
        };
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_for_a_sequential_reader_and_closes_for_one_that_jumps() {
        let mut ahead = Ahead::default();
        let mut windows = Vec::new();
        let (mut page, mut last) = (0, None);
        for _ in 0..6 {
            let pages = ahead.window(page, 1, last, 32);
            windows.push(pages);
            page += pages;
            last = Some(page - 1);
        }
        assert_eq!(windows, [4, 8, 16, 32, 32, 32]);
        assert_eq!(ahead.window(1000, 1, last, 32), 1);
        assert_eq!(ahead.window(500, 3, Some(1000), 32), 3);
        // Two neighbours one after the other are a sequence again.
        assert_eq!(ahead.window(503, 1, Some(502), 32), 4);
        assert_eq!(ahead.window(507, 1, Some(506), 32), 8);
        // Never less than the wanted pages, and never more than the bound.
        assert_eq!(ahead.window(0, 100, None, 32), 32);
        assert_eq!(Ahead::default().window(0, 20, None, 32), 32);
        assert_eq!(Ahead::default().window(0, 9, None, 1), 1);
        assert_eq!(
            Ahead::default().window(u64::MAX, 1, Some(u64::MAX - 1), 32),
            4
        );
    }
}
