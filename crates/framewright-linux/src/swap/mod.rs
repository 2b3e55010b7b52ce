//! Swap: where pages without a frame lie.
//!
//! ```text
//!     SwapDevice ─┬─ SwapFile   a file or block device, past the page cache     [`file`]
//!                 ├─ Zram       memory: one word, compressed, or as it is       [`zram`]
//!                 └─ Faulty     either of them, failing on demand               [`faulty`]
//!
//!     Frontswap ── pages by number, in slots and in front of them       [`frontswap`]
//!     SlotMap ──── which slots of a device are in use, handed out in sequence     [`slots`]
//! ```
//!
//! A device has slots of a page each and knows nothing of their contents. Every error is a value
//! that names the slot; after a failed write the contents of the slot are undefined.
//!
//! # What is not here
//! The choice of the page to evict; reading ahead. Encryption, discards that are reported to a
//! disk.
//!
//! # Sources
//! Statistics of compressed memory: Linux's zram, `mm_stat`. Storing same-filled pages apart, and
//! pages that do not shrink as they are: zram and zswap.

pub mod faulty;
pub mod file;
pub mod frontswap;
pub mod slots;
pub mod zram;

pub use faulty::{Faulty, SwapOp};
pub use file::{DirectIo, SwapFile};
pub use frontswap::{Frontswap, FrontswapStats, LoadedPage, RestoreError, SwapError, SwapPolicy};
pub use slots::SlotMap;
pub use zram::{Zram, ZramStats};

use crate::ram::FRAME_BYTES;
use std::io;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

/// A place for pages, by slot. Shared among threads; the callers order calls for one slot.
///
/// No call of a device may ask reclaim for frames, or wait for a thread that does: reclaim may wait for the thread that
/// makes the call ([`Paged`](crate::paged::Paged)). What a device needs it takes from frames that are free, or fails.
pub trait SwapDevice: Send + Sync {
    /// How many slots it has, each of a page.
    fn slots(&self) -> u64;

    /// Puts `page` into a slot. The page may be lost with the machine until [`sync`](Self::sync)
    /// returns.
    ///
    /// # Errors
    /// What the device said, with the slot's number. The contents of the slot are undefined then.
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()>;

    /// Puts `pages` into as many slots from `first` on; in one request if the device has a better
    /// way than one after the other.
    ///
    /// # Errors
    /// As [`write`](Self::write), for any of the slots; their contents are undefined.
    fn write_run(&self, first: u64, pages: &[[u64; 512]]) -> io::Result<()> {
        for (slot, page) in (first..).zip(pages) {
            self.write(slot, page)?;
        }
        Ok(())
    }

    /// Reads the contents of a slot.
    ///
    /// # Errors
    /// What the device said, with the slot's number, even if it had fewer bytes than a page;
    /// `NotFound` if the slot was never written, or was discarded. The contents of `page` are
    /// undefined then.
    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()>;

    /// Reads the contents of as many slots from `first` on as `pages` has pages; in one request if the device has a
    /// better way than one after the other.
    ///
    /// # Errors
    /// As [`read`](Self::read), for any of the slots. The contents of `pages` are undefined then.
    fn read_run(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        for (slot, page) in (first..).zip(pages) {
            self.read(slot, page)?;
        }
        Ok(())
    }

    /// Gives up the contents of a slot. Only saves room.
    fn discard(&self, slot: u64);

    /// Makes all earlier writes safe, as far as the device knows; also those before a call that
    /// failed.
    ///
    /// # Errors
    /// What the device said. It is then unknown which of the writes since the last success are
    /// safe. A device that can no longer make them safe, however often it is asked, fails from then
    /// on.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that were handed to the medium since the device was opened.
    fn bytes_written(&self) -> u64;

    /// Whether a [`Frontswap`] has the device: it says so here, so that no second one takes the same slots (FS5).
    /// A device that lies in front of another one returns that one's.
    fn in_use(&self) -> &DeviceUse;
}

/// Whether a [`Frontswap`] has a device: at first none.
#[derive(Debug, Default)]
pub struct DeviceUse(AtomicBool);

impl DeviceUse {
    /// Of a device that no swap has.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Has the device for one swap; `false` if another one has it.
    pub(crate) fn claim(&self) -> bool {
        // Acquire pairs with the Release of the swap that had it.
        !self.0.swap(true, Acquire)
    }

    /// That swap has it no longer.
    pub(crate) fn release(&self) {
        self.0.store(false, Release);
    }
}

impl<D: SwapDevice + ?Sized> SwapDevice for &D {
    fn slots(&self) -> u64 {
        (**self).slots()
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        (**self).write(slot, page)
    }

    fn write_run(&self, first: u64, pages: &[[u64; 512]]) -> io::Result<()> {
        (**self).write_run(first, pages)
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        (**self).read(slot, page)
    }

    fn read_run(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        (**self).read_run(first, pages)
    }

    fn discard(&self, slot: u64) {
        (**self).discard(slot);
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }

    fn bytes_written(&self) -> u64 {
        (**self).bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        (**self).in_use()
    }
}

/// A page as a device requires it: at a multiple of its length, which direct I/O demands of memory.
#[derive(Clone)]
#[repr(C, align(4096))]
struct AlignedPageBytes([u8; FRAME_BYTES]);
const _: () = assert!(size_of::<AlignedPageBytes>() == FRAME_BYTES);

impl AlignedPageBytes {
    const ZERO: Self = Self([0; FRAME_BYTES]);

    fn set(&mut self, page: &[u64; 512]) {
        for (bytes, word) in self.0.as_chunks_mut::<8>().0.iter_mut().zip(page) {
            *bytes = word.to_ne_bytes();
        }
    }

    fn get(&self, page: &mut [u64; 512]) {
        for (word, bytes) in page.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
    }
}

/// Adds the slot's number to an error.
fn of_slot(slot: u64, doing: &str, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("slot {slot} was not {doing}: {error}"),
    )
}

/// The error for a slot that does not exist.
fn check_slot(slot: u64, slots: u64) -> io::Result<()> {
    if slot < slots {
        return Ok(());
    }
    let what = format!("slot {slot} is not below {slots}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A page that tells at every word which one it is.
    pub(crate) fn page(nth: u64) -> [u64; 512] {
        std::array::from_fn(|at| (nth << 16) + at as u64 / 4)
    }

    /// A folder that is gone when this is dropped.
    pub(crate) struct SwapFolder(PathBuf);

    impl SwapFolder {
        pub(crate) fn new(name: &str) -> Self {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let nth = NEXT.fetch_add(1, Relaxed);
            let name = format!("framewright-{name}-{}-{nth}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for SwapFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
