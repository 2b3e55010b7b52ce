// UNSAFETY: the zone borrows its metadata from a mapping that lies beside it in one value; the
// language has no name for such a borrow.

use crate::mapping::Mapping;
use crate::platform::{Linux, Membarrier, NoMembarrier, NoSlot, Slots};
use crate::ram::{Ram, RamError, RamPages};
use crate::window::WindowError;
use framewright::frame::{Seat, SeatError, Zone, ZoneLayout, ZoneSetupError};
use framewright::platform::{Barrier, Fenced};
use framewright::policy::Config;
use framewright::{CpuId, Run, kv, vrange};
use std::fmt;
use std::sync::Arc;

/// The specification of a [`Host`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which frames exist, and for how many threads at a time.
    pub layout: ZoneLayout,
    /// The zone's policies.
    pub config: Config,
    /// Which pages the frames lie in.
    pub pages: RamPages,
    /// Whether locks are accounted, for the statistics: those of the zone, of a space over it, and
    /// of objects in them. Each lock that is taken then costs two readings of the clock.
    pub accounts_locks: bool,
}

impl Options {
    /// The zone `layout` with default policies, in base pages.
    #[must_use]
    pub fn new(layout: ZoneLayout) -> Self {
        Self {
            layout,
            config: Config::default(),
            pages: RamPages::Base,
            accounts_locks: false,
        }
    }
}

/// Why there is no host. Nothing is left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The zone cannot be made that way.
    Setup(ZoneSetupError),
    /// The machine gave no RAM for the frames.
    Ram(RamError),
    /// The machine gave no memory for metadata; an errno.
    Metadata(i32),
    /// There is no window for the frames.
    Window(WindowError),
    /// The space cannot be made that way.
    Ranges(vrange::RangeSetupError),
    /// The object allocator cannot be made that way.
    Objects(kv::KvSetupError),
    /// A [`Heap`](crate::Heap) is for 1 to 1022 threads, and has more frames than that.
    Heap {
        /// The frames asked for.
        frames: u64,
        /// The threads asked for.
        threads: u16,
    },
    /// The kernel has no membarrier: [`Host::fenced`] does without.
    NoMembarrier,
    /// Another thread of the parent's was making it when this process was forked off.
    Forked,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Ram(error) => error.fmt(f),
            Self::Metadata(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                write!(f, "no memory for metadata: {reason}")
            }
            Self::Window(error) => error.fmt(f),
            Self::Ranges(error) => error.fmt(f),
            Self::Objects(error) => error.fmt(f),
            Self::Heap { frames, threads } if (1..=1022).contains(threads) => write!(
                f,
                "a heap of {frames} frames is too small for {threads} threads: at least {} are needed",
                threads + 1
            ),
            Self::Heap { threads, .. } => {
                write!(f, "a heap for {threads} threads: 1 to 1022 are possible")
            }
            Self::NoMembarrier => NoMembarrier.fmt(f),
            Self::Forked => {
                f.write_str("another thread was making it when this process was forked off")
            }
        }
    }
}

impl std::error::Error for HostError {}

/// Why a thread has no seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotError {
    /// More threads than slots, or the thread is ending.
    NoSlot(NoSlot),
    /// The thread has its seat already, and has not dropped it yet.
    SeatTaken(CpuId),
    /// The process was forked off from the one that made the host and has the frames.
    Forked,
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot(error) => error.fmt(f),
            Self::SeatTaken(cpu) => write!(f, "the seat of {cpu} is in use"),
            Self::Forked => {
                f.write_str("the host is the parent's: this process was forked off from it")
            }
        }
    }
}

impl std::error::Error for SlotError {}

/// A zone of page frames in this process: the frames, their metadata and the platform.
///
/// Threads share it by reference; each has its own [`seat`](Self::seat). No part of it belongs to
/// another process: a forked one gets no seat ([`SlotError::Forked`]), and if it uses a seat that
/// it had, or touches a frame, it ends by SIGSEGV. The parent does not notice.
///
/// ```
/// use framewright::{Frame, Mobility, Order, frame::ZoneLayout};
/// use framewright_linux::{Host, HostError, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(2));
/// let host = Host::new(&options)?; // Host::fenced(&options) where there is no membarrier
/// let mut seat = host.seat()?;
/// let frame = seat.alloc(Order::ZERO, Mobility::Movable)?;
/// host.ram().write(frame, &[42; 4096])?;
/// seat.free(frame, Order::ZERO)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Host<B = Membarrier> {
    // INVARIANT: the zone's 'static is a lie that stays in this file: its memory is `metadata`,
    // which is dropped after it, and it is handed out with the lifetime of a borrow of the host.
    zone: Zone<'static, Linux<B>>,
    platform: Linux<B>,
    ram: Arc<Ram>,
    _metadata: Mapping,
}

impl Host<Membarrier> {
    /// A host with all frames free.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options) -> Result<Self, HostError> {
        let platform = Linux::new(Slots::new(options.layout.cpus));
        Self::with_platform(
            options,
            platform.map_err(|NoMembarrier| HostError::NoMembarrier)?,
        )
    }
}

impl Host<Fenced> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options) -> Result<Self, HostError> {
        Self::with_platform(options, Linux::fenced(Slots::new(options.layout.cpus)))
    }
}

impl<B: Barrier + Clone> Host<B> {
    fn with_platform(options: &Options, platform: Linux<B>) -> Result<Self, HostError> {
        let layout = &options.layout;
        let words = layout.words_needed().map_err(HostError::Setup)?;
        let frames = Run::new(layout.start, layout.frames).expect("the layout was checked");
        let ram = Ram::new(frames, options.pages).map_err(HostError::Ram)?;
        let metadata = Mapping::anonymous(words * 8)
            .map_err(|errno| HostError::Metadata(errno.raw_os_error()))?;
        // Only a hint: fewer misses where the host follows it.
        let _ = metadata.advise_huge();
        // SAFETY: used after the mapping is dropped: no, it moves into the host beside the zone,
        // which is dropped first. Accessed in another way, or called again: no, the mapping is
        // private and has no other use.
        let memory: &'static mut [u64] = unsafe { metadata.words_for_ever() };
        let zone = Zone::new(layout, &options.config, memory, platform.clone())
            .map_err(HostError::Setup)?;
        let zone = if options.accounts_locks {
            zone.with_lock_accounts()
        } else {
            zone
        };
        zone.add(frames)
            .expect("the frames are the zone's own, and none exists yet");
        Ok(Self {
            zone,
            platform,
            ram: Arc::new(ram),
            _metadata: metadata,
        })
    }

    /// The calling thread's seat, until it is dropped. Its cached blocks stay there.
    ///
    /// The thread takes a slot at its first call, and keeps it until it ends: even the destructors
    /// of its values and of pthread keys find it. If other threads have all slots, the call waits
    /// up to 50 ms for one that is ending to give its slot back.
    ///
    /// # Errors
    /// If there are more threads than slots, or the thread has its seat already, or the process was forked off.
    /// Nothing has changed then.
    pub fn seat(&self) -> Result<Seat<'_, '_, Linux<B>>, SlotError> {
        if !self.ram.is_this_process() {
            return Err(SlotError::Forked);
        }
        let cpu = self
            .platform
            .slots()
            .await_mine()
            .map_err(SlotError::NoSlot)?;
        self.zone().seat(cpu).map_err(|error| match error {
            // There are as many slots as seats, so no slot is unknown.
            SeatError::Taken(cpu) | SeatError::Unknown(cpu) => SlotError::SeatTaken(cpu),
        })
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &Zone<'_, Linux<B>> {
        // The zone's lifetime parameter shrinks to that of the borrow: the compiler accepts it
        // because no type in a zone depends on it in the other direction.
        &self.zone
    }
}

impl<B> Host<B> {
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

    /// Clock and slots.
    #[must_use]
    pub const fn platform(&self) -> &Linux<B> {
        &self.platform
    }
}
