use super::Linux;
use super::copy::Copying;
use crate::Membarrier;
use crate::ram::Ram;
use framewright::Frame;
use framewright::platform::{Contents, PageWords, Relax};
use std::sync::Arc;

/// The platform of a reserve: [`Linux`] for waiting, and a [`Ram`] that its frames are in.
#[derive(Clone, Debug)]
pub struct Stored<B = Membarrier> {
    linux: Linux<B>,
    ram: Arc<Ram>,
    copying: Copying,
}

impl<B> Stored<B> {
    /// The two together.
    #[must_use]
    pub fn new(linux: Linux<B>, ram: Arc<Ram>) -> Self {
        Self {
            linux,
            ram,
            copying: Copying::detect(),
        }
    }

    /// The RAM.
    #[must_use]
    pub const fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }
}

impl<B> Relax for Stored<B> {
    fn relax(&self, attempt: u32) {
        self.linux.relax(attempt);
    }
}

impl<B> Contents for Stored<B> {
    /// # Panics
    /// If the frame is not in the RAM: the reserve was made over other frames.
    #[inline]
    fn store(&self, frame: Frame, page: &PageWords) {
        let words = self.ram.words(frame).expect("the reserve lies in its RAM");
        self.copying.page_in(words, page);
    }

    /// # Panics
    /// As [`store`](Self::store).
    #[inline]
    fn load(&self, frame: Frame, page: &mut PageWords) {
        let words = self.ram.words(frame).expect("the reserve lies in its RAM");
        self.copying.page_out(page, words);
    }
}
