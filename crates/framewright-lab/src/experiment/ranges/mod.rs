//! What the experiments on virtual ranges share: a way into an allocator, the allocators that they compare, what stands
//! behind the pages, the options of a run and the metrics.
//!
//! ```text
//!   va_fit, vmap_blocks     what is measured: cases, each with its preparation and its operation
//!         │
//!     SpaceSubject          one CPU's way into an `Allocator`: alloc, free, map_ram, unmap_ram
//!      ┌──┴─────────┐
//!   VmallocList  RangeEngine   the lists of `before` and `proposed` (lists.rs); the engine, configured (engine.rs)
//!      └──┬─────────┘
//!   Null or MappedHost      nothing is mapped (null.rs); or a memfd's frames are (host.rs)
//! ```

mod engine;
mod host;
mod lists;
mod null;
mod options;
pub mod range_metrics;
mod subject;

pub(super) use engine::{RangeEngine, SeatFrames, with_space};
pub(super) use host::{HostedList, with_host};
pub(super) use null::{Null, NumberFrames, relax};
pub use options::SpaceOptions;
pub(super) use options::{RangeArgs, or_all};
pub use subject::{Allocator, SpaceSubject, SubjectCounters};
