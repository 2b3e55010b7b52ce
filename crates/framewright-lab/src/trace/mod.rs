//! Recorded traces: one file a format, one form in memory.
//!
//! What a trace costs follows from what it holds, never from what it says of itself.
//!
//! # Invariants
//! - **P4** Memory is in proportion to the unpacked bytes that were read: below 1 MiB (2^20 bytes)
//!   and 128 bytes for each byte of PFT1 to PFT5 and of the files of `/proc`, 1,024 bytes for each byte of a
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

mod detect;
mod error;
mod event;
mod failure;
mod in_memory;
mod pages;
mod pft;
pub mod reduce;
mod source;
pub mod state;
mod stream;
mod text;

pub use detect::Recording;
pub(crate) use detect::is_recording;
pub use error::TraceError;
pub use event::{EventKind, TraceEvent};
pub use failure::EndingFailure;
pub use in_memory::{
    Askers, BadFree, CallChains, InitClass, InitObject, KernelWork, Liveness, NameTable, OpKind,
    RequestCounts, RequestTraits, RequestWaits, Trace, TraceMove, TraceOp, TracedWork, WaitSum,
    WorkEvent, WorkKind,
};
pub use pages::PageFormats;
pub(crate) use pages::{FORMATS, PAGES, SECTION_BYTES_MAX, UNTIL, kept_bytes};
pub use pft::{
    read_frames, read_frames_digest, read_pft, write_frames, write_frames_digest, write_pft1,
    write_pft2, write_pft3, write_pft4, write_pft5,
};
pub use source::{Encoding, Input, MemoryLimit, TooMuchMemory, TraceDigest, trace_stem};
pub(crate) use source::{RunningDigest, text_of};
pub use state::{ReadFrameState, Snapshot};
pub use stream::{
    STREAM_MAGIC, STREAM_MAGIC_PAGES, StreamParts, StreamReader, StreamRest, section_line,
};
pub(crate) use text::gfp_names;
pub use text::{Dialect, TextCounts, TextNames, TextReader, WhoAsked};
