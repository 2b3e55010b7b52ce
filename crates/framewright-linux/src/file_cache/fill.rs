//! Brings pages in: frames for them, and their contents.

use super::files::{Inode, Io, OpenFile, TRANSFER_PAGES, read_fully, with_buffer};
use super::slots::{HeldPage, PageKey, SlotState};
use super::stats::count;
use super::{FileCache, FileError, PAGE};
use crate::ram::{FRAME_BYTES, FRAME_WORDS};
use framewright::frame::FrameSource;
use framewright::reserve::Key;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// Pages on their way in, in the order of their numbers. Pages that are not
/// [published](Self::publish) when it is dropped do not arrive.
pub(super) struct Filling<'c, 's> {
    cache: &'c FileCache<'s>,
    file: u64,
    pages: [(u64, u32); TRANSFER_PAGES],
    len: usize,
    /// The pages that have their contents, by place.
    loaded: u64,
}

impl Drop for Filling<'_, '_> {
    fn drop(&mut self) {
        for &(page, id) in &self.pages[..self.len] {
            let locked = self.cache.table.lock(PageKey {
                file: self.file,
                page,
            });
            locked.remove(id);
            self.cache.table.slot(id).reset(SlotState::Held);
            locked.changed();
            self.cache.keep_frame(id);
        }
    }
}

impl<'c, 's> Filling<'c, 's> {
    pub(super) const fn new(cache: &'c FileCache<'s>, file: u64) -> Self {
        Self {
            cache,
            file,
            pages: [(0, 0); TRANSFER_PAGES],
            len: 0,
            loaded: 0,
        }
    }

    /// Registers that the page is on its way into the frame of a slot that is held. Refuses if the
    /// page is there, or on its way, already.
    pub(super) fn add(&mut self, page: u64, id: u32) -> bool {
        let table = &self.cache.table;
        let locked = table.lock(PageKey {
            file: self.file,
            page,
        });
        if locked.find().is_some() {
            return false;
        }
        table.slot(id).reset(SlotState::Filling);
        locked.insert(id);
        self.pages[self.len] = (page, id);
        self.len += 1;
        true
    }

    pub(super) const fn set_loaded(&mut self, nth: usize) {
        self.loaded |= 1 << nth;
    }

    fn is_loaded(&self, nth: usize) -> bool {
        self.loaded & 1 << nth != 0
    }

    /// Loads the pages that the cleancache has.
    pub(super) fn load_from_cleancache(&mut self, inode: &Inode) {
        let Some((tenancy, pool)) = self.cache.cleancache else {
            return;
        };
        self.cache.forget_left(inode);
        let (mut words, mut found) = ([0; FRAME_WORDS], 0);
        let ram = &self.cache.ram;
        tenancy.with(&mut |store| {
            for nth in 0..self.len {
                let (index, id) = self.pages[nth];
                let key = Key {
                    pool,
                    object: self.file,
                    index,
                };
                if store.get(key, &mut words) {
                    let frame = ram.words(self.cache.table.frame(id));
                    let frame = frame.expect("the cache's frames are in its RAM");
                    for (to, from) in frame.iter().zip(&words) {
                        to.store(*from, Relaxed);
                    }
                    self.loaded |= 1 << nth;
                    found += 1;
                }
            }
        });
        count(&self.cache.counters.from_cleancache, found);
    }

    /// Loads the others from the file, neighbours together. Pages ahead of the first one that
    /// cannot be read are left out.
    pub(super) fn load_from_disk(&mut self, inode: &Inode, io: &Io) -> Result<(), FileError> {
        let all = (1u64 << self.len) - 1;
        if self.loaded == all {
            return Ok(());
        }
        with_buffer(|buffer| self.load_runs(inode, io, buffer))
    }

    fn load_runs(
        &mut self,
        inode: &Inode,
        io: &Io,
        buffer: &mut [u8; TRANSFER_PAGES * FRAME_BYTES],
    ) -> Result<(), FileError> {
        let mut nth = 0;
        while nth < self.len {
            if self.is_loaded(nth) {
                nth += 1;
                continue;
            }
            let next = |at: usize| self.pages[at].0 == self.pages[at - 1].0 + 1;
            let mut end = nth + 1;
            while end < self.len && next(end) && !self.is_loaded(end) {
                end += 1;
            }
            let mut read = self.read_run(inode, io, nth..end, buffer);
            if read.is_err() && nth == 0 && end > 1 {
                // An error in a page that was only read ahead is not reported: tries the first page
                // alone.
                read = self.read_run(inode, io, 0..1, buffer);
            }
            if nth == 0 {
                read?;
            }
            nth = end;
        }
        Ok(())
    }

    fn read_run(
        &mut self,
        inode: &Inode,
        io: &Io,
        run: std::ops::Range<usize>,
        buffer: &mut [u8; TRANSFER_PAGES * FRAME_BYTES],
    ) -> Result<(), FileError> {
        let page = self.pages[run.start].0;
        let bytes = &mut buffer[..run.len() * FRAME_BYTES];
        let offset = page * PAGE;
        let disk_len = inode.disk_len.load(Relaxed);
        let expected = disk_len.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut read = 0;
        if expected > 0 {
            let closed = rustix::io::Errno::BADF.raw_os_error();
            let medium = io.medium.as_ref().ok_or(FileError::Read {
                page,
                errno: closed,
            })?;
            let read_all = read_fully(&**medium, bytes, offset, expected);
            read = read_all.map_err(|errno| FileError::Read { page, errno })?;
        }
        if read < expected {
            let page = page + (read / FRAME_BYTES) as u64;
            return Err(FileError::Truncated { page });
        }
        // Bytes past the end are zero, even if another program has made the file longer.
        bytes[expected..].fill(0);
        let (pages, _) = bytes.as_chunks::<FRAME_BYTES>();
        for (nth, contents) in run.clone().zip(pages) {
            let frame = self.cache.table.frame(self.pages[nth].1);
            let written = self.cache.ram.write(frame, contents);
            debug_assert!(written.is_ok(), "the cache's frames are in its RAM");
            self.set_loaded(nth);
        }
        count(&self.cache.counters.from_disk, run.len() as u64);
        let ahead = run.len() as u64 - u64::from(run.start == 0);
        count(&self.cache.counters.ahead_pages, ahead);
        Ok(())
    }

    /// Makes the loaded pages visible to all threads. Returns the first page, held, if it is
    /// loaded.
    pub(super) fn publish(mut self) -> Option<HeldPage<'c>> {
        let cache = self.cache;
        let mut first = None;
        let mut left = 0;
        for nth in 0..self.len {
            let (page, id) = self.pages[nth];
            if !self.is_loaded(nth) {
                self.pages[left] = (page, id);
                left += 1;
                continue;
            }
            let slot = cache.table.slot(id);
            cache.queue.push(&cache.table.slots, id);
            let file = self.file;
            let locked = cache.table.lock(PageKey { file, page });
            if nth == 0 {
                slot.hold();
                first = Some(cache.table.held(id));
            } else {
                slot.set_ahead(true);
            }
            slot.set_state(SlotState::Ready);
            locked.changed();
        }
        self.len = left;
        first
    }
}

/// Slots for pages that are to be filled; those that are not used go to the stock, even by a panic (FC9).
struct ObtainedSlots<'c, 's> {
    cache: &'c FileCache<'s>,
    ids: [u32; TRANSFER_PAGES],
    unused: Range<usize>,
}

impl Drop for ObtainedSlots<'_, '_> {
    fn drop(&mut self) {
        for id in &self.ids[self.unused.clone()] {
            self.cache.keep_frame(*id);
        }
    }
}

/// The outcome of a search for a missing page.
pub(super) enum Filled<'c> {
    /// The page.
    Held(HeldPage<'c>),
    /// Another thread is bringing it.
    Again,
    /// It is no longer in the file.
    PastTheEnd,
}

impl FileCache<'_> {
    /// Obtains a slot with a frame of the cache's own: from its stock, or from the supply.
    pub(super) fn obtain(&self, supply: &mut dyn FrameSource) -> Result<u32, FileError> {
        if let Some(id) = self.stock_pop() {
            return Ok(id);
        }
        let above = (self.queue.len() + 1).saturating_sub(self.options.pages_max);
        if above > 0 {
            self.evict(supply, above, u64::MAX, true);
        }
        loop {
            match supply.alloc_frame() {
                Ok(frame) => {
                    let Some(id) = self.table.id_of(frame) else {
                        supply.free_frame(frame);
                        return Err(FileError::Foreign(crate::ram::NotInRam(frame)));
                    };
                    self.table.slot(id).reset(SlotState::Held);
                    return Ok(id);
                }
                // The supply has no clients to ask, or this cache is not among them.
                Err(error) => {
                    if self.evict(supply, EVICT_BATCH, u64::MAX, true).freed == 0 {
                        return Err(FileError::Frames(error));
                    }
                }
            }
        }
    }

    /// The page, held. Reads it in if it is missing, with as much ahead as the reader's habit
    /// suggests. `None` if it is past the end. The reader wants `wanted` pages from it on.
    pub(super) fn page(
        &self,
        supply: &mut dyn FrameSource,
        file: &OpenFile,
        page: u64,
        wanted: u64,
    ) -> Result<Option<HeldPage<'_>>, FileError> {
        let key = PageKey {
            file: file.inode.id,
            page,
        };
        let last = file.last();
        let is_new_use = file.use_page(page);
        loop {
            if let Some(held) = self.table.hold(key, is_new_use) {
                return Ok(Some(held));
            }
            let max = self.options.ahead_max.clamp(1, TRANSFER_PAGES as u64);
            let window = {
                let mut ahead = file.ahead.lock().unwrap_or_else(PoisonError::into_inner);
                ahead.window(page, wanted, last, max)
            };
            let filled = self.fill(supply, &file.inode, page, window);
            self.give_stock_back(supply);
            match filled? {
                Filled::Held(held) => {
                    count(&self.counters.misses, 1);
                    return Ok(Some(held));
                }
                Filled::Again => {}
                Filled::PastTheEnd => return Ok(None),
            }
        }
    }

    /// Reads in a page that is missing, and the missing ones of the `window` pages from it on.
    fn fill(
        &self,
        supply: &mut dyn FrameSource,
        inode: &Inode,
        page: u64,
        window: u64,
    ) -> Result<Filled<'_>, FileError> {
        let file = inode.id;
        let end = inode.len().div_ceil(PAGE).min(page + window);
        // Takes frames first: no lock is held when a supply may ask for memory.
        let mut obtained = ObtainedSlots {
            cache: self,
            ids: [0; TRANSFER_PAGES],
            unused: 0..0,
        };
        for ahead in page..end {
            if ahead != page && self.table.has(PageKey { file, page: ahead }) {
                continue;
            }
            match self.obtain(supply) {
                Ok(id) => {
                    obtained.ids[obtained.unused.end] = id;
                    obtained.unused.end += 1;
                }
                Err(error) if ahead == page => return Err(error),
                Err(_) => break,
            }
        }
        self.fill_frames(inode, page..end, &mut obtained)
    }

    /// The same with frames; unused frames are left over.
    fn fill_frames(
        &self,
        inode: &Inode,
        pages: std::ops::Range<u64>,
        obtained: &mut ObtainedSlots<'_, '_>,
    ) -> Result<Filled<'_>, FileError> {
        let io = inode.io();
        // No thread truncates it from here on.
        let end = inode.len().div_ceil(PAGE).min(pages.end);
        if pages.start >= end {
            return Ok(Filled::PastTheEnd);
        }
        let mut filling = Filling::new(self, inode.id);
        for page in pages.start..end {
            let Some(&id) = obtained.ids[obtained.unused.clone()].first() else {
                break;
            };
            if filling.add(page, id) {
                obtained.unused.start += 1;
            } else if page == pages.start {
                return Ok(Filled::Again);
            }
        }
        filling.load_from_cleancache(inode);
        filling.load_from_disk(inode, &io)?;
        let first = filling.publish();
        Ok(first.map_or(Filled::Again, Filled::Held))
    }

    /// Copies the frame's words.
    pub(super) fn copy_out(&self, id: u32, words: &mut [u64; 512]) {
        let frame = self.ram.words(self.table.frame(id));
        let frame = frame.expect("the cache's frames are in its RAM");
        for (to, from) in words.iter_mut().zip(frame) {
            *to = from.load(Relaxed);
        }
    }
}

/// How many pages are given up at once when there is no frame.
const EVICT_BATCH: u64 = 32;
