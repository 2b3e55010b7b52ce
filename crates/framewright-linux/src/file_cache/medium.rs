//! What a file's pages are read from and written to.

use rustix::fs::{OFlags, fcntl_getfl};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// What is behind a cached file: mostly a [`File`]; in tests something that fails when it is told to.
///
/// Called by many threads at once. Offsets and lengths are in bytes.
pub trait Medium: Send + Sync {
    /// Reads at `offset` into `into`, as much as is there, at least something unless it ends there. The address of `into` is a
    /// multiple of 4096, and so are offset and length.
    ///
    /// # Errors
    /// What went wrong; nothing is known of `into` then.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of `from` at `offset`, and says how much. The address of `from` and `offset` are multiples of
    /// 4096; the length is one where the file does not end.
    ///
    /// # Errors
    /// What went wrong; some of it may be written then.
    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize>;

    /// Its length.
    ///
    /// # Errors
    /// What went wrong.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Gives it another length: what is added is zero.
    ///
    /// # Errors
    /// What went wrong; its length is as before then.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;

    /// Returns when everything that was written survives a loss of power.
    ///
    /// # Errors
    /// What went wrong: nothing is known of what was written since the last one that succeeded.
    fn sync(&self) -> io::Result<()>;

    /// Which file it is and in which state, if it can tell: two that say the same have the same contents.
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
    /// When anything of it was.
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

/// Whether the file may be written; or that it cannot be cached: it cannot be read, or writes go
/// elsewhere than to their offset.
pub(super) fn is_writable(file: &File) -> io::Result<bool> {
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

/// Pages in one transfer.
pub(super) const TRANSFER_PAGES: usize = 32;

/// The bytes of a transfer: aligned, as direct I/O wants them.
#[repr(align(4096))]
struct Buffer([u8; TRANSFER_PAGES * 4096]);

thread_local! {
    /// A buffer that this thread has used before.
    static KEPT: Cell<Option<Box<Buffer>>> = const { Cell::new(None) };
}

/// Runs `work` with a buffer, whose contents are undefined. One is kept for each thread: to make one is to fill 128 KiB.
pub(super) fn with_buffer<R>(work: impl FnOnce(&mut [u8; TRANSFER_PAGES * 4096]) -> R) -> R {
    // Taken and not borrowed: what is read may itself come from a cache of files.
    let kept = KEPT.try_with(Cell::take).ok().flatten();
    let mut buffer = kept.unwrap_or_else(|| Box::new(Buffer([0; TRANSFER_PAGES * 4096])));
    let result = work(&mut buffer.0);
    // A thread that is ending keeps nothing.
    let _ = KEPT.try_with(|kept| kept.set(Some(buffer)));
    result
}

/// Reads until `into` is full or the file ends. How much that was.
pub(super) fn read_fully(medium: &dyn Medium, into: &mut [u8], offset: u64) -> Result<usize, i32> {
    let mut done = 0;
    while done < into.len() {
        match medium.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n.min(into.len() - done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(&error)),
        }
    }
    Ok(done)
}

/// Writes all of `from`. If that fails, how much was written until then, and why not more.
pub(super) fn write_fully(
    medium: &dyn Medium,
    from: &[u8],
    offset: u64,
) -> Result<(), (usize, i32)> {
    let mut done = 0;
    while done < from.len() {
        match medium.write_at(&from[done..], offset + done as u64) {
            // What takes nothing and says nothing is full.
            Ok(0) => return Err((done, rustix::io::Errno::NOSPC.raw_os_error())),
            Ok(n) => done += n.min(from.len() - done),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, errno(&error))),
        }
    }
    Ok(())
}

/// The errno of an error; EIO if it has none.
pub(super) fn errno(error: &io::Error) -> i32 {
    let io = rustix::io::Errno::IO.raw_os_error();
    error.raw_os_error().unwrap_or(io)
}
