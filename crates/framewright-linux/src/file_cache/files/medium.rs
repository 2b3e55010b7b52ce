//! The media that a file's pages are read from and written to.

use crate::ram::FRAME_BYTES;
use rustix::fs::{OFlags, fcntl_getfl};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The medium behind a cached file: mostly a [`File`]; in tests one that fails on demand.
///
/// Called by many threads at once. Offsets and lengths are in bytes.
pub trait Medium: Send + Sync {
    /// Reads at `offset` into `into`, as much as is there: a whole number of pages, unless the file
    /// ends within one. The address of `into`, its length and `offset` are multiples of 4096.
    ///
    /// # Errors
    /// What went wrong; the contents of `into` are undefined then.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes the beginning of `from` at `offset`, and returns how much. Called for whole pages,
    /// the last of which may be shorter where the file ends, in memory aligned to 4096; and again
    /// for the part that was not written.
    ///
    /// # Errors
    /// What went wrong; a part may have been written.
    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize>;

    /// Its length.
    ///
    /// # Errors
    /// What went wrong.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Gives it another length: added bytes are zero.
    ///
    /// # Errors
    /// What went wrong; its length is as before then.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;

    /// Returns when everything that was written survives a loss of power.
    ///
    /// # Errors
    /// What went wrong: it is then unknown whether data written since the last successful sync is
    /// safe.
    fn sync(&self) -> io::Result<()>;

    /// Which file it is and in which state, if it can tell: two equal stamps mean the same
    /// contents.
    ///
    /// # Errors
    /// What went wrong.
    fn stamp(&self) -> io::Result<Option<Stamp>> {
        Ok(None)
    }
}

/// Which file a [`Medium`] is, and in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Device and inode.
    pub file: (u64, u64),
    /// Its length in bytes.
    pub len_bytes: u64,
    /// When its contents were last changed, in nanoseconds.
    pub modified_ns: i128,
    /// When any of its attributes were last changed.
    pub changed_ns: i128,
}

impl Medium for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, from, offset)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        File::set_len(self, len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        let meta = self.metadata()?;
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Ok(Some(Stamp {
            file: (meta.dev(), meta.ino()),
            len_bytes: meta.len(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }))
    }
}

/// Whether the file may be written. An error if it cannot be cached: it cannot be read, or writes
/// go elsewhere than to their offset.
pub(in crate::file_cache) fn is_writable(file: &File) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    let access = flags & OFlags::RWMODE;
    if access == OFlags::WRONLY || flags.contains(OFlags::APPEND) {
        let message =
            "a cached file is open for reading, or for reading and writing, and not for appending";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if !file.metadata()?.is_file() {
        let message = "only regular files are cached";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(access == OFlags::RDWR)
}

/// A file with transfers that go to the device and not through the kernel's own cache (O_DIRECT):
/// so a miss has its true cost, and no page is cached twice.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
}

impl DirectFile {
    /// Opens a file; for writing, creates an empty one if there is none.
    ///
    /// # Errors
    /// What the host said: EINVAL where the file system has no direct I/O.
    pub fn open(path: impl AsRef<Path>, is_writable: bool) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(is_writable).create(is_writable);
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(path)?;
        self::is_writable(&file)?;
        Ok(Self { file })
    }
}

impl Medium for DirectFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.file, into, offset)
    }

    /// Writes the last page of a file as a whole, and then cuts the file to its length: to what it was, where another
    /// program has made it longer.
    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        let whole = from.len() - from.len() % PAGE;
        if whole > 0 {
            let written = FileExt::write_at(&self.file, &from[..whole], offset)?;
            // Whole pages again: the next write must start at one.
            return Ok(written - written % PAGE);
        }
        let mut page = AlignedPage([0; PAGE]);
        page.0[..from.len()].copy_from_slice(from);
        let before = self.file.len_bytes()?;
        let written = FileExt::write_at(&self.file, &page.0, offset)?;
        if written < PAGE {
            return Ok(0);
        }
        let len = before.max(offset + from.len() as u64);
        if len < offset + PAGE as u64 {
            self.file.set_len(len)?;
        }
        Ok(from.len())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.file.len_bytes()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        self.file.stamp()
    }
}

/// A page, aligned as direct I/O requires it.
#[repr(align(4096))]
struct AlignedPage([u8; PAGE]);

/// Pages in one transfer.
pub(in crate::file_cache) const TRANSFER_PAGES: usize = 32;
const PAGE: usize = FRAME_BYTES;

/// The bytes of a transfer, aligned as direct I/O requires.
#[repr(align(4096))]
struct AlignedBuffer([u8; TRANSFER_PAGES * PAGE]);

thread_local! {
    /// A buffer that this thread has used before.
    static KEPT: Cell<Option<Box<AlignedBuffer>>> = const { Cell::new(None) };
}

/// Runs `work` with a buffer of undefined contents. Each thread keeps one, because making one fills
/// 128 KiB.
pub(in crate::file_cache) fn with_buffer<R>(
    work: impl FnOnce(&mut [u8; TRANSFER_PAGES * PAGE]) -> R,
) -> R {
    // Taken, not borrowed: a read may itself come from a cache of files.
    let kept = KEPT.try_with(Cell::take).ok().flatten();
    let mut buffer = kept.unwrap_or_else(|| Box::new(AlignedBuffer([0; TRANSFER_PAGES * PAGE])));
    let result = work(&mut buffer.0);
    // A thread that is ending keeps no buffer.
    let _ = KEPT.try_with(|kept| kept.set(Some(buffer)));
    result
}

/// Reads until `expected` bytes of `into` are there, or the file ends. Returns how many there are.
pub(in crate::file_cache) fn read_fully(
    medium: &dyn Medium,
    into: &mut [u8],
    offset: u64,
    expected: usize,
) -> Result<usize, i32> {
    let mut done = 0;
    while done < expected {
        // A read that ended within a page is repeated from that page on: offsets are whole pages.
        let from = done - done % PAGE;
        match medium.read_at(&mut into[from..], offset + from as u64) {
            Ok(n) if n <= done - from => break,
            Ok(n) => done = from + n.min(into.len() - from),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(&error)),
        }
    }
    Ok(done.min(expected))
}

/// Writes all of `from`. If that fails, returns how much was written until then, and why not more.
pub(in crate::file_cache) fn write_fully(
    medium: &dyn Medium,
    from: &[u8],
    offset: u64,
) -> Result<(), (usize, i32)> {
    let mut done = 0;
    while done < from.len() {
        match medium.write_at(&from[done..], offset + done as u64) {
            // A medium that takes no bytes and reports no error is full.
            Ok(0) => return Err((done, rustix::io::Errno::NOSPC.raw_os_error())),
            Ok(n) => done += n.min(from.len() - done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, errno(&error))),
        }
    }
    Ok(())
}

/// The errno of an error; EIO if it has none.
pub(in crate::file_cache) fn errno(error: &io::Error) -> i32 {
    let io = rustix::io::Errno::IO.raw_os_error();
    error.raw_os_error().unwrap_or(io)
}
