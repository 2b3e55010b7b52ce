//! The engine inside a Linux process: memory is a memfd, CPUs are threads' slots.
//!
//! ```text
//!     HostedEngine ─┬─ Ram     the frames: a memfd with a direct map        [`ram`]
//!                   ├─ Engine  zone, space and objects; their metadata in one mapping
//!                   ├─ Linux   what the engine asks: relax, barrier, clock  [`platform`]
//!                   │   └─ Slots  a number for each thread, given back at its end
//!                   └─ Windowed  or that, and address space in which the frames appear  [`window`]
//!
//!     Host, HostSpace, HostKv: a HostedEngine of frames; with virtual ranges; with these and objects
//!
//!     Anon ─┬─ Window        user addresses behind which frames move  [`anon`]
//!           └─ Migrate     what compaction asks of it
//!
//!     paged::Paged ─┬─ Window     more pages than frames, brought when they are touched  [`paged`]
//!                   └─ Frontswap  where the others are, in front of a device    [`swap`]
//!
//!     SwapFile, Zram ── where pages lie that have no frame              [`swap`]
//!
//!     FileCache ─┬─ Shrink  files through frames, over a cleancache       [`file_cache`]
//!                └─ Migrate
//!
//!     Tenancy               what all of those ask of the engine         [`tenancy`]
//!
//!     Heap ─── HostKv, a seat for each thread: the global allocator     [`heap`]
//! ```
//!
//! A host is made once and shared by reference; each thread asks it for its [`cpu`](HostedEngine::cpu), by
//! which it does everything. No setting of the machine is changed, and no privilege is needed. A
//! [`RamReport`] or an error tells what the machine did not give (huge pages, membarrier).
//!
//! # Forked processes
//! A forked process has nothing of a host: its calls return an error, and touching the memory ends
//! it by SIGSEGV, so that the two processes cannot hand out the same frames. It may make hosts of
//! its own. It can read what a [`Heap`] held. A child that clone(2) makes without fork(3) shares
//! the windows with its parent: it must not touch them.
//!
//! # What is not here
//! The CPU that a thread runs on: a slot belongs to a thread and not to a CPU, because a thread may
//! move at any instruction.

pub mod anon;
mod event;
mod fault;
pub mod file_cache;
mod fork;
mod gate;
pub mod heap;
mod host;
mod latency;
mod mapping;
pub mod paged;
pub mod platform;
pub mod ram;
mod reverse;
pub mod swap;
pub mod tenancy;
mod timed;
pub mod window;
mod words;

pub use anon::Anon;
pub use file_cache::FileCache;
pub use fork::Process;
pub use heap::{Heap, HeapError, HeapOptions, HeapStats, HeapWith};
pub use host::{
    Host, HostCpu, HostError, HostKv, HostSpace, HostedEngine, Options, RangeOptions, SlotError,
};
pub use latency::LatencyHistogram;
pub use platform::{Linux, Membarrier, Stored, Windowed};
pub use ram::{Ram, RamPages, RamReport};
pub use swap::{Frontswap, SwapDevice, SwapFile, Zram};
pub use tenancy::{Guests, Tenancy};
pub use timed::TimedArea;
pub use window::Window;

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
