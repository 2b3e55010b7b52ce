//! A swap device that is a file, or a disk.
//!
//! Pages bypass the kernel's page cache (O_DIRECT): pages that the engine took out of memory must
//! not lie there again under another name. A file system that refuses that (tmpfs before Linux 6.6
//! and some of the network do) is used with the page cache between, and [`SwapFile::direct_io`]
//! tells.
//!
//! # Invariants
//! - **SW3** A file or disk has one user at a time: it is locked (flock(2)) before anything of it changes. A second
//!   opening, in this process or another, is an error, where the file system has locks. A process that is killed lets
//!   go of it, unless it has a child that was forked off and lives on.
//! - **SW4** A file for which there is no room is as it was before.

use super::{AlignedPageBytes, DeviceUse, SwapDevice, check_slot, of_slot};
use crate::fork::Process;
use crate::ram::FRAME_BYTES;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, flock};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The most pages of one request: 128 KiB.
const BATCH: usize = 32;

/// The most buffers that are kept for the next request.
const SPARE_MAX: usize = 8;

/// Whether a file's pages bypass the kernel's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectIo {
    /// They do.
    Yes,
    /// The file system refused it, with this errno: each page is in the page cache, too.
    Refused(i32),
}

/// A file or block device with slots. See the [module's description](self).
///
/// ```
/// use framewright_linux::swap::{SwapDevice, SwapFile};
///
/// # fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("framewright-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let device = SwapFile::create(&folder.join("swap"), 64)?;
/// device.write(7, &[42; 512])?;
/// device.sync()?;
/// let mut page = [0; 512];
/// device.read(7, &mut page)?;
/// assert_eq!(page, [42; 512]);
/// assert_eq!(device.bytes_written(), 4096);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SwapFile {
    file: OwnedFd,
    slots: u64,
    direct_io: DirectIo,
    written: AtomicU64,
    in_use: DeviceUse,
    /// A sync failed: earlier writes may be lost, and the kernel reports that only once.
    has_failed: AtomicBool,
    process: Process,
    spare: Mutex<Vec<FileBuffers>>,
}

/// The memory that direct I/O reads from and writes to.
#[derive(Debug)]
struct FileBuffers(Box<[AlignedPageBytes]>);

impl std::fmt::Debug for AlignedPageBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Aligned")
    }
}

impl SwapFile {
    /// A new file of `slots` slots. An existing file becomes as long, and keeps its contents.
    ///
    /// The room is taken at once, if the file system can do that, so that no later write finds the
    /// disk full.
    ///
    /// # Errors
    /// What the host said; also if there is no room. [`io::ErrorKind::ResourceBusy`] if it is in use (SW3). An existing
    /// file has the length and the contents that it had then, and a new one is empty.
    pub fn create(path: &Path, slots: u64) -> io::Result<Self> {
        Self::create_with(path, slots, take_room)
    }

    /// The same, by an `allocate` that takes the room.
    fn create_with(
        path: &Path,
        slots: u64,
        allocate: impl FnOnce(&OwnedFd, u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let len_bytes = slots
            .checked_mul(FRAME_BYTES as u64)
            .filter(|bytes| *bytes > 0 && i64::try_from(*bytes).is_ok());
        let len_bytes = len_bytes.ok_or_else(|| {
            let what = format!("a swap file of {slots} slots is not possible");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        let (file, direct_io) = open(path, OFlags::CREATE)?;
        let before = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        let set_len = |len| retry(|| rustix::fs::ftruncate(&file, len));
        if before < len_bytes {
            set_len(len_bytes)?;
        }
        allocate(&file, len_bytes).inspect_err(|_| {
            // The room that it took goes back, too. If that is refused, there is no more to be done.
            let _ = set_len(before);
        })?;
        // Last: what is cut off does not come back.
        if before > len_bytes {
            set_len(len_bytes)?;
        }
        Ok(Self::new(file, slots, direct_io))
    }

    /// A file or block device as it is, with as many slots as fit into it.
    ///
    /// # Errors
    /// What the host said, or that it has not even one slot; [`io::ErrorKind::ResourceBusy`] if it is in use (SW3).
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, direct_io) = open(path, OFlags::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let len_bytes = match kind {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            _ => rustix::fs::seek(&file, SeekFrom::End(0))?,
        };
        let slots = len_bytes / FRAME_BYTES as u64;
        if slots == 0 {
            let what = format!("{} has {len_bytes} bytes, not one slot", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(Self::new(file, slots, direct_io))
    }

    fn new(file: OwnedFd, slots: u64, direct_io: DirectIo) -> Self {
        Self {
            file,
            slots,
            direct_io,
            written: AtomicU64::new(0),
            in_use: DeviceUse::new(),
            has_failed: AtomicBool::new(false),
            process: Process::this(),
            spare: Mutex::new(Vec::new()),
        }
    }

    /// Whether pages bypass the kernel's page cache.
    #[must_use]
    pub const fn direct_io(&self) -> DirectIo {
        self.direct_io
    }

    /// Runs `work` with buffers for `pages` pages.
    fn with_buffers<R>(&self, pages: usize, work: impl FnOnce(&mut [AlignedPageBytes]) -> R) -> R {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut spare = spare();
            let fits = spare.iter().position(|one| one.0.len() >= pages);
            fits.map(|nth| spare.swap_remove(nth))
        };
        let new = || FileBuffers(vec![AlignedPageBytes::ZERO; pages].into_boxed_slice());
        let mut buffers = found.unwrap_or_else(new);
        let result = work(&mut buffers.0[..pages]);
        let mut spare = spare();
        if spare.len() < SPARE_MAX {
            spare.push(buffers);
        }
        result
    }

    fn write_batch(&self, first: u64, pages: &[[u64; 512]]) -> io::Result<()> {
        let len_bytes = pages.len() * FRAME_BYTES;
        self.with_buffers(pages.len(), |buffers| {
            for (buffer, page) in buffers.iter_mut().zip(pages) {
                buffer.set(page);
            }
            let slices: Vec<_> = buffers.iter().map(|one| IoSlice::new(&one.0)).collect();
            let offset = first * FRAME_BYTES as u64;
            let done = retry(|| rustix::io::pwritev(&self.file, &slices, offset));
            let done = done.map_err(|error| of_slot(first, "written", &error))?;
            self.written.fetch_add(done as u64, Relaxed);
            short(first, done, len_bytes, io::ErrorKind::WriteZero)
        })
    }
}

impl SwapFile {
    fn read_batch(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        let len_bytes = pages.len() * FRAME_BYTES;
        self.with_buffers(pages.len(), |buffers| {
            let offset = first * FRAME_BYTES as u64;
            let done = retry(|| {
                let mut slices: Vec<_> = buffers
                    .iter_mut()
                    .map(|one| IoSliceMut::new(&mut one.0))
                    .collect();
                rustix::io::preadv(&self.file, &mut slices, offset)
            });
            let done = done.map_err(|error| of_slot(first, "read", &error))?;
            short(first, done, len_bytes, io::ErrorKind::UnexpectedEof)?;
            for (buffer, page) in buffers.iter().zip(pages) {
                buffer.get(page);
            }
            Ok(())
        })
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        if self.process.is_this() {
            // A child that was forked off has the same opening of the file, and with it the lock.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl SwapDevice for SwapFile {
    fn slots(&self) -> u64 {
        self.slots
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.write_run(slot, std::slice::from_ref(page))
    }

    /// In requests of up to 32 pages. Refused in a forked process, which could not tell its parent
    /// which slots are in use.
    fn write_run(&self, first: u64, pages: &[[u64; 512]]) -> io::Result<()> {
        if !self.process.is_this() {
            let what = "the swap file is the parent's: this process was forked off from it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if let Some(last) = pages.len().checked_sub(1) {
            check_slot(first.saturating_add(last as u64), self.slots)?;
        }
        for (nth, batch) in pages.chunks(BATCH).enumerate() {
            self.write_batch(first + (nth * BATCH) as u64, batch)?;
        }
        Ok(())
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.read_run(slot, std::slice::from_mut(page))
    }

    /// In requests of up to 32 pages.
    fn read_run(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        if let Some(last) = pages.len().checked_sub(1) {
            check_slot(first.saturating_add(last as u64), self.slots)?;
        }
        for (nth, batch) in pages.chunks_mut(BATCH).enumerate() {
            self.read_batch(first + (nth * BATCH) as u64, batch)?;
        }
        Ok(())
    }

    /// Does nothing: the room stays the file's.
    fn discard(&self, _slot: u64) {}

    /// fdatasync. After a failure every later call fails, too: the kernel reports only once that it
    /// has dropped what it could not write, and a checkpoint must not rest on that. Opening the
    /// file again begins anew.
    fn sync(&self) -> io::Result<()> {
        // Checked before the call: a caller that finds the flag set later may not have been told of
        // the failure.
        if self.has_failed.load(Relaxed) {
            let what = "the swap file was not synced: an earlier sync failed, and earlier writes may be lost";
            return Err(io::Error::other(what));
        }
        let synced = retry(|| rustix::fs::fdatasync(&self.file));
        synced.map_err(|error| {
            self.has_failed.store(true, Relaxed);
            io::Error::new(
                error.kind(),
                format!("the swap file was not synced: {error}"),
            )
        })
    }

    fn bytes_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    fn in_use(&self) -> &DeviceUse {
        &self.in_use
    }
}

/// Takes room for a file's first bytes.
fn take_room(file: &OwnedFd, len_bytes: u64) -> io::Result<()> {
    let taken = || match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
        // The file system cannot do it: the room is taken when the file is written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        taken => taken,
    };
    retry(taken)
}

/// Opens for direct I/O, or without where that is refused, and locks the file (SW3).
fn open(path: &Path, more: OFlags) -> io::Result<(OwnedFd, DirectIo)> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | more;
    let mode = Mode::RUSR | Mode::WUSR;
    let (file, direct_io) = match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => (file, DirectIo::Yes),
        Err(Errno::INVAL) => {
            let file = rustix::fs::open(path, flags, mode)?;
            (file, DirectIo::Refused(Errno::INVAL.raw_os_error()))
        }
        Err(error) => return Err(error.into()),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let what = format!("{} is in use as swap", path.display());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
        }
        // An error means that the file system has no locks.
        _ => Ok((file, direct_io)),
    }
}

/// Whether all bytes were copied; else an error with the slot at which they ended.
fn short(first: u64, done: usize, wanted: usize, kind: io::ErrorKind) -> io::Result<()> {
    if done == wanted {
        return Ok(());
    }
    let slot = first + (done / FRAME_BYTES) as u64;
    let bytes = done % FRAME_BYTES;
    let what = format!("slot {slot}: {bytes} of {FRAME_BYTES} bytes were copied");
    Err(io::Error::new(kind, what))
}

/// Repeats the call while signals interrupt it.
fn retry<R>(mut call: impl FnMut() -> rustix::io::Result<R>) -> io::Result<R> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::tests::{SwapFolder, page};

    #[test]
    fn what_was_written_is_read_by_another_opening_too() {
        let folder = SwapFolder::new("file");
        let path = folder.path().join("swap");
        let device = SwapFile::create(&path, 200).unwrap();
        let pages: Vec<_> = (0..70).map(page).collect();
        device.write_run(100, &pages).unwrap();
        device.write(3, &page(1000)).unwrap();
        device.sync().unwrap();
        assert_eq!(device.bytes_written(), 71 * 4096);
        drop(device);
        let other = SwapFile::open(&path).unwrap();
        assert_eq!(other.slots(), 200);
        let mut got = [0; 512];
        for nth in 0..70 {
            other.read(100 + nth, &mut got).unwrap();
            assert_eq!(got, page(nth));
        }
        other.read(3, &mut got).unwrap();
        assert_eq!(got, page(1000));
        let mut run = vec![[0; 512]; 70];
        other.read_run(100, &mut run).unwrap();
        assert_eq!(run, pages, "in one request for 32 of them");
        let beyond = other.read_run(190, &mut run[..20]).unwrap_err();
        assert_eq!(beyond.to_string(), "slot 209 is not below 200");
    }

    #[test]
    fn sw3_a_file_has_one_user_and_a_second_one_changes_nothing() {
        let folder = SwapFolder::new("two");
        let path = folder.path().join("swap");
        let device = SwapFile::create(&path, 8).unwrap();
        device.write(7, &page(7)).unwrap();
        for second in [SwapFile::open(&path), SwapFile::create(&path, 4)] {
            let error = second.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert!(error.to_string().ends_with("swap is in use as swap"));
        }
        let mut got = [0; 512];
        device.read(7, &mut got).unwrap();
        assert_eq!(got, page(7));
        drop(device);
        assert_eq!(SwapFile::open(&path).unwrap().slots(), 8);
    }

    #[test]
    fn sw4_a_file_for_which_there_is_no_room_is_as_it_was() {
        let folder = SwapFolder::new("room");
        let path = folder.path().join("swap");
        let no_room = |_: &OwnedFd, _| Err(Errno::NOSPC.into());
        let refused = |slots| {
            let error = SwapFile::create_with(&path, slots, no_room).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            std::fs::metadata(&path).unwrap().len()
        };
        assert_eq!(refused(8), 0, "a new one is empty");
        let device = SwapFile::create(&path, 8).unwrap();
        device.write(7, &page(7)).unwrap();
        drop(device);
        for slots in [4, 8, 100] {
            assert_eq!(refused(slots), 8 * 4096, "{slots}");
        }
        let mut got = [0; 512];
        SwapFile::open(&path).unwrap().read(7, &mut got).unwrap();
        assert_eq!(got, page(7));
        assert_eq!(SwapFile::create(&path, 4).unwrap().slots(), 4);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 * 4096);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_that_names_the_slot() {
        let folder = SwapFolder::new("short");
        let path = folder.path().join("swap");
        let device = SwapFile::create(&path, 8).unwrap();
        (0..8).for_each(|nth| device.write(nth, &page(nth)).unwrap());
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(5 * 4096 + 1024).unwrap();
        let mut got = [0; 512];
        device.read(4, &mut got).unwrap();
        let error = device.read(5, &mut got).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(error.to_string(), "slot 5: 1024 of 4096 bytes were copied");
        let error = device.read(7, &mut got).unwrap_err().to_string();
        assert_eq!(error, "slot 7: 0 of 4096 bytes were copied");
    }

    #[test]
    fn what_is_no_slot_and_what_is_no_device_is_said() {
        let folder = SwapFolder::new("none");
        let path = folder.path().join("swap");
        let device = SwapFile::create(&path, 8).unwrap();
        let mut got = [0; 512];
        let error = device.read(8, &mut got).unwrap_err().to_string();
        assert_eq!(error, "slot 8 is not below 8");
        let error = device.write_run(6, &[[0; 512]; 3]).unwrap_err().to_string();
        assert_eq!(error, "slot 8 is not below 8");
        assert_eq!(device.bytes_written(), 0);
        let none = SwapFile::create(&path, 0).unwrap_err().to_string();
        assert_eq!(none, "a swap file of 0 slots is not possible");
        drop(device);
        std::fs::write(folder.path().join("empty"), b"x").unwrap();
        let empty = SwapFile::open(&folder.path().join("empty")).unwrap_err();
        assert!(empty.to_string().ends_with("has 1 bytes, not one slot"));
        assert!(SwapFile::open(&folder.path().join("missing")).is_err());
    }
}
