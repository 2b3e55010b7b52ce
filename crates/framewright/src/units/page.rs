//! Pages, and ranges of them.

use super::Frame;
use core::fmt;

/// The number of a base-size piece of virtual address space: an address divided by 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Page(pub u64);

impl Page {
    /// The bytes of a page, and of a frame.
    pub const BYTES: u64 = 4096;

    /// The page that holds the byte at `address`.
    #[must_use]
    pub const fn of_address(address: u64) -> Self {
        Self(address / Self::BYTES)
    }

    /// The address of the first byte, or `None` past the end of the number range.
    #[must_use]
    pub const fn address(self) -> Option<u64> {
        self.0.checked_mul(Self::BYTES)
    }

    /// The page `pages` further on, or `None` past the end of the number range.
    #[must_use]
    pub const fn checked_add(self, pages: u64) -> Option<Self> {
        match self.0.checked_add(pages) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({:#x})", self.0)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A half-open sequence of pages, of any length and alignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRange {
    start: Page,
    pages: u64,
}

impl PageRange {
    /// The `pages` pages from `start`, or `None` if their end is past the number range.
    #[must_use]
    pub const fn new(start: Page, pages: u64) -> Option<Self> {
        match start.checked_add(pages) {
            Some(_) => Some(Self { start, pages }),
            None => None,
        }
    }

    /// The first page.
    #[must_use]
    pub const fn start(self) -> Page {
        self.start
    }

    /// The page after the last one.
    #[must_use]
    pub const fn end(self) -> Page {
        Page(self.start.0 + self.pages)
    }

    /// The length in pages.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.pages
    }

    /// Whether there is no page.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.pages == 0
    }

    /// Whether `page` is one of them.
    #[must_use]
    pub const fn contains(self, page: Page) -> bool {
        page.0 >= self.start.0 && page.0 < self.end().0
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRange({}..{})", self.start, self.end())
    }
}

const _: () = assert!(Page::BYTES == Frame::BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_addresses_are_checked_at_the_end_of_the_number_range() {
        assert_eq!(Page::of_address(0x5fff), Page(5));
        assert_eq!(Page(5).address(), Some(0x5000));
        assert_eq!(Page(u64::MAX / 4096 + 1).address(), None);
        assert_eq!(Page(u64::MAX).checked_add(1), None);
        assert!(PageRange::new(Page(u64::MAX), 1).is_none());
        let range = PageRange::new(Page(4), 3).unwrap();
        assert!(range.contains(Page(6)) && !range.contains(range.end()) && !range.is_empty());
        assert_eq!((range.start(), range.pages()), (Page(4), 3));
    }
}
