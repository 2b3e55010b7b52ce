//! Recorded traces: one file a format, one form in memory.

mod event;
mod ops;
pub mod reduce;
mod state;

pub use event::{Event, EventKind};
pub use ops::{InitClass, InitObject, Op, OpKind, Trace};
pub use state::{FrameState, Snapshot};
