//! A machine in a variable, and the checks of the engine on it.
//!
//! ```text
//!     Case ──seed──▶ ops (plain data) ──▶ driver ──▶ Zone over a Machine ──┐
//!       ▲                                   │                             ├─ compared after each op
//!       │                                   └──────▶ FrameModel ──────────┘
//!       └── shrink: the shortest sequence that still differs
//! ```
//!
//! - [`Machine`]: CPUs, a virtual clock, metadata memory, and the failure of the n-th call of
//!   anything that the engine asks for. The same calls give the same answers, bit for bit.
//! - [`Paging`]: such a machine with frames, a page table and a TLB for each CPU, which records
//!   each use of a stale translation.
//! - [`FrameModel`]: the page-frame allocator's obviously right, slow twin: one state a frame. It
//!   does not say which block is handed out, only which could be, and when one must be.
//! - [`RangeModel`](range::RangeModel): that of virtual ranges, a sorted list of the live areas.
//! - [`ObjectModel`](object::ObjectModel): that of objects, with their bytes.
//! - [reclaim's](reclaim): that, and the owner and contents of each block, under simulated clients.
//! - [reserve's](reserve): what each key was put as last, which may be missed, and what owners have.
//! - [`FrameCase`]: shape of a zone, policies, CPUs and the mixture of operations; a seed makes it a
//!   sequence. One `u64` repeats a run. A space has [its own](range::RangeCase), and so have [objects](object::ObjectCase).
//! - [`frame::run`], [`range::run`], [`object::run`] and [`reclaim::run`] run a sequence on both. The loops are all
//!   [`drive`]'s: a run in step, every sequence, each call that fails; [`shrink`] makes a failing
//!   sequence short.
//! - [The guests' contract](contract): one check for each clause, for any store; and the [poison test](contract::poison),
//!   for any store with owners.
//! - [`Hammer`](range::Hammer): threads in one space, with every mapping and word checked.
#![forbid(unsafe_code)]

pub mod contract;
mod difference;
pub mod drive;
pub mod frame;
mod machine;
pub mod object;
mod paging;
mod random;
pub mod range;
pub mod reclaim;
pub mod reserve;
mod shrink;

pub use difference::{Difference, Finding, RunSummary};
pub use frame::{FrameCase, FrameModel, FrameOp};
pub use machine::{Injected, Machine, MachineCall, MetadataError};
pub use paging::{Paging, PagingLie, PoolFrames, SharedFrames, SharedPaging};
pub use random::Random;
pub use shrink::{shrink, simplify};

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
