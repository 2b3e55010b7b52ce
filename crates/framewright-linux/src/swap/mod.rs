//! Swap: where pages lie that have no frame.
//!
//! ```text
//!     SwapDevice ─┬─ SwapFile   a file or block device, past the page cache     [`file`]
//!                 ├─ Zram       memory: one word, compressed, or as it is       [`zram`]
//!                 └─ Faulty     either of them, failing when it is told to      [`faulty`]
//!
//!     Frontswap ── pages by number, in slots and in front of them       [`frontswap`]
//!     SlotMap ──── which slots of a device are in use, handed out in sequence     [`slots`]
//! ```
//!
//! A device has slots of a page each and knows nothing of what lies in them. Every error is a value
//! that names the slot; after a failed write what the slot holds is not known.
//!
//! # What is not here
//! Which page is evicted; who reads ahead. Encryption, discards that are told to a disk.
//!
//! # Sources
//! Statistics of compressed memory: Linux's zram, `mm_stat`. Same-filled pages apart, and what does
//! not shrink as it is: zram and zswap.

pub mod faulty;
pub mod file;
pub mod frontswap;
pub mod slots;
pub mod zram;

pub use faulty::{Faulty, SwapOp};
pub use file::{DirectIo, SwapFile};
pub use frontswap::{Frontswap, FrontswapStats, Loaded, RestoreError, SwapError, SwapPolicy};
pub use slots::SlotMap;
pub use zram::{Zram, ZramStats};

use crate::ram::FRAME_BYTES;
use framewright::platform::PageWords;
use std::io;

/// A place for pages, by slot. Shared among threads; calls of one slot are the callers' to order.
pub trait SwapDevice: Send + Sync {
    /// Slots, each of a page: their numbers are below.
    fn slots(&self) -> u64;

    /// Puts `page` into a slot. It may be lost with the machine until [`sync`](Self::sync) returns.
    ///
    /// # Errors
    /// What the device said, with the slot's number. What the slot holds then is not known.
    fn write(&self, slot: u64, page: &PageWords) -> io::Result<()>;

    /// Puts `pages` into as many slots from `first` on: where a device has a better way than one
    /// after the other, in one request.
    ///
    /// # Errors
    /// As [`write`](Self::write), of any of the slots; what they hold is not known.
    fn write_run(&self, first: u64, pages: &[PageWords]) -> io::Result<()> {
        for (slot, page) in (first..).zip(pages) {
            self.write(slot, page)?;
        }
        Ok(())
    }

    /// What a slot holds.
    ///
    /// # Errors
    /// What the device said, with the slot's number: also if it had fewer bytes than a page; `NotFound` where the slot
    /// was never written to, or was discarded. What `page` holds is anything then.
    fn read(&self, slot: u64, page: &mut PageWords) -> io::Result<()>;

    /// Nobody wants what the slot holds. Only saves room.
    fn discard(&self, slot: u64);

    /// What was written is safe from here on, as far as the device knows: also what was written before a call that failed.
    ///
    /// # Errors
    /// What the device said. Which of the writes since the last success are safe is not known then. A device that cannot
    /// make them safe any more, however often it is asked, fails from then on.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that were handed to the medium since the device was opened.
    fn bytes_written(&self) -> u64;
}

impl<D: SwapDevice + ?Sized> SwapDevice for &D {
    fn slots(&self) -> u64 {
        (**self).slots()
    }

    fn write(&self, slot: u64, page: &PageWords) -> io::Result<()> {
        (**self).write(slot, page)
    }

    fn write_run(&self, first: u64, pages: &[PageWords]) -> io::Result<()> {
        (**self).write_run(first, pages)
    }

    fn read(&self, slot: u64, page: &mut PageWords) -> io::Result<()> {
        (**self).read(slot, page)
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
}

/// A page as a device wants it: at a multiple of its length, which is what direct I/O asks of memory.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Aligned([u8; FRAME_BYTES]);
const _: () = assert!(size_of::<Aligned>() == FRAME_BYTES);

impl Aligned {
    const ZERO: Self = Self([0; FRAME_BYTES]);

    fn set(&mut self, page: &PageWords) {
        for (bytes, word) in self.0.as_chunks_mut::<8>().0.iter_mut().zip(page) {
            *bytes = word.to_ne_bytes();
        }
    }

    fn get(&self, page: &mut PageWords) {
        for (word, bytes) in page.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
    }
}

/// An error of one slot, with its number.
fn of_slot(slot: u64, doing: &str, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("slot {slot} was not {doing}: {error}"),
    )
}

/// The error of a slot that there is not.
fn check_slot(slot: u64, slots: u64) -> io::Result<()> {
    if slot < slots {
        return Ok(());
    }
    let what = format!("slot {slot} is not below {slots}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
pub(crate) mod tests {
    use framewright::platform::PageWords;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A page that says which it is, at every word.
    pub(crate) fn page(nth: u64) -> PageWords {
        std::array::from_fn(|at| (nth << 16) + at as u64 / 4)
    }

    /// A folder that is gone when this is dropped.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
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

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
