//! Measuring: each metric once, with its formula, from outside the allocators.
//!
//! [`Observer`] sees the blocks handed out and freed; [`Sample`] is what memory looked like at one
//! moment; [`Means`] are means over a run's samples. [`RangeMetric`] names what the experiments on
//! virtual ranges measure, [`KvMetric`] what that on objects does, `GcmaMetric` that on contiguous memory, `PressureMetric` what memory under
//! pressure costs. `docs/metrics.md` explains them to a reader.

mod film;
#[cfg(target_os = "linux")]
mod gcma;
mod kv;
mod metric;
mod observer;
#[cfg(target_os = "linux")]
mod pressure;
mod range;
mod sample;

pub use film::{Film, Holds, MapCell, Picture};
#[cfg(target_os = "linux")]
pub use gcma::{GcmaMetric, Of};
pub use kv::KvMetric;
pub use metric::{Better, Metric};
pub use observer::{BLOCK_FRAMES, BLOCK_ORDER, Fault, MAX_ORDER, Observer, REGION_BLOCKS};
#[cfg(target_os = "linux")]
pub use pressure::PressureMetric;
pub use range::{Quantile, RangeMetric};
pub use sample::{ListMeans, Means, Sample};
