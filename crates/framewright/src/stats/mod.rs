//! Counters as `Copy` snapshots, under Linux's names where Linux has one; and what a slow check finds.

mod broken;
mod contiguous;
mod frame;
mod kv;
mod lock;
mod percpu;
mod range;
mod reclaim;
mod reserve;

pub use broken::Broken;
pub use contiguous::ContigStats;
pub use frame::FrameStats;
pub(crate) use frame::PerOrder;
pub use kv::KvStats;
pub use lock::LockStats;
pub use percpu::PerCpuStats;
pub use range::RangeStats;
pub use reclaim::ReclaimStats;
pub(crate) use reserve::REFUSALS;
pub use reserve::{GuestStats, Occupancy, ReserveStats};
