//! Recorded traces: one file a format, one form in memory.

mod detect;
mod error;
mod event;
mod input;
mod liveness;
mod ops;
mod pft1;
pub mod reduce;
pub mod state;
mod text;

pub use detect::Recording;
pub use error::TraceError;
pub use event::{Event, EventKind};
pub use input::{Encoding, Input};
pub use liveness::{BadFree, Liveness};
pub use ops::{InitClass, InitObject, Op, OpKind, Trace};
pub use pft1::{read_frames, read_pft1, write_frames, write_pft1};
pub use state::{FrameState, Snapshot};
pub use text::{Counts, Dialect, TextReader};
