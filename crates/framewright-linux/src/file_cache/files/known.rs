//! Files: their numbers, their lengths, and which of them are recognised when they are opened
//! again.

use super::ahead::Ahead;
use super::medium::{Medium, Stamp};
use crate::fork::Process;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

/// The next number of a file. Numbers are never used again in this process, so no cache takes a
/// store's pages of another cache's file for its own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What a file's transfers go through.
pub(in crate::file_cache) struct Io {
    /// Present while the file is open, or has dirty pages.
    pub(in crate::file_cache) medium: Option<Arc<dyn Medium>>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io")
            .field("open", &self.medium.is_some())
            .finish()
    }
}

/// Pages that are dirty, or were.
#[derive(Debug, Default)]
pub(in crate::file_cache) struct Dirty {
    pub(in crate::file_cache) pages: BTreeSet<u64>,
    /// Pages written since the last sync that succeeded: it is unknown whether they are on the
    /// device.
    pub(in crate::file_cache) unsynced: BTreeSet<u64>,
    /// Those among them that were evicted when a sync failed.
    pub(in crate::file_cache) lost: BTreeSet<u64>,
    /// Whether the file is in the list of those with dirty pages.
    pub(in crate::file_cache) is_listed: bool,
}

/// A file.
#[derive(Debug)]
pub(in crate::file_cache) struct Inode {
    pub(in crate::file_cache) id: u64,
    /// Transfers share it; a thread that changes the length other than by writing has it alone.
    io: RwLock<Io>,
    /// One write-back at a time, so that versions of a page are written in order.
    writer: Mutex<()>,
    /// Its length for its users.
    pub(in crate::file_cache) len: AtomicU64,
    /// The least length of its medium.
    pub(in crate::file_cache) disk_len: AtomicU64,
    dirty: Mutex<Dirty>,
    /// Whether the cache has changed it since its state was last noted.
    pub(super) was_written: AtomicBool,
    /// Whether the cache has changed it since it was last brought to its device.
    pub(in crate::file_cache) needs_sync: AtomicBool,
    /// How often a call unwound that was to make the cleancache forget pages of it.
    pub(in crate::file_cache) left: AtomicU64,
    /// How many of these the cleancache has made up for since (FC10).
    pub(in crate::file_cache) made_up: AtomicU64,
}

impl Inode {
    fn new(medium: Arc<dyn Medium>, len: u64) -> Self {
        Self {
            // Relaxed: a number, and each only once.
            id: NEXT.fetch_add(1, Relaxed),
            io: RwLock::new(Io {
                medium: Some(medium),
            }),
            writer: Mutex::new(()),
            len: AtomicU64::new(len),
            disk_len: AtomicU64::new(len),
            dirty: Mutex::default(),
            was_written: AtomicBool::new(false),
            needs_sync: AtomicBool::new(false),
            left: AtomicU64::new(0),
            made_up: AtomicU64::new(0),
        }
    }

    pub(in crate::file_cache) fn io(&self) -> RwLockReadGuard<'_, Io> {
        self.io.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::file_cache) fn try_io(&self) -> Option<RwLockReadGuard<'_, Io>> {
        match self.io.try_read() {
            Ok(io) => Some(io),
            Err(TryLockError::Poisoned(io)) => Some(io.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The right to write back. The state after a medium's panic is intact: see `Writing`.
    pub(in crate::file_cache) fn writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::file_cache) fn try_writer(&self) -> Option<MutexGuard<'_, ()>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(in crate::file_cache) fn io_alone(&self) -> RwLockWriteGuard<'_, Io> {
        self.io.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::file_cache) fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the medium is about to be changed.
    pub(in crate::file_cache) fn will_change(&self) {
        self.was_written.store(true, Relaxed);
        self.needs_sync.store(true, Relaxed);
    }

    pub(in crate::file_cache) fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }
}

/// A file that is open in a cache. All handles of one file read and write the same contents,
/// through the cache. Each has its own memory of what was read last, for reading ahead.
///
/// Dropped, it is closed. The file's pages stay in the cache, and are found when the file is opened
/// again, if no other program has changed it meanwhile.
#[derive(Debug)]
pub struct OpenFile {
    pub(in crate::file_cache) inode: Arc<Inode>,
    pub(in crate::file_cache) is_writable: bool,
    pub(in crate::file_cache) ahead: Mutex<Ahead>,
    /// The page that was used last, plus one.
    last: AtomicU64,
    files: Arc<CacheFiles>,
}

impl OpenFile {
    /// The file's number: no other file of this process ever has it. It is the object in the cleancache.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inode.id
    }

    /// Its length in bytes, as the cache knows it.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.inode.len()
    }

    /// Whether it was opened for writing, too.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether it is one of those files.
    pub(in crate::file_cache) fn is_of(&self, files: &Arc<CacheFiles>) -> bool {
        Arc::ptr_eq(&self.files, files)
    }

    pub(in crate::file_cache) fn last(&self) -> Option<u64> {
        self.last.load(Relaxed).checked_sub(1)
    }

    /// Notes the use of a page. Returns whether it is another one than the last time.
    #[inline]
    pub(in crate::file_cache) fn use_page(&self, page: u64) -> bool {
        // Relaxed, and two operations: two threads with one handle count as one reader.
        let is_other = self.last.load(Relaxed) != page + 1;
        if is_other {
            self.last.store(page + 1, Relaxed);
        }
        is_other
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.files.close(&self.inode);
    }
}

#[derive(Debug)]
struct KnownFile {
    inode: Arc<Inode>,
    file: Option<(u64, u64)>,
    // As many as there are handles, including those that are never dropped: no loop reaches 2^64.
    handles: u64,
    /// The state that its pages are of, if that can be known.
    stamp: Option<Stamp>,
    /// It is in the queue of closed files; and whether it was closed again since it came there.
    is_queued: bool,
    is_recent: bool,
}

#[derive(Debug, Default)]
struct AllFiles {
    by_id: BTreeMap<u64, KnownFile>,
    by_file: BTreeMap<(u64, u64), u64>,
    /// Closed files, the first one first, each once; some are open again.
    closed: VecDeque<u64>,
}

/// All files that a cache knows.
#[derive(Debug)]
pub(in crate::file_cache) struct CacheFiles {
    all: Mutex<AllFiles>,
    /// Files with dirty pages, in the order in which they had their first one.
    dirty: Mutex<VecDeque<Arc<Inode>>>,
    process: Process,
}

impl Default for CacheFiles {
    fn default() -> Self {
        Self {
            all: Mutex::default(),
            dirty: Mutex::default(),
            process: Process::this(),
        }
    }
}

impl CacheFiles {
    fn all(&self) -> MutexGuard<'_, AllFiles> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::file_cache) fn dirty(&self) -> MutexGuard<'_, VecDeque<Arc<Inode>>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::file_cache) fn get(&self, id: u64) -> Option<Arc<Inode>> {
        self.all()
            .by_id
            .get(&id)
            .map(|known| Arc::clone(&known.inode))
    }

    pub(in crate::file_cache) fn every(&self) -> Vec<Arc<Inode>> {
        let all = self.all();
        all.by_id
            .values()
            .map(|known| Arc::clone(&known.inode))
            .collect()
    }

    /// Opens the file that the medium is. If that file is known in another state, its number is
    /// forgotten and is the second result: its pages belong to no file then.
    pub(in crate::file_cache) fn open(
        self: &Arc<Self>,
        medium: Arc<dyn Medium>,
        is_writable: bool,
    ) -> Result<(OpenFile, Option<Arc<Inode>>), i32> {
        let errno = |error: std::io::Error| super::medium::errno(&error);
        let stamp = medium.stamp().map_err(errno)?;
        let file = stamp.map(|stamp| stamp.file);
        let known = file.and_then(|file| self.take_known(file));
        let Some(inode) = known else {
            return self.add(medium, is_writable, None);
        };
        // No transfer is running: the medium's length is final.
        let mut io = inode.io_alone();
        let stamp = medium.stamp().map_err(errno)?;
        let is_same = {
            let all = self.all();
            let then = all.by_id.get(&inode.id).and_then(|known| known.stamp);
            match (&io.medium, stamp) {
                (None, now) => now == then,
                // It is open, and perhaps written to: only its length can be compared.
                (Some(_), Some(now)) => now.len_bytes == inode.disk_len.load(Relaxed),
                (Some(_), None) => false,
            }
        };
        if !is_same {
            drop(io);
            self.close(&inode);
            return self.add(medium, is_writable, Some(inode));
        }
        if is_writable || io.medium.is_none() {
            io.medium = Some(medium);
        }
        drop(io);
        Ok((self.handle(inode, is_writable), None))
    }

    fn take_known(&self, file: (u64, u64)) -> Option<Arc<Inode>> {
        let mut all = self.all();
        let id = *all.by_file.get(&file)?;
        let known = all.by_id.get_mut(&id)?;
        known.handles += 1;
        Some(Arc::clone(&known.inode))
    }

    fn add(
        self: &Arc<Self>,
        medium: Arc<dyn Medium>,
        is_writable: bool,
        old: Option<Arc<Inode>>,
    ) -> Result<(OpenFile, Option<Arc<Inode>>), i32> {
        let errno = |error: std::io::Error| super::medium::errno(&error);
        let stamp = medium.stamp().map_err(errno)?;
        let len = match stamp {
            Some(stamp) => stamp.len_bytes,
            None => medium.len_bytes().map_err(errno)?,
        };
        let inode = Arc::new(Inode::new(medium, len));
        let file = stamp.map(|stamp| stamp.file);
        let mut all = self.all();
        if let Some(file) = file {
            all.by_file.insert(file, inode.id);
        }
        let known = KnownFile {
            inode: Arc::clone(&inode),
            file,
            handles: 1,
            stamp,
            is_queued: false,
            is_recent: false,
        };
        all.by_id.insert(inode.id, known);
        drop(all);
        Ok((self.handle(inode, is_writable), old))
    }

    fn handle(self: &Arc<Self>, inode: Arc<Inode>, is_writable: bool) -> OpenFile {
        OpenFile {
            inode,
            is_writable,
            ahead: Mutex::default(),
            last: AtomicU64::new(0),
            files: Arc::clone(self),
        }
    }

    fn close(&self, inode: &Arc<Inode>) {
        if !self.process.is_this() {
            // The lock's holder may be a thread of the parent's (Y2).
            return;
        }
        let mut all = self.all();
        let Some(known) = all.by_id.get_mut(&inode.id) else {
            return;
        };
        known.handles -= 1;
        if known.handles > 0 {
            return;
        }
        known.is_recent = known.is_queued;
        if !known.is_queued {
            known.is_queued = true;
            all.closed.push_back(inode.id);
        }
        drop(all);
        self.let_go(inode);
    }

    /// Lets go of the medium of a file that is not open and has no dirty pages.
    pub(in crate::file_cache) fn let_go(&self, inode: &Arc<Inode>) {
        // A thread that uses the file does this itself when it is done.
        let mut io = match inode.io.try_write() {
            Ok(io) => io,
            Err(TryLockError::Poisoned(io)) => io.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut all = self.all();
        let Some(known) = all.by_id.get_mut(&inode.id) else {
            return;
        };
        if known.handles > 0 || !inode.dirty().pages.is_empty() {
            return;
        }
        let Some(medium) = io.medium.take() else {
            return;
        };
        if inode.was_written.swap(false, Relaxed) {
            // The state after the cache's own changes is the state of its pages.
            known.stamp = medium.stamp().ok().flatten();
        }
        if known.file.is_none() {
            // It will never be recognised again.
            all.by_id.remove(&inode.id);
        }
        drop(all);
        drop(io);
        drop(medium);
    }

    /// Forgets closed files, the first first, as long as more than `max` are known, and returns
    /// them. A file that was closed again meanwhile has a second chance.
    pub(in crate::file_cache) fn forget_beyond(&self, max: usize) -> Vec<Arc<Inode>> {
        let mut gone = Vec::new();
        let mut all = self.all();
        // Each is looked at twice at most: once with a second chance, and once more.
        let mut tries = 2 * all.closed.len();
        while all.by_id.len() > max && tries > 0 {
            tries -= 1;
            let Some(id) = all.closed.pop_front() else {
                break;
            };
            let Some(known) = all.by_id.get_mut(&id) else {
                continue;
            };
            if known.handles > 0 {
                known.is_queued = false;
                continue;
            }
            if known.is_recent || !known.inode.dirty().pages.is_empty() {
                known.is_recent = false;
                all.closed.push_back(id);
                continue;
            }
            if let Some(known) = all.by_id.remove(&id) {
                if let Some(file) = known.file
                    && all.by_file.get(&file) == Some(&id)
                {
                    all.by_file.remove(&file);
                }
                gone.push(known.inode);
            }
        }
        gone
    }

    /// Forgets a file's number: opened again, it gets another one.
    pub(in crate::file_cache) fn forget(&self, inode: &Inode) {
        let mut all = self.all();
        let file = all.by_id.get(&inode.id).and_then(|known| known.file);
        if let Some(file) = file
            && all.by_file.get(&file) == Some(&inode.id)
        {
            all.by_file.remove(&file);
        }
    }
}
