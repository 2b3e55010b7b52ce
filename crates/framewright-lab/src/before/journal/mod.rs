//! kvmalloc as a journal met it in Linux 5.16: contiguous memory at any price, then mapped pages
//! under global locks; and the same with the price taken off, as the journal's author did by hand.
//!
//! ```text
//!   kvmalloc
//!     per-CPU list or zone ── there? ──▶ contiguous
//!        │ no                                             Rule::FailFast stops here ─┐
//!     wake the background, look again                                                │
//!     compact: ┌ migrate scanner ▶ .......... ◀ free scanner ┐  order above 3        │
//!     reclaim: from the cache's end, 32 pages; look again                            │
//!     compact, look again ── there? ──▶ contiguous                                   │
//!        │ no                                                                        │
//!     mapped: gap (lock), a frame a page, map, area (lock)  ◀────────────────────────┘
//! ```
//!
//! # Rules
//! - Orders 0 to 3 have per-CPU lists in front of the zone, which give and take 32 frames at a time.
//!   Above order 3 each request and each free takes the zone's lock. Below the low mark a request
//!   wakes the background and looks again, down to the min mark.
//! - Free blocks lie in lists by mobility. A request that finds none of its own takes the other's largest block, and
//!   with it, unless it is movable and the block small, all that is free in that pageblock; the pageblock's label
//!   follows if half of it is free or of the request's kind. A freed block goes to the lists of its label. At first all
//!   labels are movable, as in memory that a cache has filled. Buffers are unmovable, the cache is movable.
//! - Direct compaction, only where twice the block is free above the low mark: the migrate scanner
//!   from the bottom, in pageblocks with the request's label alone, isolates pages block by block of the order, and
//!   drops a block at the first frame that cannot go; the free scanner from the top isolates free frames in movable
//!   pageblocks; contents and owners move. It ends when a block of the order is free, when the scanners meet, or when a
//!   lock is contended. Both remember where they were, and pageblocks in which they found nothing are
//!   passed over until a finished scan and the background's sleep drop the hints.
//! - Both scanners look first where it is cheap: the free scanner takes a free block from the lists, if one lies in the
//!   upper quarter of what is between the scanners, or at least in the upper half; the background's migrate scanner
//!   begins with the pageblock of a free block below the order, in the lower part. Each search that finds nothing
//!   halves the length of the next ones.
//! - The background reclaims to the high mark and at least two blocks, then compacts, moving what it
//!   can. When it fails, attempts are passed over: 1, 3, 7 ... 63 in a row; a success ends that. A
//!   direct attempt obeys the back-off and does not lengthen it.
//! - A request for which compaction was passed over or pointless does not reclaim: it has another way.
//!   Where enough is free for compaction, direct reclaim of a large order does nothing.
//! - A freed area is unmapped at once, and its frames are free. Its address space is lazy until `fls(cpus) * 32 MiB`
//!   are, and then one purge flushes, and makes all of it free.
//!
//! # Invariants
//! - **J1** A free block is aligned, and in the list of its order.
//! - **J2** Two buddies of one order are never both free.
//! - **J3** The counts of free blocks and of free frames are what a recount finds.
//! - **J4** Every page of a tenant lies whole in one frame, and its tenant knows which.
//! - **J5** Gaps, areas and lazy areas are the window.
//!
//! # Locks
//! `zone`, `lru`, `free_vmap_area`, `vmap_area`, `purge_vmap_area`: each global, none held while another
//! one is taken, except a per-CPU list's, in front of `zone`.
//!
//! # What is not here
//! Reclaimable and highatomic pageblocks; the boost of the watermarks behind a theft, which would have the background
//! reclaim more (kind to the kernel); swapping, slabs, shrinkers; several zones and nodes. A host's unmap flushes, where
//! a kernel puts the flush off.
//!
//! # Sources
//! D. Chinner, "mm: vmalloc: use rwsem, mutex ...", LKML, March 2023, with the commit "xfs: reduce
//! kvmalloc overhead for CIL shadow buffers" and its two profiles; the rules as in Linux 4.12 to
//! 5.16, mm/page_alloc.c, mm/compaction.c, mm/vmscan.c, mm/vmalloc.c and mm/util.c.

mod areas;
mod compact;
mod lock;
mod percpu;
mod reclaim;
mod scanners;
mod seat;
pub mod tenants;
#[cfg(test)]
mod tests;
mod wake;
mod zone;

pub use lock::{CountedLock, HeldLock, LockCount};
pub use seat::JournalSeat;
pub use wake::Wake;
pub use zone::{BLOCK_FRAMES_MAX, JournalMarks};

use areas::{Areas, JournalArea};
use framewright::platform::RangePlatform;
use framewright::{Addr, Frame, Page, PageRange};
use percpu::JournalPerCpu;
use scanners::JournalScanners;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use tenants::{JournalContents, JournalTenants};
use zone::JournalZone;
pub(in crate::before::journal) use zone::{COSTLY_ORDER, PAGEBLOCK};

/// The frame starts no object.
const NO_OBJECT: u8 = u8::MAX;

/// What a request does when nothing contiguous is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Compacts and reclaims before it maps pages.
    Stall,
    /// Maps pages.
    FailFast,
}

/// What the allocator has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalCounters {
    /// Objects handed out.
    pub allocs: u64,
    /// Of those, the ones of mapped pages.
    pub spills: u64,
    /// Direct compactions.
    pub compact_stall: u64,
    /// Of those, the ones after which the block was had.
    pub compact_success: u64,
    /// Direct reclaims.
    pub allocstall: u64,
    /// Pages moved, by requests and in the background.
    pub migrated: u64,
    /// Pages that requests reclaimed.
    pub reclaimed: u64,
    /// CPU time of requests in compaction, and in reclaim; 0 without accounts.
    pub compact_ns: u64,
    /// The same in reclaim.
    pub reclaim_ns: u64,
}

#[derive(Debug, Default)]
struct JournalTally {
    allocs: AtomicU64,
    spills: AtomicU64,
    compact_stall: AtomicU64,
    compact_success: AtomicU64,
    allocstall: AtomicU64,
    migrated: AtomicU64,
    reclaimed: AtomicU64,
    compact_ns: AtomicU64,
    reclaim_ns: AtomicU64,
}

/// What an allocator is made of.
#[derive(Debug)]
pub struct Setup<M> {
    /// Frames, from 0 on: a multiple of [`BLOCK_FRAMES_MAX`].
    pub frames: u32,
    /// CPUs that may have a seat.
    pub cpus: u16,
    /// CPUs of the machine, by which the lazy pages are bound.
    pub machine_cpus: u16,
    /// What a request does when nothing contiguous is there.
    pub rule: Rule,
    /// The zone's.
    pub marks: JournalMarks,
    /// Where areas lie.
    pub window: PageRange,
    /// Maps them, and knows the frames' contents.
    pub mapper: M,
    /// The tenants, which have the other frames.
    pub tenants: Arc<JournalTenants>,
    /// Woken when frames run low.
    pub wake: Arc<Wake>,
    /// Where frame 0's first byte lies.
    pub direct: Addr,
    /// Reads the CPU time of a thread, if it is to be known how much of it goes where.
    pub cpu_ns: Option<fn() -> u64>,
}

/// The allocator; any number of threads use it by reference, each through its
/// [seat](Self::seat).
#[derive(Debug)]
pub struct Journal<M> {
    zone: JournalZone,
    per_cpu: Box<[JournalPerCpu]>,
    scanners: JournalScanners,
    areas: Areas,
    /// By frame: the order of the object that starts there.
    objects: Box<[AtomicU8]>,
    rule: Rule,
    mapper: M,
    tenants: Arc<JournalTenants>,
    wake: Arc<Wake>,
    direct: Addr,
    cpu_ns: Option<fn() -> u64>,
    counters: JournalTally,
}

impl<M: RangePlatform + JournalContents> Journal<M> {
    /// An allocator none of whose frames are free: [`add`](Self::add) frees them.
    ///
    /// # Panics
    /// If the frames are not whole blocks.
    #[must_use]
    pub fn new(setup: Setup<M>) -> Self {
        Self {
            zone: JournalZone::new(setup.frames, setup.marks),
            per_cpu: (0..setup.cpus).map(|_| JournalPerCpu::default()).collect(),
            scanners: JournalScanners::new(setup.frames),
            areas: Areas::new(setup.window, setup.machine_cpus),
            objects: (0..setup.frames)
                .map(|_| AtomicU8::new(NO_OBJECT))
                .collect(),
            rule: setup.rule,
            mapper: setup.mapper,
            tenants: setup.tenants,
            wake: setup.wake,
            direct: setup.direct,
            cpu_ns: setup.cpu_ns,
            counters: JournalTally::default(),
        }
    }

    /// Makes `frame` free. The caller gives it up: no tenant may have a page in it.
    pub fn add(&self, frame: Frame) {
        self.zone.give(&mut self.zone.lock(), frame.0 as u32, 0);
    }

    /// The place of CPU `cpu`, which one thread at a time may use.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn seat(&self, cpu: u16) -> JournalSeat<'_, M> {
        let cpu = usize::from(cpu);
        assert!(cpu < self.per_cpu.len(), "CPU {cpu} is none of it");
        JournalSeat { journal: self, cpu }
    }

    /// Frames in the zone's lists, at about this moment.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.zone.free()
    }

    /// What it counted so far.
    #[must_use]
    pub fn counters(&self) -> JournalCounters {
        let c = &self.counters;
        JournalCounters {
            allocs: c.allocs.load(Relaxed),
            spills: c.spills.load(Relaxed),
            compact_stall: c.compact_stall.load(Relaxed),
            compact_success: c.compact_success.load(Relaxed),
            allocstall: c.allocstall.load(Relaxed),
            migrated: c.migrated.load(Relaxed),
            reclaimed: c.reclaimed.load(Relaxed),
            compact_ns: c.compact_ns.load(Relaxed),
            reclaim_ns: c.reclaim_ns.load(Relaxed),
        }
    }

    /// What its locks counted so far.
    #[must_use]
    pub fn lock_counts(&self) -> Vec<LockCount> {
        let mut counts = vec![self.zone.locks().count()];
        counts.extend(self.areas.lock_counts());
        counts
    }

    /// Checks the invariants of zone and areas, and returns how many frames are free. No other thread
    /// may use the allocator meanwhile.
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn verify(&self) -> Result<u64, String> {
        self.areas.verify()?;
        let cached: u64 = self.per_cpu.iter().map(JournalPerCpu::frames).sum();
        Ok(self.zone.recount()? + cached)
    }

    /// What `work` gives; its CPU time is added to a count.
    fn timed<R>(
        &self,
        which: impl FnOnce(&JournalTally) -> &AtomicU64,
        work: impl FnOnce() -> R,
    ) -> R {
        let Some(cpu_ns) = self.cpu_ns else {
            return work();
        };
        let begin = cpu_ns();
        let out = work();
        self.count(which, cpu_ns() - begin);
        out
    }

    fn count(&self, which: impl FnOnce(&JournalTally) -> &AtomicU64, by: u64) {
        which(&self.counters).fetch_add(by, Relaxed);
    }
}

impl<M: RangePlatform + JournalContents> JournalSeat<'_, M> {
    /// An object of `bytes` bytes, at least a page: there are no slabs. `None` if there are no
    /// frames or no address space for it.
    pub fn kvmalloc(&mut self, bytes: u64) -> Option<Addr> {
        let journal = self.journal;
        let pages = bytes.div_ceil(Page::BYTES).max(1);
        let order = pages.next_power_of_two().trailing_zeros() as usize;
        if let Some(frame) = self.contiguous(order) {
            journal.count(|c| &c.allocs, 1);
            journal.objects[frame as usize].store(order as u8, Relaxed);
            let offset = u64::from(frame) * Page::BYTES;
            return Some(Addr(journal.direct.0.wrapping_add(offset)));
        }
        let at = self.vmalloc(pages)?;
        journal.count(|c| &c.allocs, 1);
        journal.count(|c| &c.spills, 1);
        Some(Addr(at * Page::BYTES))
    }

    /// Frees an object, whichever kind it is of; whether there was one.
    pub fn kvfree(&mut self, addr: Addr) -> bool {
        let journal = self.journal;
        let offset = addr.0.wrapping_sub(journal.direct.0);
        let frame = (offset / Page::BYTES) as usize;
        let Some(object) = journal.objects.get(frame) else {
            return self.vfree(addr.page().0);
        };
        match object.swap(NO_OBJECT, Relaxed) {
            NO_OBJECT => false,
            order => {
                self.free(frame as u32, usize::from(order));
                true
            }
        }
    }

    fn vmalloc(&mut self, pages: u64) -> Option<u64> {
        let journal = self.journal;
        let start = journal.areas.reserve(pages, &journal.mapper)?;
        let mut frames = Vec::with_capacity(pages as usize);
        if self.bulk(pages as usize, &mut frames) {
            let mapped = journal.areas.map(start, &frames, &journal.mapper);
            if mapped.is_ok() {
                journal.areas.enter(start, JournalArea { frames });
                return Some(start);
            }
        }
        for frame in frames {
            self.free(frame, 0);
        }
        journal.areas.cancel(start, pages);
        None
    }

    fn vfree(&mut self, start: u64) -> bool {
        let journal = self.journal;
        let Some(area) = journal.areas.remove(start, &journal.mapper) else {
            return false;
        };
        let pages = area.frames.len() as u64;
        for frame in area.frames {
            self.free(frame, 0);
        }
        journal.areas.set_lazy(start, pages, &journal.mapper);
        true
    }
}
