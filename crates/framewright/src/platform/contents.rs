//! The contents of frames, for guests whose pages are copied in and out.

use crate::units::Frame;

/// What a reserve asks of its platform: the contents of frames, and how they are copied, for guests whose
/// pages are copied in and out.
pub trait ReservePlatform: super::FramePlatform {
    /// Copies `page`, 4 KiB, into `frame`. No other CPU writes the frame meanwhile.
    fn store(&self, frame: Frame, page: &[u64; 512]);

    /// Copies `frame` into `page`. An owner may write the frame at the same moment: then the result
    /// may be any mixture, and the caller throws it away. It must cause no memory fault, and no
    /// undefined behaviour.
    fn load(&self, frame: Frame, page: &mut [u64; 512]);

    /// Copies frame `from`, which no CPU writes meanwhile, into frame `to`, which no other CPU
    /// writes.
    fn copy(&self, from: Frame, to: Frame) {
        let mut page = [0; 512];
        self.load(from, &mut page);
        self.store(to, &page);
    }
}

impl<T: ReservePlatform + ?Sized> ReservePlatform for &T {
    #[inline]
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        (**self).store(frame, page);
    }

    #[inline]
    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        (**self).load(frame, page);
    }

    #[inline]
    fn copy(&self, from: Frame, to: Frame) {
        (**self).copy(from, to);
    }
}
