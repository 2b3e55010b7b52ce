//! The kernel's own form of events: the pages of its ring buffers, as `trace_pipe_raw` gives them.
//!
//! ```text
//!   sections `pages.N` ─▶ CpuPages, one a CPU ─▶ PageMerger ─▶ records in order of time
//!   sections `formats.*` ─▶ PageFormats: where which field of a record lies ──┘
//! ```
//!
//! A recorder copies these pages and neither prints nor understands an event. A reader does that later, and not on the machine that
//! is recorded.
//! A page is the time of its first event, a word with the length of its records and two flags about lost events, then the
//! records. A record is a word with its length and the time since the one before, and the event's fields as its
//! `format` file says. `text::record` gives them the meaning that the same event has as text.
//!
//! # Invariants
//! - **RP1** Records come in order of time, those of one time by CPU, as the kernel prints them. What a page says of lost
//!   events comes right before the next event of its CPU.
//! - **RP2** Memory: the pages that wait for those of other CPUs, of [`HELD_BYTES_MAX`] and one section at most. Beyond
//!   that the oldest come out as they are; the reduction counts what is out of order then.
//! - **RP3** No page makes the reader panic or stay in its place: each record takes four bytes or more, and ends within its
//!   page. A fault names the CPU, the page and the byte.
//!
//! # Sources
//! `Documentation/trace/ring-buffer-design.rst` and `events.rst`; the files `events/header_page` and `events/header_event`
//! of tracefs.

mod cpu;
mod flags;
mod format;
mod merge;

use super::{TraceError, TraceEvent};
use std::fmt;

pub(crate) use cpu::kept_bytes;
pub(in crate::trace) use flags::FlagTable;
pub use format::PageFormats;
pub(in crate::trace) use format::{EventFormat, FieldPlace, RecordKind};
pub(in crate::trace) use merge::{MergedRecord, PageMerger};

/// What gives a record the meaning of its event.
pub(in crate::trace) trait TakesRecords {
    /// The event of a record.
    ///
    /// # Errors
    /// If it has none: what is wrong, and what was expected.
    fn record(
        &mut self,
        formats: &PageFormats,
        merged: MergedRecord<'_>,
    ) -> Result<TraceEvent, String>;

    /// What a task is called of which no event has said it.
    fn name_unnamed_task(&mut self, task: u32, name: &[u8]);
}

/// Where a reader of events gets pages from.
pub(in crate::trace) trait PageSource: fmt::Debug + Send {
    /// What error messages call the input.
    fn name(&self) -> &str;

    /// The next event, as `to` understands it, or `None` at the end.
    ///
    /// # Errors
    /// If the input or a record cannot be read. Only a record that `to` refuses is passed over; nothing comes behind any
    /// other fault.
    fn next_event(&mut self, to: &mut dyn TakesRecords) -> Result<Option<TraceEvent>, TraceError>;
}

/// A section of pages has so many bytes at most: what the recorder reads of one CPU at once.
pub(crate) const SECTION_BYTES_MAX: usize = 1 << 20;

/// The names of the sections that say how pages are to be read.
pub(crate) const FORMATS: [&str; 3] = ["formats.machine", "formats.page", "formats.events"];

/// What the name of a CPU's section of pages begins with; its number follows.
pub(crate) const PAGES: &str = "pages.";

/// The section with the time, in nanoseconds, up to which all events stand in front of it.
pub(crate) const UNTIL: &str = "until";
