//! Counters as `Copy` snapshots, under Linux's names where Linux has one.

mod frame;

pub use frame::{FrameStats, PerOrder};
