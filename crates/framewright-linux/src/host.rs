// UNSAFETY: the engine borrows its metadata from a mapping that lies beside it in one value; the
// language has no name for such a borrow.

//! The engine over this process's memory: one value owns metadata, RAM and window, and what is hosted there is
//! what the engine's parts say. A thread has its seats in all parts as one [`HostCpu`].

mod error;
mod options;

pub use error::{HostError, SlotError};
pub use options::{Options, RangeOptions};

use crate::mapping::Mapping;
use crate::platform::{Linux, Membarrier, Slots, Windowed};
use crate::ram::Ram;
use crate::window::Window;
use framewright::CpuId;
use framewright::engine::{Cpu, Engine, EngineError, EngineLayout, Parts, RangeParts};
use framewright::frame::{Seat, Zone};
use framewright::kv::Kv;
use framewright::kv::KvLayout;
use framewright::platform::{FramePlatform, ObjectPlatform, RangePlatform};
use framewright::reserve::Reserve;
use framewright::vrange::Space;
use framewright::vrange::SpaceLayout;
use std::sync::Arc;

/// An engine in this process: the frames, the metadata, the platform, and the window if there is one.
/// [`Host`], [`HostSpace`] and [`HostKv`] are its three kinds.
///
/// Threads share it by reference; each has its own [`cpu`](Self::cpu). No part of it belongs to
/// another process: a forked one gets no seat ([`SlotError::Forked`]), and if it uses a seat that
/// it had, or touches a frame or the window, it ends by SIGSEGV. The parent does not notice. Only a child
/// that clone(2) makes without fork(3) shares with its parent what a window shows.
#[derive(Debug)]
pub struct HostedEngine<P: FramePlatform + Clone, W: Parts<P>> {
    // INVARIANT: the engine's 'static is a lie that stays in this file: its memory is `metadata`,
    // which is dropped after it, and it is handed out with the lifetime of a borrow of this value.
    engine: Engine<'static, P, W>,
    _metadata: Mapping,
    platform: P,
    slots: Slots,
    ram: Arc<Ram>,
}

/// Frames, and a zone of them.
///
/// ```
/// use framewright::{Mobility, Order};
/// use framewright_linux::{Host, HostError, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::of_frames(4096).with_threads(2);
/// let host = Host::new(&options)?; // Host::fenced(&options) where there is no membarrier
/// let mut seat = host.seat()?;
/// let frame = seat.alloc(Order::ZERO, Mobility::Movable)?;
/// host.ram().write(frame, &[42; 4096])?;
/// seat.free(frame, Order::ZERO)?;
/// # Ok(())
/// # }
/// ```
pub type Host<B = Membarrier> = HostedEngine<Linux<B>, ()>;

/// A [`Host`] with virtual ranges: frames, a window in which they appear, and the space that hands
/// out the window. It can have a reserve, too: [`Options::with_reserve`].
///
/// Of the space's metadata only used parts cost memory: less than 1 % of the
/// mapped memory, once that is more than a few MiB, however long the window.
///
/// ```
/// use framewright::vrange::AreaRequest;
/// use framewright_linux::{HostSpace, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::of_frames(4096).with_threads(2);
/// // HostSpace::fenced(..) where there is no membarrier
/// let host = HostSpace::new(&options)?;
/// let mut cpu = host.cpu()?;
/// let area = cpu.vmalloc(&AreaRequest::new(3).zeroed())?;
/// host.window().write(area, 4094, b"over two pages")?;
/// let mut bytes = [0; 8];
/// host.window().read(area, 4090, &mut bytes)?;
/// assert_eq!(&bytes, b"\0\0\0\0over");
/// assert_eq!(cpu.vfree(area)?, 3);
/// # Ok(())
/// # }
/// ```
pub type HostSpace<B = Membarrier> = HostedEngine<Windowed<B>, SpaceLayout>;

/// A [`HostSpace`] with objects: kmalloc and kvmalloc in its frames and in its window.
///
/// Objects are known by real addresses of this process. A caller that has an object may use its
/// bytes by them, through [`Ram::bytes_mut`](crate::Ram::bytes_mut) and [`Window::bytes_mut`], and
/// must then keep the promises of these.
///
/// ```
/// use framewright::kv::KvRequest;
/// use framewright_linux::{HostKv, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::of_frames(4096).with_threads(2);
/// // HostKv::fenced(..) where there is no membarrier
/// let host = HostKv::new(&options)?;
/// let mut cpu = host.cpu()?;
/// let small = cpu.kmalloc(&KvRequest::new(64))?;
/// let large = cpu.kvmalloc(&KvRequest::new(8 << 20).zeroed())?; // no block is so large
/// assert!(host.kv().is_mapped(large));
/// let mut bytes = [1; 100];
/// host.window().read(large.page(), 5 << 20, &mut bytes)?;
/// assert_eq!(bytes, [0; 100]);
/// cpu.kvfree(small)?;
/// cpu.kvfree(large)?;
/// # Ok(())
/// # }
/// ```
pub type HostKv<B = Membarrier> = HostedEngine<Windowed<B>, KvLayout>;

/// A thread's place in a host: its seats in all of the host's parts.
pub type HostCpu<'h, P = Windowed, W = KvLayout> = Cpu<'h, 'h, P, W>;

impl Host {
    /// A host with all frames free.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux()?, options)
    }
}

impl Host<()> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux_fenced(), options)
    }
}

impl<B: FramePlatform + Clone> Host<B> {
    fn over(linux: Linux<B>, options: &Options) -> Result<Self, HostError> {
        if options.reserve_frames > 0 {
            return Err(HostError::Reserve {
                frames: options.reserve_frames,
            });
        }
        let (slots, layout) = (linux.slots().clone(), options.engine());
        let size = MetadataSize {
            words: layout.words_needed()?,
            of_window: 0,
        };
        let ram = options.ram()?;
        Self::make(size, options, ram, slots, linux, |memory, linux| {
            Engine::in_zeroed(&layout, memory, linux)
        })
    }
}

impl HostSpace {
    /// A host with all frames free, and a window that is all free.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux()?, options)
    }
}

impl HostSpace<()> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux_fenced(), options)
    }
}

impl<B: FramePlatform + Clone> HostSpace<B> {
    fn over(linux: Linux<B>, options: &Options) -> Result<Self, HostError> {
        Self::with_window(linux, options, |layout| layout)
    }
}

impl HostKv {
    /// A host with nothing allocated.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux()?, options)
    }
}

impl HostKv<()> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options) -> Result<Self, HostError> {
        Self::over(options.linux_fenced(), options)
    }
}

impl<B: FramePlatform + Clone> HostKv<B> {
    fn over(linux: Linux<B>, options: &Options) -> Result<Self, HostError> {
        Self::with_window(linux, options, |layout| {
            let layout = layout.with_objects();
            match options.ranges.slabs_max {
                Some(slabs) => layout.with_slabs_max(slabs),
                None => layout,
            }
        })
    }
}

impl<B: FramePlatform + Clone, W: Parts<Windowed<B>>> HostedEngine<Windowed<B>, W> {
    fn with_window(
        linux: Linux<B>,
        options: &Options,
        parts: impl FnOnce(EngineLayout<SpaceLayout>) -> EngineLayout<W>,
    ) -> Result<Self, HostError> {
        let ram = options.ram()?;
        let window = options.ranges.window(&ram)?;
        let layout = parts(options.ranges.engine(options, &window));
        let slots = linux.slots().clone();
        let platform = Windowed::new(linux, window);
        match options.reserve() {
            None => {
                let size = MetadataSize {
                    words: layout.words_needed()?,
                    of_window: layout.window_words()?,
                };
                Self::make(size, options, ram, slots, platform, |memory, platform| {
                    Engine::in_zeroed(&layout, memory, platform)
                })
            }
            Some(reserve) => {
                let layout = layout.with_reserve(reserve);
                let size = MetadataSize {
                    words: layout.words_needed()?,
                    of_window: layout.window_words()?,
                };
                Self::make(size, options, ram, slots, platform, |memory, platform| {
                    Engine::in_zeroed(&layout, memory, platform)
                })
            }
        }
    }
}

/// How many words of metadata there are, and how many of them, the last ones, are the window's.
struct MetadataSize {
    words: usize,
    of_window: usize,
}

impl<P: FramePlatform + Clone, W: Parts<P>> HostedEngine<P, W> {
    fn make(
        size: MetadataSize,
        options: &Options,
        ram: Arc<Ram>,
        slots: Slots,
        platform: P,
        engine: impl FnOnce(&'static mut [u64], P) -> Result<Engine<'static, P, W>, EngineError>,
    ) -> Result<Self, HostError> {
        let metadata = Mapping::anonymous(size.words * 8)
            .map_err(|errno| HostError::Metadata(errno.raw_os_error()))?;
        // Only a hint. Each free looks its frame up, and those of many objects lie far apart; a long
        // window's words are mostly never touched.
        metadata.advise_huge_up_to((size.words - size.of_window) * 8);
        // SAFETY: used after the mapping is dropped: no, it moves into the host beside the engine,
        // which is dropped first. Accessed in another way, or called again: no, the mapping is
        // private and has no other use.
        let memory: &'static mut [u64] = unsafe { metadata.words_for_ever() };
        // Fresh from the kernel: zeroes.
        let mut engine = engine(memory, platform.clone())?;
        if options.accounts_locks {
            engine = engine.with_lock_accounts();
        }
        let added = engine.add(options.zone_run());
        added.expect("the frames are the zone's own, and none exists yet");
        let is_its = ram.is_given_by(engine.zones()[0].origin());
        debug_assert!(is_its, "it was made for this host");
        Ok(Self {
            engine,
            _metadata: metadata,
            platform,
            slots,
            ram,
        })
    }
}

impl<P: FramePlatform + Clone, W: Parts<P>> HostedEngine<P, W> {
    /// The calling thread's seats in all parts, until the value is dropped. What they have cached stays
    /// there.
    ///
    /// The thread takes a slot at its first call, and keeps it until it ends: even the destructors
    /// of its values and of pthread keys find it. If other threads have all slots, the call waits
    /// up to 50 ms for one that is ending to give its slot back.
    ///
    /// # Errors
    /// If there are more threads than slots, or the thread has one of its seats already, or the process was
    /// forked off. Nothing has changed then.
    pub fn cpu(&self) -> Result<HostCpu<'_, P, W>, SlotError> {
        let cpu = self.slot()?;
        // There are as many slots as CPUs, so none is unknown.
        self.cpu_of(cpu).ok_or(SlotError::SeatTaken(cpu))
    }

    /// The same for the zone alone: for what works with frames and knows no other part.
    ///
    /// # Errors
    /// As [`cpu`](Self::cpu).
    pub fn seat(&self) -> Result<Seat<'_, '_, P>, SlotError> {
        let cpu = self.slot()?;
        let seat = self.zone().seat(cpu);
        seat.map_err(|_| SlotError::SeatTaken(cpu))
    }

    fn slot(&self) -> Result<CpuId, SlotError> {
        if !self.ram.is_this_process() {
            return Err(SlotError::Forked);
        }
        self.slots.await_mine().map_err(SlotError::NoSlot)
    }

    /// The seats of a CPU, for any thread; `None` if one of them is taken.
    pub(crate) fn cpu_of(&self, cpu: CpuId) -> Option<HostCpu<'_, P, W>> {
        self.engine().cpu(cpu).ok()
    }

    /// The engine, which is all of this but for the memory.
    #[must_use]
    pub fn engine(&self) -> &Engine<'_, P, W> {
        // The engine's lifetime parameter shrinks to that of the borrow: the compiler accepts it
        // because no type in an engine depends on it in the other direction.
        &self.engine
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &Zone<'_, P> {
        &self.engine().zones()[0]
    }

    /// The reserve, if the options name one.
    #[must_use]
    pub fn reserve(&self) -> Option<&Reserve<'_, P>> {
        self.engine().reserve()
    }

    /// The threads' slots.
    #[must_use]
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The frames' contents.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The same, for windows of its own.
    #[must_use]
    pub const fn ram_shared(&self) -> &Arc<Ram> {
        &self.ram
    }

    /// What the engine asks of this process.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }
}

impl<P: RangePlatform + Clone, W: RangeParts<P>> HostedEngine<P, W> {
    /// The space.
    #[must_use]
    pub fn space(&self) -> &Space<'_, P> {
        self.engine().space()
    }
}

impl<B: FramePlatform + Clone, W: Parts<Windowed<B>>> HostedEngine<Windowed<B>, W> {
    /// The window, and its bytes.
    #[must_use]
    pub fn window(&self) -> &Window {
        self.platform.window()
    }
}

impl<P: ObjectPlatform + Clone> HostedEngine<P, KvLayout> {
    /// The object allocator.
    #[must_use]
    pub fn kv(&self) -> &Kv<'_, P> {
        self.engine().objects()
    }
}

#[cfg(test)]
mod tests;
