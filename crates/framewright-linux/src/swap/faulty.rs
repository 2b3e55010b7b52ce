//! A swap device that fails on demand, for tests.

use super::{DeviceUse, SwapDevice};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a device can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapOp {
    /// A page is written; if several are written at once, each counts.
    Write,
    /// A page is read.
    Read,
    /// All is to be made safe.
    Sync,
}

/// Calls of one kind, and which of them fail.
#[derive(Debug, Default)]
struct FailingCalls {
    seen: AtomicU64,
    from: AtomicU64,
    count: AtomicU64,
}

impl FailingCalls {
    fn next(&self) -> Option<u64> {
        let nth = self.seen.fetch_add(1, Relaxed);
        let from = self.from.load(Relaxed);
        (from..from.saturating_add(self.count.load(Relaxed)))
            .contains(&nth)
            .then_some(nth)
    }
}

/// A device with an n-th I/O that fails.
///
/// ```
/// use framewright_linux::swap::{Faulty, SwapDevice, SwapOp, Zram};
///
/// let device = Faulty::new(Zram::new(16, 1 << 20));
/// device.fail(SwapOp::Write, 1, 1); // the second, and only that
/// assert!(device.write(0, &[1; 512]).is_ok());
/// let error = device.write(1, &[2; 512]).unwrap_err();
/// assert_eq!(error.to_string(), "write 1 of slot 1 fails, as was asked");
/// assert!(device.write(1, &[2; 512]).is_ok());
/// ```
#[derive(Debug)]
pub struct Faulty<D> {
    device: D,
    calls: [FailingCalls; 3],
}

impl<D: SwapDevice> Faulty<D> {
    /// `device`, which fails only if it does so itself.
    #[must_use]
    pub fn new(device: D) -> Self {
        Self {
            device,
            calls: Default::default(),
        }
    }

    /// Makes `count` calls of one kind, from the `from`-th on, fail from now on, and no others of
    /// that kind. Calls are counted from 0 since the device was made.
    pub fn fail(&self, op: SwapOp, from: u64, count: u64) {
        let calls = &self.calls[op as usize];
        calls.count.store(0, Relaxed);
        calls.from.store(from, Relaxed);
        calls.count.store(count, Relaxed);
    }

    /// How many calls of that kind there were.
    #[must_use]
    pub fn calls(&self, op: SwapOp) -> u64 {
        self.calls[op as usize].seen.load(Relaxed)
    }

    /// The device beneath.
    #[must_use]
    pub const fn device(&self) -> &D {
        &self.device
    }

    fn checked(&self, op: SwapOp, what: impl FnOnce(u64) -> String) -> io::Result<()> {
        match self.calls[op as usize].next() {
            Some(nth) => Err(io::Error::other(what(nth))),
            None => Ok(()),
        }
    }
}

impl<D: SwapDevice> SwapDevice for Faulty<D> {
    fn slots(&self) -> u64 {
        self.device.slots()
    }

    /// A write that fails leaves half a page, as a disk may.
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        let said = |nth| format!("write {nth} of slot {slot} fails, as was asked");
        self.checked(SwapOp::Write, said).inspect_err(|_| {
            let mut torn = *page;
            torn[256..].fill(0xdead_dead_dead_dead);
            // Torn or unchanged: a failed write may leave either.
            let _ = self.device.write(slot, &torn);
        })?;
        self.device.write(slot, page)
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        let said = |nth| format!("read {nth} of slot {slot} fails, as was asked");
        self.checked(SwapOp::Read, said)?;
        self.device.read(slot, page)
    }

    fn discard(&self, slot: u64) {
        self.device.discard(slot);
    }

    fn sync(&self) -> io::Result<()> {
        self.checked(SwapOp::Sync, |nth| {
            format!("sync {nth} fails, as was asked")
        })?;
        self.device.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.device.bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        self.device.in_use()
    }
}
