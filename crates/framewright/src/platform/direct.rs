//! The direct map: where frames lie, and operations on their bytes.

use crate::units::Addr;

/// What objects ask of their platform: where frames lie in memory, and operations on their bytes, the direct
/// map.
///
/// Every frame of the zones has an address by which its contents can be reached at any time. The
/// addresses are as far apart as the frames' numbers say. The pages of mapped objects have
/// addresses of their own.
pub trait ObjectPlatform: super::RangePlatform {
    /// The address of frame 0's first byte. If RAM begins later, no memory need lie there, and the
    /// number may have wrapped below zero: frame `n` lies 4096 n further on, wrapping.
    fn direct_base(&self) -> Addr;

    /// Fills `bytes` bytes with zeroes, all of them in one object that the caller of the engine
    /// owns or is about to own.
    fn zero_bytes(&self, at: Addr, bytes: u64);

    /// Copies `bytes` bytes from one such object to another.
    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64);
}

impl<T: ObjectPlatform + ?Sized> ObjectPlatform for &T {
    #[inline]
    fn direct_base(&self) -> Addr {
        (**self).direct_base()
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        (**self).zero_bytes(at, bytes);
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        (**self).copy_bytes(from, to, bytes);
    }
}
