//! A cache of files: pages in frames of the engine, which it gives up under pressure, and which can
//! move.
//!
//! ```text
//!    read, write ──▶ in the table? ── yes ──▶ held ──▶ copied ──▶ let go
//!                       │ no
//!                       └──▶ frames ──▶ Filling ──▶ in the cleancache? ── yes ──┐
//!                                                       │ no                    ▼
//!                                                       └──▶ read from file ──▶ Ready
//!
//!                   obtain             publish           evict: a put             free
//!      Free ──────────────▶ Held ─▶ Filling ─▶ Ready ────────────▶ Leaving ─▶ Held ─▶ Free
//!                                              │  ▲ │
//!                                       migrate│  │ └─ truncated while pinned ─▶ Orphan
//!                                              ▼  │
//!                                             Moving
//!
//!      a Ready page:   clean ── write ──▶ dirty ── taken ──▶ writing ── written ──▶ clean
//!                                           ▲                  │
//!                                           └── refused, or written to meanwhile
//! ```
//!
//! Each frame of the RAM has a *slot*, which says what the cache has in it. A table finds the slot
//! of a (file, page), and of a frame. Frames come from the caller's [`FrameSource`] and go back to it,
//! or to the caller that asks the cache to [shrink](Shrink). An evicted page is offered to the
//! *cleancache*, a pool of a [`Tenancy`], and a missing page is looked for there before it is read
//! from the file. Eviction is by SIEVE. The more a reader reads in sequence, the more is read
//! ahead.
//!
//! # Invariants
//! - **FC1** A page has one frame at most, and a frame's contents change only while a thread holds
//!   the page, or it is in transit. A search finds a page in transit (Filling, Leaving, Moving),
//!   and waits for it.
//! - **FC2** A page that is dirty, or being written, is not evicted, and dropped only by truncation:
//!   written data is in the cache or in the file.
//! - **FC3** The cleancache's copy of a page has the file's contents. Before a thread changes a page, the cache
//!   forgets the copy; while the thread changes the page, it holds it; and the cache puts only clean pages.
//! - **FC4** Versions of a page are written to the file in the order in which they came about.
//! - **FC5** The bytes behind the end of a file in its last page are zero.
//! - **FC6** A pinned page stays in its frame. If it is truncated, the frame is kept until it is
//!   unpinned.
//! - **FC7** A file's number is never another file's, in this process: so pages that a store still
//!   has under it belong to no file.
//! - **FC8** A file that is open in one cache is refused by every other: its locks and its set of
//!   dirty pages belong to one table.
//! - **FC9** A call of the medium's, the cleancache's or the supply's that unwinds leaves no page in transit, and every
//!   frame with the cache or with the supply.
//! - **FC10** If a call unwinds that was to make the cleancache forget pages of a file, the cleancache is not asked for
//!   one of its pages before it has forgotten them all.
//!
//! # Files that others change
//! The cache recognises a file that a caller opens again by its length and its times: they must be what they were
//! when the cache last changed the file and let go of it. The kernel's times move by ticks (1 to 10 ms, whole
//! seconds on some file systems). Another process may write within the same tick, without a change of the length.
//! The cache does not notice that, and returns the old pages as long as it has them. From Linux 6.13 on ext4, XFS,
//! Btrfs and tmpfs give each change a time of its own once the last one has been asked for, as the cache does: then
//! it misses none. While a file is open, only its length is compared. [`refresh`](FileCache::refresh) and
//! [`forget`](FileCache::forget) do not compare.
//!
//! # Locks
//! - Rank 1: a file's `io`: shared for reading in, writing and writing back; held alone for
//!   truncating. Then its `writer`: one write-back at a time.
//! - A thread waits for a page in transit, unless it has one in transit itself: then it waits for no other.
//! - Rank 2: a shard of the table: one in 64 pages. Rank 3: the eviction queue; the sets of
//!   dirty pages; the files; each for a few loads and stores. A hit takes a shard's lock, and no
//!   other.
//!
//! A thread holds none of them while it allocates a frame, because the source may ask this cache to shrink. The
//! shrinking then only tries rank 1, and passes by each file whose lock it does not get. Files and sets of dirty
//! pages lie on the global heap, and some of it is allocated under rank 3: the heap must not be one that asks this
//! cache for memory.
//!
//! # What is not here
//! Mapping of files; direct changes by others, except that [`refresh`](FileCache::refresh) takes
//! note of them; read-ahead without waiting.
//!
//! # Sources
//! Cleancache: Linux 3.0 to 5.16. SIEVE: Zhang et al., NSDI 2024. Read-ahead: Fengguang Wu et al., "Linux Readahead:
//! Less Tricks for More", OLS 2007.

mod back;
mod error;
mod files;
mod fill;
mod moves;
mod shrink;
mod slots;
mod stats;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use error::FileError;
pub use files::{DirectFile, Medium, OpenFile, Stamp};
pub use stats::FileStats;
pub use verify::BrokenFiles;

use crate::ram::{FRAME_BYTES, Ram};
use crate::tenancy::Tenancy;
use crate::words;
use files::CacheFiles;
use framewright::Frame;
use framewright::frame::FrameSource;
#[cfg(doc)]
use framewright::reclaim::Shrink;
use framewright::reserve::PoolId;
use slots::{CacheTable, NONE, SlotQueue, SlotState};
use stats::CacheCounters;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes in a page of a file.
const PAGE: u64 = FRAME_BYTES as u64;

/// How a cache of files behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// Pages above which it evicts its own before it asks for a frame.
    pub pages_max: u64,
    /// Dirty pages above which a writer has some written back first.
    pub dirty_max: u64,
    /// The most pages that are read at once for a sequential reader, 1 to 32; 1 reads nothing
    /// ahead.
    pub ahead_max: u64,
    /// Known files above which closed ones are forgotten.
    pub files_max: usize,
    /// Files with dirty pages, above which opening another one has the first of them written: while
    /// they are dirty, each keeps a file descriptor.
    pub dirty_files_max: usize,
}

impl Default for FileOptions {
    /// As many pages as there are frames, 4096 of them dirty; 32 ahead; 65,536 files, 256 of them dirty.
    fn default() -> Self {
        Self {
            pages_max: u64::MAX,
            dirty_max: 4096,
            ahead_max: 32,
            files_max: 1 << 16,
            dirty_files_max: 256,
        }
    }
}

/// A cache of files. See the [module's description](self). Shared by reference among threads.
///
/// Its frames are still allocated when it is dropped: [clear](Self::clear) it first. Pages that are
/// dirty then are written as far as that is possible.
///
/// ```
/// use framewright::{Frame, frame::ZoneLayout};
/// use framewright_linux::file_cache::{FileCache, FileOptions};
/// use framewright_linux::{Host, Options};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096)))?;
/// let mut seat = host.seat()?;
/// let cache = FileCache::new(Arc::clone(host.ram_shared()), None, FileOptions::default());
/// # let path = std::env::temp_dir().join(format!("framewright-doc-{}", std::process::id()));
/// let file = cache.create(&path)?;
/// cache.write(&mut seat, &file, 5000, b"behind a hole")?;
/// cache.sync(&file)?;
/// assert_eq!(std::fs::read(&path)?.len(), 5013);
/// let mut bytes = [1; 15];
/// assert_eq!(cache.read(&mut seat, &file, 4998, &mut bytes)?, 15);
/// assert_eq!(&bytes, b"\0\0behind a hole");
/// # std::fs::remove_file(&path)?;
/// drop(file);
/// assert_eq!(cache.clear(&mut seat), 0);
/// # Ok(())
/// # }
/// ```
pub struct FileCache<'s> {
    ram: Arc<Ram>,
    cleancache: Option<(&'s dyn Tenancy, PoolId)>,
    options: FileOptions,
    table: CacheTable,
    queue: SlotQueue,
    files: Arc<CacheFiles>,
    counters: CacheCounters,
    /// The first of the slots with frames that the cache keeps empty.
    stock: Mutex<u32>,
}

impl fmt::Debug for FileCache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache")
            .field("options", &self.options)
            .field("cleancache", &self.cleancache.map(|(_, pool)| pool))
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl<'s> FileCache<'s> {
    /// An empty cache with frames in `ram`, which puts evicted pages into a pool of `cleancache`.
    ///
    /// The pool is this cache's own. It may be exclusive. Then no page lies in the cache and in the pool at a time.
    /// Costs about 60 bytes for each frame of the RAM.
    ///
    /// # Panics
    /// If the RAM has 2^32 - 1 frames or more.
    #[must_use]
    pub fn new(
        ram: Arc<Ram>,
        cleancache: Option<(&'s dyn Tenancy, PoolId)>,
        options: FileOptions,
    ) -> Self {
        Self {
            table: CacheTable::new(&ram),
            ram,
            cleancache,
            options,
            queue: SlotQueue::new(),
            files: Arc::default(),
            counters: CacheCounters::default(),
            stock: Mutex::new(NONE),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// What the host said.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<OpenFile> {
        self.add(File::open(path)?)
    }

    /// Opens a file for reading and writing; creates an empty one if there is none. It is not
    /// truncated.
    ///
    /// # Errors
    /// What the host said.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<OpenFile> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        self.add(options.open(path)?)
    }

    /// Has a file read through the cache, and written if it is open for that. A file that is open
    /// in the cache already is recognised; so is one that was, if no other program has changed it,
    /// as far as [its times](self) tell.
    ///
    /// # Errors
    /// What the host said; a file that cannot be read, or is open for appending; a file that is not
    /// regular.
    pub fn add(&self, file: File) -> io::Result<OpenFile> {
        let is_writable = files::is_writable(&file)?;
        self.add_medium(Arc::new(file), is_writable)
    }

    /// The same with anything that behaves like a file.
    ///
    /// # Errors
    /// It does not say its length.
    pub fn add_medium(&self, medium: Arc<dyn Medium>, is_writable: bool) -> io::Result<OpenFile> {
        self.check_process().map_err(io::Error::other)?;
        let opened = self.files.open(medium, is_writable);
        let (file, changed) = opened.map_err(io::Error::from_raw_os_error)?;
        let forgotten = self.files.forget_beyond(self.options.files_max);
        for inode in changed.iter().chain(&forgotten) {
            let _io = inode.io_alone();
            self.forget_pages(inode);
        }
        self.limit_dirty_files();
        Ok(file)
    }

    fn check(&self, file: &OpenFile) -> Result<(), FileError> {
        self.check_process()?;
        if file.is_of(&self.files) {
            return Ok(());
        }
        Err(FileError::OtherCache)
    }

    /// Whether the calling process is the one that has the frames: another one has no access to them, and its
    /// locks may be held by threads that it does not have (Y2).
    pub(super) fn check_process(&self) -> Result<(), FileError> {
        match self.ram.is_this_process() {
            true => Ok(()),
            false => Err(FileError::Forked),
        }
    }

    /// Whether the supply has the frames of the cache's RAM (RS1).
    pub(super) fn check_supply(&self, supply: &dyn FrameSource) -> Result<(), FileError> {
        self.check_process()?;
        if self.ram.is_given_by(supply.origin()) {
            return Ok(());
        }
        Err(FileError::OtherFrames)
    }

    /// Forgets a file: opened again, it is another one, without pages in the cache or the
    /// cleancache. Dirty pages are written first.
    ///
    /// # Errors
    /// It could not be written. All is as before then.
    pub fn forget(&self, file: OpenFile) -> Result<(), FileError> {
        self.sync(&file)?;
        self.files.forget(&file.inode);
        let _io = file.inode.io_alone();
        self.forget_pages(&file.inode);
        Ok(())
    }

    /// Copies the bytes at `offset` into `into`. Returns how many: fewer at the end of the file, or
    /// if something went wrong after that.
    ///
    /// Half a microsecond for each page that is there. During a write to the same page the result
    /// is a mixture of both versions, word by word.
    ///
    /// # Errors
    /// Why nothing was read. A page that could not be read is not in the cache.
    pub fn read(
        &self,
        supply: &mut dyn FrameSource,
        file: &OpenFile,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, FileError> {
        self.check(file)?;
        self.check_supply(supply)?;
        let mut done = 0;
        while done < into.len() {
            let len = file.inode.len();
            let Some(start) = offset.checked_add(done as u64).filter(|start| *start < len) else {
                break;
            };
            let at = (start % PAGE) as usize;
            let rest = (len - start).min((into.len() - done) as u64) as usize;
            let part = rest.min(PAGE as usize - at);
            let wanted = (at + rest).div_ceil(PAGE as usize) as u64;
            match self.page(supply, file, start / PAGE, wanted) {
                Ok(Some(held)) => {
                    let words = self.ram.words(self.table.frame(held.id));
                    let words = words.expect("the cache's frames are in its RAM");
                    words::load(words, at, &mut into[done..done + part]);
                    done += part;
                }
                Ok(None) => break,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Keeps a page in the cache, and in its frame, until the result is dropped. Reads it in if it
    /// is missing.
    ///
    /// # Errors
    /// It cannot be read in, or is past the end, or has too many pins.
    pub fn pin(
        &self,
        supply: &mut dyn FrameSource,
        file: &OpenFile,
        page: u64,
    ) -> Result<FilePin<'_, 's>, FileError> {
        self.check(file)?;
        self.check_supply(supply)?;
        let held = match page.checked_mul(PAGE) {
            Some(_) => self.page(supply, file, page, 1)?,
            None => None,
        };
        let held = held.ok_or(FileError::PastTheEnd { page })?;
        let slot = self.table.slot(held.id);
        let locked = self.table.lock(slot.key());
        let pins = slot.pins().checked_add(1);
        slot.set_pins(pins.ok_or(FileError::Pins { page })?);
        drop(locked);
        Ok(FilePin {
            cache: self,
            id: held.id,
        })
    }

    /// Puts a held slot's frame into the stock.
    fn keep_frame(&self, id: u32) {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        self.table.slot(id).set_next(*stock);
        *stock = id;
    }

    fn stock_pop(&self) -> Option<u32> {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        let id = *stock;
        if id == NONE {
            return None;
        }
        *stock = self.table.slot(id).next();
        Some(id)
    }

    fn give_stock_back(&self, supply: &mut dyn FrameSource) {
        while let Some(id) = self.stock_pop() {
            self.free_frame(supply, id);
        }
    }
}

impl Drop for FileCache<'_> {
    fn drop(&mut self) {
        self.write_everything();
    }
}

/// A page of a file that stays in its frame.
#[derive(Debug)]
#[must_use = "dropped, it pins nothing"]
pub struct FilePin<'c, 's> {
    cache: &'c FileCache<'s>,
    id: u32,
}

impl FilePin<'_, '_> {
    /// The frame.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.cache.table.frame(self.id)
    }
}

impl Drop for FilePin<'_, '_> {
    fn drop(&mut self) {
        if self.cache.check_process().is_err() {
            return;
        }
        let slot = self.cache.table.slot(self.id);
        let locked = self.cache.table.lock(slot.key());
        let pins = slot.pins() - 1;
        slot.set_pins(pins);
        let is_nobodys = pins == 0 && slot.state() == SlotState::Orphan;
        if is_nobodys {
            slot.reset(SlotState::Held);
        }
        drop(locked);
        if is_nobodys {
            self.cache.keep_frame(self.id);
        }
    }
}
