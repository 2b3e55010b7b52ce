//! Pages, ranges of them, and what an access through them may do.

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

/// What an access through a page may do, and how caches treat it \[`pgprot_t`\]. Every page may be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PageAccess(u8);

const READ_ONLY: u8 = 1;
const EXECUTABLE: u8 = 1 << 1;
const WRITE_COMBINING: u8 = 1 << 2;
const UNCACHED: u8 = 1 << 3;

impl PageAccess {
    /// Read and write, no execution, caches as for all memory: the default \[`PAGE_KERNEL`\].
    pub const DATA: Self = Self(0);
    /// Read alone \[`PAGE_KERNEL_RO`\].
    pub const READ: Self = Self(READ_ONLY);
    /// Read and execution: the text of a module \[`PAGE_KERNEL_ROX`\].
    pub const TEXT: Self = Self(READ_ONLY | EXECUTABLE);
    /// Everything: a kernel's own image, where it is not divided \[`PAGE_KERNEL_EXEC`\].
    pub const ALL: Self = Self(EXECUTABLE);
    /// Read and write past all caches: registers of a device \[`ioremap`\].
    pub const DEVICE: Self = Self::DATA.uncached();

    /// Of two parts, as an entry of a page table has them, with caches as for all memory.
    #[inline(always)]
    #[must_use]
    pub const fn new(is_writable: bool, is_executable: bool) -> Self {
        let read_only = if is_writable { 0 } else { READ_ONLY };
        let executable = if is_executable { EXECUTABLE } else { 0 };
        Self(read_only | executable)
    }

    /// The same past all caches.
    #[must_use]
    pub const fn uncached(self) -> Self {
        Self(self.0 & !WRITE_COMBINING | UNCACHED)
    }

    /// The same past all caches, but stores may be collected before they go out: the memory of a display \[`ioremap_wc`\].
    #[must_use]
    pub const fn write_combining(self) -> Self {
        Self(self.0 & !UNCACHED | WRITE_COMBINING)
    }

    /// Whether it is [`DATA`](Self::DATA).
    #[inline(always)]
    #[must_use]
    pub const fn is_data(self) -> bool {
        self.0 == Self::DATA.0
    }

    /// Whether the page may be written.
    #[inline(always)]
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0 & READ_ONLY == 0
    }

    /// Whether what is in the page may be executed.
    #[inline(always)]
    #[must_use]
    pub const fn is_executable(self) -> bool {
        self.0 & EXECUTABLE != 0
    }

    /// Whether caches keep the page as they keep all memory.
    pub(crate) const fn is_cached(self) -> bool {
        self.0 & (WRITE_COMBINING | UNCACHED) == 0
    }

    /// Whether caches keep nothing of the page, nor collect stores.
    #[inline(always)]
    #[must_use]
    pub const fn is_uncached(self) -> bool {
        self.0 & UNCACHED != 0
    }

    /// Whether caches keep nothing of the page, but stores are collected.
    #[inline(always)]
    #[must_use]
    pub const fn is_write_combining(self) -> bool {
        self.0 & WRITE_COMBINING != 0
    }
}

impl fmt::Debug for PageAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = if self.is_writable() { "w" } else { "" };
        let execute = if self.is_executable() { "x" } else { "" };
        let caching = match (self.is_uncached(), self.is_write_combining()) {
            (false, false) => "",
            (true, _) => ", uncached",
            (false, true) => ", write-combining",
        };
        write!(f, "PageAccess(r{write}{execute}{caching})")
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

    #[test]
    fn an_access_is_its_parts() {
        let mut all = crate::std::vec::Vec::new();
        for (is_writable, is_executable) in
            [(true, false), (false, false), (false, true), (true, true)]
        {
            let cached = PageAccess::new(is_writable, is_executable);
            for access in [cached, cached.write_combining(), cached.uncached()] {
                assert_eq!(access.is_writable(), is_writable);
                assert_eq!(access.is_executable(), is_executable);
                assert!(!all.contains(&access));
                assert_eq!(access.is_data(), all.is_empty());
                all.push(access);
            }
            assert!(!cached.is_uncached() && !cached.is_write_combining());
            let (uncached, combining) = (cached.uncached(), cached.write_combining());
            assert!(uncached.is_uncached() && !uncached.is_write_combining());
            assert!(!combining.is_uncached() && combining.is_write_combining());
            assert_eq!(uncached.write_combining(), combining);
            assert_eq!(combining.uncached(), uncached);
        }
        assert_eq!(PageAccess::default(), PageAccess::DATA);
        assert_eq!(
            [all[3], all[6], all[9], all[2]],
            [
                PageAccess::READ,
                PageAccess::TEXT,
                PageAccess::ALL,
                PageAccess::DEVICE
            ]
        );
        for (access, text) in [
            (PageAccess::DEVICE, "PageAccess(rw, uncached)"),
            (PageAccess::TEXT, "PageAccess(rx)"),
            (
                PageAccess::READ.write_combining(),
                "PageAccess(r, write-combining)",
            ),
        ] {
            assert_eq!(crate::std::format!("{access:?}"), text);
        }
    }
}
