//! What an engine has over its zones: nothing, an address space, or that and objects.

use super::EngineError;
use super::layout::{Extent, PartLayout};
use super::relief::ZoneRelief;
use crate::frame::Seats;
use crate::kv::{Kv, KvLayout, KvSeat};
use crate::percpu::{PerCpuUnits, UnitsLayout};
use crate::platform::{FramePlatform, ObjectPlatform, RangePlatform};
use crate::policy::RangeConfig;
use crate::stats::Broken;
use crate::units::{CpuId, Page, SetupError};
use crate::vrange::{RangeSeat, Space, SpaceLayout};

/// What an engine has over its zones, named by the last layout that it needs: nothing (`()`), an address space
/// ([`SpaceLayout`]), or that and objects ([`KvLayout`]). Each asks its platform for what it needs, and for no more.
#[expect(private_bounds, reason = "no others have parts")]
pub trait Parts<P: FramePlatform + Clone>: PartsOf<P> {}

impl<P: FramePlatform + Clone> Parts<P> for () {}
impl<P: RangePlatform + Clone> Parts<P> for SpaceLayout {}
impl<P: ObjectPlatform + Clone> Parts<P> for KvLayout {}

/// The parts with an address space: [`SpaceLayout`] or [`KvLayout`].
#[expect(private_bounds, reason = "no others have parts")]
pub trait RangeParts<P: RangePlatform + Clone>: Parts<P> + RangePartsOf<P> {}

impl<P: RangePlatform + Clone> RangeParts<P> for SpaceLayout {}
impl<P: ObjectPlatform + Clone> RangeParts<P> for KvLayout {}

/// What the engine asks of its [`Parts`].
pub(super) trait PartsOf<P: FramePlatform + Clone>: PartLayout {
    /// What one CPU has: its seats, with those in the zones inside.
    type Seat<'e, 'm: 'e, const ZONES: usize>
    where
        P: 'e;

    /// Makes what all CPUs share, in words that hold zeroes if `is_zeroed`.
    ///
    /// # Errors
    /// What is wrong with the layout.
    fn make<'m>(
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
        is_zeroed: bool,
    ) -> Result<SharedParts<'m, P>, EngineError>;

    /// Takes the seats of a CPU, around those in the zones.
    ///
    /// # Errors
    /// If one is taken, or there are fewer CPUs.
    fn seat<'e, 'm, const ZONES: usize>(
        shared: &'e SharedParts<'m, P>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Self::Seat<'e, 'm, ZONES>, SetupError>;

    /// The seats in the zones.
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut Self::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES>;

    /// Has the objects, if there are any, ask `relief` from now on.
    fn relieve<'e, 'm, const ZONES: usize>(
        seat: &mut Self::Seat<'e, 'm, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    );

    /// Gives back what all CPUs keep over the zones.
    fn drain<const ZONES: usize>(shared: &SharedParts<'_, P>, seat: &mut Self::Seat<'_, '_, ZONES>);

    /// Checks the invariants of the shared part.
    ///
    /// # Errors
    /// The first that does not hold.
    fn verify(shared: &SharedParts<'_, P>) -> Result<(), Broken>;
}

/// What the engine asks of [`RangeParts`].
pub(super) trait RangePartsOf<P: RangePlatform + Clone>: PartsOf<P> {
    /// The seat in the address space.
    fn ranges<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut Self::Seat<'e, 'm, ZONES>,
    ) -> &'a mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>;
}

/// What the CPUs of an engine share over its zones. Which of it there is depends on the engine's parts.
#[derive(Debug)]
pub(super) struct SharedParts<'m, P> {
    space: Option<Space<'m, P>>,
    kv: Option<Kv<'m, P>>,
    percpu: Option<PerCpuUnits<'m, P>>,
}

impl<'m, P> SharedParts<'m, P> {
    const NONE: Self = Self {
        space: None,
        kv: None,
        percpu: None,
    };

    /// The address space of [`RangeParts`].
    pub(super) const fn space(&self) -> &Space<'m, P> {
        self.space.as_ref().expect("these parts have a window")
    }

    /// The object allocator of [`KvLayout`].
    pub(super) const fn kv(&self) -> &Kv<'m, P> {
        self.kv.as_ref().expect("these parts have objects")
    }

    /// The per-CPU objects, if the layout has some.
    pub(super) const fn percpu(&self) -> Option<&PerCpuUnits<'m, P>> {
        self.percpu.as_ref()
    }

    pub(super) fn with_lock_accounts(self) -> Self
    where
        P: FramePlatform,
    {
        Self {
            space: self.space.map(Space::with_lock_accounts),
            kv: self.kv.map(Kv::with_lock_accounts),
            ..self
        }
    }
}

// An engine of page frames and nothing else. Its platform waits and has barriers.
impl PartLayout for () {
    fn words_needed(_extent: &Extent) -> Result<usize, EngineError> {
        Ok(0)
    }
}

impl<P: FramePlatform + Clone> PartsOf<P> for () {
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = Seats<'e, 'm, P, ZONES>
    where
        P: 'e;

    fn make<'m>(
        _extent: &Extent,
        _memory: &'m mut [u64],
        _platform: &P,
        _is_zeroed: bool,
    ) -> Result<SharedParts<'m, P>, EngineError> {
        Ok(SharedParts::NONE)
    }

    fn seat<'e, 'm, const ZONES: usize>(
        _shared: &'e SharedParts<'m, P>,
        _cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Seats<'e, 'm, P, ZONES>, SetupError> {
        Ok(frames)
    }

    #[inline(always)]
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as PartsOf<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES> {
        seat
    }

    fn relieve<'e, 'm, const ZONES: usize>(
        _seat: &mut Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) {
    }

    fn drain<const ZONES: usize>(
        _shared: &SharedParts<'_, P>,
        _seat: &mut <Self as PartsOf<P>>::Seat<'_, '_, ZONES>,
    ) {
    }

    fn verify(_shared: &SharedParts<'_, P>) -> Result<(), Broken> {
        Ok(())
    }
}

/// Of this many frames one may lie behind a lazy page, and one in a kept area.
const LAZY_SHARE: u64 = 32;

/// The layout of the address space of an engine that has one: what the units leave of the window.
///
/// # Errors
/// If a unit is too long for the window, or for any, or the units end past all addresses.
fn space_of(extent: &Extent) -> Result<SpaceLayout, EngineError> {
    let mut layout = extent.space.expect("these parts have a window");
    let (cpus, pages) = (u64::from(extent.units.0), extent.units.1);
    if cpus != 0 {
        let most = layout.pages.saturating_sub(1).checked_div(cpus);
        let max = most.unwrap_or(0).min(UnitsLayout::PAGES_MAX);
        let is_right = SetupError::limits(&[
            ("CPUs with a unit", cpus, 1, extent.cpus.into()),
            ("pages of a unit", pages, 1, max),
        ]);
        is_right.map_err(EngineError::Ranges)?;
        // Of what the units leave, the space looks at the end itself.
        let end = layout.start.checked_add(layout.pages);
        if end.and_then(Page::address).is_none() {
            let (what, start) = ("the window's pages", layout.start.0);
            return Err(EngineError::Ranges(SetupError::End { what, start }));
        }
        layout.pages -= cpus * pages;
    }
    Ok(layout.with_cpus(extent.cpus))
}

/// The units of an engine that has per-CPU objects, behind its areas.
///
/// # Errors
/// As [`space_of`].
fn units_of(extent: &Extent) -> Result<Option<UnitsLayout>, EngineError> {
    let space = space_of(extent)?;
    let start = space.start.checked_add(space.pages);
    Ok(start
        .filter(|_| extent.units.0 != 0)
        .map(|start| UnitsLayout {
            start,
            cpus: extent.units.0,
            pages: extent.units.1,
        }))
}

// An engine of page frames and an address space in which they appear. Its platform has page tables too.
impl PartLayout for SpaceLayout {
    fn words_needed(extent: &Extent) -> Result<usize, EngineError> {
        let layout = space_of(extent)?;
        layout.words_needed().map_err(EngineError::Ranges)
    }

    fn window_words(extent: &Extent) -> Result<usize, EngineError> {
        <Self as PartLayout>::words_needed(extent)
    }
}

impl<P: RangePlatform + Clone> PartsOf<P> for SpaceLayout {
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>
    where
        P: 'e;

    fn make<'m>(
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
        is_zeroed: bool,
    ) -> Result<SharedParts<'m, P>, EngineError> {
        let mut config = extent.ranges.unwrap_or(RangeConfig::for_cpus(extent.cpus));
        // Frames behind these pages serve no request for frames.
        let share = extent.frames / LAZY_SHARE;
        config.lazy_pages_max = config.lazy_pages_max.min(share);
        let layout = space_of(extent)?;
        let space = Space::in_memory(&layout, &config, memory, platform.clone(), is_zeroed);
        let space = space.map_err(EngineError::Ranges)?;
        Ok(SharedParts {
            space: Some(space.with_kept_share(LAZY_SHARE)),
            ..SharedParts::NONE
        })
    }

    fn seat<'e, 'm, const ZONES: usize>(
        shared: &'e SharedParts<'m, P>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>, SetupError> {
        shared.space().seat(cpu, frames)
    }

    #[inline(always)]
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as PartsOf<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES> {
        seat.frames()
    }

    fn relieve<'e, 'm, const ZONES: usize>(
        _seat: &mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) {
    }

    fn drain<const ZONES: usize>(
        _shared: &SharedParts<'_, P>,
        seat: &mut <Self as PartsOf<P>>::Seat<'_, '_, ZONES>,
    ) {
        seat.drain();
    }

    fn verify(shared: &SharedParts<'_, P>) -> Result<(), Broken> {
        shared.space().verify()
    }
}

impl<P: RangePlatform + Clone> RangePartsOf<P> for SpaceLayout {
    #[inline(always)]
    fn ranges<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as PartsOf<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>> {
        seat
    }
}

/// The layout of the objects of an engine that has some.
fn objects_of(extent: &Extent) -> KvLayout {
    let layout = KvLayout::new(extent.start, extent.frames).with_cpus(extent.cpus);
    layout.with_slabs_max(extent.slabs_max.unwrap_or(layout.slabs_max))
}

// An engine of page frames, an address space, and objects in both. Its platform has a direct map too.
impl PartLayout for KvLayout {
    fn words_needed(extent: &Extent) -> Result<usize, EngineError> {
        let words = objects_of(extent).words_needed();
        let units = units_of(extent)?.map_or(0, |units| units.words_needed());
        Ok(words.map_err(EngineError::Objects)? + units + Self::window_words(extent)?)
    }

    fn window_words(extent: &Extent) -> Result<usize, EngineError> {
        SpaceLayout::window_words(extent)
    }
}

impl<P: ObjectPlatform + Clone> PartsOf<P> for KvLayout {
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = KvSeat<'e, 'e, 'm, P, Seats<'e, 'm, P, ZONES>, ZoneRelief<'e, 'm, P, ZONES>>
    where
        P: 'e;

    fn make<'m>(
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
        is_zeroed: bool,
    ) -> Result<SharedParts<'m, P>, EngineError> {
        let layout = objects_of(extent);
        let (of_objects, rest) =
            memory.split_at_mut(layout.words_needed().map_err(EngineError::Objects)?);
        let units = units_of(extent)?;
        let (of_units, of_space) = rest.split_at_mut(units.map_or(0, |units| units.words_needed()));
        let shared = SpaceLayout::make(extent, of_space, platform, is_zeroed)?;
        let kv = Kv::in_memory(&layout, of_objects, platform.clone(), is_zeroed);
        let kv = kv.map_err(EngineError::Objects)?;
        let window = extent.space.expect("these parts have a window");
        if let Some((window, direct)) = kv.overlap(window.start, window.pages) {
            return Err(EngineError::Objects(SetupError::Overlap { window, direct }));
        }
        let percpu = units.map(|units| PerCpuUnits::new(&units, of_units, platform.clone()));
        Ok(SharedParts {
            kv: Some(kv),
            percpu,
            ..shared
        })
    }

    fn seat<'e, 'm, const ZONES: usize>(
        shared: &'e SharedParts<'m, P>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Self::Seat<'e, 'm, ZONES>, SetupError> {
        let ranges = SpaceLayout::seat(shared, cpu, frames, relief)?;
        Ok(shared.kv().seat(ranges)?.with_relief(relief))
    }

    #[inline(always)]
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut Self::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES> {
        seat.ranges().frames()
    }

    fn relieve<'e, 'm, const ZONES: usize>(
        seat: &mut Self::Seat<'e, 'm, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) {
        seat.set_relief(relief);
    }

    fn drain<const ZONES: usize>(
        shared: &SharedParts<'_, P>,
        seat: &mut <Self as PartsOf<P>>::Seat<'_, '_, ZONES>,
    ) {
        seat.ranges().drain();
        seat.drain();
        if let Some(units) = shared.percpu() {
            units.purge(seat.ranges().frames());
        }
    }

    fn verify(shared: &SharedParts<'_, P>) -> Result<(), Broken> {
        shared.space().verify()?;
        shared.kv().verify()?;
        shared.percpu().map_or(Ok(()), PerCpuUnits::verify)
    }
}

impl<P: ObjectPlatform + Clone> RangePartsOf<P> for KvLayout {
    #[inline(always)]
    fn ranges<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as PartsOf<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>> {
        seat.ranges()
    }
}
