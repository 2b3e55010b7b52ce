//! The tenants that fill memory beside the journal: a cache that can be reclaimed, frames that can be
//! moved, and frames that can be neither. They are the same for every variant.

use super::lock::{CountedLock, HeldLock, LockCount};
use framewright::Frame;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

const NONE: u32 = u32::MAX;

/// The word of a frame that a cache's page is known by. On a machine the device fills such a page, so
/// reading one in writes only this word here, and does not pay for the rest.
const STAMPED: usize = 0;

/// 64-bit words in a frame.
pub const FRAME_WORDS: usize = Frame::BYTES as usize / 8;

/// Frames with contents.
pub trait JournalContents: Sync {
    /// Copies a frame's contents.
    fn copy(&self, from: Frame, to: Frame);

    /// A word of a frame.
    fn word(&self, frame: Frame, nth: usize) -> u64;

    /// Writes a word of a frame.
    fn set_word(&self, frame: Frame, nth: usize, word: u64);
}

/// The holder of a frame, as far as a scanner can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameHolder {
    /// A page of the cache: can be moved and reclaimed.
    Cache,
    /// A page of a program: can be moved.
    Movable,
}

const HELD_BY_OTHERS: u8 = 0;

impl FrameHolder {
    const fn code(self) -> u8 {
        match self {
            Self::Cache => 1,
            Self::Movable => 2,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Cache),
            2 => Some(Self::Movable),
            _ => None,
        }
    }
}

/// The cache's pages, the last one read in first.
#[derive(Debug)]
pub struct TenantLru {
    next: Vec<u32>,
    prev: Vec<u32>,
    first: u32,
    last: u32,
    pages: u64,
}

/// The tenants of all frames.
#[derive(Debug)]
pub struct JournalTenants {
    lru: CountedLock<TenantLru>,
    /// By frame: its holder's code. A thread changes it under the lock of the list, and reads it
    /// without that lock.
    holders: Box<[AtomicU8]>,
    /// By frame: which page of its holder's lies there.
    pages: Box<[AtomicU32]>,
    /// By page of the programs: where it lies.
    homes: Box<[AtomicU32]>,
}

impl JournalTenants {
    /// Tenants with no page in any of `frames` frames yet. The programs have `movable` pages to
    /// [settle](Self::settle).
    #[must_use]
    pub fn new(frames: u32, movable: u32) -> Self {
        let lru = TenantLru {
            next: vec![NONE; frames as usize],
            prev: vec![NONE; frames as usize],
            first: NONE,
            last: NONE,
            pages: 0,
        };
        Self {
            lru: CountedLock::new("lru", lru),
            holders: (0..frames).map(|_| AtomicU8::new(HELD_BY_OTHERS)).collect(),
            pages: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            homes: (0..movable).map(|_| AtomicU32::new(NONE)).collect(),
        }
    }

    /// The holder of a frame, at about this moment. `None` if no tenant has a page there that can
    /// move.
    #[must_use]
    pub fn holder(&self, frame: u32) -> Option<FrameHolder> {
        FrameHolder::of(self.holders[frame as usize].load(Relaxed))
    }

    /// The list, for several calls.
    #[must_use]
    pub fn lock(&self) -> HeldLock<'_, TenantLru> {
        self.lru.lock()
    }

    pub(super) fn lock_or_say(&self) -> (HeldLock<'_, TenantLru>, bool) {
        self.lru.lock_or_say()
    }

    /// What the list's lock counted.
    #[must_use]
    pub fn lock_count(&self) -> LockCount {
        self.lru.count()
    }

    /// Pages in the cache.
    #[must_use]
    pub fn cached(&self) -> u64 {
        self.lru.lock().pages
    }

    /// Reads pages into the cache: frame and number of each.
    pub fn read_in(&self, contents: &impl JournalContents, pages: &[(Frame, u32)]) {
        for &(frame, page) in pages {
            contents.set_word(frame, STAMPED, pattern(FrameHolder::Cache, page, STAMPED));
        }
        let mut lru = self.lru.lock();
        for &(frame, page) in pages {
            self.pages[frame.0 as usize].store(page, Relaxed);
            self.put(&mut lru, frame.0 as u32, FrameHolder::Cache);
        }
    }

    /// Puts a program's page into a frame, all of its bytes.
    pub fn settle(&self, contents: &impl JournalContents, frame: Frame, page: u32) {
        for nth in 0..FRAME_WORDS {
            contents.set_word(frame, nth, pattern(FrameHolder::Movable, page, nth));
        }
        let mut lru = self.lru.lock();
        self.pages[frame.0 as usize].store(page, Relaxed);
        self.homes[page as usize].store(frame.0 as u32, Relaxed);
        self.put(&mut lru, frame.0 as u32, FrameHolder::Movable);
    }

    /// Drops up to `pages` pages of the cache, the ones read in longest ago; their frames.
    pub fn evict(&self, pages: usize, frames: &mut Vec<Frame>) {
        let mut lru = self.lru.lock();
        for _ in 0..pages {
            let frame = lru.last;
            if frame == NONE {
                break;
            }
            self.isolate(&mut lru, frame);
            frames.push(Frame(u64::from(frame)));
        }
    }

    /// Hides a frame's holder, so that no other thread moves or reclaims the page meanwhile.
    pub(super) fn isolate(&self, lru: &mut TenantLru, frame: u32) -> Option<FrameHolder> {
        let holder = self.holder(frame)?;
        self.holders[frame as usize].store(HELD_BY_OTHERS, Relaxed);
        if holder == FrameHolder::Cache {
            lru.unlink(frame);
        }
        Some(holder)
    }

    /// Puts an isolated frame back, or one that a page was moved to.
    pub(super) fn put(&self, lru: &mut TenantLru, frame: u32, holder: FrameHolder) {
        self.holders[frame as usize].store(holder.code(), Relaxed);
        if holder == FrameHolder::Cache {
            lru.link(frame);
        }
    }

    /// Moves an isolated page: contents, and what its holder knows of it. `to` is to be
    /// [put](Self::put) then.
    pub(super) fn migrate(
        &self,
        contents: &impl JournalContents,
        holder: FrameHolder,
        from: u32,
        to: u32,
    ) {
        contents.copy(Frame(u64::from(from)), Frame(u64::from(to)));
        let page = self.pages[from as usize].load(Relaxed);
        self.pages[to as usize].store(page, Relaxed);
        if holder == FrameHolder::Movable {
            self.homes[page as usize].store(to, Relaxed);
        }
    }

    /// Whether every page of the programs lies whole where it should, and every page of the cache
    /// has its stamp. No thread may move, read in or evict a page meanwhile.
    ///
    /// # Errors
    /// The first page that does not.
    pub fn verify(&self, contents: &impl JournalContents) -> Result<(), String> {
        for (page, home) in self.homes.iter().enumerate() {
            let frame = home.load(Relaxed);
            let whole = || {
                let word = |nth| contents.word(Frame(u64::from(frame)), nth);
                let right = |nth| pattern(FrameHolder::Movable, page as u32, nth);
                (0..FRAME_WORDS).all(|nth| word(nth) == right(nth))
            };
            if frame == NONE || self.holder(frame) != Some(FrameHolder::Movable) || !whole() {
                return Err(format!(
                    "page {page} of the programs is lost: frame {frame}"
                ));
            }
        }
        let lru = self.lru.lock();
        let (mut frame, mut pages) = (lru.first, 0);
        while frame != NONE {
            let page = self.pages[frame as usize].load(Relaxed);
            let word = contents.word(Frame(u64::from(frame)), STAMPED);
            let is_right = word == pattern(FrameHolder::Cache, page, STAMPED);
            if self.holder(frame) != Some(FrameHolder::Cache) || !is_right {
                return Err(format!("page {page} of the cache is lost: frame {frame}"));
            }
            pages += 1;
            frame = lru.next[frame as usize];
        }
        if pages != lru.pages {
            return Err(format!("{pages} pages in the cache, {} counted", lru.pages));
        }
        Ok(())
    }
}

impl TenantLru {
    fn link(&mut self, frame: u32) {
        let at = frame as usize;
        self.prev[at] = NONE;
        self.next[at] = self.first;
        match self.first {
            NONE => self.last = frame,
            first => self.prev[first as usize] = frame,
        }
        self.first = frame;
        self.pages += 1;
    }

    fn unlink(&mut self, frame: u32) {
        let (prev, next) = (self.prev[frame as usize], self.next[frame as usize]);
        match prev {
            NONE => self.first = next,
            prev => self.next[prev as usize] = next,
        }
        match next {
            NONE => self.last = prev,
            next => self.prev[next as usize] = prev,
        }
        self.pages -= 1;
    }
}

/// Word `nth` of a page: different for each.
const fn pattern(holder: FrameHolder, page: u32, nth: usize) -> u64 {
    let name = (holder.code() as u64) << 48 | (page as u64) << 16 | nth as u64;
    name.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
