//! Measuring: what a metric is, and what memory looks like from outside the allocators.
//!
//! A [`Metric`] is a row of a table ([`metric`]): [`replay`] is that of replays, and each experiment has one in its
//! folder; the two on virtual ranges share `experiment/ranges/range_metrics.rs`. [`Observer`] sees the blocks handed out and freed; [`Sample`] is what memory looked like at one
//! moment; [`Means`] are means over a run's samples; the table of askers stands in a file of its own. [`TimeWindows`] and [`bootstrap`] say what a difference between two recordings may be by chance. `docs/metrics.md` has all tables for a reader.

pub mod bootstrap;
mod film;
pub mod metric;
mod observer;
pub mod replay;
mod sample;
mod units;
pub mod who;
mod windows;

pub use film::{Film, Holds, MapCell, Picture};
pub(crate) use metric::grouped;
pub use metric::{Better, Form, Metric, MetricRow, MetricTable};
pub use observer::{AllocatorFault, Observer};
pub use sample::{ListMeans, Means, Sample};
pub use units::{BLOCK_FRAMES, BLOCK_ORDER, MAX_ORDER, REGION_BLOCKS};
pub use windows::TimeWindows;
