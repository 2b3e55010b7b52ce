//! Write-back: pages go back to their files.

use super::files::{Inode, Io, TRANSFER_PAGES, with_buffer, write_fully};
use super::slots::{PageKey, SlotState};
use super::stats::count;
use super::{FileCache, FileError, OpenFile, PAGE};
use crate::ram::FRAME_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Neighbouring pages that are being written. Pages that are not [done](Self::done) when it is
/// dropped are dirty again.
struct Writing<'c, 's> {
    cache: &'c FileCache<'s>,
    inode: &'c Arc<Inode>,
    first: u64,
    ids: [u32; TRANSFER_PAGES],
    len: usize,
    /// How many of them are in the file.
    done: usize,
}

impl Drop for Writing<'_, '_> {
    fn drop(&mut self) {
        let cache = self.cache;
        for (nth, &id) in self.ids[..self.len].iter().enumerate() {
            let page = self.first + nth as u64;
            let slot = cache.table.slot(id);
            let file = self.inode.id;
            let failed = nth >= self.done;
            if !failed {
                let mut dirty = self.inode.dirty();
                dirty.unsynced.insert(page);
                dirty.lost.remove(&page);
            }
            let locked = cache.table.lock(PageKey { file, page });
            slot.set_writing(false);
            if failed {
                slot.set_dirty(true);
            } else if !slot.is_dirty() {
                cache.counters.dirty.fetch_sub(1, Relaxed);
            }
            locked.changed();
            if failed {
                cache.list_dirty(self.inode, page);
            }
            drop(cache.table.held(id));
        }
    }
}

impl FileCache<'_> {
    /// Lists a page as dirty that is [marked](Self::mark_dirty) so.
    fn list_dirty(&self, inode: &Arc<Inode>, page: u64) {
        let mut dirty = inode.dirty();
        dirty.pages.insert(page);
        if !dirty.is_listed {
            dirty.is_listed = true;
            self.files.dirty().push_back(Arc::clone(inode));
        }
    }

    /// Makes a page dirty that the caller holds and has changed. It sets the mark first and then
    /// lists the page. Write-back goes the other way round, so it misses no page.
    pub(super) fn mark_dirty(&self, inode: &Arc<Inode>, page: u64, id: u32) {
        let slot = self.table.slot(id);
        let file = inode.id;
        let locked = self.table.lock(PageKey { file, page });
        let was_dirty = slot.is_dirty();
        if !was_dirty && !slot.is_writing() {
            self.counters.dirty.fetch_add(1, Relaxed);
        }
        slot.set_dirty(true);
        drop(locked);
        if !was_dirty {
            self.list_dirty(inode, page);
        }
    }

    /// Writes the first run of neighbouring dirty pages from `from` on. Returns where to go on, if
    /// there was one; or the error, after which they are dirty as before. The caller has the file's
    /// `writer` lock.
    pub(super) fn write_next(
        &self,
        inode: &Arc<Inode>,
        io: &Io,
        from: u64,
    ) -> Result<Option<u64>, (u64, FileError)> {
        let mut writing = Writing {
            cache: self,
            inode,
            first: 0,
            ids: [0; TRANSFER_PAGES],
            len: 0,
            done: 0,
        };
        let mut next = from;
        while writing.len < TRANSFER_PAGES {
            let page = {
                let mut dirty = inode.dirty();
                let found = dirty.pages.range(next..).next().copied();
                let Some(page) = found.filter(|page| writing.len == 0 || *page == next) else {
                    break;
                };
                dirty.pages.remove(&page);
                page
            };
            if let Some(id) = self.begin_writing(inode.id, page) {
                if writing.len == 0 {
                    writing.first = page;
                }
                writing.ids[writing.len] = id;
                writing.len += 1;
            } else if writing.len > 0 {
                break;
            }
            next = page.saturating_add(1);
        }
        if writing.len == 0 {
            return Ok(None);
        }
        let next = writing.first + writing.len as u64;
        let written = with_buffer(|buffer| self.write_pages(&mut writing, io, buffer));
        written.map(|()| Some(next)).map_err(|error| (next, error))
    }

    /// Takes the mark of a dirty page, and holds it until it is written.
    fn begin_writing(&self, file: u64, page: u64) -> Option<u32> {
        let mut locked = self.table.lock(PageKey { file, page });
        loop {
            let id = locked.find()?;
            let slot = self.table.slot(id);
            if slot.state() == SlotState::Ready {
                if !slot.is_dirty() {
                    return None;
                }
                slot.set_dirty(false);
                slot.set_writing(true);
                slot.hold();
                return Some(id);
            }
            // It is moving, which does not take long.
            locked = locked.wait();
        }
    }

    fn write_pages(
        &self,
        writing: &mut Writing<'_, '_>,
        io: &Io,
        buffer: &mut [u8; TRANSFER_PAGES * FRAME_BYTES],
    ) -> Result<(), FileError> {
        let first = writing.first;
        let fail = |page, errno| {
            count(&self.counters.write_errors, 1);
            FileError::Write { page, errno }
        };
        let closed = rustix::io::Errno::BADF.raw_os_error();
        let medium = io.medium.as_ref().ok_or_else(|| fail(first, closed))?;
        let (pages, _) = buffer.as_chunks_mut::<FRAME_BYTES>();
        for (id, contents) in writing.ids[..writing.len].iter().zip(pages) {
            let read = self.ram.read(self.table.frame(*id), contents);
            debug_assert!(read.is_ok(), "the cache's frames are in its RAM");
        }
        // The marks were taken first, so the length covers all that was written before.
        let offset = first * PAGE;
        let rest = writing.inode.len().saturating_sub(offset);
        let bytes = rest.min(writing.len as u64 * PAGE) as usize;
        let inode = writing.inode;
        inode.will_change();
        let (done, error) = match write_fully(&**medium, &buffer[..bytes], offset) {
            Ok(()) => (bytes, None),
            Err((done, errno)) => (done, Some(errno)),
        };
        inode.disk_len.fetch_max(offset + done as u64, Relaxed);
        writing.done = match error {
            None => writing.len,
            Some(_) => done / FRAME_BYTES,
        };
        count(&self.counters.written, writing.done as u64);
        match error {
            None => Ok(()),
            Some(errno) => Err(fail(first + writing.done as u64, errno)),
        }
    }

    /// Writes all dirty pages of a file, in their order, and has the file brought to its device.
    ///
    /// When this has returned, all writes before the call survive a loss of power. Pages that
    /// others write meanwhile may be dirty afterwards: this writes each page at most once, and none
    /// behind the last one that was dirty at the beginning, so it ends however fast others write.
    ///
    /// # Errors
    /// The first one that occurred. All pages were tried; those that could not be written stay
    /// dirty, and the next call tries them again and reports them again. If the device did not
    /// sync, the pages written since the last successful sync are dirty again; if some of these
    /// have been evicted, every call reports it until they are written anew, or truncated.
    pub fn sync(&self, file: &OpenFile) -> Result<(), FileError> {
        self.check(file)?;
        let inode = &file.inode;
        let io = inode.io();
        let writer = inode.writer();
        let mut result = self.write_all(inode, &io);
        if result.is_ok()
            && inode.needs_sync.load(Relaxed)
            && let Some(medium) = &io.medium
        {
            // No page of this file is written meanwhile.
            result = match medium.sync() {
                Ok(()) => Self::note_synced(inode),
                Err(error) => {
                    self.distrust(inode);
                    let errno = super::files::errno(&error);
                    Err(FileError::Sync { errno })
                }
            };
        }
        drop(writer);
        drop(io);
        self.files.let_go(inode);
        result
    }

    /// Writes all pages of a file that are dirty now. The caller has its `writer` lock, so no page
    /// that was dirty before is being written, which would keep it out of the set of dirty pages.
    fn write_all(&self, inode: &Arc<Inode>, io: &Io) -> Result<(), FileError> {
        let mut result = Ok(());
        let mut from = 0;
        let Some(last) = inode.dirty().pages.last().copied() else {
            return result;
        };
        // Leaves pages that are appended meanwhile to the next call: else this would not end before
        // the appending does.
        while from <= last {
            match self.write_next(inode, io, from) {
                Ok(None) => break,
                Ok(Some(next)) => from = next,
                Err((next, error)) => {
                    from = next;
                    result = result.and(Err(error));
                }
            }
        }
        result
    }

    /// Writes all dirty pages of all files, as far as that is possible.
    pub(super) fn write_everything(&self) {
        if self.check_process().is_err() {
            return;
        }
        for inode in self.files.every() {
            let io = inode.io();
            let writer = inode.writer();
            // Pages that could not be written stay dirty: a caller that needs to know calls `sync`.
            let _ = self.write_all(&inode, &io);
            drop(writer);
            drop(io);
            self.files.let_go(&inode);
        }
    }

    /// Writes files back, the one that has been dirty for longest first, until no more than the
    /// limit are dirty.
    pub(super) fn limit_dirty_files(&self) {
        let max = self.options.dirty_files_max;
        let mut tries = self.files.dirty().len();
        while tries > 0 {
            tries -= 1;
            let inode = {
                let mut list = self.files.dirty();
                if list.len() <= max {
                    return;
                }
                list.pop_front()
            };
            let Some(inode) = inode else { return };
            inode.dirty().is_listed = false;
            let io = inode.io();
            let writer = inode.writer();
            // Pages that could not be written stay dirty: a caller that needs to know calls `sync`.
            let _ = self.write_all(&inode, &io);
            drop(writer);
            drop(io);
            self.list_again(&inode);
            self.files.let_go(&inode);
        }
    }

    /// Records that all written pages are on the device, except those that were lost when a sync
    /// failed before.
    fn note_synced(inode: &Inode) -> Result<(), FileError> {
        let mut dirty = inode.dirty();
        dirty.unsynced.clear();
        if dirty.lost.is_empty() {
            inode.needs_sync.store(false, Relaxed);
            return Ok(());
        }
        let errno = rustix::io::Errno::IO.raw_os_error();
        Err(FileError::Sync { errno })
    }

    /// Handles a failed sync. The host may have dropped the writes since the last one, and not
    /// report it the next time. So the pages that the cache still has are dirty again, and those
    /// that it no longer has are lost.
    fn distrust(&self, inode: &Arc<Inode>) {
        let unsynced = std::mem::take(&mut inode.dirty().unsynced);
        for page in unsynced {
            let file = inode.id;
            match self.table.hold(PageKey { file, page }, false) {
                Some(held) => self.mark_dirty(inode, page, held.id),
                None => {
                    inode.dirty().lost.insert(page);
                }
            }
        }
    }

    /// Brings the number of dirty pages below the limit, before one more becomes dirty.
    pub(super) fn balance(&self) -> Result<(), FileError> {
        let max = self.options.dirty_max.max(1);
        // Files that could not be written, in a row.
        let mut failures = 0;
        loop {
            let pages = self.counters.dirty.load(Relaxed);
            if pages < max {
                return Ok(());
            }
            let (inode, files) = {
                let mut list = self.files.dirty();
                (list.pop_front(), list.len())
            };
            let Some(inode) = inode else {
                // Another thread is writing all that is dirty.
                std::thread::yield_now();
                continue;
            };
            let written = self.write_first_run(&inode);
            match written {
                Ok(_) => failures = 0,
                Err(_) if failures > files => return Err(FileError::Dirty { pages }),
                Err(_) => failures += 1,
            }
        }
    }

    /// Writes the first run of dirty pages of the file that has been dirty for longest, if more than `pages` pages or
    /// `files` files are dirty: for a thread that writes behind those that make pages dirty, so that these do not
    /// wait. Returns whether it wrote.
    pub fn write_behind(&self, pages: u64, files: usize) -> bool {
        if self.check_process().is_err() {
            return false;
        }
        let inode = {
            let mut list = self.files.dirty();
            if self.counters.dirty.load(Relaxed) <= pages && list.len() <= files {
                return false;
            }
            list.pop_front()
        };
        // On an error the page stays dirty, and the next sync reports it.
        inode.is_some_and(|inode| matches!(self.write_first_run(&inode), Ok(Some(_))))
    }

    /// Writes the first run of dirty pages of a file that was just taken off the list of dirty ones.
    fn write_first_run(&self, inode: &Arc<Inode>) -> Result<Option<u64>, (u64, FileError)> {
        inode.dirty().is_listed = false;
        let io = inode.io();
        let writer = inode.writer();
        let written = self.write_next(inode, &io, 0);
        drop(writer);
        drop(io);
        self.list_again(inode);
        self.files.let_go(inode);
        written
    }

    fn list_again(&self, inode: &Arc<Inode>) {
        let mut dirty = inode.dirty();
        if !dirty.pages.is_empty() && !dirty.is_listed {
            dirty.is_listed = true;
            self.files.dirty().push_back(Arc::clone(inode));
        }
    }

    /// Writes a dirty page that is in the way, with its neighbours, if it need not wait for another
    /// thread's writing.
    pub(super) fn write_around(&self, key: PageKey) {
        let Some(inode) = self.files.get(key.file) else {
            return;
        };
        if let Some(io) = inode.try_io()
            && let Some(_writer) = inode.try_writer()
        {
            // On an error the page stays dirty, and the next sync reports it.
            let _ = self.write_next(&inode, &io, key.page);
        }
        self.files.let_go(&inode);
    }
}
