//! Real memory and real mappings for the experiments on virtual ranges.

use super::engine::{RAM_PAGES_MAX, SeatFrames};
use super::null;
use crate::before::vmalloc::{AreaSet, VmallocList};
use crate::experiment::{Allocator, Failure, SpaceSubject, SubjectCounters, WINDOW_PAGES};
use framewright::frame::{FrameSource, Seat, Zone, ZoneLayout};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::policy::Config;
use framewright::vrange::{RangeError, RangeFreeError, SpaceLayout};
use framewright::{Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_linux::{Membarrier, Ram, RamPages, Window};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Frames of a hosted experiment: 512 MiB, committed as they are touched.
const RAM_FRAMES: u64 = (512 << 20) / Frame::BYTES;

/// The order of the block that a CPU shows.
const SHOWN: Order = Order::new(RAM_PAGES_MAX.ilog2() as u8).expect("64 pages are a block");

/// Real memory: a memfd's frames, an allocator for them, and a window in which they are mapped.
#[derive(Debug)]
pub(in crate::experiment) struct Hosted<'z, 'm> {
    pub(in crate::experiment) platform: &'z MappedHost,
    zone: &'z Zone<'m, &'z MappedHost>,
    /// What each CPU shows with `map_ram`.
    shown: Vec<[Frame; RAM_PAGES_MAX]>,
}

/// The platform: a window with waiting and barrier.
#[derive(Debug)]
pub(in crate::experiment) struct MappedHost {
    window: Window,
    barrier: Membarrier,
}

impl MappedHost {
    /// The whole window, for `cpus` CPUs.
    pub(in crate::experiment) const fn layout(&self, cpus: u16) -> SpaceLayout {
        let range = self.window.range();
        SpaceLayout::new(range.start(), range.pages()).with_cpus(cpus)
    }

    pub(in crate::experiment) const fn range(&self) -> PageRange {
        self.window.range()
    }
}

/// Runs `work` on fresh memory for `cpus` CPUs.
pub(in crate::experiment) fn with_host<R>(
    cpus: u16,
    work: impl FnOnce(&Hosted<'_, '_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let barrier = Membarrier::register().map_err(Failure::new)?;
    let run = Run::new(Frame(0), RAM_FRAMES)
        .ok_or_else(|| Failure::new("the frames' numbers end past the number range"))?;
    let ram = Arc::new(Ram::new(run, RamPages::Base).map_err(Failure::new)?);
    let window = Window::new(ram, WINDOW_PAGES).map_err(Failure::new)?;
    let platform = MappedHost { window, barrier };
    let layout = ZoneLayout::new(Frame(0), RAM_FRAMES).with_cpus(cpus);
    let mut words = vec![0; layout.words_needed().map_err(Failure::new)?];
    let zone = Zone::new(&layout, &Config::default(), &mut words, &platform);
    let zone = zone.map_err(Failure::new)?;
    zone.add(run).map_err(Failure::new)?;
    let shown = (0..cpus).map(|cpu| {
        // One block, so that a mapping is one call; taken for as long as the memory is there.
        let mut seat = zone.seat(CpuId(cpu)).map_err(Failure::new)?;
        let first = seat
            .alloc(SHOWN, Mobility::Unmovable)
            .map_err(Failure::new)?;
        Ok(std::array::from_fn(|nth| Frame(first.0 + nth as u64)))
    });
    work(&Hosted {
        platform: &platform,
        zone: &zone,
        shown: shown.collect::<Result<_, Failure>>()?,
    })
}

impl FramePlatform for MappedHost {
    const ASYMMETRIC: bool = <Membarrier as FramePlatform>::ASYMMETRIC;

    fn relax(&self, attempt: u32) {
        null::relax(attempt);
    }

    fn barrier_all(&self) {
        self.barrier.barrier_all();
    }
}

impl RangePlatform for MappedHost {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.window.map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.window.unmap(range)
    }

    fn flush_all(&self) {
        self.window.flush_all();
    }

    fn zero(&self, frames: Run) {
        self.window.zero(frames);
    }
}

impl<'z, 'm> SeatFrames for Hosted<'z, 'm> {
    type Source<'a>
        = Seat<'a, 'm, &'z MappedHost>
    where
        Self: 'a;

    fn source(&self, cpu: CpuId) -> Result<Self::Source<'_>, Failure> {
        self.zone.seat(cpu).map_err(Failure::new)
    }

    fn shown(&self, cpu: CpuId) -> Result<[Frame; RAM_PAGES_MAX], Failure> {
        let shown = self.shown.get(cpu.index());
        shown
            .copied()
            .ok_or_else(|| Failure::new(format!("{cpu} has no frames to show")))
    }
}

/// A list of `before` or `proposed` with memory. The frames come from the source that the engine has, in the runs that
/// it asks for; a free unmaps them before it returns, and only the address space is lazy.
#[derive(Debug)]
pub(in crate::experiment) struct HostedList<'h, 'z, 'm, A> {
    list: VmallocList<A, &'h MappedHost>,
    host: &'h Hosted<'z, 'm>,
    /// The frames of each live area. Linux has them in the area's descriptor.
    areas: Mutex<BTreeMap<u64, Vec<Run>>>,
}

impl<'h, 'z, 'm, A: AreaSet> HostedList<'h, 'z, 'm, A> {
    pub(in crate::experiment) fn new(host: &'h Hosted<'z, 'm>, cpus: u16) -> Self {
        Self {
            list: VmallocList::new(host.platform.range(), cpus, host.platform),
            host,
            areas: Mutex::new(BTreeMap::new()),
        }
    }
}

impl<'h, 'z, 'm, A: AreaSet + Send> Allocator for HostedList<'h, 'z, 'm, A> {
    type Seat<'a>
        = HostedListSeat<'a, 'h, 'z, 'm, A>
    where
        Self: 'a;

    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure> {
        let frames = self.host.source(CpuId(cpu))?;
        Ok(HostedListSeat { all: self, frames })
    }

    fn counters(&self) -> SubjectCounters {
        Allocator::counters(&self.list)
    }
}

/// One CPU's way into [`HostedList`].
pub(in crate::experiment) struct HostedListSeat<'a, 'h, 'z, 'm, A> {
    all: &'a HostedList<'h, 'z, 'm, A>,
    frames: Seat<'a, 'm, &'z MappedHost>,
}

impl<A: AreaSet> HostedListSeat<'_, '_, '_, '_, A> {
    /// Frames in the longest runs that are cheap to find, as the engine takes them.
    fn take(&mut self, pages: u64) -> Result<Vec<Run>, RangeError> {
        let mut runs: Vec<Run> = Vec::new();
        let (mut left, mut most) = (pages, pages);
        while left > 0 {
            match self.frames.alloc_run(left.min(most), Context::ANY) {
                Ok(run) => {
                    left -= run.frames();
                    // If there were no longer runs, there will be none the next time.
                    most = run.frames() * 2;
                    runs.push(run);
                }
                Err(error) => {
                    self.give_back(&runs);
                    return Err(RangeError::Frames(error));
                }
            }
        }
        Ok(runs)
    }

    fn give_back(&mut self, runs: &[Run]) {
        runs.iter().for_each(|&run| self.frames.free_run(run));
    }
}

impl<A: AreaSet> SpaceSubject for HostedListSeat<'_, '_, '_, '_, A> {
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        let start = self.all.list.alloc(pages, align_bytes)?;
        let runs = match self.take(pages) {
            Ok(runs) => runs,
            Err(error) => {
                let _ = self.all.list.free(start);
                return Err(error);
            }
        };
        let mut at = start;
        for &run in &runs {
            if let Err(error) = self
                .all
                .host
                .platform
                .map(at, run, PageAccess::DATA, &mut ())
            {
                // The free unmaps what was mapped before.
                let _ = self.all.list.free(start);
                self.give_back(&runs);
                return Err(RangeError::Map(error));
            }
            at = Page(at.0 + run.frames());
        }
        let mut areas = self
            .all
            .areas
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        areas.insert(start.0, runs);
        Ok(start)
    }

    fn free(&mut self, page: Page) -> Result<(), RangeFreeError> {
        let areas = &self.all.areas;
        let runs = areas
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&page.0);
        self.all.list.free(page)?;
        self.give_back(&runs.unwrap_or_default());
        Ok(())
    }

    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError> {
        self.alloc(pages, Page::BYTES)
    }

    fn unmap_ram(&mut self, page: Page, _pages: u64) -> Result<(), RangeFreeError> {
        self.free(page)
    }

    fn purge(&mut self) {
        self.all.list.purge();
    }

    fn drain(&mut self) {
        self.all.list.purge();
    }
}
