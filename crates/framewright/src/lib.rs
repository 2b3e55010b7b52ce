//! Framewright, the engine: page frames with mobility, without a heap beneath it.
//!
//! Modules stand in layers; each may use only those to its left:
//!
//! ```text
//! units < slots, raw, sync, platform, stats < policy < frame
//! ```
#![no_std]
#![deny(unsafe_code)]

pub mod units;

pub use units::{CpuId, Frame, Mobility, Order, Run};
