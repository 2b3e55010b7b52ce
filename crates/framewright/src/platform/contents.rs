use crate::units::Frame;

/// A page's contents, as the engine's guests hand them over: 4 KiB.
pub type PageWords = [u64; 512];

/// What is in frames, and how it is copied: for guests whose pages are copied in and out.
pub trait Contents {
    /// Copies `page` into `frame`, which nobody else writes meanwhile.
    fn store(&self, frame: Frame, page: &PageWords);

    /// Copies `frame` into `page`. An owner may write the frame at the same moment: what comes then
    /// is any mixture, and is thrown away. It must be no fault of memory, and no undefined behaviour.
    fn load(&self, frame: Frame, page: &mut PageWords);
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
}
