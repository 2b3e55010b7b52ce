//! Counters as `Copy` snapshots, under Linux's names where Linux has one; and what a slow check finds.

mod broken;
mod contiguous;
mod frame;
mod kv;
mod latency;
mod lock;
mod range;
mod reclaim;
mod reserve;
mod vmstat;

pub use broken::Broken;
pub use contiguous::ContigStats;
pub use frame::{FrameStats, PerOrder};
pub use kv::KvStats;
pub use latency::LatencyHistogram;
pub use lock::LockStats;
pub use range::{FitCounts, RangeStats};
pub use reclaim::ReclaimStats;
pub use reserve::{GuestStats, Occupancy, REFUSALS, ReserveStats};
pub use vmstat::Vmstat;
