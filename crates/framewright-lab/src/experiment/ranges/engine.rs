//! The engine as a subject of the experiments on virtual ranges.

use crate::experiment::{Allocator, Failure, SpaceSubject, SubjectCounters};
use framewright::frame::FrameSource;
use framewright::platform::RangePlatform;
use framewright::policy::RangeConfig;
use framewright::vrange::{AreaRequest, RangeError, RangeFreeError, RangeSeat, Space, SpaceLayout};
use framewright::{Context, CpuId, Frame, Page};

/// The most pages of one `map_ram` in any case.
pub(super) const RAM_PAGES_MAX: usize = 64;

/// What a seat of the engine takes its frames from.
pub(in crate::experiment) trait SeatFrames: Sync {
    /// One CPU's source.
    type Source<'a>: FrameSource + Send
    where
        Self: 'a;

    /// The source of CPU `cpu`.
    fn source(&self, cpu: CpuId) -> Result<Self::Source<'_>, Failure>;

    /// The frames that CPU `cpu` maps with `map_ram`, as many as any case asks for.
    fn shown(&self, cpu: CpuId) -> Result<[Frame; RAM_PAGES_MAX], Failure>;
}

/// The engine as a subject. `REAL`: areas have frames and are mapped (`vmalloc`); otherwise they are
/// address space only.
#[derive(Debug)]
pub(in crate::experiment) struct RangeEngine<'e, 'm, P, F, const REAL: bool> {
    pub(in crate::experiment) space: &'e Space<'m, P>,
    pub(in crate::experiment) frames: &'e F,
}

/// Runs `work` on a fresh space in `window`.
pub(in crate::experiment) fn with_space<P: RangePlatform, R>(
    layout: &SpaceLayout,
    config: &RangeConfig,
    platform: P,
    work: impl FnOnce(&Space<'_, P>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // Zeroed by the system as it is touched.
    let mut words = vec![0; layout.words_needed()?];
    let space = Space::new(layout, config, &mut words, platform)?;
    work(&space)
}

impl<P, F, const REAL: bool> Allocator for RangeEngine<'_, '_, P, F, REAL>
where
    P: RangePlatform + Sync,
    F: SeatFrames,
{
    type Seat<'a>
        = RangeEngineSeat<'a, P, F::Source<'a>, REAL>
    where
        Self: 'a;

    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure> {
        let cpu = CpuId(cpu);
        let source = self.frames.source(cpu)?;
        Ok(RangeEngineSeat {
            seat: self.space.seat(cpu, source)?,
            shown: self.frames.shown(cpu)?,
        })
    }

    fn counters(&self) -> SubjectCounters {
        let stats = self.space.stats();
        let bound = self.space.lazy_bound_pages();
        let batches = u64::from(self.space.cpus()) * self.space.lazy_batch_pages();
        SubjectCounters {
            area_allocs: stats.alloc_vmap_area,
            block_frees: stats.free_vmap_block,
            tlb_flushes: stats.tlb_flushes,
            lazy_pages_peak: stats.lazy_pages_peak,
            lazy_pages_bound: bound,
            lazy_pages_most: Some(bound + batches),
            // With spans most areas are cut from no gap.
            fits: (!self.space.config().spans).then_some([
                stats.fits_full,
                stats.fits_left_edge,
                stats.fits_right_edge,
                stats.fits_no_edge,
            ]),
            areas_walked: None,
            merges_per_hold_max: Some(stats.merges_per_hold_max),
        }
    }
}

/// One CPU's seat in the engine.
pub(in crate::experiment) struct RangeEngineSeat<'a, P, S, const REAL: bool> {
    seat: RangeSeat<'a, 'a, P, S>,
    shown: [Frame; RAM_PAGES_MAX],
}

impl<P, S, const REAL: bool> SpaceSubject for RangeEngineSeat<'_, P, S, REAL>
where
    P: RangePlatform,
    S: FrameSource,
{
    #[inline]
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        let request = AreaRequest::new(pages).aligned_to(align_bytes);
        if REAL {
            self.seat.vmalloc(&request)
        } else {
            self.seat.alloc_area(&request)
        }
    }

    #[inline]
    fn free(&mut self, page: Page) -> Result<(), RangeFreeError> {
        if REAL {
            self.seat.vfree(page)?;
        } else {
            self.seat.free_area(page)?;
        }
        Ok(())
    }

    #[inline]
    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError> {
        let frames = self
            .shown
            .get(..pages as usize)
            .ok_or(RangeError::TooLong { pages })?;
        self.seat.map_ram(frames, Context::ANY)
    }

    #[inline]
    fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<(), RangeFreeError> {
        self.seat.unmap_ram(page, pages)?;
        Ok(())
    }

    fn purge(&mut self) {
        self.seat.purge();
    }

    fn drain(&mut self) {
        self.seat.drain();
    }
}
