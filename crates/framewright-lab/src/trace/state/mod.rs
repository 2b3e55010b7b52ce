//! What a kernel says of its memory besides the events: snapshots of `/proc`.
//!
//! One file a format; each reader takes text or bytes and names the line that it cannot read.

mod kpageflags;

pub use kpageflags::{FrameState, Snapshot};
