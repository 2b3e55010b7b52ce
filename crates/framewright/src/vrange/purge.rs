//! The purge as a whole: makes free all that a seat can make free.
//!
//! It works in bounded passes, so that a caller that has to purge for the bound is not held up for
//! long. A [pass](super::pass) turns lazy into waiting, the [release](super::release) waiting into
//! free.

use super::seat::{Held, SpaceCounters, SpaceSeatRecord};
use super::space::MERGES_MAX;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::seats::Inboxes;
use crate::sync::CounterWord;

impl<P: RangePlatform> Held<'_, '_, P> {
    pub(super) fn header(&self, at: u32) -> super::AreaHeader {
        self.space
            .table
            .header(at)
            .expect("an area has its header until it is released")
    }

    /// Makes free all that the seat can make free: unmaps lazy pages, flushes and releases them.
    /// Pages that the platform fails to unmap stay lazy.
    pub(super) fn purge_all(&self, frames: &mut impl FrameSource) {
        self.purge_lazy();
        self.release_all(frames);
    }

    /// The same without the release: no page becomes free yet.
    pub(super) fn purge_lazy(&self) {
        self.collect_inbox();
        while self.pass() {}
        if self.space.unflushed() != 0 {
            self.space.flush(self.words);
        }
    }

    /// Frees everything with a generation that has passed.
    pub(super) fn release_all(&self, frames: &mut impl FrameSource) {
        while self.release_span(frames) {}
        while self.release_areas(MERGES_MAX, frames) {}
    }
}

/// The sum of a counter over all seats.
pub(super) fn sum<'m>(
    seats: impl Iterator<Item = &'m SpaceSeatRecord>,
    counter: fn(&SpaceCounters) -> &CounterWord,
) -> u64 {
    seats
        .map(|seat| counter(&seat.counters).read())
        .fold(0, u64::wrapping_add)
}
