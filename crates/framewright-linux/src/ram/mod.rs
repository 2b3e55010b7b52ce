// UNSAFETY: an owner of frames may have their bytes as a `&mut [u8]`. Only the users of the
// allocator know what they own, so the promise is theirs.

//! RAM: a memfd, mapped in one piece (the direct map).
//!
//! Frame `n` of the zone is the 4 KiB at `(n - first) * 4096` of the file and of the map. The file
//! is there so that later mappings can show the same frames at other addresses.
//!
//! A forked process has no access to the frames: touching one there ends it by SIGSEGV.
//!
//! # Access to a frame
//! [`Ram::words`] is for all threads: atomic words, on which a race is no undefined behaviour.
//! [`Ram::read`] and [`Ram::write`] copy by them. [`Ram::bytes_mut`] is for the frame's owner
//! alone, and `unsafe`: a frame's number is a plain integer, so the compiler cannot tell whether
//! the caller still owns what it once allocated.
//!
//! # Invariants
//! - **RS1** The users of a RAM have its frames from sources of one origin. A file cache, paged memory or a region of
//!   anonymous memory that is handed another zone's seat refuses it, because that zone numbers its frames alike.
//!
//! # Sources
//! memfd_create(2), madvise(2); that MADV_COLLAPSE makes huge pages of shared memory even where
//! they are switched off for it.

mod report;

pub use report::{Backing, HugeAttempt, RamReport};

use crate::mapping::{HUGE_BYTES, Mapping};
use framewright::{Frame, Run};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes in a frame. The engine's frames have no size; here they are base pages of 4 KiB, even
/// where the host's own pages are larger.
pub const FRAME_BYTES: usize = 4096;
/// 64-bit words in a frame.
pub const FRAME_WORDS: usize = FRAME_BYTES / 8;

/// Which pages RAM is to consist of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RamPages {
    /// The host's base pages, each when it is first touched.
    #[default]
    Base,
    /// Huge pages of 2 MiB as far as the host gives them, all of them at once: from its reserved
    /// pool, else by collapsing base pages (0.7 to 5 ms for each 2 MiB). If it gives none, base
    /// pages: the [report](Ram::report) tells the outcome.
    Huge,
}

/// Why there is no RAM. Nothing is left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RamError {
    /// No frame was asked for.
    Empty,
    /// More bytes than a process can map.
    TooLong(Run),
    /// The host gave no file; an errno.
    File(i32),
    /// The host did not map the file; an errno.
    Map(i32),
}

impl fmt::Display for RamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |errno: &i32| std::io::Error::from_raw_os_error(*errno);
        match self {
            Self::Empty => f.write_str("RAM of 0 frames was asked for"),
            Self::TooLong(run) => {
                write!(f, "{} frames are more than a process can map", run.frames())
            }
            Self::File(errno) => write!(f, "no memory file: {}", reason(errno)),
            Self::Map(errno) => write!(f, "no map of the memory file: {}", reason(errno)),
        }
    }
}

impl std::error::Error for RamError {}

/// A frame that is not in this RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotInRam(pub Frame);

impl fmt::Display for NotInRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {} is not in RAM", self.0)
    }
}

impl std::error::Error for NotInRam {}

/// Frames with contents. See the [module's description](self).
#[derive(Debug)]
pub struct Ram {
    map: Mapping,
    file: OwnedFd,
    frames: Run,
    report: RamReport,
    /// The origin of its frames; 0 before the first source.
    origin: AtomicU64,
}

impl Ram {
    /// RAM for `frames`, all zero.
    ///
    /// Base pages cost no memory until they are touched; then the host must have them: a process
    /// that touches more than there is, is killed. Huge pages are all filled here.
    ///
    /// # Errors
    /// What the host refused. Not getting huge pages is no error.
    pub fn new(frames: Run, pages: RamPages) -> Result<Self, RamError> {
        if frames.is_empty() {
            return Err(RamError::Empty);
        }
        let len_bytes = usize::try_from(frames.frames())
            .ok()
            .and_then(|frames| frames.checked_mul(FRAME_BYTES))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(RamError::TooLong(frames))?;
        let mut report = RamReport::new(len_bytes as u64);
        if pages == RamPages::Huge {
            // A pool's file consists of whole huge pages, and so does its map.
            let whole = len_bytes.next_multiple_of(HUGE_BYTES);
            match file_of(whole, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) {
                Ok((file, map)) => {
                    report.pool_gave_all();
                    return Ok(Self {
                        map,
                        file,
                        frames,
                        report,
                        origin: AtomicU64::new(0),
                    });
                }
                Err(error) => report.pool = error.into(),
            }
        }
        let (file, map) = file_of(len_bytes, MemfdFlags::empty())?;
        if pages == RamPages::Huge {
            report.collapse = map.collapse().into();
            report.look_at(map.start().addr().get(), len_bytes as u64);
        }
        Ok(Self {
            map,
            file,
            frames,
            report,
            origin: AtomicU64::new(0),
        })
    }

    /// What the host gave.
    #[must_use]
    pub const fn report(&self) -> RamReport {
        self.report
    }

    /// Lets a forked process read it from here on.
    pub(crate) fn let_children_read(&self) {
        self.map.let_children_read();
    }

    /// Whether its frames come from sources of that origin (RS1). The first one that is asked about decides; a
    /// [`Host`](crate::Host) asks when it is made.
    pub(crate) fn is_given_by(&self, origin: u64) -> bool {
        let origin = origin.max(1);
        // Relaxed: no other access depends on the number.
        let first = self.origin.compare_exchange(0, origin, Relaxed, Relaxed);
        first.is_ok() || first == Err(origin)
    }

    /// Whether the calling process made it, and is not one that was forked off.
    pub(crate) fn is_this_process(&self) -> bool {
        self.map.process().is_this()
    }

    /// The frames that it consists of.
    #[must_use]
    pub const fn frames(&self) -> Run {
        self.frames
    }

    /// The words of a frame, for all threads: a read returns a value that was written, and if
    /// several were, the users order them.
    ///
    /// # Errors
    /// If the frame is not in RAM.
    #[inline]
    pub fn words(&self, frame: Frame) -> Result<&[AtomicU64; FRAME_WORDS], NotInRam> {
        let offset = self.offset(frame)?;
        let words = self.map.words(offset, FRAME_WORDS);
        Ok(words.try_into().expect("as many words as asked for"))
    }

    /// Copies a frame's contents out, word by word (about 0.2 µs). Words that another thread writes
    /// meanwhile may be old or new.
    ///
    /// # Errors
    /// If the frame is not in RAM.
    pub fn read(&self, frame: Frame, into: &mut [u8; FRAME_BYTES]) -> Result<(), NotInRam> {
        for (to, word) in into.chunks_exact_mut(8).zip(self.words(frame)?) {
            to.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        Ok(())
    }

    /// Copies contents into a frame, word by word (about 0.2 µs).
    ///
    /// # Errors
    /// If the frame is not in RAM; it writes nothing then.
    pub fn write(&self, frame: Frame, from: &[u8; FRAME_BYTES]) -> Result<(), NotInRam> {
        let (words, _) = from.as_chunks::<8>();
        for (word, bytes) in self.words(frame)?.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        Ok(())
    }

    /// Fills frames with zeroes (about 0.2 µs each). Words that another thread writes meanwhile are
    /// old or new.
    ///
    /// # Errors
    /// If a frame is not in RAM: the first one. Those before it are zero then.
    pub fn zero(&self, run: Run) -> Result<(), NotInRam> {
        for frame in run.start().0..run.end().0 {
            let words = self.words(Frame(frame))?;
            words.iter().for_each(|word| word.store(0, Relaxed));
        }
        Ok(())
    }

    /// Copies the contents of frames to as many others, word by word (about 0.3 µs each). Words
    /// that another thread writes meanwhile may be old or new.
    ///
    /// # Errors
    /// If a frame is not in RAM. Those before it are copied then.
    ///
    /// # Panics
    /// If the runs are not of one length.
    pub fn copy(&self, from: Run, to: Run) -> Result<(), NotInRam> {
        assert_eq!(
            from.frames(),
            to.frames(),
            "a copy has the length of its source"
        );
        for nth in 0..from.frames() {
            let from = self.words(Frame(from.start().0 + nth))?;
            let to = self.words(Frame(to.start().0 + nth))?;
            for (to, from) in to.iter().zip(from) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
        Ok(())
    }

    /// The bytes of the frames of `run`, for their owner.
    ///
    /// # Safety
    /// The caller owns the frames (it allocated them, and they are not freed meanwhile), and there
    /// is no other access to them while the result lives: not through [`words`](Self::words),
    /// [`read`](Self::read) or [`write`](Self::write), not through a second result of this
    /// function, not through another mapping of the [file](Self::as_fd).
    ///
    /// # Errors
    /// If a frame of the run is not in RAM.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the caller owes the exclusiveness")]
    pub unsafe fn bytes_mut(&self, run: Run) -> Result<&mut [u8], NotInRam> {
        if run.is_empty() {
            return Ok(&mut []);
        }
        let offset = self.offset(run.start())?;
        let last = Frame(run.end().0 - 1);
        self.offset(last)?;
        // SAFETY: exclusiveness is what this function's caller promised.
        Ok(unsafe {
            self.map
                .bytes_mut(offset, run.frames() as usize * FRAME_BYTES)
        })
    }

    /// Where a frame lies in the direct map. The address is valid as long as the RAM is; for what
    /// may be done with it see [`bytes_mut`](Self::bytes_mut).
    ///
    /// # Errors
    /// If the frame is not in RAM.
    #[inline]
    pub fn address(&self, frame: Frame) -> Result<*mut u8, NotInRam> {
        let offset = self.offset(frame)?;
        Ok(self.map.start().as_ptr().wrapping_byte_add(offset))
    }

    /// The frame that contains an address of the direct map.
    #[must_use]
    pub fn frame_at(&self, address: *const u8) -> Option<Frame> {
        let offset = address.addr().checked_sub(self.map.start().addr().get())?;
        let nth = (offset / FRAME_BYTES) as u64;
        (nth < self.frames.frames()).then(|| Frame(self.frames.start().0 + nth))
    }

    #[inline]
    fn offset(&self, frame: Frame) -> Result<usize, NotInRam> {
        if !self.frames.contains(frame) {
            return Err(NotInRam(frame));
        }
        Ok((frame.0 - self.frames.start().0) as usize * FRAME_BYTES)
    }
}

impl AsFd for Ram {
    /// The memory file, which cannot be shortened: it is sealed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A sealed file of `len_bytes` zeros, and all of it mapped.
fn file_of(len_bytes: usize, kind: MemfdFlags) -> Result<(OwnedFd, Mapping), RamError> {
    let file = |errno: Errno| RamError::File(errno.raw_os_error());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("framewright", flags | kind).map_err(file)?;
    ftruncate(&fd, len_bytes as u64).map_err(file)?;
    // A file that became shorter would turn accesses to the direct map into SIGBUS.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&fd, seals).map_err(file)?;
    let map = Mapping::shared(fd.as_fd(), len_bytes);
    let map = map.map_err(|errno| RamError::Map(errno.raw_os_error()))?;
    Ok((fd, map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, frames: u64) -> Run {
        Run::new(Frame(start), frames).unwrap()
    }

    #[test]
    fn frames_have_contents_of_their_own_and_an_address() {
        for pages in [RamPages::Base, RamPages::Huge] {
            let ram = Ram::new(run(1000, 600), pages).unwrap();
            let (first, last) = (Frame(1000), Frame(1599));
            let mut out = [1; FRAME_BYTES];
            ram.read(last, &mut out).unwrap();
            assert_eq!(out, [0; FRAME_BYTES]);
            let pattern: [u8; FRAME_BYTES] = std::array::from_fn(|at| at as u8 ^ (at >> 8) as u8);
            ram.write(last, &pattern).unwrap();
            ram.write(first, &[7; FRAME_BYTES]).unwrap();
            ram.read(last, &mut out).unwrap();
            assert_eq!(out, pattern);
            let word = ram.words(first).unwrap()[511].load(Relaxed);
            assert_eq!(word, 0x0707_0707_0707_0707);
            let address = ram.address(last).unwrap();
            assert_eq!(
                address.addr() - ram.address(first).unwrap().addr(),
                599 * 4096
            );
            assert_eq!(ram.frame_at(address.wrapping_byte_add(4095)), Some(last));
            assert_eq!(ram.frame_at(address.wrapping_byte_add(4096)), None);
            assert_eq!(ram.frame_at(std::ptr::null()), None);
            for outside in [Frame(999), Frame(1600), Frame(u64::MAX)] {
                assert_eq!(ram.words(outside).unwrap_err(), NotInRam(outside));
                assert_eq!(ram.write(outside, &pattern), Err(NotInRam(outside)));
            }
        }
    }

    #[test]
    fn zeroing_reaches_all_of_its_frames_and_no_other() {
        let ram = Ram::new(run(8, 16), RamPages::Base).unwrap();
        for frame in 8..24 {
            ram.write(Frame(frame), &[3; FRAME_BYTES]).unwrap();
        }
        ram.zero(run(10, 4)).unwrap();
        assert_eq!(ram.zero(run(22, 3)), Err(NotInRam(Frame(24))));
        assert_eq!(ram.zero(run(7, 2)), Err(NotInRam(Frame(7))));
        ram.zero(run(9, 0)).unwrap();
        for frame in 8..24 {
            let mut out = [1; FRAME_BYTES];
            ram.read(Frame(frame), &mut out).unwrap();
            let zeroed = (10..14).contains(&frame) || frame >= 22;
            assert_eq!(out, [if zeroed { 0 } else { 3 }; FRAME_BYTES]);
        }
    }

    #[test]
    fn the_owner_has_the_bytes_of_all_his_frames() {
        let ram = Ram::new(run(8, 16), RamPages::Base).unwrap();
        // SAFETY: the RAM is this test's alone, and the slice is the only access while it lives.
        let bytes = unsafe { ram.bytes_mut(run(10, 4)) }.unwrap();
        bytes.fill(9);
        assert_eq!(bytes.len(), 4 * FRAME_BYTES);
        let nine = u64::from_ne_bytes([9; 8]);
        let first_words = |frame| ram.words(Frame(frame)).unwrap()[0].load(Relaxed);
        assert_eq!([9, 10, 13, 14].map(first_words), [0, nine, nine, 0]);
        // SAFETY: no slice is made, or an empty one.
        unsafe {
            assert_eq!(ram.bytes_mut(run(20, 5)).unwrap_err(), NotInRam(Frame(24)));
            assert_eq!(ram.bytes_mut(run(7, 2)).unwrap_err(), NotInRam(Frame(7)));
            assert!(ram.bytes_mut(run(0, 0)).unwrap().is_empty());
        }
    }

    #[test]
    fn the_file_shows_what_the_map_shows_and_cannot_be_shortened() {
        let ram = Ram::new(run(0, 4), RamPages::Base).unwrap();
        ram.write(Frame(2), &[5; FRAME_BYTES]).unwrap();
        let mut out = [0; 3];
        let read = rustix::io::pread(ram.as_fd(), &mut out, 2 * 4096).unwrap();
        assert_eq!((read, out), (3, [5; 3]));
        assert_eq!(ftruncate(ram.as_fd(), 4096), Err(Errno::PERM));
    }

    #[test]
    fn what_the_host_refuses_is_said_with_its_reason() {
        let refused = |frames| Ram::new(run(0, frames), RamPages::Base).unwrap_err();
        assert_eq!(refused(0).to_string(), "RAM of 0 frames was asked for");
        let long = refused(1 << 60).to_string();
        assert_eq!(
            long,
            "1152921504606846976 frames are more than a process can map"
        );
        // 2^62 bytes are a file's length, but no process has as many addresses.
        let unmapped = refused(1 << 50).to_string();
        assert!(
            unmapped.starts_with("no map of the memory file: "),
            "{unmapped}"
        );
        let flags = MemfdFlags::from_bits_retain(1 << 20);
        let no_file = file_of(4096, flags).unwrap_err().to_string();
        assert!(no_file.starts_with("no memory file: "), "{no_file}");
        let outside = NotInRam(Frame(16)).to_string();
        assert_eq!(outside, "frame 0x10 is not in RAM");
    }
}
