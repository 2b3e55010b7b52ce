//! Framewright, the engine: page frames with mobility, virtual ranges over them, and objects in
//! either, without a heap beneath it.
//!
//! Modules stand in layers; each may use only those to its left:
//!
//! ```text
//! units < sync, stats < raw, platform < seats < slots < policy < frame < vrange < kv, reclaim < percpu, reserve < engine
//! ```
//!
//! For machines with 64-bit atomics, and addresses of 64 or 32 bits. Offsets in zones and sums of metadata are `usize`
//! inside: with addresses of 64 bits a zone may have 2^32 frames, with 32 bits 2^25, which are 128 GiB. The atomics lie in
//! words that are lent, so a `u64` is aligned to 8 bytes, too: on i686 it is not.
#![no_std]
#![deny(unsafe_code)]

#[cfg(not(all(
    any(target_pointer_width = "64", target_pointer_width = "32"),
    target_has_atomic = "64"
)))]
compile_error!(
    "framewright is for targets with 64-bit atomics and addresses of 64 or 32 bits: on others frame numbers would be cut"
);

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod engine;
pub mod frame;
pub mod kv;
mod percpu;
pub mod platform;
pub mod policy;
/// The tests' generator: one file, which the simulator has for all others.
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../framewright-sim/src/random.rs"]
mod random;
pub mod raw;
pub mod reclaim;
pub mod reserve;
mod seats;
mod slots;
pub mod stats;
mod sync;
pub mod units;
pub mod vrange;

pub use units::{
    Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run, RunError,
    SetupError,
};

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
