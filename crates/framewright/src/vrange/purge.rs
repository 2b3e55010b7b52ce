//! The purge as a whole: all that a seat can make free becomes so.
//!
//! It is done in bounded passes, so that a caller whom the bound makes purge is not held up for long.
//! A [pass](super::pass) turns lazy into waiting, the [release](super::release) waiting into free.

use super::FrameSource;
use super::seat::{Count, Held, SeatWords};
use super::space::MERGES_MAX;
use crate::platform::{Barrier, Map, Relax};

impl<P: Relax + Barrier + Map> Held<'_, '_, P> {
    pub(super) fn header(&self, at: u32) -> super::Header {
        self.space
            .table
            .header(at)
            .expect("an area has its header until it is released")
    }

    /// Everything that the seat can make free becomes so: what is lazy is unmapped, flushed and
    /// released. What the platform fails to unmap stays lazy.
    pub(super) fn purge_all(&self, frames: &mut impl FrameSource) {
        self.purge_lazy();
        self.release_all(frames);
    }

    /// The same without the release: nothing of it is free yet.
    pub(super) fn purge_lazy(&self) {
        self.collect_inbox();
        while self.pass() {}
        if self.space.unflushed() != 0 {
            self.space.flush(self.words);
        }
    }

    /// Everything whose generation has passed becomes free.
    pub(super) fn release_all(&self, frames: &mut impl FrameSource) {
        while self.release_span(frames) {}
        while self.release_areas(MERGES_MAX, frames) {}
    }
}

/// A count of all seats.
pub(super) fn sum<'m>(seats: impl Iterator<Item = SeatWords<'m>>, counter: Count) -> u64 {
    seats
        .map(|seat| seat.read(counter))
        .fold(0, u64::wrapping_add)
}
