//! Spans: their records, and runs in their bitmaps.

pub(super) mod bits;
mod record;

pub(super) use record::{
    Marked, Span, SpanBits, SpanLink, SpanOwner, SpanPlace, SpanRecord, Spans,
};
