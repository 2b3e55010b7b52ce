//! Recorded traces: one file a format, one form in memory.
//!
//! What a trace costs follows from what it holds, never from what it says of itself.
//!
//! # Invariants
//! - **P4** Memory is in proportion to the unpacked bytes that were read: below 1 MiB (2^20 bytes)
//!   and 128 bytes for each byte of PFT1 to PFT3 and of the files of `/proc`, 1,024 bytes for each byte of a
//!   text's events; and never above the [`MemoryLimit`]. A number in a header or in a field allocates
//!   nothing: it is first held against the bytes that are there, column by column, and against the
//!   limit. A packed stream has a window besides, of at most 128 MiB.
//! - **P5** Time is in proportion to the unpacked bytes and to the frames that the operations name:
//!   an event names at most 2^10 of them. What is asked once for each second of a trace (a row of the
//!   reference, a sample, a request that fails) costs what has changed since the last time, not what
//!   there is; only the engine's own lists are counted by pageblock, of 512 frames each: a word for
//!   one that is wholly free or full. Tests count steps, not time.
//! - **P6** No input makes a reader panic: numbers that may come from a file are added and multiplied
//!   with a check, or saturate where they are counts.
//! - **P7** What an error shows of an input is printable and as long as a line, its name included.

mod askers;
mod detect;
mod digest;
mod error;
mod event;
mod failure;
mod input;
mod limit;
mod liveness;
mod name;
mod ops;
mod pft;
pub mod reduce;
mod request;
pub mod state;
mod stream;
mod text;
mod work;

pub use askers::{Askers, CallChains, NameTable};
pub use detect::Recording;
pub(crate) use digest::RunningDigest;
pub use digest::TraceDigest;
pub use error::TraceError;
pub use event::{EventKind, TraceEvent};
pub use failure::EndingFailure;
pub(crate) use input::text_of;
pub use input::{Encoding, Input};
pub use limit::{MemoryLimit, TooMuchMemory};
pub use liveness::{BadFree, Liveness};
pub use name::trace_stem;
pub use ops::{InitClass, InitObject, OpKind, Trace, TraceOp};
pub use pft::{
    read_frames, read_frames_digest, read_pft, write_frames, write_frames_digest, write_pft1,
    write_pft2, write_pft3,
};
pub use request::{RequestCounts, RequestTraits};
pub use state::{ReadFrameState, Snapshot};
pub use stream::{STREAM_MAGIC, StreamParts, StreamReader, StreamRest, section_line};
pub(crate) use text::gfp_names;
pub use text::{Dialect, TextCounts, TextNames, TextReader, WhoAsked};
pub use work::{KernelWork, RequestWaits, TracedWork, WaitSum, WorkEvent, WorkKind};
