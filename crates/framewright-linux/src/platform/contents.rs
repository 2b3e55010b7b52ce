//! The platform of a reserve: frames' contents in a [`Ram`], one of its own or a host's.

use super::copy::Copying;
use super::{Linux, Windowed};
use crate::Membarrier;
use crate::ram::{FRAME_WORDS, Ram};
use framewright::Frame;
use framewright::platform::{FramePlatform, ReservePlatform};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The platform of a reserve: [`Linux`] for waiting, and a [`Ram`] with its frames.
#[derive(Clone, Debug)]
pub struct Stored<B = Membarrier> {
    linux: Linux<B>,
    ram: Arc<Ram>,
    /// Where ordinary frames lie.
    ordinary: Option<Arc<Ram>>,
    copying: Copying,
}

impl<B> Stored<B> {
    /// The two together.
    #[must_use]
    pub fn new(linux: Linux<B>, ram: Arc<Ram>) -> Self {
        Self {
            linux,
            ram,
            ordinary: None,
            copying: Copying::detect(),
        }
    }

    /// The same, with another RAM, whose frames have other numbers: ordinary frames, into which
    /// pages of the reserve may be [put back](framewright::reserve::Reserve::alloc_contig_with).
    #[must_use]
    pub fn with_ordinary(mut self, ram: Arc<Ram>) -> Self {
        self.ordinary = Some(ram);
        self
    }

    #[inline]
    fn words(&self, frame: Frame) -> &[AtomicU64; FRAME_WORDS] {
        match self.ram.words(frame) {
            Ok(words) => words,
            Err(_) => self.elsewhere(frame),
        }
    }

    #[cold]
    fn elsewhere(&self, frame: Frame) -> &[AtomicU64; FRAME_WORDS] {
        let ordinary = self.ordinary.as_ref();
        let words = ordinary.and_then(|ram| ram.words(frame).ok());
        words
            .expect("the reserve, and the frames into which its pages are put back, lie in its RAM")
    }

    /// The RAM.
    #[must_use]
    pub const fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }
}

impl<B: FramePlatform> FramePlatform for Stored<B> {
    fn relax(&self, attempt: u32) {
        self.linux.relax(attempt);
    }

    fn wake(&self) {
        self.linux.wake();
    }
}

impl<B: FramePlatform> ReservePlatform for Stored<B> {
    /// # Panics
    /// If the frame is in neither RAM: the reserve was made over other frames, or its pages are put
    /// back into others.
    #[inline]
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.copying.page_in(self.words(frame), page);
    }

    /// # Panics
    /// As [`store`](Self::store).
    #[inline]
    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.copying.page_out(page, self.words(frame));
    }
}

impl<B> Windowed<B> {
    #[inline]
    fn words(&self, frame: Frame) -> &[AtomicU64; FRAME_WORDS] {
        let words = self.window().ram().words(frame);
        words
            .expect("the reserve, and the frames into which its pages are put back, lie in the RAM")
    }
}

impl<B: FramePlatform> ReservePlatform for Windowed<B> {
    /// # Panics
    /// If the frame is not in the window's RAM. That of a host holds zone and reserve.
    #[inline]
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.copying.page_in(self.words(frame), page);
    }

    /// # Panics
    /// As [`store`](Self::store).
    #[inline]
    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.copying.page_out(page, self.words(frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Options, RamPages};
    use framewright::frame::ZoneLayout;
    use framewright::reserve::{Contiguous, Key, PoolConfig, Reserve, ReserveLayout};
    use framewright::{CpuId, Run};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn pages_of_a_reserve_are_put_back_into_frames_of_a_zone_and_these_come_back() {
        let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(512), 1024))).unwrap();
        let run = Run::new(Frame(0), 256).unwrap();
        let slots = crate::platform::Slots::new(1);
        let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
        let platform = Stored::new(Linux::fenced(slots), Arc::clone(&ram))
            .with_ordinary(Arc::clone(host.ram_shared()));
        let layout = ReserveLayout::new(run).with_ordinary(200);
        let mut words = vec![0; layout.words_needed().unwrap()];
        let reserve = Reserve::new(&layout, &mut words, platform).unwrap();
        let pool = reserve.open_pool(&PoolConfig {
            put_back: true,
            ..PoolConfig::SWAP
        });
        let key = |index| Key {
            pool: pool.unwrap(),
            object: 0,
            index,
        };
        let page = |index: u64| std::array::from_fn(|n| index << 16 | n as u64);
        let mut guest = reserve.guest(CpuId(0)).unwrap();
        for index in 0..100 {
            guest.put_dirty(key(index), &page(index)).unwrap();
        }
        let mut seat = host.seat().unwrap();
        let before = host.zone().stats().nr_free_pages;
        let mut owner = reserve.owner(Some(&mut seat));
        let taken = owner.alloc_contig(256, 1).unwrap();
        for frame in taken.start().0..taken.end().0 {
            ram.words(Frame(frame)).unwrap()[7].store(1 << 60, Relaxed);
        }
        let mut out = [0; 512];
        for index in 0..100 {
            assert!(guest.get(key(index), &mut out), "page {index}");
            assert_eq!(out, page(index));
        }
        owner.release(taken).unwrap();
        drop(owner);
        guest.invalidate_object(pool.unwrap(), 0);
        assert_eq!(reserve.collect(&mut seat), 100);
        drop(seat);
        host.zone().drain();
        assert_eq!(host.zone().stats().nr_free_pages, before);
        reserve.verify().unwrap();
    }
}
