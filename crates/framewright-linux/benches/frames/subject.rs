//! Those that are measured, behind one small trait.

use buddy_slab_allocator::BuddyAllocator;
use buddy_system_allocator::LockedFrameAllocator;
use framewright::frame::{Seat, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::{Frame, Mobility, Order};
use framewright_linux::{Host, HostError, Linux, Membarrier, Options};
use std::alloc::{Layout, alloc_zeroed};

/// An allocator that threads share.
pub(crate) trait FrameSubject: Sync {
    type Worker<'s>: FrameWorker
    where
        Self: 's;

    /// A thread's access to it.
    fn worker(&self) -> Self::Worker<'_>;

    /// Panics if it does not say that all its frames are free.
    fn assert_all_free(&self);
}

/// What a thread measures. Every request is one that can be served; a refusal ends the benchmark.
pub(crate) trait FrameWorker {
    fn alloc(&mut self, order: Order) -> u64;
    fn free(&mut self, frame: u64, order: Order);

    /// As many blocks as `frames` has room for, in one call where there is one.
    fn alloc_bulk(&mut self, order: Order, frames: &mut [u64]) {
        for frame in frames {
            *frame = self.alloc(order);
        }
    }

    fn free_bulk(&mut self, order: Order, frames: &[u64]) {
        for &frame in frames {
            self.free(frame, order);
        }
    }
}

/// The engine on this host.
pub(crate) enum FrameEngine {
    Asymmetric(Host<Membarrier>),
    Symmetric(Host<()>),
}

impl FrameEngine {
    pub(crate) fn new(frames: u64, cpus: u16) -> Self {
        let options = Options::new(ZoneLayout::new(Frame(0), frames).with_cpus(cpus));
        match Host::new(&options) {
            Ok(host) => Self::Asymmetric(host),
            Err(HostError::NoMembarrier) => Self::Symmetric(Host::fenced(&options).expect("host")),
            Err(error) => panic!("{error}"),
        }
    }
}

impl<B: FramePlatform + Clone + Sync> FrameSubject for Host<B> {
    type Worker<'s>
        = EngineWorker<'s, B>
    where
        B: 's;

    fn worker(&self) -> EngineWorker<'_, B> {
        EngineWorker(self.seat().expect("as many slots as threads"))
    }

    fn assert_all_free(&self) {
        self.zone().verify().expect("every invariant holds");
        let free = self.zone().stats().nr_free_pages;
        assert_eq!(free, self.ram().frames().frames());
    }
}

pub(crate) struct EngineWorker<'s, B>(Seat<'s, 's, Linux<B>>);

impl<B: FramePlatform> FrameWorker for EngineWorker<'_, B> {
    /// Gets even the last block, in whichever CPU's cache it is, as each of the others is asked for
    /// it.
    #[inline]
    fn alloc(&mut self, order: Order) -> u64 {
        let frame = self.0.alloc_hard(order, Mobility::Movable);
        frame.expect("there is a free block").0
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        let freed = self.0.free(Frame(frame), order);
        freed.expect("it is allocated");
    }

    fn alloc_bulk(&mut self, order: Order, frames: &mut [u64]) {
        let mut out = [Frame(0); crate::pattern::BATCH];
        let out = &mut out[..frames.len()];
        let got = self.0.alloc_bulk(order, Mobility::Movable, out);
        assert_eq!(got, Ok(out.len()));
        frames
            .iter_mut()
            .zip(out)
            .for_each(|(to, from)| *to = from.0);
    }

    fn free_bulk(&mut self, order: Order, frames: &[u64]) {
        let mut out = [Frame(0); crate::pattern::BATCH];
        let out = &mut out[..frames.len()];
        out.iter_mut()
            .zip(frames)
            .for_each(|(to, from)| to.0 = *from);
        self.0.free_bulk(order, out).expect("they are allocated");
    }
}

/// `buddy_system_allocator` behind its spin lock.
pub(crate) struct RivalBuddy {
    allocator: LockedFrameAllocator<33>,
    frames: u64,
}

impl RivalBuddy {
    pub(crate) fn new(frames: u64) -> Self {
        let allocator = LockedFrameAllocator::new();
        allocator.lock().add_frame(0, frames as usize);
        Self { allocator, frames }
    }
}

impl FrameSubject for RivalBuddy {
    type Worker<'s> = &'s Self;

    fn worker(&self) -> &Self {
        self
    }

    fn assert_all_free(&self) {
        // All of it is one block again.
        let mut allocator = self.allocator.lock();
        let all = allocator.alloc(self.frames as usize).expect("all is free");
        allocator.dealloc(all, self.frames as usize);
    }
}

impl FrameWorker for &RivalBuddy {
    #[inline]
    fn alloc(&mut self, order: Order) -> u64 {
        let frame = self.allocator.lock().alloc(order.frames() as usize);
        frame.expect("there is a free block") as u64
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        let frames = order.frames() as usize;
        self.allocator.lock().dealloc(frame as usize, frames);
    }
}

const PAGE: usize = Frame::BYTES as usize;

/// The buddy allocator of `buddy-slab-allocator` behind a spin lock.
pub(crate) struct RivalBuddySlab {
    allocator: spin::Mutex<BuddyAllocator<PAGE>>,
    /// The address of its first frame.
    start: usize,
    frames: usize,
}

impl RivalBuddySlab {
    pub(crate) fn new(frames: u64) -> Self {
        let frames = frames as usize;
        // Its metadata lie in front of the frames. How long they are it does not say, and it manages all that it gets.
        let least = frames * PAGE + BuddyAllocator::<PAGE>::required_meta_size(frames * PAGE);
        let layout = Layout::from_size_align(least + 8 * PAGE, PAGE).expect("a length");
        // SAFETY: it is not 0 bytes long.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null(), "there is address space");
        for spare in 0..8 {
            let mut allocator = BuddyAllocator::new();
            // SAFETY: so much was allocated, it holds zeroes, and no other code has it, for as long as the process lives. The
            // allocator before this one is gone.
            let made = unsafe {
                let region = std::slice::from_raw_parts_mut(memory, least + spare * PAGE);
                allocator.init(region)
            };
            if made.is_ok() && allocator.total_pages() == frames {
                let section = allocator.section(0).expect("it has memory");
                return Self {
                    allocator: spin::Mutex::new(allocator),
                    start: section.start,
                    frames,
                };
            }
        }
        panic!("its metadata are longer than expected");
    }
}

impl FrameSubject for RivalBuddySlab {
    type Worker<'s> = &'s Self;

    fn worker(&self) -> &Self {
        self
    }

    fn assert_all_free(&self) {
        assert_eq!(self.allocator.lock().free_pages(), self.frames);
    }
}

impl FrameWorker for &RivalBuddySlab {
    #[inline]
    fn alloc(&mut self, order: Order) -> u64 {
        let pages = order.frames() as usize;
        let at = self.allocator.lock().alloc_pages(pages, PAGE);
        let at = at.expect("there is a free block");
        ((at - self.start) / PAGE) as u64
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        let at = self.start + frame as usize * PAGE;
        let pages = order.frames() as usize;
        self.allocator.lock().dealloc_pages(at, pages);
    }
}

/// No allocator: numbers one after the other. What a pattern does with it is the pattern's own work.
pub(crate) struct NoFrames;

impl FrameSubject for NoFrames {
    type Worker<'s> = NextFrame;

    fn worker(&self) -> NextFrame {
        NextFrame(0)
    }

    fn assert_all_free(&self) {}
}

/// The number that comes next.
pub(crate) struct NextFrame(u64);

impl FrameWorker for NextFrame {
    #[inline]
    fn alloc(&mut self, _order: Order) -> u64 {
        self.0 += 1;
        self.0
    }

    #[inline]
    fn free(&mut self, frame: u64, _order: Order) {
        std::hint::black_box(frame);
    }
}
