//! The front door: all allocators of one machine, in one value, over one slice of metadata.
//!
//! ```text
//!   EngineLayout ──words_needed──▶ the caller hands in one slice ──▶ Engine
//!                                                                     │ cpu(id)
//!   Engine:  zones ◀── space ◀── objects          reserve             ▼
//!   Cpu:     seats in zones ◀── in space ◀── in objects    guest     requests
//! ```
//!
//! An engine always has zones, from one to as many as its type says, and their reclaim. The type's
//! [parts](Parts) say what lies over the zones: `()`, [`SpaceLayout`](crate::vrange::SpaceLayout) or
//! [`KvLayout`].
//! What an engine does not have costs nothing, and asks nothing of its platform. A reserve is a run
//! of frames outside the zones, if the layout names one.
//!
//! A CPU works through its [`Cpu`], which holds its seats in all parts. A part that an engine has
//! can be used alone, too: the engine shows each of them.
//!
//! # Invariants
//! - **EN1** The engine holds no state of its own: its parts and their invariants are all there is.
//! - **EN2** A `Cpu` holds all seats of its CPU, or the call that asked for it has taken none.
//! - **EN3** A request without clients reclaims nothing. With clients, only a request whose context
//!   may block and may reclaim asks them.
//! - **EN4** A frame is a zone's or the reserve's. The reserve may lie in a hole of a zone:
//!   [`Engine::add`] refuses its frames. (A zone's own [`add`](Zone::add) knows no reserve.)
//! - **EN5** Where a call [lets interrupts in](RangePlatform::interrupt_window), none of its CPU's seats is busy, and it
//!   holds no lock: another seat may do anything.
//!
//! # Locks
//! None of its own.

mod cpu;
mod error;
mod layout;
mod objects;
mod parts;
mod relief;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use cpu::Cpu;
pub use error::EngineError;
pub use layout::{EngineLayout, ReservePart};
use parts::SharedParts;
pub use parts::{Parts, RangeParts};

use crate::frame::Zone;
use crate::kv::{Kv, KvLayout};
use crate::platform::{FramePlatform, ObjectPlatform, RangePlatform};
use crate::raw::Carver;
use crate::reclaim::{Reclaim, ReclaimWords};
use crate::reserve::Reserve;
use crate::stats::{Broken, FrameStats};
use crate::units::{CpuId, Frame, Run, RunError, SetupError};
use crate::vrange::Space;
use core::fmt;
use core::marker::PhantomData;

/// All allocators of one machine. CPUs share it by reference; each works through its [`Cpu`].
///
/// `P` is the platform, of which each part has a copy. `W` says what there is beside frames, by the
/// last layout that it needs: `()`, [`SpaceLayout`](crate::vrange::SpaceLayout) or [`KvLayout`]. `ZONES` says how many
/// zones there are. It borrows one slice of metadata, which a kernel takes from its
/// early memory for `'static`.
///
/// ```
/// use framewright::engine::{Engine, EngineLayout};
/// use framewright::platform::SingleThread;
/// use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layout = EngineLayout::new(Frame(0), 4096);
/// let mut metadata = vec![0; layout.words_needed()?];
/// let engine = Engine::new(&layout, &mut metadata, SingleThread::new())?;
/// engine.add(Run::new(Frame(0), 4096).ok_or("a run")?)?;
/// let mut cpu = engine.cpu(CpuId(0))?;
/// let frame = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY)?;
/// cpu.free(frame, Order::ZERO)?;
/// # Ok(())
/// # }
/// ```
pub struct Engine<'m, P: FramePlatform + Clone, W: Parts<P> = KvLayout, const ZONES: usize = 1> {
    zones: [Zone<'m, P>; ZONES],
    reclaim: [ReclaimWords<'m>; ZONES],
    shared: SharedParts<'m, P>,
    reserve: Option<Reserve<'m, P>>,
    parts: PhantomData<W>,
}

impl<'m, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> Engine<'m, P, W, ZONES> {
    /// An engine of that layout in `memory`, which has at least as many words as
    /// [`EngineLayout::words_needed`] says; their values do not matter.
    ///
    /// No frame of the zones exists yet: see [`add`](Self::add). Time: O(metadata).
    ///
    /// # Errors
    /// What is wrong with layout, configuration or memory, with the number.
    pub fn new<G: ReservePart<P>>(
        layout: &EngineLayout<W, G, ZONES>,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, EngineError> {
        Self::in_memory(layout, memory, platform, false)
    }

    /// As [`new`](Self::new), in memory that holds zeroes, as a host's fresh mapping does. It does not touch
    /// the words of frames, of the address space and of objects that are never used. Time: O(pageblocks of the zones, and
    /// metadata of a reserve and of the units of per-CPU objects).
    ///
    /// If memory holds anything else, it may hand out what is not free; it breaks no other promise of the
    /// language.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_zeroed<G: ReservePart<P>>(
        layout: &EngineLayout<W, G, ZONES>,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, EngineError> {
        Self::in_memory(layout, memory, platform, true)
    }

    fn in_memory<G: ReservePart<P>>(
        layout: &EngineLayout<W, G, ZONES>,
        memory: &'m mut [u64],
        platform: P,
        is_zeroed: bool,
    ) -> Result<Self, EngineError> {
        let needed = layout.words_needed()?;
        let mut carver = Carver::new(memory, needed).map_err(EngineError::Metadata)?;
        let mut zones = [const { None }; ZONES];
        let mut reclaim = [const { None }; ZONES];
        for (nth, zone) in layout.zones.iter().enumerate() {
            let place = |error| EngineError::Zone { nth, error };
            let memory = carver.cut(zone.words_needed().map_err(place)?);
            let config = &layout.config;
            let made = Zone::in_memory(zone, config, memory, platform.clone(), is_zeroed);
            let made = made.map_err(place)?;
            let pageblocks = made.pageblocks();
            let memory = carver.cut(ReclaimWords::needed(pageblocks));
            let words = ReclaimWords::new(pageblocks, &layout.reclaim, memory).map_err(place)?;
            zones[nth] = Some(made);
            reclaim[nth] = Some(words);
        }
        let extent = layout.extent()?;
        let words = layout.reserve.words_needed(&extent)?;
        let reserve = layout.reserve.make(&extent, carver.cut(words), &platform)?;
        // Last: see `EngineLayout::window_words`.
        let memory = carver.cut(W::words_needed(&extent)?);
        let shared = W::make(&extent, memory, &platform, is_zeroed)?;
        Ok(Self {
            zones: zones.map(|zone| zone.expect("each zone was made")),
            reclaim: reclaim.map(|words| words.expect("each zone's reclaim was made")),
            shared,
            reserve,
            parts: PhantomData,
        })
    }

    /// The same with its locks accounted, for the statistics: those of the zones, of the address space and
    /// of objects. Each lock that is taken then costs two readings of the clock.
    #[must_use]
    pub fn with_lock_accounts(self) -> Self
    where
        P: FramePlatform,
    {
        Self {
            zones: self.zones.map(Zone::with_lock_accounts),
            shared: self.shared.with_lock_accounts(),
            ..self
        }
    }

    /// Says that the frames of `run` exist, all of them free: memory found at boot, or plugged in later.
    /// The run lies in one zone. Stops all CPUs. Time: as [`Zone::add`].
    ///
    /// # Errors
    /// As [`Zone::add`]; [`RunError::Outside`] if it begins in no zone; [`RunError::Present`] if a frame is
    /// the reserve's (EN4). Nothing has changed then.
    pub fn add(&self, run: Run) -> Result<(), RunError> {
        if let Some(reserve) = &self.reserve {
            let (start, end) = (reserve.run().start(), reserve.run().end());
            let first = run.start().max(start);
            if first < run.end().min(end) {
                return Err(RunError::Present(first));
            }
        }
        let zone = self.zone_of(run.start());
        zone.ok_or(RunError::Outside)?.add(run)
    }

    /// Says that the frames of `run`, all of them free, no longer exist.
    ///
    /// # Errors
    /// As [`Zone::remove`]; [`RunError::Outside`] if it begins in no zone. Nothing has changed then.
    pub fn remove(&self, run: Run) -> Result<(), RunError> {
        let zone = self.zone_of(run.start());
        zone.ok_or(RunError::Outside)?.remove(run)
    }

    /// The seats of `cpu` in all parts, until the value is dropped. What they have cached stays there.
    /// Time: an atomic operation for each part.
    ///
    /// # Errors
    /// If one of the seats is taken, or the engine was made for fewer CPUs. No seat is taken then.
    pub fn cpu(&self, cpu: CpuId) -> Result<Cpu<'_, 'm, P, W, ZONES>, SetupError> {
        Cpu::take(self, cpu)
    }

    /// The zones, in the order in which requests prefer them.
    #[must_use]
    pub const fn zones(&self) -> &[Zone<'m, P>; ZONES] {
        &self.zones
    }

    /// The zone to which `frame` belongs, whether it exists or not.
    #[must_use]
    pub fn zone_of(&self, frame: Frame) -> Option<&Zone<'m, P>> {
        self.zones.iter().find(|zone| zone.contains(frame))
    }

    /// The sum of all zones' counters.
    #[must_use]
    pub fn frame_stats(&self) -> FrameStats {
        let mut sum = FrameStats::default();
        for zone in &self.zones {
            sum.add(&zone.stats());
        }
        sum
    }

    /// The reclaim of zone `nth`, for its background and its counters.
    ///
    /// # Panics
    /// If there is no such zone.
    #[must_use]
    pub const fn reclaim(&self, nth: usize) -> Reclaim<'_, 'm, P> {
        self.reclaim[nth].of(&self.zones[nth])
    }

    /// The reserve, if the layout has one.
    #[must_use]
    pub const fn reserve(&self) -> Option<&Reserve<'m, P>> {
        self.reserve.as_ref()
    }

    /// Checks the invariants of all parts. Stops the CPUs of each part for O(metadata): for tests.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn verify(&self) -> Result<(), Broken> {
        self.zones.iter().try_for_each(Zone::verify)?;
        W::verify(&self.shared)?;
        self.reserve.as_ref().map_or(Ok(()), Reserve::verify)
    }
}

impl<'m, P: RangePlatform + Clone, W: RangeParts<P>, const ZONES: usize> Engine<'m, P, W, ZONES> {
    /// The address space.
    #[must_use]
    pub const fn space(&self) -> &Space<'m, P> {
        self.shared.space()
    }
}

impl<'m, P: ObjectPlatform + Clone, const ZONES: usize> Engine<'m, P, KvLayout, ZONES> {
    /// The object allocator.
    #[must_use]
    pub const fn objects(&self) -> &Kv<'m, P> {
        self.shared.kv()
    }
}

impl<P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> fmt::Debug
    for Engine<'_, P, W, ZONES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.zones[0].cpus();
        f.debug_struct("Engine")
            .field("zones", &ZONES)
            .field("cpus", &cpus)
            .finish_non_exhaustive()
    }
}
