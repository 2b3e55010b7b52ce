use crate::units::Page;

/// The place and the shape of a space: what its metadata is sized by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLayout {
    /// The window's first page, a multiple of `span_pages`.
    pub start: Page,
    /// The window's length in pages, at most 2^30.
    pub pages: u64,
    /// The length of a span and of a vmap block in pages: a power of two from 4 to 1024.
    pub span_pages: u32,
    /// How many CPUs may have a seat, 1 to 1023.
    pub cpus: u16,
}

impl SpaceLayout {
    /// A window with spans of 1024 pages, for one CPU.
    #[must_use]
    pub const fn new(start: Page, pages: u64) -> Self {
        Self {
            start,
            pages,
            span_pages: 1024,
            cpus: 1,
        }
    }

    /// The same for `cpus` CPUs.
    #[must_use]
    pub const fn with_cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same with spans of `span_pages`.
    #[must_use]
    pub const fn with_span_pages(mut self, span_pages: u32) -> Self {
        self.span_pages = span_pages;
        self
    }
}
