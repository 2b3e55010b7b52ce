//! The memory that objects lie in, with real contents: a kernel that moves a page or maps it wrongly loses bytes,
//! and the checksum shows it.

use super::super::{Failure, Mapper, WINDOW_START};
use crate::before::journal::tenants::JournalContents;
use crate::experiment::ranges;
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, Frame, Page, PageAccess, PageRange, Run};
use framewright_linux::ram::FRAME_WORDS;
use framewright_linux::{Membarrier, Ram, RamPages, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Pages of the window: 4 GiB.
const WINDOW_PAGES: u64 = (4 << 30) / Page::BYTES;

/// The page shows no frame.
const NOTHING: u32 = u32::MAX;

/// Memory with contents, and a window in which it appears: frames of a memfd, mapped with mmap or in
/// a table of ours, as a kernel maps by writing to its own.
#[derive(Debug)]
pub(super) struct JournalMachine {
    ram: Arc<Ram>,
    tables: Tables,
    barrier: Membarrier,
}

#[derive(Debug)]
enum Tables {
    Host(Window),
    Own(Box<[AtomicU32]>),
}

impl JournalMachine {
    /// `frames` frames from 0 on.
    pub(super) fn new(frames: u32, mapper: Mapper) -> Result<Self, Failure> {
        let run = Run::new(Frame(0), u64::from(frames));
        let run = run.ok_or_else(|| Failure::new("more frames than there are numbers"))?;
        let ram = Arc::new(Ram::new(run, RamPages::Base).map_err(Failure::new)?);
        let tables = match mapper {
            Mapper::Host => {
                let window = Window::new(Arc::clone(&ram), WINDOW_PAGES);
                Tables::Host(window.map_err(Failure::new)?)
            }
            Mapper::Null => {
                let pages = (0..WINDOW_PAGES).map(|_| AtomicU32::new(NOTHING));
                Tables::Own(pages.collect())
            }
        };
        Ok(Self {
            ram,
            tables,
            barrier: Membarrier::register().map_err(Failure::new)?,
        })
    }

    /// Where pages are mapped.
    pub(super) fn window(&self) -> PageRange {
        match &self.tables {
            Tables::Host(window) => window.range(),
            Tables::Own(_) => PageRange::new(WINDOW_START, WINDOW_PAGES)
                .expect("the window ends below the number range's end"),
        }
    }

    /// The frame that a page shows.
    fn shown(&self, page: Page) -> Option<Frame> {
        match &self.tables {
            Tables::Host(window) => window.frame_of(page),
            Tables::Own(table) => {
                let nth = page.0.wrapping_sub(WINDOW_START.0) as usize;
                let frame = table.get(nth)?.load(Relaxed);
                (frame != NOTHING).then_some(Frame(u64::from(frame)))
            }
        }
    }

    fn words(&self, frame: Frame) -> Result<&[AtomicU64; FRAME_WORDS], Failure> {
        self.ram.words(frame).map_err(Failure::new)
    }

    /// The words of each frame of the object at `at`, whose length is `words` words.
    fn each_frame(
        &self,
        at: Addr,
        words: usize,
        mut visit: impl FnMut(usize, &[AtomicU64]),
    ) -> Result<(), Failure> {
        let direct = at.0.wrapping_sub(self.direct_base().0) / Page::BYTES;
        let is_direct = self.ram.frames().contains(Frame(direct));
        // A small object begins inside of its frame, at a word.
        let (mut first, mut nth) = (0, 0);
        let mut begin = at.in_page() as usize / 8;
        while first < words {
            let frame = if is_direct {
                Frame(direct + nth)
            } else {
                let page = Page(at.page().0 + nth);
                let shown = self.shown(page);
                shown.ok_or_else(|| Failure::new(format!("page {} is not mapped", page.0)))?
            };
            let here = (words - first).min(FRAME_WORDS - begin);
            visit(first, &self.words(frame)?[begin..begin + here]);
            (first, nth, begin) = (first + here, nth + 1, 0);
        }
        Ok(())
    }

    /// How many runs of neighbouring frames the object at `at` consists of.
    pub(super) fn runs(&self, at: Addr, words: usize) -> Result<u64, Failure> {
        let (mut runs, mut end) = (0, None);
        self.each_frame(at, words, |_, words| {
            let words = words.as_ptr_range();
            runs += u64::from(end != Some(words.start));
            end = Some(words.end);
        })?;
        Ok(runs)
    }

    /// Copies an item's words into the object at `at`.
    pub(super) fn store(&self, at: Addr, item: &[u64]) -> Result<(), Failure> {
        self.each_frame(at, item.len(), |first, words| {
            for (word, value) in words.iter().zip(&item[first..]) {
                word.store(*value, Relaxed);
            }
        })
    }

    /// The checksum of the object at `at`.
    pub(super) fn sum(&self, at: Addr, words: usize) -> Result<Checksum, Failure> {
        let mut sum = Checksum::default();
        self.each_frame(at, words, |_, words| {
            sum.add(words.iter().map(|word| word.load(Relaxed)));
        })?;
        Ok(sum)
    }
}

/// A checksum that depends on the places of the words: Fletcher's, of 64-bit words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checksum {
    low: u64,
    high: u64,
}

impl Checksum {
    /// Goes on over more words.
    pub(super) fn add(&mut self, words: impl Iterator<Item = u64>) {
        let (mut low, mut high) = (self.low, self.high);
        for word in words {
            low = low.wrapping_add(word);
            high = high.wrapping_add(low);
        }
        *self = Self { low, high };
    }
}

impl JournalContents for JournalMachine {
    fn copy(&self, from: Frame, to: Frame) {
        if let (Ok(from), Ok(to)) = (self.words(from), self.words(to)) {
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
    }

    fn word(&self, frame: Frame, nth: usize) -> u64 {
        self.words(frame)
            .map_or(0, |words| words[nth].load(Relaxed))
    }

    fn set_word(&self, frame: Frame, nth: usize, word: u64) {
        if let Ok(words) = self.words(frame) {
            words[nth].store(word, Relaxed);
        }
    }
}

impl JournalContents for &JournalMachine {
    fn copy(&self, from: Frame, to: Frame) {
        (**self).copy(from, to);
    }

    fn word(&self, frame: Frame, nth: usize) -> u64 {
        (**self).word(frame, nth)
    }

    fn set_word(&self, frame: Frame, nth: usize, word: u64) {
        (**self).set_word(frame, nth, word);
    }
}

impl FramePlatform for JournalMachine {
    const ASYMMETRIC: bool = <Membarrier as FramePlatform>::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        ranges::relax(attempt);
    }

    fn barrier_all(&self) {
        self.barrier.barrier_all();
    }

    fn now_ns(&self) -> u64 {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}

impl RangePlatform for JournalMachine {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        match &self.tables {
            Tables::Host(window) => window.map(at, frames, access, tables),
            Tables::Own(table) => {
                let first = at.0.wrapping_sub(WINDOW_START.0) as usize;
                let entries = table
                    .get(first..)
                    .and_then(|t| t.get(..frames.frames() as usize));
                let entries = entries.ok_or(MapError::Page(at))?;
                for (entry, frame) in entries.iter().zip(frames.start().0..) {
                    entry.store(frame as u32, Relaxed);
                }
                Ok(())
            }
        }
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        match &self.tables {
            Tables::Host(window) => window.unmap(range),
            Tables::Own(table) => {
                let first = range.start().0.wrapping_sub(WINDOW_START.0) as usize;
                let entries = table
                    .get(first..)
                    .and_then(|t| t.get(..range.pages() as usize));
                let entries = entries.ok_or(MapError::Page(range.start()))?;
                entries.iter().for_each(|e| e.store(NOTHING, Relaxed));
                Ok(())
            }
        }
    }

    fn flush_all(&self) {
        if let Tables::Host(window) = &self.tables {
            window.flush_all();
        }
    }

    fn zero(&self, frames: Run) {
        for frame in frames.start().0..frames.end().0 {
            if let Ok(words) = self.words(Frame(frame)) {
                words.iter().for_each(|word| word.store(0, Relaxed));
            }
        }
    }
}

impl ObjectPlatform for JournalMachine {
    fn direct_base(&self) -> Addr {
        // The RAM begins with frame 0, and is not empty.
        let first = self.ram.address(Frame(0));
        Addr(first.map_or(0, |address| address.addr() as u64))
    }

    /// Whole words: the experiment has no other objects.
    fn zero_bytes(&self, at: Addr, bytes: u64) {
        let zeroed = self.each_frame(at, bytes.div_ceil(8) as usize, |_, words| {
            words.iter().for_each(|word| word.store(0, Relaxed));
        });
        debug_assert!(zeroed.is_ok(), "the object is the engine's");
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let mut copy = Vec::new();
        let read = self.each_frame(from, bytes.div_ceil(8) as usize, |_, words| {
            copy.extend(words.iter().map(|word| word.load(Relaxed)));
        });
        let written = read.and_then(|()| self.store(to, &copy));
        debug_assert!(written.is_ok(), "both objects are the engine's");
    }
}
