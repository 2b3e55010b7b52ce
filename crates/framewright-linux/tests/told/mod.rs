//! A swap device that tells a test of each call before it does it.

use framewright_linux::swap::{DeviceUse, SwapDevice, SwapOp};
use std::io;

/// `device`, and what is to be done before each of its calls: to wait, or to panic.
pub(crate) struct ToldDevice<D, F> {
    pub(crate) device: D,
    pub(crate) before: F,
}

impl<D: SwapDevice, F: Fn(SwapOp) + Send + Sync> SwapDevice for ToldDevice<D, F> {
    fn slots(&self) -> u64 {
        self.device.slots()
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        (self.before)(SwapOp::Write);
        self.device.write(slot, page)
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        (self.before)(SwapOp::Read);
        self.device.read(slot, page)
    }

    fn discard(&self, slot: u64) {
        self.device.discard(slot);
    }

    fn sync(&self) -> io::Result<()> {
        (self.before)(SwapOp::Sync);
        self.device.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.device.bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        self.device.in_use()
    }
}
