//! The purge as a whole: makes free all that a seat can make free.
//!
//! It works in bounded passes, so that a caller that has to purge for the bound is not held up for
//! long. A [pass] turns lazy into waiting, the [release] waiting into
//! free.

mod inbox;
mod lazy;
mod pass;
mod promise;
mod release;
mod strict;

pub(super) use inbox::lazy_pages;

pub(super) use release::ReleasePart;

use super::seat::Held;
use super::space::MERGES_MAX;
use crate::frame::FrameSource;
use crate::platform::RangePlatform;
use crate::seats::Inboxes;

impl<P: RangePlatform> Held<'_, '_, P> {
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
        while self.release_span(&mut ReleasePart::new(frames), frames) {}
        while self.release_areas(MERGES_MAX, frames) {}
    }
}
