//! Changes to files: writes, truncation, and changes by other programs.

use super::files::{Inode, Io, OpenFile};
use super::fill::Filling;
use super::slots::{HeldPage, PageKey, SlotState};
use super::stats::count;
use super::{FileCache, FileError, PAGE};
use crate::words;
use framewright::frame::FrameSource;
use framewright::reserve::Key;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The most bytes a file has.
const LEN_MAX: u64 = i64::MAX as u64;
/// Up to this many pages are invalidated one by one in the cleancache; for more, the whole object.
const ONE_BY_ONE: u64 = 64;

/// A part of a page that is to be written.
struct WritePart<'b> {
    page: u64,
    at: usize,
    bytes: &'b [u8],
}

/// Pages that the cleancache is told to forget: if that unwinds, it may have old ones (FC10).
struct ForgottenPages<'i>(&'i Inode);

impl Drop for ForgottenPages<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Release);
    }
}

impl FileCache<'_> {
    /// Writes `from` at `offset`: into the cache, dirty until it is written back. The file grows if
    /// necessary. Returns how much was written, which is less only if something went wrong after
    /// that.
    ///
    /// No lock is held while it asks for frames. If as many pages are dirty as may be, it first
    /// writes some back.
    ///
    /// # Errors
    /// Why nothing was written.
    pub fn write(
        &self,
        supply: &mut dyn FrameSource,
        file: &OpenFile,
        offset: u64,
        from: &[u8],
    ) -> Result<usize, FileError> {
        self.check(file)?;
        self.check_supply(supply)?;
        if !file.is_writable {
            return Err(FileError::ReadOnly);
        }
        let end = offset.checked_add(from.len() as u64);
        if end.is_none_or(|end| end > LEN_MAX) {
            return Err(FileError::TooLong);
        }
        let mut done = 0;
        while done < from.len() {
            let start = offset + done as u64;
            let at = (start % PAGE) as usize;
            let len = (PAGE as usize - at).min(from.len() - done);
            let part = WritePart {
                page: start / PAGE,
                at,
                bytes: &from[done..done + len],
            };
            let written = self.write_part(supply, file, &part);
            self.give_stock_back(supply);
            match written {
                Ok(()) => done += len,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn write_part(
        &self,
        supply: &mut dyn FrameSource,
        file: &OpenFile,
        part: &WritePart<'_>,
    ) -> Result<(), FileError> {
        self.balance()?;
        let inode = &file.inode;
        let key = PageKey {
            file: inode.id,
            page: part.page,
        };
        let is_new_use = file.use_page(part.page);
        loop {
            let spare = if self.table.has(key) {
                None
            } else {
                Some(self.obtain(supply)?)
            };
            let io = inode.io();
            let (held, is_used) = match (self.table.hold(key, is_new_use), spare) {
                (Some(held), _) => (Ok(Some(held)), false),
                (None, Some(id)) => self.fill_for(inode, &io, part, id),
                (None, None) => (Ok(None), false),
            };
            if let Some(id) = spare.filter(|_| !is_used) {
                self.keep_frame(id);
            }
            let Some(held) = held? else {
                // It went or came at this moment.
                continue;
            };
            self.change(inode, part, &held);
            return Ok(());
        }
    }

    /// Brings a page in that is to be changed: reads the part that is not overwritten. Returns
    /// whether the slot was used.
    fn fill_for(
        &self,
        inode: &Inode,
        io: &Io,
        part: &WritePart<'_>,
        id: u32,
    ) -> (Result<Option<HeldPage<'_>>, FileError>, bool) {
        let mut filling = Filling::new(self, inode.id);
        if !filling.add(part.page, id) {
            return (Ok(None), false);
        }
        let is_overwritten = part.bytes.len() == PAGE as usize;
        if is_overwritten || part.page * PAGE >= inode.len() {
            let words = self.ram.words(self.table.frame(id));
            let words = words.expect("the cache's frames are in its RAM");
            words::zero(words, 0..PAGE as usize);
            filling.set_loaded(0);
        } else {
            filling.load_from_cleancache(inode);
            if let Err(error) = filling.load_from_disk(inode, io) {
                return (Err(error), true);
            }
            count(&self.counters.misses, 1);
        }
        (Ok(filling.publish()), true)
    }

    /// Changes a page that is held, under the file's `io` lock.
    fn change(&self, inode: &Arc<Inode>, part: &WritePart<'_>, held: &HeldPage<'_>) {
        if !self.table.slot(held.id).is_dirty() {
            // While it is held it cannot be put; and the copy put before is about to be old.
            self.forget_clean(inode, part.page..part.page + 1);
        }
        let words = self.ram.words(self.table.frame(held.id));
        let words = words.expect("the cache's frames are in its RAM");
        words::store(words, part.at, part.bytes);
        let end = part.page * PAGE + (part.at + part.bytes.len()) as u64;
        // First the length, then the mark: write-back takes the mark and writes up to the length.
        inode.len.fetch_max(end, Relaxed);
        self.mark_dirty(inode, part.page, held.id);
    }

    /// Gives the file another length. The part that it loses is gone, from the cache and the
    /// cleancache, too; the part that it gains is zero.
    ///
    /// # Errors
    /// The medium refused. All is as before then.
    pub fn truncate(&self, file: &OpenFile, len_bytes: u64) -> Result<(), FileError> {
        self.check(file)?;
        if !file.is_writable {
            return Err(FileError::ReadOnly);
        }
        if len_bytes > LEN_MAX {
            return Err(FileError::TooLong);
        }
        let inode = &file.inode;
        let io = inode.io_alone();
        if let Some(medium) = &io.medium {
            let set = medium.set_len(len_bytes);
            set.map_err(|error| FileError::Length {
                errno: super::files::errno(&error),
            })?;
        }
        inode.will_change();
        let before = inode.len.swap(len_bytes, Relaxed);
        inode.disk_len.store(len_bytes, Relaxed);
        if len_bytes < before {
            let pages = len_bytes.div_ceil(PAGE)..before.div_ceil(PAGE);
            self.drop_pages(inode, pages.clone(), false);
            self.zero_tail(inode, len_bytes);
            let mut dirty = inode.dirty();
            dirty.unsynced.split_off(&pages.start);
            dirty.lost.split_off(&pages.start);
            drop(dirty);
            // The last page changes, too.
            self.forget_clean(inode, len_bytes / PAGE..pages.end);
        }
        Ok(())
    }

    /// Takes note of another program's changes: forgets the file's clean pages, and sets its length
    /// to what the medium says, or to where the last dirty page ends.
    ///
    /// # Errors
    /// The medium does not say its length. All is as before then.
    pub fn refresh(&self, file: &OpenFile) -> Result<(), FileError> {
        self.check(file)?;
        let inode = &file.inode;
        let io = inode.io_alone();
        let Some(medium) = &io.medium else {
            return Ok(());
        };
        let len = medium.len_bytes().map_err(|error| FileError::Length {
            errno: super::files::errno(&error),
        })?;
        self.forget_pages(inode);
        let last_dirty = inode.dirty().pages.last().copied();
        let dirty_end = last_dirty.map_or(0, |page| ((page + 1) * PAGE).min(inode.len()));
        inode.len.store(len.max(dirty_end), Relaxed);
        inode.disk_len.store(len, Relaxed);
        Ok(())
    }

    /// Forgets all clean pages of a file, here and in the cleancache. The caller has the file's
    /// `io` lock alone.
    pub(super) fn forget_pages(&self, inode: &Inode) {
        self.drop_pages(inode, 0..inode.len().div_ceil(PAGE), true);
        self.forget_clean(inode, 0..u64::MAX);
    }

    /// Forgets pages in the cleancache.
    fn forget_clean(&self, inode: &Inode, pages: std::ops::Range<u64>) {
        let Some((tenancy, pool)) = self.cleancache else {
            return;
        };
        let unwound = ForgottenPages(inode);
        tenancy.with(&mut |store| {
            if pages.end.saturating_sub(pages.start) > ONE_BY_ONE {
                store.invalidate_object(pool, inode.id);
                return;
            }
            for index in pages.clone() {
                store.invalidate_page(Key {
                    pool,
                    object: inode.id,
                    index,
                });
            }
        });
        std::mem::forget(unwound);
    }

    /// Has the cleancache forget all of a file before it is asked for a page of it, if a call has left some there
    /// that it was to forget (FC10).
    pub(super) fn forget_left(&self, inode: &Inode) {
        // Acquire pairs with the Release in `ForgottenPages`, and with that of another thread that has been here.
        let left = inode.left.load(Acquire);
        if left == inode.made_up.load(Acquire) {
            return;
        }
        self.forget_clean(inode, 0..u64::MAX);
        inode.made_up.fetch_max(left, Release);
    }

    /// Takes pages out of the cache; their frames go to the stock. The caller has the file's `io`
    /// lock alone: no page comes in, and none is being written.
    pub(super) fn drop_pages(&self, inode: &Inode, pages: std::ops::Range<u64>, keep_dirty: bool) {
        let file = inode.id;
        if pages.end.saturating_sub(pages.start) > self.ram.frames().frames() {
            // A sparse file: going through all slots finds its pages faster.
            for id in 0..self.ram.frames().frames() as u32 {
                let key = self.table.slot(id).key();
                if key.file == file && pages.contains(&key.page) {
                    self.drop_page(inode, key.page, keep_dirty);
                }
            }
            return;
        }
        for page in pages {
            self.drop_page(inode, page, keep_dirty);
        }
    }

    fn drop_page(&self, inode: &Inode, page: u64, keep_dirty: bool) {
        let key = PageKey {
            file: inode.id,
            page,
        };
        let mut locked = self.table.lock(key);
        let id = loop {
            let Some(id) = locked.find() else { return };
            let slot = self.table.slot(id);
            if slot.state() != SlotState::Ready {
                locked = locked.wait();
            } else if !slot.is_idle() {
                // A copy of one page, which does not take long.
                drop(locked);
                std::thread::yield_now();
                locked = self.table.lock(key);
            } else {
                break id;
            }
        };
        let slot = self.table.slot(id);
        if slot.is_dirty() {
            if keep_dirty {
                return;
            }
            self.counters.dirty.fetch_sub(1, Relaxed);
        }
        let is_pinned = slot.pins() > 0;
        self.queue.remove(&self.table.slots, id);
        locked.remove(id);
        slot.reset(if is_pinned {
            SlotState::Orphan
        } else {
            SlotState::Held
        });
        locked.changed();
        inode.dirty().pages.remove(&page);
        if !is_pinned {
            self.keep_frame(id);
        }
    }

    /// Zeroes the bytes behind the end in the last page, if it is in the cache.
    fn zero_tail(&self, inode: &Inode, len: u64) {
        let at = (len % PAGE) as usize;
        let key = PageKey {
            file: inode.id,
            page: len / PAGE,
        };
        if at > 0
            && let Some(held) = self.table.hold(key, false)
        {
            let words = self.ram.words(self.table.frame(held.id));
            let words = words.expect("the cache's frames are in its RAM");
            words::zero(words, at..PAGE as usize);
        }
    }
}
