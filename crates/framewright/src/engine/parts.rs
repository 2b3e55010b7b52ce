//! What an engine has over its zones: nothing, an address space, or that and objects.

use super::relief::ZoneRelief;
use super::{CpuError, EngineError, Extent};
use crate::frame::Seats;
use crate::kv::{Kv, KvLayout, KvSeat};
use crate::platform::{FramePlatform, ObjectPlatform, RangePlatform};
use crate::policy::RangeConfig;
use crate::stats::Broken;
use crate::units::CpuId;
use crate::vrange::{RangeSeat, Space, SpaceLayout};

/// A part of a layout: how much metadata it needs.
pub trait PartLayout: sealed::SealedPart + Copy {
    /// How many words of metadata it needs.
    ///
    /// # Errors
    /// If it cannot be made that way.
    fn words_needed(&self, extent: &Extent) -> Result<usize, EngineError>;
}

mod sealed {
    use super::super::NoReserve;
    use super::{FramesOnly, WithObjects, WithRanges};
    use crate::reserve::ReserveLayout;

    pub trait SealedPart {}
    impl SealedPart for FramesOnly {}
    impl SealedPart for WithRanges {}
    impl SealedPart for WithObjects {}
    impl SealedPart for NoReserve {}
    impl SealedPart for ReserveLayout {}
}

/// What an engine has over its zones: [`FramesOnly`], [`WithRanges`] or [`WithObjects`]. Each asks its
/// platform for what it needs, and for no more.
pub trait Parts<P: FramePlatform + Clone>: PartLayout {
    /// What all CPUs share.
    type Shared<'m>;
    /// What one CPU has: its seats, with those in the zones inside.
    type Seat<'e, 'm: 'e, const ZONES: usize>
    where
        P: 'e;

    /// Makes the shared part.
    ///
    /// # Errors
    /// What is wrong with the layout.
    fn make<'m>(
        &self,
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
    ) -> Result<Self::Shared<'m>, EngineError>;

    /// Takes the seats of a CPU, around those in the zones.
    ///
    /// # Errors
    /// If one is taken, or there are fewer CPUs.
    fn seat<'e, 'm, const ZONES: usize>(
        shared: &'e Self::Shared<'m>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Self::Seat<'e, 'm, ZONES>, CpuError>;

    /// The seats in the zones.
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut Self::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES>;

    /// Has the objects, if there are any, ask `relief` from now on.
    fn relieve<'e, 'm, const ZONES: usize>(
        seat: &mut Self::Seat<'e, 'm, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    );

    /// Checks the invariants of the shared part.
    ///
    /// # Errors
    /// The first that does not hold.
    fn verify(shared: &Self::Shared<'_>) -> Result<(), Broken>;
}

/// An engine of page frames and nothing else. Its platform waits and has barriers
/// ([`FramePlatform`]).
#[derive(Clone, Copy, Debug)]
pub struct FramesOnly;

impl PartLayout for FramesOnly {
    fn words_needed(&self, _extent: &Extent) -> Result<usize, EngineError> {
        Ok(0)
    }
}

impl<P: FramePlatform + Clone> Parts<P> for FramesOnly {
    type Shared<'m> = ();
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = Seats<'e, 'm, P, ZONES>
    where
        P: 'e;

    fn make(
        &self,
        _extent: &Extent,
        _memory: &mut [u64],
        _platform: &P,
    ) -> Result<(), EngineError> {
        Ok(())
    }

    fn seat<'e, 'm, const ZONES: usize>(
        (): &'e (),
        _cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Seats<'e, 'm, P, ZONES>, CpuError> {
        Ok(frames)
    }

    #[inline(always)]
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as Parts<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES> {
        seat
    }

    fn relieve<'e, 'm, const ZONES: usize>(
        _seat: &mut Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) {
    }

    fn verify((): &()) -> Result<(), Broken> {
        Ok(())
    }
}

/// An engine of page frames and an address space in which they appear. Its platform has page tables
/// too ([`RangePlatform`]).
#[derive(Clone, Copy, Debug)]
pub struct WithRanges {
    pub(super) layout: SpaceLayout,
    pub(super) config: Option<RangeConfig>,
}

impl WithRanges {
    const fn layout(&self, extent: &Extent) -> SpaceLayout {
        self.layout.with_cpus(extent.cpus)
    }
}

impl PartLayout for WithRanges {
    fn words_needed(&self, extent: &Extent) -> Result<usize, EngineError> {
        Ok(self.layout(extent).words_needed()?)
    }
}

impl<P: RangePlatform + Clone> Parts<P> for WithRanges {
    type Shared<'m> = Space<'m, P>;
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>
    where
        P: 'e;

    fn make<'m>(
        &self,
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
    ) -> Result<Space<'m, P>, EngineError> {
        let config = self.config.unwrap_or(RangeConfig::for_cpus(extent.cpus));
        let layout = self.layout(extent);
        Ok(Space::new(&layout, &config, memory, platform.clone())?)
    }

    fn seat<'e, 'm, const ZONES: usize>(
        space: &'e Space<'m, P>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>, CpuError> {
        space.seat(cpu, frames).map_err(|_| CpuError::Taken(cpu))
    }

    #[inline(always)]
    fn frames<'a, 'e, 'm, const ZONES: usize>(
        seat: &'a mut <Self as Parts<P>>::Seat<'e, 'm, ZONES>,
    ) -> &'a mut Seats<'e, 'm, P, ZONES> {
        seat.frames()
    }

    fn relieve<'e, 'm, const ZONES: usize>(
        _seat: &mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>,
        _relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) {
    }

    fn verify(space: &Space<'_, P>) -> Result<(), Broken> {
        space.verify()
    }
}

/// An engine of page frames, an address space, and objects in both. Its platform has a direct map too
/// ([`ObjectPlatform`]).
#[derive(Clone, Copy, Debug)]
pub struct WithObjects(pub(super) WithRanges);

impl WithObjects {
    const fn layout(extent: &Extent) -> KvLayout {
        KvLayout::new(extent.start, extent.frames).with_cpus(extent.cpus)
    }
}

/// What the CPUs of an engine with objects share.
#[derive(Debug)]
pub struct ObjectParts<'m, P> {
    pub(super) space: Space<'m, P>,
    pub(super) kv: Kv<'m, P>,
}

impl PartLayout for WithObjects {
    fn words_needed(&self, extent: &Extent) -> Result<usize, EngineError> {
        Ok(self.0.words_needed(extent)? + Self::layout(extent).words_needed()?)
    }
}

impl<P: ObjectPlatform + Clone> Parts<P> for WithObjects {
    type Shared<'m> = ObjectParts<'m, P>;
    type Seat<'e, 'm: 'e, const ZONES: usize>
        = KvSeat<'e, 'e, 'm, P, Seats<'e, 'm, P, ZONES>, ZoneRelief<'e, 'm, P, ZONES>>
    where
        P: 'e;

    fn make<'m>(
        &self,
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
    ) -> Result<ObjectParts<'m, P>, EngineError> {
        let (of_space, of_objects) = memory.split_at_mut(self.0.words_needed(extent)?);
        let space = self.0.make(extent, of_space, platform)?;
        let kv = Kv::new(&Self::layout(extent), of_objects, platform.clone())?;
        kv.check_window(space.start(), space.pages())?;
        Ok(ObjectParts { space, kv })
    }

    fn seat<'e, 'm, const ZONES: usize>(
        shared: &'e ObjectParts<'m, P>,
        cpu: CpuId,
        frames: Seats<'e, 'm, P, ZONES>,
        relief: ZoneRelief<'e, 'm, P, ZONES>,
    ) -> Result<Self::Seat<'e, 'm, ZONES>, CpuError> {
        let ranges = WithRanges::seat(&shared.space, cpu, frames, relief)?;
        let seat = shared.kv.seat(ranges).map_err(|_| CpuError::Taken(cpu))?;
        Ok(seat.with_relief(relief))
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

    fn verify(shared: &ObjectParts<'_, P>) -> Result<(), Broken> {
        shared.space.verify()?;
        shared.kv.verify()
    }
}
