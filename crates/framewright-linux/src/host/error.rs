//! Why there is no host, and why a thread has no seat in it.

use crate::platform::{NoMembarrier, NoSlot};
use crate::ram::RamError;
use crate::window::WindowError;
use framewright::CpuId;
use framewright::engine::EngineError;
use std::fmt;

/// Why there is no host. Nothing is left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The engine cannot be made that way.
    Setup(EngineError),
    /// The machine gave no RAM for the frames.
    Ram(RamError),
    /// The machine gave no memory for metadata; an errno.
    Metadata(i32),
    /// There is no window for the frames.
    Window(WindowError),
    /// A [`Heap`](crate::Heap) is for 1 to 1022 threads, and has more frames than that.
    Heap {
        /// The frames asked for.
        frames: u64,
        /// The threads asked for.
        threads: u16,
    },
    /// A [`Host`](super::Host) has no reserve, and no reserve ends past the last number of a frame.
    Reserve {
        /// The frames asked for.
        frames: u64,
    },
    /// The kernel has no membarrier: [`Host::fenced`](super::Host::fenced) does without.
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
            Self::Heap { frames, threads } if (1..=1022).contains(threads) => write!(
                f,
                "a heap of {frames} frames is too small for {threads} threads: at least {} are needed",
                threads + 1
            ),
            Self::Heap { threads, .. } => {
                write!(f, "a heap for {threads} threads: 1 to 1022 are possible")
            }
            Self::Reserve { frames } => write!(
                f,
                "a reserve of {frames} frames: expected a host with a window, and numbers for so many frames",
            ),
            Self::NoMembarrier => NoMembarrier.fmt(f),
            Self::Forked => {
                f.write_str("another thread was making it when this process was forked off")
            }
        }
    }
}

impl std::error::Error for HostError {}

impl From<EngineError> for HostError {
    fn from(error: EngineError) -> Self {
        Self::Setup(error)
    }
}

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
