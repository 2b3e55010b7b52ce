//! A reserve over pages in vectors, and the laws of its header.

extern crate std;
use super::*;
use crate::platform::{FramePlatform, ReservePlatform};
use crate::units::{CpuId, Frame, Run};
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::vec::Vec;

mod broken;
mod counters;
mod guest;
mod mended;
mod owner;
mod unwound;

/// Frames from `FIRST` on.
pub(super) const FIRST: u64 = 1000;

/// Pages in vectors, copied word by word.
#[derive(Clone)]
pub(super) struct ReserveToy(Arc<Vec<[AtomicU64; 512]>>);

impl ReserveToy {
    pub(super) fn fill(&self, run: Run, word: u64) {
        for frame in run.start().0..run.end().0 {
            let page = &self.0[(frame - FIRST) as usize];
            page.iter().for_each(|w| w.store(word, Relaxed));
        }
    }
}

impl core::fmt::Debug for ReserveToy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Toy")
    }
}

impl FramePlatform for ReserveToy {
    fn relax(&self, attempt: u32) {
        // Some seconds: a wait for oneself fails, and does not hang.
        assert!(attempt < 1 << 23, "waits for itself");
        match attempt {
            0..=20 => core::hint::spin_loop(),
            // An owner's patience is this many looks (C10), and the other owner may be off its CPU for longer than as
            // many yields take.
            21..1000 => std::thread::yield_now(),
            1000..20_000 => std::thread::sleep(std::time::Duration::from_micros(50)),
            _ => std::thread::yield_now(),
        }
    }
}

impl ReservePlatform for ReserveToy {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        for (to, from) in self.0[(frame.0 - FIRST) as usize].iter().zip(page) {
            to.store(*from, Relaxed);
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        for (to, from) in page.iter_mut().zip(&self.0[(frame.0 - FIRST) as usize]) {
            *to = from.load(Relaxed);
        }
    }
}

/// A reserve of this many frames for this many CPUs, and its contents.
pub(super) fn reserve(frames: u64, cpus: u16) -> (Box<Reserve<'static, ReserveToy>>, ReserveToy) {
    let pages = (0..frames).map(|_| core::array::from_fn(|_| AtomicU64::new(0)));
    let toy = ReserveToy(Arc::new(pages.collect()));
    let layout = ReserveLayout {
        values: 64,
        ..ReserveLayout::new(Run::new(Frame(FIRST), frames).unwrap()).with_cpus(cpus)
    };
    let words = layout.words_needed().unwrap();
    let memory = std::vec![u64::MAX; words].leak();
    let reserve = Reserve::new(&layout, memory, toy.clone()).unwrap();
    (Box::new(reserve), toy)
}

/// A page that carries its stamp at both ends and in between, and is no repeated word.
pub(super) fn page(stamp: u64) -> [u64; 512] {
    core::array::from_fn(|n| stamp << 16 | n as u64)
}

/// The stamp of a page; panics if the page is a mix of two.
pub(super) fn stamp(page: &[u64; 512]) -> u64 {
    for (n, word) in page.iter().enumerate() {
        assert_eq!(*word, page[0] | n as u64, "a torn page");
    }
    page[0] >> 16
}

pub(super) fn guest<'r>(
    reserve: &'r Reserve<'static, ReserveToy>,
    cpu: u16,
) -> Guest<'r, 'static, ReserveToy> {
    reserve.guest(CpuId(cpu)).unwrap()
}
