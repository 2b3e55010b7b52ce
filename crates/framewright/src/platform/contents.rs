//! The contents of frames, for guests whose pages are copied in and out.

use crate::units::Frame;

/// A page's contents, as the engine's guests hand them over: 4 KiB.
pub type PageWords = [u64; 512];

/// The contents of frames, and how they are copied, for guests whose pages are copied in and out.
pub trait Contents {
    /// Copies `page` into `frame`. No other CPU writes the frame meanwhile.
    fn store(&self, frame: Frame, page: &PageWords);

    /// Copies `frame` into `page`. An owner may write the frame at the same moment: then the result
    /// may be any mixture, and the caller throws it away. It must cause no memory fault, and no
    /// undefined behaviour.
    fn load(&self, frame: Frame, page: &mut PageWords);

    /// Copies frame `from`, which no CPU writes meanwhile, into frame `to`, which no other CPU
    /// writes.
    fn copy(&self, from: Frame, to: Frame) {
        let mut page = [0; 512];
        self.load(from, &mut page);
        self.store(to, &page);
    }
}

impl<T: Contents + ?Sized> Contents for &T {
    #[inline]
    fn store(&self, frame: Frame, page: &PageWords) {
        (**self).store(frame, page);
    }

    #[inline]
    fn load(&self, frame: Frame, page: &mut PageWords) {
        (**self).load(frame, page);
    }

    #[inline]
    fn copy(&self, from: Frame, to: Frame) {
        (**self).copy(from, to);
    }
}
