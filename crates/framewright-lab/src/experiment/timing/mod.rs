//! How time is taken: the clocks and what a reading costs, the threads that are timed, and what else the machine did
//! meanwhile.
//!
//! - `op_ns_*`: a repetition is a batch of operations between two readings of a clock: of the
//!   thread's CPU time where there is one thread, so that what others have the CPU for is not in
//!   it; of the wall clock where threads wait for one another. The variants take turns, repetition
//!   by repetition, so that caches and neighbours are the same for all of them.
//! - Latencies: a pass of its own, with a reading before and after each call. What two readings
//!   cost by themselves, measured at the start, is subtracted.
//! - Counters and spans of addresses are taken in that second pass, on an allocator that has done
//!   nothing before: with one thread and the same seed they are the same, whatever the clock says.
//! - Threads are bound to one CPU each, begin at a barrier, and stop all as soon as the first one
//!   is done; only what was done until then counts.

mod clock;
mod load;
mod threads;

pub use clock::CalibratedClock;
pub(super) use clock::{Latencies, Quantile, least_and_middle, spread};
pub(super) use load::{FOREIGN_MAX, Load, LoadWatch};
pub(super) use threads::{bind, cpu_ns, cpu_time, joined};
