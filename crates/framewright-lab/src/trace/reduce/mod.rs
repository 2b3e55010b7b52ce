//! The reduction: events by frame number, as a kernel chose them, become a [`Trace`] of objects.
//!
//! ```text
//!   ftrace text ─▶ Event ─▶ Reducer::push ─▶ Reducer::finish ─▶ Reduction
//!                             │     ▲                             ├ trace, chosen frames
//!        frames ◀─ its holder ┘     │                             ├ counts, anomalies
//!        first snapshot ────────────┘        last snapshot ──────▶└ agreement
//! ```
//!
//! A recording is not a list of allocations and frees that pair up. The bulk allocator has no
//! event, compaction takes its target frames without one, what lay in a per-CPU list looks
//! allocated in a snapshot, and ring buffers lose events. The reduction decides what each event
//! must have meant, and counts each decision in [`Anomalies`].
//!
//! | event | what was known of its frames | becomes |
//! |---|---|---|
//! | alloc | free, or nothing | the next object |
//! | alloc | an object's | a synthetic free of that object (the free was missed), then the alloc |
//! | alloc | allocated in the snapshot, not named yet | an alloc; free at the start (per-CPU list) |
//! | free | one object's, all of it | a free |
//! | free | a part of an object, or several objects | frees of parts and objects |
//! | free in `migrate_pages()` | a movable object's | nothing: the object moved |
//! | free | free; an object moved since | a free of that object |
//! | free in a compaction | free | nothing: isolated, not used |
//! | free | free since operation f, now at n | a synthetic unmovable alloc at (f + n) / 2, and a free |
//! | free | nothing, without a snapshot | an initial object, and a free |
//!
//! # Invariants
//! - **TR1** A free refers to an object that is live there, and no frame of it is freed twice.
//! - **TR2** A frame has one holder at most; an object's frames are its own until they are freed.
//! - **TR3** Each event is counted once in [`EventCounts`], and each departure from it in
//!   [`Anomalies`].
//! - **TR4** The same events and snapshots give the same bytes.
//!
//! # What is not here
//! Reading text (`trace::TextReader`) and writing files (`trace::write_pft1`).
//!
//! # Sources
//! Events: `include/trace/events/{kmem,migrate,compaction}.h` of Linux 6.12 and 6.18. That the
//! bulk allocator and compaction's targets show no event was measured on 6.18.44, with every
//! frame checked against a second snapshot.

mod anomaly;
mod finish;
mod frames;
mod object;
mod places;
mod reducer;
mod reference;
mod rewind;
mod row;
mod tasks;
mod work;

#[cfg(test)]
mod tests;

pub use anomaly::{Anomalies, EventCounts};
pub use reducer::Reducer;
pub use reference::{Agreement, follow_chosen};
pub use rewind::Rewind;
pub use row::ReferenceRow;

use super::{Snapshot, TooMuchMemory, Trace, TraceEvent};
use std::fmt;

/// The largest order the reduction takes: Linux's `MAX_PAGE_ORDER` unless configured otherwise.
pub const ORDER_MAX: u8 = 10;

/// Orders 0 to [`ORDER_MAX`].
const ORDERS: usize = ORDER_MAX as usize + 1;

/// Events turned into objects, with all that is known about how true that is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reduction {
    /// The initial state and the operations.
    pub trace: Trace,
    /// The frame that the recording kernel chose for each allocation of the trace, in order,
    /// in the universe's numbers. Later migrations are not in it.
    pub chosen: Vec<u32>,
    /// For each chunk of 1,024 frames of the universe the number that it had on the machine.
    pub chunks: Vec<u64>,
    /// Every event by kind.
    pub counts: EventCounts,
    /// What the events could not mean as they stand, by kind.
    pub anomalies: Anomalies,
    /// What the recording kernel itself made of memory, once a second.
    pub reference: Vec<ReferenceRow>,
    /// How well the reduction's frames at the end agree with the last snapshot, if there is one.
    pub agreement: Option<Agreement>,
}

/// Why a recording cannot be reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceError {
    /// More operations or objects than 32 bits number.
    TooLong,
    /// More frames than 32 bits number: the events name more than 16 TiB in chunks of 4 MiB.
    TooManyFrames,
    /// The reduction would hold more than its limit.
    TooMuchMemory(TooMuchMemory),
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "the trace has more than {} operations: expected fewer, cut it into parts",
                u32::MAX
            ),
            Self::TooManyFrames => write!(
                f,
                "the events name frames in more than 4194304 chunks of 4 MiB: expected at most 16 TiB of memory"
            ),
            Self::TooMuchMemory(over) => write!(f, "the reduction of the events so far {over}"),
        }
    }
}

impl std::error::Error for ReduceError {}

/// Reduces `events`, with what memory looked like before the first and after the last, where
/// that is known.
///
/// Without a first snapshot the universe is the 4 MiB chunks that the events name, renumbered
/// in order, and frames that no event names count as free; with one, the chunks that are named or had a free frame.
///
/// Memory: 16 bytes an operation, 12 an object, 9 a frame of the 64 around each that an event
/// names, 2 bits a frame of the chunks that are not all alike; never above the reducer's limit.
///
/// # Errors
/// [`ReduceError`] where 32 bits or the memory are too few.
pub fn reduce(
    events: impl IntoIterator<Item = TraceEvent>,
    first: Option<Snapshot>,
    last: Option<&Snapshot>,
) -> Result<Reduction, ReduceError> {
    let mut reducer = Reducer::new(first);
    for event in events {
        reducer.push(&event)?;
    }
    reducer.finish(last)
}
