//! The layout of an engine: what memory there is, for how many CPUs, and which parts.

use super::EngineError;
use crate::frame::ZoneLayout;
use crate::kv::KvLayout;
use crate::platform::ReservePlatform;
use crate::policy::{Config, RangeConfig, ReclaimConfig};
use crate::raw::zeroed_words;
use crate::reclaim::ReclaimWords;
use crate::reserve::{Reserve, ReserveLayout};
use crate::units::{FRAMES_MAX, Frame, Page};
use crate::vrange::SpaceLayout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// What memory an engine has, for how many CPUs, and which parts. It determines the size of the
/// metadata.
#[derive(Clone, Copy, Debug)]
pub struct EngineLayout<W = (), G = (), const ZONES: usize = 1> {
    pub(super) zones: [ZoneLayout; ZONES],
    pub(super) config: Config,
    pub(super) reclaim: ReclaimConfig,
    /// The address space, if there is one, and its policies if they are the caller's.
    space: Option<SpaceLayout>,
    ranges: Option<RangeConfig>,
    /// The most slabs, if that is the caller's choice.
    slabs_max: Option<u64>,
    /// How many CPUs have a unit for per-CPU objects, and the pages of each.
    units: (u16, u64),
    parts: PhantomData<W>,
    pub(super) reserve: G,
}

/// The frames of all zones, from the lowest to the highest, and what was chosen for the parts over them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: Frame,
    pub(super) frames: u64,
    pub(super) cpus: u16,
    pub(super) space: Option<SpaceLayout>,
    pub(super) ranges: Option<RangeConfig>,
    pub(super) slabs_max: Option<u64>,
    pub(super) units: (u16, u64),
}

/// What there is over the zones: how much metadata it needs. For any platform.
pub(super) trait PartLayout {
    /// How many words of metadata it needs.
    ///
    /// # Errors
    /// If it cannot be made that way.
    fn words_needed(extent: &Extent) -> Result<usize, EngineError>;

    /// How many of these words, the last ones, are the address space's.
    ///
    /// # Errors
    /// If it cannot be made that way.
    fn window_words(_extent: &Extent) -> Result<usize, EngineError> {
        Ok(0)
    }
}

impl EngineLayout {
    /// One zone of `frames` frames from `start` on, holes included, for one CPU.
    #[must_use]
    pub fn new(start: Frame, frames: u64) -> Self {
        EngineLayout::of_zones([ZoneLayout::new(start, frames)])
    }

    /// Memory that holds nothing yet, as words for metadata: of an engine, or of a part alone. A kernel's loader has such
    /// memory. It writes zeroes, so [`in_zeroed`](super::Engine::in_zeroed) may follow. Time: O(memory).
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use framewright::Frame;
    /// use framewright::engine::{Engine, EngineLayout};
    /// use framewright::platform::SingleThread;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layout = EngineLayout::new(Frame(0x1000), 4096);
    /// let mut memory = vec![MaybeUninit::uninit(); layout.words_needed()?];
    /// let metadata = EngineLayout::metadata_in(&mut memory);
    /// let engine = Engine::in_zeroed(&layout, metadata, SingleThread::new())?;
    /// engine.verify()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metadata_in(memory: &mut [MaybeUninit<u64>]) -> &mut [u64] {
        zeroed_words(memory)
    }
}

impl<const ZONES: usize> EngineLayout<(), (), ZONES> {
    /// Several zones, in the order in which requests prefer them, for as many CPUs as the first one has.
    #[must_use]
    pub fn of_zones(zones: [ZoneLayout; ZONES]) -> Self {
        let cpus = zones.first().map_or(1, |zone| zone.cpus);
        Self {
            zones: zones.map(|zone| zone.with_cpus(cpus)),
            config: Config::default(),
            reclaim: ReclaimConfig::default(),
            space: None,
            ranges: None,
            slabs_max: None,
            units: (0, 0),
            parts: PhantomData,
            reserve: (),
        }
    }

    /// The same with a window of address space, `pages` pages from `start` on: areas, and mappings of the
    /// caller's frames.
    #[must_use]
    pub fn with_window(self, start: Page, pages: u64) -> EngineLayout<SpaceLayout, (), ZONES> {
        let space = Some(SpaceLayout::new(start, pages));
        Self { space, ..self }.with(())
    }
}

impl<const ZONES: usize> EngineLayout<SpaceLayout, (), ZONES> {
    /// The same with policies of the caller's for the address space. Default:
    /// [`RangeConfig::for_cpus`].
    #[must_use]
    pub fn with_range_config(mut self, config: RangeConfig) -> Self {
        self.ranges = Some(config);
        self
    }

    /// The same with objects: kmalloc and kvmalloc. Their metadata are about a word for each frame of all
    /// zones, and of the holes between them.
    #[must_use]
    pub fn with_objects(self) -> EngineLayout<KvLayout, (), ZONES> {
        self.with(())
    }

    /// The same with spans of `pages` pages in the address space: see [`SpaceLayout::span_pages`].
    #[must_use]
    pub fn with_span_pages(mut self, pages: u32) -> Self {
        self.space = self.space.map(|space| space.with_span_pages(pages));
        self
    }
}

impl<const ZONES: usize> EngineLayout<KvLayout, (), ZONES> {
    /// The same with at most `slabs` slabs: see [`KvLayout::slabs_max`].
    #[must_use]
    pub fn with_slabs_max(mut self, slabs: u64) -> Self {
        self.slabs_max = Some(slabs);
        self
    }

    /// The same with per-CPU objects, in a unit of `pages` pages for each of the first `cpus` CPUs: the last pages of the
    /// window are the units', and its areas have the others. A unit has at most 2^20 pages, and at least one page of the
    /// window is left for areas. Metadata: 88 bytes for each page of a unit, and 8 for each CPU; frames as they are used.
    #[must_use]
    pub fn with_percpu(mut self, cpus: u16, pages: u64) -> Self {
        self.units = (cpus, pages);
        self
    }
}

impl<W, const ZONES: usize> EngineLayout<W, (), ZONES> {
    /// The same with a reserve: frames in no zone, which guests have until their owner takes them. Its
    /// `cpus` are the engine's.
    #[must_use]
    pub fn with_reserve(self, reserve: ReserveLayout) -> EngineLayout<W, ReserveLayout, ZONES> {
        self.with(reserve)
    }
}

impl<W, G, const ZONES: usize> EngineLayout<W, G, ZONES> {
    /// The same layout for other parts and another reserve.
    fn with<V, H>(self, reserve: H) -> EngineLayout<V, H, ZONES> {
        EngineLayout {
            zones: self.zones,
            config: self.config,
            reclaim: self.reclaim,
            space: self.space,
            ranges: self.ranges,
            slabs_max: self.slabs_max,
            units: self.units,
            parts: PhantomData,
            reserve,
        }
    }

    /// The same for `cpus` CPUs, 1 to 1023.
    #[must_use]
    pub fn with_cpus(mut self, cpus: u16) -> Self {
        self.zones = self.zones.map(|zone| zone.with_cpus(cpus));
        self
    }

    /// The same with policies of the caller's for the frames.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The same with policies of the caller's for reclaim and compaction.
    #[must_use]
    pub fn with_reclaim_config(mut self, config: ReclaimConfig) -> Self {
        self.reclaim = config;
        self
    }

    /// What the zones span.
    pub(super) fn extent(&self) -> Result<Extent, EngineError> {
        let ends = |zone: &ZoneLayout| zone.start.0.saturating_add(zone.frames);
        let start = self.zones.iter().map(|zone| zone.start.0).min();
        let end = self.zones.iter().map(ends).max();
        let (Some(start), Some(end)) = (start, end) else {
            return Err(EngineError::Zones);
        };
        for (nth, zone) in self.zones.iter().enumerate() {
            let overlaps =
                |other: &ZoneLayout| zone.start.0 < ends(other) && other.start.0 < ends(zone);
            if self.zones[..nth].iter().any(overlaps) {
                return Err(EngineError::Zones);
            }
        }
        if end - start > FRAMES_MAX {
            return Err(EngineError::Zones);
        }
        Ok(Extent {
            start: Frame(start),
            frames: end - start,
            cpus: self.zones[0].cpus,
            space: self.space,
            ranges: self.ranges,
            slabs_max: self.slabs_max,
            units: self.units,
        })
    }

    /// How many words of metadata the engine needs, all parts together.
    ///
    /// # Errors
    /// If no engine can have the layout.
    #[expect(
        private_bounds,
        reason = "`Parts` and `ReservePart` of any platform imply them"
    )]
    pub fn words_needed(&self) -> Result<usize, EngineError>
    where
        W: PartLayout,
        G: ReserveWords,
    {
        let mut words = 0;
        for (nth, zone) in self.zones.iter().enumerate() {
            let error = |error| EngineError::Zone { nth, error };
            words += zone.words_needed().map_err(error)?;
            words += ReclaimWords::needed(zone.pageblocks().map_err(error)?);
        }
        let extent = self.extent()?;
        Ok(words + self.reserve.words_needed(&extent)? + W::words_needed(&extent)?)
    }

    /// How many frames these words fill, if they begin at one: a kernel takes them from its memory, and [adds] the others.
    ///
    /// [adds]: super::Engine::add
    ///
    /// # Errors
    /// As [`words_needed`](Self::words_needed).
    #[expect(
        private_bounds,
        reason = "`Parts` and `ReservePart` of any platform imply them"
    )]
    pub fn frames_needed(&self) -> Result<u64, EngineError>
    where
        W: PartLayout,
        G: ReserveWords,
    {
        Ok((self.words_needed()? as u64 * 8).div_ceil(Frame::BYTES))
    }

    /// How many of these words, the last ones, are the address space's. The space touches only those of
    /// pages that are used, so a host may prefer small pages behind them, and large ones behind the others.
    ///
    /// # Errors
    /// As [`words_needed`](Self::words_needed).
    #[expect(private_bounds, reason = "`Parts` of any platform implies it")]
    pub fn window_words(&self) -> Result<usize, EngineError>
    where
        W: PartLayout,
    {
        W::window_words(&self.extent()?)
    }
}

/// A layout's reserve, or `()`: how many words of metadata it needs. For any platform.
pub(super) trait ReserveWords {
    /// How many words of metadata it needs.
    ///
    /// # Errors
    /// If it cannot be made that way.
    fn words_needed(&self, extent: &Extent) -> Result<usize, EngineError>;
}

/// A layout's reserve: `()` for none, or a [`ReserveLayout`], which asks its platform for frames' contents.
#[expect(private_bounds, reason = "there are no others")]
pub trait ReservePart<P>: ReserveOf<P> {}

impl<P> ReservePart<P> for () {}
impl<P: ReservePlatform + Clone> ReservePart<P> for ReserveLayout {}

/// What the engine asks of its [`ReservePart`].
pub(super) trait ReserveOf<P>: ReserveWords {
    /// The reserve.
    ///
    /// # Errors
    /// What is wrong with the layout.
    fn make<'m>(
        &self,
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
    ) -> Result<Option<Reserve<'m, P>>, EngineError>;
}

impl ReserveWords for () {
    fn words_needed(&self, _extent: &Extent) -> Result<usize, EngineError> {
        Ok(0)
    }
}

impl<P> ReserveOf<P> for () {
    fn make<'m>(
        &self,
        _extent: &Extent,
        _memory: &'m mut [u64],
        _platform: &P,
    ) -> Result<Option<Reserve<'m, P>>, EngineError> {
        Ok(None)
    }
}

impl ReserveWords for ReserveLayout {
    fn words_needed(&self, extent: &Extent) -> Result<usize, EngineError> {
        Self::words_needed(&self.with_cpus(extent.cpus)).map_err(EngineError::Reserve)
    }
}

impl<P: ReservePlatform + Clone> ReserveOf<P> for ReserveLayout {
    fn make<'m>(
        &self,
        extent: &Extent,
        memory: &'m mut [u64],
        platform: &P,
    ) -> Result<Option<Reserve<'m, P>>, EngineError> {
        let layout = self.with_cpus(extent.cpus);
        let made = Reserve::new(&layout, memory, platform.clone());
        made.map(Some).map_err(EngineError::Reserve)
    }
}
