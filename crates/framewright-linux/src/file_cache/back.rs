//! Pages go back to their files.

use super::files::{Inode, Io};
use super::medium::{TRANSFER_PAGES, with_buffer, write_fully};
use super::stats::count;
use super::table::{PageKey, State};
use super::{FileCache, FileError, OpenFile, PAGE};
use crate::ram::FRAME_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Neighbouring pages that are being written. What is not said to be [done](Self::done) when it is dropped is
/// dirty again.
struct Writing<'c, 's> {
    cache: &'c FileCache<'s>,
    inode: &'c Arc<Inode>,
    first: u64,
    ids: [u32; TRANSFER_PAGES],
    len: usize,
    /// So many of them are in the file.
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
    /// Says that a page is dirty that is [marked](Self::mark_dirty) so.
    fn list_dirty(&self, inode: &Arc<Inode>, page: u64) {
        let mut dirty = inode.dirty();
        dirty.pages.insert(page);
        if !dirty.is_listed {
            dirty.is_listed = true;
            self.files.dirty().push_back(Arc::clone(inode));
        }
    }

    /// Makes a page dirty that the caller holds and has changed. First the mark and then the list: who
    /// writes back goes the other way round, so that none is left out.
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

    /// Writes the first dirty pages from `from` on that are neighbours. Where to go on, if there was one; or the
    /// error, after which they are dirty as before. The caller has the file's `writer` lock.
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
            if slot.state() == State::Ready {
                if !slot.is_dirty() {
                    return None;
                }
                slot.set_dirty(false);
                slot.set_writing(true);
                slot.hold();
                return Some(id);
            }
            // It moves: that does not take long.
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
        // The marks were taken first: what was written before that is in the length.
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

    /// Writes everything of a file that is dirty, in the order of its pages, and has it brought to its device.
    ///
    /// What was written before the call survives a loss of power when this has returned. Pages that
    /// others write meanwhile may be dirty afterwards: each page is written once at most, and none behind the last
    /// that was dirty at the beginning, so that it ends however fast others write.
    ///
    /// # Errors
    /// The first one that occurred. All pages were tried; those that could not be written stay dirty, and the next
    /// call tries them again and says so again. Where the device did not sync, what was written since the last time
    /// that it did is dirty again; and if some of that has been evicted, every call says so until it is written
    /// anew, or truncated.
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
            // Nothing of this file is written meanwhile.
            result = match medium.sync() {
                Ok(()) => Self::note_synced(inode),
                Err(error) => {
                    self.distrust(inode);
                    let errno = super::medium::errno(&error);
                    Err(FileError::Sync { errno })
                }
            };
        }
        drop(writer);
        drop(io);
        self.files.settle(inode);
        result
    }

    /// Writes everything of a file that is dirty now. The caller has its `writer` lock: nothing that was dirty before is
    /// being written, and so is not among the dirty pages.
    fn write_all(&self, inode: &Arc<Inode>, io: &Io) -> Result<(), FileError> {
        let mut result = Ok(());
        let mut from = 0;
        let Some(last) = inode.dirty().pages.last().copied() else {
            return result;
        };
        // What is appended meanwhile is for the next one: else this would not end before who appends does.
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

    /// Writes everything that is dirty, of all files, as far as it can be.
    pub(super) fn write_everything(&self) {
        for inode in self.files.every() {
            let io = inode.io();
            let writer = inode.writer();
            // What could not be written stays dirty: who wants to know calls `sync`.
            let _ = self.write_all(&inode, &io);
            drop(writer);
            drop(io);
            self.files.settle(&inode);
        }
    }

    /// Writes files back, the one that has been dirty for longest first, until so few are dirty as may be.
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
            // What could not be written stays dirty: who wants to know calls `sync`.
            let _ = self.write_all(&inode, &io);
            drop(writer);
            drop(io);
            self.list_again(&inode);
            self.files.settle(&inode);
        }
    }

    /// What was written is on the device, but for what was lost when that failed before.
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

    /// A sync failed. The host may have dropped what was written since the last one, and not say so the next
    /// time: so what the cache still has is dirty again, and what it has no more is lost.
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

    /// Sees to it that less is dirty than may be, before more is.
    pub(super) fn balance(&self) -> Result<(), FileError> {
        let max = self.options.dirty_max.max(1);
        // Files that could not be written, one after the other.
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
                // Somebody else is writing all that is dirty.
                std::thread::yield_now();
                continue;
            };
            inode.dirty().is_listed = false;
            let io = inode.io();
            let writer = inode.writer();
            let written = self.write_next(&inode, &io, 0);
            drop(writer);
            drop(io);
            self.list_again(&inode);
            self.files.settle(&inode);
            match written {
                Ok(_) => failures = 0,
                Err(_) if failures > files => return Err(FileError::Dirty { pages }),
                Err(_) => failures += 1,
            }
        }
    }

    fn list_again(&self, inode: &Arc<Inode>) {
        let mut dirty = inode.dirty();
        if !dirty.pages.is_empty() && !dirty.is_listed {
            dirty.is_listed = true;
            self.files.dirty().push_back(Arc::clone(inode));
        }
    }

    /// Writes a dirty page that is in the way, with its neighbours, if that can be done without waiting
    /// for somebody else's writing.
    pub(super) fn write_around(&self, key: PageKey) {
        let Some(inode) = self.files.get(key.file) else {
            return;
        };
        if let Some(io) = inode.try_io()
            && let Some(_writer) = inode.try_writer()
        {
            // What goes wrong leaves it dirty: the next sync says so.
            let _ = self.write_next(&inode, &io, key.page);
        }
        self.files.settle(&inode);
    }
}
